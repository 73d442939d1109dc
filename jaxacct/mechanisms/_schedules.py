"""The noise of a run's releases and the batches in each, for `training`, which makes them."""

from typing import Any

Schedule = tuple[tuple[float, int], ...]  # (noise multiplier, for how many releases)


def stated(noise_multiplier: Any) -> float:
    """A noise multiplier as a float; raises ValueError if it is left out, to be calibrated."""
    if noise_multiplier is None:
        raise ValueError("noise_multiplier=None must be a number")
    return float(noise_multiplier)


def whole_releases(name: str, steps: Any, batches: int) -> int:
    """How many releases of `batches` batches there are in `steps` steps; raises ValueError if some are left over."""
    if steps is None:
        raise ValueError(f"{name}=None must be a number: that of all sampled batches")
    number, left = divmod(int(steps), batches)
    if left:
        raise ValueError(f"{name}={steps} must be a multiple of batches={batches}, which make one release")
    return number


def not_accumulated(mechanism: Any, batches: int) -> ValueError:
    """The error for a mechanism for which it is not known what several batches in one release reveal."""
    return ValueError(
        f"mechanism={mechanism!r} does not say what a release of {batches} of its batches reveals: must be "
        "PoissonSampled, RandomAllocation with num_selected=1, or ScheduledAllocation, of Gaussian noise. Of shuffled "
        "batches describe the larger ones, with fewer num_steps; or add noise to each batch, "
        f"chain(count_releases(noise), MultiSteps(optimizer, {batches}))"
    )


def no_schedule(mechanism: Any) -> ValueError:
    """The error for a mechanism whose releases are not clipped sums of one batch each with Gaussian noise."""
    return ValueError(
        f"mechanism={mechanism!r} does not say what Gaussian noise its releases add to a sum of clipped contributions: "
        "must be Gaussian(noise_multiplier=..), or sampled, allocated or shuffled batches of it; of a run of several "
        "phases a list of them"
    )
