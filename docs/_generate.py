"""Parts of the site made from the package: the support matrix from its tables, the reference from its names."""

import dataclasses
import importlib
import importlib.util
import math
import re
from typing import Any

import numpy as np

import jaxacct as ja
from jaxacct._citations import PAPERS, linked_markdown
from jaxacct._method import LaneMethod, Method, RenyiMethod
from jaxacct.bounds import methods_for
from jaxacct.bounds._distribution import DistributionMethod
from jaxacct.mechanisms._base import Description, Mechanism

_FACTS = ", ".join(
    sorted({fact for base in (Description, Mechanism) for fact in vars(base) if fact[0] != "_"} | {"is_pure"})
)
"""What stands with every mechanism for the rest of the package to read: not in the reference."""


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A mechanism to look up in the tables, in variants where these differ in what applies."""

    title: str
    variants: dict[str, Any]


def schemes() -> list[Scheme]:
    """Examples of every kind of mechanism."""
    noise, pair, pure = ja.Gaussian(1.0), ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), ja.Laplace(1.0)
    sampled, fixed = ja.PoissonSampled(noise, 0.01, 100), ja.FixedBatches(noise, 1000, 10, 100)
    allocated = {
        "one epoch, one step a record": ja.RandomAllocation(noise, 100),
        "several epochs": ja.RandomAllocation(noise, 100, 1, 2),
        "several steps a record": ja.RandomAllocation(noise, 100, 2),
        "noise multiplier 100 or more": ja.RandomAllocation(ja.Gaussian(100.0), 100, 2),
    }
    mixed = {
        "without allocation": ja.Composed((noise, sampled)),
        "with allocation": ja.Composed((noise, allocated["several epochs"])),
    }
    of_pairs = {
        "any": ja.RandomAllocation(pure, 100),
        "DiscretePair, one epoch": ja.RandomAllocation(pair, 10, 2),
    }
    randomizers = {
        "LocalRandomizer": ja.LocalRandomizer(1.0),
        "FiniteRandomizer": ja.FiniteRandomizer([[0.6, 0.4], [0.4, 0.6]]),
        "KaryRandomizedResponse": ja.KaryRandomizedResponse(1.0, 4),
        "GaussianReports": ja.GaussianReports(4.0, 1),
        "LaplaceReports": ja.LaplaceReports(2.0),
        "DensityReports": ja.DensityReports(lambda z: -2.0 * np.logaddexp(0.5 * z, -0.5 * z), 2.0),
    }
    of_reports = (ja.Shuffled(ja.LocalRandomizer(1.0), 1000), ja.CheckIn(ja.LocalRandomizer(1.0), 1000, 0.1))
    rounds = {"one round": 1, "several rounds": 10}
    shuffled = [
        Scheme(f"Shuffled({name})", {words: ja.Shuffled(one, 1000, number) for words, number in rounds.items()})
        for name, one in randomizers.items()
    ]
    approximate = ja.LocalRandomizer(1.0, 1e-12)
    shuffled[0].variants["several rounds, local delta above 0"] = ja.Shuffled(approximate, 1000, 10)
    return [
        Scheme("Gaussian", {"": noise}),
        Scheme("PoissonSampled(Gaussian)", {"": sampled, "a single step": ja.PoissonSampled(noise, 0.01, num_steps=1)}),
        Scheme("RandomAllocation(Gaussian)", allocated),
        Scheme("PartialAllocation(Gaussian)", {"": ja.PartialAllocation(noise, 100, 50)}),
        Scheme(
            "ShuffledBatches(Gaussian)",
            {
                "one epoch": ja.ShuffledBatches(noise, 100),
                "several epochs": ja.ShuffledBatches(noise, 100, 2),
                "records left out": ja.ShuffledBatches(noise, 100, last_batch="dropped"),
            },
        ),
        Scheme("PartialShuffledBatches(Gaussian)", {"": ja.PartialShuffledBatches(noise, 100, 50)}),
        Scheme("ScheduledAllocation", {"": ja.ScheduledAllocation((1.0, 2.0), (50, 50))}),
        Scheme("Composed(Gaussian)", {"": ja.Composed(noise, 2)}),
        Scheme("Composed of the above", mixed),
        Scheme(
            "Composed of ReplaceOne",
            {"": ja.Composed((ja.ReplaceOne(allocated["several epochs"]), ja.ReplaceOne(noise)))},
        ),
        Scheme("Laplace, DiscretePair, ContinuousPair, Pld", {"": pure}),
        Scheme("RandomizedResponse", {"": ja.RandomizedResponse(1.0, 4)}),
        Scheme("EpsilonDelta", {"": ja.EpsilonDelta(1.0, 1e-9)}),
        Scheme("DiscreteLaplace", {"": ja.DiscreteLaplace(0.5, 3)}),
        Scheme("DiscreteGaussian", {"": ja.DiscreteGaussian(2.0)}),
        Scheme("Skellam", {"": ja.Skellam(4.0)}),
        Scheme("Exponential", {"": ja.Exponential(1.0)}),
        Scheme("PermuteAndFlip", {"": ja.PermuteAndFlip(1.0)}),
        Scheme("ZCdp", {"": ja.ZCdp(0.1)}),
        Scheme("AboveThreshold", {"": ja.AboveThreshold(2.0, 8.0)}),
        Scheme("GaussianAboveThreshold", {"": ja.GaussianAboveThreshold(8.0, 16.0, num_queries=100)}),
        Scheme("ParallelPoisson(Gaussian)", {"": ja.ParallelPoisson(noise, 0.01, 4, 100)}),
        Scheme("MixtureOfGaussians", {"": ja.MixtureOfGaussians(1.0, (0.0, 1.0, 2.0), (0.8, 0.15, 0.05))}),
        Scheme(
            "Group",
            {"of sampled Gaussians": ja.Group(sampled, 3), "of others": ja.Group(allocated["several epochs"], 3)},
        ),
        Scheme(
            "ReplaceOne",
            {
                "Gaussian": ja.ReplaceOne(noise),
                "a single step": ja.ReplaceOne(ja.PoissonSampled(noise, 0.01, num_steps=1)),
                "PoissonSampled of Gaussian, Laplace or MixtureOfGaussians": ja.ReplaceOne(sampled),
                "FixedBatches, TruncatedPoisson": ja.ReplaceOne(fixed),
                "ShuffledBatches": ja.ReplaceOne(ja.ShuffledBatches(noise, 100)),
                "others": ja.ReplaceOne(allocated["several epochs"]),
            },
        ),
        Scheme("ZeroOut", {"FixedBatches, TruncatedPoisson": ja.ZeroOut(fixed), "others": ja.ZeroOut(sampled)}),
        Scheme("BallsInBins", {"": ja.BallsInBins([1.0, 0.5], 4.0, 100, 10)}),
        Scheme("FixedBatches(Gaussian)", {"": fixed}),
        Scheme("TruncatedPoisson(Gaussian)", {"": ja.TruncatedPoisson(noise, 0.01, 1000, 20, num_steps=1)}),
        Scheme(
            "PrivateSelection",
            {"any": ja.PrivateSelection(sampled, 10.0), "Poisson": ja.PrivateSelection(sampled, 10.0, math.inf)},
        ),
        Scheme(
            "PoissonSampled of these",
            {
                "Laplace, one step": ja.PoissonSampled(pure, 0.01, num_steps=1),
                "Laplace": ja.PoissonSampled(pure, 0.01, 100),
                "DiscretePair": ja.PoissonSampled(ja.DiscretePair((0.6, 0.4), (0.3, 0.7)), 0.01, 100),
            },
        ),
        Scheme("RandomAllocation of these", of_pairs),
        Scheme("RandomAllocation(PoissonSampled)", {"": ja.RandomAllocation(sampled, 10)}),
        Scheme(
            "PoissonSampled(RandomAllocation)",
            {
                "Gaussian, sampled once": ja.PoissonSampled(allocated["several epochs"], 0.1, 1),
                "others": ja.PoissonSampled(ja.RandomAllocation(pure, 100), 0.1, 10),
            },
        ),
        *shuffled,
        *_check_ins(randomizers),
        Scheme(
            "Composed of shuffled reports and check-ins",
            {
                "different rounds": ja.Composed(of_reports),
                "equal rounds": ja.Composed(of_reports[0], 3),
                "local delta above 0": ja.Composed((of_reports[0], ja.CheckIn(approximate, 1000, 0.1))),
            },
        ),
    ]


def _check_ins(randomizers: dict[str, Any]) -> list[Scheme]:
    variants = {name: {"": ja.CheckIn(r, 1000, 0.1)} for name, r in randomizers.items()}
    pure, approximate = randomizers["LocalRandomizer"], ja.LocalRandomizer(1.0, 1e-12)
    variants["LocalRandomizer"] = {
        "one round": ja.CheckIn(pure, 1000, 0.1),
        "several rounds": ja.CheckIn(pure, 1000, 0.1, 10),
        "several rounds, local delta above 0": ja.CheckIn(approximate, 1000, 0.1, 10),
    }
    variants["GaussianReports"]["everybody"] = ja.CheckIn(randomizers["GaussianReports"], 1000, 1.0, num_epochs=2)
    return [Scheme(f"CheckIn({name})", examples) for name, examples in variants.items()]


@dataclasses.dataclass
class _Line:
    """A method of a scheme, its ends the same in all variants."""

    method: Method
    directions: set[ja.Direction]
    variants: list[str]


def _lines(scheme: Scheme) -> dict[tuple[str, str, str], _Line]:
    """Every method of every variant, by name, ends and theorem."""
    lines: dict[tuple[str, str, str], _Line] = {}
    for label, example in scheme.variants.items():
        for method in sorted((m for m in methods_for(example) if m.is_listed), key=_rank):
            name = method.name.removesuffix(" (remove)").removesuffix(" (add)")
            if ends := _ends(method, example):
                line = lines.setdefault((name, ends, method.source(example)), _Line(method, set(), []))
                line.directions |= set(method.directions)
                line.variants += [label] if label not in line.variants else []
    return lines


def _rank(method: Method) -> int:
    """Methods on lanes, then those on the host, then loss distributions."""
    return 0 if isinstance(method, LaneMethod) else 2 if isinstance(method, DistributionMethod) else 1


def _ends(method: Method, example: Any) -> str:
    """ "upper", "lower" or both."""
    given = (bound for bound in (ja.Bound.UPPER, ja.Bound.LOWER) if bound in method.ends_for(example))
    return " and ".join(bound.value.removesuffix(" bound") for bound in given)


def _regime(line: _Line, scheme: Scheme) -> str:
    parts = [] if len(line.variants) == len(scheme.variants) else [", or ".join(line.variants)]
    if isinstance(line.method, RenyiMethod):
        orders = sorted({order for grid in line.method.grids for order in grid})
        kind = "whole" if all(order == int(order) for order in orders) else "real"
        parts.append(f"Renyi orders {orders[0]:.4g} to {orders[-1]:.6g}, {kind}")
    parts.append(line.method.regime)
    return "; ".join(part for part in parts if part) or "all"


def _with_links(theorem: str) -> str:
    """A theorem with links to its papers, and to the page of its proof where it is ours."""
    return re.sub(r"docs/(papers/\w+)\.md", r"[proof](\1.md)", linked_markdown(theorem))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _table(scheme: Scheme) -> list[str]:
    two_sided = len(next(iter(scheme.variants.values())).directions) == 2

    def sides(directions: set[ja.Direction]) -> str:
        return "both" if not two_sided or len(directions) == 2 else "".join(d.value for d in directions)

    return [
        _row(
            name,
            ends,
            sides(line.directions),
            "yes" if isinstance(line.method, LaneMethod) else "no",
            _regime(line, scheme),
            _with_links(theorem),
        )
        for (name, ends, theorem), line in _lines(scheme).items()
    ]


def support_matrix() -> str:
    """Every scheme with its methods, from the tables that answer."""
    head = _row("method", "bound", "directions", "inside jit", "regime", "theorem")
    lines: list[str] = []
    for scheme in schemes():
        relation = next(iter(scheme.variants.values())).relation
        lines += [f"## {scheme.title}", "", f"Adjacency: {relation.value}.", ""]
        lines += [head, "|---|---|---|---|---|---|", *_table(scheme), ""]
    return "\n".join(lines)


_GROUPS = {
    "Questions": "epsilon delta epsilon_interval delta_interval compare accounting.deciding report calibrate sweep",
    "Workers": "sweeping.Workers sweeping.one_thread",
    "Mechanisms": (
        "Gaussian Laplace DiscretePair ContinuousPair PoissonSampled RandomAllocation PartialAllocation "
        "ScheduledAllocation ShuffledBatches PartialShuffledBatches FixedBatches TruncatedPoisson ParallelPoisson "
        "Composed"
    ),
    "Further releases": (
        "RandomizedResponse EpsilonDelta ZCdp DiscreteLaplace DiscreteGaussian Skellam Exponential PermuteAndFlip "
        "AboveThreshold GaussianAboveThreshold PrivateSelection MixtureOfGaussians Group ReplaceOne ZeroOut"
    ),
    "Correlated noise": (
        "BallsInBins correlated.BandedNoise correlated.estimate_delta correlated.estimate_noise "
        "correlated.NoiseEstimate"
    ),
    "Shuffling and check-ins": (
        "Shuffled CheckIn LocalRandomizer KaryRandomizedResponse FiniteRandomizer GaussianReports LaplaceReports "
        "DensityReports"
    ),
    "Curves and what is made from them": (
        "rdp pld accounting.allocation_rdp curves.RdpCurve curves.Pld curves.mixture curves.dominating_pld "
        "composition.compose"
    ),
    "Attack success, and other measures": (
        "tradeoff membership.gdp measures.Advantage measures.TruePositiveRate measures.BayesRisk measures.GaussianDp "
        "measures.ZeroConcentratedDp measures.Measure"
    ),
    "Audits": "audit.many_runs audit.one_run audit.p_value audit.Audit",
    "Monte Carlo and utility": (
        "estimation.estimate_delta estimation.Estimate estimation.Sampler utility.mean_estimation_variance"
    ),
    "What answers carry": (
        "Bound Direction NeighboringRelation Interval accounting.Entry sweeping.SweepResult sweeping.Layout "
        "sweeping.SweepInterrupted sweeping.SweepFailedError sweeping.FailedChunk OrderEdgeWarning PrecisionWarning "
        "EstimateWarning SlowWarning"
    ),
}
"""Names on the first page of jaxacct, those of its submodules by their path, and four warnings."""
_SUBPACKAGES = {
    "jaxacct.training": "Training",
    "jaxacct.interop": "Other accountants",
    "jaxacct.plot": "Plots",
    "jaxacct.papers.random_allocation": "Statements of papers, random allocation",
    "jaxacct.papers.clones": "Statements of papers, hiding among the clones",
    "jaxacct.papers.girgis": "Statements of papers, Renyi divergences of the shuffle model",
    "jaxacct.papers.chen": "Statements of papers, enhanced Renyi bounds",
    "jaxacct.papers.check_ins": "Statements of papers, shuffled check-ins",
}


def groups() -> dict[str, list[str]]:
    """The public names of jaxacct in groups; those that no group names come last, under their own heading."""
    grouped = {title: names.split() for title, names in _GROUPS.items()}
    known = {name for names in grouped.values() for name in names}
    rest = [name for name in ja.__all__ if name not in known]
    return {**grouped, **({"More": rest} if rest else {})}


def _directive(module: str, name: str) -> list[str]:
    module, _, name = f"{module}.{name}".rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    if not callable(thing):
        return [f".. py:data:: {module}.{name}", ""]  # a table: autodoc would show the docstring of its type
    if not isinstance(thing, type):
        return [f".. autofunction:: {module}.{name}", ""]
    has_members = not issubclass(thing, tuple | Exception) and not hasattr(thing, "__attrs_attrs__")
    options = ["   :members:", f"   :exclude-members: {_FACTS}"] if has_members else []
    return [f".. autoclass:: {module}.{name}", *options, ""]


def _section(title: str, module: str, names: list[str]) -> list[str]:
    directives = [line for name in names for line in _directive(module, name)]
    return [f"## {title}", "", "```{eval-rst}", *directives, "```", ""]


PAGES = {
    "questions": ("Questions", "What answers carry", "Workers", "More"),
    "mechanisms": ("Mechanisms", "Further releases", "Correlated noise"),
    "reports": ("Shuffling and check-ins",),
    "curves": ("Curves and what is made from them", "Monte Carlo and utility"),
    "measures": ("Attack success, and other measures", "Audits"),
    "training": ("jaxacct.training",),
    "interop": ("jaxacct.interop",),
    "plot": ("jaxacct.plot",),
    "papers": tuple(module for module in _SUBPACKAGES if module.startswith("jaxacct.papers.")),
}
"""The pages of the reference: groups of names, or modules."""


def reference(page: str) -> str:
    """A page of the reference: every public name of its groups and modules, by its docstring."""
    lines: list[str] = []
    for name in PAGES[page]:
        if name not in _SUBPACKAGES:
            names = groups().get(name, [])
            lines += _section(name, "jaxacct", names) if names else []
        elif importlib.util.find_spec(name) is not None:
            lines += _section(f"{_SUBPACKAGES[name]}: {name}", name, importlib.import_module(name).__all__)
    return "\n".join(lines)


def papers() -> str:
    """Every paper that a theorem is named after, with its address."""
    rows = (_row(name, f"<{address}>") for name, address in PAPERS.items())
    return "\n".join([_row("paper", "where"), "|---|---|", *rows])
