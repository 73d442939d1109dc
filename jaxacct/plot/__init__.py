"""Figures of the library's answers, drawn with matplotlib: ``pip install 'jaxacct[plot]'``.

The module is not imported with jaxacct. Every function draws on the axes `ax` that it is given, or on those of a new
figure, and returns them: save the figure with ``ax.figure.savefig(path)``, or pass axes from pyplot to show it. Nothing
global is changed: no rcParams, no pyplot, no backend. Lines are certified upper bounds; the shaded area below them
reaches down to the certified lower bound. For a mechanism without certified bounds an error is raised, and no estimate
is drawn. Each scheme always has the same colour.

    import numpy as np
    import jaxacct as ja
    from jaxacct import plot

    run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000)
    ax = plot.epsilon_curve(run, "noise_multiplier", np.linspace(0.6, 2.0, 15), target_delta=1e-6)
    ax.figure.savefig("epsilon.png")
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    raise ImportError("jaxacct.plot needs matplotlib: pip install 'jaxacct[plot]'") from error

from jaxacct.plot._audit import audit_interval
from jaxacct.plot._axes import plain_ticks
from jaxacct.plot._comparison import comparison
from jaxacct.plot._curves import delta_profile, epsilon_curve
from jaxacct.plot._explore import explore
from jaxacct.plot._looks import scheme_color
from jaxacct.plot._renyi import rdp_curve
from jaxacct.plot._sweeps import sweep_result
from jaxacct.plot._tradeoff import roc_curve, tradeoff_curve

__all__ = [
    "audit_interval",
    "comparison",
    "delta_profile",
    "epsilon_curve",
    "explore",
    "plain_ticks",
    "rdp_curve",
    "roc_curve",
    "scheme_color",
    "sweep_result",
    "tradeoff_curve",
]
