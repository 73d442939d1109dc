"""Renyi divergences to delta and epsilon, against the formulas in 50 digits."""

import jax
import mpmath as mp
import numpy as np

from jaxacct.conversion import epsilon_from_rdp, log_delta_from_rdp


def test_never_below_the_formulas_at_orders_near_1() -> None:
    rng = np.random.default_rng(1)
    orders = 1.0 + 10.0 ** rng.uniform(-8.0, 1.0, 300)
    rdp, epsilon, log_delta = 0.005 * orders, np.array([0.02]), np.array([-12.0])
    with jax.enable_x64(True), mp.workdps(50):
        for a, divergence in zip(map(float, orders), map(float, rdp), strict=True):
            at: tuple = np.array([[a]]), np.array([[divergence]])
            order, r = mp.mpf(a), mp.mpf(divergence)
            truth = (order - 1) * (r - mp.mpf(0.02)) + order * mp.log(1 - 1 / order) - mp.log(order - 1)
            found = float(log_delta_from_rdp(*at, epsilon).value[0])
            assert min(truth, 0) <= found <= min(truth, 0) + 1e-6
            truth = r + mp.log(1 - 1 / order) - (-12 + mp.log(order)) / (order - 1)
            found = float(epsilon_from_rdp(*at, log_delta).value[0])
            assert truth <= found <= truth * (1 + mp.mpf(10) ** -12)
