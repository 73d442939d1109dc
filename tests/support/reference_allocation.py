"""How jaxacct is asked for the reference values of the bounds on random allocation, and exact enumeration beside it.

Finite alphabets, in rational arithmetic: every output of every step counted.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import jaxacct as ja
from jaxacct.bounds.allocation._decomposition import decomposition_delta
from jaxacct.bounds.allocation._largest_output import largest_output_delta
from jaxacct.bounds.allocation._overlap import overlap_remove_rdp
from jaxacct.bounds.discrete import types_delta
from jaxacct.papers.random_allocation import (
    Width,
    doob_log_tail,
    posterior_rate,
    recursive_factor,
    recursive_rate,
    truncation_rate,
)
from jaxacct.papers.random_allocation._recursive import tied_tail
from jaxacct.utility import mean_estimation_variance
from support.reference import Quantity, Side, real

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
P, Q = (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)), (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))
Laws = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]


def discrete_pair(laws: Laws) -> ja.DiscretePair:
    return ja.DiscretePair(*(tuple(float(x) for x in law) for law in laws))


PAIR = discrete_pair((P, Q))
# a discrete pair's ratios lie anywhere in their cells: what a grid of 12 points a standard deviation leaves
GRID = 0.03


# Finite alphabets, in rational arithmetic


def outputs(num_steps: int, letters: int = 3) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(letters), repeat=num_steps)


@functools.cache
def laws(num_steps: int, pair: Laws = (P, Q)) -> list[tuple[tuple[int, ...], Fraction, tuple[Fraction, ...]]]:
    """Each output, its probability without the record, and the elementary symmetric polynomials of its ratios."""
    found, (with_record, without) = [], pair
    for y in outputs(num_steps, len(without)):
        e = [Fraction(1)] + [Fraction(0)] * num_steps
        for x in y:
            for m in range(num_steps, 0, -1):
                e[m] += e[m - 1] * with_record[x] / without[x]
        found.append((y, math.prod((without[x] for x in y), start=Fraction(1)), tuple(e)))
    return found


def hockey_stick(
    num_steps: int, weights: list[Fraction], kappa: Fraction, direction: ja.Direction, pair: Laws = (P, Q)
) -> Fraction:
    """Of the mixture of j-out-of-t allocations with these weights, j = 0..t."""
    total = Fraction(0)
    for _, q, e in laws(num_steps, pair):
        p = q * sum(w * x / math.comb(num_steps, j) for j, (w, x) in enumerate(zip(weights, e, strict=True)))
        total += max(Fraction(0), p - kappa * q if direction is REMOVE else q - kappa * p)
    return total


def only(num_steps: int, j: int) -> list[Fraction]:
    return [Fraction(int(i == j)) for i in range(num_steps + 1)]


def binomial(num_steps: int, rate: Fraction) -> list[Fraction]:
    return [math.comb(num_steps, j) * rate**j * (1 - rate) ** (num_steps - j) for j in range(num_steps + 1)]


def capped(num_steps: int, rate: Fraction, cap: int) -> list[Fraction]:
    full = binomial(num_steps, rate)
    return [*full[:cap], sum(full[cap:], Fraction(0)), *[Fraction(0)] * (num_steps - cap)]


@functools.cache
def exact_beta(num_steps: int, eta: Fraction, direction: ja.Direction, pair: Laws = (P, Q)) -> Fraction:
    """P(max posterior rate > eta), by enumeration."""
    total = Fraction(0)
    for y, q, e in laws(num_steps, pair):
        sums = itertools.accumulate((pair[0][x] / pair[1][x] for x in y), initial=Fraction(0))
        if any((num_steps - i + s) * eta < 1 for i, s in zip(range(num_steps), sums, strict=False)):
            total += q if direction is ADD else q * e[1] / num_steps
    return total


# Reference values


def direction_of(args: dict[str, Any]) -> ja.Direction:
    return ja.Direction(args["direction"])


def gaussian_run(args: dict[str, Any]) -> ja.RandomAllocation:
    return ja.RandomAllocation(ja.Gaussian(real(args["sigma"])), args["num_steps"], args.get("num_selected", 1))


def pair_of(args: dict[str, Any]) -> Laws:
    p, q = (tuple(Fraction(x) for x in args["randomizer"][side]) for side in "PQ")
    return p, q


def over_directions(value: Callable[[dict[str, Any], ja.Direction], float]) -> Callable[[dict[str, Any]], float]:
    """At the entry's direction; the larger for both."""

    def evaluate(args: dict[str, Any]) -> float:
        directions = tuple(ja.Direction) if args["direction"] == "both" else (direction_of(args),)
        return max(value(args, direction) for direction in directions)

    return evaluate


def poisson_delta(args: dict[str, Any], rate: float, direction: ja.Direction) -> float:
    run = ja.PoissonSampled(discrete_pair(pair_of(args)), rate, args["num_steps"])
    return types_delta(run, math.log(real(args["kappa"])), direction, upper=True)


def lemma_4_3(a: dict[str, Any], direction: ja.Direction) -> float:
    beta = exact_beta(a["num_steps"], Fraction(a["eta"]), direction, pair_of(a))
    return poisson_delta(a, real(a["eta"]), direction) + float(beta) * (1 + 1e-15)


def exact_add_profile(num_steps: int, epsilons: np.ndarray, pair: Laws = (P, Q)) -> np.ndarray:
    q, x = np.asarray([(float(q), float(e[1] / num_steps)) for _, q, e in laws(num_steps, pair)]).T
    return np.asarray([q @ np.maximum(1.0 - k * x, 0.0) for k in np.exp(epsilons)]) * (1.0 + 1e-12)


def theorem_4_2(a: dict[str, Any], direction: ja.Direction) -> float:
    inner, pair = 0.5 * math.log(real(a["exp_2_epsilon_prime"])), pair_of(a)
    rate = recursive_rate(a["num_steps"], inner)
    profile = functools.partial(exact_add_profile, pair=pair)
    tail = tied_tail(discrete_pair(pair), direction, add_profile=profile)
    return poisson_delta(a, rate, direction) + math.exp(tail(a["num_steps"], rate, 0.0))


def theorem_4_6(a: dict[str, Any], direction: ja.Direction) -> float:
    run = ja.RandomAllocation(discrete_pair(pair_of(a)), a["num_steps"])
    epsilon, rate = math.log(real(a["kappa"])), real(a["sampling_rate"])
    return decomposition_delta(run, epsilon, direction, sampling_prob=rate)


def enumerated_cap(a: dict[str, Any], direction: ja.Direction) -> float:
    weights = capped(a["num_steps"], Fraction(a["sampling_rate"]), a["max_participations"])
    return float(hockey_stick(a["num_steps"], weights, Fraction(a["kappa"]), direction, pair_of(a)))


def posterior(a: dict[str, Any]) -> float:
    p, q = pair_of(a)
    return posterior_rate(a["num_steps"], [math.log(p[y] / q[y]) for y in a["view"]])


def mean_square_error(a: dict[str, Any]) -> float:
    base, steps = ja.Gaussian(real(a["sigma"])), a["num_steps"]
    run: Any = (
        ja.PoissonSampled(base, 1.0 / steps, steps) if a["scheme"] == "poisson" else ja.RandomAllocation(base, steps)
    )
    return mean_estimation_variance(
        run, num_records=a["num_samples"], success_prob=real(a["p"]), dimension=a["dimension"]
    )


_FORMULA = "closed form"
_TYPES = "sums over types, rounded up"
QUANTITIES = {
    ("S6", "posterior_rate"): Quantity(posterior, _FORMULA, 1e-13, Side.EITHER),
    ("S6", "beta"): Quantity(
        over_directions(lambda a, d: float(exact_beta(a["num_steps"], Fraction(a["eta"]), d, pair_of(a)))),
        "the enumeration that other tests use",
        1e-15,
        Side.EITHER,
    ),
    ("S6", "hockey_stick"): Quantity(over_directions(lemma_4_3), _TYPES),
    ("S7", "sampling_rate"): Quantity(
        lambda a: truncation_rate(
            int(a["num_steps"]), real(a["epsilon0"]), real(a["delta_prime"]), Width[a["variant"].upper()]
        ),
        _FORMULA,
    ),
    ("S8", "sampling_rate"): Quantity(lambda a: recursive_rate(a["num_steps"], real(a["epsilon_prime"])), _FORMULA),
    ("S8", "tau"): Quantity(lambda a: recursive_factor(real(a["epsilon_prime"]), REMOVE), _FORMULA),
    ("S8", "hockey_stick"): Quantity(over_directions(theorem_4_2), _TYPES),
    ("S10", "hockey_stick"): Quantity(over_directions(theorem_4_6), _TYPES),
    ("S11", "hockey_stick_capped_poisson"): Quantity(
        over_directions(enumerated_cap), "the enumeration that other tests use", 1e-15, Side.EITHER
    ),
    ("S20", "delta"): Quantity(
        over_directions(lambda a, d: largest_output_delta(gaussian_run(a), real(a["epsilon"]), d)),
        "thresholds on a zoomed grid, rounding taken off",
        1e-9,
        Side.NEVER_ABOVE,
    ),
    ("S21", "rdp"): Quantity(
        lambda a: float(overlap_remove_rdp(gaussian_run(a), orders=[real(a["order"])])[0]), _FORMULA, 1e-12
    ),
    ("S23", "mse"): Quantity(mean_square_error, _FORMULA, 1e-14, Side.EITHER),
    ("X6", "log_beta_upper"): Quantity(
        lambda a: doob_log_tail(
            ja.Gaussian(real(a["sigma"])), int(a["num_steps"]), real(a["eta_times_t"]) / int(a["num_steps"])
        ),
        "theta by golden section on a law spread by 2^-11",
        3e-7,
    ),
}
