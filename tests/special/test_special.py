"""jaxacct.special against mpmath, over the whole range of each function."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from jaxacct import special
from jaxacct.special._namespace import row_at

TOL_LOG = 1e-15  # log1mexp, logexpm1, softplus: relative (logexpm1: to the larger of the two terms)
TOL_ERFCX = 1e-15  # erfcx, mills_ratio at x >= 0: relative
TOL_NORMAL_TAIL = 1e-15  # log_normal_tail: relative, times 1 + x^2 on the left, the conditioning of phi(x)
TOL_MILLS_DIFFERENCE = 2e-14  # relative; 1.3e-14 by the exponential of jaxlib 0.8, less by later ones
TOL_FACTORIAL = 1e-15  # relative
TOL_BINOMIAL = 1e-15  # of max(1, log n!), the largest of the three terms of log C(n, j)
TOL_SUM = 4e-15  # log_sum_exp of 1000 terms, absolute
TOL_SERIES = 1e-13  # log coefficients of length 24 to powers below 2**20, absolute
TOL_GRADIENT = 1e-12  # first derivatives, relative

BOOKED = {
    "log1p": 4,
    "expm1": 5,
    "sinh": 6,
    "tanh": 5,
}  # relative, in units of 2^-53: what docs/numerics/rounding.md and _rounding.py say

LOG2 = float(np.log(2.0))
# XLA's CPU exp flushes what lies below the normal numbers
SMALLEST_EXPONENT = -708.0


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


def x64(fn, *args):
    with jax.enable_x64(True):
        return np.asarray(jax.jit(fn)(*(np.asarray(a, np.float64) for a in args)))


def exact(values):
    return [mp.mpf(float(v)) for v in np.ravel(values)]


def worst(got, want, *, floor=0.0):
    """Largest error relative to max(|want|, floor)."""
    scale = [max(abs(w), mp.mpf(floor)) for w in want]
    pairs = zip(exact(got), want, scale, strict=True)
    return float(max(abs(g - w) / s if s else abs(g - w) for g, w, s in pairs))


def mp_erfcx(x):
    if x < 100:
        return mp.exp(x * x) * mp.erfc(x)
    term = total = mp.mpf(1)
    for n in range(1, 12):
        term *= -(2 * n - 1) / (2 * x * x)
        total += term
    return total / (x * mp.sqrt(mp.pi))


def mp_mills(x):
    return mp.sqrt(mp.pi / 2) * mp_erfcx(x / mp.sqrt(2))


def mp_log_tail(x):
    if x > 0:
        return mp.log(mp_mills(x)) - x * x / 2 - mp.log(2 * mp.pi) / 2
    return mp.log1p(-mp.erfc(-x / mp.sqrt(2)) / 2)


NEGATIVE = -np.concatenate([np.geomspace(1e-300, -SMALLEST_EXPONENT, 500), np.linspace(0.3, 1.6, 400), [LOG2]])
LARGE = np.geomspace(710.0, 1e300, 40)


in_both_ranges = pytest.mark.parametrize(
    "x",
    [
        pytest.param(NEGATIVE[(NEGATIVE > -LOG2) | (NEGATIVE < -1.3)], id="elsewhere"),
        pytest.param(NEGATIVE[(NEGATIVE <= -LOG2) & (NEGATIVE >= -1.3)], id="e^x in [.27, .5]"),
    ],
)


@in_both_ranges
def test_log1mexp(x):
    assert worst(x64(special.log1mexp, x), [mp.log(-mp.expm1(v)) for v in exact(x)]) < TOL_LOG


@in_both_ranges
def test_logexpm1(x):
    got, want = exact(x64(special.logexpm1, -x)), [mp.log(mp.expm1(-v)) for v in exact(x)]
    # a sum of x and a logarithm, which cancel at log 2
    assert max(abs(g - w) / max(abs(v), abs(w)) for g, w, v in zip(got, want, exact(x), strict=True)) < TOL_LOG


def test_logexpm1_does_not_overflow():
    assert x64(special.logexpm1, LARGE).tolist() == LARGE.tolist()


def test_softplus():
    x = np.concatenate([NEGATIVE, -NEGATIVE, LARGE, [0.0]])
    want = [max(v, 0) + mp.log1p(mp.exp(-abs(v))) for v in exact(x)]
    assert worst(x64(special.softplus, x), want) < TOL_LOG


def test_logarithms_at_the_ends():
    assert x64(special.log1mexp, [0.0])[0] == -np.inf
    assert x64(special.log1mexp, [-np.inf])[0] == 0.0
    assert np.isnan(x64(special.log1mexp, [1e-3])[0])
    assert x64(special.logexpm1, [0.0])[0] == -np.inf
    assert x64(special.softplus, [-np.inf])[0] == 0.0
    assert x64(special.softplus, [np.inf])[0] == np.inf


def test_log_sum_exp():
    rng = np.random.default_rng(0)
    for spread in (1e-3, 1.0, 100.0, 1e4):
        x = rng.normal(size=(1000, 3)) * spread
        want = [mp.log(mp.fsum(mp.exp(v) for v in exact(x[:, i]))) for i in range(3)]
        assert worst(x64(special.log_sum_exp, x), want, floor=1.0) < TOL_SUM
        along_last = x64(lambda y: special.log_sum_exp(y, axis=-1), x.T)
        assert worst(along_last, want, floor=1.0) < TOL_SUM


def test_log_sum_exp_of_infinities():
    inf = np.inf
    columns = np.array([[-inf, -inf], [-inf, 3.0], [inf, 1.0], [1e308, 1e308], [-1e308, -1e308]]).T
    assert x64(special.log_sum_exp, columns).tolist() == [-inf, 3.0, inf, 1e308, -1e308]


def test_erfcx():
    right = np.concatenate([np.geomspace(1e-300, 1e150, 500), np.linspace(0.0, 30.0, 1500), [0.46875, 4.0]])
    assert worst(x64(special.erfcx, right), [mp_erfcx(v) for v in exact(right)]) < TOL_ERFCX
    left = -np.linspace(0.0, 26.0, 500)
    # exp(x^2) carries the rounding of x^2
    got, want = x64(special.erfcx, left), [mp_erfcx(v) for v in exact(left)]
    assert max(abs(g - w) / (w * (1 + v * v)) for g, w, v in zip(exact(got), want, exact(left), strict=True)) < 1e-15
    assert x64(special.erfcx, [-30.0, np.inf]).tolist() == [np.inf, 0.0]


def test_mills_ratio():
    x = np.concatenate([np.geomspace(1e-300, 1e150, 500), np.linspace(0.0, 40.0, 1500)])
    assert worst(x64(special.mills_ratio, x), [mp_mills(v) for v in exact(x)]) < TOL_ERFCX


def test_log_normal_tail():
    right = np.concatenate([np.linspace(0.0, 40.0, 1000), np.geomspace(40.0, 1e100, 100)])
    assert worst(x64(special.log_normal_tail, right), [mp_log_tail(v) for v in exact(right)]) < TOL_NORMAL_TAIL


def test_log_normal_tail_of_the_left():
    left = -np.concatenate([np.geomspace(1e-12, 1.0, 100), np.linspace(0.0, 37.0, 800)])
    got, want = exact(x64(special.log_normal_tail, left)), [mp_log_tail(v) for v in exact(left)]
    errors = [abs((g - w) / w) / (1 + v * v) for g, w, v in zip(got, want, exact(left), strict=True)]
    assert max(errors) < TOL_NORMAL_TAIL


def test_log_normal_density():
    x = np.linspace(-40.0, 40.0, 101)
    want = [-v * v / 2 - mp.log(2 * mp.pi) / 2 for v in exact(x)]
    assert worst(x64(special.log_normal_density, x), want) < TOL_LOG


def test_mills_difference():
    x, step = np.meshgrid(
        np.concatenate([np.linspace(-1.0, 10.0, 34), np.geomspace(10.0, 1e6, 20)]), np.geomspace(1e-12, 0.5, 13)
    )
    want = [mp_mills(v) - mp_mills(v + s) for v, s in zip(exact(x), exact(step), strict=True)]
    assert worst(x64(special.mills_difference, x.ravel(), step.ravel()), want) < TOL_MILLS_DIFFERENCE


def test_log_factorial_table():
    table = special.log_factorial_table(2048)
    assert table.dtype == np.float64
    assert table.shape == (2049,)
    assert worst(table, [mp.loggamma(n + 1) for n in range(2049)]) < TOL_FACTORIAL


def test_log_binomial_table():
    size = 200
    table = special.log_binomial_table(size)
    for n in range(size + 1):
        want = [mp.log(mp.binomial(n, j)) for j in range(n + 1)]
        scale = max(1.0, float(mp.loggamma(n + 1)))
        assert max(abs(g - w) for g, w in zip(exact(table[n, : n + 1]), want, strict=True)) < TOL_BINOMIAL * scale
        assert np.all(np.isneginf(table[n, n + 1 :]))


def power_of_series(coefficients, exponent):
    """Coefficients of a power series to an integer power, by repeated products."""
    size = len(coefficients)
    result, square = [mp.mpf(1)] + [mp.mpf(0)] * (size - 1), list(coefficients)

    def product(a, b):
        return [mp.fsum(a[k] * b[n - k] for k in range(n + 1)) for n in range(size)]

    while exponent:
        if exponent & 1:
            result = product(result, square)
        exponent >>= 1
        if exponent:
            square = product(square, square)
    return result


def log_or_minus_inf(v):
    return mp.log(v) if v else mp.ninf


@pytest.mark.parametrize("zeros", [False, True])
def test_log_series_product(zeros):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 24, 2)) * 20
    if zeros:
        a[[0, 3]] = -np.inf
        b[1] = -np.inf
    got = x64(special.log_series_product, a, b)
    for lane in range(2):
        p, q = ([mp.exp(v) for v in exact(s[:, lane])] for s in (a, b))
        want = [mp.fsum(p[k] * q[n - k] for k in range(n + 1)) for n in range(24)]
        for g, w in zip(got[:, lane], want, strict=True):
            assert g == -np.inf if w == 0 else abs(g - mp.log(w)) < TOL_SERIES


@pytest.mark.parametrize("sign", [1, -1])
def test_log_series_rounded_up_or_down(sign):
    """Every coefficient is above the exact one (or below), and hardly so; those of order 0 are exact."""
    rng = np.random.default_rng(4)
    a = rng.normal(size=(24, 6)) * 3
    a[0] = 0.0
    exponents = np.array([1.0, 2.0, 3.0, 37.0, 1_000_003.0, 2.0**20])
    powers = x64(lambda s, e: special.log_series_power(s, e, num_bits=21, sign=sign), a, exponents)
    products = x64(lambda s: special.log_series_product(s, s[:, ::-1], sign=sign), a)
    with mp.workdps(60):
        for lane, exponent in enumerate(exponents):
            series, other = ([mp.exp(mp.mpf(float(v))) for v in s] for s in (a[:, lane], a[:, ::-1][:, lane]))
            product = [mp.fsum(series[k] * other[n - k] for k in range(n + 1)) for n in range(24)]
            for got, want in ((powers, power_of_series(series, int(exponent))), (products, product)):
                above = [sign * (mp.mpf(float(g)) - mp.log(w)) for g, w in zip(got[:, lane], want, strict=True)]
                assert above[0] == 0
                assert 0 <= min(above) <= max(above) < 1e-11


def test_each_square_of_a_power_is_rounded_up():
    """(1 + u x)^(2^39), u about 2^-39: many squares, whose errors are of one sign, and one product."""
    first = -39.0 * math.log(2.0) + np.random.default_rng(5).uniform(-0.5, 0.5, 8)
    a = np.full((3, 8), -np.inf)
    a[0], a[1] = 0.0, first
    powers = x64(lambda s: special.log_series_power(s, np.full(8, 2.0**39), num_bits=40, sign=1), a)
    with mp.workdps(40):
        for lane, u in enumerate(exact(first)):
            for n, ways in ((1, mp.mpf(2) ** 39), (2, mp.binomial(2**39, 2))):
                assert 0 <= mp.mpf(float(powers[n, lane])) - mp.log(ways) - n * u < 2e-12


def test_log_series_power():
    rng = np.random.default_rng(2)
    a = rng.normal(size=(24, 4)) * 3
    a[0] = 0.0
    exponents = np.array([1.0, 2.0, 37.0, 1_000_003.0])
    got = x64(lambda s, e: special.log_series_power(s, e, num_bits=20), a, exponents)
    for lane, exponent in enumerate(exponents):
        want = power_of_series([mp.exp(v) for v in exact(a[:, lane])], int(exponent))
        assert worst(got[:, lane], [mp.log(w) for w in want], floor=1.0) < TOL_SERIES
    zeroth = x64(lambda s, e: special.log_series_power(s, e, num_bits=3), a, np.zeros(4))
    assert zeroth[0].tolist() == [0.0] * 4
    assert np.all(np.isneginf(zeroth[1:]))


@pytest.mark.parametrize("lanes", [1, 3])
def test_map_rows(lanes):
    table, scale = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    lane_values = np.linspace(1.0, 2.0, lanes)
    got = x64(lambda t, s: special.map_rows(lambda r, c: c * r.sum() + lane_values, t, s), table, scale)
    np.testing.assert_array_equal(got, (scale * table.sum(axis=1))[:, None] + lane_values)


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_map_rows_on_the_host(lanes, at_once):
    table, scale = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    lane_values = np.linspace(1.0, 2.0, lanes)
    got = special.map_rows(lambda r, c: c * r.sum(0) + lane_values, table, scale, lanes=lane_values, at_once=at_once)
    np.testing.assert_array_equal(got, (scale * table.sum(axis=1))[:, None] + lane_values)


def test_row_at_takes_rows_in_the_place_of_one_lane():
    x = np.arange(24.0).reshape(4, 6, 1)
    several = row_at(x, np.array([3, 0, 3]))
    np.testing.assert_array_equal(several, x[[3, 0, 3], :, 0].T)
    np.testing.assert_array_equal(row_at(x, 2), x[2])
    np.testing.assert_array_equal(x64(lambda x: row_at(x, jnp.int32(2)), x), x[2])


def cubic(x, a):
    return a - x**3, -3.0 * x * x


def test_solve_decreasing_returns_the_safe_side():
    a = np.concatenate([np.geomspace(1e-6, 900.0, 200), np.random.default_rng(3).uniform(1, 900, 200)])
    got = x64(lambda a: special.solve_decreasing(cubic, jnp.zeros_like(a), jnp.full_like(a, 10.0), a), a)
    with jax.enable_x64(True):
        assert np.all(np.asarray(jax.jit(lambda x, a: cubic(x, a)[0])(got, a)) <= 0)
    assert worst(got, [mp.cbrt(v) for v in exact(a)]) < 1e-14


def test_solve_decreasing_with_a_useless_slope():
    def fn(x, a):
        return a - x**3, jnp.zeros_like(x)  # bisection only

    a = np.linspace(1.0, 900.0, 50)
    got = x64(lambda a: special.solve_decreasing(fn, jnp.zeros_like(a), jnp.full_like(a, 10.0), a), a)
    want = np.cbrt(a)
    assert np.all(got**3 >= a * (1 - 1e-15))
    np.testing.assert_allclose(got, want, rtol=2e-11)  # 10 * 2**-40 of bracket remains


def test_solve_decreasing_at_the_ends():
    low, high, a = np.array([[1.0, 2.0, 1.0], [5.0, 5.0, 5.0], [200.0, 3.0, 1.0]])
    got = x64(lambda lo, hi, a: special.solve_decreasing(cubic, lo, hi, a), low, high, a)
    assert got.tolist() == [np.inf, 2.0, 1.0]


def test_solve_decreasing_gradient():
    def solve(a):
        return special.solve_decreasing(cubic, jnp.zeros_like(a), jnp.full_like(a, 10.0), a)

    a = np.array([1e-3, 8.0, 500.0, 2000.0])
    with jax.enable_x64(True):
        slope = np.asarray(jax.jit(lambda a: jax.jvp(solve, (a,), (jnp.ones_like(a),))[1])(a))
    np.testing.assert_allclose(slope[:3], a[:3] ** (-2 / 3) / 3, rtol=TOL_GRADIENT)
    assert slope[3] == 0.0  # no root: inf, and its derivative stays finite


NEXT = np.nextafter


@pytest.mark.parametrize(
    ("fn", "derivative", "points"),
    [
        (
            special.log1mexp,
            lambda x: -1 / mp.expm1(-x),
            [-1e-300, -1e-8, -LOG2, NEXT(-LOG2, 0), -0.9, -1.25, -5.0, -700.0],
        ),
        (special.logexpm1, lambda x: -1 / mp.expm1(-x), [1e-300, 1e-8, LOG2, NEXT(LOG2, 1), 5.0, 700.0, 1e5]),
        (special.softplus, lambda x: 1 / (1 + mp.exp(-x)), [-700.0, -1.0, 0.0, NEXT(0, 1), 1.0, 700.0, 1e5]),
        (
            special.erfcx,
            lambda x: 2 * x * mp_erfcx(x) - 2 / mp.sqrt(mp.pi),
            [-5.0, -0.46875, -0.1, 0.0, 0.1, 0.46875, NEXT(0.46875, 1), 3.0, 4.0, NEXT(4.0, 5), 9.0],
        ),
        (special.log_normal_tail, lambda x: -1 / mp_mills(x), [-6.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 6.0, 30.0, 1e4]),
    ],
    ids=["log1mexp", "logexpm1", "softplus", "erfcx", "log_normal_tail"],
)
def test_derivatives_across_branches(fn, derivative, points):
    got = x64(jax.vmap(jax.grad(fn)), points)
    assert np.all(np.isfinite(got))
    assert worst(got, [derivative(v) for v in exact(points)]) < TOL_GRADIENT


def test_derivatives_of_sums_with_empty_terms():
    x = np.array([[-np.inf, 0.0], [-np.inf, -np.inf], [1.0, 2.0]])
    got = x64(lambda y: jax.grad(lambda z: jnp.sum(special.log_sum_exp(z[:2])) * 0.0 + jnp.sum(z[2]))(y), x)
    assert np.all(np.isfinite(got))


def test_derivatives_of_mills_difference():
    x, step = np.array([-1.0, 0.3, 5.0, 300.0]), np.array([0.5, 1e-6, 0.1, 0.3])
    dx, ds = (
        x64(jax.vmap(jax.grad(lambda a, b: special.mills_difference(a[None], b[None])[0], argnums=i)), x, step)
        for i in (0, 1)
    )

    def slope(v):
        return v * mp_mills(v) - 1

    pairs = list(zip(exact(x), exact(step), strict=True))
    assert worst(dx, [slope(a) - slope(a + b) for a, b in pairs]) < TOL_GRADIENT
    assert worst(ds, [-slope(a + b) for a, b in pairs]) < TOL_GRADIENT


# --- rounding, bisection, chords ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ulps", [4, 8, 16, 32, 128, 512])
def test_rounding_covers_the_roundings_it_says(ulps):
    unit = Fraction(1, 2**53)
    worst = (1 - unit) ** (ulps - 1)  # as many as it covers, and its own
    assert Fraction(special.up(1.0, ulps)) * worst >= 1
    assert Fraction(special.down(1.0, ulps)) * (1 + unit) ** (ulps - 1) <= 1
    assert special.up(1.0, ulps) <= 1 + 2 * ulps * special.ULP
    assert special.up(0.0, ulps) == special.down(0.0, ulps) == 0.0
    assert special.up(math.inf, ulps) == math.inf


@pytest.mark.parametrize("exponent", [-800.0, -3.0, 0.0, 1.0, 300.0, 699.9, 700.0, 709.9, 743.9, 5000.0, math.inf])
@pytest.mark.parametrize("prob", [0.0, 5e-324, 2.3e-308, 1e-305, 1e-200, 0.3, 1.0])
def test_a_probability_that_grows(prob, exponent):
    """Never less than min(1, p e^x), and hardly more; 0 only of 0."""
    found = special.grown(prob, exponent, 16)
    with mp.workdps(40):
        truth = min(mp.mpf(1), mp.mpf(prob) * mp.exp(mp.mpf(exponent))) if prob else mp.mpf(0)
        assert truth <= found <= max(truth * (1 + mp.mpf(2) ** -48), special.LEAST_NORMAL)
    assert (found == 0.0) == (prob == 0.0)


def test_a_binomial_tail_is_0_only_where_nothing_is_beyond():
    assert special.binomial_tail(1000, 0.01, 900) == special.binomial_tail(1000, 0.01, 999) == special.LEAST_NORMAL
    assert special.binomial_tail(1000, 0.01, 1000) == special.binomial_tail(1000, 0.0, 10) == 0.0


def test_log_or_minus_inf():
    x = np.array([0.0, -1.0, 1e-300, 2.0, np.inf, np.nan])
    want = np.array([-np.inf, -np.inf, math.log(1e-300), math.log(2.0), np.inf, np.nan])
    np.testing.assert_allclose(special.log_or_minus_inf(x), want, rtol=1e-15)
    np.testing.assert_allclose(x64(special.log_or_minus_inf, x), want, rtol=1e-15)
    with jax.enable_x64(True):
        assert jax.grad(special.log_or_minus_inf)(0.0) == 0.0
        assert jax.grad(special.log_or_minus_inf)(4.0) == 0.25


@pytest.mark.parametrize(("safe", "other"), [(0.0, 3.0), (3.0, 0.0)])
def test_bisection_returns_a_point_where_it_was_asked(safe, other):
    asked = {}

    def holds(x):
        asked[x] = (x * x < 2.0) == (safe == 0.0)
        return asked[x]

    found = special.bisect(holds, safe, other, num_steps=60)
    assert asked[found]
    assert abs(found - math.sqrt(2.0)) <= 1e-15
    assert special.bisect(lambda x: False, safe, other, num_steps=5) == safe
    lanes = x64(
        lambda s, o: special.bisect_lanes(lambda x: (x * x < 2.0) == (safe == 0.0), s, o, num_steps=60),
        [safe, safe],
        [other, other],
    )
    arrays = special.bisect_lanes(
        lambda x: (x * x < 2.0) == (safe == 0.0), np.array([safe, safe]), np.array([other, other]), num_steps=60
    )
    assert lanes.tolist() == arrays.tolist() == [found, found]


@pytest.mark.parametrize("place", [1, 2, 7, 99, 100])
def test_bisection_over_whole_numbers(place):
    def above(x):
        assert 0 < np.min(x) <= np.max(x) < 100
        return x >= place

    assert special.bisect_whole(above, 100, 0) == place
    assert special.bisect_whole(lambda x: x < place, 0, 100) == place - 1
    lanes = special.bisect_lanes(lambda x: x >= place, np.array([100.0]), np.array([0.0]), num_steps=8, whole=True)
    assert lanes == place
    # the ends are not asked about, even in steps beyond the last that is needed
    never = x64(lambda s, o: special.bisect_lanes(lambda x: x <= 0.0, s, o, num_steps=20, whole=True), [5.0], [0.0])
    assert never == 5.0


def test_first_doubling():
    assert special.first_doubling(lambda x: x >= 0.5, limit=512.0) == (0.0, 1.0)
    assert special.first_doubling(lambda x: x >= 5.0, limit=512.0) == (4.0, 8.0)
    assert special.first_doubling(lambda x: x >= 512.0, limit=512.0) == (256.0, 512.0)
    assert special.first_doubling(lambda x: False, limit=512.0) == (512.0, np.inf)


def test_chord_between_whole_orders():
    """R_a = a (log of a Gaussian's moment, 1/2 each) at whole orders: the chord is above it, and exact by fractions."""
    known, orders = (2, 3, 8), (1.25, 2.0, 2.5, 3.0, 1.0 + 2.0**-40, 5.7, 8.0, 8.5)
    values = np.array([[2.0, np.inf], [3.0, 3.0], [8.0, 8.0]])
    found = x64(lambda v: special.at_real_orders(v, known, orders), values)
    assert found[:, 0].tolist()[:2] == [2.0, 2.0]  # below the first known order its own value
    assert found[[3, 6], 0].tolist() == [3.0, 8.0]
    assert found[7].tolist() == [np.inf, np.inf]
    assert found[[0, 1, 2, 4], 1].tolist() == [np.inf] * 4
    for row, (i, j) in ((2, (2, 3)), (5, (3, 8))):
        a = Fraction(orders[row])
        exact_chord = ((j - a) * (i - 1) * i + (a - i) * (j - 1) * j) / (j - i) / (a - 1)
        assert exact_chord <= Fraction(float(found[row, 0])) <= exact_chord * (1 + 24 * Fraction(special.ULP))
        assert found[row, 0] > orders[row]


@pytest.mark.parametrize("name", BOOKED)
def test_elementary_functions_err_by_no_more_than_is_booked(name):
    """Where XLA's own do not, and over the whole range, at random points, against 60 digits."""
    rng = np.random.default_rng(5)
    size = [10.0 ** rng.uniform(-300.0, 0.0, 300), rng.uniform(0.2, 2.0, 1500), rng.uniform(1.0, 700.0, 700)]
    size.append(np.array([3.942166e-6, 2.007e-3, 0.5, 1.0]))  # XLA's expm1 and sinh err most at the first two
    x = np.concatenate([*size, *(-v for v in size)])
    if name == "log1p":
        x = np.concatenate([x[x > -1.0], rng.uniform(-0.42, -0.36, 1500), rng.uniform(-1.0, 0.0, 500), [-0.25, -0.5]])
    want = [getattr(mp, name)(mp.mpf(float(v))) for v in x]
    ours = getattr(special, name)
    assert worst(x64(ours, x), want) <= BOOKED[name] * 2.0**-53
    assert worst(ours(x), want) <= BOOKED[name] * 2.0**-53  # on the host
    slopes = {
        "log1p": lambda v: 1.0 / (1.0 + v),
        "expm1": np.exp,
        "sinh": np.cosh,
        "tanh": lambda v: 1.0 / np.cosh(v) ** 2,
    }
    near = x[(np.abs(x) < 10.0) & (x > -0.9)]
    got = x64(lambda v: jax.vmap(jax.grad(ours))(v), near)
    np.testing.assert_allclose(got, slopes[name](near), rtol=TOL_GRADIENT)


def test_elementary_functions_at_the_ends():
    ends = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan])
    for name in BOOKED:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(x64(getattr(special, name), ends), getattr(np, name)(ends))
    assert x64(special.log1p, -1.0) == -np.inf


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e9, 1e13])
def test_cosine_and_sine_of_vectors(size):
    angle = np.random.default_rng(8).uniform(-size, size, 300)
    with jax.enable_x64(True):
        cos, sin = (np.asarray(x) for x in jax.jit(special.vector_cos_and_sin)(angle))
    ulp = 2.0**-53
    for x, c, s in zip(angle.tolist(), cos.tolist(), sin.tolist(), strict=True):
        allowed = (4.0 + (2.0 * abs(x) if size > 1e6 else 0.0)) * ulp
        assert abs(mp.cos(x) - c) <= allowed
        assert abs(mp.sin(x) - s) <= allowed
