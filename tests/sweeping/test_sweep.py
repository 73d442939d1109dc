"""Sweeps: every point as asked by itself, saved as they go, resumed to the last bit, spread over devices."""

import csv
import importlib.util
import io
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._precision._devices import lanes_over
from jaxacct._precision._ways import of_many_points
from jaxacct.accounting import _curves
from jaxacct.answering import plan, question_of
from jaxacct.mechanisms._fields import find_field, with_fields
from jaxacct.sweeping import Layout, SweepInterrupted, sweep
from jaxacct.sweeping._file import SweepFile

TOL_CLOSE = 1e-13  # the same lane in a program of another size or on another device, relative
ROOT = pathlib.Path(__file__).parents[2]
SIGMAS, STEPS = np.linspace(1.0, 2.0, 5), np.array([10, 100, 1000])
ALLOCATION = ja.RandomAllocation(ja.Gaussian(None), num_steps=None)
GRID = {"noise_multiplier": SIGMAS, "num_steps": STEPS}
ORDERS = [2.0, 3.0, 5.0, 8.0, 16.0, 32.0]
SMALL = {"target_delta": 1e-6, "orders": ORDERS, "direction": ja.Direction.REMOVE}


def by_hand(sigma, num_steps):
    curve = ja.rdp(ja.RandomAllocation(ja.Gaussian(sigma), num_steps), ORDERS, direction=ja.Direction.REMOVE)
    return ja.epsilon(curve, 1e-6)


def test_every_combination():
    found = sweep(ALLOCATION, GRID, **SMALL)
    assert found.values.shape == (5, 3)
    assert found.bound is ja.Bound.UPPER
    assert found.num_done == 15
    np.testing.assert_allclose(found.values, by_hand(SIGMAS[:, None], STEPS), rtol=TOL_CLOSE)


def test_side_by_side():
    grid = {"num_steps": STEPS, "noise_multiplier": SIGMAS[:3]}
    found = sweep(ALLOCATION, grid, layout=Layout.ZIPPED, **SMALL)
    np.testing.assert_allclose(found.values, by_hand(SIGMAS[:3], STEPS), rtol=TOL_CLOSE)
    with pytest.raises(ValueError, match="their lengths must be equal"):
        sweep(ALLOCATION, GRID, layout=Layout.ZIPPED, **SMALL)


def test_questions():
    gaussian = ja.Gaussian(None)
    deltas = sweep(gaussian, {"noise_multiplier": SIGMAS}, target_epsilon=1.0)
    assert deltas.quantity == "delta"
    np.testing.assert_allclose(deltas.values, ja.delta(ja.Gaussian(SIGMAS), 1.0), rtol=TOL_CLOSE)
    targets = np.array([1e-8, 1e-6, 1e-4])
    found = sweep(gaussian, {"target_delta": targets, "noise_multiplier": SIGMAS})
    np.testing.assert_allclose(found.values, ja.epsilon(ja.Gaussian(SIGMAS), targets[:, None]), rtol=TOL_CLOSE)
    rdp = sweep(gaussian, {"noise_multiplier": SIGMAS}, target_delta=1e-6, method="rdp")
    np.testing.assert_allclose(rdp.values, ja.epsilon(ja.Gaussian(SIGMAS), 1e-6, method="rdp"), rtol=TOL_CLOSE)
    exact = sweep(ALLOCATION, {"num_steps": [100, 1000], "noise_multiplier": [1.0]}, target_delta=1e-6)
    np.testing.assert_allclose(exact.values[:, 0], [0.857985977, 0.1717286846], rtol=1e-8)
    lower = sweep(
        ja.Shuffled(ja.LocalRandomizer(1.0), num_reports=1000),
        {"local_epsilon": [0.5, 1.0]},
        target_delta=1e-6,
        method="binary randomized response",
    )
    assert lower.bound is ja.Bound.LOWER


def test_chunks_change_nothing_and_one_program_serves_them_all():
    _curves._RDP.of.cache_clear()
    with of_many_points():
        whole = sweep(ALLOCATION, GRID, chunk_size=4, **SMALL)
    single = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=10)
    kernel = _curves._RDP.of(jax.tree.structure(single))
    assert kernel.num_traces == 1
    for chunk_size in (1, 7, 15, 1000):
        np.testing.assert_allclose(
            sweep(ALLOCATION, GRID, chunk_size=chunk_size, **SMALL).values, whole.values, rtol=TOL_CLOSE
        )


def test_tables(tmp_path):
    found = sweep(ALLOCATION, GRID, **SMALL)
    records = found.to_numpy()
    assert records.dtype.names == ("noise_multiplier", "num_steps", "epsilon")
    assert records.num_steps.dtype.kind == "i"
    np.testing.assert_array_equal(records.epsilon, found.values.reshape(-1))
    assert (records[4].noise_multiplier, records[4].num_steps) == (SIGMAS[1], 100)
    found.to_csv(tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["epsilon"]) for row in rows] == found.values.reshape(-1).tolist()
    assert [int(row["num_steps"]) for row in rows] == records.num_steps.tolist()


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_a_frame():
    found = sweep(ALLOCATION, GRID, **SMALL)
    assert list(found.to_pandas().columns) == ["noise_multiplier", "num_steps", "epsilon"]


def test_progress(capsys, monkeypatch):
    seen = []
    sweep(ALLOCATION, GRID, chunk_size=4, progress=lambda done, total: seen.append((done, total)), **SMALL)
    assert seen == [(0, 15), (4, 15), (8, 15), (12, 15), (15, 15)]
    monkeypatch.setitem(sys.modules, "tqdm", None)
    sweep(ALLOCATION, GRID, progress=True, **SMALL)
    assert "sweep: 15 of 15 points" in capsys.readouterr().err
    monkeypatch.undo()
    if importlib.util.find_spec("tqdm") is not None:
        sweep(ALLOCATION, GRID, progress=True, **SMALL)
        assert "15/15" in capsys.readouterr().err


class Stop:
    """Raises `error` when so many points are done."""

    def __init__(self, after, error):
        self.after, self.error = after, error

    def __call__(self, done, total):
        if done >= self.after:
            raise self.error


def test_an_interrupted_sweep_keeps_what_is_done(tmp_path):
    whole = sweep(ALLOCATION, GRID, chunk_size=4, out=tmp_path / "whole.csv", **SMALL)
    out = tmp_path / "sweep.csv"
    with pytest.raises(SweepInterrupted) as caught:
        sweep(ALLOCATION, GRID, chunk_size=4, out=out, progress=Stop(8, KeyboardInterrupt), **SMALL)
    partial = caught.value.partial
    assert partial.num_done == 8
    np.testing.assert_array_equal(partial.to_numpy(), whole.to_numpy()[:8])
    assert np.all(np.isinf(partial.values.reshape(-1)[8:]))
    resumed = sweep(ALLOCATION, GRID, chunk_size=4, out=out, resume=True, **SMALL)
    np.testing.assert_array_equal(resumed.values, whole.values)


def test_a_file_is_resumed_to_the_last_bit(tmp_path):
    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    found = sweep(ALLOCATION, GRID, chunk_size=4, out=whole, **SMALL)
    data = whole.read_bytes()
    header = data.index(b"\n") + 1
    settings = tmp_path / "whole.csv.json"
    (tmp_path / "part.csv.json").write_bytes(settings.read_bytes())
    asked = []
    for size in (*range(0, len(data), 97), 10, header - 1, header, header + 1, len(data) - 1, len(data)):
        part.write_bytes(data[:size])  # killed while it was written
        asked.clear()
        again = sweep(
            ALLOCATION,
            GRID,
            chunk_size=4,
            out=part,
            resume=True,
            progress=lambda done, _: asked.append(done),
            **SMALL,
        )
        assert part.read_bytes() == data
        np.testing.assert_array_equal(again.values, found.values)
        assert asked[0] == (
            0 if size < header else min(data[header:size].count(b"\n") // 4 * 4 + 3 * (size == len(data)), 15)
        )
    lines = list(csv.DictReader(io.StringIO(data.decode())))
    assert [float(line["epsilon"]) for line in lines] == found.values.reshape(-1).tolist()
    assert json.loads(settings.read_text())["chunk_size"] == 4


def test_a_file_of_another_sweep_is_refused(tmp_path):
    out = tmp_path / "sweep.csv"
    sweep(ALLOCATION, GRID, out=out, **SMALL)
    data = out.read_bytes()
    with pytest.raises(ValueError, match="exists: resume=True continues it"):
        sweep(ALLOCATION, GRID, out=out, **SMALL)
    for change, name in (
        ({"target_delta": 1e-7}, "target=1e-06 there, 1e-07 here"),
        ({"direction": None}, "direction='remove' there, None here"),
        ({"orders": [2.0]}, "orders="),
        ({"chunk_size": 3}, "chunk_size=128 there, 3 here"),
    ):
        with pytest.raises(ValueError, match=f"holds another sweep: .*{name}"):
            sweep(ALLOCATION, GRID, out=out, resume=True, **{**SMALL, **change})
    with pytest.raises(ValueError, match="holds another sweep: grid="):
        sweep(ALLOCATION, {**GRID, "noise_multiplier": SIGMAS + 1e-12}, out=out, resume=True, **SMALL)
    with pytest.raises(ValueError, match="holds another sweep: numbers="):
        sweep(ja.RandomAllocation(ja.Gaussian(None), None, 1, 2), GRID, out=out, resume=True, **SMALL)
    assert out.read_bytes() == data
    there = json.loads(out.with_suffix(out.suffix + ".json").read_text())["mechanism"]
    assert there == (  # the text of JAX's trees is another where JAX was imported
        "RandomAllocation(mechanism=Gaussian(noise_multiplier=unknown), num_steps=unknown, num_selected=unknown, "
        "num_epochs=unknown)"
    )
    out.write_bytes(data.replace(b"\n1.25,", b"\n1.26,", 1))
    with pytest.raises(ValueError, match="row 3 is not one of this sweep"):
        sweep(ALLOCATION, GRID, out=out, resume=True, **SMALL)
    (tmp_path / "sweep.csv.json").unlink()
    with pytest.raises(ValueError, match=r"needs its settings beside it, in .*sweep.csv.json"):
        sweep(ALLOCATION, GRID, out=out, resume=True, **SMALL)
    out.write_text("something else\n")
    with pytest.raises(ValueError, match="is not the file of a sweep"):
        sweep(ALLOCATION, GRID, out=out, resume=True, **SMALL)
    assert out.read_text() == "something else\n"


def test_bad_arguments():
    for change, message in (
        ({"target_delta": None}, "exactly one of"),
        ({"target_epsilon": 1.0}, "exactly one of"),
        ({"target_delta": 2.0}, "target_delta=2.0 must be"),
        ({"orders": [0.5]}, "orders=0.5 in an array must be"),
        ({"method": "direct"}, "they leave no choice"),
        ({"chunk_size": 0}, "chunk_size=0 must be"),
        ({"chunk_size": 2.5}, "chunk_size=2.5 must be a whole number"),
        ({"chunk_size": "2"}, "chunk_size='2' must be"),
        ({"target_delta": np.array([1e-6, 1e-5])}, r"target_delta=array.* must be one number: .* the grid"),
        ({"target_delta": [1e-6]}, r"target_delta=\[1e-06\] must be one number"),
        ({"target_delta": "1e-6"}, "target_delta='1e-6' must be"),
        ({"layout": "grid"}, "layout='grid' must be"),
    ):
        with pytest.raises(ValueError, match=message):
            sweep(ALLOCATION, GRID, **{**SMALL, **change})
    for grid, message in (
        (5, "grid=5 must be a mapping"),
        ({}, "must name at least one field"),
        ({"sigma": SIGMAS}, "field='sigma' is not a field"),
        ({**GRID, "noise_multiplier": [[1.0]]}, "must be a one-dimensional array"),
        ({**GRID, "noise_multiplier": ["1"]}, "must be a one-dimensional array"),
        ({**GRID, "noise_multiplier": [1.0, -1.0]}, "noise_multiplier=-1.0 in an array must be > 0"),
        ({**GRID, "mechanism.noise_multiplier": [1.0]}, "names a field twice"),
        ({**GRID, "target_delta": [1e-6]}, "exactly one of"),
    ):
        with pytest.raises(ValueError, match=message):
            sweep(ALLOCATION, grid, **SMALL)
    with pytest.raises(ValueError, match="must have scalar fields"):
        sweep(ja.RandomAllocation(ja.Gaussian(SIGMAS), None), {"num_steps": STEPS}, **SMALL)


@pytest.mark.parametrize(
    ("mechanism", "at_once"),
    [
        (ja.RandomAllocation(ja.Gaussian(1.0), 1000, num_epochs=10), 16),  # bracketed together
        (ja.Laplace(1.0), 20),  # microseconds each
        (ja.PoissonSampled(ja.Laplace(1.0), 0.01, 1000), 1),  # slow ones may follow the quick one
    ],
)
def test_points_of_the_host_are_asked_together_where_that_spares_time(mechanism, at_once):
    seen, sigmas = [], np.linspace(0.9, 1.4, 20)
    found = sweep(
        mechanism, {"noise_multiplier": sigmas}, target_delta=1e-6, progress=lambda done, _: seen.append(done)
    )
    assert seen[:2] == [0, at_once]
    assert seen[-1] == sigmas.size
    for i in (0, 19):
        alone = ja.epsilon(with_fields(mechanism, {find_field(mechanism, "noise_multiplier"): sigmas[i]}), 1e-6)
        np.testing.assert_allclose(found.values[i], alone, rtol=1e-6)


def run_script(script, *args, devices=1, **options):
    env = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", script, *map(str, args)]
    return subprocess.Popen(command, cwd=ROOT, env=env, **options)


SHARDED = """
import sys
import jax, numpy as np
import jaxacct as ja
from jaxacct.sweeping import sweep

run = ja.RandomAllocation(ja.Gaussian(None), num_steps=None)
grid = {"noise_multiplier": np.linspace(1.0, 2.0, 19), "num_steps": np.array([10, 100, 1000])}
mesh = jax.make_mesh((len(jax.devices()),), ("points",))
how = dict(target_delta=1e-6, orders=[2.0, 3.0, 8.0, 32.0], chunk_size=30)
assert len(jax.devices()) == 8
whole, spread = sweep(run, grid, **how), sweep(run, grid, mesh=mesh, **how)
np.testing.assert_allclose(spread.values, whole.values, rtol=float(sys.argv[1]))
gaussian = {"noise_multiplier": [1.0, 2.0, 3.0]}  # fewer points than devices
one, more = (sweep(ja.Gaussian(None), gaussian, target_delta=1e-6, mesh=m).values for m in (None, mesh))
np.testing.assert_allclose(more, one, rtol=float(sys.argv[1]))
run = ja.PoissonSampled(ja.Gaussian(None), 0.01, None)
how = dict(target_delta=1e-6)
whole, spread = sweep(run, grid, **how), sweep(run, grid, mesh=mesh, **how)
assert np.all((whole.values <= spread.values * (1 + 1e-3)) & (spread.values <= 1.003 * whole.values))
inside = jax.jit(lambda noise: ja.epsilon(ja.PoissonSampled(ja.Gaussian(noise), 0.01, 1000), 1e-6))
np.testing.assert_allclose(spread.values[:2, 2], [inside(x) for x in grid["noise_multiplier"][:2]], rtol=1e-6)
print("done")
"""


def test_devices_answer_by_laws_unless_more_is_asked():
    runs = ja.PoissonSampled(ja.Gaussian(np.array([1.0, 2.0])), 0.01, 100)
    mesh = jax.make_mesh((1,), ("points",))

    def names(**how):
        return {step.method.name for step in plan(question_of(how.pop("of", runs), Query.EPSILON, 1e-6, **how))}

    with lanes_over(mesh):
        assert names() == names(precision=math.inf) == {"laws", "no amplification", "participation"}  # no host's method
        assert "laws" not in names(precision=1e-4)
        assert names(method="rdp") == {"rdp"}
        assert names(of=ja.Gaussian(1.0)) == {"exact"}
    assert "laws" not in names() | names(precision=math.inf)


@pytest.mark.more
def test_eight_devices_give_the_same():
    child = run_script(SHARDED, TOL_CLOSE, devices=8, stdout=subprocess.PIPE)
    assert child.communicate(timeout=300)[0] == b"done\n"


KILLED = """
import sys, time
import numpy as np
import jaxacct as ja
from jaxacct.sweeping import sweep

run = ja.RandomAllocation(ja.Gaussian(None), num_steps=None)
grid = {"noise_multiplier": np.linspace(1.0, 2.0, 40), "num_steps": np.arange(10, 60)}
def slowly(done, total):
    print(done, flush=True)
    time.sleep(float(sys.argv[2]))
how = dict(target_delta=1e-6, orders=[2.0, 3.0, 8.0], direction=ja.Direction.REMOVE, chunk_size=64)
sweep(run, grid, out=sys.argv[1], resume=True, progress=slowly, **how)
"""


def test_a_killed_sweep_is_resumed(tmp_path):
    """SIGKILL half-way; the file is then the same as without."""
    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    assert run_script(KILLED, whole, 0.0, stdout=subprocess.DEVNULL).wait(timeout=300) == 0
    child = run_script(KILLED, part, 0.02, stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        if int(line) >= 1000:
            child.send_signal(signal.SIGKILL)
            break
    child.stdout.close()
    assert child.wait(timeout=60) == -signal.SIGKILL
    begun = part.read_bytes()
    assert whole.read_bytes().startswith(begun)
    assert 1000 <= begun.count(b"\n") < 2002
    assert run_script(KILLED, part, 0.0, stdout=subprocess.DEVNULL).wait(timeout=300) == 0
    assert part.read_bytes() == whole.read_bytes()


DISTRIBUTED = """
import sys
import jax, numpy as np
port, index, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=index)
import jaxacct as ja
from jaxacct.sweeping import sweep

assert jax.process_count() == 2 and len(jax.devices()) == 4
mesh = jax.make_mesh((4,), ("points",))
run = ja.RandomAllocation(ja.Gaussian(None), num_steps=None)
grid = {"noise_multiplier": np.linspace(1.0, 2.0, 19), "num_steps": np.array([10, 100, 1000])}
how = dict(target_delta=1e-6, orders=[2.0, 3.0, 8.0, 32.0], chunk_size=30)
spread = sweep(run, grid, mesh=mesh, out=out, resume=True, **how)
np.testing.assert_allclose(spread.values, sweep(run, grid, **how).values, rtol=float(sys.argv[4]))
print("done")
"""


@pytest.mark.slow
def test_two_processes_give_the_same(tmp_path):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = tmp_path / "sweep.csv"
    children = [run_script(DISTRIBUTED, port, i, out, TOL_CLOSE, devices=2, stdout=subprocess.PIPE) for i in range(2)]
    assert [child.communicate(timeout=300)[0].splitlines()[-1] for child in children] == [b"done", b"done"]
    assert out.read_bytes().count(b"\n") == 1 + 57


@pytest.mark.slow
def test_ten_thousand_points():
    """sigma x t, orders to 256: one program, bounded memory."""
    import resource

    _curves._RDP.of.cache_clear()
    grid = {"noise_multiplier": np.geomspace(0.5, 5.0, 100), "num_steps": np.arange(1, 101) * 100}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    found = sweep(ALLOCATION, grid, target_delta=1e-6, orders=range(2, 257), direction=ja.Direction.REMOVE)
    print(f"{time.process_time() - start:.1f} s of CPU")
    assert np.all(np.isfinite(found.values))
    assert np.all(np.diff(found.values, axis=0) <= 0)
    assert not math.isnan(found.values.sum())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # KiB


@pytest.mark.parametrize("is_written", [False, True])
def test_an_interrupted_write_neither_loses_nor_doubles_rows(tmp_path, monkeypatch, is_written):
    append, calls = SweepFile._append, []

    def cut_off(self, path, data):
        calls.append(path)
        if len(calls) != 2:  # the first is the header
            return append(self, path, data)
        if is_written:
            append(self, path, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepFile, "_append", cut_off)
    path = tmp_path / "rows.csv"
    with pytest.raises(SweepInterrupted) as stopped:
        sweep(ja.Gaussian(None), {"noise_multiplier": SIGMAS}, target_delta=1e-6, out=path)
    assert stopped.value.partial.num_done == len(SIGMAS)
    assert str(stopped.value).endswith(f"points: {path} holds them, resume=True goes on")
    assert [float(row.split(",")[0]) for row in path.read_text().splitlines()[1:]] == list(SIGMAS)
