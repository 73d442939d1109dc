"""Losses that have mass by themselves: on the lattice, near the largest loss, and where logarithms round."""

import dataclasses
import math

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.bounds.bases import law_maker
from jaxacct.bounds.bases._discrete import log_ratios
from jaxacct.bounds.discrete import types_delta
from jaxacct.divergence.lattice import _ratio as lattice
from jaxacct.divergence.lattice import _sums as sums
from jaxacct.divergence.lattice._continuous_cells import gaussian_cells
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, log_mixed_with_one

REMOVE, ADD, UPPER, LOWER = ja.Direction.REMOVE, ja.Direction.ADD, ja.Bound.UPPER, ja.Bound.LOWER
QUADRATURE = mp.mpf(10) ** -20  # relative error of the reference, in 30 digits


class SampledLaplace:
    """delta of one and of two sampled Laplace steps: H_g = E_Q (R - g)_+ (remove), E_Q (1 - g R)_+ (add), any g > 0.

    Under Q the loss l of the release has the mass 1/2 at -1/b and e^{-1/b}/2 at 1/b, and the density
    e^{-(l + 1/b)/2}/4 between; R = 1 - q + q e^l. A second step is an integral over the first.
    """

    def __init__(self, scale: float, sampling_prob: float) -> None:
        self.q, self.top = mp.mpf(sampling_prob), 1 / mp.mpf(scale)

    def ratio(self, loss):
        return 1 - self.q + self.q * mp.exp(loss)

    def one(self, g, direction):
        q, top = self.q, self.top
        inside = (g if direction is REMOVE else 1 / g) - (1 - q)
        split = max(-top, min(top, mp.log(inside / q))) if inside > 0 else -top
        sign = 1 if direction is REMOVE else -1

        def gain(loss):
            return max(mp.mpf(0), self.ratio(loss) - g if direction is REMOVE else 1 - g * self.ratio(loss))

        def primitive(loss):  # of (constant + slope e^l) e^{-(l + top)/2} / 4
            constant, slope = (1 - q - g, q) if direction is REMOVE else (1 - g * (1 - q), -g * q)
            return mp.exp(-top / 2) / 4 * (-2 * constant * mp.exp(-loss / 2) + 2 * slope * mp.exp(loss / 2))

        end = top if direction is REMOVE else -top
        between = sign * (primitive(end) - primitive(split))
        return gain(-top) / 2 + gain(top) * mp.exp(-top) / 2 + between

    def two(self, g, direction):
        q, top = self.q, self.top

        def rest(loss):
            r = self.ratio(loss)
            return r * self.one(g / r, REMOVE) if direction is REMOVE else self.one(g * r, ADD)

        kinks = []
        for end in (self.ratio(top), self.ratio(-top)):
            inside = ((g / end if direction is REMOVE else 1 / (g * end)) - (1 - q)) / q
            kinks += [mp.log(inside)] if mp.exp(-top) < inside < mp.exp(top) else []
        density = mp.quad(lambda loss: mp.exp(-(loss + top) / 2) / 4 * rest(loss), sorted([-top, top, *kinks]))
        return rest(-top) / 2 + rest(top) * mp.exp(-top) / 2 + density

    def largest(self, direction):
        return mp.log(self.ratio(self.top)) if direction is REMOVE else -mp.log(self.ratio(-self.top))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_sampled_laplace_against_quadrature(steps, direction):
    """At any sampling probability, up to a few ulp below the largest loss."""
    rng = np.random.default_rng(steps)
    with mp.workdps(30):
        for sampling_prob in (1.0, 0.3, 0.01, float(np.exp(rng.uniform(-20.0, 0.0)))):
            scale = float(np.exp(rng.uniform(-2.0, 2.0)))
            truth = SampledLaplace(scale, sampling_prob)
            run = ja.PoissonSampled(ja.Laplace(scale), sampling_prob, steps)
            run = ja.Composed(ja.Laplace(scale), steps) if sampling_prob == 1.0 else run
            most = float(steps * truth.largest(direction))
            losses = {
                bound: ja.pld(run, direction=direction, bound=bound, resolution=res)
                for bound, res in ((UPPER, 8.0), (LOWER, 8.0))
            }
            for share in (0.0, 0.6, 1.0 - 1e-5, 1.0 - 3e-14):
                g = mp.exp(mp.mpf(most * share))
                exact = truth.one(g, direction) if steps == 1 else truth.two(g, direction)
                assert losses[UPPER].delta(most * share) >= exact * (1 - QUADRATURE)
                assert losses[LOWER].delta(most * share) <= exact * (1 + QUADRATURE)


def test_delta_near_the_largest_loss_is_sharp():
    """Three steps lose at most 2.46964; what is left at 2.469 was 24 times the value when neither atom was placed."""
    run = ja.PoissonSampled(ja.Laplace(0.5), 0.2, 3)
    found = ja.delta_interval(run, 2.469)
    assert 2.355e-6 <= found.lower <= found.upper <= 1.1 * found.lower
    fine = ja.delta_interval(run, 2.469, precision=1e-3)
    assert found.lower <= fine.upper <= 2.37e-6
    assert fine.upper <= 1.001 * fine.lower


@pytest.mark.parametrize("direction", list(ja.Direction))
def test_two_outputs_stay_where_they_are(direction):
    """Both losses of a pair are on the lattice, at any resolution: its compositions are known up to rounding."""
    rng = np.random.default_rng(8)
    for _ in range(8):
        p, q, prob = (float(x) for x in rng.uniform(0.1, 0.9, size=3))
        run = ja.PoissonSampled(ja.DiscretePair((p, 1 - p), (q, 1 - q)), prob, int(rng.integers(1, 300)))
        upper, lower = (ja.pld(run, direction=direction, bound=bound, resolution=4.0) for bound in (UPPER, LOWER))
        for delta in (0.1, 1e-5):
            epsilon = upper.epsilon(delta)
            truth = [types_delta(run, epsilon, direction, upper=end) for end in (False, True)]
            assert truth[0] * (1 - 1e-7) - 1e-14 <= lower.delta(epsilon) <= truth[1]
            assert truth[0] <= upper.delta(epsilon) <= truth[1] * (1 + 1e-7) + 1e-14


def test_logarithms_of_ratios_near_one_keep_their_digits():
    """log p - log q would carry an ulp of log p, 4e-14 at 1e-100, where the loss is 1e-10."""
    rng = np.random.default_rng(9)
    p = 10.0 ** rng.uniform(-300.0, 0.0, size=200)
    q = p * (1.0 + rng.choice([-1.0, 1.0], size=200) * 10.0 ** rng.uniform(-15.0, 3.0, size=200).clip(max=0.9))
    q = np.abs(q)
    with mp.workdps(50):
        for a, b, found in zip(p, q, log_ratios(p, q), strict=True):
            truth = mp.log(mp.mpf(float(a)) / mp.mpf(float(b)))
            assert abs(mp.mpf(float(found)) - truth) <= mp.mpf(2) ** -51 * abs(truth)


@pytest.mark.parametrize("share", [1e-14, 1e-6, 0.3, 1.0 - 1e-9])
def test_sampled_logarithms_keep_their_digits(share):
    values = np.array([-600.0, -40.0, -3.0, -0.4, -1e-9, 1e-9, 0.7, 30.0, 650.0, 900.0])
    rest = 1.0 - share
    with mp.workdps(50):
        for value, found in zip(values, log_mixed_with_one(values, share, rest), strict=True):
            truth = mp.log(mp.mpf(rest) + mp.mpf(share) * mp.exp(mp.mpf(float(value))))
            if abs(truth) < 1e-3:  # there 1 - q is as exact as q
                truth = mp.log1p(mp.mpf(share) * mp.expm1(mp.mpf(float(value))))
            assert abs(mp.mpf(float(found)) - truth) <= mp.mpf(2) ** -50 * abs(truth)


@pytest.mark.parametrize("side", list(Side))
def test_places_that_round_are_booked(side):
    """A value within some ulp of a point is put there; the law says how far, and losses move to the safe side."""
    rng = np.random.default_rng(10)
    for _ in range(20):
        top, count = float(rng.uniform(0.1, 30.0)), int(rng.integers(2, 40))
        law = lattice.from_atoms(
            np.array([-top, top]), np.array([0.5, 0.3]), 0.0, 0.0, 2 * top / count, side, origin=top
        )
        used = law.log_values[law.masses > 1e-9]
        assert used == pytest.approx([-top, top], abs=law.blur)
        assert 0.0 < law.blur < 1e-13
        both = sums.sum_of(law, law, weight_a=1, weight_b=1, tail=0.0)
        assert both.blur >= law.blur
        assert lattice.merged(law, both).blur >= both.blur
        assert lattice.mixed_with_one(law, 0.3, 0.7, 0.01).blur >= law.blur


@pytest.mark.parametrize("direction", list(ja.Direction))
def test_blurred_laws_move_to_the_safe_side(direction):
    from jaxacct.bounds.bases._base import pld_of_law

    for side in (Side.UPPER, Side.LOWER_REMOVE if direction is REMOVE else Side.LOWER_ADD):
        sharp, blurred = (
            pld_of_law(RatioLaw(-1.0, 0.5, np.full(5, 0.2), 0.0, 0.0, side, blur), direction) for blur in (0.0, 1e-3)
        )
        moved = (blurred.offset - sharp.offset) * (1.0 if side is Side.UPPER else -1.0)
        assert math.isclose(moved, 1e-3, rel_tol=1e-6)


def test_blurred_tails_that_are_cut_off_are_booked():
    """Values above their points by all of the blur, of which the upper ones are cut off: delta by enumeration."""
    from jaxacct.bounds.bases._base import pld_of_law

    values, masses, blur = np.arange(-2.0, 4.0), np.array([0.3, 0.3, 0.2, 0.1, 1e-4, 1e-5]), 1e-3
    law = lattice.trimmed(RatioLaw(-2.0, 1.0, masses, 0.0, 0.0, Side.UPPER, blur), 1.0, 1e-2)
    assert law.infinite_mass > 0.0
    loss = pld_of_law(law, REMOVE)
    for epsilon in (0.0, 1.5, 2.5, 10.0):
        kept = values < 1.9  # of the law: what lies above is cut off, to an infinite loss
        true = masses * (np.exp(values + blur) - np.where(kept, math.exp(epsilon), 0.0))
        assert float(np.maximum(true, 0.0).sum()) <= loss.delta(epsilon)


def test_products_that_underflow_are_booked():
    """What is flushed to 0 under Q may weigh more under P: it is added at 0 and at infinity."""
    law = RatioLaw(-1.0, 0.5, np.array([1e-200, 1.0, 1e-200]), 0.0, 0.0, Side.UPPER)
    both = sums.sum_of(law, law, weight_a=1, weight_b=1, tail=0.0)
    assert both.zero_mass > 0.0 < both.infinite_mass < 1e-290


@pytest.mark.parametrize("side", list(Side))
def test_what_was_cut_off_leaves_no_lattice_behind(side):
    """0 + x = x lies a factor of two below x + x: cells between are held only for mass that is the law's own."""
    tail = 1e-8
    law = lattice.trimmed(law_maker(ja.Gaussian(36_000.0), side, tail)(4e-6), 1.0, tail)
    own = dataclasses.replace(law, masses=0.9 * law.masses, zero_mass=law.zero_mass + 0.1)
    narrow, wide = (sums._trimmed_sum((x, 1), (x, 1), tail) for x in (law, own))
    assert narrow.masses.size < 4 * law.masses.size
    assert wide.masses.size > 1000 * law.masses.size
    assert wide.masses[: 4 * law.masses.size].sum() == pytest.approx(2 * 0.1 * 0.9, rel=1e-3)


def _atoms(law):
    """(mass, ratio) of every part of a law that is finite, in 40 digits."""
    points = [(mp.mpf(float(m)), mp.exp(mp.mpf(float(v)))) for m, v in zip(law.masses, law.log_values, strict=True)]
    return [*points, (mp.mpf(law.zero_mass), mp.mpf(0))]


def _both_profiles(atoms, infinite, kappa):
    remove = infinite + mp.fsum(m * max(y - kappa, 0) for m, y in atoms)
    return remove, mp.fsum(m * max(1 - kappa * y, 0) for m, y in atoms)


@pytest.mark.parametrize("side", list(Side))
def test_what_is_set_aside_at_zero_goes_to_the_safe_side(side):
    """Sums and mixtures of laws with mass at 0 of the size of the tail, against all pairs of points."""
    rng = np.random.default_rng(4)
    with mp.workdps(40):
        for _ in range(10):
            laws = []
            for weight in (3, 7):  # each with a mass of 1 under Q, and of its weight under P
                masses, zero = rng.uniform(size=5), float(rng.uniform(0.0, 0.3))
                masses *= (1.0 - zero) / masses.sum()
                law = RatioLaw(0.0, 0.1, masses, zero, 0.0, side)
                mean = float(mp.fsum(m * y for m, y in _atoms(law))) / weight
                infinite = float(rng.uniform(0.0, 0.5))
                laws.append(dataclasses.replace(law, offset=math.log((1.0 - infinite) / mean), infinite_mass=infinite))
            a, b = laws
            both = sums.sum_of(a, b, weight_a=3, weight_b=7, tail=1.0)
            assert both.masses.shape[0] < 40  # no lattice down to log b
            pairs = [(m * n, (x + y) / 10) for m, x in _atoms(a) for n, y in _atoms(b)]
            found = [(m, y / 10) for m, y in _atoms(both)]
            truths = [(pairs, mp.mpf(0.3 * a.infinite_mass + 0.7 * b.infinite_mass), found, both)]
            one = dataclasses.replace(a, offset=a.offset - math.log(3.0))
            mixed = lattice.mixed_with_one(one, 0.25, 0.75, 0.01, tail=1.0)
            assert np.all(mixed.log_values > -0.25)
            assert lattice.mixed_with_one(one, 0.25, 0.75, 0.01, tail=0.0).log_values[0] < -0.28
            atoms = [(m, mp.mpf("0.75") + y / 4) for m, y in _atoms(one)]
            truths.append((atoms, mp.mpf(one.infinite_mass) / 4, _atoms(mixed), mixed))
            for exact, infinite, bound, law in truths:
                for kappa in (0.0, 0.2, 0.5, 0.8, 1.0, 1.2, 2.0):
                    wanted = _both_profiles(exact, infinite, mp.mpf(kappa))
                    got = _both_profiles(bound, mp.mpf(law.infinite_mass), mp.mpf(kappa))
                    slack = mp.mpf(10) ** -14  # the points' own rounding
                    if side is Side.UPPER:
                        assert all(g >= w - slack for g, w in zip(got, wanted, strict=True))
                    else:
                        at = 0 if side is Side.LOWER_REMOVE else 1
                        assert got[at] <= wanted[at] + slack


@pytest.mark.parametrize("noise", [0.5, 1e3, 1e8])
def test_cells_of_gaussian_noise_err_by_what_is_booked(noise):
    """Masses are differences of tails: what they err by grows as a cell narrows in z, however small its loss is."""
    mu = 1.0 / noise
    for per in (4.0, 60.0, 700.0):
        step = mu / per
        law = law_maker(ja.Gaussian(noise), Side.UPPER, 0.0)(step)
        first = round(law.offset / step)
        beyond = _normal_mass(mp.mpf(float(law.log_values[-1])) / mu - mp.mpf(mu) / 2, mp.inf)
        assert law.infinite_mass >= beyond > 0
        low, high = gaussian_cells(mu, 1.0, first, step, size=law.masses.shape[0] - 1)
        at = np.linspace(1, low.shape[0] - 2, 25).astype(int)
        with mp.workdps(50):
            mean, previous = mp.mpf(mu), None
            for k in sorted({*at, *(at + 1)} & set(range(1, low.shape[0] - 1))):
                ends = [mp.mpf(int(first + k + j)) * mp.mpf(step) for j in (0, 1)]
                at_q = [end / mean + mean / 2 for end in ends]
                q, p = _normal_mass(*at_q), _normal_mass(*(z - mean for z in at_q))
                share = mp.mpf(float(high[k])) / (mp.mpf(float(low[k])) + mp.mpf(float(high[k])))
                meant = mp.exp(ends[0]) * (1 + share * mp.expm1(mp.mpf(step)))
                assert abs(mp.log(p / q) - mp.log(meant)) <= law.blur
                if previous is not None and previous[0] == k - 1:
                    assert law.masses[k] >= q * (1 - share) + previous[1]
                previous = k, q * share


def _normal_mass(left, right):
    """P[left < N < right], from the smaller tails."""
    return mp.ncdf(-left) - mp.ncdf(-right) if left > 0 else mp.ncdf(right) - mp.ncdf(left)


@pytest.mark.more
def test_a_law_that_is_all_rounding_is_refused():
    with pytest.warns(ja.PrecisionWarning):
        found = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(2.0), 10**14), 1e-6)
    assert found.lower <= found.upper < 0.1
