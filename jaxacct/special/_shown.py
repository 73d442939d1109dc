"""Numbers formatted for print, rounded to the safe side: the printed number is a bound too."""

import math


def _rounded(value: float, digits: int, sign: float) -> str:
    """`value` to `digits` significant digits, rounded up for `sign` 1 and down for -1."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:.{digits}g}"
    if sign * float(text) < sign * value:
        unit = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits)
        text = f"{float(text) + sign * unit:.{digits}g}"
    return text


def shown(value: float, digits: int = 4) -> str:
    """`value` to `digits` significant digits, rounded up, as an upper bound must be.

    >>> from jaxacct.special import shown
    >>> shown(0.90551), shown(0.0), shown(float("inf")), shown(7.52e-07)
    ('0.9056', '0', 'inf', '7.52e-07')
    """
    return _rounded(value, digits, 1.0)


def shown_down(value: float, digits: int = 4) -> str:
    """`value` to `digits` significant digits, rounded down, as a lower bound must be.

    >>> from jaxacct.special import shown_down
    >>> shown_down(0.90559), shown_down(0.0)
    ('0.9055', '0')
    """
    return _rounded(value, digits, -1.0)
