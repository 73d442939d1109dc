"""Check-ins of everybody are shuffles: the sharper bounds of these, and the truth of a few users between the ends."""

import math

import numpy as np
import pytest

import jaxacct as ja

EVERYBODY = "shuffle of everybody"
REPORTS = ja.GaussianReports(4.0)


@pytest.mark.more
@pytest.mark.parametrize(("num_users", "rounds"), [(1000, 3), (50, 2)])
def test_no_looser_than_the_shuffle(num_users, rounds) -> None:
    visits, shuffle = ja.CheckIn(REPORTS, num_users, 1.0, rounds), ja.Shuffled(REPORTS, num_users, rounds)
    for ask, at in ((ja.epsilon_interval, 1e-6), (ja.delta_interval, 0.1)):
        found, known = ask(visits, at), ask(shuffle, at)
        assert found.upper <= known.upper * (1 + 1e-12)
        assert known.lower * (1 - 1e-12) <= found.lower <= found.upper


def test_several_rounds_cost_what_is_stated() -> None:
    found = ja.epsilon_interval(ja.CheckIn(REPORTS, 100_000, 1.0, 5), 1e-6)
    assert found.upper == pytest.approx(0.01400, rel=1e-3)
    assert found.lower == pytest.approx(0.0117, rel=1e-2)  # 0.0036 by the signs of the reports


@pytest.mark.parametrize(("noise", "epsilon"), [(0.5, 0.5), (1.0, 0.3), (2.0, 0.0)])
def test_two_users_between_the_ends(noise, epsilon) -> None:
    """Two rounds of two users' reports of 0 against one of 1, by a sum over a fine grid of all outputs."""
    at = np.linspace(-7.0 * noise, 1.0 + 7.0 * noise, 121)
    one, zero = (np.exp(-0.5 * ((at - x) / noise) ** 2) for x in (1.0, 0.0))
    one, zero = one / one.sum(), zero / zero.sum()
    with_one, without = (0.5 * (np.outer(x, zero) + np.outer(zero, x)).ravel() for x in (one, zero))
    # the loss of one round, summed with that of the other
    order = np.argsort(with_one / without)
    ratio, weight = (with_one / without)[order], without[order]
    above = np.cumsum((weight * ratio)[::-1])[::-1], np.cumsum(weight[::-1])[::-1]
    cut = np.searchsorted(ratio, math.exp(epsilon) / ratio)
    p, q = (np.append(x, 0.0)[cut] for x in above)
    truth = float((weight * ratio * p - math.exp(epsilon) * weight * q).sum())
    found = ja.delta_interval(ja.CheckIn(ja.GaussianReports(noise), 2, 1.0, 2), epsilon)
    assert found.upper >= truth * (1 - 1e-3)  # of the grid
    assert found.lower <= found.upper


def _asked(mechanism: ja.CheckIn) -> set[str]:
    return {step.method.name for step in ja.accounting.plan(mechanism, 1e-6)}


def test_only_where_everybody_reports() -> None:
    for prob, lost in ((0.999, 0.0), (1.0, 0.001)):
        some = ja.CheckIn(REPORTS, 1000, prob, 3, lost)
        assert EVERYBODY not in _asked(some)
        with pytest.raises(ValueError, match="must be one of"):
            ja.epsilon(some, 1e-6, method=EVERYBODY)
    every = ja.CheckIn(REPORTS, 1000, 1.0, 3)
    assert EVERYBODY in _asked(every)
    assert ja.epsilon(every, 1e-6, precision=math.inf) <= ja.epsilon(ja.Shuffled(REPORTS, 1000, 3), 1e-6) * 1.01


@pytest.mark.more
def test_points_of_a_batch_and_calibration() -> None:
    shuffle = ja.Shuffled(REPORTS, 1000, 2)
    found = ja.epsilon(ja.CheckIn(REPORTS, 1000, np.array([0.5, 1.0]), 2), 1e-6)
    assert found[1] <= ja.epsilon(shuffle, 1e-6) * (1 + 1e-9)
    assert found[0] == ja.epsilon(ja.CheckIn(REPORTS, 1000, 0.5, 2), 1e-6)
    target = {"target_epsilon": 1.0, "target_delta": 1e-6, "tolerance": 0.01}
    noise = ja.calibrate(ja.CheckIn(ja.GaussianReports(None), 1000, 1.0, 2), "noise_multiplier", **target)
    assert noise <= 1.02 * ja.calibrate(ja.Shuffled(ja.GaussianReports(None), 1000, 2), "noise_multiplier", **target)
