"""Renyi divergence of the clones pair, against all outcomes, mpmath and values published with their digits."""

import math
from decimal import Decimal

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom

from jaxacct._precision import Kernel, Rounding, _ways
from jaxacct._precision._devices import quick_options
from jaxacct.divergence.clones import _renyi_nodes as nodes
from jaxacct.divergence.clones._renyi import clones_rdp

ORDERS = (1.0, 1.01, 1.5, 2.0, 3.7, 8.0, 64.0, 256.0)
ENDS = (Rounding.DOWN, Rounding.UP)


def bracket(num_reports, clone_prob, local_epsilon, *, orders):
    return tuple(clones_rdp(orders, num_reports, clone_prob, local_epsilon))


def upper(num_reports, local_epsilon, *, orders):
    """For randomizers without further structure."""
    return clones_rdp(orders, num_reports, jnp.exp(-local_epsilon), local_epsilon).upper


bracket_kernel = Kernel(bracket, ENDS, on_host=True)  # single questions by NumPy, batches by programs
upper_kernel = Kernel(upper, Rounding.UP)


@pytest.fixture(autouse=True)
def _quick_compilations(monkeypatch):
    # each program answers a few dozen single questions here: not worth compiling again for speed
    monkeypatch.setattr(_ways, "_QUICK_LANES", 10**9)


def pure(num_reports, local_epsilon, orders=ORDERS):
    return bracket_kernel(num_reports, np.exp(-np.asarray(local_epsilon, float)), local_epsilon, orders=orders)


def laws(n, p, local):
    """P and Q over (a, b), user by user, in mpmath."""
    keep = mp.exp(local) / (1 + mp.exp(local))
    first, second = {(1, 0): keep, (0, 1): 1 - keep}, {(1, 0): 1 - keep, (0, 1): keep}
    both = []
    for law in (first, second):
        for _ in range(n - 1):
            grown = {}
            for (a, b), mass in law.items():
                for outcome, weight in (((a + 1, b), p / 2), ((a, b + 1), p / 2), ((a, b), 1 - p)):
                    grown[outcome] = grown.get(outcome, 0) + mass * weight
            law = grown
        both.append(law)
    return both


def renyi(first, second, order):
    """From the definition."""
    pairs = [(mass, second[outcome]) for outcome, mass in first.items() if mass > 0]
    if order == 1.0:
        return mp.fsum(x * mp.log(x / y) for x, y in pairs)
    return mp.log(mp.fsum(x**order * y ** (1 - order) for x, y in pairs)) / (order - 1)


def assert_encloses(ends, truths, width):
    for low, high, truth in zip(*ends, truths, strict=True):
        assert low <= truth <= high
        assert high - low <= width * truth


@pytest.mark.sample(2)
@pytest.mark.parametrize(("n", "p", "local"), [(1, 0.3, 2.0), (2, 0.5, 0.01), (5, 0.1353, 2.0), (6, 1.0, 1.0),
                                               (6, 0.01, 8.0), (30, 0.9, 0.1), (40, 0.05, 3.0)])  # fmt: skip
def test_every_outcome(n, p, local):
    with mp.workdps(40):
        first, second = laws(n, mp.mpf(p), mp.mpf(local))
        truths = [renyi(first, second, mp.mpf(a)) for a in ORDERS]
        swapped = renyi(second, first, mp.mpf(ORDERS[4]))
    assert_encloses(bracket_kernel(n, p, local, orders=ORDERS), truths, 3e-12)
    assert abs(swapped - truths[4]) < 1e-30


def oracle(n, p, local, order):
    """E psi over every outcome, in mpmath."""
    with mp.workdps(30):
        fade, total = mp.exp(-mp.mpf(local)), mp.mpf(0)
        order, p = mp.mpf(order), mp.mpf(p)
        for m in range(1, n + 1):
            row = mp.mpf(0)
            for b in range((m + 1) // 2):
                half = mp.log((m - b + fade * b) / (b + fade * (m - b))) / 2
                if order == 1:
                    psi = 2 * half * mp.tanh(half)
                else:
                    psi = 2 * mp.sinh(order * half) * mp.sinh((order - 1) * half) / mp.cosh(half)
                row += 2 * mp.binomial(m, b) * psi / mp.mpf(2) ** m
            total += mp.binomial(n - 1, m - 1) * p ** (m - 1) * (1 - p) ** (n - m) * row
        return total if order == 1 else mp.log1p(total) / (order - 1)


@pytest.mark.more
@pytest.mark.parametrize(("n", "local"), [(60, 1.0), (80, 0.2), (150, 3.0)])
def test_against_mpmath(n, local):
    p = math.exp(-local)
    assert_encloses(bracket_kernel(n, p, local, orders=ORDERS), [oracle(n, p, local, a) for a in ORDERS], 3e-12)


# "phi double sum" and "Gauss-Krawtchouk quadrature" in 45 digits, and moment enclosures of width 1e-20
@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("n", "local", "order", "truth"),
    [
        (10**4, 2.0, 64.0, "0.055005827"),
        (10**5, 2.0, 32.0, "0.0027430715772211002213"),
        (10**5, 6.0, 128.0, "5.02349834216207745584"),
        (10**6, 0.1, 256.0, "1.4122644166419834841e-6"),
        (10**6, 8.0, 256.0, "7.34217431340291399126"),
        (10**8, 0.5, 256.0, "5.0636182936005447561e-7"),
        (10**8, 6.0, 16.0, "0.00012782404807219124199"),
    ],
)
def test_published_digits(n, local, order, truth):
    low, high = (float(end[0]) for end in pure(n, local, (order,)))
    assert 0 < high - low <= 2e-11 * high
    last_digit = mp.mpf(10) ** mp.mpf(Decimal(truth).as_tuple().exponent)
    assert low - last_digit <= mp.mpf(truth) <= high + last_digit


def test_lower_tail_of_the_count():
    # quadrature that never samples the lower tail of the count gives 1.639 here
    low, high = pure(10**4, 4.0, (64.0,))
    assert 2.5395 <= low[0] <= high[0] <= 2.5396


@pytest.mark.more
@pytest.mark.parametrize(("n", "p", "local"), [(3000, 0.6, 0.5), (10**4, 0.3679, 1.0), (4000, 0.999, 0.3)])
def test_steps_against_every_outcome(n, p, local, monkeypatch):
    orders = (1.5, 4.0, 32.0)
    low, high = Kernel(bracket)(n, p, local, orders=orders)
    monkeypatch.setattr(nodes, "_LEAST_STRIDED", math.inf)
    every_low, every_high = Kernel(bracket)(n, p, local, orders=orders)
    assert np.all(every_low <= high)
    assert np.all(low <= every_high)
    np.testing.assert_allclose(low, every_low, rtol=3e-12)


@pytest.mark.sample(1)
@pytest.mark.parametrize("digits", [6.0, 12.0, 18.0])
def test_errors_of_coarse_grids_are_added(digits, monkeypatch):
    # so few digits that what is left out, and the steps, show: the ends move apart and still enclose
    points = [(300, 0.5, 1.0), (2000, 0.3, 1.2), (2000, 0.02, 4.0), (10**5, 0.3, 1.2), (500, 0.99, 0.5)]
    fine = [bracket_kernel(*point, orders=ORDERS) for point in points]
    monkeypatch.setattr(nodes, "_DIGITS", digits)
    kernel = Kernel(bracket)
    for point, (low, high) in zip(points, fine, strict=True):
        coarse_low, coarse_high = kernel(*point, orders=ORDERS)
        assert np.all(coarse_low <= high)
        assert np.all(low <= coarse_high)


@Kernel
def _missing(num_reports, clone_prob, local_epsilon, *, top_order):
    grid = nodes.outcome_grid(num_reports, clone_prob, local_epsilon, top_order=top_order)
    last_row = grid.first_row + grid.row_step * (grid.num_rows - 1.0)
    return grid.first_row, last_row, grid.lowest, 1.0 * grid.strided, grid.log_missing


@pytest.mark.parametrize(("n", "p", "local", "strided"), [(800, 0.3, 1.0, 0.0), (2000, 0.3, 1.2, 1.0)])
def test_few_reports_on_one_label_are_within_their_bound(n, p, local, strided):
    """E psi over what the rows leave out: fewer on the second label than are summed."""
    order = 8.0
    first, last, lowest, is_strided, log_missing = _missing(n, p, local, top_order=order)
    assert is_strided == strided
    b, m = np.arange(lowest), np.arange(first, min(last, n) + 1.0)[:, None]
    inside = 2.0 * b < m
    a = np.where(inside, m - b, 1.0)
    half = 0.5 * np.log((a + math.exp(-local) * b) / (b + math.exp(-local) * a))
    psi = np.where(inside, 2.0 * np.sinh(order * half) * np.sinh((order - 1.0) * half) / np.cosh(half), 0.0)
    log_mass = binom.logpmf(m - 1.0, n - 1, p) + binom.logpmf(b, m, 0.5) + math.log(2.0)
    missing = math.fsum((np.exp(log_mass) * psi).ravel())
    assert 0.0 < missing <= math.exp(log_missing)


def test_orders_in_any_order():
    ends = pure(500, 2.0)
    mixed = (8.0, 1.0, 256.0, 1.01, 64.0, 2.0, 3.7, 1.5)
    for ours, rising in zip(pure(500, 2.0, mixed), ends, strict=True):
        np.testing.assert_array_equal(ours, [rising[ORDERS.index(a)] for a in mixed])


def test_random_points():
    rng = np.random.default_rng(3)
    n = np.floor(10 ** rng.uniform(0, 9, 60))
    local = 10 ** rng.uniform(-2, 0.9, 60)
    low, high = pure(n, local)
    assert np.all(low <= high)
    assert np.all(high - low <= 1e-9 * high)
    assert np.all(np.diff(high, axis=-1) >= 0)
    assert np.all(np.diff(low, axis=-1) >= 0)
    assert np.all(high <= local[:, None])
    # (order - 1) D is convex, D falls with n and rises with the local epsilon
    powers = np.asarray(ORDERS) - 1.0
    slopes = np.diff(powers * high) / np.diff(powers)
    assert np.all(np.diff(slopes) >= -1e-8 * slopes[:, 1:])
    assert np.all(pure(n + np.ceil(0.01 * n), local)[0] <= high)
    assert np.all(low <= pure(n, 1.01 * local)[1])
    # more clones help
    assert np.all(bracket_kernel(n, np.minimum(1.05 * np.exp(-local), 1.0), local, orders=ORDERS)[0] <= high)


def test_one_report():
    for eps in (1e-3, 0.5, 8.0, 100.0, 600.0):
        low, high = pure(1.0, eps)
        with mp.workdps(350):
            q, rest = 1 / (1 + mp.exp(-mp.mpf(eps))), 1 / (1 + mp.exp(mp.mpf(eps)))
            for order, below, above in zip(ORDERS[1:], low[1:], high[1:], strict=True):
                a = mp.mpf(order)
                truth = mp.log(q**a * rest ** (1 - a) + rest**a * q ** (1 - a)) / (a - 1)
                assert below <= truth <= above <= truth * (1 + 3e-13)


def test_edges():
    # no clones, only clones, no local privacy loss, all of it
    np.testing.assert_array_equal(pure([1, 7, 10**9], 0.0), np.zeros((2, 3, len(ORDERS))))
    np.testing.assert_allclose(
        bracket_kernel(50, 0.0, 2.0, orders=ORDERS), bracket_kernel(1, 0.5, 2.0, orders=ORDERS), rtol=1e-12
    )
    assert np.all(bracket_kernel(10**6, 1.0, 2.0, orders=ORDERS)[1] < bracket_kernel(10**6, 0.9, 2.0, orders=ORDERS)[0])
    for bad in [
        (0, 0.5, 1.0), (math.nan, 0.5, 1.0), (math.inf, 0.5, 1.0), (10, -0.1, 1.0), (10, 1.1, 1.0), (10, math.nan, 1.0),
        (10, 0.5, -1.0), (10, 0.5, math.nan), (10, 0.5, math.inf),
    ]:  # fmt: skip
        low, high = bracket_kernel(*bad, orders=ORDERS)
        np.testing.assert_array_equal(low, 0.0)
        np.testing.assert_array_equal(high, np.inf)


def test_grids_beyond_the_limit_fall_back():
    low, high = bracket_kernel(10**9, 1e-3, 400.0, orders=(1e6,))
    assert low[0] == 0.0
    assert 399.9 < high[0] <= 400.0


def quick_jit(fn):
    """Plainly compiled: the optimised compilation takes longer than all else here together."""
    return jax.jit(fn, compiler_options=quick_options() or None)


def test_in_float32_programs():
    orders = (1.5, 8.0, 64.0)
    inside = quick_jit(jax.vmap(lambda eps: upper_kernel(1e4, eps, orders=orders)))
    exact = upper_kernel(1e4, [0.5, 2.0], orders=orders)
    rounded = np.asarray(inside(jnp.array([0.5, 2.0])), float)
    assert np.all(rounded >= exact)
    np.testing.assert_allclose(rounded, exact, rtol=2e-7)


def test_derivative():
    orders = (1.5, 8.0, 64.0)
    slope = quick_jit(jax.jacfwd(lambda eps: upper_kernel(1e4, eps, orders=orders)))
    for local in (0.3, 2.0, 5.0):
        step = 1e-6 * local
        ends = upper_kernel(1e4, [local - step, local + step], orders=orders)
        np.testing.assert_allclose(slope(local), (ends[1] - ends[0]) / (2 * step), rtol=1e-5)
    # the divergence is of second order at 0, and the local epsilon itself far out
    np.testing.assert_array_equal(slope(0.0), 0.0)
    np.testing.assert_allclose(slope(600.0), 1.0)


def test_a_sweep_compiles_once():
    kernel = Kernel(bracket)
    local = np.linspace(0.1, 4.0, 8)
    for n in (10, 10**4, 10**9):
        kernel(n, np.exp(-local), local, orders=(2.0, 32.0))
    assert kernel.num_traces == 1
