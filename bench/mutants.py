"""Mutants: wrong signs and dropped terms that the tests must notice.

    python bench/mutants.py [--only TEXT] [--since COMMIT] [--jobs N] [--list | --unchanged]

Each mutant of `mutant_list.py` is one change to a copy of the package; the quick tests named for it run there. A
mutant that they do not notice survives: a soundness-relevant line that no test holds. Tests that fail anyway would
kill every mutant: with --unchanged each selection of tests runs once on an unchanged copy, and has to pass.
"""

import argparse
import concurrent.futures
import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutant_list import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT = 600  # seconds


def outcome(mutant: Mutant, *, is_unchanged: bool = False) -> str:
    """killed, survived or stale (its text is no longer there); of an unchanged copy, whether its tests pass."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "jaxacct", folder / "jaxacct", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        path = folder / "jaxacct" / mutant.file
        text = path.read_text()
        if mutant.old not in text:
            return "stale"
        path.write_text(text if is_unchanged else text.replace(mutant.old, mutant.new, 1))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-o", "addopts=", "-m", "not slow"]
        environment = {
            "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".pytest_cache" / "compiled"),  # known by content: mutants share it
            **os.environ,
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        try:
            ended = subprocess.run(
                [*command, *shlex.split(mutant.tests)],
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "timed out"
        words = {0: "passed", 1: "failed"} if is_unchanged else {0: "survived", 1: "killed"}
        return words.get(ended.returncode, f"error {ended.returncode}")


def _timed(mutant: Mutant, *, is_unchanged: bool) -> tuple[str, float]:
    start = time.perf_counter()
    return outcome(mutant, is_unchanged=is_unchanged), time.perf_counter() - start


def _changed_since(commit: str) -> set[str]:
    """Files of the checkout that are not as they were at `commit`."""
    command = ["git", "diff", "--name-only", commit]
    return set(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())


def main() -> int:
    """Prints a line for each mutant, or for each selection of tests; 1 if one survives, is stale, or fails anyway."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants whose file or text contains this")
    parser.add_argument("--since", metavar="COMMIT", help="mutants of files that have changed since")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tested at once")
    parser.add_argument("--unchanged", action="store_true", help="run each selection of tests on an unchanged copy")
    parser.add_argument("--list", action="store_true", help="check that the texts are still there; run nothing")
    args = parser.parse_args()
    chosen = [m for m in MUTANTS if args.only in m.file or args.only in m.old]
    if args.since is not None:
        changed = _changed_since(args.since)
        chosen = [m for m in chosen if f"jaxacct/{m.file}" in changed]
    if args.list:
        stale = [m for m in chosen if m.old not in (ROOT / "jaxacct" / m.file).read_text()]
        print(f"{len(chosen)} mutants, {len(stale)} stale", *(f"{m.file}: {m.old!r}" for m in stale), sep="\n")
        return int(bool(stale))
    if args.unchanged:
        chosen = list({mutant.tests: mutant for mutant in chosen}.values())
    bad, wanted = 0, "passed" if args.unchanged else "killed"
    run = functools.partial(_timed, is_unchanged=args.unchanged)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for mutant, (found, seconds) in zip(chosen, pool.map(run, chosen), strict=True):
            bad += found != wanted
            what = mutant.tests if args.unchanged else f"{mutant.file}: {mutant.old[:70]!r}"
            print(f"{found:9} {seconds:5.0f} s  {what}", flush=True)
    print(f"{len(chosen)} {'selections of tests' if args.unchanged else 'mutants'}, {bad} not {wanted}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
