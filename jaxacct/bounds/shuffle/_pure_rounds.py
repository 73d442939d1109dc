"""Several rounds of reports of approximate randomizers, shuffled or checked in: bounds by pure reports in their place.

Feldman, McMillan & Talwar 2021, Theorem 3.8 (CL-S7). Replace-one adjacency, both directions. A bound D on rounds of
pure reports of the same local epsilon l gives, with N the expected number of reports of all rounds,

    delta(epsilon) <= D(epsilon) + (1 + e^epsilon) K,   K = N (1 + e^-l / 2) local_delta.

In a composition of different rounds, K is the sum of theirs: reports are replaced one after the other, each at its own
total variation, whatever else is run.

D comes from `Bracketing.ask`, so that everything known about pure reports can be used.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Query, Role, always, only_where
from jaxacct._types import Direction, Ends
from jaxacct.bounds._clones_pair import is_pure
from jaxacct.bounds._parts import flattened, has_several_rounds, is_scalar
from jaxacct.bounds.blanket._known import users_of
from jaxacct.bounds.shuffle._approximate import LogGuarantee, log_replacement_cost, with_replacement_cost
from jaxacct.conversion import delta_from_log
from jaxacct.mechanisms import CheckIn, Composed, LocalRandomizer, Shuffled
from jaxacct.special import log_up, up

_OF_REPORTS = (Shuffled, CheckIn)
_APPROXIMATE = ((Shuffled, LocalRandomizer), (CheckIn, LocalRandomizer))
# The cost is taken at an epsilon this far above the last answer, relative, until it covers the one that is found.
_ABOVE = (0.01, 0.03, 0.1, 0.3)
_LEAST_ASKED = 1e-30  # a delta below which an epsilon takes long too
_UNSEEN = 2.0**-40  # of the cost: where pure reports have a smaller delta, an epsilon says so sooner than a delta does


class PureAnswer(NamedTuple):
    """An answer for pure reports: their epsilon, the log of their delta, and the log of delta with the cost."""

    epsilon: float
    log_pure: float
    log_total: float


def total_log_delta(epsilon: float, log_pure: float, log_cost: Any) -> float:
    """A float: the log of pure delta + (1 + e^epsilon) K, rounded up; `log_cost` [1] is log K."""
    pure: Any = (np.array([x]) for x in (epsilon, log_pure))
    return float(with_replacement_cost(LogGuarantee(*pure), log_cost).log_delta[0])


def ask_pure(pure: Shuffled | CheckIn, log_cost: Any, delta: float, at: Bracketing, paid: float) -> PureAnswer | None:
    """The epsilon of pure reports at what the cost at epsilon `paid` leaves of `delta`; None if nothing is left.

    Whether the cost at the epsilon that is found is covered is seen in `log_total`.
    """
    left = delta * (1.0 - 2.0**-40) - math.exp(min(total_log_delta(paid, -math.inf, log_cost), 0.0))
    if not left > 0.0:
        return None
    found = at.ask(pure, Query.EPSILON, left, Query.EPSILON.width, wants_lower=False).upper
    if not math.isfinite(found):
        return None
    return PureAnswer(found, math.log(left), total_log_delta(found, math.log(left), log_cost))


def _is_approximate(part: Any) -> bool:
    return part.signature() in _APPROXIMATE and not is_pure(part)


def _made_pure(part: Any) -> Any:
    randomizer = LocalRandomizer(part.mechanism.local_epsilon)
    return dataclasses.replace(part, mechanism=randomizer) if _is_approximate(part) else part


def _pure(mechanism: Any) -> Any:
    if mechanism.signature() != (Composed,):
        return _made_pure(mechanism)
    parts = flattened(mechanism)
    return Composed([_made_pure(part) for part, _ in parts], [count for _, count in parts])


def _log_cost(mechanism: Any) -> Any:
    """Log K [1], rounded up."""
    every, parts = [], flattened(mechanism)
    part: Any
    for part, count in parts:
        if _is_approximate(part):
            randomizer, (users, prob) = part.mechanism, users_of(part)
            fields = up(users * prob, 4), randomizer.local_epsilon, math.log(randomizer.local_delta)
            lanes: Any = (np.array([float(x)]) for x in (*fields, up(float(count) * float(part.num_epochs), 4)))
            every.append(log_replacement_cost(*lanes))
    return functools.reduce(lambda a, b: log_up(np.logaddexp(a, b), 16), every)


def _epsilon(mechanism: Any, delta: float, at: Bracketing) -> float:
    """Epsilon at `delta`, rounded up; inf where `delta` does not cover the cost."""
    pure, log_cost = _pure(mechanism), _log_cost(mechanism)
    asked = ask_pure(pure, log_cost, delta, at, 0.0)
    for above in _ABOVE:
        if asked is None or asked.log_total <= math.log(delta):
            break
        asked = ask_pure(pure, log_cost, delta, at, asked.epsilon * (1.0 + above))
    return asked.epsilon if asked is not None and asked.log_total <= math.log(delta) else math.inf


def _delta(mechanism: Any, epsilon: float, at: Bracketing) -> float:
    """Delta at `epsilon`, rounded up."""
    pure, log_cost = _pure(mechanism), _log_cost(mechanism)
    found = _UNSEEN * math.exp(min(total_log_delta(epsilon, -math.inf, log_cost), 0.0))
    ask = functools.partial(at.ask, pure, wants_lower=False)
    if not (found > _LEAST_ASKED and ask(Query.EPSILON, found, Query.EPSILON.width).upper <= epsilon):
        found = ask(Query.DELTA, epsilon, Query.DELTA.width).upper
    log_pure = math.log(found) if found > 0.0 else -math.inf
    total: Any = np.array([total_log_delta(epsilon, log_pure, log_cost)])
    return float(delta_from_log(total)[0])


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    answer = _epsilon if query is Query.EPSILON else _delta
    with np.errstate(all="ignore"):
        return {Direction.REMOVE: Ends(0.0, answer(mechanism, target, at))}


def _applies(mechanism: Shuffled | CheckIn) -> bool:
    return not is_pure(mechanism) and bool(mechanism.num_epochs > 1)


def _applies_composed(mechanism: Composed) -> bool:
    """Whether all its parts are rounds of reports, some of them of approximate randomizers."""
    parts = [part for part, _ in flattened(mechanism)]
    return (
        is_scalar(mechanism)
        and all(part.signature()[0] in _OF_REPORTS for part in parts)
        and any(_is_approximate(part) for part in parts)
    )


def beside_pure_rounds(mechanism: Shuffled | CheckIn) -> Role:
    """The role (class `Role`) of methods that compose rounds by themselves: QUICK, unless pure rounds are tighter."""
    if not has_several_rounds(mechanism):
        return Role.BY_NAME
    return Role.IN_PROGRAMS if is_scalar(mechanism) and not is_pure(mechanism) else Role.QUICK


PURE_ROUNDS = BracketMethod(
    name="pure rounds",
    theorem="Feldman, McMillan & Talwar 2021, Theorem 3.8, of the pure rounds",
    directions=(Direction.REMOVE,),
    cost=Cost.MILLISECONDS,
    applies=_applies,
    misses_deltas=always,
    bracket=_bracket,
    role=only_where(has_several_rounds, Role.QUICK),
    regime="several rounds; local delta > 0",
)
"""The method for approximate randomizers over several rounds, from the bounds on pure ones."""

PURE_PARTS = dataclasses.replace(
    PURE_ROUNDS,
    name="pure reports",
    theorem="Feldman, McMillan & Talwar 2021, Theorem 3.8, of the pure reports",
    cost=Cost.TENTHS,
    applies=_applies_composed,
    role=Role.NARROW,
    regime="compositions of reports, some with local delta > 0",
)
"""The same for compositions of rounds, some of approximate randomizers."""
