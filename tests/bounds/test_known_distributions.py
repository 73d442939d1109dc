"""Steps and compositions of privacy loss distributions that a user gives, against sums over their atoms."""

import itertools
import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct._types import TooFineError
from jaxacct.bounds.bases._known import _law
from jaxacct.curves import Pld
from jaxacct.curves._convolution import compose_plds
from jaxacct.curves._from_profile import profile_of
from jaxacct.divergence.lattice._ratio import Side

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


def sure_loss(offset: float, step: float, loss: float, bound: ja.Bound = ja.Bound.UPPER) -> Pld:
    """The loss `loss` for certain, on a grid from `offset` on."""
    masses = np.zeros(round((loss - offset) / step) + 1)
    masses[-1] = 1.0
    return Pld(offset, step, masses, 0.0, bound, ja.Direction.REMOVE)


@pytest.mark.parametrize(
    ("offset", "step"), [(-100.0, 1.0), (-700.0, 1.0), (-710.0, 1.0), (-1500.0, 1.0), (-900.0, 1e3)]
)
def test_grids_that_begin_far_below(offset: float, step: float) -> None:
    """No mass times the overflow of e^709 is no number: what the other distribution holds elsewhere was lost."""
    one = sure_loss(offset, step, 100.0)
    # joined, a step is told for certain but for e^-100; two of them are mixed with one that nobody joined
    exact = 1.0 - 0.9**2
    assert exact * (1.0 - 1e-12) <= ja.delta(ja.PoissonSampled(one, 0.1, num_steps=2), 1.0) <= exact * (1.0 + 1e-9)
    assert ja.delta(ja.RandomAllocation(one, num_steps=10), 1.0) >= 1.0 - 1e-12
    assert ja.delta(one, 1.0) >= 1.0 - 1e-12


def test_mass_far_below_is_counted_above_and_dropped_below() -> None:
    """A mass of 1e-140 at a loss of -310: the other distribution holds e^310 times as much there, or nothing known."""
    masses = np.zeros(312)
    masses[0], masses[-1] = 1e-140, 1.0 - 1e-9
    upper, lower = (
        Pld(-310.0, 1.0, masses, 1e-9, bound, ja.Direction.REMOVE)
        for bound in ja.Bound
        if bound.name in ("UPPER", "LOWER")
    )
    above, below = _law(upper, 1.0, 1.0, Side.UPPER, 0.0), _law(lower, 1.0, 1.0, Side.LOWER_REMOVE, 0.0)
    p_above, p_below = (
        float((law.masses * np.exp(law.log_values)).sum()) + law.infinite_mass for law in (above, below)
    )
    assert p_above >= 1.0
    assert above.log_values[0] >= -301.0
    assert p_below <= 1.0
    assert below.log_values[np.flatnonzero(below.masses)[0]] >= -1.0


def test_grids_too_large_to_hold_are_refused() -> None:
    """In words, not by the end of memory; where something else answers, by that."""
    wide, fine, tiny = sure_loss(0.0, 1.0, 1000.0), sure_loss(0.0, 1e-6, 1e-6), sure_loss(0.0, 1e-300, 1e-300)
    far = sure_loss(1e300, 1.0, 1e300)
    for parts in ([wide, fine], [wide, tiny], [far, far]):
        with pytest.raises(TooFineError, match="loss"):
            ja.compose(parts)
    for parts in ([wide, tiny], [wide, far]):
        with pytest.raises(TooFineError, match="steps of"):
            ja.mixture(parts, [0.5, 0.5])
    assert ja.delta(ja.PoissonSampled(tiny, 0.5, num_steps=3), 0.5) <= 1.0 - 0.5**3 + 1e-12


@pytest.mark.parametrize("step", [1.0, 300.0, 1000.0])
def test_lines_of_coarse_grids(step: float) -> None:
    """Losses of 0 and of a step, half each: Neyman and Pearson's test rejects the second, and some of the first."""
    pair = Pld(0.0, step, np.array([0.5, 0.5]), 0.0, ja.Bound.UPPER, ja.Direction.REMOVE)
    for epsilon in (0.0, 0.25 * step, 0.999 * step, step, 2.0 * step):
        exact = 0.5 * max(0.0, -math.expm1(min(epsilon - step, 0.0)))
        assert exact <= profile_of(pair)(np.array([epsilon]))[0] <= exact + 1e-11
    for rate in (0.1, 0.3):
        rejected = min(rate, 0.5 * math.exp(-step))  # where the loss is a step
        exact = 1.0 - rejected * math.e - (rate - rejected) if step == 1.0 else 0.5 - (rate - rejected)
        assert exact - 1e-3 <= ja.tradeoff(pair, rate) <= exact + 1e-12


def test_the_best_of_runs_that_are_given() -> None:
    """By their profile: they have no Renyi divergences."""
    run = two_losses(3.0)
    best = ja.PrivateSelection(run, 2.0)
    assert ja.epsilon(run, 1e-3) < ja.epsilon(best, 1e-3) < 2.0 * ja.epsilon(run, 5e-4)
    assert ja.delta(run, 0.1) < ja.delta(best, 0.1) < 4.0 * ja.delta(run, 0.1)
    assert ja.epsilon(best, 1e-3, method="rdp") == math.inf


def test_a_given_distribution_of_the_other_direction_is_refused_by_name():
    added = ja.Pld(-0.1, 0.1, np.ones(3) / 3.0, 0.0, ja.Bound.UPPER, ja.Direction.ADD)
    with pytest.raises(ValueError, match=r"mechanism=Pld\(.*must be the upper bound of the remove direction"):
        ja.epsilon(added, 1e-6, neighboring_relation="zero-out")


def test_a_direction_of_which_nothing_is_known_decides_a_comparison():
    """Its line was left out, so that the other direction's bound read as that of both."""
    loss = ja.Pld(-3.0, 0.25, np.full(8, 0.125 * (1.0 - 1e-6)), 1e-6, ja.Bound.UPPER, ja.Direction.REMOVE)
    assert ja.epsilon(loss, 1e-9) == math.inf
    found = ja.compare(loss, 1e-9)
    assert {entry.direction: entry.value for entry in found}[ja.Direction.REMOVE] == math.inf
    assert "epsilon = inf" in repr(found)
    assert math.isfinite(max(entry.value for entry in ja.compare(loss, 1e-5)))
