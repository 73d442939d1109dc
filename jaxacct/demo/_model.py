"""The network, and the optimizer that clips its gradients, adds the noise, counts the releases and stops."""

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


def make_network() -> Any:
    """A Flax module with a hidden layer between 64 pixels and 10 digits."""
    from flax import linen

    return linen.Sequential([linen.Dense(_HIDDEN), linen.tanh, linen.Dense(10)])


def loss_of(network: Any) -> Callable[[Any, jax.Array, jax.Array], jax.Array]:
    """The loss of one record, as a function of (params, image, label)."""

    def loss(params: Any, image: jax.Array, label: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(network.apply(params, image), label)

    return loss


def make_descent() -> optax.GradientTransformation:
    """The optimizer that is given the released gradients."""
    return optax.sgd(_LEARNING_RATE, momentum=_MOMENTUM)


def make_optimizer(
    network: Any, data: training.Batches, max_releases: int, seed: int
) -> optax.GradientTransformationExtraArgs:
    """SGD on the batches of `data`, from the gradient of each record to the noise; it stops after `max_releases`.

    Its update takes (images, labels) of a batch, and its mask.
    """
    private = training.private_gradients(loss_of(network), data, l2_norm_clip=CLIP_NORM, key=seed)
    return training.budget_guard(optax.chain(private, make_descent()), max_releases)


class Programs(NamedTuple):
    """The compiled programs; the step is compiled once for each number of pieces, which is usually one."""

    step: Callable[..., Any]  # (params, opt_state, images, labels, mask) -> (params, opt_state)
    accuracy: Callable[..., Any]  # (params, images, labels) -> share of right answers


def make_programs(network: Any, optimizer: optax.GradientTransformationExtraArgs) -> Programs:
    """The two programs of a training loop."""

    def step(params: Any, opt_state: Any, images: jax.Array, labels: jax.Array, mask: jax.Array) -> tuple[Any, Any]:
        updates, opt_state = optimizer.update((images, labels), opt_state, params, mask=mask)
        return optax.apply_updates(params, updates), opt_state

    def accuracy(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        return jnp.mean(jnp.argmax(network.apply(params, images), axis=-1) == labels)

    return Programs(jax.jit(step), jax.jit(accuracy))
