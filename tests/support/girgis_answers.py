"""How jaxacct answers the reference values of Girgis et al. 2021, and of what Chen et al. restate of it."""

import functools
import math

import jax.numpy as jnp
import mpmath as mp
import numpy as np

import jaxacct as ja
from jaxacct._precision import Kernel
from jaxacct.bounds.shuffle import _rounds as composition
from jaxacct.bounds.shuffle import _special_pairs as lanes
from jaxacct.bounds.shuffle import _special_pairs_exact as mixture
from jaxacct.conversion import epsilon_from_rdp, log_delta_from_rdp
from jaxacct.divergence.clones._profile import clones_delta, window_for
from jaxacct.divergence.clones._renyi import clones_rdp
from jaxacct.divergence.response import _special_pair as special
from jaxacct.divergence.response._binary import binary_response_log_delta, binary_response_window
from jaxacct.divergence.response._renyi import response_window
from jaxacct.papers import clones, girgis
from jaxacct.papers.girgis import _from_above as mixtures
from jaxacct.papers.girgis import _from_above as upper
from jaxacct.papers.girgis import _from_below as below
from jaxacct.papers.girgis import _pairs as pairs
from jaxacct.papers.girgis import _published as estimate
from jaxacct.papers.girgis._from_below import MOST_CELLS, response_renyi
from jaxacct.papers.girgis._ternary_response import ternary_response_renyi, ternary_window
from jaxacct.special import at_real_orders
from support.reference import Declined, Quantity, Side, span

# on lanes, for the tests of the kernels; the reference values are answered by the statements of `jaxacct.papers`
# one lane by NumPy, as the statements: `test_both_paths` compares it with the programs, which answer many lanes here
_kernel = functools.partial(Kernel, on_host=True)
theorem1, theorem2, paper = _kernel(lanes.theorem1_rdp), _kernel(lanes.theorem2_rdp), _kernel(lanes.paper_rdp)


def _theorem1_real(n, local_epsilon, *, orders):
    """Equation (8): the chord between whole orders."""
    known = tuple(range(2, max(2, math.ceil(max(orders))) + 1))
    return at_real_orders(lanes.theorem1_rdp(n, local_epsilon, orders=known), known, orders)


theorem1_real = _kernel(_theorem1_real)
best_split, simple, earlier = _kernel(upper.best_split_rdp_lanes), _kernel(upper.simple_rdp), _kernel(lanes.earlier_rdp)
cap = _kernel(lanes.cap_rdp)
published_sampled = _kernel(
    lambda s, n, e, *, orders, general: estimate.published_sampled_rdp_lanes(
        lanes.theorem1_rdp(n, e, orders=tuple(range(2, max(orders) + 1))), s, orders=orders, general=general
    )
)
exact_mixture = _kernel(mixture.mixture_rdp, lane_bytes=lambda *, orders, nodes, window: 64 * nodes * window)
moment_mixture = _kernel(mixtures.moment_mixture_rdp, lane_bytes=2**20)
sampled_mixture = _kernel(mixtures.sampled_mixture_rdp, lane_bytes=2**22)
lower_simple = _kernel(below.simple_lower_rdp)
lower, ternary = _kernel(below.lower_rdp_lanes, lane_bytes=below.lower_lane_bytes), _kernel(ternary_response_renyi)
response = _kernel(
    lambda n, e, *, orders, window, reverse: tuple(response_renyi(n, e, orders=orders, window=window, reverse=reverse))
)
moment_bound, special_excess = _kernel(special.moment_bound_log_excess), _kernel(pairs.special_pair_log_excess)
known_moment_bound = _kernel(
    lambda m, e, chi2, *, orders: special.moment_bound_log_excess(m, e, orders=orders, log_chi_square=chi2)
)
exponential = _kernel(lambda m, e, a, *, sharp: special.exponential_log_moment(m, e, a, sharp=sharp))
log_moments, moment_tail = _kernel(pairs.log_moments), _kernel(pairs.log_moment_bound)
optimal_log_delta = _kernel(composition.optimal_log_delta)
binary_delta = _kernel(binary_response_log_delta)
pair_delta = Kernel(
    lambda e, n, local, *, window: clones_delta(e, n, np.e**-local, local, window=window).log_delta.upper
)
converted = Kernel(lambda log_delta, *rdp, orders: epsilon_from_rdp(*_columns(orders, rdp), log_delta).value)
converted_delta = Kernel(lambda epsilon, *rdp, orders: log_delta_from_rdp(*_columns(orders, rdp), epsilon).value)

pair_rdp = Kernel(lambda n, p, local, *, orders: clones_rdp(orders, n, p, local).upper, lane_bytes=2**20, on_host=True)

_SUMS = "sum of positive terms, each widened by its error"
_CLOSED = "closed form, rounded up"
_COMBS = "every h-th count of positive terms, aliases and rounding added: 1e-12"
_SERIES = "a series of positive terms: 2^-52 (i + 8)(i + 16) of the i-th"


# Orders of most rows, evaluated together: one program instead of one for each.
_COMMON = (2, 3, 4, 5, 8, 10, 16, 17, 25, 32, 64, 80, 100, 256)


def at_order(curve, order):
    """`curve(orders)` [A] at one order."""
    orders = _COMMON if order in _COMMON else (order,)
    return curve(orders)[orders.index(order)]


def _columns(orders, rdp):
    return jnp.asarray(orders, jnp.float64)[:, None], jnp.stack(rdp)


def local(args):
    """eps0, where log 2 and log exp_eps0 are meant exactly."""
    return float(mp.log(args["exp_eps0"])) if "exp_eps0" in args else float(args["eps0"])


def mixture_at(n, eps0, order):
    """The certified tight bound at one order."""
    return exact_mixture(n, eps0, orders=(order,), **mixture.mixture_statics(n, eps0, (order,)))[0]


def response_at(n, eps0, orders, reverse=False):
    """(lower, upper) of binary randomized response."""
    top = 1.0 - max(orders) if reverse else max(orders)
    window = max(128, response_window(n, eps0, top))  # one program for most
    return response(n, eps0, orders=tuple(orders), window=window, reverse=reverse)


def ternary_at(n, eps0, orders):
    return ternary(n, eps0, orders=tuple(orders), window=ternary_window(n, eps0, max(orders)))


def lower_at(n, eps0, orders):
    return lower(n, eps0, orders=tuple(orders), **below.lower_statics(n, eps0, orders))


def special_pair(m, eps0, orders, sampling_prob=1.0):
    """Renyi divergences of m clients, binary powering: any m."""
    bits = int(m).bit_length()
    excess = special_excess(m, eps0, sampling_prob, orders=tuple(orders), num_bits=bits)
    return np.logaddexp(0.0, excess) / (np.asarray(orders) - 1.0)


def k_ary_share(args):
    """The probability with which k-ary randomized response's special pairs are those of binary response."""
    return (args["exp_eps0"] + 1.0) / (args["exp_eps0"] + args["k"] - 1.0)


def k_ary_rdp(growth, k, data, other, order):
    """From below, from the exact laws of the histograms; few reports and values."""
    reports = (np.full((k, k), 1.0) + (growth - 1.0) * np.eye(k)) / (growth + k - 1.0)
    if (len(data) + 1) ** (k - 1) > MOST_CELLS:
        raise Declined("too many histograms")
    return float(girgis.histogram_rdp(*(reports[list(values)] for values in (data, other)), orders=[order]).lower[0])


def _exact_shuffle(a):
    if a["mechanism"] != "krr":
        raise Declined(f"mechanism {a['mechanism']}")
    growth = float(a["exp_eps0"]) if "exp_eps0" in a else math.exp(a["eps0"])
    return k_ary_rdp(growth, a["k"], a["data"], a["data_prime"], a["order"])


def _thm1(a):
    split = {"split": a["gamma"]} if "gamma" in a else {}
    return at_order(lambda orders: girgis.theorem1_rdp(a["n"], a["eps0"], orders=orders, **split), a["order"])


def _thm2(a):
    split = {"split": a["gamma"]} if "gamma" in a else {}
    return at_order(lambda orders: girgis.theorem2_rdp(a["n"], a["eps0"], orders=orders, **split), a["order"])


def _mixture(a):
    pairs_of = {"exact": girgis.SpecialPair.EXACT, "thm5": girgis.SpecialPair.MOMENTS}
    if a["special"] not in pairs_of:
        raise Declined(f"special {a['special']}")
    return girgis.theorem4_rdp(a["n"], a["eps0"], orders=[a["order"]], special_pair=pairs_of[a["special"]])[0]


_BASES = {
    "thm1": girgis.theorem1_rdp,
    "thm2": girgis.theorem2_rdp,
    "efm19": girgis.earlier_rdp,
    "simple": girgis.corollary1_rdp,
}


def base_curve(a, orders):
    """The Renyi curve of one round that `base` names."""
    if a["base"] == "2rr_lower":  # the upper end of its bracket: a curve from below converts to no bound anyway
        return girgis.response_rdp(a["n"], a["eps0"], orders=orders).upper
    if a["base"] not in _BASES:
        raise Declined(f"base {a['base']}")
    return _BASES[a["base"]](a["n"], a["eps0"], orders=orders)


def _eps_composed(a):
    orders = span(a["orders"])
    return converted(math.log(a["delta"]), *(base_curve(a, orders) * a["rounds"]), orders=orders)


def _delta_composed(a):
    orders = span(a["orders"])
    return math.exp(converted_delta(a["eps"], *(base_curve(a, orders) * a["rounds"]), orders=orders))


def _subsampled(a):
    general = a["variant"] == "general"
    orders = span(a["orders"]) if "orders" in a else (a["order"],)
    base = girgis.theorem1_rdp(a["n"], a["eps0"], orders=range(2, max(orders) + 1))
    return girgis.published_sampled_rdp(base, a["rate"], orders=orders, general=general)


def _eps_composed_subsampled(a):
    return converted(math.log(a["delta"]), *(_subsampled(a) * a["rounds"]), orders=span(a["orders"]))


def _special(a):
    return girgis.theorem5_rdp(a["m"], a["eps0"], orders=[a["order"]])[0]


def _exponential(sharp):
    return lambda a: girgis.theorem6_rdp(a["m"], a["eps0"], orders=[a["order"]], sharp=sharp)[0]


def _mechanism_upper(a):
    distance = k_ary_share(a) * girgis.largest_chi_square(local(a))
    return girgis.theorem5_rdp(a["m"], local(a), orders=[a["order"]], chi_square=distance)[0]


def _x_moment(a):
    return girgis.largest_moment(a["m"], a["eps0"], index=int(a["i"]))


def _kov(a):
    total = (a["rounds"] - 2 * a["i"]) * a["eps"]
    window = composition.composition_window(a["rounds"])
    return math.exp(optimal_log_delta(total, a["eps"], a["rounds"], window=window))


def _clones_delta(a):
    window = window_for(a["n"], math.exp(-a["eps0"]), max_window=2**19)
    return math.exp(pair_delta(a["eps"], a["n"], a["eps0"], window=window))


def _clones_rdp(a):
    """With the weight named; 2/(E + 1) is proved for k-ary randomized response alone, and no bound for all."""
    growth = math.exp(local(a))
    weight = {"exp(-eps0)": 1.0 / growth, "2/(exp(eps0)+1)": 2.0 / (growth + 1.0)}[a["weight"]]
    return at_order(lambda orders: pair_rdp(a["n"], weight, local(a), orders=orders), a["order"])


def _lower(reverse):
    def evaluate(a):
        return at_order(
            lambda orders: girgis.response_rdp(a["n"], a["eps0"], orders=orders, reverse=reverse).lower, a["order"]
        )

    return evaluate


def _at_real_order(a):
    whole = girgis.theorem1_rdp(a["n"], a["eps0"], orders=range(2, max(2, math.ceil(a["order"])) + 1))
    return girgis.at_real_orders(whole, orders=[a["order"]])[0]


def _krr_lower(a):
    """The value 1 against 2 (0 and 1 here) among records of the last one."""
    n, k = a["n"], a["k"]
    if k == 2:
        raise Declined("two values leave no third")
    if k > 3:
        others = [k - 1] * (n - 1)
        return k_ary_rdp(math.exp(local(a)), k, [*others, 0], [*others, 1], a["order"])
    return girgis.ternary_response_rdp(n, local(a), orders=[a["order"]])[0]


def _linear_curve(a):
    orders = np.asarray(span(a["orders"]), float)
    return ja.RdpCurve(orders, a["rho"] * orders, ja.Bound.UPPER, ja.NeighboringRelation.REPLACE_ONE, "test curve")


ANSWERS = {
    ("S1", "exact_shuffle_rdp"): Quantity(_exact_shuffle, "every histogram, rounding booked", side=Side.NEVER_ABOVE),
    ("S2", "rdp_upper_thm1"): Quantity(_thm1, _CLOSED),
    ("S3", "rdp_upper_simple"): Quantity(
        lambda a: girgis.corollary1_rdp(a["n"], a["eps0"], orders=[a["order"]])[0], _CLOSED
    ),
    ("S4", "rdp_upper_thm1_real"): Quantity(_at_real_order, _CLOSED),
    ("S5", "rdp_upper_thm2"): Quantity(_thm2, _CLOSED),
    ("S6", "rdp_upper_thm1"): Quantity(_thm1, _CLOSED),
    ("S6", "rdp_upper_thm2"): Quantity(_thm2, _CLOSED),
    ("S6", "remark3_gamma"): Quantity(
        lambda a: girgis.remark3_split(a["n"], a["eps0"]), "closed form", side=Side.EITHER
    ),
    ("S6", "rdp_upper_thm1_best_split"): Quantity(
        lambda a: girgis.best_split_rdp(a["n"], a["eps0"], orders=[a["order"]])[0], _CLOSED
    ),
    ("S7", "rdp_upper_efm19"): Quantity(
        lambda a: girgis.earlier_rdp(a["n"], a["eps0"], orders=[a["order"]])[0], _CLOSED
    ),
    ("S8", "rdp_lower_2rr"): Quantity(_lower(False), _COMBS, side=Side.NEVER_ABOVE),
    ("S8", "rdp_2rr_real"): Quantity(_lower(False), _COMBS, side=Side.NEVER_ABOVE),
    ("S9", "rdp_lower_simple"): Quantity(
        lambda a: girgis.corollary2_rdp(a["n"], a["eps0"], orders=[a["order"]])[0],
        "rounded down",
        side=Side.NEVER_ABOVE,
    ),
    ("S10", "eps_from_rdp"): Quantity(lambda a: ja.epsilon(_linear_curve(a), a["delta"]), _CLOSED),
    ("S10", "delta_from_rdp"): Quantity(lambda a: ja.delta(_linear_curve(a), a["eps"]), _CLOSED),
    ("S11", "eps_composed"): Quantity(_eps_composed, _CLOSED),
    ("S11", "delta_composed"): Quantity(
        _delta_composed, "the rounding of the curve times (order - 1) rounds", tolerance=1e-9
    ),
    ("S12", "rdp_upper_mixture"): Quantity(_mixture, _COMBS),
    ("S13", "special_rdp_thm5"): Quantity(_special, _CLOSED),
    ("S14", "special_rdp_thm6"): Quantity(_exponential(False), _CLOSED),
    ("S14", "special_rdp_thm6_sharp"): Quantity(_exponential(True), _CLOSED),
    ("S15", "x_moment"): Quantity(_x_moment, _SERIES, side=Side.EITHER),
    ("S15", "x_moment_upper"): Quantity(lambda a: girgis.moment_bound(a["m"], a["eps0"], index=int(a["i"])), _CLOSED),
    ("S16", "chi2_max"): Quantity(lambda a: girgis.largest_chi_square(a["eps0"]), _CLOSED),
    ("S17", "special_rdp_mechanism_exact"): Quantity(
        lambda a: girgis.special_pair_rdp(a["m"], local(a), orders=[a["order"]], sampling_prob=k_ary_share(a))[0],
        _SERIES,
    ),
    ("S17", "special_rdp_mechanism_upper"): Quantity(_mechanism_upper, _CLOSED),
    ("S19", "rdp_poisson_subsampled"): Quantity(lambda a: _subsampled(a)[0], "a published estimate", side=Side.EITHER),
    ("S19", "eps_composed_subsampled"): Quantity(_eps_composed_subsampled, "a published estimate", side=Side.EITHER),
    ("S20", "kov_delta_i"): Quantity(_kov, _SUMS),
    ("S20", "clones_delta"): Quantity(_clones_delta, _SUMS),
    ("S20", "eps_kov_closed"): Quantity(
        lambda a: clones.simple_composition_epsilon(a["eps"], a["rounds"], a["delta_slack"]), _CLOSED
    ),
    ("X3", "rdp_cap"): Quantity(lambda a: cap(a["eps0"], orders=(a["order"],))[0], _CLOSED),
    ("X4", "clones_rdp"): Quantity(_clones_rdp, "certified width: the rounding booked"),
    ("X4", "rdp_lower_2rr_reverse"): Quantity(_lower(True), _COMBS, side=Side.NEVER_ABOVE),
    ("X4", "rdp_lower_krr"): Quantity(_krr_lower, _COMBS, side=Side.NEVER_ABOVE),
}

# "Renyi Differential Privacy in the Shuffle Model: Enhanced Amplification Bounds" restates some of the formulas.
CHEN_ANSWERS = {
    ("S11", "girgis_upper"): Quantity(_thm2, _CLOSED),
    ("S12", "girgis_lower"): ANSWERS["S9", "rdp_lower_simple"],
    ("S12", "rr2_rdp_forward"): Quantity(_lower(False), _COMBS, side=Side.NEVER_ABOVE),
    ("S12", "rr2_rdp_reverse"): Quantity(_lower(True), _COMBS, side=Side.NEVER_ABOVE),
    ("S12", "rr2_delta"): Quantity(
        lambda a: math.exp(binary_delta(a["eps"], a["n"], a["eps0"], window=binary_response_window(a["n"]))),
        _SUMS,
        side=Side.NEVER_ABOVE,
    ),
    ("S19", "rr_local_rdp"): Quantity(lambda a: cap(a["eps0"], orders=(a["order"],))[0], _CLOSED),
}
