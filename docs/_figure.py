"""The figure of the first page, `_static/epsilon.png`: run `python docs/_figure.py` from a checkout, a minute."""

import pathlib

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import jaxacct as ja
from jaxacct import plot

STEPS, EPOCHS, DELTA = 1000, 10, 1e-6
NOISE = np.linspace(0.6, 2.0, 15)
RENYI = ("direct", "fractional orders", "geometric mean", "real orders", "no amplification")


def by_renyi(sigma: float) -> float:
    """Epsilon of random allocation by Renyi divergences alone, of the worse direction."""
    entries = ja.compare(ja.RandomAllocation(ja.Gaussian(sigma), STEPS, num_epochs=EPOCHS), target_delta=DELTA)
    found = [e for e in entries if e.bound is ja.Bound.UPPER and e.method in RENYI]
    return max(min(e.value for e in found if e.direction is way) for way in ja.Direction)


def main() -> None:
    """Four curves, and above them what was run."""
    one = ja.Gaussian(1.0)
    allocation = ja.RandomAllocation(one, STEPS, num_epochs=EPOCHS)
    _, ax = plt.subplots(figsize=(7.2, 4.2))
    for label, run in {
        f"random allocation: each record in 1 step of {STEPS}, every epoch": allocation,
        f"Poisson sampling: each record with probability 1/{STEPS}, every step": ja.PoissonSampled(
            one, 1 / STEPS, STEPS * EPOCHS
        ),
        f"no sampling: all data at once, {EPOCHS} steps": ja.Composed((one,), (EPOCHS,)),
    }.items():
        plot.epsilon_curve(run, "noise_multiplier", NOISE, target_delta=DELTA, label=label, ax=ax)
    label, color = "random allocation, by Rényi divergences alone", plot.scheme_color(allocation)
    ax.plot(NOISE, [by_renyi(sigma) for sigma in NOISE.tolist()], "-.", color=color, label=label)
    ax.grid(alpha=0.3)
    ax.get_legend().remove()
    title = f"Epsilon at delta = 1e-6 of {EPOCHS} epochs of {STEPS} steps"
    beside = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "frameon": False, "alignment": "left"}
    ax.legend(title=title, title_fontproperties={"weight": "bold", "size": "large"}, **beside)
    ax.figure.savefig(pathlib.Path(__file__).with_name("_static") / "epsilon.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
