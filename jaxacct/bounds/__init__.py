"""Bounds on the privacy of each mechanism, each by a stated theorem, and the one table of the methods that use them.

To add a bound, add a function and a `Method` record to one folder. To add a mechanism, add a folder, and list its table
where `jaxacct.bounds.composed.METHODS` is made.
"""

from jaxacct._method import Method
from jaxacct.bounds import composed
from jaxacct.bounds.composed import METHODS
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._given import check_given, check_whole

__all__ = ["METHODS", "analysis_theorem", "check_has_analysis", "methods_for"]


def check_has_analysis(mechanism: Mechanism) -> None:
    """Raises ValueError if a number is left out, or if no method covers mechanisms of this signature.

    The signature is the mechanism's type and the types that it wraps. A number of steps, which training counts, may be
    left out.
    """
    for part, _ in mechanism.parts() if mechanism.parts()[0][0] is not mechanism else ():
        check_has_analysis(part)
    check_given(mechanism, whole_run=False)
    if mechanism.signature() not in METHODS:
        raise ValueError(f"mechanism={mechanism!r} has no analysis here: {_what_has_one(mechanism)}")


def methods_for(mechanism: Mechanism, *, is_batch: bool = False) -> tuple[Method, ...]:
    """A tuple of the methods that cover `mechanism` (of a batch, some points), in declared order.

    Raises:
      ValueError: as `check_has_analysis`, and if a number of steps is left out.
    """
    check_has_analysis(mechanism)
    check_whole(mechanism)
    return composed.methods_of(mechanism, Method, is_batch=is_batch)


def _what_has_one(mechanism: Mechanism) -> str:
    """For an error message: which mechanisms its own type may wrap, or else the types that have an analysis."""
    inner = [key[1:] for key in METHODS if key[0] is type(mechanism) and len(key) > 1]
    if inner:
        kinds = ", ".join(dict.fromkeys("(".join(t.__name__ for t in key) + ")" * (len(key) - 1) for key in inner))
        return f"{type(mechanism).__name__} must wrap one of {kinds}; Composed([..]) runs several in turn"
    return "must be one of " + ", ".join(dict.fromkeys(key[0].__name__ for key in METHODS))


def analysis_theorem(mechanism: Mechanism) -> str | None:
    """A string, the theorem by which the analysed pair dominates `mechanism`; None if it has no loss distribution."""
    distribution = composed.distribution_of(mechanism)
    return None if distribution is None else distribution.source(mechanism)
