"""Every certified upper bound lies above every certified lower bound and above the truth, by whichever route."""

import itertools
import math
import warnings

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from support.answers import DELTA, EPSILON, bracket_of

import jaxacct as ja
from jaxacct import Bound, Direction
from jaxacct._method import LaneMethod
from jaxacct.answering._lanes import ask
from jaxacct.answering._question import Question
from jaxacct.bounds import methods_for
from jaxacct.bounds._host_line import EXACT, is_of_gaussians

TOL_BRUTE = 1e-12  # relative error of a sum over all outputs in float64
TOL_MASS = 1e-15  # its absolute error: differences of probabilities

pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning", "ignore::jaxacct.PrecisionWarning")


def above(upper, lower):
    return upper >= lower * (1.0 - TOL_BRUTE) - TOL_MASS


# The truth, by enumeration


def product(laws):
    return np.array([math.prod(outcome) for outcome in itertools.product(*laws)])


def allocated(p, q, num_steps, num_selected):
    """(P, Q) over all outputs of true k-of-t allocation."""
    sets = list(itertools.combinations(range(num_steps), num_selected))
    with_record = sum(product([p if i in s else q for i in range(num_steps)]) for s in sets) / len(sets)
    return with_record, product([q] * num_steps)


def divergence(p, q, epsilon):
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0))


def random_pair(rng):
    size = int(rng.integers(2, 4))
    p, q = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 5.0])), 2)
    if rng.random() < 0.3:  # outputs that only one of them has
        p[0] = q[-1] = 0.0
    return tuple(x / x.sum() for x in (p, q))


def enumerable(rng):
    """(mechanism, P, Q, whether its upper bound is a reduction)."""
    p, q = random_pair(rng)
    pair, t = ja.DiscretePair(p.tolist(), q.tolist()), int(rng.integers(1, 5))
    yield ja.Composed(pair, t), product([p] * t), product([q] * t), False
    s = float(rng.choice([1.0, 0.5, 0.01]))
    yield ja.PoissonSampled(pair, s, t), product([s * p + (1 - s) * q] * t), product([q] * t), False
    k = int(rng.integers(1, t + 1))
    yield ja.RandomAllocation(pair, t, k), *allocated(p, q, t, k), 1 < k < t
    first, nothing = allocated(p, q, k, 1)
    yield ja.PartialAllocation(pair, t, k), k / t * first + (1 - k / t) * nothing, nothing, False


def check_enumerated(seed):
    rng = np.random.default_rng(seed)
    for mechanism, p, q, is_reduction in enumerable(rng):
        for epsilon in (0.0, float(rng.uniform(0.0, 2.0))):
            truth = {Direction.REMOVE: divergence(p, q, epsilon), Direction.ADD: divergence(q, p, epsilon)}
            for d, value in truth.items():
                for tail in (1e-22, 0.01):
                    loss = ja.pld(mechanism, direction=d, tail=tail)
                    assert above(loss.delta(epsilon), value), (mechanism, d, epsilon, tail)
                if not is_reduction:
                    below = ja.pld(mechanism, direction=d, bound=Bound.LOWER).delta(epsilon)
                    assert above(value, below), (mechanism, d, epsilon)
            found = ja.delta_interval(mechanism, epsilon)
            worst = max(truth.values())
            assert above(worst, found.lower), (mechanism, epsilon, found, worst)
            assert above(found.upper, worst), (mechanism, epsilon, found, worst)
            assert found.lower <= found.upper
            assert ja.delta(mechanism, epsilon) >= found.lower
            if 1e-9 < worst < 1.0:
                answer = min(ja.epsilon(mechanism, worst), 700.0)  # inf where outputs that only one has weigh as much
                reached = max(divergence(p, q, answer), divergence(q, p, answer))
                assert above(worst * (1.0 + 1e-9), reached), (mechanism, worst, answer)


@pytest.mark.parametrize("seed", range(3))
def test_small_cases_against_enumeration(seed):
    check_enumerated(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 60))
def test_more_small_cases_against_enumeration(seed):
    check_enumerated(seed)


@pytest.mark.parametrize("direction", list(Direction))
def test_outputs_that_only_one_of_them_has(direction):
    """Ratios of 0 and of infinity go through sampling, and through an epoch that is unfinished."""
    p, q = np.array([0.0, 0.5, 0.5]), np.array([0.3, 0.7, 0.0])
    pair = ja.DiscretePair(p.tolist(), q.tolist())
    first, nothing = allocated(p, q, 2, 1)
    for mechanism, laws in (
        (ja.PoissonSampled(pair, 0.3, 2), (product([0.3 * p + 0.7 * q] * 2), nothing)),
        (ja.PartialAllocation(pair, 5, 2), (0.4 * first + 0.6 * nothing, nothing)),
    ):
        upper, lower = (ja.pld(mechanism, direction=direction, bound=b) for b in (Bound.UPPER, Bound.LOWER))
        for epsilon in (0.0, 0.2, 3.0):
            truth = divergence(*(laws if direction is Direction.REMOVE else laws[::-1]), epsilon)
            assert above(upper.delta(epsilon), truth), (mechanism, epsilon)
            assert above(truth, lower.delta(epsilon)), (mechanism, epsilon)


def test_outputs_that_never_agree():
    """Every output tells: delta 1 in each direction, as often as it is asked."""
    pair = ja.DiscretePair((0.0, 1.0), (1.0, 0.0))
    for run in (ja.Composed(pair, 2), ja.PoissonSampled(pair, 1.0, 3), ja.RandomAllocation(pair, 3, 3)):
        assert ja.epsilon(run, 0.1) == math.inf
        assert 1.0 - 1e-9 <= ja.delta_interval(run, 1.0).lower <= ja.delta(run, 1.0) == 1.0
        for d, bound in itertools.product(Direction, (Bound.UPPER, Bound.LOWER)):
            assert ja.pld(run, direction=d, bound=bound).delta(0.5) == pytest.approx(1.0, abs=1e-9)


def binary_delta(p, q, count, epsilon):
    terms = (
        math.comb(count, k)
        * max(0.0, p**k * (1 - p) ** (count - k) - math.exp(epsilon) * q**k * (1 - q) ** (count - k))
        for k in range(count + 1)
    )
    return math.fsum(terms)


TAME = [(0.75, 0.25, 5), (0.5, 0.01, 8), (0.9, 0.05, 20)]
FAR = [(0.5, 1e-9, 3), (0.5, 1e-12, 20), (0.3, 1e-10, 20)]


def check_binary(p, q, count):
    mechanism = ja.Composed(ja.DiscretePair([p, 1 - p], [q, 1 - q]), count)
    for epsilon, d in itertools.product((0.0, 0.5, 2.0), Direction):
        truth = binary_delta(*((p, q) if d is Direction.REMOVE else (q, p)), count, epsilon)
        for resolution in (24.0, 100.0):
            assert above(ja.pld(mechanism, direction=d, resolution=resolution).delta(epsilon), truth)
            assert above(truth, ja.pld(mechanism, direction=d, resolution=resolution, bound=Bound.LOWER).delta(epsilon))
        assert above(ja.delta(mechanism, epsilon, direction=d), truth)
    found = ja.delta_interval(mechanism, 0.0)
    assert found.lower <= found.upper <= 1.0


@pytest.mark.parametrize(("p", "q", "count"), TAME)
def test_compositions_against_the_binomial(p, q, count):
    check_binary(p, q, count)


@pytest.mark.parametrize(("p", "q", "count"), FAR)
def test_compositions_whose_losses_begin_far_away(p, q, count):
    check_binary(p, q, count)


def test_composing_keeps_all_mass():
    """What a dominating distribution holds adds up to 1 or more, what a dominated one holds to 1 or less."""
    for pair in (ja.Laplace(0.5), ja.DiscretePair([0.7, 0.3], [0.2, 0.8]), ja.Gaussian(2.0)):
        for count, d in itertools.product((1, 4, 30), Direction):
            upper, lower = (ja.pld(ja.Composed(pair, count), direction=d, bound=b) for b in (Bound.UPPER, Bound.LOWER))
            assert upper.masses.sum() + upper.infinite_mass >= 1.0 - TOL_MASS
            assert lower.masses.sum() + lower.infinite_mass <= 1.0 + TOL_MASS


@pytest.mark.parametrize("bound", [Bound.UPPER, Bound.LOWER])
def test_a_distribution_is_read_on_its_safe_side(bound):
    rng = np.random.default_rng(5)
    for _ in range(30):
        masses = rng.dirichlet(np.full(40, 0.3)) * 0.9
        loss = ja.Pld(-1.0, 0.0625, masses, 0.0625, bound, Direction.REMOVE)
        for epsilon in (0.0, float(rng.uniform(0.0, 1.4)), 5.0):
            with mp.workdps(40):
                terms = (
                    mp.mpf(float(m)) * max(0, -mp.expm1(mp.mpf(epsilon) - mp.mpf(float(x))))
                    for m, x in zip(masses, loss.losses, strict=True)
                )
                truth = mp.mpf(0.0625) + mp.fsum(terms)
                read = mp.mpf(loss.delta(epsilon))
                assert read >= truth if bound is Bound.UPPER else read <= truth
        for delta in (0.1, float(rng.uniform(0.07, 0.5))):
            found = loss.delta(loss.epsilon(delta))
            assert found <= delta if bound is Bound.UPPER else found >= delta or loss.epsilon(delta) == 0.0
        assert bound is Bound.LOWER or math.isinf(loss.epsilon(0.0625))


# Methods on lanes: a batch of random settings each

LANES = 64
_FEW = 16  # of them, asked on the host one by one


def families(rng, most=1e4):
    """(name, mechanism of lanes)."""

    def real(low, high):
        return np.exp(rng.uniform(math.log(low), math.log(high), LANES))

    def whole(low, high):
        return np.round(real(low, high))

    def ends(values, *limits):
        return np.where(rng.random(LANES) < 0.2, rng.choice(limits, LANES), values)

    t, q, rounds = whole(1, most), ends(real(1e-6, 1.0), 0.0, 1.0), ends(whole(1, 10), 1.0)
    local, few = ends(real(1e-3, 8.0), 0.0), whole(1, most / 20)
    pure, kary = ja.LocalRandomizer(local), ja.KaryRandomizedResponse(local, whole(2, 50))
    noisy = ja.GaussianReports(real(0.3, 50.0))
    yield "Gaussian", ja.Gaussian(real(1e-3, 1e3))
    yield "Poisson", ja.PoissonSampled(ja.Gaussian(real(0.2, 20)), q, t)
    yield "allocation", ja.RandomAllocation(ja.Gaussian(real(0.2, 20)), t, np.minimum(t, whole(1, 20)), rounds)
    yield "schedule", ja.ScheduledAllocation((real(0.3, 20), real(0.3, 20)), (t, whole(1, 500)), rounds)
    yield "shuffled", ja.Shuffled(pure, few, rounds)
    yield (
        "shuffled, approximate",
        ja.Shuffled(ja.LocalRandomizer(local, ends(real(1e-15, 1e-2), 0.0, 1.0)), few, rounds),
    )
    yield "shuffled k-ary", ja.Shuffled(kary, few, rounds)
    yield "shuffled Gaussian", ja.Shuffled(noisy, few, rounds)
    for name, one in (("pure", pure), ("k-ary", kary), ("Gaussian", noisy)):
        yield f"check-in, {name}", ja.CheckIn(one, few, q, rounds, ends(np.zeros(LANES), 0.5, 1.0))


QUICK = ("Gaussian",)
FAMILIES = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name, _ in families(np.random.default_rng(0))
]


@pytest.mark.parametrize("name", FAMILIES)
def test_no_method_contradicts_another(name):
    rng = np.random.default_rng(1)
    mechanism = dict(families(rng))[name]
    delta = np.where(rng.random(LANES) < 0.1, 1.0 - 1e-9, np.exp(rng.uniform(-35.0, -0.5, LANES)))
    epsilon = np.where(rng.random(LANES) < 0.1, 0.0, np.exp(rng.uniform(-8.0, 3.0, LANES)))
    if name in ("shuffled Gaussian", "check-in, Gaussian"):  # seconds for each point
        mechanism, delta, epsilon = jax.tree.map(lambda x: x[:8], (mechanism, delta, epsilon))
    for query, target in ((EPSILON, delta), (DELTA, epsilon)):
        uppers, lowers = {}, {}
        for method in (m for m in methods_for(mechanism, is_batch=True) if isinstance(m, LaneMethod)):
            if method.ends == {Bound.LOWER} and method.is_of_reduction(mechanism):  # others may pass it
                continue
            value = np.asarray(ask(method, mechanism, query, target).value)
            for d in method.directions:
                (uppers if Bound.UPPER in method.ends else lowers)[d, method.name] = value
        if is_of_gaussians(mechanism):
            points = [x for _, x in Question(mechanism, query, target, tuple(Direction), 1e-3).points()]
            for d in Direction:
                found = [bracket_of(EXACT, x.mechanism, query, x.target, d) for x in points[:_FEW]]
                above, below = (np.full(len(points), x) for x in (query.worst, 0.0))
                above[:_FEW], below[:_FEW] = zip(*((e.upper, e.lower) for e in found), strict=True)
                uppers[d, "inverted"], lowers[d, "inverted"] = above, below
        for key, value in (uppers | lowers).items():
            assert not np.isnan(value).any(), key
            assert np.all(value >= 0.0), key
        for (d, above_by), (e, below_by) in itertools.product(uppers, lowers):
            if d is e:
                at = np.flatnonzero(lowers[e, below_by] > uppers[d, above_by] * (1.0 + 1e-15))
                assert not at.size, (query.value, above_by, below_by, at[:3], target[at[:3]])


# Sampled, traced, and at the limits


@pytest.mark.slow
@pytest.mark.parametrize("direction", list(Direction))
def test_true_k_of_t_is_not_above_the_bound(direction):
    for sigma, t, k, epochs in ((0.8, 6, 2, 1), (1.5, 10, 5, 2)):
        mechanism = ja.RandomAllocation(ja.Gaussian(sigma), t, k, epochs)
        sampled = ja.estimate_delta(mechanism, 0.3, num_samples=20_000, seed=3, direction=direction)
        assert ja.delta(mechanism, 0.3, direction=direction) >= sampled.mean - 5.0 * sampled.standard_error
        assert sampled.upper_confidence >= sampled.mean


@pytest.mark.slow
def test_a_traced_answer_is_not_below_the_interval():
    build = {
        "Gaussian": lambda s: ja.Gaussian(s),
        "Poisson": lambda s: ja.PoissonSampled(ja.Gaussian(s), 0.01, 100),
    }
    for make in build.values():
        eager = ja.epsilon_interval(make(1.0), 1e-6)
        assert float(jax.jit(lambda s, make=make: ja.epsilon(make(s), 1e-6))(jnp.float32(1.0))) >= eager.lower


def test_limits():
    noise = ja.Gaussian(1.3)
    exact = ja.epsilon(noise, 1e-5)
    for same in (
        ja.RandomAllocation(noise, 1),
        ja.PoissonSampled(noise, 1.0, num_steps=1),
        ja.Composed(noise, 1),
        ja.Composed((ja.RandomAllocation(noise, 1),), 1),
    ):
        assert exact * (1.0 - 1e-9) <= ja.epsilon(same, 1e-5) <= exact * 1.01
    assert ja.epsilon(ja.Shuffled(ja.LocalRandomizer(0.0), 10), 1e-6) == 0.0
    assert ja.epsilon(ja.PoissonSampled(noise, 0.0, 5), 1e-6) == 0.0
    for delta in (5e-324, 1e-300, 1.0 - 2.0**-53):
        assert ja.epsilon(noise, delta) >= 0.0


@pytest.mark.parametrize("sampling_prob", [1e-163, 1e-170, 1e-300])
def test_rare_sampling_is_not_free(sampling_prob):
    # the one step's total variation is q (2 Phi(1/2) - 1)
    least = 0.3829 * sampling_prob
    assert ja.delta(ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob, num_steps=1), 0.0) >= least


@pytest.mark.parametrize("ask_it", [ja.gdp, lambda m: ja.delta(m, 0.0)], ids=["gdp", "delta"])
@pytest.mark.parametrize("noise_multiplier", [1e160, 1.7e308])
def test_huge_noise_is_not_free(ask_it, noise_multiplier):
    """Neither 1/sigma nor its square may be flushed to 0."""
    noise = ja.Gaussian(noise_multiplier)
    assert ask_it(noise) >= 0.39 / noise_multiplier
    assert ask_it(ja.Composed(noise, 4)) >= 0.78 / noise_multiplier


SAME = ja.DiscretePair([0.5, 0.5], [0.5, 0.5])
NOTHING_LOST = [
    pytest.param(ja.PoissonSampled(ja.Gaussian(1.0), 0.0, num_steps=1), marks=pytest.mark.slow),
    SAME,
    ja.RandomAllocation(SAME, 5, 2),
    pytest.param(ja.Shuffled(ja.KaryRandomizedResponse(0.0, 3), 10, 2), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("mechanism", NOTHING_LOST, ids=["Poisson", "pair", "allocation", "reports"])
def test_a_mechanism_that_loses_nothing(mechanism):
    assert ja.epsilon(mechanism, 1e-6) == ja.delta(mechanism, 0.0) == 0.0
    assert ja.delta_interval(mechanism, 0.0) == ja.Interval(0.0, 0.0, 0.0)
    assert 0.7 - 1e-11 <= ja.tradeoff(mechanism, 0.3) <= 0.7
    for bound in (Bound.UPPER, Bound.LOWER):
        loss = ja.pld(mechanism, bound=bound)
        assert loss.delta(0.0) == ja.compose(loss, 10).delta(0.0) == 0.0
    assert min(entry.value for entry in ja.compare(mechanism, 1e-6)) == 0.0
    assert ja.report(mechanism, 1e-6).startswith("epsilon = 0 at")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_compare_agrees_with_itself(seed):
    """All lines of `compare`, both ends: the host's engines and loss distributions among them."""
    rng = np.random.default_rng(seed)
    sigma, t = float(np.exp(rng.uniform(-1.0, 2.0))), int(rng.integers(1, 300))
    k = int(rng.integers(1, min(t, 8) + 1))
    noise = ja.Gaussian(sigma)
    for mechanism in (
        ja.RandomAllocation(noise, t),
        ja.PartialAllocation(noise, t, k),
        ja.PoissonSampled(noise, float(rng.uniform(1e-3, 1.0)), t),
        ja.ScheduledAllocation((sigma, 2.0 * sigma), (t, k), 2),
        ja.Composed((ja.RandomAllocation(noise, t), ja.PoissonSampled(noise, 0.1, k)), (2, 1)),
        ja.RandomAllocation(ja.Laplace(sigma), t, 1, 2),
    ):
        epsilon = float(rng.choice([0.0, rng.uniform(0.0, 3.0)]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entries = ja.compare(mechanism, target_epsilon=epsilon)
        for d in Direction:
            uppers = [e.value for e in entries if e.direction is d and e.bound is Bound.UPPER]
            lowers = [e.value for e in entries if e.direction is d and e.bound is Bound.LOWER]
            assert min(uppers) >= max(lowers, default=0.0) * (1.0 - 1e-14), (mechanism, epsilon, d)
