"""Sweeps on executors: the same file to the last bit on each of them, whatever dies, is late or comes back twice."""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import pathlib
import signal
import threading

import numpy as np
import pytest
from support.deadly import square_unless_it_kills

import jaxacct as ja
from jaxacct.sweeping import SweepFailedError, SweepInterrupted, Workers, _run, one_thread, sweep
from jaxacct.workers import Spread, processes

ROOT = pathlib.Path(__file__).parents[2]
SIGMAS, STEPS = np.linspace(1.0, 2.0, 16), np.arange(1, 31)
ALLOCATION = ja.RandomAllocation(ja.Gaussian(None), num_steps=None)
GRID = {"noise_multiplier": SIGMAS, "num_steps": STEPS}
ON_LANES = {"target_delta": 1e-6, "orders": [2.0, 3.0, 8.0], "direction": ja.Direction.REMOVE, "chunk_size": 16}
# of Gaussian releases, on the host, point by point
POISSON = ja.PoissonSampled(ja.Gaussian(None), None, 100)
EXACT = {"noise_multiplier": np.linspace(0.9, 2.0, 12), "sampling_prob": [0.01, 0.02]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of both sweeps, by this process alone."""
    folder = tmp_path_factory.mktemp("whole")
    sweep(ALLOCATION, GRID, out=folder / "lanes.csv", executor=1, **ON_LANES)
    sweep(POISSON, EXACT, out=folder / "exact.csv", executor=1, target_delta=1e-6)
    return folder


class Scrambled(concurrent.futures.Executor):
    """Runs in this process what it was given, last first, once so much was given; `spoil` may fail a task."""

    def __init__(self, batch=4, spoil=lambda count, future: False):
        self.batch, self.spoil, self.count, self.waiting = batch, spoil, 0, []

    def submit(self, fn, *args):
        self.count += 1
        future = concurrent.futures.Future()
        if not self.spoil(self.count, future):
            self.waiting.append((future, fn, args))
        if len(self.waiting) >= self.batch:
            self.flush()
        else:
            threading.Timer(0.1, self.flush).start()
        return future

    def flush(self):
        waiting, self.waiting = self.waiting, []
        for future, fn, args in reversed(waiting):
            if future.set_running_or_notify_cancel():
                future.set_result(fn(*args))


def test_any_order_gives_the_same_file(tmp_path, whole):
    for batch in (1, 4, 7):
        out = tmp_path / f"{batch}.csv"
        found = sweep(ALLOCATION, GRID, out=out, executor=Scrambled(batch), **ON_LANES)
        assert out.read_bytes() == (whole / "lanes.csv").read_bytes()
        assert found.num_done == 480
        assert found.num_again == 0
        assert os.listdir(tmp_path).count(out.name + ".later") == 0


def test_threads_give_the_same(tmp_path, whole):
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        sweep(ALLOCATION, GRID, out=tmp_path / "x.csv", executor=executor, **ON_LANES)
    assert (tmp_path / "x.csv").read_bytes() == (whole / "lanes.csv").read_bytes()


def test_failed_tasks_are_sent_again_and_counted(tmp_path, whole):
    def spoil(count, future):
        if count in (2, 5, 9):
            future.set_exception(OSError("the worker was lost"))
        return count in (2, 5, 9)

    found = sweep(ALLOCATION, GRID, out=tmp_path / "x.csv", executor=Scrambled(3, spoil), **ON_LANES)
    assert (tmp_path / "x.csv").read_bytes() == (whole / "lanes.csv").read_bytes()
    assert found.num_again >= 3


def test_late_tasks_are_sent_again_and_the_first_answer_counts(tmp_path, whole):
    late = []

    class Late(Scrambled):
        def submit(self, fn, *args):
            if len(late) < 2:  # it comes back, long after it was sent again
                future = concurrent.futures.Future()
                future.set_running_or_notify_cancel()
                late.append(future)
                threading.Timer(1.3, lambda: future.set_result(fn(*args))).start()
                return future
            return super().submit(fn, *args)

    workers = Workers(Late(1), num_workers=2, timeout=0.2)
    found = sweep(ALLOCATION, GRID, out=tmp_path / "x.csv", executor=workers, **ON_LANES)
    assert (tmp_path / "x.csv").read_bytes() == (whole / "lanes.csv").read_bytes()
    assert found.num_again == 2


def test_chunks_that_fail_for_good_are_listed_and_resumed(tmp_path, whole):
    out = tmp_path / "x.csv"

    class Poisoned(Scrambled):
        def submit(self, fn, call, chunks, *rest):
            bad = [(c["noise_multiplier"] == SIGMAS[3]) & (c["num_steps"] == 7) for c in chunks]
            if not np.any(np.concatenate(bad)):
                return super().submit(fn, call, chunks, *rest)
            future = concurrent.futures.Future()
            future.set_exception(MemoryError("too much"))
            return future

    with pytest.raises(SweepFailedError, match=r"1 chunks failed .*464 of 480 .* points 96 to 111.*MemoryError"):
        sweep(ALLOCATION, GRID, out=out, executor=Poisoned(100), **ON_LANES)
    with pytest.raises(SweepFailedError) as caught:
        sweep(ALLOCATION, GRID, out=out, resume=True, executor=Poisoned(100), **ON_LANES)
    (failed,) = caught.value.failed
    assert (failed.number, failed.attempts) == (6, 3)
    assert np.all(np.isinf(caught.value.partial.values.reshape(-1)[96:112]))
    assert caught.value.partial.columns()["epsilon"].size == 464
    asked = []
    sweep(ALLOCATION, GRID, out=out, resume=True, progress=lambda done, _: asked.append(done), **ON_LANES)
    assert asked == [464, 480]  # the file has what came after the gap
    assert out.read_bytes() == (whole / "lanes.csv").read_bytes()
    assert not pathlib.Path(f"{out}.later").exists()


def test_a_second_file_that_was_cut_off_loses_only_its_last_line(tmp_path, whole):
    out, later = tmp_path / "x.csv", tmp_path / "x.csv.later"

    def never_the_first(count, future):
        if count == 1:
            future.set_exception(OSError("lost"))
        return count == 1

    workers = Workers(Scrambled(1, never_the_first), num_workers=4, attempts=1)
    with pytest.raises(SweepFailedError):
        sweep(ALLOCATION, GRID, out=out, executor=workers, **ON_LANES)
    data, begun = later.read_bytes(), out.read_bytes()
    for size in range(len(data) - 700, len(data), 23):
        later.write_bytes(data[:size])
        out.write_bytes(begun)
        sweep(ALLOCATION, GRID, out=out, resume=True, executor=1, **ON_LANES)
        assert out.read_bytes() == (whole / "lanes.csv").read_bytes()
        assert not later.exists()


def test_interrupted_on_an_executor(tmp_path, whole):
    def stop(done, total):
        if done >= 200:
            raise KeyboardInterrupt

    out = tmp_path / "x.csv"
    with pytest.raises(SweepInterrupted) as caught:
        sweep(ALLOCATION, GRID, out=out, executor=Scrambled(5), progress=stop, **ON_LANES)
    assert caught.value.partial.num_done == caught.value.partial.to_numpy().size >= 200
    found = sweep(ALLOCATION, GRID, out=out, resume=True, executor=Scrambled(5), **ON_LANES)
    assert found.num_done == 480
    assert out.read_bytes() == (whole / "lanes.csv").read_bytes()


def test_what_cannot_be_sent_is_refused():
    def half(losses):
        return np.full(np.shape(losses), 0.5)

    pair = ja.ContinuousPair(half, half, half, half, -1.0, 1.0)
    run = ja.Composed((pair, ja.Gaussian(None)))
    with pytest.raises(ValueError, match="cannot be sent what is asked"):
        sweep(run, {"mechanisms.1.noise_multiplier": [1.0]}, target_delta=1e-6, executor=Scrambled())


def test_bad_executors():
    ask = functools.partial(sweep, ALLOCATION, GRID, **ON_LANES)
    for executor, message in (
        (0, "executor=0 must be a number of processes >= 1"),
        ("dask", "executor='dask' must be a concurrent.futures.Executor"),
        (2.5, "executor=2.5 must be"),
        (True, "executor=True must be"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(executor=executor)
    for options, message in (
        ({"num_workers": 0}, "num_workers=0 must be a whole number >= 1"),
        ({"attempts": 1.5}, "attempts=1.5 must be a whole number >= 1"),
        ({"timeout": 0}, "timeout=0 must be a number of seconds > 0"),
        ({"task_seconds": None}, "task_seconds=None must be"),
    ):
        with pytest.raises(ValueError, match=message):
            Workers(Scrambled(), **options)


# On processes


def _pool():
    return concurrent.futures.ProcessPoolExecutor(
        2, mp_context=multiprocessing.get_context("spawn"), initializer=one_thread
    )


def test_a_chunk_that_kills_its_worker_alone_fails_for_good(tmp_path):
    """Although each pool that it kills loses every task that was sent to it."""
    (tmp_path / "always").touch()
    ask = functools.partial(square_unless_it_kills, tmp_path)
    spread = Spread(Workers(lambda: processes(2), num_workers=2), ask, int, range(40), 40)
    assert dict(filter(None, spread)) == {n: n * n for n in range(40) if n != 13}
    assert list(spread.failed) == [13]
    assert spread.failed[13].attempts == 3


def test_a_pool_given_ready_made_that_breaks_is_replaced(tmp_path):
    ask = functools.partial(square_unless_it_kills, tmp_path)
    with _pool() as executor:
        spread = Spread(Workers(executor), ask, int, range(40), 40)
        with pytest.warns(RuntimeWarning, match="2 processes of this machine take its place"):
            found = dict(filter(None, spread))
    assert found == {n: n * n for n in range(40)}
    assert 1 <= spread.num_again <= 40


def test_processes_one_of_them_killed(tmp_path, whole):
    """A worker of the real thing is killed by its id while the sweep runs; the file is the same."""
    pools = []

    def make():
        pools.append(_pool())
        return pools[-1]

    def kill_one(done, total):
        if done >= 4 and len(pools) == 1:
            with contextlib.suppress(ProcessLookupError):  # it is gone already
                os.kill(next(iter(pools[0]._processes)), signal.SIGKILL)

    out = tmp_path / "x.csv"
    workers = Workers(make, num_workers=2, task_seconds=0.01)
    found = sweep(POISSON, EXACT, out=out, executor=workers, target_delta=1e-6, progress=kill_one)
    assert len(pools) >= 2
    assert found.num_again >= 1
    assert out.read_bytes() == (whole / "exact.csv").read_bytes()


# Processes that join by themselves


def test_processes_join_where_they_gain_and_what_they_fail_is_done_here(tmp_path, whole, monkeypatch):
    def lost(count, future):
        future.set_exception(OSError("the worker was lost"))
        return True

    monkeypatch.setattr(_run, "_LOOK", 0.0)
    for number, executor in enumerate((Scrambled(3), Scrambled(3, lost))):
        monkeypatch.setattr(_run, "_worth_it", lambda here, cores_used, executor=executor: Workers(executor))
        out = tmp_path / f"{number}.csv"
        assert sweep(ALLOCATION, GRID, out=out, **ON_LANES).num_done == 480
        assert executor.count >= 3
        assert out.read_bytes() == (whole / "lanes.csv").read_bytes()


def test_processes_join_only_where_cores_are_idle_and_much_is_left(monkeypatch):
    monkeypatch.setattr(_run, "num_cores", lambda: 2)
    assert _run._worth_it(100.0, 1.0).num_workers == 2
    assert _run._worth_it(20.0, 1.0) is None  # sooner done than they start
    assert _run._worth_it(1e6, 1.9) is None  # both cores are busy
    monkeypatch.setattr(_run, "num_cores", lambda: 1)
    assert _run._worth_it(1e6, 1.0) is None
    monkeypatch.setattr(_run, "num_cores", lambda: 128)
    assert _run._worth_it(1e6, 1.0).num_workers == 16


# Other questions


def test_a_batch_is_calibrated_point_by_point_on_any_executor():
    run = ja.PoissonSampled(ja.Gaussian(None), np.array([0.01, 0.02]), 100)
    targets = np.array([[0.5], [1.0], [2.0]])
    ask = functools.partial(ja.calibrate, run, "noise_multiplier", targets, 1e-6)
    found = ask(executor=Scrambled(4))
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found, ask(), rtol=1e-6)
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(ask(executor=executor), found)
    assert np.all(ja.epsilon(ja.PoissonSampled(ja.Gaussian(found), [0.01, 0.02], 100), 1e-6) <= targets)
    releases = ja.Composed(ja.Gaussian([8.0, 16.0]), None)
    counts = ja.calibrate(releases, "counts", 1.0, 1e-6, executor=Scrambled(1))
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, ja.calibrate(releases, "counts", 1.0, 1e-6))
    with pytest.raises(ValueError, match=r"no counts meets .* at index \(1,\)"):
        ja.calibrate(releases, "counts", [1.0, 1e-3], 1e-6, executor=Scrambled(1))


def test_quick_calibration_on_an_executor():
    run, targets = ja.Composed(ja.Gaussian(None), np.arange(1, 301)), np.linspace(0.5, 5.0, 300)
    ask = functools.partial(ja.calibrate, run, "noise_multiplier", targets, 1e-6, precision=np.inf)
    np.testing.assert_allclose(ask(executor=Scrambled(1)), ask(), rtol=2e-6)


def test_a_batch_is_compared_point_by_point_on_an_executor():
    probs = np.array([0.01, 0.02])
    run = ja.PoissonSampled(ja.Gaussian(1.0), probs, 100)
    found = ja.compare(run, 1e-6, executor=Scrambled(2))
    lines = {(line.method, line.direction, line.bound): line for line in found}
    assert len(lines) == len(found)
    for number, prob in enumerate(probs):
        for entry in ja.compare(ja.PoissonSampled(ja.Gaussian(1.0), prob, 100), 1e-6):
            line = lines[entry.method, entry.direction, entry.bound]
            assert line.value.shape == line.order.shape == line.at_order_edge.shape == (2,)
            assert line.value[number] == pytest.approx(entry.value, rel=1e-12)
            assert line.theorem == entry.theorem
    assert len(found) > len(ja.compare(run, 1e-6))  # the host's methods too


def test_what_fails_on_every_worker_is_said():
    def lost(count, future):
        future.set_exception(OSError("no disk"))
        return True

    with pytest.raises(RuntimeError, match=r"2 of 2 chunks failed for good.* after 3 attempts: OSError: no disk"):
        ja.compare(ja.Gaussian([1.0, 2.0]), 1e-6, executor=Scrambled(1, lost))
