"""Several rounds of shuffled Gaussian reports by pure reports in their place, one concrete question at a time.

Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8 (CL-S8). Replace-one adjacency; one direction
serves. Whatever is known of rounds of shuffled pure reports, of any local epsilon l, holds for Gaussian ones with

    delta(epsilon) <= D_l(epsilon) + (1 + e^epsilon) K(l):

the loop is asked for D_l, at the l that a guess finds best.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds.shuffle._approximate import Guarantee, log_gaussian_replacement_cost, with_replacement_cost
from jaxacct.bounds.shuffle._which_reports import (
    GaussianRun,
    guess_epsilon,
    guess_log_delta,
    near_least_epsilon,
    near_least_log_delta,
    total_of,
)
from jaxacct.mechanisms import LocalRandomizer, Shuffled

# Relative distances above the guess at which replacing is paid for first: what answers are above it. Then, until that
# no longer tells in log delta, at most so often, what the answer before needs.
_ABOVE, _NEXT = 0.02, 1e-4
_TELLS, _TRIES = 1e-5, 4


def _run(mechanism: Shuffled) -> GaussianRun:
    n, noise, rounds = mechanism.num_reports, mechanism.mechanism.noise_multiplier, mechanism.num_epochs
    return GaussianRun(float(n), 1.0, float(noise), float(rounds))


def _log_cost(run: GaussianRun, local: float) -> Any:
    """Log K [1], rounded up."""
    lanes: Any = (np.array([x]) for x in (run.num_users, local, 1.0 / run.noise_multiplier, run.rounds))
    return log_gaussian_replacement_cost(*lanes)


def _total(epsilon: float, log_pure: float, log_cost: Any) -> float:
    """Log of pure delta + (1 + e^epsilon) K, rounded up."""
    pure: Any = (np.array([x]) for x in (epsilon, log_pure))
    return float(with_replacement_cost(Guarantee(*pure), log_cost).log_delta[0])


def _left(delta: float, epsilon: float, log_cost: Any) -> float:
    """What replacing leaves of `delta` for pure reports at `epsilon`; it is checked by `_total` afterwards."""
    return delta * (1.0 - 2.0**-40) - math.exp(min(_total(epsilon, -math.inf, log_cost), 0.0))


def _pure(mechanism: Shuffled, local: float) -> Shuffled:
    return Shuffled(LocalRandomizer(local), mechanism.num_reports, mechanism.num_epochs)


def _epsilon(mechanism: Shuffled, delta: float, at: Bracketing) -> float:
    """Epsilon at `delta`, rounded up; inf where the guess is no gain over what is known."""
    run = _run(mechanism)
    guess = guess_epsilon(run, math.log(delta)).best
    if not math.isfinite(guess[1]):
        return math.inf
    local, rough = near_least_epsilon(total_of(run), guess, math.log(delta))
    if rough >= at.known[Direction.REMOVE].upper:
        return math.inf
    log_cost, best, paid = _log_cost(run, local), math.inf, rough * (1.0 + _ABOVE)
    for _ in range(_TRIES):
        left = _left(delta, paid, log_cost)
        if not left > 0.0:
            break
        found = at.ask(_pure(mechanism, local), Query.EPSILON, left, Query.EPSILON.width, wants_lower=False).upper
        if math.isfinite(found) and _total(found, math.log(left), log_cost) <= math.log(delta):
            best = min(best, found)
            if _left(delta, found, log_cost) <= left * (1.0 + _TELLS):
                break
        paid = found * (1.0 + _NEXT)
    return best


def _delta(mechanism: Shuffled, epsilon: float, at: Bracketing) -> float:
    """Delta at `epsilon`, rounded up; 1 where the guess is no gain over what is known."""
    run = _run(mechanism)
    local, rough = guess_log_delta(run, epsilon).best
    if math.exp(min(rough, 0.0)) >= at.known[Direction.REMOVE].upper:
        return 1.0
    local = near_least_log_delta(total_of(run), local, epsilon)
    pure = at.ask(_pure(mechanism, local), Query.DELTA, epsilon, Query.DELTA.width, wants_lower=False).upper
    log_pure = math.log(pure) if pure > 0.0 else -math.inf
    return min(math.exp(_total(epsilon, log_pure, _log_cost(run, local))) * (1.0 + 2.0**-50), 1.0)


def _bracket(mechanism: Shuffled, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    answer = _epsilon if query is Query.EPSILON else _delta
    with np.errstate(all="ignore"):
        return {Direction.REMOVE: Ends(0.0, answer(mechanism, target, at))}


def _applies(mechanism: Shuffled) -> bool:
    return bool(mechanism.num_epochs > 1)


PURIFIED_ROUNDS = BracketMethod(
    name="purified rounds",
    theorem="Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8, of the pure rounds",
    directions=(Direction.REMOVE,),
    cost=Cost.MILLISECONDS,
    cold=Cost.MILLISECONDS,
    applies=_applies,
    reduction=lambda mechanism: True,
    bracket=_bracket,
    is_quick=True,
    regime="several rounds",
)
"""Gaussian reports over several rounds, by what the loop knows of pure ones."""
