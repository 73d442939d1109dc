"""Samples of the privacy loss of random allocation with Gaussian noise, on the device, in O(samples) memory.

They estimate delta and certify nothing. Every sampler is a function of a key and the run's parameters that returns
`Losses`, two float64 arrays [L] for L independent samples (one a lane): the privacy loss and the log of an importance
weight, so that delta(eps) is the mean of weight * (1 - e^(eps - loss))_+ (RA-S17, RA-S18).

A coordinate is the output of one of the t steps of an epoch, divided by sigma. Coordinates are drawn in tiles of `rows`
x L, each of which is summed at once. They are float32 normals g, with likelihood ratio W = e^(s g - s^2/2),
s = 1/sigma, summed in float64: each has an error of 5e-7 s |g|, without bias to first order. X is the average of the t
ratios W. REMOVE is P against Q, ADD is Q against P; under P the record is in step one, by symmetry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import Array, jax, jnp
from jaxacct._types import Direction
from jaxacct.divergence.sampling._draws import (
    exponentials,
    gammas,
    normals,
    survival_inverse,
    tail_inverse,
    uniforms,
)
from jaxacct.special import log_sum_exp

Losses = tuple[Array, Array]


class Allocation(NamedTuple):
    """The parameters of the mechanism to be sampled, as float64 scalars."""

    inverse_sigma: jax.Array  # s = 1/sigma
    num_steps: jax.Array  # t, of one epoch
    num_epochs: jax.Array


class Tile(NamedTuple):
    """The sizes of one draw, all static: `rows` coordinates (at least 2) for `lanes` samples at once.

    `ratio_dtype` is the type in which e^(s g) is computed. float32 saves a quarter of the time. It needs 9.3 s < 88,
    and its errors, 1e-7 each and 1e-8 in the mean, have to be small relative to the standard deviation of X, about
    s / sqrt(t).
    """

    rows: int
    lanes: int
    ratio_dtype: Any = np.float64


def steps_total(key: jax.Array, num: jax.Array, terms: Callable[[jax.Array], jax.Array], tile: Tile) -> jax.Array:
    """Sums [..., L] over `num` (scalar) steps of terms(key) [..., rows, L], which are drawn a tile at a time."""
    num = num.astype(jnp.int32)
    shape = jax.eval_shape(terms, key).shape

    def step(i: jax.Array, total: jax.Array) -> jax.Array:
        live = i * tile.rows + jnp.arange(tile.rows, dtype=jnp.int32) < num
        return total + jnp.sum(jnp.where(live[:, None], terms(jax.random.fold_in(key, i)), 0.0), axis=-2)

    num_tiles = (num + tile.rows - 1) // tile.rows
    return jax.lax.fori_loop(jnp.int32(0), num_tiles, step, jnp.zeros((*shape[:-2], tile.lanes), jnp.float64))


def log_ratio_sum(
    key: jax.Array, run: Allocation, num: jax.Array, tile: Tile, log_cdf: jax.Array | None = None
) -> jax.Array:
    """log [L] of the sum of e^(s g) over `num` (scalar) steps.

    Each g is standard normal, or conditioned to lie below the point c with log Phi(c) = `log_cdf` [L].
    """

    dtype = tile.ratio_dtype

    def terms(key: jax.Array) -> jax.Array:
        g = normals(key, tile.rows, tile.lanes, log_cdf).astype(dtype)
        return jnp.exp(run.inverse_sigma.astype(dtype) * g).astype(jnp.float64)

    return jnp.log(steps_total(key, num, terms, tile))


def _over_epochs(key: jax.Array, run: Allocation, tile: Tile, one_epoch: Callable[[jax.Array], jax.Array]) -> Losses:
    """`Losses` [L] of a run whose losses add over independent epochs, without importance weights (log weight 0)."""

    def step(epoch: jax.Array, total: jax.Array) -> jax.Array:
        return total + one_epoch(jax.random.fold_in(key, epoch))

    zeros = jnp.zeros(tile.lanes, jnp.float64)
    return jax.lax.fori_loop(jnp.int32(0), run.num_epochs.astype(jnp.int32), step, zeros), zeros


def log_average(run: Allocation, log_terms: Sequence[jax.Array]) -> jax.Array:
    """log X [L], X = (1/t) sum of e^(s g - s^2/2): from the logs `log_terms`, [L] each, of parts of sum e^(s g)."""
    return log_sum_exp(jnp.stack(log_terms)) - 0.5 * run.inverse_sigma**2 - jnp.log(run.num_steps)


def special_noise(key: jax.Array, tile: Tile) -> jax.Array:
    """float64 [L], standard normal from 52 random bits.

    It is for the record's own coordinate, on which a sample depends most.
    """
    return survival_inverse(jnp.log(uniforms(key, 1, tile.lanes)[0]))


def naive(key: jax.Array, run: Allocation, *, direction: Direction, tile: Tile) -> Losses:
    """`Losses` [L] for one selected step: log X under P (REMOVE), minus that under Q (ADD), X = (1/t) sum W_i.

    The samples are drawn from P and Q themselves, hence without weights.
    """
    s = run.inverse_sigma

    def one_epoch(key: jax.Array) -> jax.Array:
        special, others = jax.random.split(key)
        if direction is Direction.ADD:
            return -log_average(run, [log_ratio_sum(others, run, run.num_steps, tile)])
        rest = log_ratio_sum(others, run, run.num_steps - 1.0, tile)
        return log_average(run, [s * (special_noise(special, tile) + s), rest])

    return _over_epochs(key, run, tile, one_epoch)


def append_coordinate(ratios: jax.Array, w: jax.Array, count: jax.Array) -> jax.Array:
    """Ratios rho_j [k, L], j = 1..k, of elementary symmetric averages after one more coordinate.

    `ratios` [k, L] are those before it, `w` [L] is its likelihood ratio and `count` its number, from 1. The averages
    x_j = e_j / C(i, j) over i coordinates, e_j the elementary symmetric polynomials, obey
    x_j <- (1 - j/i) x_j + (j/i) w x_{j-1}. Their ratios rho_j = x_j / x_{j-1} always lie between the least and the
    greatest coordinate: with
    N_j = (1 - j/i) rho_j + (j/i) w,

        rho_j <- N_j (rho_{j-1} / N_{j-1}),   rho_0 / N_0 = 1,

    which are sums and quotients of positive numbers, and take a fifth of the time of sums in log space. Ratios with
    j > i are meaningless, and are replaced when i reaches j.
    """
    j = jnp.arange(1, ratios.shape[0] + 1, dtype=jnp.float64)[:, None]
    share = jnp.minimum(j / count.astype(jnp.float64), 1.0)
    top = (1.0 - share) * ratios + share * w
    return top * jnp.concatenate([jnp.ones((1, *w.shape), jnp.float64), (ratios / top)[:-1]])


def several_selected(key: jax.Array, run: Allocation, *, num_selected: int, direction: Direction, tile: Tile) -> Losses:
    """`Losses` [L] for k = `num_selected` selected steps: log X under P (REMOVE), minus that under Q (ADD); no weight.

    X = e_k(W_1, .., W_t) / C(t, k), e_k the elementary symmetric polynomial; log X = sum_j log rho_j, see
    `append_coordinate`. No W overflows where sigma >= 1/16.
    """
    s, k = run.inverse_sigma, num_selected
    num_steps = run.num_steps.astype(jnp.int32)

    def one_epoch(key: jax.Array) -> jax.Array:
        def step(i: jax.Array, ratios: jax.Array) -> jax.Array:
            done = i * tile.rows
            g = normals(jax.random.fold_in(key, i), tile.rows, tile.lanes).astype(jnp.float64)
            special = done + jnp.arange(tile.rows, dtype=jnp.int32) < (k if direction is Direction.REMOVE else 0)
            w = jnp.exp(s * g + s * s * jnp.where(special, 0.5, -0.5)[:, None])
            return jax.lax.fori_loop(
                jnp.int32(0),
                jnp.minimum(num_steps - done, tile.rows),
                lambda row, ratios: append_coordinate(ratios, w[row], done + row + 1),
                ratios,
            )

        num_tiles = (num_steps + tile.rows - 1) // tile.rows
        ratios = jax.lax.fori_loop(jnp.int32(0), num_tiles, step, jnp.ones((k, tile.lanes), jnp.float64))
        log_x = jnp.sum(jnp.log(ratios), axis=0)
        return log_x if direction is Direction.REMOVE else -log_x

    return _over_epochs(key, run, tile, one_epoch)


def default_ranks(num_steps: int, direction: Direction) -> tuple[int, ...]:
    """Tuple of ints, increasing from 1: the order statistics to draw, counted from the largest coordinate.

    They are those of the experiments of Feldman & Shenfeld 2025; for t < 100 every rank, and then nothing is lost.
    """
    t = num_steps
    if t < 100:
        return tuple(range(1, t + (direction is Direction.ADD)))
    spans = [(1, 100, 1), (100, 500, 10), (500, 1000, 50), (1000, t, 100)]
    return tuple(k for start, stop, step in spans for k in range(start, min(stop, t), step))


def rank_weights(ranks: Sequence[int], num_steps: int, direction: Direction) -> NDArray[Any]:
    """float64 [R]: the number of coordinates each of R ranks represents, so that the loss is never below the true one.

    REMOVE: a rank represents itself and those below it until the next rank. ADD: itself and those above it since the
    previous rank; coordinates below the last rank are dropped. `ranks` count from the largest, the first is 1.
    """
    if direction is Direction.REMOVE:
        return np.diff(np.asarray([*ranks, num_steps], np.float64))
    return np.diff(np.asarray([0, *ranks], np.float64))


def rank_loss(run: Allocation, special: jax.Array | None, ranked: jax.Array, weights: jax.Array) -> jax.Array:
    """float64 [L]: the loss from coordinates `ranked` [R, L] (standard normals), each counted `weights` [R] times.

    REMOVE with the record's own coordinate `special` [L], in units of sigma; ADD where it is None.
    """
    s = run.inverse_sigma
    log_sum = log_sum_exp(s * ranked.astype(jnp.float64) + jnp.log(weights)[:, None])
    if special is None:
        return -log_average(run, [log_sum])
    return log_average(run, [s * special, log_sum])


def order_statistics(
    key: jax.Array,
    run: Allocation,
    gaps: jax.Array,
    weights: jax.Array,
    *,
    num_consecutive: int,
    direction: Direction,
    tile: Tile,
) -> Losses:
    """`Losses` [L], never below the true ones, from R order statistics of the coordinates (RA-S18); no weight.

    `weights` [R] are those of `rank_weights`. With d = t - 1 (REMOVE) or t (ADD) uniforms, the survival probabilities
    of ranks k_r are partial sums of gamma variates, G_1 + .. + G_r over the sum of all R + 1, with shapes k_r - k_{r-1}
    and d + 1 - k_R (`gaps` [R + 1]). The first `num_consecutive` (static) ranks are 1, 2, ..: their variates are
    exponential.
    """
    num_ranks = weights.shape[0]

    def one_epoch(key: jax.Array) -> jax.Array:
        special, near, far = jax.random.split(key, 3)
        steps = jnp.concatenate(
            [exponentials(near, num_consecutive, tile.lanes), gammas(far, gaps[num_consecutive:], tile.lanes)]
        )
        above = jnp.cumsum(steps, axis=0)
        total = above[-1]
        above = above[:num_ranks]
        upper = above < 0.5 * total
        tail = jnp.where(upper, above, total - above) / total
        g = tail_inverse(jnp.log((2.0 * tail).astype(jnp.float32)))
        ranked = jnp.where(upper, g, -g)
        own = special_noise(special, tile) + run.inverse_sigma if direction is Direction.REMOVE else None
        return rank_loss(run, own, ranked, weights)

    return _over_epochs(key, run, tile, one_epoch)
