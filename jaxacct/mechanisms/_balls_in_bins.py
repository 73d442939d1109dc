"""Balls in bins with correlated noise: each record is in one bin of steps, and the strategy's columns overlap."""

import dataclasses
from typing import Any

import numpy as np

from jaxacct._types import NeighboringRelation
from jaxacct._validate import check_count, checked_array
from jaxacct.mechanisms._base import Mechanism, Parts, description
from jaxacct.mechanisms._fields import Privacy, count, fixed, positive
from jaxacct.mechanisms._sampling import Coins, Groups, Sampling, Sets
from jaxacct.mechanisms._words import EVERY_STEP, counted, epochs

_LARGEST = 1e100  # of the entries of a strategy: their squares are summed
_MOST_STEPS = 2**22  # steps: a strategy's columns are summed over all of them
_MOST_WORK = 2**33  # products, with one sum for each distance of two bins: some seconds


@description
class BallsInBins(Mechanism):
    """`num_epochs` epochs of `num_batches` steps with correlated noise; a record joins the same step of each epoch.

    Which step that is, the record's bin, is drawn once, uniformly, and independently for each record. Step i releases
    the sum of clipped gradients plus row i of C^-1 z, where C is the strategy and the entries of z are independent N(0,
    (noise_multiplier * clipping norm)^2); columns of C need not have norm 1. The analysis depends on the inner products
    of the bins' means |C| x_b, where x_b marks the steps of bin b: the run is dominated by a mean of log-normal
    variables with those covariances, and equal to it for some data if C has no negative entry (proved in
    docs/papers/correlated.md). If C has negative entries, |C| is analysed in its place, which gives an upper bound.
    Adjacency: add or remove one record; batches are not cut, and no sum is divided by a realised batch size.

    Args:
      strategy: C, [n, n], lower triangular; or the first column of a Toeplitz matrix, at most n numbers. Static: not
        differentiated through.
      noise_multiplier: float > 0, the standard deviation of z divided by the clipping norm.
      num_batches: whole number >= 1, t: the number of steps of an epoch, and of bins.
      num_epochs: whole number >= 1, k.
      num_steps: n, to be given if the last epoch is cut short: more than t (k - 1) and at most t k. If left out, it is
        the size of the matrix, or t k. Static.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> run = ja.BallsInBins([1.0, 0.5, 0.25], noise_multiplier=4.0, num_batches=100, num_epochs=5)
    >>> found = ja.epsilon_interval(run, target_delta=1e-5)
    >>> round(found.lower, 3), round(found.upper, 3)
    (0.233, 0.403)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "balls in bins"
    released = EVERY_STEP
    reduction = "bins whose overlaps are raised, some of them left out"

    strategy: Any = fixed()
    noise_multiplier: Any = positive(
        "noise multiplier",
        "SIGMA",
        unit="noise std / clipping norm",
        help="noise standard deviation of z over the clipping norm, > 0",
        privacy=Privacy.GROWS,
    )
    num_batches: Any = count("number of batches", "T", help="steps of an epoch, of which a record joins one")
    num_epochs: Any = count(
        "number of epochs", "K", help="epochs, a record in the same step of each", privacy=Privacy.FALLS, default=1
    )
    num_steps: Any = fixed(default=None)

    def __post_init__(self) -> None:
        rows = checked_array("strategy", self.strategy).astype(np.float64)
        if rows.ndim not in (1, 2) or rows.size == 0 or not np.all(np.abs(rows) <= _LARGEST) or not np.any(rows):
            raise ValueError(f"strategy={self.strategy!r} must be numbers in [-{_LARGEST}, {_LARGEST}], not all 0")
        if rows.ndim == 2 and (rows.shape[0] != rows.shape[1] or np.any(np.triu(rows, 1))):
            raise ValueError(f"strategy of shape {rows.shape} must be coefficients [b], or lower triangular [n, n]")
        held = tuple(map(tuple, rows.tolist())) if rows.ndim == 2 else tuple(rows.tolist())
        object.__setattr__(self, "strategy", held)
        super().__post_init__()

    def check(self) -> None:
        super().check()
        if not (np.ndim(self.num_batches) or np.ndim(self.num_epochs)):
            batches, cycles = (x if isinstance(x, int | float | np.number) else None for x in self._counts)
            if batches is not None and cycles is not None:
                self._check_length(int(batches), int(cycles))

    @property
    def _counts(self) -> tuple[Any, Any]:
        return self.num_batches, self.num_epochs

    def _check_length(self, batches: int, cycles: int) -> None:
        matrix = isinstance(self.strategy[0], tuple)
        if self.num_steps is not None:
            check_count("num_steps", self.num_steps)
        steps, most = self.length, batches * cycles
        if not most - batches < steps <= most:
            what = f"strategy of {steps} rows" if self.num_steps is None else f"num_steps={self.num_steps}"
            raise ValueError(f"{what} must be above {most - batches} and at most {most}: {cycles} epochs of {batches}")
        if matrix and steps != len(self.strategy):
            raise ValueError(f"num_steps={self.num_steps} must be left out: the strategy has {len(self.strategy)} rows")
        if not self.is_short:
            raise ValueError(
                f"num_batches={batches}, num_epochs={cycles} must be fewer: of {steps} steps and {len(self.strategy)} "
                f"bands the overlaps are not computed ({_MOST_STEPS} steps at most, or {_MOST_WORK} products)"
            )

    @property
    def length(self) -> int:
        """n, the number of steps of the run, for concrete scalar fields."""
        if self.num_steps is not None:
            return int(self.num_steps)
        if isinstance(self.strategy[0], tuple):
            return len(self.strategy)
        return int(self.num_batches) * int(self.num_epochs)

    @property
    def is_short(self) -> bool:
        """Whether the overlaps of its bins can be computed, for concrete scalar fields."""
        bins, steps = int(self.num_batches), self.length
        dense = 2 * len(self.strategy) >= bins
        return steps <= _MOST_STEPS and not (dense and bins * steps > _MOST_WORK)

    @property
    def is_signed(self) -> bool:
        """Whether an entry of the strategy is negative, so that its absolute values are analysed."""
        return bool(np.min(np.asarray(self.strategy)) < 0.0)

    def describe(self) -> str:
        shape = np.shape(self.strategy)
        noise = f"a strategy matrix of {shape[0]} rows" if len(shape) == 2 else counted(shape[0], "coefficient")
        scheme = f"balls in bins, each record in one of {counted(self.num_batches, 'batch', 'batches')}"
        scheme = f"{scheme}{epochs(self.num_epochs)}, the same in each"
        signs = ", analysed by absolute values" if self.is_signed else ""
        return f"{scheme}; correlated noise of {noise}{signs}, noise multiplier {self.noise_multiplier}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            "each record's batch is drawn uniformly, once for all epochs and independently of the other records, and "
            "stays secret; batches are not cut to a size",
            "step i releases a sum of contributions clipped to norm C plus row i of the inverse strategy times "
            "independent Gaussian noise of standard deviation noise_multiplier * C; a step may depend on all earlier "
            "outputs",
        )

    def loses_nothing(self) -> bool:
        return False

    def sampling(self) -> Sampling:
        of = Groups.of(Sets.of(self.num_batches), Coins.of(1.0, self.num_epochs))
        return dataclasses.replace(of, length=self.length)

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Whole runs, drawn afresh; for an unfinished first run the steps so far, with their part of C."""
        finished, done = divmod(number, self.length)
        if finished or not done:
            return (self.epochs(finished + bool(done)),)
        return (((self._begun(done), 1),),)

    def _begun(self, steps: int) -> "BallsInBins":
        bins = int(self.num_batches)
        if isinstance(self.strategy[0], tuple):
            held: Any = tuple(row[:steps] for row in self.strategy[:steps])
            if not any(map(any, held)):
                return self
        else:
            held = self.strategy
        length = None if isinstance(self.strategy[0], tuple) else steps
        return BallsInBins(held, self.noise_multiplier, bins, -(-steps // bins), length)

    def epochs(self, number: int) -> Parts:
        return ((self, number),)

    @property
    def releases_per_epoch(self) -> int:
        return self.length

    def partial_epoch_releases(self, epochs: int) -> int:
        """All but the last of the first run; a later run is charged whole."""
        return 0 if epochs else self.length - 1
