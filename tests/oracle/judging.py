"""What an answer must be to pass: on the right side of an enclosure, as tight as promised, a number, and soon."""

import math
import os
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from flint import arb, ctx

import jaxacct as ja

EPSILON_PROMISE, DELTA_PROMISE = 1e-3, 1e-2
"""Widths that an answer without `precision` has where no `PrecisionWarning` says otherwise."""
SECONDS = 20.0  # of CPU time, ten on a machine that has nothing else to do, unless a `SlowWarning` came
BITS = 320  # of the enclosures: cancellation costs as many as the logarithm of delta has
CHUNKS = 20
SEED = [int(word) for word in os.environ.get("ORACLE_SEED", "").split()]
SHARE = float(os.environ.get("ORACLE_SHARE", "1"))


class Profile(NamedTuple):
    """A question about a mechanism and an enclosure of delta as a function of epsilon, one for each direction.

    `promised`: whether the analysis is exact, so that its width is promised; otherwise only the sides are checked, and
    with `below` False only the upper one: the enclosure is of what the mechanism may be, not of what it is. `least`:
    the delta from which the enclosure is sharp.
    """

    mechanism: Any
    delta: Callable[[Any, Any], arb]  # of a ball epsilon and a direction
    target_epsilon: float | None = None
    target_delta: float | None = None
    directions: tuple[Any, ...] = tuple(ja.Direction)
    promised: bool = True
    below: bool = True
    least: float = 1e-300

    def truth(self, epsilon) -> arb:
        found = [self.delta(arb(epsilon), direction) for direction in self.directions]
        return found[0] if len(found) == 1 else found[0].max(found[1])


def _asked(question) -> tuple[Any, bool, str | None]:
    """The answer, whether it warned that it is wide, and what was wrong with asking."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = question()
        except Exception as crash:
            return None, False, f"raises {type(crash).__name__}: {crash}"
    # what takes long is measured below
    said = (ja.PrecisionWarning, ja.OrderEdgeWarning, ja.SlowWarning)
    other = [c for c in caught if not issubclass(c.category, said)]
    if other:
        return answer, False, f"warns {other[0].message}"
    slow, told = None, any(issubclass(c.category, ja.SlowWarning) for c in caught)
    if not told and time.process_time() - start > SECONDS:  # what a first question compiles is none of a second one's
        start = time.process_time()
        question()
        spent = time.process_time() - start
        slow = f"takes {spent:.1f} s" if spent > SECONDS else None
    return answer, bool(caught), slow


def judged_delta(case: Profile) -> list[str]:
    """What is wrong with the interval of delta."""
    found, wide, wrong = _asked(lambda: ja.delta_interval(case.mechanism, case.target_epsilon))
    if found is None:
        return [wrong]
    complaints = [wrong] if wrong else []
    if not all(0.0 <= end <= 1.0 for end in found):
        return [*complaints, f"is no probability: {found}"]
    truth = case.truth(case.target_epsilon)
    if case.promised and truth.upper() > case.least and truth.rel_accuracy_bits() < 14:
        complaints.append(f"is not known: {truth}")
    if truth > arb(found.upper):
        complaints.append(f"upper {found.upper!r} is below {truth}")
    if case.below and truth < arb(found.lower):
        complaints.append(f"lower {found.lower!r} is above {truth}")
    if case.promised and truth < arb(found.analysis_lower):
        complaints.append(f"analysis_lower {found.analysis_lower!r} is above {truth}")
    if case.promised and not wide and truth > case.least and arb(found.upper) > truth * (1 + arb(DELTA_PROMISE)):
        complaints.append(f"upper {found.upper!r} is loose of {truth}")
    for direction in case.directions if len(case.directions) == 2 else ():
        one, _, wrong = _asked(lambda d=direction: ja.delta(case.mechanism, case.target_epsilon, direction=d))
        if wrong:
            complaints.append(f"{direction}: {wrong}")
        if one is not None and case.delta(arb(case.target_epsilon), direction) > arb(one):
            complaints.append(f"{direction} {one!r} is below {case.delta(arb(case.target_epsilon), direction)}")
    return complaints


def judged_epsilon(case: Profile) -> list[str]:
    """What is wrong with the interval of epsilon: the enclosure is of delta at its ends."""
    found, wide, wrong = _asked(lambda: ja.epsilon_interval(case.mechanism, case.target_delta))
    if found is None:
        return [wrong]
    complaints = [wrong] if wrong else []
    if not all(end >= 0.0 for end in found):
        return [*complaints, f"is no epsilon: {found}"]
    target = arb(case.target_delta)
    if math.isfinite(found.upper):
        if case.truth(found.upper) > target:
            complaints.append(f"upper {found.upper!r} has delta {case.truth(found.upper)}")
        tight = case.promised and not wide and found.upper > 0.0
        if tight and case.truth(arb(found.upper) / (1 + arb(EPSILON_PROMISE))) < target:
            complaints.append(f"upper {found.upper!r} is loose: {found}")
    elif case.promised and not wide and case.truth(1e4) < target:
        complaints.append(f"upper is infinite: {found}")
    lowers = ("lower", "analysis_lower") if case.promised else ("lower",) if case.below else ()
    for name in lowers:
        low = getattr(found, name)
        if low > 0.0 and case.truth(low if math.isfinite(low) else 1e6) < target:
            complaints.append(f"{name} {low!r} has delta {case.truth(low)}")
    return complaints


def _remembered(delta):
    """`delta`, which finds nothing twice."""
    known = {}

    def found(epsilon, direction):
        key = *epsilon.mid().man_exp(), *epsilon.rad().man_exp(), direction
        if key not in known:
            known[key] = delta(epsilon, direction)
        return known[key]

    return found


def judged(case: Profile) -> list[str]:
    case = case._replace(delta=_remembered(case.delta))
    complaints = judged_epsilon(case) if case.target_epsilon is None else judged_delta(case)
    at = f"delta={case.target_delta!r}" if case.target_epsilon is None else f"epsilon={case.target_epsilon!r}"
    return [f"{case.mechanism!r} at {at}: {complaint}" for complaint in complaints]


class Value(NamedTuple):
    """A number from above or from below, asked by `ask`, and an enclosure of the truth."""

    words: str
    ask: Callable[[], float]
    truth: arb
    upper: bool = True
    promise: float | None = None


def judged_value(case: Value) -> list[str]:
    """What is wrong with one end of a number."""
    found, _, wrong = _asked(case.ask)
    complaints = [wrong] if wrong else []
    if found is None:
        return [f"{case.words}: {wrong}"]
    if math.isnan(found):
        complaints.append("is nan")
    elif case.upper and math.isfinite(found) and case.truth > arb(found):
        complaints.append(f"upper {found!r} is below {case.truth}")
    elif not case.upper and case.truth < arb(found):
        complaints.append(f"lower {found!r} is above {case.truth}")
    if case.promise is not None:
        promised = 1 + arb(case.promise)
        if case.upper and (math.isinf(found) or arb(found) > case.truth * promised):
            complaints.append(f"upper {found!r} is loose of {case.truth}")
        if not case.upper and arb(found) * promised < case.truth:
            complaints.append(f"lower {found!r} is loose of {case.truth}")
    return [f"{case.words}: {complaint}" for complaint in complaints]


def complaints_of(cases, rng, bits=BITS) -> list[str]:
    """All complaints about what `cases` makes of a generator."""
    with ctx.workprec(bits):
        return [c for case in cases(rng) for c in (judged_value(case) if isinstance(case, Value) else judged(case))]


def draws(*seed: int) -> np.random.Generator:
    """The generator of one draw: others where ORACLE_SEED says so."""
    return np.random.default_rng([*seed, *SEED])


def slices(cases, *, seed, quick, deep=10_000, bits=BITS):
    """The tests of a family: `quick` draws of `cases` by default, and `deep` in chunks where slow tests run.

    `deep` is what some minutes have time for, and `bits` the digits that the enclosures of a family need.
    """

    def default():
        complaints = [c for i in range(quick) for c in complaints_of(cases, draws(seed, i), bits)]
        assert not complaints, "\n".join(complaints)

    @pytest.mark.slow
    @pytest.mark.parametrize("chunk", range(CHUNKS))
    def slow(chunk):
        drawn = range(quick + chunk, quick + int(SHARE * deep), CHUNKS)
        complaints = [c for i in drawn for c in complaints_of(cases, draws(seed, i), bits)]
        assert not complaints, "\n".join(complaints)

    return default, slow


def between(rng, low, high):
    """A number, uniform on the scale of logarithms."""
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))
