"""How results look in notebooks: tables, and small pictures of lines and bars, as self-contained HTML."""

import html
import math
from collections.abc import Sequence

_BAR = 160  # pixels of the longest bar
_WIDE, _HIGH, _EDGE = 320, 120, 8  # pixels of a picture, and around its lines
_HUES = (210, 25, 140, 275, 340, 60)  # degrees: blue first
_MOST_LINES = len(_HUES)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table; cells that are pictures (they begin with ``<svg``) are taken as they are."""

    def cell(text: str, kind: str) -> str:
        inside = text if text.startswith("<svg") else html.escape(text)
        return f'<{kind} style="text-align:left">{inside}</{kind}>'

    top = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    lines = ["".join(cell(text, "th") for text in head), *("".join(cell(text, "td") for text in row) for row in rows)]
    return f"<table>{top}{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def bar(value: float, largest: float, *, is_filled: bool = True) -> str:
    """A bar as long as the value; only its outline where it is a lower bound; none where it is infinite."""
    if not (math.isfinite(value) and largest > 0.0):
        return ""
    length = max(1.0, _BAR * value / largest)
    colour = f"hsl({_HUES[0]},60%,50%)"
    paint = f'fill="{colour}"' if is_filled else f'fill="none" stroke="{colour}"'
    return (
        f'<svg width="{_BAR + 2}" height="12" role="img" aria-label="{value:.4g}">'
        f'<rect x="1" y="1" width="{length:.1f}" height="10" {paint}/></svg>'
    )


def lines(x: Sequence[float], series: Sequence[Sequence[float]], label: str) -> str:
    """Lines over one axis, each of them a series, scaled to the picture; "" where fewer than two points are finite."""
    shown = [[(a, b) for a, b in zip(x, one, strict=True) if math.isfinite(b)] for one in series[:_MOST_LINES]]
    every = [point for one in shown for point in one]
    if len({a for a, _ in every}) < 2:
        return ""
    (left, right), (low, high) = ((min(ends), max(ends)) for ends in zip(*every, strict=True))

    def place(a: float, b: float) -> str:
        across = (a - left) / (right - left)
        up = (b - low) / (high - low) if high > low else 0.5
        return f"{_EDGE + across * (_WIDE - 2 * _EDGE):.1f},{_HIGH - _EDGE - up * (_HIGH - 2 * _EDGE):.1f}"

    drawn = "".join(
        f'<polyline points="{" ".join(place(*point) for point in one)}" fill="none" stroke-width="2" '
        f'stroke="hsl({hue},60%,50%)"/>'
        for hue, one in zip(_HUES, shown, strict=False)
    )
    frame = f'<rect x="0.5" y="0.5" width="{_WIDE - 1}" height="{_HIGH - 1}" fill="none" stroke="#8888"/>'
    return f'<svg width="{_WIDE}" height="{_HIGH}" role="img" aria-label="{html.escape(label)}">{frame}{drawn}</svg>'


class Text(str):
    """Text of several lines, which notebooks show as it is printed."""

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"
