"""The papers hold the inside of the package fast in few places, each of which stands here."""

import ast
from collections import Counter
from pathlib import Path

import jaxacct as ja

_PACKAGE = Path(ja.__file__).parent
# What every file may import: the types, the checks of arguments and the float64 boundary.
_GROUND = {f"jaxacct.{name}" for name in ("_jax", "_precision", "_types", "_validate")}
# In how many files of papers a module of the inside is imported. It may become less; what is new imports public names
# and `jaxacct.special`, or holds its own formula.
_INSIDE = {
    "jaxacct.bounds.allocation._decomposition": 1,
    "jaxacct.bounds.allocation._posterior_rate": 4,
    "jaxacct.bounds.allocation._renyi": 1,
    "jaxacct.bounds.bases._base": 1,
    "jaxacct.bounds.check_in._floor": 1,
    "jaxacct.bounds.poisson._profile": 5,
    "jaxacct.bounds.shuffle._approximate": 4,
    "jaxacct.bounds.shuffle._closed_form": 3,
    "jaxacct.bounds.shuffle._rounds": 1,
    "jaxacct.bounds.shuffle._special_pairs": 2,
    "jaxacct.bounds.shuffle._special_pairs_exact": 2,
    "jaxacct.curves._from_profile": 2,
    "jaxacct.divergence.allocation._powers": 1,
    "jaxacct.divergence.check_in._blocks": 3,
    "jaxacct.divergence.clones._multi_component": 2,
    "jaxacct.divergence.clones._profile": 5,
    "jaxacct.divergence.clones._renyi": 1,
    "jaxacct.divergence.gaussian._pair": 1,
    "jaxacct.divergence.lattice._ratio": 1,
    "jaxacct.divergence.response._lattice_comb": 1,
    "jaxacct.divergence.response._renyi": 5,
    "jaxacct.divergence.response._special_pair": 6,
    "jaxacct.mechanisms._base": 1,
}
_CEILING = 54


def private_imports(source: str) -> set[str]:
    """The private modules outside of the papers from which a file takes something."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("jaxacct"):
            full = [node.module, *(f"{node.module}.{a.name}" for a in node.names if a.name.startswith("_"))]
        elif isinstance(node, ast.Import):
            full = [a.name for a in node.names if a.name.startswith("jaxacct")]
        else:
            continue
        found |= {m for m in full if "._" in m and not m.startswith("jaxacct.papers")}
    return found


def test_a_private_import_is_seen():
    source = "from jaxacct.special import xp\nfrom jaxacct.special._normal import erfcx\nimport jaxacct._method"
    assert private_imports(source) == {"jaxacct.special._normal", "jaxacct._method"}
    assert private_imports("from jaxacct import _method\nfrom jaxacct.papers._x import y") == {"jaxacct._method"}


def test_what_the_papers_take_from_the_inside():
    found = Counter[str]()
    for path in (_PACKAGE / "papers").rglob("*.py"):
        found.update(private_imports(path.read_text()) - _GROUND)
    grown = {module: count for module, count in found.items() if count > _INSIDE.get(module, 0)}
    assert not grown, "import public names and jaxacct.special, or hold the formula in the paper's folder"
    assert found == _INSIDE, "fewer than stand in this table: take them out of it, and lower the ceiling"
    assert found.total() == _CEILING
