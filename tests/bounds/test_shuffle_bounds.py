"""The bounds of "Hiding Among the Clones" apart from its pair: reference values, brute force, and what it got wrong."""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from support.reference import Entry, disagreement
from support.shuffle_answers import (
    ANSWERS,
    approximate_epsilon,
    approximate_log_delta,
    clone_only_form,
    fewest_reports,
    frequency_epsilon,
    gaussian_delta,
    k_ary_elsewhere,
    k_ary_form,
    k_ary_three_component,
    largest_local_epsilon,
    least_noise,
    optimal_epsilon,
    optimal_log_delta,
    pure_form,
    rederived_form,
    simple_epsilon,
    subsampled,
    sufficient_noise,
    three_component_form,
    with_slack,
)
from support.shuffle_oracles import (
    block_bound,
    histogram_law,
    hockey_stick,
    leftover,
    local_epsilon,
    random_randomizer,
    response_parts,
    simulated_law,
    worst,
)

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._precision import Kernel
from jaxacct.answering._lanes import ask
from jaxacct.bounds.shuffle import REPORTS_FROM_BELOW
from jaxacct.bounds.shuffle import _approximate as reductions
from jaxacct.bounds.shuffle import _closed_form as closed
from jaxacct.bounds.shuffle import _rounds as composition
from jaxacct.divergence.clones._profile import clones_delta, clones_epsilon, window_for
from jaxacct.papers.clones import _closed as other_forms
from jaxacct.papers.clones import _published as comparison
from jaxacct.papers.clones import _reductions as results

ROWS = json.loads((Path(__file__).parents[1] / "reference" / "fmt-clones.json").read_text())
ENTRIES = [
    Entry("fmt-clones", "fmt-clones", i, *(row[name] for name in ("system", "quantity", "kind", "value", "args")),
          rational=row.get("rational"))
    for i, row in enumerate(ROWS)
]  # fmt: skip

WINDOW = 1024
pure_delta = Kernel(lambda e, n, local: clones_delta(e, n, jnp.exp(-local), local, window=WINDOW).log_delta)


def pure_upper(epsilon, n, local):
    """An upper bound on delta of the clones pair."""
    return np.exp(pure_delta(epsilon, n, local)[1]) * (1 + 1e-14)


@pytest.mark.sample(16)
@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.key[1:] in ANSWERS], ids=lambda e: e.label)
def test_reference_value(entry):
    quantity = ANSWERS[entry.key[1:]]
    problem = disagreement(entry, quantity, float(quantity.evaluate(entry.args)))
    assert problem is None, problem


# The pair's proof, on random randomizers (CL-S6), and the paper's own procedure (CL-S4)


@pytest.mark.parametrize("seed", range(6))
def test_decompositions(seed):
    randomizer = random_randomizer(np.random.default_rng(seed), 4, 5, 2.0)
    first, second = randomizer[:2]
    epsilon = local_epsilon(randomizer)
    odds, p = math.exp(epsilon), math.exp(-epsilon)
    parts = response_parts(first, second, epsilon)
    assert np.allclose((odds * parts[0] + parts[1]) / (odds + 1), first, atol=1e-15)
    assert np.allclose(parts[0] + parts[1], first + second, atol=1e-15)
    for law in (*parts, *(leftover(law, first, second, p) for law in randomizer)):
        assert np.all(law >= -1e-15)
        assert math.isclose(law.sum(), 1.0, rel_tol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_simulator_is_the_shuffle_and_below_the_pair(seed):
    rng = np.random.default_rng(seed)
    randomizer = random_randomizer(rng, 4, 3, 3.0)
    epsilon, others = local_epsilon(randomizer), (2, 3)
    direct = [histogram_law([randomizer[bit], *randomizer[list(others)]]) for bit in (0, 1)]
    for bit in (0, 1):
        simulated = simulated_law(randomizer, others, epsilon, bit)
        assert all(math.isclose(simulated[h], direct[bit][h], abs_tol=1e-14) for h in direct[bit])
    for share in (0.0, 0.2, 0.7):
        assert worst(*direct, math.exp(share * epsilon)) <= pure_upper(share * epsilon, 3, epsilon)


@pytest.mark.sample(1)
@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.quantity == "delta_blocks"], ids=lambda e: e.label)
def test_block_procedure(entry):
    """The oracle equals the reference, and halves towards the pair's delta from both sides."""
    a = entry.args
    with mp.workdps(40):
        arguments = a["n"], mp.mpf(a["eps"]), mp.mpf(a["eps0"])
        bounds = {w: block_bound(*arguments, w, a["bound"] == "upper") for w in (a["block"], a["block"] // 2)}
        assert abs(bounds[a["block"]] / mp.mpf(entry.value) - 1) < 1e-20
    log_lower, log_upper = pure_delta(a["eps"], a["n"], a["eps0"])
    halved, whole = float(bounds[a["block"] // 2]), float(bounds[a["block"]])
    if a["bound"] == "upper":
        assert math.exp(log_lower) < halved < whole
    else:
        assert math.exp(log_upper) > halved > whole


def test_blocks_of_one_are_the_pair():
    with mp.workdps(40):
        exact = mp.log(block_bound(60, mp.mpf("0.4"), mp.mpf(2), 1, True))
    log_lower, log_upper = pure_delta(0.4, 60, 2.0)
    assert log_lower - 1e-12 <= exact <= log_upper + 1e-12


# Closed forms (CL-S1, CL-S3, CL-S9 to CL-S11)


@pytest.mark.parametrize("log_delta", [math.log(0.3), math.log(1e-3), math.log(1e-9)])
@pytest.mark.parametrize("local", [1e-3, 0.3, 2.0, 5.0])
def test_closed_form_holds_where_it_is_valid(local, log_delta):
    for n in (30, 300, 3000, 30000):
        epsilon = float(pure_form(n, log_delta, local))
        valid = n * math.exp(-local) >= 16 * max(math.log(4 * math.tanh(local / 2)) - log_delta, math.log(4))
        assert math.isfinite(epsilon) == valid
        if valid:
            assert epsilon <= local
            assert pure_upper(epsilon, n, local) <= math.exp(log_delta)
            # refined <= stated (twice the delta inside the logarithm and more), rederived later
            assert epsilon <= float(pure_form(n, log_delta + math.log(math.tanh(local / 2)), local))
            assert epsilon <= float(rederived_form(n, log_delta, local))


def test_stated_condition_is_harmless_and_the_formula_fails_later():
    """Section 4.3, item 7: at the weaker boundary delta is at most .0021 s delta; at E = n/(1.5 log(2/delta)) more."""
    for n, delta in itertools.product([60, 1000, 10**5], [1e-2, 1e-6, 1e-9]):
        growth = n / (16 * math.log(2 / delta))
        if growth > 1.05:
            s = (growth - 1) / (growth + 1)
            epsilon = math.log1p(s * (8 * math.sqrt(growth * math.log(4 / delta) / n) + 8 * growth / n))
            local = math.log(growth)
            assert pure_upper(min(epsilon, local), n, local) <= 0.0021 * s * delta
    n, delta = 10**5, 1e-6
    local = math.log(n / (1.5 * math.log(2 / delta)))
    raw = math.exp(local) / n
    raw = math.log1p(math.tanh(local / 2) * (8 * math.sqrt(raw * math.log(4 / delta)) + 8 * raw))
    assert raw < local
    assert pure_delta(raw, n, local)[0] > math.log(delta)
    assert pure_form(n, math.log(delta), local) == math.inf


@pytest.mark.parametrize(("form", "args"), [(pure_form, (1.0,)), (clone_only_form, (0.3,)),
                                            (three_component_form, (0.1, 0.5)), (k_ary_form, (2.0, 20.0))])  # fmt: skip
def test_closed_form_domain_and_inverse(form, args):
    parameters = {
        pure_form: closed.pure_parameters,
        clone_only_form: other_forms.clone_only_parameters,
        three_component_form: other_forms.three_component_parameters,
        k_ary_form: other_forms.k_ary_parameters,
    }[form]
    inverse = Kernel(lambda n, epsilon, *a: closed.closed_form_log_delta(n, parameters(*a), epsilon))
    for n in (1e3, 1e5, 1e8):
        for log_delta in (-3.0, -14.0):
            epsilon = form(n, log_delta, *args)
            if np.isfinite(epsilon):
                back = inverse(n, epsilon, *args)
                assert log_delta - 1e-12 <= back <= log_delta + 1e-9
    assert form(1e6, 0.1, *args) == math.inf
    assert form(1e6, -math.inf, *args) == math.inf
    assert form(1e6, math.nan, *args) == math.inf
    assert form(2.0, -14.0, *args) == math.inf
    assert inverse(2.0, 0.1, *args) == 0.0
    assert inverse(1e6, 0.0, *args) == 0.0


def test_closed_form_in_a_users_program():
    """Plain jnp in a float32 program, differentiable, also at local epsilon 0."""

    def fn(local, log_delta):
        return closed.closed_form_epsilon(1e6, closed.pure_parameters(local), log_delta)

    locals_ = jnp.asarray([0.0, 0.5, 3.0, 20.0])
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(fn), (0, None)))(locals_, -14.0)
    assert value[0] == 0.0
    assert value[3] == math.inf
    assert np.all(np.isfinite(slope[:3]))
    assert math.isclose(slope[1], (fn(0.51, -14.0) - fn(0.49, -14.0)) / 0.02, rel_tol=1e-2)


def test_corollary_of_the_k_ary_response_needs_its_own_condition():
    """Section 4.3, item 1: where the paper's condition holds, the reduction has up to 625 delta, real data more."""
    for n, local, k, times in [(1000, 1.46, 300, 108), (1000, 1.46, 1000, 625), (300, 0.25, 100, 45)]:
        delta = 1e-6
        assert local <= math.log(n / (16 * math.log(2 / delta)))
        growth, four = math.expm1(local), math.log(4 / delta)
        root = 4 * math.sqrt(2 * (k + 1) * four / ((growth + k) * k * n))
        claimed = math.log1p(growth * (root + 4 * (k + 1) / (k * n)))
        assert math.isclose(k_ary_three_component(claimed, n, local, k).lower / delta, times, rel_tol=0.01)
        assert k_ary_form(n, math.log(delta), local, k) == math.inf
    n, k, local, delta = 10**4, 1e7, math.log(8.0), 1e-30
    assert local <= math.log(n / (16 * math.log(2 / delta)))
    root = 4 * math.sqrt(2 * (k + 1) * math.log(4 / delta) / ((7 + k) * k * n))
    claimed = math.log1p(7 * (root + 4 * (k + 1) / (k * n)))
    assert math.isclose(claimed, 0.0038437, rel_tol=1e-4)
    assert k_ary_elsewhere(claimed, n, local, k).lower >= 4.7e-25


@pytest.mark.parametrize(("n", "local", "k"), [(400, 0.5, 3), (1000, 1.0, 5), (3000, 2.0, 5)])
def test_k_ary_closed_form_holds(n, local, k):
    for log_delta in (math.log(0.1), math.log(1e-3), math.log(1e-5)):
        epsilon = float(k_ary_form(n, log_delta, local, k))
        if math.isfinite(epsilon):
            assert k_ary_three_component(epsilon, n, local, k).upper <= math.exp(log_delta)


# Reductions (CL-S5, CL-S7, CL-S8, CL-S12, CL-S13, CL-S19)


@pytest.mark.parametrize("seed", range(4))
def test_advanced_joint_convexity(seed):
    rng = np.random.default_rng(seed)
    p0, p1, q1 = (dict(enumerate(rng.dirichlet(np.ones(6)))) for _ in range(3))
    q, a = rng.uniform(0.05, 1.0), math.exp(rng.uniform(0.0, 2.0))
    epsilon, log_delta = subsampled(math.log(a), math.log(0.01), q)
    theta = math.exp(epsilon) / a

    def mixed(x, y, share):
        return {i: (1 - share) * x[i] + share * y[i] for i in x}

    left = hockey_stick(mixed(p0, p1, q), mixed(p0, q1, q), math.exp(epsilon))
    assert math.isclose(left, q * hockey_stick(p1, mixed(p0, q1, theta), a), rel_tol=1e-9, abs_tol=1e-14)
    assert math.isclose(math.exp(log_delta), 0.01 * q, rel_tol=1e-12)


def test_deletion_does_not_double():
    """Section 4.3, item 2: (2 epsilon, 2 delta) is false, (2 epsilon, (1 + e^epsilon) delta) is attained."""
    reference, p, q = ({0: a, 1: 1 - a} for a in (0.01, 0.03, 0.0))
    for law in (p, q):
        assert worst(law, reference, 2.0) <= 0.01 + 1e-15
    attained = hockey_stick(p, q, 4.0)
    assert attained > 2 * 0.01
    guarantee = Kernel(lambda e, d: tuple(results.replacement_from_deletion_lanes(reductions.LogGuarantee(e, d))))
    epsilon, log_delta = guarantee(math.log(2.0), math.log(0.01))
    assert epsilon == 2 * math.log(2.0)
    assert attained * (1 - 1e-12) <= math.exp(log_delta) <= attained * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_purification(seed):
    rng = np.random.default_rng(seed)
    law, reference = rng.dirichlet(np.full(7, 0.3), 2)
    epsilon = rng.uniform(0.1, 1.5)
    got = results.purified_lanes(law, reference, epsilon)
    assert math.isclose(got.probabilities.sum(), 1.0, rel_tol=1e-12)
    assert np.all(got.probabilities <= math.exp(epsilon) * reference * (1 + 1e-12))
    assert np.all(got.probabilities >= math.exp(-epsilon) * reference * (1 - 1e-12))
    laws = dict(enumerate(law)), dict(enumerate(reference))
    factor = math.exp(epsilon)
    nearest = max(hockey_stick(*laws, factor), hockey_stick(*laws[::-1], factor) / factor)
    moved = 0.5 * np.abs(law - got.probabilities).sum()
    assert nearest * (1 - 1e-12) <= moved <= got.total_variation <= nearest * (1 + 1e-12)


def test_approximate_randomizers_by_enumeration():
    """Randomized response that tells its input outright with probability delta0."""
    local, delta0, n = 1.5, 0.01, 3
    response = np.asarray([[1.0, math.exp(-local)], [math.exp(-local), 1.0]]) / (1 + math.exp(-local))
    laws = np.concatenate([(1 - delta0) * response, delta0 * np.eye(2)], axis=1)
    for others in itertools.combinations_with_replacement((0, 1), n - 1):
        p, q = (histogram_law([laws[x], *laws[list(others)]]) for x in (0, 1))
        for epsilon in (0.0, 0.4, 1.2):
            log_pure = pure_delta(epsilon, n, local)[1]
            total = approximate_log_delta(epsilon, log_pure, n, local, math.log(delta0))
            assert worst(p, q, math.exp(epsilon)) <= math.exp(total)


def test_approximate_epsilon_over_its_budget():
    """Falls with the budget; none below 2 (1 + e^-local / 2) n delta0 (section 6, fact 16)."""
    n, local, delta0 = 1e4, 2.0, 1e-11
    least = 2 * (1 + 0.5 * math.exp(-local)) * n * delta0
    budgets = np.asarray([0.99, 1.0, 1.2, 1.5, 3.0, 30.0, 1e4, 5e6]) * least
    window = window_for(n, math.exp(-local))
    logs = [(math.log(delta0), math.log(budget)) for budget in budgets]
    epsilon = np.asarray([float(approximate_epsilon(n, local, *pair, window=window)) for pair in logs])
    assert np.all(np.isinf(epsilon[:2]))
    assert np.all(np.diff(epsilon[2:-1]) < 0)
    assert epsilon[-1] == 0
    pure = np.asarray([float(pure_delta(e, n, local)[1]) for e in epsilon[2:]])
    total = approximate_log_delta(epsilon[2:], pure, n, local, math.log(delta0))
    assert np.all(total <= np.log(budgets[2:]) + 1e-13)  # of the sum taken again
    assert np.all((total >= np.log(budgets[2:]) - 1e-8) | (epsilon[2:] == 0))


def test_purified_gaussian_costs_less():
    """Its total variation is below .71 times the delta of CL-S7 at the same local epsilon (CL-S8)."""
    local, mu = np.meshgrid(np.linspace(0.2, 10.0, 15), np.linspace(0.05, 2.0, 14))
    ratio = gaussian_delta(0.5 * local, mu) - gaussian_delta(local, 2.0 * mu)
    assert np.all(ratio <= math.log(0.715))


def test_gaussian_noise_of_the_paper_needs_half_the_sensitivity():
    """Section 4.3, item 3: 126 to 1.8e8 times the delta at sensitivity 2; below it at sensitivity 1."""
    for delta0, local, times in [(1e-6, 1.0, 126.0), (1e-9, 4.0, 1.7e5), (1e-12, 8.0, 1.8e8)]:
        sigma = float(sufficient_noise(local, math.log(delta0), 1.0))
        assert math.isclose(math.exp(gaussian_delta(local, 2.0 / sigma)) / delta0, times, rel_tol=0.03)
        assert gaussian_delta(local, 1.0 / sigma) <= math.log(delta0)
        least = float(least_noise(local, math.log(delta0), 2.0))
        assert least <= 2.0 * sigma
        assert math.log(delta0) - 1e-9 <= gaussian_delta(local, 2.0 / least) <= math.log(delta0)
    assert sufficient_noise(1e3, math.log(1e-6), 1.0) == math.inf


def test_frequency_estimation():
    """Section 4.3, item 4, and fact 17: the second branch is void where negative; elsewhere Theorem 3.1 confirms it."""
    n, log_delta = 1e6, math.log(1e-6)
    unit = math.sqrt(-log_delta / n)
    assert math.log((2 * unit / unit) ** 2 / 100) < 0  # the paper's, at eps = 2 sqrt(L/n)
    assert frequency_epsilon(2 * unit, n, log_delta) == 0.0
    assert frequency_epsilon(2.0, n, log_delta) == 0.0
    assert frequency_epsilon(unit, n, math.log(0.5)) == 0.0
    for n, delta in itertools.product([1e3, 1e6], [0.05, 1e-6]):
        unit = math.sqrt(-math.log(delta) / n)
        for epsilon in (0.1 * unit, unit, 12 * unit, 0.9):
            local = float(frequency_epsilon(epsilon, n, math.log(delta)))
            if epsilon < 1 and local > 0:
                assert min(local, float(pure_form(n, math.log(delta), local))) <= epsilon


@pytest.mark.more
def test_inverse_problems():
    n, epsilon, log_delta = 1000.0, 0.2, math.log(1e-5)
    local = float(largest_local_epsilon(n, epsilon, log_delta, window=window_for(n, math.exp(-epsilon))))
    local *= 1.0 - 1e-10  # other programs round otherwise
    assert log_delta - 1e-8 <= pure_delta(epsilon, n, local)[1] <= log_delta
    least = float(fewest_reports(local, epsilon, log_delta, window=WINDOW))
    assert least == n
    assert pure_delta(epsilon, n - 1, local)[0] > log_delta
    assert fewest_reports(3.0, 1e-5, math.log(1e-12), window=WINDOW) == math.inf


# Composition (CL-S15)


def test_optimal_composition_by_enumeration():
    """T randomized responses, enumerated: equal at every epsilon, also where the paper has no delta_i."""
    odds = Fraction(3, 2)
    for times in (1, 2, 5):
        law = {(): Fraction(1)}
        for _ in range(times):
            law = {(*x, y): m * (odds if y == 0 else 1) / (odds + 1) for x, m in law.items() for y in (0, 1)}
        swapped = {x: law[tuple(1 - y for y in x)] for x in law}
        for factor in (Fraction(1), Fraction(6, 5), odds, Fraction(2), odds**2, odds**3 - 1):
            truth = float(hockey_stick(law, swapped, factor))
            got = math.exp(optimal_log_delta(math.log(factor), math.log(odds), times, window=64))
            assert truth * (1 - 1e-12) <= got <= truth * (1 + 1e-11) + 1e-14


def test_composition_orders():
    """The optimal epsilon is below the simple one, above the slack's own; the window only loosens."""
    step, times, log_slack = np.meshgrid([1e-3, 0.05, 1.0], [1.0, 30.0, 1000.0], [math.log(1e-10), math.log(0.1)])
    best = optimal_epsilon(step, times, log_slack, window=512)
    assert np.all(best <= simple_epsilon(step, times, log_slack))
    value = optimal_log_delta(best, step, times, window=512)
    assert np.all(value <= log_slack)
    assert np.all((value >= log_slack - 1e-6) | (best < 1e-9))
    assert np.all(optimal_log_delta(best, step, times, window=64) >= value - 1e-9)  # another program rounds otherwise
    assert np.all(optimal_epsilon(0.0, times, log_slack, window=64) == 0.0)
    assert np.all(np.isinf(optimal_epsilon(math.inf, times, log_slack, window=64)))
    assert with_slack(-math.inf, 10.0, math.log(0.1)) >= math.log(0.1)


def test_exact_composition_is_below_the_optimal():
    """Two shuffles of two reports (reference row), by any point of the profile of one (section 6, fact 12)."""
    row = next(e for e in ENTRIES if e.quantity == "delta_composed_exact")
    epsilon, local = math.log(2), math.log(3)
    for share in (0.1, 0.5, 0.9):
        one = pure_delta(share * local, 2, local)[1]
        slack = optimal_log_delta(epsilon, share * local, 2.0, window=64)
        assert math.exp(with_slack(one, 2.0, slack)) >= float(row.value)


@Kernel
def shuffles_epsilon(num_reports, local, count, log_delta):
    def step(log_delta):
        return clones_epsilon(log_delta, num_reports, jnp.exp(-local), local, window=WINDOW).upper

    return composition.split_epsilon(step, count, log_delta, shares=(0.1, 0.5, 0.9), window=2048)


@pytest.mark.more
def test_route_by_approximate_privacy():
    """Figure 3's table, route A: 4.443 with the simple form at its best split, which the optimal form improves."""
    got = float(shuffles_epsilon(1e6, 1.0, 1e4, math.log(1e-6)))
    assert 0.7 * 4.443 < got < 4.443


# Comparison curves (CL-S20)


def test_comparison_curves():
    """Figure 2's table, and where each says nothing."""
    cheu, balle = Kernel(comparison.cheu_binary_epsilon_lanes), Kernel(comparison.balle_adaptive_epsilon_lanes)
    log_delta = math.log(1e-6)
    expected = [(1e5, 0.1, 0.00480513), (1e6, 4.0, 0.113853), (1e7, 6.0, 0.0999201)]
    for n, local, value in expected:
        assert math.isclose(cheu(n, local, log_delta), value, rel_tol=1e-5)
    assert cheu(100.0, 4.0, log_delta) == math.inf
    assert balle(1e6, 4.0, log_delta) > cheu(1e6, 4.0, log_delta)
    blanket = Kernel(comparison.balle_blanket_delta_lanes)
    assert math.isclose(blanket(0.00300209, 1e6, 0.1), 1e-6, rel_tol=1e-3)
    assert blanket(1.0, 1e6, 0.5) == 0.0
    assert blanket(0.0, 1e6, 0.5) == 1.0


@pytest.mark.more
def test_too_many_approximate_reports_still_have_their_own_guarantee():
    """n local_delta is beyond what the clones can pay: each report is (local_epsilon, local_delta)-DP all the same."""
    run = ja.Shuffled(ja.LocalRandomizer(1.0, 1e-7), num_reports=10**6)
    assert 1.0 - 1e-5 <= ja.epsilon(run, 1e-6) <= 1.0
    assert ja.epsilon(run, 0.99e-7) == math.inf
    assert 1e-7 <= ja.delta(run, 1.0) <= 1.0000001e-7
    rounds = ja.Shuffled(ja.LocalRandomizer(1.0, 1e-7), 10**6, num_epochs=3)
    lost = -math.expm1(3 * math.log1p(-1e-7))
    assert lost <= ja.delta(rounds, 3.0) <= lost * (1 + 1e-6)
    assert 3.0 >= ja.epsilon(rounds, 1e-3) >= ja.epsilon(rounds, 0.5)
    assert ja.epsilon(rounds, lost * (1 - 1e-9)) == math.inf


@pytest.mark.more
@pytest.mark.parametrize(
    ("sigma", "epochs"), [(0.3, 1), (0.3, 9), pytest.param(20.0, 9, marks=pytest.mark.slow)]
)  # at less noise than 20 also in `test_properties`
def test_gaussian_reports_are_no_worse_than_unshuffled_ones(sigma, epochs):
    run = ja.Shuffled(ja.GaussianReports(sigma), 100, epochs)
    local = ja.epsilon(ja.Gaussian(sigma / (2 * math.sqrt(epochs))), 1e-6)
    assert 0 < ja.epsilon(run, 1e-6) <= local * (1 + 1e-12)
    assert ja.delta(run, local) <= 1e-6 * (1 + 1e-9)


# Gaussian reports from below


_MIDPOINT = 3e-5  # relative error of the rule, whose integrand has a kink; the pair itself: test_gaussian_reports


def _delta_of_two_reports(sigma, epsilon):
    """Delta of two shuffled reports, on a line, the worst of some data of the other user, by the midpoint rule."""
    step = sigma / 24
    at = np.arange(-1 - 9 * sigma, 1 + 9 * sigma, step)

    def law(x, other):
        one, two = (np.exp(-0.5 * ((at - y) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)) for y in (x, other))
        return 0.5 * (np.outer(one, two) + np.outer(two, one))

    gaps = (law(1.0, other) - math.exp(epsilon) * law(-1.0, other) for other in (-1.0, 0.0, 1.0))
    return max(float(np.maximum(gap, 0.0).sum()) * step**2 for gap in gaps)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_sums_and_signs_of_reports_are_below_the_shuffle(sigma, epsilon):
    run = ja.Shuffled(ja.GaussianReports(sigma), 2)
    truth = _delta_of_two_reports(sigma, epsilon)
    interval = ja.delta_interval(run, epsilon)
    assert 0.9 * truth <= interval.lower <= truth * (1 + _MIDPOINT) <= interval.upper * (1 + 2 * _MIDPOINT)


def test_the_sum_of_the_reports_is_one_gaussian():
    """Rounded down, and within 1e-9 of the truth; the only report is the mechanism."""
    rng = np.random.default_rng(17)
    (method,) = (m for m in REPORTS_FROM_BELOW if m.name == "sum of the reports")
    for _ in range(12):
        sigma, n, rounds = (
            math.exp(rng.uniform(-0.5, 3.0)),
            int(math.exp(rng.uniform(0.0, 14.0))),
            int(rng.integers(1, 9)),
        )
        delta = math.exp(rng.uniform(-25.0, -4.0))
        found = float(ask(method, ja.Shuffled(ja.GaussianReports(sigma), n, rounds), Query.EPSILON, delta).value)
        with mp.workdps(60):
            mu = 2 * mp.sqrt(mp.mpf(rounds) / n) / mp.mpf(sigma)

            def profile(e, mu=mu):
                return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)

            assert found == 0.0 or profile(mp.mpf(found)) >= delta
            assert profile(mp.mpf(found) * (1 + mp.mpf(1e-8)) + mp.mpf(1e-15)) <= delta * (1 + 1e-6)
    alone = ja.epsilon_interval(ja.Shuffled(ja.GaussianReports(2.0), 1), 1e-6)
    assert alone.lower <= alone.upper <= alone.lower * (1 + 1e-9)


@pytest.mark.more
def test_signs_say_more_than_sums_at_little_noise():
    run = ja.Shuffled(ja.GaussianReports(0.5), 10**6)
    found = {e.method: e.value for e in ja.compare(run, 1e-6) if e.bound is ja.Bound.LOWER}
    assert found["signs of the reports"] > 1.5 * found["sum of the reports"] > 0


def test_a_dominating_pair_bounds_nothing_from_below():
    """The clones pair of k-ary randomized response lies above the mechanism: its lower end is the analysis's alone."""
    run = ja.Shuffled(ja.KaryRandomizedResponse(4.0, 10), 1000)
    single, composed = (ja.epsilon_interval(m, 1e-9) for m in (run, ja.Composed(run, 1)))
    assert composed.lower <= single.upper < ja.pld(ja.Composed(run, 1), bound=ja.Bound.LOWER).epsilon(1e-9)
    entries = ja.compare(run, 1e-9)
    least = min(e.value for e in entries if e.bound is ja.Bound.UPPER)
    assert all(e.value <= least for e in entries if e.bound is ja.Bound.LOWER)


@pytest.mark.slow
def test_different_reports_compose_by_their_blankets():
    mixed = ja.Composed((ja.Shuffled(ja.LocalRandomizer(1.0), 1000), ja.Shuffled(ja.GaussianReports(4.0), 1000)))
    found = ja.epsilon_interval(mixed, 1e-6)
    assert 0 < found.lower == found.analysis_lower < found.upper == ja.epsilon(mixed, 1e-6)
    # less than basic composition, half of delta for each: both have blankets
    assert found.upper < 0.8 * sum(ja.epsilon(part, 5e-7) for part in mixed.mechanisms)
    alone = mixed.mechanisms[1]
    assert ja.delta(ja.Composed(alone), 0.5) == pytest.approx(ja.delta(alone, 0.5), rel=1e-12)


@pytest.mark.slow
def test_renyi_rounds_lie_between_the_pair_and_the_papers():
    run = ja.Shuffled(ja.LocalRandomizer(1.0), 10**4, 5)
    value = {e.method: e.value for e in ja.compare(run, 1e-9, precision=math.inf)}
    assert ja.epsilon(run, 1e-9) < value["clones rdp"] < value["special pairs rdp, exact"] < value["special pairs rdp"]
    curve = ja.rdp(run, [1.5, 2.0, 7.25, 300.0])
    assert np.all(np.diff(curve.values) > 0)
    np.testing.assert_allclose(
        curve.values, 5 * ja.rdp(ja.Shuffled(ja.LocalRandomizer(1.0), 10**4), curve.orders).values
    )
