"""A count whose default would understate a run has none: every question asks for it, and training counts instead."""

import numpy as np
import pytest

import jaxacct as ja
from jaxacct import interop, training, utility
from jaxacct.bounds import check_has_analysis

WITHOUT = {
    "Poisson": ja.PoissonSampled(ja.Gaussian(1.0), 0.01),
    "fixed": ja.FixedBatches(ja.Gaussian(1.0), 100, 10),
    "truncated": ja.TruncatedPoisson(ja.Gaussian(1.0), 0.1, 100, 20),
    "groups": ja.RandomAllocation(ja.PoissonSampled(ja.Gaussian(1.0), 0.1), 5),
    "composed": ja.Composed((ja.Gaussian(1.0), ja.PoissonSampled(ja.Gaussian(1.0), 0.1))),
    "replaced": ja.ReplaceOne(ja.PoissonSampled(ja.Gaussian(1.0), 0.1)),
}
SAYS = r"num_steps must be given: the number of noisy steps of the whole run; write num_steps=1 for one"
POISSON = WITHOUT["Poisson"]


@pytest.mark.parametrize("name", WITHOUT)
def test_every_question_says_how_the_old_call_is_written(name):
    run = WITHOUT[name]
    for ask in (
        lambda: ja.epsilon(run, 1e-6),
        lambda: ja.delta(run, 1.0),
        lambda: ja.epsilon_interval(run, 1e-6),
        lambda: ja.compare(run, 1e-6),
        lambda: ja.deciding(run, 1e-6),
        lambda: ja.report(run, 1e-6),
        lambda: ja.pld(run),
        lambda: ja.tradeoff(run, 0.1),
        lambda: ja.epsilon(ja.Group(run, 2), 1e-6),
        lambda: ja.epsilon(ja.PrivateSelection(run, 10.0), 1e-6),
    ):
        with pytest.raises(ValueError, match=SAYS):
            ask()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ja.rdp(POISSON, [2.0]),
        lambda: ja.epsilon(ja.Gaussian(3.0), 1e-6, prefix=POISSON),
        lambda: ja.sweep(POISSON, {"noise_multiplier": [1.0, 2.0]}, target_delta=1e-6),
        lambda: ja.calibrate(POISSON, "noise_multiplier", 1.0, 1e-6),
        lambda: utility.mean_estimation_variance(POISSON, num_records=100, success_prob=0.5),
        lambda: interop.MechanismDpEvent(POISSON),
        lambda: interop.to_dp_event(POISSON),
        lambda: training.batches(POISSON, num_records=100, key=0),
        lambda: training.batches(WITHOUT["fixed"], num_records=100, key=0),
        lambda: training.batches(WITHOUT["truncated"], num_records=100, key=0),
        lambda: training.batches(WITHOUT["groups"], num_records=100, key=0),
        lambda: training.RenyiFilter(1.0, 1e-6).spend(POISSON),
    ],
)
def test_whatever_asks_for_the_whole_run_asks_for_its_steps(ask):
    with pytest.raises(ValueError, match=SAYS):
        ask()


def test_what_solves_for_the_steps_or_sweeps_them_needs_none():
    steps = ja.calibrate(POISSON, "num_steps", 1.0, 1e-6)
    assert ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, steps), 1e-6) <= 1.0
    swept = ja.sweep(POISSON, {"num_steps": [1, 10]}, target_delta=1e-6)
    assert swept.values[1] == ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 10), 1e-6)
    assert np.isnan(swept.values).sum() == 0


def test_training_counts_the_steps():
    check_has_analysis(POISSON)
    state = training.with_counts((), like=training.track_privacy().init(None), releases=7)
    spent = ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, num_steps=7), 1e-6)
    assert training.privacy_spent(state, POISSON, 1e-6) == spent
    most = training.steps_affordable(POISSON, 0.5, 1e-6)
    assert ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, most), 1e-6) <= 0.5


def test_one_epoch_is_a_run_by_itself():
    """Counts of epochs and rounds have a default of one: their own names say what is counted."""
    for run in (
        ja.RandomAllocation(ja.Gaussian(1.0), 100),
        ja.ShuffledBatches(ja.Gaussian(1.0), 100),
        ja.ScheduledAllocation((1.0, 2.0), (50, 50)),
        ja.Shuffled(ja.LocalRandomizer(1.0), 1000),
        ja.CheckIn(ja.LocalRandomizer(1.0), 1000, 0.1),
    ):
        assert run.num_epochs == 1
        assert ja.epsilon(run, 1e-6, precision=float("inf")) > 0.0
