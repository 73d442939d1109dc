"""Optax alone: its own clipping and noise, Poisson-sampled batches, a checkpoint that goes on in mid-epoch."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

import jaxacct as ja  # dp
from jaxacct import training  # dp

RUN = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.5), sampling_prob=0.05, num_steps=40)  # dp
DELTA, BUDGET = 1e-5, 3.0  # dp

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.float32)


def loss(params, feature, label, mask):
    logit = feature @ params["w"] + params["b"]
    return mask * optax.sigmoid_binary_cross_entropy(logit, label)


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    budget = training.steps_affordable(data, BUDGET, DELTA)  # dp
    noise = optax.contrib.differentially_private_aggregate(l2_norm_clip=1.0, noise_multiplier=1.5, key=2)  # dp
    private = optax.chain(training.count_releases(noise), optax.adam(0.05))  # dp
    optimizer = training.budget_guard(private, budget)

    @jax.jit
    def step(params, state, features, labels, mask):
        grads = jax.grad(loss)
        grads = jax.vmap(grads, in_axes=(None, 0, 0, 0))  # dp
        updates, state = optimizer.update(grads(params, features, labels, mask), state, params)
        return optax.apply_updates(params, updates), state

    params = {"w": jnp.zeros(8), "b": jnp.zeros(())}
    run = {"params": params, "state": optimizer.init(params)}
    at_once = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    kept = ocp.CheckpointManager(folder, options=at_once)
    if kept.latest_step() is not None:
        target = ocp.args.StandardRestore(training.storable(run))
        run = training.restored(kept.restore(kept.latest_step(), args=target), like=run)
    done = int(training.release_counts(run["state"])[0])
    for number, (indices, mask) in enumerate(data.after(done), done + 1):
        params, state = step(run["params"], run["state"], FEATURES[indices], LABELS[indices], mask)
        run = {"params": params, "state": state}
        if number % 5 == 0:
            kept.save(number, args=ocp.args.StandardSave(training.storable(run)))
        if state.budget_spent:  # dp
            break
    return run["params"], training.privacy_spent(run["state"], data, DELTA)


if __name__ == "__main__":
    print(train(Path("checkpoints").resolve())[1])
