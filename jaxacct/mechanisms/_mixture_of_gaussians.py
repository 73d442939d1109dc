"""Gaussian noise on a sum to which a record adds a random amount."""

import math
from typing import Any

import numpy as np

from jaxacct._types import NeighboringRelation
from jaxacct._validate import check_probability, checked_array, checked_number, checked_whole
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, fixed, positive
from jaxacct.mechanisms._schedules import Schedule, stated
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP
from jaxacct.special import binomial_masses


@description
class MixtureOfGaussians(Release):
    """One release of a sum plus N(0, s^2 I), to which the record adds a vector of norm c_i with probability p_i.

    In any dimension it is dominated by sum_i p_i N(c_i, s^2) against N(0, s^2) (Choquette-Choo et al. 2024, "Privacy
    amplification for matrix mechanisms", Corollary 4.7). Poisson sampling is c = (0, 1) with p = (1 - q, q); for
    several records of one user that are sampled independently, p is binomial (`Group`). Adjacency: add or remove one
    record.

    Args:
      noise_multiplier: float > 0, s, in the unit of the sensitivities.
      sensitivities: float >= 0 for each i, c_i. Static: not differentiated through.
      probabilities: p_i, one for each sensitivity, summing to 1 within 1e-9. Static.

    Raises:
      ValueError: if a field is out of range, or there are not as many probabilities as sensitivities.

    >>> import jaxacct as ja
    >>> one = ja.MixtureOfGaussians(1.0, sensitivities=(0.0, 1.0), probabilities=(0.9, 0.1))
    >>> round(ja.epsilon(one, 1e-6), 4), round(ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.1, 1), 1e-6), 4)
    (2.182, 2.1817)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "mixture of Gaussians"
    released = EVERY_STEP
    reduction = None

    noise_multiplier: Any = positive(
        "noise multiplier",
        "SIGMA",
        unit="noise std / unit of the sensitivities",
        help="noise standard deviation, > 0",
        privacy=Privacy.GROWS,
    )
    sensitivities: Any = fixed()
    probabilities: Any = fixed()

    def __post_init__(self) -> None:
        shifts, shares = (checked_array(name, getattr(self, name)).astype(float) for name in _FIXED)
        if shifts.ndim != 1 or not shifts.size or not (np.all(shifts >= 0) and np.all(np.isfinite(shifts))):
            raise ValueError(
                f"sensitivities={self.sensitivities!r} must be a one-dimensional array of finite numbers >= 0"
            )
        if shares.shape != shifts.shape or not (np.all(shares >= 0) and abs(shares.sum() - 1.0) <= 1e-9):
            raise ValueError(f"probabilities={self.probabilities!r} must be of the same length and sum to 1")
        for name, values in zip(_FIXED, (shifts, shares), strict=True):
            object.__setattr__(self, name, tuple(values.tolist()))
        super().__post_init__()

    @classmethod
    def of_user(
        cls, noise_multiplier: Any, *, num_records: int, sampling_prob: float, most_records: int | None = None
    ) -> "MixtureOfGaussians":
        """The `MixtureOfGaussians` of one step of a user with up to `num_records` records, each sampled independently.

        The contribution of each record is clipped to norm 1 separately, so that a user with n records in the batch adds
        at most n:

            c_n = n,   p_n = C(m, n) q^n (1 - q)^(m - n),   n = 0, .., m,

        and if at most j are kept, and which ones are left out of the batch is not affected by other users, all n > j
        count as j. A user with fewer records loses less, since their number in the batch is stochastically smaller
        (Choquette-Choo et al. 2024, Corollary 4.7; docs/users.md). Compose the result over steps; where users are
        sampled first, wrap it in `PoissonSampled`. Without a cap it is `Group(PoissonSampled(Gaussian(..), q), m)`.

        Args:
          noise_multiplier: float > 0, the standard deviation of the noise divided by the clipping norm of a record.
          num_records: whole number from 1 to 512, m, the largest number of records of a user.
          sampling_prob: float in [0, 1], q, the probability that a given record joins a given step.
          most_records: whole number >= 1, j, the largest number of a user's records in a batch; None for no limit.

        Returns:
          The `MixtureOfGaussians` of one step. Adjacency: add or remove one user.

        Raises:
          ValueError: if an argument is out of range.

        >>> import jaxacct as ja
        >>> step = ja.MixtureOfGaussians.of_user(1.0, num_records=8, sampling_prob=0.01)
        >>> capped = ja.MixtureOfGaussians.of_user(1.0, num_records=8, sampling_prob=0.01, most_records=1)
        >>> [round(ja.epsilon(ja.Composed(one, 100), 1e-6), 3) for one in (step, capped)]
        [8.091, 6.251]
        >>> round(ja.epsilon(ja.Group(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100), 8), 1e-6), 3)
        8.091
        """
        records = checked_whole("num_records", num_records, 1, _MOST_RECORDS)
        check_probability("sampling_prob", sampling_prob)
        most = records if most_records is None else checked_whole("most_records", most_records, 1, 2**53)
        masses = binomial_masses(records, checked_number("sampling_prob", sampling_prob))
        kept = min(most, records)
        shares = (*masses[:kept], math.fsum(masses[kept:]))
        return cls(noise_multiplier, tuple(range(kept + 1)), shares)

    def describe(self) -> str:
        shown = f"sensitivities from {min(self.sensitivities):g} to {max(self.sensitivities):g}"
        return f"Gaussian noise, noise multiplier {self.noise_multiplier}, on a mixture of {shown}"

    def assumptions(self) -> tuple[str, ...]:
        added = "each step releases a sum to which the record adds a vector whose norm has the stated law"
        return (f"{added}, plus Gaussian noise of the stated standard deviation; {ADAPTIVE}",)

    def noise_schedule(self) -> Schedule:
        return ((stated(self.noise_multiplier), 1),)

    def loses_nothing(self) -> bool:
        pairs = zip(self.sensitivities, self.probabilities, strict=True)
        return all(shift == 0.0 for shift, share in pairs if share > 0.0)


_MOST_RECORDS = 512  # of a user: their possible numbers in a batch are all listed
_FIXED = ("sensitivities", "probabilities")
