"""What epsilon certifies, delta knows, and the other way round: questions at which they once were far apart."""

import math

import pytest

import jaxacct as ja

pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning", "ignore::jaxacct.OrderEdgeWarning")

_BEST = ja.PrivateSelection(ja.DiscretePair((0.016, 4e-11, 0.984 - 4e-11), (0.027, 0.973 - 5e-5, 5e-5)), 9.3, math.inf)
_SHUFFLED = ja.Shuffled(ja.KaryRandomizedResponse(0.25, 9), 11_000)
_AT_DELTA = [
    pytest.param(_BEST, 5.8e-7, marks=pytest.mark.more),  # what one grid of orders says, the next one says too
    pytest.param(ja.PrivateSelection(_SHUFFLED, 5.6, 0.5), 1.1e-5, marks=pytest.mark.more),
    (ja.CheckIn(ja.GaussianReports(3.0), 146, 0.8, 2, 0.001), 0.041),  # known from above only
    (ja.PoissonSampled(ja.Gaussian(12.4), 1e-12, 73782), 6.5e-11),  # sums of laws round by more
    (ja.RandomAllocation(ja.Gaussian(18.6), 10**12, 2 * 10**11, 2), 0.009),  # met at an order of 1.01
]
_AT_EPSILON = [
    (ja.PartialShuffledBatches(ja.Gaussian(2.0), 7592, 2390), 0.63),  # rounding grows with epsilon
    (ja.CheckIn(ja.GaussianReports(1.68), 2, 0.0144), 0.123),  # places of those who do not join
    (  # values far apart: larger epsilons may be known less closely
        ja.Shuffled(ja.FiniteRandomizer(((1e-10, 1 - 1.7e-9, 1.6e-9), (0.09, 0.23, 0.68))), 1_000_000),
        0.35,
    ),
]


@pytest.mark.parametrize(("run", "delta"), _AT_DELTA)
def test_delta_at_the_epsilon_of_a_delta(run, delta):
    assert ja.delta(run, ja.epsilon(run, delta)) <= delta * 1.021


@pytest.mark.parametrize(("run", "epsilon"), _AT_EPSILON)
def test_epsilon_at_the_delta_of_an_epsilon(run, epsilon):
    assert ja.epsilon(run, ja.delta(run, epsilon) * (1.0 + 1e-6)) <= epsilon * 1.15


def test_begun_epochs_have_a_largest_loss():
    """log(1 + (e^L - 1) s / t), which one step of the s attains."""
    most = math.log1p(math.expm1(0.9) / 4)
    for release in (ja.PermuteAndFlip(0.9), ja.Laplace(1.0 / 0.9)):
        run = ja.PartialAllocation(release, 4, 1)
        assert ja.delta(run, most * (1.0 + 1e-12)) == 0.0
        assert most * 0.99 <= ja.epsilon(run, 1e-12) <= most * (1.0 + 1e-12)
    assert ja.delta_interval(run, most * 0.98).lower > 0.0


def test_check_ins_that_hardly_ever_happen():
    run = ja.CheckIn(ja.KaryRandomizedResponse(1.4, 4), 65, 1e-100, 2)
    assert ja.epsilon(run, 1e-4) == 0.0
    assert ja.delta(run, 0.1) <= 65 * 2e-100
