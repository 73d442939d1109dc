"""Upper bounds on epsilon and delta inside traced programs, from discrete laws and one contour integral.

The result is that of the worse direction. A mechanism is a list of independent releases, each with a law
(`jaxacct.divergence.law`) and its number of runs; `jaxacct.bounds._releases` makes the list. One program of fixed size
handles all values of the numbers that may be traced. Derivatives are those of the sum that gave the answer, by implicit
differentiation, from differences between laws; numbers that only steer the computation are held constant.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct._method import BOTH, NO_POINT, Cost, Engine, ProfileMethod, Role, always
from jaxacct._precision import platform
from jaxacct._types import Direction
from jaxacct.bounds._clones_pair import has_pair
from jaxacct.bounds._known_laws import Known, all_given
from jaxacct.bounds._releases import (
    WHOLE_POINTS,
    Releases,
    covered,
    harmless,
    nothing_known,
    numbers_of,
    releases_of,
    room_of,
    statics,
)
from jaxacct.bounds._unamplified import unamplified_epsilon, unamplified_log_delta
from jaxacct.divergence.law import (
    MOVED,
    BasePoints,
    Law,
    LawLine,
    RepeatedLaws,
    allocated,
    clones_grid,
    clones_law,
    discrete_gaussian_base,
    discrete_laplace_base,
    epsilon,
    gaussian_base,
    guarantee_base,
    laplace_base,
    log_delta,
    rates,
    replaced,
    response_base,
    sampled,
    whole,
)

_LANES_AT_ONCE = 256  # on an accelerator; a CPU takes one lane after another, which is no slower and needs less memory
_POINTS = 1008  # of a law
_BASE = 512  # points of the law of one ratio in an epoch's average
# cells are narrower by cosh of this where ratios are large; at most what docs/numerics/laws.md derives widths for
_BEND = 2.5
_LOG_CUT = -7.0  # log of the share of delta that may become infinite losses
_LOG_CUT_OF_BASE = -3.0  # log of the share of that share which the single ratios of an epoch may cut off
# where delta is asked: the log deltas that laws are made for (first, least, largest), and how many times they are made
_FIRST, _LEAST, _LARGEST, _TIMES = -20.0, -60.0, -12.0, 3


def _along(make: Callable[..., Law]) -> Callable[..., Law]:
    """A function that makes laws [V] from numbers [V]; each law may cut off the same share of delta."""
    return lambda log_share, *numbers: jax.vmap(functools.partial(make, log_share))(*numbers)


def _laws(of: Releases, given: Law | None, log_delta: Any, is_moved: bool) -> tuple[Law, Any, Any]:
    """Laws [R, V] of all releases, made for deltas near this one; the number of runs of each [R]; and gaps [R, P].

    Args:
      given: constants [W, K], the laws of the last K releases in each direction, of which the first is taken here.
      is_moved: static; whether there are V = 1 + P laws of each release, the others with one of its P numbers moved by
        its gap. Else V = 1.
    """
    numbers = numbers_of(of)
    numbers, counts = numbers[:, :-1], numbers[:, -1]
    # an equal share for each law, however many times it is run
    num_laws = jnp.maximum(jnp.sum(counts > 0.0), 1)
    log_shares = log_delta - jnp.log(num_laws * jnp.maximum(counts, 1.0)) + _LOG_CUT
    ends = np.cumsum([0, *(len(kinds) for kinds in of)])
    gaps = MOVED * numbers * room_of(of, numbers)
    ways = np.concatenate([np.zeros((1, gaps.shape[1])), np.eye(gaps.shape[1])])[: None if is_moved else 1]
    numbers = numbers[:, None] + ways * gaps[:, None]

    def of_gaussian(log_share: Any, noise: Any, prob: Any) -> Law:
        return sampled(gaussian_base(noise, log_share, _POINTS - 1), prob, log_share)

    def of_laplace(log_share: Any, scale: Any, prob: Any) -> Law:
        del log_share  # nothing is cut off
        return sampled(laplace_base(scale, _POINTS - 1), prob)

    def of_pair(base: Callable[..., BasePoints]) -> Callable[..., Law]:
        return lambda _, a, b, prob: sampled(base(a, b, WHOLE_POINTS), prob)

    def of_discrete_gaussian(log_share: Any, scale: Any, sensitivity: Any, prob: Any) -> Law:
        return sampled(discrete_gaussian_base(scale, sensitivity, WHOLE_POINTS), prob, log_share)

    def of_response(_: Any, loss: Any, categories: Any) -> Law:
        return sampled(response_base(loss, categories, WHOLE_POINTS), jnp.ones(()))

    def of_replaced(log_share: Any, noise: Any, prob: Any) -> Law:
        return replaced(noise, prob, log_share, _POINTS)

    def of_epoch(log_share: Any, noise: Any, steps: Any) -> Law:
        share = log_share - jnp.log(steps[0]) + _LOG_CUT_OF_BASE
        return allocated(jax.vmap(lambda x: whole(gaussian_base(x, share, _BASE, _BEND)))(noise), steps, log_share)

    def of_laplace_epoch(log_share: Any, scale: Any, steps: Any) -> Law:
        return allocated(jax.vmap(lambda x: whole(laplace_base(x, _BASE)))(scale), steps, log_share)

    def of_round(log_share: Any, local: Any, clones: Any, reports: Any) -> Law:
        grid = clones_grid(reports[0], clones[0], log_share, _POINTS)
        return jax.vmap(lambda a, b, c: clones_law(a, b, c, grid, _POINTS))(local, clones, reports)

    makers: dict[str, Callable[..., Law]] = {
        "gaussian": _along(of_gaussian),
        "laplace": _along(of_laplace),
        "replaced": _along(of_replaced),
        "epochs": of_epoch,
        "laplace_epochs": of_laplace_epoch,
        "rounds": of_round,
        "given": _along(of_pair(guarantee_base)),
        "responses": _along(of_response),
        "discrete_gaussian": _along(of_discrete_gaussian),
        "discrete_laplace": _along(of_pair(discrete_laplace_base)),
    }
    laws = []
    widths = [len(kinds[0]) - 1 if kinds else 0 for kinds in of]
    for name, width, (first, last) in zip(of._fields, widths, itertools.pairwise(ends), strict=True):
        if width and name in makers:
            rows = log_shares[first:last], numbers[first:last]
            laws.append(jax.lax.map(lambda x, f=makers[name], n=width: f(x[0], *x[1].T[:n]), rows))
    if given is not None:
        laws.append(jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x[0])[:, None], len(ways), axis=1), given))
    return jax.tree.map(lambda *x: jnp.concatenate(x), *laws), counts, gaps


def _toward(laws: Law, given: Law | None, add: Any) -> Law:
    """The laws [R, V] of one direction: those of traced numbers are used for both, given laws have one for each."""
    if given is None or given.points.shape[0] == 1:
        return laws

    def chosen(whole: Any, ways: Any) -> Any:
        own = jnp.where(add, ways[1], ways[0])[:, None]
        return whole.at[-own.shape[0] :].set(jnp.broadcast_to(own, (own.shape[0], *whole.shape[1:])))

    return jax.tree.map(chosen, laws, given)


def _run(laws: Law, given: Law | None, counts: Any, add: Any) -> RepeatedLaws:
    """The releases as they are, in one direction."""
    toward = _toward(jax.tree.map(lambda x: x[:, :1], laws), given, add)
    return RepeatedLaws(jax.tree.map(lambda x: x[:, 0], toward), counts)


_WAYS = (False, True)  # remove, then add


def _worse(ways: tuple[bool, ...], answer: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """The larger answer over the directions, the line that gave it, and whether it is that of the add direction."""
    if len(ways) == 1:
        return *answer(jnp.asarray(False)), jnp.asarray(False)
    found = jax.vmap(answer)(jnp.asarray(ways))
    is_add = found.value[1] > found.value[0]
    value, line = jax.tree.map(lambda x: jnp.where(is_add, x[1], x[0]), tuple(found))
    return value, line, is_add


def _drift(make: Callable[..., Releases], leaves: Any, tangents: Any, by: Any) -> Any:
    """The derivative along `tangents` of a value whose derivative by each number of each release is `by` [R, P + 1]."""
    active = [i for i, t in enumerate(tangents) if not isinstance(t, jax.custom_derivatives.SymbolicZero)]

    def numbers(*moving: Any) -> Any:
        whole = list(leaves)
        for i, x in zip(active, moving, strict=True):
            whole[i] = x
        return numbers_of(make(*whole))

    if not active:
        return jnp.zeros(())
    _, moved = jax.jvp(numbers, [leaves[i] for i in active], [tangents[i] for i in active])
    return jnp.sum(by * moved)


def _tangent(t: Any) -> Any:
    return jnp.zeros(()) if isinstance(t, jax.custom_derivatives.SymbolicZero) else t


class _Lane(NamedTuple):
    """What is the same for all lanes.

    Attributes:
      make: ``(*leaves) -> `` the releases.
      given: the laws of known parts, constants [W, K]; or None.
      ways: for each direction, whether it is the add direction.
    """

    make: Callable[..., Releases]
    given: Law | None
    ways: tuple[bool, ...]


def _lane_epsilon(lane: _Lane, target: Any, leaves: tuple[Any, ...]) -> Any:
    """Epsilon at a log delta, for one lane."""
    make, given, ways = lane

    def found(target: Any, laws: Law, counts: Any) -> tuple[Any, Any, Any]:
        return _worse(ways, lambda add: epsilon(_run(laws, given, counts, add), add, target))

    @jax.custom_jvp
    def upper(target: Any, *leaves: Any) -> Any:
        laws, counts, _ = _laws(make(*leaves), given, target, False)
        return found(target, laws, counts)[0]

    @functools.partial(upper.defjvp, symbolic_zeros=True)
    def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        laws, counts, gaps = _laws(make(*primals[1:]), given, primals[0], True)
        value, line, add = found(primals[0], laws, counts)
        is_found = jnp.isfinite(value) & (value > 0.0)
        at = jnp.where(is_found, value, 1.0)
        slope, by = rates(_toward(laws, given, add), counts, gaps, line, add, at)
        usable = is_found & (slope < 0) & jnp.all(jnp.isfinite(by))
        drift = _drift(make, primals[1:], tangents[1:], jnp.where(usable, by, 0.0))
        return value, jnp.where(usable, _tangent(tangents[0]) - drift, 0.0) / jnp.where(slope < 0, slope, -1.0)

    return upper(target, *leaves)


def _lane_log_delta(lane: _Lane, at: Any, leaves: tuple[Any, ...]) -> Any:
    """log delta at an epsilon, for one lane."""
    make, given, ways = lane

    def found(at: Any, is_moved: bool, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        """The answer, its line and direction, and the laws, each time made for the log delta found before."""

        def again(_: int, state: tuple[Any, ...]) -> tuple[Any, ...]:
            goal = jnp.clip(state[0], _LEAST, _LARGEST)
            laws, counts, gaps = _laws(make(*leaves), given, goal, is_moved)
            worse = _worse(ways, lambda add: log_delta(_run(laws, given, counts, add), add, at))
            return *worse, (laws, counts, gaps)

        start = jnp.asarray(_FIRST), LawLine(*jnp.ones(3)), jnp.asarray(False)
        shapes = jax.eval_shape(lambda: again(0, start)[3])
        laws = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return jax.lax.fori_loop(0, _TIMES, again, (*start, laws))

    @jax.custom_jvp
    def upper(at: Any, *leaves: Any) -> Any:
        return found(at, False, leaves)[0]

    @functools.partial(upper.defjvp, symbolic_zeros=True)
    def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        value, line, add, (laws, counts, gaps) = found(primals[0], True, primals[1:])
        slope, by = rates(_toward(laws, given, add), counts, gaps, line, add, primals[0])
        usable = (value < 0.0) & jnp.isfinite(slope) & jnp.all(jnp.isfinite(by))
        drift = _drift(make, primals[1:], tangents[1:], jnp.where(usable, by, 0.0))
        return value, jnp.where(usable, slope, 0.0) * _tangent(tangents[0]) + drift

    return upper(at, *leaves)


def _on_lanes(
    of_lane: Callable[..., Any],
    mechanism: Any,
    target: Any,
    uneven: tuple[bool, ...],
    known: tuple[Known | None, ...],
) -> Any:
    leaves, structure = jax.tree.flatten(mechanism)

    def releases(*leaves: Any) -> Releases:
        return releases_of(jax.tree.unflatten(structure, leaves), uneven, known)

    def make(*leaves: Any) -> Releases:
        of = releases(*leaves)
        return harmless(of, covered(of))

    # where adjacency is symmetric, one direction stands for both
    lane = _Lane(make, all_given(tuple(of for of in known if of is not None)), _WAYS[: len(mechanism.directions)])
    rows, at_once = (target, *leaves), None if platform() == "cpu" else _LANES_AT_ONCE
    return jax.lax.map(lambda row: of_lane(lane, releases(*row[1:]), row[0], tuple(row[1:])), rows, batch_size=at_once)


def _epsilon(mechanism: Any, log_delta: Any, **static: Any) -> Any:
    """epsilon [L] at `log_delta` [L], the worse direction; inf where nothing is known."""

    def one(lane: _Lane, of: Releases, target: Any, leaves: Any) -> Any:
        found = jnp.where(covered(of), _lane_epsilon(lane, target, leaves), jnp.inf)
        return jnp.minimum(found, unamplified_epsilon(of, target))

    return _on_lanes(one, mechanism, log_delta, **static)


def _log_delta(mechanism: Any, epsilon: Any, **static: Any) -> Any:
    """log delta [L] at `epsilon` [L], the worse direction; 0 where nothing is known."""

    def one(lane: _Lane, of: Releases, at: Any, leaves: Any) -> Any:
        found = jnp.where(covered(of), _lane_log_delta(lane, at, leaves), 0.0)
        return jnp.minimum(found, unamplified_log_delta(of, at))

    return _on_lanes(one, mechanism, epsilon, **static)


def _lane_bytes(*, uneven: tuple[bool, ...], known: tuple[Known | None, ...]) -> int:
    """Working memory of one lane, bytes."""
    del known  # constants of the program
    return 2**21 * (3 + len(uneven))


def laws(
    applies: Callable[[Any], bool] = always,
    known_of: Callable[[Any], Known | None] = nothing_known,
    **options: Any,
) -> ProfileMethod:
    """A method (class `ProfileMethod`) for traced programs, for mechanisms that have laws (`has_laws`).

    Args:
      known_of: gives what is known of a part that has no law of traced numbers.
    """
    return ProfileMethod(
        name="laws",
        engine=Engine.LAWS,
        theorem="Zhu, Dong & Wang 2022, Theorem 11, of dominating pairs with finitely many losses",
        applies=applies,
        cost=Cost.MILLISECONDS,
        log_delta=_log_delta,
        epsilon=_epsilon,
        statics=functools.partial(statics, known_of=known_of),
        lane_bytes=_lane_bytes,
        numpy=NO_POINT,
        **{"directions": BOTH, "role": Role.BEST_IN_PROGRAMS, **options},
    )


def laws_of_reports(applies: Callable[[Any], bool] = has_pair, **options: Any) -> ProfileMethod:
    """A method (class `ProfileMethod`) like `laws`, for shuffled reports: REMOVE stands for both directions."""
    return laws(applies, directions=(Direction.REMOVE,), **options)
