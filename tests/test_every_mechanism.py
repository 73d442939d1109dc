"""Properties of every public mechanism, each stated once: programs, arrays, settings, the way it goes, round trips.

The questions are quick ones: closed forms and Renyi divergences, as inside jit.
"""

import copy
import dataclasses
import functools
import math
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mechanisms import ASKED, EXAMPLES, TRACED, TREES, Field, fields_of

import jaxacct as ja
from jaxacct.mechanisms._fields import Privacy, with_fields

DELTA, EPSILON = 1e-6, 0.5
TOL_ROUNDING = 1e-12  # the same program compiled another way, relative
TOL_MONOTONE = 1e-9  # two certified bounds that are equal in truth, relative
TOL_WIDTH = 1e-6  # two certified bounds at a point, where intervals are that wide, relative
TOL_F32 = 2e-7  # one cast to float32, relative
TINY = 1e-30  # a delta below is not known to nine digits
TOL_SLOPE = 1e-3  # central differences against a derivative, relative
# Slopes as in a user's program. Without optimisation that by delta of a discrete Gaussian is -inf at 1e-6.
_OPTIMISED = {"xla_backend_optimization_level": "3", "xla_cpu_use_fusion_emitters": True}
STEP = 1e-4  # of central differences, relative
WIDE_STEP = 1e-2  # of those of an answer that is read off a loss distribution, whose grid moves

pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")  # such bounds are valid

epsilon_of = functools.partial(ja.epsilon, precision=math.inf)
delta_of = functools.partial(ja.delta, precision=math.inf)

# up to a minute to compile each: `test_modes` and `test_properties` ask some of this of them in quicker settings
_QUICK = (
    *("Gaussian", "Laplace", "DiscretePair", "ContinuousPair", "Pld", "PoissonSampled", "RandomizedResponse"),
    *("EpsilonDelta", "DiscreteLaplace", "DiscreteGaussian", "Exponential", "PermuteAndFlip", "ZCdp", "Skellam"),
    *("MixtureOfGaussians", "Group", "ReplaceOne", "ZeroOut", "FixedBatches", "TruncatedPoisson", "BallsInBins"),
    *("ParallelPoisson", "AboveThreshold", "GaussianAboveThreshold"),
)
_SLOW = tuple(name for name in ASKED if name not in _QUICK)
# For these, a program asks other methods than the quick question outside. Given are the question outside whose answer
# the program's is never below, and by how much it may be above, relative. docs/limits.md names those above 1 %.
_OTHERWISE: dict[str, tuple[Any, float]] = {
    **dict.fromkeys(("PoissonSampled", "Shuffled", "Composed"), (ja.epsilon, 1e-4)),  # as sharp as all methods outside
    **dict.fromkeys(("RandomAllocation", "Shuffled(FiniteRandomizer)", "Shuffled(LaplaceReports)"), (epsilon_of, 0.01)),
    "CheckIn": (epsilon_of, 0.3),
    "PartialShuffledBatches": (epsilon_of, 0.5),
    "Shuffled(GaussianReports)": (epsilon_of, 20.0),
}


def each(table: Any, slow: Any = ()) -> Any:
    """Parametrises over the names of a table, some of them slow."""
    return pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in slow)) for n in table])


def _single(mechanism: Any) -> Any:
    """The mechanism with every real number one of float32."""
    real = {f.keys: float(np.float32(f.value)) for f in fields_of(mechanism) if not f.spec.is_whole}
    return with_fields(mechanism, real) if real else mechanism


def _traceable(mechanism: Any) -> list[Field]:
    """Without those at zero: a pure randomizer whose delta is traced is not known to be pure."""
    return [f for f in fields_of(mechanism) if f.value != 0.0]


def _reals(mechanism: Any) -> list[Field]:
    return [f for f in _traceable(mechanism) if not f.spec.is_whole]


# --- programs ---


@pytest.mark.sample(4)
@pytest.mark.parametrize("x64", [False, True])
@each(TRACED, slow=_SLOW)
def test_programs_give_what_is_given_outside(name, x64):
    """Inside jit, of fields and a target that are arguments."""
    mechanism, delta = _single(TRACED[name]), float(np.float32(DELTA))
    keys = [f.keys for f in _traceable(mechanism)]

    def ask(values: list[Any], delta: Any) -> Any:
        return epsilon_of(with_fields(mechanism, dict(zip(keys, values, strict=True))), delta)

    question, more = _OTHERWISE.get(name, (epsilon_of, TOL_ROUNDING if x64 else TOL_F32))
    outside = question(mechanism, delta)
    assert type(outside) is float
    with jax.enable_x64(x64):
        inside = np.asarray(jax.jit(ask)([f.value for f in _traceable(mechanism)], delta), np.float64)
    assert outside * (1 - TOL_ROUNDING) <= inside <= outside * (1 + more)  # rounded up


@pytest.mark.sample(4)
@each(TRACED)
def test_every_field_may_be_traced(name):
    """All of them and the target at once: traced only, which compiles nothing."""
    fields = _traceable(TRACED[name])

    def ask(values: list[Any], delta: Any) -> Any:
        return epsilon_of(with_fields(TRACED[name], dict(zip((f.keys for f in fields), values, strict=True))), delta)

    assert jax.eval_shape(ask, [f.value for f in fields], DELTA).shape == ()


@pytest.mark.sample(2)
@each(TRACED, slow=_SLOW)
def test_slopes_are_those_of_differences(name):
    """Under vmap, at two targets: a finite derivative in each real field, equal to central differences."""
    mechanism, fields = TRACED[name], _reals(TRACED[name])
    deltas = np.array([DELTA, 1e-4])

    def ask(values: list[Any], delta: Any) -> Any:
        return epsilon_of(with_fields(mechanism, dict(zip((f.keys for f in fields), values, strict=True))), delta)

    with jax.enable_x64(True):
        values = [jnp.asarray(float(f.value)) for f in fields]
        asked = jax.vmap(jax.value_and_grad(ask, argnums=(0, 1)), in_axes=(None, 0))
        program = jax.jit(asked, compiler_options=_OPTIMISED)
        mapped, (slopes, by_delta) = jax.tree.map(np.asarray, program(values, jnp.asarray(deltas)))
    outside, more = _OTHERWISE.get(name, (epsilon_of, TOL_ROUNDING))
    np.testing.assert_allclose(mapped, outside(mechanism, deltas), rtol=more)
    assert np.all(np.isfinite(by_delta) & (by_delta <= 0))
    step = WIDE_STEP if more > TOL_SLOPE else STEP
    for field, slope in zip(fields, slopes, strict=True):
        around = field.value * np.array([[1 - step], [1 + step]])
        lower, upper = outside(with_fields(mechanism, {field.keys: around}), deltas)
        found = (upper - lower) / (2 * step * field.value)
        if more > TOL_SLOPE:  # the slope of another bound
            assert np.array_equal(np.sign(slope), np.sign(found)), field.name
            continue
        np.testing.assert_allclose(slope, found, rtol=max(TOL_SLOPE, 100 * more), atol=1e-6, err_msg=field.name)


# --- arrays ---


@each(TRACED, slow=_SLOW)
def test_arrays_are_loops(name):
    """A column in each field against a row of targets: every entry as if asked alone."""
    mechanism, deltas = TRACED[name], np.array([DELTA, 1e-4])
    column = {f.keys: np.array([[f.value], [f.value]]) for f in fields_of(mechanism)}
    reals = _reals(mechanism)
    if reals:
        column[reals[0].keys] = reals[0].value * np.array([[1.0], [1.25]])
    table = epsilon_of(with_fields(mechanism, column) if column else mechanism, deltas)
    assert table.dtype == np.float64
    table = np.broadcast_to(table, (2, 2))
    for i in range(2):
        row = with_fields(mechanism, {keys: values[i, 0].item() for keys, values in column.items()})
        for j in range(2):
            np.testing.assert_allclose(table[i, j], epsilon_of(row, float(deltas[j])), rtol=TOL_MONOTONE)


# --- settings ---


@each(ASKED, slow=_SLOW)
def test_no_setting_changes_a_digit(name):
    """Neither x64 nor dtype promotion; `test_modes` asks the same while a program is traced."""
    plain = delta_of(ASKED[name], EPSILON)
    for x64 in (False, True):
        for promotion in ("standard", "strict"):
            with jax.enable_x64(x64), jax.numpy_dtype_promotion(promotion):
                assert delta_of(ASKED[name], EPSILON) == plain


# --- the way that privacy goes ---


def _grown(field: Field) -> np.ndarray:
    """Three rising values of a field, in its range."""
    if field.spec.is_whole:
        return field.value * np.array([1, 2, 3])
    if field.value == 0.0:
        return np.array([0.0, 1e-9, 1e-8])
    return np.minimum(field.value * np.array([1.0, 1.25, 2.0]), field.spec.highest)


_WAYS = [
    pytest.param(name, field, marks=[pytest.mark.slow] * (name in _SLOW), id=f"{name}-{field.name}")
    for name, mechanism in ASKED.items()
    if name != "Pld"  # without fields
    for field in fields_of(mechanism)
    if field.spec.privacy is not None
]


@pytest.mark.sample(8)
@pytest.mark.parametrize(("name", "field"), _WAYS)
def test_privacy_goes_the_way_that_the_field_says(name, field):
    mechanism = ASKED[name]
    if name == "Shuffled(LocalRandomizer)" and field.name != "mechanism.local_delta":
        # making reports pure costs delta, the more, the more they are and the smaller epsilon is
        mechanism = ja.Shuffled(ja.LocalRandomizer(mechanism.mechanism.local_epsilon), mechanism.num_reports)
    varied = with_fields(mechanism, {field.keys: _grown(field)})
    for answers in (epsilon_of(varied, DELTA), delta_of(varied, EPSILON)):
        assert answers.shape == (3,)
        assert np.all(np.isfinite(answers))
        rising = answers if field.spec.privacy is Privacy.FALLS else answers[::-1]
        assert np.all(rising[:-1] <= rising[1:] * (1 + TOL_MONOTONE) + TINY), answers


# --- round trips ---


@each(TRACED, slow=_SLOW)
def test_delta_at_epsilon_is_no_more_than_delta(name):
    mechanism = TRACED[name]
    assert delta_of(mechanism, epsilon_of(mechanism, DELTA)) <= DELTA * (1 + TOL_WIDTH)


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("placeholder", [object(), None, "x", -1.0, ()], ids=lambda value: type(value).__name__)
def test_trees_take_any_leaf(kind, placeholder):
    leaves, structure = jax.tree.flatten(EXAMPLES[kind])
    rebuilt = jax.tree.unflatten(structure, [placeholder] * len(leaves))
    is_leaf = lambda x: x is placeholder  # noqa: E731
    assert jax.tree.leaves(rebuilt, is_leaf=is_leaf) == [placeholder] * len(leaves)
    assert jax.tree.unflatten(structure, leaves) == EXAMPLES[kind]
    assert hash(structure) == hash(jax.tree.structure(EXAMPLES[kind]))


@pytest.mark.parametrize("kind", TREES)
def test_paths_name_the_fields(kind):
    for path, leaf in jax.tree_util.tree_flatten_with_path(EXAMPLES[kind])[0]:
        thing = EXAMPLES[kind]
        for key in path:
            thing = getattr(thing, key.name) if isinstance(key, jax.tree_util.GetAttrKey) else thing[key.idx]
        assert thing == leaf


@pytest.mark.parametrize("kind", TREES)
def test_copies_are_equal(kind):
    example = EXAMPLES[kind]
    for same in (pickle.loads(pickle.dumps(example)), copy.copy(example), copy.deepcopy(example)):
        assert type(same) is kind
        assert same == example
        assert hash(same) == hash(example)
    assert dataclasses.replace(example) == example
    assert repr(example).startswith(f"{kind.__name__}(")
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.relation = None
