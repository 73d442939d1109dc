"""Randomized response, guarantees, noise on whole numbers, choices: beside sums and integrals in mpmath."""

import itertools
import math

import jax
import mpmath
import numpy as np
import pytest

import jaxacct as ja

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
ROUNDING = 1e-12  # relative, of a certified end beside the truth


def _response(release):
    e, k = mpmath.exp(release.local_epsilon), release.num_categories
    return [(e, 1), (1, e), *[(1, 1)] * (k - 2)], e + k - 1


def _guarantee(release):
    d, e = mpmath.mpf(release.guaranteed_delta), mpmath.exp(release.guaranteed_epsilon)
    pair = [(d, 0), ((1 - d) * e / (1 + e), (1 - d) / (1 + e)), ((1 - d) / (1 + e), (1 - d) * e / (1 + e)), (0, d)]
    return pair, mpmath.mpf(1)


def _laplace(release, far=400):
    def mass(x):
        return mpmath.exp(-mpmath.mpf(release.noise_parameter) * abs(x))

    pair = [(mass(x - release.sensitivity), mass(x)) for x in range(-far, far)]
    return pair, sum(q for _, q in pair)


def _gaussian(release, far=400):
    def mass(x):
        return mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(release.scale) ** 2))

    pair = [(mass(x - release.sensitivity), mass(x)) for x in range(-far, far)]
    return pair, sum(q for _, q in pair)


def _skellam(release, far=400):
    variance = mpmath.mpf(release.variance)
    masses = [mpmath.exp(-variance) * mpmath.besseli(k, variance) for k in range(far + release.sensitivity + 1)]
    pair = [(masses[abs(x - release.sensitivity)], masses[abs(x)]) for x in range(-far, far)]
    return pair, mpmath.mpf(1)


PAIRS = [
    (ja.RandomizedResponse(0.3, 2), _response),
    (ja.RandomizedResponse(2.5, 7), _response),
    (ja.EpsilonDelta(0.7), _guarantee),
    (ja.EpsilonDelta(1.3, 1e-3), _guarantee),
    (ja.DiscreteLaplace(0.5, 1), _laplace),
    (ja.DiscreteLaplace(0.37, 4), _laplace),
    (ja.DiscreteGaussian(0.6, 1), _gaussian),
    (ja.DiscreteGaussian(3.1, 2), _gaussian),
    (ja.Skellam(0.4, 1), _skellam),
    (ja.Skellam(9.0, 3), _skellam),
]


def _name(thing):
    return getattr(thing, "__name__", str(thing))


EPSILONS = (0.0, 0.1, 0.45, 1.0, 2.0)


def _delta(pair, epsilon):
    """delta of a listed pair, with (outputs, sum of their weights)."""
    outputs, whole = pair
    growth = mpmath.exp(mpmath.mpf(epsilon))
    return sum(max(mpmath.mpf(0), p - growth * q) for p, q in outputs) / whole


@pytest.mark.parametrize(("release", "truth"), PAIRS, ids=_name)
def test_delta_is_the_sum_over_the_outputs(release, truth):
    with mpmath.workdps(40):
        for epsilon in EPSILONS:
            exact = float(_delta(truth(release), epsilon))
            found = ja.delta_interval(release, epsilon)
            assert found.lower <= exact * (1 + ROUNDING) + 1e-290
            assert exact * (1 - ROUNDING) <= found.upper <= exact * (1 + 1e-8) + 1e-290
            assert ja.delta(release, epsilon, precision=math.inf) >= exact * (1 - ROUNDING)
            if epsilon > 0.0 and exact > 0.0 and found.upper > exact / 2:
                ends = ja.epsilon_interval(release, exact)
                assert ends.lower <= epsilon * (1 + 1e-9) + 1e-12
                least = min(epsilon, getattr(release, "guaranteed_epsilon", math.inf)) - 1e-9
                assert least <= ends.upper
                assert ja.epsilon(release, exact, precision=math.inf) >= least


@pytest.mark.parametrize(("release", "truth"), PAIRS[:6], ids=_name)
@pytest.mark.parametrize("count", [2, 3])
def test_compositions_are_sums_over_products(release, truth, count):
    with mpmath.workdps(30):
        outputs, whole = truth(release, 60) if truth is _laplace else truth(release)
        products = [(mpmath.mpf(1), mpmath.mpf(1))]
        if truth is _laplace:  # outputs with one loss are one
            merged = {}
            for p, q in outputs:
                key = mpmath.nstr(mpmath.log(p / q), 15)
                a, b = merged.get(key, (0, 0))
                merged[key] = (a + p, b + q)
            outputs = list(merged.values())
        for _ in range(count):
            products = [(a * p, b * q) for (a, b), (p, q) in itertools.product(products, outputs)]
        for epsilon in (0.2, 1.1):
            exact = float(_delta((products, whole**count), epsilon))
            run = ja.Composed(release, count)
            near = 1e-8 if truth is _laplace else 0.0  # the far outputs that the truth leaves out
            found = ja.delta_interval(run, epsilon)
            assert found.lower * (1 - near) <= exact * (1 + ROUNDING)
            assert exact * (1 - ROUNDING) <= found.upper <= exact * (1 + 1e-6) + 1e-14
            loss = ja.pld(run)
            assert loss.delta(epsilon) >= exact * (1 - ROUNDING)
            assert ja.pld(run, bound=ja.Bound.LOWER).delta(epsilon) <= exact * (1 + ROUNDING) + near


def _range_delta(top, epsilon):
    """The largest over t of a release with two outputs, of losses t and t - E."""

    def at(t):
        share = (1 - mpmath.exp(t - top)) / (mpmath.exp(t) - mpmath.exp(t - top))
        return share * (mpmath.exp(t) - mpmath.exp(epsilon))

    best = max((at(epsilon + (top - epsilon) * mpmath.mpf(i) / 400) for i in range(401)), default=mpmath.mpf(0))
    return max(best, mpmath.mpf(0))


@pytest.mark.parametrize("top", [1e-4, 0.3, 1.0, 6.0])
def test_bounded_range_is_the_worst_of_two_outputs(top):
    release = ja.Exponential(top)
    with mpmath.workdps(30):
        for share in (0.0, 0.2, 0.7):
            epsilon = share * top
            exact = float(_range_delta(mpmath.mpf(top), mpmath.mpf(epsilon)))
            found = ja.delta_interval(release, epsilon)
            assert exact * (1 - 1e-9) <= found.upper
            assert found.lower <= exact * (1 + 1e-4)  # the search over t is on a grid
            assert found.upper <= exact * (1 + 1e-4)
            assert ja.delta(release, epsilon, precision=math.inf) >= exact * (1 - 1e-9)
            assert ja.pld(release).delta(epsilon) >= exact * (1 - 1e-9)
            assert ja.epsilon(release, exact) >= epsilon * (1 - 1e-9)
    for epsilon in (0.0, 0.4 * top):  # two real choices, the gap of their scores moved by E
        logistic = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
        gaps = np.linspace(-8 - top, 8, 4001)
        attained = max(logistic(g + top) - math.exp(epsilon) * logistic(g) for g in gaps)
        assert attained <= ja.delta(release, epsilon) * (1 + 1e-9)
        assert attained >= 0.999 * ja.delta(release, epsilon)


def test_choices_compose_no_worse_than_by_either_bound():
    run = ja.Composed(ja.Exponential(0.5), 20)
    pure, renyi = ja.Composed(ja.EpsilonDelta(0.5), 20), ja.Composed(ja.ZCdp(0.5**2 / 8), 20)
    assert ja.epsilon(run, 1e-5) <= min(ja.epsilon(pure, 1e-5), ja.epsilon(renyi, 1e-5))
    assert ja.epsilon_interval(run, 1e-5).lower == 0.0


@pytest.mark.more
@pytest.mark.parametrize("scores", [(0.0, 0.0), (0.0, 0.7, 1.1), (0.3, -2.0, 0.1, 0.35, 0.0)])
def test_permute_and_flip_is_dominated_by_laplace_noise(scores):
    """All sets of candidates, by integration: the largest score plus exponential noise of scale 2 (D = 1, E = 1)."""

    def chances(values):
        found = []
        for i, own in enumerate(values):
            x = np.linspace(own, max(values) + 80.0, 400_001)
            density = 0.5 * np.exp(-(x - own) / 2)
            others = np.prod([-np.expm1(-np.maximum(x - v, 0) / 2) for j, v in enumerate(values) if j != i], axis=0)
            found.append(np.trapezoid(density * others, x))
        return np.array(found)

    base = chances(scores)
    assert base.sum() == pytest.approx(1.0, abs=1e-6)
    for signs in itertools.product((-1.0, 1.0), repeat=len(scores)):
        moved = chances(np.array(scores) + np.array(signs))
        for epsilon in (0.0, 0.3, 0.8):
            attained = np.maximum(moved - math.exp(epsilon) * base, 0).sum()
            assert attained <= ja.delta(ja.PermuteAndFlip(1.0), epsilon) + 1e-6
    two = [
        np.maximum(chances((0.0, g + 1.0)) - math.exp(0.3) * chances((0.0, g - 1.0)), 0).sum()
        for g in np.linspace(-3.0, 3.0, 61)
    ]
    assert max(two) == pytest.approx(ja.delta(ja.PermuteAndFlip(1.0), 0.3), rel=1e-3)


@pytest.mark.parametrize(("release", "truth"), PAIRS, ids=_name)
def test_renyi_divergences_are_sums(release, truth):
    if isinstance(release, ja.DiscreteLaplace | ja.Skellam):
        return
    orders = [1.02, 1.5, 2.0, 7.0, 60.0]
    curve = ja.rdp(release, orders)
    with mpmath.workdps(40):
        outputs, whole = truth(release)
        for order, value in zip(orders, curve.values, strict=True):
            a = mpmath.mpf(order)
            moment = mpmath.inf
            if all(q > 0 or p == 0 for p, q in outputs):
                moment = sum(p**a * q ** (1 - a) for p, q in outputs if p > 0) / whole
            exact = float(mpmath.log(moment) / (a - 1)) if moment < mpmath.inf else math.inf
            assert value >= exact * (1 - ROUNDING)
            if math.isfinite(exact) and not isinstance(release, ja.DiscreteGaussian):
                assert value <= exact * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("top", [1e-6, 0.02, 1.0, 12.0])
def test_renyi_divergences_of_bounded_range(top):
    orders = [1.01, 1.7, 2.0, 9.0, 300.0]
    curve = ja.rdp(ja.Exponential(top), orders)
    with mpmath.workdps(40):
        e = mpmath.mpf(top)
        for order, value in zip(orders, curve.values, strict=True):
            a = mpmath.mpf(order)

            def at(t, a=a):
                share = (1 - mpmath.exp(t - e)) / (mpmath.exp(t) - mpmath.exp(t - e))
                return mpmath.log(share * mpmath.exp(a * t) + (1 - share) * mpmath.exp(a * (t - e))) / (a - 1)

            exact = float(max(at(e * mpmath.mpf(i) / 1000) for i in range(1001)))
            assert value >= exact * (1 - 1e-12)
            assert value <= max(exact, float(a * e * e / 8)) * (1 + 2e-3) + 1e-10


@pytest.mark.parametrize("top", [1e-6, 9e-4, 1.1e-3, 0.1, 1.0, 12.0, 600.0])
def test_the_divergence_of_order_1_of_bounded_range(top):
    """t - E (1 - p) is largest at e^(E - t) = E / (1 - e^-E)."""
    found = float(ja.rdp(ja.Exponential(top), [1.0]).values[0])
    with mpmath.workdps(40):
        e = mpmath.mpf(top)

        def at(t):
            share = (1 - mpmath.exp(t - e)) / (1 - mpmath.exp(-e))
            return share * t + (1 - share) * (t - e)

        exact = at(e - mpmath.log(e / (1 - mpmath.exp(-e))))
        assert exact >= at(0.49 * e)
        assert exact <= found <= exact * (1 + 2e-8)


def test_a_zcdp_guarantee_is_its_curve():
    curve = ja.rdp(ja.ZCdp(0.3, 0.2), [1.5, 2.0, 8.0])
    np.testing.assert_allclose(curve.values, [0.65, 0.8, 2.6], rtol=1e-14)
    gaussian = ja.rdp(ja.Gaussian(2.0), [1.5, 2.0, 8.0]).values
    np.testing.assert_allclose(ja.rdp(ja.ZCdp(0.125), [1.5, 2.0, 8.0]).values, gaussian, rtol=1e-14)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "release",
    [
        ja.EpsilonDelta(0.8, 1e-4),
        ja.DiscreteLaplace(0.4, 2),
        ja.DiscreteGaussian(1.5),
        ja.Skellam(2.5),
        ja.Exponential(0.9),
    ],
)
@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_sampled_and_allocated(release, direction):
    """One sampled step by the mixture's own divergence, read off the release's profile at real thresholds."""
    sampled = ja.PoissonSampled(release, 0.2, num_steps=1)
    loss = ja.pld(release, resolution=400.0)
    ratios, masses = np.exp(loss.losses), loss.masses * np.exp(-loss.losses)  # under Q
    mixed = 0.8 + 0.2 * ratios
    for epsilon in (0.05, 0.12):
        grown = math.exp(epsilon)
        if direction is REMOVE:
            about = (masses * np.maximum(mixed - grown, 0)).sum() + 0.2 * loss.infinite_mass
        else:
            about = (masses * np.maximum(1 - grown * mixed, 0)).sum()
            about += max(0.0, 1 - masses.sum()) * max(0.0, 1 - grown * 0.8)
        found = ja.delta(sampled, epsilon, direction=direction, precision=1e-3)
        assert found == pytest.approx(about, rel=5e-3, abs=1e-9)
    once, run = ja.PoissonSampled(release, 0.1, 10), ja.RandomAllocation(release, 10)
    assert 0 < ja.epsilon(run, 1e-3) < ja.epsilon(release, 1e-3)
    assert 0 < ja.epsilon(once, 1e-3) < ja.epsilon(ja.Composed(release, 10), 1e-3)


def test_at_its_own_delta_a_guarantee_is_its_epsilon():
    release = ja.EpsilonDelta(1.5, 1e-5)
    assert ja.epsilon(release, 1e-5) == 1.5
    assert math.isinf(ja.epsilon(release, 0.9e-5))
    assert ja.epsilon(release, 2e-5) < 1.5


def test_inside_jit_and_under_grad():
    slope = jax.jit(jax.grad(lambda e: ja.epsilon(ja.RandomizedResponse(e, 3), 1e-2)))(1.0)
    near = (
        ja.epsilon(ja.RandomizedResponse(1.001, 3), 1e-2) - ja.epsilon(ja.RandomizedResponse(0.999, 3), 1e-2)
    ) / 2e-3
    assert float(slope) == pytest.approx(near, rel=1e-3)


def test_another_adjacency_is_not_sampled():
    for drawn in (lambda: ja.PoissonSampled(ja.RandomizedResponse(1.0), 0.1, num_steps=1),
                  lambda: ja.RandomAllocation(ja.RandomizedResponse(1.0), 9)):  # fmt: skip
        with pytest.raises(ValueError, match="has no analysis here: it is described for 'replace one record'"):
            drawn()
    with pytest.raises(ValueError, match="must share one adjacency"):
        ja.epsilon(ja.Composed((ja.RandomizedResponse(1.0), ja.Gaussian(1.0))), 1e-3)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ja.RandomizedResponse(-1.0), "local_epsilon"),
        (lambda: ja.RandomizedResponse(1.0, 1), "num_categories"),
        (lambda: ja.EpsilonDelta(1.0, 2.0), "guaranteed_delta"),
        (lambda: ja.DiscreteLaplace(1.0, 0), "sensitivity"),
        (lambda: ja.DiscreteGaussian(0.0), "scale"),
        (lambda: ja.Skellam(0.0), "variance"),
        (lambda: ja.Skellam(1.0, 0.5), "sensitivity"),
        (lambda: ja.Exponential(math.inf), "range_epsilon"),
        (lambda: ja.PermuteAndFlip(-0.1), "choice_epsilon"),
        (lambda: ja.ZCdp(0.1, -1.0), "xi"),
    ],
)
def test_fields_out_of_range_are_named(make, field):
    with pytest.raises(ValueError, match=field):
        make()


@pytest.mark.parametrize(("top", "gamma"), [(1.0, None), (0.3, 0.2), (2.0, 0.8), (1.5, 0.5), (0.7, 0.0), (0.7, 1.0)])
def test_staircase_is_the_worst_shift_of_its_noise(top, gamma):
    """The density itself, in cells that its steps and the shift's do not cut, for shifts up to the sensitivity."""
    pair = ja.DiscretePair.staircase(top, gamma)
    with mpmath.workdps(30):
        share = 1 / (1 + mpmath.exp(mpmath.mpf(top) / 2)) if gamma is None else mpmath.mpf(gamma)
        fall = mpmath.exp(-mpmath.mpf(top))
        height = (1 - fall) / (2 * (share + fall * (1 - share)))

        def density(x):
            whole = int(mpmath.floor(abs(x)))
            return height * fall ** (whole + (0 if abs(x) - whole < share else 1))

        def delta(shift, epsilon):
            steps = {k + s for k in range(60) for s in (mpmath.mpf(0), share)}
            cuts = sorted({0 + s for x in steps for s in (x, -x, shift + x, shift - x)})
            found = mpmath.mpf(0)
            for low, high in itertools.pairwise(cuts):
                middle = (low + high) / 2
                found += (high - low) * max(0, density(middle - shift) - mpmath.exp(epsilon) * density(middle))
            return found

        for epsilon in (0.0, 0.2 * top, 0.9 * top):
            exact = delta(mpmath.mpf(1), epsilon)
            found = ja.delta_interval(pair, epsilon)
            assert exact * (1 - mpmath.mpf(10) ** -7) <= found.upper <= exact * (1 + mpmath.mpf(10) ** -6)
            assert all(delta(mpmath.mpf(shift), epsilon) <= found.upper * (1 + 1e-12) for shift in (0.25, 0.6, 0.95))
        assert ja.delta(pair, top * (1 + 1e-9)) == 0.0


def test_bad_staircases_are_named():
    for words, make in {
        "epsilon=0.0 must be": lambda: ja.DiscretePair.staircase(0.0),
        "epsilon=301.0 must be": lambda: ja.DiscretePair.staircase(301.0),
        "gamma=1.5 must be": lambda: ja.DiscretePair.staircase(1.0, 1.5),
        "rho=0 must be": lambda: ja.Gaussian.from_zcdp(0),
    }.items():
        with pytest.raises(ValueError, match=words):
            make()


@pytest.mark.parametrize("rho", [1e-3, 0.03, 0.5, 7.0])
def test_gaussian_of_a_zcdp_guarantee(rho):
    release = ja.Gaussian.from_zcdp(rho)
    assert ja.rdp(release, [2.0]).values[0] == pytest.approx(2 * rho, rel=1e-12)
    assert 1 / (2 * mpmath.mpf(release.noise_multiplier) ** 2) <= rho
    assert ja.epsilon(release, 1e-6) <= ja.epsilon(ja.ZCdp(rho), 1e-6)


@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_mixtures_of_too_little_noise_are_not_resolved():
    """Losses beyond what doubles hold: nothing is known but that, and nothing overflows."""
    for noise in (1e-7, 1e-8, 1e-100):
        run = ja.MixtureOfGaussians(noise, (0.0, 1.0, 2.0), (0.5, 0.3, 0.2))
        assert ja.epsilon_interval(run, 1e-6).upper == np.inf
        assert ja.delta(run, 1.0) >= 0.5
