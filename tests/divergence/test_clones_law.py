"""The law of a round of shuffled reports: above the clones pair's profile, by enumeration and in 40 digits."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jaxacct.divergence.clones._profile import clones_delta
from jaxacct.divergence.law import MOST_LOCAL, clones_grid, clones_law
from jaxacct.divergence.law import _clones as module

POINTS = 1008
PLACES = POINTS // 2 - 1


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), mpmath.workdps(40):
        yield


def grid(low=0.0, width=1.0, gap=1e-3, is_cut=True, is_few=True):
    return module.ClonesGrid(*(jnp.asarray(x) for x in (low, width, gap, is_cut, is_few)))


def binomial(n, k, p):
    return mpmath.binomial(n, k) * mpmath.mpf(p) ** k * (1 - mpmath.mpf(p)) ** (n - k)


def mean_above(m, u):
    """E(x - u)_+ of the mean x of m fair signs, by lattice points above u in 40 digits."""
    u, first = mpmath.mpf(u), int(mpmath.floor(m * (1 + mpmath.mpf(u)) / 2)) + 1
    mass, total = mpmath.binomial(m, first) * mpmath.mpf(2) ** -m, mpmath.mpf(0)
    for a in range(first, m + 1):
        total += mass * (mpmath.mpf(2 * a - m) / m - u)
        mass *= mpmath.mpf(m - a) / (a + 1)
        if mass < total * mpmath.mpf(10) ** -32:
            break
    return total


# --- counts


@pytest.mark.parametrize(
    ("n", "p", "low", "width"), [(40.0, 0.3, 3.0, 1.0), (1e6, 0.01, 9600.0, 3.0), (4e8, 0.5, 2e8 - 4e4, 300.0)]
)
def test_counts_are_rounded_up(n, p, low, width):
    found = jax.tree.map(np.asarray, jax.jit(module._counts)(n, p, grid(low, width)))
    for i in (0, 5, 20, 128, 255):
        first = int(low + i * width)
        counts = range(first, min(first + int(width), int(n) + 1))
        mass = binomial(int(n), first, p)
        total = share = mpmath.mpf(0)
        for j, k in enumerate(counts):
            total, share = total + mass, share + j * mass
            mass *= mpmath.mpf(int(n) - k) / (k + 1) * mpmath.mpf(p) / (1 - mpmath.mpf(p))
        assert found.first[i] == first + 1
        assert total <= found.mass[i] <= total * (1 + mpmath.mpf(10) ** -10)
        assert share / width <= found.share[i] <= share / width * (1 + mpmath.mpf(10) ** -10) + mpmath.mpf(10) ** -300
    if n < 1e5:
        assert sum(binomial(int(n), k, p) for k in range(int(low))) <= found.below
        assert found.above == 0.0
    assert math.fsum(found.mass) + found.below + found.above >= 1.0


def test_more_counts_than_are_looked_at_are_bounded():
    found = jax.jit(module._counts)(2000.0, 0.5, grid(1024.0, 1.0))
    for exact, mass in (
        (sum(binomial(2000, k, 0.5) for k in range(1024)), found.below),
        (sum(binomial(2000, k, 0.5) for k in range(1280, 2001)), found.above),
    ):
        assert exact <= float(mass) <= max(1.0, 20.0 * exact)


# --- means of signs


def alone(m, mass=1.0):
    """Counts of which one alone has mass."""
    masses = np.zeros(module._BINS)
    masses[0] = mass
    first = m + np.arange(module._BINS, dtype=float)
    none = jnp.zeros(())
    return module._Counts(jnp.asarray(first), jnp.asarray(masses), jnp.zeros(module._BINS), none, none)


@pytest.fixture(scope="module", name="signs")
def _signs():
    return jax.jit(module._of_signs)


@pytest.fixture(scope="module", name="normal")
def _normal():
    return jax.jit(module._of_normal)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 30, 287, 575, 576, 577, 5000])
def test_profiles_of_signs(signs, m):
    """Also beside a lattice point, where the profile has a kink, and beside 1, where it ends."""
    places = np.append(np.geomspace(1e-3, 0.95, 12), 1.0 - 2.0 ** -np.array([20.0, 45.0, 50.0]))
    kinks = np.array([2.0 * a / m - 1.0 for a in range((m + 2) // 2, m, max(m // 8, 1))])
    places = np.concatenate([places, kinks * (1.0 - 1e-15), kinks * (1.0 + 1e-15)])
    places = places[(places > 0.0) & (places < 1.0)]
    found = np.asarray(signs(alone(m), grid(), np.resize(places, 64)))[: len(places)]
    for u, value in zip(places, found, strict=True):
        exact = mean_above(m, u)
        assert exact <= value
        if u * math.sqrt(m) < 8.0:
            assert value <= exact * (1 + mpmath.mpf(10) ** -11) + mpmath.mpf(10) ** -14


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 31, 200, 3001])
def test_normal_profiles_are_above_those_of_signs(normal, m):
    places = np.minimum(np.append(np.geomspace(1e-6, 9.0, 40) / math.sqrt(m), 0.5), 1.0 - 1e-9)
    found = np.asarray(normal(alone(m), grid(), places))
    scale = math.sqrt((m + math.log(m) / 6.0 + 0.5 * math.pi - 1.0) / m / m)
    for u, value in zip(places, found, strict=True):
        assert mean_above(m, u) <= value
        z = mpmath.mpf(u) / scale
        exact = scale * (mpmath.npdf(z) - z * mpmath.ncdf(-z))
        assert exact <= value * (1 + mpmath.mpf(10) ** -15)
        assert value <= exact * (1 + mpmath.mpf(10) ** -9) + mpmath.mpf(10) ** -190


def test_profiles_take_more_counts_than_are_looked_at_as_the_next_one(signs, normal):
    """A quarter of the mass lies beyond: were it left out, the profile would be too small by that much."""
    counts, places, last = alone(200), np.linspace(0.01, 0.3, 64), 200 + module._BINS
    for profile in (signs, normal):
        less, more = (np.asarray(profile(counts._replace(above=x), grid(), places)) for x in (jnp.zeros(()), 0.25))
        for u, grown in zip(places[::9], (more - less)[::9], strict=True):
            assert grown >= 0.25 * mean_above(last, u) * (1 - mpmath.mpf(10) ** -9)


def test_normal_profile_lets_counts_go_to_both_ends(normal):
    counts = jax.jit(module._counts)(1e6, 0.5, grid(494_000.0, 60.0))
    places = np.linspace(1e-4, 8e-3, 9)
    found = np.asarray(normal(counts, grid(494_000.0, 60.0), places))
    m = counts.first + 29.5  # where the middle of a bin is, nearly
    mid = np.asarray(normal(counts._replace(first=m, share=jnp.zeros_like(m)), grid(494_000.0, 60.0), places))
    assert (found < mid * 1.001).all()
    assert (found > 0.999 * mid).all()


# --- laws


@pytest.fixture(scope="module", name="law")
def _law():
    def of(local, prob, reports, share):
        at = clones_grid(reports, prob, share, POINTS)
        return clones_law(local, prob, reports, at, POINTS)

    return jax.jit(of)


def check_law(law, local, prob, reports, share, width):
    """Both inequalities that make a law, against the certified profile, and how close it is where delta is larger."""
    found = jax.tree.map(np.asarray, law(local, prob, reports, share))
    assert (found.mass >= 0.0).all()
    assert np.isfinite(found.points).all()
    assert (np.diff(found.log_ratio) >= 0.0).all()
    losses = np.append(local * np.linspace(0.0, 0.999, 12), np.quantile(found.log_ratio[504:], np.linspace(0, 1, 12)))
    losses = np.minimum(losses, 0.9999 * local)
    lanes = (np.full(len(losses), x) for x in (reports, prob, local))
    with np.errstate(all="ignore"):
        exact = clones_delta(losses, *lanes, window=4096).log_delta
    low, high = np.exp(exact.lower), np.exp(exact.upper)
    v, blur, mass = found.log_ratio, found.blur, found.mass
    for e, least, most in zip(losses, low, high, strict=True):
        x = math.exp(e)  # y - x and 1/x - y without cancellation
        above = math.fsum(mass * x * np.expm1(np.maximum(v + blur - e, 0.0))) + float(found.beyond)
        below = math.fsum(mass / x * -np.expm1(np.minimum(v - blur + e, 0.0))) + float(found.at_zero) / x
        assert above >= least * (1.0 - 1e-13)
        assert below >= least / x * (1.0 - 1e-13)
        # the other side of the mean, by E Y = 1
        over = math.fsum(mass / x * np.expm1(np.maximum(v + blur + e, 0.0))) + float(found.beyond)
        assert over >= -math.expm1(-e) + least / x - 1e-15
        if most > 1e3 * math.exp(share):
            assert above <= most * (1.0 + width)
    # beyond all losses: what is lost from the points is in both masses
    assert math.fsum(mass) + float(found.at_zero) >= 1.0
    assert math.fsum(mass * np.exp(v)) + float(found.beyond) >= 1.0 - 1e-14


LAWS = [
    (1.0, None, 1e4, -25.0, 0.02),
    (1.0, None, 1e6, -25.0, 0.02),
    (0.1, None, 100.0, -30.0, 0.02),
    (4.0, None, 300.0, -30.0, 0.02),
    (4.0, None, 1e6, -20.0, 0.02),
    (2.0, 0.9, 5.0, -30.0, 0.02),
    (0.7, None, 1.0, -30.0, 0.02),
    (3.0, None, 2.0, -30.0, 0.02),
    (6.0, 1e-6, 1000.0, -30.0, 0.02),
    (20.0, None, 1e9, -20.0, 0.02),
    (1.0, None, 3000.0, -5.0, 0.5),
    (0.5, 1.0, 1000.0, -30.0, 0.02),
    # the last place is the first one at which so much is cut: 1 itself
    (10.0, None, 1663007.0, -30.0, 0.02),
    (5.0, None, 11150.0, -30.0, 0.02),
]


@pytest.mark.parametrize(("local", "prob", "reports", "share", "width"), LAWS)
def test_law_is_above_the_pair_and_close(law, local, prob, reports, share, width):
    check_law(law, local, math.exp(-local) if prob is None else prob, reports, share, width)


@pytest.mark.more
def test_random_laws_are_above_the_pair(law):
    rng = np.random.default_rng(11)
    for _ in range(150):
        local = float(np.exp(rng.uniform(np.log(0.01), np.log(15.0))))
        prob = math.exp(-local) if rng.random() < 0.6 else float(rng.uniform(0.0, 1.0))
        reports = float(np.rint(np.exp(rng.uniform(0.0, np.log(1e9)))))
        check_law(law, local, prob, reports, -float(rng.uniform(4.0, 60.0)), math.inf)


def test_largest_local_epsilon_keeps_its_digits(law):
    found = jax.tree.map(np.asarray, law(MOST_LOCAL, 0.5, 1.0, -30.0))
    assert found.log_ratio[-1] == pytest.approx(MOST_LOCAL, rel=1e-13)
    assert found.mass[-1] == pytest.approx(1.0 / (1.0 + math.exp(MOST_LOCAL)), rel=1e-9)
