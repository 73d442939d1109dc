"""Random questions about every mechanism: a number or a refusal that names an argument, on one side, and soon.

No truth is needed: answers must agree with each other. What one question certifies, every other one must know.
"""

import contextlib
import math
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.mechanisms import EXAMPLES
from support.questions import RANDOMIZERS, RELATIONS, RELEASES, SCHEMES, Asked, asked

import jaxacct as ja
from jaxacct import Bound
from jaxacct._method import Query
from jaxacct._types import TooFineError

SECONDS = float(os.environ.get("QUESTION_SECONDS", "10"))  # of CPU time, of one question
_TOLD = 0.1 * SECONDS  # seconds of CPU time within which a `SlowWarning` must come for a question to take longer
_CHUNKS, _QUICK, _DEEP = 20, range(3, 9), 2000
_COMPARED = 0.15  # share of questions whose methods are all asked
_ROUNDING = 1e-6  # relative, of what is asked back: where one falls steeply, the last digits of the other decide
_LEAST_DELTA = 1e-30  # below it the ends of loss distributions are orders of magnitude apart
_MOST_DELTA = 0.05  # above it there is no privacy to speak of, and epsilon is near 0
_MOST_EPSILON = 700.0  # above it e^epsilon is no double
_LEAST_EPSILON = 1e-4  # below it epsilons hardly change what delta is
# kinds whose questions differ more: their bounds are sums whose parts are searched for
_LOOSE = {ja.ShuffledBatches, ja.PartialShuffledBatches, ja.PrivateSelection, ja.ReplaceOne}
_LOOSE_WIDTH = 0.15  # of each of these, and of the epsilons that are asked back
_ERRORS = 1e-4  # by which the rates of errors of two answers may differ: a trade-off has finitely many points
_ORDERS = (1.25, 2.0, 5.0, 32.0)


class _LateError(BaseException):
    """No Exception: nothing on the way catches it."""


@contextlib.contextmanager
def _soon(seconds: float) -> Iterator[None]:
    """Raises `_LateError` when that much CPU time has passed."""

    def late(*_: Any) -> None:
        raise _LateError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


class Asker:
    """Asks, and keeps what is wrong with the answers."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.complaints: list[str] = []

    def __call__(self, words: str, ask: Callable[[], Any]) -> Any:
        """The answer; None where it is refused, or does not come, of which one was told soon."""
        told: list[float] = []
        start = time.process_time()

        def tell(*_: Any, **__: Any) -> None:
            told.append(time.process_time() - start)

        try:
            with _soon(self.seconds), warnings.catch_warnings():
                warnings.simplefilter("error")
                for kind in (ja.PrecisionWarning, ja.OrderEdgeWarning):
                    warnings.simplefilter("ignore", kind)
                warnings.simplefilter("always", ja.SlowWarning)
                warnings.showwarning = tell
                return ask()
        except _LateError:
            if not (told and told[0] <= _TOLD):
                when = f", told after {told[0]:.1f} s" if told else ""
                self.complaints.append(f"{words}: late{when}")
        except TooFineError:
            return None
        except ValueError as refused:
            if not re.search(r"\w+(=| of shape)", str(refused)):
                self.complaints.append(f"{words}: refused in no words: {refused}")
        except Exception as error:
            self.complaints.append(f"{words}: crashed: {type(error).__name__}: {error}")
        return None

    def check(self, holds: Any, words: str) -> None:
        if not holds:
            self.complaints.append(words)


_FORWARD = {Query.EPSILON: ja.epsilon, Query.DELTA: ja.delta}
_INTERVAL = {Query.EPSILON: ja.epsilon_interval, Query.DELTA: ja.delta_interval}
_OTHER = {Query.EPSILON: Query.DELTA, Query.DELTA: Query.EPSILON}


def _kinds(mechanism: Any) -> set[type]:
    """The classes of a mechanism and of what it wraps."""
    return {type(mechanism)}.union(*map(_kinds, mechanism.wrapped()))


def _width(of: Asked, query: Query) -> float:
    """By how much two answers to one question may differ."""
    loose = len(_kinds(of.mechanism) & _LOOSE)
    return (1.0 + _LOOSE_WIDTH) ** loose - 1.0 if loose else query.width


def _is_fair(value: Any, query: Query) -> bool:
    return isinstance(value, float) and 0.0 <= value <= query.worst


def _round_trip(of: Asked, answer: float, ask: Asker) -> None:
    """A pair that epsilon certifies is known to delta, up to both widths; epsilon is near what delta certifies."""
    back = _OTHER[of.query]
    at = answer * (1.0 + _ROUNDING)
    delta = of.target if of.query is Query.EPSILON else at
    epsilon = at if of.query is Query.EPSILON else of.target
    is_known = _LEAST_DELTA <= delta <= _MOST_DELTA and epsilon <= _MOST_EPSILON
    if not (back.allowed(at) and is_known) or (back is Query.DELTA and epsilon < _LEAST_EPSILON):
        return
    found = ask(f"{back.value} at the answer {at!r}", lambda: _FORWARD[back](of.mechanism, at))
    if found is not None:
        width = (1.0 + back.width) ** 3 - 1.0  # of both answers, and of the grids between them
        width = max(_LOOSE_WIDTH if back is Query.EPSILON else width, _width(of, back))
        known = of.target * (1.0 + width) + (_LEAST_EPSILON if back is Query.EPSILON else 0.0)
        ask.check(found <= known, f"round trip: {of.query.value} {answer!r}, but {back.value} {found!r} there")


def _beside(of: Asked, answer: float, interval: Any, ask: Asker) -> None:
    """A larger target has no larger answer."""
    larger = of.target * 1.5
    if not of.query.allowed(larger):
        return
    found = ask(f"{of.query.value} at {larger!r}", lambda: _FORWARD[of.query](of.mechanism, larger))
    if found is not None and answer is not None:
        grows = f"grows: {answer!r} at {of.target!r}, {found!r} at {larger!r}"
        ask.check(found <= max(answer, _LEAST_DELTA) * (1.0 + of.query.width), grows)
    less = ask(f"interval at {larger!r}", lambda: _INTERVAL[of.query](of.mechanism, larger))
    if less is not None and interval is not None:
        ask.check(less.lower <= interval.upper, f"wrong side: {less} at {larger!r}, {interval} at {of.target!r}")


def _batch(of: Asked, answer: float, interval: Any, ask: Asker) -> None:
    """An array of targets has the answers of single ones."""
    targets = np.array([of.target, of.target])
    found = ask("batch", lambda: _FORWARD[of.query](of.mechanism, targets))
    if found is None:
        return
    ask.check(found.shape == (2,) and not np.isnan(found).any(), f"batch: {found}")
    ask.check(found[0] == found[1], f"batch: {found}")
    ask.check(np.all(found >= interval.lower), f"wrong side: batch {found}, single {interval}")
    loose = answer * (1.0 + of.query.width) * (1.0 + of.query.width)
    ask.check(np.all(found <= loose), f"loose: batch {found}, single {answer!r}")


def _rdp(of: Asked, interval: Any, ask: Asker) -> None:
    curve = ask("rdp", lambda: ja.rdp(of.mechanism, _ORDERS))
    if curve is None:
        return
    ask.check(not np.isnan(curve.values).any() and np.all(curve.values >= 0.0), f"rdp: {curve.values}")
    found = ask("curve", lambda: _FORWARD[of.query](curve, of.target))
    if found is not None:
        ask.check(found >= interval.lower, f"wrong side: of rdp {found!r}, {interval}")


def _compared(of: Asked, answer: float, interval: Any, ask: Asker) -> None:
    target = {of.query.given: of.target}
    entries = ask("compare", lambda: ja.compare(of.mechanism, **target))
    if entries is None:
        return
    for e in entries:
        ask.check(_is_fair(e.value, of.query), f"compare: {e}")
    lower = [e.value for e in entries if e.bound is Bound.LOWER]
    upper: dict[Any, float] = {}
    for e in entries:
        if e.bound is Bound.UPPER:
            upper[e.direction] = min(upper.get(e.direction, math.inf), e.value)
    for name, end in (("answer", answer), ("interval", interval.upper)):
        ask.check(max(lower, default=0.0) <= end, f"wrong side: {name} {end!r}, but from below {max(lower, default=0)}")
    best = max(upper.values(), default=of.query.worst)
    ask.check(interval.lower <= best, f"wrong side: {interval}, from above {best!r}")
    known = max(best, _LEAST_DELTA if of.query is Query.EPSILON or best <= _MOST_DELTA else 1.0)
    ask.check(answer <= known * (1.0 + _width(of, of.query)), f"loose: {answer!r}, but compare has {best!r}")


def _attacked(of: Asked, answer: float, rng: np.random.Generator, ask: Asker) -> None:
    """An attack catches no more than the certified pair (epsilon, delta) says, up to the width of both."""
    rate = float(rng.choice([0.0, 1e-9, 1e-3, 0.1, 0.5]))
    errors = ask(f"tradeoff at {rate}", lambda: float(ja.tradeoff(of.mechanism, rate)))
    if errors is None:
        return
    ask.check(0.0 <= errors <= 1.0 - rate, f"tradeoff: {errors!r} at {rate}")
    pair = {of.query: answer * (1.0 + _width(of, of.query)), _OTHER[of.query]: of.target}
    certified = errors_of_pair(pair[Query.EPSILON], pair[Query.DELTA], rate)
    if pair[Query.DELTA] > _LEAST_DELTA:
        ask.check(errors >= certified - _ERRORS, f"tradeoff: {errors!r} at {rate}, but the pair says {certified!r}")


def errors_of_pair(epsilon: float, delta: float, rate: float) -> float:
    """The least rate of missed records beside `rate` false alarms of what is (epsilon, delta)-private."""
    if math.isinf(epsilon):  # no pair is certified
        return 0.0
    growth = math.exp(min(epsilon, 700.0))
    return max(0.0, 1.0 - delta - growth * rate, (1.0 - delta - rate) / growth)


def _drawn(of: Asked, rng: np.random.Generator, ask: Asker) -> None:
    """A loss distribution from above lies above the one from below."""
    direction = list(ja.Direction)[rng.integers(2)]
    at = of.target if of.query is Query.DELTA else 1.0
    found = {
        bound: ask(f"pld {bound}", lambda bound=bound: ja.pld(of.mechanism, direction=direction, bound=bound).delta(at))
        for bound in (Bound.UPPER, Bound.LOWER)
    }
    upper, lower = found[Bound.UPPER], found[Bound.LOWER]
    if upper is not None and lower is not None:
        ask.check(0.0 <= lower <= upper <= 1.0, f"wrong side: pld in {lower!r}, {upper!r} at {at!r}")


def complaints(*seed: int, seconds: float = SECONDS) -> list[str]:
    """What is wrong with the answers to one random question, each with the question."""
    of, rng, ask = asked(*seed), np.random.default_rng([*seed, 1]), Asker(seconds)
    answer = ask("answer", lambda: _FORWARD[of.query](of.mechanism, of.target))
    if answer is not None:
        ask.check(_is_fair(answer, of.query), f"no {of.query.value}: {answer!r}")
        again = ask("again", lambda: _FORWARD[of.query](of.mechanism, of.target))
        ask.check(again is None or again == answer, f"digits: {answer!r}, then {again!r}")
        _round_trip(of, answer, ask)
    interval = ask("interval", lambda: _INTERVAL[of.query](of.mechanism, of.target))
    if interval is not None:
        ends = 0.0 <= interval.lower <= interval.analysis_lower <= interval.upper
        ask.check(ends, f"no interval: {interval}")
        if answer is not None:
            ask.check(answer >= interval.lower, f"wrong side: {answer!r}, {interval}")
            loose = max(interval.upper, _LEAST_DELTA) * (1.0 + of.query.width)
            ask.check(answer <= loose, f"loose: {answer!r}, {interval}")
            _batch(of, answer, interval, ask)
        _rdp(of, interval, ask)
        if answer is not None and rng.random() < _COMPARED:
            _compared(of, answer, interval, ask)
    if rng.random() < 0.5:
        _beside(of, answer, interval, ask)
    if answer is not None and rng.random() < _COMPARED:
        _attacked(of, answer, rng, ask)
    if rng.random() < _COMPARED:
        _drawn(of, rng, ask)
    return [f"{list(seed)} {of.mechanism!r} {of.query.given}={of.target!r}: {c}" for c in ask.complaints]


def test_every_kind_is_asked_about():
    assert {*RELEASES, *SCHEMES, *RANDOMIZERS, *RELATIONS} == set(EXAMPLES)


def test_random_questions():
    found = [c for i in _QUICK for c in complaints(i)]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_random_questions_slow(chunk):
    found = [c for i in range(chunk, _DEEP, _CHUNKS) for c in complaints(i)]
    assert not found, "\n".join(found)
