"""Numbers as people type them: one, a list, a range."""

import argparse
import decimal
import re
from typing import Any

_MOST_POINTS = 10**7  # most points of a range on one axis


_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_COMMA = re.compile(r"[-+]?\d+,\d+")


def number(text: str) -> int | float:
    """An int if the text is one, else a float; ``1%`` is 0.01, ``60,000`` is 60000."""
    if text.endswith("%"):
        return _exact_percent(text)
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    elif text.startswith("0,") and _COMMA.fullmatch(text):
        meant = text.replace(",", ".")
        raise argparse.ArgumentTypeError(f"invalid number value: {text!r}: write {meant}, with a point")
    try:
        return int(text)
    except ValueError:
        return _not_lost(text, float(text))


def _not_lost(text: str, value: float) -> float:
    if value == 0.0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise argparse.ArgumentTypeError(f"invalid number value: {text!r}: it is not 0, and too small for a double")
    return value


def _exact_percent(text: str) -> float:
    """The double nearest to a hundredth of the number before the percent sign."""
    try:
        return _not_lost(text, float(decimal.Decimal(text.removesuffix("%").strip()) / 100))
    except (decimal.InvalidOperation, decimal.Overflow):
        raise ValueError(text) from None


def axis(text: str) -> Any:
    """One number or several: ``0.5,1,2``, 16 evenly spaced ones ``0.5:2:16``, or ``0.5:2:16:log`` in equal ratios."""
    try:
        return _numbers_of(text) if ":" in text else _listed(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number, a,b,c or start:stop:count[:log]") from None


def _listed(text: str) -> Any:
    import numpy as np

    parts = text.split(",")
    if any(part.startswith("00") for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is a list here: write {text.replace(',', '')} for one number")
    values = [number(part) for part in parts]
    return values[0] if len(values) == 1 else np.asarray(values)


def _numbers_of(text: str) -> Any:
    """The numbers of a range; raises ValueError unless it is one."""
    import numpy as np

    low, high, points, *even = text.split(":")
    ends, count = (number(low), number(high)), int(points)
    if even not in ([], ["log"]):
        raise ValueError
    if not 1 <= count <= _MOST_POINTS:
        raise argparse.ArgumentTypeError(f"{text!r}: its count must be in [1, {_MOST_POINTS}]")
    if even and not min(ends) > 0:
        raise argparse.ArgumentTypeError(f"{text!r}: both ends must be > 0 on a logarithmic scale")
    space = np.geomspace if even else np.linspace
    return np.array([float(f"{value:.15g}") for value in space(*ends, count).tolist()])


def whole_axis(text: str) -> Any:
    """An `axis` of a field that counts something: the points of a range become whole numbers, without repeats."""
    import numpy as np

    values = axis(text)
    if ":" not in text or not np.all(np.abs(values) < 2.0**63):  # counts beyond that are refused, by their range
        return values
    return np.array(list(dict.fromkeys(int(value) for value in np.rint(values).tolist())))


def matrix(text: str) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers: ``0.5,0.5;0.25,0.75``."""
    try:
        rows = tuple(tuple(float(cell) for cell in row.split(",")) for row in text.split(";"))
    except ValueError:
        rows = ()
    if len({len(row) for row in rows}) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be rows of numbers, of one length, as 0.5,0.5;0.25,0.75")
    return rows


def coefficients(text: str) -> tuple[float, ...]:
    """Numbers: ``1,0.5,0.25``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers, as 1,0.5,0.25") from None


def rates(text: str) -> tuple[float, ...]:
    """False-positive rates ``0.001,0.01``; ``none`` for none."""
    if text == "none":
        return ()
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (0.0,)
    if not all(0.0 < rate < 1.0 for rate in found):
        raise argparse.ArgumentTypeError(f"{text!r} must be rates in (0, 1), as 0.001,0.01, or none")
    return found
