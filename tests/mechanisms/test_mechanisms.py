"""Every mechanism type has every fact; what is not declared raises; fields are checked where a mechanism is made."""

import ast
import dataclasses
import json
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from support.mechanisms import EXAMPLES, GAUSSIAN, LOCAL, MECHANISMS, RANDOMIZERS, TREES

import jaxacct as ja
from jaxacct import mechanisms
from jaxacct.mechanisms._adjacent import ReplaceOne
from jaxacct.mechanisms._base import Description, Mechanism, Randomizer, UndeclaredError, description
from jaxacct.mechanisms._fields import UNKNOWN, Privacy, base_fields, find_field, number_fields, with_fields

NUMBERS = [(kind, name) for kind in EXAMPLES for name in number_fields(kind)]
WRAPPED = [(kind, name) for kind in EXAMPLES for name in base_fields(kind)]

FACTS = {
    "relation": lambda m: isinstance(m.relation, ja.NeighboringRelation),
    "directions": lambda m: m.directions[0] is ja.Direction.REMOVE and len(m.directions) <= 2,
    "unit_of_privacy": lambda m: m.unit_of_privacy.startswith("one "),
    "scheme": lambda m: 0 < len(m.scheme) < 40,
    "released": lambda m: len(m.released) > 10,
    "reduction": lambda m: m.reduction is None or len(m.reduction) > 5,
    "assumptions": lambda m: m.assumptions() and all(len(line) > 20 for line in m.assumptions()),
}
SHARED_FACTS = {
    "describe": lambda d: len(d.describe()) > 10 and "object at" not in d.describe(),
    "loses_nothing": lambda d: d.loses_nothing() is False,
    "signature": lambda d: d.signature()[0] is type(d),
    "parameters": lambda d: json.dumps(d.parameters()),
    "in_domain": lambda d: bool(d.in_domain()),
    "check": lambda d: d.check() is None,
}


def each(fields):
    return pytest.mark.parametrize(("kind", "name"), fields, ids=[f"{kind.__name__}.{name}" for kind, name in fields])


# --- facts ---


def test_every_public_type_is_walked():
    public = {thing for thing in vars(ja).values() if isinstance(thing, type) and issubclass(thing, Description)}
    assert public == set(EXAMPLES) == {getattr(mechanisms, name) for name in mechanisms.__all__} | {ja.Pld}


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_every_mechanism_has_every_fact(kind, fact):
    assert FACTS[fact](EXAMPLES[kind])


@pytest.mark.parametrize("fact", SHARED_FACTS)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_description_has_every_fact(kind, fact):
    assert SHARED_FACTS[fact](EXAMPLES[kind])


@pytest.mark.parametrize("kind", RANDOMIZERS)
def test_randomizers_say_how_private_they_are(kind):
    randomizer = EXAMPLES[kind]
    assert randomizer.is_pure is (kind in (ja.KaryRandomizedResponse, ja.LaplaceReports, ja.FiniteRandomizer))
    if kind in (ja.GaussianReports, ja.DensityReports):  # it has no epsilon without a delta
        assert not hasattr(randomizer, "local_epsilon")
        with pytest.raises(TypeError, match="Reports does not declare its 'local_epsilon'"):
            _ = randomizer.local_epsilon
    else:
        assert randomizer.local_epsilon == pytest.approx(np.log(3.0) if kind is ja.FiniteRandomizer else 1.0)
        assert randomizer.local_delta in (0.0, 1e-9)


def test_approximate_randomizers_are_not_pure():
    assert ja.LocalRandomizer(1.0).is_pure
    assert not ja.LocalRandomizer(1.0, np.array([0.0, 1e-9])).is_pure
    said = []
    jax.jit(lambda delta: said.append(ja.LocalRandomizer(1.0, delta).is_pure))(0.0)
    assert said == [False]  # a traced delta may be anything


class Bare(Mechanism):
    """Declares nothing."""


class BareRandomizer(Randomizer):
    """Declares nothing."""


@pytest.mark.parametrize("fact", [*FACTS, "describe", "loses_nothing", "participation"])
def test_what_a_mechanism_does_not_declare_raises(fact):
    with pytest.raises(TypeError, match="Bare does not declare its '"):
        getattr(Bare(), fact)()


@pytest.mark.parametrize("fact", ["describe", "loses_nothing", "local_epsilon", "local_delta", "is_pure"])
def test_what_a_randomizer_does_not_declare_raises(fact):
    with pytest.raises(UndeclaredError, match=f"BareRandomizer does not declare its '{fact}'"):
        getattr(BareRandomizer(), fact)()


def test_a_mechanism_that_forgets_a_fact_cannot_be_made():
    class Forgetful(ja.Gaussian):
        relation = Mechanism.__dict__["relation"]

    with pytest.raises(TypeError, match="Forgetful does not declare its relation"):
        description(Forgetful)


def test_a_field_without_a_specification_cannot_be_made():
    class Vague(Bare):
        amount: float

    with pytest.raises(TypeError, match=r"Vague\.amount has no specification"):
        description(Vague)


def test_relations():
    replaced = {kind for kind in MECHANISMS if EXAMPLES[kind].relation is ja.NeighboringRelation.REPLACE_ONE}
    assert replaced == {ja.Shuffled, ja.CheckIn, ja.RandomizedResponse, ReplaceOne}
    assert all(EXAMPLES[kind].directions == (ja.Direction.REMOVE,) for kind in replaced)
    assert EXAMPLES[ja.Composed].directions == (ja.Direction.REMOVE, ja.Direction.ADD)
    special = dataclasses.replace(EXAMPLES[ja.Pld], neighboring_relation=ja.NeighboringRelation.REPLACE_SPECIAL)
    assert special.relation is ja.NeighboringRelation.REPLACE_SPECIAL
    mixed = ja.Composed((GAUSSIAN, EXAMPLES[ja.Shuffled]))
    with pytest.raises(ValueError, match="its parts must share one adjacency"):
        _ = mixed.relation


def test_signatures_and_parts():
    assert EXAMPLES[ja.PoissonSampled].signature() == (ja.PoissonSampled, ja.Gaussian)
    assert EXAMPLES[ja.CheckIn].signature() == (ja.CheckIn, ja.LocalRandomizer)
    composed = EXAMPLES[ja.Composed]
    assert composed.signature() == (ja.Composed,)
    assert composed.parts() == ((GAUSSIAN, 2), (ja.PoissonSampled(GAUSSIAN, 0.1, num_steps=1), 3))
    assert composed.wrapped() == composed.mechanisms
    assert GAUSSIAN.parts() == ((GAUSSIAN, 1),)


SAME = ja.DiscretePair((0.5, 0.5), (0.5, 0.5))
NOTHING = ja.LocalRandomizer(0.0)


@pytest.mark.parametrize(
    "mechanism",
    [
        SAME,
        ja.PoissonSampled(GAUSSIAN, 0.0, num_steps=1),
        ja.RandomAllocation(SAME, 10),
        ja.PartialAllocation(SAME, 10, 5),
        ja.Shuffled(NOTHING, 10),
        ja.CheckIn(NOTHING, 10, 0.5),
        ja.CheckIn(LOCAL, 10, 0.0),
        ja.Composed((SAME, ja.PoissonSampled(GAUSSIAN, 0.0, num_steps=1)), (2, 3)),
        ja.FiniteRandomizer([[0.5, 0.5], [0.5, 0.5]]),
        ja.KaryRandomizedResponse(0.0, 3),
    ],
    ids=str,
)
def test_what_loses_nothing(mechanism):
    assert mechanism.loses_nothing()


def test_releases_are_those_of_the_run():
    """At the last release of the epochs that it describes, a run is itself."""
    run = EXAMPLES[ja.RandomAllocation]
    assert run.releases(200) == (((run, 1),),)
    assert EXAMPLES[ja.PoissonSampled].releases(7) == (((EXAMPLES[ja.PoissonSampled], 1),),)
    assert GAUSSIAN.releases(5) == (((GAUSSIAN, 5),),)
    with pytest.raises(ValueError, match=r"training\.Epoch"):
        EXAMPLES[ja.Shuffled].releases(5)


# --- specifications ---


@each(NUMBERS)
def test_every_number_has_words_and_a_range(kind, name):
    spec = number_fields(kind)[name]
    assert spec.words
    assert spec.symbol.isupper() or spec.symbol[1:].isdigit()
    assert bool(spec.domain.holds(0.5)) is not (spec.is_whole or spec.lowest >= 1)
    if spec.is_solvable:
        assert spec.lowest <= spec.start <= spec.highest
        assert (spec.worst, spec.best)[:: 1 if spec.privacy is Privacy.GROWS else -1] == (spec.lowest, spec.highest)
        for value in (spec.lowest, spec.start, spec.highest):
            assert bool(spec.domain.holds(value))
            spec.domain.check(name, value)


@pytest.mark.parametrize("kind", TREES)
def test_every_leaf_is_a_field_that_can_be_found(kind):
    example = EXAMPLES[kind]
    for path, _ in jax.tree_util.tree_flatten_with_path(example)[0]:
        name = ".".join(str(getattr(key, "name", getattr(key, "idx", None))) for key in path)
        if kind is not ja.ScheduledAllocation or "." in name or name == "num_epochs":
            keys = find_field(example, name)
            assert len(jax.tree.leaves(with_fields(example, {keys: UNKNOWN}))) == len(jax.tree.leaves(example))


# --- construction ---


def _with(kind, name, value):
    """The example with `value` in a field, in each place of a tuple where it holds one."""
    held = getattr(EXAMPLES[kind], name)
    return dataclasses.replace(EXAMPLES[kind], **{name: (value,) * len(held) if isinstance(held, tuple) else value})


@each(NUMBERS)
@pytest.mark.parametrize(
    "value",
    ["1", ["1", "1"], {}, object(), True, np.array([True]), np.array(["1"]), 1j, Fraction(1, 2)],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number_is_refused_when_made(kind, name, value):
    with pytest.raises(ValueError, match=rf"{name}=.*must be (a number or|a whole|in \[0, 1\])"):
        _with(kind, name, value)


@each(NUMBERS)
@pytest.mark.parametrize("value", [-1, np.nan, np.inf, np.array([0.5, -1.0]), jnp.array(-1.0)], ids=repr)
def test_what_is_out_of_range_is_refused_when_made(kind, name, value):
    with pytest.raises(ValueError, match=f"{name}="):
        _with(kind, name, value)


@each(NUMBERS)
def test_a_field_may_be_left_out_but_not_asked_about(kind, name):
    left_out = _with(kind, name, None)
    assert left_out.check() is None
    if issubclass(kind, Mechanism):
        with pytest.raises(ValueError, match=f"{name}(=None must be a number| must be given)"):
            ja.epsilon(left_out, 1e-6)


@each(NUMBERS)
def test_traced_numbers_pass(kind, name):
    example = EXAMPLES[kind]
    values = getattr(example, name)
    value = values[0] if isinstance(values, tuple) else values
    inside = jax.jit(lambda x: _with(kind, name, x).in_domain())
    assert inside(value)
    assert not inside(-1.0 if not number_fields(kind)[name].is_whole else 0)


_OF_ENTRIES = {
    "p": lambda x: ja.DiscretePair((x, 1.0 - x), (0.5, 0.5)),
    "q": lambda x: ja.DiscretePair((0.5, 0.5), jnp.stack([x, 1.0 - x])),
    "probabilities": lambda x: ja.FiniteRandomizer([[x, 1.0 - x], [1.0 - x, x]]),
    "sensitivities": lambda x: ja.MixtureOfGaussians(1.0, (0.0, x), (0.9, 0.1)),
    "shape": lambda x: ja.PrivateSelection(GAUSSIAN, 10.0, x),
}


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, lambda f: lambda x: jax.vmap(f)(jnp.full(2, x))])
@pytest.mark.parametrize("name", _OF_ENTRIES)
def test_traced_entries_of_what_is_fixed_are_told_of(name, transform):
    """Not called numbers out of range, which they may well be in."""
    with pytest.raises(ValueError, match=f"^{name} is traced by jit, vmap or grad, and must be concrete numbers"):
        transform(lambda x: jnp.sum(ja.epsilon(_OF_ENTRIES[name](x), 1e-6)))(0.25)


@pytest.mark.parametrize("ask", [ja.epsilon, ja.delta])
def test_a_list_of_traced_targets_is_told_of(ask):
    with pytest.raises(ValueError, match=r"^target_.* traced by jit.* one array by jax.numpy.stack"):
        jax.jit(lambda x: ask(GAUSSIAN, [x, x]))(0.25)
    assert jax.jit(lambda x: ask(GAUSSIAN, jnp.stack([x, x])))(0.25).shape == (2,)


@each(WRAPPED)
@pytest.mark.parametrize("value", ["x", 3, None, jnp.ones(2)], ids=repr)
def test_what_wraps_takes_its_own_kind_only(kind, name, value):
    other = GAUSSIAN if base_fields(kind)[name].kind == "randomizer" else LOCAL
    for wrong in (value, other):
        with pytest.raises(ValueError, match=f"{name}=.*has no analysis here: it is not a "):
            _with(kind, name, wrong)


@pytest.mark.parametrize("thing", ["x", 3, None, LOCAL, ja.Gaussian], ids=repr)
def test_a_question_about_no_mechanism(thing):
    with pytest.raises(ValueError, match="has no analysis here"):
        ja.epsilon(thing, 1e-6)


def test_what_jax_rebuilt_is_checked_when_asked_about():
    negative = jax.tree.map(lambda x: -x, GAUSSIAN)
    assert negative.noise_multiplier == -2.0
    with pytest.raises(ValueError, match=r"noise_multiplier=-2\.0 must be > 0"):
        ja.epsilon(negative, 1e-6)


# --- what JAX and Python do with descriptions ---


def test_a_mechanism_can_be_mapped_over():
    runs = jax.vmap(lambda sigma: ja.RandomAllocation(ja.Gaussian(sigma), 100))(jnp.arange(1.0, 4.0))
    assert runs.mechanism.noise_multiplier.shape == (3,)


# --- who may ask for a type ---


def test_types_are_asked_for_where_they_are_told_apart_only():
    """Facts stand with mechanisms: elsewhere than in these places nobody needs to ask which one it is."""
    types = {kind.__name__ for kind in EXAMPLES}
    package = Path(ja.__file__).parent
    for folder in ("reporting", "plot", "training", "demo", "membership", "estimation", "utility", "sweeping", "cli"):
        paths = [package / f"{folder}.py"] if (package / f"{folder}.py").exists() else (package / folder).rglob("*.py")
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                    asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                    assert not asked & types, f"{path.name}, line {node.lineno}"


@pytest.mark.parametrize(
    ("size", "batch", "epochs", "steps"),
    [(60_000, 250, 15, 3600), (1000, 300, 1, 4), (1000, 300, 3, 10), (10, 10, 7, 7), (7, 0.5, 1, 14), (3, 1, 1 / 3, 1)],
)
def test_poisson_sampling_by_epochs(size, batch, epochs, steps):
    run = ja.PoissonSampled.from_epochs(ja.Gaussian(1.0), dataset_size=size, batch_size=batch, epochs=epochs)
    assert run == ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=batch / size, num_steps=steps)


@pytest.mark.parametrize(("size", "batch", "steps"), [(60_000, 250, 240), (1000, 300, 3), (10, 10, 1), (10, 0.125, 80)])
def test_random_allocation_by_epochs(size, batch, steps):
    run = ja.RandomAllocation.from_epochs(ja.Gaussian(1.0), dataset_size=size, batch_size=batch, epochs=4)
    assert (run.num_steps, run.num_selected, run.num_epochs) == (steps, 1, 4)


@pytest.mark.parametrize("kind", [ja.PoissonSampled, ja.RandomAllocation])
@pytest.mark.parametrize(
    "wrong",
    [
        {"dataset_size": 0},
        {"dataset_size": 10.5},
        {"batch_size": 0},
        {"batch_size": 1001},
        {"epochs": 0},
        {"epochs": "2"},
    ],
)
def test_sizes_of_epochs_are_checked(kind, wrong):
    sizes = {"dataset_size": 1000, "batch_size": 100, "epochs": 2} | wrong
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
        kind.from_epochs(ja.Gaussian(1.0), **sizes)


def test_epochs_of_random_allocation_are_whole():
    with pytest.raises(ValueError, match=r"epochs=2.5 must be a whole number"):
        ja.RandomAllocation.from_epochs(ja.Gaussian(1.0), dataset_size=1000, batch_size=100, epochs=2.5)


@pytest.mark.parametrize("moved", [2.0**-52, 3 * 2.0**-52, 2.0**-40, 0.1])
@pytest.mark.parametrize("first", [0.3, 0.7120943, 0.0499679])
def test_the_local_epsilon_of_rows_that_nearly_agree(first: float, moved: float) -> None:
    """Rounded up: the logarithm of a quotient near 1 errs by an ulp of 1, which may be a per cent of it."""
    first = round(first * 2.0**52) / 2.0**52
    moved = min(moved, first / 2)
    rows = ((first, 1.0 - first), (first - moved, 1.0 - first + moved))
    with mpmath.workdps(40):
        exact = max(abs(mpmath.log(mpmath.mpf(p) / mpmath.mpf(q))) for p, q in zip(*rows, strict=True))
        assert exact <= ja.FiniteRandomizer(rows).local_epsilon <= exact * (1 + 2.0**-48)
        assert ja.epsilon(ja.Shuffled(ja.FiniteRandomizer(rows), 1), 1e-40) >= exact * (1 - mpmath.mpf(10) ** -20)


@pytest.mark.parametrize("count", [-4, 0, 0.5])
def test_traced_counts_out_of_range_inside_a_sampled_release_are_noticed(count):
    """The parts become one Gaussian release, in which a negative count would undo others."""
    for sampled in (
        lambda part: ja.PoissonSampled(part, 0.01, 100),
        lambda part: ja.RandomAllocation(part, 100),
    ):
        asked = jax.jit(lambda c, make=sampled: ja.epsilon(make(ja.Composed([GAUSSIAN, GAUSSIAN], [c, 5])), 1e-6))
        assert asked(count) == np.inf
        assert np.isfinite(asked(1))


def test_rows_of_a_randomizer_are_divided_by_their_sums():
    """They may miss 1 by 1e-9; the local epsilon is that of what is used everywhere."""
    near = 4e-10
    rows = [[0.6 * (1 - near), 0.4 * (1 - near)], [0.3 * (1 + near), 0.7 * (1 + near)]]
    randomizer = ja.FiniteRandomizer(rows)
    assert np.log(2.0) <= randomizer.local_epsilon <= np.log(2.0) + 1e-15
    assert "local epsilon 0.6932" in randomizer.describe()
