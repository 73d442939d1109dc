"""Quantiles of the normal distribution against mpmath: each within the error that comes with it."""

import math

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from jaxacct._precision import Kernel
from jaxacct.special import log_normal_tail, normal_upper_quantile

_QUANTILE = Kernel(lambda log_p, slack: normal_upper_quantile(log_p, slack))


def _truth(log_p: float, near: float) -> mp.mpf:
    """z with log P[N > z] = log_p, to 60 digits, by Newton's method from `near`."""
    z = mp.mpf(near)
    for _ in range(6):
        tail, density = mp.ncdf(-z), mp.npdf(z)
        z += (mp.log(tail) - mp.mpf(log_p)) * tail / density
    return z


def test_quantiles_are_within_their_error():
    rng = np.random.default_rng(11)
    points = -np.concatenate(
        [np.exp(rng.uniform(-40, math.log(2e4), 150)), math.log(2.0) * (1 + rng.normal(0, 1e-8, 20))]
    )
    found, errors = _QUANTILE(points, 0.0)
    with mp.workdps(60):
        for log_p, z, error in zip(points, found, errors, strict=True):
            assert abs(_truth(float(log_p), float(z)) - mp.mpf(float(z))) <= error, log_p
    assert np.all(errors <= 2e-14 * (1.0 + np.abs(found)))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_an_argument_that_is_off_is_covered(sign):
    points, slack = -np.exp(np.linspace(-12.0, 6.0, 60)), 1e-8
    found, errors = _QUANTILE(points, slack)
    with mp.workdps(40):
        for log_p, z, error in zip(points, found, errors, strict=True):
            moved = mp.mpf(float(log_p)) + sign * mp.mpf(slack)
            assert abs(_truth(moved, float(z)) - mp.mpf(float(z))) <= error, log_p
    assert np.all(np.isfinite(errors))


def test_nothing_is_said_where_there_is_no_quantile():
    _, errors = _QUANTILE(np.array([-np.inf, 0.0]), 0.0)
    assert not np.any(np.isfinite(errors))


def test_the_slope_that_the_error_divides_by():
    """1/Mills' ratio is at least max(z, 0.7) from -0.15 on."""
    z = np.linspace(-0.15, 30.0, 2000)
    tail = Kernel(lambda z: log_normal_tail(jnp.asarray(z)))(z)
    hazard = np.exp(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - tail)
    assert np.all(hazard >= np.maximum(z, 0.7))
