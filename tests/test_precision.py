"""The float64 boundary: the same numbers whatever the user's program does around it."""

import functools
import gc
import math
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._precision import Kernel, KernelByStructure, Rounding, _kernels, _ways, float64_kernel
from jaxacct.bounds import gaussian

TOL_F32 = 2e-7  # a value or derivative cast to float32, relative
TOL_F64 = 1e-14  # the same program compiled another way, relative
TOL_GRADIENT = 1e-6  # d epsilon/d noise_multiplier against central differences, relative


def wave(x, y):
    """[2, L]: smooth, and far from float32 in its eighth digit."""
    return jnp.stack([jnp.sin(x) * jnp.exp(y), x * x * y])


def make(rounding=Rounding.NEAREST, **kwargs):
    return float64_kernel(rounding=rounding, **kwargs)(wave)


def numpy_wave(x, y):
    return np.stack(np.broadcast_arrays(np.sin(x) * np.exp(y), x * x * y), axis=-1)


X, Y = 0.7300000001, -0.3100000003
both_modes = pytest.mark.parametrize("x64", [False, True])


@pytest.fixture(autouse=True)
def _settings_survive():
    before = dict(jax.config.values)
    yield
    assert jax.config.values == before
    assert jnp.result_type(float) == jnp.float32


def tolerance(x64):
    return TOL_F64 if x64 else TOL_F32


@both_modes
def test_concrete_values_are_numpy_float64(x64):
    with jax.enable_x64(x64):
        for args in ((X, Y), (np.float32(X), Y), (jnp.asarray(X, jnp.float32), Y), (np.float64(X), np.asarray(Y))):
            value = make()(*args)
            assert type(value) is np.ndarray
            assert value.dtype == np.float64
            np.testing.assert_allclose(value, numpy_wave(np.float64(args[0]), Y), rtol=TOL_F64)


@both_modes
def test_values_inside_transformations(x64):
    kernel = make()
    xs = np.linspace(0.1, 1.5, 5)
    with jax.enable_x64(x64):
        user = jnp.result_type(float)
        xu = jnp.asarray(xs)
        want = numpy_wave(np.asarray(xu, np.float64), Y)
        got = {
            "jit": jax.jit(lambda x: kernel(x, Y))(xu),
            "vmap": jax.vmap(lambda x: kernel(x, Y))(xu),
            "jit(vmap)": jax.jit(jax.vmap(lambda x: kernel(x, Y)))(xu),
            "scan": jax.lax.scan(lambda c, x: (c, kernel(x, Y)), 0.0, xu)[1],
            "jit(scan)": jax.jit(lambda v: jax.lax.scan(lambda c, x: (c, kernel(x, Y)), 0.0, v)[1])(xu),
            "map": jax.lax.map(lambda x: kernel(x, Y), xu),
            "cond": jax.jit(lambda x: jax.lax.cond(True, lambda v: kernel(v, Y), lambda v: jnp.zeros((5, 2)), x))(xu),
            "checkpoint": jax.jit(jax.checkpoint(lambda x: kernel(x, Y)))(xu),
        }
        for name, value in got.items():
            assert value.dtype == user, name
            np.testing.assert_allclose(np.asarray(value), want, rtol=tolerance(x64), err_msg=name)


@both_modes
def test_first_derivatives(x64):
    kernel = make()

    def first(x, y):
        return kernel(x, y)[0]

    xs = np.linspace(0.1, 1.5, 5)
    with jax.enable_x64(x64):
        x, y = jnp.asarray(X), jnp.asarray(Y)
        at_x, at_y = np.float64(x), np.float64(y)
        wanted = np.cos(at_x) * np.exp(at_y), np.sin(at_x) * np.exp(at_y)
        for fn in (jax.grad(first, argnums=(0, 1)), jax.jit(jax.grad(first, argnums=(0, 1)))):
            for got, want in zip(fn(x, y), wanted, strict=True):
                assert got.dtype == jnp.result_type(float)
                np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance(x64))
        batch = jnp.asarray(xs)
        slopes = np.cos(np.asarray(batch, np.float64)) * np.exp(Y)
        for fn in (jax.vmap(jax.grad(first), (0, None)), jax.jit(jax.vmap(jax.grad(first), (0, None)))):
            np.testing.assert_allclose(np.asarray(fn(batch, Y)), slopes, rtol=tolerance(x64))
        # a scan carries a tracer; a sum mixes lanes after the boundary
        total = jax.jit(jax.grad(lambda v: jax.lax.scan(lambda c, u: (c + first(u, Y), None), 0.0, v)[0]))(batch)
        np.testing.assert_allclose(np.asarray(total), slopes, rtol=tolerance(x64))
        total = jax.jit(jax.grad(lambda v: jnp.sum(kernel(v, Y)[:, 0])))(batch)
        np.testing.assert_allclose(np.asarray(total), slopes, rtol=tolerance(x64))
        _, pushed = jax.jit(lambda v: jax.jvp(lambda u: first(u, Y), (v,), (2.0 * jnp.ones_like(v),)))(x)
        np.testing.assert_allclose(np.asarray(pushed), 2 * wanted[0] / np.exp(at_y) * np.exp(Y), rtol=tolerance(x64))


@both_modes
def test_second_derivatives(x64):
    kernel = make()
    with jax.enable_x64(x64):
        x, y = jnp.asarray(X), jnp.asarray(Y)
        at_x, at_y = np.float64(x), np.float64(y)
        sine, cosine, scale = np.sin(at_x), np.cos(at_x), np.exp(at_y)
        want = np.array([[-sine * scale, cosine * scale], [cosine * scale, sine * scale]])
        for fn in (jax.hessian, lambda f, **k: jax.jit(jax.jacfwd(jax.jacrev(f, **k), **k))):
            got = np.array(fn(lambda a, b: kernel(a, b)[0], argnums=(0, 1))(x, y))
            np.testing.assert_allclose(got, want, rtol=tolerance(x64))


def test_jacobian_of_a_broadcast():
    kernel = make()
    xs, ys = jnp.linspace(0.1, 1.0, 3), jnp.linspace(-1.0, 1.0, 4)

    def table(x, y):
        return kernel(x[:, None], y[None, :])

    got = jax.jit(jax.jacrev(table, argnums=1))(xs, ys)
    assert got.shape == (3, 4, 2, 4)
    x, y = np.asarray(xs, np.float64)[:, None], np.asarray(ys, np.float64)
    want = np.stack(np.broadcast_arrays(np.sin(x) * np.exp(y), x * x), axis=-1)
    for j in range(4):
        np.testing.assert_allclose(got[:, j, :, j], want[:, j], rtol=TOL_F32)
        assert np.all(np.delete(np.asarray(got[..., j]), j, axis=1) == 0)


def test_gradient_of_an_unused_argument_is_zero():
    kernel = make()
    slope = jax.jit(jax.grad(lambda x, y: kernel(x, 1.0)[1] + 0.0 * y, argnums=1))(X, Y)
    assert slope == 0.0


def test_concrete_call_while_tracing():
    kernel, seen = make(), []

    def user(x):
        seen.append(kernel(X, Y))
        return x * float(seen[-1][1])

    value = jax.jit(user)(jnp.float32(2.0))
    jax.grad(user)(2.0)
    jax.vmap(user)(jnp.ones(3))
    assert len(seen) == 3
    for inner in seen:
        assert type(inner) is np.ndarray
        assert inner.dtype == np.float64
        np.testing.assert_allclose(inner, numpy_wave(X, Y), rtol=TOL_F64)
    assert value.dtype == jnp.float32


def test_float64_constants_keep_their_digits_beside_a_tracer():
    """Only the traced argument is cut to float32 by the user's own program."""
    kernel = float64_kernel()(lambda x, y: 1e9 * (y - 0.31) + 0.0 * x)
    got = jax.jit(lambda x: kernel(x, 0.3100000003))(1.0)
    np.testing.assert_allclose(got, 0.3, rtol=1e-6)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_rounding_of_the_cast(rounding):
    identity = float64_kernel(rounding=rounding)(lambda x, y: x * (1.0 + y))
    rng = np.random.default_rng(0)
    xs = np.concatenate([rng.normal(size=200), rng.normal(size=50) * 1e-30, rng.normal(size=50) * 1e30]).astype(
        np.float32
    )
    xs = np.concatenate([xs, np.float32([0.0, 1.0, -1.0, 3.4e38, np.inf, -np.inf])])
    shift = 1e-9
    exact = identity(xs, shift)
    got = jax.jit(lambda x: identity(x, shift))(xs)
    assert got.dtype == jnp.float32
    got = np.asarray(got, np.float64)
    assert np.all(np.abs(got[:-3] - exact[:-3]) <= 2.0**-23 * np.abs(exact[:-3]))
    if rounding is Rounding.UP:
        assert np.all(got >= exact)
    elif rounding is Rounding.DOWN:
        assert np.all(got <= exact)
    else:
        np.testing.assert_array_equal(got, exact.astype(np.float32))


def test_rounding_where_float32_ends():
    up, down = (float64_kernel(rounding=r)(lambda x, y: x * y) for r in (Rounding.UP, Rounding.DOWN))
    for x, y in ((1.0, 1e-60), (1.0, 1e60), (-1.0, 1e-60), (-1.0, 1e60), (1.0, 1e-42)):
        high, low = (float(jax.jit(lambda v, k=k, y=y: k(v, y))(x)) for k in (up, down))
        assert low <= x * y <= high


def test_rounding_of_a_pair():
    kernel = Kernel(lambda x: (x / 3.0, -x / 3.0), (Rounding.UP, Rounding.DOWN))
    high, low = jax.jit(kernel)(jnp.arange(1.0, 40.0))
    exact = np.arange(1.0, 40.0) / 3.0
    assert np.all(np.asarray(high, np.float64) >= exact)
    assert np.all(np.asarray(low, np.float64) <= -exact)


def test_values_keep_their_rounding_under_grad():
    kernel = float64_kernel(rounding=Rounding.UP)(lambda x: x / 3.0)
    for x in (1.0, 2.0, 5.0, 7.0, 11.0):
        for transform in (lambda f: f, jax.jit):
            value, slope = transform(jax.value_and_grad(kernel))(x)
            assert float(value) >= x / 3.0
            np.testing.assert_allclose(slope, 1 / 3, rtol=TOL_F32)


def test_broadcasting():
    kernel = make()
    x, y = np.linspace(0.1, 1.0, 3)[:, None], np.linspace(-1.0, 1.0, 4)
    got = kernel(x, y)
    assert got.shape == (3, 4, 2)
    np.testing.assert_allclose(got, numpy_wave(x, y), rtol=TOL_F64)
    assert kernel(0.5, y).shape == (4, 2)
    assert kernel(0.5, 0.5).shape == (2,)
    inside = jax.jit(lambda v: kernel(v[:, None], y))(x[:, 0])
    assert inside.shape == (3, 4, 2)
    np.testing.assert_allclose(inside, got, rtol=TOL_F32)
    with pytest.raises(ValueError, match="broadcast"):
        kernel(np.ones(3), np.ones(4))


@pytest.mark.parametrize("num_lanes", [1, 2, 7, 8, 9, 100])
def test_chunks_change_nothing(num_lanes, monkeypatch):
    xs = np.linspace(0.1, 2.0, num_lanes)
    whole = make()(xs, Y)
    monkeypatch.setattr(_ways, "_CHUNK_BYTES", 8 * 2**16)
    calls = []
    compiled = _kernels._compiled_kernel
    monkeypatch.setattr(
        _kernels,
        "_compiled_kernel",
        lambda k, q, n, size, *rest: calls.append(size) or compiled(k, q, n, size, *rest),
    )
    np.testing.assert_array_equal(make()(xs, Y), whole)
    assert max(calls) <= 8


def test_lane_bytes_may_depend_on_the_static_arguments():
    sizes = []

    def fn(x, *, width):
        sizes.append((width, x.shape[0]))
        return x * jnp.ones((width, 1), jnp.float64)

    kernel = Kernel(fn, lane_bytes=lambda width: 2**20 * width)
    for width in (1, 32):
        assert kernel(np.ones(100), width=width).shape == (100, width)
    assert sizes == [(1, 64), (32, 2)]


def test_a_pytree_of_outputs_is_chunked_leaf_by_leaf():
    kernel = Kernel(lambda x: {"a": x, "b": (jnp.stack([x, 2 * x]), x > 1.0)}, lane_bytes=2**23)
    xs = np.linspace(0.0, 2.0, 21)
    got = kernel(xs)
    np.testing.assert_array_equal(got["a"], xs)
    np.testing.assert_array_equal(got["b"][0], np.stack([xs, 2 * xs], axis=-1))
    np.testing.assert_array_equal(got["b"][1], xs > 1.0)


def test_a_sweep_is_traced_once():
    kernel = make()
    for seed in range(20):
        kernel(np.random.default_rng(seed).uniform(size=33 + seed), Y + seed)
    assert kernel.num_traces == 1
    for seed in range(40):  # single questions: compiled quickly, and that is all
        kernel(X + seed, Y)
    assert kernel.num_traces == 2
    inside = jax.jit(lambda x: kernel(x, Y))
    for seed in range(5):
        inside(jnp.float32(seed))
    assert kernel.num_traces == 3


@pytest.mark.more
@pytest.mark.skipif(not pathlib.Path("/proc/self/maps").exists(), reason="counts memory maps as Linux lists them")
def test_a_long_process_keeps_few_programs(monkeypatch):
    """Machine code that is not used any more is given back, down to its memory maps."""

    def num_maps():
        gc.collect()
        return pathlib.Path("/proc/self/maps").read_bytes().count(b"\n")

    few = functools.lru_cache(maxsize=3)(_kernels._compiled_kernel.__wrapped__)
    monkeypatch.setattr(_kernels, "_compiled_kernel", few)
    kernel, sizes = make(), [2**i for i in range(1, 13)]
    for size in sizes:
        kernel(np.ones(size), Y)
    bounded = num_maps()
    assert few.cache_info().currsize == 3
    monkeypatch.setattr(_kernels, "_compiled_kernel", functools.cache(few.__wrapped__))
    for size in sizes:
        kernel(np.ones(size), Y)
    assert num_maps() > bounded + 2 * len(sizes)


def test_a_gradient_is_traced_once():
    kernel = make()
    slope = jax.jit(jax.grad(lambda x: kernel(x, Y)[0]))
    for seed in range(5):
        slope(jnp.float32(seed))
    assert sum(k.num_traces for k in kernel._derived.values()) == 1


def test_public_sweeps_are_traced_once():
    from jaxacct.answering import _lanes

    _lanes._kernel.cache_clear()
    sigmas = np.linspace(0.7, 4.0, 50)
    for scale in (1.0, 1.1, 1.2):
        ja.epsilon(ja.Gaussian(scale * np.tile(sigmas, 400)), target_delta=1e-5 * scale)
        ja.epsilon(
            ja.RandomAllocation(ja.Gaussian(scale * sigmas), num_steps=int(100 * scale)),
            target_delta=1e-5 * scale,
            precision=math.inf,
        )
    kernel = _lanes._kernel(gaussian.EXACT, Query.EPSILON).of(jax.tree.structure(ja.Gaussian(1.0)))
    assert kernel.num_traces == 1


def test_empty_batch():
    kernel = make()
    assert kernel(np.zeros(0), Y).shape == (0, 2)
    assert kernel(np.zeros((3, 0)), Y).shape == (3, 0, 2)
    assert ja.epsilon(ja.Gaussian(np.ones(0)), target_delta=1e-5).shape == (0,)


def test_empty_batch_inside_jit():
    kernel = make()
    assert jax.jit(lambda x: kernel(x, Y))(jnp.zeros(0)).shape == (0, 2)


def test_static_arguments_choose_the_program():
    kernel = float64_kernel()(lambda x, *, power: x**power)
    assert [float(kernel(3.0, power=p)) for p in (1, 2, 3, 2)] == [3.0, 9.0, 27.0, 9.0]
    assert kernel.num_traces == 3


def test_the_user_may_choose_a_default_device():
    with jax.default_device(jax.devices("cpu")[0]):
        np.testing.assert_allclose(make()(X, Y), numpy_wave(X, Y), rtol=TOL_F64)


MECHANISMS = {
    "gaussian": lambda sigma: ja.Gaussian(sigma),
    "poisson": lambda sigma: ja.PoissonSampled(ja.Gaussian(sigma), sampling_prob=0.01, num_steps=1000),
    "allocation": lambda sigma: ja.RandomAllocation(ja.Gaussian(sigma), num_steps=1000, num_epochs=10),
}


def central_difference(fn, x, h):
    """Fourth order: its own error must stay below the tolerance."""
    return (8 * (fn(x + h) - fn(x - h)) - (fn(x + 2 * h) - fn(x - 2 * h))) / (12 * h)


@pytest.mark.more
@pytest.mark.parametrize("name", MECHANISMS)
def test_epsilon_is_differentiable_in_a_float32_program(name):
    def epsilon(sigma):
        return ja.epsilon(MECHANISMS[name](sigma), target_delta=1e-6, precision=math.inf)

    assert not jax.config.jax_enable_x64
    sigma = 1.25  # exact in float32
    value, slope = jax.jit(jax.value_and_grad(epsilon))(sigma)
    assert value.dtype == slope.dtype == jnp.float32
    assert float(value) >= ja.epsilon_interval(MECHANISMS[name](sigma), target_delta=1e-6).lower
    with jax.enable_x64(True):
        inside = jax.jit(epsilon)
        np.testing.assert_allclose(value, inside(sigma), rtol=TOL_F32)
        assert float(value) >= inside(sigma)

    # the slope is that of the tight answer, not of the slack above it, which depends on where grids lie
    def truth(sigma):
        return ja.epsilon_interval(MECHANISMS[name](sigma), target_delta=1e-6, precision=1e-8).upper

    tolerance = TOL_GRADIENT if name == "gaussian" else 1e-3
    np.testing.assert_allclose(slope, central_difference(truth, sigma, 1e-2), rtol=tolerance)


def test_a_vmapped_epsilon_in_a_float32_program():
    def epsilon(sigma):
        return ja.epsilon(MECHANISMS["gaussian"](sigma), target_delta=1e-6)

    sigmas = jnp.asarray([1.25, 2.0])
    want = epsilon(np.asarray(sigmas))
    for fn in (jax.vmap(epsilon), jax.jit(jax.vmap(epsilon))):
        np.testing.assert_allclose(fn(sigmas), want, rtol=TOL_F32)
    slopes = jax.jit(jax.vmap(jax.grad(epsilon)))(sigmas)
    np.testing.assert_allclose(slopes[0], jax.jit(jax.grad(epsilon))(1.25), rtol=TOL_F32)


def test_a_vmapped_allocation_in_a_float32_program():
    def curve(sigma):
        run = ja.RandomAllocation(ja.Gaussian(sigma), num_steps=100)
        return ja.rdp(run, [2.0, 3.0], direction=ja.Direction.REMOVE).values

    sigmas = jnp.asarray([1.25, 2.0])
    np.testing.assert_allclose(jax.jit(jax.vmap(curve))(sigmas), curve(np.asarray(sigmas)), rtol=TOL_F32)


STRICT = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_explicit_x64_dtypes", "error")
import jaxacct as ja

def gaussian(sigma):
    return ja.epsilon(ja.Gaussian(sigma), target_delta=1e-6)

def curve(build):
    return lambda sigma: ja.rdp(build(ja.Gaussian(sigma)), [1.5, 2.0, 3.0]).values

asked = (
    gaussian,
    curve(lambda g: ja.PoissonSampled(g, sampling_prob=0.01, num_steps=100)),
    curve(lambda g: ja.RandomAllocation(g, num_steps=100)),
    curve(lambda g: ja.Composed(g, 3)),
)
for ask in asked:
    eager = ask(np.float32(1.25))
    value, slope = jax.jit(lambda s: jax.jvp(ask, (s,), (jnp.ones_like(s),)))(jnp.float32(1.25))
    assert value.dtype == slope.dtype == jnp.float32
    assert np.max(np.abs(np.asarray(value, np.float64) / eager - 1)) < 1e-6
ja.delta(ja.Gaussian(1.25), target_epsilon=1.0)
assert np.isfinite(jax.jit(jax.grad(gaussian))(1.25))
for narrow in (jnp.bfloat16, jnp.float16):
    slope = jax.grad(gaussian)(narrow(1.25))
    assert slope.dtype == narrow
    assert np.isfinite(np.asarray(slope, np.float64))
ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(1.25), 0.01, 1000), 1e-6)
print("done")
"""


@pytest.mark.more
def test_no_implicit_demotion():
    """JAX told to raise where it would promote, or cut a requested float64 to float32."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", STRICT],
        capture_output=True,
        text=True,
        check=False,
        cwd=pathlib.Path(__file__).parents[1],
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout == "done\n"


def test_importing_changes_no_setting():
    script = "import jax; a = dict(jax.config.values); import jaxacct; assert dict(jax.config.values) == a"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=pathlib.Path(__file__).parents[1])


def test_kernels_keep_their_name():
    @float64_kernel(rounding=Rounding.UP)
    def documented(x):
        """Its docstring."""
        return x

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "Its docstring."
    assert functools.reduce(max, documented(np.arange(3.0))) == 2.0


def test_kernels_by_structure_are_made_once_for_each():
    traced = []

    def total(tree, scale, *, power):
        traced.append(jax.tree.structure(tree))
        return scale * sum(x**power for x in jax.tree.leaves(tree))

    kernel = KernelByStructure(total, Rounding.UP)
    with _ways.of_many_points():
        assert kernel({"a": 1.0, "b": 2.0}, 3.0, power=2) == 15.0
        assert kernel({"a": 2.0, "b": 2.0}, 1.0, power=2) == 8.0
        assert kernel((1.0, 2.0), 3.0, power=2) == 15.0
        assert len(traced) == 2
        np.testing.assert_array_equal(kernel((1.0, np.array([2.0, 3.0])), 1.0, power=1), [3.0, 4.0])
    structure = jax.tree.structure((0.0, 0.0))
    assert kernel.of(structure) is kernel.of(structure)
    assert jax.jit(lambda x: kernel((x, 1.0), 2.0, power=1))(1.0) == 4.0


@pytest.mark.parametrize("limit", [3, math.inf])
def test_few_lanes_are_answered_one_after_another(limit):
    """Each by NumPy, as a single question, and once if it is repeated; a program only where there may be too many."""
    asked = []

    def square(x, y):
        asked.append(x)
        return x * x + y

    kernel, x = Kernel(square, on_host=True, one_by_one=limit), np.array([3.0, 2.0, 2.0])
    np.testing.assert_array_equal(kernel(x, 1.0), [10.0, 5.0, 5.0])
    assert [type(a) for a in asked] == [np.ndarray] * 2
    np.testing.assert_array_equal(kernel(np.arange(4.0), 1.0), [1.0, 2.0, 5.0, 10.0])
    with _ways.of_many_points():  # the same for every chunk of a sweep, however many its points
        np.testing.assert_array_equal(kernel(x, 1.0), [10.0, 5.0, 5.0])
        np.testing.assert_array_equal(kernel(x[:1], 1.0), [10.0])
    assert kernel.num_traces == (0 if limit == math.inf else 3)
    assert jax.jit(kernel)(3.0, 1.0) == 10.0


ASKED_OFTEN = {
    "one": lambda: ja.epsilon(ja.Gaussian(1.7), 1e-6),
    "delta": lambda: ja.delta(ja.Gaussian(1.7), 0.3),
    "curve": lambda: ja.rdp(ja.Gaussian(1.7), [1.5, 2.0, 40.0]).values,
    "converted": lambda: ja.epsilon(ja.rdp(ja.Laplace(1.7), [1.5, 2.0, 40.0]), 1e-6),
    "few": lambda: ja.epsilon(ja.ZCdp(np.linspace(0.1, 0.9, 9)), 1e-6, method="rdp"),
}


@pytest.mark.parametrize("name", ASKED_OFTEN)
def test_a_question_has_the_same_digits_however_often_it_is_asked(name):
    ask = ASKED_OFTEN[name]
    first = np.asarray(ask()).tobytes()
    assert all(np.asarray(ask()).tobytes() == first for _ in range(200))


@pytest.mark.parametrize("count", [1, 8, 9])
def test_a_program_answers_the_same_however_often_it_is_asked(count):
    """Compiled once, quickly for few lanes, and the digits stay."""
    kernel, x = make(), np.linspace(0.1, 2.0, count)
    first = kernel(x, Y).tobytes()
    assert all(kernel(x, Y).tobytes() == first for _ in range(200))
    assert kernel.num_traces == 1


def test_tangents_may_be_python_numbers():
    value, slope = jax.jit(lambda s: jax.jvp(lambda x: ja.epsilon(ja.Gaussian(x), 1e-6), (s,), (1.0,)))(2.0)
    np.testing.assert_allclose(slope, jax.grad(lambda x: ja.epsilon(ja.Gaussian(x), 1e-6))(2.0), rtol=1e-6)
    assert value > 0.0 > slope
