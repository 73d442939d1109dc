"""Several rounds of check-ins, composed from the profile of one."""

import itertools
import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct.bounds.check_in import _rounds

RENYI, ROUNDS = "check-in profile, composed", "loss distribution"
DELTA = 1e-6


def check_in(local, users, prob, rounds=1):
    return ja.CheckIn(ja.LocalRandomizer(local), users, prob, rounds)


def seen(own, others, prob, flip):
    """The law of (number of reports, ones among them) where users with these bits check in with probability `prob`."""
    law = {(0, 0): 1.0}
    for bit in (own, *others):
        one = 1.0 - flip if bit else flip
        after = {}
        for (number, ones), p in law.items():
            for place, share in (
                ((number, ones), 1.0 - prob),
                ((number + 1, ones), prob * (1.0 - one)),
                ((number + 1, ones + 1), prob * one),
            ):
                after[place] = after.get(place, 0.0) + p * share
        law = after
    return law


@pytest.mark.parametrize("prob", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("rounds", [2, 3])
def test_rounds_of_few_users_by_enumeration(prob, rounds):
    """The mechanism itself, binary randomized response, never reveals more than the bound."""
    local, users = 1.5, 4
    flip = 1.0 / (math.exp(local) + 1.0)
    run = check_in(local, users, prob, rounds)
    for others in itertools.combinations_with_replacement((0, 1), users - 1):
        p, q = (seen(own, others, prob, flip) for own in (1, 0))
        outputs = list(itertools.product(p, repeat=rounds))
        mass_p, mass_q = (np.array([math.prod(law[x] for x in out) for out in outputs]) for law in (p, q))
        for epsilon in (0.0, 0.5, 1.5, 0.6 * rounds * local, 0.95 * rounds * local):
            true = max(
                np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((mass_p, mass_q), (mass_q, mass_p))
            )
            assert true <= ja.delta(run, epsilon) * (1.0 + 1e-12)


@pytest.mark.parametrize(("local", "users", "rounds"), [(1.0, 10**4, 10), (3.0, 2000, 3), (0.3, 500, 40)])
def test_rounds_where_everybody_checks_in_are_those_of_a_shuffle(local, users, rounds):
    shuffled = ja.epsilon_interval(ja.Shuffled(ja.LocalRandomizer(local), users, rounds), DELTA)
    found = ja.epsilon(check_in(local, users, 1.0, rounds), DELTA)
    assert shuffled.analysis_lower <= found <= 1.005 * shuffled.upper


@pytest.mark.parametrize(("local", "users", "prob"), [(2.9, 96_337, 0.0024), (1.5, 439, 0.02), (4.6, 405_301, 0.14)])
def test_the_distribution_of_one_round_has_its_profile(local, users, prob):
    """Larger probabilities of a report included; nowhere below what the analysis allows."""
    run = check_in(local, users, prob)
    loss = ja.pld(run)
    for epsilon in np.linspace(0.0, 0.6 * ja.epsilon(run, 1e-9), 7):
        profile = ja.delta_interval(run, epsilon)
        assert profile.analysis_lower * (1.0 - 1e-9) <= loss.delta(epsilon) <= 1.05 * profile.upper + 1e-12


def test_several_rounds_use_the_best_probability_at_each_epsilon():
    """Renyi divergences of one probability at a time give four times as much."""
    run = check_in(4.5, 311_832, 0.00255, 44)
    found, by_renyi = ja.epsilon(run, 3.7e-7), ja.epsilon(run, 3.7e-7, method=RENYI)
    assert found == pytest.approx(0.0796, rel=5e-3)
    assert by_renyi == pytest.approx(0.296, rel=5e-3)
    assert ja.delta(run, found) == pytest.approx(3.7e-7, rel=1e-3)


def test_rounds_are_never_above_renyi_divergences():
    rng = np.random.default_rng(5)
    for _ in range(6):
        local, users, prob = rng.uniform(0.2, 5.0), int(10 ** rng.uniform(2.0, 6.0)), 10 ** rng.uniform(-3.0, 0.0)
        run = check_in(local, users, prob, int(rng.integers(2, 40)))
        assert ja.epsilon(run, DELTA) <= ja.epsilon(run, DELTA, method=RENYI) * (1.0 + 1e-3)


def test_batches_of_one_and_several_rounds_are_single_answers():
    locals_, rounds = np.array([1.0, 2.0, 1.0]), np.array([1, 3, 8])
    found = ja.epsilon(ja.CheckIn(ja.LocalRandomizer(locals_), 5000, 0.1, rounds), DELTA)
    alone = [
        ja.epsilon(check_in(float(x), 5000, 0.1, int(times)), DELTA) for x, times in zip(locals_, rounds, strict=True)
    ]
    np.testing.assert_allclose(found, alone, rtol=1e-9)


def test_nobody_or_no_pure_report():
    assert ja.epsilon(check_in(1.0, 100, 0.0, 5), DELTA) == 0.0
    approximate = ja.CheckIn(ja.LocalRandomizer(1.0, 1e-12), 5000, 0.1, 4)
    with pytest.raises(ValueError, match="loss distribution"):
        ja.epsilon(approximate, DELTA, method=ROUNDS)
    far = check_in(400.0, 5000, 0.1, 4)  # beyond what is composed: taking part is what bounds it
    assert ja.epsilon(far, DELTA) >= 400.0


def test_a_delta_that_is_no_double_is_not_none():
    """Below the local epsilon something is left, however little."""
    run = check_in(2.0, 96_337, 0.0024, 1)
    profile = _rounds._profile(run, 1e-12)
    for epsilon in (1.2, 1.8, np.nextafter(2.0, 0.0)):
        assert 0.0 < profile(float(epsilon)) <= 1e-300
    assert profile(2.1) == 0.0
    assert ja.delta(check_in(2.0, 96_337, 0.0024, 3), 5.9) > 0.0
