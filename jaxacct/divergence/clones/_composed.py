"""Rounds of the clones pair, composed: certified ends of epsilon or delta by one contour of their complex moments.

The moments (`_moments`) do not fall for ever along the contour: losses are nearly on a lattice. So what is integrated
is the run with one more release, N(eta, 1) against N(0, 1), whose moments fall as e^(-eta^2 y^2/2). With D_v the delta
of the run and that release, v = eta^2, and delta that of the run,

    delta <= D_v,    delta >= (k D_v - D_w) / (k - 1),    w = theta^2 v,   k = theta e^(-(theta^2 - 1) v/8) > 1

(`docs/numerics.md`, "Composed clones pairs"). Both err by about v/2 times the square of d log delta / d epsilon.
"""

import math
from typing import Any

import numpy as np

from jaxacct._types import Ends
from jaxacct.divergence._contour import choose_line
from jaxacct.divergence._inversion import Line, LineMoments, delta_ends, epsilon_ends
from jaxacct.divergence.clones._moments import ClonesMoments

Real = np.ndarray[Any, np.dtype[np.float64]]

# All of these steer cost and tightness only: every end is certified whatever they are.
_THETA = 1.5
_DIGITS, _DROPPED = 38.0, 23.0  # -log of what a moment may err by; -log of what may be dropped, as a share of delta
_TAILS = (3.0, 25.0)  # range of -log of what may lie beyond the last node, as a share of delta
_FALL = -24.0  # log of the integrand, as a share of delta, from which on no node is needed
_NODES, _MOST = (8192, 1 << 25), 1 << 26  # nodes, and nodes times outcomes, at most
_SPARE = 8.0  # -log of what bounds of moments may err by where the lattice of losses has nearly turned once
_DISTANCES = np.geomspace(1e-13, 1.0, 64)  # distances from the upper end, relative, at which a lower one is sought
_PASSES = 3  # lines tried: a later one knows better where the answer is
_NEAR = 1e-3  # relative width at which no other line is tried: it would be the same one


def composed_ends(
    num_reports: float,
    clone_prob: float,
    local_epsilon: float,
    rounds: float,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Ends[float]:
    """Certified `Ends` of delta at `epsilon`, or of epsilon at `delta`: one of the two is given.

    At worst (0, 1) and (0, inf). The pair's parameters are concrete floats; `rounds` is a whole number.
    """
    with np.errstate(all="ignore"):
        return _ends((num_reports, clone_prob, local_epsilon), rounds, epsilon, delta)


def _ends(pair: tuple[float, float, float], rounds: float, epsilon: float | None, delta: float | None) -> Ends[float]:
    asks_delta = epsilon is not None
    low, high = 0.0, 1.0 if asks_delta else math.inf
    near_epsilon, near_log = epsilon, None if delta is None else math.log(delta)
    moments: Any = _moments(pair, rounds, near_log if near_log is not None else -40.0)
    for _ in range(_PASSES):
        choice = choose_line([(moments, rounds)], near_epsilon, near_log)
        if choice is None:
            break
        if asks_delta:
            moments = _moments(pair, rounds, choice.log_delta)
        found = _on_line(moments, rounds, choice, epsilon, delta)
        if found is None:
            break
        before = high - low
        low, high = max(low, found.lower), min(high, found.upper)
        if not math.isfinite(high) or high - low > 0.5 * before:
            break
        if low > 0.0 and high - low <= _NEAR * low:  # the next line would be the same
            break
        if asks_delta:
            near_log = math.log(max(0.5 * (low + high), 1e-300))
        else:
            near_epsilon = 0.5 * (low + high)
    return Ends(min(low, high), high)


def _moments(pair: tuple[float, float, float], rounds: float, log_delta: float) -> ClonesMoments:
    digits = max(_DIGITS, _DROPPED - log_delta) + math.log(rounds)
    return ClonesMoments(*pair, -digits)


def _on_line(of: Any, rounds: float, choice: Any, epsilon: float | None, delta: float | None) -> Ends[float] | None:
    """The ends by one line; None if the moments on it are not known."""
    alpha, period = choice.order, choice.period
    step = 2.0 * math.pi / period
    scale = 1.0 / math.sqrt(rounds * of.variance)
    heights = scale * np.geomspace(1.0, 1e9, 400)
    at = of.lattice(alpha, min(choice.height, 40.0 * scale))
    # bounds up to where the lattice of losses has nearly turned once
    needs = choice.log_delta + _FALL - choice.log_size
    turned = of.turns(at, alpha, _SPARE - needs / rounds)
    decays = rounds * of.decay(at, alpha, heights, turned)
    dead = np.flatnonzero((decays < needs) & (heights < turned))
    most = min(_NODES[0], max(_NODES[1] // max(len(at.loss), 1), 256))
    if dead.size and heights[dead[0]] <= step * most:
        num, end = math.ceil(float(heights[dead[0]]) / step), turned
    else:
        num, end = most, 0.0
    num = max(num, 4)
    last = step * num
    error = of.error(at, alpha, last)
    if not rounds * error < 1e-6:
        at = of.lattice(alpha, last)
        error = of.error(at, alpha, last)
    if not error < 0.5 or len(at.loss) * num > _MOST:
        return None
    nodes = step * np.arange(num)
    real, imag = of.excess(at, alpha, nodes)
    size = np.hypot(1.0 + real, imag)
    near = np.abs(real) + np.abs(imag) < 0.5
    log_modulus = np.where(
        near, 0.5 * np.log1p(np.where(near, 2.0 * real + real * real + imag * imag, 0.0)), np.log(size)
    )
    phase = np.arctan2(imag, 1.0 + real)
    spread = rounds * (2.0**-48 - np.log1p(-np.minimum(error / size, 0.5)))
    # where the moment is hardly known, the power of what it is at most is within 3 times itself of the true one
    unknown = ~((error < 0.5 * size) & (spread < 1.0))
    log_modulus = np.where(unknown, np.log(size + error) + 2.0**-48, log_modulus)
    spread = np.where(unknown, math.log(3.0), spread)
    c = choice.alias_order
    far = of.lattice(c, 0.0)
    alias_excess, _ = of.excess(far, c, np.zeros(1))
    log_alias = math.log1p(float(alias_excess[0]) + of.error(far, c, 0.0))
    tail = float(rounds * of.decay(at, alpha, np.array([last]), end)[0]) if end > last else 0.0
    edge = max(end, last)
    # as small as makes the sum of both errors least: what the release changes, and what lies beyond the last node
    log_tail = min(max(2.0 * math.log(edge / (alpha - 1.0)), _TAILS[0]), _TAILS[1])
    v = 2.0 * max(choice.log_size - choice.log_delta + log_tail - math.log(edge), 1.0) / (edge * edge)
    dropped = rounds * max(at.dropped, far.dropped) * (1.0 + 1e-9)
    order, one_period, column = np.array([alpha]), np.array([2.0 * math.pi / step]), nodes[:, None]
    columns: Any = (order, one_period, column, column >= 0, np.array([[last]]), np.array([[c]]))
    line = Line(*columns)

    def smoothed(v: float) -> LineMoments:
        """Those of all rounds and the release of variance v."""
        fields: Any = (
            rounds * log_modulus + 0.5 * v * (alpha * (alpha - 1.0) - nodes * nodes),
            rounds * phase + 0.5 * v * nodes * (2.0 * alpha - 1.0),
            spread,
            np.array(
                [rounds * log_alias + 0.5 * v * c * (c - 1.0) + 2.0**-48 * (1.0 + rounds * abs(log_alias) + v * c * c)]
            ),
            np.array([max(tail, -0.5 * v * edge * edge)]),
        )
        return LineMoments(*(x[:, None] for x in fields))

    fine, coarse = smoothed(v), smoothed(_THETA**2 * v)
    k = _THETA * math.exp(-(_THETA**2 - 1.0) * v / 8.0) * (1.0 - 2.0**-48)
    if not k > 1.0 + 1e-3:
        return None

    def lower(at: Any) -> Real:
        """At most delta at epsilons [K]."""
        ends = np.exp([delta_ends(line, fine, at).lower, delta_ends(line, coarse, at).upper])
        value = (k * ends[0] * (1.0 - 2.0**-46) - ends[1] * (1.0 + 2.0**-46)) / (k - 1.0)
        return value * (1.0 - 2.0**-48) - dropped

    if epsilon is not None:
        here: Any = np.array([epsilon])
        upper = math.exp(float(delta_ends(line, fine, here).upper[0])) * (1.0 + 2.0**-44) + dropped
        return Ends(max(float(lower(here)[0]), 0.0), min(upper, 1.0))
    assert delta is not None
    left = delta * (1.0 - 2.0**-50) - dropped
    if not left > 0.0:
        return None
    goal: Any = np.array([[math.log(left) - 2.0**-46], [choice.epsilon]])
    root = epsilon_ends(line, fine, goal[0], goal[1])
    high = float(root.upper[0])
    if not math.isfinite(high):
        return Ends(0.0, math.inf)
    low = 0.0
    tried = high - high * _DISTANCES
    for _ in range(2):
        holds = np.flatnonzero(lower(tried) >= delta)
        if not holds.size:
            break
        best = int(holds[0])
        low = max(low, float(tried[best]))
        tried = np.linspace(low, float(tried[best - 1]) if best else high, 24)[::-1]
    return Ends(low, high)
