"""The Gaussian mechanism."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct._validate import check_positive
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, positive
from jaxacct.mechanisms._schedules import Schedule, stated
from jaxacct.mechanisms._words import EVERY_STEP, GAUSSIAN_STEPS


@description
class Gaussian(Release):
    """One release of a sum of vectors of norm at most C, plus N(0, (noise_multiplier C)^2 I).

    Adjacency: add or remove one record. In any dimension the release is tightly dominated by N(1, sigma^2) against N(0,
    sigma^2), where sigma is the noise multiplier.

    Args:
      noise_multiplier: float > 0, the standard deviation of the noise divided by the clipping norm.

    Raises:
      ValueError: if `noise_multiplier` is not positive and finite.

    >>> from jaxacct import Gaussian
    >>> Gaussian(noise_multiplier=1.1)
    Gaussian(noise_multiplier=1.1)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "Gaussian, no sampling"
    released = EVERY_STEP
    reduction = None

    noise_multiplier: Any = positive(
        "noise multiplier",
        "SIGMA",
        unit="noise std / clipping norm",
        help="noise standard deviation over clipping norm, > 0",
        privacy=Privacy.GROWS,
    )

    @classmethod
    def from_zcdp(cls, rho: float) -> "Gaussian":
        """The `Gaussian` that is `rho`-zCDP: noise multiplier 1 / sqrt(2 rho), rounded up.

        Bun & Steinke 2016, Proposition 1.6. For any other release known only by such a guarantee, use `ZCdp`.

        Args:
          rho: float > 0.

        Raises:
          ValueError: if `rho` is not positive and finite.

        >>> from jaxacct import Gaussian
        >>> round(Gaussian.from_zcdp(0.125).noise_multiplier, 9)
        2.0
        """
        check_positive("rho", rho)
        return cls((2.0 * float(rho)) ** -0.5 * (1.0 + 2.0**-50))

    def describe(self) -> str:
        return f"Gaussian noise, noise multiplier {self.noise_multiplier}"

    def as_reports(self) -> str:
        return f"GaussianReports(noise_multiplier={self.noise_multiplier})"

    def assumptions(self) -> tuple[str, ...]:
        return (GAUSSIAN_STEPS,)

    def accumulated(self, batches: int) -> "Gaussian":
        """Each record takes part in all of the batches."""
        return Gaussian(self.noise_multiplier / batches * (1.0 - 2.0**-50))

    def noise_schedule(self) -> Schedule:
        return ((stated(self.noise_multiplier), 1),)

    def loses_nothing(self) -> bool:
        return False
