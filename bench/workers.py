"""Sweeps on several processes: points a second, what a task and a chunk cost the head, its memory, and a model.

    python bench/workers.py [points] [rounds] [quick points] [--report FOLDER]

`--report` writes what is printed to WORKERS.md there; what docs/clusters.md says is tested against it.

Samples of one and of two processes take turns, on pools that are warm; what a pool costs to start stands by itself.
The model is a model: only what is printed above it was measured.
"""

import argparse
import importlib.metadata
import os
import pathlib
import resource
import signal
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import jaxacct as ja
from jaxacct.sweeping import Layout, Workers, one_thread, sweep
from jaxacct.workers import Spread

DELTA = 1e-6

said: list[str] = []


def say(line: str) -> None:
    """Prints a line, and keeps it for the report."""
    said.append(line)
    print(line, flush=True)


def questions(points: int, seed: int) -> list:
    """Exact questions: half of Poisson sampling, half of random allocation, at random settings."""
    rng = np.random.default_rng(seed)
    noise, steps = rng.uniform(0.7, 3.0, points), rng.integers(50, 3000, points)
    half = points // 2
    rates = rng.uniform(1e-3, 0.05, half)
    poisson = {"noise_multiplier": noise[:half], "num_steps": steps[:half], "sampling_prob": rates}
    allocation = {"noise_multiplier": noise[half:], "num_steps": steps[half:]}
    return [
        (ja.PoissonSampled(ja.Gaussian(None), None, None), poisson),
        (ja.RandomAllocation(ja.Gaussian(None), None), allocation),
    ]


def answered(points: int, seed: int, executor, folder: str, progress=False) -> tuple[float, bytes]:
    """(wall seconds, the files) of both sweeps."""
    begun, files = time.perf_counter(), b""
    for number, (run, grid) in enumerate(questions(points, seed)):
        out = os.path.join(folder, f"{number}.csv")
        if os.path.exists(out):
            os.remove(out)
        sweep(run, grid, target_delta=DELTA, layout=Layout.ZIPPED, out=out, executor=executor, progress=progress)
        with open(out, "rb") as file:
            files += file.read()
    return time.perf_counter() - begun, files


def begin() -> None:
    """One thread, and a session of its own: a busy Linux machine shares its cores among sessions, not processes."""
    one_thread()
    os.setsid()


def pool(number: int) -> ProcessPoolExecutor:
    """Processes of one thread each."""
    return ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=begin)


def cpu_of(executor: ProcessPoolExecutor) -> float:
    """The CPU seconds of its processes so far."""
    ticks = 0
    for number in executor._processes:
        with open(f"/proc/{number}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_of(process: int) -> float:
    """The most memory that a process has had, MiB."""
    with open(f"/proc/{process}/status") as file:
        return int(file.read().split("VmHWM:")[1].split()[0]) / 1024


def speed(points: int, rounds: int) -> float:
    """Prints points a second on one process and on two; returns the CPU seconds of a point on one."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder, pool(1) as one, pool(2) as two:
        for number, executor in ((1, one), (2, two)):
            begun = time.perf_counter()
            answered(4 * number, 0, executor, folder)
            say(f"start of {number}, imports and {4 * number} first points: {time.perf_counter() - begun:.1f} s")
        for turn in range(rounds):
            files = set()
            for number, executor in ((1, one), (2, two)):
                before = cpu_of(executor)
                wall, data = answered(points, turn, executor, folder)
                seconds[number].append(wall)
                cpu[number].append(cpu_of(executor) - before)
                files.add(data)
            assert len(files) == 1
            if turn == 0:
                assert files == {one_killed(points, folder)}
            shown = ", ".join(f"{seconds[n][-1]:.2f} s ({cpu[n][-1]:.2f} s of CPU)" for n in (1, 2))
            say(f"{points} points on one process and on two: {shown}; the files identical")
        peak = max(memory_of(number) for number in two._processes)
        say(f"a process that answered them: {peak:.0f} MiB at most")
    for number, walls in seconds.items():
        of_cpu = 1e3 * statistics.median(cpu[number]) / points
        say(f"{number} processes: {points / statistics.median(walls):.0f} points a second, {of_cpu:.2f} ms of CPU")
    for name, of in (("wall time", seconds), ("CPU, two cores busy", {1: cpu[1], 2: [x / 2 for x in cpu[2]]})):
        ratios = [a / b for a, b in zip(of[1], of[2], strict=True)]
        say(f"two against one, {name}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return statistics.median(cpu[1]) / points


def one_killed(points: int, folder: str) -> bytes:
    """Prints the time where one of two processes is killed in the middle of each sweep; returns the files."""
    made: list[ProcessPoolExecutor] = []
    killed: list[int] = []

    def two():
        made.append(pool(2))
        return made[-1]

    def kill(done: int, total: int) -> None:
        if total // 2 <= done < total and len(made) == 2 * len(killed) + 1:  # the first pool of this sweep
            killed.append(next(iter(made[-1]._processes)))
            os.kill(killed[-1], signal.SIGKILL)

    wall, data = answered(points, 0, two, folder, kill)
    assert killed, "the sweeps ended before one was killed"
    say(
        f"{points} points on two, of which one is killed in the middle of each sweep: {wall:.2f} s; the files identical"
    )
    return data


def overhead(number: int = 4000) -> float:
    """Prints what a task and a chunk cost the head, CPU seconds; returns the task's."""
    found = []
    with pool(1) as executor:
        for task_seconds in (1e-9, 10.0):  # one chunk in a task; as many as go in
            spread = Spread(Workers(executor, task_seconds=task_seconds), abs, int, range(number), number)
            begun = time.process_time()
            assert sum(1 for back in spread if back) == number
            found.append((time.process_time() - begun) / number)
    say(f"head: {1e3 * found[0]:.2f} ms a task of one chunk, {1e3 * found[1]:.3f} ms a chunk among many, CPU")
    return found[0]


def memory(points: int) -> float:
    """Prints the memory of the head above idle for quick points in chunks; returns its CPU seconds for a point."""
    axes = {"noise_multiplier": np.geomspace(0.5, 50.0, 1000), "counts": np.arange(1, points // 1000 + 1)}
    with tempfile.TemporaryDirectory() as folder, pool(1) as executor:
        list(executor.map(abs, range(2)))
        ja.sweep(ja.Gaussian(None), {"noise_multiplier": [1.0, 2.0]}, target_delta=DELTA)
        idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun, cpu = time.perf_counter(), time.process_time()
        out = os.path.join(folder, "quick.csv")
        run = ja.Composed(ja.Gaussian(None), None)
        sweep(run, axes, target_delta=DELTA, out=out, executor=executor, chunk_size=1000)
        cpu = time.process_time() - cpu
        above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) / 1024
        say(
            f"{points} quick points in chunks of 1000: {time.perf_counter() - begun:.0f} s, "
            f"{cpu:.1f} s of them the head's CPU; {above:.0f} MiB above idle"
        )
    return cpu / points


def model(point: float, task: float, row: float) -> None:
    """The model: workers add up until the head has no more time for their tasks and rows."""
    head = task * point + row
    say(f"a row: {1e6 * row:.1f} us of the head's CPU")
    say("model: points a second = min(workers / point, 1 / head), head = task / points in a task of 1 s + row")
    for workers in (2, 16, 128, 1000):
        busy = 100.0 * head * min(workers / point, 1.0 / head)
        say(f"  {workers} workers: {min(workers / point, 1.0 / head):,.0f} a second, the head {busy:.0f} % busy")
    say(f"  eight GPUs: eight times one of them, up to the head's {1.0 / (row + task / 1024):,.0f} points a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("points", type=int, nargs="?", default=600)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("quick_points", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--report", type=pathlib.Path)
    args = parser.parse_args()
    say(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; jaxlib {importlib.metadata.version('jaxlib')}, "
        f"numpy {importlib.metadata.version('numpy')}"
    )
    point = speed(args.points, args.rounds)
    task = overhead()
    model(point, task, memory(args.quick_points))
    if args.report:
        call = f"python bench/workers.py {args.points} {args.rounds} {args.quick_points} --report bench"
        head = f"# Sweeps on several processes\n\nWritten by `{call}`.\n\n```text\n"
        (args.report / "WORKERS.md").write_text(head + "\n".join(said) + "\n```\n")


if __name__ == "__main__":
    main()
