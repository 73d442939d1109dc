"""Girgis et al.'s bounds and pairs: never below the truth, even where every function errs as far as is booked."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, ctx, fmpz
from test_pair_from_below import _divergences, _response

from jaxacct._precision import Kernel
from jaxacct.divergence.response import _special_pair as special
from jaxacct.papers.girgis import _from_above as upper
from jaxacct.papers.girgis import _from_below as below
from jaxacct.papers.girgis import _pairs as above
from jaxacct.special import ULP
from jaxacct.special import _rounding as rounding


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("clients", "prob", "local", "top", "bits"),
    [(300, 0.3, 2.0, 64, None), (10, 1.0, 0.5, 40, 4), (10_000, 0.01, 0.01, 64, None), (3, 1.0, 20.0, 8, 2)],
)
def test_series_is_above_where_every_function_errs_downward(clients, prob, local, top, bits, monkeypatch):
    """The series, whose pair is that of `test_pair_from_below` with responses."""
    log_sum_exp, logexpm1, table = rounding.log_sum_exp, above.logexpm1, above.log_binomial_table

    def sum_down(terms):
        n = jnp.sum(terms > -jnp.inf, axis=0)
        return log_sum_exp(terms) - ULP * (n + 5.0 * jnp.log(jnp.maximum(n, 1.0)) + 4.0)

    monkeypatch.setattr(rounding, "log_sum_exp", sum_down)
    monkeypatch.setattr(above, "logexpm1", lambda x: logexpm1(x) - ULP * (7.0 + 4.0 * jnp.abs(logexpm1(x))))
    monkeypatch.setattr(above, "log_binomial_table", lambda n: table(n) * (1.0 - 3.0 * ULP))
    orders = tuple(range(2, top + 1))
    kernel = Kernel(lambda *args: above.special_pair_log_excess(*args, orders=orders, num_bits=bits))
    found = kernel(float(clients), local, prob)
    before = ctx.cap
    ctx.cap = top + 1
    try:
        with ctx.workprec(1500):
            truth = _divergences(_response(local, top), clients, prob, 1, top)
            for order, value, divergence in zip(orders, found, truth, strict=True):
                excess = ((order - 1) * divergence).exp() - 1
                assert excess.log() <= arb(float(value)) <= excess.log() + arb(1e-11)
    finally:
        ctx.cap = before


@pytest.mark.parametrize("index", [3, 4, 7, 30, 301])
def test_a_bound_on_a_moment_is_rounded_up(index):
    kernel = Kernel(lambda m, local: above.log_moment_bound(m, local, index=index))
    with ctx.workprec(300):
        for clients, local in ((2, 0.001), (1000, 1.0), (10**9, 6.0)):
            i, size = arb(index), 2 * clients * arb(local).sinh() ** 2
            truth = i.log() + (i / 2).gamma().log() + i / 2 * size.log()
            value = arb(float(kernel(float(clients), local)))
            assert truth <= value <= truth + arb(1e-14) * (1000 + 20 * i)


@pytest.fixture
def erring(monkeypatch):
    """Every function errs downward, almost as far as it may."""
    log_sum_exp, log1mexp, gamma = rounding.log_sum_exp, special.log1mexp, special.log_scaled_gamma

    def sum_down(terms):
        n = jnp.sum(terms > -jnp.inf, axis=0)
        return log_sum_exp(terms) - ULP * (n + 5.0 * jnp.log(jnp.maximum(n, 1.0)) + 4.0)

    monkeypatch.setattr(rounding, "log_sum_exp", sum_down)
    monkeypatch.setattr(special, "log1mexp", lambda x: log1mexp(x) - ULP * (4.0 + 3.0 * jnp.abs(log1mexp(x))))
    monkeypatch.setattr(special, "log_scaled_gamma", lambda i: (gamma(i)[0] - 5.0 * ULP * gamma(i)[1], gamma(i)[1]))
    special._moment_weights.cache_clear()
    yield
    special._moment_weights.cache_clear()


def _by_moments(order, clients, local):
    """Theorem 5."""
    size = 2 * arb(local).sinh() ** 2 / clients
    terms = [4 * (arb(local) / 2).sinh() ** 2 / clients]
    terms += [i * (arb(i) / 2).gamma() * size ** (arb(i) / 2) for i in range(3, order + 1)]
    return sum((arb(fmpz(math.comb(order, i))) * term for i, term in enumerate(terms, 2)), arb(0))


@pytest.mark.usefixtures("erring")
def test_theorem_5_is_rounded_up():
    orders, clients = (2, 3, 8, 41, 200), np.array([1.0, 50.0, 1e12, 1e6, 1e15])
    local = np.array([0.3, 2.0, 1e-8, 20.0, 300.0])
    found = Kernel(lambda *args: special.moment_bound_log_excess(*args, orders=orders))(clients, local)
    with ctx.workprec(300):
        for m, e, row in zip(clients, local, found, strict=True):
            for order, value in zip(orders, row, strict=True):
                truth = _by_moments(order, arb(float(m)), float(e)).log()
                assert truth <= arb(float(value)) <= truth + arb(1e-14) * (10 + order + abs(truth))


@pytest.mark.parametrize("index", [1, 2, 3, 8, 101, 256])
def test_a_scaled_gamma_is_known_as_it_says(index):
    value, size = special.log_scaled_gamma(index)
    with ctx.workprec(200):
        truth = (index * (arb(index) / 2).gamma()).log()
        assert abs(arb(value) - truth) <= arb(ULP) * (4 + 6 * arb(size))


@pytest.mark.usefixtures("erring")
def test_the_best_split_is_that_of_a_number_of_clones():
    """Never below the best of them all, at which it is."""
    orders = (2, 5, 30)
    for reports, local in ((1000, 2.0), (60, 0.1), (10**4, 6.0)):
        found = Kernel(lambda *args: upper.best_split_rdp_lanes(*args, orders=orders))(float(reports), local)
        with ctx.workprec(150):
            mean = (reports - 1) * (-arb(local)).exp()
            for order, value in zip(orders, found, strict=True):
                best = None
                for j in range(math.ceil(float(mean))):
                    tail = (order * arb(local) - (mean - j) ** 2 / (2 * mean)).exp()
                    each = (1 + _by_moments(order, arb(j + 1), local) + tail).log() / (order - 1)
                    best = each if best is None else best.min(each)
                a, e = order, arb(local)
                cap = ((((a * e).exp() + ((1 - a) * e).exp()) / (1 + e.exp())).log() / (a - 1)).min(e)
                assert best.min(cap) <= arb(float(value)) <= best.min(cap) * (1 + arb(1e-12))


def test_corollaries_are_rounded_to_their_sides():
    orders = (2, 3, 7)
    simple = Kernel(lambda *args: upper.simple_rdp(*args, orders=orders))
    floor = Kernel(lambda *args: below.simple_lower_rdp(*args, orders=orders))
    with ctx.workprec(150):
        for reports, local in ((10**9, 1e-8), (10**15, 3.0), (10**6, 0.3)):
            a = [simple(float(reports), local), floor(float(reports), local)]
            for order, high, low in zip(orders, *a, strict=True):
                pairs = arb(order * (order - 1) // 2) / reports
                truth = (1 + pairs * 4 * (arb(local).exp() - 1) ** 2).log() / (order - 1)
                assert truth <= arb(float(high)) <= truth * (1 + arb(1e-14))
                truth = (1 + pairs * 4 * (arb(local) / 2).sinh() ** 2).log() / (order - 1)
                assert truth * (1 - arb(1e-14)) <= arb(float(low)) <= truth


@pytest.mark.parametrize("y", [1e-6, 0.4999, 0.5, 0.5001, 3.0, 600.0])
def test_sharp_exponential_moments_are_rounded_up(y):
    kernel = Kernel(lambda *args: special.exponential_log_moment(*args, sharp=True))
    with ctx.workprec(200):
        for local in (1e-3, 1.0):
            clients, order = 1e5, y * 1e5 / math.expm1(local)
            at = arb(order) * (arb(local).exp() - 1) / arb(clients)
            truth = arb(clients) * (at.exp() - at).log()
            assert truth <= arb(float(kernel(clients, local, order))) <= truth * (1 + arb(2e-14))
