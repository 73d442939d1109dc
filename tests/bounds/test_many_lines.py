"""Many questions about allocation rounds at once: against single lines, certified lower ends and quadrature."""

import math
from fractions import Fraction

import jax
import numpy as np
import pytest
from mpmath import mp

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._types import Bound, Direction
from jaxacct.bounds import _line_answers
from jaxacct.bounds._line_questions import Questions, Sampled, epochs
from jaxacct.bounds._many_lines import ends
from jaxacct.bounds._moments import many_brackets
from jaxacct.divergence.allocation import _added_lanes as added
from jaxacct.divergence.allocation import _added_plans as plans
from jaxacct.divergence.allocation import _clipped_lanes as clipped
from jaxacct.divergence.allocation._rule import CLIPPED, WHOLE, num_nodes, rule

REMOVE, ADD = Direction.REMOVE, Direction.ADD


def _settings(seed, size, least_noise=0.5):
    rng = np.random.default_rng([42, seed])

    def uniform(low, high):
        return np.exp(rng.uniform(math.log(low), math.log(high), size))

    steps = np.rint(uniform(10, 1e5))
    selected = np.minimum(np.rint(uniform(1, 10)), steps // 2)
    return uniform(least_noise, 5.0), steps, selected, np.rint(uniform(1, 300)), uniform(1e-10, 1e-4)


def _questions(direction, sigma, steps, selected, epoch, target):
    size, larger = steps // selected, steps % selected
    rounds = epochs(sigma, size, (selected - larger) * epoch, larger * epoch)
    adds = np.full(len(target), direction is ADD)
    return Questions(target, adds, rounds, 0.0 * target, Sampled.none(), Sampled.none())


@pytest.mark.parametrize("direction", [REMOVE, ADD])
@pytest.mark.parametrize("query", list(Query))
def test_loss_distributions_agree(direction, query):
    """Brackets of many questions meet those of discretized losses, and few are wide."""
    *fields, delta = _settings(1, 24, 0.8)
    of = _questions(direction, *fields, delta)
    if query is Query.DELTA:
        of = of._replace(target=ends(of, Query.EPSILON).upper)
    found = ends(of, query)
    assert np.all(found.lower <= found.upper)
    assert np.mean(found.upper <= found.lower * (1 + (1e-6 if query is Query.EPSILON else 1e-4))) >= 0.9
    for i in range(0, 24, 6):
        run = ja.RandomAllocation(ja.Gaussian(fields[0][i]), *(int(x[i]) for x in fields[1:]))
        for bound, side in ((Bound.UPPER, found.lower), (Bound.LOWER, found.upper)):
            loss = ja.pld(run, direction=direction, bound=bound, resolution=4.0)
            other = (loss.epsilon if query is Query.EPSILON else loss.delta)(float(of.target[i]))
            assert side[i] <= other if bound is Bound.UPPER else side[i] >= other


def test_neighbours_in_a_batch_do_not_matter():
    order = np.random.default_rng(0).permutation(12)
    for direction in (REMOVE, ADD):
        of = _questions(direction, *_settings(2, 12, 0.9))
        together, mixed = ends(of, Query.EPSILON), ends(of.at(order), Query.EPSILON)
        alone = [ends(of.at(np.array([i])), Query.EPSILON).upper[0] for i in range(12)]
        narrow = together.upper <= together.lower * (1 + 1e-7)
        assert narrow.sum() >= 8
        assert together.upper[order][narrow[order]] == pytest.approx(mixed.upper[narrow[order]], rel=1e-6)
        assert together.upper[narrow] == pytest.approx(np.array(alone)[narrow], rel=1e-6)


def _two_steps(sigma, s):
    """E ((Y1 + Y2)/2)^s by quadrature: X = G cosh(h/(sigma sqrt 2)), G and h independent."""
    with mp.workdps(30):
        sigma, s = mp.mpf(sigma), mp.mpc(s)
        tau = 1 / (sigma * mp.sqrt(2))
        mean = mp.exp(-s / (2 * sigma**2) + (s * tau) ** 2 / 2)
        edge = 14 + abs(s.real) * tau
        return complex(mean * mp.quad(lambda h: mp.cosh(h * tau) ** s * mp.npdf(h), mp.linspace(-edge, edge, 33)))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("sigma", "order"), [(4.0, 7.0), (8.0, 13.0), (8.0, 25.0)])
@np.errstate(all="ignore")
def test_added_moments_of_two_steps(sigma, order):
    lane, steps, orders = np.array([0]), np.array([2.0]), np.array([order])
    of = rule(np.array([sigma]), int(num_nodes(np.array([sigma]), WHOLE)[0]), WHOLE)
    known = plans.guide(of, lane, steps, steps, orders)
    at = plans.plan(of, lane, known, orders, np.array([3.0 * sigma]))
    assert at.num_nodes[0] > 0
    alias = 1.0 + np.array([[1.1, 1.5]]) * (order - 1.0)
    found = added.ProfileSamples(of, lane, known, at)(orders, np.array([0.5 * sigma]), 6, alias)
    for k in range(6):
        truth = _two_steps(sigma, 1.0 - order - 0.5j * sigma * k)
        assert abs(np.exp(found.logs[0, k] + 1j * found.phase[0, k]) / truth - 1) <= np.expm1(found.error[0, k]) + 1e-13
    for a, bound in zip(alias[0], found.alias[0], strict=True):
        truth = math.log(_two_steps(sigma, 1.0 - a).real)
        assert truth <= bound
    assert np.expm1(found.error[0]).max() <= 1e-4


@pytest.mark.sample(1)
@pytest.mark.parametrize(("sigma", "order"), [(2.0, 4.0), (4.0, 13.0), (8.0, 25.0)])
@np.errstate(all="ignore")
def test_clipped_moments_of_two_steps(sigma, order):
    """What is taken away is at most E[X^a; something is], small beside the moment at a cutoff so far out."""
    lane, steps, orders, ones = np.array([0]), np.array([2.0]), np.array([order]), np.ones(1)
    of = rule(np.array([sigma]), int(num_nodes(np.array([sigma]), CLIPPED)[0]), CLIPPED)
    at = clipped.clipping(of, lane, steps, ones, np.array([1e-14]))
    steer = clipped.saddles(at, steps)
    log_moment = clipped.guesses(at, steps, steer, orders[:, None])[:, 0]
    tilt, width, curve = clipped.saddle_of(at, steps, steer, orders)
    known = clipped.bounds(at, lane, steps, steps, tilt, width)
    line = clipped.lines(at, lane, known, orders, np.array([3.0 * sigma]), log_moment, curve)
    assert line.num_nodes[0] > 0
    table = clipped.LineSums(at, lane, known, line, int(line.num_nodes[0]))
    alias = 1.0 + np.array([[1.1, 2.0]]) * (order - 1.0)
    found = table(orders, np.array([0.5 * sigma]), 6, alias)
    least = found.logs[:, 0] - 2.0 * found.relative[:, 0]
    fall = clipped.log_fall(at, lane, known, orders, 0.5 * sigma * np.arange(6.0)[None], least)
    for k in range(6):
        truth = _two_steps(sigma, order + 0.5j * sigma * k)
        value = np.exp(found.logs[0, k] + 1j * found.phase[0, k])
        assert abs(value / truth - 1) <= found.relative[0, k] + 1e-9
        assert math.log(abs(truth)) - found.logs[0, 0] <= fall[0, k] + 1e-9
    assert found.relative[0].max() <= 1e-4
    for a, bound in zip(alias[0], found.alias[0], strict=True):
        assert bound >= math.log(_two_steps(sigma, a).real) - 1e-6  # that of the whole moment


def test_a_quick_batch_about_one_epoch_is_as_tight_as_the_exact_one():
    noise, steps = (
        np.array([0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 1.0]),
        np.array([500, 1000, 100, 1000, 300, 50, 100, 1000]),
    )
    selected = np.array([1, 1, 1, 1, 1, 1, 1, 2])
    run = ja.RandomAllocation(ja.Gaussian(noise), steps, selected)
    quick = ja.epsilon(run, 1e-6, precision=math.inf)
    exact = ja.epsilon(ja.RandomAllocation(ja.Gaussian(noise[:7]), steps[:7]), 1e-6, method="exact")
    assert np.all(quick[:7] >= exact * (1 - 1e-9))
    assert np.all(quick[:7] <= exact * (1 + 1e-6))
    assert quick[7] > quick[1]


def test_inside_a_program_the_exact_method_says_what_it_needs():
    """Laws answer there, without a name."""
    for run in (
        lambda s: ja.RandomAllocation(ja.Gaussian(s), 100),
        lambda s: ja.PoissonSampled(ja.Gaussian(s), 0.1, 9),
    ):
        with pytest.raises(ValueError, match=r"method='exact' needs .* omit it inside jit"):
            jax.jit(lambda s, run=run: ja.epsilon(run(s), 1e-6, method="exact"))(1.0)
        with pytest.raises(ValueError, match=r"method='exact' needs .* omit it inside jit"):
            jax.jit(lambda e, run=run: ja.calibrate(run(1.0), "noise_multiplier", e, 1e-6, method="exact"))(1.0)


def test_what_is_out_of_range_says_nothing():
    run = ja.RandomAllocation(ja.Gaussian(np.array([0.1, 1.0, 5e3, 2.0])), np.array([100, 5, 100, 100]), 3, 2)
    found = many_brackets(run, Query.EPSILON, np.full(4, 1e-6), [REMOVE, ADD])
    for d in (REMOVE, ADD):
        assert list(found[d].upper[:3]) == [math.inf] * 3
        assert list(found[d].lower[:3]) == [0.0] * 3
        assert 0 < found[d].lower[3] <= found[d].upper[3] <= found[d].lower[3] * (1 + 1e-6)


def _log_moments(sigma, steps, most):
    """log E X^j, j = 0, 1, .. to `most`, by the recurrence for a power of a power series."""
    with mp.workdps(200):
        c = [mp.exp(i * (i - 1) / (2 * mp.mpf(sigma) ** 2)) / mp.factorial(i) for i in range(most + 1)]
        d = [mp.mpf(1)]
        for n in range(1, most + 1):
            d.append(mp.fsum(((steps + 1) * i - n) * c[i] * d[n - i] for i in range(1, n + 1)) / n)
        return [float(mp.log(x * mp.factorial(j)) - j * mp.log(steps)) for j, x in enumerate(d)]


@pytest.mark.parametrize(("sigma", "steps", "excess"), [(14.0, 38908, 4.0), (7.0, 37, 5.0), (17.0, 700, 4.0)])
def test_high_moments_are_bounded_closely(sigma, steps, excess):
    """Within the square root that Stirling's formula brings, sqrt(2 pi j), and a little where X is wide."""
    exact, j = _log_moments(sigma, steps, 150), np.array([33, 48, 49, 60, 90, 150])
    found = plans._high_moments(np.array([sigma]), np.array([float(steps)]), j[None].astype(float))[0]
    assert all(exact[k] <= x <= exact[k] + excess for k, x in zip(j, found, strict=True))


@pytest.mark.parametrize(("sigma", "steps"), [(0.6, 7), (1.7, 193), (5.0, 50), (14.0, 2)])
@np.errstate(all="ignore")
def test_high_moments_of_wide_averages_are_never_too_small(sigma, steps):
    exact, j = _log_moments(sigma, steps, 240), np.arange(33, 241, 9)
    found = plans._high_moments(np.array([sigma]), np.array([float(steps)]), j[None].astype(float))[0]
    assert all(exact[k] <= x for k, x in zip(j, found, strict=True))


@pytest.mark.parametrize(("sigma", "steps", "order"), [(36.6, 118_397.0, 47.0), (15.0, 441_124.0, 116.0)])
@np.errstate(all="ignore")
def test_averages_far_narrower_than_the_line_have_samples(sigma, steps, order):
    """As in a composition whose other parts decide: few samples, where the largest moments say how far they go."""
    lane, t, orders = np.array([0]), np.array([steps]), np.array([order])
    of = rule(np.array([sigma]), int(num_nodes(np.array([sigma]), WHOLE)[0]), WHOLE)
    at = plans.plan(of, lane, plans.guide(of, lane, t, t, orders), orders, np.array([8.0 * order]))
    assert at.num_nodes[0] > 0
    assert at.own[0] + at.other[0] < 300


def test_moments_of_larger_orders_are_bounded_closely():
    """Of X so narrow that log M(a) is about a^2 / (2 sigma^2 t), to twice the order of the line."""
    sigma, steps, order, ones = 19.0, 619_391.0, 3858.0, np.ones(1)
    lane, t, orders = np.array([0]), np.array([steps]), np.array([order])
    of = rule(np.array([sigma]), int(num_nodes(np.array([sigma]), CLIPPED)[0]), CLIPPED)
    at = clipped.clipping(of, lane, t, ones, np.array([1e-17]))
    tilt, width, _ = clipped.saddle_of(at, t, clipped.saddles(at, t), orders)
    known = clipped.bounds(at, lane, t, t, tilt, width)
    a = 1.0 + np.array([[1.5, 2.0]]) * (order - 1.0)
    about = 0.5 * a * (a - 1.0) / (sigma**2 * steps)
    assert np.all(known.markov(a).min(2) <= 1.1 * about + 1e-3)


def _check_default_ends(seed, size):
    """Quick answers of a batch are never below the certified lower ends of default questions, point by point."""
    sigma, steps, selected, epochs, delta = _settings(seed, size, 0.35)
    quick = ja.epsilon(ja.RandomAllocation(ja.Gaussian(sigma), steps, selected, epochs), delta, precision=math.inf)
    for i in range(size):
        run = ja.RandomAllocation(ja.Gaussian(sigma[i]), int(steps[i]), int(selected[i]), int(epochs[i]))
        known = ja.epsilon_interval(run, delta[i])
        assert quick[i] >= known.analysis_lower


def test_quick_batches_are_not_below_default_lower_ends():
    _check_default_ends(3, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_many_quick_batches_are_not_below_default_lower_ends(seed):
    _check_default_ends(seed, 40)


def test_a_moment_of_which_nothing_is_known_is_as_large_as_it_may_be():
    """Beside log M(a) = 900 a logarithm of 0 would be nothing, whatever it may err by."""
    logs, phase, relative = (np.array([[x, math.nan]]) for x in (450.0, 0.0, 1e-9))
    alias, fall = np.full((1, 1), 500.0), np.array([[0.0, math.nan]])
    found = _line_answers.padded((logs, phase, relative, alias), fall, np.zeros(1))
    found = _line_answers.together(found, np.zeros(1, int), np.full(1, 2.0), 1)
    assert found.log_modulus.tolist() == [[900.0], [900.0]]
    assert found.error[0, 0] < 1e-8
    assert found.error[1, 0] == math.inf


def test_sums_over_many_rounds_book_what_each_addition_rounds():
    rng = np.random.default_rng(8)
    rounds, lane, times = 700, np.repeat([0, 1], [400, 300]), rng.integers(1, 50, 700).astype(float)
    logs, phase, error = rng.normal(0.0, 3.0, (rounds, 5)), rng.normal(0.0, 9.0, (rounds, 5)), rng.random((rounds, 5))
    rows = (logs, phase, 1e-14 * error, np.abs(logs[:, :3]), -np.abs(phase[:, :1]))
    found = _line_answers.together(rows, lane, times, 2)
    halves = [_line_answers.together([x[i::2] for x in rows], lane[i::2], times[i::2], 2) for i in (0, 1)]
    for total in (found, _line_answers.summed(halves)):
        for k in range(2):
            mine = lane == k
            exact = [np.array([[Fraction(y) for y in row] for row in x[mine].tolist()]) for x in rows]
            uses = np.array([[Fraction(y)] for y in times[mine].tolist()])
            true = [(uses * x).sum(0) for x in exact]
            for n in range(5):
                moved = abs(Fraction(total.log_modulus[n, k]) - true[0][n]) + abs(
                    Fraction(total.phase[n, k]) - true[1][n]
                )
                assert moved > 0
                # each addition may be wrong by half a unit of the last place of as much as has been added up
                most = Fraction(2) ** -53 * int(mine.sum()) * sum((uses * abs(x)).sum(0)[n] for x in exact[:2])
                assert true[2][n] + most <= Fraction(total.error[n, k]) <= true[2][n] + 3 * most
            for known, of in ((total.log_alias, true[3]), (total.log_decay, true[4])):
                for x, t in zip(known[:, k], of, strict=True):
                    assert t < Fraction(x) <= t + abs(t) * Fraction(2) ** -40


@pytest.mark.parametrize("precision", [math.inf, 1e-3])
def test_points_do_not_suffer_from_those_beside_them(precision):
    """The lines of the first have their centre above 1, those of the others below: one table served them all badly."""
    sigma, t, k, epochs = np.array([[23.19, 6, 3, 1], [25, 6000, 3, 2], [25, 5000, 2, 2], [20, 3000, 3, 1]]).T
    delta = np.array([4.41e-6, 1e-6, 1e-6, 1e-6])
    together = ja.epsilon(ja.RandomAllocation(ja.Gaussian(sigma), t, k, epochs), delta, precision=precision)
    for i, found in enumerate(together):
        run = ja.RandomAllocation(ja.Gaussian(float(sigma[i])), int(t[i]), int(k[i]), int(epochs[i]))
        alone = ja.epsilon(run, float(delta[i]), precision=1e-3)
        assert found <= alone * (1.0 + 1e-5)


def test_nearly_all_of_billions_of_steps_are_public():
    run = ja.RandomAllocation(ja.Gaussian(0.44), 94_402_311_277, 86_024_547_602)
    assert ja.delta(run, 0.04) == 1.0
