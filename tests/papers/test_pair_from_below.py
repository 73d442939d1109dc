"""Check-ins' pair among equal reports: never above the truth, even where every function errs as far as is booked."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, arb_series, ctx

from jaxacct._precision import Kernel
from jaxacct.papers.check_ins import _from_below as lanes
from jaxacct.special import ULP, log_sum_outward
from jaxacct.special import _rounding as rounding

SETTINGS = [
    # users, probability, gap or local epsilon, largest order
    (1, 1.0, 0.4, 64),
    (3, 0.3, 4.0, 16),
    (20, 0.9, 0.3, 64),
    (500, 1.0, 0.01, 256),
    (10_000, 0.01, 1.0, 32),
    (10_000, 1.0, 0.3, 256),
    (10**9, 1.0, 10.0, 16),
    (10**9, 1e-6, 0.01, 256),
]


def _gaussian(gap, top):
    powers = [(arb(gap) ** 2 * (i * (i - 1)) / 2).exp() for i in range(top + 1)]
    found, row = [], [1]
    for j in range(top + 1):
        found.append(sum((arb(c) * (-1) ** (j - i) * powers[i] for i, c in enumerate(row)), arb(0)))
        row = [1, *map(int.__add__, row, row[1:]), 1]
    return found


def _response(local, top):
    e = arb(local).exp()
    return [(e - 1) ** j / (1 + e) * (1 + (-1) ** j * e ** (1 - j)) for j in range(top + 1)]


def _divergences(moments, users, prob, rate, top):
    """log E(1 + rate Y)^a / (a - 1) for a = 2..top, Y the mean of b_i (W_i - 1), in balls."""
    series = [arb(1), arb(0)]
    scale = arb(users)
    for j in range(2, top + 1):
        scale = scale * j * users
        series.append(arb(prob) * moments[j] / scale)
    power = (arb_series(series).log() * users).exp()
    for a in range(2, top + 1):
        total, falling = arb(0), arb(a)
        for r in range(2, a + 1):
            falling = falling * (a - r + 1) * rate
            total = total + falling * rate * power[r]
        yield (1 + total).log() / (a - 1)


def _judge(found, moments, users, prob, top, *, rate=1, loss=1e-11):
    before = ctx.cap
    ctx.cap = top + 1
    try:
        with ctx.workprec(6000 if top > 64 else 1500):
            for value, truth in zip(found, _divergences(moments(top), users, prob, rate, top), strict=True):
                assert arb(float(value)) <= truth
                assert arb(float(value)) >= truth * (1 - arb(loss))
    finally:
        ctx.cap = before


def _orders(top):
    return tuple(map(float, range(2, top + 1)))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("users", "prob", "gap", "top"), SETTINGS[::3])
@pytest.mark.parametrize("kind", ["gaussian", "response"])
def test_pair_is_rounded_down(users, prob, gap, top, kind):
    fn, moments = (
        (lanes.gaussian_pair_rdp_lanes, _gaussian) if kind == "gaussian" else (lanes.response_pair_rdp_lanes, _response)
    )
    found = Kernel(fn)(float(users), prob, gap, orders=_orders(top))
    _judge(found, lambda size: moments(gap, size), users, prob, top)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("users", "prob", "gap", "top"), SETTINGS)
@pytest.mark.parametrize("kind", ["gaussian", "response"])
def test_pair_is_below_where_every_function_errs_upward(users, prob, gap, top, kind, monkeypatch):
    log_sum_exp, logexpm1, table = rounding.log_sum_exp, lanes.logexpm1, lanes.log_binomial_table

    def sum_up(terms):
        n = jnp.sum(terms > -jnp.inf, axis=0)
        value = log_sum_exp(terms)
        return jnp.where(value > -jnp.inf, value + ULP * (n + 5.0 * jnp.log(jnp.maximum(n, 1.0)) + 4.0), value)

    def excess_up(x):
        value = logexpm1(x)
        return value + ULP * (7.0 + 4.0 * jnp.abs(value))

    functions = types.SimpleNamespace(**vars(jnp))
    functions.log = lambda x: jnp.log(x) + 3.0 * ULP * jnp.abs(jnp.log(x))
    monkeypatch.setattr(rounding, "log_sum_exp", sum_up)
    monkeypatch.setattr(lanes, "logexpm1", excess_up)
    monkeypatch.setattr(lanes, "log_binomial_table", lambda n: table(n) * (1.0 + 3.0 * ULP))
    monkeypatch.setattr(lanes, "softplus", lambda x: jnp.logaddexp(x, 0.0) * (1.0 + 6.0 * ULP))
    monkeypatch.setattr(lanes, "jnp", functions)
    fn, moments = (
        (lanes.gaussian_pair_rdp_lanes, _gaussian) if kind == "gaussian" else (lanes.response_pair_rdp_lanes, _response)
    )
    found = Kernel(lambda *args, **static: fn(*args, **static))(float(users), prob, gap, orders=_orders(top))
    _judge(found, lambda size: moments(gap, size), users, prob, top)


def test_a_subset_of_the_users_is_rounded_down():
    for users, reports, gap, top in ((1000, 300, 0.4, 64), (7, 3, 2.0, 16)):
        found = Kernel(lanes.sampled_gaussian_pair_rdp_lanes)(float(users), float(reports), gap, orders=_orders(top))
        moments = lambda size, gap=gap: _gaussian(gap, size)  # noqa: E731
        with ctx.workprec(1500):
            rate = arb(reports) / users
        _judge(found, moments, reports, 1.0, top, rate=rate)


def test_moments_are_rounded_either_way():
    for gap in (0.03, 0.7, 5.0):
        ends = [
            np.asarray(Kernel(lambda g, up=up: lanes.gaussian_log_moments(g, max_order=32, upward=up))(gap))
            for up in (False, True)
        ]
        with ctx.workprec(1500):
            for j, truth in enumerate(_gaussian(gap, 32)):
                if j > 1:
                    assert arb(float(ends[0][j])) <= truth.log() <= arb(float(ends[1][j]))
                    assert ends[1][j] - ends[0][j] <= 1e-12 * (1.0 + abs(ends[0][j]))


def test_a_sum_is_below_where_its_functions_err_upward(monkeypatch):
    log_sum_exp = rounding.log_sum_exp
    for sign in (1.0, -1.0):
        error = sign * ULP * (40 + 5.0 * np.log(40) + 4.0)
        monkeypatch.setattr(rounding, "log_sum_exp", lambda x, error=error: log_sum_exp(x) + error)
        terms = np.random.default_rng(2).normal(-3.0, 4.0, (40, 50))
        with jax.enable_x64(True), ctx.workprec(200):
            found = log_sum_outward(jnp.asarray(terms), 40.0, upward=sign < 0)
            for value, column in zip(found, terms.T, strict=True):
                truth = sum((arb(float(x)).exp() for x in column), arb(0)).log()
                assert -(2.0**-44) <= sign * (arb(float(value)) - truth) <= 0


def test_a_divergence_is_below_where_softplus_errs_upward(monkeypatch):
    monkeypatch.setattr(lanes, "softplus", lambda x: jnp.logaddexp(x, 0.0) * (1.0 + 6.0 * ULP))
    with jax.enable_x64(True), ctx.workprec(200):
        for excess in np.linspace(-30.0, 30.0, 61):
            found = lanes._rdp_from_below(jnp.full((61, 1), excess), (62.0,))
            assert arb(float(found[0, 0])) <= (1 + arb(float(excess)).exp()).log() / 61
