"""Laws of the average likelihood ratio of an epoch that is unfinished, or whose steps differ, on a geometric lattice.

A law of one side remains of that side under sums and under Y -> 1 - q + q Y: see `jaxacct.divergence.lattice._ratio`.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxacct._types import TooFineError
from jaxacct.divergence.lattice._ratio import RatioLaw, mixed_with_one, trimmed
from jaxacct.divergence.lattice._sums import averages, sum_of

Base = Callable[[float], RatioLaw]

_MAX_CELLS = 2**23  # largest number of cells of one law, some 64 MiB per array; beyond it, `TooFineError`


def partial_average(
    base: Base, num_steps: int, steps_done: int, step: float, tail: float, *, coarsening: float
) -> RatioLaw:
    """`RatioLaw` (masses [N]) of 1 - q + q X_n after n of t steps, q = n/t, X_n the average of n independent ratios.

    The record's step is among the first n with probability q, and uniform among them (Feldman & Shenfeld 2025, Theorem
    3.1; RA-S3). X_n is on a lattice whose step is 1/q times larger, which near X = 1 is as fine for the result.

    Args:
      base: ``base(step)``, the law of one step's ratio on a lattice of that step, as for `averages`.
      num_steps: t.
      steps_done: n >= 1.
      step: of the result's lattice, in log.
      tail: mass that may be cut off at either end.
      coarsening: as for `averages`.
    """
    share = steps_done / num_steps
    whole, _ = averages(base, steps_done, min(step / share, max(step, 0.1)), tail, coarsening=coarsening, both=False)
    if steps_done == num_steps:
        return whole
    values = np.array([whole.log_values[0], whole.log_values[-1]])
    low, high = np.log1p(share * np.expm1(values))
    if (high - low) / step > _MAX_CELLS:
        raise TooFineError(f"a lattice step of {step:.3g} needs over {_MAX_CELLS} cells: ask for a lower resolution")
    return mixed_with_one(whole, share, (num_steps - steps_done) / num_steps, step, tail=tail)


def scheduled_average(phases: Sequence[tuple[Base, int]], step: float, tail: float, *, coarsening: float) -> RatioLaw:
    """`RatioLaw` (masses [N]) of the average of all ratios of an epoch whose steps differ.

    Args:
      phases: (law of one ratio as a function of the lattice step, number of steps) of each phase, all of one side;
        the laws as for `averages`, whose tail is a phase's share of `tail`.
      step: of the lattices, in log.
      tail: mass that may be cut off at either end.
      coarsening: as for `averages`.
    """
    total = sum(count for _, count in phases)
    sums: RatioLaw | None = None
    done = 0
    for base, count in phases:
        mean, _ = averages(base, count, step, tail * count / total, coarsening=coarsening, both=False)
        part = dataclasses.replace(mean, offset=mean.offset + math.log(count))
        # an atom at infinity is that of P, the record in this phase: `sum_of` weighs it by the steps
        sums = part if sums is None else sum_of(sums, part, weight_a=done, weight_b=count, tail=tail)
        done += count
        sums = trimmed(sums, float(done), tail / len(phases))
    assert sums is not None
    return dataclasses.replace(sums, offset=sums.offset - math.log(total))
