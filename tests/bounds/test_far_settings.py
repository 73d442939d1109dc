"""Settings far from the usual ones: large noise, tiny sampling probabilities; answers stay narrow, and silent."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Bracketing, Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds import composed


@pytest.mark.parametrize(("noise", "num_steps"), [(30.0, 1000), (50.0, 1e5), (200.0, 1e4)])
@pytest.mark.parametrize("deviations", [0.1, 1.0, 4.0])
def test_large_noise_is_exact(noise, num_steps, deviations):
    """Many steps of large noise are nearly one Gaussian release of noise sigma sqrt(t), from which both ends differ."""
    run = ja.RandomAllocation(ja.Gaussian(noise), num_steps)
    scale = 1.0 / (noise * num_steps**0.5)
    found = ja.delta_interval(run, deviations * scale)
    assert found.upper - found.lower <= 1e-6 * found.lower
    near = ja.delta(ja.Gaussian(1.0 / scale), deviations * scale)
    assert found.upper == pytest.approx(near, rel=2e-2)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1.0])
@pytest.mark.parametrize("steps", [2, 10, 1000])
def test_delta_is_at_most_the_probability_of_taking_part(epsilon, steps):
    run = ja.PoissonSampled(ja.Gaussian(1.0), 1e-12, steps)
    joins = -np.expm1(steps * np.log1p(-1e-12))
    assert ja.delta(run, epsilon) <= joins * (1.0 + 1e-9)


REPORTS = [ja.LocalRandomizer(30.0), ja.LocalRandomizer(2.0, 0.1), ja.LocalRandomizer(1e5), ja.GaussianReports(0.3)]


@pytest.mark.parametrize("reports", REPORTS, ids=repr)
@pytest.mark.parametrize("rounds", [1, 10])
def test_delta_of_check_ins_is_at_most_the_probability_of_taking_part(reports, rounds):
    run = ja.CheckIn(reports, 100, 1e-8, rounds, dropout_prob=0.5)
    joins = -math.expm1(rounds * math.log1p(-0.5e-8))
    assert ja.delta(run, 1.0) <= joins * (1.0 + 1e-9)
    assert ja.epsilon(run, joins * (1.0 + 1e-9)) == 0.0
    assert ja.delta(run, 1.0, method="taking part") >= joins
    assert ja.epsilon(run, joins * (1.0 - 1e-9), method="taking part") > 0.0


@pytest.mark.parametrize("size", [1, 80])
def test_probabilities_that_a_program_takes_for_0_are_booked(size):
    """Below the normal doubles: XLA counts them as 0, and many rounds make normal numbers of them."""
    run = ja.CheckIn(ja.GaussianReports(0.05), 1000, np.full(size, 1e-310), 2**53 - 1)
    assert np.all(ja.delta(run, 0.0, method="taking part") >= 1e-310 * (2**53 - 1))


def test_check_ins_tell_no_more_than_all_reports():
    """Where the local epsilon is so large that its exponential is no double."""
    run = ja.CheckIn(ja.LocalRandomizer(1000.0), 100, 0.5, 3)
    assert 3000.0 <= ja.epsilon(run, 1e-9) <= 3000.0 * (1.0 + 1e-12)
    assert 0.875 <= ja.delta(run, 2999.0) <= 0.875 * (1.0 + 1e-12)


def test_tradeoff_warns_of_nothing_that_was_not_asked():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 1e-12, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        missed = ja.tradeoff(run, np.array([0.01, 0.1]))
    np.testing.assert_allclose(missed, [0.99, 0.9], rtol=0, atol=1e-10)
    assert np.all(missed <= [0.99, 0.9])


@pytest.mark.parametrize(("target", "count"), [(1.5e-323, 2), (2e-308, 3), (1e-6, 3)])
def test_shares_of_a_delta_add_up_to_no_more(target, count):
    """Below the normal doubles a quotient is rounded by far more than its share of 2^-50."""
    asked = []

    def ask(part, query, share, width, *, wants_lower):
        asked.append(share)
        return Ends(0.0, 1.0)

    known = {Direction.REMOVE: Ends(0.0, math.inf)}
    at = Bracketing(width=1e-3, known=known, wants_lower=False, ask=ask, progress=None)
    composed._added_up(ja.Composed(ja.Gaussian(1.0), count), Query.EPSILON, target, at)
    assert 0 < count * Fraction(asked[0]) <= Fraction(target)


@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_grids_are_looked_at_once_where_they_resolve_little():
    """Finer ones took minutes for a delta of 1e-57, and found no better end."""
    looks = []
    run = ja.RandomAllocation(ja.Gaussian(1.0), 1000, num_epochs=10)
    found = ja.delta_interval(run, 10.0, progress=lambda rounds, width: looks.append((rounds, width)))
    assert [rounds for rounds, _ in looks] == [1]
    assert 0.0 < found.lower < found.upper < 1e-56
