"""Random allocation of Gaussian steps with large noise: nearly one Gaussian release, certified, both directions.

In one epoch a record joins k of t steps; x_i is the output of step i divided by the sensitivity, and s is their sum.
Without the record, under Q, x = s/t + r, where r is independent of s. So the likelihood ratio is a product of
independent factors,

    G = exp(k s / (t sigma^2) - k^2 / (2 t sigma^2)),
    W = mean_S exp(sum_{i in S} r_i / sigma^2 - (k - k^2/t) / (2 sigma^2)),    S any choice of k steps,

and so is that of several epochs. G is the likelihood ratio of the Gaussian pair of mu = k sqrt(epochs / t) / sigma, and
E W = 1: by Jensen's inequality delta is at least that of this pair. docs/numerics/allocation.md, "Large noise", derives
the upper bound: W is concentrated about 1, and `_Factor` holds what is known of it.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_epsilon_from_below, gaussian_log_delta_ends
from jaxacct.mechanisms import RandomAllocation
from jaxacct.special import LEAST_NORMAL, down, log_normal_tail, up
from jaxacct.special._namespace import xp

_LEAST_NOISE = 100.0  # from this noise multiplier on, the bracket is at most about 1e-4 wide
_RATIO = 1.2  # of neighbouring edges: what lies between them is found to within this factor
_OUTLYING = 1e-6  # approximate probability of outliers, in units of delta
_FIRST = 1e-13  # how far above the pair's epsilon the first one tried is, in units of mu
_LEAST_LEFT = 1e-6  # least 1 - p rate: the rounding of p would blur a smaller one
_NUM_HALVINGS = 12  # of the interval in which epsilon is sought, a factor of 4 to begin with


class _Factor(NamedTuple):
    """What is known of W, which has mean 1.

    Attributes:
      variance: its variance is at most this; 0 where W is always 1.
      scale, num, excess, stretch: log W is at least -scale excess and, except for outliers, at most that plus
        scale stretch X, where X has the chi-square law of `num` degrees of freedom.
      outliers: the probability of outliers, with the record.
    """

    variance: float
    scale: float
    num: float
    excess: float
    stretch: float
    outliers: float

    def above(self, x: NDArray[Any]) -> NDArray[Any]:
        """Upper bounds on E[(W - w)_+] without outliers, w = 1 + x > 1: E[(W/w)^p] w/p at nearly the best p >= 1."""
        log_w = np.log1p(x)
        far, rate = log_w + self.scale * self.excess, 2.0 * self.scale * self.stretch
        p = np.maximum((1.0 - np.maximum(0.5 * self.num * rate / far, _LEAST_LEFT)) / rate, 1.0)
        left = 1.0 - p * rate
        parts = log_w, -p * far, -0.5 * self.num * np.log(left)
        slack = 2.0**-48 * (sum(np.abs(part) for part in parts) + self.num / left)
        return np.where(left > 0.0, np.exp(sum(parts) + slack) / p, np.inf)


def _factor(noise: float, steps: float, selected: float, epochs: float, delta: float) -> _Factor:
    """What is known of W, with so few outliers that they hardly count beside `delta`."""
    share, scale = selected / steps, 0.5 * selected / (steps * noise * noise)
    if share == 1.0:
        return _Factor(0.0, scale, 0.0, 0.0, 1.0, 0.0)
    each = min(0.25, share * (1.0 - share) * math.exp(noise**-2.0))
    variance = max(up(math.expm1(0.5 * epochs * selected * each * noise**-4.0), 32), LEAST_NORMAL)
    away = math.sqrt(2.0 * (math.log(2.0 * steps * epochs / _OUTLYING) - math.log(delta)))
    tail = float(np.exp(log_normal_tail(np.float64(away))))
    outliers = 2.0 * steps * epochs * max(tail * (1.0 + 2.0**-36), LEAST_NORMAL)
    stretch = up(math.exp((away + 1.0 / noise) / noise), 16)
    return _Factor(variance, scale, epochs * (steps - 1.0), epochs * (steps - selected), stretch, outliers)


def _chance(near: NDArray[Any], far: NDArray[Any], mu: float, length: NDArray[Any]) -> NDArray[Any]:
    """Upper bounds on the probability that N(mu^2/2, mu^2) lies in intervals, from their ends and lengths."""
    reach = np.abs(near) + np.where(np.isfinite(far), np.abs(far), 0.0)
    left, right = (end(near, far) - 0.5 * mu * mu for end in (np.minimum, np.maximum))
    away = np.maximum(np.maximum(left, -right) - 2.0**-49 * reach, 0.0) / mu
    by_density = 0.4 * length / mu * np.exp(-0.5 * away * away)
    beyond = np.where(away > 0.0, np.exp(log_normal_tail(away)), 1.0)
    return np.maximum(np.where(by_density < beyond, by_density, beyond), LEAST_NORMAL)


def _excess(epsilon: float, mu: float, factor: _Factor) -> float:
    """An upper bound on what W adds to delta at `epsilon`, in either direction.

    Summed over intervals of x = |1 - e^{eps - u}|, u ~ N(mu^2/2, mu^2): the probability of each, times the most that is
    added there.
    """
    if factor.variance == 0.0:
        return 0.0
    root = up(math.sqrt(factor.variance), 4)
    edges = 0.25 * root * _RATIO ** np.arange(max(1, math.ceil(math.log(4.0 / root) / math.log(_RATIO))))
    edges = np.concatenate([[0.0], edges[edges < 1.0], [1.0]])
    low, high = edges[:-1], edges[1:]
    tail = np.where(low > up(math.expm1(factor.scale * factor.excess), 64), factor.above(low), np.inf)
    total = factor.outliers + float(factor.above(np.array([1.0]))[0])  # the latter left of all intervals
    for sign, size, length in (
        (1.0, (1.0 + high) * root, np.log1p((high - low) / (1.0 + low))),
        (-1.0, root, -np.log1p(-(high - low) / (1.0 - low))),
    ):
        height = np.fmin(0.5 * size * (size / (np.hypot(low, size) + low)), tail)
        at = epsilon - np.log1p(sign * low), epsilon - np.log1p(sign * high)
        blur = 2.0**-49 * (abs(epsilon) + np.abs(np.log1p(sign * low)))
        total += float(np.sum(height * _chance(*at, mu, length + blur)))
    return total * (1.0 + 2.0**-36)


def _delta(epsilon: float, mu: Ends[float], factor_at: Callable[[float], _Factor]) -> Ends[float]:
    """Ends of delta at `epsilon`, the same in both directions."""
    at = xp.array([epsilon])
    lower = float(np.exp(gaussian_log_delta_ends(at, xp.array([mu.lower])).lower)[0])
    upper = max(float(np.exp(gaussian_log_delta_ends(at, xp.array([mu.upper])).upper)[0]), LEAST_NORMAL)
    whole = up(upper, 8) + _excess(epsilon, mu.upper, factor_at(upper))
    return Ends(down(lower, 8), min(1.0, up(whole, 4)))


def _epsilon(delta: float, mu: Ends[float], factor_at: Callable[[float], _Factor]) -> Ends[float]:
    """Ends of epsilon at `delta`, the same in both directions; at the upper end, delta is shown to be small enough."""
    log_delta = xp.array([math.log(delta)])
    slack = 2.0**-50 * xp.abs(log_delta)
    lower = float(gaussian_epsilon_from_below(log_delta + slack, xp.array([mu.lower]))[0])
    least = float(gaussian_epsilon(log_delta - slack, xp.array([mu.upper]))[0])

    def holds(beyond: float) -> bool:
        return _delta(least + beyond, mu, factor_at).upper <= delta

    if holds(0.0):
        return Ends(lower, least)
    outside, inside = 0.0, _FIRST * mu.upper
    while not holds(inside):
        outside, inside = inside, 4.0 * inside
        if inside > mu.upper:
            return Ends(lower, math.inf)
    for _ in range(_NUM_HALVINGS):
        middle = 0.5 * (outside + inside)
        outside, inside = (outside, middle) if holds(middle) else (middle, inside)
    return Ends(lower, least + inside)


def _bracket(
    mechanism: RandomAllocation, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """The same ends in each requested direction, no wider than those known."""
    noise = float(mechanism.mechanism.noise_multiplier)
    steps, selected, epochs = (float(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))
    mu = selected * math.sqrt(epochs / steps) / noise
    pair = Ends(down(mu, 6), max(up(mu, 6), LEAST_NORMAL))
    with np.errstate(all="ignore"):
        factor_at = functools.partial(_factor, noise, steps, selected, epochs)
        try:
            found = (_epsilon if query is Query.EPSILON else _delta)(target, pair, factor_at)
        except OverflowError:  # where it says nothing
            return dict(at.known)
    return {d: Ends(max(known.lower, found.lower), min(known.upper, found.upper)) for d, known in at.known.items()}


LARGE_NOISE = BracketMethod(
    engine=Engine.FORMULA,
    name="large noise",
    theorem="Feldman & Shenfeld 2025, Theorem 3.1; its likelihood ratio as a product, Scarf 1958",
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=lambda run: not is_traced(run) and bool(np.all(run.mechanism.noise_multiplier >= _LEAST_NOISE)),
    bracket=_bracket,
    below=itself,
)
