"""Upper tails of Bin(m, 1/2), divided by the probability of their first outcome, accurate to the last digits.

With a ~ Bin(m, 1/2), d = 2k - m and b = m - k,

    P[a >= k] / P[a = k] = k (K0 + K1),    E[(a - k)_+] / P[a = k] = k b K1,
    K0 = int_0^inf e^{-d v} sech^m(v) dv,  K1 = int_0^inf e^{-d v} tanh(v) sech^m(v) dv,

both integrals of positive functions: nothing cancels, however far out the tail. The formulas also hold for real k, m.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct.special._binomial import LOG_2PI, stirling_error
from jaxacct.special._namespace import is_jax, xp
from jaxacct.special._normal import _horner
from jaxacct.special._rounding import ULP

SMALL_TOSSES = 256  # m from which the expansions are accurate as stated; smaller m are summed term by term
TAIL_ERROR = 600.0 * ULP  # relative, of both tails at whole numbers; docs/numerics/rounding.md, "Tails of fair coins"
_ORDERS = 4  # of the expansions in 1/m
_TURN = 4.5  # x from which ratios of neighbouring integrals are computed downwards, which is stable there
_TOP = 24  # index of the first ratio, known to 1.5 % from its bounds: each step down leaves 3/5 of the error or less
# fair_rate(y) = y^2 (1/2 + y^2/12 + ..): the coefficients in y^2, highest power first, enough for y < 1/4.
_ENTROPY_SERIES = tuple(1.0 / (2 * j * (2 * j - 1)) for j in range(12, 0, -1))

# I_0(x) = P/Q (Mills' ratio) and I_1(x) = 1 - x I_0(x) = N/Q, where I_k(x) = int_0^inf w^k e^{-x w - w^2/2} dw, on
# x >= 0. Interpolated at 24 nodes in 80 digits, with P made from Q - N; the coefficients are positive. Both are within
# two ULP for all x >= 0 (tests/special/test_proved.py). Lowest power first.
_N = (1.0, 1.4792408222719829268, 1.1093323208613803885, 0.54530123189965942691, 0.19303244736957430986,
      0.051330050584466963173, 0.010425591435684397266, 0.0016154661580998068303, 0.00018731612495253398135,
      0.000015526832358026372437, 8.329256072473309692e-7, 2.2130652579118050028e-8)  # fmt: skip
_P = (1.2533141373155002512, 2.4247497618425781312, 2.323417145756545144, 1.440364763577304402,
      0.63891157098697922641, 0.21279471354115637434, 0.054468751479687913821, 0.010795226130078517271,
      0.0016463870389277107308, 0.00018898197616678454947, 0.000015571093663185748728, 8.3292560724732890067e-7,
      2.2130652579118050633e-8)  # fmt: skip
_Q = (1.0, 2.732554959587483178, 3.5340820827039585197, 2.8687183776562045709, 1.6333972109468787119,
      0.69024162157144618959, 0.22322030497684077161, 0.056084217637787720651, 0.010982542255031051252,
      0.0016619138712857371032, 0.00018981490177403188044, 0.000015593224315764866778, 8.3292560724732890067e-7,
      2.2130652579118050633e-8)  # fmt: skip


@functools.cache
def _expansions() -> tuple[tuple[tuple[tuple[int, float], ...], ...], ...]:
    """Coefficients of sech^m(w/sqrt m) e^{w^2/2}, and of this times sqrt(m) tanh(w/sqrt m).

    For each of the two and each order in 1/m: the terms, as pairs of a power of w and a coefficient.
    """
    tanh = [Fraction(1)]
    for j in range(1, _ORDERS + 1):
        tanh.append(-sum((tanh[i] * tanh[j - 1 - i] for i in range(j)), Fraction(0)) / (2 * j + 1))
    sech: list[dict[int, Fraction]] = [{0: Fraction(1)}]
    for r in range(1, _ORDERS + 1):  # exp of sum_j -tanh_j w^{2j+2} / ((2j+2) m^j), by its logarithmic derivative
        row: dict[int, Fraction] = {}
        for j in range(1, r + 1):
            for power, c in sech[r - j].items():
                row[power + 2 * j + 2] = (
                    row.get(power + 2 * j + 2, Fraction(0)) - Fraction(j, r * (2 * j + 2)) * tanh[j] * c
                )
        sech.append(row)
    both = []
    for r in range(_ORDERS + 1):
        row = {}
        for j in range(r + 1):
            for power, c in sech[r - j].items():
                row[power + 2 * j + 1] = row.get(power + 2 * j + 1, Fraction(0)) + tanh[j] * c
        both.append(row)
    return tuple(tuple(tuple((k, float(c)) for k, c in sorted(row.items())) for row in rows) for rows in (sech, both))


def _integrals(x: jax.Array) -> list[jax.Array]:
    """I_j(x) for j = 0..17, x >= 0, from I_{j+1} = j I_{j-1} - x I_j.

    Near 0 the recurrence is run upwards from I_0 and I_1. Further out it cancels, but r_j = I_j / I_{j-1} obeys
    r_j = j / (x + r_{j+1}), where all is positive and an error is multiplied by r_{j+1} / (x + r_{j+1}). Moments are
    log-convex, hence r_j <= r_{j+1}, so that r_j^2 + x r_j lies between j - 1 and j.
    """
    q = _horner(_Q[::-1], x)
    first, second = _horner(_P[::-1], x) / q, _horner(_N[::-1], x) / q
    if is_jax(x) or not (np.all(x < _TURN) or np.all(x >= _TURN)):
        both = zip(_upwards(xp.minimum(x, _TURN), first, second), _downwards(xp.maximum(x, _TURN), first), strict=True)
        return [xp.where(x < _TURN, *pair) for pair in both]
    return _upwards(x, first, second) if np.all(x < _TURN) else _downwards(x, first)


def _upwards(x: jax.Array, first: jax.Array, second: jax.Array) -> list[jax.Array]:
    found = [first, second]
    for j in range(1, 4 * _ORDERS + 1):
        found.append(j * found[j - 1] - x * found[j])
    return found


def _downwards(x: jax.Array, first: jax.Array) -> list[jax.Array]:
    middle = _TOP - 0.5
    ratio = 2.0 * middle / (x + xp.sqrt(x * x + 4.0 * middle))
    ratios = []
    for j in range(_TOP - 1, 0, -1):
        ratio = j / (x + ratio)
        ratios.append(ratio)
    found = [first]
    for ratio in ratios[: -4 * _ORDERS - 2 : -1]:
        found.append(found[-1] * ratio)
    return found


def tail_ratios(k: jax.Array, m: jax.Array) -> tuple[jax.Array, jax.Array]:
    """P[a >= k] / P[a = k] and E[(a - k)_+] / P[a = k] for a ~ Bin(m, 1/2), real m >= 256 and m/2 < k <= m.

    K0 and K1 are expanded in powers of 1/m to order 4, each order a combination of I_j(x), x = d / sqrt m. For whole k
    and m both ratios err by at most `TAIL_ERROR`: docs/numerics/rounding.md, "Tails of fair coins".
    """
    b, scale = m - k, xp.sqrt(m)
    integrals = _integrals((k - b) / scale)
    step = 1.0 / m
    sums = []
    for rows in _expansions():
        total = sum(c * integrals[j] for j, c in rows[0])
        power = xp.ones_like(m)
        for row in rows[1:]:
            power = power * step
            total = total + power * sum(c * integrals[j] for j, c in row)
        sums.append(total)
    k0, k1 = sums[0] / scale, sums[1] / m
    return k * (k0 + k1), k * b * k1


def small_tail_ratios(k: jax.Array, m: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`tail_ratios` for whole m < 256, from a table; for larger m the value has no meaning."""
    last = SMALL_TOSSES - 1.0
    at = (xp.minimum(m, last) * SMALL_TOSSES + xp.minimum(k, last)).astype(xp.int32)
    tail, excess = (xp.take(xp.asarray(table, xp.float64), at) for table in small_tails()[1:])
    return tail, excess


def fair_rate(y: jax.Array, one_minus_y: jax.Array) -> jax.Array:
    """((1 + y) log(1 + y) + (1 - y) log(1 - y)) / 2 for 0 <= y <= 1: P[mean of m signs >= y] <= exp(-m rate)."""
    near = y < 0.25
    w = xp.where(near, y * y, 0.0)
    rest = xp.where(near | (one_minus_y <= 0), 0.5, one_minus_y)
    far = 0.5 * ((1.0 + y) * xp.log1p(y) + xp.where(one_minus_y > 0, rest * xp.log(rest), 0.0))
    return xp.where(near, w * _horner(_ENTROPY_SERIES, w), far)


def log_fair_pmf(k: jax.Array, m: jax.Array) -> jax.Array:
    """log P[Bin(m, 1/2) = k] for real m >= 1 and m/2 < k <= m, m - k = 0 or >= 1; errs by `pmf_rounding`."""
    b = m - k
    y = (k - b) / m
    some = b > 0
    b1 = xp.where(some, b, 1.0)
    near = y < 0.25
    w = xp.where(near, y * y, 0.0)
    series = (k - b) * y * _horner(_ENTROPY_SERIES, w)
    far = k * xp.log(2.0 * k / m) + b * xp.log(2.0 * b1 / m)
    rest = xp.where(some, stirling_error(b1) + 0.5 * LOG_2PI, 0.0)
    return stirling_error(m) - stirling_error(k) - rest + 0.5 * xp.log(m / (k * b1)) - xp.where(near, series, far)


@functools.cache
def small_tails() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(log P[a = j], P[a >= j] / P[a = j], E[(a - j)_+] / P[a = j]), a ~ Bin(m, 1/2), at index m * SMALL_TOSSES + j.

    Three tables for small m; every term is positive.
    """
    size = SMALL_TOSSES
    m = np.arange(size, dtype=np.float64)[:, None]
    pmf = np.zeros((size, size))
    pmf[0, 0] = 1.0
    for row in range(1, size):  # Pascal's triangle: one sum of two for each row, so that it errs by 255 ULP at most
        pmf[row] = 0.5 * pmf[row - 1]
        pmf[row, 1:] += 0.5 * pmf[row - 1, :-1]
    log_pmf = np.log(np.maximum(pmf, 1e-300))  # the pmf is 0 where j > m, where no value is wanted
    tail, excess = np.ones((size, size)), np.zeros((size, size))
    for at in range(size - 2, -1, -1):
        ratio = np.maximum(m[:, 0] - at, 0.0) / (at + 1.0)
        tail[:, at] = 1.0 + ratio * tail[:, at + 1]
        excess[:, at] = ratio * (excess[:, at + 1] + tail[:, at + 1])
    return log_pmf.reshape(-1), tail.reshape(-1), excess.reshape(-1)
