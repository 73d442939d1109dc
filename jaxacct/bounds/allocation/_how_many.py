"""An upper bound for k-out-of-t allocation, remove direction, that uses how many steps a record joined.

With W_i = dP_1/dQ_1 of step i, the likelihood ratio of k-out-of-t allocation (Feldman & Shenfeld 2025, Theorem 3.1) is
e_k(W) / C(t, k), and for any 0 < q < 1 the elementary symmetric polynomial e_k is a coefficient:

    e_k(W) q^k (1 - q)^(t - k) = [z^k] prod_i (1 - q + q W_i z).

All coefficients are positive. So this one is at most the sum of those of z^k, z^(k +- N), ..., which is a mean over the
N-th roots of unity, and at most the mean of the absolute values there. Conjugate roots have equal factors. Hence

    L <= sum_j A_j Y_j,    A_j = w_j m_j^t / b,    b = C(t, k) q^k (1 - q)^(t - k),

with angles v_j = 2 pi j / N, weights w_0 = 1/N and w_j = 2/N (1/N where v_j = pi), and Y_j a product of t independent
factors |1 - q + q W_i e^{i v_j}| / m_j of mean at most 1, a likelihood ratio. For any numbers eps_j, by convexity of
(.)_+,

    delta(log sum_j A_j e^{eps_j}) <= sum_j A_j E_Q (Y_j - e^{eps_j})_+,

and each expectation is the profile of a composition of t equal pairs (RA-X11). Several epochs: `_how_many_epochs`.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Query, Role, only_where
from jaxacct._types import Bound, Direction, Ends, TooFineError
from jaxacct.bounds._split import selects_several
from jaxacct.bounds.allocation._how_many_epochs import deviation, epochs_upper
from jaxacct.bounds.allocation._how_many_roughly import (
    Rough,
    Run,
    best_tuning,
    fits,
    lowest,
    masses_of,
    neighbours,
    ratio_of,
    values_of,
)
from jaxacct.bounds.bases import spread
from jaxacct.bounds.bases._base import pld_of_law
from jaxacct.curves import Pld
from jaxacct.curves._convolution import compose_plds
from jaxacct.divergence.lattice._ratio import Side, from_atoms
from jaxacct.mechanisms import RandomAllocation
from jaxacct.special import crossing, down, rows_times, up

Real = np.ndarray[Any, np.dtype[np.float64]]

# Any value of these is valid: they affect speed and tightness only.
_SPACING = 0.02  # of the losses of a step, as for `ratio_of`
_COARSE, _FINE = 6.0, 50.0  # points of the grid of a factor's logarithm for each standard deviation of it
_NEAR, _MOST_STRIDES = 1.08, 4  # ratio of neighbouring q on coarse grids; how many are tried beyond the first three
_LEAST_FACTOR = math.exp(-4.0)  # smaller factors, in units of 1 - q, are taken to be as large
_REST = 1e-4  # angles beyond the first with an A_j below it share the part of that angle
# a rough answer this many times the known one is not worth a sharp one, which is larger nearly always
_HOPELESS = {Query.EPSILON: 1.005, Query.DELTA: 1.1}
# the range of E W^2 (e^{1/sigma^2} for Gaussian noise) and the largest t for which this is tried
_SIZES, _MOST_STEPS = (math.exp(3.0**-2.0), math.exp(0.3**-2.0)), 2**15
_SPARSE = 40.0  # where t/k is more than this many times E W^2, one step at a time is better
_LEAST_DELTA = 1e-100  # a delta known to be below it is not asked about: long transforms would find little
_RAREST = 600.0  # minus the logarithm of the least tail of Q
_SLACKS = (1e-9, 1e-7, 1e-5, 1e-3, 1e-2, 0.1, 1.0)  # added to every eps_j, in turn, until delta is small enough


class _Part(NamedTuple):
    """An upper bound on log A_j, and the composed law of log Y_j."""

    log_weight: float
    law: Pld


def _parts(run: Run, rough: Rough, fineness: float = _FINE) -> tuple[_Part, ...]:
    """The parts of one epoch, with the q of `rough`, sharp around the losses that matter at the Renyi order of `rough`.

    The grid of a factor's logarithm has `fineness` points for each standard deviation of it.

    A factor |1 - q + q W e^{iv}|, or a constant where that is larger, is convex in W, and so is every expectation that
    is taken of a product of such factors: a mean-preserving spread of W, and one of the factor, bound it from above.
    """
    steps, selected, ratio = run.num_steps, run.num_selected, ratio_of(run.release, _SPACING)
    q = rough.tuning * selected / steps
    # rounded down
    log_b = run.log_share(q) - 1e-12 * (1.0 + math.lgamma(steps + 1) - selected * math.log(q))
    weighed, masses = q * values_of(ratio), masses_of(ratio)
    whole = 1.0 - q + weighed
    # in the logarithm of W, and of a few operations
    error = weighed * (ratio.blur + 2.0**-50 * (8.0 + ratio.reach)) + 2.0**-48 * whole
    step = deviation(np.log(whole), np.log(np.maximum(masses, 1e-300)) + rough.order * np.log(whole)) / fineness
    angles, weights = run.circle()
    found: list[_Part] = []
    for j, angle in enumerate(angles):
        factor = np.hypot(1.0 - q + weighed * math.cos(angle), weighed * math.sin(angle))
        factor = np.maximum(factor, _LEAST_FACTOR * (1.0 - q)) + error
        infinite = q * ratio.infinite_mass
        total = up(float(rows_times(masses, factor)) + infinite, 2**18)
        log_weight = steps * math.log(total) - log_b
        log_weight += 1e-11 + 2.0**-46 * (abs(log_b) + steps * abs(math.log(total)))
        # the factors, and with them the parts, fall in the angle: this one may stand for all that follow
        is_last = math.log(weights[j]) + log_weight < math.log(_REST)
        weight = up(math.fsum(weights[j:]) if is_last else weights[j], 8)
        logs = np.log(factor) - math.log(total) + 2.0**-44
        origin = math.log1p(-q) - math.log(total)
        of_one = from_atoms(logs, masses, 0.0, up(infinite / total, 8), step, Side.UPPER, origin=origin)
        composed = compose_plds([(pld_of_law(of_one, Direction.REMOVE), steps)], tilts=(rough.order - 1.0,))
        found.append(_Part(math.log(weight) + log_weight, composed))
        if is_last:
            break
    return tuple(found)


class _Curve(NamedTuple):
    """P(log Y > l) and -log Q(log Y > l) [N] at the losses l of one part, approximately; not certified."""

    losses: Real
    above: Real
    rarity: Real

    def at(self, rarity: float) -> float:
        """The loss beyond which Q has approximately a tail of e^-rarity."""
        return float(np.interp(rarity, self.rarity, self.losses))

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
    """Nearly the best eps_j: those at which all parts have the same tail probability under Q."""
    curves = [_curve(part.law) for part in parts]

    def at(rarity: float) -> Real:
        return np.array([curve.at(rarity) for curve in curves])

    def excess(rarity: float) -> float:
        """A function that decreases in the rarity, and is 0 at the target."""
        if query is Query.DELTA:
            return target - _log_level(parts, at(rarity))
        deltas = [curve.delta(e) for curve, e in zip(curves, at(rarity), strict=True)]
        return math.fsum(math.exp(part.log_weight) * x for part, x in zip(parts, deltas, strict=True)) - target

    return at(crossing(excess, 0.0, _RAREST))


def _log_level(parts: tuple[_Part, ...], eps: Real) -> float:
    """log sum_j A_j e^{eps_j}."""
    logs = np.array([part.log_weight for part in parts]) + eps
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))


def _delta(parts: tuple[_Part, ...], eps: Real) -> float:
    """sum_j A_j E_Q (Y_j - e^{eps_j})_+, rounded up."""
    terms = [math.exp(part.log_weight) * part.law.delta(float(e)) for part, e in zip(parts, eps, strict=True)]
    return math.fsum(terms) * (1.0 + 2.0**-40)


def _one_epoch(parts: tuple[_Part, ...], query: Query, target: float) -> float:
    """The upper end for one epoch."""
    eps = _thresholds(parts, query, target)
    sizes = 1.0 + abs(target) + float(np.abs(eps).max()) + max(abs(part.log_weight) for part in parts)
    if query is Query.DELTA:
        return min(_delta(parts, eps + (target - _log_level(parts, eps)) - 2.0**-44 * sizes), 1.0)
    for slack in _SLACKS:
        if _delta(parts, eps + slack) <= down(target, 4):
            return max(_log_level(parts, eps + slack) + 2.0**-44 * sizes, 0.0)
    return math.inf


def how_many_upper(mechanism: RandomAllocation, query: Query, target: float, known: float = math.inf) -> float:
    """float: epsilon at a delta, or delta at an epsilon, upper bound, remove direction.

    RA-X11, with the q that looks best by Renyi divergences; inf if the answer looks larger than the `known` one.
    """
    run = Run(mechanism.mechanism, int(mechanism.num_steps), int(mechanism.num_selected), int(mechanism.num_epochs))
    if query is Query.DELTA and known < _LEAST_DELTA:
        return math.inf
    rough = best_tuning(run, query, target)
    if rough.answer > _HOPELESS[query] * known:
        return math.inf
    coarse = _walked(run, rough, query, target)
    best = rough._replace(tuning=lowest(coarse))
    return min(min(coarse).answer, _at(run, best, query, target))


def _walked(run: Run, rough: Rough, query: Query, target: float) -> list[Rough]:
    """Coarse answers at the best q and its neighbours, by a walk from that of `rough`."""

    def coarse(at: Rough) -> Rough:
        return at._replace(answer=_at(run, at, query, target, _COARSE))

    tried = [coarse(at) for at in neighbours(run, rough, _NEAR)]
    if math.isinf(min(tried).answer):
        return [rough._replace(answer=math.inf)]
    for _ in range(_MOST_STRIDES):
        best = tried.index(min(tried))
        if len(tried) < 3 or 0 < best < len(tried) - 1:
            break
        further = tried[best]._replace(tuning=tried[best].tuning * (_NEAR if best else 1.0 / _NEAR))
        if not fits(run, further.tuning):
            break
        tried = [*tried, coarse(further)] if best else [coarse(further), *tried]
    best = min(max(tried.index(min(tried)), 1), max(len(tried) - 2, 0))
    return tried[max(best - 1, 0) : best + 2]


def _at(run: Run, rough: Rough, query: Query, target: float, fineness: float = _FINE) -> float:
    """The upper end with the q of `rough`."""
    parts = _parts(run, rough, fineness)
    if run.num_epochs == 1:
        return _one_epoch(parts, query, target)
    return epochs_upper(parts, run.num_epochs, rough.order, query, target)


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
    steps, selected, size = int(mechanism.num_steps), int(mechanism.num_selected), 1.0 + spread(mechanism.mechanism)
    return selected < steps <= min(_MOST_STEPS, _SPARSE * size * selected) and _SIZES[0] <= size <= _SIZES[1]


HOW_MANY = BracketMethod(
    name="how many steps",
    theorem="Feldman & Shenfeld 2025, Theorem 3.1; the number of steps joined, by roots of unity",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.UPPER}),
    cost=Cost.SECONDS,
    role=only_where(selects_several, Role.SHARPER),
    bracket=_bracket,
    regime="few steps for each of several that a record joins",
)
