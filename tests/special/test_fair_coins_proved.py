"""Tails of fair coins within what is booked: every small number of tosses, a majorant for large ones, and rounding."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from support.proving import horner_rounding

from jaxacct.special import _fair_coins

ULP = 2.0**-53
_SEEN = 3.8e-14  # relative, of every tail of few tosses, rounding as NumPy does
_ROUNDING = 96  # ULP, of either
_MOST = 3000  # tosses up to which every tail is looked at
_FIRST, _LAST, _ORDERS = _fair_coins.SMALL_TOSSES, 17, _fair_coins._ORDERS


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="long doubles are doubles here")
def test_every_tail_of_few_tosses():
    """All k of all m from 256 to 3000, two million pairs: recurrences of positive terms err by 3 eps a step."""
    m = np.arange(_FIRST, _MOST + 1)
    tail, excess = np.ones(len(m), np.longdouble), np.zeros(len(m), np.longdouble)
    for b in range(_MOST // 2):
        k = np.maximum(m - b, 0)  # where that is below m/2 nothing is looked at
        if b:
            ratio = np.longdouble(b) / (k + 1)
            tail, excess = 1 + ratio * tail, ratio * (excess + tail)
        above = 2 * k > m
        found = _fair_coins.tail_ratios(k[above].astype(float), m[above].astype(float))
        assert np.abs(found[0] / tail[above] - 1).max() < _SEEN
        if b:
            assert np.abs(found[1] / excess[above] - 1).max() < _SEEN
        else:
            assert np.all(found[1] == 0)


def _majorants():
    """Powers of w with coefficients of 1/m^5 in exp(sum |g_j| w^(2j+2) / m^j), and in sum |t_j| w^(2j+1) times it."""
    order = _ORDERS + 1
    tanh = [Fraction(1)]
    for j in range(1, order + 1):
        tanh.append(sum((tanh[i] * tanh[j - 1 - i] for i in range(j)), Fraction(0)) / (2 * j + 1))
    sech = [{0: Fraction(1)}]
    for r in range(1, order + 1):
        row = {}
        for j in range(1, r + 1):
            for power, c in sech[r - j].items():
                row[power + 2 * j + 2] = row.get(power + 2 * j + 2, 0) + Fraction(j, r * (2 * j + 2)) * tanh[j] * c
        sech.append(row)
    both = {}
    for j in range(order + 1):
        for power, c in sech[order - j].items():
            both[power + 2 * j + 1] = both.get(power + 2 * j + 1, 0) + tanh[j] * c
    return sech[order], both


def _moments(m, powers):
    """At least the integrals of w^power sech^m(w / sqrt m), w >= 0: cells, and the slope of the logarithm far out."""
    root, end, cells = float(np.sqrt(m)), 24.0, 4096
    low = np.linspace(0.0, end, cells + 1)
    falling = np.exp(-m * np.log(np.cosh(low[:-1] / root))) * (end / cells)
    slope = root * np.tanh(end / root)  # of -log sech^m, which is convex
    beyond = np.exp(-m * np.log(np.cosh(end / root)))
    return {p: 1.001 * float(low[1:] ** p @ falling) + 1.001 * end**p * beyond / (slope - p / end) for p in powers}


def test_what_the_expansions_leave_out():
    """Relative, at x = 0, where it is largest, from 3001 tosses on."""
    m, rows = _MOST + 1, _majorants()
    moments = _moments(m, {power for row in rows for power in row})
    tail, excess = (sum(float(c) * moments[power] for power, c in row.items()) for row in rows)
    assert tail / np.sqrt(np.pi / 2.0) / m**5 < 2e-15
    assert excess / (1.0 - 2.0 / 3.0 / m) / m**5 < 1.1e-14


def _integrals(x, count):
    """I_0 .. at a ball: by the recurrence, or from x = 60 on between j!/x^(j+1) and (j+1)(j+2)/(2 x^2) of it less."""
    if x > 60:
        found, factorial = [], arb(1)
        for j in range(count):
            factorial = factorial * max(j, 1)
            found.append(factorial / x ** (j + 1) * (1 - arb(0).union(arb((j + 1) * (j + 2)) / (2 * x * x))))
        return found
    first = (arb.pi() / 2).sqrt() * (x * x / 2).exp() * (x / arb(2).sqrt()).erfc()
    found = [first, 1 - x * first]
    for j in range(1, count - 1):
        found.append(j * found[j - 1] - x * found[j])
    return found


def _errors(low, high):
    """Relative errors of I_0 .. I_17, in ULP, on a cell on one side of the turn; bounds on I_j / I_0 and I_j / I_1."""
    from_above = [v.upper() for v in _integrals(low, _fair_coins._TOP + 1)]
    from_below = [v.lower() for v in _integrals(high, 2)]
    quotient = 3 + horner_rounding(_fair_coins._Q[::-1], low, high)
    first = quotient + horner_rounding(_fair_coins._P[::-1], low, high)
    if low < _fair_coins._TURN:
        errors = [from_above[0] * first, from_above[1] * (quotient + horner_rounding(_fair_coins._N[::-1], low, high))]
        for j in range(1, _LAST):
            rounded = j * from_above[j - 1] + high * from_above[j] + from_above[j + 1]
            errors.append(j * errors[j - 1] + high * errors[j] + rounded)
        return errors, from_above, from_below
    middle, top = arb(_fair_coins._TOP) - arb(1) / 2, _fair_coins._TOP
    guess = [2 * j / (low + (low * low + 4 * j).sqrt()) for j in (middle, arb(top - 1), arb(top))]
    error = ((guess[0] / guess[1] - 1).max(1 - guess[0] / guess[2]) / ULP * arb(1.01)) + 8
    ratios = []
    for j in range(top - 1, 0, -1):
        ratio = (from_above[j + 1] / from_above[j]).max(_integrals(low, j + 2)[j + 1] / _integrals(low, j + 2)[j])
        error = error * ratio / (low + ratio) + 3
        ratios.append(error)
    errors, total = [from_above[0] * first], first
    for j, ratio in enumerate(ratios[: -_LAST - 1 : -1], start=1):
        total = total + ratio + 1
        errors.append(from_above[j] * total)
    return errors, from_above, from_below


def test_rounding_of_the_tails():
    """On all of 0 <= x <= sqrt m, m >= 256: of the integrals, of each term and of the sums; 6 more for x itself.

    Beyond 3000 only the first terms count, and Horner's rule errs by two ULP a step at most.
    """
    assert 3 + 2 * (len(_fair_coins._Q) + len(_fair_coins._P) - 2) + 10 < _ROUNDING
    edges = [0.0, *np.geomspace(0.02, _fair_coins._TURN, 150), *np.geomspace(_fair_coins._TURN, 3000.0, 250)[1:]]
    with ctx.workprec(400):
        for a, b in itertools.pairwise(edges):
            low, high = arb(a), arb(b)
            errors, above, below = _errors(low, high)
            tosses = (low * low).max(arb(_FIRST))
            for rows, base in zip(_fair_coins._expansions(), below, strict=True):
                total = arb(0)
                for r, row in enumerate(rows):
                    terms = (abs(arb(c)) * (errors[j] + above[j] * (3 + r + len(row))) for j, c in row)
                    total = total + sum(terms, arb(0)) / tosses**r
                assert total / base + 6 < _ROUNDING, (a, float(total / base))


def test_what_is_booked_is_all_of_it():
    """Few tosses: what is seen, and rounding as another backend may round. Many: what is left out, rounding."""
    assert _SEEN + 2 * _ROUNDING * ULP <= _fair_coins.TAIL_ERROR
    assert 1.1e-14 + _ROUNDING * ULP <= _fair_coins.TAIL_ERROR
