"""The batches that a mechanism describes; each batch is a function of the key and the step."""

import dataclasses
import functools
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import (
    check_at_most,
    check_count,
    check_epsilon,
    checked_number,
    checked_whole,
    python_number,
)
from jaxacct.accounting._truncation import excess
from jaxacct.bounds import methods_for
from jaxacct.mechanisms._base import Mechanism, Parts
from jaxacct.mechanisms._sampling import Coins, CutCoins, Fixed, Groups, Sampling
from jaxacct.mechanisms._schedules import Schedule
from jaxacct.mechanisms._sizes import known_size
from jaxacct.reporting import Run
from jaxacct.special import binomial_tail, bisect_whole
from jaxacct.training._drawing import INEXACT, Drawn, drawn, subset
from jaxacct.training._grain import BatchSampler, BatchSource
from jaxacct.training._phases import Epoch, check_scalar
from jaxacct.training._words import Words, secret_bytes

_MOST_RECORDS = 2**31 - 2  # an index is an int32, and a neighbouring data set has one more record
_MOST_STEPS = 2**31 - 1  # what the counters count
_OVERFLOW = 1e-15  # probability that some batch of the run exceeds the size chosen by default
_ROUND_UP = 1.0 + 2.0**-50  # rounds up a product of two doubles, and a sum of two


class Batch(NamedTuple):
    """The records of one step, padded: `indices[i]` is a record where `mask[i]` is true, and padding, 0, elsewhere.

    >>> import numpy as np
    >>> from jaxacct import training
    >>> indices, mask = training.Batch(np.array([3, 5, 0]), np.array([True, True, False]))
    >>> indices[mask]
    array([3, 5])
    """

    indices: NDArray[Any]  # int32 [batch_size]
    mask: NDArray[Any]  # bool [batch_size]


@dataclasses.dataclass(frozen=True)
class Batches:
    """What `batches` returns: a sequence of `Batch`, one for each step.

    It also stands for the run that the batches were drawn for: `privacy_spent` and `steps_affordable` take it in place
    of a mechanism, and then include the cost of truncation.

    Attributes:
      mechanism: what was described, a mechanism or an `Epoch`.
      num_records: the size of the data set.
      max_batch_size: rows of a batch, padding included, over all shards.
      shard: (index, count): which shard of each batch this is, and of how many.

    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=4, num_epochs=2)
    >>> data = training.batches(run, num_records=8, key=0)
    >>> len(data), data.batch_size, data.mean_batch_size
    (8, 9, 2.0)
    >>> sorted(int(i) for indices, mask in list(data)[:4] for i in indices[mask])     # an epoch
    [0, 1, 2, 3, 4, 5, 6, 7]
    """

    mechanism: Mechanism | Epoch
    num_records: int
    max_batch_size: int
    shard: tuple[int, int]
    _sampling: Sampling = dataclasses.field(repr=False)
    _secret: bytes = dataclasses.field(repr=False)
    _piece: int | None = dataclasses.field(default=None, repr=False)

    @property
    def batch_size(self) -> int:
        """The rows of each batch in this shard, padding included: always the same."""
        return self.max_batch_size // self.shard[1]

    @property
    def mean_batch_size(self) -> float:
        """The average number of records in a step, over all shards."""
        return self.num_records * self._sampling.rate

    def __len__(self) -> int:
        return self._sampling.length

    def __getitem__(self, step: int | slice) -> Any:
        """The `Batch` of a step: the same at every call, in every process, before and after an interruption.

        Negative steps count from the end. A slice gives a list.

        Raises:
          IndexError: unless `step` is in [-len(self), len(self)).
        """
        if isinstance(step, slice):
            return [self[i] for i in range(*step.indices(len(self)))]
        given = operator.index(step)
        step = given + len(self) if given < 0 else given
        if not 0 <= step < len(self):
            raise IndexError(f"step={given} must be in [{-len(self)}, {len(self) - 1}]")
        period, place = divmod(step, self._sampling.period)
        records = _drawn(self._sampling, self._secret, self.num_records, period).step(place)
        if records.size > self.max_batch_size:
            words = Words(self._secret, step, b"truncation of " + _use(self._sampling, self.num_records))
            records = records[np.sort(subset(words, records.size, self.max_batch_size))]
        index, count = self.shard
        here = records[index::count]
        indices, mask = np.zeros(self.batch_size, np.int32), np.zeros(self.batch_size, np.bool_)
        indices[: here.size], mask[: here.size] = here, True
        if self._piece is None:
            return Batch(indices, mask)
        missing = -self.batch_size % self._piece
        return Batch(*(np.pad(row, (0, missing)).reshape(-1, self._piece) for row in (indices, mask)))

    def __iter__(self) -> Iterator[Batch]:
        return self.after(0)

    def after(self, num_steps: int) -> Iterator[Batch]:
        """The batches after the first `num_steps`, with which a run continues after that many releases."""
        num_steps = checked_whole("num_steps", num_steps, 0, _MOST_STEPS)
        return map(self.__getitem__, range(num_steps, len(self)))

    def stacked(self, start: int = 0, stop: int | None = None) -> Batch:
        """The batches of ``data[start:stop]`` as one `Batch`, with a leading axis of steps.

        This is for ``jax.lax.scan(step, state, data.stacked(0, 100))``, whose body is given one batch after the other.

        Raises:
          ValueError: if there are no batches in that range.

        >>> import jaxacct as ja
        >>> from jaxacct import training
        >>> data = training.batches(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=4), num_records=8, key=0)
        >>> data.stacked(1, 4).indices.shape == (3, data.batch_size)
        True
        """
        found = self[start:stop]
        if not found:
            raise ValueError(f"start={start!r} and stop={stop!r} must leave some of the {len(self)} batches")
        return Batch(*map(np.stack, zip(*found, strict=True)))

    def microbatches(self, size: int) -> "Batches":
        """The same batches, each cut into pieces of `size` rows: the arrays are [pieces, size], padded at the end.

        The pieces of one batch together make one release: see `private_gradients`, which takes them as they are.

        Raises:
          ValueError: if `size` is not a whole number >= 1.

        >>> import jaxacct as ja
        >>> from jaxacct import training
        >>> data = training.batches(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=4), num_records=60, key=0)
        >>> pieces = data.microbatches(16)[0]
        >>> data.batch_size, pieces.mask.shape, int(pieces.mask.sum()) == int(data[0].mask.sum())
        (45, (3, 16), True)
        """
        return dataclasses.replace(self, _piece=checked_whole("size", size, 1, _MOST_RECORDS))

    def sampler(self) -> BatchSampler:
        """A sampler for ``grain.DataLoader``, of whole batches, one for each step.

        Its data source must be the one that `source` returns, which reads the records of a batch. The loader takes its
        shards from `shard`, and may read batches ahead in several workers:

            grain.DataLoader(data_source=data.source(records), sampler=data.sampler(), worker_count=4)

        It yields (records, mask). Without a loader, ``grain.MapDataset.source(data)`` gives (indices, mask).
        """
        return BatchSampler(dataclasses.replace(self, shard=(0, 1)), self.shard)

    def source(self, records: Any) -> BatchSource:
        """`records`, a sequence of `num_records` arrays or trees of them, as a data source for `sampler`.

        Raises:
          ValueError: if `records` does not have `num_records` entries.
        """
        try:
            number = len(records)
        except TypeError:
            raise ValueError(
                f"records={type(records).__name__} must be a sequence of num_records = {self.num_records} records"
            ) from None
        if number != self.num_records:
            raise ValueError(f"len(records)={number} must be num_records = {self.num_records}")
        count = self.shard[1]
        return BatchSource(tuple(dataclasses.replace(self, shard=(i, count)) for i in range(count)), records)

    def overflow(self, num_steps: int) -> float:
        """Upper bound on the probability that any of `num_steps` batches differs from what the mechanism describes.

        A batch differs if more than `max_batch_size` records were drawn for it, so that some were left out, in this
        data set or in one with one more record: P(Binomial(num_records + 1, rate) > max_batch_size) for each step.
        Poisson sampling draws sizes from probabilities rounded to 192 bits, which adds 2^-128. Nothing is ever left out
        if there are num_records + 1 rows, or if the mechanism itself fixes the size of batches.
        """
        known = self._sampling.largest is not None
        tail = 0.0 if known else binomial_tail(self.num_records + 1, self._sampling.rate, self.max_batch_size)
        inexact = INEXACT if isinstance(self._sampling, Coins | CutCoins | Groups) else 0.0
        return min(1.0, (num_steps * tail + inexact) * _ROUND_UP)

    def excess_delta(self, epsilon: float, num_steps: int | None = None) -> float:
        """Upper bound on what truncation adds to delta(`epsilon`) in `num_steps` steps: (1 + e^epsilon) times
        `overflow`.

        Run the truncated mechanism M' and the untruncated mechanism M with the same randomness: they differ with a
        probability of at most tau = `overflow`, on each of two neighbouring data sets. So for every event S

            P(M'(D) in S) <= P(M(D) in S) + tau <= e^epsilon P(M(D') in S) + delta + tau
                          <= e^epsilon P(M'(D') in S) + delta + (1 + e^epsilon) tau.

        Upper bound, add or remove one record; as for truncated Poisson batches in Chua, Ghazi, Kamath, Kumar,
        Manurangsi, Sinha & Zhang 2024, "Scalable DP-SGD: Shuffling vs. Poisson Subsampling" (arXiv 2411.04205).

        Raises:
          ValueError: if `epsilon` is not >= 0.
        """
        check_epsilon("epsilon", epsilon)
        return excess(self.overflow(len(self) if num_steps is None else num_steps), checked_number("epsilon", epsilon))

    def drawn_by(self) -> bytes:
        """What decides which records are drawn: the same for the same batches."""
        return self._secret + _use(self._sampling, self.num_records)

    def as_run(self) -> Run:
        """The whole run, for a privacy statement, with the probability that any of its batches was truncated."""
        described = self.mechanism.mechanism if isinstance(self.mechanism, Epoch) else self.mechanism
        return Run(described, self.overflow(len(self)))

    # What the training functions need of a phase:

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Descriptions of the first `number` releases: those of the mechanism."""
        return self.mechanism.releases(number)

    def noise_schedule(self) -> Schedule:
        """The noise of each release: the mechanism's schedule."""
        return self.mechanism.noise_schedule()

    @property
    def releases_per_epoch(self) -> int:
        """The noise releases of one epoch of the mechanism."""
        return self.mechanism.releases_per_epoch

    def partial_epoch_releases(self, epochs: int) -> int:
        """The mechanism's own `partial_epoch_releases`."""
        return self.mechanism.partial_epoch_releases(epochs)


@functools.lru_cache(maxsize=2)
def _drawn(sampling: Sampling, secret: bytes, num_records: int, period: int) -> Drawn:
    """The draws of one period, cached, since the steps of an epoch are requested one by one."""
    return drawn(sampling, Words(secret, period, _use(sampling, num_records)), num_records)


def _use(sampling: Sampling, num_records: int) -> bytes:
    """A label of the sampling law: two laws share no words under one key; a longer run begins as a shorter one."""
    rate, records = sampling.rate.hex(), num_records
    law = f"{type(sampling).__name__} {sampling.period} {rate}"
    if isinstance(sampling, Groups):
        law += f" in {sampling.num_groups}, {sampling.num_selected}"
    elif isinstance(sampling, Fixed):
        law += f" with {sampling.most}, {sampling.with_replacement}"
    elif isinstance(sampling, CutCoins):
        law += f" cut to {sampling.most}"
    return f"{law} of {records}".encode()


def batches(
    mechanism: Mechanism | Epoch,
    num_records: int,
    key: Any,
    *,
    max_batch_size: int | None = None,
    shard: tuple[int, int] = (0, 1),
) -> Batches:
    """The `Batches` that `mechanism` describes: for each step the indices of its records, padded to one size.

    - `PoissonSampled`: each record joins each step with the same probability, independently.
    - `RandomAllocation`, `PartialAllocation`, `ScheduledAllocation`: in each epoch, each record joins a uniform set of
      k of its t steps, independently of the others (k = 1: balls and bins).
    - `RandomAllocation` of `PoissonSampled` (cyclic Poisson sampling): each record is allocated to a group instead of a
      step; the groups take turns, and each step samples from one of them.
    - `FixedBatches`: in each step a uniform set of records, or records drawn one by one with replacement, in which case
      a record may fill several rows of a batch.
    - `TruncatedPoisson`: as for `PoissonSampled`; if a batch is too large, a uniformly random subset of it is kept.
    - `ShuffledBatches`, and `Epoch(Shuffled(...), num_steps)`: in each epoch, all records in a uniformly random order,
      cut into batches.

    Batches have exactly this distribution if the output of SHAKE-256 under a secret key is taken for fair coins. The
    training loop only has to let each record contribute once, clipped, wherever it is in a batch. Each batch is a
    function of `key` and the step alone: a run that is resumed continues with the batches that it would have had.

    Batches differ in size, and their sizes are secret, so each is padded to `max_batch_size` rows. If a batch has more
    records, a uniformly random subset of it is kept; see `Batches.excess_delta` for what that costs. By default
    `max_batch_size` is such that the probability that any batch of the run is truncated is at most 1e-15.

    Args:
      mechanism: what is to be accounted for; its number of steps, of all epochs, is the number of batches.
      num_records: whole number in [1, 2^31 - 2], the size of the data set; for a shuffle, its number of reports. If the
        mechanism states the number of records, or was made by `from_epochs`, it must be that number.
      key: a key of `jax.random`, a whole number >= 0, or bytes. Anyone who knows it knows who took part. Use
        ``secrets.token_bytes(32)`` for a private run, and keep it where checkpoints are kept. Use each key for one run
        only: a second phase or run with the same sampling under the same key would draw the same batches again, which
        is not what composition accounts for.
      max_batch_size: whole number >= 1, rows of a batch over all shards; None for as many as are needed.
      shard: (index, count), as ``(jax.process_index(), jax.process_count())``: this process takes every count-th row of
        each batch. All shards together hold the batch that a single process would have.

    Returns:
      `Batches`: a sequence of `Batch`, one for each step.

    Raises:
      ValueError: if the accountant has no analysis of `mechanism`, or `mechanism` does not say how its records are
        drawn; if an argument is out of range; if `max_batch_size` is so small that no delta below 1 holds.

    >>> import jax
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=1000)
    >>> data = training.batches(run, num_records=60_000, key=jax.random.key(0))
    >>> indices, mask = data[0]
    >>> indices.shape == mask.shape == (data.batch_size,)
    True
    >>> for indices, mask in data.after(998):             # as `images[indices]`, with losses times `mask`
    ...     print(len(indices) == data.batch_size)
    True
    True
    """
    check_scalar(mechanism)
    methods_for(mechanism.mechanism if isinstance(mechanism, Epoch) else mechanism)
    secret = secret_bytes(key)
    check_count("num_records", checked_number("num_records", num_records), largest=_MOST_RECORDS)
    num_records, described_for = int(num_records), known_size(mechanism)
    if described_for not in (None, num_records):
        raise ValueError(f"num_records={num_records} must be {described_for}, the dataset_size of the mechanism")
    sampling = mechanism.sampling()
    check_count("number of steps", sampling.length, largest=_MOST_STEPS)
    sampling = sampling.of_records(num_records)
    index, count = _checked_shard(shard)

    def made(size: int) -> Batches:
        return Batches(mechanism, num_records, size, (index, count), sampling, secret)

    if max_batch_size is None:
        return made(-(-_enough(sampling, num_records) // count) * count)
    check_count("max_batch_size", checked_number("max_batch_size", max_batch_size), largest=_MOST_RECORDS)
    if max_batch_size % count:
        raise ValueError(f"max_batch_size={max_batch_size} must be a multiple of the shard count {count}")
    data = made(int(max_batch_size))
    if sampling.largest is not None:
        check_at_most("largest batch", sampling.largest, "max_batch_size", max_batch_size)
    elif data.excess_delta(0.0) >= 1.0:
        raise ValueError(
            f"max_batch_size={max_batch_size} must be larger: batches have {data.mean_batch_size:.6g} on average; "
            f"no delta below 1 is certified where some of {len(data)} are truncated with probability 1/2 or more"
        )
    return data


def _checked_shard(shard: Any) -> tuple[int, int]:
    if isinstance(shard, tuple | list) and len(shard) == 2:
        index, count = (python_number(value) for value in shard)
        if isinstance(index, int) and isinstance(count, int) and 0 <= index < count:
            return index, count
    raise ValueError(f"shard={shard!r} must be (index, count), whole numbers with 0 <= index < count")


def _enough(sampling: Sampling, num_records: int) -> int:
    """The least size that any batch of the run exceeds with a probability of at most `_OVERFLOW`."""
    if sampling.largest is not None:
        return sampling.largest

    def holds(size: int) -> bool:
        return sampling.length * binomial_tail(num_records + 1, sampling.rate, size) <= _OVERFLOW

    return bisect_whole(holds, num_records + 1, 0)
