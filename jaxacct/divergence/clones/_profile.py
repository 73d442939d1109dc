"""Privacy profile of the clones pair: certified brackets of delta at epsilon and of epsilon at delta.

Two ways of computing delta are combined, and for each end the tighter one is used: the sum over every count in a static
window (`_pair`), and one contour integral whose work does not depend on n (`_smooth`).
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct._types import Ends
from jaxacct.divergence.clones._pair import (
    ClonesPair,
    CountWindow,
    WindowSum,
    clones_pair,
    count_window,
    outside,
    window_sum,
)
from jaxacct.divergence.clones._smooth import Saddle, SmoothSum, smooth_error, smooth_sum
from jaxacct.divergence.gaussian._pair import rough_gaussian_epsilon
from jaxacct.special import ULP, log1mexp, log_or_minus_inf
from jaxacct.special._namespace import cond, is_jax, stop_gradient, while_loop, xp

_DEVIATIONS = 9.5  # standard deviations that a window covers; Chernoff's bound on the mass outside is then 1e-19
# From this epsilon on, terms may underflow: an upper bound stays that of 500, a lower bound becomes 0.
MAX_EPSILON = 500.0
_SMOOTH_STEPS = 2  # first steps of a search for epsilon: they use the contour's centre only, and certify nothing
_NONE_OUTSIDE, _SURE = 1e-16, 1e-9  # mass outside the counts, and relative width, with which their sums alone suffice
_CHEAP = 1024  # counts from which on the first steps use the contour nevertheless
_MAX_STEPS = 64  # of a search for epsilon: where it ends, the certified points found so far are the answer

TRACED_WINDOW = 1024
"""Counts summed one by one for traced arguments: enough for n p (1 - p) up to 2,500; the contour answers above."""

WIDEST_WINDOW = 2**19
"""Counts summed one by one at most by `jaxacct.papers`, where time counts less; the contour answers above."""


def lane_bytes(*, window: int) -> int:
    """Bytes of one lane, an int, for `Kernel`.

    Chunks of lanes are sized by it so that an array of one value for each count and lane stays in the cache, half a
    MiB.
    """
    return 1024 * max(window, 2048)


class ProfileEnds(NamedTuple):
    """Two ends of log delta, and approximate log Q[loss > epsilon], each [L].

    The latter guides searches and gives slopes.
    """

    log_delta: Ends[jax.Array]
    log_tail: jax.Array


def window_for(num_reports: Any, clone_prob: Any, *, max_window: int = 4096) -> int:
    """A static int, a power of two: the window for `clones_delta` of concrete arrays of pairs.

    It is wide enough for every pair for which some window up to `max_window` suffices; their brackets are exact to
    1e-11 or better. The other pairs have n p (1 - p) > (max_window / 20)^2, and the contour's bracket is narrow there:
    at max_window = 4096, 3e-6 of delta near epsilon = 0, and 1e-6 or better from delta(0) / 2 down.
    """
    n, p = np.broadcast_arrays(np.asarray(num_reports, np.float64), np.asarray(clone_prob, np.float64))
    # the window moves with epsilon, to a mean as low as p / (2 - p) of n: the largest variance on the way
    least = p / (2.0 - p)
    spread = np.clip(0.5, least, p)
    variance = n * spread * (1.0 - spread)
    z2 = _DEVIATIONS**2
    needed = 2.0 * (z2 / 6.0 + np.sqrt(z2 * z2 / 36.0 + z2 * variance)) + 2.0  # Bernstein's inequality
    needed = np.minimum(needed, n)
    fitting = needed[needed <= max_window]
    return 1 << max(7, math.ceil(math.log2(max(float(np.max(fitting, initial=1.0)), 1.0))))


def clones_delta(
    epsilon: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> ProfileEnds:
    """Lower and upper ends [L] of the log of the clones pair's hockey-stick divergence D_{e^epsilon}, both directions.

    Feldman, McMillan & Talwar 2021, Theorem 3.2 (CL-S2): with clone_prob = e^{-local_epsilon} the upper end is an upper
    bound for n shuffled reports of any local_epsilon-DP randomizers, replace-one adjacency; the lower end is one for
    the pair only. With local_epsilon = inf and any clone_prob it is the pair of Lemma 3.3. For a lane whose counts do
    not fit into `window` the contour alone is used; where that fails too, the bounds of randomized response and
    Chernoff above and 0 below.

    Relative width of the bracket: 1e-12 + 4e-14 |log delta| where every count is summed (the rounding booked; measured
    errors are 1e-15 at delta = 1e-6 and 1e-13 at 1e-30).

    Args:
      epsilon: any real, [L]; below 0 by the swap identity delta(-e) = 1 - exp(-e) + exp(-e) delta(e).
      num_reports: n >= 1, [L].
      clone_prob: p in [0, 1], [L].
      local_epsilon: >= 0, or inf, [L]: that of the differing report's own randomized response.
      window: static, the number of counts that are summed one by one, a power of two (`window_for`).
    """
    size = xp.abs(epsilon)
    pair = clones_pair(xp.minimum(size, MAX_EPSILON), num_reports, clone_prob, local_epsilon)
    smooth = smooth_sum(pair)
    at = _bracket(pair, window_sum(pair, count_window(pair, window)), smooth, smooth_error(pair, smooth))
    lower = xp.where(size > MAX_EPSILON, -xp.inf, at.log_delta.lower)
    negative = epsilon < 0
    safe = xp.where(negative, size, 1.0)
    ends = xp.logaddexp(log1mexp(-safe), xp.stack([lower, at.log_delta.upper]) - safe)
    # log(e^A + e^B), weights a and b = 1 - a: A errs by 4 ULP |A| and 5, B by one |B|, a |A| <= |ends| + 1/e, as for B;
    # logaddexp adds 4 ULP of log 2 and one of each operation: 6 |ends| + 12 at most
    slack = 18.0 * ULP * (1.0 + xp.abs(ends))
    # P[L > e] = delta + e^e Q[L > e], and the two laws of the loss are mirror images of each other
    log_p = xp.logaddexp(at.log_delta.upper, safe + at.log_tail)
    log_delta = Ends(
        xp.where(negative, ends[0] - slack[0], lower),
        xp.where(negative, xp.minimum(ends[1] + slack[1], 0.0), at.log_delta.upper),
    )
    return ProfileEnds(log_delta, xp.where(negative, log1mexp(xp.minimum(log_p, 0.0)), at.log_tail))


def _bracket(pair: ClonesPair, exact: WindowSum, smooth: SmoothSum, error: jax.Array) -> ProfileEnds:
    """The intersection of the brackets of both ways of computing delta, [L]; rounding errors are added here."""
    lower, low_contour = exact.delta - exact.blur, smooth.delta - error
    upper, contour = exact.delta + exact.missing + exact.blur, smooth.delta + error
    use_low_contour, use_contour = low_contour > lower, contour < upper
    lower = xp.where(use_low_contour, low_contour, lower)
    upper = xp.where(use_contour, contour, upper)
    tail = xp.where(use_contour, smooth.tail, exact.tail)
    logs = log_or_minus_inf(xp.stack([lower, upper, tail])) + pair.log_unit
    # sums over counts: docs/numerics/clones.md, "Sums over clones"
    log_contrast = xp.log(pair.contrast)
    log_sum = pair.log_scale - log_contrast
    by_sum = ULP * (2048.0 - 170.0 * pair.log_unit + 96.0 * xp.abs(logs[:2] - pair.log_unit) + 10.0 * log_sum)
    # in addition to `smooth_error`: 4 of a logarithm, sums; log_scale errs by 10 log_sum, 5 and 5 |log_contrast|
    by_contour = ULP * (64.0 + 8.0 * xp.abs(logs[:2] - pair.log_unit) + 4.0 * xp.abs(logs[:2]))
    by_contour = stop_gradient(by_contour + ULP * (12.0 * log_sum + 8.0 * xp.abs(log_contrast)))
    by_sum = stop_gradient(by_sum)
    # log1mexp 19, and the unit
    by_cap = stop_gradient(ULP * (64.0 + 32.0 * xp.abs(pair.log_first) - 170.0 * pair.log_unit))
    cap = xp.minimum(xp.minimum(pair.log_first, pair.log_chernoff) + by_cap, 0.0)
    log_lower = logs[0] + pair.log_scale - xp.where(use_low_contour, by_contour[0], by_sum[0])
    log_upper = logs[1] + pair.log_scale + xp.where(use_contour, by_contour[1], by_sum[1])
    # written so that a NaN fails closed
    log_delta = Ends(
        xp.where(pair.possible & (log_lower <= cap), log_lower, -xp.inf),
        xp.where(pair.possible, xp.where(log_upper <= cap, log_upper, cap), xp.where(pair.zero, -xp.inf, 0.0)),
    )
    return ProfileEnds(log_delta, xp.where(pair.possible, logs[2], -xp.inf))


def clones_epsilon(
    log_delta: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> Ends[jax.Array]:
    """Lower and upper ends [L] of the clones pair's epsilon at delta, both directions; in [0, local_epsilon].

    Feldman, McMillan & Talwar 2021, Theorem 3.2 (CL-S2); arguments and regime are those of `clones_delta`, with
    `log_delta` the log of the target. At each end the divergence was evaluated and found to be on the safe side of the
    target. Derivatives are those of the exact root, -(d log delta / d parameter) / (d log delta / d epsilon).
    """
    params = log_delta, num_reports, clone_prob, local_epsilon
    if not is_jax(*params):
        if np.size(log_delta) == 1:
            return _solved(*(float(x[0]) for x in params), window=window)
        return _solve(*params, window=window)

    @jax.custom_jvp
    def solve(*params: jax.Array) -> Ends[jax.Array]:
        return _solve(*params, window=window)

    @solve.defjvp
    def _jvp(primals: Any, tangents: Any) -> tuple[Ends[jax.Array], Ends[jax.Array]]:
        root = solve(*primals)
        params, local = primals[1:], primals[3]
        inside = (root.upper > 0) & (root.upper < xp.minimum(local, MAX_EPSILON))
        at = xp.where(inside, root.upper, xp.minimum(0.5 * local, 1.0))

        value, drift = jax.jvp(lambda *p: clones_delta(at, *p, window=window), params, tangents[1:])
        # d log delta / d eps = -e^eps Q / delta
        slope = -xp.exp(at + value.log_tail - value.log_delta.upper)
        usable = inside & xp.isfinite(slope) & (slope < 0)
        inner = (tangents[0] - drift.log_delta.upper) / xp.where(usable, slope, -1.0)
        edge = xp.where((root.upper > 0) & (root.upper >= local), tangents[3], 0.0)
        rate = xp.where(usable, inner, edge)
        return root, Ends(rate, rate)

    return solve(*params)


@functools.lru_cache(maxsize=64)
def _solved(*params: float, window: int) -> Ends[Any]:
    """`_solve` for one lane on the host; cached, since both ends of an interval need it."""
    lanes: Any = [np.array([x]) for x in params]
    return _solve(*lanes, window=window)


class _Search(NamedTuple):
    """Points [L] at which the divergence was evaluated.

    Between them lie the roots: that of the upper bound in (short, high], that of the lower bound in [low, long).
    """

    turn: jax.Array
    at: jax.Array
    short: jax.Array
    high: jax.Array
    low: jax.Array
    long: jax.Array
    done: jax.Array


def _solve(
    log_delta: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> Ends[jax.Array]:
    """Lower and upper ends [L] of epsilon, by Newton steps on log delta inside a bracket of certified points.

    The first steps use the centre of the contour's bracket alone; at the end one point on either side of the root is
    probed.
    """
    params = num_reports, clone_prob, local_epsilon
    start = _gaussian_root(log_delta, *params)
    at_start = clones_pair(start, *params)
    counts = count_window(at_start, window)
    if not is_jax(log_delta, *params) and np.all(outside(at_start, counts.first, window) < _NONE_OUTSIDE):
        found = _search(log_delta, params, start, counts, by_counts=True)
        if np.all(np.isfinite(found.upper) & (found.upper - found.lower <= _SURE * found.upper)):
            return found
    return _search(log_delta, params, start, counts, by_counts=False)


def _both_ways(
    pair: ClonesPair, counts: CountWindow, refine: Any, *, by_counts: bool
) -> tuple[WindowSum, SmoothSum, jax.Array]:
    """The divergence by sums over counts and by the contour, and an upper bound on the error of the latter, [L].

    Unless `refine`, only the contour's centre is computed; if `refine`, only the sums where `by_counts`.
    """
    none, unknown = xp.zeros_like(pair.threshold), xp.full_like(pair.threshold, xp.inf)
    if by_counts and refine:
        centre = SmoothSum(none, none, Saddle(*7 * [none]), none, none, none, none > 0)
        return window_sum(pair, counts), centre, unknown
    smooth = smooth_sum(pair)
    exact, error = cond(
        refine,
        lambda: (window_sum(pair, counts), smooth_error(pair, smooth)),
        lambda: (WindowSum(none, unknown, none, none), unknown),
    )
    return exact, smooth, error


def _search(
    log_delta: jax.Array, params: tuple[jax.Array, ...], start: jax.Array, counts: CountWindow, *, by_counts: bool
) -> Ends[jax.Array]:
    """The search of `_solve` from `start`; `by_counts` on the host, where sums over `counts` are all that is needed."""
    local_epsilon = params[2]
    first_certified = 0 if by_counts and len(counts.counts) < _CHEAP else _SMOOTH_STEPS

    def step(state: _Search) -> _Search:
        x, refine = state.at, state.turn >= first_certified
        pair = clones_pair(x, *params)
        exact, smooth, error = _both_ways(pair, counts, refine, by_counts=by_counts)
        at = _bracket(pair, exact, smooth, error)
        too_short, too_long = at.log_delta.upper > log_delta, at.log_delta.lower < log_delta
        high = xp.where(too_short, state.high, xp.minimum(state.high, x))
        low = xp.where(too_long, state.low, xp.maximum(state.low, x))
        short = xp.where(refine & too_short, xp.maximum(state.short, x), state.short)
        long = xp.where(refine & too_long, xp.minimum(state.long, x), state.long)
        rough = log_or_minus_inf(xp.stack([smooth.delta, smooth.tail])) + pair.log_unit
        log_value = xp.where(refine, at.log_delta.upper, rough[0] + pair.log_scale)
        # d log delta / d eps = -e^eps Q / delta
        slope = xp.exp(x + xp.where(refine, at.log_tail, rough[1]) - log_value)
        usable = xp.isfinite(slope) & (slope > 0) & (refine | smooth.applies)
        slope = xp.where(usable, slope, 1.0)
        residual = log_value - log_delta
        width = xp.where(xp.isfinite(at.log_delta.lower), at.log_delta.upper - at.log_delta.lower, 1.0)
        # Newton on log delta, concave; where that overshoots, on delta, convex in e^eps: never past the root, but slow
        upper_root = x + residual / slope
        careful = x + xp.log1p(-xp.expm1(-xp.maximum(residual, 0.0)) / slope)
        careful = xp.minimum(xp.maximum(careful, 0.5 * (x + high)), high * (1.0 - 3e-16))
        upper_root = xp.where(upper_root < high, upper_root, xp.where(residual > 0, careful, x))
        lower_root = upper_root - width / slope
        # how far the roots may be from these estimates: curvature, and the spacing of the floats
        close = usable & (xp.abs(residual) < 0.03)
        doubt = (0.02 * width + residual * residual) / slope + 4e-16 * x
        tight = close & (residual * residual < 0.5 * width + 1e-14)
        least, most = xp.maximum(short, 0.0), xp.minimum(long, high)
        enough = 2.5 * doubt + 1e-13 * x  # another evaluation for a smaller gain is not worth its time
        upper_done = (tight & (high <= upper_root + enough)) | (high - least <= 4e-16 * least)
        lower_done = (tight & (low >= lower_root - enough)) | (most - low <= 4e-16 * low)
        upper_done, lower_done = upper_done | (least >= MAX_EPSILON), lower_done | (low >= MAX_EPSILON)
        reach = xp.where(close & refine, doubt, 0.0)
        ahead = xp.maximum(xp.where(upper_done, lower_root - reach, upper_root + reach), 0.0)
        left, right = xp.where(upper_done, low, short), xp.where(upper_done, most, high)
        inside = usable & (ahead > left) & (ahead < right)
        left = xp.maximum(left, 0.0)
        middle = xp.where(xp.isinf(right), 2.0 * left + 1.0, 0.5 * (left + right))
        ahead = xp.minimum(xp.where(inside, ahead, xp.where(refine, middle, x)), MAX_EPSILON)
        done = state.done | (refine & upper_done & lower_done)
        return _Search(state.turn + 1, xp.where(done, x, ahead), short, high, low, long, done)

    first = _Search(
        turn=xp.zeros((), xp.int32),
        at=start,
        short=xp.full_like(start, -1.0),
        high=xp.where(local_epsilon >= 0, local_epsilon, xp.inf),
        low=xp.zeros_like(start),
        long=xp.full_like(start, xp.inf),
        done=~(xp.isfinite(log_delta) & (local_epsilon > 0)),
    )
    last = while_loop(lambda s: (s.turn < _MAX_STEPS) & ~xp.all(s.done), step, first)
    free = (log_delta >= 0) | (local_epsilon == 0)
    low = xp.where(log_delta == -xp.inf, local_epsilon, last.low)
    return Ends(xp.where(free, 0.0, low), xp.where(free, 0.0, last.high))


def _gaussian_root(
    log_delta: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array
) -> jax.Array:
    """Approximate root [L] in the Gaussian limit, mu = 2 s sqrt(E[1/m]): delta ~ mu E[(N - a)_+], eps = mu (a + mu/2).

    It is no bound, but the starting point of a search.
    """
    n, p = num_reports, xp.clip(clone_prob, 1e-16, 1.0 - 1e-16)
    mean_inverse = -xp.expm1(n * xp.log1p(-p)) / (n * p)
    mu = 2.0 * xp.tanh(0.5 * local_epsilon) * xp.sqrt(mean_inverse)
    top = 0.9 * xp.minimum(local_epsilon, MAX_EPSILON)
    rough = rough_gaussian_epsilon(log_delta, mu)
    return xp.clip(xp.where(xp.isfinite(rough), rough, top), 0.0, top)
