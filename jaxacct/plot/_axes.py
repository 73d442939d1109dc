"""Axes that say what they show: new figures, labels, scales, ticks, legends."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from jaxacct.plot._looks import Look

NO_BOUND = 1e300  # upper bounds from here on are trivial
_WIDE = 30.0  # ratio of the largest to the smallest value from which an axis is logarithmic
_CURVE = "jaxacct-curve-"  # of group ids, which SVG files keep
_LINE_STYLES = ("-", "--", "-.", ":")


def axes_or_new(ax: Axes | None) -> Axes:
    """`ax`, or the axes of a new figure of 6 by 4 inches at 100 dots an inch, which is not registered with pyplot."""
    if ax is None:
        new: Axes = Figure(figsize=(6.0, 4.0), dpi=100, layout="constrained").add_subplot()
        new.grid(alpha=0.3, linewidth=0.6)
        new.set_axisbelow(True)
        return new
    if not isinstance(ax, Axes):
        raise ValueError(f"ax={ax!r} must be a matplotlib Axes, or None for a new one")
    return ax


def name_axes(ax: Axes, x: str, y: str) -> None:
    """Labels both axes; raises ValueError if they already have other labels, since the picture would be wrong."""
    for name, shown, text in (("xlabel", ax.get_xlabel(), x), ("ylabel", ax.get_ylabel(), y)):
        if shown not in ("", text):
            raise ValueError(f"ax has {name}={shown!r}, which must be {text!r} or '': draw on other axes")
    ax.set_xlabel(x)
    ax.set_ylabel(y)


def line_style(ax: Axes, look: Look, label: str | None) -> dict[str, Any]:
    """Label, colour and dashes of the next line: each has its own dashes, since lines often coincide."""
    if label is None:
        label = look.name
        if any(line.get_label() == label for line in ax.get_lines()):
            raise ValueError(f"label=None must be a name: ax shows a line called {label!r} already")
    number = num_curves(ax)
    dashes = _LINE_STYLES[number % len(_LINE_STYLES)]
    return {"label": label, "color": look.color, "linestyle": dashes, "linewidth": 1.5, "gid": f"{_CURVE}{number}"}


def num_curves(ax: Axes) -> int:
    """How many lines drawn by this package `ax` shows."""
    return sum((line.get_gid() or "").startswith(_CURVE) for line in ax.get_lines())


def scale_axis(ax: Axes, axis: Any) -> None:
    """Makes an axis logarithmic if all data so far are positive and span decades; it never becomes linear again."""
    low, high = ax.dataLim.intervalx if axis is ax.xaxis else ax.dataLim.intervaly
    if axis.get_scale() == "linear" and math.isfinite(high) and low > 0 and high >= _WIDE * low:
        set_log(ax, axis)


def set_log(ax: Axes, axis: Any) -> None:
    """Makes an axis logarithmic, with plain numbers as ticks, at 1, 2 and 5 of each decade if there are few.

    It stays linear if nothing positive was drawn, as when delta is 0.
    """
    if (ax.dataLim.intervalx if axis is ax.xaxis else ax.dataLim.intervaly)[1] <= 0:
        return
    (ax.set_xscale if axis is ax.xaxis else ax.set_yscale)("log")
    axis.set_major_locator(_FewDecades())
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))


class _FewDecades(LogLocator):
    """Ticks at most digits within one decade, at 1, 2 and 5 within three decades, else at powers of ten."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        decades = math.log10(vmax) - math.log10(vmin) if 0 < vmin < vmax else math.inf
        digits = (1, 2, 3, 4, 5, 6, 8) if decades <= 1 else (1, 2, 5) if decades <= 3 else (1,)
        self.set_params(subs=[float(digit) for digit in digits])
        return super().tick_values(vmin, vmax)


def tick_text(value: float) -> str:
    """A number in as few characters as possible.

    >>> [tick_text(v) for v in (0.001, 0.5, 20.0, 1e-6, 5e4, 12345)]
    ['0.001', '0.5', '20', '1e-6', '5e4', '1.2345e4']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.5e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def whole_ticks(axis: Any, values: NDArray[Any]) -> None:
    """Ticks at whole numbers only, for a linear axis that counts something."""
    if axis.get_scale() == "linear" and np.all(values == np.floor(values)):
        axis.set_major_locator(MaxNLocator(integer=True))


def add_legend(ax: Axes) -> None:
    """A legend above the axes, where it hides no data; it is drawn anew with each line."""
    handles, labels = ax.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))  # one for each label
    wide = 0.065 * max(map(len, labels)) + 0.45  # inches, of the longest entry
    columns = int(ax.bbox.width / ax.figure.dpi / wide)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": min(max(columns, 1), 3)}
    ax.legend(list(named.values()), list(named), **place, fontsize="small", frameon=False)


def drawable(values: Any) -> NDArray[Any]:
    """`values` with infinite bounds and underflowed values replaced, so that they leave gaps."""
    array = np.asarray(values, np.float64)
    return np.where((array == 0) | ((array > 1.0 / NO_BOUND) & (array < NO_BOUND)), array, np.nan)


def check_scalar(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is one number."""
    if np.ndim(value):
        raise ValueError(f"{name} of shape {np.shape(value)} must be a scalar")


def check_grid(name: str, values: Any) -> NDArray[Any]:
    """`values` in increasing order; raises ValueError unless they are at least two different finite numbers."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise ValueError(f"{name}={values!r} must be a one-dimensional array of finite numbers")
    array = np.unique(array)
    if array.size < 2:
        raise ValueError(f"{name}={values!r} must have at least two different entries")
    return array


def plain_ticks(*axes: Axes) -> None:
    """Gives the logarithmic axes of your own figure the ticks of this package's figures: plain numbers, not crowded.

    >>> from matplotlib.figure import Figure
    >>> from jaxacct import plot
    >>> ax = Figure().add_subplot()
    >>> _ = ax.loglog([0.6, 4.0], [1e-6, 1.0])
    >>> plot.plain_ticks(ax)
    >>> ax.xaxis.get_major_formatter()(0.8), ax.yaxis.get_major_formatter()(1e-6)
    ('0.8', '1e-6')
    """
    for ax in axes:
        if not isinstance(ax, Axes):
            raise ValueError(f"axes={ax!r} must be matplotlib Axes")
        for axis in (ax.xaxis, ax.yaxis):
            if axis.get_scale() == "log":
                limits = ax.get_xlim() if axis is ax.xaxis else ax.get_ylim()
                set_log(ax, axis)
                (ax.set_xlim if axis is ax.xaxis else ax.set_ylim)(*limits)
