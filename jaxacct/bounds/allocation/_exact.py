"""The exact profile of one epoch of 1-out-of-t random allocation, finished or not, both directions, certified.

Feldman & Shenfeld 2025, Theorem 3.1 and Lemma F.1: the Gaussian mechanism's worst case at every step is attained.
After the first n of t steps the likelihood ratio is X = 1 + (1/t) sum_{i<=n} (Y_i - 1). Add/remove adjacency. Host
side; see `jaxacct.divergence.allocation._profile`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct._method import (
    BOTH,
    Bracketing,
    BracketMethod,
    Cost,
    Engine,
    LaneBracketMethod,
    Lanes,
    Query,
    always,
    never,
)
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._inversion import Size
from jaxacct.bounds._moments import many_brackets
from jaxacct.divergence.allocation._epoch_lanes import epoch_delta, epoch_epsilon
from jaxacct.divergence.allocation._profile import AllocationProfile
from jaxacct.mechanisms import PartialAllocation, RandomAllocation
from jaxacct.special import LEAST_NORMAL, up


def is_single_round(mechanism: RandomAllocation) -> bool:
    """bool: whether it is one epoch, in which each record joins one step; False where that is traced."""
    counts = (mechanism.num_selected, mechanism.num_epochs)
    return not is_traced(counts) and all(bool(np.all(np.equal(count, 1))) for count in counts)


@functools.lru_cache(maxsize=64)
def _profile(noise_multiplier: float, num_steps: int, steps_done: int, direction: Direction) -> AllocationProfile:
    return AllocationProfile(noise_multiplier, num_steps, direction, steps_done=steps_done)


def _largest_loss(num_steps: int, steps_done: int) -> float:
    """The largest loss of the add direction, rounded up: -log(1 - n/t), since X is at least 1 - n/t."""
    share = steps_done / num_steps
    return up(-math.log1p(-share), 32) if share < 1.0 else math.inf


def _left_tail(noise_multiplier: float, num_steps: int, steps_done: int, epsilon: float) -> float:
    """Upper bound on delta, add direction: e^eps (gap) P[X < e^-eps], gap = e^-eps - (1 - n/t).

    X - (1 - n/t) is n/t times an average, never below its geometric mean, which is lognormal.
    """
    share, most = steps_done / num_steps, _largest_loss(num_steps, steps_done)
    gap = share + math.expm1(-epsilon) + 2.0**-50 * share
    if gap <= 0.0 or epsilon >= most:
        return 0.0 if epsilon >= most else math.exp(epsilon) * 2.0**-49 * share
    z = (math.log(gap / share) + 0.5 / noise_multiplier / noise_multiplier) * noise_multiplier * math.sqrt(steps_done)
    below = 0.5 * math.erfc(-z / math.sqrt(2.0)) * (1.0 + 2.0**-40 * (1.0 + z * z))
    return min(1.0, up(math.exp(epsilon) * gap * below, 32))


def _ends(mechanism: Any, steps_done: int, query: Query, target: float, direction: Direction) -> Ends[float]:
    sigma, steps = float(mechanism.mechanism.noise_multiplier), int(mechanism.num_steps)
    profile = _profile(sigma, steps, steps_done, direction)
    is_add = direction is Direction.ADD
    if query is Query.EPSILON:
        found = profile.epsilon(target)
        lower, upper = float(found.lower), float(found.upper)
        upper = min(upper, _largest_loss(steps, steps_done)) if is_add else upper
    else:
        at = profile.delta(np.array([target]))
        lower, upper = float(at.lower[0]), float(at.upper[0])
        upper = min(upper, _left_tail(sigma, steps, steps_done, target)) if is_add else upper
        upper = max(upper, LEAST_NORMAL)
    return Ends(min(lower, upper), upper)


def _bracket(
    mechanism: Any, steps_done: int, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    try:
        found: dict[Direction, Ends[float]] = {}
        with np.errstate(all="ignore"):  # what overflows fails closed
            for d, known in at.known.items():
                below = max((ends.lower for ends in found.values()), default=0.0)
                is_enough = known.upper <= below
                found[d] = known if is_enough else _ends(mechanism, steps_done, query, target, d)
        return found
    except OverflowError:
        return dict.fromkeys(at.known, Ends(0.0, query.worst))


def _whole(mechanism: RandomAllocation, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends of one whole epoch, in each direction."""
    return _bracket(mechanism, int(mechanism.num_steps), query, target, at)


def _unfinished(
    mechanism: PartialAllocation, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """The ends of an unfinished epoch, in each direction; add: epsilon is at most -log(1 - n/t)."""
    return _bracket(mechanism, int(mechanism.steps_done), query, target, at)


# From cheap to sharp; inside a user's program the second. Twice as many nodes of the rule cost ten times as much (the
# tables leave the cache), as much as the host's answer.
_SIZES = (Size(64, 128), Size(256, 256), Size(512, 256))
_NOISE = (0.2, 1e3)  # noise multipliers that the kernel on lanes answers for
_MOST_STEPS = 2.0**40  # and steps of an epoch


def _covered(mechanism: Any) -> Any:
    """Where the kernel on lanes answers: one epoch, in which each record joins one step, of usual noise and length."""
    sigma, steps = mechanism.mechanism.noise_multiplier, mechanism.num_steps
    one_each = (mechanism.num_selected == 1) & (mechanism.num_epochs == 1)
    return one_each & (steps >= 1) & (steps <= _MOST_STEPS) & (sigma >= _NOISE[0]) & (sigma <= _NOISE[1])


def _on_lanes(mechanism: RandomAllocation, query: Query, target: jax.Array, *, size: Size) -> Ends[jax.Array]:
    """Certified ends [2, L] of one whole epoch: remove, then add. At worst (0, inf), or (0, 1) of a delta.

    Differentiable: both ends have the derivatives of the value between them.
    """
    sigma, steps = mechanism.mechanism.noise_multiplier, mechanism.num_steps
    known = _covered(mechanism) & query.allowed(target)
    asked = jnp.where(known, target, 0.5)
    fields = [jnp.concatenate([x, x]) for x in (jnp.where(known, sigma, 1.0), jnp.where(known, steps, 1.0), asked)]
    add = jnp.arange(2 * len(sigma)) >= len(sigma)
    ends = (_epsilon_on_lanes if query is Query.EPSILON else _delta_on_lanes)(size, add)(*fields)
    lower, upper = (x.reshape(2, -1) for x in ends)
    return Ends(jnp.where(known, lower, 0.0), jnp.where(known, upper, query.worst))


def _epsilon_on_lanes(size: Size, add: jax.Array) -> Any:
    """``(sigma, steps, delta) -> Ends`` of epsilon [L], differentiated by the implicit function theorem."""

    @jax.custom_jvp
    def ends(sigma: jax.Array, steps: jax.Array, delta: jax.Array) -> Ends[jax.Array]:
        return epoch_epsilon(sigma, steps, add, jnp.log(delta), **size._asdict())

    @ends.defjvp
    def _jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[Any, Any]:
        found = ends(*primals)
        sigma, steps, _ = primals
        at = jnp.where(jnp.isfinite(found.upper), found.upper, 1.0)

        def centre(*fields: jax.Array) -> jax.Array:
            return epoch_delta(fields[0], fields[1], add, fields[2], **size._asdict())[0]

        one = jnp.ones_like(at)
        _, slope = jax.jvp(lambda epsilon: centre(sigma, steps, epsilon), (at,), (one,))
        _, drift = jax.jvp(lambda *x: centre(*x, at), (sigma, steps), tangents[:2])
        usable = jnp.isfinite(found.upper) & (found.upper > 0) & (slope < 0)
        rate = jnp.where(usable, (tangents[2] - drift) / jnp.where(slope < 0, slope, -1.0), 0.0)
        return found, Ends(rate, rate)

    return ends


def _delta_on_lanes(size: Size, add: jax.Array) -> Any:
    """``(sigma, steps, epsilon) -> Ends`` of delta [L], differentiated between the ends."""

    @jax.custom_jvp
    def ends(*fields: jax.Array) -> Ends[jax.Array]:
        return epoch_delta(fields[0], fields[1], add, fields[2], **size._asdict())[1]

    @ends.defjvp
    def _jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[Any, Any]:
        _, rate = jax.jvp(lambda *x: epoch_delta(x[0], x[1], add, x[2], **size._asdict())[0], primals, tangents)
        return ends(*primals), Ends(rate, rate)

    return ends


def _lane_bytes(*, size: Size) -> int:
    """Working memory of one lane, bytes, both directions."""
    return 2**12 * size.num_z


def _exact(bracket: Any, applies: Any, many: Any = None) -> BracketMethod:
    return BracketMethod(applies=applies, bracket=bracket, many=many, **_FACTS)


_FACTS: dict[str, Any] = {
    "name": "exact",
    "name_below": "exact, from below",
    "theorem": "Feldman & Shenfeld 2025, Theorem 3.1",
    "directions": BOTH,
    "ends": frozenset({Bound.UPPER, Bound.LOWER}),
    "cost": Cost.MILLISECONDS,
    "cold": Cost.TENTHS,
    "reduction": never,
    "engine": Engine.CONTOUR,
    "named_width": 1e-9,
}
EXACT = LaneBracketMethod(
    applies=is_single_round,
    bracket=_on_lanes,
    traced_size=_SIZES[1],
    quick_sizes=_SIZES,
    covers=_covered,
    lanes=Lanes(bytes=_lane_bytes),
    concrete=_exact(_whole, is_single_round, functools.partial(many_brackets, is_single=True)),
    **_FACTS,
)
PARTIAL_EXACT = _exact(_unfinished, always)
