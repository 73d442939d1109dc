"""Noise that is correlated over the steps (matrix factorisation), and the mechanism for each way to draw batches.

Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization: a unified approach to private training".
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct._validate import (
    check_count,
    check_delta,
    check_epsilon,
    check_positive,
    check_probability,
    checked_array,
    checked_choice,
    checked_number,
)
from jaxacct.bounds.correlated import MOST_COVARIANCES, covariances
from jaxacct.divergence.sampling import _bins as bins
from jaxacct.divergence.sampling import _min_separation as min_separation
from jaxacct.divergence.sampling._chernoff import chernoff_upper_confidence
from jaxacct.estimation import Estimate, Progress, Sampler
from jaxacct.mechanisms import BallsInBins, Gaussian, PoissonSampled, RandomAllocation
from jaxacct.mechanisms._same_bins import SameBins
from jaxacct.special import up

__all__ = ["BallsInBins", "BandedNoise", "MinSeparation", "NoiseEstimate", "estimate_delta", "estimate_noise"]

_DOWN = 1.0 - 2.0**-50  # covers a quotient and a root


@dataclasses.dataclass(frozen=True, eq=False)
class BandedNoise:
    """Training with correlated noise C^-1 z, C a banded strategy matrix: a mechanism for each way to draw batches.

    Step i adds row i of C^-1 z to its sum of clipped gradients, where the entries of z are independent N(0,
    (noise_multiplier * clipping norm)^2). All steps together are a post-processing of C x + z, where x are the sums. C
    is lower triangular with b bands: column j is zero outside rows j to j + b - 1. If the steps that a record joins are
    at least b apart, whichever they are, no two of its columns share a row. Given all earlier rows, the record's
    contribution to the rows of one column is known except for whether it takes part, so each participation is one
    Gaussian release of sensitivity norm(column), independent of the others: the run is, exactly, the same scheme with
    independent noise (Choquette-Choo et al. 2023, Theorem 4; gradients may depend on earlier outputs: Denisov et al.
    2022, Theorem 2.1). Columns with a smaller norm than the largest count as having that norm, which for a Toeplitz
    matrix loses something only in its last b - 1 columns. Where columns that a record may touch overlap there is no
    such reduction: `balls_in_bins` has bounds of its own, and the other methods raise ValueError. Adjacency: add or
    remove one record.

    Args:
      strategy: C, [n, n]; or the first column of a banded Toeplitz matrix, its b coefficients [b].
      noise_multiplier: float > 0, the standard deviation of z divided by the clipping norm.
      num_steps: whole number, n; to be given with coefficients.

    Raises:
      ValueError: if C is not lower triangular, or an argument is out of range.

    >>> from jaxacct.correlated import BandedNoise
    >>> noise = BandedNoise([1.0, 0.5, 0.25], noise_multiplier=2.0, num_steps=300)
    >>> run = noise.cyclic_poisson(sampling_prob=0.03)
    >>> run.num_steps, round(run.mechanism.noise_multiplier, 4)
    (100, 1.7457)
    """

    strategy: Any
    noise_multiplier: float
    num_steps: int | None = None

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)
        matrix = checked_array("strategy", self.strategy).astype(np.float64)
        if not np.all(np.isfinite(matrix)) or matrix.size == 0 or not np.any(matrix):
            raise ValueError(f"strategy={self.strategy!r} must be finite numbers, not all 0")
        if matrix.ndim == 1:
            check_count("num_steps", self.num_steps)
            if self.num_steps is None or len(matrix) > self.num_steps:
                raise ValueError(f"num_steps={self.num_steps} must be given, at least {len(matrix)} (coefficients)")
        elif matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or np.any(np.triu(matrix, 1)):
            raise ValueError(f"strategy of shape {matrix.shape} must be coefficients [b], or lower triangular [n, n]")
        elif self.num_steps not in (None, len(matrix)):
            raise ValueError(f"num_steps={self.num_steps} must be left out: the strategy has {len(matrix)} rows")
        object.__setattr__(self, "strategy", matrix)
        object.__setattr__(self, "num_steps", int(self.num_steps or len(matrix)))

    @property
    def num_bands(self) -> int:
        """b, a whole number: columns that are at least b steps apart share no row."""
        rows, *columns = np.nonzero(self.strategy)
        return int((rows - (columns[0] if columns else 0)).max()) + 1

    @property
    def squared_norms(self) -> NDArray[Any]:
        """Squared norms of the columns, float64 [n], rounded up."""
        if self.strategy.ndim == 2:
            columns = [math.fsum(np.square(column).tolist()) for column in self.strategy.T]
        else:
            squares = np.square(self.strategy).tolist()
            ends = [math.fsum(squares[:kept]) for kept in range(len(squares) + 1)]
            left = np.minimum(self._length - np.arange(self._length), len(squares))
            columns = [ends[int(kept)] for kept in left]
        return up(np.asarray(columns), 8) + 1e-300  # in case a square underflows

    @property
    def _length(self) -> int:
        assert self.num_steps is not None
        return self.num_steps

    def _gaussian(self, squared: float) -> Gaussian:
        return Gaussian(float(self.noise_multiplier) / math.sqrt(squared) * _DOWN)

    def _apart(self, what: str, steps: int | None) -> int:
        """A distance in steps at which columns share no row; raises ValueError if `steps` is smaller."""
        found = self.num_bands if steps is None else steps
        check_count(what, found)
        if found < self.num_bands:
            raise ValueError(
                f"{what}={found} must be at least the {self.num_bands} bands: columns of C that are closer share "
                "rows, so that the participations of a record are correlated and no mechanism here is equal to the run"
            )
        return int(found)

    def cyclic_poisson(self, sampling_prob: float, *, cycle_length: int | None = None) -> PoissonSampled:
        """`PoissonSampled`: a record of group g joins each of the steps g, g + L, g + 2L, .. by an independent coin.

        It has ceil(n / L) rounds with noise noise_multiplier / norm. A record's group, however drawn, is taken as
        known.

        Args:
          sampling_prob: float in [0, 1].
          cycle_length: L, a whole number >= the number of bands; that number if not given.

        Raises:
          ValueError: if `cycle_length` is below the number of bands, or a number is out of range.
        """
        check_probability("sampling_prob", sampling_prob)
        length = self._apart("cycle_length", cycle_length)
        release = self._gaussian(float(self.squared_norms.max()))
        return PoissonSampled(release, float(sampling_prob), -(-self._length // length))

    def allocated(self, num_selected: int = 1, *, cycle_length: int | None = None) -> RandomAllocation:
        """`RandomAllocation`: a record joins a uniform set of `num_selected` of the steps g, g + L, .. of its group.

        The smallest group decides, since fewer steps hide less. In a group of fewer than `num_selected` steps the
        record joins all of them.

        Args:
          num_selected: whole number >= 1.
          cycle_length: L, a whole number >= the number of bands; that number if not given.

        Raises:
          ValueError: if `cycle_length` is below the number of bands, or a number is out of range.
        """
        length = self._apart("cycle_length", cycle_length)
        check_count("num_selected", num_selected)
        release = self._gaussian(float(self.squared_norms.max()))
        return RandomAllocation(release, max(int(num_selected), self._length // length), int(num_selected))

    def balls_in_bins(self, cycle_length: int) -> RandomAllocation | BallsInBins:
        """`BallsInBins` or `RandomAllocation`: a record draws one of L bins and joins its step in every cycle.

        The last cycle may be cut short. Neighbouring bins use neighbouring columns, which makes the run `BallsInBins`,
        or `RandomAllocation` where C is diagonal.

        Args:
          cycle_length: whole number >= 1, L.

        Raises:
          ValueError: if a number is out of range.
        """
        check_count("cycle_length", cycle_length)
        bins, cycles = int(cycle_length), -(-self._length // int(cycle_length))
        if self.num_bands > 1:
            length = self._length if self.strategy.ndim == 1 else None
            return BallsInBins(self.strategy, float(self.noise_multiplier), bins, cycles, length)
        return SameBins.of(self._gaussian(float(self.squared_norms.max())), bins, cycles)

    def fixed_order(self, cycle_length: int) -> Gaussian:
        """`Gaussian`: a record joins one known step in every cycle, the same in each, as in epochs of a fixed order.

        Its noise multiplier is that of z divided by the root of the largest sum of squared norms of a record's columns.

        Args:
          cycle_length: whole number >= the number of bands.

        Raises:
          ValueError: if `cycle_length` is below the number of bands.
        """
        length, squares = self._apart("cycle_length", cycle_length), self.squared_norms
        return self._gaussian(up(max(math.fsum(squares[first::length].tolist()) for first in range(length)), 4))

    def min_separation(self, min_sep: int | None = None, *, most: int | None = None) -> Gaussian:
        """`Gaussian`: a record joins any known steps that are at least `min_sep` apart, at most `most` of them.

        Its noise follows from the largest sum of squared norms over such sets, found by dynamic programming over the
        steps. Where the steps are drawn at random (b-min-sep sampling), `MinSeparation` estimates how much that hides.

        Args:
          min_sep: whole number >= the number of bands; that number if not given.
          most: whole number >= 1, the largest number of participations; as many as fit if not given.

        Raises:
          ValueError: if `min_sep` is below the number of bands, or a number is out of range.
        """
        apart, squares = self._apart("min_sep", min_sep), self.squared_norms
        fit = -(-self._length // apart)
        if most is not None:
            check_count("most", most)
        best = np.zeros(self._length + apart)  # best[j]: of sets among the first j - apart + 1 steps
        for _ in range(fit if most is None else min(int(most), fit)):
            best[apart:] = np.maximum.accumulate(up(best[: self._length] + squares, 4))
        return self._gaussian(float(best[-1]))


@dataclasses.dataclass(frozen=True)
class MinSeparation:
    """b-min-sep sampling under correlated noise: a record joins each step that it may join with a fixed probability.

    It may join any step that comes at least `min_sep` steps after the last one that it joined. Its random draws are its
    own and stay secret. No certified bound is known to gain from this sampling, except for probability 1 and a warm
    start, which is balls in bins: `known_steps` is certified, and `estimate_delta` and `estimate_noise` estimate from
    samples how much the sampling hides. For steps far apart in cycles of their own (`BandedNoise.cyclic_poisson`) there
    is an exact answer.

    Args:
      noise: `BandedNoise` of at most `min_sep` bands.
      sampling_prob: float in [0, 1].
      min_sep: whole number >= the number of bands; that number if not given.
      warm_start: whether records begin in the state that they have after many steps, some of them still waiting;
        otherwise all may join the first step.

    Raises:
      ValueError: if an argument is out of range.

    Attributes:
      known_steps: `Gaussian`, certified: the run in which a record's steps are known, `BandedNoise.min_separation`.

    >>> import jaxacct as ja
    >>> from jaxacct.correlated import BandedNoise, MinSeparation, estimate_delta
    >>> run = MinSeparation(BandedNoise([1.0, 0.5], 2.0, num_steps=40), sampling_prob=0.1, min_sep=5)
    >>> found = estimate_delta(run, 1.0, num_samples=20_000, seed=0)
    >>> found.upper_confidence < 0.1 * ja.delta(run.known_steps, 1.0)
    True
    """

    noise: BandedNoise
    sampling_prob: float
    min_sep: int | None = None
    warm_start: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.noise, BandedNoise):
            raise ValueError(f"noise={self.noise!r} must be a BandedNoise")
        check_probability("sampling_prob", self.sampling_prob)
        object.__setattr__(self, "min_sep", self.noise._apart("min_sep", self.min_sep))

    @property
    def known_steps(self) -> Gaussian:
        return self.noise.min_separation(self.min_sep)

    def _renewals(self) -> min_separation.Renewals:
        strategy, steps = np.abs(self.noise.strategy), self.noise._length
        columns = np.zeros((self.noise.num_bands, steps))
        for h, row in enumerate(columns):
            row[: steps - h] = strategy[h] if strategy.ndim == 1 else np.diagonal(strategy, -h)
        assert self.min_sep is not None
        noise = float(self.noise.noise_multiplier)
        return min_separation.Renewals(columns / noise, float(self.sampling_prob), self.min_sep, bool(self.warm_start))


_Sampled = BallsInBins | MinSeparation


def _sampled(mechanism: _Sampled, sampler: Sampler | str | None) -> tuple[Callable[..., bins.Values], Sampler]:
    """``(epsilons, direction, num_samples, seed, progress=) -> Values``, and which sampler that is."""
    if isinstance(mechanism, MinSeparation):
        if checked_choice("method", sampler or Sampler.NAIVE, *Sampler) is not Sampler.NAIVE:
            raise ValueError(f"method={sampler!r} must be 'naive' for steps at least min_sep apart")
        return functools.partial(min_separation.samples, mechanism._renewals()), Sampler.NAIVE
    kind: Sampler = checked_choice("method", sampler or Sampler.IMPORTANCE, *Sampler)
    if kind not in (Sampler.IMPORTANCE, Sampler.NAIVE):
        raise ValueError(f"method={kind.value!r} must be 'importance' or 'naive' for balls in bins")
    check_count("num_batches", mechanism.num_batches, largest=MOST_COVARIANCES)
    of = bins.covariance_root(covariances(mechanism))
    return functools.partial(bins.samples, of, is_plain=kind is Sampler.NAIVE), kind


def _with_noise(mechanism: _Sampled, noise: float) -> _Sampled:
    if isinstance(mechanism, MinSeparation):
        return dataclasses.replace(mechanism, noise=dataclasses.replace(mechanism.noise, noise_multiplier=noise))
    return dataclasses.replace(mechanism, noise_multiplier=noise)


def estimate_delta(
    mechanism: BallsInBins | MinSeparation,
    target_epsilon: Any,
    *,
    num_samples: int,
    seed: int,
    direction: Direction | str | None = None,
    method: Sampler | str | None = None,
    confidence: float = 0.99,
    progress: Progress | None = None,
) -> Estimate:
    """An `Estimate` of delta under correlated noise, from samples of the dominating pair: never a certified bound.

    Samples of balls in bins are weighted, with bounded weights (CN-7 in docs/papers/correlated.md); samples of
    `MinSeparation` are plain (CN-8), with values up to B = 1. So `upper_confidence` is the Chernoff-KL bound of
    `jaxacct.estimation.estimate_delta`, right with probability `confidence` over the samples. With largest value B it
    is within a tenth of delta after some 200 log(1/(1 - confidence)) B / delta samples. For a strategy with negative
    entries the pair of absolute values is sampled.

    Args:
      mechanism: `BallsInBins` of scalar fields, up to 2048 bins; or `MinSeparation`.
      target_epsilon: float >= 0, or an array [G]: one set of samples, drawn for the smallest, is used for all.
      num_samples: whole number >= 1.
      seed: whole number in [0, 2^64), chosen beforehand: the least of several answers is no bound.
      direction: REMOVE or ADD; None for the larger of both, each at half of 1 - confidence.
      method: for balls in bins `Sampler.IMPORTANCE`, the default, or `Sampler.NAIVE`; for `MinSeparation` only the
        latter.
      confidence: probability in (0, 1), for each epsilon separately.
      progress: called as progress(samples done, samples in all), for each direction.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.correlated import BallsInBins, estimate_delta
    >>> run = BallsInBins([1.0, 0.5], noise_multiplier=2.0, num_batches=20, num_epochs=4)
    >>> found = estimate_delta(run, 1.0, num_samples=20_000, seed=0, confidence=0.999)
    >>> found.bound.value, found.mean < found.upper_confidence
    ('estimate', True)
    """
    check_epsilon("target_epsilon", target_epsilon)
    checked_number("num_samples", num_samples)
    check_count("num_samples", num_samples)
    checked_number("confidence", confidence)
    check_delta("confidence", confidence)
    if not (isinstance(seed, int | np.integer) and 0 <= seed < 2**64):
        raise ValueError(f"seed={seed!r} must be a whole number in [0, 2^64)")
    draw, sampler = _sampled(mechanism, method)
    sides = tuple(Direction) if direction is None else (checked_choice("direction", direction, *Direction),)
    epsilons = np.asarray(target_epsilon, np.float64)
    means, errors, uppers = [], [], []
    for side in sides:
        found = draw(epsilons.reshape(-1), side, int(num_samples), int(seed), progress=progress)
        means.append(found.scale * found.mean)
        errors.append(found.scale * found.error)
        share = (1.0 - confidence) / len(sides)
        uppers.append(chernoff_upper_confidence(means[-1], int(num_samples), share, found.scale))
    worse = np.argmax(means, axis=0)[None]
    shaped = (
        np.take_along_axis(np.stack(means), worse, 0),
        np.take_along_axis(np.stack(errors), worse, 0),
        np.max(uppers, axis=0),
    )
    bounded = (np.minimum(shaped[0], 1.0), shaped[1], np.minimum(shaped[2], 1.0))
    mean, error, upper = (x.reshape(epsilons.shape) if epsilons.ndim else x.item() for x in bounded)
    return Estimate(mean, error, upper, confidence, int(num_samples), sampler)


class NoiseEstimate(NamedTuple):
    """A noise multiplier that samples showed to be enough.

    Attributes:
      noise_multiplier: the least that was accepted; enough with probability at least `confidence` over all samples.
      delta: the `Estimate` by which it was accepted.
      num_tried: how many noise multipliers were sampled, each at its share of 1 - confidence.
      confidence: of all of them together.
    """

    noise_multiplier: float
    delta: Estimate
    num_tried: int
    confidence: float


def estimate_noise(
    mechanism: BallsInBins | MinSeparation,
    target_epsilon: float,
    target_delta: float,
    *,
    num_samples: int,
    seed: int,
    lowest: float,
    highest: float,
    num_tried: int = 8,
    confidence: float = 1.0 - 1e-9,
) -> NoiseEstimate:
    """The least noise multiplier in a bracket that samples show to be enough: an estimate, never certified.

    `num_tried` noise multipliers are sampled, by halving the bracket in ratio. For each, samples of its own are drawn,
    at confidence 1 - (1 - confidence) / num_tried, so that with probability `confidence` no upper end of any of them is
    too small.

    Args:
      mechanism: `BallsInBins` or `MinSeparation`, whose own noise multiplier does not matter.
      target_epsilon: float >= 0.
      target_delta: float in (0, 1).
      num_samples: whole number >= 1, for each noise multiplier that is tried.
      seed: whole number in [0, 2^64 - num_tried], chosen beforehand.
      lowest: float > 0, where the bracket begins.
      highest: float > `lowest`, where it ends; `jaxacct.calibrate` gives one that is certified.
      num_tried: whole number >= 1.
      confidence: probability in (0, 1), for all together.

    Raises:
      ValueError: if an argument is out of range, or `highest` is not shown to be enough.

    >>> from jaxacct.correlated import BallsInBins, estimate_noise
    >>> run = BallsInBins([1.0, 0.5], noise_multiplier=1.0, num_batches=20, num_epochs=4)
    >>> found = estimate_noise(run, 1.0, 1e-2, num_samples=20_000, seed=0, lowest=1.0, highest=4.0)
    >>> 1.0 < found.noise_multiplier < 4.0, found.delta.upper_confidence <= 1e-2
    (True, True)
    """
    check_positive("lowest", lowest)
    check_delta("target_delta", target_delta)
    check_count("num_tried", num_tried)
    checked_number("confidence", confidence)
    check_delta("confidence", confidence)
    if not lowest < highest < math.inf:
        raise ValueError(f"highest={highest} must be above lowest={lowest} and finite")
    each = 1.0 - (1.0 - confidence) / num_tried

    def tried(noise: float, number: int) -> Estimate:
        run = _with_noise(mechanism, noise)
        return estimate_delta(run, target_epsilon, num_samples=num_samples, seed=seed + number, confidence=each)

    enough, found = float(highest), tried(float(highest), 0)
    if found.upper_confidence > target_delta:
        raise ValueError(
            f"highest={highest} is not shown to be enough: delta at most {found.upper_confidence:.3g} by {num_samples} "
            f"samples, with confidence {each}; it or num_samples must be larger"
        )
    low = float(lowest)
    for number in range(1, num_tried):
        middle = math.sqrt(low * enough)
        at_middle = tried(middle, number)
        if at_middle.upper_confidence <= target_delta:
            enough, found = middle, at_middle
        else:
            low = middle
    return NoiseEstimate(enough, found, int(num_tried), confidence)
