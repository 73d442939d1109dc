"""A user's mesh around a kernel: its explicit axes become automatic, since kernels do not specify shardings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxacct._jax import jax, jnp


def on_automatic_axes(fn: Callable[..., Any], *args: Any) -> Any:
    """`fn(*args)`, whose outputs begin with the axes to which the arguments broadcast, sharded as those are.

    The axes of a mesh that `jax.make_mesh` makes are explicit: JAX then refuses every gather and every choice between
    arrays of unlike shardings. On automatic axes XLA propagates shardings.
    """
    # the arguments' own meshes too: without `jax.set_mesh` no other is known
    meshes = (jax.sharding.get_abstract_mesh(), *(jax.typeof(arg).sharding.mesh for arg in args))
    mesh = next((mesh for mesh in meshes if _explicit(mesh)), None)
    if mesh is None:
        return fn(*args)
    out = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*_spec_of_batch(args)))  # type: ignore[no-untyped-call]
    return jax.sharding.auto_axes(fn, axes=_explicit(mesh), out_sharding=out)(*args)


def _explicit(mesh: Any) -> tuple[str, ...]:
    """The axes of a mesh, or of none, that are explicit."""
    return tuple(
        name
        for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if kind == jax.sharding.AxisType.Explicit
    )


def _spec_of_batch(args: Sequence[Any]) -> list[Any]:
    """How the axes to which `args` broadcast are sharded: as in the first argument that shards one over free axes."""
    spec: list[Any] = [None] * max(map(jnp.ndim, args))
    taken: set[Any] = set()
    for arg in args:
        own = jax.typeof(arg).sharding.spec
        for i, names in enumerate(own, start=len(spec) - len(own)):
            each = set(names) if isinstance(names, tuple) else {names}
            if spec[i] is None and names is not None and not each & taken:
                spec[i] = names
                taken |= each
    return spec
