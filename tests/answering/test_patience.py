"""Long answers: said in words while there is much to come, and not said of short ones."""

import itertools
import warnings

import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _patience, _sharing, _work
from jaxacct._method import Cost, Query
from jaxacct.accounting import _compare
from jaxacct.bounds import _distribution, _two_steps
from jaxacct.bounds._two_steps import in_two_steps
from jaxacct.divergence.batches._profile import knots


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
            for i in _patience.with_slow_warning(range(len(each)), of, count):
                said.append(len(caught))
                self.now += each[i]
        return said, [str(w.message) for w in caught], caught


@pytest.fixture
def clock(monkeypatch):
    return _Clock(monkeypatch)


def test_what_takes_long_is_said_once_after_two_pieces(clock):
    said, messages, caught = clock.loop([1.0] * 10, 10)
    assert said == [0, 0, *[1] * 8]
    assert messages == ["this takes long: 8 more pieces, about 1 seconds each"]
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
        for _ in _patience.with_slow_warning(range(5), "points", 5):
            for _ in _patience.with_slow_warning(range(10), "splits", 10):
                clock.now += 1.0
            _patience.say_long("more of it")
        _patience.say_long("it is another question")
    assert [str(w.message).split(": ")[1] for w in caught] == [
        "4 more points, about 1e+01 seconds each",
        "it is another question",
    ]


def test_long_pieces_are_told_of_before_the_first_is_done(clock):
    """By the pieces that the first one is made of: two splits of the first point tell of all points."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in _patience.with_slow_warning(range(16), "points", 16):
            for _ in _patience.with_slow_warning(range(8), "splits", 8):
                clock.now += 0.1
                if caught:
                    break
            break
    assert [str(w.message) for w in caught] == ["this takes long: 15 more points, about 0.8 seconds each"]
    assert clock.now == pytest.approx(0.3)  # it is said before the third split


def test_work_is_counted_where_it_is_done():
    with _work.counted() as work, _work.counted() as inner:
        _work.count_sum(1000, 0.01, same=False)
        _work.count_sum(1000, 0.01, same=True)
        _work.count_cells(1000)
    assert work.at(1.0) == 0.0
    assert inner.square > 0.45 * 1.5e6
    assert inner.at(2.0) == 4 * inner.square + 2 * inner.linear
    with pytest.warns(ja.SlowWarning, match="40 sums of laws of 20000 points"):
        _work.expect_sums(20_000, 0.001, 40, 0.001)
    with pytest.warns(ja.SlowWarning, match="4 sums of laws of 64000 points"):  # each halving of steps doubles them
        _work.expect_sums(2_000, 0.032, 40, 0.001)
    _work.expect_sums(500, 0.032, 40, 0.00001)  # too early to tell


def test_one_piece_tells_how_long_many_take(clock):
    def ask(seconds):
        clock.now += seconds
        return seconds

    assert _patience.tried(lambda: ask(0.02), "pieces", 100) == 0.02
    with pytest.warns(ja.SlowWarning, match="this takes long: 300 pieces, about 0.02 seconds each"):
        assert _patience.tried(lambda: ask(0.02), "pieces", 300) == 0.02


def test_several_epochs_of_slow_deltas_are_told_of_at_once(clock):
    """The deltas of a loss distribution by knots: said before the second of them."""
    asked = []

    def profile(epsilon):
        asked.append(epsilon)
        clock.now += 0.1 if epsilon > 1.0 else 0.01
        return 0.5 * np.exp(-10.0 * epsilon)

    with pytest.warns(ja.SlowWarning, match="about 0.1 seconds each"):
        knots(profile, 1e-12, 3.0)
    assert max(asked[:2]) > 1.0


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
    assert number <= len(asked)
    assert len(asked) >= 2 * (2 + _two_steps._NUM_SPLITS)


def test_deltas_that_are_no_doubles_are_not_looked_for(monkeypatch):
    from jaxacct.bounds import _moments

    ends = _moments.ends

    def of_many(*at, **options):  # as epsilons are asked about, together
        return ends(*at, **options) if options else pytest.fail("a line is sought")

    monkeypatch.setattr(_moments, "ends", of_many)
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


# What several questions about one mechanism have in common


def _replaced(run, query, target):
    return getattr(ja, query)(run, target, neighboring_relation="replace-one")


def test_splits_share_their_loss_distributions(monkeypatch):
    """Sixteen questions about one mechanism make the laws of a few of them."""
    from jaxacct.divergence.lattice import _prefix

    made = []
    average = _prefix.averages
    monkeypatch.setattr(_prefix, "averages", lambda *at, **rest: made.append(at[2]) or average(*at, **rest))
    found = _replaced(ja.PartialAllocation(ja.PermuteAndFlip(0.3), 20, 5), "epsilon", 1e-6)
    assert found < 0.15077385  # what it was when each question made its own
    assert 0 < len(made) <= 24  # before, 186


def test_deltas_of_a_group_share_their_loss_distributions(monkeypatch):
    made = []
    law = _distribution.compose_plds
    monkeypatch.setattr(_distribution, "compose_plds", lambda *at: made.append(at) or law(*at))
    group = ja.Group(ja.RandomAllocation(ja.DiscreteGaussian(3.0, 1), 10, 1, 2), 3)
    assert 0.0 < ja.epsilon(group, 1e-3) <= 1.2375993728637695  # what it was when each made its own
    assert 0 < len(made) < 30  # of some 25 deltas, each by several distributions


def test_what_is_made_once_serves_tails_near_its_own():
    made = []

    def once(tail):
        return _sharing.once("key", tail, lambda: made.append(tail) or _work.count_sum(1000, 0.01, same=False) or tail)

    assert [once(1e-10), once(1e-10)] == [1e-10, 1e-10] == made  # not outside of a block
    with _sharing.shared(), _work.counted() as work:
        assert [once(x) for x in (1e-10, 2e-11, 2e-8, 1e-12)] == [1e-10, 1e-10, 1e-10, 1e-12]
        with _sharing.shared():
            assert once(3e-10) == 1e-10
    assert made[2:] == [1e-10, 1e-12]
    assert work.square == 5 * _work._of_sum(1000, 0.01)[0]
    assert work.again == 3.0 / 5.0 * work.at(1.0)


@pytest.mark.more
def test_a_method_that_was_beaten_is_not_asked_again(monkeypatch):
    from jaxacct.bounds import _moments

    asked = []
    ends = _moments.ends
    monkeypatch.setattr(_moments, "ends", lambda of, *at, **is_so: asked.append(of) or ends(of, *at, **is_so))
    assert _replaced(ja.RandomAllocation(ja.Gaussian(15.5), 253), "epsilon", 1e-60) < 0.1295537
    removed = [of for of in asked if of.adds.size and of.direction is ja.Direction.REMOVE]
    assert len(removed) <= 3  # before, eight, each as much in vain


def test_a_beaten_method_is_asked_where_no_other_has_an_answer():
    from jaxacct.answering import _beaten
    from jaxacct.answering._question import Question

    class Method:
        name, cost = "slow", Cost.SECONDS

    class ClosedForm:
        name, cost = "slow", Cost.MICROSECONDS

    run, d = ja.Gaussian(1.0), ja.Direction.REMOVE

    def question(target, query=Query.EPSILON, wants_lower=False):
        return Question(run, query, target, (d,), 1e-3, None, wants_lower, share=0.1)

    with _sharing.shared():
        _beaten.note_beaten(Method, question(1e-60), d, np.inf, np.inf)  # nobody has an answer
        _beaten.note_beaten(Method, question(1e-60), d, 1.9, 1.0)
        assert not _beaten.is_beaten(Method, question(1e-60), d)
        _beaten.note_beaten(Method, question(1e-60), d, 2.1, 1.0)
        assert _beaten.is_beaten(Method, question(1.5e-59), d)
        assert not _beaten.is_beaten(ClosedForm, question(1.5e-59), d)
        assert not _beaten.is_beaten(Method, question(1.7e-59), d)
        assert not _beaten.is_beaten(Method, question(1e-60, wants_lower=True), d)
        assert not _beaten.is_beaten(Method, question(1e-60), ja.Direction.ADD)
        _beaten.note_beaten(Method, question(2.0, Query.DELTA), d, 1e-20, 1e-30)
        assert _beaten.is_beaten(Method, question(1.6, Query.DELTA), d)
        assert not _beaten.is_beaten(Method, question(1.4, Query.DELTA), d)
    assert not _beaten.is_beaten(Method, question(1e-60), d)


@pytest.mark.parametrize(
    ("noise", "num_steps", "delta", "is_long"),
    [(17.6, 2**40, 1e-100, True), (17.6, 2**40, 1e-20, False), (0.9, 2**40, 1e-60, False), (15.5, 253, 1e-60, False)],
)
def test_long_splits_are_told_of_before_the_first(noise, num_steps, delta, is_long):
    class AskedError(Exception):
        pass

    class At:
        width = 1e-2

        @staticmethod
        def ask(*at, **rest):
            raise AskedError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(AskedError):
            in_two_steps(ja.RandomAllocation(ja.Gaussian(noise), num_steps, 1, 8), Query.EPSILON, delta, At)
    assert [w.category for w in caught] == [ja.SlowWarning] * is_long


def test_intervals_at_deep_deltas_of_rare_cut_batches_are_told_of_before_any_work():
    run = ja.TruncatedPoisson(ja.Gaussian(1.378), 1.09e-4, 372, 308, 19)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ja.SlowWarning)
        with pytest.raises(ja.SlowWarning, match="a record rarely joins"):
            ja.epsilon_interval(run, 1.4e-221)
        ja.epsilon(run, 1e-5)


@pytest.mark.more
def test_a_delta_of_rare_large_losses_takes_no_long_law():
    """Laws that are sharp at all deltas reached to 2^24 points, some 20 seconds, and no closer."""
    run = ja.TruncatedPoisson(ja.Gaussian(0.723572399700694), 0.0003212563474044414, 2, 1, 13583)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ja.SlowWarning)
        found = ja.delta(run, 0.7552188044668726)
    assert ja.delta_interval(run, 0.7552188044668726).lower <= found <= 0.0010531812


def test_deep_deltas_end_where_finer_laws_change_nothing(monkeypatch):
    run, asked = ja.Shuffled(ja.KaryRandomizedResponse(0.82, 4), 236_301, 7), []
    tighten = _distribution._Refinement._tighten

    def counted(self, resolution):
        asked.append(resolution)
        return tighten(self, resolution)

    monkeypatch.setattr(_distribution._Refinement, "_tighten", counted)
    ja.epsilon(run, 5.8e-46, method="loss distribution")
    assert asked
    assert max(asked) <= 64.0  # of 768


def test_a_batch_of_points_is_told_of_at_the_first(monkeypatch):
    """Each alone takes less than is worth saying."""
    run = ja.PartialAllocation(ja.DiscreteGaussian(5.72, 3), 33, 11)
    monkeypatch.setattr(_distribution, "_MUCH_WORK", 1e8)
    monkeypatch.setattr(_distribution, "_WORTH_SAYING", 0.85e8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ja.SlowWarning)
        warnings.simplefilter("ignore", ja.PrecisionWarning)
        ja.delta(run, 0.22)
        with pytest.raises(ja.SlowWarning, match="sums of laws"):
            ja.delta(run, np.array([0.22, 0.23]))


def test_compare_says_which_programs_it_compiles(monkeypatch):
    """Before it does."""
    monkeypatch.setattr(_compare, "ask", lambda *_: pytest.fail("asked first"))
    with pytest.warns(ja.SlowWarning, match="purified clones, composed"), pytest.raises(pytest.fail.Exception):
        ja.compare(ja.Shuffled(ja.GaussianReports(8.0, None), 244), target_epsilon=6.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pytest.fail.Exception):
            ja.compare(ja.Gaussian(1.0), target_epsilon=6.9)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: ja.epsilon(ja.PrivateSelection(ja.Gaussian(2.0), 5.0, 1.0), 1e-6), "60 questions about one run"),
        (lambda: ja.compare(ja.RandomAllocation(ja.Gaussian(1.0), 20), 1e-6), "more methods are compared"),
        (lambda: ja.epsilon(ja.RandomAllocation(ja.Laplace(1.0), 20), 1e-6), "needs sums of laws"),
    ],
)
def test_what_took_long_so_far_is_told_of(ask, said, monkeypatch):
    """Whatever was expected: by a clock on which all takes seconds."""
    monkeypatch.setattr(_patience, "_seconds", itertools.count(step=3.0).__next__)
    with pytest.warns(ja.SlowWarning, match=said):
        ask()


def test_large_laws_are_told_of_before_all_four_are_made():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _work.count_cells(5 * 10**5)
        _work.count_transforms(10**6, 2)
    with pytest.warns(ja.SlowWarning, match="one release has 1000000 points"):
        _work.count_cells(10**6)
    with pytest.warns(ja.SlowWarning, match="composed loss distribution has 9000000 points"):
        _work.count_transforms(9 * 10**6, 2)
