"""The same question gives the same digits, however often it is asked and whatever was asked before."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.mechanisms import ASKED

import jaxacct as ja
from jaxacct._sharing import shared

GAUSSIAN, LOCAL = ja.Gaussian(1.0), ja.LocalRandomizer(1.0)
NOISES = np.linspace(0.8, 2.0, 5)
TIMES = 1000
SOMETIMES = 100  # of what takes milliseconds: often enough for a count that changes the way to answer
QUESTIONS: dict[str, tuple[Callable[[], Any], int]] = {
    "Gaussian": (lambda: ja.epsilon(GAUSSIAN, 1e-6), TIMES),
    "Poisson": (lambda: ja.epsilon(ja.PoissonSampled(GAUSSIAN, 0.01, 1000), 1e-6), TIMES),
    "delta, Poisson": (lambda: ja.delta(ja.PoissonSampled(GAUSSIAN, 0.01, 1000), 0.5), SOMETIMES),
    "Laplace": (lambda: ja.epsilon(ja.Laplace(2.0), 1e-6), TIMES),
    "clones": (lambda: ja.epsilon(ja.Shuffled(LOCAL, 100_000), 1e-6), TIMES),
    "check-ins": (lambda: ja.epsilon(ja.CheckIn(LOCAL, 1000, 0.1), 1e-6), TIMES),
    "quick": (lambda: ja.epsilon(ja.RandomAllocation(GAUSSIAN, 1000), 1e-6, precision=np.inf), SOMETIMES),
    "composition": (
        lambda: ja.epsilon(ja.Composed((GAUSSIAN, ja.PoissonSampled(GAUSSIAN, 0.01, 99))), 1e-6),
        SOMETIMES,
    ),
    "one epoch": (lambda: ja.epsilon(ja.RandomAllocation(GAUSSIAN, 1000), 1e-6), SOMETIMES),
    "ten epochs": (lambda: ja.epsilon(ja.RandomAllocation(GAUSSIAN, 1000, 1, 10), 1e-6), SOMETIMES),
    "k of t": (lambda: ja.epsilon(ja.RandomAllocation(GAUSSIAN, 1000, 5), 1e-6), SOMETIMES),
    "both ends": (lambda: ja.epsilon_interval(ja.RandomAllocation(GAUSSIAN, 1000), 1e-6), SOMETIMES),
    "many Poisson": (lambda: ja.epsilon(ja.PoissonSampled(ja.Gaussian(NOISES), 0.01, 1000), 1e-6), SOMETIMES),
    "many epochs": (lambda: ja.epsilon(ja.RandomAllocation(ja.Gaussian(NOISES), 1000), 1e-6), SOMETIMES),
    "many clones": (lambda: ja.epsilon(ja.Shuffled(ja.LocalRandomizer(NOISES), 1000), 1e-6), SOMETIMES),
    "many check-ins": (lambda: ja.epsilon(ja.CheckIn(ja.LocalRandomizer(NOISES), 1000, 0.1), 1e-6), SOMETIMES),
}


DEAR = [name for name, (_, times) in QUESTIONS.items() if times < TIMES]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "times"),
    [
        *((name, times) for name, (_, times) in QUESTIONS.items()),
        *(pytest.param(name, TIMES, marks=pytest.mark.more) for name in DEAR),
    ],
)
def test_a_question_gives_the_same_digits_each_time(name, times):
    ask, _ = QUESTIONS[name]
    first = np.asarray(ask())
    assert np.all((first > 0.0) & (first < np.inf))
    for _ in range(times - 1):
        np.testing.assert_array_equal(ask(), first, strict=True)


def test_points_of_a_batch_have_the_same_digits_whatever_else_was_asked():
    batch, one = QUESTIONS["many Poisson"][0], QUESTIONS["Poisson"][0]
    first, alone = batch(), one()
    for ask, _ in QUESTIONS.values():
        ask()
    np.testing.assert_array_equal(batch(), first)
    assert one() == alone


# Those whose first answers take seconds are left out.
IN_ANY_ORDER = sorted(name for name in ASKED if "ShuffledBatches" not in name and "Density" not in name)
ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import jaxacct as ja
from support.mechanisms import ASKED
print(json.dumps({name: ja.epsilon(ASKED[name], 1e-6).hex() for name in sys.argv[2:]}))
"""


def answers_in(order: list[str]) -> dict[str, str]:
    """Epsilons, by a process that asks for them in this order."""
    command = [sys.executable, "-c", ASK, str(Path(__file__).parents[1]), *order]
    found: dict[str, str] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


@pytest.mark.more
def test_the_order_of_questions_changes_no_digit():
    shuffled = random.Random(7).sample(IN_ANY_ORDER, len(IN_ANY_ORDER))
    assert answers_in(IN_ANY_ORDER) == answers_in(shuffled)


def test_runs_that_share_what_they_make_keep_their_own_divergences():
    """Of one structure, but with other noise, other numbers of steps, other orders or another direction."""
    runs = [ja.RandomAllocation(ja.Gaussian(s), t) for s, t in ((1.0, 20), (2.0, 20), (1.0, 30))]
    names = {"direct": ja.Direction.REMOVE, "real orders": ja.Direction.ADD}
    asked = [(run, delta, name) for run in runs for delta in (1e-6, 1e-30) for name in names]

    def ask() -> list[float]:
        return [ja.epsilon(run, delta, method=name, direction=names[name]) for run, delta, name in asked]

    apart = ask()
    with shared():
        assert ask() == ask() == apart
    assert len(set(apart)) == len(apart)
