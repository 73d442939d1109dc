"""Values that differ between the devices of a `jax.shard_map`."""

from __future__ import annotations

from typing import Any

from jaxacct._jax import jax


def varying(leaf: Any) -> frozenset[Any]:
    """The mesh axes over which a value differs inside `jax.shard_map`; none where that is not tracked."""
    kind = jax.typeof(leaf)
    tracked = getattr(kind, "mat", None)
    return frozenset(getattr(kind, "vma", ()) if tracked is None else tracked.varying)


def varied(tree: Any, names: frozenset[Any]) -> Any:
    """`tree` as values that may differ over the mesh axes `names`."""

    lax: Any = jax.lax  # of versions that differ

    def one(leaf: Any) -> Any:
        missing = tuple(names - varying(leaf))
        if not missing:
            return leaf
        if hasattr(lax, "pcast"):
            return lax.pcast(leaf, missing, to="varying")
        return lax.pvary(leaf, missing)  # before JAX 0.8.2

    return jax.tree.map(one, tree)
