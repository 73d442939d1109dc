"""Checks of concrete arguments of public functions; tracers pass, and fail closed in the kernels."""

from __future__ import annotations

import enum
import math
import numbers
import sys
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._jax import Array, Tracer, jax, jnp

_PLAIN = (int, float)
_LARGEST = sys.float_info.max
_LEAST = sys.float_info.min  # the least normal double: compiled programs take what is smaller for 0

_Choice = TypeVar("_Choice", bound=enum.Enum)


def checked_choice(name: str, value: Any, *among: _Choice) -> _Choice:
    """The member of `among` that `value` is or names, by name or words in any case; else raises ValueError."""
    if isinstance(value, str):
        plain = value.strip().casefold().replace("_", " ").replace("-", " ")
        for one in among:
            if plain in (one.name.casefold().replace("_", " "), str(one.value).casefold()):
                return one
    for one in among:
        if value is one:
            return one
    words = " or ".join(f"{type(one).__name__}.{one.name} ({one.name.lower()!r})" for one in among)
    raise ValueError(f"{name}={value!r} must be {words}")


def is_checkable(value: Any) -> bool:
    """Whether `value` is a concrete number or array (tracers and pytree placeholders are not)."""
    if isinstance(value, Tracer):
        return False
    return isinstance(value, numbers.Number | np.ndarray | np.generic | Array | list | tuple | str)


def is_count(value: Any) -> Any:
    """Elementwise, for arrays and tracers: whether value is a whole number in [1, 2^53]."""
    return (value >= 1) & (value <= 2.0**53) & (value % 1.0 == 0.0)


def is_exact(value: Any) -> Any:
    """Elementwise, for arrays and tracers: whether compiled programs see a number as it is.

    Below the least normal number of its type, 2.2e-308 for doubles, they take it for 0: in comparisons, not in bits.
    """
    if not isinstance(value, Array):
        return (value == 0) | (np.abs(value) >= _LEAST)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value == value
    kind: Any = jnp.finfo(value.dtype)  # type: ignore[no-untyped-call]
    bits = jax.lax.bitcast_convert_type(value, f"int{kind.bits}") & (2 ** (kind.bits - 1) - 1)
    return (bits == 0) | (bits >= 2**kind.nmant)


def checked_array(name: str, value: Any) -> NDArray[Any]:
    """`value` as a NumPy array; raises ValueError unless it is concrete and of whole or real numbers."""
    if type(value) is int and abs(value) >= 2**63:  # NumPy would make it an object
        value = float(value) if abs(value) <= _LARGEST else math.inf if value > 0 else -math.inf
    try:
        array = np.asarray(value)
    except Exception as error:
        if any(isinstance(leaf, Tracer) for leaf in _trees.leaves(value)):
            stacked = ", or one array by jax.numpy.stack where that may be traced" * isinstance(value, list | tuple)
            raise ValueError(
                f"{name} is traced by jit, vmap or grad, and must be concrete numbers{stacked}. Make it outside and "
                "close over it, or make it a static argument"
            ) from error
        raise ValueError(f"{name}={value!r} must be a number or an array of numbers") from error
    if array.dtype.kind == "V" and jnp.issubdtype(array.dtype, np.floating):  # bfloat16 and the like
        array = array.astype(np.float64)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name}={value!r} must be a number or an array of numbers")
    return array


def _require(ok: NDArray[Any], name: str, array: NDArray[Any], rule: str) -> None:
    if not ok.all():
        worst = array[~np.broadcast_to(ok, array.shape)].flat[0] if array.ndim else array[()]
        where = "" if array.ndim == 0 else " in an array"
        raise ValueError(f"{name}={worst}{where} must be {rule}")


def check_positive(name: str, value: Any) -> None:
    """Raises ValueError unless 0 < value < inf."""
    if type(value) in _PLAIN and 0 < value <= _LARGEST:  # array checks cost microseconds
        return
    if is_checkable(value):
        array = checked_array(name, value)
        _require((array > 0) & np.isfinite(array), name, array, "> 0 and finite")


def check_probability(name: str, value: Any) -> None:
    """Raises ValueError unless 0 <= value <= 1."""
    if type(value) in _PLAIN and 0 <= value <= 1:  # array checks cost microseconds
        return
    if is_checkable(value):
        array = checked_array(name, value)
        _require((array >= 0) & (array <= 1), name, array, "in [0, 1]")


def check_exact(name: str, value: Any) -> None:
    """Raises ValueError for a number other than 0 that compiled programs take for 0."""
    if type(value) in _PLAIN and (value == 0 or abs(value) >= _LEAST):  # array checks cost microseconds
        return
    if is_checkable(value):
        array = checked_array(name, value)
        rule = "0 or at least 2.2e-308, the least normal double, below which compiled programs take a number for 0"
        _require(is_exact(array.astype(np.float64)), name, array, rule)


def check_delta(name: str, value: Any) -> None:
    """Raises ValueError unless 0 < value < 1."""
    if type(value) in _PLAIN and 0 < value < 1:  # array checks cost microseconds
        return
    if not isinstance(value, Tracer):
        array = checked_array(name, value)
        _require((array > 0) & (array < 1), name, array, "in (0, 1)")


def check_epsilon(name: str, value: Any) -> None:
    """Raises ValueError unless 0 <= value < inf."""
    if type(value) in _PLAIN and 0 <= value <= _LARGEST:  # array checks cost microseconds
        return
    if not isinstance(value, Tracer):
        array = checked_array(name, value)
        _require((array >= 0) & np.isfinite(array), name, array, ">= 0 and finite")


def check_count(name: str, value: Any, *, largest: float = 2**53) -> None:
    """Raises ValueError unless value is a whole number in [1, largest]."""
    if type(value) is int and 1 <= value <= largest:
        return
    if is_checkable(value):
        array = checked_array(name, value)
        with np.errstate(invalid="ignore"):
            whole = np.isfinite(array) & (array == np.floor(array))
        _require(whole & (array >= 1) & (array <= largest), name, array, f"a whole number in [1, {largest:.0f}]")


def check_at_most(name: str, value: Any, limit_name: str, limit: Any) -> None:
    """Raises ValueError unless value <= limit."""
    if type(value) is int and type(limit) is int and value <= limit:
        return
    if is_checkable(value) and is_checkable(limit):
        array, top = checked_array(name, value), checked_array(limit_name, limit)
        try:
            array, top = np.broadcast_arrays(array, top)
        except ValueError as error:
            message = f"{name} of shape {array.shape} and {limit_name} of shape {top.shape} must broadcast"
            raise ValueError(message) from error
        if not np.all(array <= top):
            at = np.flatnonzero(~(array <= top).reshape(-1))[0]
            shown, cap = array.reshape(-1)[at], top.reshape(-1)[at]
            raise ValueError(f"{name}={shown} must be <= {limit_name}={cap}")


def checked_number(name: str, value: Any) -> float:
    """`value` as a float; raises ValueError unless it is one concrete number that is not nan."""
    array = checked_array(name, value)
    if array.ndim or np.isnan(array):
        raise ValueError(f"{name}={value!r} must be a number")
    return float(array)


def uncut(value: Any) -> Any:
    """`value` in a form that JAX does not silently cut to its last 32 bits, as it does NumPy integers in arguments.

    A scalar as a Python number, which JAX reports if it overflows; an array as float64.
    """
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "iu" or value.dtype.itemsize <= 4:
        return value
    if not 2**31 <= int(np.asarray(value).max(initial=0)) <= 2**53:  # what is larger is no count, and refused
        return value
    return value.astype(np.float64) if value.ndim else value.item()


def python_number(value: Any) -> Any:
    """A NumPy or JAX scalar as the Python number that it holds, which compares, hashes, and can be shown."""
    return value.item() if isinstance(value, np.generic | np.ndarray | Array) and np.ndim(value) == 0 else value


def checked_whole(name: str, value: Any, least: int, most: int) -> int:
    """`value` as an int; raises ValueError unless it is a whole number in [`least`, `most`], of Python's or NumPy's."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    raise ValueError(f"{name}={value!r} must be a whole number in [{least}, {most}]")


def check_precision(value: Any) -> None:
    """Raises ValueError unless value is None or one number in (0, inf]."""
    if value is not None and checked_number("precision", value) <= 0:
        raise ValueError(f"precision={value!r} must be > 0")


def check_orders(name: str, value: Any, *, with_limits: bool = False) -> NDArray[Any]:
    """The Renyi orders as a float64 array [A]; raises ValueError unless each is finite and > 1, or 1 or inf."""
    if isinstance(value, Tracer):
        raise ValueError(f"{name} must be concrete numbers: the orders choose the program that is compiled")
    array = np.atleast_1d(checked_array(name, value)).astype(np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} of shape {array.shape} must be one-dimensional and not empty")
    if with_limits:
        _require(array >= 1, name, array, ">= 1")
    else:
        _require((array > 1) & np.isfinite(array), name, array, "> 1 and finite")
    return array
