"""Runs the cells of a notebook one after the other, but for the first, which installs."""

import json
import os
import pathlib
import sys
import types

import matplotlib

matplotlib.use("Agg")


def main(path: pathlib.Path) -> None:
    """In the notebook's own directory, as Jupyter does."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    os.chdir(path.parent)
    module = types.ModuleType("__main__")
    for number, cell in enumerate(cells[1:], 1):
        source = "".join(cell["source"])
        exec(compile(source, f"{path.name}, code cell {number}", "exec"), module.__dict__)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
