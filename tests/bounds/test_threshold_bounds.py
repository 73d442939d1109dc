"""The lower end of k-out-of-t allocation: the settings measured first, and random ones between everything else."""

import math
from typing import Any

import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Bracketing, Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds.allocation._threshold_test import THRESHOLD_TEST

# sigma, t, k, delta, and epsilon by an uncertified prototype of the test with one tuning
TABLE = [
    (1.701, 2147, 5, 1e-8, 0.33742),
    (0.992, 80356, 5, 1e-5, 0.07007),
    (1.446, 5345, 5, 1e-8, 0.25778),
    (0.968, 4727, 2, 1e-6, 0.15548),
    (1.0, 10000, 10, 1e-6, 0.53975),
    (0.776, 37, 5, 1e-6, 8.070),
    (0.55, 391, 5, 1.25e-5, 6.616),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", TABLE)
def test_the_lower_end_is_near_or_above_the_prototype(case: tuple[float, int, int, float, float]) -> None:
    sigma, steps, selected, delta, prototype = case
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps, selected)
    found = ja.epsilon_interval(run, delta)
    assert (1.0 - 2e-3) * prototype <= found.lower <= found.upper
    if steps / selected >= 300:
        assert found.upper - found.lower <= 1e-3 * found.lower
    assert ja.delta_interval(run, found.lower).lower >= 0.9 * delta


def _run(rng: np.random.Generator) -> ja.RandomAllocation:
    sigma = float(np.exp(rng.uniform(np.log(0.4), np.log(4.0))))
    selected = int(rng.integers(2, 12))
    steps = selected + int(np.exp(rng.uniform(0.0, np.log(1e4))))
    return ja.RandomAllocation(ja.Gaussian(sigma), steps, selected, int(rng.integers(1, 4)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("seed", range(4))
def test_no_lower_end_lies_above_an_upper_one(seed: int, direction: Direction) -> None:
    rng = np.random.default_rng(seed)
    run, delta = _run(rng), float(10.0 ** rng.uniform(-10.0, -2.0))
    at = Bracketing(width=0.01, known={direction: Ends(0.0, 1.0)}, wants_lower=True, ask=_never)
    upper = ja.epsilon(run, delta, direction=direction)
    lower = THRESHOLD_TEST.bracket(run, Query.EPSILON, delta, at)[direction].lower
    assert 0.5 * upper < lower <= upper
    below = THRESHOLD_TEST.bracket(run, Query.DELTA, lower, at)[direction].lower
    assert 0.5 * delta < below <= ja.delta(run, lower, direction=direction)


def _never(*arguments: Any, **options: Any) -> Any:
    raise AssertionError(arguments, options)


def test_mixtures_of_allocation_with_other_rounds() -> None:
    parts = (ja.RandomAllocation(ja.Gaussian(1.0), 370, 5, 3), ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100))
    whole = ja.epsilon_interval(ja.Composed((*parts, ja.Gaussian(5.0)), (2, 1, 3)), 1e-6)
    assert 0.97 * whole.upper < whole.lower <= whole.upper
    alone = ja.epsilon_interval(ja.Composed(parts[0], 2), 1e-6)
    assert alone.lower < whole.lower


def test_odd_settings_say_nothing_rather_than_something_wrong() -> None:
    for run in (
        ja.RandomAllocation(ja.Gaussian(1e-2), 10, 3),
        ja.RandomAllocation(ja.Gaussian(1e7), 10, 3),
        ja.RandomAllocation(ja.Gaussian(1.0), 2**40, 3),
        ja.RandomAllocation(ja.Gaussian(0.06), 5, 4),
        ja.RandomAllocation(ja.Gaussian(1.0), 3, 2, 10**6),
    ):
        joined = float(run.num_selected * run.num_epochs)
        whole = ja.Gaussian(run.mechanism.noise_multiplier / math.sqrt(joined))  # who sees which steps were joined
        at = Bracketing(width=0.01, known=dict.fromkeys(Direction, Ends(0.0, 1.0)), wants_lower=True, ask=_never)
        for low in THRESHOLD_TEST.bracket(run, Query.EPSILON, 1e-6, at).values():
            assert 0.0 <= low.lower <= ja.epsilon(whole, 1e-6)
        for low in THRESHOLD_TEST.bracket(run, Query.DELTA, 1.0, at).values():
            assert 0.0 <= low.lower <= ja.delta(whole, 1.0)
