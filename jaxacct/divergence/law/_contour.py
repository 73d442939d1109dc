"""Compositions of laws by one contour of fixed size: upper ends of delta and epsilon, in either direction.

With M(s) the product of the laws' moments sum m y^s to the powers how often they run (sum m y^(1-s) in the add
direction), as in `jaxacct.divergence._inversion`,

    delta(eps) = (1/2 pi i) int_{Re s = a} M(s) e^{eps (1 - s)} / (s (s - 1)) ds,    a > 1.

The trapezoid rule gives delta and positive copies of it: an upper bound as it stands. Moments of finitely many points
do not fall with the height: one more Gaussian release, of mu = tau, is composed in: no profile falls by it, and what
lies beyond the last node is a closed form. Every choice (a, the step, tau) steers tightness only. docs/numerics.md,
"Laws", derives what is booked.

Shapes: [R, G] points of R laws; [N] nodes of the line, or [n1, n2] with N = n1 n2; one lane at a time.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.law._law import Law, where_least
from jaxacct.special import ULP, expm1, log1p

ROWS, COLUMNS = 32, 32  # of the nodes of a line
_NODES = ROWS * COLUMNS
_MOST = 690.0  # exponents of what is summed: beyond, nothing is known
_LOST = 0.5  # relative error of a moment beyond which only its size is used
# What follows steers tightness.
_NUM_ORDERS = 48  # among which the line is chosen
_LOG_ALIAS, _LOG_TAIL = 10.0, 10.0  # copies, and what may lie beyond the last node, are e^-10 of delta
_NEWTON = 12  # steps of Newton's method
_SLACKS = (1.05, 1.5, 4.0, 30.0)  # distances from its root at which an end is tried, over what errors move it by
_HALVINGS = 60  # of a single release's epsilon
_PASSES = 3  # lines tried, the later ones knowing better where the answer is


class Run(NamedTuple):
    """R independent laws, and how often each is released."""

    law: Law  # of [R, G] and [R]
    count: Any  # [R]


class Line(NamedTuple):
    """A vertical line: its order a less 1, the distance of its nodes, the variance tau^2 of the extra release."""

    excess: Any
    step: Any
    square: Any


class Sum(NamedTuple):
    """The trapezoid sum's terms over M(a), and bounds on what it errs by."""

    line: Line
    log_scale: Any  # log M(a)
    terms: Any  # complex [n1, n2]
    error: Any  # of the sum, the nodes left out included
    rate: Any  # the same for each unit of epsilon
    log_size: Any  # at least log M(a): alone it bounds delta


def _cis(x: Any) -> Any:
    return jax.lax.complex(jnp.cos(x), jnp.sin(x))


def _rungs(z: Any, num: int) -> Any:
    """z^j, j < num, along a new first axis."""
    return jax.lax.scan(lambda c, _: (c * z, c), jnp.ones_like(z), None, length=num)[1]


def _exponents(law: Law, order: Any, add: Any) -> tuple[Any, Any, Any]:
    """w, w log y [G] and the summands of the moment at a real `order`."""
    w = jnp.where(add, 1.0 - order, order)
    exponents = w * law.log_ratio
    return w, exponents, law.mass * jnp.exp(jnp.minimum(exponents, _MOST))


def log_moment(law: Law, order: Any, add: Any) -> Any:
    """At least log M of one law at a real order >= 1; inf where it is too large."""
    w, exponents, size = _exponents(law, order, add)
    errs = jnp.abs(w) * law.blur + ULP * (size.shape[0] + 16.0 + 4.0 * jnp.abs(exponents))
    total = jnp.sum(size * (1.0 + 1.01 * errs * jnp.exp(jnp.max(errs))))  # |e^x - 1| <= |x| e^|x|
    fits = jnp.all((exponents < _MOST) | (law.mass == 0.0))
    return jnp.where(fits, jnp.log(total) + 2.0**-50 * jnp.abs(jnp.log(total)), jnp.inf)


def _moments(law: Law, order: Any, step: Any, add: Any) -> tuple[Any, Any, Any]:
    """log |M|, its argument, and the log of 1 + the relative error of M [N], of one law on a line."""
    w, exponents, size = _exponents(law, order, add)
    angle = jnp.where(add, -step, step) * law.log_ratio
    rungs = _rungs(_cis(angle * np.array([[COLUMNS], [1.0]])), ROWS)  # both factors at once
    every = ((rungs[:, 0] * size) @ rungs[:, 1].T).reshape(-1)
    num, top = size.shape[0], step * jnp.arange(_NODES, dtype=jnp.float64)
    fixed = jnp.sum(size * (ULP * (2.0 * num + 512.0 + 4.0 * jnp.abs(exponents))))
    blur = law.blur + 4.0 * ULP * jnp.abs(law.log_ratio)
    rate = jnp.abs(w) + top
    moved = rate * jnp.sum(size * blur) * jnp.exp(rate * jnp.max(blur))  # |e^x - 1| <= |x| e^|x|
    error = 1.01 * (fixed + moved)
    modulus = jnp.hypot(every.real, every.imag)
    # where little is known, another M of the largest modulus does as well: they differ by less than twice that
    lost = ~(error < _LOST * modulus)
    modulus = jnp.maximum(jnp.where(lost, modulus + error, modulus), 1e-300)
    log_error = jnp.where(lost, 1.1, -log1p(-jnp.where(lost, 0.0, error / modulus)))
    fits = jnp.all((exponents < _MOST) | (law.mass == 0.0))
    phase = jnp.where(lost, 0.0, jnp.arctan2(every.imag, every.real))
    return jnp.log(modulus), phase, jnp.where(fits, log_error, jnp.inf)


def summands(run: Run, line: Line, add: Any) -> Sum:
    """The composition's trapezoid sum on a line (class `Sum`)."""
    order = 1.0 + line.excess

    def one(row: tuple[Law, Any]) -> Any:
        parts = _moments(row[0], order, line.step, add)
        return tuple(jnp.where(row[1] > 0, row[1] * x, 0.0) for x in parts)

    logs, phase, error = (jnp.sum(x, axis=0) for x in jax.lax.map(one, (run.law, run.count)))
    b = line.step * jnp.arange(_NODES, dtype=jnp.float64)
    half = 0.5 * line.square
    log_m = logs + half * (order * line.excess - b * b)
    phase = phase + half * b * (order + line.excess)
    error = error + 2.0**-50 * (1.0 + 2.0 * half * (order * order + b * b))
    # 1 / (s (s - 1)) = (a - ib)(a - 1 - ib) / (|s|^2 |s - 1|^2)
    squares = (order * order + b * b) * (line.excess**2 + b * b)
    pole = jax.lax.complex(order * line.excess - b * b, -b * (order + line.excess)) / squares
    pole = pole * jnp.where(b == 0, 0.5, 1.0) * (line.step / jnp.pi)
    size, weight = jnp.exp(log_m - log_m[0]), jnp.hypot(pole.real, pole.imag)
    terms, modulus = size * pole * _cis(phase), size * weight
    # some 40 ULP of a term, and what additions err by in any order
    rounding = 2.0**-50 * (24.0 + jnp.abs(phase) + jnp.abs(log_m)) + 2.0 * ULP * _NODES
    top = line.step * _NODES
    # beyond the last node |M| is at most M(a) e^(-tau^2 b^2 / 2), |1 / (s (s - 1))| at most 1 / b^2, and the sum of
    # 1 / k^2 from N on is below 1 / (N - 1/2)
    beyond = jnp.exp(error[0] - half * top * top * (1.0 - 2.0**-50)) / (jnp.pi * (top - 0.5 * line.step))
    # a moment errs by at most e^error times what it is; where that is much, what it is may be no double
    much = jnp.exp(log_m - log_m[0] + error) * weight
    wide = jnp.where(error <= 1.0, modulus * expm1(jnp.minimum(error, 1.0)), much)
    total = jnp.sum(wide + modulus * rounding) + beyond
    return Sum(
        line,
        log_m[0],
        terms.reshape(ROWS, COLUMNS),
        jnp.where(jnp.isfinite(error[0]), total, jnp.inf),
        2.0**-50 * jnp.sum(modulus * b),
        log_m[0] + error[0],
    )


def trapezoid(of: Sum, epsilon: Any) -> tuple[Any, Any, Any]:
    """A tuple of the sum and its derivative in epsilon, both over e^shift, and the shift."""
    step, excess = of.line.step, of.line.excess
    outer = _cis(-epsilon * step * COLUMNS * jnp.arange(ROWS, dtype=jnp.float64))
    inner = _cis(-epsilon * step * jnp.arange(COLUMNS, dtype=jnp.float64))
    term = of.terms * (outer[:, None] * inner)
    b = step * jnp.arange(_NODES, dtype=jnp.float64).reshape(ROWS, COLUMNS)
    value = jnp.sum(term.real)
    return value, jnp.sum(b * term.imag) - excess * value, of.log_scale - epsilon * excess


def _above(of: Sum, epsilon: Any) -> tuple[Any, Any, Any, Any]:
    """At least log delta at `epsilon`, the infinite losses left out; the sum, its slope, and log delta by it alone."""
    value, slope, shift = trapezoid(of, epsilon)
    above = jnp.maximum(value, 0.0) + of.error + epsilon * of.rate
    slack = 2.0**-48 * (1.0 + jnp.abs(of.log_scale) + epsilon * of.line.excess)
    found = jnp.log(above) + shift + slack
    return jnp.where(jnp.isnan(found), jnp.inf, found), value, slope, jnp.log(jnp.maximum(value, 1e-300)) + shift


def _by_one_moment(of: Sum, log_delta: Any) -> Any:
    """At least epsilon, by M(a) alone: delta <= M(a) e^{-(a-1) eps} (a-1)^(a-1) / a^a."""
    x = of.line.excess
    log_constant = x * jnp.log(x) - (1.0 + x) * log1p(x)
    slack = 2.0**-48 * (1.0 + jnp.abs(of.log_size) + jnp.abs(log_delta) + (1.0 + x) * (jnp.abs(jnp.log(x)) + log1p(x)))
    return jnp.maximum((of.log_size + log_constant - log_delta + slack) / x * (1.0 + 2.0**-50), 0.0)


def dropped(run: Run, add: Any) -> Any:
    """A number, at least the mass of infinite loss of the composition: each release's, times what all others have."""
    logs = jax.lax.map(lambda row: row[1] * log_moment(row[0], 1.0, add), (run.law, run.count))
    lost = jnp.sum(run.count * jnp.where(add, run.law.at_zero, run.law.beyond))
    growth = jnp.sum(jnp.maximum(logs, 0.0)) + lost
    return jnp.where(growth < 0.5, lost * jnp.exp(growth) * (1.0 + 2.0**-40), 1.0)


def _survey(run: Run, add: Any) -> tuple[Any, Any]:
    """Orders a - 1 and about log M there [A]: steering only."""
    # two points at a time, at their mean
    pairs = tuple(x.reshape(x.shape[0], -1, 2) for x in (run.law.log_ratio, run.law.mass))
    mass = jnp.sum(pairs[1], axis=2)
    log_ratio = jnp.sum(pairs[0] * pairs[1], axis=2) / jnp.maximum(mass, 1e-300)
    variance = jnp.sum(run.count * jnp.sum(run.law.mass * jnp.minimum(run.law.log_ratio**2, 4.0), axis=1))
    x = jnp.exp(np.linspace(math.log(3e-2), math.log(1.2e2), _NUM_ORDERS)) / jnp.sqrt(variance)

    def one(row: Any) -> Any:
        logs, weight, count = row
        e = jnp.where(add, -x, 1.0 + x)[:, None] * logs
        near = log1p(jnp.maximum(expm1(jnp.minimum(e, 650.0)) @ weight, 0.0))
        return jnp.where(count > 0, count * near, 0.0)

    logs = jnp.sum(jax.lax.map(one, (log_ratio, mass, run.count)), axis=0)
    return jax.lax.stop_gradient((x, jnp.where(logs < 600.0, logs, 1e30)))


def _choose(x: Any, logs: Any, log_delta: Any, epsilon: Any, rounding: Any) -> Line:
    """The line by which delta is least above what it is: by the extra release and by rounding. Steering only."""
    sizes = logs - x * epsilon
    left = (_LOG_ALIAS - log_delta) / x
    far = x[None, :] > 1.02 * x[:, None]
    right = (sizes - jnp.log(x) - log_delta + _LOG_ALIAS)[None, :] / jnp.where(far, x[None, :] - x[:, None], 1.0)
    period = jnp.maximum(left, jnp.min(jnp.where(far, right, jnp.inf), axis=1))
    step = 2.0 * jnp.pi / period
    top = _NODES * step
    square = 2.0 * jnp.maximum(sizes - jnp.log(top) - log_delta + _LOG_TAIL, 0.0) / (top * top)
    # by which about log delta falls with epsilon
    (slope,) = where_least(sizes - jnp.log(1.0 + x), x)
    cost = 0.5 * square * slope * (1.0 + slope) + rounding * jnp.exp(jnp.minimum(sizes - log_delta, 600.0))
    cost = jnp.where(jnp.isfinite(period) & jnp.isfinite(cost), cost, jnp.inf)
    return jax.lax.stop_gradient(Line(*where_least(cost, x, step, square)))


def _rounding(run: Run) -> Any:
    """About the relative error of a moment."""
    return 1e-13 + ULP * 2.0 * run.law.mass.shape[1] * jnp.sum(run.count)


def _single_delta(run: Run, add: Any, epsilon: Any) -> tuple[Any, Any]:
    """delta of the one release that there is, and what rounding may add to it."""
    logs = run.law.log_ratio
    remove = run.law.mass * jnp.exp(epsilon) * expm1(jnp.maximum(logs - epsilon, 0.0))
    added = -run.law.mass * expm1(jnp.minimum(logs + epsilon, 0.0))
    value = jnp.sum(run.count[:, None] * jnp.where(add, added, remove))
    near = jnp.where(add, jnp.where(logs < -epsilon, 1.0, 0.0), jnp.where(logs > epsilon, jnp.exp(logs), 0.0))
    blur = run.law.blur + 4.0 * ULP * (jnp.abs(logs) + epsilon)
    moved = jnp.sum(run.count[:, None] * run.law.mass * near * blur)
    return value, 1.01 * moved + ULP * (logs.shape[1] + 64.0) * value


def single_log_delta(run: Run, add: Any, epsilon: Any) -> tuple[Any, Any]:
    """A tuple of log delta of the one release that there is, no error added, and its derivative there."""
    value, slope = jax.jvp(lambda e: _single_delta(run, add, e)[0], (epsilon,), (jnp.ones_like(epsilon),))
    usable = value > 0
    safe = jnp.where(usable, value, 1.0)
    return jnp.where(usable, jnp.log(safe), -jnp.inf), jnp.where(usable, slope / safe, 0.0)


def _single_epsilon(run: Run, add: Any, target: Any) -> Any:
    """At least epsilon of the one release that there is; inf where there are more."""

    def holds(epsilon: Any) -> Any:
        value, error = _single_delta(run, add, epsilon)
        return value + error <= target

    def halve(_: int, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        # geometric far from 0, so that small answers keep their digits
        middle = jnp.where(high > 2.0 * low + 1e-9, jnp.sqrt(jnp.maximum(low, 1e-12) * high), 0.5 * (low + high))
        fits = holds(middle)
        return jnp.where(fits, low, middle), jnp.where(fits, middle, high)

    most = jnp.max(jnp.abs(run.law.log_ratio)) * 1.001 + 1e-9
    found = jax.lax.fori_loop(0, _HALVINGS, halve, (0.0 * most, most))[1]
    found = jnp.where(holds(0.0 * most), 0.0, found)
    return jnp.where((jnp.sum(run.count) == 1.0) & (target > 0.0), found, jnp.inf)


def _epsilon_on(of: Sum, log_delta: Any, near: Any) -> tuple[Any, Any]:
    """At least epsilon by the sum of one line, inf where it says nothing; and about epsilon.

    Newton's method finds a root of the sum without its errors, which certifies nothing; then the bound is asked at
    points above it by what the errors move the root. One loop does both, so that the sum is in the program once.
    """
    slacks = jnp.asarray((*_SLACKS, 0.0), jnp.float64)

    def step(i: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        low, high, epsilon, root, move, best = state
        found, value, slope, log_value = _above(of, epsilon)
        best = jnp.where(found <= log_delta, jnp.minimum(best, epsilon), best)
        usable = (value > 0) & (slope < 0)
        residual = log_value - log_delta
        too_far = ~usable | (residual < 0)
        low, high = jnp.where(too_far, low, epsilon), jnp.where(too_far, epsilon, high)
        rate = jnp.where(usable, slope, -1.0) / jnp.where(usable, value, 1.0)
        moved = epsilon - residual / rate
        moved = jnp.where(usable & (moved > low) & (moved < high), moved, 0.5 * (low + high))
        is_newton = i < _NEWTON
        move = jnp.where(is_newton, (found - log_value) / -rate, move)
        root = jnp.where(is_newton, moved, root)
        tried = root * (1.0 + 1e-12) + slacks[jnp.clip(i - _NEWTON + 1, 0, len(_SLACKS))] * move + 1e-14
        return low, high, jnp.where(i < _NEWTON - 1, moved, tried), root, move, best

    high = jnp.maximum((of.log_size - log_delta) / of.line.excess, 1e-9)  # there M(a) alone is enough
    start = jnp.minimum(near, high)
    state = (0.0 * high, 2.0 * high, start, start, 0.0 * high, jnp.inf + 0.0 * high)
    *_, root, _, found = jax.lax.fori_loop(0, _NEWTON + len(_SLACKS), step, state)
    found = jnp.minimum(found, _by_one_moment(of, log_delta))
    return found, jnp.where(jnp.isfinite(root), jnp.minimum(root, found), near)


def _first_guess(x: Any, logs: Any, log_delta: Any) -> Any:
    """Below epsilon, from real moments: a line for too small an epsilon serves larger ones too."""
    bounds = (logs - log_delta - log1p(x)) / x + jnp.log(x) - log1p(x)
    return jnp.maximum(0.35 * jnp.min(bounds), 0.0)


def _left(run: Run, add: Any, log_delta: Any) -> tuple[Any, Any]:
    """log of what infinite losses leave of delta, rounded down, and whether that is half of it or more."""
    left = 1.0 - jnp.exp(jnp.log(dropped(run, add) + 1e-300) - log_delta)
    rest = log_delta + jnp.log(jnp.maximum(left, 0.5)) - 2.0**-46 * (1.0 + jnp.abs(log_delta))
    return rest, left >= 0.5


class Answer(NamedTuple):
    """An upper end, and the line that gave it."""

    value: Any
    line: Line


def epsilon(run: Run, add: Any, log_delta: Any) -> Answer:
    """An upper end (class `Answer`) of epsilon at `log_delta`, in one direction; inf where nothing is known."""
    log_delta, is_enough = _left(run, add, log_delta)
    x, logs = _survey(run, add)

    def again(_: int, state: tuple[Any, ...]) -> tuple[Any, ...]:
        near, best, best_line = state
        line = _choose(x, logs, log_delta, near, _rounding(run))
        found, near = _epsilon_on(summands(run, line, add), log_delta, near)
        better = found < best
        best_line = Line(*(jnp.where(better, a, b) for a, b in zip(line, best_line, strict=True)))
        best = jnp.where(better, found, best)
        return near, best, best_line

    near = _first_guess(x, logs, log_delta)
    start = Line(x[0], 1.0 + 0.0 * near, 0.0 * near)
    _, best, line = jax.lax.fori_loop(0, _PASSES, again, (near, jnp.inf + 0.0 * near, start))
    best = jnp.minimum(best, _single_epsilon(run, add, jnp.exp(log_delta) * (1.0 - 2.0**-50)))
    return Answer(jnp.where(is_enough & ~jnp.isnan(best), best, jnp.inf), line)


def _about_log_delta(run: Run, add: Any, epsilon: Any) -> Any:
    """About log delta at `epsilon`, from real moments: steering only."""
    x, logs = _survey(run, add)
    bounds = logs - x * epsilon + x * jnp.log(x) - (1.0 + x) * log1p(x)
    return jnp.minimum(jnp.min(bounds) - 2.0, -1e-9)


def log_delta(run: Run, add: Any, epsilon: Any) -> Answer:
    """An upper end (class `Answer`) of log delta at `epsilon`, in one direction; 0 where nothing is known."""
    x, logs = _survey(run, add)

    def again(_: int, state: tuple[Any, ...]) -> tuple[Any, ...]:
        near, best, best_line = state
        line = _choose(x, logs, near, epsilon, _rounding(run))
        of = summands(run, line, add)
        whole = _above(of, epsilon)[0]
        e = line.excess
        alone = of.log_size - e * epsilon + e * jnp.log(e) - (1.0 + e) * log1p(e)
        sizes = 1.0 + jnp.abs(of.log_size) + e * epsilon + (1.0 + e) * (jnp.abs(jnp.log(e)) + log1p(e))
        found = jnp.minimum(whole, alone + 2.0**-48 * sizes)
        better = found < best
        best_line = Line(*(jnp.where(better, a, b) for a, b in zip(line, best_line, strict=True)))
        best = jnp.where(better, found, best)
        return jnp.maximum(best, -700.0), best, best_line

    near = _about_log_delta(run, add, epsilon)
    start = Line(x[0], 1.0 + 0.0 * near, 0.0 * near)
    _, best, line = jax.lax.fori_loop(0, _PASSES, again, (near, 0.0 * near, start))
    value, error = _single_delta(run, add, epsilon)
    single = jnp.log(jnp.maximum(value + error, 1e-300)) + 2.0**-46 * 700.0
    best = jnp.where(jnp.sum(run.count) == 1.0, jnp.minimum(best, single), best)
    total = jnp.logaddexp(best, jnp.log(dropped(run, add) + 1e-300))
    total = total + 2.0**-46 * (1.0 + jnp.abs(total))
    return Answer(jnp.where(jnp.isnan(total), 0.0, jnp.minimum(total, 0.0)), line)


def centre(run: Run, line: Line, add: Any, epsilon: Any) -> tuple[Any, Any]:
    """A tuple of log delta at `epsilon` by the sums themselves, no error added, and its derivative there.

    Not a certificate: derivatives are taken of it.
    """
    value, slope, shift = trapezoid(summands(run, line, add), epsilon)
    usable = value > 0
    return (
        jnp.where(usable, jnp.log(jnp.where(usable, value, 1.0)) + shift, -jnp.inf),
        jnp.where(usable, slope / jnp.where(usable, value, 1.0), 0.0),
    )
