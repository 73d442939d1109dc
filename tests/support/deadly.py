"""Chunks that end the process that answers them; this module loads nothing that takes time."""

import os
import pathlib
import signal


def square_unless_it_kills(folder: pathlib.Path, number: int) -> int:
    """The square of a number; 13 ends its process, the first time or always, by what the folder says."""
    if number == 13 and not (folder / "killed").exists():
        if not (folder / "always").exists():
            (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number
