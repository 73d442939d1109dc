"""Deltas that the tests of dp_accounting's privacy loss mechanisms expect, and ours: no looser than theirs."""

import pytest

import jaxacct as ja

EIGHT_DIGITS = 1e-8  # what their tables show

# (release, epsilon, delta)
EXPECTED = [
    (ja.Laplace(1.0), 1.0, 0.0),
    (ja.Laplace(0.5), 2.0, 0.0),
    (ja.Laplace(0.5), 0.5, 0.52763345),
    (ja.Laplace(1.0), 0.0, 0.39346934),
    (ja.Gaussian(1.0), 1.0, 0.12693674),
    (ja.Gaussian(1.0), 0.0, 0.38292492),
    (ja.Gaussian(1.0 / 3.0), 1.0, 0.78760074),
    (ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), 0.0, 0.5),  # randomized response, half of it noise
    (ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), 1.0986122886681098, 0.0),
]


@pytest.mark.parametrize(("release", "epsilon", "delta"), EXPECTED)
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_expected_deltas(release, epsilon, delta, direction):
    assert ja.delta(release, epsilon, direction=direction) == pytest.approx(delta, abs=EIGHT_DIGITS)
    for bound, sign in ((ja.Bound.UPPER, 1.0), (ja.Bound.LOWER, -1.0)):
        found = ja.pld(release, direction=direction, bound=bound, resolution=96.0).delta(epsilon)
        assert -EIGHT_DIGITS <= sign * (found - delta) <= 2e-4
