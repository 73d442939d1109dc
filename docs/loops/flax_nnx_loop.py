"""Flax NNX: an `nnx.Optimizer`, Poisson-sampled batches, a checkpoint of orbax."""

from pathlib import Path

import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx

import jaxacct as ja
from jaxacct import training

RUN = ja.PoissonSampled(ja.Gaussian(noise_multiplier=2.0), sampling_prob=0.1, num_steps=40)

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.int32)


class Model(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.out = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 2, rngs=rngs)

    def __call__(self, features):
        return self.out(nnx.tanh(self.hidden(features)))


def loss(model, feature, label):
    return optax.softmax_cross_entropy_with_integer_labels(model(feature), label)


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    private = training.private_aggregate(data, l2_norm_clip=1.0, key=2)  # dp
    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.chain(private, optax.adam(0.05)), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, features, labels, mask):
        grads = nnx.vmap(nnx.grad(loss), in_axes=(None, 0, 0))(model, features, labels)  # dp
        optimizer.update(model, grads, mask=mask)

    at_once = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    kept = ocp.CheckpointManager(folder, options=at_once)
    done = kept.latest_step() or 0
    if done:
        target = ocp.args.StandardRestore(nnx.to_pure_dict(nnx.state((model, optimizer))))
        nnx.update((model, optimizer), kept.restore(done, args=target))
    for number, (indices, mask) in enumerate(data.after(done), done + 1):
        step(model, optimizer, FEATURES[indices], LABELS[indices], mask)
        if number % 5 == 0:
            kept.save(number, args=ocp.args.StandardSave(nnx.to_pure_dict(nnx.state((model, optimizer)))))
    return nnx.to_pure_dict(nnx.state(model)), training.report(optimizer, data, target_delta=1e-5)  # dp


if __name__ == "__main__":
    print(train(Path("checkpoints").resolve())[1])
