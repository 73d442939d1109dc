"""Checks of the arguments of the papers' statements: concrete numbers in, float64 out, whatever the user's settings.

Each function here checks one argument, whose name in error messages it is given, and returns it as float64.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxacct._precision import is_traced
from jaxacct._types import Direction, Ends
from jaxacct._validate import (
    check_count,
    check_delta,
    check_epsilon,
    check_exact,
    check_orders,
    check_positive,
    check_probability,
    checked_array,
    checked_choice,
)
from jaxacct.bounds.theorems import runs_of
from jaxacct.mechanisms import RandomAllocation

Real = NDArray[np.float64]
Floats: TypeAlias = float | Real
"""A float for scalar arguments; for arrays, which broadcast, float64 with their axes first."""


Bracket: TypeAlias = Ends[Floats]
"""Two numbers, or arrays of them, between which the true value lies."""


class Guarantee(NamedTuple):
    """A guarantee of (epsilon, delta)-differential privacy."""

    epsilon: Floats
    delta: Floats


def plain(values: Any) -> Any:
    """A float for a single number, else a float64 array."""
    array = np.asarray(values, np.float64)
    return array if array.ndim else float(array)


def _concrete(name: str, value: ArrayLike) -> Real:
    if is_traced(value):
        raise ValueError(f"{name} must be concrete numbers: a paper's statement cannot be evaluated inside jit or grad")
    return checked_array(name, value).astype(np.float64)


def counts(name: str, value: ArrayLike, *, least: int = 1) -> Real:
    """Whole numbers >= `least`, at most 2^53, as float64."""
    array = _concrete(name, value)
    check_count(name, array)
    if np.any(array < least):
        raise ValueError(f"{name}={value!r} must be >= {least}")
    return array


def shuffle_of(num_reports: ArrayLike, local_epsilon: ArrayLike) -> tuple[Real, Real]:
    """A number of reports >= 1 and a local epsilon >= 0, as float64."""
    return counts("num_reports", num_reports), non_negative("local_epsilon", local_epsilon)


def users_and_reports(num_users: ArrayLike, num_reports: ArrayLike) -> tuple[Real, Real]:
    """Whole numbers of users and of reports, as float64: at least one report, and at most one per user."""
    users, reports = counts("num_users", num_users), counts("num_reports", num_reports)
    if np.any(reports > users):
        raise ValueError(f"num_reports={num_reports!r} must be <= num_users={num_users!r}")
    return users, reports


def whole(name: str, value: ArrayLike, *, least: int = 1) -> int:
    """One whole number >= `least`, at most 2^53."""
    array = _concrete(name, value)
    if array.ndim:
        raise ValueError(f"{name}={value!r} must be one whole number")
    if not (least <= array <= 2.0**53 and array == np.floor(array)):
        raise ValueError(f"{name}={value!r} must be a whole number >= {least}")
    return int(array)


def positive(name: str, value: ArrayLike) -> Real:
    """Numbers in (0, inf), as float64."""
    array = _concrete(name, value)
    check_positive(name, array)
    check_exact(name, array)
    return array


def non_negative(name: str, value: ArrayLike) -> Real:
    """Numbers in [0, inf), as float64."""
    array = _concrete(name, value)
    check_epsilon(name, array)
    check_exact(name, array)
    return array


def probability(name: str, value: ArrayLike) -> Real:
    """Numbers in [0, 1], as float64."""
    array = _concrete(name, value)
    check_probability(name, array)
    check_exact(name, array)
    return array


def inner_probability(name: str, value: ArrayLike) -> Real:
    """Numbers in (0, 1), such as a target delta, as float64."""
    array = _concrete(name, value)
    check_delta(name, array)
    return array


def number(name: str, value: ArrayLike) -> float:
    """One number that is not nan; it may be inf."""
    array = _concrete(name, value)
    if array.ndim or np.isnan(array):
        raise ValueError(f"{name}={value!r} must be one number")
    return float(array)


def orders_of(value: ArrayLike, *, name: str = "orders") -> tuple[float, ...]:
    """Real Renyi orders > 1, a tuple of floats."""
    return tuple(float(a) for a in check_orders(name, value))


def whole_orders(value: ArrayLike, *, name: str = "orders") -> tuple[int, ...]:
    """Whole Renyi orders >= 2, a tuple of ints."""
    orders = orders_of(value, name=name)
    for a in orders:
        if not a.is_integer():
            raise ValueError(f"{name}={a} must be a whole number >= 2: the statement holds at whole orders only")
    return tuple(int(a) for a in orders)


def curve(name: str, value: ArrayLike) -> Real:
    """Renyi divergences [A] or [A, ..], float64, each >= 0 and not nan."""
    array = np.atleast_1d(_concrete(name, value))
    if not np.all(array >= 0):
        raise ValueError(f"{name}={value!r} must be >= 0")
    return array


def law(name: str, value: ArrayLike) -> Real:
    """Probabilities [n], float64, that add up to 1 within 1e-9."""
    array = _concrete(name, value)
    if array.ndim != 1 or array.size == 0 or not (np.all(array >= 0) and abs(math.fsum(array) - 1.0) < 1e-9):
        raise ValueError(f"{name}={value!r} must be one-dimensional probabilities that add up to 1")
    return array


def direction_of(value: Direction | str) -> Direction:
    """One direction of add/remove adjacency."""
    return checked_choice("direction", value, *Direction)


def mechanism_of(value: Any, kind: Any) -> None:
    """Raises ValueError unless `value` is a mechanism of this one public kind, with no number left out."""
    if type(value) is not kind:
        raise ValueError(f"mechanism={value!r} must be a jaxacct.{kind.__name__}")
    value.check()
    for name, number_of in value.numbers():
        if number_of is None:
            raise ValueError(f"{name}=None must be a number")


def run_of(value: RandomAllocation) -> RandomAllocation:
    """Random allocation with concrete scalar fields."""
    mechanism_of(value, RandomAllocation)
    runs_of(value)  # raises where a field is traced or an array
    return value


def log_of(values: Real) -> Real:
    """Logarithms, -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.log(values)
