"""Upper bounds on E X^-p, X the average of t likelihood ratios of a Gaussian step: the moments of the add direction.

    E X^-p = (1/Gamma(p)) int_0^inf c^{p-1} E e^{-cX} dc,   p > 0.

E e^{-cX} is convex in c, so that on a cell it lies below its chord: the integral of c^{p-1} times the chord has a
closed form. Let C be the last knot and x = (p + 1)/C. Where X >= x the integral beyond C is at most C^p E e^{-CX},
since the integrand decays like e^{-c/C} or faster there. Where X < x it is at most X^-p, and X is at least the
geometric mean of the ratios, which is lognormal; for one step it is X itself. This bound is looser than that of
`jaxacct.divergence.allocation._added_lanes`, and much cheaper.

Shapes: [R] rounds; [K] knots; [P] powers.
"""

import numpy as np

from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._log_gamma import log_gamma
from jaxacct.divergence.allocation._real import log_transform
from jaxacct.divergence.allocation._rule import WHOLE, num_nodes, rule
from jaxacct.special import ULP, log_normal_tail

# They affect speed and tightness only.
_NUM_KNOTS = 120
_FIRST = 0.05  # the first knot, over the least power or 1
_LAST = 9.0  # the last knot: its x is this many deviations from the mean of the logarithm of the geometric mean


def log_negative_moments(sigma: Real, steps: Real, powers: Real) -> Real:
    """Upper bounds on log E X^-p [R, P] at `powers` p > 0 [R, P], for rounds of `steps` [R] and noise `sigma` [R]."""
    of = rule(sigma, int(num_nodes(sigma, WHOLE).max()), WHOLE)
    t, tau, mean = steps[:, None], 1.0 / (sigma * np.sqrt(steps))[:, None], -0.5 / sigma[:, None] ** 2
    most = powers.max(1, keepdims=True)
    low = np.log(_FIRST * np.minimum(powers.min(1, keepdims=True), 1.0))
    high = np.maximum(np.log1p(most) - mean + most * tau**2 + _LAST * tau, np.log(most + 10.0 * np.sqrt(most) + 30.0))
    c = np.exp(low + (high - low) * np.linspace(0.0, 1.0, _NUM_KNOTS))
    log_c = np.log(c)
    logs = t * log_transform(of, c / t)
    logs = np.minimum(logs - c + 2.0**-50 * (64.0 + np.abs(logs) + c), 0.0)
    pieces = _cells(log_c, logs, powers)
    # from 0 to the first knot, where e^{-cX} is at most 1
    pieces.append(powers * log_c[:, :1] - np.log(powers))
    pieces.append(powers * log_c[:, -1:] + logs[:, -1:])
    factor, factor_error = (x.real for x in log_gamma(powers + 0j))
    z = (np.log1p(powers) - log_c[:, -1:] - mean) / tau + powers * tau
    whole = 0.5 * (powers * tau) ** 2 - powers * mean
    pieces.append(factor + log_normal_tail(-z) + 1e-9 + whole)
    found = np.minimum(np.logaddexp.reduce(np.stack(pieces), axis=0) - factor, whole)
    # the parts of each exponent err by some 8 ULP, and the sum by one for each knot
    size = powers * (np.abs(low) + np.abs(high) + np.abs(mean)) + np.abs(factor) + (powers * tau) ** 2 + z * z
    return np.maximum(found, 0.0) + factor_error + 2.0**-40 + 256.0 * ULP * size


def _cells(log_c: Real, logs: Real, powers: Real) -> list[Real]:
    """log of the integral of c^{p-1} times the chords of e^`logs` over all cells together, [R, P]."""
    p, width = powers[:, None, :], np.diff(log_c, axis=1)[:, :, None]
    first, second = logs[:, :-1, None], logs[:, 1:, None]
    # with x = c over the cell's end, r its least value and d = e^{second - first} <= 1 the chord is
    # 1 - (1 - d)(x - r)/(1 - r) at the height e^first
    r, drop = np.exp(-width), -np.expm1(np.minimum(second - first, 0.0))
    whole, mean = -np.expm1(-p * width) / p, -np.expm1(-(p + 1.0) * width) / (p + 1.0)
    value = whole - drop * (mean - r * whole) / (1.0 - r)
    # differences of numbers below `whole`, over 1 - r: some 50 ULP
    value = np.maximum(value, 0.0) + 2.0**-46 * whole / (1.0 - r)
    total = np.log(value) + first + p * log_c[:, 1:, None]
    return [np.logaddexp.reduce(total, axis=1)]
