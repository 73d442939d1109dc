"""Lower bounds for independent runs of a pair whose probabilities are known to within a factor.

Let P' and Q' be the computed laws, each probability within a factor 1 + r of the true one. For T runs,
P(S) >= (1 - r)^T P'(S) and Q(S) <= (1 + r)^T Q'(S) for every set S of outputs, hence

    delta(eps) >= (1 - T r) delta'(eps + 2.1 T r),    T r <= 0.01

(docs/numerics/batches.md, "Nearby laws").
"""

from collections.abc import Callable

from jaxacct._method import Query
from jaxacct.special import down, up

_MOST = 0.01  # largest T r for which the formula holds
_SHIFT = 2.1  # multiple of T r by which epsilon moves


def below_nearby(query: Query, target: float, lost: float, below: Callable[[float], float]) -> float:
    """float: a lower bound on epsilon at a delta, or on delta at an epsilon; 0 where the formula does not hold.

    Args:
      target: the delta or the epsilon that is given.
      lost: T r.
      below: a lower bound on the answer at another target, for runs of the computed pair.
    """
    if lost > _MOST:
        return 0.0
    if query is Query.DELTA:
        return down(below(up(target + _SHIFT * lost, 4)) * (1.0 - lost), 4)
    asked = target / (1.0 - lost) * (1.0 + 2.0**-50)
    return max(down(below(asked) - _SHIFT * lost, 4), 0.0) if asked < 1.0 else 0.0
