"""What of bench/ needs no peer and no clock: the registry, the report's verdicts, the mutants' texts."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
pytest.importorskip("matplotlib")


@pytest.fixture
def bench(monkeypatch):
    """Its modules, importable by their own names."""
    monkeypatch.syspath_prepend(str(BENCH))
    return __import__


def test_names_are_unique(bench):
    names = [case.name for case in bench("cases").all_cases()] + [f.name for f in bench("scaling").FAMILIES]
    assert [name for name, number in Counter(names).items() if number > 1] == []


def result(name, ours, peer, ratio, **rest):
    times = {"cpu": 1.0, "wall": 1.0, "least_cpu": 1.0, "most_cpu": 1.0}
    cold = {"cpu": 2.0, "wall": 2.0, "import": 0.5, "compile": 1.0, "run": 0.1, "max_mib": 200.0, "compiler_mib": 50.0}
    cold |= {"compiled_first": 2, "compiled_second": 0}
    work = {"flops": 1e3, "bytes accessed": 1e3, "transcendentals": 10.0, "device_mib": 0.0}
    whole = {"case": name, "peer_name": "a peer", "required": None, "cold_case": False, "met": None, "clock": "cpu"}
    whole |= {"quantity": "epsilon", "estimates": "", "ours_value": ours, "peer_value": peer, "ratio": ratio}
    whole |= {"warm": times, "peer_warm": times | {"cpu": ratio}, "cold": cold, "peer_cold": cold | {"cpu": ratio}}
    return whole | {"work": work, "compiled_warm": 0} | rest


RESULTS = (
    result("tighter and faster", [1.0, 1.1], 1.2, 10.0),
    result("looser but faster", [1.0, 1.1], [1.02, 1.05], 10.0),
    result("slower but tighter", [1.0, 1.1], 1.2, 0.5),
    result("both", 1.1, 1.05, 0.5),
    result("no bound", [1.0, 1.1], 0.9, 10.0),
    result("draws", 0.2, 0.1, 0.5, estimates="both"),
)


def test_verdicts(bench):
    report = bench("report")
    names = {fn: [r["case"] for r in RESULTS if fn(r)] for fn in (report.looser, report.slower, report.contradicted)}
    assert names[report.looser] == ["looser but faster", "both"]
    assert names[report.slower] == ["slower but tighter", "both", "draws"]
    assert names[report.contradicted] == ["no bound"]


def test_report_of_a_run(bench, tmp_path):
    points = [
        {"value": 10**k, "import": 0.5, "first": 1.0, "cpu": 0.01 * k, "wall": 0.01, "max_mib": 300.0} for k in (1, 2)
    ]
    missing = result("missing", 1.0, None, 1.0, missing="not installed")
    for key in ("peer_value", "peer_warm", "peer_cold", "ratio"):
        del missing[key]
    run = bench("run")
    data = {
        "machine": run.machine(),
        "idle_mib": {"imported": 100.0, "one program": 150.0},
        "limits": {"platform": "cpu", "kind": "cpu", "flops": 1e9, "bytes": 1e9},
        "left_out": ["slow one"],
        "why": "for want of time",
        "sittings": 2,
        "results": [*RESULTS, missing],
        "scaling": [{"family": "a family", "parameter": "t", "points": points}],
    }
    (tmp_path / "run.json").write_text(json.dumps(data))
    command = [sys.executable, BENCH / "report.py", tmp_path / "run.json", "--out", tmp_path]
    subprocess.run(command, check=True, env={"PYTHONPATH": str(BENCH), "PYTHONDONTWRITEBYTECODE": "1"})
    text = (tmp_path / "REPORT.md").read_text()
    both = text.split("### Both looser and slower")[1].split("###")[0]
    assert "* both: " in both
    assert both.count("* ") == 1
    assert "Left out, for want of time: slow one." in text
    assert "a peer: not installed" in text
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"ratios.png", "gaps.png", "growth.png"}
    assert all(run.show(r).startswith(r["case"]) for r in data["results"])


def test_no_mutant_is_stale():
    subprocess.run([sys.executable, BENCH / "mutants.py", "--list"], check=True, capture_output=True)


def test_mutants_name_tests_that_exist(bench):
    words = {word for mutant in bench("mutant_list").MUTANTS for word in mutant.tests.split()}
    named = {word for word in words if word.endswith(".py")}
    assert named
    assert [name for name in named if not (BENCH.parent / name).is_file()] == []


def test_a_release_says_how_each_step_ended(bench, tmp_path, monkeypatch):
    release = bench("release")
    monkeypatch.setattr(release, "LOGS", tmp_path)
    monkeypatch.setattr(release, "_git", lambda *words: "0123abc")
    good = release.run(release.Step("good", "echo 1 passed; echo === 2 passed in {seed} s ===; echo bye"), 7)
    bad = release.run(release.Step("bad", "echo 1 passed; exit 3"), 7)
    assert (good["ended"], bad["ended"]) == ("well: 2 passed in 7 s", "with status 3: 1 passed")
    steps = [step for steps in release.STEPS.values() for step in steps]
    text = release.page({steps[0].name: good}, "f" * 40)
    rows = [row for row in text.splitlines() if row.startswith("| ")][2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {step.name}" for step in steps]
    assert [row.endswith("| not run |") for row in rows] == [False] + [True] * (len(steps) - 1)
    assert release.known(text, "f" * 40) == {steps[0].name: good}  # and the next run goes on from there
    assert release.known(text, "e" * 40) == {}  # but not for another version of the package
