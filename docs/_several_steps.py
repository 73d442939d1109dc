"""Writes `papers/several_steps.png`: k steps of t from both sides, beside the composition and samples.

Run `python docs/_several_steps.py` from a checkout; a minute. Left, certified ends of epsilon over t at k = 5; right,
how far each is from the lower end, with the answer of importance samples (a point, two standard errors).
"""

import pathlib
import warnings

import numpy as np

import jaxacct as ja
from jaxacct.estimation import estimate_delta

SIGMA, SELECTED, DELTA = 0.776, 5, 1e-6
STEPS = (8, 11, 16, 24, 37, 60, 100, 200, 400, 1000, 3000, 10_000)
SAMPLED = STEPS[:10]
SAMPLES = 20_000


def ends(steps: int) -> tuple[float, float, float, float]:
    """One step a record, the lower end, the upper end, and the composition of Lemma 3.2."""
    run = ja.RandomAllocation(ja.Gaussian(SIGMA), steps, SELECTED)
    single = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(SIGMA), steps), DELTA).lower
    found = ja.epsilon_interval(run, DELTA)
    composed = ja.epsilon(run, DELTA, method="loss distribution", precision=1e-3)
    return single, found.lower, found.upper, composed


def sampled(steps: int, lower: float) -> tuple[float, float]:
    """epsilon by samples, from delta at two points, and its two standard errors."""
    run = ja.RandomAllocation(ja.Gaussian(SIGMA), steps, SELECTED)
    points = np.array([lower, 1.06 * lower])
    found = estimate_delta(run, points, num_samples=SAMPLES, seed=1, direction=ja.Direction.REMOVE, method="importance")
    slope = np.diff(np.log(found.mean))[0] / np.diff(points)[0]
    at = points[0] + (np.log(DELTA) - np.log(found.mean[0])) / slope
    return float(at), float(-2.0 * found.standard_error[0] / found.mean[0] / slope)


def main() -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single, lower, upper, composed = np.array([ends(t) for t in STEPS]).T
        truth = np.array([sampled(t, low) for t, low in zip(SAMPLED, lower, strict=False)])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6))
    left.fill_between(STEPS, lower, upper, color="tab:blue", alpha=0.35, label="the truth lies here")
    left.plot(STEPS, composed, "--", color="tab:orange", label="5 runs of 1 of t/5 (Lemma 3.2)")
    left.plot(STEPS, single, ":", color="tab:grey", label="one step a record")
    left.set(xscale="log", yscale="log", xlabel="steps t, a record in 5 of them", ylabel="epsilon")
    left.legend(fontsize=8)
    right.fill_between(STEPS, 0.0 * lower, 100.0 * (upper / lower - 1.0), color="tab:blue", alpha=0.35)
    right.plot(STEPS, 100.0 * (composed / lower - 1.0), "--", color="tab:orange")
    known = lower[: len(SAMPLED)]
    right.errorbar(SAMPLED, 100.0 * (truth[:, 0] / known - 1.0), 100.0 * truth[:, 1] / known, fmt=".k", label="samples")
    right.axhline(0.0, color="tab:blue", linewidth=0.8)
    right.set(xscale="log", xlabel="steps t", ylabel="% above the lower end")
    right.legend(fontsize=8)
    figure.suptitle(f"noise multiplier {SIGMA}, delta {DELTA:g}", fontsize=10)
    figure.tight_layout()
    path = pathlib.Path(__file__).parent / "papers" / "several_steps.png"
    figure.savefig(path, dpi=90, metadata={"Software": None})
    for row in zip(STEPS, single, lower, upper, composed, strict=True):
        print("  ".join(f"{x:.6g}" for x in row))


if __name__ == "__main__":
    main()
