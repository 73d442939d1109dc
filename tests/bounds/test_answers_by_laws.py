"""Answers inside traced programs by laws of likelihood ratios: above what is certified outside, and close to it."""

import math

import jax
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.bounds._releases import releases_of
from jaxacct.bounds._unamplified import unamplified_epsilon, unamplified_log_delta

MECHANISMS = {
    "poisson": lambda s, q, t: ja.PoissonSampled(ja.Gaussian(s), q, t),
    "allocation": lambda s, t, e: ja.RandomAllocation(ja.Gaussian(s), num_steps=t, num_epochs=e),
    "k_of_t": lambda s, t, k: ja.RandomAllocation(ja.Gaussian(s), num_steps=t, num_selected=k),
    "composed": lambda s, q, t: ja.Composed(
        [
            ja.PoissonSampled(ja.Gaussian(s), q, t),
            ja.RandomAllocation(ja.Gaussian(s), num_steps=t),
            ja.Gaussian(5.0 * s),
        ]
    ),
    "clones": lambda e, n, r: ja.Shuffled(ja.LocalRandomizer(e), n, r),
    "two_shuffles": lambda e, n, r: ja.Composed(
        [ja.Shuffled(ja.LocalRandomizer(e), n, r), ja.Shuffled(ja.KaryRandomizedResponse(2.0 * e, 4), 2 * n, 3)]
    ),
    "few_outputs": lambda s, q, t: ja.Composed(
        [
            ja.PoissonSampled(ja.DiscreteGaussian(s), q, t),
            ja.PoissonSampled(ja.EpsilonDelta(0.1 / s, 1e-9), q, t),
            ja.DiscreteLaplace(0.1 / s, 2),
            ja.PoissonSampled(ja.DiscreteLaplace(1.0 / s, 3), 0.5 * q, t),
        ],
        [1, 1, 3, 1],
    ),
    "responses": lambda e, k, t: ja.Composed(
        [ja.Shuffled(ja.LocalRandomizer(e), 1000, 3), ja.RandomizedResponse(0.1 * e, k)], [1, t]
    ),
    "laplace": lambda s, q, t: ja.Composed([ja.PoissonSampled(ja.Laplace(s), q, t), ja.Laplace(8.0 * s)]),
    "replaced": lambda s, q, t: ja.ReplaceOne(
        ja.Composed([ja.PoissonSampled(ja.Gaussian(s), q, t), ja.Gaussian(4.0 * s)])
    ),
    "allocated_laplace": lambda s, t, k, e: ja.RandomAllocation(ja.Laplace(s), t, k, e),
}
# numbers of the mechanism, delta, how far above the certified upper end epsilon may be
SETTINGS = {
    "poisson": [
        (1.0, 0.01, 1000, 1e-6, 1.001),
        (0.6, 2.5e-4, 20_000, 1e-6, 1.004),
        (4.0, 0.1, 10_000, 1e-9, 1.004),
        (2.3, 8e-4, 139, 1e-8, 1.004),
        (0.8, 1.0, 3, 1e-5, 1.004),
        (100.0, 0.1, 10, 1e-6, 1.001),  # much noise: orders of thousands
        (30.0, 0.1, 10, 1e-13, 1.002),
    ],
    "allocation": [
        (1.0, 1000, 1, 1e-6, 1.004),
        (1.0, 1000, 10, 1e-6, 1.004),
        (2.0, 100_000, 300, 1e-9, 1.02),
        (0.513, 6, 33, 1.9e-9, 1.002),  # the average of few ratios is all but 0 at times
        (3.934, 8, 24, 2.0e-8, 1.002),  # and large by several of them together
        (3.048, 11, 18, 1.8e-7, 1.002),
        (30.0, 10, 1, 1e-6, 1.004),
    ],
    "k_of_t": [
        (1.0, 1000, 10, 1e-6, 1.01),
        (2.0, 999, 2, 1e-5, 1.01),
        (0.7, 37, 9, 1e-6, 1.11),
        (0.4, 159, 14, 1e-6, 1.12),
    ],
    "composed": [(1.0, 0.01, 100, 1e-6, 1.004), (2.0, 0.1, 30, 1e-5, 1.004)],
    "few_outputs": [
        (4.0, 0.01, 1000, 1e-5, 1.005),
        (1.0, 0.1, 20, 1e-6, 1.005),
        (30.0, 0.3, 100, 1e-7, 1.005),
    ],
    "responses": [(1.0, 4, 20, 1e-6, 1.005), (2.0, 2, 3, 1e-7, 1.005)],
    "laplace": [(1.0, 0.01, 1000, 1e-6, 1.01), (4.0, 0.3, 50, 1e-5, 1.01)],
    "replaced": [(1.0, 0.01, 1000, 1e-6, 1.001), (0.5, 1e-3, 20, 1e-5, 1.001), (6.0, 0.4, 300, 1e-8, 1.001)],
    "allocated_laplace": [(1.0, 1000, 1, 10, 1e-6, 1.001), (4.0, 100, 7, 1, 1e-5, 1.01)],
    "clones": [(1.0, 10_000, 10, 1e-6, 1.001), (3.5, 300, 4, 1e-8, 1.001), (0.2, 10**6, 50, 1e-9, 1.001)],
    "two_shuffles": [(1.0, 1000, 10, 1e-6, 1.05), (0.5, 100_000, 2, 1e-5, 1.2)],
}
MORE = pytest.mark.more
RARE = ("k_of_t", "composed", "laplace", "two_shuffles", "responses", "replaced", "allocated_laplace")
KINDS = ["poisson", "allocation", "clones", "few_outputs", *(pytest.param(kind, marks=MORE) for kind in RARE)]


@pytest.fixture(name="wide", params=[pytest.param(False, marks=MORE), True], ids=["float32", "float64"])
def _wide(request):
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture(scope="module", name="programs")
def _programs():
    """Of each kind a program for epsilon and one for delta, compiled when asked for."""

    def of(kind):
        make = MECHANISMS[kind]
        epsilon = jax.jit(jax.vmap(lambda *row: ja.epsilon(make(*row[:-1]), row[-1], method="laws")))
        delta = jax.jit(jax.vmap(lambda *row: ja.delta(make(*row[:-1]), row[-1], method="laws")))
        return epsilon, delta

    return {kind: of(kind) for kind in MECHANISMS}


def columns_of(rows):
    return [np.array(x, np.float64) for x in zip(*rows, strict=True)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_epsilon_is_as_outside(programs, wide, kind):
    rows = [row[:-1] for row in SETTINGS[kind]]
    found = programs[kind][0](*columns_of(rows))
    for value, row, (*_, above) in zip(found, rows, SETTINGS[kind], strict=True):
        # float32 numbers are other ones
        numbers = row if wide else [float(np.float32(x)) if isinstance(x, float) else x for x in row]
        ends = ja.epsilon_interval(MECHANISMS[kind](*numbers[:-1]), numbers[-1])
        assert ends.analysis_lower <= float(value) * (1.0 + (0.0 if wide else 1e-7))
        assert float(value) <= above * ends.upper


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=MORE) for kind in ("allocation", "few_outputs", *RARE)), "poisson", "clones"]
)
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_delta_is_as_outside(programs, kind):
    with jax.enable_x64(True):
        rows = [row[:-2] for row in SETTINGS[kind]]
        for share in (0.0, 0.5, 1.0):
            at = [share * ja.epsilon(MECHANISMS[kind](*row[:-2]), row[-2]) for row in SETTINGS[kind]]
            found = programs[kind][1](*columns_of([(*row, e) for row, e in zip(rows, at, strict=True)]))
            for value, row, e, setting in zip(found, rows, at, SETTINGS[kind], strict=True):
                ends = ja.delta_interval(MECHANISMS[kind](*row), e)
                # a tenth of epsilon is a factor of twenty of delta
                most = 1.06 if setting[-1] < 1.05 else 25.0
                assert ends.analysis_lower <= float(value) <= most * ends.upper


RNG = np.random.default_rng(5)


def drawn(num, *ends):
    return np.exp(RNG.uniform(*np.log(np.array(ends)), num))


RANDOM = {
    "poisson": (drawn(40, 0.5, 6.0), drawn(40, 1e-4, 0.99), np.rint(drawn(40, 2.0, 1e5))),
    "allocation": (drawn(40, 0.5, 6.0), np.rint(drawn(40, 2.0, 1e6)), np.rint(drawn(40, 1.0, 30.0))),
    "composed": (drawn(40, 0.5, 6.0), drawn(40, 1e-4, 0.99), np.rint(drawn(40, 2.0, 1e3))),
    "laplace": (drawn(40, 0.5, 6.0), drawn(40, 1e-4, 0.99), np.rint(drawn(40, 2.0, 1e4))),
    "clones": (drawn(40, 0.02, 9.0), np.rint(drawn(40, 1.0, 1e9)), np.rint(drawn(40, 2.0, 1e3))),
}


@MORE
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
@pytest.mark.parametrize("kind", RANDOM)
def test_random_settings_are_never_below(programs, kind):
    delta = drawn(40, 1e-12, 1e-2)
    with jax.enable_x64(True):
        found = np.asarray(programs[kind][0](*RANDOM[kind], delta))
    ratios = []
    for value, d, *numbers in zip(found, delta, *RANDOM[kind], strict=True):
        ends = ja.epsilon_interval(MECHANISMS[kind](*(int(x) if x == np.rint(x) else x for x in numbers)), d)
        assert ends.analysis_lower <= value * (1.0 + 1e-12)
        ratios.append(value / ends.upper if ends.upper > 1e-9 else 1.0)
    assert np.median(ratios) < 1.002
    assert np.quantile(ratios, 0.85) < 1.03


SLOPES = {
    "allocation": ((1.0, 1000.0, 10.0, 1e-6), {0: 3e-3, 3: 1e-8}),
    "poisson": ((1.0, 0.01, 1000.0, 1e-6), {0: 3e-3, 1: 5e-5, 3: 1e-8}),
    "clones": ((1.0, 10_000.0, 10.0, 1e-6), {0: 3e-3, 3: 1e-8}),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["poisson", "clones", pytest.param("allocation", marks=MORE)])
def test_derivatives_are_those_of_the_value(kind):
    at, steps = SLOPES[kind]
    make = MECHANISMS[kind]
    slope = jax.jit(jax.grad(lambda *row: ja.epsilon(make(*row[:-1]), row[-1], method="laws"), argnums=tuple(steps)))
    with jax.enable_x64(True):
        found = slope(*at)

    def exact(row):
        return ja.epsilon(make(*row[:-1]), row[-1], precision=1e-5 if kind == "clones" else 1e-6)

    for (i, step), derivative in zip(steps.items(), found, strict=True):
        ends = [exact([x + sign * step * (j == i) for j, x in enumerate(at)]) for sign in (1.0, -1.0)]
        assert float(derivative) == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=5e-3)


OUTSIDE = [
    (math.nan, 0.1, 10.0),
    (1.0, math.nan, 10.0),
    (-1.0, 0.1, 10.0),
    (math.inf, math.nan, 10.0),
    (0.0, 0.1, 10.0),
]
PUBLIC = [(0.05, 0.01, 10.0), (0.09, 1.0, 3.0), (1.0, 0.0, 10.0)]


@pytest.mark.more
def test_below_their_range_steps_are_taken_as_public(programs):
    with jax.enable_x64(True):
        for delta in (1e-300, 1e-12, 1e-6, 0.01, 0.4):
            found = np.asarray(programs["poisson"][0](*columns_of(PUBLIC), np.full(len(PUBLIC), delta)))
            for value, (noise, _, steps) in zip(found, PUBLIC, strict=True):
                exact = ja.epsilon(ja.Gaussian(noise / math.sqrt(steps)), delta)
                assert exact <= value <= (1.1 if delta < 1e-3 else 2.0) * exact
            back = np.asarray(programs["poisson"][1](*columns_of(PUBLIC), found))
            for value, epsilon, (noise, _, steps) in zip(back, found, PUBLIC, strict=True):
                exact = ja.delta(ja.Gaussian(noise / math.sqrt(steps)), epsilon)
                assert exact <= value <= 1.1 * delta


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_what_is_lost_without_amplification(delta):
    """Of replaced records noise of half the size, of allocated Laplace steps their largest losses: closed forms."""
    replaced = ja.ReplaceOne(ja.Composed([ja.PoissonSampled(ja.Gaussian(0.05), 1.0, 3), ja.Gaussian(0.2)]))
    laplace = ja.RandomAllocation(ja.Laplace(0.05), num_steps=1, num_epochs=3)
    with jax.enable_x64(True):
        value, most = (
            float(unamplified_epsilon(releases_of(run, (False,), (None,)), math.log(delta)))
            for run in (replaced, laplace)
        )
    exact = ja.epsilon(ja.Gaussian(0.5 / math.sqrt(3 / 0.05**2 + 1 / 0.2**2)), delta)
    assert exact <= value <= 1.05 * exact
    assert ja.epsilon_interval(ja.Composed(ja.Laplace(0.05), 3), delta).lower <= most <= 60.0 * (1.0 + 1e-12)


@pytest.mark.parametrize(("scale", "delta"), [(0.8, 1e-9), (5.0, 1e-6), (60.0, 0.01), (1e3, 1e-6)])
def test_discrete_noise_is_bounded_at_every_scale(scale, delta):
    """Where it has more outputs than laws hold, too: by zero-concentrated privacy, whose conversion is not tight."""
    run = ja.Composed([ja.DiscreteGaussian(scale), ja.DiscreteLaplace(0.1)], [10, 2])
    exact = ja.epsilon_interval(run, delta, precision=0.01)
    with jax.enable_x64(True):
        releases = releases_of(run, (False, False), (None, None))
        value = float(unamplified_epsilon(releases, math.log(delta)))
        assert exact.lower <= value <= 3.0 * exact.upper
        assert float(unamplified_log_delta(releases, value)) == pytest.approx(math.log(delta), rel=1e-9)
        most = math.exp(float(unamplified_log_delta(releases, exact.upper)))
    assert ja.delta_interval(run, exact.upper, precision=0.1).lower <= most <= 1.0


def test_at_the_largest_probability_all_join(programs):
    with jax.enable_x64(True):
        columns = columns_of([(1.0, 1.0 - 1e-7, 10.0), (1.0, 1.0, 10.0)])
        below, all_join = np.asarray(programs["poisson"][0](*columns, np.full(2, 1e-6)))
    assert below == all_join
    assert ja.epsilon_interval(ja.Gaussian(1.0 / math.sqrt(10.0)), 1e-6).lower <= below


@pytest.mark.more
def test_outside_their_range_nothing_is_known(programs):
    with jax.enable_x64(True):
        columns = columns_of(OUTSIDE)
        assert np.array_equal(
            programs["poisson"][0](*columns, np.full(len(OUTSIDE), 1e-6)), np.full(len(OUTSIDE), np.inf)
        )
        assert np.array_equal(programs["poisson"][1](*columns, np.full(len(OUTSIDE), 0.1)), np.ones(len(OUTSIDE)))


def test_at_the_ends_of_delta(programs):
    """Deltas that no law reaches, and such that nothing is lost."""
    delta = np.array([0.0, 1e-300, 1e-30, 0.5, 1.0 - 1e-12])
    num = len(delta)
    with jax.enable_x64(True):
        found = np.asarray(programs["poisson"][0](np.full(num, 1.0), np.full(num, 0.01), np.full(num, 1000.0), delta))
    assert not np.isnan(found).any()
    assert found[0] == np.inf
    assert (np.diff(found[2:]) <= 0.0).all()
    assert found[4] < 1e-9
    assert ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1000), 1e-30).analysis_lower <= found[2]


# local epsilon, reports, rounds, delta: what is given up without amplification, or inf
REPORTS = [
    (40.0, 1000.0, 3.0, 120.0),
    (700.0, 1e6, 2.0, 1400.0),
    (1.0, 0.5, 3.0, math.inf),
    (math.nan, 10.0, 3.0, math.inf),
]
REPORTS += [(1.0, math.nan, 3.0, math.inf), (-1.0, 10.0, 3.0, math.inf), (0.0, 10.0, 3.0, 0.0), (2.0, 1.0, 4.0, 8.0)]


@pytest.mark.more
def test_reports_outside_the_range_of_laws(programs):
    *columns, most = columns_of(REPORTS)
    with jax.enable_x64(True):
        found = np.asarray(programs["clones"][0](*columns, np.full(len(most), 1e-6)))
        deltas = np.asarray(programs["clones"][1](*columns, np.full(len(most), 200.0)))
    assert (found <= most * (1.0 + 1e-14)).all()
    assert (found[:-1] >= most[:-1]).all()
    assert np.array_equal(deltas, [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])


def test_masses_below_the_doubles_are_not_lost_inside_jit():
    """A loss of 599 of mass 1e-48: under the other distribution its mass is no normal double."""
    rare = 1e-48
    pair = ja.DiscretePair((1.0, rare), (1.0, rare * math.exp(-599.0)))
    for count in (1, 2):
        inside = jax.jit(lambda c: ja.epsilon(ja.Composed((pair,), (c,)), 1e-50))(count)
        assert inside >= 598.98
