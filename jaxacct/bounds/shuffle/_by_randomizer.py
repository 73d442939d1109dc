"""Shuffled reports, each local randomizer by the theorems that hold for it: upper and lower bounds on lanes.

Feldman, McMillan and Talwar 2021, "Hiding Among the Clones". Replace-one adjacency; the pairs are symmetric, so there
is one direction. Outside a theorem's regime an upper bound is inf (log delta 0), a lower one 0 (-inf).
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._precision import is_traced
from jaxacct.bounds.shuffle._approximate import (
    Guarantee,
    log_gaussian_replacement_cost,
    log_replacement_cost,
    pure_profile,
    total_epsilon,
    with_replacement_cost,
)
from jaxacct.bounds.shuffle._closed_form import closed_form_epsilon, closed_form_log_delta, pure_parameters
from jaxacct.bounds.shuffle._rounds import composition_window, optimal_log_delta, split_epsilon
from jaxacct.bounds.shuffle._special_pairs import paper_rdp
from jaxacct.bounds.shuffle._special_pairs_exact import mixture_rdp, mixture_statics
from jaxacct.composition import compose_gaussian_mu, compose_rdp
from jaxacct.divergence.clones._multi_component import component_windows, k_ary_blanket_pair
from jaxacct.divergence.clones._multi_component_mean import (
    k_ary_elsewhere_pair,
    mean_component_delta,
    mean_component_epsilon,
)
from jaxacct.divergence.clones._profile import TRACED_WINDOW, clones_delta, clones_epsilon, window_for
from jaxacct.divergence.clones._renyi import clones_rdp
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_log_delta
from jaxacct.divergence.response._binary import (
    binary_response_epsilon,
    binary_response_log_delta,
    binary_response_window,
)
from jaxacct.mechanisms import FiniteRandomizer, KaryRandomizedResponse, LocalRandomizer, Shuffled
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import bisect_lanes, down, log_or_minus_inf, map_rows, up

_SHARES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)  # of delta, for what a composition splits off
_NUM_HALVINGS = 44
_TRACED_REPORTS = 1e9  # static windows are made for so many where the number is traced
_LOCAL_EPSILONS = tuple(np.geomspace(0.05, 12.0, 40).tolist())


_Exp = Callable[[Any], Any]


def _pair_of_any(randomizer: LocalRandomizer, exp: _Exp) -> tuple[Any, Any]:
    return down(exp(-randomizer.local_epsilon), 8), randomizer.local_epsilon


def _pair_of_k_ary(randomizer: KaryRandomizedResponse, exp: _Exp) -> tuple[Any, Any]:
    return down(2.0 / (exp(randomizer.local_epsilon) + 1.0), 8), randomizer.local_epsilon


def _pair_of_finite(randomizer: FiniteRandomizer, exp: _Exp) -> tuple[Any, Any]:
    del exp
    return randomizer.clone_prob, randomizer.local_epsilon


_PAIRS: dict[type, Callable[[Any, _Exp], tuple[Any, Any]]] = {
    FiniteRandomizer: _pair_of_finite,
    KaryRandomizedResponse: _pair_of_k_ary,
    LocalRandomizer: _pair_of_any,
}
_PAIRED = frozenset((Shuffled, randomizer) for randomizer in _PAIRS)


def has_pair(mechanism: Mechanism) -> bool:
    """Whether one clones pair dominates each of its rounds: shuffled reports of pure randomizers."""
    return mechanism.signature() in _PAIRED and is_pure(cast(Shuffled, mechanism))


def pair_of(randomizer: Any, exp: _Exp = jnp.exp) -> tuple[Any, Any]:
    """(clone probability, local epsilon) of the clones pair that dominates reports of a pure randomizer (CL-S2).

    e^-local_epsilon for any randomizer; for a known one the largest p with R(x) >= p (R(y) + R(z)) / 2. Rounded down.
    Outside the float64 boundary `exp` must be NumPy's.
    """
    return _PAIRS[type(randomizer)](randomizer, exp)


def concrete_pair(mechanism: Shuffled) -> tuple[float, float, float]:
    """(num_reports, clone_prob, local_epsilon) of a mechanism with concrete scalar fields."""
    clone_prob, local_epsilon = pair_of(mechanism.mechanism, np.exp)
    return float(mechanism.num_reports), float(clone_prob), float(local_epsilon)


def _lanes(mechanism: Shuffled) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(num_reports, clone_prob, local_epsilon) [L]."""
    clone_prob, local = pair_of(mechanism.mechanism)
    n = jnp.asarray(mechanism.num_reports, jnp.float64)
    return n, clone_prob * jnp.ones_like(n), local * jnp.ones_like(n)


def is_pure(mechanism: Shuffled) -> bool:
    """Whether its randomizer is known to be pure."""
    delta = getattr(mechanism.mechanism, "local_delta", 0.0)
    return not is_traced(delta) and not np.any(np.asarray(delta) > 0)


def clones_statics(mechanism: Shuffled) -> dict[str, Any]:
    """Static sizes for the clones kernels, wide enough for every lane."""
    if is_traced(mechanism) or type(mechanism.mechanism) not in _PAIRS:
        return {"window": TRACED_WINDOW, "pure": is_pure(mechanism)}
    clone_prob, _ = pair_of(jax.tree.map(np.asarray, mechanism.mechanism), np.exp)
    return {"window": window_for(mechanism.num_reports, clone_prob), "pure": is_pure(mechanism)}


def _where_single(mechanism: Shuffled, value: jax.Array, otherwise: float) -> jax.Array:
    return jnp.where(mechanism.num_epochs == 1, value, otherwise)


def clones_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """One round by the exact clones pair (Theorem 3.2), approximate randomizers by Theorem 3.8."""
    n, clone_prob, local = _lanes(mechanism)
    if pure:
        value = clones_epsilon(log_delta, n, clone_prob, local, window=window).upper
    else:
        cost = log_replacement_cost(n, local, log_or_minus_inf(mechanism.mechanism.local_delta), jnp.ones_like(n))
        value = total_epsilon(pure_profile(window=window), n, local, cost, log_delta)
    return _where_single(mechanism, value, jnp.inf)


def clones_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """As `clones_upper_epsilon`, log delta."""
    n, clone_prob, local = _lanes(mechanism)
    value = clones_delta(epsilon, n, clone_prob, local, window=window).log_delta.upper
    if not pure:
        cost = log_replacement_cost(n, local, log_or_minus_inf(mechanism.mechanism.local_delta), jnp.ones_like(n))
        value = with_replacement_cost(Guarantee(epsilon, value), cost).log_delta
    return _where_single(mechanism, value, 0.0)


def pair_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """The clones pair's own epsilon from below: what the analysis cannot improve."""
    n, clone_prob, local = _lanes(mechanism)
    value = clones_epsilon(log_delta, n, clone_prob, local, window=window).lower
    return _where_single(mechanism, value, 0.0) if pure else jnp.zeros_like(value)


def pair_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """As `pair_lower_epsilon`, log delta."""
    n, clone_prob, local = _lanes(mechanism)
    value = clones_delta(epsilon, n, clone_prob, local, window=window).log_delta.lower
    return _where_single(mechanism, value, -jnp.inf) if pure else jnp.full_like(value, -jnp.inf)


def clones_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of all rounds by the exact clones pair, any real order; inf unless pure."""
    n, clone_prob, local = _lanes(mechanism)
    single = jnp.where(_local_delta(mechanism) > 0, jnp.inf, clones_rdp(orders, n, clone_prob, local).upper)
    return compose_rdp([(single, mechanism.num_epochs)])


def girgis_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of all rounds by Girgis et al., Theorems 1 and 2, whole orders; pure randomizers."""
    n, _, local = _lanes(mechanism)
    single = paper_rdp(n, local, orders=[int(a) for a in orders])
    single = jnp.where(_local_delta(mechanism) > 0, jnp.inf, single)
    return compose_rdp([(single, mechanism.num_epochs)])


def mixture_sizes(mechanism: Shuffled, *, orders: Sequence[float]) -> dict[str, Any]:
    """Static sizes of `mixture_upper_rdp`."""
    concrete = not is_traced(mechanism)
    n = mechanism.num_reports if concrete else _TRACED_REPORTS
    return mixture_statics(n, mechanism.mechanism.local_epsilon if concrete else 1.0, orders)


def mixture_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float], nodes: int, window: int) -> jax.Array:
    """Renyi divergences [A, L] of all rounds by Girgis et al., Theorem 4, exact special pairs; pure randomizers."""
    n, _, local = _lanes(mechanism)
    single = mixture_rdp(n, local, orders=orders, nodes=nodes, window=window)
    single = jnp.where(_local_delta(mechanism) > 0, jnp.inf, single)
    return compose_rdp([(single, mechanism.num_epochs)])


def closed_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array) -> jax.Array:
    """One round by Theorem 3.1's closed form, in its true region; pure randomizers."""
    n, _, local = _lanes(mechanism)
    value = closed_form_epsilon(n, pure_parameters(local), log_delta)
    return _where_single(mechanism, jnp.where(_local_delta(mechanism) > 0, jnp.inf, value), jnp.inf)


def closed_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array) -> jax.Array:
    """As `closed_upper_epsilon`, log delta."""
    n, _, local = _lanes(mechanism)
    value = closed_form_log_delta(n, pure_parameters(local), epsilon)
    return _where_single(mechanism, jnp.where(_local_delta(mechanism) > 0, 0.0, value), 0.0)


def _local_delta(mechanism: Shuffled) -> Any:
    return getattr(mechanism.mechanism, "local_delta", 0.0)


def unamplified_statics(mechanism: Shuffled) -> dict[str, Any]:
    """The window of the composition of randomized responses."""
    if is_traced(mechanism.num_epochs):
        return {"rounds": composition_window(1e9)}
    return {"rounds": composition_window(float(np.max(mechanism.num_epochs)))}


def _log_gone(mechanism: Shuffled, count: jax.Array) -> jax.Array:
    """log (1 - local_delta)^count, at most 0."""
    return count * jnp.log1p(-_local_delta(mechanism) * jnp.ones_like(count))


def local_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, rounds: int) -> jax.Array:
    """No amplification: `num_epochs` reports by optimal composition (Kairouz, Oh and Viswanath, Theorem 3.3).

    For approximate reports 1 - (1 - delta) / (1 - local_delta)^rounds is left for the pure parts.
    """
    _, _, local = _lanes(mechanism)
    count = mechanism.num_epochs * jnp.ones_like(local)
    gone, delta = _log_gone(mechanism, count), jnp.exp(log_delta)
    left = -jnp.expm1(jnp.log1p(-delta) - gone) - 2.0**-48 * delta
    affordable = (gone == 0) | (left > 0)
    log_left = jnp.where(gone == 0, log_delta, jnp.log(jnp.where(left > 0, left, 1.0)))
    value = split_epsilon(lambda _: local, count, log_left, shares=(2.0**-40,), window=rounds)
    value = jnp.minimum(value, up(count * local, 8))
    return jnp.where(affordable, value, jnp.inf)


def local_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, rounds: int) -> jax.Array:
    """As `local_upper_epsilon`, log delta."""
    _, _, local = _lanes(mechanism)
    count = mechanism.num_epochs * jnp.ones_like(local)
    value, gone = optimal_log_delta(epsilon, local, count, window=rounds), _log_gone(mechanism, count)
    lost = log_or_minus_inf(-jnp.expm1(gone))
    return jnp.minimum(jnp.logaddexp(value + gone, lost) + 2.0**-48, 0.0)


def composed_statics(mechanism: Shuffled) -> dict[str, Any]:
    """Those of the pair and of the composition."""
    return {**clones_statics(mechanism), **unamplified_statics(mechanism)}


def composed_upper_epsilon(
    mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool, rounds: int
) -> jax.Array:
    """Several rounds: each by the clones pair at a share of delta, then optimal composition; both shares optimised.

    For approximate randomizers the cost of Theorem 3.8 is added once and must fit into its own share.
    """
    n, clone_prob, local = _lanes(mechanism)
    count = mechanism.num_epochs * jnp.ones_like(local)

    def step(log_step_delta: jax.Array) -> jax.Array:
        return clones_epsilon(log_step_delta, n, clone_prob, local, window=window).upper

    def composed(target: jax.Array) -> jax.Array:
        return split_epsilon(step, count, target, shares=_SHARES, window=rounds)

    if pure:
        return composed(log_delta)
    cost = log_replacement_cost(n, local, log_or_minus_inf(mechanism.mechanism.local_delta), count)

    def row(share: jax.Array) -> jax.Array:
        epsilon = composed(log_delta + jnp.log1p(-share) - 2.0**-46)
        needed = jnp.logaddexp(0.0, epsilon) + cost
        return jnp.where(needed <= log_delta + jnp.log(share), epsilon, jnp.inf)

    return jnp.min(map_rows(row, jnp.asarray((0.001, 0.01, 0.1, 0.5), jnp.float64)), axis=0)


def composed_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, **_: Any) -> jax.Array:
    """Not inverted: the loss distribution answers."""
    return jnp.zeros_like(epsilon)


def gaussian_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Gaussian reports, purified (Lemma 3.7 and Theorem 3.8), the least over a grid of local epsilons; one round."""
    del pure
    n = jnp.asarray(mechanism.num_reports, jnp.float64)
    mu = 1.0 / mechanism.mechanism.noise_multiplier

    def row(local_epsilon: jax.Array) -> jax.Array:
        local = jnp.broadcast_to(local_epsilon, n.shape)
        cost = log_gaussian_replacement_cost(n, local, mu, jnp.ones_like(n))
        return total_epsilon(pure_profile(window=window), n, local, cost, log_delta)

    value = jnp.min(map_rows(row, jnp.asarray(_LOCAL_EPSILONS, jnp.float64)), axis=0)
    return _where_single(mechanism, value, jnp.inf)


def gaussian_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """As `gaussian_upper_epsilon`, log delta."""
    del pure
    n = jnp.asarray(mechanism.num_reports, jnp.float64)
    mu = 1.0 / mechanism.mechanism.noise_multiplier

    def row(local_epsilon: jax.Array) -> jax.Array:
        local = jnp.broadcast_to(local_epsilon, n.shape)
        cost = log_gaussian_replacement_cost(n, local, mu, jnp.ones_like(n))
        pair = clones_delta(epsilon, n, jnp.exp(-local), local, window=window)
        return with_replacement_cost(Guarantee(epsilon, pair.log_delta.upper), cost).log_delta

    value = jnp.min(map_rows(row, jnp.asarray(_LOCAL_EPSILONS, jnp.float64)), axis=0)
    return _where_single(mechanism, value, 0.0)


def _gaussian_local_mu(mechanism: Shuffled) -> jax.Array:
    """Of all rounds of one user's reports, unshuffled: two data are 2 clipping norms apart."""
    single = up(2.0 / mechanism.mechanism.noise_multiplier, 8)
    return compose_gaussian_mu([(single, mechanism.num_epochs)])


def gaussian_local_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array) -> jax.Array:
    """Gaussian reports without the shuffle, any number of rounds."""
    return gaussian_epsilon(log_delta, _gaussian_local_mu(mechanism))


def gaussian_local_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array) -> jax.Array:
    """As `gaussian_local_upper_epsilon`, log delta."""
    return gaussian_log_delta(epsilon, _gaussian_local_mu(mechanism))


def blanket_statics(mechanism: Shuffled) -> dict[str, Any]:
    """The window over the number of clones."""
    if is_traced(mechanism):
        return {"num_clones": component_windows(_TRACED_REPORTS, 0.5, 0.5)[0]}
    randomizer = mechanism.mechanism
    single = 1.0 / (np.exp(np.asarray(randomizer.local_epsilon)) + randomizer.num_categories - 1.0)
    pairs = np.broadcast(np.asarray(mechanism.num_reports, float), np.minimum(2.0 * single, 1.0))
    return {"num_clones": max(component_windows(float(n), float(p), 0.5)[0] for n, p in pairs)}


def blanket_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, num_clones: int) -> jax.Array:
    """k-ary randomized response by its privacy blanket split over all values (CL-S10); one round."""
    n, _, local = _lanes(mechanism)
    pair = k_ary_blanket_pair(local, mechanism.mechanism.num_categories * jnp.ones_like(n))
    value = mean_component_epsilon(log_delta, n, pair, local, num_clones=num_clones)
    return _where_single(mechanism, value, jnp.inf)


def blanket_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, num_clones: int) -> jax.Array:
    """As `blanket_upper_epsilon`, log delta."""
    n, _, local = _lanes(mechanism)
    pair = k_ary_blanket_pair(local, mechanism.mechanism.num_categories * jnp.ones_like(n))
    upper = mean_component_delta(epsilon, n, pair, num_clones=num_clones).upper
    return _where_single(mechanism, log_or_minus_inf(upper), 0.0)


def elsewhere_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, num_clones: int) -> jax.Array:
    """k-ary randomized response when no other record holds the two values (CL-S10), lower bound; k >= 3."""
    n, _, local = _lanes(mechanism)
    k = mechanism.mechanism.num_categories * jnp.ones_like(n)
    pair = k_ary_elsewhere_pair(local, jnp.maximum(k, 3.0))
    lower = mean_component_delta(epsilon, n, pair, num_clones=num_clones).lower
    return jnp.where(k >= 3.0, log_or_minus_inf(lower), -jnp.inf)


def elsewhere_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, num_clones: int) -> jax.Array:
    """As `elsewhere_lower_log_delta`, epsilon: bisection that keeps the end where delta is larger."""
    _, _, local = _lanes(mechanism)

    def above(epsilon: jax.Array) -> jax.Array:
        return elsewhere_lower_log_delta(mechanism, epsilon, num_clones=num_clones) > log_delta

    return bisect_lanes(above, jnp.zeros_like(local), local, num_steps=_NUM_HALVINGS)


def response_statics(mechanism: Shuffled) -> dict[str, Any]:
    """Blocks of counts of shuffled binary randomized response."""
    most = _TRACED_REPORTS if is_traced(mechanism.num_reports) else float(np.max(mechanism.num_reports))
    return {"blocks": binary_response_window(most)}


def response_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, blocks: int) -> jax.Array:
    """Shuffled binary randomized response, one of the randomizers meant (CL-S16): no bound for all can be lower."""
    n, _, local = _lanes(mechanism)
    value = binary_response_epsilon(log_delta, n, local, window=blocks)
    return jnp.where(local > 0, value, 0.0)


def response_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, blocks: int) -> jax.Array:
    """As `response_lower_epsilon`, log delta."""
    n, _, local = _lanes(mechanism)
    return jnp.where(local > 0, binary_response_log_delta(epsilon, n, local, window=blocks), -jnp.inf)
