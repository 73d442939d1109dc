"""Complex moments of the clones pair on the host, each a sum over some outcomes with a bound on its error.

An outcome is (m, d): m = C + 1 relevant reports, a = m/2 + d of them with one label and b = m/2 - d with the other.
Under the mean law W of the pair, m - 1 ~ Bin(n - 1, p) and a | m ~ Bin(m, 1/2). With x = (a - b)/m,
c = tanh(local_epsilon/2) and t = 2 atanh(c x), the likelihood ratio is e^t and

    M(s) = E_Q[(dP/dQ)^s] = E f_s,   f_s = (1 + c x)^s (1 - c x)^(1 - s) = e^((s - 1/2) t) / cosh(t/2),
    s = alpha + i beta.

Outcomes outside a window are moved to loss 0, where f = 1: M is that of a pair within total variation `dropped` of the
clones pair. In the window, W f_s is, apart from f_s, an entire function of m and of d, and is summed on a coarser
lattice where the counts are large. `docs/numerics/clones.md` ("Composed clones pairs") derives the error:

    with U = m - 2 c d, V = m + 2 c d and r = n - m,   |W f_s| grows by at most e^(kappa y^2/2 + lambda |y|) when
    d moves by iy: kappa = 2/(2a+1) + 2/(2b+1) + 4 alpha c^2/U^2,              lambda = 4 beta c m/(U V),
    m moves by iy: kappa = 1/(4a+2) + 1/(4b+2) + 2/(2r+1) + alpha/U^2,         lambda = 4 beta c |d|/(U V),

so that the midpoint rule of step h on an interval errs by at most ``2 e^(-w^2/(2 kappa))``, w = 2 pi/h - lambda, of the
integral of |W f_alpha| and by 4/w of its value at either end.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.clones._turned_sums import turned_sums
from jaxacct.special import rows_times
from jaxacct.special._binomial import binomial_rate, log_binomial_pmf
from jaxacct.special._fair_coins import log_fair_pmf
from jaxacct.special._rounding import ULP

Real = Any  # NumPy's arrays of float64

_LEAST_STEP = 1.5  # coarser lattices are used from this step on: affects only cost
_FEWEST = 2.0  # and where every count is at least this
_ROUGH_BINS = 400  # losses that represent all others where lines are compared
_SHIFTS = np.geomspace(1e-3, 1.0, 40)  # shifts of the path tried for the decay, as a share of the window of d


class _Window(NamedTuple):
    """m from `low` to `high`, |d| <= `reach`; `every`: whether each row contains all its outcomes."""

    low: float
    high: float
    reach: float
    every: bool


class _Growth(NamedTuple):
    """The largest kappa and lambda/beta of the module, along d and along m; and those of the ends of rows."""

    kappa_d: float
    rate_d: float
    kappa_m: float
    rate_m: float
    log_slope: float  # of W f_alpha in d


class Lattice(NamedTuple):
    """Outcomes: their t >= 0 and twice their weights under W, and the data for a bound on the error of sums over them.

    Attributes:
      loss, weight: [O].
      dropped: upper bound on W outside the window.
      edge_log_weight, edge_loss: ends of rows: W times the steps in m, and t there.
      side_log_weight, side_loss: of the row before the first and after the last, W times the step in d, and t.
      corner: the rows' ends there, [2], log W, and their t.
    """

    window: _Window
    row_step: float
    step: float
    loss: Real
    weight: Real
    dropped: float
    edge_log_weight: Real
    edge_loss: Real
    side_log_weight: Real
    side_loss: Real
    corner_log_weight: Real
    corner_loss: Real


def _cosh_ratio(alpha: float, t: Real) -> Real:
    """The mean of f_alpha at t and at -t: cosh((alpha - 1/2) t) / cosh(t/2)."""
    return np.cosh((alpha - 0.5) * t) / np.cosh(0.5 * t)


def _sum_of(alpha: float, log_weight: Real, t: Real) -> float:
    """The sum of weights times f_alpha, with `_cosh_ratio` for f_alpha."""
    return float(rows_times(np.exp(log_weight).ravel(), _cosh_ratio(alpha, t).ravel()))


class ClonesMoments:
    """The clones pair (n, p, local epsilon) for the contour of `jaxacct.divergence._contour`; concrete floats."""

    def __init__(self, num_reports: float, clone_prob: float, local_epsilon: float, log_tolerance: float):
        """`log_tolerance` is the log of the error aimed at for a moment, and of the total variation dropped."""
        self.n, self.p, self.c = num_reports, clone_prob, math.tanh(0.5 * local_epsilon)
        self.local = local_epsilon
        self.digits = -log_tolerance
        self._lattices: dict[tuple[float, float], Lattice] = {}
        trials = self.n - 1.0
        self._law = tuple(map(self._array, (trials, self.p, 1.0 - self.p)))
        self._mean, self._variance = 1.0 + trials * self.p, trials * self.p * (1.0 - self.p)

    @staticmethod
    def _array(x: float) -> Any:
        return np.array(x)

    @functools.cached_property
    def _rough(self) -> tuple[Real, Real]:
        at = self.lattice(1.0, 0.0)
        edges = np.linspace(0.0, float(at.loss.max(initial=0.0)) * (1.0 + 1e-12) + 1e-300, _ROUGH_BINS + 1)
        if len(at.loss) <= _ROUGH_BINS:
            return at.loss, at.weight
        index = np.clip(np.searchsorted(edges, at.loss) - 1, 0, _ROUGH_BINS - 1)
        weight = np.bincount(index, at.weight, _ROUGH_BINS)
        square = np.bincount(index, at.weight * at.loss**2, _ROUGH_BINS)
        return np.sqrt(square / np.maximum(weight, 1e-300)), weight

    @property
    def variance(self) -> float:
        """Approximate variance of the loss."""
        loss, weight = self._rough
        return max(float(rows_times(weight * loss, loss)), 1e-300)

    @property
    def largest_order(self) -> float:
        """An order whose moment is computed without overflow for losses up to 195; `error` detects where it is not."""
        return 2.0 + 300.0 / max(self.largest_loss, 1e-9)

    def rough(self, orders: Real) -> Real:
        """Approximate log M [A] at real `orders` [A]."""
        loss, weight = self._rough
        order = np.asarray(orders)[:, None]
        with np.errstate(over="ignore"):
            excess = 2.0 * np.sinh(0.5 * order * loss) * np.sinh(0.5 * (order - 1.0) * loss) / np.cosh(0.5 * loss)
        return np.log1p(np.einsum("aj,j->a", excess, weight))

    def rough_modulus(self, orders: Real, heights: Real) -> Real:
        """Approximate log |M(a + ib)| [A, H]."""
        loss, weight = self._rough
        share = (np.asarray(orders)[:, None] - 0.5) * loss
        base = weight / np.cosh(0.5 * loss)
        turn = np.asarray(heights)[:, None] * loss
        rest = 1.0 - float(weight.sum())
        real = np.einsum("aj,hj->ah", base * np.cosh(share), np.cos(turn)) + rest
        imag = np.einsum("aj,hj->ah", base * np.sinh(share), np.sin(turn))
        return np.log(np.maximum(np.hypot(real, imag), 1e-300))

    # Certified values

    def _window(self, alpha: float) -> _Window:
        digits = self.digits
        dev = digits / 3.0 + math.sqrt(digits * digits / 9.0 + 2.0 * digits * self._variance)
        high = min(math.ceil(self._mean + dev), self.n)
        low = max(math.floor(self._mean - min(dev, math.sqrt(2.0 * digits * max(self._mean - 1.0, 0.0)) + 1.0)), 1.0)
        # the tilt by f_alpha moves the bulk of d by about (alpha - 1/2) c
        reach = math.floor(math.sqrt(0.5 * (digits + 2.0) * high) + alpha * self.c) + 0.5
        return _Window(low, float(high), reach, 2.0 * reach >= high)

    def _growth(self, window: _Window, alpha: float) -> _Growth | None:
        """The largest values in the window, and half a step beyond its rows; None if a count is too small for them."""
        low, high, reach, c = window.low - 0.5, window.high + 0.5, window.reach, self.c
        few, many = 0.5 * low - reach, 0.5 * low + reach
        if few < _FEWEST:
            return None
        u, v = low - 2.0 * c * reach, low + 2.0 * c * reach
        rest = max(self.n - high, 0.0)
        along = 1.0 / (2.0 * few + 1.0) + 1.0 / (2.0 * many + 1.0)
        most = 0.5 * high + reach
        return _Growth(
            kappa_d=2.0 * along + 4.0 * alpha * c * c / (u * u),
            rate_d=4.0 * c * low / (u * v),
            kappa_m=0.5 * along + 2.0 / (2.0 * rest + 1.0) + alpha / (u * u) if self.n - high >= _FEWEST else math.inf,
            rate_m=4.0 * c * reach / (u * v),
            log_slope=math.log((most + 1.0) / few) + 2.0 * c * alpha * 2.0 * low / (u * v),
        )

    def lattice(self, alpha: float, beta: float) -> Lattice:
        """The outcomes for orders up to `alpha` and heights up to `beta`: chosen for them, valid for any."""
        coarsest = self._lattices.get((1.0, 0.0))
        if coarsest is not None and not coarsest.step:  # every outcome, whatever the order
            return coarsest
        key = alpha, beta
        if key not in self._lattices:
            self._lattices[key] = self._made(alpha, beta)
        return self._lattices[key]

    def _steps(self, window: _Window, alpha: float, beta: float) -> tuple[float, float]:
        """The largest admissible steps between the outcomes summed, in d and in m; 0 where every one is needed."""
        growth = self._growth(window, alpha)
        digits = self.digits + 4.0

        def coarsest(kappa: float, rate: float) -> float:
            return 2.0 * math.pi / (rate * beta + math.sqrt(2.0 * kappa * digits)) if kappa < math.inf else 0.0

        step = coarsest(growth.kappa_d, growth.rate_d) if growth is not None else 0.0
        if growth is None or window.every or step < _LEAST_STEP:
            return 0.0, 0.0
        row_step = coarsest(growth.kappa_m, growth.rate_m)
        return step, row_step if row_step >= _LEAST_STEP else 0.0

    def num_outcomes(self, alpha: float, beta: float) -> float:
        """The approximate number of outcomes in `lattice`."""
        window = self._window(alpha)
        step, row_step = self._steps(window, alpha, beta)
        rows = window.high - window.low + 1.0
        return rows / (row_step or 1.0) * min(window.reach, 0.5 * window.high) / (step or 1.0)

    @property
    def largest_loss(self) -> float:
        """Approximately the largest loss of an outcome that matters."""
        return max(float(self._rough[0].max(initial=0.0)), 1e-300)

    def moment(self, at: Lattice, alpha: float) -> float:
        """M(alpha) by the outcomes of `at`, up to its error and the weight of the other outcomes, at most 1."""
        return float(rows_times(at.weight, _cosh_ratio(alpha, at.loss)))

    def _made(self, alpha: float, beta: float) -> Lattice:
        window = self._window(alpha)
        step, row_step = self._steps(window, alpha, beta)
        step = window.reach / math.ceil(window.reach / step) if step else 0.0
        span = window.high - window.low + 1.0
        rows: Any
        if row_step:
            count = math.ceil(span / row_step)
            row_step = span / count
            rows = window.low - 0.5 + row_step * (np.arange(count) + 0.5)
        else:
            rows = window.low + np.arange(span)
        log_rows = self._log_rows(rows) + (math.log(row_step) if row_step else 0.0)
        none = np.zeros(0)
        edge = side = corner = (none, none)
        if step:
            d = step * (np.arange(round(window.reach / step)) + 0.5)
            loss, log_weight = self._outcomes(rows[:, None], d)
            weight = np.exp(log_weight + log_rows[:, None] + math.log(2.0 * step)).ravel()
            t, lw = self._outcomes(rows, window.reach)
            edge = t, lw + log_rows
            if row_step:
                ends = np.array([window.low - 0.5, window.high + 0.5])
                log_ends = self._log_rows(ends)
                t, lw = self._outcomes(ends[:, None], d)
                side = t.ravel(), (lw + log_ends[:, None] + math.log(2.0 * step)).ravel()
                t, lw = self._outcomes(ends, window.reach)
                corner = t, lw + log_ends
            loss = loss.ravel()
        else:
            loss, weight = self._all(rows, log_rows, window)
        return Lattice(window, row_step, step, loss, weight, self._dropped(window), edge[1], edge[0], side[1], side[0],
                       corner[1], corner[0])  # fmt: skip

    def _log_rows(self, rows: Real) -> Real:
        return log_binomial_pmf(rows - 1.0, *self._law)

    def _outcomes(self, m: Real, d: Any) -> tuple[Real, Real]:
        """(t, log W given m) at a = m/2 + d."""
        a = 0.5 * m + d
        return 2.0 * np.arctanh(self.c * (2.0 * d / m)), log_fair_pmf(a, m + 0.0 * a)

    def _all(self, rows: Real, log_rows: Real, window: _Window) -> tuple[Real, Real]:
        """Every outcome of the window with a > b, and the ties at loss 0."""
        # a = floor(m/2) + 1 + j, j from 0
        most = int(min(window.reach, 0.5 * window.high)) + 1
        a = np.floor(0.5 * rows)[:, None] + 1.0 + np.arange(most)
        m = rows[:, None] + 0.0 * a
        inside = (a <= m) & (a - 0.5 * m <= window.reach)
        a, m, log_m = a[inside], m[inside], np.broadcast_to(log_rows[:, None], inside.shape)[inside]
        b = m - a
        # 1 - x = 2 b/m: t from the counts, whose difference is exact
        ratio = self.c * ((a - b) / m)
        keep = math.exp(-self.local)
        loss = np.where(ratio < 0.5, 2.0 * np.arctanh(np.minimum(ratio, 0.5)), np.log((a + keep * b) / (b + keep * a)))
        return loss, 2.0 * np.exp(log_fair_pmf(a, m) + log_m)

    def _dropped(self, window: _Window) -> float:
        """Upper bound on W[m outside or |d| > reach], by Chernoff's for the binomial tails and Hoeffding's for d."""
        total = 0.0
        for k, outside in ((window.low - 2.0, window.low > 1.0), (window.high, window.high < self.n)):
            if outside:
                beyond = (k < self._mean - 1.0) == (k < window.low)
                total += math.exp(-float(binomial_rate(self._array(k), *self._law))) if beyond else 1.0
        if not window.every:
            total += 2.0 * math.exp(-2.0 * window.reach**2 / window.high)
        return min(total * (1.0 + 1e-9), 1.0)

    def error(self, at: Lattice, alpha: float, beta: float, *, of_integrals: bool = False) -> float:
        """An upper bound on the distance of the sums over `at` from M(alpha + i beta'), beta' <= beta.

        With `of_integrals` it bounds the distance of the moments from the integrals over the window: the sums are then
        used at height 0 only.
        Rounding: of each weight, by `pmf_rounding` of its two factors, 64 and 90 ULP of the logarithm without the steps
        (6 more for sums, and those of the exponential); of a sum of O terms and its four products, O and some; of a
        loss, 4 units in s t.
        """
        largest = max(float(t.max(initial=0.0)) for t in (at.loss, at.edge_loss, at.side_loss, at.corner_loss))
        if not alpha * largest < 690.0:
            return math.inf
        ratio = at.weight * _cosh_ratio(alpha, at.loss)
        size = float(ratio.sum())
        steps = abs(math.log((at.step or 1.0) * (at.row_step or 1.0))) + 2.0
        sizes = float(rows_times(ratio + at.weight, steps - np.log(np.maximum(at.weight, 1e-300))))
        error = ULP * (4.0 * (len(ratio) + 64.0) * (size + 1.0) + 96.0 * max(sizes, 0.0) + 192.0 * (size + 1.0))
        error += 2.0**-49 * (alpha + beta) * float(rows_times(ratio, at.loss))
        return error + self._lattice_error(at, alpha, beta, size, of_integrals=of_integrals) if at.step else error

    def _lattice_error(self, at: Lattice, alpha: float, beta: float, size: float, *, of_integrals: bool) -> float:
        """An upper bound on the contribution of the steps to `error`, inf if too wide; `size` is the sum of terms."""
        beta_of_steps = 0.0 if of_integrals else beta
        growth = self._growth(at.window, alpha)
        if growth is None:
            return math.inf
        edge = 2.0 * _sum_of(alpha, at.edge_log_weight, at.edge_loss)
        w_fine = 2.0 * math.pi - growth.rate_d * beta
        w_step = 2.0 * math.pi / at.step - growth.rate_d * beta_of_steps
        if w_fine <= 0.0 or w_step <= 0.0:
            return math.inf
        share = 2.02 * (math.exp(-0.5 * w_fine**2 / growth.kappa_d) + math.exp(-0.5 * w_step**2 / growth.kappa_d))
        sides = corner = 0.0
        if at.row_step:
            v_fine = 2.0 * math.pi - growth.rate_m * beta
            v_step = 2.0 * math.pi / at.row_step - growth.rate_m * beta_of_steps
            if v_fine <= 0.0 or v_step <= 0.0:
                return math.inf
            share += 2.02 * (math.exp(-0.5 * v_fine**2 / growth.kappa_m) + math.exp(-0.5 * v_step**2 / growth.kappa_m))
            ends = 4.0 / v_fine + 4.0 / v_step
            sides = ends * _sum_of(alpha, at.side_log_weight, at.side_loss)
            corner = ends * 2.0 * _sum_of(alpha, at.corner_log_weight, at.corner_loss)
        edges = ((4.0 / w_fine + 0.5) * math.exp(0.5 * growth.log_slope) + 4.0 / w_step) * (edge + corner)
        whole = share + sides + edges
        if whole > 0.01 * max(size, 1.0):  # then sums, integrals and lattices are not within a tenth of each other
            return math.inf
        return 1.1 * (share * (size + 1.0) + sides + edges)

    def excess(self, at: Lattice, alpha: float, heights: Real) -> tuple[Real, Real]:
        """(Re, Im) [N] of M(alpha + i heights) - 1 by the outcomes of `at`, for equally spaced `heights` from 0 on."""
        t = at.loss
        base = at.weight / np.cosh(0.5 * t)
        real, imag = base * np.cosh((alpha - 0.5) * t), base * np.sinh((alpha - 0.5) * t)
        excess = 2.0 * np.sinh(0.5 * alpha * t) * np.sinh(0.5 * (alpha - 1.0) * t) / np.cosh(0.5 * t)
        first = float(rows_times(at.weight, excess))
        step = float(heights[1]) if len(heights) > 1 else 0.0
        cosines, sines = turned_sums(t, real, imag, step, len(heights))
        return first + cosines, sines

    def turns(self, at: Lattice, alpha: float, digits: float) -> float:
        """The approximate height up to which `decay` bounds moments to e^-`digits`; 0 for none."""
        growth = self._growth(at.window, alpha) if at.step else None
        if growth is None:
            return 0.0
        return max(2.0 * math.pi - math.sqrt(2.0 * growth.kappa_d * digits), 0.0) / growth.rate_d

    def decay(self, at: Lattice, alpha: float, heights: Real, end: float) -> Real:
        """Upper bounds [K] on log |M(alpha + iy) / M(alpha)| for y from `heights` [K] to `end`; 0 where there is none.

        Moving the path of d by -iy shrinks the integrand by e^(kappa y^2/2 - 2 beta atan(2 c y/m)).
        """
        heights = np.asarray(heights, np.float64)
        error = self.error(at, alpha, end, of_integrals=True)
        size = self.moment(at, alpha)
        if not at.step or not error < 0.5 * size:
            return np.zeros_like(heights)
        growth = self._growth(at.window, alpha)
        assert growth is not None
        y = at.window.reach * _SHIFTS[:, None]
        exponent = 0.5 * growth.kappa_d * y * y - 2.0 * heights * np.arctan(2.0 * self.c * y / (at.window.high + 0.5))
        best = np.minimum(exponent.min(axis=0), 0.0)
        edge = 2.0 * _sum_of(alpha, at.edge_log_weight, at.edge_loss) * at.window.reach
        missed = (1.1 * edge + 2.0 * error + at.dropped) / max(size - error, 1.0)
        return np.minimum(np.log(1.1 * np.exp(best) + missed), 0.0)
