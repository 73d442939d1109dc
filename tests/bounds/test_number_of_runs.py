"""Laws of the number of runs, and what follows for selection, beside their definitions to high precision."""

import math

import mpmath
import numpy as np
import pytest
from support.numbers_of_runs import rate

from jaxacct._precision import Rounding, float64_kernel
from jaxacct.bounds._number_of_runs import NumberOfRuns, log_inverse_gamma

LAWS = [(m, s) for m in (1.0, 1.0001, 3.0, 1e4) for s in (-0.5, 0.0, 1e-300, 0.7, 1.0, 6.0, math.inf)]


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("mean", [1.5, 10.0, 1e4])
def test_the_law_of_a_mean(shape, mean):
    kernel = float64_kernel(rounding=Rounding.UP)(lambda runs: log_inverse_gamma(runs, shape))
    found, exact = float(kernel(np.array([mean]))[0]), float(rate(mean, shape))
    assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-9)
    gamma = mpmath.exp(-exact)
    if shape == 0:
        weights = [(1 - gamma) ** k / (k * mpmath.log(1 / gamma)) for k in range(1, 4)]
    else:
        weights, product = [], mpmath.mpf(1)
        for k in range(1, 4):
            product *= mpmath.mpf(k - 1 + shape) / k
            weights.append((1 - gamma) ** k / (gamma**-shape - 1) * product)
    assert all(0 < w < 1 for w in weights)  # a probability each: the definition is the one meant


def _exact(mean, shape):
    """f, f' and the log of gamma / (1 - gamma), by mpmath."""
    if math.isinf(shape):
        return lambda x: mpmath.exp(mean * (x - 1)), lambda x: mean * mpmath.exp(mean * (x - 1))
    shape = 0 if abs(shape) < 1e-100 else mpmath.mpf(shape)
    gamma = mpmath.exp(-rate(mean, shape))
    inside = lambda x: gamma + (1 - gamma) * (1 - x)  # noqa: E731
    if shape == 0:
        f = lambda x: mpmath.log(inside(x)) / mpmath.log(gamma)  # noqa: E731
    else:
        f = lambda x: (inside(x) ** -shape - 1) / (gamma**-shape - 1)  # noqa: E731
    return f, lambda x: mean * (gamma / inside(x)) ** (1 + shape)


@pytest.mark.parametrize(("mean", "shape"), [law for law in LAWS if law[0] > 1.0 or math.isinf(law[1])])
def test_beside_the_generating_function(mean, shape):
    law = NumberOfRuns(mean, 0.0 if abs(shape) < 1e-100 else shape)
    with mpmath.workdps(40):
        f, slope = _exact(mean, shape)
        for x in (1e-9, 1e-4, 0.03, 0.6, 1.0):
            x = mpmath.mpf(x)
            low, high = law.density(float(x))
            assert low <= slope(1 - x) <= high <= low * (1 + 1e-7) + 1e-290
            rest, exact = law.beyond(float(x)), f(1 - x) - f(0)
            assert exact * (1 - 1e-13) - 1e-13 <= rest <= exact * (1 + 1e-7) + 1e-13
            found, exact = law.at_least_one(float(x)), 1 - f(1 - x)
            assert exact * (1 - 1e-13) <= found <= exact * (1 + 1e-7)
            assert f(1) - f(1 - mpmath.mpf(law.share_of_one(float(0.9 * x)))) <= mpmath.mpf(float(0.9 * x))
            assert exact > 0.9 or law.share_of_one(found * (1 - 1e-9)) >= x * (1 - 1e-4)
            for epsilon, delta in ((0.0, 0.1), (0.3, 1e-3), (2.0, 0.0)):
                ranks = [x * mpmath.mpf(k) / 16 for k in range(17)]
                moved = [min(mpmath.exp(epsilon) * u + mpmath.mpf(delta), 1) for u in ranks]
                most = max(mpmath.log(slope(1 - u) / slope(1 - v)) for u, v in zip(ranks, moved, strict=True))
                found = law.log_ratio(float(x), epsilon, delta)
                assert most <= found * (1 + 1e-15)
                assert (
                    law.log_ratio(law.rank_below(found, epsilon, delta), epsilon, delta) <= found * (1 + 1e-6) + 1e-12
                )


def test_one_run():
    """Of a mean of 1 there is one run: nothing is hidden, and nothing is added."""
    for shape in (-0.5, 0.0, 1.0, 6.0):
        law = NumberOfRuns(1.0, shape)
        assert law.density(0.7) == pytest.approx((1.0, 1.0), rel=1e-9)
        assert law.log_ratio(1.0, 0.0, 0.5) <= 1e-10
        assert law.share_of_one(0.25) == pytest.approx(0.25, rel=1e-9)


@np.errstate(all="ignore")
def test_more_runs_than_doubles_tell():
    for shape in (-0.99, 0.0, 1.0, math.inf):
        law = NumberOfRuns(1e300, shape)
        assert law.log_ratio(0.5, 1.0, 0.1) >= law.log_ratio(0.5, 0.0, 0.0) >= 0.0  # at worst infinite
        assert 0.0 <= law.share_of_one(0.5) <= 1e-90
        assert 0.99 <= law.at_least_one(0.5) <= 1.0
        assert not np.isnan(law.density(0.5)).any()
