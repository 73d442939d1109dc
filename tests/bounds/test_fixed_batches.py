"""Batches of a fixed size and cut batches: beside explicit data, whose outputs are mixtures on a fine grid."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import jaxacct as ja
from jaxacct.bounds import _distribution, _full_batches
from jaxacct.bounds._full_batches import filled, kept, present

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
NAMES = ("add-or-remove", "replace-one", "zero-out")


def _grid(noise, reach):
    return np.linspace(-reach - 9.0 * noise, reach + 9.0 * noise, 5001)


def _law(axis, noise, shares):
    """Cell masses of a mixture of Gaussians about sums of contributions, {sum: probability}."""
    cell = axis[1] - axis[0]
    return sum(cell * share * stats.norm.pdf(axis, centre, noise) for centre, share in shares.items())


def _hockey_stick(p, q, epsilon, steps=1):
    if steps == 1:
        return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
    coarse = slice(None, None, 4)
    p, q = 4.0 * p[coarse], 4.0 * q[coarse]
    return sum(float(np.maximum(a * p - math.exp(epsilon) * b * q, 0.0).sum()) for a, b in zip(p, q, strict=True))


def _added(found, key, share):
    found[key] = found.get(key, 0.0) + share


def _of_subsets(records, size):
    """The law of the sum over a uniform subset."""
    found = {}
    every = list(itertools.combinations(records, size))
    for batch in every:
        _added(found, round(sum(batch), 9), 1.0 / len(every))
    return found


def _of_draws(records, size):
    found = {}
    for batch in itertools.product(records, repeat=size):
        _added(found, round(sum(batch), 9), len(records) ** -float(size))
    return found


def _of_cut(records, prob, size):
    found = {}
    for joined in itertools.product((0, 1), repeat=len(records)):
        batch = [x for x, joins in zip(records, joined, strict=True) if joins]
        share = prob ** len(batch) * (1 - prob) ** (len(records) - len(batch))
        left = _of_subsets(batch, min(size, len(batch)))
        for total, part in left.items():
            _added(found, total, share * part)
    return found


def _pairs(name, others):
    """(the record's data set, its neighbour's) for contributions at the ends and in the middle."""
    for rest in {(1.0,) * others, (-1.0,) * others, (0.0,) * others, tuple((-1.0) ** i for i in range(others))}:
        for x in (1.0, -1.0, 0.6):
            if name == "add-or-remove":
                yield (*rest, x), rest
            elif name == "zero-out":
                yield (*rest, x), (*rest, 0.0)
            else:
                yield from (((*rest, x), (*rest, y)) for y in (1.0, -1.0, 0.3))


_RUNS = {
    "without": (ja.FixedBatches(ja.Gaussian(1.5), 4, 2, num_steps=1), lambda data: _of_subsets(data, 2)),
    "one of three": (ja.FixedBatches(ja.Gaussian(0.8), 3, 1, num_steps=1), lambda data: _of_subsets(data, 1)),
    "with": (
        ja.FixedBatches(ja.Gaussian(2.0), 3, 2, with_replacement=True, num_steps=1),
        lambda data: _of_draws(data, 2),
    ),
    "cut": (ja.TruncatedPoisson(ja.Gaussian(1.5), 0.5, 4, 2, num_steps=1), lambda data: _of_cut(data, 0.5, 2)),
    "cut rarely": (ja.TruncatedPoisson(ja.Gaussian(1.0), 0.2, 5, 3, num_steps=1), lambda data: _of_cut(data, 0.2, 3)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("run", _RUNS)
def test_no_data_are_worse(run, name):
    """One step, every pair of neighbours tried, in both orders."""
    mechanism, sums = _RUNS[run]
    noise, others = mechanism.mechanism.noise_multiplier, mechanism.num_records - 1
    axis, worst = _grid(noise, others + 1.0), {}
    for data, other in _pairs(name, others):
        p, q = (_law(axis, noise, sums(d)) for d in (data, other))
        for epsilon in (0.0, 0.2, 0.8, 1.6):
            for direction, (a, b) in ((REMOVE, (p, q)), (ADD, (q, p))):
                key = (epsilon, direction)
                worst[key] = max(worst.get(key, 0.0), _hockey_stick(a, b, epsilon))
    for (epsilon, direction), attained in worst.items():
        side = {} if name == "replace-one" else {"direction": direction}
        found = ja.delta(mechanism, epsilon, neighboring_relation=name, **side)
        assert attained <= found * (1 + 1e-9) + 2e-6
    for epsilon in (0.0, 0.8):
        found = ja.delta_interval(mechanism, epsilon, neighboring_relation=name)
        attained = max(worst[epsilon, d] for d in (REMOVE, ADD))
        assert found.lower <= found.upper
        if run in ("without", "one of three"):  # the data that attain it are among those tried
            assert found.lower <= attained * (1 + 1e-6) + 2e-6
            assert found.upper <= attained * 1.05 + 1e-6


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("run", ["one of three", "cut rarely"])
def test_no_data_are_worse_in_two_steps(run, name):
    mechanism, sums = _RUNS[run]
    twice = type(mechanism)(**{**vars(mechanism), "num_steps": 2})
    noise, others = mechanism.mechanism.noise_multiplier, mechanism.num_records - 1
    axis = _grid(noise, others + 1.0)
    for data, other in itertools.islice(_pairs(name, others), 0, None, 3):
        p, q = (_law(axis, noise, sums(d)) for d in (data, other))
        for epsilon in (0.3, 1.0):
            attained = max(_hockey_stick(p, q, epsilon, 2), _hockey_stick(q, p, epsilon, 2))
            assert attained <= ja.delta(twice, epsilon, neighboring_relation=name) * (1 + 1e-9) + 1e-5


def test_adding_a_record_is_poisson_with_half_the_noise():
    run, same = ja.FixedBatches(ja.Gaussian(2.0), 1000, 10, 100), ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100)
    for direction in (REMOVE, ADD):
        found = ja.epsilon(run, 1e-6, direction=direction)
        assert found == pytest.approx(ja.epsilon(same, 1e-6, direction=direction), rel=1e-9)
    found = ja.epsilon_interval(run, 1e-6, neighboring_relation="replace-one")
    assert found.lower == pytest.approx(ja.epsilon(same, 1e-6), rel=1e-6)
    assert found.lower < found.upper < 1.06 * found.lower
    out = ja.epsilon_interval(run, 1e-6, neighboring_relation="zero-out")
    assert ja.epsilon(ja.PoissonSampled(ja.Gaussian(2.0), 0.01, 100), 1e-6) < out.lower < out.upper < found.upper
    assert out.upper < 1.1 * out.lower


@pytest.mark.parametrize("wrap", [ja.ReplaceOne, ja.ZeroOut])
def test_compositions_keep_the_adjacency_of_their_parts(wrap):
    """An empty record takes a place in a batch: more than none, also inside of a composition."""
    whole = wrap(ja.FixedBatches(ja.Gaussian(2.0), 1000, 10, 100))
    step = ja.FixedBatches(ja.Gaussian(2.0), 1000, 10, 50)
    for run in (wrap(ja.Composed(step, 2)), ja.Composed(wrap(step), 2)):
        for direction in whole.directions if len(whole.directions) > 1 else (None,):
            found, same = (ja.delta(m, 0.4, direction=direction) for m in (run, whole))
            assert found == pytest.approx(same, rel=2e-2)
    mixed = ja.Composed((step, ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 50)), (1, 1))
    assert ja.epsilon(wrap(mixed), 1e-6) >= ja.epsilon(wrap(step), 1e-6) * (1 - 1e-6)
    assert ja.pld(wrap(mixed)).relation is wrap.relation


@pytest.mark.parametrize(("records", "batch"), [(2, 1), (7, 7), (1000, 30), (10**6, 100), (10**6 + 3, 1), (10**9, 10)])
def test_how_probably_a_batch_has_a_record(records, batch):
    run = ja.FixedBatches(ja.Gaussian(1.0), records, batch, with_replacement=True, num_steps=1)
    exact = 1 - (1 - Fraction(1, records)) ** batch
    assert abs(Fraction(present(run)) / exact - 1) <= Fraction(1, 2**48)


@pytest.mark.more
def test_copies_of_a_record():
    alone = ja.FixedBatches(ja.Gaussian(2.0), 1000, 1, 50)
    drawn = ja.FixedBatches(ja.Gaussian(2.0), 1000, 1, 50, with_replacement=True)
    for name in NAMES[:2]:
        found, same = (ja.epsilon(run, 1e-5, neighboring_relation=name) for run in (drawn, alone))
        assert found == pytest.approx(same, rel=1e-2)


def test_where_nothing_is_cut_it_is_poisson():
    uncut = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100)
    run = ja.TruncatedPoisson(ja.Gaussian(1.0), 0.01, 10_000, 250, 100)
    for name in NAMES:
        one, same = (ja.epsilon_interval(m, 1e-6, neighboring_relation=name) for m in (run, uncut))
        assert (one.lower, one.upper) == pytest.approx((same.lower, same.upper), rel=2e-3)
    full = ja.TruncatedPoisson(ja.Gaussian(1.0), 0.01, 10_000, 70, 100)
    whole = ja.FixedBatches(ja.Gaussian(1.0), 10_000, 70, 100)
    for name in NAMES:
        one, same = (ja.epsilon(m, 1e-6, neighboring_relation=name) for m in (full, whole))
        assert same * 0.97 < one < same * 1.05


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("records", "prob", "limit"), [(4, 0.5, 2), (6, 0.9, 1), (40, 0.5, 20), (30, 0.99, 5), (8, 1.0, 3), (9, 0.2, 9)]
)
def test_a_record_that_stays(records, prob, limit):
    """How probably a batch has the record, in fractions; no less than that is lost among others that are nothing."""
    joins = Fraction(prob)
    truth = joins * sum(
        math.comb(records - 1, m) * joins**m * (1 - joins) ** (records - 1 - m) * Fraction(min(limit, m + 1), m + 1)
        for m in range(records)
    )
    run = ja.TruncatedPoisson(ja.Gaussian(1.5), prob, records, limit, 3)
    found = kept(run)
    assert 0.8 * truth <= found <= truth
    least = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(1.5), found, 3), 1e-3).lower
    for name in NAMES:
        interval = ja.epsilon_interval(run, 1e-3, neighboring_relation=name)
        assert least * (1 - 1e-2) <= interval.lower <= interval.upper


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NAMES[:2])
@pytest.mark.parametrize(("records", "prob", "limit", "steps"), [(10_000, 0.01, 130, 100), (1000, 0.05, 60, 50)])
def test_truncated_batches_are_never_looser_than_dp_accounting(records, prob, limit, steps, name):
    dpa = pytest.importorskip("dp_accounting")
    relations = (dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, dpa.NeighboringRelation.REPLACE_ONE)
    relation = dict(zip(NAMES[:2], relations, strict=True))[name]
    run = ja.TruncatedPoisson(ja.Gaussian(1.0), prob, records, limit, steps)
    event = dpa.dp_event.TruncatedSubsampledGaussianDpEvent(records, prob, limit, 1.0)
    theirs = dpa.pld.PLDAccountant(relation).compose(event, steps).get_epsilon(1e-6)
    assert ja.epsilon(run, 1e-6, neighboring_relation=name) <= theirs * (1 + 2e-3)


def test_fixed_batches_are_never_looser_than_dp_accounting():
    dpa = pytest.importorskip("dp_accounting")
    event = dpa.SampledWithoutReplacementDpEvent(1000, 10, dpa.GaussianDpEvent(2.0))
    theirs = (
        dpa.rdp.RdpAccountant(neighboring_relation=dpa.NeighboringRelation.REPLACE_ONE)
        .compose(event, 100)
        .get_epsilon(1e-6)
    )
    run = ja.FixedBatches(ja.Gaussian(4.0), 1000, 10, 100)  # their noise is in units of what replacing changes
    assert ja.epsilon(run, 1e-6, neighboring_relation="replace-one") <= theirs


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ja.FixedBatches(ja.Gaussian(1.0), 10, 10, num_steps=1), "batch_size=10 must be < num_records=10"),
        (lambda: ja.FixedBatches(ja.Gaussian(1.0), 1, 1, num_steps=1), "num_records"),
        (lambda: ja.FixedBatches(ja.Gaussian(1.0), 10, 2, with_replacement="no", num_steps=1), "with_replacement"),
        (lambda: ja.TruncatedPoisson(ja.Gaussian(1.0), 1.5, 10, 2, num_steps=1), "sampling_prob"),
        (lambda: ja.TruncatedPoisson(ja.Gaussian(1.0), 0.5, 10, 0, num_steps=1), "max_batch_size"),
        (lambda: ja.epsilon(ja.FixedBatches(ja.Laplace(1.0), 10, 2, num_steps=1), 1e-6), "must wrap one of Gaussian"),
    ],
)
def test_what_is_out_of_range_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("limit", [278, 500])
def test_cut_batches_that_hardly_ever_are(limit):
    """A batch is cut with probability 1e-306, or e^-1300; times e^1300, which is no double, that is 1 or more."""
    run = ja.TruncatedPoisson(ja.Gaussian(0.02), 0.01, 1000, limit, 1)
    assert ja.delta(run, 1300.0, method="untruncated") >= ja.delta_interval(ja.Gaussian(0.01), 1300.0).lower > 0.999


def test_sizes_far_below_the_mean_are_not_listed():
    """Of a billion records most batches would be filled a hundred times over: listing all sizes took 5 GB."""
    run = ja.TruncatedPoisson(ja.Gaussian(1e3), 0.1533, 10**9, 10**6, 55)
    full = filled(run)
    assert 1.0 - 1e-4 <= full.least <= 1.0 <= full.most
    assert sum(share for share, _ in full.joins) >= 1.0
    mean = sum(share * joins for share, joins in full.joins)
    assert 0.1533 * 10**6 / (0.1533 * 10**9) <= mean <= 1.0001e-3


@pytest.mark.parametrize("window", [2, 10, 40])
def test_sizes_that_are_not_listed_join_most(window, monkeypatch):
    run = ja.TruncatedPoisson(ja.Gaussian(1.0), 0.5, 200, 60, 1)
    exact = filled(run)
    monkeypatch.setattr(_full_batches, "_WINDOW", window)
    found = filled(run)
    assert found.least <= exact.least <= exact.most <= found.most
    for threshold in (0.0, 0.25, 0.3, 0.35):  # a convex function of the probability with which a record joins
        less, more = (sum(share * max(joins - threshold, 0.0) for share, joins in of.joins) for of in (exact, found))
        assert less <= more * (1.0 + 1e-9)


def test_the_batch_size_is_calibrated_to_less_than_all_records():
    run = ja.FixedBatches(ja.Gaussian(5.0), 10, 2, 1)
    assert ja.calibrate(run, "batch_size", 50.0, 1e-3) == 9
    assert ja.calibrate(run, "num_records", 50.0, 1e-3) == 3
    assert ja.calibrate(dataclasses.replace(run, with_replacement=True), "batch_size", 50.0, 1e-3) == 10


@pytest.mark.parametrize("relation", [None, "zero-out"])
def test_where_hardly_a_batch_is_cut_no_distribution_is_made(relation, monkeypatch):
    run = ja.TruncatedPoisson(ja.Gaussian(1.8), 3.5e-4, 43, 19, 17)
    ends = ja.epsilon_interval(run, 2e-10, neighboring_relation=relation)
    monkeypatch.setattr(_distribution, "plds", lambda *at: pytest.fail("a loss distribution is made"))
    found = ja.epsilon(run, 2e-10, neighboring_relation=relation)
    assert ends.lower <= found <= ends.upper * 1.001
    assert ends.upper - ends.lower < 1e-4 * ends.lower


@pytest.mark.parametrize(
    "run",
    [
        ja.ReplaceOne(ja.FixedBatches(ja.Gaussian(2.0), 20, 1, 8)),
        ja.ZeroOut(ja.FixedBatches(ja.Gaussian(2.0), 20, 1, 8)),
        ja.TruncatedPoisson(ja.Gaussian(2.0), 0.1, 5, 2, 8),
        ja.ZeroOut(ja.TruncatedPoisson(ja.Gaussian(2.0), 0.1, 5, 2, 8)),
        ja.ShuffledBatches(ja.Gaussian(2.0), 10),
        ja.Shuffled(ja.GaussianReports(2.0), 1000, 3),
        ja.Composed((ja.ShuffledBatches(ja.Gaussian(2.0), 10), ja.ShuffledBatches(ja.Gaussian(3.0), 5))),
    ],
    ids=lambda run: type(run).__name__,
)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_what_is_known_from_above_only_has_no_lower_distribution(run, direction):
    """Their laws dominate a run: rounded the other way they are above it still, or nothing."""
    with pytest.raises(ValueError, match="bound='lower' must be 'upper'"):
        ja.pld(run, bound="lower", direction=direction)
