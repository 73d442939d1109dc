"""Moment inversion: the contour of Gaussian and Poisson-sampled rounds, and each part of its certificate."""

import math
import warnings
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from support.answers import EPSILON, refined

import jaxacct as ja
from jaxacct._types import Direction
from jaxacct.bounds._host_line import is_of_gaussians
from jaxacct.bounds._line_choice import Choice
from jaxacct.bounds._line_questions import question
from jaxacct.bounds._line_steps import Steps
from jaxacct.divergence import _inversion
from jaxacct.divergence._inversion import (
    ALIAS_FACTORS,
    Line,
    LineMoments,
    Real,
    _aliases,
    _summands,
    _trapezoid,
    delta_ends,
)

RUNS = [
    # sigma, sampling probability, steps
    (1.0, 0.01, 10_000),
    (0.7, 0.001, 100_000),
    (2.0, 0.1, 1_000),
    (5.0, 0.01, 3_000),
    (0.8, 0.02, 3_000),
    (1.0, 1e-4, 10**6),
    (3.0, 0.5, 50),
]


def _poisson(sigma: float, prob: float, steps: int) -> ja.PoissonSampled:
    return ja.PoissonSampled(ja.Gaussian(sigma), sampling_prob=prob, num_steps=steps)


@pytest.mark.parametrize("run", [r for r in RUNS if r[2] <= 10_000])
def test_ends_agree_with_the_loss_distribution(run: tuple[float, float, int]) -> None:
    mechanism = _poisson(*run)
    found = ja.epsilon_interval(mechanism, 1e-6, precision=1e-6)
    assert found.upper - found.lower <= 1e-6 * found.lower
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = refined(mechanism, EPSILON, 1e-6, 0.05)
    assert other.lower <= found.upper
    assert found.lower <= other.upper


def _line(order: Real, period: Real, num_nodes: int) -> Line:
    """Through `order` [L], with so many nodes, 2 pi / `period` [L] apart."""
    number = np.arange(float(num_nodes))[:, None]
    step = 2.0 * np.pi / period
    aliases = 1.0 + np.asarray(ALIAS_FACTORS)[:, None] * (order - 1.0)
    return Line(order, period, step * number, number < num_nodes, (step * num_nodes)[None], aliases)


def test_what_is_of_gaussians() -> None:
    assert is_of_gaussians(ja.Composed((ja.Gaussian(1.0), _poisson(1.0, 0.1, 3)), (1, 2)))
    assert not is_of_gaussians(ja.PoissonSampled(ja.Laplace(1.0), sampling_prob=0.1, num_steps=3))
    assert not is_of_gaussians(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=10))


def _gaussian_sum(period: float, num_nodes: int, epsilon: float = 2.0) -> tuple[float, ...]:
    """At noise multiplier 1 and order 4: the trapezoid sum, what is booked for errors and for aliases, and delta."""

    order, at = np.array([4.0]), np.array([epsilon])
    line = _line(order, np.array([period]), num_nodes)
    columns: Any = (order, 2.0 * np.pi / line.period, np.array([num_nodes]), line.alias_orders.T, at, at)
    moments = Steps(question([(1.0, 1.0, 1.0)], [], Direction.REMOVE, 0.5)).on(Choice(*columns), np.arange(1))
    found = _trapezoid(line, _summands(line, moments), at)
    scale = np.exp(moments.log_modulus[0] + at * (1.0 - order))
    ends, aliases = delta_ends(line, moments, at), np.exp(_aliases(line, moments, at))
    numbers = (found.value * scale, found.error * scale, aliases, np.exp(ends.lower), np.exp(ends.upper))
    with mp.workdps(40):
        half = mp.mpf(1) / 2
        truth = float(mp.ncdf(half - epsilon) - mp.exp(epsilon) * mp.ncdf(-half - epsilon))
    return (*(float(x[0]) for x in numbers), truth)


@pytest.mark.parametrize("num", [2049, 3000, 5041])
def test_long_sums_by_rows_and_columns_are_those_node_by_node(num: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(num)
    order, period, nodes = np.array([3.0]), np.array([8.0]), (0.25 * math.pi * np.arange(num))[:, None]
    zeros: Any = np.zeros((num, 1))
    modulus: Any = -0.3 * np.log1p(nodes)
    phase: Any = 0.7 * nodes + rng.normal(0.0, 1.0, (num, 1))
    columns: Any = (order, period, nodes, nodes < nodes[-7], nodes[-1:], np.array([[5.0]]))
    line, moments = Line(*columns), LineMoments(modulus, phase, zeros, np.ones((1, 1)), np.full((1, 1), -9.0))
    of = _summands(line, moments)
    monkeypatch.setattr(_inversion, "_LONG", 10**9)
    plain = _summands(line, moments)
    assert of.table is not None
    assert plain.table is None
    assert float(of.error[0]) < 1e-3 * float(np.hypot(of.real, of.imag).sum())
    rounding = of.error - np.exp(-9.0) / (math.pi * (nodes[-1] - math.pi / 8.0))
    for epsilon in (np.array([0.3]), np.array([0.0, 2.0, 700.0])):
        by_rows = _trapezoid(line, of, epsilon)
        one_by_one = [_trapezoid(line, plain, x[None]) for x in epsilon]
        value, slope = (np.concatenate([getattr(x, name) for x in one_by_one]) for name in ("value", "slope"))
        assert np.all(np.abs(by_rows.value - value) <= rounding + epsilon * of.error_rate)
        assert by_rows.slope == pytest.approx(slope, rel=1e-9, abs=1e-9)


def test_the_bound_on_aliases_is_rounded_up_and_no_more_at_any_order() -> None:
    rng = np.random.default_rng(3)
    num = 300
    order = 1.0 + 10.0 ** rng.uniform(-12.0, 3.0, num)
    falls = 10.0 ** rng.uniform(0.0, 2.3, num)
    line = Line(order, falls / (order - 1.0), *(np.zeros((1, num)),) * 3, 1.0 + 2.0 * (order - 1.0)[None])
    epsilon = 10.0 ** rng.uniform(-3.0, 2.0, num)
    log_alias = ((line.alias_orders - 1.0) * epsilon + rng.normal(0.0, 30.0, num))[0]
    moments = LineMoments(*(np.zeros((1, num)),) * 3, log_alias[None], np.zeros((1, num)))
    found = _aliases(line, moments, epsilon)
    with mp.workdps(60):

        def geometric(fall: mp.mpf) -> mp.mpf:
            return -fall - mp.log1p(-mp.exp(-fall))

        for a, period, c, e, m, value in zip(
            order, line.period, line.alias_orders[0], epsilon, log_alias, found, strict=True
        ):
            a, period, c, e, m = (mp.mpf(float(x)) for x in (a, period, c, e, m))
            right = m - (c - 1) * e + c * mp.log(1 - 1 / c) - mp.log(c - 1) + geometric((c - a) * period)
            truth = mp.log(mp.exp(geometric((a - 1) * period)) + mp.exp(right))
            size = 1 + abs(m) + (c - 1) * e + mp.log(c) + (c - a) * period
            assert truth <= float(value) <= truth + size / 2**46


def test_each_booked_error_is_needed() -> None:
    """Without its allowance for aliases, or for what lies beyond the last node, the bracket would miss delta."""
    value, above, aliases, lower, upper, truth = _gaussian_sum(period=3.0, num_nodes=64)
    assert value - above > truth * (1 + 1e-6)  # the aliases are all above: a lower end without them would be too large
    assert value - above - aliases <= truth
    assert lower <= truth <= upper
    value, above, aliases, lower, upper, truth = _gaussian_sum(period=30.0, num_nodes=9)
    assert abs(value - truth) > 1e-3 * truth  # cut off: without the tail both ends would be wrong
    assert abs(value - truth) <= above
    assert lower <= truth <= upper
    value, above, aliases, lower, upper, truth = _gaussian_sum(period=30.0, num_nodes=128)
    assert lower <= truth <= upper <= lower * (1 + 1e-10)
