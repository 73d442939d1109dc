"""Which quantities of which paper jaxacct answers: the one table of the reference harness, tolerances included.

A quantity that is not here is not covered. Add it here when jaxacct can answer it.
"""

from collections.abc import Callable
from typing import Any

import jaxacct as ja
from jaxacct.divergence.sampling._importance import importance_mass, importance_threshold
from jaxacct.estimation import chernoff_upper_confidence
from support.check_in_answers import ANSWERS as CHECK_IN_ANSWERS
from support.chen_answers import CHEN_ANSWERS, FMT_ANSWERS
from support.girgis_answers import ANSWERS as GIRGIS_ANSWERS
from support.girgis_answers import CHEN_ANSWERS as GIRGIS_CHEN_ANSWERS
from support.reference import Quantity, Side, real
from support.reference_allocation import QUANTITIES
from support.reference_allocation_more import MORE
from support.reference_answers import (
    DELTA_PRECISION,
    EPSILON_PRECISION,
    chord_rdp,
    closed_form_delta,
    closed_form_epsilon,
    composed_mu,
    delta_at_one_order,
    delta_of_gaussian,
    discrete_rdp,
    epsilon_at_one_order,
    epsilon_from_integer_orders,
    epsilon_of_gaussian,
    exact_profile,
    exact_rdp,
    floor_ceil_profile,
    floor_profile,
    floor_rdp,
    gaussian_sigma,
    profile,
    shuffle_gaussian_rdp,
)
from support.shuffle_answers import ANSWERS


def importance_of(fn: Callable[..., float]) -> Callable[[dict[str, Any]], float]:
    """Of the event that importance sampling conditions on."""
    return lambda a: fn(real(a["sigma"]), int(a["num_steps"]), real(a["epsilon"]), ja.Direction(a["direction"]))


_ROUNDED_UP = "closed form, rounded up by some 2^-50 times the condition number"
_CONVERSION = "closed form, rounded up by 2^-50 of its terms"
_SERIES = "certified slack of the power series: 2e-12 up to order 256, in proportion above"
_GRID = "certified interval, refined until it is this narrow"
_TYPES = "sums over types, rounded up"
_ADDED_ERRORS = "certified quadrature, its errors added"

_ALLOCATION = {
    ("S1", "delta"): Quantity(lambda a: delta_of_gaussian(gaussian_sigma(a), real(a["epsilon"])), _ROUNDED_UP),
    ("S1", "epsilon"): Quantity(lambda a: epsilon_of_gaussian(gaussian_sigma(a), real(a["delta"])), _ROUNDED_UP),
    ("S2", "delta_from_rdp"): Quantity(delta_at_one_order, _CONVERSION),
    ("S2", "epsilon_from_rdp_unclipped"): Quantity(
        lambda a: epsilon_at_one_order(a["alpha"], a["rho"], a["delta"]), _CONVERSION
    ),
    ("S3", "delta"): Quantity(profile, _GRID, tolerance=DELTA_PRECISION),
    ("S3", "epsilon"): Quantity(profile, _GRID, tolerance=EPSILON_PRECISION),
    ("S3", "hockey_stick"): Quantity(exact_profile, _TYPES),
    ("S4", "delta"): Quantity(profile, _GRID, tolerance=DELTA_PRECISION),
    ("S4", "hockey_stick_upper_floor_ceil"): Quantity(floor_ceil_profile, _TYPES),
    ("S5", "delta"): Quantity(profile, _GRID, tolerance=DELTA_PRECISION),
    ("S5", "hockey_stick"): Quantity(exact_profile, _TYPES),
    ("S4", "rdp_upper_floor"): Quantity(floor_rdp, _SERIES),
    ("S4", "rdp_upper_floor_ceil"): Quantity(exact_rdp, _SERIES),
    ("S12", "rdp"): Quantity(discrete_rdp, "absolute slack of some 1e-13 on divergences above 0.01"),
    ("S13", "epsilon_from_rdp"): Quantity(epsilon_from_integer_orders, _SERIES),
    ("S13", "rdp"): Quantity(exact_rdp, _SERIES),
    ("S14", "delta"): Quantity(
        closed_form_delta, "rounding of the shift times the tail's slope: 9e-12 measured at 5e-298", tolerance=1e-10
    ),
    ("S14", "epsilon"): Quantity(closed_form_epsilon, _ROUNDED_UP),
    ("S15", "rdp"): Quantity(chord_rdp, _SERIES),
    **QUANTITIES,
    ("S4", "hockey_stick_upper_floor"): Quantity(floor_profile, _TYPES),
    ("S17", "importance_threshold"): Quantity(importance_of(importance_threshold), "closed form", side=Side.EITHER),
    ("S17", "importance_mass"): Quantity(importance_of(importance_mass), "closed form", side=Side.EITHER),
    ("S19", "upper_confidence_bound"): Quantity(
        lambda a: chernoff_upper_confidence(
            real(a["mean"]), int(a["sample_size"]), real(a["error_prob"]), real(a["scale"])
        ),
        "a root, rounded up",
        1e-9,
        Side.EITHER,
    ),
    **MORE,
}

_CHEN = {
    ("S7", "gdp_delta"): Quantity(lambda a: delta_of_gaussian(1.0 / real(a["mu"]), real(a["eps"])), _ROUNDED_UP),
    ("S7", "gdp_epsilon"): Quantity(lambda a: epsilon_of_gaussian(1.0 / real(a["mu"]), real(a["delta"])), _ROUNDED_UP),
    ("S10", "gdp_compose"): Quantity(composed_mu, "rounded up by 2^-51"),
    **CHEN_ANSWERS,
    **GIRGIS_CHEN_ANSWERS,
}

_CLONES = {
    ("S15", "rdp_to_eps"): Quantity(lambda a: epsilon_at_one_order(a["order"], a["rdp"], a["delta"]), _CONVERSION),
    **ANSWERS,
    **FMT_ANSWERS,
}

_LIEW = {
    **CHECK_IN_ANSWERS,
    ("S3", "eps_from_rdp_one_order"): Quantity(
        lambda a: epsilon_at_one_order(a["order"], a["rho"], a["delta"]), _CONVERSION
    ),
    ("S13", "gaussian_delta_exact"): Quantity(
        lambda a: delta_of_gaussian(real(a["sigma"]) / real(a["sensitivity"]), real(a["eps"])), _ROUNDED_UP
    ),
    # One report of a shuffled n is one record in a uniform step of n.
    ("S14", "shuffle_gaussian_rdp"): Quantity(shuffle_gaussian_rdp(ja.Direction.REMOVE), _SERIES),
    ("S14", "shuffle_gaussian_rdp_reverse"): Quantity(shuffle_gaussian_rdp(ja.Direction.ADD), _ADDED_ERRORS),
}

_PAPERS = {
    "chen-multinomial-rdp": _CHEN,
    "fmt-clones": _CLONES,
    "girgis-shuffle-rdp": GIRGIS_ANSWERS,
    "liew-shuffled-checkin": _LIEW,
    "random-allocation": _ALLOCATION,
}

# (paper, system, quantity) -> how jaxacct answers it
TABLE: dict[tuple[str, str, str], Quantity] = {
    (paper, *key): quantity for paper, quantities in _PAPERS.items() for key, quantity in quantities.items()
}
