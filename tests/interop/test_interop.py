"""Bridges to dp_accounting: what is handed over dominates, what is read in dominates, and both stay close."""

import dataclasses
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from typing import Any

import attr
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import interop
from jaxacct.curves._from_profile import dominating_pld

dpa = pytest.importorskip("dp_accounting")
from dp_accounting import privacy_accountant_test  # noqa: E402
from dp_accounting.pld import common, privacy_loss_distribution  # noqa: E402

from jaxacct.interop._reading import elsewhere  # noqa: E402

GAUSSIAN = ja.Gaussian(1.0)
SAMPLED = ja.PoissonSampled(ja.Gaussian(0.8), sampling_prob=0.02, num_steps=1)
ALLOCATION = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=50)
LAPLACE = ja.Laplace(2.0)
SHUFFLED = ja.Shuffled(ja.KaryRandomizedResponse(2.0), num_reports=100)
ONE = ja.NeighboringRelation.REPLACE_ONE
REPLACE_ONE = dpa.NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = dpa.NeighboringRelation.REPLACE_SPECIAL

CLOSE = 0.01  # relative, in epsilon: a step of 1/24 standard deviation of the loss, and their grid


def handed_over(mechanism: Any, **kwargs: Any) -> Any:
    return interop.to_privacy_loss_distribution(*(ja.pld(mechanism, direction=d) for d in ja.Direction), **kwargs)


def one_direction(pld: ja.Pld, interval: float = 1e-4) -> Any:
    """A distribution of theirs whose every answer is that of `pld`'s direction."""
    alone = dataclasses.replace(pld, neighboring_relation=ja.NeighboringRelation.REPLACE_ONE)
    return interop.to_privacy_loss_distribution(alone, value_discretization_interval=interval)


# --- handing over ---


@pytest.mark.parametrize(
    ("mechanism", "count"),
    [(GAUSSIAN, 1), (GAUSSIAN, 20), (SAMPLED, 20), (ALLOCATION, 1), (ALLOCATION, 20), (LAPLACE, 1), (LAPLACE, 20)],
    ids=lambda x: x if isinstance(x, int) else type(x).__name__,
)
def test_composed_there_it_covers_the_interval_and_stays_close(mechanism: Any, count: int) -> None:
    theirs = handed_over(mechanism).self_compose(count)
    for delta in (1e-4, 1e-8):  # above their FFT's rounding
        interval = ja.epsilon_interval(ja.Composed(mechanism, count), delta, precision=0.01)
        assert interval.lower <= theirs.get_epsilon_for_delta(delta) <= (1 + CLOSE) * interval.upper


@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("interval", [1e-4, 0.013, 0.3])
def test_on_their_grid_no_divergence_is_smaller(direction: ja.Direction, interval: float) -> None:
    pld = ja.pld(SAMPLED, direction=direction)
    theirs = one_direction(pld, interval)
    for epsilon in np.linspace(-2.0, 6.0, 81):
        assert theirs.get_delta_for_epsilon(epsilon) >= pld.delta(float(epsilon)) * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_atoms_off_their_grid_split_with_their_mean(seed: int) -> None:
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.full(30, 0.2)) * 0.999
    pld = ja.Pld(rng.normal(), 0.0977, masses, 1e-3, ja.Bound.UPPER, ja.Direction.REMOVE)
    interval = 0.05
    theirs = one_direction(pld, interval)
    for epsilon in np.linspace(pld.losses[0] - 0.5, pld.losses[-1] + 0.5, 157):
        exact = 1e-3 + float(np.sum(np.maximum(-np.expm1(epsilon - pld.losses), 0.0) * masses))
        got = theirs.get_delta_for_epsilon(epsilon)
        # the chord over one interval, (e^h - 1)(1 - e^-h)/4 or so above the curve
        near = masses[np.abs(pld.losses - epsilon) <= interval].sum()
        assert exact * (1 - 1e-12) <= got <= exact * (1 + 1e-10) + 0.3 * interval * near
    low = pld.losses[0] - 3.0  # below all atoms only the mean counts
    assert theirs.get_delta_for_epsilon(low) == pytest.approx(
        1e-3 + float(np.sum(-np.expm1(low - pld.losses) * masses)), rel=1e-11
    )


def test_directions_are_theirs() -> None:
    own = privacy_loss_distribution.from_gaussian_mechanism(0.8, sampling_prob=0.02)
    assert handed_over(SAMPLED).get_epsilon_for_delta(1e-6) == pytest.approx(own.get_epsilon_for_delta(1e-6), rel=1e-3)
    own = {d: ja.pld(SAMPLED, direction=d) for d in ja.Direction}
    theirs = {d: one_direction(own[d]).get_epsilon_for_delta(1e-6) for d in ja.Direction}
    for d in ja.Direction:
        assert theirs[d] == pytest.approx(own[d].epsilon(1e-6), rel=1e-4)
    assert theirs[ja.Direction.REMOVE] > 2 * theirs[ja.Direction.ADD]


def test_a_profile_comes_through_dominating_pld() -> None:
    step = 0.01
    profiles = [ja.delta(ja.Gaussian(2.0), step * np.arange(700), direction=d) for d in ja.Direction]
    theirs = interop.to_privacy_loss_distribution(*(dominating_pld(step, *profiles, d) for d in ja.Direction))
    exact = ja.epsilon(ja.Gaussian(2.0 / math.sqrt(10)), 1e-6)
    assert exact <= theirs.self_compose(10).get_epsilon_for_delta(1e-6) <= (1 + 1e-3) * exact


def test_infinite_mass_is_handed_over() -> None:
    disclosing = ja.DiscretePair((0.5, 0.49, 0.01), (0.5, 0.5, 0.0))
    theirs = handed_over(disclosing)
    assert math.isinf(theirs.get_epsilon_for_delta(0.009))
    assert theirs.get_delta_for_epsilon(20.0) == pytest.approx(0.01, rel=1e-9)


def test_what_cannot_be_handed_over_is_refused() -> None:
    remove, add = (ja.pld(GAUSSIAN, direction=d) for d in ja.Direction)
    for plds in ((), (remove,), (remove, remove), (remove, add, add)):
        with pytest.raises(ValueError, match="one distribution for each direction"):
            interop.to_privacy_loss_distribution(*plds)
    with pytest.raises(ValueError, match="upper bound"):
        interop.to_privacy_loss_distribution(remove, ja.pld(GAUSSIAN, direction=ja.Direction.ADD, bound=ja.Bound.LOWER))
    with pytest.raises(ValueError, match="value_discretization_interval"):
        interop.to_privacy_loss_distribution(remove, add, value_discretization_interval=0.0)


# --- reading in ---

GRID = 1e-3
THEIRS = {
    "gaussian": lambda: privacy_loss_distribution.from_gaussian_mechanism(1.5, value_discretization_interval=GRID),
    "sampled": lambda: privacy_loss_distribution.from_gaussian_mechanism(
        0.8, sampling_prob=0.02, value_discretization_interval=GRID
    ),
    "laplace": lambda: privacy_loss_distribution.from_laplace_mechanism(3.0, value_discretization_interval=GRID),
    "response": lambda: privacy_loss_distribution.from_randomized_response(0.3, 4, value_discretization_interval=GRID),
    "parameters": lambda: privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(1.0, 1e-3), GRID
    ),
    "composed": lambda: privacy_loss_distribution.from_gaussian_mechanism(
        4.0, sampling_prob=0.1, value_discretization_interval=GRID
    ).self_compose(50),
}


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("interval", [GRID, 0.0037])
def test_what_is_read_in_dominates(name: str, interval: float) -> None:
    theirs = THEIRS[name]()
    read = interop.from_privacy_loss_distribution(theirs, value_discretization_interval=interval)
    assert read.bound is ja.Bound.UPPER
    for epsilon in np.linspace(0.0, 8.0, 41).tolist():
        delta = float(theirs.get_delta_for_epsilon(epsilon))
        # composed, their masses carry errors of either sign
        assert read.delta(epsilon) >= delta * (1 - 1e-12) - (1e-17 if name == "composed" else 0.0)
        if interval == GRID:  # their own: piecewise linear in e^epsilon in between, nothing is lost but rounding
            assert read.delta(epsilon) <= delta * (1 + 1e-5) + 1e-13


def test_read_in_it_composes_here() -> None:
    read = interop.from_privacy_loss_distribution(THEIRS["gaussian"](), value_discretization_interval=GRID)
    exact = ja.epsilon(ja.Gaussian(1.5 / math.sqrt(30)), 1e-8)
    assert exact <= ja.compose(read, 30).epsilon(1e-8) <= 1.001 * exact
    base = ja.RandomAllocation(read, num_steps=100)  # a base for what dp_accounting has no analysis of
    run = ja.RandomAllocation(ja.Gaussian(1.5), num_steps=100)
    lower = ja.pld(run, bound=ja.Bound.LOWER).epsilon(1e-6)
    assert lower <= ja.pld(base).epsilon(1e-6) <= 1.01 * lower


def test_infinite_mass_is_read_in() -> None:
    read = interop.from_privacy_loss_distribution(THEIRS["parameters"](), value_discretization_interval=GRID)
    assert math.isinf(read.epsilon(9e-4))
    assert read.epsilon(1e-3 + 1e-5) == pytest.approx(1.0, abs=1e-3)


def test_what_is_read_in_is_tagged() -> None:
    relation = ja.NeighboringRelation.REPLACE_ONE
    read = interop.from_privacy_loss_distribution(
        THEIRS["response"](), direction=ja.Direction.ADD, neighboring_relation=relation
    )
    assert (read.direction, read.neighboring_relation) == (ja.Direction.ADD, relation)
    assert "dp_accounting" in read.theorem


def test_there_and_back() -> None:
    there = handed_over(ALLOCATION, value_discretization_interval=GRID)
    back = interop.from_privacy_loss_distribution(there, value_discretization_interval=GRID)
    assert back.epsilon(1e-7) == pytest.approx(there.get_epsilon_for_delta(1e-7), rel=1e-6)
    assert back.epsilon(1e-7) >= ja.epsilon_interval(ALLOCATION, 1e-7).lower


# --- events ---

MAPPED = [
    (GAUSSIAN, dpa.GaussianDpEvent(1.0)),
    (LAPLACE, dpa.LaplaceDpEvent(2.0)),
    (SAMPLED, dpa.PoissonSampledDpEvent(0.02, dpa.GaussianDpEvent(0.8))),
    (
        ja.PoissonSampled(LAPLACE, 0.5, num_steps=7),
        dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.5, dpa.LaplaceDpEvent(2.0)), 7),
    ),
    (ja.Composed(GAUSSIAN, 3), dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1.0), 3)),
    (
        ja.Composed((GAUSSIAN, SAMPLED), (3, 1)),
        dpa.ComposedDpEvent(
            [
                dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1.0), 3),
                dpa.PoissonSampledDpEvent(0.02, dpa.GaussianDpEvent(0.8)),
            ]
        ),
    ),
]


@pytest.mark.parametrize(("mechanism", "event"), MAPPED, ids=lambda x: type(x).__name__)
def test_events_and_mechanisms_match(mechanism: Any, event: Any) -> None:
    assert interop.to_dp_event(mechanism) == event
    assert interop.from_dp_event(event) == mechanism
    assert interop.from_dp_event(interop.MechanismDpEvent(mechanism)) == mechanism


def test_nested_compositions_multiply() -> None:
    sampled = interop.to_dp_event(SAMPLED)
    nested = dpa.SelfComposedDpEvent(dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(sampled, 3), dpa.NoOpDpEvent()]), 5)
    assert interop.from_dp_event(nested) == dataclasses.replace(SAMPLED, num_steps=15)


def test_gaussians_on_one_sample_are_one_gaussian() -> None:
    inner = dpa.ComposedDpEvent([dpa.GaussianDpEvent(3.0), dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(4.0), 2)])
    found = interop.from_dp_event(dpa.PoissonSampledDpEvent(0.1, inner))
    exact = (3.0**-2 + 2 * 4.0**-2) ** -0.5
    assert found.mechanism.noise_multiplier <= exact
    assert found.mechanism.noise_multiplier == pytest.approx(exact, rel=1e-14)


UNMAPPED = [
    dpa.NonPrivateDpEvent(),
    dpa.UnsupportedDpEvent(),
    dpa.RandomizedResponseDpEvent(0.0, 4),
    dpa.SampledWithoutReplacementDpEvent(100, 100, dpa.GaussianDpEvent(1.0)),
    dpa.SampledWithoutReplacementDpEvent(100, 10, dpa.LaplaceDpEvent(1.0)),
    dpa.ComposedDpEvent([dpa.GaussianDpEvent(1.0), dpa.SingleEpochTreeAggregationDpEvent(1.0, 8)]),
    dpa.PoissonSampledDpEvent(0.1, dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(1.0))),
    dpa.PoissonSampledDpEvent(0.1, dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(1.0), 2)),
    dpa.GaussianDpEvent(0.0),
    dpa.NoOpDpEvent(),
    dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1.0), 0),
]


@pytest.mark.parametrize("event", UNMAPPED, ids=lambda e: type(e).__name__)
def test_events_without_a_mechanism_are_refused_by_name(event: Any) -> None:
    with pytest.raises(ValueError, match=r"DpEvent|noise_multiplier"):
        interop.from_dp_event(event)


@pytest.mark.parametrize("mechanism", [ALLOCATION, SHUFFLED, ja.DiscretePair((0.75, 0.25), (0.25, 0.75))])
def test_mechanisms_without_an_event_are_refused_by_name(mechanism: Any) -> None:
    with pytest.raises(ValueError, match=f"no event for {type(mechanism).__name__}"):
        interop.to_dp_event(mechanism)


@pytest.mark.parametrize("mechanism", [ja.Gaussian(np.ones(2)), "gaussian"])
def test_an_event_holds_one_mechanism(mechanism: Any) -> None:
    with pytest.raises(ValueError, match="mechanism="):
        interop.MechanismDpEvent(mechanism)


def test_events_compare_hash_and_serialise() -> None:
    event = interop.MechanismDpEvent(ja.Gaussian(np.float64(1.0)))
    assert event == interop.MechanismDpEvent(GAUSSIAN)
    assert len({event, interop.MechanismDpEvent(GAUSSIAN)}) == 1
    assert pickle.loads(pickle.dumps(event)) == event
    assert dpa.DpEvent.from_named_tuple(event.to_named_tuple()) == event


# --- accountants ---


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # their inf - inf
class TestContract(privacy_accountant_test.PrivacyAccountantTest):  # type: ignore[misc]
    """What dp_accounting asks of every accountant."""

    def _make_test_accountants(self) -> list[Any]:
        return [interop.PLDAccountant(), interop.RdpAccountant(), interop.CertifiedAccountant()]


def test_pld_accountant_adds_our_events_to_theirs() -> None:
    accountant = interop.PLDAccountant()
    accountant.compose(interop.MechanismDpEvent(ALLOCATION), 5).compose(dpa.GaussianDpEvent(4.0))
    accountant.compose(dpa.SelfComposedDpEvent(interop.MechanismDpEvent(LAPLACE), 2))
    interval = ja.epsilon_interval(ja.Composed((ALLOCATION, ja.Gaussian(4.0), LAPLACE), (5, 1, 2)), 1e-6)
    assert interval.lower <= accountant.get_epsilon(1e-6) <= (1 + CLOSE) * interval.upper
    assert accountant.ledger.events[0] == dpa.SelfComposedDpEvent(interop.MechanismDpEvent(ALLOCATION), 5)


def test_pld_accountant_takes_events_without_a_mechanism_here() -> None:
    truncated = dpa.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 1.0)
    alone = interop.PLDAccountant(REPLACE_SPECIAL).compose(truncated).get_epsilon(1e-6)
    both = interop.PLDAccountant(REPLACE_SPECIAL).compose(truncated).compose(interop.MechanismDpEvent(ALLOCATION))
    assert max(alone, ja.epsilon(ALLOCATION, 1e-6)) < both.get_epsilon(1e-6) < math.inf


def test_shuffled_reports_compose_in_their_adjacency() -> None:
    event = interop.MechanismDpEvent(SHUFFLED)
    found = interop.PLDAccountant(REPLACE_ONE).compose(event, 3).get_epsilon(1e-6)
    lower = ja.compose(ja.pld(SHUFFLED, bound=ja.Bound.LOWER), 3).epsilon(1e-6)
    assert lower <= found <= (1 + CLOSE) * lower
    for relation in (dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE_SPECIAL):
        for make in (interop.PLDAccountant, interop.CertifiedAccountant):
            assert not make(relation).supports(event)


@pytest.mark.parametrize(
    "make",
    [
        lambda relation: interop.PLDAccountant(relation),
        lambda relation: interop.RdpAccountant(neighboring_relation=relation),
        lambda relation: interop.CertifiedAccountant(relation),
    ],
    ids=["pld", "rdp", "certified"],
)
def test_adjacency_is_checked(make: Any) -> None:
    event = interop.MechanismDpEvent(ALLOCATION)
    assert make(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE).supports(event)
    assert make(REPLACE_SPECIAL).supports(event)
    with pytest.raises(dpa.UnsupportedEventError, match="the bound is for: add or remove one record"):
        make(REPLACE_ONE).compose(dpa.SelfComposedDpEvent(event, 2))


@pytest.mark.parametrize("make", [interop.PLDAccountant, interop.CertifiedAccountant])
def test_nothing_lost_costs_nothing(make: Any) -> None:
    accountant = make().compose(interop.MechanismDpEvent(ja.PoissonSampled(GAUSSIAN, 0.0, 10)))
    assert accountant.get_epsilon(1e-9) == 0.0


def test_rdp_accountant_adds_our_curves_to_theirs() -> None:
    orders = np.arange(2.0, 40.0)
    run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000)
    theirs = interop.RdpAccountant(orders).compose(dpa.GaussianDpEvent(5.0), 2)
    expected = ja.compose([ja.rdp(run, orders), ja.rdp(ja.Gaussian(5.0), orders)], [10, 2])
    for event in (interop.MechanismDpEvent(run), interop.RdpCurveDpEvent(ja.rdp(run, orders))):
        accountant = interop.RdpAccountant(orders).compose(event, 10).compose(dpa.GaussianDpEvent(5.0), 2)
        np.testing.assert_allclose(accountant.rdp, expected.values, rtol=1e-14)
        assert accountant.get_epsilon(1e-6) == pytest.approx(ja.epsilon(expected, 1e-6), rel=1e-12)
        assert accountant.get_epsilon(1e-6) > theirs.get_epsilon(1e-6)


def test_rdp_accountant_agrees_with_theirs_at_their_orders() -> None:
    ours = interop.RdpAccountant().compose(interop.MechanismDpEvent(SAMPLED), 100)
    theirs = dpa.rdp.RdpAccountant().compose(interop.to_dp_event(SAMPLED), 100)
    whole = theirs.orders == np.rint(theirs.orders)
    np.testing.assert_allclose(ours.rdp[whole], theirs.rdp[whole], rtol=1e-9)
    assert np.all(ours.rdp <= theirs.rdp * (1 + 1e-9))  # theirs is up to 25 % too large between 1 and 2


def test_missing_orders_are_read_from_above() -> None:
    curve = ja.rdp(GAUSSIAN, orders=[16, 2, 4, 8])
    accountant = interop.RdpAccountant([1.5, 2, 3, 4, 5, 16, 17]).compose(interop.RdpCurveDpEvent(curve))
    np.testing.assert_allclose(accountant.rdp, [1.0, 1.0, 2.0, 2.0, 4.0, 8.0, math.inf], rtol=1e-14)
    assert accountant.get_epsilon(1e-6) < math.inf


def test_rdp_accountant_refuses_what_has_no_curve() -> None:
    mixture = ja.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5))
    for mechanism in (mixture, ja.Composed((GAUSSIAN, mixture))):
        with pytest.raises(dpa.UnsupportedEventError, match="no Renyi divergences"):
            interop.RdpAccountant().compose(interop.MechanismDpEvent(mechanism))
    with pytest.raises(ValueError, match="batch"):
        interop.RdpCurveDpEvent(ja.rdp(ja.Gaussian(np.array([1.0, 2.0])), [2, 3]))
    curve = dataclasses.replace(ja.rdp(GAUSSIAN, [2, 3]), bound=ja.Bound.ESTIMATE)
    with pytest.raises(ValueError, match="upper bound"):
        interop.RdpCurveDpEvent(curve)


def test_certified_accountant_is_our_answer() -> None:
    step = interop.to_dp_event(SAMPLED)
    accountant = interop.CertifiedAccountant()
    accountant.compose(step, 60).compose(dpa.SelfComposedDpEvent(step, 40))
    run = ja.Composed(SAMPLED, 100)
    assert accountant.mechanism == run
    assert accountant.get_epsilon(1e-6) == ja.epsilon(run, 1e-6)
    assert accountant.get_delta(1.0) == ja.delta(run, 1.0)
    theirs = dpa.pld.PLDAccountant(value_discretization_interval=GRID).compose(step, 100)
    assert accountant.get_epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=0.02)
    assert accountant.get_delta(1.0) == pytest.approx(theirs.get_delta(1.0), rel=0.05)


@pytest.mark.parametrize(
    "event",
    [
        dpa.GaussianDpEvent(0.0),
        dpa.LaplaceDpEvent(0.0),
        dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(0.0)),
        dpa.PoissonSampledDpEvent(0.1, dpa.NonPrivateDpEvent()),
    ],
)
def test_no_noise_is_no_privacy(event: Any) -> None:
    accountant = interop.CertifiedAccountant().compose(event)
    assert (accountant.get_epsilon(0.5), accountant.get_delta(1.0)) == (math.inf, 1.0)


def test_certified_accountant_refuses_by_name() -> None:
    event = dpa.ComposedDpEvent([dpa.UnsupportedDpEvent()])
    with pytest.raises(dpa.UnsupportedEventError, match="UnsupportedDpEvent has no jaxacct mechanism"):
        interop.CertifiedAccountant().compose(event)


def test_fixed_batches_are_poisson_batches_of_half_the_noise() -> None:
    found = interop.from_dp_event(dpa.SampledWithoutReplacementDpEvent(1000, 20, dpa.GaussianDpEvent(3.0)))
    assert found.mechanism == ja.Gaussian(1.5)
    assert 0.02 <= found.sampling_prob <= 0.02 * (1 + 1e-15)


def test_events_of_batches_have_answers_in_every_adjacency() -> None:
    event, run = dpa.SampledWithoutReplacementDpEvent, ja.FixedBatches(ja.Gaussian(3.0), 1000, 20, 5)
    cut, cut_run = dpa.TruncatedSubsampledGaussianDpEvent, ja.TruncatedPoisson(ja.Gaussian(1.0), 0.01, 1000, 20, 5)
    for relation, name in ((REPLACE_ONE, "replace-one"), (REPLACE_SPECIAL, "zero-out")):
        for made, same in ((event(1000, 20, dpa.GaussianDpEvent(3.0)), run), (cut(1000, 0.01, 20, 1.0), cut_run)):
            found = interop.CertifiedAccountant(relation).compose(made, 5).get_epsilon(1e-5)
            assert found == pytest.approx(ja.epsilon(same, 1e-5, neighboring_relation=name), rel=1e-2)
    sampled = dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(2.0))
    both = interop.CertifiedAccountant(REPLACE_ONE).compose(sampled, 3).compose(dpa.GaussianDpEvent(6.0))
    whole = ja.Composed((ja.PoissonSampled(ja.Gaussian(2.0), 0.1, 3), ja.Gaussian(6.0)), (1, 1))
    assert both.get_epsilon(1e-5) == pytest.approx(ja.epsilon(whole, 1e-5, neighboring_relation=ONE), rel=2e-3)
    once = interop.from_dp_event(dpa.SampledWithReplacementDpEvent(100, 10, dpa.GaussianDpEvent(1.0)))
    assert once == ja.FixedBatches(ja.Gaussian(1.0), 100, 10, with_replacement=True, num_steps=1)
    wrapped = interop.MechanismDpEvent(run)
    for kind in (interop.CertifiedAccountant, interop.PLDAccountant):
        assert kind().supports(wrapped)
        assert not kind(neighboring_relation=REPLACE_SPECIAL).supports(wrapped)


def _named(name: str, **fields: Any) -> Any:
    """An event of a class that the installed release may lack."""
    kind = getattr(dpa.dp_event, name, None) or attr.make_class(name, list(fields), (dpa.DpEvent,), frozen=True)
    return kind(**fields)


READ = [
    (_named("EpsilonDeltaDpEvent", epsilon=0.5, delta=1e-6), ja.EpsilonDelta(0.5, 1e-6)),
    (_named("ZCDpEvent", rho=0.1, xi=0.2), ja.ZCdp(0.1, 0.2)),
    (_named("DiscreteLaplaceDpEvent", noise_parameter=0.3, sensitivity=2), ja.DiscreteLaplace(0.3, 2)),
    (_named("DiscreteGaussianDpEvent", sigma=2.0, sensitivity=3.0, dimension=1), ja.DiscreteGaussian(2.0, 3)),
    (_named("ExponentialMechanismDpEvent", epsilon=0.4), ja.Exponential(0.4)),
    (_named("PermuteAndFlipDpEvent", epsilon=0.4), ja.PermuteAndFlip(0.4)),
]


@pytest.mark.parametrize(("event", "mechanism"), READ, ids=lambda x: type(x).__name__)
def test_further_events_are_read(event: Any, mechanism: Any) -> None:
    assert interop.from_dp_event(event) == mechanism
    accountant = interop.CertifiedAccountant().compose(event, 2)
    assert accountant.get_epsilon(1e-5) == ja.epsilon(ja.Composed(mechanism, 2), 1e-5)
    if hasattr(dpa.dp_event, type(event).__name__) and type(event).__name__ != "DiscreteGaussianDpEvent":
        assert interop.to_dp_event(mechanism) == event


def test_the_best_of_repeated_runs_is_read() -> None:
    once, select = dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(2.0)), dpa.dp_event.RepeatAndSelectDpEvent
    run = ja.PoissonSampled(ja.Gaussian(2.0), 0.1, 5)
    event = select(dpa.SelfComposedDpEvent(once, 5), 4.0, 0.5)
    assert interop.from_dp_event(event) == ja.PrivateSelection(run, 4.0, 0.5)
    assert interop.from_dp_event(select(once, 1, 0.5)) == ja.PoissonSampled(ja.Gaussian(2.0), 0.1, num_steps=1)
    pure = interop.CertifiedAccountant().compose(select(dpa.LaplaceDpEvent(2.0), 1000.0, 1.0))
    assert 1.49 <= pure.get_epsilon(1e-10) <= 1.5  # three times that of a run at most
    accountant = interop.CertifiedAccountant().compose(event, 2).compose(dpa.GaussianDpEvent(8.0))
    theirs = dpa.rdp.RdpAccountant().compose(event, 2).compose(dpa.GaussianDpEvent(8.0))
    assert accountant.get_epsilon(1e-6) <= theirs.get_epsilon(1e-6) * (1 + 1e-8)


def test_a_discrete_gaussian_vector_counts_as_its_zcdp_guarantee() -> None:
    event = _named("DiscreteGaussianDpEvent", sigma=2.0, sensitivity=1.5, dimension=None)
    found = interop.from_dp_event(event)
    assert type(found) is ja.ZCdp
    assert 0.28125 <= found.rho <= 0.28125 * (1 + 1e-14)


@pytest.mark.parametrize(("prob", "count"), [(0.3, 2), (0.25, 7), (1.0, 3)])
def test_randomized_response_in_both_of_its_adjacencies(prob: float, count: int) -> None:
    event, told, other = dpa.RandomizedResponseDpEvent(prob, count), 1 - prob + prob / count, prob / count
    replaced, empty = (interop.CertifiedAccountant(r).compose(event) for r in (REPLACE_ONE, REPLACE_SPECIAL))
    for epsilon in (0.0, 0.2, 0.9):
        growth = math.exp(epsilon)
        assert replaced.get_delta(epsilon) == pytest.approx(max(0.0, told - growth * other), rel=1e-9, abs=1e-12)
        remove = max(0.0, told - growth / count)
        add = max(0.0, (1 - 1 / count) - growth * (1 - told))
        assert empty.get_delta(epsilon) == pytest.approx(max(remove, add), rel=1e-9, abs=1e-12)
    assert not interop.CertifiedAccountant().supports(event)
    theirs = dpa.pld.PLDAccountant(REPLACE_ONE, 1e-3).compose(dpa.SelfComposedDpEvent(event, 1)) if prob < 1 else None
    if theirs is not None:
        assert replaced.get_epsilon(1e-3) <= theirs.get_epsilon(1e-3) + 1e-9
    with_others = interop.CertifiedAccountant(REPLACE_ONE).compose(event, 2).compose(dpa.GaussianDpEvent(4.0))
    assert with_others.get_epsilon(1e-5) >= ja.epsilon(ja.Gaussian(2.0), 1e-5)


def test_parts_of_one_event_that_do_not_compose_are_refused_together() -> None:
    """The parts were looked at one by one, and all but the first left out: 0.052 where 20 is lost."""
    sampled = dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(2.0))
    for other in (dpa.ZCDpEvent(5.0), dpa.RandomizedResponseDpEvent(0.1, 5)):
        for parts in ([sampled, other], [other, dpa.SelfComposedDpEvent(sampled, 100)]):
            event = dpa.ComposedDpEvent(parts)
            accountant = interop.CertifiedAccountant(REPLACE_ONE)
            assert not accountant.supports(event)
            with pytest.raises(dpa.UnsupportedEventError, match="do not compose here"):
                accountant.compose(event)
            assert accountant.get_epsilon(1e-6) == 0.0


def test_counts_are_whole_and_of_any_size() -> None:
    noise, several = dpa.GaussianDpEvent(1e6), dpa.SelfComposedDpEvent
    wide = several(several(noise, np.int32(100_000)), np.int32(100_000))
    assert interop.from_dp_event(wide).counts == (10**10,)
    for count in (-3, 0.5):
        for event in (several(noise, count), dpa.ComposedDpEvent([noise, several(noise, count)])):
            with pytest.raises(ValueError, match=f"count={count} must be a whole number"):
                interop.from_dp_event(event)
    with pytest.raises(dpa.UnsupportedEventError, match=r"num_buckets=2\.7"):
        interop.CertifiedAccountant(REPLACE_ONE).compose(dpa.RandomizedResponseDpEvent(0.1, 2.7))
    for lists in (([0.0, 5.0], [1.0]), ([5.0], []), ([], [])):  # of different lengths, or of nothing: not without loss
        assert not interop.CertifiedAccountant().supports(
            _named("MixtureOfGaussiansDpEvent", standard_deviation=1.0, sensitivities=lists[0], sampling_probs=lists[1])
        )


@pytest.mark.parametrize("count", [2, 3, 7, 1000])
@pytest.mark.parametrize("prob", [1e-9, 0.1, 0.3, 0.7, 0.9, 0.99, 0.9999, 1 - 1e-9, 1.0])
def test_randomized_responses_are_pairs_that_lose_no_less(prob: float, count: int) -> None:
    event = dpa.RandomizedResponseDpEvent(prob, count)
    other = Fraction(prob) / count
    told = 1 - other * (count - 1)
    high, low, same = map(Fraction, elsewhere(event, ja.NeighboringRelation.REPLACE_ONE).p)
    assert same <= (count - 2) * other
    assert high * other >= low * told
    special = elsewhere(event, ja.NeighboringRelation.REPLACE_SPECIAL)
    with_it, without = [Fraction(x) for x in special.p], [Fraction(x) for x in special.q]
    assert with_it[0] * Fraction(1, count) >= told * without[0]
    assert with_it[1] * (1 - Fraction(1, count)) <= (1 - told) * without[1]


@pytest.mark.parametrize(("steps", "height"), [(1, 1), (2, 2), (3, 2), (4, 3), (1600, 11), ([7, 8, 3], 4)])
def test_a_tree_is_one_gaussian_release(steps: Any, height: int) -> None:
    """By listing the complete dyadic ranges that hold a leaf."""
    longest = steps if isinstance(steps, int) else max(steps)
    ranges = [(k * 2**j, (k + 1) * 2**j) for j in range(12) for k in range(longest) if (k + 1) * 2**j <= longest]
    assert max(sum(low <= leaf < high for low, high in ranges) for leaf in range(min(longest, 64))) == height
    event = dpa.SingleEpochTreeAggregationDpEvent(3.0, steps)
    found = interop.CertifiedAccountant(REPLACE_SPECIAL).compose(event, 2).get_epsilon(1e-6)
    assert found == pytest.approx(ja.epsilon(ja.Composed(ja.Gaussian(3.0 / math.sqrt(height)), 2), 1e-6), rel=1e-12)
    assert not interop.CertifiedAccountant().supports(event)


def test_replaced_records_move_a_sum_twice_as_far() -> None:
    accountant = interop.CertifiedAccountant(REPLACE_ONE).compose(dpa.GaussianDpEvent(3.0), 2)
    assert accountant.get_epsilon(1e-6) == ja.epsilon(ja.Composed(ja.Gaussian(1.5), 2), 1e-6)
    for event in (dpa.LaplaceDpEvent(1.0), dpa.dp_event.DiscreteLaplaceDpEvent(1.0, 1)):
        assert not interop.CertifiedAccountant(REPLACE_ONE).supports(event)
    with pytest.raises(dpa.UnsupportedEventError, match="account for them apart"):
        accountant.compose(interop.MechanismDpEvent(SHUFFLED))


@pytest.mark.parametrize("make", [interop.PLDAccountant, interop.CertifiedAccountant])
def test_their_calibration_drives_our_mechanisms(make: Any) -> None:
    def event(noise_multiplier: float) -> Any:
        return interop.MechanismDpEvent(ja.RandomAllocation(ja.Gaussian(noise_multiplier), num_steps=20))

    bracket = dpa.ExplicitBracketInterval(0.5, 2.0)
    found = dpa.calibrate_dp_mechanism(make, event, 1.5, 1e-5, bracket, tol=0.01)
    assert ja.epsilon_interval(event(found).mechanism, 1e-5).upper <= 1.5 * (1 + CLOSE)
    assert ja.epsilon_interval(event(found - 0.02).mechanism, 1e-5).lower >= 1.5 * (1 - CLOSE)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RandomAllocationDpEvent(dpa.DpEvent):  # type: ignore[misc]
    """As in dp_accounting's repository; its release of 0.6.0 has none."""

    event: Any
    num_selected: int
    num_steps: int


def test_an_event_that_the_installed_release_lacks_is_read_by_its_name() -> None:
    event = RandomAllocationDpEvent(dpa.GaussianDpEvent(0.8), 2, 50)
    run = ja.RandomAllocation(ja.Gaussian(0.8), num_steps=50, num_selected=2)
    assert interop.from_dp_event(event) == run
    accountant = interop.CertifiedAccountant().compose(event, 3)
    assert accountant.get_epsilon(1e-6) == ja.epsilon(ja.Composed(run, 3), 1e-6)
    newer = attr.make_class("RandomAllocationDpEvent", ["event", "num_selected", "num_steps", "noise"], (dpa.DpEvent,))
    with pytest.raises(ValueError, match=r"not those of RandomAllocationDpEvent.*\(noise\)"):
        interop.from_dp_event(newer(dpa.GaussianDpEvent(0.8), 2, 50, 1.0))


@pytest.mark.parametrize(
    "event",
    [
        dpa.PoissonSampledDpEvent(0, dpa.GaussianDpEvent(1.0)),
        dpa.PoissonSampledDpEvent(0, dpa.LaplaceDpEvent(0.0)),
        RandomAllocationDpEvent(dpa.GaussianDpEvent(0.0), 0, 10),
        interop.MechanismDpEvent(ja.PoissonSampled(GAUSSIAN, 0.0, num_steps=1)),
    ],
)
def test_who_never_takes_part_loses_nothing(event: Any) -> None:
    accountant = interop.CertifiedAccountant().compose(event)
    assert (accountant.get_epsilon(0.0), accountant.get_delta(0.0)) == (0.0, 0.0)
    assert (accountant.get_true_positive_rates(0.5), accountant.get_gdp_parameter_estimate()) == (0.5, 0.0)


def test_rates_and_the_gaussian_parameter_are_those_of_the_tradeoff() -> None:
    accountant = interop.CertifiedAccountant().compose(dpa.GaussianDpEvent(math.sqrt(3)), 3)
    assert accountant.get_true_positive_rates(0.1) == pytest.approx(0.389143691645, abs=1e-9)
    assert accountant.get_gdp_parameter_estimate() == pytest.approx(1.0, abs=1e-3)
    sampled = interop.CertifiedAccountant().compose(interop.to_dp_event(SAMPLED), 20)
    rates = np.array([1e-3, 0.05, 0.5])
    expected = 1.0 - ja.tradeoff(ja.Composed(SAMPLED, 20), rates)
    np.testing.assert_array_equal(sampled.get_true_positive_rates(rates), expected)
    alone = interop.CertifiedAccountant().compose(dpa.GaussianDpEvent(0.0))
    assert (alone.get_true_positive_rates(0.1), alone.get_gdp_parameter_estimate()) == (1.0, math.inf)


def test_a_delta_of_zero_asks_for_the_largest_loss() -> None:
    accountant = interop.CertifiedAccountant().compose(dpa.LaplaceDpEvent(2.0), 3)
    assert 1.5 <= accountant.get_epsilon(0.0) <= 1.5 * (1 + 1e-12)
    assert math.isinf(interop.CertifiedAccountant().compose(dpa.GaussianDpEvent(2.0)).get_epsilon(0.0))


# --- imports ---


@pytest.mark.parametrize("package", ["dp_accounting", "attr"])
def test_interop_needs_dp_accounting_only_when_used(package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from jaxacct import interop\n"
        "interop.from_jax_privacy\n"
        "try:\n    interop.to_dp_event\n"
        "except ImportError as error:\n    print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "needs dp_accounting: pip install 'jaxacct[interop]'" in shown


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (interop.to_privacy_loss_distribution, "plds=1.0 must be a Pld"),
        (interop.from_privacy_loss_distribution, "distribution=1.0 must be a PrivacyLossDistribution"),
        (interop.RdpCurveDpEvent, "curve=1.0 must be an RdpCurve"),
    ],
)
def test_something_else_is_refused(ask: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(1.0)


def test_public_names() -> None:
    assert list(interop.__all__) == sorted(interop.__all__)
    assert set(interop.__all__) <= set(dir(interop))
    for name in interop.__all__:
        assert ">>>" in getattr(interop, name).__doc__
    with pytest.raises(AttributeError, match="no attribute"):
        _ = interop.Accountant
