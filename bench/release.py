"""What has to hold before a release, run one after the other, and a page that says what was run and how it ended.

    python bench/release.py checks [--only TEXT ..]         # needs the extra dev; four hours
    python bench/release.py measurements [--only TEXT ..]   # needs bench-opacus, a quiet machine, three hours

RELEASE.md is written after each step and read by the next run, so that the others can be run later, by naming them.
What was run on other code of the package is left out of it. Each command's output is in build/release/.
"""

import argparse
import ast
import datetime
import hashlib
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LOGS, PAGE = ROOT / "build/release", ROOT / "bench/RELEASE.md"


class Step(NamedTuple):
    """A command, and which line of its output says how it ended: the last with these words."""

    name: str
    command: str
    says: str | None = r"\d+ passed"


_COLUMNS = ("command", "begun", "commit", "minutes", "ended")
_PYTEST = "python -m pytest -q"
_FAMILIES = "poisson allocation clones check-in laplace pair k-of-t-sparse k-of-t-dense"
_TRACED = "poisson laplace one-epoch epochs k-of-t composed clones replaced allocated-laplace"
_ON_HOST = "poisson laplace one-epoch epochs k-of-t composed clones replaced"
_PART = "-k 'test_membership or test_on_host'"
_PATIENT = "QUESTION_SECONDS=60"  # of CPU time, where both cores are busy: six times the limit of the default run
_WHOLE = ("tests/test_every_mechanism.py", "tests/test_both_paths.py")
_ASKED = "tests/test_random_questions.py"
_SLOW = {
    "every mechanism, on every path": " ".join(_WHOLE),
    "random questions": _ASKED,
    "the package as a whole": "tests/test_*.py" + "".join(f" --deselect {file}" for file in (*_WHOLE, _ASKED)),
    "its parts and the documentation site": "tests --ignore-glob 'tests/test_*.py' --ignore tests/oracle",
}
STEPS = {
    "checks": (
        Step("style and types", "ruff check . && ruff format --check . && mypy", "no issues found"),
        Step("README's two commands in a fresh clone", ".ci/run"),
        Step("the float64 boundary, by the oldest and the newest JAX", ".ci/matrix"),
        Step(
            "a part of that by Python 3.12 and 3.13",
            f"PYTHON=python3.12 .ci/matrix oldest {_PART} && PYTHON=python3.13 .ci/matrix newest {_PART}",
        ),
        Step("every mutant", "python bench/mutants.py --jobs 2", r"mutants, \d+ not killed"),
        Step(
            "enclosures by ball arithmetic, a tenth of the long draws",
            f"ORACLE_SEED={{seed}} ORACLE_SHARE=0.1 {_PYTEST} -m slow tests/oracle",
        ),
        Step("settings that the default run leaves out", f"{_PYTEST} -m 'more and not slow'"),
        *(Step(f"slow tests of {name}", f"{_PATIENT} {_PYTEST} -m slow {where}") for name, where in _SLOW.items()),
        Step(
            "the source distribution, by its own tests in a fresh environment",
            "rm -rf build/sdist && python -m build -o build/sdist . && twine check --strict build/sdist/* && "
            "cd build/sdist && tar xzf *.tar.gz && python3 -m venv env && cd jaxacct-*/ && "
            "../env/bin/pip install -q '.[test]' && "
            "../env/bin/python -m pytest -q tests/docs tests/cli tests/test_structure.py",
        ),
    ),
    "measurements": (
        Step("beside the peers", "python bench/run.py --slow --json build/release/run.json", None),
        Step("the report of that", "python bench/report.py build/release/run.json", None),
        Step("maps", f"python bench/map.py {_FAMILIES} --points 100 --seed {{seed}} --report bench", None),
        Step(
            "answers inside jit",
            f"python bench/inside_jit.py {_TRACED} --points 24 --slopes 12 --seed {{seed}} --report bench",
            None,
        ),
        Step(
            "answers inside jit, asked on the host",
            f"python bench/inside_jit.py {_ON_HOST} --on-host --points 100 --slopes 20 --seed {{seed}} --report bench",
            None,
        ),
        Step("first answers", "python bench/first_answers.py --rounds 3 --report bench", None),
        Step("slow spots", "python bench/slow_spots.py --report bench", None),
        Step("workers", "python bench/workers.py --report bench", None),
    ),
}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def code() -> str:
    """Which code the package is: a hash of its syntax trees, without comments, docstrings and strings with a space.

    Such a string is something to read: the message of an error, or a line of help.
    """
    found = hashlib.sha256()
    for path in sorted((ROOT / "jaxacct").rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                del node.body[0]
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                node.value = " "
        found.update(f"{path.relative_to(ROOT)}\n{ast.dump(tree)}\n".encode())
    return found.hexdigest()[:12]


def run(step: Step, seed: int) -> dict[str, str]:
    """What the page says of a step, which is run now."""
    log = LOGS / f"{re.sub('[^a-z0-9]+', '-', step.name.lower())}.log"
    command = step.command.format(seed=seed)
    begun, start = datetime.datetime.now(datetime.UTC), time.perf_counter()
    environment = f"PATH={Path(sys.executable).parent}:$PATH"  # of `python`, `ruff` and `mypy`
    with log.open("w") as file:
        done = subprocess.run(["bash", "-c", f"{environment}; {command}"], cwd=ROOT, stdout=file, stderr=file)
    said = re.findall(rf"^.*{step.says}.*$", log.read_text(), re.MULTILINE) if step.says else []
    ended = "well" if done.returncode == 0 else f"with status {done.returncode}"
    return {
        "command": command,
        "begun": f"{begun:%Y-%m-%d %H:%M}",
        "minutes": f"{(time.perf_counter() - start) / 60:.0f}",
        "commit": _git("rev-parse", "--short", "HEAD"),
        "ended": ": ".join([ended, *(line.strip(" =").replace("|", "/") for line in said[-1:])]),
    }


def known(text: str, package: str) -> dict[str, dict[str, str]]:
    """What such a page says of the steps that were run on this code of the package."""
    if f" {package}\n" not in text:
        return {}
    rows = (re.split(r" \| ", line.strip("| \n")) for line in text.splitlines() if line.startswith("| "))
    found = {name: dict(zip(_COLUMNS, [command.strip("`"), *others], strict=True)) for name, command, *others in rows}
    return {name: row for name, row in found.items() if row["begun"][:1].isdigit()}


def page(done: dict[str, dict[str, str]], package: str) -> str:
    """RELEASE.md: a row for each step, in the order above."""
    head = [
        "# What was run before the release\n",
        f"Written by `python bench/release.py`. The package's code was the same in every row: {package}",
        "(a hash of its syntax trees, in which comments, docstrings and the texts of messages make no difference).",
        "Times are UTC.\n",
        "| what | command | begun | commit | minutes | ended |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    nothing = dict.fromkeys(_COLUMNS, "") | {"ended": "not run"}
    rows = []
    for step in (step for steps in STEPS.values() for step in steps):
        found = {**nothing, "command": step.command, **done.get(step.name, {})}
        cells = [step.name, f"`{found['command']}`", *(found[column] for column in _COLUMNS[1:])]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*head, *rows, ""])


def main() -> int:
    """0; 1 if a step did not end well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=STEPS)
    parser.add_argument(
        "--only", nargs="+", metavar="TEXT", default=[""], help="steps whose name contains one of these"
    )
    parser.add_argument("--seed", type=int, required=True, help="of random settings: one that nobody has tuned to")
    args = parser.parse_args()
    if _git("status", "--porcelain", "jaxacct"):
        parser.error("jaxacct/ has changes that are not committed: nobody could say later what was run")
    LOGS.mkdir(parents=True, exist_ok=True)
    package = code()
    done = known(PAGE.read_text(), package)
    failed = False
    for step in STEPS[args.group]:
        if not any(text in step.name for text in args.only):
            continue
        print(step.name, flush=True)
        done[step.name] = run(step, args.seed)
        print(f"  {done[step.name]['ended']}, {done[step.name]['minutes']} min", flush=True)
        failed |= not done[step.name]["ended"].startswith("well")
        PAGE.write_text(page(done, package))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
