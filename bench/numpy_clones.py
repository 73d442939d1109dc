"""The shuffle model's clones pair without jaxacct: a plain SciPy version and a careful NumPy one. Peers, nothing else.

Both answer epsilon(delta) with both bounds from the sum over the counts of 1 + Bin(n - 1, e^-local_epsilon), in a
window that leaves out 1e-13 of the mass (booked above, dropped below).
"""

import math

import numpy as np

DEVIATIONS = 8.0


def _window(num_reports: int, p: float) -> tuple[int, int]:
    mean, spread = (num_reports - 1) * p, math.sqrt((num_reports - 1) * p * (1 - p))
    reach = DEVIATIONS * spread + DEVIATIONS**2
    return max(1, int(mean - reach)), min(num_reports, int(mean + reach) + 2)


def scipy_profile(num_reports: int, local_epsilon: float):
    """(delta of an epsilon, the mass left out); binomial distribution functions from scipy.stats."""
    from scipy.stats import binom

    p = math.exp(-local_epsilon)
    s = math.tanh(local_epsilon / 2)
    first, last = _window(num_reports, p)
    m = np.arange(first, last + 1)
    weights = binom.pmf(m - 1, num_reports - 1, p)
    missing = max(0.0, binom.cdf(first - 2, num_reports - 1, p)) + binom.sf(last - 1, num_reports - 1, p)

    def profile(epsilon: float) -> float:
        t = math.tanh(epsilon / 2)
        k = np.floor(0.5 * m * (1 + t / s)) + 1
        tail = binom.sf(k - 1, m, 0.5)
        excess = 0.5 * binom.pmf(k - 1, m - 1, 0.5)
        return float(np.dot(weights, np.maximum((1 + math.exp(epsilon)) * s * excess - math.expm1(epsilon) * tail, 0)))

    return profile, missing


def scipy_epsilon(num_reports: int, local_epsilon: float, delta: float) -> list[float]:
    """[lower, upper] by 50 halvings."""
    profile, missing = scipy_profile(num_reports, local_epsilon)
    ends = []
    for extra in (0.0, missing):
        low, high = 0.0, local_epsilon
        for _ in range(50):
            middle = 0.5 * (low + high)
            if profile(middle) + extra > delta:
                low = middle
            else:
                high = middle
        ends.append(high if extra else low)
    return ends


def numpy_epsilon(num_reports: int, local_epsilon: float, delta: float) -> list[float]:
    """[lower, upper] by secant steps on log delta from the Gaussian limit.

    Every probability follows from its neighbour by one ratio: the weights from their mode, the distribution functions
    along the boundary k(m) by a cumulative sum from the top of the window, where one tail is summed.
    """
    n, p = num_reports, math.exp(-local_epsilon)
    s = math.tanh(local_epsilon / 2)
    first, last = _window(n, p)
    m = np.arange(first, last + 1, dtype=np.float64)
    # log w_{m+1} - log w_m
    ratios = np.log((n - m[:-1]) / m[:-1]) + (math.log(p) - math.log1p(-p))
    log_weights = np.concatenate([[0.0], np.cumsum(ratios)])
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()

    def log_profile(epsilon: float) -> float:
        t = math.tanh(epsilon / 2)
        k = np.floor(0.5 * m * (1 + t / s)) + 1
        top, k_top = m[-1], k[-1]
        log_top = math.lgamma(top + 1) - math.lgamma(k_top + 1) - math.lgamma(top - k_top + 1) - top * math.log(2)
        # downwards: P[Bin(m-1) = k'] / P[Bin(m) = k], k' = k or k - 1
        down = k[:-1] < k[1:]
        steps = np.log(np.where(down, 2 * k[1:] / m[1:], 2 * (m[1:] - k[1:]) / m[1:]))
        log_pmf = log_top + np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
        excess = k / m * np.exp(log_pmf)
        i = np.arange(1, min(top - k_top, 12 * math.sqrt(top)) + 1)
        anchor = math.exp(log_top) * (1 + np.sum(np.cumprod((top - k_top - i + 1) / (k_top + i))))
        signed = np.where(down, excess[1:], -excess[1:])
        tail = anchor + np.concatenate([np.cumsum(signed[::-1])[::-1], [0.0]])
        terms = (1 + math.exp(epsilon)) * s * excess - math.expm1(epsilon) * tail
        return math.log(max(float(np.dot(weights, np.maximum(terms, 0))), 1e-300))

    target = math.log(delta)
    mu = 2 * s / math.sqrt(n * p)
    x0 = min(mu * math.sqrt(2 * max(math.log(mu / delta), 0.1)), 0.9 * local_epsilon)
    x1 = 0.95 * x0
    y0, y1 = log_profile(x0), log_profile(x1)
    for _ in range(20):
        if abs(y1 - target) < 1e-7 or y1 == y0:
            break
        x0, x1 = x1, min(max(x1 + (target - y1) * (x1 - x0) / (y1 - y0), 1e-9), 0.999999 * local_epsilon)
        y0, y1 = y1, log_profile(x1)
    # either end once more, a little outside, with the window's loss and the rounding booked
    slope = abs((y1 - y0) / (x1 - x0)) if x1 != x0 else 1.0
    margin = 3e-7 / slope
    lower, upper = x1 - margin, x1 + margin
    if math.exp(log_profile(upper)) * (1 + 1e-8) + 1e-13 * delta > delta:
        upper = local_epsilon
    if math.exp(log_profile(lower)) * (1 - 1e-8) < delta:
        lower = 0.0
    return [lower, upper]
