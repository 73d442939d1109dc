"""What was spent before, and a run: both together, in one adjacency, by every question that takes a prefix."""

import dataclasses
import math

import jax
import numpy as np
import pytest

import jaxacct as ja

RELATION = ja.NeighboringRelation
RUN = ja.PoissonSampled(ja.Gaussian(1.0), 0.1, 3)
CROWD = ja.Shuffled(ja.LocalRandomizer(1.0), num_reports=1000)


def with_guarantee(run, spent, epsilon):
    """Delta of a guarantee and a run of closed form: the four outputs of Kairouz, Oh & Viswanath, each by itself."""
    top, least = spent
    odds = math.exp(top) / (1.0 + math.exp(top))
    below = ja.delta(run, epsilon - top)
    above = ja.delta(run, epsilon + top)
    return least + (1.0 - least) * (odds * below + (1.0 - odds) * above)


@pytest.mark.parametrize("epsilon", [1.5, 3.0, 6.0])
def test_a_guarantee_and_a_gaussian_release_are_their_exact_composition(epsilon):
    run, spent = ja.Gaussian(1.0), (1.0, 1e-6)
    exact = with_guarantee(run, spent, epsilon)
    found = ja.delta_interval(run, epsilon, prefix=spent)
    assert found.lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= found.upper <= 1.02 * exact
    at = ja.epsilon_interval(run, exact, prefix=spent)
    assert at.lower * (1 - 1e-9) <= epsilon <= at.upper * (1 + 1e-9)
    assert at.upper == ja.epsilon(run, exact, prefix=spent)
    assert found.upper == ja.delta(run, epsilon, prefix=spent)


def test_a_mechanism_before_is_what_composes_with_it():
    whole = ja.Composed((ja.Gaussian(2.0), RUN))
    assert ja.epsilon(RUN, 1e-5, prefix=ja.Gaussian(2.0)) == ja.epsilon(whole, 1e-5)
    assert ja.delta(RUN, 2.0, prefix=ja.Gaussian(2.0)) == ja.delta(whole, 2.0)
    replaced = ja.epsilon(whole, 1e-5, neighboring_relation="replace-one")
    assert ja.epsilon(RUN, 1e-5, prefix=ja.Gaussian(2.0), neighboring_relation="replace-one") == replaced
    above = ja.epsilon(RUN, 1e-5, prefix=ja.pld(ja.Gaussian(2.0)))
    assert ja.epsilon_interval(whole, 1e-5).lower <= above <= 1.005 * ja.epsilon(whole, 1e-5)


def test_nothing_spent_changes_next_to_nothing_and_all_spent_is_infinite():
    alone = ja.epsilon(RUN, 1e-5)
    assert ja.epsilon(RUN, 1e-5, prefix=None) == alone
    assert alone * (1 - 1e-3) <= ja.epsilon(RUN, 1e-5, prefix=(0.0, 0.0)) <= alone * (1 + 1e-3)
    assert ja.epsilon(RUN, 1e-5, prefix=(0.0, 2e-5)) == math.inf
    assert ja.delta(RUN, 50.0, prefix=(1.0, 1e-3)) >= 1e-3


def test_a_guarantee_is_one_in_the_adjacency_that_is_asked_about():
    spent = (0.5, 1e-7)
    for run, relation in ((RUN, "replace-one"), (RUN, "zero-out"), (CROWD, None)):
        named = run.relation if relation is None else RELATION.REPLACE_ONE if "one" in relation else None
        release = ja.EpsilonDelta(*spent, neighboring_relation=named or RELATION.REPLACE_SPECIAL)
        assert release.relation is (named or RELATION.REPLACE_SPECIAL)
        found = ja.epsilon(run, 1e-5, prefix=spent, neighboring_relation=relation)
        own = ja.epsilon(run, 1e-5, neighboring_relation=relation)
        assert own < found < own + 0.5 + 1e-2
    # where it was made for records that come and go, replacing one of them costs both
    twice = ja.epsilon(RUN, 1e-5, prefix=ja.EpsilonDelta(*spent), neighboring_relation="replace-one")
    assert twice > ja.epsilon(RUN, 1e-5, prefix=spent, neighboring_relation="replace-one") + 0.2


def test_records_that_come_and_go_may_be_replaced_but_not_the_other_way():
    before = ja.epsilon(CROWD, 1e-5, prefix=ja.Gaussian(4.0))
    assert before >= ja.epsilon(ja.Gaussian(2.0), 1e-5)  # noise of half the size, where the record is replaced
    with pytest.raises(ValueError, match="which implies nothing for 'add or remove one record'"):
        ja.epsilon(RUN, 1e-5, prefix=CROWD)


def test_a_loss_distribution_of_records_that_are_replaced_composes_with_such_runs_only():
    loss = ja.pld(ja.ReplaceOne(ja.Gaussian(4.0)))
    assert loss.neighboring_relation is RELATION.REPLACE_ONE
    both = ja.epsilon(RUN, 1e-5, prefix=loss, neighboring_relation="replace-one")
    whole = ja.epsilon(RUN, 1e-5, prefix=ja.Gaussian(4.0), neighboring_relation="replace-one")
    assert whole * (1 - 1e-3) <= both <= 1.01 * whole
    for drawn in (ja.PoissonSampled, lambda loss, _: ja.RandomAllocation(loss, 10)):
        with pytest.raises(ValueError, match="must be for 'add or remove one record'"):
            drawn(loss, 0.1)
    with pytest.raises(ValueError, match="must be for 'add or remove one record'"):
        ja.PoissonSampled(ja.EpsilonDelta(1.0, neighboring_relation="replace-one"), 0.1, num_steps=1)


def test_a_guarantee_keeps_its_delta_where_only_sums_are_known():
    run, spent = ja.ReplaceOne(ja.RandomAllocation(ja.Gaussian(1.0), 100)), (0.5, 1e-6)
    assert ja.epsilon(run, 1e-5, prefix=spent) == pytest.approx(ja.epsilon(run, 1e-5 - 1e-6) + 0.5, rel=1e-9)
    assert ja.delta(run, 2.0, prefix=spent) == pytest.approx(ja.delta(run, 1.5) + 1e-6, rel=1e-9)


@pytest.mark.parametrize(
    "prefix", [(1.0, 1e-7), ja.Gaussian(2.0), ja.pld(ja.Gaussian(2.0))], ids=["pair", "mechanism", "Pld"]
)
def test_calibration_leaves_what_was_spent_as_it_is(prefix):
    run = ja.PoissonSampled(ja.Gaussian(None), 0.1, 30)
    found = ja.calibrate(run, "noise_multiplier", 4.0, 1e-5, prefix=prefix)
    met = ja.PoissonSampled(ja.Gaussian(found), 0.1, 30)
    assert ja.epsilon(met, 1e-5, prefix=prefix) <= 4.0
    less = ja.PoissonSampled(ja.Gaussian(found * 0.998), 0.1, 30)
    assert ja.epsilon(less, 1e-5, prefix=prefix) > 4.0


def test_calibration_of_a_batch_and_of_what_a_loss_distribution_is_drawn_into():
    loss = ja.pld(ja.Gaussian(2.0))
    both = ja.calibrate(RUN, "num_steps", np.array([3.0, 4.0]), 1e-5, prefix=loss)
    assert both.tolist() == [ja.calibrate(RUN, "num_steps", target, 1e-5, prefix=loss) for target in (3.0, 4.0)]
    steps = ja.calibrate(ja.PoissonSampled(loss, 0.05, None), "num_steps", 2.0, 1e-5)
    assert ja.epsilon(ja.PoissonSampled(loss, 0.05, steps), 1e-5) <= 2.0
    assert ja.epsilon(ja.PoissonSampled(loss, 0.05, steps + 1), 1e-5) > 2.0
    run = ja.PoissonSampled(ja.Gaussian(None), 0.1, num_steps=1)
    inside = jax.eval_shape(lambda delta: ja.calibrate(run, "noise_multiplier", 2.0, delta, prefix=loss), 1e-5)
    assert inside.shape == ()


def test_a_statement_says_what_was_spent_and_can_be_asked_again():
    text = ja.report(RUN, 1e-5, prefix=(1.0, 1e-7), neighboring_relation="replace-one", false_positive_rates=())
    assert "(1, 1e-07)-DP" in text
    assert "replace one record" in text
    call = text[text.index("import jaxacct") :]
    told = {}
    exec(call.replace("print(", "told.append("), {"told": (said := [])}, told)
    assert said == [ja.epsilon(RUN, 1e-5, prefix=(1.0, 1e-7), neighboring_relation="replace-one")]


def test_choices_of_enums_can_be_pasted():
    shuffled = ja.ShuffledBatches(ja.Gaussian(1.0), num_steps=100, last_batch="dropped")
    assert eval(shuffled.source(), {"ja": ja}) == shuffled
    release = ja.EpsilonDelta(1.0, 1e-6, neighboring_relation="zero-out")
    assert eval(release.source(), {"ja": ja}) == release


@pytest.mark.parametrize("prefix", [3.0, (1.0,), (1.0, 2.0), (-1.0, 0.0), "spent", (1.0, 1e-6, 3)])
def test_what_is_no_prefix_is_refused(prefix):
    with pytest.raises(ValueError, match="prefix="):
        ja.epsilon(RUN, 1e-5, prefix=prefix)
    with pytest.raises(ValueError, match="prefix="):
        ja.epsilon(ja.rdp(RUN, [2, 4]), 1e-5, prefix=(1.0, 1e-7))


@pytest.mark.parametrize("prefix", [(1.0, 0.0), (1.0, 1e-7)])
def test_traced_runs_take_a_prefix(prefix):
    found = float(jax.jit(lambda delta: ja.epsilon(RUN, delta, prefix=prefix))(1e-5))
    outside = ja.epsilon_interval(RUN, 1e-5, prefix=prefix)
    assert outside.lower <= found <= 1.001 * outside.upper


def test_loss_distributions_of_a_guarantee_carry_its_adjacency():
    release = ja.EpsilonDelta(1.0, 1e-6, neighboring_relation="replace-one")
    assert ja.pld(release).neighboring_relation is RELATION.REPLACE_ONE
    assert ja.epsilon(release, 1e-4) == ja.epsilon(dataclasses.replace(release, neighboring_relation="zero-out"), 1e-4)
