"""The blanket of one coordinate in [-1, 1] with symmetric, log-concave noise, spread out in the convex order.

docs/papers/blanket.md, BL-3: the worst pair is 1 and -1, and all data have f(|w| + 1) in common, f the noise's density.
Where w > 0, the density for the datum 1 is R = f(w - 1) / f(w + 1) times f(|w| + 1), and that for -1 equals it; where
w < 0, it is the other way round. So one report's L is R - c on the one side and 1 - c R on the other, c = e^epsilon,
each under f(|w| + 1) dw. Both are linear in R, which is split between the ends of cells of w with its mean kept, once
for all epsilons.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.batches._blanket import FARTHEST, MASS_ERROR, MOST_LOSS, quantile
from jaxacct.divergence.batches._one_step import StepLaw
from jaxacct.special import ULP, gauss_legendre, log_normal_tail

# These affect tightness only.
_WIDTH = 0.02  # of a cell, in standard deviations of the noise
_LAPLACE_WIDTH, _LEAST_CELLS = 0.01, 64  # of a cell, in scales of the noise, and the least number of cells
_NODES = 12  # of Gauss's rule in a cell
MOST_LAPLACE = 30.0  # 1 / scale from which on Laplace reports have hardly anything in common


class AntipodalLaw(NamedTuple):
    """Atoms of log R on either side.

    Attributes:
      log_ratio: [N], >= 0.
      mass: [N], of one side, each rounded up.
      least_mass: of both sides together, rounded down: gamma.
      cut: an upper bound on the part left out of E (L)_+, a probability.
    """

    log_ratio: NDArray[np.float64]
    mass: NDArray[np.float64]
    least_mass: float
    cut: float

    def at(self, epsilon: float) -> StepLaw:
        """The law of L at `epsilon` >= 0, its values rounded up."""
        ratio, gain = np.exp(self.log_ratio), math.exp(epsilon)
        value = np.concatenate([np.expm1(self.log_ratio) - math.expm1(epsilon), -np.expm1(self.log_ratio + epsilon)])
        size = np.concatenate([ratio + gain, ratio * gain])
        exponent = np.concatenate([self.log_ratio, self.log_ratio]) + epsilon
        return StepLaw(
            value + ULP * (16.0 + 8.0 * exponent) * size,
            np.concatenate([self.mass, self.mass]),
            self.least_mass,
            self.cut,
        )


@functools.lru_cache(maxsize=16)
def gaussian_law(a: float, cut: float) -> AntipodalLaw | None:
    """NamedTuple: the law of Gaussian reports; None where the noise or `cut` is too small to be certified.

    In standard deviations of the noise, data are in [-a, a], and R = e^(2 a w).

    Args:
      a: 1 / noise multiplier.
      cut: about how much may be left out of E (L)_+, a probability.
    """
    reach = quantile(cut) + a
    if not (a <= MOST_LOSS and reach + a <= FARTHEST - _WIDTH):
        return None
    cells = math.ceil(reach / _WIDTH)

    def density(w: Any) -> Any:
        return np.exp(-0.5 * np.square(w + a)) / math.sqrt(2.0 * math.pi)

    mass = _masses(density, 2.0 * a, _WIDTH, cells)
    far = np.exp(log_normal_tail(np.array([_WIDTH * cells - a])))[0] * (1.0 + 2.0**-36)  # the integral of R
    return _law(2.0 * a * _WIDTH * np.arange(cells + 1), mass, float(far))


@functools.lru_cache(maxsize=16)
def laplace_law(rate: float) -> AntipodalLaw | None:
    """NamedTuple: the law of Laplace reports; None where `rate` is too large.

    In scales of the noise, data are in [-rate, rate], and R = e^(2 min(w, rate)): nothing is left out.

    Args:
      rate: 1 / scale.
    """
    if not rate <= MOST_LAPLACE:
        return None
    cells = max(math.ceil(rate / _LAPLACE_WIDTH), _LEAST_CELLS)
    width = rate / cells
    mass = _masses(lambda w: 0.5 * np.exp(-w - rate), 2.0, width, cells)
    mass[-1] += 0.5 * math.exp(-2.0 * rate) * (1.0 + 2.0**-44)
    return _law(2.0 * width * np.arange(cells + 1), mass, 0.0)


def _law(log_ratio: Any, mass: Any, cut: float) -> AntipodalLaw:
    mass = mass * (1.0 + MASS_ERROR)
    return AntipodalLaw(log_ratio, mass, 2.0 * float(mass.sum()) * (1.0 - 3.0 * MASS_ERROR), cut)


def _masses(density: Callable[[Any], Any], rate: float, width: float, cells: int) -> Any:
    """Masses [cells + 1] at the ends of cells from 0 on: e^(rate w), with w of this density, split with its mean kept.

    They are computed by Gauss's rule, with positive terms only.
    """
    nodes, weights = gauss_legendre(_NODES)
    into = width * 0.5 * (nodes + 1.0)
    shares = density(width * np.arange(cells)[:, None] + into) * (weights * (0.5 * width))
    far = shares * (np.expm1(rate * into) / math.expm1(rate * width))
    near = shares * (np.exp(rate * into) * np.expm1(rate * (width - into)) / math.expm1(rate * width))
    return np.append(near.sum(1), 0.0) + np.append(0.0, far.sum(1))
