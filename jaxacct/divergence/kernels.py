"""Divergences of named pairs on which `jaxacct.papers` builds: the only part of this package that it may import.

Each name in `__all__` keeps its meaning while the modules behind it change. Every function is documented where it is
defined. `jaxacct.bounds.theorems` is the corresponding list of theorems.
"""

from jaxacct.divergence.allocation._powers import general_rdp
from jaxacct.divergence.check_in._blocks import BlockLayout, Blocks, binomial_blocks, log_mixture
from jaxacct.divergence.clones._multi_component import (
    ComponentPair,
    component_windows,
    cut_at,
    enclosure,
    k_ary_blanket_pair,
    mass_outside,
    prepare,
    window_start,
)
from jaxacct.divergence.clones._profile import WIDEST_WINDOW, ProfileEnds, clones_delta
from jaxacct.divergence.clones._profile import lane_bytes as clones_lane_bytes
from jaxacct.divergence.clones._profile import window_for as clones_window
from jaxacct.divergence.clones._renyi import clones_rdp
from jaxacct.divergence.gaussian._pair import gaussian_log_delta
from jaxacct.divergence.response._lattice_comb import (
    EXPONENT,
    gamma_reach,
    left_reach,
    log_aliases,
    right_reach,
    stride,
)
from jaxacct.divergence.response._renyi import LARGEST, power_excess, response_log_excess, response_window
from jaxacct.divergence.response._special_pair import (
    SINGLE_ULPS,
    exponential_log_moment,
    log_scaled_gamma,
    log_sinh,
    moment_bound_log_excess,
    single_log_cap,
    single_log_excess,
)

__all__ = [
    "EXPONENT",
    "LARGEST",
    "SINGLE_ULPS",
    "WIDEST_WINDOW",
    "BlockLayout",
    "Blocks",
    "ComponentPair",
    "ProfileEnds",
    "binomial_blocks",
    "clones_delta",
    "clones_lane_bytes",
    "clones_rdp",
    "clones_window",
    "component_windows",
    "cut_at",
    "enclosure",
    "exponential_log_moment",
    "gamma_reach",
    "gaussian_log_delta",
    "general_rdp",
    "k_ary_blanket_pair",
    "left_reach",
    "log_aliases",
    "log_mixture",
    "log_scaled_gamma",
    "log_sinh",
    "mass_outside",
    "moment_bound_log_excess",
    "power_excess",
    "prepare",
    "response_log_excess",
    "response_window",
    "right_reach",
    "single_log_cap",
    "single_log_excess",
    "stride",
    "window_start",
]
