"""How accurate an answer stays under a sampling scheme: mean estimation."""

from typing import Any

from jaxacct._validate import check_count, check_probability
from jaxacct.mechanisms import Gaussian, PoissonSampled, RandomAllocation


def mean_estimation_variance(
    mechanism: RandomAllocation | PoissonSampled, *, num_records: Any, success_prob: Any, dimension: Any = 1
) -> Any:
    """Mean square error, for each coordinate, of a mean estimated from the noisy sums of a run.

    n records, i.i.d. Bernoulli(p) in each of d coordinates, each step releasing the sum over its records with noise
    N(0, sigma^2 d) (sensitivity sqrt d); the estimate is the total over the expected number of uses. Unbiased; exact.
    Random allocation (m = kE uses in tE steps) against Poisson sampling (rate q, T steps):

        p (1 - p)/n + t E sigma^2 d / (n m)^2,
        p (1 - p)/n + p (1 - q)/(n q T) + T sigma^2 d / (n q T)^2.

    At q = 1/t and equal sigma allocation saves p (1 - 1/t)/n (Feldman and Shenfeld 2025, Section 5.1, which writes p/n
    and labels the second line as allocation's; spec S23, T8).

    Args:
      mechanism: random allocation, or Poisson sampling with sampling_prob > 0, of Gaussian noise. Fields may be arrays.
      num_records: whole number >= 1, n.
      success_prob: in [0, 1], p.
      dimension: whole number >= 1, d.

    Raises:
      ValueError: if an argument is out of range, or the mechanism is neither.

    >>> import jaxacct as ja
    >>> from jaxacct.utility import mean_estimation_variance
    >>> noise = ja.Gaussian(2.0)
    >>> run = ja.RandomAllocation(noise, num_steps=100)
    >>> round(mean_estimation_variance(run, num_records=1000, success_prob=0.9), 8)
    0.00049
    >>> poisson = ja.PoissonSampled(noise, sampling_prob=0.01, num_steps=100)
    >>> round(mean_estimation_variance(poisson, num_records=1000, success_prob=0.9), 8)
    0.001381
    """
    check_count("num_records", num_records)
    check_probability("success_prob", success_prob)
    check_count("dimension", dimension)
    if not isinstance(mechanism.mechanism, Gaussian):
        raise ValueError(f"mechanism={mechanism!r} must add Gaussian noise")
    if isinstance(mechanism, RandomAllocation):
        uses: Any = mechanism.num_selected * mechanism.num_epochs
        steps: Any = mechanism.num_steps * mechanism.num_epochs
        sampling: Any = 0.0
    elif isinstance(mechanism, PoissonSampled):
        uses, steps = mechanism.sampling_prob * mechanism.num_steps, mechanism.num_steps
        sampling = success_prob * (1.0 - mechanism.sampling_prob) / (num_records * uses)
    else:
        raise ValueError(f"mechanism={mechanism!r} must be RandomAllocation or PoissonSampled")
    noise = mechanism.mechanism.noise_multiplier
    return (
        success_prob * (1.0 - success_prob) / num_records
        + sampling
        + steps * dimension * (noise / (num_records * uses)) ** 2
    )
