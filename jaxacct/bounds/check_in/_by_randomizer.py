"""Upper and lower bounds for shuffled check-ins, on lanes, each local randomizer by the theorems that hold for it.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", by sound replacements of its statements
(CI-S21, CI-S23) over the clones pair of Feldman, McMillan & Talwar 2021. Replace-one adjacency; every upper bound
covers both directions. Outside a regime an upper bound is inf (log delta 0), a lower one 0 (log delta -inf).
`mechanism` holds lanes, `log_delta` is the log of the target, and both `log_delta` and `epsilon` are [L].

A round at probability q is a round at a larger q' whose reports are each dropped with probability 1 - q/q'. Dropping is
post-processing, so that a bound at q' holds at q. The bounds themselves do not always grow with q: they fall, by up to
two thirds, about where the reports begin to hold log(1/delta) clones. So the least bound over q and a few larger
probabilities is taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct import _trees
from jaxacct._jax import jax, jnp
from jaxacct.bounds._clones_pair import pair_of
from jaxacct.bounds.check_in import _one_setting as one_setting
from jaxacct.bounds.check_in._profile import (
    CheckInPair,
    ProfilePoint,
    check_in_pair,
    check_in_profile,
    profile_epsilon,
    rough_epsilon,
    with_cost,
)
from jaxacct.bounds.shuffle._which_reports import best_for_epsilon, best_for_log_delta, run_of
from jaxacct.composition import compose_rdp
from jaxacct.conversion import epsilon_from_rdp, log_delta_from_rdp
from jaxacct.divergence.check_in._blocks import BlockLayout
from jaxacct.divergence.check_in._moments import loss_nodes, rdp_from_profile
from jaxacct.divergence.gaussian._pair import gaussian_log_delta
from jaxacct.mechanisms._check_in import CheckIn
from jaxacct.special import log_down, log_or_minus_inf, log_up, softplus, up
from jaxacct.special._namespace import cond, is_jax, lane_map, stop_gradient, xp

# Numbers of blocks of counts, for one epsilon or delta, and for a Renyi curve, which needs `_NODES` epsilons. Every
# layout and number of nodes is certified; more of them are tighter and slower.
_REPORTS, _CLONES = BlockLayout(32, 8, 96), BlockLayout(16, 8, 256)
_CURVE_REPORTS, _CURVE_CLONES, _NODES = BlockLayout(24, 6, 56), BlockLayout(12, 6, 128), 192
# Renyi orders at which several rounds are composed: from 1.05 to 2e5, geometric above 1; only tightness.
_ORDERS = tuple((1.0 + np.geomspace(0.05, 2e5, 240)).tolist())
# Parts of delta that pay for replacing approximate randomizers: any is certified, the least answer is taken.
_SHARES = (0.001, 0.01, 0.1, 0.5)
# Local epsilons, in nats, of the pure reports that replace Gaussian ones: any is certified, the least answer is taken.
_LOCAL_EPSILONS = tuple(np.geomspace(0.1, 10.0, 16).tolist())
_NEAR = (1.0, 1.02, 0.98)  # factors of the one that a guess finds best; these are tried first
# Expected clones at the larger probabilities that are tried: about where, for some delta, a bound is the least of all.
_WANTED = (15.0, 30.0, 60.0, 120.0)
# Below 0.5 expected clones the bound still grows with the probability of a report: larger probabilities are not tried.
_FEWEST = 0.5
MOST_LOCAL = 300.0  # local epsilon beyond which no bound is given: a pure randomizer then reveals nearly everything


class _Lanes(NamedTuple):
    """Of each lane, float64 [L]: users, probability of a report, clones pair, cost, rounds, the largest answer of use.

    `log_cost` is the log of the total variation at which one report is replaced by a pure one; -inf if it is pure.
    """

    num_users: jax.Array
    prob: jax.Array
    clone_prob: jax.Array
    local_epsilon: jax.Array
    log_cost: jax.Array
    rounds: jax.Array
    highest: jax.Array


def _lanes(mechanism: CheckIn, local_epsilon: jax.Array | None = None) -> _Lanes:
    """The lanes of `mechanism`.

    For Gaussian reports `local_epsilon` [L] is that of the pure randomizers that replace them (Feldman, McMillan &
    Talwar 2021, Lemma 3.7); None otherwise.
    """
    n = xp.asarray(mechanism.num_users, xp.float64)
    one = xp.ones_like(n)
    prob = mechanism.check_in_prob * (1.0 - mechanism.dropout_prob) * one
    randomizer = mechanism.mechanism
    if local_epsilon is not None:
        clone_prob, local = xp.exp(-local_epsilon), local_epsilon
        log_cost = gaussian_log_delta(0.5 * local_epsilon * one, 1.0 / randomizer.noise_multiplier * one)
    else:
        clone_prob, local = pair_of(randomizer)
        delta = getattr(randomizer, "local_delta", 0.0)
        log_cost = log_or_minus_inf(delta * one) + xp.log1p(0.5 * xp.exp(-local * one))  # Theorem 3.8
    return _Lanes(
        n, prob, clone_prob * one, local * one, log_up(log_cost * one, 64), mechanism.num_epochs * one, xp.inf * one
    )


def lane_by_lane(fn: Callable[..., jax.Array], lanes: Any) -> jax.Array:
    """``fn`` of one lane at a time, [.., 1] to [.., L]: the tables of one pair take as much memory as a batch may."""
    size = _trees.leaves(lanes)[0].shape[0]
    if size == 1:
        return fn(lanes)
    found = lane_map(fn, _trees.map_leaves(lambda x: x.reshape(-1, 1), lanes))
    return xp.moveaxis(found[..., 0], 0, -1)


def _at_wanted(at: _Lanes, wanted: Any) -> tuple[_Lanes, jax.Array]:
    """`at` with `wanted` clones expected, and whether that is a larger probability which may give a smaller bound."""
    clones = at.num_users * at.clone_prob
    prob = xp.minimum(wanted / xp.maximum(clones, 1e-300), 1.0)
    # of the wanted numbers that need probability 1, the last is enough
    larger = (prob > at.prob) & (clones * at.prob > _FEWEST) & ((prob < 1) | (wanted == _WANTED[-1]))
    return at._replace(prob=xp.where(larger, prob, at.prob)), larger


def _settings(at: _Lanes) -> list[_Lanes]:
    """`at`, one lane of concrete numbers, and the larger probabilities that may give a smaller bound."""
    return [at, *(there for there, larger in (_at_wanted(at, x) for x in _WANTED) if larger[0])]


def settings_of(mechanism: CheckIn) -> list[Any]:
    """One round of check-ins [N] at its probability of a report, and at larger ones, whose bounds hold for it too.

    Each is as `one_setting` takes it. The mechanism has concrete scalar fields and a pure randomizer.
    """
    return _settings(_lanes(_trees.map_leaves(lambda x: np.full(1, float(x)), mechanism)))


def _least_answer(
    answer: Callable[..., jax.Array],
    worst: float,
    is_hopeless: Callable[..., jax.Array] | None = None,
    order: Callable[..., list[Any]] | None = None,
) -> Callable[..., jax.Array]:
    """A function of one lane: the least of ``answer(at, target)`` [1] over its probability of a report and larger ones.

    No answer is above `worst`. Where ``is_hopeless(at, target)`` says that the answer is `worst`, it is not computed.
    On the host the probabilities are taken in ``order(settings, target, local_epsilon)``, and an answer above the best
    one is of no use.
    """

    def step(at: _Lanes, target: jax.Array, best: jax.Array, wanted: Any) -> jax.Array:
        there, larger = _at_wanted(at, wanted)
        use = (wanted == 0) | larger[0]
        if is_hopeless is not None:
            use = use & ~is_hopeless(there, target)[0]
        value = cond(use, lambda lanes: answer(lanes, target), lambda _: xp.full_like(best, worst), there)
        return xp.minimum(best, value)

    def least(at: _Lanes, target: jax.Array) -> jax.Array:
        best = xp.full_like(at.num_users, worst)
        if is_jax(best):
            wanted = jnp.asarray((0.0, *_WANTED), jnp.float64)
            return jax.lax.scan(lambda best, wanted: (step(at, target, best, wanted), None), best, wanted)[0]
        settings = _settings(at)
        if is_hopeless is not None:
            settings = [there for there in settings if not is_hopeless(there, target)[0]]
        if order is not None and len(settings) > 1:
            settings = order(settings, target, _usable_local(at))
        for there in settings:
            best = np.minimum(best, answer(there._replace(highest=xp.minimum(best, there.highest)), target))
        return best

    return least


def _usable_local(at: _Lanes) -> jax.Array:
    """The local epsilon; NaN, which fails closed, where a lane is out of range."""
    usable = (at.local_epsilon <= MOST_LOCAL) & (at.prob >= 0) & (at.prob <= 1) & (at.num_users >= 1)
    return xp.where(usable, at.local_epsilon, xp.nan)


def _pair(at: _Lanes, reports: BlockLayout, clones: BlockLayout) -> CheckInPair:
    """The clones pair under check-ins, of one lane."""
    local = _usable_local(at)
    return check_in_pair(at.num_users, at.prob, at.clone_prob, local, reports=reports, clones=clones)


def _cost(at: _Lanes) -> tuple[jax.Array, jax.Array]:
    """(log of c 2 (q (1-q) + n q^2), log of c n q), each [L], c the cost of one report.

    They bound E (K/n) (1 + e^eps_K) K c, the expected cost of K reports, where e^eps_K = 1 + (n/K)(e^eps - 1).
    """
    mean = at.num_users * at.prob
    fixed = 2.0 * at.prob * (1.0 - at.prob + mean)
    return log_or_minus_inf(fixed) + at.log_cost, log_or_minus_inf(mean) + at.log_cost


def _profile(epsilon: jax.Array, at: _Lanes, pair: CheckInPair) -> ProfilePoint:
    """The profile [L] of one round at `epsilon`, the cost of replacing reports included."""
    return with_cost(check_in_profile(epsilon, pair), epsilon, *_cost(at))


def _one_epsilon(at: _Lanes, log_delta: jax.Array) -> jax.Array:
    """Epsilon [1] of one round, one lane, rounded up; inf for several rounds."""
    if not is_jax(*at):
        return one_setting.upper_epsilon(at, log_delta, *_cost(at), _usable_local(at))
    pair = _pair(at, _REPORTS, _CLONES)
    leaves, tree = _trees.flatten((at, pair))

    def profile(epsilon: jax.Array, *leaves: jax.Array) -> ProfilePoint:
        return _profile(epsilon, *_trees.unflatten(tree, leaves))

    hopeless = stop_gradient(_cost(at)[0] >= log_delta) | ~(pair.local_epsilon >= 0)
    high = xp.where(hopeless, xp.nan, xp.minimum(at.local_epsilon, at.highest))
    start = rough_epsilon(log_delta, at.num_users, at.prob, at.clone_prob, at.local_epsilon)
    value = profile_epsilon(profile, log_delta, xp.where(xp.isfinite(start), start, 0.0), high, *leaves)
    return xp.where(at.rounds == 1, value, xp.inf)


def _one_log_delta(at: _Lanes, epsilon: jax.Array) -> jax.Array:
    """Log delta [1] of one round, one lane, rounded up; 0 for several rounds."""
    if not is_jax(*at):
        return one_setting.upper_log_delta(at, epsilon, *_cost(at), _usable_local(at))
    pair = _pair(at, _REPORTS, _CLONES)
    value = _profile(epsilon, at, pair).log_delta
    return xp.where((at.rounds == 1) & (pair.local_epsilon >= 0), value, 0.0)


_least_epsilon = _least_answer(_one_epsilon, xp.inf, order=one_setting.by_epsilon)
_least_log_delta = _least_answer(_one_log_delta, 0.0, order=one_setting.by_log_delta)


def profile_upper_epsilon(mechanism: CheckIn, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of one round of check-ins, rounded up, by its direct profile over the clones pair (CI-S23).

    Feldman, McMillan & Talwar 2021, Theorem 3.2 and Lemma 2.3 over the visible number of reports. Upper bound; inf for
    several rounds. Approximate randomizers pay the cost of Theorem 3.8, for the reports that are sent.
    """
    return lane_by_lane(lambda args: _least_epsilon(*args), (_lanes(mechanism), log_delta))


def profile_upper_log_delta(mechanism: CheckIn, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of one round of check-ins, rounded up, by its direct profile over the clones pair (CI-S23).

    Upper bound, as `profile_upper_epsilon`; 0 for several rounds.
    """
    return lane_by_lane(lambda args: _least_log_delta(*args), (_lanes(mechanism), epsilon))


def _on_host_only(
    answer: Callable[..., Any], order: Any, worst: float, nothing: float, mechanism: CheckIn, target: Any
) -> Any:
    """The least over the larger probabilities; `nothing` on lanes, and for more than one round."""
    lanes = _lanes(mechanism)
    if is_jax(*lanes, target) or target.shape[0] > 1 or lanes.rounds[0] != 1 or lanes.log_cost[0] > -np.inf:
        return xp.full_like(target, nothing)
    of_one = _least_answer(lambda at, target: answer(at, target, _usable_local(at)), worst, order=order)
    return of_one(lanes, target)


def profile_lower_epsilon(mechanism: CheckIn, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] that `profile_upper_epsilon` would give without any error of its own, rounded down (CI-S23).

    Lower bound on what was analysed, which is a reduction, and so not on the mechanism. 0 on lanes, where nothing is
    claimed, for several rounds, and for approximate randomizers.
    """
    return _on_host_only(one_setting.lower_epsilon, one_setting.by_epsilon, xp.inf, 0.0, mechanism, log_delta)


def profile_lower_log_delta(mechanism: CheckIn, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] that `profile_upper_log_delta` would give without any error of its own, rounded down (CI-S23).

    Lower bound on what was analysed only, as `profile_lower_epsilon`; -inf where nothing is claimed.
    """
    return _on_host_only(one_setting.lower_log_delta, one_setting.by_log_delta, 0.0, -xp.inf, mechanism, epsilon)


def _over_local_epsilons(
    mechanism: CheckIn,
    target: jax.Array,
    answer: Callable[..., jax.Array],
    best_for: Callable[..., float] | None = None,
) -> jax.Array:
    """The least answer [L] over the pure randomizers that may replace Gaussian reports.

    On the host, for one lane, ``best_for(run, target)`` guesses the best one, which is then tried first.
    """

    def row(local: Any, best: Any) -> jax.Array:
        lanes = _lanes(mechanism, xp.broadcast_to(local, target.shape))._replace(highest=best)
        return lane_by_lane(lambda args: answer(*args), (lanes, target))

    best = xp.full_like(target, xp.inf)
    if is_jax(target):
        return xp.min(lane_map(lambda x: row(x, best), jnp.asarray(_LOCAL_EPSILONS, jnp.float64)), axis=0)
    near = () if best_for is None else best_for(run_of(mechanism), float(target[0])) * np.asarray(_NEAR)
    for local in (*near, *reversed(_LOCAL_EPSILONS)):
        best = xp.minimum(best, row(np.float64(local), best))
    return best


def gaussian_upper_epsilon(mechanism: CheckIn, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of one round of check-ins with Gaussian reports, rounded up: replaced by pure ones, then CI-S23.

    Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8 (CL-S8). Upper bound, the least over a grid
    of local epsilons; inf for several rounds.
    """

    def is_hopeless(at: _Lanes, log_delta: jax.Array) -> jax.Array:
        return (_cost(at)[0] >= log_delta) | (at.rounds != 1)

    answer = _least_answer(_one_epsilon, xp.inf, is_hopeless)
    return _over_local_epsilons(mechanism, log_delta, answer, best_for_epsilon)


def gaussian_upper_log_delta(mechanism: CheckIn, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of one round of check-ins with Gaussian reports, rounded up: replaced by pure ones, then CI-S23.

    Upper bound, as `gaussian_upper_epsilon`; 0 for several rounds.
    """
    return _over_local_epsilons(mechanism, epsilon, _least_answer(_one_log_delta, 0.0), best_for_log_delta)


def _curve(at: _Lanes, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, 1] of one round of the pure randomizers, one lane, rounded up."""
    if is_jax(*at):
        return _one_curve(at, tuple(orders))
    numbers: Any = at._replace(highest=xp.ones_like(at.highest))  # which no curve depends on
    return _known_curve(tuple(x.item() for x in numbers), tuple(orders))


@functools.lru_cache(maxsize=64)  # one question asks for several epsilons of one setting, a statement for a dozen
def _known_curve(at: tuple[float, ...], orders: tuple[float, ...]) -> Any:
    lanes: Any = [np.full(1, x) for x in at]
    return _one_curve(_Lanes(*lanes), orders)


def _one_curve(at: _Lanes, orders: tuple[float, ...]) -> jax.Array:
    usable = _usable_local(at)
    local = xp.where(usable > 0, usable, 1.0)
    mean = xp.maximum(at.num_users * at.prob, 1.0)
    clones = mean * at.clone_prob
    inverse = -xp.expm1(-clones) / xp.maximum(clones, 1e-300)
    scale = 2.0 * xp.tanh(0.5 * local) * mean / at.num_users * xp.sqrt(inverse)
    nodes = stop_gradient(loss_nodes(scale, local, _NODES))
    if is_jax(*at):
        pair = _pair(at, _CURVE_REPORTS, _CURVE_CLONES)
        log_delta = lane_map(lambda epsilon: check_in_profile(epsilon, pair).log_delta, nodes[:-1])
    else:
        log_delta = one_setting.upper_log_deltas(at, nodes[:-1], local)
    log_delta = xp.concatenate([log_delta, xp.full_like(nodes[:1], -xp.inf)])
    values = rdp_from_profile(nodes, log_delta, orders=orders)
    values = xp.minimum(values, usable)
    zero = (usable == 0) | ((at.prob == 0) & (usable > 0))
    return xp.where(zero, 0.0, xp.where(usable > 0, values, xp.inf))


def profile_upper_rdp(mechanism: CheckIn, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of all rounds, rounded up, from the direct profile over the clones pair (CI-S23).

    Upper bound, both directions, any real order > 1 (static), pure randomizers; inf for others, which need not have a
    finite Renyi divergence. For the given probability of a report only, not the least over larger ones.
    """
    lanes = _lanes(mechanism)
    values = lane_by_lane(lambda at: _curve(at, orders), lanes)
    values = xp.where(lanes.log_cost > -xp.inf, xp.inf, values)
    return compose_rdp([(values, lanes.rounds)])


def _log_total(at: _Lanes) -> jax.Array:
    """Log of K [L], rounded up: replacing all reports of all rounds by pure ones adds (1 + e^epsilon) K to delta."""
    parts = at.log_cost, log_or_minus_inf(at.num_users * at.prob), xp.log(at.rounds)
    return log_up(parts[0], 16) + log_up(parts[1], 16) + log_up(parts[2], 16)


def _replacing(at: _Lanes, epsilon: jax.Array) -> jax.Array:
    """Log of (1 + e^epsilon) K [L], rounded up."""
    return up(softplus(epsilon), 32) + log_up(_log_total(at), 16)


def _composed_epsilon(at: _Lanes, log_delta: jax.Array) -> jax.Array:
    """Epsilon [1] of all rounds, one lane: rounds compose by Renyi divergences, the cost of replacing is added once."""
    rdp = compose_rdp([(_curve(at, _ORDERS), at.rounds)])
    orders = xp.asarray(_ORDERS, xp.float64)[:, None]
    log_total = _log_total(at)
    best = xp.where(log_total > -xp.inf, xp.inf, epsilon_from_rdp(orders, rdp, log_delta).value)
    for share in _SHARES:
        epsilon = epsilon_from_rdp(orders, rdp, log_down(log_delta + float(np.log1p(-share)), 16)).value
        needed = _replacing(at, epsilon)
        best = xp.minimum(best, xp.where(needed <= log_down(log_delta + float(np.log(share)), 16), epsilon, xp.inf))
    return best


def _composed_log_delta(at: _Lanes, epsilon: jax.Array) -> jax.Array:
    """Log delta [1] of all rounds, one lane: rounds compose by Renyi divergences, replacing costs delta once."""
    rdp = compose_rdp([(_curve(at, _ORDERS), at.rounds)])
    orders = xp.asarray(_ORDERS, xp.float64)[:, None]
    value, cost = log_delta_from_rdp(orders, rdp, epsilon).value, _replacing(at, epsilon)
    total = xp.where(_log_total(at) > -xp.inf, xp.logaddexp(value, xp.where(xp.isfinite(cost), cost, 0.0)), value)
    return xp.minimum(log_up(total, 16), 0.0)


def composed_upper_epsilon(mechanism: CheckIn, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of several rounds of check-ins, rounded up, from added Renyi divergences (CI-S23).

    Upper bound; Mironov 2017, Proposition 1. For approximate randomizers delta is shared with (1 + e^epsilon) K, K the
    expected number of reports of all rounds times the total variation of one (Feldman, McMillan & Talwar 2021, Theorem
    3.8).
    """
    return lane_by_lane(lambda args: _least_answer(_composed_epsilon, xp.inf)(*args), (_lanes(mechanism), log_delta))


def composed_upper_log_delta(mechanism: CheckIn, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of several rounds of check-ins, rounded up, from added Renyi divergences (CI-S23).

    Upper bound, as `composed_upper_epsilon`.
    """
    return lane_by_lane(lambda args: _least_answer(_composed_log_delta, 0.0)(*args), (_lanes(mechanism), epsilon))


def gaussian_composed_upper_epsilon(mechanism: CheckIn, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of several rounds of check-ins with Gaussian reports, rounded up: made pure, then composed.

    Upper bound, as `composed_upper_epsilon`, the least over a grid of local epsilons.
    """
    answer = _least_answer(_composed_epsilon, xp.inf, lambda at, log_delta: _log_total(at) >= log_delta)
    return _over_local_epsilons(mechanism, log_delta, answer)


def gaussian_composed_upper_log_delta(mechanism: CheckIn, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of several rounds of check-ins with Gaussian reports, rounded up: made pure, then composed.

    Upper bound, as `gaussian_composed_upper_epsilon`.
    """
    answer = _least_answer(_composed_log_delta, 0.0, lambda at, epsilon: _replacing(at, epsilon) >= 0.0)
    return _over_local_epsilons(mechanism, epsilon, answer)
