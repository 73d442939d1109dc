"""Epsilon inside `jit` over a map of random settings, beside the certified interval outside: values, slopes, costs.

    python bench/inside_jit.py FAMILY [FAMILY ...] [--on-host] [--points N] [--slopes N] [--seed S] [--report DIRECTORY]

Each family is one program: every number is traced. Settings are drawn from the family's ranges (uniform in the
logarithm). A line for each point that is more than 0.1 % above the certified upper end outside, or below the lower end;
then, for each family, the ratios to the upper end, how far slopes in the noise multiplier are from differences of the
answer outside, and CPU seconds: of compilation, with and without the gradient, and of a warm point. With `--on-host`
the programs ask the host when they run. `--report` writes INSIDE_JIT.md, or ON_HOST.md, to a folder.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxacct as ja

CLOSE = 1.001  # ratio to the certified upper end above which a point is printed
STEP = 1e-3  # relative, of the differences that slopes are compared with
Settings = tuple[float, ...]


class Family(NamedTuple):
    """A map: how a setting is drawn, noise multiplier first and without delta, and the mechanism that it describes."""

    draw: Callable[["Draw"], Settings]
    mechanism: Callable[..., Any]


class Draw:
    """Random numbers, uniform in the logarithm."""

    def __init__(self, seed: int):
        self._rng = np.random.default_rng(seed)

    def real(self, low: float, high: float) -> float:
        return float(np.exp(self._rng.uniform(np.log(low), np.log(high))))

    def whole(self, low: float, high: float) -> float:
        return float(round(self.real(low, high)))


def _several(draw: Draw) -> Settings:
    steps = draw.whole(20, 1e6)
    return draw.real(0.4, 8.0), steps, min(draw.whole(2, 50), steps // 4), draw.whole(1, 20)


def _mixed(draw: Draw) -> Settings:
    noise, prob, steps = draw.real(0.4, 8.0), draw.real(1e-4, 0.1), draw.whole(10, 1e4)
    return noise, prob, steps, draw.real(0.4, 8.0), draw.whole(20, 1e5), draw.whole(1, 20), draw.real(2.0, 20.0)


def _composed(noise: Any, prob: Any, steps: Any, other: Any, length: Any, epochs: Any, plain: Any) -> Any:
    sampled = ja.PoissonSampled(ja.Gaussian(noise), prob, steps)
    return ja.Composed([sampled, ja.RandomAllocation(ja.Gaussian(other), length, 1, epochs), ja.Gaussian(plain)])


FAMILIES = {
    "poisson": Family(
        lambda draw: (draw.real(0.4, 8.0), draw.real(1e-4, 0.1), draw.whole(10, 1e5)),
        lambda noise, prob, steps: ja.PoissonSampled(ja.Gaussian(noise), prob, steps),
    ),
    "one-epoch": Family(
        lambda draw: (draw.real(0.4, 8.0), draw.whole(20, 1e6)),
        lambda noise, steps: ja.RandomAllocation(ja.Gaussian(noise), steps),
    ),
    "epochs": Family(
        lambda draw: (draw.real(0.4, 8.0), draw.whole(20, 1e6), draw.whole(2, 100)),
        lambda noise, steps, epochs: ja.RandomAllocation(ja.Gaussian(noise), steps, 1, epochs),
    ),
    "k-of-t": Family(
        _several,
        lambda noise, steps, selected, epochs: ja.RandomAllocation(ja.Gaussian(noise), steps, selected, epochs),
    ),
    "composed": Family(_mixed, _composed),
    "laplace": Family(
        lambda draw: (draw.real(0.3, 20.0), draw.real(1e-3, 0.5), draw.whole(2, 1e4)),
        lambda scale, prob, steps: ja.PoissonSampled(ja.Laplace(scale), prob, steps),
    ),
    "replaced": Family(
        lambda draw: (draw.real(0.4, 8.0), draw.real(1e-4, 0.1), draw.whole(10, 1e4)),
        lambda noise, prob, steps: ja.ReplaceOne(ja.PoissonSampled(ja.Gaussian(noise), prob, steps)),
    ),
    "allocated-laplace": Family(
        lambda draw: (draw.real(0.3, 20.0), draw.whole(20, 1e5), draw.whole(1, 20)),
        lambda scale, steps, epochs: ja.RandomAllocation(ja.Laplace(scale), steps, 1, epochs),
    ),
    "clones": Family(
        lambda draw: (draw.real(0.1, 4.0), draw.whole(100, 1e6), draw.whole(2, 50)),
        lambda local, people, rounds: ja.Shuffled(ja.LocalRandomizer(local), people, rounds),
    ),
}


class Found(NamedTuple):
    """What one family gave: ratios and slopes' relative errors [N], CPU seconds."""

    ratios: np.ndarray[Any, Any]
    below: int
    slopes: np.ndarray[Any, Any]
    compiled: float
    gradient: float
    warm: float


def _timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    answer = jax.block_until_ready(ask())
    return answer, time.process_time() - start


def _outside(family: Family, setting: Settings, delta: float) -> Any:
    whole = [int(x) if x >= 1.0 and x == int(x) else x for x in setting[1:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ja.epsilon_interval(family.mechanism(setting[0], *whole), delta)


def _settings(family: Family, num: int, seed: int) -> Iterator[tuple[Settings, float]]:
    draw = Draw(seed)
    for _ in range(num):
        yield family.draw(draw), draw.real(1e-9, 1e-4)


def measure(name: str, num: int, num_slopes: int, seed: int, *, on_host: bool) -> Found:
    """Asks every point of one family, and prints those that are not close."""
    family = FAMILIES[name]

    def epsilon(*setting: Any) -> Any:
        return ja.epsilon(family.mechanism(*setting[:-1]), setting[-1], on_host=on_host)

    first = (*family.draw(Draw(seed)), 1e-6)
    program, compiled = _timed(lambda: jax.jit(epsilon).lower(*first).compile())
    slope, gradient = _timed(lambda: jax.jit(jax.grad(epsilon)).lower(*first).compile())
    ratios, slopes, warm, below = [], [], [], 0
    for i, (setting, delta) in enumerate(_settings(family, num, seed)):
        program(*setting, delta)
        value, seconds = _timed(lambda at=(*setting, delta): program(*at))
        ends = _outside(family, setting, delta)
        ratios.append(float(value) / ends.upper if ends.upper > 0.0 else 1.0)
        warm.append(seconds)
        is_below = float(value) < min(ends.lower, ends.analysis_lower) * (1.0 - 1e-9)
        below += is_below
        if ratios[-1] > CLOSE or is_below:
            print(f"{name}: {[float(f'{x:.4g}') for x in (*setting, delta)]} {'BELOW ' * is_below}{ratios[-1]:.5f}")
        if i < num_slopes and ends.upper > 0.0:
            moved = [_outside(family, (setting[0] * (1.0 + s * STEP), *setting[1:]), delta).upper for s in (1.0, -1.0)]
            true = (moved[0] - moved[1]) / (2.0 * STEP * setting[0])
            slopes.append(float(slope(*setting, delta)) / true - 1.0)
    return Found(np.array(ratios), below, np.array(slopes), compiled, gradient, float(np.median(warm)))


COLUMNS = (
    "family",
    "points",
    "median",
    "95 %",
    "99 %",
    "worst",
    "below",
    "slopes, 95 %",
    "compiled",
    "gradient",
    "warm",
)


def row(name: str, of: Found) -> list[str]:
    """One family's row of the table."""
    spread = np.sort(of.ratios)
    at = [spread[int(p * (len(spread) - 1))] for p in (0.5, 0.95, 0.99, 1.0)]
    slopes = np.sort(np.abs(of.slopes))
    off = f"{slopes[int(0.95 * (len(slopes) - 1))]:.1%}" if slopes.size else ""
    costs = f"{of.compiled:.1f} s", f"{of.gradient:.1f} s", f"{1e3 * of.warm:.0f} ms"
    return [name, str(len(spread)), *(f"{x:.5f}" for x in at), str(of.below), off, *costs]


def report(rows: list[list[str]], command: str, path: str, *, on_host: bool) -> None:
    """Writes the page at `path`."""
    from run import machine_in_words

    lines = [
        f"# Epsilon inside `jit`{', asked on the host,' * on_host} over maps of random settings",
        "",
        machine_in_words(),
        "",
        f"Written by `{command}`. Ratios are to the certified upper end outside; every number is traced, the ranges",
        "are in `bench/inside_jit.py`. Slopes are in the noise multiplier, against differences of the answer outside.",
        "Times are CPU seconds.",
        "",
        *(f"| {' | '.join(cells)} |" for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows)),
        "",
    ]
    with open(path, "w") as file:
        file.write("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="+", choices=FAMILIES)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--slopes", type=int, default=20, help="how many of the points slopes are compared at")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", metavar="DIRECTORY", help="where to write INSIDE_JIT.md or ON_HOST.md")
    parser.add_argument("--on-host", action="store_true", help="ask with on_host=True")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = []
    for name in args.families:
        rows.append(row(name, measure(name, args.points, args.slopes, args.seed, on_host=args.on_host)))
        print("; ".join(f"{c} {x}" for c, x in zip(COLUMNS, rows[-1], strict=True)), flush=True)
    if args.report:
        asked = f"{'--on-host ' * args.on_host}--points {args.points} --slopes {args.slopes} --seed {args.seed}"
        command = f"python bench/inside_jit.py {' '.join(args.families)} {asked} --report bench"
        path = os.path.join(args.report, "ON_HOST.md" if args.on_host else "INSIDE_JIT.md")
        report(rows, command, path, on_host=args.on_host)


if __name__ == "__main__":
    main()
