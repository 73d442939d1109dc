"""The main questions: epsilon and delta, from above or from both sides."""

from typing import Any

import numpy as np

from jaxacct._method import Query
from jaxacct._precision import is_traced
from jaxacct._types import Direction, Interval, NeighboringRelation, Progress
from jaxacct._validate import check_delta, check_epsilon, check_precision
from jaxacct.accounting._on_host import asked_on_host
from jaxacct.accounting._slopes import TracedQuestion, differentiable
from jaxacct.answering import answer, question_of
from jaxacct.answering._question import check_question, directions_of, interval_question
from jaxacct.conversion import curve_delta, curve_epsilon
from jaxacct.curves import RdpCurve
from jaxacct.mechanisms._adjacent import checked_relation
from jaxacct.mechanisms._after import after
from jaxacct.mechanisms._base import Mechanism


def as_python(value: Any) -> Any:
    """A number as a Python float; arrays and tracers as they are."""
    return value if is_traced(value) or np.ndim(value) else float(value)


def only_target(target_delta: Any, target_epsilon: Any) -> tuple[Query, Any]:
    """(query, target); raises ValueError unless exactly one target is given and it is in range."""
    if (target_delta is None) == (target_epsilon is None):
        raise ValueError(f"target_delta={target_delta} and target_epsilon={target_epsilon}: exactly one must be given")
    if target_epsilon is None:
        check_delta("target_delta", target_delta)
        return Query.EPSILON, target_delta
    check_epsilon("target_epsilon", target_epsilon)
    return Query.DELTA, target_epsilon


def _refuse_choices(
    curve: RdpCurve, method: Any, direction: Any, neighboring_relation: Any, prefix: Any, *, on_host: bool
) -> None:
    """Raises ValueError for a choice that a curve does not leave open: it is one bound, in fixed directions."""
    for name, value in (("method", method), ("direction", direction), ("prefix", prefix)):
        if value is not None:
            raise ValueError(f"{name}={value!r} must be None for an RdpCurve")
    if on_host:
        raise ValueError(f"on_host={on_host!r} must be False for an RdpCurve, whose values have been computed")
    own = curve.neighboring_relation
    if neighboring_relation is not None and checked_relation(neighboring_relation) is not own:
        raise ValueError(
            f"neighboring_relation={neighboring_relation!r} must be {own.value!r}, the curve's own, or None"
        )


def _of_traced(mechanism: Mechanism, query: Query, target: Any, choices: dict[str, Any], *, on_host: bool) -> Any:
    """The upper end for tracers, or at concrete numbers whose derivative is taken."""
    asked = TracedQuestion(mechanism, query, target, choices)
    if not on_host:
        return differentiable(asked)
    check_question(mechanism, query, target)
    check_precision(choices["precision"])
    directions_of(mechanism, choices["direction"])
    return asked_on_host(asked)


def epsilon(
    mechanism: Mechanism | RdpCurve,
    target_delta: Any,
    *,
    method: str | None = None,
    direction: Direction | str | None = None,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    prefix: Mechanism | tuple[Any, Any] | None = None,
    on_host: bool = False,
) -> Any:
    """A certified upper bound on the epsilon of `mechanism` at `target_delta`, by the best applicable method.

    The result is the larger of the bounds for the two directions; in each direction, that is the smallest bound of all
    applicable methods: closed forms and Renyi divergences first, then exact methods and the privacy loss distribution,
    until the certified interval is as narrow as `precision` requires. Add/remove adjacency (replace-one for `Shuffled`,
    which has one direction). The result is inf if no method applies.

    Inside `jit` and `vmap` the bound comes from one program of fixed size, vectorised and differentiable, which has to
    be compiled first. For most sampled, allocated and shuffled runs and their compositions (the method "laws";
    docs/limits.md lists them) it is nearly as tight as outside; elsewhere it is valid but looser. Its derivatives are
    those of the bound that is returned. docs/limits.md and bench/INSIDE_JIT.md say how far the bound and its
    derivatives are from those outside.

    Outside traced code `jax.grad` compiles nothing: the value is as sharp as for concrete numbers, and derivatives are
    differences of three certified answers for each number, within 1 % at most settings. With respect to a count they
    are those of a smooth curve through whole numbers. Second derivatives, derivatives at a number that is 0, and more
    than 256 derivatives at once are those of the program.

    With ``on_host=True`` traced code calls the host when it runs (`jax.pure_callback`), and gets the same value and
    derivatives as outside traced code: for every mechanism, with nothing to compile. Such a program waits for the host,
    cannot be exported, and has no second derivatives; its numbers, the target among them, are checked when it runs.

    ``precision=math.inf`` leaves out what is slower than the quick methods. For one epoch of random allocation the
    interval then comes from a compiled program, in some milliseconds a point if there are many; for other random
    allocation it comes from one contour integral a point, in some tens of milliseconds.

    Args:
      mechanism: a mechanism, or an `RdpCurve`. Array fields broadcast with each other and `target_delta`.
      target_delta: float in (0, 1).
      method: the name of an upper bound from `compare`, to use that method only; a method that bounds a single
        direction is refused without that `direction`.
      direction: to bound one direction only; None for the worse of both.
      precision: relative width of the interval behind the answer, as for `epsilon_interval`; None for 0.1 % where the
        numbers are concrete; inf for the quick methods only.
      neighboring_relation: the adjacency: "add-or-remove", "replace-one" or "zero-out" (or a `NeighboringRelation`).
        One that is not the mechanism's own stands for `ReplaceOne` or `ZeroOut` of the mechanism; None for its own.
      prefix: what was spent on the same data before; the result is for both together. It is a mechanism (a `Pld` is
        one), or a pair (epsilon, delta) from another accountant, under the adjacency in question. None for nothing.
      on_host: bool, whether traced code calls the host when it runs: a number out of range is then an error of JAX's
        that quotes the ValueError. With concrete numbers the host computes the answer anyway.

    Returns:
      A float, or a NumPy float64 array of the broadcast shape; if an argument is a tracer, a tracer, rounded up to the
      user's float type and differentiable.

    Raises:
      ValueError: if an argument is out of range, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000, num_epochs=10)
    >>> round(ja.epsilon(run, target_delta=1e-6), 2)
    0.54
    >>> round(ja.epsilon(run, target_delta=1e-6, precision=float("inf")), 2)
    0.54
    >>> round(ja.epsilon(run, target_delta=1e-6, prefix=(1.0, 1e-7)), 2)
    1.53
    """
    check_delta("target_delta", target_delta)
    if isinstance(mechanism, RdpCurve):
        _refuse_choices(mechanism, method, direction, neighboring_relation, prefix, on_host=on_host)
        return as_python(curve_epsilon(mechanism, target_delta))
    choices: dict[str, Any] = {"method": method, "direction": direction, "precision": precision}
    asked = after(prefix, mechanism, neighboring_relation)
    if is_traced(asked, target_delta):
        return _of_traced(asked, Query.EPSILON, target_delta, choices, on_host=on_host)
    return as_python(answer(question_of(asked, Query.EPSILON, target_delta, **choices)).high)


def delta(
    mechanism: Mechanism | RdpCurve,
    target_epsilon: Any,
    *,
    method: str | None = None,
    direction: Direction | str | None = None,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    prefix: Mechanism | tuple[Any, Any] | None = None,
    on_host: bool = False,
) -> Any:
    """A certified upper bound on the delta of `mechanism` at `target_epsilon`, by the best applicable method.

    As `epsilon`, with epsilon and delta exchanged, also inside `jit` and under `jax.grad`.

    Args:
      mechanism: a mechanism, or an `RdpCurve`.
      target_epsilon: float >= 0.
      method: the name of an upper bound from `compare`, to use that method only; a method that bounds a single
        direction is refused without that `direction`.
      direction: to bound one direction only; None for the worse of both.
      precision: relative width of the interval behind the answer, as for `delta_interval`; None for 1 % where the
        numbers are concrete; inf for the quick methods only.
      neighboring_relation, prefix, on_host: as for `epsilon`.

    Returns:
      A float in [0, 1], or an array of the broadcast shape, as for `epsilon`.

    Raises:
      ValueError: if an argument is out of range, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> round(ja.delta(ja.Gaussian(noise_multiplier=1.0), target_epsilon=1.0), 6)
    0.126937
    """
    check_epsilon("target_epsilon", target_epsilon)
    if isinstance(mechanism, RdpCurve):
        _refuse_choices(mechanism, method, direction, neighboring_relation, prefix, on_host=on_host)
        return as_python(curve_delta(mechanism, target_epsilon))
    choices: dict[str, Any] = {"method": method, "direction": direction, "precision": precision}
    asked = after(prefix, mechanism, neighboring_relation)
    if is_traced(asked, target_epsilon):
        return _of_traced(asked, Query.DELTA, target_epsilon, choices, on_host=on_host)
    return as_python(answer(question_of(asked, Query.DELTA, target_epsilon, **choices)).high)


def epsilon_interval(
    mechanism: Mechanism,
    target_delta: float,
    *,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    prefix: Mechanism | tuple[Any, Any] | None = None,
    progress: Progress | None = None,
) -> Interval:
    """A certified interval around the epsilon of `mechanism` at `target_delta`, in the worse of both directions.

    Args:
      mechanism: any mechanism of the support matrix, with concrete scalar fields.
      target_delta: float in (0, 1).
      precision: the relative width to reach, > 0, 0.1 % where None:
        ``upper - analysis_lower <= precision * analysis_lower``.
      neighboring_relation, prefix: as for `epsilon`.
      progress: called with (round, relative width) after each refinement.

    Returns:
      An `Interval`. If the width was not reached, a `PrecisionWarning` says so.

    Raises:
      ValueError: if an argument is out of range or traced.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000)
    >>> interval = ja.epsilon_interval(run, target_delta=1e-6)
    >>> 0.17172868 <= interval.lower <= interval.upper <= 0.17172869
    True
    """
    check_delta("target_delta", target_delta)
    mechanism = after(prefix, mechanism, neighboring_relation)
    return _interval(mechanism, Query.EPSILON, target_delta, precision, progress)


def delta_interval(
    mechanism: Mechanism,
    target_epsilon: float,
    *,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    prefix: Mechanism | tuple[Any, Any] | None = None,
    progress: Progress | None = None,
) -> Interval:
    """A certified interval around the delta of `mechanism` at `target_epsilon`, in the worse of both directions.

    As `epsilon_interval`, with epsilon and delta exchanged.

    Args:
      mechanism: any mechanism of the support matrix, with concrete scalar fields.
      target_epsilon: float >= 0.
      precision: the relative width to reach, > 0, 1 % where None:
        ``upper - analysis_lower <= precision * analysis_lower``.
      neighboring_relation, prefix: as for `epsilon`.
      progress: called with (round, relative width) after each refinement.

    Returns:
      An `Interval`. If the width was not reached, a `PrecisionWarning` says so.

    Raises:
      ValueError: if an argument is out of range or traced.

    >>> import jaxacct as ja
    >>> interval = ja.delta_interval(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100), target_epsilon=0.5)
    >>> interval.lower <= 4.40890803386304e-5 <= interval.upper <= (1 + 1e-9) * interval.lower
    True
    """
    check_epsilon("target_epsilon", target_epsilon)
    mechanism = after(prefix, mechanism, neighboring_relation)
    return _interval(mechanism, Query.DELTA, target_epsilon, precision, progress)


def _interval(
    mechanism: Mechanism, query: Query, target: float, precision: float | None, progress: Progress | None
) -> Interval:
    found = answer(interval_question(mechanism, query, target, precision, progress))
    high = float(found.high)
    low, analysis_low = (max(0.0, min(float(end), high)) for end in (found.low, found.analysis_low))  # not -0.0
    return Interval(low, high, max(low, analysis_low))  # what was analysed loses no less than the mechanism
