"""The Gaussian noise of a run's releases, for those who add it."""

from typing import Any

Schedule = tuple[tuple[float, int], ...]  # (noise multiplier, for how many releases)


def stated(noise_multiplier: Any) -> float:
    """A noise multiplier as a float; raises ValueError where it is left out, to be calibrated."""
    if noise_multiplier is None:
        raise ValueError("noise_multiplier=None must be a number")
    return float(noise_multiplier)


def no_schedule(mechanism: Any) -> ValueError:
    """The error for a mechanism whose releases are no clipped sums with Gaussian noise of one batch each."""
    return ValueError(
        f"mechanism={mechanism!r} does not say what Gaussian noise its releases add to a sum of clipped contributions: "
        "must be Gaussian(noise_multiplier=..), or sampled, allocated or shuffled batches of it; of a run of several "
        "phases a list of them"
    )
