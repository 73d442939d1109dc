"""Importance samplers of the privacy loss of 1-out-of-t allocation, Gaussian noise, for small delta.

Notation and results are those of `jaxacct.divergence.sampling._allocation`. Each sampler comes with the function that
chooses its parameters, on the host.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax, jnp
from jaxacct._types import Direction
from jaxacct.divergence.sampling._allocation import Allocation, Losses, Tile, log_average, log_ratio_sum, steps_total
from jaxacct.divergence.sampling._draws import normals, survival_inverse, uniforms, word_uniforms
from jaxacct.special import bisect, log1mexp, log1p, softplus


def importance_threshold(sigma: float, num_steps: int, epsilon: float, direction: Direction) -> float:
    """Float: the C such that the loss exceeds epsilon only in the event E_C (RA-S17; Chua et al. 2024).

    With x_i the output of step i, the record in step one under P:

    REMOVE: E_C = {max(x_1 - 1, x_2, .., x_t) >= C}, C = 1/2 + sigma^2 (eps - log1p(expm1(1/sigma^2)/t)).
    ADD: E_C = {max x_i <= C}, C = 1/2 + sigma^2 (log t - eps).
    """
    if direction is Direction.ADD:
        return 0.5 + sigma**2 * (math.log(num_steps) - epsilon)
    return 0.5 + sigma**2 * (epsilon - math.log1p(math.expm1(1.0 / sigma**2) / num_steps))


def log_normal_cdf(x: float) -> float:
    """Float: log Phi(x); -inf where Phi underflows."""
    tail = 0.5 * math.erfc(abs(x) / math.sqrt(2.0))
    return math.log1p(-tail) if x > 0 else math.log(tail) if tail else -math.inf


def importance_mass(sigma: float, num_steps: int, epsilon: float, direction: Direction) -> float:
    """Float: P(E_C), which is Phi(C/sigma)^t for ADD, 1 - Phi(C/sigma)^t for REMOVE; 0 where it underflows."""
    log_mass = num_steps * log_normal_cdf(importance_threshold(sigma, num_steps, epsilon, direction) / sigma)
    return math.exp(log_mass) if direction is Direction.ADD else -math.expm1(log_mass)


def conditioned(key: jax.Array, run: Allocation, log_cdf: jax.Array, *, direction: Direction, tile: Tile) -> Losses:
    """`Losses` [L] conditioned on the event E_C (RA-S17); the weight is its probability.

    `log_cdf` (scalar) is log Phi(C/sigma), C of `importance_threshold`. ADD: every coordinate is drawn below C. REMOVE:
    the maximum m of the t noises is drawn beyond C, by its inverse survival function, and put at a uniformly random
    place; the others are drawn below m; then the record's own coordinate is shifted.
    """
    s = run.inverse_sigma
    first, second, others = jax.random.split(key, 3)
    log_mass = jnp.full(tile.lanes, run.num_steps * log_cdf)
    if direction is Direction.ADD:
        below = jnp.full(tile.lanes, log_cdf)
        return -log_average(run, [log_ratio_sum(others, run, run.num_steps, tile, below)]), log_mass
    log_mass = log1mexp(log_mass)
    u, place = uniforms(first, 2, tile.lanes)
    log_cdf_of_max = log1p(-jnp.exp(log_mass) * u) / run.num_steps
    greatest = survival_inverse(log1mexp(log_cdf_of_max))
    another = normals(second, 2, tile.lanes, log_cdf_of_max)[0].astype(jnp.float64)
    own_is_greatest = place * run.num_steps < 1.0
    own = jnp.where(own_is_greatest, greatest, another) + s
    other = jnp.where(own_is_greatest, another, greatest)
    rest = log_ratio_sum(others, run, jnp.maximum(run.num_steps - 2.0, 0.0), tile, log_cdf_of_max)
    log_other = jnp.where(run.num_steps > 1.0, s * other, -jnp.inf)
    return log_average(run, [s * own, log_other, rest]), log_mass


# They affect only the variance of the estimates.
_NUM_HALVINGS = 80  # of the bisections: beyond the resolution of doubles
_NUM_SHIFTS = 8  # shifts of a coordinate besides 0
_LARGEST_SHIFT = 20.0  # in units of sigma; it keeps e^(shift g) finite. Such a coordinate has probability 1e-89
_LEAST_JUMPS = 0.2  # expected coordinates of each shift in a sample, at least: insurance against a bad fit


class Shifts(NamedTuple):
    """A mixture of shifted normals: the law of the shift of one coordinate, in units of sigma."""

    probabilities: NDArray[Any]  # float64 [9], of the shifts 0, d, .., 8 d
    spacing: float  # d


def shifts_for(sigma: float, num_steps: int, epsilon: float) -> Shifts:
    """`Shifts` (probabilities [9]): the mixture of normals nearest to the law of a coordinate where X is about e^eps.

    X becomes large by a general drift and by single jumps, W_1 about B = t (e^eps - 1) + 1. Both are represented in the
    density proportional to phi(g) e^(lambda min(W, B)) with lambda such that the mean of W is e^eps. Its best
    approximation (in Kullback-Leibler divergence, by expectation-maximisation) is returned, but with at least 0.2
    expected jumps of every size in a sample, as insurance.
    """
    s, excess = 1.0 / sigma, math.expm1(min(epsilon, 600.0))
    if excess == 0.0:
        return Shifts(np.eye(_NUM_SHIFTS + 1)[0], 1.0)
    jump = num_steps * excess + 1.0
    size = min((math.log(jump) + 0.5 * s * s) / s, _LARGEST_SHIFT)
    # W itself is the shift by s
    spacing = s if s >= 0.5 and size <= _NUM_SHIFTS * s <= _LARGEST_SHIFT else max(0.5, size / _NUM_SHIFTS)
    g = np.linspace(-10.0, 10.0 + size, 1501)
    w = np.exp(s * g - 0.5 * s * s)

    def tilted(log_lam: float) -> NDArray[Any]:
        log_density = math.exp(log_lam) * np.minimum(w, jump) - 0.5 * g * g
        density = np.exp(log_density - log_density.max())
        return density / density.sum()

    wanted = tilted(bisect(lambda x: float(tilted(x) @ w) < excess + 1.0, -40.0, 40.0, num_steps=_NUM_HALVINGS))
    shift = spacing * np.arange(_NUM_SHIFTS + 1)[:, None]
    ratios = np.exp(shift * g - 0.5 * shift**2)
    probabilities = np.full(_NUM_SHIFTS + 1, 1.0 / (_NUM_SHIFTS + 1))
    for _ in range(300):
        probabilities = probabilities * (ratios @ (wanted / (probabilities @ ratios)))
    probabilities[1:] = np.maximum(probabilities[1:], _LEAST_JUMPS / num_steps)
    return Shifts(probabilities / probabilities.sum(), spacing)


def shifted_remove(
    key: jax.Array, run: Allocation, probabilities: jax.Array, spacing: jax.Array, *, tile: Tile
) -> Losses:
    """`Losses` [L], REMOVE: half the samples from P, half with every coordinate from the mixture of `shifts_for`.

    `probabilities` [9] and d = `spacing` (scalar) are those of the `Shifts`. With m(g) = sum_j p_j e^(jd g - (jd)^2/2)
    the proposal's ratio to Q is (X + prod_i m(g_i)) / 2, and that of P is X: the weight is 2 X / (X + prod m), at most
    2. Since m applies to every coordinate of every sample, jumps of steps other than the record's, and several at a
    time, are drawn as often as they matter.
    """
    s = run.inverse_sigma
    first, others = jax.random.split(key)
    half, noise, choice = uniforms(first, 3, tile.lanes)
    shift = spacing * jnp.arange(_NUM_SHIFTS + 1, dtype=jnp.float64)
    factors = probabilities * jnp.exp(-0.5 * shift * shift)
    bounds = jnp.cumsum(probabilities)[:-1]
    from_p = half < 0.5

    def chosen(u: jax.Array) -> jax.Array:
        """The shift, chosen by one uniform number; none for samples from P."""
        index = sum((u > bounds[j]).astype(jnp.float64) for j in range(_NUM_SHIFTS))
        return jnp.where(from_p, 0.0, spacing * index)

    def log_mixture(g: jax.Array) -> jax.Array:
        z = jnp.exp(spacing * g)
        value = jnp.full_like(z, factors[-1])
        for j in range(_NUM_SHIFTS - 1, -1, -1):
            value = value * z + factors[j]
        return jnp.log(value)

    def both(key: jax.Array) -> jax.Array:
        first, second = jax.random.split(key)
        g = normals(first, tile.rows, tile.lanes).astype(jnp.float64) + chosen(
            word_uniforms(second, tile.rows, tile.lanes)
        )
        return jnp.stack([jnp.exp(s * g), log_mixture(g)])

    own = survival_inverse(jnp.log(noise)) + jnp.where(from_p, s, chosen(choice))
    total, log_product = steps_total(others, run.num_steps - 1.0, both, tile)
    log_x = log_average(run, [s * own, jnp.log(total)])
    excess = log_product + log_mixture(own) - log_x
    return log_x, math.log(2.0) - softplus(excess)


class ChernoffTilt(NamedTuple):
    """The tilted density phi(g) e^(-lambda W) / psi of one coordinate, psi = E_Q e^(-lambda W)."""

    lam: float  # lambda
    log_psi: float
    mode: float  # the g where the density is largest


def chernoff_tilt(sigma: float, epsilon: float) -> ChernoffTilt:
    """`ChernoffTilt` of floats, its lambda the one that minimises the Chernoff bound on Q[X <= e^-eps].

    That bound is (psi e^(lambda e^-eps))^t for t steps. At its minimum E[W e^(-lambda W)] / psi, which decreases in
    lambda from 1, equals e^-eps; this is solved by bisection in log lambda, as far as the mode is above -10. Any lambda
    is valid, for the bound as for `tilted_add`. psi is computed by the trapezoid rule in g, with an error below 1e-15.
    """
    if epsilon <= 0.0:
        return ChernoffTilt(0.0, 0.0, 0.0)
    s = 1.0 / sigma
    g = np.linspace(-20.0, 12.0, 6401)
    density = np.exp(-0.5 * g * g) * ((g[1] - g[0]) / math.sqrt(2.0 * math.pi))
    w = np.exp(s * g - 0.5 * s * s)

    def mean_of_tilted(log_lam: float) -> float:
        tilted = density * np.exp(-math.exp(log_lam) * w)
        return float(tilted @ w) / float(tilted.sum())

    largest = math.log(10.0 / s) + 10.0 * s + 0.5 * s * s
    lam = math.exp(bisect(lambda x: mean_of_tilted(x) > math.exp(-epsilon), -40.0, largest, num_steps=_NUM_HALVINGS))
    below_one = float(density @ np.expm1(-lam * w))
    log_psi = math.log1p(below_one) if below_one > -0.5 else math.log(float(density @ np.exp(-lam * w)))
    mode = bisect(lambda x: -x > lam * s * math.exp(s * x - 0.5 * s * s), -11.0, 0.0, num_steps=_NUM_HALVINGS)
    return ChernoffTilt(lam, log_psi, mode)


def tilted_add(key: jax.Array, run: Allocation, tilt: jax.Array, *, tile: Tile) -> Losses:
    """`Losses` [L], ADD: every coordinate from the density phi(g) e^(-lambda W) / psi.

    `tilt` is a `ChernoffTilt` as an array [3]. Candidates are drawn by rejection until each lane has t acceptances: W
    is convex in g, so its tangent at the mode m bounds the density by a normal one of mean m, and g ~ N(m, 1) is
    accepted with probability e^(-lambda (W(g) - W(m) (1 + s (g - m)))). The weight psi^t e^(lambda t X) is at most
    (psi e^(lambda e^-eps))^t wherever the loss -log X exceeds eps.
    """
    s = run.inverse_sigma
    lam, log_psi, mode = tilt
    at_mode = jnp.exp(s * mode - 0.5 * s * s)
    num_steps = run.num_steps.astype(jnp.int32)

    def attempt(state: Any) -> Any:
        i, count, total = state
        first, second = jax.random.split(jax.random.fold_in(key, i))
        z = normals(first, tile.rows, tile.lanes).astype(jnp.float64)
        w = jnp.exp(s * (z + mode) - 0.5 * s * s)
        u = word_uniforms(second, tile.rows, tile.lanes)
        accept = u < jnp.exp(-lam * (w - at_mode * (1.0 + s * z)))
        num = jnp.sum(accept, axis=0, dtype=jnp.int32)
        # the first t acceptances count: only in the last tiles does their order matter
        wanted = jax.lax.cond(
            jnp.any(count + num > num_steps),
            lambda: accept & (count + jnp.cumsum(accept, axis=0, dtype=jnp.int32) <= num_steps),
            lambda: accept,
        )
        total += jnp.sum(jnp.where(wanted, w, 0.0), axis=0)
        return i + 1, jnp.minimum(count + num, num_steps), total

    start = (jnp.int32(0), jnp.zeros(tile.lanes, jnp.int32), jnp.zeros(tile.lanes, jnp.float64))
    total = jax.lax.while_loop(lambda state: jnp.any(state[1] < num_steps), attempt, start)[2]
    return jnp.log(run.num_steps) - jnp.log(total), run.num_steps * log_psi + lam * total
