"""Several rounds of approximate randomizers, by what is known about pure ones."""

import itertools
import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct.bounds.shuffle import _pure_rounds

METHOD = "pure rounds"


def runs(local, local_delta, rounds):
    """A shuffle and check-ins of an (epsilon, delta) randomizer."""
    randomizer = ja.LocalRandomizer(local, local_delta)
    return ja.Shuffled(randomizer, 5000, rounds), ja.CheckIn(randomizer, 20_000, 0.2, rounds, 0.25)


@pytest.mark.parametrize("kind", [0, 1])
def test_a_tiny_local_delta_costs_nothing(kind):
    pure, tiny = (runs(2.0, local_delta, 6)[kind] for local_delta in (0.0, 1e-30))
    assert ja.epsilon(tiny, 1e-6) == pytest.approx(ja.epsilon(pure, 1e-6), rel=1e-6)
    assert ja.delta(tiny, 0.3) == pytest.approx(ja.delta(pure, 0.3), rel=1e-6)


@pytest.mark.parametrize(("kind", "reports"), [(0, 5000.0), (1, 20_000 * 0.2 * 0.75)])
def test_beyond_what_pure_reports_lose_the_cost_is_left(kind, reports):
    """(1 + e^epsilon) times the total variation by which pure randomizers replace all expected reports."""
    local, local_delta, rounds, epsilon = 0.5, 1e-9, 3, 1.6
    run = runs(local, local_delta, rounds)[kind]
    cost = (1.0 + math.exp(epsilon)) * rounds * reports * local_delta * (1.0 + 0.5 * math.exp(-local))
    assert ja.delta(run, epsilon, method=METHOD) == pytest.approx(cost, rel=1e-9)
    assert ja.delta(run, epsilon, method=METHOD) >= cost


@pytest.mark.parametrize("kind", [0, 1])
def test_answers_invert_each_other(kind):
    run = runs(1.5, 1e-12, 5)[kind]
    epsilon = ja.epsilon(run, 1e-6, method=METHOD)
    assert 0.8e-6 <= ja.delta(run, epsilon, method=METHOD) <= 1e-6 * (1.0 + 1e-2)
    assert ja.epsilon(run, 1e-6) == epsilon


@pytest.mark.parametrize("kind", [0, 1])
def test_a_delta_below_the_cost_has_no_epsilon(kind):
    assert ja.epsilon(runs(1.0, 1e-6, 4)[kind], 1e-6, method=METHOD) == math.inf


def test_an_epsilon_whose_cost_is_not_covered_is_no_answer(monkeypatch):
    """The first epsilon is that of the cost at epsilon 0, which is too low."""
    monkeypatch.setattr(_pure_rounds, "_ABOVE", ())
    assert ja.epsilon(runs(2.0, 1e-12, 5)[0], 1e-6, method=METHOD) == math.inf


def leaking(bit, local, local_delta):
    """The law of a report that, with probability `local_delta`, tells the bit; else randomized response."""
    one = 1.0 / (1.0 + math.exp(-local)) if bit else 1.0 / (1.0 + math.exp(local))
    rest = 1.0 - local_delta
    return rest * (1.0 - one), rest * one, local_delta * (not bit), local_delta * bit


@pytest.mark.parametrize("rounds", [2, 3])
def test_rounds_of_reports_that_sometimes_leak_by_enumeration(rounds):
    local, local_delta, users = 1.0, 1e-3, 3
    run = ja.Shuffled(ja.LocalRandomizer(local, local_delta), users, rounds)
    for others in itertools.combinations_with_replacement((0, 1), users - 1):
        laws = []
        for own in (0, 1):
            law = {}
            each = [leaking(bit, local, local_delta) for bit in (own, *others)]
            for out in itertools.product(range(4), repeat=users):
                seen = tuple(sorted(out))
                law[seen] = law.get(seen, 0.0) + math.prod(p[x] for p, x in zip(each, out, strict=True))
            laws.append(law)
        outputs = list(itertools.product(laws[0], repeat=rounds))
        mass_p, mass_q = (np.array([math.prod(law[x] for x in out) for out in outputs]) for law in laws)
        for epsilon in (0.0, 0.5, 1.5, 2.5):
            true = max(
                np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((mass_p, mass_q), (mass_q, mass_p))
            )
            assert true <= ja.delta(run, epsilon, method=METHOD) * (1.0 + 1e-12)


@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")
def test_a_composition_of_different_rounds_costs_what_they_do_together():
    local, local_delta, epsilon = 0.5, 1e-9, 7.0  # beyond what pure reports lose
    randomizer = ja.LocalRandomizer(local, local_delta)
    check_ins = ja.Composed(ja.CheckIn(randomizer, 40, 0.5, 2, 0.25), 3)
    both = ja.Composed([ja.Shuffled(randomizer, 10, 2), check_ins, ja.Shuffled(ja.LocalRandomizer(0.01), 10)])
    cost = 2 * 10 + 6 * 40 * 0.5 * 0.75
    cost *= (1.0 + math.exp(epsilon)) * local_delta * (1.0 + 0.5 * math.exp(-local))
    found = ja.delta(both, epsilon, method="pure reports")
    assert cost <= found == pytest.approx(cost, rel=1e-9)


def test_a_tiny_local_delta_costs_nothing_in_a_composition():
    pure, tiny = (
        ja.Composed([run, ja.Shuffled(ja.LocalRandomizer(1.0), 4000)])
        for run in (runs(2.0, 0.0, 2)[0], runs(2.0, 1e-30, 2)[0])
    )
    assert ja.epsilon(tiny, 1e-6) == pytest.approx(ja.epsilon(pure, 1e-6), rel=1e-6)


def test_compositions_of_pure_reports_are_not_replaced():
    pure = ja.Composed([ja.Shuffled(ja.LocalRandomizer(1.0), 4000), ja.CheckIn(ja.LocalRandomizer(1.0), 4000, 0.5)])
    with pytest.raises(ValueError, match="pure reports"):
        ja.epsilon(pure, 1e-6, method="pure reports")
