"""Importance sampling of the privacy loss where a record joins several of t steps, Gaussian noise, for small delta.

Notation and results are those of `jaxacct.divergence.sampling._allocation`; losses add over epochs. X = e_k(W)/C(t, k)
is the likelihood ratio of an epoch. The coordinates are drawn independently: with a function R(z) > 0, constant on
cells of z, from a density proportional to R under Q, and the record's own ones from one proportional to R under P. Then
a sample's weight is a product over all coordinates of 1/R, up to a constant, so that it is unbiased whatever R is. R is
a power of the likelihood ratio of a Poisson-sampled step, which favours the losses of interest.

A sample's value v >= 0 has no useful upper bound, but its second moment has a bound V; and from below the mean of N
such values is sub-Gaussian, P(mean <= E v - x) <= e^{-N x^2 / (2V)} (since e^{-y} <= 1 - y + y^2/2 for y >= 0). The
bounds are integrals by quadrature, not rounded outwards: they are used for statements that hold with a given
probability.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct._types import Direction
from jaxacct.divergence.sampling._allocation import Allocation, Losses, Tile, append_coordinate
from jaxacct.divergence.sampling._draws import survival_inverse, uniforms

Real = np.ndarray[Any, np.dtype[np.float64]]

# They affect only the variance of the estimates.
_TUNINGS = (0.5, 1.0)  # c in units of k/t
_TILTS = tuple(float(x) for x in np.geomspace(0.6, 2500.0, 14))  # powers s
_CAPS = (5.0, 9.0, 15.0)  # log R is no larger, in the remove direction
_CELLS = 1536  # of a table
_RIGHT, _LEFT = 18.0, 7.5  # standard deviations covered; further left W is negligible
# Parameters of the bound on a second moment.
_BOUNDS = (0.5, 0.75, 0.9, 1.0)  # c in units of k/t
_EXPONENTS = np.geomspace(0.3, 300.0, 24)  # r
_NUM_ANGLES = 24  # nodes over v
_CUTS = (2.5, 4.0, 6.0, 9.0)  # a coordinate beyond one is a jump, and bounded by itself
_LOG_U = np.linspace(-30.0, 25.0, 380)  # nodes in log u; where the integrand is not inside them there is no bound
_INSIDE = 15.0  # in log: the decay that an integrand must have towards the ends of its nodes


class ProposalTable(NamedTuple):
    """A proposal, each row from the largest z to the least: for a coordinate (first) and for the record's own (second).

    Attributes:
      chosen: float64 [2, C + 1], cumulative probabilities of the cells.
      tails: float64 [2, C + 1], P(Z > z - shift) at their ends, the shift 0 or 1/sigma.
      log_weight: float64 [C], log of a coordinate's factor of the weight, by cell; for each own one log M is added.
      log_own: log M, float64 [].
    """

    chosen: Real
    tails: Real
    log_weight: Real
    log_own: Real


class Proposal(NamedTuple):
    """A `ProposalTable`, and log of a bound on the second moment of the values at each epsilon [G]."""

    table: ProposalTable
    log_second_moment: Real


class _Share(NamedTuple):
    """E epochs of k of t steps, the mean of z shifted by mu for the record."""

    mu: float
    num_steps: int
    num_selected: int
    num_epochs: int

    def log_ratio(self, z: Real, tuning: float) -> tuple[Real, Real, float]:
        """log Y and p = c W / Y [Z] at z, Y = 1 - c + c W, and c."""
        share = self.num_selected / self.num_steps
        c = tuning * share / (1.0 - share + tuning * share)
        log_w = self.mu * z - 0.5 * self.mu**2
        log_y = np.logaddexp(math.log1p(-c), math.log(c) + log_w)
        return log_y, np.exp(math.log(c) + log_w - log_y), c


def _log_sum(logs: Real) -> Real:
    """log of the sum of e^logs over the last axis."""
    top = logs.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.log(np.exp(logs - top).sum(-1)) + top[..., 0]


def _log_square(exponents: Real) -> Real:
    """log of the largest (1 - y)^2 y^r over 0 < y < 1 for each exponent r: (1 - y)^2 is at most that over y^r."""
    return 2.0 * np.log(2.0 / (exponents + 2.0)) + exponents * np.log(exponents / (exponents + 2.0))


def _log_normals(z: Real) -> Real:
    """log of the weights of equidistant nodes z under Q."""
    return -0.5 * z * z + math.log(z[1] - z[0]) - 0.5 * math.log(2.0 * math.pi)


_ENDS = np.concatenate([[np.inf], np.linspace(_RIGHT, -_LEFT, _CELLS - 1), [-np.inf]])  # of the cells, in z
_MIDDLES = np.concatenate([_ENDS[1:2], 0.5 * (_ENDS[1:-2] + _ENDS[2:-1]), _ENDS[-2:-1]])


def _masses(shift: float) -> tuple[Real, Real]:
    """P(Z > end - shift) at the cells' ends, and log of their masses."""
    tails = np.array([0.5 * math.erfc((z - shift) / math.sqrt(2.0)) for z in _ENDS])
    return tails, np.log(np.maximum(tails[1:] - tails[:-1], 1e-300))


def _table(of: _Share, log_r: Real) -> ProposalTable:
    """The table for log R [C] on the cells, scaled to mean 1 under Q."""
    rows = [_masses(shift) for shift in (0.0, of.mu)]
    log_r = log_r - _log_sum(rows[0][1] + log_r)
    logs = [log_masses + log_r for _, log_masses in rows]
    chosen = [np.append(0.0, np.cumsum(np.exp(x - _log_sum(x)))) for x in logs]
    return ProposalTable(
        np.stack([x / x[-1] for x in chosen]),
        np.stack([tails for tails, _ in rows]),
        -log_r,
        np.asarray(_log_sum(rows[1][1] + log_r)),
    )


def _at(table: ProposalTable, z: Real) -> Real:
    """The log weights [Z] of coordinates at z."""
    return table.log_weight[np.clip(np.searchsorted(-_ENDS, -z, side="right") - 1, 0, _CELLS - 1)]


@functools.lru_cache(maxsize=16)
def proposal(
    sigma: float, num_steps: int, num_selected: int, num_epochs: int, targets: tuple[float, ...], direction: Direction
) -> Proposal:
    """`Proposal` (arrays [2, C + 1]): the one with the least bound at the largest (remove) or least (add) epsilon.

    REMOVE: with M = E_P R the weight is M^k / prod R(z_i), and by (1 - y)_+^2 <= C_r y^-r

        E v^2 <= M^k C_r e^{-r eps} E_Q[X^{r + 1} / prod R].

    X <= (1/(pi b)) int_0^pi prod_i Y_i e^{-(1 - cos v) p_i (1 - p_i)} dv with b = C(t, k) c^k (1 - c)^(t - k), by
    Fourier inversion in the number of steps joined (RA-X11). By Minkowski's inequality the (r + 1)-th root of the
    expectation is at most the integral over v of the roots of products of t equal factors. Large powers of a single
    large W would dominate the bound, so samples with a coordinate beyond some z are bounded with an r of their own.

    ADD: the weight is 1 / prod R(z_i), and E v^2 <= C_r e^{-r eps} E_Q[X^-r / prod R]. X is the mean, over partitions
    into k blocks, of the product of the blocks' averages X_b (Feldman & Shenfeld 2025, Lemma 3.2), and x^-r is convex:
    by Jensen's inequality the expectation is at most the product over the blocks, of n steps each, of

        E_Q[X_b^-r / prod R] = (1/Gamma(r)) int_0^inf u^(r - 1) (E_Q[e^{-uW/n} / R])^n du.

    The bounds of independent epochs are multiplied.
    """
    of, epsilons = _Share(1.0 / sigma, num_steps, num_selected, num_epochs), np.array(targets)
    if direction is Direction.ADD:
        tables = [_table(of, -s * of.log_ratio(_MIDDLES, c)[0]) for c in _TUNINGS for s in (0.0, *_TILTS)]
        best = min(tables, key=lambda table: float(_add_bound(of, table, epsilons.min()[None])[0]))
        return Proposal(best, _add_bound(of, best, epsilons))
    log_rs = [s * of.log_ratio(_MIDDLES, c)[0] for c in _TUNINGS for s in (0.0, *_TILTS)]
    tables = [_table(of, np.minimum(log_r, cap)) for log_r in log_rs for cap in _CAPS]
    bounds = [_RemoveBound.of(of, c) for c in _BOUNDS]
    at, few = epsilons.max()[None], _EXPONENTS[::2]
    pairs = [(bound, table) for bound in bounds[1::2] for table in tables]
    _, best = min(pairs, key=lambda pair: float(pair[0](pair[1], at, few, _NUM_ANGLES // 4)[0]))
    return Proposal(best, np.min([bound(best, epsilons, _EXPONENTS, _NUM_ANGLES) for bound in bounds], axis=0))


class _RemoveBound(NamedTuple):
    """The bound for one c: nodes z, log Y and p at them, and log b."""

    share: _Share
    z: Real
    log_y: Real
    p: Real
    log_b: float

    @classmethod
    def of(cls, share: _Share, tuning: float) -> _RemoveBound:
        z = np.arange(-9.0, _RIGHT + 9.0, min(0.2, 0.4 / share.mu))
        log_y, p, c = share.log_ratio(z, tuning)
        t, k = share.num_steps, share.num_selected
        log_b = math.lgamma(t + 1) - math.lgamma(k + 1) - math.lgamma(t - k + 1) + k * math.log(c)
        return cls(share, z, log_y, p, log_b + (t - k) * math.log1p(-c))

    def __call__(self, table: ProposalTable, epsilons: Real, exponents: Real, num_angles: int) -> Real:
        """log of the bound [G]: by one r where no coordinate is beyond a z, and by another where one is."""
        of, log_weight = self.share, _log_normals(self.z) + _at(table, self.z)
        angles = math.pi * (np.arange(num_angles) + 0.5) / num_angles
        powers = exponents + 1.0
        ratio = self.log_y - (1.0 - np.cos(angles))[:, None] * (self.p * (1.0 - self.p))
        with np.errstate(all="ignore"):
            terms = powers[:, None, None] * ratio + log_weight
            outside = (terms[..., -1] > terms.max(-1) - _INSIDE).any(-1)

            def epoch(logs: Real) -> Real:
                """log of the bound for an epoch [R], from the logs of the products over its steps [R, V]."""
                root = _log_sum(logs / powers[:, None]) - math.log(num_angles) - self.log_b
                return powers * root + of.num_selected * float(table.log_own)

            def least(moment: Real, unknown: Any) -> Real:
                found = moment + _log_square(exponents) - exponents * epsilons[:, None]
                return np.where(np.isnan(found) | unknown, np.inf, found).min(-1)

            step = _log_sum(terms)
            whole = epoch(of.num_steps * step)
            found = [least(of.num_epochs * whole, outside)]
            for cut in np.searchsorted(self.z, _CUTS):
                near = of.num_epochs * epoch(of.num_steps * _log_sum(terms[..., :cut]))
                one_far = _log_sum(terms[..., cut:]) + (of.num_steps - 1) * step
                far = epoch(one_far) + (of.num_epochs - 1) * whole + math.log(of.num_steps * of.num_epochs)
                found.append(np.logaddexp(least(near, False), least(far, outside)))
        return np.min(found, axis=0)


def _add_bound(of: _Share, table: ProposalTable, epsilons: Real) -> Real:
    """log of the bound [G]; inf where there is none."""
    z = np.linspace(-9.0, 9.0, 721)
    w = np.exp(of.mu * z - 0.5 * of.mu**2)
    log_q = _log_normals(z) + _at(table, z)
    size, larger = divmod(of.num_steps, of.num_selected)
    log_gammas = np.array([math.lgamma(r) for r in _EXPONENTS])
    blocks = np.zeros(len(_EXPONENTS))
    with np.errstate(all="ignore"):
        for n, count in ((size, of.num_selected - larger), (size + 1, larger)):
            if count:
                log_psi = _log_sum(log_q - np.exp(_LOG_U)[:, None] * (w / n))
                logs = _EXPONENTS[:, None] * _LOG_U + n * log_psi
                inside = np.maximum(logs[:, 0], logs[:, -1]) < logs.max(-1) - _INSIDE
                whole = _log_sum(logs) + math.log(_LOG_U[1] - _LOG_U[0]) - log_gammas
                blocks = blocks + count * np.where(inside, whole, np.inf)
        found = of.num_epochs * blocks + _log_square(_EXPONENTS) - _EXPONENTS * epsilons[:, None]
    return np.where(np.isnan(found), np.inf, found).min(-1)


def weighted_several(
    key: jax.Array,
    run: Allocation,
    chosen: jax.Array,
    tails: jax.Array,
    log_weight: jax.Array,
    log_own: jax.Array,
    *,
    num_selected: int,
    direction: Direction,
    tile: Tile,
) -> Losses:
    """`Losses` [L] for k = `num_selected` steps by a `ProposalTable`: log X under P (REMOVE), minus that under Q (ADD).

    One uniform number chooses the cell of a coordinate, and its remainder the place in the cell, distributed as under
    Q (or P), by the inverse of the normal tail. X is that of `several_selected`.
    """
    s, k = run.inverse_sigma, num_selected
    num_own = k if direction is Direction.REMOVE else 0
    num_steps = run.num_steps.astype(jnp.int32)
    num_tiles = (num_steps + tile.rows - 1) // tile.rows

    def drawn(u: jax.Array, row: int) -> tuple[jax.Array, jax.Array]:
        """Ratios W e^(s^2/2) and log weights of the coordinates for which u was drawn; `row` is 1 for own ones."""
        cell = jnp.clip(jnp.searchsorted(chosen[row], u, side="right") - 1, 0, _CELLS - 1)
        share = (u - chosen[row][cell]) / (chosen[row][cell + 1] - chosen[row][cell])
        tail = tails[row][cell] + share * (tails[row][cell + 1] - tails[row][cell])
        return survival_inverse(jnp.log(tail)) + row * s, log_weight[cell]

    def epoch(number: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        epoch_key = jax.random.fold_in(key, number)

        def step(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            ratios, weight = state
            done = i * tile.rows
            place = done + jnp.arange(tile.rows, dtype=jnp.int32)
            u = uniforms(jax.random.fold_in(epoch_key, i), tile.rows, tile.lanes)
            z, log_weights = jax.lax.cond(
                done >= num_own,
                lambda: drawn(u, 0),
                lambda: tuple(
                    jnp.where((place < num_own)[:, None], own, other)
                    for own, other in zip(drawn(u, 1), drawn(u, 0), strict=True)
                ),
            )
            w = jnp.exp(s * z - 0.5 * s * s)
            ratios = jax.lax.fori_loop(
                jnp.int32(0),
                jnp.minimum(num_steps - done, tile.rows),
                lambda row, ratios: append_coordinate(ratios, w[row], done + row + 1),
                ratios,
            )
            return ratios, weight + jnp.sum(jnp.where((place < num_steps)[:, None], log_weights, 0.0), axis=0)

        log_x, weight = state
        start = (jnp.ones((k, tile.lanes), jnp.float64), weight)
        ratios, weight = jax.lax.fori_loop(jnp.int32(0), num_tiles, step, start)
        return log_x + jnp.sum(jnp.log(ratios), axis=0), weight

    none = jnp.zeros(tile.lanes, jnp.float64)
    log_x, weight = jax.lax.fori_loop(jnp.int32(0), run.num_epochs.astype(jnp.int32), epoch, (none, none))
    if direction is Direction.ADD:
        return -log_x, weight
    return log_x, weight + run.num_epochs * k * log_own
