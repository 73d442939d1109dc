"""One Gaussian or Laplace release, sampled or not: deltas beside their closed forms in mpmath.

The settings are those of dp_accounting's own test of its privacy loss mechanisms (noise, sensitivity, sampling
probability, epsilon at least 0), and so is the tolerance: seven decimal places.
"""

import mpmath
import pytest

import jaxacct as ja

SAME = 5e-8  # what dp_accounting's test takes for equal
REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
# (noise over sensitivity, sampling probability, epsilon)
LAPLACE = [
    *((1.0, 1.0, e) for e in (0.0, 1.0)),
    *((0.5, 1.0, e) for e in (0.0, 0.5, 1.0, 2.0)),
    *((1.0, 0.2, e) for e in (0.0, 0.1, 0.2, 0.3, 2.0)),
    *((1.0, 0.8, 1.0), (0.5, 0.8, 0.5), (1.0, 0.6, 0.2), (1.0, 0.3, 0.0)),
]
GAUSSIAN = [
    *((1.0, 1.0, e) for e in (0.0, 1.0, 2.0)),
    *((1.0 / 3.0, 1.0, 1.0), (1.0, 0.8, 1.0), (1.0 / 3.0, 0.7, 1.0), (1.0 / 3.0, 0.4, 1.0), (1.0, 0.3, 2.0)),
    *((1.0, 0.2, e) for e in (0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)),
]


def _tail_of_laplace(x):
    """P(X > x), of location 0 and scale 1."""
    return mpmath.exp(-x) / 2 if x >= 0 else 1 - mpmath.exp(x) / 2


def _truth(tail, shift, prob, epsilon, direction, where):
    """P(A) - e^eps Q(A) at the best event: the outputs above or below a point; `shift` is the record's."""
    with mpmath.workdps(40):
        growth, prob = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(prob)

        def delta(x):
            without, along = tail(x), prob * tail(x - shift) + (1 - prob) * tail(x)
            return along - growth * without if direction is REMOVE else (1 - without) - growth * (1 - along)

        best = where(growth, prob, direction)
        return max(mpmath.mpf(0), *(delta(x) for x in best)) if best else mpmath.mpf(0)


def _of_ratio(growth, prob, direction):
    """The likelihood ratio of the unsampled pair at which the sampled one's is e^eps; None where there is none."""
    wanted = growth if direction is REMOVE else 1 / growth
    ratio = (wanted - (1 - prob)) / prob
    return ratio if ratio > 0 else None


def _gaussian(sigma, prob, epsilon, direction):
    mu = mpmath.mpf(1) / mpmath.mpf(sigma)

    def where(growth, prob, direction):
        ratio = _of_ratio(growth, prob, direction)
        return [] if ratio is None else [mpmath.log(ratio) / mu + mu / 2]

    return _truth(lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2, mu, prob, epsilon, direction, where)


def _laplace(scale, prob, epsilon, direction):
    mu = mpmath.mpf(1) / mpmath.mpf(scale)

    def where(growth, prob, direction):
        ratio = _of_ratio(growth, prob, direction)
        if ratio is None or abs(mpmath.log(ratio)) > mu:
            return []
        return [(mpmath.log(ratio) + mu) / 2]

    return _truth(_tail_of_laplace, mu, prob, epsilon, direction, where)


@pytest.mark.parametrize("direction", [REMOVE, ADD])
@pytest.mark.parametrize(
    ("base", "truth", "noise", "prob", "epsilon"),
    [
        *((ja.Laplace, _laplace, *setting) for setting in LAPLACE),
        *((ja.Gaussian, _gaussian, *setting) for setting in GAUSSIAN),
    ],
)
def test_delta_of_one_release(base, truth, noise, prob, epsilon, direction):
    run = ja.PoissonSampled(base(noise), prob, 1)
    found = ja.delta(run, epsilon, direction=direction)
    exact = float(truth(noise, prob, epsilon, direction))
    assert exact * (1.0 - 1e-15) <= found <= exact + SAME
