"""Approximate answers for the bound that uses how many steps a record joined, from which q and an order are chosen.

Nothing here is certified, and nothing has to be: any q and any Renyi order give a valid bound.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Query
from jaxacct.bounds.bases import law, spread
from jaxacct.divergence.lattice._ratio import RatioLaw, Side
from jaxacct.special import log_sum_exp

Real = np.ndarray[Any, np.dtype[np.float64]]

_ORDERS = 1.0 + np.geomspace(0.03, 16.0, 18)  # Renyi orders a
_TUNINGS = (0.1, 0.15, 0.22, 0.32, 0.45, 0.6, 0.75, 0.9, 1.05, 1.25)  # q in units of k/t
_SPACING = 0.15  # of the losses of a step, as for `ratio_of`
_POINTS = 4.3  # roots of unity for each square root of k
_TAIL = 1e-100  # mass of a step's law that may be left off its grid, and is booked: A^E may be large
_MOST_ANGLES = 9  # the angles of a rough answer
_LARGEST = 700.0  # log of the largest answer: one above 1 still shows where q is better
_NEAR = 1.06  # ratio of the q of the second parabola
_LARGEST_RATE = 0.9  # the largest q


class Run(NamedTuple):
    """k of t steps: what is released in each, t and k, and the number of epochs."""

    release: Any
    num_steps: int
    num_selected: int
    num_epochs: int

    def log_share(self, q: float) -> float:
        """log C(t, k) q^k (1 - q)^(t - k), to within rounding."""
        t, k = self.num_steps, self.num_selected
        log_choices = math.lgamma(t + 1) - math.lgamma(k + 1) - math.lgamma(t - k + 1)
        return log_choices + k * math.log(q) + (t - k) * math.log1p(-q)

    def circle(self) -> tuple[Real, Real]:
        """Angles in [0, pi] of roots of unity, and their weights in a mean over all: conjugate ones count together."""
        t, k = self.num_steps, self.num_selected
        size = min(math.ceil(_POINTS * math.sqrt(min(k, 0.25 * t + 1.0))) + 1, t + 1)
        index = np.arange(size // 2 + 1)
        return 2.0 * math.pi * index / size, np.where((index == 0) | (2 * index == size), 1.0, 2.0) / size


@functools.lru_cache(maxsize=16)
def ratio_of(release: Any, spacing: float) -> RatioLaw:
    """The law of W, a `RatioLaw` from above, on a grid whose step is `spacing` times sqrt(log E W^2): 1/sigma."""
    return law(release, 1.0, spacing * math.sqrt(math.log1p(spread(release))), Side.UPPER, _TAIL)


def values_of(ratio: RatioLaw) -> Real:
    """The points [Z] of a law of W, the last of which is 0."""
    return np.append(np.exp(ratio.log_values), 0.0)


def masses_of(ratio: RatioLaw) -> Real:
    """The masses [Z] of `values_of`."""
    return np.append(ratio.masses, ratio.zero_mass)


class Rough(NamedTuple):
    """An approximate answer, and the q, in units of k/t, and the Renyi order that give it."""

    answer: float
    tuning: float
    order: float


def _at(run: Run, tuning: float, query: Query, target: float) -> Rough:
    """By Minkowski's inequality, (E_Q L^a)^(1/a) <= sum_j w_j (E_Q prod |1 - q + q W_i e^{i v_j}|^a)^(1/a) / b."""
    q, a = tuning * run.num_selected / run.num_steps, _ORDERS
    ratio = ratio_of(run.release, _SPACING)
    weighed, log_masses = q * values_of(ratio), np.log(np.maximum(masses_of(ratio), 1e-300))
    angles, weights = (x[:_MOST_ANGLES, None] for x in run.circle())
    logs = np.log(np.hypot(1.0 - q + weighed * np.cos(angles), weighed * np.sin(angles)))
    roots = run.num_steps / a[:, None] * log_sum_exp(a[:, None, None] * logs + log_masses, 2)
    log_moment = run.num_epochs * a * (log_sum_exp(np.log(weights[:, 0]) + roots, 1) - run.log_share(q))
    slope = np.gradient(log_moment, a, edge_order=2)
    curvature = np.maximum(np.gradient(slope, a), 1e-12)
    log_delta = log_moment - (a - 1.0) * slope - np.log(a * (a - 1.0)) - 0.5 * np.log(2.0 * math.pi * curvature)
    if query is Query.EPSILON:
        order = float(np.interp(-math.log(target), -log_delta, a))
        answer = float(np.interp(order, a, slope))
    else:
        order = float(np.interp(target, slope, a))
        answer = math.exp(min(float(np.interp(order, a, log_delta)), _LARGEST))
    return Rough(answer, tuning, order)


def best_tuning(run: Run, query: Query, target: float) -> Rough:
    """A `Rough` (NamedTuple): the best q, by a walk over a few of them and two parabolas."""

    @functools.cache
    def at(tuning: float) -> Rough:
        return _at(run, tuning, query, target)

    allowed = [tuning for tuning in _TUNINGS if fits(run, tuning)]
    best = max(len(allowed) - 3, 0)
    for way in (-1, 1):
        while 0 <= best + way < len(allowed) and at(allowed[best + way]) < at(allowed[best]):
            best += way
    around = allowed[max(best - 1, 0) : best + 2]
    middle = at(lowest([at(tuning) for tuning in around]))
    return at(lowest([at(near.tuning) for near in neighbours(run, middle, _NEAR)]))


def fits(run: Run, tuning: float) -> bool:
    """bool: whether q = `tuning` k/t is a rate, and not almost 1."""
    return tuning * run.num_selected < _LARGEST_RATE * run.num_steps


def neighbours(run: Run, rough: Rough, ratio: float) -> list[Rough]:
    """A list of `Rough` (NamedTuple): `rough`, between two with q `ratio` times smaller and larger, where they fit."""
    tunings = (rough.tuning / ratio, rough.tuning, rough.tuning * ratio)
    return [rough._replace(tuning=tuning) for tuning in tunings if fits(run, tuning)]


def lowest(found: list[Rough]) -> float:
    """float: the q, in units of k/t, at which the parabola through three answers is lowest; else the best's."""
    best = min(found)
    if len(found) < 3 or not all(0.0 < x.answer < math.inf for x in found):
        return best.tuning
    q, answers = np.log([x.tuning for x in found]), np.log([x.answer for x in found])
    square, line, _ = np.polyfit(q - q[1], answers, 2)
    if not square > 0.0:
        return best.tuning
    return math.exp(float(np.clip(-0.5 * line / square, q[0] - q[1], q[2] - q[1]) + q[1]))
