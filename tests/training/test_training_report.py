"""Statements of what training has released, and of what batches were drawn for."""

import json
import math
from typing import Any

import jax.numpy as jnp
import pytest

import jaxacct as ja
from jaxacct import training
from jaxacct.reporting import statement

DELTA = 1e-5
GAUSSIAN = ja.Gaussian(noise_multiplier=1.0)
POISSON = ja.PoissonSampled(GAUSSIAN, 0.01, 40)
ALLOCATION = ja.RandomAllocation(GAUSSIAN, 20, num_epochs=2)


def _state(*counts: int) -> Any:
    return training.ReleaseCountState(jnp.array(counts, jnp.int32))


def _facts(*arguments: Any, **more: Any) -> dict[str, Any]:
    return json.loads(training.report(*arguments, style="json", **more))


@pytest.mark.filterwarnings("ignore:num_steps=40:UserWarning")
@pytest.mark.parametrize("count", [7, 40])
def test_the_number_is_that_of_privacy_spent(count: int) -> None:
    """Finished or not, by the mechanism or by the batches; what it prints can be asked again."""
    for run in (POISSON, training.batches(POISSON, 1000, 0), training.batches(POISSON, 1000, 0, max_batch_size=38)):
        state = _state(count)
        facts = _facts(state, run, DELTA)
        assert facts["epsilon"] == training.privacy_spent(state, run, DELTA)
        assert facts["delta"] == DELTA
        assert facts["interval"]["lower"] <= ja.epsilon(ja.PoissonSampled(GAUSSIAN, 0.01, count), DELTA)
        assert facts["interval"]["lower"] > 0.95 * facts["epsilon"]
        assert f"of {count} noise releases, as counted" in facts["notes"][0]
        assert ("share of delta" in str(facts["notes"])) == (run is not POISSON)
        again = facts["recompute"].split("print(")[1].removesuffix(")")
        assert eval(again, {"ja": ja}) == facts["epsilon"]


def test_unfinished_epochs_phases_and_accumulation() -> None:
    for count in (3, 20, 25):
        facts = _facts(_state(count), ALLOCATION, DELTA)
        assert facts["epsilon"] == training.privacy_spent(_state(count), ALLOCATION, DELTA)
    two = [ja.PoissonSampled(GAUSSIAN, 0.01), ALLOCATION]
    facts = _facts(_state(5, 20), two, DELTA)
    assert facts["epsilon"] == training.privacy_spent(_state(5, 20), two, DELTA)
    assert "of 5 + 20 noise releases" in facts["notes"][0]
    held = training.HeldReleaseCountState(jnp.array([10], jnp.int32), jnp.int32(4))
    facts = _facts(held, POISSON, DELTA)
    assert 1.369 < facts["epsilon"] == training.privacy_spent(held, POISSON, DELTA)
    assert "of 10 noise releases of 4 sampled batches each" in facts["notes"][0]
    quick = _facts(_state(20), ALLOCATION, DELTA, precision=math.inf)
    assert quick["epsilon"] == training.privacy_spent(_state(20), ALLOCATION, DELTA, precision=math.inf)
    replaced = _facts(_state(40), POISSON, DELTA, neighboring_relation="replace-one")
    assert replaced["epsilon"] == training.privacy_spent(_state(40), ja.ReplaceOne(POISSON), DELTA)
    assert "of 1 noise release, as counted" in _facts(_state(1), ALLOCATION, DELTA)["notes"][0]
    assert "noise releases" in training.report(_state(40), POISSON, DELTA, style="markdown")


def test_a_statement_of_batches() -> None:
    """`jaxacct.report` takes them: the whole run, and what is cut is paid for on either side."""
    whole = ja.report(training.batches(ALLOCATION, 1000, 0), DELTA)
    assert whole.splitlines()[0] == ja.report(ALLOCATION, DELTA).splitlines()[0]
    fixed = ja.FixedBatches(GAUSSIAN, 1000, 10, 40)
    assert ja.report(training.batches(fixed, 1000, 0), DELTA) == ja.report(fixed, DELTA)
    cut = training.batches(POISSON, 1000, 0, max_batch_size=35)
    tau = cut.overflow(40)
    assert 1e-9 < tau < DELTA / 4
    plain = ja.epsilon_interval(POISSON, DELTA)
    told = statement(cut, target_delta=DELTA)
    assert plain.upper < told["epsilon"] == training.privacy_spent(_state(40), cut, DELTA)
    less = ja.epsilon_interval(POISSON, DELTA + (1 + math.exp(told["epsilon"])) * tau)
    assert less.lower * (1 - 1e-9) < told["interval"]["lower"] <= less.upper < plain.lower
    at = statement(cut, target_epsilon=1.0)
    exact = ja.delta_interval(POISSON, 1.0)
    more = (1 + math.e) * tau
    assert at["delta"] == pytest.approx(exact.upper + more, rel=1e-9)
    assert at["delta"] >= exact.upper + more
    assert at["interval"]["lower"] == pytest.approx(exact.lower - more, rel=1e-6)
    again = at["recompute"].split("print(")[1].removesuffix(")")
    assert eval(again, {"ja": ja}) == pytest.approx(at["delta"], rel=1e-9)
    both = statement(POISSON, target_delta=DELTA), told
    plain_catch, told_catch = ([row["true_positive_rate"] for row in facts["membership"]] for facts in both)
    assert all(a + tau <= b < a + 1e-2 for a, b in zip(plain_catch, told_catch, strict=True))
    quick = statement(cut, target_epsilon=1.0, precision=math.inf)
    assert quick["delta"] == max(row["value"] for row in quick["directions"]) > more
    assert statement(cut, target_delta=DELTA, precision=math.inf)["epsilon"] >= told["epsilon"]


def test_what_cannot_be_stated_is_refused() -> None:
    for counts in ((0,), (2**31 - 1,)):
        with pytest.raises(ValueError, match="nothing to report"):
            training.report(_state(*counts), ja.PoissonSampled(GAUSSIAN, 0.01), DELTA)
    tight = training.batches(POISSON, 1000, 0, max_batch_size=20)
    with pytest.raises(ValueError, match="give the batches a larger max_batch_size"):
        ja.report(tight, DELTA)
    with pytest.raises(ValueError, match="41 batches were released"):
        training.report(_state(41), training.batches(POISSON, 1000, 0), DELTA)
    with pytest.raises(ValueError, match="target_delta=0"):
        training.report(_state(1), ja.PoissonSampled(GAUSSIAN, 0.01), 0.0)
    with pytest.raises(ValueError, match="style="):
        training.report(_state(1), ja.PoissonSampled(GAUSSIAN, 0.01), DELTA, style="html")
