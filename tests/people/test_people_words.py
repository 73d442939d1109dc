"""What people type and paste: words in place of enums, names of methods, lists and series, lines that run."""

import contextlib
import io
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import estimation, sweeping

RUN = ja.RandomAllocation(ja.Gaussian(1.0), 100)
QUICK = math.inf


@pytest.mark.parametrize("direction", ja.Direction)
def test_words_do_for_directions_and_bounds(direction):
    for word in (direction.value, direction.name, direction.value.title()):
        own = ja.epsilon(RUN, 1e-6, direction=direction)
        assert ja.epsilon(RUN, 1e-6, direction=word) == pytest.approx(own, rel=1e-12)
        assert ja.pld(RUN, direction=word, bound="lower").bound is ja.Bound.LOWER
        assert ja.pld(RUN, direction=word, bound="upper bound").direction is direction
    found = estimation.estimate_delta(RUN, 0.5, num_samples=100, seed=0, direction=direction.value, method="naive")
    same = estimation.estimate_delta(RUN, 0.5, num_samples=100, seed=0, direction=direction)
    assert found[:3] == pytest.approx(same[:3], rel=1e-12)


def test_words_do_for_layouts():
    grid = {"noise_multiplier": [1.0, 2.0], "num_steps": [10, 100]}
    for word, layout in (("product", "PRODUCT"), ("Zipped", "ZIPPED"), ("side by side", "ZIPPED")):
        found = ja.sweep(RUN, grid, target_delta=1e-6, layout=word, direction="add", precision=QUICK)
        assert found.grid.layout is sweeping.Layout[layout]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: ja.epsilon(RUN, 1e-6, direction="sideways"), r"direction='sideways' must be .*'remove'.* or .*'add'"),
        (lambda: ja.pld(RUN, bound="estimate"), "bound='estimate' must be .*'upper'.* or .*'lower'"),
        (lambda: ja.sweep(RUN, {"num_steps": [1]}, target_delta=1e-6, layout="grid"), "layout='grid' must be"),
    ],
)
def test_other_words_are_refused_with_those_that_do(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()


def test_methods_by_the_names_that_people_type():
    asked = {name: ja.epsilon(RUN, 1e-6, method=name) for name in ("exact", "EXACT", "pld", "PLD", "RDP", "Renyi")}
    assert asked["exact"] == pytest.approx(asked["EXACT"], rel=1e-12)
    named = ja.epsilon(RUN, 1e-6, method="loss distribution")
    assert asked["pld"] == pytest.approx(named, rel=1e-12)
    assert asked["PLD"] == pytest.approx(named, rel=1e-12)
    assert asked["RDP"] == pytest.approx(asked["Renyi"], rel=1e-12)
    renyi = ("direct", "fractional orders", "geometric mean", "real orders")
    sides = [[e for e in ja.compare(RUN, 1e-6) if e.method in renyi and e.direction is d] for d in ja.Direction]
    assert asked["RDP"] == pytest.approx(max(min(e.value for e in side) for side in sides), rel=1e-12)
    sampled = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 10)
    assert ja.epsilon(sampled, 1e-6, method="RDP") == pytest.approx(ja.epsilon(sampled, 1e-6, method="rdp"), rel=1e-12)
    traced = jax.jit(lambda s: ja.epsilon(ja.RandomAllocation(ja.Gaussian(s), 100), 1e-6, method="RDP"))(1.0)
    assert traced == pytest.approx(asked["RDP"], rel=1e-6)


def test_an_unknown_method_lists_what_applies():
    with pytest.raises(ValueError, match=r"method='gdp' must be one of \[.*'exact', .*'rdp'"):
        ja.epsilon(RUN, 1e-6, method="gdp")
    with pytest.raises(ValueError, match="is a lower bound"):
        ja.epsilon(ja.Shuffled(ja.LocalRandomizer(1.0), 1000), 1e-6, method="Binary Randomized Response")


def test_lists_and_what_turns_into_arrays_are_arrays():
    class Series:
        def __array__(self, dtype=None, copy=None):
            return np.array([1.0, 2.0], dtype)

    wanted = ja.epsilon(ja.Gaussian(np.array([1.0, 2.0])), 1e-6)
    for value in ([1.0, 2.0], (1, 2), Series(), jnp.array([1.0, 2.0], jnp.bfloat16)):
        assert np.array_equal(ja.epsilon(ja.Gaussian(value), 1e-6), wanted)
    traced = jax.jit(lambda a, b: ja.epsilon(ja.Gaussian([a, b]), 1e-6))(1.0, 2.0)
    np.testing.assert_allclose(traced, wanted, rtol=1e-6)
    assert ja.epsilon(ja.Gaussian(jnp.bfloat16(1.0)), jnp.bfloat16(0.5)) == ja.epsilon(ja.Gaussian(1.0), 0.5)
    for value in (["a"], [None], [[1.0], [1.0, 2.0]], [True]):
        with pytest.raises(ValueError, match=r"noise_multiplier=.* must be a number or an array of numbers"):
            ja.Gaussian(value)


@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")
def test_compare_runs_inside_jit():
    def least(sigma):
        return jnp.stack([e.value for e in ja.compare(ja.Gaussian(sigma), 1e-6)]).min()

    assert jax.jit(least)(1.0) == pytest.approx(ja.epsilon(ja.Gaussian(1.0), 1e-6), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ja.Shuffled(ja.Gaussian(2.0), 100), r"must be GaussianReports\(noise_multiplier=2.0\)"),
        (lambda: ja.RandomAllocation(ja.LocalRandomizer(1.0), 9), "must be wrapped, as in Shuffled"),
        (lambda: ja.RandomAllocation(ja.Gaussian, 9), "a class; must be one of its objects"),
        (lambda: ja.PoissonSampled(1.0, 0.1, num_steps=1), "must be one, for example Gaussian"),
        (lambda: ja.epsilon(ja.PoissonSampled(ja.Group(RUN, 2), 0.1, 1), 1e-6), "must wrap one of .*Gaussian"),
        (lambda: ja.calibrate(RUN, "noise_multiplier", [0.0, 1.0], 1e-6), "must be > 0, or 0 everywhere"),
    ],
)
def test_the_neighbour_that_works_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_second_names_of_fields():
    assert ja.Laplace(scale=2.0) == ja.Laplace(2.0)
    assert ja.Laplace(scale=2.0).scale == 2.0
    rounds = ja.Shuffled(ja.LocalRandomizer(1.0), 100, num_rounds=3)
    assert rounds == ja.Shuffled(ja.LocalRandomizer(1.0), 100, num_epochs=3)
    assert ja.CheckIn(ja.LocalRandomizer(1.0), 100, 0.1, num_rounds=3).num_epochs == rounds.num_rounds == 3
    with pytest.raises(TypeError, match=r"scale=1.0 and noise_multiplier=2.0 are one field"):
        ja.Laplace(noise_multiplier=2.0, scale=1.0)
    assert ja.calibrate(ja.Laplace(None), "scale", 1.0, 1e-6) == ja.calibrate(
        ja.Laplace(None), "noise_multiplier", 1.0, 1e-6
    )
    found = ja.sweep(ja.Laplace(None), {"scale": [1.0, 2.0]}, target_delta=1e-6)
    assert found.values.tolist() == [ja.epsilon(ja.Laplace(b), 1e-6) for b in (1.0, 2.0)]


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        ja.Shuffled(ja.FiniteRandomizer([[0.5, 0.5], [0.25, 0.75]]), 100),
        ja.Composed(
            [ja.PoissonSampled(ja.Gaussian(2.0), 0.1, num_steps=1), ja.DiscretePair((0.5, 0.5), (0.25, 0.75))], (3, 1)
        ),
        ja.CheckIn(ja.LocalRandomizer(1e-9), 10, 0.1),
    ],
    ids=lambda run: type(run).__name__,
)
@pytest.mark.parametrize("precision", [None, QUICK])
def test_the_recompute_line_pastes_and_runs(run, precision):
    facts = json.loads(ja.report(run, 1e-4, style="json", precision=precision))
    shown = ja.report(run, 1e-4, precision=precision)
    pasted = "import jaxacct" + shown.split("import jaxacct", 1)[1]
    for text in (facts["recompute"], pasted):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "pasted", "exec"), {})
        assert float(printed.getvalue()) == facts["epsilon"]


def test_statements_count_in_english():
    assert "shuffle of 1 report;" in ja.report(ja.Shuffled(ja.LocalRandomizer(1.0), 1), 1e-6)
    assert "each record in 1 of 1 step;" in ja.RandomAllocation(ja.Gaussian(1.0), 1).describe()
    assert "epsilon is 0" in ja.report(ja.CheckIn(ja.LocalRandomizer(1e-9), 10, 0.1), 0.01)
