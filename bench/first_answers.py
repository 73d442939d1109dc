"""What a first answer costs in a fresh process: what a newcomer waits for.

    python bench/first_answers.py [--rounds N] [--only TEXT] [--json FILE] [--report DIRECTORY]

CPU seconds (user + system) of each command, from the interpreter's start to its end; medians over rounds, in which
every command has its turn. `MiB` is the peak of resident memory. `import jax`, which a concrete question does not need,
and a peer's own first answers to the Poisson question (where dp_accounting is installed) stand beside ours. Sources are
compiled to byte code beforehand, as an installed package's are: every command runs once before it is measured. JAX's
cache of compiled programs is left out. `--report` writes FIRST_ANSWERS.md to a folder, with what every command of the
documentation costs, once, beside.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
UNIT = "import jax"
_UNSET = ("JAXACCT_CACHE", "JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")
_BYTE_CODE = tempfile.TemporaryDirectory(prefix="byte-code-")


class First(NamedTuple):
    """A command in a fresh process; `limit`: seconds that it is meant to stay within."""

    arguments: tuple[str, ...]
    limit: float | None = None


def _python(code: str, limit: float | None = None) -> First:
    return First(("-c", code), limit)


def _asked(mechanism: str, limit: float, question: str = "epsilon(run, 1e-6)") -> First:
    return _python(f"import jaxacct as ja; run = {mechanism}; ja.{question}", limit)


def _typed(text: str, limit: float | None) -> First:
    return First(("-m", "jaxacct", *text.split()), limit)


_PEER = """
from dp_accounting import dp_event
from dp_accounting.{module} import {name}
accountant = {name}()
accountant.compose(dp_event.PoissonSampledDpEvent(.01, dp_event.GaussianDpEvent(1.)), 10_000)
accountant.get_epsilon(1e-6)
"""

_PEERS = {
    "dp_accounting's RDP accountant, Poisson": _python(_PEER.format(module="rdp", name="RdpAccountant")),
    "dp_accounting's PLD accountant, Poisson": _python(_PEER.format(module="pld", name="PLDAccountant")),
}

COMMANDS = {
    UNIT: _python("import jax"),
    "import jaxacct": _python("import jaxacct", 0.1),
    "jaxacct --help": _typed("--help", None),
    "epsilon, Poisson": _asked("ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 10_000)", 0.4),
    "epsilon, allocation": _asked("ja.RandomAllocation(ja.Gaussian(1.0), 1000)", 0.4),
    "epsilon, allocation, 10 epochs": _asked("ja.RandomAllocation(ja.Gaussian(1.0), 1000, num_epochs=10)", 0.4),
    "epsilon, shuffle": _asked("ja.Shuffled(ja.LocalRandomizer(1.0), 1_000_000)", 0.4),
    "epsilon, check-in": _asked("ja.CheckIn(ja.LocalRandomizer(2.0), 10_000, 0.01)", 0.4),
    "epsilon, ten rounds of a shuffle": _asked("ja.Shuffled(ja.LocalRandomizer(1.0), 1_000_000, 10)", 0.4),
    "calibrate, Poisson": _asked(
        "ja.PoissonSampled(ja.Gaussian(None), 0.01, 1000)", 0.5, "calibrate(run, 'noise_multiplier', 1.0, 1e-6)"
    ),
    "jaxacct epsilon allocation, 10 epochs": _typed(
        "epsilon allocation --noise-multiplier 1 --num-steps 1000 --num-epochs 10 --delta 1e-6", 0.5
    ),
    "jaxacct epsilon poisson": _typed(
        "epsilon poisson --noise-multiplier 1 --sampling-prob .01 --num-steps 1000 --delta 1e-6", 0.5
    ),
    "jaxacct epsilon shuffle": _typed("epsilon shuffle --local-epsilon 1 --num-reports 1000000 --delta 1e-6", 0.5),
    "jaxacct epsilon check-in": _typed(
        "epsilon check-in --local-epsilon 2 --num-users 10000 --check-in-prob .01 --delta 1e-6", 0.5
    ),
    "jaxacct compare allocation": _typed("compare allocation --noise-multiplier 1 --num-steps 1000 --delta 1e-6", 2.0),
}


def documented() -> dict[str, First]:
    """Every command of the documentation, as it stands there."""
    found = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"^```sh\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                if line.startswith("jaxacct "):
                    found.setdefault(line, First(("-m", *shlex.split(line))))
    return found


def once(first: First) -> tuple[float, float]:
    """(CPU seconds, peak MiB) of one fresh process, in a folder of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    command, environment["PYTHONPATH"] = [sys.executable, *first.arguments], str(ROOT)
    environment["PYTHONPYCACHEPREFIX"] = _BYTE_CODE.name
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    kibibytes = used.ru_maxrss if sys.platform != "darwin" else used.ru_maxrss / 1024
    return used.ru_utime + used.ru_stime, kibibytes / 1024


def measure(commands: dict[str, First], rounds: int) -> dict[str, dict[str, float]]:
    """Medians of seconds and MiB."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for first in commands.values():
        once(first)
    for _ in range(rounds):
        for name, first in commands.items():
            found[name].append(once(first))
    return {
        name: {
            "seconds": statistics.median(seconds for seconds, _ in runs),
            "mib": statistics.median(mib for _, mib in runs),
        }
        for name, runs in found.items()
    }


def judged(limit: float | None, seconds: float) -> str:
    """Whether `seconds` are within the limit, in words; nothing without one."""
    return "" if limit is None else f"at most {limit:g}: {'met' if seconds <= limit else 'not met'}"


def report(found: dict[str, dict[str, float]], commands: dict[str, First], rounds: int, folder: str) -> None:
    """Writes FIRST_ANSWERS.md to `folder`."""
    from run import machine_in_words

    lines = [
        "# First answers",
        "",
        machine_in_words(),
        "",
        f"Written by `python bench/first_answers.py --rounds {rounds} --report bench`: CPU seconds of a fresh process,",
        f"from the interpreter's start to its end, and the peak of its memory; medians of {rounds} rounds, in which",
        "every command has its turn. Byte code is there, as an installed package's is; no compiled program is kept.",
        "",
        "| what is run | seconds | MiB | limit |",
        "| --- | --- | --- | --- |",
    ]
    for name, row in found.items():
        limit = judged(commands[name].limit, row["seconds"])
        lines.append(f"| {name} | {row['seconds']:.2f} | {row['mib']:.0f} | {limit} |")
    lines += ["", "## Every command of the documentation", "", "| command | seconds, all of it |", "| --- | --- |"]
    shown = sorted((once(first)[0], name) for name, first in documented().items())
    lines += [f"| `{name}` | {seconds:.2f} |" for seconds, name in shown]
    with open(os.path.join(folder, "FIRST_ANSWERS.md"), "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, ""]))


def main() -> None:
    """Prints a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="commands whose name holds this")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--report", metavar="DIRECTORY", help="where to write FIRST_ANSWERS.md")
    args = parser.parse_args()
    commands = dict(COMMANDS)
    if importlib.util.find_spec("dp_accounting") is not None:
        commands |= _PEERS
    commands = {name: first for name, first in commands.items() if args.only in name or name == UNIT}
    found = measure(commands, args.rounds)
    for name, row in found.items():
        limit = judged(commands[name].limit, row["seconds"])
        print(f"{name:<42} {row['seconds']:.2f} s  {row['mib']:.0f} MiB  {limit}", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2)
    if args.report:
        report(found, commands, args.rounds, args.report)


if __name__ == "__main__":
    main()
