"""Inverse problems: the value of a field at which a privacy budget is just met."""

import dataclasses
import math
import warnings
from typing import Any

import jax
import numpy as np

from jaxacct._method import Cost, LaneBracketMethod, LaneMethod, Method, Query, one_sided
from jaxacct._precision import is_traced
from jaxacct._types import Direction, NeighboringRelation, OrderEdgeWarning, PrecisionWarning
from jaxacct._validate import check_delta, check_epsilon, check_precision, checked_number
from jaxacct.answering import Question, plan, question_of
from jaxacct.answering._plan import is_quick_bracket
from jaxacct.answering._question import directions_of
from jaxacct.calibration._batch import Batch, batch_of, field_of, flattened, range_of
from jaxacct.calibration._by_methods import by_methods
from jaxacct.calibration._routes import engine_route
from jaxacct.calibration._search import Found, search
from jaxacct.calibration._traced import calibrate_traced
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import UNKNOWN, find_field, with_fields

# Share of the target epsilon that is kept as a margin: the same question in a batch of another size may differ in its
# last digits.
_MARGIN = 1e-9
_NEAR = 0.02  # relative tolerance of a first search by methods on lanes, where the search by the host's methods begins


def calibrate(
    mechanism: Mechanism,
    field: str,
    target_epsilon: Any,
    target_delta: Any,
    *,
    method: str | None = None,
    direction: Direction | str | None = None,
    precision: float | None = None,
    tolerance: float = 1e-6,
    neighboring_relation: NeighboringRelation | str | None = None,
) -> Any:
    """The value of `field` that loses most privacy within (target_epsilon, target_delta): a certified bound.

    The least noise multiplier or crowd (num_reports, num_users, num_steps of an allocation), the largest probability,
    local epsilon or number of runs (num_steps of `PoissonSampled`, num_epochs, num_selected, counts). The value itself
    was asked about: `jaxacct.epsilon` with the same `method`, `direction` and `precision` is at most `target_epsilon`
    there. A value that loses more privacy, by a factor of 1 + `tolerance` or by the next whole number, was seen to
    miss the target. Where privacy loss distributions answer, to a relative width of `precision` (None: 0.1 %), the best
    value may lie as far away, and the factor is 1 plus a tenth of that width.

    Traced arguments give a real field by the closed forms and Renyi divergences (``method="exact"``: by moment
    inversion too, where it applies), rounded to the safe side and differentiable by the implicit function theorem; inf
    noise, or 0 of what privacy is spent on, where no value meets the target.

    Args:
      mechanism: a mechanism; array fields broadcast with each other and with the targets. What it holds for `field` is
        ignored: None will do.
      field: a field's name, anywhere in the description; where several have it, preceded by its path
        ("mechanisms.0.noise_multiplier").
      target_epsilon: float > 0.
      target_delta: float in (0, 1).
      method, direction, precision: as for `jaxacct.epsilon`. Whole batches go through one program with
        ``precision=math.inf`` (Renyi divergences and closed forms), and for `Gaussian`, most settings of
        `PoissonSampled`, and one round of `Shuffled`.
      tolerance: relative, in [1e-12, 0.1]; for fields that are not counts.
      neighboring_relation: as for `jaxacct.epsilon`.

    Returns:
      A float, or an int for a count; for batches a NumPy float64 or int64 array of the broadcast shape. The end of the
      field's range where even that is affordable: noise_multiplier 1e-4, probabilities 1, local_epsilon 1000,
      num_selected its num_steps, numbers of runs 2^53, crowds 1.

    Raises:
      ValueError: if an argument is out of range, the field is unknown or ambiguous, or no value meets the target;
        for a batch it names the first such point.

    >>> import jaxacct as ja
    >>> run = ja.PoissonSampled(ja.Gaussian(None), sampling_prob=0.01, num_steps=1000)
    >>> sigma = ja.calibrate(run, "noise_multiplier", target_epsilon=2.0, target_delta=1e-6)
    >>> round(sigma, 4)
    1.029
    """
    check_epsilon("target_epsilon", target_epsilon)
    if not is_traced(target_epsilon) and np.any(np.asarray(target_epsilon) == 0):
        raise ValueError(
            f"target_epsilon={target_epsilon} must be > 0: what is lost at 0 is jaxacct.delta(mechanism, 0)"
        )
    check_delta("target_delta", target_delta)
    check_precision(precision)
    checked_number("tolerance", tolerance)
    if not 1e-12 <= tolerance <= 0.1:
        raise ValueError(f"tolerance={tolerance} must be in [1e-12, 0.1]")
    mechanism = in_relation(mechanism, neighboring_relation)
    directions = directions_of(mechanism, direction)
    keys = find_field(mechanism, field)
    is_whole = field_of(mechanism, keys).is_whole
    others = [leaf for leaf in jax.tree.leaves(with_fields(mechanism, {keys: UNKNOWN})) if leaf is not UNKNOWN]
    if any(isinstance(leaf, Mechanism) for leaf in others):
        raise ValueError(f"field={field!r}: what is built on a Pld, which is no number, cannot be calibrated")
    if is_traced(others, target_epsilon, target_delta):
        if is_whole or (precision is not None and not math.isinf(precision)):
            raise ValueError(f"field={field!r}, precision={precision}: counts and host methods need concrete numbers")
        return _traced(mechanism, keys, target_epsilon, target_delta, method, directions)
    batch, shape = batch_of(mechanism, keys, target_epsilon, target_delta)
    if batch.target_delta.size == 0:
        return np.zeros(shape, np.int64 if is_whole else np.float64)
    found = _solved(batch, keys, method, directions, precision, tolerance)
    if not np.all(found.is_affordable):
        raise ValueError(_impossible(field, batch, shape, found))
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
    probe = jax.tree.unflatten(structure, [field.start if leaf is None else leaf for leaf in leaves])
    asked = Question(probe, Query.EPSILON, target_delta, directions, math.inf, method)
    steps = [step.method for step in plan(asked)]
    bracket = next((m for m in steps if isinstance(m, LaneBracketMethod)), None)
    if bracket is not None:
        steps = [step.method for step in plan(dataclasses.replace(asked, method=None))]
    methods = tuple(dict.fromkeys(m for m in steps if isinstance(m, LaneMethod) and one_sided(m)))
    if not methods:
        raise ValueError(f"method={method!r} needs concrete numbers: it cannot run inside jit, vmap or grad")
    return calibrate_traced(mechanism, keys, field, target_epsilon, target_delta, methods, directions, bracket)


def _solved(
    batch: Batch,
    keys: tuple[Any, ...],
    method: str | None,
    directions: tuple[Direction, ...],
    precision: float | None,
    tolerance: float,
) -> Found:
    where, start = range_of(batch, keys)
    target = batch.target_epsilon * (1.0 - _MARGIN)
    asked = [
        dataclasses.replace(
            question_of(batch.mechanism(x), Query.EPSILON, batch.target_delta, method=method, precision=precision),
            directions=directions,
        )
        for x in (start, where.worst, where.best)
    ]
    on_lanes = all(one_sided(step.method) for question in asked for step in plan(question))
    quick = dict.fromkeys(m for question in asked for m in _quick_methods(question, on_lanes))
    methods = tuple(m for m in quick if isinstance(m, LaneMethod))
    has_bracket = any(is_quick_bracket(step.method) for question in asked for step in plan(question))
    if methods and (method is not None or on_lanes or (asked[0].is_quick and not has_bracket)):
        found = by_methods(batch, methods, directions, target, where, start, tolerance)
        if np.any(found.asked["edge"] & found.is_affordable):
            message = "the calibrated value rests on the largest Renyi order tried: it is valid, but may be loose"
            warnings.warn(message, OrderEdgeWarning, stacklevel=3)
        return found
    if methods and plan(asked[0])[0].method.cold >= Cost.SECONDS:  # else no search nearby is worth its compilation
        near = by_methods(batch, methods, directions, target, where, start, _NEAR)
        start = np.where(near.is_affordable, near.value, start)
    found = search(
        engine_route(batch, method, directions, precision, start),
        target,
        where,
        start,
        np.ones(target.shape, bool),
        tolerance,
    )
    if precision is not None and np.any(found.asked["wide"] & found.is_affordable):
        message = f"the calibrated value rests on an interval wider than precision={precision:g}: it is valid"
        warnings.warn(message, PrecisionWarning, stacklevel=3)
    return found


def _quick_methods(question: Question, on_lanes: bool) -> list[Method]:
    """The methods on lanes that answer a question, or would if it were a quick one."""
    quick = question if on_lanes or question.method is not None else dataclasses.replace(question, width=math.inf)
    return [step.method for step in plan(quick) if one_sided(step.method)]


def _impossible(field: str, batch: Batch, shape: tuple[int, ...], found: Found) -> str:
    """What to say of the first point that cannot be calibrated."""
    i = int(np.flatnonzero(~found.is_affordable)[0])
    where = f" at index {tuple(int(j) for j in np.unravel_index(i, shape))}" if shape else ""
    target = f"target_epsilon={batch.target_epsilon[i]:g} at target_delta={batch.target_delta[i]:g}"
    return f"no {field} meets {target}{where}: the least epsilon found is {found.epsilon[i]:.6g}"
