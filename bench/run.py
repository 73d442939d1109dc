"""Compares jaxacct with its peers: ``python bench/run.py [--case NAME ...] [--slow] [--device gpu] [--json FILE]``.

CPU times (user + system) with wall times in brackets, medians, ours and the peer's interleaved in one run; ratios are
of CPU times, on a GPU of wall times. Peers are listed in the extra `bench` (Opacus, which brings PyTorch, in
`bench-opacus`); one that is missing is named, not skipped.

* cold: a fresh process, from the interpreter's start to the first answer, and its peak memory;
  import, compile and run are its parts (compile = first call - second call: tracing, lowering, compiling).
* warm: a call among many, after the programs were compiled, each with a new parameter.

Then how our own cost grows with one parameter at a time (the families of `scaling`; `--case` names these too).
``python bench/report.py FILE`` renders what --json wrote, of all cases or of some, as REPORT.md with its plots.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import sys

from cases import all_cases
from harness import idle_mib, measure, run_child
from limits import limits
from scaling import FAMILIES, measure_family

_PACKAGES = (
    "jaxacct",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "dp-accounting",
    "random-allocation",
    "PLD_accounting",
    "prv-accountant",
    "opacus",
    "torch",
    "autodp",
    "numba",
)


def in_words(seconds: float) -> str:
    """A time in the unit that suits it."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.0f} us"


def _both(times: dict) -> str:
    return f"{in_words(times['cpu'])} ({in_words(times['wall'])})"


def _values(result: dict) -> str:
    """Ours, and the peer's: numbers, or intervals with their widths relative to the lower end."""
    lower = result["ours_value"][0] if isinstance(result["ours_value"], list) else None
    parts = []
    for side in ("ours", "peer"):
        value = result.get(f"{side}_value")
        if isinstance(value, list):
            parts.append(f"{side} [{value[0]:.10g}, {value[1]:.10g}], {100 * (value[1] / value[0] - 1):.3g}% wide")
        elif value is not None:
            bare = lower is None or lower <= 0.0
            above = "" if bare else f", {100 * (value / lower - 1):.3g}% above our lower end"
            parts.append(f"{side} {value:.15g}{above}")
    return f"  value {'; '.join(parts)}"


def show(result: dict) -> str:
    """One case, in a few lines."""
    cold, warm = result["cold"], result["warm"]
    parts = " + ".join(f"{part} {in_words(max(cold[part], 0.0))}" for part in ("import", "compile", "run"))
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
            text += f"; cold {_both(other)} = start + import {in_words(other['import'])} + .."
            text += f"; peak {other['max_mib']:.0f} MiB"
        lines.append(f"{text}   [{result['peer_name']}]")
    else:
        lines.append("  peer  none")
    if "ratio" in result:
        kind = "cold" if result["cold_case"] else "warm"
        clock = {"cpu": "CPU", "wall": "wall"}[result["clock"]]
        lines.append(f"  ratio {result['ratio']:.4g} ({kind}, {clock})" + _verdict(result))
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


def show_family(family: dict) -> str:
    """One family, a line for each point."""
    lines = [f"{family['family']}, by {family['parameter']}"]
    for at in family["points"]:
        times = f"first {in_words(at['first'])}; warm {_both(at)}; peak {at['max_mib']:.0f} MiB"
        lines.append(f"  {at['value']:>10,}  {times}")
    return "\n".join(lines)


def _first_in(path: str, key: str) -> str:
    """The value of the first line `key: value`; empty where there is no such file."""
    try:
        with open(path) as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith(key)), "")
    except OSError:
        return ""


def machine() -> dict:
    """Where the numbers come from."""
    import jaxacct  # a report is rendered without it

    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    versions["jaxacct"] = jaxacct.__version__  # the metadata of an editable installation may be an older one
    memory = _first_in("/proc/meminfo", "MemTotal").split()
    return {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": _first_in("/proc/cpuinfo", "model name") or platform.processor(),
        "cpus": os.cpu_count(),
        "memory_gib": int(memory[0]) / 2**20 if memory else None,
        "load": os.getloadavg(),
        "versions": versions,
    }


def machine_in_words() -> str:
    """The same in a line, at the end of a measurement."""
    host = machine()
    versions = ", ".join(f"{name} {host['versions'][name]}" for name in ("jaxacct", "jax", "numpy", "dp-accounting"))
    return f"{host['date']}: {host['cpu']}, {host['cpus']} cores; load {host['load'][0]:.1f} at the end. {versions}."


_PLATFORM = "import jax; print(json.dumps(jax.default_backend()))"


def use_device(name: str) -> str | None:
    """Has every case's process compute on `name`; what is wrong, in words, where that cannot be."""
    os.environ["JAX_PLATFORMS"] = "cpu" if name == "cpu" else ""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # so that a card's peak memory is what was needed
    found = run_child(_PLATFORM)[0]
    return None if found == name else f"JAX sees no {name} here: its default backend is {found!r}"


def main() -> None:
    cases = all_cases()
    names = [case.name for case in cases] + [family.name for family in FAMILIES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", metavar="NAME", help="; ".join(names))
    parser.add_argument("--json", metavar="FILE", help="write everything measured")
    parser.add_argument("--resume", action="store_true", help="keep what the file of --json holds, measure the rest")
    parser.add_argument("--slow", action="store_true", help="also the cases that take minutes and gigabytes")
    parser.add_argument("--without", nargs="+", metavar="NAME", default=(), help="cases to leave out")
    parser.add_argument(
        "--why", default="being slow", help="why cases are left out, for the report (default: %(default)s)"
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where jaxacct computes (default: cpu)")
    args = parser.parse_args()
    unknown = {*(args.case or ()), *args.without} - set(names)
    if unknown:
        parser.error(f"no case named {sorted(unknown)}; there are {names}")
    if problem := use_device(args.device):
        sys.exit(problem)
    wanted = [c for c in cases if (c.name in args.case if args.case else args.slow or not c.slow)]
    wanted = [c for c in wanted if c.name not in args.without]
    left_out = [c.name for c in cases if c not in wanted and not args.case]
    data = {"machine": machine(), "idle_mib": idle_mib(), "limits": limits(), "left_out": left_out, "why": args.why}
    data.update(results=[], scaling=[], sittings=1)
    if args.resume and args.json and os.path.exists(args.json):
        with open(args.json) as file:
            before = json.load(file)
        data.update({key: before[key] for key in ("machine", "idle_mib", "limits", "results", "scaling")})
        data["sittings"] = before["sittings"] + 1
    done = {found["case"] for found in data["results"]} | {found["family"] for found in data["scaling"]}

    def add(where: str, found: dict, text: str) -> None:
        data[where].append(found)
        print(text, flush=True)
        if args.json:
            with open(args.json, "w") as file:
                json.dump(data, file, indent=1)

    for case in (c for c in wanted if c.name not in done):
        found = measure(case, clock="wall" if args.device == "gpu" else "cpu")
        add("results", found, show(found))
    for family in FAMILIES:
        if (not args.case or family.name in args.case) and family.name not in done:
            found = measure_family(family)
            add("scaling", found, show_family(found))
    if left_out:
        print(f"left out: {', '.join(left_out)}")


if __name__ == "__main__":
    main()
