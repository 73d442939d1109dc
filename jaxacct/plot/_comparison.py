"""Every method side by side."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib import markers
from matplotlib.axes import Axes

from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct.accounting import Entry, compare
from jaxacct.mechanisms._base import Mechanism
from jaxacct.plot._axes import NO_BOUND, add_legend, axes_or_new, name_axes, scale_axis, set_log, tick_text
from jaxacct.plot._looks import scheme_color
from jaxacct.special import shown, shown_down

_BELOW_COLOR = "#777777"
# The tip is the value, and points to where the truth is.
_MARKS = {Bound.UPPER: markers.CARETLEFT, Bound.LOWER: markers.CARETRIGHT, Bound.ESTIMATE: "d"}
_SHIFT = 0.2  # of a row, between its middle and a direction
# values smaller or larger than the answer by these factors are written at the margin: they would squeeze the rest
_SMALL, _LARGE = 0.05, 8.0


def comparison(
    mechanism: Mechanism,
    target_delta: float | None = None,
    *,
    target_epsilon: float | None = None,
    precision: float | None = None,
    entries: Iterable[Entry] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """`compare` as a picture: a row for each method, with both directions, the tightest bound first.

    Methods are sorted by their bound in the deciding direction, which is the one with the larger upper bound; then come
    methods that bound only the other direction, then lower bounds.

    The tip of a mark is the value, and points towards the true value: left of an upper bound, right of a lower bound.
    Filled marks bound the removal of a record, open marks its addition. The vertical line is the answer: the larger of
    the directions' least upper bounds. Values off the scale are written at the margin.

    Args:
      mechanism: a mechanism with scalar fields.
      target_delta, target_epsilon, precision: as for `compare`.
      entries: what `compare` returned for the same arguments, to avoid computing it again.
      ax: empty matplotlib axes, with room for the methods' names, as in a figure with ``layout="constrained"``; None
        for those of a new figure.

    Returns:
      The axes.

    Raises:
      ValueError: if not exactly one target is given, or an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> ax = plot.comparison(ja.Gaussian(noise_multiplier=1.0), target_delta=1e-6, precision=float("inf"))
    >>> [text.get_text() for text in ax.get_yticklabels()], ax.get_xlabel()
    (['exact', 'rdp'], 'epsilon at delta = 1e-6')
    """
    if (target_delta is None) == (target_epsilon is None):
        raise ValueError(f"target_delta={target_delta} and target_epsilon={target_epsilon}: exactly one must be given")
    if entries is None:
        entries = compare(mechanism, target_delta, target_epsilon=target_epsilon, precision=precision)
    found = tuple(entries)
    if not found or any(np.ndim(entry.value) for entry in found):
        raise ValueError("entries must be one or more, of a mechanism with scalar fields and a scalar target")
    solved, given = ("epsilon", "delta") if target_epsilon is None else ("delta", "epsilon")
    target = next(float(t) for t in (target_delta, target_epsilon) if t is not None)
    ax = axes_or_new(ax)
    if ax.has_data():
        raise ValueError("ax must be empty: a comparison has rows of its own")
    name_axes(ax, f"{solved} at {given} = {tick_text(target)}", "")
    rows = _rows(found)
    answer = _answer(found)
    if answer < NO_BOUND:
        text = f"{solved} <= {shown(answer)}"
        ax.axvline(answer, color="#000000", linewidth=0.8, linestyle="--", zorder=1.0, label=text)
    _draw_marks(ax, found, rows, answer, scheme_color(mechanism))
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    add_legend(ax)
    return ax


def _answer(entries: Sequence[Entry]) -> float:
    uppers = [e for e in entries if e.bound is Bound.UPPER]
    best = [min(e.value for e in uppers if e.direction is d) for d in {e.direction for e in uppers}]
    return max(best, default=np.inf)


def _rows(entries: Sequence[Entry]) -> list[str]:
    """The methods from top to bottom: those of the deciding direction, those of the other one, then lower bounds."""
    answer = _answer(entries)
    sides = {d: _answer([e for e in entries if e.direction is d]) for d in {e.direction for e in entries}}
    decisive = {d for d, value in sides.items() if value == answer}

    def place(method: str) -> tuple[int, float]:
        own = [entry for entry in entries if entry.method == method]
        uppers = [e for e in own if e.bound is not Bound.LOWER]
        deciding = [e.value for e in uppers if e.direction in decisive]
        if deciding:
            return 0, min(deciding)
        return (1, min(e.value for e in uppers)) if uppers else (2, -max(e.value for e in own))

    return sorted(dict.fromkeys(entry.method for entry in entries), key=place)


def _draw_marks(ax: Axes, entries: Sequence[Entry], rows: Sequence[str], answer: float, color: str) -> None:
    inside: list[float] = []
    far: list[Entry] = []  # at the right margin
    left = Counter[float]()  # marks at the left margin, by height
    for entry in entries:
        style, shift = _style_of(entry, color)
        y = rows.index(entry.method) + shift
        if entry.value >= NO_BOUND or (answer < NO_BOUND and entry.value > _LARGE * answer):
            far.append(entry)
            _at_margin(ax, 0.985, y, "no bound" if entry.value >= NO_BOUND else shown(entry.value, 3), style)
        elif answer < NO_BOUND and entry.value < _SMALL * answer:
            text = shown(entry.value, 2) if entry.bound is Bound.UPPER else shown_down(entry.value, 2)
            _at_margin(ax, 0.03 + 0.13 * left[y], y, text, style)
            left[y] += 1
        else:
            ax.plot([entry.value], [y], **style)
            inside.append(entry.value)
    if inside:
        margins = (0.2 * max(left.values(), default=0.25), 0.25 if far else 0.05)
        _set_limits(ax, min(inside), max(inside), margins, is_log=bool(left))


def _style_of(entry: Entry, color: str) -> tuple[dict[str, Any], float]:
    """How an entry is drawn, and how far from the middle of its row."""
    label, shift, color = entry.bound.value, 0.0, _BELOW_COLOR if entry.bound is Bound.LOWER else color
    face = color
    if entry.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        label += f", {entry.direction.value}"
        removes = entry.direction is Direction.REMOVE
        shift, face = (-_SHIFT, color) if removes else (_SHIFT, "#ffffff")
    mark = {"marker": _MARKS[entry.bound], "color": color, "markerfacecolor": face, "markersize": 6.0}
    return {**mark, "linestyle": "none", "label": label}, shift


def _at_margin(ax: Axes, x: float, y: float, text: str, style: dict[str, Any]) -> None:
    """Draws a mark at the left or right edge (`x` in widths of the axes) with the value off the scale."""
    across = ax.get_yaxis_transform()
    ax.plot([x], [y], **style, transform=across)
    side, gap = ("left", 0.025) if x < 0.5 else ("right", -0.025)
    ax.text(x + gap, y, text, transform=across, ha=side, va="center", fontsize="x-small", color=style["color"])


def _set_limits(ax: Axes, low: float, high: float, margins: tuple[float, float], *, is_log: bool) -> None:
    """Limits from `low` to `high`, with margins in widths of that range; logarithmic if needed, or if far apart."""
    if is_log:  # a linear axis could show the small values
        set_log(ax, ax.xaxis)
    scale_axis(ax, ax.xaxis)
    is_log = ax.get_xscale() == "log"
    low, high = (np.log10(low), np.log10(high)) if is_log else (low, high)
    span = max(high - low, 0.5 if is_log else 0.2 * high) or 1.0  # all of them may be 0
    ends = low - margins[0] * span, high + margins[1] * span
    ax.set_xlim(*(np.power(10.0, ends) if is_log else ends))
