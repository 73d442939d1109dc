"""Cells of the likelihood ratio of continuous pairs, from their distribution functions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import log_normal_tail


def normal_cell_masses(z: NDArray[Any]) -> NDArray[Any]:
    """Standard normal mass [N - 1] between neighbours of z [N], ascending.

    Each is the difference of two tails on the side of 0 where it lies; no tail is formed as 1 minus the other.
    """
    right = z[:-1] > 0
    upper = np.exp(log_normal_tail(np.where(right, z[:-1], -z[1:])))
    lower = np.exp(log_normal_tail(np.where(right, z[1:], -z[:-1])))
    return np.maximum(upper - lower, 0.0)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def gaussian_cells(
    mu: float, sampling_prob: float, first: float, step: float, *, size: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two float64 arrays [size], `low` and `high`: the mass under Q of R = 1 - q + q Y in each cell, split in two.

    Y = exp(mu z - mu^2/2), z standard normal under Q, mu = 1 over the noise multiplier: one Gaussian step under Poisson
    sampling with probability q = `sampling_prob`; q = 1 is the Gaussian pair itself. Cell k extends from
    exp((first + k) step) to exp((first + k + 1) step); the first also takes all mass left of it, the last all mass
    right of it. `low` and `high` go to a cell's left and right end, in the shares that keep its mean: see `from_cells`.
    """
    edges = (first + np.arange(1.0, size, dtype=np.float64)) * step
    y = (np.expm1(edges) + sampling_prob) / sampling_prob
    # q = 1: y is e^edge, and the subtraction would lose the small ones
    log_y = np.where(sampling_prob == 1.0, edges, np.log(np.where(y > 0, y, 1.0)))
    inner = np.where((y > 0) | (sampling_prob == 1.0), log_y / mu + 0.5 * mu, -np.inf)
    big = 60.0
    z = np.clip(np.concatenate([np.asarray([-big]), inner, np.asarray([big])]), -big, big)
    q = normal_cell_masses(z)
    p = (1.0 - sampling_prob) * q + sampling_prob * normal_cell_masses(z - mu)
    left = np.exp((first + np.arange(size, dtype=np.float64)) * step)
    high = (p / left - q) / np.expm1(step)
    high = np.clip(high, 0.0, q)
    return q - high, high
