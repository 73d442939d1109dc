"""Laws of likelihood ratios with finitely many points, for programs of fixed size; the contour that composes them."""

from jaxacct.divergence.law._allocated import allocated
from jaxacct.divergence.law._contour import (
    Line,
    Run,
    centre,
    epsilon,
    log_delta,
    single_log_delta,
)
from jaxacct.divergence.law._law import (
    LEAST_NOISE,
    MOST_PROB,
    Law,
    gaussian_base,
    laplace_base,
    sampled,
    whole,
)

__all__ = [
    "LEAST_NOISE",
    "MOST_PROB",
    "Law",
    "Line",
    "Run",
    "allocated",
    "centre",
    "epsilon",
    "gaussian_base",
    "laplace_base",
    "log_delta",
    "sampled",
    "single_log_delta",
    "whole",
]
