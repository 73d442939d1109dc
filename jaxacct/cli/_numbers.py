"""Numbers as people type them: one, a list, a range."""

import argparse
from typing import Any

_MOST_POINTS = 10**7  # most points of a range on one axis


def number(text: str) -> int | float:
    """An int where the text is one, else a float."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def axis(text: str) -> Any:
    """One number; or several: ``0.5,1,2``, 16 evenly spaced ones ``0.5:2:16``, or ``0.5:2:16:log`` of even ratios."""
    import numpy as np

    start, *rest = text.split(":")
    if not rest:
        values = [number(part) for part in text.split(",")]
        return values[0] if len(values) == 1 else np.asarray(values)
    if len(rest) not in (2, 3) or rest[2:] not in ([], ["log"]):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number, a,b,c or start:stop:count[:log]")
    space = np.geomspace if rest[2:] else np.linspace
    count = int(rest[1])
    if not 1 <= count <= _MOST_POINTS:
        raise argparse.ArgumentTypeError(f"{text!r}: its count must be in [1, {_MOST_POINTS}]")
    return np.array([float(f"{value:.15g}") for value in space(number(start), number(rest[0]), count).tolist()])


def matrix(text: str) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers: ``0.5,0.5;0.25,0.75``."""
    rows = tuple(tuple(float(cell) for cell in row.split(",")) for row in text.split(";"))
    if len({len(row) for row in rows}) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} must have rows of one length, as 0.5,0.5;0.25,0.75")
    return rows


def rates(text: str) -> tuple[float, ...]:
    """False-positive rates ``0.001,0.01``; ``none`` for none."""
    if text == "none":
        return ()
    found = tuple(float(part) for part in text.split(","))
    if not all(0.0 < rate < 1.0 for rate in found):
        raise argparse.ArgumentTypeError(f"{text!r} must be rates in (0, 1), as 0.001,0.01, or none")
    return found
