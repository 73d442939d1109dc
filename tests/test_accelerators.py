"""Without an accelerator: every program is lowered for CUDA and for TPU, so that none needs what only a CPU has."""

import functools
import math

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from support.mechanisms import ASKED, TRACED, fields_of

import jaxacct as ja
from jaxacct import _ground
from jaxacct._precision import _host, _kernels, _ways
from jaxacct.mechanisms._fields import with_fields

PLATFORMS = ("cuda", "tpu")
_QUICK = ("Gaussian", "Laplace", "DiscretePair", "ContinuousPair", "Pld", "PoissonSampled")

pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning", "ignore::jaxacct.PrecisionWarning")


def each(table):
    slow = [name for name in table if name not in _QUICK]
    return pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in slow)) for n in table])


@pytest.fixture
def lowered(monkeypatch):
    """Names of the programs that are compiled, each lowered for accelerators first."""
    names = []
    kernel_of, host_of = _kernels._compiled_kernel.__wrapped__, _host._compiled_host.__wrapped__

    @functools.cache
    def for_kernel(kernel, quick, num_args, size, mesh, device, static):
        traced = kernel._program(dict(static)).trace(*[np.zeros(size)] * num_args)
        names.append((kernel.__name__, traced.lower(lowering_platforms=PLATFORMS)))
        return kernel_of(kernel, quick, num_args, size, mesh, device, static)

    @functools.cache
    def for_host(fn, shapes, device, static):
        arrays = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
        traced = jax.jit(functools.partial(fn, **dict(static))).trace(*arrays)
        names.append((getattr(fn, "__name__", "program"), traced.lower(lowering_platforms=PLATFORMS)))
        return host_of(fn, shapes, device, static)

    monkeypatch.setattr(_kernels, "_compiled_kernel", for_kernel)
    monkeypatch.setattr(_host, "_compiled_host", for_host)
    return names


@pytest.mark.sample(2)
@each(ASKED)
def test_programs_of_every_method_are_lowered(name, lowered):
    """Those that `compare` compiles where NumPy answers nothing."""
    with _ways.of_many_points():
        ja.compare(ASKED[name], 1e-3)
        ja.compare(ASKED[name], target_epsilon=0.5)
    for _, program in lowered:
        assert "func.func public @main" in program.as_text()
    if name in TRACED:
        assert lowered


@each(TRACED)
def test_questions_inside_jit_are_exported(name, monkeypatch):
    monkeypatch.setattr(_ground, "refuse_unsound", lambda platform, options: None)  # as these would, not being at hand
    mechanism = TRACED[name]
    keys = [f.keys for f in fields_of(mechanism) if f.value != 0.0]
    values = [jnp.float32(f.value) for f in fields_of(mechanism) if f.value != 0.0]

    def ask(values, delta):
        return ja.epsilon(with_fields(mechanism, dict(zip(keys, values, strict=True))), delta, precision=math.inf)

    exported = jax.export.export(jax.jit(ask), platforms=PLATFORMS)(values, jnp.float32(1e-3))
    assert exported.platforms == PLATFORMS
    assert exported.out_avals[0].dtype == jnp.float32
