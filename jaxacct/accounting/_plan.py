"""Which methods a question would be asked of, and in which order, without asking any of them."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.accounting._questions import only_target
from jaxacct.answering import plan as plan_of
from jaxacct.answering import question_of
from jaxacct.answering._plan import Step
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism


def plan(
    mechanism: Mechanism,
    target_delta: Any = None,
    *,
    target_epsilon: Any = None,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
) -> tuple[Step, ...]:
    """The steps in which `epsilon` (or `delta`) would be answered, in the order asked; nothing is computed.

    A step is asked only if those before it leave something open. Methods inside a step, their costs and their theorems
    are those of the one table from which `compare` and the support matrix are made.

    Args:
      mechanism: a mechanism; array fields broadcast.
      target_delta: float in (0, 1), to plan for epsilon; or
      target_epsilon: float >= 0, to plan for delta.
      precision: as for `epsilon`; inf for the quick methods only.
      neighboring_relation: as for `jaxacct.epsilon`.

    Returns:
      Steps: each has a ``method`` (name, theorem, ends, cost warm and cold) and ``directions``, and prints as one line.

    Raises:
      ValueError: as `epsilon` and `delta`.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000)
    >>> steps = ja.accounting.plan(run, target_delta=1e-6)
    >>> print(steps[0])
    exact: upper and lower, remove and add; points one by one, milliseconds (tenths cold)
    >>> steps[0].method.theorem
    'Feldman & Shenfeld 2025, Theorem 3.1'
    """
    query, target = only_target(target_delta, target_epsilon)
    mechanism = in_relation(mechanism, neighboring_relation)
    return plan_of(question_of(mechanism, query, target, precision=precision))
