"""Which methods would answer a question, and in which order, without running any of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct._jax import jax
from jaxacct._types import NeighboringRelation
from jaxacct.accounting._questions import only_target
from jaxacct.answering import question_of
from jaxacct.answering._plan import Planned, planned
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism


class Plan(tuple[Planned, ...]):
    """The steps of a plan: a tuple that prints as a numbered sentence for each step.

    >>> import jaxacct as ja
    >>> run = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01, num_steps=100)
    >>> str(ja.accounting.plan(run, target_delta=1e-6)).splitlines()[0].partition(";")[0]
    '1. exact (remove and add): by complex moments on a contour'
    """

    def __repr__(self) -> str:
        told = len({step.directions for step in self}) > 1
        sides = (f" ({' and '.join(d.value for d in step.directions)})" if told else "" for step in self)
        rows = enumerate(zip(self, sides, strict=True), 1)
        return "\n".join(f"{number}. {step.method.name}{side}: {step.run}." for number, (step, side) in rows)


def plan(
    mechanism: Mechanism,
    target_delta: Any = None,
    *,
    target_epsilon: Any = None,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    traced: bool = False,
) -> Plan:
    """A `Plan`: the steps by which `epsilon` (or `delta`) would be computed, in order and in words; computes nothing.

    A step is run only if those before it leave something open. Which steps there are, and how each is run, depends on
    the question, the number of its points, the device and whether it is traced, and on nothing that was computed
    before. Methods, their costs and their theorems are those of the one table from which `compare` and the support
    matrix are made.

    Args:
      mechanism: a mechanism; array fields broadcast.
      target_delta: float in (0, 1), to plan for epsilon; or
      target_epsilon: float >= 0, to plan for delta.
      precision: as for `epsilon`; inf for the quick methods only.
      neighboring_relation: as for `jaxacct.epsilon`.
      traced: bool, whether to plan for the question inside `jax.jit`, `jax.vmap` or `jax.grad`.

    Returns:
      A `Plan`, the tuple of the steps: each has a ``method`` (name, theorem, ends, cost), ``directions`` and a ``run``:
      in words, the ``engine`` that does its work, the ``device``, the ``chunks`` in which points are computed, and
      ``why`` it has its place in the order and runs there.

    Raises:
      ValueError: as `epsilon` and `delta`.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000)
    >>> steps = ja.accounting.plan(run, target_delta=1e-6)
    >>> print(steps[0].run)  # doctest: +NORMALIZE_WHITESPACE
    by complex moments on a contour; on the CPU, by NumPy, one point;
    asked first, since it takes least time; its work is driven step by step
    >>> steps[0].method.theorem
    'Feldman & Shenfeld 2025, Theorem 3.1'
    >>> steps[0].run.engine
    'complex moments on a contour'
    >>> inside_jit = ja.accounting.plan(run, target_delta=1e-6, traced=True)
    >>> inside_jit[0].run.engine
    'laws inside jit'
    """
    query, target = only_target(target_delta, target_epsilon)
    mechanism = in_relation(mechanism, neighboring_relation)
    if not traced:
        return Plan(planned(question_of(mechanism, query, target, precision=precision)))
    found: list[tuple[Planned, ...]] = []

    def inside(target: Any) -> Any:
        found.append(planned(question_of(mechanism, query, target, precision=precision)))
        return target

    jax.eval_shape(inside, np.asarray(target, np.float32))
    return Plan(found[0])
