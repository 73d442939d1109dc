"""Users who are sampled first and then allocated to steps: beside the exact mixture, and beside sums over outputs."""

import functools
import itertools
import math

import numpy as np
import pytest

import jaxacct as ja

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
EPOCH = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)

epsilon = functools.partial(ja.epsilon, precision=0.03)

# Exact deltas of 1-out-of-t allocation (sigma, t, epsilon, remove, add): as in `test_intervals`
ALLOCATION = [
    (1.0, 100, 0.5, 4.40890803386304e-5, 5.92528369170911e-7),
    (1.0, 1000, 0.2, 2.03724929707738e-7, 2.01024326311673e-9),
    (2.0, 10, 0.5, 1.13084995654202e-4, 7.17262403162757e-5),
    (1.0, 2, 0.5, 0.149177523135520, 0.142686965823743),
]


def mixed(prob, direction, at, delta):
    """(epsilon, delta) of the sampled run, from those of the run itself, which are exact."""
    grown = math.exp(at)
    if direction is REMOVE:
        return math.log1p(prob * (grown - 1.0)), prob * delta
    share = prob / (prob + grown * (1.0 - prob))
    return math.log(share * grown / prob), share * delta


@pytest.mark.sample(4)
@pytest.mark.parametrize("prob", [1e-3, 0.3, 1.0])
@pytest.mark.parametrize(("sigma", "t", "own", "remove", "add"), ALLOCATION)
def test_one_sampled_epoch_is_the_exact_mixture(sigma, t, own, remove, add, prob):
    run = ja.PoissonSampled(ja.RandomAllocation(ja.Gaussian(sigma), t), prob, num_steps=1)
    for direction, exact in ((REMOVE, remove), (ADD, add)):
        at, delta = mixed(prob, direction, own, exact)
        assert ja.delta(run, at, direction=direction) == pytest.approx(delta, rel=1e-7)
        assert ja.delta(run, at, direction=direction) >= delta * (1 - 1e-9)
        assert ja.epsilon(run, delta, direction=direction) == pytest.approx(
            at, rel=1e-7 if direction is REMOVE else 1e-3
        )
        assert ja.epsilon(run, delta, direction=direction) >= at * (1 - 1e-9)
    at, delta = mixed(prob, REMOVE, own, remove)
    found = ja.delta_interval(run, at)
    assert found.lower <= delta * (1 + 1e-9)
    assert found.upper <= found.lower * (1 + 1e-6)


def losses_of_two_steps(prob, sigma):
    """Log ratios and masses under Q and P of one sampled epoch of two steps, on a fine grid of outputs."""
    x = np.linspace(-7.0 * sigma, 7.0 * sigma + 1.0, 500)
    density = np.exp(-0.5 * (x / sigma) ** 2) * (x[1] - x[0]) / (sigma * math.sqrt(2.0 * math.pi))
    ratio = np.exp((x - 0.5) / sigma**2)
    y = 1.0 - prob + prob * 0.5 * (ratio[:, None] + ratio[None, :])
    q = density[:, None] * density[None, :]
    return np.log(y).ravel(), q.ravel(), (q * y).ravel()


@pytest.mark.parametrize("prob", [0.2, 1.0])
def test_several_sampled_epochs_enclose_sums_over_outputs(prob):
    step, sigma, rounds = 1e-3, 1.5, 2
    losses, q, p = losses_of_two_steps(prob, sigma)
    for masses, signed in ((p, losses), (q, -losses)):
        place = np.floor(signed / step).astype(int)
        one = np.bincount(place - place.min(), masses)
        both = np.convolve(one, one)
        at = step * (rounds * place.min() + np.arange(both.size))
        run = ja.PoissonSampled(ja.RandomAllocation(ja.Gaussian(sigma), 2), prob, num_steps=rounds)
        direction = REMOVE if signed is losses else ADD
        for target in (0.2, 0.7):  # rounded down each time: a grid's step away at most
            low, high = (
                float((both * np.maximum(-np.expm1(target - at - shift), 0.0)).sum()) for shift in (0.0, rounds * step)
            )
            upper = ja.delta(run, target, direction=direction)
            assert low * (1 - 1e-6) <= upper <= 1.03 * high
            if direction is REMOVE:
                lower = ja.pld(run, bound="lower", resolution=40).delta(target)
                assert 0.97 * low <= lower <= high * (1 + 1e-6)


def test_certain_sampling_is_none_and_none_at_all_loses_nothing():
    certain = ja.epsilon_interval(ja.PoissonSampled(EPOCH, 1.0, num_steps=3), 1e-6, precision=0.02)
    whole = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(1.0), 100, num_epochs=3), 1e-6)
    assert certain.lower <= whole.upper
    assert whole.lower <= certain.upper <= 1.03 * whole.upper
    for rounds in (1, 3):
        never = ja.PoissonSampled(EPOCH, 0.0, num_steps=rounds)
        assert ja.epsilon_interval(never, 1e-6) == (0.0, 0.0, 0.0)


def test_epsilon_grows_with_the_probability_and_the_rounds():
    values = [epsilon(ja.PoissonSampled(EPOCH, q, rounds), 1e-5) for rounds in (1, 3) for q in (0.01, 0.1, 1.0)]
    assert sorted(values[:3]) == values[:3]
    assert sorted(values[3:]) == values[3:]
    assert all(one < three for one, three in itertools.pairwise(values[::3]))
    # a sampled epoch costs less than the epoch, and rounds less than the sum of theirs
    assert values[1] < epsilon(EPOCH, 1e-5)
    assert ja.epsilon(ja.PoissonSampled(EPOCH, 1e-9, 5), 1e-5) == 0.0


def test_several_steps_and_epochs_are_bounded_by_their_reduction_and_by_one_step():
    run = ja.RandomAllocation(ja.Gaussian(1.0), 30, num_selected=3, num_epochs=2)
    for rounds in (1, 2):
        found = ja.epsilon_interval(ja.PoissonSampled(run, 0.2, rounds), 1e-5, precision=0.03)
        assert 0.0 < found.lower < found.analysis_lower <= found.upper <= found.analysis_lower * 1.03


@pytest.mark.parametrize(
    "run",
    [
        ja.PartialAllocation(ja.Gaussian(1.0), 100, 30),
        pytest.param(ja.ScheduledAllocation((2.0, 1.0), (10, 20)), marks=pytest.mark.more),
        ja.RandomAllocation(ja.Laplace(0.8), 5),
        ja.RandomAllocation(ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), 5),
        ja.RandomAllocation(ja.PoissonSampled(ja.Gaussian(2.0), 0.5, 1), 5),
    ],
    ids=["unfinished", "schedule", "Laplace", "pair", "groups"],
)
def test_whatever_is_allocated_may_be_sampled_first(run):
    one, two = (ja.PoissonSampled(run, 0.3, rounds) for rounds in (1, 2))
    own = epsilon(run, 1e-4 / 0.3)
    found = epsilon(one, 1e-4)
    assert found <= math.log1p(0.3 * math.expm1(own)) * 1.03
    assert found < epsilon(two, 1e-4) < 2 * epsilon(one, 5e-5) * 1.05
    assert epsilon(one, 1e-4, method="one run") == pytest.approx(found, rel=0.05)


def test_other_adjacencies_and_compositions_take_sampled_epochs():
    one, run = (ja.PoissonSampled(EPOCH, 0.1, rounds) for rounds in (1, 2))
    alone = epsilon(run, 1e-5)
    assert epsilon(run, 1e-5, neighboring_relation="zero-out") == alone
    assert epsilon(one, 1e-5) <= epsilon(one, 1e-5, neighboring_relation="replace-one")
    assert alone < epsilon(ja.Composed((run, ja.Gaussian(20.0))), 1e-5) < alone + 0.3
    with pytest.raises(ValueError, match="is analysed by its loss distribution"):
        ja.rdp(run, [2.0])


def test_what_is_said_of_sampled_epochs():
    run = ja.PoissonSampled(ja.RandomAllocation(ja.Gaussian(1.0), 100, num_epochs=2), 0.1, num_steps=3)
    assert run.describe().startswith(
        "Poisson sampling, probability 0.1, 3 runs; random allocation, each record in 1 of"
    )
    uses = run.participation()
    assert (uses.steps, uses.uses) == (600, pytest.approx(0.6))
    draws = np.random.default_rng(0).binomial(3, 0.1, 200_000) * 2
    assert uses.dispersion == pytest.approx(draws.var() / draws.mean(), rel=2e-2)
    with pytest.raises(ValueError, match="samples twice"):
        run.sampling()
    with pytest.raises(ValueError, match=r"training\.Epoch"):
        run.releases(100)
    assert run.epochs(2) == ((run, 2),)
