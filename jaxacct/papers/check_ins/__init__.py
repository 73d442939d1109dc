"""Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", statement by statement.

`jaxacct.epsilon` and its relatives use the direct profile over the clones pair, and its Renyi curve, for
`jaxacct.CheckIn`. The other statements are here: those of the paper with their slips corrected, sound versions of those
that are false, lower bounds on any valid curve, and, under names that begin with `published`, formulas as printed.
"""

from jaxacct.papers.check_ins._distributed import TernaryMoment
from jaxacct.papers.check_ins._from_below import (
    floor_rdp,
    gaussian_pair_rdp,
    gaussian_pair_sandwich,
    response_pair_rdp,
    sampled_gaussian_pair_rdp,
)
from jaxacct.papers.check_ins._guarantees import (
    approximate_rdp,
    binomial_upper_tail,
    sampled_guarantee,
    shuffled_guarantee,
    theorem1_guarantee,
)
from jaxacct.papers.check_ins._moment_statements import (
    constant_base_rdp,
    distributed_rdp,
    log_ternary_moment,
    low_participation_prob,
    response_rdp,
    subset_rdp,
    theorem2_rdp,
)
from jaxacct.papers.check_ins._optimal_conversion import least_rdp, optimal_epsilon
from jaxacct.papers.check_ins._profiles import coupled_delta, coupled_epsilon, direct_delta
from jaxacct.papers.check_ins._published import (
    published_approach1_rdp,
    published_approach2_rdp,
    published_distributed_rdp,
    published_shuffling,
    published_subsampled_gaussian_rdp,
    published_theorem1,
)

__all__ = [
    "TernaryMoment",
    "approximate_rdp",
    "binomial_upper_tail",
    "constant_base_rdp",
    "coupled_delta",
    "coupled_epsilon",
    "direct_delta",
    "distributed_rdp",
    "floor_rdp",
    "gaussian_pair_rdp",
    "gaussian_pair_sandwich",
    "least_rdp",
    "log_ternary_moment",
    "low_participation_prob",
    "optimal_epsilon",
    "published_approach1_rdp",
    "published_approach2_rdp",
    "published_distributed_rdp",
    "published_shuffling",
    "published_subsampled_gaussian_rdp",
    "published_theorem1",
    "response_pair_rdp",
    "response_rdp",
    "sampled_gaussian_pair_rdp",
    "sampled_guarantee",
    "shuffled_guarantee",
    "subset_rdp",
    "theorem1_guarantee",
    "theorem2_rdp",
]
