"""Random numbers for the Monte Carlo samplers: normal, exponential and gamma draws from `jax.random` keys.

Arrays have one row for each coordinate and one lane for each sample. The generator, Threefry, is named explicitly, and
both halves of its 64-bit blocks are used (`jax.random.bits` of 32 bits discards one). Normals are computed from uniform
numbers by inverting the tail probability in log space, with more bits where they matter. So neither tail ends at 5.4
standard deviations, as those of `jax.random.normal` in float32 do: of a million coordinates the largest lies beyond
that in one sample out of thirty.
"""

from __future__ import annotations

from typing import Any

from jaxacct._jax import jax, jnp
from jaxacct.special import expm1, log1mexp, log1p

# With p = 2(1 - Phi(g)) and r = sqrt(-2 log p): g = r^2 P(r) / Q(r) to 1.8e-7 max(1, g) for r in [0, 38.6], that is for
# p down to 1e-323. Fitted to SciPy's ndtri_exp by least squares, re-weighted towards the least maximum error. Highest
# power first.
_INVERSE_P = (-2.85444984e-08, 2.65914157e-02, 3.45606389e-01, 7.31479290e-01, 7.99311459e-01, 6.26555444e-01)
_INVERSE_Q = (2.658546e-02, 3.4629225e-01, 8.3576431e-01, 1.42955734, 1.27323065, 1.0)

_LOG_2 = 0.6931471805599453  # log 2
_FINE = 2**10  # in units of 2^-31: a tail probability below it gets 32 more bits


def stream(key_data: jax.Array, block: jax.Array) -> jax.Array:
    """Key (a scalar JAX key array, Threefry) of one block of samples, from uint32 [2] of seed and the block's number.

    The numbers drawn from it also depend on the setting `jax_threefry_partitionable`.
    """
    return jax.random.fold_in(jax.random.wrap_key_data(key_data, impl="threefry2x32"), block)


def words(key: jax.Array, rows: int, lanes: int) -> jax.Array:
    """uint32 [rows, lanes], uniform random words of 32 bits."""
    block = jax.random.bits(key, ((rows + 1) // 2, lanes), jnp.uint64)
    return jnp.concatenate([(block >> jnp.uint64(32)).astype(jnp.uint32), block.astype(jnp.uint32)])[:rows]


def uniforms(key: jax.Array, rows: int, lanes: int) -> jax.Array:
    """float64 [rows, lanes], strictly inside (0, 1): 52 random bits each, at the middle of their cell."""
    return ((jax.random.bits(key, (rows, lanes), jnp.uint64) >> jnp.uint64(12)).astype(jnp.float64) + 0.5) * 2.0**-52


def word_uniforms(key: jax.Array, rows: int, lanes: int) -> jax.Array:
    """float64 [rows, lanes], strictly inside (0, 1): 32 random bits each."""
    return (words(key, rows, lanes).astype(jnp.float64) + 0.5) * 2.0**-32


def exponentials(key: jax.Array, rows: int, lanes: int) -> jax.Array:
    """float64 [rows, lanes], standard exponential, relatively accurate near 0 (the largest order statistics)."""
    return -log1p(-word_uniforms(key, rows, lanes))


def tail_inverse(log_p: jax.Array) -> jax.Array:
    """Float array, shape and type of `log_p` <= 0: the g >= 0 with 2(1 - Phi(g)) = p.

    It is accurate to 1.8e-7 max(1, g), and the rounding of the type.
    """
    r = jnp.sqrt(jnp.maximum(-2.0 * log_p, 0.0))
    top, bottom = jnp.full_like(r, _INVERSE_P[0]), jnp.full_like(r, _INVERSE_Q[0])
    for a, b in zip(_INVERSE_P[1:], _INVERSE_Q[1:], strict=True):
        top, bottom = top * r + a, bottom * r + b
    return r * r * top / bottom


def survival_inverse(log_q: jax.Array) -> jax.Array:
    """Float array, shape of `log_q` < 0: the g of either sign with log(1 - Phi(g)) = log_q.

    It is as accurate as `tail_inverse`.
    """
    upper = log_q <= -_LOG_2
    log_tail = jnp.where(upper, log_q, log1mexp(jnp.where(upper, -1.0, log_q)))
    g = tail_inverse(jnp.minimum(log_tail + _LOG_2, 0.0))
    return jnp.where(upper, g, -g)


def normals(key: jax.Array, rows: int, lanes: int, log_cdf: jax.Array | None = None) -> jax.Array:
    """float32 [rows, lanes], standard normal, or conditioned to lie below the point c with log Phi(c) = `log_cdf` [L].

    With v in (0, 1) of 32 random bits, Phi(g) = v Phi(c). Of the two tails at g the smaller is inverted, and its
    probability is never computed as one minus the other; where it is below 2^-21 it gets another 32 bits. So |g|
    reaches 9.2, and below c the upper tail is 1 - Phi(c) + (1 - v) Phi(c), a sum of positive terms.
    """
    first, second = jax.random.split(key)
    bits = words(first, rows, lanes)
    if log_cdf is None:
        lower = bits < jnp.uint32(2**31)
    else:
        cdf = jnp.exp(log_cdf).astype(jnp.float32)
        lower = bits.astype(jnp.float32) * jnp.float32(2.0**-32) * cdf < jnp.float32(0.5)
    tail = jnp.where(lower, bits, ~bits)
    p = (tail.astype(jnp.float32) + 0.5) * jnp.float32(2.0**-31)

    def refined() -> jax.Array:
        more = (words(second, rows, lanes).astype(jnp.float32) + 0.5) * jnp.float32(2.0**-32)
        fine = (tail.astype(jnp.float32) + more) * jnp.float32(2.0**-31)
        return jnp.where(tail < jnp.uint32(_FINE), fine, p)

    p = jax.lax.cond(jnp.any(tail < jnp.uint32(_FINE)), refined, lambda: p)
    if log_cdf is None:
        log_p = jnp.log(p)
    else:
        survival = -expm1(log_cdf).astype(jnp.float32)
        log_p = jnp.log(jnp.where(lower, p, 2.0 * survival + cdf * p))
        log_p += jnp.where(lower, log_cdf.astype(jnp.float32), jnp.float32(0.0))
    g = tail_inverse(log_p)
    return jnp.where(lower, -g, g)


def gammas(key: jax.Array, shapes: jax.Array, lanes: int) -> jax.Array:
    """float64 [rows, lanes], gamma variates of the `shapes` [rows] >= 1.

    They are drawn by the rejection method of Marsaglia & Tsang (ACM TOMS 26, 2000), all entries at once until each has
    been accepted, mostly in two rounds. (`jax.random.gamma` runs its loop element by element on the CPU.)
    """
    rows = shapes.shape[0]
    d = shapes[:, None] - 1.0 / 3.0
    c = jax.lax.rsqrt(9.0 * d)

    def attempt(state: Any) -> Any:
        i, value, done = state
        first, second = jax.random.split(jax.random.fold_in(key, i))
        x = normals(first, rows, lanes).astype(jnp.float64)
        u = word_uniforms(second, rows, lanes)
        cube = (1.0 + c * x) ** 3
        positive = cube > 0
        safe = jnp.where(positive, cube, 1.0)
        accept = positive & (u < jnp.exp(0.5 * x * x + d * (1.0 - safe + jnp.log(safe))))
        return i + 1, jnp.where(done, value, d * safe), done | accept

    start = (jnp.int32(0), jnp.ones((rows, lanes), jnp.float64), jnp.zeros((rows, lanes), bool))
    return jax.lax.while_loop(lambda state: ~jnp.all(state[2]), attempt, start)[1]
