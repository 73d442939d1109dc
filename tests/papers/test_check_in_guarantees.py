"""Check-ins by closed forms and number by number: never below the truth, even where functions err as far as booked."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, ctx, fmpz

from jaxacct._precision import HostProgram, Kernel
from jaxacct.papers.check_ins import _guarantees as first_cut
from jaxacct.papers.check_ins import _profiles as coupling
from jaxacct.papers.clones import _reductions as reductions
from jaxacct.special import ULP
from jaxacct.special import _rounding as rounding


@pytest.fixture
def erring(monkeypatch):
    """Every function errs to the wrong side, almost as far as it may."""
    log_sum_exp, log1mexp, softplus = rounding.log_sum_exp, first_cut.log1mexp, first_cut.softplus
    pmf, rate, tanh = coupling.log_binomial_pmf, first_cut.binomial_rate, first_cut.tanh

    def sum_down(terms):
        n = jnp.sum(terms > -jnp.inf, axis=0)
        return log_sum_exp(terms) - ULP * (n + 5.0 * jnp.log(jnp.maximum(n, 1.0)) + 4.0)

    def pmf_down(*args):
        value = pmf(*args)
        return value - ULP * (16.0 + 80.0 * jnp.where(jnp.isfinite(value), jnp.abs(value), 0.0))

    monkeypatch.setattr(rounding, "log_sum_exp", sum_down)
    monkeypatch.setattr(first_cut, "log1mexp", lambda x: log1mexp(x) - ULP * (4.0 + 3.0 * jnp.abs(log1mexp(x))))
    monkeypatch.setattr(first_cut, "softplus", lambda x: softplus(x) * (1.0 - 8.0 * ULP))
    monkeypatch.setattr(first_cut, "binomial_rate", lambda *args: rate(*args) * (1.0 + 85.0 * ULP))
    monkeypatch.setattr(first_cut, "tanh", lambda x: tanh(x) * (1.0 + 4.0 * ULP))
    monkeypatch.setattr(coupling, "log_binomial_pmf", pmf_down)
    monkeypatch.setattr(coupling, "log1p", lambda x: rounding.xp.log1p(x) * (1.0 - 3.0 * ULP))
    monkeypatch.setattr(reductions, "log1p", lambda x: rounding.xp.log1p(x) * (1.0 - 3.0 * ULP))


def _closed(reports, local, log_delta1, local_log_delta):
    """(epsilon, delta) of Lemma 3, and whether the form holds."""
    e, clones = arb(local), arb(reports) * (-arb(local)).exp()
    spread = arb(4).log() - arb(log_delta1)
    if not clones >= 16 * spread:
        return e, arb(local_log_delta).exp(), False
    epsilon = (1 + (e / 2).tanh() * (8 * (spread / clones).sqrt() + 8 / clones)).log()
    cost = (1 + epsilon.exp()) * (1 + (-e).exp() / 2) * reports * arb(local_log_delta).exp()
    if not epsilon < e:
        return e, arb(local_log_delta).exp(), True
    return epsilon, (arb(log_delta1).exp() + cost).min(arb(1)), True


def _sampled(users, reports, *rest):
    epsilon, delta, holds = _closed(reports, *rest)
    rate = arb(reports) / users
    return (1 + rate * (epsilon.exp() - 1)).log(), rate * delta, holds


SETTINGS = (
    (10**6, 1e5, 1.0, -20.0, -60.0),
    (10**9, 1e6, 5.0, -5.0, -745.0),
    (10**4, 9_999.0, 1e-6, -1.0, -30.0),
    (10**12, 1e9, 3.0, -700.0, -800.0),
    (2 * 10**4, 500.0, 2.0, -9.0, -12.0),
)


@pytest.mark.usefixtures("erring")
def test_sampled_guarantees_are_rounded_up():
    kernel = Kernel(lambda *args: tuple(first_cut.sampled_guarantee_lanes(*args)))
    lanes = [np.array(column, np.float64) for column in zip(*SETTINGS, strict=True)]
    with ctx.workprec(200):
        for setting, epsilon, log_delta in zip(SETTINGS, *kernel(*lanes), strict=True):
            true_epsilon, true_delta, _ = _sampled(*setting)
            assert true_epsilon <= arb(float(epsilon)) <= true_epsilon * (1 + arb(1e-12))
            assert true_delta.log() <= arb(float(log_delta)) <= true_delta.log() * (1 - arb(1e-12)) + arb(1e-12)


@pytest.mark.usefixtures("erring")
def test_the_first_cut_is_rounded_up():
    kernel = Kernel(lambda *args: tuple(first_cut.first_cut(*args)))
    settings = [
        *((10**6, 0.1, 0.11 * 10**6, 1.0, -20.0, -60.0), (10**9, 1e-3, 1_010_000.0, 0.01, -30.0, -700.0)),
        (10**6, 0.1, 100_500.0, 1.0, -20.0, -60.0),
    ]
    lanes = [np.array(column, np.float64) for column in zip(*settings, strict=True)]
    with ctx.workprec(200):
        for (n, prob, cap, *rest), epsilon, log_delta in zip(settings, *kernel(*lanes), strict=True):
            true_epsilon, delta, holds = _sampled(n, cap, *rest)
            least = 16 * arb(rest[0]).exp() * (arb(4).log() - arb(rest[1]))
            few = math.ceil(float(least)) - 1
            for count in (cap, few):
                x, q = arb(count) / n, arb(prob)
                delta += (-n * (x * (x / q).log() + (1 - x) * ((1 - x) / (1 - q)).log())).exp()
            assert holds
            assert true_epsilon <= arb(float(epsilon)) <= true_epsilon * (1 + arb(1e-12))
            assert delta.log() <= arb(float(log_delta)) <= delta.log() + arb(1e-9)


@pytest.mark.usefixtures("erring")
@pytest.mark.parametrize("local_log_delta", [-math.inf, -25.0])
def test_divergences_given_that_nothing_fails_are_rounded_up(local_log_delta):
    """Against the sum over every count, of which few have no amplification."""
    n, most, orders = 600, 400, (1.0 + 1e-8, 2.0, 50.5)
    kernel = Kernel(lambda *args: tuple(first_cut.approximate_rdp_lanes(*args, orders=orders, num_counts=most)))
    with ctx.workprec(300):
        for prob, local in ((0.3, 0.05), (0.6, 3.0), (1e-6, 1.0)):
            rdp, log_failure = kernel(float(n), prob, local, -1.0, local_log_delta)
            q = arb(prob)
            weights = [arb(fmpz(math.comb(n, k))) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
            found = [_sampled(n, k, local, -1.0, local_log_delta) for k in range(1, most + 1)]
            failure = sum(weights[most + 1 :], arb(0))
            failure += sum((w * d for w, (_, d, _) in zip(weights[1:], found, strict=False)), arb(0))
            assert failure.log() <= arb(float(log_failure)) <= failure.log() + arb(1e-13) * (100 + abs(failure.log()))
            for order, value in zip(orders, rdp, strict=True):
                total, a = arb(0), arb(order)
                for w, (e, d, _) in zip(weights[1:], found, strict=False):
                    moment = ((a * e).exp() + ((1 - a) * e).exp()) / (1 + e.exp())
                    total += w * (1 - d) * (moment - 1)
                truth = (1 + total / (1 - failure)).log() / (a - 1)
                assert truth <= arb(float(value)) <= truth * (1 + arb(1e-11))


@pytest.mark.usefixtures("erring")
@pytest.mark.parametrize("num_users", [1, 2, 9, 300])
def test_sums_over_numbers_of_reports_are_rounded_up(num_users):
    """At probabilities from 1e-9 to 1 - 1e-9, profiles at random, which every k has its own value of."""
    rng = np.random.default_rng(num_users)
    first, moved = 10.0 ** rng.uniform(-9.0, 0.0, (2, num_users, 1))
    direct = HostProgram(lambda *args: coupling.direct_delta_lanes(*args[:2], lambda *_: args[2], num_users=num_users))

    def both(inner, prob, first, moved):
        values = iter((first, moved))
        return coupling.coupled_delta_lanes(inner, prob, lambda *_: next(values), num_users=num_users)

    coupled = HostProgram(both)
    with ctx.workprec(200):
        for prob, inner in ((1e-9, 1e-9), (0.3, 2.0), (1.0 - 1e-9, 0.1), (0.5, 30.0)):
            at = np.asarray([inner]), np.asarray([prob])
            q, e = arb(prob), arb(inner)
            others = [
                q**k * (1 - q) ** (num_users - 1 - k) * arb(fmpz(math.comb(num_users - 1, k))) for k in range(num_users)
            ]
            truth = q * sum((o * arb(float(v[0])) for o, v in zip(others, first, strict=True)), arb(0))
            value = arb(float(direct(*at, first)[0]))
            assert truth <= value <= truth * (1 + arb(1e-11))
            rest = (1 - q) * (1 - (-e).exp())
            last = sum((o * arb(float(v[0])) for o, v in zip(others[:-1], moved, strict=False)), others[-1])
            truth = (1 - rest) * truth + q * rest * last
            assert truth <= arb(float(coupled(*at, first, moved)[0])) <= truth * (1 + arb(1e-11))


def test_profiles_are_read_at_an_epsilon_that_is_rounded_down():
    with ctx.workprec(200):
        for n, k, prob, inner in ((10, 3, 0.3, 0.2), (10**6, 999_999, 1e-9, 1e-9), (77, 1, 1.0 - 1e-9, 5.0)):
            share, e, q = arb(n) / k, arb(inner), arb(prob)
            at = coupling.direct_inner(np.float64(inner), n, k)
            truth = (1 + share * (e.exp() - 1)).log()
            assert truth * (1 - arb(1e-14)) <= arb(float(at)) <= truth
            at = coupling.coupled_inner(np.float64(inner), np.float64(prob), n, k)
            truth = e + (q / (1 - q) * (share - 1)).log()
            assert truth - arb(1e-13) <= arb(float(at)) <= truth


@pytest.mark.usefixtures("erring")
def test_the_coupled_epsilon_is_rounded_up():
    program = HostProgram(coupling.coupled_epsilon_lanes)
    with ctx.workprec(200):
        for prob, inner in ((1e-9, 1e-9), (0.3, 2.0), (1.0 - 1e-9, 30.0)):
            truth = (1 + arb(prob) * (arb(inner).exp() - 1)).log()
            value = arb(float(program(np.asarray([inner]), np.asarray([prob]))[0]))
            assert truth <= value <= truth * (1 + arb(1e-14))
