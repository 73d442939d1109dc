"""The numbers on the page of balls in bins with correlated noise."""

from pathlib import Path

import numpy as np
import pytest

import jaxacct as ja

PAGE = (Path(__file__).parents[2] / "docs/papers/correlated.md").read_text()


def _normalised(coefficients):
    return np.array(coefficients) / np.linalg.norm(coefficients)


def _root(bands):
    return _normalised(np.cumprod(np.concatenate([[1.0], 1.0 - 0.5 / np.arange(1, bands)])))


RUNS = {
    "T1": (ja.BallsInBins(_normalised((1.0, 0.5)), 1.5, 4, 2), 1.0),
    "T3": (ja.BallsInBins(_normalised((1.0, 0.5, 0.25, 0.125)), 2.2, 100, 10), 2.0),
    "T4": (ja.BallsInBins(_root(8), 4.0, 100, 20), 2.0),
    "T5": (ja.BallsInBins(_root(16), 1.9, 1000, 10), 2.0),
    "T6": (ja.BallsInBins(_normalised((1.0,) * 4), 2.5, 100, 10), 2.0),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", RUNS)
def test_the_table(name):
    run, epsilon = RUNS[name]
    cells = next(line for line in PAGE.splitlines() if line.startswith(f"| {name} |")).strip("|").split("|")
    known, groups, chain = (float(cell) for cell in cells[1:4])
    by_groups = ja.delta(run, epsilon, method="groups")
    if run.num_batches < 500:  # else ten seconds
        by_chain = ja.delta(run, epsilon, direction="remove", method="markov chain")
        assert chain == pytest.approx(by_chain, rel=5e-3)
    assert groups == pytest.approx(by_groups, rel=5e-3)
    assert known > by_groups
