"""Measuring a case: CPU and wall time, ours and the peer's interleaved, medians.

Imports nothing heavy, and the process that runs the cases stays small: a child's ru_maxrss starts from its
parent's, and a cold run starts from here. Each case's warm calls share one child, so no case warms another.
"""

import collections
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time

WARM_UP = 3  # calls before those that are timed: the first compiles, the others fill caches

# One comparison. `ours` and `peer` are builders: they import what they need and return `call(i)`, which
# answers the question with the i-th value of its parameter (never the same twice, so that nothing can be
# remembered) and returns one number of the answer, or [lower, upper]. ImportError in a builder means "not installed".
#   cold: compare fresh processes, from the interpreter's start to the first answer, instead of warm calls.
#   calls: warm calls of (ours, peer) in one round; 0 of a peer: one call before ours is its time, too slow to repeat.
#   rounds: rounds, ours and the peer's in turn; medians over them.   warm_up: our calls before.   cold_runs: of ours.
#   required: the least ratio peer / ours in CPU time, or None.   max_mib: the most memory ours may take, or None.
#   quantity: what is answered, the smaller the better.   estimates: "peer" or "both" where an answer is no bound.
Case = collections.namedtuple(
    "Case",
    "name ours peer_name peer required cold calls rounds slow max_mib warm_up cold_runs quantity estimates",
    defaults=("none", None, None, False, (40, 1), 7, False, None, WARM_UP, 3, "epsilon", ""),
)

SLOW_PEER = 10.0  # CPU seconds of a peer's call, above which it is not started cold for its memory alone
_PRELUDE = "import sys, json, time; sys.path.insert(0, sys.argv[1]); "
_CASE = "from cases import find; case = find(sys.argv[2]); "
_COLD = "import harness; print(json.dumps(harness.two_answers(case, sys.argv[3])))"
_WARM = "import harness; print(json.dumps(harness.warm_run(case)))"
_IDLE = "import jax; print('null')"
_FIRST = "import jax.numpy as jnp; jnp.zeros(1).block_until_ready(); print('null')"


def run_child(code: str, *args: str) -> tuple:
    """What a fresh process prints as JSON on its last line, its resource usage and its wall time."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION_CACHE")}
    start = time.perf_counter()
    command = [sys.executable, "-P", "-c", _PRELUDE + code, os.path.dirname(os.path.abspath(__file__)), *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{args} failed with status {process.returncode}")
    return json.loads(text.splitlines()[-1]), usage, time.perf_counter() - start


def idle_mib() -> dict[str, float]:
    """Peak memory of a process that only imports JAX, and of one that also ran its smallest program."""
    return {name: run_child(code)[1].ru_maxrss / 1024 for name, code in (("imported", _IDLE), ("one program", _FIRST))}


def compilations() -> list[str]:
    """Grows by one name for each program that JAX compiles from now on in this process."""
    import jax.monitoring

    seen: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, _, **kwargs: seen.append(name) if name.endswith("backend_compile_duration") else None
    )
    return seen


@contextlib.contextmanager
def compiler_memory():
    """Yields a list that gets the MiB by which the compiler of programs raised this process's peak, each time."""
    import jax

    grown: list[float] = []
    plain = jax.stages.Lowered.compile

    def watched(self, *args, **kwargs):
        before = _peak_mib()
        try:
            return plain(self, *args, **kwargs)
        finally:
            grown.append(_peak_mib() - before)

    jax.stages.Lowered.compile = watched
    try:
        yield grown
    finally:
        jax.stages.Lowered.compile = plain


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def two_answers(case: Case, side: str) -> dict:
    """The first two answers of this process, and CPU time when each was there."""
    marks = [time.process_time()]
    is_ours = side == "ours"
    seen = compilations() if is_ours else []
    with compiler_memory() if is_ours else contextlib.nullcontext([]) as grown:
        call = getattr(case, side)()
        marks.append(time.process_time())
        value = call(0)
        marks.append(time.process_time())
        first = len(seen)
        call(1)
        marks.append(time.process_time())
    return {"value": value, "marks": marks, "compiled": [first, len(seen) - first], "compiler_mib": sum(grown)}


def cold_run(case_name: str, side: str) -> dict:
    """A fresh process that answers twice: its CPU time (user + system), wall time and peak memory, and its parts."""
    found, usage, wall = run_child(_CASE + _COLD, case_name, side)
    started, built, first, second = found["marks"]
    return {
        "value": found["value"],
        "cpu": usage.ru_utime + usage.ru_stime - (second - first),  # from start to first answer, and the exit
        "wall": wall,  # with the second answer
        "import": built - started,
        "compile": (first - built) - (second - first),
        "run": second - first,
        "max_mib": usage.ru_maxrss / 1024,
        "compiler_mib": found["compiler_mib"],
        "compiled_first": found["compiled"][0],
        "compiled_second": found["compiled"][1],
    }


def _medians(runs: list[dict]) -> dict[str, float]:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != "value"}


def _timed(call, indices: range) -> tuple[float, float]:
    """Mean CPU and wall time of calling at `indices`; a mean, since other threads' time is booked at ticks."""
    cpu, wall = time.process_time(), time.perf_counter()
    for i in indices:
        call(i)
    return (time.process_time() - cpu) / len(indices), (time.perf_counter() - wall) / len(indices)


def _summary(rounds: list[tuple[float, float]]) -> dict[str, float]:
    cpu, wall = zip(*rounds, strict=True)
    return {"cpu": statistics.median(cpu), "wall": statistics.median(wall), "least_cpu": min(cpu), "most_cpu": max(cpu)}


def warm_run(case: Case) -> dict:
    """Both sides in this process, in turn; called in a child of its own by `measure`."""
    result = {}
    peer = None
    if case.peer is not None:
        try:
            peer = case.peer()
        except ImportError as error:
            result["missing"] = f"{case.peer_name} is not installed ({error})"
    seen = compilations()
    ours = case.ours()
    ours_times, peer_times = [], []
    if peer is not None:
        answers = []
        once = _timed(lambda i: answers.append(peer(i)), range(1))
        result["peer_value"] = answers[0]
        if not case.calls[1]:
            peer_times.append(once)
    result["warm_up_cpu"] = _timed(ours, range(case.warm_up))[0] * case.warm_up if case.warm_up else 0.0
    before = len(seen)
    for turn in range(case.rounds):
        first = case.warm_up + turn * max(case.calls)
        ours_times.append(_timed(ours, range(first, first + case.calls[0])))
        if peer is not None and case.calls[1]:
            peer_times.append(_timed(peer, range(first, first + case.calls[1])))
    result["compiled_warm"] = len(seen) - before
    result["warm"] = _summary(ours_times)
    result["work"] = work_of(ours, case.warm_up + case.rounds * max(case.calls))
    if peer_times:
        result["peer_warm"] = _summary(peer_times)
    return result


def work_of(call, i: int) -> dict[str, float]:
    """What one warm call has the device do, as XLA counts it in the programs compiled ahead of time.

    At least: the body of a loop counts once however often it runs, and programs of plain `jax.jit` are not seen.
    """
    import jax

    total = {"flops": 0.0, "bytes accessed": 0.0, "transcendentals": 0.0}
    plain = jax.stages.Compiled.__call__

    def counted(self, *args, **kwargs):
        with contextlib.suppress(NotImplementedError):
            for key, number in (self.cost_analysis() or {}).items():
                if key in total:
                    total[key] += max(number, 0.0)
        return plain(self, *args, **kwargs)

    jax.stages.Compiled.__call__ = counted
    try:
        call(i)
    finally:
        jax.stages.Compiled.__call__ = plain
    statistics_of = jax.devices()[0].memory_stats() or {}
    return {**total, "device_mib": statistics_of.get("peak_bytes_in_use", 0) / 2**20}


def measure(case: Case, clock: str = "cpu") -> dict:
    """Everything about one case, as a dictionary ready for JSON; `clock` is of the ratio."""
    result = {"case": case.name, "peer_name": case.peer_name, "required": case.required, "cold_case": case.cold}
    result.update(quantity=case.quantity, estimates=case.estimates, clock=clock)
    result.update(run_child(_CASE + _WARM, case.name)[0])
    with_peer = case.cold and "peer_value" in result
    ours, peer = [], []
    for turn in range((case.rounds if case.cold else case.cold_runs) + 1):
        pair = cold_run(case.name, "ours"), cold_run(case.name, "peer") if with_peer else None
        if turn:  # the first warms the file system's cache
            ours.append(pair[0])
            peer.append(pair[1])
    result["cold"] = _medians(ours)
    result["ours_value"] = ours[0]["value"]
    if with_peer:
        result["peer_cold"] = _medians(peer)
    elif "peer_value" in result and result["peer_warm"]["cpu"] < SLOW_PEER:
        result["peer_cold"] = _medians([cold_run(case.name, "peer")])
    if "peer_value" in result:
        kind = "cold" if case.cold else "warm"
        result["ratio"] = result[f"peer_{kind}"][clock] / result[kind][clock]
    result["met"] = True if case.required or case.max_mib else None
    if case.required:
        result["met"] = result["ratio"] >= case.required if "ratio" in result else None
    if case.max_mib:
        result["allowed_mib"] = case.max_mib
        result["met"] = result["met"] and result["cold"]["max_mib"] < case.max_mib
    return result
