"""Claims: numbers that a page states in its prose, beside how they are computed."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import jaxacct as ja

ROOT = Path(__file__).parents[2]


class Claim(NamedTuple):
    """`text` of a page, with places for `numbers()`."""

    page: str
    text: str
    numbers: Callable[[], tuple[Any, ...]]
    compiles: bool = False  # for seconds


@functools.cache
def page(name: str) -> str:
    """str: the text of a page, on one line."""
    return " ".join((ROOT / name).read_text().split())


def check(claim: Claim) -> None:
    """None, if the claim with its numbers stands on its page."""
    assert claim.text.format(*claim.numbers()) in page(claim.page)


def cases(claims: tuple[Claim, ...]) -> list[Any]:
    """The settings of a test: one for each claim, those that take seconds marked."""
    return [pytest.param(c, marks=[pytest.mark.more] if c.compiles else [], id=c.text[:50]) for c in claims]


def ends(mechanism: Any, delta: float = 1e-6) -> tuple[float, float]:
    """Both ends of epsilon."""
    found = ja.epsilon_interval(mechanism, delta)
    return float(found.lower), float(found.upper)
