"""Flax Linen: a `TrainState`, random allocation, a checkpoint in msgpack."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import serialization
from flax.training.train_state import TrainState

import jaxacct as ja
from jaxacct import training

RUN = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.5), num_steps=20, num_epochs=2)

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.int32)


class Model(nn.Module):
    @nn.compact
    def __call__(self, features):
        return nn.Dense(2)(nn.tanh(nn.Dense(16)(features)))


def loss(params, feature, label):
    return optax.softmax_cross_entropy_with_integer_labels(Model().apply(params, feature), label)


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    private = training.private_gradients(loss, data, l2_norm_clip=1.0, key=2)  # dp
    optimizer = optax.chain(private, optax.adam(0.05))

    @jax.jit
    def step(state, features, labels, mask):
        return training.apply_gradients(state, grads=(features, labels), mask=mask)  # dp

    params = Model().init(jax.random.key(0), jnp.zeros(8))
    state = TrainState.create(apply_fn=Model().apply, params=params, tx=optimizer)
    kept, unfinished = Path(folder) / "state.msgpack", Path(folder) / "unfinished"
    if kept.exists():
        state = serialization.from_bytes(state, kept.read_bytes())
    done = int(state.step)
    for number, (indices, mask) in enumerate(data.after(done), done + 1):
        state = step(state, FEATURES[indices], LABELS[indices], mask)
        if number % 5 == 0:
            unfinished.write_bytes(serialization.to_bytes(state))
            unfinished.replace(kept)  # as a whole or not at all
    return state.params, training.report(state, data, target_delta=1e-5)  # dp


if __name__ == "__main__":
    print(train(".")[1])
