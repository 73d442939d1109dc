"""The masses of Skellam noise beside Bessel functions in mpmath."""

import math

import mpmath
import numpy as np
import pytest

from jaxacct.special import skellam_masses, skellam_reach
from jaxacct.special._skellam import _falls

VARIANCES = [1e-6, 0.05, 1.0, 7.3, 100.0, 4321.0]


def _mass(k, variance):
    return mpmath.exp(-mpmath.mpf(variance)) * mpmath.besseli(k, mpmath.mpf(variance))


@pytest.mark.parametrize("variance", VARIANCES)
def test_masses_are_within_what_is_booked(variance):
    reach = skellam_reach(variance, 699.0)
    found, (falls, errors) = skellam_masses(variance, reach + 3), _falls(variance, reach + 3)
    assert found.error < 1e-10
    assert np.all(np.diff(falls) > 0.0)  # log-concave
    with mpmath.workdps(60):
        for k in sorted({0, 1, 2, reach // 50, reach // 7, reach // 2, reach}):
            truth = mpmath.log(_mass(k, variance))
            assert abs(found.log_masses[k] - truth) <= found.error
            step = truth - mpmath.log(_mass(k + 1, variance))
            assert abs(falls[k] - step) <= errors[k]
            assert abs(found.log_masses[k] - found.log_masses[k + 1] - step) <= found.error_of_step


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("log_tail", [3.0, 40.0, 699.0])
def test_what_lies_beyond_is_less(variance, log_tail):
    reach = skellam_reach(variance, log_tail)
    with mpmath.workdps(40):
        beyond = sum(_mass(k, variance) for k in range(reach + 1, reach + 40))
        last, after = _mass(reach + 40, variance), _mass(reach + 41, variance)
        beyond += last / (1 - after / last)  # ratios fall
    assert beyond <= math.exp(-log_tail)
    assert reach <= 4 or skellam_reach(variance, log_tail * 0.5) < reach


def test_what_the_recurrence_begins_with_is_forgotten():
    """Ratios do not depend on how many are asked for, but for what is booked."""
    few, many = (_falls(50.0, number) for number in (10, 4000))
    assert np.all(np.abs(few[0] - many[0][:10]) <= few[1] + many[1][:10])
    assert few[1].max() < 1e-11
