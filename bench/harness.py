"""Measuring a case: CPU and wall time, ours and the peer's interleaved, medians.

Imports nothing heavy, and the process that runs the cases stays small: a child's ru_maxrss starts from its
parent's, and a cold run starts from here. Each case's warm calls share one child, so no case warms another.
"""

import collections
import json
import os
import statistics
import subprocess
import sys
import time

# One comparison. `ours` and `peer` are builders: they import what they need and return `call(i)`, which
# answers the question with the i-th value of its parameter (never the same twice, so that nothing can be
# remembered) and returns one number of the answer, or [lower, upper]. ImportError in a builder means "not installed".
#   cold: compare fresh processes, from the interpreter's start to the first answer, instead of warm calls.
#   calls: warm calls of (ours, peer) in one round; 0 of a peer: one call before ours is its time, too slow to repeat.
#   rounds: rounds, ours and the peer's in turn; medians over them.   warm_up: our calls before.   cold_runs: of ours.
#   required: the least ratio peer / ours in CPU time, or None.   max_mib: the most memory ours may take, or None.
Case = collections.namedtuple(
    "Case",
    "name ours peer_name peer required cold calls rounds slow max_mib warm_up cold_runs",
    # warm_up: more than the 16 single questions after which a kernel is compiled once more, for speed
    defaults=("none", None, None, False, (40, 1), 7, False, None, 20, 3),
)

_PRELUDE = "import sys, json, time; sys.path.insert(0, sys.argv[1]); from cases import find; case = find(sys.argv[2]); "
_COLD = (
    "marks = [time.process_time()]; call = getattr(case, sys.argv[3])(); marks.append(time.process_time()); "
    "value = call(0); marks.append(time.process_time()); call(1); marks.append(time.process_time()); "
    "print(json.dumps([value, *marks]))"
)
_WARM = "import harness; print(json.dumps(harness.warm_run(case)))"


def _child(code: str, *args: str) -> tuple:
    """What a fresh process prints as JSON on its last line, its resource usage and its wall time."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION_CACHE")}
    start = time.perf_counter()
    command = [sys.executable, "-P", "-c", _PRELUDE + code, os.path.dirname(os.path.abspath(__file__)), *args]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{args} failed with status {child.returncode}")
    return json.loads(text.splitlines()[-1]), usage, time.perf_counter() - start


def cold_run(case_name: str, side: str) -> dict:
    """A fresh process that answers twice: its CPU time (user + system), wall time and peak memory, and its parts."""
    (value, started, built, first, second), usage, wall = _child(_COLD, case_name, side)
    return {
        "value": value,
        "cpu": usage.ru_utime + usage.ru_stime - (second - first),  # from start to first answer, and the exit
        "wall": wall,  # with the second answer
        "import": built - started,
        "compile": (first - built) - (second - first),
        "run": second - first,
        "max_mib": usage.ru_maxrss / 1024,
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
    ours = case.ours()
    ours_times, peer_times = [], []
    if peer is not None:
        answers = []
        once = _timed(lambda i: answers.append(peer(i)), range(1))
        result["peer_value"] = answers[0]
        if not case.calls[1]:
            peer_times.append(once)
    result["warm_up_cpu"] = _timed(ours, range(case.warm_up))[0] * case.warm_up
    for turn in range(case.rounds):
        first = case.warm_up + turn * max(case.calls)
        ours_times.append(_timed(ours, range(first, first + case.calls[0])))
        if peer is not None and case.calls[1]:
            peer_times.append(_timed(peer, range(first, first + case.calls[1])))
    result["warm"] = _summary(ours_times)
    if peer_times:
        result["peer_warm"] = _summary(peer_times)
    return result


def measure(case: Case) -> dict:
    """Everything about one case, as a dictionary ready for JSON."""
    result = {"case": case.name, "peer_name": case.peer_name, "required": case.required, "cold_case": case.cold}
    result.update(_child(_WARM, case.name)[0])
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
    if "peer_value" in result:
        kind = "cold" if case.cold else "warm"
        result["ratio"] = result[f"peer_{kind}"]["cpu"] / result[kind]["cpu"]
    result["met"] = True if case.required or case.max_mib else None
    if case.required:
        result["met"] = result["ratio"] >= case.required if "ratio" in result else None
    if case.max_mib:
        result["allowed_mib"] = case.max_mib
        result["met"] = result["met"] and result["cold"]["max_mib"] < case.max_mib
    return result
