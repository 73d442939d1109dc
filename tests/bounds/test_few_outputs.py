"""Small cases, exactly: compositions by types, overlaps of subsets, histograms of reports, blocks of clones."""

import itertools
import math
from fractions import Fraction

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct._precision import Kernel
from jaxacct._types import Ends
from jaxacct.bounds import discrete
from jaxacct.bounds.allocation._decomposition import decomposition_delta
from jaxacct.bounds.discrete import has_types, types_delta
from jaxacct.divergence.clones._profile import ProfileEnds, clones_delta
from jaxacct.papers import girgis
from jaxacct.papers.clones import _pairs as clones_blocks
from jaxacct.papers.clones._pairs import block_delta
from jaxacct.papers.girgis._from_below import histogram_law
from jaxacct.papers.girgis._from_below import histogram_rdp_lanes as histogram_rdp
from jaxacct.papers.random_allocation._overlap_exact import exact_overlap_rdp
from jaxacct.special import ULP
from jaxacct.special import _rounding as rounding
from jaxacct.special._binomial import pmf_rounding

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
ROUNDING = 2e-12  # of sums over types: 2^-40 booked on the total, twice
P, Q = (Fraction(7, 10), Fraction(1, 5), Fraction(1, 10)), (Fraction(3, 10), Fraction(1, 2), Fraction(1, 5))
BINARY = (Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))


def pair(laws):
    return ja.DiscretePair(*([float(x) for x in law] for law in laws))


def sampled(laws, rate):
    p, q = laws
    return [rate * x + (1 - rate) * y for x, y in zip(p, q, strict=True)], q


def allocated(laws, steps):
    """The laws of 1-out-of-t, over every output of every step."""
    p, q = laws
    views = list(itertools.product(range(len(p)), repeat=steps))
    base = [math.prod(q[x] for x in view) for view in views]
    return [b * sum(p[x] / q[x] for x in view) / steps for b, view in zip(base, views, strict=True)], base


def hockey_stick(runs, factor, direction):
    """Of independent runs, over every joint outcome."""
    first, second = ([law[0] for law in runs], [law[1] for law in runs])
    if direction is ADD:
        first, second = second, first
    joint = zip(itertools.product(*first), itertools.product(*second), strict=True)
    return sum(max(Fraction(0), math.prod(a) - factor * math.prod(b)) for a, b in joint)


RATE = Fraction(1, 5)
COMPOSED = [
    (ja.Composed(pair((P, Q)), 3), [(P, Q)] * 3),
    (ja.PoissonSampled(pair((P, Q)), float(RATE), 4), [sampled((P, Q), RATE)] * 4),
    (ja.RandomAllocation(pair(BINARY), 2, num_epochs=2), [allocated(BINARY, 2)] * 2),
    (
        ja.Composed((ja.RandomAllocation(pair(BINARY), 2), ja.RandomAllocation(pair(BINARY), 3)), (2, 1)),
        [allocated(BINARY, 2)] * 2 + [allocated(BINARY, 3)],
    ),
    (
        ja.Composed((ja.PoissonSampled(pair(BINARY), float(RATE), 2), pair((P, Q))), (2, 1)),
        [sampled(BINARY, RATE)] * 4 + [(P, Q)],
    ),
]


@pytest.mark.parametrize(("run", "laws"), COMPOSED)
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_types_against_every_joint_outcome(run, laws, direction):
    assert has_types(run)
    for factor in (Fraction(1), Fraction(11, 10), Fraction(5, 2)):
        truth = float(hockey_stick(laws, factor, direction))
        lower, upper = (types_delta(run, math.log(factor), direction, upper=end) for end in (False, True))
        assert lower <= truth * (1 + 1e-15)
        assert truth * (1 - 1e-15) <= upper <= lower * (1 + 2 * ROUNDING) + 1e-14
        assert ja.delta(run, math.log(factor), method="exact", direction=direction) == upper


def test_types_are_what_the_public_answers_use():
    run, laws = COMPOSED[3]
    epsilon = ja.epsilon(run, 0.05, method="exact")
    worst = max(float(hockey_stick(laws, Fraction(math.exp(epsilon)), d)) for d in ja.Direction)
    assert 0.05 * (1 - 1e-9) <= worst <= 0.05
    found = ja.epsilon_interval(run, 0.05)
    assert found.lower <= epsilon <= found.upper * (1 + 1e-12)
    assert found.upper <= found.lower * (1 + 1e-9)


def test_too_many_types_are_left_to_the_loss_distribution():
    many = ja.DiscretePair(np.full(40, 1 / 40), np.arange(1, 41) / 820)
    for run in (
        ja.Composed(many, 30),
        ja.RandomAllocation(many, 30),
        ja.Composed((ja.Gaussian(1.0), many), 1),
        ja.PoissonSampled(ja.Gaussian(1.0), 0.1, 3),
        ja.PoissonSampled(many, np.array([0.1, 0.2]), 1),
        ja.RandomAllocation(pair(BINARY), np.array([2, 3])),
        ja.Composed(ja.RandomAllocation(many, 20), 10**9),
    ):
        assert not has_types(run)
    assert has_types(ja.Composed(pair(BINARY), 10**5))


def test_many_rounds_by_types():
    """Binary outputs: the count of ones is binomial, to the rounding booked."""
    run = ja.Composed(ja.DiscretePair((0.51, 0.49), (0.49, 0.51)), 2000)
    lower, upper = (types_delta(run, 0.5, REMOVE, upper=end) for end in (False, True))
    assert 0 < lower <= upper <= lower * (1 + 1e-8)
    assert lower <= ja.pld(run, direction=REMOVE).delta(0.5)
    assert ja.pld(run, direction=REMOVE, bound=ja.Bound.LOWER).delta(0.5) <= upper


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("p", "q", "steps", "delta"), [(0.7, 0.06, 1033, 1e-7), (0.06, 0.9, 3000, 1e-200), (0.6, 0.4, 9000, 1e-290)]
)
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_losses_beyond_the_end_of_the_exponential(p, q, steps, delta, direction):
    """e^epsilon is no double there: each term is P (1 - e^(epsilon - loss))."""
    run = ja.Composed(ja.DiscretePair((p, 1 - p), (q, 1 - q)), steps)
    epsilon = ja.epsilon(run, delta, direction=direction, method="exact")
    assert epsilon > 700.0
    lower, upper = (types_delta(run, epsilon, direction, upper=end) for end in (False, True))
    with mp.workdps(60):
        (a, c), (b, d) = (tuple(map(mp.mpf, (x, 1 - x))) for x in ((p, q) if direction is REMOVE else (q, p)))
        terms = (
            mp.binomial(steps, n) * (a**n * c ** (steps - n) - mp.exp(epsilon) * b**n * d ** (steps - n))
            for n in range(steps + 1)
        )
        truth = mp.fsum(term for term in terms if term > 0)
        assert lower <= truth <= upper <= delta
        assert upper - lower <= 1e-5 * truth


def test_masses_that_underflow_are_not_free():
    run = ja.Composed(ja.DiscretePair((0.6, 0.4), (0.4, 0.6)), 2000)
    largest = 2000 * math.log(1.5)
    lower, upper = (types_delta(run, largest * (1 - 1e-6), REMOVE, upper=end) for end in (False, True))
    assert lower == 0.0 < upper < 1e-300


def test_decomposition_of_few_outputs_is_exact():
    """Theorem 4.6 on the exact Poisson profile, in rational arithmetic."""
    steps, rate, kappa = 4, Fraction(1, 50), Fraction(3, 2)
    share = 1 - (1 - rate) ** steps
    run = ja.RandomAllocation(pair(BINARY), steps)
    poisson = [sampled(BINARY, rate)] * steps
    remove = hockey_stick(poisson, 1 + (kappa - 1) * share, REMOVE) / share
    add = (1 + kappa * (1 / share - 1)) * hockey_stick(poisson, 1 / (1 - (1 - 1 / kappa) * share), ADD)
    for direction, truth in ((REMOVE, remove), (ADD, add)):
        found = decomposition_delta(run, math.log(kappa), direction, sampling_prob=float(rate))
        assert float(truth) * (1 - 1e-14) <= found <= float(truth) * (1 + 1e-10)


# Overlaps


@pytest.mark.parametrize(("steps", "selected", "sigma", "order"), [(4, 2, 1.0, 4), (5, 3, 2.0, 4), (4, 2, 0.6, 5)])
def test_overlaps_of_four_and_more_subsets(steps, selected, sigma, order):
    chosen = list(itertools.combinations(range(steps), selected))
    total = mp.mpf(0)
    for rest in itertools.product(chosen, repeat=order - 1):
        counts = np.bincount(sum((chosen[0], *rest), ()))
        total += mp.exp(mp.mpf(int(np.sum(counts * (counts - 1) // 2))) / mp.mpf(sigma) ** 2)
    truth = float(mp.log(total / len(chosen) ** (order - 1)) / (order - 1))
    found = exact_overlap_rdp(ja.RandomAllocation(ja.Gaussian(sigma), steps, selected), order=order)
    assert truth <= found <= truth * (1 + 1e-12)


def test_many_overlaps_are_left_out():
    run = ja.RandomAllocation(ja.Gaussian(1.0), 40, 9)
    assert math.isfinite(exact_overlap_rdp(run, order=3))
    assert math.isinf(exact_overlap_rdp(run, order=4))
    one = ja.RandomAllocation(ja.Gaussian(1.0), 40, 1)
    assert math.isclose(exact_overlap_rdp(one, order=6), ja.rdp(one, [6]).values[0], rel_tol=1e-10)


# Histograms


def k_ary(values, num_values, growth):
    return np.asarray([[growth if x == y else 1.0 for y in range(num_values)] for x in values]) / (
        growth + num_values - 1.0
    )


@pytest.mark.parametrize(("data", "other", "num_values"), [([0, 1, 0], [0, 1, 1], 2), ([2, 2, 0], [2, 2, 1], 3)])
def test_histograms_against_enumeration(data, other, num_values):
    laws = []
    for values in (data, other):
        reports = k_ary(values, num_values, 3.0)
        law = histogram_law(reports)
        counted = {}
        for view in itertools.product(range(num_values), repeat=len(values)):
            key = tuple(view.count(y) for y in range(num_values - 1))
            counted[key] = counted.get(key, 0.0) + math.prod(reports[i, y] for i, y in enumerate(view))
        for key, mass in counted.items():
            assert math.isclose(law[key], mass, rel_tol=1e-14)
        assert math.isclose(law.sum(), 1.0, rel_tol=1e-14)
        laws.append(counted)
    for order in (1.5, 2.0, 5.0):
        truth = math.log(sum(p**order * laws[1][key] ** (1 - order) for key, p in laws[0].items())) / (order - 1)
        reports = (k_ary(values, num_values, 3.0) for values in (data, other))
        (found,) = histogram_rdp(*reports, orders=(order,))
        assert found.lower <= truth * (1 + 1e-14)
        assert truth * (1 - 1e-14) <= found.upper <= found.lower * (1 + 1e-11)


def test_histograms_without_common_support():
    certain, uniform = np.asarray([[1.0, 0.0]]), np.asarray([[0.5, 0.5]])
    (found,) = histogram_rdp(uniform, certain, orders=(2.0,))
    assert found.lower == found.upper == math.inf
    (found,) = histogram_rdp(certain, uniform, orders=(2.0,))
    assert math.isclose(found.upper, math.log(2.0), rel_tol=1e-12)
    with pytest.raises(ValueError, match="histograms"):
        histogram_law(np.full((100, 8), 1 / 8))


@pytest.mark.parametrize(("local", "n"), [(8.0, 93), (8.0, 94), (8.0, 120), (4.0, 186)])
def test_histograms_of_probabilities_below_the_doubles(local, n):
    """Of binary responses: what was possible and no double counted as impossible, and the divergence as infinite."""
    told = 1.0 / (1.0 + math.exp(-local))
    ones, zeros = [told, 1.0 - told], [1.0 - told, told]
    (found,) = histogram_rdp(np.array([ones] + [zeros] * (n - 1)), np.array([zeros] * n), orders=(2.0,))
    known = girgis.response_rdp(n, local, orders=[2.0])
    assert known.lower[0] * (1 - 1e-9) <= found.lower <= found.upper <= known.upper[0] * (1 + 1e-9)


def test_histograms_of_tiny_probabilities():
    laws = [np.array([[tiny, 1.0]] * 2) for tiny in (1e-200, 1e-300)]
    (found,) = histogram_rdp(*laws, orders=(10.0,))
    p, q = ([2 * mp.log(tiny), mp.log(2 * tiny), mp.mpf(0)] for tiny in (mp.mpf(1e-200), mp.mpf(1e-300)))
    truth = float(mp.log(sum(mp.exp(10 * a - 9 * b) for a, b in zip(p, q, strict=True))) / 9)
    assert found.lower <= truth <= found.upper < 1.1 * truth
    (found,) = histogram_rdp(np.array([[1e-9, 1 - 1e-9]] * 40), np.array([[1e-12, 1 - 1e-12]] * 40), orders=(2.0,))
    assert found.lower <= 3.9999e-5
    assert 3.98e-5 <= found.upper < math.inf


# Blocks of clones

_blocks, _delta = Kernel(block_delta), Kernel(clones_delta)


@pytest.mark.more
def test_halving_the_blocks_tightens_both_ends():
    n, local = 37, 2.0
    p, epsilon = math.exp(-local), np.asarray([0.0, 0.5, 1.7])
    exact = _delta(epsilon, n, p, local, window=128)
    coarse, fine, single = (
        _blocks(epsilon, n, p, local, width=width, num_blocks=-(-n // width)) for width in (16, 8, 1)
    )
    for wide, narrow in ((coarse, fine), (fine, single)):
        assert np.all(wide.log_delta.lower < narrow.log_delta.lower)
        assert np.all(narrow.log_delta.upper < wide.log_delta.upper)
    assert np.all(single.log_delta.lower <= exact.log_delta.upper)
    assert np.all(single.log_delta.upper >= exact.log_delta.lower)
    assert np.all(single.log_delta.upper - single.log_delta.lower < 1e-10)
    few = _blocks(epsilon, 9 * n, p, local, width=16, num_blocks=3)
    assert np.all(few.log_delta.lower == -math.inf)
    assert np.all(few.log_delta.upper == 0.0)
    none = _blocks(2.0 + epsilon, n, p, local, width=16, num_blocks=3)
    assert np.all(none.log_delta.lower == -math.inf)
    assert np.all(none.log_delta.upper == -math.inf)


def test_what_the_masses_err_by_is_booked_at_both_ends(monkeypatch):
    run, exactly = ja.Composed(pair(BINARY), 5), discrete._types
    ends = [types_delta(run, 0.3, REMOVE, upper=upper) for upper in (False, True)]
    monkeypatch.setattr(discrete, "_types", lambda mechanism: exactly(mechanism)._replace(error=1e-3))
    lower, upper = (types_delta(run, 0.3, REMOVE, upper=upper) for upper in (False, True))
    assert lower <= ends[0] * (1 - 1.9e-3)
    assert upper >= ends[1] * (1 + 1.9e-3)


def _masses_of_blocks(monkeypatch, sign, num_reports, prob, width):
    """`block_delta` of clones that make a divergence of 1/e whatever their number, whose functions err by `sign`."""
    pmf, total = clones_blocks.log_binomial_pmf, rounding.log_sum_exp

    def off(log_pmf):
        return log_pmf + sign * pmf_rounding(jnp.where(log_pmf > -jnp.inf, log_pmf, 0.0))

    def off_sum(terms):
        n = jnp.sum(terms > -jnp.inf, axis=0)
        return total(terms) + sign * ULP * (n + 5.0 * jnp.log(jnp.maximum(n, 1.0)) + 4.0)

    def same(epsilon, *_, **__):
        return ProfileEnds(Ends(-jnp.ones_like(epsilon), -jnp.ones_like(epsilon)), jnp.zeros_like(epsilon))

    monkeypatch.setattr(clones_blocks, "clones_delta", same)
    monkeypatch.setattr(clones_blocks, "log_binomial_pmf", lambda *args: off(pmf(*args)))
    monkeypatch.setattr(clones_blocks, "log_sum_exp", off_sum)
    monkeypatch.setattr(rounding, "log_sum_exp", off_sum)
    blocks = Kernel(lambda *args, **static: block_delta(*args, **static))
    return blocks(0.5, float(num_reports), prob, 1.0, width=width, num_blocks=-(-num_reports // width)).log_delta


@pytest.mark.sample(2)
@pytest.mark.parametrize(("num_reports", "prob", "width"), [(40, 0.3, 1), (40, 0.3, 8), (7, 0.9, 7), (900, 0.01, 30)])
def test_blocks_hold_where_every_function_errs_one_way(num_reports, prob, width, monkeypatch):
    with monkeypatch.context() as patch:
        found = _masses_of_blocks(patch, -1.0, num_reports, prob, width)
        assert -1.0 <= found.upper <= -1.0 + 1e-11
    with monkeypatch.context() as patch:
        found = _masses_of_blocks(patch, 1.0, num_reports, prob, width)
        assert -1.0 >= found.lower >= -1.0 - 1e-11
