"""The nodes of the clones pair's contour: their sum is compared with the same sum in exact arithmetic."""

import math

import mpmath as mp
import numpy as np
import pytest

from jaxacct.divergence.clones._pair import clones_pair
from jaxacct.divergence.clones._profile import clones_delta
from jaxacct.divergence.clones._smooth import _NUM_NODES, _rounding, smooth_error, smooth_sum


def _setting(seed):
    """epsilon, n, clone probability, local epsilon: from thousands of reports to 10^15, thresholds up to nearly 1."""
    rng = np.random.default_rng([48, seed])
    n = np.floor(np.exp(rng.uniform(np.log(2e3), np.log(1e15))))
    local = np.exp(rng.uniform(np.log(0.01), np.log(12.0)))
    p = min(0.999, np.exp(-local) * rng.choice([1.0, 0.3]))
    u = min(rng.uniform(0.0, 12.0) / np.sqrt(n * p), 0.98)
    return 2.0 * np.arctanh(u * np.tanh(local / 2.0)), n, p, local


def _midpoint_sum(eps, n, p, local, lam, step):
    """delta by the rule itself, from the definitions of the module, in sixty digits."""
    eps, n, p, local, lam, step = map(mp.mpf, (eps, n, p, local, lam, step))
    u = mp.tanh(eps / 2) / mp.tanh(local / 2)

    def term(z):
        return mp.exp(n * mp.log(1 - p + p * mp.exp(-u * z) * mp.cosh(z))) / z**2

    total = mp.fsum(mp.re(term(mp.mpc(lam, (k + mp.mpf(1) / 2) * step))) for k in range(_NUM_NODES))
    return (1 + mp.exp(eps)) * mp.tanh(local / 2) / (n * p) * step / mp.pi * total


def _compared(seed):
    """How far the computed sum is from the exact one, what is booked, their quotient; None where it does not apply."""
    setting = _setting(seed)
    with np.errstate(all="ignore"):
        pair = clones_pair(*(np.array([x]) for x in setting))
        smooth = smooth_sum(pair)
        booked = float(_rounding(pair, smooth)[0])
    if not smooth.applies[0] or not pair.possible[0] or not math.isfinite(booked):
        return None
    with mp.workdps(60):
        want = _midpoint_sum(*setting, smooth.saddle.lam[0], smooth.step[0])
        # the factors in front are booked where they are multiplied: here they are taken at their word
        units = (
            mp.exp(mp.mpf(float(pair.log_unit[0]))) * (1 + mp.exp(mp.mpf(setting[0]))) * mp.tanh(mp.mpf(setting[3]) / 2)
        )
        want /= units
        off = abs(mp.mpf(float(smooth.delta[0])) - want)
        return float(off / want), float(mp.mpf(booked) / want), float(off / mp.mpf(booked))


def test_nodes_err_by_no_more_than_is_booked():
    found = [pair for pair in map(_compared, range(150)) if pair is not None]
    assert len(found) >= 60
    for _, booked, share in found:
        assert share <= 1.0
        assert booked < 1e-11
    assert np.median([booked for _, booked, _ in found]) < 1e-12


@pytest.mark.parametrize("n", [1e12, 1e14, 1e15])
def test_large_shuffles_are_known_to_twelve_digits(n):
    local, p = 1.0, math.exp(-1.0)
    eps = 2.0 * np.arctanh(4.0 / math.sqrt(n * p) * math.tanh(0.5))
    setting = [np.array([x]) for x in (eps, n, p, local)]
    low, high = clones_delta(*setting, window=128).log_delta
    assert 0.0 <= high[0] - low[0] < 2e-12
    pair = clones_pair(*setting)
    smooth = smooth_sum(pair)
    assert smooth_error(pair, smooth)[0] >= _rounding(pair, smooth)[0] > 1e-14 * smooth.delta[0]
