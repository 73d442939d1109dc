"""A backend is looked at before it is used: one that errs is warned of once, and nothing is computed on it."""

import os
import subprocess
import sys
import time
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _ground
from jaxacct._ground import Finding, UnsoundBackendError
from jaxacct._precision import HostProgram, Kernel, _devices, _floats, _ways
from jaxacct.special._namespace import xp

SHUFFLED = ja.Shuffled(ja.LocalRandomizer(1.0), num_reports=10_000)
X = np.linspace(0.1, 2.0, 3)


@pytest.fixture(autouse=True)
def _looked_at_anew():
    for cache in (_ground._unsound, _ground._warn):
        cache.cache_clear()
    yield
    for cache in (_ground._unsound, _ground._warn):
        cache.cache_clear()


def findings(options=None):
    with _floats.own_settings():
        return _ground.look(None, options)


@pytest.fixture
def bad_exp(monkeypatch):
    """An exponential that errs by 90 units, as this machine's logarithms of 1 + x do near -0.4."""
    first, *rest = _ground.PRIMITIVES
    off = first._replace(on_backend=lambda x: jnp.exp(x) * (1.0 + 1e-14))
    monkeypatch.setattr(_ground, "PRIMITIVES", (off, *rest))


def test_this_machine_is_sound():
    for options in (None, _devices.quick_options()):
        found = findings(options)
        assert [f.name for f in found if not f.is_sound] == []
        assert {"exp", "log", "log1p", "expm1", "error-free products", "error-free sums"} <= {f.name for f in found}


def test_a_look_is_short():
    options = _devices.quick_options()
    findings(options)  # what JAX itself loads at first
    begun = time.process_time()
    findings(options)
    assert time.process_time() - begun < 0.5  # 0.065 s on the machine where this was written


def test_what_is_not_a_number_is_not_sound():
    assert not Finding("exp", np.nan, 4.0).is_sound
    assert not Finding("exp", 4.5, 4.0).is_sound
    assert Finding("exp", 4.0, 4.0).is_sound


def test_an_error_is_measured(bad_exp):
    first = findings()[0]
    assert not first.is_sound
    assert first.measured == pytest.approx(90.0, abs=3.0)
    assert "exp by" in first.sentence


def test_each_primitive_is_looked_at_by_itself(monkeypatch):
    """An error in any of them is found, and named."""
    whole = _ground.PRIMITIVES
    for i, primitive in enumerate(whole):
        size = 1.0 + (primitive.booked + 3.0) * 2.0**-52
        off = primitive._replace(on_backend=lambda x, f=primitive.on_backend, size=size: f(x) * size)
        monkeypatch.setattr(_ground, "PRIMITIVES", (*whole[:i], off, *whole[i + 1 :]))
        assert [f.name for f in findings(_devices.quick_options()) if not f.is_sound] == [primitive.name]


def test_numpy_takes_the_place_of_a_bad_backend_with_one_warning(bad_exp):
    kernel = Kernel(lambda x: xp.exp(x), on_host=True, one_by_one=1)
    with pytest.warns(
        RuntimeWarning, match="NumPy takes the place of JAX's backend 'cpu', whose errors are too large in exp by"
    ):
        np.testing.assert_array_equal(kernel(X), np.exp(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with _ways.of_many_points():
            np.testing.assert_array_equal(kernel(X[:, None]), np.exp(X)[:, None])
        assert kernel(1.0) == np.exp(1.0)
        assert kernel(np.zeros(0)).shape == (0,)
        pair = Kernel(lambda x, y: (xp.stack([x, y]), x + y), on_host=True)(X, 2.0)
    np.testing.assert_array_equal(pair[0], np.stack([X, np.full(3, 2.0)], axis=-1))
    np.testing.assert_array_equal(pair[1], X + 2.0)


def test_where_nothing_is_sound_there_is_no_answer(bad_exp):
    kernel = Kernel(jnp.exp)
    with pytest.raises(UnsoundBackendError, match="'cpu' has errors that are too large in exp by"):
        kernel(1.0)
    with pytest.raises(RuntimeError, match="no certified answer"):
        HostProgram(jnp.exp)(X)
    traced = Kernel(lambda x: xp.exp(x), on_host=True)
    with pytest.raises(RuntimeError, match="no certified answer"):
        jax.jit(traced)(1.0)
    with pytest.raises(RuntimeError, match="no certified answer"):
        jax.jit(lambda s: ja.epsilon(ja.Gaussian(s), target_delta=1e-6))(1.0)


def test_a_single_question_looks_at_nothing(bad_exp):
    """It is answered by NumPy, and neither warns nor compiles."""
    assert ja.epsilon(SHUFFLED, target_delta=1e-6) > 0.0
    assert _ground._unsound.cache_info().misses == 0


def test_the_host_takes_the_place_of_a_bad_accelerator(monkeypatch):
    monkeypatch.setattr(_ground, "_unsound", lambda platform, options: "" if platform == "cpu" else "sin")
    accelerator = types.SimpleNamespace(platform="fast")
    with pytest.warns(RuntimeWarning, match="the host's CPU takes the place of JAX's backend 'fast'"):
        assert _ground.sound_device(accelerator, {}) == jax.local_devices(backend="cpu")[0]
    assert _ground.sound_device(accelerator, {}, has_host=True) == jax.local_devices(backend="cpu")[0]
    with pytest.raises(UnsoundBackendError, match="'fast' has errors that are too large in sin"):
        _ground.refuse_unsound(accelerator, {})
    assert _ground.sound_device("cpu", {}) == "cpu"


def test_a_backend_that_cannot_compile_is_not_sound(monkeypatch):
    def refuse(*args):
        raise RuntimeError("no float64 here")

    monkeypatch.setattr(_ground, "look", refuse)
    with pytest.raises(UnsoundBackendError, match="no float64 here"):
        _ground.refuse_unsound(None, {})


_FAST = """
import warnings
import jax
import numpy as np
import jaxacct as ja

sigmas = np.array([1.0, 2.0])
questions = {
    "one": lambda: ja.epsilon(ja.Shuffled(ja.LocalRandomizer(1.0), num_reports=10_000), 1e-6),
    "batch": lambda: ja.epsilon(ja.Gaussian(sigmas), target_delta=1e-6),
    "poisson": lambda: ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=100), 1e-6),
    "shuffled": lambda: ja.epsilon(ja.Shuffled(ja.LocalRandomizer(np.array([1.0, 2.0])), num_reports=10_000), 1e-6),
    "traced": lambda: jax.jit(lambda s: ja.epsilon(ja.Gaussian(s), target_delta=1e-6))(2.0),
}
for name, ask in questions.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            print(name, *np.ravel(ask()), sep=" ")
        except RuntimeError as error:
            assert "no certified answer" in str(error), error
            print(name, "refused")
"""


def test_fast_arithmetic_gives_right_answers_or_none():
    """With XLA's ``fast math`` Dekker's products lose what they are for."""
    env = {**os.environ, "XLA_FLAGS": "--xla_cpu_enable_fast_math=true", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-c", _FAST], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    said = {line.split()[0]: line.split()[1:] for line in run.stdout.splitlines()}
    poisson = ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=100)
    right = {
        "one": [ja.epsilon(SHUFFLED, 1e-6)],
        "batch": [ja.epsilon(ja.Gaussian(s), target_delta=1e-6) for s in (1.0, 2.0)],
        "poisson": [ja.epsilon(poisson, 1e-6)],
        "shuffled": [ja.epsilon(ja.Shuffled(ja.LocalRandomizer(e), num_reports=10_000), 1e-6) for e in (1.0, 2.0)],
    }
    assert said["one"] != ["refused"]  # NumPy's
    assert said["traced"] == ["refused"]
    for name, values in right.items():
        if said[name] != ["refused"]:
            np.testing.assert_allclose(np.array(said[name], float), values, rtol=1e-9)


def test_an_unknown_quick_option_leaves_the_others(monkeypatch):
    """They are no stable interface: a jaxlib that does not know the last one compiles quickly without it."""
    monkeypatch.setattr(_devices, "_UNDIVIDED", {"xla_no_such_option": "1"})
    _devices.quick_options.cache_clear()
    try:
        assert _devices.quick_options() == _devices._UNOPTIMISED
        monkeypatch.setattr(_devices, "_UNOPTIMISED", {"xla_nor_this": "1"})
        _devices.quick_options.cache_clear()
        assert _devices.quick_options() == {}
    finally:
        monkeypatch.undo()
        _devices.quick_options.cache_clear()
