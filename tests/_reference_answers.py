"""How jaxacct is asked for a reference value: callables of an entry's `args`.

Each goes through jaxacct's code, the public API where that asks the same question, and declines (`Declined`) an entry
that jaxacct answers only by another formula.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _reference import Declined

import jaxacct as ja
from jaxacct._precision import Rounding, float64_kernel
from jaxacct.bounds import _feldman_shenfeld as allocation
from jaxacct.bounds import _gaussian as gaussian
from jaxacct.bounds._dong_chen_ozgur import overlap_remove_rdp
from jaxacct.composition import compose_gaussian_mu
from jaxacct.conversion import curve_delta, curve_epsilon, delta_from_log
from jaxacct.divergence._allocation import general_rdp
from jaxacct.divergence._discrete import discrete_log_moments

Args = dict[str, Any]

DELTA_PRECISION = 0.1
EPSILON_PRECISION = 0.01


def real(value: Any) -> float:
    return float(Fraction(value))


def whole(value: Any) -> int:
    number = Fraction(value)
    if number.denominator != 1:
        raise Declined(f"{value} is not whole")
    return int(number)


def _orders(text: str) -> list[int]:
    first, last = text.removeprefix("integers ").removesuffix(" integers").split("..")
    return list(range(int(first), int(last) + 1))


def _direction(args: Args) -> ja.Direction | None:
    """None asks for the worse of both."""
    return None if args["direction"] == "both" else ja.Direction(args["direction"])


def _allocation(args: Args) -> ja.RandomAllocation:
    return ja.RandomAllocation(
        ja.Gaussian(real(args["sigma"])),
        num_steps=whole(args["num_steps"]),
        num_selected=whole(args.get("num_selected", 1)),
        num_epochs=whole(args.get("num_epochs", 1)) * whole(args.get("copies", 1)),
    )


def _lanes(run: ja.RandomAllocation) -> tuple[float, ...]:
    return run.mechanism.noise_multiplier, run.num_steps, run.num_selected, run.num_epochs


def _of_lanes(sigma: jax.Array, num_steps: jax.Array, num_selected: jax.Array, num_epochs: jax.Array) -> Any:
    return ja.RandomAllocation(ja.Gaussian(sigma), num_steps, num_selected, num_epochs)


@float64_kernel(rounding=Rounding.UP)
def _direct_rdp(*lanes: jax.Array, orders: tuple[float, ...], uneven: bool) -> jax.Array:
    return allocation.direct_remove_rdp(_of_lanes(*lanes), orders=orders, uneven=uneven)


@float64_kernel(rounding=Rounding.UP)
def _unamplified_rdp(*lanes: jax.Array, orders: tuple[float, ...]) -> jax.Array:
    return gaussian.unamplified_rdp(_of_lanes(*lanes), orders=orders)


@float64_kernel(rounding=Rounding.UP)
def _closed_form_add_delta(epsilon: jax.Array, *lanes: jax.Array) -> jax.Array:
    return delta_from_log(allocation.closed_form_add_log_delta(_of_lanes(*lanes), epsilon))


@float64_kernel(rounding=Rounding.UP)
def _gaussian_delta(epsilon: jax.Array, sigma: jax.Array) -> jax.Array:
    return delta_from_log(gaussian.unamplified_log_delta(ja.Gaussian(sigma), epsilon))


@float64_kernel(rounding=Rounding.UP)
def _composed_mu(*mus: jax.Array) -> jax.Array:
    return compose_gaussian_mu([(mu, 1.0) for mu in mus])


@float64_kernel(rounding=Rounding.UP)
def _general_rdp(num_steps: jax.Array, *log_moments: jax.Array, num_bits: int) -> jax.Array:
    return general_rdp(jnp.stack(log_moments), num_steps, num_bits=num_bits)


# Gaussian


def delta_of_gaussian(sigma: float, epsilon: float) -> float:
    if epsilon < 0:  # a privacy profile, but no question of the public API
        return float(_gaussian_delta(epsilon, sigma))
    return ja.delta(ja.Gaussian(sigma), epsilon, method="exact")


def epsilon_of_gaussian(sigma: float, delta: float) -> float:
    return ja.epsilon(ja.Gaussian(sigma), delta, method="exact")


def composed_mu(args: Args) -> float:
    return float(_composed_mu(*map(real, args["mus"])))


def gaussian_sigma(args: Args) -> float:
    return real(args["sigma"]) / whole(args.get("copies", 1)) ** 0.5


# Conversion


def _one_order(order: Any, rdp: Any) -> ja.RdpCurve:
    return _curve([real(order)], [real(rdp)])


def _curve(orders: list[float], rdp: list[float]) -> ja.RdpCurve:
    relation = ja.NeighboringRelation.ADD_OR_REMOVE_ONE
    return ja.RdpCurve(np.asarray(orders, float), np.asarray(rdp, float), ja.Bound.UPPER, relation, "reference")


def delta_at_one_order(args: Args) -> float:
    value = float(curve_delta(_one_order(args["alpha"], args["rho"]), real(args["epsilon"])))
    if value >= 1.0:
        raise Declined("clipped at 1; the formula is not")
    return value


def epsilon_at_one_order(order: Any, rdp: Any, delta: Any) -> float:
    value = float(curve_epsilon(_one_order(order, rdp), real(delta)))
    if value <= 0.0:
        raise Declined("clipped at 0; the formula is not")
    return value


def linear_curve(args: Args) -> ja.RdpCurve:
    if args["curve"] != "rho*order":
        raise Declined(f"curve {args['curve']}")
    orders = _orders(args["orders"])
    return _curve(orders, [real(args["rho"]) * a for a in orders])


# Random allocation


def _rdp(run: ja.RandomAllocation, order: Any, direction: ja.Direction | None) -> float:
    a = real(order)
    if direction is ja.Direction.REMOVE and a == int(a) and a >= 2:
        # a few tables for all orders: each one that ends elsewhere is another program to compile
        top = int(a) if a > 1024 else next(t for t in (64, 256, 512, 1024) if t >= a)
        return float(ja.rdp(run, range(2, top + 1), direction=direction).values[int(a) - 2])
    return float(ja.rdp(run, [a], direction=direction).values[0])


def exact_rdp(args: Args) -> float:
    """1-out-of-t, and compositions of it: exact up to certified slack, save for remove at fractional orders above 2."""
    run, order, direction = _allocation(args), real(args["order"]), _direction(args)
    if direction is not ja.Direction.ADD and order > 2 and order != int(order) and run.num_steps > 1:
        raise Declined("remove at fractional orders above 2 is a chord bound today")
    return _rdp(run, order, direction)


def chord_rdp(args: Args) -> float:
    run, orders = _allocation(args), (real(args["order"]),)
    if _direction(args) is not ja.Direction.REMOVE:
        raise Declined("the chord is for the remove direction")
    value = float(_direct_rdp(*_lanes(run), orders=orders, uneven=True)[0])
    if value >= float(_unamplified_rdp(*_lanes(run), orders=orders)[0]) * (1.0 - 1e-12):
        raise Declined("jaxacct caps the chord at the unamplified divergence")
    return value


def floor_rdp(args: Args) -> float:
    steps, selected = whole(args["num_steps"]), whole(args["num_selected"])
    return exact_rdp({**args, "num_steps": steps - steps % selected})


def rdp_where_groups_are_exact(args: Args) -> float:
    if whole(args["num_selected"]) in (1, whole(args["num_steps"])):
        return exact_rdp(args)
    if args["order"] != 2:
        raise Declined("k-out-of-t beyond order 2: no polynomial algorithm is known")
    return float(overlap_remove_rdp(_allocation(args), orders=[2.0])[0])  # an equality at order 2


def epsilon_from_integer_orders(args: Args) -> float:
    orders, delta = _orders(args["orders"]), real(args["delta"])
    if delta * orders[-1] > np.exp(-1.0):
        raise Declined("the formula's max(0, phi) differs from ours where order * delta > 1/e")
    if _direction(args) is not ja.Direction.REMOVE:
        raise Declined("the method is for the remove direction")
    return ja.epsilon(ja.rdp(_allocation(args), orders, direction=ja.Direction.REMOVE), delta)


def _closed_form_add(args: Args) -> ja.RandomAllocation:
    if _direction(args) is not ja.Direction.ADD:
        raise Declined("the bound is for the add direction")
    return _allocation(args)


def closed_form_delta(args: Args) -> float:
    run, epsilon = _closed_form_add(args), real(args["epsilon"])
    if epsilon < 0:
        return float(_closed_form_add_delta(epsilon, *_lanes(run)))
    return ja.delta(run, epsilon, method="geometric mean", direction=ja.Direction.ADD)


def closed_form_epsilon(args: Args) -> float:
    run = _closed_form_add(args)
    return ja.epsilon(run, real(args["delta"]), method="geometric mean", direction=ja.Direction.ADD)


def profile(ask: Callable[..., float], target: str, precision: float) -> Callable[[Args], float]:
    """A point of a profile, by the privacy loss distribution refined to `precision`."""

    def evaluate(args: Args) -> float:
        run = _run(args)
        if isinstance(run, ja.RandomAllocation) and 1 < run.num_selected < run.num_steps and "randomizer" not in args:
            raise Declined("several steps a record: only the reduction's upper bound")
        at = math.log(real(args["kappa"])) if target == "kappa" else real(args[target])
        if at < 0:
            raise Declined("negative epsilon")
        try:
            return ask(run, at, precision=precision, direction=_direction(args))
        except ja.PrecisionWarning as stopped:  # an error here; below what a grid resolves, in a far tail
            raise Declined(str(stopped)) from stopped

    return evaluate


def exact_profile(args: Args) -> float:
    """`profile` of a mechanism with few outputs: true k-of-t, exact."""
    return ja.delta(_run(args), math.log(real(args["kappa"])), method="exact", direction=_direction(args))


def floor_profile(args: Args) -> float:
    """k runs of 1-out-of-floor(t/k), composed."""
    k = whole(args["num_selected"])
    return _composed_groups(args, {whole(args["num_steps"]) // k: k})


def floor_ceil_profile(args: Args) -> float:
    """k runs whose lengths differ by at most one and add up to t, composed."""
    size, larger = divmod(whole(args["num_steps"]), whole(args["num_selected"]))
    return _composed_groups(args, {size: whole(args["num_selected"]) - larger, size + 1: larger})


def _composed_groups(args: Args, groups: dict[int, int]) -> float:
    sizes = [size for size, count in groups.items() if count > 0]
    runs = tuple(_run({**args, "num_steps": size, "num_selected": 1}) for size in sizes)
    whole_run = ja.Composed(runs, tuple(groups[size] for size in sizes))
    at = math.log(real(args["kappa"]))
    try:
        return ja.delta(whole_run, at, precision=DELTA_PRECISION, direction=_direction(args))
    except ja.PrecisionWarning as stopped:  # an error here
        raise Declined(str(stopped)) from stopped


def _run(args: Args) -> Any:
    steps = whole(args["num_steps"])
    if "randomizer" in args:
        p, q = (tuple(real(x) for x in args["randomizer"][side]) for side in "PQ")
        base: Any = ja.DiscretePair(p, q)
    else:
        base = ja.Gaussian(real(args["sigma"]))
    if "sampling_rate" in args:
        return ja.PoissonSampled(base, real(args["sampling_rate"]), steps)
    epochs = whole(args.get("num_epochs", 1)) * whole(args.get("copies", 1))
    return ja.RandomAllocation(base, steps, whole(args.get("num_selected", 1)), epochs)


def discrete_rdp(args: Args) -> float:
    if _direction(args) is not ja.Direction.REMOVE or whole(args.get("num_selected", 1)) != 1:
        raise Declined("the moments are those of 1-out-of-t, remove")
    order, num_steps = whole(args["order"]), whole(args["num_steps"])
    p, q = ([real(x) for x in args["randomizer"][side]] for side in "PQ")
    log_moments = discrete_log_moments(np.asarray(p), np.asarray(q), order)
    rdp = _general_rdp(num_steps, *log_moments, num_bits=num_steps.bit_length())
    return float(rdp[order - 2])


def shuffle_gaussian_rdp(direction: ja.Direction) -> Callable[[Args], float]:
    def evaluate(args: Args) -> float:
        sigma = Fraction(args["sigma"]) / Fraction(args["sensitivity"])
        return exact_rdp({"sigma": sigma, "num_steps": args["n"], "order": args["order"], "direction": direction.value})

    return evaluate
