"""Both ends of E(S)_+ by one contour integral, for S a mixture of sums of independent steps with three values.

Check-ins have this form. On a line Re z = c > 0, E(S)_+ is 1/pi times the integral of Re(E e^(z S) / z^2) over heights
above 0. The errors are bounded: the aliases of the trapezoid rule, and the lobes beyond the last node, where the moment
returns to nearly its size (docs/numerics/clones.md, "Check-ins").
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# These affect cost and tightness only.
_FALL = 36.0  # natural logarithms by which the integrand has fallen where the nodes end
_ALIASES = 38.0  # the same, of the first alias
_LOBES, _PIECES = 240, 16  # lobes that are bounded one by one, each in this many pieces
_GOAL = 1e-7  # share of delta that one lobe beyond the nodes may have, before it gets nodes of its own
_MOST_NODES, _MOST_LOBES = 3000, 40


class Range(NamedTuple):
    """The least and the largest value that a number may have."""

    low: float
    high: float


class Sums(NamedTuple):
    """At each z: E e^(z S), its derivative in the parameter sought, and an upper bound on the error of the former."""

    value: Any
    drift: Any
    error: Any


class Wave(NamedTuple):
    """A term of |E e^(z S)| <= E e^(c S) exp(-sum weight (1 - cos(height scale)))."""

    weight: float
    scale: Range


class _Ending(NamedTuple):
    """Where the nodes end, the lobes that need nodes of their own, and an upper bound on the others, over A(c).

    Each lobe: its first and last height, and an upper bound on it.
    """

    height: float
    lobes: list[tuple[float, float, float]]
    beyond: float


def _ending(waves: list[Wave], of_lobes: Wave, step: float, size: float) -> _Ending | None:
    """The contribution of the nodes beyond the last one, by the lobes of one wave; None where it has no bound.

    Up to pi over the largest scale all waves rise; beyond, `of_lobes` is below `_FALL` only within `near` of a multiple
    of 2 pi. There the sum over nodes `step` apart is, on each of several pieces, at most its length plus one node,
    times the largest value, for which each wave enters with its least value. Beyond the lobes that are bounded one by
    one it is at most the integral plus one node. `size` times the bound is its share of delta.
    """
    weight, scale = of_lobes
    top = max(wave.scale.high for wave in waves)
    height = math.sqrt(2.0 * _FALL / sum(w * g.low**2 for w, g in waves)) * 1.02
    if weight < 1.1 * _FALL or height * top > math.pi:
        return None
    near = math.acos(1.0 - _FALL / weight)
    if math.pi * scale.low < near * top:
        return None
    fallen = min(sum(w * (1.0 - math.cos(height * g.low)) for w, g in waves), _FALL)
    edges = np.linspace(-near, near, _PIECES + 1)
    turns = 2.0 * math.pi * np.arange(1, _LOBES + 1)[:, None]
    less = weight * (1.0 - np.cos(np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])))) + np.zeros_like(turns)
    for wave in waves:
        if wave is not of_lobes:
            least, most = wave.scale.low / scale.high, wave.scale.high / scale.low
            first, last = (turns + edges[:-1]) * least, (turns + edges[1:]) * most
            past = first - 2.0 * math.pi * np.floor(first / (2.0 * math.pi))
            free = np.minimum(past, 2.0 * math.pi - past - (last - first))  # distance from the multiples on both sides
            less += wave.weight * (1.0 - np.cos(np.clip(free, 0.0, math.pi)))
    width = (edges[1] - edges[0]) / scale.low + step
    turns = turns[:, 0]
    lobes = scale.high**2 / (turns - near) ** 2 * np.exp(-less).sum(axis=1) * width
    full = math.sqrt(2.0 * math.pi / (weight * (1.0 - near * near / 12.0))) / scale.low + step
    last = scale.high**2 * full / (2.0 * math.pi * (turns[-1] - near))  # all the others, without the other waves
    rest = math.exp(-fallen) / height
    kept: list[tuple[float, float, float]] = []
    nodes = 0.0
    for i in np.flatnonzero(lobes[:_MOST_LOBES] * size > _GOAL):
        ends = (turns[i] - near) / scale.high, (turns[i] + near) / scale.low
        nodes += (ends[1] - ends[0]) / step
        if nodes > _MOST_NODES or (kept and ends[0] <= kept[-1][1] + step):
            break
        kept.append((float(ends[0]), float(ends[1]), float(lobes[i])))
    return _Ending(height, kept, float(lobes.sum()) - sum(x[2] for x in kept) + last + rest)


class LobeNodes(NamedTuple):
    """The points where the moments of S are needed, and bounds on the part that their sum leaves out.

    Attributes:
      order: c, of the line; `alias_order` c' > c, for the aliases; `period` T of the rule.
      z: c', c, and then the nodes: those next to the real axis, and those of each lobe of `lobes` from `starts` on.
      weights: of the nodes.
      lobes: upper bounds on each of the lobes, over E e^(c S); `beyond` that on all the others.
    """

    order: float
    alias_order: float
    period: float
    z: NDArray[Any]
    weights: NDArray[Any]
    starts: NDArray[Any]
    lobes: list[float]
    beyond: float


def order_of(spread: float, drift: float) -> float:
    """A float c near the minimum of E e^(c S) / c^2, for S of mean -`drift` and standard deviation `spread`."""
    return (drift + math.sqrt(drift * drift + 2.0 * spread * spread)) / (2.0 * spread * spread)


def nodes_of(order: float, spread: float, drift: float, waves: list[Wave]) -> LobeNodes | None:
    """The nodes on the line of `order`; None where the part that they leave out is not bounded."""
    period = max((_ALIASES + 0.5 * (drift / spread) ** 2) / order, 12.0 * spread)
    step = 2.0 * math.pi / period
    # E e^(c S) is about spread c^2 times E(S)_+, if S were normal
    endings = [x for wave in waves if (x := _ending(waves, wave, step, spread / math.pi)) is not None]
    if not endings:
        return None
    end = min(endings, key=lambda x: x.beyond)
    index = [np.arange(math.floor(end.height / step) + 2.0)]
    for first, last, _ in end.lobes:
        index.append(np.arange(max(math.floor(first / step), index[-1][-1] + 1.0), math.ceil(last / step) + 1.0))
    alias_order = order + 8.0 / spread
    z = np.concatenate([[alias_order, order], *(order + 1j * step * x for x in index)])
    weights = step / math.pi / z[2:] ** 2
    weights[0] *= 0.5
    starts = np.cumsum([0, *map(len, index[:-1])])
    return LobeNodes(order, alias_order, period, z, weights, starts, [x[2] for x in end.lobes], end.beyond)


class PositivePart(NamedTuple):
    """Both ends of E(S)_+, and its approximate derivative in the parameter sought."""

    lower: float
    upper: float
    drift: float


def positive_part(at: LobeNodes, found: Sums) -> PositivePart:
    """Both ends of E(S)_+, floats, from its moments `found` at the nodes."""
    with np.errstate(all="ignore"):
        values, falls, errors = (
            np.add.reduceat(x, at.starts)
            for x in (
                (found.value[2:] * at.weights).real,
                (found.drift[2:] * at.weights).real,
                found.error[2:] * np.abs(at.weights),
            )
        )
    beyond, on_axis = (float(abs(found.value[i]) + found.error[i]) for i in (0, 1))
    value, fall, error = float(values[0]), float(falls[0]), float(errors[0]) + on_axis * at.beyond / math.pi
    for i, most in enumerate(at.lobes, 1):
        if errors[i] < on_axis * most / math.pi:
            value, error = value + float(values[i]), error + float(errors[i])
        else:
            error += on_axis * most / math.pi
    # aliases at whole multiples of the period T: E(S - l T)_+ e^(c l T) <= e^(-(c' - c) l T) A(c')/(e c') on the right,
    # E(S + l T)_+ e^(-c l T) <= (l T + E(S)_+) e^(-c l T) on the left; the rule exceeds the integral by their sum
    order, alias_order, period = at.order, at.alias_order, at.period
    left, right = math.exp(-order * period), math.exp(-(alias_order - order) * period)
    aliases = left * (period / (1.0 - left) + value + error) / (1.0 - left)
    aliases += beyond / (math.e * alias_order) * right / (1.0 - right)
    return PositivePart(value - error - aliases, value + error, fall)
