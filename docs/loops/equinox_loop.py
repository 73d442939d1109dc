"""Equinox: a module as the parameters, Poisson-sampled batches, its own files."""

from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import optax

import jaxacct as ja
from jaxacct import training

RUN = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.5), sampling_prob=0.05, num_steps=40)

draws = np.random.default_rng(0)
FEATURES = draws.normal(size=(1000, 8)).astype(np.float32)
LABELS = (FEATURES[:, 0] > FEATURES[:, 1]).astype(np.int32)


def loss(model, feature, label):
    return optax.softmax_cross_entropy_with_integer_labels(model(feature), label)


def train(folder):
    data = training.batches(RUN, num_records=len(LABELS), key=1)
    private = training.private_aggregate(data, l2_norm_clip=1.0, key=2)  # dp
    optimizer = optax.chain(private, optax.adam(0.05))

    @eqx.filter_jit
    def step(number, model, state, features, labels, mask):
        grads = eqx.filter_vmap(eqx.filter_grad(loss), in_axes=(None, 0, 0))(model, features, labels)  # dp
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array), mask=mask)
        return number + 1, eqx.apply_updates(model, updates), state

    model = eqx.nn.MLP(8, 2, width_size=16, depth=1, key=jax.random.key(0))
    run = jax.numpy.int32(0), model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    kept, unfinished = Path(folder) / "run.eqx", Path(folder) / "unfinished.eqx"
    if kept.exists():
        run = eqx.tree_deserialise_leaves(kept, like=run)
    for indices, mask in data.after(int(run[0])):
        run = step(*run, FEATURES[indices], LABELS[indices], mask)
        if run[0] % 5 == 0:
            eqx.tree_serialise_leaves(unfinished, run)
            unfinished.replace(kept)  # as a whole or not at all
    return eqx.filter(run[1], eqx.is_inexact_array), training.report(run[2], data, target_delta=1e-5)  # dp


if __name__ == "__main__":
    print(train(".")[1])
