"""Compares jaxacct with its peers: ``python bench/run.py [--case NAME ...] [--slow] [--json FILE]``.

CPU times (user + system) with wall times in brackets, medians, ours and the peer's interleaved in one run;
ratios are of CPU times. Peers are listed in the `bench` extra; one that is missing is named, not skipped.

* cold: a fresh process, from the interpreter's start to the first answer, and its peak memory;
  import, compile and run are its parts (compile = first call - second call: tracing, lowering, compiling).
* warm: a call among many, after the program was compiled for speed, each with a new parameter.
"""

import argparse
import importlib.metadata
import json
import os
import platform

from cases import all_cases
from harness import measure

_PACKAGES = (
    "jaxacct",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "dp-accounting",
    "random-allocation",
    "PLD_accounting",
    "numba",
)


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.0f} us"


def _both(times: dict) -> str:
    return f"{_time(times['cpu'])} ({_time(times['wall'])})"


def _values(result: dict) -> str:
    """Ours, and the peer's: numbers, or intervals with their widths relative to the lower end."""
    lower = result["ours_value"][0] if isinstance(result["ours_value"], list) else None
    parts = []
    for side in ("ours", "peer"):
        value = result.get(f"{side}_value")
        if isinstance(value, list):
            parts.append(f"{side} [{value[0]:.10g}, {value[1]:.10g}], {100 * (value[1] / value[0] - 1):.3g}% wide")
        elif value is not None:
            above = "" if lower is None else f", {100 * (value / lower - 1):.3g}% above our lower end"
            parts.append(f"{side} {value:.15g}{above}")
    return f"  value {'; '.join(parts)}"


def show(result: dict) -> str:
    """One case, in a few lines."""
    cold, warm = result["cold"], result["warm"]
    parts = " + ".join(f"{part} {_time(max(cold[part], 0.0))}" for part in ("import", "compile", "run"))
    lines = [
        f"{result['case']}",
        f"  ours  warm {_both(warm)}; cold {_both(cold)} = start + {parts}; peak {cold['max_mib']:.0f} MiB",
    ]
    if "missing" in result:
        lines.append(f"  peer  {result['missing']}")
    elif "peer_warm" in result:
        text = f"  peer  warm {_both(result['peer_warm'])}"
        if "peer_cold" in result:
            other = result["peer_cold"]
            text += (
                f"; cold {_both(other)} = start + import {_time(other['import'])} + ..; peak {other['max_mib']:.0f} MiB"
            )
        lines.append(f"{text}   [{result['peer_name']}]")
    else:
        lines.append("  peer  none")
    if "ratio" in result:
        kind = "cold" if result["cold_case"] else "warm"
        lines.append(f"  ratio {result['ratio']:.4g} ({kind}, CPU)" + _verdict(result))
        lines.append(_values(result))
    else:
        lines.append(_values(result) + _verdict(result))
    return "\n".join(lines)


def _verdict(result: dict) -> str:
    limits = []
    if result["required"] is not None:
        limits.append(f"ratio >= {result['required']:,g}")
    if "allowed_mib" in result:
        limits.append(f"peak < {result['allowed_mib']} MiB")
    if not limits:
        return ""
    state = {True: "met", False: "MISSED", None: "not measured"}[result["met"]]
    return f"; required {' and '.join(limits)}: {state}"


def machine() -> dict:
    """Where the numbers come from."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "versions": versions,
    }


def main() -> None:
    cases = all_cases()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", metavar="NAME", help="; ".join(case.name for case in cases))
    parser.add_argument("--json", metavar="FILE", help="write everything measured")
    parser.add_argument("--slow", action="store_true", help="also the cases that take minutes and gigabytes")
    args = parser.parse_args()
    unknown = set(args.case or ()) - {case.name for case in cases}
    if unknown:
        parser.error(f"no case named {sorted(unknown)}; there are {[case.name for case in cases]}")
    wanted = [c for c in cases if (c.name in args.case if args.case else args.slow or not c.slow)]
    left_out = [c.name for c in cases if c.slow and c not in wanted]
    results = []
    for case in wanted:
        results.append(measure(case))
        print(show(results[-1]), flush=True)
        if args.json:
            with open(args.json, "w") as file:
                json.dump({"machine": machine(), "results": results}, file, indent=1)
    if left_out and not args.case:
        print(f"left out without --slow: {', '.join(left_out)}")


if __name__ == "__main__":
    main()
