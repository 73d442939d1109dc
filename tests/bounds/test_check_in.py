"""Shuffled check-ins: soundness against enumeration and the pair from below, limits, and what the paper printed."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from support.check_in_answers import check_in_law, response_interval, response_profile

import jaxacct as ja
from jaxacct._precision import Kernel, Rounding
from jaxacct.bounds.check_in import _by_randomizer as check_in
from jaxacct.bounds.check_in import _floor as from_below
from jaxacct.bounds.check_in import _profile as profile
from jaxacct.bounds.check_in._profile import ProfilePoint, with_cost
from jaxacct.conversion import epsilon_from_rdp
from jaxacct.divergence.check_in import _both_ends as both_ends
from jaxacct.divergence.check_in._blocks import BlockLayout, binomial_blocks, log_mixture
from jaxacct.divergence.check_in._response import response_floor_log_delta
from jaxacct.divergence.clones._profile import clones_delta, lane_bytes
from jaxacct.mechanisms._check_in import CheckIn
from jaxacct.papers import check_ins, girgis
from jaxacct.papers.check_ins import _distributed as distributed
from jaxacct.papers.check_ins import _from_below as gaussian
from jaxacct.papers.check_ins import _guarantees as first_cut
from jaxacct.papers.check_ins import _optimal_conversion as conversion
from jaxacct.papers.check_ins import _published as published
from jaxacct.papers.check_ins import _renyi as renyi
from jaxacct.papers.check_ins._from_below import response_lower_rdp
from jaxacct.papers.check_ins._optimal_conversion import least_rdp_lanes as least_rdp
from jaxacct.papers.check_ins._optimal_conversion import log_least_excess
from jaxacct.papers.check_ins._optimal_conversion import optimal_epsilon_lanes as optimal_epsilon

SMALL = BlockLayout(6, 3, 16)
EXACT = BlockLayout(48, 4, 48)


@functools.cache
def _kernel(fn, tree, num_leaves):
    def run(*lanes, **static):
        return fn(jax.tree.unflatten(tree, lanes[:num_leaves]), *lanes[num_leaves:], **static)

    return Kernel(run, Rounding.UP, lane_bytes=2**18, on_host=fn is not response_lower_rdp)


def ask(fn, mechanism, *targets, **static):
    """One question by NumPy, where `fn` can: `test_both_paths` compares it with the programs."""
    leaves, tree = jax.tree.flatten(mechanism)
    return _kernel(fn, tree, len(leaves))(*leaves, *targets, **static)


@Kernel
def profile_small(epsilon, num_users, prob, local, *, layout):
    def one(args):
        epsilon, num_users, prob, local = (x[None] for x in args)
        pair = profile.check_in_pair(num_users, prob, jnp.exp(-local), local, reports=layout, clones=layout)
        return profile.check_in_profile(epsilon, pair).log_delta[0]

    return jax.lax.map(one, (epsilon, num_users, prob, local))


@Kernel
def floor_small(epsilon, num_users, prob, local, *, window):
    def one(args):
        return response_floor_log_delta(*(x[None] for x in args), window=window)[0]

    return jax.lax.map(one, (epsilon, num_users, prob, local))


def random_points(size, seed=5):
    rng = np.random.default_rng(seed)
    num_users = np.floor(10.0 ** rng.uniform(0.0, 9.0, size))
    prob = np.minimum(10.0 ** rng.uniform(-4.0, 0.0, size), rng.choice([0.5, 1.0], size))
    local = 10.0 ** rng.uniform(-2.0, 1.0, size)
    share = 10.0 ** rng.uniform(-4.0, 0.0, size)
    return num_users, prob, local, np.log1p(prob * np.expm1(local)) * share


def log_profile_by_sums(num_users, prob, clone_prob, local, epsilon):
    """Log of sum_k w_k (k/n) D_k of the clones pair: every count, 40 digits."""
    with mp.workdps(40):
        n, q, p, s = num_users, mp.mpf(prob), mp.mpf(clone_prob), mp.tanh(mp.mpf(local) / 2)
        t, total = mp.expm1(mp.mpf(epsilon)), mp.mpf(0)
        for k in range(1, n + 1):
            for m in range(1, k + 1):
                weight = mp.binomial(n, k) * q**k * (1 - q) ** (n - k) * k / n
                weight *= mp.binomial(k - 1, m - 1) * p ** (m - 1) * (1 - p) ** (k - m)
                gaps = (
                    (1 + s * x) - (1 + n * t / k) * (1 - s * x) for x in (mp.mpf(2 * a - m) / m for a in range(m + 1))
                )
                total += weight * mp.fsum(mp.binomial(m, a) * max(g, 0) for a, g in enumerate(gaps)) / mp.mpf(2) ** m
        return mp.log(total)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [1.0, both_ends.COARSE])
def test_both_ends_on_the_host_hold_the_sum_over_every_count(seed, factor):
    rng = np.random.default_rng(seed)
    n, q, local = int(rng.integers(2, 16)), float(rng.choice([rng.uniform(0.05, 1.0), 1.0])), rng.uniform(0.1, 4.0)
    p, epsilon = math.exp(-local), math.log1p(q * math.expm1(local)) * rng.uniform(0.01, 0.6)
    truth = log_profile_by_sums(n, q, p, local, epsilon)
    upper, _ = both_ends.log_profile(epsilon, n, local, both_ends.upper_cells(n, q, p, factor), 1.0)
    lower, _ = both_ends.log_profile(epsilon, n, local, both_ends.lower_cells(n, q, p, factor), -1.0)
    assert lower <= truth <= upper
    assert factor > 1.0 or upper - lower <= 1e-2


@pytest.mark.parametrize("num", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_joined_blocks_hold_the_sum_over_every_count(seed, num, monkeypatch):
    """Blocks are joined where there are thousands of reports; here of single counts, so that the sum is known."""
    monkeypatch.setattr(both_ends, "_num_joined", lambda *args: num)
    test_both_ends_on_the_host_hold_the_sum_over_every_count(seed, both_ends.COARSE)


@pytest.mark.parametrize("least", [-2.0, -5.0])
def test_what_is_not_looked_into_counts_from_above(least):
    """Cells far below a delta of interest are left to the rest; here the delta is so large that they matter."""
    n, q, local, epsilon = 12, 0.4, 2.0, 0.15
    p, about = math.exp(-local), least + both_ends._BELOW
    truth = log_profile_by_sums(n, q, p, local, epsilon)
    whole, cut = (both_ends.upper_cells(n, q, p, 1.0, x) for x in (-math.inf, about))
    assert len(cut.m) < len(whole.m)
    assert truth <= both_ends.log_profile(epsilon, n, local, cut, 1.0)[0]
    less = both_ends.lower_cells(n, q, p, 1.0, about)
    assert both_ends.log_profile(epsilon, n, local, less, -1.0)[0] <= truth


@pytest.mark.parametrize("seed", range(8))
def test_wider_and_narrower_blocks_agree_on_the_host(seed):
    """What other blocks prove from the other side: at random settings, wide ones against narrow ones."""
    rng = np.random.default_rng(seed)
    n, q = math.floor(10 ** rng.uniform(2.0, 8.0)), min(1.0, 10 ** rng.uniform(-3.0, 0.3))
    local = rng.uniform(0.1, 6.0)
    p = math.exp(-local)
    epsilon = min(0.5 * local, 8.0 * rng.uniform(0.2, 1.0) * q / math.sqrt(n * q * p + 1.0))

    def ends(factor):
        cells = [make(float(n), q, p, factor) for make in (both_ends.upper_cells, both_ends.lower_cells)]
        return [both_ends.log_profile(epsilon, n, local, x, s)[0] for x, s in zip(cells, (1.0, -1.0), strict=True)]

    wide, close = ends(8.0), ends(1.0)
    assert max(wide[1], close[1]) <= min(wide[0], close[0])
    assert close[0] - close[1] <= wide[0] - wide[1] + 1e-8
    lanes = profile_small(epsilon, n, q, local, layout=BlockLayout(24, 8, 64))
    assert close[1] <= lanes


@pytest.mark.parametrize(
    ("users", "prob", "local", "delta", "width"),
    [(10**6, 0.01, 2.0, 1e-6, 6e-4), (3000, 0.2, 4.0, 1e-8, 5e-4), (10**5, 0.3, 0.5, 1e-5, 1.3e-3)],
)
def test_what_is_analysed_is_known_closely(users, prob, local, delta, width):
    run = CheckIn(ja.LocalRandomizer(local), users, prob)
    found = ja.epsilon_interval(run, delta)
    assert found.lower <= found.analysis_lower <= found.upper <= found.analysis_lower * (1.0 + width)
    deltas = ja.delta_interval(run, found.upper)
    assert deltas.analysis_lower <= delta * (1.0 + 1e-6)
    below = ja.delta_interval(run, found.analysis_lower)
    assert below.upper >= delta * (1.0 - 1e-6)


def test_pure_reports_lose_no_more_than_their_own_epsilon():
    assert ja.epsilon(CheckIn(ja.LocalRandomizer(0.5), 5, 0.7), 1e-35) == 0.5


@pytest.mark.more
@pytest.mark.parametrize("size", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_profile_is_above_the_pair_at_many_points(size):
    num_users, prob, local, epsilon = random_points(size)
    upper = profile_small(epsilon, num_users, prob, local, layout=SMALL)
    lower = floor_small(epsilon, num_users, prob, local, window=16)
    assert not np.isnan(upper).any()
    assert not np.isnan(lower).any()
    assert np.all(lower <= upper)
    assert np.mean(lower > -700.0) > 0.3  # the comparison is not void


def exact_laws(num_users, prob, local):
    """Pairs of probability rows, over all bits of the others, both directions."""
    for ones in range(num_users):
        laws = [check_in_law(num_users, prob, local, ones, first) for first in (False, True)]
        keys = [key for key, mass in laws[0].items() if mass > 0]
        rows = [np.asarray([law[key] for key in keys]) for law in laws]
        yield from (rows, rows[::-1])


SETTINGS = [(1, 0.4, 1.0), (2, 0.7, 2.0), (3, 0.3, 1.0), (4, 0.5, 0.5), (4, 1.0, 1.0)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("num_users", "prob", "local"), SETTINGS)
def test_profile_against_enumeration(num_users, prob, local):
    run = CheckIn(ja.LocalRandomizer(local), num_users, prob)
    known = CheckIn(ja.KaryRandomizedResponse(local, 2), num_users, prob)
    for epsilon in np.log1p(prob * np.expm1(local)) * np.asarray([0.1, 0.6]):
        exact = max(
            float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in exact_laws(num_users, prob, local)
        )
        assert exact <= math.exp(ask(check_in.profile_upper_log_delta, known, epsilon)) * (1 + 1e-12)
        assert exact <= math.exp(ask(check_in.profile_upper_log_delta, run, epsilon)) * (1 + 1e-12)
        lower = ask(from_below.response_lower_log_delta, run, epsilon, blocks=64)
        assert math.exp(lower) <= exact
        # the pair from below is an enumeration itself: one record of 1 among zeros
        zero, one = (check_in_law(num_users, prob, local, 0, first) for first in (False, True))
        pair = sum(max(one[key] - math.exp(epsilon) * zero[key], 0.0) for key in zero)
        assert math.exp(lower) == pytest.approx(pair, rel=1e-10, abs=1e-16)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("num_users", "prob", "local"), SETTINGS)
def test_renyi_divergences_against_enumeration(num_users, prob, local):
    run = CheckIn(ja.LocalRandomizer(local), num_users, prob)
    orders = (1.5, 2.0, 3.0, 8.0)
    upper = ask(check_in.profile_upper_rdp, run, orders=orders)
    lower = ask(response_lower_rdp, run, orders=orders)
    base = renyi_of_response(num_users, prob, local, max_order=8)
    for i, order in enumerate(orders):
        exact = max(
            math.log(float(np.sum(p**order * q ** (1.0 - order)))) / (order - 1.0)
            for p, q in exact_laws(num_users, prob, local)
        )
        assert lower[i] <= exact <= upper[i]
        if order >= 2:
            assert exact <= base[int(order) - 2]


def response_base(local, *, max_order):
    """Pure randomizers without amplification by shuffling."""
    orders = jnp.maximum(jnp.arange(max_order + 1.0), 2.0).reshape((-1,) + (1,) * local.ndim)
    return renyi.base_from_rdp(renyi.response_rdp(local, orders), local)


@Kernel
def _response_mixture(num_users, prob, local, *, max_order, layout, capped):
    blocks = binomial_blocks(num_users, prob, layout)

    def base(num_reports):
        return response_base(local + 0.0 * num_reports, max_order=max_order)

    return renyi.mixture_rdp(num_users, blocks, base, capped=capped)


def renyi_of_response(num_users, prob, local, *, max_order, capped=True):
    return _response_mixture(num_users, prob, local, max_order=max_order, layout=EXACT, capped=capped)


@Kernel
def _constant_base(num_users, prob, local, *, max_order):
    return renyi.constant_base_rdp(num_users, prob, response_base(local, max_order=max_order))


def test_mixture_over_counts_is_the_closed_one_and_the_cap_is_sharp():
    by_count = renyi_of_response(30, 0.4, 1.5, max_order=12, capped=False)
    np.testing.assert_allclose(by_count, _constant_base(30, 0.4, 1.5, max_order=12), rtol=1e-11)
    capped = renyi_of_response(30, 0.4, 1.5, max_order=12)
    assert np.all(capped <= by_count * (1 + 1e-12))
    local = Kernel(renyi.response_rdp)(1.5, np.arange(2.0, 13.0))
    np.testing.assert_allclose(renyi_of_response(30, 1.0, 1.5, max_order=12), local, rtol=1e-11)


def test_real_orders_lie_above_convex_moments():
    whole = renyi_of_response(20, 0.3, 1.0, max_order=6)
    values = girgis.at_real_orders(whole, orders=(1.25, 2.0, 2.5, 5.75, 6.0))
    np.testing.assert_allclose(values[[1, 4]], whole[[0, 4]], rtol=1e-12)
    assert np.all(np.diff(values) >= 0)
    with pytest.raises(ValueError, match="must be <= 6"):
        girgis.at_real_orders(whole, orders=[7.0])
    assert values[2] * 1.5 == pytest.approx(0.5 * (whole[0] + 2.0 * whole[1]), rel=1e-11)


least, least_excess = Kernel(least_rdp), Kernel(log_least_excess)
response_rdp = Kernel(renyi.response_rdp)


def test_no_map_from_one_guarantee_to_renyi_divergences():
    """Lemma 1 states that (eps, delta)-DP gives at most `least_rdp`; randomized response at eps lies above it."""
    for epsilon in (0.5, 2.0):
        lemma = float(least(2.0, epsilon, 0.0))
        truth = float(response_rdp(epsilon, 2.0))
        assert lemma == 0.0 < truth
    assert truth == pytest.approx(1.87555, abs=1e-5)
    # what it is: the least among pairs with that divergence, here against random pairs of laws
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(4), 500), rng.dirichlet(np.ones(4), 500)
    epsilon = rng.uniform(0.0, 1.0, 500)
    delta = np.maximum(p - np.exp(epsilon)[:, None] * q, 0.0).sum(axis=1)
    orders = (1.5, 2.0, 7.0)
    for order, found in zip(orders, least(np.array(orders)[:, None], epsilon, delta), strict=True):
        divergence = np.log((p**order * q ** (1.0 - order)).sum(axis=1)) / (order - 1.0)
        assert np.all(found <= divergence * (1 + 1e-12))


@pytest.mark.parametrize(
    ("order", "epsilon", "delta"),
    [
        *((1.5, 0.0, 0.2), (2.0, 0.5, 0.1), (2.0, 0.1, 1e-5), (3.0, 2.0, 0.2), (8.0, 1.0, 1e-3), (64.0, 0.3, 1e-12)),
        *((4.0, 1.0, 0.3), (3.0, 1.7, 0.6), (8.0, 0.3, 0.5), (2.5, 2.2, 0.7), (64.0, 1.9, 0.2)),  # best at r = 1
    ],
)
def test_least_excess_is_never_rounded_up(order, epsilon, delta):
    """Against its minimum over r by golden sections."""
    with mp.workdps(40):
        a, delta_, rate = mp.mpf(order), mp.mpf(delta), mp.exp(-mp.mpf(epsilon))

        def excess(v):  # r - delta = e^v
            r, q = mp.exp(v) + delta_, mp.exp(v) * rate
            return r**a * q ** (1 - a) + (1 - r) ** a * (1 - q) ** (1 - a) - 1

        low, high, share = mp.mpf(-60), mp.log1p(-delta_), (mp.sqrt(5) - 1) / 2
        for _ in range(110):
            left, right = high - share * (high - low), low + share * (high - low)
            low, high = (low, right) if excess(left) < excess(right) else (left, high)
        truth = mp.log(excess((low + high) / 2))
        assert truth - 1e-12 <= float(least_excess(order, epsilon, delta)) <= truth


def least_by_search(order, epsilon, delta):
    """`least_rdp` by golden sections over log((r - delta)/(1 - r)), in 50 digits; at r = 1 in closed form."""
    a, e, d = mp.mpf(order), mp.mpf(epsilon), mp.mpf(delta)
    if a * d >= 1:
        return e - mp.log1p(-d)

    def moment(u):
        first, second = (1 - d) / (1 + mp.exp(-u)), (1 - d) / (1 + mp.exp(u))
        return (d + first) ** a * first ** (1 - a) + second**a * (mp.exp(e) - 1 + d + second) ** (1 - a)

    low, high, share = mp.mpf(-90), mp.mpf(90), (mp.sqrt(5) - 1) / 2
    for _ in range(150):
        left, right = high - share * (high - low), low + share * (high - low)
        low, high = (low, right) if moment(left) < moment(right) else (left, high)
    return e + mp.log(moment((low + high) / 2)) / (a - 1)


def test_the_least_divergence_is_rounded_down_everywhere():
    """Also where r = 1 is best, as at order 4, epsilon 1, delta 0.3, and near order 1 with a large epsilon."""
    rng = np.random.default_rng(3)
    points = [(4.0, 1.0, 0.3), (1.0023182360974794, 31.329864578569655, 0.1842571543471182), (400.0, 30.0, 0.5)]
    # two laws that hardly differ, where x and y are near 1
    points += [(10.0, 1e-15, 6.79e-16), (3.0, 0.0, 1.3e-15), (500.0, 1e-10, 4.2e-8), (1.01, 0.0, 1.8e-7)]
    points += [(64.0, 1e-4, 5.4e-4), (1.0 + 1e-8, 1e-10, 5.7e-10), (2.0, 1e-10, 1e-3)]
    for _ in range(60):
        delta = rng.uniform(0.0, 1.0) if rng.uniform() < 0.5 else 10.0 ** rng.uniform(-8.0, 0.0)
        points.append((1.0 + 10.0 ** rng.uniform(-3.0, 2.5), 10.0 ** rng.uniform(-3.0, 1.5), delta))
    found = least(*np.array(points).T)
    with mp.workdps(50):
        for point, value in zip(points, found, strict=True):
            truth = least_by_search(*point)
            assert truth * (1 - mp.mpf(4e-13)) <= mp.mpf(float(value)) <= truth, point


def test_the_least_divergence_is_rounded_down_wherever_the_search_ends(monkeypatch):
    monkeypatch.setattr(conversion, "_NUM_HALVINGS", 14)
    points = [(2.0, 0.5, 0.1), (8.0, 1.0, 1e-3), (1.5, 0.01, 1e-6), (30.0, 1e-4, 1e-5)]
    found = Kernel(lambda *args: conversion.least_rdp_lanes(*args))(*np.array(points).T)
    with mp.workdps(50):
        for point, value in zip(points, found, strict=True):
            assert 0.3 * least_by_search(*point) <= mp.mpf(float(value)) <= least_by_search(*point), point


def test_optimal_conversion_is_never_above_the_closed_one():
    order, rdp, log_delta = (
        x.ravel() for x in np.meshgrid([1.5, 2.0, 8.0, 64.0], [1e-3, 0.1, 3.0], [-2.0, -12.0, -30.0])
    )
    best = Kernel(optimal_epsilon)(order, rdp, log_delta)
    closed = Kernel(lambda a, r, d: epsilon_from_rdp(a[None], r[None], d).value)(order, rdp, log_delta)
    assert np.all(best <= closed * (1 + 1e-9) + 1e-12)
    assert np.any(best < 0.9 * closed)
    back = least(order, best, np.exp(log_delta))
    assert np.all(back >= rdp * (1 - 1e-12))  # safe
    assert np.all((back <= rdp * (1 + 1e-6)) | (best == 0))  # and sharp


def partitions(total, largest=None):
    largest = total if largest is None else largest
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in partitions(total - part, part):
            yield (part, *rest)


def by_partitions(n, order, s):
    """Algorithm 2, corrected: the sum over partitions of the order into at most n parts."""
    total = mp.mpf(0)
    for parts in partitions(order):
        if len(parts) > n:
            continue
        ways = mp.factorial(n) / mp.factorial(n - len(parts))
        for part in set(parts):
            ways /= mp.factorial(parts.count(part))
        chosen = mp.factorial(order) / mp.fprod(mp.factorial(k) for k in parts)
        total += ways * chosen * mp.exp(s * sum(k * k for k in parts) / 2)
    return (mp.log(total) - order * mp.log(n) - order * s / 2) / (order - 1)


gaussian_pair = Kernel(gaussian.gaussian_pair_rdp_lanes)
response_pair = Kernel(gaussian.response_pair_rdp_lanes)


@pytest.mark.parametrize(("num_users", "sigma"), [(1, 1.0), (2, 0.7), (3, 1.0), (50, 0.5), (10**4, 2.0), (10**9, 30.0)])
def test_recurrence_against_partitions(num_users, sigma):
    orders = tuple(range(2, 11))
    values = gaussian_pair(num_users, 1.0, 1.0 / sigma, orders=tuple(map(float, orders)))
    with mp.workdps(60):
        for order, value in zip(orders, values, strict=True):
            exact = by_partitions(num_users, order, mp.mpf(1) / mp.mpf(sigma) ** 2)
            assert -4e-12 <= float((mp.mpf(float(value)) - exact) / exact) <= 0


def test_pair_closed_forms_and_sandwich():
    orders = tuple(float(a) for a in range(2, 65))
    a = np.asarray(orders)
    num_users, gap = np.array(list(itertools.product((1, 7, 1000, 10**8), (1.0 / 0.3, 1.0, 0.1)))).T
    probs = np.array([1.0, 0.2])[:, None]
    values, part = gaussian_pair(num_users, probs, gap, orders=orders)
    low, high = Kernel(lambda n, g: gaussian.gaussian_pair_sandwich_lanes(n, g, jnp.asarray(orders)[:, None]))(
        num_users, gap
    )
    assert np.all(low * (1 - 1e-11) <= values)
    assert np.all(values <= high * (1 + 1e-12))
    assert np.all(np.diff(values) >= 0)
    assert np.all(part <= values)
    np.testing.assert_allclose(part[:, 0], np.log1p(0.2 * np.expm1(gap * gap) / num_users), rtol=1e-11)
    single = np.logaddexp(math.log(0.8), math.log(0.2) + 0.5 * gap[:3, None] ** 2 * a * (a - 1)) / (a - 1)
    np.testing.assert_allclose(part[:3], single, rtol=1e-11)


def test_pair_of_responses_is_the_enumeration():
    found = response_pair(*np.array(SETTINGS).T, orders=(2.0, 3.0, 9.0))
    for (num_users, prob, local), values in zip(SETTINGS, found, strict=True):
        zero, one = (check_in_law(num_users, prob, local, 0, first) for first in (False, True))
        for order, value in zip((2.0, 3.0, 9.0), values, strict=True):
            exact = math.log(sum(one[k] ** order * zero[k] ** (1.0 - order) for k in zero if zero[k] > 0)) / (
                order - 1.0
            )
            assert value == pytest.approx(exact, rel=1e-10)


def test_blocks_bound_convex_functions_of_the_count():
    mix = Kernel(
        lambda n, q, t, *, layout: (lambda blocks: log_mixture(blocks, t * blocks.first / n, t * blocks.last / n))(
            binomial_blocks(n, q, layout)
        )
    )
    points = list(itertools.product((1, 5, 300, 10**5, 10**9), (1e-6, 0.02, 0.6, 1.0), (0.0, 1.0, 5.0)))
    for layout, slack in ((SMALL, 0.5), (BlockLayout(16, 8, 128), 4e-3)):
        for (num_users, prob, tilt), found in zip(points, mix(*np.array(points).T, layout=layout), strict=True):
            with mp.workdps(40):
                n, q = mp.mpf(num_users), mp.mpf(prob)
                exact = (1 - q + q * mp.exp(tilt / n)) ** n - (1 - q) ** n
                ratio = float(mp.exp(mp.mpf(float(found))) / exact)
            assert 1.0 <= ratio <= 1.0 + slack


def test_ternary_moments_of_gaussians():
    """Random triangles of three data at distance <= sqrt(s): the sharp moment is above each, the lognormal above it."""
    rng = np.random.default_rng(3)
    x = np.linspace(-14.0, 14.0, 281)
    grid = np.stack(np.meshgrid(x, x))
    density = np.exp(-0.5 * (grid**2).sum(axis=0)) * (x[1] - x[0]) ** 2 / (2 * math.pi)

    @Kernel
    def moments(s):
        found = [
            distributed.distributed_base(jnp.sqrt(s), jnp.ones_like(s), kind, max_order=8).log_ternary
            for kind in (distributed.TernaryMoment.SHARP, distributed.TernaryMoment.LOGNORMAL)
        ]
        return jnp.stack(found)

    spreads = (0.1, 1.0)
    for s, (sharp, wide) in zip(spreads, moments(np.array(spreads)), strict=True):
        assert np.all(sharp[2:] <= wide[2:] + 1e-12)
        top = dict.fromkeys(range(2, 9), 0.0)
        for _ in range(40):
            points = rng.normal(size=(2, 2))
            points /= max(np.linalg.norm(points[0]), np.linalg.norm(points[1]), np.linalg.norm(points[0] - points[1]))
            ratios = [np.exp(math.sqrt(s) * np.tensordot(v, grid, 1) - 0.5 * s * (v @ v)) for v in points]
            for j in top:
                top[j] = max(top[j], float((np.abs(ratios[0] - ratios[1]) ** j * density).sum()))
        assert all(math.log(top[j]) <= sharp[j] + 1e-9 for j in top)


def test_hyperbolic_sine_moments_are_never_rounded_down():
    """Even powers are alternating sums of lognormal moments, which mpmath can add up."""
    kernel = Kernel(distributed.log_sinh_moments)
    with mp.workdps(300):
        for s, values in zip(spreads := (1e-4, 0.1, 1.0, 9.0), kernel(np.array(spreads), max_order=48), strict=True):
            for j in (2, 4, 12, 48):
                terms = ((-1) ** i * mp.binomial(j, i) * mp.exp(mp.mpf(s) * (j - 2 * i) ** 2 / 8) for i in range(j + 1))
                truth = mp.log(mp.fsum(terms)) + mp.mpf(s) * (mp.mpf(j * (j - 1)) / 2 - mp.mpf(j * j) / 8)
                assert truth <= mp.mpf(float(values[j])) <= truth + 1e-13 * (1 + abs(truth))


def test_hyperbolic_sine_moments_at_any_distance():
    """Where the peak lies far from either of its limits, at 0 and at infinite distance."""
    with np.errstate(over="ignore"):
        values = Kernel(distributed.log_sinh_moments)(np.array([0.0, 4.0 / 512, math.inf]), max_order=512)
    assert values[0, 512] == -math.inf
    assert values[2, 512] == math.inf
    with mp.workdps(700):
        s = mp.mpf(4.0 / 512)
        choices = itertools.accumulate(range(512), lambda c, i: c * (512 - i) // (i + 1), initial=1)
        terms = ((-1) ** i * c * mp.exp(s * (512 - 2 * i) ** 2 / 8) for i, c in enumerate(choices))
        truth = mp.log(mp.fsum(terms)) + s * (512 * 511 / 2 - 512 * 512 / 8)
        assert truth <= mp.mpf(float(values[1, 512])) <= truth + 1e-13 * truth


def test_lognormal_ternary_moments_are_rounded_up():
    kind = distributed.TernaryMoment.LOGNORMAL
    base = Kernel(lambda g: distributed.distributed_base(g, jnp.ones_like(g), kind, max_order=9).log_ternary)
    with mp.workdps(60):
        gaps = (0.01, 0.1)
        for gap, values in zip(gaps, base(np.array(gaps)), strict=True):
            for j, value in enumerate(values):
                signs = (
                    (-1) ** (j - i) * mp.binomial(j, i) * mp.exp(mp.mpf(gap) ** 2 * i * (i - 1) / 2)
                    for i in range(j + 1)
                )
                if j in (2, 4, 6, 8):
                    truth = j * mp.log(2) + mp.log(mp.fsum(signs))
                    assert truth <= mp.mpf(float(value)) <= truth + 1e-12


@pytest.mark.more
def test_distributed_check_ins_keep_their_order():
    run = Kernel(distributed.distributed_rdp, lane_bytes=2**24)
    static = {"max_order": 8, "layout": BlockLayout(64, 8, 128)}
    kinds = distributed.TernaryMoment
    lanes = 1000, 0.1, 2.0
    generic = run(*lanes, kind=kinds.GENERIC, capped=False, **static)
    wide, sharp = (run(*lanes, kind=kind, **static) for kind in (kinds.LOGNORMAL, kinds.SHARP))
    assert np.all(sharp <= wide * (1 + 1e-12))
    assert np.all(wide <= generic * (1 + 1e-12))
    assert np.all(sharp > 0)
    same = run(*lanes, kind=kinds.SHARP, fewest=1, **static)
    assert np.all(same >= sharp * (1 - 1e-9))  # given at least one report
    cut = run(6e4, 1e-3, 1.0, kind=kinds.LOGNORMAL, fewest=18, max_order=32, layout=static["layout"])[-1]
    whole = run(6e4, 1e-3, 1.0, kind=kinds.LOGNORMAL, max_order=32, layout=static["layout"])[-1]
    assert whole > 2.0
    assert cut < 1e-5
    printed = Kernel(published.published_distributed_rdp_lanes)(20, 0.01, 0.4, max_order=2, num_counts=20)[0]
    assert printed < 0  # Theorem 4 leaves out the rounds without reports


@pytest.mark.parametrize(("num_users", "prob", "local"), [(3, 0.3, 1.0), (4, 0.6, 2.0), (6, 0.8, 0.5)])
def test_direct_profile_is_below_the_coupled_one(num_users, prob, local):
    base = response_profile(local, num_users)
    for inner in (0.05, 0.2, 0.4 * local):
        epsilon = math.log1p(prob * math.expm1(inner))
        direct = check_ins.direct_delta(base, epsilon, num_users=num_users, check_in_prob=prob)
        coupled = check_ins.coupled_delta(base, inner, num_users=num_users, check_in_prob=prob)
        exact = max(
            float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in exact_laws(num_users, prob, local)
        )
        assert exact <= direct * (1 + 1e-12)
        assert direct <= coupled * (1 + 1e-12)


def test_everybody_checks_in_is_shuffling():
    shuffled = Kernel(clones_delta, lane_bytes=lane_bytes)
    for num_users, local, epsilon in ((1, 1.0, 0.5), (40, 1.0, 0.2), (10**4, 2.0, 0.05)):
        run = CheckIn(ja.LocalRandomizer(local), num_users, 1.0)
        value = float(ask(check_in.profile_upper_log_delta, run, epsilon))
        exact = shuffled(epsilon, num_users, math.exp(-local), local, window=512).log_delta
        assert float(exact.upper) - float(exact.lower) <= 1e-9
        assert float(exact.lower) <= value <= float(exact.upper) + 0.02 * abs(float(exact.upper))


@pytest.mark.more
def test_limits_and_failing_closed():
    runs = [CheckIn(ja.LocalRandomizer(1.0), 1000, prob) for prob in (0.0, 1e-3, 0.1, 1.0)]
    values = [float(ask(check_in.profile_upper_epsilon, run, math.log(1e-6))) for run in runs]
    assert values[0] == 0
    assert np.all(np.diff(values) > 0)
    assert values[-1] <= 1.0
    dropped = CheckIn(ja.LocalRandomizer(1.0), 1000, 0.2, dropout_prob=0.5)
    assert ask(check_in.profile_upper_epsilon, dropped, math.log(1e-6)) == pytest.approx(values[2], rel=1e-9)
    several = CheckIn(ja.LocalRandomizer(1.0), 1000, 0.1, 2)
    assert np.isinf(ask(check_in.profile_upper_epsilon, several, -9.0))
    assert ask(check_in.profile_upper_log_delta, several, 0.1) == 0
    assert ask(check_in.profile_upper_epsilon, CheckIn(ja.LocalRandomizer(0.0), 1000, 0.1), -9.0) == 0
    assert np.isinf(ask(check_in.profile_upper_epsilon, CheckIn(ja.LocalRandomizer(400.0), 1000, 0.1), -9.0))
    approximate = CheckIn(ja.LocalRandomizer(1.0, 1e-3), 1000, 0.1)
    assert np.isinf(ask(check_in.profile_upper_epsilon, approximate, math.log(1e-6)))
    assert np.all(np.isinf(ask(check_in.profile_upper_rdp, approximate, orders=(2.0,))))
    for name, wrong in (("num_users", 0.5), ("check_in_prob", 1.5), ("num_epochs", 0), ("dropout_prob", -0.1)):
        fields = {"num_users": 10, "check_in_prob": 0.1, "num_epochs": 1, "dropout_prob": 0.0, name: wrong}
        with pytest.raises(ValueError, match=name):
            CheckIn(ja.LocalRandomizer(1.0), **fields)


@pytest.mark.more
def test_answers_invert_each_other_and_rounds_compose():
    one = CheckIn(ja.LocalRandomizer(2.0), 10**4, 0.01)
    epsilon = ask(check_in.profile_upper_epsilon, one, math.log(1e-6))
    assert math.log(1e-6) - 2e-7 <= ask(check_in.profile_upper_log_delta, one, epsilon) <= math.log(1e-6)
    by_renyi = ask(check_in.composed_upper_epsilon, one, math.log(1e-6))
    assert epsilon <= by_renyi <= 1.5 * epsilon
    back = ask(check_in.composed_upper_log_delta, one, by_renyi)
    assert back <= math.log(1e-6) + 1e-6
    curve = ask(check_in.profile_upper_rdp, CheckIn(ja.LocalRandomizer(2.0), 10**4, 0.01, 7), orders=(2.0, 3.5))
    np.testing.assert_allclose(curve, 7.0 * ask(check_in.profile_upper_rdp, one, orders=(2.0, 3.5)), rtol=1e-12)


@pytest.mark.slow
def test_slightly_approximate_randomizers_cost_little():
    one = CheckIn(ja.LocalRandomizer(2.0), 10**4, 0.01)
    slightly = CheckIn(ja.LocalRandomizer(2.0, 1e-12), 10**4, 0.01)
    for method in (check_in.profile_upper_epsilon, check_in.composed_upper_epsilon):
        pure, cost = (ask(method, run, math.log(1e-6)) for run in (one, slightly))
        assert pure < cost < 1.05 * pure


@pytest.mark.parametrize(
    ("log_delta", "epsilon", "log_fixed", "log_rate"),
    [(-20.0, 0.5, -18.0, -21.0), (-9.0, 1.0, -9.0, -30.0), (-30.0, 0.0, -31.0, -29.0), (-5.0, 0.2, -math.inf, -7.0)],
)
def test_costs_are_added_to_delta(log_delta, epsilon, log_fixed, log_rate):
    kernel = Kernel(lambda v, *rest: profile.with_cost(profile.ProfilePoint(v, -jnp.ones_like(v)), *rest).log_delta)
    found = float(kernel(log_delta, epsilon, log_fixed, log_rate))
    with mp.workdps(40):
        truth = mp.log(mp.exp(log_delta) + mp.exp(log_fixed) + mp.expm1(epsilon) * mp.exp(log_rate))
        assert truth <= found <= truth + 1e-13


@pytest.mark.slow
def test_gaussian_reports_lie_between_their_bounds():
    run = CheckIn(ja.GaussianReports(4.0), 10**5, 0.01)
    upper = ask(check_in.gaussian_upper_epsilon, run, math.log(1e-6))
    lower = ask(from_below.response_lower_epsilon, run, math.log(1e-6), blocks=64)
    assert 0 < lower < upper < 0.02
    floor = ask(response_lower_rdp, run, orders=(2.0,))[0]
    assert floor == pytest.approx(math.log1p(0.01 * math.expm1(0.25) / 1e5), rel=1e-10)


@pytest.mark.slow
def test_traced_arguments_and_derivatives():
    def epsilon(prob):
        run = CheckIn(ja.LocalRandomizer(1.0), 200, prob)
        return ask(check_in.profile_upper_epsilon, run, -9.0)

    concrete = epsilon(0.1)
    both = jax.jit(jax.value_and_grad(epsilon))
    traced, slope = both(0.1)
    assert concrete <= traced <= concrete * (1 + 1e-4)  # single questions have more nodes
    difference = (epsilon(0.1 + 1e-3) - epsilon(0.1 - 1e-3)) / 2e-3
    assert slope == pytest.approx(difference, rel=0.05)
    assert np.isinf(both(jnp.nan)[0])


@pytest.mark.more
def test_first_cut_and_failures_are_above_the_direct_profile():
    lanes = 10**6, 0.1, 0.11 * 10**6, 1.0, math.log(1e-9), -math.inf
    epsilon, log_delta = Kernel(lambda *a: tuple(first_cut.first_cut(*a)))(*lanes)
    run = CheckIn(ja.LocalRandomizer(1.0), 10**6, 0.1)
    assert ask(check_in.profile_upper_log_delta, run, float(epsilon)) <= float(log_delta) < -15
    rdp, log_failure = Kernel(
        lambda *a: tuple(first_cut.approximate_rdp_lanes(*a, orders=(2.0, 8.0), num_counts=2000)), lane_bytes=2**20
    )(10**4, 0.1, 1.0, math.log(1e-9), -math.inf)
    direct = ask(check_in.profile_upper_rdp, CheckIn(ja.LocalRandomizer(1.0), 10**4, 0.1), orders=(2.0, 8.0))
    assert np.all(direct <= rdp)
    assert math.exp(log_failure) < 2e-10
    assert Kernel(lambda *a: tuple(first_cut.first_cut(*a)))(10**4, 0.01, 150, 8.0, -9.0, -40.0)[1] == 0  # no regime


def test_more_reports_than_are_counted_are_failures():
    """n = 1000 at 1 in 100, and 15 counts: P[Bin(n, q) > 15] = 0.048 is most of what fails."""
    kernel = Kernel(lambda *a: first_cut.approximate_rdp_lanes(*a, orders=(2.0,), num_counts=15).log_failure)
    found = float(kernel(1000, 0.01, 1.0, math.log(1e-9), -math.inf))
    with mp.workdps(40):
        q = mp.mpf(0.01)
        most = mp.fsum(mp.binomial(1000, k) * q**k * (1 - q) ** (1000 - k) for k in range(16))
        assert mp.log(1 - most) <= found <= mp.log(1 - most + mp.mpf("1e-9"))


# Table 2 of the paper: 100 rounds of 10^4 users, delta = 10^-4: (epsilon0, rate): baseline, approach 1, approach 2
TABLE_2 = {
    (2.0, 1e-2): (0.096, 0.17, 0.049),
    (2.0, 1e-3): (0.013, 0.012, 0.024),
    (8.0, 1e-2): (9.52, 8.57, 8.18),
    (8.0, 1e-3): (3.86, 1.78, 1.58),
}
# Cells below binary randomized response, which every (epsilon0, 0)-DP method must cover
REFUTED = {(2.0, 1e-2): {2}, (2.0, 1e-3): {0, 1}}


@pytest.mark.sample(1)
@pytest.mark.parametrize("cell", TABLE_2)
def test_table_2(cell):
    local, prob = cell
    truth = response_interval(10**4, prob, local, 100, 1e-4, precision=2e-2)
    sound = ask(check_in.composed_upper_epsilon, CheckIn(ja.LocalRandomizer(local), 10**4, prob, 100), math.log(1e-4))
    assert truth.upper <= sound
    printed = TABLE_2[cell]
    assert {i for i, value in enumerate(printed) if value + 5e-4 < truth.lower} == REFUTED.get(cell, set())


@pytest.mark.more
def test_published_approaches_are_below_the_truth():
    """One round at order 8: both formulas lie below the exact divergence of one pair."""
    at, deltas = (10**4, 1e-2, 2.0), {"delta1": 1e-4, "local_delta": 1e-8, "most_reports": 300}
    exact = response_pair(10**4, 1e-2, 2.0, orders=(8.0,))[0]
    assert exact == pytest.approx(2.2121e-5, rel=1e-4)
    assert check_ins.published_approach1_rdp(*at, max_order=8, **deltas)[-1] < 0.8 * exact
    assert check_ins.published_approach2_rdp(*at, orders=[4, 8, 16], **deltas)[1] < 1e-4 * exact


@pytest.mark.more
@pytest.mark.parametrize("num", [5, pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("users", "local", "log_delta", "rounds"), [(10**4, 4.0, -18.0, 1), (300, 3.0, -7.0, 20)])
def test_a_larger_probability_is_never_much_safer(users, local, log_delta, rounds, num):
    """Thinning the reports makes a smaller one of it: the bounds may fall by what the few probabilities tried miss."""
    answers = check_in.profile_upper_epsilon if rounds == 1 else check_in.composed_upper_epsilon
    probs = np.geomspace(0.02, 1.0, num)
    runs = [CheckIn(ja.LocalRandomizer(local), users, prob, rounds) for prob in probs]
    found = np.asarray([ask(answers, run, log_delta) for run in runs])
    assert np.all(found[:-1] <= 1.1 * found[1:])
    below = [ask(from_below.response_lower_epsilon, run, log_delta, blocks=96) for run in runs]
    assert np.all(found >= np.asarray(below))


def test_a_cost_that_is_no_double_grows():
    """(e^600 - 1) e^-800 is e^-200, and e^-760 alone is more than e^-900, though neither factor nor sum is a double."""
    point = ProfilePoint(np.full(2, -900.0), np.full(2, -1.0))
    found = with_cost(point, np.array([600.0, 0.0]), np.array([-np.inf, -760.0]), np.array([-800.0, -700.0]))
    np.testing.assert_allclose(found.log_delta, [-200.0, -760.0], rtol=1e-13)
    assert np.all(found.log_delta >= [-200.0, -760.0])
    nothing = with_cost(point, np.array([1.0, 0.0]), np.full(2, -np.inf), np.array([-np.inf, 0.0]))
    assert nothing.log_delta.tolist() == [-900.0, -900.0]
