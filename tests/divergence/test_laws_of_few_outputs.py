"""Laws of releases with few outputs, or whole numbers, beside their own profiles in 40 digits."""

import jax
import mpmath
import numpy as np
import pytest

from jaxacct.divergence.law import (
    covers_discrete_gaussian,
    discrete_gaussian_base,
    discrete_laplace_base,
    guarantee_base,
    response_base,
    sampled,
)

POINTS = 1007


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), mpmath.workdps(40):
        yield


def guarantee(epsilon, delta):
    """(P, Q) of outputs, 0 and infinite ratios among them."""
    y = mpmath.exp(mpmath.mpf(epsilon))
    share, delta = (1 - mpmath.mpf(delta)) / (1 + y), mpmath.mpf(delta)
    return [(delta, 0), (share * y, share), (share, share * y), (0, delta)]


def response(epsilon, categories):
    y = mpmath.exp(mpmath.mpf(epsilon))
    total = y + categories - 1
    return [(y / total, 1 / total), (1 / total, y / total)] + [(1 / total, 1 / total)] * (int(categories) - 2)


def discrete_gaussian(scale, sensitivity):
    reach, d = int(25 * scale + sensitivity + 3), int(sensitivity)
    size = {
        k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for k in range(-reach - d, reach + d + 1)
    }
    total = sum(size.values())
    return [(size[k - d] / total, size[k] / total) for k in range(-reach, reach + 1)]


def discrete_laplace(parameter, sensitivity):
    r, d = mpmath.exp(-mpmath.mpf(parameter)), int(sensitivity)
    norm = (1 - r) / (1 + r)
    inner = [(norm * r ** (d - k), norm * r**k) for k in range(1, d)]
    return [(r**d / (1 + r), 1 / (1 + r)), *inner, (1 / (1 + r), r**d / (1 + r))]


KINDS = {
    "guarantee": (guarantee_base, guarantee, [(0.5, 1e-6), (3.0, 0.0), (0.0, 1e-3), (40.0, 1e-9)]),
    "response": (response_base, response, [(1.0, 2.0), (0.1, 10.0), (300.0, 3.0)]),
    "gaussian": (
        discrete_gaussian_base,
        discrete_gaussian,
        [(4.0, 1.0), (0.5, 1.0), (3.0, 7.0), (52.0, 3.0), (0.1, 1.0)],
    ),
    "laplace": (discrete_laplace_base, discrete_laplace, [(0.4, 1.0), (2.0, 5.0), (0.01, 900.0), (1e-3, 2.0)]),
}
CASES = [(kind, numbers) for kind, (*_, rows) in KINDS.items() for numbers in rows]


def profiles(law, pairs, e):
    """(sum m (y - x)_+ + b, sum m (x - y)_+ + m0 x), and what they must not be below, at x = e^`e`."""
    x = mpmath.exp(mpmath.mpf(float(e)))
    truths = sum(max(a - x * b, 0) for a, b in pairs), sum(max(x * b - a, 0) for a, b in pairs)
    points = [(mpmath.mpf(float(v)), mpmath.mpf(float(b)), mpmath.mpf(float(m))) for v, m, b in law.points.T if m > 0]
    found = [sum(m * max(sign * (mpmath.exp(v + sign * blur) - x), 0) for v, blur, m in points) for sign in (1, -1)]
    return (found[0] + float(law.beyond), found[1] + float(law.at_zero) * x), truths


def law_and_pairs(kind, numbers, prob, num):
    base, exact, _ = KINDS[kind]
    law = jax.tree.map(np.asarray, jax.jit(lambda a, b, q: sampled(base(a, b, num), q))(*numbers, prob))
    q = mpmath.mpf(prob)
    return law, [((1 - q) * without + q * with_, without) for with_, without in exact(*numbers)]


@pytest.mark.sample(14)
@pytest.mark.parametrize("prob", [1.0, 0.01, 0.7])
@pytest.mark.parametrize(("kind", "numbers"), CASES)
def test_law_is_above_the_profile_and_close(kind, numbers, prob):
    assert kind != "gaussian" or covers_discrete_gaussian(*numbers, POINTS)
    law, pairs = law_and_pairs(kind, numbers, prob, POINTS)
    losses = [float(mpmath.log(a / b)) for a, b in pairs if a > 0 and b > 0]
    at = np.quantile(losses, np.linspace(0.0, 1.0, 9))
    for e in (*at, *(0.5 * (at[1:] + at[:-1])), 0.0):
        for value, truth in zip(*profiles(law, pairs, e), strict=True):
            assert truth <= value + mpmath.mpf(10) ** -38
            assert value <= truth * (1 + mpmath.mpf(10) ** -8) + mpmath.mpf(10) ** -12 * mpmath.exp(float(e))


@pytest.mark.parametrize("prob", [1.0, 0.3])
def test_law_of_a_window_that_leaves_much_out_is_above_the_profile(prob):
    law, pairs = law_and_pairs("gaussian", (4.0, 3.0), prob, 25)
    for e in np.linspace(-4.0, 4.0, 33):
        for value, truth in zip(*profiles(law, pairs, e), strict=True):
            assert truth <= value


def test_wide_noise_is_not_covered():
    assert not covers_discrete_gaussian(60.0, 1.0, POINTS)
    assert not covers_discrete_gaussian(np.nan, 1.0, POINTS)
