"""Upper bounds on E(X + L_1 + .. + L_N)_+: a first term, and a varying number of independent steps of one law.

To be bounded is  sum over k = 0 .. K - 1 of r^k E(X + L_1 + .. + L_(n - k))_+,  where X has a given measure and r < 1;
with K = 1 that is n steps. With the moment M(s) of X, the steps' moment phi(s) and

    Psi(s) = sum r^k phi(s)^(n - k) = phi^(n - K + 1) (phi^K - r^K) / (phi - r),

all values on a lattice of N points a distance h apart, and any c > 0, the sum

    sum_k M(s_k) Psi(s_k) g(s_k) / N,    s_k = c + 2 pi i k / (N h),    g(s) = h / (4 sinh(s h / 2)^2),

is that quantity plus its aliases, E(T +- j N h)_+ e^(-+ c j N h) for j >= 1: none is negative, so the sum is an upper
bound as it stands. Its parameters (c, h, N, where values are clipped) are chosen by guesses; its validity does not
depend on them.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.batches._powers import Atoms, AtomSteps, Powers, log_psi, psi
from jaxacct.special import ULP, rows_times, rows_times_rows

# These affect cost and tightness only.
_FEW = 400  # values over which a law is spread where many are not needed
_ORDERS = np.exp(np.linspace(-6.0, 2.5, 48))  # tried for c, over the one for a normal law
_FLUCTUATIONS = 6.0  # standard deviations beyond which one large term makes the sum positive
_COMMON = 0.4  # share of that: smaller terms make up the fluctuations of all others
_FALL = 14.0  # cost of one term of the least size, in natural logarithms
_FARTHEST = 60.0  # natural logarithms by which terms of the mean's size are tilted at most, for large goals
_ALIASES = 10.0  # log of the ratio of the answer to its first aliases
_LOWER = 2.0  # natural logarithms by which a guess of the answer is lowered: a larger answer needs no more tries
_WORSE = 12.0  # natural logarithms by which the integrand may exceed its least value
_SPREAD = 2.5e-4  # relative increase of the answer that is accepted for placing the terms on a lattice
_LARGEST = 2**15  # points of a lattice whose transform is taken as a whole, where that can be avoided
_MOST_POINTS = 16  # log2 of the largest number of points of any lattice
_TRIES = 5  # of a plan
_MOST_NODES = 1500  # that are evaluated one by one
_DECAY = 45.0  # natural logarithms by which moments have fallen where nodes end
_LOST = 1e-4  # share of the answer by which clipping raises it there
_FINE = 0.01  # the lattice's step where only some nodes are evaluated, over the deviation of a step
_SAMPLES = (10, 18)  # log2 of the number of points at which a moment beyond those nodes is sampled first
_MOST = 1e150  # of a value, whose square is a double
_LEAST_VARIANCE = 1e-250  # smaller ones, and quotients by them, are near the end of the doubles
_APART, _FINER, _CLOSE = 16.0, 8.0, 0.1  # how far apart, in deviations of a term; then how much nearer; and till when


def positive_sum(first: Atoms, steps: AtomSteps, log_goal: float) -> float:
    """A float >= 0, an upper bound on the sum over k of r^k E(X + L_1 + .. + L_(n - k))_+; inf where none is found.

    Args:
      first: X.
      steps: their mean is 0 or negative, up to rounding.
      log_goal: approximate log of a value below which smaller answers are of no use: aliases need not be smaller.
    """
    count, weight = steps.most_steps, float(first.mass.sum())
    often = min(1.0 / steps.blank, steps.terms) * (1.0 + 2.0**-40)
    if not all(float(np.abs(law.value).max(initial=0.0)) < _MOST for law in (first, steps.law)):
        return math.inf
    few, rough = _on_few(first, 0.0), _on_few(steps.law, 0.0)
    drift = max(-count * float((rough.mass * rough.value).sum()), 0.0)
    size = np.abs(np.concatenate([rough.value, few.value]))
    mass = np.concatenate([rough.mass * count, few.mass / weight])
    variance = float((mass * size * size).sum())
    if not _LEAST_VARIANCE < variance < math.inf:
        return math.inf
    for _ in range(6):
        most = drift + _FLUCTUATIONS * math.sqrt(variance)
        variance = float((mass * np.minimum(size, most) ** 2).sum())
    for _ in range(4):  # without the rare terms that make the sum positive by themselves
        most = drift + _FLUCTUATIONS * math.sqrt(variance)
        common = np.where(size < _COMMON * most, size, 0.0)
        variance = max(float((mass * common * common).sum()), 1e-12 * variance)
    if not variance > _LEAST_VARIANCE:
        return math.inf
    order = (drift + math.sqrt(drift * drift + 2.0 * variance)) / (2.0 * variance)
    most = drift + _FLUCTUATIONS * math.sqrt(variance)
    order = min(order, (_FARTHEST - 2.0 * min(log_goal - math.log(most), 0.0)) / max(drift, 1e-3 * most))
    least = -min(most, _FALL / order)

    def clipped(first: Atoms, law: Atoms) -> tuple[Atoms, AtomSteps, float]:
        # (x + y)_+ <= x_+ + y_+: the excess of values over `most` is added, and smaller ones are raised
        beyond = float((first.mass * np.maximum(first.value - most, 0.0)).sum())
        beyond += weight * count * float((law.mass * np.maximum(law.value - most, 0.0)).sum())
        inside = [Atoms(np.clip(x.value, least, most), x.mass) for x in (first, law)]
        return inside[0], steps._replace(law=inside[1]), often * beyond * (1.0 + 2.0**-40)

    few, coarse, beyond = clipped(few, rough)
    found, log_size = _markov(few, coarse, order) + beyond, None
    if found < 1e-4 * math.exp(log_goal):
        return found
    first, steps, beyond = clipped(first, steps.law)
    for _ in range(_TRIES):
        plan = _planned(few, coarse, order, log_goal, log_size)
        if plan is None:
            break
        now = math.inf
        points = max(6, math.ceil(math.log2(plan.period / plan.step)))
        if 2**points > _LARGEST:
            now = _by_nodes(first, steps, plan)
        if now == math.inf:
            points = min(points, _MOST_POINTS)
            now = _by_transform(first, steps, plan, 2**points)
        found = min(found, now + beyond)
        log_size = math.log(max(found, 1e-300))
        if max(log_size, log_goal) > plan.log_goal - 0.5:  # else its aliases were meant for a larger one
            break
    return found * (1.0 + 2.0**-40)


# Laws on grids: each value is split between neighbours so that its mean is kept, or raised by some ULP


def _on_few(atoms: Atoms, step: float) -> Atoms:
    """The measure on its own or on about `_FEW` points, evenly spaced near 0 and geometric further out.

    The points are multiples of `step`, if it is not 0; where there are few values, the multiples next to each.
    """
    value, mass = atoms
    scale = math.sqrt(float((mass * value * value).sum()) / max(float(mass.sum()), 1e-300))
    if scale == 0.0:
        return Atoms(np.zeros(1), mass.sum(keepdims=True) * (1.0 + 2.0**-40))
    if 2 * len(value) <= _FEW:
        if not step:
            return atoms
        points = step * np.unique(np.floor(value / step) + np.array([[-1.0], [0.0], [1.0]]))
    else:
        place = np.arcsinh(value / scale)
        first, last = float(place.min()), float(place.max())
        points = scale * np.sinh(np.linspace(first, last, _FEW))
        points[0], points[-1] = value.min(), value.max()
        points = np.append(points, points[-1] + 2.0**-30 * scale)
        points = step * np.append(np.floor(points / step), np.floor(points[-1] / step) + 1.0) if step else points
        points = np.unique(points)
    at = np.clip(np.searchsorted(points, value, side="right") - 1, 0, len(points) - 2)
    low, high = points[at], points[at + 1]
    raised = value + 2.0**-48 * (np.abs(low) + np.abs(high))
    into = np.clip((raised - low) / (high - low), 0.0, 1.0)
    size = len(points)
    masses: Any = np.bincount(at, mass * (1.0 - into), size) + np.bincount(at + 1, mass * into, size)
    return Atoms(points, masses)


class _Lattice(NamedTuple):
    """Masses at `step` times the whole numbers `multiple`."""

    multiple: NDArray[np.int64]
    step: float
    mass: NDArray[np.float64]


def _on_lattice(atoms: Atoms, step: float) -> _Lattice:
    """The measure on all multiples of `step`."""
    place = atoms.value / step
    place = place + 4.0 * ULP * np.abs(place)
    low = np.floor(place)
    into = place - low
    first = int(low.min())
    at = low.astype(np.int64) - first
    size = int(at.max()) + 2
    mass: Any = np.bincount(at, atoms.mass * (1.0 - into), size) + np.bincount(at + 1, atoms.mass * into, size)
    return _Lattice(np.arange(first, first + size), step, mass)


# The plan


def _moments(atoms: Atoms, orders: Any) -> Any:
    """The masses under each tilt [A, N]."""
    return np.exp(np.clip(np.multiply.outer(orders, atoms.value), -700.0, 700.0)) * atoms.mass


def _markov(first: Atoms, steps: AtomSteps, order: float) -> float:
    """E(T)_+ <= E e^(c T) / (e c) for the best c of some, rounded up."""
    orders = order * _ORDERS
    largest = orders * max(float(np.abs(first.value).max()), float(np.abs(steps.law.value).max()))
    lead, shares = _moments(first, orders).sum(1), _moments(steps.law, orders).sum(1)
    error = (2.0 * _FEW + 16.0 + largest) * ULP
    with np.errstate(over="ignore", invalid="ignore"):
        excess = shares - steps.least_mass + error * (shares + steps.least_mass)
        log = np.log(lead) + error + log_psi(excess, steps) - 1.0 - np.log(orders)
        size = np.abs(log) + 40.0 + np.abs(np.log(orders)) + steps.most_steps * (np.abs(np.log1p(excess)) + 1e-6)
        log = np.where(largest < 690.0, log + 32.0 * ULP * size, np.inf)
        return float(np.exp(np.nanmin(np.where(np.isnan(log), np.inf, log))))


class _Plan(NamedTuple):
    """The order c, the distance of the aliases, a step between points that is fine enough, and for which goal."""

    order: float
    period: float
    step: float
    log_goal: float


def _planned(first: Atoms, steps: AtomSteps, order: float, log_goal: float, log_size: float | None) -> _Plan | None:
    """The order that needs the fewest points, among those near the integrand's minimum."""
    orders, law = order * _ORDERS, steps.law
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        shares, lead = _moments(law, orders), _moments(first, orders)
        jumps = steps.most_steps * shares.sum(1)
        log_moment = np.log(lead.sum(1)) + log_psi((shares - law.mass).sum(1), steps)
        bound = log_moment - 2.0 * np.log(orders)
        if not np.any(bound < np.inf):
            return None
        best, least = float(np.nanmin(bound)), int(np.nanargmin(bound))
        variance = steps.most_steps * float((shares[least] * law.value**2).sum())
        variance += float((lead[least] * first.value**2).sum() / lead[least].sum())
        step = math.sqrt(12.0 * _SPREAD / max(float(jumps[least]), 1.0)) / float(orders[least])
        if log_size is None:
            log_size = (
                best - 0.5 * math.log(2.0 * math.pi * variance) - _LOWER
            )  # as if the tilted law were normal, whose tail is short
        log_goal = max(log_size, log_goal)
        goal = log_goal - _ALIASES
        right = (log_moment - np.log(orders) - 1.0 - goal) / (orders - orders[:, None])
        right = np.where((orders > orders[:, None]) & ~np.isnan(right), right, np.inf).min(1)
        weight, left = math.log(max(float(first.mass.sum()), 1e-300)), -goal / orders
        for _ in range(3):
            left = np.maximum((np.log(np.maximum(left, 1e-300)) + weight - goal) / orders, 1.0 / orders)
        period = np.maximum(left, right)
        cost = np.where((bound < best + _WORSE) & (jumps > 0.0) & (period < np.inf), period, np.inf)
    at = int(np.argmin(cost))
    return _Plan(float(orders[at]), float(period[at]), step, log_goal) if cost[at] < np.inf else None


# The sum


def _total(first: Any, first_error: Any, powers: Powers, weight: Any, scale: float) -> float:
    """sum Re(M Psi weight) e^scale, with all errors added."""
    lead = np.abs(first) + first_error
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        value = (first * powers.value * weight).real
        error = (lead * powers.error + first_error * np.abs(powers.value)) * np.abs(weight)
        error = error + lead * powers.most * np.abs(weight) * ULP * (len(value) + 96.0)
        total = float(value.sum()) + float(error.sum()) * (1.0 + 2.0**-30)
    return total * math.exp(scale) * (1.0 + 2.0**-40) if scale < 700.0 and total < math.inf else math.inf


def _weights(order: float, step: float, size: int, number: int) -> Any:
    """g at the first nodes [number] of `size`, over `size`, and twice that for all but the first: to some 30 ULP."""
    half, node = 0.5 * order * step, (math.pi / size) * np.arange(number)
    root = math.sinh(half) * np.cos(node) + 1j * math.cosh(half) * np.sin(node)
    weight = step / (4.0 * size) / (root * root)
    weight[1:] *= 2.0
    return weight


def _tilted(lattice: _Lattice, order: float, size: int) -> tuple[Any, float]:
    """Tilted masses folded onto a circle of `size` points, and a bound on the error of any entry of their transform."""
    exponent = order * lattice.step * lattice.multiple
    if not float(np.abs(exponent).max()) < 650.0:
        return None, math.inf
    found = np.bincount(lattice.multiple % size, lattice.mass * np.exp(exponent), size)
    # the exponents' rounding; then eta of the norm, for any entry (Higham 2002, Theorem 24.2)
    error = float(found.sum()) * ULP * (2.0 * float(np.abs(exponent).max()) + 8.0 + len(lattice.multiple) / size)
    top = float(found.max())  # squares may overflow
    norm = top * math.sqrt(size * float(np.square(found / top).sum()))
    return found, error + 8.0 * ULP * math.log2(size) * norm


def _by_transform(first: Atoms, steps: AtomSteps, plan: _Plan, size: int) -> float:
    """The sum over all nodes of a lattice, by one transform of each law."""
    step = plan.period / size
    found = []
    for law in (first, steps.law):
        tilted, error = _tilted(_on_lattice(law, step), plan.order, size)
        if tilted is None or 0.5 * plan.order * step > 300.0:
            return math.inf
        found.append((np.conj(np.fft.rfft(tilted)), error, float(tilted.sum())))
    (lead, lead_error, _), (moment, error, total) = found
    error += (total + steps.least_mass) * ULP
    scale = float(log_psi(total - steps.least_mass, steps))
    powers = psi(moment - steps.least_mass, error, steps, scale)
    weight = _weights(plan.order, step, size, len(lead))
    weight[-1] *= 0.5
    return _total(lead, lead_error, powers, weight, scale)


def _by_nodes(first: Atoms, steps: AtomSteps, plan: _Plan) -> float:
    """The sum over the first nodes of a lattice one by one, plus an upper bound on all others."""
    law, count, c, goal = steps.law, steps.most_steps, plan.order, math.exp(min(plan.log_goal, 700.0))
    often = min(1.0 / steps.blank, steps.terms) * float(first.mass.sum())
    top = _end_of(law.value, law.mass * count * often, _LOST * goal)
    bottom = -_end_of(-law.value, law.mass * count, _LOST / c)
    beyond = often * count * float((law.mass * np.maximum(law.value - top, 0.0)).sum()) * (1.0 + 2.0**-40)
    law = Atoms(np.clip(law.value, bottom, top), law.mass)
    step = _FINE * math.sqrt(float((law.mass * law.value * law.value).sum() / law.mass.sum()))
    if not 2.0**-53 * plan.period < step:  # as where squares of values are 0
        return math.inf
    size = math.ceil(plan.period / step)
    few, lead = _on_few(law, step), _on_few(first, step)
    reach = c * max(float(np.abs(few.value).max()), float(np.abs(lead.value).max()))
    if not reach < 650.0:
        return math.inf
    shares, rest = few.mass * np.exp(c * few.value), 1.0 - steps.least_mass
    turn = 2.0 * math.pi / (size * step)
    height = _fallen(few, shares, rest, step, steps)
    if not 2.0 * (height / turn + 2.0) < min(size, 2 * _MOST_NODES):
        return math.inf
    number = math.ceil(height / turn) + 1
    surplus = max(float(few.mass.sum()) - steps.least_mass, 0.0) * (1.0 + 2.0**-40)
    excess, error = _at_nodes(few, c, turn, number)
    grown, lead_error = _at_nodes(lead, c, turn, number)
    scale = float(log_psi(excess[0].real + error[0] + surplus, steps))
    powers = psi(excess + surplus, error, steps, scale)
    weight = _weights(c, step, size, number)
    total = float(lead.mass.sum())
    found = _total(grown + total, lead_error + total * ULP * len(lead.mass), powers, weight, scale)
    # none of the nodes beyond, fewer than `size`, has a larger weight
    log_rest = scale - _DECAY + math.log(abs(weight[-1]) * size * (total + abs(float(grown[0].real)) + lead_error[0]))
    return found + beyond + math.exp(min(log_rest, 700.0)) * (1.0 + 2.0**-30)


def _at_nodes(atoms: Atoms, order: float, turn: float, number: int) -> tuple[Any, Any]:
    """sum m (e^(s v) - 1) at s = order + i turn k, k = 0 .. `number` - 1, and an upper bound on its error.

    With k = a + b, a a multiple of some number, e^(i turn k v) - 1 = A + B + A B, A and B the same for a and for b.
    """
    x, mass = atoms
    row = math.isqrt(number - 1) + 1
    shares, grown = mass * np.exp(order * x), mass * np.expm1(order * x)
    by_row = _turned(turn * row * np.arange(-(-number // row)), x)
    in_row = _turned(turn * np.arange(row), x)
    both = rows_times_rows(by_row * shares, in_row)
    apart = rows_times(by_row, shares)[:, None] + rows_times(in_row, shares)
    size = float(np.abs(grown).sum()) + 2.0 * turn * np.arange(number) * float((shares * np.abs(x)).sum())
    error = (len(x) + 64.0 + 2.0 * float(np.abs(order * x).max())) * ULP * size
    return float(grown.sum()) + (apart + both).ravel()[:number], error


def _turned(heights: Any, x: Any) -> Any:
    """e^(i height x) - 1 [A, N], each part to some ULP of height |x| or of itself."""
    turns = np.multiply.outer(heights, x)
    return -2.0 * np.square(np.sin(0.5 * turns)) + 1j * np.sin(turns)


def _end_of(value: Any, mass: Any, goal: float) -> float:
    """Approximately the least x for which the sum of mass (value - x)_+ is at most `goal`."""
    order = np.argsort(-value)
    value, mass = value[order], mass[order]
    lost = np.cumsum(mass * value) - np.cumsum(mass) * value  # at each x of `value`
    at = int(np.searchsorted(lost, goal))
    return float(value[min(max(at - 1, 0), len(value) - 1)])


def _fallen(few: Atoms, shares: Any, rest: float, step: float, steps: AtomSteps) -> float:
    """A height beyond which, up to half a period of the lattice, Psi is e^-`_DECAY` of its value on the axis; or inf.

    `shares` are the tilted masses, `rest` the mass at 0, together phi(c), of variance V. At height w,  |phi|^2 =
    phi(c)^2 - sum_ij p_i p_j (1 - cos(w (x_i - x_j))), so that |phi|^2 / phi(c)^2 is at most 1 - 4 w^2 V / pi^2 while w
    times the reach of x is below pi, and bends by at most 2 V between samples.
    """
    x = few.value
    total = rest + float(shares.sum())
    mean = float((shares * x).sum()) / total
    variance = (float((shares * (x - mean) ** 2).sum()) + rest * mean * mean) / total
    # |phi| / phi(c) = e^-high is enough
    axis, low, high = float(log_psi(total - 1.0, steps)), 0.0, 2.0 * _DECAY
    if float(log_psi(total * math.exp(-high) - 1.0, steps)) > axis - _DECAY:
        return math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        fell = float(log_psi(math.expm1(-middle + math.log(total)), steps)) <= axis - _DECAY
        low, high = (low, middle) if fell else (middle, high)
    least = -math.expm1(-2.0 * high) * (1.0 + 2.0**-30)
    reach = (max(float(x[-1]), 0.0) - min(float(x[0]), 0.0)) * (1.0 + 2.0**-40)
    by_curve = 0.5 * math.pi * math.sqrt(least / variance) * (1.0 + 2.0**-20)
    points = min(max(math.ceil(math.log2(_APART * math.sqrt(variance) / step)), _SAMPLES[0]), _SAMPLES[1])
    folded = np.bincount(np.rint(x / step).astype(np.int64) % 2**points, shares, 2**points)
    apart = 2.0 * math.pi / (2**points * step)
    error: Any = 8.0 * ULP * points * math.sqrt(2**points * float(np.square(folded).sum()))
    last = _end_of_samples(rest + np.fft.rfft(folded), error, total, apart, least, variance)
    while math.pi / reach < last < math.inf and 0.26 * apart * apart * variance > _CLOSE * least:
        apart = apart / _FINER
        number = math.ceil(last / apart) + 2
        if number > _MOST_NODES:
            break
        excess, error = _at_nodes(Atoms(x, shares), 0.0, apart, number)
        last = min(last, _end_of_samples(total + excess, error, total, apart, least, variance))
    return min(last, by_curve) if last <= math.pi / reach else last


def _end_of_samples(moment: Any, error: Any, total: float, apart: float, least: float, variance: float) -> float:
    """The height from which on |phi|^2 / `total`^2 is at most 1 - `least`, by samples of phi every `apart`; or inf."""
    square = np.square((np.abs(moment) + error) / total + 2.0**-44)
    square = np.maximum.accumulate(square[::-1])[::-1] + 0.26 * apart * apart * variance
    sampled = np.flatnonzero(square <= 1.0 - least)
    return float(sampled[0]) * apart if len(sampled) else math.inf
