"""Pages that the site makes from the package: the support matrix and the reference leave nothing out."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from jaxacct._citations import linked
from jaxacct.bounds import METHODS

_DOCS = Path(__file__).parents[2] / "docs"
if not _DOCS.is_dir():
    pytest.skip("a source distribution has no docs", allow_module_level=True)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """docs/_generate.py"""
    monkeypatch.syspath_prepend(str(_DOCS))
    return importlib.import_module("_generate")


def test_reference_lists_every_public_name(generated: Any) -> None:
    text = "".join(map(generated.reference, generated.PAGES))
    papers = [f"jaxacct.papers.{name}" for name in ("random_allocation", "clones", "girgis", "chen", "check_ins")]
    for module in ("jaxacct", "jaxacct.training", "jaxacct.interop", *papers):
        for name in importlib.import_module(module).__all__:
            assert f":: {module}.{name}\n" in text, name


def test_support_matrix_lists_every_method(generated: Any) -> None:
    text = generated.support_matrix()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row.startswith("| ")]
    for methods in METHODS.values():
        for method in (m for m in methods if m.is_listed):
            name = method.name.removesuffix(" (remove)").removesuffix(" (add)")
            found = [row for row in rows if row[0] == name]
            assert found, method
            if isinstance(method.theorem, str):
                assert any(row[-1] == generated._with_links(method.theorem) for row in found), method


def test_every_group_of_names_and_every_module_has_a_page(generated: Any) -> None:
    listed = [name for names in generated.PAGES.values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(listed) - {"More"} == set(generated._GROUPS) | set(generated._SUBPACKAGES)
    for page in generated.PAGES:
        assert f"<!-- reference: {page} -->" in (_DOCS / "reference" / f"{page}.md").read_text()


def test_every_paper_that_a_theorem_names_is_linked() -> None:
    theorems = [method.theorem for methods in METHODS.values() for method in methods if method.is_listed]
    for theorem in filter(lambda theorem: isinstance(theorem, str), theorems):
        rest = linked(theorem, lambda name, address: "")
        assert not re.search(r"(?:19|20)\d\d", rest.replace("Scarf 1958", "").replace("Hoeffding 1963", "")), theorem
