"""Skellam noise in schemes: sums and compositions over outputs by mpmath, wide noise beside Gaussian noise."""

import math

import mpmath
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.bounds.bases import _few_outputs


def _pair(variance, sensitivity, far):
    with mpmath.workdps(40):
        v = mpmath.mpf(variance)
        masses = [mpmath.exp(-v) * mpmath.besseli(k, v) for k in range(far + sensitivity + 1)]
        p = [masses[abs(x - sensitivity)] for x in range(-far, far + 1)]
        return np.array(p, float), np.array([masses[abs(x)] for x in range(-far, far + 1)], float)


@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")  # of deltas near the end of a grid
@pytest.mark.parametrize(("variance", "sensitivity"), [(3.0, 1), (20.0, 2)])
def test_two_releases_are_all_pairs_of_outputs(variance, sensitivity):
    p, q = _pair(variance, sensitivity, 90)
    both, none = np.outer(p, p), np.outer(q, q)
    run = ja.Composed(ja.Skellam(variance, sensitivity), 2)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        truth = math.fsum(np.maximum(both - math.exp(epsilon) * none, 0.0).ravel().tolist())
        found = ja.delta_interval(run, epsilon)
        assert found.lower <= truth * (1 + 1e-9) + 1e-30
        assert truth * (1 - 1e-9) <= found.upper <= truth * 1.05 + 1e-12


@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("prob", [0.05, 0.6])
def test_a_sampled_release_is_a_sum(prob, direction):
    p, q = _pair(2.5, 1, 90)
    mixed = (1.0 - prob) * q + prob * p
    first, second = (mixed, q) if direction is ja.Direction.REMOVE else (q, mixed)
    for epsilon in (0.01, 0.05, 0.2):
        truth = math.fsum(np.maximum(first - math.exp(epsilon) * second, 0.0).tolist())
        found = ja.delta(ja.PoissonSampled(ja.Skellam(2.5), prob, num_steps=1), epsilon, direction=direction)
        assert truth * (1 - 1e-9) <= found <= truth * 1.02 + 1e-12


@pytest.mark.parametrize(("deviation", "sensitivity"), [(30.0, 20), (300.0, 400), (3000.0, 3000)])
def test_noise_that_is_wide_is_nearly_gaussian(deviation, sensitivity):
    gaussian = ja.epsilon(ja.Gaussian(deviation / sensitivity), 1e-5)
    assert ja.epsilon(ja.Skellam(deviation**2, sensitivity), 1e-5) == pytest.approx(
        gaussian, rel=2e-3 + 3.0 / deviation
    )


def test_groups_and_replaced_records_shift_further():
    release = ja.Skellam(40.0, 2)
    assert ja.epsilon(ja.Group(release, 3), 1e-4) == pytest.approx(ja.epsilon(ja.Skellam(40.0, 6), 1e-4), rel=1e-9)
    assert ja.epsilon(ja.ReplaceOne(release), 1e-4) == pytest.approx(ja.epsilon(ja.Skellam(40.0, 4), 1e-4), rel=1e-9)


def test_variance_is_calibrated():
    found = ja.calibrate(ja.Skellam(None), "variance", target_epsilon=1.0, target_delta=1e-5)
    assert ja.epsilon(ja.Skellam(found), 1e-5) <= 1.0 < ja.epsilon(ja.Skellam(0.99 * found), 1e-5)


@pytest.mark.parametrize("variance", [1e-300, 1e-100, 1e15])
def test_variances_out_of_reach_promise_nothing(variance):
    """Next to no noise is no privacy; what is too wide to be listed is infinite or refused."""
    try:
        found = ja.epsilon(ja.Skellam(variance), 1e-5)
    except ValueError as error:
        assert "too many" in str(error)  # noqa: PT017
    else:
        assert found > 100.0


@pytest.mark.parametrize("tail", [0.1, 1e-4])
def test_masses_from_below_allow_for_what_the_norm_leaves_out(tail):
    types = _few_outputs._skellam_outputs(ja.Skellam(4.0), math.log(2.0 / tail), tail)[0]
    exact = float(mpmath.exp(-4) * mpmath.besseli(0, 4))
    assert math.exp(types.log_q.max()) > exact * (1.0 + 1e-12)  # the sum that norms them is short
    assert math.exp(types.log_q.max()) * (1.0 - types.error) <= exact
