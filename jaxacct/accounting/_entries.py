"""The entries of a comparison, and those of many points joined into entries of arrays."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct import _trees
from jaxacct._html import bar, table
from jaxacct._method import Query
from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import shown, shown_down
from jaxacct.workers import Workers, gathered


class Entry(NamedTuple):
    """One line of `compare`.

    Attributes:
      method: the name of the method, which ``method=`` of `jaxacct.epsilon` takes for an upper bound.
      direction: which side of the adjacency it bounds.
      value: epsilon or delta; a float, or an array over a batch.
      bound: whether the value is an upper or a lower bound.
      neighboring_relation: the adjacency.
      theorem: paper and theorem.
      order: the Renyi order that gave the value; nan where there is none.
      at_order_edge: whether that is the largest order tried, so that the bound may be loose.
      seconds: how long the method took, compilation included on a first call.

    >>> import jaxacct as ja
    >>> entry = ja.compare(ja.Gaussian(1.0), target_delta=1e-6)[0]
    >>> entry.method, entry.direction.value, round(entry.value, 4)
    ('exact', 'remove', 4.8866)
    """

    method: str
    direction: Direction
    value: Any
    bound: Bound
    neighboring_relation: NeighboringRelation
    theorem: str
    order: Any
    at_order_edge: Any
    seconds: float


class Comparison(tuple[Entry, ...]):
    """The entries of `compare` at one point: a tuple that prints as the table of ``jaxacct compare``.

    >>> import jaxacct as ja
    >>> found = ja.compare(ja.Gaussian(1.0), target_delta=1e-6)
    >>> str(found).split()[:3]
    ['method', 'direction', 'epsilon']
    """

    quantity: str

    def __new__(cls, entries: Iterable[Entry], quantity: str) -> Comparison:
        found = super().__new__(cls, entries)
        found.quantity = quantity
        return found

    def __getnewargs__(self) -> tuple[tuple[Entry, ...], str]:
        return tuple(self), self.quantity

    def __repr__(self) -> str:
        return comparison_text(self, self.quantity)

    def _repr_html_(self) -> str:
        """A table with a bar for each value, for notebooks: filled for upper bounds, an outline for lower ones."""
        finite = [float(e.value) for e in self if math.isfinite(e.value)]
        head = ("method", "direction", self.quantity, "", "bound", "order", "source")
        rows = []
        for e in self:
            method, direction, value, bound, order = _cells(e)
            picture = bar(float(e.value), max(finite, default=0.0), is_filled=e.bound is Bound.UPPER)
            rows.append((method, direction, value, picture, bound, order, e.theorem))
        return table(head, rows)


@dataclasses.dataclass(frozen=True)
class _Point:
    """Compares at one point, (mechanism, target) in single numbers."""

    compare: Callable[[Mechanism, Any], tuple[Entry, ...]]

    def __call__(self, point: tuple[Mechanism, Any]) -> tuple[Entry, ...]:
        return self.compare(*point)


def compared_apart(
    workers: Workers,
    compare: Callable[[Mechanism, Any], tuple[Entry, ...]],
    mechanism: Mechanism,
    query: Query,
    target: Any,
) -> tuple[Entry, ...]:
    """The entries of a batch, compared point by point on workers: values, orders and edges of the batch's shape.

    Where a method gives nothing for a point, the value is what always holds: the worst value from above, 0 from below.
    """
    leaves, structure = _trees.flatten(mechanism)
    shape = np.broadcast_shapes(*(np.shape(x) for x in (*leaves, target)))
    if not shape:
        return compare(mechanism, target)
    *fields, goals = (np.broadcast_to(np.asarray(x), shape).reshape(-1).tolist() for x in (*leaves, target))
    points = [_trees.unflatten(structure, numbers) for numbers in zip(*fields, strict=True)]
    found = gathered(workers, _Point(compare), list(zip(points, goals, strict=True)))
    lines: dict[tuple[str, Direction, Bound], list[Entry | None]] = {}
    for number, entries in enumerate(found):
        for entry in entries:
            line = lines.setdefault((entry.method, entry.direction, entry.bound), [None] * len(found))
            line[number] = entry
    return tuple(_joined(line, shape, query) for line in lines.values())


def _joined(line: list[Entry | None], shape: tuple[int, ...], query: Query) -> Entry:
    known = [entry for entry in line if entry is not None]
    first = known[0]
    silent = query.worst if first.bound is Bound.UPPER else 0.0
    return first._replace(
        value=np.array([silent if entry is None else entry.value for entry in line]).reshape(shape),
        order=np.array([math.nan if entry is None else entry.order for entry in line]).reshape(shape),
        at_order_edge=np.array([entry is not None and entry.at_order_edge for entry in line]).reshape(shape),
        seconds=sum(entry.seconds for entry in known),
    )


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows below a head, each column as wide as its widest cell."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]


def _cells(e: Entry) -> tuple[str, str, str, str, str]:
    """Method, direction, value (rounded to the safe side), bound and order of one line."""
    return (
        e.method,
        e.direction.value if e.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE else "-",
        shown(e.value, 6) if e.bound is Bound.UPPER else shown_down(e.value, 6),
        e.bound.value.removesuffix(" bound"),
        "-" if np.isnan(e.order) else f"{e.order:.4g}" + ("*" if e.at_order_edge else ""),
    )


def comparison_text(entries: tuple[Entry, ...], solved: str) -> str:
    """The lines of `compare` as a table of 80 columns; values are rounded to the safe side."""
    sources = list(dict.fromkeys(e.theorem for e in entries))
    head = ("method", "direction", solved, "bound", "order", "cold ms", "source")
    rows = [(*_cells(e), f"{1e3 * e.seconds:.0f}", f"[{sources.index(e.theorem) + 1}]") for e in entries]
    lines = columns(head, rows)
    uppers = [e for e in entries if e.bound is Bound.UPPER]
    best = {d: min(e.value for e in uppers if e.direction is d) for d in dict.fromkeys(e.direction for e in uppers)}
    worst = max(best.values())
    lines.append("")
    sides = " and ".join(f"{d.value} {shown(v, 6)}" for d, v in best.items())
    lines.append(f"{solved} = {shown(worst, 6)}" + (f": the larger of {sides}" if len(best) > 1 else ""))
    lines.append("cold ms: of the first such question in a process, compilation included")
    if any(e.at_order_edge for e in entries):
        lines.append("* the largest order tried was best: valid, but may be loose")
    lines.append("")
    for i, source in enumerate(sources, 1):
        lines += textwrap.wrap(source, 80, initial_indent=f"{f'[{i}]':<5}", subsequent_indent="     ")
    return "\n".join(lines)
