"""Certified sums over the Gaussian variable: the transform of one step's likelihood ratio at complex arguments.

Y = exp(s g - s^2/2), s = 1/sigma, g standard normal, is the likelihood ratio of one step, W = Y - 1. `_allocation_lines`
needs E[e^{-uW}], also with Y cut off smoothly, on vertical lines of u.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxacct._precision import HostProgram

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]

ULP = 2.0**-53
SHARPNESS = 32  # m of the cutoff
_LOG_FACTORIALS = np.array([math.lgamma(j + 1.0) for j in range(SHARPNESS + 1)])
TABLE_ERROR = 2.0**-46  # relative, of the cutoff's tables: some 60 ulp, and m times the ratio's own 4
NODE_BLOCK = 512  # nodes for which the programs are compiled
_OUTER = 16
_NUM_BLOCKS = 32
_SINE = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
         -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)  # fmt: skip
_COSINE = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
           2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)  # fmt: skip
_SMALL = 0.1  # where e^-x - 1 + x is summed as a series


@dataclasses.dataclass(frozen=True)
class Grid:
    """Trapezoid in g, of step k, on the contour g - i eta sigma, on which Y has the argument -eta.

    On it e^{-uY} does not oscillate where arg u is near eta, and the rule converges like e^{-2 pi d/k} with d the
    distance in which the integrand stays bounded: on the contours of eta' in [0, eta_top] |e^{-uY}| <= 1 for u in the
    first quadrant. k is a multiple of 2^-12, so that the nodes are exact.
    """

    sigma: float
    step: float
    eta: float
    eta_top: float
    g: Real
    density: Real  # k phi(g)
    y: Real
    w: Real
    density_error: Real  # relative
    rotated_y: Complex
    rotated_w: Complex
    rotated_density: Complex

    @property
    def s(self) -> float:
        return 1.0 / self.sigma

    def strip(self, eta_end: float, eta: float) -> float:
        """What the rule on the contour `eta` errs by for each unit of the integrand's modulus on `eta_end`."""
        decay = 2.0 * math.pi * abs(eta_end - eta) * self.sigma / self.step
        return math.exp(0.5 * (eta_end * self.sigma) ** 2 - decay) / -math.expm1(-decay)


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """a b and its rounding error, exactly (Dekker 1971)."""

    def halves(x: Any) -> tuple[Any, Any]:
        upper = 134217729.0 * x
        upper = upper - (upper - x)
        return upper, x - upper

    (a1, a2), (b1, b2), product = halves(a), halves(b), a * b
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _log_ratio(sigma: float, g: Real) -> tuple[Real, Real]:
    """s g - s^2/2, s = 1/sigma, as a sum of two: else Y would be off by as many ulp as its logarithm is large."""
    s = 1.0 / sigma
    back, back_error = _product(s, sigma)
    s_low = -((back - 1.0) + back_error) / sigma
    linear, linear_error = _product(s, g)
    square, square_error = _product(s, 0.5 * s)
    total = linear - square
    away = total - linear
    rest = (linear - (total - away)) + (-square - away)
    return total, rest + linear_error - square_error + s_low * (g - s)


@functools.lru_cache(maxsize=64)
def grid(sigma: float, tilt: float = 0.0) -> Grid:
    """The grid for one noise multiplier; a power of two of nodes, for which 2 pi d/k is 42 or more.

    It reaches far enough for E[Y^2], deltas to 1e-25, and moments of Y to the order `tilt`.
    """
    s = 1.0 / sigma
    eta = min(0.14 * math.pi, 1.5 * s)
    eta_top = min(0.28 * math.pi, 3.2 * s)
    low, high = -10.0, max(11.0 + s, 9.5 + 2.0 * s, 9.5 + tilt * s)  # at least
    wanted = 2.0 * math.pi * eta * sigma / (42.0 + 0.5 * (eta_top * sigma) ** 2)
    size = 1 << max(8, math.ceil(math.log2((high - low) / wanted + 2.0)))
    step = math.floor(min(wanted, max(30.0, high - low) / (size - 2)) * 2**12) / 2**12
    g = step * np.arange(math.floor(low / step), math.floor(low / step) + size)
    exponent, rest = _log_ratio(sigma, g)
    y = np.exp(exponent) * (1.0 + rest)
    w = np.expm1(exponent) + np.exp(exponent) * rest
    density = step * np.exp(-0.5 * g * g) / math.sqrt(2.0 * math.pi)
    turn, turned = complex(math.cos(eta), -math.sin(eta)), eta * sigma
    return Grid(
        sigma, step, eta, eta_top, g, density, y, w, ULP * (12.0 + g * g + turned * (np.abs(g) + turned)),
        y * turn, w * turn.real - 2.0 * math.sin(0.5 * eta) ** 2 + 1j * y * turn.imag, density * math.exp(0.5 * turned**2) * np.exp(1j * turned * g),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Cutoff:
    """The weight Q(rate Y), Q(w) = P[a Gamma(m) variable exceeds w] = e^-w sum_{j<m} w^j/j!, m = SHARPNESS.

    It falls from 1 to 0 around Y = m/rate, is entire in Y, and falls like e^{-rate Y}: E[e^{-uY} Q(rate Y)] exists for
    Re u > -rate. `low` is Q, `high` is 1 - Q; a rate of infinity means Q = 0.
    """

    rate: float
    low: Real
    high: Real
    log_sum: Real  # log of sum_{j<m} w^j/j!
    rotated_high: Complex
    rotated_shift: Complex  # e^{-shift} rotated_factor is Q
    rotated_factor: Complex

    def bounds(self, of: Grid, eta_end: float, centre: float) -> tuple[Real, Real]:
        """q and r of `centred_transform` on the contour of `eta_end`."""
        w, turn = self.rate * of.y, math.cos(eta_end)
        with np.errstate(over="ignore", divide="ignore"):
            q = np.exp(self.log_sum - (w + centre * of.y) * turn)
            r = np.minimum(np.exp((1.0 - turn) * w + np.log(self.high)), 1.0 + np.exp(self.log_sum - w * turn))
        return q, r

    def largest_beyond(self, of: Grid, centre: float) -> float:
        """The largest q beyond the last node: e^{-a w} sum_{j<m} w^j/j! falls from w = m/a on, and is at most sum_j a^-j."""
        a = (1.0 + centre / self.rate) * math.cos(of.eta)
        if self.rate * of.y[-1] > SHARPNESS / a:
            return float(self.bounds(of, of.eta, centre)[0][-1])
        return SHARPNESS * max(1.0, a**-SHARPNESS)


def _step_series(w: Any) -> Any:
    """(1 - Q(w)) by its positive series, for |w| < 0.6 m."""
    total = np.ones_like(w)
    for j in range(70, 0, -1):
        total = 1.0 + w / (SHARPNESS + j) * total
    return np.exp(-w - _LOG_FACTORIALS[-1]) * w**SHARPNESS * total


def _partial_exponential(w: Any) -> Any:
    total = np.ones_like(w)
    for j in range(SHARPNESS - 1, 0, -1):
        total = 1.0 + w / j * total
    return total


def step_weights(w: Real) -> tuple[Real, Real]:
    """Q(w) and 1 - Q(w), each to a relative error of `TABLE_ERROR`."""
    inner = w < 0.6 * SHARPNESS
    outer = np.clip(w, 1.0, 800.0)
    low, high = np.exp(-outer) * _partial_exponential(outer), _step_series(np.where(inner, w, 0.0))
    return np.where(inner, 1.0 - high, low), np.where(inner, high, 1.0 - low)


def cutoff(of: Grid, rate: float) -> Cutoff:
    """The tables of the weight on a grid."""
    w = rate * of.y
    low, high = step_weights(w)
    turned = rate * of.rotated_y
    inner, shift = np.abs(turned) < 0.6 * SHARPNESS, turned
    turned = turned * np.minimum(1.0, 2000.0 / np.abs(turned))  # beyond, e^-w is 0
    series = _step_series(np.where(inner, turned, 0.0))
    factor = _partial_exponential(turned)
    return Cutoff(
        rate, low, high, np.log(_partial_exponential(np.minimum(w, 2000.0))),
        np.where(inner, series, 1.0 - np.exp(-turned) * factor),
        np.where(inner, 0.0, shift), np.where(inner, 1.0 - series, factor),
    )  # fmt: skip


def _exp(z: Any) -> Any:
    """e^z for complex z: two ulp, for |Im z| to 1e6, at a fifth of the time of XLA's (its sine is scalar on the CPU).

    Im z less a multiple n of pi/2 (in three parts, n times the first two exact), then the polynomials of fdlibm.
    """
    y = z.imag
    n = jnp.round(y * 0.6366197723675814)
    r = ((y - n * 1.57079632673412561417) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21
    r = jnp.clip(r, -1.0, 1.0)  # beyond 1e6
    r2 = r * r
    sine, cosine = jnp.full_like(r, _SINE[0]), jnp.full_like(r, _COSINE[0])
    for a, b in zip(_SINE[1:], _COSINE[1:], strict=True):
        sine, cosine = sine * r2 + a, cosine * r2 + b
    sine, cosine = r + r * r2 * sine, 1.0 - 0.5 * r2 + r2 * r2 * cosine
    quadrant = n - 4.0 * jnp.floor(0.25 * n)
    odd = (quadrant == 1.0) | (quadrant == 3.0)
    turned = jnp.where(odd, cosine, sine), jnp.where(odd, sine, cosine)
    modulus = jnp.exp(z.real)
    imag = modulus * jnp.where(quadrant >= 2.0, -turned[0], turned[0])
    real = modulus * jnp.where((quadrant == 1.0) | (quadrant == 2.0), -turned[1], turned[1])
    return jax.lax.complex(real, imag)


def _size(z: Any) -> Any:
    """At least |z|, at most sqrt 2 times it, and much faster."""
    return jnp.abs(z.real) + jnp.abs(z.imag)


def _excess(x: Any, shift: Any, factor: Any, high: Any) -> tuple[Any, Any]:
    """e^-x Q - 1 + x and its rounding error, x and the shift known to 8 ulp.

    Nothing cancels where x is small and Q near 1. Q is 1 - high where the shift is 0, e^-shift factor elsewhere.
    """
    value = _exp(-x - shift)
    size = _size(x)
    small = (size < _SMALL) & (shift == 0)
    xs = jnp.where(small, x, 0.0)
    series = jnp.ones_like(xs)
    for n in range(11, 2, -1):
        series = 1.0 - xs * (1.0 / n) * series
    near = 0.5 * xs * xs * series - value * high
    far = value * factor - 1.0 + x
    modulus = _size(value)
    weight = modulus * _size(factor)
    near_error = 40.0 * ULP * size * size
    far_error = ULP * (weight * (8.0 + 10.0 * (size + _size(shift))) + 2.0 + 10.0 * size)
    tables = jnp.where(shift == 0, modulus * _size(high), weight) * (2.0 * TABLE_ERROR)
    return jnp.where(small, near, far), jnp.where(small, near_error, far_error) + tables


def _dot(a: Any, b: Any) -> Any:
    """sum over the leading axis (a multiple of 32) of a[:, :, None] b[:, None, :]."""
    return jnp.sum(jnp.einsum("bga,bgc->bac", _blocks(a), _blocks(b)), 0)


def _block_sums(a: Any) -> Any:
    """The sum over the leading axis, with the rounding of `_dot`."""
    return jnp.sum(jax.lax.optimization_barrier(jnp.sum(_blocks(a), 1)), 0)


def _blocks(a: Any) -> Any:
    return a.reshape(_NUM_BLOCKS, -1, a.shape[-1])


def _dot_error(size: int) -> float:
    """The relative rounding error of `_dot` on complex numbers: of a sum of blocks' sums, each in any order."""
    return 2.0 * ULP * (size / _NUM_BLOCKS + _NUM_BLOCKS)


def _centred_sums(
    u: Any, is_outer: Any, w: Any, density: Any, density_error: Any, shift: Any, factor: Any, high: Any
) -> tuple[Any, Any]:
    """E[e^{-uW} Q - 1 + uW] at u = a + b, a of the outer points, b of the inner ones, and its rounding error.

    e^{-(a+b)} Q - 1 + a + b = A + B + (A - a)(B - b) with A = e^-a Q - 1 + a and B = e^-b - 1 + b: nothing cancels,
    and all of it is one matrix product.
    """
    w, density, relative, shift, factor, high = (v[:, None] for v in (w, density, density_error, shift, factor, high))
    x = w * u
    f, f_error = _excess(x, shift * is_outer, 1.0 + (factor - 1.0) * is_outer, high * is_outer)
    # without the barrier each product computes them again (XLA CPU, jaxlib 0.10.2)
    x, f, f_error = jax.lax.optimization_barrier((x, f, f_error))
    e, e_error = f - x, f_error + 10.0 * ULP * _size(x)
    relative = relative + _dot_error(w.shape[0])
    weight = _size(density)
    alone, alone_error = _block_sums(density * f), _block_sums(weight * (f_error + relative * _size(f)))
    left, right = density * e, e[:, _OUTER:]
    size, loss = weight * _size(e), weight * (e_error + relative * _size(e))
    joint_error = _dot(loss[:, :_OUTER], _size(right)) + _dot(size[:, :_OUTER], e_error[:, _OUTER:])
    total = alone[:_OUTER, None] + alone[_OUTER:] + _dot(left[:, :_OUTER], right)
    return total, alone_error[:_OUTER, None] + alone_error[_OUTER:] + joint_error


def _weighted_sums(u: Any, is_outer: Any, v: Any, weight: Any, weight_error: Any) -> tuple[Any, Any]:
    """sum weight e^{-uV} at u = a + b, and its rounding error."""
    v, weight, relative = (x[:, None] for x in (v, weight, weight_error))
    x = v * u
    loss = (8.0 + 10.0 * _size(x)) * ULP + (relative + _dot_error(v.shape[0])) * is_outer
    value = _exp(-x)
    left, right = (weight * value)[:, :_OUTER], value[:, _OUTER:]
    left_size, right_size = _size(left), _size(right)
    error = _dot(left_size * loss[:, :_OUTER], right_size) + _dot(left_size, right_size * loss[:, _OUTER:])
    return _dot(left, right), error


_centred_program = HostProgram(_centred_sums)
_weighted_program = HostProgram(_weighted_sums)


def _on_line(program: HostProgram, centre: float, spacing: float, num_nodes: int, *tables: Any) -> tuple[Complex, Real]:
    """The program at u = centre + i k spacing, k < num_nodes, a block of nodes at a time: one shape to compile."""
    is_outer = np.repeat([1.0, 0.0], [_OUTER, NODE_BLOCK // _OUTER])
    inner = 1j * spacing * np.arange(NODE_BLOCK // _OUTER)
    outer = centre + 1j * (spacing * len(inner)) * np.arange(num_nodes // len(inner))
    starts = range(0, len(outer), _OUTER)
    parts = [program(np.concatenate([outer[i : i + _OUTER], inner]), is_outer, *tables) for i in starts]
    total, error = (np.concatenate([part[k].ravel() for part in parts]) for k in (0, 1))
    return total, error


def centred_transform(of: Grid, cut: Cutoff, centre: float, spacing: float, num_nodes: int) -> tuple[Complex, Real]:
    """E[e^{-uW} Q(rate Y)] - 1 at u = centre + i k spacing, and a bound on its error.

    Needs centre > -rate (centre >= 0 without cutoff). Besides rounding, the error is that of the rule and of the
    window. The integrand e^{-uW} Q - 1 + uW is, on the contour of eta', without cutoff at most

        (|u|^2/2) (1 + Y)^2 e^{Re u},  and  e^{Re u} + 1 + |u| (1 + Y);

    with it, |e^{-uW} Q - 1 + uW| <= |e^{-x} - 1 + x| |Q| + |1 - Q| (1 + |x|), x = uW, is at most

        (|u|^2/2) (1 + Y)^2 q + r (1 + |u| (1 + Y)),   q = e^{-(rate + Re u) cos(eta') Y} sum_{j<m} (rate Y)^j/j!,
        r = min(e^{(1 - cos eta') rate Y} (1 - Q)(rate Y), 1 + q).

    Expectations of these are taken on the same grid, and doubled.
    """
    zero = np.zeros_like(of.rotated_y)
    tables = (zero, zero + 1.0, zero) if cut is None else (cut.rotated_shift, cut.rotated_factor, cut.rotated_high)
    args = (of.rotated_w, of.rotated_density, of.density_error)
    total, error = _on_line(_centred_program, centre, spacing, num_nodes, *args, *tables)
    size, growth = np.hypot(centre, spacing * np.arange(num_nodes)), math.exp(max(centre, 0.0))
    variance = math.exp(of.s**2)
    tilt = math.exp(0.5 * (of.eta * of.sigma) ** 2)
    if cut is None:
        crude = np.minimum(0.5 * size**2 * (variance + 3.0), 1.0 + growth + 2.0 * size)
        bound = (of.strip(0.0, of.eta) + of.strip(of.eta_top, of.eta)) * growth * crude
        window = variance * normal_tail(of.g[-1] - 2.0 * of.s) + normal_tail(-of.g[0])
        return total, error + bound + 4.0 * tilt * growth * window * size**2
    bound = np.zeros(num_nodes)
    for eta_end in (0.0, of.eta_top):
        q, r = cut.bounds(of, eta_end, centre)
        moments = [float(of.density @ f) for f in ((1.0 + of.y) ** 2 * q, r, (1.0 + of.y) * r)]
        bound += 2.0 * of.strip(eta_end, of.eta) * (0.5 * size**2 * moments[0] + moments[1] + size * moments[2])
    right = (cut.largest_beyond(of, centre) + 1.0 + size) * normal_tail(of.g[-1]) + size * normal_tail(of.g[-1] - of.s)
    left = 4.0 * size**2 * normal_tail(-of.g[0]) + 4.0 * (1.0 + 2.0 * size) * cut.high[0] * normal_tail(-of.g[0])
    return total, error + bound + 2.0 * tilt * (right + left)


def weighted_transform(
    of: Grid, cut: Cutoff | None, centre: float, spacing: float, num_nodes: int
) -> tuple[Complex, Real]:
    """E[e^{-uW} (1 - Q)(rate Y)], or without cutoff E[e^{-uY}], at u = centre + i k spacing, centre >= 0, and its error.

    On the contour of eta' the integrand is at most e^{Re u} r (see `centred_transform`), or e^{-Re u cos(eta') Y}.
    """
    tilt = math.exp(0.5 * (of.eta * of.sigma) ** 2)
    ends = (0.0, of.eta_top)
    if cut is None:
        v, weight, growth, extra = of.rotated_y, of.rotated_density, 1.0, 0.0
        sizes = [float(of.density @ np.exp(-centre * math.cos(e) * of.y)) for e in ends]
        window = normal_tail(-of.g[0]) + normal_tail(of.g[-1])
    else:
        v, weight, growth = of.rotated_w, of.rotated_density * cut.rotated_high, math.exp(centre)
        extra = 2.0 * TABLE_ERROR
        sizes = [float(of.density @ cut.bounds(of, e, centre)[1]) for e in ends]
        window = (2.0 + cut.largest_beyond(of, 0.0)) * normal_tail(of.g[-1]) + 2.0 * cut.high[0] * normal_tail(-of.g[0])
    total, error = _on_line(_weighted_program, centre, spacing, num_nodes, v, weight, of.density_error + extra)
    bound = 2.0 * sum(of.strip(e, of.eta) * size for e, size in zip(ends, sizes, strict=True))
    return total, error + growth * (bound + 2.0 * tilt * window)


def normal_tail(x: float) -> float:
    """P[g > x]."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def high_mass(of: Grid, cut: Cutoff) -> tuple[float, float, float]:
    """E[1 - Q], E[W (1 - Q)], and their relative error, by the rule on the real line."""
    r = cut.bounds(of, of.eta_top, 0.0)[1]
    rounding = of.density * (of.density_error + 4.0 * ULP) * cut.high
    strip, outside = 4.0 * of.strip(of.eta_top, 0.0) * of.density * r, cut.high[0] * normal_tail(-of.g[0])
    mass, mean = math.fsum(of.density * cut.high), math.fsum(of.density * of.w * cut.high)
    mass_error = float((rounding + strip).sum()) + 4.0 * (normal_tail(of.g[-1]) + outside)
    mean_error = float(((rounding + strip) * (1.0 + of.y)).sum()) + 4.0 * (normal_tail(of.g[-1] - of.s) + outside)
    return mass, mean, 2.0 * TABLE_ERROR + max(mass_error / mass, mean_error / mean)


# Expectations of positive functions of the real Y need every other node only: both strips are of width eta_top.
_EVERY_OTHER = slice(None, None, 2)


def real_rule(of: Grid) -> tuple[Real, Real, Real]:
    """Y, W and weights of the rule for real expectations."""
    return of.y[_EVERY_OTHER], of.w[_EVERY_OTHER], 2.0 * of.density[_EVERY_OTHER]


def log_real_transform(of: Grid, low: Real | None, u: Real) -> Real:
    """log E[e^{-uW} Q] for real u, any shape, to some 1e-14; `low` is Q on the real rule, [.., G], None where Q = 1."""
    _, w, density = real_rule(of)
    x = u[..., None] * w
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        value = (np.exp(-x) if low is None else np.where(low > 0, np.exp(np.log(low) - x), 0.0)) - 1.0 + x
        total = value @ density
    return np.log1p(np.where(np.isfinite(total), total, np.inf))


def _decay_angles(of: Grid, heights: Real, count: int) -> Real:
    """Contours to try for the bounds below, the small ones about height/sigma^2: [len(heights), count]."""
    least = np.minimum(0.5 * heights / of.sigma**2, 0.5)[:, None]
    return least * (1.45 / least) ** np.linspace(0.0, 1.0, count)


def log_decay(of: Grid, cut: Cutoff | None, centre: float, heights: Real, num_angles: int = 24) -> Real:
    """Upper bounds on log |E[e^{-uW} Q]|, u = centre + iy, for all y >= height.

    On the contour of eta, |E[e^{-uY} Q]| <= e^{(eta sigma)^2/2} E[e^{-a Y - rate cos(eta) Y} sum_{j<m} (rate Y)^j/j!],
    a = Re(u e^{-i eta}) = centre cos(eta) + y sin(eta), increasing in y: at the height, the best of some eta.
    """
    y, _, density = real_rule(of)
    eta = _decay_angles(of, heights, num_angles)
    a = centre * np.cos(eta) + heights[:, None] * np.sin(eta)
    exponent = -a[..., None] * y
    if cut is not None:
        exponent = exponent - (cut.rate * np.cos(eta))[..., None] * y + cut.log_sum[_EVERY_OTHER]
    size = np.exp(np.clip(exponent, -700.0, 700.0)) @ density
    return np.min(centre + 0.5 * (eta * of.sigma) ** 2 + np.log(size), axis=-1) + 1e-14


def log_high_decay(of: Grid, cut: Cutoff, centre: float, heights: Real, num_angles: int = 24) -> Real:
    """The same for |E[e^{-uW} (1 - Q)]|, with r of `centred_transform`."""
    y, _, density = real_rule(of)
    high, log_sum = cut.high[_EVERY_OTHER], cut.log_sum[_EVERY_OTHER]
    eta = _decay_angles(of, heights, num_angles)
    turn, w = np.cos(eta)[..., None], cut.rate * y
    a = (centre * np.cos(eta) + heights[:, None] * np.sin(eta))[..., None]
    r = np.minimum((1.0 - turn) * w + np.log(np.maximum(high, 1e-300)), np.logaddexp(0.0, log_sum - w * turn))
    size = np.exp(np.clip(r - a * y, -700.0, 700.0)) @ density
    return np.min(centre + 0.5 * (eta * of.sigma) ** 2 + np.log(size), axis=-1) + 1e-14


@functools.lru_cache(maxsize=64)
def _decay_table(sigma: float) -> tuple[Real, Real]:
    heights = np.geomspace(1e-8, 1e8, 49)
    of = grid(sigma)
    return np.log(heights), log_decay(of, None, 0.0, heights, num_angles=8)


def height_of_decay(of: Grid, log_level: Real) -> Real:
    """Roughly, the height at which |E e^{-iyY}| has fallen to e^log_level < 1."""
    log_heights, logs = _decay_table(of.sigma)
    return np.exp(np.interp(np.log(-log_level), np.log(np.maximum(-logs, 1e-300)), log_heights))
