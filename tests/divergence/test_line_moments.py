"""Complex moments of one round of random allocation on one line or ray, against mpmath and against each other."""

import math

import numpy as np
import pytest
from mpmath import mp

from jaxacct.divergence.allocation import _added_lanes as added
from jaxacct.divergence.allocation import _added_plans as plans
from jaxacct.divergence.allocation import _clipped_lanes as clipped
from jaxacct.divergence.allocation._log_gamma import log_gamma
from jaxacct.divergence.allocation._negative_moments import log_negative_moments
from jaxacct.divergence.allocation._powers import integer_log_moments
from jaxacct.divergence.allocation._ray_moments import RayMoments, log_moment_guess
from jaxacct.divergence.allocation._rule import CLIPPED, WHOLE, num_nodes, rule


def test_log_gamma():
    z = np.array([0.01, 0.5, 1.0 + 3j, 4.2 - 900j, 2500.0 + 7000j, 0.02 - 55j])
    found, error = log_gamma(z)
    with mp.workdps(40):
        for value, bound, at in zip(found, error, z, strict=True):
            truth = mp.loggamma(mp.mpc(at))
            away = abs(mp.mpc(value) - truth)
            # the branch of the logarithm does not matter
            turns = mp.nint((mp.mpc(value) - truth).imag / (2 * mp.pi))
            assert abs(mp.mpc(value) - truth - 2j * mp.pi * turns) <= bound or away <= bound
            assert bound <= 1e-12 * (1 + abs(truth))


def _two_steps(sigma, s):
    """E ((Y1 + Y2)/2)^s by quadrature in two Gaussian variables: X = G cosh(h/(sigma sqrt 2)), G and h independent."""
    with mp.workdps(30):
        sigma, s = mp.mpf(sigma), mp.mpc(s)
        tau = 1 / (sigma * mp.sqrt(2))
        mean = mp.exp(-s / (2 * sigma**2) + (s * tau) ** 2 / 2)
        integrand = lambda h: mp.cosh(h * tau) ** s * mp.npdf(h)  # noqa: E731
        edge = 14 + abs(s.real) * tau
        return complex(mean * mp.quad(integrand, mp.linspace(-edge, edge, 33)))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("sigma", "order", "width"), [(1.0, 1.5, 1e-8), (0.6, 1.2, 1e-8), (2.0, 2.3, 1e-8), (1.0, 4.0, 1e-3)]
)
def test_rays_of_two_steps(sigma, order, width):
    step, count = 0.5, 6
    power = 3 if order < 2.5 else 6
    logs, phase, relative = RayMoments(sigma, 2.0, power, 3.0, (order, order + 0.3))(order, step, count)
    for k in range(count):
        truth = _two_steps(sigma, order + 1j * step * k)
        assert abs(np.exp(logs[k] + 1j * phase[k]) / truth - 1) <= relative[k] + 1e-13
    assert relative.max() <= width


@pytest.mark.more
@pytest.mark.parametrize(("sigma", "order"), [(1.0, 0.5), (0.6, 0.3), (3.0, 4.0)])
def test_rays_of_two_steps_in_the_add_direction(sigma, order):
    """Moments of the negative orders -order + ib."""
    step, count = 0.4, 6
    logs, phase, relative = RayMoments(sigma, 2.0, 0, 2.0, (-1.6 * order, -0.4 * order))(-order, step, count)
    for k in range(count):
        truth = _two_steps(sigma, -order + 1j * step * k)
        assert abs(np.exp(logs[k] + 1j * phase[k]) / truth - 1) <= relative[k] + 1e-13
    assert relative.max() <= 1e-9


@pytest.mark.parametrize(("power", "order", "first"), [(3, 1.2, -9.0), (2, 1.8, -7.0), (0, -0.5, -5.0)])
def test_rays_whose_grid_begins_late(power, order, first):
    """What lies left of the grid is known roughly, and by how roughly: heights to 1, and on the real axis."""
    full = RayMoments(1.0, 2.0, power, 3.0, (order, order))
    late = round((first - full.ray.first) / full._h)
    ray = full.ray._replace(first=full.ray.first + late * full._h, num_nodes=full.ray.num_nodes - late)
    table = RayMoments(1.0, 2.0, power, 3.0, (order, order), ray)
    known, found = full(order, 0.5, 3), table(order, 0.5, 3)
    away = np.abs(np.exp(known[0] - found[0] + 1j * (known[1] - found[1])) - 1.0)
    assert np.all(away <= found[2] + 1e-10)
    assert np.all(away >= 0.1 * found[2])
    assert table.real(np.array([order]))[0] >= known[0][0]


def _summed(table, order, b, some):
    """The sum of `some` terms of `table` at order + i b, divided by |e^{i angle b}|, their places exact, by mpmath."""
    (log_z, log_terms, _), total = table._nodes, mp.mpc(0)
    h = mp.mpf(float(table._of.step[0, 0])) / mp.mpf(table.noise_multiplier) / table.ray.every
    for n in some:
        v = mp.mpf(table.ray.first) + mp.log(table.num_steps) + int(n) * h
        log_term = mp.mpc(log_terms[n]) + table._power * (v - mp.mpf(log_z[n].real))
        total += mp.exp(log_term - order * mp.mpc(v, log_z[n].imag) - 1j * mp.mpf(b) * v)
    return total


@pytest.mark.parametrize(
    ("sigma", "steps", "power", "order"), [(0.9, 40.0, 5, 3.1), (0.6, 1e5, 3, 2.2), (0.8, 30.0, 0, -9.0)]
)
def test_sums_on_a_ray(sigma, steps, power, order):
    """Rounding alone: the terms are taken as they are; and not much more is booked than for products of matrices."""
    table = RayMoments(sigma, steps, power, 12.0, (order, order))
    whole = table._nodes._replace(relative=np.zeros_like(table._nodes.relative))
    size = whole.log_terms.real - order * whole.log_z.real
    # all of the terms; and two of them, made as large as the largest, where heights are large
    two = np.array([len(size) // 4, len(size) // 2])
    lone = whole._replace(log_terms=whole.log_terms - 300.0)
    lone.log_terms[two] += 300.0 + size.max() - size[two]
    large = False
    for nodes, some, step in ((whole, range(len(size)), 0.5), (lone, two, 1e3), (lone, two, 1e5), (lone, two, 1e6)):
        table._nodes = nodes
        total, error, log_scale = table._turned(order, step, 8)
        for k in (0, 1, 5, 7):
            with mp.workdps(40):
                truth = _summed(table, order, step * k, some) * mp.exp(-mp.mpf(float(log_scale[0])))
                away = float(abs(mp.mpc(total[k]) - truth))
            assert away <= error[k]
            large = large or away > max(3.0 * error[0], 0.01 * error[k])
    assert large
    table._nodes = whole
    for step, count in ((0.5, 8), (0.05, 300)):
        _, error, log_scale = table._turned(order, step, count)
        _, other, log_other = whole.powers(order, step, count)
        assert np.all(error * np.exp(log_scale - log_other) <= 4.0 * other)


@pytest.mark.parametrize(("sigma", "steps"), [(0.5, 20.0), (0.8, 650.0), (1.0, 5.0)])
def test_rays_at_whole_orders(sigma, steps):
    logs, _, relative = RayMoments(sigma, steps, 3, 5.0, (1.5, 2.3))(2.0, 0.0, 1)
    assert abs(logs[0] - integer_log_moments(sigma, steps)[1]) <= 2.0 * relative[0] + 1e-11


@np.errstate(all="ignore")
def _clipped(sigma, steps, order, mass, height, turn=1.0):
    """Moments of what is left of a round, 9 nodes to `height`; their fall; the mass; `turn` moves the line."""
    lane, sigma, steps, orders = np.array([0]), np.array([sigma]), np.array([steps]), np.array([order])
    of = rule(sigma, int(num_nodes(sigma, CLIPPED)[0]), CLIPPED)
    at = clipped.clipping(of, lane, steps, np.ones(1), np.array([mass]))
    steer = clipped.saddles(at, steps)
    log_moment = clipped.guesses(at, steps, steer, orders[:, None])[:, 0]
    tilt, width, curve = clipped.saddle_of(at, steps, steer, orders)
    known = clipped.bounds(at, lane, steps, steps, tilt, width)
    line = clipped.lines(at, lane, known, orders, np.array([height]), log_moment, curve)
    line = line._replace(centre=turn * line.centre, spacing=line.spacing * turn**2)
    table = clipped.LineSums(at, lane, known, line, int(line.num_nodes[0] / turn**3) // 16 * 16 + 16)
    found = table(orders, np.array([height / 8]), 9, orders[:, None] * 1.1)
    least = found.logs[:, 0] - found.relative[:, 0]
    fall = clipped.log_fall(at, lane, known, orders, height / 8 * np.arange(9.0)[None], least)[0]
    return found.logs[0], found.phase[0], found.relative[0], fall, float(at.dropped[0])


@pytest.mark.parametrize(("sigma", "steps", "order"), [(2.0, 100.0, 12.0), (4.0, 1000.0, 60.0), (1.5, 5e4, 300.0)])
def test_clipped_moments_approach_the_whole_ones(sigma, steps, order):
    """Where next to nothing is taken away; and the moments do not depend on the line that they are read off."""
    height = 1.0 / (math.sqrt(math.expm1(sigma**-2) / steps))
    logs, phase, relative, fall, dropped = _clipped(sigma, steps, order, 1e-18, height)
    assert 0 < dropped < 1e-17
    assert relative.max() <= 1e-4
    if order <= 60:
        whole = integer_log_moments(sigma, steps)[int(order) - 1]
        assert logs[0] <= whole + relative[0] + 1e-11
        assert logs[0] >= whole - 1e-3
    again, turned, less, *_ = _clipped(sigma, steps, order, 1e-18, height, 0.9)
    size = np.exp(logs - again + 1j * (phase - turned))
    assert np.all(np.abs(size - 1) <= 1.1 * (relative + less))
    assert np.all(logs[1:] - logs[0] <= fall[1:] + 1e-9)


def test_clipped_moments_agree_with_rays():
    """At few steps of little noise the two routes, which share no formula but the transform, meet."""
    sigma, steps, order = 1.0, 60.0, 2.2
    assert log_moment_guess(sigma, steps, np.array([order])) == pytest.approx(0.037, rel=0.1)
    sigma, order = 2.0, 4.2
    logs, phase, relative, *_ = _clipped(sigma, steps, order, 1e-15, 8.0)
    whole, turned, less = RayMoments(sigma, steps, 5, 10.0, (4.0, 4.3))(order, 1.0, 9)
    # what is taken away: E[X^a; the largest ratio beyond the cutoff]
    away = np.abs(np.exp(logs + 1j * phase) - np.exp(whole + 1j * turned))
    assert np.all(away <= (relative + less) * np.exp(whole) + 1e-8)


@pytest.mark.parametrize(("sigma", "steps", "order"), [(1.0, 50.0, 3.0), (3.0, 400.0, 40.0), (0.9, 1000.0, 5.0)])
@np.errstate(all="ignore")
def test_added_moments_agree_with_rays(sigma, steps, order):
    lane, orders, t = np.array([0]), np.array([order]), np.array([steps])
    of = rule(np.array([sigma]), int(num_nodes(np.array([sigma]), WHOLE)[0]), WHOLE)
    known = plans.guide(of, lane, t, t, orders)
    at = plans.plan(of, lane, known, orders, np.array([4.0]))
    assert at.num_nodes[0] > 0
    found = added.ProfileSamples(of, lane, known, at)(orders, np.array([0.5]), 8, 1.1 * orders[:, None])
    p = order - 1.0
    logs, phase, relative = RayMoments(sigma, steps, 0, 4.0, (-1.6 * p, -0.4 * p))(1.0 - order, 0.5, 8)
    ray, value, error = np.exp(logs - 1j * phase), np.exp(found.logs[0] + 1j * found.phase[0]), found.error[0]
    assert np.all(np.abs(value - ray) <= np.expm1(error) * np.abs(value) + relative * np.abs(ray))
    assert np.all(error <= 1e-6)
    assert np.all(relative <= 1e-6)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0])
def test_negative_moments_from_above(sigma):
    """One step has them in closed form, two by quadrature; many steps by rays."""
    powers = np.array([[0.3, 1.0, 4.0], [0.3, 1.0, 4.0]])
    found = log_negative_moments(np.full(2, sigma), np.array([1.0, 2.0]), powers)
    one = 0.5 * powers[0] * (powers[0] + 1.0) / sigma**2
    two = np.array([math.log(_two_steps(sigma, -p).real) for p in powers[1]])
    for above, truth in zip(found, (one, two), strict=True):
        assert np.all(above >= truth)
        assert np.all(above <= 1.06 * truth + 0.03)
    p = 2.0 * sigma
    logs, _, relative = RayMoments(sigma, 40.0, 0, 1.0, (-1.6 * p, -0.4 * p))(-p, 0.0, 1)
    many = log_negative_moments(np.array([sigma]), np.array([40.0]), np.array([[p]]))[0, 0]
    assert logs[0] - relative[0] <= many <= 1.06 * logs[0] + 0.03
