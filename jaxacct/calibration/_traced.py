"""Calibration inside a user's program: one kernel, differentiated through the equation that it solves."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxacct import _trees
from jaxacct._jax import jax, jnp
from jaxacct._method import LaneMethod, Query, RenyiMethod, orders_bytes
from jaxacct._precision import Kernel, Rounding
from jaxacct._types import Direction
from jaxacct.answering._lanes import in_domain, traced_orders, value_on_lanes
from jaxacct.calibration._batch import flattened
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import FieldSpec
from jaxacct.special import solve_decreasing

_LEAST = 1e-300  # an epsilon or delta below it counts as this where its logarithm is taken


class MethodWithStatics(NamedTuple):
    """A method with its static arguments, as (name, value)."""

    method: LaneMethod
    static: tuple[tuple[str, Any], ...]


def with_statics(method: LaneMethod, mechanism: Mechanism) -> MethodWithStatics:
    """A method as it is asked about `mechanism`, whose unknown and traced numbers are tracers."""
    static = method.statics(mechanism)
    if isinstance(method, RenyiMethod):
        static["orders"] = traced_orders(method)
    return MethodWithStatics(method, tuple(static.items()))


def _epsilon_of(asked: MethodWithStatics, mechanism: Mechanism, delta: jax.Array) -> jax.Array:
    """One method's epsilon, as it is computed for traced arguments."""
    return value_on_lanes(asked.method, mechanism, Query.EPSILON, delta, **dict(asked.static))[0]


def _excess_by_methods(
    methods: Sequence[MethodWithStatics],
    directions: Sequence[Direction],
    mechanism: Mechanism,
    epsilon: jax.Array,
    delta: jax.Array,
) -> jax.Array:
    """log of the methods' epsilon over the target."""
    asked = {i: _epsilon_of(m, mechanism, delta) for i, m in enumerate(methods)}
    worst = jnp.zeros_like(delta)
    for direction in directions:
        usable = [asked[i] for i, m in enumerate(methods) if direction in m.method.directions]
        if usable:
            worst = jnp.maximum(worst, functools.reduce(jnp.minimum, usable))
    return jnp.log(jnp.maximum(worst, _LEAST)) - jnp.log(epsilon)


@functools.lru_cache(maxsize=64)
def _kernel(
    structure: Any,
    unknown: int,
    field: FieldSpec,
    methods: tuple[MethodWithStatics, ...],
    directions: tuple[Direction, ...],
) -> Kernel:
    grows = field.best > field.worst
    sign = 1.0 if grows else -1.0

    def calibrated(*lanes: jax.Array) -> jax.Array:
        *known, epsilon, delta = lanes
        lowest, highest = (sign * jnp.log(jnp.full_like(delta, x)) for x in (field.worst, field.best))

        def mechanism(private: jax.Array, fields: Sequence[jax.Array]) -> Any:
            """The mechanism, from what grows with privacy: the logarithm of the unknown, or its negative."""
            return _trees.unflatten(structure, [*fields[:unknown], jnp.exp(sign * private), *fields[unknown:]])

        def log_excess(private: jax.Array, *params: jax.Array) -> jax.Array:
            *fields, target_epsilon, target_delta = params
            args = mechanism(private, fields), target_epsilon, target_delta
            least = _excess_by_methods(methods, directions, *args)
            return jnp.where(jnp.isnan(least), jnp.inf, least)

        def excess(private: jax.Array, *params: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(lambda p: log_excess(p, *params), (private,), (jnp.ones_like(private),))

        found = solve_decreasing(excess, lowest, highest, *lanes, value=log_excess)
        # the exponential's own rounding; and fail closed: infinite noise, no reports
        value = jnp.exp(sign * found) * (1.0 + sign * 2.0**-50)
        allowed = (epsilon > 0) & (epsilon < jnp.inf) & Query.EPSILON.allowed(delta)
        ok = in_domain(mechanism(highest, known)) & allowed & jnp.isfinite(found)
        return jnp.where(ok, value, jnp.inf if grows else 0.0)

    return Kernel(calibrated, Rounding.UP if grows else Rounding.DOWN, lane_bytes=orders_bytes)


def calibrate_traced(
    mechanism: Mechanism,
    keys: tuple[Any, ...],
    field: FieldSpec,
    target_epsilon: Any,
    target_delta: Any,
    methods: tuple[MethodWithStatics, ...],
    directions: tuple[Direction, ...],
) -> Any:
    """The value of a real field, differentiable; by `methods`.

    Where no value meets the target: inf if privacy grows with the field, else 0.
    """
    leaves, structure = flattened(mechanism, keys)
    known = [leaf for leaf in leaves if leaf is not None]
    kernel = _kernel(structure, leaves.index(None), field, methods, directions)
    return kernel(*known, target_epsilon, target_delta)
