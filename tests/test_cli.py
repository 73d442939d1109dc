"""The command line, as a person would type it."""

import json
import math

import pytest

import jaxacct as ja
from jaxacct.__main__ import main

ALLOCATION = ["allocation", "--noise-multiplier", "1.0", "--num-steps", "100"]
POISSON = ["poisson", "--noise-multiplier", "1", "--num-steps", "9"]
QUICK = ["--precision", "inf"]


def run(capsys, *args):
    assert main(list(args)) == 0
    return capsys.readouterr().out


def test_epsilon_statement_rests_on_what_it_says(capsys):
    text = run(capsys, "epsilon", *ALLOCATION, "--num-epochs", "2", "--delta", "1e-6", *QUICK)
    for part in (
        "certified upper bound",
        "add or remove one record",
        "Feldman & Shenfeld 2025, Theorem",
        "Renyi order",
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


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["epsilon", "gaussian", "--noise-multiplier", "-1", "--delta", "1e-6"], "noise_multiplier=-1 must be > 0"),
        (["epsilon", "gaussian", "--noise-multiplier", "nan", "--delta", "1e-6"], "noise_multiplier=nan must be > 0"),
        (
            ["epsilon", *ALLOCATION, "--num-selected", "101", "--delta", "1e-6"],
            "num_selected=101 must be <= num_steps=100",
        ),
        (["epsilon", *ALLOCATION, "--num-epochs", "1.5", "--delta", "1e-6"], "num_epochs=1.5 must be a whole number"),
        (["epsilon", *ALLOCATION, "--delta", "1"], "target_delta=1 must be in (0, 1)"),
        (["delta", *ALLOCATION, "--epsilon", "-2"], "target_epsilon=-2 must be >= 0"),
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
            "sampling_prob=2 must be in [0, 1]",
        ),
        (["epsilon", "gaussian", "--noise-multiplier", "one", "--delta", "1e-6"], "invalid number value: 'one'"),
        (["epsilon", "gaussian", "--delta", "1e-6"], "--noise-multiplier"),
        (["epsilon", "nonsense"], "invalid choice: 'nonsense'"),
        ([], "required"),
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
