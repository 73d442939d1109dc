"""The blanket of noise whose log density is given: masses and ratios between certified ends, against closed forms."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.special import expit, gammaincc, ndtr
from support.mechanisms import logistic
from support.shuffled_reports import true_delta

from jaxacct.divergence.blanket import _density
from jaxacct.divergence.blanket._antipodal import gaussian_law, laplace_law
from jaxacct.divergence.blanket._density import density_law
from jaxacct.divergence.blanket._profile import Round, alone_epsilon, round_delta_alone, round_epsilon


def normal(place):
    return -0.5 * place * place


def exponential(place):
    return -np.abs(place)


def cubic(place):
    return -(np.abs(place) ** 3)


def _tail_of_powers(power):
    """P(Z > z) of noise of density e^-|z|^power."""
    return lambda z: (
        np.where(z > 0.0, 0.5, 0.0) * gammaincc(1.0 / power, np.abs(z) ** power)
        + np.where(z > 0.0, 0.0, 1.0 - 0.5 * gammaincc(1.0 / power, np.abs(z) ** power))
    )


TAILS = {
    normal: lambda z: ndtr(-z),
    exponential: _tail_of_powers(1.0),
    logistic: lambda z: expit(-z),
    cubic: _tail_of_powers(3.0),
}


def _stop_loss(law, epsilon, k):
    """E(L - k)_+ of a law, what is left at 0, with what was cut."""
    found = law.at(epsilon)
    return (
        float((found.mass * np.maximum(found.value - k, 0.0)).sum())
        + max(-k, 0.0) * (1.0 - found.mass.sum())
        + found.cut
    )


@functools.lru_cache(maxsize=4)
def _ratios(log_density, rate):
    """Places w >= 0, and R there."""
    w = np.linspace(0.0, 60.0, 400_001)
    return w, np.maximum.accumulate(np.exp(np.minimum(log_density(w - rate) - log_density(w + rate), 600.0)))


def _true_stop_loss(log_density, rate, epsilon, k):
    """E(L - k)_+ by where L crosses k on either side: R - c > k for w > 0, 1 - c R > k for w < 0."""
    tail, c = TAILS[log_density], math.exp(epsilon)
    w, ratio = _ratios(log_density, rate)

    def beyond(i):  # own and common mass from the i-th place on
        return (float(tail(w[i] - rate)), float(tail(w[i] + rate))) if i < len(w) else (0.0, 0.0)

    own, common = beyond(int(np.searchsorted(ratio, c + k)))
    total = own - (c + k) * common
    own, common = [x - y for x, y in zip(beyond(0), beyond(int(np.searchsorted(ratio, (1.0 - k) / c))), strict=True)]
    gamma = 2.0 * float(tail(rate))
    return total + (1.0 - k) * common - c * own + max(-k, 0.0) * (1.0 - gamma)


@pytest.mark.parametrize("log_density", TAILS)
@pytest.mark.parametrize("rate", [0.1, 0.5, 2.0])
def test_the_law_is_above_in_the_convex_order_and_near(log_density, rate):
    law = density_law(log_density, 1e-14, rate, 1e-12)
    for epsilon in (0.0, 0.02, 1.0):
        spread = math.sqrt(float((law.at(epsilon).mass * law.at(epsilon).value ** 2).sum()))
        for k in (-1e9, -2.0, -0.5, -0.01, 0.0, 0.01, 0.3, 2.0):
            true = _true_stop_loss(log_density, rate, epsilon, k * spread)
            found = _stop_loss(law, epsilon, k * spread)
            assert true * (1.0 - 1e-12) - 1e-13 * spread <= found <= true + 3e-4 * spread + 1e-11 * abs(k) * spread


@pytest.mark.parametrize("log_density", TAILS)
def test_masses_that_are_not_known_are_nothing_that_is_left_over(log_density):
    """At k = -1e9 E(L - k)_+ is the mean and k: it errs by the square of a fine cell, either sign, at most."""
    law = density_law(log_density, 1e-14, 0.25, 1e-12)
    for epsilon in (0.0, 0.01, 0.5):
        found = law.at(epsilon)
        mean = float((found.mass * found.value).sum())
        assert -1e-13 <= mean + math.expm1(epsilon) - _lost(law, epsilon) <= 1e-7
        assert found.mass.sum() * (1.0 - 1e-11) <= found.least_mass <= 2.0 * float(TAILS[log_density](0.25)) + 1e-7


def _sides(log_density, rate, epsilon, x):
    """E[(x + L)_+ - x_+] where w > 0 and where w < 0, for all of `x` [N]: by where R crosses."""
    tail, c = TAILS[log_density], math.exp(epsilon)
    w, ratio = _ratios(log_density, rate)
    own, common = tail(w - rate), tail(w + rate)
    at = np.minimum(np.searchsorted(ratio, c - x), len(w) - 1)
    right = own[at] - c * common[at] + np.minimum(x, 0.0) * common[at] - np.maximum(x, 0.0) * (common[0] - common[at])
    at = np.minimum(np.searchsorted(ratio, (1.0 + x) / c), len(w) - 1)
    left = (common[0] - common[at]) - c * (own[0] - own[at]) - x * common[at]
    return right, np.where(x > 0.0, left, 0.0)


PATTERNS = {  # how values are off, as badly as they may be
    "not": lambda z, rate: 0.0 * z,
    "ratio less": lambda z, rate: np.where(np.abs(z) < 2.0 * rate, -1.0, 1.0),
    "ratio more": lambda z, rate: np.where(np.abs(z) < 2.0 * rate, 1.0, -1.0),
    "random": lambda z, rate: np.sign(np.sin(1e7 * z * z)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("log_density", TAILS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_side_is_above_where_little_is_known(log_density, pattern, monkeypatch):
    """Of few cells, wrong values and a large part that is cut, so that every error counts; at all ends of cells of R.

    There the spread within cells adds nothing: what is above is what is booked for masses and ratios.
    """
    monkeypatch.setattr(_density, "_CELLS", 64)
    accuracy, rate = 0.0 if pattern == "not" else 1e-3, 0.5

    def off(z):
        return log_density(z) + accuracy * (1.0 + np.abs(log_density(z))) * 0.999 * PATTERNS[pattern](z, rate)

    law = density_law.__wrapped__(off, accuracy, rate, 1e-3)
    half, count = float(TAILS[log_density](rate)), len(law.most)
    assert law.back.sum() <= half
    assert law.least.sum() <= half
    assert law.wrong >= half
    assert law.at(200.0).mass.sum() <= 2.0 * half  # all values are negative
    assert np.all((law.ahead - law.behind)[law.behind > 0.0] >= 4.0 * accuracy)  # two values err, either way
    for epsilon in (0.0, 0.1, 0.7):
        found = law.at(epsilon)
        x = np.concatenate([np.abs(found.value), -np.abs(found.value), [1e-9, 1e6]])
        right, left = _sides(log_density, rate, epsilon, x)
        worth = np.maximum(x[:, None] + found.value, 0.0) - np.maximum(x, 0.0)[:, None]
        assert np.all(worth[:, :count] @ found.mass[:count] + found.cut >= right - 1e-9)
        assert np.all(worth[:, count:] @ found.mass[count:] >= left - 1e-9)


def _lost(law, epsilon):
    """What counts as 0 on the left, beyond the last cell, where L = 1 - c R: at most c times the cut."""
    return law.cut * math.exp(epsilon)


def test_the_probability_of_a_wrong_sign():
    for log_density, tail in TAILS.items():
        for rate in (0.01, 0.5, 1.5):
            exact = float(tail(rate))
            assert exact * (1.0 - 1e-15) <= density_law(log_density, 1e-14, rate, 1e-12).wrong <= exact * (1.0 + 1e-6)


@pytest.mark.parametrize("pattern", ["ratio", "far", "near", "random"])
def test_values_that_are_off_are_covered(pattern):
    """Of noise whose log density errs by what is stated, as badly as it may: L's mean and E(L - k)_+ are no less."""
    accuracy, rate = 1e-6, 0.5
    signs = {
        "ratio": lambda z: np.where(np.abs(z) < 2.0 * rate, -1.0, 1.0),
        "far": lambda z: np.where(np.abs(z) < 3.0 * rate, 1.0, -1.0),
        "near": lambda z: np.where(np.abs(z) < 0.2 * rate, -1.0, 1.0),
        "random": lambda z: np.sign(np.sin(1e7 * z * z)),
    }

    def off(z):
        return normal(z) + accuracy * (1.0 + np.abs(normal(z))) * 0.999 * signs[pattern](z)

    law = density_law(off, accuracy, rate, 1e-12)
    for epsilon in (0.0, 0.02, 1.0):
        for k in (-1e9, -0.3, 0.0, 0.3, 2.0):
            assert _stop_loss(law, epsilon, k) >= _true_stop_loss(normal, rate, epsilon, k) * (1.0 - 1e-12)
    assert law.wrong >= ndtr(-rate)


@pytest.mark.parametrize(
    ("log_density", "rate", "own", "users", "prob"),
    [
        (normal, 0.25, lambda cut: gaussian_law(0.25, cut), 1e6, 1.0),
        (normal, 0.25, lambda cut: gaussian_law(0.25, cut), 1e6, 0.1),
        (normal, 0.5, lambda cut: gaussian_law(0.5, cut), 1e5, 1.0),
        (normal, 1.0, lambda cut: gaussian_law(1.0, cut), 30.0, 1.0),
        (exponential, 0.5, lambda cut: laplace_law(0.5), 1e5, 1.0),
        (exponential, 2.0, lambda cut: laplace_law(2.0), 1e3, 1.0),
    ],
)
def test_what_has_a_law_of_its_own_is_met(log_density, rate, own, users, prob):
    found = round_epsilon(Round(lambda cut: density_law(log_density, 1e-13, rate, cut), users, prob), 1e-6, math.inf)
    known = round_epsilon(Round(own, users, prob), 1e-6, math.inf)
    assert known * (1.0 - 5e-4) <= found <= known * (1.0 + 5e-4)


def _binned(log_density, rate, inner):
    """Rows of the inputs -1, 0 and 1, in units of the norm, whose reports are cut to bins with these ends."""
    tail = TAILS[log_density]
    ends = np.concatenate([[-np.inf], inner, [np.inf]])
    return [-np.diff(tail(ends - x * rate)) for x in (-1.0, 0.0, 1.0)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("log_density", TAILS)
@pytest.mark.parametrize("prob", [1.0, 0.6])
def test_no_data_of_two_to_four_users_tell_more(log_density, prob):
    """By enumeration over reports that are cut to bins: all data at -1, 0 and 1, whatever the others hold."""
    for rate, epsilon in ((0.4, 0.05), (0.4, 0.3), (1.5, 0.8)):
        run = [Round(lambda cut, a=rate: density_law(log_density, 1e-13, a, cut), n, prob) for n in (2.0, 3.0, 4.0)]
        for users, cells in zip(run, (12, 7, 4), strict=True):
            rows = _binned(log_density, rate, np.linspace(-rate - 1.5, rate + 1.5, cells))
            assert round_delta_alone(users, epsilon) >= true_delta(rows, int(users.num_users), epsilon, prob)


@pytest.mark.parametrize("log_density", TAILS)
def test_one_user_is_known_exactly(log_density):
    for rate, epsilon in itertools.product((0.3, 1.5), (0.0, 0.4)):
        run = Round(lambda cut, a=rate: density_law(log_density, 1e-13, a, cut), 1.0)
        place = np.linspace(0.0, 40.0, 400_001)
        cross = place[np.searchsorted(log_density(place - rate) - log_density(place + rate), epsilon)]
        exact = max(float(TAILS[log_density](cross - rate) - math.exp(epsilon) * TAILS[log_density](cross + rate)), 0.0)
        found = round_delta_alone(run, epsilon)
        assert exact * (1.0 - 1e-9) <= found <= exact * (1.0 + 2e-3) + 1e-12
        if exact > 0.0:
            assert alone_epsilon(run.law_for, found * (1.0 + 1e-6)) <= epsilon + 1e-3


@pytest.mark.parametrize("unit", [1e-50, 1e-9, 1e12])
def test_the_unit_of_the_density_does_not_matter(unit):
    known = round_delta_alone(Round(lambda cut: density_law(logistic, 1e-13, 0.5, cut), 100.0), 0.1)
    run = Round(lambda cut: density_law(lambda z: logistic(z / unit), 1e-13, 0.5 * unit, cut), 100.0)
    assert round_delta_alone(run, 0.1) == pytest.approx(known, rel=1e-4)


def test_any_amount_of_noise_has_an_answer():
    found = [
        round_epsilon(Round(lambda cut, a=rate: density_law(normal, 1e-13, a, cut), 100.0), 1e-6, 250.0)
        for rate in (1e-300, 1e-15, 1e-6, 1e-3, 1.0, 5.0, 15.0)
    ]
    assert found[0] <= found[2] < 1e-5
    assert all(x <= y for x, y in itertools.pairwise(found))


def test_where_nothing_is_known_nothing_is_claimed():
    assert density_law(normal, 1e-13, 100.0, 1e-10) is None
    assert density_law(lambda z: np.where(np.abs(z) < 1.0, 0.0, -np.inf), 1e-13, 0.5, 1e-10) is None
    assert alone_epsilon(lambda cut: None, 1e-6) == math.inf
    assert density_law(normal, 1e-13, 0.5, 1e-160) is not None
    bent = lambda z: np.where(np.abs(z) < 9.0, -0.5 * z * z, -40.5 - (np.abs(z) - 9.0))  # noqa: E731
    with pytest.raises(ValueError, match="must be concave, to within accuracy=1e-13"):
        density_law(bent, 1e-13, 0.5, 1e-30)
