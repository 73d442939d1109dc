"""Epsilon and delta inside traced programs, from laws of points and one contour: upper ends, the worse direction.

What is released is a list of independent laws (`jaxacct.divergence.law`), each with how often it is run. One program of
fixed size serves every number that may be traced. Derivatives are those of the sum that gave the answer, by implicit
differentiation, from differences between laws; nothing that steers moves with them. Another mechanism gets a row in
`_LISTED`; another kind of release also a list in `_Releases`, its range in `_covered`, and what makes its law in
`_laws`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct._method import BOTH, Cost, Engine, Lanes, ProfileMethod, always
from jaxacct.bounds._parts import flattened
from jaxacct.bounds._split import splits_unevenly
from jaxacct.composition import allocation_groups
from jaxacct.divergence.law import (
    LEAST_NOISE,
    MOST_PROB,
    MOVED,
    Law,
    Line,
    Run,
    allocated,
    epsilon,
    gaussian_base,
    laplace_base,
    log_delta,
    rates,
    sampled,
    whole,
)
from jaxacct.mechanisms import Gaussian, Laplace, PoissonSampled, RandomAllocation
from jaxacct.mechanisms._base import Mechanism

_POINTS = 1008  # of a law
_BASE = 512  # of one ratio of an epoch's average
_BEND = 1.0  # how much narrower cells are where that average's spread is made
_LOG_CUT = -9.0  # log of the share of delta that may become infinite losses
_LOG_CUT_OF_BASE = -3.0  # log of the share of that which single ratios of an epoch may cut off
_MOST_STEPS = 2.0**40  # of an epoch
# where delta is asked, the log deltas that laws are made for: first, least and largest; and how often they are made
_FIRST, _LEAST, _LARGEST, _TIMES = -20.0, -60.0, -12.0, 3


class _Step(NamedTuple):
    """Steps that each record joins with a probability: the noise, the probability, how many."""

    noise: Any
    prob: Any
    count: Any


class _Epoch(NamedTuple):
    """Epochs in which each record joins one step: the noise, the steps of an epoch, how many epochs."""

    noise: Any
    steps: Any
    count: Any


class _Releases(NamedTuple):
    """What a mechanism consists of, by kind."""

    gaussian: list[_Step]
    laplace: list[_Step]
    epochs: list[_Epoch]


def _releases(mechanism: Mechanism, uneven: tuple[bool, ...]) -> _Releases:
    """`_Releases` of a mechanism of numbers; `uneven` says of each part, in order, whether groups of steps differ."""
    found = _Releases([], [], [])
    for (part, count), is_uneven in zip(flattened(mechanism), uneven, strict=True):
        _LISTED[part.signature()](found, part, count, is_uneven)
    return found


def _one(of: Any, count: Any) -> _Step:
    return _Step(of.noise_multiplier, jnp.ones(()), count)


def _sampled(of: Any, count: Any) -> _Step:
    return _Step(of.mechanism.noise_multiplier, of.sampling_prob, of.num_steps * count)


def _epochs(of: Any, count: Any, is_uneven: bool) -> list[_Epoch]:
    groups = allocation_groups(of.num_steps, of.num_selected, of.num_epochs, uneven=is_uneven)
    return [_Epoch(of.mechanism.noise_multiplier, n, runs * count) for n, runs in groups]


# what takes the releases of a part, run so many times, into a list
_LISTED: dict[Any, Callable[[_Releases, Any, Any, bool], None]] = {
    (Gaussian,): lambda found, of, count, _: found.gaussian.append(_one(of, count)),
    (Laplace,): lambda found, of, count, _: found.laplace.append(_one(of, count)),
    (PoissonSampled, Gaussian): lambda found, of, count, _: found.gaussian.append(_sampled(of, count)),
    (PoissonSampled, Laplace): lambda found, of, count, _: found.laplace.append(_sampled(of, count)),
    (RandomAllocation, Gaussian): lambda found, of, count, uneven: found.epochs.extend(_epochs(of, count, uneven)),
}


def has_laws(mechanism: Mechanism) -> bool:
    """bool: whether every part has a law here, and some part is no plain Gaussian release."""
    found = [part.signature() for part, _ in flattened(mechanism)]
    return all(signature in _LISTED for signature in found) and any(signature != (Gaussian,) for signature in found)


def _statics(mechanism: Mechanism) -> dict[str, Any]:
    parts: list[Any] = [part for part, _ in flattened(mechanism)]
    return {"uneven": tuple(p.signature()[0] is RandomAllocation and splits_unevenly(p) for p in parts)}


def _covered(of: _Releases) -> Any:
    """bool: whether all that is released is in the range of the laws."""
    found = [jnp.ones((), bool)]
    for step in (*of.gaussian, *of.laplace):
        found.append((step.noise >= LEAST_NOISE) & (step.prob > 0.0) & ((step.prob <= MOST_PROB) | (step.prob == 1.0)))
    for epoch in of.epochs:
        found.append((epoch.noise >= LEAST_NOISE) & (epoch.steps >= 1.0) & (epoch.steps <= _MOST_STEPS))
    return functools.reduce(jnp.logical_and, found)


def _harmless(of: _Releases, is_covered: Any) -> _Releases:
    """The same with numbers in the range of the laws where they are not, whose answers are not used."""
    usual = {"noise": 1.0, "prob": 0.5, "steps": 100.0, "count": 1.0}

    def kept(kind: Any) -> Any:
        return type(kind)(*(jnp.where(is_covered, x, usual[name]) for name, x in kind._asdict().items()))

    return _Releases(*(list(map(kept, kinds)) for kinds in of))


def _numbers(of: _Releases) -> Any:
    """[R, 3]: the numbers of all releases, in the order of their laws."""
    return jnp.stack([jnp.stack([jnp.asarray(x, jnp.float64) for x in kind]) for kinds in of for kind in kinds])


def _laws(of: _Releases, log_delta: Any, is_moved: bool) -> tuple[Law, Any, Any]:
    """Laws [R, V] of all releases for deltas like this one, how often they are run [R], and gaps [R, 2].

    Args:
      is_moved: static; whether there are V = 3 of each, the others with the noise, and the probability or the steps,
        moved by the gaps. Else V = 1.
    """
    numbers = _numbers(of)
    counts = numbers[:, 2]
    log_share = log_delta - jnp.log(jnp.maximum(jnp.sum(counts), 1.0)) + _LOG_CUT
    ends = np.cumsum([0, *(len(kinds) for kinds in of)])
    is_step = np.arange(len(counts)) < ends[2]
    # a probability that may be moved stays one
    size = jnp.where(is_step, jnp.maximum(1.0 - numbers[:, 1], 0.0), 1.0)
    gaps = MOVED * numbers[:, :2] * jnp.stack([jnp.ones_like(size), size], axis=1)
    ways = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[: 3 if is_moved else 1]
    numbers = numbers[:, None, :2] + ways * gaps[:, None]

    def of_gaussian(noise: Any, prob: Any) -> Law:
        return sampled(gaussian_base(noise, log_share, _POINTS - 1), prob)

    def of_laplace(scale: Any, prob: Any) -> Law:
        return sampled(laplace_base(scale, _POINTS - 1), prob)

    def of_epoch(noise: Any, steps: Any) -> Law:
        share = log_share - jnp.log(steps[0]) + _LOG_CUT_OF_BASE
        return allocated(jax.vmap(lambda x: whole(gaussian_base(x, share, _BASE, _BEND)))(noise), steps, log_share)

    makers = jax.vmap(of_gaussian), jax.vmap(of_laplace), of_epoch
    rows = (numbers[first:last] for first, last in itertools.pairwise(ends))
    laws = [jax.lax.map(lambda x, f=make: f(*x.T), x) for make, x in zip(makers, rows, strict=True) if len(x)]
    return jax.tree.map(lambda *x: jnp.concatenate(x), *laws), counts, gaps


def _run(laws: Law, counts: Any) -> Run:
    """The releases as they are."""
    return Run(jax.tree.map(lambda x: x[:, 0], laws), counts)


_WAYS = (False, True)  # remove, then add


def _worse(answer: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """The larger of the answers of the two directions, the line that gave it, and whether that is the add direction."""
    found = jax.lax.map(answer, jnp.asarray(_WAYS))
    is_add = found.value[1] > found.value[0]
    value, line = jax.tree.map(lambda x: jnp.where(is_add, x[1], x[0]), tuple(found))
    return value, line, is_add


def _drift(make: Callable[..., _Releases], leaves: Any, tangents: Any, by: Any) -> Any:
    """The change along `tangents` of what changes with each number of each release as `by` [R, 3] says."""
    active = [i for i, t in enumerate(tangents) if not isinstance(t, jax.custom_derivatives.SymbolicZero)]

    def numbers(*moving: Any) -> Any:
        whole = list(leaves)
        for i, x in zip(active, moving, strict=True):
            whole[i] = x
        return _numbers(make(*whole))

    if not active:
        return jnp.zeros(())
    _, moved = jax.jvp(numbers, [leaves[i] for i in active], [tangents[i] for i in active])
    return jnp.sum(by * moved)


def _tangent(t: Any) -> Any:
    return jnp.zeros(()) if isinstance(t, jax.custom_derivatives.SymbolicZero) else t


def _lane_epsilon(make: Callable[..., _Releases], target: Any, leaves: tuple[Any, ...]) -> Any:
    """Epsilon at a log delta, of one lane."""

    def found(target: Any, run: Run) -> tuple[Any, Any, Any]:
        return _worse(lambda add: epsilon(run, add, target))

    @jax.custom_jvp
    def upper(target: Any, *leaves: Any) -> Any:
        laws, counts, _ = _laws(make(*leaves), target, False)
        return found(target, _run(laws, counts))[0]

    @functools.partial(upper.defjvp, symbolic_zeros=True)
    def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        laws, counts, gaps = _laws(make(*primals[1:]), primals[0], True)
        value, line, add = found(primals[0], _run(laws, counts))
        known = jnp.isfinite(value) & (value > 0.0)
        slope, by = rates(laws, counts, gaps, line, add, jnp.where(known, value, 1.0))
        usable = known & (slope < 0) & jnp.all(jnp.isfinite(by))
        drift = _drift(make, primals[1:], tangents[1:], jnp.where(usable, by, 0.0))
        return value, jnp.where(usable, _tangent(tangents[0]) - drift, 0.0) / jnp.where(slope < 0, slope, -1.0)

    return upper(target, *leaves)


def _lane_log_delta(make: Callable[..., _Releases], at: Any, leaves: tuple[Any, ...]) -> Any:
    """log delta at an epsilon, of one lane."""

    def found(at: Any, is_moved: bool, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        """The answer, its line and direction, and the laws: made for the log delta that the laws before have given."""

        def again(_: int, state: tuple[Any, ...]) -> tuple[Any, ...]:
            laws, counts, gaps = _laws(make(*leaves), jnp.clip(state[0], _LEAST, _LARGEST), is_moved)
            run = _run(laws, counts)
            return *_worse(lambda add: log_delta(run, add, at)), (laws, counts, gaps)

        start = jnp.asarray(_FIRST), Line(*jnp.ones(3)), jnp.asarray(False)
        shapes = jax.eval_shape(lambda: again(0, start)[3])
        laws = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return jax.lax.fori_loop(0, _TIMES, again, (*start, laws))

    @jax.custom_jvp
    def upper(at: Any, *leaves: Any) -> Any:
        return found(at, False, leaves)[0]

    @functools.partial(upper.defjvp, symbolic_zeros=True)
    def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        value, line, add, (laws, counts, gaps) = found(primals[0], True, primals[1:])
        slope, by = rates(laws, counts, gaps, line, add, primals[0])
        usable = (value < 0.0) & jnp.isfinite(slope) & jnp.all(jnp.isfinite(by))
        drift = _drift(make, primals[1:], tangents[1:], jnp.where(usable, by, 0.0))
        return value, jnp.where(usable, slope, 0.0) * _tangent(tangents[0]) + drift

    return upper(at, *leaves)


def _on_lanes(of_lane: Callable[..., Any], worst: float, mechanism: Any, target: Any, uneven: tuple[bool, ...]) -> Any:
    leaves, structure = jax.tree.flatten(mechanism)

    def make(*leaves: Any) -> _Releases:
        of = _releases(jax.tree.unflatten(structure, leaves), uneven)
        return _harmless(of, _covered(of))

    def lane(row: tuple[Any, ...]) -> Any:
        target, *leaves = row
        is_covered = _covered(_releases(jax.tree.unflatten(structure, leaves), uneven))
        return jnp.where(is_covered, of_lane(make, target, tuple(leaves)), worst)

    return jax.lax.map(lane, (target, *leaves))


def _epsilon(mechanism: Any, log_delta: Any, *, uneven: tuple[bool, ...]) -> Any:
    """epsilon [L] at `log_delta` [L], the worse direction; inf where nothing is known."""
    return _on_lanes(_lane_epsilon, jnp.inf, mechanism, log_delta, uneven)


def _log_delta(mechanism: Any, epsilon: Any, *, uneven: tuple[bool, ...]) -> Any:
    """log delta [L] at `epsilon` [L], the worse direction; 0 where nothing is known."""
    return _on_lanes(_lane_log_delta, 0.0, mechanism, epsilon, uneven)


def _lane_bytes(*, uneven: tuple[bool, ...]) -> int:
    """Working memory of one lane, bytes."""
    return 2**21 * (1 + len(uneven))


def laws(spares: tuple[str, ...], applies: Callable[[Any], bool] = always) -> ProfileMethod:
    """A method (class `ProfileMethod`) for traced programs, of what `has_laws`.

    `spares` names the methods that need not be asked beside it.
    """
    return ProfileMethod(
        name="laws",
        engine=Engine.LAWS,
        theorem="Zhu, Dong & Wang 2022, Theorem 11, of dominating pairs with finitely many losses",
        directions=BOTH,
        applies=applies,
        cost=Cost.MILLISECONDS,
        cold=Cost.SECONDS,
        log_delta=_log_delta,
        epsilon=_epsilon,
        only_traced=always,
        spares=spares,
        is_listed=False,
        lanes=Lanes(statics=_statics, bytes=_lane_bytes, on_host=False),
    )
