"""Selections in compositions, beside the whole distributions of all orders, and beside their own profile."""

import math

import numpy as np
import pytest
from support.numbers_of_runs import generating, of_all_orders

import jaxacct as ja

RUN = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1000)


@pytest.mark.parametrize(("mean", "shape"), [(3.0, 1.0), (20.0, 0.0), (5.0, math.inf)])
def test_two_selections_of_any_order_lose_no_more(mean, shape):
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.35, 0.25, 0.4])
    law = generating(shape, mean)
    none = law(0.0) if math.isinf(shape) else 0.0
    a, b = (np.column_stack([x, np.full(len(x), none)]) for x in of_all_orders(p, q, law))
    both = ja.Composed(ja.PrivateSelection(ja.DiscretePair(p.tolist(), q.tolist()), mean, shape), 2)
    loss = ja.pld(ja.PrivateSelection(ja.DiscretePair(p.tolist(), q.tolist()), mean, shape))
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        odds, found = math.exp(epsilon), ja.delta(both, epsilon)
        for one, other in ((a, b), (b, a)):
            assert np.maximum(one - odds * other, 0.0).sum(axis=1).max() <= loss.delta(epsilon) + 1e-12
            pairs = [np.einsum("ij,kl->ikjl", x, x).reshape(len(x) ** 2, -1) for x in (one, other)]
            assert np.maximum(pairs[0] - odds * pairs[1], 0.0).sum(axis=1).max() <= found + 1e-12


@pytest.mark.parametrize("delta", [1e-5, 1e-9])
@pytest.mark.parametrize("run", [RUN, ja.Laplace(1.0), ja.Gaussian(3.0), ja.RandomAllocation(ja.Gaussian(1.0), 100)])
def test_the_distribution_has_the_profile(run, delta):
    selection = ja.PrivateSelection(run, 10.0)
    found = ja.epsilon(selection, delta)
    assert found * (1 - 5e-3) <= ja.pld(selection).epsilon(delta) <= found * (1 + 2e-2)


@pytest.mark.parametrize("run", [RUN, ja.Gaussian(3.0)])
def test_the_distribution_reaches_small_deltas_of_many_runs(run):
    """What a run may lose of its tails is small beside delta over the number of runs."""
    selection = ja.PrivateSelection(run, 1e4)
    assert ja.pld(selection).epsilon(1e-15) <= 1.005 * ja.epsilon(selection, 1e-15)


def test_a_statement_cites_what_decides():
    found = ja.report(ja.PrivateSelection(RUN, 10.0), target_delta=1e-6)
    assert "the privacy profile of one run" in str(found)


def test_tuning_and_training():
    tuned = ja.PrivateSelection(RUN, 10.0)
    whole = ja.epsilon(ja.Composed([tuned, RUN]), 1e-6)
    assert ja.epsilon(tuned, 1e-6) < whole <= 0.77 * ja.epsilon(ja.Composed([tuned, RUN]), 1e-6, method="rdp")
    assert whole < ja.epsilon(tuned, 5e-7) + ja.epsilon(RUN, 5e-7)


@pytest.mark.parametrize(
    ("run", "mean", "shape"),
    [
        (ja.Gaussian(1.0), 1e6, math.inf),  # losses beyond the largest exponent
        (ja.Gaussian(1.0), 1e300, 1.0),
        (ja.EpsilonDelta(1.0, 0.3), 50.0, 1.0),  # some run fails nearly always
    ],
)
def test_a_distribution_that_says_nothing_is_no_error(run, mean, shape):
    selection = ja.PrivateSelection(run, mean, shape)
    assert ja.pld(selection).epsilon(1e-5) == math.inf
    whole = ja.Composed([selection, ja.Gaussian(2.0)])
    assert ja.delta(whole, 1.0) == 1.0
    assert ja.epsilon(whole, 1e-5) >= ja.epsilon(selection, 1e-5) - 20.0


def test_what_fails_outright_is_composed():
    selection = ja.PrivateSelection(ja.EpsilonDelta(1.0, 1e-6), 5.0)
    found = ja.epsilon(ja.Composed([selection, ja.Gaussian(2.0)]), 1e-4)
    assert ja.epsilon(selection, 1e-4) < found < ja.epsilon(selection, 5e-5) + ja.epsilon(ja.Gaussian(2.0), 5e-5)
    assert ja.epsilon(ja.Composed(selection, 3), 1.4e-5) == math.inf


def test_what_loses_nothing_adds_nothing():
    nothing = ja.PrivateSelection(ja.PoissonSampled(ja.Gaussian(1.0), 0.0, 10), 10.0)
    assert ja.epsilon(ja.Composed(nothing, 3), 1e-5) == ja.pld(nothing).epsilon(1e-5) == 0.0
    whole = ja.epsilon(ja.Composed([nothing, ja.Gaussian(2.0)]), 1e-5)
    assert whole == pytest.approx(ja.epsilon(ja.Gaussian(2.0), 1e-5), rel=1e-3)
