"""The upper bound that keeps how many steps a record joined: not below the truth, and sharper for large shares."""

import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._types import Direction
from jaxacct.bounds.allocation import _how_many as module
from jaxacct.bounds.allocation._how_many import how_many_upper
from jaxacct.bounds.allocation._how_many_epochs import epochs_upper
from jaxacct.divergence._threshold_test import epsilon_below
from jaxacct.divergence.gaussian._allocated_steps import AllocatedSteps
from jaxacct.estimation import estimate_delta
from jaxacct.papers.random_allocation import few_steps_delta


@pytest.mark.parametrize("grid", [module._COARSE, module._FINE])
def test_cells_of_the_angle_lie_above_the_integral(grid) -> None:
    c, v = module._weights(grid.num_angles)
    angles = math.pi * (np.arange(20_000) + 0.5) / 20_000
    for spread in (0.0, 0.1, 0.7, 2.0, 8.0, 50.0, 400.0):
        exact = float(np.exp(-spread * (1.0 - np.cos(angles))).mean())
        found = float(v @ np.exp(-spread * c))
        assert exact <= found + 1e-9
        assert found <= 1.15 * exact or spread > 10.0 or grid is module._COARSE


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("sigma", "steps", "selected", "epsilon"), [(1.0, 3, 2, 0.8), (0.6, 3, 2, 3.0), (2.0, 3, 2, 0.4), (0.5, 4, 3, 6.0)]
)
def test_not_below_true_allocation_in_few_steps(sigma: float, steps: int, selected: int, epsilon: float) -> None:
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps, selected)
    truth = few_steps_delta(run, epsilon, Direction.REMOVE)
    for tuning in (0.16, 0.42, 0.86):
        for grid in (module._COARSE, module._FINE):
            assert truth.lower <= module._one(run, tuning, Query.DELTA, epsilon, grid)
            assert epsilon <= module._one(run, tuning, Query.EPSILON, truth.lower, grid)
    assert how_many_upper(run, Query.DELTA, epsilon) <= 6.0 * truth.upper


def test_q_is_sought_between_those_that_are_tried_first() -> None:
    run = ja.RandomAllocation(ja.Gaussian(2.66), 254, 37)
    tried = [module._one(run, tuning, Query.EPSILON, 1e-7) for tuning in module._TUNINGS[-3:]]
    assert how_many_upper(run, Query.EPSILON, 1e-7) < 0.995 * min(tried)


@pytest.mark.parametrize(
    ("sigma", "steps", "selected", "delta", "most"), [(0.776, 37, 5, 1e-6, 8.65), (0.55, 391, 5, 1.25e-5, 7.22)]
)
def test_between_the_test_from_below_and_the_goal(
    sigma: float, steps: int, selected: int, delta: float, most: float
) -> None:
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps, selected)
    upper = how_many_upper(run, Query.EPSILON, delta)
    share = 0.4 * selected / steps
    term = AllocatedSteps(sigma, float(steps), float(selected), share, Direction.REMOVE)
    assert 0.9 * most < epsilon_below(lambda tuning: [(term, 1.0)], delta) <= upper <= most
    assert how_many_upper(run, Query.DELTA, upper) <= delta * (1.0 + 1e-3)
    assert ja.epsilon(run, delta, direction=Direction.REMOVE) <= most


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta"), [(1.0, 6, 2, 1e-4), (0.6, 20, 3, 1e-6), (2.0, 4, 5, 1e-3)]
)
def test_epochs_of_one_step_are_not_below_the_exact_composition(
    sigma: float, steps: int, epochs: int, delta: float
) -> None:
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps, 1, epochs)
    truth = ja.epsilon_interval(run, delta, precision=1e-4).lower
    for tuning in (0.5, 0.86):
        parts = module._parts(sigma, steps, 1, tuning)
        for order in (1.2, 2.0, 4.0):
            found = epochs_upper(parts, epochs, order, Query.EPSILON, delta)
            assert truth <= found
            if math.isfinite(found):
                below = ja.delta_interval(run, truth, precision=1e-4).lower
                assert below <= epochs_upper(parts, epochs, order, Query.DELTA, truth)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("sigma", "steps", "selected", "epsilon"), [(1.0, 3, 2, 2.0), (0.6, 3, 2, 5.0)])
def test_one_epoch_with_the_angle_shown_is_not_below_the_truth(
    sigma: float, steps: int, selected: int, epsilon: float
) -> None:
    truth = few_steps_delta(ja.RandomAllocation(ja.Gaussian(sigma), steps, selected), epsilon, Direction.REMOVE).lower
    for tuning in (0.5, 0.86):
        parts = module._parts(sigma, steps, selected, tuning)
        for order in (1.2, 2.0, 4.0):
            assert truth <= epochs_upper(parts, 1, order, Query.DELTA, epsilon)
            assert epsilon <= epochs_upper(parts, 1, order, Query.EPSILON, truth)


def test_several_epochs_are_sharper_than_one_step_at_a_time_and_above_samples() -> None:
    run = ja.RandomAllocation(ja.Gaussian(0.5452), 406, 36, 12)
    upper = how_many_upper(run, Query.EPSILON, 2.326e-6)
    assert 270.2 < upper < 292.5  # from below, and by the reduction 301.0
    few = ja.RandomAllocation(ja.Gaussian(1.0), 20, 3, 4)
    found = estimate_delta(few, 2.0, num_samples=4000, seed=1, direction=Direction.REMOVE, method="importance")
    assert found.mean - 4.5 * found.standard_error < how_many_upper(few, Query.DELTA, 2.0)
