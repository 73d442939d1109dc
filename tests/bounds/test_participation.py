"""Delta is never above the probability of taking part, whatever is sampled."""

import math

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja

RARE = 2.9e-12
RELEASES = [
    ja.Laplace(0.5),
    ja.Laplace(1e-3),
    ja.DiscreteLaplace(1.0),
    ja.DiscreteGaussian(2.0),
    ja.Skellam(4.0),
    ja.Exponential(1.0),
    ja.PermuteAndFlip(1.0),
    ja.EpsilonDelta(1.0, 1e-3),
    ja.DiscretePair((0.75, 0.25), (0.25, 0.75)),
]


def _joins(prob: float, steps: int) -> mp.mpf:
    with mp.workdps(40):
        return 1 - (1 - mp.mpf(prob)) ** steps


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: type(release).__name__)
def test_delta_of_rare_steps_is_at_most_the_probability_to_join(release) -> None:
    run = ja.PoissonSampled(release, RARE, 2)
    joins = float(_joins(RARE, 2))
    one = ja.delta(ja.PoissonSampled(release, RARE, num_steps=1), 0.0, direction="remove")  # two steps tell no less
    found = ja.delta(run, 0.0)
    assert found <= joins * (1 + 1e-11)
    if one < 0.9 * joins:  # where one step is itself known closely
        assert found >= one * (1 - 1e-9)
    assert ja.epsilon(run, joins * (1 + 1e-11)) == 0.0


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("prob", "steps"), [(RARE, 2), (1e-3, 7), (0.3, 1), (0.9, 3), (1.0, 2), (1e-300, 10**6)])
def test_what_every_output_gives_away_attains_it(prob, steps, direction) -> None:
    """Two outputs that tell whether the record joined: at epsilon 0 delta is the probability to have, exactly."""
    run = ja.PoissonSampled(ja.DiscretePair((1.0, 0.0), (0.0, 1.0)), prob, steps)
    truth = _joins(prob, steps) if prob > 1e-30 else mp.mpf(prob) * steps
    bound = ja.delta(run, 0.0, method="participation", direction=direction)
    assert truth <= bound <= truth * (1 + 1e-11)
    if bound < 1.0:
        assert ja.epsilon(run, float(bound), method="participation", direction=direction) == 0.0
        below = float(truth) * (1 - 1e-9)
        assert math.isinf(ja.epsilon(run, below, method="participation", direction=direction))


def test_each_point_of_a_batch() -> None:
    found = ja.delta(ja.PoissonSampled(ja.Laplace(np.array([0.5, 0.1])), RARE, 2), 0.0)
    assert found == pytest.approx([float(_joins(RARE, 2))] * 2, rel=1e-11)


@pytest.mark.parametrize("release", [ja.Gaussian(0.47), ja.Laplace(0.5)], ids=lambda release: type(release).__name__)
def test_allocated_groups_of_sampled_steps(release) -> None:
    """A record joins by a draw of its own in each step of each group that it was given to."""
    run = ja.RandomAllocation(ja.PoissonSampled(release, RARE, 2), 10, num_selected=3, num_epochs=4)
    joins = float(_joins(RARE, 2 * 3 * 4))
    assert ja.epsilon(run, joins * (1 + 1e-11)) == 0.0
    one = ja.RandomAllocation(ja.PoissonSampled(release, 3.5e-9, 2), 10)
    # by name: the least of all methods, which is far below, takes most of a minute
    assert ja.delta(one, 1.0, method="participation") <= float(_joins(3.5e-9, 2)) * (1 + 1e-11)


def test_a_group_in_which_every_output_gives_the_record_away() -> None:
    """One group: delta at epsilon 0 is the probability to join one of its steps."""
    giving_away = ja.DiscretePair((1.0, 0.0), (0.0, 1.0))
    run = ja.RandomAllocation(ja.PoissonSampled(giving_away, 0.3, 2), 1, num_epochs=2)
    truth = _joins(0.3, 4)
    assert truth <= ja.delta(run, 0.0) <= truth * (1 + 1e-9)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("noise", "prob", "steps"),
    [(12.4, 1e-12, 73782), (1.0, 1e-6, 10**4), (0.4, 1e-9, 1), (1e3, 0.5, 10), (1e-3, 1e-3, 2), (2.0, 1e-300, 10**9)],
)
def test_many_gaussian_steps_by_chi_square(noise, prob, steps, direction) -> None:
    """Half the root of chi-square, or the probability to join; one step's total variation is below."""
    run = ja.PoissonSampled(ja.Gaussian(noise), prob, steps)
    bound = ja.delta(run, 0.0, method="participation", direction=direction)
    with mp.workdps(700):
        exponent = 1 / mp.mpf(noise) ** 2
        chi = mp.expm1(steps * mp.log1p(mp.mpf(prob) ** 2 * mp.expm1(exponent)))
        truth = min(mp.sqrt(chi) / 2, 1 - (1 - mp.mpf(prob)) ** steps)
        one = mp.mpf(prob) * mp.erf(1 / (2 * mp.sqrt(2) * noise))
        assert max(one, truth * (1 - mp.mpf(10) ** -12)) <= bound <= truth * 1.01
