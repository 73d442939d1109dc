"""BOUND: the least Renyi divergence that a hockey-stick divergence implies, and the optimal conversion of one order.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Lemma 1, states that an (eps, delta)-DP
mechanism has at most the Renyi divergence below. It has at least that much (CI-S1): binary randomized response at eps
= 0.5 is (0.5, 0)-DP, for which the expression is 0, and has D_2 = 0.227. Read the right way round, the lemma gives the
best conversion of one order.
"""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.conversion import delta_from_log_down
from jaxacct.divergence.kernels import power_excess
from jaxacct.papers._asking import Floats, Real, inner_probability, log_of, non_negative, plain, positive, probability
from jaxacct.special import ULP, down, expm1, log1mexp, log1p, log_down, logexpm1, softplus, solve_decreasing

_NUM_HALVINGS = 90  # of the interval of log((r - delta)/(1 - r)) that is searched
_LEAST_LOG = -690.0  # nats: the least log of that ratio, or of its inverse, that is tried, so that nothing underflows


def log_least_excess(order: jax.Array, epsilon: jax.Array, delta: jax.Array) -> jax.Array:
    """Log of the least E_Q[(P/Q)^a] - 1, broadcast, among all pairs with D_{e^eps}(P || Q) = delta; -inf at delta = 0.

    Attained by P = (r, 1-r), Q = ((r - delta) e^-eps, ..), r in (delta, 1) such that k(x) = k(y),

        k(t) = 1 - t^(a-1) (a - (a-1) t) = t^(a-1) (t^(1-a) - 1 - (1-a) (t-1)),   x = r/(r - delta) > 1,
        y = (1-r)/(e^eps - r + delta) < 1,

    found by bisection in log((r - delta)/(1 - r)), or r = 1 where a delta >= 1. Rounded down: the two atoms' terms are
    positive, each is lowered by its rounding error, and the value at the r that was found by how far it may be from
    the least (docs/numerics/clones.md, "The best conversion of one order"). Real a > 1, epsilon >= 0, 0 <= delta < 1.
    """
    a = order
    total, reach = 1.0 - delta, expm1(epsilon) + delta

    def parts(u: jax.Array) -> tuple[jax.Array, jax.Array]:  # r - delta and 1 - r, the lesser without cancellation
        odds = jnp.exp(-jnp.abs(u))
        less = total * (odds / (1.0 + odds))
        return jnp.where(u < 0, less, total - less), jnp.where(u < 0, total - less, less)

    def bends(u: jax.Array) -> tuple[_Term, _Term]:  # k(x) and k(y)
        left, right = parts(u)
        above = _power_term(1.0 - a, delta / left, jnp.inf)
        below = _power_term(1.0 - a, -reach / (reach + right), right / (reach + right))
        return above.times((a - 1.0) * above.log_ratio), below.times((a - 1.0) * below.log_ratio)

    def halve(_: jax.Array, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        x, y = bends(middle)
        falls = x.value > y.value  # the objective, in r
        return jnp.where(falls, middle, low), jnp.where(falls, high, middle)

    ends = jnp.full_like(a + total + epsilon, _LEAST_LOG), jnp.full_like(a + total + epsilon, -_LEAST_LOG)
    u = jax.lax.stop_gradient(jnp.mean(jnp.stack(jax.lax.fori_loop(0, _NUM_HALVINGS, halve, ends)), axis=0))
    left, right = parts(u)
    excess = delta - left * expm1(-epsilon)  # P - Q at the first atom, Q - P at the second
    first, second = left * jnp.exp(-epsilon), (reach + right) * jnp.exp(-epsilon)
    above = _power_term(a, excess / first, jnp.inf).times(jnp.log(first))
    below = _power_term(a, -excess / second, right / second).times(jnp.log(second))
    by_above = 64.0 + 20.0 * a * jnp.abs(above.log_ratio) + 8.0 * above.size
    by_below = 224.0 + 4.0 * jnp.abs(below.log_ratio) + 8.0 * below.size
    value = jnp.logaddexp(
        above.value - above.error - ULP * jax.lax.stop_gradient(by_above),
        below.value - below.error - ULP * jax.lax.stop_gradient(by_below),
    )
    x, y = jax.lax.stop_gradient(bends(u))
    known = 2.0**-40 * (1.0 + a + x.size + y.size)
    log_apart = logexpm1(jnp.abs(x.value - y.value) + known)
    moved = jnp.log(left) + log_apart
    moved = jnp.where(x.value > y.value + known, jnp.minimum(moved, jnp.log(right)), moved)  # r is at most 1
    slope = (a - 1.0) * epsilon + jnp.maximum(x.value, y.value) + log_apart
    lost = jax.lax.stop_gradient(slope + moved + 1.0 - value)
    value = log_down(value, 16.0) + jnp.where(lost < -1.0, log1mexp(jnp.minimum(lost, -1.0)), -jnp.inf)
    exponent = (a - 1.0) * jnp.where(delta > 0, epsilon - log1p(-delta), 1.0)
    at_one = log_down(logexpm1(down(exponent, 8)), 40.0)
    value = jnp.where(a * delta >= 1.0, at_one, value)
    return jnp.where(delta > 0, value, -jnp.inf)


class _Term(NamedTuple):
    """A logarithm, the size of its parts, an error besides their rounding, and the log t that it is made from."""

    value: jax.Array
    size: jax.Array
    error: jax.Array
    log_ratio: jax.Array

    def times(self, log_factor: jax.Array) -> _Term:
        return _Term(self.value + log_factor, self.size + jnp.abs(log_factor), self.error, self.log_ratio)


def _power_term(power: jax.Array, x: jax.Array, ratio: jax.Array | float) -> _Term:
    """log((1+x)^a - 1 - a x); `ratio` is 1 + x to full precision, where that is below 1/2."""
    near = ratio > 0.5
    log_ratio = jnp.where(near, log1p(jnp.where(near, x, 0.0)), jnp.log(jnp.where(near, 1.0, ratio)))
    value, high, error = power_excess(power, jnp.where(near, x, ratio - 1.0), log_ratio)
    log_value = jnp.log(jnp.maximum(value, 1e-300))
    return _Term(log_value + high, jnp.abs(log_value) + high, error, log_ratio)


def least_rdp_lanes(order: jax.Array, epsilon: jax.Array, delta: jax.Array) -> jax.Array:
    """`least_rdp`, broadcast, by `log_least_excess`."""
    found = down(softplus(log_least_excess(order, epsilon, delta)) / (order - 1.0), 12)  # softplus 9, and a quotient
    return jnp.where(jnp.isnan(found), 0.0, found)  # where an atom underflows


def optimal_epsilon_lanes(order: jax.Array, rdp: jax.Array, log_delta: jax.Array) -> jax.Array:
    """`optimal_epsilon` [L], rounded up: 7.875 at a = 2, rdp = 0.1, delta = 1e-5; by the closed conversion 10.227."""
    delta = delta_from_log_down(log_delta)

    def lack(epsilon: jax.Array, order: jax.Array, rdp: jax.Array, delta: jax.Array) -> tuple[jax.Array, jax.Array]:
        def value(epsilon: jax.Array) -> jax.Array:
            return rdp - least_rdp_lanes(order, epsilon, delta)

        return jax.jvp(value, (epsilon,), (jnp.ones_like(epsilon),))

    high = rdp + (jnp.maximum(-log_delta, 0.0) + 1.0) / (order - 1.0) + 1.0
    usable = (delta > 0) & (order > 1) & jnp.isfinite(rdp)
    safe = jnp.where(usable, delta, 0.5)
    value = solve_decreasing(lack, jnp.zeros_like(high), high, order, jnp.where(usable, rdp, 1.0), safe)
    return jnp.where(log_delta >= 0, 0.0, jnp.where(usable, value, jnp.inf))


_least = Kernel(least_rdp_lanes)
_optimal = Kernel(optimal_epsilon_lanes)


def _order(value: ArrayLike) -> Real:
    order = positive("order", value)
    if (order <= 1.0).any():
        raise ValueError(f"order={value!r} must be > 1")
    return order


def least_rdp(order: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """The least D_a(P || Q) among all pairs with D_{e^eps}(P || Q) = delta, Lemma 1 read the right way round (CI-S1).

        eps + log(M)/(a-1),   M = min_r r^a (r - delta)^(1-a) + (1-r)^a (e^eps - r + delta)^(1-a).

    Lower bound, attained by two-point laws; 0 at delta = 0. Real order a > 1; each term rounded down by 2^-44.

    Args:
      order: a > 1.
      epsilon: eps >= 0.
      delta: in [0, 1).

    Returns:
      float, or float64 of the arguments' common shape; nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(check_ins.least_rdp(2.0, 0.5, 0.01), 6)
    0.026008
    """
    at = probability("delta", delta)
    if (at >= 1.0).any():
        raise ValueError(f"delta={delta!r} must be < 1")
    return plain(_least(_order(order), non_negative("epsilon", epsilon), at))


def optimal_epsilon(order: ArrayLike, rdp: ArrayLike, delta: ArrayLike) -> Floats:
    """epsilon at `delta` from a Renyi divergence at one order, the least that it implies (CI-S1, inverted).

    It is the least epsilon >= 0 with `least_rdp` at least rdp. Upper bound, in the direction of the divergence, rounded
    up; never above the closed-form conversion (CI-S3). Real order > 1.

    Args:
      order: a > 1.
      rdp: D_a >= 0, nats.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(check_ins.optimal_epsilon(2.0, 0.1, 1e-5), 4)
    7.8748
    """
    return plain(_optimal(_order(order), non_negative("rdp", rdp), log_of(inner_probability("delta", delta))))
