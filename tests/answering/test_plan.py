"""The plan of a question: which methods are asked, for which directions and in which order, for all that is supported.

A `+` joins the directions that one step is asked for. Replace-one adjacency has one direction, called remove.
"""

import gc
import importlib
import math
from pathlib import Path

import jax
import pytest
from support.mechanisms import TRACED

import jaxacct as ja
from jaxacct._method import LaneMethod, Query
from jaxacct._precision import Kernel
from jaxacct.answering import plan, question_of
from jaxacct.answering._plan import PlanStep
from jaxacct.answering._question import interval_question

DELTA = 1e-6
DISTRIBUTION = ["loss distribution remove+add"]
BOTH_ENDS = ["exact remove+add"]
INVERSION = ["moment inversion remove+add"]
GAUSSIAN = ["exact remove", "exact add"]
POISSON = [f"{name} {d}" for d in ("remove", "add") for name in ("rdp", "no amplification", "participation")]
ALLOCATION_ADD = ["geometric mean add", "real orders add", "no amplification add"]
ALLOCATION = ["direct remove", "fractional orders remove", "no amplification remove", *ALLOCATION_ADD]
PHASES = ["direct remove", "low orders remove", "no amplification remove", *ALLOCATION_ADD]
COMPOSED = ["rdp (remove) remove", "rdp (add) add"]
LAWS = ["laws remove", "laws add"]
# beside laws inside programs
LAWS_OF_ALLOCATION = [f"{name} {d}" for d in ("remove", "add") for name in ("laws", "no amplification")]
LAWS_OF_POISSON = [f"{name} {d}" for d in ("remove", "add") for name in ("laws", "no amplification", "participation")]
JOINS = ["participation remove+add"]
RESORT = ["part by part remove+add"]
FINITE = [*BOTH_ENDS, *DISTRIBUTION]
MOMENTS = ["complex moments remove+add", *DISTRIBUTION]
PURIFIED = ["no amplification remove", "purified clones remove"]
GAUSSIAN_ROUND = ["no amplification remove", "privacy blanket remove"]
GAUSSIAN_ROUNDS = ["no amplification remove", "loss distribution remove"]
BLANKET, COMPOSED_BLANKET = ["privacy blanket remove"], ["blanket distribution remove"]
PURE_ROUNDS = ["pure rounds remove"]
TAKING_PART = ["taking part remove"]
CHECK_IN = [*TAKING_PART, "check-in profile remove"]
PURIFIED_CHECK_IN = [*TAKING_PART, "no amplification remove", "purified check-in remove"]
REPORTS = ["reports of equal data remove", "sum of the reports remove", "signs of the reports remove"]
RESPONSE = ["binary randomized response remove"]
FROM_BELOW = ["clones pair from below remove"]
CHECK_IN_FROM_BELOW = ["check-in profile from below remove"]
GUARANTEE, RANGE = (["guarantee remove", "guarantee add"], ["bounded range remove", "bounded range add"])
RENYI = ["rdp remove", "rdp add"]
CLOSED = ["closed form remove", "closed form add"]
PURE_FIRST = [f"{name} {d}" for d in ("remove", "add") for name in ("guarantee", "rdp")]
TWO_PROBABILITIES = ["two probabilities remove+add"]
REFUSED = None  # what bounds it is on the host only


KNOWN_BATCH = ["no amplification remove", "no amplification add"]


def shuffled(below=()):
    """One epoch of shuffled batches, or some of it."""
    order = ["shuffled order remove+add"]
    return (
        [*order, *KNOWN_BATCH],
        [*order, *KNOWN_BATCH],
        KNOWN_BATCH,
        [*order, "sum of scores remove+add", *below, *KNOWN_BATCH],
    )


def on_lanes(methods, below=()):
    """Methods on lanes alone answer all questions; an interval's asks for lower bounds too."""
    return methods, methods, methods, [*methods, *below]


def on_lanes_below(first, methods, below=()):
    """As `on_lanes`, but for `first`, which is asked of concrete numbers first, and not of many points."""
    return [*first, *methods], methods, methods, [*first, *methods, *below]


def of_check_ins(below=()):
    """Check-ins of reports that have a clones pair and a blanket."""
    every = [*TAKING_PART, *BLANKET, *CHECK_IN[1:]]
    return every, CHECK_IN, CHECK_IN, [*every, *below]


def scored(row, after):
    """`row`, whose intervals ask for a sum of scores, too, after so many others."""
    *rest, interval = row
    return (*rest, [*interval[:after], "sum of scores remove", *interval[after:]])


def on_host(methods, below=()):
    """What has a loss distribution only: nothing is quicker; traced code asks its laws alone (`HAVE_LAWS`)."""
    return methods, methods, [], [*methods, *below]


def beside_traced(host, lanes):
    """Nothing is quicker outside traced code; inside, methods on lanes."""
    return host, host, lanes, host


def host_first(host, lanes, quick=()):
    """Engines, then methods on lanes, which traced questions ask alone, quick ones after the engines that are quick."""
    every = [*host, *(method for method in lanes if method not in host)]
    return every, [*quick, *lanes], lanes, every


def last_on_lanes(host, lanes):
    """An engine, then methods on lanes where it finds nothing; in programs those come after laws."""
    in_programs = [each for name in lanes for each in (f"laws {name.split()[-1]}", name)]
    return [host, *lanes], lanes, in_programs, [host, *lanes]


def in_rounds(first, below, then=()):
    """Several shuffled rounds: `first`, what bounds the composed clones pair, and `then` another distribution."""
    rounds = ["clones rdp remove", "no amplification remove", "clones, composed remove"]
    lanes = [*first, "clones remove", *rounds]
    start, end = ["clones moments remove", *first, "clones remove"], ["loss distribution remove", *then, *rounds]
    return [*start, *end], lanes, [*first, "laws remove"], [*start, *end, *below]


# (title, variant) of a row of the support matrix: plans of a default, a quick, a traced and an interval question
ONE_SAMPLED = [
    *(f"{name} remove" for name in ("one step", "rdp", "no amplification", "participation")),
    *(f"{name} add" for name in ("one step", "one step, added", "rdp", "no amplification", "participation")),
]
EVERYBODY = [
    f"{name} remove" for name in ("shuffle of everybody", "taking part", "no amplification", "loss distribution")
]
PLANS = {
    ("Gaussian", ""): (
        GAUSSIAN,
        GAUSSIAN,
        GAUSSIAN,
        [*GAUSSIAN, *INVERSION, *DISTRIBUTION],
    ),
    ("PoissonSampled(Gaussian)", ""): (
        [*BOTH_ENDS, *MOMENTS, *POISSON],
        POISSON,
        LAWS_OF_POISSON,
        [*BOTH_ENDS, *MOMENTS, *POISSON],
    ),
    ("RandomAllocation(Gaussian)", "one epoch, one step a record"): (
        [*BOTH_ENDS, *MOMENTS, *ALLOCATION],
        [*BOTH_ENDS, MOMENTS[0], *ALLOCATION],  # the first on lanes where there are many points
        LAWS_OF_ALLOCATION,
        [*BOTH_ENDS, *MOMENTS, *ALLOCATION],
    ),
    ("RandomAllocation(Gaussian)", "several epochs"): (
        [*MOMENTS, *ALLOCATION],
        [MOMENTS[0], *ALLOCATION],
        LAWS_OF_ALLOCATION,
        [*MOMENTS, *ALLOCATION],
    ),
    ("RandomAllocation(Gaussian)", "noise multiplier 100 or more"): (
        ["large noise remove+add", *MOMENTS, *ALLOCATION, "overlap remove", "how many steps remove"],
        [MOMENTS[0], *ALLOCATION],
        LAWS_OF_ALLOCATION,
        [
            "large noise remove+add",
            MOMENTS[0],
            "threshold test remove+add",
            *DISTRIBUTION,
            *ALLOCATION,
            "overlap remove",
            "how many steps remove",
        ],
    ),
    ("RandomAllocation(Gaussian)", "several steps a record"): (
        [*MOMENTS, *ALLOCATION, "overlap remove", "how many steps remove"],
        [MOMENTS[0], *ALLOCATION],
        LAWS_OF_ALLOCATION,
        [
            MOMENTS[0],
            "threshold test remove+add",
            *DISTRIBUTION,
            *ALLOCATION,
            "overlap remove",
            "how many steps remove",
        ],
    ),
    ("RandomAllocation(PoissonSampled)", ""): on_host([*JOINS, *DISTRIBUTION]),
    ("PoissonSampled(RandomAllocation)", "Gaussian, sampled once"): on_host(
        [*JOINS, "one run remove+add", *DISTRIBUTION]
    ),
    ("PoissonSampled(RandomAllocation)", "others"): on_host([*JOINS, *DISTRIBUTION]),
    ("ShuffledBatches(Gaussian)", "one epoch"): shuffled(below=["largest output remove+add"]),
    ("ShuffledBatches(Gaussian)", "records left out"): shuffled(),
    ("PartialShuffledBatches(Gaussian)", ""): shuffled(),
    ("ShuffledBatches(Gaussian)", "several epochs"): (
        [*KNOWN_BATCH, *DISTRIBUTION],
        KNOWN_BATCH,
        KNOWN_BATCH,
        ["sum of scores remove+add", "largest output remove+add", *KNOWN_BATCH, *DISTRIBUTION],
    ),
    ("PartialAllocation(Gaussian)", ""): host_first(FINITE, PHASES),
    ("ScheduledAllocation", ""): host_first(DISTRIBUTION, PHASES),
    ("Composed(Gaussian)", ""): (
        GAUSSIAN,
        GAUSSIAN,
        GAUSSIAN,
        [*GAUSSIAN, *INVERSION, MOMENTS[0], *DISTRIBUTION],
    ),
    ("Composed of shuffled reports and check-ins", "different rounds"): (
        ["loss distribution remove", "part by part remove"],
        ["loss distribution remove", "part by part remove"],
        ["rdp (remove) remove"],
        ["largest part remove", "loss distribution remove", "part by part remove"],
    ),
    ("Composed of shuffled reports and check-ins", "equal rounds"): (
        ["equal rounds remove", "part by part remove"],
        ["equal rounds remove", "part by part remove"],
        [],
        ["equal rounds remove", "largest part remove", "part by part remove"],
    ),
    ("Composed of shuffled reports and check-ins", "local delta above 0"): (
        ["pure reports remove", "part by part remove"],
        ["part by part remove"],
        ["rdp (remove) remove"],
        ["pure reports remove", "largest part remove", "part by part remove"],
    ),
    ("Composed of the above", "without allocation"): (
        [*BOTH_ENDS, *MOMENTS, *COMPOSED, *RESORT],
        [MOMENTS[0], *COMPOSED, *RESORT],
        LAWS,
        [*BOTH_ENDS, *MOMENTS, *COMPOSED, *RESORT],
    ),
    ("Composed of the above", "with allocation"): (
        [*MOMENTS, *COMPOSED, *RESORT],
        [MOMENTS[0], *COMPOSED, *RESORT],
        LAWS,
        [*MOMENTS, *COMPOSED, *RESORT],
    ),
    ("Laplace, DiscretePair, ContinuousPair, Pld", ""): beside_traced(FINITE, CLOSED),
    ("RandomizedResponse", ""): host_first(
        ["exact remove", "randomized response remove", "loss distribution remove"], ["randomized response remove"]
    ),
    ("EpsilonDelta", ""): host_first([*BOTH_ENDS, *GUARANTEE, *DISTRIBUTION], GUARANTEE),
    ("DiscreteLaplace", ""): beside_traced(FINITE, RENYI),
    ("Skellam", ""): on_host([*BOTH_ENDS, *DISTRIBUTION]),
    ("DiscreteGaussian", ""): host_first([*BOTH_ENDS, *RENYI, *DISTRIBUTION], RENYI),
    ("Exponential", ""): host_first([*BOTH_ENDS, *RANGE, *DISTRIBUTION], RANGE),
    ("PermuteAndFlip", ""): beside_traced(FINITE, CLOSED),
    ("ZCdp", ""): on_lanes(RENYI),
    ("AboveThreshold", ""): (
        [*PURE_FIRST, *DISTRIBUTION],
        PURE_FIRST,
        PURE_FIRST,
        [*TWO_PROBABILITIES, *PURE_FIRST, *DISTRIBUTION],
    ),
    ("GaussianAboveThreshold", ""): (RENYI, RENYI, RENYI, [*TWO_PROBABILITIES, *RENYI]),
    ("ParallelPoisson(Gaussian)", ""): on_host(["group remove+add"]),
    ("MixtureOfGaussians", ""): on_host(DISTRIBUTION),
    ("Group", "of sampled Gaussians"): on_host(["group remove+add"]),
    ("Group", "of others"): beside_traced(["one after the other remove+add"], REFUSED),
    ("ReplaceOne", "Gaussian"): beside_traced(["replaced remove"], ["closed form remove", "rdp remove"]),
    ("ReplaceOne", "PoissonSampled of Gaussian, Laplace or MixtureOfGaussians"): beside_traced(
        ["loss distribution remove"], ["laws remove"]
    ),
    ("ReplaceOne", "FixedBatches, TruncatedPoisson"): on_host(["fixed batches remove", "loss distribution remove"]),
    ("ReplaceOne", "a single step"): beside_traced(["one step remove", "loss distribution remove"], ["laws remove"]),
    ("ReplaceOne", "ShuffledBatches"): beside_traced(["shuffled order remove", "known batches remove"], ["rdp remove"]),
    ("ReplaceOne", "others"): beside_traced(["removed, then added remove"], ["rdp remove"]),
    ("ZeroOut", "FixedBatches, TruncatedPoisson"): on_host(["fixed batches remove+add", *DISTRIBUTION]),
    ("ZeroOut", "others"): beside_traced(
        ["removed remove+add"], [f"{name} {d}" for d in ("remove", "add") for name in ("closed form", "rdp")]
    ),
    ("BallsInBins", ""): on_host(["groups remove+add", "markov chain remove+add"]),
    ("FixedBatches(Gaussian)", ""): on_host(["as Poisson remove+add"]),
    ("TruncatedPoisson(Gaussian)", ""): on_host(["untruncated remove+add", *DISTRIBUTION]),
    ("PrivateSelection", "any"): last_on_lanes("profile remove+add", RENYI),
    ("PrivateSelection", "Poisson"): host_first(["profile remove+add"], RENYI),
    ("PoissonSampled of these", "Laplace, one step"): beside_traced([*JOINS, *FINITE], LAWS),
    ("PoissonSampled of these", "Laplace"): beside_traced([*JOINS, *INVERSION, *DISTRIBUTION], LAWS),
    ("PoissonSampled of these", "DiscretePair"): beside_traced([*JOINS, *FINITE], COMPOSED),
    ("Composed of ReplaceOne", ""): (
        ["together remove", "part by part remove"],
        ["together remove", "part by part remove"],
        ["rdp (remove) remove"],
        ["together remove", "largest part remove", "part by part remove"],
    ),
    ("RandomAllocation of these", "any"): beside_traced(DISTRIBUTION, LAWS),
    ("RandomAllocation of these", "DiscretePair, one epoch"): (
        [*FINITE, "how many steps remove"],
        [*FINITE, "how many steps remove"],
        [],
        [*BOTH_ENDS, "threshold test remove+add", *DISTRIBUTION, "how many steps remove"],
    ),
    ("Shuffled(LocalRandomizer)", "one round"): on_lanes(["clones remove"], below=[*RESPONSE, *FROM_BELOW]),
    ("Shuffled(LocalRandomizer)", "several rounds"): in_rounds([], below=[*RESPONSE, *FROM_BELOW]),
    ("Shuffled(LocalRandomizer)", "several rounds, local delta above 0"): (
        ["clones remove", *PURE_ROUNDS, "no amplification remove"],
        ["clones remove", *PURE_ROUNDS, "no amplification remove"],
        ["clones remove", "clones rdp remove", "no amplification remove", "clones, composed remove"],
        ["clones remove", *PURE_ROUNDS, "no amplification remove", *RESPONSE],
    ),
    ("Shuffled(FiniteRandomizer)", "one round"): on_lanes_below(BLANKET, ["clones remove"], below=FROM_BELOW),
    ("Shuffled(FiniteRandomizer)", "several rounds"): in_rounds([], FROM_BELOW, COMPOSED_BLANKET),
    ("Shuffled(KaryRandomizedResponse)", "one round"): on_lanes_below(
        BLANKET, ["blanket remove", "clones remove"], below=["nobody else remove", *FROM_BELOW]
    ),
    ("Shuffled(KaryRandomizedResponse)", "several rounds"): in_rounds(
        ["blanket remove"], ["nobody else remove", *FROM_BELOW], COMPOSED_BLANKET
    ),
    ("Shuffled(LaplaceReports)", "one round"): scored(
        on_lanes_below(BLANKET, ["clones remove"], below=[*REPORTS[2:], *FROM_BELOW]), 2
    ),
    ("Shuffled(LaplaceReports)", "several rounds"): scored(
        in_rounds([], [*REPORTS[2:], *FROM_BELOW], COMPOSED_BLANKET), 2
    ),
    ("Shuffled(DensityReports)", "one round"): on_host(BLANKET, below=REPORTS[2:]),
    ("Shuffled(DensityReports)", "several rounds"): (
        *on_host(["loss distribution remove"])[:3],
        [*REPORTS[2:], "loss distribution remove"],
    ),
    ("Shuffled(GaussianReports)", "one round"): (
        GAUSSIAN_ROUND,
        GAUSSIAN_ROUND,
        PURIFIED,
        [*GAUSSIAN_ROUND, *REPORTS],
    ),
    ("Shuffled(GaussianReports)", "several rounds"): (
        GAUSSIAN_ROUNDS,
        GAUSSIAN_ROUNDS,
        ["no amplification remove", "purified clones, composed remove"],
        [GAUSSIAN_ROUNDS[0], REPORTS[0], GAUSSIAN_ROUNDS[1], *REPORTS[1:]],
    ),
    ("CheckIn(LocalRandomizer)", "one round"): on_lanes(CHECK_IN, below=[*RESPONSE, *CHECK_IN_FROM_BELOW]),
    ("CheckIn(LocalRandomizer)", "several rounds"): (
        [*TAKING_PART, "loss distribution remove"],
        [*TAKING_PART, "loss distribution remove"],
        [*TAKING_PART, "check-in profile, composed remove"],
        [*TAKING_PART, "loss distribution remove", *RESPONSE, *CHECK_IN_FROM_BELOW],
    ),
    ("CheckIn(LocalRandomizer)", "several rounds, local delta above 0"): (
        [*TAKING_PART, *PURE_ROUNDS],
        [*TAKING_PART, *PURE_ROUNDS],
        [*TAKING_PART, "check-in profile, composed remove"],
        [*TAKING_PART, *PURE_ROUNDS, *RESPONSE],
    ),
    ("CheckIn(FiniteRandomizer)", ""): of_check_ins(below=CHECK_IN_FROM_BELOW),
    ("CheckIn(KaryRandomizedResponse)", ""): of_check_ins(below=[*RESPONSE, *CHECK_IN_FROM_BELOW]),
    ("CheckIn(LaplaceReports)", ""): scored(of_check_ins(below=[*RESPONSE, *CHECK_IN_FROM_BELOW]), 3),
    ("CheckIn(DensityReports)", ""): on_host(BLANKET, below=REPORTS[2:]),
    ("CheckIn(GaussianReports)", ""): (
        [*TAKING_PART, *GAUSSIAN_ROUND],
        [*TAKING_PART, *GAUSSIAN_ROUND],
        PURIFIED_CHECK_IN,
        [*TAKING_PART, *GAUSSIAN_ROUND, "sum of scores remove", *RESPONSE],
    ),
    ("PoissonSampled(Gaussian)", "a single step"): (
        [*BOTH_ENDS, *MOMENTS, *ONE_SAMPLED],
        ONE_SAMPLED,
        ONE_SAMPLED,
        [*BOTH_ENDS, *MOMENTS, *ONE_SAMPLED],
    ),
    ("CheckIn(GaussianReports)", "everybody"): (
        EVERYBODY,
        EVERYBODY,
        ["taking part remove", "no amplification remove", "purified check-in, composed remove"],
        [*EVERYBODY[:-1], "sum of scores remove", EVERYBODY[-1], *RESPONSE],
    ),
}
# Of concrete numbers traced plans ask the laws of their distributions, too: in each direction after all others.
HAVE_LAWS = {
    *(("ShuffledBatches(Gaussian)", name) for name in ("one epoch", "records left out", "several epochs")),
    *(
        (f"Shuffled({name})", k)
        for name in ("DensityReports", "GaussianReports")
        for k in ("one round", "several rounds")
    ),
    ("PrivateSelection", "Poisson"),
    *(("ZeroOut", name) for name in ("FixedBatches, TruncatedPoisson", "others")),
    *((title, "") for title in ("RandomAllocation(PoissonSampled)", "PartialShuffledBatches(Gaussian)")),
    *((title, "") for title in ("PartialAllocation(Gaussian)", "ScheduledAllocation", "Skellam", "Exponential")),
    *((title, "") for title in ("AboveThreshold", "ParallelPoisson(Gaussian)", "MixtureOfGaussians", "BallsInBins")),
    *((title, "") for title in ("FixedBatches(Gaussian)", "TruncatedPoisson(Gaussian)", "CheckIn(GaussianReports)")),
    *(
        (f"CheckIn({name})", "")
        for name in (
            "DensityReports",
            "FiniteRandomizer",
            "KaryRandomizedResponse",
            "LaplaceReports",
        )
    ),
    ("CheckIn(GaussianReports)", "everybody"),
    *(("Composed of shuffled reports and check-ins", name) for name in ("different rounds", "equal rounds")),
    *(("CheckIn(LocalRandomizer)", name) for name in ("one round", "several rounds")),
    ("PoissonSampled(RandomAllocation)", "Gaussian, sampled once"),
    ("PoissonSampled(RandomAllocation)", "others"),
    ("PoissonSampled of these", "DiscretePair"),
    ("RandomAllocation of these", "DiscretePair, one epoch"),
    ("Group", "of sampled Gaussians"),
    ("ReplaceOne", "FixedBatches, TruncatedPoisson"),
    ("ReplaceOne", "ShuffledBatches"),
}


@pytest.fixture
def rows(monkeypatch):
    """(title, variant) -> example, of the support matrix."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    schemes = importlib.import_module("_generate").schemes()
    return {(s.title, variant): example for s in schemes for variant, example in s.variants.items()}


def in_words(steps):
    return [f"{step.method.name} {'+'.join(d.value for d in step.directions)}" for step in steps]


def default(mechanism):
    return plan(question_of(mechanism, Query.EPSILON, DELTA))


def quick(mechanism):
    return plan(question_of(mechanism, Query.EPSILON, DELTA, precision=math.inf))


def interval(mechanism):
    return plan(interval_question(mechanism, Query.EPSILON, DELTA, None, None))


def traced(mechanism):
    found = []

    def inside(delta):
        found.append(plan(question_of(mechanism, Query.EPSILON, delta)))
        return delta

    jax.eval_shape(inside, jax.ShapeDtypeStruct((), "float32"))
    return found[0]


def test_every_row_of_the_support_matrix_has_a_plan(rows):
    assert set(PLANS) == set(rows)


@pytest.mark.parametrize("row", PLANS, ids=lambda row: " ".join(filter(None, row)))
def test_methods_are_asked_in_the_order_stated(rows, row):
    wanted = dict(zip((default, quick, traced, interval), PLANS[row], strict=True))
    for ask, methods in wanted.items():
        if methods is REFUSED:
            with pytest.raises(ValueError, match="on the host only"):
                ask(rows[row])
        elif ask is traced and row in HAVE_LAWS:
            directions = [d.value for d in rows[row].directions]
            of_each = [[name for name in methods if name.endswith(d)] for d in directions]
            found = [name for d, own in zip(directions, of_each, strict=True) for name in (*own, f"laws {d}")]
            assert in_words(ask(rows[row])) == found
        else:
            assert in_words(ask(rows[row])) == methods, ask.__name__


@pytest.mark.parametrize("name", TRACED)
def test_a_program_plans_without_the_numbers(name):
    """Counts too, on which the roles of other methods depend."""
    found = []

    def inside(mechanism, delta):
        found.append(plan(question_of(mechanism, Query.EPSILON, delta)))
        return delta

    jax.eval_shape(inside, TRACED[name], DELTA)
    assert found[0]
    assert all(isinstance(step.method, LaneMethod) for step in found[0])


def test_delta_is_planned_as_epsilon_is(rows):
    for example in rows.values():
        asked = plan(question_of(example, Query.DELTA, 1.0))
        assert in_words(asked) == in_words(default(example))


def test_the_public_plan_is_the_one_that_answers(rows):
    for example in rows.values():
        for ask, options in ((default, {}), (quick, {"precision": math.inf})):
            steps = ja.accounting.plan(example, DELTA, **options)
            assert tuple(PlanStep(step.method, step.directions) for step in steps) == ask(example)


def _traces():
    """The kernels that there are, and the programs traced for all of them."""
    kernels = [thing for thing in gc.get_objects() if type(thing) is Kernel]
    return len(kernels), sum(kernel.num_traces for kernel in kernels)


def test_a_plan_is_pure(rows):
    before = _traces()
    for example in rows.values():
        for ask in (default, quick, interval):
            assert ask(example) == ask(example)
    assert _traces() == before
    ja.epsilon(ja.Laplace(1.0), DELTA)
    eleven = [ja.Gaussian(float(noise)) for noise in range(20, 31)]  # no other test has as many parts
    ja.epsilon(ja.Composed(eleven), DELTA, method="rdp (add)", direction=ja.Direction.ADD)
    assert _traces() != before  # what is asked is traced, so the count would have shown it
