"""The laws behind shuffled batches of which a record is replaced, against quadrature: rounded up, and by little."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special

from jaxacct._types import Direction
from jaxacct.divergence.batches import _replaced
from jaxacct.divergence.batches._one_step import replaced_step_law
from jaxacct.divergence.batches._profile import BatchEpoch, epoch_delta
from jaxacct.divergence.batches._replaced import replaced_law

REMOVE = Direction.REMOVE


def stop_loss(a, epsilon, k):
    """The largest E (L - k)_+ of one step, by quadrature on the line on which both records lie; mpmath."""
    a, c = mpmath.mpf(a), mpmath.exp(epsilon)

    def gain(x):
        above, below = mpmath.npdf(x, a), mpmath.npdf(x, -a)
        return (1 - min(k, 0)) * above - (c + max(k, 0)) * below

    edge = mpmath.log((c + max(k, 0)) / (1 - min(k, 0))) / (2 * a)  # where the gain is 0
    places = [edge, *(x for x in (edge + 1, a, a + 3, a + 8) if x > edge), max(edge, a) + 14]
    return float(mpmath.quad(gain, sorted(places)))


@pytest.mark.parametrize(("a", "epsilon"), [(0.25, 0.0), (0.25, 0.3), (1.0, 1.5), (2.5, 0.1), (2.5, 6.0)])
def test_one_step(a, epsilon):
    law = replaced_step_law(a, epsilon, 1e-14)
    rest = 1.0 - law.least_mass
    assert rest >= 0.0
    assert float((law.mass * law.value).sum()) == pytest.approx(-math.expm1(epsilon), abs=1e-6 * math.exp(epsilon))
    for k in (-20.0, -1.0, -0.5, -0.1, -0.01, 0.0, 0.01, 0.1, 0.5, 1.0, 20.0):
        found = float((law.mass * np.maximum(law.value - k, 0.0)).sum()) + rest * max(-k, 0.0) + law.cut
        true = stop_loss(a, epsilon, k)
        assert true * (1.0 - 1e-12) <= found <= true * (1.05 if k == 20.0 else 1.005) + 2.0 * law.cut


def test_the_last_cell_of_a_step():
    """Where much is cut off, what is left and what is said to be cut off make up for it."""
    for k in (0.0, 0.5, 3.0):
        law = replaced_step_law(0.5, 0.2, 0.05)
        found = float((law.mass * np.maximum(law.value - k, 0.0)).sum()) + law.cut
        assert found >= stop_loss(0.5, 0.2, k)


def exact_tail(others, x):
    """P(v^2 + z^2 > x^2)."""

    def tail(z):
        one = special.ndtr(-z)
        return min(1.0, others * one, -math.expm1(others * math.log1p(-2.0 * one)) if one < 0.5 else 1.0)

    def inner(v):
        return 2.0 * math.exp(-0.5 * v * v) / math.sqrt(2.0 * math.pi) * tail(math.sqrt(max(x * x - v * v, 0.0)))

    kink = [math.sqrt(max(x * x - z * z, 0.0)) for z in (-special.ndtri(min(1.0 / others, 0.5)), 0.5, 1.0, 2.0)]
    places = [0.0, *sorted(v for v in kink if 0.0 < v < x), x]
    parts = [integrate.quad(inner, low, high, epsrel=1e-10)[0] for low, high in itertools.pairwise(places)]
    return math.fsum(parts) + 2.0 * special.ndtr(-x)


@pytest.mark.parametrize("others", [1.0, 7.0, 999.0])
@pytest.mark.parametrize(("fine", "finer"), [(None, None), (1e-3, None), (None, 2e-4)])
def test_tail_in_plane(others, fine, finer, monkeypatch):
    """Each rounding by itself, the other one made small: a change of its sign would show."""
    for name, value in (("_FINE", fine), ("_FINER", finer)):
        if value is not None:
            monkeypatch.setattr(_replaced, name, value)
    x = np.linspace(0.3, 7.0, 9)
    found = _replaced._tail_in_plane(others, x)
    true = np.array([exact_tail(others, float(y)) for y in x])
    assert np.all(found >= true * (1.0 - 1e-9))
    assert np.all(found <= true * 1.08)


def measure(a, others, reach):
    """Quadrature under dP(u, zeta): u [N], W [N, M], weights [N, M]."""
    cells = np.arange(-reach, reach, 0.02)
    nodes, weights = np.polynomial.legendre.leggauss(4)
    u = (cells[:, None] + 0.01 * (nodes + 1.0)).ravel()
    of_u = np.tile(0.01 * weights, len(cells)) * np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)
    edges = np.linspace(0.0, reach, 451)
    tails = np.array([exact_tail(others, float(x)) for x in edges])
    middles = 0.5 * (edges[1:] + edges[:-1])
    log_w = a * np.sqrt(u[:, None] ** 2 + middles**2) + 0.5 * a * a
    return u, np.exp(log_w), of_u[:, None] * (tails[:-1] - tails[1:])


@pytest.mark.parametrize(("a", "batches"), [(0.5, 100), (1.5, 8), (0.8, 2)])
def test_law_of_a_batch(a, batches, monkeypatch):
    """Convex functions of (D, e^-l) are rounded up, means are kept, and e^-l may be less; by little each.

    The tail's own rounding, which has a test, is made small: it would make up for others.
    """
    monkeypatch.setattr(_replaced, "_FINE", 2e-3)
    monkeypatch.setattr(_replaced, "_FINER", 5e-4)
    law = replaced_law(a, batches, 1e-12)
    u, w, weights = measure(a, batches - 1.0, 8.0)
    gamma = float((weights / w).sum())
    for epsilon in (0.0, 0.4, 2.0):
        c = math.exp(epsilon)
        value, mass = law.atoms(epsilon, REMOVE)
        assert float((value * mass).sum()) == pytest.approx(1.0 - c, abs=1e-9 * c)
        total = float(mass.sum())
        assert law.least_mass <= total <= gamma * (1.0 + 1e-4)
        assert law.least_mass >= 0.98 * gamma
        gain = (np.exp(a * u - 0.5 * a * a) - c * np.exp(-a * u - 0.5 * a * a))[:, None]
        for x in (-30.0, -3.0, -0.5, 0.0, 0.5, 3.0, 30.0):
            found = float((mass * np.maximum(value + x, 0.0)).sum()) + law.cut
            true = float((weights * np.maximum(gain + x / w, 0.0)).sum())
            lost = max(x, 0.0) * (gamma - total)
            assert true * (1.0 - 2e-5) - lost <= found <= true * 1.03 + 1e-6


def test_law_of_a_batch_is_even():
    """With c = 1 the law of W D is that of -W D."""
    value, mass = replaced_law(0.7, 50, 1e-12).atoms(0.0, REMOVE)
    for x in (0.1, 1.0, 10.0):
        above, below = ((mass * np.maximum(sign * value - x, 0.0)).sum() for sign in (1.0, -1.0))
        assert above == pytest.approx(below, rel=1e-9)


def two_adaptive_batches(a, epsilon):
    """Two records in two steps, the second chosen after the first release: the worst of some choices of the first.

    In the last step an opposite record, or an equal one, attains every stop-loss:  delta = E Pi(-K(w)) / 2,  K the
    first step's density ratio.
    """
    c, best = math.exp(epsilon), 0.0

    def gaussian(e):
        return special.ndtr(a - e / (2.0 * a)) - np.exp(e) * special.ndtr(-a - e / (2.0 * a))

    for r in (-a, -0.5 * a, 0.0, 0.5 * a, a):
        w = np.linspace(r - 12.0, r + 12.0, 8001)
        density = np.exp(-0.5 * (w - r) ** 2) / math.sqrt(2.0 * math.pi)
        k = c * np.exp(-w * (a + r) + 0.5 * (r * r - a * a)) - np.exp(w * (a - r) + 0.5 * (r * r - a * a))
        rise, fall = np.maximum(k, 0.0), np.maximum(-k, 0.0)
        pi = np.where(k >= 0.0, gaussian(np.log(c + rise)), (1.0 + fall) * gaussian(epsilon - np.log1p(fall)))
        best = max(best, 0.5 * float((density * pi).sum()) * (w[1] - w[0]))
    return best


@pytest.mark.parametrize("sigma", [0.8, 1.5, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
def test_two_adaptive_batches(sigma, epsilon):
    true = two_adaptive_batches(1.0 / sigma, epsilon)
    found = epoch_delta(BatchEpoch(1.0 / sigma, 2, 2, False, 1e-3 * true, True), epsilon, REMOVE)
    assert true * (1.0 - 1e-6) <= found
    if true > 1e-3:
        assert found <= 2.0 * true


@pytest.mark.parametrize("sigma", [0.8, 2.0, 6.0])
def test_one_batch_of_many(sigma):
    """The first of t batches: a mixture of two Gaussians against one, exactly."""
    for epsilon in (0.0, 0.1, 1.0):
        kappa, a = 5.0 * math.expm1(epsilon) + 1.0, 1.0 / sigma
        e = math.log(kappa)
        true = 0.2 * (special.ndtr(a - e / (2.0 * a)) - kappa * special.ndtr(-a - e / (2.0 * a)))
        found = epoch_delta(BatchEpoch(a, 5, 1, True, 1e-3 * true, True), epsilon, REMOVE)
        assert true * (1.0 - 1e-9) <= found <= 1.03 * true
