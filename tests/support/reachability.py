"""Which definitions of a package no public name reaches: static analysis of its files, nothing is run.

A definition is a function, class or constant at the top of a module, or a method of a class. Inside a definition that
is reached, every name counts as used: a bare one as what it means in that module (defined there or imported from
another module of the package), an attribute of an imported module as what that module defines. Statements at the top
of a module (not its definitions) run on import, and what they mention is used. A class that is reached brings its
special and overriding methods; any other method counts as used once its name is mentioned as an attribute or keyword
anywhere in what is reached, whatever the object; so do all methods of a class with a base from outside the package,
which may call them. What decorates a definition by another one of the package (`@f.defjvp`, `@f.register`) is reached
with that one. `__getattr__` and `__dir__` of a module are the interpreter's to call, `_repr_html_` a notebook's. Too
generous, never too strict.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

Definition = tuple[str, str]  # dotted module, name (`Class.method` for a method)


class Module(NamedTuple):
    """What one file defines and imports."""

    name: str
    tree: ast.Module
    imports: dict[str, tuple[str, str | None]]  # local name -> (module, name in it, or None for the module itself)


def unreached(package: Path, public: Iterable[Definition]) -> list[Definition]:
    """Functions, classes and methods that nothing reaches from the `public` names, nor from running the modules.

    Public methods of public classes are public too.
    """
    modules = {module.name: module for module in _modules(package)}
    public = {_origin(at, modules) for at in public}
    nodes: dict[Definition, list[ast.AST]] = {}
    todo: list[Definition] = list(public)
    attributes: set[str] = set()
    registered: dict[Definition, list[Definition]] = {}

    def visit(module: Module, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                todo.append((module.name, inner.id))
            elif isinstance(inner, ast.Attribute):
                attributes.add(inner.attr)
                if (target := _module_of(module, modules, inner.value)) is not None:
                    todo.append((target, inner.attr))
            elif isinstance(inner, ast.keyword) and inner.arg:
                attributes.add(inner.arg)

    for module in modules.values():
        for statement in module.tree.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                nodes.setdefault((module.name, statement.name), []).append(statement)
                for owner in _registered_with(statement):
                    registered.setdefault((module.name, owner), []).append((module.name, statement.name))
                if statement.name in ("__getattr__", "__dir__"):
                    todo.append((module.name, statement.name))
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and (names := _assigned(statement)):
                for name in names:
                    nodes.setdefault((module.name, name), []).append(statement)
            elif not isinstance(statement, ast.Import | ast.ImportFrom):
                visit(module, statement)

    seen: set[Definition] = set()
    reached_methods: set[Definition] = set()
    while True:
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            todo += registered.get(at, [])
            module_name, name = at
            module = modules.get(module_name)
            if module is None:
                continue
            if at not in nodes and name in module.imports:
                source, inner = module.imports[name]
                todo.append((source, inner or ""))
            for node in nodes.get(at, ()):
                if isinstance(node, ast.ClassDef):
                    for part in _outside_methods(node):
                        visit(module, part)
                else:
                    visit(module, node)
        # methods of reached classes whose names were mentioned since
        for class_at, method in _methods(nodes, seen):
            at = (class_at[0], f"{class_at[1]}.{method.name}")
            called = method.name.startswith(("__", "_repr_html_")) or method.name in attributes
            called = called or (class_at in public and not method.name.startswith("_"))
            called = called or _has_outer_base(modules[class_at[0]], nodes[class_at], modules)
            if at not in reached_methods and called:
                reached_methods.add(at)
                visit(modules[class_at[0]], method)
        if not todo:
            break
    dead = [
        at
        for at, found in nodes.items()
        if at not in seen and any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in found)
    ]
    dead += [
        (class_at[0], f"{class_at[1]}.{method.name}")
        for class_at, method in _methods(nodes, seen)
        if (class_at[0], f"{class_at[1]}.{method.name}") not in reached_methods
    ]
    return sorted(dead)


def _origin(at: Definition, modules: dict[str, Module]) -> Definition:
    """Where a name that modules pass on is defined."""
    module, name = at
    while module in modules and name in modules[module].imports:
        module, inner = modules[module].imports[name]
        name = inner or ""
    return module, name


def _modules(package: Path) -> Iterator[Module]:
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text())
        imports: dict[str, tuple[str, str | None]] = {}
        for node in ast.walk(tree):  # those inside functions too, as if at the top
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    of_module = _is_module(package, f"{node.module}.{alias.name}")
                    target = (f"{node.module}.{alias.name}", None) if of_module else (node.module, alias.name)
                    imports[alias.asname or alias.name] = target
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    imports[alias.asname or alias.name] = (alias.name, None)
        yield Module(name, tree, imports)


def _is_module(package: Path, dotted: str) -> bool:
    path = package.parent.joinpath(*dotted.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _module_of(module: Module, modules: dict[str, Module], node: ast.expr) -> str | None:
    """The module of the package that an expression names, if it does."""
    if isinstance(node, ast.Name):
        found = module.imports.get(node.id)
        return found[0] if found is not None and found[1] is None else None
    if isinstance(node, ast.Attribute) and (outer := _module_of(module, modules, node.value)) is not None:
        return f"{outer}.{node.attr}" if f"{outer}.{node.attr}" in modules else None
    return None


def _assigned(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = [n.id for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t]) if isinstance(n, ast.Name)]
    return [] if names == ["__all__"] else names


def _registered_with(statement: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """Names of the definitions that decorate `statement` by one of their attributes."""
    found = []
    for decorator in statement.decorator_list:
        inner = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
            found.append(inner.value.id)
    return found


def _has_outer_base(module: Module, found: list[ast.AST], modules: dict[str, Module]) -> bool:
    """Whether a class has a base from outside the package, other than those of records and enumerations."""
    for node in found:
        for base in node.bases if isinstance(node, ast.ClassDef) else []:
            root = base
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name):
                source = module.imports.get(root.id)
                if source is not None and source[0] not in modules and source[0] not in ("typing", "enum"):
                    return True
    return False


def _outside_methods(node: ast.ClassDef) -> list[ast.AST]:
    """Bases, decorators, fields of a class."""
    body = [part for part in node.body if not isinstance(part, ast.FunctionDef)]
    return [*node.bases, *(k.value for k in node.keywords), *node.decorator_list, *body]


def _methods(
    nodes: dict[Definition, list[ast.AST]], seen: set[Definition]
) -> Iterator[tuple[Definition, ast.FunctionDef]]:
    for at, found in nodes.items():
        for node in found:
            if at in seen and isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        yield at, part
