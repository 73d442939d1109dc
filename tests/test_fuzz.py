"""Any input whatever: a number, or a ValueError that names the argument. No NaN, no other crash, no stray warning."""

import contextlib
import io
import math
import re

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import jaxacct as ja
from jaxacct import Direction
from jaxacct.cli import main

INF = math.inf

pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning", "ignore::jaxacct.PrecisionWarning")


def fuzz(fn, *strategies, quick, deep):
    """`fn` as a test of a few examples, and as a slow one of many."""

    def test_of(max_examples):
        settings = hypothesis.settings(max_examples=max_examples, deadline=None, derandomize=True, database=None)
        return settings(hypothesis.given(*strategies)(fn))

    return test_of(quick), pytest.mark.slow(test_of(deep))


FLOATS = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
ODD = st.sampled_from([None, "1", True, 1j, [], {}, np.nan, -0.0, 2**60, 5e-324, 1.7976931348623157e308])
ANYTHING = st.one_of(FLOATS, FLOATS, FLOATS, st.integers(), ODD)
POSITIVE = st.floats(min_value=1e-300, max_value=1e300)
COUNTS = st.one_of(st.integers(1, 100), st.integers(1, 2**53))
DELTAS = st.floats(min_value=0.0, max_value=1.0, exclude_min=True, exclude_max=True)
PROBABILITIES = st.floats(0.0, 1.0)


def fair(value, *, most=INF):
    """Whether an answer is a number of the right range."""
    return isinstance(value, float) and 0.0 <= value <= most


BUILDERS = {
    "noise_multiplier": lambda v: (ja.Gaussian(v), ja.Laplace(v), ja.GaussianReports(v)),
    "sampling_prob": lambda v: ja.PoissonSampled(ja.Gaussian(1.0), v, num_steps=1),
    "num_steps": lambda v: (ja.RandomAllocation(ja.Gaussian(1.0), v), ja.PoissonSampled(ja.Gaussian(1.0), 0.1, v)),
    "num_selected": lambda v: ja.RandomAllocation(ja.Gaussian(1.0), 10, v),
    "num_epochs": lambda v: ja.Shuffled(ja.LocalRandomizer(1.0), 10, v),
    "steps_done": lambda v: ja.PartialAllocation(ja.Gaussian(1.0), 10, v),
    "noise_multipliers": lambda v: ja.ScheduledAllocation((1.0, v)),
    "counts": lambda v: ja.Composed(ja.Gaussian(1.0), (v,)),
    "local_epsilon": lambda v: (ja.LocalRandomizer(v), ja.KaryRandomizedResponse(v)),
    "local_delta": lambda v: ja.LocalRandomizer(1.0, v),
    "num_categories": lambda v: ja.KaryRandomizedResponse(1.0, v),
    "num_reports": lambda v: ja.Shuffled(ja.LocalRandomizer(1.0), v),
    "num_users": lambda v: ja.CheckIn(ja.LocalRandomizer(1.0), v, 0.5),
    "check_in_prob": lambda v: ja.CheckIn(ja.LocalRandomizer(1.0), 10, v),
    "dropout_prob": lambda v: ja.CheckIn(ja.LocalRandomizer(1.0), 10, 0.5, dropout_prob=v),
    "precision": lambda v: ja.epsilon_interval(ja.Composed(ja.Gaussian(1.0), 2), 1e-6, precision=v),
    "target_delta": lambda v: ja.epsilon(ja.Gaussian(1.0), v),
    "target_epsilon": lambda v: ja.delta(ja.Gaussian(1.0), v),
    "false_positive_rate": lambda v: ja.tradeoff(ja.Gaussian(1.0), v),
    "orders": lambda v: ja.rdp(ja.Gaussian(1.0), v),
}


def constructors(name, value):
    """Out of range, or no number at all: the message names the field."""
    try:
        BUILDERS[name](value)
    except ValueError as refused:
        message = str(refused)
    else:
        return
    assert name in message, (name, value, message)


def gaussians(sigma, delta, epsilon):
    mechanism = ja.Gaussian(sigma)
    assert fair(ja.epsilon(mechanism, delta))
    assert fair(ja.delta(mechanism, epsilon), most=1.0)
    assert fair(ja.tradeoff(mechanism, delta), most=1.0)
    answer = ja.epsilon(mechanism, delta)
    if delta > 1e-280 and answer < 1e8:  # the answer asked back: on the other side of the rounding of both
        assert ja.delta(mechanism, answer) <= delta * (1.0 + 1e-9 * (1.0 + answer))


def renyi(sigma, orders, count, delta):
    curve = ja.compose(ja.rdp(ja.Gaussian(sigma), orders), count)
    assert not np.isnan(curve.values).any()
    assert np.all(curve.values >= 0.0)
    assert fair(ja.epsilon(curve, delta))
    assert fair(ja.delta(curve, 1.0), most=1.0)


def loss_distributions(scale, epsilon, delta, direction, count):
    p = 1.0 / (1.0 + math.exp(-min(scale, 5.0)))
    loss = ja.compose(ja.pld(ja.DiscretePair([p, 1 - p], [1 - p, p]), direction=direction), count)
    assert fair(loss.delta(epsilon), most=1.0)
    answer = loss.epsilon(delta)
    assert fair(answer)
    assert math.isinf(answer) or loss.delta(answer) <= delta * (1.0 + 1e-12)


WORDS = st.one_of(FLOATS.map(repr), st.integers().map(str), st.sampled_from(["", "x", "1e", "inf", "nan", "--json"]))


def commands(question, scheme, noise, target):
    """A status of 0 and text, or of 2 and one line; never a traceback."""
    # the only scheme whose answers take no compilation to speak of; the others only to be refused
    words = [question, scheme, "--noise-multiplier", noise, "--epsilon" if question == "delta" else "--delta", target]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([*words, "--precision", "inf"])
        except SystemExit as stop:
            status = stop.code
    assert status in (0, 2), words
    assert "nan" not in out.getvalue()
    if status == 2:
        assert len(err.getvalue().splitlines()) == 1, err.getvalue()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("epsilon gaussian --noise-multiplier 1e400 --delta 1e-6", "--noise-multiplier=inf must be > 0"),
        ("epsilon gaussian --noise-multiplier x --delta 1e-6", "argument --noise-multiplier"),
        ("epsilon gaussian --noise-multiplier 1 --num-steps 99999999999999999999 --delta 1e-6", "--num-steps=1e[+]20"),
        ("epsilon allocation --noise-multiplier 1 --num-steps 1.5 --delta 1e-6", "--num-steps=1.5 must"),
        ("epsilon gaussian --noise-multiplier 1 --delta 1e-6 --precision nan", "precision=nan must be"),
        ("compare gaussian --noise-multiplier 1 --epsilon -1", "--epsilon=-1 must be >= 0"),
        ("calibrate gaussian --epsilon nan --delta 1e-6", "--epsilon=nan must be >= 0"),
        ("sweep gaussian --noise-multiplier 1:2:-3 --delta 1e-6", "--noise-multiplier.*: .* count"),
        ("sweep gaussian --noise-multiplier 1:2:99999999999999 --delta 1e-6", "--noise-multiplier.*: .* count"),
        ("sweep gaussian --noise-multiplier 0:2:3:log --delta 1e-6", "argument --noise-multiplier"),
    ],
)
def test_commands_are_refused_in_one_line(words, named, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert len(said.splitlines()) == 1
    assert re.search(named, said)


test_constructors, test_constructors_deep = fuzz(
    constructors, st.sampled_from(sorted(BUILDERS)), ANYTHING, quick=60, deep=5000
)
test_gaussians, test_gaussians_deep = fuzz(gaussians, POSITIVE, DELTAS, st.floats(0.0, 1e300), quick=60, deep=2000)
test_renyi, test_renyi_deep = fuzz(
    renyi,
    POSITIVE,
    st.lists(st.floats(1.0, 1e300, exclude_min=True), min_size=1, max_size=1),
    COUNTS,
    DELTAS,
    quick=12,
    deep=200,
)
test_loss_distributions, test_loss_distributions_deep = fuzz(
    loss_distributions,
    st.floats(1e-3, 1e3),
    st.floats(0.0, 50.0),
    DELTAS,
    st.sampled_from(list(Direction)),
    st.integers(1, 50),
    quick=15,
    deep=300,
)
test_commands, test_commands_deep = fuzz(
    commands,
    st.sampled_from(["epsilon", "delta", "compare", "what"]),
    st.sampled_from(["gaussian", "allocation", "poisson", "shuffle"]),
    WORDS,
    WORDS,
    quick=40,
    deep=1000,
)


# Found by fuzzing: each once crashed, took all memory, or said nonsense

NOISE = ja.Gaussian(1.0)
RUN = ja.RandomAllocation(NOISE, 3)
PAIR = ja.DiscretePair([0.6, 0.4], [0.4, 0.6])
HALF = [0.5, 0.5]


def curve():
    return ja.rdp(NOISE, [2.0, 3.0])


def flat(losses):
    return 0.5 + 0.0 * losses


def variance(mechanism=RUN, success_prob=0.5, **rest):
    return ja.mean_estimation_variance(mechanism, num_records=1, success_prob=success_prob, **rest)


def estimate(mechanism=RUN, **rest):
    return ja.estimate_delta(mechanism, 1.0, **{"num_samples": 5, "seed": 1, **rest})


REFUSED = {
    "counts=array": lambda: ja.compose(ja.pld(NOISE), np.array([1, 2])),
    "counts=None": lambda: ja.compose(curve(), None),
    "curves must be": lambda: ja.compose([ja.pld(NOISE), curve()]),
    "curves must be .* not int": lambda: ja.compose(5),
    "plds must be": lambda: ja.mixture([ja.pld(NOISE), curve()], HALF),
    "plds must be .* not int": lambda: ja.mixture(5, [1.0]),
    "weights=.nan. must be": lambda: ja.mixture([ja.pld(NOISE)], [math.nan]),
    "weights='a' must be": lambda: ja.mixture([ja.pld(NOISE)], "a"),
    "mechanism=Gaussian.* must be RandomAllocation": lambda: variance(NOISE),
    "mechanism=None has no analysis here": lambda: variance(None),
    "sampling_prob=0.0 must be > 0": lambda: variance(ja.PoissonSampled(NOISE, 0.0, num_steps=1)),
    "success_prob='a' must be": lambda: variance(success_prob="a"),
    "dimension=None must be": lambda: variance(dimension=None),
    "confidence='a' must be": lambda: estimate(confidence="a"),
    "num_samples=.5, 6. must be": lambda: estimate(num_samples=[5, 6]),
    "num_steps=.*3, 4.* must be": lambda: estimate(ja.RandomAllocation(NOISE, [3, 4])),
    "num_steps=None must be": lambda: ja.allocation_rdp([0.0, 0.0, 1.0], None),
    "log_moments='a' must be": lambda: ja.allocation_rdp("a", 3),
    "noise_multiplier=5e-324": lambda: ja.delta(ja.PoissonSampled(ja.Laplace(5e-324), 0.5, 2), 1.0),
    "noise_multiplier=inf must be": lambda: ja.Gaussian(10**400),
    "is analysed by its loss distribution": lambda: ja.rdp(ja.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5)), [2.0]),
    "noise_multiplier=.1.0, 'a'. must be": lambda: ja.epsilon(ja.Gaussian([1.0, "a"]), 1e-6),
    "noise_multiplier={} must be": lambda: ja.epsilon(ja.Gaussian({}), 1e-6),
    "noise_multiplier=None must be": lambda: ja.epsilon(ja.PoissonSampled(ja.Laplace(None), 0.1, num_steps=1), 1e-6),
    "local_epsilon=None must be": lambda: ja.pld(ja.Shuffled(ja.LocalRandomizer(None), 10)),
    "mechanism=None has no analysis": lambda: ja.epsilon_interval(None, 1e-6),
    "mechanisms=5 has no analysis": lambda: ja.compare(ja.Composed(5), 1e-6),
    "mechanism=RdpCurve.* has no analysis": lambda: ja.compare(curve(), 1e-6),
    "fields and of target_delta must broadcast": lambda: ja.epsilon(ja.Gaussian(np.ones(2)), np.full(3, 1e-6)),
    "num_selected of shape .3,. and num_steps": lambda: ja.RandomAllocation(NOISE, np.full(2, 9), np.ones(3)),
    "precision=array": lambda: ja.epsilon(RUN, 1e-6, precision=np.array([0.1, 0.2])),
    "precision='a' must be": lambda: ja.compare(NOISE, 1e-6, precision="a"),
    "precision=.1. must be": lambda: ja.deciding(RUN, 1e-6, precision=[1]),
    "precision=nan must be": lambda: ja.epsilon_interval(RUN, 1e-6, precision=math.nan),
    "cdf_p=None must be": lambda: ja.ContinuousPair(None, None, None, None, 0.0, 1.0),
    "lowest='a' must be": lambda: ja.ContinuousPair(flat, flat, flat, flat, "a", 1.0),
    "lowest=-1e[+]300": lambda: ja.epsilon(ja.ContinuousPair(flat, flat, flat, flat, -1e300, 1.0), 1e-6),
    "p='ab' must be": lambda: ja.DiscretePair("ab", "cd"),
    "p=.1j. must be": lambda: ja.DiscretePair([1j], [1.0]),
    "q=.*must be": lambda: ja.DiscretePair([1.0], [[1], [1, 2]]),
    "probabilities=.* must be": lambda: ja.FiniteRandomizer([[1.0], HALF]),
    "tail=2.0 must be": lambda: ja.pld(NOISE, tail=2.0),
    "tail=array": lambda: ja.pld(NOISE, tail=np.array([0.1])),
    "resolution=array": lambda: ja.pld(NOISE, resolution=np.array([1.0])),
    "resolution=1e[+]300": lambda: ja.pld(PAIR, resolution=1e300),
    "DiscretePair: .* cells": lambda: ja.pld(PAIR, resolution=1e9),
    "direction='away' must be": lambda: ja.dominating_pld(0.1, [0.5], [0.5], "away"),
    "remove=.'a'. must be": lambda: ja.dominating_pld(0.1, ["a"], [0.5], Direction.ADD),
    "epsilon=nan must be": lambda: ja.pld(NOISE).delta(math.nan),
    "epsilon=-inf must be": lambda: ja.pld(NOISE).delta(-math.inf),
    "epsilon=array": lambda: ja.pld(NOISE).delta(np.ones(2)),
    "delta=None must be": lambda: ja.pld(NOISE).epsilon(None),
    "delta=2.0 must be": lambda: ja.pld(NOISE).epsilon(2.0),
    "step=0.0 must be": lambda: ja.Pld(0.0, 0.0, np.ones(1), 0.0, ja.Bound.UPPER, Direction.ADD),
    "masses=array": lambda: ja.Pld(0.0, 0.1, np.array([math.nan]), 0.0, ja.Bound.UPPER, Direction.ADD),
    "values=.*must be": lambda: ja.RdpCurve([2.0, 3.0], [1.0], ja.Bound.UPPER, curve().neighboring_relation, ""),
    "method='x' must be": lambda: ja.epsilon(curve(), 1e-6, method="x"),
    "direction='x' must be": lambda: ja.epsilon(curve(), 1e-6, direction="x"),
    "style=.. must be": lambda: ja.report(NOISE, 1e-6, style=[]),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    with pytest.raises(ValueError, match=words):
        REFUSED[words]()


ANSWERED = {
    "Poisson, tiny noise": lambda: ja.epsilon(ja.PoissonSampled(ja.Gaussian(1e-200), 0.5, 10), 1e-6),
    "allocation, a huge epsilon": lambda: ja.delta(ja.RandomAllocation(NOISE, 10), 800.0),
    "pld from below, coarse": lambda: ja.pld(
        ja.RandomAllocation(NOISE, 10), resolution=1e-3, bound=ja.Bound.LOWER
    ).delta(0.1),
    "pair, a tiny probability": lambda: ja.delta(ja.DiscretePair(HALF, [1.0, 1e-320]), 1.0),
    "randomizer, a tiny probability": lambda: ja.epsilon(
        ja.Shuffled(ja.FiniteRandomizer([[1.0, 1e-320], HALF]), 10), 1e-6
    ),
    "no clones, rounds": lambda: ja.epsilon(ja.Shuffled(ja.LocalRandomizer(1e300), 2, 2), 1e-6),
    "variance beyond the doubles": lambda: variance(ja.RandomAllocation(ja.Gaussian(1e200), 3)),
    "check-ins, next to no local epsilon": lambda: ja.epsilon(
        ja.CheckIn(ja.LocalRandomizer(1e-300), 10**6, 0.35), 1e-3
    ),
    "a part of the least delta": lambda: ja.epsilon(
        ja.Composed([ja.PoissonSampled(ja.Laplace(0.06), 0.001, 3), ja.Gaussian(8e4)]), 5e-324
    ),
    "half of very many steps": lambda: ja.epsilon(ja.RandomAllocation(ja.Gaussian(0.65), 2**40, 2**39), 1e-6),
    "rounds that reveal nearly all": lambda: ja.epsilon(ja.Shuffled(ja.LocalRandomizer(50.0), 1804, 1000), 5e-17),
}


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


LONG = ("no clones, rounds",)


@pytest.mark.parametrize("name", [*(name for name in ANSWERED if name not in LONG), *slow(*LONG)])
def test_answered(name):
    assert fair(ANSWERED[name]())


@pytest.mark.parametrize("epsilon", [1e10, 1e308])
@pytest.mark.parametrize("mechanism", [NOISE, *slow(ja.PoissonSampled(NOISE, 0.1, 10))], ids=["Gaussian", "Poisson"])
def test_no_delta_of_zero_where_it_is_positive(mechanism, epsilon):
    """Below the smallest double, but not 0."""
    assert ja.delta(mechanism, epsilon) > 0.0
    assert ja.delta_interval(mechanism, epsilon).upper > 0.0
