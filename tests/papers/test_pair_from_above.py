"""Girgis et al.'s special pairs: never below the truth, even where every function errs as far as is booked."""

import jax.numpy as jnp
import pytest
from flint import arb, ctx
from test_pair_from_below import _divergences, _response

from jaxacct._precision import Kernel
from jaxacct.papers.girgis import _special_pairs as above
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
