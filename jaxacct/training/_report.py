"""The statement of what a training loop has released so far."""

from collections.abc import Sequence
from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct._validate import check_delta, checked_number
from jaxacct.accounting import epsilon
from jaxacct.mechanisms._base import Parts
from jaxacct.reporting import Run
from jaxacct.reporting import report as reported
from jaxacct.special import shown
from jaxacct.training._counting import SATURATED
from jaxacct.training._noise import Phase
from jaxacct.training._spending import described, overflow_of, released_parts, released_phases


def report(
    opt_state: Any,
    mechanism: Phase | Sequence[Phase],
    target_delta: float,
    *,
    precision: float | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    style: str = "text",
) -> str:
    """The privacy statement for the noise releases counted in `opt_state`, whether or not the run is finished.

    The statement is like that of `jaxacct.report`, for the epsilon that `privacy_spent` returns, with its assumptions,
    its certified interval, and how to recompute it. If you stop because of what the run released, report the run at the
    full length that it might have had, ``jaxacct.report(data, ..)``: the length, too, was chosen by looking at the
    data.

    Args:
      opt_state: an optimizer's state with one counter in it, or any tree that contains it.
      mechanism: as for `privacy_spent`: the batches, or what was run; for several phases, a list.
      target_delta: float in (0, 1).
      precision: as for `jaxacct.report`.
      neighboring_relation: as for `jaxacct.report`.
      style: "text", "markdown" or "json".

    Returns:
      A string of several lines.

    Raises:
      ValueError: as `privacy_spent`; if nothing has been released, or the count was lost.

    >>> import jax.numpy as jnp, optax
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000, num_epochs=3)
    >>> state = training.ReleaseCountState(jnp.array([1000]))                        # the first epoch
    >>> print(training.report(state, run, target_delta=1e-6).splitlines()[0])
    epsilon = 0.1718 at delta = 1e-06  (certified upper bound)
    """
    check_delta("target_delta", target_delta)
    delta = checked_number("target_delta", target_delta)
    phases, batches = released_phases(opt_state, mechanism, "report")
    counts = [count for _, count in phases]
    if not any(counts) or max(counts) >= SATURATED:
        raise ValueError(
            f"release_counts={counts} must be of releases that were made, and not lost: there is nothing to report"
        )

    def cost(way: Parts) -> float:
        return float(epsilon(described(way), delta, precision=precision))

    parts, overflow = released_parts(phases, batches, cost), overflow_of(phases, batches)
    held = f" of {batches} sampled batches each" if batches > 1 else ""
    released = f"{' + '.join(map(str, counts))} noise release{'' if counts == [1] else 's'}"
    notes = [f"of {released}{held}, as counted in training"]
    if overflow:
        notes.append(f"a batch was cut with probability at most {shown(overflow)}, for which a share of delta is kept")
    run = Run(described(parts), overflow, tuple(notes))
    return reported(run, delta, precision=precision, neighboring_relation=neighboring_relation, style=style)
