"""The network, its clipped gradients, and the optimizer that adds the noise, counts it and stops."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]

from jaxacct import training

CLIP_NORM = 1.0  # largest Euclidean norm of one record's gradient, which the noise multiplier is relative to
_HIDDEN = 32  # units of the hidden layer
_LEARNING_RATE = 0.05  # of plain steps along the mean gradient
_MOMENTUM = 0.9  # share of the last step that the next one keeps
_ROUNDING = 1e-5  # relative, more than float32 loses in a norm and a product


def make_network() -> Any:
    """A hidden layer between 64 pixels and 10 digits: a Flax module."""
    from flax import linen

    return linen.Sequential([linen.Dense(_HIDDEN), linen.tanh, linen.Dense(10)])


def clipped(gradient: Any, clip_norm: float) -> Any:
    """`gradient` scaled down to a norm of at most `clip_norm` over all its leaves; 0 where it is not finite."""
    norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1.0, clip_norm * (1.0 - _ROUNDING) / norm)
    return jax.tree.map(lambda leaf: jnp.where(jnp.isfinite(norm), leaf * scale, 0.0), gradient)


class NoiseState(NamedTuple):
    """How often noise was added, which says what the next noise is."""

    num_added: jax.Array  # int32 []


def gaussian_noise(standard_deviation: float, key: jax.Array) -> optax.GradientTransformation:
    """Adds N(0, standard_deviation^2) to every entry.

    A function of the key and a counter: a step that is repeated after an interruption releases what it released
    before, and nothing new.
    """

    def init(params: Any) -> NoiseState:
        del params
        return NoiseState(jnp.zeros((), jnp.int32))

    def update(total: Any, state: NoiseState, params: Any = None) -> tuple[Any, NoiseState]:
        del params
        noise = optax.tree.random_like(jax.random.fold_in(key, state.num_added), total, jax.random.normal)
        noisy = jax.tree.map(lambda leaf, draw: leaf + standard_deviation * draw, total, noise)
        return noisy, NoiseState(state.num_added + 1)

    return optax.GradientTransformation(init, update)


def make_optimizer(
    noise_multiplier: float, batch_size: float, max_releases: int, key: jax.Array
) -> optax.GradientTransformationExtraArgs:
    """SGD on the noisy sum of clipped gradients, which ends after `max_releases` of them.

    The sum is divided by `batch_size`, a constant, and not by how many records came: that number is private.
    """
    noise = gaussian_noise(noise_multiplier * CLIP_NORM, key)
    descent = optax.sgd(_LEARNING_RATE, momentum=_MOMENTUM)
    inner = optax.chain(training.count_releases(noise), optax.scale(1.0 / batch_size), descent)
    return training.budget_guard(inner, max_releases)


class Programs(NamedTuple):
    """What is compiled, each for one shape only."""

    clipped_sum: Callable[..., Any]  # (params, images, labels, weights) -> sum of the clipped gradients
    release: Callable[..., Any]  # (params, opt_state, sum) -> (params, opt_state), noise included
    accuracy: Callable[..., Any]  # (params, images, labels) -> share of right answers


def make_programs(network: Any, optimizer: optax.GradientTransformationExtraArgs) -> Programs:
    """The three programs of a training loop."""

    def loss(params: Any, image: jax.Array, label: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(network.apply(params, image), label)

    def clipped_sum(params: Any, images: jax.Array, labels: jax.Array, weights: jax.Array) -> Any:
        def one(image: jax.Array, label: jax.Array, weight: jax.Array) -> Any:
            gradient = clipped(jax.grad(loss)(params, image, label), CLIP_NORM)
            return jax.tree.map(lambda leaf: weight * leaf, gradient)

        return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), jax.vmap(one)(images, labels, weights))

    def release(params: Any, opt_state: Any, total: Any) -> tuple[Any, Any]:
        updates, opt_state = optimizer.update(total, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    def accuracy(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        return jnp.mean(jnp.argmax(network.apply(params, images), axis=-1) == labels)

    return Programs(jax.jit(clipped_sum), jax.jit(release), jax.jit(accuracy))
