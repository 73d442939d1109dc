"""Our certified intervals of epsilon beside the peers' bounds: ``python bench/peers.py [--points TEXT ...]``.

Random allocation with Gaussian noise; the points are all combinations of the values below. At each:

* jaxacct: `epsilon_interval` at precision 0.01, and its CPU time once compiled (median, a new noise multiplier each);
* random-allocation: its least upper bound over its methods, larger of both directions; orders 2..60 as in its paper;
* PLD_accounting: `gaussian_allocation_epsilon_range` at its default accuracy, a relative width of 0.1.

Checked: ours is nowhere looser than a peer by more than 0.1%, and (upper - analysis_lower) / analysis_lower <= 1%.

Writes peers.json after each answer and peers.md at the end, beside this file. What the JSON has is not run again,
with one exception for each run: the point at which it died, which is recorded as unfinished.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import resource
import signal
import statistics
import time
import warnings
from typing import NamedTuple

from run import machine

HERE = os.path.dirname(os.path.abspath(__file__))
JSON, TABLE = os.path.join(HERE, "peers.json"), os.path.join(HERE, "peers.md")
PRECISION = 0.01
LOOSER = 0.001
SLOW = 2.0  # CPU seconds, ours
LIMIT = 150.0  # CPU seconds, for one call of a peer
MEMORY = 12 << 30  # bytes of address space while a peer runs
CALLS = 3  # timed calls of ours


class Point(NamedTuple):
    noise_multiplier: float
    num_steps: int
    num_selected: int
    num_epochs: int
    delta: float

    def __str__(self) -> str:
        sigma, t, k, epochs, delta = self
        return f"sigma={sigma:g} t={t} k={k} E={epochs} delta={delta:g}"


def all_points() -> list[Point]:
    """The cheap ones first: few compositions, few steps."""
    grid = itertools.product((0.5, 1.0, 2.0), (100, 1000, 10_000), (1, 10), (1, 10), (1e-6, 1e-10))
    return sorted(itertools.starmap(Point, grid), key=lambda p: (p.num_selected * p.num_epochs, p.num_steps, p))


class _OverLimit(BaseException):
    """Not an Exception, so that no peer catches it."""


@contextlib.contextmanager
def _limited(seconds: float):
    """Ends what runs inside after `seconds` of this process's CPU time, as an `_OverLimit`, or at MEMORY."""

    end = time.process_time() + seconds

    def stop(*_):
        left = end - time.process_time()  # the timer counts in ticks, and may be early on a busy machine
        if left <= 0.0:
            raise _OverLimit
        signal.setitimer(signal.ITIMER_PROF, left)

    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _call(fn, limit: float | None = None) -> dict:
    """What `fn` returns, its CPU and wall time and what it warned; or how it failed."""
    result: dict = {}
    cpu, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _limited(limit) if limit else contextlib.nullcontext():
                result["value"] = fn()
        except _OverLimit:
            result["failed"] = f"over {limit:g} s"
        except Exception as error:
            result["failed"] = f"{type(error).__name__}: {str(error)[:200]}"
    result["cpu"], result["wall"] = time.process_time() - cpu, time.perf_counter() - wall
    if caught:
        result["warnings"] = sorted({f"{w.category.__name__}: {str(w.message)[:200]}" for w in caught})
    return result


def ours(point: Point) -> dict:
    import jaxacct as ja

    def interval(i: int) -> dict[str, float]:
        noise = ja.Gaussian(point.noise_multiplier * (1.0 + 1e-5 * i))
        run = ja.RandomAllocation(noise, point.num_steps, point.num_selected, point.num_epochs)
        found = ja.epsilon_interval(run, target_delta=point.delta, precision=PRECISION)
        return {name: float(value) for name, value in found._asdict().items()}

    result = _call(lambda: interval(0))
    result["cold_cpu"] = result["cpu"]
    timed = [_call(lambda i=i: interval(i)) for i in range(1, CALLS + 1)]
    for kind in ("cpu", "wall"):
        result[kind] = statistics.median(each[kind] for each in timed)
    if "failed" not in result:
        result.update(result.pop("value"))
    return result


def random_allocation(point: Point) -> dict:
    """The methods of its own combination in each direction, and RDP DCO; not that in the add direction.

    There it is no upper bound: at noise multiplier 1, t = 100, order 3 it gives 0.02223, the exact value is 0.024793.
    """
    from random_allocation.comparisons.structs import Direction, PrivacyParams, SchemeConfig, Verbosity
    from random_allocation.other_schemes.local import local_epsilon
    from random_allocation.random_allocation_scheme import analytic, decomposition, direct, recursive
    from random_allocation.random_allocation_scheme.RDP_DCO import allocation_epsilon_RDP_DCO

    methods = {
        "local": local_epsilon,
        "analytic": analytic.allocation_epsilon_analytic,
        "decomposition": decomposition.allocation_epsilon_decomposition,
        "recursive": recursive.allocation_epsilon_recursive,
        "direct": direct.allocation_epsilon_direct,
        "RDP DCO": allocation_epsilon_RDP_DCO,
    }
    if point.num_selected * point.num_epochs > 1:
        del methods["decomposition"]  # for one of each only
    sigma, t, k, epochs, delta = point
    result: dict = {"methods": {}, "best": {}, "cpu": 0.0}
    for direction in (Direction.REMOVE, Direction.ADD):
        values = {}
        for name, method in methods.items():
            if method is allocation_epsilon_RDP_DCO and direction is Direction.ADD:
                continue
            params = PrivacyParams(sigma=sigma, num_steps=t, num_selected=k, num_epochs=epochs, delta=delta)
            config = SchemeConfig(allocation_direct_alpha_orders=list(range(2, 61)), verbosity=Verbosity.NONE)
            found = _call(lambda m=method, p=params, c=config, d=direction: float(m(p, c, direction=d)), LIMIT)
            result["methods"][f"{name}, {direction.value}"] = found
            result["cpu"] += found["cpu"]
            if not math.isnan(found.get("value", math.nan)):
                values[name] = found["value"]
        result["best"][direction.value] = min(values, key=values.get)
        result["upper"] = max(result.get("upper", 0.0), min(values.values()))
    return result


def pld_accounting(point: Point) -> dict:
    from PLD_accounting import gaussian_allocation_epsilon_range

    def interval(p: Point) -> dict[str, float]:
        sigma, t, k, epochs, delta = p
        upper, lower = gaussian_allocation_epsilon_range(
            delta=delta, sigma=sigma, num_steps=t, num_selected=k, num_epochs=epochs
        )
        return {"lower": float(lower), "upper": float(upper)}

    if not _COMPILED:
        interval(Point(2.0, 10, 1, 1, 1e-6))
        _COMPILED.append(True)
    result = _call(lambda: interval(point), LIMIT)
    result.update(result.pop("value", {}))
    return result


_COMPILED: list[bool] = []  # whether PLD_accounting's numba code is
SIDES = {"jaxacct": ours, "random-allocation": random_allocation, "PLD_accounting": pld_accounting}


def remarks(result: dict) -> list[str]:
    """Where a claim fails at a point, or where two answers contradict each other."""
    own = result["jaxacct"]
    if "upper" not in own:
        return [f"jaxacct {own.get('failed')}"]
    found = [f"jaxacct {text}" for text in own.get("warnings", ())]
    if not (width := own["upper"] / own["analysis_lower"] - 1) <= PRECISION:
        found.append(f"{100 * width:.3g}% wide")
    if own["cpu"] > SLOW:
        found.append("slow")
    for name in list(SIDES)[1:]:
        peer = result.get(name, {})
        if own["upper"] > (1 + LOOSER) * peer.get("upper", math.inf):
            found.append(f"{100 * (own['upper'] / peer['upper'] - 1):.3g}% looser than {name}")
        # the other package's bounds for several steps need not go through the same reduction to one step
        least = "analysis_lower" if name == "PLD_accounting" else "lower"
        if peer.get("upper", math.inf) < own[least]:
            found.append(f"upper end of {name} below our {least}")
        if peer.get("lower", 0.0) > own["upper"]:
            found.append(f"lower end of {name} above our upper end")
    return found


def _row(point: Point, result: dict) -> str:
    cells = [f"{point.noise_multiplier:g}", *map(str, point[1:4]), f"{point.delta:g}"]
    own = result["jaxacct"]
    if "upper" in own:
        width = own["upper"] / own["analysis_lower"] - 1
        cells += [f"{own[key]:.6g}" for key in ("lower", "analysis_lower", "upper")]
        cells += [f"{100 * width:.2f}%", f"{own['cpu']:.2f}"]
    else:
        cells += ["failed"] + [""] * 4
    for name in list(SIDES)[1:]:
        peer = result.get(name, {})
        with_lower = name == "PLD_accounting"
        if "upper" in peer:
            above = f" ({100 * (peer['upper'] / own['upper'] - 1):+.2f}%)" if "upper" in own else ""
            best = "" if with_lower else ", ".join(dict.fromkeys(peer["best"].values()))
            cells += [f"{peer['lower']:.6g}"] if with_lower else []
            cells += [f"{peer['upper']:.6g}{above}"] + ([] if with_lower else [best]) + [f"{peer['cpu']:.1f}"]
        else:
            cells += ["", peer.get("failed", "not run"), f"{peer['cpu']:.0f}" if "cpu" in peer else ""]
    cells.append("; ".join(remarks(result)))
    return f"| {' | '.join(cells)} |"


_HEAD = (
    "sigma",
    "t",
    "k",
    "E",
    "delta",
    "lower",
    "analysis_lower",
    "upper",
    "width",
    "CPU s",
    "random-allocation upper",
    "by (remove, add)",
    "CPU s",
    "PLD_accounting lower",
    "PLD_accounting upper",
    "CPU s",
    "remarks",
)


def table(data: dict) -> str:
    """The results as markdown; in brackets, how far the peer's upper end lies above ours."""
    rows = [(p, data["results"][str(p)]) for p in sorted(all_points()) if "jaxacct" in data["results"].get(str(p), {})]
    host = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items() if version)
    counts = [f"{sum('upper' in r.get(name, {}) for _, r in rows)} by {name}" for name in SIDES]
    done = [r["jaxacct"] for _, r in rows if "upper" in r["jaxacct"]]
    widest = max((own["upper"] / own["analysis_lower"] - 1.0 for own in done), default=0.0)
    lines = [
        "# Certified intervals of epsilon beside the peers",
        "",
        "Random allocation of k in t steps, E epochs, Gaussian noise. Generated by `bench/peers.py`, which says what",
        "is compared. `lower` and `upper` bound the mechanism's epsilon, `analysis_lower` what was analysed (k runs of",
        "1 in t / k steps); width is (upper - analysis_lower) / analysis_lower. In brackets: how far the peer's upper",
        f"end lies above ours. A call of a peer that took over {LIMIT:g} s of CPU time was ended. Times were taken",
        "at low priority on a machine that did other work.",
        "",
        f"Answered: {', '.join(counts)}, of {len(all_points())} points.",
        f"Widest: {100 * widest:.3f}%; most CPU time: {max((own['cpu'] for own in done), default=0.0):.2f} s.",
        f"With remarks: {sum(bool(remarks(r)) for _, r in rows)}.",
        "",
        f"{versions}; Python {host['python']}, {host['machine']}, {host['cpus']} CPUs.",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{' --- |' * len(_HEAD)}",
    ]
    return "\n".join([*lines, *(_row(*row) for row in rows), ""])


def _write(data: dict) -> None:
    with open(f"{JSON}.tmp", "w") as file:
        json.dump(data, file, indent=1)
    os.replace(f"{JSON}.tmp", JSON)
    with open(TABLE, "w") as file:
        file.write(table(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", nargs="+", metavar="TEXT", help='only those whose name has a TEXT, as "t=100 k=1 "')
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="default: all, in this order")
    args = parser.parse_args()
    points = [p for p in all_points() if not args.points or any(text in f"{p} " for text in args.points)]
    if not points:
        parser.error(f"no point has {args.points}; there are:\n" + "\n".join(map(str, all_points())))
    data: dict = {"results": {}}
    if os.path.exists(JSON):
        with open(JSON) as file:
            data = json.load(file)
    data["machine"] = machine()
    for side, point in itertools.product(args.sides, points):
        results = data["results"].setdefault(str(point), {})
        if side in results:
            continue
        results[side] = {"failed": "unfinished"}
        _write(data)
        results[side] = SIDES[side](point)
        _write(data)
        found = {key: results[side].get(key) for key in ("lower", "analysis_lower", "upper", "failed", "cpu")}
        print(f"{side}  {point}  {found}  {remarks(results) if 'jaxacct' in results else ''}", flush=True)
    _write(data)
    print(table(data))


if __name__ == "__main__":
    main()
