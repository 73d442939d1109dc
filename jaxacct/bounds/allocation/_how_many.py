"""An upper bound for k-out-of-t allocation, remove direction, that keeps the number of steps a record joined.

With W_i = dP_1/dQ_1 of step i, any 0 < q < 1, R_i = 1 - q + q W_i and p_i = q W_i / R_i, the likelihood ratio of
k-out-of-t allocation (Feldman & Shenfeld 2025, Theorem 3.1) is

    L = e_k(W) / C(t, k) = prod_i R_i Pr[B = k] / b,    b = C(t, k) q^k (1 - q)^(t - k),

where B is a sum of independent Bernoulli variables with probabilities p_i. By Fourier inversion, as
|1 - p + p e^{iv}|^2 = 1 - 2 p (1 - p) (1 - cos v), and with U = sum_i p_i (1 - p_i),

    Pr[B = k] <= (1/pi) int_0^pi e^{-U (1 - cos v)} dv.

e^{-U c} is convex in c: on cells of v it lies below its chord in c = 1 - cos v, which leaves finitely many c_j with
weights v_j >= 0. So L <= sum_j A_j Y_j, where A_j = v_j m_j^t / b, and Y_j is a product of t independent factors
R_i e^{-c_j p_i (1 - p_i)} / m_j of mean at most 1, a likelihood ratio. For any numbers eps_j, by convexity of (.)_+,

    delta(log sum_j A_j e^{eps_j}) <= sum_j A_j E_Q (Y_j - e^{eps_j})_+,

and each expectation is the profile of a composition of t equal pairs (RA-X11). `_how_many_epochs` has several epochs.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Query, Role, only_where
from jaxacct._types import Bound, Direction, Ends, TooFineError
from jaxacct.bounds._split import selects_several
from jaxacct.bounds.allocation._how_many_epochs import epochs_upper, rough
from jaxacct.bounds.bases._base import pld_of_law
from jaxacct.curves import Pld
from jaxacct.curves._convolution import compose_plds
from jaxacct.divergence.lattice._ratio import Side, from_atoms
from jaxacct.mechanisms import RandomAllocation
from jaxacct.special import down, rows_times, up

Real = np.ndarray[Any, np.dtype[np.float64]]


class _Grid(NamedTuple):
    """The resolution of the parts; any values are valid.

    The number of ends of the cells of v; cells of one output, in standard deviations from -_REACH to _REACH + 1/sigma;
    the distance of the losses of one step, in nats; and the deltas at which the compositions are sharp.
    """

    num_angles: int
    num_cells: int
    step: float
    deltas: tuple[float, ...]


# Any value of these is valid: they affect speed and tightness only.
_FINE = _Grid(10, 2**15, 4e-3, (1e-4,))
_COARSE = _Grid(6, 2**11, 4e-2, (1e-3,))  # a few per cent looser; finds the best q
_TUNINGS = (0.12, 0.16, 0.21, 0.27, 0.34, 0.42, 0.5, 0.6, 0.72, 0.86, 1.0)  # q in units of k/t
_HOPELESS = 1.25  # a coarse upper end of epsilon this many times the known one is not refined
_NEAR = 1.01  # the second best q is refined too where its coarse answer is at most so many times the best
_GAIN = 1e-3  # least gain in the logarithm of an answer for which another q is refined
_REACH = 9.5  # standard deviations; what lies beyond is booked
_OF_EPOCHS = (0.5, 0.6, 0.72, 0.8, 0.86, 0.93)  # q in units of k/t, for several epochs
_ROUGHLY = 1.12  # a rough answer this many times the known one is not worth a sharp one
_NOISE, _MOST_STEPS = (0.3, 3.0), 2**15  # the range of sigma and the largest t for which this is tried
_SPARSE = 8.0  # where t/k is more than this many times e^{1/sigma^2}, one step at a time is better
_SLACKS = (1e-9, 1e-7, 1e-5, 1e-3, 1e-2)  # added to every eps_j, in turn, until delta is small enough


class _Part(NamedTuple):
    """An upper bound on log A_j, and the composed law of log Y_j."""

    log_weight: float
    law: Pld


def _weights(num_angles: int) -> tuple[Real, Real]:
    """c_j and v_j: on a cell of v the chord in c preserves the integrals of 1 and of c."""
    angles = math.pi * np.linspace(0.0, 1.0, num_angles) ** 1.3
    c = 1.0 - np.cos(angles)
    length = np.diff(angles)
    right = (length - np.diff(np.sin(angles)) - c[:-1] * length) / np.diff(c)
    v = np.append(length - right, 0.0) + np.append(0.0, right)
    return c, v / math.pi + 1e-13  # rounded up


def _normal_tail(x: Real) -> Real:
    return 0.5 * np.array([math.erfc(y / math.sqrt(2.0)) for y in x])


@functools.lru_cache(maxsize=8)
def _cells(mu: float, num_cells: int) -> tuple[Real, Real, float]:
    """The ends of one output's cells, their masses under Q (first the mass left of all cells), and Q's mass beyond."""
    z = np.linspace(-_REACH, _REACH + mu, num_cells + 1)
    tail = _normal_tail(np.abs(z))
    # a cell's mass under Q, rounded up: from the nearer tails, each of which errs by some 2^-50 (1 + z^2)
    across = (z[:-1] < 0.0) & (z[1:] >= 0.0)
    mass = np.where(across, 1.0 - tail[:-1] - tail[1:], np.abs(np.diff(tail)))
    mass = mass + 2.0**-48 * (1.0 + z[-1] ** 2) * (tail[:-1] + tail[1:])
    return z, np.append(tail[0] * (1.0 + 1e-9), mass), float(tail[-1])


@functools.lru_cache(maxsize=32)
def _parts(sigma: float, steps: int, selected: int, tuning: float, grid: _Grid = _FINE) -> tuple[_Part, ...]:
    mu, q = 1.0 / sigma, tuning * selected / steps
    log_b = math.lgamma(steps + 1) - math.lgamma(selected + 1) - math.lgamma(steps - selected + 1)
    log_b += selected * math.log(q) + (steps - selected) * math.log1p(-q)
    log_b -= 1e-12 * (1.0 + math.lgamma(steps + 1) - selected * math.log(q))
    z, mass, tail = _cells(mu, grid.num_cells)
    # the mean of R under Q, beyond the last cell
    beyond = ((1.0 - q) * tail + 0.5 * q * math.erfc(_REACH / math.sqrt(2.0))) * (1.0 + 1e-9)
    ratio = 1.0 - q + q * np.exp(mu * z - 0.5 * mu * mu)
    posterior = 1.0 - (1.0 - q) / ratio
    spread = posterior * (1.0 - posterior)
    # for each cell the largest R and the least p (1 - p), which is concave in p; left of all cells R at the end, and 0
    log_ratio = np.log(ratio)
    least = np.append(0.0, np.maximum(np.minimum(spread[:-1], spread[1:]) - 2.0**-48, 0.0))
    found = []
    for c, v in zip(*_weights(grid.num_angles), strict=True):
        log_factor = log_ratio - c * least + 2.0**-44
        total = up(float(rows_times(mass, np.exp(log_factor))) + beyond, 2**18)
        law = from_atoms(log_factor - math.log(total), mass, 0.0, up(beyond / total, 8), grid.step, Side.UPPER)
        composed = compose_plds([(pld_of_law(law, Direction.REMOVE), steps)], grid.deltas)
        log_weight = math.log(v) + steps * math.log(total) - log_b
        log_weight += 1e-11 + 2.0**-46 * (abs(log_b) + steps * abs(math.log(total)))
        found.append(_Part(log_weight, composed))
    return tuple(found)


class _Curve(NamedTuple):
    """P(log Y > l) and -log Q(log Y > l) [N] at the losses l of one part, approximately; not certified."""

    losses: Real
    above: Real
    rarity: Real

    def at(self, log_tail: float) -> float:
        """The loss beyond which Q has approximately this tail."""
        return float(np.interp(-log_tail, self.rarity, self.losses))

    def delta(self, loss: float) -> float:
        """E_Q (Y - e^loss)_+, approximately."""
        tail = math.exp(loss - float(np.interp(loss, self.losses, self.rarity)))
        return max(float(np.interp(loss, self.losses, self.above)) - tail, 0.0)


def _curve(law: Pld) -> _Curve:
    losses, masses = law.losses, law.masses
    top = float(losses[-1])
    above = np.cumsum(masses[::-1])[::-1] + law.infinite_mass
    tail = np.cumsum((masses * np.exp(np.minimum(top - losses, 600.0)))[::-1])[::-1]
    return _Curve(losses, above, top - np.log(np.maximum(tail, 1e-300)))


def _thresholds(parts: tuple[_Part, ...], query: Query, target: float) -> Real:
    """Nearly the best eps_j: all have the same tail probability under Q."""
    curves = [_curve(part.law) for part in parts]
    low, high = -600.0, 0.0
    for _ in range(36):
        middle = 0.5 * (low + high)
        eps = [curve.at(middle) for curve in curves]
        if query is Query.DELTA:
            is_far = _log_level(parts, np.array(eps)) > target
        else:
            values = (
                math.exp(part.log_weight) * curve.delta(e) for part, curve, e in zip(parts, curves, eps, strict=True)
            )
            is_far = sum(values) < target
        low, high = (middle, high) if is_far else (low, middle)
    return np.array([curve.at(high) for curve in curves])


def _log_level(parts: tuple[_Part, ...], eps: Real) -> float:
    """log sum_j A_j e^{eps_j}."""
    logs = np.array([part.log_weight for part in parts]) + eps
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))


def _delta(parts: tuple[_Part, ...], eps: Real) -> float:
    """sum_j A_j E_Q (Y_j - e^{eps_j})_+, rounded up."""
    terms = [math.exp(part.log_weight) * part.law.delta(float(e)) for part, e in zip(parts, eps, strict=True)]
    return math.fsum(terms) * (1.0 + 2.0**-40)


def _one(mechanism: RandomAllocation, tuning: float, query: Query, target: float, grid: _Grid = _FINE) -> float:
    """The upper end for one epoch with one q."""
    sigma = float(mechanism.mechanism.noise_multiplier)
    parts = _parts(sigma, int(mechanism.num_steps), int(mechanism.num_selected), tuning, grid)
    eps = _thresholds(parts, query, target)
    sizes = 1.0 + abs(target) + float(np.abs(eps).max()) + max(abs(part.log_weight) for part in parts)
    if query is Query.DELTA:
        return min(_delta(parts, eps + (target - _log_level(parts, eps)) - 2.0**-44 * sizes), 1.0)
    for slack in _SLACKS:
        if _delta(parts, eps + slack) <= down(target, 4):
            return max(_log_level(parts, eps + slack) + 2.0**-44 * sizes, 0.0)
    return math.inf


def how_many_upper(mechanism: RandomAllocation, query: Query, target: float, known: float = math.inf) -> float:
    """float: epsilon at a delta, or delta at an epsilon, upper bound, remove direction; the best of several q.

    RA-X11. Coarse parts find the best q; the search stops early where the answer is far above `known`.
    """
    if mechanism.num_epochs > 1:
        return _of_epochs(mechanism, query, target, known)
    run = float(mechanism.mechanism.noise_multiplier), int(mechanism.num_steps), int(mechanism.num_selected)
    best = min(range(len(_TUNINGS)), key=lambda i: rough(*run, 1, _TUNINGS[i], query, target))
    found = {best: _one(mechanism, _TUNINGS[best], query, target, _COARSE)}
    for way in (-1, 1):
        at = best + way
        while 0 <= at < len(_TUNINGS) and at not in found:
            found[at] = _one(mechanism, _TUNINGS[at], query, target, _COARSE)
            if found[at] >= found[best]:
                break
            best, at = at, at + way
    if query is Query.EPSILON and found[best] > _HOPELESS * known:
        return found[best]
    if found[best] >= query.worst:
        return found[best]
    near = [i for i in sorted(found, key=lambda i: found[i])[:2] if found[i] <= _NEAR * found[best]]
    tried = {_lowest(found, best), *(_TUNINGS[i] for i in near)}
    return min(found[best], *(_one(mechanism, tuning, query, target) for tuning in tried))


def _lowest(found: Mapping[int, float], best: int) -> float:
    """The q, in units of k/t, at which a parabola through the best coarse answer and its neighbours is lowest."""
    around = [i for i in (best - 1, best, best + 1) if 0.0 < found.get(i, math.inf) < math.inf]
    if len(around) < 3:
        return _TUNINGS[best]
    square, line, _ = np.polyfit(np.log([_TUNINGS[i] for i in around]), np.log([found[i] for i in around]), 2)
    if not square > 0.0 or square * (0.5 * line / square + math.log(_TUNINGS[best])) ** 2 < _GAIN:
        return _TUNINGS[best]
    return min(max(math.exp(-0.5 * line / square), _TUNINGS[best - 1]), _TUNINGS[best + 1])


def _of_epochs(mechanism: RandomAllocation, query: Query, target: float, known: float) -> float:
    """The upper end for several epochs, from the two q that look best; inf if epsilon looks far above what is known."""
    sigma, epochs = float(mechanism.mechanism.noise_multiplier), int(mechanism.num_epochs)
    run = sigma, int(mechanism.num_steps), int(mechanism.num_selected)
    found = sorted((rough(*run, epochs, tuning, query, target), tuning) for tuning in _OF_EPOCHS)
    if query is Query.EPSILON and found[0][0].answer > _ROUGHLY * known:
        return math.inf
    return min(epochs_upper(_parts(*run, tuning), epochs, at.order, query, target) for at, tuning in found[:2])


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    if not _is_tried(mechanism):
        return dict.fromkeys(at.known, Ends(0.0, query.worst))
    with np.errstate(all="ignore"):
        try:
            known = min((ends.upper for ends in at.known.values()), default=math.inf)
            found = how_many_upper(mechanism, query, target, known)
        except (OverflowError, TooFineError):
            found = math.inf
    end = min(found, query.worst) if not math.isnan(found) else query.worst
    return dict.fromkeys(at.known, Ends(0.0, end))


def _is_tried(mechanism: RandomAllocation) -> bool:
    """Whether epochs are not too long, noise is moderate, and a record joins a large share of the steps."""
    steps, selected, sigma = int(mechanism.num_steps), int(mechanism.num_selected), mechanism.mechanism.noise_multiplier
    if not (selected < steps <= _MOST_STEPS and _NOISE[0] <= sigma <= _NOISE[1]):
        return False
    return bool(steps <= _SPARSE * math.exp(sigma**-2.0) * selected)


HOW_MANY = BracketMethod(
    name="how many steps",
    theorem="Feldman & Shenfeld 2025, Theorem 3.1; the number of steps joined, by Fourier inversion",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.UPPER}),
    cost=Cost.SECONDS,
    role=only_where(selects_several, Role.SHARPER),
    bracket=_bracket,
    regime="few steps for each of several that a record joins",
)
