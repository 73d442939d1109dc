"""Renyi divergences of shuffles and the profile of check-ins, in plain NumPy and SciPy. Peers, nothing else."""

import math

import numpy as np
from numpy_clones import scipy_profile

_DEVIATIONS = 12.0  # of the counts; orders to 60 lean on outcomes a few deviations out


def clones_rdp(num_reports: int, local_epsilon: float, top: int) -> np.ndarray:
    """Renyi divergences of orders 2..top of the clones pair: every pair of counts within 12 deviations, no bound added.

    m of n reports are clones of the two neighbours, a of them of the first; with e = e^-local_epsilon, q the mean law,
    E (P/Q)^A = sum q 2 (b + e a)/((1 + e) m) ((a + e b)/(b + e a))^A,   b = m - a.
    """
    from scipy.stats import binom

    e = math.exp(-local_epsilon)
    mean, spread = (num_reports - 1) * e, math.sqrt((num_reports - 1) * e * (1 - e))
    m = np.arange(max(1, int(mean - _DEVIATIONS * spread)), min(num_reports, int(mean + _DEVIATIONS * spread) + 2))[
        :, None
    ]
    reach = int(_DEVIATIONS * math.sqrt(m[-1, 0]) / 2) + 1
    a = m // 2 + np.arange(-reach, reach + 1)[None]
    inside = (a >= 0) & (a <= m)
    a = np.clip(a, 0, m)
    b = m - a
    law = np.where(inside, binom.pmf(m - 1, num_reports - 1, e) * binom.pmf(a, m, 0.5), 0.0)
    law *= 2 * (b + e * a) / ((1 + e) * m)
    loss = np.log((a + e * b) / (b + e * a))
    return np.array([math.log(np.sum(law * np.exp(order * loss))) / (order - 1) for order in range(2, top + 1)])


def girgis_rdp(num_reports: int, local_epsilon: float, top: int) -> np.ndarray:
    """Girgis et al. 2021, Theorem 1, equation (6), orders 2..top: the printed sum, term by term."""
    mean = (num_reports - 1) * math.exp(-local_epsilon)
    clients = math.floor(0.5 * mean) + 1
    values = []
    for order in range(2, top + 1):
        total = 1 + math.comb(order, 2) * 4 * math.sinh(local_epsilon / 2) ** 2 / clients
        for i in range(3, order + 1):
            power = (2 * math.sinh(local_epsilon) ** 2 / clients) ** (i / 2)
            total += math.comb(order, i) * i * math.gamma(i / 2) * power
        total += math.exp(order * local_epsilon - mean / 8)
        values.append(math.log(total) / (order - 1))
    return np.array(values)


def check_in_epsilon(num_users: int, prob: float, local_epsilon: float, delta: float) -> float:
    """An upper bound by 30 halvings of sum_k w_k (k/n) D_k(log(1 + (n/k)(e^eps - 1))), k within 8 deviations.

    D_k is the profile of k shuffled reports, by the clones pair.
    """
    from scipy.stats import binom

    mean, spread = num_users * prob, math.sqrt(num_users * prob * (1 - prob))
    counts = np.arange(max(1, int(mean - 8 * spread)), min(num_users, int(mean + 8 * spread)) + 1)
    weights = binom.pmf(counts, num_users, prob)
    missing = binom.cdf(counts[0] - 1, num_users, prob) + binom.sf(counts[-1], num_users, prob)
    profiles = [scipy_profile(int(k), local_epsilon) for k in counts]
    low, high = 0.0, local_epsilon
    for _ in range(30):
        middle = 0.5 * (low + high)
        total = missing
        for k, weight, (profile, lost) in zip(counts, weights, profiles, strict=True):
            inner = math.log1p(num_users / k * math.expm1(middle))
            total += weight * k / num_users * ((profile(inner) if inner < local_epsilon else 0.0) + lost)
        low, high = (middle, high) if total > delta else (low, middle)
    return high
