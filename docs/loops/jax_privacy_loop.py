"""Logistic regression with jax_privacy's clipping and noise, and our batches, hook, guard and epsilon."""

from pathlib import Path

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
import optax
import orbax.checkpoint as ocp

import jaxacct as ja  # dp
from jaxacct import training  # dp

RUN = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.5), num_steps=20, num_epochs=2)  # dp
DELTA, BUDGET = 1e-5, 3.0  # dp

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.float32)


def loss(params, features, labels):
    logits = features @ params["w"] + params["b"]
    return optax.sigmoid_binary_cross_entropy(logits, labels).sum()


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    budget = training.steps_affordable(data, BUDGET, DELTA)  # dp
    grads = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2))
    stddev = 1.5 * grads.sensitivity()  # dp
    noise = jax_privacy.noise_addition.gaussian_privatizer(stddev=stddev, prng_key=jax.random.key(2))  # dp
    private = optax.chain(training.count_releases(noise), optax.adam(0.05))  # dp
    optimizer = training.budget_guard(private, budget)

    @jax.jit
    def step(params, state, features, labels, mask):
        total = grads(params, features, labels, is_padding_example=~mask)
        updates, state = optimizer.update(total, state, params)
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
