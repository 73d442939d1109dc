"""The layout keeps its promises: who may ask for a type, one table of methods, few ways in, short files.

Checks of the source read it as a syntax tree; each is also run on a snippet that breaks the rule.
"""

import ast
import dataclasses
import functools
import importlib
import pkgutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.importing import named_modules

import jaxacct
import jaxacct as ja
from jaxacct import bounds, mechanisms
from jaxacct._method import LaneMethod, Method, ProfileMethod, RenyiMethod, Role
from jaxacct._types import Bound
from jaxacct.answering import _loop
from jaxacct.bounds import methods_for
from jaxacct.divergence.allocation._profile import AllocationProfile

_PACKAGE = Path(ja.__file__).parent
_FILES = {path.relative_to(_PACKAGE).as_posix(): path.read_text() for path in sorted(_PACKAGE.rglob("*.py"))}
_KINDS = {*mechanisms.__all__, "Pld"}  # every public mechanism and local randomizer

# Where a type may be asked for: where it is defined, where a composition is taken apart, and at other people's doors.
_MAY_ASK = ("mechanisms/", "curves/_pld.py", "bounds/composed.py", "interop/")


def _words(node: ast.AST) -> set[str]:
    """The names in an expression, without the modules that they are taken from."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _is_call(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def asks_for_types(source: str) -> list[int]:
    """Lines that branch on the type of a mechanism: isinstance, comparisons of type(..), class patterns."""
    tree = ast.parse(source)
    unions = [n for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Tuple | ast.BinOp)]
    kinds = _KINDS | {t.id for n in unions if _words(n.value) & _KINDS for t in n.targets if isinstance(t, ast.Name)}
    found = []
    for node in ast.walk(tree):
        if _is_call(node, "isinstance", "issubclass"):
            asked = _words(node.args[1])
        elif isinstance(node, ast.Compare) and any(_is_call(side, "type") for side in (node.left, *node.comparators)):
            asked = _words(node)
        elif isinstance(node, ast.MatchClass):
            asked = _words(node.cls)
        else:
            continue
        found += [node.lineno] if asked & kinds else []
    return found


def compares_names(source: str) -> list[int]:
    """Lines that compare what a method is called with a literal."""

    def is_name(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "name"

    def has_literal(node: ast.AST) -> bool:
        return any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(node))

    compared = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare))
    sides = ((node.lineno, (node.left, *node.comparators)) for node in compared)
    return [line for line, nodes in sides if any(map(is_name, nodes)) and any(map(has_literal, nodes))]


@pytest.mark.parametrize(
    "snippet",
    [
        "isinstance(x, Gaussian)",
        "isinstance(x, ja.Pld)",
        "isinstance(x, (str, Shuffled))",
        "isinstance(x, str | Composed)",
        "Scheduled = PartialAllocation | ScheduledAllocation\nisinstance(x, Scheduled)",
        "type(x) is Laplace",
        "type(x.mechanism) in (Gaussian, Laplace)",
        "match x:\n    case Gaussian(noise):\n        pass",
    ],
)
def test_a_question_for_a_type_is_seen(snippet):
    assert asks_for_types(snippet)


@pytest.mark.parametrize("snippet", ["RUNS[type(x)]", "type(x) in RUNS", "x.signature() == (Gaussian,)"])
def test_tables_by_type_and_signatures_are_no_such_question(snippet):
    assert not asks_for_types(snippet)


def test_types_of_mechanisms_are_asked_for_where_they_live():
    found = {name: asks_for_types(source) for name, source in _FILES.items() if not name.startswith(_MAY_ASK)}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_comparison_of_a_name_is_seen():
    assert compares_names('method.name == "exact"') == [1]
    assert compares_names('step.method.name in ("exact", "rdp")') == [1]
    assert not compares_names("method.name == wanted")


def test_names_of_methods_are_not_compared_with_literals():
    others = {"interop/_jax_privacy.py", "plot/__init__.py"}  # another library's enum; the name of a missing module
    found = {name: compares_names(source) for name, source in _FILES.items() if name not in others}
    assert {name: lines for name, lines in found.items() if lines} == {}


# XLA's errs by more than is booked, or loses digits: kernels have `special`'s, in these files with the reason beside it
_REFUSED = {
    "log1p",
    "expm1",
    "sinh",
    "cosh",
    "tanh",
    "arctanh",
    "erf",
    "erfc",
    "ndtr",
    "gammaln",
    "digamma",
    "betainc",
    "betaln",
}
_MAY_CALL = {
    "_ground.py": {"log1p", "tanh"},  # which looks at them where they are used
    "special/_elementary.py": {"log1p", "tanh"},  # which mends them
    "divergence/law/_plan.py": {"log1p", "expm1"},  # where lines are put certifies nothing
}


def calls_of_xla(source: str) -> set[str]:
    """The functions of `_REFUSED` that are taken from `jnp`, `jax.scipy` or `jax.lax`."""
    taken = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Attribute) and n.attr in _REFUSED)
    return {node.attr for node in taken if _words(node.value) & {"jnp", "jax", "lax"}}


def test_elementary_functions_that_err_are_not_called():
    assert calls_of_xla("jnp.log1p(x)") == {"log1p"}
    assert calls_of_xla("jax.scipy.special.erfc(x)") == {"erfc"}
    assert not calls_of_xla("np.log1p(x) + xp.tanh(x)")
    found = {name: calls_of_xla(source) for name, source in _FILES.items()}
    assert {name: names for name, names in found.items() if names} == _MAY_CALL


_OF_TRAINING = ("training/", "demo/")  # which begin with optax, and that with JAX


def imports_jax(source: str) -> bool:
    """Whether a module imports JAX, or a part of it, when it is imported itself."""
    named: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named.append(str(node.module))
    return any(name.partition(".")[0] == "jax" for name in named)


def test_jax_is_imported_when_it_is_needed():
    assert imports_jax("import jax.numpy as jnp")
    assert imports_jax("from jax import lax")
    assert not imports_jax("from jaxacct._jax import jax\ndef f():\n    import jax.extend")
    found = {name for name, source in _FILES.items() if imports_jax(source)}
    assert not {name for name in found if not name.startswith(_OF_TRAINING)}


def test_files_hold_one_idea():
    """Longer than this a file is likely to hold two ideas; shorter ones are looked at by people."""
    long = {name for name, source in _FILES.items() if source.count("\n") > 450}
    assert long == set()


def bare_arrays(source: str) -> list[int]:
    """Lines of annotations where `np.ndarray` says nothing of its elements, which it must before NumPy 2.2."""
    nodes = list(ast.walk(ast.parse(source)))
    notes = [getattr(n, name) for n in nodes for name in ("annotation", "returns") if getattr(n, name, None)]
    parts = [n for note in notes for n in ast.walk(note)]
    told = {id(n.value) for n in parts if isinstance(n, ast.Subscript)}
    return sorted(
        {n.lineno for n in parts if isinstance(n, ast.Attribute) and n.attr == "ndarray" and id(n) not in told}
    )


@pytest.mark.parametrize(
    "snippet", ["x: np.ndarray = 1", "def f(x: list[np.ndarray]): ...", "def f() -> np.ndarray: ..."]
)
def test_a_bare_array_is_seen(snippet):
    assert bare_arrays(snippet) == [1]


@pytest.mark.parametrize("snippet", ["x: np.ndarray[int, int]", "def f(x: NDArray[Any]): isinstance(x, np.ndarray)"])
def test_an_array_of_something_is_not_bare(snippet):
    assert bare_arrays(snippet) == []


def test_arrays_in_annotations_say_of_what():
    found = {name: bare_arrays(source) for name, source in _FILES.items()}
    assert not {name: lines for name, lines in found.items() if lines}


# Imports


def test_names_that_load_when_used_are_those_that_type_checkers_see():
    guarded = next(node for node in ast.parse(_FILES["__init__.py"]).body if isinstance(node, ast.If))
    seen = {
        (str(node.module).removeprefix("jaxacct."), alias.name)
        for node in ast.walk(guarded)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(home, name) for name, home in jaxacct._HOME.items()}
    assert set(jaxacct.__all__) <= set(jaxacct._HOME)


def _modules(files: dict[str, str]) -> dict[str, str]:
    """module -> source, by dotted name."""
    dotted = {f"jaxacct/{name}".removesuffix(".py").removesuffix("/__init__"): text for name, text in files.items()}
    return {name.replace("/", "."): text for name, text in dotted.items()}


def imports(modules: dict[str, str]) -> dict[str, set[str]]:
    """Which modules of the package each one imports, also inside functions, and by strings."""
    found = {}
    for module, source in modules.items():
        nodes = list(ast.walk(ast.parse(source)))
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in (n for n in nodes if isinstance(n, ast.ImportFrom)):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules else str(node.module) for name in inner}
        names |= named_modules(source, module, modules) if module != "jaxacct" else set()  # which gathers all names
        found[module] = (names & set(modules)) - {module}
    return found


def longest_chain(arrows: dict[str, set[str]]) -> list[str]:
    """The longest way along arrows; raises ValueError if there is a circle."""
    longest: dict[str, list[str]] = {}

    def below(place: str, above: tuple[str, ...]) -> list[str]:
        if place in above:
            raise ValueError(f"a circle: {' -> '.join((*above, place))}")
        if place not in longest:
            ways = [below(other, (*above, place)) for other in sorted(arrows.get(place, ()))]
            longest[place] = [place, *max(ways, key=len, default=[])]
        return longest[place]

    return max((below(place, ()) for place in arrows), key=len)


def rooms(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same between packages and top-level modules; the package's own names are left out."""
    found: dict[str, set[str]] = {}
    for module, others in arrows.items():
        room = module.split(".")[1:2]
        if room:
            found.setdefault(room[0], set()).update(o.split(".")[1] for o in others if "." in o)
    return {room: others - {room} for room, others in found.items()}


def test_a_circle_is_seen():
    modules = {"jaxacct.a": "def f():\n    from jaxacct import b", "jaxacct.b": "from jaxacct.a import f"}
    with pytest.raises(ValueError, match="a circle"):
        longest_chain(imports(modules))


@pytest.mark.parametrize("by", ['import_module("jaxacct.b.c")', 'needed("jaxacct.b.c")', '__import__("jaxacct.b.c")'])
def test_a_circle_by_a_string_is_seen(by):
    modules = {"jaxacct.a": f"def f():\n    {by}", "jaxacct.b.c": "from jaxacct import a"}
    with pytest.raises(ValueError, match="a circle"):
        longest_chain(imports(modules))


def test_a_child_that_loads_when_used_is_seen():
    lazy = 'import_module(f"{__name__}.{name}")'
    assert named_modules(lazy, "jaxacct.a", {"jaxacct.a", "jaxacct.a.b", "jaxacct.c"}) == {"jaxacct.a.b"}
    with pytest.raises(ValueError, match="cannot be followed"):
        named_modules('import_module(f"jaxacct.{name}")', "jaxacct.a", {})


@functools.cache
def _of_package():
    return imports(_modules(_FILES))


def test_modules_import_without_circles():
    longest_chain(_of_package())


def test_there_are_few_levels_of_imports():
    chain = longest_chain(rooms(_of_package()))
    assert len(chain) <= 15, f"{len(chain)} levels: {' -> '.join(chain)}"


# The table of methods


def _held(module: object) -> list[Method]:
    """The methods in a module's tables: dictionaries, tuples and lists at its top."""
    found: list[Method] = []
    for name, value in vars(module).items():
        if name.startswith("__") or not isinstance(value, dict | tuple | list):
            continue
        entries = value.values() if isinstance(value, dict) else [value]
        rows = [entry for entry in entries if isinstance(entry, tuple | list)]
        found += [method for row in rows for method in row if isinstance(method, Method)]
    return found


_TABLE = {method for methods in bounds.METHODS.values() for method in methods}


def test_there_is_one_table_of_methods():
    optional = ("jaxacct.interop", "jaxacct.demo", "jaxacct.plot", "jaxacct.__main__")
    names = [m.name for m in pkgutil.walk_packages(ja.__path__, "jaxacct.") if not m.name.startswith(optional)]
    tables = {name: _held(importlib.import_module(name)) for name in names}
    holding = {name for name, methods in tables.items() if methods}
    assert {name for name in holding if not name.startswith("jaxacct.bounds")} == set()
    assert "jaxacct.bounds.gaussian" in holding  # the search sees tables
    assert {method.name for name in holding for method in tables[name] if method not in _TABLE} == set()


def test_every_signature_has_an_upper_bound_in_each_direction():
    for key, methods in bounds.METHODS.items():
        of_reports = key[0].relation is ja.NeighboringRelation.REPLACE_ONE
        wanted = {ja.Direction.REMOVE} if of_reports else set(ja.Direction)
        assert wanted <= {d for m in methods if Bound.UPPER in m.ends for d in m.directions}, key


def test_every_public_type_stands_in_the_table():
    assert {kind.__name__ for key in bounds.METHODS for kind in key} == _KINDS


@pytest.fixture
def examples(monkeypatch):
    """Of every signature, the rows of the support matrix and those that they stand for."""
    monkeypatch.syspath_prepend(str(_PACKAGE.parent / "docs"))
    schemes = importlib.import_module("_generate").schemes()
    found = [example for scheme in schemes for example in scheme.variants.values()]
    pair = ja.DiscretePair((0.75, 0.25), (0.25, 0.75))
    half = np.vectorize(lambda loss: 0.5 if loss >= 0 else 0.0)  # half of the mass at loss 0: all that is needed here
    continuous = ja.ContinuousPair(half, lambda x: 1.0 - half(x), half, lambda x: 1.0 - half(x), -1.0, 1.0)
    counts = (ja.DiscreteLaplace(1.0), ja.DiscreteGaussian(1.0), ja.Skellam(1.0), ja.EpsilonDelta(1.0))
    mixture = ja.MixtureOfGaussians(1.0, (0.0, 1.0), (0.9, 0.1))
    choices = (ja.Exponential(1.0), ja.PermuteAndFlip(1.0), mixture, ja.AboveThreshold(1.0, 1.0))
    releases = (pair, continuous, ja.pld(ja.Gaussian(1.0)), *counts, *choices)
    found += releases
    for release in releases:
        found += [ja.RandomAllocation(release, 10), ja.PoissonSampled(release, 0.1, num_steps=1)]
        found += [ja.RandomAllocation(ja.PoissonSampled(release, 0.1, num_steps=1), 10)]
    found += [ja.RandomAllocation(ja.PoissonSampled(ja.Laplace(1.0), 0.1, num_steps=1), 10)]
    found += [ja.PartialAllocation(release, 10, 5) for release in (*releases, ja.Laplace(1.0))]
    found += [ja.Composed((ja.Shuffled(ja.LocalRandomizer(1.0), 1000),)), ja.Composed(pair, 2)]
    found += [ja.PoissonSampled(run, 0.1, 2) for run in found if type(run).__name__.endswith("Allocation")]
    assert {example.signature() for example in found} == set(bounds.METHODS)
    return found


def test_every_lower_end_says_what_it_bounds(examples):
    for example in examples:
        for method in methods_for(example):
            if Bound.LOWER in method.ends:
                assert method.is_of_reduction(example) in (True, False), method.name
    with pytest.raises(TypeError, match="does not say what its lower end bounds"):
        ProfileMethod(
            name="silent", theorem="", directions=(), cost=0, log_delta=None, epsilon=None, ends={Bound.LOWER}
        )


def test_estimates_are_asked_by_name_only(examples):
    estimates = [m for e in examples for m in methods_for(e) if Bound.ESTIMATE in m.ends]
    assert estimates
    assert all(method.role is Role.BY_NAME and not method.is_listed for method in estimates)
    with pytest.raises(TypeError, match="gives estimates"):
        dataclasses.replace(estimates[0], role=Role.NARROW)


def test_theorems_are_named_so_that_by_can_stand_before_them(examples):
    theorems = {method.source(example) for example in examples for method in methods_for(example)}
    assert [theorem for theorem in theorems if theorem.startswith("by ")] == []


def test_the_memory_of_a_lane_is_known_for_every_static(examples):
    for example in examples:
        for method in (m for m in methods_for(example) if isinstance(m, LaneMethod)):
            static = method.statics(example)
            static |= {"orders": method.grids[-1]} if isinstance(method, RenyiMethod) else {}
            assert method.lane_bytes(**static) > 0, method.name
            with pytest.raises(TypeError):
                method.lane_bytes(**static, unknown=1)


def test_no_name_stands_twice_for_the_same_end_and_direction(examples):
    for example in examples:
        ends = [(m.name, b, d) for m in methods_for(example) for b in m.ends for d in m.directions]
        assert [end for end, times in Counter(ends).items() if times > 1] == [], example


# How far it is from a question to its kernel

# What is not counted: facts of mechanisms, checks, the float64 boundary, arithmetic and the kernels themselves, and
# what a table says always or never holds, or is about the mechanism itself.
_NOT_COUNTED = ("mechanisms/", "_validate.py", "_precision/", "_types.py", "special/", "divergence/")
_CONSTANT = ("always", "never", "itself")


def _running(ask, kernel):
    """((file, function) from the question to its kernel, those that run outside the kernel), once each."""
    root, inside = f"{_PACKAGE}/", 0
    chain: list[tuple[str, str]] = []
    above: set[tuple[str, str]] = set()

    def place(code):
        return code.co_filename.removeprefix(root), code.co_qualname

    def is_ours(code):
        return code.co_filename.startswith(root) and not code.co_name.startswith(("<", *_CONSTANT))  # no comprehensions

    def watch(frame, event, arg):
        nonlocal inside
        code = frame.f_code
        if code is kernel.__code__:
            inside += {"call": 1, "return": -1}.get(event, 0)
            if not chain:
                while frame is not None:
                    chain.extend([place(frame.f_code)] if is_ours(frame.f_code) else [])
                    frame = frame.f_back
                chain.reverse()
        elif event == "call" and not inside and is_ours(code) and not place(code)[0].startswith(_NOT_COUNTED):
            above.add(place(code))

    sys.setprofile(watch)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return chain, above


def test_a_question_is_near_its_kernel():
    run = ja.RandomAllocation(ja.Gaussian(1.0), 1000)
    epsilon = ja.epsilon  # it loads at its first use
    chain, above = _running(lambda: epsilon(run, 1e-6), AllocationProfile.epsilon)
    shown = "\n".join(f"{file}: {name}" for file, name in chain)
    assert chain[0] == ("accounting/_questions.py", "epsilon")
    assert len({file for file, _ in chain}) <= 4, f"the chain is in too many files:\n{shown}"
    assert len(chain) <= 9, f"the chain has {len(chain)} functions:\n{shown}"
    files = Counter(file for file, _ in above)
    # a ceiling on what was reached, not yet the 15 of the design
    above = {name for name in above if name[0] not in ("_jax.py", "_trees.py")}  # which stand for JAX's own functions
    assert len(above) <= 58, f"{len(above)} functions run above the kernel: {dict(files)}"


def test_an_exact_bracket_is_made_once(monkeypatch):
    runs = []
    original = _loop.bracket_on_host

    def counted(method, *args):
        runs.append((method.name, args[0].mechanism))
        return original(method, *args)

    monkeypatch.setattr(_loop, "bracket_on_host", counted)
    ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1000), 1e-6)
    assert len(runs) == 1, runs
