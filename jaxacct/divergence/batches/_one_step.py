"""The law of one step's likelihood ratio that dominates, in the convex order, the law for any data.

docs/papers/shuffled_batches.md, SB-5. At a step that holds another record r, |r| <= a, replacing it by the record in
question, p, changes the density by L = (N(p) - c N(0)) / N(r), relative, or by (N(0) - c N(p)) / N(r) in the add
direction; c is e^epsilon. Under N(r), for all r and p,

    E (L - k)_+ <= Pi(k),
    remove:  int (N(a) - c N(0) - k N(-a))_+ for k >= 0,    int ((1 - k) N(a) - c N(0))_+ for k <= 0,
    add:     int (N(0) - (c + k) N(a))_+ for k >= 0,        int (N(0) - c N(a) - k N(-a))_+ for k <= 0,

which are the stop-loss transforms of a law of mean 1 - c. Under this law the value is L(v) > 0 where v ~ N(-a, 1) is
above v_0, L(v) < 0 where v ~ N(a, 1) is below v_0, and 0 with the remaining probability. With d = v - v_0:

    remove:  v_0 = epsilon / a + a / 2,  L = c^2 e^(a^2) (e^(2 a d) - e^(a d)) above,  L = 1 - e^(-a d) below;
    add:     v_0 = epsilon / a - a / 2,  L = c (e^(a d) - 1) above,  L = e^(a^2) (e^(-a d) - e^(-2 a d)) / c below.

Where p is replaced by q, |q| <= a, L = (N(p) - c N(q)) / N(r), and with D the profile of a Gaussian pair 2 a apart

    Pi(k) = D(log(c + k)) for k >= 0,    (1 - k) D(epsilon - log(1 - k)) for k <= 0,
    replace: v_0 = epsilon / (2 a),      L = c (e^(2 a d) - 1) above,  L = 1 - e^(-2 a d) below.

Each half is split between the ends of cells of v so that its mean is kept, which makes it larger in the convex order.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.divergence.batches._blanket import FARTHEST, MASS_ERROR, quantile
from jaxacct.special import ULP, gauss_legendre, log_normal_tail

_WIDTH = 0.05  # of a cell; it affects tightness only
_NODES = 12  # of Gauss's rule in a cell


class StepLaw(NamedTuple):
    """Atoms of one step's L; the remaining probability is at 0.

    Attributes:
      value: [N], rounded up.
      mass: [N], each rounded up.
      least_mass: the sum of the masses, rounded down.
      cut: an upper bound on the part left out of E (L)_+.
    """

    value: NDArray[np.float64]
    mass: NDArray[np.float64]
    least_mass: float
    cut: float


def step_law(a: float, epsilon: float, direction: Direction, cut: float) -> StepLaw:
    """NamedTuple: the law of one step of shift a.

    Args:
      a: 1 / noise multiplier, at most `MOST_LOSS`.
      epsilon: >= 0.
      direction: which of the two laws above.
      cut: about how much may be left out of E (L)_+, a probability.
    """
    is_remove, reach = direction is Direction.REMOVE, min(quantile(cut), FARTHEST)
    zero = epsilon / a + (0.5 * a if is_remove else -0.5 * a)
    top = min(reach + (a if is_remove else 0.0), FARTHEST - a)  # up to here masses are normal doubles
    above = _half(a, zero + a, 0.0, top - zero, squared=is_remove)
    # below, places where v hardly ever falls are left out: L counts as 0 there
    first = min(zero, reach + a)
    below = _half(a, a - first, zero - first, first + reach, squared=not is_remove)
    growth = (
        math.exp(2.0 * epsilon + a * a) if is_remove else math.exp(epsilon),
        1.0 if is_remove else math.exp(a * a - epsilon),
    )
    return _both(a, epsilon, above, below, growth, _tail(max(top, zero) - (a if is_remove else 0.0)))


def replaced_step_law(a: float, epsilon: float, cut: float) -> StepLaw:
    """NamedTuple: the law of one step where the record is replaced by any other one; arguments as for `step_law`."""
    reach, zero = min(quantile(cut), FARTHEST), epsilon / (2.0 * a)
    top, first = min(reach + a, FARTHEST - a), min(zero, reach + a)
    above = _half(2.0 * a, zero + a, 0.0, top - zero, squared=False)
    below = _half(2.0 * a, a - first, zero - first, first + reach, squared=False)
    return _both(2.0 * a, epsilon, above, below, (math.exp(epsilon), 1.0), _tail(max(top, zero) - a))


def _both(
    a: float, epsilon: float, above: "_Half", below: "_Half", growth: tuple[float, float], left_out: float
) -> StepLaw:
    """Both halves as one law, rounded up; |L| over the `growth` of its half is at most e^(2 a |d|)."""
    value = np.concatenate([above.size * growth[0], -below.size * growth[1]])
    mass = np.concatenate([above.mass, below.mass]) * (1.0 + MASS_ERROR)
    exponent = 4.0 * (epsilon + a * a) + 8.0 * a * np.concatenate([above.distance, below.distance])
    value = value + ULP * (32.0 + exponent) * np.abs(value)
    return StepLaw(value, mass, float(mass.sum()) * (1.0 - 3.0 * MASS_ERROR), left_out)


def _tail(x: float) -> float:
    """P(N > x), rounded up."""
    return float(np.exp(log_normal_tail(np.array([min(x, 37.0)])))[0]) * (1.0 + 2.0**-36)


class _Half(NamedTuple):
    """Atoms on one side of 0: |L| over its growth [N], their masses [N], and |d| [N]."""

    size: NDArray[np.float64]
    mass: NDArray[np.float64]
    distance: NDArray[np.float64]


def _half(a: float, place: float, distance: float, length: float, *, squared: bool) -> _Half:
    """`_Half` of a standard normal law from `place` on, where |d| is `distance`; beyond `length` it is at the end.

    |L| is proportional to e^(a |d|) - 1, or to e^(2 a |d|) - e^(a |d|) if `squared`. The masses are by Gauss's rule, of
    positive terms only.
    """
    cells = max(math.ceil(length / _WIDTH), 0)
    d: Any = distance + _WIDTH * np.arange(cells + 1)
    nodes, weights = gauss_legendre(_NODES)
    into = _WIDTH * 0.5 * (nodes + 1.0)
    at = place + _WIDTH * np.arange(cells)[:, None] + into
    density = np.exp(-0.5 * np.square(at)) * (weights * (0.5 * _WIDTH / math.sqrt(2.0 * math.pi)))

    def rise(start: NDArray[np.float64], by: Any) -> NDArray[np.float64]:
        # from |L| at `start` to that at `start` + `by`, over e^(a start)
        first: NDArray[np.float64] = np.expm1(a * by) + np.zeros_like(start)
        return first * (np.exp(a * start) * (np.exp(a * by) + 1.0) - 1.0) if squared else first

    start = d[:-1, None]
    whole = rise(start, _WIDTH)
    far = (density * rise(start, into) / whole).sum(1)
    near = (density * np.exp(a * into) * rise(start + into, _WIDTH - into) / whole).sum(1)
    mass = np.append(near, 0.0) + np.append(0.0, far)
    mass[-1] += _tail(place + _WIDTH * cells)
    size = np.expm1(a * d) * (np.exp(a * d) if squared else 1.0)
    return _Half(size, mass, d)
