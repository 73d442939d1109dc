"""Renyi divergences of Laplace noise and of releases with few outputs, sampled and allocated, beside mpmath."""

import math

import jax
import mpmath
import numpy as np
import pytest

import jaxacct as ja

INF = math.inf
SIDES = ("remove", "add")
EXACT = 1e-9  # relative, of closed forms and sums; but for what is booked where a divergence is below 1e-9
RULE = 1e-4  # relative, of the rule between the atoms of Laplace noise


def _power(order, side):
    """What is averaged over the outputs without the record, of the likelihood ratio: the moment, or its slope at 1."""
    if order == 1:
        return (lambda y: y * mpmath.log(y)) if side == "remove" else (lambda y: -mpmath.log(y))
    return lambda y: y ** (order if side == "remove" else 1 - order)


def _from_moment(moment, order):
    return moment if order == 1 else mpmath.log(moment) / (order - 1)


def laplace(scale, prob, order, side):
    """One Laplace release, sampled: two atoms and a density in the loss."""
    x, q, f = 1 / mpmath.mpf(scale), mpmath.mpf(prob), _power(order, side)

    def ratio(v):
        return 1 - q + q * mpmath.exp(v)

    ends = [-x + 2 * x * i / 16 for i in range(17)]
    inner = mpmath.quad(lambda v: mpmath.exp(-(v + x) / 2) / 4 * f(ratio(v)), ends)
    return _from_moment(f(ratio(-x)) / 2 + mpmath.exp(-x) / 2 * f(ratio(x)) + inner, order)


def outputs(p, q, order, side):
    """A pair of listed probabilities."""
    f = _power(order, side)
    return _from_moment(sum(b * f(mpmath.mpf(a) / b) for a, b in zip(p, q, strict=True) if b > 0), order)


def geometric(decay, shift, far=2000):
    def mass(x):
        return mpmath.tanh(mpmath.mpf(decay) / 2) * mpmath.exp(-mpmath.mpf(decay) * abs(x))

    every = range(-far, far)
    return [mass(x - shift) for x in every], [mass(x) for x in every]


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(6))
def test_laplace_at_random(seed):
    rng = np.random.default_rng(seed)
    scale, orders = float(np.exp(rng.uniform(-3.0, 4.0))), [1.0, 1.0 + float(rng.uniform(0, 1)), 2.0, 7.3, 64.0]
    found = ja.rdp(ja.Laplace(scale), [*orders, INF]).values
    with mpmath.workdps(40):
        for order, value in zip(orders, found[:-1], strict=True):
            truth = laplace(scale, 1, mpmath.mpf(order), "remove")
            assert truth <= value <= truth * (1 + EXACT)
    assert 1.0 / scale <= found[-1] <= (1.0 + 1e-14) / scale


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("side", SIDES)
def test_sampled_laplace_at_random(seed, side):
    rng = np.random.default_rng([seed, 7])
    scale, prob = float(np.exp(rng.uniform(-2.5, 4.0))), float(np.exp(rng.uniform(-9.0, 0.0)))
    orders = [1.0, 1.0 + float(rng.uniform(0, 1)), 2.0, 5.5, 31.0, 200.0]
    found = ja.rdp(ja.PoissonSampled(ja.Laplace(scale), prob, 3), [*orders, INF], direction=side).values / 3
    with mpmath.workdps(40):
        for order, value in zip(orders, found[:-1], strict=True):
            truth = laplace(scale, prob, mpmath.mpf(order), side)
            assert truth <= value <= truth * (1 + RULE)
            if side == "remove" and order in (2.0, 31.0, 200.0):
                assert value <= truth * (1 + EXACT)
        q, x = mpmath.mpf(prob), (1 if side == "remove" else -1) / mpmath.mpf(scale)
        largest = abs(mpmath.log(1 - q + q * mpmath.exp(x)))
        assert largest <= found[-1] <= largest * (1 + EXACT)


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("side", SIDES)
def test_discrete_pairs_at_random(seed, side):
    rng = np.random.default_rng([seed, 3])
    p, q = (rng.dirichlet(np.ones(6)) for _ in range(2))
    prob, orders = float(rng.uniform(0.001, 1)), [1.0, 1.7, 2.0, 12.5]
    pair = ja.DiscretePair(p, q)
    whole = ja.rdp(pair, [*orders, INF], direction=side).values
    sampled = ja.rdp(ja.PoissonSampled(pair, prob, 2), [*orders, INF], direction=side).values / 2
    with mpmath.workdps(40):
        p, q = (np.array([mpmath.mpf(v) for v in row]) for row in (pair.p, pair.q))
        for found, mixed in ((whole, p), (sampled, prob * p + (1 - mpmath.mpf(prob)) * q)):
            for order, value in zip(orders, found[:-1], strict=True):
                truth = outputs(mixed, q, mpmath.mpf(order), side)
                slack = 1e-15 / (order - 1) if order > 1 else 1e-15  # of probabilities that do not add up to 1
                assert truth <= value * (1 + 1e-15) <= truth * (1 + 1e-6) + slack
            losses = [mpmath.log(a / b) * (1 if side == "remove" else -1) for a, b in zip(mixed, q, strict=True)]
            assert max(losses) <= found[-1] <= max(losses) * (1 + EXACT)


def test_what_one_of_the_two_cannot_say_is_infinite_in_one_direction():
    pair = ja.DiscretePair((0.7, 0.3, 0.0), (0.2, 0.7, 0.1))
    orders = [1.0, 2.0, 30.0, INF]
    assert np.all(np.isfinite(ja.rdp(pair, orders, direction="remove").values))
    assert np.all(np.isinf(ja.rdp(pair, orders, direction="add").values))
    mirror = ja.DiscretePair(pair.q, pair.p)
    assert np.all(np.isinf(ja.rdp(mirror, orders, direction="remove").values))
    assert np.all(np.isinf(ja.rdp(ja.PoissonSampled(mirror, 0.1, num_steps=1), orders, direction="remove").values))
    added = ja.rdp(ja.PoissonSampled(mirror, 0.5, num_steps=1), [2.0], direction="add").values[0]
    with mpmath.workdps(30):
        mixed = [(mpmath.mpf(a) + b) / 2 for a, b in zip(mirror.p, mirror.q, strict=True)]
        truth = mpmath.log(sum(mpmath.mpf(b) ** 2 / a for a, b in zip(mixed, mirror.q, strict=True) if b > 0))
    assert truth <= added <= truth * (1 + EXACT)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("decay", "shift"), [(0.5, 1), (0.37, 4), (2.0, 3), (0.05, 2)])
def test_discrete_laplace(decay, shift):
    orders = [1.0, 1.3, 2.0, 9.5, 40.0]
    found = ja.rdp(ja.DiscreteLaplace(decay, shift), [*orders, INF]).values
    with mpmath.workdps(40):
        pair = geometric(decay, shift)
        for order, value in zip(orders, found[:-1], strict=True):
            truth = outputs(*pair, mpmath.mpf(order), "remove")
            assert truth * (1 - mpmath.mpf(10) ** -15) <= value <= truth * (1 + EXACT)
    assert found[-1] == pytest.approx(decay * shift, rel=1e-12)


@pytest.mark.parametrize("prob", [0.01, 0.5, 1.0])
def test_order_one_of_a_sampled_gaussian(prob):
    """Read from above at an order near 1."""
    run = ja.PoissonSampled(ja.Gaussian(1.5), prob, num_steps=1)
    with mpmath.workdps(30):

        def term(z):
            y = 1 - prob + prob * mpmath.exp(z / 1.5 - 1 / (2 * mpmath.mpf(1.5) ** 2))
            return mpmath.npdf(z) * y * mpmath.log(y)

        truth = mpmath.quad(term, range(-14, 17, 2))
    found = ja.rdp(run, [1.0, 1.02], direction="remove").values
    assert truth <= found[0] <= truth * (1 + 1e-4)
    assert found[0] <= found[1]


def test_orders_one_and_infinity_where_they_are_known():
    e = math.e
    known = {
        ja.Gaussian(2.0): (0.125, INF),
        ja.ZCdp(0.1, 0.01): (0.11, INF),
        ja.DiscreteGaussian(2.0, 1): (0.125, INF),
        ja.RandomizedResponse(1.0, 4): ((e - 1) / (e + 3), 1.0),
        ja.EpsilonDelta(1.0): (math.tanh(0.5), 1.0),
        ja.EpsilonDelta(1.0, 1e-9): (INF, INF),
        ja.Laplace(2.0): (0.5 - 1 + math.exp(-0.5), 0.5),
        ja.PermuteAndFlip(0.5): (0.5 - 1 + math.exp(-0.5), 0.5),
        ja.Composed((ja.Gaussian(2.0), ja.Laplace(2.0)), (2, 1)): (0.25 + math.exp(-0.5) - 0.5, INF),
        ja.Composed(ja.Laplace(2.0), 3): (3 * (math.exp(-0.5) - 0.5), 1.5),
    }
    for mechanism, (one, largest) in known.items():
        found = ja.rdp(mechanism, [1.0, INF]).values
        assert found[0] == pytest.approx(one, rel=1e-12)
        assert found[1] == pytest.approx(largest, rel=1e-12)
    spread = ja.rdp(ja.Exponential(1.0), [1.0, 2.0, INF]).values
    assert 0 < spread[0] <= spread[1] <= spread[2] == pytest.approx(1.0)
    run = ja.RandomAllocation(ja.Gaussian(1.0), 100)  # nothing is known of the largest loss
    found = ja.rdp(run, [1.0, 1.02, INF]).values
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[2] == INF


def test_a_curve_with_the_largest_loss_converts_to_it():
    curve = ja.rdp(ja.Laplace(2.0), [1.0, 2.0, INF])
    assert ja.epsilon(curve, 1e-9) == pytest.approx(0.5, rel=1e-12)
    assert ja.delta(curve, 0.5000001) == 0.0
    assert ja.epsilon(ja.rdp(ja.Laplace(2.0), [1.0]), 1e-9) == INF
    assert ja.delta(ja.rdp(ja.Laplace(2.0), [1.0]), 1.0) == 1.0
    twice = ja.compose(curve, 2)
    assert ja.epsilon(twice, 1e-9) == pytest.approx(1.0, rel=1e-12)


def _two_allocated(scale, order, side):
    """One of two Laplace steps."""
    x, f = 1 / mpmath.mpf(scale), _power(order, side)
    atoms = [(mpmath.mpf(1) / 2, -x), (mpmath.exp(-x) / 2, x)]

    def mean(u, v):
        return f((mpmath.exp(u) + mpmath.exp(v)) / 2)

    def inner(u):
        return mpmath.quad(lambda v: mpmath.exp(-(v + x) / 2) / 4 * mean(u, v), [-x, 0, x])

    moment = sum(a * b * mean(u, v) for a, u in atoms for b, v in atoms) + 2 * sum(a * inner(u) for a, u in atoms)
    moment += mpmath.quad(lambda u: mpmath.exp(-(u + x) / 2) / 4 * inner(u), [-x, 0, x])
    return _from_moment(moment, order)


@pytest.mark.more
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_allocated_laplace_is_no_less_than_two_steps_are(scale):
    run = ja.RandomAllocation(ja.Laplace(scale), 2)
    orders = [1.0, 2.0, 3.0, 8.0]
    removed, added = (ja.rdp(run, orders, direction=side).values for side in SIDES)
    with mpmath.workdps(15):
        for order, value, other in zip(orders, removed, added, strict=True):
            truth = _two_allocated(scale, mpmath.mpf(order), "remove")
            assert truth * (1 - 1e-12) <= value
            assert order < 2 or value <= truth * (1 + 1e-9)
            assert _two_allocated(scale, mpmath.mpf(order), "add") * (1 - 1e-12) <= other
    # several steps and epochs add up
    many = ja.RandomAllocation(ja.Laplace(scale), 4, 2, 3)
    np.testing.assert_allclose(ja.rdp(many, [2.0, 8.0]).values, 6 * ja.rdp(run, [2.0, 8.0]).values, rtol=1e-9)
    assert ja.rdp(many, [INF]).values[0] == pytest.approx(6 / scale, rel=1e-12)


RUNS = {
    "Laplace": lambda b: ja.Laplace(b),
    "composed": lambda b: ja.Composed((ja.Laplace(b), ja.Gaussian(2.0)), (3, 2)),
    "sampled": lambda b: ja.PoissonSampled(ja.Laplace(b), 0.1, 20),
    "allocated": lambda b: ja.RandomAllocation(ja.Laplace(b), 50),
    "selected": lambda b: ja.PrivateSelection(ja.Laplace(b), 5.0),
    "choice": lambda b: ja.PermuteAndFlip(1.0 / b),
    "counts": lambda b: ja.DiscreteLaplace(1.0 / b, 2),
}


@pytest.mark.sample(1)
@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning", "ignore::jaxacct.PrecisionWarning")  # they are valid
@pytest.mark.parametrize("name", RUNS)
def test_traced_programs_answer_and_are_never_below(name):
    """Inside jit, vmap and grad; outside, the host's methods answer, also quick questions."""
    make = RUNS[name]
    inside = np.asarray(jax.jit(jax.vmap(lambda b: ja.epsilon(make(b), 1e-5)))(np.array([2.0, 3.0], np.float32)))
    outside = [ja.epsilon_interval(make(b), 1e-5) for b in (2.0, 3.0)]
    assert np.all(inside >= [ends.lower for ends in outside])
    assert np.all(inside <= [3.0 * ends.upper for ends in outside])
    slope = jax.grad(lambda b: ja.epsilon(make(b), 1e-5))(2.0)
    assert np.isfinite(slope)
    assert slope < 0
    assert outside[0].lower <= ja.epsilon(make(2.0), 1e-5, precision=INF) <= 1.4 * outside[0].upper


@pytest.mark.parametrize("prob", [0.05, 0.25])
def test_discrete_pairs_inside_jit(prob):
    pair = ja.DiscretePair((0.75, 0.25), (0.25, 0.75))
    inside = jax.jit(lambda q, d: ja.epsilon(ja.PoissonSampled(pair, q, 10), d))(prob, 1e-5)
    outside = ja.epsilon(ja.PoissonSampled(pair, prob, 10), 1e-5)
    assert outside * (1 - 1e-6) <= float(inside) <= 1.5 * outside
