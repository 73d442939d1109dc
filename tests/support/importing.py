"""What a file imports, of the package or of others: by statements, and by strings that name a module."""

import ast
from collections.abc import Collection, Iterable


def _is_own_child(node: ast.AST) -> bool:
    """Whether an expression is ``f"{__name__}.{..}"``: some module of the package that says it, known when it runs."""
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    first = parts[0] if parts else None
    return isinstance(first, ast.FormattedValue) and isinstance(first.value, ast.Name) and first.value.id == "__name__"


def named_modules(source: str, module: str, modules: Collection[str]) -> set[str]:
    """Those of `modules` that strings name: whole, however they are used, or as a child of `module` by its `__name__`.

    Raises:
      ValueError: if an import of the package builds its string in another way.
    """
    nodes = list(ast.walk(ast.parse(source)))
    texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    found = {text for text in texts & set(modules) if "." in text}  # the package alone is a distribution's name too
    for node in nodes:
        if not (isinstance(node, ast.Call) and node.args):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called not in ("import_module", "__import__"):
            continue
        if _is_own_child(node.args[0]):
            found |= _children(module, modules)
        elif isinstance(node.args[0], ast.JoinedStr | ast.BinOp):
            raise ValueError(f"{module}, line {node.lineno}: an import by a string that cannot be followed")
    return found - {module}


def _children(package: str, modules: Iterable[str]) -> set[str]:
    return {name for name in modules if name.rpartition(".")[0] == package}
