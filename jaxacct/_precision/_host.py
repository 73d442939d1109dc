"""Programs of concrete arrays of any shape, which the host drives step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._jax import jax
from jaxacct._precision._devices import MAX_PROGRAMS, sound_device
from jaxacct._precision._floats import own_settings
from jaxacct._precision._kernels import is_traced, key_of


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
        with own_settings(), jax.default_device(device := sound_device()):
            program = _compiled_host(self._fn, shapes, device, key_of(static))
            return _trees.map_leaves(np.asarray, program(*arrays))


@functools.lru_cache(maxsize=MAX_PROGRAMS)
def _compiled_host(
    fn: Callable[..., Any],
    shapes: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...],
    device: jax.Device | None,
    static: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    arrays = [jax.ShapeDtypeStruct(*shape) for shape in shapes]  # type: ignore[no-untyped-call]
    return jax.jit(functools.partial(fn, **dict(static))).lower(*arrays).compile()
