"""The size of the data set for which a description was made, where it is known."""

import dataclasses
from typing import Any

from jaxacct._validate import check_count, checked_number


def remembered() -> Any:
    """The field `dataset_size`: shown where it is known, but neither compared nor accounted for."""
    metadata = {"static": True, "silent": True}
    return dataclasses.field(default=None, repr=False, compare=False, metadata=metadata)


def is_silent(field: Any, value: Any) -> bool:
    """Whether a field is left out of what is shown."""
    return value is None and field.metadata.get("silent", False)


def check_size(size: Any) -> None:
    """Raises ValueError unless it is None or a whole number >= 1."""
    if size is not None:
        check_count("dataset_size", checked_number("dataset_size", size))


def known_size(mechanism: Any) -> int | None:
    """The size of the data set that a mechanism, or what it wraps, was described for; None where none is known."""
    while mechanism is not None:
        size = getattr(mechanism, "dataset_size", None)
        if size is not None:
            return int(size)
        mechanism = getattr(mechanism, "mechanism", None)
    return None


_NUMBERS = ("num_records", "num_reports", "num_users")  # fields that hold the number


def number_of_people(mechanism: Any) -> int | None:
    """How many records, reports or users a mechanism with scalar fields is about; None where no field holds it."""
    size, inner = known_size(mechanism), mechanism
    while size is None and inner is not None:
        size = next((int(getattr(inner, name)) for name in _NUMBERS if hasattr(inner, name)), None)
        inner = getattr(inner, "mechanism", None)
    return size
