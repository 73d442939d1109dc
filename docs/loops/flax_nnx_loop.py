"""Flax NNX: an `nnx.Optimizer`, Poisson-sampled batches, a checkpoint of orbax."""

from pathlib import Path

import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx

import jaxacct as ja  # dp
from jaxacct import training  # dp

RUN = ja.PoissonSampled(ja.Gaussian(noise_multiplier=2.0), sampling_prob=0.1, num_steps=40)  # dp
DELTA, BUDGET = 1e-5, 3.0  # dp

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.int32)


class Model(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.out = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 2, rngs=rngs)

    def __call__(self, features):
        return self.out(nnx.tanh(self.hidden(features)))


def loss(model, feature, label, mask):
    return mask * optax.softmax_cross_entropy_with_integer_labels(model(feature), label)


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    budget = training.steps_affordable(data, BUDGET, DELTA)  # dp
    noise = optax.contrib.differentially_private_aggregate(l2_norm_clip=1.0, noise_multiplier=2.0, key=2)  # dp
    private = optax.chain(training.count_releases(noise), optax.adam(0.05))  # dp
    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, training.budget_guard(private, budget), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, features, labels, mask):
        grads = nnx.grad(loss)
        grads = nnx.vmap(grads, in_axes=(None, 0, 0, 0))  # dp
        optimizer.update(model, grads(model, features, labels, mask))

    at_once = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    kept = ocp.CheckpointManager(folder, options=at_once)
    if kept.latest_step() is not None:
        run = nnx.state((model, optimizer))
        target = ocp.args.StandardRestore(nnx.to_pure_dict(training.storable(run)))
        stored = kept.restore(kept.latest_step(), args=target)
        nnx.update((model, optimizer), training.restored(stored, like=nnx.to_pure_dict(run)))
    done = int(training.release_counts(optimizer)[0])
    for number, (indices, mask) in enumerate(data.after(done), done + 1):
        step(model, optimizer, FEATURES[indices], LABELS[indices], mask)
        if number % 5 == 0:
            run = nnx.to_pure_dict(nnx.state((model, optimizer)))
            kept.save(number, args=ocp.args.StandardSave(training.storable(run)))
        if optimizer.opt_state.budget_spent[...]:  # dp
            break
    return nnx.to_pure_dict(nnx.state(model)), training.privacy_spent(optimizer, data, DELTA)


if __name__ == "__main__":
    print(train(Path("checkpoints").resolve())[1])
