"""The privacy profile of shuffled check-ins, from that of shuffled reports.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins" (CI-S23, CI-S24). K ~ Bin(n, q) users
check in. K is seen, and its law is the same for both neighbours. Given K = k, those who check in are a uniform
k-subset. With D_k the profile of k shuffled reports, advanced joint convexity therefore gives

    delta(eps) <= sum_k w_k (k/n) D_k(log(1 + (n/k)(e^eps - 1))),   eps >= 0,   w_k = P[K = k].

Upper bound, replace-one adjacency, both directions, for any D_k that bounds both and does not increase with k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from jaxacct._jax import jax
from jaxacct.divergence.check_in._blocks import BlockLayout, Blocks, binomial_blocks, log_mixture
from jaxacct.divergence.check_in._both_ends import PairCells, log_profile
from jaxacct.divergence.check_in._clones import CountLaw, clones_upper, count_law
from jaxacct.divergence.clones._profile import _gaussian_root as gaussian_root
from jaxacct.special import down, log_sum_exp, log_up, logexpm1
from jaxacct.special._namespace import is_jax, stop_gradient, while_loop, xp

_AIM = 5e-8  # in log delta: the root is sought this far below the target, and accepted within twice as much
_MAX_STEPS = 60  # of a search for epsilon: where it ends, the least certified point so far is the answer


class ProfilePoint(NamedTuple):
    """Log delta, rounded up, and d log delta / d epsilon, which only guides searches; each [L]."""

    log_delta: jax.Array
    slope: jax.Array


class CheckInPair(NamedTuple):
    """The data of the profile: n and the local epsilon [L], blocks of K, the clones' law at their first counts."""

    num_users: jax.Array
    local_epsilon: jax.Array
    blocks: Blocks
    law: CountLaw


def check_in_pair(
    num_users: jax.Array,
    prob: jax.Array,
    clone_prob: jax.Array,
    local_epsilon: jax.Array,
    *,
    reports: BlockLayout,
    clones: BlockLayout,
) -> CheckInPair:
    """The clones pair under check-ins with probability `prob`, its parameters [L].

    Args:
      num_users, prob, clone_prob, local_epsilon: float64 [L].
      reports, clones: static layouts of the blocks of K and of the numbers of clones.
    """
    blocks = binomial_blocks(num_users, prob, reports)
    return CheckInPair(num_users, local_epsilon, blocks, count_law(blocks.first, clone_prob, clones))


def check_in_profile(epsilon: jax.Array, pair: CheckInPair) -> ProfilePoint:
    """Upper bounds [L] on log delta at `epsilon` [L] >= 0, and their slope: CI-S23, with D_k the clones pair.

    For one pair of laws, k -> (k/n) D(log(1 + (n/k)(e^eps - 1))) = E[((k/n)(L - 1) - (e^eps - 1))_+] is convex. On a
    block, D_k is therefore replaced by D of the first count, and the function of k by its chord.
    """
    num_users, blocks = pair.num_users, pair.blocks
    reach = xp.expm1(epsilon)

    def inner(count: jax.Array) -> jax.Array:
        return down(xp.log1p(num_users / count * reach), 16)  # expm1 5 and log1p 4, a quotient and a product

    ends = xp.concatenate([inner(blocks.first), inner(blocks.last)])
    twice = CountLaw(*(xp.concatenate([x, x], axis=1) for x in pair.law))
    weights = xp.concatenate([blocks.log_low, blocks.log_high])
    at = clones_upper(ends, pair.local_epsilon, twice)
    log_share = xp.log(xp.concatenate([blocks.first, blocks.last]) / num_users)
    half = blocks.first.shape[0]
    values = log_share + at.log_delta
    tail = log_sum_exp(xp.where(weights > -xp.inf, weights + at.log_tail, -xp.inf))
    log_delta = xp.minimum(log_mixture(blocks, values[:half], values[half:]), 0.0)
    log_delta = xp.where(xp.isnan(log_delta), 0.0, log_delta)
    return ProfilePoint(log_delta, -xp.exp(xp.minimum(epsilon + tail - log_delta, 700.0)))


class HostPair(NamedTuple):
    """The data of the profile of one setting on the host: n and the local epsilon, cells from one side."""

    num_users: float
    local_epsilon: float
    cells: PairCells


def host_profile(epsilon: Any, pair: HostPair) -> ProfilePoint:
    """`check_in_profile` [1] of one setting on the host, with narrower blocks; 1 where the local epsilon is NaN."""
    n, local = pair.num_users, pair.local_epsilon
    found = log_profile(float(epsilon[0]), n, local, pair.cells, 1.0) if local >= 0.0 else (0.0, 0.0)
    return ProfilePoint(*(cast(Any, np.array([x])) for x in found))


def with_cost(point: ProfilePoint, epsilon: jax.Array, log_fixed: jax.Array, log_rate: jax.Array) -> ProfilePoint:
    """The profile point [L] whose delta is larger by exp(log_fixed) + (e^epsilon - 1) exp(log_rate), rounded up.

    That is what replacing approximate randomizers by pure ones costs; both logs are [L], -inf for nothing.
    """
    # in logarithms: what is no double may grow beyond one
    positive = epsilon > 0
    grown = xp.where(positive, logexpm1(xp.where(positive, epsilon, 1.0)) + log_rate, -xp.inf)
    some = (log_fixed > -xp.inf) | (grown > -xp.inf)
    total = log_sum_exp(xp.stack(xp.broadcast_arrays(point.log_delta, log_up(log_fixed, 8), log_up(grown, 32))))
    total = xp.where(some, log_up(total, 32), point.log_delta)
    slope = xp.exp(point.log_delta - total) * point.slope + xp.exp(xp.minimum(epsilon + log_rate - total, 700.0))
    return ProfilePoint(xp.minimum(total, 0.0), xp.where(some, slope, point.slope))


def profile_epsilon(
    profile: Callable[..., ProfilePoint], log_delta: jax.Array, start: jax.Array, high: jax.Array, *params: jax.Array
) -> jax.Array:
    """The least epsilon [L] found in [0, high] with ``profile(epsilon, *params)`` at most `log_delta`; inf if none.

    Upper bound: the profile was evaluated at the answer, and is within 1e-7 of the target there unless steps ran out.
    It must fall, or fall to one minimum and then rise. The search takes Newton's steps on log delta inside a bracket.
    Derivatives are those of the exact root.

    Args:
      profile: from epsilon [L] and `params` to a point of the profile.
      log_delta: log of the target delta, [L].
      start: where the search begins, [L].
      high: where it ends, [L]; with NaN there is no search, and the result is inf.
      params: arrays on which `profile` depends, for derivatives.
    """

    def plain(log_delta: jax.Array, start: jax.Array, high: jax.Array, *params: jax.Array) -> jax.Array:
        first = xp.clip(start, 0.0, high)

        def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            turn, x, low, best, top, done = state
            point = profile(x, *params)
            residual = point.log_delta - log_delta
            good, falling = residual <= 0, point.slope < 0
            low = xp.where(~good & falling, xp.maximum(low, x), low)
            # right of the minimum, the least epsilon lies to the left
            top = xp.where(good | ~falling, xp.minimum(top, x), top)
            best = xp.where(good, xp.minimum(best, x), best)
            ahead = x - (residual + _AIM) / xp.where(falling, point.slope, -1.0)
            inside = falling & (ahead > low) & (ahead < top)
            ahead = xp.where(inside, ahead, 0.5 * (low + top))
            # both ends first, then from `start`
            ahead = xp.where(turn == 0, high, xp.where(turn == 1, first, ahead))
            near = (good & (residual >= -2.0 * _AIM)) | (top - low <= 1e-9 * top)
            done = done | xp.where(turn == 0, good, xp.where(turn == 1, (low >= high) | (high <= 0), near))
            return turn + 1, xp.where(done, x, ahead), low, best, top, done

        zero = xp.zeros_like(high)
        begin: Any = (xp.zeros((), xp.int32), zero, zero, zero + xp.inf, high, ~(log_delta < 0) | xp.isnan(high))
        last = while_loop(lambda s: (s[0] < _MAX_STEPS) & ~xp.all(s[-1]), step, begin)
        return xp.where(log_delta >= 0, 0.0, last[3])

    arguments = (log_delta, start, high, *params)
    if not is_jax(*arguments):
        return plain(*arguments)
    solve = jax.custom_jvp(plain)

    @solve.defjvp
    def _jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        root = solve(*primals)
        inside = xp.isfinite(root) & (root > 0)
        high = primals[2]
        at = xp.where(inside, root, xp.where(high > 0, 0.5 * high, 1.0))  # a NaN would reach the derivatives
        point, drift = jax.jvp(lambda *p: profile(at, *p), primals[3:], tangents[3:])
        usable = inside & xp.isfinite(point.slope) & (point.slope < 0)
        rate = (tangents[0] - drift.log_delta) / xp.where(usable, point.slope, -1.0)
        return root, xp.where(usable, rate, 0.0)

    return solve(*arguments)


def rough_epsilon(
    log_delta: jax.Array, num_users: jax.Array, prob: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array
) -> jax.Array:
    """Epsilon [L], an estimate to start a search from: that of the sub-sampled pair at the mean number of check-ins."""
    q = xp.clip(prob, 1e-300, 1.0)
    mean = xp.maximum(num_users * q, 1.0)
    inner = gaussian_root(xp.minimum(log_delta - xp.log(q), -1e-3), mean, clone_prob, local_epsilon)
    return stop_gradient(xp.log1p(q * xp.expm1(inner)))
