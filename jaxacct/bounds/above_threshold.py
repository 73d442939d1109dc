"""The sparse vector technique: pure bounds, Renyi divergences, and lower bounds from two probabilities.

Lyu, Su & Li 2017, Theorems 4 and 5; Zhu & Wang 2020; docs/papers/above_threshold.md. Shapes: L is the number of lanes,
A that of Renyi orders. Both directions are equal, since a record may move queries either way.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxacct._method import (
    A_FORMULA,
    BOTH,
    MANY_TOGETHER,
    Bracketing,
    BracketMethod,
    Cost,
    Method,
    ProfileMethod,
    Query,
    RenyiMethod,
    itself,
)
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._limits import with_limits
from jaxacct.bounds._one_release import of_one_release
from jaxacct.bounds._orders import MIXED
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds.bases import BASES, spread
from jaxacct.bounds.bases._base import MAX_LOSS
from jaxacct.bounds.pure import response_epsilon, response_log_delta, response_rdp
from jaxacct.divergence._sparse_vector import any_answer_rdp, laplace_answer_rdp
from jaxacct.divergence._sparse_vector_pair import LAPLACE, NORMAL, Setting, delta_below, epsilon_below
from jaxacct.divergence._two_sided import laplace_rdp
from jaxacct.mechanisms import AboveThreshold, GaussianAboveThreshold
from jaxacct.special import up
from jaxacct.special._namespace import xp

_NEAR_ONE = 1.02  # the Renyi order used in place of 1
# the best order grows without limit as epsilon nears the pure epsilon
_GRIDS = (MIXED[0], (*MIXED[0], *(2.0 ** (0.5 * k) for k in range(13, 81))))
_LYU = "Lyu, Su & Li 2017, Theorems 4 and 5"
_PROVED = "the threshold's noise revealed at the end, docs/papers/above_threshold.md"


def is_composed_of_some(mechanism: Any) -> bool:
    """bool: whether a part of a composition is a run of the sparse vector technique."""
    return any(part.signature() in METHODS for part, _ in mechanism.parts())


def _pure(release: AboveThreshold) -> Any:
    """The pure epsilon [L], rounded up."""
    return up(release.pure_epsilon, 4)


def _known(release: AboveThreshold) -> tuple[Any, Any]:
    """The pure epsilon [L], 1 where it is not finite; and whether it is finite."""
    pure = _pure(release)
    return xp.where(xp.isfinite(pure), pure, 1.0), xp.isfinite(pure)


def _log_delta(release: AboveThreshold, epsilon: Any) -> Any:
    """log delta [L], rounded up, as the pure epsilon implies it."""
    pure, is_known = _known(release)
    return xp.where(is_known, response_log_delta(pure, xp.ones_like(pure), epsilon), 0.0)


def _epsilon(release: AboveThreshold, log_delta: Any) -> Any:
    """epsilon [L], rounded up: the inverse of `_log_delta`."""
    pure, is_known = _known(release)
    return xp.where(is_known, response_epsilon(pure, xp.ones_like(pure), log_delta), xp.inf)


def _rdp(release: AboveThreshold, *, orders: Sequence[float]) -> Any:
    """Renyi divergences [A, L], rounded up: of the threshold's noise and `cutoff` answers (AT-3), or the pure bound."""
    pure, is_known = _known(release)
    by_pure = response_rdp(pure, xp.ones_like(pure), orders=orders)
    a = xp.asarray(orders, xp.float64)[:, None]
    answer = xp.where(is_known, up(release.loss_of_answer, 4), 1.0)
    noise = xp.where(is_known, up(release.loss_of_threshold, 4), 1.0)
    found = up(laplace_rdp(a, noise) + release.cutoff * laplace_answer_rdp(orders, answer), 4)
    return xp.where(is_known, xp.minimum(found, by_pure), xp.inf)


def _gaussian_rdp(release: GaussianAboveThreshold, *, orders: Sequence[float]) -> Any:
    """Renyi divergences [A, L], rounded up: those of the threshold's noise and of `cutoff` answers (AT-4)."""
    a = xp.asarray(orders, xp.float64)[:, None]
    noise = up(0.5 * a * (release.sensitivity / release.threshold_std) ** 2, 16)
    each = up(0.5 * a * (release.reach * release.sensitivity / release.query_std) ** 2, 16)
    found = up(noise + release.cutoff * any_answer_rdp(orders, each, release.num_queries), 8)
    return xp.where(xp.isfinite(found), found, xp.inf)


def _setting(release: AboveThreshold) -> Setting:
    unit, reach = float(release.sensitivity), 1.0 if release.monotonic else 2.0
    scales = float(release.threshold_scale) / unit, float(release.query_scale) / unit
    return Setting(LAPLACE, *scales, reach, int(release.cutoff))


def _gaussian_setting(release: GaussianAboveThreshold) -> Setting:
    unit, queries = float(release.sensitivity), int(release.num_queries)
    answers = min(int(release.cutoff), queries)
    scales = float(release.threshold_std) / unit, float(release.query_std) / unit
    return Setting(NORMAL, *scales, release.reach, answers, queries - answers)


def _from_below(
    setting_of: Callable[[Any], Setting], release: Any, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """Lower ends from two probabilities, equal in both directions since queries may move either way."""
    setting = setting_of(release)
    lower = delta_below(setting, target) if query is Query.DELTA else epsilon_below(setting, target)
    return dict.fromkeys(at.known, Ends(lower, query.worst))


def _two_probabilities(setting_of: Callable[[Any], Setting]) -> BracketMethod:
    return BracketMethod(
        name="two probabilities",
        theorem="the definition, for answers 'below' and then 'above' that queries can be chosen for",
        directions=BOTH,
        ends=frozenset({Bound.LOWER}),
        cost=Cost.MILLISECONDS,
        bracket=functools.partial(_from_below, setting_of),
        below=itself,
    )


_OPTIONS: dict[str, Any] = {"directions": BOTH, "cost": Cost.MICROSECONDS}
DISTRIBUTION = dataclasses.replace(
    of_one_release(BASES[AboveThreshold], _LYU, spread),
    exists=lambda release: not is_scalar(release) or float(release.pure_epsilon) < MAX_LOSS,
)

METHODS: dict[tuple[Any, ...], tuple[Method, ...]] = {
    (AboveThreshold,): (
        _two_probabilities(_setting),
        ProfileMethod(
            name="guarantee",
            theorem=f"{_LYU}; Kairouz, Oh & Viswanath 2015, Theorem 2.4",
            log_delta=_log_delta,
            epsilon=_epsilon,
            **A_FORMULA,
            **_OPTIONS,
        ),
        RenyiMethod(
            name="rdp",
            theorem=_PROVED,
            rdp=with_limits(_rdp, largest=_pure, near_one=_NEAR_ONE),
            grids=_GRIDS,
            numpy=MANY_TOGETHER,
            **_OPTIONS,
        ),
        loss_distribution(DISTRIBUTION),
    ),
    (GaussianAboveThreshold,): (
        _two_probabilities(_gaussian_setting),
        RenyiMethod(
            name="rdp",
            theorem=f"Zhu & Wang 2020; {_PROVED}",
            rdp=with_limits(_gaussian_rdp, near_one=_NEAR_ONE),
            grids=_GRIDS,
            **A_FORMULA,
            **_OPTIONS,
        ),
    ),
}
