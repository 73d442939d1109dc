"""Nothing in the package is there for the tests alone: every definition is reached from a public name."""

import importlib
import pkgutil
import textwrap
from pathlib import Path

import pytest
from support.reachability import unreached

import jaxacct as ja
from jaxacct import demo, papers

_LAZY = (
    "accounting",
    "audit",
    "composition",
    "correlated",
    "curves",
    "estimation",
    "interop",
    "measures",
    "membership",
    "sweeping",
    "training",
    "utility",
)
_PACKAGE = Path(ja.__file__).parent
_PAPERS = [f"jaxacct.papers.{module.name}" for module in pkgutil.iter_modules(papers.__path__) if module.ispkg]


def _public() -> list[tuple[str, str]]:
    lazy = [importlib.import_module(f"jaxacct.{name}") for name in dir(ja) if name in _LAZY]
    modules = [ja, demo, *lazy, *(importlib.import_module(name) for name in _PAPERS)]
    try:
        modules.append(importlib.import_module("jaxacct.plot"))
    except ImportError:
        pytest.skip("needs matplotlib, whose pictures are public too")
    names = [(module.__name__, name) for module in modules for name in module.__all__]
    return [*names, ("jaxacct.__main__", "main")]


def test_nothing_is_reached_from_tests_only() -> None:
    dead = [f"{module}.{name}" for module, name in unreached(_PACKAGE, _public())]
    assert not dead, "reached from no public name:\n" + "\n".join(dead)


def test_all_five_papers_are_public() -> None:
    assert sorted(name.rpartition(".")[2] for name in _PAPERS) == [
        "check_ins",
        "chen",
        "clones",
        "girgis",
        "random_allocation",
    ]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A package of two modules: what is used in each of the ways there are, and what is not."""
    files = {
        "__init__.py": """
            from small._first import Public, ask
            __all__ = ["Public", "ask"]
            """,
        "_first.py": """
            from functools import partial
            from small import _second as second
            from small._second import by_name
            TABLE = {"one": by_name, "two": second.by_attribute}
            UNUSED = {"three": second.only_in_a_dead_table}
            class Public:
                size = 3
                def method(self): return self._helper()
                def _helper(self): return inside_a_method()
                def _never(self): return 0
            def inside_a_method(): return 1
            def ask(): return TABLE, partial(passed_on, 1)
            def passed_on(x): return second.Record(x).value
            def dead(): return also_dead()
            def also_dead(): return by_name()
            """,
        "_second.py": """
            from typing import NamedTuple
            class Record(NamedTuple):
                value: int
                @property
                def unread(self): return 0
            def by_name(): return 1
            def by_attribute(): return 2
            def only_in_a_dead_table(): return 3
            def dead(): return 4
            @by_name.register
            def registered(): return 5
            """,
    }
    package = tmp_path / "small"
    package.mkdir()
    for name, text in files.items():
        (package / name).write_text(textwrap.dedent(text))
    return package


def test_analysis_notices_what_is_dead(small: Path) -> None:
    public = [("small", "Public"), ("small", "ask")]
    assert unreached(small, public) == [
        ("small._first", "Public._never"),
        ("small._first", "also_dead"),
        ("small._first", "dead"),
        ("small._second", "Record.unread"),
        ("small._second", "dead"),
        ("small._second", "only_in_a_dead_table"),
    ]


def test_analysis_follows_what_becomes_public(small: Path) -> None:
    public = [("small", "Public"), ("small", "ask"), ("small._first", "dead"), ("small._first", "UNUSED")]
    dead = unreached(small, public)
    assert ("small._first", "also_dead") not in dead
    assert ("small._second", "only_in_a_dead_table") not in dead
    assert ("small._second", "dead") in dead  # the other of that name
