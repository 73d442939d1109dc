"""What the documentation and the layout promise: examples run, imports point downward, import stays light."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.importing import named_modules

import jaxacct as ja
from jaxacct import interop, training
from jaxacct.papers import check_ins, chen, clones, girgis, random_allocation

_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "jaxacct"

# From the bottom up: packages, and files where a package has an order of its own. A module may import from its own
# layer and from the layers below; the longest name that begins its own says where it stands.
_LAYERS = (
    ("_jax", "_version"),
    ("_trees",),
    ("_alike", "_ground", "_html", "workers"),
    ("_citations", "_patience", "_precision", "_sharing", "_types", "_validate", "_work"),
    ("special", "mechanisms", "_method"),
    ("curves", "divergence"),
    ("composition", "conversion"),
    (
        "bounds._clones_pair",
        "bounds._limits",
        "bounds._nearby",
        "bounds._orders",
        "bounds._equal_rounds",
        "bounds._parts",
        "bounds._sizes",
        "bounds._split",
        "bounds._table",
    ),
    ("bounds.bases",),
    ("bounds._by_ratio", "bounds._line_choice", "bounds._line_questions", "bounds._one_moment"),
    ("bounds._distribution",),
    ("bounds._composed_distribution", "bounds._known_laws"),
    ("bounds._line_answers", "bounds._line_steps"),
    ("bounds._line_parts", "bounds._line_passes"),
    ("bounds._releases",),
    ("bounds._host_line", "bounds._many_lines", "bounds._renyi_of_outputs", "bounds._unamplified"),
    ("bounds._by_laws", "bounds._moments"),
    ("bounds._one_release",),
    ("bounds._stand_in", "bounds.discrete", "bounds.gaussian", "bounds.given", "bounds.laplace"),
    ("bounds._number_of_runs", "bounds._rounds"),
    ("bounds.blanket",),
    ("bounds.shuffle",),
    ("bounds.check_in", "bounds.correlated", "bounds.group", "bounds.noise_on_counts"),
    ("bounds._selection_profile", "bounds.poisson", "bounds.pure"),
    ("bounds._selection_distribution",),
    ("bounds.selection",),
    ("bounds.above_threshold", "bounds.parallel_poisson"),
    ("bounds.allocation",),
    ("bounds.sampled_runs",),
    ("bounds._mirrored", "bounds.shuffled_batches"),
    ("bounds._adjacent_on_lanes", "bounds._full_batches", "bounds._replaced_step", "bounds._two_steps"),
    ("bounds.fixed_batches",),
    ("bounds.adjacent",),
    ("bounds.composed",),
    ("bounds.theorems",),
    ("bounds",),
    ("answering._question",),
    ("answering._plan",),
    ("answering._beaten", "answering._lanes"),
    ("answering._found",),
    ("answering._inverted",),
    ("answering._loop",),
    ("answering",),
    ("accounting", "correlated", "estimation", "papers", "utility"),
    ("audit", "interop", "membership"),
    ("measures",),
    ("calibration",),
    ("reporting",),
    ("plot", "training"),
    ("sweeping",),
    ("demo",),
    ("cli",),
    ("__main__",),
)
_HEIGHT = {name: height for height, layer in enumerate(_LAYERS) for name in layer}
_MODULES = sorted(_PACKAGE.rglob("*.py"))


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")


_DOTTED = [_dotted(path) for path in _MODULES]
_OPTIONAL = {  # who may import it
    "dp_accounting": ("interop",),
    "flax": ("demo",),
    "flwr": ("interop",),
    "grain": ("training",),
    "jax_privacy": ("interop",),
    "matplotlib": ("plot", "demo"),
    "optax": ("training", "demo"),
    "shtab": ("cli",),
    "sklearn": ("demo",),
    "tqdm": ("sweeping", "demo"),
}


def _name(path: Path) -> str:
    """The first name below `jaxacct` of a module file: its place in the layers; "" for the package itself."""
    parts = path.relative_to(_PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def _is_module(name: str) -> bool:
    path = _ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _imports(path: Path) -> list[str]:
    """Every module that a file names in an import, at any depth, or in a string, in dotted form."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import, line {node.lineno}"
            assert node.module is not None
            # `from package import x` names the module package.x where there is one, or what the package re-exports
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [name if node.module == "jaxacct" or _is_module(name) else node.module for name in inner]
    return [*names, *sorted(named_modules(path.read_text(), _dotted(path), _DOTTED))]


def _relative(path: Path) -> str:
    return path.relative_to(_ROOT).as_posix()


_PAPERS = {"RA": random_allocation, "CL": clones, "GI": girgis, "CH": chen, "CI": check_ins}
_PUBLIC = (ja, training, interop, *_PAPERS.values())
_NAMES = [(module, name) for module in _PUBLIC for name in module.__all__ if callable(getattr(module, name))]


@pytest.mark.parametrize(("module", "name"), _NAMES, ids=[f"{module.__name__}.{name}" for module, name in _NAMES])
def test_public_name_has_a_docstring_with_an_example(module: ModuleType, name: str) -> None:
    thing = getattr(module, name)
    doc = thing.__doc__ or ""
    assert doc.strip(), f"{name} has no docstring"
    assert doctest.DocTestParser().get_examples(doc), f"{name} has no doctest"


_SUBMODULES = (
    ja.accounting,
    ja.audit,
    ja.composition,
    ja.curves,
    ja.estimation,
    ja.measures,
    ja.membership,
    ja.sweeping,
    ja.utility,
)
_FUNCTIONS = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (ja, training, interop, *_SUBMODULES)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
}
_NOTHING_TO_RAISE = {"one_thread", "storable"}


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_public_function_says_what_it_takes_gives_and_raises(name: str) -> None:
    function = _FUNCTIONS[name]
    doc, parameters = function.__doc__ or "", inspect.signature(function).parameters
    missing = [parameter for parameter in parameters if not re.search(rf"\b{parameter}\b", doc)]
    headings = ["Args:", "Returns:"] if parameters else []
    headings += [] if function.__name__ in _NOTHING_TO_RAISE else ["Raises:"]
    assert missing + [heading for heading in headings if heading not in doc] == []


def test_public_names_are_sorted() -> None:
    for module in _PUBLIC:
        assert list(module.__all__) == sorted(module.__all__)


def _readme_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (_ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def test_readme_examples_run() -> None:
    blocks = _readme_blocks()
    assert blocks, "README.md has no ```python block"
    namespace: dict[str, object] = {"__name__": "readme"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, python block {number}", "exec"), namespace)


_NARROW = 88  # columns that a page of the site shows of code
_WIDE = {"_winners_table.md"}


@pytest.mark.skipif(not (_ROOT / "docs").is_dir(), reason="a source distribution has no docs")
def test_code_on_pages_is_narrow() -> None:
    """Lines with what they print behind them may be longer."""
    pages = [path for path in (_ROOT / "docs").rglob("*.md") if path.name not in _WIDE] + [_ROOT / "README.md"]
    blocks = {
        path: re.findall(r"^```(?:python|py)\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL) for path in pages
    }
    lines = [(path.name, line) for path, found in blocks.items() for line in "".join(found).splitlines()]
    assert [(name, line) for name, line in lines if len(line) > _NARROW and "  # " not in line] == []


def _height(module: str) -> int | None:
    """The layer of a module below `jaxacct`, by its dotted name; None if it has none."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((_HEIGHT[name] for name in names if name in _HEIGHT), None)


def _upward(module: str, imported: list[str]) -> list[str]:
    """What a module below `jaxacct` imports from above it, or from the package itself unless it is on top."""
    own = _height(module)
    assert own is not None, f"{module} has no layer: add it to _LAYERS and to the design"
    found = []
    for name in imported:
        top, _, rest = name.partition(".")
        if top == "jaxacct":
            height = _height(rest) if rest else None
            # the package itself gathers the public names of nearly every layer
            found += [name] if (_HEIGHT["interop"] if height is None else height) > own else []
    return found


@pytest.mark.parametrize("path", _MODULES, ids=_relative)
def test_imports_point_downward(path: Path) -> None:
    if _name(path):  # the package's __init__ gathers the public names of every layer
        module = _dotted(path).removeprefix("jaxacct.")
        assert _upward(module, _imports(path)) == []


def test_an_import_that_points_upward_is_seen() -> None:
    assert _upward("bounds.gaussian", ["jaxacct.bounds.composed", "jaxacct.curves._pld", "numpy"]) == [
        "jaxacct.bounds.composed"
    ]
    assert _upward("answering._plan", ["jaxacct.answering._loop"])
    assert _upward("accounting._questions", ["jaxacct"])
    assert _upward("mechanisms._gaussian", ["jaxacct.Gaussian"])


def test_every_package_and_every_part_of_answering_has_a_layer() -> None:
    answering = {f"answering.{path.stem}" for path in (_PACKAGE / "answering").glob("_[a-z]*.py")}
    parts = {f"bounds.{p.stem}" for p in (_PACKAGE / "bounds").iterdir() if not p.stem.startswith("__")}
    tops = {path.stem for path in _PACKAGE.iterdir() if path.suffix in (".py", "") and path.stem != "__pycache__"}
    assert set(_HEIGHT) == answering | parts | tops - {"__init__"}


def test_only_precision_mentions_x64() -> None:
    assert [_dotted(p) for p in _MODULES if "x64" in p.read_text()] == ["jaxacct._precision._floats"]


@pytest.mark.parametrize("path", _MODULES, ids=_relative)
def test_optional_packages_are_imported_where_they_belong(path: Path) -> None:
    for imported in _imports(path):
        top = imported.partition(".")[0]
        assert _name(path) in _OPTIONAL.get(top, (_name(path),)), f"{_relative(path)} imports {imported}"


def test_import_is_light() -> None:
    code = "import sys, jaxacct; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "jaxacct" in loaded
    assert not {"scipy", "matplotlib", "optax", "dp_accounting"} & set(loaded)


# S: a statement of a paper; X: one of ours; T: a correction of the paper; P: a trap
_LABEL = re.compile(r"\b(RA|CL|GI|CH|CI)-([SXTP]\d+)\b")
_DOCS = _ROOT / "docs"
needs_docs = pytest.mark.skipif(not _DOCS.is_dir(), reason="a source distribution has no docs")


def _listed() -> dict[str, str]:
    """Each label's row in docs/papers."""
    rows: dict[str, str] = {}
    for path in sorted((_DOCS / "papers").glob("*.md")):
        for line in path.read_text().splitlines():
            if found := re.match(r"\| (\w\w-[SXTP]\d+) \|", line):
                assert found[1] not in rows, f"{found[1]} is listed twice"
                rows[found[1]] = line
    return rows


def _texts() -> dict[Path, str]:
    """What a reader may meet a label in: this file apart, which has to name what it looks for."""
    folders = ("jaxacct", "docs", "tests", "bench", "notebooks")
    paths = [p for folder in folders for suffix in ("py", "md", "ipynb") for p in (_ROOT / folder).rglob(f"*.{suffix}")]
    return {p: p.read_text() for p in [*paths, _ROOT / "README.md", _ROOT / "CHANGELOG.md"] if p != Path(__file__)}


@needs_docs
def test_every_label_is_listed_with_its_formula() -> None:
    listed = _listed()
    for label, row in listed.items():
        assert len(re.split(r"(?<!\\)\|", row)) == 7, f"{label}: a row has a statement, formula, place, and bound"
    used = {label[0]: path for path, text in _texts().items() for label in _LABEL.finditer(text)}
    missing = {label: _relative(path) for label, path in used.items() if label not in listed}
    assert not missing, f"labels that docs/papers does not list: {missing}"


@needs_docs
def test_no_label_lacks_its_paper() -> None:
    bare = re.compile(r"\b[Ss]pecs?(ification)?,? [SXTP]\d|\((see )?[SX]\d+[,;)]")
    found = [f"{_relative(p)}: {m[0]}" for p, text in _texts().items() for m in bare.finditer(text)]
    assert not found


_STATEMENTS = [
    (prefix, module, name)
    for prefix, module in _PAPERS.items()
    for name in module.__all__
    if callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
]


@pytest.mark.parametrize(("prefix", "module", "name"), _STATEMENTS, ids=[f"{p}-{n}" for p, _, n in _STATEMENTS])
def test_statement_of_a_paper_says_what_it_is(prefix: str, module: ModuleType, name: str) -> None:
    doc = getattr(module, name).__doc__
    labels = _LABEL.findall(doc.splitlines()[0])
    assert labels, f"{name}: the first line of its docstring has no label"
    for part in ("Args:", "Returns:", "Raises:"):
        assert part in doc, f"{name}: no {part}"
    assert f"from jaxacct.papers import {module.__name__.rpartition('.')[2]}" in doc
    if _DOCS.is_dir():
        rows = [_listed()[f"{paper}-{label}"] for paper, label in labels]
        assert any(re.search(rf"\b{name}\b", row) for row in rows), f"{name} is in none of its rows"


@pytest.mark.parametrize("path", sorted((_PACKAGE / "papers").glob("*/*.py")), ids=_relative)
def test_file_of_a_paper_says_whether_it_bounds(path: Path) -> None:
    if path.name != "__init__.py":
        assert re.match(r'"""(NOT A )?BOUND\b', path.read_text())
