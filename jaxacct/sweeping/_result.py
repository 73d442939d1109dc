"""What a sweep returns."""

import dataclasses
import enum
import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jaxacct._types import Bound


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

    `labels` are the names of columns where they are not those of the axes.
    """

    axes: dict[str, np.ndarray]
    layout: Layout
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the answers."""
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

    def at(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """The axes' values at the points of these numbers."""
        places = np.unravel_index(numbers, self.shape)
        places = places if self.layout is Layout.PRODUCT else places * len(self.axes)
        return {name: axis[i] for (name, axis), i in zip(self.axes.items(), places, strict=True)}

    def points(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """The axes' values at the points from `start` to `stop`."""
        return self.at(np.arange(start, stop))


def rows(points: dict[str, np.ndarray], values: np.ndarray) -> Iterator[str]:
    """A line of comma-separated text for each point; every number reads back as itself."""
    for row in zip(*(column.tolist() for column in (*points.values(), values)), strict=True):
        yield ",".join(map(repr, row)) + "\n"


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """Answers on a grid.

    Attributes:
      quantity: "epsilon" or "delta".
      grid: its axes and how they combine.
      values: float64 of the grid's shape. Where a sweep was interrupted, points not reached hold what is always true
        (epsilon inf, delta 1; 0 of a lower bound).
      bound: what the values are.
      num_done: points answered, in the order of `to_numpy`.
      target: the delta, or the epsilon, at which; None where it was swept.

    >>> import jaxacct as ja
    >>> found = ja.sweep(ja.Gaussian(None), {"noise_multiplier": [1.0, 2.0]}, target_delta=1e-6)
    >>> found.values.round(3).tolist(), found.bound.value
    ([4.887, 2.254], 'upper bound')
    """

    quantity: str
    grid: Grid
    values: np.ndarray
    bound: Bound
    num_done: int
    target: float | None = None

    def columns(self) -> dict[str, np.ndarray]:
        """The axes' values and the answer at every point that was reached, [num_done] each."""
        points = self.grid.points(0, self.num_done)
        points = dict(zip(self.grid.columns, points.values(), strict=True))
        return {**points, self.quantity: self.values.reshape(-1)[: self.num_done]}

    def to_numpy(self) -> np.recarray[Any, Any]:
        """A record array, one record for each point."""
        columns = self.columns()
        records = np.empty(self.num_done, [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            records[name] = column
        return records.view(np.recarray)

    def to_pandas(self) -> Any:
        """A pandas data frame, one row for each point; pandas must be installed."""
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame(self.columns())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes a header line and one line for each point."""
        points = self.columns()
        values = points.pop(self.quantity)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(",".join((*points, self.quantity)) + "\n")
            file.writelines(rows(points, values))

    def plot(self, ax: Any = None) -> Any:
        """`jaxacct.plot.sweep_result` of it: a line, lines, a map with contours, or panels; matplotlib is needed."""
        pictures = importlib.import_module("jaxacct.plot")  # above sweeps, and loaded only here
        return pictures.sweep_result(self, ax=ax)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes the columns as a Parquet file; pyarrow must be installed."""
        check_parquet()
        pyarrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
        parquet.write_table(pyarrow.table(self.columns()), os.fspath(path))


def check_parquet() -> None:
    """Raises ImportError unless Parquet files can be written."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError("Parquet files need pyarrow: pip install 'jaxacct[tables]'")


class SweepInterrupted(KeyboardInterrupt):
    """A sweep was interrupted from the keyboard; `partial` is the `SweepResult` so far.

    >>> import jaxacct as ja
    >>> issubclass(ja.SweepInterrupted, KeyboardInterrupt)
    True
    """

    def __init__(self, partial: SweepResult):
        super().__init__(f"interrupted after {partial.num_done} of {partial.grid.size} points")
        self.partial = partial
