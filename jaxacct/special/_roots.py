"""Root of a decreasing function, returned on the safe side and differentiable."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

# They steer speed and tightness only: whatever they are, the answer is a point found to be on the safe side.
_NUM_NEWTON = 40  # steps of Newton's method or bisection, the same number for every lane
_NUM_PROBES = 8  # steps just above the root that follow: the distances are 2^-52, 2^-50, .. of it


def solve_decreasing(
    fn: Callable[..., tuple[jax.Array, jax.Array]], low: jax.Array, high: jax.Array, *params: jax.Array
) -> jax.Array:
    """The least x in [low, high] that was found to have ``f(x) <= 0``, [L]; inf if ``f(high) > 0``.

    ``fn(x, *params)`` returns f(x) [L], decreasing in x lane by lane, and its slope (used to steer only).
    Both ends are evaluated first. Then Newton's step where it stays inside the bracket, the midpoint
    otherwise; the number of steps is fixed, so that a batch does not wait for its slowest lane. Newton's method
    converges from one side and may never move the safe end, so the last steps probe just above the root. The answer
    is always a point at which `fn` was evaluated and found <= 0, never the approximate root.

    Derivatives with respect to `params` are those of the exact root (implicit function theorem).
    `fn` is traced once, inside the loop: a second copy would double the compile time.
    """

    # The bracket is an argument too: a custom_jvp function must not close over what is being differentiated.
    @jax.custom_jvp
    def solve(low: jax.Array, high: jax.Array, *params: jax.Array) -> jax.Array:
        def step(i: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            x, root, low, high, feasible = state
            value, slope = fn(x, *params)
            good = value <= 0
            feasible = jnp.where(i == 0, good, feasible)
            low, high = jnp.where(good, low, x), jnp.where(good, jnp.minimum(x, high), high)
            step = x - value / jnp.where(slope < 0, slope, -1.0)
            inside = (slope < 0) & (step >= low) & (step < high)
            guess = jnp.where(inside, step, 0.5 * (low + high))
            root = jnp.where(i < _NUM_NEWTON, guess, root)
            gap = jnp.ldexp(1.0, jnp.maximum(2 * (i - _NUM_NEWTON), 0).astype(jnp.int32) - 52)
            probe = jnp.clip(root + jnp.abs(root) * gap, low, high)
            ahead = jnp.where(i < _NUM_NEWTON, guess, probe)
            return jnp.where(i == 0, low, ahead), root, low, high, feasible

        init = (high, high, low, high, jnp.ones_like(high, bool))
        _, _, _, best, feasible = jax.lax.fori_loop(0, _NUM_NEWTON + _NUM_PROBES, step, init)
        return jnp.where(feasible, best, jnp.inf)

    @solve.defjvp
    def _jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        root = solve(*primals)
        high, params = primals[1], primals[2:]
        at = jnp.where(jnp.isfinite(root), root, high)
        one, zero = jnp.ones_like(at), jnp.zeros_like(at)
        _, slope = jax.jvp(lambda x: fn(x, *params)[0], (at,), (one,))
        _, drift = jax.jvp(lambda *p: fn(at, *p)[0], params, tangents[2:])
        usable = jnp.isfinite(root) & (slope < 0)
        return root, jnp.where(usable, -drift / jnp.where(slope < 0, slope, -1.0), zero)

    return solve(low, high, *params)
