"""A concrete question does not import JAX, which takes longer than most answers; importing it later changes nothing."""

import subprocess
import sys
import textwrap
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from support.mechanisms import EXAMPLES, TREES

import jaxacct as ja
from jaxacct import _jax, _trees


def in_new_process(source: str, *arguments: str) -> str:
    """What Python prints of `source` in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source), *arguments], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


# Those whose first answers take seconds (shuffled batches), and those with nothing that NumPy answers (densities).
QUESTIONS = """
import sys
sys.path.insert(0, "tests")
import jaxacct as ja
from support.mechanisms import ASKED
for name, mechanism in ASKED.items():
    if "ShuffledBatches" in name:
        continue
    ja.epsilon(mechanism, 1e-6)
    if "jax" in sys.modules:
        raise SystemExit(f"the epsilon of {name} imports JAX")
run = ja.RandomAllocation(ja.Gaussian(1.0), 1000)
ja.delta(run, 1.0), ja.epsilon_interval(run, 1e-6), ja.rdp(run, [2.0, 8.0]), ja.tradeoff(run, 0.01)
ja.calibrate(run, "noise_multiplier", 1.0, 1e-6), ja.report(run, 1e-6), ja.compare(run, 1e-6)
ja.sweep(run, {"noise_multiplier": [1.0, 2.0]}, target_delta=1e-6)
print("jax" in sys.modules)
"""


def test_concrete_questions_do_not_import_jax():
    assert in_new_process(QUESTIONS) == "False"


@pytest.mark.parametrize(
    "command",
    [
        "epsilon allocation --noise-multiplier 1 --num-steps 1000 --num-epochs 10 --delta 1e-6",
        "report poisson --noise-multiplier 1 --sampling-prob 0.01 --num-steps 1000 --delta 1e-6",
        "calibrate shuffle --num-reports 1000000 --epsilon 0.1 --delta 1e-6",
    ],
)
def test_commands_do_not_import_jax(command):
    source = """
    import sys
    from jaxacct.cli import run
    sys.argv = ["jaxacct", *sys.argv[1:]]
    try:
        run()
    except SystemExit as end:
        assert not end.code
    print("JAX" if "jax" in sys.modules else "without JAX")
    """
    assert in_new_process(source, *command.split()).endswith("without JAX")


def test_jax_that_is_imported_later_knows_mechanisms_and_gives_the_same_digits():
    source = """
    import jaxacct as ja
    run = ja.PoissonSampled(ja.Gaussian(1.5), 0.01, 100)
    before = ja.epsilon(run, 1e-6)
    import jax
    assert jax.__loader__ is jax.__spec__.loader and not jax.__loader__.__module__.startswith("jaxacct")
    assert jax.tree.leaves(run) == [1.5, 0.01, 100]
    assert jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(run)[0][0][0]) == ".mechanism.noise_multiplier"
    assert ja.epsilon(run, 1e-6) == before
    inside = float(jax.jit(lambda run: ja.epsilon(run, 1e-6))(run))
    assert before <= inside * (1 + 1e-6) and inside <= 1.01 * before
    print("done")
    """
    assert in_new_process(source) == "done"


def test_jax_that_was_imported_before_is_known():
    assert in_new_process("import jax, jaxacct as ja\nprint(len(jax.tree.leaves(ja.Gaussian(1.0))))") == "1"


class _Pair(NamedTuple):
    first: Any
    second: Any


NESTED = [
    None,
    1.5,
    (1.0, None, [2.0, {"b": 3.0, "a": np.ones(2)}]),
    _Pair((), _Pair(1, 2)),
    *(EXAMPLES[kind] for kind in TREES),
    [EXAMPLES[ja.Composed], {"run": EXAMPLES[ja.Group]}],
]


@pytest.mark.parametrize("tree", NESTED, ids=lambda tree: type(tree).__name__)
def test_trees_are_those_of_jax(tree, monkeypatch):
    leaves, structure = jax.tree.flatten(tree)
    doubled = jax.tree.map(lambda x: (x, x), tree)
    monkeypatch.setattr(_trees, "is_imported", lambda: False)
    own, own_structure = _trees.flatten(tree)
    assert len(own) == own_structure.num_leaves == len(leaves)
    assert all(a is b for a, b in zip(own, leaves, strict=True))
    assert hash(own_structure) == hash(_trees.flatten(tree)[1])
    assert own_structure == _trees.flatten(tree)[1]
    assert jax.tree.structure(_trees.unflatten(own_structure, own)) == structure
    for a, b in zip(jax.tree.leaves(_trees.map_leaves(lambda x: (x, x), tree)), jax.tree.leaves(doubled), strict=True):
        assert a is b


def test_trees_of_different_structures_are_refused(monkeypatch):
    monkeypatch.setattr(_trees, "is_imported", lambda: False)
    with pytest.raises(ValueError, match="different structures"):
        _trees.map_leaves(lambda *x: x, (1, 2), (1, (2,)))
    with pytest.raises(ValueError, match="leaves for a tree"):
        _trees.unflatten(_trees.flatten((1, 2))[1], [1])


def test_values_are_asked_about_before_jax_is_there():
    assert not isinstance(1.0, _jax.Array)
    assert isinstance(jax.numpy.ones(()), _jax.Array)
    assert not isinstance(np.ones(()), _jax.Tracer)
    seen = []
    jax.jit(lambda x: seen.append(isinstance(x, _jax.Tracer)) or x)(1.0)
    assert seen == [True]
