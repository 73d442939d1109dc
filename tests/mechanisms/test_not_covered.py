"""Statements about training say what they do not cover, and point to what would."""

import json

import pytest
from support.mechanisms import EXAMPLES, MECHANISMS

import jaxacct as ja
from jaxacct.mechanisms._not_covered import not_covered
from jaxacct.mechanisms._same_bins import SameBins

SAMPLED = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, num_steps=100)
OF_ONE_SIZE = (ja.FixedBatches, ja.ShuffledBatches, ja.PartialShuffledBatches)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_what_draws_records_names_its_gaps(kind):
    run, said = EXAMPLES[kind], " ".join(not_covered(EXAMPLES[kind]))
    trains = "batch" in run.scheme or "sampling" in run.scheme.replace("no sampling", "") or "alloc" in run.scheme
    trains |= kind in (ja.Group, ja.Composed)  # of sampled steps, in the examples
    assert bool(said) == trains, run
    assert ("PrivateSelection" in said) == trains
    assert ("public constant" in said) == (trains and kind not in OF_ONE_SIZE)


def test_nested_and_composed_runs_say_it_once():
    lines = not_covered(SAMPLED)
    assert len(lines) == 3
    for run in (ja.Composed((SAMPLED, ja.Gaussian(2.0), SAMPLED)), ja.ReplaceOne(SAMPLED), ja.Group(SAMPLED, 2),
                SameBins.of(ja.Gaussian(2.0), num_steps=10, num_cycles=2),
                ja.PoissonSampled(ja.RandomAllocation(ja.Gaussian(1.0), 10), 0.1, 1)):  # fmt: skip
        assert not_covered(run) == lines
    assert not_covered(ja.Shuffled(ja.LocalRandomizer(1.0), 100)) == ()


def test_a_described_choice_covers_tuning():
    chosen = not_covered(ja.PrivateSelection(SAMPLED, mean_runs=10))
    assert set(not_covered(SAMPLED)) - set(chosen) == {line for line in not_covered(SAMPLED) if "settings" in line}


def test_statements_print_them():
    text = ja.report(SAMPLED, 1e-6, false_positive_rates=())
    assert "\n  not covered sums divided by anything but a public constant" in text
    assert "not covered" not in ja.report(ja.Gaussian(1.0), 1e-6, false_positive_rates=())
    assert json.loads(ja.report(SAMPLED, 1e-6, style="json"))["not_covered"] == list(not_covered(SAMPLED))
    assert "| not covered | sums divided" in ja.report(SAMPLED, 1e-6, style="markdown", false_positive_rates=())
