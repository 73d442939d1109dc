"""Epsilon and delta inside traced programs, from rounds whose likelihood ratios are moved apart to points.

The contour of `jaxacct.divergence._inversion` on moments of `jaxacct.divergence._spread`: upper ends, both directions,
one program of fixed size. Beside it the moments at real orders give a Renyi bound, which never fails.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxacct._method import Query
from jaxacct.composition import compose_line_moments
from jaxacct.conversion import Optimum, epsilon_from_rdp, log_delta_from_rdp
from jaxacct.divergence._inversion import (
    Line,
    LineMoments,
    alias_orders,
    delta_centre,
    delta_ends,
    delta_slope,
    epsilon_ends,
    make_line,
)
from jaxacct.divergence._spread import NUM_NODES, Spread, damped, log_moments, spread_line

Rounds = Callable[[Any, Any, Any], Sequence[tuple[Spread, Any]]]
"""``(mechanism of lanes, log delta, add) -> `` its rounds, for deltas like this one, and how often each is run [L]."""

# Orders a - 1 that are tried, from the lesser of two: over 1 by the standard deviation of the composed loss, and in all
_LOWEST, _HIGHEST, _LEAST, _NUM_ORDERS = 1e-2, 1e2, 0.03, 80
_OVERSHOOT = 3.0  # log of what Renyi divergences give too much of delta, about
_SPARE = 14.0  # log by which aliases may be larger than where a lower end is wanted too: the line is shorter
_TINY_LOG_DELTA = -60.0  # the least for which rounds are made where delta is asked
_MOST_GROWTH = 0.5  # log of the mass of all rounds: beyond, nothing is said of what may be lost without bound


class _Prepared(NamedTuple):
    """What answers are read off."""

    line: Line
    moments: LineMoments
    by_renyi: Any  # [L], epsilon or log delta


def _standard_deviation(rounds: Sequence[tuple[Spread, Any]]) -> Any:
    """About that of the composed loss [L]."""
    total = jnp.zeros(())
    for of, count in rounds:
        mass = of.mass / jnp.sum(of.mass, axis=1, keepdims=True)
        centred = of.log_ratio - jnp.sum(mass * of.log_ratio, axis=1, keepdims=True)
        total = total + count * jnp.sum(mass * centred * centred, axis=1)
    return jnp.sqrt(total)


def _log_moments(rounds: Sequence[tuple[Spread, Any]], orders: Any, add: Any) -> Any:
    """At least log M [A, L] of all rounds together at real `orders` [A, L]."""
    parts = (count * log_moments(of, orders, add) for of, count in rounds)
    return sum(parts, jnp.zeros(())) * (1.0 + 2.0**-50)


def _by_renyi(rounds: Sequence[tuple[Spread, Any]], add: Any, query: Query, target: Any) -> Optimum:
    """A Renyi bound [L] on epsilon at a log delta, or on log delta at an epsilon, and its order."""
    deviation = _standard_deviation(rounds)
    low, high = jnp.log(jnp.minimum(_LOWEST / deviation, _LEAST)), jnp.log(_HIGHEST / deviation)
    share = jnp.linspace(0.0, 1.0, _NUM_ORDERS, dtype=jnp.float64)[:, None]
    orders = 1.0 + jax.lax.stop_gradient(jnp.exp(low + (high - low) * share))
    curve = _log_moments(rounds, orders, add) / (orders - 1.0) * (1.0 + 2.0**-50)
    return (epsilon_from_rdp if query is Query.EPSILON else log_delta_from_rdp)(orders, curve, target)


def _prepared(rounds: Sequence[tuple[Spread, Any]], add: Any, query: Query, target: Any) -> _Prepared:
    """A line for the target (log delta, or epsilon) [L], the moments on it, and a Renyi bound."""
    found, order = _by_renyi(rounds, add, query, target)
    order = jnp.where(order > 1.0, order, 2.0)
    if query is Query.EPSILON:
        log_delta, about = target, jnp.maximum(found - _OVERSHOOT / (order - 1.0), 0.0)
    else:
        log_delta, about = found - _OVERSHOOT, target
    aliases = _log_moments(rounds, alias_orders(order), add)
    unbounded = jnp.full_like(order, jnp.inf)
    line = make_line(order, about, log_delta + _SPARE, aliases, unbounded, num_nodes=NUM_NODES)
    line = jax.lax.stop_gradient(line._replace(edges=line.edges[:1]))
    moments = compose_line_moments((spread_line(of, line, add), count) for of, count in rounds)
    moments = damped(line, moments._replace(log_alias=aliases), about, log_delta)
    return _Prepared(line, moments, found)


def _dropped(rounds: Sequence[tuple[Spread, Any]], add: Any) -> Any:
    """At least the mass [L] of infinite loss of the composition: of each round's, that of all others being near 1."""
    lost = sum((count * of.beyond for of, count in rounds), jnp.zeros(()))
    log_mass = _log_moments(rounds, jnp.ones_like(lost)[None], add)[0]
    growth = jnp.maximum(log_mass, 0.0) + lost
    return jnp.where(growth <= _MOST_GROWTH, lost * jnp.exp(growth) * (1.0 + 2.0**-40), 1.0)


def _rest(rounds: Sequence[tuple[Spread, Any]], add: Any, log_delta: Any) -> tuple[Any, Any]:
    """log of what is left of delta [L], rounded down, and whether that is half of it or more."""
    left = 1.0 - jnp.exp(jnp.log(_dropped(rounds, add) + 1e-300) - log_delta)
    # rounding leaves it to 2^-48 of itself and of the logarithm while it is a half or more
    return log_delta + jnp.log(jnp.maximum(left, 0.5)) - 2.0**-46 * (1.0 + jnp.abs(log_delta)), left >= 0.5


def _upper_epsilon(rounds: Sequence[tuple[Spread, Any]], add: Any, log_delta: Any) -> Any:
    rest, is_enough = _rest(rounds, add, log_delta)
    line, moments, by_renyi = _prepared(rounds, add, Query.EPSILON, rest)
    found = jnp.fmin(epsilon_ends(line, moments, rest, by_renyi).upper, by_renyi)
    return jnp.where(is_enough, found, jnp.inf)


def _upper_log_delta(rounds: Sequence[tuple[Spread, Any]], add: Any, epsilon: Any) -> Any:
    line, moments, by_renyi = _prepared(rounds, add, Query.DELTA, epsilon)
    found, dropped = jnp.fmin(delta_ends(line, moments, epsilon).upper, by_renyi), _dropped(rounds, add)
    total = jnp.logaddexp(found, jnp.log(dropped + 1e-300))
    return jnp.minimum(total + 2.0**-46 * (1.0 + jnp.abs(total)), 0.0)


def _both_directions(of: Callable[..., Any], target: Any, leaves: Sequence[Any]) -> Any:
    """The larger [L] of what ``of(add, target, *leaves)`` says of lanes of the remove direction and of the add one."""
    add = jnp.arange(2 * len(target)) >= len(target)
    return jnp.max(of(add, *(jnp.concatenate([x, x]) for x in (target, *leaves))).reshape(2, -1), axis=0)


def spread_epsilon(rounds: Rounds, mechanism: Any, log_delta: Any) -> Any:
    """Epsilon [L] at `log_delta` [L], upper end, the worse direction; inf where nothing is known.

    It has the derivatives of the root of log delta(epsilon) - log_delta (implicit function theorem).
    """
    leaves, structure = jax.tree.flatten(mechanism)

    def one_sided(add: Any, log_delta: Any, *leaves: Any) -> Any:
        @jax.custom_jvp
        def upper(log_delta: Any, *leaves: Any) -> Any:
            return _upper_epsilon(rounds(jax.tree.unflatten(structure, leaves), log_delta, add), add, log_delta)

        @upper.defjvp
        def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            found = upper(*primals)
            known = jnp.isfinite(found) & (found > 0.0)
            at = jnp.where(known, found, 1.0)

            def centre(*leaves: Any) -> tuple[Any, Any]:
                """log delta as the sum has it, on the line of the answer, and its derivative in epsilon."""
                of = rounds(jax.tree.unflatten(structure, leaves), primals[0], add)
                line, moments, _ = _prepared(of, add, Query.EPSILON, _rest(of, add, primals[0])[0])
                return delta_centre(line, moments, at), delta_slope(line, moments, at)

            (_, slope), (drift, _) = jax.jvp(centre, primals[1:], tangents[1:])
            usable = known & (slope < 0) & jnp.isfinite(drift)
            return found, jnp.where(usable, (tangents[0] - drift) / jnp.where(slope < 0, slope, -1.0), 0.0)

        return upper(log_delta, *leaves)

    return _both_directions(one_sided, log_delta, leaves)


def spread_log_delta(rounds: Rounds, mechanism: Any, epsilon: Any) -> Any:
    """log delta [L] at `epsilon` [L], upper end, the worse direction; 0 where nothing is known."""
    leaves, structure = jax.tree.flatten(mechanism)

    def one_sided(add: Any, epsilon: Any, *leaves: Any) -> Any:
        def parts(epsilon: Any, *leaves: Any) -> Any:
            """The rounds for about the delta that there is: first for a tiny one, which says what it is."""
            of = jax.tree.unflatten(structure, leaves)
            first = rounds(of, jnp.full_like(epsilon, _TINY_LOG_DELTA), add)
            about = _by_renyi(first, add, Query.DELTA, epsilon).value - _OVERSHOOT
            return rounds(of, jax.lax.stop_gradient(jnp.clip(about, _TINY_LOG_DELTA, 0.0)), add)

        @jax.custom_jvp
        def upper(epsilon: Any, *leaves: Any) -> Any:
            return _upper_log_delta(parts(epsilon, *leaves), add, epsilon)

        @upper.defjvp
        def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            found = upper(*primals)

            def centre(epsilon: Any, *leaves: Any) -> Any:
                line, moments, _ = _prepared(parts(epsilon, *leaves), add, Query.DELTA, epsilon)
                return delta_centre(line, moments, epsilon)

            _, rate = jax.jvp(centre, primals, tangents)
            return found, jnp.where((found < 0.0) & jnp.isfinite(rate), rate, 0.0)

        return upper(epsilon, *leaves)

    return _both_directions(one_sided, epsilon, leaves)
