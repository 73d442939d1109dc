"""Trees of numbers without JAX, as `jax.tree` treats tuples, lists, dictionaries, None and descriptions.

Once JAX is imported its own functions are used, since they also know the node types that others registered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxacct._jax import is_imported, jax, when_imported

_Parts = tuple[Sequence[Any], Any]  # a node's children, and what else it takes to rebuild it


class _Node(NamedTuple):
    """How a type of node is taken apart, ``node -> (children, rest)``, and rebuilt, ``(rest, children) -> node``."""

    flatten: Callable[[Any], _Parts]
    unflatten: Callable[[Any, Sequence[Any]], Any]


_NODES: dict[type, _Node] = {
    type(None): _Node(lambda node: ((), None), lambda rest, parts: None),
    tuple: _Node(lambda node: (node, None), lambda rest, parts: tuple(parts)),
    list: _Node(lambda node: (node, None), lambda rest, parts: list(parts)),
    dict: _Node(
        lambda node: ([node[key] for key in sorted(node)], tuple(sorted(node))),
        lambda keys, parts: dict(zip(keys, parts, strict=True)),
    ),
}


def register(kind: type, names: Sequence[str], flatten: Callable[[Any], _Parts], unflatten: Callable[..., Any]) -> None:
    """Makes `kind` a node whose children are its attributes `names`, here and, when it is imported, for JAX."""
    _NODES[kind] = _Node(flatten, unflatten)

    def tell() -> None:
        keys = tuple(jax.tree_util.GetAttrKey(name) for name in names)

        def with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
            parts, rest = flatten(node)
            return list(zip(keys, parts, strict=True)), rest

        jax.tree_util.register_pytree_with_keys(kind, with_keys, unflatten, flatten)

    when_imported(tell)


class _Leaf(NamedTuple):
    num_leaves: int = 1

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The one leaf."""
        (leaf,) = leaves
        return leaf


class _Structure(NamedTuple):
    """A tree without its leaves; hashable where the rest of each node is."""

    kind: type
    rest: Any
    parts: tuple[Any, ...]
    num_leaves: int

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves."""
        left = list(leaves)
        if len(left) != self.num_leaves:
            raise ValueError(f"{len(left)} leaves for a tree of {self.num_leaves}")
        parts, start = [], 0
        for part in self.parts:
            parts.append(part.unflatten(left[start : start + part.num_leaves]))
            start += part.num_leaves
        return self.kind(*parts) if self.kind not in _NODES else _NODES[self.kind].unflatten(self.rest, parts)


def _walk(tree: Any, leaves: list[Any]) -> Any:
    kind = type(tree)
    if kind in _NODES:
        children, rest = _NODES[kind].flatten(tree)
    elif isinstance(tree, tuple) and hasattr(kind, "_fields"):  # a named tuple
        children, rest = tree, None
    else:
        leaves.append(tree)
        return _Leaf()
    before = len(leaves)
    parts = tuple([_walk(child, leaves) for child in children])
    return _Structure(kind, rest, parts, len(leaves) - before)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a tree, and its structure, which has `num_leaves` and `unflatten`."""
    if is_imported():
        return jax.tree.flatten(tree)
    leaves: list[Any] = []
    structure = _walk(tree, leaves)
    return leaves, structure


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree."""
    return flatten(tree)[0]


def unflatten(structure: Any, leaves: Any) -> Any:
    """The tree of a structure, with these leaves."""
    return structure.unflatten(list(leaves))


def map_leaves(fn: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree of ``fn(leaf, *the other trees' leaves in its place)``."""
    if is_imported():
        return jax.tree.map(fn, tree, *others)
    own, structure = flatten(tree)
    return structure.unflatten(
        [fn(*at) for at in zip(own, *(_leaves_as(structure, one) for one in others), strict=True)]
    )


def _leaves_as(structure: Any, tree: Any) -> list[Any]:
    found, own = flatten(tree)
    if own != structure:
        raise ValueError(f"trees of different structures: {structure} and {own}")
    return found
