"""Batches are drawn by the law that is accounted for; the laws are tested, and the tests on samplers that are wrong."""

import dataclasses
import itertools
import math
import subprocess
import sys
import time
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import jaxacct as ja
from jaxacct import training
from jaxacct.mechanisms._sampling import Coins, CutCoins, Fixed, Groups, Sets
from jaxacct.special import binomial_tail
from jaxacct.training import _drawing
from jaxacct.training._words import Words, secret_bytes

GAUSSIAN = ja.Gaussian(1.0)
DELTA = 1e-6
SIGNIFICANCE = 1e-7  # of each test, with keys that never change: what is right passes for ever


def _records(batch: training.Batch) -> np.ndarray:
    return batch.indices[batch.mask]


def _joins(data: training.Batches) -> np.ndarray:
    """bool [records, steps]."""
    joins = np.zeros((data.num_records, len(data)), np.bool_)
    for step, batch in enumerate(data):
        assert np.unique(_records(batch)).size == batch.mask.sum()
        joins[_records(batch), step] = True
    return joins


def _agrees(counts: Any, probabilities: Any) -> float:
    """p-value of counts of independent outcomes."""
    counts, probabilities = np.asarray(counts, np.float64), np.asarray(probabilities, np.float64)
    if counts.size == 1:
        return 1.0
    return float(stats.chisquare(counts, probabilities / probabilities.sum() * counts.sum()).pvalue)


# The laws


def _law_of_coins(joins: np.ndarray, rate: float) -> float:
    """p-value: patterns of a record over three steps, of three neighbouring records at a step, and sizes."""
    records, steps = joins.shape
    worst = 1.0
    for table in (joins[:, : steps // 3 * 3].reshape(-1, 3), joins.T[:, : records // 3 * 3].reshape(-1, 3)):
        heads = [bin(pattern).count("1") for pattern in range(8)]
        counts = np.bincount(table @ np.array([4, 2, 1]), minlength=8)
        worst = min(worst, _agrees(counts, [rate**h * (1 - rate) ** (3 - h) for h in heads]))
    sizes = joins.sum(axis=0)
    edges = stats.binom.ppf(np.linspace(0.1, 0.9, 9), records, rate)
    cells = np.searchsorted(edges, sizes)
    mass = np.diff(stats.binom.cdf([-1, *edges, records], records, rate))
    return min(worst, _agrees(np.bincount(cells, minlength=10)[mass > 0], mass[mass > 0]))


def _law_of_sets(joins: np.ndarray, period: int, size: int) -> float:
    """p-value: the sets of a record, of an epoch; pairs of neighbouring records, and of the epochs of one record."""
    subsets = {steps: i for i, steps in enumerate(itertools.combinations(range(period), size))}
    epochs = joins.reshape(joins.shape[0], -1, period)
    which = np.array([[subsets.get(tuple(np.flatnonzero(row).tolist()), -1) for row in record] for record in epochs])
    if np.any(which < 0):
        return 0.0
    number = len(subsets)
    worst = _agrees(np.bincount(which.ravel(), minlength=number), np.ones(number))
    for first, second in ((which[:-1:2], which[1::2]), (which[:, :-1:2], which[:, 1::2])):
        pairs = np.bincount((first * number + second).ravel(), minlength=number**2)
        worst = min(worst, _agrees(pairs, np.ones(number**2)))
    return worst


@pytest.mark.parametrize(("rate", "records"), [(0.3, 60), (0.02, 900), (0.7, 60), (0.5, 61)])
def test_coins(rate: float, records: int) -> None:
    data = training.batches(ja.PoissonSampled(GAUSSIAN, rate, 3000), records, 5)
    assert _law_of_coins(_joins(data), rate) > SIGNIFICANCE


@pytest.mark.parametrize(("period", "size"), [(5, 1), (6, 2), (5, 3), (4, 4), (6, 4), (1, 1), (3, 2)])
def test_sets(period: int, size: int) -> None:
    run = ja.RandomAllocation(GAUSSIAN, period, size, num_epochs=40)
    assert _law_of_sets(_joins(training.batches(run, 600, 6)), period, size) > SIGNIFICANCE


def test_sets_of_few_of_many_steps() -> None:
    """The way of few steps, 4 of 16: how often each step and each pair of steps is joined."""
    joins = _joins(training.batches(ja.RandomAllocation(GAUSSIAN, 16, 4, num_epochs=40), 500, 7)).reshape(-1, 16)
    assert np.all(joins.sum(axis=1) == 4)
    together = joins.T.astype(np.int64) @ joins
    assert np.abs(np.diag(together) / len(joins) - 1 / 4).max() < 6 * math.sqrt(3 / 16 / len(joins))
    pairs = together[np.triu_indices(16, 1)] / len(joins)
    assert np.abs(pairs - 1 / 20).max() < 6 * math.sqrt(1 / 20 / len(joins))


@pytest.mark.parametrize("selected", [1, 2])
def test_groups(selected: int) -> None:
    """3 groups of 4 sampled steps each, in turn: groups are sets, and the coins of a record's own steps are coins."""
    run = ja.RandomAllocation(ja.PoissonSampled(GAUSSIAN, 0.9, 4), 3, selected, num_epochs=40)
    data = training.batches(run, 600, 4)
    assert len(data) == 480
    joins = _joins(data).reshape(600, 40, 4, 3)
    seen = joins.any(axis=2)  # the groups of a record, but for 4 tails in a row
    assert np.all(seen.sum(axis=-1) <= selected)
    known = seen.sum(axis=-1) == selected
    assert abs(np.mean(~known) - (1 - (1 - 1e-4) ** selected)) < 6 * math.sqrt(1e-4 * selected / known.size)
    sets = seen[known] @ np.array([1, 2, 4])
    assert _agrees(np.bincount(sets, minlength=8)[[1, 2, 4] if selected == 1 else [3, 5, 6]], np.ones(3)) > SIGNIFICANCE
    coins = joins.transpose(0, 1, 3, 2)[seen] @ np.array([8, 4, 2, 1])
    heads = [bin(pattern).count("1") for pattern in range(1, 16)]
    law = [0.9**h * 0.1 ** (4 - h) for h in heads]
    assert _agrees(np.bincount(coins, minlength=16)[1:], law) > SIGNIFICANCE
    first, second = sets[:-1:2], sets[1::2]
    pairs = np.bincount(first * 8 + second, minlength=64).reshape(8, 8)
    assert _agrees(pairs[pairs > 0], np.ones(9)) > SIGNIFICANCE


def test_orders() -> None:
    """Every order of 4 reports in 2 batches, and the sizes where they do not come out even."""
    reports = training.Epoch(ja.Shuffled(ja.LocalRandomizer(1.0), 4, num_epochs=6000), num_steps=2)
    data = training.batches(reports, 4, 8)
    orders = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    seen = [orders[tuple(np.concatenate([data[i].indices, data[i + 1].indices]).tolist())] for i in range(0, 12000, 2)]
    assert _agrees(np.bincount(seen, minlength=24), np.ones(24)) > SIGNIFICANCE
    uneven = training.batches(training.Epoch(ja.Shuffled(ja.LocalRandomizer(1.0), 7), 3), 7, 0)
    assert [batch.mask.sum() for batch in uneven] == [2, 2, 3]
    assert uneven.batch_size == 3
    assert sorted(np.concatenate([_records(batch) for batch in uneven])) == list(range(7))


def _fixed_law(records: int, size: int) -> dict[tuple[int, ...], float]:
    """Of the sorted records of a step: all sets of so many records."""
    sets = list(itertools.combinations(range(records), size))
    return dict.fromkeys(sets, 1.0 / len(sets))


def _repeated_law(records: int, size: int) -> dict[tuple[int, ...], float]:
    """The same with replacement: every sequence of records, sorted."""
    found: dict[tuple[int, ...], float] = {}
    for drawn in itertools.product(range(records), repeat=size):
        batch = tuple(sorted(drawn))
        found[batch] = found.get(batch, 0.0) + float(records) ** -size
    return found


def _cut_law(records: int, prob: float, most: int) -> dict[tuple[int, ...], float]:
    """Heads of coins; of more than `most` heads each set of `most` is kept as often as any other."""
    found: dict[tuple[int, ...], float] = {}
    for heads in itertools.chain(*(itertools.combinations(range(records), h) for h in range(records + 1))):
        mass = prob ** len(heads) * (1 - prob) ** (records - len(heads))
        kept = list(itertools.combinations(heads, min(most, len(heads))))
        for batch in kept:
            found[batch] = found.get(batch, 0.0) + mass / len(kept)
    return found


def _law_of_steps(batches: list[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    """p-value: counts of the batches, of pairs that follow each other, and of pairs two steps apart."""
    number = {batch: i for i, batch in enumerate(law)}
    which = np.array([number.get(batch, -1) for batch in batches])
    if np.any(which < 0):
        return 0.0
    masses = np.array(list(law.values()))
    worst = _agrees(np.bincount(which, minlength=len(law)), masses)
    pairs = np.outer(masses, masses).ravel()
    for first, second in ((which[:-1:2], which[1::2]), (which[:-2:4], which[2::4])):
        seen = np.bincount(first * len(law) + second, minlength=len(law) ** 2)
        worst = min(worst, _agrees(seen, pairs))
    return worst


FIXED_LAWS = {
    "fixed": (ja.FixedBatches(GAUSSIAN, 5, 2, 12000), _fixed_law(5, 2)),
    "nearly all": (ja.FixedBatches(GAUSSIAN, 5, 4, 12000), _fixed_law(5, 4)),
    "with replacement": (ja.FixedBatches(GAUSSIAN, 4, 2, 12000, with_replacement=True), _repeated_law(4, 2)),
    "as many as there are": (ja.FixedBatches(GAUSSIAN, 3, 3, 12000, with_replacement=True), _repeated_law(3, 3)),
    "cut": (ja.TruncatedPoisson(GAUSSIAN, 0.6, 4, 2, 24000), _cut_law(4, 0.6, 2)),
    "hardly cut": (ja.TruncatedPoisson(GAUSSIAN, 0.3, 4, 3, 24000), _cut_law(4, 0.3, 3)),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", FIXED_LAWS)
def test_batches_of_public_size(name: str) -> None:
    run, law = FIXED_LAWS[name]
    data = training.batches(run, int(run.num_records), 2)
    assert data.batch_size == data.max_batch_size == max(map(len, law))
    assert _law_of_steps([tuple(_records(batch).tolist()) for batch in data], law) > SIGNIFICANCE


def _wrong_batches() -> dict[str, tuple[str, list[tuple[int, ...]]]]:
    """What people draw instead, and of which law it is not."""
    rng = np.random.default_rng(1)

    def rows(table: Any) -> list[tuple[int, ...]]:
        return [tuple(sorted(row)) for row in np.asarray(table).tolist()]

    once = [rng.permutation(5)[:2] for _ in range(6000)]
    epochs = np.concatenate([rng.permutation(5)[:4].reshape(2, 2) for _ in range(6000)])
    heads = rng.random((24000, 4)) < 0.6
    first = [tuple(np.flatnonzero(row)[:2].tolist()) for row in heads]
    rejected = [tuple(np.flatnonzero(row).tolist()) for row in heads if row.sum() <= 2]
    return {
        "kept for two steps": ("fixed", rows(np.repeat(once, 2, axis=0))),
        "without the last one": ("fixed", rows(epochs)),
        "with replacement": ("fixed", rows(rng.integers(0, 5, (12000, 2)))),
        "without replacement": ("with replacement", rows([rng.permutation(4)[:2] for _ in range(12000)])),
        "multisets as likely as each other": (
            "with replacement",
            [list(_repeated_law(4, 2))[i] for i in rng.integers(0, 10, 12000)],
        ),
        "the first ones kept": ("cut", first),
        "drawn anew": ("cut", rejected),
    }


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", _wrong_batches())
def test_what_are_no_batches_of_public_size_is_found(name: str) -> None:
    law, batches = _wrong_batches()[name]
    assert _law_of_steps(batches, FIXED_LAWS[law][1]) < SIGNIFICANCE


def _law_of_sizes(joins: np.ndarray, period: int) -> float:
    """p-value of the sizes of the first steps of the epochs, each binomial: of their variance."""
    sizes = joins.sum(axis=0)[::period]
    ratio = np.sum((sizes - len(joins) / period) ** 2) / (len(joins) / period * (1 - 1 / period))
    return float(2 * min(stats.chi2.cdf(ratio, len(sizes)), stats.chi2.sf(ratio, len(sizes))))


def test_sizes_of_allocated_batches_vary() -> None:
    data = training.batches(ja.RandomAllocation(GAUSSIAN, 5, num_epochs=40), 600, 6)
    assert _law_of_sizes(_joins(data), 5) > SIGNIFICANCE


RNG = np.random.default_rng(0)
BINS = np.eye(5, dtype=bool)
WRONG = {  # what people draw instead of 40 epochs of random allocation to 5 steps
    "shuffled": np.concatenate([RNG.permutation(np.repeat(BINS, 120, axis=0)) for _ in range(40)], axis=1),
    "kept": np.tile(BINS[RNG.integers(0, 5, 600)], (1, 40)),
    "in blocks": np.repeat(BINS[RNG.integers(0, 5, (300, 40))].reshape(300, 200), 2, axis=0),
    "Poisson": RNG.random((600, 200)) < 0.2,
    "skewed": BINS[RNG.choice(5, (600, 40), p=[0.24, 0.19, 0.19, 0.19, 0.19])].reshape(600, 200),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_random_allocation_is_found(name: str) -> None:
    assert min(_law_of_sets(WRONG[name], 5, 1), _law_of_sizes(WRONG[name], 5)) < SIGNIFICANCE


COINS = {  # instead of Poisson sampling with probability 0.3
    "one coin for two": np.repeat(RNG.random((30, 3000)) < 0.3, 2, axis=0),
    "another rate": RNG.random((60, 3000)) < 0.315,
    "fixed size": np.argsort(RNG.random((60, 3000)), axis=0) < 18,
    "sticky": np.repeat(RNG.random((60, 1500)) < 0.3, 2, axis=1),
}


@pytest.mark.parametrize("name", COINS)
def test_what_is_no_poisson_sampling_is_found(name: str) -> None:
    assert _law_of_coins(COINS[name], 0.3) < SIGNIFICANCE


def test_a_biased_remainder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "below", lambda self, limit, size: np.frombuffer(self.raw(size), "u1") % 16 % limit)
    run = ja.RandomAllocation(GAUSSIAN, 5, num_epochs=40)
    assert _law_of_sets(_joins(training.batches(run, 600, 9)), 5, 1) < SIGNIFICANCE


@pytest.mark.parametrize(("size", "rate"), [(1, 0.3), (7, 0.5), (40, 1e-9), (60, 0.999), (25, 1 / 3)])
def test_counts_are_binomial(size: int, rate: float) -> None:
    """In whole numbers, against fractions; cells that are left out have next to no mass."""
    least, cumulative = _drawing._cumulative(size, rate)
    prob = Fraction(rate)
    exact = {k: math.comb(size, k) * prob**k * (1 - prob) ** (size - k) for k in range(size + 1)}
    found = {
        least + i: Fraction(b - a, cumulative[-1]) for i, (a, b) in enumerate(itertools.pairwise([0, *cumulative]))
    }
    assert sum(abs(exact[k] - found.get(k, 0)) for k in exact) < Fraction(1, 2**200)


def test_remainders_are_rejected() -> None:
    """Words beyond the last whole multiple of the limit never count, and what remains is the rest of the others."""
    for limit in (1, 3, 1000, 2**32 // 257 + 1, 2**24, 2**24 + 1, 2**32):  # of the fourth, one word in 257
        words, again = Words(b"", 0), Words(b"", 0)
        found = words.below(limit, 5000)
        bits = 32 if limit <= 2**24 else 64
        raw = [int(w) for w in np.frombuffer(again.raw((5000 + 5000 // 128 + 64) * bits // 8), f"<u{bits // 8}")]
        assert found.tolist() == [w % limit for w in raw if w < 2**bits // limit * limit][:5000]


@pytest.mark.parametrize(("records", "size"), [(10, 0), (10, 3), (10, 5), (10, 7), (10, 10), (1, 1)])
def test_subsets_are_uniform(records: int, size: int) -> None:
    counts = np.zeros(records)
    pairs = np.zeros((records, records))
    for period in range(3000):
        found = _drawing.subset(Words(b"s", period), records, size)
        assert np.unique(found).size == size
        counts[found] += 1
        pairs[np.ix_(found, found)] += 1
    if size:
        assert _agrees(counts, np.ones(records)) > SIGNIFICANCE  # less spread than independent counts would have
        expected = 3000 * size * (size - 1) / (records * (records - 1)) if records > 1 else 0
        off = pairs[np.triu_indices(records, 1)]
        assert np.all(np.abs(off - expected) < 6 * math.sqrt(expected + 1))


# A function of key and step


RUNS = {
    "groups": ja.RandomAllocation(ja.PoissonSampled(GAUSSIAN, 0.5, 2), 3, num_epochs=2),
    "poisson": ja.PoissonSampled(GAUSSIAN, 0.1, 12),
    "allocation": ja.RandomAllocation(GAUSSIAN, 4, num_epochs=3),
    "some of many": ja.RandomAllocation(GAUSSIAN, 12, 5),
    "partial": ja.PartialAllocation(GAUSSIAN, 20, 12),
    "scheduled": ja.ScheduledAllocation((1.0, 2.0), (1, 3), num_epochs=3),
    "shuffled": training.Epoch(ja.Shuffled(ja.LocalRandomizer(1.0), 100, num_epochs=3), 4),
    "fixed": ja.FixedBatches(GAUSSIAN, 100, 20, 12),
    "with replacement": ja.FixedBatches(GAUSSIAN, 100, 20, 12, with_replacement=True),
    "cut": ja.TruncatedPoisson(GAUSSIAN, 0.1, 100, 9, 12),
}


def _same(first: Any, second: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_each_batch_is_a_function_of_key_and_step(name: str) -> None:
    data, again = (training.batches(RUNS[name], 100, jax.random.key(3)) for _ in range(2))
    straight = list(data)
    assert len(straight) == len(data) == 12
    for step in (11, 3, 0, 7):
        assert _same(again[step], straight[step])
    for batch, other in zip(again.after(5), straight[5:], strict=True):
        assert _same(batch, other)
    other_key = training.batches(RUNS[name], 100, jax.random.key(4))
    assert not all(_same(batch, other) for batch, other in zip(straight, other_key, strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_every_batch_has_one_shape(name: str) -> None:
    data = training.batches(RUNS[name], 100, 0)
    for indices, mask in data:
        assert indices.shape == mask.shape == (data.batch_size,)
        assert (indices.dtype, mask.dtype) == (np.int32, np.bool_)
        assert not np.any(indices[~mask])
        assert np.all((indices >= 0) & (indices < 100))
    with pytest.raises(IndexError, match="step=12"):
        data[12]
    with pytest.raises(IndexError, match="step=-13"):
        data[-13]


def _equal(first: Any, second: Any) -> None:
    np.testing.assert_array_equal(np.stack(first), np.stack(second))


def test_batches_are_a_sequence() -> None:
    """From the end, in slices, and in one stack: the same batches."""
    data = training.batches(RUNS["poisson"], 100, 0)
    _equal(data[-1], data[11])
    _equal(data[-12], data[0])
    for part in (slice(2, 5), slice(None, None, -3), slice(10, 99), slice(-2, None), slice(5, 5)):
        found, wanted = data[part], list(data)[part]
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            _equal(one, other)
    stack = data.stacked(2, 5)
    assert stack.mask.shape == (3, data.batch_size)
    for i in range(3):
        _equal(jax.tree.map(lambda leaf, at=i: leaf[at], stack), data[2 + i])
    assert data.stacked().mask.shape == (12, data.batch_size)
    with pytest.raises(ValueError, match="must leave some of the 12"):
        data.stacked(5, 5)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_microbatches_are_pieces_of_a_batch(size: int) -> None:
    data = training.batches(RUNS["poisson"], 100, 0)
    cut = data.microbatches(size)
    assert (len(cut), cut.batch_size, cut.mean_batch_size) == (len(data), data.batch_size, data.mean_batch_size)
    for whole, pieces in zip(data, cut.after(0), strict=True):
        assert pieces.mask.shape == (math.ceil(data.batch_size / size), size)
        assert (pieces.indices.dtype, pieces.mask.dtype) == (np.int32, np.bool_)
        np.testing.assert_array_equal(pieces.indices[pieces.mask], whole.indices[whole.mask])
        assert not np.any(pieces.indices[~pieces.mask])
    assert cut.stacked(0, 2).mask.shape == (2, *pieces.mask.shape)
    with pytest.raises(ValueError, match="size=0"):
        data.microbatches(0)


def test_draws_are_what_they_were() -> None:
    """The draws of a key are part of the contract: a run may be resumed by a later version."""
    poisson = training.batches(RUNS["poisson"], 100, 0)[1]
    allocation = training.batches(RUNS["allocation"], 20, jax.random.key(0))[5]
    some = training.batches(RUNS["some of many"], 20, b"secret")[2]
    shuffled = training.batches(RUNS["shuffled"], 100, 7)[3]
    public = [training.batches(RUNS[name], 100, 7)[3] for name in ("fixed", "with replacement", "cut")]
    few = training.batches(ja.RandomAllocation(GAUSSIAN, 30, 5), 100, 9)[3]
    found = [_records(batch).tolist()[:6] for batch in (poisson, allocation, some, shuffled, *public, few)]
    assert found == DRAWS


DRAWS = [
    *([3, 7, 22, 32, 34, 48], [1, 4, 7, 18], [0, 1, 3, 5, 10, 11], [4, 27, 62, 90, 57, 87]),
    *([0, 2, 4, 5, 30, 34], [1, 3, 14, 18, 22, 25], [3, 12, 17, 18, 48, 58], [9, 10, 18, 20, 22, 27]),
]


def test_records_are_sorted_by_step_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the parts: by step, and in each step ascending."""
    steps = np.random.default_rng(0).integers(0, 7, 3000)
    order = np.argsort(steps, kind="stable") // 3
    for size in (1, 100, 2**17):
        monkeypatch.setattr(_drawing, "_PART", size)
        found = _drawing._by_step(steps, 7, 3)
        assert np.array_equal(found.records, order)  # a list of the differences would take minutes
        assert found.ends.tolist() == np.cumsum(np.bincount(steps)).tolist()


def test_a_longer_run_begins_the_same_and_another_law_has_other_words() -> None:
    def first(run: Any, records: int = 100) -> list[int]:
        return _records(training.batches(run, records, 3, max_batch_size=60)[1]).tolist()

    poisson = ja.PoissonSampled(GAUSSIAN, 0.1, 12)
    assert first(poisson) == first(dataclasses.replace(poisson, num_steps=500))
    others = [
        ja.PoissonSampled(GAUSSIAN, 0.1 + 1e-15, 12),
        ja.RandomAllocation(GAUSSIAN, 10, num_epochs=2),
        ja.TruncatedPoisson(GAUSSIAN, 0.1, 100, 60, 12),
        ja.FixedBatches(GAUSSIAN, 100, 10, 12),
    ]
    assert all(first(poisson) != first(other) for other in others)
    assert first(poisson) != first(poisson, 101)
    assert first(others[-1]) == first(dataclasses.replace(others[-1], num_steps=500))
    kinds = [dataclasses.replace(others[-1], batch_size=11), dataclasses.replace(others[-1], with_replacement=True)]
    assert len({*map(tuple, map(first, (others[-1], *kinds)))}) == 3
    assert first(others[-2]) != first(dataclasses.replace(others[-2], max_batch_size=59))


def test_the_same_in_another_process() -> None:
    code = (
        "import jaxacct as ja; from jaxacct import training;"
        "d = training.batches(ja.RandomAllocation(ja.Gaussian(1.0), 4, num_epochs=3), 100, 11);"
        "print(*(i for b in d for i in b.indices[b.mask]))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [int(i) for i in other] == np.concatenate(
        [_records(b) for b in training.batches(RUNS["allocation"], 100, 11)]
    ).tolist()


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("count", [2, 3])
def test_shards_hold_the_batch_together(name: str, count: int) -> None:
    size = training.batches(RUNS[name], 100, 0).max_batch_size
    whole = training.batches(RUNS[name], 100, 0, max_batch_size=-(-size // count) * count)
    shards = [training.batches(RUNS[name], 100, 0, shard=(i, count)) for i in range(count)]
    for step in range(12):
        parts = [shard[step] for shard in shards]
        assert {part.indices.size for part in parts} == {whole.max_batch_size // count}
        assert sorted(np.concatenate([_records(p) for p in parts])) == sorted(_records(whole[step]))
        sizes = [int(part.mask.sum()) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_kinds_of_keys() -> None:
    assert secret_bytes(jax.random.key(5)) == secret_bytes(jax.random.PRNGKey(5))
    kinds = [secret_bytes(key) for key in (0, 1, 255, 256, b"", b"\0", jax.random.key(0), jax.random.key(1))]
    assert len(set(kinds)) == len(kinds)
    for key in (None, 1.0, -1, True, "secret", jax.random.split(jax.random.key(0)), np.zeros(2)):
        with pytest.raises(ValueError, match="must be one key"):
            secret_bytes(key)
    with pytest.raises(ValueError, match="must be one key"):
        jax.jit(lambda key: training.batches(RUNS["poisson"], 100, key)[0].indices)(jax.random.key(0))


def test_keys_are_not_shown() -> None:
    data = training.batches(RUNS["poisson"], 100, b"a secret")
    assert "secret" not in f"{data!r} {data.sampler()!r}"


# What does not fit


@pytest.mark.parametrize(("trials", "prob"), [(50, 0.3), (1000, 0.01), (10, 0.5), (10**6, 1e-3), (3, 0.999)])
def test_tails_are_above_the_truth(trials: int, prob: float) -> None:
    mean = int(trials * prob)
    for above in (mean, mean + 1, mean + 3, mean + 10, 2 * mean, trials - 1, trials):
        truth = float(stats.binom.sf(above, trials, prob))
        found = binomial_tail(trials, prob, above)
        assert found >= truth * (1 - 1e-9)
        if truth < 1e-4:
            assert found <= truth * 1.3 + 1e-300
    assert binomial_tail(trials, 0.0, 0) == 0.0
    assert binomial_tail(trials, 1.0, trials - 1) == 1.0


def test_size_is_the_least_that_is_hardly_ever_exceeded() -> None:
    data = training.batches(ja.PoissonSampled(GAUSSIAN, 0.01, 500), 10_000, 0)
    assert 500 * stats.binom.sf(data.max_batch_size, 10_001, 0.01) * (1 - 1e-6) <= data.overflow(500) <= 1.001e-15
    assert 500 * stats.binom.sf(data.max_batch_size - 2, 10_001, 0.01) > 0.5e-15
    assert training.batches(ja.PoissonSampled(GAUSSIAN, 1.0, 5), 40, 0)[0].mask.sum() == 40
    assert training.batches(ja.PoissonSampled(GAUSSIAN, 0.0, 5), 40, 0)[0].mask.sum() == 0


def test_truncation_is_a_uniform_choice() -> None:
    run = ja.PoissonSampled(GAUSSIAN, 0.5, 4000)
    whole = training.batches(run, 10, 1)
    cut = dataclasses.replace(whole, max_batch_size=4)
    kept, dropped = np.zeros(10), np.zeros(10)
    for all_of_them, some in zip(whole, cut, strict=True):
        records, left = _records(all_of_them), _records(some)
        assert np.isin(left, records).all()
        assert left.size == min(records.size, 4)
        dropped[np.setdiff1d(records, left)] += 1
        kept[left] += 1
    assert _agrees(dropped, np.ones(10)) > SIGNIFICANCE
    assert _agrees(kept, np.ones(10)) > SIGNIFICANCE


def test_truncation_without_a_chance_is_refused() -> None:
    run = ja.PoissonSampled(GAUSSIAN, 0.01, 1000)
    with pytest.raises(ValueError, match=r"max_batch_size=120 must be larger: batches have 100 on average"):
        training.batches(run, 10_000, 0, max_batch_size=120)


def _truncated_delta(rate: float, others: int, most: int, noise: float, epsilon: float) -> tuple[float, float]:
    """(delta of one step of truncated Poisson batches, tau): others give -1, the one record +1; by quadrature."""
    grid = np.linspace(-40, 40, 400_001)

    def density(with_record: bool) -> np.ndarray:
        total = np.zeros_like(grid)
        for here in range(others + 1):
            mass = stats.binom.pmf(here, others, rate)
            for joins in (0, 1) if with_record else (0,):
                weight = mass * ((rate if joins else 1 - rate) if with_record else 1.0)
                size = here + joins
                if size <= most:
                    total += weight * stats.norm.pdf(grid, joins - here, noise)
                    continue
                stays = most / size if joins else 0.0
                total += weight * stays * stats.norm.pdf(grid, 1 - (most - 1), noise)
                total += weight * (1 - stays) * stats.norm.pdf(grid, -most, noise)
        return total

    first, second = density(True), density(False)
    step = grid[1] - grid[0]
    worst = max(np.maximum(p - math.exp(epsilon) * q, 0).sum() * step for p, q in ((first, second), (second, first)))
    return float(worst), float(stats.binom.sf(most, others + 1, rate))


@pytest.mark.parametrize("epsilon", [3.0, 4.0])
def test_truncation_costs_and_is_paid_for(epsilon: float) -> None:
    """A record that takes the place of another moves the sum by 2: above delta without truncation, below ours."""
    run = ja.PoissonSampled(ja.Gaussian(0.5), 0.1, 1)
    truth, tau = _truncated_delta(0.1, 1, 1, 0.5, epsilon)
    data = training.batches(run, 1, 0, max_batch_size=1)
    excess = data.excess_delta(epsilon)
    assert truth > ja.delta(run, epsilon)
    assert truth <= ja.delta(run, epsilon) + excess
    assert excess >= (1 + math.exp(epsilon)) * tau


def _state(*counts: int) -> training.ReleaseCountState:
    return training.ReleaseCountState(np.array(counts, np.int32))


@pytest.mark.parametrize("size", [None, 250, 190, 175])
def test_privacy_spent_pays_for_truncation(size: int | None) -> None:
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 300)
    data = training.batches(run, 10_000, 0, max_batch_size=size)
    spent = training.privacy_spent(_state(300), data, DELTA)
    plain = ja.epsilon(run, DELTA)
    if size == 175:
        assert spent > 1.001 * plain
    else:
        assert plain <= spent <= (1 + 1e-6 if size != 190 else 1.01) * plain
    assert ja.delta(run, spent) + data.excess_delta(spent, 300) <= DELTA * (1 + 1e-9)
    assert training.privacy_spent(_state(0), data, DELTA) == 0.0


def test_no_epsilon_where_truncation_costs_more_than_delta() -> None:
    data = training.batches(ja.PoissonSampled(GAUSSIAN, 0.01, 300), 10_000, 0, max_batch_size=150)
    assert training.privacy_spent(_state(300), data, DELTA) == math.inf
    assert training.steps_affordable(data, 2.0, DELTA) < 300


def test_affordable_steps_pay_for_truncation() -> None:
    run = ja.PoissonSampled(GAUSSIAN, 0.01, 300)
    plain = training.steps_affordable(run, 1.0, DELTA)
    assert training.steps_affordable(training.batches(run, 10_000, 0), 1.0, DELTA) in (plain - 1, plain)
    short = training.batches(run, 10_000, 0, max_batch_size=165)
    count = training.steps_affordable(short, 1.0, DELTA)
    assert 0 < count < plain
    assert training.privacy_spent(_state(count), short, DELTA) <= 1.0
    assert training.privacy_spent(_state(count + 1), short, DELTA) > 1.0


def test_phases_of_batches() -> None:
    runs = [ja.PoissonSampled(GAUSSIAN, 0.01, 300), ja.PoissonSampled(ja.Gaussian(2.0), 0.02, 100)]
    data = [
        training.batches(run, 10_000, key, max_batch_size=size)
        for key, (run, size) in enumerate(zip(runs, (190, 310), strict=True))
    ]
    spent = training.privacy_spent(_state(300, 100), data, DELTA)
    together = ja.Composed(tuple(runs))
    excess = sum(part.excess_delta(spent) for part in data)
    assert ja.epsilon(together, DELTA) < spent < 1.1 * ja.epsilon(together, DELTA)
    assert ja.delta(together, spent) + excess <= DELTA * (1 + 1e-9)


def test_phases_have_batches_of_their_own() -> None:
    """The noise is not what batches are drawn by: with the same key, two phases would have the same ones."""
    runs = [ja.PoissonSampled(ja.Gaussian(noise), 0.01, 300) for noise in (1.0, 2.0)]
    same = [training.batches(run, 1000, 7) for run in runs]
    own = [training.batches(run, 1000, key) for key, run in enumerate(runs)]
    other = [same[0], training.batches(ja.PoissonSampled(GAUSSIAN, 0.02, 300), 1000, 7)]
    for data in (same, [same[0], same[0].microbatches(8)]):
        with pytest.raises(ValueError, match="phases 0 and 1 have the same batches, drawn with the same key"):
            training.privacy_spent(_state(3, 2), data, DELTA)
        with pytest.raises(ValueError, match="phases 0 and 1 have the same batches"):
            training.private_aggregate(data, l2_norm_clip=1.0, key=0)
    for data in (own, other):
        assert training.privacy_spent(_state(3, 2), data, DELTA) > 0.0


def test_batches_are_as_many_as_are_accounted_for() -> None:
    """One release of everybody was charged as one epoch of a thousand batches: 0.13 where 2.25 is true."""
    run = ja.ShuffledBatches(ja.Gaussian(2.0), num_steps=1000)
    for steps in (1, 10):
        with pytest.raises(ValueError, match=f"num_steps={steps} must be 1000"):
            training.batches(training.Epoch(run, num_steps=steps), num_records=1000, key=0)
    assert len(training.batches(training.Epoch(run, num_steps=1000), num_records=1000, key=0)) == 1000


def test_numbers_of_steps_in_narrow_integers_do_not_wrap_around() -> None:
    """66,000 steps were 464: an epoch of so many was accounted for as one of 66,000."""
    noises = (1.0, 2.0)
    for kind in (np.uint16, np.int32):
        run = ja.ScheduledAllocation(noises, tuple(np.array([40_000, 26_000], kind)))
        assert run.num_steps == (40_000, 26_000)
        assert len(training.batches(run, num_records=464, key=0)) == 66_000
    run = ja.RandomAllocation(GAUSSIAN, np.uint8(100), num_epochs=np.uint8(10))
    assert len(training.batches(run, num_records=100, key=0)) == 1000
    assert run.poisson_at_same_rate().num_steps == 1000


def test_groups_are_charged_by_cycles() -> None:
    run = RUNS["groups"]
    data = training.batches(run, 1000, 0)
    for count, epochs in ((1, 1), (6, 1), (7, 2), (12, 2)):
        whole = ja.epsilon(dataclasses.replace(run, num_epochs=epochs), 1e-3)
        assert whole * (1 - 1e-9) <= training.privacy_spent(_state(count), data, 1e-3) <= whole * (1 + 1e-3)


def test_batches_are_not_used_twice() -> None:
    """What is drawn again under the same key is the same, and no fresh sample."""
    data = training.batches(ja.PoissonSampled(ja.Gaussian(50.0), 0.01, 300), 1000, 0)
    with pytest.raises(ValueError, match="301 batches were released, and must be at most the 300 that were drawn"):
        training.privacy_spent(_state(301), data, DELTA)
    assert training.steps_affordable(data, 2.0, DELTA) == 300
    allocated = training.batches(ja.RandomAllocation(ja.Gaussian(50.0), 10, num_epochs=3), 1000, 0)
    assert training.steps_affordable(allocated, 2.0, DELTA) == 30


def test_shuffled_and_allocated_batches_are_phases() -> None:
    reports = RUNS["shuffled"]
    data = training.batches(reports, 100, 0)
    assert data.overflow(12) == data.excess_delta(1.0) == 0.0
    assert training.privacy_spent(_state(5), data, 0.01) == training.privacy_spent(_state(5), reports, 0.01)
    scheduled = training.batches(RUNS["scheduled"], 100, 0)
    whole = ja.epsilon(dataclasses.replace(RUNS["scheduled"], num_epochs=2), DELTA)
    assert whole <= training.privacy_spent(_state(5), scheduled, DELTA) <= whole * (1 + 1e-6)
    allocation = training.batches(RUNS["allocation"], 100, 0)
    assert training.privacy_spent(_state(3), allocation, DELTA) < ja.epsilon(ja.RandomAllocation(GAUSSIAN, 4), DELTA)


@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_batches_of_public_size_are_phases() -> None:
    for name in ("fixed", "with replacement", "cut"):
        run = dataclasses.replace(RUNS[name], mechanism=ja.Gaussian(3.0))
        data = training.batches(run, 100, 0)
        assert data.overflow(12) <= 1.001 * 2.0**-128
        for relation in (None, "replace-one", "zero-out"):
            asked = run if relation is None else ja.ReplaceOne(run) if relation == "replace-one" else ja.ZeroOut(run)
            spent = training.privacy_spent(_state(12), training.batches(asked, 100, 0), DELTA)
            whole = ja.epsilon(run, DELTA, neighboring_relation=relation)
            assert whole * (1 - 1e-12) <= spent <= whole * (1 + 1e-3)


def test_a_mechanism_that_knows_its_records_wants_as_many() -> None:
    for name in ("fixed", "with replacement", "cut"):
        for number in (99, 101):
            with pytest.raises(ValueError, match=f"num_records={number} must be 100, the num_records of the mechanism"):
                training.batches(RUNS[name], number, 0)
        with pytest.raises(ValueError, match="largest batch="):
            training.batches(RUNS[name], 100, 0, max_batch_size=8)
        roomy = training.batches(RUNS[name], 100, 0, max_batch_size=30)
        assert all(
            _same(map(_records, [roomy[i]]), map(_records, [training.batches(RUNS[name], 100, 0)[i]])) for i in (0, 5)
        )


def test_a_mechanism_that_was_described_for_a_size_remembers_it() -> None:
    sizes: dict[str, Any] = {"dataset_size": 500, "batch_size": 50, "epochs": 2}
    for kind in (ja.PoissonSampled, ja.RandomAllocation, ja.ShuffledBatches):
        run = kind.from_epochs(GAUSSIAN, **sizes)
        plain = dataclasses.replace(run, dataset_size=None)
        assert run == plain
        assert repr(run) == repr(plain)
        assert run.parameters() == {**plain.parameters(), "dataset_size": 500}
        assert "dataset_size" not in plain.source()
        assert eval(run.source(), {"ja": ja}).dataset_size == 500
        for one in (run, dataclasses.replace(run, mechanism=ja.Gaussian(2.0)), jax.tree.map(float, run)):
            assert one.dataset_size == 500
        asked = (run,) if kind is ja.ShuffledBatches else (run, ja.ZeroOut(run), ja.ReplaceOne(run))
        for one in asked:
            assert training.batches(one, 500, 0).num_records == 500
            with pytest.raises(ValueError, match="num_records=499 must be 500, the dataset_size of the mechanism"):
                training.batches(one, 499, 0)
        assert training.batches(plain, 499, 0).num_records == 499
        with pytest.raises(ValueError, match="dataset_size=0"):
            dataclasses.replace(run, dataset_size=0)


# What is refused


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        (GAUSSIAN, "release of the whole data"),
        (ja.Composed((RUNS["poisson"], GAUSSIAN)), "each part by itself"),
        (ja.Shuffled(ja.LocalRandomizer(1.0), 100), "in how many batches"),
        (ja.CheckIn(ja.LocalRandomizer(1.0), 100, 0.1), "does not say how"),
        (ja.PoissonSampled(RUNS["allocation"], 0.1, 1), "no analysis|samples twice"),
        (ja.PoissonSampled(ja.Gaussian(np.array([1.0, 2.0])), 0.1), "scalar"),
        (ja.PoissonSampled(ja.Gaussian(1.0), np.array([0.1, 0.2])), "scalar"),
        (training.Epoch(RUNS["allocation"], 5), "num_steps=5 must be 4"),
        ("Poisson", "not a mechanism"),
    ],
)
def test_what_the_accountant_cannot_account_for_is_refused(mechanism: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        training.batches(mechanism, 100, 0)


def test_what_samples_twice_is_refused() -> None:
    """Should the accountant come to know it, batches still do not: a law of its own has to be declared."""
    for outer in (ja.PoissonSampled(RUNS["allocation"], 0.1), ja.PartialAllocation(RUNS["poisson"], 10, 5)):
        with pytest.raises(ValueError, match="samples twice"):
            outer.sampling()


def test_arguments_are_checked() -> None:
    run = RUNS["allocation"]
    for number in (0, -1, 1.5, 2**31 - 1, math.nan):
        with pytest.raises(ValueError, match="num_records="):
            training.batches(run, number, 0)
    for size in (0, -3, 1.5):
        with pytest.raises(ValueError, match="max_batch_size="):
            training.batches(run, 100, 0, max_batch_size=size)
    for shard in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="shard"):
            training.batches(run, 100, 0, shard=shard)
    with pytest.raises(ValueError, match="multiple of the shard count 3"):
        training.batches(run, 100, 0, max_batch_size=100, shard=(0, 3))
    with pytest.raises(ValueError, match="num_records=99 must be num_reports=100"):
        training.batches(RUNS["shuffled"], 99, 0)
    with pytest.raises(ValueError, match="largest batch=25"):
        training.batches(RUNS["shuffled"], 100, 0, max_batch_size=24)
    with pytest.raises(ValueError, match="epsilon="):
        training.batches(run, 100, 0).excess_delta(-1.0)


def test_laws_are_declared_with_the_mechanisms() -> None:
    assert RUNS["poisson"].sampling() == Coins.of(0.1, 12)
    assert RUNS["allocation"].sampling() == Sets.of(4, 1, 3)
    assert RUNS["groups"].sampling() == Groups(6, 12, 0.5 / 3, 3, 1, 0.5)
    assert RUNS["partial"].sampling() == Sets.of(20, steps_done=12)
    assert RUNS["scheduled"].sampling() == Sets.of(4, num_epochs=3)
    assert RUNS["fixed"].sampling() == Fixed.of(100, 20, 12, False)
    assert RUNS["cut"].sampling() == CutCoins.of(0.1, 100, 9, 12)
    assert set(_drawing._DRAWS) == {type(run.sampling()) for run in RUNS.values()}


def test_an_epoch_of_a_million_records_is_quick() -> None:
    runs = (
        ja.RandomAllocation(GAUSSIAN, 1000),
        ja.RandomAllocation(GAUSSIAN, 1000, 10),
        ja.PoissonSampled(GAUSSIAN, 0.001, 1000),
        ja.FixedBatches(GAUSSIAN, 10**6, 1000, 1000),
        ja.FixedBatches(GAUSSIAN, 10**6, 1000, 1000, with_replacement=True),
    )
    for run in runs:
        begun = time.process_time()
        data = training.batches(run, 10**6, 0)
        drawn = 10**6 * getattr(run, "num_selected", 1)
        assert abs(sum(int(batch.mask.sum()) for batch in data) - drawn) < 6e3
        assert time.process_time() - begun < 3.0  # a tenth of that here; loops over records would take longer


# grain


class _Records:
    """A sequence of records that worker processes can be sent."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, i: int) -> Any:
        return {"x": np.float32(i), "y": np.array([i, 2 * i])}


def _loader(data: training.Batches, workers: int = 0, **options: Any) -> Any:
    grain = pytest.importorskip("grain")
    return grain.DataLoader(
        data_source=data.source(_Records()), sampler=data.sampler(), worker_count=workers, **options
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", RUNS)
def test_grain_loads_the_batches(name: str) -> None:
    data = training.batches(RUNS[name], 100, 0)
    loader = iter(_loader(data))
    for step, (records, mask) in enumerate(loader):
        np.testing.assert_array_equal(mask, data[step].mask)
        np.testing.assert_array_equal(records["x"], np.where(mask, data[step].indices, 0))
        np.testing.assert_array_equal(records["y"][:, 1], 2 * np.where(mask, data[step].indices, 0))
        if step == 6:
            kept = loader.get_state()
    assert step == 11
    resumed = iter(_loader(training.batches(RUNS[name], 100, 0)))
    resumed.set_state(kept)
    for step, (records, mask) in enumerate(resumed, 7):
        np.testing.assert_array_equal(records["x"][mask], _records(data[step]))
    assert step == 11


def test_grain_loads_shards() -> None:
    whole = training.batches(RUNS["allocation"], 100, 0)
    loaders = [iter(_loader(training.batches(RUNS["allocation"], 100, 0, shard=(i, 3)))) for i in range(3)]
    for step in range(12):
        parts = [next(loader) for loader in loaders]
        held = np.concatenate([records["x"][mask] for records, mask in parts])
        assert sorted(held) == sorted(_records(whole[step]))


def test_grain_keeps_batches_whole_in_pieces_and_in_any_shards() -> None:
    """Also if a loader is told the shards that a sampler knows already."""
    grain = pytest.importorskip("grain")
    data = training.batches(RUNS["allocation"], 100, 0)
    for (records, mask), batch in zip(_loader(data.microbatches(16)), data, strict=True):
        assert mask.shape == records["x"].shape == (-(-data.batch_size // 16), 16)
        np.testing.assert_array_equal(records["x"][mask], _records(batch))
    part = training.batches(RUNS["allocation"], 100, 0, shard=(1, 3))
    told = _loader(part, shard_options=grain.sharding.ShardOptions(1, 3, drop_remainder=True))
    for (records, mask), batch in zip(told, part, strict=True):
        np.testing.assert_array_equal(records["x"][mask], _records(batch))


def test_grain_keeps_batches_whole_in_several_workers() -> None:
    """In a process of its own: grain's workers want the flags of absl parsed."""
    script = """
import absl.flags, grain, numpy as np, jaxacct as ja
from jaxacct import training
absl.flags.FLAGS(["test"])
if __name__ == "__main__":
    data = training.batches(ja.RandomAllocation(ja.Gaussian(1.0), 4, num_epochs=3), 100, 0)
    records = [np.float32(i) for i in range(100)]
    loader = grain.DataLoader(data_source=data.source(records), sampler=data.sampler(), worker_count=2)
    loaded = [sorted(held[mask].astype(int).tolist()) for held, mask in loader]
    assert loaded == [sorted(batch.indices[batch.mask].tolist()) for batch in data], loaded
    print("whole")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "whole\n", done.stderr[-2000:]


def test_grain_reads_batches_as_they_are() -> None:
    grain = pytest.importorskip("grain")
    data = training.batches(RUNS["poisson"], 100, 0)
    images = np.arange(100.0)
    pipeline = grain.MapDataset.source(data).map(lambda batch: (images[batch.indices], batch.mask)).to_iter_dataset()
    for (records, mask), batch in zip(pipeline, data, strict=True):
        np.testing.assert_array_equal(records[mask], _records(batch))


def test_a_sampler_needs_its_source() -> None:
    data = training.batches(RUNS["poisson"], 100, 0)
    with pytest.raises(ValueError, match=r"len\(records\)=99 must be num_records = 100"):
        data.source(list(range(99)))
    with pytest.raises(IndexError, match="place="):
        data.sampler()[len(data.sampler())]
