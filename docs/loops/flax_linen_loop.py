"""Flax Linen: a `TrainState`, random allocation, a checkpoint in msgpack."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import serialization
from flax.training.train_state import TrainState

import jaxacct as ja  # dp
from jaxacct import training  # dp

RUN = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.5), num_steps=20, num_epochs=2)  # dp
DELTA, BUDGET = 1e-5, 3.0  # dp

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.int32)


class Model(nn.Module):
    @nn.compact
    def __call__(self, features):
        return nn.Dense(2)(nn.tanh(nn.Dense(16)(features)))


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    budget = training.steps_affordable(data, BUDGET, DELTA)  # dp
    noise = optax.contrib.differentially_private_aggregate(l2_norm_clip=1.0, noise_multiplier=1.5, key=2)  # dp
    private = optax.chain(training.count_releases(noise), optax.adam(0.05))  # dp
    model, optimizer = Model(), training.budget_guard(private, budget)

    def loss(params, feature, label, mask):
        logits = model.apply(params, feature)
        return mask * optax.softmax_cross_entropy_with_integer_labels(logits, label)

    @jax.jit
    def step(state, features, labels, mask):
        grads = jax.grad(loss)
        grads = jax.vmap(grads, in_axes=(None, 0, 0, 0))  # dp
        return state.apply_gradients(grads=grads(state.params, features, labels, mask))

    params = model.init(jax.random.key(0), jnp.zeros(8))
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)
    kept, unfinished = Path(folder) / "state.msgpack", Path(folder) / "unfinished"
    if kept.exists():
        stored = serialization.from_bytes(training.storable(state), kept.read_bytes())
        state = training.restored(stored, like=state)
    done = int(training.release_counts(state)[0])
    for number, (indices, mask) in enumerate(data.after(done), done + 1):
        state = step(state, FEATURES[indices], LABELS[indices], mask)
        if number % 5 == 0:
            unfinished.write_bytes(serialization.to_bytes(training.storable(state)))
            unfinished.replace(kept)  # as a whole or not at all
        if state.opt_state.budget_spent:  # dp
            break
    return state.params, training.privacy_spent(state, data, DELTA)


if __name__ == "__main__":
    print(train(".")[1])
