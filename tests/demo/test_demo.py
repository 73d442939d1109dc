"""The demonstration: what is drawn, noised and counted; where it stops; how it goes on after Ctrl-C."""

import functools
import itertools
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import demo, training
from jaxacct.demo import _batches, _loop, _model

for _package in ("flax", "sklearn", "tqdm", "matplotlib"):
    pytest.importorskip(_package)

TINY = demo.Settings(target_epsilon=1.6, noise_multiplier=2.0, num_steps=4)  # two epochs


@pytest.fixture(scope="module", autouse=True)
def _made_once() -> Iterator[None]:
    """Plans and programs, which runs share: each is a constant of the settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_loop, "make_plan", functools.cache(demo.make_plan))
        begun: dict[demo.Settings, Any] = {}
        begin = _loop._begin

        def begin_once(settings: demo.Settings, plan: demo.Plan) -> Any:
            if settings not in begun:
                begun[settings] = begin(settings, plan)
            return begun[settings]

        patch.setattr(_loop, "_begin", begin_once)
        yield


@pytest.fixture(scope="module")
def straight() -> demo.Outcome:
    """A run from its beginning to its end."""
    return demo.run(TINY)


@pytest.fixture(scope="module")
def parts() -> Any:
    return _loop._begin(TINY, _loop.make_plan(TINY))


# Batches


def test_batches_are_those_of_the_mechanism(parts: Any) -> None:
    """All that was drawn reaches the pieces: every record in one step of each of two epochs."""
    trainer, _ = parts
    drawn = [indices[mask] for indices, mask in map(_batches.filled, trainer.data)]
    for epoch in (drawn[:4], drawn[4:]):
        assert sorted(np.concatenate(epoch)) == list(range(1437))
    assert trainer.data.mechanism.mechanism == TINY.allocation(num_epochs=2)
    assert trainer.data.overflow(8) == 0.0


def _batch(num_records: int, size: int) -> training.Batch:
    """The first records, in pieces of `size` of which there are enough for a hundred."""
    rows = -(-100 // size)
    indices = np.arange(rows * size, dtype=np.int32).reshape(rows, size)
    return training.Batch(indices, indices < num_records)


@pytest.mark.parametrize("num_records", [0, 1, 9, 10, 11, 20, 35, 100])
def test_pieces_drop_nothing(num_records: int) -> None:
    pieces = _batches.filled(_batch(num_records, 10))
    assert pieces.indices.shape == pieces.mask.shape == (max(1, math.ceil(num_records / 10)), 10)
    assert np.array_equal(pieces.indices[pieces.mask], np.arange(num_records))


def test_digits_are_split_once() -> None:
    digits = _batches.load_digits()
    assert digits.images.shape == (1437, 64)
    assert digits.test_images.shape == (360, 64)
    assert digits.images.dtype == np.float32
    assert -1.0 <= digits.images.min() < digits.images.max() <= 1.0


# One step


def _norm(tree: Any) -> float:
    return math.sqrt(sum(float(np.sum(np.square(np.asarray(leaf, np.float64)))) for leaf in jax.tree.leaves(tree)))


def test_optimizer_adds_the_noise_of_the_plan(parts: Any) -> None:
    """The first step of SGD on an empty batch, undone: noise of standard deviation noise_multiplier."""
    trainer, state = parts
    advanced = _loop._advance(trainer, state, _batch(0, trainer.data[0].mask.shape[1]))
    moved = np.concatenate(
        [np.ravel(leaf) for leaf in jax.tree.leaves(jax.tree.map(jnp.subtract, state.params, advanced.params))]
    )
    noise = moved / _model._LEARNING_RATE * (1437 / 4)
    assert noise.std() == pytest.approx(TINY.noise_multiplier * _model.CLIP_NORM, rel=0.06)
    assert training.release_counts(advanced.opt_state).tolist() == [1]


# Whole runs


def test_run_stops_exactly_at_the_affordable_step(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "demo.png"
    outcome = demo.run(TINY, out=picture)
    described = training.Epoch(TINY.allocation(), 4)
    affordable = training.steps_affordable(described, TINY.target_epsilon, TINY.target_delta)
    assert outcome.is_finished
    assert outcome.num_releases == affordable == 8
    assert training.release_counts(outcome.state.opt_state).tolist() == [8]
    assert outcome.mechanism == ja.RandomAllocation(ja.Gaussian(2.0), num_steps=4, num_epochs=2)
    assert outcome.epsilon == ja.epsilon(outcome.mechanism, TINY.target_delta) <= TINY.target_epsilon
    one_more = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=4, num_epochs=3)
    assert ja.epsilon(one_more, TINY.target_delta) > TINY.target_epsilon
    assert picture.read_bytes()[:4] == b"\x89PNG"

    printed, progress = capfd.readouterr()
    shown = ja.reporting.shown(outcome.epsilon)
    assert f"The guard stopped the run after 8 steps: epsilon {shown}," in printed
    assert f"epsilon = {shown} at delta = 1e-05" in printed
    assert "8/8 [" in progress
    assert f"epsilon={shown}" in progress


def test_table_is_what_the_hook_reports() -> None:
    plan = _loop.make_plan(TINY)
    for count in range(plan.max_releases + 1):
        state = training.ReleaseCountState(jnp.array([count], jnp.int32))
        assert plan.spent(count) == training.privacy_spent(state, plan.run, TINY.target_delta)


def test_overflowing_batches_change_nothing(straight: demo.Outcome, parts: Any) -> None:
    """With room for half a batch: the same run."""
    trainer, state = parts
    halves = trainer._replace(data=trainer.data.microbatches(200))
    assert {len(_batches.filled(batch).mask) for batch in halves.data} == {2}
    state = _loop._train(halves, _loop.make_plan(TINY), state, lambda state: None)
    assert training.release_counts(state.opt_state).tolist() == [straight.num_releases]
    assert _norm(jax.tree.map(jnp.subtract, state.params, straight.state.params)) < 1e-4


def test_nothing_is_compiled_twice() -> None:
    trainer, state = _loop._begin(demo.Settings(seed=1), _loop.make_plan(TINY))
    for number in (0, 30, 40):  # an empty batch, and others
        state = _loop._advance(trainer, state, _batch(number, trainer.data[0].mask.shape[1]))
    assert trainer.programs.step._cache_size() == 1
    assert training.release_counts(state.opt_state).tolist() == [3]


def _interrupt_after(monkeypatch: pytest.MonkeyPatch, num_steps: int) -> None:
    show, calls = _loop._show, itertools.count(1)

    def interrupted(*args: Any) -> None:
        show(*args)
        if next(calls) == num_steps:
            raise KeyboardInterrupt

    monkeypatch.setattr(_loop, "_show", interrupted)


@pytest.mark.parametrize("num_steps", [3, 4, 5])
def test_interrupt_and_resume(
    num_steps: int, straight: demo.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same count, epsilon, parameters and accuracies as without, wherever in an epoch it was interrupted."""
    with monkeypatch.context() as patch:
        _interrupt_after(patch, num_steps)
        broken = demo.run(TINY, checkpoint=tmp_path)
    assert not broken.is_finished
    assert broken.num_releases == num_steps
    epochs = math.ceil(num_steps / 4)
    assert broken.epsilon == ja.epsilon(ja.RandomAllocation(ja.Gaussian(2.0), 4, 1, epochs), TINY.target_delta)

    resumed = demo.run(TINY, checkpoint=tmp_path, resume=True)
    assert resumed.is_finished
    assert (resumed.num_releases, resumed.epsilon) == (straight.num_releases, straight.epsilon)
    jax.tree.map(np.testing.assert_array_equal, resumed.state, straight.state)
    assert np.array_equal(resumed.accuracies, straight.accuracies)

    again = demo.run(TINY, checkpoint=tmp_path, resume=True)  # the budget is spent: nothing more is released
    jax.tree.map(np.testing.assert_array_equal, again.state, straight.state)


def test_checkpoint_is_neither_lost_nor_continued_otherwise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no run to resume"):
        demo.run(TINY, checkpoint=tmp_path, resume=True)
    with pytest.raises(ValueError, match="needs the checkpoint"):
        demo.run(TINY, resume=True)
    demo.run(TINY, checkpoint=tmp_path / "kept")
    with pytest.raises(ValueError, match="holds a run"):
        demo.run(TINY, checkpoint=tmp_path / "kept")
    other = demo.Settings(target_epsilon=1.6, noise_multiplier=2.0, num_steps=4, seed=1)
    with pytest.raises(ValueError, match="seed=1 must be 0"):
        demo.run(other, checkpoint=tmp_path / "kept", resume=True)


def test_fewer_epochs_than_the_budget_affords() -> None:
    settings = demo.Settings(target_epsilon=1.6, num_steps=4, num_epochs=1)
    plan = demo.make_plan(settings)
    assert (plan.max_releases, plan.affordable) == (4, 8)
    assert plan.spent(4) == ja.epsilon(settings.allocation(1), settings.target_delta)


def test_budget_too_small_for_an_epoch() -> None:
    with pytest.raises(ValueError, match=r"target_epsilon=0.1 must be >= .* what one epoch costs"):
        demo.run(demo.Settings(target_epsilon=0.1, num_steps=4))


@pytest.mark.parametrize(
    "fields", [{"seed": -1}, {"seed": 0.5}, {"num_epochs": 0}, {"num_selected": 21}, {"noise_multiplier": 0.0}]
)
def test_settings_are_checked(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(fields))}="):
        demo.Settings(**fields)


# The command


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--target-epsilon", "1.6", "--steps-per-epoch", "4", "--out", str(tmp_path / "a.png")]
    arguments += ["--checkpoint", str(tmp_path / "run")]
    with monkeypatch.context() as patch:
        _interrupt_after(patch, 3)
        assert demo.main(arguments) == 130
    assert "Interrupted after 3 of 8 steps" in capsys.readouterr().out
    assert not (tmp_path / "a.png").exists()
    assert demo.main([*arguments, "--resume"]) == 0
    assert "Resumed after 3 steps" in capsys.readouterr().out
    assert (tmp_path / "a.png").exists()
    with pytest.raises(SystemExit) as stopped:
        demo.main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("jaxacct demo: error: --checkpoint=")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--out nothing/x.png", "--out nothing/x.png: 'nothing' is not a directory that can be written to"),
        ("--out x.nothing", "--out x.nothing: its ending must be one of"),
        ("--epochs 0", "--epochs=0 must be a whole number"),
        ("--delta 2", "--delta=2.0 must be in (0, 1)"),
        ("--resume", "--resume needs the checkpoint to resume from"),
        ("--checkpoint file/run", "Not a directory"),
    ],
)
def test_wrong_options_are_told_before_anything_is_trained(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as stopped:
        demo.main(line.split())
    words = capsys.readouterr()
    assert stopped.value.code == 2
    assert words.err.count("\n") == 1
    assert said in words.err


def test_command_names_what_is_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "tqdm" else name)
    with pytest.raises(SystemExit):
        demo.main([])
    assert capsys.readouterr().err == "jaxacct demo: error: needs tqdm: pip install 'jaxacct[demo]'\n"


@pytest.mark.slow
def test_whole_demonstration_and_ctrl_c(tmp_path: Path) -> None:
    """A long run in a process of its own: interrupted by a signal, resumed, and better than 85 % at the end."""
    code = "import sys; from jaxacct.demo import main; sys.exit(main(sys.argv[1:]))"
    out, kept = str(tmp_path / "demo.png"), str(tmp_path / "run")
    command = [sys.executable, "-W", "error", "-c", code, "--out", out, "--checkpoint", kept, "--target-epsilon", "6"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
    assert process.stderr is not None
    progress = ""
    while "accuracy=" not in progress:  # the first epoch is over
        piece = process.stderr.read(1)
        assert piece, progress
        progress += piece
    process.send_signal(signal.SIGINT)
    printed, progress = process.communicate()
    assert process.returncode == 130, printed + progress
    assert "Interrupted after " in printed

    finished = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=True).stdout
    settings = demo.Settings()
    affordable = training.steps_affordable(training.Epoch(settings.allocation(), 20), 6.0, 1e-5)
    run = settings.allocation(affordable // 20)
    shown = ja.reporting.shown(ja.epsilon(run, 1e-5))
    assert f"stopped the run after {affordable} steps: epsilon {shown}, test accuracy " in finished
    assert f"epsilon = {shown} at delta = 1e-05" in finished
    accuracy = float(finished.partition("test accuracy ")[2].partition(" %")[0])
    assert accuracy > 85.0


def test_audit_is_told_beside_what_is_certified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--target-epsilon", "1.6", "--steps-per-epoch", "4", "--audit", "--out", str(tmp_path / "a.png")]
    assert demo.main(arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "epsilon at delta = 1e-05: measured and certified" in printed
    assert "1437 canaries" in printed
    assert "It is not an upper bound" in printed
    assert (tmp_path / "a-audit.png").exists()
