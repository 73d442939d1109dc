"""Inverse problems: the value of a field at which a privacy budget is just met."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._method import LaneMethod, Query
from jaxacct._precision import is_traced
from jaxacct._types import Direction, NeighboringRelation
from jaxacct._validate import check_delta, check_epsilon, check_precision, checked_number
from jaxacct.answering import Question, plan
from jaxacct.answering._question import check_answers_in_programs, directions_of
from jaxacct.calibration._batch import PointBatch, batch_of, field_of, flattened
from jaxacct.calibration._search import Affordable
from jaxacct.calibration._solve import Solve, SolveMeasure, solved_apart
from jaxacct.calibration._traced import calibrate_traced, with_statics
from jaxacct.measures import Advantage, Measure
from jaxacct.mechanisms._after import after, keys_after
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import UNKNOWN, find_field, value_at, with_fields
from jaxacct.workers import workers_of


def calibrate(
    mechanism: Mechanism,
    field: str,
    target_epsilon: Any = None,
    target_delta: Any = None,
    *,
    measure: Measure | None = None,
    target: Any = None,
    method: str | None = None,
    direction: Direction | str | None = None,
    precision: float | None = None,
    tolerance: float = 1e-6,
    executor: Any = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    prefix: Mechanism | tuple[Any, Any] | None = None,
) -> Any:
    """The value of `field` that loses the most privacy within a budget: a certified bound.

    The budget is (target_epsilon, target_delta), or a number that a measure of `jaxacct.measures` may have: advantage,
    true positive rate at a false positive rate, Bayes risk, mu of Gaussian DP, rho of zCDP.

    That is the smallest noise multiplier or crowd (num_reports, num_users, num_steps of an allocation), or the largest
    probability, local epsilon or number of runs (num_steps of `PoissonSampled`, num_epochs, num_selected, counts). The
    value itself was checked: `jaxacct.epsilon` with the same `method`, `direction` and `precision` is at most
    `target_epsilon` there. A value that loses more privacy, by a factor of 1 + `tolerance` or by the next whole number,
    was found to miss the target. Where the answers come from privacy loss distributions, to a relative width of
    `precision` (None: 0.1 %), the best value may lie as far away, and the factor is 1 plus a tenth of that width. With
    a measure, ``measure(mechanism)`` at the value found meets the target and is within `tolerance` of it (or, where the
    certified answer has a step there, a value that loses more, by a factor of 1 + `tolerance` / 1000, was found to miss
    it).

    With traced arguments a real field is found by the methods that `jaxacct.epsilon` uses for traced arguments, rounded
    to the safe side and differentiable by the implicit function theorem. Where no value meets the target, the result is
    inf for noise, and 0 for fields on which privacy is spent.

    Args:
      mechanism: a mechanism; array fields broadcast with each other and with the targets. What it holds for `field` is
        ignored and may be None.
      field: a field's name, anywhere in the description; if several fields have that name, preceded by its path
        ("mechanisms.0.noise_multiplier").
      target_epsilon: float > 0; or 0, where delta is the advantage, ``measure=Advantage()``.
      target_delta: float in (0, 1).
      measure: one of `jaxacct.measures`, in place of both; for concrete numbers only, without `method`, `direction` or
        `precision`.
      target: the largest number that the measure may have (for `BayesRisk` the smallest).
      method, direction, precision: as for `jaxacct.epsilon`. A whole batch is solved by one program with
        ``precision=math.inf`` (Renyi divergences and closed forms), and for `Gaussian`, most settings of
        `PoissonSampled`, and one round of `Shuffled`.
      tolerance: relative, in [1e-12, 0.1]; for fields that are not counts.
      executor: an executor that solves a batch, as for `jaxacct.sweep`: each point separately (256 at once for the
        quick methods). The values do not depend on which executor it is; without one they may differ within
        `tolerance`.
      neighboring_relation, prefix: as for `jaxacct.epsilon`; what was spent before stays as it is.

    Returns:
      A float, or an int for a count; for batches a NumPy float64 or int64 array of the broadcast shape. It is the end
      of the field's range where even that is affordable: noise_multiplier 1e-4, probabilities 1, local_epsilon 1000,
      num_selected its num_steps, numbers of runs 2^53, crowds 1.

    Raises:
      ValueError: if an argument is out of range, the field is unknown or ambiguous, or no value meets the target;
        for a batch it names the first such point.
      RuntimeError: if points failed permanently on an executor.

    >>> import jaxacct as ja
    >>> run = ja.PoissonSampled(ja.Gaussian(None), sampling_prob=0.01, num_steps=1000)
    >>> sigma = ja.calibrate(run, "noise_multiplier", target_epsilon=2.0, target_delta=1e-6)
    >>> round(sigma, 4)
    1.029
    >>> caught = ja.measures.TruePositiveRate(false_positive_rate=0.01)
    >>> round(ja.calibrate(run, "noise_multiplier", measure=caught, target=0.05), 4)
    0.7778
    """
    measure, target = _asked(measure, target, target_epsilon, target_delta)
    check_precision(precision)
    checked_number("tolerance", tolerance)
    if not 1e-12 <= tolerance <= 0.1:
        raise ValueError(f"tolerance={tolerance} must be in [1e-12, 0.1]")
    mechanism = after(prefix, mechanism, neighboring_relation)
    directions = directions_of(mechanism, direction)
    here = keys_after(prefix, mechanism)
    keys = (*here, *find_field(value_at(mechanism, here), field))
    is_whole = field_of(mechanism, keys).is_whole
    if measure is not None:
        for name, value in (("method", method), ("direction", direction), ("precision", precision)):
            if value is not None:
                raise ValueError(f"{name}={value!r} must be None for a measure, or for target_epsilon=0")
        if is_traced(_trees.leaves(with_fields(mechanism, {keys: UNKNOWN})), target):
            raise ValueError("a measure needs concrete numbers: it cannot be solved for inside jit, vmap or grad")
        return _solved(mechanism, field, SolveMeasure(keys, measure, tolerance), target, 1.0, executor)
    others = [leaf for leaf in _trees.leaves(with_fields(mechanism, {keys: UNKNOWN})) if leaf is not UNKNOWN]
    if is_traced(others, target_epsilon, target_delta):
        if is_whole or (precision is not None and not math.isinf(precision)):
            raise ValueError(
                f"field={field!r}, precision={precision}: counts, and methods outside jit, need concrete numbers"
            )
        return _traced(mechanism, keys, target_epsilon, target_delta, method, directions)
    solve = Solve(keys, method, directions, precision, tolerance)
    return _solved(mechanism, field, solve, target_epsilon, target_delta, executor)


def _asked(measure: Measure | None, target: Any, target_epsilon: Any, target_delta: Any) -> tuple[Measure | None, Any]:
    """The measure, if one is given, and its target; raises ValueError unless one budget is given, and in range."""
    if measure is not None:
        if not isinstance(measure, Measure):
            raise ValueError(f"measure={measure!r} must be one of jaxacct.measures, as measures.Advantage()")
        if target_epsilon is not None or target_delta is not None or target is None:
            raise ValueError(f"measure={measure!r} needs target, and neither target_epsilon nor target_delta")
        return measure, target if is_traced(target) else measure.check_target(target)
    if target is not None or target_epsilon is None or target_delta is None:
        given = f"target_epsilon={target_epsilon} and target_delta={target_delta}"
        raise ValueError(f"{given}: both must be given, or measure and target={target}")
    check_epsilon("target_epsilon", target_epsilon)
    check_delta("target_delta", target_delta)
    if is_traced(target_epsilon) or not np.any(np.asarray(target_epsilon) == 0):
        return None, None
    if not np.all(np.asarray(target_epsilon) == 0):
        raise ValueError(f"target_epsilon={target_epsilon} must be > 0, or 0 everywhere: delta is the advantage there")
    zeros = np.zeros(np.shape(target_epsilon))
    return Advantage(), target_delta if is_traced(target_delta) else np.asarray(target_delta, np.float64) + zeros


def _solved(
    mechanism: Mechanism,
    field: str,
    solve: Solve | SolveMeasure,
    target_epsilon: Any,
    target_delta: Any,
    executor: Any,
) -> Any:
    """The values for a batch of concrete numbers, in its shape."""
    batch, shape = batch_of(mechanism, solve.keys, target_epsilon, target_delta)
    is_whole = field_of(mechanism, solve.keys).is_whole
    if batch.target_delta.size == 0:
        return np.zeros(shape, np.int64 if is_whole else np.float64)
    workers = workers_of(executor)
    found = solve(batch) if workers is None else solved_apart(workers, solve, batch)
    if not np.all(found.is_affordable):
        raise ValueError(_impossible(field, batch, shape, found, solve))
    if not shape:
        return int(found.value[0]) if is_whole else float(found.value[0])
    return found.value.reshape(shape).astype(np.int64 if is_whole else np.float64)


def _traced(
    mechanism: Mechanism,
    keys: tuple[Any, ...],
    target_epsilon: Any,
    target_delta: Any,
    method: str | None,
    directions: tuple[Direction, ...],
) -> Any:
    field = field_of(mechanism, keys)
    leaves, structure = flattened(mechanism, keys)
    # whichever argument is traced, the methods are those of traced questions; and nothing is known of the unknown
    traced = next(x for x in (target_delta, target_epsilon, *leaves) if is_traced(x))
    probe = _trees.unflatten(structure, [traced if leaf is None else leaf for leaf in leaves])
    check_answers_in_programs(probe)
    asked = Question(probe, Query.EPSILON, traced, directions, math.inf, method)
    steps = [step.method for step in plan(asked)]
    methods = tuple(with_statics(m, probe) for m in dict.fromkeys(steps) if isinstance(m, LaneMethod))
    if not methods:
        raise ValueError(f"method={method!r} needs concrete numbers: omit it inside jit, vmap or grad")
    return calibrate_traced(mechanism, keys, field, target_epsilon, target_delta, methods, directions)


def _impossible(
    field: str, batch: PointBatch, shape: tuple[int, ...], found: Affordable, solve: Solve | SolveMeasure
) -> str:
    """The error message for the first point that cannot be calibrated."""
    i = int(np.flatnonzero(~found.is_affordable)[0])
    where = f" at index {tuple(int(j) for j in np.unravel_index(i, shape))}" if shape else ""
    if isinstance(solve, SolveMeasure):
        best = found.asked["value"][i]
        target = f"target={batch.target_epsilon[i]:g} of the {solve.measure.words()}"
        return f"no {field} meets {target}{where}: the best found is {best:.6g}"
    target = f"target_epsilon={batch.target_epsilon[i]:g} at target_delta={batch.target_delta[i]:g}"
    return f"no {field} meets {target}{where}: the least epsilon found is {found.epsilon[i]:.6g}"
