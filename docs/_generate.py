"""Parts of the site made from the package: the support matrix from its tables, the reference from its names."""

import dataclasses
import importlib
import importlib.util
from typing import Any

import jaxacct as ja
from jaxacct import _host_methods, _methods
from jaxacct.bounds.poisson._exact import inverts
from jaxacct.intervals import distribution_theorem, has_distribution

REGIMES = {
    "blanket": "one round",
    "clones": "one round; local delta small against delta / num_reports",
    "clones, composed": "several rounds",
    "closed form": "one round; log(4 s/delta) <= n e^-eps0 / 16, s = tanh(eps0/2)",
    "largest output": "the test: was any output large?",
    "nobody else": "one round; 3 categories or more",
    "overlap": "Renyi orders 2 and up",
    "purified clones": "one round",
}
"""What holds beside what the tables say, by name of the method."""


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A mechanism to look up in the tables, in variants where these differ in what applies."""

    title: str
    variants: dict[str, Any]


def schemes() -> list[Scheme]:
    """Examples of every kind of mechanism."""
    noise, pair, pure = ja.Gaussian(1.0), ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), ja.Laplace(1.0)
    sampled = ja.PoissonSampled(noise, 0.01, 100)
    allocated = {
        "one epoch, one step a record": ja.RandomAllocation(noise, 100),
        "several epochs": ja.RandomAllocation(noise, 100, 1, 2),
        "several steps a record": ja.RandomAllocation(noise, 100, 2),
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
        "GaussianReports": ja.GaussianReports(4.0),
    }
    shuffled = [Scheme(f"Shuffled({name})", {"": ja.Shuffled(r, 1000)}) for name, r in randomizers.items()]
    return [
        Scheme("Gaussian", {"": noise}),
        Scheme("PoissonSampled(Gaussian)", {"": sampled}),
        Scheme("RandomAllocation(Gaussian)", allocated),
        Scheme("PartialAllocation(Gaussian)", {"": ja.PartialAllocation(noise, 100, 50)}),
        Scheme("ScheduledAllocation", {"": ja.ScheduledAllocation((1.0, 2.0), (50, 50))}),
        Scheme("Composed(Gaussian)", {"": ja.Composed(noise, 2)}),
        Scheme("Composed of the above", mixed),
        Scheme("Laplace, DiscretePair, ContinuousPair, Pld", {"": pure}),
        Scheme("PoissonSampled of these", {"": ja.PoissonSampled(pure, 0.01, 100)}),
        Scheme("RandomAllocation of these", of_pairs),
        *shuffled,
        *_check_ins(randomizers),
    ]


def _check_ins(randomizers: dict[str, Any]) -> list[Scheme]:
    return [Scheme(f"CheckIn({name})", {"": ja.CheckIn(r, 1000, 0.1)}) for name, r in randomizers.items()]


@dataclasses.dataclass
class _Line:
    """One method of a scheme, or its two ends."""

    method: Any
    directions: set[ja.Direction]
    variants: list[str]
    is_traced: bool


def _in_jit(method: Any, example: Any, is_host: bool) -> bool:
    return not is_host or (method.name == "exact" and inverts(example))


def _lines(scheme: Scheme) -> dict[tuple[str, str, str], _Line]:
    """Every method of every variant, by name, bound and theorem."""
    lines: dict[tuple[str, str, str], _Line] = {}
    for label, example in scheme.variants.items():
        own = _methods.methods_for(example) if _methods.has_methods(example) else ()
        for method in (*own, *_host_methods.host_methods_for(example)):
            name = method.name.removesuffix(" (remove)").removesuffix(" (add)")
            traced = _in_jit(method, example, is_host=method not in own)
            line = lines.setdefault((name, method.bound.value, method.theorem), _Line(method, set(), [], traced))
            line.directions |= set(method.directions)
            line.variants += [label] if label not in line.variants else []
    return lines


def _regime(line: _Line, name: str, scheme: Scheme) -> str:
    parts = [] if len(line.variants) == len(scheme.variants) else [", or ".join(line.variants)]
    grids = getattr(line.method, "grids", ())
    if grids:
        orders = sorted({order for grid in grids for order in grid})
        kind = "whole" if all(order == int(order) for order in orders) else "real"
        parts.append(f"Renyi orders {orders[0]:.4g} to {orders[-1]:.6g}, {kind}")
    parts.append(REGIMES.get(name, ""))
    return "; ".join(part for part in parts if part) or "all"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _table(scheme: Scheme) -> list[str]:
    example = next(iter(scheme.variants.values()))
    two_sided = _methods.relation_of(example) is ja.NeighboringRelation.ADD_OR_REMOVE_ONE

    def sides(directions: set[ja.Direction]) -> str:
        return "both" if not two_sided or len(directions) == 2 else "".join(d.value for d in directions)

    rows = [
        _row(
            name,
            bound.removesuffix(" bound"),
            sides(line.directions),
            "yes" if line.is_traced else "no",
            _regime(line, name, scheme),
            theorem,
        )
        for (name, bound, theorem), line in _lines(scheme).items()
    ]
    if has_distribution(example):
        named = "; ".join(distribution_theorem(e) for e in scheme.variants.values()).split("; ")
        theorems = "; ".join(dict.fromkeys(named))
        rows.append(_row("loss distribution", "upper and lower", "both", "no", "all", theorems))
    return rows


def support_matrix() -> str:
    """Every scheme with its methods, from the tables that answer."""
    head = _row("method", "bound", "directions", "inside jit", "regime", "theorem")
    lines: list[str] = []
    for scheme in schemes():
        relation = _methods.relation_of(next(iter(scheme.variants.values())))
        lines += [f"## {scheme.title}", "", f"Adjacency: {relation.value}.", ""]
        lines += [head, "|---|---|---|---|---|---|", *_table(scheme), ""]
    return "\n".join(lines)


_GROUPS = {
    "Questions": "epsilon delta epsilon_interval delta_interval compare deciding report calibrate sweep",
    "Mechanisms": (
        "Gaussian Laplace DiscretePair ContinuousPair PoissonSampled RandomAllocation PartialAllocation "
        "ScheduledAllocation Composed"
    ),
    "Shuffling and check-ins": (
        "Shuffled CheckIn LocalRandomizer KaryRandomizedResponse FiniteRandomizer GaussianReports"
    ),
    "Curves and what is made from them": "rdp pld RdpCurve Pld compose mixture dominating_pld allocation_rdp",
    "Membership inference": "tradeoff gdp",
    "Monte Carlo and utility": "estimate_delta Estimate Sampler mean_estimation_variance",
    "What answers carry": (
        "Bound Direction NeighboringRelation Entry Interval SweepResult Layout OrderEdgeWarning PrecisionWarning "
        "SweepInterrupted"
    ),
}
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
    grouped = {title: [n for n in names.split() if n in ja.__all__] for title, names in _GROUPS.items()}
    known = {name for names in grouped.values() for name in names}
    rest = [name for name in ja.__all__ if name not in known]
    return {**grouped, **({"More": rest} if rest else {})}


def _directive(module: str, name: str) -> list[str]:
    thing = getattr(importlib.import_module(module), name)
    if not callable(thing):
        return [f".. autodata:: {module}.{name}", "   :no-value:", ""]
    if not isinstance(thing, type):
        return [f".. autofunction:: {module}.{name}", ""]
    has_members = not issubclass(thing, tuple | Exception) and not hasattr(thing, "__attrs_attrs__")
    options = ["   :members:", "   :exclude-members: in_domain"] if has_members else []
    return [f".. autoclass:: {module}.{name}", *options, ""]


def _section(title: str, module: str, names: list[str]) -> list[str]:
    directives = [line for name in names for line in _directive(module, name)]
    return [f"## {title}", "", "```{eval-rst}", *directives, "```", ""]


def api_reference() -> str:
    """Every public name, by its docstring."""
    lines = [line for title, names in groups().items() for line in _section(title, "jaxacct", names)]
    for module, title in _SUBPACKAGES.items():
        if importlib.util.find_spec(module) is not None:
            lines += _section(f"{title}: {module}", module, importlib.import_module(module).__all__)
    return "\n".join(lines)
