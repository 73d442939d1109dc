"""Golden answers: what every mechanism of the support matrix answers today, to compare with after a change.

    python bench/golden.py record FILE.json [--only SUBSTRING] [--minutes NUMBER] [--more]
    python bench/golden.py compare FILE.json [--only SUBSTRING]

`record` asks with the jaxacct that can be imported, through its public names alone, and writes the file after each
mechanism; with ``--only`` it replaces the rows of these mechanisms in a file that is there, with ``--more`` (and the
same code) it adds what there was no time for. At the end it lists what looks wrong within the record itself.
`compare` asks the questions of the file again and prints each difference:

* noise: within 1e-13 of the number before, in either direction;
* tighter: an upper bound fell, or a lower bound rose;
* note: another theorem, warning or deciding method, or an answer where an exception was;
* violation: a looser bound, a method that appeared or went, another exception. Then the exit status is 1.
"""

import argparse
import collections
import contextlib
import difflib
import functools
import importlib.util
import json
import math
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from golden_mechanisms import mechanisms

import jaxacct as ja

_NOISE = 1e-13  # relative; rounding of another order of the same operations
_PATIENCE = 5.0  # seconds; a question that took longer is asked at no further target
_MINUTES = 12.0  # of CPU time, to record; what a mechanism leaves of its share goes to the others
_TARGETS = ((1.0, 1e-6), (4.0, 1e-10), (0.1, 1e-3))  # epsilon, delta
_PRECISIONS = (math.inf, None, 1e-6)
_ORDERS = (1.5, 2.0, 3.7, 8.0, 32.0, 100.0)
_LESS_IS_BETTER = ("noise_multiplier", "num_reports", "num_users")  # fields that calibrate bounds from above


def _row(question: str, **arguments: Any) -> dict[str, Any]:
    return {"question": question, "arguments": {k: v for k, v in arguments.items() if v is not None}}


def _listed(rows: list[dict[str, Any]], target: str) -> list[str]:
    """Names of the upper bounds that the comparisons by this target list."""
    compared = [r["answer"] for r in rows if r["question"] == "compare" and target in r["arguments"]]
    numbers = [n for answer in compared for n in answer.get("numbers", ())]
    return sorted({n["method"] for n in numbers if n["sense"] == "upper"})


def _plan(field: str, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The questions about one mechanism, first those of most value; `rows` holds those answered so far."""
    for i, (epsilon, delta) in enumerate(_TARGETS):
        of_epsilon, of_delta = {"target_delta": delta}, {"target_epsilon": epsilon}
        for suffix, precision in (("", None), ("", math.inf), ("_interval", None)):
            yield _row(f"epsilon{suffix}", **of_epsilon, precision=precision)
            yield _row(f"delta{suffix}", **of_delta, precision=precision)
        for precision in _PRECISIONS:
            for question in ("deciding", "compare"):
                yield _row(question, **of_epsilon, precision=precision)
                yield _row(question, **of_delta, precision=precision)
        if i == 0:
            yield from _narrowed(of_epsilon, of_delta, rows)
        for suffix, precision in (("", 1e-6), ("_interval", 1e-6), ("_interval", math.inf)):
            yield _row(f"epsilon{suffix}", **of_epsilon, precision=precision)
            yield _row(f"delta{suffix}", **of_delta, precision=precision)
        for precision in _PRECISIONS:
            yield _row("calibrate", field=field, **of_epsilon, **of_delta, precision=precision)


def _narrowed(of_epsilon: Any, of_delta: Any, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Renyi divergences, one direction only, one method only."""
    yield _row("rdp", orders=_ORDERS)
    for direction in ("remove", "add"):
        yield _row("rdp", orders=_ORDERS, direction=direction)
        yield _row("epsilon", **of_epsilon, direction=direction)
        yield _row("delta", **of_delta, direction=direction)
    for method in _listed(rows, "target_delta"):
        yield _row("epsilon", **of_epsilon, method=method)
    for method in _listed(rows, "target_epsilon"):
        yield _row("delta", **of_delta, method=method)


def _number(label: str, value: Any, sense: str, **more: str) -> dict[str, Any]:
    """One number of an answer: `sense` is "upper", "lower", or "either" where a change says nothing."""
    return {"label": label, "value": float(value), "sense": sense, **more}


def _entries(found: Any, question: str) -> list[dict[str, Any]]:
    numbers = []
    seen: collections.Counter[str] = collections.Counter()
    for entry in found:
        bound, direction = entry.bound.name.lower(), entry.direction.value
        label = direction if question == "deciding" else f"{entry.method} {direction} {bound}"
        seen[label] += 1
        label += f" ({seen[label]})" if seen[label] > 1 else ""
        sense = "either" if question == "deciding" else bound
        more = {"method": entry.method, "theorem": entry.theorem}
        numbers.append(_number(label, entry.value, sense, **more))
    if question == "deciding":  # the smaller direction need not be the best bound there is
        numbers.append(_number("answer", max(n["value"] for n in numbers), "upper"))
    return numbers


def _numbers(row: dict[str, Any], found: Any) -> list[dict[str, Any]]:
    question = row["question"]
    if question in ("compare", "deciding"):
        return _entries(found, question)
    if question.endswith("interval"):
        senses = {"lower": "lower", "upper": "upper", "analysis_lower": "lower"}
        return [_number(name, getattr(found, name), sense) for name, sense in senses.items()]
    if question == "rdp":
        bound = found.bound.name.lower()
        return [
            _number(f"order {a:g}", v, bound, theorem=found.theorem) for a, v in zip(_ORDERS, found.values, strict=True)
        ]
    is_upper = question != "calibrate" or row["arguments"]["field"].split(".")[-1] in _LESS_IS_BETTER
    return [_number("value", found, "upper" if is_upper else "lower")]


def _answer(mechanism: Any, row: dict[str, Any]) -> dict[str, Any]:
    """What jaxacct says: numbers or an exception, and the warnings on the way."""
    arguments = dict(row["arguments"])
    if "direction" in arguments:
        arguments["direction"] = ja.Direction(arguments["direction"])
    start = time.perf_counter()
    answer: dict[str, Any]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = {"numbers": _numbers(row, getattr(ja, row["question"])(mechanism, **arguments))}
        except Exception as error:  # whatever it is, it is the answer
            is_value_error = isinstance(error, ValueError)
            answer = {"error": type(error).__name__, "is_value_error": is_value_error, "message": str(error)[:300]}
    answer["warnings"] = sorted({w.category.__name__ for w in caught})
    answer["seconds"] = round(time.perf_counter() - start, 3)
    return answer


def _title(row: dict[str, Any]) -> str:
    shown = ", ".join(f"{k}={v}" for k, v in row["arguments"].items() if k != "orders")
    return f"{row['mechanism']}: {row['question']}({shown})"


def _family(row: dict[str, Any]) -> str:
    """What a row shares with the same question at another target."""
    varied = {k: None if k.startswith("target") else v for k, v in row["arguments"].items()}
    return f"{row['question']} {varied}"


def _asked(name: str, mechanism: Any, field: str, budget: float, rows: list[dict[str, Any]]) -> None:
    """Adds to `rows` of one mechanism those that it lacks, within the budget."""
    known = {_title(row) for row in rows}
    slow: set[str] = set()
    added, skipped, start = 0, 0, time.process_time()
    for planned in _plan(field, rows):
        row = {"mechanism": name, **planned}
        if _title(row) in known:
            continue
        if added and (_family(row) in slow or time.process_time() - start > budget):
            skipped += 1
            continue
        row["answer"] = _answer(mechanism, row)
        rows.append(row)
        added += 1
        if row["answer"]["seconds"] > _PATIENCE:
            slow.add(_family(row))
    jax.clear_caches()  # each program holds memory maps, of which a process may have so many
    print(f"{time.process_time() - start:6.1f} s {added:4d} rows, {skipped} skipped: {name}", flush=True)


def _support_matrix() -> str | None:
    """The text of the support matrix that the site would show, None where it cannot be made."""
    path = pathlib.Path(__file__).resolve().parents[1] / "docs" / "_generate.py"
    spec = importlib.util.spec_from_file_location("_generate", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    with contextlib.suppress(ImportError, OSError, AttributeError):
        spec.loader.exec_module(module)
        return module.support_matrix()
    return None


def record(path: pathlib.Path, only: str, minutes: float, *, is_more: bool) -> None:
    """Writes the answers of today, beside those in the file about other mechanisms (`is_more`: about these too)."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in mechanisms()}
    if (only or is_more) and path.exists():
        for row in json.loads(path.read_text())["rows"]:
            if is_more or only not in row["mechanism"]:
                rows[row["mechanism"]].append(row)
    head = {"jax": jax.__version__, "numpy": np.__version__, "jaxacct": ja.__file__, "support": _support_matrix()}
    start = time.process_time()
    wanted = [(name, *rest) for name, rest in mechanisms().items() if only in name]
    for i, (name, mechanism, field) in enumerate(wanted):
        left = 60.0 * minutes - (time.process_time() - start)
        _asked(name, mechanism, field, 1.25 * left / (len(wanted) - i), rows[name])
        every = [row for here in rows.values() for row in here]
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps({**head, "rows": every}, indent=0))
        partial.replace(path)
    print(f"{len(every)} rows in {time.process_time() - start:.0f} CPU seconds")
    for line in oddities(every):
        print("strange:", line)


def _value(row: dict[str, Any] | None, label: str) -> float:
    """A number of a row by its label, nan if there is none."""
    numbers = row["answer"].get("numbers", ()) if row else ()
    return next((n["value"] for n in numbers if n["label"] == label), math.nan)


def _crossed(row: dict[str, Any]) -> Iterator[str]:
    """Bounds of one answer that contradict each other, and numbers that are none."""
    numbers = row["answer"].get("numbers", ())
    yield from (f"{n['label']} is {n['value']}" for n in numbers if math.isnan(n["value"]))
    for side in ("remove", "add") if row["question"] == "compare" else ("",):
        here = [n for n in numbers if not side or f" {side} " in n["label"]]
        upper = min((n["value"] for n in here if n["sense"] == "upper"), default=math.inf)
        above = [n for n in here if n["sense"] == "lower" and n["value"] > upper]
        yield from (f"{n['label']} {n['value']!r} is above upper {upper!r}" for n in above)


def _looser(row: dict[str, Any], by_title: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Whether a finer question has a looser answer, or `deciding` another than the question that it explains."""
    question, given, answer = row["question"], row["arguments"], row["answer"]
    if question == "deciding":
        explained = {**row, "question": "epsilon" if "target_delta" in given else "delta"}
        said, decided = _value(by_title.get(_title(explained)), "value"), _value(row, "answer")
        if abs(said - decided) > _NOISE * abs(said):
            yield f"answer {decided!r} is not the {explained['question']} {said!r}"
    precision = given.get("precision")
    if precision == math.inf or "method" in given or "direction" in given:
        return
    coarser = math.inf if precision is None else None
    coarse_row = {**row, **_row(question, **{**given, "precision": coarser})}
    for number in answer.get("numbers", ()):
        coarse = _value(by_title.get(_title(coarse_row)), number["label"])
        if number["label"] in ("value", "upper") and _judge(coarse, number["value"], number["sense"]) == "violation":
            yield f"{number['label']} {number['value']!r} is looser than {coarse!r} at precision {coarser}"


def _contradictions(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lower bounds above an upper bound that another question gave for the same number."""
    lower: dict[str, tuple[float, str]] = {}
    upper: dict[str, tuple[float, str]] = {}
    for row in rows:
        given = row["arguments"]
        if row["question"] in ("calibrate", "rdp") or "direction" in given or "method" in given:
            continue
        key = f"{row['mechanism']} {given.get('target_epsilon')} {given.get('target_delta')}"
        for n in row["answer"].get("numbers", ()):
            said = n["value"], _title(row)
            if n["sense"] == "lower" and n["label"] != "analysis_lower":
                lower[key] = max(lower.get(key, said), said)
            elif n["label"] in ("value", "upper", "answer"):  # of both directions
                upper[key] = min(upper.get(key, said), said)
    for key in lower.keys() & upper.keys():
        if lower[key][0] > upper[key][0]:
            yield f"lower {lower[key]} is above upper {upper[key]}"


def oddities(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What is wrong within a record: NaN, crossed bounds, looser answers to finer questions, odd exceptions."""
    by_title = {_title(row): row for row in rows}
    for row in rows:
        if row["answer"].get("is_value_error") is False:
            yield f"{_title(row)}: {row['answer']['error']}: {row['answer']['message']}"
        for text in (*_crossed(row), *_looser(row, by_title)):
            yield f"{_title(row)}: {text}"
    yield from _contradictions(rows)


def _judge(before: float, after: float, sense: str) -> str:
    if before == after or math.isnan(before):
        return "same" if before == after or math.isnan(after) else "note"
    if math.isnan(after):
        return "violation"
    if math.isclose(before, after, rel_tol=_NOISE, abs_tol=0.0):
        return "noise"
    if sense == "either":
        return "note"
    return "tighter" if (after < before) == (sense == "upper") else "violation"


Difference = tuple[str, str]


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Difference]:
    """The differences of one row's answers, each with its kind."""
    if before["warnings"] != after["warnings"]:
        yield "note", f"warnings {before['warnings']} -> {after['warnings']}"
    if "error" in before or "error" in after:
        old, new = before.get("error", "an answer"), after.get("error", "an answer")
        if old != new:
            yield "note" if "error" in before and "numbers" in after else "violation", f"{old} -> {new}"
        return
    was, now = ({n["label"]: n for n in answer["numbers"]} for answer in (before, after))
    for label in sorted(was.keys() ^ now.keys()):
        yield "violation", f"{label} {'went' if label in was else 'appeared'}"
    for label in (name for name in was if name in now):
        old, new = was[label], now[label]
        least = old["value"]
        if label == "analysis_lower":  # of another analysis, which need not reach above its own upper end
            least = min(least, now["upper"]["value"])
        kind = _judge(least, new["value"], old["sense"])
        if kind == "same" and old["value"] > new["value"]:
            kind = "note"
        if kind != "same":
            yield kind, f"{label} {old['value']!r} -> {new['value']!r}"
        for name in ("method", "theorem"):
            if old.get(name) != new.get(name):
                yield "note", f"{label}: {name} {old.get(name)!r} -> {new.get(name)!r}"


def compare(path: pathlib.Path, only: str) -> int:
    """Asks again and prints each difference; the number of violations."""
    saved = json.loads(path.read_text())
    counts: collections.Counter[str] = collections.Counter()

    def tell(kind: str, text: str) -> None:
        counts[kind] += 1
        print(f"{kind}: {text}", flush=True)

    now: Callable[[], dict[str, tuple[Any, str]]] = functools.cache(mechanisms)
    rows = [r for r in saved["rows"] if only in r["mechanism"]]
    last = ""
    for row in rows:
        if row["mechanism"] not in now():
            tell("note", f"{row['mechanism']}: no such mechanism here")
            continue
        if row["mechanism"] != last:
            jax.clear_caches()
            last = row["mechanism"]
            print(f"-- {last}", flush=True)
        for kind, text in _changes(row["answer"], _answer(now()[last][0], row)):
            tell(kind, f"{_title(row)}: {text}")
    old, new = ((text or "").splitlines() for text in (saved["support"], _support_matrix()))
    if not old or not new:
        tell("note", "the support matrix cannot be made here, or could not before")
        old = new = []
    for line in difflib.unified_diff(old, new, "before", "after", lineterm="", n=0):
        tell("note", f"support matrix: {line}")
    print(f"{len(rows)} rows: {dict(counts) or 'no difference'}")
    return counts["violation"]


def main() -> None:
    """The two commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--only", default="", help="mechanisms whose name contains this")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="CPU time of the whole record")
    parser.add_argument("--more", action="store_true", help="keep the rows of the file, and record those that it lacks")
    given = parser.parse_args()
    if given.command == "record":
        record(given.file, given.only, given.minutes, is_more=given.more)
    elif compare(given.file, given.only):
        sys.exit(1)


if __name__ == "__main__":
    main()
