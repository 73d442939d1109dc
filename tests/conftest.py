"""How the tests compile, and the option and the summary of the reference values; see `test_reference`."""

import gc
import importlib.metadata
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Workers, processes that tests start, and the next run share what was compiled; JAX reads this when it is imported.
_CACHE = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Each core has a test process of its own: products of matrices on several threads would spin against its neighbours.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process that a test starts would compile the package anew

# Most programs of a test run once. They are all compiled as the package compiles a user's first questions, in a fifth
# of the time: certificates hold either way. `test_both_paths` compares the two; JAXACCT_OPTIMISED=1 compiles for speed,
# as `.ci/matrix` does. XLA aborts on flags that it does not know, so only versions seen to know them get them.
_QUICK_FLAGS = (
    *("--xla_backend_optimization_level=0", "--xla_cpu_use_fusion_emitters=false"),
    "--xla_cpu_parallel_codegen_split_count=1",
)
if not os.environ.get("JAXACCT_OPTIMISED") and importlib.metadata.version("jaxlib").startswith(("0.9.", "0.10.")):
    os.environ["XLA_FLAGS"] = " ".join([*_QUICK_FLAGS, os.environ.get("XLA_FLAGS", "")]).strip()
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # no line numbers of frames in compiled programs

import jax  # noqa: E402
import pytest  # noqa: E402
from support.reference import OUTCOME, Entry, read_folder  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    default = Path(__file__).parent / "reference"
    parser.addoption("--reference-dir", type=Path, default=default, help="folder of reference values (*.json)")


@pytest.fixture(autouse=True)
def _strict_promotion() -> Iterator[None]:
    """Dtypes are promoted strictly, as a user may have set it: everything must work so (`.ci/matrix` sets its own)."""
    with jax.numpy_dtype_promotion(os.environ.get("JAX_NUMPY_DTYPE_PROMOTION", "strict")):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the settings of a test marked `sample(n)` all but n are marked `more`: those that its name draws stay."""
    settings: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sample") and not item.get_closest_marker("slow"):
            settings[item.nodeid.split("[")[0]].append(item)
    for name, found in settings.items():
        (size,) = next(item.get_closest_marker("sample") for item in found).args
        kept = random.Random(name).sample(sorted(item.nodeid for item in found), min(size, len(found)))
        for item in found:
            if item.nodeid not in kept:
                item.add_marker("more")


def pytest_collection_finish() -> None:
    """What was imported and collected stays: it is not looked through again each time that garbage is."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


_MAX_MAPS = 40_000
_tests_run = 0


def pytest_runtest_teardown() -> None:
    """Drops compiled programs before the process has as many memory maps as Linux allows (65,530)."""
    global _tests_run
    _tests_run += 1
    maps = Path("/proc/self/maps")
    if _tests_run % 10 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > _MAX_MAPS:
        jax.clear_caches()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line for each paper; below it what is not covered.

    Outcomes travel in the reports' properties, so that they reach the controlling process of a distributed run too.
    """
    reports = [r for rs in terminalreporter.stats.values() for r in rs if isinstance(r, pytest.TestReport)]
    if not any(Path(report.location[0]).name == "test_reference.py" for report in reports):
        return
    outcomes = {p[1][0]: p[1][1] for r in reports for p in r.user_properties if p[0] == OUTCOME}
    by_paper = defaultdict(list)
    for entry in read_folder(config.getoption("--reference-dir")):
        by_paper[entry.paper].append(entry)
    terminalreporter.ensure_newline()
    for paper, entries in sorted(by_paper.items()):
        _print_paper(terminalreporter, paper, entries, outcomes)


def _print_paper(terminalreporter: Any, paper: str, entries: list[Entry], outcomes: dict[str, str]) -> None:
    from support.reference_table import TABLE

    status = {e.label: outcomes.get(e.label, "not run" if e.key in TABLE else "uncovered") for e in entries}
    count = Counter(status.values())
    checked = count["passed"] + count["failed"]
    terminalreporter.write_line(
        f"reference: {paper} checked={checked} failed={count['failed']} uncovered={count['uncovered']}"
    )
    uncovered = Counter(f"{e.system}/{e.quantity}" for e in entries if status[e.label] == "uncovered")
    for name, number in uncovered.items():
        terminalreporter.write_line(f"    {name}: {number}")
    if count["not run"]:
        terminalreporter.write_line(f"    (not run: {count['not run']})")
