"""Balls in bins with correlated noise, from samples: an estimate from above that holds with a stated confidence.

Weights of samples are bounded (CN-7), so that the expectation is below Chernoff's bound with relative entropy except
with a chosen probability. One set of samples, drawn for the least epsilon, is used for all: the bound falls with
epsilon, so that the epsilon at which it meets a delta is wrong no more often than the bound is at the true epsilon.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import BOTH, FAILURE, Bracketing, BracketMethod, Cost, Query, Role
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds.correlated._groups import likely
from jaxacct.bounds.correlated._overlaps import MOST_COVARIANCES, covariances, is_known
from jaxacct.divergence.sampling import _bins as bins
from jaxacct.divergence.sampling._bins import CovarianceRoot
from jaxacct.divergence.sampling._chernoff import chernoff_upper_confidence
from jaxacct.mechanisms import BallsInBins
from jaxacct.special import bisect

THEOREM = "CN-7: samples of bounded weights, confidence 1 - 1e-12 (docs/papers/correlated.md; Hoeffding 1963)"

_MOST_WORK, _MOST_SAMPLES = 2**26, 2**19  # coordinates that are drawn for one answer, and samples
_ROUGH = 8  # times fewer samples where they only guide the search, or a result is expected to be below its rival
_HALVINGS = 12  # of the epsilons among which an answer is looked for
_NEAR = np.linspace(0.93, 1.15, 256)  # times the epsilon at which few samples meet the target
_SEEDS = 2**4  # of one run: 0 for all samples that count, chosen before anything is known; others to guide it


def _seed(of: CovarianceRoot, number: int) -> int:
    """The seed for samples of this run: other runs have their own, so that a search may follow what those show."""
    total = int(np.float64(of.covariance.sum()).view(np.uint64))
    return (total * (MOST_COVARIANCES + 1) + len(of.root)) * _SEEDS + number


def _deltas(
    of: CovarianceRoot, epsilons: NDArray[np.float64], d: Direction, number: int, failure: float
) -> NDArray[np.float64]:
    """Upper bounds on delta at `epsilons` [G], all of them right except with probability `failure`; they fall."""
    found = bins.samples(of, epsilons, d, number, _seed(of, 0), is_plain=False)
    return np.minimum(chernoff_upper_confidence(found.scale * found.mean, number, failure, found.scale), 1.0)


def _near(of: CovarianceRoot, target: float, d: Direction, known: float, number: int) -> float:
    """The epsilon, up to `known`, at which delta is `target`, approximately: few samples at each, of other seeds."""
    seeds = iter(range(1, _HALVINGS + 1))

    def is_enough(epsilon: float) -> bool:
        found = bins.samples(of, np.array([epsilon]), d, number, _seed(of, next(seeds)), is_plain=False)
        return float(found.scale[0] * found.mean[0]) <= target

    return bisect(is_enough, known, 0.0, num_steps=_HALVINGS)


def _epsilon(of: CovarianceRoot, target: float, d: Direction, known: float, rival: float) -> float:
    """The least epsilon up to `known` that is found, or `rival` if that is enough; inf if there is none."""
    number = _num_samples(of)
    if rival > 0.0 and _deltas(of, np.array([rival]), d, number // _ROUGH, 0.25 * FAILURE)[0] <= target:
        return rival
    middle = _near(of, target, d, known, max(number // (_HALVINGS * _ROUGH) * 2, 1000))
    tried = np.unique(np.minimum(np.append(_NEAR * middle, known), known))
    enough = tried[_deltas(of, tried, d, number, 0.25 * FAILURE) <= target]
    return float(enough[0]) if len(enough) else math.inf


def _delta(of: CovarianceRoot, epsilon: float, d: Direction, rival: float) -> float:
    number = _num_samples(of)
    if rival > 0.0:
        rough = float(_deltas(of, np.array([epsilon]), d, number // _ROUGH, 0.25 * FAILURE)[0])
        if rough <= rival:
            return rough
    return float(_deltas(of, np.array([epsilon]), d, number, 0.25 * FAILURE)[0])


def _num_samples(of: CovarianceRoot) -> int:
    return max(min(_MOST_WORK // len(of.root), _MOST_SAMPLES), 2**13)


def _bracket(run: BallsInBins, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    of, found, rival = bins.covariance_root(covariances(run)), {d: Ends(0.0, query.worst) for d in at.known}, 0.0
    known = 0.0
    if query is Query.EPSILON:
        known = at.ask(likely(run), query, target, at.width, wants_lower=False).upper
        if not math.isfinite(known):
            return found
    for d in sorted(at.known, key=list(Direction).index):
        is_epsilon = query is Query.EPSILON
        upper = _epsilon(of, target, d, known, rival) if is_epsilon else _delta(of, target, d, rival)
        found[d], rival = Ends(0.0, upper), max(rival, upper)
    return found


SAMPLED = BracketMethod(
    name="monte carlo",
    theorem=THEOREM,
    directions=BOTH,
    ends=frozenset({Bound.ESTIMATE}),
    cost=Cost.SECONDS,
    applies=lambda run: is_known(run) and int(run.num_batches) <= MOST_COVARIANCES,
    role=Role.BY_NAME,
    bracket=_bracket,
    regime=f"an estimate, asked by name; up to {MOST_COVARIANCES} bins",
)
