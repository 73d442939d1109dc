"""Numbers that must be given before a question can be answered: an omitted count would understate the run."""

import dataclasses
from typing import Any

from jaxacct.mechanisms._fields import UNKNOWN, number_fields


def check_given(description: Any, *, whole_run: bool = True) -> None:
    """Raises ValueError if a number of `description` itself, not of what it wraps, is left out.

    What `training` counts may be left out if the question is not about the `whole_run`.
    """
    for name, value in description.numbers():
        if value is UNKNOWN or (value is None and (whole_run or not _may_be_counted(description, name))):
            raise ValueError(_left_out(description, name, value))


def check_whole(description: Any) -> None:
    """Raises ValueError if a number of `description`, or of what it wraps, is left out."""
    check_given(description)
    for part in description.wrapped():
        check_whole(part)


def given(description: Any, name: str) -> Any:
    """The number that the field holds; raises ValueError if it is left out."""
    value = getattr(description, name)
    if value is None:
        raise ValueError(_left_out(description, name, value))
    return value


def _may_be_counted(description: Any, name: str) -> bool:
    """Whether it may be left out, with None as its default."""
    return any(field.default is None for field in dataclasses.fields(description) if field.name == name)


def _left_out(description: Any, name: str, value: Any) -> str:
    if value is not None or not _may_be_counted(description, name):
        return f"{name}={value!r} must be a number or an array of numbers"
    return f"{name} must be given: the number of {number_fields(type(description))[name].help}; write {name}=1 for one"
