"""Shuffled reports, each local randomizer by the theorems that hold for it: upper and lower bounds on lanes.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones"; where no paper is named, theorems are theirs. Replace-one
adjacency; the pairs are symmetric, so there is one direction. Outside a theorem's regime an upper bound is inf (log
delta 0), a lower one 0 (log delta -inf). `mechanism` holds lanes, `log_delta` is the log of the target, and both
`log_delta` and `epsilon` are [L]. Sizes after the star are static, from the function named `.._statics` above.
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

# Parts of delta that go to the rounds of a composition: any is certified, the least answer is taken.
_SHARES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
_NUM_HALVINGS = 44  # of [0, local epsilon]: a lower bound on epsilon is found to 2^-44 of that; only tightness
_TRACED_REPORTS = 1e9  # reports for which static windows are made where their number is traced
# Local epsilons, in nats, of the pure reports that replace Gaussian ones: any is certified, the least answer is taken.
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
    """A bool: whether one clones pair dominates each of its rounds: shuffled reports of pure randomizers."""
    return mechanism.signature() in _PAIRED and is_pure(cast(Shuffled, mechanism))


def pair_of(randomizer: Any, exp: _Exp = jnp.exp) -> tuple[Any, Any]:
    """(clone probability, local epsilon), each [L], of the clones pair that dominates reports of a pure randomizer.

    The probability is e^-local_epsilon for any randomizer (Theorem 3.2, CL-S2), and for a known one the largest p with
    R(x) >= p (R(y) + R(z)) / 2; rounded down. Outside the float64 boundary `exp` must be NumPy's.
    """
    return _PAIRS[type(randomizer)](randomizer, exp)


def concrete_pair(mechanism: Shuffled) -> tuple[float, float, float]:
    """(num_reports, clone_prob, local_epsilon), floats, of a mechanism with concrete scalar fields."""
    clone_prob, local_epsilon = pair_of(mechanism.mechanism, np.exp)
    return float(mechanism.num_reports), float(clone_prob), float(local_epsilon)


def _lanes(mechanism: Shuffled) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(num_reports, clone_prob, local_epsilon), each float64 [L]."""
    clone_prob, local = pair_of(mechanism.mechanism)
    n = jnp.asarray(mechanism.num_reports, jnp.float64)
    return n, clone_prob * jnp.ones_like(n), local * jnp.ones_like(n)


def is_pure(mechanism: Shuffled) -> bool:
    """A bool: whether the mechanism's randomizer is known to be pure, its local delta concrete and 0."""
    delta = getattr(mechanism.mechanism, "local_delta", 0.0)
    return not is_traced(delta) and not np.any(np.asarray(delta) > 0)


def clones_statics(mechanism: Shuffled) -> dict[str, Any]:
    """A dict of static sizes for the clones kernels, wide enough for every lane, and whether the randomizer is pure."""
    if is_traced(mechanism) or type(mechanism.mechanism) not in _PAIRS:
        return {"window": TRACED_WINDOW, "pure": is_pure(mechanism)}
    clone_prob, _ = pair_of(jax.tree.map(np.asarray, mechanism.mechanism), np.exp)
    return {"window": window_for(mechanism.num_reports, clone_prob), "pure": is_pure(mechanism)}


def _where_single(mechanism: Shuffled, value: jax.Array, otherwise: float) -> jax.Array:
    """`value` [L] where there is one round, else `otherwise`."""
    return jnp.where(mechanism.num_epochs == 1, value, otherwise)


def clones_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Epsilon [L] of one round by the clones pair, rounded up: Feldman, McMillan & Talwar 2021, Theorem 3.2 (CL-S2).

    Upper bound, replace-one adjacency, both directions; inf for several rounds. Approximate randomizers (`pure` False)
    pay the cost of Theorem 3.8 (CL-S7).
    """
    n, clone_prob, local = _lanes(mechanism)
    if pure:
        value = clones_epsilon(log_delta, n, clone_prob, local, window=window).upper
    else:
        cost = log_replacement_cost(n, local, log_or_minus_inf(mechanism.mechanism.local_delta), jnp.ones_like(n))
        value = total_epsilon(pure_profile(window=window), n, local, cost, log_delta)
    return _where_single(mechanism, value, jnp.inf)


def clones_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Log delta [L] of one round by the clones pair, rounded up: Feldman, McMillan & Talwar 2021, Theorem 3.2 (CL-S2).

    Upper bound, replace-one adjacency, both directions; 0 for several rounds. Approximate randomizers as in
    `clones_upper_epsilon`.
    """
    n, clone_prob, local = _lanes(mechanism)
    value = clones_delta(epsilon, n, clone_prob, local, window=window).log_delta.upper
    if not pure:
        cost = log_replacement_cost(n, local, log_or_minus_inf(mechanism.mechanism.local_delta), jnp.ones_like(n))
        value = with_replacement_cost(Guarantee(epsilon, value), cost).log_delta
    return _where_single(mechanism, value, 0.0)


def pair_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Epsilon [L] of the clones pair itself, one round, rounded down: Feldman, McMillan & Talwar 2021, Theorem 3.2.

    Lower bound on the pair, which is a reduction, and so not on the mechanism: no analysis by this pair can give less.
    0 for several rounds and for approximate randomizers.
    """
    n, clone_prob, local = _lanes(mechanism)
    value = clones_epsilon(log_delta, n, clone_prob, local, window=window).lower
    return _where_single(mechanism, value, 0.0) if pure else jnp.zeros_like(value)


def pair_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Log delta [L] of the clones pair itself, one round, rounded down; see `pair_lower_epsilon`.

    Lower bound on the pair only; -inf for several rounds and for approximate randomizers.
    """
    n, clone_prob, local = _lanes(mechanism)
    value = clones_delta(epsilon, n, clone_prob, local, window=window).log_delta.lower
    return _where_single(mechanism, value, -jnp.inf) if pure else jnp.full_like(value, -jnp.inf)


def clones_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of all rounds, rounded up, by the clones pair: Theorem 3.2 (CL-S14), added over rounds.

    Feldman, McMillan & Talwar 2021. Upper bound, replace-one adjacency, both directions, any real order >= 1 (static);
    inf where the local delta is not 0.
    """
    n, clone_prob, local = _lanes(mechanism)
    single = jnp.where(_local_delta(mechanism) > 0, jnp.inf, clones_rdp(orders, n, clone_prob, local).upper)
    return compose_rdp([(single, mechanism.num_epochs)])


def girgis_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of all rounds, rounded up: Girgis et al. 2021, Theorems 1 and 2, added over rounds.

    Upper bound, replace-one adjacency, both directions, integer orders >= 2 (static); inf where the local delta is
    positive.
    """
    n, _, local = _lanes(mechanism)
    single = paper_rdp(n, local, orders=[int(a) for a in orders])
    single = jnp.where(_local_delta(mechanism) > 0, jnp.inf, single)
    return compose_rdp([(single, mechanism.num_epochs)])


def mixture_sizes(mechanism: Shuffled, *, orders: Sequence[float]) -> dict[str, Any]:
    """A dict of static sizes for `mixture_upper_rdp`."""
    concrete = not is_traced(mechanism)
    n = mechanism.num_reports if concrete else _TRACED_REPORTS
    return mixture_statics(n, mechanism.mechanism.local_epsilon if concrete else 1.0, orders)


def mixture_upper_rdp(mechanism: Shuffled, *, orders: Sequence[float], nodes: int, window: int) -> jax.Array:
    """Renyi divergences [A, L] of all rounds, rounded up: Girgis et al. 2021, Theorem 4, with the exact special pair.

    Upper bound (GI-X1, GI-X2), added over rounds; replace-one adjacency, both directions, real orders > 1 (static); inf
    where the local delta is not 0.
    """
    n, _, local = _lanes(mechanism)
    single = mixture_rdp(n, local, orders=orders, nodes=nodes, window=window)
    single = jnp.where(_local_delta(mechanism) > 0, jnp.inf, single)
    return compose_rdp([(single, mechanism.num_epochs)])


def closed_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of one round in closed form, rounded up: Feldman, McMillan & Talwar 2021, Theorem 3.1 (CL-S1).

    Upper bound, pure randomizers, where n e^-eps0 >= 16 log(4 tanh(eps0/2)/delta); inf elsewhere and for several
    rounds.
    """
    n, _, local = _lanes(mechanism)
    value = closed_form_epsilon(n, pure_parameters(local), log_delta)
    return _where_single(mechanism, jnp.where(_local_delta(mechanism) > 0, jnp.inf, value), jnp.inf)


def closed_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of one round in closed form, rounded up: Feldman, McMillan & Talwar 2021, Theorem 3.1 (CL-S1).

    Upper bound, the inverse of `closed_upper_epsilon`; 0 where that says nothing.
    """
    n, _, local = _lanes(mechanism)
    value = closed_form_log_delta(n, pure_parameters(local), epsilon)
    return _where_single(mechanism, jnp.where(_local_delta(mechanism) > 0, 0.0, value), 0.0)


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
    return count * jnp.log1p(-_local_delta(mechanism) * jnp.ones_like(count))


def local_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, rounds: int) -> jax.Array:
    """Epsilon [L] without amplification, rounded up: one user's reports of all rounds, composed optimally.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3. Upper bound, any number of rounds, never above rounds times the local
    epsilon. For approximate reports 1 - (1 - delta) / (1 - local_delta)^rounds of delta is left for the pure parts; inf
    where nothing is left.
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
    """Log delta [L] without amplification, rounded up: one user's reports of all rounds, composed optimally.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3. Upper bound, any number of rounds, approximate reports included.
    """
    _, _, local = _lanes(mechanism)
    count = mechanism.num_epochs * jnp.ones_like(local)
    value, gone = optimal_log_delta(epsilon, local, count, window=rounds), _log_gone(mechanism, count)
    lost = log_or_minus_inf(-jnp.expm1(gone))
    return jnp.minimum(jnp.logaddexp(value + gone, lost) + 2.0**-48, 0.0)


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
    """Log delta [L], always 0 (delta <= 1): this bound gives epsilon only. For delta the loss distribution is asked."""
    return jnp.zeros_like(epsilon)


def gaussian_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Epsilon [L] of one round of Gaussian reports, rounded up: replaced by pure ones, then the clones pair.

    Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8 (CL-S8). Upper bound, replace-one adjacency,
    the least over a grid of local epsilons; inf for several rounds.
    """
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
    """Log delta [L] of one round of Gaussian reports, rounded up: replaced by pure ones, then the clones pair.

    Upper bound, as `gaussian_upper_epsilon`; 0 for several rounds.
    """
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
    """The mu [L] of all rounds of one user's Gaussian reports, unshuffled: two data are 2 clipping norms apart."""
    single = up(2.0 / mechanism.mechanism.noise_multiplier, 8)
    return compose_gaussian_mu([(single, mechanism.num_epochs)])


def gaussian_local_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of Gaussian reports without amplification, rounded up, any number of rounds.

    Balle & Wang 2018, Theorem 8. Upper bound, replace-one adjacency: composed exactly, the reports of one user are one
    Gaussian mechanism.
    """
    return gaussian_epsilon(log_delta, _gaussian_local_mu(mechanism))


def gaussian_local_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of Gaussian reports without amplification, rounded up, any number of rounds.

    Balle & Wang 2018, Theorem 8. Upper bound, as `gaussian_local_upper_epsilon`.
    """
    return gaussian_log_delta(epsilon, _gaussian_local_mu(mechanism))


def blanket_statics(mechanism: Shuffled) -> dict[str, Any]:
    """A dict with the static window over the number of clones."""
    if is_traced(mechanism):
        return {"num_clones": component_windows(_TRACED_REPORTS, 0.5, 0.5)[0]}
    randomizer = mechanism.mechanism
    single = 1.0 / (np.exp(np.asarray(randomizer.local_epsilon)) + randomizer.num_categories - 1.0)
    pairs = np.broadcast(np.asarray(mechanism.num_reports, float), np.minimum(2.0 * single, 1.0))
    return {"num_clones": max(component_windows(float(n), float(p), 0.5)[0] for n, p in pairs)}


def blanket_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, num_clones: int) -> jax.Array:
    """Epsilon [L] of one round of k-ary randomized response, rounded up, by its privacy blanket split over all values.

    Feldman, McMillan & Talwar 2021, Theorem 4.1, extended to all values (CL-S10). Upper bound, replace-one adjacency;
    inf for several rounds.
    """
    n, _, local = _lanes(mechanism)
    pair = k_ary_blanket_pair(local, mechanism.mechanism.num_categories * jnp.ones_like(n))
    value = mean_component_epsilon(log_delta, n, pair, local, num_clones=num_clones)
    return _where_single(mechanism, value, jnp.inf)


def blanket_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, num_clones: int) -> jax.Array:
    """Log delta [L] of one round of k-ary randomized response, rounded up, by its privacy blanket.

    Upper bound, as `blanket_upper_epsilon`; 0 for several rounds.
    """
    n, _, local = _lanes(mechanism)
    pair = k_ary_blanket_pair(local, mechanism.mechanism.num_categories * jnp.ones_like(n))
    upper = mean_component_delta(epsilon, n, pair, num_clones=num_clones).upper
    return _where_single(mechanism, log_or_minus_inf(upper), 0.0)


def elsewhere_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, num_clones: int) -> jax.Array:
    """Log delta [L] of k-ary randomized response where no other record holds the two values, rounded down (CL-S10).

    Lower bound on the mechanism, one round of however many, replace-one adjacency, for k >= 3; -inf for k = 2.
    """
    n, _, local = _lanes(mechanism)
    k = mechanism.mechanism.num_categories * jnp.ones_like(n)
    pair = k_ary_elsewhere_pair(local, jnp.maximum(k, 3.0))
    lower = mean_component_delta(epsilon, n, pair, num_clones=num_clones).lower
    return jnp.where(k >= 3.0, log_or_minus_inf(lower), -jnp.inf)


def elsewhere_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, num_clones: int) -> jax.Array:
    """Epsilon [L] at which the delta of `elsewhere_lower_log_delta` still exceeds exp(log_delta), found by halving.

    Lower bound on every valid epsilon at that delta (CL-S10); 0 if none is found.
    """
    _, _, local = _lanes(mechanism)

    def above(epsilon: jax.Array) -> jax.Array:
        return elsewhere_lower_log_delta(mechanism, epsilon, num_clones=num_clones) > log_delta

    return bisect_lanes(above, jnp.zeros_like(local), local, num_steps=_NUM_HALVINGS)


def response_statics(mechanism: Shuffled) -> dict[str, Any]:
    """A dict with the static number of blocks of counts of shuffled binary randomized response."""
    most = _TRACED_REPORTS if is_traced(mechanism.num_reports) else float(np.max(mechanism.num_reports))
    return {"blocks": binary_response_window(most)}


def response_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, blocks: int) -> jax.Array:
    """Epsilon [L] of shuffled binary randomized response, rounded down: Feldman, McMillan & Talwar 2021, Appendix G.

    Lower bound, one round of however many (CL-S16): binary randomized response is one of the randomizers that the
    mechanism may have, so that no bound for all of them can be lower.
    """
    n, _, local = _lanes(mechanism)
    value = binary_response_epsilon(log_delta, n, local, window=blocks)
    return jnp.where(local > 0, value, 0.0)


def response_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, blocks: int) -> jax.Array:
    """Log delta [L] of shuffled binary randomized response, rounded down: Feldman, McMillan & Talwar 2021, Appendix G.

    Lower bound, as `response_lower_epsilon`; -inf where nothing is claimed.
    """
    n, _, local = _lanes(mechanism)
    return jnp.where(local > 0, binary_response_log_delta(epsilon, n, local, window=blocks), -jnp.inf)
