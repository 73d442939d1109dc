"""Girgis et al. 2021, "On the Renyi Differential Privacy of the Shuffle Model", statement by statement.

`jaxacct.rdp` of `jaxacct.Shuffled` takes the least of the paper's upper bounds, repaired, and the exact mixture that is
below all of them. This module has the statements one by one, the lower bounds, and the results on special pairs.
"""

from jaxacct.papers.girgis._from_above import (
    SpecialPair,
    at_real_orders,
    best_split_rdp,
    corollary1_rdp,
    earlier_rdp,
    sampled_rdp,
    theorem1_rdp,
    theorem2_rdp,
    theorem4_rdp,
)
from jaxacct.papers.girgis._from_below import (
    corollary2_rdp,
    histogram_rdp,
    lower_rdp,
    response_rdp,
    ternary_response_rdp,
)
from jaxacct.papers.girgis._pairs import (
    largest_chi_square,
    largest_moment,
    moment_bound,
    special_pair_rdp,
    theorem5_rdp,
    theorem6_rdp,
)
from jaxacct.papers.girgis._published import published_sampled_rdp, remark3_split

__all__ = [
    "SpecialPair",
    "at_real_orders",
    "best_split_rdp",
    "corollary1_rdp",
    "corollary2_rdp",
    "earlier_rdp",
    "histogram_rdp",
    "largest_chi_square",
    "largest_moment",
    "lower_rdp",
    "moment_bound",
    "published_sampled_rdp",
    "remark3_split",
    "response_rdp",
    "sampled_rdp",
    "special_pair_rdp",
    "ternary_response_rdp",
    "theorem1_rdp",
    "theorem2_rdp",
    "theorem4_rdp",
    "theorem5_rdp",
    "theorem6_rdp",
]
