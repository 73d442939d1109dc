"""Calibration inside a user's program: one kernel, differentiated through the equation that it solves."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxacct._answering import _TRACED_GRID, EPSILON, in_domain, lane_bytes
from jaxacct._method import Method
from jaxacct._methods import splits_unevenly
from jaxacct._precision import Kernel, Rounding
from jaxacct._types import Direction
from jaxacct.bounds.poisson._exact import SIZES, inverted_log_delta
from jaxacct.calibration._batch import flattened
from jaxacct.conversion import epsilon_from_rdp
from jaxacct.mechanisms._fields import FieldSpec
from jaxacct.special import solve_decreasing


def _epsilon_of(method: Method, mechanism: Any, log_delta: jax.Array) -> jax.Array:
    """One method's epsilon, as it is answered for traced arguments."""
    static = {"uneven": splits_unevenly(mechanism), **method.statics(mechanism)}
    if method.rdp is None:
        assert method.epsilon is not None
        return method.epsilon(mechanism, log_delta, **static)
    orders = method.grids[min(_TRACED_GRID, len(method.grids) - 1)]
    rdp = method.rdp(mechanism, orders=orders, **static)
    return epsilon_from_rdp(jnp.asarray(orders, jnp.float64)[:, None], rdp, log_delta).value


def _excess_by_methods(
    methods: Sequence[Method], directions: Sequence[Direction], mechanism: Any, epsilon: jax.Array, log_delta: jax.Array
) -> jax.Array:
    """log of the methods' epsilon over the target."""
    asked = {i: _epsilon_of(m, mechanism, log_delta) for i, m in enumerate(methods)}
    worst = jnp.zeros_like(log_delta)
    for direction in directions:
        usable = [asked[i] for i, m in enumerate(methods) if direction in m.directions]
        if usable:
            worst = jnp.maximum(worst, functools.reduce(jnp.minimum, usable))
    return jnp.log(jnp.maximum(worst, 1e-300)) - jnp.log(epsilon)


def _excess_by_inversion(
    directions: Sequence[Direction], mechanism: Any, epsilon: jax.Array, log_delta: jax.Array
) -> jax.Array:
    """log of the exact delta's upper end over the target."""
    upper = inverted_log_delta(mechanism, epsilon, size=SIZES[1]).upper
    return jnp.max(jnp.stack([upper[i] for i, d in enumerate(Direction) if d in directions]), axis=0) - log_delta


@functools.lru_cache(maxsize=64)
def _kernel(
    structure: Any,
    unknown: int,
    field: FieldSpec,
    methods: tuple[Method, ...],
    directions: tuple[Direction, ...],
    *,
    inverted: bool,
) -> Kernel:
    grows = field.best > field.worst
    sign = 1.0 if grows else -1.0

    def calibrated(*lanes: jax.Array) -> jax.Array:
        *known, epsilon, delta = lanes
        lowest, highest = (sign * jnp.log(jnp.full_like(delta, x)) for x in (field.worst, field.best))

        def mechanism(private: jax.Array, fields: Sequence[jax.Array]) -> Any:
            """Of what grows with privacy: the logarithm of the unknown, or its negative."""
            return jax.tree.unflatten(structure, [*fields[:unknown], jnp.exp(sign * private), *fields[unknown:]])

        def excess(private: jax.Array, *params: jax.Array) -> tuple[jax.Array, jax.Array]:
            *fields, target_epsilon, target_delta = params

            def value(p: jax.Array) -> jax.Array:
                args = mechanism(p, fields), target_epsilon, jnp.log(target_delta)
                least = _excess_by_methods(methods, directions, *args)
                if inverted:  # far from the target its brackets are wide: there the methods say which way to go
                    exact = _excess_by_inversion(directions, *args)
                    least = jnp.where(exact < least, exact, least)
                return jnp.where(jnp.isnan(least), jnp.inf, least)

            return jax.jvp(value, (private,), (jnp.ones_like(private),))

        found = solve_decreasing(excess, lowest, highest, *lanes)
        # the exponential's own rounding; and fail closed: infinite noise, no reports
        value = jnp.exp(sign * found) * (1.0 + sign * 2.0**-50)
        allowed = (epsilon > 0) & (epsilon < jnp.inf) & EPSILON.allowed(delta)
        ok = in_domain(mechanism(highest, known)) & allowed & jnp.isfinite(found)
        return jnp.where(ok, value, jnp.inf if grows else 0.0)

    return Kernel(calibrated, Rounding.UP if grows else Rounding.DOWN, lane_bytes)


def calibrate_traced(
    mechanism: Any,
    keys: tuple[Any, ...],
    field: FieldSpec,
    target_epsilon: Any,
    target_delta: Any,
    methods: tuple[Method, ...],
    directions: tuple[Direction, ...],
    *,
    inverted: bool,
) -> Any:
    """The value of a real field, differentiable; by `methods` and, if so wanted, moment inversion.

    Where no value meets the target: inf if privacy grows with the field, else 0.
    """
    leaves, structure = flattened(mechanism, keys)
    known = [leaf for leaf in leaves if leaf is not None]
    kernel = _kernel(structure, leaves.index(None), field, methods, directions, inverted=inverted)
    return kernel(*known, target_epsilon, target_delta)
