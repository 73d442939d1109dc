"""How jaxacct is asked for reference values of true k-of-t allocation and one order statistic."""

from typing import Any

import jaxacct as ja
from jaxacct.papers.random_allocation import few_steps_delta
from jaxacct.papers.random_allocation._few_steps import has_few_steps
from support.reference import Declined, Quantity, Side, real
from support.reference_allocation import gaussian_run
from support.reference_answers import exact_rdp, profile, rdp_where_groups_are_exact


def true_delta(args: dict[str, Any]) -> float:
    run = gaussian_run(args)
    if run.num_selected in (1, run.num_steps):
        return profile(args)
    if not has_few_steps(run):
        raise Declined("true k-of-t in more than four steps")
    directions = tuple(ja.Direction) if args["direction"] == "both" else (ja.Direction(args["direction"]),)
    return max(float(few_steps_delta(run, real(args["epsilon"]), d).upper) for d in directions)


def all_ranks_delta(args: dict[str, Any]) -> float:
    """With every rank kept, the order-statistics sample is the naive one, and its mean delta itself (RA-S18)."""
    last = args["num_steps"] - (1 if args["direction"] == "remove" else 0)
    if list(args["orders"]) != list(range(1, last + 1)):
        raise Declined("some ranks are left out: the mean is above delta")
    return profile(args)


MORE = {
    ("X2", "rdp"): Quantity(exact_rdp, "certified quadrature, its errors added"),
    ("S4", "rdp_k_exact"): Quantity(
        rdp_where_groups_are_exact, "positive sums; certified slack of the power series for k = 1"
    ),
    ("S4", "delta_k_exact"): Quantity(true_delta, "its own bracket: 4e-5 for three steps", 1e-4),
    ("S18", "expected_value_single_order"): Quantity(all_ranks_delta, "certified inversion", 1e-9, Side.NEVER_BELOW),
}
