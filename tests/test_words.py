"""The floor under the words of the package: docstrings that say what comes out, constants that say what they are.

Two checks, no more than a floor: that a public function of `bounds` and `divergence` begins its docstring with what
comes out, by its shape in brackets or its type, and that a numeric constant of a module has a comment or a docstring.
"""

import ast
import re
from collections.abc import Callable
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "jaxacct"
_FILES = sorted(_PACKAGE.rglob("*.py"))

_SHAPE = r"\[[A-Za-z0-9, .+*\-/]+\]"  # as [A, L] or [2, L] or [..]
_TYPE = (
    r"\b(floats?|bool|int|dict|tuple|NamedTuple|static|class|bytes|number|function|table|mask|string|Ends|None|Pld|law"
    r"|curve)\b"
)
_RESULT = re.compile(f"{_SHAPE}|{_TYPE}", re.IGNORECASE)


def _without_result(source: str) -> list[str]:
    """The public functions whose docstring does not name a shape or a type in its first paragraph."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    public = [function for function in functions if not function.name.startswith("_")]
    return [f.name for f in public if not _RESULT.search((ast.get_docstring(f) or "").split("\n\n")[0])]


def _is_numeric(value: ast.expr | None) -> bool:
    """Whether an expression is a number, a tuple of numbers, or made of them by operators."""
    match value:
        case ast.Constant():
            return isinstance(value.value, int | float) and not isinstance(value.value, bool)
        case ast.UnaryOp():
            return _is_numeric(value.operand)
        case ast.BinOp():
            return _is_numeric(value.left) and _is_numeric(value.right)
        case ast.Tuple():
            return bool(value.elts) and all(map(_is_numeric, value.elts))
    return False


def _unexplained(source: str) -> list[str]:
    """The numeric constants of a module without a word: on their lines, right above, or in a string right below.

    What stands above the first of several constants in a row explains them all.
    """
    lines, body = source.splitlines(), ast.parse(source).body
    found, explained_to = [], 0  # the last line of a row of constants that is explained from above
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not _is_numeric(node.value):
            continue
        name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        first, last = node.lineno, node.end_lineno or node.lineno
        if not re.match(r"\(?_?[A-Z]", name):
            continue
        if lines[first - 2].lstrip().startswith("#") or explained_to == first - 1:
            explained_to = last
        beside = any("#" in line for line in lines[first - 1 : last])
        below = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if not (beside or below or explained_to == last):
            found.append(name)
    return found


def _everywhere(check: Callable[[str], list[str]], *folders: str) -> list[str]:
    """What a check finds in every file of the package, or of some of its folders, as "file: name"."""
    files = {path.relative_to(_PACKAGE): path for path in _FILES}
    wanted = {name: path for name, path in files.items() if not folders or name.parts[0] in folders}
    assert len(wanted) > 50  # the package is where it is looked for
    return [f"{name.as_posix()}: {found}" for name, path in wanted.items() for found in check(path.read_text())]


def test_docstrings_begin_with_what_comes_out() -> None:
    assert _everywhere(_without_result, "bounds", "divergence") == []


def test_numeric_constants_are_explained() -> None:
    assert _everywhere(_unexplained) == []


def test_a_docstring_without_its_result_is_found() -> None:
    functions = {
        "silent": "",
        "vague": '"""As `other`, for Gaussian reports."""',
        "late": '"""By Theorem 1.\n\n    Renyi divergences [A, L].\n    """',
        "shaped": '"""Renyi divergences [A, L], rounded up."""',
        "typed": '"""bool: whether it applies."""',
        "_private": '"""Whatever."""',
    }
    source = "\n".join(f"def {name}():\n    {text}\n    return 0\n" for name, text in functions.items())
    assert _without_result(source) == ["silent", "vague", "late"]


def test_a_bare_constant_is_found() -> None:
    source = """
import math

_BARE = 0.02

_BESIDE = 2.0**-50  # relative
# nats
_ABOVE = 1.0
_IN_A_ROW, _TOO = 2, -3
_NAME = "no number"
_AFTER_A_BREAK = 600.0

BELOW = 1
'''Of what.'''

_CALLED = math.log(2.0)
"""
    assert _unexplained(source) == ["_BARE", "_AFTER_A_BREAK"]
