"""Where programs run: one device, or a mesh whose devices each get a share of every chunk; only sound ones compute."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct import _ground
from jaxacct._jax import jax
from jaxacct._precision._floats import own_settings

# A first answer costs its compilation. Without LLVM's optimisation and XLA's fusion emitters a kernel compiles in a
# quarter of the time and runs at half to a quarter of the speed (jaxlib 0.10.2): right for few lanes.
# A program split into parts that LLVM compiles side by side costs a tenth more than one compiled whole.
_Options = dict[str, str | bool]
_UNOPTIMISED: _Options = {"xla_backend_optimization_level": "0", "xla_cpu_use_fusion_emitters": False}
_UNDIVIDED: _Options = {"xla_cpu_parallel_codegen_split_count": "1"}

# A program that is kept holds its machine code in tens of memory maps, and a process has only so many (65,530 on Linux,
# where the compiler then crashes): the least recently used are dropped.
MAX_PROGRAMS = 128  # compiled programs kept of each kind


@functools.cache
def quick_options() -> _Options:
    """The quick options that this jaxlib's CPU compiler knows (they are not a stable interface), or none."""
    options: _Options
    for options in (_UNOPTIMISED | _UNDIVIDED, _UNOPTIMISED) if jax.default_backend() == "cpu" else ():
        with contextlib.suppress(RuntimeError, ValueError):
            jax.jit(lambda x: x).lower(np.float32(0)).compile(compiler_options=options)
            return options
    return {}


@functools.cache
def _tpu_fallback() -> Any:
    # A TPU has no float64 of its own: account on the host beside it.
    return jax.local_devices(backend="cpu")[0] if jax.default_backend() == "tpu" else None


def _chosen() -> Any:
    """The device that the user chose, or the name of its platform; None for JAX's default."""
    return _tpu_fallback() or getattr(jax.config, "jax_default_device")  # noqa: B009  (no stub)


def sound_device(*, has_host: bool = False) -> Any:
    """Where to compute: the device the user chose, if it can be trusted; False for NumPy, where that is an option."""
    over = mesh()
    if over is not None:  # the mesh itself must compute: nothing takes its place
        _ground.refuse_unsound(over.devices.flat[0], quick_options())
        return _chosen()
    return _ground.sound_device(_chosen(), quick_options(), has_host=has_host)


def platform() -> str:
    """Where compiled programs of concrete calls run: "cpu", "gpu"; the host's CPU beside a TPU, or a mesh's devices."""
    over = mesh()
    return _ground.platform_of(_chosen() if over is None else over.devices.flat[0])


# As part of a user's program, a kernel runs where that program does, which is known only once it is lowered. So lanes
# pass through an identity whose lowering refuses platforms that are not sound, or cannot be checked from here.
@functools.cache
def backend_check() -> Any:
    """The primitive of that identity."""
    import jax.extend.core
    from jax.interpreters import mlir

    def lowered(context: mlir.LoweringRuleContext, x: Any) -> list[Any]:
        with own_settings():
            for platform in context.platforms or context.module_context.platforms:
                _ground.refuse_unsound(platform, {})  # the user's program is compiled with the user's options
        return [x]

    made: Any = jax.extend.core.Primitive("backend_check")
    made.def_impl(lambda x: x)
    made.def_abstract_eval(lambda x: x)
    mlir.register_lowering(made, lowered)
    return made


# Lanes spread over devices

_mesh: contextvars.ContextVar[jax.sharding.Mesh | None] = contextvars.ContextVar("mesh", default=None)
mesh = _mesh.get  # the mesh over which lanes are spread, if any


@contextlib.contextmanager
def lanes_over(mesh: jax.sharding.Mesh) -> Iterator[None]:
    """Spreads the lanes of concrete calls over the devices of `mesh`, also those of other processes.

    Every process must then make the same calls with the same arguments; each gets the whole answer.
    """
    # one axis, whose sharding XLA propagates: with explicit axes every kernel would have to state it
    token = _mesh.set(jax.sharding.Mesh(mesh.devices.reshape(-1), ("lanes",)))
    try:
        yield
    finally:
        _mesh.reset(token)


def lanes_are_spread() -> bool:
    """Whether concrete calls are answered by the devices of a mesh."""
    return mesh() is not None


def num_devices() -> int:
    """How many devices answer one call together."""
    over = mesh()
    return 1 if over is None else over.size


def placed(block: NDArray[Any]) -> Any:
    """Lanes on the devices that compute them."""
    over = mesh()
    if over is None:
        return block
    spec = jax.sharding.PartitionSpec("lanes")  # type: ignore[no-untyped-call]
    return jax.make_array_from_callback(block.shape, jax.sharding.NamedSharding(over, spec), lambda at: block[at])


def gathered(y: jax.Array) -> NDArray[Any]:
    """The answer of all devices, including those of other processes."""
    if y.is_fully_addressable:
        return np.asarray(y)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(y, tiled=True))


def on_each_device(program: Callable[..., Any], over: jax.sharding.Mesh, lanes: Sequence[Any]) -> Any:
    """`program` of lanes spread over a mesh: each device runs it on its own share, which looks like `lanes`.

    Left to itself, XLA would gather what is computed step by step, and compute all lanes on every device.
    """
    spec: Any = jax.sharding.PartitionSpec
    specs = jax.tree.map(lambda y: spec(*[None] * (y.ndim - 1), "lanes"), jax.eval_shape(program, *lanes))
    return jax.jit(jax.shard_map(program, mesh=over, in_specs=spec("lanes"), out_specs=specs, check_vma=False))
