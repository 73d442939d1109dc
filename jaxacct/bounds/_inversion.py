"""Exact profiles of compositions of Gaussian and Poisson-sampled Gaussian rounds, certified, both directions.

The pair of Zhu, Dong & Wang 2022, Theorem 11, composed: complex Renyi moments E_Q[(dP/dQ)^(a + ib)] of independent
rounds multiply, and an integral over b, along a line of nodes at fixed a, gives delta; see
`jaxacct.divergence._inversion`. Add/remove adjacency. Loose (never wrong) where the composed loss is nearly an atom or
heavy-tailed, as for a few steps at a small sampling probability: then a bracket is wide, at worst (0, inf).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct import _trees
from jaxacct._jax import jax, jnp
from jaxacct._method import BOTH, BracketMethod, Cost, Engine, LaneBracketMethod, Lanes, Query, never
from jaxacct._types import Bound, Ends
from jaxacct.bounds._host_line import bracket_on_host, is_within_reach
from jaxacct.bounds._parts import flattened
from jaxacct.composition import compose_line_moments
from jaxacct.conversion import delta_from_log, delta_from_log_down, epsilon_from_rdp, log_delta_from_rdp
from jaxacct.divergence._inversion import (
    Line,
    LineMoments,
    alias_orders,
    delta_centre,
    delta_ends,
    epsilon_ends,
    make_line,
)
from jaxacct.divergence.gaussian._line import gaussian_line, gaussian_log_moment
from jaxacct.divergence.gaussian._one_sampled import one_sampled_epsilon_ends, one_sampled_log_delta
from jaxacct.divergence.gaussian._sampled_line import (
    highest_node,
    rough_log_moments,
    sampled_gaussian_line,
)
from jaxacct.mechanisms import Gaussian, PoissonSampled
from jaxacct.special import expm1, log1p


class Size(NamedTuple):
    """How large a program is: nodes on the line, and nodes of the quadrature rule behind each moment."""

    num_nodes: int
    num_z: int


# from cheap to sharp; inside a user's program the second
SIZES = (Size(64, 512), Size(256, 1024), Size(1024, 2048))
# Orders a tried for the line, less 1, in units of 1 over the standard deviation of the composed loss
_SCALES = np.geomspace(1e-2, 1e2, 64)
_MOST_EXPONENT = 600.0  # largest exponent in a guess of a variance, so that e^600 is a double


class _Round(NamedTuple):
    """What a round has to say: functions of the round's fields, on lanes.

    Attributes:
      rough: ``(round, orders, add) -> `` about log E_Q[(dP/dQ)^order].
      on_line: ``(round, line, add, num_z) -> `` its complex moments on the line, with certified errors.
      highest: ``(round, orders, add, num_z) -> `` the largest height up to which the moments are resolved.
      variance: ``(round) -> `` about the variance of its loss.
      steps: ``(round) -> `` of how many steps it consists.
    """

    rough: Callable[[Any, jax.Array, jax.Array], jax.Array]
    on_line: Callable[[Any, Line, jax.Array, int], LineMoments]
    highest: Callable[[Any, jax.Array, jax.Array, int], jax.Array]
    variance: Callable[[Any], jax.Array]
    steps: Callable[[Any], jax.Array]


def _gaussian_rough(part: Gaussian, orders: jax.Array, add: jax.Array) -> jax.Array:
    del add  # the pair is symmetric
    return gaussian_log_moment(orders, part.noise_multiplier)


def _gaussian_on_line(part: Gaussian, line: Line, add: jax.Array, num_z: int) -> LineMoments:
    del add, num_z  # a closed form
    return gaussian_line(line, part.noise_multiplier)


def _gaussian_highest(part: Gaussian, orders: jax.Array, add: jax.Array, num_z: int) -> jax.Array:
    del part, add, num_z
    return jnp.full_like(orders[0], jnp.inf)


def _gaussian_variance(part: Gaussian) -> jax.Array:
    return part.noise_multiplier**-2.0


def _sampled_rough(part: PoissonSampled, orders: jax.Array, add: jax.Array) -> jax.Array:
    return rough_log_moments(orders, part.mechanism.noise_multiplier, part.sampling_prob, add)


def _sampled_on_line(part: PoissonSampled, line: Line, add: jax.Array, num_z: int) -> LineMoments:
    return sampled_gaussian_line(line, part.mechanism.noise_multiplier, part.sampling_prob, add, num_z=num_z)


def _sampled_highest(part: PoissonSampled, orders: jax.Array, add: jax.Array, num_z: int) -> jax.Array:
    return highest_node(orders, part.mechanism.noise_multiplier, add, num_z=num_z)


def _sampled_variance(part: PoissonSampled) -> jax.Array:
    spread = expm1(jnp.minimum(part.mechanism.noise_multiplier**-2.0, _MOST_EXPONENT))
    return log1p(part.sampling_prob**2 * spread)


_ROUNDS: dict[tuple[type, ...], _Round] = {
    (Gaussian,): _Round(
        _gaussian_rough,
        _gaussian_on_line,
        _gaussian_highest,
        _gaussian_variance,
        lambda part: jnp.ones(()),
    ),
    (PoissonSampled, Gaussian): _Round(
        _sampled_rough,
        _sampled_on_line,
        _sampled_highest,
        _sampled_variance,
        lambda part: part.num_steps,
    ),
}


def inverts(mechanism: Any) -> bool:
    """bool: whether `mechanism` consists of rounds whose complex moments are known here."""
    return all(part.signature() in _ROUNDS for part, _ in flattened(mechanism))


def _rounds(mechanism: Any) -> list[tuple[_Round, Any, jax.Array]]:
    """The independent rounds of `mechanism`: (functions of its type, the round, number of times it is run [L])."""
    found = [(_ROUNDS[part.signature()], part, count) for part, count in flattened(mechanism)]
    return [(of, part, of.steps(part) * count) for of, part, count in found]


def _both_directions(x: Any) -> jax.Array:
    return jnp.concatenate([x, x])


def _prepared(mechanism: Any, target: jax.Array, *, is_delta: bool, size: Size) -> tuple[Line, LineMoments, jax.Array]:
    """A line for the target (epsilon, or log delta), the moments on it, and where Newton starts; [2 L] lanes."""
    rounds = _rounds(mechanism)
    add = jnp.arange(target.shape[0]) >= target.shape[0] // 2

    def rough(orders: jax.Array) -> jax.Array:
        return sum((count * of.rough(part, orders, add) for of, part, count in rounds), jnp.zeros(()))

    scale = 1.0 / jnp.sqrt(sum((count * of.variance(part) for of, part, count in rounds), jnp.zeros(())))
    orders = 1.0 + jnp.asarray(_SCALES, jnp.float64)[:, None] * scale
    curve = rough(orders) / (orders - 1.0)
    if is_delta:
        log_delta = target
        epsilon, order = epsilon_from_rdp(orders, curve, log_delta)
    else:
        epsilon = target
        log_delta, order = log_delta_from_rdp(orders, curve, epsilon)
    order = jnp.where(order > 1.0, order, 2.0)
    # Renyi divergences overshoot by about e^3 in delta
    guess = log_delta if is_delta else log_delta - 3.0
    about = jnp.maximum(epsilon - 3.0 / (order - 1.0), 0.0) if is_delta else epsilon
    above = alias_orders(order)
    limits = [of.highest(part, above, add, size.num_z) for of, part, _ in rounds]
    highest = functools.reduce(jnp.minimum, limits)
    # the integral does not depend on where the line is: nor do derivatives
    line = jax.lax.stop_gradient(make_line(order, about, guess, rough(above), highest, num_nodes=size.num_nodes))
    moments = compose_line_moments((of.on_line(part, line, add, size.num_z), count) for of, part, count in rounds)
    return line, moments, epsilon


def _at_epsilon(of: Callable[..., Any], structure: Any, size: Size) -> Callable[..., Any]:
    """``(epsilon [2 L], *leaves) -> of(line, moments, epsilon)`` on a line for delta at epsilon of such a mechanism."""

    def answer(epsilon: jax.Array, *leaves: jax.Array) -> Any:
        line, moments, _ = _prepared(_trees.unflatten(structure, leaves), epsilon, is_delta=False, size=size)
        return of(line, moments, epsilon)

    return answer


def _split(ends: Ends[jax.Array]) -> Ends[jax.Array]:
    return Ends(*(x.reshape(2, -1) for x in ends))


def inverted_epsilon(mechanism: Any, log_delta: jax.Array, *, size: Size) -> Ends[jax.Array]:
    """Certified lower and upper ends [2, L] of epsilon at delta = exp(`log_delta` [L]): remove, then add.

    Zhu, Dong & Wang 2022, Theorem 11. At worst (0, inf). Both ends have the derivatives of the root of log
    delta(epsilon) - log_delta (implicit function theorem).
    """
    leaves, structure = _trees.flatten(mechanism)

    @jax.custom_jvp
    def ends(target: jax.Array, *leaves: jax.Array) -> Ends[jax.Array]:
        doubled = _trees.unflatten(structure, leaves)
        line, moments, start = _prepared(doubled, target, is_delta=True, size=size)
        return epsilon_ends(line, moments, target, start)

    profile = _at_epsilon(delta_centre, structure, size)

    @ends.defjvp
    def _jvp(
        primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
    ) -> tuple[Ends[jax.Array], Ends[jax.Array]]:
        found = ends(*primals)
        at = jnp.where(jnp.isfinite(found.upper), found.upper, 1.0)
        _, slope = jax.jvp(lambda epsilon: profile(epsilon, *primals[1:]), (at,), (jnp.ones_like(at),))
        _, drift = jax.jvp(lambda *x: profile(at, *x), primals[1:], tangents[1:])
        usable = jnp.isfinite(found.upper) & (slope < 0)
        rate = jnp.where(usable, (tangents[0] - drift) / jnp.where(slope < 0, slope, -1.0), 0.0)
        return found, Ends(rate, rate)

    return _split(ends(_both_directions(log_delta), *map(_both_directions, leaves)))


def inverted_log_delta(mechanism: Any, epsilon: jax.Array, *, size: Size) -> Ends[jax.Array]:
    """Certified lower and upper ends [2, L] of log delta at `epsilon` [L]: remove, then add.

    Zhu, Dong & Wang 2022, Theorem 11. At worst (-inf, 0). Both ends have the derivatives of the log delta between them.
    """
    leaves, structure = _trees.flatten(mechanism)

    ends = jax.custom_jvp(_at_epsilon(delta_ends, structure, size))
    profile = _at_epsilon(delta_centre, structure, size)

    @ends.defjvp
    def _jvp(
        primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
    ) -> tuple[Ends[jax.Array], Ends[jax.Array]]:
        found = ends(*primals)
        _, rate = jax.jvp(profile, primals, tangents)
        rate = jnp.where((found.upper < 0.0) & jnp.isfinite(rate), rate, 0.0)  # where nothing is known, nothing moves
        return found, Ends(rate, rate)

    return _split(ends(_both_directions(epsilon), *map(_both_directions, leaves)))


def _bracket(mechanism: Any, query: Query, target: jax.Array, *, size: Size) -> Ends[jax.Array]:
    """Lower and upper ends [2, L] of epsilon at a delta, or of delta at an epsilon: remove, then add.

    Of one sampled step by its closed form.
    """
    if query is Query.EPSILON:
        log_delta = jnp.log(target)
        found = inverted_epsilon(mechanism, log_delta, size=size)
        return _closed(one_sampled_epsilon_ends, mechanism, log_delta, found)
    log_ends = inverted_log_delta(mechanism, target, size=size)
    log_ends = _closed(one_sampled_log_delta, mechanism, target, log_ends)
    return Ends(delta_from_log_down(log_ends.lower), delta_from_log(log_ends.upper))


def _closed(
    of: Callable[..., Ends[jax.Array]], mechanism: Any, given: jax.Array, otherwise: Ends[jax.Array]
) -> Ends[jax.Array]:
    """The ends [2, L] of a closed form ``of(given, noise multiplier, probability, add=)`` where all is one step."""
    every: list[tuple[Any, Any]] = list(flattened(mechanism))
    if len(every) > 1 or every[0][0].signature() != (PoissonSampled, Gaussian):
        return otherwise
    ((step, count),) = every
    noise, prob = (x * jnp.ones_like(given) for x in (step.mechanism.noise_multiplier, step.sampling_prob))
    found = (of(given, noise, prob, add=add) for add in (False, True))
    is_one = step.num_steps * count == 1
    return Ends(*(jnp.where(is_one, jnp.stack(x), y) for x, y in zip(zip(*found, strict=True), otherwise, strict=True)))


def _lane_bytes(*, size: Size) -> int:
    """Working memory of one lane, bytes."""
    return 1024 * size.num_z


def _method(
    name: str, name_below: str | None, applies: Callable[[Any], bool], *, cold: Cost, is_listed: bool
) -> LaneBracketMethod:
    facts: dict[str, Any] = {
        "name": name,
        "name_below": name_below,
        "theorem": "Zhu, Dong & Wang 2022, Theorem 11",
        "directions": BOTH,
        "ends": frozenset({Bound.UPPER, Bound.LOWER}),
        "cost": Cost.MILLISECONDS,
        "cold": cold,
        "reduction": never,
        "engine": Engine.CONTOUR,
        "named_width": 1e-9,
        "is_listed": is_listed,
    }
    concrete = BracketMethod(
        applies=lambda mechanism: applies(mechanism) and is_within_reach(mechanism), bracket=bracket_on_host, **facts
    )
    return LaneBracketMethod(
        applies=applies,
        bracket=_bracket,
        traced_size=SIZES[1],
        lanes=Lanes(bytes=_lane_bytes),
        concrete=concrete,
        **facts,
    )


EXACT = _method("exact", "exact, from below", inverts, cold=Cost.MILLISECONDS, is_listed=True)


def beside_closed_form(applies: Callable[[Any], bool]) -> LaneBracketMethod:
    """The method "moment inversion" (class `LaneBracketMethod`), for mechanisms whose upper end has a closed form.

    One contour gives both ends. It is asked where the lower one is wanted: the closed form is planned to cost as much.
    """
    return _method("moment inversion", None, applies, cold=Cost.TENTHS, is_listed=False)
