"""Exact profiles of compositions of Gaussian and Poisson-sampled Gaussian rounds, certified, both directions.

The pair of Zhu, Dong and Wang 2022, Theorem 11, composed and read off its complex Renyi moments; see
`jaxacct.divergence._inversion`. Add/remove adjacency. Loose (never wrong) where the composed loss is nearly an atom or
heavy-tailed, as for a few steps at a small sampling probability: then a bracket is wide, at worst (0, inf).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._types import Ends
from jaxacct.composition import compose_line_moments
from jaxacct.conversion import epsilon_from_rdp, log_delta_from_rdp
from jaxacct.divergence._inversion import (
    Line,
    LineMoments,
    alias_orders,
    delta_centre,
    delta_ends,
    epsilon_ends,
    make_line,
)
from jaxacct.divergence.gaussian._line import gaussian_line, gaussian_log_moment
from jaxacct.divergence.gaussian._sampled_line import (
    highest_node,
    rough_log_moments,
    sampled_gaussian_line,
)
from jaxacct.mechanisms import Composed, Gaussian, PoissonSampled


class Size(NamedTuple):
    """Nodes on the line, and of the rule behind each moment."""

    num_nodes: int
    num_z: int


SIZES = (Size(64, 512), Size(256, 1024), Size(1024, 2048))
# Orders tried for the line, about 1 over the standard deviation of the composed loss
_SCALES = np.geomspace(1e-2, 1e2, 64)


def inverts(mechanism: Any) -> bool:
    """Whether `mechanism` consists of rounds whose complex moments are known here."""
    if isinstance(mechanism, Composed):
        return all(inverts(part) for part in mechanism.mechanisms)
    if isinstance(mechanism, PoissonSampled):
        return isinstance(mechanism.mechanism, Gaussian)
    return isinstance(mechanism, Gaussian)


def _rounds(mechanism: Any) -> list[tuple[Any, jax.Array]]:
    """(round, how often)."""
    if isinstance(mechanism, Composed):
        return [
            (part, times * count)
            for inner, count in zip(mechanism.mechanisms, mechanism.counts, strict=True)
            for part, times in _rounds(inner)
        ]
    if isinstance(mechanism, PoissonSampled):
        return [(mechanism, mechanism.num_steps)]
    return [(mechanism, jnp.ones(()))]


def _rough(part: Any, orders: jax.Array, add: jax.Array) -> jax.Array:
    if isinstance(part, Gaussian):
        return gaussian_log_moment(orders, part.noise_multiplier)
    return rough_log_moments(orders, part.mechanism.noise_multiplier, part.sampling_prob, add)


def _on_line(part: Any, line: Line, add: jax.Array, num_z: int) -> LineMoments:
    if isinstance(part, Gaussian):
        return gaussian_line(line, part.noise_multiplier)
    return sampled_gaussian_line(line, part.mechanism.noise_multiplier, part.sampling_prob, add, num_z=num_z)


def _highest(part: Any, orders: jax.Array, add: jax.Array, num_z: int) -> jax.Array:
    if isinstance(part, Gaussian):
        return jnp.full_like(orders[0], jnp.inf)
    return highest_node(orders, part.mechanism.noise_multiplier, add, num_z=num_z)


def _variance(part: Any) -> jax.Array:
    if isinstance(part, Gaussian):
        return part.noise_multiplier**-2.0
    spread = jnp.expm1(jnp.minimum(part.mechanism.noise_multiplier**-2.0, 600.0))
    return jnp.log1p(part.sampling_prob**2 * spread)


def _both_directions(x: Any) -> jax.Array:
    return jnp.concatenate([x, x])


def _prepared(mechanism: Any, target: jax.Array, *, is_delta: bool, size: Size) -> tuple[Line, LineMoments, jax.Array]:
    """A line for the target (epsilon, or log delta), the moments on it, and where Newton starts; [2 L] lanes."""
    rounds = _rounds(mechanism)
    add = jnp.arange(target.shape[0]) >= target.shape[0] // 2

    def rough(orders: jax.Array) -> jax.Array:
        return sum((count * _rough(part, orders, add) for part, count in rounds), jnp.zeros(()))

    scale = 1.0 / jnp.sqrt(sum((count * _variance(part) for part, count in rounds), jnp.zeros(())))
    orders = 1.0 + jnp.asarray(_SCALES, jnp.float64)[:, None] * scale
    curve = rough(orders) / (orders - 1.0)
    if is_delta:
        log_delta = target
        epsilon, order = epsilon_from_rdp(orders, curve, log_delta)
    else:
        epsilon = target
        log_delta, order = log_delta_from_rdp(orders, curve, epsilon)
    order = jnp.where(order > 1.0, order, 2.0)
    # Renyi divergences overshoot by about e^3 in delta
    guess = log_delta if is_delta else log_delta - 3.0
    about = jnp.maximum(epsilon - 3.0 / (order - 1.0), 0.0) if is_delta else epsilon
    above = alias_orders(order)
    limits = [_highest(part, above, add, size.num_z) for part, _ in rounds]
    highest = functools.reduce(jnp.minimum, limits)
    # the integral does not depend on where the line is: nor do derivatives
    line = jax.lax.stop_gradient(make_line(order, about, guess, rough(above), highest, num_nodes=size.num_nodes))
    moments = compose_line_moments((_on_line(part, line, add, size.num_z), count) for part, count in rounds)
    return line, moments, epsilon


def _split(ends: Ends[jax.Array]) -> Ends[jax.Array]:
    return Ends(*(x.reshape(2, -1) for x in ends))


def inverted_epsilon(mechanism: Any, log_delta: jax.Array, *, size: Size) -> Ends[jax.Array]:
    """Bracket of epsilon at delta = exp(log_delta), [2, L]: remove, then add.

    Both ends have the derivatives of the root of log delta(epsilon) - log_delta (implicit function theorem).
    """
    leaves, structure = jax.tree.flatten(mechanism)

    @jax.custom_jvp
    def ends(target: jax.Array, *leaves: jax.Array) -> Ends[jax.Array]:
        doubled = jax.tree.unflatten(structure, leaves)
        line, moments, start = _prepared(doubled, target, is_delta=True, size=size)
        return epsilon_ends(line, moments, target, start)

    def profile(epsilon: jax.Array, *leaves: jax.Array) -> jax.Array:
        return delta_centre(
            *_prepared(jax.tree.unflatten(structure, leaves), epsilon, is_delta=False, size=size)[:2], epsilon
        )

    @ends.defjvp
    def _jvp(
        primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
    ) -> tuple[Ends[jax.Array], Ends[jax.Array]]:
        found = ends(*primals)
        at = jnp.where(jnp.isfinite(found.upper), found.upper, 1.0)
        _, slope = jax.jvp(lambda epsilon: profile(epsilon, *primals[1:]), (at,), (jnp.ones_like(at),))
        _, drift = jax.jvp(lambda *x: profile(at, *x), primals[1:], tangents[1:])
        usable = jnp.isfinite(found.upper) & (slope < 0)
        rate = jnp.where(usable, (tangents[0] - drift) / jnp.where(slope < 0, slope, -1.0), 0.0)
        return found, Ends(rate, rate)

    return _split(ends(_both_directions(log_delta), *map(_both_directions, leaves)))


def inverted_log_delta(mechanism: Any, epsilon: jax.Array, *, size: Size) -> Ends[jax.Array]:
    """Bracket of log delta at epsilon, [2, L]: remove, then add."""
    target = _both_directions(epsilon)
    line, moments, _ = _prepared(jax.tree.map(_both_directions, mechanism), target, is_delta=False, size=size)
    return _split(delta_ends(line, moments, target))
