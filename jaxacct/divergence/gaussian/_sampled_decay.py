"""How fast the complex moments of a Poisson-sampled Gaussian step fall with height, bounded on turned contours."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import ULP

Real = NDArray[Any]

_STEP = 0.05  # of the rule, in units of min(1, sigma)
_LOW = 9.5  # standard deviations to which the window reaches on the left; what lies beyond is added
_LARGEST = 600.0  # logarithm of the ratio at the window's end: beyond, nothing is claimed
_ANGLES = np.geomspace(1e-3, 0.9 * math.pi, 24)  # by which contours are turned; any is valid, the least bound is kept


def _tail(x: float) -> float:
    """P[g > x], g standard normal, rounded up."""
    return 0.5 * math.erfc(x / math.sqrt(2.0)) * (1.0 + 2.0**-40 * (1.0 + x * x))


def sampled_gaussian_decay(noise_multiplier: float, sampling_prob: float, exponents: Real, height: float) -> Real:
    """Upper bounds [E] on log |E R^v / E R^c|, v = c + ib, for all b >= `height` and each real c of `exponents` [E].

    R = 1 - q + q Y is one Poisson-sampled step's ratio. On the contour g + i eta sigma it is x = 1 - q + q Y e^{i eta},
    whose argument A(eta) lies in [0, eta], so that |E R^v| <= e^{(eta sigma)^2/2} E |x|^c e^{-b A}, which decreases in
    b; the least over several eta in (0, pi). Both means are sums by the trapezoid rule of step h:

    * the rule: F = |x|^c e^{-b A(eta)} continues to g + id, d = theta sigma, with the modulus
      (|x(eta+theta)| |x(eta-theta)|)^{c/2} e^{-b (A(eta+theta) + A(eta-theta))/2}, at most S R^c, S = 1 for c >= 0,
      else (cos((eta+theta)/2) cos((eta-theta)/2))^{c/2}, since R >= |x| >= R cos(angle/2). A is odd; with
      tan A(t) = r sin t / (1 + r cos t), sin(eta+theta) >= sin(theta-eta) and cos(eta+theta) <= cos(theta-eta) for
      theta <= pi/2, its sum is not negative while theta <= pi - eta, so that the last factor is at most 1. The rule
      errs by 2 S e^{d^2/2} / (e^{2 pi d/h} - 1) of E R^c; for E R^c itself, eta = 0.
    * the window: left of it Y <= 1 and |x|^c <= 1, or m^c for c < 0, with m = 1 - q times sin eta beyond pi/2 the least
      modulus. Right of it |x|^c <= R^c <= 1 + q Y^max(c, 1) (convexity), or m^c.
    * rounding: exponents err by 2^-50 of the sizes that they are made of, x by 2^-50 over cos(eta/2) of itself, sums of
      n positive terms by n ULP.
    """
    sigma, s, q, c = noise_multiplier, 1.0 / noise_multiplier, sampling_prob, exponents
    most = float(c.max())
    top = max(most, 1.0) * s if most > 0.0 else 0.0
    high = top + math.sqrt(84.0 + top * top)
    if not (0.0 < q < 1.0 and s * high - 0.5 * s * s < _LARGEST):
        return np.zeros(len(c))
    h = _STEP * min(1.0, sigma)
    g = np.arange(-_LOW, high, h)
    y = np.exp(s * g - 0.5 * s * s)
    end, log_end = float(g[-1]), float(np.log(max(_tail(float(g[-1])), 1e-300)))
    power = np.maximum(c, 1.0)
    far = np.log([max(_tail(end - p * s), 1e-300) for p in power])
    far = np.logaddexp(log_end, math.log(q) + 0.5 * power * (power - 1.0) * s * s + far)

    def log_mean(modulus: Real, rest: Any) -> Real:
        exponent = c[:, None] * np.log(modulus) - 0.5 * g * g + rest
        peak = exponent.max(1)
        return peak + np.log(np.exp(exponent - peak[:, None]).sum(1) * (h / math.sqrt(2.0 * math.pi)))

    def rule_error(eta: float) -> Real:
        """Logs of what the rule errs by on the contour of eta, over E R^c."""
        theta = min(1.0 / sigma, 0.5 * (math.pi - eta), 1.0)
        d = theta * sigma
        away = math.cos(0.5 * (eta + theta)) * math.cos(0.5 * (eta - theta))
        decay = 2.0 * math.pi * d / h
        edges = math.log(2.0) + 0.5 * d * d - decay - math.log(-math.expm1(-decay))
        return edges + 0.5 * np.minimum(c, 0.0) * math.log(away)

    def outside(eta: float) -> Real:
        """Logs of what the window leaves out on the contour of eta."""
        least = math.log(1.0 - q) + (math.log(math.sin(eta)) if eta > 0.5 * math.pi else 0.0)
        left = np.minimum(c, 0.0) * least + math.log(_tail(_LOW))
        return np.logaddexp(left, np.where(c < 0, c * least + log_end, far))

    def rounding(eta: float) -> Real:
        sizes = np.abs(c) * (abs(s * high) + s * s + _LOW * s - math.log1p(-q) + 1.0 / math.cos(0.5 * eta))
        return 2.0**-50 * (64.0 + sizes + high * high + height * math.pi) + ULP * len(g)

    with np.errstate(under="ignore", over="ignore"):
        # what the window leaves out only makes it larger; the sum is at most 1 + e^rule of the mean
        base = log_mean(1.0 - q + q * y, 0.0) - rounding(0.0) - np.logaddexp(0.0, rule_error(0.0))
        best = np.zeros(len(c))
        for eta in _ANGLES.tolist():
            x = 1.0 - q + q * y * complex(math.cos(eta), math.sin(eta))
            turned = np.logaddexp(log_mean(np.abs(x), -height * np.angle(x)) + rounding(eta), outside(eta))
            best = np.fmin(best, np.logaddexp(turned - base, rule_error(eta)) + 0.5 * (eta * sigma) ** 2)
    return best
