"""Splits of epsilon, or delta, between a record's removal and the addition of another: where the best is at an end."""

import math

import numpy as np
import pytest

import jaxacct as ja

ONE = ja.NeighboringRelation.REPLACE_ONE
GIVEN = ja.EpsilonDelta(0.16, 0.1)
BEGUN = ja.PartialAllocation(ja.Gaussian(0.9354757503204085), 10, 3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("epsilon", [0.0, 4e-4, 0.03])
@pytest.mark.parametrize("run", [GIVEN, BEGUN, ja.ZCdp(0.3, 0.0)])
def test_epsilons_near_zero(run, epsilon):
    """One step has its whole delta of epsilon 0, and loses nothing."""
    delta = ja.delta(run, epsilon, neighboring_relation=ONE)
    assert ja.epsilon(run, delta * (1.0 + 1e-9), neighboring_relation=ONE) <= epsilon * 1.01 + 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_deltas_are_near_the_best_split(epsilon):
    """Near the end of what is looked at, or where the addition's delta ends at once."""
    sums = (
        ja.delta(BEGUN, float(x), direction="remove")
        + math.exp(x) * ja.delta(BEGUN, float(epsilon - x), direction="add")
        for x in np.linspace(0.0, epsilon, 31)
    )
    assert ja.delta(BEGUN, epsilon, neighboring_relation=ONE) <= 1.02 * min(sums)


def test_deltas_that_end_at_once_leave_few_splits():
    """A guarantee (e, d) twice is one of 2 e and d (1 + e^e), and no split of other epsilons is known."""
    whole = 0.1 * (1.0 + math.exp(0.16))
    for above in (1.001, 1.003, 1.01):
        assert ja.epsilon(GIVEN, whole * above, neighboring_relation=ONE) <= 0.32 * (1.0 + 1e-3)
    for epsilon in (0.33, 1.0, 10.0):
        assert ja.delta(GIVEN, epsilon, neighboring_relation=ONE) <= 1.01 * whole


def test_one_step_takes_nearly_all_of_delta():
    """Two outputs that tell nearly all: the removal needs their mass, and the addition, purely private, nothing."""
    pair = ja.DiscretePair((0.33, 0.22, 0.45), (4e-12, 3e-9, 1.0 - 3e-9 - 4e-12))
    delta = ja.delta(pair, 3.0, neighboring_relation=ONE)
    assert ja.epsilon(pair, delta * (1.0 + 1e-6), neighboring_relation=ONE) <= 3.0 * 1.15


@pytest.mark.more
def test_the_addition_ends_where_the_removal_cannot():
    """Of an unfinished epoch of a guarantee with a delta: the removal's never ends, the addition's does."""
    run = ja.PartialAllocation(ja.EpsilonDelta(0.85, 0.1), 80, 17)
    delta = ja.delta(run, 0.35, neighboring_relation=ONE)
    assert ja.epsilon(run, delta * (1.0 + 1e-6), neighboring_relation=ONE) <= 0.35 * 1.15
