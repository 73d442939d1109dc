"""Feldman & Shenfeld 2025, "Privacy amplification by random allocation", statement by statement.

jaxacct uses Theorems 4.6, 4.8 for Gaussian noise and 4.9, and the exact profile, for `jaxacct.RandomAllocation`. This
module has the statements that others supersede, and k-out-of-t allocation itself, not reduced to 1-out-of-(t/k).
"""

from jaxacct.papers.random_allocation._combined import combined_delta, combined_epsilon
from jaxacct.papers.random_allocation._discrete_moments import discrete_remove_rdp
from jaxacct.papers.random_allocation._envelope import convex_envelope
from jaxacct.papers.random_allocation._few_steps import few_steps_delta
from jaxacct.papers.random_allocation._overlap_exact import exact_overlap_rdp
from jaxacct.papers.random_allocation._posterior_rate import posterior_rate
from jaxacct.papers.random_allocation._recursive import (
    recursive_delta,
    recursive_epsilon,
    recursive_factor,
    recursive_rate,
)
from jaxacct.papers.random_allocation._truncated_poisson import (
    Width,
    capped_poisson_delta,
    doob_log_tail,
    large_noise_delta,
    truncated_poisson_delta,
    truncated_poisson_epsilon,
    truncation_rate,
)

__all__ = [
    "Width",
    "capped_poisson_delta",
    "combined_delta",
    "combined_epsilon",
    "convex_envelope",
    "discrete_remove_rdp",
    "doob_log_tail",
    "exact_overlap_rdp",
    "few_steps_delta",
    "large_noise_delta",
    "posterior_rate",
    "recursive_delta",
    "recursive_epsilon",
    "recursive_factor",
    "recursive_rate",
    "truncated_poisson_delta",
    "truncated_poisson_epsilon",
    "truncation_rate",
]
