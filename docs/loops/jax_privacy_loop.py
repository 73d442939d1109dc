"""Logistic regression with jax_privacy's clipping, and our batches, noise, count and statement."""

from pathlib import Path

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
import optax
import orbax.checkpoint as ocp

import jaxacct as ja
from jaxacct import training

RUN = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.5), num_steps=20, num_epochs=2)

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.float32)


def loss(params, features, labels):
    logits = features @ params["w"] + params["b"]
    return optax.sigmoid_binary_cross_entropy(logits, labels).sum()


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    clipped = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2))  # dp
    optimizer = optax.chain(training.private_gradients(clipped, data, key=2), optax.adam(0.05))  # dp

    @jax.jit
    def step(params, state, features, labels, mask):
        updates, state = optimizer.update((features, labels), state, params, mask=mask)
        return optax.apply_updates(params, updates), state

    params = {"w": jnp.zeros(8), "b": jnp.zeros(())}
    run = params, optimizer.init(params)
    at_once = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    kept = ocp.CheckpointManager(folder, options=at_once)
    done = kept.latest_step() or 0
    if done:
        run = kept.restore(done, args=ocp.args.StandardRestore(run))
    for number, (indices, mask) in enumerate(data.after(done), done + 1):
        run = step(*run, FEATURES[indices], LABELS[indices], mask)
        if number % 5 == 0:
            kept.save(number, args=ocp.args.StandardSave(run))
    return run[0], training.report(run[1], data, target_delta=1e-5)  # dp


if __name__ == "__main__":
    print(train(Path("checkpoints").resolve())[1])
