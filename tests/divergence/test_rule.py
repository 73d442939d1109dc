"""Transforms of one step's ratio for many noise multipliers at once, and circular functions, against mpmath."""

import math

import numpy as np
import pytest
from mpmath import mp

from jaxacct.divergence.allocation._real import high_mass, log_cut_transform, log_decay, log_transform
from jaxacct.divergence.allocation._rule import CLIPPED, WHOLE, cuts, num_nodes, profile_shape, rule
from jaxacct.divergence.allocation._transform import transform
from jaxacct.special import complex_exp, complex_log, cos_and_sin, turn

# noise multiplier, rate of the cutoff, tilt over the rate, spacing
_SETTINGS = [(2.0, 0.4, 0.6, 0.2), (5.0, 2.0, 0.8, 1.0)]


def _mean(sigma, of):
    """E of a function of Y, by quadrature in g."""
    with mp.workdps(30):
        s = 1 / mp.mpf(sigma)
        points = mp.linspace(-11, 11 + 2 * s + 2 * sigma, 25)
        return mp.quad(lambda g: of(mp.exp(s * g - s * s / 2)) * mp.npdf(g), points)


def _kept(w):
    return mp.gammainc(32, w, regularized=True)


def _rule(sigma, shape):
    noise = np.array([sigma])
    return rule(noise, int(num_nodes(noise, shape)[0]), shape)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("sigma", "rate", "share", "spacing"), _SETTINGS)
@np.errstate(all="ignore")
def test_clipped_transforms(sigma, rate, share, spacing):
    of = _rule(sigma, CLIPPED)
    cut, centre = cuts(of, np.array([rate])), -share * rate
    found, error = transform(of, cut, np.array([centre]), np.array([spacing]), 32)
    assert error.max() <= 1e-6
    for k in (1, 30):
        u = mp.mpc(centre, spacing * k)
        truth = _mean(sigma, lambda y, u=u: mp.exp(-u * (y - 1)) * _kept(rate * y) - 1 + u * (y - 1))
        assert abs(mp.mpc(found[0, k]) - truth) <= error[0, k]
    truth = mp.log1p(_mean(sigma, lambda y: mp.exp(-centre * (y - 1)) * _kept(rate * y) - 1 + centre * (y - 1)))
    assert truth <= log_cut_transform(of, cut, np.array([[-centre]]))[0, 0] <= truth + 1e-9
    heights = np.array([[5.0, 20.0]]) * spacing
    bounds = log_decay(of, cut, np.array([centre]), heights)
    for height, bound in zip(heights[0], bounds[0], strict=True):
        u = mp.mpc(centre, height)
        assert mp.log(abs(_mean(sigma, lambda x, u=u: mp.exp(-u * (x - 1)) * _kept(rate * x)))) <= bound
    mass, mean, relative = (float(x[0]) for x in high_mass(of, cut))
    lost = _mean(sigma, lambda y: mp.gammainc(32, 0, rate * y, regularized=True))
    assert abs(mass - lost) <= relative * mass
    lost = _mean(sigma, lambda y: (y - 1) * mp.gammainc(32, 0, rate * y, regularized=True))
    assert abs(mean - lost) <= relative * abs(mean)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("sigma", "spacing"), [(0.4, 0.03), (0.7, 0.03), (1.0, 0.02), (2.0, 0.2), (5.0, 1.0)])
@np.errstate(all="ignore")
def test_whole_transforms(sigma, spacing):
    of, centre = _rule(sigma, WHOLE), 3.0 * spacing
    found, error = transform(of, None, np.array([centre]), np.array([spacing]), 32)
    assert error.max() <= 1e-10
    for k in (1, 30):
        u = mp.mpc(centre, spacing * k)
        truth = _mean(sigma, lambda y, u=u: mp.expm1(-u * (y - 1)) + u * (y - 1))
        assert abs(mp.mpc(found[0, k]) - truth) <= error[0, k]
    points = np.array([[0.1, 0.9, 3.0]])
    for u, bound in zip(points[0], log_transform(of, points)[0], strict=True):
        truth = mp.log(_mean(sigma, lambda y, u=u: mp.exp(-u * (y - 1))))
        assert truth <= bound <= truth + 1e-9
    heights = np.array([[5.0, 20.0]]) * spacing
    for height, bound in zip(heights[0], log_decay(of, None, np.array([centre]), heights)[0], strict=True):
        u = mp.mpc(centre, height)
        assert mp.log(abs(_mean(sigma, lambda y, u=u: mp.exp(-u * (y - 1))))) <= bound


def test_circular_functions():
    rng = np.random.default_rng(5)
    angles = np.concatenate([rng.uniform(-1, 1, 40), rng.uniform(-1e4, 1e4, 60), [0.0, math.pi, -math.pi / 2]])
    cos, sin = cos_and_sin(angles)
    unit = turn(angles)
    points = rng.uniform(-30, 30, 100) + 1j * rng.uniform(-300, 300, 100)
    exponentials, logs = complex_exp(points), complex_log(points)
    ulp = 2.0**-53
    for a, c, s, u in zip(angles, cos, sin, unit, strict=True):
        assert abs(c - mp.cos(a)) <= 16 * ulp
        assert abs(s - mp.sin(a)) <= 16 * ulp
        assert u == complex(c, s)
    for z, e, log in zip(points, exponentials, logs, strict=True):
        assert abs(mp.mpc(e) - mp.exp(mp.mpc(z))) <= 24 * ulp * (1 + abs(z)) * abs(mp.exp(mp.mpc(z)))
        assert abs(mp.mpc(log) - mp.log(mp.mpc(z))) <= 8 * ulp * (2 + abs(log))


@pytest.mark.parametrize(("sigma", "rate"), [(0.5, 1e-6), (0.7, 1e-4), (1.0, 0.006), (1.5, 0.1), (4.0, 2.0)])
@np.errstate(all="ignore")
def test_longer_rules_agree(sigma, rate):
    """Those of profiles: other nodes, another contour; and lanes do not depend on their neighbours."""
    of, whole = _rule(sigma, CLIPPED), _rule(sigma, profile_shape(sigma))
    cut, longer = cuts(of, np.array([rate])), cuts(whole, np.array([rate]))
    for share in (0.3, 0.8):
        where = np.array([-share * rate]), np.array([0.2 * rate]), 128
        (found, error), (known, slack) = transform(of, cut, *where), transform(whole, longer, *where)
        assert np.all(np.abs(found - known) <= error + slack)
        assert np.all(np.abs(found - known) <= 1e-11 * np.abs(known) + 2.0 * slack)
        twice, _ = transform(of.at([0, 0]), cut.at([0, 0]), *(np.repeat(x, 2) for x in where[:2]), 128)
        assert np.array_equal(twice, np.concatenate([found, found]))
    u = np.array([[0.3, 0.7, 0.9]]) * rate
    known = log_cut_transform(whole, longer, u)
    assert log_cut_transform(of, cut, u)[0] == pytest.approx(known[0], rel=1e-3)
