"""Conversion of results of sweeps to tables of other packages and to files, and back."""

import importlib
import importlib.util
import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import Query
from jaxacct._types import Bound
from jaxacct.measures import KINDS
from jaxacct.sweeping._file import read_settings, settings_path
from jaxacct.sweeping._grid import MARK, Grid, Layout, column_of

_KEY = b"jaxacct sweep"  # of the settings among the metadata of a Parquet file
_NEEDED_FOR = {"pandas": "to_pandas needs", "xarray": "to_xarray needs", "pyarrow": "Parquet files need"}
_UNITS = {"epsilon": "nats", "delta": "1"}


def needed(package: str) -> Any:
    """An optional package.

    Args:
      package: its name.

    Returns:
      The module.

    Raises:
      ImportError: if the package is not installed; the message says how to install it.

    >>> from jaxacct.sweeping import needed
    >>> needed("numpy").__name__
    'numpy'
    """
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"{_NEEDED_FOR[package]} {package}: pip install 'jaxacct[table]'")
    return importlib.import_module(package)


def frame(columns: dict[str, NDArray[Any]], settings: dict[str, Any]) -> Any:
    """A pandas data frame, one row for each point."""
    found = needed("pandas").DataFrame(columns)
    found.attrs.update(settings)
    return found


def labelled(quantity: str, grid: Grid, values: NDArray[Any], settings: dict[str, Any]) -> Any:
    """An xarray DataArray of the grid's shape."""
    together = grid.layout is Layout.PRODUCT
    coords = {}
    for (name, axis), column in zip(grid.axes.items(), grid.columns, strict=True):
        said = {"long_name": settings.get("words", {}).get(name), "units": settings.get("units", {}).get(name)}
        coords[column] = (column if together else "point", axis, {key: text for key, text in said.items() if text})
    question = {key: value for key, value in settings.items() if key != "axes"}
    given = "target_delta" if quantity == "epsilon" else "target_epsilon"
    attributes = {
        "long_name": quantity,
        "units": _UNITS.get(quantity, "1"),
        **{given if key == "target" else key: x for key, x in question.items() if isinstance(x, str | int | float)},
        "question": json.dumps(question, sort_keys=True),
    }
    dims = grid.columns if together else ("point",)
    return needed("xarray").DataArray(values, coords, dims, name=quantity, attrs=attributes)


def write_parquet(path: str | os.PathLike[str], columns: dict[str, NDArray[Any]], settings: dict[str, Any]) -> None:
    """Writes the columns, with the settings in the metadata."""
    needed("pyarrow")
    pyarrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    metadata = {_KEY: json.dumps(settings, sort_keys=True).encode()}
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(metadata), os.fspath(path))


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of the result in a file of comma-separated values or of Parquet."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path={path!r} must be the path of a file")
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    settings, columns = (_from_parquet if is_parquet else _from_text)(os.fspath(path))
    try:
        names, labels, kinds, axes = zip(*settings["axes"], strict=True)
        layout, quantity = Layout(settings["layout"]), settings["quantity"]
        points = [columns[label].astype(kind) for label, kind in zip(labels, kinds, strict=True)]
        bound = Bound(settings["bound"])
        values = columns[column_of(quantity, bound)]
    except (KeyError, TypeError, ValueError) as error:
        raise _no_sweep(path) from error
    renamed = {name: label for name, label in zip(names, labels, strict=True) if name != label}
    inside = points if layout is Layout.ZIPPED else list(map(np.array, axes, kinds))
    grid = Grid(dict(zip(names, inside, strict=True)), layout, renamed)
    numbers = _numbers(grid, points)
    whole = np.full(grid.size, 0.0 if bound is Bound.LOWER else _worst(quantity))
    whole[numbers] = values
    answered = np.zeros(grid.size, bool)
    answered[numbers] = True
    own = ("axes", "bound", "chunk_size", "grid", "layout")
    question = {key: value for key, value in settings.items() if key not in own}
    return {
        "quantity": quantity,
        "grid": grid,
        "values": whole.reshape(grid.shape),
        "bound": bound,
        "num_done": int(np.count_nonzero(answered)),
        "target": settings["target"],
        "answered": None if answered.all() else answered,
        "question": question,
    }


def _worst(quantity: str) -> float:
    """The upper bound that always holds; raises ValueError for a quantity that no sweep computes."""
    return KINDS[quantity].worst if quantity in KINDS else Query(quantity).worst


def _numbers(grid: Grid, points: list[NDArray[Any]]) -> NDArray[Any]:
    """The numbers of some points of a grid, found from their values."""
    size = points[0].size
    first = grid.points(0, min(size, grid.size)).values()
    if size <= grid.size and all(map(np.array_equal, first, points)):
        return np.arange(size)
    places = []
    for axis, values in zip(grid.axes.values(), points, strict=True):
        order = np.argsort(axis, kind="stable")
        places.append(order[np.minimum(np.searchsorted(axis[order], values), axis.size - 1)])
    numbers = np.ravel_multi_index(tuple(places), grid.shape)
    if not all(map(np.array_equal, grid.at(numbers).values(), points)):
        raise ValueError("the rows of the file are not points of its grid")
    return numbers


def _from_parquet(path: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    needed("pyarrow")
    table = importlib.import_module("pyarrow.parquet").read_table(path)
    held = (table.schema.metadata or {}).get(_KEY)
    if held is None:
        raise _no_sweep(path)
    return json.loads(held), {name: table.column(name).to_numpy() for name in table.column_names}


def _from_text(path: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    settings = read_settings(path)
    if settings is None:
        raise _no_sweep(path)
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline()
        names = (file.readline() if first.startswith(MARK) else first).rstrip("\n").split(",")
        lines = [line for line in file if line.endswith("\n")]  # the last one may be cut off
    table = np.loadtxt(lines, np.float64, delimiter=",", ndmin=2) if lines else np.zeros((0, len(names)))
    if table.shape[1] != len(names):
        raise _no_sweep(path)
    return settings, dict(zip(names, table.T, strict=True))


def _no_sweep(path: str | os.PathLike[str]) -> ValueError:
    beside = f" (the settings of one are beside it, in {settings_path(path)!r})"
    return ValueError(f"path={os.fspath(path)!r} is not the file of a sweep{beside}")
