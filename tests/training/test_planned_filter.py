"""A budget in planned steps: what the filter allows is within (epsilon, delta), however blocks are chosen."""

import functools
import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import training
from jaxacct.training import _planned_filter

STEP = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, num_steps=1)
CALMER = ja.PoissonSampled(ja.Gaussian(2.0), 0.01, num_steps=1)
BUDGET = (2.0, 1e-6)


def test_planned_steps_are_those_known_beforehand():
    budget = training.PlannedFilter(STEP, *BUDGET)
    most = training.steps_affordable(STEP, *BUDGET)
    assert most - 1 <= budget.affords(STEP) <= most
    assert budget.affords(STEP) > 1.7 * training.RenyiFilter(*BUDGET, planned=STEP).affords(STEP)
    assert not budget.spend(STEP, count=budget.left + 1)
    assert budget.spent == (0, 0)
    assert budget.spend(STEP, count=budget.left)
    assert (budget.left, budget.affords(STEP), budget.affords(CALMER)) == (0, 0, 0)
    assert not budget.spend(CALMER)


@pytest.mark.more
def test_after_some_steps_far_more_calmer_ones_are_left_than_at_one_order():
    budget, renyi = training.PlannedFilter(STEP, *BUDGET), training.RenyiFilter(*BUDGET, planned=STEP)
    assert budget.spend(STEP, count=500)
    assert renyi.spend(STEP, count=500)
    most = budget.affords(CALMER)
    assert most > 15 * renyi.affords(CALMER)
    known = ja.Composed((STEP, CALMER), (500, most))
    assert 1.75 < ja.epsilon(known, 1e-6) <= 2.0  # what it would have been, known beforehand
    assert not budget.spend(CALMER, count=most + 1)
    assert budget.spend(CALMER, count=most)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_all_kinds_stay_within_the_budget(seed):
    rng = np.random.default_rng(seed)
    planned = ja.PoissonSampled(ja.Gaussian(1.0), 0.05, num_steps=1) if seed % 2 else ja.Laplace(20.0)
    budget = training.PlannedFilter(planned, *BUDGET)
    run = []
    for _ in range(8):
        noise, count = float(rng.uniform(1.0, 4.0)), int(rng.integers(1, 20))
        kinds = (planned, ja.PoissonSampled(ja.Gaussian(noise), 0.04, num_steps=1), ja.Laplace(10.0 * noise))
        block = kinds[rng.integers(3)]
        if budget.spend(block, count=count):
            run.append((block, count))
    assert len(run) > 1
    before = budget.left
    if budget.spend(planned, count=max(1, before)):
        run.append((planned, before))
    assert ja.epsilon_interval(ja.Composed(*map(tuple, zip(*run, strict=True))), BUDGET[1]).lower <= BUDGET[0]


def _response(epsilon):
    told = 1 / (1 + math.exp(-epsilon))
    return ja.DiscretePair((told, 1 - told), (1 - told, told))


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_whoever_stops_and_chooses_in_the_light_of_luck_gains_nothing(steps, epsilon):
    """All ways to choose, played to the end: blocks of one planned answer, or of what the filter charges one for."""
    planned, calmer = _response(1.0), _response(0.45)
    budget = training.PlannedFilter(planned, 8.0, 1e-3)
    number = 1
    while budget._price(calmer, number + 1) == 1:
        number += 1
    assert number == 2  # 0.9 at the most, and no third

    outputs = list(zip(planned.p, planned.q, strict=True))
    pairs = itertools.product(zip(calmer.p, calmer.q, strict=True), repeat=2)
    several = [(a * c, b * d) for (a, b), (c, d) in pairs]

    @functools.cache
    def best(p, q, left):
        """The largest P - e^epsilon Q from here on; all weights are rounded to what tells them apart."""
        found = [max(0.0, p - math.exp(epsilon) * q)]
        for run in (outputs, several) if left else ():
            found.append(sum(best(round(p * a, 12), round(q * b, 12), left - 1) for a, b in run))
        return max(found)

    assert best(1.0, 1.0, steps) <= ja.delta(ja.Composed(planned, steps), epsilon) + 1e-9


def test_what_dominates_does_so_at_every_epsilon():
    for count, steps in ((50, 24),):
        for direction in ja.Direction:
            larger, smaller = (
                ja.pld(ja.Composed(run, number), direction=direction, bound=ja.Bound.UPPER)
                for run, number in ((STEP, steps), (CALMER, count))
            )
            for epsilon in np.linspace(0.0, 1.0, 21):
                assert smaller.delta(float(epsilon)) <= larger.delta(float(epsilon)) * (1 + 1e-3) + 1e-9
    budget = training.PlannedFilter(STEP, *BUDGET)
    assert budget._price(CALMER, 1) == 1
    assert budget._price(CALMER, 2) == 2  # added, two lose more at the most than a planned one can
    assert budget._price(ja.Gaussian(1.0), 1) is None  # more than all planned steps together
    for count in (20, 100):
        price = budget._price(CALMER, count)
        assert not budget._fits(CALMER, count, price - 1)
        # nobody gets more than the variances of the losses say
        assert price >= count * math.expm1(0.25) / math.expm1(1.0) * 0.99


def test_gaussian_noise_is_counted_in_closed_form():
    budget = training.PlannedFilter(ja.Gaussian(10.0), *BUDGET)
    whole = budget.left
    assert budget.affords(ja.Gaussian(20.0)) == 4 * whole
    assert budget.spend(ja.Gaussian(5.0), count=2)
    assert budget.left == whole - 8
    assert budget.spend(ja.Gaussian(math.nextafter(10.0, 0.0)))
    assert budget.left == whole - 10  # a little more than one
    assert budget.spent[1] == 0  # nothing of delta


def test_a_filter_goes_on_where_it_stopped():
    budget = training.PlannedFilter(STEP, *BUDGET)
    assert budget.spend(STEP, count=100)
    assert budget.spend(CALMER, count=60)
    again = training.PlannedFilter(STEP, *BUDGET, spent=budget.spent)
    assert again.left == budget.left
    assert again.spent == (100 + budget._price(CALMER, 60), 1)
    full = training.PlannedFilter(STEP, *BUDGET, spent=(0, _planned_filter._MOST_OTHERS))
    assert not full.spend(CALMER)
    assert full.affords(CALMER) == 0
    assert full.spend(STEP)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: training.PlannedFilter(ja.Exponential(0.1), *BUDGET), "RenyiFilter"),
        (lambda: training.PlannedFilter(ja.ZCdp(0.1), *BUDGET), "RenyiFilter"),
        (lambda: training.PlannedFilter(ja.RandomAllocation(ja.Gaussian(1.0), 10, 2), *BUDGET), "RenyiFilter"),
        (lambda: training.PlannedFilter(1.0, *BUDGET), "planned"),
        (lambda: training.PlannedFilter(STEP, 0.0, 1e-6), "target_epsilon"),
        (lambda: training.PlannedFilter(STEP, 1.0, 2.0), "target_delta"),
        (lambda: training.PlannedFilter(STEP, *BUDGET, spent=(1.5, 0)), "spent"),
        (lambda: training.PlannedFilter(STEP, *BUDGET, spent=3), "spent"),
        (lambda: training.PlannedFilter(STEP, *BUDGET).spend(STEP, count=0), "count"),
        (lambda: training.PlannedFilter(STEP, *BUDGET).spend(ja.ZCdp(0.1)), "mechanism"),
        (lambda: training.PlannedFilter(STEP, *BUDGET).affords(ja.ReplaceOne(STEP)), "adjacency"),
    ],
)
def test_what_cannot_be_compared_is_refused(make, name):
    with pytest.raises(ValueError, match=name):
        make()


def test_numbers_of_any_type_count_as_what_they_are():
    """float16(1.1) == 1.1 in NumPy, and is less."""
    noise = np.float16(1.1)
    budget = training.PlannedFilter(ja.Gaussian(1.1), target_epsilon=8.0, target_delta=1e-6)
    assert noise == 1.1
    assert budget.affords(ja.Gaussian(noise)) == budget.affords(ja.Gaussian(float(noise))) < budget.left
    step = ja.PoissonSampled(ja.Gaussian(jnp.asarray(2.0)), sampling_prob=0.01, num_steps=1)
    assert budget.spend(step)
