"""The papers see public names, `jaxacct.special`, and of the inside what two lists hold for them."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import jaxacct as ja

_PACKAGE = Path(ja.__file__).parent
_LISTS = ("jaxacct.bounds.theorems", "jaxacct.divergence.kernels")
# The types, the checks of arguments and the float64 boundary, which every file may import.
_GROUND = tuple(f"jaxacct.{name}" for name in ("_jax", "_precision", "_types", "_validate"))
_OPEN = ("jaxacct.conversion", "jaxacct.mechanisms", "jaxacct.special", *_GROUND, *_LISTS)


def taken(source: str) -> Iterator[tuple[str, str]]:
    """What a file takes from the package: (module, name) of each, the name "" where it is the module itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("jaxacct"):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("jaxacct"))


def closed(source: str) -> list[tuple[str, str]]:
    """What a file of papers takes from elsewhere than it may."""

    def is_open(module: str, name: str) -> bool:
        if module.startswith("jaxacct.papers"):
            return True
        if module == "jaxacct":
            return f"jaxacct.{name}" in _OPEN
        return module in _OPEN and (module in _GROUND or not name.startswith("_"))

    return [at for at in taken(source) if not is_open(*at)]


def _files(*, of_papers: bool) -> list[Path]:
    papers = _PACKAGE / "papers"
    return sorted(path for path in _PACKAGE.rglob("*.py") if path.is_relative_to(papers) is of_papers)


def test_what_is_closed_is_seen():
    assert closed("from jaxacct.special import xp\nfrom jaxacct.papers._x import y\nfrom jaxacct import special") == []
    assert closed("from jaxacct._precision import Kernel\nfrom jaxacct.bounds.theorems import theorem1_rdp") == []
    for source, found in (
        ("from jaxacct.special._normal import erfcx", ("jaxacct.special._normal", "erfcx")),
        ("from jaxacct.special import _normal", ("jaxacct.special", "_normal")),
        ("from jaxacct.bounds.gaussian import gaussian_mu", ("jaxacct.bounds.gaussian", "gaussian_mu")),
        ("from jaxacct import curves", ("jaxacct", "curves")),
        ("import jaxacct._method", ("jaxacct._method", "")),
    ):
        assert closed(source) == [found]


@pytest.mark.parametrize("path", _files(of_papers=True), ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_papers_take_what_is_open_to_them(path: Path):
    assert closed(path.read_text()) == []


@pytest.mark.parametrize("name", _LISTS)
def test_a_list_holds_what_papers_use_and_serves_nobody_else(name: str):
    used = {inner for path in _files(of_papers=True) for module, inner in taken(path.read_text()) if module == name}
    assert sorted(used) == sorted(importlib.import_module(name).__all__)
    others = [path for path in _files(of_papers=False) for module, _ in taken(path.read_text()) if module == name]
    assert others == []
