"""Reference values: reading the files, and comparing one value with what jaxacct answers.

A file `PAPER.json` or `PAPER.anything.json` is a list of entries `{system, quantity, args, value, kind, how}`:
decimal strings at decimal arguments, `kind` "exact", "upper" or "lower" with respect to the quantity named. An optional
`rational` gives the value as a fraction.
"""

import dataclasses
import enum
import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

# The name of the property by which a test tells what became of its entry.
OUTCOME = "reference outcome"

# Fewer printed digits than this are an exact decimal (30.0, 0.15625), not a rounded one.
_SHORTEST_ROUNDED = 9


class Declined(Exception):  # noqa: N818  (not an error: the entry is left uncovered)
    """Raised by a callable of the table for an entry that jaxacct has no matching answer to."""


class Side(enum.Enum):
    """Where our value may lie with respect to the reference, beyond its last printed digit."""

    NEVER_BELOW = "a certified upper bound: above by at most the slack"
    NEVER_ABOVE = "a certified lower bound: below by at most the slack"
    EITHER = "a plain value: off by at most the tolerance"


@dataclasses.dataclass(frozen=True)
class Quantity:
    """How jaxacct answers one quantity, and how near the answer must be.

    Attributes:
      evaluate: from the entry's `args` to a float; raises `Declined` for entries that it does not answer.
      why: one line that justifies `tolerance`.
      tolerance: relative.
      side: what kind of answer ours is.
    """

    evaluate: Callable[[dict[str, Any]], float]
    why: str
    tolerance: float = 1e-11
    side: Side = Side.NEVER_BELOW


@dataclasses.dataclass(frozen=True)
class Entry:
    """One reference value and where it stands."""

    paper: str
    file: str
    index: int
    system: str
    quantity: str
    kind: str
    value: str
    args: dict[str, Any]
    rational: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.paper, self.system, self.quantity

    @property
    def label(self) -> str:
        """Unique, and the same in every process that reads the folder."""
        return f"{self.file}-{self.index}-{self.system}-{self.quantity}"

    def number(self) -> Fraction:
        return Fraction(self.rational if self.rational is not None else self.value)

    def last_digit(self) -> Fraction:
        """One unit of the last printed digit; 0 for a value that is an exact decimal or a fraction."""
        digits = Decimal(self.value).as_tuple()
        if self.rational is not None or len(digits.digits) < _SHORTEST_ROUNDED:
            return Fraction(0)
        return Fraction(10) ** int(digits.exponent)


def real(value: Any) -> float:
    """A number of `args`; strings are decimals or fractions."""
    return float(Fraction(value)) if isinstance(value, str) else float(value)


def span(text: str) -> tuple[int, ...]:
    """The whole numbers of "2..256", "integers 2..256" or "2..256 integers"."""
    first, last = text.removeprefix("integers ").removesuffix(" integers").split("..")
    return tuple(range(int(first), int(last) + 1))


def read_folder(folder: Path) -> list[Entry]:
    """Every entry of every file, in a fixed order; UsageError if there is none, ValueError if one is malformed."""
    entries = [entry for path in sorted(folder.glob("*.json")) for entry in _read_file(path)]
    if not entries:
        raise pytest.UsageError(f"--reference-dir {folder} holds no reference values (*.json)")
    return entries


def _read_file(path: Path) -> list[Entry]:
    entries = []
    for index, item in enumerate(json.loads(path.read_text())):
        try:
            fields = {name: item[name] for name in ("system", "quantity", "kind", "value", "args")}
            entry = Entry(
                path.name.split(".")[0], path.name[: -len(".json")], index, rational=item.get("rational"), **fields
            )
            if entry.kind not in ("exact", "upper", "lower") or not isinstance(entry.value, str):
                raise ValueError("kind must be exact, upper or lower, and value a decimal string")
            Decimal(entry.value)
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"{path.name}, entry {index}: {error!r}") from error
        entries.append(entry)
    return entries


def relative_error(entry: Entry, ours: float) -> float:
    """(ours - reference) / |reference|, exact until the last rounding."""
    reference = entry.number()
    difference = Fraction(ours) - reference
    return (
        float(difference / abs(reference)) if reference else math.copysign(math.inf, difference) if difference else 0.0
    )


def disagreement(entry: Entry, quantity: Quantity, ours: float) -> str | None:
    """What is wrong with our answer; None if it is near enough, on its side."""
    if math.isnan(ours):
        return "ours is nan"
    if math.isinf(ours) or not Decimal(entry.value).is_finite():
        return None if ours == float(entry.value) else f"ours {ours} against {entry.value}"
    reference, digit = entry.number(), entry.last_digit()
    slack = abs(reference) * Fraction(quantity.tolerance)
    low = reference - digit - (0 if quantity.side is Side.NEVER_BELOW else slack)
    high = reference + digit + (0 if quantity.side is Side.NEVER_ABOVE else slack)
    if low <= Fraction(ours) <= high:
        return None
    return (
        f"ours {ours!r} against {entry.value} ({entry.kind}): relative error {relative_error(entry, ours):+.3g}; "
        f"{quantity.side.value} of {quantity.tolerance:g} ({quantity.why})"
    )
