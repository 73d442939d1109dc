"""Long answers: said in words while there is much to come, and not said of short ones."""

import itertools
import warnings

import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _patience, _work
from jaxacct._method import Query
from jaxacct.bounds import _distribution, _two_steps
from jaxacct.bounds._two_steps import in_two_steps


class _Clock:
    """Seconds that pass only when they are told to."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(_patience, "_seconds", lambda: self.now)

    def loop(self, each, count, of="pieces"):
        """A loop whose pieces take `each` seconds, after how many pieces something was said, and what."""
        said = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i in _patience.told(range(len(each)), of, count):
                said.append(len(caught))
                self.now += each[i]
        return said, [str(w.message) for w in caught], caught


@pytest.fixture
def clock(monkeypatch):
    return _Clock(monkeypatch)


def test_what_takes_long_is_said_once_after_two_pieces(clock):
    said, messages, caught = clock.loop([1.0] * 10, 10)
    assert said == [0, 0, *[1] * 8]
    assert messages == ["this takes long: 8 more pieces, of some 1 seconds each"]
    assert caught[0].category is ja.SlowWarning
    assert caught[0].filename == __file__


def test_what_is_short_is_not_spoken_of(clock):
    assert not clock.loop([0.1] * 20, 20)[1]
    assert not clock.loop([3.0, *[0.01] * 20], 21)[1]  # what was compiled is not compiled again
    assert not clock.loop([2.0, 2.0, 2.0], 3)[1]  # nearly done
    assert clock.loop([5.0, 0.01, 0.01], 10)[0][1:] == [1, 1]  # one piece alone took long


def test_loops_inside_of_loops_are_told_of_once(clock):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in _patience.told(range(5), "points", 5):
            for _ in _patience.told(range(10), "splits", 10):
                clock.now += 1.0
            _patience.say_long("more of it")
        _patience.say_long("it is another question")
    assert [str(w.message).split(": ")[1].split(",")[0] for w in caught] == [
        "8 more splits",
        "4 more points",
        "it is another question",
    ]


def test_work_is_counted_where_it_is_done():
    with _work.counted() as work, _work.counted() as inner:
        _work.count_sum(1000, same=False)
        _work.count_sum(1000, same=True)
    assert work.at(1.0) == 0.0
    assert inner.square == 1.5e6
    assert inner.at(2.0) == 4 * 1.5e6 + 2 * inner.linear
    with pytest.warns(ja.SlowWarning, match="24 sums of laws of 20000 points"):
        _work.expect_sums(20_000, 24)


def test_a_refinement_ends_where_the_next_would_take_long(monkeypatch):
    """The lower end of losses with mass by themselves comes near with the step, not its square."""
    run = ja.PartialAllocation(ja.DiscreteGaussian(5.72, 3), 33, 11)
    sizes = []
    counted = _work._count

    def count(square, linear):
        sizes.append(square)
        counted(square, linear)

    monkeypatch.setattr(_work, "_count", count)
    monkeypatch.setattr(_distribution, "_MUCH_WORK", 1e8)
    with pytest.warns(ja.PrecisionWarning, match="instead of 0.01"):
        found = ja.delta_interval(run, 0.22)
    assert found.lower < 1.5541e-5 < 1.55450e-5 < found.upper < 1.58e-5
    assert sum(sizes) < 1e8  # before, 6e9


@pytest.mark.parametrize("query", Query)
def test_a_split_that_is_no_gain_is_half_a_question(query):
    """Skipping the other half changes neither the splits tried nor their best, but for guesses, which know less."""
    asked = []

    def ask(run, query, target, width, *, wants_lower, direction, share):
        asked.append(direction)
        high = 3.0 - np.log(target) / 10.0 if query is Query.EPSILON else np.exp(-9.0 * target)
        return ja.Interval(0.0, float(high) * (1.0 if direction is ja.Direction.REMOVE else 0.7), 0.0)

    class At:
        width = 1e-2

    At.ask = staticmethod(ask)
    run = ja.RandomAllocation(ja.Gaussian(1.0), 10)
    found = in_two_steps(run, query, 0.4 if query is Query.EPSILON else 2.0, At)
    number = len(asked)
    with pytest.MonkeyPatch.context() as patch:
        searched = _two_steps._searched
        patch.setattr(_two_steps, "_searched", lambda value, *at: searched(lambda x, _, left: value(x, 9e9, left), *at))
        asked.clear()
        again = in_two_steps(run, query, 0.4 if query is Query.EPSILON else 2.0, At)
    assert again == (found if query is Query.EPSILON else pytest.approx(found, rel=1e-6))
    assert number <= len(asked) == 2 * (2 + _two_steps._NUM_SPLITS)


def test_deltas_that_are_no_doubles_are_not_looked_for(monkeypatch):
    from jaxacct.bounds import _moments

    monkeypatch.setattr(_moments, "ends", lambda *at: pytest.fail("a line is sought"))
    run = ja.RandomAllocation(ja.Gaussian(15.0), 1000)
    with pytest.warns(ja.OrderEdgeWarning):
        assert ja.delta(run, 0.4, direction="remove") == 2.0**-1022


def test_ways_to_choose_letters():
    from jaxacct.bounds.discrete import _compositions, _multisets

    for count, letters in ((1, 3), (2, 4), (3, 5), (5, 2), (4, 1)):
        every = itertools.combinations_with_replacement(range(letters), count)
        assert _multisets(letters, count).tolist() == [list(x) for x in every]
        ways = (x for x in itertools.product(range(count + 1), repeat=letters) if sum(x) == count)
        assert _compositions(count, letters).tolist() == [list(x) for x in ways]


@pytest.mark.parametrize(("scale", "known"), [(3.28, 0.112319240307), (0.7, None)])
def test_two_releases_of_discrete_noise(scale, known):
    """By the letters that occur, where types are few releases of many outputs; against the sum over all pairs."""
    found = ja.delta_interval(ja.Composed(ja.DiscreteGaussian(scale, 1), 2), 0.157)
    x = np.arange(-60, 61)
    with np.errstate(under="ignore"):
        q, p = np.exp(-(x**2) / (2.0 * scale**2)), np.exp(-((x - 1) ** 2) / (2.0 * scale**2))
    p, q = np.outer(p, p) / p.sum() ** 2, np.outer(q, q) / q.sum() ** 2
    truth = np.maximum(p - np.exp(0.157) * q, 0.0).sum()
    assert found.lower * (1 - 1e-12) <= truth <= found.upper * (1 + 1e-12)
    assert found.upper - found.lower <= 1e-9 * truth
    assert known is None or abs(known - truth) < 1e-11
