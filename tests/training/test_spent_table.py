"""Epsilon by the number of releases, read inside compiled steps: never below what is said outside."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxacct as ja
from jaxacct import training

DELTA = 1e-6
SAMPLING = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1)


@pytest.fixture(scope="module", name="table")
def _table():
    return training.spent_by_count(SAMPLING, DELTA, most_releases=700)


def counted(count):
    return training.ReleaseCountState(jnp.array([count], jnp.int32))


@pytest.mark.parametrize("count", [0, 1, 2, 50, 64, 65, 66, 377, 699, 700])
def test_reading_is_an_upper_bound_close_to_what_is_said_outside(table, count):
    outside = training.privacy_spent(counted(count), SAMPLING, DELTA)
    inside = float(jax.jit(table)(counted(count)))
    assert inside >= outside
    assert inside <= outside * (1.0 + 2.0**-23 if count <= 64 or count == 700 else 1.032)


@pytest.mark.parametrize("count", [701, 2**31 - 1])
def test_beyond_the_table_and_of_lost_counts_nothing_is_known(table, count):
    assert jax.jit(table)(counted(count)) == jnp.inf


def test_inside_scan_and_as_an_argument(table):
    optimizer = training.count_releases(optax.add_noise(1.0, 0.0, key=0))

    @jax.jit
    def run(state, table, gradients):
        def step(state, gradient):
            _, state = optimizer.update(gradient, state)
            return state, table(state)

        return jax.lax.scan(step, state, gradients)

    _, epsilons = run(optimizer.init(jnp.zeros(2)), table, jnp.ones((5, 2)))
    assert epsilons.dtype == jnp.float32
    said = [training.privacy_spent(counted(n), SAMPLING, DELTA) for n in range(1, 6)]
    np.testing.assert_allclose(epsilons, said, rtol=2.0**-22)
    assert (np.asarray(epsilons, np.float64) >= said).all()


def test_of_batches_up_to_their_number():
    data = training.batches(dataclasses.replace(SAMPLING, num_steps=7), num_records=50, key=b"k" * 32)
    table = training.spent_by_count(data, DELTA)
    assert table.counts[-1] == 7
    with pytest.raises(ValueError, match="most_releases=8"):
        training.spent_by_count(data, DELTA, most_releases=8)


def test_of_epochs_reads_whole_ones():
    epoch = ja.RandomAllocation(ja.Gaussian(2.0), 10)
    table = training.spent_by_count(epoch, DELTA, most_releases=20)
    for count in (3, 10, 11, 20):
        outside = training.privacy_spent(counted(count), epoch, DELTA)
        assert outside <= float(table(counted(count))) <= outside * (1.0 + 2.0**-22)


@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_state_that_says_its_noise_is_compared(noise):
    run = ja.Gaussian(noise)
    optimizer = training.private_aggregate(run, l2_norm_clip=1.0, key=0, batch_size=4)
    table = training.spent_by_count(ja.Gaussian(1.0), DELTA, most_releases=3)
    state = optimizer.init(jnp.zeros(2))
    _, state = optimizer.update(jnp.ones((4, 2)), state, jnp.zeros(2), mask=jnp.ones(4, bool))
    assert jnp.isfinite(jax.jit(table)(state)) == (noise == 1.0)


def test_releases_of_several_batches_are_compared():
    noise = training.count_releases(optax.add_noise(1.0, 0.0, key=0), batches_per_release=4)
    held, plain = noise.init(jnp.zeros(2)), counted(1)
    four = training.spent_by_count(SAMPLING, DELTA, most_releases=3, batches_per_release=4)
    _, held = noise.update(jnp.ones(2), held)
    assert float(jax.jit(four)(held)) >= training.privacy_spent(held, SAMPLING, DELTA)
    assert jax.jit(four)(plain) == jnp.inf
    one = training.spent_by_count(SAMPLING, DELTA, most_releases=3)
    assert jax.jit(one)(held) == jnp.inf


def test_bad_arguments():
    with pytest.raises(ValueError, match="most_releases=None of PoissonSampled"):
        training.spent_by_count(SAMPLING, DELTA)
    with pytest.raises(ValueError, match="most_releases=0"):
        training.spent_by_count(SAMPLING, DELTA, most_releases=0)
    with pytest.raises(ValueError, match="one phase"):
        training.spent_by_count([SAMPLING, SAMPLING], DELTA, most_releases=3)
    with pytest.raises(ValueError, match="of one phase"):
        training.spent_by_count(SAMPLING, DELTA, most_releases=2)(training.track_privacy(2).init(jnp.zeros(2)))
