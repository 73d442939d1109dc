"""How jaxacct answers the reference values of "Hiding Among the Clones" other than those of the clones pair."""

import math
from fractions import Fraction

import jax.numpy as jnp
import mpmath as mp
import numpy as np

import jaxacct as ja
from jaxacct._precision import Kernel, float64_kernel
from jaxacct._types import Ends
from jaxacct.bounds.discrete import has_types
from jaxacct.bounds.shuffle import _approximate as reductions
from jaxacct.bounds.shuffle import _closed_form as closed
from jaxacct.bounds.shuffle import _rounds as composition
from jaxacct.divergence.clones import _multi_component as component
from jaxacct.divergence.clones import _multi_component_mean as mean
from jaxacct.divergence.clones._profile import clones_delta, clones_epsilon, lane_bytes, window_for
from jaxacct.divergence.gaussian._pair import gaussian_log_delta
from jaxacct.divergence.response import _binary as binary
from jaxacct.papers import clones, girgis
from jaxacct.papers.chen import pair_masses
from jaxacct.papers.clones import _closed as other_forms
from jaxacct.papers.clones import _closed as rounds
from jaxacct.papers.clones import _pairs as limits
from jaxacct.papers.clones import _pairs as three
from jaxacct.papers.clones import _published as estimates
from jaxacct.papers.clones import _reductions as results
from jaxacct.papers.clones import _sufficient as sufficient
from support.reference import Declined, Quantity, Side, real

_ROUNDED_UP = "closed form, rounded up by 2^-46"
_SUMS = "sum of positive terms, each widened by its error: 2e-12 for n to 1e6"
_ROOT = "least point found where the certified delta is below the target"


def exponent(args, name):
    """eps0 or eps, or the logarithm of exp_eps0 or exp_eps."""
    return float(args[name]) if name in args else float(mp.log(mp.mpf(Fraction(args["exp_" + name]))))


def closed_form(parameters):
    def fn(num_reports, log_delta, *args):
        return closed.closed_form_epsilon(num_reports, parameters(*args), log_delta)

    return Kernel(fn)


def component_kernel(pair):
    def fn(epsilon, num_reports, *args, num_clones, num_rest, num_heads):
        windows = {"num_clones": num_clones, "num_rest": num_rest, "num_heads": num_heads}
        return tuple(three.component_delta(epsilon, num_reports, pair(*args), **windows))

    kernel = Kernel(fn)

    def evaluate(epsilon, num_reports, *args):
        """Ends of Python floats."""
        at = pair(*(jnp.asarray(a, float) for a in args))
        sizes = component.component_windows(num_reports, float(at.clone_prob), float(at.rest_prob))
        sizes = [max(512, size) for size in sizes]  # one program for most
        windows = dict(zip(("num_clones", "num_rest", "num_heads"), sizes, strict=True))
        return Ends(*(float(v) for v in kernel(epsilon, num_reports, *args, **windows)))

    return evaluate


def mean_kernel(pair, *, on_host=True):
    def fn(epsilon, num_reports, *args, num_clones):
        return tuple(mean.mean_component_delta(epsilon, num_reports, pair(*args), num_clones=num_clones))

    kernel = Kernel(fn, on_host=on_host)

    def evaluate(epsilon, num_reports, *args):
        at = pair(*(jnp.asarray(a, float) for a in args))
        size = max(1024, component.component_windows(num_reports, float(at.clone_prob), float(at.rest_prob))[0])
        return Ends(*(float(v) for v in kernel(epsilon, num_reports, *args, num_clones=size)))

    return evaluate


pure_form, rederived_form = closed_form(closed.pure_parameters), closed_form(other_forms.rederived_parameters)
clone_only_form = closed_form(other_forms.clone_only_parameters)
three_component_form, k_ary_form = (
    closed_form(other_forms.three_component_parameters),
    closed_form(other_forms.k_ary_parameters),
)
three_component = component_kernel(three.three_component_pair)
k_ary_three_component = component_kernel(three.k_ary_three_component_pair)
k_ary_blanket = component_kernel(component.k_ary_blanket_pair)
three_component_mean = mean_kernel(three.three_component_pair, on_host=False)
k_ary_mean = mean_kernel(component.k_ary_blanket_pair)
k_ary_elsewhere = mean_kernel(mean.k_ary_elsewhere_pair)
binary_delta = Kernel(binary.binary_response_log_delta, on_host=True)
binary_delta_on_lanes = Kernel(binary.binary_response_log_delta)
binary_epsilon = Kernel(binary.binary_response_epsilon, on_host=True)
delta_floor = Kernel(limits.clones_log_delta_floor)
simple_epsilon = Kernel(rounds.simple_epsilon)
optimal_log_delta = Kernel(composition.optimal_log_delta, on_host=True)
optimal_epsilon, with_slack = Kernel(composition.optimal_epsilon), Kernel(rounds.log_delta_with_slack)
frequency_epsilon = Kernel(estimates.frequency_local_epsilon_lanes)
sufficient_noise, least_noise = Kernel(sufficient.sufficient_gaussian_noise_lanes), Kernel(sufficient.gaussian_noise)
gaussian_delta = Kernel(gaussian_log_delta)
subsampled = Kernel(
    lambda epsilon, log_delta, q: tuple(results.subsampled(reductions.LogGuarantee(epsilon, log_delta), q))
)


@Kernel
def approximate_log_delta(epsilon, log_delta, num_reports, local_epsilon, local_log_delta):
    cost = reductions.log_replacement_cost(num_reports, local_epsilon, local_log_delta, jnp.ones_like(epsilon))
    return reductions.with_replacement_cost(reductions.LogGuarantee(epsilon, log_delta), cost).log_delta


@float64_kernel(on_host=True)
def approximate_epsilon(num_reports, local_epsilon, local_log_delta, log_delta, *, window):
    cost = reductions.log_replacement_cost(num_reports, local_epsilon, local_log_delta, 0.0 * num_reports + 1.0)
    profile = reductions.pure_profile(window=window)
    return reductions.total_epsilon(profile, num_reports, local_epsilon, cost, log_delta)


@Kernel
def largest_local_epsilon(num_reports, epsilon, log_delta, *, window):
    profile = reductions.pure_profile(window=window)
    return sufficient.largest_local_epsilon_lanes(profile, num_reports, epsilon, log_delta, 10.0 + epsilon)


@float64_kernel(on_host=True)
def fewest_reports(local_epsilon, epsilon, log_delta, *, window):
    profile = reductions.pure_profile(window=window)
    return sufficient.fewest_reports_lanes(profile, local_epsilon, epsilon, log_delta, 1e9 + 0.0 * epsilon)


def _weighted(form, weight, *names):
    """The raw formula at delta: the library's form at weight * delta, which is what the formula guarantees."""

    def evaluate(a):
        return form(a["n"], math.log(a["delta"]) + math.log(weight(a)), *(a[name] for name in names))

    return evaluate


def _response_weight(a):
    return math.tanh(0.5 * a["eps0"])


def _binary_window(a):
    return max(2048, binary.binary_response_window(a["n"]))


def _delta_2rr(a):
    return math.exp(binary_delta(exponent(a, "eps"), a["n"], exponent(a, "eps0"), window=_binary_window(a)))


def _compose_optimal(a):
    total = (a["T"] - 2 * a["i"]) * a["eps"]
    return clones.optimal_composition_delta(total, a["eps"], a["delta"], num_steps=a["T"])


def _eps_approx_local(a):
    return clones.approximate_epsilon(a["n"], a["eps0"], a["delta0"], a["delta_total"])


def _eps_shuffled_gaussian(a):
    return clones.purified_gaussian_epsilon(a["n"], a["eps0"], a["sigma"] / a["clip"], a["delta_total"])


def _clip_tv(a):
    laws = [np.asarray([real(v) for v in a[name]]) for name in ("rx", "rho")]
    return clones.purified(*laws, exponent(a, "eps")).total_variation


def _gaussian_delta_at_paper_sigma(a):
    sigma = clones.sufficient_gaussian_noise(a["eps0"], a["delta0"], sensitivity=1.0)
    return math.exp(gaussian_delta(a["eps0"], a["sensitivity"] / sigma))


_delta_kernel = Kernel(clones_delta, lane_bytes=lane_bytes, on_host=True)
_epsilon_kernel = Kernel(clones_epsilon, lane_bytes=lane_bytes, on_host=True)


def _clones_delta(epsilon: float, num_reports: float, clone_prob: float, local_epsilon: float) -> float:
    """log delta with every count summed."""
    window = window_for(num_reports, clone_prob, max_window=2**19)
    return float(_delta_kernel(epsilon, num_reports, clone_prob, local_epsilon, window=window).log_delta.upper)


def _clones_epsilon(log_delta: float, num_reports: float, clone_prob: float, local_epsilon: float) -> float:
    window = window_for(num_reports, clone_prob, max_window=2**19)
    return float(_epsilon_kernel(log_delta, num_reports, clone_prob, local_epsilon, window=window).upper)


def _block_delta(a):
    """The end that `bound` names."""
    at = clones.blocks_delta(exponent(a, "eps"), a["n"], exponent(a, "eps0"), width=a["block"])
    return at.lower if a["bound"] == "lower" else at.upper


def _delta_composed(a):
    """Every outcome of the pair, `T` times: small n and T."""
    n, local = int(a["n"]), exponent(a, "eps0")
    outcomes = [(x, m - x) for m in range(1, n + 1) for x in range(m + 1)]
    p, q = np.asarray([pair_masses(x, y, n, math.exp(-local), local) for x, y in outcomes]).T
    run = ja.Composed((ja.DiscretePair(p, q),), (int(a["T"]),))
    if not has_types(run):
        raise Declined("more outcomes than can be enumerated")
    return ja.delta(run, exponent(a, "eps"), method="exact")


ANSWERS = {
    ("S1", "eps_closed_form"): Quantity(_weighted(pure_form, _response_weight, "eps0"), _ROUNDED_UP),
    ("S1", "eps_closed_form_refined"): Quantity(
        lambda a: pure_form(a["n"], math.log(a["delta"]), a["eps0"]), _ROUNDED_UP
    ),
    ("S3", "eps_closed_form_clone_only"): Quantity(
        lambda a: clones.clone_only_epsilon(a["n"], a["p"], a["delta"]), _ROUNDED_UP
    ),
    ("S4", "delta_blocks"): Quantity(_block_delta, _SUMS, side=Side.EITHER),
    ("S5", "eps_subsample"): Quantity(
        lambda a: clones.subsampled_guarantee(a["eps"], 1.0, a["q"]).epsilon, _ROUNDED_UP
    ),
    ("S7", "delta_total"): Quantity(
        lambda a: clones.approximate_delta(a["eps"], a["delta"], a["n"], a["eps0"], a["delta0"]),
        _ROUNDED_UP,
    ),
    ("S7", "eps_approx_local"): Quantity(_eps_approx_local, _ROOT),
    ("S8", "clip_tv"): Quantity(_clip_tv, _ROUNDED_UP),
    ("S8", "eps_shuffled_gaussian"): Quantity(_eps_shuffled_gaussian, _ROOT),
    ("S9", "delta_three_component"): Quantity(
        lambda a: clones.three_component_delta(exponent(a, "eps"), a["n"], real(a["p"]), real(a["q"])).upper, _SUMS
    ),
    ("S9", "eps_closed_form_three_component"): Quantity(
        lambda a: clones.three_component_epsilon(a["n"], a["p"], a["q"], a["q"] * a["delta"]), _ROUNDED_UP
    ),
    ("S10", "delta_krr_blanket"): Quantity(
        lambda a: clones.k_ary_blanket_delta(a["eps"], a["n"], a["eps0"], a["k"]).upper, _SUMS
    ),
    ("S10", "delta_krr_elsewhere"): Quantity(
        lambda a: k_ary_elsewhere(a["eps"], a["n"], a["eps0"], a["k"]).lower, _SUMS, side=Side.NEVER_ABOVE
    ),
    ("S10", "delta_krr_three_component"): Quantity(
        lambda a: clones.k_ary_three_component_delta(a["eps"], a["n"], a["eps0"], a["k"]).upper, _SUMS
    ),
    ("S10", "eps_closed_form_krr"): Quantity(
        lambda a: clones.k_ary_epsilon(
            a["n"], a["eps0"], a["k"], a["delta"] * math.expm1(a["eps0"]) / (math.expm1(a["eps0"]) + a["k"])
        ),
        _ROUNDED_UP,
    ),
    ("S11", "eps_closed_form_rederived"): Quantity(
        lambda a: clones.rederived_epsilon(a["n"], a["eps0"], _response_weight(a) * a["delta"]), _ROUNDED_UP
    ),
    ("S12", "eps0_calibration"): Quantity(
        lambda a: clones.frequency_local_epsilon(a["eps"], a["n"], a["delta"]), "closed form", side=Side.EITHER
    ),
    ("S12", "mse_bound"): Quantity(
        lambda a: clones.frequency_mean_squared_error(a["n"], a["eps0"], a["k"]), "closed form", side=Side.EITHER
    ),
    ("S13", "eps_bst14_no_constant"): Quantity(
        lambda a: clones.sampling_with_replacement_epsilon(a["n"], a["eps0"], a["delta"]),
        "closed form",
        side=Side.EITHER,
    ),
    ("S13", "gaussian_delta_at_paper_sigma"): Quantity(
        _gaussian_delta_at_paper_sigma, "the noise is rounded up, which lowers delta", side=Side.EITHER
    ),
    ("S13", "sgd_sigma_paper"): Quantity(
        lambda a: clones.sufficient_gaussian_noise(a["eps0"], a["delta0"], sensitivity=1.0), _ROUNDED_UP
    ),
    ("S15", "compose_optimal_delta"): Quantity(_compose_optimal, _SUMS),
    ("S15", "delta_composed_exact"): Quantity(_delta_composed, "sums over types, rounded up"),
    ("S15", "compose_simple_eps"): Quantity(
        lambda a: clones.simple_composition_epsilon(a["eps"], a["T"], a["slack"]), _ROUNDED_UP
    ),
    ("S16", "delta_2rr"): Quantity(_delta_2rr, _SUMS, side=Side.NEVER_ABOVE),
    ("S16", "eps_2rr"): Quantity(
        lambda a: binary_epsilon(math.log(a["delta"]), a["n"], a["eps0"], window=_binary_window(a)),
        _ROOT,
        side=Side.NEVER_ABOVE,
    ),
    ("S17", "rdp_2rr"): Quantity(
        lambda a: max(
            girgis.response_rdp(a["n"], a["eps0"], orders=[a["order"]], reverse=reverse).lower[0]
            for reverse in (False, True)
        ),
        _SUMS,
        side=Side.NEVER_ABOVE,
    ),
    ("S18", "delta_all_agree"): Quantity(
        lambda a: clones.floor_delta(a["eps"], a["n"], a["eps0"]), "closed form", side=Side.NEVER_ABOVE
    ),
    ("S19", "eps0_for_target"): Quantity(
        lambda a: clones.largest_local_epsilon(a["n"], a["eps"], a["delta"]),
        _ROOT,
        side=Side.NEVER_ABOVE,
    ),
    ("S20", "delta_bbgn_bennett_generic"): Quantity(
        lambda a: clones.balle_blanket_delta(a["eps"], a["n"], a["eps0"]), "a difference of powers", side=Side.EITHER
    ),
    ("S20", "rdp_gddsk_theorem1"): Quantity(
        lambda a: girgis.theorem1_rdp(a["n"], a["eps0"], orders=[a["order"]])[0], "rounded up"
    ),
    ("S2", "delta"): Quantity(
        lambda a: math.exp(
            _clones_delta(exponent(a, "eps"), a["n"], math.exp(-exponent(a, "eps0")), exponent(a, "eps0"))
        ),
        _SUMS,
    ),
    ("S2", "eps"): Quantity(
        lambda a: _clones_epsilon(math.log(a["delta"]), a["n"], math.exp(-a["eps0"]), a["eps0"]), _ROOT, 1e-10
    ),
    ("S3", "delta_clone_only"): Quantity(lambda a: math.exp(_clones_delta(a["eps"], a["n"], a["p"], math.inf)), _SUMS),
}
