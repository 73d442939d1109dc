"""What was found, in words that can be pasted into a model card. Public parameters only."""

import math
import warnings
from typing import Any

import numpy as np

from jaxacct._types import Bound, NeighboringRelation, OrderEdgeWarning
from jaxacct.accounting import Entry, compare, deciding
from jaxacct.intervals import PrecisionWarning, delta_interval, distribution_theorem, epsilon_interval
from jaxacct.mechanisms import (
    Composed,
    Gaussian,
    GaussianReports,
    KaryRandomizedResponse,
    LocalRandomizer,
    PoissonSampled,
    RandomAllocation,
    Shuffled,
)

_GAUSSIAN_ASSUMPTION = (
    "each step releases a sum of contributions clipped to norm C plus Gaussian noise of standard deviation "
    "noise_multiplier * C; a step may depend on all earlier outputs"
)
_ALLOCATION_ASSUMPTION = (
    "each record's steps are a uniform set of the stated size, drawn independently of the other records and afresh "
    "in every epoch, and stay secret (a shuffled order of fixed batches is another scheme)"
)
_POISSON_ASSUMPTION = (
    "each record joins each step independently with the stated probability, and who joined stays secret"
)

_SHUFFLE_ASSUMPTION = (
    "the users' data are in a uniformly random order, drawn afresh in every round and known to the shuffler alone; "
    "each report is randomized as stated, and a randomizer may depend on earlier reports"
)


def describe(mechanism: Any) -> str:
    """One line on what was run."""
    if isinstance(mechanism, Gaussian):
        return f"Gaussian noise, noise multiplier {mechanism.noise_multiplier}"
    if isinstance(mechanism, RandomAllocation):
        epochs = "" if mechanism.num_epochs == 1 else f", {mechanism.num_epochs:.0f} epochs"
        scheme = f"random allocation, each record in {mechanism.num_selected:.0f} of {mechanism.num_steps:.0f} steps"
        return f"{scheme}{epochs}; {describe(mechanism.mechanism)}"
    if isinstance(mechanism, PoissonSampled):
        scheme = f"Poisson sampling, probability {mechanism.sampling_prob:.6g}, {mechanism.num_steps:.0f} steps"
        return f"{scheme}; {describe(mechanism.mechanism)}"
    if isinstance(mechanism, Shuffled):
        rounds = "" if mechanism.num_epochs == 1 else f", {mechanism.num_epochs:.0f} rounds"
        return f"shuffle of {mechanism.num_reports:.0f} reports{rounds}; {_describe_randomizer(mechanism.mechanism)}"
    if isinstance(mechanism, Composed):
        parts = zip(mechanism.mechanisms, mechanism.counts, strict=True)
        return " + ".join(f"{count:.0f} x ({describe(part)})" for part, count in parts)
    return repr(mechanism)


def _describe_randomizer(randomizer: Any) -> str:
    if isinstance(randomizer, LocalRandomizer):
        delta = f" and delta {randomizer.local_delta:g}" if randomizer.local_delta else ""
        return f"each of local epsilon {randomizer.local_epsilon:g}{delta}"
    if isinstance(randomizer, KaryRandomizedResponse):
        return f"{randomizer.num_categories:.0f}-ary randomized response of local epsilon {randomizer.local_epsilon:g}"
    if isinstance(randomizer, GaussianReports):
        return f"Gaussian noise, noise multiplier {randomizer.noise_multiplier:g}"
    return f"each of local epsilon {randomizer.local_epsilon:.4g}, by its output probabilities"


def assumptions(mechanism: Any) -> tuple[str, ...]:
    """What must hold for the number to be true."""
    if isinstance(mechanism, Composed):
        return tuple(dict.fromkeys(a for part in mechanism.mechanisms for a in assumptions(part)))
    if isinstance(mechanism, RandomAllocation):
        return (_ALLOCATION_ASSUMPTION, *assumptions(mechanism.mechanism))
    if isinstance(mechanism, Shuffled):
        return (_SHUFFLE_ASSUMPTION,)
    if isinstance(mechanism, PoissonSampled):
        return (_POISSON_ASSUMPTION, *assumptions(mechanism.mechanism))
    return (_GAUSSIAN_ASSUMPTION,)


def poisson_at_same_rate(mechanism: Any) -> PoissonSampled | None:
    """The Poisson-sampled run in which each record takes part as often on average, or None."""
    if not isinstance(mechanism, RandomAllocation):
        return None
    rate = mechanism.num_selected / mechanism.num_steps
    return PoissonSampled(mechanism.mechanism, sampling_prob=rate, num_steps=mechanism.num_steps * mechanism.num_epochs)


def shown(value: float, digits: int = 4) -> str:
    """`value` to some significant digits, rounded up: what is printed is a bound too.

    >>> shown(0.90551), shown(0.0), shown(float("inf")), shown(7.52e-07)
    ('0.9056', '0', 'inf', '7.52e-07')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:.{digits}g}"
    if float(text) < value:
        unit = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits)
        text = f"{float(text) + unit:.{digits}g}"
    return text


def shown_down(value: float, digits: int = 4) -> str:
    """`value` to some significant digits, rounded down, as a lower bound must be.

    >>> shown_down(0.90559), shown_down(0.0)
    ('0.9055', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:.{digits}g}"
    if float(text) > value:
        unit = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits)
        text = f"{float(text) - unit:.{digits}g}"
    return text


def entry_fields(entry: Entry) -> dict[str, Any]:
    """An entry as plain values, ready for JSON."""
    return {
        "direction": entry.direction.value,
        "value": entry.value,
        "bound": entry.bound.value,
        "method": entry.method,
        "theorem": entry.theorem,
        "order": None if np.isnan(entry.order) else entry.order,
        "at_order_edge": entry.at_order_edge,
    }


def _parameters(mechanism: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": type(mechanism).__name__}
    for name, value in vars(mechanism).items():
        if isinstance(value, tuple):
            fields[name] = [v if isinstance(v, int | float) else _parameters(v) for v in value]
        else:
            fields[name] = value if isinstance(value, int | float) else _parameters(value)
    return fields


def _answer(mechanism: Any, target_delta: float | None, target_epsilon: float | None, precision: float | None) -> Any:
    """(value, entries of the Renyi and closed methods, interval or None)."""
    entries = deciding(mechanism, target_delta, target_epsilon=target_epsilon, precision=math.inf)
    value, interval = max(e.value for e in entries), None
    if precision != math.inf:
        if target_delta is not None:
            interval = epsilon_interval(mechanism, target_delta, precision=precision or 0.01)
        else:
            assert target_epsilon is not None
            interval = delta_interval(mechanism, target_epsilon, precision=precision or 0.01)
        value = min(value, interval.upper)
    return value, entries, interval


def _reduction(mechanism: Any) -> str:
    if isinstance(mechanism, Shuffled):
        return "the clones pair"
    return "the reduction to one step at a time"


def statement(
    mechanism: Any,
    *,
    target_delta: float | None = None,
    target_epsilon: float | None = None,
    precision: float | None = None,
) -> dict[str, Any]:
    """The certified answer to one scalar question with everything that it rests on, ready for JSON.

    Args:
      mechanism: a mechanism with scalar fields.
      target_delta: to state epsilon; or
      target_epsilon: to state delta.
      precision: relative width of the certified interval, 1 % where None; inf leaves it out.

    Returns:
      A dict: epsilon, delta, bound, neighboring_relation, interval, directions (by which theorem each is bounded
      without the loss distribution), mechanism, description, assumptions, notes, and for random allocation the Poisson
      answer at the same rate.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OrderEdgeWarning)
        warnings.simplefilter("always", PrecisionWarning)
        value, entries, interval = _answer(mechanism, target_delta, target_epsilon, precision)
        worst = max(entries, key=lambda e: e.value)
        baseline = poisson_at_same_rate(mechanism)
        if baseline is not None:
            poisson, poisson_entries, poisson_interval = _answer(baseline, target_delta, target_epsilon, precision)
    solved = "epsilon" if target_epsilon is None else "delta"
    answer = {"epsilon": target_epsilon, "delta": target_delta, solved: value}
    result: dict[str, Any] = {
        **answer,
        "solved_for": solved,
        "bound": worst.bound.value,
        "neighboring_relation": worst.neighboring_relation.value,
        "directions": [entry_fields(e) for e in entries],
        "mechanism": _parameters(mechanism),
        "description": describe(mechanism),
        "assumptions": list(assumptions(mechanism)),
        "notes": [str(w.message) for w in caught],
    }
    if interval is not None:
        result["interval"] = {**interval._asdict(), "theorem": distribution_theorem(mechanism)}
        if interval.lower < interval.analysis_lower:
            result["interval"]["reduction"] = _reduction(mechanism)
    if baseline is not None:
        theorem = max(poisson_entries, key=lambda e: e.value).theorem
        if poisson_interval is not None and poisson_interval.upper <= poisson:
            theorem = distribution_theorem(baseline)
        result["poisson_at_same_rate"] = {"description": describe(baseline), "value": poisson, "theorem": theorem}
    return result


def statement_text(facts: dict[str, Any]) -> str:
    """`statement` as a few lines of plain text; numbers are rounded up."""
    solved = facts["solved_for"]
    given = "delta" if solved == "epsilon" else "epsilon"
    lines = [
        f"{solved} = {shown(facts[solved])} at {given} = {facts[given]}  (certified {facts['bound']})",
        "",
        f"  scheme      {facts['description']}",
        f"  adjacency   {facts['neighboring_relation']}",
    ]
    if "interval" in facts:
        found = facts["interval"]
        between = f"between {shown_down(found['lower'])} and {shown(found['upper'])}"
        lines.append(f"  certified   {solved} {between}, by {found['theorem']}")
        if "reduction" in found:
            reduced = shown_down(found["analysis_lower"])
            lines.append(f"              ({found['reduction']}, which was analysed, has at least {reduced})")
    both = facts["neighboring_relation"] == NeighboringRelation.ADD_OR_REMOVE_ONE.value
    for entry in facts["directions"]:
        order = "" if entry["order"] is None else f", Renyi order {entry['order']:g}"
        side = entry["direction"] if both else entry["method"]
        side = side if len(side) <= 11 else f"{side}:"
        lines.append(f"  {side:<11} {solved} <= {shown(entry['value'])} by {entry['theorem']}{order}")
    for title, text in zip(("assumes", *[""] * len(facts["assumptions"])), facts["assumptions"], strict=False):
        lines.append(f"  {title:<11} {text}")
    for note in facts["notes"]:
        lines.append(f"  note        {note}")
    if "poisson_at_same_rate" in facts:
        other = facts["poisson_at_same_rate"]
        lines += ["", f"  beside it   {solved} <= {shown(other['value'])} for {other['description'].split(';')[0]}"]
        lines.append(f"              by {other['theorem']}")
    return "\n".join(lines)


def comparison_text(entries: tuple[Entry, ...], solved: str) -> str:
    """The lines of `compare` as a table; values are rounded up."""
    head = ("method", "direction", solved, "bound", "order", "ms", "theorem")
    rows = [
        (
            e.method,
            e.direction.value if e.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE else "-",
            shown(e.value, 6) if e.bound is Bound.UPPER else shown_down(e.value, 6),
            e.bound.value,
            "-" if np.isnan(e.order) else f"{e.order:g}" + ("*" if e.at_order_edge else ""),
            f"{1e3 * e.seconds:.1f}",
            e.theorem,
        )
        for e in entries
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]
    uppers = [e for e in entries if e.bound is Bound.UPPER]
    best = {d: min(e.value for e in uppers if e.direction is d) for d in dict.fromkeys(e.direction for e in uppers)}
    worst = max(best.values())
    lines.append("")
    sides = " and ".join(f"{d.value} {shown(v, 6)}" for d, v in best.items())
    lines.append(f"{solved} = {shown(worst, 6)}" + (f": the larger of {sides}" if len(best) > 1 else ""))
    if any(e.at_order_edge for e in entries):
        lines.append("* the largest order tried was best: valid, but may be loose")
    return "\n".join(lines)


def compare_text(mechanism: Any, **target: Any) -> str:
    """`jaxacct.compare` as a table."""
    solved = "delta" if target.get("target_epsilon") is not None else "epsilon"
    return comparison_text(compare(mechanism, **target), solved)
