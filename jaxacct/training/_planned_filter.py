"""A privacy filter that counts in steps of a planned release, by privacy loss distributions."""

import dataclasses
import functools
import math
import warnings
from fractions import Fraction
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Bound, Direction, OrderEdgeWarning, PrecisionWarning
from jaxacct._validate import check_delta, check_epsilon, checked_number, checked_whole
from jaxacct.accounting import epsilon, pld
from jaxacct.bounds.composed import distribution_of
from jaxacct.curves import Pld
from jaxacct.curves._from_profile import MAX_EPSILON, profile_of
from jaxacct.mechanisms import Composed, Gaussian
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import bisect_whole, down
from jaxacct.training._filter import check_mechanism
from jaxacct.training._spending import largest

_SHARE = 2.0**-10  # share of delta that is reserved for releases other than the planned one
_MOST_OTHERS = 64  # blocks of other releases, each with an equal part of that share
_MOST_STEPS = 2**31 - 2  # counted, as by the training hook


class PlannedFilter:
    """Privacy filter: decides for each block of releases in turn whether a budget (epsilon, delta) allows it.

    This filter is like `RenyiFilter`, but it allows nearly as much as a composition known beforehand: the budget is a
    number N of steps of `planned`, the largest whose composition is within (epsilon, delta). A block of n runs of
    another mechanism costs the least K such that K planned steps dominate it, that is

        delta(n runs; eps) <= delta(K planned steps; eps) + tau   for every eps >= 0, in both directions.

    However blocks are chosen in light of what was released, the whole run is then dominated by N planned steps, except
    for an addition to delta of tau / (1 - delta(K planned steps; 0)) for each block (docs/numerics/training.md). For
    that, 2^-10 of delta is reserved, which at most 64 blocks share. A planned step itself costs one. If both are plain
    Gaussian noise, a block costs n times the quotient of the variances, rounded up, and needs no such addition (Smith &
    Thakurta 2022; Koskela, Tobaben & Honkela 2023).

    The budget is an upper bound, under the adjacency of `planned`. A block has to be run as it was spent, but may be
    broken off early. The filter gives no smaller epsilon for a run that stops early because of what was released: the
    whole budget counts as spent. If everything is known beforehand, `jaxacct.epsilon` of the composition is smaller.

    Args:
      planned: one step of the release that will probably be run most often. Its own privacy loss distribution must be
        known, not only a dominating one, as it is for Gaussian, Laplace and discrete noise and Poisson-sampled steps.
      target_epsilon: float > 0, in nats.
      target_delta: float in (0, 1).
      spent: the value of `spent` when an earlier run with the same budget and the same `planned` stopped.

    Raises:
      ValueError: if an argument is out of range, or only a dominating privacy loss distribution of `planned` is known.

    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> step = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01, num_steps=1)
    >>> budget = training.PlannedFilter(step, target_epsilon=2.0, target_delta=1e-6)
    >>> budget.affords(step)  # RenyiFilter: 511
    874
    >>> budget.spend(step, count=800)
    True
    >>> budget.spend(ja.Gaussian(noise_multiplier=2.0))  # too much of what is left: nothing is spent
    False
    >>> calmer = ja.PoissonSampled(ja.Gaussian(noise_multiplier=2.0), sampling_prob=0.01, num_steps=1)
    >>> budget.spend(calmer, count=200), budget.left
    (True, 4)
    """

    def __init__(self, planned: Mechanism, target_epsilon: float, target_delta: float, *, spent: Any = (0, 0)):
        planned = _checked_mechanism("planned", planned)
        check_epsilon("target_epsilon", target_epsilon)
        check_delta("target_delta", target_delta)
        self._epsilon = checked_number("target_epsilon", target_epsilon)
        self._delta = checked_number("target_delta", target_delta)
        if self._epsilon == 0.0:
            raise ValueError(f"target_epsilon={target_epsilon!r} must be > 0: no release fits a budget of 0")
        known = distribution_of(planned)
        is_own = known is not None and known.below(planned) is planned
        if known is None or not is_own or known.is_envelope(planned) or known.is_from_above(planned):
            raise ValueError(
                f"planned={planned!r} must have a loss distribution of its own: what other releases are compared with "
                "is known from above only; take RenyiFilter"
            )
        self._planned = planned
        self._steps = _most_steps(planned, self._epsilon, down(self._delta * (1.0 - _SHARE), 2))
        if not (isinstance(spent, tuple | list) and len(spent) == 2):
            raise ValueError(f"spent={spent!r} must be two whole numbers, as `spent` gives")
        self._spent, self._others = (checked_whole("spent", number, 0, _MOST_STEPS) for number in spent)

    @property
    def spent(self) -> tuple[int, int]:
        """The planned steps spent so far, and the number of blocks of other releases: save them with a checkpoint."""
        return self._spent, self._others

    @property
    def left(self) -> int:
        """The planned steps that are left."""
        return max(0, self._steps - self._spent)

    def spend(self, mechanism: Mechanism, *, count: int = 1) -> bool:
        """Whether a block of `count` runs of `mechanism` is within the budget; if so, it is spent, and may be run.

        Raises:
          ValueError: if `mechanism` has no privacy loss distribution, or not the adjacency of the planned release; if
            `count` is not a whole number >= 1.
        """
        mechanism = self._checked(mechanism)
        number = checked_whole("count", count, 1, _MOST_STEPS)
        price = self._price(mechanism, number)
        if price is None:
            return False
        self._spent, self._others = self._spent + price, self._others + (not self._is_exact(mechanism))
        return True

    def affords(self, mechanism: Mechanism) -> int:
        """How many runs of `mechanism` the rest of the budget allows as one block, if nothing else is run.

        Raises:
          ValueError: as for `spend`.
        """
        mechanism = self._checked(mechanism)
        if self.left == 0:
            return 0
        if self._is_exact(mechanism):
            return bisect_whole(lambda n: _exact_price(self._planned, mechanism, n) <= self.left, 0, _MOST_STEPS)
        high = 1
        while high < _MOST_STEPS and self._fits(mechanism, high, self.left):
            high *= 2
        return bisect_whole(lambda n: self._fits(mechanism, n, self.left), high // 2, high)

    def _checked(self, mechanism: Mechanism) -> Mechanism:
        mechanism = _checked_mechanism("mechanism", mechanism)
        if mechanism.relation is not self._planned.relation:
            raise ValueError(
                f"mechanism={mechanism!r} has the adjacency {mechanism.relation.value!r}, but what was planned has "
                f"{self._planned.relation.value!r}: all runs must have the same adjacency"
            )
        if not self._is_exact(mechanism) and distribution_of(mechanism) is None:
            raise ValueError(f"mechanism={mechanism!r} has no loss distribution here; take RenyiFilter")
        return mechanism

    def _is_exact(self, mechanism: Mechanism) -> bool:
        """Whether `mechanism` is compared with the planned release in closed form."""
        return mechanism == self._planned or mechanism.signature() == self._planned.signature() == (Gaussian,)

    def _price(self, mechanism: Mechanism, count: int) -> int | None:
        """The least number of planned steps that dominate `count` runs; None if all steps that are left do not."""
        if self._is_exact(mechanism):
            price = _exact_price(self._planned, mechanism, count)
            return price if price <= self.left else None
        if self.left == 0 or not self._fits(mechanism, count, self.left):
            return None
        high = 1
        while high < self.left and not self._fits(mechanism, count, high):
            high = min(2 * high, self.left)
        return bisect_whole(lambda steps: self._fits(mechanism, count, steps), high, high // 2)

    def _fits(self, mechanism: Mechanism, count: int, steps: int) -> bool:
        """Whether `steps` planned steps dominate `count` runs, up to a block's part of the reserved share of delta."""
        if self._others >= _MOST_OTHERS:
            return False
        excess = down(self._delta * _SHARE / _MOST_OTHERS, 4)
        return all(
            _dominates(_loss(self._planned, steps, d, Bound.LOWER), _loss(mechanism, count, d, Bound.UPPER), excess)
            for d in self._planned.directions
        )

    def __repr__(self) -> str:
        return (
            f"PlannedFilter({self._planned!r}, target_epsilon={self._epsilon}, target_delta={self._delta}, "
            f"spent={self.spent})"
        )


def _checked_mechanism(name: str, thing: Any) -> Mechanism:
    """`thing` with Python numbers, since a float16 or float32 number compares equal to doubles that differ from it."""
    check_mechanism(name, thing)
    plain: Mechanism = jax.tree.map(lambda leaf: np.asarray(leaf).item(), thing)
    return plain


def _most_steps(planned: Mechanism, target_epsilon: float, target_delta: float) -> int:
    """The largest number of planned steps whose composition is within the target."""
    with warnings.catch_warnings():  # it is within the target as it is
        for category in (OrderEdgeWarning, PrecisionWarning):
            warnings.simplefilter("ignore", category)
        return largest(lambda n: epsilon(Composed(planned, n), target_delta), target_epsilon, 0, _MOST_STEPS)


def _exact_price(planned: Mechanism, mechanism: Any, count: int) -> int:
    """The planned steps that `count` runs cost if these are planned steps too, or if both are plain Gaussian noise."""
    if mechanism == planned:
        return count
    noise: Any = planned
    quotient = Fraction(float(noise.noise_multiplier)) / Fraction(float(mechanism.noise_multiplier))
    return math.ceil(count * quotient**2)


@functools.lru_cache(maxsize=256)
def _loss(mechanism: Mechanism, count: int, direction: Direction, bound: Bound) -> Pld:
    return pld(Composed(mechanism, count), direction=direction, bound=bound)


def _dominates(larger: Pld, smaller: Pld, excess: float) -> bool:
    """Whether the profile of `smaller`, an upper bound, is nowhere above that of `larger` plus tau.

    `excess` is tau / (1 - delta(0)), with the delta(0) of `larger`. Both profiles are linear in e^eps between the
    losses of both distributions, so that it suffices to compare them at these losses and at 0.
    """
    losses = np.unique(np.concatenate([[0.0], _places(larger), _places(smaller)]))
    above = profile_of(smaller)(losses)
    size = larger.masses.shape[0]
    below = profile_of(dataclasses.replace(larger, bound=Bound.UPPER))(losses)  # up to its rounding, which is known
    below = below * (1.0 - 2.0**-47 * size) - 2.0**-48 * (1.0 + losses[-1] + abs(larger.offset) + larger.step * size)
    tau = down(excess * (1.0 - min(1.0, float(below[0]) + 2.0**-20)), 4)
    return bool(losses[-1] < MAX_EPSILON and np.all(above <= below + tau))


def _places(loss: Pld) -> NDArray[Any]:
    """The losses >= 0 at which a distribution has masses."""
    places = loss.offset + loss.step * np.arange(loss.masses.shape[0])
    return places[places >= 0.0]
