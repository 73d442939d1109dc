"""Accountants written in Rust beside ours, at random settings: ends, warm times, and times of a fresh process.

    python bench/rust_peers.py [--points N] [--seed S] [--report DIRECTORY]

Poisson-sampled Gaussian steps beside opake (loss distributions, upper ends) and dp-accelerator (Renyi divergences), and
one epoch of random allocation, k of t steps, beside opake. Each at its defaults; ours is `epsilon_interval` at its own.
Settings are uniform in the logarithm over the ranges in this file. A peer that cannot be imported is left out: as of
November 2026 opake 0.16 is imported by Python 3.13 alone, and dp-accelerator 0.1 has wheels for 3.11 alone. `--report`
writes RUST_PEERS.md to a folder and keeps what it says of peers that this run left out.

Each answer is given by a fresh process. Fresh: CPU seconds from the interpreter's start to the first answer. Warm:
those of each of twenty further ones, at noise multipliers that differ in the fifth digit; where the first answer took
over ten seconds, no other is asked, and its time stands for them. A process is ended after 200 CPU seconds.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import json
import math
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

USERS = 10**6  # records, where a peer wants whole numbers of them
LOOSER = 1e-4  # relative: an upper end that much above the other is called looser


def _poisson(rng: np.random.Generator) -> dict[str, float]:
    return {
        "sigma": _log_uniform(rng, 0.56, 5.0),
        "batch": round(USERS * _log_uniform(rng, 1e-4, 0.2)),
        "steps": round(_log_uniform(rng, 100, 3e5)),
        "delta": _log_uniform(rng, 1e-10, 1e-4),
    }


def _allocation(rng: np.random.Generator) -> dict[str, float]:
    t = round(_log_uniform(rng, 100, 1e5))
    return {
        "sigma": _log_uniform(rng, 0.56, 5.0),
        "t": t,
        "k": round(_log_uniform(rng, 1, 10)),
        "delta": _log_uniform(rng, 1e-10, 1e-4),
    }


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _our_poisson(sigma: float, batch: int, steps: int, delta: float) -> tuple[float, float]:
    import jaxacct as ja

    found = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(sigma), batch / USERS, steps), delta)
    return found.analysis_lower, found.upper


def _our_allocation(sigma: float, t: int, k: int, delta: float) -> tuple[float, float]:
    import jaxacct as ja

    found = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(sigma), t, k), delta)
    return found.analysis_lower, found.upper


def _opake_poisson(sigma: float, batch: int, steps: int, delta: float) -> float:
    from opake.accounting import repeat
    from opake.api.accounting.dpsgd import amplification, mechanisms

    return repeat(amplification.poisson(mechanisms.gaussian(sigma), batch / USERS), steps).epsilon_at(delta)


def _opake_allocation(sigma: float, t: int, k: int, delta: float) -> float:
    from opake.api.accounting.dpsgd import amplification, mechanisms

    return amplification.k_out_of_t(mechanisms.gaussian(sigma), k=k, t=t, allocation="total").epsilon_at(delta)


def _dp_accelerator(sigma: float, batch: int, steps: int, delta: float) -> float:
    from dp_accelerator import DPSGDAccountant

    return DPSGDAccountant(sigma, batch, USERS).get_epsilon(steps, delta)


class Comparison(NamedTuple):
    """One peer at one family of settings."""

    title: str
    package: str
    draw: Callable[[np.random.Generator], dict[str, float]]
    ours: Callable[..., tuple[float, float]]
    peer: Callable[..., float]


COMPARISONS = (
    Comparison("Poisson sampling, opake", "opake-accounting", _poisson, _our_poisson, _opake_poisson),
    Comparison("Random allocation, opake", "opake-accounting", _allocation, _our_allocation, _opake_allocation),
    Comparison("Poisson sampling, dp-accelerator", "dp-accelerator", _poisson, _our_poisson, _dp_accelerator),
)


SLOW = 10.0  # CPU seconds of a first answer, after which no further one is asked
FURTHER = 20  # answers after the first
LIMIT = 200  # CPU seconds of a peer's process


def _can_import(of: Comparison) -> bool:
    modules = {"opake-accounting": "opake.accounting", "dp-accelerator": "dp_accelerator"}
    try:
        importlib.import_module(modules[of.package])
    except (ImportError, TypeError):  # what opake raises where Python's dataclasses refuse its own
        return False
    return True


def answer(name: str, setting: dict[str, float]) -> None:
    """Prints, as JSON, the answer to `setting`, CPU seconds until it was there, and those of a further one."""
    ask = next(f for of in COMPARISONS for f in (of.ours, of.peer) if f.__name__ == name)
    found = ask(**setting)
    first = time.process_time()
    if first > SLOW:
        print(json.dumps([found, first, first]))
        return
    for i in range(1, FURTHER + 1):
        ask(**{**setting, "sigma": setting["sigma"] * (1.0 + 1e-5 * i)})
    print(json.dumps([found, first, (time.process_time() - first) / FURTHER]))


def _asked(ask: Callable[..., Any], setting: dict[str, float]) -> tuple[Any, float, float]:
    """What `answer` prints of a fresh process; inf where it took too long."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))

    command = [sys.executable, os.path.abspath(__file__), "--answer", ask.__name__, json.dumps(setting)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited)
    if done.returncode < 0:
        return math.inf, math.inf, math.inf
    if done.returncode:
        raise RuntimeError(done.stderr)
    found, fresh, warm = json.loads(done.stdout.splitlines()[-1])
    return found, fresh, warm


def compared(of: Comparison, num_points: int, seed: int) -> list[dict[str, Any]]:
    """A row for each setting."""
    rng = np.random.default_rng(seed)
    rows = []
    for setting in [of.draw(rng) for _ in range(num_points)]:
        row = dict(setting)
        (row["lower"], row["upper"]), row["our fresh"], row["our warm"] = _asked(of.ours, setting)
        row["peer"], row["its fresh"], row["its warm"] = _asked(of.peer, setting)
        rows.append(row)
        print(of.title, "  ".join(f"{k} {v:.6g}" for k, v in row.items()), flush=True)
    return rows


def _percent(gap: float) -> str:
    return f"{100 * gap:.2g} %"


def _in_words(rows: list[dict[str, Any]]) -> str:
    """What the rows that the peer answered say together."""
    known = [row for row in rows if row["peer"] < math.inf]
    text = f"it answered {len(known)} within {LIMIT} CPU seconds"
    if not known:
        return text + "."
    gaps = [row["peer"] / row["upper"] - 1.0 for row in known]
    looser = sum(row["upper"] > row["peer"] * (1.0 + LOOSER) for row in known)
    below = sum(row["peer"] < row["lower"] for row in known)
    warm, fresh = ([row[f"its {kind}"] / row[f"our {kind}"] for row in known] for kind in ("warm", "fresh"))
    return (
        f"{text}. Its upper end lies {_percent(float(np.median(gaps)))} above ours in the median,\n"
        f"{_percent(max(gaps))} at most, and below our certified lower end at {below}; ours is looser by more\n"
        f"than 0.01 % at {looser}. Its warm answer takes {np.median(warm):.3g} times as long as ours in the median\n"
        f"({min(warm):.2g} to {max(warm):.3g}), a fresh process {np.median(fresh):.2g} times "
        f"({min(fresh):.2g} to {max(fresh):.3g})."
    )


def section(of: Comparison, rows: list[dict[str, Any]], seed: int) -> str:
    """What one comparison says, in Markdown."""
    inputs = list(rows[0])[: list(rows[0]).index("lower")]
    text = [
        f"## {of.title} {importlib.metadata.version(of.package)}",
        "",
        f"{machine()}",
        "",
        f"{len(rows)} settings, seed {seed}; {_in_words(rows)}",
        "",
        "| " + " | ".join([*inputs, "ours", "peer", "our warm", "its warm", "our fresh", "its fresh"]) + " |",
        "| " + " | ".join("---" for _ in range(len(inputs) + 6)) + " |",
    ]
    for row in rows:
        values = [f"{row[name]:.4g}" for name in inputs] + [f"{row['upper']:.6g}"]
        is_known = row["peer"] < math.inf
        values += [f"{row['peer']:.6g} ({100 * (row['peer'] / row['upper'] - 1.0):+.2g} %)" if is_known else "too long"]
        values += [f"{1e3 * row[name]:.3g} ms" if row[name] < math.inf else "" for name in ("our warm", "its warm")]
        values += [f"{row[name]:.2f} s" if row[name] < math.inf else "" for name in ("our fresh", "its fresh")]
        text.append("| " + " | ".join(values) + " |")
    return "\n".join(text) + "\n"


def machine() -> str:
    """The day, the package and the Python of this run."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{datetime.date.today()}: jaxacct {importlib.metadata.version('jaxacct')}, Python {python}."


def report(sections: dict[str, str], folder: str) -> None:
    """Writes RUST_PEERS.md; sections of comparisons that this run left out stay."""
    path = os.path.join(folder, "RUST_PEERS.md")
    kept: dict[str, str] = {}
    if os.path.exists(path):
        with open(path) as file:
            for part in re.split(r"^(?=## )", file.read(), flags=re.MULTILINE)[1:]:
                kept.update(
                    {of.title: part.rstrip() + "\n" for of in COMPARISONS if part.startswith(f"## {of.title} ")}
                )
    kept.update(sections)
    head = (
        "# Accountants written in Rust\n\nWritten by `python bench/rust_peers.py`, which says what is measured.\n"
        "Where a peer's fresh process is quicker, ours imports NumPy and the package meanwhile; where its warm\n"
        "answer is, it is a bound by Renyi divergences, and ours a certified interval.\n"
    )
    with open(path, "w") as file:
        file.write("\n".join([head, *(kept[of.title] for of in COMPARISONS if of.title in kept)]))


def main() -> None:
    """Compares with the peers that are installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=12, help="settings of each comparison")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", help="folder for RUST_PEERS.md")
    parser.add_argument("--answer", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.answer:
        answer(args.answer[0], json.loads(args.answer[1]))
        return
    found = {
        of.title: section(of, compared(of, args.points, args.seed), args.seed) for of in COMPARISONS if _can_import(of)
    }
    if args.report:
        report(found, args.report)
    print("\n".join(found.values()))


if __name__ == "__main__":
    main()
