"""What an adversary can find out: the errors of any test for whether one record took part."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from typing import Any, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._method import NO_POINT, BracketMethod, Cost, Engine, LaneMethod, Method, Query
from jaxacct._patience import with_slow_warning
from jaxacct._precision import FEW_LANES, Kernel, KernelByStructure, Rounding
from jaxacct._sharing import shared
from jaxacct._types import Bound, NeighboringRelation, OrderEdgeWarning, TooFineError
from jaxacct._validate import check_probability, checked_array
from jaxacct.answering import answer, question_of
from jaxacct.answering._plan import is_expensive, plan
from jaxacct.answering._question import check_scalars
from jaxacct.bounds import methods_for
from jaxacct.bounds._clones_pair import concrete_pair, has_pair
from jaxacct.bounds._distribution import PLAIN_TAIL, plds
from jaxacct.bounds._sizes import num_points
from jaxacct.bounds.composed import distribution_of, has_lanes, has_quick
from jaxacct.bounds.gaussian import composed_mu, is_gaussian
from jaxacct.bounds.parallel_poisson import in_place_of
from jaxacct.curves import Pld
from jaxacct.curves._convolution import ALL_DELTAS
from jaxacct.curves._from_profile import profile_of
from jaxacct.divergence.clones._profile import lane_bytes, window_for
from jaxacct.divergence.clones._tradeoff import clones_gdp, clones_tradeoff
from jaxacct.mechanisms import Shuffled
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import ULP, log_normal_tail, normal_upper_quantile, up
from jaxacct.special._namespace import xp

__all__ = ["gdp", "tradeoff"]

# The envelope of lines is a lower bound whichever epsilons they belong to; the first three steer its tightness.
_NUM_LINES = 256  # epsilons in even steps, and as many in even ratios
_SMALLEST = 1e-14  # delta at the largest of these epsilons
_LAST_LINE = 500.0  # nats: no epsilon is larger
_TINY = (1e-14, 1e-9)  # deltas at which a finite epsilon is looked for
_RESOLUTION = 24.0  # grid points per standard deviation of a part's loss, where a loss distribution gives the lines
_MOST_POINTS = 2.0**19  # about the most grid points of its window: beyond that the grid is coarser
_FEW_RATES = 8  # rates for which epsilons are chosen one by one, where delta costs little
_FEW_LINES, _USUAL_LINES = 7, 12  # epsilons to begin with, and usually in all
_DEGREE = 5  # of the polynomial that suggests where to look next
_NUM_VERTICES = 2  # looks after that one: at the vertex of the parabola through the best three heights
_GAIN = 1e-5  # relative: a vertex that would be no higher is not looked at
_NEGLIGIBLE = 1e-3  # delta at the largest epsilon, in units of the smallest rate
_HIGHER = 10.0  # factor by which that delta is raised where no epsilon reaches it
_ABOUT = 1e-3  # relative width of the deltas
# Taken off a false negative rate, absolute: 1 - delta, an exponential (4 ULP) times the rate, and their difference err
# by 7 ULP where that is positive, the other line by as much; taking this off by one more.
_ROUNDING = 10.0 * ULP
_LARGEST = 1e300  # of a square: an infinite one would make 0 times infinity of a tail that is 0


def _gaussian_errors(error: jax.Array, mu: jax.Array) -> jax.Array:
    log_error = xp.log(error)
    z, off = normal_upper_quantile(log_error, 4.0 * ULP * xp.abs(log_error))
    shift = mu - z + off + 4.0 * ULP * (mu + xp.abs(z) + off)  # two sums
    relative = 34.0 * ULP * (1.0 + xp.minimum(shift * shift, _LARGEST))
    value = xp.maximum(xp.exp(log_normal_tail(shift)) * (1.0 - relative), 0.0)
    return xp.where(error > 0, xp.where(error < 1, value, 0.0), 1.0 - _ROUNDING)


_GAUSSIAN = Kernel(_gaussian_errors, Rounding.DOWN, on_host=FEW_LANES)
_MU = KernelByStructure(composed_mu, Rounding.UP, on_host=FEW_LANES)
_CLONES = Kernel(clones_tradeoff, Rounding.DOWN, lane_bytes=lane_bytes, on_host=True)


def tradeoff(
    mechanism: Mechanism, false_positive_rate: Any, *, neighboring_relation: NeighboringRelation | str | None = None
) -> Any:
    """The smallest false negative rate of any test that tells two neighbours apart: a certified lower bound.

    ``T(a) = min {1 - power : tests of level a}``, the smaller over both orders of the neighbours (Dong, Roth and Su
    2022, Definition 2.1). The bound is exact for the Gaussian mechanism (their Section 2.2) and for one round of
    shuffled reports (Chen et al. 2024, Theorem 1, corrected); otherwise it is the envelope of the lines that the
    certified profile gives (their Proposition 2.12):

        T(a) >= 1 - delta(eps) - e^eps a,    T(a) >= e^-eps (1 - delta(eps) - a),    for every eps >= 0.

    Args:
      mechanism: a mechanism with scalar fields, or an upper `Pld`, which bounds tests in its own direction.
      false_positive_rate: float array in [0, 1].
      neighboring_relation: as for `jaxacct.epsilon`.

    Returns:
      A float or an array in [0, 1]. ``1 - tradeoff(...)`` bounds the true positive rate of membership inference.

    Raises:
      ValueError: if an argument is out of range, not concrete, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000, num_epochs=10)
    >>> round(1 - ja.tradeoff(run, false_positive_rate=0.01), 4)
    0.0141
    """
    check_probability("false_positive_rate", false_positive_rate)
    mechanism = in_relation(mechanism, neighboring_relation)
    check_scalars(mechanism)
    error = checked_array("false_positive_rate", false_positive_rate).astype(np.float64)
    if mechanism.loses_nothing():
        found = 1.0 - error
    elif is_gaussian(mechanism):
        found = _GAUSSIAN(error, _mu(mechanism))
    elif _is_one_pair(mechanism):
        found = _of_pair(mechanism, error)
    else:
        found = np.zeros(error.shape)
        is_some = error > 0.0
        if not is_some.all():
            found[~is_some] = _without_false_positives(mechanism)
        if is_some.any() and not _is_hopeless(mechanism, error[is_some]):
            lines = _best_lines if error.size <= _FEW_RATES and _is_cheap(mechanism) else _by_lines
            found[is_some] = lines(mechanism, error[is_some])
    return found if error.ndim else float(found)


def gdp(mechanism: Mechanism) -> float:
    """The smallest mu found for which `mechanism` is mu-GDP: a certified upper bound.

    ``T(a) >= G_mu(a) = Phi(Phi^-1(1 - a) - mu)`` for every a (Dong, Roth and Su 2022, Definition 2.6). It is exact for
    compositions of Gaussian mechanisms; for shuffled reports of pure randomizers it is the mu of the clones pair (Chen
    et al. 2024, Theorem 1, corrected), whose squares add up over rounds. It depends on astronomically small deltas as
    much as on others: epsilon at one delta is the sharper summary.

    Args:
      mechanism: a mechanism with concrete scalar fields: Gaussian releases, composed or not, or `Shuffled` reports of a
        pure randomizer.

    Returns:
      A float, mu, in the adjacency of the mechanism.

    Raises:
      ValueError: for a mechanism with no Gaussian trade-off function here, or fields that are not concrete scalars.

    >>> import jaxacct as ja
    >>> round(ja.gdp(ja.Composed(ja.Gaussian(2.0), 16)), 6)
    2.0
    >>> round(ja.gdp(ja.Shuffled(ja.LocalRandomizer(1.0), num_reports=1000)), 4)
    0.0503
    """
    check_scalars(mechanism)
    if is_gaussian(mechanism):
        return _mu(mechanism)
    if _has_pair(mechanism):
        mu = clones_gdp(*concrete_pair(mechanism), window=_window(mechanism))
        return up(mu * math.sqrt(mechanism.num_epochs), 8)  # the square root and its product
    raise ValueError(f"mechanism={mechanism!r} has no Gaussian trade-off function here: ask for its tradeoff instead")


def has_closed_gdp(mechanism: Mechanism) -> bool:
    """Whether the trade-off function of `mechanism` is Gaussian."""
    return is_gaussian(mechanism)


def has_gdp(mechanism: Mechanism) -> bool:
    """Whether `gdp` has a mu for `mechanism`."""
    return is_gaussian(mechanism) or _has_pair(mechanism)


def gaussian_errors(false_positive_rates: NDArray[Any], mu: float) -> NDArray[Any]:
    """G_mu at an array of rates, rounded down."""
    return np.asarray(_GAUSSIAN(false_positive_rates, mu))


def _mu(mechanism: Mechanism) -> float:
    return up(float(_MU(mechanism)), 32)


def _has_pair(mechanism: Mechanism) -> TypeGuard[Shuffled]:
    """Whether one clones pair dominates each of its rounds."""
    return has_pair(mechanism)


def _is_one_pair(mechanism: Mechanism) -> TypeGuard[Shuffled]:
    return _has_pair(mechanism) and mechanism.num_epochs == 1


def _window(mechanism: Shuffled) -> int:
    return window_for(*concrete_pair(mechanism)[:2])


def _of_pair(mechanism: Shuffled, error: NDArray[Any]) -> Any:
    """The trade-off function of the clones pair; few rates one after the other, on the host, where nothing compiles."""
    pair, window = concrete_pair(mechanism), _window(mechanism)
    if error.size > _FEW_RATES:
        return _CLONES(error, *pair, window=window)
    return np.array([_CLONES(rate, *pair, window=window) for rate in error.flat]).reshape(error.shape)


def _is_cheap(mechanism: Mechanism) -> bool:
    """Whether delta is cheap to compute at each epsilon: by the bracket that comes first, or else by all methods.

    Without a loss distribution, this is at least cheaper than the methods for many epsilons.
    """
    if distribution_of(mechanism) is None:
        return True
    methods = [step.method for step in plan(question_of(in_place_of(mechanism), Query.DELTA, 1.0))]
    asked = methods[:1] if methods and isinstance(methods[0], BracketMethod) else methods
    on_host = all(isinstance(m, BracketMethod) or _is_of_lanes(m) for m in asked)
    return on_host and all(m.cost <= Cost.TENTHS and m.engine is not Engine.DISTRIBUTIONS for m in asked)


def _is_hopeless(mechanism: Mechanism, error: NDArray[Any]) -> bool:
    """Whether no line is above 0 at these rates: none is higher than 1 - delta at the largest epsilon, less the rate.

    This is checked closely where quick methods suggest it: for tiny noise, where every delta would be expensive.
    """
    if not error.size or not has_quick(mechanism):
        return False
    if is_expensive(question_of(in_place_of(mechanism), Query.DELTA, _LAST_LINE, precision=math.inf)):
        return False  # the look costs more than it may spare
    with warnings.catch_warnings():  # from quick methods
        warnings.simplefilter("ignore", OrderEdgeWarning)
        quick = _about(mechanism, Query.DELTA, _LAST_LINE, math.inf)
    return 1.0 - quick <= error.min() and 1.0 - _about(mechanism, Query.DELTA, _LAST_LINE) <= error.min()


def _is_of_lanes(method: Method) -> TypeGuard[LaneMethod]:
    """Whether it is a method on lanes that answers one concrete question on the host."""
    return isinstance(method, LaneMethod) and not callable(method.numpy) and method.numpy > NO_POINT


def _about(mechanism: Mechanism, query: Query, target: float, width: float = _ABOUT) -> float:
    """The certified upper end, about as sharp as a line needs (a looser one lowers the line), without warnings."""
    question = question_of(mechanism, query, target, precision=width)
    return float(answer(dataclasses.replace(question, warns=False)).high)


@shared()
def _without_false_positives(mechanism: Mechanism) -> Any:
    """A lower bound on the false negative rate of tests without false positives: 1 - delta at any epsilon."""
    distribution = distribution_of(mechanism)
    if distribution is not None and distribution.is_given:  # in one direction
        return _by_lines(mechanism, np.zeros(()))
    caught = _about(mechanism, Query.DELTA, _LAST_LINE)
    for delta in _TINY if caught > _TINY[-1] else ():
        if delta < caught and math.isfinite(_about(mechanism, Query.EPSILON, delta)):
            caught = delta
            break
    return _below(np.asarray(1.0 - caught))


@shared()
def _best_lines(mechanism: Mechanism, error: NDArray[Any]) -> NDArray[Any]:
    """The highest of the lines of a few epsilons: some evenly spaced, then those that look best for each rate.

    The questions are asked one after the other, which compiles nothing; they share the mechanism's loss distributions.
    """
    level, questions = (
        error.reshape(-1),
        with_slow_warning(itertools.repeat(None), "lines of the trade-off function", _USUAL_LINES),
    )

    def about(query: Query, target: float) -> float:
        next(questions)
        return _about(mechanism, query, target)

    smallest = _NEGLIGIBLE * max(level.min(), _SMALLEST)
    last = _LAST_LINE
    while last == _LAST_LINE and smallest < 1.0:  # where delta never falls this far, try a larger one
        last = min(about(Query.EPSILON, smallest), _LAST_LINE)
        smallest *= _HIGHER
    at, kept = np.zeros(0), np.zeros(0)
    new = np.linspace(0.0, last, _FEW_LINES)
    for look in (_promising, *[_at_vertices] * _NUM_VERTICES, None):
        new = np.setdiff1d(new, at)
        at, kept = (
            np.concatenate([at, new]),
            np.concatenate([kept, 1.0 - np.array([about(Query.DELTA, x) for x in new.tolist()])]),
        )
        new = np.zeros(0) if look is None else look(at, kept, level)
    found = np.maximum(*_heights(at, kept, level)).max(axis=0)
    return _below(found).reshape(error.shape)


def _promising(epsilons: NDArray[Any], kept: NDArray[Any], level: NDArray[Any]) -> NDArray[Any]:
    """Epsilons whose lines are the highest if log delta is the polynomial through the known points: a guess."""
    seen = kept < 1.0
    if np.count_nonzero(seen) < _DEGREE + 1:
        return np.zeros(0)
    fine = np.linspace(0.0, epsilons.max(), _NUM_LINES)
    log_delta = np.polynomial.Polynomial.fit(epsilons[seen], np.log1p(-kept[seen]), _DEGREE)
    guess = -np.expm1(np.minimum(log_delta(fine), 0.0))
    return np.unique(fine[np.concatenate([x.argmax(axis=0) for x in _heights(fine, guess, level)])])


def _at_vertices(epsilons: NDArray[Any], kept: NDArray[Any], level: NDArray[Any]) -> NDArray[Any]:
    """For each rate, where the parabola through the highest line and its two neighbours is highest: a guess."""
    if len(epsilons) < 3:
        return np.zeros(0)
    order = np.argsort(epsilons)
    x, heights = epsilons[order], np.stack(_heights(epsilons[order], kept[order], level))
    kind = heights.max(axis=1).argmax(axis=0)
    best = heights[kind, :, np.arange(level.size)]  # [rates, epsilons]
    i = np.clip(best.argmax(axis=1), 1, len(x) - 2)
    rate = np.arange(level.size)
    before, after = x[i] - x[i - 1], x[i + 1] - x[i]
    left, right = (best[rate, i] - best[rate, i - 1]) / before, (best[rate, i + 1] - best[rate, i]) / after
    slope, bend = (left * after + right * before) / (before + after), (left - right) / (before + after)
    bent = bend > 0
    steps = slope / (2.0 * np.where(bent, bend, 1.0))
    helps = bent & (0.5 * slope * steps > _GAIN * best[rate, i])
    return np.unique(np.clip(x[i] + steps, x[i - 1], x[i + 1])[helps])


def _heights(epsilons: NDArray[Any], kept: NDArray[Any], level: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both kinds of lines at each rate, [epsilons, rates]; `kept` is 1 - delta."""
    growth = np.exp(epsilons)[:, None]
    return kept[:, None] - growth * level, (kept[:, None] - level) / growth


def _below(heights: NDArray[Any]) -> NDArray[Any]:
    """Heights less the rounding of their few operations, at least 0."""
    return np.maximum(heights * (1.0 - 2.0**-40) - _ROUNDING, 0.0)


def _lines_to(last: float) -> NDArray[Any]:
    last = min(last, _LAST_LINE)
    spread = np.geomspace(1e-6, 1.0, _NUM_LINES) * last
    return np.unique(np.concatenate([np.linspace(0.0, last, _NUM_LINES), spread]))


def certified_profile(mechanism: Mechanism, smallest: float = _SMALLEST) -> tuple[NDArray[Any], NDArray[Any]]:
    """Many (epsilons, certified deltas there), from 0 to about where delta is `smallest`, in the worse direction."""
    methods_for(mechanism)  # or a readable error
    losses: list[Pld] = []
    distribution = distribution_of(mechanism)
    if distribution is not None and distribution.is_given:
        losses = [cast(Pld, mechanism)]
    elif distribution is not None:
        try:
            resolution = min(_RESOLUTION, _MOST_POINTS / num_points(*distribution.scale(mechanism)))
            of = plds(distribution, mechanism, resolution, Bound.UPPER, PLAIN_TAIL, (1.0, *ALL_DELTAS))
            losses = [of(direction) for direction in mechanism.directions]
        except TooFineError:
            if not has_lanes(mechanism):
                raise
    if losses:
        last = max(loss.epsilon(smallest) for loss in losses)
        epsilons = _lines_to(last)
        return epsilons, np.max([profile_of(loss)(epsilons) for loss in losses], axis=0)
    last = float(answer(question_of(mechanism, Query.EPSILON, smallest, precision=math.inf)).high)
    epsilons = _lines_to(last)  # by the methods on lanes
    return epsilons, answer(question_of(mechanism, Query.DELTA, epsilons, precision=math.inf)).high


def _by_lines(mechanism: Mechanism, error: NDArray[Any]) -> NDArray[Any]:
    """The envelope of the lines of finitely many epsilons, by the profile in the worse direction."""
    epsilons, delta = certified_profile(mechanism)
    heights = np.maximum(*_heights(epsilons, 1.0 - delta, error.reshape(-1)))
    return _below(heights.max(axis=0)).reshape(error.shape)
