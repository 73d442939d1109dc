"""What a sweep returns."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._html import lines, table
from jaxacct._types import Bound
from jaxacct.sweeping import _tables
from jaxacct.sweeping._file import write_settings
from jaxacct.sweeping._grid import Grid, column_of, grid_settings, rows
from jaxacct.workers import FailedChunk

_ROWS_SHOWN = 10  # of a notebook's table


@dataclasses.dataclass(frozen=True, repr=False)
class SweepResult:
    """The values of a quantity at the points of a grid.

    Attributes:
      quantity: "epsilon" or "delta", or the name of a measure.
      grid: the axes of the grid, and how they combine.
      values: float64 of the grid's shape. If a sweep was interrupted, points that were not reached hold the trivial
        bound (epsilon inf, delta 1; 0 for a lower bound).
      bound: what the values are: upper bounds, lower bounds or estimates.
      num_done: the number of points that were computed.
      target: the target delta or epsilon; None if it was swept.
      answered: bool [number of points], which points were computed, in the order of `to_numpy`; None if these are the
        first `num_done`.
      question: what was computed, as JSON: version, mechanism, numbers, method, direction, precision, orders, and the
        words and units of the axes.
      num_again: the number of chunks that were sent to an executor again.

    >>> import jaxacct as ja
    >>> found = ja.sweep(ja.Gaussian(None), {"noise_multiplier": [1.0, 2.0]}, target_delta=1e-6)
    >>> found.values.round(3).tolist(), found.bound.value
    ([4.887, 2.254], 'upper bound')
    >>> found
    <SweepResult: upper bounds of epsilon at delta = 1e-06, 2 points: noise_multiplier (2)>
    """

    quantity: str
    grid: Grid
    values: NDArray[Any]
    bound: Bound
    num_done: int
    target: float | None = None
    answered: NDArray[Any] | None = None
    question: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    num_again: int = 0

    def __repr__(self) -> str:
        """One line: what was computed, and over which axes."""
        given = "delta" if self.quantity == "epsilon" else "epsilon"
        at = "" if self.target is None else f" at {given} = {self.target:g}"
        done = "" if self.num_done == self.grid.size else f"{self.num_done} of "
        axes = ", ".join(f"{name} ({axis.size})" for name, axis in self.grid.axes.items())
        points = f"{done}{self.grid.size} point{'' if self.grid.size == 1 else 's'}"
        return f"<SweepResult: {self.bound.value}s of {self.quantity}{at}, {points}: {axes}>"

    def _repr_html_(self) -> str:
        """For notebooks: the first points as a table and, with one or two axes, lines over the first axis."""
        columns = self.columns()
        rows = list(zip(*(column[:_ROWS_SHOWN].tolist() for column in columns.values()), strict=True))
        cells = [[str(value) for value in row] for row in rows]
        if self.num_done > _ROWS_SHOWN:
            cells.append(["…"] * len(columns))
        picture, axes = "", [np.asarray(axis, np.float64) for axis in self.grid.axes.values()]
        if self.num_done == self.grid.size and self.values.ndim == len(axes) <= 2:
            series = self.values.reshape(len(axes[0]), -1).T
            order = np.argsort(axes[0], kind="stable")
            over = f"{self.quantity} over {self.grid.columns[0]}"
            picture = lines(axes[0][order].tolist(), series[:, order].tolist(), over)
            picture = f"<div>{over}</div>{picture}" if picture else ""
        return table(tuple(columns), cells, repr(self).strip("<>")) + picture

    def columns(self) -> dict[str, NDArray[Any]]:
        """The axes' values and, last, the value at every point that was computed, [num_done] each.

        The column of values has the name of the quantity; for estimates, "epsilon_estimate" or "delta_estimate".
        """
        numbers = np.arange(self.num_done) if self.answered is None else np.flatnonzero(self.answered)
        points = dict(zip(self.grid.columns, self.grid.at(numbers).values(), strict=True))
        return {**points, column_of(self.quantity, self.bound): self.values.reshape(-1)[numbers]}

    def to_numpy(self) -> np.recarray[Any, Any]:
        """A record array, one record for each point."""
        columns = self.columns()
        records = np.empty(self.num_done, [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            records[name] = column
        return records.view(np.recarray)

    def to_pandas(self) -> Any:
        """A pandas data frame with one row for each point; its `attrs` are the question. pandas must be installed."""
        return _tables.frame(self.columns(), self.settings())

    def to_xarray(self) -> Any:
        """An xarray array of named axes, with words and units, and the question as attributes.

        xarray must be installed. The axes are dimensions if every combination is a point, and coordinates of "point" if
        they are zipped.
        """
        return _tables.labelled(self.quantity, self.grid, self.values, self.settings())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes a line of names and a line for each point, and the settings as JSON in a file beside it, "PATH.json".

        `pandas.read_csv(path)` and spreadsheets read the file as it is; every number reads back as itself.
        """
        points = self.columns()
        column, values = points.popitem()
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(",".join((*points, column)) + "\n")
            file.writelines(rows(points, values))
        write_settings(path, self.settings())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes the columns as a Parquet file, with the settings in its metadata; pyarrow must be installed."""
        _tables.write_parquet(path, self.columns(), self.settings())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SweepResult":
        """The result that `to_csv`, `to_parquet` or `jaxacct.sweep` wrote to `path`, also of an interrupted sweep.

        For a zipped layout, the points in the file are the grid.

        Raises:
          ValueError: if the file is not that of a sweep.
        """
        return cls(**_tables.read(path))

    def plot(self, ax: Any = None) -> Any:
        """Draws this result by `jaxacct.plot.sweep_result`: lines, a map with contours, or panels; needs matplotlib."""
        from jaxacct.plot import sweep_result

        return sweep_result(self, ax=ax)

    def settings(self) -> dict[str, Any]:
        """The question and whatever is needed to restore this result from a table of its points, as JSON."""
        return {
            **self.question,
            "quantity": self.quantity,
            "target": self.target,
            **grid_settings(self.grid, self.bound),
        }


class SweepInterrupted(KeyboardInterrupt):
    """A sweep was interrupted from the keyboard; `partial` is the `SweepResult` so far.

    >>> import jaxacct as ja
    >>> issubclass(ja.SweepInterrupted, KeyboardInterrupt)
    True
    """

    def __init__(self, partial: SweepResult, path: str | None = None):
        kept = "" if path is None else f": {path} holds them, resume=True goes on"
        super().__init__(f"interrupted after {partial.num_done} of {partial.grid.size} points{kept}")
        self.partial = partial


class SweepFailedError(RuntimeError):
    """Chunks of a sweep failed permanently: `failed` lists them, `partial` is the `SweepResult` of the others.

    The file of the sweep holds the others too: with `resume=True` only the missing points are computed.

    >>> from jaxacct.sweeping import SweepFailedError
    >>> issubclass(SweepFailedError, RuntimeError)
    True
    """

    def __init__(self, partial: SweepResult, failed: tuple[FailedChunk, ...], chunk_size: int):
        first = failed[0]
        points = f"{first.number * chunk_size} to {min((first.number + 1) * chunk_size, partial.grid.size) - 1}"
        super().__init__(
            f"{len(failed)} chunks failed for good, {partial.num_done} of {partial.grid.size} points are answered; "
            f"the first, points {points}, after {first.attempts} attempts: {first.error}"
        )
        self.partial, self.failed, self.chunk_size = partial, failed, chunk_size
