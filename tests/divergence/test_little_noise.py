"""One epoch of random allocation at noise multipliers below 0.2, against quadrature at t = 2."""

import mpmath as mp
import numpy as np
import pytest

from jaxacct._types import Direction
from jaxacct.divergence.allocation._profile import AllocationProfile


def _call(strike, s):
    """E (Y/2 - strike)_+ of a lognormal Y = e^{s g - s^2/2}."""
    if strike <= 0:
        return mp.mpf(1) / 2 - strike
    d = (-mp.log(2 * strike) + s * s / 2) / s
    return (mp.ncdf(d) - 2 * strike * mp.ncdf(d - s)) / 2


def _put(strike, s):
    return _call(strike, s) - (mp.mpf(1) / 2 - strike) if strike > 0 else mp.mpf(0)


def _truth(sigma, epsilon, direction):
    with mp.workdps(30):
        s, removes = 1 / mp.mpf(sigma), direction is Direction.REMOVE
        strike = mp.exp(epsilon if removes else -epsilon)
        part = _call if removes else _put
        kink = float((mp.log(2 * strike) + s * s / 2) / s)
        near = [kink + x for x in (-3.0, -1.0, -0.3, 0.0, 0.1, 1.0, 3.0)]
        ends = [-25.0, -16.0, -10.0, *near, float(s) + 6.0, float(s) + 14.0]
        places = sorted(x for x in ends if removes or x <= kink)
        found = mp.quad(lambda g: mp.npdf(g) * part(strike - mp.exp(s * g - s * s / 2) / 2, s), places)
        return found if removes else mp.exp(epsilon) * found


@pytest.mark.sample(2)
@pytest.mark.parametrize("sigma", [0.15, 0.12, 0.1])
@pytest.mark.parametrize("direction", list(Direction))
def test_delta_holds_the_quadrature(sigma, direction):
    for share in (0.6, 0.9, 1.2):
        epsilon = share / sigma**2
        found = AllocationProfile(sigma, 2.0, direction).delta(np.array([epsilon]))
        truth = _truth(sigma, epsilon, direction)
        assert float(found.lower[0]) <= truth * (1 + mp.mpf("1e-12"))
        assert truth * (1 - mp.mpf("1e-12")) <= float(found.upper[0])


@pytest.mark.parametrize(("sigma", "steps", "epsilon"), [(0.147, 5777.0, 61.03), (0.0827, 6274.0, 148.07)])
def test_delta_of_1e_12_is_known_to_a_thousandth(sigma, steps, epsilon):
    """Loss distributions left 40 % and more open."""
    found = AllocationProfile(sigma, steps, Direction.REMOVE).delta(np.array([epsilon]))
    assert 1e-12 < found.lower[0] <= found.upper[0] <= 1.001 * found.lower[0]


@pytest.mark.more
@pytest.mark.parametrize("direction", list(Direction))
def test_the_least_noise_is_answered_or_left_open(direction):
    for sigma in (0.08, 0.0801, 0.079, 0.05):
        for steps in (1.0, 7.0, 1e6):
            found = AllocationProfile(sigma, steps, direction).epsilon(1e-6)
            assert 0 <= found.lower <= found.upper
