"""A sweep as a picture: lines, a map with contours, or panels of these."""

import itertools
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from jaxacct._types import Bound
from jaxacct.mechanisms._fields import number_fields
from jaxacct.plot._axes import add_legend, axes_or_new, drawable, name_axes, scale_axis, set_log, tick_text

_MOST_LINES = 6  # values of an axis up to which each has a line, and a panel
_PANEL = (4.2, 3.6)  # inches
_COLORS = "viridis_r"
_DIGITS = (1.0, 2.0, 5.0)  # where lines of a map are drawn, in each decade
_MARKERS = "os^Dv*"


@runtime_checkable
class _Sweep(Protocol):
    """The parts of a `jaxacct.sweeping.SweepResult` that are drawn; `sweeping` imports this module, not the reverse."""

    @property
    def quantity(self) -> str: ...
    @property
    def grid(self) -> Any: ...
    @property
    def values(self) -> NDArray[Any]: ...
    @property
    def bound(self) -> Bound: ...
    @property
    def target(self) -> float | None: ...


def sweep_result(found: _Sweep, *, ax: Axes | None = None) -> Axes | tuple[Axes, ...]:
    """Draws a sweep of one field as a line, of two as lines or a map with contours, of three in panels.

    With two fields, each value of the field with fewer values gets a line; if it has more than six values, the two
    fields span a map. With three fields, each value of the field with the fewest values gets a panel, and all panels
    share one scale. Points without a bound, or not reached, are left out.

    Args:
      found: what `jaxacct.sweep` returned; zipped fields are drawn against the first of them.
      ax: matplotlib axes; None for those of a new figure. Panels are drawn on axes of their own.

    Returns:
      The axes; for panels, a tuple of axes.

    Raises:
      ValueError: if there are more than three fields, or too many panels.

    >>> import jaxacct as ja
    >>> grid = {"noise_multiplier": [1.0, 2.0, 4.0], "num_steps": [10, 100]}
    >>> run = ja.RandomAllocation(ja.Gaussian(None), num_steps=None)
    >>> ax = ja.sweep(run, grid, target_delta=1e-6).plot()
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_legend().get_texts()]
    ('noise multiplier', ['number of steps = 10', 'number of steps = 100'])
    """
    if not isinstance(found, _Sweep):
        raise ValueError(f"found={found!r} must be a SweepResult, as jaxacct.sweep returns it")
    axes = list(found.grid.axes.items())[: found.values.ndim]  # of fields side by side the first
    values = drawable(found.values)
    by_size = sorted(range(len(axes)), key=lambda i: -axes[i][1].size)
    if len(axes) == 3 and ax is None and axes[by_size[2]][1].size <= _MOST_LINES:
        return _panels(found, axes, values, by_size)
    if len(axes) > 2:
        sizes = {name: axis.size for name, axis in axes}
        raise ValueError(f"grid of {sizes} must have at most 3 fields, one of them of at most {_MOST_LINES} values")
    ax = axes_or_new(ax)
    _one(ax, found, [axes[i] for i in by_size], np.transpose(values, by_size), LogNorm(*_range(values)), bar=True)
    return ax


def _panels(found: _Sweep, axes: list[Any], values: NDArray[Any], by_size: list[int]) -> tuple[Axes, ...]:
    shared = [axes[i] for i in by_size[:2]]
    name, steps = axes[by_size[2]]
    figure = Figure(figsize=(_PANEL[0] * steps.size, _PANEL[1]), dpi=100, layout="constrained")
    panels = figure.subplots(1, steps.size, squeeze=False, sharey=True)[0]
    slices, norm = np.transpose(values, by_size), LogNorm(*_range(values))
    for number, (panel, value) in enumerate(zip(panels, steps.tolist(), strict=True)):
        _one(panel, found, shared, slices[:, :, number], norm, bar=False)
        panel.set_title(f"{_words(name)} = {tick_text(value)}", fontsize="medium")
        if number:
            panel.set_ylabel("")
        if panel.get_legend() is not None:  # one for all panels, above their titles
            panel.get_legend().remove()
            if not number:
                handles, labels = panel.get_legend_handles_labels()
                figure.legend(handles, labels, loc="outside upper left", ncols=3, fontsize="small", frameon=False)
    if shared[1][1].size > _MOST_LINES:
        figure.colorbar(ScalarMappable(norm, _COLORS), ax=list(panels), label=_answer(found), format=_tick)
    return tuple(panels)


def _one(ax: Axes, found: _Sweep, axes: list[Any], values: NDArray[Any], norm: LogNorm, *, bar: bool) -> None:
    (name, x), *rest = axes
    if rest and rest[0][1].size > _MOST_LINES:
        _map(ax, found, (name, x), rest[0], values, norm, bar=bar)
        return
    name_axes(ax, _words(name), _answer(found))
    order = np.argsort(x)
    label, lines = (_words(rest[0][0]), rest[0][1].tolist()) if rest else ("", [None])
    for number, (value, column) in enumerate(zip(lines, values.reshape(x.size, -1).T, strict=True)):
        text = f"{label} = {tick_text(value)}" if value is not None else None
        mark = next(itertools.islice(_MARKERS, number, None))
        ax.plot(x[order], column[order], marker=mark, markersize=3.5, linewidth=1.5, label=text)
    scale_axis(ax, ax.xaxis)
    scale_axis(ax, ax.yaxis)
    ax.grid(alpha=0.3, linewidth=0.6)
    if rest:
        add_legend(ax)


def _map(ax: Axes, found: _Sweep, across: Any, up: Any, values: NDArray[Any], norm: LogNorm, *, bar: bool) -> None:
    """Colours, and labelled lines at round values of the same scale, which the colour bar shows too."""
    (x_name, x), (y_name, y) = across, up
    order, rise = np.argsort(x), np.argsort(y)
    x, y, values = x[order], y[rise], values[np.ix_(order, rise)].T
    name_axes(ax, _words(x_name), _words(y_name))
    mesh = ax.pcolormesh(_edges(x), _edges(y), values, norm=norm, cmap=_COLORS)
    ax.grid(visible=False)
    for axis, numbers in ((ax.xaxis, x), (ax.yaxis, y)):
        if _spans_decades(numbers):
            set_log(ax, axis)
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    levels = [value for value in _round_values(low, high) if low < value < high]
    lines = ax.contour(x, y, values, levels=levels, colors="white", linewidths=1.0) if levels else None
    if lines is not None:
        for text in ax.clabel(lines, fmt=_tick, fontsize="small"):
            text.set_color("black")
            text.set_bbox({"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8})
    if bar:
        scale = ax.figure.colorbar(mesh, ax=ax, label=_answer(found), format=_tick, ticks=levels or None)
        scale.minorticks_off()


def _spans_decades(numbers: NDArray[Any]) -> bool:
    """Whether the axis of these increasing numbers is logarithmic."""
    return bool(numbers[0] > 0 and np.ptp(np.log(numbers)) > np.log(5.0))


def _edges(numbers: NDArray[Any]) -> NDArray[Any]:
    """The borders of a map's cells, halfway between neighbours as the axis shows them."""
    is_log = _spans_decades(numbers)
    at = np.log(numbers) if is_log else numbers.astype(np.float64)
    middle = 0.5 * (at[1:] + at[:-1])
    borders = np.concatenate([[2.0 * at[0] - middle[0]], middle, [2.0 * at[-1] - middle[-1]]])
    return np.exp(borders) if is_log else borders


def _round_values(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade; powers of ten only if there are many decades."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    digits = _DIGITS if len(decades) <= 5 else _DIGITS[:1]
    return [digit * 10.0**decade for decade in decades for digit in digits]


def _range(values: NDArray[Any]) -> tuple[float, float]:
    seen = values[np.isfinite(values) & (values > 0)]
    return (float(seen.min()), float(seen.max())) if seen.size and seen.min() < seen.max() else (0.1, 1.0)


def _tick(value: float, position: Any = None) -> str:
    del position
    return tick_text(value)


def _words(name: str) -> str:
    """The axis label for the last part of a field's name."""
    field = name.rpartition(".")[2]
    return _WORDS.get(field, field.replace("_", " "))


def _answer(found: _Sweep) -> str:
    side = "at least" if found.bound is Bound.LOWER else "at most"
    given = "delta" if found.quantity == "epsilon" else "epsilon"
    at = "" if found.target is None else f" at {given} = {tick_text(found.target)}"
    return f"{found.quantity}{at}, {side}"


def _every_name() -> dict[str, str]:
    from jaxacct import mechanisms

    kinds = [getattr(mechanisms, name) for name in mechanisms.__all__]
    return {name: spec.words for kind in kinds for name, spec in number_fields(kind).items()}


_WORDS = {**_every_name(), "num_epochs": "number of epochs", "target_delta": "delta", "target_epsilon": "epsilon"}
