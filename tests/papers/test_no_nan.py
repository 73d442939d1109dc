"""Statements of papers at numbers whose exponentials, squares or complements are no doubles."""

import math

import numpy as np

from jaxacct.papers import check_ins, clones, girgis


def test_no_nan_at_the_ends_of_the_doubles():
    for local in (709.0, 709.5, 710.0, 1e4):
        assert np.all(girgis.theorem6_rdp(10, local, orders=[1.5, 3.0], sharp=True) == math.inf)
    for reverse in (False, True):
        tiny = girgis.response_rdp(10, 1e-200, orders=[2.0], reverse=reverse)
        assert 0.0 <= tiny.lower[0] <= 1e-300
        assert 0.0 < tiny.upper[0] <= 1e-200
    for epsilon in (0.0, 1.0, 800.0):
        assert clones.optimal_composition_delta(epsilon, 710.0, 0.0, num_steps=100) == 1.0
    assert clones.subsampled_guarantee(720.0, 0.1, 0.0) == (0.0, 0.0)
    for order, epsilon, delta in ((2.0, 700.0, 1e-6), (2.0, 60.0, 1e-300), (1.0001, 800.0, 0.5)):
        assert check_ins.least_rdp(order, epsilon, delta) >= 0.0
