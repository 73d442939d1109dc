"""Girgis et al. 2021: its bounds against brute force, the tighter ones against it, and what it got wrong."""

import itertools
import math

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy.special import gammaln
from support.girgis_answers import (
    best_split,
    cap,
    earlier,
    exact_mixture,
    exponential,
    known_moment_bound,
    log_moments,
    lower_at,
    lower_simple,
    mixture_at,
    moment_bound,
    moment_mixture,
    moment_tail,
    paper,
    published_sampled,
    response,
    response_at,
    sampled_mixture,
    simple,
    special_excess,
    special_pair,
    ternary_at,
    theorem1,
    theorem1_real,
    theorem2,
)
from support.shuffle_oracles import histogram_law, k_ary, local_epsilon, random_randomizer

from jaxacct._precision import Kernel
from jaxacct.bounds.shuffle import _special_pairs as girgis
from jaxacct.bounds.shuffle import _special_pairs_exact as mixture
from jaxacct.divergence.response import _lattice_comb as comb
from jaxacct.divergence.response._renyi import response_window
from jaxacct.papers.girgis import _from_above as mixtures

NEVER = 1.0 + 1e-12  # how far rounding may carry an oracle in double precision


# Explicit shuffles (GI-S1): the law of the histogram is a product of polynomials


def renyi(p, q, order):
    """D_order(p || q) of dictionaries, in double precision."""
    return math.log(sum(mass**order * q[outcome] ** (1 - order) for outcome, mass in p.items())) / (order - 1)


def worst_renyi(randomizer, n, order):
    """Over all data sets of n records and all ordered pairs of values of the last one."""
    inputs = range(len(randomizer))
    worst = 0.0
    for others in itertools.combinations_with_replacement(inputs, n - 1):
        laws = [histogram_law([randomizer[x] for x in (*others, y)]) for y in inputs]
        worst = max(worst, *(renyi(p, q, order) for p, q in itertools.permutations(laws, 2)))
    return worst


@pytest.mark.parametrize(("n", "outputs"), [(1, 3), (2, 4), (3, 3), (4, 2), (4, 3)])
def test_no_explicit_shuffle_exceeds_the_bounds(n, outputs):
    rng = np.random.default_rng(n + 10 * outputs)
    orders = (1.5, 2.0, 3.0, 8.0)
    for spread in (0.3, 2.0, 5.0):
        randomizer = random_randomizer(rng, 3, outputs, spread)
        local = local_epsilon(randomizer) * NEVER
        bound = exact_mixture(n, local, orders=orders, nodes=16, window=16)
        whole = np.stack([theorem1(n, local, orders=(2, 3, 8)), theorem2(n, local, orders=(2, 3, 8))])
        assert (bound[1:] <= whole).all()
        for order, value in zip(orders, bound, strict=True):
            assert worst_renyi(randomizer, n, order) <= value * NEVER + 1e-14


def test_lower_bounds_are_attained():
    n, local, orders = 4, 1.7, (1.5, 2.0, 8.0)
    for k, base in ((2, 0), (3, 2)):
        randomizer = np.asarray(k_ary(k, math.expm1(local)))
        laws = [histogram_law([randomizer[base]] * (n - 1) + [randomizer[x]]) for x in (0, 1)]
        for i, order in enumerate(orders):
            if k == 2:
                assert response_at(n, local, orders, reverse=True)[0][i] == pytest.approx(
                    renyi(*laws, order), rel=1e-12
                )
                assert response_at(n, local, orders)[0][i] == pytest.approx(renyi(*laws[::-1], order), rel=1e-12)
            else:
                assert ternary_at(n, local, orders)[i] == pytest.approx(renyi(*laws, order), rel=1e-12)


@pytest.mark.parametrize(("n", "local"), [(1, 1.0), (3, 2.0), (12, 0.5), (20, 3.0), (5, 14.0), (9, 1e-4)])
def test_ternary_response_is_never_rounded_up(n, local):
    """Against all counts of the first two values."""
    orders = (1.0 + 1e-6, 1.5, 2.0, 8.0, 90.0)
    with mp.workdps(40):
        e = mp.exp(mp.mpf(local))
        outcomes = []
        for h1, h2 in itertools.product(range(n + 1), repeat=2):
            if (rest := n - h1 - h2) >= 0:
                mass = mp.binomial(n, h1) * mp.binomial(n - h1, h2) * e**rest / (e + 2) ** n
                outcomes.append((mass, (e * h1 + h2 + rest / e) / n, (h1 + e * h2 + rest / e) / n))
        for order, value in zip(orders, ternary_at(n, local, orders), strict=True):
            a = mp.mpf(order)
            truth = mp.log(mp.fsum(w * x**a * y ** (1 - a) for w, x, y in outcomes)) / (a - 1)
            assert truth * (1 - 1e-12) <= value <= truth


# Binary response between its ends


def response_truth(n, local, order, reverse):
    local, order = mp.mpf(local), mp.mpf(order)
    e = mp.exp(local)
    p, power = 1 / (e + 1), 1 - order if reverse else order
    total, mass = mp.mpf(0), (1 - p) ** n
    for k in range(n + 1):
        total += mass * ((k * e + (n - k) / e) / n) ** power
        mass = mass * (n - k) / (k + 1) * p / (1 - p)
    return mp.log(total) / (order - 1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("n", "local"), [(1, 1.0), (2, 0.1), (50, 8.0), (400, 3.0), (3000, 0.2), (4000, 1.0)])
def test_response_is_enclosed(n, local, reverse):
    orders = (1.01, 2.5, 32.0, 256.0)
    with mp.workdps(40):
        for order, low, high in zip(orders, *response_at(n, local, orders, reverse=reverse), strict=True):
            truth = response_truth(n, local, order, reverse)
            assert low <= truth <= high
            assert high - low <= 1e-12 * truth


def test_wide_strides_are_taken_and_their_aliases_are_bounded():
    """A comb at every phase differs from the whole sum by at most the bound; at a stride twice as wide it is off."""
    n, p, order = 2000, 0.3, 5.0
    k = np.arange(n + 1.0)
    pmf = np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p))
    values = pmf * (0.4 + k / n) ** order
    variance = (n - order) * p * (1 - p)
    for step in (40, 60, 80):
        off = max(abs(step * values[phase::step].sum() / values.sum() - 1.0) for phase in range(step))
        bound = math.exp(Kernel(comb.log_aliases)(variance, step))
        assert 0.01 * bound <= off <= bound + 1e-10
    assert comb.stride(variance) == 8


def test_a_short_window_only_widens():
    orders, (low, high) = (2.0, 16.0), response_at(10**6, 1.0, (2.0, 16.0))
    short_low, short_high = response(10**6, 1.0, orders=orders, window=16, reverse=False)
    assert (short_low <= high).all()
    assert (short_high >= low).all()


# The mixture over special pairs


def closed_form_order_2(n, local):
    """GI-X2: log(1 + (E - 1)^2 (1 - (1 - 1/E)^n)/n)."""
    e = mp.exp(mp.mpf(local))
    return mp.log1p((e - 1) ** 2 * (1 - (1 - 1 / e) ** n) / n)


def test_mixture_at_order_2_is_its_closed_form():
    n, local = (x.reshape(-1) for x in np.meshgrid([1, 2, 30, 200, 10**5, 10**7, 10**9], [1e-6, 0.01, 0.5, 2.0]))
    for orders in ((2.0,), (1.5, 2.0)):  # integer orders have wider strides
        values = mixture_at_all(n, local, orders)[:, -1]
        with mp.workdps(40):
            for a, b, value in zip(n.tolist(), local.tolist(), values, strict=True):
                assert 0 <= value / closed_form_order_2(a, b) - 1 <= 1e-12


def test_mixture_is_the_double_sum():
    n, local, orders = 60, 1.2, (1.5, 3.0, 7.5)
    values = mixture_at_all(n, local, orders)
    with mp.workdps(30):
        q = mp.exp(-mp.mpf(local))
        for order, value in zip(orders, values, strict=True):
            total = sum(
                mp.binomial(n - 1, m)
                * q**m
                * (1 - q) ** (n - 1 - m)
                * mp.exp((mp.mpf(order) - 1) * response_truth(m + 1, local, order, False))
                for m in range(n)
            )
            assert 0 <= value / (mp.log(total) / (mp.mpf(order) - 1)) - 1 <= 1e-12


def mixture_at_all(n, local, orders):
    """The certified tight bound in one program for all."""
    return exact_mixture(n, local, orders=orders, **mixture.mixture_statics(n, local, orders))


GRID = [(5, 0.5), (60, 3.0), (1000, 0.1), (10**4, 1.0), (10**5, 2.0), (10**6, 0.5)]


@pytest.mark.slow
def test_order_of_the_bounds():
    n, local = np.array(GRID).T
    orders = (2, 3, 8, 32)
    below = lower_simple(n, local, orders=orders)
    low, high = response_at(n, local, orders)
    reverse = response_at(n, local, orders, reverse=True)[0]
    best, floor = mixture_at_all(n, local, orders), lower_at(n, local, orders)
    ceiling = cap(local, orders=orders)
    assert (below <= high).all()
    assert (low <= reverse * NEVER).all()
    assert (np.maximum(reverse, low) <= floor).all()
    assert (floor <= best).all()
    split = best_split(n, local, orders=orders)
    for other in (
        theorem1(n, local, orders=orders),
        theorem2(n, local, orders=orders),
        theorem2(n, local, orders=orders, sharp=True),
        split,
        moment_mixture(n, local, orders=orders, nodes=mixture.mixture_statics(n, local, orders)["nodes"]),
        paper(n, local, orders=orders),
        simple(n, local, orders=orders),
        ceiling,
    ):
        assert (best <= other * NEVER).all()
    assert (ceiling <= np.minimum(local[:, None], 0.5 * np.asarray(orders) * local[:, None] ** 2) * NEVER).all()
    assert (split <= theorem1(n, local, orders=orders) * NEVER).all()


@pytest.mark.more
def test_limits():
    orders, a, growth = (2, 3, 4), np.array([2, 3, 4]), math.e - 1
    n, local = np.array([1, 10**6, 1, 1, 10**9]), np.array([0.0, 0.0, 0.3, 4.0, 1.0])
    best = mixture_at_all(n, local, orders)
    assert (best[:2] == 0).all()
    assert (paper(n[:2], local[:2], orders=orders) == 0).all()
    assert (response_at(1, 0.0, orders) == np.zeros((2, 3))).all()
    for i in (2, 3):
        single = cap(local[i], orders=orders)
        for value in (best[i], *response_at(1, local[i], orders), *response_at(1, local[i], orders, reverse=True)):
            np.testing.assert_allclose(value, single, rtol=1e-12)
    np.testing.assert_allclose(best[4], 0.5 * a * growth**2 / n[4], rtol=1e-6)
    np.testing.assert_allclose(theorem1(n[4], 1.0, orders=orders), a * growth**2 / n[4], rtol=1e-3)
    np.testing.assert_allclose(ternary_at(n[4], 1.0, orders), a * growth**2 / ((math.e + 2) * n[4]), rtol=1e-6)
    # the pure guarantee, at which no curve stops short
    assert response_at(50, 3.0, (1e5,))[0][0] == pytest.approx(3.0, rel=3e-3)


def test_monotone():
    n, local = np.array([3, 30, 300, 3000, 300, 300, 300]), np.array([1.3, 1.3, 1.3, 1.3, 0.1, 0.5, 3.0])
    orders = (1.5, 2.0, 4.0, 16.0)
    values = mixture_at_all(n, local, orders)
    assert (np.diff(values[:4], axis=0) <= 0).all()
    assert (np.diff(values[[4, 5, 2, 6]], axis=0) >= 0).all()
    assert (np.diff(values, axis=1) >= 0).all()
    slopes = np.diff(values * (np.asarray(orders) - 1.0), axis=1) / np.diff(orders)
    assert (np.diff(slopes, axis=1) >= 0).all()


@pytest.mark.more
def test_outside_the_regimes():
    n = np.array([0.0, -3.0, np.nan, np.inf, 10.0, 10.0, 10.0, 10.0])
    local = np.array([1.0, 1.0, 1.0, 1.0, -1.0, np.nan, np.inf, 1e4])
    orders = (2, 3)
    for value in (
        theorem1(n, local, orders=orders),
        theorem2(n, local, orders=orders),
        simple(n, local, orders=orders),
        earlier(n, local, orders=orders),
        best_split(n, local, orders=orders),
        exact_mixture(n, local, orders=orders, nodes=16, window=16),
        sampled_mixture(n, local, 0.5, orders=orders, nodes=16, num_bits=4),
    ):
        assert not np.isnan(value).any()
        assert (value[[0, 1, 2, 4, 5]] == np.inf).all()
        assert (value[6:] >= 10.0).all()
    for value in (lower_simple(n, local, orders=orders), lower_at(10, 1e4, orders), ternary_at(0.5, 1.0, orders)):
        assert not np.isnan(value).any()
        assert (value[np.r_[0, -1]] == 0).all()
    assert simple(1458, math.log(2) * 0.2, orders=(3,))[0] == np.inf  # 9 a^4 E^5 = 1458 is not below n


# Series of the special pair


def test_moments():
    for m, local in ((10, 0.5), (300, 2.0)):
        top, bits = 12, m.bit_length()
        moments = np.exp(log_moments(m, local, 1.0, top=top, num_bits=bits))
        p = 1 / (math.exp(local) + 1)
        assert moments[2] == pytest.approx(4 * m * math.sinh(local / 2) ** 2, rel=1e-13)
        assert moments[3] == pytest.approx(m * p * (1 - p) * (1 - 2 * p) * (2 * math.sinh(local)) ** 3, rel=1e-12)
        assert (np.log(moments[3:]) <= [moment_tail(m, local, index=i) for i in range(3, top + 1)]).all()
    np.testing.assert_allclose(
        log_moments(300, 2.0, 0.3, top=64)[2:], log_moments(300, 2.0, 0.3, top=64, num_bits=9)[2:], rtol=1e-12
    )


@pytest.mark.parametrize(("m", "local"), [(1, 0.3), (50, 2.0), (10**6, 0.01)])
def test_moment_bound_is_never_rounded_down(m, local):
    """Theorem 5, term by term."""
    orders = (2, 3, 8, 40)
    with mp.workdps(40):
        e, size = mp.mpf(local), 2 * mp.sinh(local) ** 2 / m
        terms = [
            4 * mp.sinh(e / 2) ** 2 / m,
            *(i * mp.gamma(mp.mpf(i) / 2) * size ** (mp.mpf(i) / 2) for i in range(3, 41)),
        ]
        for order, value in zip(orders, moment_bound(m, local, orders=orders), strict=True):
            truth = mp.log(mp.fsum(mp.binomial(order, i) * term for i, term in enumerate(terms, 2)))
            assert truth <= value <= truth + 1e-12


@pytest.mark.parametrize(
    ("m", "local", "order"), [(50, 0.5, 1.0), (100, 1.0, 2.0), (100, 1.0, 10.5), (10, 2.0, 3.0), (10**4, 0.1, 700.0)]
)
def test_exponential_moment_is_never_rounded_down(m, local, order):
    """Theorem 6 and the line of its proof before."""
    with mp.workdps(40):
        y = order * mp.expm1(mp.mpf(local)) / m
        for sharp, truth in ((False, m * y * y), (True, m * mp.log(mp.exp(y) - y))):
            assert truth <= exponential(m, local, order, sharp=sharp) <= truth * (1 + 1e-14)


def test_the_recurrence_below_its_order_is_refused():
    """k b_k = sum (i (m + 1) - k) a_i b_{k-i} cancels for k > m: the trap of GI-S8."""
    m, local, order = 10, 1.0, 256
    p, e = 1 / (math.exp(local) + 1), math.exp(local)
    a = [0.0, 0.0]
    for j in range(2, order + 1):
        a.append(p * math.exp(j * math.log(e - 1) - math.lgamma(j + 1)) * (1 + (-1) ** j * e ** (1 - j)))
    b = [1.0, 0.0]
    for k in range(2, order + 1):
        b.append(sum((i * (m + 1) - k) * a[i] * b[k - i] for i in range(2, k + 1)) / k)
    naive = 0.0
    for i in filter(b.__getitem__, range(2, order + 1)):
        size = math.lgamma(order + 1) - math.lgamma(order - i + 1) + math.log(abs(b[i])) - i * math.log(m)
        naive += math.copysign(math.exp(min(size, 700.0)), b[i])
    with mp.workdps(40):
        truth = float(mp.expm1((order - 1) * response_truth(m, local, order, False)))
    assert abs(naive / truth - 1) > 1e-3
    assert special_excess(m, local, 1.0, orders=(order,))[0] == np.inf
    assert special_pair(m, local, (order,))[0] == pytest.approx(math.log1p(truth) / (order - 1), rel=1e-12)


def test_series_and_sum_agree():
    for m, local in ((300, 0.5), (10**6, 3.0)):
        orders = (2, 3, 8, 256)
        series = np.log1p(np.exp(special_excess(m, local, 1.0, orders=orders))) / (np.asarray(orders) - 1.0)
        low, high = response_at(m, local, orders)
        assert (series >= low).all()
        np.testing.assert_allclose(series, high, rtol=1e-11)


def test_log_gammas_are_no_way_at_a_billion():
    """A trap: a pmf of gammaln differences is 8e-7 off there."""
    n, local, order = 10**9, 0.1, 256
    p = 1 / (math.exp(local) + 1)
    mean, deviation = n * p, math.sqrt(n * p * (1 - p))
    k = np.floor(mean + deviation * np.linspace(-9, 9, 4001))
    pmf = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
    x = 2 * math.sinh(local) * (k - mean) / n
    naive = np.sum(np.exp(pmf) * (np.expm1(order * np.log1p(x)) - order * x)) * deviation * 18 / 4000 / (order - 1)
    truth = 1.28106702010822871350695148664e-9  # 50 digits, by the recurrence
    low, high = response_at(n, local, (order,))
    assert abs(naive / truth - 1) > 1e-8
    assert low[0] <= truth <= high[0]
    assert high[0] - low[0] <= 1e-12 * truth


def test_the_floor_is_never_rounded_up():
    """(n - 1)/(2E) = 1 at E = 2, n = 5: one ulp up, and m = 2 would be claimed where only 1 is known."""
    for local in (math.log(2), math.nextafter(math.log(2), 1), 2 * math.log(2), math.log(3)):
        for n in (5, 9, 13, 17, 25):
            with mp.workdps(40):
                clients = int(mp.floor((n - 1) / (2 * mp.exp(mp.mpf(local))))) + 1
            chi2 = math.log(4 * math.sinh(local / 2) ** 2)
            least = math.exp(known_moment_bound(clients, local, chi2, orders=(2,))[0])
            tail = math.exp(2 * local - (n - 1) / (8 * math.exp(local)))
            assert theorem1(n, local, orders=(2,))[0] >= math.log1p(least + tail) * (1 - 1e-12)


# Where the paper's statements are wrong or unproved (docs/papers/girgis.md); none of them is offered as a bound


def test_the_lower_bound_is_not_tight():
    """Remark 7 and the conclusion: refuted by the other direction, and by three values at first order for E > 2."""
    assert response_at(20000, 6.0, (32.0,), reverse=True)[0][0] > 15 * response_at(20000, 6.0, (32.0,))[1][0]
    assert ternary_at(10**6, 2.0, (8.0,))[0] > 1.5 * response_at(10**6, 2.0, (8.0,))[1][0]
    assert ternary_at(10**6, 0.5, (8.0,))[0] < response_at(10**6, 0.5, (8.0,))[0][0]
    # the claimed direction, before (49), is the other one
    laws = [histogram_law([law] + [k_ary(2, 1.0)[0]] * 3) for law in k_ary(2, 1.0)]
    forward = response_at(4, math.log(2), (3.0,))
    assert forward[0][0] <= renyi(laws[1], laws[0], 3) * NEVER
    assert forward[1][0] < renyi(laws[0], laws[1], 3)


def test_corollary_1_does_not_follow_from_theorem_1():
    """Its proof needs (54), false for small eps: there Theorem 1 is above it, as far as 5e5 times."""
    statement = simple(145, 0.001, orders=(2,))[0]
    assert theorem1(145, 0.001, orders=(2,))[0] == pytest.approx(2.943e-8, rel=1e-3)
    assert statement == pytest.approx(2.761e-8, rel=1e-3)
    assert theorem1(145, 1e-6, orders=(2,))[0] > 5e5 * simple(145, 1e-6, orders=(2,))[0]
    assert mixture_at(145, 0.001, 2) == pytest.approx(statement / 4, rel=1e-3)  # the statement survives


def test_half_is_not_the_best_split():
    """Against Remark 3: the best split is about half as large."""
    for local, n, order, half, best in (
        (0.5, 10**6, 17, 7.43e-6, 3.71e-6),
        (2.0, 10**6, 5, 2.56e-4, 1.23e-4),
        (3.0, 10**4, 10, 0.9625, 0.861),
    ):
        assert theorem1(n, local, orders=(order,))[0] == pytest.approx(half, rel=2e-3)
        assert best_split(n, local, orders=(order,))[0] == pytest.approx(best, rel=2e-3)


def test_theorem_1_is_not_always_the_better():
    """Against Remark 4, and against "outperforms (10) in all cases"."""
    assert theorem2(10**4, 0.1, orders=(1000,))[0] < theorem1(10**4, 0.1, orders=(1000,))[0]
    assert theorem2(1000, 0.1, orders=(256,))[0] < theorem1(1000, 0.1, orders=(256,))[0]
    assert earlier(10**4, 0.1, orders=(2,))[0] < theorem2(10**4, 0.1, orders=(2,))[0]
    assert earlier(1000, 0.03, orders=(512,))[0] < theorem1(1000, 0.03, orders=(512,))[0]


def test_the_uncapped_curve_does_not_level_off():
    """Against Figure 2's text: (6) grows like log(order)/2 past the local epsilon."""
    assert theorem1(1000, 3.0, orders=(1000,))[0] > 3.6
    orders = tuple(range(2, 200))
    fixed = paper(10**4, 3.0, orders=orders)
    assert (np.diff(fixed) >= 0).all()
    assert fixed[-1] < 3.0
    raw = theorem1(5, 2.0, orders=orders)
    assert (np.diff(raw) < 0).any()


# Real orders, repairs, sampling


def test_real_orders():
    n, local = 10**4, 1.0
    whole = theorem1(n, local, orders=(2, 3, 4))
    np.testing.assert_allclose(theorem1_real(n, local, orders=(2.0, 3.0, 4.0)), whole, rtol=1e-14)
    assert theorem1_real(n, local, orders=(1.25,))[0] == pytest.approx(whole[0], rel=1e-14)
    middle = theorem1_real(n, local, orders=(2.5,))[0]
    assert middle == pytest.approx((0.5 * whole[0] + 0.5 * 2 * whole[1]) / 1.5, rel=1e-14)


def test_repair_keeps_a_valid_curve():
    orders = (2, 3, 5, 9)
    repair = Kernel(lambda a, b, c, d, e: girgis.repaired(jnp.stack([a, b, c, d]), e, orders=orders))
    np.testing.assert_array_equal(repair(0.5, 0.2, np.inf, 0.3, 2.0), [0.2, 0.2, 0.3, 0.3])
    np.testing.assert_allclose(repair(9.0, 9.0, 9.0, 9.0, 2.0), cap(2.0, orders=orders))


@pytest.mark.parametrize("share", [0.05, 0.4, 1.0])
def test_sampled_reports(share):
    """Silence is one more message: the explicit shuffle of such randomizers is within the certified bound."""
    rng, n, orders = np.random.default_rng(7), 4, (2, 3, 6)
    sizes = {"nodes": 16, "num_bits": 3}
    for spread in (0.5, 3.0):
        spoken = random_randomizer(rng, 3, 3, spread)
        local = local_epsilon(spoken) * NEVER
        silent = np.concatenate([share * spoken, np.full((3, 1), 1 - share)], axis=1)[:, : 4 if share < 1 else 3]
        bound = sampled_mixture(n, local, share, orders=orders, **sizes)
        for order, value in zip(orders, bound, strict=True):
            assert worst_renyi(silent, n, order) <= value * NEVER
        assert (bound <= sampled_mixture(n, local, 1.0, orders=orders, **sizes) * NEVER).all()


@pytest.mark.more
def test_sampled_mixture_at_its_ends():
    orders = (2, 4, 8)
    for n, local in ((50, 1.0), (10**5, 1.0)):
        sizes = mixtures.sampled_mixture_statics(n, local, orders)
        everyone = sampled_mixture(n, local, 1.0, orders=orders, **sizes)
        np.testing.assert_allclose(everyone, mixture_at_all(n, local, orders), rtol=1e-11)
        assert (sampled_mixture(n, local, 0.0, orders=orders, **sizes) == 0).all()
        assert (sampled_mixture(n, local, 1.5, orders=orders, **sizes) == np.inf).all()
    tenth = sampled_mixture(10**5, 1.0, 0.1, orders=orders, **sizes)
    np.testing.assert_allclose(tenth, 0.1 * everyone, rtol=1e-2)


def test_sampled_mixture_holds_for_k_ary_response():
    n, k, growth = 4, 4, 2.0
    local, share = math.log1p(growth), (growth + 2) / (growth + k)
    bound = sampled_mixture(n, local * NEVER, share * NEVER, orders=(2, 5), nodes=16, num_bits=3)
    for order, value in zip((2, 5), bound, strict=True):
        assert worst_renyi(np.asarray(k_ary(k, growth)), n, order) <= value
        assert value < mixture_at(n, local, order)


def test_published_sampling():
    n, local, orders = 10**4, 2.0, (2, 3, 8)
    base = theorem1(n, local, orders=orders)
    tight = [published_sampled(s, n, local, orders=orders, general=False) for s in (0.0, 1e-3, 0.1, 0.9, 1.0)]
    general = [published_sampled(s, n, local, orders=orders, general=True) for s in (0.0, 1e-3, 0.1, 0.9, 1.0)]
    assert (tight[0] == 0).all()
    np.testing.assert_allclose(tight[-1], base, rtol=1e-12)
    assert (np.diff(tight, axis=0) > 0).all()
    assert (np.asarray(tight) <= general).all()
    assert tight[2][0] == pytest.approx(math.log1p(0.01 * math.expm1(base[0])), rel=1e-13)
    # at the expected number of clients it is an estimate; the certified bound, for all of them, is the smaller here
    published = published_sampled(0.1, n / 10, local, orders=orders, general=True)
    sizes = mixtures.sampled_mixture_statics(n, local, orders)
    assert (sampled_mixture(n, local, 0.1, orders=orders, **sizes) < published).all()


# Inside JAX


@pytest.mark.slow
def test_transformations():
    orders = (2.0, 4.5)
    sizes = mixture.mixture_statics(10**4, 1.0, orders)

    def total(local):
        return jnp.sum(exact_mixture(10**4, local, orders=orders, **sizes))

    plain = exact_mixture(10**4, np.array([0.7, 1.0]), orders=orders, **sizes)
    traced = jax.jit(jax.vmap(lambda e: exact_mixture(10**4, e, orders=orders, **sizes)))(jnp.array([0.7, 1.0]))
    np.testing.assert_allclose(traced, plain, rtol=2e-7)
    assert (np.asarray(traced, float) >= plain * (1 - 1e-7)).all()
    step = 1e-5
    ends = exact_mixture(10**4, np.array([1 - step, 1 + step]), orders=orders, **sizes).sum(axis=1)
    slope = (ends[1] - ends[0]) / (2 * step)
    assert jax.jit(jax.grad(total))(1.0) == pytest.approx(slope, rel=1e-4)


@pytest.mark.more
def test_statics_suffice():
    """Smaller static sizes than chosen would cost tightness; larger ones change nothing."""
    n, local, orders = 10**5, 2.0, (2.0, 16.0)
    sizes = mixture.mixture_statics(n, local, orders)
    chosen = exact_mixture(n, local, orders=orders, **sizes)
    larger = exact_mixture(n, local, orders=orders, nodes=2 * sizes["nodes"], window=2 * sizes["window"])
    fewer = exact_mixture(n, local, orders=orders, nodes=16, window=sizes["window"])
    np.testing.assert_allclose(chosen, larger, rtol=1e-12)
    assert (fewer >= larger * (1 - 1e-12)).all()
    assert response_window(10**9, 1.0, 256.0) <= 128
