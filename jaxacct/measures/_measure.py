"""What a measure is, and the measures that one or a few points of the privacy profile decide."""

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Bound, NeighboringRelation
from jaxacct._validate import checked_array, checked_number
from jaxacct.accounting import delta
from jaxacct.answering._question import check_scalars
from jaxacct.mechanisms._after import after
from jaxacct.mechanisms._base import Mechanism
from jaxacct.membership import tradeoff
from jaxacct.special import down

_ROUNDINGS = 8  # of the few operations between a delta and what is read off it


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number that sums up what a mechanism loses, certified on the safe side.

    Called with a mechanism: ``measure(mechanism)`` is a float. `Advantage`, `TruePositiveRate`, `GaussianDp` and
    `ZeroConcentratedDp` are upper bounds on what is lost, `BayesRisk` is a lower bound on what an adversary gets wrong.

    Attributes:
      name: what the number is called, as the command line writes it.
      bound: whether the number is an upper or a lower bound.
      worst: the upper bound that always holds.

    >>> from jaxacct import measures
    >>> sorted(kind.name for kind in measures.Measure.__subclasses__())
    ['advantage', 'bayes-risk', 'gdp', 'true-positive-rate', 'zcdp']
    """

    name: ClassVar[str]
    bound: ClassVar[Bound] = Bound.UPPER
    worst: ClassVar[float] = 1.0

    def __call__(
        self,
        mechanism: Mechanism,
        *,
        neighboring_relation: NeighboringRelation | str | None = None,
        prefix: Mechanism | tuple[float, float] | None = None,
    ) -> float:
        """The number for `mechanism`, whose fields are concrete scalars; other arguments as for `jaxacct.epsilon`."""
        mechanism = after(prefix, mechanism, neighboring_relation)
        check_scalars(mechanism)
        return self.of(mechanism)

    def of(self, mechanism: Mechanism) -> float:
        """The number for a mechanism that has been checked."""
        raise NotImplementedError

    def words(self) -> str:
        """What the number is, in words that a number can follow: "advantage"."""
        raise NotImplementedError

    def bounds_of_target(self) -> tuple[float, float]:
        """The numbers between which a target may lie, the ends excluded."""
        raise NotImplementedError

    def check_target(self, target: Any) -> NDArray[Any]:
        """`target` as float64; raises ValueError unless all of it is a number that can be asked for."""
        low, high = self.bounds_of_target()
        array = checked_array("target", target).astype(np.float64)
        if not np.all((array > low) & (array < high)):
            raise ValueError(f"target={target!r} must be in ({low:g}, {high:g}) for the {self.words()}")
        return array

    def lost(self, value: Any) -> Any:
        """A number > 0 that grows as privacy is lost, from a value of the measure: the value itself, if that grows."""
        return value

    def marked_rate(self) -> float | None:
        """The one false positive rate that it is about; None if it is about all."""
        return None

    def least_errors(self, target: float, rates: NDArray[Any]) -> NDArray[Any]:
        """The least false negative rates that `target` requires at false positive rates `rates`."""
        raise ValueError(f"measure={self!r} bounds no test at a given false positive rate, so it cannot be drawn here")


@dataclasses.dataclass(frozen=True)
class Advantage(Measure):
    """The membership advantage: the most by which any test's true positive rate exceeds its false positive rate.

    ``sup_a (1 - T(a) - a) = delta(0)``, the total variation distance of neighbours' outputs (Kairouz, Oh and Viswanath
    2015; "advantage" of Yeom et al. 2018); certified upper bound, in the worse direction of the adjacency.

    >>> import jaxacct as ja
    >>> from jaxacct import measures
    >>> round(measures.Advantage()(ja.Gaussian(1.0)), 4)
    0.3829
    """

    name: ClassVar[str] = "advantage"

    def of(self, mechanism: Mechanism) -> float:
        """delta at epsilon 0."""
        return float(delta(mechanism, 0.0))

    def words(self) -> str:
        """Its name."""
        return "advantage"

    def bounds_of_target(self) -> tuple[float, float]:
        """(0, 1)."""
        return 0.0, 1.0

    def least_errors(self, target: float, rates: NDArray[Any]) -> NDArray[Any]:
        """Both errors add up to at least 1 - target."""
        return np.maximum(1.0 - target - rates, 0.0)


@dataclasses.dataclass(frozen=True)
class TruePositiveRate(Measure):
    """The largest true positive rate of any test for whether one record took part, at a false positive rate.

    ``1 - T(a) = inf_eps min(e^eps a + delta(eps), 1 - e^-eps (1 - delta(eps) - a))`` (Dong, Roth and Su 2022,
    Proposition 2.12): ``1 - jaxacct.tradeoff``, a certified upper bound, since any epsilon gives one.

    Args:
      false_positive_rate: float in [0, 1), a.

    >>> import jaxacct as ja
    >>> from jaxacct import measures
    >>> round(measures.TruePositiveRate(false_positive_rate=0.01)(ja.Gaussian(1.0)), 4)
    0.0924
    """

    name: ClassVar[str] = "true-positive-rate"
    false_positive_rate: float

    def __post_init__(self) -> None:
        rate = checked_number("false_positive_rate", self.false_positive_rate)
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"false_positive_rate={self.false_positive_rate!r} must be in [0, 1)")
        object.__setattr__(self, "false_positive_rate", rate)

    def of(self, mechanism: Mechanism) -> float:
        """1 minus the false negative rate."""
        return min(1.0, math.nextafter(1.0 - tradeoff(mechanism, self.false_positive_rate), 2.0))

    def words(self) -> str:
        """The words, with the false positive rate."""
        return f"true positive rate at false positive rate {self.false_positive_rate:g}"

    def bounds_of_target(self) -> tuple[float, float]:
        """Between the false positive rate, which guessing reaches, and 1."""
        return float(self.false_positive_rate), 1.0

    def marked_rate(self) -> float | None:
        """Its own false positive rate."""
        return float(self.false_positive_rate)

    def least_errors(self, target: float, rates: NDArray[Any]) -> NDArray[Any]:
        """1 - target up to that rate."""
        return np.where(rates <= self.false_positive_rate, 1.0 - target, 0.0)


@dataclasses.dataclass(frozen=True)
class BayesRisk(Measure):
    """The least probability of error of any guess at whether one record took part, which it does with a known prior.

    ``min_a (1 - p) a + p T(a) = min(p, 1 - p) (1 - delta(|log(p / (1 - p))|))`` for the prior p; 1/2 minus half of the
    advantage at prior 1/2 (Chatzikokolakis et al. 2023). Certified *lower* bound. Guessing by the prior errs with
    probability min(p, 1 - p): a target must be below that.

    Args:
      prior: float in (0, 1), the probability that the record took part.

    >>> import jaxacct as ja
    >>> from jaxacct import measures
    >>> round(measures.BayesRisk()(ja.Gaussian(1.0)), 4), round(measures.BayesRisk(prior=0.1)(ja.Gaussian(1.0)), 4)
    (0.3085, 0.0987)
    """

    name: ClassVar[str] = "bayes-risk"
    bound: ClassVar[Bound] = Bound.LOWER
    prior: float = 0.5

    def __post_init__(self) -> None:
        prior = checked_number("prior", self.prior)
        if not 0.0 < prior < 1.0:
            raise ValueError(f"prior={self.prior!r} must be in (0, 1)")
        object.__setattr__(self, "prior", prior)  # a double: roundings are counted in doubles

    def of(self, mechanism: Mechanism) -> float:
        """The error of guessing by the prior, less what the profile allows to gain."""
        # rounded towards 0, where delta is larger
        epsilon = down(abs(math.log(self.prior) - math.log1p(-self.prior)), 2) - 2.0**-50 * -math.log(self._least())
        return max(0.0, down(self._least() * (1.0 - float(delta(mechanism, max(epsilon, 0.0)))), _ROUNDINGS))

    def _least(self) -> float:
        return min(self.prior, 1.0 - self.prior)

    def words(self) -> str:
        """The words, with the prior."""
        return f"Bayes risk at prior {self.prior:g}"

    def bounds_of_target(self) -> tuple[float, float]:
        """Between 0 and the error of guessing by the prior."""
        return 0.0, self._least()

    def lost(self, value: Any) -> Any:
        """The share of the error of guessing by the prior that is gained."""
        return 1.0 - value / self._least()

    def least_errors(self, target: float, rates: NDArray[Any]) -> NDArray[Any]:
        """The line on which a guess has this risk, or its mirror image if that is higher."""
        p = self.prior
        return np.maximum((target - (1.0 - p) * rates) / p, 0.0)
