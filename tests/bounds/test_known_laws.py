"""Inside programs, parts whose own numbers are concrete: as certified outside, and close to it, in every family."""

import dataclasses
import functools
import math

import jax
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.bounds._known_laws import given, known
from jaxacct.bounds.composed import distribution_of

DELTA = 1e-6
TOL = 1e-3  # relative, of the upper end outside at a width of TOL_OUTSIDE, where it can be had
TOL_ALONE = 4e-3  # of what its own exact profile answers outside, whose distribution is made of some of its values
TOL_OUTSIDE = 2e-5
TOL_SLOPE = 1e-2  # of differences of intervals that narrow
pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")  # outside: it is known how wide

GAUSSIAN, LOCAL = ja.Gaussian(2.0), ja.LocalRandomizer(1.0)


def logistic(place):
    return -2.0 * np.logaddexp(0.5 * place, -0.5 * place)


ONE = ja.PoissonSampled(GAUSSIAN, 0.1, 20)
FAMILIES = {
    "mixture": ja.MixtureOfGaussians(2.0, (0.0, 1.0, 2.0), (0.8, 0.15, 0.05)),
    "sampled mixture": ja.PoissonSampled(ja.MixtureOfGaussians(2.0, (0.0, 1.0), (0.5, 0.5)), 0.1, 30),
    "pair": ja.DiscretePair((0.7, 0.25, 0.05), (0.25, 0.7, 0.05)),
    "sampled pair": ja.PoissonSampled(ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), 0.05, 40),
    "given": ja.pld(ja.Gaussian(3.0)),
    "skellam": ja.Skellam(4.0, 1),
    "scheduled": ja.ScheduledAllocation((2.0, 1.0), (100, 300)),
    "part of an epoch": ja.PartialAllocation(GAUSSIAN, 100, 10),
    "allocated Laplace": ja.RandomAllocation(ja.Laplace(2.0), 100),
    "fixed batches": ja.FixedBatches(GAUSSIAN, 100, 10, 20),
    "balls in bins": ja.BallsInBins([1.0, 0.5], 4.0, 60, 3),
    "group": ja.Group(ONE, 3),
    "parallel": ja.ParallelPoisson(GAUSSIAN, 0.1, 3, 20),
    "truncated": ja.TruncatedPoisson(GAUSSIAN, 0.1, 100, 20, 20),
    "replaced": ja.ReplaceOne(ONE),
    "emptied": ja.ZeroOut(ja.FixedBatches(GAUSSIAN, 100, 10, 20)),
    "shuffled batches": ja.ShuffledBatches(ja.Gaussian(2.0), 20),
    "reports of a density": ja.Shuffled(ja.DensityReports(logistic, 2.0), 1000),
    "noisy reports": ja.Shuffled(ja.GaussianReports(4.0), 1000, 2),
    "check-ins": ja.CheckIn(ja.KaryRandomizedResponse(1.0, 3), 1000, 0.1, 2),
}
BY_PROFILE = ("shuffled batches", "reports of a density", "noisy reports", "check-ins")
MORE = pytest.mark.more
OFTEN = ("mixture", "pair", "given", "fixed batches", "replaced")
EACH = [name if name in OFTEN else pytest.param(name, marks=MORE) for name in FAMILIES]


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


def beside(part, noise, count):
    """A part of concrete numbers, run `count` times, with a traced one of its adjacency."""
    if part.relation is ja.NeighboringRelation.REPLACE_ONE:
        return ja.Composed((part, ja.Shuffled(ja.LocalRandomizer(noise), 1000)), (count, 2))
    if part.relation is ja.NeighboringRelation.REPLACE_SPECIAL:
        return ja.Composed((part, ja.ZeroOut(ja.FixedBatches(GAUSSIAN, 100, 5, 20))), (count, 2))
    return ja.Composed((part, ja.PoissonSampled(ja.Gaussian(noise), 0.1, 20)), (count, 1))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", EACH)
def test_inside_is_as_sharp_as_outside(name):
    """A traced target, a traced count, and a traced part beside."""
    part = FAMILIES[name]
    found = jax.jit(lambda noise, count, delta: ja.epsilon(beside(part, noise, count), delta, method="laws"))(
        1.5, 3, DELTA
    )
    outside = ja.epsilon_interval(beside(part, 1.5, 3), DELTA, precision=TOL_OUTSIDE)
    assert outside.lower <= found <= outside.upper * (1.0 + TOL)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", EACH)
def test_a_traced_target_of_concrete_numbers(name):
    part = FAMILIES[name]
    found = float(jax.jit(lambda delta: ja.epsilon(part, delta))(DELTA))
    outside = ja.epsilon_interval(part, DELTA, precision=TOL_OUTSIDE)
    assert outside.lower <= found <= outside.upper * (1.0 + (TOL_ALONE if name in BY_PROFILE else TOL))
    at = 0.5 * outside.upper
    found = float(jax.jit(lambda epsilon: ja.delta(part, epsilon))(at))
    outside = ja.delta_interval(part, at)
    assert outside.lower <= found <= outside.upper * (1.03 if name in BY_PROFILE else 1.002)


@pytest.mark.more
def test_slopes_by_the_target_and_beside_a_known_part():
    run = functools.partial(beside, FAMILIES["mixture"])
    found = jax.jit(jax.grad(lambda noise, count, delta: ja.epsilon(run(noise, count), delta), argnums=(0, 2)))(
        1.5, 4, DELTA
    )
    for i, h in ((0, 1e-3), (2, 2e-2 * DELTA)):
        at = [[1.5 + s * h * (i == 0), DELTA + s * h * (i == 2)] for s in (1, -1)]
        high, low = (ja.epsilon(run(noise, 4), delta, precision=1e-6) for noise, delta in at)
        np.testing.assert_allclose(found[i // 2], (high - low) / (2 * h), rtol=TOL_SLOPE)


CHEAP = ("mixture", "pair", "fixed batches", "group", "skellam", "sampled pair")


@pytest.mark.parametrize("name", CHEAP)
def test_laws_of_both_directions_dominate(name):
    """The single law of each direction against the certified lower distribution."""
    part = FAMILIES[name]
    law, times = given(known(part, distribution_of))
    for points, ends, direction in zip(law.points[:, 0], law.ends[:, 0], part.directions, strict=True):
        y, mass, _ = points
        y, mass = (-y, mass) if direction is ja.Direction.ADD else (y, mass * np.exp(y))
        run = distribution_part(part)
        below = ja.pld(run, bound=ja.Bound.LOWER, direction=direction, resolution=96)
        # where both directions have one profile, one of them is asked
        same = direction if not distribution_of(part).is_symmetric(part) else ja.Direction.REMOVE
        above = ja.pld(run, direction=same, resolution=96)
        assert times in ((1,), (part_runs(part),))
        for epsilon in np.linspace(-1.0, 0.9 * y.max(), 40):
            found = np.sum(mass * -np.expm1(np.minimum(epsilon - y, 0.0))) + ends[0]
            assert found >= below.delta(epsilon)
            assert found <= above.delta(epsilon) * 1.005 + 1e-9


def part_runs(part):
    return getattr(getattr(part, "mechanism", part), "num_steps", getattr(part, "num_steps", 1))


def distribution_part(part):
    """One run of a part of several steps, which is what its law is of."""
    if isinstance(part, ja.Group):
        return ja.Group(ja.PoissonSampled(GAUSSIAN, 0.1, 1), 3)
    return part if not hasattr(part, "num_steps") else dataclasses.replace(part, num_steps=1)


def test_what_loses_nothing_and_what_loses_too_much():
    nothing = ja.MixtureOfGaussians(1.0, (0.0,), (1.0,))
    much = ja.MixtureOfGaussians(0.01, (0.0, 1.0), (0.5, 0.5))
    assert float(jax.jit(lambda delta: ja.epsilon(nothing, delta))(DELTA)) == 0.0
    assert float(jax.jit(lambda delta: ja.epsilon(much, delta))(DELTA)) == math.inf


def test_what_is_traced_is_named():
    def ask(noise):
        part = ja.MixtureOfGaussians(noise, (0.0, 1.0), (0.5, 0.5))
        return ja.epsilon(ja.Composed((part, ja.PoissonSampled(ja.Gaussian(noise), 0.1, 3))), DELTA)

    with pytest.raises(ValueError, match=r"MixtureOfGaussians\.noise_multiplier must be closed over"):
        jax.jit(ask)(2.0)


def test_a_part_is_made_once_for_all_programs():
    part = FAMILIES["mixture"]
    assert given(known(part, distribution_of)) is given(known(part, distribution_of))
    assert known(ja.MixtureOfGaussians(np.array([1.0, 2.0]), (0.0, 1.0), (0.5, 0.5)), distribution_of) is None
    assert known(ja.ZCdp(0.1), distribution_of) is None
