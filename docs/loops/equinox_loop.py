"""Equinox: a module as the parameters, Poisson-sampled batches, its own files."""

from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import optax

import jaxacct as ja  # dp
from jaxacct import training  # dp

RUN = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.5), sampling_prob=0.05, num_steps=40)  # dp
DELTA, BUDGET = 1e-5, 3.0  # dp

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.int32)


def loss(model, feature, label, mask):
    return mask * optax.softmax_cross_entropy_with_integer_labels(model(feature), label)


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    budget = training.steps_affordable(data, BUDGET, DELTA)  # dp
    noise = optax.contrib.differentially_private_aggregate(l2_norm_clip=1.0, noise_multiplier=1.5, key=2)  # dp
    private = optax.chain(training.count_releases(noise), optax.adam(0.05))  # dp
    optimizer = training.budget_guard(private, budget)

    @eqx.filter_jit
    def step(model, state, features, labels, mask):
        grads = eqx.filter_grad(loss)
        grads = eqx.filter_vmap(grads, in_axes=(None, 0, 0, 0))  # dp
        grads = grads(model, features, labels, mask)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state

    model = eqx.nn.MLP(8, 2, width_size=16, depth=1, key=jax.random.key(0))
    run = model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    kept, unfinished = Path(folder) / "run.eqx", Path(folder) / "unfinished.eqx"
    if kept.exists():
        run = training.restored(eqx.tree_deserialise_leaves(kept, like=training.storable(run)), like=run)
    done = int(training.release_counts(run[1])[0])
    for number, (indices, mask) in enumerate(data.after(done), done + 1):
        run = step(*run, FEATURES[indices], LABELS[indices], mask)
        if number % 5 == 0:
            eqx.tree_serialise_leaves(unfinished, training.storable(run))
            unfinished.replace(kept)  # as a whole or not at all
        if run[1].budget_spent:  # dp
            break
    return eqx.filter(run[0], eqx.is_inexact_array), training.privacy_spent(run[1], data, DELTA)


if __name__ == "__main__":
    print(train(".")[1])
