"""Sweeps on Dask, on MPI and after the head was killed: each in processes of its own, the file the same."""

import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TIMEOUT = 300  # seconds, on a machine that is busy

QUESTION = """
import os, pathlib, signal, sys
import numpy as np
import jaxacct as ja
from jaxacct.sweeping import Layout, Workers, one_thread, sweep
from jaxacct.workers import processes

rng = np.random.default_rng(5)
run = ja.PoissonSampled(ja.Gaussian(None), None, None)
size = int(sys.argv[2])
grid = {
    "noise_multiplier": rng.uniform(0.8, 3.0, size),
    "sampling_prob": rng.uniform(0.001, 0.03, size),
    "num_steps": rng.integers(10, 1000, size),
}
how = dict(target_delta=1e-6, layout=Layout.ZIPPED, out=sys.argv[1], resume=True)
"""


def started(code, out, size, *before, **options):
    words = [*before, sys.executable, "-c", QUESTION + code, out, size]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([str(word) for word in words], cwd=ROOT, env=env, text=True, **options)


def finished(code, out, size, *before):
    child = started(code, out, size, *before, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, errors = child.communicate(timeout=TIMEOUT)
    assert child.returncode == 0, errors[-2000:]
    return said.split()


ALONE = "sweep(run, grid, executor=1, **how)"

DASK = """
import distributed

with (
    distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
    distributed.Client(cluster) as client,
):
    client.run(one_thread)
    first = next(iter(client.run(os.getpid).values()))

    def kill_one(done, total):
        if done >= total // 4 and (pathlib.Path("/proc") / str(first)).exists() and not killed:
            killed.append(first)
            os.kill(first, signal.SIGKILL)

    killed = []
    workers = Workers(client.get_executor(), task_seconds=0.05)
    found = sweep(run, grid, executor=workers, progress=kill_one, **how)
    print(found.num_done, len(killed))
"""


@pytest.mark.more
@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="distributed is not installed")
def test_dask_one_worker_killed(tmp_path):
    finished(ALONE, tmp_path / "whole.csv", 60)
    assert finished(DASK, tmp_path / "dask.csv", 60) == ["60", "1"]
    assert (tmp_path / "dask.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


KILLED = """
def slowly(done, total):
    print(done, flush=True)

workers = Workers(lambda: processes(2), num_workers=2, task_seconds=0.02)
sweep(run, grid, executor=workers, progress=slowly, **how)
"""


def children_of(number):
    """The ids of the processes that a process started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(number)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return "Z" not in pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_the_head_killed_and_resumed(tmp_path):
    """SIGKILL of the head: its workers end by themselves, and what is resumed is the same file."""
    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    finished(ALONE, whole, 400)
    child = started(KILLED, part, 400, stdout=subprocess.PIPE)
    for line in child.stdout:
        if int(line) >= 200:
            workers = children_of(child.pid)
            child.send_signal(signal.SIGKILL)
            break
    child.stdout.close()
    assert child.wait(timeout=60) == -signal.SIGKILL
    assert whole.read_bytes().startswith(part.read_bytes())
    deadline = time.monotonic() + 60
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_alive, workers))
    finished(KILLED, part, 400)
    assert part.read_bytes() == whole.read_bytes()
    assert not pathlib.Path(f"{part}.later").exists()


MPI = """
from mpi4py.futures import MPICommExecutor
from mpi4py import MPI

with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
    if executor is not None:
        print(sweep(run, grid, executor=executor, **how).num_done)
"""


def _has_mpi():
    if shutil.which("mpiexec") is None or importlib.util.find_spec("mpi4py") is None:
        return False
    return subprocess.run([sys.executable, "-c", "import mpi4py.MPI"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_mpi_of_two_processes(tmp_path):
    if not _has_mpi():
        pytest.skip("needs mpi4py, an MPI library and mpiexec")
    finished(ALONE, tmp_path / "whole.csv", 60)
    launch = ("mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "3")
    assert "60" in finished(MPI, tmp_path / "mpi.csv", 60, *launch)
    assert (tmp_path / "mpi.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
