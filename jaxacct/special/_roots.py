"""The root of a decreasing function, on the safe side and differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._jax import jax
from jaxacct.special._namespace import fori_loop, is_jax, xp

# These affect speed and tightness only: in any case the answer is a point found to be on the safe side.
_NUM_NEWTON = 40  # steps of Newton's method or bisection, the same number for every lane
_NUM_PROBES = 8  # steps just above the root that follow, at relative distances 2^-52, 2^-50, ..


def solve_decreasing(
    fn: Callable[..., tuple[jax.Array, jax.Array]],
    low: jax.Array,
    high: jax.Array,
    *params: jax.Array,
    value: Callable[..., jax.Array] | None = None,
) -> jax.Array:
    """The least x in [low, high] that was found to have ``f(x) <= 0``, [L]; inf if ``f(high) > 0``.

    ``fn(x, *params)`` returns f(x) [L], decreasing in x lane by lane, and its slope (used as a guide only).
    Both ends are evaluated first. Then each step is Newton's if that stays inside the
    bracket, else a bisection; the number of steps is fixed, so that a batch does not wait for its slowest lane.
    Newton's method converges from one side and may never move the safe end, so the last steps probe just above the
    root. The answer is always a point at which `fn` was evaluated and found <= 0, never the approximate root.

    Derivatives with respect to `params` are those of the exact root (implicit function theorem), by those of `value`,
    which is f(x) alone. It has to be given where `fn` finds its slope by `jax.jvp`: a rule of `jax.custom_jvp` inside f
    is lost to a second differentiation.
    `fn` is traced once, inside the loop: a second copy would double the compile time.
    """

    # The bracket is an argument too: a custom_jvp function must not close over what is being differentiated.
    def plain(low: jax.Array, high: jax.Array, *params: jax.Array) -> jax.Array:
        def step(i: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            x, root, low, high, feasible = state
            value, slope = fn(x, *params)
            good = value <= 0
            feasible = xp.where(i == 0, good, feasible)
            low, high = xp.where(good, low, x), xp.where(good, xp.minimum(x, high), high)
            newton = x - value / xp.where(slope < 0, slope, -1.0)
            inside = (slope < 0) & (newton >= low) & (newton < high)
            guess = xp.where(inside, newton, 0.5 * (low + high))
            root = xp.where(i < _NUM_NEWTON, guess, root)
            gap = xp.ldexp(1.0, xp.maximum(2 * (i - _NUM_NEWTON), 0).astype(xp.int32) - 52)
            probe = xp.clip(root + xp.abs(root) * gap, low, high)
            ahead = xp.where(i < _NUM_NEWTON, guess, probe)
            return xp.where(i == 0, low, ahead), root, low, high, feasible

        init = (high, high, low, high, xp.ones_like(high, bool))
        if is_jax(low, high, *params):
            _, _, _, best, feasible = fori_loop(0, _NUM_NEWTON + _NUM_PROBES, step, init)
        else:
            _, _, _, best, feasible = _on_host(step, init)
        return xp.where(feasible, best, xp.inf)

    if not is_jax(low, high, *params):
        return plain(low, high, *params)
    solve, alone = jax.custom_jvp(plain), value or (lambda *at: fn(*at)[0])

    @solve.defjvp
    def _jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        root = solve(*primals)
        high, params = primals[1], primals[2:]
        at = xp.where(xp.isfinite(root), root, high)
        one, zero = xp.ones_like(at), xp.zeros_like(at)
        _, slope = jax.jvp(lambda x: alone(x, *params), (at,), (one,))
        _, drift = jax.jvp(lambda *p: alone(at, *p), params, tangents[2:])
        usable = xp.isfinite(root) & (slope < 0)
        return root, xp.where(usable, -drift / xp.where(slope < 0, slope, -1.0), zero)

    return solve(low, high, *params)


def _on_host(step: Callable[..., Any], state: Any) -> Any:
    """The same steps on the host: Newton's until no lane moves any more, then the probes until all lanes are done."""
    probing = False
    for i in range(_NUM_NEWTON + _NUM_PROBES):
        if i < _NUM_NEWTON and probing:
            continue
        before = state
        state = step(np.int32(i), state)
        if i < _NUM_NEWTON:
            moved = np.abs(state[1] - before[1])
            # slopes may be crude, so that the error left may be as much as a share of the last move
            probing = i > 1 and bool(np.all((moved <= 2.0**-46 * np.abs(state[1])) | (state[2] >= state[3])))
        elif np.all(state[3] <= before[0]):  # the point probed is now the safe end
            break
    return state
