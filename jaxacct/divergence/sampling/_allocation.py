"""Samples of the privacy loss of random allocation with Gaussian noise, on the device, in O(samples) memory.

Every sampler is a function of a key and the run's parameters that returns, for L independent samples, the privacy loss
and the log of an importance weight, float64 [L] each: delta(eps) is the mean of weight * (1 - e^(eps - loss))_+
(RA-S17, RA-S18). Steps are drawn in tiles of `rows` x L coordinates and summed as they come. Coordinates are float32
normals g, with likelihood ratio W = e^(s g - s^2/2), s = 1/sigma, summed in float64: an error of 5e-7 s |g| each,
without bias to first order. REMOVE is P against Q, ADD is Q against P; under P the record is in step one, by symmetry.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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

Losses = tuple[jax.Array, jax.Array]


class Run(NamedTuple):
    """float64 scalars: 1/sigma, t and the number of epochs."""

    inverse_sigma: jax.Array
    num_steps: jax.Array
    num_epochs: jax.Array


class Tile(NamedTuple):
    """Static: coordinates drawn at once (at least 2), samples drawn together, and the type in which e^(s g) is formed.

    float32 saves a quarter of the time. It needs 9.3 s < 88, and its errors, 1e-7 each and 1e-8 in the mean, are
    to be small against the standard deviation of X, about s / sqrt(t).
    """

    rows: int
    lanes: int
    ratio_dtype: Any = np.float64


def steps_total(key: jax.Array, num: jax.Array, terms: Callable[[jax.Array], jax.Array], tile: Tile) -> jax.Array:
    """Sum over `num` steps [..., L] of terms(key) [..., rows, L], which are drawn a tile at a time."""
    num = num.astype(jnp.int32)
    shape = jax.eval_shape(terms, key).shape

    def step(i: jax.Array, total: jax.Array) -> jax.Array:
        live = i * tile.rows + jnp.arange(tile.rows, dtype=jnp.int32) < num
        return total + jnp.sum(jnp.where(live[:, None], terms(jax.random.fold_in(key, i)), 0.0), axis=-2)

    num_tiles = (num + tile.rows - 1) // tile.rows
    return jax.lax.fori_loop(jnp.int32(0), num_tiles, step, jnp.zeros((*shape[:-2], tile.lanes), jnp.float64))


def log_ratio_sum(key: jax.Array, run: Run, num: jax.Array, tile: Tile, log_cdf: jax.Array | None = None) -> jax.Array:
    """log of the sum of e^(s g) over `num` steps [L]; each g below the point whose log Phi is `log_cdf` [L], if any."""

    dtype = tile.ratio_dtype

    def terms(key: jax.Array) -> jax.Array:
        g = normals(key, tile.rows, tile.lanes, log_cdf).astype(dtype)
        return jnp.exp(run.inverse_sigma.astype(dtype) * g).astype(jnp.float64)

    return jnp.log(steps_total(key, num, terms, tile))


def _over_epochs(key: jax.Array, run: Run, tile: Tile, one_epoch: Callable[[jax.Array], jax.Array]) -> Losses:
    """Losses of independent epochs add; no weight."""

    def step(epoch: jax.Array, total: jax.Array) -> jax.Array:
        return total + one_epoch(jax.random.fold_in(key, epoch))

    zeros = jnp.zeros(tile.lanes, jnp.float64)
    return jax.lax.fori_loop(jnp.int32(0), run.num_epochs.astype(jnp.int32), step, zeros), zeros


def log_average(run: Run, log_terms: Sequence[jax.Array]) -> jax.Array:
    """log X = log((1/t) sum of e^(s g - s^2/2)), from logs of parts of sum e^(s g)."""
    return log_sum_exp(jnp.stack(log_terms)) - 0.5 * run.inverse_sigma**2 - jnp.log(run.num_steps)


def special_noise(key: jax.Array, tile: Tile) -> jax.Array:
    """float64 [L], standard normal from 52 bits: for the record's own coordinate, on which a sample depends most."""
    return survival_inverse(jnp.log(uniforms(key, 1, tile.lanes)[0]))


def naive(key: jax.Array, run: Run, *, direction: Direction, tile: Tile) -> Losses:
    """One selected step: L = log((1/t) sum W_i) under P, or its negative under Q."""
    s = run.inverse_sigma

    def one_epoch(key: jax.Array) -> jax.Array:
        special, others = jax.random.split(key)
        if direction is Direction.ADD:
            return -log_average(run, [log_ratio_sum(others, run, run.num_steps, tile)])
        rest = log_ratio_sum(others, run, run.num_steps - 1.0, tile)
        return log_average(run, [s * (special_noise(special, tile) + s), rest])

    return _over_epochs(key, run, tile, one_epoch)


def append_coordinate(ratios: jax.Array, w: jax.Array, count: jax.Array) -> jax.Array:
    """The ratios [k, L] of elementary symmetric averages with coordinate number `count` (from 1), `w` [L], included.

    The averages x_j = e_j / C(i, j) over i coordinates obey x_j <- (1 - j/i) x_j + (j/i) w x_{j-1}. Their ratios
    rho_j = x_j / x_{j-1} always lie between the least and the greatest coordinate: with
    N_j = (1 - j/i) rho_j + (j/i) w,

        rho_j <- N_j (rho_{j-1} / N_{j-1}),   rho_0 / N_0 = 1,

    sums and quotients of positive numbers, at a fifth of the time of sums in log space. Ratios with j > i mean nothing,
    and are replaced when i reaches j.
    """
    j = jnp.arange(1, ratios.shape[0] + 1, dtype=jnp.float64)[:, None]
    share = jnp.minimum(j / count.astype(jnp.float64), 1.0)
    top = (1.0 - share) * ratios + share * w
    return top * jnp.concatenate([jnp.ones((1, *w.shape), jnp.float64), (ratios / top)[:-1]])


def several_selected(key: jax.Array, run: Run, *, num_selected: int, direction: Direction, tile: Tile) -> Losses:
    """k selected steps: X = e_k(W_1, .., W_t) / C(t, k), log X = sum_j log rho_j.

    No W overflows where sigma >= 1/16.
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
    """The ranks of Feldman and Shenfeld's experiments; every rank where t < 100 (then nothing is lost)."""
    t = num_steps
    if t < 100:
        return tuple(range(1, t + (direction is Direction.ADD)))
    spans = [(1, 100, 1), (100, 500, 10), (500, 1000, 50), (1000, t, 100)]
    return tuple(k for start, stop, step in spans for k in range(start, min(stop, t), step))


def rank_weights(ranks: Sequence[int], num_steps: int, direction: Direction) -> np.ndarray:
    """float64 [R]: how many coordinates each rank stands for, so that the loss is never below the true one.

    REMOVE: a rank stands for itself and those below it until the next rank. ADD: for itself and those above it since
    the previous rank; coordinates below the last rank are dropped. `ranks` count from the largest, the first is 1.
    """
    if direction is Direction.REMOVE:
        return np.diff(np.asarray([*ranks, num_steps], np.float64))
    return np.diff(np.asarray([0, *ranks], np.float64))


def rank_loss(run: Run, special: jax.Array | None, ranked: jax.Array, weights: jax.Array) -> jax.Array:
    """The loss [L] from coordinates `ranked` [R, L] (standard normals), each counted `weights` [R] times.

    REMOVE with the record's own coordinate `special` [L], in units of sigma; ADD where it is None.
    """
    s = run.inverse_sigma
    log_sum = log_sum_exp(s * ranked.astype(jnp.float64) + jnp.log(weights)[:, None])
    if special is None:
        return -log_average(run, [log_sum])
    return log_average(run, [s * special, log_sum])


def order_statistics(
    key: jax.Array,
    run: Run,
    gaps: jax.Array,
    weights: jax.Array,
    *,
    num_consecutive: int,
    direction: Direction,
    tile: Tile,
) -> Losses:
    """A loss never below the true one, from R order statistics of the coordinates (RA-S18).

    With d = t - 1 (REMOVE) or t (ADD) uniforms, the survival probabilities of ranks k_r are partial sums of gamma
    variates, G_1 + .. + G_r over the sum of all R + 1, with shapes k_r - k_{r-1} and d + 1 - k_R (`gaps`). The
    first `num_consecutive` ranks are 1, 2, ..: exponential variates.
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
