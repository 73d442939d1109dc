"""Steps and compositions of privacy loss distributions that a user gives, against sums over their atoms."""

import itertools
import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct.curves import Pld
from jaxacct.curves._convolution import compose_plds

PROB = 0.001  # of the large loss


def two_losses(large: float) -> Pld:
    """The losses log(0.999), and `large` with probability `PROB`."""
    masses = np.zeros(int(large) + 1)
    masses[0], masses[-1] = 1.0 - PROB, PROB
    return Pld(math.log(1.0 - PROB), 1.0, masses, 0.0, ja.Bound.UPPER, ja.Direction.REMOVE)


def exact_delta(large: float, sampling_prob: float, num_steps: int, epsilon: float) -> float:
    """Of a run of such steps: the outcome of a step shows its large loss, or does not."""
    q = math.exp(-large - math.log(1.0 - PROB)) * PROB  # of the large loss under the other distribution
    p = sampling_prob * PROB + (1.0 - sampling_prob) * q
    loss = math.log(sampling_prob * math.exp(-large) + 1.0 - sampling_prob) + large if sampling_prob < 1 else large
    losses = (math.log(1.0 - p) - math.log1p(-q), loss + math.log(1.0 - PROB))
    total = 0.0
    for outcome in itertools.product((0, 1), repeat=num_steps):
        at = sum(losses[i] for i in outcome)
        mass = math.prod((1.0 - p, p)[i] for i in outcome)
        total += mass * max(0.0, -math.expm1(min(epsilon - at, 0.0)))
    return total


@pytest.mark.parametrize("sampling_prob", [1.0, 0.1])
@pytest.mark.parametrize("large", [300, 360, 590, 650, 746, 900])
def test_large_losses_are_not_lost(large: int, sampling_prob: float) -> None:
    """Above 745 nats the other distribution's mass is no double: it counted as a loss that never happens."""
    run = ja.PoissonSampled(two_losses(large), sampling_prob, num_steps=2)
    for epsilon in (0.5, 5.0, 200.0):
        exact = exact_delta(float(large), sampling_prob, 2, epsilon)
        assert exact * (1.0 - 1e-12) <= ja.delta(run, epsilon) <= exact * (1.0 + 1e-6)
    assert ja.epsilon(run, target_delta=1e-7) >= large - 3.0


def test_large_losses_in_other_schemes() -> None:
    far = two_losses(900)
    assert ja.delta(ja.RandomAllocation(far, num_steps=10), 5.0) >= PROB * (1.0 - 1e-12)
    assert ja.delta(ja.Composed([ja.Gaussian(2.0), far]), 5.0) >= PROB * (1.0 - 1e-12)


def test_steps_that_nearly_agree_are_moved_to_one_grid() -> None:
    """Of a step 1 + 9e-13 times as long, a loss a million cells away lies 9e-9 of its size further."""
    number = 10**6

    def single(step: float) -> Pld:
        masses = np.zeros(number + 1)
        masses[-1] = 1.0
        return Pld(0.0, step, masses, 0.0, ja.Bound.UPPER, ja.Direction.REMOVE)

    short, long = 1e-3, 1e-3 * (1.0 + 9e-13)
    total = number * (short + long)
    found = compose_plds([(single(short), 1), (single(long), 1)])
    for below in (1e-9, 1e-6, 1e-3):
        assert found.delta(total - below) >= -math.expm1(-below) * (1.0 - 1e-4)


def test_weights_of_a_mixture_that_lack_a_little() -> None:
    parts = [ja.pld(ja.Gaussian(1.0)), ja.pld(ja.Gaussian(2.0))]
    whole = ja.mixture(parts, [0.25, 0.75]).delta(1.0)
    assert whole * (1.0 - 1e-13) <= ja.mixture(parts, [0.25, 0.75 * (1.0 - 1e-9)]).delta(1.0) <= whole * (1.0 + 1e-8)
    lower = [ja.pld(ja.Gaussian(sigma), bound=ja.Bound.LOWER) for sigma in (1.0, 2.0)]
    least = ja.mixture(lower, [0.25, 0.75]).delta(1.0)
    assert ja.mixture(lower, [0.25, 0.75 * (1.0 + 1e-9)]).delta(1.0) <= least * (1.0 + 1e-10)


def test_nothing_left_is_no_negative_zero() -> None:
    nothing = compose_plds([(two_losses(30), 2)]).delta(1e3)
    assert math.copysign(1.0, nothing) == 1.0
