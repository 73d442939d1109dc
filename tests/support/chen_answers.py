"""How jaxacct answers the reference values of Chen et al. and, for the clones pair, Renyi divergences."""

import math

import jax.numpy as jnp
import numpy as np

import jaxacct as ja
from jaxacct._precision import Kernel
from jaxacct.divergence.clones._profile import clones_delta, clones_epsilon, lane_bytes, window_for
from jaxacct.divergence.clones._renyi import clones_rdp
from jaxacct.divergence.clones._tradeoff import clones_gdp, clones_tradeoff
from jaxacct.divergence.response import _binary as binary
from jaxacct.papers import chen
from jaxacct.special import log_normal_tail, normal_upper_quantile
from support.reference import Quantity, Side, real, span

_ROUNDING = "certified width: the rounding booked, 2e-13 and in proportion to the order"
_SUMS = "sum of positive terms, each widened by its error: 2e-12 for n to 1e6"
_CLOSED = "closed form"
_WIDENED = "a sum, widened by 2^-40"


def local(a):
    """eps0, or log exp_eps0."""
    return float(a["eps0"]) if "eps0" in a else math.log(float(a["exp_eps0"]))


_rdp = Kernel(lambda n, p, eps, *, orders: tuple(clones_rdp(orders, n, p, eps)), lane_bytes=2**20, on_host=True)
_tradeoff = Kernel(clones_tradeoff, lane_bytes=lane_bytes, on_host=True)
_delta = Kernel(clones_delta, lane_bytes=lane_bytes, on_host=True)
_epsilon = Kernel(clones_epsilon, lane_bytes=lane_bytes, on_host=True)
_binary_delta = Kernel(binary.binary_response_log_delta)
_gaussian_tradeoff = Kernel(lambda alpha, mu: jnp.exp(log_normal_tail(mu - normal_upper_quantile(jnp.log(alpha))[0])))


# the orders of the reference values, in few programs; a high order widens the sums of all that share its program
_ORDERS = (
    (1.0, 1.01, 1.1, 2.0, 2.5, 3.0, 3.7, 4.0, 5.0, 8.0, 10.0, 16.0),
    (30.0, 32.0, 64.0, 100.0, 128.0, 256.0),
    (1000.0, 10000.0),
)
_COSH_ORDERS = (4, 8, 16)


def clones_upper_rdp(num_reports, clone_prob, local_epsilon, order):
    order = float(order)
    orders = next((group for group in _ORDERS if order in group), (order,))
    return float(_rdp(num_reports, clone_prob, local_epsilon, orders=orders)[1][orders.index(order)])


def _pure_rdp(a):
    return clones_upper_rdp(a["n"], math.exp(-local(a)), local(a), a.get("order", 1))


def _mass(which):
    return lambda a: chen.pair_masses(a["a"], a["b"], a["n"], math.exp(-a["eps0"]), a["eps0"])[which]


def _general_clone_prob(a):
    named = {"2/(exp(eps0)+1)": 2.0 / (math.exp(local(a)) + 1.0), "exp(-eps0)": math.exp(-local(a))}
    return named[a["p"]] if a["p"] in named else real(a["p"])


def _fitting(a):
    return window_for(a["n"], math.exp(-a["eps0"]), max_window=2**19)


def _window(a):
    return max(2**14, _fitting(a))  # one program for most


def _clones_delta(a):
    at = _delta(a["eps"], a["n"], math.exp(-a["eps0"]), a["eps0"], window=_window(a))
    return math.exp(at.log_delta.upper)


def _clones_epsilon(a):
    return _epsilon(math.log(a["delta"]), a["n"], math.exp(-a["eps0"]), a["eps0"], window=_window(a)).upper


def _cosh_end(which):
    def evaluate(a):
        ends = chen.cosh_sandwich_rdp(a["n"], math.exp(-a["eps0"]), a["eps0"], orders=_COSH_ORDERS)
        return ends[which][_COSH_ORDERS.index(a["order"])]

    return evaluate


def _closed_end(which):
    return lambda a: chen.moment_sandwich_rdp(a["n"], math.exp(-a["eps0"]), a["eps0"], orders=[a["order"]])[which][0]


def _composed_epsilon(a):
    """One curve at the row's orders, `T` times, converted at its best order."""
    orders = tuple(map(float, span(a["orders"])))
    upper = _rdp(a["n"], math.exp(-a["eps0"]), a["eps0"], orders=orders)[1]
    return ja.epsilon(_curve(orders, a["T"] * np.asarray(upper)), a["delta"])


def _curve(orders, values):
    return ja.RdpCurve(np.asarray(orders), values, ja.Bound.UPPER, ja.NeighboringRelation.REPLACE_ONE, "Chen et al.")


_CLONES_RDP = Quantity(_pure_rdp, _ROUNDING)

CHEN_ANSWERS = {
    ("S1", "clone_rdp_general_p"): Quantity(
        lambda a: clones_upper_rdp(a["n"], _general_clone_prob(a), local(a), a["order"]), _ROUNDING
    ),
    ("S2", "clone_pair_pmf_P"): Quantity(_mass(0), "two binomial probabilities", 1e-13, Side.EITHER),
    ("S2", "clone_pair_pmf_Q"): Quantity(_mass(1), "two binomial probabilities", 1e-13, Side.EITHER),
    ("S3", "clone_tradeoff"): Quantity(
        lambda a: _tradeoff(a["alpha"], a["n"], math.exp(-a["eps0"]), a["eps0"], window=_fitting(a)),
        _SUMS,
        side=Side.NEVER_ABOVE,
    ),
    ("S4", "clone_kl"): _CLONES_RDP,
    ("S4", "clone_rdp"): _CLONES_RDP,
    ("S7", "gdp_tradeoff"): Quantity(
        lambda a: _gaussian_tradeoff(a["alpha"], a["mu"]), "a quantile and a tail", 1e-13, Side.EITHER
    ),
    ("S8", "corrected_gdp_mu"): Quantity(
        lambda a: chen.limit_gdp(a["n"], math.exp(-a["eps0"]), a["eps0"]), _CLOSED, 1e-14, Side.EITHER
    ),
    ("S8", "paper_gdp_mu"): Quantity(lambda a: chen.published_gdp(a["n"], a["eps0"]), _CLOSED, 1e-14, Side.EITHER),
    ("S9", "corrected_rdp"): Quantity(
        lambda a: chen.limit_rdp(a["n"], math.exp(-a["eps0"]), a["eps0"], orders=[a["order"]])[0],
        _CLOSED,
        1e-14,
        Side.EITHER,
    ),
    ("S9", "paper_rdp"): Quantity(
        lambda a: chen.published_rdp(a["n"], a["eps0"], orders=[a["order"]])[0], _CLOSED, 1e-14, Side.EITHER
    ),
    ("S12", "rr2_delta"): Quantity(
        lambda a: math.exp(
            _binary_delta(a["eps"], a["n"], a["eps0"], window=max(2048, binary.binary_response_window(a["n"])))
        ),
        _SUMS,
        side=Side.NEVER_ABOVE,
    ),
    ("S14", "laplace_rdp"): Quantity(
        lambda a: chen.laplace_rdp(a["eps0"], orders=[a["order"]])[0], "closed form, rounded up by 2^-46"
    ),
    ("S14", "laplace_scale"): Quantity(
        lambda a: chen.laplace_scale(a["clip"], a["eps0"], a["m"]), _CLOSED, 1e-14, Side.EITHER
    ),
    ("S15", "group_clone_rdp"): Quantity(
        lambda a: chen.block_epoch_rdp(a["n_blocks"], a["block"], a["eps0"], orders=[a["order"]]).upper[0], _ROUNDING
    ),
    ("S15", "sgd_paper_gdp_mu"): Quantity(
        lambda a: math.sqrt(a["T"]) * chen.published_gdp(a["m"], a["eps0"]), _CLOSED, 1e-14, Side.EITHER
    ),
    ("S15", "sgd_paper_rdp"): Quantity(
        lambda a: a["T"] * chen.published_rdp(a["m"], a["eps0"], orders=[a["order"]])[0],
        _CLOSED,
        1e-14,
        Side.EITHER,
    ),
    ("S16", "sgd_paper_eps0_for_slope"): Quantity(
        lambda a: chen.published_local_epsilon(a["m"], a["T"], a["rho"]), _CLOSED, 1e-14, Side.EITHER
    ),
    ("S17", "clone_delta"): Quantity(_clones_delta, _SUMS),
    ("S17", "clone_epsilon"): Quantity(_clones_epsilon, "least point found where delta is below the target", 1e-10),
    ("S18", "clone_gdp_mu_star"): Quantity(
        lambda a: clones_gdp(a["n"], math.exp(-a["eps0"]), a["eps0"], window=_fitting(a), tolerance=1e-9),
        "lines through the two tangents next to the best vertex",
        1e-8,
    ),
    ("S20", "clone_rdp_closed_lower"): Quantity(_cosh_end(0), _WIDENED, side=Side.NEVER_ABOVE),
    ("S20", "clone_rdp_closed_upper"): Quantity(_cosh_end(1), _WIDENED),
}

FMT_ANSWERS = {
    ("S14", "kl"): _CLONES_RDP,
    ("S14", "rdp"): _CLONES_RDP,
    ("S14", "rdp_closed_sandwich_lower"): Quantity(_closed_end(0), _WIDENED, side=Side.NEVER_ABOVE),
    ("S14", "rdp_closed_sandwich_upper"): Quantity(_closed_end(1), _WIDENED),
    ("S15", "eps_composed_rdp"): Quantity(_composed_epsilon, _ROUNDING),
}
