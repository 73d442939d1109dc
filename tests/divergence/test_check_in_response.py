"""Check-ins of binary randomized response from below, on the host: its integral and its masses, against full sums."""

import math

import numpy as np
import pytest

from jaxacct.divergence.check_in import _positive_part as positive_part
from jaxacct.divergence.check_in import _response as response
from jaxacct.divergence.check_in._response_line import guessed, response_line
from jaxacct.special._binomial import log_binomial_pmf


def log_truth(distance, n, q, r):
    """Log E(c - k r - d)_+ over every k and c that matters, to about 1e-12."""
    k = np.arange(
        max(1.0, np.floor(n * q - 9.0 * math.sqrt(n * q))), min(n + 1.0, n * q + 9.0 * math.sqrt(n * q) + 60.0)
    )
    with np.errstate(divide="ignore"):
        rows = np.exp(log_binomial_pmf(k, n + 0.0 * k, q + 0.0 * k, 1.0 - q + 0.0 * k))
    c = np.floor(k * r + distance) + 1.0 + np.arange(14.0 * math.sqrt(n * q * r) + 60.0)[:, None]
    law = np.exp(log_binomial_pmf(c, k + 0.0 * c, r + 0.0 * c, 1.0 - r + 0.0 * c))
    return math.log(np.sum(rows * law * np.maximum(c - k * r - distance, 0.0)))


# users, probability of a report, of a one, and d in standard deviations
SETTINGS = [(400, 0.7, 0.45, 0.0), (900, 0.3, 0.3, 4.0), (3000, 0.6, 0.15, 6.0), (2000, 0.2, 0.25, 1.0)]


def holds(n, q, r, deviations):
    spread = math.sqrt(n * q * r * (1.0 - r))
    distance = deviations * spread
    line = response_line((0.7 + deviations) / spread, distance, n, q, r, 1.0 - r)
    point, truth = line.point(distance), log_truth(distance, n, q, r)
    assert point.log_lower - 1e-12 <= truth <= point.log_upper + 1e-12
    return point.log_upper - point.log_lower


@pytest.mark.parametrize("at", SETTINGS)
def test_the_line_holds_the_sum_over_everything(at):
    assert holds(*at) <= 1e-2


@pytest.mark.parametrize("at", SETTINGS[:2])
def test_lobes_count_without_nodes_of_their_own(at, monkeypatch):
    monkeypatch.setattr(positive_part, "_MOST_LOBES", 0)
    assert 1e-5 <= holds(*at) <= 1.0


@pytest.mark.parametrize(
    ("log_value", "n", "q", "r"), [(-20.0, 10**6, 0.01, 0.2), (-3.0, 10**4, 0.5, 0.4), (-9.0, 500, 0.01, 0.1)]
)
def test_a_distance_is_guessed(log_value, n, q, r):
    assert log_truth(guessed(log_value, n, q, r, 1.0 - r)[1], n, q, r) == pytest.approx(log_value, abs=0.3)


@pytest.mark.parametrize(
    ("log_delta", "n", "q", "local"),
    [
        (-20.0, 5e3, 0.4, 1.0),
        (-12.0, 300.0, 0.02, 2.0),
        (-8.0, 40.0, 0.5, 4.0),
        (-15.0, 2e4, 0.01, 4.0),
        (-20.0, 2e3, 1.0, 1.0),
    ],
)
def test_epsilon_is_where_the_sum_over_everything_is_delta(log_delta, n, q, local):
    at = tuple(np.array([x]) for x in (log_delta, n, q, local))
    with np.errstate(all="ignore"):  # as at the boundary
        found = float(response.response_floor_epsilon(*at, window=96)[0])
        again = float(response.response_floor_log_delta(np.array([found]), *at[1:], window=96)[0])
    slope = 2.0 * math.sinh(local) / n
    value = math.log(slope) + log_truth(math.expm1(found) / slope, n, q, 1.0 / (math.exp(local) + 1.0))
    assert log_delta - 1e-11 <= value <= log_delta + 0.03
    assert value - 0.03 <= again <= value + 1e-11


def test_the_last_count_decides_where_delta_is_next_to_nothing():
    """In blocks the last count stands by itself only where a block begins with it."""
    at = tuple(np.array([x]) for x in (-574.0, 649.0, 1.0, 0.2229))
    with np.errstate(all="ignore"):
        assert response.response_floor_epsilon(*at, window=96)[0] == pytest.approx(0.2229, rel=1e-5)


def test_nothing_is_claimed_out_of_range():
    for n, local, log_delta in ((1e4, 701.0, -5.0), (1e4, 1.0, -1e-3), (1e4, 0.0, -5.0), (2.0, 1e-7, -4.0)):
        at = (np.array([x]) for x in (log_delta, n, 1e-6 if n == 2.0 else 0.1, local))
        assert not response.response_floor_epsilon(*at, window=96).any()
