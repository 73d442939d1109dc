"""Wrong calls in Python: each a ValueError or TypeError that names the argument, its value and its range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import accounting, curves, estimation, sweeping, training

G, L = ja.Gaussian(1.0), ja.LocalRandomizer(1.0)
RUN, SAMPLED, SHUFFLED = ja.RandomAllocation(G, 100), ja.PoissonSampled(G, 0.1, 10), ja.Shuffled(L, 1000)
GRID = {"noise_multiplier": [1.0, 2.0]}

BAD_POSITIVE = (0, -1, float("nan"), float("inf"), "1", {}, True, 1j, np.array([1.0, -1.0]), np.array(["a"]))
BAD_COUNT = (0, -1, 1.5, float("nan"), float("inf"), 2**60, "3", np.array([1, 0]))
BAD_PROBABILITY = (-0.1, 1.1, float("nan"), "0.5", np.array([0.5, 2.0]))
BAD_DELTA = (0, 1, -1e-6, 2, float("nan"), "1e-6", None, True)
BAD_EPSILON = (-1, float("nan"), float("inf"), "1", None)


class GaussianDpEvent:
    """What dp_accounting calls its noise."""


def _each(name, make, values):
    """A wrong call for each value of an argument."""
    return [(f"{name}=", lambda make=make, value=value: make(value)) for value in values]


MISTAKES = [
    # what a description holds
    *_each("noise_multiplier", ja.Gaussian, BAD_POSITIVE),
    *_each("noise_multiplier", ja.Laplace, BAD_POSITIVE),
    *_each("noise_multiplier", lambda value: ja.Laplace(scale=value), BAD_POSITIVE[:4]),
    *_each("sampling_prob", lambda value: ja.PoissonSampled(G, value, num_steps=1), BAD_PROBABILITY),
    *_each("num_steps", lambda value: ja.PoissonSampled(G, 0.1, value), BAD_COUNT),
    *_each("num_steps", lambda value: ja.RandomAllocation(G, value), BAD_COUNT),
    *_each("num_selected", lambda value: ja.RandomAllocation(G, 10, value), (*BAD_COUNT, 11)),
    *_each("num_epochs", lambda value: ja.RandomAllocation(G, 10, 1, value), BAD_COUNT),
    *_each("num_reports", lambda value: ja.Shuffled(L, value), BAD_COUNT),
    *_each("num_epochs", lambda value: ja.Shuffled(L, 10, num_rounds=value), BAD_COUNT[:3]),
    *_each("local_epsilon", ja.LocalRandomizer, (-1, float("nan"), float("inf"), "1")),
    *_each("local_delta", lambda value: ja.LocalRandomizer(1.0, value), BAD_PROBABILITY),
    *_each("num_categories", lambda value: ja.KaryRandomizedResponse(1.0, value), (1, 0, 2.5, "2")),
    *_each("check_in_prob", lambda value: ja.CheckIn(L, 10, value), BAD_PROBABILITY),
    *_each("dropout_prob", lambda value: ja.CheckIn(L, 10, 0.1, dropout_prob=value), BAD_PROBABILITY[:3]),
    *_each("counts", lambda value: ja.Composed(G, value), (0, 1.5, "2", -1)),
    *_each("mechanism", lambda value: ja.RandomAllocation(value, 10), (1.0, "Gaussian", None, L, ja.Gaussian)),
    *_each("mechanism", lambda value: ja.Shuffled(value, 10), (1.0, G, SHUFFLED, ja.LocalRandomizer)),
    ("must be KaryRandomizedResponse", lambda: ja.Shuffled(ja.RandomizedResponse(1.0, 4), 10)),
    *_each("probabilities", ja.FiniteRandomizer, ([[0.5, 0.5], [1.0]], [["a"]], None, [[0.5, 0.6], [0.5, 0.5]], 0.5)),
    *_each("mechanisms", ja.Composed, (1.0, L, [G, 2.0])),
    ("mechanisms=", lambda: ja.Composed([])),
    ("counts has", lambda: ja.Composed([G, G], (1, 2, 3))),
    ("noise_multipliers=", lambda: ja.ScheduledAllocation((), 10)),
    ("num_steps has", lambda: ja.ScheduledAllocation((1.0, 2.0), (1, 2, 3))),
    ("steps_done=", lambda: ja.PartialAllocation(G, 10, 11)),
    # what is asked
    *_each("target_delta", lambda value: ja.epsilon(RUN, value), BAD_DELTA),
    *_each("target_epsilon", lambda value: ja.delta(RUN, value), BAD_EPSILON),
    *_each("target_delta", lambda value: ja.epsilon_interval(RUN, value), BAD_DELTA[:5]),
    *_each("target_epsilon", lambda value: ja.delta_interval(RUN, value), BAD_EPSILON[:4]),
    *_each("mechanism", lambda value: ja.epsilon(value, 1e-6), (1.0, None, "run", L, ja.Gaussian, [G])),
    *_each("method", lambda value: ja.epsilon(RUN, 1e-6, method=value), ("best", "", 3, "threshold test", [])),
    *_each("direction", lambda value: ja.epsilon(RUN, 1e-6, direction=value), ("both", 1, "", ja.Bound.UPPER)),
    *_each("direction", lambda value: ja.epsilon(SHUFFLED, 1e-6, direction=value), ("remove", ja.Direction.ADD)),
    *_each("precision", lambda value: ja.epsilon(RUN, 1e-6, precision=value), (0, -1, float("nan"), "1")),
    ("orders of shape", lambda: ja.rdp(G, [])),
    *_each("orders", lambda value: ja.rdp(G, value), ([0.0], [0.5, 2], [float("nan")], "x", [-float("inf")])),
    *_each("bound", lambda value: ja.pld(G, bound=value), ("both", None, ja.Direction.ADD)),
    *_each("resolution", lambda value: ja.pld(G, resolution=value), (0, -1, "fine", float("inf"))),
    *_each("tail", lambda value: ja.pld(G, tail=value), (0, 1, "thin")),
    *_each("target_epsilon", lambda value: ja.calibrate(RUN, "noise_multiplier", value, 1e-6), (-1, "1", None)),
    *_each("target_delta", lambda value: ja.calibrate(RUN, "noise_multiplier", 1.0, value), (0, 1, "1", None)),
    *_each("field", lambda value: ja.calibrate(RUN, value, 1.0, 1e-6), ("sigma", "", "mechanism", "sampling_prob")),
    *_each("tolerance", lambda v: ja.calibrate(RUN, "noise_multiplier", 1.0, 1e-6, tolerance=v), (0, 1, "fine")),
    ("field='dropout_prob'", lambda: ja.calibrate(ja.CheckIn(L, 10, 0.1), "dropout_prob", 1.0, 1e-6)),
    *_each("grid", lambda value: ja.sweep(RUN, value, target_delta=1e-6), ({}, [1.0], "noise_multiplier")),
    (r"grid\['noise_multiplier'\]", lambda: ja.sweep(RUN, {"noise_multiplier": 1.0}, target_delta=1e-6)),
    (r"grid\['noise_multiplier'\]", lambda: ja.sweep(RUN, {"noise_multiplier": ["a"]}, target_delta=1e-6)),
    ("noise_multiplier=", lambda: ja.sweep(RUN, {"noise_multiplier": [1.0, -1.0]}, target_delta=1e-6)),
    ("field='sigma'", lambda: ja.sweep(RUN, {"sigma": [1.0]}, target_delta=1e-6)),
    ("target_delta", lambda: ja.sweep(RUN, GRID)),
    ("target_delta", lambda: ja.sweep(RUN, GRID, target_delta=1e-6, target_epsilon=1.0)),
    *_each("layout", lambda value: ja.sweep(RUN, GRID, target_delta=1e-6, layout=value), ("grid", 1, None)),
    *_each("chunk_size", lambda v: ja.sweep(RUN, GRID, target_delta=1e-6, chunk_size=v), (0, -1, 1.5, "2")),
    *_each("out", lambda value: ja.sweep(RUN, GRID, target_delta=1e-6, out=value), ("/nonexistent/rows.csv", 1, True)),
    *_each("path", sweeping.SweepResult.load, (1, True, None)),
    *_each(
        "false_positive_rates", lambda v: ja.report(RUN, 1e-6, false_positive_rates=v), (0.1, None, [0.1, 2.0], "x")
    ),
    ("must be read by jaxacct.interop.from_dp_event", lambda: ja.epsilon(GaussianDpEvent(), 1e-6)),
    # what is drawn and counted
    *_each("num_records", lambda value: training.batches(SAMPLED, value, 0), (None, [], 0, 1.5, "9")),
    *_each("max_batch_size", lambda v: training.batches(SAMPLED, 99, 0, max_batch_size=v), ([], 0, 1.5, "9")),
    *_each("shard", lambda value: training.batches(SAMPLED, 99, 0, shard=value), (None, 1, (0,), (0.5, 2), ("0", 1))),
    *_each("num_steps", lambda value: training.batches(SAMPLED, 99, 0).after(value), (None, -1, 1.5, "2", [])),
    *_each("epsilon", lambda value: training.batches(SAMPLED, 99, 0).excess_delta(value), (None, -1, "2", [])),
    ("records=int", lambda: training.batches(SAMPLED, 99, 0).source(3)),
    ("records=ndarray", lambda: training.batches(SAMPLED, 99, 0).source(np.array(1.0))),
    ("len.records.=3", lambda: training.batches(SAMPLED, 99, 0).source([1, 2, 3])),
    *_each("style", lambda value: ja.report(RUN, 1e-6, style=value), ("html", 1, None)),
    ("target_delta=None and target_epsilon=None", lambda: ja.report(RUN)),
    ("target_delta=1e-06 and target_epsilon=1", lambda: ja.report(RUN, 1e-6, target_epsilon=1)),
    *_each("false_positive_rate", lambda value: ja.tradeoff(RUN, value), (-0.1, 1.1, "x", [0.1, 2.0])),
    *_each("target_epsilon", lambda value: estimation.estimate_delta(RUN, value, num_samples=9, seed=0), (-1, "x")),
    *_each("num_samples", lambda v: estimation.estimate_delta(RUN, 1.0, num_samples=v, seed=0), (0, 1.5, "9")),
    *_each("seed", lambda v: estimation.estimate_delta(RUN, 1.0, num_samples=9, seed=v), (-1, 1.5, "9")),
    *_each("method", lambda v: estimation.estimate_delta(RUN, 1.0, num_samples=9, seed=0, method=v), ("best", 1)),
    # traced where numbers must be known
    ("concrete", lambda: jax.jit(lambda s: ja.epsilon_interval(ja.Gaussian(s), 1e-6))(1.0)),
    ("concrete", lambda: jax.jit(lambda s: ja.pld(ja.Gaussian(s)).masses)(1.0)),
    (
        "concrete",
        lambda: jax.jit(lambda s: ja.sweep(ja.PoissonSampled(ja.Gaussian(None), s, 1), GRID, target_delta=0.1))(0.1),
    ),
    ("method=", lambda: jax.jit(lambda s: ja.epsilon(ja.Gaussian(s), 1e-6, method="pld"))(1.0)),
    ("precision=", lambda: jax.jit(lambda s: ja.epsilon(ja.Gaussian(s), 1e-6, precision=0.1))(1.0)),
    ("orders", lambda: jax.jit(lambda a: ja.rdp(G, a).values)(jnp.array([2.0]))),
    # shapes and mixtures
    ("must broadcast", lambda: ja.epsilon(ja.Gaussian(np.ones(2)), np.full(3, 1e-6))),
    ("must broadcast", lambda: ja.RandomAllocation(G, np.array([10, 20]), np.array([1, 2, 3]))),
    ("must share one adjacency", lambda: ja.epsilon(ja.Composed([G, SHUFFLED]), 1e-6)),
    ("must share one adjacency", lambda: ja.pld(ja.Composed([ja.pld(G), ja.PartialShuffledBatches(G, 9, 3)]))),
    ("must be scalars", lambda: ja.epsilon_interval(ja.Gaussian(np.ones(2)), 1e-6)),
    ("must wrap one of", lambda: ja.epsilon(ja.RandomAllocation(RUN, 10), 1e-6)),
    ("must wrap one of", lambda: ja.epsilon(ja.PoissonSampled(ja.Group(RUN, 2), 0.1, 1), 1e-6)),
    ("as records are drawn", lambda: ja.PoissonSampled(SHUFFLED, 0.1, 1)),
    ("missing", lambda: ja.epsilon(RUN)),
    ("missing", lambda: ja.RandomAllocation(G)),
    ("unexpected keyword argument 'sigma'; did you mean noise_multiplier", lambda: ja.Gaussian(sigma=1.0)),
    ("did you mean sampling_prob", lambda: ja.PoissonSampled(G, sample_rate=0.1, num_steps=1)),
    ("did you mean num_steps", lambda: ja.RandomAllocation(G, steps=3)),
    ("did you mean num_reports", lambda: ja.Shuffled(L, num_users=3)),
    ("its fields are mechanism, num_records", lambda: ja.FixedBatches(G, x=3)),
    ("unexpected keyword", lambda: ja.epsilon(RUN, delta=1e-6)),
    ("one field", lambda: ja.Laplace(noise_multiplier=1.0, scale=1.0)),
    ("noise_multiplier=None", lambda: ja.epsilon(ja.Gaussian(None), 1e-6)),
    ("target_delta=None and target_epsilon=None", lambda: ja.compare(RUN)),
    ("target_delta=None and target_epsilon=None", lambda: accounting.deciding(RUN)),
    *_each("direction", lambda value: curves.dominating_pld(0.1, [0.5], [0.5], value), ("both", None)),
]


def test_there_are_hundreds_of_mistakes():
    from test_people_commands import WRONG

    assert len(MISTAKES) + len(WRONG) >= 200


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=lambda n: f"{n}-{MISTAKES[n][0]}")
def test_a_mistake_is_named(number):
    words, call = MISTAKES[number]
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        call()
    said = str(caught.value)
    assert type(caught.value).__module__ == "builtins", type(caught.value)
    assert len(said.splitlines()) == 1 or "array" in said, said
