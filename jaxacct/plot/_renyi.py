"""Renyi divergence against order."""

import dataclasses
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from jaxacct._validate import check_delta, check_orders
from jaxacct.accounting import epsilon, rdp
from jaxacct.curves import RdpCurve
from jaxacct.mechanisms._base import Mechanism
from jaxacct.plot._axes import (
    add_legend,
    axes_or_new,
    check_scalar,
    drawable,
    line_style,
    name_axes,
    num_curves,
    scale_axis,
    tick_text,
)
from jaxacct.plot._looks import look_of
from jaxacct.special import shown


def rdp_curve(
    mechanism: Mechanism,
    orders: Any,
    *,
    target_delta: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Certified Renyi divergence of `mechanism` against the order, in the worse direction at each order.

    With a `target_delta`, the order that converts to the smallest epsilon is marked, and the legend gives that epsilon.

    Args:
      mechanism: a mechanism with scalar fields.
      orders: float array [A], each > 1.
      target_delta: float in (0, 1), or None.
      label: name in the legend; None for the scheme's name.
      ax: matplotlib axes; None for those of a new figure.

    Returns:
      The axes.

    Raises:
      ValueError: if an argument is out of range, or the axes show something else.

    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> ax = plot.rdp_curve(ja.Gaussian(1.0), range(2, 33), target_delta=1e-6)
    >>> for text in ax.get_legend().get_texts():
    ...     print(text.get_text())
    Gaussian, no sampling
    best order 6: epsilon <= 5.223 at delta = 1e-6
    """
    if target_delta is not None:
        check_delta("target_delta", target_delta)
        check_scalar("target_delta", target_delta)
    curve = rdp(mechanism, check_orders("orders", orders))
    if np.ndim(curve.values) != 1:
        raise ValueError(f"mechanism={mechanism!r} must have scalar fields: one line is drawn for one mechanism")
    ax = axes_or_new(ax)
    style = line_style(ax, look_of(mechanism), label)
    name_axes(ax, "Renyi order", "Renyi divergence (nats), at most")
    by_order = np.argsort(curve.orders)
    ax.plot(curve.orders[by_order], drawable(curve.values)[by_order], **style)
    if target_delta is not None:
        _mark_best(ax, curve, target_delta, style["color"])
    scale_axis(ax, ax.xaxis)
    scale_axis(ax, ax.yaxis)
    add_legend(ax)
    return ax


def _mark_best(ax: Axes, curve: RdpCurve, target_delta: float, color: str) -> None:
    one_order_each = np.where(np.eye(curve.orders.size, dtype=bool), curve.values, np.inf)
    epsilons = epsilon(dataclasses.replace(curve, values=one_order_each), target_delta)
    best = int(np.argmin(epsilons))
    if not np.isfinite(epsilons[best]):
        return
    order = curve.orders[best]
    last = ", the largest given" if order == curve.orders.max() else ""
    found = f"epsilon <= {shown(float(epsilons[best]))} at delta = {tick_text(target_delta)}"
    text = f"best order {order:g}{last}: {found}"
    size = 5.0 + 3.0 * num_curves(ax)  # around the mark of another curve, should they coincide
    mark: dict[str, Any] = {"marker": "o", "markerfacecolor": "none", "markersize": size}
    ax.plot([order], [curve.values[best]], color=color, linestyle="none", label=text, **mark)
