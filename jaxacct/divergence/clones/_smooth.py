"""The hockey-stick divergence of the clones pair by one contour integral, with work that does not grow with n.

Weighting a count m by 1/m turns Bin(n - 1, p) into Bin(n, p). So with Z the sum of n independent variables, each
1 - u or -1 - u with probability p/2 and 0 with probability 1 - p,

    delta(eps) = (A + B) / (n p) E[Z_+],    E[Z_+] = (1 / 2 pi i) int phi(z)^n dz / z^2   over Re z = lam > 0,
    phi(z) = 1 - p + p e^{-u z} cosh z.

The integrand has one large peak, of width 1 / sd(Z), and smaller ones near Im z = pi j, j = +-1, +-2, .., which stem
from the lattice that supports Z. The first is summed, the others are bounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxacct._jax import jax
from jaxacct.divergence.clones._pair import ClonesPair
from jaxacct.special import ULP
from jaxacct.special._namespace import stop_gradient, xp

_NUM_NODES = 48  # of the midpoint rule on half of the first peak: fewer widen the bracket
_REACH = 9.6  # where the nodes end, in standard deviations of phi^n
_NUM_PEAKS = 2048  # peaks that are bounded one by one; all further ones are bounded together


class SmoothSum(NamedTuple):
    """The divergence and Q[loss > epsilon], each [L] in the pair's units, and data of the rule for `smooth_error`."""

    delta: jax.Array  # times e^(log_unit + log_scale)
    tail: jax.Array  # times e^log_unit
    saddle: Saddle
    step: jax.Array
    unit: jax.Array  # phi(lam)^n / (n p), over e^log_unit
    moduli: jax.Array  # [4, L]: sums over the nodes of the integrand's modulus, times heights to the powers 0 to 3
    applies: jax.Array  # whether the nodes cover the peak, and nothing overflowed


class Saddle(NamedTuple):
    """The contour's place lam, log phi(lam), and the law of one term of Z tilted by e^{lam Z}, each [L].

    The law is given by the weights of 0, 1 - u and -1 - u (`still`, `up`, `down`), its mean and its variance.
    """

    lam: jax.Array
    log_phi: jax.Array
    still: jax.Array
    up: jax.Array
    down: jax.Array
    mean: jax.Array
    variance: jax.Array


def _log_phi(pair: ClonesPair, lam: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(log phi(lam), cosh(lam) - 1, sinh(lam)), each [L], for lam > 0."""
    rise = xp.expm1(lam)
    half = 0.5 * rise / (1.0 + rise)
    cosh_less_one, sinh = rise * half, 0.5 * rise + half
    return (
        xp.log1p(pair.clone_prob * xp.expm1(xp.log1p(cosh_less_one) - pair.threshold * lam)),
        cosh_less_one,
        sinh,
    )


def _saddle(pair: ClonesPair) -> Saddle:
    """The contour's place [L] near the least lam^-2 phi(lam)^n, where Z's tilted mean would be 2 / lam.

    The moments of Z at atanh(u), where its tilted mean is 0, give lam accurately enough: any lam > 0 is certified.
    """
    n, p, u, gap = pair.num_reports, pair.clone_prob, pair.threshold, 2.0 * pair.half_gap
    centre = 0.5 * (xp.log1p(u) - xp.log(gap))
    spread = xp.maximum(n * pair.tilted_prob * gap * (1.0 + u), 0.25)  # of Z, at `centre`
    lam = 0.5 * (centre + xp.sqrt(centre * centre + 8.0 / spread))
    lam = stop_gradient(lam)  # the integral does not depend on it
    log_phi, cosh_less_one, sinh = _log_phi(pair, lam)
    half = 0.5 * p * xp.exp(-u * lam - log_phi)
    up, down = half * (1.0 + cosh_less_one + sinh), half / (1.0 + cosh_less_one + sinh)
    still = (1.0 - p) * xp.exp(-log_phi)
    # each way of computing the mean preserves the digits of the smaller jump
    mean = xp.where(u < 0.5, 2.0 * half * (sinh - u - u * cosh_less_one), up * gap - down * (1.0 + u))
    variance = still * (up * gap * gap + down * xp.square(1.0 + u)) + 4.0 * up * down
    return Saddle(lam, log_phi, still, up, down, mean, variance)


def smooth_sum(pair: ClonesPair) -> SmoothSum:
    """The divergence [L] by the midpoint rule over the first peak of the contour integral; see the module.

    It is close to the divergence where n p (1 - p) is large and u is not near 1; `smooth_error` bounds the distance.
    """
    n, p = pair.num_reports, pair.clone_prob
    at = _saddle(pair)
    end = _REACH / xp.sqrt(n * at.variance)
    # angles stay below 1, the end of the series of _deficits
    step = stop_gradient(xp.minimum(end, 0.5) / _NUM_NODES)
    y = (xp.arange(_NUM_NODES, dtype=xp.int32).astype(xp.float64)[:, None] + 0.5) * step
    jumps = xp.stack([2.0 * pair.half_gap, -(1.0 + pair.threshold)])[:, None]
    angles, weights = jumps * y, xp.stack([at.up, at.down])[:, None]
    one_less_cosine, angle_less_sine = _deficits(angles)
    # phi(lam + i y) / phi(lam) - 1, its imaginary part without the cancellation of its linear terms
    real = -xp.sum(weights * one_less_cosine, axis=0)
    imag = at.mean * y - xp.sum(weights * angle_less_sine, axis=0)
    log_unit = n * at.log_phi - pair.log_unit
    unit = xp.exp(xp.minimum(log_unit, 600.0)) / (n * p)
    size = xp.exp(0.5 * n * xp.log1p(2.0 * real + real * real + imag * imag))
    turn = n * xp.arctan2(imag, 1.0 + real)
    cosine, sine = size * xp.cos(turn), size * xp.sin(turn)
    norm = 1.0 / (at.lam * at.lam + y * y)
    total = xp.sum((cosine * (at.lam * at.lam - y * y) + 2.0 * at.lam * y * sine) * norm * norm, axis=0)
    # Q: with the differing report's weights, (1 -+ s) in place of 1, in the last factor, and 1/z
    weights = weights * xp.stack([pair.one_minus_contrast, 1.0 + pair.contrast])[:, None] / p
    last_real = xp.sum(weights * (1.0 - one_less_cosine), axis=0)
    last_imag = xp.sum(weights * (angles - angle_less_sine), axis=0)
    factor_real, factor_imag = at.lam * (1.0 + real) - y * imag, at.lam * imag + y * (1.0 + real)
    scale = norm / (xp.square(1.0 + real) + imag * imag)
    inverse_real, inverse_imag = factor_real * scale, -factor_imag * scale  # 1 / (z phi(z) / phi(lam))
    last_real, last_imag = (
        last_real * inverse_real - last_imag * inverse_imag,
        last_real * inverse_imag + last_imag * inverse_real,
    )
    tail = xp.sum(cosine * last_real - sine * last_imag, axis=0)
    modulus = size * norm
    return SmoothSum(
        delta=unit * (step / math.pi) * total,
        tail=unit * (n * p) * (step / math.pi) * tail,
        saddle=at,
        step=step,
        unit=unit,
        moduli=xp.stack([xp.sum(part, axis=0) for part in (modulus, modulus * y, modulus * y * y, modulus * y**3)]),
        applies=(end < 0.5) & (log_unit < 600.0),
    )


def smooth_error(pair: ClonesPair, smooth: SmoothSum) -> jax.Array:
    """Upper bounds [L] on the distance of `smooth.delta` from the divergence; +inf where the argument does not apply.

    They add up the following parts of |E[Z_+] - its midpoint sum| / phi(lam)^n:

    1. The rule's own error, by Poisson summation, with D = 2 pi / step:
       ``sum_j e^{-lam j D} E(Z + j D)_+ + e^{lam j D} E(Z - j D)_+``; the first <= e^{-lam j D} (j D + sd Z), since
       E Z <= 0; the second <= e^{-t j D} phi(lam + t)^n / (e (lam + t)) for any t > 0.
    2. The part beyond the nodes. With w0, w+, w- the weights of phi's terms at lam,
       |phi(lam + i y)/phi(lam)|^n <= e^{-n g}, ``g = w0 w+ (1 - cos (1 - u) y) + w0 w- (1 - cos (1 + u) y) + w+ w-
       (1 - cos 2 y)``. On pi (j - 1/2) <= y <= pi (j + 1/2), either one of the first two angles is more than 1 away
       from 2 pi Z and g > .4596 w0 min(w+, w-), or every 1 - cos a >= .354 a^2 and g >= .354 (V
       (y - y_j)^2 + K psi_j^2), psi_j the distance of pi (1 - u) j from 2 pi Z, V the variance, K = 4 w0 w+ w- / V. A
       sum over nodes of a function with one peak is at most its integral plus one peak value.
    3. The rounding error of the sum over the nodes: `_rounding`.
    """
    pair, smooth = stop_gradient((pair, smooth))
    n, p, u, at, step = pair.num_reports, pair.clone_prob, pair.threshold, smooth.saddle, smooth.step
    shift = 2.0 * math.pi / step
    ratio = xp.exp(-at.lam * shift)
    spread = xp.sqrt(n * p * (1.0 + u * u * (1.0 - p)))
    above = xp.exp(-at.lam * shift - n * at.log_phi) / (1.0 - ratio) * (shift / (1.0 - ratio) + spread)
    extra = 8.0 / xp.sqrt(n * at.variance)
    growth = n * (_log_phi(pair, at.lam + extra)[0] - at.log_phi)
    below = xp.exp(growth - extra * shift) / -xp.expm1(-extra * shift) / (at.lam + extra)

    end = _NUM_NODES * step
    floor = (math.pi + step) * xp.exp(-0.4596 * n * at.still * xp.minimum(at.up, at.down))
    rate = 0.354 * n * at.variance
    width = xp.sqrt(math.pi / rate) + step
    first = (xp.exp(-rate * end * end) / (2.0 * rate * end) + floor) / (end * end)
    decay = 0.354 * n * 4.0 * at.still * at.up * at.down / at.variance
    j = xp.arange(1, _NUM_PEAKS + 1, dtype=xp.int32).astype(xp.float64)[:, None]
    turns = pair.half_gap * j
    psi = 2.0 * math.pi * (turns - xp.round(turns))
    peaks = xp.sum((width * xp.exp(-decay * psi * psi) + floor) / xp.square(math.pi * (j - 0.5)), axis=0)
    # the peaks beyond the last: sum_{j > J} (j - 1/2)^-2 <= 1/J
    beyond = (width + floor) / (math.pi * math.pi * _NUM_PEAKS)
    # the bounds themselves err by far less than that: `_rounding` is finite only where exponents err by less than 2^-8
    missed = smooth.unit * (above + below + (first + peaks + beyond) / math.pi) * 1.01
    return xp.where(smooth.applies, missed + _rounding(pair, smooth), xp.inf)


def _rounding(pair: ClonesPair, smooth: SmoothSum) -> jax.Array:
    """Upper bounds [L] on the distance of `smooth.delta` from the midpoint sum in exact arithmetic, same lam and step.

    docs/numerics/clones.md, "The contour of the clones pair": the first-order error of the logarithm of a term at
    height y is at most e_0 + e_1 y + e_2 y^2 + e_3 y^3. +inf where it is 1/200 or more at the last node.
    """
    n, u, gap, at = pair.num_reports, pair.threshold, 2.0 * pair.half_gap, smooth.saddle
    lam, log_phi, weight = at.lam, xp.abs(at.log_phi), at.up + at.down
    log_sum = pair.log_scale - xp.log(pair.contrast)
    log_cosh = xp.log1p(_log_phi(pair, lam)[1])
    exponent = 23.0 * log_cosh + 13.0 * u * lam
    phi_error = 1.01 * ULP * (4.0 * log_phi + 6.0 * xp.abs(xp.expm1(-at.log_phi)) + weight * exponent)  # of log phi
    jump_error = ULP * (20.0 + 9.0 * log_sum)  # of either jump, relative
    weight_error = ULP * (27.0 + 14.0 * u * lam + 2.0 * log_phi) + phi_error  # of `up` and `down`, relative
    near = ULP * (15.0 * (at.up - at.down) + 32.0 * u * weight) + (weight_error + 2.0 * ULP) * xp.abs(at.mean)
    far = (weight_error + jump_error + 2.0 * ULP) * (at.up * gap + at.down * (1.0 + u))
    mean_error = xp.where(u < 0.5, near, far)
    second, third = (0.5 * (at.up * gap**i + at.down * (1.0 + u) ** i) for i in (2, 3))
    errors = xp.stack(
        [
            n * phi_error + ULP * (128.0 + n * log_phi + xp.abs(n * at.log_phi - pair.log_unit)),
            n * (2.0 * mean_error + 36.0 * ULP * xp.abs(at.mean)),
            n * second * (2.0 * weight_error + 4.0 * jump_error + 51.0 * ULP),
            n * (third / 3.0) * (2.0 * weight_error + 6.0 * jump_error + 56.0 * ULP),
        ]
    )
    end = _NUM_NODES * smooth.step
    largest = errors[0] + end * (errors[1] + end * (errors[2] + end * errors[3]))
    total = 1.01 * smooth.unit * (smooth.step / math.pi) * xp.sum(errors * smooth.moduli, axis=0)
    return xp.where(largest < 0.005, total, xp.inf)


def _deficits(angle: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(1 - cos(angle), angle - sin(angle)) for |angle| <= 1, of its shape, by power series: no digits cancel."""
    square = angle * angle
    cosine = sine = xp.ones_like(angle)
    for k in range(8, 1, -1):
        cosine = 1.0 - square / ((2 * k) * (2 * k - 1)) * cosine
        sine = 1.0 - square / ((2 * k) * (2 * k + 1)) * sine
    return 0.5 * square * cosine, angle * square / 6.0 * sine
