"""Audits: below the truth at their confidence, near it where that is possible, and as jax_privacy finds them."""

import itertools
import math
import re

import mpmath
import numpy as np
import pytest
from scipy import stats

import jaxacct as ja
from jaxacct import audit
from jaxacct.audit._many_runs import joint_level, refuted_epsilon

DELTA, CONFIDENCE = 1e-5, 0.95
NUM_SIMULATED = 200
TRUTH = ja.epsilon_interval(ja.Gaussian(1.0), DELTA)
TOL_SAME = 2e-6  # two searches for the same root, relative


def failures(number: int) -> int:
    """How many of `number` audits may fail, but for a chance of 1e-6."""
    return int(stats.binom.isf(1e-6, number, 1 - CONFIDENCE))


def many(seed, size=2000, shift=1.0, **options):
    rng = np.random.default_rng(seed)
    return audit.many_runs(shift + rng.normal(size=size), rng.normal(size=size), delta=DELTA, **options)


def one(seed, size=2000, **options):
    rng = np.random.default_rng(seed)
    is_in = rng.random(size) < 0.5
    return audit.one_run(is_in + rng.normal(size=size), is_in, delta=DELTA, **options)


# Simulated runs


@pytest.mark.sample(1)
@pytest.mark.parametrize("measure", [many, one])
def test_simulated_runs_stay_below_the_certified_end(measure):
    found = np.array([measure(seed).epsilon for seed in range(NUM_SIMULATED)])
    assert np.count_nonzero(found > TRUTH.upper) <= failures(NUM_SIMULATED)
    assert np.median(found) > 0.5


def test_claims_that_are_true_are_seldom_refuted():
    """Where the truth is what the test sees: randomized response, at every count that its guesses may have."""
    epsilon, runs = 1.0, 12
    right = 1 / (1 + math.exp(-epsilon))
    above = np.array(
        [
            [refuted_epsilon(x, runs, y, runs, 0.0, 1 - CONFIDENCE) > epsilon for y in range(runs + 1)]
            for x in range(runs + 1)
        ]
    )
    counts = np.arange(runs + 1)
    chance = np.outer(stats.binom.pmf(counts, runs, right), stats.binom.pmf(counts, runs, 1 - right))
    assert chance[above].sum() <= 1 - CONFIDENCE
    assert above.any()


def test_p_values_of_one_run_are_those_of_randomized_response():
    for epsilon, guesses in ((0.5, 10), (2.0, 25)):
        right = 1 / (1 + math.exp(-epsilon))
        for number in range(guesses + 1):
            want = stats.binom.sf(number - 1, guesses, right)
            assert want <= audit.p_value(guesses, guesses, number, epsilon, 0.0) <= want * (1 + 1e-8) + 1e-300


def test_the_term_of_delta_is_that_of_the_theorem():
    m, r, v, epsilon, delta = 50, 20, 17, 1.0, 1e-3
    right = 1 / (1 + math.exp(-epsilon))

    def f(least):
        return stats.binom.sf(least - 1, r, right)

    want = f(v) + 2 * m * delta * max((f(v - i) - f(v)) / i for i in range(1, m + 1))
    assert audit.p_value(m, r, v, epsilon, delta) == pytest.approx(want, rel=1e-8)


def test_a_run_that_fails_with_probability_delta_is_not_refuted_more_often():
    """With probability delta a canary's bit is told outright, beside randomized response: the worst there is."""
    epsilon, delta, m, r = 1.0, 5e-3, 200, 200
    rng = np.random.default_rng(3)
    right = 1 / (1 + math.exp(-epsilon))
    refuted = 0
    for _ in range(400):
        is_right = np.where(rng.random(m) < delta, True, rng.random(m) < right)
        refuted += audit.p_value(m, r, int(is_right.sum()), epsilon, delta) <= 1 - CONFIDENCE
    assert refuted <= failures(400)


@pytest.mark.parametrize(("measure", "size"), [(many, 10000), (one, 10000)])
def test_it_is_within_a_factor_of_three_where_that_is_possible(measure, size):
    found = [measure(seed, size=size).epsilon for seed in range(5)]
    assert min(found) >= TRUTH.lower / 3
    assert max(found) <= TRUTH.upper


def test_more_runs_show_more():
    few, more = many(0, size=500).epsilon, many(0, size=50000).epsilon
    assert few < more <= TRUTH.upper
    assert more >= TRUTH.lower / 2


def test_both_tails_are_told():
    """A canary that is sometimes seen for sure, and one that is sometimes missed for sure, refute as much."""
    seen = refuted_epsilon(60, 100, 0, 100, DELTA, 0.05)
    missed = refuted_epsilon(100, 100, 40, 100, DELTA, 0.05)
    assert seen == pytest.approx(missed, rel=1e-3)
    assert seen > 2.0


@pytest.mark.parametrize("counts", [(0, 10, 0, 10), (10, 10, 10, 10), (3, 10, 5, 10), (0, 10, 10, 10)])
def test_nothing_is_shown_by_what_guessing_does(counts):
    assert refuted_epsilon(*counts, DELTA, 0.05) == 0.0


def test_counts_order_what_is_shown():
    hits = [refuted_epsilon(x, 50, 3, 50, DELTA, 0.05) for x in range(0, 51, 5)]
    alarms = [refuted_epsilon(45, 50, y, 50, DELTA, 0.05) for y in range(0, 51, 5)]
    deltas = [refuted_epsilon(45, 50, 3, 50, delta, 0.05) for delta in (0.0, 1e-3, 0.1, 0.5)]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(hits))
    assert all(a + 1e-9 >= b for a, b in itertools.pairwise(alarms))
    assert all(a + 1e-9 >= b for a, b in itertools.pairwise(deltas))


def test_what_delta_explains_shows_nothing():
    assert refuted_epsilon(50, 1000, 0, 10**6, 0.1, 0.05) == 0.0  # caught outright, in no more runs than delta allows
    assert refuted_epsilon(50, 1000, 0, 10**6, 1e-5, 0.05) > 5.0


def test_the_level_of_a_product():
    for significance in (1e-6, 0.05, 0.5):
        level = joint_level(significance)
        assert significance * (1 - 1e-9) <= level * (1 - math.log(level)) <= significance


# Others


def test_jax_privacy_finds_the_same_in_one_run():
    auditing = pytest.importorskip("jax_privacy.auditing")
    rng = np.random.default_rng(7)
    for size, guesses in ((500, 40), (3000, 200)):
        is_in = rng.random(size) < 0.5
        scores = 1.5 * is_in + rng.normal(size=size)
        ours = audit.one_run(scores, is_in, delta=DELTA, num_guesses=(guesses, 0)).epsilon
        threshold = auditing.Explicit(float(np.sort(scores)[-guesses]))
        theirs = auditing.CanaryScoreAuditor(scores[is_in], scores[~is_in]).epsilon_one_run(
            0.05, DELTA, threshold_strategy=threshold
        )
        assert ours == pytest.approx(theirs, rel=TOL_SAME)


def test_many_runs_show_more_than_an_interval_for_each_rate():
    auditing = pytest.importorskip("jax_privacy.auditing")
    rng = np.random.default_rng(8)
    present, absent = 1 + rng.normal(size=5000), rng.normal(size=5000)
    for threshold in (1.0, 2.0, 2.5, 3.0):
        ours = audit.many_runs(present, absent, delta=DELTA, threshold=threshold).epsilon
        theirs = auditing.CanaryScoreAuditor(present, absent).epsilon_clopper_pearson(
            0.05, DELTA, threshold_strategy=auditing.Explicit(threshold)
        )
        assert theirs <= ours <= theirs * 1.2


# What is told


def test_a_statement_has_both_ends():
    text = many(1).beside(ja.Gaussian(1.0))
    assert "certified   epsilon between 4.377 and 4.378" in text
    assert "with confidence 95 %" in text
    assert "It is not an upper bound" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_run_that_is_not_what_was_described_is_told():
    found = many(1, size=20000, shift=3.0)  # noise of a third
    assert found.epsilon > ja.epsilon(ja.Gaussian(2.0), DELTA)
    text = " ".join(found.beside(ja.Gaussian(2.0)).split())
    assert "the run is not what is described here" in text


def test_the_adjacency_may_be_another():
    text = many(1).beside(ja.Gaussian(2.0), neighboring_relation="replace-one")
    assert "replace one record" in text
    assert "between 4.377 and 4.378" in text


def test_a_picture_has_both_ends():
    plot = pytest.importorskip("jaxacct.plot")
    found = many(1)
    ax = plot.audit_interval(found, ja.Gaussian(1.0))
    line, low, high, measured, _ = ax.get_lines()
    assert line.get_xdata().tolist() == [TRUTH.lower, TRUTH.upper]
    assert (low.get_xdata()[0], high.get_xdata()[0]) == (TRUTH.lower, TRUTH.upper)
    assert measured.get_xdata()[0] == found.epsilon
    assert [text.get_text() for text in ax.get_yticklabels()] == ["certified", "measured, 95 %"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: audit.many_runs([], [1.0], delta=0.0), "scores_in of shape (0,)"),
        (lambda: audit.many_runs([math.nan], [1.0], delta=0.0), "without nan"),
        (lambda: audit.many_runs([1.0], [1.0], delta=0.0), "must be 8 each, or give a threshold"),
        (lambda: audit.many_runs([1.0], [1.0], delta=1.0, threshold=0.0), "delta=1.0 must be in [0, 1)"),
        (lambda: audit.many_runs([1.0], [1.0], delta=0.0, threshold=0.0, confidence=1.0), "confidence=1.0"),
        (lambda: audit.one_run([1.0], [1.0], delta=0.0), "must be bool, one for each"),
        (lambda: audit.one_run([1.0], [True, False], delta=0.0), "must be bool, one for each"),
        (lambda: audit.one_run([1.0], [True], delta=0.0, num_guesses=(1, 1)), "must add to a number in [1, 1]"),
        (lambda: audit.one_run([1.0], [True], delta=0.0, num_guesses=3), "must be a pair"),
        (lambda: audit.one_run([1.0], [True], delta=0.0, num_guesses=(-1, 1)), "must be a whole number in [0, 1]"),
    ],
)
def test_what_is_out_of_range_is_named(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_tails_of_very_many_guesses_are_sharp():
    """Where SciPy's bdtrc errs by a percent and more, to either side."""
    guesses = 10**8
    for right in range(guesses // 2, guesses // 2 + 30_000, 3_000):
        first = mpmath.binomial(guesses, right) / mpmath.mpf(2) ** guesses
        beyond = np.arange(right, right + 80_000, dtype=float)
        exact = float(first) * np.cumprod(np.append(1.0, (guesses - beyond) / (beyond + 1.0))).sum()
        found = audit.p_value(guesses, guesses, right, epsilon=0.0, delta=0.0)
        assert exact <= found <= exact * (1.0 + 1e-8)


def test_an_audit_at_delta_0_says_why_nothing_certified_stands_beside_it():
    found = audit.many_runs([1.0] * 50, [0.0] * 50, delta=0.0, threshold=0.5)
    with pytest.raises(ValueError, match=r"delta=0\.0 must be > 0 for a certified interval"):
        found.beside(ja.Gaussian(1.0))
