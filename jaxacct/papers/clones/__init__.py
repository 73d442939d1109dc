"""Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", statement by statement.

jaxacct uses the clones pair itself, Theorem 3.1, the privacy blanket and the purified Gaussian for `jaxacct.Shuffled`.
This module has the other statements.
"""

from jaxacct.papers.clones._closed import (
    clone_only_epsilon,
    k_ary_epsilon,
    optimal_composition_delta,
    rederived_epsilon,
    simple_composition_epsilon,
    three_component_epsilon,
)
from jaxacct.papers.clones._pairs import (
    amplification_limit,
    blocks_delta,
    floor_delta,
    k_ary_blanket_delta,
    k_ary_three_component_delta,
    three_component_delta,
)
from jaxacct.papers.clones._published import (
    balle_adaptive_epsilon,
    balle_blanket_delta,
    cheu_binary_epsilon,
    frequency_local_epsilon,
    frequency_mean_squared_error,
    sampling_with_replacement_epsilon,
    tail_masses,
)
from jaxacct.papers.clones._reductions import (
    approximate_delta,
    approximate_epsilon,
    purified,
    purified_gaussian_epsilon,
    replacement_from_deletion,
    subsampled_guarantee,
)
from jaxacct.papers.clones._sufficient import (
    fewest_reports,
    largest_local_epsilon,
    least_gaussian_noise,
    sufficient_gaussian_noise,
)

__all__ = [
    "amplification_limit",
    "approximate_delta",
    "approximate_epsilon",
    "balle_adaptive_epsilon",
    "balle_blanket_delta",
    "blocks_delta",
    "cheu_binary_epsilon",
    "clone_only_epsilon",
    "fewest_reports",
    "floor_delta",
    "frequency_local_epsilon",
    "frequency_mean_squared_error",
    "k_ary_blanket_delta",
    "k_ary_epsilon",
    "k_ary_three_component_delta",
    "largest_local_epsilon",
    "least_gaussian_noise",
    "optimal_composition_delta",
    "purified",
    "purified_gaussian_epsilon",
    "rederived_epsilon",
    "replacement_from_deletion",
    "sampling_with_replacement_epsilon",
    "simple_composition_epsilon",
    "subsampled_guarantee",
    "sufficient_gaussian_noise",
    "tail_masses",
    "three_component_delta",
    "three_component_epsilon",
]
