"""What a membership test can achieve: trade-off and ROC curves."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from jaxacct._validate import check_probability
from jaxacct.measures import Measure
from jaxacct.mechanisms._base import Mechanism
from jaxacct.membership import tradeoff
from jaxacct.plot._axes import add_legend, axes_or_new, check_grid, line_style, name_axes, set_log
from jaxacct.plot._looks import look_of

_GUESSING = "guessing"
_LEAST_RATE = 1e-6  # least false positive rate drawn, unless rates are given; 0 is drawn besides where axes allow


def tradeoff_curve(
    mechanism: Mechanism,
    false_positive_rates: Any = None,
    *,
    label: str | None = None,
    ax: Axes | None = None,
    measure: Measure | None = None,
    target: float | None = None,
) -> Axes:
    """The smallest false negative rate of any test of whether one record took part, against its false positive rate.

    The line is the certified lower bound of `tradeoff`: no test has a pair of error rates below it. The diagonal is
    what guessing achieves, which is all that is possible under perfect privacy.

    Args:
      mechanism: a mechanism with scalar fields, or an upper `Pld`.
      false_positive_rates: float array [N] in [0, 1], N >= 2; None for all of [0, 1].
      label: name in the legend; None for the scheme's name.
      ax: matplotlib axes; None for those of a new figure.
      measure, target: a calibration target to mark, as for `jaxacct.calibrate`: a point for a true positive rate,
        otherwise the line that the curve must not cross.

    Returns:
      The axes.

    Raises:
      ValueError: if an argument is out of range, or the axes show something else.

    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> ax = plot.tradeoff_curve(ja.Gaussian(1.0), [0.0, 0.1, 1.0])
    >>> [round(float(v), 4) for v in ax.get_lines()[0].get_ydata()]
    [1.0, 0.6109, 0.0]
    """
    if false_positive_rates is None:
        false_positive_rates = np.concatenate([np.linspace(0.0, 1.0, 101), np.geomspace(_LEAST_RATE, 0.01, 41)])
    rates = _checked(false_positive_rates)
    ax = axes_or_new(ax)
    style = line_style(ax, look_of(mechanism), label)
    name_axes(ax, "false positive rate", "false negative rate, at least")
    ax.plot(rates, tradeoff(mechanism, rates), **style)
    _mark(ax, measure, target, rates, lambda errors: errors)
    _finish(ax, [0.0, 1.0], [1.0, 0.0])
    return ax


def roc_curve(
    mechanism: Mechanism,
    false_positive_rates: Any = None,
    *,
    label: str | None = None,
    ax: Axes | None = None,
    measure: Measure | None = None,
    target: float | None = None,
) -> Axes:
    """The largest true positive rate of any test of whether one record took part, on logarithmic axes.

    The line is ``1 - tradeoff``, a certified upper bound: what membership inference can achieve at the small false
    positive rates that matter. Arguments and errors are as for `tradeoff_curve`, but rates must be > 0; None is for
    1e-6 to 1.

    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> ax = plot.roc_curve(ja.Gaussian(1.0), [1e-3, 1e-2, 1e-1])
    >>> [round(float(v), 4) for v in ax.get_lines()[0].get_ydata()], ax.get_xscale()
    ([0.0183, 0.0924, 0.3891], 'log')
    """
    if false_positive_rates is None:
        false_positive_rates = np.geomspace(_LEAST_RATE, 1.0, 121)
    rates = _checked(false_positive_rates)
    if rates[0] <= 0:
        raise ValueError(f"false_positive_rates={rates[0]} in an array must be > 0: the axis is logarithmic")
    ax = axes_or_new(ax)
    style = line_style(ax, look_of(mechanism), label)
    name_axes(ax, "false positive rate", "true positive rate, at most")
    ax.plot(rates, 1.0 - tradeoff(mechanism, rates), **style)
    _mark(ax, measure, target, rates, lambda errors: 1.0 - errors)
    set_log(ax, ax.xaxis)
    set_log(ax, ax.yaxis)
    _finish(ax, [rates[0], 1.0], [rates[0], 1.0])
    return ax


def _mark(
    ax: Axes,
    measure: Measure | None,
    target: float | None,
    rates: NDArray[Any],
    height: Callable[[NDArray[Any]], NDArray[Any]],
) -> None:
    """Marks the target, at the height that `height` gives for its false negative rates."""
    if measure is None and target is None:
        return
    if measure is None or target is None:
        raise ValueError(f"measure={measure!r} and target={target!r} must be given together")
    measure.check_target(target)
    said: dict[str, Any] = {"color": "black", "label": f"target: {measure.words()} {target:g}", "zorder": 3.0}
    at = measure.marked_rate()
    if at is None:
        ax.plot(rates, height(measure.least_errors(target, rates)), linestyle="--", linewidth=1.0, **said)
    else:
        ax.plot([at], height(np.array([1.0 - target])), linestyle="none", marker="x", **said)


def _checked(rates: Any) -> NDArray[Any]:
    grid = check_grid("false_positive_rates", rates).astype(np.float64)
    check_probability("false_positive_rates", grid)
    return grid


def _finish(ax: Axes, x: list[float], y: list[float]) -> None:
    """Draws the diagonal, once, and the legend."""
    if all(line.get_label() != _GUESSING for line in ax.get_lines()):
        ax.plot(x, y, color="#999999", linestyle=":", linewidth=1.0, label=_GUESSING, zorder=1.0)
    add_legend(ax)
