"""What surrounds a question in a user's program: meshes, devices, open shapes, transformations of jitted functions."""

import os
import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _ground
from jaxacct._ground import UnsoundBackendError
from jaxacct._precision import Kernel

# The number of devices is fixed when a process begins: subprocesses, which print what went wrong.
_MESH = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import jaxacct as ja
from jaxacct._precision import Kernel

mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
sigmas = np.linspace(1.0, 2.0, 8, dtype=np.float32)
placed = jax.device_put(sigmas, NamedSharding(mesh, P("a")))
"""
_DEVICES = """
# gathers, choices between unlike shardings and products of matrices, none of which JAX shards by itself
table = np.linspace(0.0, 1.0, 7)
kernel = Kernel(lambda x, y: jnp.where(jnp.arange(3)[:, None] > 1, x, jnp.asarray(table)[jnp.int32(y)])
                + jnp.einsum("kl,k->l", jnp.stack([x, y]), jnp.ones(2)))
ask = lambda x: kernel(x, 2.0 * x)
plain = np.asarray(jax.jit(ask)(sigmas))
without = jax.jit(ask)(placed)
with jax.set_mesh(mesh):
    within = jax.jit(ask)(placed)
for found in (without, within):
    assert found.sharding.spec[0] == "a", found.sharding
    np.testing.assert_allclose(np.asarray(found), plain, rtol=1e-6)
both = jax.jit(lambda x, y: kernel(x, y))(placed[:, None], jax.device_put(sigmas[:2], NamedSharding(mesh, P("b"))))
assert both.sharding.spec[:2] == ("a", "b"), both.sharding
np.testing.assert_array_equal(both, kernel(sigmas[:, None], sigmas[:2]).astype(np.float32))

def slope(f):
    return jax.grad(lambda x: f(x).sum())

for transform in (jax.vmap, slope, lambda f: jax.vmap(slope(f))):
    plain = np.asarray(jax.jit(transform(ask))(sigmas))
    with jax.set_mesh(mesh):
        found = jax.jit(transform(ask))(placed)
    assert found.sharding.spec[0] == "a"
    np.testing.assert_allclose(np.asarray(found), plain, rtol=1e-6)

# concrete questions, of one point and of many, wherever the user's arrays are
run, batch = ja.RandomAllocation(ja.Gaussian(1.25), 100), ja.Gaussian(np.linspace(1.0, 2.0, 40))
plain = ja.epsilon(run, 1e-6), ja.epsilon(batch, 1e-6)
committed = jax.device_put(jnp.float32(1.25), jax.devices()[3])
for surrounding in (jax.default_device(jax.devices()[5]), jax.default_device("cpu"), jax.set_mesh(mesh)):
    with surrounding:
        assert ja.epsilon(run, 1e-6) == plain[0]
        np.testing.assert_array_equal(ja.epsilon(batch, 1e-6), plain[1])
        assert ja.epsilon(ja.Gaussian(committed), 1e-6) == ja.epsilon(ja.Gaussian(1.25), 1e-6)
        seen = []
        jax.jit(lambda x: seen.append(ja.epsilon(batch, 1e-6)) or x)(1.0)
        np.testing.assert_array_equal(seen[0], plain[1])
assert jax.jit(lambda x: kernel(x, 1.0))(committed).devices() == {jax.devices()[3]}
"""
_QUESTIONS = """
for name, ask in {
    "poisson": lambda x: ja.epsilon(ja.PoissonSampled(ja.Gaussian(x), 0.01, 100), 1e-6),
    "shuffled": lambda x: ja.epsilon(ja.Shuffled(ja.LocalRandomizer(x), 10_000), 1e-6),
    "rdp": lambda x: ja.rdp(ja.RandomAllocation(ja.Gaussian(x), 100), [2.0, 4.0]).values,
}.items():
    with jax.set_mesh(mesh):
        found = jax.jit(ask)(placed)
    assert found.sharding.spec[0] == "a", (name, found.sharding)
    np.testing.assert_allclose(np.asarray(found), jax.jit(ask)(sigmas), rtol=1e-6, err_msg=name)
"""


@pytest.mark.parametrize("code", [_DEVICES, pytest.param(_QUESTIONS, marks=pytest.mark.more)], ids=["kernel", "asked"])
def test_meshes_and_devices(code):
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-c", _MESH + code]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-3000:]


# Under vmap JAX's own rule for products of matrices makes float32 of float64 wherever that is off.
PRODUCT = Kernel(lambda x, y: jnp.einsum("kl,k->l", jnp.stack([jnp.exp(x), 1.0 / x]), jnp.asarray([1.0, 2.0])) * y)
X, Y = np.array([0.5, 1.25], np.float32), np.array([[1.0], [2.0], [3.0]], np.float32)


def _want(x, y):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    return (np.exp(x) + 2.0 / x) * y


MAPPED = {
    "eagerly": (lambda f: jax.vmap(f, (0, None)), (X, np.float32(2.0))),
    "in a program": (lambda f: jax.jit(jax.vmap(f, (0, None))), (X, np.float32(2.0))),
    "twice": (lambda f: jax.vmap(jax.vmap(f, (None, 0)), (0, None)), (X, Y[:, 0])),
    "of other ranks": (lambda f: jax.vmap(f, (1, None), 1), (np.stack([X, X], 1) * Y[:2], Y[:2, 0])),
    "in a scan": (lambda f: lambda x, y: jax.lax.map(lambda z: jax.vmap(f, (0, None))(x, z), y), (X, Y[:, 0])),
}


@pytest.mark.parametrize("how", MAPPED)
def test_a_jitted_function_is_mapped(how):
    transform, (x, y) = MAPPED[how]
    want = np.asarray(transform(lambda a, b: (jnp.exp(a) + 2.0 / a) * b)(x, y), np.float64)
    found = transform(jax.jit(PRODUCT))(x, y)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_slopes_of_a_jitted_function_are_mapped():
    found = jax.jit(jax.vmap(jax.value_and_grad(jax.jit(PRODUCT)), (0, None)))(X, 2.0)
    np.testing.assert_allclose(found[0], _want(X, 2.0), rtol=1e-6)
    np.testing.assert_allclose(found[1], 2.0 * (np.exp(X) - 2.0 / X**2), rtol=1e-6)


def test_a_program_may_leave_sizes_open():
    """`jax.export.symbolic_shape`: as many points as it is called with."""
    rows, columns = jax.export.symbolic_shape("rows, columns")
    shapes = (jax.ShapeDtypeStruct((columns,), jnp.float32), jax.ShapeDtypeStruct((rows, 1), jnp.float32))
    exported = jax.export.export(jax.jit(PRODUCT))(*shapes)
    np.testing.assert_allclose(exported.call(X, Y), _want(X, Y), rtol=1e-6)
    half = Kernel(lambda x: jnp.where(jnp.arange(2 * len(x)) >= len(x), jnp.tile(x, 2), 0.0)[len(x) :])  # counts lanes
    exported = jax.export.export(jax.jit(half))(shapes[0])
    np.testing.assert_array_equal(exported.call(X), X)


@pytest.mark.parametrize("ask", [ja.epsilon, ja.delta])
def test_a_question_may_leave_its_size_open(ask):
    (size,) = jax.export.symbolic_shape("size")
    inside = jax.jit(lambda x: ask(ja.Gaussian(x), np.float32(1e-3)))
    exported = jax.export.export(inside)(jax.ShapeDtypeStruct((size,), jnp.float32))
    np.testing.assert_allclose(exported.call(X), inside(X), rtol=1e-6)


def test_a_program_for_what_is_not_at_hand_is_refused():
    inside = jax.jit(lambda x: ja.epsilon(ja.Gaussian(x), 1e-6))
    assert jax.export.export(inside, platforms=("cpu",))(X).platforms == ("cpu",)
    for platforms in (("tpu",), ("cpu", "tpu")):
        with pytest.raises(UnsoundBackendError, match="'tpu' is not available"):
            jax.export.export(inside, platforms=platforms)(X)


def test_what_a_program_is_lowered_for_is_looked_at(monkeypatch):
    """Not JAX's default platform, nor when it is traced."""
    looked = []
    monkeypatch.setattr(_ground, "_unsound", lambda platform, options: looked.append((platform, options)) or "")
    traced = jax.jit(Kernel(jnp.exp)).trace(X)
    assert looked == []
    traced.lower()
    assert set(looked) == {("cpu", ())}
    monkeypatch.setattr(_ground, "_unsound", lambda platform, options: "exp")
    traced = jax.jit(Kernel(jnp.exp)).trace(X)
    with pytest.raises(UnsoundBackendError, match="'cpu' has errors that are too large in exp"):
        traced.lower()


# Counts beyond JAX's 32 bits

MANY = 2**32 + 100  # 100 in 32 bits
FEW_LOSSES = ja.Gaussian(1e5)


@pytest.mark.parametrize("count", [MANY, float(MANY), np.float64(MANY)], ids=repr)
def test_a_large_count_is_a_constant_of_a_program(count):
    inside = jax.jit(lambda s: ja.epsilon(ja.Composed(ja.Gaussian(s), count), 1e-6))(1e5)
    np.testing.assert_allclose(inside, ja.epsilon(ja.Composed(FEW_LOSSES, MANY), 1e-6), rtol=1e-6)


@pytest.mark.parametrize("count", [np.int64(MANY), np.array(MANY), np.array([7, MANY]), MANY], ids=repr)
def test_a_large_count_in_an_argument_is_not_cut_to_its_last_bits(count):
    """JAX cuts NumPy's integers to 32 bits without a word: a mechanism hands over none that would change."""
    run = ja.Composed(FEW_LOSSES, count)
    ask = jax.jit(lambda run: ja.epsilon(run, 1e-6))
    if np.ndim(count):
        np.testing.assert_allclose(ask(run), ja.epsilon(run, 1e-6), rtol=1e-6)
    else:
        with pytest.raises(OverflowError, match="counts"):
            ask(run)
    with jax.enable_x64(True):
        np.testing.assert_allclose(ask(run), ja.epsilon(run, 1e-6), rtol=1e-12)


COUNTED = Kernel(lambda x, n: x * n)
COUNTS = np.array([100, MANY])


@pytest.mark.parametrize(
    "mapped",
    [
        lambda n: jax.vmap(lambda n: COUNTED(1.0, n))(n),
        lambda n: jax.vmap(lambda m: jax.vmap(lambda n: COUNTED(m, n))(n))(np.ones(1, np.int64))[0],
        lambda n: jax.vmap(jax.value_and_grad(COUNTED), (None, 0))(1.0, n)[1],
    ],
    ids=["once", "twice", "slopes"],
)
def test_large_counts_are_mapped_eagerly(mapped):
    """Outside programs NumPy's integers arrive whole."""
    np.testing.assert_allclose(mapped(COUNTS), COUNTS, rtol=1e-6)
