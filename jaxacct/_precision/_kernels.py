"""A kernel behind the boundary: one function of lanes, called with numbers or inside a user's traced program."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._jax import Array, Tracer, is_imported, jax, jnp
from jaxacct._precision._devices import (
    MAX_PROGRAMS,
    backend_check,
    gathered,
    mesh,
    on_each_device,
    placed,
    quick_options,
    sound_device,
)
from jaxacct._precision._explicit_axes import on_automatic_axes
from jaxacct._precision._floats import Rounding, narrowed, own_settings, widened
from jaxacct._precision._ways import Running, is_quick, way_of

_MAX_KERNELS = 64  # kept of one function, for as many structures: a kernel holds what was compiled for it


def is_traced(*values: Any) -> bool:
    """Whether any leaf of `values` is a JAX tracer."""
    return is_imported() and any(isinstance(leaf, Tracer) for leaf in _trees.leaves(values))


def key_of(static: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Static arguments as a hashable key, for caches."""
    return tuple(sorted(static.items()))


class Kernel:
    """A float64 lane function behind the boundary; see the package's docstring.

    Called with broadcasting scalars, arrays or tracers; its outputs carry the batch axes first.

    Args:
      fn: ``fn(*lanes: float64[L], **static)`` returning float64 ``[..., L]`` or a pytree of them.
      rounding: direction of the final cast to the user's float type inside their traced code; a tuple for a tuple of
        outputs.
      running: how concrete lanes are computed, as `Running` says.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        rounding: Rounding | tuple[Any, ...] = Rounding.NEAREST,
        **running: Unpack[Running],
    ):
        self._fn = fn
        self._rounding = rounding
        self._running = running
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

    # Calls with concrete numbers

    def _call_concrete(self, args: Sequence[Any], static: dict[str, Any]) -> Any:
        arrays = [np.asarray(a, np.float64) for a in args]
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        num_lanes = math.prod(shape)
        # broadcast_to and moveaxis cost as much as a small kernel: skipped where the shapes agree, as for one question
        flat = [(a if a.shape == shape else np.broadcast_to(a, shape)).reshape(-1) for a in arrays]
        way = way_of(num_lanes, static, **self._running)
        if way.is_compiled:
            with own_settings():
                device = sound_device(has_host=way.has_numpy)
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
        """The lanes one by one, as single questions; a lane that is repeated, to fill a chunk, is computed once."""
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
            program = _compiled_kernel(self, is_quick(size), len(flat), size, mesh(), device, key_of(static))
            for start in range(0, max(num_lanes, 1), size):
                out = program(*(placed(_padded(a[start : start + size], size)) for a in flat))
                keep = min(size, num_lanes - start)
                parts.append(_trees.map_leaves(lambda y, keep=keep: gathered(y)[..., :keep], out))
        return parts

    # Calls as part of a user's program

    def _traced_program(self, static: dict[str, Any]) -> Any:
        key = key_of(static)
        program = self._programs.pop(key, None) or self._program(static, seen=backend_check().bind)
        self._programs[key] = program  # the last one used comes last
        if len(self._programs) > MAX_PROGRAMS:
            self._programs.pop(next(iter(self._programs)), None)
        return program

    def _call_traced(self, args: Sequence[Any], traced_at: tuple[int, ...], static: dict[str, Any]) -> Any:
        from jax.custom_batching import custom_vmap

        # Concrete arguments stay NumPy float64 constants: as arguments of the custom_jvp function they would be cut to
        # the user's float32.
        constants = {i: np.asarray(a, np.float64) for i, a in enumerate(args) if i not in traced_at}
        user_dtype = jnp.result_type(float)
        program = self._traced_program(static)

        def assemble(traced: Sequence[Any]) -> list[Any]:
            whole = constants | dict(zip(traced_at, traced, strict=True))
            return [whole[i] for i in range(len(args))]

        def compute(*traced: Any) -> Any:
            with own_settings():
                arrays = [widened(jnp.asarray(a)) for a in assemble(traced)]
                shape = jnp.broadcast_shapes(*(a.shape for a in arrays))
                out = _of_lanes(program, [jnp.broadcast_to(a, shape).reshape(-1) for a in arrays])
                batch_first = _trees.map_leaves(lambda y: jnp.moveaxis(y, -1, 0).reshape(shape + y.shape[:-1]), out)
                return narrowed(batch_first, user_dtype, self._rounding)

        @custom_vmap
        def batched(*traced: Any) -> Any:
            return on_automatic_axes(compute, *traced)

        @batched.def_vmap
        def _vmap(size: int, is_batched: Sequence[bool], *traced: Any) -> Any:
            # More lanes, not a program rewritten for a further axis: JAX would do that in the user's precision, where
            # the rules of some operations (products of matrices) turn float64 into float32.
            ndim = max(np.ndim(a) - b for a, b in zip(traced, is_batched, strict=True))
            ndim = max(ndim, *(a.ndim for a in constants.values())) if constants else ndim
            with own_settings():  # mapped eagerly, NumPy's integers still have the 64 bits that JAX cuts
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
            out, *partials = derived._call_traced(assemble(primals), traced_at, static)
            tangent_out = _trees.map_leaves(jnp.zeros_like, out)
            for partial, i in zip(partials, active, strict=True):
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

            self._derived[active] = Kernel(fn, (self._rounding, *(Rounding.NEAREST for _ in active)))
        return self._derived[active]


@functools.lru_cache(maxsize=MAX_PROGRAMS)
def _compiled_kernel(
    kernel: Kernel,
    quick: bool,
    num_args: int,
    size: int,
    over: jax.sharding.Mesh | None,
    device: jax.Device | None,
    static: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    # Compiled ahead of time, since a jitted call on concrete arguments would be staged out into the user's own program
    # while that is being traced.
    program, lanes = kernel._program(dict(static)), [placed(np.zeros(size))] * num_args
    if over is not None:
        program = on_each_device(program, over, [lane[: size // over.size] for lane in lanes])
    return program.lower(*lanes).compile(compiler_options=quick_options() if quick else None)


def float64_kernel(
    *, rounding: Rounding = Rounding.NEAREST, **running: Unpack[Running]
) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator form of `Kernel`."""
    return lambda fn: Kernel(fn, rounding, **running)


class KernelByStructure:
    """Kernels of a function of a mechanism, or of any tree of numbers: one for each structure it comes in.

    Called with the tree, its leaves scalars, arrays or tracers that broadcast with the lanes behind it. A structure
    holds all that is not a leaf: which mechanisms are composed, and their static fields.

    Args:
      fn: ``fn(tree, *lanes, **static)`` with float64 ``[L]`` for leaves and lanes, otherwise as for `Kernel`.
      rounding, running: as for `Kernel`.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        rounding: Rounding | tuple[Any, ...] = Rounding.NEAREST,
        **running: Unpack[Running],
    ):
        def make(structure: Any) -> Kernel:
            def of_leaves(*lanes: jax.Array, **static: Any) -> Any:
                count = structure.num_leaves
                return fn(_trees.unflatten(structure, lanes[:count]), *lanes[count:], **static)

            of_leaves.__name__ = getattr(fn, "__name__", "kernel")
            return Kernel(of_leaves, rounding, **running)

        self._running = running
        # the kernel of ``(*leaves, *lanes, **static)`` for one structure, as `_trees.flatten` gives it
        self.of = functools.lru_cache(maxsize=_MAX_KERNELS)(make)

    def __call__(self, tree: Any, *lanes: Any, **static: Any) -> Any:
        leaves, structure = _trees.flatten(tree)
        return self.of(structure)(*leaves, *lanes, **static)


def _padded(block: NDArray[Any], size: int) -> NDArray[Any]:
    """A chunk of `size` lanes, filled with its last one."""
    if len(block) == size:
        return block
    return np.concatenate([block, np.full(size - len(block), block[-1])]) if len(block) else np.ones(size)


def _of_lanes(program: Callable[..., Any], lanes: Sequence[jax.Array]) -> Any:
    """`program` of all lanes; one after another where their number is left open (`jax.export.symbolic_shape`)."""
    if isinstance(lanes[0].shape[0], int):
        return program(*lanes)
    found = jax.lax.map(lambda lane: program(*(x[None] for x in lane)), tuple(lanes))
    return _trees.map_leaves(lambda y: jnp.moveaxis(y[..., 0], 0, -1), found)


def _aligned(x: jax.Array, ndim: int) -> jax.Array:
    """`x` with its first axis before `ndim` others, with which the rest broadcast."""
    return jnp.asarray(x).reshape(x.shape[:1] + (1,) * (ndim + 1 - x.ndim) + x.shape[1:])


def _expand(t: jax.Array, ndim: int) -> jax.Array:
    """`t` with axes appended up to `ndim`, so that it broadcasts with an output whose own axes come last."""
    return jnp.reshape(t, jnp.shape(t) + (1,) * (ndim - jnp.ndim(t)))
