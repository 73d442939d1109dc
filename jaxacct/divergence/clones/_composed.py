"""Composed rounds of the clones pair: certified ends of epsilon or delta by one contour integral of complex moments.

The moments (`_moments`) do not decay all along the contour, since losses are nearly on a lattice. So the integral is
that of the run with one additional release, N(eta, 1) against N(0, 1), whose moments decay as e^(-eta^2 y^2/2). With
D_v the delta of the run with that release, v = eta^2, and delta that of the run alone,

    delta <= D_v,    delta >= (k D_v - D_w) / (k - 1),    w = theta^2 v,   k = theta e^(-(theta^2 - 1) v/8) > 1

(`docs/numerics/clones.md`, "Composed clones pairs"). Both err by about v/2 times the square of d log delta / d epsilon.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Ends
from jaxacct.divergence._contour import ChosenLines, candidate_orders, choose_lines
from jaxacct.divergence._inversion import Line, LineMoments, delta_ends, epsilon_ends
from jaxacct.divergence.clones._moments import ClonesMoments, Lattice
from jaxacct.divergence.clones._turned_sums import num_products

Real = np.ndarray[Any, np.dtype[np.float64]]

# All of these affect cost and tightness only: every end is certified whatever their values.
_THETA = 1.5
_DIGITS, _DROPPED = 38.0, 23.0  # -log of a moment's allowed error; -log of the droppable mass, as a share of delta
_TAILS = (3.0, 25.0)  # range of -log of the part that may lie beyond the last node, as a share of delta
_FALL = -24.0  # log of the integrand, as a share of delta, from which on no node is needed
_ENOUGH, _WANTED = 2e-4, 5e-5  # relative widths: from the first on more nodes are used, until the second is reached
_NODES, _OUTCOMES, _MOST = 2**15, 2**17, 2**24  # nodes, outcomes, and products of both, at most
_SHARP = 6.0  # relative width of delta over the one of epsilon, at most
_LARGEST = 0.25  # largest variance of a release: beyond it, it and theta^2 times it are less informative
_SPARE = 8.0  # -log of the allowed error in bounds on moments at nearly one full period of the lattice of losses
_BEYOND = np.array([1.001, 1.01, 1.1, 1.5, 3.0])  # distances from the upper end, over the lower end's expected one
_DISTANCES = np.geomspace(1e-10, 1.0, 24)  # and relative to itself
_PASSES = 3  # lines tried: later ones are placed by a better estimate of the answer
_NEAR = (1e-3, 2e-3)  # relative widths, of epsilon and of delta, at which no other line is tried: it would be the same


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

    At worst they are (0, 1) and (0, inf). The pair's parameters are concrete floats; `rounds` is an integer.
    """
    with np.errstate(all="ignore"):
        return _ends((num_reports, clone_prob, local_epsilon), rounds, epsilon, delta)


def _ends(pair: tuple[float, float, float], rounds: float, epsilon: float | None, delta: float | None) -> Ends[float]:
    asks_delta = epsilon is not None
    low, high = 0.0, 1.0 if asks_delta else math.inf
    near_epsilon, near_log = epsilon, None if delta is None else math.log(delta)
    moments: Any = _moments(pair, rounds, near_log if near_log is not None else -40.0)
    for _ in range(_PASSES):
        choice = _chosen(moments, rounds, near_epsilon, near_log)
        if not choice.usable:
            break
        if asks_delta and not -_SPARE <= moments.digits - _digits(rounds, choice.log_delta) <= _SPARE:
            moments = _moments(pair, rounds, choice.log_delta)
        found = _on_line(moments, rounds, choice, epsilon, delta)
        if found is None:
            break
        before = high - low
        low, high = max(low, found.lower), min(high, found.upper)
        if not math.isfinite(high) or high - low > 0.5 * before:
            break
        if low > 0.0 and high - low <= _NEAR[asks_delta] * low:  # the next line would be the same
            break
        if asks_delta:
            near_log = math.log(max(0.5 * (low + high), 1e-300))
        else:
            near_epsilon = 0.5 * (low + high)
    return Ends(min(low, high), high)


def _chosen(of: ClonesMoments, rounds: float, epsilon: float | None, log_delta: float | None) -> Any:
    """A line (class `ChosenLines`, its fields floats) for an approximately known answer."""
    scale = np.array([(rounds * of.variance) ** -0.5])
    orders = candidate_orders(scale, np.array([of.largest_order]))

    def modulus(orders: Real, heights: Real) -> Real:
        return rounds * of.rough_modulus(orders[0], heights[0])[None]

    known = (None if x is None else np.array([x]) for x in (epsilon, log_delta))
    found: Any = choose_lines(orders, rounds * of.rough(orders[0])[None], modulus, scale, *known)
    return ChosenLines(*(x[0].item() for x in found))


def _moments(pair: tuple[float, float, float], rounds: float, log_delta: float) -> ClonesMoments:
    return ClonesMoments(*pair, -_digits(rounds, log_delta))


def _digits(rounds: float, log_delta: float) -> float:
    return max(_DIGITS, _DROPPED - log_delta) + math.log(rounds)


class _Nodes(NamedTuple):
    """The heights at which the moments of a round are computed, and bounds on the moments beyond.

    Attributes:
      at: the outcomes over which the moments are sums.
      heights: [N], equally spaced from 0 on; the next one would be `last`.
      end: the height up to which `log_tail` holds, from `last` on; not above `last` if there is no bound.
      log_tail: an upper bound on the log of the run's |M(a + iy) / M(a)| from `last` to `end`.
      error: an upper bound on the error of the sums, for heights up to `last`.
    """

    at: Lattice
    heights: Real
    last: float
    end: float
    log_tail: float
    error: float

    @property
    def edge(self) -> float:
        """The height up to which the moments are known."""
        return max(self.last, self.end)


class _Run(NamedTuple):
    """Moments of all rounds on a line, without a release."""

    line: Line
    moments: LineMoments
    nodes: _Nodes
    dropped: float  # upper bound on the loss of delta by the outcomes outside the windows


class _Smoothed(NamedTuple):
    """A run with two releases, and the factor k by which its delta with the larger one exceeds that with the other."""

    line: Line
    fine: LineMoments
    coarse: LineMoments
    factor: float
    dropped: float


def _on_line(
    of: ClonesMoments, rounds: float, choice: Any, epsilon: float | None, delta: float | None
) -> Ends[float] | None:
    """The ends from one line; None if the moments on it are not known."""
    nodes = _nodes(of, rounds, choice)
    if nodes is None:
        return None
    run = _smoothed(_run(of, rounds, choice, nodes), choice)
    if run is None:
        return None
    if epsilon is not None:
        return _delta_ends(run, epsilon)
    assert delta is not None
    return _epsilon_ends(run, delta, choice.epsilon)


def _nodes(of: ClonesMoments, rounds: float, choice: Any) -> _Nodes | None:
    """Nodes until the moments have decayed, if a bound shows it and the release is then small enough; else by need."""
    alpha, step = choice.order, 2.0 * math.pi / choice.period
    scale = 1.0 / math.sqrt(rounds * of.variance)
    at = of.lattice(alpha, min(choice.height, 40.0 * scale))
    # bounds up to nearly one full period of the lattice of losses
    needs = choice.log_delta + _FALL - choice.log_size
    turned = of.turns(at, alpha, _SPARE - needs / rounds)
    heights = scale * np.geomspace(1.0, 1e9, 400)
    dead = np.flatnonzero((rounds * of.decay(at, alpha, heights, turned) < needs) & (heights < turned))
    fallen = float(heights[dead[0]]) if dead.size else math.inf
    enough, wanted = (_edge_for(choice, share) for share in (_ENOUGH, _WANTED))
    affordable = _affordable(of, alpha, step, wanted)
    if fallen <= step * _NODES and (turned >= enough or turned >= affordable):
        last, end = step * max(math.ceil(fallen / step), 4), turned
    else:
        last, end = step * max(math.ceil(affordable / step), 4), 0.0
    error, size = of.error(at, alpha, last), of.moment(at, alpha)
    if not rounds * error < 1e-6 * size and of.num_outcomes(alpha, last) <= 1.1 * _OUTCOMES:
        at = of.lattice(alpha, last)
        error, size = of.error(at, alpha, last), of.moment(at, alpha)
    if not error < 0.5 * size:
        return None
    tail = float(rounds * of.decay(at, alpha, np.array([last]), end)[0]) if end > last else -math.inf
    return _Nodes(at, step * np.arange(round(last / step)), last, end, tail, error)


def _edge_for(choice: Any, share: float) -> float:
    """Approximate height up to which moments are needed for ends within `share` of epsilon, and 6 `share` of delta."""
    slope = choice.order - 1.0
    v = min(share * min(max(choice.epsilon, 1.0 / slope), _SHARP / slope) / (1.25 * slope), _LARGEST)
    edge = slope
    for _ in range(4):
        edge = math.sqrt(2.0 * _log_share(choice, edge) / v)
    return edge


def _affordable(of: ClonesMoments, order: float, step: float, wanted: float) -> float:
    """A height, at most `wanted`, up to which a limited number of products suffices for the moments."""
    high = min(wanted, step * _NODES)
    for _ in range(40):
        num = of.num_outcomes(order, high)
        products = num_products(num, high / step)
        if num <= _OUTCOMES and products <= _MOST:
            break
        high *= 0.8
    return high


def _log_share(choice: Any, edge: float) -> float:
    """-log of the share that a release has to leave of the moments at `edge`, beyond which they are dropped."""
    log_tail = min(max(2.0 * math.log(edge / (choice.order - 1.0)), _TAILS[0]), _TAILS[1])
    return float(max(choice.log_size - choice.log_delta + log_tail - math.log(edge), 1.0))


def _run(of: ClonesMoments, rounds: float, choice: Any, nodes: _Nodes) -> _Run:
    """The moments of all rounds at the nodes and at the order that bounds the aliases."""
    alpha, heights, error = choice.order, nodes.heights, nodes.error
    real, imag = of.excess(nodes.at, alpha, heights)
    size = np.hypot(1.0 + real, imag)
    near = np.abs(real) + np.abs(imag) < 0.5
    from_one = np.where(near, 2.0 * real + real * real + imag * imag, 0.0)
    log_modulus = np.where(near, 0.5 * np.log1p(from_one), np.log(size))
    spread = rounds * (2.0**-48 - np.log1p(-np.minimum(error / size, 0.5)))
    # where the moment is hardly known, the power of its upper bound is within 3 times itself of the true power
    unknown = ~((error < 0.5 * size) & (spread < 1.0))
    log_modulus = np.where(unknown, np.log(size + error) + 2.0**-48, log_modulus)
    spread = np.where(unknown, math.log(3.0), spread)
    above = choice.alias_order
    far = of.lattice(above, 0.0)
    alias_excess, _ = of.excess(far, above, np.zeros(1))
    log_alias = math.log1p(float(alias_excess[0]) + of.error(far, above, 0.0))
    column, step = heights[:, None], nodes.last / len(heights)
    order, period = np.array([alpha]), np.array([2.0 * math.pi / step])
    columns: Any = (order, period, column, column >= 0, np.array([[nodes.last]]), np.array([[above]]))
    fields: Any = (
        rounds * log_modulus,
        rounds * np.arctan2(imag, 1.0 + real),
        spread,
        np.array([rounds * log_alias + 2.0**-48 * rounds * abs(log_alias)]),
        np.array([nodes.log_tail]),
    )
    dropped = rounds * max(nodes.at.dropped, far.dropped) * (1.0 + 1e-9)
    return _Run(Line(*columns), LineMoments(*(x[:, None] for x in fields)), nodes, dropped)


def _with_release(run: _Run, v: float) -> LineMoments:
    """The moments of the run and of a release of variance v, e^(s (s - 1) v/2) for the latter."""
    alpha, c, y = float(run.line.order[0]), run.line.alias_orders, run.line.heights
    found, last, edge = run.moments, run.nodes.last, run.nodes.edge
    # beyond the edge 1/b^2 is less than from the last node on; 2^-40 for the rounding of the logarithms
    half = math.pi / float(run.line.period[0])
    beyond = -0.5 * v * edge**2 + math.log((last - half) / (edge - half))
    decay: Any = np.logaddexp(found.log_decay - 0.5 * v * last**2, beyond) + 2.0**-40
    return found._replace(
        log_modulus=found.log_modulus + 0.5 * v * (alpha * (alpha - 1.0) - y * y),
        phase=found.phase + 0.5 * v * y * (2.0 * alpha - 1.0),
        log_alias=found.log_alias + 0.5 * v * c * (c - 1.0) + 2.0**-48 * (1.0 + v * c * c),
        log_decay=decay,
    )


def _with_releases(run: _Run, v: float) -> _Smoothed:
    """The run with a release of variance v, and with one of theta^2 v."""
    factor = _THETA * math.exp(-(_THETA**2 - 1.0) * v / 8.0) * (1.0 - 2.0**-48)
    return _Smoothed(run.line, _with_release(run, v), _with_release(run, _THETA**2 * v), factor, run.dropped)


def _smoothed(run: _Run, choice: Any) -> _Smoothed | None:
    """The run with releases of the variance that minimizes the sum of two errors; None if it has to be too large.

    One error is the effect of the release, the other the part beyond the last node.
    """
    found = _with_releases(run, 2.0 * _log_share(choice, run.nodes.edge) / run.nodes.edge**2)
    return found if found.factor > 1.0 + 1e-3 else None


def _lower_delta(run: _Smoothed, epsilons: Real) -> Real:
    """Lower bounds on delta at `epsilons` [K]."""
    at: Any = epsilons
    ends = np.exp([delta_ends(run.line, run.fine, at).lower, delta_ends(run.line, run.coarse, at).upper])
    k = run.factor
    value = (k * ends[0] * (1.0 - 2.0**-46) - ends[1] * (1.0 + 2.0**-46)) / (k - 1.0)
    return value * (1.0 - 2.0**-48) - run.dropped


def _delta_ends(run: _Smoothed, epsilon: float) -> Ends[float]:
    here: Any = np.array([epsilon])
    upper = math.exp(float(delta_ends(run.line, run.fine, here).upper[0])) * (1.0 + 2.0**-44) + run.dropped
    return Ends(max(float(_lower_delta(run, here)[0]), 0.0), min(upper, 1.0))


def _epsilon_ends(run: _Smoothed, delta: float, start: float) -> Ends[float] | None:
    """The ends of epsilon at `delta`; None if the dropped outcomes have a probability of more than `delta`."""
    left = delta * (1.0 - 2.0**-50) - run.dropped
    if not left > 0.0:
        return None
    goal: Any = np.array([[math.log(left) - 2.0**-46], [start]])
    high = float(epsilon_ends(run.line, run.fine, goal[0], goal[1]).upper[0])
    if not math.isfinite(high):
        return Ends(0.0, math.inf)
    return Ends(_lower_epsilon(run, delta, high), high)


def _lower_epsilon(run: _Smoothed, delta: float, high: float) -> float:
    """The largest epsilon found, below `high`, at which the lower end of delta is at least `delta`; 0 for none."""
    near = high - 1e-3 / (float(run.line.order[0]) - 1.0)
    values = _lower_delta(run, np.array([high, near]))
    tried = high * (1.0 - _DISTANCES)
    if near > 0.0 and 0.0 < values[0] < delta and values[0] < values[1]:
        gap = (high - near) * math.log(delta / values[0]) / math.log(values[1] / values[0])
        tried = np.concatenate([np.maximum(high - gap * _BEYOND, 0.0), tried])
    holds = tried[_lower_delta(run, tried) >= delta]
    return float(holds.max(initial=0.0))
