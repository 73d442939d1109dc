"""What "Enhanced Amplification Bounds" builds on the clones pair, and where its printed statements are false."""

import math

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from jaxacct._precision import Kernel, _ways
from jaxacct.divergence.clones._profile import window_for
from jaxacct.divergence.clones._renyi import clones_rdp
from jaxacct.divergence.response._renyi import response_window
from jaxacct.papers.chen import _bounds as chen
from jaxacct.papers.chen import _published as estimates
from jaxacct.papers.girgis._from_below import response_lower_rdp

ORDERS = (1.1, 2.0, 4.0, 16.0, 64.0)
WINDOW = 2**14

pair_kernel = Kernel(lambda n, p, eps, *, orders: tuple(clones_rdp(orders, n, p, eps)), on_host=True)
closed_kernel = Kernel(lambda n, p, eps: tuple(chen.moment_sandwich_rdp_lanes(n, p, eps, orders=ORDERS)))
cosh_kernel = Kernel(
    lambda n, p, eps: tuple(chen.cosh_sandwich_rdp_lanes(n, p, eps, orders=ORDERS, window=WINDOW)), lane_bytes=2**21
)
epoch_kernel = Kernel(lambda n, block, eps, *, orders: tuple(chen.block_epoch_rdp_lanes(n, block, eps, orders=orders)))
response_kernel = Kernel(response_lower_rdp)
published_kernel, asymptotic_kernel = Kernel(estimates.published_rdp_lanes), Kernel(estimates.asymptotic_rdp)
published_gdp, asymptotic_gdp = Kernel(estimates.published_gdp_lanes), Kernel(estimates.asymptotic_gdp)
laplace_kernel, level_kernel = Kernel(chen.laplace_rdp_lanes), Kernel(estimates.order_level_rdp_lanes)
masses_kernel = Kernel(lambda *args: tuple(chen.pair_masses_lanes(*args)))


@pytest.fixture(autouse=True)
def _quick_compilations(monkeypatch):
    monkeypatch.setattr(_ways, "_QUICK_LANES", 10**9)


def random_pairs(seed, size):
    rng = np.random.default_rng(seed)
    local = 10 ** rng.uniform(-2, 0.9, size)
    return np.floor(10 ** rng.uniform(0, 6, size)), np.exp(-local), local


def test_masses():
    n, p, local = 7, 0.3, 1.3
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(9.0), np.arange(9.0)))
    first, second = masses_kernel(a, b, n, p, local)
    keep = math.exp(local) / (1 + math.exp(local))

    def others(a, b):
        inside = (a >= 0) & (b >= 0) & (a + b < n)
        a, b = np.where(inside, a, 0), np.where(inside, b, 0)
        mass = stats.multinomial.pmf(np.stack([a, b, n - 1 - a - b], -1), n - 1, [p / 2, p / 2, 1 - p])
        return np.where(inside, mass, 0.0)

    np.testing.assert_allclose(first, keep * others(a - 1, b) + (1 - keep) * others(a, b - 1), atol=1e-15)
    np.testing.assert_allclose(second, keep * others(a, b - 1) + (1 - keep) * others(a - 1, b), atol=1e-15)
    np.testing.assert_allclose([first.sum(), second.sum()], 1.0, rtol=1e-14)


@pytest.mark.more
@pytest.mark.parametrize("sandwich", [closed_kernel, cosh_kernel], ids=["moment", "cosh"])
def test_sandwiches(sandwich):
    points = random_pairs(1, 40)
    lower, upper = sandwich(*points)
    below, above = pair_kernel(*points, orders=ORDERS)
    assert np.all(lower <= above)
    assert np.all(below <= upper)
    assert np.all(lower > 0)
    # never above one report alone, and equal to it for one report
    single = pair_kernel(1.0, 1.0, points[2], orders=ORDERS)[1]
    assert np.all(upper <= single * (1 + 1e-11))
    np.testing.assert_allclose(sandwich(1.0, 0.5, 2.0)[1], pair_kernel(1.0, 0.5, 2.0, orders=ORDERS)[1], rtol=1e-11)
    for bad in ((0.0, 0.5, 1.0), (10.0, 1.5, 1.0), (10.0, 0.5, -1.0), (10.0, 0.5, math.inf), (math.nan, 0.5, 1.0)):
        low, high = sandwich(*bad)
        np.testing.assert_array_equal(low, 0.0)
        np.testing.assert_array_equal(high, np.inf)


def test_cosh_sandwich_needs_its_window():
    # too small a window stays a bound
    narrow = Kernel(lambda n, p, eps: tuple(chen.cosh_sandwich_rdp_lanes(n, p, eps, orders=ORDERS, window=16)))
    lower, upper = narrow(10**4, 0.5, 1.0)
    wide_lower, wide_upper = cosh_kernel(10**4, 0.5, 1.0)
    assert np.all(lower <= wide_lower)
    assert np.all(wide_upper <= upper)
    assert window_for(10**4, 0.5) <= WINDOW


def test_lower_tail():
    # the outcome without clones, on the report's own side
    n, p, local = random_pairs(2, 40)
    powers = np.asarray(ORDERS) - 1.0
    own = local - np.log1p(np.exp(-local))  # local epsilon + log q, less local epsilon
    floor = local[:, None] + ((n - 1) * np.log1p(-p) + own - local)[:, None] / powers
    assert np.all(pair_kernel(n, p, local, orders=ORDERS)[1] >= floor)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("n", "local", "order"), [(10**4, 3.0, 352.0), (1000, 6.0, 2.0), (10**4, 4.0, 64.0), (10**4, 5.0, 16.0)]
)
def test_corollary_2_is_no_bound(n, local, order):
    # shuffled binary randomized response, a local randomizer like any other, exceeds it
    window = response_window(n, local, 1.0 - order)
    response = response_kernel(n, local, orders=(order,), window=window, reverse=True)[0]
    printed = published_kernel(n, local, orders=(order,))[0]
    assert response > 1.05 * printed
    assert pair_kernel(n, math.exp(-local), local, orders=(order,))[1][0] >= response


def test_corollary_2_fails_beyond_twice_root_two():
    n, local = 10**9, 3.0
    order = round(n * math.exp(-local) / math.sqrt(2.0))
    floor = local - n * math.log1p(math.exp(-local)) / (order - 1.0)
    assert floor > published_kernel(n, local, orders=(float(order),))[0]


def test_published_and_corrected():
    local = np.array([0.05, 0.5, 1.0, 4.0])
    n = 1000.0
    ratio = published_kernel(n, local, orders=(2.0,)) / asymptotic_kernel(n, np.exp(-local), local, orders=(2.0,))
    np.testing.assert_allclose(ratio[:, 0], n / (n - 1) / np.tanh(local / 2) ** 2, rtol=1e-12)
    assert ratio[0, 0] > 1600
    mu = published_gdp(n, local), asymptotic_gdp(n, np.exp(-local), local)
    for order in (2.0, 7.5):
        np.testing.assert_allclose(
            published_kernel(n, local, orders=(order,))[:, 0], mu[0] ** 2 * order / 2, rtol=1e-14
        )
        limit = asymptotic_kernel(n, np.exp(-local), local, orders=(order,))[:, 0]
        np.testing.assert_allclose(limit, mu[1] ** 2 * order / 2, rtol=1e-14)
    assert published_kernel(1.0, 1.0, orders=(2.0,))[0] == math.inf


def test_limit():
    # n D tends to the corrected form, with an error of order 1/n
    errors = [
        pair_kernel(n, math.exp(-1.0), 1.0, orders=(4.0,))[1][0]
        / asymptotic_kernel(n, math.exp(-1.0), 1.0, orders=(4.0,))[0]
        - 1.0
        for n in (10**4, 10**5, 10**6)
    ]
    assert abs(errors[0]) < 1e-3
    np.testing.assert_allclose(errors[1:], [errors[0] / 10, errors[0] / 100], rtol=0.02)


def test_blocks():
    orders = (2.0, 8.0)
    one = epoch_kernel(100, 1, 0.5, orders=orders)
    np.testing.assert_allclose(one, pair_kernel(100, math.exp(-0.5), 0.5, orders=orders), rtol=1e-15)
    curves = np.stack([epoch_kernel(100, block, 0.5, orders=orders)[1] for block in (1, 2, 5, 30, 1000)])
    assert np.all(np.diff(curves, axis=0) >= 0)
    np.testing.assert_allclose(curves[-1], pair_kernel(1, 0.5, 0.5, orders=orders)[1], rtol=1e-12)


@pytest.mark.parametrize(("blocks", "size", "local", "order"), [(100, 600, 1.0, 2.0), (600, 100, 0.5, 4.0)])
def test_theorem_3_fails_for_blocks(blocks, size, local, order):
    # scalar, linear loss: all other blocks at -clip, one at +clip with one record flipped. The largest step tells
    # whether that one was there: as good as the unshuffled Laplace report, which its noise is calibrated for
    laplace = laplace_kernel(local, orders=(order,))[0]
    claimed = published_kernel(blocks, local, orders=(order,))[0]
    assert laplace > 5.0 * claimed
    ours = epoch_kernel(blocks, size, local, orders=(order,))[1][0]
    assert ours >= laplace * (1 - 1e-9)


def test_laplace():
    orders = (1.0, 1.01, 2.0, 8.0, 300.0)
    for eps in (1e-4, 0.1, 1.0, 5.0, 50.0):
        with mp.workdps(60):
            e = mp.mpf(eps)
            for order, ours in zip(orders, laplace_kernel(eps, orders=orders), strict=True):
                a = mp.mpf(order)
                moment = a / (2 * a - 1) * mp.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mp.exp(-a * e)
                truth = e + mp.exp(-e) - 1 if order == 1.0 else mp.log(moment) / (a - 1)
                assert truth <= ours <= truth * (1 + 1e-12)
    np.testing.assert_array_equal(laplace_kernel([0.0, -1.0, math.nan], orders=(2.0,))[:, 0], [0.0, np.inf, np.inf])


def test_slope():
    orders = (2.0, 8.0, 32.0)
    kernel = Kernel(
        lambda n, epochs, slope, top: chen.local_epsilon_for_slope_lanes(n, epochs, slope, top, orders=orders)
    )
    found = float(kernel(60000, 50, 0.008, 5.0))

    def spent(local):
        curve = 50 * pair_kernel(60000, math.exp(-local), local, orders=orders)[1]
        return np.max(curve / np.asarray(orders))

    assert spent(found) <= 0.008 < spent(found * (1 + 1e-9))
    # the published form admits less, and nothing at all for 100 or 600 blocks
    published = Kernel(estimates.published_local_epsilon_lanes)
    assert 1.56 < published(60000, 50, 0.008) < found
    assert published(100, 50, 0.008) < 0
    assert published(600, 50, 0.008) < 0


def test_order_levels():
    for name, (constant, growth) in estimates.ORDER_LEVELS.items():
        value = level_kernel(1000.0, 2.0, name=name, orders=(4.0,))[0]
        assert value == pytest.approx(constant * math.exp(2 * growth) * 4.0 / 1000.0, rel=1e-14)


def test_derivatives_are_finite():
    for fn in (
        lambda eps: chen.moment_sandwich_rdp_lanes(jnp.full(1, 100.0), jnp.exp(-eps), eps, orders=ORDERS),
        lambda eps: chen.cosh_sandwich_rdp_lanes(jnp.full(1, 100.0), jnp.exp(-eps), eps, orders=ORDERS, window=128),
    ):
        kernel = Kernel(lambda eps, fn=fn: fn(eps).upper)
        slope = jax.jacfwd(kernel)(1.0)
        ends = kernel([1.0 - 1e-5, 1.0 + 1e-5])
        np.testing.assert_allclose(slope, (ends[1] - ends[0]) / 2e-5, rtol=1e-4)


def test_sandwiches_of_one_report_are_rounded_outward_and_no_more():
    """Of one report both upper ends and the first lower one are the divergence itself but for rounding."""
    rng = np.random.default_rng(7)
    local = 10.0 ** rng.uniform(-4.0, 2.0, 60)
    p = rng.uniform(0.0, 1.0, 60)
    ends, others = closed_kernel(1.0, p, local), cosh_kernel(1.0, p, local)
    for i, eps in enumerate(map(mp.mpf, map(float, local))):
        for j, order in enumerate(ORDERS):
            a = mp.mpf(order)
            with mp.workdps(120):
                truth = mp.log((mp.exp(a * eps) + mp.exp((1 - a) * eps)) / (mp.exp(eps) + 1)) / (a - 1)
                for lower, upper in (ends, others):
                    assert mp.mpf(float(lower[i, j])) <= truth <= mp.mpf(float(upper[i, j]))
                assert truth * (1 - mp.mpf(10) ** -12) <= float(ends[0][i, j])
                assert max(float(ends[1][i, j]), float(others[1][i, j])) <= truth * (1 + mp.mpf(10) ** -12)
