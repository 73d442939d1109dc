"""The transform of one step's likelihood ratio on lanes: a trapezoid rule in the Gaussian variable, certified.

Y = exp(s g - s^2/2), s = 1/sigma, g standard normal under Q; W = Y - 1. As `jaxacct.divergence.allocation._grid` and
`jaxacct.divergence.allocation._transform`, for arrays of noise multipliers inside a traced program.

Shapes: [L] lanes; [L, Z] nodes of the rule; [L, N] nodes of a vertical line, [L, J] points of the real axis.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jaxacct._jax import jax, jnp
from jaxacct.divergence._centred_exp import centred_exp
from jaxacct.special import ULP, expm1, log_normal_tail, vector_cos_and_sin

INNER = 16  # nodes of a line that share an outer point: speed only
_LANES = 4  # lanes whose tables are worked on at a time: speed only
_LOW, _HIGH = -9.0, 9.0  # the window in g, standard deviations; the second is counted from 1/sigma
_HALF_TURN = 0.5 * math.pi * (1.0 - 2.0**-20)  # radians; contours in g turn Y by less
_NUM_ANGLES = 10  # contours on which the decay is bounded: they steer tightness


def _barrier(x: Any) -> Any:
    # without it what lies before is computed again in each use (XLA CPU, jaxlib 0.10.2)
    return jax.lax.optimization_barrier(x)  # type: ignore[no-untyped-call]


def size_of(z: Any) -> Any:
    """Real [..]: between |z| and sqrt 2 |z|, and much faster than |z|."""
    return jnp.abs(z.real) + jnp.abs(z.imag)


def exp(z: Any) -> Any:
    """Complex [..]: e^z, to a few ulp for |Im z| to 1e6."""
    cos, sin = vector_cos_and_sin(z.imag)
    modulus = jnp.exp(z.real)
    return jax.lax.complex(modulus * cos, modulus * sin)


class Rule(NamedTuple):
    """The trapezoid rule in g on a contour that turns Y by -eta, and what bounds its errors."""

    s: Any  # [L], 1/sigma
    y: Any  # [L, Z], as all below
    w: Any
    density: Any  # step times the normal density
    turned_w: Any  # complex, on the contour
    turned_density: Any  # complex
    density_error: Any  # relative
    y_error: Any  # relative, of Y and of |W| on the contour
    strip: Any  # [L], as all below: the rule's error on the contour, over the larger mean modulus on the strip's edges
    real_strip: Any  # the same on the real line, for functions that are real there
    tilt: Any  # sum of |turned_density|, at most
    left: Any  # P[g < first node]
    right: tuple[Any, ...]  # E[Y^j; g > last node], j = 0, 1, 2


def rule(sigma: Any, num_z: int) -> Rule:
    """`Rule` of `num_z` nodes for noise multipliers `sigma` [L]."""
    s = 1.0 / sigma
    top = jnp.minimum(_HALF_TURN, 3.2 * s)
    eta = 0.5 * top
    high = _HIGH + s
    step = (high - _LOW) / (num_z - 1)
    g = _LOW + step[:, None] * jnp.arange(num_z, dtype=jnp.float64)
    exponent = s[:, None] * g - 0.5 * (s * s)[:, None]
    y, w = jnp.exp(exponent), expm1(exponent)
    density = step[:, None] * jnp.exp(-0.5 * g * g) / math.sqrt(2.0 * math.pi)
    turned = (eta * sigma)[:, None]
    half = jnp.sin(0.5 * eta)[:, None]
    decay, real_decay = 2.0 * jnp.pi * eta * sigma / step, 2.0 * jnp.pi * top * sigma / step
    edge = 0.5 * (top * sigma) ** 2
    phase = jax.lax.complex(jnp.cos(turned * g), jnp.sin(turned * g))
    return Rule(
        s=s,
        y=y,
        w=w,
        density=density,
        turned_w=jax.lax.complex(w * jnp.cos(eta)[:, None] - 2.0 * half * half, -y * jnp.sin(eta)[:, None]),
        turned_density=density * jnp.exp(0.5 * turned * turned) * phase,
        density_error=ULP * (32.0 + 4.0 * g * g + 4.0 * turned * (jnp.abs(g) + turned)),
        y_error=ULP * (16.0 + 8.0 * (jnp.abs(s[:, None] * g) + (s * s)[:, None])),
        strip=2.0 * jnp.exp(edge - decay) / -expm1(-decay),
        real_strip=2.1 * jnp.exp(edge - real_decay) / -expm1(-real_decay),
        tilt=jnp.exp(0.5 * (eta * sigma) ** 2),
        left=jnp.exp(log_normal_tail(-jnp.full_like(s, _LOW))) * (1.0 + 2.0**-40),
        right=tuple(
            jnp.exp(log_normal_tail(high - j * s) + 0.5 * j * (j - 1) * jnp.minimum(s * s, 600.0)) * (1.0 + 2.0**-40)
            for j in (0, 1, 2)
        ),
    )


def complex_log1p(z: Any) -> Any:
    """Complex [..]: log(1 + z), to a few ulp of |z|."""
    x, y = z.real, z.imag
    near = jnp.abs(x) + jnp.abs(y) < 0.15  # XLA's log1p errs by 2 ulp above -0.3, by 240 at -0.41
    small = jnp.where(near, 2.0 * x + x * x + y * y, 0.0)
    size = jnp.where(near, 1.0, jnp.maximum((1.0 + x) ** 2 + y * y, 1e-300))
    return jax.lax.complex(0.5 * jnp.where(near, jnp.log1p(small), jnp.log(size)), jnp.arctan2(y, 1.0 + x))


def _lane_centred(
    w: Any, v: Any, density: Any, turned: Any, density_error: Any, y_error: Any, centre: Any, spacing: Any, *, num: int
) -> tuple[Any, Any]:
    """The sums of `centred_transform` [N] and their rounding errors for one lane; w + iv, density + i turned: [Z]."""
    num_outer = num // INNER
    height = jnp.concatenate([INNER * jnp.arange(num_outer, dtype=jnp.float64), jnp.arange(INNER, dtype=jnp.float64)])
    real = jnp.where(jnp.arange(num_outer + INNER) < num_outer, centre, 0.0)
    imag = spacing * height
    w, v, density, turned, density_error, y_error = (
        c[:, None] for c in (w, v, density, turned, density_error, y_error)
    )
    x, y = w * real - v * imag, w * imag + v * real
    f, g, f_error = _barrier(centred_exp(x, y, vector_cos_and_sin))
    e, h, size_x = f - x, g - y, jnp.abs(x) + jnp.abs(y)
    size_e, weight, moved = jnp.abs(e) + jnp.abs(h), jnp.abs(density) + jnp.abs(turned), y_error * size_x
    f_error = f_error + moved * size_e
    e_error = f_error + 10.0 * ULP * size_x + moved * jnp.exp(centre)
    relative = density_error + 4.0 * ULP * (len(w) + 8.0)
    alone = jnp.sum(density * f - turned * g, axis=0), jnp.sum(density * g + turned * f, axis=0)
    alone_error = jnp.sum(weight * (f_error + relative * (jnp.abs(f) + jnp.abs(g))), axis=0)
    norm = jnp.sqrt(jnp.sum(weight * size_e * size_e, axis=0))
    norm_error = jnp.sqrt(jnp.sum(weight * (e_error + relative * size_e) ** 2, axis=0))
    first, second = e[:, :num_outer], h[:, :num_outer]
    left = jnp.concatenate([density * first - turned * second, density * second + turned * first], axis=1)
    right = jnp.concatenate([e[:, num_outer:], h[:, num_outer:]], axis=1)
    left, right = _barrier((left, right))
    every = left.T @ right
    rr, ri = every[:num_outer, :INNER], every[:num_outer, INNER:]
    ir, ii = every[num_outer:, :INNER], every[num_outer:, INNER:]
    total = jax.lax.complex(
        alone[0][:num_outer, None] + alone[0][num_outer:] + rr - ii,
        alone[1][:num_outer, None] + alone[1][num_outer:] + ri + ir,
    )
    error = alone_error[:num_outer, None] + alone_error[num_outer:]
    error = error + norm_error[:num_outer, None] * norm[num_outer:] + norm[:num_outer, None] * norm_error[num_outer:]
    return total.reshape(-1), 1.01 * error.reshape(-1)


def centred_transform(of: Rule, centre: Any, spacing: Any, num_nodes: int) -> tuple[Any, Any]:
    """E[e^{-uW}] - 1 [L, N] at u = centre + i k spacing, and bounds on its error.

    As in `jaxacct.divergence.allocation._transform`: with a and b in place of aW and bW, A = e^-a - 1 + a and likewise
    B, e^{-(a+b)} - 1 + a + b = A + B + (A - a)(B - b). The errors of the product are summed by the Cauchy-Schwarz
    inequality.
    """

    def lane(args: Any) -> Any:
        return _lane_centred(*args, num=num_nodes)

    parts = (of.turned_w.real, of.turned_w.imag, of.turned_density.real, of.turned_density.imag)
    columns = (*parts, of.density_error, of.y_error, centre, spacing)
    total, error = jax.lax.map(lane, columns, batch_size=_LANES)
    growth = jnp.exp(centre)

    # the rule and its window: |e^{-uW} - 1 + uW| is at most |uW|^2/2 e^{Re u}, and e^{Re u} + 1 + |uW|
    size = jnp.hypot(centre[:, None], spacing[:, None] * jnp.arange(num_nodes, dtype=jnp.float64))
    variance, g = jnp.exp(jnp.minimum(of.s * of.s, 600.0))[:, None], growth[:, None]
    crude = jnp.minimum(0.5 * size * size * (variance + 3.0) * g, 1.0 + g + 2.0 * size)
    right0, right1, right2 = (r[:, None] for r in of.right)
    beyond = jnp.minimum(2.0 * g * size * size * right2, (1.0 + g) * right0 + 2.0 * size * right1)
    window = 2.0 * of.tilt[:, None] * (beyond + 2.0 * g * size * size * of.left[:, None])
    return total, error + of.strip[:, None] * crude + window


def log_transform(of: Rule, steps: Any, points: Any) -> Any:
    """At least log E e^{-z (X-1)} [L, J] at real `points` z [L, J] >= 0."""
    u = points / steps[:, None]
    x = u[:, None, :] * of.w[:, :, None]
    near = jnp.abs(x) < 0.1
    small = jnp.where(near, x, 0.0)
    series = 0.5 * small * small * (1.0 - small / 3.0 * (1.0 - small / 4.0 * (1.0 - small / 5.0 * (1.0 - small / 6.0))))
    series = series + 2.0 * small**8
    excess = jnp.sum(of.density[:, :, None] * jnp.where(near, series, jnp.exp(-x) - 1.0 + x), axis=1)
    growth, square = jnp.exp(u), u * u
    variance = jnp.exp(jnp.minimum(of.s * of.s, 600.0))[:, None]
    crude = jnp.minimum(0.5 * square * (variance + 3.0) * growth, 1.0 + growth + 2.0 * u)
    missed = 2.0 * (square * of.right[2][:, None] + square * growth * of.left[:, None])
    rounding = 2.0**-38 * excess + ULP * 512.0 * jnp.minimum(square * variance, growth + u)
    total = excess + of.real_strip[:, None] * crude + missed + rounding
    return steps[:, None] * jnp.log1p(total) * (1.0 + 2.0**-40)


def log_decay(of: Rule, steps: Any, centre: Any, height: Any) -> Any:
    """At least log |E e^{-z (X-1)}| [L] at z = centre + iy for every y >= `height`, as in `_real.log_decay`."""
    sigma = 1.0 / of.s
    u, v = centre / steps, height / steps
    least = jnp.minimum(0.5 * v * of.s * of.s, 0.5)[:, None]
    eta = least * (1.45 / least) ** jnp.linspace(0.0, 1.0, _NUM_ANGLES, dtype=jnp.float64)
    a = u[:, None] * jnp.cos(eta) + v[:, None] * jnp.sin(eta)
    size = jnp.sum(of.density[:, :, None] * jnp.exp(-a[:, None, :] * of.y[:, :, None]), axis=1)
    size = size * (1.0 + 2.0**-40) + (2.0 * (of.left + of.right[0]) + of.real_strip)[:, None]
    logs = u[:, None] + 0.5 * (eta * sigma[:, None]) ** 2 + jnp.log(size) + 2.0**-46
    return steps * jnp.min(logs, axis=1)
