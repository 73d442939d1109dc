"""Golden answers: what every mechanism of the support matrix answers today, to compare with after a change.

    python bench/golden.py record FILE.json [--only SUBSTRING] [--minutes NUMBER]
    python bench/golden.py compare FILE.json [--only SUBSTRING]

`record` asks with the jaxacct that can be imported, through its public names alone, and writes the file after each
mechanism; with ``--only`` it replaces the rows of these mechanisms in a file that is there. At the end it lists what
looks wrong within the record itself. `compare` asks the questions of the file again and prints each difference:

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

import jaxacct as ja

_NOISE = 1e-13  # relative; rounding of another order of the same operations
_PATIENCE = 5.0  # seconds; a question that took longer is asked at no further target
_MINUTES = 12.0  # to record; what a mechanism leaves of its share goes to the others
_TARGETS = ((1.0, 1e-6), (4.0, 1e-10), (0.1, 1e-3))  # epsilon, delta
_PRECISIONS = (None, math.inf, 1e-6)
_ORDERS = (1.5, 2.0, 3.7, 8.0, 32.0, 100.0)
_LESS_IS_BETTER = ("noise_multiplier", "num_reports", "num_users")  # fields that calibrate bounds from above


def _cdf_p(loss: Any) -> Any:
    return np.where(loss < -0.5, 0.0, np.where(loss < 0.5, 0.5 * np.exp((loss - 0.5) / 2.0), 1.0))


def _sf_p(loss: Any) -> Any:
    return np.where(loss < -0.5, 1.0, np.where(loss < 0.5, 1.0 - 0.5 * np.exp((loss - 0.5) / 2.0), 0.0))


def _cdf_q(loss: Any) -> Any:
    return np.where(loss < -0.5, 0.0, np.where(loss < 0.5, 1.0 - 0.5 * np.exp(-(loss + 0.5) / 2.0), 1.0))


def _sf_q(loss: Any) -> Any:
    return np.where(loss < -0.5, 1.0, np.where(loss < 0.5, 0.5 * np.exp(-(loss + 0.5) / 2.0), 0.0))


def _randomizers() -> dict[str, Any]:
    return {
        "local": ja.LocalRandomizer(1.0),
        "finite": ja.FiniteRandomizer([[0.6, 0.4], [0.4, 0.6]]),
        "k-ary": ja.KaryRandomizedResponse(1.0, 4),
        "gaussian reports": ja.GaussianReports(4.0),
    }


def _releases() -> dict[str, tuple[Any, str]]:
    """One release, and what is Poisson-sampled, each with the field to calibrate."""
    noise, pure, pair = ja.Gaussian(1.0), ja.Laplace(1.0), ja.DiscretePair((0.75, 0.25), (0.25, 0.75))
    pld = ja.pld(noise)
    leaking = ja.DiscretePair((0.6, 0.3, 0.1), (0.3, 0.7, 0.0))
    continuous = ja.ContinuousPair(_cdf_p, _sf_p, _cdf_q, _sf_q, lowest=-0.6, highest=0.6)
    sampled = functools.partial(ja.PoissonSampled, noise)
    return {
        "gaussian": (noise, "noise_multiplier"),
        "gaussian, tiny noise": (ja.Gaussian(0.01), "noise_multiplier"),
        "gaussian, huge noise": (ja.Gaussian(1e4), "noise_multiplier"),
        "laplace": (pure, "noise_multiplier"),
        "laplace, tiny noise": (ja.Laplace(0.02), "noise_multiplier"),
        "laplace, huge noise": (ja.Laplace(1e4), "noise_multiplier"),
        "pair": (pair, "p"),
        "pair, infinite loss": (leaking, "p"),
        "pair, equal": (ja.DiscretePair((0.5, 0.5), (0.5, 0.5)), "p"),
        "continuous pair": (continuous, "accuracy"),
        "pld": (pld, "step"),
        "poisson gaussian": (sampled(0.01, 100), "noise_multiplier"),
        "poisson gaussian, one step": (sampled(0.01, 1), "sampling_prob"),
        "poisson gaussian, prob 0": (sampled(0.0, 100), "noise_multiplier"),
        "poisson gaussian, prob 1": (sampled(1.0, 10), "noise_multiplier"),
        "poisson gaussian, tiny noise": (ja.PoissonSampled(ja.Gaussian(0.05), 0.01, 10), "noise_multiplier"),
        "poisson gaussian, huge noise": (ja.PoissonSampled(ja.Gaussian(1e4), 0.01, 100), "num_steps"),
        "poisson laplace": (ja.PoissonSampled(pure, 0.01, 100), "sampling_prob"),
        "poisson pair": (ja.PoissonSampled(pair, 0.01, 100), "sampling_prob"),
        "poisson continuous pair": (ja.PoissonSampled(continuous, 0.01, 100), "num_steps"),
        "poisson pld": (ja.PoissonSampled(pld, 0.01, 100), "sampling_prob"),
    }


def _allocations() -> dict[str, tuple[Any, str]]:
    noise, pure, pair = ja.Gaussian(1.0), ja.Laplace(1.0), ja.DiscretePair((0.75, 0.25), (0.25, 0.75))
    allocated = functools.partial(ja.RandomAllocation, noise)
    return {
        "allocation gaussian": (allocated(100), "noise_multiplier"),
        "allocation gaussian, epochs": (allocated(100, 1, 5), "noise_multiplier"),
        "allocation gaussian, k uneven": (allocated(100, 3), "noise_multiplier"),
        "allocation gaussian, k, epochs": (allocated(20, 6, 3), "num_epochs"),
        "allocation gaussian, k = t": (allocated(10, 10), "noise_multiplier"),
        "allocation gaussian, one step": (allocated(1), "noise_multiplier"),
        "allocation gaussian, tiny noise": (ja.RandomAllocation(ja.Gaussian(0.05), 10), "noise_multiplier"),
        "allocation gaussian, huge noise": (ja.RandomAllocation(ja.Gaussian(100.0), 10), "num_epochs"),
        "allocation laplace": (ja.RandomAllocation(pure, 100), "noise_multiplier"),
        "allocation laplace, k, epochs": (ja.RandomAllocation(pure, 20, 3, 2), "num_epochs"),
        "allocation pair": (ja.RandomAllocation(pair, 10), "num_epochs"),
        "allocation pair, k": (ja.RandomAllocation(pair, 10, 2), "num_epochs"),
        "allocation pair, epochs": (ja.RandomAllocation(pair, 10, 1, 3), "num_epochs"),
        "allocation pld": (ja.RandomAllocation(ja.pld(noise), 10), "num_epochs"),
        "partial allocation": (ja.PartialAllocation(noise, 100, 50), "noise_multiplier"),
        "partial allocation, all steps": (ja.PartialAllocation(noise, 10, 10), "noise_multiplier"),
        "scheduled allocation": (ja.ScheduledAllocation((1.0, 2.0), (50, 50)), "num_epochs"),
        "scheduled allocation, epochs": (ja.ScheduledAllocation((1.0, 2.0), (5, 10), 3), "num_epochs"),
    }


def _reports() -> dict[str, tuple[Any, str]]:
    rows: dict[str, tuple[Any, str]] = {}
    for name, randomizer in _randomizers().items():
        rows[f"shuffled {name}"] = ja.Shuffled(randomizer, 1000), "num_reports"
        rows[f"shuffled {name}, rounds"] = ja.Shuffled(randomizer, 1000, 4), "num_reports"
        rows[f"check-in {name}"] = ja.CheckIn(randomizer, 1000, 0.1), "check_in_prob"
    local = ja.LocalRandomizer(1.0)
    rows["shuffled local, approximate"] = ja.Shuffled(ja.LocalRandomizer(1.0, 1e-9), 1000), "num_reports"
    rows["shuffled local, no loss"] = ja.Shuffled(ja.LocalRandomizer(0.0), 1000), "local_epsilon"
    rows["shuffled local, one report"] = ja.Shuffled(local, 1), "local_epsilon"
    rows["shuffled local, large loss"] = ja.Shuffled(ja.LocalRandomizer(20.0), 1000), "local_epsilon"
    rows["check-in local, rounds, dropout"] = ja.CheckIn(local, 1000, 0.1, 4, 0.2), "check_in_prob"
    rows["check-in local, everybody"] = ja.CheckIn(local, 100, 1.0), "local_epsilon"
    rows["check-in local, nobody"] = ja.CheckIn(local, 100, 0.0), "local_epsilon"
    return rows


def _compositions() -> dict[str, tuple[Any, str]]:
    noise, local = ja.Gaussian(1.0), ja.LocalRandomizer(1.0)
    sampled, allocated = ja.PoissonSampled(noise, 0.01, 100), ja.RandomAllocation(noise, 100, 1, 2)
    shuffled, visits = ja.Shuffled(local, 1000), ja.CheckIn(local, 1000, 0.1)
    approximate = ja.Shuffled(ja.LocalRandomizer(1.0, 1e-9), 1000)
    first = "mechanisms.0."
    return {
        "composed gaussians": (ja.Composed((noise, ja.Gaussian(2.0)), (2, 3)), f"{first}noise_multiplier"),
        "composed laplaces": (ja.Composed(ja.Laplace(1.0), 5), "noise_multiplier"),
        "composed poisson, gaussian": (ja.Composed((sampled, noise)), f"{first}sampling_prob"),
        "composed laplace, gaussian": (ja.Composed((ja.Laplace(2.0), noise)), f"{first}noise_multiplier"),
        "composed allocation, poisson": (ja.Composed((allocated, sampled)), f"{first}num_epochs"),
        "composed shuffles": (ja.Composed((shuffled, ja.Shuffled(local, 500)), (2, 1)), f"{first}num_reports"),
        "composed reports": (ja.Composed((shuffled, visits)), f"{first}num_reports"),
        "composed approximate reports": (ja.Composed((approximate, visits)), f"{first}num_reports"),
    }


def mechanisms() -> dict[str, tuple[Any, str]]:
    """Every mechanism by name, with the field that is calibrated."""
    return {**_releases(), **_allocations(), **_reports(), **_compositions()}


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
        by_delta, by_epsilon = {"target_delta": delta}, {"target_epsilon": epsilon}
        for precision in _PRECISIONS:
            for question in ("epsilon", "epsilon_interval", "compare", "deciding"):
                yield _row(question, **by_delta, precision=precision)
            for question in ("delta", "delta_interval", "compare", "deciding"):
                yield _row(question, **by_epsilon, precision=precision)
            yield _row("calibrate", field=field, **by_epsilon, **by_delta, precision=precision)
        if i > 0:
            continue
        yield _row("rdp", orders=_ORDERS)
        for direction in ("remove", "add"):
            yield _row("rdp", orders=_ORDERS, direction=direction)
            yield _row("epsilon", **by_delta, direction=direction)
            yield _row("delta", **by_epsilon, direction=direction)
        for method in _listed(rows, "target_delta"):
            yield _row("epsilon", **by_delta, method=method)
        for method in _listed(rows, "target_epsilon"):
            yield _row("delta", **by_epsilon, method=method)


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


def _asked(name: str, mechanism: Any, field: str, budget: float) -> list[dict[str, Any]]:
    """The rows of one mechanism, within the budget."""
    rows: list[dict[str, Any]] = []
    slow: set[str] = set()
    skipped, start = 0, time.perf_counter()
    for row in _plan(field, rows):
        if rows and (_family(row) in slow or time.perf_counter() - start > budget):
            skipped += 1
            continue
        row = {"mechanism": name, **row}
        row["answer"] = _answer(mechanism, row)
        rows.append(row)
        if row["answer"]["seconds"] > _PATIENCE:
            slow.add(_family(row))
    jax.clear_caches()  # each program holds memory maps, of which a process may have so many
    worst = max(rows, key=lambda r: r["answer"]["seconds"])
    took = time.perf_counter() - start
    print(
        f"{took:6.1f} s {len(rows):4d} rows, {skipped} skipped; {worst['answer']['seconds']} s {_title(worst)}",
        flush=True,
    )
    return rows


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


def record(path: pathlib.Path, only: str, minutes: float) -> None:
    """Writes the answers of today."""
    rows: list[dict[str, Any]] = []
    if only and path.exists():
        rows = [r for r in json.loads(path.read_text())["rows"] if only not in r["mechanism"]]
    head = {"jax": jax.__version__, "numpy": np.__version__, "jaxacct": ja.__file__, "support": _support_matrix()}
    start = time.perf_counter()
    wanted = [(name, *rest) for name, rest in mechanisms().items() if only in name]
    for i, (name, mechanism, field) in enumerate(wanted):
        left = 60.0 * minutes - (time.perf_counter() - start)
        rows += _asked(name, mechanism, field, 1.25 * left / (len(wanted) - i))
        path.write_text(json.dumps({**head, "rows": rows}, indent=0))
    print(f"{len(rows)} rows in {time.perf_counter() - start:.0f} s")
    for line in oddities(rows):
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
        here = [n for n in numbers if side in n["label"]]
        upper = min((n["value"] for n in here if n["sense"] == "upper"), default=math.inf)
        above = [n for n in here if n["sense"] == "lower" and n["value"] > upper]
        yield from (f"{n['label']} {n['value']!r} is above upper {upper!r}" for n in above)


def oddities(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What contradicts itself within a record: NaN, crossed bounds, looser answers to finer questions."""
    by_title = {_title(row): row for row in rows}
    for row in rows:
        yield from (f"{_title(row)}: {text}" for text in _crossed(row))
        if row["answer"].get("is_value_error") is False:
            yield f"{_title(row)}: {row['answer']['error']}: {row['answer']['message']}"
        given = row["arguments"]
        coarser = {1e-6: None, None: math.inf}.get(given.get("precision"), 0)
        label = "upper" if row["question"].endswith("interval") else "value"
        if coarser != 0 and "method" not in given and "direction" not in given:
            rest = {k: v for k, v in given.items() if k != "precision"}
            other = {**row, **_row(row["question"], **rest, precision=coarser)}
            fine, coarse = _value(row, label), _value(by_title.get(_title(other)), label)
            sense = next((n["sense"] for n in row["answer"].get("numbers", ()) if n["label"] == label), "upper")
            if _judge(coarse, fine, sense) == "violation":
                yield f"{_title(row)}: {label} {fine!r} is looser than {coarse!r} at precision {coarser}"
        if row["question"] == "deciding":
            question = "epsilon" if "target_delta" in given else "delta"
            said, answer = _value(by_title.get(_title({**row, "question": question})), "value"), _value(row, "answer")
            if abs(said - answer) > _NOISE * abs(said):
                yield f"{_title(row)}: answer {answer!r} is not the {question} {said!r}"


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
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="of the whole record")
    given = parser.parse_args()
    if given.command == "record":
        record(given.file, given.only, given.minutes)
    elif compare(given.file, given.only):
        sys.exit(1)


if __name__ == "__main__":
    main()
