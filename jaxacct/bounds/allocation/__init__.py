"""Bounds for random allocation (each record in k of t steps, chosen uniformly), unfinished epochs, noise schedules."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import (
    BOTH,
    Bracketing,
    BracketMethod,
    Cost,
    Method,
    ProfileMethod,
    Query,
    RenyiMethod,
    Role,
    itself,
    only_where,
)
from jaxacct._types import Bound, Direction, Ends, TooFineError
from jaxacct.bounds._by_laws import laws
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._limits import NEAR_ONE, with_limits
from jaxacct.bounds._moments import many_brackets, moments
from jaxacct.bounds._orders import BETWEEN, LOW, SPARSE, WHOLE
from jaxacct.bounds._split import selects_several, single_step, split_statics
from jaxacct.bounds.allocation import _renyi as renyi
from jaxacct.bounds.allocation._decomposition import decomposition_delta, decomposition_epsilon
from jaxacct.bounds.allocation._exact import EXACT, PARTIAL_EXACT
from jaxacct.bounds.allocation._how_many import HOW_MANY
from jaxacct.bounds.allocation._laplace import LAPLACE
from jaxacct.bounds.allocation._large_noise import LARGE_NOISE
from jaxacct.bounds.allocation._largest_output import largest_output_delta, largest_output_epsilon
from jaxacct.bounds.allocation._law import DISTRIBUTION, PARTIAL_DISTRIBUTION, SCHEDULED_DISTRIBUTION
from jaxacct.bounds.allocation._overlap import overlap_delta, overlap_epsilon
from jaxacct.bounds.allocation._posterior_rate import doob_tail, truncated_delta, truncated_epsilon, untied_tail
from jaxacct.bounds.allocation._threshold_test import TESTED, THRESHOLD_TEST, is_tried
from jaxacct.bounds.bases import BASES
from jaxacct.bounds.discrete import EXACT as TYPES
from jaxacct.bounds.gaussian import unamplified
from jaxacct.bounds.poisson._participation import participation_on_host
from jaxacct.mechanisms import (
    DiscretePair,
    Gaussian,
    Laplace,
    PartialAllocation,
    PoissonSampled,
    RandomAllocation,
    ScheduledAllocation,
)

_FS = "Feldman & Shenfeld 2025"
_SPLIT: dict[str, Any] = {"statics": split_statics, "lane_bytes": renyi.lane_bytes}
_COSTS: dict[str, Any] = {"cost": Cost.MILLISECONDS}
_Function = Callable[[Any, float, Direction], float]


def _published(
    name: str,
    theorem: str,
    epsilon: _Function,
    delta: _Function,
    *,
    ends: Bound = Bound.UPPER,
    directions: tuple[Direction, ...] = BOTH,
    **options: Any,
) -> BracketMethod:
    """A `BracketMethod` (host) for a published bound that gives one end, in one direction at a time.

    Args:
      epsilon, delta: ``(mechanism, target, direction) -> float``; TooFineError means that nothing is known.
      ends: whether they are upper or lower bounds.
      options: further fields of the method.
    """
    is_upper = ends is Bound.UPPER

    def bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> dict[Direction, Ends[float]]:
        def one(direction: Direction) -> float:
            try:
                return (epsilon if query is Query.EPSILON else delta)(mechanism, target, direction)
            except TooFineError:
                return query.worst if is_upper else 0.0

        found = {d: one(d) for d in at.known}
        return {d: Ends(0.0, x) if is_upper else Ends(x, query.worst) for d, x in found.items()}

    return BracketMethod(
        name=name,
        theorem=theorem,
        directions=directions,
        ends=frozenset({ends}),
        bracket=bracket,
        below=itself,
        **{"cost": Cost.SECONDS, **options},
    )


def _closed_form_floor(mechanism: RandomAllocation, log_delta: NDArray[Any]) -> NDArray[Any]:
    """A cheap guess [L], from below, at the epsilon of "geometric mean": the shift in Corollary 4.10's closed form."""
    size = np.floor(np.asarray(mechanism.num_steps, float) / np.asarray(mechanism.num_selected, float))
    sigma = np.clip(np.asarray(mechanism.mechanism.noise_multiplier, float), 1e-100, 1e100)
    return np.asarray(renyi.uses(mechanism), float) * (1.0 - 1.0 / size) / (2.0 * sigma**2) + np.zeros(
        np.shape(log_delta)
    )


def _by_moments(
    direct: str, tops: tuple[int, ...], between: str, grids: Any, *, floor: Any = None, **options: Any
) -> tuple[Method, ...]:
    """The methods that use moments of the average likelihood ratio of Gaussian steps.

    Args:
      direct, tops: the theorem behind moments of whole orders, and the largest order of each grid that is tried.
      between, grids: the name of the method of other orders of the remove direction, and the orders tried.
      floor: the `floor` of `ProfileMethod`, for the closed form.
      options: further fields of the methods.
    """

    def curve(name: str, theorem: str, direction: Direction, rdp: Any, grids: Any) -> RenyiMethod:
        return RenyiMethod(
            name=name,
            theorem=f"{_FS}, {theorem}",
            directions=(direction,),
            rdp=with_limits(rdp, near_one=NEAR_ONE),
            grids=grids,
            **_COSTS,
            **options,
        )

    moments = "Theorem 3.1, Renyi moments of"
    whole, real = tuple(WHOLE[top] for top in tops), tuple(SPARSE[top] for top in (64, 256, 1024))
    return (
        curve("direct", direct, Direction.REMOVE, renyi.direct_remove_rdp, whole),
        curve(between, f"{moments} fractional order", Direction.REMOVE, renyi.fractional_remove_rdp, grids),
        ProfileMethod(
            name="geometric mean",
            theorem=f"{_FS}, Theorem 4.9 (corrected) and Corollary 4.10",
            directions=(Direction.ADD,),
            log_delta=renyi.closed_form_add_log_delta,
            epsilon=renyi.closed_form_add_epsilon,
            floor=floor,
            **_COSTS,
            **options,
        ),
        curve("real orders", f"{moments} real order", Direction.ADD, renyi.laplace_add_rdp, real),
    )


_RENYI = (
    *_by_moments(
        "Theorem 4.8 and Corollary 4.10",
        (64, 256, 1024, 2048),
        "fractional orders",
        (BETWEEN, LOW),  # inside a user's jit the second, half the program
        floor=_closed_form_floor,
        **_SPLIT,
    ),
    unamplified(renyi.uses),
)

_PUBLISHED = (
    _published(
        "decomposition",
        f"{_FS}, Theorem 4.6, its rate optimised",
        decomposition_epsilon,
        decomposition_delta,
        role=Role.BY_NAME,
    ),
    _published(
        "truncated Poisson",
        f"{_FS}, Lemma 4.3, the tail by Doob's inequality",
        functools.partial(truncated_epsilon, tail_bound=doob_tail),
        functools.partial(truncated_delta, tail_bound=doob_tail),
        role=Role.BY_NAME,
    ),
    _published(
        "recursive",
        f"{_FS}, Theorem 4.2, its threshold untied",
        functools.partial(truncated_epsilon, tail_bound=untied_tail),
        functools.partial(truncated_delta, tail_bound=untied_tail),
        role=Role.BY_NAME,
    ),
)


_WITHOUT_REDUCTION = (
    _published(
        "overlap",
        "Dong, Chen & Ozgur 2025, remove direction",
        overlap_epsilon,
        overlap_delta,
        directions=(Direction.REMOVE,),
        role=only_where(selects_several, Role.SHARPER),
        regime="Renyi orders 2 and up",
        cost=Cost.MILLISECONDS,
    ),
    _published(
        "largest output",
        "Chua et al. 2024, Balls-and-Bins Sampling for DP-SGD, threshold events",
        largest_output_epsilon,
        largest_output_delta,
        ends=Bound.LOWER,
        role=only_where(lambda run: selects_several(run) and not is_tried(run), Role.SHARPER),  # else below the test
        regime="the test: was any output large?",
        cost=Cost.TENTHS,
    ),
)

_SCHEDULED = (
    *_by_moments("Theorem 3.1; Theorem 4.8, cumulants added over the steps", (64, 256, 1024), "low orders", (LOW,)),
    ProfileMethod(
        name="no amplification",
        theorem="Balle & Wang 2018, Theorem 8",
        directions=BOTH,
        log_delta=renyi.revealed_log_delta,
        epsilon=renyi.revealed_epsilon,
        **_COSTS,
    ),
)

_DISTRIBUTION = loss_distribution(DISTRIBUTION)
_PARTICIPATION = participation_on_host(
    lambda run: (run.mechanism.sampling_prob, run.mechanism.num_steps * run.num_selected * run.num_epochs),
    "total variation: with probability (1 - q)^T the record joins none of the sampled steps of its groups",
)
_OF_PARTIAL = loss_distribution(PARTIAL_DISTRIBUTION)

# in the order in which they are asked, by their cost: methods on the host, then those on lanes
METHODS: dict[tuple[Any, ...], tuple[Method, ...]] = {
    **{(RandomAllocation, base): (_DISTRIBUTION, HOW_MANY) for base in BASES},
    **{(RandomAllocation, PoissonSampled, base): (_PARTICIPATION, _DISTRIBUTION) for base in BASES},
    **{(RandomAllocation, base): (THRESHOLD_TEST, _DISTRIBUTION, HOW_MANY) for base in TESTED},
    **{(RandomAllocation, PoissonSampled, base): (_PARTICIPATION, THRESHOLD_TEST, _DISTRIBUTION) for base in TESTED},
    **{(PartialAllocation, base): (_OF_PARTIAL,) for base in BASES if base is not Gaussian},
    (RandomAllocation, DiscretePair): (TYPES, THRESHOLD_TEST, _DISTRIBUTION, HOW_MANY),
    (RandomAllocation, Laplace): (THRESHOLD_TEST, _DISTRIBUTION, laws(), *LAPLACE, HOW_MANY),
    (RandomAllocation, Gaussian): (
        EXACT,
        LARGE_NOISE,
        moments(single_step, many=many_brackets),
        THRESHOLD_TEST,
        _DISTRIBUTION,
        laws(),
        *_RENYI,
        *_PUBLISHED,
        *_WITHOUT_REDUCTION,
        HOW_MANY,
    ),
    (PartialAllocation, Gaussian): (PARTIAL_EXACT, _OF_PARTIAL, *_SCHEDULED),
    (ScheduledAllocation,): (loss_distribution(SCHEDULED_DISTRIBUTION), *_SCHEDULED),
}
