"""Writes `papers/blanket.png`: epsilon of shuffled Gaussian reports against their number, from both sides.

Run `python docs/_blanket.py` from a checkout; half a minute.
"""

import pathlib
import warnings

import jaxacct as ja

NOISE, DELTA = 2.0, 1e-6
REPORTS = tuple(round(10.0 ** (0.25 * k)) for k in range(4, 29))
DIMENSIONS = (1, 2, 10, 100)


def blanket(noise: float, reports: int, dimension: int) -> float:
    """epsilon by what reports of this dimension have in common."""
    run = ja.Shuffled(ja.GaussianReports(noise, dimension), reports)
    return float(ja.epsilon(run, DELTA, method="privacy blanket"))


def row(noise: float, reports: int) -> tuple[float, ...]:
    """From below; blankets of `DIMENSIONS`; the order, of any dimension; and what was known before."""
    run = ja.Shuffled(ja.GaussianReports(noise), reports)
    lower = ja.epsilon_interval(run, DELTA).lower
    blankets = (blanket(noise, reports, dimension) for dimension in DIMENSIONS)
    order, clones = (ja.epsilon(run, DELTA, method=name) for name in ("shuffled order", "purified clones"))
    return lower, *blankets, order, min(clones, ja.epsilon(run, DELTA, method="no amplification"))


def main() -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lower, *blankets, order, clones = zip(*(row(NOISE, n) for n in REPORTS), strict=True)
    figure, axes = plt.subplots(figsize=(7.0, 4.2))
    axes.plot(REPORTS, clones, "--", color="tab:grey", label="pure reports in their place, clones")
    for dimension, values in zip(reversed(DIMENSIONS), reversed(blankets), strict=True):
        axes.plot(REPORTS, values, linewidth=1.2, label=f"blanket, dimension {dimension}")
    axes.plot(REPORTS, order, ":", color="black", linewidth=2.0, label="order, any dimension")
    axes.fill_between(REPORTS, lower, blankets[0], color="tab:blue", alpha=0.2)
    axes.plot(REPORTS, lower, color="tab:blue", linewidth=0.8, label="from below, all others alike")
    axes.set(xscale="log", yscale="log", xlabel="reports", ylabel=f"epsilon at delta {DELTA:g}")
    axes.set_title(f"shuffled Gaussian reports, noise multiplier {NOISE:g}", fontsize=10)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(pathlib.Path(__file__).parent / "papers" / "blanket.png", dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
