"""Points of given losses: they dominate what they stand for, in the direction that they are made for."""

import numpy as np
import pytest

from jaxacct.divergence.law import Law, given_law

G = 1008
TOL_BOOKED = 1e-11  # of masses, relative: what is booked for rounding
FAR = 600.0


def normal_losses(mu, step, reach=9.0):
    """Losses of a Gaussian pair, and their masses under the first distribution."""
    losses = np.arange(0.5 * mu * mu - reach * mu, 0.5 * mu * mu + reach * mu, step)
    masses = np.exp(-0.5 * ((losses - 0.5 * mu * mu) / mu) ** 2)
    return losses, masses / masses.sum()


def rare_losses():
    """A narrow part and a rare wide one, as of sampled noise; and two losses that have mass by themselves."""
    losses = np.arange(-1.0, 12.0, 1e-3)
    masses = np.exp(-0.5 * (losses / 0.01) ** 2) + 1e-6 * np.exp(-0.5 * ((losses - 5.0) / 1.5) ** 2)
    masses[[40, 12_900]] += 0.3, 1e-5
    return losses, masses / masses.sum()


def few_losses():
    return np.array([-1.0, 0.0, 2.5]), np.array([0.1, 0.5, 0.4])


def scattered_losses():
    draws = np.random.default_rng(0)
    return np.sort(draws.normal(size=5000)) * 3.0, draws.exponential(size=5000) / 5000.0


CASES = {
    "wide": (*normal_losses(2.0, 1e-3), 0.0),
    "narrow": (*normal_losses(1e-3, 1e-6), 1e-9),
    "rare": (*rare_losses(), 1e-12),
    "few": (*few_losses(), 1e-3),
    "scattered": (*scattered_losses(), 0.0),
    "no mass": (np.zeros(1), np.zeros(1), 1.0),
}


def given_delta(losses, masses, infinite, epsilon):
    return float(np.sum(masses * -np.expm1(np.minimum(epsilon - losses, 0.0)))) + infinite


def law_delta(law, epsilon, is_add):
    """delta of a law at any real epsilon: sum of (m y - m e^eps)_+ or of (m - m y e^eps)_+, as the contour reads it."""
    y, mass = law.log_ratio, law.mass
    if is_add:
        return float(np.sum(np.where(-y > epsilon, -mass * np.expm1(np.minimum(y + epsilon, 0.0)), 0.0)) + law.at_zero)
    ratio = mass * np.exp(y)
    return float(np.sum(np.where(y > epsilon, -ratio * np.expm1(np.minimum(epsilon - y, 0.0)), 0.0)) + law.beyond)


@pytest.mark.parametrize("is_add", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_laws_are_above_what_is_given(case, is_add):
    losses, masses, infinite = CASES[case]
    law = given_law(losses, masses, infinite, G, is_add=is_add)
    assert law.points.shape == (3, G)
    assert np.all(np.isfinite(law.points))
    assert np.all(law.mass >= 0.0)
    assert np.all(law.blur >= 2.0**-50 * np.abs(losses).max())
    draws = np.random.default_rng(1)
    reach = 1.2 * max(1e-3, np.abs(losses).max())
    for epsilon in (*draws.uniform(-reach, reach, 300), *draws.choice(losses, 30), -FAR):
        truth = given_delta(losses, masses, infinite, epsilon)
        assert law_delta(law, epsilon, is_add) >= truth * (1.0 - 1e-14), epsilon


@pytest.mark.parametrize("is_add", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_masses_and_means_stay(case, is_add):
    """Under both distributions of the pair: nothing is added but what is booked."""
    losses, masses, infinite = CASES[case]
    law = given_law(losses, masses, infinite, G, is_add=is_add)
    first, second = law.mass * np.exp(law.log_ratio), law.mass
    first, second = (second, first) if is_add else (first, second)
    for found, given in ((first, masses), (second, masses * np.exp(-losses))):
        assert given.sum() <= found.sum() <= given.sum() * (1.0 + TOL_BOOKED)


@pytest.mark.parametrize("case", ["wide", "narrow", "rare"])
def test_points_are_close_where_it_counts(case):
    """delta of sums is off by what the spread adds to the variance; here of one, at the deltas that people ask for."""
    losses, masses, infinite = CASES[case]
    law = given_law(losses, masses, infinite, G, is_add=False)
    for loss in losses[:: len(losses) // 50]:
        truth = given_delta(losses, masses, infinite, loss)
        if 1e-10 < truth < 0.1:
            assert law_delta(law, loss, False) <= truth * 1.003, (loss, truth)


@pytest.mark.parametrize("is_add", [False, True])
def test_losses_out_of_reach_go_up(is_add):
    losses, masses = np.array([-900.0, -700.0, 0.0, 1.0, 650.0]), np.array([1e-3, 1e-3, 0.5, 0.4, 1e-4])
    law = given_law(losses, masses, 1e-6, G, is_add=is_add)
    assert isinstance(law, Law)
    assert np.all(np.isfinite(law.points))
    for epsilon in (-800.0, -650.0, -1.0, 0.5, 2.0, 640.0, 700.0):
        truth = given_delta(losses, masses, 1e-6, epsilon)
        assert law_delta(law, epsilon, is_add) >= truth * (1.0 - 1e-14), epsilon
    assert float(law.ends[0]) == pytest.approx(1.01e-4, rel=1e-9)
    assert np.abs(law.log_ratio).max() == FAR
