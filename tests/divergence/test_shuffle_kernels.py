"""Shuffles with a rest, and shuffled binary randomized response, against enumeration and mpmath."""

import itertools
import math
from fractions import Fraction

import jax
import mpmath as mp
import numpy as np
import pytest
from support.shuffle_answers import (
    binary_delta,
    binary_delta_on_lanes,
    binary_epsilon,
    delta_floor,
    k_ary_blanket,
    k_ary_elsewhere,
    k_ary_mean,
    k_ary_three_component,
    three_component,
    three_component_mean,
)
from support.shuffle_oracles import (
    binary_response_divergence,
    component_divergence,
    histogram_law,
    hockey_stick,
    k_ary,
    worst,
)

from jaxacct._precision import Kernel
from jaxacct.divergence.clones import _multi_component as component
from jaxacct.divergence.clones import _multi_component_mean as mean
from jaxacct.divergence.clones._profile import clones_delta
from jaxacct.papers.clones._pairs import amplification_limit_lanes as amplification_limit

TOL_SUM = 4e-12  # both ends of a double sum, relative: twice what it documents for n < 1e6
TOL_TAIL = 3e-12  # binary response: log delta below the truth, relative to 1 + |log delta|, n to 1e5

clones = Kernel(lambda e, n, p, local, *, window: tuple(clones_delta(e, n, p, local, window=window)))


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def between(bounds, truth, tolerance=TOL_SUM):
    """Whether lower <= truth <= upper, each within the tolerance of it."""
    return truth * (1 - tolerance) <= bounds.lower <= truth <= bounds.upper <= truth * (1 + tolerance)


# Three components (CL-S9)


@pytest.mark.parametrize(
    ("n", "p", "q", "factor"),
    [(2, "1/3", "1/2", "1"), (3, "1/10", "9/10", "3"), (5, "1/4", "1/20", "21/20"),
     (5, "1/3", "1", "2")],
)  # fmt: skip
def test_three_components_by_enumeration(n, p, q, factor):
    p, q, factor = Fraction(p), Fraction(q), Fraction(factor)
    forward, backward = component_divergence(n, p, q, factor)
    assert forward == backward
    if p == Fraction(1, 3):
        p = Fraction(float(p))  # the float below a third: a slightly different pair
        forward, _ = component_divergence(n, p, q, factor)
    got = three_component(math.log(factor), n, float(p), float(q))
    assert between(got, float(forward), 1e-11)  # of log(factor) and q as floats


@pytest.mark.sample(1)
@pytest.mark.parametrize("args", [(0.3, 2.0, 200), (0.05, 0.5, 1000), (1.0, 3.0, 60), (0.0, 1.0, 40)])
def test_two_categories_are_the_clones_pair(args):
    epsilon, local, n = args
    truth = clones(epsilon, n, 2.0 / (math.exp(local) + 1.0), local, window=1024)[0]
    got = k_ary_blanket(epsilon, n, local, 2.0)
    assert got.lower <= math.exp(truth.upper) * (1 + 1e-11)
    assert got.upper >= math.exp(truth.lower) * (1 - 1e-11)
    assert got.upper - got.lower <= TOL_SUM * got.upper


def test_component_kernel_outside_its_domain():
    for bad in [(-1.0, 10, 0.1, 0.5), (0.1, 0, 0.1, 0.5), (0.1, 10, 0.4, 0.5), (0.1, 10, 0.1, math.nan),
                (math.nan, 10, 0.1, 0.5)]:  # fmt: skip
        assert three_component(*bad) == (0.0, 1.0), bad
    assert between(three_component(0.7, 1, 0.1, 0.25), 0.25)  # no clones: told apart with probability q
    assert k_ary_blanket(0.1, 100, 0.0, 5.0) == (0.0, 0.0)  # nothing to tell apart
    assert k_ary_blanket(0.0, 100, 0.0, 5.0) == (0.0, 0.0)
    assert k_ary_blanket(1.0, 100, 1.0, 5.0) == (0.0, 0.0)
    assert k_ary_mean(2.0, 100, 1.0, 5.0) == (0.0, 0.0)


# k-ary randomized response (CL-S10)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("k", "n", "growth"), [(3, 3, Fraction(1)), (4, 3, Fraction(6)), (3, 4, Fraction(2))])
@pytest.mark.parametrize("factor", [Fraction(21, 20), Fraction(3, 2)])
def test_k_ary_on_every_data_set(k, n, growth, factor):
    """Elsewhere <= worst data set <= blanket <= three components."""
    laws = k_ary(k, growth)
    local, epsilon = math.log(growth + 1), math.log(factor)
    blanket = k_ary_blanket(epsilon, n, local, k)
    elsewhere = k_ary_elsewhere(epsilon, n, local, k)
    highest, alone = 0, []
    for others in itertools.combinations_with_replacement(range(k), n - 1):
        p, q = (histogram_law([laws[x], *(laws[y] for y in others)]) for x in (0, 1))
        value = worst(p, q, factor)
        highest = max(highest, value)
        if min(others) >= 2:
            alone.append(float(value))
    assert float(highest) <= blanket.upper <= k_ary_three_component(epsilon, n, local, k).upper * (1 + TOL_SUM)
    assert elsewhere.lower <= min(alone)
    if k == 3:
        assert between(elsewhere, alone[0], 1e-11)


def test_elsewhere_is_exact_for_three_values_only():
    """The counts of the other values tell something too; "exact for those data" (CL-S10) needs k = 3."""
    laws = k_ary(4, Fraction(2))
    p, q = (histogram_law([laws[x], *[laws[2]] * 4]) for x in (0, 1))
    truth, got = float(hockey_stick(p, q, Fraction(2))), k_ary_elsewhere(math.log(2), 5, math.log(3), 4)
    assert math.isclose(truth, 0.01941872, rel_tol=1e-6)
    assert math.isclose(got.upper, 0.01838992, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("n", "local", "k", "epsilon", "gap"),
    [(500, 3.0, 10, 0.2, 1e-3), (1000, 1.0, 10, 0.1, 0.06), (20000, 4.0, 100, 0.1, 5e-4), (300, 0.5, 3, 0.05, 0.02)],
)
def test_one_sum_brackets_the_double_sum(n, local, k, epsilon, gap):
    exact, fast = k_ary_blanket(epsilon, n, local, k), k_ary_mean(epsilon, n, local, k)
    assert fast.lower <= exact.upper
    assert exact.lower <= fast.upper
    assert fast.upper <= fast.lower * (1 + gap)
    # at the mean of the rest, the pair is that of data elsewhere
    elsewhere = k_ary_elsewhere(epsilon, n, local, k)
    assert math.isclose(fast.lower, elsewhere.lower, rel_tol=TOL_SUM)
    assert elsewhere.upper - elsewhere.lower <= TOL_SUM * elsewhere.upper


@pytest.mark.parametrize(
    ("n", "p", "q", "epsilon"),
    [(9, 0.0958, 0.0673, 1.2437), (4, 0.1365, 0.55, 1.884), (190, 0.0677, 0.0786, 1.079), (16, 0.24, 0.0025, 0.0613)],
)
def test_one_sum_where_the_threshold_leaves_the_range(n, p, q, epsilon):
    """Thresholds above all a at the mean of the rest, below some for few of the rest."""
    exact, fast = three_component(epsilon, n, p, q), three_component_mean(epsilon, n, p, q)
    assert fast.lower <= exact.upper
    assert exact.lower <= fast.upper


@pytest.mark.parametrize(("n", "local"), [(1, 0.07545), (2, 16.536), (4, 0.0147), (3, 13.2327)])
def test_elsewhere_keeps_its_digits_near_the_local_epsilon(n, local):
    """Where 1 - tanh(eps/2)/tanh(local/2), if subtracted, would have none left."""
    epsilon = local * (1.0 - 1e-7)
    growth, factor = (Fraction(mp.nstr(f(mp.mpf(x)), 45)) for f, x in ((mp.expm1, local), (mp.exp, epsilon)))
    p, q = (histogram_law([law] + [k_ary(3, growth)[2]] * (n - 1)) for law in k_ary(3, growth)[:2])
    truth = hockey_stick(p, q, factor)
    got = k_ary_elsewhere(epsilon, n, local, 3)
    assert Fraction(got.lower) <= truth <= Fraction(got.upper)
    assert got.upper - got.lower <= TOL_SUM * got.upper


def test_one_sum_is_tight_for_many_reports():
    bounds = k_ary_mean(0.0018544, 1e6, 1.0, 10)
    assert 9e-7 < bounds.lower < bounds.upper < bounds.lower * (1 + 2e-5)


def blanket_epsilon(log_delta, n, local, k, *, num_clones):
    pair = component.k_ary_blanket_pair(local, k)
    return mean.mean_component_epsilon(log_delta, n, pair, local, num_clones=num_clones)


def test_k_ary_epsilon_is_safe_and_near():
    kernel = Kernel(blanket_epsilon)
    epsilon = float(kernel(math.log(1e-6), 1e4, 1.0, 10, num_clones=1024))
    assert 0.999e-6 <= k_ary_mean(epsilon, 1e4, 1.0, 10).upper <= 1e-6 * (1 + 1e-14)
    assert kernel(0.0, 1e4, 1.0, 10, num_clones=1024) == 0.0


@pytest.mark.slow
def test_component_kernel_transforms():
    kernel = Kernel(lambda e, n, local: mean.mean_component_delta(
        e, n, component.k_ary_blanket_pair(local, 10.0 + 0.0 * e), num_clones=256).upper)  # fmt: skip

    def fn(e, local):
        return kernel(e, 1000.0, local)

    value, slope = jax.jit(jax.vmap(jax.value_and_grad(fn, argnums=(0, 1)), (0, None)))(np.float32([0.05]), 1.0)
    assert fn(np.float32(0.05), 1.0) <= value[0] <= fn(0.05, 1.0) * (1 + 1e-5)  # rounded up to a float32
    for i, step in enumerate([(1e-5, 0.0), (0.0, 1e-5)]):
        around = [fn(0.05 + sign * step[0], 1.0 + sign * step[1]) for sign in (1, -1)]
        assert math.isclose(slope[i][0], (around[0] - around[1]) / 2e-5, rel_tol=1e-3)


# Binary randomized response (CL-S16 to CL-S18)

BINARY = [(1, 1.0, 0.3), (2, 8.0, 7.9), (5, 0.01, 0.003), (20, 3.0, 0.3), (100, 3.0, 0.0), (1000, 4.0, 3.9),
          (1000, 2.0, 1.99), (10**4, 0.1, 0.01), (10**5, 1.0, 0.05), (1, 300.0, 299.5)]  # fmt: skip


@pytest.mark.parametrize(("n", "local", "epsilon"), BINARY)
def test_binary_response_delta(n, local, epsilon):
    truth = mp.log(max(binary_response_divergence(n, local, epsilon)))
    # 1 / (1 - e^(eps - local)) is the conditioning in the arguments
    conditioning = 1 + 0.01 / -math.expm1(epsilon - local)
    for answer in (binary_delta, binary_delta_on_lanes):
        got = float(answer(epsilon, n, local, window=2048))
        assert -TOL_TAIL * conditioning * (1 + abs(truth)) * (40 if n == 2 else 1) <= got - truth <= 0


def test_binary_response_in_blocks():
    """Blocks of several counts stay below single counts, and near."""
    epsilon = np.asarray([0.0, 4e-3, 2e-2])
    exact, coarse = (binary_delta(epsilon, 1e5, 1.0, window=w) for w in (2048, 64))
    assert np.all(coarse <= exact)
    assert np.all(exact - 3e-3 <= coarse)


@pytest.mark.more
def test_binary_response_epsilon():
    n, local = np.meshgrid([30.0, 1e3, 1e5], [0.05, 1.0, 5.0])
    epsilon = binary_epsilon(math.log(1e-6), n, local, window=2048)
    assert np.all(epsilon < local)
    found = epsilon > 0
    at, above = (binary_delta(epsilon * factor, n, local, window=2048) for factor in (1.0, 1.0 + 1e-10))
    assert np.all(at[found] >= math.log(1e-6) - 1e-13)  # each books its own errors; the truth is above by as much
    assert np.all(above[found] <= math.log(1e-6) + 1e-8)
    none = binary_epsilon(np.full((3, 3), math.log(0.9)), n, 1.0, window=2048)
    assert np.all(none == 0.0)


def test_binary_response_outside_its_domain():
    cases = [(-0.1, 10, 1.0), (0.1, 0, 1.0), (1.0, 10, 1.0), (2.0, 10, 1.0), (0.1, 10, 0.0), (0.1, 10, 800.0),
             (math.nan, 10, 1.0), (0.1, math.nan, 1.0)]  # fmt: skip
    for case in cases:
        assert binary_delta(*case, window=2048) == -math.inf, case


def test_binary_response_is_below_the_clones_pair():
    for n, local, share in itertools.product([1.0, 2.0, 30.0, 1000.0], [0.1, 4.0], [0.01, 0.3, 0.9]):
        upper = clones(share * local, n, math.exp(-local), local, window=1024)[0].upper
        assert binary_delta(share * local, n, local, window=2048) <= upper


def test_ratio_to_binary_response():
    """The limit 2 E/(E+1) of the two epsilons (section 6, fact 14), and the values beside it."""
    for local, ratio, exact in [(0.1, 1.060, 0.000205566956427), (4.0, 2.053, 0.0493070743905)]:
        lower = float(binary_epsilon(np.full((3, 3), math.log(1e-6)), 1e6, local, window=2048)[0, 0])
        assert math.isclose(exact / lower, ratio, abs_tol=6e-4)


@pytest.mark.parametrize(("n", "local"), [(10, 2.0), (100, 4.0), (3, 0.3)])
def test_delta_floor_is_met_near_the_local_epsilon(n, local):
    """delta_RR (1 - p/2)^(n-1), equal for tanh(eps/2) >= (1 - 2/n) tanh(local/2) and below elsewhere (CL-S18)."""
    edge = 2.0 * math.atanh((1.0 - 2.0 / n) * math.tanh(0.5 * local))
    p = math.exp(-local)
    for epsilon in np.linspace(edge * 1.000001, local * 0.999, 4):
        (lower, upper), _ = clones(epsilon, n, p, local, window=1024)
        assert lower - 1e-10 <= delta_floor(epsilon, n, local) <= upper
    assert delta_floor(0.3 * edge, n, local) <= clones(0.3 * edge, n, p, local, window=1024)[0].upper
    assert delta_floor(local, n, local) == -math.inf


def test_amplification_limit():
    limit = Kernel(amplification_limit)(1000.0, 4.0)
    assert math.isclose(limit, -999 * math.log1p(-0.5 * math.exp(-4.0)), rel_tol=1e-14)
    assert math.isclose(limit, 1000 * math.exp(-4.0) / 2, rel_tol=0.01)


def test_all_zeros_is_not_the_worst_data():
    """n = 20, eps0 = 3, eps = 0.3: another data set of binary randomized response has 0.375 against 0.353 (CL-S16)."""
    laws = k_ary(2, math.expm1(3.0))
    values = []
    for ones in range(20):
        p, q = (histogram_law([laws[x]] + [laws[1]] * ones + [laws[0]] * (19 - ones)) for x in (0, 1))
        values.append(max(hockey_stick(p, q, math.exp(0.3)), hockey_stick(q, p, math.exp(0.3))))
    assert math.isclose(values[0], math.exp(binary_delta(0.3, 20, 3.0, window=2048)), rel_tol=1e-11)
    assert math.isclose(values[0], 0.353, abs_tol=1e-3)
    assert math.isclose(max(values), 0.375, abs_tol=1e-3)
