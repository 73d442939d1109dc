"""The command line as people use it: every scheme, sizes of a training run, files, wrong words, Ctrl-C at any time."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

import jaxacct as ja
from jaxacct.cli import main
from jaxacct.cli._schemes import SCHEMES

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


def run(capsys, line, *more):
    assert main([*line.split(), *more]) == 0
    return capsys.readouterr().out


def epsilon(capsys, line, *more):
    return json.loads(run(capsys, f"epsilon {line} --delta 1e-6 --json --rates none", *more))["epsilon"]


PARTS = [
    "--part",
    "gaussian --sigma 4 --num-steps 10",
    "--part",
    "poisson --sigma 2 --sampling-prob 0.01 --num-steps 9",
]
COMPOSED = ja.Composed([ja.Gaussian(4), ja.PoissonSampled(ja.Gaussian(2), 0.01, 9)], (10, 1))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("line", "more", "mechanism"),
    [
        ("laplace --scale 2 --num-steps 3", [], ja.Composed(ja.Laplace(2), 3)),
        ("laplace --noise-multiplier 2 --num-steps 3", [], ja.Composed(ja.Laplace(2), 3)),
        ("gaussian --sigma 3", [], ja.Gaussian(3)),
        (
            "finite --probabilities 0.5,0.5;0.25,0.75 --num-reports 100",
            [],
            ja.Shuffled(ja.FiniteRandomizer([[0.5, 0.5], [0.25, 0.75]]), 100),
        ),
        ("composed", PARTS, COMPOSED),
        (
            "fixed-batches --sigma 2 --num-records 100 --batch-size 5 --num-steps 3",
            [],
            ja.FixedBatches(ja.Gaussian(2), 100, 5, 3),
        ),
        (
            "balls-in-bins --sigma 4 --strategy 1,0.5 --num-batches 10 --num-epochs 3",
            [],
            ja.BallsInBins([1.0, 0.5], 4.0, 10, 3),
        ),
        (
            "truncated-poisson --sigma 2 --sampling-prob 0.01 --num-records 1000 --max-batch-size 30 --num-steps 3",
            [],
            ja.TruncatedPoisson(ja.Gaussian(2), 0.01, 1000, 30, 3),
        ),
        ("shuffle --local-epsilon 1 --num-reports 99 --num-rounds 2", [], ja.Shuffled(ja.LocalRandomizer(1), 99, 2)),
        ("shuffle --sigma 4 --dimension 2 --num-reports 99", [], ja.Shuffled(ja.GaussianReports(4, 2), 99)),
        ("shuffle --laplace-scale 2 --num-reports 99", [], ja.Shuffled(ja.LaplaceReports(2), 99)),
        (
            "check-in --laplace-scale 2 --dimension 3 --num-users 99 --check-in-prob 0.1",
            [],
            ja.CheckIn(ja.LaplaceReports(2, 3), 99, 0.1),
        ),
        (
            "poisson --sigma 2 --dataset-size 6000 --batch-size 70 --epochs 2.5",
            [],
            ja.PoissonSampled(ja.Gaussian(2), 70 / 6000, 215),
        ),
        (
            "allocation --sigma 2 --dataset-size 6000 --batch-size 70 --epochs 2",
            [],
            ja.RandomAllocation(ja.Gaussian(2), 85, 1, 2),
        ),
    ],
)
def test_what_is_typed_is_what_is_asked(capsys, line, more, mechanism):
    assert epsilon(capsys, line, *more) == pytest.approx(ja.epsilon_interval(mechanism, 1e-6).upper, rel=1e-12)


def test_numbers_as_people_type_them(capsys):
    asked = epsilon(capsys, "poisson --noise_multiplier 2 --sampling-rate 1% --NUM_STEPS 1,000")
    assert asked == ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(2), 0.01, 1000), 1e-6).upper
    assert epsilon(capsys, "gaussian --sigma 250%") == pytest.approx(ja.epsilon(ja.Gaussian(2.5), 1e-6), rel=1e-12)


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_have_their_earlier_names_too(capsys, name):
    for also in SCHEMES[name].also:
        with pytest.raises(SystemExit) as stopped:
            main(["epsilon", also, "--help"])
        assert stopped.value.code == 0
        assert "usage: jaxacct epsilon" in capsys.readouterr().out


def test_alone_it_helps(capsys):
    assert "usage: jaxacct" in run(capsys, "")


@pytest.mark.parametrize("columns", [60, 80])
def test_text_fits_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    said = run(capsys, "epsilon poisson --sigma 1 --sampling-prob 0.01 --num-steps 100 --delta 1e-6")
    said += run(capsys, "calibrate gaussian", *BUDGET)
    words = [line for line in said.splitlines() if len(line) > columns]
    assert not [line for line in words if len(line.split()) > 1 and not line.lstrip().startswith("ja.")], words


@pytest.mark.parametrize(
    "line",
    [
        "poisson --sigma 1 --dataset-size 60,000 --batch-size 600 --epochs 1",
        "fixed-batches --sigma 2 --num-records 60000 --batch-size 5 --num-steps 3",
        "shuffle --local-epsilon 1 --num-reports 60000",
    ],
)
def test_a_delta_above_one_over_the_number_of_records_is_said(capsys, line):
    def notes(delta):
        return json.loads(run(capsys, f"epsilon {line} --delta {delta} --json --rates none"))["notes"]

    assert any("delta is above 1/N = 1.67e-05" in note for note in notes("2e-5"))
    assert not any("1/N" in note for note in notes("1e-5"))


def test_the_parts_of_a_composition_from_a_file(capsys, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        '[[part]]\nscheme = "gaussian"\nsigma = 4\nnum_steps = 10\n'
        '[[part]]\nscheme = "poisson"\nnoise_multiplier = 2\nsampling_prob = 0.01\nnum_steps = 9\n'
    )
    assert epsilon(capsys, "composed", "--file", str(path)) == ja.epsilon_interval(COMPOSED, 1e-6).upper


def test_a_calibration_as_json(capsys):
    facts = json.loads(run(capsys, "calibrate laplace --num-steps 3 --json", *BUDGET))
    assert facts["field"] == "scale"
    assert facts["certified_epsilon"] == ja.epsilon(ja.Composed(ja.Laplace(facts["scale"]), 3), 1e-6) <= 1
    sized = run(capsys, "calibrate poisson --dataset-size 6000 --batch-size 60 --epochs 1", *BUDGET)
    assert "probability 0.01, 100 steps" in sized


def test_ranges_are_the_decimals_that_people_mean(capsys):
    rows = run(capsys, "sweep gaussian --noise-multiplier 1:2:11 --delta 1e-6").splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["1.0", *(f"1.{tenth}" for tenth in range(1, 10)), "2.0"]


def test_a_sweep_to_parquet(capsys, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    assert "2 points" in run(capsys, f"sweep gaussian --noise-multiplier 1,2 --delta 1e-6 --out {path}")
    table = parquet.read_table(path).to_pydict()
    assert table["noise_multiplier"] == [1, 2]
    assert table["epsilon"] == pytest.approx([ja.epsilon(ja.Gaussian(s), 1e-6) for s in (1, 2)], rel=1e-12)


ALLOCATION = "allocation --sigma 1 --num-steps 100"
WRONG = {  # what is typed: what the one line must say
    "epsilon": "required: SCHEME",
    "epsilom gaussian --sigma 1 --delta 1e-6": "did you mean epsilon?",
    "epsilon gausian --sigma 1 --delta 1e-6": "did you mean gaussian?",
    "epsilon dpsgd --sigma 1 --delta 1e-6": "did you mean poisson?",
    "epsilon random-allocation --sigma 1 --delta 1e-6": "did you mean allocation?",
    "epsilon poisson --sigma 1 --sampling-prob .1 --steps 9 --delta 1e-6": "--steps; did you mean --num-steps?",
    "epsilon poisson --sigma 1 --sample-rate .1 --num-steps 9 --delta 1e-6": "did you mean --sampling-prob?",
    "epsilon poisson --noise 1 --delta 1e-6 --iterations=9": "--iterations; did you mean --num-steps?",
    "epsilon shuffle --local-epsilon 1 --num-users 9 --delta 1e-6": "--num-users; did you mean --num-reports?",
    "epsilon check-in --local-epsilon 1 --num-reports 9 --delta 1e-6": "did you mean --num-users?",
    "calibrate gaussian --epsilon 1 --dleta 1e-6": "--dleta; did you mean --delta?",
    "epsilon poisson --sigma 1 --sampling-prob 0,01 --num-steps 9 --delta 1e-6": "write 0.01, with a point",
    "sweep poisson --sigma 1,2 --sampling-prob .1 --num-steps 1,000 --delta 1e-6": "write 1000 for one number",
    "epsilon gaussian --sigma 1x% --delta 1e-6": "invalid number value: '1x%'",
    "epsilon gaussian --sigma 1": "required: --delta",
    "epsilon gaussian --delta 1e-6": "--noise-multiplier must be given",
    "epsilon gaussian --sigma 0 --delta 1e-6": "--sigma=0 must be > 0",
    "epsilon gaussian --sigma -1 --delta 1e-6": "--sigma=-1 must be > 0",
    "epsilon gaussian --sigma inf --delta 1e-6": "--sigma=inf must be > 0 and finite",
    "epsilon gaussian --sigma nan --delta 1e-6": "--sigma=nan must be > 0 and finite",
    "epsilon gaussian --sigma one --delta 1e-6": "argument --noise-multiplier/--sigma: invalid number value: 'one'",
    "epsilon gaussian --sigma 1,2 --delta 1e-6": "invalid number value: '1,2'",
    "epsilon gaussian --sigma": "expected one argument",
    "epsilon gaussian --sigma 1 --delta 0": "--delta=0 must be in (0, 1)",
    "epsilon gaussian --sigma 1 --delta 1": "--delta=1 must be in (0, 1)",
    "epsilon gaussian --sigma 1 --delta -1e-6": "--delta=-1e-06 must be in (0, 1)",
    "epsilon gaussian --sigma 1 --delta nan": "--delta=nan must be in (0, 1)",
    "epsilon gaussian --sigma 1 --delta 1e-6 --epsilon 1": "unrecognized arguments: --epsilon 1",
    "epsilon gaussian --sigma 1 --num-steps 0 --delta 1e-6": "--num-steps=0 must be a whole number in [1",
    "epsilon gaussian --sigma 1 --num-steps 1.5 --delta 1e-6": "--num-steps=1.5 must be a whole number in [1",
    "epsilon gaussian --sigma 1 --delta 1e-6 --precision 0": "precision=0 must be > 0",
    "epsilon gaussian --sigma 1 --delta 1e-6 --precision -1": "precision=-1 must be > 0",
    "epsilon gaussian --sigma 1 --delta 1e-6 --precision nan": "precision=nan must be a number",
    "epsilon gaussian --sigma 1 --delta 1e-6 --rates 2": "'2' must be rates in (0, 1)",
    "epsilon gaussian --sigma 1 --delta 1e-6 --rates x": "'x' must be rates in (0, 1)",
    "epsilon gaussian --sigma 1 --delta 1e-6 extra": "unrecognized arguments: extra",
    "epsilon laplace --scale 0 --delta 1e-6": "--scale=0 must be > 0",
    "epsilon laplace --delta 1e-6": "--scale must be given",
    "delta gaussian --sigma 1": "required: --epsilon",
    "delta gaussian --sigma 1 --epsilon -1": "--epsilon=-1 must be >= 0",
    "delta gaussian --sigma 1 --epsilon inf": "--epsilon=inf must be >= 0 and finite",
    f"epsilon {ALLOCATION} --num-selected 101 --delta 1e-6": "--num-selected=101 must be <= --num-steps=100",
    f"epsilon {ALLOCATION} --num-epochs 0 --delta 1e-6": "--num-epochs=0 must be a whole number",
    f"epsilon {ALLOCATION} --num-epochs 1.5 --delta 1e-6": "--num-epochs=1.5 must be a whole number",
    "epsilon allocation --sigma 1 --delta 1e-6": "--num-steps must be given (or --dataset-size",
    "epsilon allocation --sigma 1 --num-steps 1e17 --delta 1e-6": "--num-steps=1e+17 must be a whole number in [1",
    "epsilon allocation --sigma 1 --dataset-size 9 --delta 1e-6": "--batch-size must be given",
    "epsilon allocation --sigma 1 --dataset-size 9 --batch-size 10 --epochs 1 --delta 1e-6": (
        "--batch-size=10 must be <= --dataset-size=9"
    ),
    "epsilon allocation --sigma 1 --dataset-size 9 --batch-size 0 --epochs 1 --delta 1e-6": (
        "--batch-size=0 must be > 0"
    ),
    "epsilon allocation --sigma 1 --dataset-size 9.5 --batch-size 1 --epochs 1 --delta 1e-6": (
        "--dataset-size=9.5 must be a whole number"
    ),
    "epsilon allocation --sigma 1 --dataset-size 9 --batch-size 1 --epochs 1.5 --delta 1e-6": (
        "--epochs=1.5 must be a whole number"
    ),
    f"epsilon {ALLOCATION} --dataset-size 9 --batch-size 1 --epochs 1 --delta 1e-6": "--num-steps must be left out",
    "epsilon poisson --sigma 1 --sampling-prob 2 --num-steps 9 --delta 1e-6": "--sampling-prob=2 must be in [0, 1]",
    "epsilon poisson --sigma 1 --sampling-prob -0.1 --num-steps 9 --delta 1e-6": "--sampling-prob=-0.1 must be in",
    "epsilon poisson --sigma 1 --num-steps 9 --delta 1e-6": "--sampling-prob must be given",
    "epsilon poisson --sigma 1 --sampling-prob 0.1 --delta 1e-6": "--num-steps must be given",
    "epsilon shuffle --num-reports 9 --delta 1e-6": "one of --local-epsilon, --noise-multiplier and --laplace-scale",
    "epsilon shuffle --local-epsilon 1 --sigma 1 --num-reports 9 --delta 1e-6": "exactly one of",
    "epsilon shuffle --local-epsilon -1 --num-reports 9 --delta 1e-6": "--local-epsilon=-1 must be >= 0",
    "epsilon shuffle --local-epsilon 1 --delta 1e-6": "--num-reports must be given",
    "epsilon shuffle --local-epsilon 1 --num-reports 0 --delta 1e-6": "--num-reports=0 must be a whole number",
    "epsilon shuffle --local-epsilon 1 --num-reports 9 --num-rounds 0 --delta 1e-6": "--num-rounds=0 must be a whole",
    "epsilon shuffle --local-epsilon 1 --num-reports 9 --num-categories 1 --delta 1e-6": "categories=1 must be >= 2",
    "epsilon shuffle --local-epsilon 1 --num-reports 9 --local-delta 2 --delta 1e-6": "local-delta=2 must be in [0, 1]",
    "epsilon shuffle --sigma 4 --num-reports 9 --num-categories 5 --delta 1e-6": "--num-categories=5 must be left out",
    "epsilon shuffle --local-epsilon 1 --dimension 2 --num-reports 9 --delta 1e-6": "--dimension=2 must be left out",
    "epsilon shuffle --sigma 4 --dimension 0 --num-reports 9 --delta 1e-6": "--dimension=0 must be a whole number",
    "epsilon shuffle --laplace-scale 0 --num-reports 9 --delta 1e-6": "--laplace-scale=0 must be > 0",
    "epsilon check-in --local-epsilon 1 --num-users 9 --delta 1e-6": "--check-in-prob must be given",
    "epsilon check-in --local-epsilon 1 --num-users 9 --check-in-prob 2 --delta 1e-6": "--check-in-prob=2 must be in",
    "epsilon finite --num-reports 9 --delta 1e-6": "--probabilities must be given",
    "epsilon finite --probabilities 1,x --num-reports 9 --delta 1e-6": "'1,x' must be rows of numbers, of one length",
    "epsilon finite --probabilities 1;1,0 --num-reports 9 --delta 1e-6": "must be rows of numbers, of one length",
    "epsilon finite --probabilities 0.5,0.6;0.5,0.5 --num-reports 9 --delta 1e-6": "probabilities",
    "epsilon composed --delta 1e-6": "--part or --file must be given",
    "epsilon composed --part nothing --delta 1e-6": "'nothing' must be one of allocation",
    "epsilon composed --part gaussian --delta 1e-6": "gaussian: --noise-multiplier must be given",
    "epsilon composed --file /nonexistent/run.toml --delta 1e-6": "No such file",
    "compare gaussian --sigma 1": "one of the arguments --delta --epsilon is required",
    "compare gaussian --sigma 1 --delta 1e-6 --epsilon 1": "not allowed with argument",
    "compare gaussian --sigma 1 --delta 1e-6 --plot /nonexistent/x.png": "is not a directory that can be written to",
    "compare gaussian --sigma 1 --delta 1e-6 --plot x.nothing": "its ending must be one of",
    "compare gaussian --sigma 1 --delta 1e-6 --plot x.png --plan": "not allowed with argument",
    "calibrate gaussian --delta 1e-6": "required: --epsilon",
    "calibrate gaussian --epsilon 1": "required: --delta",
    "calibrate gaussian --epsilon -1 --delta 1e-6": "--epsilon=-1 must be >= 0",
    "calibrate gaussian --measure gain --target 1": "must be one of advantage",
    "calibrate gaussian --epsilon 1 --delta 1e-6 --field sampling-prob": "invalid choice: 'sampling-prob'",
    "calibrate poisson --epsilon 1 --delta 1e-6": "--sampling-prob, --num-steps must be given: only --noise-multiplier",
    "calibrate gaussian --sigma 1 --field num-steps --epsilon .1 --delta 1e-6": "no --num-steps meets --epsilon=0.1",
    "calibrate composed --part gaussian --epsilon 1 --delta 1e-6": "invalid choice: 'composed'",
    "sweep gaussian --sigma 1 --delta 1e-6": "at least one option must be a list",
    "sweep gaussian --sigma 1:2 --delta 1e-6": "start:stop:count",
    "sweep gaussian --sigma 1,2 --delta 1e-6 --workers 0": "--workers=0 must be a number of processes >= 1",
    "sweep gaussian --sigma 1:2:0 --delta 1e-6": "its count must be in [1",
    "sweep gaussian --sigma 1:2:x --delta 1e-6": "'1:2:x' must be a number, a,b,c or start:stop:count[:log]",
    "sweep gaussian --sigma 1,,2 --delta 1e-6": "'1,,2' must be a number, a,b,c or start:stop:count[:log]",
    "sweep gaussian --sigma 0:2:3:log --delta 1e-6": "'0:2:3:log': both ends must be > 0",
    "epsilon composed --part gaussian' --delta 1e-6": "no closing quotation",
    "sweep gaussian --sigma 1:2:3:square --delta 1e-6": "must be a number, a,b,c or start:stop:count[:log]",
    "sweep gaussian --sigma 1,0 --delta 1e-6": "--sigma=0 in an array must be > 0",
    "sweep gaussian --sigma 1,2 --delta 1e-6,2": "--delta=2.0 in an array must be in (0, 1)",
    "sweep gaussian --sigma 1,2 --delta 1e-6 --resume": "--resume needs --out FILE.csv",
    "sweep gaussian --sigma 1,2 --delta 1e-6 --resume --out x.parquet": "--resume needs --out FILE.csv",
    "sweep gaussian --sigma 1,2 --delta 1e-6 --out /nonexistent/x.csv": "must be in a directory that can be written to",
    "sweep gaussian --sigma 1,2 --num-steps 1,2,3 --delta 1e-6 --side-by-side": "their lengths must be equal",
    "report gaussian --sigma 1 --delta 1e-6 --style html": "invalid choice: 'html'",
    "report gaussian --sigma 1": "one of the arguments --delta --epsilon is required",
    "doctor --fast": "unrecognized arguments: --fast",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_typed_wrong_gives_one_line_and_status_two(line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(_split(line))
    said = capsys.readouterr()
    assert (stopped.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert WRONG[line] in said.err


def _split(line):
    """Words; what follows --part is one."""
    before, _, part = line.partition("--part ")
    name, _, rest = part.partition(" ")
    return [*before.split(), *(["--part", name] if part else []), *rest.split()]


def test_ranges_of_counts_are_whole_numbers(capsys):
    line = "sweep allocation --sigma 2 --num-steps 10:1000:5:log --num-selected 1:2:9 --delta 1e-6 --precision inf"
    assert main(line.split()) == 0
    rows = [row.split(",")[:2] for row in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [[steps, selected] for steps in ("10", "32", "100", "316", "1000") for selected in ("1", "2")]


def test_a_calibrated_value_fits_a_terminal(capsys):
    line = "calibrate allocation --dataset-size 50000 --batch-size 500 --epochs 20 --epsilon 3 --delta 1e-6"
    assert main(line.split()) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_file_that_is_there_is_not_overwritten(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("mine")
    with pytest.raises(SystemExit):
        main(["sweep", "gaussian", "--sigma", "1,2", "--delta", "1e-6", "--out", str(path)])
    assert "exists: --resume continues it, or remove it" in capsys.readouterr().err
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", SCHEMES)
def test_help_of_every_scheme_shows_its_options(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["epsilon", name, "--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    for option in SCHEMES[name].options:
        assert option.flag in said


def _interrupt(line, path, seconds):
    """Status and words of a sweep that gets Ctrl-C after so long, and the rows in its file."""
    words = [sys.executable, "-m", "jaxacct", "sweep", *line.split(), "--delta", "1e-6", "--out", str(path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    rows = path.read_text().splitlines()[1:] if path.exists() else []
    later = path.with_name(path.name + ".later")  # chunks that other processes answered ahead of their turn
    chunks = dict(line.split(",", 1) for line in later.read_text().splitlines()[1:]) if later.exists() else {}
    sizes = {int(number): values.count(",") + 1 for number, values in chunks.items()}
    ahead = sum(size for number, size in sizes.items() if number * size >= len(rows))
    return process.returncode, said, rows, ahead


HOST = "poisson --sigma 0.8:1.2:300 --sampling-prob 0.01:0.02:300 --num-steps 1000"
LANES = "allocation --sigma 0.6:2:300 --num-steps 100 --num-epochs 1:300:300 --precision inf"


def _check(found):
    status, said, rows, ahead = found
    assert (status, said.count("\n")) == (130, 1), said
    assert "interrupted" in said
    held = re.search(r"after (\d+) of 90000 points", said)
    if held:
        assert len(rows) + ahead == int(held[1])
    return rows


def test_an_interrupted_sweep_has_its_rows(tmp_path):
    assert len(_check(_interrupt(HOST, tmp_path / "rows.csv", 8.0))) > 10


LOST = """
import os, signal, sys, time
from jaxacct import cli
class Swallows:
    def __del__(self):  # what it raises goes nowhere
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**6):
            pass
def work(words):
    Swallows()
    time.sleep(100)
cli._answer = work
sys.exit(cli.run())
"""


def test_an_interrupt_that_a_finalizer_swallows_is_raised_again():
    found = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (130, "jaxacct: interrupted\n")


@pytest.mark.slow
def test_twenty_interrupted_sweeps_end_with_one_line_and_their_rows(tmp_path):
    """While Python starts up, JAX is imported, programs are compiled, and rows are written."""
    for number in range(20):
        line = (HOST, LANES)[number % 2]
        _check(_interrupt(line, tmp_path / f"{number}.csv", 2.5 + 1.3 * number))
