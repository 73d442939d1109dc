"""Laws of finitely many likelihood ratios: what they stand for lies below them, by enumeration and in 40 digits."""

import itertools
import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jaxacct._types import Direction
from jaxacct.bounds._by_laws import _BASE, _BEND
from jaxacct.divergence.allocation._profile import AllocationProfile
from jaxacct.divergence.law import (
    Law,
    RepeatedLaws,
    allocated,
    epsilon,
    gaussian_base,
    laplace_base,
    log_delta,
    replaced,
    sampled,
    whole,
)
from jaxacct.divergence.law import _allocated as averages
from jaxacct.divergence.law import _contour as contour
from jaxacct.divergence.law import _law as laws_module
from jaxacct.divergence.law import _rates as rates_module
from jaxacct.divergence.law._plan import LinePlan
from jaxacct.divergence.law._transform import Average, decay, fall, transform

BASE = 512  # points of the base that an epoch's program takes
POINTS = 1007


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), mpmath.workdps(40):
        yield


# points x - 1 of a law, and the profile that it claims, either way: points within `blur` at the better end


def below(law, x):
    """sum m (x - y)_+ + m0 x."""
    y = np.exp(law.log_ratio - law.blur)
    return np.array([math.fsum(law.mass * np.maximum(v - y, 0.0)) for v in x]) + law.at_zero * x


def above(law, x):
    """sum m (y - x)_+ + b."""
    y = np.exp(law.log_ratio + law.blur)
    return np.array([math.fsum(law.mass * np.maximum(y - v, 0.0)) for v in x]) + law.beyond


def on_host(law):
    return jax.tree.map(np.asarray, law)


# --- laws of one step


@pytest.fixture(scope="module", name="steps")
def _steps():
    gaussian = jax.jit(lambda s, q: sampled(gaussian_base(s, -40.0, POINTS), q))
    laplace = jax.jit(lambda s, q: sampled(laplace_base(s, POINTS), q))
    bent = jax.jit(lambda s, q: whole(gaussian_base(s, -40.0, BASE, _BEND)))
    cut = jax.jit(lambda s, q: sampled(gaussian_base(s, -40.0, POINTS), q, -40.0))
    return {"gaussian": gaussian, "laplace": laplace, "bent": bent, "cut": cut}


@pytest.fixture(scope="module", name="replacing")
def _replacing():
    return jax.jit(lambda s, q: replaced(s, q, -40.0, POINTS + 1))


@pytest.mark.parametrize(("noise", "prob"), [(1.0, 0.01), (0.3, 1e-3), (5.0, 0.9), (0.1, 0.3), (0.7, 1.0)])
@pytest.mark.parametrize("kind", ["gaussian", "laplace", "bent", "cut"])
def test_moved_apart_no_convex_mean_falls(steps, kind, noise, prob):
    """(R - x)_+ and (x - R)_+, in 40 digits, at points between the ends and at them."""
    if kind == "bent":
        prob = 1.0
    law = on_host(steps[kind](noise, prob))
    mp, mu = mpmath, 1 / mpmath.mpf(noise)
    y = [mp.exp(mp.mpf(float(v))) for v in law.log_ratio]
    mass = [mp.mpf(float(m)) for m in law.mass]
    moved = [mp.mpf(float(b)) for b in law.blur]
    assert 0 < sum(mass) - 1 < 1e-12
    q = mp.mpf(prob)
    at = [float(law.log_ratio[i]) for i in (3, 200, 517, 900)] if kind != "bent" else [-4.0, 0.3]
    between = [0.5 * float(law.log_ratio[i] + law.log_ratio[i + 1]) for i in (5, 300, 411)]
    for log_x in (*at, *between, 0.0, -0.013, 0.4):
        x = mp.exp(mp.mpf(log_x))
        if x <= 1 - q or (kind == "laplace" and x >= 1 - q + q * mp.exp(mu)):
            continue
        v = mp.log((x - 1 + q) / q)  # the log ratio of the release itself
        if kind == "laplace":
            if not -mu < v < mu:
                continue
            # P and Q of a log ratio above v
            tails = mp.exp(-(v + mu) / 2) / 2, 1 - mp.exp((v - mu) / 2) / 2
        else:
            z = v / mu + mu / 2
            tails = mp.ncdf(-z), mp.ncdf(mu - z)
        truth_above = (1 - q) * tails[0] + q * tails[1] - x * tails[0]
        truth_below = x * (1 - tails[0]) - (1 - q) * (1 - tails[0]) - q * (1 - tails[1])
        found_above = sum(m * (r * mp.exp(b) - x) for m, r, b in zip(mass, y, moved, strict=True) if r > x)
        found_below = sum(m * (x - r * mp.exp(-b)) for m, r, b in zip(mass, y, moved, strict=True) if r < x)
        found_above, found_below = found_above + float(law.beyond), found_below + float(law.at_zero) * x
        for truth, found in ((truth_above, found_above), (truth_below, found_below)):
            assert truth <= found + mp.mpf(10) ** -38
            assert found <= truth * 1.1 + mp.mpf(10) ** -12
    if kind != "laplace":
        # what lies outside the window: at 0 and at the first end, at the last end and beyond
        last = mp.log((y[-1] - 1 + q) / q) / mu + mu / 2
        first = law.mass[law.mass > 0.0][0]
        outside = mp.ncdf(-8.5 if kind == "bent" else -mp.sqrt(80.0)) * (1 - mp.mpf(10) ** -9)
        assert min(first, law.at_zero if prob == 1.0 or kind == "cut" else law.mass[0]) >= outside
        assert (kind == "cut" and prob < 1.0) <= (law.mass[0] == 0.0)
        assert mass[-1] >= mp.ncdf(-last) * (1 - mp.mpf(10) ** -9)
        share = mp.ncdf(mu - last) * (1 - mp.mpf(10) ** -9)
        assert law.beyond >= share if prob == 1.0 else q * share + (1 - q) * mp.ncdf(-last) * (1 - mp.mpf(10) ** -9)


@pytest.mark.parametrize(
    ("noise", "prob"), [(1.0, 0.01), (0.3, 1e-3), (5.0, 0.9), (0.1, 0.3), (0.7, 1.0), (0.4, 1e-12)]
)
def test_replaced_step_is_above_its_profile(replacing, noise, prob):
    """Both inequalities in 40 digits: the pair is its own mirror image, so that one profile says all."""
    law = on_host(replacing(noise, prob))
    mp, mu, q = mpmath, 1 / mpmath.mpf(noise), mpmath.mpf(prob)
    y = [mp.exp(mp.mpf(float(v))) for v in law.log_ratio]
    mass = [mp.mpf(float(m)) for m in law.mass]
    moved = [mp.mpf(float(b)) for b in law.blur]
    assert 0 < sum(mass) - 1 < 1e-11

    def factor(z):
        return 1 - q + q * mp.exp(mu * z - mu * mu / 2)

    def profile(x, z):
        """Of P against x Q, whose ratio at z is x."""
        return (1 - q) * (1 - x) * mp.ncdf(-z) + q * mp.ncdf(mu - z) - x * q * mp.ncdf(-mu - z)

    largest = 9 + 1 / noise
    for z in (1e-3, 0.03, 0.3, 1.7, 4.0, 6.5, 0.5 * largest, 0.97 * largest):
        x = factor(mp.mpf(z)) / factor(-mp.mpf(z))
        truth = profile(x, mp.mpf(z))
        found = sum(m * (r * mp.exp(b) - x) for m, r, b in zip(mass, y, moved, strict=True) if r > x) + law.beyond
        mirrored = sum(m * (1 / x - r * mp.exp(-b)) for m, r, b in zip(mass, y, moved, strict=True) if r < 1 / x)
        mirrored = x * (mirrored + law.at_zero / x)
        for value in (found, mirrored):
            assert truth <= value + mp.mpf(10) ** -38
            assert value <= truth * 1.1 + 1e-12 * q
    # what lies outside the window of z
    last = mp.findroot(lambda z: mp.log(factor(z) / factor(-z)) - mp.log(y[-1]), largest)
    outside = (1 - q) * mp.ncdf(-last) + q * mp.ncdf(mu - last)
    assert min(law.beyond, law.at_zero, law.mass[0]) >= outside * (1 - mp.mpf(10) ** -9)
    assert law.mass[-1] >= ((1 - q) * mp.ncdf(-last) + q * mp.ncdf(-mu - last)) * (1 - mp.mpf(10) ** -9)


# --- averages


@pytest.fixture(scope="module", name="average")
def _average():
    """`allocated` of any base of `BASE` points."""
    return jax.jit(alone)


def test_where_a_ratio_may_be_0_so_may_the_average(average):
    """If that is rare enough: its place, far below all others, is left out of the transform."""
    base = on_host(jax.jit(lambda s: whole(gaussian_base(s, -30.0, BASE, _BEND)))(50.0))
    assert float(base.at_zero) >= mpmath.ncdf(-8.5)
    law = on_host(average(base, 10.0, -24.0))
    assert 10.0 * float(base.at_zero) <= law.at_zero < 1e-10
    # E(X - x)_+ and E(x - X)_+ of a normal X at least, but for the points' distance
    spread = math.sqrt(math.expm1(1.0 / 50.0**2) / 10.0)
    for z in (-2.0, -1.0, 0.0, 1.0, 2.0):
        x = 1.0 + z * spread
        below = float(np.sum(law.mass * np.maximum(x - np.exp(law.log_ratio), 0.0))) + x * law.at_zero
        normal = spread * float(mpmath.npdf(z) + z * mpmath.ncdf(z))
        assert 0.9 * normal <= below <= 1.1 * normal


def alone(base, steps, share):
    """`allocated` of one base."""
    found = allocated(jax.tree.map(lambda x: x[None], base), jnp.asarray(steps)[None], share)
    return jax.tree.map(lambda x: x[0], found)


@pytest.mark.parametrize("noise", [0.1, 0.15, 0.4, 1.0, 5.0, 1e4])
@pytest.mark.parametrize("log_share", [-2.0, -20.0, -60.0, -150.0, -1e3])
def test_cells_are_as_narrow_as_gauss_rule_is_derived_for(noise, log_share):
    """Those of the average's ratios: widths up to 0.1, or up to 0.21 within 8.5 deviations (docs/numerics/laws.md)."""
    assert noise >= laws_module.LEAST_NOISE
    with jax.enable_x64(True):
        high = 1.0 / noise + laws_module.reach_for(log_share)
        ends = np.asarray(laws_module._ends(laws_module._CENTRE * high, jnp.asarray(-8.5), high, _BASE, _BEND))
    width = np.diff(ends)
    assert 0.009 <= width.min() <= width.max() <= 0.21
    assert ends[-1] <= 28.0
    assert (np.abs(ends[1:])[width > 0.1] <= 8.5).all()


@pytest.fixture(scope="module", name="base")
def _base():
    return jax.jit(lambda noise, steps, share: whole(gaussian_base(noise, share - jnp.log(steps) - 3.0, BASE, _BEND)))


def grid_and_between(law, num=40):
    x = np.exp(law.log_ratio[np.linspace(0, len(law.log_ratio) - 1, num).astype(int)])
    return np.sort(np.concatenate([x, np.sqrt(x[1:] * x[:-1]), x * 1.0003, [0.9999, 1.0, 1.0001]]))


def certified(noise, steps, x):
    """Lower ends of E(x - X)_+ below 1 and of E(X - x)_+ above it."""
    low, high = x[x <= 1.0], x[x >= 1.0]
    add = AllocationProfile(noise, steps, Direction.ADD).delta(-np.log(low))
    remove = AllocationProfile(noise, steps, Direction.REMOVE).delta(np.log(high))
    return low, np.asarray(add.lower) * low, high, np.asarray(remove.lower)


FEW = [(1.0, 1000.0, -35.0), (0.5, 20.0, -25.0), (3.0, 1e6, -30.0), (1.3, 2.0, -30.0), (3.0, 1.0, -25.0)]
MANY = [
    (noise, steps, share)
    for noise in (0.1, 0.25, 0.6, 1.0, 2.5, 8.0)
    for steps in (1.0, 2.0, 3.0, 20.0, 1000.0, 1e6, 1e9)
    for share in (-20.0, -40.0, -60.0)
]


def check_average(average, base, noise, steps, share):
    law = on_host(average(base(noise, steps, share), steps, share))
    if not (law.mass < 1e200).all():  # NaN, or more than can be summed: a program says nothing
        return False
    assert (law.mass >= 0.0).all()
    assert (np.diff(law.log_ratio) > 0.0).all()
    x = grid_and_between(law)
    low, add, high, remove = certified(noise, steps, x)
    # the epsilons of the profile err by their rounding
    assert (add <= below(law, low) * (1.0 + 1e-12) + 1e-15 * low).all()
    assert (remove <= above(law, high) * (1.0 + 1e-12)).all()
    # the other side of the mean, by E X = 1
    assert (add + 1.0 - low <= above(law, low) * (1.0 + 1e-12)).all()
    assert (remove + high - 1.0 <= below(law, high) * (1.0 + 1e-12)).all()
    return True


@pytest.mark.sample(2)
@pytest.mark.parametrize(("noise", "steps", "share"), FEW)
def test_average_is_above_the_certified_profile(average, base, noise, steps, share):
    assert check_average(average, base, noise, steps, share)


@pytest.mark.more
def test_many_averages_are_above_the_certified_profile(average, base):
    known = [check_average(average, base, *setting) for setting in MANY]
    assert np.mean(known) > 0.55


@pytest.mark.parametrize(("noise", "steps", "share"), [(1.0, 1000.0, -35.0), (2.0, 1e5, -30.0)])
def test_average_is_close_to_the_profile(average, base, noise, steps, share):
    law = on_host(average(base(noise, steps, share), steps, share))
    low, add, high, remove = certified(noise, steps, grid_and_between(law))
    near = add > 1e-7
    assert (below(law, low)[near] <= 1.05 * add[near]).all()
    near = remove > 1e-7
    assert (above(law, high)[near] <= 1.05 * remove[near]).all()


def spread_out(points, mass, blur=0.0, at_zero=0.0):
    """A law of few points as one of `BASE`: each several times."""
    num = BASE // len(points)
    rows = np.repeat(np.log(points), num), np.repeat(np.asarray(mass) / num, num), np.full(BASE, blur + 1e-15)
    return Law(jnp.asarray(np.stack(rows)), jnp.asarray([at_zero, 0.0]))


def enumerated(points, mass, steps):
    """Values and masses of the average of `steps` ratios."""
    values, weights = [], []
    for counts in itertools.product(range(steps + 1), repeat=len(points)):
        if sum(counts) == steps:
            ways = math.factorial(steps) // math.prod(math.factorial(k) for k in counts)
            values.append(math.fsum(k * y for k, y in zip(counts, points, strict=True)) / steps)
            weights.append(ways * math.prod(m**k for k, m in zip(counts, mass, strict=True)))
    return np.array(values), np.array(weights)


# two points; four with a mean of 1; a mass at 0
BASES = [
    ([0.5, 1.5], [0.5, 0.5], 0.0),
    ([0.25, 0.75, 1.25, 4.0], [0.25, 0.375, 0.25, 0.08515625], 0.03984375),
    ([0.5, 16.0], [0.96875, 0.0322265625], 0.0),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("which", range(len(BASES)))
@pytest.mark.parametrize("blur", [0.0, 1e-7])
def test_average_of_few_points_by_enumeration(average, which, blur):
    points, mass, at_zero = BASES[which]
    points, mass, at_zero = np.array(points), np.array(mass), at_zero
    # masses add to 1, ratios to 1
    mass[0] += 1.0 - at_zero - mass.sum()
    points[-1] += (1.0 - points @ mass) / mass[-1]
    # the truth errs by the blur at the first or the last point, its mean kept by the other
    ends = np.where(np.arange(len(points)) == 0, -1.0 / mass[0], 0.0)
    ends[-1] = 1.0 / mass[-1]
    moved = points + blur * ends * 0.99 / np.max(np.abs(ends) / points)
    for steps in (1, 2, 3, 6):
        law = on_host(average(spread_out(points, mass, 1.02 * blur, at_zero), float(steps), -25.0))
        assert not np.isnan(law.mass).any()
        assert (law.mass >= 0.0).all()
        values, weights = enumerated(np.append(moved, 0.0), np.append(mass, at_zero), steps)
        x = np.concatenate([grid_and_between(law), np.linspace(0.01, values.max(), 60), values[values > 0]])
        truth_below = np.array([math.fsum(weights * np.maximum(v - values, 0.0)) for v in x])
        truth_above = np.array([math.fsum(weights * np.maximum(values - v, 0.0)) for v in x])
        assert (truth_below <= below(law, x) * (1.0 + 1e-14) + 1e-16).all()
        assert (truth_above <= above(law, x) * (1.0 + 1e-14) + 1e-16).all()


@pytest.mark.sample(1)
@pytest.mark.parametrize("left_out", [0, 1, 7])
@pytest.mark.parametrize("off", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_values_that_err_by_themselves_leave_the_law_above(off, left_out):
    """A logistic variable of mean 1: values at the ends of what is kept of pieces are as far off as they may be, masses
    are exact."""
    scale, num = 0.05, averages.NUM_LOW + averages.NUM_HIGH
    ends = np.concatenate([np.linspace(0.4, 0.95, averages.NUM_LOW), np.geomspace(1.05, 3.0, averages.NUM_HIGH + 1)])
    gap = np.diff(ends) / (averages.POINTS - 1 + averages._SKIP)
    x = ends[:-1, None] + gap[:, None] * np.arange(averages.POINTS)
    sign = np.where(np.arange(num) < averages.NUM_LOW, 1.0, -1.0)[:, None]
    value = scale * np.log1p(np.exp(sign * (x - 1.0) / scale))
    # the second difference of log(1 + e^v) over d, where nothing cancels
    d, v = gap[:, None] / scale, (x - 1.0) / scale
    second = scale / gap[:, None] * np.log1p(4.0 * np.sinh(0.5 * d) ** 2 / (4.0 * np.cosh(0.5 * v) ** 2))
    slip = 1e-9 * value
    kept = [left_out, averages.POINTS - 1 - left_out]
    moved = value.copy()
    moved[:, kept] += 2.0 * slip[:, kept] * off
    piece = averages._Piece(
        *(jnp.asarray(z) for z in (np.stack([x - 1.0, moved, second, slip], axis=1), gap, 0.0 * gap))
    )
    law = on_host(averages._joined(piece, 0.0, jnp.asarray(np.repeat(np.float64(kept)[:, None], num, axis=1))))
    x = np.concatenate([x.ravel(), 0.5 * (x[:, 1:] + x[:, :-1]).ravel()])
    low, high = (scale * np.log1p(np.exp(sign * (x - 1.0) / scale)) for sign in (1.0, -1.0))
    assert (low <= below(law, x) * (1.0 + 1e-13)).all()
    assert (high <= above(law, x) * (1.0 + 1e-13)).all()


@pytest.mark.parametrize("wider", [0.0, 1e-6, 1e-4])
def test_chords_lead_where_slopes_rise(wider):
    """Every second line's profile is that of a wider variable."""
    scale, num = 0.05, averages.NUM_LOW + averages.NUM_HIGH
    ends = np.concatenate([np.linspace(0.4, 0.95, averages.NUM_LOW), np.geomspace(1.05, 1.5, averages.NUM_HIGH + 1)])
    gap = np.diff(ends) / (averages.POINTS - 1 + averages._SKIP)
    x = ends[:-1, None] + gap[:, None] * np.arange(averages.POINTS)
    sign = np.where(np.arange(num) < averages.NUM_LOW, 1.0, -1.0)[:, None]
    width = scale * (1.0 + wider * (np.arange(num) % 2))[:, None]
    value = width * np.log1p(np.exp(sign * (x - 1.0) / width))
    piece = averages._Piece(jnp.asarray(np.stack([x - 1.0, value, 0.0 * x, 0.0 * x], axis=1)), gap, 0.0 * gap)
    first, last = np.asarray(averages._chords(piece)).astype(int)
    assert first[0] == 0
    assert last[-1] == averages.POINTS - 1
    assert (first < averages._NEAR).all()
    assert (last >= averages.POINTS - averages._NEAR).all()
    if not wider:
        assert (first == 0).all()
        assert (last == averages.POINTS - 1).all()
    for j in range(num - 1):
        k, end = first[j + 1], last[j]
        lift = 1.0 if j == averages.NUM_LOW - 1 else 0.0
        across = (value[j + 1, k] + lift * (x[j + 1, k] - 1.0) - value[j, end]) / (x[j + 1, k] - x[j, end])
        before, after = (value[j, end] - value[j, end - 1]) / gap[j], np.diff(value[j + 1])[k] / gap[j + 1] + lift
        slack = 1e-6 * abs(after - before)
        assert before - slack <= across <= after + slack


# --- transforms

RATIOS = np.sort(np.exp(np.random.default_rng(3).normal(0.0, 1.1, 40)))
WEIGHTS = np.random.default_rng(4).dirichlet(np.ones(41))


def few_ratios(blur=1e-15, steps=7.0):
    excess = np.concatenate([[0.0], RATIOS]) / (WEIGHTS[1:] @ RATIOS) - 1.0
    return Average(*(jnp.asarray(x) for x in (excess, WEIGHTS, np.full(41, blur), steps)))


@pytest.fixture(scope="module", name="transformed")
def _transformed():
    return jax.jit(transform)


@pytest.mark.parametrize(("centre", "step"), [(0.8, 0.05), (-0.4, 1.3), (1e-5, 1e-6), (6.0, 40.0)])
@pytest.mark.parametrize("blur", [1e-15, 1e-6])
def test_transform_errs_by_no_more_than_is_booked(transformed, centre, step, blur):
    of = few_ratios(blur)
    value, error = (np.asarray(x) for x in transformed(of, centre, step))
    for sign in (-1, 1):
        # a point errs by its blur of y: all the same way, and in turns
        for turns in (np.ones(41), np.where(np.arange(41) % 2, 1.0, -1.0)):
            for k in (0, 1, 15, 16, 255, 511):
                u = mpmath.mpc(centre, k * mpmath.mpf(step))
                total = mpmath.mpc(0)
                for w, m, s in zip(of.excess.tolist(), of.mass.tolist(), turns.tolist(), strict=True):
                    w = mpmath.mpf(w)
                    w += sign * s * mpmath.mpf(blur) * (1 + w) * 0.99
                    total += m * (mpmath.exp(-u * w) - 1 + u * w)
                assert abs(total - mpmath.mpc(*value[:, k].tolist())) <= error[k]
                assert blur > 1e-10 or abs(u) > 100 or error[k] <= 1e-10 * max(1.0, abs(total)) + 1e-18


@pytest.mark.parametrize(("centre", "period"), [(0.8, 30.0), (-0.4, 9.0)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_ratios_that_all_err_one_way_move_the_transform_by_no_more_than_is_booked(centre, period, sign):
    """Their mean moves with them."""
    blur, of = 1e-6, few_ratios(1e-6)
    line = LinePlan(*(jnp.asarray(x) for x in (-0.5, 0.5, np.inf, centre, period, 0.0)))
    log_size, angle, relative = np.asarray(averages._log_transform(of, averages._sums(of, np.inf), line))
    w = np.asarray(of.excess)
    w = w + 0.99 * sign * blur * (1.0 + w)
    y = 2.0 * np.pi / period * np.arange(len(angle))[:, None]
    truth = np.exp(-(centre + 1j * y) / 7.0 * w) @ np.asarray(of.mass)
    found = np.exp(log_size + 1j * angle)
    known = relative < 1.0
    assert known[:20].all()
    assert (np.abs(truth - found) <= np.abs(found) * np.expm1(relative) * (1.0 + 1e-9) + 1e-15)[known].all()


@pytest.mark.sample(2)
@pytest.mark.parametrize("centre", [1.3, -0.6])
@pytest.mark.parametrize("cut", [np.inf, 2.5])
def test_transform_has_fallen_as_said_up_to_the_edge(centre, cut):
    of = few_ratios()
    top = 7.0 * 2.0
    fallen = decay(of, jnp.asarray(1.7))
    w, m = np.asarray(of.excess), np.asarray(of.mass)
    kept = w <= cut
    lost = m[~kept].sum(), (m * (np.abs(w) + 1.0))[~kept].sum()
    log_fall, edge = (float(x) for x in fall(fallen, of.steps, centre, top, w[kept].max(), *lost))
    assert edge >= top
    y = np.linspace(top, edge, 20_000)[:, None]
    truth = np.abs(np.exp(-(centre + 1j * y) / 7.0 * w[kept]) @ m[kept]).max()
    assert 7.0 * math.log(truth) <= log_fall
    assert log_fall < 0.0 or cut < 3.0
    # between heights, and on the imaginary axis
    u = np.linspace(np.asarray(fallen.heights)[:-1], np.asarray(fallen.heights)[1:], 9)
    dense = np.abs(np.exp(-1j * u[..., None] * w) @ m).max(0)
    assert (dense <= np.asarray(fallen.size)).all()


@pytest.mark.parametrize("centre", [0.2, 0.01])
@pytest.mark.parametrize("num_kept", [1, 2])
def test_fall_of_a_transform_beside_the_axis(centre, num_kept):
    """Two ratios that nearly cancel on the axis at one height, and less beside it or alone."""
    w, m = np.array([-1.0, 4.0]), np.array([0.8, 0.2])
    of = Average(*(jnp.asarray(x) for x in (w, m, np.full(2, 1e-15), 1.0)))
    fallen = decay(of, jnp.asarray(0.6))._replace(gap=jnp.asarray(0.66**-2))
    lost = m[num_kept:].sum(), (m * (np.abs(w) + 1.0))[num_kept:].sum()
    log_fall, edge = (float(x) for x in fall(fallen, of.steps, centre, 0.6, w[num_kept - 1], *lost))
    assert 0.62 < edge < 0.66
    y = np.linspace(0.6, edge, 1000)[:, None]
    truth = np.abs(np.exp(-(centre + 1j * y) * w[:num_kept]) @ m[:num_kept]).max()
    assert math.log(truth) <= log_fall


def test_decay_of_ratios_part_of_whose_mean_is_at_infinity():
    """E W = -0.2: the transform falls with the height, however low that is."""
    w, m = np.array([-1.0, 0.0, 1.5]), np.array([0.5, 0.3, 0.2])
    fallen = decay(Average(*(jnp.asarray(x) for x in (w, m, np.full(3, 1e-15), 1.0))), jnp.asarray(1e-3))
    u = np.asarray(fallen.heights)[:-1, None]
    assert (np.abs(np.exp(-1j * u * w) @ (m * w)) <= np.asarray(fallen.slope)).all()


@pytest.mark.parametrize("cut", [1.5, -0.999])
def test_masses_of_large_ratios_are_those_of_the_binomial_distribution(cut):
    of = few_ratios(steps=5.0)
    w, m = np.asarray(of.excess), np.asarray(of.mass)
    large = w > cut
    some, mean, number = (float(x) for x in averages._with_large(of, averages._sums(of, jnp.asarray(cut))))
    lost, taken = m[large].sum(), (m * (w + 1.0))[large].sum()
    assert some == pytest.approx(1.0 - (1.0 - lost) ** 5, rel=1e-12)
    # E X - E[X; none is large]
    truth = 1.0 - (1.0 - taken) * (1.0 - lost) ** 4
    assert truth <= mean * (1.0 + 1e-15) <= truth * (1.0 + 1e-11)
    assert number >= 5.0 * lost


# --- compositions


PAD = 12


def few(points, mass, at_zero=0.0, beyond=0.0, blur=1e-15):
    """A law of `PAD` points, each several times: steering takes neighbours together."""
    num = PAD // len(points)
    rows = np.repeat(np.asarray(points, float), num), np.repeat(np.asarray(mass, float) / num, num), np.full(PAD, blur)
    return Law(np.stack(rows), np.array([at_zero, beyond]))


def run_of(*laws, counts):
    return RepeatedLaws(
        jax.tree.map(lambda *x: jnp.stack([jnp.asarray(v) for v in x]), *laws), jnp.asarray(counts, jnp.float64)
    )


@pytest.fixture(scope="module", name="composed")
def _composed():
    """Deltas at epsilons, and epsilons at log deltas, of runs of two laws of few points."""

    def both(run, add, epsilons, log_deltas):
        return (
            jax.lax.map(lambda e: log_delta(run, add, e).value, epsilons),
            jax.lax.map(lambda d: epsilon(run, add, d).value, log_deltas),
        )

    compiled = jax.jit(both)
    return lambda run, add, epsilons, log_deltas: tuple(
        np.asarray(x) for x in compiled(run, add, *(jnp.asarray(v, jnp.float64) for v in (epsilons, log_deltas)))
    )


def pair(p, q, at_zero=0.0, beyond=0.0):
    """The law of the ratios p/q: masses q."""
    p, q = np.asarray(p), np.asarray(q)
    return few(np.log(p / q), q, at_zero, beyond)


def true_delta(laws, counts, add, epsilon):
    """delta of a composition of laws, by enumeration."""
    values, weights, ruined = np.zeros(1), np.ones(1), 1.0
    for law, count in zip(laws, counts, strict=True):
        here = law.mass > 0
        for _ in range(int(count)):
            values = (values[:, None] + law.log_ratio[here]).ravel()
            weights = (weights[:, None] * law.mass[here]).ravel()
            values, at = np.unique(np.round(values, 12), return_inverse=True)
            weights = np.bincount(at, weights)
        ruined *= (1.0 - (law.at_zero if add else law.beyond)) ** count
    if add:
        finite = math.fsum(weights * np.maximum(1.0 - np.exp(values + epsilon), 0.0))
    else:
        finite = math.fsum(weights * np.maximum(np.exp(values) - math.exp(epsilon), 0.0))
    return finite + 1.0 - ruined


TWO = pair([0.55, 0.45], [0.45, 0.55])
THREE = pair([0.5, 0.3, 0.199], [0.3, 0.3, 0.399], at_zero=0.001, beyond=0.001)
EPSILONS = np.array([0.0, 0.31, 1.0, 1.7])
LOG_DELTAS = np.log(np.array([1e-300, 1e-5, 0.02, 0.3]))


@pytest.mark.sample(1)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("counts", [(10, 0), (0, 1), (1, 1), (4, 3), (1, 0), (40, 20)])
def test_compositions_of_few_points_by_enumeration(composed, add, counts):
    laws = (TWO, THREE)
    deltas, epsilons = composed(run_of(*laws, counts=counts), add, EPSILONS, LOG_DELTAS)
    for e, found in zip(EPSILONS, deltas, strict=True):
        truth = true_delta(laws, counts, add, e)
        assert truth <= math.exp(found) * (1.0 + 1e-11) + 1e-15
        assert math.exp(found) <= 1.05 * truth + 2e-7
    for d, found in zip(LOG_DELTAS, epsilons, strict=True):
        if np.isfinite(found):
            assert true_delta(laws, counts, add, found) <= math.exp(d) * (1.0 + 1e-11) + 1e-15
            assert found < 1e-9 or true_delta(laws, counts, add, 0.97 * found - 1e-3) >= 0.9 * math.exp(d) or d < -30.0
    assert np.isfinite(epsilons[3])


def test_mass_of_infinite_loss_is_part_of_delta(composed):
    lost = few([0.0, 0.2], [0.5, 0.5], beyond=1e-7)
    run = run_of(lost, TWO, counts=(20, 0))
    deltas, epsilons = composed(run, False, [50.0, 50.0, 50.0, 50.0], np.log([1.9e-6, 2.1e-6, 1e-5, 1e-5]))
    assert math.exp(deltas[0]) >= 2e-6 - 2e-12
    assert (epsilons[:2] == np.inf).all()
    many = math.exp(20.0 * math.log(0.5 + 0.5 * math.exp(0.2)))
    assert deltas[0] <= math.log(2e-6 * many * 1.01) or deltas[0] == 0.0


@pytest.mark.parametrize("counts", [(1e9, 0.0), (1e9, 1e9), (0.0, 0.0)])
def test_many_or_no_releases_fail_closed(composed, counts):
    near = few([-1e-5, 1e-5], [0.5 * (1 + 5e-6), 0.5 * (1 - 5e-6)])
    deltas, epsilons = composed(run_of(near, TWO, counts=counts), False, EPSILONS, LOG_DELTAS)
    assert not np.isnan(deltas).any()
    assert not np.isnan(epsilons).any()
    assert (deltas <= 0.0).all()
    assert (epsilons >= 0.0).all()
    if counts == (1e9, 0.0):
        # a Gaussian release of mu = 1e-5 sqrt(1e9), but for what rounding and the blur take
        mu = 1e-5 * math.sqrt(1e9)
        truth = mpmath.ncdf(mu / 2 - 1 / mu) - mpmath.e * mpmath.ncdf(-mu / 2 - 1 / mu)
        assert truth * 0.999 <= math.exp(deltas[2])


@pytest.mark.parametrize("blurred", [1e-9, 0.05])
def test_moments_err_by_no_more_than_is_booked(blurred):
    """Of three points, summed in 40 digits; logarithms that err, at either end of their blur."""
    log_ratio, mass = np.array([-0.7, 0.1, 1.9]), np.array([0.3, 0.6, 0.1])
    law = Law(jnp.stack([jnp.asarray(x) for x in (log_ratio, mass, np.full(3, blurred))]), jnp.zeros(2))
    step = 0.02
    for add in (False, True):
        logs, phase, errors = (np.asarray(x) for x in contour.moments(law, jnp.asarray(2.6), jnp.asarray(step), add))
        real = float(contour.log_moment(law, jnp.asarray(2.6), add))
        for move, k in itertools.product((-blurred, 0.0, blurred), (0, 1, 37, 511, 1023)):
            s = mpmath.mpc(2.6, k * mpmath.mpf(step))
            w = 1 - s if add else s
            truth = sum(
                m * mpmath.exp(w * (mpmath.mpf(x) + move)) for m, x in zip(mass, log_ratio.tolist(), strict=True)
            )
            value = mpmath.exp(float(logs[k])) * mpmath.expj(float(phase[k]))
            assert abs(value - truth) <= abs(value) * mpmath.expm1(float(errors[k]))
            if k == 0:
                assert mpmath.log(abs(truth)) <= real <= mpmath.log(abs(truth)) + 12.0 * blurred


@pytest.mark.parametrize("add", [False, True])
def test_delta_of_a_single_release_counts_losses_that_may_be_above_epsilon(add):
    """Two losses that err by their blur, epsilon between their two ends."""
    blur = 1e-3
    run = run_of(few([-0.5, 0.5], [0.6, 0.4], blur=blur), counts=(1,))
    points = contour.points_of_single(run, add)
    for epsilon_ in (0.2, 0.4995, 0.5, 0.5005, 0.5009, 0.6):
        value, slope, error = (float(x) for x in contour.single_delta(points, jnp.asarray(epsilon_)))
        worst = math.exp(0.5 + blur) - math.exp(epsilon_), 1.0 - math.exp(epsilon_ - 0.5 - blur)
        truth = max(0.6 * worst[1] if add else 0.4 * worst[0], 0.0)
        assert truth <= value + error <= truth + 3e-3
        assert slope <= 0.0


@pytest.mark.more
def test_rates_are_those_of_the_sum():
    """Against differences of the sum at the same line, in what both laws depend on and in their counts."""

    def laws(p):
        return [few([-0.3, 0.3], [0.5 + 0.1 * p, 0.5 - 0.1 * p]), few([-0.2 * p, 0.2], [0.5, 0.5])]

    line = contour.LawLine(*(jnp.asarray(x) for x in (4.0, 0.2, 1e-4)))
    counts, gap = np.array([6.0, 3.0]), rates_module.MOVED

    def log_delta_(p, counts):
        of = contour.summands(run_of(*laws(p), counts=counts), line, False)
        value, slope = contour.trapezoid(of, 0.9)
        return float(jnp.log(value) + of.log_scale - 0.9 * line.excess), float(slope / value)

    rows = [[law, moved] for law, moved in zip(laws(1.0), laws(1.0 + gap), strict=True)]
    stacked = jax.tree.map(
        lambda *x: jnp.stack([jnp.asarray(v) for v in x]).reshape(2, 2, *np.shape(x[0])), *rows[0], *rows[1]
    )
    slope, by = rates_module.rates(stacked, jnp.asarray(counts), jnp.full((2, 1), gap), line, False, 0.9)
    h = 1e-5
    assert slope == pytest.approx(log_delta_(1.0, counts)[1], rel=1e-12)
    both = (log_delta_(1.0 + h, counts)[0] - log_delta_(1.0 - h, counts)[0]) / (2.0 * h)
    assert by[:, 0].sum() == pytest.approx(both, rel=1e-4)
    for i in range(2):
        moved = [log_delta_(1.0, counts + s * h * np.eye(2)[i])[0] for s in (1.0, -1.0)]
        assert by[i, 1] == pytest.approx((moved[0] - moved[1]) / (2.0 * h), rel=1e-6)
