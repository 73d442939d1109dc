"""The profile of one Poisson-sampled Gaussian step when one record replaces another, in closed form, on the host.

P = (1-q) N(0, 1) + q N(mu, 1) against its mirror image Q = (1-q) N(0, 1) + q N(-mu, 1), mu = 1/sigma: the pair of
`jaxacct.bounds._mirrored`. Its likelihood ratio grows with z. It equals e^eps, by a quadratic equation in e^(mu z),
where

    mu z = eps/2 + asinh(sinh(eps/2) / c),    c = q/(1-q) e^(-mu^2/2),

so that with T(z) = 1 - Phi(z)

    delta(eps) = q (T(z - mu) - e^eps T(z + mu)) - (1-q) (e^eps - 1) T(z).
"""

import math

import numpy as np

from jaxacct._types import Ends
from jaxacct.special import LEAST_NORMAL, ULP, log_normal_tail

_MOST_EPSILON = 600.0  # nats: e^eps is computed up to here; beyond, the ends are trivial
_MOST_LOG = 300.0  # log of asinh's argument: beyond it asinh is the logarithm of twice the argument


def replaced_step_delta(noise_multiplier: float, sampling_prob: float, epsilon: float) -> Ends[float]:
    """Two floats, the certified lower and upper end of delta at `epsilon` >= 0, for 0 < `sampling_prob` < 1.

    At any threshold the formula is no more than delta. The loss by a threshold that is d away is at most d times the
    largest gap between the densities, whose ratio is off by 2 mu d there. The other errors are those of the tails,
    within 32 (1 + z^2) ULP, of z, off by d, and of a few products.
    """
    mu, q = 1.0 / noise_multiplier, sampling_prob
    if not (epsilon <= _MOST_EPSILON and mu < 1e150):
        return Ends(0.0, 1.0)
    log_c = math.log(q) - math.log1p(-q) - 0.5 * mu * mu
    half = 0.5 * epsilon
    log_sinh = math.log(math.sinh(half)) - log_c if half > 0.0 else -math.inf
    place = half + (math.asinh(math.exp(log_sinh)) if log_sinh < _MOST_LOG else log_sinh + math.log(2.0))
    z = place / mu
    off = 2.0**-48 * (1.0 + abs(log_c) + mu * mu + place) / mu  # of z
    if not off * (1.0 + abs(z) + mu) < 1e-3:
        return Ends(0.0, 1.0)
    log_tails = log_normal_tail(np.array([z - mu, z + mu, z]))
    logs = log_tails + np.array([math.log(q), math.log(q) + epsilon, 0.0])
    logs[2] += math.log1p(-q) + (math.log(math.expm1(epsilon)) if epsilon > 0.0 else -math.inf)
    terms = np.exp(logs)
    # error of a logarithm: the tail's, half a dozen ULP of itself, and 4 of each that is added
    error = ULP * (32.0 * (1.0 + (abs(z) + mu) ** 2) + 16.0 + 8.0 * (np.abs(log_tails) + abs(math.log(q)) + epsilon))
    lost = float(terms @ np.expm1(error)) + 3.0 * LEAST_NORMAL
    gap = q * math.exp(-0.5 * (z - mu) ** 2) + (1.0 - q) * math.exp(-0.5 * z * z)  # the density of P, times 2.5
    lost += off * math.expm1(4.0 * mu * off) * gap
    value = float(terms[0] - terms[1] - terms[2])
    lost += 2.0**-50 * float(terms.sum())
    return Ends(max(0.0, value - lost), min(1.0, max(0.0, value) + lost))
