"""Privacy statements that can be pasted into a model card. They show public parameters only."""

from __future__ import annotations

import json
import math
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from jaxacct import _trees
from jaxacct._citations import linked_markdown
from jaxacct._html import Text
from jaxacct._types import Bound, EstimateWarning, Interval, NeighboringRelation, OrderEdgeWarning, PrecisionWarning
from jaxacct._validate import check_precision, checked_array, python_number
from jaxacct._version import __version__
from jaxacct.accounting import Entry, Plan, deciding, delta_interval, epsilon_interval
from jaxacct.accounting._entries import columns
from jaxacct.accounting._questions import only_target
from jaxacct.accounting._truncation import epsilon_within, excess, sum_up
from jaxacct.answering._plan import Planned
from jaxacct.answering._question import check_scalars
from jaxacct.bounds import analysis_theorem
from jaxacct.measures import Measure
from jaxacct.measures._told import measure_fields, measure_text
from jaxacct.mechanisms._after import after
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._not_covered import not_covered
from jaxacct.mechanisms._sizes import number_of_people
from jaxacct.membership import tradeoff
from jaxacct.special import shown, shown_down

_IMPORT = "import jaxacct as ja; print(ja."
FALSE_POSITIVE_RATES = (1e-3, 1e-2, 1e-1)  # rates at which a statement says what a membership test can reach


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


class Run(NamedTuple):
    """The run that a statement is about.

    Attributes:
      mechanism: what is described.
      overflow: probability that what was run differs from it: see `jaxacct.accounting._truncation`.
      notes: further notes on it.
    """

    mechanism: Any
    overflow: float = 0.0
    notes: tuple[str, ...] = ()

    def as_run(self) -> Run:
        """The run itself."""
        return self


class _Asked(NamedTuple):
    """One question, which gives delta or epsilon and asks for the other one."""

    target_delta: float | None
    target_epsilon: float | None
    precision: float | None
    method: str | None = None

    @property
    def solved(self) -> str:
        """What is asked for: "epsilon" or "delta"."""
        return "epsilon" if self.target_epsilon is None else "delta"

    def deciding(self, mechanism: Mechanism) -> tuple[Entry, ...]:
        """The upper bounds that decide the answer."""
        targets: dict[str, Any] = {"target_delta": self.target_delta, "target_epsilon": self.target_epsilon}
        return deciding(mechanism, **targets, method=self.method, precision=self.precision)

    def answer(self, mechanism: Mechanism) -> tuple[float, tuple[Entry, ...], Interval | None]:
        """(value, the entries of quick methods, or of the one that is named, if they decide, interval or None)."""
        if self.precision == math.inf or self.method is not None:
            entries = self.deciding(mechanism)
            return max(e.value for e in entries), entries, None
        if self.target_epsilon is None:
            interval = epsilon_interval(mechanism, cast(float, self.target_delta), precision=self.precision)
        else:
            interval = delta_interval(mechanism, self.target_epsilon, precision=self.precision)
        return interval.upper, (), interval

    def answer_within(self, mechanism: Mechanism, overflow: float) -> _Within:
        """The answer for what differs from `mechanism` with probability `overflow`, and what was asked for it."""
        if not overflow:
            return _Within(*self.answer(mechanism), self)
        if self.target_epsilon is not None:
            more = excess(overflow, self.target_epsilon)
            value, entries, interval = self.answer(mechanism)
            grown = tuple(entry._replace(value=sum_up(entry.value, more)) for entry in entries)
            if interval is not None:
                lower, analysis_lower = (max(0.0, low - more) for low in (interval.lower, interval.analysis_lower))
                interval = Interval(lower, sum_up(interval.upper, more), analysis_lower)
            return _Within(sum_up(value, more), grown, interval, self)
        delta = cast(float, self.target_delta)
        tried: dict[float, _Within] = {}

        def epsilon_at(left: float) -> float:
            asked = self._replace(target_delta=left)
            tried[left] = _Within(*asked.answer(mechanism), asked)
            return tried[left].value

        value, left = epsilon_within(epsilon_at, delta, overflow)
        if left is None:
            raise ValueError(
                f"target_delta={delta} must be larger: a batch is cut with probability up to {overflow:.3g}, for which "
                "no epsilon makes room; give the batches a larger max_batch_size"
            )
        found = tried[left]
        if found.interval is None:
            return found
        larger = min(delta + excess(overflow, value), 1.0 - 2.0**-53)  # what this run has, the described one has there
        below = self._replace(target_delta=larger).answer(mechanism)[2]
        assert below is not None
        return found._replace(interval=below._replace(upper=found.interval.upper))

    def theorem(self, mechanism: Mechanism, *, of_analysis: bool = True) -> str:
        """The theorem of the analysis, if that is wanted and there is one, or of the method that decides the answer."""
        known = analysis_theorem(mechanism) if of_analysis else None
        return known or max(self.deciding(mechanism), key=lambda e: e.value).theorem

    def source(self, mechanism: Mechanism, more: float = 0.0) -> str:
        """Python code that computes the answer again and adds `more`."""
        given = "target_delta" if self.target_epsilon is None else "target_epsilon"
        wanted = "float('inf')" if self.precision == math.inf else self.precision
        width = "" if self.precision is None else f", precision={wanted}"
        width += (
            "" if self.method is None else f", method={self.method.replace(' ', '-')!r}"
        )  # no space, at which lines are broken
        added = f" + {more}" if more else ""
        return f"{_IMPORT}{self.solved}({mechanism.source()}, {given}={getattr(self, given)}{width}){added})"


class _Within(NamedTuple):
    """An answer: its value, the quick methods' entries if they decide, its interval if any, and what was asked."""

    value: float
    entries: tuple[Entry, ...]
    interval: Interval | None
    asked: _Asked


def statement(
    mechanism: Any,
    *,
    target_delta: float | None = None,
    target_epsilon: float | None = None,
    method: str | None = None,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    prefix: Mechanism | tuple[float, float] | None = None,
    false_positive_rates: Sequence[float] = FALSE_POSITIVE_RATES,
    measures: Sequence[Measure] = (),
) -> dict[str, Any]:
    """The certified answer to one scalar question with everything that it rests on, ready for JSON.

    Args:
      mechanism: a mechanism with scalar fields, or an object with `as_run`, such as `training.Batches`.
      target_delta: to state epsilon; or
      target_epsilon: to state delta.
      method: as for `jaxacct.epsilon`; the statement is then without an interval.
      precision: relative width of the certified interval, 0.1 % of epsilon or 1 % of delta where None; inf leaves the
        interval out: quick methods only.
      neighboring_relation, prefix: as for `jaxacct.epsilon`.
      false_positive_rates: in (0, 1), at which the statement says what membership tests can reach; none where empty.
      measures: from `jaxacct.measures`, further facts to state.

    Returns:
      A dict: epsilon, delta, bound, failure (of an estimate: 1 minus its confidence), neighboring_relation,
      unit_of_privacy, released, interval (or directions: by which theorem each is bounded), membership (largest true
      positive rate of any test at some false positive rates), measures (those asked for, in words, with their values),
      mechanism, description, assumptions, not_covered (of training: what is often done beside it), notes, jaxacct (the
      version), recompute, and for random allocation the Poisson answer at the same rate.
    """
    check_precision(precision)
    only_target(target_delta, target_epsilon)
    run = mechanism.as_run() if hasattr(mechanism, "as_run") else Run(mechanism)
    mechanism = after(prefix, run.mechanism, neighboring_relation)
    check_scalars(mechanism, *(x for x in (target_delta, target_epsilon) if x is not None))
    rates = checked_array("false_positive_rates", false_positive_rates).astype(np.float64)
    if rates.ndim != 1 or not np.all((rates > 0.0) & (rates < 1.0)):
        raise ValueError(f"false_positive_rates={false_positive_rates!r} must be a list of numbers in (0, 1)")
    mechanism = _trees.map_leaves(python_number, mechanism)
    given = asked = _Asked(*map(python_number, (target_delta, target_epsilon, precision)))._replace(method=method)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OrderEdgeWarning)
        warnings.simplefilter("always", PrecisionWarning)
        warnings.simplefilter("always", EstimateWarning)
        value, entries, interval, asked = asked.answer_within(mechanism, run.overflow)
        baseline = mechanism.poisson_at_same_rate() if method is None else None
        if baseline is not None:
            poisson, poisson_entries, _ = asked.answer(baseline)
    result: dict[str, Any] = {
        "epsilon": given.target_epsilon,
        "delta": given.target_delta,
        asked.solved: value,
        "solved_for": asked.solved,
        "bound": (entries[0].bound if entries else Bound.UPPER).value,
        "neighboring_relation": mechanism.relation.value,
        "unit_of_privacy": mechanism.unit_of_privacy,
        "released": mechanism.released,
        "mechanism": mechanism.parameters(),
        "description": mechanism.describe(),
        "assumptions": list(mechanism.assumptions()),
        "not_covered": list(not_covered(mechanism)),
        "notes": [*run.notes, *(str(w.message) for w in caught)],
    }
    result["notes"] += _large_delta(mechanism, result["delta"])
    failures = [w.message.failure for w in caught if isinstance(w.message, EstimateWarning)]
    result |= {"failure": max(failures)} if failures else {}
    if interval is None:
        result["directions"] = [entry_fields(e) for e in entries]
    else:
        is_sharper = mechanism.reduction is not None and 0.0 < interval.upper == interval.analysis_lower  # than it
        theorem = asked.theorem(mechanism, of_analysis=not is_sharper)
        result["interval"] = {**interval._asdict(), "theorem": theorem}
        is_told = shown_down(interval.lower) != shown_down(interval.analysis_lower)
        if mechanism.reduction is not None and is_told and not is_sharper:
            result["interval"]["reduction"] = mechanism.reduction
        moved = np.minimum(rates + run.overflow * (1.0 + 2.0**-50), 1.0 - 2.0**-53)  # a rate differs by that at most
        missed = tradeoff(mechanism, moved) if rates.size else rates
        caught_at_most = [sum_up(1.0 - y, run.overflow) for y in missed.tolist()]
        pairs = zip(rates.tolist(), caught_at_most, strict=True)
        result["membership"] = [{"false_positive_rate": x, "true_positive_rate": y} for x, y in pairs]
    if measures:
        if run.overflow:
            raise ValueError(f"measures={measures!r} cannot be computed where a batch may be cut: leave them out")
        result["measures"] = [measure_fields(measure, mechanism) for measure in measures]
    if baseline is not None:
        worst = max(poisson_entries, key=lambda e: e.value, default=None)
        theorem = asked.theorem(baseline) if worst is None else worst.theorem
        result["poisson_at_same_rate"] = {"description": baseline.describe(), "value": poisson, "theorem": theorem}
    result["jaxacct"] = __version__
    result["recompute"] = asked.source(mechanism, excess(run.overflow, target_epsilon) if target_epsilon else 0.0)
    return result


def _large_delta(mechanism: Mechanism, delta: float) -> list[str]:
    """A note on a delta so large that publishing somebody's whole record would meet it; empty otherwise."""
    size = number_of_people(mechanism)
    if size is None or not delta > 1.0 / size:
        return []
    text = f"delta is above 1/N = {1.0 / size:.3g}, N = {size}: publishing one random record would satisfy it"
    return [f"{text}; choose delta well below 1/N"]


def report(
    mechanism: Any,
    target_delta: float | None = None,
    *,
    target_epsilon: float | None = None,
    method: str | None = None,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    prefix: Mechanism | tuple[float, float] | None = None,
    style: str = "text",
    false_positive_rates: Sequence[float] = FALSE_POSITIVE_RATES,
    measures: Sequence[Measure] = (),
) -> str:
    """A privacy statement for a model card: the number, what it depends on, and how to recompute it.

    Args:
      mechanism: a mechanism with scalar fields, or the `training.Batches` that were drawn for one.
      target_delta: float in (0, 1), to state epsilon; or
      target_epsilon: float >= 0, to state delta.
      method: as for `jaxacct.epsilon`, to state its answer, without an interval; an estimate is labelled as one.
      precision: relative width of the certified interval; None for 0.1 % of epsilon or 1 % of delta; inf for the quick
        methods only.
      neighboring_relation, prefix: as for `jaxacct.epsilon`.
      style: "text", "markdown" or "json".
      false_positive_rates: in (0, 1), the rates at which the statement bounds the true positive rate of any membership
        test; none if empty.
      measures: from `jaxacct.measures`, further facts to state: advantage, Bayes risk, mu of Gaussian DP, rho of zCDP.

    Returns:
      The statement, a string of several lines, which notebooks show as it is printed. Numbers are unrounded in "json",
      else rounded to the safe side.

    Raises:
      ValueError: if an argument is out of range, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> text = ja.report(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000), target_delta=1e-6)
    >>> print(text.splitlines()[0])
    epsilon = 0.1718 at delta = 1e-06  (certified upper bound)
    """
    if not isinstance(style, str) or style not in _STYLES:
        raise ValueError(f"style={style!r} must be one of {sorted(_STYLES)}")
    question: dict[str, Any] = {"target_delta": target_delta, "target_epsilon": target_epsilon, "precision": precision}
    question |= {"method": method, "neighboring_relation": neighboring_relation, "prefix": prefix}
    facts = statement(mechanism, **question, false_positive_rates=false_positive_rates, measures=measures)
    return Text(_STYLES[style](facts))


def _headline(facts: dict[str, Any]) -> str:
    solved = facts["solved_for"]
    given = "delta" if solved == "epsilon" else "epsilon"
    status = f"certified {facts['bound']}"
    if "failure" in facts:
        status = f"{facts['bound']} with confidence 1 - {facts['failure']:g}, not certified"
    return f"{solved} = {shown(facts[solved])} at {given} = {facts[given]}  ({status})"


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """(title, text) of everything below the headline; an empty title continues the last one."""
    solved = facts["solved_for"]
    rows = [
        ("scheme", facts["description"]),
        ("unit", facts["unit_of_privacy"]),
        ("adjacency", facts["neighboring_relation"]),
        ("released", facts["released"]),
    ]
    if "interval" in facts:
        found = facts["interval"]
        between = f"between {shown_down(found['lower'])} and {shown(found['upper'])}" if found["upper"] else "is 0"
        rows.append(("certified", f"{solved} {between}, by {found['theorem']}"))
        if "reduction" in found:
            reduced = shown_down(found["analysis_lower"])
            rows.append(("", f"({found['reduction']}, which was analysed, has at least {reduced})"))
    both = facts["neighboring_relation"] == NeighboringRelation.ADD_OR_REMOVE_ONE.value
    for entry in facts.get("directions", ()):
        order = "" if entry["order"] is None else f", Renyi order {entry['order']:g}"
        side = f"{entry['direction']}: " if both else ""
        rows.append(("by", f"{side}{solved} <= {shown(entry['value'])}, {entry['theorem']}{order}"))
    for at in facts.get("membership", ()):
        caught, level = shown(100 * at["true_positive_rate"]), 100 * at["false_positive_rate"]
        rows.append(("inference", f"true positive rate at most {caught} % at false positive rate {level:g} %"))
    rows += [("measure", measure_text(at)) for at in facts.get("measures", ())]
    rows += [("assumes", text) for text in facts["assumptions"]]
    rows += [("not covered", text) for text in facts["not_covered"]]
    rows += [("note", text) for text in facts["notes"]]
    if "poisson_at_same_rate" in facts:
        other = facts["poisson_at_same_rate"]
        scheme = other["description"].split(";")[0]
        rows.append(("compare", f"{solved} <= {shown(other['value'])} for {scheme}, by {other['theorem']}"))
    # broken right after a bracket, where Python goes on: what is printed can be pasted and run
    first, call = facts["recompute"].split("print(", 1)
    rows += [("recompute", f"{first}print(  # jaxacct {facts['jaxacct']}"), ("recompute", call)]
    return [(title if i == 0 or title != rows[i - 1][0] else "", text) for i, (title, text) in enumerate(rows)]


def statement_text(facts: dict[str, Any], width: int = 80) -> str:
    """`statement` as plain text of `width` columns; numbers are rounded to the safe side."""
    return "\n".join([_headline(facts), "", *folded(_rows(facts), width)])


def folded(rows: Sequence[tuple[str, str]], width: int = 80) -> list[str]:
    """Lines of `width` columns for (title, text) each."""
    lines = []
    for title, text in rows:
        start = f"  {title:<11} "
        parts = textwrap.wrap(text, width - len(start), break_on_hyphens=False, break_long_words=False)
        lines += [(start if i == 0 else " " * len(start)) + part for i, part in enumerate(parts)]
    return lines


def statement_markdown(facts: dict[str, Any]) -> str:
    """`statement` as a heading and a table in Markdown, with links to the papers."""
    lines = [f"**{_headline(facts)}**", "", "| | |", "|---|---|"]
    lines += [f"| {title} | {linked_markdown(text.replace('|', chr(92) + '|'))} |" for title, text in _rows(facts)]
    return "\n".join(lines)


def statement_json(facts: Any) -> str:
    """`statement` as JSON; infinities as strings, since JSON has no numbers for them."""
    return json.dumps(standard(facts), indent=2, allow_nan=False)


def standard(value: Any) -> Any:
    """`value` with infinities as strings."""
    if isinstance(value, dict):
        return {k: standard(v) for k, v in value.items()}
    if isinstance(value, list):
        return [standard(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


_STYLES = {"text": statement_text, "markdown": statement_markdown, "json": statement_json}


def step_fields(step: Planned, mechanism: Mechanism) -> dict[str, Any]:
    """A step of a plan as plain values, ready for JSON."""
    method = step.method
    return {
        "method": method.name,
        "ends": step.ends,
        "directions": [d.value for d in step.directions],
        "engine": step.run.engine,
        "device": step.run.device,
        "points": step.run.chunks,
        "why": step.run.why,
        "cost": method.cost.name.lower(),
        "theorem": method.source(mechanism),
    }


def plan_text(steps: Plan, mechanism: Mechanism) -> str:
    """The steps of a plan as a table, a line for each, and below it how each is run."""
    two_sided = len(mechanism.directions) > 1
    head = ("method", "ends", "direction", "cost", "theorem")
    rows = []
    for fields in (step_fields(step, mechanism) for step in steps):
        sides = " and ".join(fields["directions"]) if two_sided else "-"
        name, ends, cost, theorem = (fields[key] for key in ("method", "ends", "cost", "theorem"))
        rows.append((name, ends, sides, cost, theorem))
    return "\n".join([*columns(head, rows), "", repr(steps)])
