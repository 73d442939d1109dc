"""A measured epsilon beside the certified interval."""

import numpy as np
from matplotlib import markers
from matplotlib.axes import Axes

from jaxacct._types import NeighboringRelation
from jaxacct.audit import Audit
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.plot._axes import axes_or_new, name_axes, tick_text
from jaxacct.plot._looks import look_of
from jaxacct.special import shown, shown_down

_MEASURED = "#777777"
_ROOM = 1.25  # of the axis, beyond the largest end


def audit_interval(
    found: Audit,
    mechanism: Mechanism,
    *,
    neighboring_relation: NeighboringRelation | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws a measured lower bound and, below it, the certified interval of the run: two rows on one axis of epsilon.

    The tip of a mark is the value, and points towards the true epsilon: right of the measured value (with its
    confidence) and of the certified lower bound, left of the certified upper bound.

    Args:
      found: the result of a function of `jaxacct.audit`.
      mechanism: what was run, with scalar fields.
      neighboring_relation: as for `jaxacct.epsilon`.
      ax: empty matplotlib axes; None for those of a new figure.

    Returns:
      The axes.

    Raises:
      ValueError: if an argument is out of range, or the axes show something else.

    >>> import jaxacct as ja
    >>> from jaxacct import audit, plot
    >>> found = audit.one_run([3.0] * 40 + [0.0] * 40, [True] * 40 + [False] * 40, delta=1e-5, num_guesses=(20, 20))
    >>> ax = plot.audit_interval(found, ja.Gaussian(0.5))
    >>> [text.get_text() for text in ax.get_yticklabels()], ax.get_xlabel()
    (['certified', 'measured, 95 %'], 'epsilon at delta = 1e-5')
    """
    mechanism = in_relation(mechanism, neighboring_relation)
    certified, look = found.interval(mechanism), look_of(mechanism)
    ax = axes_or_new(ax)
    name_axes(ax, f"epsilon at delta = {tick_text(found.delta)}", "")
    ends = [certified.lower, certified.upper]
    ax.plot(ends, [0.0, 0.0], color=look.color, linewidth=3.0, solid_capstyle="butt", label=look.name)
    for value, mark in zip(ends, (markers.CARETRIGHT, markers.CARETLEFT), strict=True):
        ax.plot([value], [0.0], color=look.color, marker=mark, markersize=9.0, linestyle="none")
    ax.plot([found.epsilon], [1.0], color=_MEASURED, marker=markers.CARETRIGHT, markersize=9.0, linestyle="none")
    known = [value for value in (*ends, found.epsilon) if np.isfinite(value)]
    end = _ROOM * max([*known, 1e-6])
    ax.plot([found.epsilon, end], [1.0, 1.0], color=_MEASURED, linestyle=":", linewidth=1.0)
    for height, text in (
        (0.0, f"{shown_down(certified.lower)} to {shown(certified.upper)}"),
        (1.0, f"at least {shown_down(found.epsilon)}"),
    ):
        ax.annotate(text, (0.02 * end, height), (0, 8), textcoords="offset points", fontsize="small")
    ax.set_yticks([0.0, 1.0], ["certified", f"measured, {100.0 * found.confidence:g} %"])
    ax.set_xlim(0.0, end)
    ax.set_ylim(-0.6, 1.6)
    ax.set_title(look.name, fontsize="medium")
    return ax
