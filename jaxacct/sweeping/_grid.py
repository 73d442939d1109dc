"""The points of a sweep, as they stand in its files."""

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Bound

MARK = "# jaxacct sweep "  # begins the line of settings of a file


class Layout(enum.Enum):
    """How the axes of a grid combine.

    >>> import jaxacct as ja
    >>> ja.Layout.PRODUCT
    <Layout.PRODUCT: 'every combination'>
    """

    PRODUCT = "every combination"
    ZIPPED = "side by side"


@dataclasses.dataclass(frozen=True)
class Grid:
    """The points of a sweep: named axes, in order; the last one varies fastest.

    `labels` are the names of the columns that differ from the names of their axes.
    """

    axes: dict[str, NDArray[Any]]
    layout: Layout
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answers."""
        lengths = tuple(axis.shape[0] for axis in self.axes.values())
        return lengths if self.layout is Layout.PRODUCT else lengths[:1]

    @property
    def size(self) -> int:
        """The number of points."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def columns(self) -> tuple[str, ...]:
        """The axes' labels."""
        return tuple(self.labels.get(name, name) for name in self.axes)

    def at(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The axes' values at the points with these numbers."""
        places = np.unravel_index(numbers, self.shape)
        places = places if self.layout is Layout.PRODUCT else places * len(self.axes)
        return {name: axis[i] for (name, axis), i in zip(self.axes.items(), places, strict=True)}

    def points(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """The axes' values at the points from `start` to `stop`."""
        return self.at(np.arange(start, stop))


def rows(points: dict[str, NDArray[Any]], values: NDArray[Any]) -> Iterator[str]:
    """A line of comma-separated text for each point; every number reads back as itself."""
    for row in zip(*(column.tolist() for column in (*points.values(), values)), strict=True):
        yield ",".join(map(repr, row)) + "\n"


def column_of(quantity: str, bound: Bound) -> str:
    """The name of the column of answers, which for estimates is another one, so that they are not taken for bounds."""
    return f"{quantity}_estimate" if bound is Bound.ESTIMATE else quantity


def grid_settings(grid: Grid, bound: Bound) -> dict[str, Any]:
    """The settings of a grid in a file: layout and axes, [name, column, type, values]; rows hold the zipped values."""
    inside = grid.layout is Layout.PRODUCT
    axes = [
        [name, column, values.dtype.str, values.tolist() if inside else None]
        for (name, values), column in zip(grid.axes.items(), grid.columns, strict=True)
    ]
    return {"layout": grid.layout.value, "bound": bound.value, "axes": axes}
