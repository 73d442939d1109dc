"""What fields hold, as plain values and as Python code."""

import enum
import re
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON takes it: lists, numbers, names; descriptions by their parameters."""
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):  # an array, or a NumPy scalar
        return value.tolist()
    if isinstance(value, enum.Enum):
        return value.value
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return value.parameters() if hasattr(value, "parameters") else value


def source_of(value: Any) -> str:
    """Python code that makes `value` again."""
    if hasattr(value, "source"):
        return str(value.source())
    if isinstance(value, tuple):
        return f"({', '.join(map(source_of, value))}{',' * (len(value) == 1)})"
    if isinstance(value, enum.Enum):
        return f"ja.{value}"
    if hasattr(value, "tolist"):
        return repr(value.tolist())
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # functions' addresses
