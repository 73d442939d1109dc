"""Epsilon against a field of the mechanism, and delta against epsilon."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._types import Bound, Interval, PrecisionWarning
from jaxacct._validate import check_delta, check_epsilon, check_positive
from jaxacct.accounting import delta, delta_interval, epsilon, epsilon_interval
from jaxacct.answering._question import check_mechanism
from jaxacct.bounds import methods_for
from jaxacct.curves import RdpCurve
from jaxacct.mechanisms._base import Mechanism
from jaxacct.plot._axes import (
    NO_BOUND,
    add_legend,
    axes_or_new,
    check_grid,
    check_scalar,
    drawable,
    line_style,
    name_axes,
    scale_axis,
    set_log,
    tick_text,
    whole_ticks,
)
from jaxacct.plot._fields import maker, words_for
from jaxacct.plot._looks import look_of

_VISIBLE = 0.05  # relative width of an interval from which the legend mentions its band
_FEW = 30  # values up to which the computed points are marked


def epsilon_curve(
    mechanism: Mechanism | Callable[[Any], Mechanism],
    field: str,
    values: Any,
    target_delta: float,
    *,
    precision: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Certified epsilon at `target_delta` against one field of the mechanism.

    The line is the upper bound, with straight segments between the values; the shaded area reaches down to the lower
    bound, if there is one. Values without a bound (infinite epsilon) leave a gap, and the legend says so. Call again
    with the returned axes to draw another scheme.

    Args:
      mechanism: a mechanism with scalar fields; or a function that makes one from a value, if more than one field
        depends on it: ``lambda t: PoissonSampled(Gaussian(1.0), sampling_prob=1 / t, num_steps=t)``.
      field: name of a numeric field, anywhere in the mechanism's description; if there are several of that name, its
        path (``"mechanisms.0.noise_multiplier"``). For a function, the name of its argument.
      values: float array [N], N >= 2, in the range that the field allows.
      target_delta: float in (0, 1).
      precision: relative width of the intervals, as for `epsilon_interval`; None for 1 %, which may take seconds for
        each value; inf for the upper bounds of the quick methods only, which takes milliseconds for all values.
      label: name in the legend; None for the scheme's name.
      ax: matplotlib axes; None for those of a new figure.

    Returns:
      The axes.

    Raises:
      ValueError: if an argument is out of range, or the axes show something else.

    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> ax = plot.epsilon_curve(ja.Gaussian(1.0), "noise_multiplier", [1.0, 2.0, 4.0], target_delta=1e-6)
    >>> [round(float(v), 4) for v in ax.get_lines()[0].get_ydata()], ax.get_ylabel()
    ([4.8866, 2.2541, 1.0607], 'epsilon at delta = 1e-6, at most')
    """
    check_delta("target_delta", target_delta)
    check_scalar("target_delta", target_delta)
    grid = check_grid("values", values)
    make = maker(mechanism, field)
    runs = [make(value) for value in grid.tolist()]
    for run in runs:
        _check_concrete(run)
    is_two_sided = _is_two_sided(runs[0], precision)
    ax = axes_or_new(ax)
    style = line_style(ax, look_of(runs[0]), label)
    name_axes(ax, words_for(runs[0], field), f"epsilon at delta = {tick_text(target_delta)}, at most")
    if is_two_sided:
        width = 0.01 if precision is None else precision
        ends = _intervals([(run, target_delta) for run in runs], epsilon_interval, width, precision)
    else:
        ends = Interval(0.0, epsilon(_stacked(runs), target_delta, precision=precision), 0.0)
    _draw(ax, grid, ends, style)
    scale_axis(ax, ax.xaxis)
    scale_axis(ax, ax.yaxis)
    whole_ticks(ax.xaxis, grid)
    add_legend(ax)
    return ax


def delta_profile(
    mechanism: Mechanism | RdpCurve,
    epsilons: Any,
    *,
    precision: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Certified delta against epsilon, on a logarithmic scale: the privacy profile.

    The line and the shaded area are as for `epsilon_curve`.

    Args:
      mechanism: a mechanism with scalar fields, or an `RdpCurve`.
      epsilons: float array [N], N >= 2, each >= 0.
      precision: relative width of the intervals, as for `delta_interval`; None for 10 %; inf for the quick methods'
        upper bounds only.
      label, ax: as for `epsilon_curve`.

    Returns:
      The axes.

    Raises:
      ValueError: if an argument is out of range, or the axes show something else.

    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> ax = plot.delta_profile(ja.Gaussian(1.0), [0.0, 1.0, 2.0])
    >>> [round(float(v), 4) for v in ax.get_lines()[0].get_ydata()], ax.get_yscale()
    ([0.3829, 0.1269, 0.0209], 'log')
    """
    grid = check_grid("epsilons", epsilons).astype(np.float64)
    check_epsilon("epsilons", grid)
    _check_concrete(mechanism)
    is_two_sided = _is_two_sided(mechanism, precision)
    ax = axes_or_new(ax)
    style = line_style(ax, look_of(mechanism), label)
    name_axes(ax, "epsilon", "delta, at most")
    if is_two_sided:
        width = 0.1 if precision is None else precision
        ends = _intervals([(mechanism, value) for value in grid.tolist()], delta_interval, width, precision)
    else:
        ends = Interval(0.0, delta(mechanism, grid, precision=precision), 0.0)
    _draw(ax, grid, ends, style)
    set_log(ax, ax.yaxis)
    add_legend(ax)
    return ax


def _draw(ax: Axes, grid: NDArray[Any], ends: Interval, style: dict[str, Any]) -> None:
    missing = int(np.sum(np.asarray(ends.upper) >= NO_BOUND))
    if missing:
        style = {**style, "label": f"{style['label']} (no bound at {missing} of {grid.size})"}
    upper = drawable(ends.upper)
    ax.plot(grid, upper, **style, marker="o" if grid.size <= _FEW else None, markersize=3.0)
    lower = np.where(np.asarray(ends.lower) > 0, ends.lower, np.nan)
    gap = (upper - lower) / upper
    if not np.isnan(gap).all():
        text = "shaded: down to the lower bound" if np.nanmax(gap) > _VISIBLE else "_nolegend_"
        ax.fill_between(grid, lower, upper, color=style["color"], alpha=0.25, linewidth=0.0, label=text)


def _intervals(questions: Sequence[tuple[Any, float]], ask: Any, width: float, precision: float | None) -> Interval:
    """Both ends for each (mechanism, target)."""
    with warnings.catch_warnings():
        if precision is None:  # no width was asked for
            warnings.simplefilter("ignore", PrecisionWarning)
        found = [ask(mechanism, target, precision=width) for mechanism, target in questions]
    return Interval(*(np.array(ends, np.float64) for ends in zip(*found, strict=True)))


def _is_two_sided(mechanism: Mechanism | RdpCurve, precision: float | None) -> bool:
    """Whether intervals are wanted, and `mechanism` has a lower bound."""
    if precision is not None:
        if precision == math.inf:
            return False
        check_positive("precision", precision)
    if isinstance(mechanism, RdpCurve):
        return False
    return any(Bound.LOWER in method.ends for method in methods_for(mechanism))


def _stacked(runs: Sequence[Any]) -> Any:
    """The mechanisms as one with array fields, so that one program computes them all."""
    return _trees.map_leaves(lambda *leaves: np.array(leaves), *runs)


def _check_concrete(mechanism: Mechanism | RdpCurve) -> None:
    if isinstance(mechanism, RdpCurve):
        check_scalar("mechanism.values[..., 0]", mechanism.values[..., 0])
        return
    check_mechanism(mechanism)
    if any(np.ndim(leaf) for leaf in _trees.leaves(mechanism)):
        raise ValueError(f"mechanism={mechanism!r} must have scalar fields: one line is drawn for one mechanism")
