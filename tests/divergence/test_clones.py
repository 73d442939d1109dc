"""The clones pair: profile, epsilon, trade-off function and GDP parameter, against brute force, mpmath and tables."""

import json
import math
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from jaxacct._precision import Kernel, Rounding, _ways
from jaxacct._precision._devices import quick_options
from jaxacct.divergence.clones._pair import clones_pair, count_window, window_sum
from jaxacct.divergence.clones._profile import (
    TRACED_WINDOW,
    clones_delta,
    clones_epsilon,
    lane_bytes,
    window_for,
)
from jaxacct.divergence.clones._smooth import smooth_error, smooth_sum
from jaxacct.divergence.clones._tradeoff import _VERTEX_MU, clones_gdp, clones_tradeoff
from jaxacct.papers.clones._published import clones_tails
from jaxacct.special._binomial import binomial_rate, log_binomial_pmf
from jaxacct.special._fair_coins import fair_rate, log_fair_pmf, small_tail_ratios, tail_ratios

REFERENCE = Path(__file__).parents[1] / "reference"
ENDS = (Rounding.DOWN, Rounding.UP)

delta_kernel = Kernel(clones_delta, (ENDS, Rounding.NEAREST), lane_bytes=lane_bytes)
# single questions by NumPy, which `test_both_paths` compares with the programs
epsilon_kernel = Kernel(clones_epsilon, ENDS, lane_bytes=lane_bytes, on_host=True)
tails_kernel = Kernel(clones_tails, lane_bytes=lane_bytes)
tradeoff_kernel = Kernel(clones_tradeoff, Rounding.DOWN, lane_bytes=lane_bytes, on_host=True)


@pytest.fixture(autouse=True)
def _quick_compilations(monkeypatch):
    # each program answers a few dozen single questions here: not worth compiling again for speed
    monkeypatch.setattr(_ways, "_QUICK_LANES", 10**9)


def log_delta(epsilon, num_reports, local_epsilon, *, window):
    """The upper end for local randomizers without further structure: clone_prob = e^{-local_epsilon}."""
    return clones_delta(epsilon, num_reports, jnp.exp(-local_epsilon), local_epsilon, window=window).log_delta.upper


def least_epsilon(log_delta, num_reports, local_epsilon, *, window):
    return clones_epsilon(log_delta, num_reports, jnp.exp(-local_epsilon), local_epsilon, window=window).upper


log_delta_kernel = Kernel(log_delta, Rounding.UP, lane_bytes=lane_bytes)
least_epsilon_kernel = Kernel(least_epsilon, Rounding.UP, lane_bytes=lane_bytes)


def quick_jit(fn):
    """Plainly compiled: the optimised compilation takes longer than all else here together."""
    return jax.jit(fn, compiler_options=quick_options() or None)


def delta_interval(epsilon, num_reports, clone_prob, local_epsilon, window=128):
    """[lower, upper] in mpmath, which knows no underflow."""
    log_delta = delta_kernel(epsilon, num_reports, clone_prob, local_epsilon, window=window).log_delta
    return mp.exp(mp.mpf(float(log_delta.lower))), mp.exp(mp.mpf(float(log_delta.upper)))


def epsilon_interval(delta, num_reports, clone_prob, local_epsilon, window=128):
    log_target = math.log(delta) if delta > 0 else -math.inf
    low, high = epsilon_kernel(log_target, num_reports, clone_prob, local_epsilon, window=window)
    return float(low), float(high)


# --- special functions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000, 10**6, 10**9, 10**12])
def test_binomial_probabilities(n):
    pmf = Kernel(log_binomial_pmf)
    rng = np.random.default_rng(n % 7)
    for p in (1e-9, 0.1, 0.3, 0.5, 0.999, math.exp(-1)):
        spread = math.sqrt(n * p * (1 - p))
        ks = np.clip(np.round(n * p + spread * rng.uniform(-14, 14, 6)), 0, n)
        ks = np.concatenate([ks, [0, n]])
        got = pmf(ks, n, p, 1 - p)
        with mp.workdps(40):
            exact = mp.mpf(p) if p <= 0.5 else 1 - mp.mpf(1 - p)
            for k, value in zip(ks, got, strict=True):
                want = mp.log(mp.binomial(n, int(k))) + int(k) * mp.log(exact) + (n - int(k)) * mp.log(1 - exact)
                assert abs(value - want) < 2e-15 * (1 + abs(want))


def test_binomial_edges():
    pmf = Kernel(log_binomial_pmf)
    np.testing.assert_array_equal(pmf([-1, 0, 2, 3, 4], 3, 1.0, 0.0), [-np.inf, -np.inf, -np.inf, 0, -np.inf])
    np.testing.assert_array_equal(pmf([-1, 0, 2, 3, 4], 3, 0.0, 1.0), [-np.inf, 0, -np.inf, -np.inf, -np.inf])
    rate = Kernel(binomial_rate)
    assert rate(0.0, 5.0, 0.0, 1.0) == 0.0
    assert rate(1.0, 5.0, 0.0, 1.0) == np.inf
    score = jax.vmap(jax.grad(lambda p, k: pmf(k, 100, p, 1 - p)), (None, 0))(0.3, jnp.array([0.0, 20.0, 100.0, 200.0]))
    np.testing.assert_allclose(score, [-30 / 0.21, -10 / 0.21, 70 / 0.21, 0.0], rtol=1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize("m", [1, 10, 255, 256, 1000, 10**5])
def test_fair_coin_tails(m):
    ratios, pmf = Kernel(small_tail_ratios if m < 256 else tail_ratios), Kernel(log_fair_pmf)
    xs = np.concatenate([np.linspace(0, 40, 40), [math.sqrt(m) - 0.1, math.sqrt(m)]])
    ks = np.unique(np.clip(np.floor((m + xs[xs <= math.sqrt(m)] * math.sqrt(m)) / 2) + 1, 0, m))
    with mp.workdps(30):
        for k, tail, excess, log_pmf in zip(ks, *ratios(ks, m), pmf(ks, m), strict=True):
            k, b = int(k), int(m - k)
            term = want_tail = mp.mpf(1)
            want_excess = mp.mpf(0)
            for i in range(1, b + 1):
                term *= mp.mpf(b - i + 1) / (k + i)
                want_tail, want_excess = want_tail + term, want_excess + i * term
                if term * i < mp.mpf(10) ** -25 * (want_excess + want_tail):
                    break
            assert abs(tail - want_tail) < 5e-14 * want_tail
            # the rounding that clones_delta books: 2e-12 + 1e-14 times the decay
            assert abs(excess - want_excess) <= (1e-12 + 5e-15 * (2 * k - m) ** 2 / m) * want_excess
            want = mp.log(mp.binomial(m, k)) - m * mp.log(2)
            assert abs(log_pmf - want) < 3e-15 * (1 + abs(want))


def test_fair_rate():
    rate = Kernel(fair_rate)
    for y in (0.0, 1e-8, 0.1, 0.2499, 0.2501, 0.6, 0.999, 1.0):
        with mp.workdps(30):
            z = mp.mpf(y)
            want = ((1 + z) * mp.log1p(z) + ((1 - z) * mp.log1p(-z) if y < 1 else 0)) / 2
        assert abs(rate(y, 1 - y) - want) <= 2e-15 * want


# --- oracles -----------------------------------------------------------------------------------------------------


def laws(n, p, local):
    """P and Q over (a, b), from the definition, in mpmath."""
    keep = mp.exp(local) / (1 + mp.exp(local)) if local != mp.inf else mp.mpf(1)
    both = {}
    for c in range(n):
        for a in range(c + 1):
            mass = mp.binomial(n - 1, c) * p**c * (1 - p) ** (n - 1 - c) * mp.binomial(c, a) / mp.mpf(2) ** c
            for outcome, up, down in (((a + 1, c - a), keep, 1 - keep), ((a, c - a + 1), 1 - keep, keep)):
                old = both.get(outcome, (0, 0))
                both[outcome] = old[0] + mass * up, old[1] + mass * down
    return both


def hockey_stick(both, epsilon):
    factor = mp.exp(epsilon)
    return sum(max(u - factor * v, 0) for u, v in both.values())


def direct_delta(n, p, local, epsilon):
    """Sum over all counts by the half-plane formula, with plain sums of binomial probabilities."""
    s = mp.tanh(local / 2)
    t = mp.tanh(epsilon / 2)
    if t >= s:
        return mp.mpf(0)
    total = mp.mpf(0)
    for m in range(1, n + 1):
        weight = mp.binomial(n - 1, m - 1) * p ** (m - 1) * (1 - p) ** (n - m)
        k = int(mp.floor(m * (1 + t / s) / 2)) + 1
        term = mp.binomial(m, k) / mp.mpf(2) ** m
        inner = mp.mpf(0)
        for a in range(k, m + 1):
            inner += (s * (2 * a - m) / m - t) * term
            term *= mp.mpf(m - a) / (a + 1)
            if term * m < inner * mp.mpf(10) ** -30:
                break
        total += weight * inner
    return (1 + mp.exp(epsilon)) * total


@pytest.mark.parametrize(
    ("n", "p", "local"), [(1, 0.4, 1.0), (2, 0.3, 2.0), (5, 0.7, 0.5), (6, 1.0, 1.5), (4, 0.25, math.inf)]
)
def test_brute_force(n, p, local):
    with mp.workdps(30):
        both = laws(n, mp.mpf(p), mp.mpf(local))
        mirrored = {key: pair[::-1] for key, pair in both.items()}
        for eps in (0.0, 0.1, 0.49, 1.3, -0.2, -1.1):
            want = hockey_stick(both, mp.mpf(eps))
            assert abs(want - hockey_stick(mirrored, mp.mpf(eps))) < 1e-25
            low, high = delta_interval(eps, n, p, local)
            assert low <= want <= high <= low * (1 + 1e-11) + mp.mpf(10) ** -300
            log_p, log_q = tails_kernel(eps, n, p, local, window=128)
            factor = mp.exp(mp.mpf(eps))
            above = [pair for pair in both.values() if pair[0] > factor * pair[1]]
            assert abs(mp.exp(float(log_p)) - sum(u for u, _ in above)) < 1e-11
            assert abs(mp.exp(float(log_q)) - sum(v for _, v in above)) < 1e-11


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("n", "p", "local", "eps"),
    [
        (40, math.exp(-1), 1.0, 0.4),
        (300, 0.9, 0.3, 0.05),
        (300, 0.02, 4.0, 3.5),
        (700, 0.6, 2.0, 0.3),
        (1000, math.exp(-2), 2.0, 1.2),  # 1e-25
        (1000, 0.5, 1.0, 0.6),  # 1e-57
        (1000, 1e-3, math.inf, 1.0),
    ],
)
def test_against_sums_in_high_precision(n, p, local, eps):
    with mp.workdps(40):
        want = direct_delta(n, mp.mpf(p), mp.mpf(local), mp.mpf(eps))
    low, high = delta_interval(eps, n, p, local, 512)
    assert low <= want <= high
    assert abs((low + high) / 2 - want) < 2e-12 * want
    low, high = epsilon_interval(float(want), n, p, local, 512)
    assert abs(low - eps) <= 1e-10 * eps
    assert abs(high - eps) <= 1e-10 * eps


def test_logarithms_far_below_the_smallest_float():
    # where tanh(eps/2) >= (1 - 2/n) tanh(local/2), delta = delta_RR (1 - p/2)^(n - 1)
    n, local, eps = 3000, 1.0, 0.9998
    p = math.exp(-local)
    with mp.workdps(40):
        e, x = mp.exp(mp.mpf(local)), mp.exp(mp.mpf(eps))
        want = mp.log((e - x) / (1 + e)) + (n - 1) * mp.log1p(-mp.mpf(p) / 2)
    assert want < -600
    (low, high), _ = delta_kernel(eps, n, p, local, window=1024)
    assert low <= want <= high
    assert high - low < 1e-10
    low, high = epsilon_kernel(float(want), n, p, local, window=1024)
    assert low <= eps * (1 + 1e-12)
    assert high >= eps * (1 - 1e-12)
    assert high - low < 1e-11


# --- reference tables --------------------------------------------------------------------------------------------


def rows(paper, *quantities):
    return [r for r in json.loads((REFERENCE / f"{paper}.json").read_text()) if r["quantity"] in quantities]


def number(args, name):
    if f"exp_{name}" in args:
        return math.log(Fraction(args[f"exp_{name}"]))
    return float(args[name])


def pair_of(args):
    local = number(args, "eps0") if "eps0" in args or "exp_eps0" in args else math.inf
    return args["n"], float(args.get("p", math.exp(-local))), local


def identity(row):
    return f"{row['quantity']}-{list(row['args'].values())}"


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "row",
    [
        *rows("fmt-clones", "delta", "delta_clone_only", "delta_all_agree"),
        *rows("chen-multinomial-rdp", "clone_delta"),
    ],
    ids=identity,
)
def test_reference_delta(row):
    pair, want = pair_of(row["args"]), mp.mpf(row["value"])
    window = window_for(*pair[:2], max_window=2**19)
    low, high = delta_interval(number(row["args"], "eps"), *pair, window)
    assert low <= want <= high
    assert high - low <= 1e-11 * want
    low, high = delta_interval(number(row["args"], "eps"), *pair, window_for(*pair[:2]))
    assert low <= want <= high
    assert high - low <= 1e-7 * want


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "row", [*rows("fmt-clones", "eps"), *rows("chen-multinomial-rdp", "clone_epsilon")], ids=identity
)
def test_reference_epsilon(row):
    pair, want = pair_of(row["args"]), float(row["value"])
    low, high = epsilon_interval(row["args"]["delta"], *pair, window_for(*pair[:2]))
    assert low <= want <= high
    # where the contour answers alone, its bracket
    assert high - low <= 1e-8 * want
    if want < 0.1 * pair[2]:
        low, high = epsilon_interval(row["args"]["delta"], *pair, window_for(*pair[:2], max_window=2**14))
        assert low <= want <= high
        if window_for(*pair[:2], max_window=2**14) > 128:
            assert high - low <= 1e-10 * want


# --- bounds and monotonicity ---------------------------------------------------------------------------------------


@pytest.mark.more
def test_monotone_over_random_points():
    rng = np.random.default_rng(3)
    size = 2500
    n = np.floor(10 ** rng.uniform(0, 9, size))
    local = 10 ** rng.uniform(-2.5, 1.2, size)
    deviations = rng.uniform(0, 14, size)
    share = np.minimum(deviations / np.sqrt(np.maximum(n * np.exp(-local), 1)), rng.uniform(0, 1, size))
    eps = 2 * np.arctanh(share * np.tanh(local / 2))
    variants = [
        (eps, n, local),
        (eps, np.floor(n * rng.uniform(1, 3, size)) + 1, local),
        (eps * rng.uniform(1, 1.5, size), n, local),
        (eps, n, local * rng.uniform(1, 1.5, size)),
    ]
    args = [np.concatenate(parts) for parts in zip(*variants, strict=True)]
    p = np.exp(-args[2])
    at = delta_kernel(args[0], args[1], p, args[2], window=512)
    assert not np.isnan([*at.log_delta, at.log_tail]).any()
    assert (at.log_delta.lower <= at.log_delta.upper).all()
    assert (at.log_delta.upper <= 0).all()
    low, high = (end.reshape(4, size) for end in at.log_delta)
    assert (low[1] <= high[0]).all()  # more reports
    assert (low[2] <= high[0]).all()  # larger epsilon
    assert (low[0] <= high[3]).all()  # larger local epsilon
    # brackets are narrow wherever one of the methods applies: the window fits, or it is far from fitting
    spread, positive = np.sqrt(args[1] * p * (1 - p)), args[0] < args[2]
    summed, smooth = positive & (spread < 20), positive & (spread > 150)
    assert np.max(at.log_delta.upper[summed] - at.log_delta.lower[summed]) < 2e-11
    assert np.max(at.log_delta.upper[smooth] - at.log_delta.lower[smooth]) < 3e-5


def test_closed_sandwich():
    for n, local, eps in ((5, 1.0, 0.3), (200, 3.0, 0.8), (10_000, 2.0, 0.05), (10_000, 6.0, 5.0)):
        p, u = math.exp(-local), math.tanh(eps / 2) / math.tanh(local / 2)
        first = (math.exp(local) - math.exp(eps)) / (1 + math.exp(local))
        low, high = delta_interval(eps, n, p, local, 1024)
        zero = delta_interval(0.0, n, p, local, 1024)
        assert low <= first * float(zero[1]) / math.tanh(local / 2) * (1 + 1e-12)
        assert high >= first * (1 - p / 2) ** (n - 1) * (1 - 1e-9)
        assert u < 1


def test_delta_at_zero_is_the_mean_deviation():
    for n, p, local in ((1, 0.3, 1.0), (30, 0.3, 1.0), (400, 0.05, 3.0), (60, 1.0, 0.2)):
        with mp.workdps(30):
            want = mp.mpf(0)
            for m in range(1, n + 1):
                weight = mp.binomial(n - 1, m - 1) * mp.mpf(p) ** (m - 1) * (1 - mp.mpf(p)) ** (n - m)
                want += weight * mp.binomial(m - 1, (m - 1) // 2) / mp.mpf(2) ** (m - 1)
            want *= mp.tanh(mp.mpf(local) / 2)
        low, high = delta_interval(0.0, n, p, local)
        assert low <= want <= high <= low * (1 + 1e-11)


def test_contour_contains_the_sum():
    def both(eps, n, p, local, *, window):
        pair = clones_pair(eps, n, p, local)
        exact, smooth = window_sum(pair, count_window(pair, window)), smooth_sum(pair)
        return exact.delta, exact.missing, exact.tail, smooth.delta, smooth_error(pair, smooth), smooth.tail

    kernel = Kernel(both, lane_bytes=lane_bytes)
    for n, local in ((3000, 0.2), (10**4, 1.0), (10**5, 4.0), (10**6, 0.01), (10**6, 4.0), (10**7, 6.0)):
        p = math.exp(-local)
        for deviations in (0.0, 0.7, 3.0, 7.0, 12.0):
            eps = 2 * math.atanh(deviations / math.sqrt(n * p) * math.tanh(local / 2))
            exact, missing, tail, smooth, error, smooth_tail = kernel(eps, n, p, local, window=4096)
            assert missing < 1e-14 * exact
            assert abs(smooth - exact) <= error + 1e-12 * exact
            assert error < 1e-3 * exact
            assert smooth_tail == pytest.approx(tail, rel=0.03)


@pytest.mark.more
def test_a_window_too_small_fails_closed():
    def summed(eps, n, p, local, *, window):
        pair = clones_pair(eps, n, p, local)
        at = window_sum(pair, count_window(pair, window))
        return at.delta, at.missing

    kernel = Kernel(summed, lane_bytes=lane_bytes)
    for n, p, local, eps in ((10_000, 0.3, 1.2, 0.05), (10_000, 0.3, 1.2, 1.0), (600, 0.5, 3.0, 0.5)):
        whole, missing = kernel(eps, n, p, local, window=4096)
        assert missing < 1e-15 * whole
        for window in (8, 32, 128):
            part, missing = kernel(eps, n, p, local, window=window)
            assert part <= whole * (1 + 1e-12)
            assert part + missing >= whole * (1 - 1e-12)
            low, high = delta_interval(eps, n, p, local, window)
            want = delta_interval(eps, n, p, local, 4096)
            assert low <= want[1]
            assert want[0] <= high
            assert low <= high <= (math.exp(local) - math.exp(eps)) / (1 + math.exp(local)) * (1 + 1e-11)


# --- edges ---------------------------------------------------------------------------------------------------------


def test_special_cases():
    one = (math.exp(2) - math.exp(0.5)) / (1 + math.exp(2))
    assert delta_interval(0.5, 1, math.exp(-2), 2.0)[1] == pytest.approx(one, rel=1e-11)  # randomized response
    assert delta_interval(0.5, 9, 0.0, 2.0)[1] == pytest.approx(one, rel=1e-11)
    assert delta_interval(0.1, 50, 1.0, 0.0) == (0, 0)
    assert delta_interval(1.0, 50, 0.3, 1.0) == (0, 0)
    assert delta_interval(1.5, 50, 0.3, 1.0) == (0, 0)
    assert epsilon_interval(1e-6, 50, 1.0, 0.0) == (0, 0)
    assert epsilon_interval(0.0, 50, 0.3, 1.0) == (1, 1)
    assert epsilon_interval(1.0, 50, 0.3, 1.0) == (0, 0)
    total = float(delta_interval(0.0, 50, 0.3, 1.0)[1])
    assert epsilon_interval(total * 1.0001, 50, 0.3, 1.0) == (0, 0)
    low, high = epsilon_interval(total * 0.9999, 50, 0.3, 1.0)
    assert 0 < low <= high < 1e-2
    # clones only: some outcomes are possible under one law alone, at any epsilon
    floor = (1 - 0.3 / 2) ** 49
    assert epsilon_interval(0.9 * floor, 50, 0.3, math.inf)[1] == math.inf
    assert epsilon_interval(1.1 * floor, 50, 0.3, math.inf)[1] < 20
    assert delta_interval(1000.0, 50, 0.3, math.inf)[1] >= floor


def test_arguments_out_of_range_fail_closed():
    nan = math.nan
    for args in ((nan, 9, 0.3, 1.0), (0.1, nan, 0.3, 1.0), (0.1, 9, nan, 1.0), (0.1, 9, 0.3, nan), (0.1, 0, 0.3, 1.0),
                 (0.1, 9, 1.1, 1.0), (0.1, 9, -0.1, 1.0), (2.0, 9, 1.1, 1.0)):  # fmt: skip
        assert delta_interval(*args) == (0, 1)
    low, high = epsilon_kernel(nan, 9, 0.3, 1.0, window=128)
    assert (low, high) == (0, 1)
    low, high = epsilon_kernel(-5.0, 9, 0.3, nan, window=128)
    assert (low, high) == (0, np.inf)


def test_epsilon_round_trip():
    rng = np.random.default_rng(1)
    for _ in range(40):
        n, local = math.floor(10 ** rng.uniform(0, 4.3)), 10 ** rng.uniform(-1, 0.9)
        p, log_target = math.exp(-local), -(10 ** rng.uniform(-0.5, 2.3))
        low, high = epsilon_kernel(log_target, n, p, local, window=1024)
        assert 0 <= low <= high <= local
        assert high - low <= 1e-3 * high
        # another program, another rounding; what is booked is far more
        assert delta_kernel(high, n, p, local, window=1024).log_delta.upper <= log_target + 1e-13 * (1 - log_target)
        if low > 0:
            assert delta_kernel(low, n, p, local, window=1024).log_delta.lower >= log_target - 1e-13 * (1 - log_target)


def test_window_for():
    assert window_for(1, 0.5) == 128
    assert window_for(10**4, math.exp(-2)) == 1024
    assert window_for([10**4, 10**9], math.exp(-2)) == 1024  # the second is left to the contour
    assert window_for(10**9, 0.4, max_window=2**20) == 2**19
    assert window_for(2500 / 0.2, 0.2) <= TRACED_WINDOW


# --- inside other programs -----------------------------------------------------------------------------------------


def test_one_program_for_a_sweep():
    kernel = Kernel(clones_epsilon, ENDS, lane_bytes=lane_bytes)
    n, local = np.meshgrid([1e3, 1e5, 1e7], [0.5, 2.0, 4.0])
    out = kernel(math.log(1e-6), n, np.exp(-local), local, window=128)
    kernel(math.log(1e-7), n, np.exp(-local), local, window=128)
    assert kernel.num_traces == 1
    assert out[0].shape == (3, 3)
    assert (np.diff(out[1], axis=1) < 0).all()
    assert (np.diff(out[1], axis=0) > 0).all()


@pytest.mark.more
def test_traced_in_float32_programs():
    def solve(target, n, local):
        return least_epsilon_kernel(target, n, local, window=TRACED_WINDOW)

    def profile(eps, n, local):
        return log_delta_kernel(eps, n, local, window=TRACED_WINDOW)

    def slope_of(f, x, step):
        return (f(x + step) - f(x - step)) / (2 * step)

    traced_solve = quick_jit(jax.value_and_grad(solve, argnums=(0, 2)))
    traced_profile = quick_jit(jax.value_and_grad(profile, argnums=(0, 2)))
    target = float(np.float32(math.log(1e-6)))
    for n, local in ((1e6, 3.0), (50.0, 2.0), (1e4, 0.5)):
        exact = float(solve(target, n, local))
        value, slopes = traced_solve(target, n, local)
        assert value.dtype == jnp.float32
        assert exact <= value <= exact * (1 + 1e-6)
        by_target = slope_of(lambda t, n=n, local=local: solve(t, n, local), target, 1e-4)
        by_local = slope_of(lambda x, n=n: solve(target, n, x), local, 1e-5)
        np.testing.assert_allclose(slopes, [by_target, by_local], rtol=2e-4)
        eps = float(np.float32(0.7 * exact))
        value, slopes = traced_profile(eps, n, local)
        exact = float(profile(eps, n, local))
        assert exact <= value <= exact + 3e-7 * abs(exact)
        by_eps = slope_of(lambda e, n=n, local=local: profile(e, n, local), eps, 1e-5 * eps)
        by_local = slope_of(lambda x, eps=eps, n=n: profile(eps, n, x), local, 1e-5)
        np.testing.assert_allclose(slopes, [by_eps, by_local], rtol=1e-3)
    for local in (0.0, 1e-3, 1.0, 9.0, 300.0):
        value, slopes = traced_solve(target, 1e5, local)
        assert 0 <= value <= local * (1 + 1e-6)
        assert np.isfinite(slopes).all()
    assert slopes[1] == 1.0  # no amplification left
    for eps in (-0.5, 0.0, 0.2, 1.0, 2.0):
        assert np.isfinite(traced_profile(eps, 1e5, 1.0)[1]).all()


# --- trade-off function, GDP -----------------------------------------------------------------------------------------


def exact_tradeoff(n, p, local, error):
    """Neyman and Pearson: outcomes in the order of Q/P, the last one randomized."""
    with mp.workdps(30):
        both = sorted(laws(n, mp.mpf(p), mp.mpf(local)).values(), key=lambda pair: pair[0] / pair[1])
        left, power = mp.mpf(error), mp.mpf(0)
        for u, v in both:
            taken = min(u, left)
            left, power = left - taken, power + v * taken / u
        return 1 - power


@pytest.mark.sample(1)
@pytest.mark.parametrize(("n", "p", "local"), [(1, 0.3, 1.0), (4, 0.6, 0.5), (7, 0.2, 2.0)])
def test_tradeoff_brute_force(n, p, local):
    for error in (0.0, 1e-9, 0.01, 0.3, 0.45, 0.7, 0.99, 1.0):
        got, want = float(tradeoff_kernel(error, n, p, local, window=128)), exact_tradeoff(n, p, local, error)
        assert want - 5e-12 <= got <= want + 1e-16


@pytest.mark.parametrize("row", rows("chen-multinomial-rdp", "clone_tradeoff"), ids=identity)
def test_reference_tradeoff(row):
    got, want = float(tradeoff_kernel(row["args"]["alpha"], *pair_of(row["args"]), window=128)), float(row["value"])
    assert want - 1e-11 <= got <= want


@pytest.mark.more
def test_tradeoff_properties():
    errors = np.linspace(0, 1, 17)

    def tradeoff(a):
        return float(tradeoff_kernel(a, 2000, math.exp(-1), 1.0, window=512))

    values = np.array([tradeoff(a) for a in errors])
    assert (values <= 1 - errors).all()
    assert (np.diff(values) < 0).all()
    assert (np.diff(values, 2) >= -1e-11).all()
    np.testing.assert_allclose([tradeoff(b) for b in values], errors, atol=1e-10)
    assert tradeoff(1.5) == tradeoff(-0.5) == tradeoff(math.nan) == 0.0
    slope = quick_jit(jax.grad(lambda a: tradeoff_kernel(a, 2000.0, math.exp(-1), 1.0, window=512)))(0.05)
    assert slope == pytest.approx((tradeoff(0.0501) - tradeoff(0.0499)) / 2e-4, rel=1e-2)


@pytest.mark.more
@pytest.mark.parametrize("row", rows("chen-multinomial-rdp", "clone_gdp_mu_star"), ids=identity)
def test_reference_gdp(row):
    got, want = clones_gdp(*pair_of(row["args"]), window=128, tolerance=1e-9), float(row["value"])
    assert want <= got <= want * (1 + 1e-8)


def _upper_quantile(p: mp.mpf) -> mp.mpf:
    """z with P[N > z] = p < 1/2 or a little more, by Newton's method on the tail's logarithm."""
    z = mp.sqrt(-2 * mp.log(p)) if p < 0.1 else mp.mpf(0)
    for _ in range(60):
        tail = mp.ncdf(-z)
        z += (mp.log(tail) - mp.log(p)) * tail / mp.npdf(z)
    return z


def test_the_mu_of_vertices_is_rounded_up():
    """Lines of Gaussian profiles, also a hair apart: never below the vertex's mu, nor 1e-9 above it."""
    rng = np.random.default_rng(6)
    eps, mu = rng.uniform(0.0, 6.0, 40), np.exp(rng.uniform(-1.0, 1.0, 40))
    steps = np.exp(rng.uniform(-6.0, 0.0, 40))
    with mp.workdps(50):
        logs = [
            [
                float(mp.log(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)))
                for e, m in zip(at, mu, strict=True)
            ]
            for at in (map(mp.mpf, eps), map(mp.mpf, eps + steps))
        ]
        found = _VERTEX_MU(eps, logs[0], steps, logs[1])
        for e, first, step, second, got in zip(eps, logs[0], steps, logs[1], found, strict=True):
            delta, after = mp.exp(mp.mpf(first)), mp.exp(mp.mpf(second))
            a = (delta - after) / (mp.exp(mp.mpf(e)) * mp.expm1(mp.mpf(step)))
            want = _upper_quantile(a) - _upper_quantile(delta + mp.exp(mp.mpf(e)) * a)
            assert want <= got <= want * (1 + mp.mpf(1e-9))


@pytest.mark.more
def test_gdp_properties():
    n, p, local = 2000, math.exp(-1), 1.0
    mu = clones_gdp(n, p, local, window=512)
    floors = [clones_gdp(n, p, local, window=512, delta_floor=f) for f in (1e-3, 1e-9, 1e-100)]
    assert floors == sorted(floors)
    assert floors[-1] <= mu * (1 + 1e-6)
    quantile = mp.sqrt(2) * mp.erfinv(2 * math.e / (1 + math.e) - 1)
    assert 2 * math.tanh(0.5) * math.sqrt(math.e / n) < mu < 2 * quantile
    for error in (1e-12, 1e-3, 0.2, 0.5, 0.9):
        least = float(tradeoff_kernel(error, n, p, local, window=512))
        z = -mp.sqrt(2) * mp.erfinv(2 * mp.mpf(error) - 1)
        assert least >= mp.ncdf(z - mu) - 1e-11
        assert least >= mp.ncdf(z - floors[0]) - 1e-3
    assert clones_gdp(n, p, 0.0, window=512) == 0.0
    assert clones_gdp(50, p, math.inf, window=128) == math.inf
    assert clones_gdp(50, p, math.inf, window=128, delta_floor=1e-2) < 10
    response = clones_gdp(1, p, local, window=128, tolerance=1e-9)
    assert response == pytest.approx(float(2 * quantile), rel=1e-8)
