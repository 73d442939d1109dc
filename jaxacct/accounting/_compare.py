"""Every method side by side, and which of them decides."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._method import Cost, LaneMethod, Method, Query, Role
from jaxacct._patience import LONG, say_long, timed
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends, NeighboringRelation, TooFineError
from jaxacct._validate import check_precision
from jaxacct.accounting._entries import Comparison, Entry, compared_apart
from jaxacct.accounting._questions import as_python, only_target
from jaxacct.answering import Question, answer
from jaxacct.answering._lanes import Answer, ask
from jaxacct.answering._loop import alone
from jaxacct.answering._plan import way_on_lanes
from jaxacct.answering._question import check_question, check_scalars, directions_of, question_of
from jaxacct.bounds import methods_for
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.workers import workers_of

_WIDTH = 0.01  # relative, of the brackets that `compare` shows, of epsilon and of delta


def compare(
    mechanism: Mechanism,
    target_delta: Any = None,
    *,
    target_epsilon: Any = None,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    executor: Any = None,
) -> tuple[Entry, ...]:
    """The bounds of every applicable method side by side, separately for each direction.

    Args:
      mechanism: a mechanism; array fields broadcast.
      target_delta: float in (0, 1), to compare epsilons; or
      target_epsilon: float >= 0, to compare deltas.
      precision: relative width for the privacy loss distribution; None for 1 %; inf for the quick methods alone,
        without the loss distribution, other certified intervals or lower bounds.
      neighboring_relation: as for `jaxacct.epsilon`.
      executor: computes a batch point by point, as for `jaxacct.sweep`, by all methods that there are for single
        points. Without one, a batch is computed by the vectorised methods, each as one compiled program.

    Returns:
      A tuple of one `Entry` for each method and direction, with the fields method, direction, value, bound,
      neighboring_relation, theorem, order (nan if none), at_order_edge, seconds (compilation included on a first call).
      For a single point it prints as a table.

    Raises:
      ValueError: if not exactly one target is given, or an argument is out of range.
      RuntimeError: if points failed permanently on an executor.

    >>> import jaxacct as ja
    >>> for entry in ja.compare(ja.Gaussian(noise_multiplier=1.0), target_delta=1e-6, precision=float("inf")):
    ...     print(entry.method, entry.direction.value, f"{entry.value:.3f}")
    exact remove 4.887
    rdp remove 5.222
    exact add 4.887
    rdp add 5.222
    """
    query, target = only_target(target_delta, target_epsilon)
    mechanism = in_relation(mechanism, neighboring_relation)
    check_question(mechanism, query, target)
    check_precision(precision)
    workers = workers_of(executor)
    ask_point = partial(_compared, query=query, precision=precision)
    if workers is not None and not is_traced(mechanism, target):
        found = compared_apart(workers, ask_point, mechanism, query, target)
    else:
        found = ask_point(mechanism, target)
    is_point = bool(found) and all(isinstance(entry.value, float) for entry in found)
    return Comparison(found, query.value) if is_point else found


def _compared(mechanism: Mechanism, target: Any, *, query: Query, precision: float | None) -> tuple[Entry, ...]:
    width = _WIDTH if precision is None else float(precision)
    numbers = (*_trees.leaves(mechanism), target)
    scalar = not is_traced(numbers) and not any(np.ndim(x) for x in numbers)
    every = [method for method in methods_for(mechanism, is_batch=not scalar) if method.is_listed]
    lanes = [method for method in every if isinstance(method, LaneMethod)]
    is_quick = width == math.inf
    hosts = [m for m in every if m not in lanes] if scalar else []
    hosts = [m for m in hosts if not is_quick or m.role_for(mechanism) is Role.QUICK]
    if not is_traced(numbers):
        _say_what_is_compiled(lanes, mechanism, math.prod(np.broadcast_shapes(*map(np.shape, numbers))))
    lane_answers: dict[Method, tuple[Answer, float]] = {}
    entries, spent, has_said = [], 0.0, False
    for direction in directions_of(mechanism, None):
        for method in (m for m in lanes if direction in m.directions):
            if method not in lane_answers:
                start = time.perf_counter()
                lane_answers[method] = ask(method, mechanism, query, target), time.perf_counter() - start
            entries.append(_entry(mechanism, method, direction, *lane_answers[method]))
        question = Question(mechanism, query, target, (direction,), width)
        found: list[Entry] = []
        silent: list[Entry] = []
        for host in (m for m in hosts if direction in m.directions):
            if spent > LONG and not has_said:
                has_said = True
                say_long(f"more methods are compared, those before took {spent:.1g} seconds")
            (lines, is_silent), took = timed(partial(_both_ends, question, host))
            spent += took
            (silent if is_silent else found).extend(lines)
        if not any(e.bound is Bound.UPPER for e in (*entries, *found) if e.direction is direction):
            found += [entry for entry in silent if entry.bound is Bound.UPPER]  # else the other direction would decide
        entries += [entry for entry in found if not is_quick or entry.bound is Bound.UPPER]
    return tuple(entries)


def _say_what_is_compiled(methods: Sequence[LaneMethod], mechanism: Mechanism, num_points: int) -> None:
    """Warns that the comparison takes long if methods compile programs that take seconds."""
    slow = [m for m in methods if m.cost > Cost.MICROSECONDS and way_on_lanes(m, mechanism, num_points).is_compiled]
    if slow:
        names = ", ".join(repr(method.name) for method in slow)
        say_long(f"new programs are compiled, some seconds each, for {names}")


def _both_ends(question: Question, method: Method) -> tuple[list[Entry], bool]:
    """The entries of a bracketing method in one direction, and whether it leaves the question to other methods.

    There are entries only for the ends that bound the mechanism itself.
    """
    (direction,) = question.directions
    start, nothing = time.perf_counter(), Ends(0.0, question.query.worst)
    try:
        ends, is_silent = alone(method, question), method.ends == {Bound.UPPER, Bound.LOWER}
    except TooFineError:
        ends, is_silent = nothing, True
    seconds = time.perf_counter() - start
    values = {Bound.UPPER: ends.upper, Bound.LOWER: ends.lower}
    lines = [
        _line(question.mechanism, direction, method, bound, values[bound], seconds)
        for bound in (Bound.UPPER, Bound.LOWER)
        if bound in method.ends_for(question.mechanism)
    ]
    return lines, is_silent and ends == nothing


def deciding(
    mechanism: Mechanism,
    target_delta: Any = None,
    *,
    target_epsilon: Any = None,
    method: str | None = None,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
) -> tuple[Entry, ...]:
    """For a scalar question, the `Entry` behind the value of `epsilon` (or `delta`) in each direction.

    It names the method that decided. The larger of the values is the answer. Methods that cannot change the answer are
    not run, so that `compare` may have a smaller bound for the other direction.

    Args:
      mechanism: a mechanism with concrete scalar fields.
      target_delta: float in (0, 1), to ask for epsilon; or
      target_epsilon: float >= 0, to ask for delta.
      method, precision: as for `jaxacct.epsilon`.
      neighboring_relation: as for `jaxacct.epsilon`.

    Returns:
      One `Entry` for each direction; its `seconds` is nan, since nothing was timed.

    Raises:
      ValueError: if not exactly one target is given, an argument is out of range, traced or an array, or the mechanism
        has no analysis.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000)
    >>> remove, add = ja.deciding(run, target_delta=1e-6)
    >>> remove.method, round(remove.value, 4)
    ('exact', 0.1717)
    >>> ja.deciding(run, target_delta=1e-6, precision=float("inf"))[0].method
    'exact'
    """
    query, target = only_target(target_delta, target_epsilon)
    mechanism = in_relation(mechanism, neighboring_relation)
    check_scalars(mechanism, target)
    question = question_of(mechanism, query, target, method=method, precision=precision)
    found = answer(question)
    entries = []
    for direction, bracket in found.brackets.items():
        by, result, _ = found.asked[int(bracket.source)]
        value = float(bracket.upper)
        if isinstance(by, LaneMethod):
            entries.append(_entry(mechanism, by, direction, result._replace(value=value), math.nan))
        else:
            bound = Bound.ESTIMATE if Bound.ESTIMATE in by.ends else Bound.UPPER
            entries.append(_line(mechanism, direction, by, bound, value, math.nan))
    return tuple(entries)


def _line(
    mechanism: Mechanism, direction: Direction, method: Method, bound: Bound, value: float, seconds: float
) -> Entry:
    theorem = method.source(mechanism)
    return Entry(method.name, direction, value, bound, mechanism.relation, theorem, math.nan, False, seconds)


def _entry(mechanism: Mechanism, method: Method, direction: Direction, found: Answer, seconds: float) -> Entry:
    return Entry(
        method=method.name,
        direction=direction,
        value=as_python(found.value),
        bound=next(iter(method.ends)),
        neighboring_relation=mechanism.relation,
        theorem=method.source(mechanism),
        order=as_python(found.order),
        at_order_edge=found.at_edge if is_traced(found.at_edge) or np.ndim(found.at_edge) else bool(found.at_edge),
        seconds=seconds,
    )
