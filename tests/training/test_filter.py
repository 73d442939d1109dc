"""Adaptive budgets: what a filter allows is within (epsilon, delta), however releases are chosen."""

import math

import mpmath
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import training

STEP = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, num_steps=1)


def exact_budget(order, epsilon, delta):
    """B(a) in 40 digits."""
    with mpmath.workdps(40):
        a, e, d = map(mpmath.mpf, (order, epsilon, delta))
        return e - mpmath.log(1 - 1 / a) + (mpmath.log(d) + mpmath.log(a)) / (a - 1)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-8), (2.0, 1e-6), (8.0, 1e-5), (40.0, 1e-10)])
def test_budget_is_rounded_down_and_delta_shared(epsilon, delta):
    orders = np.array([1.25, 2.0, 5.0, 17.0, 300.0])
    budget = training.RenyiFilter(epsilon, delta, orders=orders)
    for a, left in zip(orders, budget.left, strict=True):
        true = exact_budget(a, epsilon, delta / len(orders))
        assert left <= max(true, 0)
        assert left == pytest.approx(max(float(true), 0.0), rel=1e-11)


@pytest.mark.parametrize("seed", range(6))
def test_releases_chosen_on_the_way_stay_within_the_budget(seed):
    """Gaussian releases, whose composition is known exactly, until nothing fits."""
    rng = np.random.default_rng(seed)
    epsilon, delta = 2.0, 1e-6
    budget = training.RenyiFilter(epsilon, delta, planned=ja.Gaussian(20.0) if seed % 2 else None)
    squares = 0.0
    for _ in range(300):
        noise = float(np.exp(rng.uniform(np.log(4.0), np.log(60.0))))
        if budget.spend(ja.Gaussian(noise)):
            squares += noise**-2
    whole = ja.Gaussian(squares**-0.5)
    assert delta * 0.01 <= ja.delta(whole, epsilon) <= delta  # used up, and not more


def test_what_fits_can_be_spent_and_no_more():
    budget = training.RenyiFilter(2.0, 1e-6, planned=STEP)
    most = budget.affords(STEP)
    assert not budget.spend(STEP, count=most + 1)
    assert budget.spent == (0.0,)
    assert budget.spend(STEP, count=most)
    assert not budget.spend(STEP)
    assert budget.affords(STEP) == 0


def test_one_order_is_composition_at_that_order():
    budget = training.RenyiFilter(2.0, 1e-6, orders=[9.0])
    parts = [STEP, ja.Gaussian(10.0), ja.RandomAllocation(ja.Gaussian(2.0), 50)]
    assert all(budget.spend(part) for part in parts)
    assert budget.spent[0] == pytest.approx(sum(float(ja.rdp(part, [9.0]).values[0]) for part in parts), rel=1e-12)


def test_a_run_is_resumed():
    first = training.RenyiFilter(2.0, 1e-6, planned=STEP)
    first.spend(STEP, count=100)
    again = training.RenyiFilter(2.0, 1e-6, planned=STEP, spent=first.spent)
    assert again.left == first.left
    assert again.affords(STEP) == first.affords(STEP)


def test_nothing_private_fits_into_little():
    budget = training.RenyiFilter(1e-3, 1e-12)
    assert budget.affords(ja.Gaussian(0.1)) == 0
    assert not budget.spend(ja.Gaussian(0.1))
    assert budget.affords(ja.Gaussian(1e9)) > 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: training.RenyiFilter(0.0, 1e-6), "target_epsilon=0.0 must be > 0"),
        (lambda: training.RenyiFilter(-1.0, 1e-6), "target_epsilon=-1.0"),
        (lambda: training.RenyiFilter(1.0, 0.0), "target_delta=0.0"),
        (lambda: training.RenyiFilter(1.0, 1e-6, orders=[1.0]), "orders="),
        (lambda: training.RenyiFilter(1.0, 1e-6, orders=[2.0], planned=STEP), "must not be given together"),
        (lambda: training.RenyiFilter(1.0, 1e-6, planned=3), "planned=3"),
        (lambda: training.RenyiFilter(1.0, 1e-6, orders=[2.0], spent=[1.0, 2.0]), "spent="),
        (lambda: training.RenyiFilter(1.0, 1e-6, orders=[2.0], spent=[math.nan]), "spent="),
        (lambda: training.RenyiFilter(1.0, 1e-6).spend(None), "mechanism=None"),
        (lambda: training.RenyiFilter(1.0, 1e-6).spend(STEP, count=0), "count=0"),
        (lambda: training.RenyiFilter(1.0, 1e-6).spend(ja.Gaussian(np.ones(2))), "scalar"),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_one_adjacency():
    budget = training.RenyiFilter(5.0, 1e-6)
    assert budget.spend(ja.Gaussian(20.0))
    with pytest.raises(ValueError, match="adjacency"):
        budget.spend(ja.Shuffled(ja.LocalRandomizer(1.0), 1000))
