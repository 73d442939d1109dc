"""Ends of epsilon or delta from the complex moments of independent rounds, with one line for each of many questions.

Shapes: [L] lanes; [R] rounds; [B] nodes of a line; [A] alias orders.
"""

import math
from typing import Any

import numpy as np

from jaxacct._method import Query
from jaxacct._types import Ends
from jaxacct.bounds._line_choice import Choice
from jaxacct.divergence._inversion import Line, LineMoments, delta_ends, epsilon_ends
from jaxacct.divergence.allocation._grid import Real
from jaxacct.special import LEAST_NORMAL, ULP, down, up


def padded(found: Any, fall: Real, decay: Real) -> tuple[Real, ...]:
    """log |M| of rounds, its phase and error [R, B], log M at the alias orders [R, A], and the decay [R, 1].

    Args:
      found: log |M|, its phase and relative error [R, B], and an upper bound on log M at the alias orders [R, A].
      fall: [R, B], an upper bound on log |M/M(a)| at each height and beyond.
      decay: [R], the same beyond the last node.
    """
    logs, phase, relative, alias = found
    most = logs[:, :1] + relative[:, :1] + np.minimum(fall, 0.0)
    lost = ~(relative < 0.3)
    # where little is known: M and any number of at most the largest possible |M| differ by at most twice that largest
    logs = np.where(lost, np.fmin(logs + np.log1p(relative), most), logs)
    logs = np.where(np.isnan(logs), -np.inf, logs)
    error = np.where(lost, math.log(3.0), -np.log1p(-np.minimum(relative, 0.5)))
    error = np.where(np.isfinite(logs) & np.isfinite(phase), error, np.inf)
    logs, phase = (np.where(np.isfinite(error), x, 0.0) for x in (logs, phase))
    logs = np.where(np.isfinite(error), logs, logs[:, :1])  # its largest possible value, beside the infinite error
    return logs, phase, error, alias, np.minimum(decay, 0.0)[:, None]


def added_up(of: Any, lane: Any, times: Real, num: int) -> Any:
    """The sums [L, ..] of `of` [R, ..] over the rounds of each lane, each multiplied by its number of runs."""
    weighted = times.reshape(-1, *(1,) * (of.ndim - 1)) * of
    if len(lane) == num and bool(np.all(lane == np.arange(num))):
        return weighted
    out = np.zeros((num, *of.shape[1:]))
    np.add.at(out, lane, weighted)
    return out


def roundings(lane: Any, num: int) -> Any:
    """The error [L] of `added_up`, in ULP of the sum of the sizes, plus two.

    Of K rounds a term is multiplied once and added K - 1 times; as many again for the bound itself.
    """
    return 2.0 * np.bincount(lane, minlength=num) + 2.0


def at_nodes(rows: Any, lane: Any, times: Real, num: int) -> tuple[Real, Real, Real]:
    """log |M|, its phase and its error [L, B] for all rounds of a lane together, from those of the rounds [R, B]."""
    logs, phase, error = (added_up(x, lane, times, num) for x in rows)
    sizes = added_up(np.abs(rows[0]) + np.abs(rows[1]) + rows[2], lane, times, num)
    return logs, phase, error + ULP * roundings(lane, num)[:, None] * sizes


def together(rows: Any, lane: Any, times: Real, num: int) -> LineMoments:
    """`LineMoments` [.., L] of all rounds of a lane together, from the rounds [R, ..] as `padded` returns them."""
    *nodes, alias, decay = rows
    ulps = roundings(lane, num)[:, None]
    alias = up(added_up(alias, lane, times, num), ulps)
    decay = down(added_up(decay, lane, times, num), ulps)
    return LineMoments(*(x.T for x in (*at_nodes(nodes, lane, times, num), alias, decay)))


def summed(parts: list[LineMoments]) -> LineMoments:
    """`LineMoments` (a class) of several independent parts together."""
    if len(parts) == 1:
        return parts[0]
    num = parts[0].log_modulus.shape[1]
    rows = [np.concatenate([x.T for x in column]) for column in zip(*parts, strict=True)]
    return together(rows, np.tile(np.arange(num), len(parts)), np.ones(num * len(parts)), num)


def solved(choice: Choice, moments: LineMoments, query: Query, target: Real, dropped: Real) -> Ends[Real]:
    """Ends [L] of epsilon or delta from the moments of all rounds together on the lines.

    `dropped` [L] bounds what is missing from delta: the true delta exceeds that of the moments by at most this.
    """
    numbers = np.arange(len(np.asarray(moments.phase)))[:, None]
    heights, used = choice.step * numbers, numbers < choice.num_nodes
    edges, period = (choice.step * choice.num_nodes)[None], 2.0 * math.pi / choice.step
    arrays: Any = (choice.order, period, heights, used, edges, choice.aliases.T)
    line = Line(*arrays)
    if query is Query.DELTA:
        found: Any = delta_ends(line, moments, target)
        upper = up(up(np.maximum(np.exp(found.upper), LEAST_NORMAL), 8) + dropped, 4)
        return Ends(down(np.exp(found.lower), 8), np.minimum(upper, 1.0))
    size, excess = np.asarray(moments.log_modulus[0]), choice.order - 1.0

    def at(log_target: Real, start: Real) -> Any:
        return epsilon_ends(line, moments, log_target, start)

    found = at(np.log(target), np.maximum(choice.epsilon, 1e-300))
    if not np.any(dropped):
        return Ends(found.lower, found.upper)
    left = target * (1.0 - 2.0**-50) - dropped
    less = np.log(np.maximum(left, LEAST_NORMAL))
    start = np.where(np.isfinite(found.upper), found.upper, (size - less) / excess)
    upper = at(less, np.maximum(start, 1e-300)).upper
    return Ends(found.lower, np.where(left >= LEAST_NORMAL, upper, np.inf))
