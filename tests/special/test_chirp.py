"""Sums of turned terms by transforms, against sums of 40 digits."""

import math

import numpy as np
import pytest
from mpmath import mp

from jaxacct.special import ULP, turned_sums


def _truth(terms, angle, k, origin):
    with mp.workdps(40):
        return mp.fsum(mp.mpc(x) * mp.expj(-k * (n - origin) * mp.mpf(angle)) for n, x in enumerate(terms))


@pytest.mark.parametrize(
    ("num", "count", "angle", "origin"),
    [(1, 1, 0.0, 0), (7, 1, 0.3, 2), (1, 9, 2.5, 0), (40, 33, 1e-3, 39), (65, 64, 0.9, 30), (300, 900, 5.6e-4, 120)],
)
def test_sums_within_their_errors(num, count, angle, origin):
    draws = np.random.default_rng(num)
    terms = np.exp(-0.5 * ((np.arange(num) - origin) / (1.0 + num / 9.0)) ** 2) * (1.0 + 0.3j * draws.normal(size=num))
    sums, errors = turned_sums(terms, angle, count, origin)
    assert sums.shape == errors.shape == (count,)
    for k in {0, count // 3, count - 1}:
        assert abs(sums[k] - _truth(terms, angle, k, origin)) <= errors[k]
    # some units for each term, as sums in any order would have, and what the angle itself is rounded by
    assert errors[0] <= 40.0 * (64.0 + num) * ULP * np.abs(terms).sum()
    turns = angle * float((np.abs(terms) * np.abs(np.arange(num) - origin)).sum())
    assert np.all(errors <= errors[0] + (8.0 * ULP * turns + 2.0**-60 * num * np.abs(terms).sum()) * np.arange(count))


def test_the_angle_is_rounded():
    """One term, far from the origin, shows by how much."""
    num, count, away = 3000, 3000, 0
    terms = np.zeros(num, complex)
    terms[-1] = 1.0
    for angle in (0.7, 1.1, 2.3):
        sums, errors = turned_sums(terms, angle, count, 0)
        truth = _truth([1.0], angle, count - 1, 1 - num)
        away = max(away, float(abs(sums[-1] - truth)))
        assert abs(sums[-1] - truth) <= errors[-1]
    assert away > 2.0 * errors[0]


@pytest.mark.parametrize(("num", "count"), [(2, 3), (500, 100), (1000, 5000)])
def test_transforms_err_by_units_of_their_norms(num, count):
    """Higham's bound for both factors and the transform back, whatever the terms; computed errors are far less."""
    terms = np.random.default_rng(count).normal(size=num) + 0j
    _, errors = turned_sums(terms, 0.1, count, 0)
    eta = 8.0 * ULP * math.log2(num + count - 1)
    norm = math.sqrt(float(np.square(np.abs(terms)).sum()) * (num + count - 1))
    # what is transformed back has at least the norm of the sums
    sums = math.sqrt(float(np.square(np.abs(turned_sums(terms, 0.1, count, 0)[0])).sum()))
    assert errors[0] >= 2.0 * eta * norm + eta * sums + 64.0 * ULP * np.abs(terms).sum()
