"""The records of the steps of one period, drawn exactly as a `Sampling` says."""

import bisect
import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import LastBatch
from jaxacct.mechanisms._sampling import Coins, CutCoins, Fixed, Groups, Orders, Sampling, Sets
from jaxacct.training._words import Words

_UNIT = 2**256  # the largest of the weights of a binomial law
_COUNT_BYTES = 24  # of the uniform number that a count is read from: 192 bits
INEXACT = 2.0**-128  # variation distance of 2^31 steps, of up to 2^31 records, from their law: see `_cumulative`
_SPARE = 16  # records drawn beyond the expected number of repeats
_PART = 2**17  # steps that are sorted together
_CELLS = 2**24  # entries, a byte each, of the table of the steps that some records have joined


class Drawn(NamedTuple):
    """The steps of a period: step s has records[ends[s - 1] : ends[s]], and the first step those before ends[0]."""

    records: NDArray[Any]  # integers
    ends: NDArray[Any]  # int64 [period]

    def step(self, number: int) -> NDArray[Any]:
        """The records of a step, by its number in the period."""
        return self.records[self.ends[number - 1] if number else 0 : self.ends[number]]


def drawn(sampling: Sampling, words: Words, num_records: int) -> Drawn:
    """The records 0 .. num_records - 1 of each step of a period."""
    return _DRAWS[type(sampling)](sampling, words, num_records)


def subset(words: Words, num_records: int, size: int) -> NDArray[Any]:
    """A uniform set of `size` records: the first distinct ones of a sequence of independent uniform records."""
    if size > num_records // 2:
        keep = np.ones(num_records, np.bool_)
        if size < num_records:
            keep[subset(words, num_records, num_records - size)] = False
        return np.flatnonzero(keep)
    found = words.below(num_records, size + size * size // num_records + _SPARE)
    while True:
        _, first = np.unique(found, return_index=True)
        if first.size >= size:
            return found[np.sort(first)[:size]]
        found = np.concatenate([found, words.below(num_records, size)])


@functools.lru_cache(maxsize=4)
def _cumulative(num_trials: int, prob: float) -> tuple[int, list[int]]:
    """(least count, cumulative weights from there on) of a binomial law, in whole numbers.

    From the mode outwards, where the weight is `_UNIT`, the largest one, each weight is the previous one times a
    rational number, rounded down, until it is 0. Each is less than n + 1 below its exact value, so the law is off by
    less than (n + 1)^2 2^-256, and by (n + 1) 2^-191 because it is read from 192 bits: 2^-129 in 2^31 steps with
    n < 2^31.
    """
    heads, whole = prob.as_integer_ratio()
    tails = whole - heads
    mode = (num_trials + 1) * heads // whole
    mode = min(mode, num_trials)
    above, below = [_UNIT], []
    for count in range(mode, num_trials):
        weight = above[-1] * ((num_trials - count) * heads) // ((count + 1) * tails)
        if not weight:
            break
        above.append(weight)
    weight = _UNIT
    for count in range(mode, 0, -1):
        weight = weight * (count * tails) // ((num_trials - count + 1) * heads)
        if not weight:
            break
        below.append(weight)
    return mode - len(below), list(itertools.accumulate([*reversed(below), *above]))


def _heads(words: Words, num_records: int, prob: float) -> NDArray[Any]:
    """The records whose coins show heads, ascending: their number is binomial, and given it they are a uniform set."""
    if prob in (0.0, 1.0):
        return np.arange(num_records * int(prob))
    least, cumulative = _cumulative(num_records, prob)
    place = int.from_bytes(words.raw(_COUNT_BYTES), "little") * cumulative[-1] >> 8 * _COUNT_BYTES
    size = least + bisect.bisect_right(cumulative, place)
    return np.sort(subset(words, num_records, size)) if size else np.zeros(0, np.int64)


def _coins(sampling: Coins, words: Words, num_records: int) -> Drawn:
    """The one step of a period."""
    records = _heads(words, num_records, sampling.rate)
    return Drawn(records, np.array([records.size]))


def _cut_coins(sampling: CutCoins, words: Words, num_records: int) -> Drawn:
    """The one step of a period: if there are too many heads, a uniform subset of them."""
    records = _heads(words, num_records, sampling.rate)
    if records.size > sampling.most:
        records = records[np.sort(subset(words, records.size, sampling.most))]
    return Drawn(records, np.array([records.size]))


def _fixed(sampling: Fixed, words: Words, num_records: int) -> Drawn:
    """The one step of a period, ascending; with replacement a record appears as many times as it was drawn."""
    draw = words.below if sampling.with_replacement else functools.partial(subset, words)
    return Drawn(np.sort(draw(num_records, sampling.most)), np.array([sampling.most]))


def _different(words: Words, num_records: int, num_steps: int, num_selected: int) -> NDArray[Any]:
    """[num_records, num_selected], rows of independent uniform steps; a row is drawn anew until its steps differ."""
    kind = np.min_scalar_type(num_steps)

    def draw(number: int) -> NDArray[Any]:
        return words.below(num_steps, number * num_selected).astype(kind).reshape(-1, num_selected)

    found = draw(num_records)
    missing = _with_repeats(found)
    while missing.size:
        rows = draw(missing.size)
        found[missing] = rows
        missing = missing[_with_repeats(rows)]
    return found


def _with_repeats(rows: NDArray[Any]) -> NDArray[Any]:
    """The indices of the rows that hold an entry twice: every pair of columns is compared, a million rows at once."""
    columns = np.ascontiguousarray(rows.T)
    repeats = np.zeros(len(rows), np.bool_)
    for first, second in itertools.combinations(columns, 2):
        repeats |= first == second
    return np.flatnonzero(repeats)


def _joined(words: Words, num_records: int, num_steps: int, size: int) -> NDArray[Any]:
    """bool [num_records, num_steps], true at a uniform set of `size` steps in each row, by Floyd's algorithm.

    For j = t - k .. t - 1, take a uniform step of 0 .. j, or j if that step is taken already.
    """
    here = np.arange(num_records)
    joined = np.zeros((num_records, num_steps), np.bool_)
    for j in range(num_steps - size, num_steps):
        step = words.below(j + 1, num_records).astype(np.int64)
        step[joined[here, step]] = j
        joined[here, step] = True
    return joined


def _chosen_steps(words: Words, num_records: int, num_steps: int, num_selected: int) -> NDArray[Any]:
    """[num_records num_selected], record by record: the steps that each joins, a uniform set for each record."""
    if num_selected == 1:
        return words.below(num_steps, num_records)
    if num_selected**2 <= num_steps:  # most rows have no repeats at the first draw
        return _different(words, num_records, num_steps, num_selected).ravel()
    omits = 2 * num_selected > num_steps  # then the omitted steps are fewer
    size = num_steps - num_selected if omits else num_selected
    found = np.empty((num_records, num_selected), np.min_scalar_type(num_steps))
    rows = max(1, _CELLS // num_steps)
    for start in range(0, num_records, rows):
        count = min(rows, num_records - start)
        joined = _joined(words, count, num_steps, size)
        found[start : start + count] = np.nonzero(joined != omits)[1].reshape(count, num_selected)
    return found.ravel()


def _by_step(steps: NDArray[Any], num_steps: int, num_selected: int) -> Drawn:
    """The records of each step, ascending, from the steps of each record.

    Records are taken in parts that fit into the cache; each record goes to the next free place of its step.
    """
    steps = steps.astype(np.min_scalar_type(num_steps - 1))  # up to 16 bits NumPy uses radix sort
    size = -(-max(_PART, 4 * num_steps) // num_selected) * num_selected
    parts = [steps[start : start + size] for start in range(0, steps.size, size)]
    counts = np.array([np.bincount(part, minlength=num_steps) for part in parts])
    ends = np.cumsum(counts.sum(axis=0))
    places = np.cumsum(counts, axis=0) - counts + (ends - counts.sum(axis=0))  # of the first of a part in each step
    records = np.empty(steps.size, np.int32)
    for number, part in enumerate(parts):
        order = np.argsort(part, kind="stable")
        shift = places[number] - (np.cumsum(counts[number]) - counts[number])
        at = np.repeat(shift, counts[number]) + np.arange(part.size)
        records[at] = (number * size + order) // num_selected
    return Drawn(records, ends)


def _sets(sampling: Sets, words: Words, num_records: int) -> Drawn:
    steps = _chosen_steps(words, num_records, sampling.period, sampling.num_selected)
    return _by_step(steps, sampling.period, sampling.num_selected)


def _groups(sampling: Groups, words: Words, num_records: int) -> Drawn:
    """Draws the groups first, as `_sets` does; step s samples from group s mod num_groups."""
    number = sampling.num_groups
    groups = _sets(Sets(number, number, 0.0, sampling.num_selected), words, num_records)
    steps: list[NDArray[Any]] = [np.zeros(0, np.int32)] * sampling.period
    for group in range(number):
        members = groups.step(group)
        for step in range(group, sampling.period, number):
            steps[step] = members[_heads(words, members.size, sampling.prob)]
    return Drawn(np.concatenate(steps), np.cumsum([records.size for records in steps]))


def _orders(sampling: Orders, words: Words, num_records: int) -> Drawn:
    """Places of a list, sorted by random words, which are drawn anew in the rare case that two of them are equal.

    Places of the list beyond the number of records are empty, and are left out.
    """
    period, size = sampling.period, sampling.size_for(num_records)
    places = size * period if sampling.last_batch is LastBatch.FULL else num_records
    while True:
        scores = words.uint64(places)
        order = np.argsort(scores)
        ranked = scores[order]
        if not np.any(ranked[1:] == ranked[:-1]):
            break
    step = np.arange(1, period + 1)
    ends = step * places // period if sampling.last_batch is None else np.minimum(size * step, places)
    is_record = order < num_records
    return Drawn(order[is_record], np.concatenate([[0], np.cumsum(is_record)])[ends])


_DRAWS: dict[type, Callable[[Any, Words, int], Drawn]] = {
    Coins: _coins,
    CutCoins: _cut_coins,
    Fixed: _fixed,
    Groups: _groups,
    Orders: _orders,
    Sets: _sets,
}
