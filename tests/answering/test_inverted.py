"""A pair of epsilon and delta that one question certifies is known to the other one, within the promised width."""

import math

import numpy as np
import pytest
from support.mechanisms import ASKED

import jaxacct as ja
from jaxacct._method import Query
from jaxacct.answering import _loop, answer
from jaxacct.answering._inverted import invert
from jaxacct.answering._question import question_of

WIDTH = {Query.EPSILON: 1e-3, Query.DELTA: 1e-2}
ROUNDING = 1e-6  # relative, of a delta that is asked back: where epsilon falls steeply, its last digits decide

RESPONSE = ja.EpsilonDelta(0.1524841083484495, 0.0)
FEW = ja.CheckIn(ja.GaussianReports(2.3872739753446095), 937, 0.0029545202013922978, 2)
ONE_ROUND = ja.CheckIn(ja.GaussianReports(10.808), 20, 0.00763)
# what one question once missed: the mechanism, and a delta
MISSED = {
    "few reports are expected": (FEW, 8.93e-9),
    "and in one round": (ONE_ROUND, 5.04e-12),
    "approximate reports": (ja.CheckIn(ja.LocalRandomizer(0.26, 1e-6), 6993, 1.5e-4), 8e-7),
    "copies in a batch": (ja.FixedBatches(ja.Gaussian(2.470255833769099), 1796069, 161220, 2, True), 6.0e-12),
    "copies, many steps": (ja.FixedBatches(ja.Gaussian(4.0), 150, 50, 228, True), 5e-10),
    "pure, replaced": (ja.ReplaceOne(RESPONSE), 1.1e-11),
    "removed, then added": (ja.ReplaceOne(ja.RandomAllocation(ja.Gaussian(1.04), 3)), 3.76e-5),
    "zCDP, replaced": (ja.ReplaceOne(ja.ZCdp(3.32, 1.0)), 9.08e-9),
    "an epoch whose delta hardly falls": (ja.ReplaceOne(ja.PartialShuffledBatches(ja.Gaussian(1.356), 10, 10)), 0.366),
    "batches that may be cut": (ja.TruncatedPoisson(ja.Gaussian(8.32), 0.000825, 16, 11, 196), 7.27e-32),
}
SPLIT = ja.ScheduledAllocation([0.38, 5.16], [643, 412])
LAPLACE = ja.PartialAllocation(ja.Laplace(10.196), 341, 23)
SELECTED = ja.Composed((ja.PrivateSelection(ja.Gaussian(2.0), 17.2, 0.5), ja.Laplace(3.0)), (3, 1))
MISSED |= {
    "splits far from the first ones": (ja.ReplaceOne(SPLIT), 1.925e-9),
    "a pair that is selected, replaced": (ja.ReplaceOne(ja.PrivateSelection(ja.Laplace(1.3), 7.3, math.inf)), 5.6e-10),
    "grids whose lower end is 0 at first": (LAPLACE, 6.015e-11),
    "parts with Renyi divergences only": (SELECTED, 9.5e-6),
}
SLOW = (
    "splits far from the first ones",
    "grids whose lower end is 0 at first",
    "few reports are expected",
    "copies, many steps",
    "batches that may be cut",
)


def some(table, slow=()):
    return [pytest.param(name, marks=[pytest.mark.more] * (name in slow)) for name in table]


def there_and_back(mechanism, delta):
    """(delta at the epsilon of `delta`, epsilon at that delta, that epsilon)."""
    epsilon = ja.epsilon(mechanism, delta)
    back = ja.delta(mechanism, epsilon)
    again = ja.epsilon(mechanism, min(back * (1.0 + ROUNDING), 0.999)) if back > 0.0 else 0.0
    return back, again, epsilon


@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")
@pytest.mark.parametrize("name", some(MISSED, SLOW))
def test_what_one_question_missed(name):
    mechanism, delta = MISSED[name]
    back, again, epsilon = there_and_back(mechanism, delta)
    assert math.isfinite(epsilon)
    assert back <= delta * (1.0 + WIDTH[Query.DELTA])
    assert again <= epsilon * (1.0 + WIDTH[Query.EPSILON])


RELATIONS = (None, "replace-one", "zero-out")
_LOOSE_WIDTH = 0.15  # of batches cut from a shuffled list, whose profiles are searched


@pytest.mark.sample(12)
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ASKED)
def test_every_mechanism(name, relation, delta):
    mechanism = ASKED[name]
    try:
        epsilon = ja.epsilon(mechanism, delta, neighboring_relation=relation)
    except ValueError:
        assert relation is not None
        return
    back = ja.delta(mechanism, epsilon, neighboring_relation=relation) if math.isfinite(epsilon) else 0.0
    assert back <= delta * (1.0 + (_LOOSE_WIDTH if "ShuffledBatches" in name else WIDTH[Query.DELTA]))


def test_no_delta_grows_with_epsilon():
    """Making reports pure costs more at a larger epsilon: the bound of a smaller one holds there too."""
    run = ja.CheckIn(ja.LocalRandomizer(0.2606, 1e-6), 6993, 0.0001536)
    assert ja.delta(run, 0.642) <= ja.delta(run, 0.428) * (1.0 + WIDTH[Query.DELTA])


def test_an_epsilon_that_no_grid_finds():
    """Where the methods of one question have nothing at all."""
    copies = ja.FixedBatches(ja.Gaussian(5.339922146120789), 82, 25, 12, True)
    assert math.isfinite(ja.epsilon(ja.ReplaceOne(copies), 1.27e-21))


@pytest.mark.parametrize("query", Query)
def test_batches_have_the_answers_of_their_points(query):
    target = {Query.EPSILON: 5.04e-12, Query.DELTA: 0.4773}[query]
    ask = {Query.EPSILON: ja.epsilon, Query.DELTA: ja.delta}[query]
    assert list(ask(ONE_ROUND, np.array([target, target]))) == [ask(ONE_ROUND, target)] * 2


def test_it_is_told_who_decided():
    (entry,) = ja.deciding(ja.ReplaceOne(RESPONSE), target_epsilon=0.304968217)
    assert entry.value == ja.delta(ja.ReplaceOne(RESPONSE), 0.304968217)
    assert entry.method == "removed, then added"


def asked_by(monkeypatch, ask):
    """How many other questions the answer to one took."""
    count = 0

    def counted(found, loop):
        def asked(question):
            nonlocal count
            count += 1
            return loop(question)

        invert(found, asked)

    monkeypatch.setattr(_loop, "invert", counted)
    ask()
    return count


def test_what_is_narrow_asks_no_other_question(monkeypatch):
    assert not asked_by(monkeypatch, lambda: ja.epsilon(ja.RandomAllocation(ja.Gaussian(1.0), 100), 1e-6))
    assert not asked_by(monkeypatch, lambda: ja.delta(ja.Composed(ja.RandomizedResponse(1.0, 4), 5), 2.0))


def test_grids_grow_finer_while_the_upper_end_falls():
    """Also where the lower one is still 0: three looks of a few milliseconds are not the last."""
    copies = ja.FixedBatches(ja.Gaussian(0.9604), 20, 2, 159, True)
    assert ja.epsilon(copies, 0.9306892) < 0.74  # after three looks 1.09
    assert ja.delta(copies, 0.7363) < 0.9307


def test_quick_questions_ask_no_other(monkeypatch):
    assert not asked_by(monkeypatch, lambda: ja.delta(ONE_ROUND, 0.4773, precision=math.inf))


def test_nothing_to_gain_costs_two_questions(monkeypatch):
    run = ja.ReplaceOne(ja.RandomAllocation(ja.Gaussian(2.0), 10))
    delta = ja.delta(run, 0.8)
    assert asked_by(monkeypatch, lambda: ja.epsilon(run, delta)) <= 2


def test_what_is_gained_is_certified():
    """The answer is one that the other question confirms, at that very number."""
    mechanism, delta = MISSED["approximate reports"]
    epsilon = ja.epsilon(mechanism, delta)
    value = float(answer(question_of(mechanism, Query.DELTA, epsilon)).high)
    assert ja.epsilon(mechanism, value) <= epsilon * (1.0 + ROUNDING)


def test_a_finer_precision_has_no_larger_answer():
    answers = [ja.delta(ONE_ROUND, 0.4773, precision=width) for width in (0.3, 0.1, 0.01, 1e-3)]
    assert answers == sorted(answers, reverse=True)
