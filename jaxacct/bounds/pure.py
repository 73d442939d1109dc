"""Releases described by a bound on their loss: randomized response, (epsilon, delta) guarantees, bounded range.

Kairouz, Oh & Viswanath 2015, Theorem 2.4; Dong, Durfee & Rogers 2020; Mironov 2017, Propositions 5 and 6. Shapes: L is
the number of lanes, A that of Renyi orders. Both directions are the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxacct._jax import Array, jax
from jaxacct._method import (
    A_FORMULA,
    BOTH,
    Bracketing,
    BracketMethod,
    Cost,
    Engine,
    Method,
    ProfileMethod,
    Query,
    RenyiMethod,
    Role,
    itself,
)
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._limits import in_closed_form, with_limits
from jaxacct.bounds._one_release import of_one_release
from jaxacct.bounds._orders import MIXED
from jaxacct.bounds._stand_in import in_own_relation
from jaxacct.bounds.bases import BASES, base_of, spread
from jaxacct.bounds.discrete import EXACT as TYPES
from jaxacct.bounds.discrete import types_delta, types_epsilon
from jaxacct.mechanisms import EpsilonDelta, Exponential, RandomizedResponse
from jaxacct.special import down, log1mexp, log1p, softplus, up
from jaxacct.special._namespace import xp

_SLACK = 2.0**-44  # times 1 + E and the logarithms at hand: their rounding, some ten ulp each
_HOST_SLACK = 2.0**-48  # relative, covers some ten roundings on the host
_SHARE_DOWN = 1.0 - 2.0**-42  # the exponential of a logarithm of delta, which may be as low as -745

_Function = Callable[[Any, Array], Array]


def response_log_delta(local: jax.Array, others: jax.Array, epsilon: jax.Array) -> jax.Array:
    """log delta [L] at `epsilon` [L], rounded up, of randomized response with `others` = k - 1 other answers.

    delta = (e^E - e^eps) / (e^E + k - 1), and 0 from eps = E on.
    """
    gap = xp.where(epsilon < local, local - epsilon, 1.0)
    log_delta = log1mexp(-gap) - log1p(others * xp.exp(-local))
    log_delta = log_delta + _SLACK * (1.0 + local + xp.abs(log_delta)) + 2.0**-52 * local / gap
    return xp.where(epsilon < local, xp.minimum(log_delta, 0.0), -xp.inf)


def response_epsilon(local: jax.Array, others: jax.Array, log_delta: jax.Array) -> jax.Array:
    """epsilon [L] at `log_delta` [L], rounded up: log(e^E - delta (e^E + k - 1)), at least 0 and at most E."""
    share = xp.exp(log_delta) * (1.0 + others * xp.exp(-local)) * _SHARE_DOWN
    inside = share < 1.0
    found = local + log1p(-xp.where(inside, share, 0.0))
    found = found + _SLACK * (1.0 + xp.abs(found)) * xp.minimum(1.0, local)
    return xp.where(inside, xp.clip(found, 0.0, local), 0.0)


def response_rdp(local: jax.Array, others: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], rounded up, of randomized response with `others` = k - 1 other answers:

        R_a = log( (e^(aE) + e^((1-a)E) + k - 2) / (e^E + k - 1) ) / (a - 1).

    The quotient less 1 is (e^((a-1)E) - 1) (e^E - e^((1-a)E)) / (e^E + k - 1), without cancellation. For k = 2 Mironov
    2017, Proposition 5. Any order a > 1.
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    some = xp.where(local > 0, local, 1.0)
    log_excess = (a - 1.0) * some + log1mexp(-(a - 1.0) * some) + log1mexp(-a * some) - log1p(others * xp.exp(-some))
    found = softplus(log_excess + _SLACK * (1.0 + xp.abs(log_excess))) / (a - 1.0) * (1.0 + _SLACK)
    return xp.where(local > 0, xp.minimum(found, local), 0.0)


def response_kl(local: jax.Array, others: jax.Array) -> jax.Array:
    """The divergence of order 1 [L], rounded up, of randomized response: E (e^E - 1) / (e^E + k - 1)."""
    return up(-local * xp.expm1(-local) / (1.0 + others * xp.exp(-local)), 32)


def _response(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    def of(release: RandomizedResponse, *at: Any, **rest: Any) -> jax.Array:
        return function(release.local_epsilon, release.num_categories - 1.0, *at, **rest)

    return of


def _guarantee_log_delta(release: EpsilonDelta, epsilon: jax.Array) -> jax.Array:
    """log delta [L], rounded up: D + (1 - D) (e^E - e^eps) / (e^E + 1), D from eps = E on."""
    delta = release.guaranteed_delta
    pure = response_log_delta(release.guaranteed_epsilon, xp.ones_like(delta), epsilon)
    log_delta = xp.where(delta > 0, xp.log(xp.where(delta > 0, delta, 1.0)), -xp.inf)
    rest = xp.where(delta < 1, log1p(-xp.where(delta < 1, delta, 0.0)), -xp.inf)
    whole = xp.where(delta > 0, xp.logaddexp(log_delta, xp.maximum(rest + pure, -2e3)), pure)
    return xp.minimum(whole + _SLACK * (1.0 + xp.abs(xp.where(xp.isneginf(whole), 0.0, whole))), 0.0)


def _guarantee_epsilon(release: EpsilonDelta, log_delta: jax.Array) -> jax.Array:
    """epsilon [L], rounded up: that of the pure part at (delta - D) / (1 - D); inf where delta is below D."""
    least = release.guaranteed_delta
    delta = xp.exp(log_delta) * _SHARE_DOWN
    left = xp.where(delta > least, (delta - least) / xp.where(least < 1, 1.0 - least, 1.0), 0.0) * (1.0 - 2.0**-50)
    some = xp.where(left > 0, left, 1.0)
    found = response_epsilon(release.guaranteed_epsilon, xp.ones_like(least), xp.log(some))
    at_top = xp.where(xp.exp(log_delta) >= least * (1.0 + 2.0**-40), release.guaranteed_epsilon, xp.inf)
    return xp.where(left > 0, found, at_top)


def _guarantee_rdp(release: EpsilonDelta, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of the pure guarantee, rounded up; inf where the guaranteed delta is above 0."""
    pure = response_rdp(release.guaranteed_epsilon, xp.ones_like(release.guaranteed_epsilon), orders=orders)
    return xp.where(release.guaranteed_delta > 0, xp.inf, pure)


def _guarantee_kl(release: EpsilonDelta) -> jax.Array:
    """The divergence of order 1 [L] of the pure guarantee, rounded up: E tanh(E / 2); inf where D is above 0."""
    pure = response_kl(release.guaranteed_epsilon, xp.ones_like(release.guaranteed_epsilon))
    return xp.where(release.guaranteed_delta > 0, xp.inf, pure)


def _range_log_delta(release: Exponential, epsilon: jax.Array) -> jax.Array:
    """log delta [L], rounded up: 2 log(1 - e^((eps - E) / 2)) - log(1 - e^-E), 0 from eps = E on."""
    top = release.range_epsilon
    gap = xp.where(epsilon < top, top - epsilon, 1.0)
    found = 2.0 * log1mexp(-0.5 * gap) - log1mexp(-xp.where(top > 0, top, 1.0))
    found = found + _SLACK * (1.0 + xp.abs(found)) + 2.0**-50 * top / gap
    return xp.where(epsilon < top, xp.minimum(found, 0.0), -xp.inf)


def _range_epsilon(release: Exponential, log_delta: jax.Array) -> jax.Array:
    """epsilon [L], rounded up: E + 2 log(1 - sqrt(delta (1 - e^-E))), at least 0 and at most E."""
    top = release.range_epsilon
    some = xp.where(top > 0, top, 1.0)
    share = xp.exp(0.5 * (log_delta + log1mexp(-some))) * _SHARE_DOWN
    found = some + 2.0 * log1p(-xp.minimum(share, 1.0 - 2.0**-40))
    return xp.where(top > 0, xp.clip(found + _SLACK * (1.0 + some) * xp.minimum(1.0, some), 0.0, top), 0.0)


def _range_rdp(release: Exponential, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], rounded up, of any release of bounded range E, at the worst t for each order:

        R_a = t + log( (1 - e^(-aE)) / (a (1 - e^-E)) ) / (a - 1),   e^t = (a - 1) (1 - e^(-aE)) / (a (e^-E - e^(-aE))),

    t clipped to [0, E]; and at most a E^2 / 8 (Cesar & Rogers 2021, Lemma 3.2), which is sharper where E is tiny.
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    top = xp.where(release.range_epsilon > 0, release.range_epsilon, 1.0)
    log_all, log_rest = log1mexp(-a * top), log1mexp(-(a - 1.0) * top)
    t = xp.clip(top + xp.log((a - 1.0) / a) + log_all - log_rest, 0.0, top)
    # at any t: log(e^((a-1) t) (1 - e^(-aE)) - e^(a t) (e^-E - e^(-aE))) - log(1 - e^-E)
    gain = log1mexp(xp.minimum(t - top + log_rest - log_all, -1e-300))
    found = t + (log_all + gain - log1mexp(-top)) / (a - 1.0)
    error = _SLACK * (1.0 + top + xp.abs(log_all) + xp.abs(log_rest) + xp.abs(gain)) * (1.0 + 1.0 / (a - 1.0))
    least = xp.minimum(found + error, xp.minimum(a * top**2 / 8.0 * (1.0 + _SLACK), top))
    return xp.where(release.range_epsilon > 0, xp.maximum(least, 0.0), 0.0)


def _range_kl(release: Exponential) -> jax.Array:
    """The divergence of order 1 [L], rounded up, at the worst range: x - 1 - log x, x = E / (1 - e^-E).

    The losses are t and t - E for some t in [0, E]; t = E - log x is the worst. At most E^2 / 8, which is sharp near 0.
    """
    top = xp.where(release.range_epsilon > 0, release.range_epsilon, 1.0)
    whole = -xp.expm1(-top)
    more = xp.where(top < 1e-3, 0.5 * top, (top - whole) / whole)  # x - 1; for smaller E the other bound is less
    found = more - log1p(more)
    least = xp.minimum(found + _SLACK * more, top**2 / 8.0 * (1.0 + _SLACK))
    least = xp.where(top < 1e-3, top**2 / 8.0 * (1.0 + _SLACK), least)
    return xp.where(release.range_epsilon > 0, least, 0.0)


def _profile(name: str, theorem: str, log_delta: _Function, epsilon: _Function) -> ProfileMethod:
    return ProfileMethod(
        name=name,
        theorem=theorem,
        directions=BOTH,
        cost=Cost.MICROSECONDS,
        log_delta=log_delta,
        epsilon=epsilon,
        **A_FORMULA,
    )


def _renyi(theorem: str, rdp: Callable[..., jax.Array], **limits: Any) -> RenyiMethod:
    return in_closed_form(theorem, with_limits(rdp, **limits), grids=MIXED, role=Role.BY_NAME)  # a profile is exact


def _guarantee_bracket(
    release: EpsilonDelta, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """The ends in each direction: sums over the outputs; at a delta of at least D, epsilon is at most E."""
    top, least = float(release.guaranteed_epsilon), float(release.guaranteed_delta)
    if query is Query.DELTA:
        ends = Ends(*(types_delta(release, target, Direction.REMOVE, upper=upper) for upper in (False, True)))
        return dict.fromkeys(at.known, ends if target < top else Ends(least, least))
    if target < least:
        return dict.fromkeys(at.known, Ends(math.inf, math.inf))
    lower, upper = (types_epsilon(release, target, Direction.REMOVE, upper=upper) for upper in (False, True))
    return dict.fromkeys(at.known, Ends(min(lower, top), min(upper, top)))


def _range_bracket(
    release: Exponential, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """The ends in each requested direction, in closed form, attained with two candidates."""
    top = float(release.range_epsilon)
    whole = -math.expm1(-top)
    if query is Query.DELTA:
        if target >= top:
            return dict.fromkeys(at.known, Ends(0.0, 0.0))
        gap, error = top - target, 2.0**-52 * top
        low, high = (-math.expm1(-0.5 * max(gap + side * error, 0.0)) for side in (-1.0, 1.0))
        return dict.fromkeys(at.known, Ends(down(low * (low / whole), 32), min(1.0, up(high * (high / whole), 32))))
    share = math.sqrt(target) * math.sqrt(whole)
    error = _HOST_SLACK * top
    low, high = (
        top + 2.0 * math.log1p(-min(share * (1.0 + side * _HOST_SLACK), 1.0 - 2.0**-52)) for side in (1.0, -1.0)
    )
    return dict.fromkeys(at.known, Ends(max(0.0, low - error), min(top, max(0.0, high + error))))


_KAIROUZ = "Kairouz, Oh & Viswanath 2015, Theorem 2.4"
_RANGE = "Dong, Durfee & Rogers 2020, bounded range"
_BY_HOST: dict[str, Any] = {
    "name": "exact",
    "directions": BOTH,
    "ends": frozenset({Bound.UPPER, Bound.LOWER}),
    "cost": Cost.MICROSECONDS,
    "below": itself,
    "engine": Engine.FORMULA,
}
_ALONE = of_one_release(base_of(RandomizedResponse(1.0)), "the definition, over the outputs", spread)
RESPONSE = dataclasses.replace(_ALONE, parts=in_own_relation(_ALONE.parts))
_GUARANTEED = of_one_release(BASES[EpsilonDelta], _KAIROUZ, spread)
GUARANTEE = dataclasses.replace(_GUARANTEED, parts=in_own_relation(_GUARANTEED.parts))
RANGE = of_one_release(BASES[Exponential], _RANGE, spread)

METHODS: dict[tuple[Any, ...], tuple[Method, ...]] = {
    (RandomizedResponse,): (
        TYPES,
        _profile("randomized response", "the definition", _response(response_log_delta), _response(response_epsilon)),
        _renyi(
            "Mironov 2017, Proposition 5, for k answers",
            _response(response_rdp),
            one=_response(response_kl),
            largest=lambda release: release.local_epsilon,
        ),
        loss_distribution(RESPONSE),
    ),
    (EpsilonDelta,): (
        BracketMethod(theorem=_KAIROUZ, bracket=_guarantee_bracket, **_BY_HOST),
        _profile("guarantee", _KAIROUZ, _guarantee_log_delta, _guarantee_epsilon),
        _renyi(
            "Mironov 2017, Proposition 5, for a delta of 0",
            _guarantee_rdp,
            one=_guarantee_kl,
            largest=lambda release: xp.where(release.guaranteed_delta > 0, xp.inf, release.guaranteed_epsilon),
        ),
        loss_distribution(GUARANTEE),
    ),
    (Exponential,): (
        BracketMethod(theorem=_RANGE, bracket=_range_bracket, **_BY_HOST),
        _profile("bounded range", _RANGE, _range_log_delta, _range_epsilon),
        _renyi(
            f"{_RANGE}, at the worst range for each order; Cesar & Rogers 2021, Lemma 3.2",
            _range_rdp,
            one=_range_kl,
            largest=lambda release: release.range_epsilon,
        ),
        loss_distribution(RANGE),
    ),
}
