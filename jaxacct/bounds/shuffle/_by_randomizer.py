"""Shuffled reports, each local randomizer by the theorems that hold for it: upper and lower bounds on lanes.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones"; where no paper is named, theorems are theirs. Replace-one
adjacency; the pairs are symmetric, so there is one direction. Outside a theorem's regime an upper bound is inf (log
delta 0), a lower one 0 (log delta -inf). `mechanism` holds lanes, `log_delta` is the log of the target, and both
`log_delta` and `epsilon` are [L]. Keyword-only sizes are static, from the functions named `.._statics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxacct._jax import jax
from jaxacct._precision import is_traced
from jaxacct.bounds._clones_pair import TRACED_REPORTS, clones_statics, pair_lanes, where_single
from jaxacct.bounds.shuffle._approximate import (
    LogGuarantee,
    log_replacement_cost,
    pure_profile,
    total_epsilon,
    with_replacement_cost,
)
from jaxacct.bounds.shuffle._closed_form import closed_form_epsilon, closed_form_log_delta, pure_parameters
from jaxacct.bounds.shuffle._rounds import composition_window, optimal_log_delta, split_epsilon
from jaxacct.bounds.shuffle._special_pairs import paper_rdp
from jaxacct.bounds.shuffle._special_pairs_exact import mixture_rdp, mixture_statics
from jaxacct.composition import compose_rdp
from jaxacct.divergence.clones._profile import clones_delta, clones_epsilon
from jaxacct.divergence.clones._renyi import clones_rdp
from jaxacct.divergence.response._binary import (
    binary_response_epsilon,
    binary_response_log_delta,
    binary_response_window,
)
from jaxacct.mechanisms import Shuffled
from jaxacct.special import log_down, log_or_minus_inf, log_up, map_rows, up
from jaxacct.special._namespace import xp

# Parts of delta that go to the rounds of a composition: any is certified, the least answer is taken.
_SHARES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)


def clones_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Epsilon [L] of one round by the clones pair, rounded up: Feldman, McMillan & Talwar 2021, Theorem 3.2 (CL-S2).

    Upper bound, replace-one adjacency, both directions; inf for several rounds. Approximate randomizers (`pure` False)
    pay the cost of Theorem 3.8 (CL-S7).
    """
    n, clone_prob, local = pair_lanes(mechanism)
    if pure:
        value = clones_epsilon(log_delta, n, clone_prob, local, window=window).upper
    else:
        cost = log_replacement_cost(n, local, log_or_minus_inf(mechanism.mechanism.local_delta), xp.ones_like(n))
        value = total_epsilon(pure_profile(window=window), n, local, cost, log_delta)
    return where_single(mechanism, value, xp.inf)


def clones_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Log delta [L] of one round by the clones pair, rounded up: Feldman, McMillan & Talwar 2021, Theorem 3.2 (CL-S2).

    Upper bound, replace-one adjacency, both directions; 0 for several rounds. Approximate randomizers as in
    `clones_upper_epsilon`.
    """
    n, clone_prob, local = pair_lanes(mechanism)
    value = clones_delta(epsilon, n, clone_prob, local, window=window).log_delta.upper
    if not pure:
        cost = log_replacement_cost(n, local, log_or_minus_inf(mechanism.mechanism.local_delta), xp.ones_like(n))
        value = with_replacement_cost(LogGuarantee(epsilon, value), cost).log_delta
    return where_single(mechanism, value, 0.0)


def pair_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Epsilon [L] of the clones pair itself, one round, rounded down: Feldman, McMillan & Talwar 2021, Theorem 3.2.

    Lower bound on the pair, which is a reduction, and so not on the mechanism: no analysis by this pair can give less.
    0 for several rounds and for approximate randomizers.
    """
    n, clone_prob, local = pair_lanes(mechanism)
    value = clones_epsilon(log_delta, n, clone_prob, local, window=window).lower
    return where_single(mechanism, value, 0.0) if pure else xp.zeros_like(value)


def pair_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Log delta [L] of the clones pair itself, one round, rounded down; see `pair_lower_epsilon`.

    Lower bound on the pair only; -inf for several rounds and for approximate randomizers.
    """
    n, clone_prob, local = pair_lanes(mechanism)
    value = clones_delta(epsilon, n, clone_prob, local, window=window).log_delta.lower
    return where_single(mechanism, value, -xp.inf) if pure else xp.full_like(value, -xp.inf)


def clones_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of all rounds, rounded up, by the clones pair: Theorem 3.2 (CL-S14), added over rounds.

    Feldman, McMillan & Talwar 2021. Upper bound, replace-one adjacency, both directions, any real order >= 1 (static);
    inf where the local delta is not 0.
    """
    n, clone_prob, local = pair_lanes(mechanism)
    single = xp.where(_local_delta(mechanism) > 0, xp.inf, clones_rdp(orders, n, clone_prob, local).upper)
    return compose_rdp([(single, mechanism.num_epochs)])


def girgis_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of all rounds, rounded up: Girgis et al. 2021, Theorems 1 and 2, added over rounds.

    Upper bound, replace-one adjacency, both directions, integer orders >= 2 (static); inf where the local delta is
    positive.
    """
    n, _, local = pair_lanes(mechanism)
    single = paper_rdp(n, local, orders=[int(a) for a in orders])
    single = xp.where(_local_delta(mechanism) > 0, xp.inf, single)
    return compose_rdp([(single, mechanism.num_epochs)])


def mixture_sizes(mechanism: Shuffled, *, orders: Sequence[float]) -> dict[str, Any]:
    """A dict of static sizes for `mixture_upper_rdp`."""
    concrete = not is_traced(mechanism)
    n = mechanism.num_reports if concrete else TRACED_REPORTS
    return mixture_statics(n, mechanism.mechanism.local_epsilon if concrete else 1.0, orders)


def mixture_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float], nodes: int, window: int) -> jax.Array:
    """Renyi divergences [A, L] of all rounds, rounded up: Girgis et al. 2021, Theorem 4, with the exact special pair.

    Upper bound (GI-X1, GI-X2), added over rounds; replace-one adjacency, both directions, real orders > 1 (static); inf
    where the local delta is not 0.
    """
    n, _, local = pair_lanes(mechanism)
    single = mixture_rdp(n, local, orders=orders, nodes=nodes, window=window)
    single = xp.where(_local_delta(mechanism) > 0, xp.inf, single)
    return compose_rdp([(single, mechanism.num_epochs)])


def closed_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of one round in closed form, rounded up: Feldman, McMillan & Talwar 2021, Theorem 3.1 (CL-S1).

    Upper bound, pure randomizers, where n e^-eps0 >= 16 log(4 tanh(eps0/2)/delta); inf elsewhere and for several
    rounds.
    """
    n, _, local = pair_lanes(mechanism)
    value = closed_form_epsilon(n, pure_parameters(local), log_delta)
    return where_single(mechanism, xp.where(_local_delta(mechanism) > 0, xp.inf, value), xp.inf)


def closed_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of one round in closed form, rounded up: Feldman, McMillan & Talwar 2021, Theorem 3.1 (CL-S1).

    Upper bound, the inverse of `closed_upper_epsilon`; 0 where that gives no bound.
    """
    n, _, local = pair_lanes(mechanism)
    value = closed_form_log_delta(n, pure_parameters(local), epsilon)
    return where_single(mechanism, xp.where(_local_delta(mechanism) > 0, 0.0, value), 0.0)


def _local_delta(mechanism: Shuffled) -> Any:
    """The local delta of the mechanism's reports [L], 0 for a randomizer that has none."""
    return getattr(mechanism.mechanism, "local_delta", 0.0)


def unamplified_statics(mechanism: Shuffled) -> dict[str, Any]:
    """A dict with the static number of outcomes of a composition of randomized responses, `rounds`."""
    if is_traced(mechanism.num_epochs):
        return {"rounds": composition_window(1e9)}
    return {"rounds": composition_window(float(np.max(mechanism.num_epochs)))}


def _log_gone(mechanism: Shuffled, count: jax.Array) -> jax.Array:
    """Log of (1 - local_delta)^count [L], at most 0."""
    return count * xp.log1p(-_local_delta(mechanism) * xp.ones_like(count))


def local_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, rounds: int) -> jax.Array:
    """Epsilon [L] without amplification, rounded up: one user's reports of all rounds, composed optimally.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3. Upper bound, any number of rounds, never above rounds times the local
    epsilon. For approximate reports 1 - (1 - delta) / (1 - local_delta)^rounds of delta is left for the pure parts; inf
    where nothing is left.
    """
    _, _, local = pair_lanes(mechanism)
    count = mechanism.num_epochs * xp.ones_like(local)
    gone, delta = _log_gone(mechanism, count), xp.exp(log_delta)
    fall = xp.maximum(xp.log1p(-delta), -800.0)  # by 4 ULP; `gone`, no further from 0 where anything is left, by 6
    left = -xp.expm1(fall - gone) - 2.0**-48 * (delta - fall)
    affordable = (gone == 0) | (left > 0)
    log_left = xp.where(gone == 0, log_delta, xp.log(xp.where(left > 0, left, 1.0)))
    value = split_epsilon(lambda _: local, count, log_left, shares=(2.0**-40,), window=rounds)
    value = xp.minimum(value, up(count * local, 8))
    return xp.where(affordable, value, xp.inf)


def local_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, rounds: int) -> jax.Array:
    """Log delta [L] without amplification, rounded up: one user's reports of all rounds, composed optimally.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3. Upper bound, any number of rounds, approximate reports included.
    """
    _, _, local = pair_lanes(mechanism)
    count = mechanism.num_epochs * xp.ones_like(local)
    value, gone = optimal_log_delta(epsilon, local, count, window=rounds), _log_gone(mechanism, count)
    lost = log_or_minus_inf(-xp.expm1(gone))
    return xp.minimum(log_up(xp.logaddexp(log_up(value + gone, 8), lost), 16), 0.0)


def composed_statics(mechanism: Shuffled) -> dict[str, Any]:
    """A dict of static sizes: those of the clones pair and those of the composition."""
    return {**clones_statics(mechanism), **unamplified_statics(mechanism)}


def composed_upper_epsilon(
    mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool, rounds: int
) -> jax.Array:
    """Epsilon [L] of several rounds, rounded up: each by the clones pair at a share of delta, then optimal composition.

    Feldman, McMillan & Talwar 2021, Theorem 3.2; Kairouz, Oh & Viswanath 2015, Theorem 3.3 (CL-S15, route A). Upper
    bound, the least over several shares. For approximate randomizers the cost of Theorem 3.8 is added once and must fit
    into a share of its own; inf where it does not.
    """
    n, clone_prob, local = pair_lanes(mechanism)
    count = mechanism.num_epochs * xp.ones_like(local)

    def step(log_step_delta: jax.Array) -> jax.Array:
        return clones_epsilon(log_step_delta, n, clone_prob, local, window=window).upper

    def composed(target: jax.Array) -> jax.Array:
        return split_epsilon(step, count, target, shares=_SHARES, window=rounds)

    if pure:
        return composed(log_delta)
    cost = log_replacement_cost(n, local, log_or_minus_inf(mechanism.mechanism.local_delta), count)

    def row(share: jax.Array) -> jax.Array:
        epsilon = composed(log_down(log_delta + xp.log1p(-share), 16))
        needed = up(xp.logaddexp(0.0, epsilon), 16) + log_up(cost, 16)
        return xp.where(needed <= log_down(log_delta + xp.log(share), 16), epsilon, xp.inf)

    return xp.min(map_rows(row, xp.asarray((0.001, 0.01, 0.1, 0.5), xp.float64), lanes=n), axis=0)


def composed_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, **_: Any) -> jax.Array:
    """Log delta [L], always 0 (delta <= 1): this bound gives epsilon only; the loss distribution gives delta."""
    return xp.zeros_like(epsilon)


def response_statics(mechanism: Shuffled) -> dict[str, Any]:
    """A dict with the static number of blocks of counts of shuffled binary randomized response."""
    most = TRACED_REPORTS if is_traced(mechanism.num_reports) else float(np.max(mechanism.num_reports))
    return {"blocks": binary_response_window(most)}


def response_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, blocks: int) -> jax.Array:
    """Epsilon [L] of shuffled binary randomized response, rounded down: Feldman, McMillan & Talwar 2021, Appendix G.

    Lower bound from one round, however many there are (CL-S16): binary randomized response is one of the randomizers
    that the mechanism may have, so no bound for all of them can be lower.
    """
    n, _, local = pair_lanes(mechanism)
    value = binary_response_epsilon(log_delta, n, local, window=blocks)
    return xp.where(local > 0, value, 0.0)


def response_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, blocks: int) -> jax.Array:
    """Log delta [L] of shuffled binary randomized response, rounded down: Feldman, McMillan & Talwar 2021, Appendix G.

    Lower bound, as `response_lower_epsilon`; -inf where nothing is claimed.
    """
    n, _, local = pair_lanes(mechanism)
    return xp.where(local > 0, binary_response_log_delta(epsilon, n, local, window=blocks), -xp.inf)
