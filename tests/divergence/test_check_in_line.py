"""Shuffled check-ins on the host, from both sides: the contour integral and groups of counts, against full sums."""

import functools
import math

import mpmath as mp
import numpy as np
import pytest

from jaxacct.divergence.check_in import _line as line
from jaxacct.divergence.check_in import _positive_part as positive_part
from jaxacct.divergence.check_in._clones import clones_of_counts
from jaxacct.divergence.check_in._others import groups
from jaxacct.special import ULP

_LOG_FACTORIAL = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, 4001.0)))])


def log_binomial(n, k):
    return _LOG_FACTORIAL[n] - _LOG_FACTORIAL[k] - _LOG_FACTORIAL[n - k]


@functools.cache
def log_truth(epsilon, setting):
    """Log of 1/(n p) sum_k w_k E(a A - b B)_+ over every A, B and k that matters, to about 1e-10."""
    n, q, p, local = setting
    n, s, t = int(n), math.tanh(0.5 * local), math.expm1(epsilon)
    mean, deviation = n * q, math.sqrt(n * q * (1.0 - q))
    total = 0.0
    for k in range(max(1, int(mean - 9 * deviation)), min(n, int(mean + 9 * deviation)) + 1):
        log_k = log_binomial(n, k) + k * math.log(q) + ((n - k) * math.log1p(-q) if q < 1.0 else 0.0)
        u = n * t / k
        m = np.arange(1, k + 1)
        log_m = log_binomial(k, m) + m * math.log(p) + (k - m) * math.log1p(-p)
        m = m[log_m > log_m.max() - 40.0]
        a = np.arange(int(m.max()) + 1)[:, None]
        inside = a <= m
        log_a = log_binomial(m, np.minimum(a, m)) - m * math.log(2.0)
        gain = (2.0 * s - u * (1.0 - s)) * a - (2.0 * s + u * (1.0 + s)) * (m - a)
        sums = (np.exp(log_a) * np.maximum(gain, 0.0) * inside).sum(axis=0)
        log_m = log_binomial(k, m) + m * math.log(p) + (k - m) * math.log1p(-p)
        total += math.exp(log_k) * float(np.sum(np.exp(log_m) * sums))
    return math.log(total / (n * p))


def setting_of(n, q, local):
    return line.LineSetting(float(n), q, math.exp(-local), local)


# small settings, where everything that is left out matters
SETTINGS = [
    (1000, 1.0, 0.5, 0.08),
    (4000, 1.0, 2.0, 0.03),
    (2500, 0.5, 0.8, 0.02),
    (2000, 0.8, 0.2, 0.0),
    (2500, 0.6, 1.5, 0.06),
    (4000, 0.3, 0.05, 0.0008),
]


def holds(epsilon, setting):
    point, truth = line.line_point(epsilon, setting), log_truth(epsilon, setting)
    assert point.log_lower - 1e-9 <= truth <= point.log_upper + 1e-9
    return point.log_upper - point.log_lower


@pytest.mark.sample(2)
@pytest.mark.parametrize(("n", "q", "local", "epsilon"), SETTINGS)
def test_the_line_holds_the_sum_over_everything(n, q, local, epsilon):
    assert holds(epsilon, setting_of(n, q, local)) <= 2e-3


@pytest.mark.parametrize("at", [0, 3, 4])
def test_lobes_without_nodes_count(at, monkeypatch):
    """Where M comes back to nearly its size on the line, either node or bound: here the bound alone."""
    monkeypatch.setattr(positive_part, "_MOST_LOBES", 0)
    *fields, epsilon = SETTINGS[at]
    assert 1e-4 <= holds(epsilon, setting_of(*fields)) <= 0.5


@pytest.mark.parametrize("at", [0, 1, 3])
def test_aliases_count(at, monkeypatch):
    monkeypatch.setattr(positive_part, "_ALIASES", 4.0)
    *fields, epsilon = SETTINGS[at]
    assert 1e-6 <= holds(epsilon, setting_of(*fields)) <= 0.5


def test_numbers_of_reports_outside_the_window_count(monkeypatch):
    monkeypatch.setattr(line, "_REACH", 2.5)
    for at in (2, 4):
        *fields, epsilon = SETTINGS[at]
        assert holds(epsilon, setting_of(*fields)) >= 1e-3


def test_numbers_of_reports_outside_the_window_count_with_all_their_probability(monkeypatch):
    monkeypatch.setattr(line, "_beyond", lambda a, of, more: 0.0 * a + (0.25 if more == 0.0 else 0.0))
    *fields, epsilon = SETTINGS[2]
    point = line.line_point(epsilon, setting_of(*fields))
    assert point.log_upper >= math.log(0.25)
    assert point.log_lower <= log_truth(epsilon, setting_of(*fields))


@pytest.mark.parametrize("seed", range(6))
def test_sums_over_the_number_of_reports_err_by_what_they_say(seed):
    """Against every number of reports, at random places of the plane; where few are expected the remainder matters."""
    rng = np.random.default_rng(seed)
    n, q, local = 4000, 10.0 ** rng.uniform(-1.2, -0.3), rng.uniform(0.2, 2.0)
    setting = setting_of(n, q, local)
    s, p, mean = math.tanh(0.5 * local), setting.clone_prob, n * q
    deviation = math.sqrt(mean * (1.0 - q))
    spread = 2.0 * s * math.sqrt(mean * p)
    reach = rng.uniform(0.5, 5.0) * spread / p
    window = positive_part.Range(mean - line._REACH * deviation, mean + line._REACH * deviation)
    of = line._Steps(setting, mean, deviation, window, s, 2.0 / (math.exp(local) + 1.0), reach)
    z = (rng.uniform(0.5, 5.0, 20) + 1j * rng.uniform(0.0, 8.0, 20)) / spread
    k = np.arange(1, n + 1)
    weight = np.exp(log_binomial(n, k) + k * math.log(q) + (n - k) * math.log1p(-q))
    u = reach / k
    moments = 1.0 + 0.5 * p * (
        np.expm1(z[:, None] * (2.0 * s - u * of.rest)) + np.expm1(-z[:, None] * (2.0 * s + u * (1.0 + s)))
    )
    inside = (k >= window.low) & (k <= window.high)
    truth = (weight * moments**k * inside).sum(axis=1)
    found = line._sums(z, of)
    off = np.abs(found.value - truth)
    assert np.all(off <= found.error + 1e-9 * np.abs(truth))
    assert np.max(off / found.error) >= 1e-4  # and not by far less


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_counts_are_the_binomial_law(seed):
    rng = np.random.default_rng(seed)
    left, prob, size = np.floor(rng.uniform(5.0, 400.0, 3)), rng.uniform(0.02, 0.98), int(rng.integers(1, 12))
    offset, reach = np.floor(rng.uniform(1.0, 50.0, 3)), rng.uniform(0.5, 6.0)
    found = groups(left, prob, offset, size, reach)
    for i in range(3):
        with mp.workdps(40):
            n, q = int(left[i]), mp.mpf(prob)
            law = [mp.binomial(n, r) * q**r * (1 - q) ** (n - r) for r in range(n + 1)]
            seen = mp.mpf(0)
            for g, first in enumerate(found.first[:, i]):
                some = range(int(first), min(int(first) + size, n + 1))
                mass = mp.fsum(law[r] for r in some)
                seen += mass
                if mass == 0:
                    assert found.log_mass[g, i] == -math.inf
                    continue
                error = found.log_error[i]
                assert abs(mp.log(mass) - found.log_mass[g, i]) <= error <= 1e-10
                inverse = mp.fsum(law[r] / (int(offset[i]) + r) for r in some) / mass
                assert abs(found.inverse[g, i] / inverse - 1) <= 2 * error + mp.mpf(2) ** -50
            outside = 1 - seen
            assert outside <= mp.exp(mp.mpf(found.log_outside[i])) + mp.mpf(10) ** -38
            assert outside < 1e-30 or mp.exp(mp.mpf(found.log_outside[i])) <= 30 * outside


def test_divergences_given_the_clones_are_the_sums():
    """h_m from both sides, for few clones from the table and for many from the expansions."""
    rng = np.random.default_rng(3)
    m = np.concatenate([np.arange(1.0, 40.0), np.floor(rng.uniform(200.0, 600.0, 40))])
    local = 1.3
    growth = np.expm1(local * rng.uniform(0.0, 1.0, m.size) ** 2)
    found = [clones_of_counts(growth, local, m, sign) for sign in (1.0, -1.0)]
    sides = [np.exp(log_pmf) * value for log_pmf, value, _ in found]
    with mp.workdps(40):
        s = mp.tanh(mp.mpf(local) / 2)
        for i, (size, x) in enumerate(zip(m, growth, strict=True)):
            n, t = int(size), mp.mpf(x)
            gains = ((2 + t) * s * (mp.mpf(2 * a - n) / n) - t for a in range(n + 1))
            truth = mp.fsum(mp.binomial(n, a) * max(g, 0) for a, g in enumerate(gains)) / mp.mpf(2) ** n
            for side, sign in zip(sides, (1, -1), strict=True):
                slack = ULP * (2.0**13 + 128.0 * abs(float(mp.log(truth)))) + 2.0**-46 * math.sqrt(n)
                assert sign * (side[i] - truth) >= -slack * truth
                assert abs(side[i] - truth) <= 1e-9 * truth + 1e-300
