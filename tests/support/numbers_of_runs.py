"""The laws of the number of runs of a selection, by their definition."""

import itertools
import math

import mpmath
import numpy as np


def rate(mean, shape):
    """log(1/gamma), by the definition of the law: its mean summed to high precision."""
    with mpmath.workdps(30):

        def mean_at(u):
            gamma = mpmath.exp(-u)
            if shape == 0:
                return (1 / gamma - 1) / u
            return shape * (1 - gamma) / (gamma * (1 - gamma**shape))

        return mpmath.findroot(
            lambda u: mpmath.log(mean_at(u)) - mpmath.log(mean), (1e-6, 2 * math.log(mean) + 5), solver="anderson"
        )


def generating(shape, mean):
    """E[x^K]."""
    if math.isinf(shape):
        return lambda x: np.exp(mean * (x - 1))
    gamma = float(mpmath.exp(-rate(mean, shape)))
    if shape == 0:
        return lambda x: np.log1p(-(1 - gamma) * x) / math.log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)


def of_all_orders(p, q, law):
    """[order, output] of either law of the best output, for all orders of the outputs."""
    orders = np.array(list(itertools.permutations(range(len(p)))))
    return [np.diff(law(np.cumsum(np.pad(x[orders], ((0, 0), (1, 0))), axis=1).clip(0.0, 1.0))) for x in (p, q)]
