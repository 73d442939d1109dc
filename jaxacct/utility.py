"""How accurate an estimate of a mean is under a sampling scheme."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._precision import is_traced
from jaxacct._validate import check_count, check_positive, check_probability, checked_array
from jaxacct.answering._question import check_mechanism
from jaxacct.mechanisms import Gaussian, PoissonSampled, RandomAllocation
from jaxacct.mechanisms._base import UndeclaredError

__all__ = ["mean_estimation_variance"]


def mean_estimation_variance(
    mechanism: RandomAllocation | PoissonSampled, *, num_records: Any, success_prob: Any, dimension: Any = 1
) -> Any:
    """Mean squared error, per coordinate, of a mean estimated from the noisy sums of a run.

    There are n records, i.i.d. Bernoulli(p) in each of d coordinates. Each step releases the sum over its records with
    noise N(0, sigma^2 d) (sensitivity sqrt d); the estimate is the total divided by the expected number of uses. It is
    unbiased. Its exact error is, for random allocation (m = kE uses in tE steps) and for Poisson sampling (rate q, T
    steps),

        p (1 - p)/n + t E sigma^2 d / (n m)^2,
        p (1 - p)/n + p (1 - q)/(n q T) + T sigma^2 d / (n q T)^2.

    At q = 1/t and equal sigma allocation saves p (1 - 1/t)/n (Feldman and Shenfeld 2025, Section 5.1, which writes p/n
    and labels the second line as allocation's; RA-S23 and RA-T8 of docs/papers/random_allocation.md).

    Args:
      mechanism: random allocation, or Poisson sampling with sampling_prob > 0, of Gaussian noise. Fields may be arrays.
      num_records: whole number >= 1, n.
      success_prob: in [0, 1], p.
      dimension: whole number >= 1, d.

    Returns:
      A float, or an array of the broadcast shape; traced where an argument is.

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
    check_mechanism(mechanism)
    wanted = f"mechanism={mechanism!r} must be RandomAllocation or PoissonSampled of Gaussian noise"
    if mechanism.signature()[1:] != (Gaussian,):
        raise ValueError(wanted)
    check_count("num_records", num_records)
    check_probability("success_prob", success_prob)
    check_count("dimension", dimension)
    # whole numbers as floats, whose products do not wrap around
    mechanism = _trees.map_leaves(functools.partial(_as_real, "mechanism"), mechanism)
    records, dimension = _as_real("num_records", num_records), _as_real("dimension", dimension)
    success_prob = _as_real("success_prob", success_prob)
    if hasattr(mechanism, "sampling_prob") and not is_traced(mechanism.sampling_prob):
        check_positive("sampling_prob", mechanism.sampling_prob)  # at 0 no record takes part
    try:
        joined = mechanism.participation()
    except UndeclaredError as error:
        raise ValueError(wanted) from error
    sampling: Any = success_prob * joined.dispersion / (records * joined.uses)
    with np.errstate(over="ignore"):  # inf is the answer
        each: Any = mechanism.mechanism.noise_multiplier / (records * joined.uses)
        noise: Any = joined.steps * dimension * each * each
    return success_prob * (1.0 - success_prob) / records + sampling + noise


def _as_real(name: str, value: Any) -> Any:
    """A float, a float64 array, or the tracer that it is."""
    if is_traced(value):
        return value
    array = checked_array(name, value).astype(np.float64)
    return array if array.ndim else float(array)
