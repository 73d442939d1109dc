"""Upper ends of the add direction by one real moment: above the certified value, not by much; where they suffice."""

import functools
import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._types import Direction
from jaxacct.bounds._line_questions import question
from jaxacct.bounds._many_lines import ends
from jaxacct.bounds._one_moment import added_upper

ADD, REMOVE = Direction.ADD, Direction.REMOVE
# noise multiplier, steps, times, delta
SETTINGS = ((0.5, 40.0, 3.0, 1e-6), (0.8, 3000.0, 20.0, 1e-8), (1.5, 15.0, 2.0, 1e-5), (2.0, 20.0, 3.0, 1e-6))


@pytest.mark.parametrize("query", list(Query))
def test_above_single_lines(query):
    sigma, steps, times, delta = np.array(SETTINGS).T
    known = [ends(question([at[:3]], [], ADD, at[3]), Query.EPSILON) for at in SETTINGS]
    lower, upper = (np.array([x[k][0] for x in known]) for k in (0, 1))
    found = added_upper(sigma, steps, times, np.arange(4), query, delta if query is Query.EPSILON else upper)
    if query is Query.EPSILON:
        assert np.all(found >= lower)
        assert np.all(found <= 1.6 * upper)
    else:
        assert np.all(found >= delta * 0.999)
        assert np.all(found <= 1e4 * delta)


def test_rounds_of_a_lane_add_up():
    """Two rounds of one kind are one that is run as often as both together, whatever stands beside them."""
    sigma, steps, times = np.array([[0.7, 50.0, 3.0], [2.0, 9.0, 1.0], [0.7, 50.0, 4.0]]).T
    target = np.array([1e-6, 1e-5])
    apart = added_upper(sigma, steps, times, np.array([0, 1, 0]), Query.EPSILON, target)
    times = np.array([7.0, 1.0])
    together = added_upper(sigma[:2], steps[:2], times, np.arange(2), Query.EPSILON, target)
    assert apart == pytest.approx(together, rel=1e-12)


@pytest.mark.parametrize("query", list(Query))
@pytest.mark.parametrize("selected", [1, 4])
def test_the_worse_direction_is_the_answer(query, selected):
    """A batch and its points alone, heavy tails and light ones: as good as both directions asked by themselves."""
    sigma = np.array([0.5, 0.7, 1.0, 1.5, 4.0])
    target = np.full(5, 1e-6)
    run = ja.RandomAllocation(ja.Gaussian(sigma), num_steps=120, num_selected=selected)
    if query is Query.DELTA:
        target = ja.epsilon(run, target)
    ask = functools.partial(ja.epsilon if query is Query.EPSILON else ja.delta, precision=math.inf)
    worse = np.maximum(*(ask(run, target, direction=d) for d in ("remove", "add")))
    assert ask(run, target) == pytest.approx(worse, rel=1e-5)
    for i in (0, 4):
        alone = ja.RandomAllocation(ja.Gaussian(sigma[i]), num_steps=120, num_selected=selected)
        assert ask(alone, target[i]) == pytest.approx(worse[i], rel=1e-5)
