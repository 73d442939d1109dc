"""Gaussian reports analysed as other schemes that reveal as much.

If everybody checks in over several rounds, each round is a shuffle of all users' reports, in a fresh order, for which
there are brackets of several rounds in any case. Pure reports are not treated so: methods on lanes calibrate their
rounds to full precision, and a bracket that follows the analysis less closely would take the place of those.

For lower bounds on shuffled reports, let all other records be alike, and two clipping norms away from the differing
one. A round then shows n - 1 reports of one law and one of another, in an order that carries no information: that is
1-out-of-n random allocation with half the noise multiplier of the reports. Once the record is replaced, all are alike.
"""

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Query, Role, itself
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction
from jaxacct.bounds._parts import by_another, from_below
from jaxacct.mechanisms import CheckIn, Gaussian, RandomAllocation, Shuffled


def _is_everybody(mechanism: CheckIn) -> bool:
    everybody = (mechanism.check_in_prob == 1.0) & (mechanism.dropout_prob == 0.0) & (mechanism.num_epochs > 1)
    return not is_traced(mechanism) and bool(np.all(everybody))


def _as_shuffle(mechanism: CheckIn) -> Shuffled:
    """The shuffle, whose observer sees the same outputs with the same probabilities."""
    return Shuffled(mechanism.mechanism, mechanism.num_users, mechanism.num_epochs)


EVERYBODY = BracketMethod(
    name="shuffle of everybody",
    theorem="the same mechanism, where everybody checks in and nobody drops out",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=_is_everybody,
    bracket=by_another(_as_shuffle),
    below=itself,
    role=Role.QUICK,
    regime="several rounds, everybody checks in",
)


_MOST_REPORTS, _MOST_NOISE = 2.0**40, 400.0  # most reports, and most squared noise multiplier over their number


def _as_allocation(mechanism: Shuffled) -> RandomAllocation:
    """Random allocation whose two directions are divergences between data sets of shuffled Gaussian reports."""
    noise = Gaussian(0.5 * mechanism.mechanism.noise_multiplier)
    return RandomAllocation(noise, mechanism.num_reports, num_epochs=mechanism.num_epochs)


def _of_allocation(mechanism: Shuffled, query: Query, target: float, at: Bracketing) -> float:
    return at.ask(_as_allocation(mechanism), query, target, at.width, wants_lower=True).lower


def _is_quick(mechanism: Shuffled) -> bool:
    """Whether allocation is quick there; with more noise the sum of the reports gives as much, to five digits."""
    n, noise = float(mechanism.num_reports), float(mechanism.mechanism.noise_multiplier)
    return n <= _MOST_REPORTS and noise * noise <= _MOST_NOISE * n


ALL_ALIKE = BracketMethod(
    name="reports of equal data",
    theorem="Feldman & Shenfeld 2025, Theorem 3.1, of reports where all others hold the same datum",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.LOWER}),
    cost=Cost.TENTHS,
    bracket=from_below(_of_allocation),
    applies=_is_quick,
    below=itself,
)
