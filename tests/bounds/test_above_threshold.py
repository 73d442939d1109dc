"""The sparse vector technique, beside integrals in mpmath and beside whoever chooses the queries best."""

import itertools
import math

import jax
import mpmath
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.divergence import _sparse_vector, _sparse_vector_pair
from jaxacct.divergence._sparse_vector_pair import LAPLACE, NORMAL, Setting

ROUNDING = 1e-12  # relative, of a certified end beside the truth
ORDERS = (1.25, 2.0, 5.0, 24.0)
REMOVE = ja.Direction.REMOVE


def _laplace_cdf(z, scale):
    return mpmath.exp(z / scale) / 2 if z < 0 else 1 - mpmath.exp(-z / scale) / 2


def _laplace_density(z, scale):
    return mpmath.exp(-abs(z) / scale) / (2 * scale)


def _normal_cdf(z, scale):
    return mpmath.ncdf(z / scale)


def _normal_density(z, scale):
    return mpmath.npdf(z / scale) / scale


def _outcomes(queries, cutoff):
    """Every sequence of answers of so many queries, up to the last 'above' that is given."""
    for answers in itertools.product((False, True), repeat=queries):
        told = sum(count < cutoff for count in itertools.accumulate(answers[:-1], initial=0))
        if not any(answers[told:]):
            yield answers[:told]


def _probability(answers, queries, cdf, density, scales):
    """Of one sequence of answers: the integral over the threshold's noise."""
    threshold, query = scales

    def integrand(z):
        value = density(z, threshold)
        for is_above, q in zip(answers, queries, strict=False):
            below = cdf(z - q, query)
            value *= 1 - below if is_above else below
        return value

    far = 60 * max(threshold, query)
    kinks = sorted({-far, *(-10 * threshold, 0, 10 * threshold), *queries, far})
    return mpmath.quad(integrand, kinks)


def _both_worlds(queries, moved, cutoff, cdf, density, scales):
    outcomes = list(_outcomes(len(queries), cutoff))
    worlds = [[_probability(o, q, cdf, density, scales) for o in outcomes] for q in (queries, moved)]
    for world in worlds:
        assert abs(sum(world) - 1) < 1e-12
    return worlds


LAPLACE_RUNS = [  # scales, cutoff, whether monotonic, queries, and in the other world
    ((2.0, 4.0), 1, False, (0.0, 0.0, 3.0), (1.0, 1.0, 2.0)),
    ((0.5, 0.8), 1, False, (-1.0, 0.0, 1.0, 1.5), (0.0, 1.0, 2.0, 0.5)),
    ((1.0, 3.0), 2, False, (0.0, 2.0, 0.0, 2.0), (1.0, 1.0, 1.0, 1.0)),
    ((1.0, 1.0), 2, True, (0.0, 1.0, 1.0), (1.0, 1.0, 1.5)),
    ((0.7, 0.3), 1, True, (0.0, 0.0, 2.0), (1.0, 0.5, 2.0)),
]


def _laplace_run(scales, cutoff, is_monotonic):
    return ja.AboveThreshold(*scales, cutoff, monotonic=is_monotonic)


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", LAPLACE_RUNS, ids=str)
def test_answers_are_no_easier_to_tell_than_bounds_say(case):
    scales, cutoff, is_monotonic, queries, moved = case
    run = _laplace_run(scales, cutoff, is_monotonic)
    with mpmath.workdps(20):
        p, q = _both_worlds(queries, moved, cutoff, _laplace_cdf, _laplace_density, scales)
        for one, other in ((p, q), (q, p)):
            losses = [mpmath.log(a / b) for a, b in zip(one, other, strict=True)]
            assert max(losses) <= run.pure_epsilon * (1 + ROUNDING)
            curve = ja.rdp(run, [*ORDERS, math.inf])
            for order, value in zip(ORDERS, curve.values[:-1], strict=True):
                exact = mpmath.log(sum(a**order * b ** (1 - order) for a, b in zip(one, other, strict=True)))
                assert float(exact) / (order - 1.0) <= value
            assert float(max(losses)) <= curve.values[-1]
            for epsilon in (0.0, 0.4):
                exact = sum(max(mpmath.mpf(0), a - mpmath.exp(epsilon) * b) for a, b in zip(one, other, strict=True))
                assert float(exact) <= ja.delta(run, epsilon)


@pytest.mark.parametrize("scales", [(2.0, 4.0), (0.8, 1.2)])
def test_gaussian_answers_are_no_easier_to_tell_than_bounds_say(scales):
    queries, moved = (0.0, 0.0, 3.0), (1.0, 1.0, 2.0)
    run = ja.GaussianAboveThreshold(*scales, num_queries=3)
    with mpmath.workdps(20):
        p, q = _both_worlds(queries, moved, 1, _normal_cdf, _normal_density, scales)
        for one, other in ((p, q), (q, p)):
            for order, value in zip(ORDERS, ja.rdp(run, ORDERS).values, strict=True):
                exact = mpmath.log(sum(a**order * b ** (1 - order) for a, b in zip(one, other, strict=True)))
                assert float(exact) / (order - 1.0) <= value
            exact = sum(max(mpmath.mpf(0), a - mpmath.exp(0.3) * b) for a, b in zip(one, other, strict=True))
            assert float(exact) <= ja.delta(run, 0.3)


def _best_of_many_queries(order, loss, rounds):
    """log E[(P/Q)^a] / (a - 1) of the best of so many queries, each by a fine grid of what it is compared with."""
    z = np.linspace(-8.0, 8.0, 160_001)

    def log_tail(x):
        size = np.abs(x)
        return np.where(x >= 0, -size - math.log(2.0), np.log1p(-0.5 * np.exp(-size)))

    above = order * log_tail(z) + (1.0 - order) * log_tail(z + loss)
    below = order * log_tail(-z) + (1.0 - order) * log_tail(-z - loss)
    total = 1.0
    for _ in range(rounds):
        total = float((np.exp(above) + np.exp(below) * total).max())
    return math.log(total) / (order - 1.0)


@pytest.mark.parametrize("loss", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("order", [1.1, 1.5, 2.0, 8.0, 60.0])
def test_one_answer_costs_what_the_best_queries_take(order, loss):
    bound = float(_sparse_vector.laplace_answer_rdp((order,), np.array([loss]))[0, 0])
    many = _best_of_many_queries(order, loss, 200)
    few = _best_of_many_queries(order, loss, 2)
    assert few <= many <= bound
    assert bound <= many * 1.02 if order < 1.4 else bound <= many * 1.003


@pytest.mark.parametrize("query_std", [1.0, 6.0])
def test_one_of_many_answers_costs_what_is_proved_of_any_noise(query_std):
    """By Gaussian noise, whose best queries are found on a grid."""
    from scipy.special import log_ndtr

    z = np.linspace(-8.0, 12.0, 40_001)
    for order in (1.5, 4.0):
        above = order * log_ndtr(-z) + (1.0 - order) * log_ndtr(-z - 2.0 / query_std)
        below = order * log_ndtr(z) + (1.0 - order) * log_ndtr(z + 2.0 / query_std)
        each = np.array([[order * 2.0 / query_std**2]])
        total = 1.0
        for number in range(1, 101):
            total = float((np.exp(above) + np.exp(below) * total).max())
            bound = _sparse_vector.any_answer_rdp((order,), each, np.array([float(number)]))[0, 0]
            assert math.log(total) / (order - 1.0) <= bound


def test_losses_near_nothing_and_beyond_all_stay_bounds():
    losses = np.array([0.0, 1e-300, 1e-12, 1e-5, 40.0, 800.0, 1e300])
    found = _sparse_vector.laplace_answer_rdp((1.02, 2.0, 64.0, 1024.0), losses)
    assert np.all(found <= losses)
    assert np.all(found >= 0.0)
    assert np.all(found[1:, -1] > 0.99 * losses[-1])


@pytest.mark.parametrize("noise", [LAPLACE, NORMAL], ids=["laplace", "normal"])
@pytest.mark.parametrize(("below", "above", "x"), [(0, 1, 0.5), (3, 1, 2.0), (40, 2, 5.0), (100_000, 1, 20.0)])
@pytest.mark.parametrize("is_moved", [False, True])
def test_probabilities_are_enclosed(noise, below, above, x, is_moved):
    setting = Setting(noise, 1.5, 2.5, 2.0, 2)
    cdf, density = (_laplace_cdf, _laplace_density) if noise is LAPLACE else (_normal_cdf, _normal_density)
    by, at = (1.0, x - 1.0) if is_moved else (0.0, x)
    with mpmath.workdps(25):

        def integrand(z):
            return density(z, 1.5) * cdf(z - by, 2.5) ** below * (1 - cdf(z - at, 2.5)) ** above

        exact = mpmath.quad(integrand, [-90, -20, *sorted({0.0, by, at}), 10, 20, 30, 45, 90])
    low, high = (
        _sparse_vector_pair._enclosed(setting, below, above, x, is_moved, upper=upper) for upper in (False, True)
    )
    assert low <= exact <= high
    assert high <= low * (1 + 1e-3)


@pytest.mark.parametrize("is_monotonic", [False, True])
@pytest.mark.parametrize(("threshold", "query", "cutoff"), [(2.0, 4.0, 1), (1.0, 2.0, 3), (10.0, 5.0, 1)])
def test_the_pure_epsilon_is_attained(threshold, query, cutoff, is_monotonic):
    """As queries become many: at a small delta little is missing."""
    run = ja.AboveThreshold(threshold, query, cutoff, monotonic=is_monotonic)
    ends = ja.epsilon_interval(run, 1e-9)
    assert run.pure_epsilon == pytest.approx(1 / threshold + (1 if is_monotonic else 2) * cutoff / query, rel=1e-14)
    assert run.pure_epsilon * 0.997 <= ends.lower <= ends.upper <= run.pure_epsilon * (1 + ROUNDING)


def test_lower_ends_are_what_queries_can_be_chosen_for():
    """No better pair among some that are looked through: the search finds what is there."""
    run, setting = ja.AboveThreshold(2.0, 4.0), Setting(LAPLACE, 2.0, 4.0, 2.0, 1)
    best = max(
        _sparse_vector_pair._enclosed(setting, m, 1, x, False, upper=False)
        - math.exp(0.3) * _sparse_vector_pair._enclosed(setting, m, 1, x, True, upper=True)
        for m in (0, 1, 2, 3, 4, 6, 8, 11, 16)
        for x in np.linspace(-8.0, 24.0, 33).tolist()
    )
    found = ja.delta_interval(run, 0.3)
    assert 0.98 * best <= found.lower <= found.upper
    ends = ja.epsilon_interval(run, found.lower * 0.999)
    assert 0.3 - 1e-3 <= ends.lower <= ends.upper


def test_gaussian_lower_ends_are_no_less_than_one_query_tells():
    """A single comparison is Gaussian noise against one threshold, which is the best event of it."""
    run = ja.GaussianAboveThreshold(3.0, 4.0, num_queries=1)
    for delta in (1e-8, 1e-3):
        ends = ja.epsilon_interval(run, delta)
        single = ja.epsilon(ja.Gaussian(5.0 / 2.0), delta)  # a query is moved, and the threshold is not
        assert ends.lower <= ja.epsilon(ja.Gaussian(5.0), delta) * (1 + 1e-6) <= single
        assert ends.lower >= 0.95 * ja.epsilon(ja.Gaussian(5.0), delta)
    more = ja.GaussianAboveThreshold(3.0, 4.0, num_queries=1000)
    assert ja.epsilon_interval(more, 1e-8).lower > ja.epsilon_interval(run, 1e-8).lower


def test_many_runs_cost_less_than_pure_ones_and_more_than_none():
    run = ja.AboveThreshold(2.0, 8.0)
    pure = ja.EpsilonDelta(run.pure_epsilon)
    for count in (10, 100):
        found = ja.epsilon_interval(ja.Composed(run, count), 1e-6)
        assert 0.99 * ja.epsilon_interval(run, 1e-6).lower <= found.lower
        assert found.upper < 0.98 * ja.epsilon(ja.Composed(pure, count), 1e-6)
    mixed = ja.Composed((run, ja.Gaussian(4.0)), (3, 2))
    assert ja.epsilon(run, 1e-6) < ja.epsilon(mixed, 1e-6) < 3 * run.pure_epsilon + ja.epsilon(ja.Gaussian(2.0), 1e-6)


@pytest.mark.more
def test_sampled_groups_and_replaced_records():
    run = ja.AboveThreshold(2.0, 8.0)
    pure = ja.EpsilonDelta(run.pure_epsilon)
    for wrap in (lambda m: ja.PoissonSampled(m, 0.1, 20), lambda m: ja.RandomAllocation(m, 20)):
        assert ja.epsilon(wrap(run), 1e-6) == pytest.approx(ja.epsilon(wrap(pure), 1e-6), rel=1e-9)
        assert ja.epsilon_interval(wrap(run), 1e-6).lower == 0.0  # no one run need be as bad as the guarantee
    assert ja.epsilon(ja.Group(run, 2), 1e-6) <= 2 * run.pure_epsilon * (1 + 1e-9)
    assert ja.epsilon(run, 1e-6, neighboring_relation="replace-one") <= 2 * run.pure_epsilon * (1 + 1e-9)
    with pytest.raises(ValueError, match="must wrap one of"):
        ja.epsilon(ja.PoissonSampled(ja.GaussianAboveThreshold(2.0, 2.0, 10), 0.1, 2), 1e-6)


@pytest.mark.parametrize("is_monotonic", [False, True])
@pytest.mark.parametrize("cutoff", [1, 5])
def test_epsilon_is_shared_out_best(cutoff, is_monotonic):
    """The variance of query minus threshold, 2 b^2 + 2 b'^2, is the least among all shares; the epsilon is kept."""
    run = ja.AboveThreshold.from_epsilon(0.7, cutoff=cutoff, sensitivity=3.0, monotonic=is_monotonic)
    assert 0.7 * (1 - 1e-12) <= run.pure_epsilon <= 0.7
    assert ja.delta(run, 0.7) == 0.0
    variance = run.threshold_scale**2 + run.query_scale**2
    for share in np.linspace(0.02, 0.98, 97):
        weight = cutoff if is_monotonic else 2 * cutoff
        assert variance <= (3.0 / (0.7 * share)) ** 2 + (weight * 3.0 / (0.7 * (1 - share))) ** 2 + 1e-9


def test_the_unit_of_the_queries_does_not_matter():
    one, other = ja.AboveThreshold(2.0, 4.0, 2), ja.AboveThreshold(0.5, 1.0, 2, sensitivity=0.25)
    assert ja.epsilon_interval(one, 1e-5) == ja.epsilon_interval(other, 1e-5)
    one, other = ja.GaussianAboveThreshold(2.0, 4.0, 9, 2), ja.GaussianAboveThreshold(0.5, 1.0, 9, 2, sensitivity=0.25)
    assert ja.epsilon_interval(one, 1e-5) == ja.epsilon_interval(other, 1e-5)


def test_noise_beyond_the_doubles_fails_closed():
    run = ja.AboveThreshold(1e-300, 1e-300, sensitivity=1e300)
    assert ja.epsilon(run, 1e-6) == math.inf
    assert ja.delta(run, 1.0) == 1.0
    assert ja.rdp(run, [2.0]).values[0] == math.inf
    far = ja.AboveThreshold(1.0, 0.01, 20)  # beyond every grid of losses
    assert ja.delta(far, 2000.0) == 1.0
    assert ja.delta(far, 4002.0) == 0.0
    assert ja.epsilon(ja.Composed(far, 2), 1e-6) <= 2 * far.pure_epsilon * (1 + ROUNDING)
    assert jax.jit(lambda s: ja.epsilon(ja.AboveThreshold(s, s, sensitivity=1e30), 1e-6))(1e-30) > 1e30
    assert ja.epsilon(ja.GaussianAboveThreshold(1e-300, 1.0, 3), 1e-6) == math.inf


def test_what_is_no_sparse_vector_is_refused():
    for wrong, name in (
        (lambda: ja.AboveThreshold(0.0, 1.0), "threshold_scale"),
        (lambda: ja.AboveThreshold(1.0, 1.0, 0), "cutoff"),
        (lambda: ja.AboveThreshold(1.0, 1.0, sensitivity=-1.0), "sensitivity"),
        (lambda: ja.AboveThreshold(1.0, 1.0, monotonic=1), "monotonic"),
        (lambda: ja.AboveThreshold.from_epsilon(0.0), "epsilon"),
        (lambda: ja.AboveThreshold.from_epsilon(1.0, cutoff=0), "cutoff"),
        (lambda: ja.GaussianAboveThreshold(1.0, 1.0, 0), "num_queries"),
    ):
        with pytest.raises(ValueError, match=name):
            wrong()


def test_a_loss_distribution_is_of_the_scales_as_they_are():
    """In float32 the pure epsilon would be rounded to 2^-24, to either side."""
    scales = np.float32(3.3), np.float32(7.7)
    narrow, wide = ja.AboveThreshold(*scales, 3), ja.AboveThreshold(*map(float, scales), 3)
    assert ja.pld(narrow).epsilon(1e-6) == ja.pld(wide).epsilon(1e-6)
