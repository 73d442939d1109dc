"""How jaxacct is asked for reference values of true k-of-t allocation, fractional orders and one order statistic."""

from typing import Any

import jax
from _reference import Declined, Quantity, Side
from _reference_answers import exact_rdp, profile, rdp_where_groups_are_exact, real

import jaxacct as ja
from jaxacct._precision import Rounding, float64_kernel
from jaxacct.bounds._allocation_few_steps import few_steps_delta
from jaxacct.bounds._allocation_overlap_exact import exact_overlap_rdp
from jaxacct.divergence._allocation_fractional import fractional_rdp


@float64_kernel(rounding=Rounding.UP, lane_bytes=2**22)
def _fractional(sigma: jax.Array, num_steps: jax.Array, *, orders: tuple[float, ...]) -> jax.Array:
    return fractional_rdp(sigma, num_steps, orders=orders)


def gaussian_run(args: dict[str, Any]) -> ja.RandomAllocation:
    return ja.RandomAllocation(ja.Gaussian(real(args["sigma"])), args["num_steps"], args.get("num_selected", 1))


def real_order_rdp(args: dict[str, Any]) -> float:
    order = real(args["order"])
    if args["direction"] != "remove" or order < 2 or order == int(order):
        return exact_rdp(args)
    return float(_fractional(real(args["sigma"]), int(args["num_steps"]), orders=(order,))[0])


def true_overlap_rdp(args: dict[str, Any]) -> float:
    if args["order"] not in (2, 3) or args["num_selected"] in (1, args["num_steps"]):
        return rdp_where_groups_are_exact(args)
    return exact_overlap_rdp(gaussian_run(args), order=int(args["order"]))


def true_delta(args: dict[str, Any]) -> float:
    if args["num_selected"] == 1:
        return profile(ja.delta, "epsilon", 1e-3)(args)
    return few_steps_delta(gaussian_run(args), real(args["epsilon"]), ja.Direction(args["direction"])).upper  # type: ignore[return-value]


def all_ranks_delta(args: dict[str, Any]) -> float:
    """With every rank kept, the order-statistics sample is the naive one, and its mean delta itself (spec S18)."""
    if args["num_steps"] - 1 != len(args["orders"]):
        raise Declined("some ranks are left out: the mean is above delta")
    run, direction = gaussian_run(args), ja.Direction(args["direction"])
    return ja.delta(run, real(args["epsilon"]), method="exact", direction=direction)


MORE = {
    ("X2", "rdp"): Quantity(real_order_rdp, "certified quadrature, its errors added"),
    ("S4", "rdp_k_exact"): Quantity(true_overlap_rdp, "positive sums; certified slack of the power series for k = 1"),
    ("S4", "delta_k_exact"): Quantity(true_delta, "convexity on a lattice, its own bracket is this narrow", 1e-4),
    ("S18", "expected_value_single_order"): Quantity(all_ranks_delta, "certified inversion", 1e-9, Side.NEVER_BELOW),
}
