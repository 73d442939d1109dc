"""The laws and sums behind shuffled batches, against enumeration, quadrature and the theorem's own closed forms."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.divergence.batches import _explicit
from jaxacct.divergence.batches._blanket import FARTHEST, blanket_law
from jaxacct.divergence.batches._explicit import Data, explicit_delta, laws, letters
from jaxacct.divergence.batches._one_step import step_law
from jaxacct.divergence.batches._positive_sum import positive_sum
from jaxacct.divergence.batches._powers import Atoms, AtomSteps
from jaxacct.divergence.batches._profile import BatchEpoch, Knots, epoch_delta, falling_root, knots

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD


def stop_loss(a, epsilon, k, direction):
    """Pi(k) of SB-5, in closed form, 40 digits."""
    with mp.workdps(40):
        a, c, k = mp.mpf(a), mp.exp(mp.mpf(epsilon)), mp.mpf(k)
        q, m = mp.exp(-a * a / 2), abs(k)
        tail = lambda x: mp.ncdf(-x)  # noqa: E731
        if direction is REMOVE:
            if k >= 0:
                w = mp.log((c + mp.sqrt(c * c + 4 * k * q * q)) / (2 * q)) / a
                return tail(w - a) - c * tail(w) - k * tail(w + a)
            w = mp.log(c / ((1 + m) * q)) / a
            return (1 + m) * tail(w - a) - c * tail(w)
        if k >= 0:
            w = -mp.log((c + k) * q) / a
            return mp.ncdf(w) - (c + k) * mp.ncdf(w - a)
        w = mp.log((1 + mp.sqrt(1 + 4 * c * m * q * q)) / (2 * c * q)) / a
        return mp.ncdf(w) - c * mp.ncdf(w - a) + m * mp.ncdf(w + a)


@pytest.mark.parametrize("a", [0.001, 0.1, 0.5, 1.0, 3.3])
@pytest.mark.parametrize("share", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_one_step_is_above_its_stop_loss(a, share, direction):
    """The law is above in the convex order but for what is cut off, and not by much; its mean is 1 - c."""
    epsilon, cut = share * a, 1e-13
    law = step_law(a, epsilon, direction, cut)
    assert law.cut <= 1.1 * cut
    deviation = math.sqrt(float((law.mass * law.value**2).sum()))
    assert float((law.mass * law.value).sum()) == pytest.approx(-math.expm1(epsilon), abs=1e-9 * max(deviation, a))
    for k in np.array([-4.0, -1.5, -0.4, 0.0, 0.2, 1.0, 3.0]) * deviation:
        found = float((law.mass * np.maximum(law.value - k, 0.0)).sum()) + max(-k, 0.0) * (1.0 - law.mass.sum())
        true = float(stop_loss(a, epsilon, k, direction))
        # a mass counted up to 2^-40 too much is taken off what is at 0, to which k < 0 is the distance
        assert found + law.cut + 2.0**-38 * max(-k, 0.0) >= true
        assert found <= true + 3e-3 * max(true, 1e-3 * deviation)


@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_no_record_and_no_angle_is_above_the_one_step_law(direction):
    """SB-5 itself: records of any length and angle, by quadrature in the plane, in both directions."""
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(np.arange(-9.0, 9.0, 0.06), np.arange(-9.0, 9.0, 0.06), indexing="ij")
    base = np.exp(-0.5 * (x * x + y * y)) / (2.0 * math.pi) * 0.06**2
    for _ in range(25):
        a, epsilon = rng.uniform(0.3, 1.5), rng.uniform(0.0, 1.0)
        length, angle, c = a * rng.choice([1.0, rng.random()]), rng.uniform(0.0, math.pi), math.exp(epsilon)
        with_it = np.exp(a * x - 0.5 * a * a)
        other = np.exp(length * (math.cos(angle) * x + math.sin(angle) * y) - 0.5 * length**2)
        first, second = (with_it, 1.0) if direction is REMOVE else (1.0, with_it)
        for k in rng.normal(0.0, 1.0, 4):
            found = float((base * np.maximum(first - c * second - k * other, 0.0)).sum())
            assert found <= float(stop_loss(a, epsilon, k, direction)) + 2e-4


def tail_of_rest(x, n):
    one = mp.ncdf(-x)
    return min(mp.mpf(1), n * one, 1 - (1 - 2 * one) ** n)


@pytest.mark.parametrize(("a", "batches"), [(0.02, 50), (0.5, 2), (0.7, 3), (1.0, 1000), (3.0, 100_000)])
def test_the_blanket_is_above_in_the_convex_order(a, batches):
    """Its mass and expectations of convex functions against quadrature over u and z, independent of the cells."""
    law = blanket_law(a, batches, 1e-10)
    u = np.linspace(-9.0, 9.0 + a, 3000)
    z = np.linspace(0.0, 9.0, 1201)
    tail = np.array([float(tail_of_rest(x, batches - 1)) for x in z])
    du, mid = u[1] - u[0], 0.5 * (z[1:] + z[:-1])
    weight = np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi) * du
    rest = np.concatenate([[1.0 - tail[0]], tail[:-1] - tail[1:]])
    places = np.concatenate([[0.0], mid])
    exponent = a * np.hypot(u[:, None], places) + 0.5 * a * a
    measure = weight[:, None] * rest * np.exp(-exponent)
    gamma = float(measure.sum())
    assert law.least_mass <= gamma * (1.0 + 1e-6)
    assert law.least_mass >= gamma * (1.0 - 0.02 * a * a - 2e-3)
    y, w = np.exp(a * u - 0.5 * a * a)[:, None] + 0.0 * places, np.exp(exponent)
    # E e^-l G(e^l D), with G(x) = (x + s)_+, for sums s of the size of W; a missing mass counts G(0) too little
    for c, s in itertools.product((1.0, 1.0 + a, math.exp(2.0 * a)), (-3.0, -0.3, 0.0)):
        at = s * (math.exp(2.0 * a) * c - 1.0 + a)
        true = float((measure * np.maximum(w * (y - c) + at, 0.0)).sum())
        found = float((law.mass * np.maximum(np.exp(law.log_weight) * (law.excess + 1.0 - c) + at, 0.0)).sum())
        assert found + law.cut >= true * (1.0 - 1e-5)  # what the quadrature here errs by
        assert found <= true + 0.02 * max(true, 1e-3 * a)


def enumerated(first, steps):
    """The sum by definition: all convolutions of small laws."""
    value, mass = list(steps.law.value), list(steps.law.mass)
    value, mass = [*value, 0.0], [*mass, 1.0 - sum(mass)]
    law, laws_ = {0.0: 1.0}, [{0.0: 1.0}]
    for _ in range(int(steps.most_steps)):
        grown = {}
        for (x, p), (v, m) in itertools.product(law.items(), zip(value, mass, strict=True)):
            grown[round(x + v, 9)] = grown.get(round(x + v, 9), 0.0) + p * m
        law = grown
        laws_.append(law)
    total = 0.0
    for k in range(int(steps.terms)):
        for (x, p), (s, q) in itertools.product(
            zip(first.value, first.mass, strict=True), laws_[int(steps.most_steps) - k].items()
        ):
            total += (1.0 - steps.blank) ** k * p * q * max(x + s, 0.0)
    return total


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(120))
def test_positive_sums_against_enumeration(seed):
    """Never below, and close, for random laws, numbers of steps, and chances to go on."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    value = np.round(np.append(rng.normal(0.0, 1.0, 2), -rng.exponential(2.0)), 2)
    mass = rng.dirichlet(np.ones(4))[:3] * rng.choice([1.0, 0.1])
    value = value - max(0.0, float(mass @ value) / float(mass.sum()))  # of a mean that is not positive
    value = np.round(value - 0.01, 2)
    first = Atoms(np.round(rng.normal(-1.0, 2.0, 5), 2), rng.random(5) * 0.2)
    terms = float(rng.integers(1, count + 2))
    steps = AtomSteps(Atoms(value, mass), float(mass.sum()), float(count), terms, float(rng.uniform(0.05, 1.0)))
    true = enumerated(first, steps)
    found = positive_sum(first, steps, math.log(max(true, 1e-12)))
    assert found >= true * (1.0 - 1e-12)
    assert found <= 1.02 * true + 1e-12


def test_many_steps_by_nodes_and_by_transform():
    """A hundred thousand steps of two values: the same from the first nodes as from a binomial sum."""
    count, p, drop, goal = 100_000, 0.3, 0.004, 1e-7
    value, mass = np.array([1.0, -1.0]), np.array([p, p + drop])
    steps = AtomSteps(Atoms(value, mass), float(mass.sum()), float(count), 1.0, 1.0)
    first = Atoms(np.zeros(1), np.ones(1))
    deviation, mean = math.sqrt(count * (2 * p + drop)), -count * drop
    # the sum is nearly normal; its third cumulant moves the tail by less than the tolerance
    z = mean / deviation
    true = deviation * (math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) + z * 0.5 * math.erfc(-z / math.sqrt(2)))
    found = positive_sum(first, steps, math.log(goal))
    assert found == pytest.approx(true, rel=0.02)


def two_batches_exact(a, epsilon, direction):
    """The most that any adaptive data lose in two batches: (1/2) int N(r)(y) Pi(k(y)) dy at r = -a."""
    c, y = math.exp(epsilon), np.linspace(-10.0 - a, 10.0 + a, 6001)
    density = {m: np.exp(-0.5 * (y - m) ** 2) / math.sqrt(2.0 * math.pi) for m in (-a, 0.0, a)}
    first, second = (density[a], density[0.0]) if direction is REMOVE else (density[0.0], density[a])
    # the other record is in the second batch where this one holds the record, and the other way round
    k = -(first - c * second) / density[-a]
    grid = np.concatenate([-np.geomspace(1e-9, max(-k.min(), 1.0), 400)[::-1], [0.0], np.geomspace(1e-9, k.max(), 400)])
    table = np.array([float(stop_loss(a, epsilon, x, direction)) for x in grid])
    return 0.5 * float((density[-a] * np.interp(k, grid, table)).sum() * (y[1] - y[0]))


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.7, 0.5), (1.0, 0.0), (1.5, 1.0), (4.0, 0.1)])
@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_two_batches_with_adaptive_data(sigma, epsilon, direction):
    true = two_batches_exact(1.0 / sigma, epsilon, direction)
    found = epoch_delta(BatchEpoch(1.0 / sigma, 2, 2, False, 1e-3), epsilon, direction)
    assert true * (1.0 - 1e-4) <= found <= 2.0 * true


def test_more_is_never_less():
    """Of laws that are larger in the convex order, or masses that are rounded up, sums are not smaller."""
    first, mass = Atoms(np.array([-2.0, 1.0]), np.array([0.3, 0.1])), np.array([0.2, 0.3])
    steps = AtomSteps(Atoms(np.array([1.5, -2.0]), mass), 0.5, 30.0, 20.0, 0.1)
    here = positive_sum(first, steps, -10.0)
    wider = steps._replace(law=Atoms(np.array([2.5, 0.5, -2.0]), np.array([0.1, 0.1, 0.3])))
    heavier = steps._replace(law=Atoms(steps.law.value, mass * 1.01))
    longer = steps._replace(terms=21.0)
    surer = steps._replace(blank=0.09)
    for other in (wider, heavier, longer, surer):
        assert positive_sum(first, other, -10.0) > here


def test_what_is_cut_off_is_added():
    """A term of the first law far above all that the rest can take back counts in full."""
    first = Atoms(np.array([-1.0, 1e6]), np.array([0.5, 1e-9]))
    steps = AtomSteps(Atoms(np.array([0.4, -0.5]), np.array([0.5, 0.5])), 1.0, 20.0, 1.0, 1.0)
    true = enumerated(first, steps)
    assert true * (1.0 - 1e-12) <= positive_sum(first, steps, math.log(true)) <= 1.02 * true


def test_what_lies_outside_a_window_is_taken_off(monkeypatch):
    """A window that is too small for the sums says less, never more."""
    data, epsilon = Data(1.0, 200, 1.0), 1.0
    whole = explicit_delta(data, epsilon, REMOVE)
    monkeypatch.setattr(_explicit, "_POINTS", (4, 6))
    assert explicit_delta(data, epsilon, REMOVE) < whole
    monkeypatch.setattr(_explicit._Tails, "beyond", lambda *_: 1.0)
    assert explicit_delta(data, epsilon, REMOVE) == 0.0


def test_knots_lie_above():
    """Chords between knots are above the profile they were taken from, up to the last knot and on it."""
    found = Knots(np.array([0.0, 0.1, 0.3, 1.0]), np.array([0.2, 0.15, 0.08, 0.01]))
    grid = found.on_grid(0.07)
    at = 0.07 * np.arange(len(grid))
    chords = np.interp(np.exp(at), np.exp(found.epsilon), found.delta)
    assert np.all(grid[at <= 1.0] >= chords[at <= 1.0])
    assert np.all(grid <= chords + 1e-12)
    epoch = BatchEpoch(0.5, 50, 50, False, 1e-6)
    rows = knots(lambda e: epoch_delta(epoch, e, REMOVE), epoch.goal, 4.0).on_grid(0.013)
    for i in (0, 3, 11, 40):
        assert rows[i] >= 0.999 * epoch_delta(epoch, 0.013 * i, REMOVE)


def test_a_root_is_found_from_either_side():
    for power in (0.5, 1.0, 3.0):
        profile = lambda x, n=power: math.exp(-((5.0 * x) ** n) - 0.1)  # noqa: E731
        root = (-math.log(1e-6) - 0.1) ** (1.0 / power) / 5.0
        above = falling_root(profile, 1e-6, 0.3, 1e3)
        below = falling_root(profile, 1e-6, 0.3, 1e3, from_below=True)
        assert root <= above.upper <= 1.002 * root
        assert 0.998 * root <= below.lower <= root
    flat, root = (lambda x: 0.5 * math.exp(-2.0 * x)), 0.5 * math.log(0.5 / 0.48)  # close in delta, far in epsilon
    assert root <= falling_root(flat, 0.48, 0.3, 2.0).upper <= 1.002 * root
    assert falling_root(lambda x: 1e-9, 1e-6, 0.3, 2.0).upper == 0.0
    for delta in (0.3, 1e-6, 1e-40):  # a last place too much is too much, and exactly delta is not above it
        more = delta * (1.0 + 2.0**-50)
        assert falling_root(lambda x, more=more: more if x else 0.9, delta, 0.3, 2.0).upper == 2.0
        assert falling_root(lambda x, d=delta: d if x else 0.9, delta, 0.3, 2.0, from_below=True).lower == 0.0
    assert falling_root(lambda x: 1.0, 1e-6, 0.3, 2.0).upper == 2.0


@pytest.mark.parametrize("a", [0.01, 0.6, 2.5])
def test_cells_of_an_output(a):
    found = laws(a)
    for mean, masses in ((0.0, found.none), (a, found.empty), (2.0 * a, found.record)):
        assert masses.sum() == pytest.approx(1.0, abs=1e-12)
        edges = np.linspace(-8.5, 2.0 * a + 8.5, len(masses) - 1)
        for i in (1, 60, 200, 300):
            with mp.workdps(30):
                true = mp.ncdf(mp.mpf(edges[i]) - mean) - mp.ncdf(mp.mpf(edges[i - 1]) - mean)
            assert float(masses[i]) == pytest.approx(float(true), rel=2.0**-33)


def sampled(sigma, steps, share, epsilon, direction, number=60_000):
    """delta of the explicit data by sampling its own likelihood ratio."""
    rng, a, c = np.random.default_rng(7), 1.0 / sigma, math.exp(epsilon)
    w = rng.standard_normal((number, steps))
    w[:, 0] += np.where(rng.random(number) < share, 2.0 * a if direction is REMOVE else a, 0.0)
    sums = [np.exp(m * a * w - 0.5 * (m * a) ** 2).mean(axis=1) * share + 1.0 - share for m in (2.0, 1.0)]
    first, second = sums if direction is REMOVE else sums[::-1]
    gain = np.maximum(1.0 - c * second / first, 0.0)
    return gain.mean(), gain.std() / math.sqrt(number)


@pytest.mark.parametrize("direction", [REMOVE, ADD])
@pytest.mark.parametrize(
    ("sigma", "steps", "share", "epsilon"), [(1.0, 5, 1.0, 0.7), (2.0, 40, 1.0, 0.1), (1.5, 10, 0.25, 0.1)]
)
def test_explicit_data_against_sampling(sigma, steps, share, epsilon, direction):
    mean, deviation = sampled(sigma, steps, share, epsilon, direction)
    found = explicit_delta(Data(1.0 / sigma, steps, share), epsilon, direction)
    assert found <= mean + 4.0 * deviation
    assert found >= 0.97 * mean - 4.0 * deviation


def test_letters_are_inside():
    """Measures that are not more and not less than the true ones, whose difference is what one epoch's test says."""
    data = Data(0.5, 60, 1.0)
    found = letters(data, 0.1, REMOVE)
    assert 0.999 < found.with_it.sum() <= 1.0 <= found.without.sum() < 1.001
    by_letters = float(np.maximum(found.with_it - math.exp(0.1) * found.without, 0.0).sum())
    assert by_letters == pytest.approx(explicit_delta(data, 0.1, REMOVE), rel=0.05)


def test_beyond_what_is_certified_nothing_is_claimed():
    assert blanket_law(4.1, 100, 1e-9) is None
    assert blanket_law(1.0, 100, 1e-300) is None
    assert epoch_delta(BatchEpoch(5.0, 100, 100, False, 1e-6), 1.0, REMOVE) == pytest.approx(
        ja.delta(ja.Gaussian(0.2), 1.0)
    )
    assert explicit_delta(Data(50.0, 100, 1.0), 1.0, REMOVE) == 0.0
    assert FARTHEST <= 38.0
    assert step_law(1.0, 200.0, REMOVE, 1e-9).mass.max() <= 1.0
    assert 1.0 <= positive_sum(Atoms(np.array([1.0]), np.ones(1)), nothing(), -3.0) <= 1.01
    assert positive_sum(Atoms(np.zeros(1), np.ones(1)), nothing(), -3.0) == math.inf


def nothing():
    """Steps that are all 0."""
    return AtomSteps(Atoms(np.zeros(1), np.zeros(1)), 0.0, 5.0, 1.0, 1.0)


@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_one_step_far_out_says_what_it_leaves_out(direction):
    """Masses that are no doubles at little noise: what they would add is in the cut."""
    law = step_law(4.0, 128.0, direction, 1e-280)
    found = float((law.mass * np.maximum(law.value, 0.0)).sum())
    assert found + law.cut >= ja.delta(ja.Gaussian(0.25), 128.0) * (1.0 - 1e-9)
