"""Compositions with allocation by one line of complex moments, against loss distributions."""

import itertools
import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._types import Bound, Direction
from jaxacct.bounds._line_questions import question
from jaxacct.bounds._many_lines import ends as many_ends
from jaxacct.bounds._moments import _bracket

REMOVE, ADD = Direction.REMOVE, Direction.ADD

# (noise multiplier, steps, selected, epochs, delta): drawn at random over the map of the benchmark, seed 3
_MAP = [
    (4.4424, 1115, 9, 2, 7.43e-9),
    (0.7988, 652, 1, 10, 3.75e-9),
    (0.7238, 7928, 3, 5, 6.6e-5),
    (0.5532, 73, 1, 33, 1.64e-10),
    (3.3808, 63, 2, 1, 8.45e-10),
    (0.8463, 7758, 3, 37, 1.34e-10),
    (4.4391, 51623, 1, 2, 5.39e-7),
    (0.6702, 13, 7, 14, 2.73e-6),
    (1.6292, 11, 4, 92, 2.27e-6),
    (1.6677, 45021, 6, 149, 3.12e-5),
]


def ends(plain, direction, query, target):
    """The ends of one question."""
    found = many_ends(question(plain, [], direction, target), query)
    return ja._types.Ends(float(found.lower[0]), float(found.upper[0]))


def _rounds(sigma, steps, selected, epochs):
    size, larger = divmod(steps, selected)
    every = [(sigma, float(size), float((selected - larger) * epochs))]
    every.append((sigma, float(size + 1), float(larger * epochs)))
    return [of for of in every if of[2] > 0]


@pytest.mark.parametrize("args", _MAP)
@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_the_ends_are_narrow_and_hold_each_other(args, direction):
    *fields, delta = args
    rounds = _rounds(*fields)
    found = ends(rounds, direction, Query.EPSILON, delta)
    assert 0 < found.lower <= found.upper <= found.lower * (1 + 1e-3)
    # delta at the ends of epsilon: another line
    below = ends(rounds, direction, Query.DELTA, found.lower)
    above = ends(rounds, direction, Query.DELTA, found.upper)
    assert below.upper >= delta * (1 - 1e-9)
    assert above.lower <= delta * (1 + 1e-9)
    assert above.upper <= 1.2 * above.lower


@pytest.mark.parametrize("args", _MAP[:6])
def test_loss_distributions_agree(args):
    sigma, steps, selected, epochs, delta = args
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps, selected, epochs)
    for direction in (REMOVE, ADD):
        found = ends(_rounds(sigma, steps, selected, epochs), direction, Query.EPSILON, delta)
        above = ja.pld(run, direction=direction, bound=Bound.UPPER, resolution=4.0).epsilon(delta)
        below = ja.pld(run, direction=direction, bound=Bound.LOWER, resolution=4.0).epsilon(delta)
        assert found.lower <= above
        assert found.upper >= below


@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_mixtures_agree_with_loss_distributions(direction):
    """Rounds of two noise multipliers, Gaussian steps and sampled ones together."""
    parts = (
        ja.RandomAllocation(ja.Gaussian(1.0), 200, 3),
        ja.RandomAllocation(ja.Gaussian(2.0), 50),
        ja.Gaussian(20.0),
        ja.PoissonSampled(ja.Gaussian(1.5), 0.01, num_steps=1),
    )
    run = ja.Composed(parts, (3, 2, 4, 10))
    found = _narrow(run, direction)
    assert found.lower <= ja.pld(run, direction=direction, bound=Bound.UPPER, resolution=4.0).epsilon(1e-6)
    assert found.upper >= ja.pld(run, direction=direction, bound=Bound.LOWER, resolution=4.0).epsilon(1e-6)


def _narrow(run, direction, delta=1e-6):
    known = {direction: ja._types.Ends(0.0, math.inf)}
    at = ja._method.Bracketing(width=1e-3, known=known, wants_lower=True, ask=None)
    found = _bracket(run, Query.EPSILON, delta, at)[direction]
    assert found.upper <= found.lower * (1 + 1e-3)
    return found


@pytest.mark.parametrize(
    ("noise", "prob", "steps", "epochs", "delta"),
    [(12.37, 9.9e-5, 11_597, 3, 2e-4), (3.88, 3.6e-5, 53_363, 4, 3.4e-6), (7.54, 2e-5, 441_124, 11, 1.4e-8),
     (18.3, 3.2e-5, 118_397, 1, 3.6e-3), (0.386, 0.0347, 5347, 1, 2.6e-3), (0.38, 0.066, 106_134, 47, 1.7e-8),
     (0.326, 0.24, 14_555, 5, 1e-6)],
)  # fmt: skip
def test_parts_that_decide_little_or_all(noise, prob, steps, epochs, delta):
    """Epochs far narrower than what is composed, and rare large losses: a line for each, in both directions."""
    allocated = ja.RandomAllocation(ja.Gaussian(2.0 * noise), steps, 1, epochs)
    run = ja.Composed((ja.PoissonSampled(ja.Gaussian(noise), prob, steps), allocated, ja.Gaussian(5.0 * noise)), 1)
    for direction in (REMOVE, ADD):
        _narrow(run, direction, delta)


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "delta"), [(19.1, 619_391, 94, 2.3e-8), (13.9, 4653, 763, 2.6e-3)]
)
def test_narrow_averages_have_lines(noise, steps, epochs, delta):
    for direction in (REMOVE, ADD):
        found = _narrow(ja.RandomAllocation(ja.Gaussian(noise), steps, 1, epochs), direction, delta)
        assert found.upper <= found.lower * (1 + 1e-5)


@pytest.mark.parametrize(("noise", "steps", "epochs", "delta"), [(0.46, 378_741, 3, 1e-6), (0.4, 624_071, 9, 6e-8)])
def test_few_epochs_of_rare_large_losses_have_long_lines(noise, steps, epochs, delta):
    run = ja.RandomAllocation(ja.Gaussian(noise), steps, 1, epochs)
    found = _narrow(run, REMOVE, delta)
    assert found.upper <= found.lower * (1 + 2e-5)
    assert found.lower <= ja.pld(run, direction=REMOVE).epsilon(delta)


@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_lines_are_as_long_as_the_moments_of_rare_sampled_steps_fall(direction):
    """Their variance lies in losses so rare that it says little of how the moments fall at large heights."""
    allocated = ja.RandomAllocation(ja.Gaussian(0.415), 101_301, 1, 4)
    run = ja.Composed((allocated, ja.PoissonSampled(ja.Gaussian(0.496), 0.00162, 40)), 1)
    found = _narrow(run, direction, 1.9e-7)
    assert found.upper <= found.lower * (1 + 1e-6)


def test_gaussian_rounds_are_closed():
    found = ends([(3.0, 1.0, 9.0)], REMOVE, Query.DELTA, 0.5)
    truth = ja.delta_interval(ja.Composed(ja.Gaussian(3.0), 9), 0.5)
    assert found.lower <= truth.upper
    assert found.upper >= truth.lower
    assert found.upper <= found.lower * (1 + 1e-9)


def test_ends_fall_with_the_noise_and_rise_with_the_epochs():
    delta = 1e-7
    by_noise = [ends([(s, 500.0, 10.0)], REMOVE, Query.EPSILON, delta) for s in np.geomspace(0.6, 4.0, 8)]
    assert all(a.upper > b.lower for a, b in itertools.pairwise(by_noise))
    assert all(a.lower > b.upper for a, b in itertools.pairwise(by_noise))
    by_epochs = [ends([(0.9, 300.0, float(n))], REMOVE, Query.EPSILON, delta) for n in (2, 3, 5, 20, 100)]
    assert all(a.upper < b.lower for a, b in itertools.pairwise(by_epochs))


def test_what_is_out_of_range_says_nothing():
    found = ends([(0.05, 10.0, 2.0)], REMOVE, Query.EPSILON, 1e-6)
    assert (found.lower, found.upper) == (0.0, math.inf)
    found = ends([(0.05, 10.0, 2.0)], ADD, Query.DELTA, 1.0)
    assert (found.lower, found.upper) == (0.0, 1.0)
