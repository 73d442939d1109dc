"""An audit of the demonstration: the network is trained again, each record included or not by a fair coin."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jax.flatten_util import ravel_pytree

from jaxacct import training
from jaxacct.audit import Audit, one_run
from jaxacct.demo._batches import draw, filled, load_digits, piece_size
from jaxacct.demo._model import CLIP_NORM, loss_of, make_descent, make_network
from jaxacct.demo._plan import Plan, Settings

_COINS = 1  # stream of random numbers beside that of the run


def measure(settings: Settings, plan: Plan, confidence: float = 0.95) -> Audit:
    """Trains again on the records chosen by fair coins, and guesses the coins from what the run releases.

    A record's score is how far the released sums point along its own clipped gradient, less what the other records
    contribute on average, summed over the steps. The adversary knows all records, and every released sum.

    Args:
      settings, plan: the settings and the plan of the run.
      confidence: the confidence of the audit.

    Returns:
      The audit, at the delta of the settings.
    """
    digits, network = load_digits(), make_network()
    labels = digits.labels
    taken = np.random.default_rng([settings.seed, _COINS]).random(labels.size) < 0.5
    size = piece_size(labels.size, settings.num_steps, settings.num_selected)
    data = draw(plan.run, labels.size, settings.seed, size)  # of all: what sums are divided by tells no coin
    loss, descent = loss_of(network), make_descent()
    private = training.private_gradients(loss, data, l2_norm_clip=CLIP_NORM, key=settings.seed)
    params = network.init(jax.random.key(settings.seed), jnp.zeros(digits.images.shape[1], jnp.float32))
    images, everyone = jnp.asarray(digits.images), jnp.asarray(labels)
    share = 0.5 * settings.num_selected / settings.num_steps  # a record is in a step's sum with this probability
    batch_size = labels.size * settings.num_selected / settings.num_steps

    @jax.jit
    def step(params: Any, states: Any, batch: Any, mask: jax.Array) -> tuple[Any, Any, jax.Array]:
        def clipped(image: jax.Array, label: jax.Array) -> jax.Array:
            gradient = ravel_pytree(jax.grad(loss)(params, image, label))[0]
            return gradient * jnp.minimum(1.0, CLIP_NORM / jnp.maximum(jnp.linalg.norm(gradient), 1e-12))

        gradients = jax.vmap(clipped)(images, everyone)
        released, counted = private.update(batch, states[0], params, mask=mask)
        beyond = batch_size * ravel_pytree(released)[0] - share * jnp.sum(gradients, axis=0)
        updates, moved = descent.update(released, states[1], params)
        return optax.apply_updates(params, updates), (counted, moved), gradients @ beyond

    states, scores = (private.init(params), descent.init(params)), np.zeros(labels.size)
    for number in range(plan.max_releases):
        indices, mask = filled(data[number])
        batch = digits.images[indices], labels[indices]
        params, states, along = step(params, states, batch, mask & taken[indices])
        scores += np.asarray(along, np.float64)
    return one_run(scores, taken, delta=settings.target_delta, confidence=confidence)
