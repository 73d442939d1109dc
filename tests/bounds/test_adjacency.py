"""Records that are replaced: pairs beside mpmath, any two records and dp_accounting; questions that name it."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import jaxacct as ja
from jaxacct.divergence.gaussian._replaced_step import replaced_step_delta

UPPER, LOWER = ja.Bound.UPPER, ja.Bound.LOWER
ONE, OUT = ja.NeighboringRelation.REPLACE_ONE, ja.NeighboringRelation.REPLACE_SPECIAL
SAMPLED = ja.PoissonSampled(ja.Gaussian(1.0), 0.02, 50)
ALLOCATED = ja.RandomAllocation(ja.Gaussian(1.0), 100, 1, 2)


pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")  # of deltas near the end of a grid


def _mirrored_delta(above, ratio, epsilon, reach):
    """P(x > t) - e^eps Q(x > t) at the threshold where the ratio is e^eps; mpmath."""
    low, high = -mpmath.mpf(reach), mpmath.mpf(reach)
    for _ in range(160):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio(middle) < epsilon else (low, middle)
    p, q = above(high)
    return float(p - mpmath.exp(epsilon) * q)


def _gaussian_truth(noise, shifts, shares, epsilon):
    with mpmath.workdps(40):
        s = mpmath.mpf(noise)
        pairs = [(mpmath.mpf(c), mpmath.mpf(p)) for c, p in zip(shifts, shares, strict=True)]

        def log_mixed(x):
            return mpmath.log(sum(p * mpmath.exp((2 * c * x - c * c) / (2 * s * s)) for c, p in pairs))

        def above(x):
            tails = (
                sum(p * mpmath.erfc((x - sign * c) / (s * mpmath.sqrt(2))) / 2 for c, p in pairs) for sign in (1, -1)
            )
            return tuple(tails)

        return _mirrored_delta(above, lambda x: log_mixed(x) - log_mixed(-x), mpmath.mpf(epsilon), 80 * noise)


def _laplace_truth(scale, prob, epsilon):
    with mpmath.workdps(40):
        b, q = mpmath.mpf(scale), mpmath.mpf(prob)

        def density(x, centre):
            return mpmath.exp(-abs(x - centre) / b)

        def tail(x, centre):
            z = (x - centre) / b
            return mpmath.exp(-z) / 2 if z > 0 else 1 - mpmath.exp(z) / 2

        def both(of, x):
            return [(1 - q) * of(x, 0) + q * of(x, sign) for sign in (1, -1)]

        def ratio(x):
            p, q = both(density, x)
            return mpmath.log(p / q)

        if epsilon >= ratio(mpmath.mpf(2)):
            return 0.0
        return _mirrored_delta(lambda x: both(tail, x), ratio, mpmath.mpf(epsilon), 1)


def _at_random(seed, count):
    rng = np.random.default_rng(seed)
    return [(10 ** rng.uniform(-0.4, 1.0), 10 ** rng.uniform(-4, -0.05)) for _ in range(count)]


@pytest.mark.parametrize(
    ("noise", "prob"), [(1.0, 0.01), (0.05, 0.3), (0.3, 1e-6), (1e3, 0.5), (40.0, 1e-9), (2.0, 1.0 - 1e-9)]
)
def test_one_sampled_gaussian_step_in_closed_form(noise, prob):
    pair = ((0.0, 1.0), (1.0 - prob, prob))
    for epsilon in (0.0, 1e-5, 0.3, 2.0, 12.0, 150.0):
        found = replaced_step_delta(noise, prob, epsilon)
        if found.lower > 1e-290:
            truth = _gaussian_truth(noise, *pair, epsilon)
            assert found.lower <= truth * (1 + 1e-15) <= found.upper * (1 + 2e-15)
            assert found.upper - found.lower <= 1e-6 * found.lower
    run = ja.PoissonSampled(ja.Gaussian(noise), prob, num_steps=1)
    for delta in (1e-3, 1e-8):
        found = ja.epsilon_interval(run, delta, precision=1e-9, neighboring_relation="replace-one")
        assert found.upper - found.lower <= 1e-8 * found.lower
        if found.lower > 0.0:
            assert replaced_step_delta(noise, prob, found.upper).upper <= delta
            assert replaced_step_delta(noise, prob, found.lower).lower >= delta


def test_one_sampled_gaussian_step_out_of_range():
    for noise, epsilon in ((1e-200, 1.0), (1.0, 700.0), (1e-9, 1.0)):
        assert replaced_step_delta(noise, 0.5, epsilon) == (0.0, 1.0)


@pytest.mark.parametrize(("noise", "prob"), _at_random(1, 6))
def test_one_sampled_gaussian_step(noise, prob):
    run = ja.ReplaceOne(ja.PoissonSampled(ja.Gaussian(noise), prob, num_steps=1))
    above, below = (ja.pld(run, bound=b, resolution=100.0) for b in (UPPER, LOWER))
    assert above.relation is ONE
    for epsilon in (0.0, 0.3 * prob, prob, 0.5, 2.0):
        exact = _gaussian_truth(noise, (0.0, 1.0), (1.0 - prob, prob), epsilon)
        assert below.delta(epsilon) <= exact * (1 + 1e-10) + 1e-20
        assert exact * (1 - 1e-10) <= above.delta(epsilon) <= exact * 1.02 + 1e-9
        found = ja.delta_interval(run, epsilon)
        assert found.lower * (1 - 1e-10) - 1e-20 <= exact <= found.upper * (1 + 1e-10)


@pytest.mark.parametrize(("noise", "prob"), _at_random(2, 6))
def test_one_sampled_laplace_step(noise, prob):
    run = ja.ReplaceOne(ja.PoissonSampled(ja.Laplace(noise), prob, num_steps=1))
    for epsilon in (0.0, 0.3 * prob, prob, 0.5, 2.0):
        exact = _laplace_truth(noise, prob, epsilon)
        found = ja.delta_interval(run, epsilon)
        assert found.lower * (1 - 1e-10) - 1e-20 <= exact <= found.upper * (1 + 1e-10) + 1e-20
        assert found.upper <= exact * 1.02 + 1e-12


@pytest.mark.parametrize("mixture", [(1.0, (0.0, 1.0, 2.0), (0.5, 0.3, 0.2)), (2.5, (0.5, 3.0), (0.9, 0.1))])
def test_one_mixture(mixture):
    for epsilon in (0.0, 0.4, 1.5, 4.0):
        exact = _gaussian_truth(*mixture, epsilon)
        found = ja.delta_interval(ja.ReplaceOne(ja.MixtureOfGaussians(*mixture)), epsilon)
        assert found.lower * (1 - 1e-10) <= exact <= found.upper * (1 + 1e-10)
        assert found.upper <= exact * 1.02 + 1e-12


def test_no_two_records_in_the_plane_are_worse():
    """Any two contributions in the unit disc, sampled: the hockey-stick divergence on a fine grid of the plane."""
    noise, prob = 0.7, 0.3
    rng, axis = np.random.default_rng(3), np.linspace(-6.0, 6.0, 601)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2 / (2 * math.pi * noise**2)

    def density(at):
        return cell * np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / (2 * noise**2))

    nobody = (1 - prob) * density((0.0, 0.0))
    for _ in range(12):
        one, other = (rng.uniform(0, 1) ** 0.3 * np.array([math.cos(a), math.sin(a)]) for a in rng.uniform(0, 7, 2))
        p, q = nobody + prob * density(one), nobody + prob * density(other)
        for epsilon in (0.0, 0.4, 1.2):
            attained = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
            assert attained <= _gaussian_truth(noise, (0.0, 1.0), (1 - prob, prob), epsilon) + 1e-6


@pytest.mark.parametrize(("noise", "prob", "steps"), [(1.0, 0.2, 2), (2.0, 0.05, 2)])
def test_two_steps_on_a_grid(noise, prob, steps):
    axis = np.linspace(-9.0 * noise, 9.0 * noise, 6001)
    cell = axis[1] - axis[0]
    p, q = (
        cell * ((1 - prob) * stats.norm.pdf(axis, 0, noise) + prob * stats.norm.pdf(axis, sign, noise))
        for sign in (1.0, -1.0)
    )
    for epsilon in (0.1, 0.5, 1.5):
        exact = sum(float(np.maximum(a * p - math.exp(epsilon) * b * q, 0.0).sum()) for a, b in zip(p, q, strict=True))
        found = ja.delta_interval(ja.ReplaceOne(ja.PoissonSampled(ja.Gaussian(noise), prob, steps)), epsilon)
        assert found.lower <= exact + 1e-7
        assert exact - 1e-7 <= found.upper <= exact * 1.02 + 1e-7


@pytest.mark.more
def test_never_looser_than_dp_accounting():
    dpa = pytest.importorskip("dp_accounting")
    relation = dpa.NeighboringRelation.REPLACE_ONE
    for noise, prob, steps in ((1.0, 0.01, 100), (0.6, 0.1, 10), (3.0, 0.5, 20), (1.0, 1.0, 5)):
        event = dpa.PoissonSampledDpEvent(prob, dpa.GaussianDpEvent(noise))
        theirs = dpa.pld.PLDAccountant(relation).compose(event, steps).get_epsilon(1e-6)
        run = ja.PoissonSampled(ja.Gaussian(noise), prob, steps)
        found = ja.epsilon_interval(run, 1e-6, neighboring_relation="replace-one", precision=1e-5)
        assert found.lower <= theirs * (1 + 1e-6)
        assert found.upper <= theirs * (1 + 2e-5)


@pytest.mark.parametrize("inner", [ja.Gaussian(2.0), ja.Laplace(3.0), ja.DiscreteLaplace(0.2, 2)])
def test_without_sampling_the_sensitivity_doubles(inner):
    assert ja.epsilon(ja.ReplaceOne(inner), 1e-3) == pytest.approx(ja.epsilon(ja.Group(inner, 2), 1e-3), rel=1e-9)
    several = ja.epsilon(ja.ReplaceOne(ja.Composed(inner, 4)), 1e-3)
    assert several == pytest.approx(ja.epsilon(ja.Group(ja.Composed(inner, 4), 2), 1e-3), rel=2e-3)
    apart = ja.Composed(ja.ReplaceOne(inner), 4)
    assert ja.epsilon(apart, 1e-3) == pytest.approx(several, rel=2e-3)


def test_removal_and_addition_are_never_below_allocation():
    """Explicit records and their opposites, allocated: every output of t steps enumerated."""
    with_it, nobody, other = (0.7, 0.3), (0.5, 0.5), (0.3, 0.7)
    for steps in (2, 4):
        run = ja.ReplaceOne(ja.RandomAllocation(ja.DiscretePair(with_it, nobody), steps))
        deltas = dict.fromkeys((0.0, 0.1, 0.4), 0.0)
        for word in itertools.product((0, 1), repeat=steps):
            base = math.prod(nobody[letter] for letter in word)
            p, q = (base * sum(of[a] / nobody[a] for a in word) / steps for of in (with_it, other))
            for epsilon in deltas:
                deltas[epsilon] += max(p - math.exp(epsilon) * q, 0.0)
        for epsilon, exact in deltas.items():
            assert exact <= ja.delta(run, epsilon) * (1 + 1e-12)
        assert sum(deltas.values()) > 0.05


def test_two_steps_nearly_attain_what_is_known():
    """Of a Gaussian the best split is exact; a search finds nearly that."""
    from jaxacct._method import Bracketing, Query
    from jaxacct.answering._loop import _ask_part
    from jaxacct.bounds._two_steps import in_two_steps

    at = Bracketing(width=1e-6, known={}, wants_lower=False, ask=_ask_part)
    for noise in (0.8, 2.0, 6.0):
        run, truth = ja.Gaussian(noise), ja.Gaussian(0.5 * noise)
        for query, target, exact in (
            (Query.EPSILON, 1e-6, ja.epsilon(truth, 1e-6)),
            (Query.DELTA, 2.0 / noise, ja.delta(truth, 2.0 / noise)),
        ):
            assert exact * (1 - 1e-9) <= in_two_steps(run, query, target, at) <= exact * 1.2


def test_interval_of_allocation():
    found = ja.epsilon_interval(ja.ReplaceOne(ALLOCATED), 1e-6)
    assert found.lower == pytest.approx(ja.epsilon(ALLOCATED, 1e-6), rel=2e-3)
    assert found.lower < found.upper < ja.epsilon(ja.Group(ALLOCATED, 2), 1e-6)
    known = ja.Composed(ja.Gaussian(0.5), 2)
    assert found.upper <= ja.epsilon(known, 1e-6)
    together = ja.epsilon(ja.Composed(ja.ReplaceOne(ja.RandomAllocation(ja.Gaussian(1.0), 100)), 2), 1e-6)
    assert together == pytest.approx(found.upper, rel=2e-2)


@pytest.mark.parametrize("inner", [SAMPLED, ALLOCATED, ja.EpsilonDelta(0.5, 1e-9)])
def test_empty_records_are_removed(inner):
    run = ja.ZeroOut(inner)
    assert ja.epsilon(run, 1e-6) == pytest.approx(ja.epsilon(inner, 1e-6), rel=1e-9)
    for direction in ja.Direction:
        own = ja.delta(inner, 0.3, direction=direction)
        assert ja.delta(run, 0.3, direction=direction) == pytest.approx(own, rel=1e-9)
    assert ja.pld(run).relation is OUT


def test_questions_name_an_adjacency():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.02, 50)
    wrapped = ja.ReplaceOne(run)
    for name in ("replace-one", "replace_one", "Replace One", ONE):
        assert ja.epsilon(run, 1e-6, neighboring_relation=name) == ja.epsilon(wrapped, 1e-6)
    named = {"neighboring_relation": "replace-one"}
    assert ja.epsilon(run, 1e-6, neighboring_relation="add-or-remove") == ja.epsilon(run, 1e-6)
    assert ja.delta(run, 1.0, **named) == ja.delta(wrapped, 1.0)
    assert ja.delta_interval(run, 1.0, **named) == ja.delta_interval(wrapped, 1.0)
    assert ja.tradeoff(run, 0.01, **named) == ja.tradeoff(wrapped, 0.01)
    assert {entry.neighboring_relation for entry in ja.compare(run, 1e-6, **named)} == {ONE}
    assert ja.accounting.plan(run, 1e-6, **named) == ja.accounting.plan(wrapped, 1e-6)
    noise = ja.calibrate(ja.PoissonSampled(ja.Gaussian(None), 0.02, 50), "noise_multiplier", 2.0, 1e-6, **named)
    assert ja.epsilon(ja.PoissonSampled(ja.Gaussian(noise), 0.02, 50), 1e-6, **named) <= 2.0
    swept = ja.sweep(run, {"noise_multiplier": [1.0, 2.0]}, target_delta=1e-6, **named)
    assert swept.values[0] == pytest.approx(ja.epsilon(wrapped, 1e-6), rel=1e-9)
    text = ja.report(run, 1e-6, **named)
    assert "replace one record" in text
    assert "replaced by any other" in text
    assert "ja.ReplaceOne(" in text
    shuffled = ja.Shuffled(ja.LocalRandomizer(1.0), 1000)
    assert ja.epsilon(shuffled, 1e-6, **named) == ja.epsilon(shuffled, 1e-6)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda: ja.epsilon(ja.Gaussian(1.0), 1e-6, neighboring_relation="swap"),
            "'swap'.*zero-out",
        ),
        (
            lambda: ja.epsilon(ja.ShuffledBatches(ja.Gaussian(1.0), 9), 1e-6, neighboring_relation="add-or-remove"),
            "described for 'zero-out'",
        ),
        (
            lambda: ja.epsilon(ja.Shuffled(ja.LocalRandomizer(1.0), 99), 1e-6, neighboring_relation="zero-out"),
            "has no analysis",
        ),
        (lambda: ja.ReplaceOne(ja.ReplaceOne(ja.Gaussian(1.0))), "has no analysis"),
        (lambda: ja.ZeroOut(ja.Shuffled(ja.LocalRandomizer(1.0), 99)), "has no analysis"),
        (lambda: ja.ReplaceOne((ja.Gaussian(1.0),)), "it is not a mechanism; must be one"),
        (lambda: ja.epsilon(ja.ReplaceOne(ja.Gaussian(1.0)), 1e-6, neighboring_relation="zero-out"), "replace-one"),
        (lambda: ja.epsilon(ja.rdp(ja.Gaussian(1.0), [2]), 1e-6, neighboring_relation="zero-out"), "the curve's own"),
    ],
)
def test_what_has_no_analysis_is_refused(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()


def test_training_counts_in_the_adjacency_named():
    from jaxacct import training

    state = training.ReleaseCountState(np.array([20], np.int32))
    for run in (ja.PoissonSampled(ja.Gaussian(1.0), 0.02, num_steps=1), ja.RandomAllocation(ja.Gaussian(1.0), 10)):
        alone = training.privacy_spent(state, run, 1e-6)
        assert training.privacy_spent(state, ja.ZeroOut(run), 1e-6) == pytest.approx(alone, rel=1e-6)
        assert training.privacy_spent(state, ja.ReplaceOne(run), 1e-6) > alone


@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")  # below the largest loss
def test_largest_losses_of_both_steps_end_together():
    """Only equal epsilons leave nothing of either step at twice the largest loss; before it little is left."""
    run, largest = ja.ReplaceOne(ja.Group(ja.PermuteAndFlip(0.9), 3)), 2 * 2.7
    assert ja.delta(run, largest * (1.0 + 1e-6)) == 0.0
    before = [ja.delta(run, largest * x) for x in (0.99, 0.999, 0.9999)]
    assert 0.0 < before[2] <= before[1] <= before[0]
    # at most what is left of the one step where the other ends: e^{x - y} - 1, twice, for what is purely y-DP
    assert before[2] <= 2.5e-3


@pytest.mark.parametrize("floors", [(1e-6, 0.0), (0.05, 0.0), (0.0, 0.05), (1e-6, 1e-4)])
@pytest.mark.parametrize("more", [0.03, 0.3])
def test_a_delta_that_remains_in_one_step_is_left_to_it(floors, more):
    """Little above the least delta of one step, that step needs nearly all of it: beside all splits on a grid."""
    losses = np.array([-1.0, 1.0])
    others = np.linalg.solve([np.exp(losses), [1.0, 1.0]], 1.0 - np.array(floors))  # masses without the record
    run = ja.Pld(-1.0, 2.0, np.exp(losses) * others, floors[0], UPPER, ja.Direction.REMOVE)
    grid = np.linspace(0.0, 2.0, 401)
    removed, added = (np.array([ja.delta(run, x, direction=d) for x in grid]) for d in ja.Direction)
    split = removed[:, None] + np.exp(grid)[:, None] * added
    target = float(split.min()) * (1.0 + more)
    best = float((grid[:, None] + grid)[split <= target].min())
    found = ja.epsilon(ja.ReplaceOne(run), target)
    assert best * (1.0 - 1e-2) - 0.01 <= found <= best * (1.0 + 1e-2) + 1e-9
