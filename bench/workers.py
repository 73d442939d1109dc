"""Sweeps on several processes: points a second, what a task and a chunk cost the head, its memory, and a model.

    python bench/workers.py [points] [rounds] [quick points]

Samples of one and of two processes take turns, on pools that are warm; what a pool costs to start stands by itself.
The model is a model: only what is printed above it was measured.
"""

import os
import resource
import signal
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import jaxacct as ja
from jaxacct.sweeping import Layout, Workers, one_thread, sweep
from jaxacct.workers import Spread

DELTA = 1e-6


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


def speed(points: int, rounds: int) -> float:
    """Prints points a second on one process and on two; returns the CPU seconds of a point on one."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder, pool(1) as one, pool(2) as two:
        for number, executor in ((1, one), (2, two)):
            begun = time.perf_counter()
            answered(4 * number, 0, executor, folder)
            print(f"start of {number}, imports and {4 * number} first points: {time.perf_counter() - begun:.1f} s")
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
                print("; same files")
            shown = ", ".join(f"{seconds[n][-1]:.2f} s ({cpu[n][-1]:.2f} s of CPU)" for n in (1, 2))
            print(f"  {points} points: {shown}; same files", flush=True)
    for number, walls in seconds.items():
        of_cpu = 1e3 * statistics.median(cpu[number]) / points
        print(f"{number} processes: {points / statistics.median(walls):.0f} points a second, {of_cpu:.2f} ms of CPU")
    for name, of in (("wall time", seconds), ("CPU, two cores busy", {1: cpu[1], 2: [x / 2 for x in cpu[2]]})):
        ratios = [a / b for a, b in zip(of[1], of[2], strict=True)]
        print(f"two against one, {name}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
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
    print(
        f"  {points} points on two, {len(killed)} of them killed in the middle of a sweep: {wall:.2f} s",
        end="",
        flush=True,
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
    print(f"head: {1e3 * found[0]:.2f} ms a task of one chunk, {1e3 * found[1]:.3f} ms a chunk among many, CPU")
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
        print(
            f"{points} quick points in chunks of 1000: {time.perf_counter() - begun:.0f} s, of them "
            f"{cpu:.1f} s of the head's CPU; head {above:.0f} MiB above idle"
        )
    return cpu / points


def model(point: float, task: float, row: float) -> None:
    """Prints the model: workers add up until the head has no more time for their tasks and rows."""
    head = task * point + row
    print("model: points a second = min(workers / point, 1 / head), head = task / points in a task of 1 s + row")
    for workers in (2, 16, 128, 1000):
        busy = 100.0 * head * min(workers / point, 1.0 / head)
        print(f"  {workers} workers: {min(workers / point, 1.0 / head):.0f} a second, the head {busy:.0f} % busy")
    print(f"  eight GPUs: eight times one of them, up to the head's {1.0 / (row + task / 1024):.0f} points a second")


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] + [600, 3, 1_000_000][len(sys.argv) - 1 :]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    point = speed(sizes[0], sizes[1])
    task = overhead()
    model(point, task, memory(sizes[2]))


if __name__ == "__main__":
    main()
