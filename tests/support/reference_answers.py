"""How jaxacct is asked for a reference value: callables of an entry's `args`.

Each goes through jaxacct's code, the public API where that asks the same question, and declines (`Declined`) an entry
that jaxacct answers only by another formula.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import numpy as np

import jaxacct as ja
from jaxacct._precision import Rounding, float64_kernel
from jaxacct.bounds import gaussian
from jaxacct.bounds.allocation import _renyi as allocation
from jaxacct.bounds.discrete import types_delta
from jaxacct.composition import compose_gaussian_mu
from jaxacct.conversion import curve_delta, curve_epsilon, delta_from_log
from jaxacct.divergence.allocation._fractional import fractional_rdp
from jaxacct.papers.girgis import at_real_orders
from jaxacct.papers.random_allocation import discrete_remove_rdp, exact_overlap_rdp
from support.reference import Declined, real, span

Args = dict[str, Any]

# What the certified interval is asked for first; if that cannot be had, what is still accepted.
FINE = 1e-4
DELTA_PRECISION = 0.01
# The reference's secant stops 3e-4 too low at sigma 0.3, t 125 (delta there is 1.00446e-4, not 1e-4).
EPSILON_PRECISION = 1e-3


def whole(value: Any) -> int:
    number = Fraction(value)
    if number.denominator != 1:
        raise Declined(f"{value} is not whole")
    return int(number)


def _direction(args: Args) -> ja.Direction | None:
    """None asks for the worse of both."""
    return None if args["direction"] == "both" else ja.Direction(args["direction"])


def _worse(value: Callable[[ja.Direction], float], args: Args) -> float:
    """`value` at the entry's direction; the larger for both."""
    return max(value(d) for d in (ja.Direction if args["direction"] == "both" else (ja.Direction(args["direction"]),)))


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


@float64_kernel(rounding=Rounding.UP, lane_bytes=2**22)
def _fractional(sigma: jax.Array, num_steps: jax.Array, *, orders: tuple[float, ...]) -> jax.Array:
    return fractional_rdp(sigma, num_steps, orders=orders)


@float64_kernel(rounding=Rounding.UP)
def _closed_form_add_delta(epsilon: jax.Array, *lanes: jax.Array) -> jax.Array:
    return delta_from_log(allocation.closed_form_add_log_delta(_of_lanes(*lanes), epsilon))


@float64_kernel(rounding=Rounding.UP)
def _gaussian_delta(epsilon: jax.Array, sigma: jax.Array) -> jax.Array:
    return delta_from_log(gaussian.unamplified_log_delta(ja.Gaussian(sigma), 1.0, epsilon))


@float64_kernel(rounding=Rounding.UP)
def _composed_mu(*mus: jax.Array) -> jax.Array:
    return compose_gaussian_mu([(mu, 1.0) for mu in mus])


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
    return float(curve_delta(_one_order(args["alpha"], args["rho"]), real(args["epsilon"])))


def epsilon_at_one_order(order: Any, rdp: Any, delta: Any) -> float:
    """Not clipped at 0: the formula moves with `rdp`, so that it is read where it is positive."""
    value = float(curve_epsilon(_one_order(order, rdp), real(delta)))
    if value > 0.0:
        return value
    shift = 2.0 ** math.ceil(math.log2(1.0 - math.log(real(delta)) / (real(order) - 1.0)) + 4.0)
    moved = Fraction(float(curve_epsilon(_one_order(order, Fraction(rdp) + Fraction(shift)), real(delta))))
    return float(moved - Fraction(shift))


# Random allocation


def _rdp(run: ja.RandomAllocation, order: Any, direction: ja.Direction | None) -> float:
    a = real(order)
    if direction is ja.Direction.REMOVE and a == int(a) and a >= 2:
        # a few tables for all orders: each one that ends elsewhere is another program to compile
        top = int(a) if a > 1024 else next(t for t in (64, 256, 512, 1024) if t >= a)
        return float(ja.rdp(run, range(2, top + 1), direction=direction).values[int(a) - 2])
    return float(ja.rdp(run, [a], direction=direction).values[0])


def _single_rdp(sigma: float, num_steps: int, order: float, direction: ja.Direction) -> float:
    """1-out-of-t, one epoch: exact up to certified slack at any order."""
    if direction is ja.Direction.REMOVE and order > 2 and order != int(order) and num_steps > 1:
        return float(_fractional(sigma, num_steps, orders=(order,))[0])
    return _rdp(ja.RandomAllocation(ja.Gaussian(sigma), num_steps), order, direction)


def exact_rdp(args: Args) -> float:
    """Of compositions of 1-out-of-t: for k > 1 of k groups, their lengths floor and ceil of t/k."""
    sigma, order = real(args["sigma"]), real(args["order"])
    k, runs = whole(args.get("num_selected", 1)), whole(args.get("num_epochs", 1)) * whole(args.get("copies", 1))
    size, larger = divmod(whole(args["num_steps"]), k)
    groups = {n: count for n, count in {size: k - larger, size + 1: larger}.items() if count}
    return _worse(lambda d: runs * sum(c * _single_rdp(sigma, n, order, d) for n, c in groups.items()), args)


def chord_rdp(args: Args) -> float:
    if _direction(args) is not ja.Direction.REMOVE:
        raise Declined("the chord is for the remove direction")
    order = real(args["order"])
    whole_orders = range(2, max(2, math.ceil(order)) + 1)
    curve = ja.rdp(_allocation(args), whole_orders, direction=ja.Direction.REMOVE).values
    return float(at_real_orders(curve, orders=[order])[0])


def floor_rdp(args: Args) -> float:
    steps, selected = whole(args["num_steps"]), whole(args["num_selected"])
    return exact_rdp({**args, "num_steps": steps - steps % selected})


def rdp_where_groups_are_exact(args: Args) -> float:
    """True k-out-of-t."""
    if whole(args["num_selected"]) in (1, whole(args["num_steps"])):
        return exact_rdp(args)
    value = exact_overlap_rdp(_allocation(args), order=whole(args["order"])) if args["direction"] == "remove" else None
    if value is None or math.isinf(value):
        raise Declined("k-out-of-t at a high order with many steps a record, or add: no algorithm is known")
    return value


def epsilon_from_integer_orders(args: Args) -> float:
    """An order with order * delta > 1/e, where the term added is negative, counts as the divergence itself."""
    orders, delta = span(args["orders"]), real(args["delta"])
    curves = [
        ja.rdp(_allocation(args), orders, direction=d)
        for d in (ja.Direction if args["direction"] == "both" else (ja.Direction(args["direction"]),))
    ]
    return max(_from_curve(orders, np.asarray(curve.values), delta) for curve in curves)


def _from_curve(orders: tuple[int, ...], values: np.ndarray, delta: float) -> float:
    a = np.asarray(orders, float)
    plain = np.log1p(-1.0 / a) - np.log(delta * a) / (a - 1.0) < 0.0
    least = float(values[plain].min(initial=math.inf))
    if plain.all():
        return least
    kept = [order for order, out in zip(orders, plain, strict=True) if not out]
    return min(least, ja.epsilon(_curve([float(x) for x in kept], list(values[~plain])), delta))


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


def _point(args: Args) -> tuple[bool, float]:
    """(whether epsilon is asked for, delta or epsilon of the entry)."""
    if "delta" in args:
        return True, real(args["delta"])
    return False, math.log(real(args["kappa"])) if "kappa" in args else real(args["epsilon"])


def _delta_at(value: Callable[[float, ja.Direction], float], epsilon: float, direction: ja.Direction) -> float:
    """`value` at any real epsilon: H_k(P|Q) = 1 - k + k H_1/k(Q|P)."""
    if epsilon >= 0.0:
        return value(epsilon, direction)
    other = ja.Direction.ADD if direction is ja.Direction.REMOVE else ja.Direction.REMOVE
    return -math.expm1(epsilon) + math.exp(epsilon) * value(-epsilon, other)


def _certified(ask: Callable[..., float], run: Any, at: float, **options: Any) -> float:
    for precision in (FINE, DELTA_PRECISION):
        try:
            return ask(run, at, precision=precision, **options)
        except ja.PrecisionWarning as stopped:  # an error here; below what a grid resolves, in a far tail
            reason = stopped
    raise Declined(str(reason)) from reason


def profile(args: Args) -> float:
    """A point of a profile, by the exact engine or the privacy loss distribution, refined to `FINE`."""
    run = _run(args)
    if isinstance(run, ja.RandomAllocation) and 1 < run.num_selected < run.num_steps and "randomizer" not in args:
        raise Declined("several steps a record: only the reduction's upper bound")
    inverse, at = _point(args)
    if inverse:
        return _certified(ja.epsilon, run, at, direction=_direction(args))
    return _worse(lambda d: _delta_at(lambda e, d: _certified(ja.delta, run, e, direction=d), at, d), args)


def exact_profile(args: Args) -> float:
    """`profile` of mechanisms with few outputs: sums over types, true k-of-t."""
    return _by_types(_run(args), args)


def _by_types(run: Any, args: Args) -> float:
    _, at = _point(args)
    return _worse(
        lambda d: _delta_at(lambda e, d: types_delta(run, e, d, upper=True), at, d),
        args,
    )


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
    if "randomizer" in args:
        return _by_types(whole_run, args)
    inverse, at = _point(args)
    ask = ja.epsilon if inverse else ja.delta
    return _certified(ask, whole_run, at, direction=_direction(args))


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
    rdp = discrete_remove_rdp(p, q, num_steps=num_steps, max_order=order)
    return whole(args.get("num_epochs", 1)) * float(rdp[order - 2])


def shuffle_gaussian_rdp(direction: ja.Direction) -> Callable[[Args], float]:
    def evaluate(args: Args) -> float:
        sigma = Fraction(args["sigma"]) / Fraction(args["sensitivity"])
        return exact_rdp({"sigma": sigma, "num_steps": args["n"], "order": args["order"], "direction": direction.value})

    return evaluate
