"""Unusual input: NumPy and JAX scalars, arrays where a tuple belongs, mechanisms without Gaussian noise."""

import json
import math
import pickle

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja

GAUSSIAN, LAPLACE = ja.Gaussian(1.0), ja.Laplace(1.0)
PAIR = ja.DiscretePair((0.75, 0.25), (0.25, 0.75))
POINT_MASS = ja.ContinuousPair(*[lambda loss: 0.5 + 0.0 * loss] * 4, lowest=-1.0, highest=1.0)
LOSS = ja.pld(PAIR)
QUICK = math.inf

BASES = {"Gaussian noise": GAUSSIAN, "Laplace noise": LAPLACE, "than p from q": PAIR}
BASES |= {"than P from Q": POINT_MASS, "privacy loss distribution bounds": LOSS}


# --- what a statement says of a mechanism ---


@pytest.mark.parametrize("words", BASES)
@pytest.mark.parametrize(
    "scheme",
    [
        lambda base: base,
        lambda base: ja.PoissonSampled(base, 0.1, num_steps=1),
        lambda base: ja.RandomAllocation(base, 100),
        lambda base: ja.PartialAllocation(base, 100, 10),
        lambda base: ja.Composed([base, base]),
    ],
    ids=["alone", "poisson", "allocation", "partial", "composed"],
)
def test_each_mechanism_has_its_own_assumption(scheme, words):
    mechanism = scheme(BASES[words])
    said = mechanism.assumptions()
    assert sum(words in line for line in said) == 1
    assert not any(other in line for other in BASES if other != words for line in said)
    assert "(" not in BASES[words].describe()  # no repr
    json.dumps(mechanism.parameters())


def test_parts_of_a_composition_are_described_one_by_one():
    said = ja.Composed([LAPLACE, GAUSSIAN]).assumptions()
    assert [name in line for name, line in zip(("Laplace", "Gaussian"), said, strict=True)] == [True, True]


@pytest.mark.parametrize("mechanism", [LAPLACE, PAIR, LOSS, ja.PoissonSampled(LOSS, 0.1, num_steps=1)], ids=str)
def test_reports_without_gaussian_noise(mechanism):
    text = ja.report(mechanism, 1e-6)
    assert "Gaussian" not in text
    assert json.loads(ja.report(mechanism, 1e-6, style="json"))["epsilon"] == ja.epsilon(mechanism, 1e-6)
    assert "delta = " in ja.report(mechanism, target_epsilon=0.5).splitlines()[0]


def test_a_report_of_functions_names_no_addresses():
    assert "0x" not in ja.report(POINT_MASS, 1e-6)


def test_a_randomizer_by_its_probabilities_is_reported():
    run = ja.Shuffled(ja.FiniteRandomizer([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]), 1000)
    facts = json.loads(ja.report(run, 1e-6, style="json", precision=QUICK))
    assert facts["mechanism"]["mechanism"]["probabilities"] == [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]


# --- numbers of NumPy and JAX ---


@pytest.mark.parametrize("style", ["text", "markdown", "json"])
@pytest.mark.parametrize(
    ("mechanism", "target", "same", "plain"),
    [
        (ja.RandomAllocation(GAUSSIAN, np.int64(100)), 1e-6, ja.RandomAllocation(GAUSSIAN, 100), 1e-6),
        (ja.Gaussian(np.float32(1.5)), 1e-6, ja.Gaussian(1.5), 1e-6),
        (GAUSSIAN, np.float32(0.5), GAUSSIAN, 0.5),
        (ja.Gaussian(jnp.float32(1.5)), jnp.float32(0.5), ja.Gaussian(1.5), 0.5),
        (ja.Composed(GAUSSIAN, jnp.int32(3)), np.array(0.5), ja.Composed(GAUSSIAN, 3), 0.5),
    ],
    ids=["int64", "float32", "target", "jax", "0-d"],
)
def test_scalars_of_any_kind_give_the_same_report(mechanism, target, same, plain, style):
    found = ja.report(mechanism, target, style=style, precision=np.float32(QUICK))
    assert found == ja.report(same, plain, style=style, precision=QUICK)


@pytest.mark.parametrize("precision", [0, 0.0, -1, math.nan, "1"])
def test_a_report_refuses_a_precision_that_is_none(precision):
    with pytest.raises(ValueError, match="precision="):
        ja.report(ja.RandomAllocation(GAUSSIAN, 100), 1e-6, precision=precision)


# --- results are values without equality ---


@pytest.mark.parametrize("ask", [ja.pld, lambda m: ja.rdp(m, [2.0, 3.0])], ids=["pld", "rdp"])
def test_curves_are_equal_to_themselves_only(ask):
    one, other = ask(GAUSSIAN), ask(GAUSSIAN)
    assert one == one
    assert one != other
    assert len({one, other}) == 2


def test_compositions_of_one_loss_distribution_are_equal():
    assert ja.Composed([LOSS]) == ja.Composed([LOSS])


def test_a_loss_distribution_is_shown_in_a_line():
    assert len(repr(LOSS)) < 200
    assert f"{LOSS.masses.size} numbers" in repr(LOSS)


# --- an array is a batch, not a tuple ---


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda a: ja.ScheduledAllocation(a), "noise_multipliers"),
        (lambda a: ja.ScheduledAllocation(a, (100, 300)), "noise_multipliers"),
        (lambda a: ja.ScheduledAllocation((2.0, 1.0), a), "num_steps"),
        (lambda a: ja.Composed([ja.Gaussian(1.0), ja.Gaussian(2.0)], a), "counts"),
    ],
)
@pytest.mark.parametrize("kind", [np.array, jnp.array])
def test_an_array_where_a_tuple_belongs(build, name, kind):
    with pytest.raises(ValueError, match=rf"{name}=.* must be a tuple"):
        build(kind([1, 2]))


def test_batches_of_one_part_stay():
    counts = np.array([10, 1])
    found = ja.epsilon(ja.Composed(ja.Gaussian(10.0), counts), 1e-6)
    alone = [ja.epsilon(ja.Composed(ja.Gaussian(10.0), int(n)), 1e-6) for n in counts]
    assert found.tolist() == pytest.approx(alone, rel=1e-12)
    noises = ja.ScheduledAllocation((np.array([2.0, 1.0]),), np.array([100, 300]))
    assert ja.epsilon(noises, 1e-6, precision=QUICK).shape == (2,)


OVERFLOWING = [
    ja.RandomAllocation(ja.Gaussian(0.05), 100),
    ja.RandomAllocation(ja.DiscretePair((1.0, 0.0), (1e-8, 1.0 - 1e-8)), 10**8),
    ja.RandomAllocation(ja.Laplace(0.05), 10**8),
    ja.RandomAllocation(ja.DiscretePair((1.0, 0.0), (0.7 / 3e6, 1.0 - 0.7 / 3e6)), 3 * 10**6),
    ja.RandomAllocation(ja.DiscretePair((1.0, 0.0), (0.7 / 3e6, 1.0 - 0.7 / 3e6)), 10**7),
]


@pytest.mark.sample(1)
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
@pytest.mark.parametrize("run", OVERFLOWING, ids=lambda run: f"{type(run.mechanism).__name__}-{run.num_steps}")
def test_ratios_near_the_end_of_the_doubles(run):
    """Points of a lattice without mass lie beyond e^709, a step at 10^8 terms too: an answer, and no warning."""
    found = ja.epsilon_interval(run, 1e-6)
    assert 0.0 <= found.lower <= found.upper == pytest.approx(ja.epsilon(run, 1e-6), rel=0.02)
    between = ja.delta_interval(run, 2.0)
    assert 0.0 < between.lower <= between.upper <= 1.0


def test_distribution_of_an_allocation_near_the_end_of_the_doubles():
    """(1 - q1)^t, what no step saw, exactly."""
    for run in OVERFLOWING[1:2] + OVERFLOWING[3:]:
        q2, t = run.mechanism.q[1], run.num_steps
        epsilon = max(0.0, math.log(t * run.mechanism.q[0])) + 1.0
        with mp.workdps(50):
            truth = mp.mpf(q2) ** t
            for bound, sign in ((ja.Bound.UPPER, 1), (ja.Bound.LOWER, -1)):
                found = ja.pld(run, direction=ja.Direction.ADD, bound=bound).delta(epsilon)
                assert sign * (found - truth) >= 0


def test_a_comparison_is_a_tuple_that_prints_as_a_table():
    found = ja.compare(ja.Gaussian(1.0), target_delta=1e-6)
    assert isinstance(found, tuple)
    assert found[0].method == "exact"
    assert repr(found).splitlines()[0].split()[:3] == ["method", "direction", "epsilon"]
    assert max(map(len, repr(found).splitlines())) <= 80
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
    assert "delta = " in str(ja.compare(ja.Gaussian(1.0), target_epsilon=1.0))
    assert type(ja.compare(ja.Gaussian(np.ones(2)), target_delta=1e-6)) is tuple


def test_a_list_of_targets_is_an_array():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100)
    assert ja.delta(run, [0.5, 1.0]).tolist() == ja.delta(run, np.array([0.5, 1.0])).tolist()
    assert ja.epsilon(run, (1e-5, 1e-6)).tolist() == ja.epsilon(run, np.array([1e-5, 1e-6])).tolist()


def test_a_statement_names_what_decided():
    reports = ja.Shuffled(ja.KaryRandomizedResponse(2.0, 16), 50_000)
    text = " ".join(ja.report(reports, 1e-6, false_positive_rates=()).split())
    assert "by BL-1: the privacy blanket, any two values" in text
    assert "which was analysed" not in text
    any_reports = ja.Shuffled(ja.LocalRandomizer(2.0), 50_000)
    assert "(the clones pair, which was analysed" in ja.report(any_reports, 1e-6, false_positive_rates=())
