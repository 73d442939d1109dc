"""Compositions of laws by one contour of fixed size: upper ends of delta and epsilon, in either direction.

With M(s) the product of the laws' moments sum m y^s (sum m y^(1-s) in the add direction), each to the power of its
number of runs, as in `jaxacct.divergence._inversion`,

    delta(eps) = (1/2 pi i) int_{Re s = a} M(s) e^{eps (1 - s)} / (s (s - 1)) ds,    a > 1.

The trapezoid rule gives delta plus positive copies of it: an upper bound as it stands. Moments of finitely many points
do not decay with the height, so an additional Gaussian release, of mu = tau, is included: it lowers no profile, and the
part beyond the last node then has a closed form. Every choice (a, the step, tau) affects tightness only.
docs/numerics/laws.md derives the error bounds.

Numbers computed in one step share one array, since each array that a program makes is a kernel to compile.

Shapes: [R, G] points of R laws; [N] nodes of the line, or [n1, n2] with N = n1 n2; one lane at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.divergence.law._law import Law, value_at_minimum
from jaxacct.special import ULP, expm1, log1p, vector_cos_and_sin

ROWS, COLUMNS = 64, 32  # of the nodes of a line
_NODES = ROWS * COLUMNS
_MOST = 690.0  # largest exponent of a summand: beyond it there is no bound
_LOST = 0.5  # relative error of a moment beyond which only its size is used
# The following affect tightness only.
_LOG_MOST_PART = 10.0  # log of the largest part of a moment that one point may be: it limits the orders
_NUM_ORDERS = 32  # among which the line is chosen
_LOG_ALIAS, _LOG_TAIL = 8.0, 8.0  # copies, and the part that may lie beyond the last node, are e^-8 of delta
_RARE = 0.03  # log M below which losses are rare
_NEWTON = 12  # steps of Newton's method
_SLACKS = (1.05, 1.5, 4.0, 30.0)  # distances from the root at which an end is tried, over its shift by errors
_PASSES = 2  # lines tried, the later ones with a better guess of the answer


class RepeatedLaws(NamedTuple):
    """R independent laws, and the number of releases of each."""

    law: Law  # of [R, G] and [R]
    count: Any  # [R]


class LawLine(NamedTuple):
    """A vertical line: its order a less 1, the distance of its nodes, the variance tau^2 of the extra release."""

    excess: Any
    step: Any
    square: Any


class Sum(NamedTuple):
    """The trapezoid sum's terms over M(a), and bounds on its error."""

    line: LawLine
    terms: Any  # [2, N], real and imaginary parts
    errors: Any  # [2], bound on the error of the sum, the nodes left out included, and its part per unit of epsilon
    log_scale: Any  # log M(a)
    log_size: Any  # upper bound on log M(a), which alone bounds delta
    is_single: Any  # whether there is one release only


def _exponents(law: Law, order: Any, add: Any) -> tuple[Any, Any, Any, Any]:
    """w; w log y [G]; the summands of the moment at a real `order`, and the same with inf where one is too large."""
    w = jnp.where(add, 1.0 - order, order)
    exponents = w * law.log_ratio
    size = law.mass * jnp.exp(jnp.minimum(exponents, _MOST))
    return w, exponents, size, jnp.where((exponents < _MOST) | (law.mass == 0.0), size, jnp.inf)


def log_moment(law: Law, order: Any, add: Any) -> Any:
    """Upper bound on log M of one law at a real order >= 1; inf where it is too large."""
    w, exponents, _, size = _exponents(law, order, add)
    errs = jnp.abs(w) * law.blur + ULP * (size.shape[-1] + 16.0 + 4.0 * jnp.abs(exponents))
    total = jnp.sum(size * (1.0 + 1.01 * errs * jnp.exp(errs)), axis=-1)  # |e^x - 1| <= |x| e^|x|
    return jnp.log(total) + 2.0**-50 * jnp.abs(jnp.log(total))


def moments(law: Law, order: Any, step: Any, add: Any) -> Any:
    """[3, N]: log |M|, its argument, and the log of 1 + the relative error of M, of one law on a line."""
    w, exponents, size, checked = _exponents(law, order, add)
    turn = jnp.where(add, -step, step) * law.log_ratio
    outer, inner = (
        jnp.stack(vector_cos_and_sin(x * turn)).reshape(-1, turn.shape[0])
        for x in (COLUMNS * np.arange(ROWS)[:, None], np.arange(COLUMNS)[:, None])
    )
    cosine, sine = ((size * outer) @ inner.T).reshape(2, ROWS, 2, COLUMNS).swapaxes(1, 2)
    re, im = (cosine[0] - sine[1]).reshape(-1), (sine[0] + cosine[1]).reshape(-1)
    top = step * np.arange(_NODES, dtype=np.float64)
    blur = law.blur + 4.0 * ULP * jnp.abs(law.log_ratio)
    moved = blur * jnp.exp((jnp.abs(w) + top[-1]) * blur)  # |e^x - 1| <= |x| e^|x|
    fixed = ULP * (2.0 * size.shape[-1] + 64.0 + 4.0 * jnp.abs(exponents))
    sums = jnp.sum(jnp.stack([checked * fixed, size * moved]), axis=1)
    error = 1.01 * (sums[0] + (jnp.abs(w) + top) * sums[1])
    modulus = jnp.hypot(re, im)
    # where the error is large, any M of the largest modulus will do: they differ by less than twice that
    lost = ~(error < _LOST * modulus)
    modulus = jnp.maximum(jnp.where(lost, modulus + error, modulus), 1e-300)
    log_error = jnp.where(lost, 1.1, -log1p(-jnp.where(lost, 0.0, error / modulus)))
    phase = jnp.where(lost, 0.0, jnp.arctan2(im, re))
    return jnp.stack([jnp.log(modulus), phase, jnp.where(sums[0] < jnp.inf, log_error, jnp.inf)])


def summands(run: RepeatedLaws, line: LawLine, add: Any) -> Sum:
    """The composition's trapezoid sum on a line (class `Sum`)."""

    def one(row: tuple[Law, Any]) -> Any:
        return jnp.where(row[1] > 0, row[1] * moments(row[0], 1.0 + line.excess, line.step, add), 0.0)

    logs = jnp.sum(jax.lax.map(one, (run.law, run.count)), axis=0)
    return of_moments(logs, line)._replace(is_single=jnp.sum(run.count) == 1.0)


def of_moments(logs: Any, line: LawLine) -> Sum:
    """The sum (class `Sum`) of a product M of moments: [3, N] log |M|, its argument, and the log of 1 + its error."""
    order, b = 1.0 + line.excess, line.step * np.arange(_NODES, dtype=np.float64)
    half = 0.5 * line.square
    log_m = logs[0] + half * (order * line.excess - b * b)
    phase = logs[1] + half * b * (order + line.excess)
    error = logs[2] + 2.0**-50 * (1.0 + 2.0 * half * (order * order + b * b))
    scale, scale_error = log_m[0], error[0]
    # 1 / (s (s - 1)) = (a - ib)(a - 1 - ib) / (|s|^2 |s - 1|^2)
    squares = (order * order + b * b) * (line.excess**2 + b * b)
    weight = jnp.where(b == 0, 0.5, 1.0) * (line.step / jnp.pi) / squares
    re, im = weight * (order * line.excess - b * b), -weight * b * (order + line.excess)
    size, weight = jnp.exp(log_m - scale), jnp.sqrt(squares) * weight
    cos, sin, modulus = *vector_cos_and_sin(phase), size * weight
    # some 40 ULP of a term, and the error of additions in any order
    rounding = 2.0**-50 * (24.0 + jnp.abs(phase) + jnp.abs(log_m)) + 2.0 * ULP * _NODES
    # a moment errs by at most e^error times its value; where that is large, the value may be no double
    much = jnp.exp(log_m - scale + error) * weight
    wide = jnp.where(error <= 1.0, modulus * expm1(jnp.minimum(error, 1.0)), much)
    errors = jnp.sum(jnp.stack([wide + modulus * rounding, 2.0**-50 * modulus * b]), axis=1)
    top = line.step * _NODES
    # beyond the last node |M| is at most M(a) e^(-tau^2 b^2 / 2), |1 / (s (s - 1))| at most 1 / b^2, and the sum of
    # 1 / k^2 from N on is below 1 / (N - 1/2)
    beyond = jnp.exp(scale_error - half * top * top * (1.0 - 2.0**-50)) / (jnp.pi * (top - 0.5 * line.step))
    beyond = jnp.where(jnp.isfinite(scale_error), beyond, jnp.inf)
    terms = jnp.stack([size * (re * cos - im * sin), size * (re * sin + im * cos)])
    return Sum(line, terms, errors + jnp.stack([beyond, jnp.zeros_like(beyond)]), scale, scale + scale_error, False)


def turns(line: LawLine, epsilon: Any) -> tuple[Any, Any]:
    """cos and sin [N] of -b epsilon at the nodes' heights b."""
    index = np.concatenate([COLUMNS * np.arange(ROWS), np.arange(COLUMNS)]).astype(np.float64)
    (cos, fine_cos), (sin, fine_sin) = ((x[:ROWS], x[ROWS:]) for x in vector_cos_and_sin(-epsilon * line.step * index))
    cos, sin = cos[:, None], sin[:, None]
    return (cos * fine_cos - sin * fine_sin).reshape(-1), (sin * fine_cos + cos * fine_sin).reshape(-1)


def trapezoid(of: Sum, epsilon: Any) -> Any:
    """[2]: the sum and its derivative in epsilon, both over e^(log_scale - epsilon excess)."""
    cos, sin = turns(of.line, epsilon)
    b = of.line.step * np.arange(_NODES, dtype=np.float64)
    re, im = of.terms
    value = re * cos - im * sin
    return jnp.sum(jnp.stack([value, b * (re * sin + im * cos) - of.line.excess * value]), axis=1)


def points_of_single(run: RepeatedLaws, add: Any) -> Any:
    """[4, RG], for a run of a single release: losses, both masses of each, and its error (see `single_delta`)."""
    logs, mass = run.law.log_ratio, run.count[:, None] * run.law.mass
    ratio = mass * jnp.exp(logs)
    whole, part = jnp.where(add, mass, ratio), jnp.where(add, ratio, mass)
    blur = 1.01 * run.law.blur + 8.0 * ULP * jnp.abs(logs)
    error = whole * (blur + ULP * (2.0 * logs.shape[1] + 64.0))
    # a loss that may be above epsilon counts
    return jnp.stack([jnp.where(add, -logs, logs) + blur, whole, part, error]).reshape(4, -1)


def single_delta(points: Any, epsilon: Any) -> Any:
    """[3]: delta of a single release, its derivative, and a bound on its error.

    delta is the sum of (m y - m e^eps)_+ (remove) or of (m - m y e^eps)_+ (add), where losses above epsilon count.
    """
    loss, *rows = points
    whole, part, error = jnp.sum(jnp.where(loss > epsilon, jnp.stack(rows), 0.0), axis=1)
    part = jnp.exp(epsilon) * part
    return jnp.stack([whole - part, -part, error + 8.0 * ULP * epsilon * whole])


def _above(of: Sum, points: Any, epsilon: Any) -> tuple[Any, Any, Any, Any]:
    """Upper bound on log delta at `epsilon` without infinite losses; log delta by the sum alone, whether this is known,
    and its derivative.

    For a single release the sum is that over its points.
    """
    is_single = of.is_single
    single = single_delta(points, epsilon)
    value, slope = jnp.where(is_single, single[:2], trapezoid(of, epsilon))
    shift = jnp.where(is_single, 0.0, of.log_scale - epsilon * of.line.excess)
    error = jnp.where(is_single, single[2], of.errors[0] + epsilon * of.errors[1])
    slack = 2.0**-48 * (1.0 + jnp.abs(of.log_scale) + epsilon * of.line.excess)
    logs = jnp.log(jnp.maximum(jnp.stack([jnp.maximum(value, 0.0) + error, value]), 1e-300)) + shift
    usable = (value > 0) & (slope < 0)
    found = jnp.where(jnp.isnan(logs[0]), jnp.inf, logs[0] + slack)
    return found, logs[1], usable, jnp.where(usable, slope, -1.0) / jnp.where(usable, value, 1.0)


def _by_one_moment(of: Sum, log_delta: Any) -> Any:
    """Upper bound on epsilon by M(a) alone: delta <= M(a) e^{-(a-1) eps} (a-1)^(a-1) / a^a."""
    x = of.line.excess
    log_constant = x * jnp.log(x) - (1.0 + x) * log1p(x)
    slack = 2.0**-48 * (1.0 + jnp.abs(of.log_size) + jnp.abs(log_delta) + (1.0 + x) * (jnp.abs(jnp.log(x)) + log1p(x)))
    return jnp.maximum((of.log_size + log_constant - log_delta + slack) / x * (1.0 + 2.0**-50), 0.0)


def dropped(run: RepeatedLaws, add: Any) -> Any:
    """A number: upper bound on the composition's mass of infinite loss, each release's times the mass of all others."""
    logs = run.count * log_moment(run.law, 1.0, add)
    lost = run.count * jnp.where(add, run.law.at_zero, run.law.beyond)
    growth, lost = jnp.sum(jnp.stack([jnp.where(run.count > 0.0, jnp.maximum(logs, 0.0), 0.0) + lost, lost]), axis=1)
    return jnp.where(growth < 0.5, lost * jnp.exp(growth) * (1.0 + 2.0**-40), 1.0)


def _survey(run: RepeatedLaws, add: Any) -> Any:
    """[3, A]: orders a - 1, approximate log M there, and the log of the sum of the releases' moments, less 1 each.

    Not certified.
    """
    # two points at a time, at their mean
    pairs = run.law.points.reshape(*run.law.points.shape[:2], -1, 2)
    log_ratio, mass = pairs[:, 0], pairs[:, 1]
    variance = jnp.sum(run.count * jnp.sum(mass * jnp.minimum(log_ratio**2, 4.0), axis=(1, 2)))
    total = jnp.sum(mass, axis=2)
    log_ratio = jnp.sum(log_ratio * mass, axis=2) / jnp.maximum(total, 1e-300)
    # also where the variance is 0
    first, last = jnp.log(jnp.stack([3e-2, 1.2e2]) / jnp.sqrt(jnp.maximum(variance, 1e-20)))
    # where a rare large loss dominates, orders are small; an order at which a point's part of M is enormous is useless
    loss = jnp.where(add, -log_ratio, log_ratio)
    counts = (loss > 0.0) & (total > 0.0) & (run.count[:, None] > 0.0)
    most = jnp.min(jnp.where(counts, (_LOG_MOST_PART - jnp.log(total)) / jnp.where(counts, loss, 1.0), jnp.inf))
    last = jnp.minimum(last, jnp.log(most))
    first = jnp.minimum(first, jnp.minimum(last - 1.0, 0.0))
    x = jnp.exp(first + (last - first) * np.linspace(0.0, 1.0, _NUM_ORDERS))

    def one(row: Any) -> Any:
        logs, weight, count = row
        e = jnp.where(add, -x, 1.0 + x)[:, None] * logs
        excess = jnp.maximum(expm1(jnp.minimum(e, 650.0)) @ weight, 0.0)
        return jnp.where(count > 0, count * jnp.stack([log1p(excess), excess]), 0.0)

    logs, alone = jnp.sum(jax.lax.map(one, (log_ratio, total, run.count)), axis=0)
    return jnp.stack([x, jnp.where(logs < 600.0, logs, 1e30), jnp.log(alone + 1e-300)])


def _choose(survey: Any, log_delta: Any, epsilon: Any, slope: Any, rounding: Any) -> LawLine:
    """The line on which the extra release and rounding raise delta least; any choice is valid.

    Args:
      slope: approximate decrease of log delta per unit of epsilon.
    """
    x, logs, alone = survey
    sizes = logs - x * epsilon
    left = (_LOG_ALIAS - log_delta) / x
    far = x[None, :] > 1.02 * x[:, None]
    # where losses are rare, a large one stems from a single release
    beyond = jnp.where((logs < _RARE)[:, None], alone, logs) - x * epsilon - jnp.log(x) - log_delta + _LOG_ALIAS
    right = jnp.where(far, beyond / jnp.where(far, x[None, :] - x[:, None], 1.0), jnp.inf)
    period = jnp.maximum(left, jnp.min(right, axis=1))
    step = 2.0 * jnp.pi / period
    top = _NODES * step
    square = 2.0 * jnp.maximum(sizes - jnp.log(top) - log_delta + _LOG_TAIL, 0.0) / (top * top)
    summed = rounding * jnp.exp(jnp.minimum(sizes - log_delta, 600.0)) / (1.0 + x)
    cost = 0.5 * square * slope * (1.0 + slope) + summed
    cost = jnp.where(jnp.isfinite(period) & jnp.isfinite(cost), cost, jnp.inf)
    return LawLine(*value_at_minimum(cost, jnp.stack([x, step, square])))


def _rounding(run: RepeatedLaws) -> Any:
    """Approximate relative error of a moment."""
    return 1e-13 + ULP * 2.0 * run.law.mass.shape[1] * jnp.sum(run.count)


def _epsilon_on(of: Sum, points: Any, log_delta: Any, near: Any) -> tuple[Any, Any, Any]:
    """Upper bound on epsilon by the sum of one line, inf where there is none; approximate epsilon; and the approximate
    decrease of log delta there per unit of epsilon.

    Newton's method finds a root of the sum without its errors, which certifies nothing. Then the bound is evaluated
    above the root, at multiples of the root's shift by the errors, and at 0. One loop does both, so that the program
    contains the sum once.
    """
    slacks = jnp.asarray((*_SLACKS, 0.0, 0.0), jnp.float64)

    def step(i: Any, state: Any) -> Any:
        low, high, epsilon, root, move, slope, best = state
        found, log_value, usable, rate = _above(of, points, epsilon)
        best = jnp.where(found <= log_delta, jnp.minimum(best, epsilon), best)
        residual = log_value - log_delta
        too_far = ~usable | (residual < 0)
        low, high = jnp.where(too_far, low, epsilon), jnp.where(too_far, epsilon, high)
        moved = epsilon - residual / rate
        moved = jnp.where(usable & (moved > low) & (moved < high), moved, 0.5 * (low + high))
        is_newton = i < _NEWTON
        slope = jnp.where(is_newton, -rate, slope)
        move = jnp.where(is_newton, (found - log_value) / slope, move)
        root = jnp.where(is_newton, moved, root)
        at = jnp.clip(i - _NEWTON + 1, 0, len(_SLACKS))
        tried = root * (1.0 + 1e-12) + slacks[at] * move + 1e-14
        tried = jnp.where(at == len(_SLACKS), 0.0, tried)
        return jnp.stack([low, high, jnp.where(i < _NEWTON - 1, moved, tried), root, move, slope, best])

    high = jnp.maximum((of.log_size - log_delta) / of.line.excess, 1e-9)  # there M(a) alone is enough
    start = jnp.minimum(near, high)
    state = jnp.stack([0.0 * high, 2.0 * high, start, start, 0.0 * high, 1.0 + 0.0 * high, jnp.inf + 0.0 * high])
    *_, root, _, slope, found = jax.lax.fori_loop(0, _NEWTON + len(_SLACKS) + 1, step, state)
    found = jnp.minimum(found, _by_one_moment(of, log_delta))
    return found, jnp.where(jnp.isfinite(root), jnp.minimum(root, found), near), slope


def _first_guess(survey: Any, log_delta: Any) -> Any:
    """Approximate epsilon, from real moments: as if the loss were normal, or Chernoff's bound where that is less."""
    x, logs, _ = survey
    sizes = logs - log_delta
    chernoff = x * (jnp.log(x) - log1p(x)) - log1p(x)
    normal = -0.5 * jnp.log(4.0 * jnp.pi * jnp.maximum(logs, 1e-300) * x * (1.0 + x))
    # for rare losses the excess of M over 1 matters
    rare = jnp.log(-expm1(-jnp.maximum(logs, 1e-300)))
    return jnp.maximum(jnp.min((sizes + jnp.minimum(chernoff + rare, normal)) / x), 0.0)


def _left(run: RepeatedLaws, add: Any, log_delta: Any) -> tuple[Any, Any]:
    """log of the part of delta left by infinite losses, rounded down, and whether it is half of delta or more."""
    left = 1.0 - jnp.exp(jnp.log(dropped(run, add) + 1e-300) - log_delta)
    rest = log_delta + jnp.log(jnp.maximum(left, 0.5)) - 2.0**-46 * (1.0 + jnp.abs(log_delta))
    return rest, left >= 0.5


class LineAnswer(NamedTuple):
    """An upper bound, and the line that gave it."""

    value: Any
    line: LawLine


def _better(state: Any, found: Any, near: Any, slope: Any, line: LawLine) -> Any:
    """The state of a search: approximate answer and slope there, the best bound so far, and its line."""
    now = jnp.stack([near, slope, found, *line])
    return jnp.where((found < state[2]) | (np.arange(len(now)) < 2), now, state)


def _start(survey: Any, near: Any, epsilon: Any, bound: Any) -> Any:
    """The initial state of a search: nothing but `bound` is known."""
    x, logs, _ = survey
    (slope,) = value_at_minimum(logs - x * epsilon - jnp.log(1.0 + x), x[None])
    return jnp.stack([near, slope, bound, x[0], 1.0 + 0.0 * near, 0.0 * near])


def epsilon(run: RepeatedLaws, add: Any, log_delta: Any) -> LineAnswer:
    """Upper bound (class `LineAnswer`) on epsilon at `log_delta`, in one direction; inf where none is found."""
    log_delta, is_enough = _left(run, add, log_delta)
    survey, points = _survey(run, add), points_of_single(run, add)

    def again(_: int, state: Any) -> Any:
        line = _choose(survey, log_delta, state[0], state[1], _rounding(run))
        return _better(state, *_epsilon_on(summands(run, line, add), points, log_delta, state[0]), line)

    near = _first_guess(survey, log_delta)
    start = _start(survey, near, near, jnp.inf + 0.0 * near)
    _, _, best, *line = jax.lax.fori_loop(0, _PASSES, again, start)
    return LineAnswer(jnp.where(is_enough & ~jnp.isnan(best), best, jnp.inf), LawLine(*line))


def log_delta(run: RepeatedLaws, add: Any, epsilon: Any) -> LineAnswer:
    """Upper bound (class `LineAnswer`) on log delta at `epsilon`, in one direction; 0 where none is found."""
    survey, points = _survey(run, add), points_of_single(run, add)

    def again(_: int, state: Any) -> Any:
        line = _choose(survey, state[0], epsilon, state[1], _rounding(run))
        of = summands(run, line, add)
        e = line.excess
        alone = of.log_size - e * epsilon + e * jnp.log(e) - (1.0 + e) * log1p(e)
        sizes = 1.0 + jnp.abs(of.log_size) + e * epsilon + (1.0 + e) * (jnp.abs(jnp.log(e)) + log1p(e))
        found, _, usable, rate = _above(of, points, epsilon)
        found = jnp.minimum(found, alone + 2.0**-48 * sizes)
        near, slope = jnp.maximum(jnp.minimum(found, state[2]), -700.0), jnp.where(usable, -rate, state[1])
        return _better(state, found, near, slope, line)

    x, logs, _ = survey
    bounds = logs - x * epsilon + x * jnp.log(x) - (1.0 + x) * log1p(x)
    near = jnp.minimum(jnp.min(bounds) - 2.0, -1e-9)
    start = _start(survey, near, epsilon, 0.0 * near)
    _, _, best, *line = jax.lax.fori_loop(0, _PASSES, again, start)
    total = jnp.logaddexp(best, jnp.log(dropped(run, add) + 1e-300))
    total = total + 2.0**-46 * (1.0 + jnp.abs(total))
    return LineAnswer(jnp.where(jnp.isnan(total), 0.0, jnp.minimum(total, 0.0)), LawLine(*line))
