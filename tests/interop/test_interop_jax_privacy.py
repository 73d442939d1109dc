"""jax_privacy's batch selection strategies: the mechanism that each becomes, and that its analysis covers them."""

import dataclasses
import enum
import functools
import itertools
import math
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import jaxacct as ja
from jaxacct import correlated, training
from jaxacct.interop import from_jax_privacy

ZERO_OUT = ja.NeighboringRelation.REPLACE_SPECIAL


def _stand_ins() -> types.SimpleNamespace:
    """Classes of the same names and fields, so that the mapping is tested where jax_privacy is not installed."""

    def make(name: str, *fields: Any) -> type:
        return dataclasses.make_dataclass(name, fields, frozen=True)

    def default(name: str, value: Any) -> tuple[str, type, Any]:
        return name, Any, dataclasses.field(default=value)

    kinds = enum.Enum("PartitionType", ["INDEPENDENT", "EQUAL_SPLIT"])
    truncation = default("truncated_batch_size", None)
    return types.SimpleNamespace(
        PartitionType=kinds,
        CyclicPoissonSampling=make(
            "CyclicPoissonSampling",
            "sampling_prob",
            "iterations",
            truncation,
            default("cycle_length", 1),
            default("partition_type", kinds.EQUAL_SPLIT),
        ),
        BallsInBinsSampling=make("BallsInBinsSampling", "iterations", "cycle_length"),
        BMinSepSampling=make(
            "BMinSepSampling", "sampling_prob", "iterations", "min_sep", default("warm_start", True), truncation
        ),
        FixedBatchSampling=make("FixedBatchSampling", "batch_size", "iterations", default("replace", False)),
        UserSelectionStrategy=make(
            "UserSelectionStrategy",
            "base_strategy",
            default("examples_per_user_per_batch", 1),
            default("shuffle_per_user", False),
        ),
    )


@pytest.fixture(params=["stand-ins", "jax_privacy"])
def strategies(request: pytest.FixtureRequest) -> Any:
    if request.param == "stand-ins":
        return _stand_ins()
    return pytest.importorskip("jax_privacy.batch_selection")


def test_stand_ins_are_like_the_classes() -> None:
    real = pytest.importorskip("jax_privacy.batch_selection")
    for name, stand_in in vars(_stand_ins()).items():
        found = getattr(real, name)
        if isinstance(found, enum.EnumMeta):
            assert {x.name for x in found} == {x.name for x in stand_in}
        else:
            shown = [(f.name, getattr(f.default, "name", f.default)) for f in dataclasses.fields(found)]
            assert shown == [(f.name, getattr(f.default, "name", f.default)) for f in dataclasses.fields(stand_in)]


# --- what becomes what ---


def test_poisson(strategies: Any) -> None:
    run = from_jax_privacy(strategies.CyclicPoissonSampling(sampling_prob=0.01, iterations=1000), 1.1)
    assert run == ja.PoissonSampled(ja.Gaussian(1.1), 0.01, 1000)
    whole = from_jax_privacy(strategies.CyclicPoissonSampling(sampling_prob=1.0, iterations=7), 1.1)
    assert whole == ja.Composed(ja.Gaussian(1.1), 7)


def test_cyclic_poisson_counts_the_steps_of_one_group(strategies: Any) -> None:
    independent = strategies.PartitionType.INDEPENDENT
    cyclic = strategies.CyclicPoissonSampling(0.2, iterations=101, cycle_length=10, partition_type=independent)
    group = ja.PoissonSampled(ja.Gaussian(2.0), 0.2, 11)
    for relation in (ja.NeighboringRelation.ADD_OR_REMOVE_ONE, ZERO_OUT):
        assert from_jax_privacy(cyclic, 2.0, neighboring_relation=relation) == ja.RandomAllocation(group, num_steps=10)
    equal = dataclasses.replace(cyclic, partition_type=strategies.PartitionType.EQUAL_SPLIT)
    assert from_jax_privacy(equal, 2.0, neighboring_relation=ZERO_OUT) == group


def test_equal_groups_move_with_the_number_of_records(strategies: Any) -> None:
    equal = strategies.CyclicPoissonSampling(0.2, iterations=101, cycle_length=10)
    with pytest.raises(ValueError, match="num_examples=None must be given for equal groups"):
        from_jax_privacy(equal, 2.0)
    for number in (1000, 1009):
        every = ja.PoissonSampled(ja.Gaussian(2.0), 0.2, 101)
        assert from_jax_privacy(equal, 2.0, num_examples=number) == ja.ReplaceOne(every)
    group = ja.PoissonSampled(ja.Gaussian(2.0), 0.2, 11)
    for number in (1001, 1008):
        assert from_jax_privacy(equal, 2.0, num_examples=number) == ja.ReplaceOne(group)


def test_a_dataset_shuffled_once_has_full_participation_only(strategies: Any) -> None:
    fixed_order = strategies.CyclicPoissonSampling(sampling_prob=1, iterations=40, cycle_length=10)
    run = ja.Composed(ja.Gaussian(3.0), 4)
    assert from_jax_privacy(fixed_order, 3.0, neighboring_relation=ZERO_OUT) == run
    assert from_jax_privacy(fixed_order, 3.0, num_examples=1001) == ja.ReplaceOne(run)


@pytest.mark.parametrize(("iterations", "cycles"), [(10, 1), (40, 4), (41, 5), (3, 1)])
def test_balls_in_bins_divides_the_noise_by_the_root_of_the_cycles(
    strategies: Any, iterations: int, cycles: int
) -> None:
    independent = strategies.PartitionType.INDEPENDENT
    for strategy in (
        strategies.BallsInBinsSampling(iterations=iterations, cycle_length=10),
        strategies.CyclicPoissonSampling(1.0, iterations, cycle_length=10, partition_type=independent),
        strategies.BMinSepSampling(1.0, iterations, min_sep=10),
    ):
        run = from_jax_privacy(strategy, 3.0)
        assert (run.num_steps, run.num_selected, run.num_epochs) == (10, 1, 1)
        assert run.mechanism.noise_multiplier == pytest.approx(3.0 / math.sqrt(cycles), rel=1e-14)
        assert run.mechanism.noise_multiplier <= 3.0 / math.sqrt(cycles)


def _hook(count: int, phase: Any) -> float:
    state = training.ReleaseCountState(np.array([count], np.int32))
    return training.privacy_spent(state, phase, 1e-6, precision=0.01)


def test_the_hook_reads_all_cycles_as_one_run(strategies: Any) -> None:
    run = from_jax_privacy(strategies.BallsInBinsSampling(iterations=400, cycle_length=100), 2.0)
    assert run.releases_per_epoch == len(training.batches(run, 1000, key=0)) == 400
    whole = ja.epsilon(run, 1e-6, precision=0.01)
    assert _hook(400, run) == _hook(301, run) == whole < 0.87
    assert _hook(400, ja.ZeroOut(run)) == pytest.approx(whole, rel=0.01)
    begun = [
        ja.epsilon(ja.RandomAllocation(ja.Gaussian(2.0 / math.sqrt(c)), 100), 1e-6, precision=0.01) for c in (1, 2, 3)
    ]
    assert [_hook(n, run) for n in (100, 200, 201)] == pytest.approx(begun, rel=1e-9)
    assert _hook(10, run) < begun[0]
    twice = ja.RandomAllocation(run.mechanism, 100, num_epochs=2)
    assert _hook(401, run) == _hook(800, run) == ja.epsilon(twice, 1e-6, precision=0.01)
    most = training.steps_affordable(run, whole, 1e-6, precision=0.01)
    assert most == 400


def test_what_stands_for_several_cycles_is_written_as_its_epoch(strategies: Any) -> None:
    run = from_jax_privacy(strategies.BallsInBinsSampling(iterations=400, cycle_length=100), 2.0)
    epoch = ja.RandomAllocation(run.mechanism, 100)
    assert (run.source(), run.parameters(), run.signature()) == (epoch.source(), epoch.parameters(), epoch.signature())
    assert ja.epsilon_interval(run, 1e-6) == ja.epsilon_interval(epoch, 1e-6)
    np.testing.assert_array_equal(ja.rdp(run, [2, 8]).values, ja.rdp(epoch, [2, 8]).values)
    assert ja.report(run, 1e-6) == ja.report(epoch, 1e-6)
    banded = correlated.BandedNoise([2.0], 4.0, num_steps=400)
    assert _hook(400, banded.balls_in_bins(100)) == pytest.approx(_hook(400, run), rel=1e-9)


def test_the_bins_of_the_batches_are_those_of_every_cycle(strategies: Any) -> None:
    run = from_jax_privacy(strategies.BallsInBinsSampling(iterations=12, cycle_length=4), 2.0)
    data = training.batches(run, 40, key=0)
    steps = [set(indices[mask].tolist()) for indices, mask in data]
    assert steps[:4] == steps[4:8] == steps[8:]
    assert sorted(record for step in steps[:4] for record in step) == list(range(40))


def test_the_hook_reads_a_whole_run_of_one_group_as_an_epoch(strategies: Any) -> None:
    """Equal groups: 110 releases, of which a record may join 11."""
    equal = strategies.CyclicPoissonSampling(0.2, iterations=110, cycle_length=10)
    run = from_jax_privacy(equal, 2.0, neighboring_relation=ZERO_OUT)
    assert _hook(110, training.Epoch(run, 110)) == ja.epsilon(run, 1e-6, precision=0.01)


def test_random_allocation_over_the_whole_run(strategies: Any) -> None:
    run = from_jax_privacy(strategies.BallsInBinsSampling(iterations=500, cycle_length=500), 0.8)
    assert run == ja.RandomAllocation(ja.Gaussian(0.8), num_steps=500)


def test_minimum_separation(strategies: Any) -> None:
    assert from_jax_privacy(strategies.BMinSepSampling(0.1, 50, min_sep=1), 1.0) == ja.PoissonSampled(
        ja.Gaussian(1.0), 0.1, 50
    )
    noise = ja.Gaussian(1.0)
    found = from_jax_privacy(strategies.BMinSepSampling(0.1, 50, min_sep=10), 1.0)
    assert (found.num_steps, found.num_selected, found.num_epochs) == (7, 1, 5)
    assert 0.7 <= found.mechanism.sampling_prob <= 0.7 * (1 + 1e-15)
    found = from_jax_privacy(strategies.BMinSepSampling(0.4, 50, min_sep=2), 1.0)
    assert found == ja.PoissonSampled(noise, 0.4, 50)
    found = from_jax_privacy(strategies.BMinSepSampling(0.9, 50, min_sep=4), 1.0)
    assert (found.mechanism, found.num_steps) == (noise, 13)
    assert 0.9999 <= found.sampling_prob <= 0.9999 * (1 + 1e-13)
    found = from_jax_privacy(strategies.BMinSepSampling(1.0, 50, min_sep=4, warm_start=False), 1.0)
    assert found == ja.PoissonSampled(noise, 1.0, 13)


def _whether_sampled(prob: float, steps: int, apart: int, runs: int, rng: Any, *, warm: bool) -> np.ndarray:
    """bool [runs, steps]: the steps of a record that joins none for `apart` - 1 steps after one."""
    back = np.full(runs, apart)  # how long ago the last one was
    if warm:
        share = (apart - 1) * prob / (1 + (apart - 1) * prob)
        back = np.where(rng.random(runs) < share, rng.integers(1, apart, runs), apart)
    joins = np.zeros((runs, steps), bool)
    for step in range(steps):
        joins[:, step] = (back >= apart) & (rng.random(runs) < prob)
        back = np.where(joins[:, step], 1, back + 1)
    return joins


def _log_ratio(log_y: np.ndarray, prob: float, apart: int, *, warm: bool) -> np.ndarray:
    """log of the mean, over what a record joins, of the product of the ratios: forward over the time since the last."""
    runs, steps = log_y.shape
    waits = np.zeros((runs, apart))  # by the steps left until the record may join again
    waits[:, 0] = 1.0
    if warm:
        share = prob / (1 + (apart - 1) * prob)
        waits[:, 1:] = share
        waits[:, 0] = 1.0 - (apart - 1) * share
    for step in range(steps):
        joined = waits[:, 0] * prob * np.exp(log_y[:, step])
        free = waits[:, 0] * (1 - prob)
        waits = np.concatenate([waits[:, 1:], joined[:, None]], axis=1)  # one step less for those who wait
        waits[:, 0] += free
    return np.log(waits.sum(axis=1))


@functools.cache
def _delta(run: Any, epsilon: float, direction: ja.Direction) -> float:
    return ja.delta(run, epsilon, direction=direction)


@pytest.mark.sample(4)
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize(
    ("prob", "apart", "noise", "kind"),
    [(0.1, 10, 1.0, ja.RandomAllocation), (0.4, 2, 1.5, ja.PoissonSampled), (0.9, 3, 2.0, ja.PoissonSampled)],
)
def test_minimum_separation_against_simulation(
    prob: float, apart: int, noise: float, kind: type, direction: ja.Direction, warm: bool
) -> None:
    steps, runs = 20, 200_000
    rng = np.random.default_rng(11)
    joins = _whether_sampled(prob, steps, apart, runs, rng, warm=warm)
    there = joins if direction is ja.Direction.REMOVE else np.zeros_like(joins)
    log_y = (noise * rng.standard_normal((runs, steps)) + there - 0.5) / noise**2
    losses = _log_ratio(log_y, prob, apart, warm=warm) * (1 if direction is ja.Direction.REMOVE else -1)
    run = from_jax_privacy(_stand_ins().BMinSepSampling(prob, steps, apart, warm_start=warm), noise)
    assert type(run) is kind
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        terms = np.maximum(-np.expm1(epsilon - losses), 0.0)
        assert _delta(run, epsilon, direction) >= terms.mean() - 4.5 * terms.std() / math.sqrt(runs)
    known = ja.epsilon(ja.Composed(ja.Gaussian(noise), -(-steps // apart)), 1e-5)
    assert ja.epsilon(run, 1e-5) <= known


def test_fixed_batches_are_poisson_with_twice_the_sensitivity(strategies: Any) -> None:
    run = from_jax_privacy(strategies.FixedBatchSampling(batch_size=20, iterations=30), 2.0, num_examples=1000)
    assert (run.mechanism, run.num_steps) == (ja.Gaussian(1.0), 30)
    assert 0.02 <= run.sampling_prob <= 0.02 * (1 + 1e-15)


def test_fixed_and_truncated_batches_in_their_adjacency(strategies: Any) -> None:
    options: Any = {"num_examples": 1000, "neighboring_relation": ZERO_OUT}
    run = from_jax_privacy(strategies.FixedBatchSampling(batch_size=20, iterations=30), 2.0, **options)
    assert run == ja.ZeroOut(ja.FixedBatches(ja.Gaussian(2.0), 1000, 20, 30))
    run = from_jax_privacy(strategies.FixedBatchSampling(20, 30, replace=True), 2.0, num_examples=1000)
    assert run == ja.FixedBatches(ja.Gaussian(2.0), 1000, 20, 30, with_replacement=True)
    cut = strategies.CyclicPoissonSampling(0.1, 10, truncated_batch_size=150)
    assert from_jax_privacy(cut, 2.0, num_examples=1000) == ja.TruncatedPoisson(ja.Gaussian(2.0), 0.1, 1000, 150, 10)


def test_users_are_sampled_as_records(strategies: Any) -> None:
    base = strategies.CyclicPoissonSampling(sampling_prob=0.05, iterations=100)
    users = strategies.UserSelectionStrategy(base, examples_per_user_per_batch=4)
    assert from_jax_privacy(users, 1.5) == from_jax_privacy(base, 1.5)


# --- what has no analysis ---


@pytest.mark.parametrize(
    ("make", "options", "reason"),
    [
        (lambda s: s.CyclicPoissonSampling(0.1, 10, truncated_batch_size=5), {}, "num_examples=None"),
        (lambda s: s.BMinSepSampling(0.1, 10, 2, truncated_batch_size=5), {}, "truncation"),
        (lambda s: s.BMinSepSampling(1.5, 10, 2), {}, "sampling_prob"),
        (lambda s: s.FixedBatchSampling(5, 10), {}, "num_examples=None"),
        (lambda s: s.FixedBatchSampling(5, 10), {"num_examples": 5}, "must be < num_examples"),
        (lambda s: s.BallsInBinsSampling(0, 10), {}, "iterations=0"),
        (lambda s: s.CyclicPoissonSampling(1.5, 10), {}, "sampling_prob=1.5"),
        (
            lambda s: s.CyclicPoissonSampling(0.1, 10),
            {"neighboring_relation": ja.NeighboringRelation.REPLACE_ONE},
            "ADD_OR_REMOVE_ONE or REPLACE_SPECIAL",
        ),
        (lambda s: s.UserSelectionStrategy(s.BMinSepSampling(0.1, 10, 2, truncated_batch_size=5)), {}, "truncation"),
        (lambda s: object(), {}, "object is none of"),
    ],
)
def test_refused_with_the_reason(strategies: Any, make: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_jax_privacy(make(strategies), 1.0, **options)


def test_unknown_fields_and_subclasses_are_refused(strategies: Any) -> None:
    subclass = type("Sorted", (strategies.BallsInBinsSampling,), {})
    with pytest.raises(ValueError, match="Sorted is none of"):
        from_jax_privacy(subclass(10, 5), 1.0)
    newer = dataclasses.make_dataclass("BallsInBinsSampling", ["iterations", "cycle_length", "with_replacement"])
    with pytest.raises(ValueError, match="with_replacement"):
        from_jax_privacy(newer(10, 5, True), 1.0)
    noise = correlated.BandedNoise((1.0, 0.5), 4.0, num_steps=10)
    for strategy, reason in [
        (subclass(10, 5), "Sorted is none of"),
        (newer(10, 5, True), "with_replacement"),
        (strategies.UserSelectionStrategy(strategies.BallsInBinsSampling(10, 5)), "has no analysis here"),
        (object(), "object is none of"),
    ]:
        with pytest.raises(ValueError, match=reason):
            from_jax_privacy(strategy, noise)


@pytest.mark.parametrize("noise_multiplier", [0.0, -1.0, math.inf])
def test_noise_is_checked(strategies: Any, noise_multiplier: float) -> None:
    with pytest.raises(ValueError, match="noise_multiplier"):
        from_jax_privacy(strategies.BallsInBinsSampling(10, 5), noise_multiplier)


# --- that the analysis is the right one ---


def _participation(strategy: Any, seed: int) -> np.ndarray:
    """Which batches hold the first of 8 records."""
    return np.array([0 in batch for batch in strategy.batch_iterator(8, rng=seed)])


def test_the_bin_is_drawn_once_for_all_cycles() -> None:
    real = pytest.importorskip("jax_privacy.batch_selection")
    for strategy in (
        real.BallsInBinsSampling(iterations=12, cycle_length=4),
        real.CyclicPoissonSampling(1.0, 12, cycle_length=4, partition_type=real.PartitionType.INDEPENDENT),
        real.BMinSepSampling(1.0, 12, min_sep=4),
    ):
        seen = np.array([_participation(strategy, seed).reshape(3, 4) for seed in range(400)])
        assert np.all(seen == seen[:, :1])
        assert np.all(seen.sum(axis=2) == 1)
        assert stats.chisquare(seen[:, 0].sum(axis=0)).pvalue > 1e-4


@pytest.mark.parametrize("is_adaptive", [False, True])
@pytest.mark.parametrize("direction", ja.Direction)
def test_balls_in_bins_against_simulated_training(direction: ja.Direction, is_adaptive: bool) -> None:
    """Whole runs in two dimensions, the record's direction fixed or turned by all that was released before."""
    bins, cycles, noise, runs = 5, 3, 2.0, 200_000
    strategy = _stand_ins().BallsInBinsSampling(iterations=bins * cycles, cycle_length=bins)
    rng = np.random.default_rng(7)
    own_bin = rng.integers(bins, size=runs) if direction is ja.Direction.REMOVE else np.full(runs, -1)
    log_ratios = np.zeros((bins, runs))
    angle = np.zeros(runs)
    for step in range(bins * cycles):
        release = noise * rng.standard_normal((2, runs))
        towards = np.stack([np.cos(angle), np.sin(angle)])
        release += towards * (own_bin == step % bins)
        log_ratios[step % bins] += ((towards * release).sum(axis=0) - 0.5) / noise**2
        if is_adaptive:
            angle += release[0] - 2.0 * release[1]
    losses = np.log(np.exp(log_ratios).mean(axis=0))
    losses = losses if direction is ja.Direction.REMOVE else -losses
    run = from_jax_privacy(strategy, noise)
    for epsilon in (0.2, 0.6, 1.0):
        terms = np.maximum(-np.expm1(epsilon - losses), 0.0)
        exact = ja.delta(run, epsilon, direction=direction, precision=1e-3)
        assert abs(terms.mean() - exact) < 4.5 * terms.std() / math.sqrt(runs) + 1e-3 * exact


def _step_of(run: ja.PoissonSampled, x: np.ndarray) -> dict[ja.Direction, tuple[np.ndarray, np.ndarray]]:
    """The pair that dominates one step, as densities."""
    noise, sampling_prob = run.mechanism.noise_multiplier, run.sampling_prob
    without = stats.norm.pdf(x, 0.0, noise)
    sampled = (1 - sampling_prob) * without + sampling_prob * stats.norm.pdf(x, 1.0, noise)
    return {ja.Direction.REMOVE: (sampled, without), ja.Direction.ADD: (without, sampled)}


def _divergence(p: np.ndarray, q: np.ndarray, epsilon: float, cell: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * cell)


@pytest.mark.parametrize("others", [[-1.0] * 5, [-1.0, -1.0, 1.0, 0.3, -0.2], [1.0] * 5])
def test_fixed_batches_are_covered(others: list[float]) -> None:
    """All batches of 2 of 6 numbers within [-1, 1], by numerical integration; the record is 1."""
    noise, size = 1.3, 2
    x = np.linspace(-16.0, 16.0, 20001)

    def law(numbers: list[float]) -> np.ndarray:
        sums = [a + b for i, a in enumerate(numbers) for b in numbers[i + 1 :]]
        return np.mean([stats.norm.pdf(x, s, noise) for s in sums], axis=0)

    strategy = _stand_ins().FixedBatchSampling(batch_size=size, iterations=1)
    run = from_jax_privacy(strategy, noise, num_examples=len(others) + 1)
    assert run.num_steps == 1
    pair = {ja.Direction.REMOVE: (law([*others, 1.0]), law(others))}
    pair[ja.Direction.ADD] = pair[ja.Direction.REMOVE][::-1]
    for direction in ja.Direction:
        for epsilon in np.linspace(-1.5, 1.5, 31):
            found = _divergence(*pair[direction], epsilon, x[1] - x[0])
            bound = _divergence(*_step_of(run, x)[direction], epsilon, x[1] - x[0])
            assert found <= bound + 1e-6  # the grid's error at the kink
            if set(others) == {-1.0}:  # the record replaces its opposite: nothing is lost
                assert found == pytest.approx(bound, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("length", "others"), [(3, [-1.0, -1.0, -1.0, -1.0]), (3, [-1.0, 1.0, 0.2, -0.5]), (2, [-1.0] * 3)]
)
def test_equal_groups_are_covered(length: int, others: list[float]) -> None:
    """The first two steps of a cycle, each of a group of its own: every split, on a plane; the record is 1."""
    prob, noise = 0.6, 1.2
    x = np.linspace(-11.0, 11.0, 301)

    def step(group: tuple[float, ...]) -> np.ndarray:
        found = np.zeros_like(x)
        for heads in itertools.product((0, 1), repeat=len(group)):
            mass = math.prod(prob if h else 1 - prob for h in heads)
            found += mass * stats.norm.pdf(x, sum(h * v for h, v in zip(heads, group, strict=True)), noise)
        return found

    def law(numbers: list[float]) -> np.ndarray:
        size = len(numbers) // length
        splits = list(itertools.permutations(numbers))
        return sum(
            np.outer(step(one[:size]), step(one[-(-len(numbers) // length) :][:size])) / len(splits) for one in splits
        )

    strategy = _stand_ins().CyclicPoissonSampling(prob, iterations=2, cycle_length=length)
    fewer, more = law(others), law([*others, 1.0])
    for number in (len(others), len(others) + 1):
        run = from_jax_privacy(strategy, noise, num_examples=number)
        for epsilon in (0.0, 0.3, 0.8, 1.5):
            found = max(_divergence(p, q, epsilon, (x[1] - x[0]) ** 2) for p, q in ((fewer, more), (more, fewer)))
            assert found <= ja.delta(run, epsilon) + 1e-6  # the grid's error at the kink
            assert found > 1e-3 or epsilon > 0.0


def test_a_secret_group_is_allocation_to_one_of_them() -> None:
    """Two groups, one step each, Poisson sampling within the group: the pair itself, on a plane."""
    sampling_prob, noise = 0.4, 1.0
    s = _stand_ins()
    strategy = s.CyclicPoissonSampling(
        sampling_prob, iterations=2, cycle_length=2, partition_type=s.PartitionType.INDEPENDENT
    )
    run = from_jax_privacy(strategy, noise)
    x = np.linspace(-9.0, 10.0, 1201)
    sampled, without = _step_of(run.mechanism, x)[ja.Direction.REMOVE]
    q = np.outer(without, without)
    p = 0.5 * (np.outer(sampled, without) + np.outer(without, sampled))
    for direction, pair in ((ja.Direction.REMOVE, (p, q)), (ja.Direction.ADD, (q, p))):
        for epsilon in (0.0, 0.1, 0.4):
            found = ja.delta_interval(run, epsilon, precision=1e-3)
            delta = ja.delta(run, epsilon, direction=direction, precision=1e-3)
            truth = _divergence(*pair, epsilon, (x[1] - x[0]) ** 2)
            assert truth - 1e-6 <= delta <= truth + 1e-3 * truth + 1e-6  # the grid's error at the kink
            assert 0 < found.lower <= found.upper
    assert ja.epsilon(run, 1e-3) < ja.epsilon(run.mechanism, 1e-3)


@pytest.mark.parametrize("direction", ja.Direction)
def test_steps_of_a_secret_group_against_simulation(direction: ja.Direction) -> None:
    groups, steps, prob, noise, runs = 3, 4, 0.3, 1.5, 400_000
    rng = np.random.default_rng(3)
    own = rng.integers(groups, size=runs)
    joins = rng.random((steps, runs)) < prob
    ratios = np.ones((groups, runs))
    for group in range(groups):
        for step in range(steps):
            there = (direction is ja.Direction.REMOVE) & joins[step] & (own == group)
            z = (noise * rng.standard_normal(runs) + there - 0.5) / noise**2
            ratios[group] *= 1 - prob + prob * np.exp(z)
    losses = np.log(ratios.mean(axis=0)) * (1 if direction is ja.Direction.REMOVE else -1)
    run = ja.RandomAllocation(ja.PoissonSampled(ja.Gaussian(noise), prob, steps), num_steps=groups)
    for epsilon in (0.05, 0.2, 0.4):
        terms = np.maximum(-np.expm1(epsilon - losses), 0.0)
        delta = ja.delta(run, epsilon, direction=direction)
        spread = 4.5 * terms.std() / math.sqrt(runs)
        assert terms.mean() - spread <= delta <= terms.mean() + spread + 3e-3 * delta
    with pytest.raises(ValueError, match="from above only"):
        ja.pld(run, bound=ja.Bound.LOWER)


@pytest.mark.parametrize(
    ("selected", "iterations", "length", "num_steps"), [(3, 20, None, 20), (2, 20, 3, 6), (7, 20, 3, 7), (5, 20, 4, 5)]
)
def test_random_allocation_in_groups(selected: int, iterations: int, length: int | None, num_steps: int) -> None:
    fields = ["total_participations", "iterations", *([] if length is None else ["cycle_length"])]
    strategy = dataclasses.make_dataclass("RandomAllocationSampling", fields)(
        selected, iterations, *([] if length is None else [length])
    )
    expected = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=num_steps, num_selected=selected)
    assert from_jax_privacy(strategy, 2.0) == expected


# --- with their own accounting ---


def test_certified_behind_their_training_accountant() -> None:
    accounting = pytest.importorskip("jax_privacy.accounting")
    interop = pytest.importorskip("jaxacct.interop")
    from jax_privacy.accounting import accountants, analysis

    class Certified(accountants.DpAccountantConfig):
        def create_accountant(self) -> Any:
            return interop.CertifiedAccountant()

    params = analysis.DpParams(noise_multipliers=1.0, num_samples=1000, delta=1e-5, batch_size=20)
    ours = accounting.DpsgdTrainingAccountant(Certified()).compute_epsilon(100, params)
    theirs = accounting.DpsgdTrainingAccountant(accountants.PldAccountantConfig(value_discretization_interval=1e-3))
    run = ja.Composed(ja.PoissonSampled(ja.Gaussian(1.0), 0.02, num_steps=1), 100)
    assert ours == ja.epsilon(run, 1e-5)
    assert ours == pytest.approx(theirs.compute_epsilon(100, params), rel=0.02)


def test_an_execution_plan_is_read_by_its_event_and_its_strategy() -> None:
    plans = pytest.importorskip("jax_privacy.experimental.execution_plan")
    real = pytest.importorskip("jax_privacy.batch_selection")
    from jaxacct.interop import from_dp_event

    plan = plans.BandMFExecutionPlanConfig(
        iterations=50,
        strategy=np.ones(1),
        epsilon=None,
        delta=None,
        noise_multiplier=1.2,
        sampling_prob=0.1,
        partition_type=real.PartitionType.INDEPENDENT,
    ).plan
    expected = ja.PoissonSampled(ja.Gaussian(1.2), 0.1, 50)
    assert from_dp_event(plan.dp_event) == expected
    assert from_jax_privacy(plan.batch_selection_strategy, 1.2) == expected


def _fourteen(s: Any) -> list[tuple[str, Any]]:
    """Every strategy, with each setting of its options that changes what it is."""
    independent = {"cycle_length": 10, "partition_type": s.PartitionType.INDEPENDENT}
    equal = {"cycle_length": 10, "partition_type": s.PartitionType.EQUAL_SPLIT}
    plain = s.CyclicPoissonSampling(sampling_prob=0.1, iterations=100)
    return [
        ("CyclicPoissonSampling", plain),
        ("CyclicPoissonSampling, independent groups", s.CyclicPoissonSampling(0.1, 100, **independent)),
        ("CyclicPoissonSampling, equal groups", s.CyclicPoissonSampling(0.1, 100, **equal)),
        ("CyclicPoissonSampling, truncated", s.CyclicPoissonSampling(0.1, 100, truncated_batch_size=50)),
        ("CyclicPoissonSampling, independent groups, all of them", s.CyclicPoissonSampling(1.0, 100, **independent)),
        ("CyclicPoissonSampling, equal groups, all of them", s.CyclicPoissonSampling(1.0, 100, **equal)),
        ("BallsInBinsSampling", s.BallsInBinsSampling(iterations=100, cycle_length=10)),
        ("BallsInBinsSampling, one cycle", s.BallsInBinsSampling(iterations=100, cycle_length=100)),
        ("BMinSepSampling, min_sep=1", s.BMinSepSampling(0.1, 100, min_sep=1)),
        ("BMinSepSampling", s.BMinSepSampling(0.1, 100, min_sep=10)),
        ("BMinSepSampling, sampling_prob=1", s.BMinSepSampling(1.0, 100, min_sep=10)),
        ("FixedBatchSampling", s.FixedBatchSampling(batch_size=10, iterations=100)),
        ("FixedBatchSampling, with replacement", s.FixedBatchSampling(batch_size=10, iterations=100, replace=True)),
        ("UserSelectionStrategy", s.UserSelectionStrategy(plain)),
    ]


def _is_answered(strategy: Any, relation: Any) -> bool:
    try:
        from_jax_privacy(strategy, 1.0, num_examples=1000, neighboring_relation=relation)
    except ValueError:
        return False
    return True


def test_the_page_counts_the_strategies_that_are_answered(strategies: Any) -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "interop.md").read_text().split())
    counted = re.search(r"(\d+) of 14 in add-or-remove adjacency and (\d+) of 14 where", page)
    assert counted is not None
    for number, relation in zip(counted.groups(), (ja.NeighboringRelation.ADD_OR_REMOVE_ONE, ZERO_OUT), strict=True):
        assert sum(_is_answered(strategy, relation) for _, strategy in _fourteen(strategies)) == int(number)


def _owners(user_maxpart: int) -> Any:
    """As of jax_privacy 2.2, which tells by properties what its batches turned out to be."""
    kind = type("MultiOwnerMinSepSampling", (), {"user_maxpart": user_maxpart, "example_maxpart": 1})
    return kind()


def test_batches_of_a_public_graph_of_owners_are_known_ones() -> None:
    run = from_jax_privacy(_owners(5), 4.0, neighboring_relation=ZERO_OUT)
    assert run == ja.ZeroOut(ja.Composed(ja.Gaussian(4.0), 5))
    found, whole = ja.epsilon_interval(run, 1e-6), ja.epsilon(ja.Gaussian(4.0 / math.sqrt(5.0)), 1e-6)
    assert found.lower <= whole * (1 + 1e-9)
    assert found.upper == pytest.approx(whole, rel=1e-6)
    with pytest.raises(ValueError, match="REPLACE_SPECIAL"):
        from_jax_privacy(_owners(5), 4.0)
    with pytest.raises(ValueError, match="user_maxpart"):
        from_jax_privacy(_owners(0), 4.0, neighboring_relation=ZERO_OUT)
    noise = correlated.BandedNoise((1.0, 0.5), 4.0, num_steps=10)
    with pytest.raises(ValueError, match="min_separation"):
        from_jax_privacy(_owners(5), noise, neighboring_relation=ZERO_OUT)
