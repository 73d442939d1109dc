"""Complex moments of the sampled Gaussian pair on a line, with certified errors.

R = 1 - q + q Y, Y = exp(z/sigma - 1/(2 sigma^2)), z standard normal under Q, L = log R. The remove direction needs
M(s) = E[R^s], the add direction M(s) = E[R^(1-s)]; both as E[e^{wL} - 1 - w (R - 1)], w = s or 1 - s. In arguments
here `noise_multiplier` is sigma > 0, `sampling_prob` is q in (0, 1), and `add` says for each lane whether the direction
is ADD; all three are [L].
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from jaxacct._jax import jax, jnp
from jaxacct.divergence._inversion import Line, LineMoments
from jaxacct.special import ULP, expm1, log1p, log_normal_tail

_REACH = 10.0  # standard deviations to which the window in z reaches; any value is valid, what lies beyond is added
_LEAST_DECAY = 3.0  # of a strip that is used: the rule errs by 2 / (e^decay - 1) of the mean modulus on its edges
_BOTH_EDGES = 2.0 / (1.0 - math.exp(-_LEAST_DECAY)) * (1.0 + 2.0**-40)  # times e^-decay, no less
_LARGEST = 690.0  # exponents of what is summed: beyond, no bound is given
_LOG_TAIL = math.log(0.5 * math.erfc(_REACH / math.sqrt(2.0)))  # log of the normal mass beyond, on one side
# The intervals of z tried by `_log_decay` lie between the quantiles c - h and c + h of the tilted law (probabilities),
# c a centre and h a half-width. Each gives a valid bound and the least is kept: they steer tightness only.
_CENTRES = (0.1, 0.3, 0.5, 0.7, 0.9)
_HALF_WIDTHS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.45, 0.495)


def _log_ratio(z: jax.Array, mu: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """R - 1 and log R at z, without cancellation in either."""
    exponent = jnp.minimum(mu * z - 0.5 * mu * mu, _LARGEST)
    excess = q * expm1(exponent)
    far = excess < -0.25  # there the sum of its positive parts is the accurate one
    near = log1p(jnp.where(far, 0.0, excess))
    return excess, jnp.where(far, jnp.log((1.0 - q) + q * jnp.exp(exponent)), near)


def highest_node(orders: jax.Array, noise_multiplier: jax.Array, add: jax.Array, *, num_z: int) -> jax.Array:
    """Heights [L] up to which, roughly, the rule of `num_z` nodes resolves the moments on a line.

    `orders` [J, L] are the line's alias orders, ascending: the largest sets the window. Steers tightness only.
    """
    mu = 1.0 / noise_multiplier
    frequency = 2.0 * math.pi * (num_z - 1) / (2.0 * _REACH + jnp.where(add, 0.0, orders[-1] * mu))
    strip = jnp.minimum(0.5 * math.pi / mu, 10.0)
    return jnp.maximum(frequency - 50.0 / strip - 0.5 * strip, 0.0) / mu


class _Rule(NamedTuple):
    """The trapezoid rule in z of L lanes, Z nodes each, and what is known of the pair at its nodes."""

    mu: jax.Array  # [L], 1 / sigma
    prob: jax.Array  # [L], q
    add: jax.Array  # bool [L]
    high: jax.Array  # [L], the last node
    step: jax.Array  # [L], k
    z: jax.Array  # [Z, L]
    density: jax.Array  # [Z, L], of z under Q
    excess: jax.Array  # [Z, L], R - 1
    log_ratio: jax.Array  # [Z, L], L = log R
    blur: jax.Array  # [Z, L]: what rounding may do to e^{wL} - 1 - w (R - 1), for each unit of |w|


def _rule(mu: jax.Array, q: jax.Array, add: jax.Array, top: jax.Array, num_z: int) -> _Rule:
    """The rule on [-10, 10 + c/sigma], c the largest order `top` [L] (remove) or 0 (add)."""
    high = _REACH + jnp.where(add, 0.0, top * mu)
    k = (high + _REACH) / (num_z - 1)
    z = -_REACH + k * jnp.arange(num_z, dtype=jnp.float64)[:, None]
    excess, log_ratio = _log_ratio(z, mu, q)
    density = jnp.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return _Rule(mu, q, add, high, k, z, density, excess, log_ratio, 2.0**-50 * (8.0 + mu * jnp.abs(z) + mu * mu))


def _in_range(rule: _Rule) -> jax.Array:
    """Whether Y is a double, bool [L], at all nodes that weigh anything: to 39 standard deviations."""
    return jnp.minimum(rule.high, 39.0) * rule.mu - 0.5 * rule.mu * rule.mu < _LARGEST


def _weight(rule: _Rule, order: jax.Array) -> jax.Array:
    return jnp.where(rule.add, 1.0 - order, order)


def _real_moment(rule: _Rule, order: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(M(order) - 1 by the rule, what rounding may have done to it), [L] each."""
    w = _weight(rule, order)
    exponent = jnp.minimum(w * rule.log_ratio, _LARGEST)
    value = rule.step * jnp.sum(rule.density * (expm1(exponent) - w * rule.excess), axis=0)
    sizes = jnp.abs(rule.log_ratio) * (jnp.exp(exponent) + 1.0) + jnp.abs(rule.excess)
    return value, rule.step * jnp.abs(w) * jnp.sum(rule.density * rule.blur * sizes, axis=0)


def _complex_moment(rule: _Rule, order: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(real part, imaginary part, rounding) [L] of M(order + ib) - 1 by the rule."""
    w = _weight(rule, order)
    half = 0.5 * b * rule.log_ratio
    sin, cos = jnp.sin(half), jnp.cos(half)
    exponent = jnp.minimum(w * rule.log_ratio, _LARGEST)
    growth = jnp.exp(exponent)
    turn_real, turn_imag = -2.0 * sin * sin, 2.0 * sin * cos
    sign = jnp.where(rule.add, -1.0, 1.0)
    real = rule.step * jnp.sum(rule.density * (expm1(exponent) + growth * turn_real - w * rule.excess), axis=0)
    imag = sign * rule.step * jnp.sum(rule.density * (growth * turn_imag - b * rule.excess), axis=0)
    sizes = jnp.abs(rule.log_ratio) * (growth + 1.0) + jnp.abs(rule.excess)
    return real, imag, rule.step * jnp.hypot(w, b) * jnp.sum(rule.density * rule.blur * sizes, axis=0)


def _window(rule: _Rule, order: jax.Array, size: jax.Array) -> jax.Array:
    """What the integrand holds outside the window, at most; `size` is |w|."""
    mu, q = rule.mu, rule.prob
    left = jnp.exp(jnp.where(rule.add, jnp.minimum((1.0 - order) * log1p(-q), _LARGEST), 0.0))
    beyond = log_normal_tail(rule.high - order * mu) + 0.5 * order * (order - 1.0) * mu * mu
    right = jnp.minimum(
        jnp.log(q) + beyond,
        jnp.logaddexp(1.0 + _LOG_TAIL, (order - 1.0) * jnp.log(order) + order * jnp.log(q) + beyond),
    )
    right = jnp.where(rule.add, 0.0, jnp.exp(jnp.minimum(right, _LARGEST)))
    return 2.0 * (right + math.exp(_LOG_TAIL) * (left + 3.0 + size))


def _grid(rule: _Rule, order: jax.Array, height: jax.Array, size: jax.Array, moment: jax.Array) -> jax.Array:
    """What the rule errs by at order + i height, at most, from M(order) <= `moment`; inf where the strip is thin."""
    k, mu = rule.step, rule.mu
    d = jnp.clip(2.0 * jnp.pi / k - height * mu, 0.0, 0.5 * jnp.pi / mu)
    decay = 2.0 * jnp.pi * d / k
    spread = jnp.where(rule.add, (1.0 - order) * jnp.log(jnp.cos(0.5 * d * mu)), 0.0)
    fall = 0.5 * d * d - decay
    turned = moment * jnp.exp(jnp.minimum(fall + spread + height * mu * d, _LARGEST))
    bound = _BOTH_EDGES * (turned + jnp.exp(jnp.minimum(fall, _LARGEST)) * (1.0 + 2.0 * size))
    return jnp.where(decay > _LEAST_DECAY, bound, jnp.inf)


def _log_alias(rule: _Rule, order: jax.Array) -> jax.Array:
    """At least log M(order), [L]."""
    value, blurred = _real_moment(rule, order)
    size = jnp.where(rule.add, order - 1.0, order)
    rest = blurred + _window(rule, order, size) + _grid(rule, order, jnp.zeros_like(order), size, 1.0 + value)
    exponents = jnp.where(rule.density > 0, order * jnp.abs(rule.log_ratio), 0.0)
    ok = jnp.all(exponents < _LARGEST, axis=0) & (rest < 0.5 * (1.0 + value)) & _in_range(rule)
    return jnp.where(ok, log1p(value + 2.0 * rest), jnp.inf)


def _log_polar(real: jax.Array, imag: jax.Array, error: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(log |M|, phase, `LineMoments.error`) from M - 1 = real + i imag and the size of what it errs by."""
    square = 2.0 * real + real * real + imag * imag  # |M|^2 - 1
    near = square > -0.25
    size = jnp.hypot(1.0 + jnp.where(near, 0.0, real), jnp.where(near, 0.0, imag))
    log_modulus = jnp.where(near, 0.5 * log1p(jnp.where(near, square, 0.0)), jnp.log(jnp.maximum(size, 1e-300)))
    phase = jnp.arctan2(imag, 1.0 + real)
    relative = (error + 2.0**-51 * (jnp.abs(real) + jnp.abs(imag))) * jnp.exp(-log_modulus)
    relative = relative + 2.0**-50 * (jnp.abs(log_modulus) + jnp.abs(phase))
    return log_modulus, phase, -log1p(-jnp.minimum(relative, 0.5)) + jnp.where(relative < 0.5, 0.0, jnp.inf)


def sampled_gaussian_line(
    line: Line, noise_multiplier: jax.Array, sampling_prob: jax.Array, add: jax.Array, *, num_z: int
) -> LineMoments:
    """`LineMoments` ([N, L]) of one Poisson-sampled Gaussian step on `line`, every error bounded.

    Where a bound is not tight it is inf (for the decay 0), which is valid. Trapezoid rule in z with `num_z` (static)
    nodes of step k on [-10, 10 + c/sigma], c the largest order (remove) or 0 (add):

    * grid: in the strip |Im z| <= d <= pi sigma/2, |1 - q + q e^{x + iy}| lies between R cos(y/2) and R and its
      argument below d/sigma, so the rule errs by at most
      2/(1 - e^-3) e^{d^2/2 - 2 pi d/k} (C M(a) e^{b d/sigma} + 1 + 2 |w|) where 2 pi d/k >= 3, with
      C = cos(d/(2 sigma))^(1-a) (add), 1 (remove);
    * window: on the left R <= 1 and the integrand is at most 2 + |w|, or (1-q)^(1-a) + |w| (add). On the right, for
      remove, R^a <= 1 - q + q Y^a and R^a <= e + a^(a-1) (q Y)^a by convexity, with normal tails;
    * rounding: 2^-50 of the sizes of what is subtracted, and of the exponents' own.
    """
    a, c = line.order, line.alias_orders
    rule = _rule(1.0 / noise_multiplier, sampling_prob, add, c[-1], num_z)
    w = _weight(rule, a)
    found, blurred = _real_moment(rule, a)
    size = jnp.abs(w)
    # what the rule errs by is at most `rest` times M(a) / (1 + found): solved for M(a), at most twice `rest` where that
    # is below half of 1 + found
    rest = blurred + _window(rule, a, size) + _grid(rule, a, jnp.zeros_like(a), size, 1.0 + found)
    known = (rest < 0.5 * (1.0 + found)) & _in_range(rule)
    moment = 1.0 + found + jnp.where(known, 2.0 * rest, jnp.inf)  # at least M(a)

    def row(b: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        real, imag, error = _complex_moment(rule, a, b)
        size = jnp.hypot(w, b)
        return real, imag, error + _window(rule, a, size) + _grid(rule, a, b, size, moment)

    lanes = noise_multiplier.shape[0]
    log_modulus, phase, log_error = _log_polar(*jax.lax.map(row, line.heights, batch_size=max(1, 16 // lanes)))
    log_alias = jax.lax.map(functools.partial(_log_alias, rule), c)
    ok = known & (jnp.max(jnp.abs(w * rule.log_ratio), axis=0) < _LARGEST)
    # rounded down: the exponent errs by `blur` for each unit of |w| (1 + |log R|), the density by some ulp of z^2
    fall = jnp.max(rule.blur * (size + _LARGEST), axis=0) + 2.0**-50 * (8.0 + rule.high * rule.high)
    tilted = jnp.exp(jnp.minimum(w * rule.log_ratio, _LARGEST) - fall) / jnp.where(ok, moment, jnp.inf)
    gain = jnp.log(moment / jnp.maximum(1.0 + found - rest, 1e-300)) + 2.0 * fall
    decay = _log_decay(line, rule, rule.density * tilted, jnp.where(ok, gain, jnp.inf))
    return LineMoments(log_modulus, phase, jnp.where(ok, log_error, jnp.inf), log_alias, jnp.where(ok, decay, 0.0))


def _log_decay(line: Line, rule: _Rule, f: jax.Array, gain: jax.Array) -> jax.Array:
    """Upper bounds [K, L] on log |E e^{ibL}| under the tilted density, for b between neighbours of the line's edges.

    `f` is that density from below, f e^gain from above. Let an interval of z have the mass P, let L = log R cover a
    width W over it, and let E_I be expectations restricted to it (not divided by P):

    * |E e^{ibL}|^2 = 1 - E[1 - cos b(L - M)], M an independent copy of L, is at most
      1 - (4/pi^2) b^2 (P E_I L^2 - (E_I L)^2) while b W <= pi;
    * with g = f / (dL/dz), by parts, |E e^{ibL}| <= 1 - P + (g at both ends + total variation of g) / b, any b.

    Sums over cells stand for integrals. With p the posterior probability of participation, dL/dz = mu p and dp/dz =
    mu p (1 - p), p (1 - p) <= 1/4. So (log f)'' = -1 + w mu^2 p (1-p) and (log g)'' = -1 + (w+1) mu^2 p (1-p), both at
    most 1 + (a + 1) mu^2 / 4 in modulus in either direction: within a cell they leave the chord of its ends by at most
    eta = k^2/8 times that. In a cell L'' <= mu^2/4 moves the mean of L by at most k^2 mu^2/48 from that of the ends,
    always the same way: the standard deviation by half of that. (log g)' = (w+1) mu p - mu - z vanishes where a line
    meets a logistic curve, at most three times, so that g turns no more often. `spare` covers the sums' rounding.
    """
    mu, q, k, z, log_ratio = rule.mu, rule.prob, rule.step, rule.z, rule.log_ratio
    eta = 0.125 * k * k * (1.0 + 0.25 * (line.order + 1.0) * mu * mu)
    bend = k * k * mu * mu / 96.0
    spare = 4.0 * ULP * (z.shape[0] + 64.0)
    mass = jnp.cumsum(f, axis=0) * k
    mass = mass / mass[-1]
    slope = mu * q * jnp.exp(jnp.minimum(mu * z - 0.5 * mu * mu, _LARGEST) - log_ratio)
    g = f / slope
    centred = log_ratio - jnp.sum(f * log_ratio, axis=0) / jnp.sum(f, axis=0)
    cell = jnp.minimum(f[:-1], f[1:]) * k * jnp.exp(-eta)
    value = 0.5 * (centred[:-1] + centred[1:])
    turn = jnp.abs(g[1:] - g[:-1])
    quantiles = jnp.asarray([(c - h, c + h) for c in _CENTRES for h in _HALF_WIDTHS], jnp.float64)

    def interval(ends: jax.Array) -> jax.Array:
        inside = (mass >= ends[0]) & (mass <= ends[1])
        cells = inside[:-1] & inside[1:]
        p = jnp.sum(jnp.where(cells, cell, 0.0), axis=0)
        first = jnp.sum(jnp.where(cells, cell * value, 0.0), axis=0)
        second = jnp.sum(jnp.where(cells, cell * value * value, 0.0), axis=0)
        square = jnp.maximum((1.0 - spare) * p * second - (1.0 + spare) * first * first - 2.0 * spare * p * second, 0.0)
        spread = jnp.square(jnp.maximum(jnp.sqrt(square) - p * bend, 0.0))
        top = jnp.max(jnp.where(inside, centred, -jnp.inf), axis=0)
        bottom = jnp.min(jnp.where(inside, centred, jnp.inf), axis=0)
        some = p > 0
        width = jnp.where(some, (top - bottom) * (1.0 + spare), jnp.inf)
        # the ends of g: where the interval begins and stops
        starts = inside & ~jnp.concatenate([jnp.zeros_like(inside[:1]), inside[:-1]])
        stops = inside & ~jnp.concatenate([inside[1:], jnp.zeros_like(inside[:1])])
        both = jnp.sum(jnp.where(starts, g, 0.0), axis=0) + jnp.sum(jnp.where(stops, g, 0.0), axis=0)
        peak = jnp.max(jnp.where(inside, g, 0.0), axis=0)
        variation = both + jnp.sum(jnp.where(cells, turn, 0.0), axis=0) + 6.0 * peak * expm1(2.0 * eta)
        variation = variation * jnp.exp(jnp.minimum(gain, _LARGEST)) * (1.0 + spare)
        edges = line.edges
        following = jnp.concatenate([edges[1:], jnp.full_like(edges[:1], jnp.inf)])
        loss = jnp.minimum((4.0 / math.pi**2) * edges * edges * spread * (1.0 - spare), 0.999)  # any less is valid
        quadratic = jnp.where(following * width <= math.pi, 0.5 * log1p(-loss), 0.0)
        parts = jnp.where(some, jnp.log(jnp.clip(1.0 - (1.0 - spare) * p + variation / edges, 1e-300, 1.0)), 0.0)
        return jnp.minimum(quadratic, parts)

    return jnp.min(jax.lax.map(interval, quantiles), axis=0)
