"""Shuffled check-ins on the host where few clones are expected: sums over every count, against 40 digits."""

import math

import mpmath as mp
import numpy as np
import pytest

from jaxacct.divergence.check_in import _both_ends as both_ends
from jaxacct.divergence.check_in import _few_clones as few
from jaxacct.divergence.check_in._line import LineSetting


def log_truth(epsilon, setting):
    """Log of q E[(1/m) E (2 s x - (n t/(m + r)) (m - s x))_+], every count."""
    with mp.workdps(40):
        n, q, p, local = int(setting.num_users), *map(mp.mpf, setting[1:])
        s, t, total = mp.tanh(local / 2), mp.expm1(mp.mpf(epsilon)), mp.mpf(0)
        rate = q * p
        other = q * (1 - p) / (1 - rate)
        for m in range(1, n + 1):
            mass = mp.binomial(n - 1, m - 1) * rate ** (m - 1) * (1 - rate) ** (n - m)
            signs = [(2 * a - m, mp.binomial(m, a) / mp.mpf(2) ** m) for a in range(m + 1)]
            for r in range(n - m + 1):
                if other == 1 and r < n - m:
                    continue
                of_r = mp.binomial(n - m, r) * other**r * (1 - other) ** (n - m - r)
                gains = (w * max(2 * s * x - n * t / (m + r) * (m - s * x), 0) for x, w in signs)
                total += mass * of_r * mp.fsum(gains) / m
        return mp.log(q * total)


def random_setting(seed):
    rng = np.random.default_rng(seed)
    n, q, local = int(rng.integers(1, 26)), float(rng.choice([rng.uniform(0.05, 1.0), 1.0])), rng.uniform(0.05, 5.0)
    epsilon = float(rng.choice([0.0, 1e-6, math.log1p(q * math.expm1(local)) * rng.uniform(0.01, 0.9)]))
    return LineSetting(float(n), q, math.exp(-local), local), epsilon


@pytest.mark.parametrize("seed", range(16))
def test_sums_over_every_count_are_the_profile(seed):
    setting, epsilon = random_setting(seed)
    truth = log_truth(epsilon, setting)
    found = few.table_point(epsilon, few.clone_table(setting, 12.0))
    assert found.log_lower <= truth <= found.log_upper
    assert found.log_upper - found.log_lower <= 1e-9
    if epsilon > 0.0:
        more = few.table_point(epsilon + 1e-7, few.clone_table(setting, 12.0)).log_upper
        assert found.slope == pytest.approx((more - found.log_upper) / 1e-7, rel=0.05, abs=0.02)


@pytest.mark.parametrize("cut", [1, 2])
@pytest.mark.parametrize("seed", range(20, 32))
def test_what_is_outside_the_windows_counts(seed, cut, monkeypatch):
    """Windows that end early on one side: what is beyond must be booked, to the ends where it belongs."""
    rng = np.random.default_rng(seed)
    n, q, local = int(rng.integers(6, 22)), rng.uniform(0.2, 0.7), rng.uniform(0.3, 2.0)
    setting = LineSetting(float(n), q, math.exp(-local), local)
    epsilon = math.log1p(q * math.expm1(local)) * rng.uniform(0.05, 0.6)
    truth = log_truth(epsilon, setting)

    def right(size, odds, reach):
        last = np.minimum(np.ceil(size * odds / (1.0 + odds)) + cut, size)
        return few._Window(size, last, int(last.max()) + 1)

    def left(size, odds, reach):
        return few._Window(size, size, max(1, math.ceil(size.max() / (1.0 + odds)) + cut))

    for window in (right, left):
        monkeypatch.setattr(few, "_window", window)
        table = few.clone_table.__wrapped__(setting, 12.0)
        found = few.table_point(epsilon, table)
        assert found.log_lower <= truth <= found.log_upper
    # right: of the upper end what is absolute is enough
    monkeypatch.setattr(few, "_window", right)
    table = few.clone_table.__wrapped__(setting, 12.0)._replace(error=1e-10)
    assert truth <= few.table_point(epsilon, table).log_upper


@pytest.mark.parametrize("seed", range(6))
def test_pairs_of_next_to_no_weight_count(seed, monkeypatch):
    """Here they have some."""
    setting, epsilon = random_setting(seed + 40)
    monkeypatch.setattr(few, "_SHARE", 1e28)
    table = few.clone_table.__wrapped__(setting, 12.0)
    found, truth = few.table_point(epsilon, table), log_truth(epsilon, setting)
    assert found.log_lower <= truth <= found.log_upper
    assert truth <= few.table_point(epsilon, table._replace(error=1e-10)).log_upper


@pytest.mark.parametrize(("size", "prob"), [(30, 0.3), (60, 0.05), (12, 0.9)])
@pytest.mark.parametrize("num", [1, 3, 8])
def test_what_is_left_and_right_of_a_window_is_bounded(size, prob, num):
    for last in range(size + 1):
        if (last + 1.0) * (1.0 - prob) <= (size - last) * prob:
            continue  # right of the mode only: elsewhere nothing is claimed
        window = few._Window(np.array([float(size)]), np.array([float(last)]), num)
        _, shares, left, right = few._shares(window, prob / (1.0 - prob))
        pmf = [math.comb(size, k) * prob**k * (1.0 - prob) ** (size - k) for k in range(size + 1)]
        first = max(last - num + 1, 0)
        inside = sum(pmf[first : last + 1])
        assert float(shares.sum()) * pmf[last] == pytest.approx(inside, rel=1e-12)
        assert sum(pmf[:first]) <= float(left[0]) * inside * (1.0 + 1e-12)
        assert sum(pmf[last + 1 :]) <= float(right[0]) * inside * (1.0 + 1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_tables_of_many_counts_agree_with_wider_windows_and_with_blocks(seed):
    """Thousands of users: both ends at two widths of the windows overlap, as do blocks."""
    rng = np.random.default_rng(seed)
    n, q, local = math.floor(10 ** rng.uniform(2.5, 5.0)), 10 ** rng.uniform(-1.5, -0.2), rng.uniform(1.0, 5.0)
    setting = LineSetting(float(n), q, math.exp(-local), local)
    epsilon = min(0.5 * local, 8.0 * rng.uniform(0.2, 0.8) * q / math.sqrt(n * q * math.exp(-local) + 1.0))
    near, far = (few.table_point(epsilon, few.clone_table(setting, reach)) for reach in (10.0, 14.0))
    assert max(near.log_lower, far.log_lower) <= min(near.log_upper, far.log_upper)
    assert near.log_upper - near.log_lower <= 1e-8
    fields = float(n), q, math.exp(-local)
    lower = both_ends.log_profile(epsilon, n, local, both_ends.lower_cells(*fields), -1.0)[0]
    upper = both_ends.log_profile(epsilon, n, local, both_ends.upper_cells(*fields), 1.0)[0]
    assert lower <= near.log_upper
    assert near.log_lower <= upper


def test_tables_where_everybody_checks_in_count_their_signs():
    """One count of others, but thousands of clones, each with thousands of sums of signs."""
    some, many = (LineSetting(n, 1.0, math.exp(-0.53), 0.53) for n in (2_000.0, 575_797.0))
    assert few.table_size(many, 7.0) > 1e7
    assert few.clone_table.__wrapped__(some, 7.0).weight.size < 2.0 * few.table_size(some, 7.0)
