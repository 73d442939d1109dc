"""What the documentation and the layout promise: examples run, imports point downward, import stays light."""

import ast
import doctest
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import jaxacct as ja
from jaxacct import interop, training

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "jaxacct"

# From the bottom up; a module may import from its own layer's package and from the layers below.
_LAYERS = (
    ("_precision", "_validate", "_types"),
    ("special",),
    ("divergence", "curves", "mechanisms"),
    ("bounds", "composition", "conversion", "_checking"),
    (
        "_method",
        "_shuffle_methods",
        "_methods",
        "_answering",
        "_inverting",
        "_host_methods",
        "intervals",
        "_best",
        "accounting",
        "estimation",
        "utility",
        "membership",
    ),
    ("sweeping", "calibration"),
    ("cli", "__main__", "demo", "papers", "plot", "interop", "training", "reporting"),
)
_HEIGHT = {name: height for height, layer in enumerate(_LAYERS) for name in layer}
_MODULES = sorted(_PACKAGE.rglob("*.py"))
_OPTIONAL = {  # who may import it
    "dp_accounting": ("interop",),
    "flax": ("demo",),
    "jax_privacy": ("interop",),
    "matplotlib": ("plot", "demo"),
    "optax": ("training", "demo"),
    "sklearn": ("demo",),
    "tqdm": ("sweeping", "demo"),
}


def _name(path: Path) -> str:
    """The first name below `jaxacct` of a module file: its place in the layers; "" for the package itself."""
    parts = path.relative_to(_PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def _imports(path: Path) -> list[str]:
    """Every module that a file names in an import, at any depth, in dotted form."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import, line {node.lineno}"
            assert node.module is not None
            # `from jaxacct import x` names the module jaxacct.x, or what the package re-exports
            names += [f"{node.module}.{a.name}" for a in node.names] if node.module == "jaxacct" else [node.module]
    return names


def _relative(path: Path) -> str:
    return path.relative_to(_ROOT).as_posix()


_NAMES = [(module, name) for module in (ja, training, interop) for name in module.__all__]


@pytest.mark.parametrize(("module", "name"), _NAMES, ids=[name for _, name in _NAMES])
def test_public_name_has_a_docstring_with_an_example(module: ModuleType, name: str) -> None:
    thing = getattr(module, name)
    doc = thing.__doc__ or ""
    assert doc.strip(), f"{name} has no docstring"
    assert doctest.DocTestParser().get_examples(doc), f"{name} has no doctest"


def test_public_names_are_sorted() -> None:
    for module in (ja, training, interop):
        assert list(module.__all__) == sorted(module.__all__)


def _readme_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (_ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def test_readme_examples_run() -> None:
    blocks = _readme_blocks()
    assert blocks, "README.md has no ```python block"
    namespace: dict[str, object] = {"__name__": "readme"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, python block {number}", "exec"), namespace)


@pytest.mark.parametrize("path", _MODULES, ids=_relative)
def test_imports_point_downward(path: Path) -> None:
    place = _name(path)
    if not place:
        return  # the package's __init__ gathers the public names of every layer
    assert place in _HEIGHT, f"{place} has no layer: add it to _LAYERS and to the design"
    for imported in _imports(path):
        top, _, rest = imported.partition(".")
        if top != "jaxacct":
            continue
        target = rest.partition(".")[0]
        if target not in _HEIGHT:  # the package itself, or a name that it re-exports
            assert _HEIGHT[place] == len(_LAYERS) - 1, f"{_relative(path)} imports the package itself"
            continue
        assert _HEIGHT[target] <= _HEIGHT[place], f"{_relative(path)} imports {imported} from a layer above"


def test_only_precision_mentions_x64() -> None:
    assert [p.name for p in _MODULES if "x64" in p.read_text()] == ["_precision.py"]


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
