"""Check-ins of everybody over several rounds: each round is a shuffle of all users' reports, in a fresh order.

For Gaussian reports, of which a search knows several rounds in any case. The rounds of pure reports are calibrated by
methods on lanes, to full precision, which a bracket that knows the analysis less closely would take the place of.
"""

from collections.abc import Mapping

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Query, Role, itself
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.mechanisms import CheckIn, Shuffled


def _is_everybody(mechanism: CheckIn) -> bool:
    everybody = (mechanism.check_in_prob == 1.0) & (mechanism.dropout_prob == 0.0) & (mechanism.num_epochs > 1)
    return not is_traced(mechanism) and bool(np.all(everybody))


def _bracket(mechanism: CheckIn, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends of the shuffle: its observer sees the same outputs with the same probabilities."""
    shuffle = Shuffled(mechanism.mechanism, mechanism.num_users, mechanism.num_epochs)
    ends = at.ask(shuffle, query, target, at.width, wants_lower=at.wants_lower)
    return dict.fromkeys(at.known, ends)


EVERYBODY = BracketMethod(
    name="shuffle of everybody",
    theorem="the same mechanism, where everybody checks in and nobody drops out",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=_is_everybody,
    bracket=_bracket,
    below=itself,
    role=Role.QUICK,
    regime="several rounds, everybody checks in",
)
