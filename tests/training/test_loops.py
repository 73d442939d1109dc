"""The loops of docs/loops: killed in mid-epoch and resumed, they end where they would have ended, to the last bit."""

import importlib.util
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import training

_FOLDER = Path(__file__).parents[2] / "docs" / "loops"
if not _FOLDER.is_dir():
    pytest.skip("a source distribution has no docs", allow_module_level=True)
_LOOPS = sorted(_FOLDER.glob("*.py"))
_NEEDS = {
    "equinox_loop": ("equinox",),
    "flax_linen_loop": ("flax",),
    "flax_nnx_loop": ("flax", "orbax.checkpoint"),
    "jax_privacy_loop": ("jax_privacy", "orbax.checkpoint"),
    "optax_loop": ("orbax.checkpoint",),
}
_KILLED_AFTER = 34  # of 40 steps in epochs of 20, and of checkpoints after every fifth


class KilledError(Exception):
    """In place of a signal."""


@pytest.fixture(params=_LOOPS, ids=lambda path: path.stem)
def loop(request: pytest.FixtureRequest) -> Any:
    path = request.param
    for name in _NEEDS[path.stem]:
        pytest.importorskip(name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.sample(3)
@pytest.mark.filterwarnings("ignore::UserWarning")  # orbax
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_killed_and_resumed(loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / name for name in ("straight", "killed")]
    for folder in folders:
        folder.mkdir()
    params, statement = loop.train(folders[0])
    found = float(re.findall(r"epsilon = (\S+) at", statement)[0])
    assert ja.epsilon(loop.RUN, 1e-5) <= found <= ja.epsilon(loop.RUN, 1e-5) * (1 + 1e-3)
    assert "of 40 noise releases" in statement

    after, seen = training.Batches.after, []

    def killing(self: training.Batches, done: int) -> Iterator[training.Batch]:
        for number, batch in enumerate(after(self, done), done):
            if number == _KILLED_AFTER:
                raise KilledError
            yield batch

    def watched(self: training.Batches, done: int) -> Iterator[training.Batch]:
        seen.append(done)
        return after(self, done)

    with monkeypatch.context() as patch:
        patch.setattr(training.Batches, "after", killing)
        with pytest.raises(KilledError):
            loop.train(folders[1])
    monkeypatch.setattr(training.Batches, "after", watched)
    resumed, again = loop.train(folders[1])
    assert seen == [30]
    assert again == statement
    jax.tree.map(np.testing.assert_array_equal, resumed, params)
    assert any(bool(np.any(np.asarray(leaf))) for leaf in jax.tree.leaves(params))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_killed_by_a_signal(tmp_path: Path) -> None:
    """A process of its own, killed without warning when it has kept a few steps; another one goes on."""
    pytest.importorskip("equinox")
    code = (
        "import sys, numpy as np, jax; sys.path.insert(0, sys.argv[1]); import equinox_loop\n"
        "params, statement = equinox_loop.train(sys.argv[2])\n"
        "print(statement, *(np.asarray(leaf).tobytes().hex() for leaf in jax.tree.leaves(params)))"
    )

    def command(folder: str) -> list[str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        return [sys.executable, "-c", code, str(_FOLDER), str(tmp_path / folder)]

    straight = subprocess.run(command("straight"), capture_output=True, text=True, check=True).stdout
    kept = tmp_path / "killed" / "run.eqx"
    with subprocess.Popen(command("killed"), stdout=subprocess.PIPE, text=True) as process:
        while not kept.exists() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    assert printed == ""
    assert subprocess.run(command("killed"), capture_output=True, text=True, check=True).stdout == straight


@pytest.mark.parametrize("path", _LOOPS, ids=lambda path: path.stem)
def test_privacy_takes_three_lines(path: Path) -> None:
    """Those marked; all others that name the package say what is run, or take the place of the data loader."""
    lines = path.read_text().splitlines()
    marked = [line for line in lines if line.endswith("  # dp")]
    assert 1 <= len(marked) <= 3
    named = [line for line in lines if re.search(r"\b(ja|jaxacct|training)\b", line) and line not in marked]
    begin = ("import jaxacct as ja", "from jaxacct import training", "RUN = ja.", "    data = training.batches(RUN, ")
    assert all(line.startswith(begin) or line == "from flax.training.train_state import TrainState" for line in named)


def test_every_loop_is_on_the_page() -> None:
    page = (_FOLDER.parent / "training.md").read_text()
    for path in _LOOPS:
        assert f"loops/{path.name}" in page
    assert {path.stem for path in _LOOPS} == set(_NEEDS)
