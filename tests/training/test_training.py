"""The training hook: what is counted, what it costs, what it is worth in epsilon, and where it stops."""

import collections
import contextlib
import dataclasses
import functools
import math
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize, stats

import jaxacct as ja
from jaxacct import training
from jaxacct._types import Direction
from jaxacct.divergence.allocation._profile import AllocationProfile

QUICK = math.inf  # precision: the closed forms and Renyi divergences are enough to test what is counted
DELTA = 1e-6
GRADIENT = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3)}
PARAMS = jax.tree.map(jnp.zeros_like, GRADIENT)
GAUSSIAN = ja.Gaussian(noise_multiplier=1.0)
POISSON = ja.PoissonSampled(GAUSSIAN, sampling_prob=0.01)


def _noise() -> optax.GradientTransformation:
    return optax.add_noise(1.0, 0.0, key=0)


def _stand_in() -> optax.GradientTransformation:
    """In place of noise, quicker to compile: adds the number of the call, so that a state that is not kept shows."""

    def update(updates: Any, state: jax.Array, params: Any = None) -> Any:
        del params
        return jax.tree.map(lambda u: u + state, updates), state + 1.0

    return optax.GradientTransformation(lambda params: jnp.zeros(()), update)


def _assert_same(first: Any, second: Any) -> None:
    """Equal trees, random keys included."""

    def plain(x: jax.Array) -> jax.Array:
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    jax.tree.map(lambda a, b: np.testing.assert_array_equal(plain(a), plain(b)), first, second)


def _counts(state: Any) -> list[int]:
    return np.asarray(training.release_counts(state)).tolist()


def _run(optimizer: Any, num_steps: int, **extra: Any) -> Any:
    state = optimizer.init(PARAMS)
    step = jax.jit(lambda state: optimizer.update(GRADIENT, state, PARAMS, **extra)[1])
    for _ in range(num_steps):
        state = step(state)
    return state


def _state(*counts: int) -> training.ReleaseCountState:
    return training.ReleaseCountState(jnp.array(counts, jnp.int32))


# Counting


def test_state_holds_counts_only() -> None:
    state = training.track_privacy(3).init(PARAMS)
    assert training.ReleaseCountState._fields == ("release_counts",)
    assert state.release_counts.dtype == jnp.int32
    assert state.release_counts.shape == (3,)


def test_updates_and_noise_state_are_untouched() -> None:
    plain, counted = _noise(), training.count_releases(_noise())
    state, counted_state = plain.init(PARAMS), counted.init(PARAMS)
    for _ in range(3):
        updates, state = plain.update(GRADIENT, state, PARAMS)
        counted_updates, counted_state = counted.update(GRADIENT, counted_state, PARAMS)
        _assert_same(updates, counted_updates)
    _assert_same(state, counted_state[0])
    assert _counts(counted_state) == [3]


COUNTED = training.count_releases(_stand_in())
PLACEMENTS: dict[str, tuple[Callable[[], Any], int]] = {
    "alone": (lambda: COUNTED, 12),
    "chain": (lambda: optax.chain(COUNTED, optax.adam(1e-3)), 12),
    "track_privacy": (lambda: optax.chain(_stand_in(), training.track_privacy(), optax.adam(1e-3)), 12),
    "nested chains": (lambda: optax.chain(optax.chain(optax.identity(), COUNTED), optax.adam(1e-3)), 12),
    # the accumulated gradient is noised and released every fourth step
    "noise in MultiSteps": (lambda: optax.MultiSteps(optax.chain(COUNTED, optax.adam(1e-3)), 4), 3),
    # each mini-step is noised and released
    "noise before MultiSteps": (
        lambda: optax.chain(COUNTED, optax.MultiSteps(optax.adam(1e-3), 4).gradient_transformation()),
        12,
    ),
    "noise before apply_if_finite": (lambda: optax.chain(COUNTED, optax.apply_if_finite(optax.adam(1e-3), 5)), 12),
    "noise in apply_if_finite": (lambda: optax.apply_if_finite(optax.chain(COUNTED, optax.adam(1e-3)), 5), 12),
    "inject_hyperparams": (
        lambda: optax.inject_hyperparams(lambda rate: optax.chain(COUNTED, optax.sgd(rate)))(rate=0.1),
        12,
    ),
    "masked": (lambda: optax.chain(COUNTED, optax.masked(optax.sgd(0.1), {"w": True, "b": False})), 12),
    "partition": (
        lambda: optax.chain(
            COUNTED, optax.partition({"a": optax.sgd(0.1), "b": optax.set_to_zero()}, {"w": "a", "b": "b"})
        ),
        12,
    ),
    "guard": (lambda: training.budget_guard(optax.chain(COUNTED, optax.adam(1e-3)), 100), 12),
}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_counts_releases_wherever_the_noise_is(name: str) -> None:
    make, expected = PLACEMENTS[name]
    assert _counts(_run(make(), 12)) == [expected]


def test_misplaced_track_privacy_counts_what_passes_there() -> None:
    """Documents what goes wrong: the noise is released twelve times, and fewer calls pass behind these wrappers."""
    accumulated = optax.MultiSteps(optax.chain(training.track_privacy(), optax.adam(1e-3)), 4)
    misplaced = optax.chain(_stand_in(), accumulated.gradient_transformation())
    assert _counts(_run(misplaced, 12)) == [3]

    def overflow(updates: Any, state: Any, params: Any = None) -> Any:
        del params
        return jax.tree.map(lambda u: jnp.where(state % 2 == 0, u, jnp.inf), updates), state + 1

    half_overflows = optax.GradientTransformation(lambda params: jnp.zeros((), jnp.int32), overflow)
    skipping = optax.apply_if_finite(optax.chain(training.track_privacy(), optax.adam(1e-3)), 5)
    assert _counts(_run(optax.chain(_stand_in(), half_overflows, skipping), 12)) == [6]
    # with the noise itself the count is that of the noise, before such a wrapper ...
    right = optax.chain(COUNTED, half_overflows, optax.apply_if_finite(optax.adam(1e-3), 5))
    assert _counts(_run(right, 12)) == [12]
    # ... and inside one, where the steps that are left out add no noise; that they were left out is not accounted for
    inside = optax.chain(half_overflows, optax.apply_if_finite(optax.chain(COUNTED, optax.adam(1e-3)), 5))
    assert _counts(_run(inside, 12)) == [6]


def test_scan_and_donation() -> None:
    optimizer = training.budget_guard(optax.chain(COUNTED, optax.adam(1e-3)), 25)

    def body(carry: Any, _: Any) -> Any:
        params, state = carry
        updates, state = optimizer.update(GRADIENT, state, params)
        return (optax.apply_updates(params, updates), state), state.budget_spent

    run = jax.jit(lambda carry: jax.lax.scan(body, carry, length=10), donate_argnums=0)
    params = jax.tree.map(jnp.array, PARAMS)
    carry, flags = run((params, optimizer.init(params)))  # fails if init shares a buffer
    assert _counts(carry[1]) == [10]
    assert not flags.any()
    carry, _ = run(carry)
    carry, flags = run(carry)
    assert _counts(carry[1]) == [25]
    assert flags.tolist() == [False] * 4 + [True] * 6


def test_one_compilation_for_all_steps_and_phases() -> None:
    optimizer = training.budget_guard(optax.chain(training.count_releases(_stand_in(), 2), optax.adam(1e-3)), (50, 5))
    traces = []

    @jax.jit
    def step(state: Any, phase: Any) -> Any:
        traces.append(phase)
        return optimizer.update(GRADIENT, state, PARAMS, phase=phase)

    state = optimizer.init(PARAMS)
    for i in range(12):
        _, state = step(state, int(i >= 4))
    assert _counts(state) == [4, 5]
    assert len(traces) == 1
    assert step._cache_size() == 1


def test_phases_eager_static_and_traced() -> None:
    optimizer = training.count_releases(_stand_in(), 3)
    state = optimizer.init(PARAMS)
    for phase in (0, np.int64(1), jnp.int32(1), jnp.uint8(2)):
        _, state = optimizer.update(GRADIENT, state, PARAMS, phase=phase)
    assert _counts(state) == [1, 2, 1]
    step = jax.jit(lambda state, phase: optimizer.update(GRADIENT, state, PARAMS, phase=phase)[1])
    for dtype in (jnp.int8, jnp.uint8, jnp.int32):
        state = step(state, jnp.array(2, dtype))
    assert _counts(state) == [1, 2, 4]


@pytest.mark.parametrize("phase", [None, 2, -1, 0.0, "0", jnp.zeros(2, jnp.int32), jnp.float32(1.0)])
def test_concrete_phase_is_checked(phase: Any) -> None:
    hook = training.track_privacy(2)
    with pytest.raises(ValueError, match="phase"):
        hook.update(GRADIENT, hook.init(PARAMS), phase=phase)


@pytest.mark.parametrize("phase", [jnp.float32(1.0), jnp.zeros(1, jnp.int32)])
def test_traced_phase_is_checked_for_its_type(phase: Any) -> None:
    hook = training.track_privacy(2)
    with pytest.raises(ValueError, match="must be one integer"):
        jax.jit(lambda phase: hook.update(GRADIENT, hook.init(PARAMS), phase=phase))(phase)


@pytest.mark.parametrize("phase", [2, -1, 127, -128])
def test_traced_phase_out_of_range_fails_closed(phase: int) -> None:
    hook = training.track_privacy(2)
    step = jax.jit(lambda state, phase: hook.update(GRADIENT, state, phase=phase)[1])
    state = step(_state(3, 4), jnp.int8(phase))
    assert _counts(state) == [2**31 - 1] * 2
    assert training.privacy_spent(step(state, 0), [POISSON] * 2, DELTA) == math.inf


def test_counts_saturate_and_are_worth_nothing_then() -> None:
    hook = training.track_privacy()
    state = _state(2**31 - 3)
    values = []
    for _ in range(4):
        _, state = jax.jit(hook.update)(GRADIENT, state)
        values += _counts(state)
    assert values == [2**31 - 2, 2**31 - 1, 2**31 - 1, 2**31 - 1]
    assert training.privacy_spent(state, POISSON, DELTA) == math.inf


@pytest.mark.parametrize("num_phases", [0, 128, 1.0, True, "2", None])
def test_number_of_phases_is_checked(num_phases: Any) -> None:
    with pytest.raises(ValueError, match="num_phases="):
        training.track_privacy(num_phases)


# Cost

_INSTRUCTION = re.compile(r"= (\w+)\[([\d,]*)\]\S* ([\w-]+)\(")
_BOOKKEEPING = {"parameter", "constant", "tuple", "get-tuple-element", "fusion", "bitcast", "copy", "broadcast", "call"}


def _operations(optimizer: optax.GradientTransformation, **extra: Any) -> collections.Counter[tuple[str, str, int]]:
    """(operation, type, elements) in the compiled training step, but for what only passes values on."""

    def step(params: Any, state: Any, extra: Any) -> Any:
        updates, state = optimizer.update(GRADIENT, state, params, **extra)
        return optax.apply_updates(params, updates), state

    compiled = jax.jit(step).lower(PARAMS, optimizer.init(PARAMS), extra).compile()
    found: collections.Counter[tuple[str, str, int]] = collections.Counter()
    for dtype, shape, name in _INSTRUCTION.findall(compiled.as_text()):
        if name not in _BOOKKEEPING:
            found[name, dtype, math.prod(int(n) for n in shape.split(",") if n)] += 1
    return found


def test_compiled_step_gains_one_saturating_addition() -> None:
    plain = _operations(optax.chain(_noise(), optax.adam(1e-3)))
    counted = _operations(optax.chain(training.count_releases(_noise()), optax.adam(1e-3)))
    assert sum(plain.values()) > 20
    assert not plain - counted
    assert counted - plain == {("add", "s32", 1): 1, ("compare", "pred", 1): 1, ("convert", "s32", 1): 1}


def test_compiled_step_with_phases_gains_a_few_integers() -> None:
    plain = _operations(optax.chain(_noise(), optax.adam(1e-3)))
    counted = _operations(optax.chain(training.count_releases(_noise(), 3), optax.adam(1e-3)), phase=1)
    gained = counted - plain
    assert not plain - counted
    assert gained["add", "s32", 3] == 1
    assert sum(gained.values()) <= 12
    assert {dtype for _, dtype, _ in gained} <= {"s32", "pred"}
    assert max(size for _, _, size in gained) <= 3


# Finding the counts


def test_found_in_any_tree() -> None:
    state = _run(optax.chain(COUNTED, optax.adam(1e-3)), 2)
    for tree in (state, {"opt": [state]}, (state,), {"release_counts": np.array([2])}):
        assert _counts(tree) == [2]
    assert jax.jit(lambda state: 2 * training.release_counts(state))(state) == 4


def test_absent_or_ambiguous_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="no release_counts in this state"):
        training.release_counts(optax.adam(1e-3).init(PARAMS))
    twice = optax.chain(COUNTED, optax.adam(1e-3), training.track_privacy()).init(PARAMS)
    with pytest.raises(ValueError, match=r"2 entries named release_counts, at \[0\]\[1\].release_counts, \[2\]"):
        training.privacy_spent(twice, POISSON, DELTA)
    assert training.privacy_spent(twice[0], POISSON, DELTA) == 0.0


def test_accumulated_batches_are_refused_wherever_the_state_is() -> None:
    optimizer = optax.chain(optax.MultiSteps(COUNTED, 4, use_grad_mean=False).gradient_transformation(), optax.sgd(0.1))
    state = _run(optimizer, 12)
    fields = {"mini_step": 0, "gradient_step": 3, "inner_opt_state": {"0": state[0].inner_opt_state}}
    for tree in (state, {"opt": [state], "mini_step": 3}, fields, {"run": fields}):
        assert _counts(tree) == [3]
        with pytest.raises(ValueError, match=r"Say how many, .* pass the part at .*inner_opt_state.* training.acc"):
            training.privacy_spent(tree, POISSON, DELTA)
    outside = _run(optax.chain(COUNTED, optax.MultiSteps(optax.adam(1e-3), 4).gradient_transformation()), 2)
    for tree in (outside, {"opt": outside, "mini_step": 3}, state[0].inner_opt_state):
        assert training.privacy_spent(tree, POISSON, DELTA, precision=QUICK) > 0.0


def test_a_count_of_updates_around_the_noise_of_accumulated_batches_is_refused() -> None:
    """40 updates were counted, and 10 releases were made, of four batches each: 40 of one batch would cost less."""
    words = optax.GradientTransformation(
        lambda _: (jax.random.PRNGKey(0),), lambda updates, state, _=None: (updates, state)
    )
    for noise in (optax.add_noise(1.0, 0.0, key=0), words):
        accumulated = optax.MultiSteps(noise, 4, use_grad_mean=False).gradient_transformation()
        for optimizer in (
            training.count_releases(accumulated),
            optax.chain(accumulated, training.track_privacy(), optax.sgd(0.1)),
        ):
            state = _run(optimizer, 40)
            assert _counts(state) == [40]
            for ask in (training.privacy_spent, training.spent_by_count(POISSON, DELTA, most_releases=50)):
                arguments = (POISSON, DELTA) if ask is training.privacy_spent else ()
                with pytest.raises(
                    ValueError, match=r"outside optax\.MultiSteps, and noise is added inside it, with the key"
                ):
                    ask(state, *arguments)
            with pytest.raises(ValueError, match="updates are counted, not releases"):
                training.budget_guard(optimizer, 50).init(PARAMS)
    told = _run(training.count_releases(accumulated, batches_per_release=4), 8)
    assert training.privacy_spent(told, POISSON, DELTA) > training.privacy_spent(_held(4, 2), POISSON, DELTA)


def test_a_release_of_several_batches_costs_more_than_one_of_one() -> None:
    """A record joins a release of four batches with probability 1 - .99^4, and may be in it more than once."""
    state = _run(optax.MultiSteps(COUNTED, 4, use_grad_mean=False), 40).inner_opt_state
    assert _counts(state) == [10]
    shares = stats.binom.pmf(range(5), 4, 0.01)
    held = ja.MixtureOfGaussians(1.0, range(5), shares)
    once = ja.epsilon_interval(ja.PoissonSampled(GAUSSIAN, 1 - 0.99**4, 10), 1e-5)
    assert training.privacy_spent(state, POISSON, 1e-5) < 0.3801 < 1.369 < once.lower
    assert once.upper < 1.759 < training.privacy_spent(state, held, 1e-5) < 1.761


def _held(batches: int | None, count: int, inner: Any = None) -> Any:
    counted = training.count_releases(_stand_in(), batches_per_release=batches)
    return _run(optax.MultiSteps(counted if inner is None else inner(counted), 4, use_grad_mean=False), 4 * count)


def test_a_count_that_was_told_is_charged_for_what_a_release_holds() -> None:
    """Of the whole state, by what draws one batch; as pieces of one batch, if it was told so."""
    state = _held(4, 10)
    held = training.accumulated(dataclasses.replace(POISSON, num_steps=40), batches=4)
    assert 1.369 < training.privacy_spent(state, POISSON, 1e-5) == ja.epsilon(held, 1e-5) < 1.761
    assert training.privacy_spent(_held(None, 10).inner_opt_state, held, 1e-5) == ja.epsilon(held, 1e-5)
    assert training.privacy_spent(_held(1, 10), POISSON, 1e-5) < 0.3801
    data = training.batches(dataclasses.replace(POISSON, num_steps=40), 1000, 0)
    assert ja.epsilon(held, 1e-5) <= training.privacy_spent(state, data, 1e-5) < 1.761
    with pytest.raises(ValueError, match="44 batches were released"):
        training.privacy_spent(_held(4, 11), data, 1e-5)
    migrated = training.with_counts(_stand_in().init(PARAMS), like=state.inner_opt_state, releases=10)
    assert training.privacy_spent(migrated, POISSON, 1e-5) == ja.epsilon(held, 1e-5)


def test_accumulated_allocation_has_fewer_steps() -> None:
    run = ja.RandomAllocation(GAUSSIAN, 40, num_epochs=2)
    assert training.accumulated(run, batches=4) == ja.RandomAllocation(GAUSSIAN, 10, num_epochs=2)
    assert training.accumulated(training.batches(run, 100, 0), batches=1) == run
    fewer = ja.RandomAllocation(GAUSSIAN, 10, num_epochs=2), ja.PartialAllocation(GAUSSIAN, 10, 3)
    for count, wanted in zip((20, 3), fewer, strict=True):
        assert training.privacy_spent(_held(4, count), run, DELTA) == ja.epsilon(wanted, DELTA)
    schedule = ja.ScheduledAllocation((1.0, 2.0), (40, 80))
    assert training.accumulated(schedule, batches=4) == ja.ScheduledAllocation((1.0, 2.0), (10, 20))
    always = ja.PoissonSampled(GAUSSIAN, 1.0, 8)
    found = ja.epsilon(training.accumulated(always, batches=4), DELTA)
    assert found == pytest.approx(ja.epsilon(ja.Composed(ja.Gaussian(0.25), 2), DELTA), rel=1e-9)
    assert training.privacy_spent(_held(4, 2), GAUSSIAN, DELTA) == pytest.approx(found, rel=1e-9)
    for relation in ("replace-one", "zero-out"):
        asked = ja.ReplaceOne(POISSON) if relation == "replace-one" else ja.ZeroOut(POISSON)
        held = training.accumulated(dataclasses.replace(POISSON, num_steps=8), batches=4)
        spent = training.privacy_spent(_held(4, 2), asked, 1e-5)
        assert spent == ja.epsilon(held, 1e-5, neighboring_relation=relation)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (ja.RandomAllocation(GAUSSIAN, 42), "num_steps=42 must be a multiple of batches=4"),
        (ja.PoissonSampled(GAUSSIAN, 0.1, 41), "num_steps=41 must be a multiple"),
        (ja.PoissonSampled(GAUSSIAN, 0.1, None), "num_steps=None must be a number"),
        (ja.RandomAllocation(GAUSSIAN, 40, 2), "num_selected=1"),
        (ja.RandomAllocation(ja.Laplace(1.0), 40), "does not say what a release of 4"),
        (ja.PoissonSampled(ja.Laplace(1.0), 0.1, 40), "does not say what a release of 4"),
        (ja.ShuffledBatches(GAUSSIAN, 40), "describe the larger ones"),
        (ja.FixedBatches(GAUSSIAN, 100, 10, 40), "does not say what a release of 4"),
        (ja.TruncatedPoisson(GAUSSIAN, 0.1, 100, 20, 40), "does not say what a release of 4"),
        (ja.Composed(GAUSSIAN, 40), "does not say what a release of 4"),
        (training.Epoch(ja.RandomAllocation(GAUSSIAN, 40), 40), "must be a mechanism whose batches are drawn"),
        (0.5, "not a mechanism"),
    ],
)
def test_what_several_batches_reveal_is_known_or_refused(run: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        training.accumulated(run, batches=4)


@pytest.mark.parametrize("batches", [0, -1, 1.5, True, 2**31])
def test_batches_of_a_release_are_checked(batches: Any) -> None:
    with pytest.raises(ValueError, match="batches_per_release="):
        training.count_releases(_stand_in(), batches_per_release=batches)
    with pytest.raises(ValueError, match="batches="):
        training.accumulated(POISSON, batches=batches)


def test_a_release_of_more_batches_than_are_listed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"batches_per_release=600 must be in \[1, 512\]"):
        training.privacy_spent(_held(600, 1), POISSON, DELTA)


def test_guard_around_accumulation_that_was_told() -> None:
    run = ja.PoissonSampled(ja.Gaussian(5.0), 0.01)
    held = training.accumulated(dataclasses.replace(run, num_steps=40), batches=4)
    limit = training.steps_affordable(held, 0.12, 1e-5, precision=QUICK)
    counted = training.count_releases(_stand_in(), batches_per_release=4)
    around = training.budget_guard(optax.MultiSteps(counted, 4, use_grad_mean=False).gradient_transformation(), limit)
    state = _run(around, 4 * limit + 9)
    assert limit > 1
    assert _counts(state) == [limit]
    assert state.budget_spent
    assert training.privacy_spent(state, run, 1e-5, precision=QUICK) <= 0.12


def test_per_record_gradients_do_not_fit_the_sums_of_multi_steps() -> None:
    """As docs/training.md says: clip and sum first."""
    noise = optax.contrib.differentially_private_aggregate(1.0, 1.0, key=0)
    optimizer = optax.MultiSteps(training.count_releases(noise), 4)
    params = jnp.zeros(3)
    with pytest.raises(TypeError):
        optimizer.update(jnp.ones((8, 3)), optimizer.init(params), params)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (jnp.zeros((8, 1), jnp.int32), "replica"),
        (jnp.zeros((), jnp.int32), "num_phases"),
        (jnp.zeros(1), "must be integers"),
        (jnp.array([-1], jnp.int32), "must be >= 0"),
        (jnp.zeros(2, jnp.int32), "1 mechanisms for 2 phases"),
    ],
)
def test_damaged_counts_are_refused(counts: jax.Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        training.privacy_spent({"release_counts": counts}, POISSON, DELTA)


def test_privacy_is_read_on_the_host() -> None:
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda state: training.privacy_spent(state, POISSON, DELTA))(_state(1))


# Epsilon of the counts


def _spent(mechanism: Any, *counts: int, precision: float | None = QUICK) -> float:
    return training.privacy_spent(_state(*counts), mechanism, DELTA, precision=precision)


def test_gaussian_against_the_closed_form() -> None:
    def delta(epsilon: float, mu: float) -> float:
        first, second = stats.norm.logcdf(mu / 2 - epsilon / mu), stats.norm.logcdf(-mu / 2 - epsilon / mu)
        return math.exp(first) - math.exp(epsilon + second)

    for count in (1, 7, 100):
        excess = functools.partial(lambda mu, e: delta(e, mu) - DELTA, math.sqrt(count) / 20)
        exact = optimize.brentq(excess, 1e-6, 50, xtol=1e-12)
        assert _spent(ja.Gaussian(20.0), count) == pytest.approx(exact, rel=1e-6)


def test_count_replaces_the_planned_length() -> None:
    for planned in (1, 10**6):
        plan = ja.PoissonSampled(GAUSSIAN, 0.01, num_steps=planned)
        asked = ja.epsilon(ja.PoissonSampled(GAUSSIAN, 0.01, 300), DELTA, precision=QUICK)
        told = pytest.warns(UserWarning, match="num_steps=1000000 of PoissonSampled is replaced by the 300 batches")
        with told if planned > 1 else contextlib.nullcontext():
            assert _spent(plan, 300) == pytest.approx(asked, rel=1e-12)
        plan = ja.RandomAllocation(GAUSSIAN, 100, num_epochs=planned)
        asked = ja.epsilon(ja.RandomAllocation(GAUSSIAN, 100, 1, 3), DELTA, precision=QUICK)
        assert _spent(plan, 300) == pytest.approx(asked, rel=1e-12)


def test_nothing_is_said_of_a_length_that_was_run() -> None:
    assert _spent(ja.PoissonSampled(GAUSSIAN, 0.01, num_steps=20), 20) == _spent(POISSON, 20)


def test_precision_is_passed_on() -> None:
    run = ja.PoissonSampled(GAUSSIAN, 0.01, num_steps=200)
    assert _spent(run, 200, precision=None) == ja.epsilon(run, DELTA)
    assert _spent(run, 200, precision=None) < 0.98 * _spent(run, 200)


def test_nothing_released_costs_nothing() -> None:
    for mechanism in (GAUSSIAN, POISSON, ja.RandomAllocation(GAUSSIAN, 10)):
        assert _spent(mechanism, 0) == 0.0


@pytest.mark.slow
def test_unfinished_epoch_costs_at_most_the_whole() -> None:
    run = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=20, num_selected=4)
    one, one_more, four, last, whole, next_one = (_spent(run, n) for n in (1, 2, 4, 19, 20, 21))
    # the first step alone: sampled with probability 4/20, a Gaussian release at the most, less than four among twenty
    assert ja.epsilon(ja.PoissonSampled(ja.Gaussian(2.0), 0.2, 1), DELTA) <= one <= ja.epsilon(ja.Gaussian(2.0), DELTA)
    assert one <= one_more <= whole
    assert four == last == whole
    assert whole == pytest.approx(ja.epsilon(run, DELTA, precision=QUICK), rel=1e-12)
    assert whole < next_one <= ja.epsilon(ja.RandomAllocation(ja.Gaussian(2.0), 20, 4, 2), DELTA, precision=QUICK)


@pytest.mark.parametrize("steps_done", [1, 30, 99])
def test_unfinished_epoch_is_not_below_its_true_value(steps_done: int) -> None:
    spent = _spent(ja.RandomAllocation(GAUSSIAN, 100), steps_done, precision=None)
    for direction in Direction:
        assert spent >= AllocationProfile(1.0, 100, direction, steps_done=steps_done).epsilon(DELTA).lower


def test_phases_compose() -> None:
    other = ja.PoissonSampled(ja.Gaussian(2.0), 0.02)
    parts = (ja.PoissonSampled(GAUSSIAN, 0.01, 30), ja.PoissonSampled(ja.Gaussian(2.0), 0.02, 50))
    assert _spent([POISSON, other], 30, 50) == ja.epsilon(ja.Composed(parts), DELTA, precision=QUICK)
    assert _spent([POISSON, other], 30, 0) == _spent(POISSON, 30)
    assert _spent([POISSON, other], 0, 0) == 0.0


def test_phases_of_different_adjacency_are_refused() -> None:
    reports = training.Epoch(ja.Shuffled(ja.LocalRandomizer(1.0), 1000), 10)
    with pytest.raises(ValueError, match="adjacency"):
        _spent([POISSON, reports], 1, 1)


@pytest.fixture
def descriptions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What epsilon was asked of."""
    asked: list[Any] = []

    def recorded(mechanism: Any, target_delta: float, *, precision: float | None) -> float:
        del target_delta, precision
        asked.append(mechanism)
        return 1.0

    monkeypatch.setattr("jaxacct.training._spending.epsilon", recorded)
    return asked


def test_shuffled_reports_by_epochs(descriptions: list[Any]) -> None:
    reports = ja.Shuffled(ja.LocalRandomizer(0.5), num_reports=1000, num_epochs=7)
    for count in (1, 10, 11, 20, 21):
        _spent(training.Epoch(reports, num_steps=10), count)
    assert [run.num_epochs for run in descriptions] == [1, 1, 2, 2, 3]
    with pytest.raises(ValueError, match="Epoch"):
        _spent(reports, 1)


def test_epochs_of_a_composition(descriptions: list[Any]) -> None:
    step = ja.Composed((ja.Gaussian(20.0), ja.Gaussian(40.0)))
    for count in (1, 5, 6):
        _spent(training.Epoch(step, 5), count)
    assert descriptions == [step, step, ja.Composed(step, 2)]
    with pytest.raises(ValueError, match="one for each phase"):
        _spent(step, 3)


def test_cycles_of_sampled_groups_are_epochs(descriptions: list[Any]) -> None:
    """Each step of the allocation is a run of 11 releases: 110 are one epoch, any fewer too, and 111 begin the next."""
    cyclic = ja.RandomAllocation(ja.PoissonSampled(GAUSSIAN, 0.2, 11), num_steps=10)
    for count in (1, 11, 110, 111, 220):
        _spent(cyclic, count)
    assert [run.num_epochs for run in descriptions] == [1, 1, 1, 2, 2]
    assert training.steps_affordable(cyclic, 2.0, DELTA) % 110 == 0
    _spent(ja.RandomAllocation(ja.PoissonSampled(GAUSSIAN, 0.2, 1), num_steps=10), 3)
    assert descriptions[-1].num_epochs == 1


def test_description_of_phases(descriptions: list[Any]) -> None:
    run = ja.RandomAllocation(GAUSSIAN, 10, num_epochs=3)
    _spent([ja.Laplace(2.0), run, run, POISSON], 7, 20, 0, 5)
    finished = dataclasses.replace(run, num_epochs=2)
    poisson = dataclasses.replace(POISSON, num_steps=5)
    assert descriptions == [ja.Composed((ja.Laplace(2.0), finished, poisson), (7, 1, 1))]


@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_epoch_is_checked(value: Any) -> None:
    with pytest.raises(ValueError, match="num_steps="):
        training.Epoch(GAUSSIAN, value)


def test_array_fields_and_targets_are_refused() -> None:
    with pytest.raises(ValueError, match="scalar fields"):
        _spent(ja.Gaussian(np.array([1.0, 2.0])), 1)
    with pytest.raises(ValueError, match="target_delta"):
        training.privacy_spent(_state(1), GAUSSIAN, 0.0)


# Affordable counts

BUDGETS: dict[str, tuple[Any, float]] = {
    "gaussian": (ja.Gaussian(20.0), 1.0),
    "poisson": (POISSON, 2.0),
    "allocation": (ja.RandomAllocation(GAUSSIAN, 100), 4.0),
    "allocation, several": (ja.RandomAllocation(ja.Gaussian(4.0), 20, 4), 1.37),
    "epoch": (training.Epoch(ja.Composed((ja.Gaussian(20.0), ja.Gaussian(40.0))), 5), 1.0),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_affordable_is_the_largest_within_the_budget(name: str) -> None:
    mechanism, budget = BUDGETS[name]
    count = training.steps_affordable(mechanism, budget, DELTA, precision=QUICK)
    assert 1 < count < 10**5
    assert _spent(mechanism, count) <= budget < _spent(mechanism, count + 1)


@pytest.mark.slow
def test_affordable_at_full_precision() -> None:
    run = ja.RandomAllocation(GAUSSIAN, 100)
    count = training.steps_affordable(run, 2.0, DELTA)
    assert count >= training.steps_affordable(run, 2.0, DELTA, precision=QUICK)
    assert _spent(run, count, precision=None) <= 2.0 < _spent(run, count + 1, precision=None)


def test_affordable_ends() -> None:
    assert training.steps_affordable(ja.Gaussian(1.0), 1.0, DELTA) == 0
    assert training.steps_affordable(ja.Gaussian(1.0), 0.0, DELTA) == 0
    free = ja.PoissonSampled(GAUSSIAN, sampling_prob=0.0)
    assert training.steps_affordable(free, 1.0, DELTA, precision=QUICK) == 2**31 - 2


@pytest.mark.more
def test_affordable_after_other_runs() -> None:
    before = ja.PoissonSampled(ja.Gaussian(2.0), 0.02, 500)
    count = training.steps_affordable(POISSON, 2.0, DELTA, after=before, precision=QUICK)
    assert 0 < count < training.steps_affordable(POISSON, 2.0, DELTA, precision=QUICK)
    phases = [ja.PoissonSampled(ja.Gaussian(2.0), 0.02), POISSON]
    assert _spent(phases, 500, count) <= 2.0 < _spent(phases, 500, count + 1)
    assert count == training.steps_affordable(POISSON, 2.0, DELTA, after=ja.Composed(before), precision=QUICK)
    with pytest.raises(ValueError, match="alone has epsilon"):
        training.steps_affordable(POISSON, 0.1, DELTA, after=before, precision=QUICK)


@pytest.mark.parametrize("target", [(-1.0, DELTA), (math.inf, DELTA), (1.0, 0.0), (1.0, 1.0)])
def test_affordable_checks_its_targets(target: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="target_"):
        training.steps_affordable(POISSON, *target)


# The guard


def test_guard_stops_exactly_at_the_affordable_step() -> None:
    budget = training.steps_affordable(ja.Gaussian(20.0), 1.0, DELTA)
    optimizer = training.budget_guard(
        optax.chain(training.count_releases(_noise()), optax.sgd(0.1, momentum=0.9)), budget
    )
    state = optimizer.init(PARAMS)
    assert not state.budget_spent
    step = jax.jit(optimizer.update)
    for n in range(1, budget + 4):
        before = state
        updates, state = step(GRADIENT, state, PARAMS)
        assert all(np.all(leaf == 0.0) for leaf in jax.tree.leaves(updates)) == (n > budget)
        assert _counts(state) == [min(n, budget)]
        assert bool(state.budget_spent) == (n >= budget)
    _assert_same(before, state)  # momentum and random key stand still too
    spent = training.privacy_spent(state, ja.Gaussian(20.0), DELTA)
    assert spent <= 1.0 < training.privacy_spent(_state(budget + 1), ja.Gaussian(20.0), DELTA)


def test_guard_leaves_affordable_steps_alone() -> None:
    plain = optax.chain(COUNTED, optax.adam(1e-3))
    guarded = training.budget_guard(plain, 3)
    state, guarded_state = plain.init(PARAMS), guarded.init(PARAMS)
    for _ in range(3):
        updates, state = plain.update(GRADIENT, state, PARAMS)
        same, guarded_state = guarded.update(GRADIENT, guarded_state, PARAMS)
        _assert_same((updates, state), (same, guarded_state.inner_state))


def test_guard_hides_updates_that_are_not_finite() -> None:
    broken = optax.stateless(lambda updates, params: jax.tree.map(lambda u: u * jnp.nan, updates))
    optimizer = training.budget_guard(optax.chain(COUNTED, broken), 0)
    state = optimizer.init(PARAMS)
    assert state.budget_spent
    updates, state = optimizer.update(GRADIENT, state, PARAMS)
    assert all(np.all(leaf == 0.0) for leaf in jax.tree.leaves(updates))
    assert _counts(state) == [0]


def test_guard_inside_accumulation_counts_releases_and_around_it_refuses() -> None:
    inside = optax.MultiSteps(training.budget_guard(optax.chain(COUNTED, optax.sgd(0.1)), 2), 4)
    state = _run(inside, 40)
    assert _counts(state) == [2]
    with pytest.raises(ValueError, match=r"stands inside optax\.MultiSteps"):
        training.privacy_spent(state, POISSON, DELTA)
    accumulated = optax.MultiSteps(optax.chain(COUNTED, optax.sgd(0.1)), 4).gradient_transformation()
    around = training.budget_guard(accumulated, 2)
    with pytest.raises(ValueError, match=r"MultiSteps\(budget_guard\(\.\.\.\), k\)"):
        around.init(PARAMS)
    stored = training.BudgetGuardState(accumulated.init(PARAMS), jnp.array(False))  # from before it was refused
    with pytest.raises(ValueError, match=r"stands inside optax\.MultiSteps"):
        jax.jit(around.update)(GRADIENT, stored, PARAMS)


def test_guard_of_phases() -> None:
    optimizer = training.budget_guard(training.count_releases(_stand_in(), 2), [3, 2])
    state = optimizer.init(PARAMS)
    flags = []
    step = jax.jit(lambda state, phase: optimizer.update(GRADIENT, state, PARAMS, phase=phase))
    for phase in (0, 1, 0, 0, 0, 1, 1):
        updates, state = step(state, phase)
        flags.append(bool(state.budget_spent))
    assert _counts(state) == [3, 2]
    assert flags == [False, False, False, True, True, True, True]
    updates, state = step(state, 7)  # no such phase: nothing is released
    assert all(np.all(leaf == 0.0) for leaf in jax.tree.leaves(updates))
    assert _counts(state) == [3, 2]
    with pytest.raises(ValueError, match="phase"):
        optimizer.update(GRADIENT, state, PARAMS)


def test_guard_stops_when_the_count_was_lost() -> None:
    optimizer = training.budget_guard(training.track_privacy(), 2**31 - 2)
    state = training.BudgetGuardState(_state(2**31 - 1), jnp.array(False))
    updates, state = optimizer.update(GRADIENT, state)
    assert all(np.all(leaf == 0.0) for leaf in jax.tree.leaves(updates))
    assert state.budget_spent


@pytest.mark.parametrize("limit", [-1, 2**31 - 1, 1.0, True, "3", (1, 2.0)])
def test_guard_checks_its_limit(limit: Any) -> None:
    with pytest.raises(ValueError, match="max_releases="):
        training.budget_guard(COUNTED, limit)


@pytest.mark.parametrize("thing", [None, 3, optax.adam, (lambda params: params,)])
def test_what_is_no_transform_is_refused(thing: Any) -> None:
    with pytest.raises(ValueError, match=r"^noise_transform=.* must be an optax transform, with"):
        training.count_releases(thing)
    with pytest.raises(ValueError, match=r"^inner=.* must be an optax transform, with"):
        training.budget_guard(thing, 3)


def test_guard_needs_one_count_and_its_phases() -> None:
    with pytest.raises(ValueError, match="no release_counts"):
        training.budget_guard(optax.sgd(0.1), 3).init(PARAMS)
    with pytest.raises(ValueError, match="each of 1 phases"):
        training.budget_guard(COUNTED, (3, 4)).init(PARAMS)


def test_strict_promotion_and_either_width() -> None:
    """The hook mixes no types, and its counters stay int32, whatever the user's settings are."""
    code = (
        "import jax; jax.config.update('jax_numpy_dtype_promotion', 'strict')\n"
        "import jax.numpy as jnp, optax\n"
        "from jaxacct import training\n"
        "for wide in (False, True):\n"
        "    jax.config.update('jax_enable_x64', wide)\n"
        "    for traced in (False, True):\n"
        "        t = training.budget_guard(training.track_privacy(2), (1, 2))\n"
        "        state = t.init(jnp.zeros(3))\n"
        "        step = lambda state, phase: t.update(jnp.ones(3), state, phase=phase)[1]\n"
        "        for phase in (0, 1, 1, 1):\n"
        "            state = (jax.jit(step) if traced else step)(state, phase)\n"
        "        counts = training.release_counts(state)\n"
        "        assert counts.dtype == jnp.int32 and counts.tolist() == [1, 2], counts\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
