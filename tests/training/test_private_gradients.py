"""Private gradients by a description: what is clipped, how much noise is added, how often, and what is refused."""

import contextlib
import dataclasses
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats
from support.mechanisms import EXAMPLES

import jaxacct as ja
from jaxacct import training
from jaxacct.mechanisms._same_bins import SameBins
from jaxacct.training import _normals
from jaxacct.training._clipping import clipped_sum
from jaxacct.training._normals import from_words

DELTA = 1e-6
RUN = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01, num_steps=1)
PARAMS = {"w": jnp.zeros((3, 2)), "b": jnp.zeros(2)}
ROWS = 7
RECORDS = (jax.random.normal(jax.random.key(1), (ROWS, 3)), jax.random.normal(jax.random.key(2), (ROWS, 2)))
MASK = np.array([True] * 5 + [False] * 2)


def _loss(params: Any, feature: Any, target: Any) -> Any:
    return jnp.sum((feature @ params["w"] + params["b"] - target) ** 2)


def _gradients(params: Any = PARAMS) -> Any:
    return jax.vmap(jax.grad(_loss), (None, 0, 0))(params, *RECORDS)


def _aggregate(run: Any = RUN, clip: Any = 1.0, key: Any = 0, batch_size: Any = 1.0, **more: Any) -> Any:
    return training.private_aggregate(run, l2_norm_clip=clip, key=key, batch_size=batch_size, **more)


def _quiet(noise: float = 2.0**-40) -> Any:
    return ja.Gaussian(noise)


def _same(first: Any, second: Any, rtol: float = 1e-5) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), first, second)


# Clipping


def _norm(leaves: Any) -> float:
    return math.sqrt(math.fsum(float(x) ** 2 for leaf in leaves for x in np.asarray(leaf, np.float64).ravel()))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_no_record_adds_more_than_the_norm(dtype: Any) -> None:
    """In exact arithmetic, from gradients whose squares vanish to those whose squares overflow; little is wasted."""
    draws = np.random.default_rng(0)
    largest = float(jnp.finfo(dtype).max)
    one = jax.jit(lambda leaves, clip: clipped_sum(leaves, jnp.ones(1, bool), clip).total)
    for clip in (1.0, 0.1, 3.7, 2.0**-60, 2.0**60):
        for scale in (2.0**-140, 2.0**-70, 1e-20, 0.3, 1.0, 1e3, 1e19, 1e30, 1e38):
            shapes = [(1, 300, 7), (1, 5), (1,)]
            entries = [np.clip(draws.normal(size=shape) * scale, -largest, largest) for shape in shapes]
            leaves = [jnp.asarray(entry, dtype) for entry in entries]
            found, before = _norm(one(leaves, clip)), _norm(leaves)
            assert found <= clip
            if max(float(jnp.abs(leaf.astype(jnp.float32)).max()) for leaf in leaves) > min(clip * 2.0**80, 2.0**120):
                assert found == 0.0
                continue
            assert found >= min(before * (1.0 - 1e-6), clip * (1.0 - 1e-4)) - 1e-37


def test_equal_entries_without_end_are_not_lost() -> None:
    """Sums of so many squares in one float32 stand still at 2^24, in some orders of addition."""
    leaf = jnp.full((1, 2**12 + 1, 2**12), 3e-3)
    [found] = jax.jit(lambda leaf: clipped_sum([leaf], jnp.ones(1, bool), 1.0).total)(leaf)
    entry = float(np.asarray(found).ravel()[0])
    assert np.all(np.asarray(found) == entry)
    assert 1.0 - 1e-3 < entry**2 * found.size <= 1.0


def test_a_record_that_is_not_finite_is_none() -> None:
    good, noise = _gradients(), _aggregate(_quiet())
    step = jax.jit(lambda gradients, mask: noise.update(gradients, noise.init(PARAMS), PARAMS, mask=mask))
    for bad in (np.nan, np.inf, -np.inf):
        spoiled = {"w": good["w"].at[2, 1, 1].set(bad), "b": good["b"]}
        without = MASK.copy()
        without[2] = False
        found, _ = step(spoiled, mask=MASK)
        wanted, _ = step(good, mask=without)
        _same(found, wanted)


def test_a_run_for_so_many_records_knows_its_batch_size() -> None:
    """As `from_epochs` describes it, alone or as batches, and in an epoch or another adjacency."""
    sizes: dict[str, Any] = {"dataset_size": 500, "batch_size": 50, "epochs": 2}
    gradients = _gradients()

    def found(run: Any, size: Any) -> Any:
        noise = _aggregate(run, batch_size=size)
        return jax.jit(noise.update)(gradients, noise.init(PARAMS), PARAMS, mask=MASK)[0]

    for kind in (ja.PoissonSampled, ja.RandomAllocation, ja.ShuffledBatches):
        run = kind.from_epochs(ja.Gaussian(1.0), **sizes)
        wanted = found(run, 50.0)
        shuffled = kind is ja.ShuffledBatches
        others = () if shuffled else (ja.ZeroOut(run),)
        for one in (run, training.batches(run, 500, 0), *others):
            _same(found(one, None), wanted)


def test_zero_gradients_stay_zero() -> None:
    noise = _aggregate(_quiet())
    gradients = jax.tree.map(jnp.zeros_like, _gradients())
    found, _ = jax.jit(noise.update)(gradients, noise.init(PARAMS), PARAMS, mask=MASK)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(found)) < 1e-9


def test_against_optax() -> None:
    """The same sum as optax's own transform, but for rows of padding and the divisor."""
    gradients = _gradients()
    noise = _aggregate(_quiet(), clip=0.5, batch_size=5.0)
    found, _ = noise.update(gradients, noise.init(PARAMS), PARAMS, mask=MASK)
    theirs = optax.contrib.differentially_private_aggregate(l2_norm_clip=0.5, noise_multiplier=0.0, key=0)
    kept = jax.tree.map(lambda leaf: leaf[:5], gradients)
    _same(found, theirs.update(kept, theirs.init(PARAMS))[0], rtol=1e-4)


# Microbatches


@pytest.mark.parametrize("size", [None, 1, 2, 3, 7, 50])
def test_microbatches_give_the_gradient_of_the_whole_batch(size: int | None) -> None:
    whole = _aggregate(key=3, clip=0.5)
    cut = training.private_gradients(_loss, RUN, l2_norm_clip=0.5, key=3, batch_size=1.0, microbatch_size=size)
    state, mask = whole.init(PARAMS), MASK[::-1]
    wanted, after = whole.update(_gradients(), state, PARAMS, mask=mask)
    found, end = jax.jit(cut.update)(RECORDS, cut.init(PARAMS), PARAMS, mask=mask)
    _same(found, wanted)
    assert training.release_counts(end).tolist() == training.release_counts(after).tolist() == [1]
    np.testing.assert_array_equal(end.rng_key, after.rng_key)


def test_batches_that_are_cut_already() -> None:
    data = training.batches(dataclasses.replace(RUN, sampling_prob=0.3, num_steps=6), num_records=ROWS, key=0)
    private = training.private_gradients(_loss, data, l2_norm_clip=0.5, key=3)
    found = []
    for batch in (data[0], data.microbatches(2)[0]):
        records = jax.tree.map(lambda leaf, at=batch.indices: leaf[at], RECORDS)
        found.append(jax.jit(private.update)(records, private.init(PARAMS), PARAMS, mask=batch.mask)[0])
    assert batch.mask.shape == (4, 2)
    _same(*found)


def test_memory_is_bounded_by_the_microbatch() -> None:
    """The program for 64 times as many rows holds next to nothing more than their records."""

    def held(rows: int, size: int | None) -> int:
        private = training.private_gradients(
            lambda params, x: jnp.sum(params * x[0]), RUN, l2_norm_clip=1.0, key=0, batch_size=1.0, microbatch_size=size
        )
        params = jnp.zeros(4096)
        arguments = (jnp.zeros((rows, 1)),), private.init(params), params
        step = jax.jit(private.update).lower(*arguments, mask=jnp.ones(rows, bool)).compile()
        return int(step.memory_analysis().temp_size_in_bytes)

    assert held(512, 8) < 1.5 * held(8, 8) + 2**16
    assert held(512, None) > 8 * held(512, 8)


# Noise


def _draws(optimizer: Any, number: int, phases: Any = None) -> list[np.ndarray[Any, Any]]:
    params = jnp.zeros(20_000)
    step = jax.jit(
        lambda state, phase: optimizer.update(jnp.zeros((1, 20_000)), state, params, mask=np.array([True]), phase=phase)
    )
    state, found = optimizer.init(params), []
    for i in range(number):
        update, state = step(state, None if phases is None else jnp.int32(phases[i]))
        found.append(np.asarray(update, np.float64))
    return found


def _check_normal(values: np.ndarray[Any, Any], scale: float) -> None:
    size = values.size
    low, high = stats.chi2.ppf([1e-6, 1.0 - 1e-6], size)
    assert low <= math.fsum((values / scale) ** 2) <= high
    assert stats.kstest(values / scale, "norm").pvalue > 1e-6


def test_noise_is_that_of_the_run() -> None:
    """Its law, and that draws of different steps and leaves share nothing."""
    found = _draws(_aggregate(ja.PoissonSampled(ja.Gaussian(1.7), 0.01, 3), clip=0.3, batch_size=50.0), 3)
    for values in found:
        _check_normal(values, 1.7 * 0.3 / 50.0)
    assert np.abs(np.corrcoef(found)[np.triu_indices(3, 1)]).max() < 5 / math.sqrt(20_000)
    two = jnp.zeros((2, 9000)), jnp.zeros(9000)
    noise = _aggregate()
    (a, b), _ = noise.update(jax.tree.map(lambda x: x[None], two), noise.init(two), two, mask=np.array([True]))
    assert abs(np.corrcoef(a[0], b)[0, 1]) < 0.05


def test_normals_have_tails() -> None:
    """Radii from 64 bits, at each power of two, against double precision; those of `jax.random` end at 5.42."""
    high = np.array([0] * 33 + [2**i for i in range(32)] + [2**32 - 1, 3 * 2**29], np.uint32)
    low = np.array([0, *(2**i for i in range(32)), *[0] * 34], np.uint32)
    u = (high.astype(np.float64) + (low.astype(np.float64) + 0.5) * 2.0**-32) * 2.0**-32
    for turn, cosine in ((0, 1.0), (2**31, -1.0), (2**29, math.sqrt(0.5))):
        for dtype, rtol in ((jnp.float32, 1e-6), (jnp.float64, 1e-12)):
            with jax.enable_x64(dtype == jnp.float64):
                found = from_words(high, low, np.full_like(low, turn), dtype)
                wanted = np.sqrt(-2.0 * np.log(u)) * cosine
                np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-3 if dtype == jnp.float32 else 1e-12)
                tail = u < 1e-3
                np.testing.assert_allclose(np.asarray(found)[tail], wanted[tail], rtol=rtol)
    assert 9.48 < wanted.max() / math.sqrt(0.5) < 9.5


def test_noise_is_the_same_drawn_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_line = _normals.normals(jax.random.key(3), (2, 3, 4), jnp.float32)
    monkeypatch.setattr(_normals, "_SMALL", 0)
    np.testing.assert_array_equal(in_a_line, _normals.normals(jax.random.key(3), (2, 3, 4), jnp.float32))


def test_wrong_noise_would_be_found() -> None:
    with pytest.raises(AssertionError):
        _check_normal(np.random.default_rng(0).normal(size=20_000) * 1.05, 1.0)


def test_noise_follows_the_schedule() -> None:
    run = ja.ScheduledAllocation(noise_multipliers=(2.0, 0.5), num_steps=(1, 2), num_epochs=2)
    found = _draws(_aggregate(run), 6)
    for values, scale in zip(found, (2.0, 0.5, 0.5) * 2, strict=True):
        _check_normal(values, scale)


def test_noise_of_phases() -> None:
    runs = [RUN, dataclasses.replace(RUN, mechanism=ja.Gaussian(4.0))]
    found = _draws(_aggregate(runs, batch_size=(1.0, 8.0)), 4, phases=(0, 1, 1, 0))
    for values, scale in zip(found, (1.0, 0.5, 0.5, 1.0), strict=True):
        _check_normal(values, scale)
    noise = _aggregate(runs)
    update = jax.jit(noise.update)
    gone, state = update(_gradients(), noise.init(PARAMS), PARAMS, mask=MASK, phase=jnp.int32(2))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(gone))  # not even without noise
    assert training.privacy_spent(state, runs, DELTA) == math.inf


@pytest.mark.parametrize(
    "run",
    [
        ja.Gaussian(1.3),
        ja.RandomAllocation(ja.Gaussian(1.3), 10),
        ja.RandomAllocation(ja.PoissonSampled(ja.Gaussian(1.3), 0.1, 2), 10),
        ja.PartialAllocation(ja.Gaussian(1.3), 10, 3),
        ja.ShuffledBatches(ja.Gaussian(1.3), 10),
        ja.PartialShuffledBatches(ja.Gaussian(1.3), 10, 3),
        ja.FixedBatches(ja.Gaussian(1.3), 100, 10, 5),
        ja.TruncatedPoisson(ja.Gaussian(1.3), 0.1, 100, 20, 5),
        ja.ReplaceOne(ja.PoissonSampled(ja.Gaussian(1.3), 0.1, 2)),
        ja.ZeroOut(ja.PoissonSampled(ja.Gaussian(1.3), 0.1, 2)),
        ja.Group(ja.PoissonSampled(ja.Gaussian(1.3), 0.1, 2), 3),
        ja.MixtureOfGaussians(1.3, (0.0, 1.0), (0.5, 0.5)),
        ja.Composed(ja.Gaussian(1.3), 5),
        training.Epoch(ja.RandomAllocation(ja.Gaussian(1.3), 10), 10),
        training.batches(ja.PoissonSampled(ja.Gaussian(1.3), 0.1, 2), 10, key=0),
    ],
    ids=lambda run: type(run).__name__,
)
def test_every_gaussian_run_says_its_noise(run: Any) -> None:
    assert run.noise_schedule() == ((1.3, 1),)
    assert _aggregate(run).init(PARAMS).released_noise.tolist() == [[0.0, np.float32(1.3), 1.0]]


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if hasattr(kind, "releases")], ids=lambda k: k.__name__)
def test_which_runs_have_a_schedule(kind: type) -> None:
    """Of every mechanism: one that adds Gaussian noise to clipped sums, or a refusal in a sentence."""
    with contextlib.suppress(ValueError):
        assert EXAMPLES[kind].noise_schedule()
        assert "Gaussian noise" in EXAMPLES[kind].describe()
        return
    with pytest.raises(ValueError, match="does not say what Gaussian noise"):
        _aggregate(EXAMPLES[kind])


def test_noise_of_cycles_is_that_of_a_step() -> None:
    """Whose run is described by one release of all cycles together, with less noise than each of them has."""
    [(noise, _)] = SameBins.of(ja.Gaussian(2.0), num_steps=100, num_cycles=4).noise_schedule()
    assert 2.0 <= noise < 2.0 * (1.0 + 1e-14)
    with pytest.raises(ValueError, match="does not say what a release of 4"):
        training.accumulated(SameBins.of(ja.Gaussian(2.0), num_steps=100, num_cycles=4), batches=4)


def test_keys() -> None:
    """One key, one stream; a typed key is taken as it is; donated buffers are the state's own."""
    gradients = _gradients()

    def update(key: Any) -> Any:
        noise = _aggregate(key=key)
        step = jax.jit(noise.update, donate_argnums=1)
        found, _ = step(gradients, noise.init(PARAMS), PARAMS, mask=MASK)
        again, _ = step(gradients, noise.init(PARAMS), PARAMS, mask=MASK)
        jax.tree.map(np.testing.assert_array_equal, found, again)
        return np.asarray(found["w"]).tobytes()

    typed = jax.random.key(5)
    keys = [0, 1, b"secret", b"another", typed, jax.random.key(5, impl="rbg"), jax.random.PRNGKey(5)]
    assert len({update(key) for key in keys}) == len(keys)
    np.testing.assert_array_equal(_aggregate(key=typed).init(PARAMS).rng_key, jax.random.key_data(typed))
    with pytest.raises(ValueError, match="must be one key"):
        _aggregate(key=jax.random.split(typed))
    with pytest.raises(ValueError, match="key of type"):
        _aggregate(key=-1)


# Counting


def test_counts_guards_and_scans() -> None:
    """Whatever `count_releases` can do: a guard around it, a scan, and the steps of a stack."""
    data = training.batches(dataclasses.replace(RUN, sampling_prob=0.3, num_steps=6), num_records=ROWS, key=0)
    private = training.private_gradients(_loss, data, l2_norm_clip=1.0, key=1, microbatch_size=4)
    optimizer = training.budget_guard(optax.chain(private, optax.sgd(0.1)), 4)

    def step(carry: Any, batch: Any) -> Any:
        params, state = carry
        records = jax.tree.map(lambda leaf: leaf[batch.indices], RECORDS)
        updates, state = optimizer.update(records, state, params, mask=batch.mask)
        return (optax.apply_updates(params, updates), state), state.budget_spent

    (params, state), flags = jax.jit(lambda carry, stack: jax.lax.scan(step, carry, stack))(
        (PARAMS, optimizer.init(PARAMS)), data.stacked(0, 6)
    )
    assert flags.tolist() == [False] * 3 + [True] * 3
    assert training.release_counts(state).tolist() == [4]
    by_hand = PARAMS, optimizer.init(PARAMS)
    for batch in data[:6]:
        by_hand, _ = step(by_hand, batch)
    _same(params, by_hand[0])


def test_other_noise_than_was_released_is_refused() -> None:
    noise = optax.chain(_aggregate(), optax.sgd(0.1))
    _, state = noise.update(_gradients(), noise.init(PARAMS), PARAMS, mask=MASK)
    assert training.privacy_spent(state, RUN, DELTA) > 0.0
    for other in (ja.PoissonSampled(ja.Gaussian(1.01), 0.01), ja.Gaussian(0.01)):
        with pytest.raises(ValueError, match=r"noise multipliers are \([\d.]+\), those in the state are \(1\)"):
            training.privacy_spent(state, other, DELTA)
    with pytest.raises(ValueError, match="does not say what Gaussian noise"):
        training.privacy_spent(state, ja.Laplace(1.0), DELTA)


def test_injected_noise_is_compared() -> None:
    """What `optax.inject_hyperparams` keeps in the state beside the count."""
    for noise in (1.0, 0.01):
        transform = optax.inject_hyperparams(optax.contrib.differentially_private_aggregate)(
            l2_norm_clip=1.0, noise_multiplier=noise, key=jax.random.key(0)
        )
        counted = training.count_releases(transform)
        _, state = counted.update(_gradients(), counted.init(PARAMS))
        if noise == 1.0:
            assert training.privacy_spent(state, RUN, DELTA) > 0.0
            continue
        with pytest.raises(ValueError, match=r"noise multipliers are \(1\), those in the state are \(0.01\)"):
            training.privacy_spent(state, RUN, DELTA)


def test_a_schedule_of_injected_noise_is_refused() -> None:
    """The state records the last value alone, which here is what is described, and the steps before had less noise."""
    transform = optax.inject_hyperparams(optax.contrib.differentially_private_aggregate)(
        l2_norm_clip=1.0, noise_multiplier=optax.linear_schedule(0.3, 1.0, 2), key=jax.random.key(0)
    )
    counted = training.count_releases(transform)
    state = counted.init(PARAMS)
    for _ in range(4):
        _, state = counted.update(_gradients(), state)
    assert state[0].hyperparams["noise_multiplier"] == 1.0
    table = training.spent_by_count(RUN, DELTA, most_releases=10)
    for ask in (lambda: training.privacy_spent(state, RUN, DELTA), lambda: table(state)):
        with pytest.raises(ValueError, match=r"noise_multiplier follows a schedule of optax\.inject_hyperparams"):
            ask()
    guarantee = ja.EpsilonDelta(0.1, 1e-9)  # not described by its noise
    assert training.privacy_spent(state, guarantee, DELTA) > 0.3


def test_a_table_knows_injected_noise() -> None:
    table = training.spent_by_count(RUN, DELTA, most_releases=10)
    for noise in (1.0, 0.01):
        transform = optax.inject_hyperparams(optax.contrib.differentially_private_aggregate)(
            l2_norm_clip=1.0, noise_multiplier=noise, key=jax.random.key(0)
        )
        counted = training.count_releases(transform)
        _, state = counted.update(_gradients(), counted.init(PARAMS))
        assert math.isfinite(jax.jit(table)(state)) == (noise == 1.0)


def test_several_batches_are_not_the_pieces_of_one() -> None:
    """What `stacked` gives for a scan, or a loader that batches batches, would be one release of them all."""
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.05, 20)
    data = training.batches(run, 100, 0)
    private = training.private_gradients(lambda w, x: (x @ w) ** 2, data, l2_norm_clip=1.0, key=1)
    params, features = jnp.zeros(2), np.ones((100, 2), np.float32)
    for batch in (data.microbatches(4)[0], data.microbatches(data.batch_size)[0], data[0]):
        private.update((features[batch.indices],), private.init(params), params, mask=batch.mask)
    several = data.stacked(0, 2)
    with pytest.raises(
        ValueError, match=rf"mask of shape \(2, {data.batch_size}\) must be one batch of {data.batch_size} rows"
    ):
        private.update((features[several.indices],), private.init(params), params, mask=several.mask)


def test_a_state_of_other_noise_loses_count() -> None:
    """Restored into a run that adds less noise than was described: what it reads is not finite, and a guard stops."""
    before, after = _aggregate(RUN), training.budget_guard(_aggregate(ja.Gaussian(0.01)), 100)
    held = after.init(PARAMS)._replace(inner_state=before.init(PARAMS))
    _, held = jax.jit(after.update)(_gradients(), held, PARAMS, mask=MASK)
    assert held.budget_spent
    assert training.privacy_spent(held, RUN, DELTA) == math.inf


def test_strict_promotion_and_either_width() -> None:
    for wide in (False, True):
        with jax.enable_x64(wide), jax.numpy_dtype_promotion("strict"):
            kinds = (jnp.float64,) if wide else (jnp.float32, jnp.bfloat16, jnp.float16)
            for kind in kinds:
                params = {"w": jnp.zeros((3, 2), kind), "b": jnp.zeros(2, kind), "s": jnp.zeros((), kind)}
                noise = _aggregate(
                    ja.ScheduledAllocation((1.0, 2.0), (1, 1)), clip=training.AdaptiveClipping(1.0, count_noise=2.0)
                )
                gradients = jax.tree.map(lambda leaf: jnp.ones((4, *leaf.shape), leaf.dtype), params)
                found, state = jax.jit(noise.update)(gradients, noise.init(params), params, mask=np.ones(4, bool))
                assert all(leaf.dtype == kind for leaf in jax.tree.leaves(found))
                assert state.released_noise.dtype == state.l2_norm_clip.dtype == jnp.float32
                assert state.releases.release_counts.dtype == jnp.int32


# Refusals


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"l2_norm_clip": 0.0}, "l2_norm_clip=0.0 must be in"),
        ({"l2_norm_clip": math.inf}, "l2_norm_clip=inf must be in"),
        ({"l2_norm_clip": None}, "l2_norm_clip=None must be a number"),
        ({"batch_size": None}, "batch_size=None of PoissonSampled"),
        ({"batch_size": 0.0}, "batch_size=0.0 must be > 0"),
        ({"batch_size": (1.0, 2.0)}, "one for each of 1 phases"),
        ({"run": ()}, "at least one phase"),
        ({"run": ja.PoissonSampled(ja.Gaussian(1e30), 0.1, 2)}, r"noise_multiplier=1e\+30 must be in"),
        ({"run": 1.0}, "not a mechanism"),
        ({"run": ja.PoissonSampled(ja.Gaussian(None), 0.1, 2)}, "noise_multiplier"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], reason: str) -> None:
    whole: dict[str, Any] = {"run": RUN, "l2_norm_clip": 1.0, "key": 0, "batch_size": 1.0, **arguments}
    with pytest.raises(ValueError, match=reason):
        training.private_aggregate(**whole)
    with pytest.raises(ValueError, match=reason):
        training.private_gradients(_loss, **whole)


def test_what_are_no_records_gradients_is_refused() -> None:
    noise = _aggregate()
    state, gradients = noise.init(PARAMS), _gradients()
    summed = jax.tree.map(lambda leaf: leaf.sum(0), gradients)
    for updates, params, mask, reason in (
        (gradients, None, MASK, "params=None"),
        (gradients, PARAMS, None, "mask=None"),
        (gradients, PARAMS, MASK[:3], "must be bool"),
        (gradients, PARAMS, MASK.astype(np.float32), "must be bool"),
        (gradients, {}, MASK, "must be floating point"),
        (summed, PARAMS, MASK, "must share a leading axis"),
        ({"w": summed["w"], "b": jnp.zeros(3)}, PARAMS, np.ones(3, bool), "must have one row for each record"),
    ):
        with pytest.raises(ValueError, match=reason):
            noise.update(updates, state, params, mask=mask)
    private = training.private_gradients(_loss, RUN, l2_norm_clip=1.0, key=0, batch_size=1.0)
    with pytest.raises(ValueError, match="must share a leading axis"):
        private.update((RECORDS[0], RECORDS[1][:3]), state, PARAMS, mask=MASK)
    with pytest.raises(ValueError, match="microbatch_size=0"):
        training.private_gradients(_loss, RUN, l2_norm_clip=1.0, key=0, microbatch_size=0)


# Adaptive clipping


def test_a_record_moves_the_count_by_half() -> None:
    """Present or absent; a sum of ones would be moved by 1, and half of the noise be missing."""
    gradients = jax.tree.leaves(_gradients())
    for left_out in range(5):
        fewer = MASK.copy()
        fewer[left_out] = False
        with_it, without = (clipped_sum(gradients, jnp.asarray(mask), 3.0).half_excess for mask in (MASK, fewer))
        assert abs(float(with_it - without)) == 0.5
    assert float(clipped_sum(gradients, jnp.asarray(MASK), 1e9).half_excess) == 2.5
    assert float(clipped_sum(gradients, jnp.asarray(MASK), 1e-9).half_excess) == -2.5


def test_count_and_gradients_share_the_noise_of_the_run() -> None:
    """1/sigma^2 = 1/sigma_gradients^2 + 1/(2 count_noise)^2, rounded to the safe side; both noises are added."""
    clip = training.AdaptiveClipping(initial=2.0, count_noise=0.8)
    of_gradients = clip.of_gradients(1.0, 1.0)
    assert 0.0 <= 1.0 - (of_gradients**-2 + (2 * clip.noise_of_count(1.0)) ** -2) < 1e-6
    found = _draws(_aggregate(RUN, clip=clip), 1)
    _check_normal(found[0], of_gradients * 2.0)
    noise = training.private_aggregate(
        RUN, l2_norm_clip=training.AdaptiveClipping(1.0, count_noise=3.0, learning_rate=1.0), key=0, batch_size=10.0
    )
    params, nobody = jnp.zeros(1), jnp.zeros((1, 1))
    state, moves = noise.init(params), []
    step = jax.jit(lambda state: noise.update(nobody, state, params, mask=np.array([False]))[1])
    for _ in range(2000):
        after = step(state)
        moves.append(-math.log(float(after.l2_norm_clip) / float(state.l2_norm_clip)))
        state = after._replace(l2_norm_clip=jnp.float32(1.0))
        assert float(after.l2_norm_clip) != 1.0
    _check_normal(np.array([moves[0], *(m for m in moves[1:])]), 0.3)


def test_the_norm_goes_to_the_quantile() -> None:
    norms = jnp.linspace(0.1, 10.0, 1000)[:, None]
    clip = training.AdaptiveClipping(initial=0.01, quantile=0.7)
    noise = training.private_aggregate(RUN, l2_norm_clip=clip, key=0, batch_size=1000.0)
    params = jnp.zeros(1)
    step = jax.jit(lambda state: noise.update(norms, state, params, mask=np.ones(1000, bool))[1])
    state = noise.init(params)
    for _ in range(150):
        state = step(state)
    assert 6.0 < float(state.l2_norm_clip) < 8.0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"initial": 0.0}, "initial=0.0"),
        ({"quantile": 1.5}, "quantile=1.5"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"count_noise": -1.0}, "count_noise=-1.0"),
        ({"count_noise": 0.5}, "half of the noise multiplier"),
    ],
)
def test_adaptive_clipping_is_checked(arguments: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _aggregate(RUN, clip=training.AdaptiveClipping(**{"initial": 1.0, **arguments}))


# Other libraries, and several devices


@pytest.mark.filterwarnings("ignore:optax.global_norm:DeprecationWarning")  # which jax_privacy calls
def test_clipping_of_jax_privacy() -> None:
    jax_privacy = pytest.importorskip("jax_privacy")

    def batch_loss(params: Any, features: Any, targets: Any) -> Any:
        return jnp.sum((features @ params["w"] + params["b"] - targets) ** 2)

    theirs = jax_privacy.clipped_grad(batch_loss, l2_clip_norm=0.5, batch_argnums=(1, 2))
    private = training.private_gradients(theirs, RUN, key=3, batch_size=4.0)
    ours = training.private_gradients(_loss, RUN, l2_norm_clip=0.5, key=3, batch_size=4.0)
    found, wanted = (jax.jit(one.update)(RECORDS, one.init(PARAMS), PARAMS, mask=MASK)[0] for one in (private, ours))
    _same(found, wanted, rtol=1e-4)
    with pytest.raises(ValueError, match="clips by itself"):
        training.private_gradients(theirs, RUN, l2_norm_clip=1.0, key=3, batch_size=4.0)
    both = jax_privacy.clipped_grad(batch_loss, l2_clip_norm=0.5, batch_argnums=(1, 2), return_grad_norms=True)
    odd = training.private_gradients(both, RUN, key=3, batch_size=4.0)
    with pytest.raises(ValueError, match="must be one clipped sum"):
        odd.update(RECORDS, odd.init(PARAMS), PARAMS, mask=MASK)


_SHARDED = """
    import functools
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P
    import jaxacct as ja
    from jaxacct import training

    assert jax.device_count() == 8
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    run = ja.PoissonSampled(ja.Gaussian(2.0), 0.01, 10)
    params = jnp.zeros(4000)
    features = jax.random.normal(jax.random.key(0), (32, 1))
    mask = np.arange(32) % 5 > 0
    spread = lambda leaf: jax.device_put(leaf, NamedSharding(mesh, P("data")))

    def loss(params, x):
        return jnp.sum(params * x[0])

    def make(size, axis=None, clip=1.0):
        return training.private_gradients(
            loss, run, l2_norm_clip=clip, key=1, batch_size=16.0, microbatch_size=size, axis_name=axis
        )

    alone = make(None)
    wanted, state = alone.update((features,), alone.init(params), params, mask=mask)
    noise = np.asarray(wanted) * 16 - np.asarray(alone.update((features,), state, params, mask=mask)[0]) * 16
    assert 0.95 < noise.std() / (2.0 * 2**0.5) < 1.05, noise.std()  # two releases, each of one noise
    for size in (None, 2):
        auto = make(size)
        found, state = jax.jit(auto.update)((spread(features),), auto.init(params), params, mask=spread(mask))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert training.release_counts(state).tolist() == [1]
        by_hand = make(size, "data")

        @jax.jit
        @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("data"), P(), P(), P("data")), out_specs=P())
        def step(features, state, params, mask):
            return by_hand.update((features,), state, params, mask=mask)

        found, state = step(features, by_hand.init(params), params, mask)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert training.release_counts(state).tolist() == [1]

    # gradients of records that were taken by hand, at parameters that vary or do not
    aggregate = training.private_aggregate(run, l2_norm_clip=1.0, key=1, batch_size=16.0, axis_name="data")

    def taken(vary, transform, features, state, params, mask):
        at = jax.lax.pcast(params, "data", to="varying") if vary else params
        return transform.update(jax.vmap(jax.grad(loss), (None, 0))(at, features), state, params, mask=mask)

    def sharded(body):
        return jax.shard_map(body, mesh=mesh, in_specs=(P("data"), P(), P(), P("data")), out_specs=P())

    found, _ = sharded(functools.partial(taken, True, aggregate))(features, aggregate.init(params), params, mask)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    nameless = training.private_aggregate(run, l2_norm_clip=1.0, key=1, batch_size=16.0)
    for vary, transform in ((False, aggregate), (True, nameless)):
        try:
            sharded(functools.partial(taken, vary, transform))(features, transform.init(params), params, mask)
        except ValueError as error:
            assert "must name the mesh axes" in str(error), error
        else:
            raise AssertionError("not refused")

    # every device has all records: added up, each would count eight times, with the noise for one
    for by_hand in (make(None, "data"), make(2, "data")):
        everywhere = jax.shard_map(
            lambda features, state, params, mask: by_hand.update((features,), state, params, mask=mask),
            mesh=mesh, in_specs=(P(), P(), P(), P()), out_specs=P(),
        )
        try:
            everywhere(features, by_hand.init(params), params, mask)
        except ValueError as error:
            assert "must name the mesh axes over which records are spread, []" in str(error), error
        else:
            raise AssertionError("not refused")
"""


def test_noise_once_on_eight_devices() -> None:
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(_SHARDED)]
    done = subprocess.run(command, env={**os.environ, **devices}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.sample(1)
@pytest.mark.filterwarnings("ignore::UserWarning")  # orbax
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kept_by", ["orbax", "msgpack"])
def test_killed_and_restored_ten_times(kept_by: str, tmp_path: Path) -> None:
    """Each time from what was saved last, by a fresh optimizer: the same parameters, key, count and statement."""
    run = ja.PoissonSampled(ja.Gaussian(1.5), 0.3, 44)
    data = training.batches(run, num_records=ROWS, key=0)

    def begin() -> tuple[Any, Any]:
        clip = training.AdaptiveClipping(1.0, count_noise=2.0)
        private = training.private_gradients(_loss, data, l2_norm_clip=clip, key=b"secret", microbatch_size=4)
        optimizer = optax.chain(private, optax.adam(0.1))
        return optimizer, (PARAMS, optimizer.init(PARAMS))

    optimizer, straight = begin()

    @jax.jit
    def step(held: Any, batch: Any) -> Any:
        params, state = held
        records = jax.tree.map(lambda leaf: leaf[batch.indices], RECORDS)
        updates, state = optimizer.update(records, state, params, mask=batch.mask)
        return optax.apply_updates(params, updates), state

    for batch in data:
        straight = step(straight, batch)
    if kept_by == "orbax":
        checkpointer = pytest.importorskip("orbax.checkpoint").StandardCheckpointer()
    else:
        serialization = pytest.importorskip("flax.serialization")
    held = begin()[1]
    for life in range(11):  # ten ends of it and one that comes to the end, four steps each; one step is lost each time
        done = int(training.release_counts(held)[0])
        assert done == 4 * life
        for number, batch in enumerate(data.after(done), 1):
            held = step(held, batch)
            if number == 4:
                break
        if kept_by == "orbax":
            checkpointer.save(tmp_path / str(life), held)
            checkpointer.wait_until_finished()
        else:
            stored = serialization.to_bytes(held)
        if life < 10:
            step(held, data[4 * life + 4])
        fresh = begin()[1]
        if kept_by == "orbax":
            held = checkpointer.restore(tmp_path / str(life), fresh)
        else:
            held = serialization.from_bytes(fresh, stored)
    jax.tree.map(np.testing.assert_array_equal, held, straight)
    assert training.release_counts(held).tolist() == [44]
    assert training.report(held, data, DELTA) == training.report(straight, data, DELTA)
    assert training.privacy_spent(held, data, DELTA) == training.privacy_spent(straight, data, DELTA)
