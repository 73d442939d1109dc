"""The notebooks: stored clean, importing what is public, and running from their first cell to their last."""

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jaxacct as ja

_ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((_ROOT / "notebooks").glob("*.ipynb"))


def _code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def _sources(path: Path) -> list[str]:
    """The code cells but the first, which installs."""
    return ["".join(cell["source"]) for cell in _code_cells(path)[1:]]


def test_all_notebooks_are_here() -> None:
    expected = {"check_ins", "quickstart", "random_allocation", "shuffled_batches", "shuffling", "sweeps", "training"}
    assert expected <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_clean(path: Path) -> None:
    cells = _code_cells(path)
    assert "".join(cells[0]["source"]).startswith('%pip install -q -e "..[')
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    for source in _sources(path):
        ast.parse(source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_uses_public_names(path: Path) -> None:
    private = set()
    for node in (node for source in _sources(path) for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            private |= {a.name for a in node.names if "._" in a.name}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jaxacct":
            module = importlib.import_module(node.module or "")
            private |= {
                node.module
                for alias in node.names
                if "._" in f"{node.module}.{alias.name}"
                or not (alias.name in getattr(module, "__all__", ()) or node.module in ("jaxacct", "jaxacct.papers"))
            }
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ja":
            assert not node.attr.startswith("_"), f"ja.{node.attr}"
            assert hasattr(ja, node.attr), f"ja.{node.attr}"
    assert not private


@pytest.mark.sample(2)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path) -> None:
    """Its cells, in a process of their own; the site shows what they print and draw."""
    if path.stem == "training":
        pytest.importorskip("IPython")
    command = [sys.executable, str(_ROOT / "docs" / "_run_notebook.py"), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(_ROOT)})
    assert ran.returncode == 0, ran.stderr
