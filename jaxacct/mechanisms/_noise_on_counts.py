"""Whole numbers with integer noise: discrete Gaussian, discrete Laplace and Skellam."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, count, non_negative, positive
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class DiscreteGaussian(Release):
    """One whole number of sensitivity `sensitivity`, plus integer noise of mass proportional to e^(-x^2 / (2 scale^2)).

    It is dominated by the noise around 0 against the same noise around `sensitivity`: the noise is log-concave, so that
    thresholds are the best tests and larger shifts are easier to detect. A vector with noise on each coordinate has no
    such pair: describe it by `ZCdp(sensitivity**2 / (2 * scale**2))`, with the sensitivity in the L2 norm (Canonne,
    Kamath & Steinke 2020, Theorem 4). Adjacency: add or remove one record.

    Args:
      scale: float > 0, the scale of the noise; close to its standard deviation if it is above 1.
      sensitivity: whole number >= 1, by how much one record changes the number.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> round(ja.delta(ja.DiscreteGaussian(scale=2.0), 0.5), 4), round(ja.delta(ja.Gaussian(2.0), 0.5), 4)
    (0.054, 0.0524)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "discrete Gaussian, no sampling"
    released = EVERY_STEP
    reduction = None

    scale: Any = positive(
        "noise scale", "S", unit="units of the number", help="scale of the noise, > 0", privacy=Privacy.GROWS
    )
    sensitivity: Any = count(
        "sensitivity", "D", help="by how much one record changes the number", privacy=Privacy.FALLS, default=1
    )

    def describe(self) -> str:
        return f"discrete Gaussian noise, scale {self.scale:g}, sensitivity {self.sensitivity:.0f}"

    def assumptions(self) -> tuple[str, ...]:
        noise = "each step releases a whole number that one record changes by at most the sensitivity"
        return (f"{noise}, plus discrete Gaussian noise of the stated scale; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return False


@description
class DiscreteLaplace(Release):
    """One release of whole numbers of L1 sensitivity `sensitivity`, each plus noise with mass tanh(a/2) e^(-a |x|).

    This is also called the geometric mechanism, with a = `noise_parameter` (Ghosh, Roughgarden & Sundararajan 2012). In
    any dimension it is dominated by the noise around 0 against the same noise around `sensitivity`: a shift by 1 has
    the trade-off function of binary randomized response, and a shift by D has that function applied D times, however
    the D is divided among coordinates. Adjacency: add or remove one record.

    Args:
      noise_parameter: float >= 0, a: the pure epsilon for a change by 1; 0 hides everything.
      sensitivity: whole number >= 1, D: the sum of the absolute changes that one record makes to the numbers.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> round(ja.delta(ja.DiscreteLaplace(noise_parameter=0.5, sensitivity=3), 1.0), 4)
    0.2449
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "discrete Laplace, no sampling"
    released = EVERY_STEP
    reduction = None

    noise_parameter: Any = non_negative(
        "noise parameter", "A", help="decay of the noise, pure epsilon of a change by 1, >= 0", privacy=Privacy.FALLS
    )
    sensitivity: Any = count(
        "sensitivity", "D", help="by how much one record changes the counts", privacy=Privacy.FALLS, default=1
    )

    def describe(self) -> str:
        return f"discrete Laplace noise, parameter {self.noise_parameter:g}, sensitivity {self.sensitivity:.0f}"

    def assumptions(self) -> tuple[str, ...]:
        noise = "each step releases whole numbers that one record changes by at most the sensitivity (L1)"
        return (f"{noise}, plus discrete Laplace noise on each; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.noise_parameter == 0)


@description
class Skellam(Release):
    """One whole number of sensitivity `sensitivity`, plus the difference of two Poisson variables of equal mean.

    This is the noise of sums under secure aggregation: a sum of such noises has a law of the same kind, whose variance
    is the sum of the variances (Agarwal, Kairouz & Liu 2021, "The Skellam mechanism for differentially private
    federated learning"). Its mass at x is e^-v I_|x|(v), where v is the variance. It is dominated by the noise around 0
    against the same noise around `sensitivity`: Poisson laws, and so their differences, are log-concave, so that
    thresholds are the best tests and larger shifts are easier to detect. A vector with noise on each coordinate has no
    such pair. Adjacency: add or remove one record.

    Args:
      variance: float > 0, the variance of the noise: twice the mean of the Poisson variables.
      sensitivity: whole number >= 1, by how much one record changes the number.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> round(ja.delta(ja.Skellam(variance=4.0), 0.5), 4), round(ja.delta(ja.Gaussian(2.0), 0.5), 4)
    (0.0527, 0.0524)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "Skellam, no sampling"
    released = EVERY_STEP
    reduction = None

    variance: Any = positive(
        "noise variance",
        "V",
        unit="squared units",
        help="variance of the noise, > 0",
        privacy=Privacy.GROWS,
    )
    sensitivity: Any = count(
        "sensitivity", "D", help="by how much one record changes the number", privacy=Privacy.FALLS, default=1
    )

    def describe(self) -> str:
        return f"Skellam noise, variance {self.variance:g}, sensitivity {self.sensitivity:.0f}"

    def assumptions(self) -> tuple[str, ...]:
        noise = "each step releases a whole number that one record changes by at most the sensitivity"
        return (f"{noise}, plus Skellam noise of the stated variance in all; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return False
