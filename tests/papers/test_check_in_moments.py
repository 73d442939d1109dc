"""Check-ins by their moments: never below the truth, even where every function errs as far as is booked."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, ctx, fmpz

from jaxacct._precision import HostProgram, Kernel
from jaxacct.divergence.check_in._blocks import BlockLayout, binomial_blocks
from jaxacct.papers.check_ins import _distributed as distributed
from jaxacct.papers.check_ins import _renyi as renyi
from jaxacct.papers.check_ins._distributed import TernaryMoment
from jaxacct.special import ULP
from jaxacct.special import _rounding as rounding

KNOWN = 1e-11  # of the logarithm of an excess, or relative to a probability: what is booked is less


@pytest.fixture
def erring(monkeypatch):
    """Every function errs downward, almost as far as it may."""
    log_sum_exp, logexpm1, log1mexp, softplus = rounding.log_sum_exp, renyi.logexpm1, renyi.log1mexp, renyi.softplus
    tables = renyi.log_binomial_table, renyi._log_stirling

    def sum_down(terms):
        n = jnp.sum(terms > -jnp.inf, axis=0)
        return log_sum_exp(terms) - ULP * (n + 5.0 * jnp.log(jnp.maximum(n, 1.0)) + 4.0)

    def finite(x):
        return jnp.where(jnp.isfinite(x), jnp.abs(x), 0.0)

    monkeypatch.setattr(rounding, "log_sum_exp", sum_down)
    monkeypatch.setattr(renyi, "logexpm1", lambda x: logexpm1(x) - ULP * (7.0 + 4.0 * finite(logexpm1(x))))
    monkeypatch.setattr(renyi, "log1mexp", lambda x: log1mexp(x) - ULP * (4.0 + 3.0 * finite(log1mexp(x))))
    monkeypatch.setattr(distributed, "log1mexp", lambda x: log1mexp(x) + ULP * (4.0 + 3.0 * finite(log1mexp(x))))
    monkeypatch.setattr(renyi, "softplus", lambda x: softplus(x) * (1.0 - 8.0 * ULP))
    monkeypatch.setattr(renyi, "log_binomial_table", lambda n: tables[0](n) * (1.0 - 3.0 * ULP))
    monkeypatch.setattr(renyi, "_log_stirling", lambda n: tables[1](n) * (1.0 - 3.0 * ULP))


def _least(*values):
    found = values[0]
    for value in values[1:]:
        found = found.min(value)
    return found


def _ternary(j, rho, highest):
    factors = [arb(2)]
    if highest < math.inf:
        factors += [(arb(highest).exp() - 1) ** j, 2 * (1 - (-arb(highest)).exp()) ** j]
    general = (arb(rho) * (j - 1)).exp() * _least(*factors)
    return _least(4 * (arb(rho).exp() - 1), general) if j == 2 else general


def _choose(a, j):
    return arb(fmpz(math.comb(a, j)))


def _is_rounded_up(value, excess, order):
    """Whether a divergence is that of the excess or more, by no more than is known."""
    truth = (1 + excess).log() / (order - 1)
    return truth <= arb(float(value)) <= (1 + excess * (1 + arb(KNOWN) * order)).log() / (order - 1) * (1 + arb(1e-14))


@pytest.mark.usefixtures("erring")
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_sums_of_many_are_rounded_up(size):
    terms = np.random.default_rng(size).uniform(-3.0, 3.0, (size, 1))
    with ctx.workprec(100):
        truth = sum((arb(float(x)).exp() for x in terms[:, 0]), arb(0)).log()
        assert truth <= arb(float(HostProgram(rounding.log_sum_of_many)(terms)[0])) <= truth + arb(1e-13)


@pytest.mark.usefixtures("erring")
def test_ternary_moments_are_rounded_up():
    highest, rdp = np.array([1e-6, 0.3, 0.6, 3.0, math.inf]), np.array([1e-9, 0.1, 2.0, 30.0, 1.0])
    found = Kernel(lambda rdp, h: renyi.log_ternary_moments(jnp.tile(rdp, (201, 1)), h))(rdp, highest)
    with ctx.workprec(300):
        for h, rho, row in zip(highest, rdp, found, strict=True):
            for j in (2, 3, 50, 200):
                truth = _ternary(j, float(rho), float(h)).log()
                assert truth <= arb(float(row[j])) <= truth + arb(1e-14) * (j + abs(truth))


@pytest.mark.usefixtures("erring")
@pytest.mark.sample(2)
@pytest.mark.parametrize("highest", [math.inf, 1e-6, 0.3, 3.0, 400.0])
def test_subsets_are_rounded_up(highest):
    """At orders to 40; curves from 1e-9 to 100; rates from 1e-12 to 1."""
    rng = np.random.default_rng(5)
    top = 40
    kernel = Kernel(lambda rate, h, *rdp: renyi.subset_rdp(rate, renyi.base_from_rdp(jnp.stack(rdp), h)))
    rates, scales = 10.0 ** rng.uniform(-12.0, 0.0, 8), 10.0 ** rng.uniform(-9.0, 0.5, 8)
    curves = np.outer(0.5 * np.arange(top + 1.0), scales)
    found = kernel(rates, np.full(8, highest), *curves)
    with ctx.workprec(300):
        for rate, curve, row in zip(rates, curves.T, found, strict=True):
            zeta = [arb(0), arb(0), *(_ternary(j, float(curve[j]), highest) for j in range(2, top + 1))]
            for a in (2, 3, 9, top):
                total = sum((_choose(a, j) * arb(float(rate)) ** j * zeta[j] for j in range(2, a + 1)), arb(0))
                cap = arb(float(rate)) * ((arb(float(curve[a])) * (a - 1)).exp() - 1)
                assert _is_rounded_up(row[a - 2], _least(total, cap), a)


@pytest.mark.usefixtures("erring")
def test_a_constant_base_is_rounded_up():
    """Against E K^j by the same numbers of Stirling, as balls: orders to 30, numbers of users below and above."""
    rng = np.random.default_rng(6)
    top = 30
    kernel = Kernel(lambda n, q, h, *rdp: renyi.constant_base_rdp(n, q, renyi.base_from_rdp(jnp.stack(rdp), h)))
    users = np.array([1.0, 2.0, 7.0, 29.0, 1e3, 1e6, 1e12, 1e12])
    probs = np.array([1.0, 1e-9, 0.3, 0.9999, 1e-5, 0.02, 1e-12, 1.0 - 1e-12])
    scales = 10.0 ** rng.uniform(-6.0, 0.5, 8)
    curves = np.outer(0.5 * np.arange(top + 1.0), scales)
    found = kernel(users, probs, np.full(8, 2.0), *curves)
    with ctx.workprec(300):
        for n, q, curve, row in zip(users, probs, curves.T, found, strict=True):
            moments = [_moment(int(n), arb(float(q)), j) for j in range(top + 1)]
            zeta = [arb(0), arb(0), *(_ternary(j, float(curve[j]), 2.0) for j in range(2, top + 1))]
            for a in (2, 3, 12, top):
                assert _is_rounded_up(
                    row[a - 2], sum((_choose(a, j) * moments[j] * zeta[j] for j in range(2, a + 1)), arb(0)), a
                )


_STIRLING = [[1]]
for _ in range(30):
    last = [*_STIRLING[-1], 0]
    _STIRLING.append([0, *(last[i - 1] + i * last[i] for i in range(1, len(last)))])


def _moment(n, q, j):
    """E (K/n)^j."""
    total = arb(0)
    for i in range(min(j, n) + 1):
        total += arb(fmpz(_STIRLING[j][i])) * arb(fmpz(math.perm(n, i))) * q**i
    return total / arb(n) ** j


@pytest.mark.usefixtures("erring")
@pytest.mark.parametrize("fewest", [0, 3, 45, 50])
def test_sums_of_reports_are_rounded_up(fewest):
    """Number by number: fifty users, with more and fewer of them checking in, given that `fewest` do."""
    n, top = 50, 12
    layout = BlockLayout(n, 1, 1)
    static = {"max_order": top, "layout": layout, "kind": TernaryMoment.GENERIC, "fewest": fewest}
    probs, gaps = np.array([0.03, 0.5, 0.97]), np.array([0.01, 1.0, 4.0])
    found = Kernel(lambda *args: distributed.distributed_rdp(*args, **static))(np.full(3, float(n)), probs, gaps)
    with ctx.workprec(300):
        for prob, gap, row in zip(probs, gaps, found, strict=True):
            q = arb(float(prob))
            weights = [_choose(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
            certain = sum(weights[fewest:], arb(0))
            for a in (2, 5, top):
                # the lesser of both sums: the computed one takes the lesser at each count
                total = arb(0)
                for k in range(max(fewest, 1), n + 1):
                    rho = [arb(j) * arb(float(gap)) ** 2 / k / 2 for j in range(top + 1)]
                    by_moments = sum(
                        (_choose(a, j) * (arb(k) / n) ** j * _ternary(j, rho[j], math.inf) for j in range(2, a + 1)),
                        arb(0),
                    )
                    total += weights[k] * _least(by_moments, arb(k) / n * ((rho[a] * (a - 1)).exp() - 1))
                value = arb(float(row[a - 2]))
                assert ((1 + total / certain).log() / (a - 1)) <= value
                # far in the tail the chance that as many check in is known by its complement, or by the count alone
                loose = 1 + arb(KNOWN) * a + (arb(1e-13) / certain).min(arb(0.5))
                assert value <= (1 + total / certain * loose).log() / (a - 1) * (1 + arb(1e-14))


@pytest.mark.usefixtures("erring")
def test_that_all_check_in_is_as_rare_as_booked():
    """The count alone is the whole probability there: q^n."""
    kernel = Kernel(lambda *args: distributed._log_inverse_participation(*args, fewest=50))
    probs = np.exp(np.random.default_rng(8).uniform(math.log(1e-3), 0.0, 200))
    with ctx.workprec(200):
        for prob, value in zip(probs, kernel(np.full(200, 50.0), probs), strict=True):
            truth = -50 * arb(float(prob)).log()
            assert truth <= arb(float(value)) <= truth + arb(1e-12) * (1 + truth)


def test_more_reports_than_users_claim_nothing():
    static = {"max_order": 3, "layout": BlockLayout(8, 1, 1), "kind": TernaryMoment.GENERIC, "fewest": 9}
    found = Kernel(lambda *args: distributed.distributed_rdp(*args, **static))(8.0, 0.5, 1.0)
    assert np.all(np.isinf(found))


def test_divergences_of_responses_near_order_1():
    kernel = Kernel(renyi.response_rdp)
    with ctx.workprec(300):
        for order in (1.0 + 1e-8, 1.5, 300.0, 1e6):
            for local in (1e-7, 0.5, 30.0):
                a, e = arb(order), arb(local)
                truth = (((a * e).exp() + ((1 - a) * e).exp()) / (1 + e.exp())).log() / (a - 1)
                value = arb(float(kernel(local, order)))
                assert truth <= value <= truth * (1 + arb(1e-13))


@pytest.mark.usefixtures("erring")
@pytest.mark.parametrize("fewest", [1, 20, 700])
def test_low_participation_is_rounded_up(fewest):
    kernel = Kernel(lambda *args: distributed.low_participation_log_prob(*args, fewest=fewest))
    users, probs = np.array([1e3, 1e9, 700.0, 1e4]), np.array([0.9, 1e-6, 1.0 - 1e-9, 1e-3])
    with ctx.workprec(3000):
        for n, prob, value in zip(users, probs, kernel(users, probs), strict=True):
            q, total = arb(float(prob)), arb(0)
            term = (1 - q) ** int(n)
            for k in range(min(fewest, int(n) + 1)):
                total += term
                term = term * q / (1 - q) * (int(n) - k) / (k + 1)
            truth = total.log()
            assert not arb(float(value)) < truth  # which is 0 to 900 digits where all that check in are counted
            assert arb(float(value)) <= truth + arb(1e-13) * (1 + abs(truth))


@pytest.mark.usefixtures("erring")
def test_upper_tails_are_rounded_up():
    kernel = Kernel(lambda *args: distributed.binomial_upper_tail_log(*args, num_terms=32))
    users = np.array([40.0, 1e3, 1e9, 1e9, 500.0, 60.0])
    probs = np.array([0.5, 1e-8, 1e-8, 1e-6, 0.9, 0.2])
    least = np.array([30.0, 3.0, 25.0, 1300.0, 500.0, 61.0])
    with ctx.workprec(300):
        for n, prob, first, value in zip(users, probs, least, kernel(users, probs, least), strict=True):
            q, total = arb(float(prob)), arb(0)
            term = _choose(int(n), int(first))
            term = term * q ** int(first) * (1 - q) ** int(n - first)
            for k in range(int(first), min(int(n), int(first) + 4000) + 1):
                total += term
                term = term * q / (1 - q) * (int(n) - k) / (k + 1)
            if first > n:
                assert value == -math.inf
                continue
            assert total.log() <= arb(float(value)) <= total.log() + arb(0.1)
            if n - first < 32:
                assert arb(float(value)) <= total.log() + arb(1e-13) * (1 + abs(total.log()))


def test_blocks_are_few():
    """The layout that the tests above take has every count alone."""
    blocks = Kernel(lambda n, q: tuple(binomial_blocks(n, q, BlockLayout(50, 1, 1))))(50.0, 0.5)
    assert np.all(np.isinf(blocks[3]))
