"""Several rounds of Gaussian reports, shuffled or checked in: bounds by pure reports in their place, on the host.

Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8 (CL-S8). Replace-one adjacency, both directions.
A bound D_l on rounds of pure reports, of any local epsilon l, gives one for Gaussian reports:

    delta(epsilon) <= D_l(epsilon) + (1 + e^epsilon) K(l).

D_l comes from `Bracketing.ask`, at the l that a guess finds best.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Query, Role, always, only_where
from jaxacct._types import Direction, Ends
from jaxacct.bounds.blanket import has_noise
from jaxacct.bounds.shuffle._approximate import log_gaussian_replacement_cost
from jaxacct.bounds.shuffle._pure_rounds import PureAnswer, ask_pure, total_log_delta
from jaxacct.bounds.shuffle._which_reports import (
    GaussianRun,
    climbed,
    guess_epsilon,
    guess_log_delta,
    near_least_epsilon,
    near_least_log_delta,
    run_of,
    stretched,
    total_of,
)
from jaxacct.conversion import delta_from_log
from jaxacct.mechanisms import CheckIn, LocalRandomizer, Shuffled

# The cost K is taken at an epsilon this far above the guess, relative; then, if the answer is beyond that, above it.
_ABOVE = (0.03, 0.03, 0.1)
# The guess is fitted to what was found, and another local epsilon is tried, until the logarithm of its factor
# changes by less than this (for delta, for epsilon), or this many times.
_NEAR_DELTA, _NEAR, _TRIES = 0.01, 0.1, 2
_TELLS = 1e-3  # epsilon is computed once more if too high a cost was assumed and this share of it may be gained
_TINY, _ROUGHLY = -35.0, 0.2  # below this log delta, delta is found to this relative width only: less takes seconds
_CLOSE = 1e-4  # how far above an answer the next one is expected at most, relative
# Factor of the first guess: rounds of check-ins are composed by Renyi divergences.
_STRETCH: dict[type, float] = {Shuffled: 1.0, CheckIn: 1.08}


def _run(mechanism: Shuffled | CheckIn) -> GaussianRun:
    return run_of(mechanism)._replace(stretch=_STRETCH[type(mechanism)])


def _log_cost(run: GaussianRun, local: float) -> Any:
    """Log K [1], rounded up, for the expected number of reports of all rounds."""
    lanes: Any = (np.array([x]) for x in (run.num_users * run.prob, local, 1.0 / run.noise_multiplier, run.rounds))
    return log_gaussian_replacement_cost(*lanes)


def _pure(mechanism: Shuffled | CheckIn, local: float) -> Shuffled | CheckIn:
    return dataclasses.replace(mechanism, mechanism=LocalRandomizer(local))


def _ask_epsilon(
    mechanism: Shuffled | CheckIn, run: GaussianRun, local: float, delta: float, at: Bracketing, paid: float
) -> PureAnswer | None:
    """`ask_pure` of one local epsilon."""
    return ask_pure(_pure(mechanism, local), _log_cost(run, local), delta, at, paid)


def _epsilon(mechanism: Shuffled | CheckIn, delta: float, at: Bracketing) -> float:
    """Epsilon at `delta`, rounded up; inf where the guess is no gain over what is known."""
    run = _run(mechanism)
    first = guess_epsilon(run, math.log(delta)).best
    found = _guided_epsilon(mechanism, run, first, delta, at)
    if found == math.inf and first[1] < at.known[Direction.REMOVE].upper:
        found = climbed(functools.partial(_paid_epsilon, mechanism, run, delta, at), first[0])
    return found


def _paid_epsilon(mechanism: Shuffled | CheckIn, run: GaussianRun, delta: float, at: Bracketing, local: float) -> float:
    """Epsilon at `delta` of one local epsilon, rounded up; inf where `delta` does not cover the cost there."""
    asked = _ask_epsilon(mechanism, run, local, delta, at, 0.0)
    if asked is not None:
        asked = _ask_epsilon(mechanism, run, local, delta, at, asked.epsilon * (1.0 + _ABOVE[0]))
    return asked.epsilon if asked is not None and asked.log_total <= math.log(delta) else math.inf


def _guided_epsilon(
    mechanism: Shuffled | CheckIn, run: GaussianRun, guess: tuple[float, float], delta: float, at: Bracketing
) -> float:
    """Epsilon at `delta` of the local epsilon to which a guess and what is found there lead; inf for none."""
    log_delta, best = math.log(delta), math.inf
    for _ in range(_TRIES):
        if not math.isfinite(guess[1]):
            break
        local, rough = guess = near_least_epsilon(total_of(run), guess, log_delta)
        if not rough < at.known[Direction.REMOVE].upper:
            break
        ask = functools.partial(_ask_epsilon, mechanism, run, local, delta, at)
        asked = ask(rough * (1.0 + _ABOVE[0]))
        for above in _ABOVE[1:]:
            if asked is not None and asked.log_total > log_delta:
                asked = ask(asked.epsilon * (1.0 + above))
        if asked is None:
            break
        holds = asked.log_total <= log_delta
        best = min(best, asked.epsilon if holds else math.inf)
        before, run = run.stretch, stretched(run, local, asked.epsilon, asked.log_pure)
        if holds and abs(math.log(run.stretch / before)) < _NEAR:
            slope = -float(total_of(run)(np.array([local]), asked.epsilon)[1][0])
            if log_delta - asked.log_total > _TELLS * asked.epsilon * slope:
                again = ask(asked.epsilon * (1.0 + _CLOSE))
                best = min(best, again.epsilon if again is not None and again.log_total <= log_delta else math.inf)
            break
    return best


def _delta(mechanism: Shuffled | CheckIn, epsilon: float, at: Bracketing) -> float:
    """Delta at `epsilon`, rounded up; 1 where the guess is no gain over what is known."""
    run, best = _run(mechanism), 0.0
    for _ in range(_TRIES + 1):
        local, rough = guess_log_delta(run, epsilon).best
        if not math.exp(min(rough, 0.0)) < at.known[Direction.REMOVE].upper:
            break
        local = near_least_log_delta(total_of(run), local, epsilon)
        width = Query.DELTA.width if rough > _TINY else _ROUGHLY
        pure = at.ask(_pure(mechanism, local), Query.DELTA, epsilon, width, wants_lower=False).upper
        log_pure = math.log(pure) if pure > 0.0 else -math.inf
        best = min(best, total_log_delta(epsilon, log_pure, _log_cost(run, local)))
        before, run = run.stretch, stretched(run, local, epsilon, log_pure)
        if abs(math.log(run.stretch / before)) < _NEAR_DELTA or not pure > 0.0:
            break
    log_delta: Any = np.array([best])
    return float(delta_from_log(log_delta)[0])


def _bracket(
    mechanism: Shuffled | CheckIn, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    answer = _epsilon if query is Query.EPSILON else _delta
    with np.errstate(all="ignore"):
        return {Direction.REMOVE: Ends(0.0, answer(mechanism, target, at))}


def _applies(mechanism: Shuffled | CheckIn) -> bool:
    return bool(mechanism.num_epochs > 1)


PURIFIED_ROUNDS = BracketMethod(
    name="purified rounds",
    theorem="Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8, of the pure rounds",
    directions=(Direction.REMOVE,),
    cost=Cost.MILLISECONDS,
    applies=_applies,
    misses_deltas=always,
    bracket=_bracket,
    role=only_where(lambda mechanism: not has_noise(mechanism), Role.QUICK),
    regime="several rounds",
)
"""The method for Gaussian reports over several rounds, from the bounds on pure ones."""
