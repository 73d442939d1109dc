"""Optimal composition of `count` equal steps, each with the same epsilon and delta.

Kairouz, Oh & Viswanath 2015, "The composition theorem for differential privacy". Upper bounds on any adaptive
composition of `count` mechanisms, each (step_epsilon, delta_1)-DP, for any adjacency that all of them share. Route A of
"Hiding Among the Clones", section 6.1 (CL-S15): each step is one shuffle. Everywhere delta_1 costs
1 - (1 - delta_1)^count (1 - slack) <= count delta_1 + slack, where the slack is the delta of the composition of pure
steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jaxacct._jax import jax
from jaxacct.special import ULP, log1mexp, log_down, log_sum_exp, log_up, map_rows, solve_decreasing, up
from jaxacct.special._binomial import log_binomial_pmf, pmf_rounding
from jaxacct.special._namespace import stop_gradient, xp

_ULPS = 128  # the certificate's rounding, in ulp; some 40 occur at most: functions of 4 each, and products
_LARGEST_WINDOW = 2**16  # most outcomes that are summed; the rest is bounded


def composition_window(count: float) -> int:
    """A static int, a power of two: how many outcomes `optimal_log_delta` sums.

    All of them, or ten standard deviations on either side; the rest is bounded.
    """
    size = min(count + 1.0, 10.0 * math.sqrt(count) + 64.0, _LARGEST_WINDOW)
    return 1 << max(0, math.ceil(size) - 1).bit_length()


def _worst_case(
    epsilon: jax.Array, step_epsilon: jax.Array, count: jax.Array, window: int
) -> tuple[jax.Array, jax.Array]:
    """(`optimal_log_delta`, its derivative in epsilon), each [L]; the derivative only steers a search."""
    valid = (step_epsilon > 0) & (step_epsilon < 709.0) & (count >= 1) & (epsilon >= 0)  # e^step is a double
    step, times = xp.where(valid, step_epsilon, 1.0), xp.where(valid, count, 1.0)
    bad, good = 1.0 / (1.0 + xp.exp(step)), 1.0 / (1.0 + xp.exp(-step))
    last = xp.ceil(stop_gradient(0.5 * (times - epsilon / step)))  # its term is 0, or it would round to one
    against = last - xp.arange(window, dtype=xp.int32).astype(xp.float64)[:, None]
    loss = (times - 2.0 * against) * step - epsilon + 2.0**-50 * (times * step + epsilon)
    inside = (against >= 0) & (loss > 0)
    log_pmf = log_binomial_pmf(xp.where(inside, against, 0.0), times, bad, good)
    # both probabilities err by 7 ULP, which moves it by |k - np| times their difference
    log_pmf = log_pmf + pmf_rounding(log_pmf) + ULP * (16.0 * xp.abs(against - times * bad) + 16.0)
    log_pmf, loss = xp.where(inside, log_pmf, -xp.inf), xp.where(inside, loss, 1.0)
    # P[l - 1] / P[l], decreasing as l falls, at the last term that is summed
    ratio = against[-1] * good / ((times - against[-1] + 1.0) * bad)
    falling = xp.where(ratio < 0.999999, ratio, 0.5)
    rest = xp.where(ratio < 0.999999, log_pmf[-1] + xp.log(falling / (1.0 - falling)), 0.0)
    rest = xp.where(against[-1] > 0, rest, -xp.inf)
    # log1mexp 19 ULP and the sum of the terms; the two parts of the rest
    log_delta = xp.logaddexp(log_up(log_sum_exp(log_pmf + log1mexp(-loss)), 64.0 + window), log_up(rest, 64))
    log_delta = log_up(log_delta, 16)
    slope = -xp.exp(xp.minimum(log_sum_exp(log_pmf - loss) - xp.maximum(log_delta, -1e6), 700.0))
    log_delta = xp.where(valid, xp.minimum(log_delta, 0.0), xp.where(step_epsilon == 0, -xp.inf, 0.0))
    return log_delta, slope


def optimal_log_delta(epsilon: jax.Array, step_epsilon: jax.Array, count: jax.Array, *, window: int) -> jax.Array:
    """Log of the least slack [L] for which `count` pure steps are (epsilon, slack)-DP, rounded up; any epsilon >= 0.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3. The composition of randomized responses is the worst case, so that with
    l of T answers against the odds and e the epsilon of a step

        slack = sum over l, (T - 2l) e > epsilon, of P[Bin(T, 1/(1 + exp e)) = l] (1 - exp(epsilon - (T - 2l) e)):

    positive terms, `window` (static) of them from the largest l down, the rest bounded by a geometric series. At
    epsilon = (T - 2i) e it is the theorem's delta_i.

    Args:
      epsilon: of the whole, [L].
      step_epsilon: e, [L].
      count: T, [L].
      window: static, from `composition_window`.
    """
    return _worst_case(epsilon, step_epsilon, count, window)[0]


def optimal_epsilon(step_epsilon: jax.Array, count: jax.Array, log_slack: jax.Array, *, window: int) -> jax.Array:
    """The least epsilon [L] found with `optimal_log_delta` at most `log_slack`; inf for an infinite step epsilon.

    Upper bound (Kairouz, Oh & Viswanath 2015, Theorem 3.3), never above `jaxacct.papers.clones._closed.simple_epsilon`.
    """

    def excess(
        epsilon: jax.Array, target: jax.Array, step_epsilon: jax.Array, count: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        value, slope = _worst_case(epsilon, step_epsilon, count, window)
        return value - target, slope

    finite = xp.isfinite(step_epsilon)
    step = xp.where(finite, step_epsilon, 0.0)
    root = solve_decreasing(excess, xp.zeros_like(step), up(count * step, _ULPS), log_slack, step, count)
    return xp.where(finite, root, xp.inf)


def split_epsilon(
    step_epsilon: Callable[[jax.Array], jax.Array],
    count: jax.Array,
    log_delta: jax.Array,
    *,
    shares: Sequence[float],
    window: int,
) -> jax.Array:
    """Epsilon [L] at `log_delta`, rounded up, the least over how delta is split between the steps and the slack.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3. Upper bound for every split. The paper does not say how to split; a share
    of 1/2 for the steps is near the best.

    Args:
      step_epsilon: from the log delta [L] of one step to its epsilon [L], upper bound.
      count: number of steps, [L].
      log_delta: log of the target delta, [L].
      shares: static, each in (0, 1): the part of delta that goes to the steps.
      window: static, from `composition_window`.
    """

    def row(share: jax.Array) -> jax.Array:
        step = step_epsilon(log_down(log_delta + xp.log(share) - xp.log(count), 16.0 + 8.0 * xp.log(count)))
        return optimal_epsilon(step, count, log_down(log_delta + xp.log1p(-share), 16), window=window)

    return xp.min(map_rows(row, xp.asarray(shares, xp.float64), lanes=count), axis=0)
