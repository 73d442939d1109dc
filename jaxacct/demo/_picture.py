"""The picture of a run: its accuracy, and below it the privacy cost."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.accounting import epsilon
from jaxacct.audit import Audit
from jaxacct.demo._plan import Plan, Settings
from jaxacct.mechanisms import Composed, PoissonSampled
from jaxacct.special import shown

_TICKS = tuple(digit * 10.0**exponent for exponent in range(-3, 4) for digit in (1, 2, 5))


def make_picture(settings: Settings, plan: Plan, accuracies: NDArray[Any]) -> Any:
    """A matplotlib figure: accuracy after each epoch; epsilon beside that of other ways to draw batches."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 6.4), dpi=120, layout="constrained")
    learnt, cost = figure.subplots(2, sharex=True, height_ratios=(2, 3))
    learnt.set_title(
        f"DP-SGD on handwritten digits, noise multiplier {settings.noise_multiplier:g},\n"
        f"each record in {settings.num_selected} of the {settings.num_steps} steps of an epoch",
        fontsize="medium",
    )
    _draw_accuracy(learnt, settings, accuracies)
    _draw_epsilon(cost, settings, plan)
    cost.set_xlim(0, plan.max_releases)
    cost.xaxis.set_major_locator(MaxNLocator(integer=True))
    cost.set_xlabel("step")
    for ax in (learnt, cost):
        ax.grid(alpha=0.3, linewidth=0.6)
        ax.set_axisbelow(True)
    return figure


def _draw_accuracy(ax: Any, settings: Settings, accuracies: NDArray[Any]) -> None:
    steps, shares = settings.num_steps * np.arange(1, accuracies.size + 1), 100.0 * accuracies
    ax.plot(steps, shares, "o-", color="black", markersize=3.0, clip_on=False, label=f"at the end: {shares[-1]:.1f} %")
    ax.set_ylim(0.0, 100.0)
    ax.set_ylabel("test accuracy, %")
    ax.legend(fontsize="small", loc="lower right")


def _draw_epsilon(ax: Any, settings: Settings, plan: Plan) -> None:
    """This run, Poisson sampling, and batches known to the adversary: the same noise, each record used as often."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    from jaxacct.plot import scheme_color

    allocation, step, num_steps = settings.allocation(), settings.allocation().mechanism, settings.num_steps
    begun = np.arange(1, plan.num_epochs + 1)
    known = Composed(step, settings.num_selected * begun)
    # unlike an epoch, Poisson sampling is charged step by step, which shows most in the first epoch
    counts = np.unique(np.concatenate([np.geomspace(1, num_steps, 6).astype(int), num_steps * begun]))
    poisson = PoissonSampled(step, settings.num_selected / num_steps, counts)

    def ends(name: str, epsilons: NDArray[Any]) -> str:
        return f"{name}: {shown(float(epsilons[-1]))}"

    edges = num_steps * np.arange(plan.num_epochs + 1)
    values = epsilon(known, settings.target_delta, precision=math.inf)  # the quick method is exact here
    look = {"baseline": None, "color": scheme_color(step), "linewidth": 1.5}
    ax.stairs(values, edges, label=ends("fixed batches, no amplification", values), **look)
    values = epsilon(poisson, settings.target_delta)
    look = {"color": scheme_color(poisson), "linewidth": 1.5}
    ax.plot(counts, values, label=ends("Poisson sampling, same rate", values), **look)
    look = {"baseline": None, "color": scheme_color(allocation), "linewidth": 2.2}
    ax.stairs(plan.epsilons[1:], edges, label=ends("random allocation, this run", plan.epsilons), **look)
    ax.axhline(settings.target_epsilon, color="black", linestyle=":", label=f"budget: {settings.target_epsilon:g}")
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(FixedLocator(_TICKS))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.set_ylabel(f"epsilon at delta {settings.target_delta:g}, epochs\ncharged as a whole when they begin")
    ax.legend(fontsize="small", loc="best")


def save_picture(path: Path, settings: Settings, plan: Plan, accuracies: NDArray[Any]) -> None:
    """Writes `make_picture` to a file, in the format of its extension."""
    make_picture(settings, plan, accuracies).savefig(path)


def save_audit(path: Path, found: Audit, plan: Plan) -> None:
    """Draws the measured epsilon beside the certified interval into a file, and says where."""
    from jaxacct.plot import audit_interval

    audit_interval(found, plan.run.mechanism).get_figure(root=True).savefig(path)  # type: ignore[union-attr]
    print(f"\nPicture of the audit: {path}")
