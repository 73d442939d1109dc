"""JAX, imported when something first needs it: concrete questions about a few points are answered by NumPy alone.

Importing JAX takes longer than answering most questions. So no other module outside `training` and `demo` imports it at
its top: all take `jax` and `jnp` from here, which import it when one of their attributes is first read. They also take
`Array` and `Tracer`, of which no value is an instance until JAX has been imported. `when_imported` registers
descriptions with JAX as soon as it is imported, by whatever code.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["Array", "Tracer", "is_imported", "jax", "jnp", "when_imported"]

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    from jax import Array
    from jax.core import Tracer
else:

    class _Later:
        """A module that is imported when its first attribute is read."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            module = sys.modules[self._name] if _whole else importlib.import_module(self._name)
            return getattr(module, attribute)

        def __repr__(self) -> str:
            return f"<module {self._name!r}, imported when it is needed>"

    class _Kind(type):
        """A JAX type, of which nothing is an instance until JAX is imported."""

        def __instancecheck__(cls, value: Any) -> bool:
            kind = cls.kind()
            return kind is not None and isinstance(value, kind)

    class Array(metaclass=_Kind):
        """`jax.Array`."""

        @staticmethod
        def kind() -> type | None:
            return getattr(sys.modules.get("jax"), "Array", None)

    class Tracer(metaclass=_Kind):
        """`jax.core.Tracer`."""

        @staticmethod
        def kind() -> type | None:
            return getattr(sys.modules.get("jax.core"), "Tracer", None)

    jax, jnp = _Later("jax"), _Later("jax.numpy")


def is_imported() -> bool:
    """Whether JAX has been imported, so that values may be its arrays."""
    return _whole


_waiting: list[Callable[[], None]] = []
_whole = False  # whether the import of JAX was seen to finish


def when_imported(act: Callable[[], None]) -> None:
    """Calls `act` now if JAX is imported, else as soon as it is, by whatever code."""
    if _whole:
        act()
    else:
        _waiting.append(act)


def _now_imported() -> None:
    global _whole
    _whole = True
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Watch)]
    while _waiting:
        _waiting.pop(0)()


class _Watch(importlib.abc.MetaPathFinder):
    """Sees JAX being imported: finds it as everybody else would, and acts when its module has been executed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "jax":
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec, spec.loader)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Loads JAX by its own loader, which then takes this one's place, and runs the callbacks that wait for JAX."""

    def __init__(self, spec: importlib.machinery.ModuleSpec, own: importlib.abc.Loader):
        self._spec, self._own = spec, own

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        _now_imported()


if getattr(sys.modules.get("jax"), "Array", None) is not None:
    _now_imported()
else:
    sys.meta_path.insert(0, _Watch())
