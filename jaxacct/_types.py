"""The tags that every answer carries, and what may come with its number: intervals and warnings."""

import enum
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

Number = TypeVar("Number")
Piece = TypeVar("Piece")


class Bound(enum.Enum):
    """How a number relates to the true privacy parameter.

    >>> import jaxacct as ja
    >>> ja.rdp(ja.Gaussian(1.0), orders=[2]).bound
    <Bound.UPPER: 'upper bound'>
    """

    UPPER = "upper bound"
    LOWER = "lower bound"
    ESTIMATE = "estimate"


class NeighboringRelation(enum.Enum):
    """Which pairs of datasets count as neighbours.

    >>> import jaxacct as ja
    >>> ja.rdp(ja.Gaussian(1.0), orders=[2]).neighboring_relation.value
    'add or remove one record'
    """

    ADD_OR_REMOVE_ONE = "add or remove one record"
    REPLACE_ONE = "replace one record"
    REPLACE_SPECIAL = "replace one record by a special one"


class LastBatch(enum.Enum):
    """What happens to the records of a shuffled list that do not fill a batch.

    Attributes:
      FULL: all batches have one size; a list of another length is padded with empty records before it is shuffled.
      SHORT: the last batch has fewer records than the others.
      DROPPED: in every epoch at least one record, and no more than a batch holds, are left out of all batches.

    >>> import jaxacct as ja
    >>> ja.ShuffledBatches(ja.Gaussian(1.0), num_steps=100, last_batch="dropped").last_batch
    <LastBatch.DROPPED: 'left out'>
    """

    FULL = "full"
    SHORT = "shorter"
    DROPPED = "left out"


class Direction(enum.Enum):
    """One side of an asymmetric divergence: REMOVE is D(with || without), ADD is D(without || with).

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> [round(float(ja.rdp(run, [2], direction=d).values[0]), 6) for d in ja.Direction]
    [0.017037, 0.016641]
    """

    REMOVE = "remove"
    ADD = "add"


class Ends(NamedTuple, Generic[Number]):
    """A certified lower and upper bound on a number: Python floats, or NumPy or JAX arrays of one shape.

    Where they bound a logarithm, the name of the variable says so: `log_ends`, `log_delta`.
    """

    lower: Number
    upper: Number


class OrderEdgeWarning(UserWarning):
    """The best Renyi order sits on the edge of the grid: the bound holds, but may be loose.

    >>> import warnings, jaxacct as ja
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     loose = ja.epsilon(ja.Gaussian(1000.0), target_delta=1e-6, method="rdp")
    >>> caught[0].category.__name__
    'OrderEdgeWarning'
    """


class TooFineError(ValueError):
    """A privacy loss distribution would need more grid points than are worth holding."""


class Interval(NamedTuple):
    """A certified interval.

    `lower` and `upper` bound the mechanism's own value. `analysis_lower` bounds from below the value of what was
    analysed; it differs from `lower` only where the analysis is a reduction (random allocation of several steps,
    shuffling), whose value may lie above the mechanism's. The requested precision holds for `upper` against
    `analysis_lower`. For a class of local randomizers, `lower` is the lower bound of one of them.

    >>> import jaxacct as ja
    >>> found = ja.epsilon_interval(ja.Gaussian(1.0), target_delta=1e-6)
    >>> 4.886554 <= found.lower <= found.upper <= 4.886555, found.lower == found.analysis_lower
    (True, True)
    """

    lower: Any
    upper: Any
    analysis_lower: Any

    def _repr_html_(self) -> str:
        """A table, for notebooks; every digit, since a rounded end might not hold."""
        rows = "".join(f"<tr><th>{name}</th><td>{end!r}</td></tr>" for name, end in self._asdict().items())
        return f"<table><caption>certified interval</caption>{rows}</table>"


class PrecisionWarning(UserWarning):
    """The interval holds, but is wider than the precision that was asked for.

    >>> import warnings, jaxacct as ja
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     wide = ja.epsilon_interval(ja.Composed(ja.Laplace(1.0), 5), target_delta=1e-3, precision=1e-12)
    >>> caught[-1].category.__name__
    'PrecisionWarning'
    """


class EstimateWarning(UserWarning):
    """The answer is an estimate from samples, at least the true one with confidence 1 - `failure`: not certified.

    >>> import warnings, jaxacct as ja
    >>> run = ja.BallsInBins([1.0, 0.5], noise_multiplier=4.0, num_batches=10, num_epochs=2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     estimated = ja.delta(run, target_epsilon=1.0, method="monte carlo")
    >>> caught[-1].category.__name__, caught[-1].message.failure
    ('EstimateWarning', 1e-12)
    """

    def __init__(self, message: str, failure: float) -> None:
        """`failure`: 1 minus the confidence."""
        super().__init__(message)
        self.failure = failure

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.failure)


class SlowWarning(UserWarning):
    """The answer takes more than a few seconds; the message says why. It comes while much work is still ahead.

    >>> import warnings, jaxacct as ja
    >>> warnings.simplefilter("ignore", ja.SlowWarning)  # for those who have time
    """


Progress = Callable[[int, float], None]
"""Called with (round, relative width) after each refinement of a bracket."""
