"""Where a picture may be written."""

import os

from matplotlib.backend_bases import FigureCanvasBase


def check_path(name: str, path: str) -> None:
    """Raises ValueError if no picture can be written to `path`, before anything is computed."""
    folder, kind = os.path.dirname(path) or ".", os.path.splitext(path)[1].removeprefix(".")
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"{name} {path}: {folder!r} is not a directory that can be written to")
    known = FigureCanvasBase.get_supported_filetypes()
    if kind and kind.lower() not in known:
        raise ValueError(f"{name} {path}: its ending must be one of {', '.join(sorted(known))}")
