"""Monte Carlo estimates: their distribution, their confidence bounds, and the numbers that they are made of."""

import functools
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import jaxacct as ja
from jaxacct import estimation
from jaxacct._precision import HostProgram
from jaxacct.divergence.sampling import _allocation as sampling
from jaxacct.divergence.sampling import _draws as draws
from jaxacct.divergence.sampling import _importance as importance
from jaxacct.divergence.sampling._allocation import Allocation, Tile
from jaxacct.estimation import Estimate, Sampler, chernoff_upper_confidence, estimate_delta

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
directions = pytest.mark.parametrize("direction", list(ja.Direction), ids=lambda d: d.value)

REFERENCE = [
    entry
    for entry in json.loads((Path(__file__).parent / "reference" / "random-allocation.json").read_text())
    if entry["system"] in ("S17", "S18", "S19")
]

# sigma, t, epsilon, delta by direction: exact (Bromwich and Mellin-Barnes inversions; anchors of our specification)
EXACT = [
    (1.0, 100, 0.5, {REMOVE: 4.40890803386304e-5, ADD: 5.92528369170911e-7}),
    (2.0, 10, 0.5, {REMOVE: 1.13084995654202e-4, ADD: 7.17262403162757e-5}),
    (1.0, 2, 0.5, {REMOVE: 0.149177523135520, ADD: 0.142686965823743}),
    (0.75, 100, 1.0, {REMOVE: 2.05780252960138e-4, ADD: 2.81309777768309e-10}),
    (8.0, 50, 0.05, {ADD: 1.30335633234891e-5}),
    (0.5, 100, 2.0, {REMOVE: 5.46366e-3, ADD: 2.19905931092026e-11}),
    (0.8, 100, 3.0, {REMOVE: 5.3832795826499e-9}),
    (1.0, 1000, 0.2, {REMOVE: 2.03724929707738e-7, ADD: 2.01024326311673e-9}),
]
POINTS = [(sigma, t, eps, d, delta) for sigma, t, eps, values in EXACT for d, delta in values.items()]

MAX_ERRORS = 5.0  # standard errors; chance 6e-7 for a normal mean


def allocation(sigma, num_steps, num_selected=1, num_epochs=1):
    return ja.RandomAllocation(ja.Gaussian(sigma), num_steps, num_selected, num_epochs)


@functools.cache
def _program(fn):
    return HostProgram(lambda data, *args, **static: fn(draws.stream(data, jnp.uint32(0)), *args, **static))


def draw(fn, *args, seed=0, **static):
    """`fn(key, ...)` inside the float64 boundary; one program for each function and shape."""
    return _program(fn)(np.array([0, seed], np.uint32), *args, **static)


# Draws


def test_tail_inverse():
    r = np.concatenate([np.linspace(1e-3, 8.0, 500), np.linspace(8.0, 38.0, 200)])
    exact = -special.ndtri_exp(-0.5 * r * r - math.log(2.0))
    exact[r < 0.5] = math.sqrt(2.0) * special.erfinv(-np.expm1(-0.5 * r[r < 0.5] ** 2))
    ours = HostProgram(draws.tail_inverse)(-0.5 * r * r)
    assert np.max(np.abs(ours - exact) / np.maximum(exact, 1.0)) < 1.8e-7
    narrow = HostProgram(draws.tail_inverse)((-0.5 * r * r).astype(np.float32))
    assert narrow.dtype == np.float32
    assert np.max(np.abs(narrow - exact) / np.maximum(exact, 1.0)) < 1e-6


def test_survival_inverse_has_both_tails():
    g = np.array([-37.0, -8.3, -1.0, -1e-3, 0.0, 0.5, 9.0, 37.0])
    np.testing.assert_allclose(HostProgram(draws.survival_inverse)(special.log_ndtr(-g)), g, rtol=1e-6, atol=1e-6)


def kolmogorov(sample, cdf):
    return stats.kstest(np.asarray(sample, np.float64).reshape(-1), cdf).pvalue


def conditioned_normals(key, log_cdf):
    return draws.normals(key, 64, 2048, jnp.full(2048, log_cdf))


@pytest.mark.parametrize("cap", [-14.0, -2.0, -0.1, 0.4, 3.0, 40.0])
def test_conditioned_normals(cap):
    log_cdf = float(special.log_ndtr(cap))
    g = draw(conditioned_normals, log_cdf)
    assert g.dtype == np.float32
    assert np.all(g <= cap + 1e-5 * max(1.0, abs(cap)))
    assert kolmogorov(g, lambda x: np.exp(special.log_ndtr(np.minimum(x, cap)) - log_cdf)) > 1e-3
    assert abs(np.corrcoef(g[::2].reshape(-1), g[1::2].reshape(-1))[0, 1]) < 0.02


@pytest.mark.more
def test_normals():
    """Beyond 5.06 standard deviations 32 bits are too coarse; `jax.random.normal` in float32 ends at 5.4."""
    rows, lanes, num = 64, 4096, 256

    def tile(key, i):
        g = draws.normals(jax.random.fold_in(key, i), rows, lanes)
        return jnp.sum(jnp.abs(g) > 5.1), jnp.max(jnp.abs(g)), g[0]

    def tiles(key):
        return jax.lax.map(lambda i: tile(key, i), jnp.arange(num, dtype=jnp.int32))

    counts, largest, g = draw(tiles)
    expected = 2 * rows * lanes * num * stats.norm.sf(5.1)
    assert abs(counts.sum() - expected) < 4 * math.sqrt(expected)
    far = largest[largest > 5.06]
    assert len(np.unique(far)) == len(far) > 10
    assert kolmogorov(g[:32], stats.norm.cdf) > 1e-3


def gammas_and_exponentials(key, shape):
    first, second = jax.random.split(key)
    return draws.gammas(first, jnp.full(5, shape), 4096), draws.exponentials(second, 5, 4096)


@pytest.mark.parametrize("shape", [1.0, 2.0, 10.0, 100.0, 1e6])
def test_gammas(shape):
    sample, exponentials = draw(gammas_and_exponentials, shape)
    assert kolmogorov(sample, stats.gamma(shape).cdf) > 1e-3
    assert kolmogorov(exponentials, stats.expon.cdf) > 1e-3


# Losses


def log_average(w, num_selected=1):
    """log of the elementary symmetric average of the columns of `w` [t, L]."""
    products = [
        np.prod([w[i] for i in chosen], axis=0) for chosen in itertools.combinations(range(len(w)), num_selected)
    ]
    return np.log(np.mean(products, axis=0))


@pytest.mark.parametrize(("t", "k"), [(5, 1), (6, 3), (7, 5), (4, 4)])
def test_elementary_symmetric_recursion(t, k):
    def recursion(w):
        def step(ratios, at):
            return sampling.append_coordinate(ratios, *at), None

        ratios, _ = jax.lax.scan(step, jnp.ones((k, 3), jnp.float64), (w, jnp.arange(1, t + 1, dtype=jnp.int32)))
        return jnp.sum(jnp.log(ratios), axis=0)

    program, rng = HostProgram(recursion), np.random.default_rng(0)
    for scale in (0.01, 1.0, 8.0):
        w = np.exp(scale * rng.standard_normal((t, 3)))
        np.testing.assert_allclose(program(w), log_average(w, k), rtol=1e-13, atol=1e-14)


def rank_loss(sigma, special_noise, noises, ranks, direction):
    """The loss from given normals [d, L] (without the record's own for REMOVE) at some ranks."""
    t = len(noises) + (direction is REMOVE)
    ranked = np.sort(noises, axis=0)[::-1][np.asarray(ranks) - 1]
    weights = sampling.rank_weights(ranks, t, direction)
    own = special_noise + 1.0 / sigma
    fn = lambda own, ranked, weights: sampling.rank_loss(  # noqa: E731
        Allocation(1.0 / sigma, float(t), 1.0), own if direction is REMOVE else None, ranked, weights
    )
    return HostProgram(fn)(own, ranked, weights)


@directions
def test_ranks_bound_the_naive_loss_on_the_same_normals(direction):
    sigma, t, rng = 0.8, 40, np.random.default_rng(1)
    own, noises = rng.standard_normal(500), rng.standard_normal((t - (direction is REMOVE), 500))
    w = np.exp((noises - 0.5 / sigma) / sigma)
    if direction is REMOVE:
        w = np.concatenate([w, np.exp((own + 0.5 / sigma) / sigma)[None]])
    exact = log_average(w) * (1 if direction is REMOVE else -1)
    d = len(noises)
    every = rank_loss(sigma, own, noises, range(1, d + 1), direction)
    np.testing.assert_allclose(every, exact, rtol=1e-12, atol=1e-13)
    some = rank_loss(sigma, own, noises, [1, 2, 3, 5, 8, 20, 30], direction)
    fewer = rank_loss(sigma, own, noises, [1, 5, 20], direction)
    assert np.all(some > every)
    assert np.all(fewer > some)


@directions
@pytest.mark.parametrize("t", [2, 57, 100, 450, 700, 5000, 10**6])
def test_default_ranks(t, direction):
    ranks = sampling.default_ranks(t, direction)
    assert ranks[0] == 1
    assert ranks[-1] <= t - (direction is REMOVE)
    assert np.all(np.diff(ranks) >= 1)
    total = sampling.rank_weights(ranks, t, direction).sum()
    assert total == t - 1 if direction is REMOVE else total <= t


def test_order_statistics_are_those_of_normals():
    """The law of the sampled loss with every rank, most of them by gamma variates, is that of independent normals."""
    t, direction, tile = 30, REMOVE, Tile(2, 4096)
    ranks = sampling.default_ranks(t, direction)
    gaps = np.diff(np.asarray([0, *ranks, t + (direction is ADD)], float))

    def ordered(key, run, *args):
        static = {"num_consecutive": 5, "direction": direction, "tile": tile}
        return sampling.order_statistics(key, Allocation(*run), *args, **static)[0]

    loss = draw(ordered, np.array([1.0, t, 1.0]), gaps, sampling.rank_weights(ranks, t, direction))
    x = np.random.default_rng(8).standard_normal((t, 20_000)) + (np.arange(t)[:, None] == 0) * (direction is REMOVE)
    plain = np.log(np.mean(np.exp(x - 0.5), axis=0)) * (1 if direction is REMOVE else -1)
    assert stats.ks_2samp(loss, plain).pvalue > 1e-3


@directions
@pytest.mark.parametrize(("sigma", "t", "epsilon"), [(0.5, 10, 1.0), (1.0, 3, 0.3), (2.0, 5, 0.2), (0.8, 1, 0.5)])
def test_outside_the_event_no_loss_exceeds_epsilon(sigma, t, epsilon, direction):
    noise = sigma * np.random.default_rng(2).standard_normal((t, 20_000))
    x = noise + (np.arange(t)[:, None] == 0) * (direction is REMOVE)
    loss = log_average(np.exp((2 * x - 1) / (2 * sigma**2))) * (1 if direction is REMOVE else -1)
    threshold = importance.importance_threshold(sigma, t, epsilon, direction)
    inside = noise.max(axis=0) >= threshold if direction is REMOVE else x.max(axis=0) <= threshold
    assert np.all(loss[~inside] <= epsilon)
    assert np.any(loss > epsilon)
    mass = importance.importance_mass(sigma, t, epsilon, direction)
    assert abs(inside.mean() - mass) < MAX_ERRORS * math.sqrt(max(mass * (1 - mass), 1e-12) / inside.size)


@directions
def test_conditioned_losses_are_those_inside_the_event(direction):
    sigma, t, epsilon = 0.5, 4, 2.0
    threshold = importance.importance_threshold(sigma, t, epsilon, direction)
    log_cdf = importance.log_normal_cdf(threshold / sigma)
    run, tile = np.array([1 / sigma, t, 1.0]), Tile(4, 8192)

    def conditioned(key, run, log_cdf):
        return importance.conditioned(key, Allocation(*run), log_cdf, direction=direction, tile=tile)

    loss, log_mass = draw(conditioned, run, log_cdf)
    mass = importance.importance_mass(sigma, t, epsilon, direction)
    np.testing.assert_allclose(np.exp(log_mass), mass, rtol=1e-12)
    noise = sigma * np.random.default_rng(3).standard_normal((t, 200_000))
    x = noise + (np.arange(t)[:, None] == 0) * (direction is REMOVE)
    inside = noise.max(axis=0) >= threshold if direction is REMOVE else x.max(axis=0) <= threshold
    plain = log_average(np.exp((2 * x - 1) / (2 * sigma**2)))[inside] * (1 if direction is REMOVE else -1)
    assert stats.ks_2samp(loss, plain).pvalue > 1e-3


def test_weights_have_mean_one_and_keep_their_bounds():
    """REMOVE: at most 2. ADD: at most c where the loss exceeds epsilon."""
    sigma, t, epsilon = 1.0, 50, 0.3
    run, tile = np.array([1 / sigma, t, 1.0]), Tile(64, 16384)

    def shifted(key, run, *args):
        return importance.shifted_remove(key, Allocation(*run), *args, tile=tile)[1]

    def tilted(key, run, tilt):
        return importance.tilted_add(key, Allocation(*run), tilt, tile=tile)

    weight = np.exp(draw(shifted, run, *importance.shifts_for(sigma, t, epsilon)))
    assert weight.max() <= 2.0
    assert abs(weight.mean() - 1.0) < MAX_ERRORS * weight.std() / 128
    tilt = importance.chernoff_tilt(sigma, epsilon)
    loss, log_weight = draw(tilted, run, np.asarray(tilt))
    log_c = t * (tilt.log_psi + tilt.lam * math.exp(-epsilon))
    assert log_c < 0.0
    assert np.all(log_weight[loss > epsilon] <= log_c + 1e-12)
    # the mean of the weight can be seen where the tilt is weak
    weight = np.exp(draw(tilted, run, np.asarray(importance.chernoff_tilt(sigma, 0.02)))[1])
    assert abs(weight.mean() - 1.0) < MAX_ERRORS * weight.std() / 128


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 5.0, 50.0, 800.0])
@pytest.mark.parametrize(("sigma", "t"), [(1 / 16, 1), (0.3, 10**6), (1.0, 100), (50.0, 10**9)])
def test_proposals_are_finite(sigma, t, epsilon):
    shifts = importance.shifts_for(sigma, t, epsilon)
    assert abs(shifts.probabilities.sum() - 1.0) < 1e-12
    assert np.all(shifts.probabilities >= 0.0)
    tilt = importance.chernoff_tilt(sigma, epsilon)
    assert np.all(np.isfinite(tilt))
    assert t * (tilt.log_psi + tilt.lam * math.exp(-epsilon)) <= 1e-6


# Estimates


@pytest.mark.sample(1)
@pytest.mark.parametrize(("sigma", "t", "epsilon", "direction", "delta"), POINTS)
def test_importance_sampling_is_right_for_small_deltas(sigma, t, epsilon, direction, delta):
    found = estimate_delta(
        allocation(sigma, t), epsilon, num_samples=40_000, seed=7, direction=direction, method=Sampler.IMPORTANCE
    )
    assert abs(found.mean - delta) < MAX_ERRORS * found.standard_error
    assert found.standard_error < (0.15 if direction is REMOVE else 0.02) * delta
    assert delta < found.upper_confidence <= 1.0
    if direction is ADD:
        assert found.upper_confidence < 2.5 * delta


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [Sampler.NAIVE, Sampler.CONDITIONAL, Sampler.ORDER_STATISTICS])
@pytest.mark.parametrize(("sigma", "t", "epsilon", "direction", "delta"), [p for p in POINTS if p[1] == 10])
def test_samplers_are_right(sigma, t, epsilon, direction, delta, method):
    found = estimate_delta(
        allocation(sigma, t), epsilon, num_samples=200_000, seed=7, direction=direction, method=method
    )
    assert abs(found.mean - delta) < MAX_ERRORS * found.standard_error
    assert delta < found.upper_confidence


@pytest.mark.more
@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [Sampler.NAIVE, Sampler.ORDER_STATISTICS])
@pytest.mark.parametrize(
    ("epsilon", "epochs", "direction", "delta"),
    [
        (1.0, 10, REMOVE, 2.00149278172732e-3),
        (1.0, 10, ADD, 1.35470449085824e-3),
        (2.0, 50, REMOVE, 1.26654035007e-2),
        (2.0, 50, ADD, 1.11219699606e-2),
    ],
)
def test_epochs(epsilon, epochs, direction, delta, method):
    """Order statistics of 99 of 100 steps: an overestimate, here by far less than a standard error."""
    found = estimate_delta(
        allocation(1.0, 100, 1, epochs), epsilon, num_samples=8_000, seed=5, direction=direction, method=method
    )
    assert abs(found.mean - delta) < MAX_ERRORS * found.standard_error


@pytest.mark.more
def test_two_of_three():
    """An anchor number of our specification, by quadrature."""
    found = estimate_delta(allocation(1.0, 3, 2), 0.5, num_samples=10**6, seed=0, direction=REMOVE)
    assert abs(found.mean - 0.3157157088) < MAX_ERRORS * found.standard_error
    assert found.standard_error < 5e-4


@pytest.mark.sample(2)
@directions
@pytest.mark.parametrize(("t", "k", "epochs"), [(2, 2, 3), (1, 1, 1), (1, 1, 4)])
def test_every_step_selected_is_the_gaussian_mechanism(t, k, epochs, direction):
    exact = ja.delta(ja.Gaussian(3.0 / math.sqrt(t * epochs)), 0.7)
    found = estimate_delta(allocation(3.0, t, k, epochs), 0.7, num_samples=50_000, seed=1, direction=direction)
    assert abs(found.mean - exact) < MAX_ERRORS * found.standard_error


def test_four_of_a_hundred():
    """Between an estimate by another program (0.1000 +- 0.0019) and the bound by reduction to groups, 0.10058."""
    found = estimate_delta(allocation(1.0, 100, 4), 0.3, num_samples=60_000, seed=1, direction=REMOVE)
    assert found.standard_error < 1e-3
    assert 0.0962 < found.mean < 0.10058 + 3 * found.standard_error


CONFIDENCE, REPEATS = 0.9, 200


@pytest.mark.more
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("sigma", "t", "epsilon", "direction", "delta", "method"),
    [
        (1.0, 2, 0.5, REMOVE, 0.149177523135520, Sampler.NAIVE),
        (2.0, 10, 0.5, ADD, 7.17262403162757e-5, Sampler.ORDER_STATISTICS),
        (2.0, 10, 0.5, ADD, 7.17262403162757e-5, Sampler.CONDITIONAL),
        (2.0, 10, 0.5, REMOVE, 1.13084995654202e-4, Sampler.IMPORTANCE),
        (1.0, 100, 0.5, ADD, 5.92528369170911e-7, Sampler.IMPORTANCE),
    ],
)
def test_confidence_bound_covers_at_its_rate(sigma, t, epsilon, direction, delta, method):
    covered = [
        estimate_delta(
            allocation(sigma, t), epsilon, num_samples=300, seed=seed, direction=direction, method=method,
            confidence=CONFIDENCE,
        ).upper_confidence >= delta
        for seed in range(REPEATS)
    ]  # fmt: skip
    spread = math.sqrt(REPEATS * CONFIDENCE * (1 - CONFIDENCE))
    assert sum(covered) >= CONFIDENCE * REPEATS - 3 * spread


def test_confidence_bound_of_coins_is_not_vacuous():
    """Bernoulli values are the extremal ones: at 90 % the bound fails, but in at most a tenth of the repeats."""
    means = np.random.default_rng(0).binomial(1000, 0.03, 20_000) / 1000
    failures = np.mean(chernoff_upper_confidence(means, 1000, 0.1) < 0.03)
    assert 0.01 < failures <= 0.1


def test_same_seed_same_samples_and_more_continue_them():
    run, seen, chunk = allocation(1.0, 64), [], 16 * 2048
    one = functools.partial(estimate_delta, run, 0.1, seed=11, direction=REMOVE)
    short = one(num_samples=2048, progress=lambda *at: seen.append(at))
    assert seen == [(2048, 2048)]
    assert one(num_samples=2048) == short
    assert one(num_samples=2000).mean != short.mean
    seen.clear()
    long = one(num_samples=70_000, progress=lambda *at: seen.append(at))
    assert seen == [(chunk, 70_000), (2 * chunk, 70_000), (70_000, 70_000)]
    rest = (long.mean * 70_000 - short.mean * 2048) / (70_000 - 2048)
    assert abs(rest - short.mean) < MAX_ERRORS * short.standard_error
    assert estimate_delta(run, 0.1, seed=2**64 - 1, num_samples=1000).mean != one(num_samples=1000).mean


def test_chunks_do_not_change_the_result(monkeypatch):
    one = functools.partial(estimate_delta, allocation(1.0, 64), 0.1, num_samples=30_000, seed=11, direction=REMOVE)
    together = one()
    monkeypatch.setattr(estimation, "_CHUNK", 1)
    assert one() == together


def test_progress_can_stop_the_run():
    def stop(done, total):
        raise InterruptedError(f"{done} of {total}")

    with pytest.raises(InterruptedError, match="32768 of 100000"):
        estimate_delta(allocation(1.0, 64), 0.1, num_samples=10**5, seed=0, progress=stop)


def test_epsilons_share_their_samples():
    """Importance sampling is made for the smallest (ADD), and right at the others."""
    run, epsilons = allocation(1.0, 100), np.array([[0.4], [0.5]])
    one = functools.partial(estimate_delta, run, num_samples=20_000, seed=2, direction=ADD, method=Sampler.IMPORTANCE)
    found = one(epsilons)
    assert found.mean.shape == found.standard_error.shape == found.upper_confidence.shape == (2, 1)
    assert one(0.4).mean == pytest.approx(found.mean[0, 0], rel=1e-13)
    assert abs(found.mean[1, 0] - 5.92528369170911e-7) < MAX_ERRORS * found.standard_error[1, 0]
    assert found.upper_confidence[1, 0] < 5e-6


def test_both_directions_take_the_larger_at_half_the_error():
    run = allocation(1.0, 10)
    both = estimate_delta(run, 0.5, num_samples=5000, seed=3)
    one = estimate_delta(run, 0.5, num_samples=5000, seed=3, direction=REMOVE, confidence=0.995)
    assert both[:3] == one[:3]
    assert both.bound is ja.Bound.ESTIMATE
    assert isinstance(both, Estimate)
    assert type(both.mean) is type(both.upper_confidence) is float


def test_no_sample_above_epsilon():
    found = estimate_delta(allocation(1.0, 100), 30.0, num_samples=1000, seed=0)
    assert found[:2] == (0.0, 0.0)
    assert found.upper_confidence == pytest.approx(-math.expm1(math.log(0.005) / 1000))
    empty = estimate_delta(allocation(1.0, 100), 800.0, num_samples=1000, seed=0, method=Sampler.CONDITIONAL)
    assert empty[:3] == (0.0, 0.0, 0.0)


@pytest.mark.sample(1)
@pytest.mark.parametrize("method", list(Sampler))
def test_extreme_parameters_give_probabilities(method):
    for sigma, t, epsilon in ((1 / 16, 10, 100.0), (1e4, 10, 1e-6), (1.0, 1, 0.3), (1.0, 10, 6.0)):
        found = estimate_delta(allocation(sigma, t), epsilon, num_samples=500, seed=0, method=method)
        assert 0.0 <= found.mean <= found.upper_confidence <= 1.0, (sigma, t, epsilon)
        assert np.isfinite(found.standard_error)


# Chernoff-KL


def test_upper_confidence_properties():
    n, err = 1000, 0.01
    assert chernoff_upper_confidence(0.0, n, err) == pytest.approx(1 - err ** (1 / n), rel=1e-9)
    assert chernoff_upper_confidence(0.4, n, err, 0.4) == 0.4
    means = np.linspace(0.0, 1.0, 101)
    bounds = chernoff_upper_confidence(means, n, err)
    assert np.all(bounds >= means)
    assert np.all(chernoff_upper_confidence(means, 2 * n, err) <= bounds)
    assert np.all(chernoff_upper_confidence(means, n, 0.1) <= bounds)
    np.testing.assert_allclose(chernoff_upper_confidence(means, 10**12, err), means, atol=1e-5)
    q, p = means[1:-1], bounds[1:-1]
    inside = p < 1
    kl = special.rel_entr(q, p) + special.rel_entr(1 - q, 1 - p)
    np.testing.assert_allclose(kl[inside], math.log(1 / err) / n, rtol=1e-9)


@pytest.mark.parametrize("entry", REFERENCE, ids=lambda e: f"{e['system']}-{e['quantity']}-{e['value'][:8]}")
def test_reference(entry):
    args, value = entry["args"], float(entry["value"])
    if entry["system"] == "S19":
        ours = chernoff_upper_confidence(*(float(args[n]) for n in ("mean", "sample_size", "error_prob", "scale")))
        assert value * (1 - 1e-15) <= ours <= value * (1 + 1e-9)
        return
    sigma, t, epsilon = float(args["sigma"]), args["num_steps"], float(args["epsilon"])
    direction = ja.Direction(args["direction"])
    if entry["system"] == "S18":
        assert sampling.default_ranks(t, direction) == tuple(args["orders"])
        found = estimate_delta(
            allocation(sigma, t), epsilon, num_samples=300_000, seed=4, direction=direction,
            method=Sampler.ORDER_STATISTICS,
        )  # fmt: skip
        assert abs(found.mean - value) < MAX_ERRORS * found.standard_error
        return
    fn = importance.importance_threshold if entry["quantity"] == "importance_threshold" else importance.importance_mass
    assert fn(sigma, t, epsilon, direction) == pytest.approx(value, rel=1e-13)


# The border


def test_tracers_are_refused():
    def of(sigma, epsilon):
        return estimate_delta(allocation(sigma, 10), epsilon, num_samples=10, seed=0).mean

    for call in (
        lambda: jax.jit(of)(1.0, 0.5),
        lambda: jax.jit(lambda e: of(1.0, e))(0.5),
        lambda: jax.grad(of)(1.0, 0.5),
    ):
        with pytest.raises(ValueError, match="concrete numbers"):
            call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": ja.Gaussian(1.0)}, "must be RandomAllocation of Gaussian"),
        ({"mechanism": ja.RandomAllocation(ja.Laplace(1.0), 10)}, "must be RandomAllocation of Gaussian"),
        ({"mechanism": allocation(np.array([1.0, 2.0]), 10)}, "must be scalars"),
        ({"mechanism": allocation(0.01, 10)}, "noise_multiplier=0.01"),
        ({"mechanism": allocation(1.0, 2**31)}, "num_steps=2147483648"),
        ({"target_epsilon": -1.0}, "target_epsilon=-1.0"),
        ({"num_samples": 0}, "num_samples=0"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"method": "naif"}, "method=.naif. must be"),
        ({"direction": "both"}, "direction='both'"),
        ({"mechanism": allocation(1.0, 10, 2), "method": Sampler.ORDER_STATISTICS}, "num_selected=2 must be 1"),
        ({"mechanism": allocation(1.0, 10, 1, 2), "method": Sampler.IMPORTANCE}, "num_epochs=2 must be 1"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"mechanism": allocation(1.0, 10), "target_epsilon": 0.5, "num_samples": 10, "seed": 0} | change
    with pytest.raises(ValueError, match=message):
        estimate_delta(arguments.pop("mechanism"), arguments.pop("target_epsilon"), **arguments)


@pytest.mark.parametrize("method", Sampler)
def test_no_epsilons(method):
    found = estimate_delta(allocation(1.0, 10), np.zeros((0, 2)), num_samples=10, seed=0, method=method)
    assert [x.shape for x in found[:3]] == [(0, 2)] * 3


def test_the_users_settings_do_not_matter():
    def ask(num_points):  # each number of points is another program
        epsilons = np.linspace(0.1, 0.2, num_points)
        return estimate_delta(allocation(1.0, 10), epsilons, num_samples=100, seed=5, direction=REMOVE).mean[0]

    inside = []

    @jax.jit
    def step(x):
        inside.append(ask(2))
        return x + inside[0]

    step(1.0)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.debug_key_reuse(True):
        assert ask(3) == inside[0]
        assert ask(2) == inside[0]
    assert ask(2) == inside[0]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of ru_maxrss starts from the parent's")
def test_memory_at_a_million_steps():
    """As much as at a thousand, mostly JAX itself: nothing is as long as the run."""
    code = """
import jaxacct as ja
from jaxacct.estimation import Sampler, estimate_delta
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
for t in (1000, 10**6):
    estimate_delta(ja.RandomAllocation(ja.Gaussian(1.0), t), 0.1, num_samples=10, seed=0, direction=ja.Direction.REMOVE)
    print(peak())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    small, large = map(float, out)
    assert large < small + 30.0
    assert large < 330.0
