"""The command line, as a person would type it."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

import jaxacct as ja
from jaxacct.calibration._batch import field_of
from jaxacct.cli import main
from jaxacct.cli._cache import keep_compiled
from jaxacct.cli._schemes import SCHEMES
from jaxacct.cli._working import show_warnings_plainly
from jaxacct.mechanisms._fields import find_field

ALLOCATION = ["allocation", "--noise-multiplier", "1.0", "--num-steps", "100"]
POISSON = ["poisson", "--noise-multiplier", "1", "--num-steps", "9"]
QUICK = ["--precision", "inf"]
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
GAUSSIAN_REPORTS = ["shuffle", "--noise-multiplier", "4", "--num-reports", "1000"]


def run(capsys, *args):
    assert main(list(args)) == 0
    return capsys.readouterr().out


def test_epsilon_statement_rests_on_what_it_says(capsys):
    text = run(capsys, "epsilon", *ALLOCATION, "--num-epochs", "2", "--delta", "1e-6", *QUICK)
    for part in (
        "certified upper bound",
        "add or remove one record",
        "Feldman & Shenfeld 2025, Theorem",
        "assumes",
        "Poisson",
    ):
        assert part in text


def test_json_agrees_with_the_library(capsys):
    mechanism = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    facts = json.loads(run(capsys, "epsilon", *ALLOCATION, "--delta", "1e-6", "--json", *QUICK))
    assert facts["epsilon"] == ja.epsilon(mechanism, 1e-6, precision=math.inf)
    assert facts["mechanism"]["num_steps"] == 100
    facts = json.loads(run(capsys, "epsilon", *ALLOCATION, "--delta", "1e-6", "--json"))
    interval = ja.epsilon_interval(mechanism, 1e-6)
    assert facts["epsilon"] == facts["interval"]["upper"] == interval.upper
    assert facts["interval"]["lower"] == interval.lower
    facts = json.loads(run(capsys, "delta", *ALLOCATION, "--epsilon", "1", "--json", *QUICK))
    assert facts["delta"] == ja.delta(mechanism, 1.0, precision=math.inf)


def test_shuffled_batches_of_sizes(capsys):
    """Sizes that leave a rest make the last batch shorter, unless it is said what becomes of the rest."""
    sizes = ("--noise-multiplier", "2", "--dataset-size", "1000", "--batch-size", "300", "--epochs", "1")
    for said, steps, last in (((), 4, "short"), (("--last-batch", "dropped"), 3, "dropped")):
        found = json.loads(run(capsys, "epsilon", "shuffled-batches", *sizes, *said, "--delta", "1e-6", "--json"))
        assert found["epsilon"] == ja.epsilon(ja.ShuffledBatches(ja.Gaussian(2.0), steps, 1, last), 1e-6)
    with pytest.raises(SystemExit):
        main(["epsilon", "shuffled-batches", *sizes, "--last-batch", "half", "--delta", "1e-6"])
    assert "must be full, short or dropped" in capsys.readouterr().err


def test_sizes_that_leave_nothing_over_leave_out_nobody(capsys):
    sizes = ("--noise-multiplier", "2", "--dataset-size", "1000", "--batch-size", "100", "--epochs", "1")
    for last in ("dropped", "short", "full"):
        said = ("--last-batch", last, "--delta", "1e-6", "--json")
        found = json.loads(run(capsys, "epsilon", "shuffled-batches", *sizes, *said))
        assert found["epsilon"] == ja.epsilon(ja.ShuffledBatches(ja.Gaussian(2.0), 10), 1e-6)


@pytest.mark.parametrize("rate", ["1e-400", "1e-400%", "1e999999999%"])
def test_numbers_that_no_double_holds_are_refused(rate, capsys):
    """A rate of 1e-400 was read as 0, at which nothing is lost."""
    given = ("--noise-multiplier", "1", "--num-steps", "10", "--epsilon", "1", "--sampling-prob", rate)
    with pytest.raises(SystemExit) as ended:
        main(["delta", "poisson", *given])
    assert ended.value.code == 2
    assert "--sampling-prob" in capsys.readouterr().err


def test_printed_numbers_are_rounded_up(capsys):
    text = run(capsys, "epsilon", "gaussian", "--noise-multiplier", "3", "--delta", "1e-5", *QUICK)
    printed = float(text.split()[2])
    exact = ja.epsilon(ja.Gaussian(3.0), 1e-5)
    assert exact <= printed <= exact * 1.001


def test_compare_lists_every_method(capsys):
    text = run(capsys, "compare", *ALLOCATION, "--delta", "1e-6")
    for method in (
        "direct",
        "fractional orders",
        "geometric mean",
        "real orders",
        "no amplification",
        "loss distribution",
    ):
        assert method in text
    entries = json.loads(run(capsys, "compare", *ALLOCATION, "--epsilon", "1", "--json", *QUICK))
    assert {e["direction"] for e in entries} == {"remove", "add"}


def test_a_plan_is_printed_instead_of_computed(capsys, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("something was computed")

    monkeypatch.setattr("jaxacct._precision.Kernel.__call__", refuse)
    monkeypatch.setattr("jaxacct.answering._loop.bracket_on_host", refuse)
    table, words = run(capsys, "compare", *ALLOCATION, "--delta", "1e-6", "--plan").split("\n\n")
    head, *lines = table.splitlines()
    steps = ja.accounting.plan(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100), 1e-6)
    assert head.split() == ["method", "ends", "direction", "cost", "theorem"]
    assert words.rstrip() == repr(steps)
    assert all(f"{step.method.name} (" in line for step, line in zip(steps, words.splitlines(), strict=True))
    assert len(lines) == len(steps) > 2
    for line, step in zip(lines, steps, strict=True):
        assert line.startswith(step.method.name)
        assert line.endswith(step.method.theorem)
        assert " and ".join(d.value for d in step.directions) in line
        assert step.method.cost.name.lower() in line
    with pytest.raises(AssertionError, match="something was computed"):
        main(["compare", *ALLOCATION, "--delta", "1e-6"])


def test_a_plan_as_json_and_of_the_other_questions(capsys):
    steps = json.loads(run(capsys, "compare", *ALLOCATION, "--epsilon", "1", "--plan", "--json"))
    assert steps[0] == {
        "method": "exact",
        "ends": "upper and lower",
        "directions": ["remove", "add"],
        "engine": "complex moments on a contour",
        "device": "the CPU, by NumPy",
        "points": "one point",
        "why": "asked first, since it takes least time; its work is driven step by step",
        "cost": "milliseconds",
        "theorem": "Feldman & Shenfeld 2025, Theorem 3.1",
    }
    quick = run(capsys, "compare", *ALLOCATION, "--delta", "1e-6", "--plan", *QUICK)
    assert "loss distribution" not in quick
    assert quick.count("complex moments on a contour") == 2
    with pytest.raises(SystemExit):
        main(["compare", *ALLOCATION, "--delta", "1e-6", "--plan", "--plot", "x.png"])
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["epsilon", "gaussian", "--noise-multiplier", "-1", "--delta", "1e-6"], "--noise-multiplier=-1 must be > 0"),
        (["epsilon", "gaussian", "--noise-multiplier", "nan", "--delta", "1e-6"], "--noise-multiplier=nan must be > 0"),
        (
            ["epsilon", *ALLOCATION, "--num-selected", "101", "--delta", "1e-6"],
            "--num-selected=101 must be <= --num-steps=100",
        ),
        (
            [
                *("epsilon", "fixed-batches", "--noise-multiplier", "1", "--num-records", "10", "--batch-size", "10"),
                *("--num-steps", "5", "--delta", "1e-6"),
            ],
            "--batch-size=10 must be < --num-records=10",
        ),
        (["epsilon", "gaussian", "--sigma", "-1", "--delta", "1e-6"], "--sigma=-1 must be > 0"),
        (["epsilon", "laplace", "--sigma=-1", "--delta", "1e-6"], "--sigma=-1 must be > 0"),
        (["epsilon", *ALLOCATION, "--num-epochs", "1.5", "--delta", "1e-6"], "--num-epochs=1.5 must be a whole number"),
        (["epsilon", *ALLOCATION, "--delta", "1"], "--delta=1 must be in (0, 1)"),
        (["delta", *ALLOCATION, "--epsilon", "-2"], "--epsilon=-2 must be >= 0"),
        (["compare", *ALLOCATION, "--delta", "1e-6", "--precision", "-1"], "precision=-1 must be > 0"),
        (
            [
                "epsilon",
                "poisson",
                "--noise-multiplier",
                "1",
                "--num-steps",
                "9",
                "--sampling-prob",
                "2",
                "--delta",
                ".1",
            ],
            "--sampling-prob=2 must be in [0, 1]",
        ),
        (["epsilon", "gaussian", "--noise-multiplier", "one", "--delta", "1e-6"], "invalid number value: 'one'"),
        (["epsilon", "gaussian", "--delta", "1e-6"], "--noise-multiplier"),
        (["epsilon", "nonsense"], "invalid choice: 'nonsense'"),
        (["epsilon"], "required"),
        (["calibrate", "allocation", "--epsilon", "1", "--delta", "1e-6"], "--num-steps must be given"),
        (
            [
                "calibrate",
                *["gaussian", "--noise-multiplier", "1", "--field", "num-steps", "--epsilon", ".1", "--delta", "1e-6"],
            ],
            "no --num-steps meets --epsilon=0.1",
        ),
        (["sweep", *ALLOCATION, "--delta", "1e-6"], "at least one option must be a list"),
        (["sweep", "gaussian", "--noise-multiplier", "1:2", "--delta", "1e-6"], "start:stop:count"),
        (
            ["sweep", "gaussian", "--noise-multiplier", "1", "--num-steps", "1:1e30:3:log", "--delta", "1e-6"],
            "--num-steps=1e+30",
        ),
        (["sweep", "gaussian", "--noise-multiplier", "1,2", "--delta", "1e-6", "--resume"], "--resume needs --out"),
        (
            ["sweep", "gaussian", "--noise-multiplier=1,2", "--num-steps=1,4,5", "--delta=1e-6", "--side-by-side"],
            "'num_steps': 3",
        ),
        (
            ["epsilon", *GAUSSIAN_REPORTS, "--num-categories", "5", "--delta", "1e-6"],
            "--num-categories=5 must be left out",
        ),
        (
            ["epsilon", *GAUSSIAN_REPORTS, "--local-delta", "1e-8", "--delta", "1e-6"],
            "--local-delta=1e-08 must be left out",
        ),
        (["calibrate", *GAUSSIAN_REPORTS, *BUDGET], "choose another --field"),
        (
            ["calibrate", "shuffle", "--local-epsilon=1", "--num-reports=9", "--field=noise-multiplier", *BUDGET],
            "--local-epsilon cannot be given where --noise-multiplier is calibrated",
        ),
        (["compare", "gaussian", "--noise-multiplier", "1", "--delta", "1e-6", "--plot", "x.nonsense"], "nonsense"),
    ],
)
def test_wrong_arguments_give_one_line_and_status_two(capsys, args, words):
    with pytest.raises(SystemExit) as stop:
        main(args)
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--local-epsilon", "1"], "epsilon = 0.004335"),
        (["--local-epsilon", "1", "--num-categories", "20"], "20-ary randomized response"),
        (["--local-epsilon", "1", "--local-delta", "1e-14"], "delta 1e-14"),
        (["--noise-multiplier", "4"], "Gaussian noise, noise multiplier 4"),
    ],
)
def test_shuffle(extra: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["epsilon", "shuffle", *extra, "--num-reports", "1000000", "--delta", "1e-6"]) == 0
    out = capsys.readouterr().out
    assert words in " ".join(out.split())
    assert "replace one record" in out


def test_a_report_holds_what_a_model_card_needs():
    run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    text = ja.report(run, target_delta=1e-6)
    assert max(map(len, text.splitlines())) <= 80 + 20  # a repr may be longer than a line
    for part in ("unit", "adjacency", "certified", "inference", "assumes", "recompute"):
        assert part in text
    table = ja.report(run, target_delta=1e-6, style="markdown")
    assert table.startswith("**epsilon = ")
    facts = json.loads(ja.report(run, target_epsilon=1.0, style="json"))
    assert facts["delta"] == facts["interval"]["upper"] == ja.delta(run, 1.0)
    assert all(m["false_positive_rate"] < m["true_positive_rate"] <= 1 for m in facts["membership"])
    with pytest.raises(ValueError, match="style='html' must be one of"):
        ja.report(run, target_delta=1e-6, style="html")
    with pytest.raises(ValueError, match="exactly one"):
        ja.report(run)


def test_calibrated_value_meets_the_budget(capsys):
    text = run(capsys, "calibrate", "gaussian", "--num-steps", "10", "--epsilon", "2", "--delta", "1e-6")
    sigma = float(text.split()[2])
    assert 2 * (1 - 1e-5) <= ja.epsilon(ja.Composed(ja.Gaussian(sigma), 10), 1e-6) <= 2
    shuffle = ["shuffle", "--num-reports", "1000", "--delta", "1e-6", "--epsilon", "0.5", "--json"]
    facts = json.loads(run(capsys, "calibrate", *shuffle))
    assert ja.epsilon(ja.Shuffled(ja.LocalRandomizer(facts["local_epsilon"]), 1000), 1e-6) <= 0.5
    reports = [
        "shuffle",
        "--local-epsilon",
        "1",
        "--field",
        "num-reports",
        "--delta",
        "1e-6",
        "--epsilon",
        "0.5",
        "--json",
    ]
    least = json.loads(run(capsys, "calibrate", *reports))["num_reports"]
    assert ja.epsilon(ja.Shuffled(ja.LocalRandomizer(1.0), least), 1e-6) <= 0.5
    assert ja.epsilon(ja.Shuffled(ja.LocalRandomizer(1.0), least - 1), 1e-6) > 0.5


def test_sweep_to_standard_output_and_to_a_file(capsys, tmp_path):
    grid = ["sweep", "gaussian", "--noise-multiplier", "1:4:3:log", "--num-steps", "1,2", "--delta", "1e-6"]
    lines = run(capsys, *grid).splitlines()
    assert lines[0] == "noise_multiplier,num_steps,epsilon"
    table = [[float(x) for x in line.split(",")] for line in lines[1:]]
    assert [row[:2] for row in table] == [[s, t] for s in (1.0, 2.0, 4.0) for t in (1.0, 2.0)]
    for sigma, steps, value in table:
        assert value == pytest.approx(ja.epsilon(ja.Composed(ja.Gaussian(sigma), int(steps)), 1e-6), rel=1e-12)
    path = tmp_path / "sweep.csv"
    assert "6 points" in run(capsys, *grid, "--out", str(path))
    assert "6 points" in run(capsys, *grid, "--out", str(path), "--resume")
    head, *rows = path.read_text().splitlines()
    assert head == lines[0]
    for row, shown in zip(rows, table, strict=True):  # files are written by one program, whatever was asked before
        assert [float(x) for x in row.split(",")] == pytest.approx(shown, rel=1e-12)
    again = tmp_path / "again.csv"
    run(capsys, *grid, "--out", str(again), "--workers", "2")
    assert again.read_bytes() == path.read_bytes()
    beside = run(capsys, "sweep", "gaussian", "--noise-multiplier", "1,2", "--epsilon", ".1,1", "--side-by-side")
    assert beside.splitlines()[0] == "noise_multiplier,target_epsilon,delta"
    assert len(beside.splitlines()) == 3


def test_who_reads_only_the_first_line_sees_no_traceback():
    words = ["sweep", "gaussian", "--noise-multiplier", "1:2:2000", "--delta", "1e-6"]
    command = [sys.executable, "-m", "jaxacct", *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.close()
    assert child.communicate()[1] == ""
    assert child.returncode == 0


@pytest.mark.parametrize("scheme", [s for s in SCHEMES.values() if s.calibrated], ids=lambda s: s.help)
def test_every_field_that_is_offered_can_be_calibrated(scheme):
    values = {o.name: 1 if o.default is None and not o.is_optional else o.default for o in scheme.options}
    for option in scheme.options:
        is_other = option.name in ("noise_multiplier", "laplace_scale")
        given = {option.name if is_other else "local_epsilon": 1.0, option.name: 1}
        given |= {"dimension": None} if "dimension" in scheme.texts else {}
        given |= {"num_categories": 2} if option.name == "num_categories" else {}
        given |= {"run": ja.Gaussian(1.0), "shape": None} if "run" in scheme.texts else {}
        given |= {"probabilities": [[0.5, 0.5], [0.25, 0.75]]} if "probabilities" in scheme.texts else {}
        given |= {"strategy": [1.0]} if "strategy" in scheme.texts else {}
        given |= {"with_replacement": False, "num_records": 2} if "with_replacement" in scheme.texts else {}
        given |= {"monotonic": False} if "monotonic" in scheme.texts else {}
        mechanism = scheme.build({**values, **given})
        keys = find_field(mechanism, scheme.field(option.name))
        with (
            contextlib.nullcontext()
            if option.spec.is_solvable
            else pytest.raises(ValueError, match="cannot be calibrated")
        ):
            field_of(mechanism, keys)


def test_report_and_picture(capsys, tmp_path):
    assert run(capsys, "report", *ALLOCATION, "--delta", "1e-6", "--style", "markdown").startswith("**epsilon")
    picture = tmp_path / "bounds.png"
    run(capsys, "compare", "gaussian", "--noise-multiplier", "1", "--delta", "1e-6", "--plot", str(picture))
    assert picture.stat().st_size > 1000


def test_check_ins(capsys):
    arguments = ["check-in", "--local-epsilon", "2", "--num-users", "1000000", "--check-in-prob", "0.01"]
    text = run(capsys, "epsilon", *arguments, "--delta", "1e-6")
    assert "epsilon = 0.001072" in text
    assert "1000000 users with probability 0.01" in " ".join(text.split())


@pytest.mark.parametrize("command", [[], *([c] for c in ("epsilon", "compare", "calibrate", "sweep", "report"))])
def test_help_teaches(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 110


_LAZY = """
import sys
{code}
assert "jax" not in sys.modules and "numpy" not in sys.modules, sorted(sys.modules)
"""


@pytest.mark.parametrize("code", ["import jaxacct", "import jaxacct.cli"])
def test_importing_loads_no_jax(code):
    subprocess.run([sys.executable, "-c", _LAZY.format(code=code)], check=True)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_load_no_jax(option):
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "jaxacct", option], capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines()}
    assert "jaxacct.cli" in loaded
    assert not loaded & {"jax", "numpy"}
    assert "jaxacct" in found.stdout


def test_rates_of_a_statement_are_chosen(capsys):
    run_of = ["epsilon", "gaussian", "--noise-multiplier", "3", "--delta", "1e-5"]
    facts = json.loads(run(capsys, *run_of, "--json", "--rates", "0.02,0.5"))
    missed = ja.tradeoff(ja.Composed(ja.Gaussian(3.0), 1), [0.02, 0.5]).tolist()
    assert facts["membership"] == [
        {"false_positive_rate": rate, "true_positive_rate": 1.0 - miss}
        for rate, miss in zip((0.02, 0.5), missed, strict=True)
    ]
    assert "inference" not in run(capsys, *run_of, "--rates", "none")


@pytest.mark.parametrize("path", ["/nonexistent/x.png", "x.nothing"])
def test_where_a_picture_goes_is_checked_before_the_work(capsys, monkeypatch, path):
    monkeypatch.setattr("jaxacct.accounting.compare", lambda *args, **options: pytest.fail("computed first"))
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "gaussian", "--noise-multiplier", "3", "--delta", "1e-5", "--plot", path])
    assert stopped.value.code == 2
    assert path in capsys.readouterr().err


def _interrupted(code, *args):
    """What a process says and returns that gets Ctrl-C as soon as it has written a line of standard output."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return err, process.returncode


def test_warnings_are_shown_without_a_place_in_the_code(monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    show_warnings_plainly()
    slow = warnings.formatwarning(ja.SlowWarning("this takes long"), ja.SlowWarning, "here.py", 3)
    assert slow == "jaxacct: this takes long\n"
    assert "here.py:3: DeprecationWarning: old" in warnings.formatwarning("old", DeprecationWarning, "here.py", 3)


_BUSY = """
import sys
from jaxacct.cli import _working, run
from jaxacct.cli._commands import COMMANDS
import dataclasses
def work(args, scheme):
    print("begun", flush=True)
    {work}
    print("ended", file=sys.stderr)
COMMANDS["epsilon"] = dataclasses.replace(COMMANDS["epsilon"], run=work)
sys.argv = ["jaxacct", "epsilon", "gaussian", "--noise-multiplier", "3", "--delta", "1e-5"]
sys.exit(run())
"""
_DEAF = "import ctypes; ctypes.CDLL(None).sleep(30); ctypes.CDLL(None).sleep(30)"  # as a compiler: no bytecode runs


@pytest.mark.parametrize("work", ["import time; time.sleep(60)", "while True: pass", _DEAF])
def test_an_interrupt_ends_a_command_at_once(work):
    began = time.monotonic()
    assert _interrupted(_BUSY.format(work=work)) == ("jaxacct: interrupted\n", 130)
    assert time.monotonic() - began < 25


def test_an_interrupted_sweep_says_where_its_rows_are(tmp_path):
    path = tmp_path / "rows.csv"
    code = """
import sys
from jaxacct.sweeping import _file
from jaxacct.cli import run
append = _file.SweepFile.append
def announced(self, *args):
    append(self, *args)
    print("begun", flush=True)
_file.SweepFile.append = announced
sys.argv = ["jaxacct", *sys.argv[1:]]
sys.exit(run())
"""
    steps = ["--num-steps", "10", "--sampling-prob", "0.001:0.01:20000", "--delta", "1e-6", "--out", str(path)]
    err, status = _interrupted(code, "sweep", "poisson", "--noise-multiplier", "1", *steps)
    assert status == 130
    assert "interrupted after" in err
    assert "--resume goes on" in err
    assert len(path.read_text().splitlines()) > 2


def test_doctor_finds_nothing_off_here(capsys):
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert said.endswith("nothing is off\n")
    assert "OFF" not in said
    for word in ("jaxlib", "devices", "log1p", "error-free products", "Fourier transform", "random allocation"):
        assert word in said


def test_doctor_says_what_is_off(capsys, monkeypatch):
    from jaxacct import _ground

    first, *rest = _ground.PRIMITIVES
    off = first._replace(on_backend=lambda x: first.on_backend(x) * (1.0 + 1e-14))
    monkeypatch.setattr(_ground, "PRIMITIVES", (off, *rest))
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert any(line.split()[:2] == ["OFF", "exp"] for line in said.splitlines())
    assert said.endswith("something is off: see the lines marked OFF\n")


def test_doctor_takes_no_options(capsys):
    with pytest.raises(SystemExit):
        main(["doctor", "--fast"])
    assert "unrecognized arguments" in capsys.readouterr().err


def test_compiled_programs_are_kept_where_that_is_asked_for():
    asked = {"JAXACCT_CACHE": "1", "XDG_CACHE_HOME": "/caches"}
    keep_compiled(asked)
    assert asked["JAX_COMPILATION_CACHE_DIR"] == "/caches/jaxacct"
    own = {"JAXACCT_CACHE": "/a", "JAX_COMPILATION_CACHE_DIR": "/b"}
    keep_compiled(own)
    assert own["JAX_COMPILATION_CACHE_DIR"] == "/b"
    for off in ({}, {"JAXACCT_CACHE": "0"}, {"JAXACCT_CACHE": ""}):
        before = dict(off)
        keep_compiled(off)
        assert off == before


def test_a_second_command_finds_what_the_first_one_compiled(tmp_path):
    question = ["sweep", "gaussian", "--noise-multiplier", "1:3:300", "--delta", "1e-5", "--precision", "inf"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    environment["JAXACCT_CACHE"] = str(tmp_path / "kept")
    texts, files = [], []
    for _ in range(2):
        found = subprocess.run(
            [sys.executable, "-m", "jaxacct", *question], env=environment, capture_output=True, text=True, check=True
        )
        texts.append(found.stdout)
        # smaller programs are kept where they happened to take long
        files.append(sorted(path.name for path in (tmp_path / "kept").glob("jit_exact_epsilon-*-cache")))
    assert texts[0] == texts[1]
    assert files[0] == files[1] != []
