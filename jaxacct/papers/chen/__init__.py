"""Statements of Chen et al. 2024, "Renyi Differential Privacy in the Shuffle Model: Enhanced Amplification Bounds".

jaxacct uses the divergence, trade-off function and Gaussian parameter of the clones pair for `jaxacct.Shuffled`. This
module has closed-form bounds on that divergence, and the paper's estimates, which are not bounds.
"""

from jaxacct.papers.chen._bounds import (
    block_epoch_rdp,
    cosh_sandwich_rdp,
    laplace_rdp,
    local_epsilon_for_slope,
    moment_sandwich_rdp,
    pair_masses,
)
from jaxacct.papers.chen._published import (
    ORDER_LEVELS,
    laplace_scale,
    limit_gdp,
    limit_rdp,
    order_level_rdp,
    published_gdp,
    published_local_epsilon,
    published_rdp,
)

__all__ = [
    "ORDER_LEVELS",
    "block_epoch_rdp",
    "cosh_sandwich_rdp",
    "laplace_rdp",
    "laplace_scale",
    "limit_gdp",
    "limit_rdp",
    "local_epsilon_for_slope",
    "moment_sandwich_rdp",
    "order_level_rdp",
    "pair_masses",
    "published_gdp",
    "published_local_epsilon",
    "published_rdp",
]
