"""The file of a sweep: its rows in order, with the settings and the chunks done out of order in files beside it."""

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.sweeping._grid import MARK, Grid, rows

_LATER = ".later"  # the name of the second file ends so


def check_folder(name: str, path: str | os.PathLike[str]) -> None:
    """Checks that a file can be written to `path`.

    Args:
      name: the name of the path in the error message.
      path: the path of the file.

    Returns:
      None.

    Raises:
      ValueError: if `path` is not a path, or its directory does not exist or cannot be written to.

    >>> from jaxacct.sweeping import check_folder
    >>> check_folder("out", "found.csv")
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"{name}={path!r} must be the path of a file")
    folder = os.path.dirname(os.fspath(path)) or "."
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"{name}={os.fspath(path)!r} must be in a directory that can be written to, not {folder!r}")


def settings_path(path: str | os.PathLike[str]) -> str:
    """The path of the settings of a file of rows: a file beside it, so that the rows can be read as they are."""
    return f"{os.fspath(path)}.json"


def write_settings(path: str | os.PathLike[str], settings: dict[str, Any]) -> None:
    """Writes the settings beside a file of rows, either completely or not at all."""
    begun = f"{settings_path(path)}.part"
    with open(begun, "w", encoding="utf-8") as file:
        file.write(json.dumps(settings, sort_keys=True, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(begun, settings_path(path))


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The settings beside a file of rows, or on its first line as in earlier versions; None if there are none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            first = file.readline()
        if first.startswith(MARK):
            held = json.loads(first.removeprefix(MARK))
        else:
            with open(settings_path(path), encoding="utf-8") as file:
                held = json.load(file)
    except (FileNotFoundError, ValueError):
        return None
    return held if isinstance(held, dict) else None


class SweepFile:
    """Rows of comma-separated text below one line of names; the settings are in "PATH.json" (`settings_path`).

    Chunks that finish out of order wait in a second file, "PATH.later", with a line "number,value,value,.." for each,
    until all rows before them are written. That file is removed when the sweep is complete.

    Args:
      path: the path of the file.
      settings: what must agree for a sweep to be resumed, as JSON.
      grid: the grid of the sweep.
      column: the name of the column of answers.
      chunk_size: the number of rows that are written at once.
    """

    def __init__(
        self, path: str | os.PathLike[str], settings: dict[str, Any], grid: Grid, column: str, chunk_size: int
    ):
        self._path, self._settings, self._grid, self._chunk_size = os.fspath(path), settings, grid, chunk_size
        self._settings_line = f"{MARK}{json.dumps(settings, sort_keys=True)}\n".encode()  # of the second file
        self._header = f"{','.join((*grid.columns, column))}\n".encode()
        self._has_later = False
        self._end = 0  # bytes of whole rows in the file

    @property
    def path(self) -> str:
        """The path of the file of rows."""
        return self._path

    def begin(self, found: NDArray[Any] | None, later: dict[int, NDArray[Any]], *, resume: bool) -> None:
        """Makes the files hold the header, the rows of `found` (which `read` returned) and the chunks of `later`.

        Raises:
          ValueError: if there is a file already and `resume` is false.
        """
        if found is not None:
            size = len(self._header) + sum(map(len, rows(self._grid.points(0, found.size), found)))
            os.truncate(self._path, size)
            self._end = size
            self.finish()  # its last line may have been cut off: it is written anew
            if later:
                self.keep(later)
            return
        try:
            with open(self._path, "wb" if resume else "xb"):  # resuming, what is there was found to be no whole header
                pass
        except FileExistsError:
            raise ValueError(f"out={self._path!r} exists: resume=True continues it, or remove it") from None
        write_settings(self._path, self._settings)
        self._append(self._path, self._header)
        self._end = len(self._header)
        self.finish()  # what is there belongs to a file that was removed

    def read(self) -> NDArray[Any] | None:
        """The values of the whole chunks in the file; None if there is no file, or not even a whole header.

        Raises:
          ValueError: if the file belongs to another sweep.
        """
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        if data != self._header and self._header.startswith(data):  # killed while it was begun
            return None
        if not data.startswith(self._header) or read_settings(self._path) != json.loads(json.dumps(self._settings)):
            raise ValueError(self._difference(data))
        lines = data[len(self._header) :].decode(errors="replace").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # killed while it was written
        if len(lines) != self._grid.size:
            lines = lines[: len(lines) // self._chunk_size * self._chunk_size]
        return self._checked(lines)

    def read_later(self) -> dict[int, NDArray[Any]]:
        """The values of the whole chunks that were computed out of order, by their number."""
        found: dict[int, NDArray[Any]] = {}
        try:
            with open(self._path + _LATER, "rb") as file:
                if file.readline() != self._settings_line:
                    return {}  # of another sweep, or killed while it was begun
                for line in file:
                    number, values = _chunk_of(line)
                    start = number * self._chunk_size
                    if 0 <= start < self._grid.size and values.size == min(self._chunk_size, self._grid.size - start):
                        found[number] = values
        except FileNotFoundError:
            pass
        return found

    def _checked(self, lines: list[str]) -> NDArray[Any]:
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
        """The settings in which the file differs, in words."""
        theirs = read_settings(self._path)
        if theirs is None and data.startswith(self._header):
            return f"out={self._path!r} needs its settings beside it, in {settings_path(self._path)!r}, to be resumed"
        if theirs is None:
            return f"out={self._path!r} is not the file of a sweep"
        ours = json.loads(json.dumps(self._settings))
        names = [name for name in sorted({*ours, *theirs} - {"axes"}) if ours.get(name) != theirs.get(name)]
        changes = ", ".join(f"{name}={theirs.get(name)!r} there, {ours.get(name)!r} here" for name in names)
        return f"out={self._path!r} holds another sweep: {changes or 'other columns'}"

    def append(self, start: int, values: NDArray[Any]) -> None:
        """Adds the rows of the points from `start` on; after an interrupt, a new call begins at the same place."""
        points = self._grid.points(start, start + values.size)
        data = "".join(rows(points, values)).encode()
        os.truncate(self._path, self._end)
        self._append(self._path, data)
        self._end += len(data)

    def keep(self, chunks: dict[int, NDArray[Any]]) -> None:
        """Writes chunks that were computed out of order to the second file."""
        lines = [f"{number},{','.join(map(repr, values.tolist()))}\n" for number, values in chunks.items()]
        if not self._has_later:
            with open(self._path + _LATER, "wb") as file:
                file.write(self._settings_line)
            self._has_later = True
        self._append(self._path + _LATER, "".join(lines).encode())

    def finish(self) -> None:
        """Removes the second file: every row is in the first."""
        if os.path.exists(self._path + _LATER):
            os.remove(self._path + _LATER)
        self._has_later = False

    def _append(self, path: str, data: bytes) -> None:
        with open(path, "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _chunk_of(line: bytes) -> tuple[int, NDArray[Any]]:
    """A chunk's number and values; the number is -1 for an incomplete line."""
    try:
        number, *values = line.decode().split(",")
        return (int(number) if line.endswith(b"\n") else -1), np.array(values, np.float64)
    except ValueError:
        return -1, np.zeros(0)


def _last_number(line: str) -> float:
    try:
        return float(line.rsplit(",", 1)[-1])
    except ValueError:
        return float("nan")
