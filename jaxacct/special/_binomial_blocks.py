"""Binomial laws from below, in blocks of consecutive counts: so many counts that they are not summed one by one."""

from __future__ import annotations

from jaxacct._jax import jax
from jaxacct.special._binomial import log_binomial_pmf, pmf_rounding
from jaxacct.special._namespace import xp


def binomial_blocks_below(
    n: jax.Array, p: jax.Array, one_minus_p: jax.Array, first: jax.Array, stride: jax.Array, *, sign: float, window: int
) -> tuple[jax.Array, jax.Array]:
    """(log mass, mean count), each [W, L], of laws that lie below Bin(n, p) on disjoint blocks of `stride` counts.

    Block i starts at `first` + sign i stride. The log pmf is concave, so that it lies above its chords between
    the blocks' first counts: on a block the law is geometric, with closed mass and mean. The last block before the
    end of the support, or of the window, is its first count only. With a stride of 1 the law is the pmf itself.

    Subtracted: the pmf's error, that of its evaluation and that of p, whose last digit moves it by c - n p.
    """
    index = xp.arange(window, dtype=xp.int32).astype(xp.float64)[:, None]
    count = first + sign * stride * index
    inside = (count >= 0) & (count <= n)
    value = log_binomial_pmf(xp.where(inside, count, 0.0), n, p, one_minus_p)
    value = value - pmf_rounding(value) - 2.0**-49 * (8.0 + xp.abs(count - n * p))
    start = xp.where(inside, value, -xp.inf)
    whole = inside[:-1] & inside[1:]
    rise = xp.concatenate([xp.where(whole, value[1:] - value[:-1], 0.0), xp.zeros_like(value[:1])])
    whole = xp.concatenate([whole, xp.zeros_like(whole[:1])])
    # a lower end than the true one only lowers the law
    rise = xp.where(xp.abs(rise) > 1e-12, xp.minimum(rise, 700.0), -1e-12)
    step = rise / stride
    mass = start + xp.where(whole, xp.log(xp.expm1(rise) / xp.expm1(step)), 0.0) - 2.0**-48
    offset = 0.5 * (stride - 1.0 + stride * langevin(0.5 * rise) - langevin(0.5 * step))
    return mass, count + sign * xp.where(whole, offset, 0.0)


def langevin(z: jax.Array) -> jax.Array:
    """coth z - 1/z, of the shape of z, with absolute error 1e-14: tanh by 5 ULP where it is 0.1 or more."""
    small = xp.abs(z) < 0.1
    x = xp.where(small, z, 0.0)
    y = x * x
    series = x * (1.0 / 3.0 - y * (1.0 / 45.0 - y * (2.0 / 945.0 - y * (1.0 / 4725.0 - y * 2.0 / 93555.0))))
    far = xp.where(small, 1.0, z)
    return xp.where(small, series, 1.0 / xp.tanh(far) - 1.0 / far)
