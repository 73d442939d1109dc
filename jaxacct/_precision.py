"""The float64 boundary: the one module that knows of x64.

A *kernel* is a plain function of float64 arrays whose last axis is a batch of independent *lanes*:
``fn(*lanes: float64[L], **static) -> float64[..., L]`` (or a pytree of such arrays). `float64_kernel` turns it into a
function of scalars, arrays or tracers that broadcast, which

* computes in float64 whatever the user's ``jax_enable_x64`` says, and never changes it;
* on Python or NumPy numbers runs the compiled program, in chunks of bounded memory, and returns NumPy float64, also
  while the user's own function is being traced;
* on tracers returns tracers of the user's float type, rounded towards the safe side, right under ``jit``, ``vmap``,
  ``grad``, ``scan``. Derivatives are taken forward-mode *inside* the boundary, lane by lane, so that outside it only
  products in the user's own type remain to be transposed.

Lanes stand last because XLA's CPU backend vectorises the minor axis: reductions over the leading axes then run at full
width (17 times faster than the same kernel under ``vmap``, measured at 200 lanes of 60 orders).
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct import _ground, _trees
from jaxacct._jax import Array, Tracer, is_imported, jax, jnp
from jaxacct._meshes import on_automatic_axes

# working memory that one call of a kernel may take, on a CPU and elsewhere: larger batches are cut into chunks
_CHUNK_BYTES, _CHUNK_BYTES_ELSEWHERE = 64 * 2**20, 2**30

# Who answers a call, and by which program, is decided by what is asked: the number of lanes, the static arguments, the
# device. Never by what was asked before, so that the same question has the same digits however often it is asked.

# A first answer costs its compilation. Without LLVM's optimisation and XLA's fusion emitters a kernel compiles in a
# quarter of the time and runs at half to a quarter of the speed (jaxlib 0.10.2): right for few lanes.
# Parts of a program that LLVM would compile side by side cost a tenth more together than one.
_Options = dict[str, str | bool]
_UNOPTIMISED: _Options = {"xla_backend_optimization_level": "0", "xla_cpu_use_fusion_emitters": False}
_UNDIVIDED: _Options = {"xla_cpu_parallel_codegen_split_count": "1"}
_QUICK_LANES = 8  # lanes of one call, as it is compiled

# A kernel that takes NumPy arrays too answers calls of one lane by NumPy: it starts at once, and compilation would
# spare one lane only what NumPy's calls cost. Several lanes are cut into chunks of this size, for the cache.
_HOST_BYTES = 4 * 2**20

# A small batch of such a kernel is not compiled either: NumPy answers its lanes one after another, as single questions,
# in less time than it takes to compile a program.
FEW_LANES = 32

# A program that is kept holds its machine code in tens of memory maps, and a process has only so many (65,530 on Linux,
# where the compiler then crashes): the least recently used go.
_MAX_PROGRAMS = 128  # compiled programs kept of a kind


@contextlib.contextmanager
def _own_settings() -> Iterator[None]:
    """float64, and dtypes promoted as kernels expect: float64 beside complex128, integers and truth values.

    Compiled, and without checks for NaN: a kernel's own are part of its answer, as an order where there is none.
    """
    promotion = jax.numpy_dtype_promotion("standard")
    with jax.enable_x64(True), promotion, jax.debug_nans(False), jax.debug_infs(False), jax.disable_jit(False):
        yield


# Part of a user's program, a kernel runs where that does, which only its lowering says: an identity whose lowering
# refuses platforms that are not sound, or that are not at hand to be looked at.
@functools.cache
def _looked_at() -> Any:
    import jax.extend.core
    from jax.interpreters import mlir

    def lowered(context: mlir.LoweringRuleContext, x: Any) -> list[Any]:
        with _own_settings():
            for platform in context.platforms or context.module_context.platforms:
                _ground.refuse_unsound(platform, {})  # the user's program is compiled with the user's options
        return [x]

    made: Any = jax.extend.core.Primitive("looked_at")
    made.def_impl(lambda x: x)
    made.def_abstract_eval(lambda x: x)
    mlir.register_lowering(made, lowered)
    return made


class Rounding(enum.Enum):
    """Where a kernel's float64 result goes when the user's float type is narrower."""

    NEAREST = "nearest"
    UP = "up"
    DOWN = "down"


def is_traced(*values: Any) -> bool:
    """Whether any leaf of `values` is a JAX tracer."""
    return is_imported() and any(isinstance(leaf, Tracer) for leaf in _trees.leaves(values))


def _key_of(static: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Static arguments as a key of what is kept for them."""
    return tuple(sorted(static.items()))


class Way(NamedTuple):
    """How a call about concrete lanes is answered.

    Attributes:
      is_compiled: by a compiled program; else by NumPy.
      at_once: lanes of one call of it, as it is compiled; more are answered in turn.
      has_numpy: whether NumPy could answer too.
    """

    is_compiled: bool
    at_once: int
    has_numpy: bool


def way_of(
    num_lanes: int,
    static: dict[str, Any],
    on_host: bool | int | Callable[..., bool],
    one_by_one: float,
    lane_bytes: int | Callable[..., int],
) -> Way:
    """How a kernel with these properties (see `Kernel`) answers so many lanes; computes nothing."""
    most = int(on_host(**static) if callable(on_host) else on_host)
    has_numpy, size = most > 0 and _mesh.get() is None, lane_bytes(**static) if callable(lane_bytes) else lane_bytes
    if has_numpy and 1 <= num_lanes <= most and not _large.get():
        return Way(False, max(1, _HOST_BYTES // size), True)
    if has_numpy and 1 < num_lanes <= one_by_one and (one_by_one == math.inf or not _large.get()):
        return Way(False, 1, True)
    chunk = _CHUNK_BYTES if platform() == "cpu" else _CHUNK_BYTES_ELSEWHERE
    at_once = 1 << max(0, int(chunk // size).bit_length() - 1)
    return Way(True, _across(min(_bucket(num_lanes), _num_devices() * at_once)), has_numpy)


class Kernel:
    """A float64 lane function behind the boundary; see the module's docstring.

    Called with broadcasting scalars, arrays or tracers; its outputs carry the batch axes first.

    Args:
      fn: ``fn(*lanes: float64[L], **static)`` returning float64 ``[..., L]`` or a pytree of them.
      rounding: direction of the final cast to the user's float type inside their traced code; a tuple for a tuple of
        outputs.
      lane_bytes: working memory of one lane, in bytes (or a function of the static arguments); a batch is cut into
        chunks of at most 64 MiB on a CPU, 1 GiB on an accelerator, or of one lane.
      on_host: whether `fn` takes NumPy arrays too: then a single concrete question is answered by NumPy, which compiles
        nothing. A number: so are that many lanes, together. A function of the static arguments: where it says so.
      one_by_one: how many lanes of one call NumPy answers one after another, as single questions, where that takes less
        time than to compile a program; `math.inf` where a lane takes a program longer, however many there are.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        rounding: Rounding | tuple[Any, ...] = Rounding.NEAREST,
        lane_bytes: int | Callable[..., int] = 2**16,
        *,
        on_host: bool | int | Callable[..., bool] = False,
        one_by_one: float = FEW_LANES,
    ):
        self._fn = fn
        self._on_host = on_host
        self._one_by_one = one_by_one
        self._rounding = rounding
        self._lane_bytes = lane_bytes
        self._programs: dict[Any, Any] = {}
        self._derived: dict[tuple[int, ...], Kernel] = {}
        self.num_traces = 0
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **static: Any) -> Any:
        traced_at = tuple(i for i, a in enumerate(args) if is_traced(a))
        if traced_at:
            return self._call_traced(args, traced_at, static)
        return self._call_concrete(args, static)

    def _program(self, static: dict[str, Any], seen: Callable[[Any], Any] = lambda lane: lane) -> Any:
        # new each time: what a jitted function has compiled lives as long as the function
        def program(*lanes: jax.Array) -> Any:
            self.num_traces += 1
            return self._fn(*map(seen, lanes), **static)

        program.__name__ = getattr(self, "__name__", "kernel")
        return jax.jit(program)

    def _traced_program(self, static: dict[str, Any]) -> Any:
        key = _key_of(static)
        program = self._programs.pop(key, None) or self._program(static, seen=_looked_at().bind)
        self._programs[key] = program  # the last one used comes last
        if len(self._programs) > _MAX_PROGRAMS:
            self._programs.pop(next(iter(self._programs)), None)
        return program

    def _call_concrete(self, args: Sequence[Any], static: dict[str, Any]) -> Any:
        arrays = [np.asarray(a, np.float64) for a in args]
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        num_lanes = math.prod(shape)
        # broadcast_to and moveaxis cost as much as a small kernel: spared where the shapes agree, as for one question
        flat = [(a if a.shape == shape else np.broadcast_to(a, shape)).reshape(-1) for a in arrays]
        way = way_of(num_lanes, static, self._on_host, self._one_by_one, self._lane_bytes)
        if way.is_compiled:
            with _own_settings():
                device = _device(has_host=way.has_numpy)
                if device is False:  # no backend to be trusted
                    parts = self._one_after_another([a if num_lanes else np.ones(1) for a in flat], static)
                else:
                    parts = self._by_program(flat, num_lanes, device, way.at_once, static)
        elif way.at_once == 1:
            parts = self._one_after_another(flat, static)
        else:
            starts = range(0, num_lanes, way.at_once)
            parts = [self._by_numpy([a[i : i + way.at_once] for a in flat], static) for i in starts]
        whole = parts[0] if len(parts) == 1 else _trees.map_leaves(lambda *ys: np.concatenate(ys, axis=-1), *parts)
        return _trees.map_leaves(
            lambda y: (y if num_lanes == 1 else np.moveaxis(y[..., :num_lanes], -1, 0)).reshape(shape + y.shape[:-1]),
            whole,
        )

    def _one_after_another(self, flat: Sequence[NDArray[Any]], static: dict[str, Any]) -> list[Any]:
        """The lanes as single questions; one that is asked again and again, to fill a chunk, is answered once."""
        parts: list[Any] = []
        for i in range(flat[0].size):
            again = i > 0 and all(a[i] == a[i - 1] for a in flat)
            parts.append(parts[-1] if again else self._by_numpy([a[i : i + 1] for a in flat], static))
        return parts

    def _by_numpy(self, flat: Sequence[NDArray[Any]], static: dict[str, Any]) -> Any:
        with np.errstate(all="ignore"):
            found = self._fn(*flat, **static)
        if any(isinstance(y, Array) for y in _trees.leaves(found)):  # of the user's own precision
            raise TypeError(f"{getattr(self, '__name__', 'kernel')} mixes arrays of JAX into an answer by NumPy")
        return _trees.map_leaves(np.asarray, found)

    def _by_program(
        self, flat: Sequence[NDArray[Any]], num_lanes: int, device: Any, size: int, static: dict[str, Any]
    ) -> list[Any]:
        parts = []
        with jax.default_device(device):
            quick = _is_quick(size)
            key = _key_of(static)
            program = _compiled_kernel(self, quick, len(flat), size, _mesh.get(), device, key)
            for start in range(0, max(num_lanes, 1), size):
                out = program(*(_placed(_padded(a[start : start + size], size)) for a in flat))
                keep = min(size, num_lanes - start)
                parts.append(_trees.map_leaves(lambda y, keep=keep: _gathered(y)[..., :keep], out))
        return parts

    def _call_traced(self, args: Sequence[Any], traced_at: tuple[int, ...], static: dict[str, Any]) -> Any:
        from jax.custom_batching import custom_vmap

        # Concrete arguments stay NumPy float64 constants: as arguments of the custom_jvp function they would be cut to
        # the user's float32.
        constants = {i: np.asarray(a, np.float64) for i, a in enumerate(args) if i not in traced_at}
        user_dtype = jnp.result_type(float)
        program = self._traced_program(static)

        def assemble(traced: Sequence[Any]) -> list[Any]:
            whole: dict[int, Any] = dict(constants)
            whole.update(zip(traced_at, traced, strict=True))
            return [whole[i] for i in range(len(args))]

        def compute(*traced: Any) -> Any:
            with _own_settings():
                arrays = [_widened(jnp.asarray(a)) for a in assemble(traced)]
                shape = jnp.broadcast_shapes(*(a.shape for a in arrays))
                out = _of_lanes(program, [jnp.broadcast_to(a, shape).reshape(-1) for a in arrays])
                return _narrow(_trees.map_leaves(lambda y: _unflatten(y, shape), out), user_dtype, self._rounding)

        @custom_vmap
        def batched(*traced: Any) -> Any:
            return on_automatic_axes(compute, *traced)

        @batched.def_vmap
        def _vmap(size: int, is_batched: Sequence[bool], *traced: Any) -> Any:
            # More lanes, not a program rewritten for a further axis: JAX would do that in the user's precision, where
            # the rules of some operations (products of matrices) turn float64 into float32.
            ndim = max(np.ndim(a) - b for a, b in zip(traced, is_batched, strict=True))
            ndim = max(ndim, *(a.ndim for a in constants.values())) if constants else ndim
            with _own_settings():  # mapped eagerly, NumPy's integers still have the 64 bits that JAX cuts
                moved = [_aligned(a, ndim) if b else a for a, b in zip(traced, is_batched, strict=True)]
            out = batched(*moved)
            return out, _trees.map_leaves(lambda _: True, out)

        @jax.custom_jvp
        def call(*traced: Any) -> Any:
            return batched(*traced)

        @functools.partial(call.defjvp, symbolic_zeros=True)
        def _jvp(primals: Any, tangents: Any) -> Any:
            active = tuple(i for i, t in enumerate(tangents) if not isinstance(t, jax.custom_derivatives.SymbolicZero))
            # Under an eager `grad` the primals are concrete here, yet the result must be the user's type.
            derived = self._with_partials(tuple(traced_at[i] for i in active))
            values = derived._call_traced(assemble(primals), traced_at, static)
            out = values[0]
            tangent_out = _trees.map_leaves(jnp.zeros_like, out)
            for partial, i in zip(values[1:], active, strict=True):
                tangent_out = _trees.map_leaves(
                    lambda acc, d, t=tangents[i]: acc + d * _expand(t, d.ndim).astype(d.dtype), tangent_out, partial
                )
            return out, tangent_out

        return call(*(args[i] for i in traced_at))

    def _with_partials(self, active: tuple[int, ...]) -> Kernel:
        """The kernel of (value, partial derivative for each argument in `active`), itself differentiable."""
        if active not in self._derived:

            def fn(*lanes: jax.Array, **static: Any) -> Any:
                def of(*moving: jax.Array) -> Any:
                    whole = dict(enumerate(lanes)) | dict(zip(active, moving, strict=True))
                    return self._fn(*whole.values(), **static)

                at = tuple(lanes[i] for i in active)
                if len(at) == 1:
                    return jax.jvp(of, at, (jnp.ones_like(at[0]),))
                value, pushforward = jax.linearize(of, *at)
                basis = (tuple(jnp.full_like(x, float(i == j)) for j, x in enumerate(at)) for i in range(len(at)))
                return (value, *(pushforward(*direction) for direction in basis))

            rounding = (self._rounding, *(Rounding.NEAREST for _ in active))
            self._derived[active] = Kernel(fn, rounding, self._lane_bytes)
        return self._derived[active]


def _is_quick(size: int) -> bool:
    """Whether a program for so many lanes takes longer to optimise than it is likely to run."""
    return size <= _QUICK_LANES and not _large.get() and _mesh.get() is None and bool(_quick_options())


@functools.lru_cache(maxsize=_MAX_PROGRAMS)
def _compiled_kernel(
    kernel: Kernel,
    quick: bool,
    num_args: int,
    size: int,
    mesh: jax.sharding.Mesh | None,
    device: jax.Device | None,
    static: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    # Compiled ahead of time, since a jitted call on concrete arguments would be staged out into the user's own program
    # while that is being traced.
    program, lanes = kernel._program(dict(static)), [_placed(np.zeros(size))] * num_args
    if mesh is not None:
        program = _on_each_device(program, mesh, [lane[: size // mesh.size] for lane in lanes])
    return program.lower(*lanes).compile(compiler_options=_quick_options() if quick else None)


def _on_each_device(program: Callable[..., Any], mesh: jax.sharding.Mesh, lanes: Sequence[Any]) -> Any:
    """`program` of lanes spread over `mesh`, each device's own by itself: its share looks like `lanes`.

    XLA, left to itself, would gather what is asked one after the other, and answer all lanes on every device.
    """
    spec: Any = jax.sharding.PartitionSpec
    specs = jax.tree.map(lambda y: spec(*[None] * (y.ndim - 1), "lanes"), jax.eval_shape(program, *lanes))
    return jax.jit(jax.shard_map(program, mesh=mesh, in_specs=spec("lanes"), out_specs=specs, check_vma=False))


def float64_kernel(
    *,
    rounding: Rounding = Rounding.NEAREST,
    lane_bytes: int | Callable[..., int] = 2**16,
    on_host: bool | int | Callable[..., bool] = False,
    one_by_one: float = FEW_LANES,
) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator form of `Kernel`."""
    return lambda fn: Kernel(fn, rounding, lane_bytes, on_host=on_host, one_by_one=one_by_one)


class KernelByStructure:
    """Kernels of a function of a mechanism, or of any tree of numbers: one for each structure it comes in.

    Called with the tree, its leaves scalars, arrays or tracers that broadcast with the lanes behind it. A structure
    holds all that is not a leaf: which mechanisms are composed, and their static fields.

    Args:
      fn: ``fn(tree, *lanes, **static)`` with float64 ``[L]`` for leaves and lanes, otherwise as for `Kernel`.
      rounding, lane_bytes, on_host, one_by_one: as for `Kernel`.
      maxsize: kernels kept, the last ones used; a kernel holds what was compiled for it.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        rounding: Rounding | tuple[Any, ...] = Rounding.NEAREST,
        lane_bytes: int | Callable[..., int] = 2**16,
        *,
        on_host: bool | int | Callable[..., bool] = False,
        one_by_one: float = FEW_LANES,
        maxsize: int = 64,
    ):
        def make(structure: Any) -> Kernel:
            def of_leaves(*lanes: jax.Array, **static: Any) -> Any:
                count = structure.num_leaves
                return fn(_trees.unflatten(structure, lanes[:count]), *lanes[count:], **static)

            of_leaves.__name__ = getattr(fn, "__name__", "kernel")
            return Kernel(of_leaves, rounding, lane_bytes, on_host=on_host, one_by_one=one_by_one)

        self.on_host = on_host
        # the kernel of ``(*leaves, *lanes, **static)`` for one structure, as `_trees.flatten` gives it
        self.of = functools.lru_cache(maxsize=maxsize)(make)

    def __call__(self, tree: Any, *lanes: Any, **static: Any) -> Any:
        leaves, structure = _trees.flatten(tree)
        return self.of(structure)(*leaves, *lanes, **static)


class HostProgram:
    """A float64 function of concrete arrays of any shape; NumPy in, NumPy out, compiled once for each shape.

    For work that the host drives step by step (lattices, transforms), where lanes do not fit. Refuses tracers.
    """

    def __init__(self, fn: Callable[..., Any]):
        self._fn = fn
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **static: Any) -> Any:
        if is_traced(args):
            raise ValueError(f"{self._fn.__name__} needs concrete numbers: it cannot run inside jit, vmap or grad")
        arrays = [a if isinstance(a, np.ndarray) else np.asarray(a, np.float64) for a in args]
        shapes = tuple((a.shape, a.dtype) for a in arrays)
        with _own_settings(), jax.default_device(device := _device()):
            program = _compiled_host(self._fn, shapes, device, _key_of(static))
            return _trees.map_leaves(np.asarray, program(*arrays))


@functools.lru_cache(maxsize=_MAX_PROGRAMS)
def _compiled_host(
    fn: Callable[..., Any],
    shapes: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...],
    device: jax.Device | None,
    static: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    arrays = [jax.ShapeDtypeStruct(*shape) for shape in shapes]  # type: ignore[no-untyped-call]
    return jax.jit(functools.partial(fn, **dict(static))).lower(*arrays).compile()


_large: contextvars.ContextVar[bool] = contextvars.ContextVar("large", default=False)


@contextlib.contextmanager
def of_many_points() -> Iterator[None]:
    """Calls, of few lanes too, are parts of a question of so many points that programs compiled for speed pay."""
    token = _large.set(True)
    try:
        yield
    finally:
        _large.reset(token)


# The devices over which lanes are spread, if any: each gets its share of every chunk, and no lane needs another's.
_mesh: contextvars.ContextVar[jax.sharding.Mesh | None] = contextvars.ContextVar("mesh", default=None)


@contextlib.contextmanager
def lanes_over(mesh: jax.sharding.Mesh) -> Iterator[None]:
    """Spreads the lanes of concrete calls over the devices of `mesh`, also those of other processes.

    Every process must then make the same calls with the same arguments; each gets the whole answer.
    """
    # one axis, whose sharding XLA propagates: a mesh of explicit axes would have every kernel say it
    token = _mesh.set(jax.sharding.Mesh(mesh.devices.reshape(-1), ("lanes",)))
    try:
        yield
    finally:
        _mesh.reset(token)


def lanes_are_spread() -> bool:
    """Whether concrete calls are answered by the devices of a mesh."""
    return _mesh.get() is not None


def _num_devices() -> int:
    mesh = _mesh.get()
    return 1 if mesh is None else mesh.size


def _across(size: int) -> int:
    """`size`, rounded up so that every device has as many lanes."""
    return -(-size // _num_devices()) * _num_devices()


def _placed(block: NDArray[Any]) -> Any:
    mesh = _mesh.get()
    if mesh is None:
        return block
    spec = jax.sharding.PartitionSpec("lanes")  # type: ignore[no-untyped-call]
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return jax.make_array_from_callback(block.shape, sharding, lambda at: block[at])


def _gathered(y: jax.Array) -> NDArray[Any]:
    if y.is_fully_addressable:
        return np.asarray(y)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(y, tiled=True))


def _bucket(num_lanes: int) -> int:
    return 1 << max(0, num_lanes - 1).bit_length()


def _padded(block: NDArray[Any], size: int) -> NDArray[Any]:
    if block.shape[0] == size:
        return block
    if block.shape[0] == 0:
        return np.ones(size)
    return np.concatenate([block, np.full(size - block.shape[0], block[-1])])


@functools.cache
def _quick_options() -> _Options:
    """Those of the quick options that this jaxlib's CPU compiler knows (they are not a stable interface); or none."""
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


def _device(*, has_host: bool = False) -> Any:
    """Where to compute: what the user chose if that can be trusted; False for NumPy, where there is that choice."""
    fallback, mesh = _tpu_fallback(), _mesh.get()
    device = getattr(jax.config, "jax_default_device") if fallback is None else fallback  # noqa: B009  (no stub)
    if mesh is not None:  # which computes: nothing takes its place
        _ground.refuse_unsound(mesh.devices.flat[0], _quick_options())
        return device
    return _ground.sound_device(device, _quick_options(), has_host=has_host)


def platform() -> str:
    """Where compiled programs of concrete calls run: "cpu", "gpu"; the host's CPU beside a TPU, or a mesh's devices."""
    mesh = _mesh.get()
    device = mesh.devices.flat[0] if mesh is not None else _tpu_fallback()
    device = device or getattr(jax.config, "jax_default_device")  # noqa: B009  (no stub)
    if device is None:
        return str(jax.default_backend())
    return device if isinstance(device, str) else str(device.platform)


def look_at_backends() -> dict[str, list[_ground.Finding]]:
    """What a look finds on the host's CPU and on JAX's default platform, by platform and way of compiling."""
    quick, found = _quick_options(), {}
    ways: list[tuple[str, str, Any]] = [("cpu", "cpu", None)]
    if quick:
        ways.append(("cpu, compiled quickly", "cpu", quick))
    if jax.default_backend() != "cpu":
        ways.append((jax.default_backend(), jax.default_backend(), None))
    for where, platform, options in ways:
        with _own_settings():
            try:
                found[where] = _ground.look(jax.local_devices(backend=platform)[0], options)
            except RuntimeError as error:
                found[where] = [_ground.Finding(f"compiling ({error})", math.inf, 0.0)]
    return found


def _of_lanes(program: Callable[..., Any], lanes: Sequence[jax.Array]) -> Any:
    """`program` of all lanes; one after another where their number is left open (`jax.export.symbolic_shape`)."""
    if isinstance(lanes[0].shape[0], int):
        return program(*lanes)
    found = jax.lax.map(lambda lane: program(*(x[None] for x in lane)), tuple(lanes))
    return _trees.map_leaves(lambda y: jnp.moveaxis(y[..., 0], 0, -1), found)


def _unflatten(y: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.moveaxis(y, -1, 0).reshape(shape + y.shape[:-1])


def _aligned(x: jax.Array, ndim: int) -> jax.Array:
    """`x` with its first axis before `ndim` others, with which the rest broadcast."""
    return jnp.asarray(x).reshape(x.shape[:1] + (1,) * (ndim + 1 - x.ndim) + x.shape[1:])


def _expand(t: jax.Array, ndim: int) -> jax.Array:
    return jnp.reshape(t, jnp.shape(t) + (1,) * (ndim - jnp.ndim(t)))


def _widened(x: jax.Array) -> jax.Array:
    """`x` as float64, those numbers of a narrower type included that are below its least normal one: 0 for XLA."""
    wide = x.astype(jnp.float64)
    if not jnp.issubdtype(x.dtype, jnp.floating) or x.dtype == jnp.float64:
        return wide
    kind: Any = jnp.finfo(x.dtype)  # type: ignore[no-untyped-call]
    bits = jax.lax.bitcast_convert_type(x, f"int{kind.bits}")
    digits = bits & (2**kind.nmant - 1)  # of a number whose exponent is the least
    is_small = (bits & (2 ** (kind.bits - 1) - 1)) == digits
    small = jnp.where(bits < 0, -1.0, 1.0) * digits.astype(jnp.float64) * 2.0 ** (int(kind.minexp) - kind.nmant)
    return jnp.where(is_small, small, wide)


def narrowed_up(value: NDArray[Any]) -> jax.Array:
    """A float64 answer, concrete, as an array of the user's float type that is not below it."""
    dtype: Any = jnp.result_type(float)
    with np.errstate(over="ignore", under="ignore"):
        narrow = value.astype(dtype)
        narrow = np.where(narrow < value, np.nextafter(narrow, np.asarray(np.inf, dtype)), narrow)
    tiny = np.finfo(dtype).tiny  # below it XLA has 0
    return jnp.asarray(np.where((value > 0.0) & (value < tiny), tiny, narrow), dtype)


def _narrow(tree: Any, dtype: Any, rounding: Any) -> Any:
    """Casts float64 to the user's float type, never past a value on its unsafe side."""
    if isinstance(rounding, tuple):
        return tuple(_narrow(y, dtype, r) for y, r in zip(tree, rounding, strict=True))

    def cast(y: jax.Array) -> jax.Array:
        narrow = y.astype(dtype)
        if narrow.dtype == y.dtype or rounding is Rounding.NEAREST:
            return narrow
        up = rounding is Rounding.UP
        unsafe = narrow.astype(y.dtype) < y if up else narrow.astype(y.dtype) > y
        rounded = jnp.where(unsafe, jnp.nextafter(narrow, jnp.asarray(jnp.inf if up else -jnp.inf, dtype)), narrow)
        # XLA flushes subnormals to 0: below the smallest normal number, step out to it
        tiny = float(np.finfo(dtype).tiny)
        outward = jnp.where((y > 0) if up else (y < 0), jnp.asarray(tiny if up else -tiny, dtype), jnp.zeros((), dtype))
        return jnp.where((y != 0) & (jnp.abs(y) < tiny), outward, rounded)

    return _trees.map_leaves(cast, tree)
