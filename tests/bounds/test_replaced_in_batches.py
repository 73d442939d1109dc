"""Shuffled batches of which a record is replaced by any other one: both ends."""

import itertools
import math

import numpy as np
import pytest

import jaxacct as ja

ONE = {"neighboring_relation": "replace-one"}
REPLACED = ja.NeighboringRelation.REPLACE_ONE


@pytest.mark.parametrize(
    ("sigma", "steps", "upper"),
    [(2.0, 1000, 0.2149), (4.0, 1000, 0.0706), (4.0, 100, 0.2442)],  # of a reader of the proofs, on coarser grids
)
def test_table(sigma, steps, upper):
    run = ja.ShuffledBatches(ja.Gaussian(sigma), steps)
    found = ja.epsilon_interval(run, 1e-6, **ONE)
    assert 0.99 * upper <= found.upper <= upper
    assert found.lower == pytest.approx(ja.epsilon(ja.RandomAllocation(ja.Gaussian(0.5 * sigma), steps), 1e-6))
    assert found.lower <= found.upper <= 1.26 * found.lower
    for query, target in ((ja.delta, found.upper), (ja.epsilon, 1e-6)):
        assert query(run, target, **ONE) == query(ja.ReplaceOne(run), target)
    assert ja.delta(run, found.upper, **ONE) <= 1e-6 * (1.0 + 1e-9)
    assert ja.delta(run, 0.999 * found.upper, **ONE) >= 1e-6


def _ratios(points, others, released, sample):
    """Log density [N] of released [N, s, 2], the mean over all orders of `points`, of which the first `s` are seen."""
    rows = np.concatenate([points, others])
    orders = list(itertools.permutations(range(len(rows)), released))
    gains = sample @ rows.T - 0.5 * np.square(rows).sum(1)
    logs = [sum(gains[:, s, order[s]] for s in range(released)) for order in orders]
    return np.logaddexp.reduce(logs, axis=0) - math.log(len(orders))


@pytest.mark.parametrize("seed", range(8))
def test_random_data_in_the_plane(seed):
    """Every batch one record, all of them anywhere in the unit disc or at opposite ends: sampled, by permanents."""
    rng = np.random.default_rng(seed)
    steps, sigma, num = int(rng.integers(2, 5)), math.exp(rng.uniform(-0.5, 1.2)), 20_000
    hidden = int(rng.integers(0, 2))
    run = ja.ShuffledBatches(ja.Gaussian(sigma), steps)
    if hidden:
        run = ja.PartialShuffledBatches(ja.Gaussian(sigma), steps + 1, steps)
    record = np.array([[1.0, 0.0]])
    if seed % 2:
        ends, other = rng.choice([-1.0, 1.0], (steps + hidden - 1, 1)) * record, -record
    else:
        angles = rng.uniform(0.0, 2.0 * math.pi, (steps + hidden, 1))
        points = np.sqrt(rng.uniform(size=angles.shape)) * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        ends, other = points[1:], points[:1]
    rows = np.concatenate([record, ends]) / sigma
    order = rng.permuted(np.tile(np.arange(len(rows)), (num, 1)), axis=1)[:, :steps]
    sample = rows[order] + rng.normal(size=(num, steps, 2))
    logs = [_ratios(x / sigma, ends / sigma, steps, sample) for x in (record, other)]
    for epsilon in (0.0, 0.5 / sigma, 2.0 / sigma):
        gains = np.maximum(-np.expm1(epsilon - (logs[0] - logs[1])), 0.0)
        assert ja.delta(run, epsilon, **ONE) >= gains.mean() - 4.0 * gains.std() / math.sqrt(num)


def mixture_delta(sigma, shares, hidden, epsilon, *, is_removal):
    """Two outputs, one of which has the mean 2 with these shares, or none; against none: a sum in the plane."""
    step = sigma / 80.0
    y = np.arange(-7.0 * sigma, 2.0 + 7.0 * sigma, step)
    density = {m: np.exp(-0.5 * ((y - m) / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi)) for m in (0.0, 2.0)}
    none = np.outer(density[0.0], density[0.0])
    some = shares[0] * np.outer(density[2.0], density[0.0]) + shares[1] * np.outer(density[0.0], density[2.0])
    pair = (some + hidden * none, none) if is_removal else (none, some + hidden * none)
    return float(np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0.0).sum() * step * step)


@pytest.mark.parametrize(
    ("last", "shares", "hidden"),
    [("full", (0.5, 0.5), 0.0), ("short", (2 / 3, 1 / 3), 0.0), ("dropped", (1 / 3, 1 / 3), 1 / 3)],
)
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_opposite_records(last, shares, hidden, sigma):
    """All others at -1, among two or three records: the data behind the lower end."""
    run = ja.ShuffledBatches(ja.Gaussian(sigma), 2, 1, last)
    for epsilon in (0.0, 0.3, 1.0):
        found = ja.delta_interval(run, epsilon, **ONE)
        true = max(mixture_delta(sigma, shares, hidden, epsilon, is_removal=x) for x in (True, False))
        assert found.lower <= true * (1.0 + 1e-5) + 1e-6
        assert true * (1.0 - 1e-5) - 1e-6 <= found.upper
        assert found.lower >= (0.4 if last == "short" else 0.95) * true


def test_on_a_random_map():
    """Ends in order, never above known batches, and monotone in noise, steps and delta."""
    rng = np.random.default_rng(4)
    for _ in range(5):
        sigma, steps, delta = (
            math.exp(rng.uniform(-0.7, 2.0)),
            int(np.exp(rng.uniform(0.0, 6.5))),
            10.0 ** rng.uniform(-9, -3),
        )
        run = ja.ShuffledBatches(ja.Gaussian(sigma), steps)
        found = ja.epsilon_interval(run, delta, **ONE)
        assert 0.0 <= found.lower <= found.upper
        assert found.upper <= ja.epsilon(ja.Gaussian(0.5 * sigma), delta) * (1.0 + 1e-9)
        assert found.upper >= ja.epsilon_interval(run, delta).lower  # the other record may be the empty one
        less = (
            ja.epsilon(ja.ShuffledBatches(ja.Gaussian(1.2 * sigma), steps), delta, **ONE),
            ja.epsilon(ja.ShuffledBatches(ja.Gaussian(sigma), 2 * steps), delta, **ONE),
            ja.epsilon(run, 3.0 * delta, **ONE),
        )
        assert max(less) <= found.upper * (1.0 + 2e-3)


def test_limits():
    run = ja.ShuffledBatches(ja.Gaussian(1.0), 1)
    assert ja.epsilon(run, 1e-6, **ONE) == pytest.approx(ja.epsilon(ja.Gaussian(0.5), 1e-6), rel=1e-9)
    little = ja.ShuffledBatches(ja.Gaussian(0.2), 10)
    assert ja.epsilon(little, 1e-6, **ONE) == pytest.approx(ja.epsilon(ja.Gaussian(0.1), 1e-6), rel=1e-9)
    many = ja.ShuffledBatches(ja.Gaussian(1e4), 100)
    assert ja.delta(many, 0.0, **ONE) < 2e-5


def test_unfinished_and_left_out():
    """One batch done of many is a mixture of two Gaussians: both ends meet. More batches done lose more."""
    noise, found = ja.Gaussian(2.0), []
    for done in (1, 5, 20):
        ends = ja.epsilon_interval(ja.PartialShuffledBatches(noise, 20, done), 1e-5, **ONE)
        found.append(ends.upper)
        assert ends.lower <= ends.upper
        if done == 1:
            assert ends.upper <= 1.005 * ends.lower
    assert found == sorted(found)
    assert found[-1] == pytest.approx(ja.epsilon(ja.ShuffledBatches(noise, 20), 1e-5, **ONE), rel=1e-9)
    dropped, full = (ja.epsilon(ja.ShuffledBatches(noise, 20, 1, last), 1e-5, **ONE) for last in ("dropped", "full"))
    assert dropped < full


def test_compositions():
    noise = ja.Gaussian(5.0)
    one, three = ja.ShuffledBatches(noise, 50), ja.ShuffledBatches(noise, 50, 3)
    whole = ja.epsilon(three, 1e-6, **ONE)
    for run in (ja.ReplaceOne(ja.Composed(one, 3)), ja.Composed(ja.ReplaceOne(one), 3)):
        assert ja.epsilon(run, 1e-6) == pytest.approx(whole, rel=5e-3)
    assert whole < 0.8 * ja.epsilon(ja.Composed(ja.Gaussian(2.5), 3), 1e-6)
    begun = ja.Composed((ja.ShuffledBatches(noise, 50, 2), ja.PartialShuffledBatches(noise, 50, 10)), (1, 1))
    found = ja.epsilon_interval(begun, 1e-6, **ONE)
    assert ja.epsilon(ja.ShuffledBatches(noise, 50, 2), 1e-6, **ONE) < found.upper < whole
    assert 0.7 * found.upper <= found.lower <= found.upper
    loss = ja.pld(ja.ReplaceOne(one))
    assert loss.relation is REPLACED
    assert ja.compose(loss, 3).epsilon(1e-6) == pytest.approx(whole, rel=5e-3)


def test_sharper_than_two_steps():
    """The record removed, then the other one added."""
    run = ja.ShuffledBatches(ja.Gaussian(2.0), 1000)
    shares = [1e-6 * x for x in (0.2, 0.5, 0.8, 0.95)]
    two = []
    for share in shares:
        first = ja.epsilon(run, share, direction="remove")
        two.append(first + ja.epsilon(run, (1e-6 - share) * math.exp(-first), direction="add"))
    assert ja.epsilon(run, 1e-6, **ONE) < 0.9 * min(two)


@pytest.mark.parametrize("named", [{}, ONE])
def test_calibrated_and_swept(named):
    noise = ja.calibrate(ja.ShuffledBatches(ja.Gaussian(None), 100), "noise_multiplier", 0.5, 1e-6, **named)
    run = ja.ShuffledBatches(ja.Gaussian(noise), 100)
    assert 0.49 <= ja.epsilon(run, 1e-6, **named) <= 0.5
    swept = ja.sweep(run, {"noise_multiplier": [noise, 2.0 * noise]}, target_delta=1e-6, **named)
    assert swept.values[0] == pytest.approx(ja.epsilon(run, 1e-6, **named), rel=1e-9)
    assert swept.values[1] < swept.values[0]
