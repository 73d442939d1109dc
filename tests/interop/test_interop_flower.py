"""Flower's accounting protocol by our bounds: beside our own answers, and inside the released package where it is."""

import inspect
import json
import types
from pathlib import Path

import pytest

import jaxacct as ja
from jaxacct.interop import FlowerAccountant

DELTA = 1e-6


class Word:
    """What the protocol reads of an enum."""

    def __init__(self, value):
        self.value = value


def config(method="poisson", relation="add-or-remove-one", **settings):
    return types.SimpleNamespace(
        **{"target_delta": DELTA, "population_size": 1000, "max_epsilon": None, **settings},
        sampling_method=Word(method),
        neighboring_relation=Word(relation),
    )


def rounds(noise=2.0, sample=10, population=1000):
    return types.SimpleNamespace(noise_multiplier=noise, sample_size=sample, population_size=population)


def composed(of, *events, **options):
    accountant = FlowerAccountant(of, **options)
    for event, count in events:
        accountant.compose(event, count)
    return accountant


POISSON = ja.PoissonSampled(ja.Gaussian(2.0), 0.01, num_steps=100)


def test_poisson_rounds_are_one_run_however_they_are_composed():
    accountant = FlowerAccountant(config())
    assert (accountant.get_epsilon(DELTA), accountant.get_delta(0.0), accountant.mechanism) == (0.0, 0.0, None)
    for _ in range(10):
        accountant.compose(rounds(), count=10)
    assert accountant.num_releases == 100
    assert accountant.mechanism == POISSON
    assert accountant.get_epsilon(DELTA) == ja.epsilon(POISSON, DELTA)
    assert accountant.get_delta(0.1) == ja.delta(POISSON, 0.1)
    accountant.compose(rounds(noise=3.0))
    whole = ja.Composed((POISSON, ja.PoissonSampled(ja.Gaussian(3.0), 0.01, 1)))
    assert accountant.get_epsilon(DELTA) == ja.epsilon(whole, DELTA)


@pytest.mark.parametrize(
    ("method", "relation", "sample", "run"),
    [
        ("without-replacement", "replace-one", 10, ja.ReplaceOne(ja.FixedBatches(ja.Gaussian(2.0), 1000, 10, 5))),
        ("without-replacement", "replace-one", 1000, ja.ReplaceOne(ja.Composed(ja.Gaussian(2.0), 5))),
        ("no-amplification", "add-or-remove-one", 1000, ja.Composed(ja.Gaussian(2.0), 5)),
        ("no-amplification", "add-or-remove-one", 10, ja.Composed(ja.Gaussian(1.0), 5)),
    ],
)
def test_other_rounds_are_what_the_sampling_makes_them(method, relation, sample, run):
    accountant = composed(config(method, relation), (rounds(sample=sample), 5))
    assert accountant.mechanism == run
    assert accountant.get_epsilon(DELTA) == ja.epsilon(run, DELTA)


def test_a_gap_costs_half_of_a_client_whose_place_another_takes():
    of = config("no-amplification")
    gap, taken = (composed(of, (rounds(), 5), leaves_gap=gap).get_epsilon(DELTA) for gap in (True, False))
    assert gap == ja.epsilon(ja.Composed(ja.Gaussian(2.0), 5), DELTA)
    # where nearly all are sampled, what is true of samples of one size is above the gap's number
    nearly = ja.epsilon_interval(ja.FixedBatches(ja.Gaussian(2.0), 1000, 990, 5), DELTA)
    assert gap < nearly.lower <= nearly.upper <= taken


def test_numbers_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "interop.md").read_text().split("## Flower")[1]
    fixed = config("without-replacement", "replace-one")
    replaced = ja.epsilon_interval(composed(fixed, (rounds(), 100)).mechanism, DELTA)
    assert f"at least {replaced.lower:.3f} | {replaced.upper:.3f} |" in page
    taken = composed(config("no-amplification"), (rounds(sample=990), 100)).get_epsilon(DELTA)
    true = ja.epsilon(ja.FixedBatches(ja.Gaussian(2.0), 1000, 990, 100), DELTA)
    assert f"{true:.1f} | {taken:.1f} |" in page
    whole = composed(config("no-amplification"), (rounds(sample=1000), 100)).get_epsilon(DELTA)
    assert f"{whole:.1f} | {whole:.1f} |" in page
    assert f"{composed(config(), (rounds(), 100)).get_epsilon(DELTA):.3f} instead of" in page


def test_a_probability_that_is_no_double_is_rounded_up():
    run = composed(config(population_size=3), (rounds(sample=1, population=3), 1)).mechanism
    assert run.sampling_prob * 3 >= 1.0
    assert run.sampling_prob > 1 / 3 or (1 / 3).as_integer_ratio()[0] * 3 >= (1 / 3).as_integer_ratio()[1]


def test_budgets_are_asked_before_a_round_and_change_nothing():
    accountant = composed(config(max_epsilon=0.23), (rounds(), 100))
    assert accountant.get_epsilon(DELTA) < 0.23
    assert not accountant.would_exceed(rounds(noise=50.0))
    assert accountant.would_exceed(rounds(), count=20)
    assert not accountant.would_exceed(rounds(), max_epsilon=1.0, count=20)
    assert accountant.num_releases == 100
    with pytest.raises(ValueError, match="max_epsilon=None must be given"):
        FlowerAccountant(config()).would_exceed(rounds())


def test_states_go_through_json_and_between_backends():
    accountant = composed(config(), (rounds(), 7), (rounds(noise=3.0), 2))
    state = json.loads(json.dumps(accountant.state_dict()))
    for backend in ("jaxacct", "rdp"):
        again = FlowerAccountant(config())
        again.load_state_dict({**state, "backend": backend, "orders": [2.0]})
        assert again.get_epsilon(DELTA) == accountant.get_epsilon(DELTA)
        assert again.num_releases == 9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 2}, "schema_version 1"),
        ({"backend": "other"}, "backend='other' must be one of"),
        ({"config": {}}, "this accountant's"),
        ({"compositions": "none"}, "must be a list"),
        ({"compositions": [{"count": 1}]}, "must be an event and its count"),
        ({"compositions": [{"event": vars(rounds(noise=0.0)), "count": 1}]}, "noise_multiplier=0.0 must be > 0"),
        ({"compositions": [{"event": vars(rounds()), "count": 0}]}, "count=0 must be a whole number"),
    ],
)
def test_states_that_are_none_are_refused_and_leave_what_is_there(change, said):
    accountant = composed(config(), (rounds(), 7))
    with pytest.raises(ValueError, match=said):
        accountant.load_state_dict({**accountant.state_dict(), **change})
    assert accountant.num_releases == 7


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FlowerAccountant(3), "must be a flwr.serverapp.PrivacyConfig: it has no target_delta"),
        (lambda: FlowerAccountant(config("poisson", "replace-one")), "must be one of 'poisson' with"),
        (lambda: FlowerAccountant(config(), leaves_gap="no"), "leaves_gap='no' must be True or False"),
        (lambda: composed(config(), (3, 1)), "it has no noise_multiplier"),
        (lambda: composed(config(), (rounds(), 1.5)), "count=1.5 must be a whole number"),
        (
            lambda: composed(config(), (rounds(sample=2000), 1)),
            r"sample_size=2000 must be a whole number in \[1, 1000\]",
        ),
        (lambda: composed(config(), (rounds(population=999), 1)), "population_size=999 must be 1000"),
        (lambda: composed(config(), (rounds(), 1)).get_epsilon(0.0), "delta=0.0 must be in"),
        (lambda: composed(config(), (rounds(), 1)).get_delta(-1.0), "epsilon=-1.0 must be >= 0"),
    ],
)
def test_what_does_not_fit_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


# Inside the released package


@pytest.fixture
def flower():
    return pytest.importorskip("flwr.serverapp")


def own_config(flower, method, relation, **settings):
    return flower.PrivacyConfig(
        target_delta=DELTA,
        population_size=1000,
        sampling_method=flower.SamplingMethod(method),
        neighboring_relation=flower.NeighboringRelation(relation),
        **settings,
    )


def test_it_has_what_the_protocol_of_the_package_asks(flower):
    names = [name for name in vars(flower.PrivacyAccountant) if not name.startswith("_")]
    assert len(names) >= 9
    for name in names:
        theirs, ours = getattr(flower.PrivacyAccountant, name), getattr(FlowerAccountant, name)
        if not isinstance(theirs, property):
            assert list(inspect.signature(theirs).parameters) == list(inspect.signature(ours).parameters), name


def test_answers_of_its_backend_are_above_ours_where_both_mean_the_same(flower):
    pytest.importorskip("dp_accounting")
    from flwr.serverapp import RdpAccountant

    of = own_config(flower, "poisson", "add-or-remove-one")
    ours, theirs = FlowerAccountant(of), RdpAccountant(of)
    for accountant in (ours, theirs):
        accountant.compose(flower.GaussianPrivacyEvent(2.0, 10, 1000), count=100)
    spent = ours.get_privacy_spent()
    assert isinstance(spent, flower.PrivacySpent)
    assert (spent.epsilon, spent.num_releases) == (ja.epsilon(POISSON, DELTA), 100)
    assert spent.epsilon < theirs.get_epsilon(DELTA)
    again = FlowerAccountant(of)
    again.load_state_dict(json.loads(json.dumps(theirs.state_dict())))
    assert again.get_privacy_spent() == spent


def test_a_strategy_of_the_package_is_accounted_by_it(flower):
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

    accountant = FlowerAccountant(own_config(flower, "no-amplification", "add-or-remove-one", max_epsilon=12.0))
    strategy = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 2.0, 1.0, 1000, accountant=accountant)
    assert strategy.privacy_spent().epsilon == 0.0
    event = flower.GaussianPrivacyEvent(2.0, 1000, 1000)
    affordable = 0
    while not accountant.would_exceed(event):
        strategy._compose_release(event)  # as its aggregation does
        affordable += 1
    assert strategy.privacy_spent().num_releases == affordable > 10
    assert strategy.privacy_spent().epsilon == ja.epsilon(ja.Composed(ja.Gaussian(2.0), affordable), DELTA) <= 12.0
