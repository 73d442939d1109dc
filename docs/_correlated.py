"""Writes `papers/correlated.png`: the noise that balls in bins with correlated noise need, against the number of bands.

Run `python docs/_correlated.py` from a checkout; some minutes.
"""

import pathlib
import warnings
from typing import Any

import numpy as np

import jaxacct as ja
from jaxacct.correlated import estimate_delta

BINS, EPOCHS, EPSILON, DELTA = 100, 10, 2.0, 1e-6
BANDS = (1, 2, 4, 8, 16, 32)
SAMPLES, HALVINGS = 100_000, 6


def strategy(bands: int) -> Any:
    """The first coefficients of (1 - x)^(-1/2), of norm 1."""
    found = np.cumprod(np.concatenate([[1.0], 1.0 - 0.5 / np.arange(1, bands)]))
    return found / np.linalg.norm(found)


def certified(bands: int, method: str | None) -> float:
    """The noise multiplier that is certified to be enough."""
    run = ja.BallsInBins(strategy(bands), None, BINS, EPOCHS)
    return float(ja.calibrate(run, "noise_multiplier", EPSILON, DELTA, method=method))


def by_samples(bands: int, low: float, high: float) -> float:
    """About where the mean of the samples is delta: neither certified nor with a confidence."""
    for number in range(HALVINGS):
        middle = (low * high) ** 0.5
        run = ja.BallsInBins(strategy(bands), middle, BINS, EPOCHS)
        found = estimate_delta(run, EPSILON, num_samples=SAMPLES, seed=number, direction="remove")
        low, high = (low, middle) if found.mean <= DELTA else (middle, high)
    return (low * high) ** 0.5


def row(bands: int) -> tuple[float, ...]:
    """Known bins, groups, the Markov chain, samples, and one band of that norm."""
    coefficients = strategy(bands)
    means = np.zeros(BINS * EPOCHS)  # of bin 0, whose norm is the largest
    for epoch in range(EPOCHS):
        kept = coefficients[: BINS * EPOCHS - BINS * epoch]
        means[BINS * epoch : BINS * epoch + len(kept)] += kept
    norm = float(np.linalg.norm(means))
    known = float(ja.calibrate(ja.Gaussian(None), "noise_multiplier", EPSILON, DELTA)) * norm
    one = float(ja.calibrate(ja.RandomAllocation(ja.Gaussian(None), BINS), "noise_multiplier", EPSILON, DELTA)) * norm
    groups, best = certified(bands, "groups"), certified(bands, None)
    return known, groups, best, by_samples(bands, 0.98 * one, best) if bands > 1 else one, one


def main() -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known, groups, best, sampled, one = zip(*map(row, BANDS), strict=True)
    figure, axes = plt.subplots(figsize=(7.0, 4.2))
    axes.plot(BANDS, known, "--", color="tab:grey", label="known bins")
    axes.plot(BANDS, groups, color="tab:orange", label="groups, certified")
    axes.plot(BANDS, best, color="tab:blue", label="Markov chain, certified")
    axes.plot(BANDS, sampled, ":", color="black", linewidth=2.0, label="samples, their mean")
    axes.plot(BANDS, one, color="tab:green", linewidth=0.8, label="one band of this norm")
    axes.set(xscale="log", xlabel="bands", ylabel=f"noise multiplier for epsilon {EPSILON:g} at delta {DELTA:g}")
    axes.set_xticks(BANDS, [str(bands) for bands in BANDS])
    axes.minorticks_off()
    axes.set_ylim(0.0, None)
    axes.set_title(f"{BINS} bins, {EPOCHS} epochs, the first coefficients of $(1 - x)^{{-1/2}}$, norm 1", fontsize=10)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(pathlib.Path(__file__).parent / "papers" / "correlated.png", dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
