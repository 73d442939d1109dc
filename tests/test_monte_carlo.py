"""`method="monte carlo"`: an estimate that is called one wherever it is shown."""

import json
import math
import pickle
import warnings
from concurrent.futures import Executor, Future

import pytest
from support.bins import SMALL, gram, normalised, quadrature

import jaxacct as ja
from jaxacct.bounds.correlated import _sampled
from jaxacct.cli import main
from jaxacct.sweeping import SweepResult

NAME = "monte carlo"
RUN = SMALL["two bands"]
EXAMPLE = ja.BallsInBins(normalised((1.0, 0.5, 0.25, 0.125)), 4.0, 10, 10)
COMMAND = ["balls-in-bins", "--strategy", "1,0.5", "--num-batches", "4", "--num-epochs", "2", "--method"]


def _told(ask):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ask()
    return found, [w.message for w in caught if isinstance(w.message, ja.EstimateWarning)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SMALL)
def test_it_is_between_quadrature_and_what_is_certified(name):
    run = SMALL[name]
    for direction in ja.Direction:
        truth = quadrature(gram(run) / run.noise_multiplier**2, 1.0, direction)
        found, told = _told(lambda d=direction: ja.delta(run, 1.0, direction=d, method=NAME))
        assert truth < found < 1.1 * truth
        assert [w.failure for w in told] == [1e-12]
        assert "not certified" in str(told[0])


@pytest.mark.parametrize("direction", ja.Direction)
def test_epsilon_is_where_delta_meets_its_target(direction):
    truth = quadrature(gram(RUN) / RUN.noise_multiplier**2, 1.0, direction)
    found, told = _told(lambda: ja.epsilon(RUN, truth, direction=direction, method=NAME))
    assert 1.0 < found < 1.05
    assert len(told) == 1
    both, _ = _told(lambda: ja.epsilon(RUN, truth, method=NAME))
    assert both >= found


def test_it_is_asked_by_name_only_and_is_no_bound():
    for ask in (lambda: ja.epsilon(RUN, 1e-2), lambda: ja.epsilon_interval(RUN, 1e-2)):
        assert _told(ask)[1] == []
    assert NAME not in {entry.method for entry in ja.compare(RUN, 1e-2)}
    assert NAME not in {step.method.name for step in ja.accounting.plan(RUN, 1e-2)}
    entries, _ = _told(lambda: ja.accounting.deciding(RUN, target_epsilon=1.0, method=NAME))
    assert {entry.bound for entry in entries} == {ja.Bound.ESTIMATE}
    assert all("1e-12" in entry.theorem for entry in entries)
    with pytest.raises(ValueError, match="must be one of"):
        ja.epsilon(ja.Composed(RUN, 2), 1e-2, method=NAME)


@pytest.mark.more
def test_calibration_says_the_confidence_of_all_that_was_tried():
    """The example of jax_privacy: 3.683 by samples without a confidence, 3.82 certified."""
    found, told = _told(lambda: ja.calibrate(EXAMPLE, "noise_multiplier", 1.0, 5e-3, method=NAME))
    assert 3.683 < found < 3.77
    (one,) = told
    assert 1e-12 < one.failure <= 1e-9
    assert "not certified" in str(one)
    run = ja.BallsInBins(EXAMPLE.strategy, found, 10, 10)
    assert _told(lambda: ja.epsilon(run, 5e-3, method=NAME))[0] <= 1.0


@pytest.mark.more
def test_each_noise_multiplier_of_a_search_has_samples_of_its_own(monkeypatch):
    """Where the next one is depends on the samples of those before: shared ones would not keep their confidence."""
    seeds, true = {}, _sampled.bins.samples

    def told(of, epsilons, d, number, seed, **options):
        seeds.setdefault(seed, set()).add(float(of.covariance[0, 0]))
        return true(of, epsilons, d, number, seed, **options)

    monkeypatch.setattr(_sampled.bins, "samples", told)
    _told(lambda: ja.calibrate(RUN, "noise_multiplier", 1.0, 0.03, method=NAME))
    assert all(len(runs) == 1 for runs in seeds.values())
    assert len({next(iter(runs)) for runs in seeds.values()}) > 2


@pytest.mark.more
def test_counts_are_calibrated_where_a_method_covers_some_of_them():
    """Of very many epochs nothing is sampled: that is too much, and no wrong name."""
    run = ja.BallsInBins((1.0, 0.5), 4.0, 4, 1)
    found, told = _told(lambda: ja.calibrate(run, "num_epochs", 0.6, 3e-2, method=NAME))
    assert found == 5
    assert len(told) == 1
    one = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1)
    assert ja.calibrate(one, "num_steps", 2.0, 1e-5, method="one step") == 1
    with pytest.raises(ValueError, match="must be one of"):
        ja.calibrate(run, "num_epochs", 0.6, 3e-2, method="no such method")


def test_what_samples_cannot_show_is_not_said():
    assert math.isinf(_told(lambda: ja.epsilon(EXAMPLE, 1e-30, method=NAME))[0])


def test_one_direction_may_be_shown_to_be_below_the_other(monkeypatch):
    """With no more samples than that: the answer is the other direction's."""
    asked = []
    true = _sampled._deltas

    def counted(of, epsilons, d, number, failure):
        asked.append((d, number, failure))
        return true(of, epsilons, d, number, failure)

    monkeypatch.setattr(_sampled, "_deltas", counted)
    _told(lambda: ja.epsilon(EXAMPLE, 1e-2, method=NAME))
    assert [(d, failure) for d, _, failure in asked] == [(ja.Direction.REMOVE, 2.5e-13), (ja.Direction.ADD, 2.5e-13)]
    assert asked[1][1] < asked[0][1]


@pytest.mark.parametrize("style", ["text", "markdown"])
def test_statements_call_it_an_estimate(style):
    text, told = _told(lambda: ja.report(RUN, target_epsilon=1.0, method=NAME, style=style))
    first = text.splitlines()[0]
    assert "(estimate with confidence 1 - 1e-12, not certified)" in first
    assert "certified upper bound" not in text
    assert text.count("is an estimate, no less") == 1
    assert "method='monte-carlo'" in text
    assert told == []  # it is in the text


def test_statements_in_json_say_its_failure():
    facts = json.loads(ja.report(RUN, target_epsilon=1.0, method=NAME, style="json"))
    assert (facts["bound"], facts["failure"]) == ("estimate", 1e-12)
    facts = json.loads(ja.report(RUN, target_epsilon=1.0, method="groups", style="json"))
    assert facts["bound"] == "upper bound"
    assert "failure" not in facts


@pytest.mark.more
def test_the_command_line_calls_it_an_estimate(capsys):
    assert main(["delta", *COMMAND, "Monte-Carlo", "--noise-multiplier", "1.5", "--epsilon", "1"]) == 0
    assert "not certified" in capsys.readouterr().out.splitlines()[0]
    calibrated = ["calibrate", *COMMAND, NAME, "--epsilon", "1", "--delta", "0.03"]
    assert main(calibrated) == 0
    text = capsys.readouterr().out
    assert "estimated with confidence 1 - 2e-10, not" in text
    assert "; certified" not in text
    assert main([*calibrated, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["failure"] == 2e-10
    assert facts["estimated_epsilon"] <= 1.0
    assert "certified_epsilon" not in facts


def test_sweeps_say_what_their_numbers_are():
    found, told = _told(lambda: ja.sweep(RUN, {"noise_multiplier": [1.5, 2.0]}, target_epsilon=1.0, method=NAME))
    assert found.bound is ja.Bound.ESTIMATE
    assert found.values[0] > found.values[1] > 0.0
    assert told


def test_tables_of_sweeps_call_the_column_an_estimate(tmp_path, capsys):
    path = tmp_path / "swept.csv"
    asked = ["sweep", *COMMAND, NAME, "--noise-multiplier", "1.5,2", "--epsilon", "1", "--out", str(path)]
    assert main(asked) == 0
    told = capsys.readouterr().err
    assert (
        told == "jaxacct sweep: each number is an estimate with confidence 1 - 1e-12 over its samples, not certified\n"
    )
    assert path.read_text().splitlines()[0] == "noise_multiplier,delta_estimate"
    assert main([*asked, "--resume"]) == 0
    loaded = SweepResult.load(path)
    assert (loaded.quantity, loaded.bound) == ("delta", ja.Bound.ESTIMATE)
    assert list(loaded.columns()) == ["noise_multiplier", "delta_estimate"]
    assert loaded.values[0] > loaded.values[1] > 0.0


class Apart(Executor):
    """Calls at once, and hands over what a process would."""

    def submit(self, call, /, *args, **options):
        done = Future()
        done.set_result(pickle.loads(pickle.dumps(call(*args, **options))))
        return done


@pytest.mark.more
def test_workers_say_that_they_estimate():
    swept = {"grid": {"noise_multiplier": [1.5, 2.0]}, "target_epsilon": 1.0, "method": NAME, "executor": Apart()}
    _, (one,) = _told(lambda: ja.sweep(RUN, **swept))
    assert one.failure == 1e-12
    assert "not certified" in str(one)
    _, (one,) = _told(lambda: ja.calibrate(RUN, "noise_multiplier", [1.0], 0.03, method=NAME, executor=Apart()))
    assert one.failure == 2e-10
