"""Plain NumPy: Renyi divergences of 1-out-of-t random allocation by the power of a power series."""

import math

import numpy as np


def log_sum_exp(terms: np.ndarray) -> float:
    """log(sum(exp(terms))), shifted by the largest."""
    top = terms.max()
    return top + np.log(np.sum(np.exp(terms - top)))


def log_product(a: np.ndarray, b: np.ndarray, reduce=log_sum_exp) -> np.ndarray:
    """log coefficients of the truncated product of two series: one log-sum-exp for each coefficient, in a loop."""
    return np.array([reduce(a[: n + 1] + b[n::-1]) for n in range(len(a))])


def allocation_rdp(noise_multiplier: float, num_steps: int, max_order: int, reduce=log_sum_exp) -> np.ndarray:
    """Renyi divergences of orders 2..A, remove direction, Gaussian noise.

    What a careful NumPy user would write for E_Q[X^a], X = (1/t) sum Y_i. The series sum_c E[Y^c]/c! x^c,
    log E[Y^c] = c(c-1)/(2 sigma^2), is raised to the power t by binary powering (15 truncated products for
    t = 1000) wholly in log space; every coefficient of every product is one log-sum-exp over a NumPy vector, in a
    Python loop. E[X^a] = a!/t^a [x^a] of the power, and R_a = log E[X^a]/(a-1), all orders to A at once.
    No rounding bound is added. `reduce` is the log-sum-exp: ours above (maximum, exp, sum, log) or SciPy's.
    """
    c = np.arange(max_order + 1)
    log_factorial = np.array([math.lgamma(n + 1.0) for n in c])
    square = c * (c - 1) / (2.0 * noise_multiplier**2) - log_factorial
    power, rest = None, num_steps
    while rest:
        if rest & 1:
            power = square if power is None else log_product(power, square, reduce)
        rest >>= 1
        if rest:
            square = log_product(square, square, reduce)
    log_moments = power + log_factorial - c * math.log(num_steps)
    return log_moments[2:] / (c[2:] - 1)
