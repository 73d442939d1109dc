"""Monte Carlo estimates of delta for random allocation: an independent check, and the only answer for true k-of-t."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._jax import jax, jnp
from jaxacct._precision import HostProgram, is_traced
from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct._validate import check_count, check_delta, check_epsilon, checked_choice, checked_number
from jaxacct.answering._question import check_scalars
from jaxacct.divergence.sampling import _allocation as sampling
from jaxacct.divergence.sampling import _importance as importance
from jaxacct.divergence.sampling import _several as several
from jaxacct.divergence.sampling._allocation import Allocation, Tile
from jaxacct.divergence.sampling._chernoff import chernoff_upper_confidence as chernoff_upper_confidence
from jaxacct.divergence.sampling._draws import stream
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import expm1

__all__ = ["Estimate", "Sampler", "estimate_delta"]

_LEAST_NOISE = 1 / 16  # least noise multiplier: below it a likelihood ratio may overflow
_MOST_STEPS = 2**30  # most steps, which are counted in int32
_MOST_SELECTED = 2**16  # most steps that a record joins: each takes a number for every sample
_TILE = 2**17  # coordinates drawn at once, some megabytes: smaller tiles spend their time making keys
_CHUNK = 2**24  # coordinates in one call of the program, a tenth of a second, if that is more than a block of samples
_MOST_BLOCKS = 16  # blocks of samples in one call of the program
_RANKED = 2**16  # order statistics held at once
_RATIOS = 2**15  # elementary symmetric ratios held at once

Progress = Callable[[int, int], None]


class Sampler(enum.Enum):
    """How the privacy loss is drawn.

    * NAIVE: draws every coordinate; any number of epochs.
    * ORDER_STATISTICS: draws some ranks of the coordinates, each standing for its neighbours too, so that a sampled
      loss is never below the true one and delta is overestimated on average (nothing is lost below 100 steps). Any
      number of epochs.
    * CONDITIONAL: conditioned on the event outside which the loss cannot exceed epsilon (Chua et al. 2024). One epoch.
    * IMPORTANCE: tilted towards large losses, for small delta. For REMOVE, the record's own coordinate is tilted. For
      ADD, all coordinates are, and each value is at most the Chernoff bound, which makes the confidence bound small
      too. One epoch. Where a record joins several steps, all coordinates are tilted, in both directions; any number of
      epochs.

    >>> from jaxacct.estimation import Sampler
    >>> Sampler("order statistics").name
    'ORDER_STATISTICS'
    """

    NAIVE = "naive"
    ORDER_STATISTICS = "order statistics"
    CONDITIONAL = "conditional"
    IMPORTANCE = "importance"


class Estimate(NamedTuple):
    """An estimate of delta; floats, or arrays of the shape of the target epsilon.

    `mean` is the sample mean and `standard_error` its estimated standard deviation (0 where no sample had a loss above
    epsilon: the truth is then only known to lie below `upper_confidence`). `upper_confidence` is above delta with
    probability at least `confidence` over the samples: it can be wrong, so it is no certified bound. The estimate is
    from `num_samples` samples, drawn as `sampler` says, for the adjacency `neighboring_relation`; `bound` is ESTIMATE.

    >>> import jaxacct as ja
    >>> from jaxacct.estimation import estimate_delta
    >>> run = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=10)
    >>> found = estimate_delta(run, 0.1, num_samples=1000, seed=1)
    >>> found.bound.value, found.mean < found.upper_confidence
    ('estimate', True)
    """

    mean: Any
    standard_error: Any
    upper_confidence: Any
    confidence: float
    num_samples: int
    sampler: Sampler
    bound: Bound = Bound.ESTIMATE
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE


class _Plan(NamedTuple):
    """A sampler with its parameters; `log_scale` [G] is the log of the largest value a sample may take.

    With `by_moment` it is instead the log of the root of a bound on the second moment of the values.
    """

    draw: Callable[..., sampling.Losses]
    parameters: tuple[NDArray[Any], ...]
    static: dict[str, Any]
    tile: Tile
    log_scale: NDArray[Any]
    by_moment: bool = False


def estimate_delta(
    mechanism: RandomAllocation,
    target_epsilon: Any,
    *,
    num_samples: int,
    seed: int,
    direction: Direction | str | None = None,
    method: Sampler | str = Sampler.NAIVE,
    confidence: float = 0.99,
    progress: Progress | None = None,
) -> Estimate:
    """An `Estimate` of the delta of random allocation with Gaussian noise, from samples of the privacy loss.

    It is the mean of (1 - e^(eps - L))_+ over losses L drawn under the first of the two compared laws (Chua et al.
    2024; RA-S17 to RA-S19 of docs/papers/random_allocation.md). k-of-t is sampled as it is, not through its reduction
    to 1-of-t; the losses of epochs are independent and are added. Add/remove adjacency. The estimate is unbiased,
    except for ORDER_STATISTICS (see `Sampler`) and for normal coordinates in float32 (1e-5 of delta).

    `upper_confidence` is the Chernoff-KL bound c p, N kl(mean/c || p) = log(1/(1 - confidence)), for values in [0, c]:
    c is 1, the probability of the event (CONDITIONAL), 2 (IMPORTANCE, REMOVE), or the Chernoff bound on the tail
    (IMPORTANCE, ADD). It is at least about c log(1/(1 - confidence)) / N. Where a record joins several steps,
    IMPORTANCE has mean + sqrt(2 V log(1/(1 - confidence)) / N) instead, V a bound on the second moment of the values,
    which are not negative.

    Args:
      mechanism: `RandomAllocation` of `Gaussian`; scalar fields, noise_multiplier >= 1/16, num_steps <= 2^30,
        num_selected <= 2^16.
      target_epsilon: float >= 0, or an array [G]: one set of samples is used for all its points. The importance
        samplers are tuned to the smallest of them (CONDITIONAL; IMPORTANCE, ADD) or the largest (IMPORTANCE, REMOVE).
      num_samples: N, whole number >= 1.
      seed: whole number in [0, 2^64). The same seed gives the same samples, and more of them continue the sequence.
      direction: REMOVE or ADD; None for the larger of both, each at half of 1 - confidence.
      method: the sampler.
      confidence: probability in (0, 1), for each point separately; for a joint statement on G points ask for
        1 - (1 - confidence) / G.
      progress: called as progress(samples done, samples in all) after every chunk, for each direction; what it raises
        stops the run.

    Returns:
      An `Estimate`.

    Raises:
      ValueError: if an argument is out of range or traced, or the sampler does not apply to the mechanism.

    >>> import jaxacct as ja
    >>> from jaxacct.estimation import estimate_delta
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=3, num_selected=2)
    >>> found = estimate_delta(run, 0.5, num_samples=10**5, seed=0, direction=ja.Direction.REMOVE)
    >>> abs(found.mean - 0.3157157088) < 4 * found.standard_error      # the exact value
    True
    """
    sigma = _check_mechanism(mechanism, target_epsilon)
    check_epsilon("target_epsilon", target_epsilon)
    checked_number("num_samples", num_samples)
    check_count("num_samples", num_samples)
    checked_number("confidence", confidence)
    check_delta("confidence", confidence)
    if not (isinstance(seed, int | np.integer) and 0 <= seed < 2**64):
        raise ValueError(f"seed={seed!r} must be a whole number in [0, 2^64)")
    sampler: Sampler = checked_choice("method", method, *Sampler)
    directions = tuple(Direction) if direction is None else (checked_choice("direction", direction, *Direction),)
    if sampler in (Sampler.CONDITIONAL, Sampler.ORDER_STATISTICS) and mechanism.num_selected > 1:
        raise ValueError(
            f"num_selected={mechanism.num_selected} must be 1 for {sampler}: use Sampler.NAIVE or Sampler.IMPORTANCE"
        )
    one_epoch = sampler is Sampler.CONDITIONAL or (sampler is Sampler.IMPORTANCE and mechanism.num_selected == 1)
    if one_epoch and mechanism.num_epochs > 1:
        raise ValueError(f"num_epochs={mechanism.num_epochs} must be 1 for {sampler}: use Sampler.NAIVE")

    num_samples, epsilons = int(num_samples), np.asarray(target_epsilon, np.float64)
    error_prob = (1.0 - confidence) / len(directions)
    means, errors, uppers = [], [], []
    for one in directions:
        plan = _plan(mechanism, sigma, epsilons.reshape(-1), sampler, one)
        unit_mean, unit_error = _moments(mechanism, sigma, epsilons.reshape(-1), plan, num_samples, int(seed), progress)
        scale = np.exp(plan.log_scale)
        means.append(scale * unit_mean)
        errors.append(scale * unit_error)
        uppers.append(
            scale * (unit_mean + math.sqrt(-2.0 * math.log(error_prob) / num_samples))
            if plan.by_moment
            else chernoff_upper_confidence(scale * unit_mean, num_samples, error_prob, scale)
        )
    worse = np.argmax(means, axis=0)[None]
    shaped = (
        np.minimum(np.take_along_axis(np.stack(means), worse, 0), 1.0),
        np.take_along_axis(np.stack(errors), worse, 0),
        np.minimum(np.max(uppers, axis=0), 1.0),
    )
    mean, error, upper = (x.reshape(epsilons.shape) if epsilons.ndim else x.item() for x in shaped)
    return Estimate(mean, error, upper, confidence, num_samples, sampler)


def _check_mechanism(mechanism: object, target_epsilon: Any) -> float:
    """Returns the noise multiplier; raises ValueError for arguments that are not covered."""
    if is_traced(mechanism, target_epsilon):
        raise ValueError("estimate_delta needs concrete numbers: it cannot run inside jit, vmap or grad")
    if not isinstance(mechanism, Mechanism) or mechanism.signature() != (RandomAllocation, Gaussian):
        raise ValueError(
            f"mechanism={mechanism!r} must be RandomAllocation of Gaussian; for BallsInBins use jaxacct.correlated."
            "estimate_delta"
        )
    check_scalars(mechanism)
    run: Any = mechanism
    sigma = float(run.mechanism.noise_multiplier)
    if sigma < _LEAST_NOISE:
        raise ValueError(f"noise_multiplier={sigma} must be >= {_LEAST_NOISE} to be sampled")
    check_count("num_steps", run.num_steps, largest=_MOST_STEPS)
    check_count("num_epochs", run.num_epochs, largest=_MOST_STEPS)
    check_count("num_selected", run.num_selected, largest=_MOST_SELECTED)
    return sigma


def _tile(num_steps: int, sigma: float) -> Tile:
    """At most 256 rows, from few different numbers: each needs a program, and rows beyond the steps are wasted."""
    if num_steps <= 64:
        rows = max(1 << (num_steps - 1).bit_length(), 4)
    else:
        rows = 16 * math.ceil(num_steps / math.ceil(num_steps / 256) / 16)
    narrow = sigma >= 1 / 8 and sigma * math.sqrt(num_steps) <= 1e4
    return Tile(rows, _TILE // rows // 64 * 64, np.float32 if narrow else np.float64)


def _power_of_two(number: float, least: int, most: int) -> int:
    """The largest power of two <= number, within [least, most]."""
    return min(max(1 << max(math.floor(math.log2(max(number, 1.0))), 0), least), most)


def _plan(
    mechanism: RandomAllocation, sigma: float, epsilons: NDArray[Any], method: Sampler, direction: Direction
) -> _Plan:
    t, k = int(mechanism.num_steps), int(mechanism.num_selected)
    # Tiles depend on the mechanism alone, so that a seed's samples do not depend on how many are drawn.
    tile = _tile(t, sigma)
    static: dict[str, Any] = {"direction": direction}
    no_scale = np.zeros(epsilons.shape)
    if k > 1:
        tile = Tile(16, _power_of_two(_RATIOS / k, 16, 8192))
        static["num_selected"] = k
        if method is Sampler.IMPORTANCE and k < t and epsilons.size:
            found = several.proposal(sigma, t, k, int(mechanism.num_epochs), tuple(epsilons.tolist()), direction)
            log_scale = 0.5 * found.log_second_moment
            if np.all(log_scale < 0.0):  # else plain samples, whose values are at most 1, say more
                return _Plan(several.weighted_several, tuple(found.table), static, tile, log_scale, by_moment=True)
        return _Plan(sampling.several_selected, (), static, tile, no_scale)
    if method is Sampler.NAIVE or epsilons.size == 0 or (method is Sampler.ORDER_STATISTICS and t == 1):
        return _Plan(sampling.naive, (), static, tile, no_scale)
    if method is Sampler.ORDER_STATISTICS:
        ranks = sampling.default_ranks(t, direction)
        gaps = np.diff(np.asarray([0, *ranks, t + (direction is Direction.ADD)], np.float64))
        weights = sampling.rank_weights(ranks, t, direction)
        static["num_consecutive"] = int(np.argmax(np.append(gaps[:-1] != 1.0, True)))
        tile = Tile(2, _power_of_two(_RANKED / len(ranks), 1, 8192))
        return _Plan(sampling.order_statistics, (gaps, weights), static, tile, no_scale)
    least, most = float(epsilons.min()), float(epsilons.max())
    if method is Sampler.CONDITIONAL:
        threshold = importance.importance_threshold(sigma, t, least, direction)
        mass = importance.importance_mass(sigma, t, least, direction)
        log_cdf = np.asarray(importance.log_normal_cdf(threshold / sigma))
        log_mass = math.log(mass) if mass > 0.0 else -math.inf
        return _Plan(importance.conditioned, (log_cdf,), static, tile, no_scale + log_mass)
    if direction is Direction.REMOVE:
        shifts = importance.shifts_for(sigma, t, most)
        parameters = (shifts.probabilities, np.asarray(shifts.spacing))
        return _Plan(importance.shifted_remove, parameters, {}, tile, no_scale + math.log(2.0))
    tilt = importance.chernoff_tilt(sigma, least)
    return _Plan(
        importance.tilted_add, (np.asarray(tilt),), {}, tile, t * (tilt.log_psi + tilt.lam * np.exp(-epsilons))
    )


@HostProgram
def _chunk_moments(
    key_data: jax.Array,
    first: jax.Array,
    live: jax.Array,
    run: jax.Array,
    epsilons: jax.Array,
    log_scale: jax.Array,
    by_moment: jax.Array,
    *parameters: jax.Array,
    draw: Callable[..., sampling.Losses],
    tile: Tile,
    **static: Any,
) -> tuple[jax.Array, jax.Array]:
    """Mean and sum of squared deviations, [B, G] each, of values divided by e^log_scale: in [0, 1] unless `by_moment`.

    For blocks number `first`, first + 1, .., each with its own key, of which the first `live` [B] samples count.
    """

    def moments(number: jax.Array, live: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, log_weight = draw(stream(key_data, number), Allocation(*run), *parameters, tile=tile, **static)
        counted = jnp.arange(tile.lanes, dtype=jnp.float64) < live

        def at(point: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            epsilon, log_scale = point
            above = loss > epsilon
            most = jnp.where(by_moment, 300.0, 0.0)  # more has a probability below e^-600
            weight = jnp.exp(jnp.minimum(jnp.where(above, log_weight, 0.0) - log_scale, most))
            value = jnp.where(above & counted, -expm1(jnp.where(above, epsilon - loss, 0.0)) * weight, 0.0)
            mean = jnp.sum(value) / live
            return mean, jnp.sum(jnp.where(counted, (value - mean) ** 2, 0.0))

        return jax.lax.map(at, (epsilons, log_scale))

    def step(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        mean, squares = moments(first + i.astype(jnp.uint32), live[i])
        return state[0].at[i].set(mean), state[1].at[i].set(squares)

    empty = jnp.zeros((live.shape[0], epsilons.shape[0]), jnp.float64)
    return jax.lax.fori_loop(jnp.int32(0), jnp.sum(live > 0, dtype=jnp.int32), step, (empty, empty))


def _moments(
    mechanism: RandomAllocation,
    sigma: float,
    epsilons: NDArray[Any],
    plan: _Plan,
    num_samples: int,
    seed: int,
    progress: Progress | None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and its standard error, [G] each, of the values divided by e^log_scale."""
    key_data = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)  # that of jax.random.key(seed)
    run = np.array([1.0 / sigma, mechanism.num_steps, mechanism.num_epochs], np.float64)
    mean, squares, done = np.zeros(epsilons.shape), np.zeros(epsilons.shape), 0
    if np.all(np.isneginf(plan.log_scale)):
        return mean, squares
    call = functools.partial(_chunk_moments, draw=plan.draw, tile=plan.tile, **plan.static)
    work = plan.tile.lanes * math.prod(float(x) for x in _trees.leaves(mechanism)[1:])
    num_blocks = _power_of_two(_CHUNK / work, 1, _MOST_BLOCKS)
    scales = plan.log_scale, np.asarray(plan.by_moment)
    while done < num_samples:
        ends = np.minimum(done + plan.tile.lanes * np.arange(num_blocks + 1), num_samples)
        live = np.zeros(_MOST_BLOCKS)
        live[:num_blocks] = np.diff(ends)
        first = np.asarray(done // plan.tile.lanes, np.uint32)
        means, deviations = call(key_data, first, live, run, epsilons, *scales, *plan.parameters)
        for count, new_mean, new_squares in zip(live[live > 0], means, deviations, strict=False):
            # Chan, Golub and LeVeque's update of mean and squared deviations
            step = new_mean - mean
            mean = mean + step * (count / (done + count))
            squares = squares + new_squares + step * step * (done * count / (done + count))
            done += int(count)
        if progress is not None:
            progress(done, num_samples)
    return mean, np.sqrt(squares / num_samples / max(num_samples - 1, 1))
