"""Renyi divergences to delta and epsilon, against the formulas in 50 digits."""

import jax
import mpmath as mp
import numpy as np

from jaxacct.conversion import epsilon_from_rdp, log_delta_from_rdp


def test_never_below_the_formulas_and_next_to_them_at_any_order() -> None:
    rng = np.random.default_rng(1)
    orders = 1.0 + 10.0 ** rng.uniform(-12.0, 3.0, 300)
    rdp, epsilon = 0.005 * orders, np.array([0.02])
    log_delta = -(10.0 ** rng.uniform(-4.0, 1.5, 300))
    with jax.enable_x64(True), mp.workdps(50):
        for a, divergence, target in zip(*(map(float, x) for x in (orders, rdp, log_delta)), strict=True):
            at: tuple = np.array([[a]]), np.array([[divergence]])
            order, r = mp.mpf(a), mp.mpf(divergence)
            size = (order - 1) * (r + mp.mpf(0.02)) + 1 + mp.log(order)
            truth = (order - 1) * (r - mp.mpf(0.02)) + order * mp.log(1 - 1 / order) - mp.log(order - 1)
            found = float(log_delta_from_rdp(*at, epsilon).value[0])
            assert min(truth, 0) <= found <= min(truth, 0) + 1e-14 * size
            tail = (mp.mpf(target) + mp.log(order)) / (order - 1)
            truth = r + mp.log(1 - 1 / order) - tail
            size = r - mp.log(1 - 1 / order) + (mp.log(order) - mp.mpf(target)) / (order - 1)
            found = float(epsilon_from_rdp(*at, np.array([target])).value[0])
            assert max(truth, 0) <= found <= max(truth, 0) + 1e-14 * size
