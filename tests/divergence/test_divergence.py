"""The kernels of jaxacct.divergence against mpmath, exact enumeration and closed forms.

Every one is an upper bound: a test asks that it is never below the truth and not far above it.
"""

import functools
import itertools
import json
import math
import pathlib
from fractions import Fraction

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from jaxacct.divergence.allocation import _laplace as laplace
from jaxacct.divergence.allocation import _powers as allocation
from jaxacct.divergence.gaussian import _pair as gaussian
from jaxacct.divergence.gaussian import _sampled as sampled
from jaxacct.divergence.gaussian import _sampled_add as sampled_add

REFERENCE = json.loads((pathlib.Path(__file__).parents[1] / "reference" / "random-allocation.json").read_text())

# Each is how far above the truth a result may be.
TOL_LOG_DELTA = 1.5  # gaussian_log_delta: in units of the slack it documents
TOL_EPSILON = 1e-13  # gaussian_epsilon: relative, and relative to mu
TOL_ALLOCATION = 1e-11  # integer orders to 64, relative, RA-X1; what is booked grows faster than the order squared
TOL_HIGH = 1e-10  # to 256
TOL_SAMPLED = 1e-11  # integer orders to 256, relative
TOL_SAMPLED_REAL = 1e-9  # real orders, where the quadrature's certificate holds, relative
TOL_LAPLACE = 1e-9  # with enough nodes and t >= 50, relative
TOL_REFERENCE = 1e-13  # rounding of the reference file's digits, relative


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def x64(fn, *args):
    with jax.enable_x64(True):
        return np.asarray(jax.jit(fn)(*(np.asarray(a, np.float64) for a in args)))


def excess(got, want):
    """got / want - 1, in full precision."""
    return float(mp.mpf(float(got)) / want - 1)


def grid(*axes):
    return [a.ravel() for a in np.meshgrid(*axes)]


# N(mu, 1) against N(0, 1)


def gaussian_profile(epsilon, mu):
    """log delta, Balle and Wang 2018, Theorem 8."""
    x = epsilon / mu - mu / 2
    # as many digits more as 1 - delta has zeros
    with mp.workdps(60 + (int(x * x / 4) if 0 > x > -50 else 0) + int(max(-epsilon, 0))):
        return mp.log(mp.ncdf(-x) - mp.exp(epsilon) * mp.ncdf(-x - mu))


@pytest.mark.more
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gaussian_log_delta(sign):
    mu, x = grid(np.geomspace(1e-6, 100.0, 25), np.linspace(-6.0, 37.0, 30))
    epsilon = sign * np.abs(mu * (x + 0.5 * mu))
    mu, epsilon = mu[epsilon > -300], epsilon[epsilon > -300]  # below, delta rounds to 1
    got = x64(gaussian.gaussian_log_delta, epsilon, mu)
    assert np.all(got <= 0)
    for g, e, m in zip(got, epsilon, mu, strict=True):
        above = mp.mpf(float(g)) - gaussian_profile(mp.mpf(float(e)), mp.mpf(float(m)))
        at = abs(e) / m - 0.5 * m
        slack = 2.0**-50 * (64.0 + abs(at) * (abs(at) + m + abs(e) / m))
        assert 0 <= above <= TOL_LOG_DELTA * slack, (e, m)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_both_ends_of_gaussian_log_delta(sign):
    mu, x = grid([1e-4, 0.3, 0.5, 2.0, 30.0], [-3.0, -0.4, 0.0, 1.0, 7.0, 30.0])
    epsilon = sign * np.abs(mu * (x + 0.5 * mu))
    mu, epsilon = mu[epsilon > -300], epsilon[epsilon > -300]
    with jax.enable_x64(True):
        ends = jax.jit(gaussian.gaussian_log_delta_ends)(jnp.asarray(epsilon), jnp.asarray(mu))
        far = gaussian.gaussian_log_delta_ends(jnp.asarray([1e200]), jnp.asarray([1.0]))
    for low, high, e, m in zip(np.asarray(ends.lower), np.asarray(ends.upper), epsilon, mu, strict=True):
        truth = gaussian_profile(mp.mpf(float(e)), mp.mpf(float(m)))
        assert mp.mpf(float(low)) <= truth <= mp.mpf(float(high)), (e, m)
    assert np.asarray(far.lower) == -np.inf


def test_gaussian_log_delta_at_zero_epsilon():
    mu = np.geomspace(1e-6, 100.0, 60)
    got = x64(lambda m: gaussian.gaussian_log_delta(jnp.zeros_like(m), m), mu)
    for g, m in zip(got, mu, strict=True):
        above = mp.mpf(float(g)) - mp.log(mp.erf(mp.mpf(float(m)) / mp.sqrt(8)))
        assert 0 <= above <= TOL_LOG_DELTA * 2.0**-50 * (64 + 0.5 * m * m)


def test_gaussian_epsilon():
    mu, delta = grid(np.geomspace(1e-6, 100.0, 17), [1e-300, 1e-200, 1e-100, 1e-50, 1e-20, 1e-10, 1e-5, 1e-2, 0.3, 0.9])
    got = x64(lambda d, m: gaussian.gaussian_epsilon(jnp.log(d), m), delta, mu)
    for e, m, d in zip(got, mu, delta, strict=True):
        e, m, target = mp.mpf(float(e)), mp.mpf(float(m)), mp.log(mp.mpf(float(d)))
        assert gaussian_profile(e, m) <= target, (m, d)
        below = e - TOL_EPSILON * (e + m)
        assert e == 0 or gaussian_profile(below, m) > target, (m, d)


def test_gaussian_gradients():
    """d log delta/d epsilon = -e^eps Phi(-x - mu)/delta, d epsilon/d mu by the implicit function theorem."""
    mu, x = grid([1e-3, 0.499, 0.5, 1.0, 30.0], [-2.0, -0.2, 0.0, 1.0, 10.0])
    epsilon = np.abs(mu * (x + 0.5 * mu)) + 1e-3 * mu
    value, slope = (
        x64(f, epsilon, mu)
        for f in (
            gaussian.gaussian_log_delta,
            lambda e, m: jax.jvp(lambda v: gaussian.gaussian_log_delta(v, m), (e,), (jnp.ones_like(e),))[1],
        )
    )
    back = x64(lambda d, m: gaussian.gaussian_epsilon(d, m), value, mu)
    np.testing.assert_allclose(back, epsilon, rtol=1e-10, atol=1e-13)
    for s, v, e, m in zip(slope, value, epsilon, mu, strict=True):
        tail = mp.exp(mp.mpf(float(e))) * mp.ncdf(-mp.mpf(float(e)) / mp.mpf(float(m)) - mp.mpf(float(m)) / 2)
        assert abs(excess(s, -tail / mp.exp(mp.mpf(float(v))))) < 1e-10


def test_gaussian_rdp():
    orders, mu = grid([1.0001, 2.0, 2.5, 2048.0], [1e-6, 0.3, 100.0])
    got = x64(gaussian.gaussian_rdp, orders, mu)
    for g, a, m in zip(got, orders, mu, strict=True):
        assert 0 <= excess(g, mp.mpf(float(a)) * mp.mpf(float(m)) ** 2 / 2) < 1e-14


# 1-out-of-t allocation, integer orders


def allocation_bound(sigma, num_steps, max_order):
    return allocation.rdp_from_log_excess(
        allocation.log_excess(allocation.whole_epoch(sigma, num_steps), max_order=max_order)
    )


def allocation_rdp(sigma, num_steps, *, max_order):
    return x64(lambda s, t: allocation_bound(s, t, max_order), sigma, num_steps)


def power_series_moments(moments, num_steps):
    """a!/t^a [x^a] (sum_c m_c x^c / c!)^t, a = 0..A, by the recurrence for the power of a series.

    Its terms change sign when t <= A: hence the digits of the caller.
    """
    t = mp.mpf(num_steps)
    a = [m / mp.factorial(c) / t**c for c, m in enumerate(moments)]
    b = [mp.mpf(1)]
    for n in range(1, len(a)):
        b.append(mp.fsum(((t + 1) * k - n) * a[k] * b[n - k] for k in range(1, n + 1)) / n)
    return [v * mp.factorial(n) for n, v in enumerate(b)]


def gaussian_moments(sigma, max_order):
    s2 = 1 / mp.mpf(float(sigma)) ** 2
    return [mp.exp(s2 * c * (c - 1) / 2) for c in range(max_order + 1)]


def integer_partitions(n, largest):
    if n == 0:
        yield ()
    for first in range(min(n, largest), 0, -1):
        for rest in integer_partitions(n - first, first):
            yield (first, *rest)


def moment_by_partitions(moments, order, num_steps):
    """E_Q[X^a] as the sum over integer partitions of a: Feldman and Shenfeld, Corollary 4.10."""
    total = 0
    for parts in integer_partitions(order, order):
        if len(parts) > num_steps:
            continue
        ways = Fraction(math.factorial(order) * math.perm(num_steps, len(parts)), num_steps**order)
        for part in parts:
            ways /= math.factorial(part)
        for part in set(parts):
            ways /= math.factorial(parts.count(part))
        product = math.prod((moments[part] for part in parts), start=1)
        exact = isinstance(product, Fraction)
        total += (ways if exact else mp.mpf(ways.numerator) / ways.denominator) * product
    return total


SIGMAS = [0.05, 0.3, 1.0, 3.0, 20.0, 100.0]
STEPS = [1, 2, 7, 1000, 10**6, 10**9]


@pytest.mark.more
@pytest.mark.parametrize(
    ("max_order", "sigmas", "steps"),
    [(64, SIGMAS, STEPS), (256, [0.05, 3.0, 100.0], [1, 10**6])],
    ids=["every noise, orders to 64", "orders to 256"],
)
def test_allocation_against_a_power_series(max_order, sigmas, steps):
    sigma, steps = grid(sigmas, steps)
    got = allocation_rdp(sigma, steps, max_order=max_order)
    ceiling = np.arange(2, max_order + 1)[:, None] / (2 * sigma**2)
    assert np.all(np.isfinite(got))
    assert np.all(got <= ceiling * (1 + TOL_ALLOCATION))
    with mp.workdps(400):
        for lane, (s, t) in enumerate(zip(sigma, steps, strict=True)):
            moments = power_series_moments(gaussian_moments(s, max_order), int(t))
            above = [excess(got[a - 2, lane], mp.log(moments[a]) / (a - 1)) for a in range(2, max_order + 1)]
            assert min(above) >= 0, (s, t)
            assert max(above) <= (TOL_ALLOCATION if max_order <= 64 else TOL_HIGH), (s, t)
            assert max(above[:15]) <= 1e-12, (s, t)


@pytest.mark.parametrize(("sigma", "num_steps"), [(1.0, 7), (1.0, 10**9), (20.0, 2), (20.0, 10**6)])
def test_allocation_on_the_host_against_a_power_series(sigma, num_steps):
    got = allocation.host_log_excess(allocation.whole_epoch(sigma, float(num_steps)), 40)
    with mp.workdps(120):
        moments = power_series_moments(gaussian_moments(sigma, 40), num_steps)
        above = [mp.mpf(float(got[a - 2])) - mp.log(moments[a] - 1) for a in range(2, 41)]
    assert 0 <= min(above) <= max(above) < 5e-11


def test_allocation_against_the_sum_over_partitions():
    max_order = 12
    sigma, steps = grid(SIGMAS, [1, 2, 5, 11, 12, 13, 1000, 10**9])
    got = allocation_rdp(sigma, steps, max_order=max_order)
    with mp.workdps(120):
        for lane, (s, t) in enumerate(zip(sigma, steps, strict=True)):
            moments = gaussian_moments(s, max_order)
            for a in range(2, max_order + 1):
                want = mp.log(moment_by_partitions(moments, a, int(t))) / (a - 1)
                assert 0 <= excess(got[a - 2, lane], want) <= TOL_ALLOCATION, (s, t, a)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "num_steps"), [(0.05, 3), (1.0, 10**6), (100.0, 10**4)])
def test_allocation_at_order_2048(sigma, num_steps):
    max_order = 2048
    got = allocation_rdp([sigma], [num_steps], max_order=max_order)[:, 0]
    with mp.workdps(1000 if num_steps < max_order else 200):
        moments = power_series_moments(gaussian_moments(sigma, max_order), num_steps)
        above = [excess(got[a - 2], mp.log(moments[a]) / (a - 1)) for a in range(2, max_order + 1)]
    assert min(above) >= 0
    assert max(above) <= 1e-8


def test_allocation_at_order_2048_stays_finite():
    got = allocation_rdp([0.05, 1.0, 100.0], [3.0, 1e6, 1e9], max_order=2048)
    ceiling = np.arange(2, 2049)[:, None] / (2 * np.array([0.05, 1.0, 100.0]) ** 2)
    assert np.all(np.isfinite(got))
    assert np.all(got > 0)
    assert np.all(got <= ceiling * (1 + 1e-8))


def test_allocation_is_monotone_and_convex():
    sigmas, steps = np.geomspace(0.05, 100.0, 12), np.array([1, 2, 3, 10, 100, 10**4, 10**6, 10**9])
    sigma, t = grid(sigmas, steps)
    max_order = 64
    # the slack is one factor for all orders: compare without its rounding noise
    got = allocation_rdp(sigma, t, max_order=max_order).reshape(max_order - 1, len(steps), len(sigmas))
    up, down = 1 + TOL_ALLOCATION, 1 - TOL_ALLOCATION
    assert np.all(got[:, :, 1:] <= got[:, :, :-1] * up)  # sigma
    assert np.all(got[:, 1:] <= got[:, :-1] * up)  # t
    assert np.all(got[1:] >= got[:-1] * down)  # order
    weighted = got * (np.arange(2, max_order + 1) - 1.0)[:, None, None]
    weighted = np.concatenate([np.zeros_like(weighted[:1]), weighted])
    assert np.all(2 * weighted[1:-1] <= (weighted[2:] + weighted[:-2]) * up)


def test_allocation_is_at_most_poisson():
    sigma, t = grid([0.3, 1.0, 4.0, 50.0], [1, 2, 30, 1000, 10**6])
    ours = allocation_rdp(sigma, t, max_order=64)
    orders = [float(a) for a in range(2, 65)]
    poisson = t * x64(lambda s, n: sampled.sampled_gaussian_rdp(s, 1.0 / n, orders=orders), sigma, t)
    assert np.all(ours <= poisson * (1 + TOL_ALLOCATION))
    np.testing.assert_allclose(ours[0, t == 1], poisson[0, t == 1], rtol=TOL_ALLOCATION)


def test_allocation_has_finite_gradients():
    def total(s):
        return allocation_bound(s, jnp.full_like(s, 50.0), 32)

    sigma = np.array([0.05, 0.5, 1.0, 10.0, 100.0])
    slope = x64(lambda s: jax.jvp(total, (s,), (jnp.ones_like(s),))[1], sigma)
    h = 1e-5 * sigma
    numeric = (x64(total, sigma + h) - x64(total, sigma - h)) / (2 * h)
    np.testing.assert_allclose(slope, numeric, rtol=1e-7)


# 1-out-of-t allocation of any pair

PAIRS = [
    ((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))),
    ((Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)), (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))),
    ((Fraction(7, 10), Fraction(1, 5), Fraction(1, 10)), (Fraction(3, 10), Fraction(1, 2), Fraction(1, 5))),
]


def base_moments(pair, max_order):
    return [sum(p**c / q ** (c - 1) for p, q in zip(*pair, strict=True)) for c in range(max_order + 1)]


def moments_by_counts(pair, num_steps, max_order):
    """E_Q[X^a], a = 0..A, over how often each outcome occurs, in rational arithmetic."""
    p, q = pair
    ratios = [a / b for a, b in zip(p, q, strict=True)]
    totals = [Fraction(0)] * (max_order + 1)
    for counts in itertools.product(range(num_steps + 1), repeat=len(p) - 1):
        last = num_steps - sum(counts)
        if last < 0:
            continue
        counts = (*counts, last)
        weight = Fraction(math.factorial(num_steps), math.prod(map(math.factorial, counts)))
        weight *= math.prod(b**n for b, n in zip(q, counts, strict=True))
        x = sum(n * r for n, r in zip(counts, ratios, strict=True)) / num_steps
        for a in range(max_order + 1):
            totals[a] += weight * x**a
    return totals


def general_rdp(moments, num_steps, num_bits):
    log_moments = np.array([[float(mp.log(mp.mpf(m.numerator) / m.denominator))] for m in moments])
    got = x64(lambda m, t: allocation.general_rdp(m, t, num_bits=num_bits), log_moments, np.array([float(num_steps)]))[
        :, 0
    ]
    c = np.arange(len(moments))
    series = log_moments[:, 0] - [math.lgamma(n + 1) for n in c] - c * math.log(num_steps)
    return got, float(np.abs(series).max())


def assert_general(got, want_moments, num_steps, num_bits, largest):
    """Above the truth by a few times the most that one rounding of each product would make."""
    for a, moment in enumerate(want_moments):
        if a < 2:
            continue
        above = (mp.mpf(float(got[a - 2])) - mp.log(moment) / (a - 1)) * (a - 1)
        assert 0 <= above <= 2 * 2.0**-52 * (num_bits + 2) * a * (16 + 2 * largest), (num_steps, a)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("num_steps", [1, 2, 3, 6, 20])
def test_general_rdp_against_enumeration(pair, num_steps):
    max_order = 8
    moments = base_moments(pair, max_order)
    got, largest = general_rdp(moments, num_steps, num_bits=5)
    exact = moments_by_counts(pair, num_steps, max_order)
    for a in range(2, max_order + 1):
        assert moment_by_partitions(moments, a, num_steps) == exact[a]
    assert_general(got, [mp.mpf(m.numerator) / m.denominator for m in exact], num_steps, 5, largest)


@pytest.mark.parametrize("num_steps", [1, 7, 40, 10**3, 10**6])
def test_general_rdp_against_a_power_series(num_steps):
    max_order = 40
    for pair in PAIRS[:2]:
        moments = base_moments(pair, max_order)
        got, largest = general_rdp(moments, num_steps, num_bits=20)
        with mp.workdps(200):
            exact = power_series_moments([mp.mpf(m.numerator) / m.denominator for m in moments], num_steps)
            assert_general(got, exact, num_steps, 20, largest)


def test_general_rdp_agrees_with_the_reference_file():
    rows = [r for r in REFERENCE if r["system"] == "S12"]
    assert rows
    for row in rows:
        args = row["args"]
        if args["direction"] != "remove" or "randomizer" not in args:
            continue
        pair = tuple(tuple(Fraction(v) for v in args["randomizer"][side]) for side in "PQ")
        got, _ = general_rdp(base_moments(pair, int(args["order"])), int(args["num_steps"]), num_bits=4)
        assert 0 <= excess(got[-1], mp.mpf(row["value"])) < 1e-12


def test_general_rdp_with_infinite_moments():
    log_moments = np.array([[0.0], [0.0], [0.5], [1.7], [np.inf], [np.inf]])
    got = x64(lambda m, t: allocation.general_rdp(m, t, num_bits=4), log_moments, [9.0])[:, 0]
    finite = x64(lambda m, t: allocation.general_rdp(m, t, num_bits=4), log_moments[:4], [9.0])[:, 0]
    assert got[2:].tolist() == [np.inf, np.inf]
    np.testing.assert_allclose(got[:2], finite, rtol=1e-12)


# One Poisson-sampled step

SAMPLED_SIGMAS = [0.3, 0.5, 1.0, 2.0, 10.0, 100.0]


def sampled_rdp(sigma, q, orders):
    return x64(lambda s, p: sampled.sampled_gaussian_rdp(s, p, orders=orders), sigma, q)


def binomial_sum(sigma, q, order):
    """log E[(1-q+qY)^a]/(a-1): Mironov, Talwar and Zhang 2019, section 3.3."""
    s2, q = 1 / mp.mpf(float(sigma)) ** 2, mp.mpf(float(q))
    terms = (
        mp.binomial(order, j) * q**j * (1 - q) ** (order - j) * mp.expm1(s2 * j * (j - 1) / 2)
        for j in range(2, order + 1)
    )
    return mp.log1p(mp.fsum(terms)) / (order - 1)


def trapezoid(sigma, q, orders):
    """log E[(1-q+qY)^a]/(a-1): trapezoid rule, error below 1e-45, since the strip is pi sigma wide."""
    s, q = 1 / mp.mpf(float(sigma)), mp.mpf(float(q))
    h = min(mp.mpf(1) / 12, 1 / (8 * s))
    top = 15 + max(orders) * s
    z = [h * k for k in range(int(-15 / h), int(top / h) + 2)]
    log_ratio = [mp.log1p(q * mp.expm1(s * v - s * s / 2)) for v in z]
    weight = [h * mp.exp(-v * v / 2) / mp.sqrt(2 * mp.pi) for v in z]
    return [
        mp.log1p(mp.fsum(w * mp.expm1(a * y) for w, y in zip(weight, log_ratio, strict=True))) / (a - 1)
        for a in map(mp.mpf, orders)
    ]


def test_sampled_gaussian_at_integer_orders():
    orders = [2, 3, 17, 128, 256]
    sigma, q = grid([0.3, 1.0, 10.0, 100.0], [1e-12, 1e-3, 0.2, 0.414, 0.9, 1 - 1e-9, 1.0])
    got = sampled_rdp(sigma, q, orders)
    for lane, (s, p) in enumerate(zip(sigma, q, strict=True)):
        above = [excess(g, binomial_sum(s, p, a)) for g, a in zip(got[:, lane], orders, strict=True)]
        assert min(above) >= 0, (s, p)
        assert max(above) <= TOL_SAMPLED, (s, p)


def test_sampled_gaussian_without_sampling():
    orders = [1.5, 2.0, 7.0, 7.25, 256.0]
    never = sampled_rdp(SAMPLED_SIGMAS, np.zeros(6), orders)
    assert np.all(never >= 0)
    assert np.all(never <= 1e-18)
    always = sampled_rdp(SAMPLED_SIGMAS, np.ones(6), [2.0, 7.0, 256.0])
    exact = np.array([2.0, 7.0, 256.0])[:, None] / (2 * np.square(SAMPLED_SIGMAS))
    assert np.all(always >= exact)
    assert np.all(always <= exact * (1 + TOL_SAMPLED))


@pytest.mark.sample(2)
@pytest.mark.parametrize("sigma", [0.2, 0.25, 0.3, 0.5, 1.0, 10.0, 100.0])
def test_sampled_gaussian_at_real_orders(sigma):
    orders, qs = [1.001, 1.02, 1.5, 1.9, 2.5, 7.25], [0.01, 0.2, 0.414, 0.99, 1.0]
    got = sampled_rdp([sigma] * len(qs), qs, orders)
    for lane, q in enumerate(qs):
        above = [excess(g, w) for g, w in zip(got[:, lane], trapezoid(sigma, q, orders), strict=True)]
        assert min(above) >= 0, q
        assert max(above) <= TOL_SAMPLED_REAL, q


def test_sampled_gaussian_at_real_orders_falls_back_to_the_chord():
    """Where the certificate fails (tiny q, large or far order) the bound is looser, never below."""
    orders, qs, sigmas = [1.02, 1.5, 30.5, 100.5], [1e-12, 1e-3], [0.5, 10.0]
    sigma, q = grid(sigmas, qs)
    got = sampled_rdp(sigma, q, orders)
    for lane, (s, p) in enumerate(zip(sigma, q, strict=True)):
        for g, a, w in zip(got[:, lane], orders, trapezoid(s, p, orders), strict=True):
            below, above = (binomial_sum(s, p, n) if n > 1 else 0 for n in (math.floor(a), math.ceil(a)))
            share = a - math.floor(a)
            chord = ((1 - share) * (math.floor(a) - 1) * below + share * (math.ceil(a) - 1) * above) / (a - 1)
            assert excess(g, w) >= 0, (s, p, a)
            assert excess(g, chord) <= TOL_SAMPLED, (s, p, a)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("sigma", "q", "order"), [(30.0, 0.01, 2100.0), (50.0, 0.01, 2000.5), (300.0, 0.05, 1e4)])
def test_sampled_gaussian_at_large_orders(sigma, q, order):
    """Little is lost there: a bound of the tail by a power of 2 would be all there is."""
    (got,) = sampled_rdp([sigma], [q], [order])[0]
    (want,) = trapezoid(sigma, q, [order])
    assert 0 <= excess(got, want) <= TOL_SAMPLED_REAL


def _power_term(a, s, q, z):
    """(1-q+qY)^a times the density of z."""
    return mp.exp(a * mp.log1p(q * mp.expm1(s * z - s * s / 2))) * mp.npdf(z)


@pytest.mark.sample(1)
@pytest.mark.parametrize("end", [-1.0, 2.0, 9.0])
def test_sampled_gaussian_right_tail(end):
    """E[(1-q+qY)^a; z > end] by quadrature: never above, and near where the two terms are equal at the end."""
    for sigma, q, a in ((1.0, 0.01, 3.5), (2.0, 0.3, 20.0), (0.5, 1e-6, 2.0), (30.0, 0.01, 2100.0), (1.0, 1.0, 4.0)):
        s = 1 / sigma
        width = (a * s + 20) / 60
        want = mp.quad(functools.partial(_power_term, a, mp.mpf(s), mp.mpf(q)), [end + k * width for k in range(61)])
        parts = [np.asarray(x) for x in x64(lambda *x: jnp.stack(sampled._log_right_tail(*x)), a, end, s, q)]
        got = mp.fsum(mp.exp(mp.mpf(float(x))) for x in parts)
        assert want <= got, (sigma, q, a)
        assert got <= (1.1 if end > a * s + 1 else math.inf) * want + mp.mpf(10) ** -300, (sigma, q, a)


def test_sampled_gaussian_is_monotone():
    orders = [1.5, 2.0, 2.5, 8.0, 32.5, 33.0]
    sigma, q = grid(np.geomspace(0.5, 20.0, 9), np.geomspace(1e-4, 1.0, 9))
    got = sampled_rdp(sigma, q, orders).reshape(len(orders), 9, 9)
    up = 1 + 1e-8
    assert np.all(got[:, :, 1:] <= got[:, :, :-1] * up)  # sigma
    assert np.all(got[:, :-1] <= got[:, 1:] * up)  # q
    assert np.all(got[:-1] <= got[1:] * up)  # order


def add_trapezoid(sigma, q, orders):
    """log E[(1-q+qY)^-b]/b, b = a - 1: trapezoid rule of what exceeds 1 - b q(Y - 1), at 60 digits."""
    s, q = 1 / mp.mpf(float(sigma)), mp.mpf(float(q))
    h = min(mp.mpf(1) / 10, 1 / (8 * s))
    with mp.workdps(60):
        z = [h * i for i in range(int(-16 / h), int((16 + 2 * s) / h) + 2)]
        x = [q * mp.expm1(s * v - s * s / 2) for v in z]
        weight = [h * mp.npdf(v) for v in z]
        every = [mp.mpf(float(a)) - 1 for a in orders]
        sums = [mp.fsum(w * ((1 + y) ** -b - 1 + b * y) for w, y in zip(weight, x, strict=True)) for b in every]
        return [mp.log1p(v) / b for v, b in zip(sums, every, strict=True)]


def test_sampled_gaussian_in_the_add_direction():
    orders = [1.02, 1.5, 3.0, 7.3, 40.0]
    rng = np.random.default_rng(5)
    sigma = np.append(np.exp(rng.uniform(math.log(0.12), math.log(8.0), 10)), 0.139)
    q = np.append(10.0 ** rng.uniform(-12.0, -0.1, 10), 1.3e-11)
    got = x64(lambda s, p: sampled_add.sampled_gaussian_add_rdp(s, p, orders=orders), sigma, q)
    for lane, (s, p) in enumerate(zip(sigma, q, strict=True)):
        above = [excess(g, w) for g, w in zip(got[:, lane], add_trapezoid(s, p, orders), strict=True)]
        assert min(above) >= 0, (s, p)
        assert max(above) <= TOL_SAMPLED_REAL, (s, p)


@pytest.mark.parametrize(("sigma", "q"), [(4.356249358714303, 0.924233554433547), (18.65601276938006, 0.877)])
def test_sampled_gaussian_in_the_add_direction_weighs_most_far_left(sigma, q):
    """Powers of rates near 1 weigh most ten deviations left of 0, where the window ended: a third too large."""
    orders = [1.5, 40.5, 100.0]
    got = x64(lambda s, p: sampled_add.sampled_gaussian_add_rdp(s, p, orders=orders), np.array([sigma]), np.array([q]))
    above = [excess(g, w) for g, w in zip(got[:, 0], add_trapezoid(sigma, q, orders), strict=True)]
    assert min(above) >= 0
    assert max(above) <= 1e-9


@pytest.mark.more
def test_sampled_gaussian_in_the_add_direction_fails_closed():
    """Little noise, rates near 1: never below the truth, which is at most that of the remove direction."""
    sigma, q = grid([0.01, 0.05, 0.1, 1.0], [1e-3, 0.5, 1 - 1e-9, 1.0])
    orders = [1.5, 8.0, 200.0]
    got = x64(lambda s, p: sampled_add.sampled_gaussian_add_rdp(s, p, orders=orders), sigma, q)
    assert not np.any(np.isnan(got))
    for lane, (s, p) in enumerate(zip(sigma, q, strict=True)):
        if p < 1.0 and s >= 0.05:
            # beyond the window of the oracle there is more, so that it is a lower bound too
            assert min(excess(g, w) for g, w in zip(got[:, lane], add_trapezoid(s, p, orders), strict=True)) >= 0


@pytest.mark.parametrize("sigma", [0.05, 0.04, 0.03, 0.02, 0.01])
def test_sampled_gaussian_in_the_add_direction_where_ratios_are_no_doubles(sigma):
    """E R^-b of ratios up to e^(1/sigma^2), whose excess over 1 was cut off at e^300: half of the truth."""
    q, orders = np.array([1e-3, 0.3]), [1.5, 2.0, 8.0]
    got = x64(lambda s, p: sampled_add.sampled_gaussian_add_rdp(s, p, orders=orders), np.full(2, sigma), q)
    z = np.linspace(-10.0, 10.0, 20_001)
    density = np.exp(-0.5 * z * z) / np.exp(-0.5 * z * z).sum()
    for b, row in zip(np.array(orders) - 1.0, got, strict=True):
        log_ratio = np.logaddexp(np.log1p(-q)[:, None], np.log(q)[:, None] + z / sigma - 0.5 / sigma**2)
        truth = np.log((np.exp(-b * log_ratio) * density).sum(1)) / b
        assert np.all(row >= truth * (1 - 1e-10))
        assert np.all(row <= -np.log1p(-q) * (1 + 1e-14))


# 1-out-of-t allocation, real orders


def laplace_rdp(sigma, num_steps, exponents, *, num_nodes=512):
    return x64(
        lambda s, t: laplace.laplace_rdp(allocation.whole_epoch(s, t), exponents=[exponents], num_nodes=[num_nodes])[0],
        np.atleast_1d(sigma),
        np.atleast_1d(num_steps),
    )


def order_less_one(p):
    return p if p > 0 else -p - 1


# p > 0: the add direction at order 1 + p; p < 0: the remove direction at order -p
EXPONENTS = (0.02, 0.5, 1.0, 2.5, 8.0, 31.0, 63.0, -1.02, -1.3, -1.7, -1.98)


@functools.cache
def two_step_rdp(sigma, p):
    """t = 2 in closed form but for one dimension: X = e^{su/sqrt2 - s^2/2} cosh(sv/sqrt2), u and v normal."""
    s = 1 / mp.mpf(sigma)
    h = min(mp.mpf(1) / 10, 1 / (8 * s))
    v = [h * k for k in range(int((13 + abs(p) * s) / h) + 2)]
    terms = ((2 if x else 1) * mp.exp(-p * mp.log(mp.cosh(s * x / mp.sqrt(2))) - x * x / 2) for x in v)
    log_moment = mp.log(h * mp.fsum(terms) / mp.sqrt(2 * mp.pi)) + p * s * s / 2 + mp.mpf(p) ** 2 * s * s / 4
    return log_moment / order_less_one(p)


def mellin_rdp(sigma, num_steps, exponents):
    """log E[X^-p] over order less one, by the Laplace-Mellin integral at 50 digits (error about 1e-14)."""
    s, t = 1 / mp.mpf(sigma), mp.mpf(num_steps)
    k = min(mp.mpf(1), mp.mpf(sigma)) / 10
    z = [-14 + k * i for i in range(int((28 + 2 * s) / k) + 1)]
    weight = [k * mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) for x in z]
    ratio = [mp.exp(s * x - s * s / 2) for x in z]
    h, v, variance = mp.mpf("0.18"), mp.mpf(-25), mp.expm1(s * s) / t
    # left of the grid phi(e^v) - exp(-e^v) = e^(2v) variance/2 to e^-25
    total = [h * variance / 2 * mp.exp((p + 2) * (v - h)) / -mp.expm1(-(p + 2) * h) for p in exponents]
    phi = mp.mpf(1)
    while v < 0 or phi * mp.exp(max(*exponents, 1) * v) > mp.mpf(10) ** -20:
        phi = mp.fsum(w * mp.exp(-mp.exp(v) / t * y) for w, y in zip(weight, ratio, strict=True)) ** t
        difference = h * (phi - mp.exp(-mp.exp(v)))
        total = [x + difference * mp.exp(p * v) for x, p in zip(total, exponents, strict=True)]
        v += h
    return [mp.log1p(x / mp.gamma(p)) / order_less_one(p) for x, p in zip(total, exponents, strict=True)]


@pytest.mark.more
@pytest.mark.parametrize("num_nodes", [64, 512])
def test_laplace_rdp_is_never_below_the_closed_forms(num_nodes):
    """One and two steps, where the certificates are far from tight, and too few nodes."""
    sigmas = np.array([0.2, 0.3, 0.5, 1.0, 3.0, 20.0, 100.0])
    one, two = (laplace_rdp(sigmas, np.full(7, t), EXPONENTS, num_nodes=num_nodes) for t in (1.0, 2.0))
    assert not np.any(np.isnan(one) | np.isnan(two))
    for row, p in enumerate(EXPONENTS):
        for lane, sigma in enumerate(sigmas):
            assert excess(one[row, lane], (order_less_one(p) + 1) / (2 * mp.mpf(sigma) ** 2)) >= 0
            assert excess(two[row, lane], two_step_rdp(sigma, p)) >= 0


@pytest.mark.sample(1)
@pytest.mark.parametrize(("sigma", "num_steps"), [(0.5, 50), (3.0, 50), (1.0, 1000), (1.0, 5)])
def test_laplace_rdp_against_the_mellin_integral(sigma, num_steps):
    exponents = (0.5, 2.5, 8.0, -1.3, -1.7)
    exact = mellin_rdp(sigma, num_steps, exponents)
    for num_nodes in (64, 512):
        got = laplace_rdp(sigma, num_steps, exponents, num_nodes=num_nodes)[:, 0]
        above = [excess(g, w) for g, w in zip(got, exact, strict=True)]
        assert min(above) >= 0
        if num_nodes == 512 and num_steps >= 50:
            assert max(above) <= TOL_LAPLACE


def test_laplace_transforms_of_turned_arguments_grow_no_faster_than_is_booked():
    rng = np.random.default_rng(3)
    z = np.linspace(-14.0, 14.0, 2_801)
    density = np.exp(-0.5 * z * z) * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
    for _ in range(200):
        sigma, u, moved, more = rng.uniform(0.2, 3.0), math.exp(rng.uniform(-1.0, 8.0)), *rng.uniform(0.05, 3.0, 2)
        c, ratio = math.exp(-moved / sigma), np.exp(z / sigma - 0.5 / sigma**2)
        turned, straight = (float(density @ np.exp(-x * ratio)) for x in (c * u, u))
        rest = 0.5 * math.erfc(more / math.sqrt(2.0))
        assert turned <= math.exp(laplace._log_growth(moved, moved + more)) * straight + rest + 1e-12


def test_the_oracles_of_laplace_rdp_agree():
    exponents = (0.5, 2.5, 8.0, -1.3, -1.7)
    mellin = mellin_rdp(1.0, 2, exponents)
    for got, p in zip(mellin, exponents, strict=True):
        assert abs(got / two_step_rdp(1.0, p) - 1) < 1e-13


LOW_NOISE = {"0.3"}  # its certificate in the Gaussian variable is not tight there: 7e-8


@pytest.mark.more
def test_laplace_rdp_agrees_with_the_reference_file():
    rows = [r for r in REFERENCE if r["system"] == "X2" and r["quantity"] == "rdp" and "sigma" in r["args"]]
    checked = 0
    for row in rows:
        args = row["args"]
        order = float(args["order"])
        if args["direction"] == "remove" and order >= 2:
            continue
        p = order - 1 if args["direction"] == "add" else -order
        value = mp.mpf(row["value"])
        got = laplace_rdp(float(args["sigma"]), float(args["num_steps"]), (p,), num_nodes=1024)[0, 0]
        above = excess(got, value)
        assert above >= -TOL_REFERENCE, row
        if args["num_steps"] >= 50:
            assert above <= (1e-7 if args["sigma"] in LOW_NOISE else TOL_LAPLACE), row
        checked += 1
    assert checked >= 6


@pytest.mark.more
@pytest.mark.parametrize("sigma", [0.4, 1.188, 7.0])
def test_laplace_rdp_at_large_orders_of_few_steps(sigma):
    """Where the shifts of two Gaussian variables by -p/(2 sigma) make up the moment."""
    for p in (2.0, 19.0, 99.0):
        exact = two_step_rdp(sigma, p)
        for num_nodes in (128, 512):
            above = excess(laplace_rdp(sigma, 2.0, (p,), num_nodes=num_nodes)[0, 0], exact)
            assert above >= 0
            if num_nodes == 512 and p <= 60.0 * sigma:
                assert above <= 1e-8


def test_laplace_rdp_meets_the_integer_orders():
    """The remove direction just below order 2 against the power series at 2; both sides of the add at t = 1e9."""
    got = laplace_rdp(1.0, 1000.0, (-1.999999, -1.9))[:, 0]
    at_two = math.log1p(math.expm1(1.0) / 1000)
    assert got[1] <= got[0]
    np.testing.assert_allclose(got[0], at_two, rtol=1e-5)


def test_laplace_rdp_fails_closed():
    got = laplace_rdp([0.02, 1e-3, 1e4], [1.0, 1e9, 1e9], (0.5, 1023.0, -1.5))
    exact_or_inf = np.isinf(got) | (got >= 0)
    assert np.all(exact_or_inf)
    assert not np.any(np.isnan(got))
