"""Balls in bins with correlated noise: examples, their Gram matrices, and what they lose by other means."""

import math

import numpy as np
from scipy.special import ndtr

import jaxacct as ja

REMOVE = ja.Direction.REMOVE


def toeplitz(coefficients, size):
    """Lower triangular."""
    matrix = np.zeros((size, size))
    for i, c in enumerate(coefficients[:size]):
        matrix += c * np.eye(size, k=-i)
    return matrix


def gram(run):
    """The inner products of the means, from their definition, without rounding to a side."""
    t, n = int(run.num_batches), run.length
    matrix = np.array(run.strategy) if isinstance(run.strategy[0], tuple) else toeplitz(run.strategy, n)
    means = np.array([np.abs(matrix)[:, b::t].sum(axis=1) for b in range(t)])
    return means @ means.T


def normalised(coefficients):
    return tuple((np.array(coefficients) / np.linalg.norm(coefficients)).tolist())


def inverse_root(bands):
    """Coefficients of (1 - x)^(-1/2)."""
    found = np.cumprod(np.concatenate([[1.0], 1.0 - 0.5 / np.arange(1, bands)]))
    return normalised(found)


def samples(covariance, epsilons, direction, number, seed=0):
    """(mean, standard error) of what delta is the expectation of, for each epsilon."""
    rng, t = np.random.default_rng(seed), len(covariance)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    total = squares = np.zeros(len(epsilons))
    for _ in range(number // 20_000):
        logs = rng.normal(size=(20_000, t)) @ root.T - 0.5 * np.diag(covariance)
        if direction is REMOVE:
            logs += covariance[rng.integers(0, t, 20_000)]
        top = logs.max(axis=1)
        loss = top + np.log(np.mean(np.exp(logs - top[:, None]), axis=1))
        loss = loss if direction is REMOVE else -loss
        lost = -np.expm1(np.minimum(np.array(epsilons)[:, None] - loss, 0.0))
        total, squares = total + lost.sum(axis=1), squares + np.square(lost).sum(axis=1)
    mean = total / number
    return list(zip(mean, np.sqrt(np.maximum(squares / number - mean**2, 0.0) / number), strict=True))


def quadrature(covariance, epsilon, direction, points=121):
    """delta of up to four bins: the trapezoidal rule in all coordinates but the last, which is in closed form."""
    t = len(covariance)
    root, own = np.linalg.cholesky(covariance), np.diag(covariance)
    nodes = np.linspace(-8.0, 8.0, points)
    z = np.stack(np.meshgrid(*[nodes] * (t - 1), indexing="ij")).reshape(t - 1, -1)
    weights = np.exp(-0.5 * np.sum(z**2, axis=0)) * ((nodes[1] - nodes[0]) / math.sqrt(2.0 * math.pi)) ** (t - 1)
    first = np.exp(root[:-1, :-1] @ z - 0.5 * own[:-1, None]).sum(axis=0) / t
    spread, mean = root[-1, -1], root[-1, :-1] @ z - 0.5 * own[-1]
    sign, limit = (1.0, math.exp(epsilon)) if direction is REMOVE else (-1.0, math.exp(-epsilon))
    strike = t * (limit - first)
    forward = np.exp(mean + 0.5 * spread**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        d1 = (mean + spread**2 - np.log(strike)) / spread
        option = sign * (forward * ndtr(sign * d1) - strike * ndtr(sign * (d1 - spread))) / t
    option = np.where(strike > 0.0, option, np.maximum(sign * (forward - strike), 0.0) / t)
    return float(weights @ option) * (1.0 if direction is REMOVE else math.exp(epsilon))


SMALL = {
    "two bands": ja.BallsInBins(normalised((1.0, 0.5)), 1.5, 4, 2),
    "three bins": ja.BallsInBins((1.0, 0.3, 0.2), 1.2, 3, 2),
    "two bins, cut": ja.BallsInBins((1.0, 0.8), 1.1, 2, 3, 5),
    "dense": ja.BallsInBins(toeplitz(inverse_root(8), 8), 1.6, 4, 2),
}


# run, epsilon, delta by known bins and by groups: measured apart, with another program
TABLE = {
    "T1": (SMALL["two bands"], 1.0, 0.1073, 0.04262),
    "T3": (ja.BallsInBins(normalised((1.0, 0.5, 0.25, 0.125)), 2.2, 100, 10), 2.0, 0.1218, 6.48e-4),
    "T4": (ja.BallsInBins(inverse_root(8), 4.0, 100, 20), 2.0, 0.0396, 1.02e-4),
    "T5": (ja.BallsInBins(inverse_root(16), 1.9, 1000, 10), 2.0, 0.2008, 9.86e-4),
    "T6": (ja.BallsInBins(normalised((1.0,) * 4), 2.5, 100, 10), 2.0, 0.0722, 9.15e-5),
}
