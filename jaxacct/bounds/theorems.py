"""The bounds that `jaxacct.papers` also states: the only names that papers may import from `jaxacct.bounds`.

The names in `__all__` keep their meaning while the modules behind them change. Every function is documented where it is
defined. `jaxacct.divergence.kernels` is the same list for the divergences.
"""

from jaxacct.bounds.allocation._decomposition import decomposition_delta, decomposition_epsilon
from jaxacct.bounds.allocation._posterior_rate import (
    AddProfile,
    Tail,
    TailBound,
    decomposition_add_profile,
    doob_exponent,
    doob_log_moment,
    doob_log_moments,
    step_deltas,
    truncated_delta,
    truncated_epsilon,
)
from jaxacct.bounds.allocation._renyi import closed_form_add_epsilon, closed_form_add_log_delta, direct_remove_rdp, uses
from jaxacct.bounds.check_in._floor import setting_of
from jaxacct.bounds.gaussian import unamplified_epsilon, unamplified_log_delta
from jaxacct.bounds.poisson._profile import PoissonSteps, concrete_base, poisson_pld, runs_of
from jaxacct.bounds.shuffle._approximate import (
    LogGuarantee,
    Profile,
    log_gaussian_replacement_cost,
    log_replacement_cost,
    pure_profile,
    total_epsilon,
    with_replacement_cost,
)
from jaxacct.bounds.shuffle._closed_form import ClonesParameters, closed_form_epsilon, pure_parameters
from jaxacct.bounds.shuffle._rounds import composition_window, optimal_log_delta
from jaxacct.bounds.shuffle._special_pairs import (
    cap_rdp,
    earlier_rdp,
    fail_closed,
    mean_copies,
    theorem1_rdp,
    theorem2_rdp,
)
from jaxacct.bounds.shuffle._special_pairs_exact import (
    is_usable,
    mixture_layout,
    mixture_of,
    mixture_rdp,
    mixture_statics,
)
from jaxacct.curves._from_profile import MAX_EPSILON, hull, loss_rounding

__all__ = [
    "MAX_EPSILON",
    "AddProfile",
    "ClonesParameters",
    "LogGuarantee",
    "PoissonSteps",
    "Profile",
    "Tail",
    "TailBound",
    "cap_rdp",
    "closed_form_add_epsilon",
    "closed_form_add_log_delta",
    "closed_form_epsilon",
    "composition_window",
    "concrete_base",
    "decomposition_add_profile",
    "decomposition_delta",
    "decomposition_epsilon",
    "direct_remove_rdp",
    "doob_exponent",
    "doob_log_moment",
    "doob_log_moments",
    "earlier_rdp",
    "fail_closed",
    "hull",
    "is_usable",
    "log_gaussian_replacement_cost",
    "log_replacement_cost",
    "loss_rounding",
    "mean_copies",
    "mixture_layout",
    "mixture_of",
    "mixture_rdp",
    "mixture_statics",
    "optimal_log_delta",
    "poisson_pld",
    "pure_parameters",
    "pure_profile",
    "runs_of",
    "setting_of",
    "step_deltas",
    "theorem1_rdp",
    "theorem2_rdp",
    "total_epsilon",
    "truncated_delta",
    "truncated_epsilon",
    "unamplified_epsilon",
    "unamplified_log_delta",
    "uses",
    "with_replacement_cost",
]
