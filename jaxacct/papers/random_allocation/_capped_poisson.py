"""BOUND, from above, on Poisson sampling with a cap on how often a record takes part (RA-S11).

Feldman & Shenfeld 2025, "Privacy amplification by random allocation", Corollary 4.7.
"""

from jaxacct._types import Direction
from jaxacct._validate import check_count, check_epsilon
from jaxacct.bounds.theorems import Steps, concrete_base, poisson_pld
from jaxacct.mechanisms import PoissonSampled
from jaxacct.papers._asking import direction_of, mechanism_of


def capped_poisson_delta(
    mechanism: PoissonSampled, epsilon: float, direction: Direction, *, max_participations: int
) -> float:
    """delta at `epsilon` of Poisson sampling with a cap on participations, Corollary 4.7 (RA-S11).

    A record drawn more than `max_participations` times takes part in only that many of those steps, uniformly chosen:

        sum_{j < k} Bin(j) A_{t,j} + P(Bin >= k) A_{t,k},

    whose profile is at most that of plain Poisson sampling, which is returned: the cap is free. Upper bound, both
    directions.

    Args:
      mechanism: PoissonSampled with concrete scalar fields.
      epsilon: >= 0.
      direction: of add/remove adjacency.
      max_participations: k, whole number >= 1.

    Returns:
      float, delta in [0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=100)
    >>> round(random_allocation.capped_poisson_delta(run, 0.5, ja.Direction.REMOVE, max_participations=3), 5)
    0.00013
    """
    mechanism_of(mechanism, PoissonSampled)
    direction = direction_of(direction)
    check_epsilon("epsilon", epsilon)
    check_count("max_participations", max_participations)
    steps = (Steps(float(mechanism.sampling_prob), int(mechanism.num_steps)),)
    if mechanism.sampling_prob == 0:
        return 0.0
    return poisson_pld(concrete_base(mechanism), steps, direction, epsilon=float(epsilon)).delta(float(epsilon))
