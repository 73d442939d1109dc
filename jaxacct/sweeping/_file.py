"""The file of a sweep: settings, then rows appended chunk by chunk, each safe on disk before the next."""

import json
import os
from typing import Any

import numpy as np

from jaxacct.sweeping._result import Grid, rows

_MARK = "# jaxacct sweep "


def check_folder(name: str, path: str | os.PathLike[str]) -> None:
    """Raises ValueError if no file can be written to `path`."""
    folder = os.path.dirname(os.fspath(path)) or "."
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"{name}={os.fspath(path)!r} must be in a directory that can be written to, not {folder!r}")


class SweepFile:
    """Rows of comma-separated text below one line of settings and one of names.

    Args:
      path: where.
      settings: what must agree for a sweep to be resumed; JSON.
      grid, quantity: of the sweep.
      chunk_size: rows that are written at once.
    """

    def __init__(
        self, path: str | os.PathLike[str], settings: dict[str, Any], grid: Grid, quantity: str, chunk_size: int
    ):
        self._path, self._settings, self._grid, self._chunk_size = os.fspath(path), settings, grid, chunk_size
        names = ",".join((*grid.columns, quantity))
        self._header = f"{_MARK}{json.dumps(settings, sort_keys=True)}\n{names}\n".encode()

    def begin(self, found: np.ndarray | None, *, resume: bool) -> None:
        """Makes the file hold the header and the rows of `found`, what `read` returned.

        Raises:
          ValueError: if there is a file already and it is not to be resumed.
        """
        if found is not None:
            size = len(self._header) + sum(map(len, rows(self._grid.points(0, found.size), found)))
            os.truncate(self._path, size)
            return
        try:
            with open(self._path, "wb" if resume else "xb"):  # resuming, what is there was found to be no whole header
                pass
        except FileExistsError:
            raise ValueError(f"out={self._path!r} exists: resume=True continues it, or remove it") from None
        self._append(self._header)

    def read(self) -> np.ndarray | None:
        """The values of the whole chunks in the file; None if there is no file, or not even a whole header.

        Raises:
          ValueError: if the file belongs to another sweep.
        """
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        if not data.startswith(self._header):
            if self._header.startswith(data):  # killed while it was begun
                return None
            raise ValueError(self._difference(data))
        lines = data[len(self._header) :].decode(errors="replace").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # killed while it was written
        if len(lines) != self._grid.size:
            lines = lines[: len(lines) // self._chunk_size * self._chunk_size]
        return self._checked(lines)

    def _checked(self, lines: list[str]) -> np.ndarray:
        values = np.array([_last_number(line) for line in lines], np.float64)
        size = min(len(lines), self._grid.size)
        wanted = rows(self._grid.points(0, size), values[:size])
        for number, (line, want) in enumerate(zip(lines, wanted, strict=False)):
            if line != want:
                raise ValueError(f"out={self._path!r}: row {number} is not one of this sweep: {line.strip()!r}")
        if len(lines) > size:
            raise ValueError(f"out={self._path!r} has {len(lines)} rows; must have at most {size}")
        return values

    def _difference(self, data: bytes) -> str:
        """In which settings the file differs."""
        first = data.split(b"\n", 1)[0].decode(errors="replace")
        try:
            theirs = json.loads(first.removeprefix(_MARK)) if first.startswith(_MARK) else None
        except ValueError:
            theirs = None
        if not isinstance(theirs, dict):
            return f"out={self._path!r} is not the file of a sweep"
        ours = json.loads(json.dumps(self._settings))
        names = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
        changes = ", ".join(f"{name}={theirs.get(name)!r} there, {ours.get(name)!r} here" for name in names)
        return f"out={self._path!r} holds another sweep: {changes or 'other columns'}"

    def append(self, start: int, values: np.ndarray) -> None:
        """Adds the rows of the points from `start` on."""
        points = self._grid.points(start, start + values.size)
        self._append("".join(rows(points, values)).encode())

    def _append(self, data: bytes) -> None:
        with open(self._path, "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _last_number(line: str) -> float:
    try:
        return float(line.rsplit(",", 1)[-1])
    except ValueError:
        return float("nan")
