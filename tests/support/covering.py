"""Which test covers a module: by its name and place, or by what the table `tests/covering.txt` says; and how near."""

import ast
import functools
from pathlib import Path

import jaxacct

TESTS = Path(__file__).parents[1]
PACKAGE = Path(jaxacct.__file__).parent


@functools.cache
def modules() -> dict[str, Path]:
    """Every module with something of its own, by its name below jaxacct: "bounds.allocation._exact"."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if defines(path) and parts != ("__init__",):
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@functools.cache
def defines(path: Path) -> frozenset[str]:
    """Functions, classes and numbers of a file, without those that are its own."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {t.id for t in targets if isinstance(t, ast.Name) and not t.id.startswith("__")}
    return frozenset(found)


def mirrored(module: str) -> list[str]:
    """Where the test of a module's own name would stand, or that of its folder, below the tests."""
    *folders, name = module.split(".")
    plain, places = name.strip("_"), ["", *(("/".join(folders[:n]) + "/") for n in range(1, len(folders) + 1))]
    return [f"{place}test_{plain}.py" for place in (*places, f"{'/'.join([*folders, plain])}/")]


@functools.cache
def words(path: Path) -> frozenset[str]:
    """The names that a test uses, also by its imports from tests/support, and the modules that it imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.alias):
            found |= {node.name, node.name.split(".")[-1]}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module.startswith("support."):
                found |= words(TESTS / f"{node.module.replace('.', '/')}.py")
    return frozenset(found)


@functools.cache
def users(module: str) -> frozenset[str]:
    """The modules that import one, or what it defines from the packages that it is part of."""
    parts = module.split(".")
    names = {f"jaxacct.{module}"}
    for n in range(1, len(parts)):
        names |= {".".join(["jaxacct", *parts[:n], name]) for name in _public(module)}
    return frozenset(other for other, path in modules().items() if other != module and names & _imported(path))


@functools.cache
def _imported(path: Path) -> frozenset[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return frozenset(found)


def _public(module: str) -> frozenset[str]:
    """What a module defines for others, short names excepted, which may be anything's."""
    return frozenset(n for n in defines(modules()[module]) if not n.startswith("_") and len(n) > 3)


def names_it(test: Path, module: str) -> bool:
    """Whether a test names a module, something that it defines, or a method of it."""
    return f"jaxacct.{module}" in words(test) or bool((_public(module) | _methods(modules()[module])) & words(test))


@functools.cache
def _methods(path: Path) -> frozenset[str]:
    """What the methods of a file are called, where no other word of a test is likely to be the same."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [word.value for call in calls for word in call.keywords if word.arg == "name"]
    return frozenset(n.value for n in names if isinstance(n, ast.Constant) and " " in str(n.value))


def is_near(test: Path, module: str, steps: int) -> bool:
    """Whether a test names a module, or one that imports it, or so on, so many times."""
    near = {module}
    for _ in range(steps + 1):
        if any(names_it(test, name) for name in near):
            return True
        near = near.union(*(users(name) for name in near))
    return False
