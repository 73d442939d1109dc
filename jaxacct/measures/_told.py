"""What a measure gives for a mechanism, for statements and for the command line."""

from typing import Any

from jaxacct._types import Bound
from jaxacct.measures._measure import Measure
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import shown, shown_down


def measure_fields(measure: Measure, mechanism: Mechanism) -> dict[str, Any]:
    """A measure's value for a mechanism, with its name and bound, ready for JSON."""
    bound = measure.bound.value
    return {"measure": measure.name, "words": measure.words(), "value": measure(mechanism), "bound": bound}


def measure_text(facts: dict[str, Any]) -> str:
    """What `measure_fields` returned, in words; the number is rounded to the safe side."""
    is_upper = facts["bound"] == Bound.UPPER.value
    side, value = ("at most", shown(facts["value"])) if is_upper else ("at least", shown_down(facts["value"]))
    return f"{facts['words']} {side} {value}"
