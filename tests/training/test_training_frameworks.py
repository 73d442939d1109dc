"""The training hook inside the frameworks that people train with, with checkpoints and on several devices."""

import itertools
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

import jaxacct as ja
from jaxacct import training

DELTA = 1e-6
POISSON = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01)
PARAMS = {"w": jnp.zeros((3, 2)), "b": jnp.zeros(2)}
BATCH = jax.random.normal(jax.random.key(1), (8, 3))


def _noise(num_phases: int = 1) -> optax.GradientTransformationExtraArgs:
    return training.count_releases(optax.add_noise(0.1, 0.0, key=0), num_phases)


def _optimizer(budget: int = 100) -> optax.GradientTransformationExtraArgs:
    return training.budget_guard(optax.chain(_noise(), optax.adam(1e-2)), budget)


def _apply(params: Any, batch: jax.Array) -> jax.Array:
    return batch @ params["w"] + params["b"]


def _loss(params: Any, batch: jax.Array) -> jax.Array:
    return jnp.mean((_apply(params, batch) - 1.0) ** 2)


def _counts(state: Any) -> list[int]:
    return np.asarray(training.release_counts(state)).tolist()


def _per_example_gradients(params: Any) -> Any:
    return jax.vmap(jax.grad(_loss), (None, 0))(params, BATCH[:, None])


@pytest.mark.parametrize("whole_optimizer", [False, True])
@pytest.mark.filterwarnings("ignore:.*seed.*:DeprecationWarning")  # what optax's own dpsgd passes on
def test_optax_dpsgd(whole_optimizer: bool) -> None:
    """These take per-example gradients and give back one: the updates change shape on the way."""
    clip = optax.contrib.differentially_private_aggregate(l2_norm_clip=1.0, noise_multiplier=1.0, key=0)
    if whole_optimizer:
        inner = training.count_releases(optax.contrib.dpsgd(0.1, l2_norm_clip=1.0, noise_multiplier=1.0, seed=0))
    else:
        inner = optax.chain(training.count_releases(clip), optax.adam(1e-2))
    optimizer = training.budget_guard(inner, 3)

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(_per_example_gradients(params), state, params)
        return optax.apply_updates(params, updates), state

    params, state = PARAMS, optimizer.init(PARAMS)
    seen = [params]
    for _ in range(5):
        params, state = step(params, state)
        seen.append(params)
    moved = [bool(jnp.any(a["w"] != b["w"])) for a, b in itertools.pairwise(seen)]
    assert moved == [True, True, True, False, False]
    assert _counts(state) == [3]
    assert training.privacy_spent(state, POISSON, DELTA, precision=math.inf) > 0.0


def test_injected_noise_in_phases() -> None:
    """The noise changes during training by a hyperparameter; the phase says which releases had which."""
    noise = optax.inject_hyperparams(optax.contrib.differentially_private_aggregate)(
        l2_norm_clip=1.0, noise_multiplier=1.0, key=jax.random.key(0)
    )
    optimizer = optax.chain(training.count_releases(noise, num_phases=2), optax.sgd(0.1))

    @jax.jit
    def step(state: Any, phase: Any) -> Any:
        noise_state = state[0][0]
        hyperparams = {**noise_state.hyperparams, "noise_multiplier": jnp.where(phase == 0, 1.0, 2.0)}
        state = ((noise_state._replace(hyperparams=hyperparams), state[0][1]), *state[1:])
        return optimizer.update(_per_example_gradients(PARAMS), state, PARAMS, phase=phase)[1]

    state = optimizer.init(PARAMS)
    for i in range(5):
        state = step(state, int(i >= 2))
    assert _counts(state) == [2, 3]
    phases = [ja.PoissonSampled(ja.Gaussian(sigma), 0.01) for sigma in (1.0, 2.0)]
    two, three = (ja.PoissonSampled(ja.Gaussian(sigma), 0.01, n) for sigma, n in ((1.0, 2), (2.0, 3)))
    spent = training.privacy_spent(state, phases, DELTA, precision=math.inf)
    assert spent == ja.epsilon(ja.Composed((two, three)), DELTA, precision=math.inf)


def _privatizer() -> optax.GradientTransformation:
    """Built like those of jax_privacy 2.0: other names of the arguments, a state of (key, state of the strategy)."""

    def update(sum_of_clipped_grads: Any, noise_state: Any, params: Any = None) -> Any:
        del params
        key, inner = noise_state
        new_key, sub_key = jax.random.split(key)
        noise = optax.tree.random_like(sub_key, sum_of_clipped_grads)
        return optax.tree.add(sum_of_clipped_grads, noise), (new_key, inner)

    return optax.GradientTransformation(lambda params: (jax.random.key(0), ()), update)


def test_privatizer_in_the_style_of_jax_privacy() -> None:
    _check_privatizer(_privatizer())


def test_jax_privacy() -> None:
    noise_addition = pytest.importorskip("jax_privacy.noise_addition")
    _check_privatizer(noise_addition.gaussian_privatizer(stddev=1.0, prng_key=jax.random.key(0)))


def _check_privatizer(privatizer: Any) -> None:
    optimizer = optax.chain(training.count_releases(privatizer), optax.adam(1e-2))
    state, plain_state = optimizer.init(PARAMS), privatizer.init(PARAMS)
    update = jax.jit(optimizer.update)
    for _ in range(3):
        _, state = update(PARAMS, state, PARAMS)
        _, plain_state = privatizer.update(PARAMS, plain_state)
    assert _counts(state) == [3]
    assert jax.random.key_data(state[0][0][0]).tolist() == jax.random.key_data(plain_state[0]).tolist()


def test_flax_train_state() -> None:
    train_state = pytest.importorskip("flax.training.train_state")
    state = train_state.TrainState.create(apply_fn=_apply, params=jax.tree.map(jnp.array, PARAMS), tx=_optimizer(4))
    state = state.replace(step=jnp.int32(0))  # flax's own Python 0 would cost a second compilation

    def step(state: Any, batch: jax.Array) -> Any:
        return state.apply_gradients(grads=jax.grad(_loss)(state.params, batch))

    step = jax.jit(step, donate_argnums=0)
    for _ in range(3):
        state = step(state, BATCH)
    assert not state.opt_state.budget_spent
    for _ in range(3):
        state = step(state, BATCH)
    assert (_counts(state), _counts(state.opt_state), int(state.step)) == ([4], [4], 6)
    assert state.opt_state.budget_spent
    assert step._cache_size() == 1


def test_phases_of_a_flax_train_state() -> None:
    """`apply_gradients` of flax passes no extra arguments on; ours does, traced or not, and changes nothing else."""
    train_state = pytest.importorskip("flax.training.train_state")
    optimizer = training.budget_guard(optax.chain(_noise(2), optax.sgd(0.1)), (5, 1))
    begun = train_state.TrainState.create(apply_fn=_apply, params=PARAMS, tx=optimizer)
    with pytest.raises(ValueError, match="name one of the 2 phases"):
        begun.apply_gradients(grads=PARAMS)
    with pytest.raises(ValueError, match="phase=2"):
        training.apply_gradients(begun, grads=PARAMS, phase=2)

    @jax.jit
    def step(state: Any, phase: Any) -> Any:
        return training.apply_gradients(state, grads=jax.grad(_loss)(state.params, BATCH), phase=phase)

    state = begun.replace(step=jnp.int32(0))  # flax's own Python 0 would cost a second compilation
    for phase in (0, 1, 1):
        state = step(state, phase)
    assert (_counts(state), int(state.step)) == ([1, 1], 3)
    assert state.opt_state.budget_spent
    assert step._cache_size() == 1
    assert state.tx is optimizer
    assert training.apply_gradients(state, grads=PARAMS, phase=0, apply_fn=len).apply_fn is len


def test_train_state_of_one_phase() -> None:
    train_state = pytest.importorskip("flax.training.train_state")
    state = train_state.TrainState.create(apply_fn=_apply, params=PARAMS, tx=_optimizer(4))
    ours, theirs = (training.apply_gradients(state, grads=PARAMS), state.apply_gradients(grads=PARAMS))
    jax.tree.map(np.testing.assert_array_equal, training.storable(ours), training.storable(theirs))


def test_flax_nnx() -> None:
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    guarded = training.budget_guard(optax.chain(_noise(2), optax.adam(1e-2)), (3, 1))
    optimizer = nnx.Optimizer(model, guarded, wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any, phase: Any) -> None:
        grads = nnx.grad(lambda model: jnp.mean((model(BATCH) - 1.0) ** 2))(model)
        optimizer.update(model, grads, phase=phase)

    for phase in (0, 0, 1, 1):
        step(model, optimizer, jnp.int32(phase))
    for tree in (optimizer, optimizer.opt_state, nnx.state(optimizer)):
        assert _counts(tree) == [2, 1]
    assert optimizer.opt_state.budget_spent[...]
    assert training.privacy_spent(optimizer, [POISSON, POISSON], DELTA, precision=math.inf) > 0.0


def test_accumulated_batches_are_seen_in_frameworks() -> None:
    """Several sampled batches in one release, in an optimizer of nnx, in a TrainState and in bytes."""
    nnx = pytest.importorskip("flax.nnx")
    train_state = pytest.importorskip("flax.training.train_state")
    serialization = pytest.importorskip("flax.serialization")
    noise = training.count_releases(_raw_noise())
    accumulated = optax.MultiSteps(optax.chain(noise, optax.sgd(0.1)), 4, use_grad_mean=False).gradient_transformation()
    optimizer = nnx.Optimizer(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), accumulated, wrt=nnx.Param)
    state = train_state.TrainState.create(apply_fn=_apply, params=PARAMS, tx=accumulated)
    stored = serialization.msgpack_restore(serialization.to_bytes(state))
    for tree in (optimizer, optimizer.opt_state, nnx.state(optimizer), state, state.opt_state, stored):
        assert _counts(tree) == [0]
        with pytest.raises(ValueError, match=r"stands inside optax\.MultiSteps"):
            training.privacy_spent(tree, POISSON, DELTA)
    for part in (optimizer.opt_state.inner_opt_state, stored["opt_state"]["inner_opt_state"]):
        assert training.privacy_spent(part, POISSON, DELTA) == 0.0


def test_equinox() -> None:
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))  # with leaves that are no arrays
    optimizer = _optimizer(3)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit(donate="all-except-first")
    def step(batch: jax.Array, model: Any, state: Any) -> Any:
        grads = eqx.filter_grad(lambda model: jnp.mean((jax.vmap(model)(batch) - 1.0) ** 2))(model)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state

    flags = []
    for _ in range(4):
        model, state = step(BATCH, model, state)
        flags.append(bool(state.budget_spent))
    assert flags == [False, False, True, True]
    assert _counts(state) == [3]


def _steps(params: Any, state: Any, num_steps: int, optimizer: Any) -> tuple[Any, Any]:
    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(jax.grad(_loss)(params, BATCH), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(num_steps):
        params, state = step(params, state)
    return params, state


@pytest.mark.filterwarnings("ignore::UserWarning")  # orbax, of a restore without a target
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_orbax_save_restore_resume(tmp_path: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    optimizer = training.budget_guard(optax.chain(training.count_releases(_raw_noise()), optax.adam(1e-2)), 7)
    params, state = _steps(PARAMS, optimizer.init(PARAMS), 5, optimizer)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "run", {"params": params, "opt_state": state})
        checkpointer.wait_until_finished()
        fresh = {"params": PARAMS, "opt_state": optimizer.init(PARAMS)}
        restored = checkpointer.restore(tmp_path / "run", jax.tree.map(ocp.utils.to_shape_dtype_struct, fresh))
        nameless = checkpointer.restore(tmp_path / "run")  # nested dicts and lists: the field's name is what remains
    spent = training.privacy_spent(state, POISSON, DELTA, precision=math.inf)
    for tree in (restored, nameless):
        assert _counts(tree) == [5]
        assert training.release_counts(tree).dtype == jnp.int32
        assert training.privacy_spent(tree, POISSON, DELTA, precision=math.inf) == spent
    resumed = _steps(restored["params"], restored["opt_state"], 4, optimizer)
    straight = _steps(params, state, 4, optimizer)
    jax.tree.map(np.testing.assert_array_equal, resumed, straight)
    assert _counts(resumed) == [7]
    assert resumed[1].budget_spent


def _raw_noise() -> optax.GradientTransformation:
    """Noise with a key of plain integers, which every checkpoint format can hold."""

    def update(updates: Any, state: jax.Array, params: Any = None) -> Any:
        del params
        key, sub_key = jax.random.split(state)
        return optax.tree.add(updates, optax.tree.random_like(sub_key, updates)), key

    return optax.GradientTransformation(lambda params: jax.random.PRNGKey(0), update)


def test_flax_bytes() -> None:
    serialization = pytest.importorskip("flax.serialization")
    optimizer = optax.chain(training.count_releases(_raw_noise(), 2), optax.adam(1e-2))
    state = jax.jit(lambda state: optimizer.update(PARAMS, state, PARAMS, phase=1)[1])(optimizer.init(PARAMS))
    stored = serialization.to_bytes(state)
    assert _counts(serialization.from_bytes(optimizer.init(PARAMS), stored)) == [0, 1]
    assert _counts(serialization.msgpack_restore(stored)) == [0, 1]


def test_typed_keys_in_bytes() -> None:
    """Optax's own transforms hold keys of a type that msgpack does not know."""
    serialization = pytest.importorskip("flax.serialization")
    noise = optax.contrib.differentially_private_aggregate(1.0, 1.0, key=jax.random.key(1, impl="rbg"))
    optimizer = optax.chain(training.count_releases(noise), optax.adam(1e-2))
    gradients = jax.tree.map(lambda leaf: leaf[None], PARAMS)
    state = optimizer.update(gradients, optimizer.init(PARAMS), PARAMS)[1]
    with pytest.raises(TypeError, match="PRNGKey"):
        serialization.to_bytes(state)
    stored = serialization.to_bytes(training.storable(state))
    fresh = optimizer.init(PARAMS)
    again = training.restored(serialization.from_bytes(training.storable(fresh), stored), like=fresh)
    assert jax.tree.structure(again) == jax.tree.structure(state)
    straight, resumed = (optimizer.update(gradients, s, PARAMS) for s in (state, again))
    jax.tree.map(np.testing.assert_array_equal, training.storable(resumed), training.storable(straight))
    with pytest.raises(ValueError, match="must be of shape"):
        training.restored(training.storable(state), like=optimizer.init({"w": jnp.zeros(7), "b": jnp.zeros(1)}))


def _without_hook() -> optax.GradientTransformation:
    return optax.chain(optax.add_noise(1.0, 0.0, key=0), optax.adam(1e-2))


def _with_hook(num_phases: int) -> optax.GradientTransformation:
    noise = training.count_releases(optax.add_noise(1.0, 0.0, key=0), num_phases)
    return training.budget_guard(optax.chain(noise, optax.adam(1e-2)), (6,) * num_phases)


@pytest.mark.parametrize(("releases", "counts"), [(5, [5]), ((2, 3), [2, 3])])
def test_state_from_before_the_hook(releases: Any, counts: list[int]) -> None:
    """It goes on as it would have gone on, and counts from where it was."""
    plain, hooked = _without_hook(), _with_hook(len(counts))
    old = plain.init(PARAMS)
    for _ in range(5):
        _, old = plain.update(PARAMS, old, PARAMS)
    with pytest.raises(ValueError, match="migrated by training"):
        training.privacy_spent(old, POISSON, DELTA)
    new = training.with_counts(old, like=hooked.init(PARAMS), releases=releases)
    assert _counts(new) == counts
    straight, _ = plain.update(PARAMS, old, PARAMS)
    updates, new = hooked.update(PARAMS, new, PARAMS, phase=0)
    jax.tree.map(np.testing.assert_array_equal, updates, straight)
    assert _counts(new)[0] == counts[0] + 1


def test_state_from_before_the_hook_is_refused_if_it_does_not_fit() -> None:
    old, like = _without_hook().init(PARAMS), _with_hook(1).init(PARAMS)
    for releases in (-1, 1.0, True, None, (1, 2), ()):
        with pytest.raises(ValueError, match="releases="):
            training.with_counts(old, like, releases)
    with pytest.raises(ValueError, match="leaves instead of"):
        training.with_counts(like, like, 1)
    with pytest.raises(ValueError, match="leaf 4 differs"):
        training.with_counts(_without_hook().init({"w": jnp.zeros(5), "b": PARAMS["b"]}), like, 1)
    with pytest.raises(ValueError, match="no release_counts"):
        training.with_counts(old, old, 1)


def test_vmapped_members_are_told_apart() -> None:
    optimizer = _optimizer()
    members = jax.vmap(lambda scale: optimizer.init({"w": scale * PARAMS["w"]}))(jnp.ones(3))
    with pytest.raises(ValueError, match="are separate runs"):
        training.privacy_spent(members, POISSON, DELTA, precision=math.inf)
    assert _counts(jax.tree.map(lambda leaf: leaf[0], members)) == [0]


_SHARDED = """
    import functools
    import jax, jax.numpy as jnp, numpy as np, optax
    from jax.sharding import NamedSharding, PartitionSpec as P
    import jaxacct as ja
    from jaxacct import training

    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    batch = jax.device_put(jnp.arange(32.0).reshape(16, 2), NamedSharding(mesh, P("data")))
    params = jax.device_put({"w": jnp.zeros(2)}, NamedSharding(mesh, P()))

    def make():  # afresh for each run: a noise transform may keep the key that its state is donated with
        noise = training.count_releases(optax.add_noise(0.1, 0.0, key=0), num_phases=2)
        return training.budget_guard(optax.chain(noise, optax.adam(1e-2)), (4, 2))

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
    )

    def loss(params, batch):
        return jnp.mean((batch @ params["w"] - 1.0) ** 2)

    def step(optimizer, params, state, batch, phase, *, axis=None):
        if axis is not None:
            params = jax.tree.map(lambda p: jax.lax.pcast(p, axis, to="varying"), params)
        grads = jax.grad(loss)(params, batch)
        if axis is not None:
            grads = jax.lax.pmean(grads, axis)
            params = jax.lax.pmean(params, axis)
        updates, state = optimizer.update(grads, state, params, phase=phase)
        return optax.apply_updates(params, updates), state

    results = []
    for by_hand in (True, False):
        optimizer = make()
        sharded = functools.partial(step, optimizer, axis="data" if by_hand else None)
        if by_hand:
            sharded = jax.shard_map(sharded, mesh=mesh, in_specs=(P(), P(), P("data"), P()), out_specs=P())
        run = jax.jit(sharded, donate_argnums=(0, 1))
        here = jax.tree.map(lambda p: p.copy(), params)
        state = jax.device_put(optimizer.init(params), NamedSharding(mesh, P()))
        phases = [jnp.int32(i >= 5) for i in range(8)]
        here, state = run(here, state, batch, phases[0])
        assert compiled
        compiled.clear()
        for phase in phases[1:]:
            here, state = run(here, state, batch, phase)
        assert not compiled
        counts = training.release_counts(state)
        assert counts.tolist() == [4, 2] and bool(state.budget_spent), state
        assert len(counts.sharding.device_set) == 8 and counts.sharding.is_fully_replicated
        gaussian = ja.Gaussian(20.0)
        spent = training.privacy_spent(state, [gaussian, gaussian], 1e-6)
        assert abs(spent - ja.epsilon(ja.Composed(gaussian, 6), 1e-6)) < 1e-9
        results.append(np.asarray(here["w"]))
    np.testing.assert_allclose(*results, rtol=1e-5)
    assert jax.device_count() == 8
"""


def test_eight_devices() -> None:
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(_SHARDED)]
    done = subprocess.run(command, env={**os.environ, **devices}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
