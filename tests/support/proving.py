"""Bounds that hold on a whole interval, in ball arithmetic: Taylor's formula on cells, halved until it is enough.

On a cell with centre c and half width h |f| is at most the sum over k < n of |f_k(c)| h^k, and h^n times the n-th
coefficient on the whole cell as a ball. What is small because two large numbers cancel is small in the coefficients at
c, which are known to 200 bits, so that a difference of 1e-17 is bounded by about 1e-17. Every cell is looked at.
"""

from flint import arb, arb_series, ctx

_TERMS = 14
_DEPTH = 40


def horner(coefficients, x):
    """The polynomial with these doubles as coefficients, highest power first, at a ball or a series."""
    value = arb_series([arb(coefficients[0])]) if isinstance(x, arb_series) else arb(coefficients[0])
    for c in coefficients[1:]:
        value = value * x + arb(c)
    return value


def _on_cell(f, low, high):
    centre, half = ((low + high) / 2).mid(), (high - low) / 2
    try:
        near, ball = f(arb_series([centre, 1])), f(arb_series([low.union(high), 1]))
    except ValueError:  # a divisor that the cell's ball does not keep from 0
        return arb.pos_inf()
    return sum((abs(near[k]) * half**k for k in range(_TERMS)), arb(0)) + abs(ball[_TERMS]) * half**_TERMS


def largest(f, low, high, limit):
    """At least sup |f| on [low, high], below `limit`; fails if it cannot be shown to be that."""
    before = ctx.cap
    ctx.cap = _TERMS + 1
    try:
        with ctx.workprec(200):
            worst, cells = arb(0), [(arb(low), arb(high), 0)]
            while cells:
                a, b, depth = cells.pop()
                bound = _on_cell(f, a, b)
                if bound < limit:
                    worst = worst.max(bound.upper())
                else:
                    assert depth < _DEPTH, f"no bound of {limit} near {a}: {bound}"
                    middle = ((a + b) / 2).mid()
                    cells += [(a, middle, depth + 1), (middle, b, depth + 1)]
            return float(worst.upper())
    finally:
        ctx.cap = before


def alternating(s, first, last):
    """sum over k from `first` to `last` - 1 of (-1)^(k - first) (2k-1)!!/(2 first - 1)!! s^(k - first)."""
    total = term = arb_series([arb(1)])
    for k in range(first + 1, last):
        term = term * s * -arb(2 * k - 1)
        total = total + term
    return total


def horner_rounding(coefficients, low, high):
    """What Horner's rule may err by, relative and in units of 2^-53, for coefficients > 0 at an exact x in [low, high].

    A step v x + c takes the error e of v to e x + v x + (v x + c), both roundings to first order; 1e-9 of it is added
    for the others. The polynomials e and v have positive coefficients, so that both rise with x.
    """
    value, error = [coefficients[0]], [0.0]  # highest power first
    for c in coefficients[1:]:
        moved = [*value, 0.0]
        value = [*value, c]
        error = [e + m + v for e, m, v in zip([*error, 0.0], moved, value, strict=True)]
    low, high = arb(low), arb(high)
    return (horner(error, high) / horner(value, low)).upper() * (1 + arb(1e-9))
