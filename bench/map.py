"""Our certified intervals over a map of random settings, beside a peer's answers: cost and gap at every point.

    python bench/map.py FAMILY [FAMILY ...] [--points N] [--seed S] [--no-peer] [--json FILE] [--report DIRECTORY]

Each setting is drawn from the family's ranges (uniform in the logarithm), then asked of jaxacct
(`epsilon_interval`, its defaults) and of the peer in turn, in one process, each timed in CPU seconds. The first few
settings are asked once before, unrecorded, so that what has to be compiled is compiled. A line for each point; then,
for each family: points where we are slower than the peer and than 20 ms, looser than it by more than 0.01 %, the widest
gap, the median and the worst time. A width is (upper - lower) / lower of what was analysed, per direction together;
for k of t steps, sparse (t/k of 300 and more) and dense (5 to 300), it is that of the mechanism itself, and the time of
the test that gives its lower end is beside it.
`--report` writes MAPS.md and its picture (plots/maps.png) to a folder.
"""

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import jaxacct as ja
from jaxacct import Direction
from jaxacct._method import Bracketing, Query
from jaxacct._types import Ends
from jaxacct.bounds.allocation._threshold_test import THRESHOLD_TEST

SLOW = 0.02  # CPU seconds that are never called slow
LOOSER = 1e-4  # relative
WARM_UP = 3  # settings asked before, unrecorded


class Family(NamedTuple):
    """A map: how a setting is drawn, what it asks of us, and what a peer answers (raises ImportError without it)."""

    draw: Callable[[np.random.Generator], dict[str, float]]
    mechanism: Callable[..., Any]
    peer_name: str = ""
    peer: Callable[..., float] | None = None
    of_mechanism: bool = False  # whether widths are those of the mechanism itself, where what is analysed is above it


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _whole(rng: np.random.Generator, low: float, high: float) -> int:
    return round(_log_uniform(rng, low, high))


def _poisson(rng: np.random.Generator) -> dict[str, float]:
    return {
        "sigma": _log_uniform(rng, 0.56, 5.0),
        "q": _log_uniform(rng, 1e-4, 0.2),
        "steps": _whole(rng, 100, 300_000),
        "delta": _log_uniform(rng, 1e-10, 1e-4),
    }


def _poisson_peer(sigma: float, q: float, steps: int, delta: float) -> float:
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(sigma)), steps)
    return accountant.get_epsilon(delta)


def _allocation(rng: np.random.Generator) -> dict[str, float]:
    steps = _whole(rng, 10, 1e5)
    return {
        "sigma": _log_uniform(rng, 0.5, 5.0),
        "t": steps,
        "k": min(_whole(rng, 1, 10), steps),
        "epochs": _whole(rng, 1, 300),
        "delta": _log_uniform(rng, 1e-10, 1e-4),
    }


def _several_steps(least: float, most: float) -> Callable[[np.random.Generator], dict[str, float]]:
    """k of t steps with t/k in a range."""

    def draw(rng: np.random.Generator) -> dict[str, float]:
        selected = _whole(rng, 2, 50)
        return {
            "sigma": _log_uniform(rng, 0.5, 3.0),
            "t": math.ceil(selected * _log_uniform(rng, least, most)),
            "k": selected,
            "epochs": _whole(rng, 1, 50),
            "delta": _log_uniform(rng, 1e-8, 1e-5),
        }

    return draw


def _allocated(sigma: float, t: int, k: int, epochs: int) -> Any:
    return ja.RandomAllocation(ja.Gaussian(sigma), t, k, epochs)


def _clones(rng: np.random.Generator) -> dict[str, float]:
    return {
        "n": _whole(rng, 100, 1e9),
        "local": _log_uniform(rng, 0.01, 8.0),
        "rounds": 1 if rng.random() < 0.5 else _whole(rng, 2, 1e4),
        "delta": _log_uniform(rng, 1e-10, 1e-4),
    }


def _check_in(rng: np.random.Generator) -> dict[str, float]:
    return {
        "n": _whole(rng, 100, 1e7),
        "q": _log_uniform(rng, 1e-3, 1.0),
        "local": _log_uniform(rng, 0.1, 8.0),
        "delta": _log_uniform(rng, 1e-10, 1e-4),
    }


def _laplace(rng: np.random.Generator) -> dict[str, float]:
    return {
        "scale": _log_uniform(rng, 0.3, 20.0),
        "q": 1.0 if rng.random() < 0.5 else _log_uniform(rng, 1e-3, 0.5),
        "steps": _whole(rng, 1, 1e4),
        "delta": _log_uniform(rng, 1e-10, 1e-4),
    }


def _laplace_run(scale: float, q: float, steps: int) -> Any:
    return ja.Composed(ja.Laplace(scale), steps) if q == 1.0 else ja.PoissonSampled(ja.Laplace(scale), q, steps)


def _laplace_peer(scale: float, q: float, steps: int, delta: float) -> float:
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    accountant, event = PLDAccountant(), dp_event.LaplaceDpEvent(scale)
    accountant.compose(event if q == 1.0 else dp_event.PoissonSampledDpEvent(q, event), steps)
    return accountant.get_epsilon(delta)


def _pair(rng: np.random.Generator) -> dict[str, float]:
    return {
        "p": rng.uniform(0.05, 0.95),
        "q": rng.uniform(0.05, 0.95),
        "steps": _whole(rng, 1, 1e4),
        "delta": _log_uniform(rng, 1e-10, 1e-4),
    }


FAMILIES = {
    "poisson": Family(
        _poisson,
        lambda sigma, q, steps: ja.PoissonSampled(ja.Gaussian(sigma), q, steps),
        "dp_accounting PLD",
        _poisson_peer,
    ),
    "allocation": Family(_allocation, _allocated),
    "k-of-t-sparse": Family(_several_steps(300.0, 3e4), _allocated, of_mechanism=True),
    "k-of-t-dense": Family(_several_steps(5.0, 300.0), _allocated, of_mechanism=True),
    "clones": Family(_clones, lambda n, local, rounds: ja.Shuffled(ja.LocalRandomizer(local), n, rounds)),
    "check-in": Family(_check_in, lambda n, q, local: ja.CheckIn(ja.LocalRandomizer(local), n, q)),
    "laplace": Family(_laplace, _laplace_run, "dp_accounting PLD", _laplace_peer),
    "pair": Family(_pair, lambda p, q, steps: ja.Composed(ja.DiscretePair((p, 1 - p), (q, 1 - q)), steps)),
}


def _timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    answer = ask()
    return answer, time.process_time() - start


def _ours(family: Family, setting: dict[str, float]) -> Any:
    fields = {name: value for name, value in setting.items() if name != "delta"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ja.epsilon_interval(family.mechanism(**fields), setting["delta"])


def _width(lower: float, upper: float) -> float:
    if upper == lower:
        return 0.0
    return (upper - lower) / lower if lower > 0.0 else math.inf


def _test_alone(family: Family, setting: dict[str, float]) -> Any:
    """The lower end of k of t steps by itself, both directions."""
    run = family.mechanism(**{name: value for name, value in setting.items() if name != "delta"})
    at = Bracketing(width=1e-3, known=dict.fromkeys(Direction, Ends(0.0, 1.0)), wants_lower=True, ask=lambda: None)
    return THRESHOLD_TEST.bracket(run, Query.EPSILON, setting["delta"], at)


def run(name: str, num_points: int, seed: int, *, with_peer: bool) -> list[dict[str, Any]]:
    """Asks and prints every point of one family."""
    family, rng = FAMILIES[name], np.random.default_rng(seed)
    settings = [family.draw(rng) for _ in range(num_points)]
    for setting in settings[:WARM_UP]:
        _ours(family, setting)
    points = []
    for setting in settings:
        found, seconds = _timed(lambda setting=setting: _ours(family, setting))
        lower = found.lower if family.of_mechanism else found.analysis_lower
        point = {**setting, "lower": lower, "upper": found.upper, "width": _width(lower, found.upper), "cpu": seconds}
        if family.of_mechanism:
            _, point["lower_cpu"] = _timed(lambda setting=setting: _test_alone(family, setting))
        if with_peer and family.peer is not None:
            try:
                point["peer"], point["peer_cpu"] = _timed(lambda setting=setting: family.peer(**setting))
            except ImportError:
                with_peer = False
        points.append(point)
        values = "  ".join(f"{k} {v:.4g}" for k, v in point.items())
        print(f"{name}: {values}", flush=True)
    return points


class Facts(NamedTuple):
    """Counts and extremes of one family's points; CPU seconds, relative widths."""

    median: float
    worst: float
    width: float
    widest: float
    wide: int
    sharp: int
    peer: str
    slower: int
    looser: int
    ratio: float


def facts(name: str, points: list[dict[str, Any]]) -> Facts:
    """What one family's points say together."""
    cpu, width = (np.array([p[k] for p in points]) for k in ("cpu", "width"))
    beside = [p for p in points if "peer" in p]
    return Facts(
        float(np.median(cpu)),
        float(cpu.max()),
        float(np.median(width)),
        float(width.max()),
        int((width > 1e-3).sum()),
        int((width <= 1e-6).sum()),
        FAMILIES[name].peer_name if beside else "",
        sum(p["cpu"] > max(p["peer_cpu"], SLOW) for p in beside),
        sum(p["upper"] > p["peer"] * (1.0 + LOOSER) for p in beside),
        float(np.median([p["peer_cpu"] / p["cpu"] for p in beside])) if beside else math.nan,
    )


def summary(name: str, points: list[dict[str, Any]]) -> str:
    """The facts of one family in a line."""
    found = facts(name, points)
    parts = [
        f"{name}: {len(points)} points",
        f"CPU ms median {1e3 * found.median:.1f}, worst {1e3 * found.worst:.0f}",
        f"width median {found.width:.1e}, widest {found.widest:.1e}, above 0.1 %: {found.wide}, "
        f"above 1e-6: {len(points) - found.sharp}",
    ]
    if FAMILIES[name].of_mechanism:
        cpu, width = (np.array([p[k] for p in points]) for k in ("lower_cpu", "width"))
        parts.append(f"above 1 %: {int((width > 1e-2).sum())}")
        parts.append(f"the lower end alone: CPU ms median {1e3 * np.median(cpu):.0f}, worst {1e3 * cpu.max():.0f}")
    if found.peer:
        ratio = f"its time over ours {found.ratio:.1f}"
        parts.append(f"{found.peer}: slower at {found.slower}, looser at {found.looser}, {ratio}")
    return "; ".join(parts)


_TITLES = {
    "poisson": "Poisson sampling",
    "allocation": "random allocation, 1 of t steps",
    "k-of-t-sparse": "random allocation, k of many steps",
    "k-of-t-dense": "random allocation, k of few steps",
    "clones": "shuffled reports",
    "check-in": "check-ins",
    "laplace": "Laplace noise",
    "pair": "two outcomes, composed",
}
_EXACT = 1e-14  # where a gap of 0 is drawn


def picture(maps: dict[str, list[dict[str, Any]]], path: str) -> None:
    """Time against width, a panel for each family, the peer's time and gap beside."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    columns = min(len(maps), 3)
    rows = -(-len(maps) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(3.6 * columns, 3.0 * rows), squeeze=False, sharey=True)
    for axes in grid.flat[len(maps) :]:
        axes.set_visible(False)
    for axes, (name, points) in zip(grid.flat, maps.items(), strict=False):
        width = [min(max(p["width"], _EXACT), 10.0) for p in points]
        axes.loglog(width, [p["cpu"] for p in points], ".", label="jaxacct")
        beside = [p for p in points if "peer" in p]
        if beside:
            gap = [min(max(p["peer"] / p["lower"] - 1.0, _EXACT), 10.0) if p["lower"] > 0 else 10.0 for p in beside]
            axes.loglog(gap, [p["peer_cpu"] for p in beside], "x", label=FAMILIES[name].peer_name)
        axes.axvline(1e-3, color="grey", linewidth=0.6)
        axes.set_title(_TITLES.get(name, name), fontsize="medium")
        axes.set_xlim(_EXACT / 2.0, 20.0)
        axes.set_xticks([_EXACT, 1e-10, 1e-6, 1e-3, 1.0], ["0", "1e-10", "1e-6", "0.1 %", "100 %"])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}" if seconds >= 1e-3 else f"{seconds:.0e}")
    for axes in grid[:, 0]:
        axes.set_ylabel("CPU seconds, warm")
    figure.supxlabel("gap to our lower end, relative")
    handles = {label: h for axes in grid.flat for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=len(handles))
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.95))
    figure.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(figure)


def report(maps: dict[str, list[dict[str, Any]]], seed: int, folder: str) -> None:
    """Writes MAPS.md and plots/maps.png to `folder`."""
    from run import machine_in_words

    lines = [
        "# Maps of random settings",
        "",
        machine_in_words(),
        "",
        f"Written by `python bench/map.py {' '.join(maps)} --points {len(next(iter(maps.values())))} --seed {seed} "
        "--report bench`. Settings are",
        "uniform in the logarithm over the ranges in `bench/map.py`; each is a certified interval for epsilon at the",
        "default precision. Times are CPU seconds of warm answers; the width is of what was analysed.",
        "",
        "| family | points | median | worst | median width | widest | above 0.1 % | beside |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, points in maps.items():
        found = facts(name, points)
        beside = "no peer"
        if found.peer:
            beside = f"{found.peer}: slower at {found.slower}, looser at {found.looser}, its time {found.ratio:.0f} x"
        lines.append(
            f"| {name} | {len(points)} | {1e3 * found.median:.1f} ms | {1e3 * found.worst:.0f} ms | {found.width:.1e} "
            f"| {found.widest:.1e} | {found.wide} | {beside} |"
        )
    os.makedirs(os.path.join(folder, "plots"), exist_ok=True)
    with open(os.path.join(folder, "MAPS.md"), "w") as file:
        file.write("\n".join([*lines, "", "![Time against width](plots/maps.png)", ""]))
    picture(maps, os.path.join(folder, "plots", "maps.png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="+", choices=FAMILIES)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--json", help="where to write every point")
    parser.add_argument("--report", metavar="DIRECTORY", help="where to write MAPS.md and its picture")
    args = parser.parse_args()
    maps = {name: run(name, args.points, args.seed, with_peer=not args.no_peer) for name in args.families}
    for name, points in maps.items():
        print(summary(name, points))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(maps, file, indent=1)
    if args.report:
        report(maps, args.seed, args.report)


if __name__ == "__main__":
    main()
