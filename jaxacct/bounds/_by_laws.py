"""Epsilon and delta inside traced programs, from laws of points and one contour: upper ends, the worse direction.

What is released is a list of independent laws (`jaxacct.divergence.law`), each with how often it is run. One program of
fixed size serves every number that may be traced. Derivatives are those of the sum that gave the answer, by implicit
differentiation; nothing that steers is differentiated. Another mechanism gets a row in `_LISTED`; another kind of
release also a list in `_Releases`, its range in `_covered`, and what makes its law in `_run`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxacct._method import BOTH, Cost, Lanes, ProfileMethod, always
from jaxacct.bounds._parts import flattened
from jaxacct.bounds._split import splits_unevenly
from jaxacct.composition import allocation_groups
from jaxacct.divergence.law import (
    LEAST_NOISE,
    MOST_PROB,
    Line,
    Run,
    allocated,
    centre,
    epsilon,
    gaussian_base,
    laplace_base,
    log_delta,
    sampled,
    single_log_delta,
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


def _run(of: _Releases, log_delta: Any) -> Run:
    """The laws of all releases, for deltas like this one."""
    counts = jnp.stack([jnp.asarray(kind.count, jnp.float64) for kinds in of for kind in kinds])
    log_share = jax.lax.stop_gradient(log_delta - jnp.log(jnp.maximum(jnp.sum(counts), 1.0)) + _LOG_CUT)

    def stacked(kinds: Any) -> tuple[Any, ...]:
        return tuple(jnp.stack([jnp.asarray(x, jnp.float64) for x in column]) for column in zip(*kinds, strict=True))

    def of_gaussian(row: Any) -> Any:
        return sampled(gaussian_base(row[0], log_share, _POINTS - 1), row[1])

    def of_laplace(row: Any) -> Any:
        return sampled(laplace_base(row[0], _POINTS - 1), row[1])

    def of_epoch(row: Any) -> Any:
        base = whole(gaussian_base(row[0], log_share - jnp.log(row[1]) + _LOG_CUT_OF_BASE, _BASE, _BEND))
        return allocated(base, row[1], log_share)

    makers = of_gaussian, of_laplace, of_epoch
    laws = [jax.lax.map(make, stacked(kinds)) for make, kinds in zip(makers, of, strict=True) if kinds]
    return Run(jax.tree.map(lambda *x: jnp.concatenate(x), *laws), counts)


_WAYS = (False, True)  # remove, then add


def _worse(answer: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """The larger of the answers of the two directions, the line that gave it, and whether that is the add direction."""
    found = jax.lax.map(answer, jnp.asarray(_WAYS))
    is_add = found.value[1] > found.value[0]
    value, line = jax.tree.map(lambda x: jnp.where(is_add, x[1], x[0]), tuple(found))
    return value, line, is_add


def _central(run: Run, line: Any, add: Any, at: Any) -> tuple[Any, Any]:
    """log delta at an epsilon, as what answers has it, and its derivative there."""
    is_single = jnp.sum(run.count) == 1.0
    by_line, by_sum = centre(run, line, add, at), single_log_delta(run, add, at)
    return tuple(jnp.where(is_single, a, b) for a, b in zip(by_sum, by_line, strict=True))  # type: ignore[return-value]


def _partials(of: Callable[..., tuple[Any, Any]], leaves: Any, tangents: Any) -> tuple[Any, Any]:
    """The derivative of the first of ``of(*leaves)`` along `tangents`, and the second, in one program."""
    active = [i for i, t in enumerate(tangents) if not isinstance(t, jax.custom_derivatives.SymbolicZero)]

    def moved(moving: Any) -> tuple[Any, Any]:
        whole = list(leaves)
        for k, i in enumerate(active):
            whole[i] = moving[k]
        return of(*whole)

    if not active:
        return jnp.zeros(()), of(*leaves)[1]
    rates, second = jax.jacfwd(moved, has_aux=True)(jnp.stack([leaves[i] for i in active]))
    return rates @ jnp.stack([tangents[i] for i in active]), second


def _tangent(t: Any) -> Any:
    return jnp.zeros(()) if isinstance(t, jax.custom_derivatives.SymbolicZero) else t


def _lane_epsilon(make: Callable[..., _Releases], target: Any, leaves: tuple[Any, ...]) -> Any:
    """Epsilon at a log delta, of one lane."""

    def found(target: Any, *leaves: Any) -> tuple[Any, Any, Any]:
        run = _run(make(*leaves), target)
        return _worse(lambda add: epsilon(run, add, target))

    @jax.custom_jvp
    def upper(target: Any, *leaves: Any) -> Any:
        return found(target, *leaves)[0]

    @functools.partial(upper.defjvp, symbolic_zeros=True)
    def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        value, line, add = found(*primals)
        known = jnp.isfinite(value) & (value > 0.0)
        at = jnp.where(known, value, 1.0)
        drift, slope = _partials(
            lambda *leaves: _central(_run(make(*leaves), primals[0]), line, add, at), primals[1:], tangents[1:]
        )
        usable = known & (slope < 0) & jnp.isfinite(drift)
        return value, jnp.where(usable, (_tangent(tangents[0]) - drift) / jnp.where(slope < 0, slope, -1.0), 0.0)

    return upper(target, *leaves)


def _lane_log_delta(make: Callable[..., _Releases], at: Any, leaves: tuple[Any, ...]) -> Any:
    """log delta at an epsilon, of one lane."""

    def found(at: Any, *leaves: Any) -> tuple[Any, ...]:
        """The answer, and the log delta that its laws are made for: that which the laws before have given."""

        def again(_: int, state: tuple[Any, ...]) -> tuple[Any, ...]:
            near = jnp.clip(state[1], _LEAST, _LARGEST)
            run = _run(make(*leaves), near)
            return near, *_worse(lambda add: log_delta(run, add, at))

        first = jnp.asarray(_FIRST), jnp.asarray(_FIRST), Line(*jnp.ones(3)), jnp.asarray(False)
        near, value, line, add = jax.lax.fori_loop(0, _TIMES, again, first)
        return value, line, add, near

    @jax.custom_jvp
    def upper(at: Any, *leaves: Any) -> Any:
        return found(at, *leaves)[0]

    @functools.partial(upper.defjvp, symbolic_zeros=True)
    def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        value, line, add, near = found(*primals)
        drift, slope = _partials(
            lambda *leaves: _central(_run(make(*leaves), near), line, add, primals[0]), primals[1:], tangents[1:]
        )
        rate = slope * _tangent(tangents[0]) + drift
        return value, jnp.where((value < 0.0) & jnp.isfinite(rate), rate, 0.0)

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
