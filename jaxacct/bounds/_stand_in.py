"""Loss distributions of a mechanism that are those of another mechanism, its stand-in."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxacct._types import Bound
from jaxacct.bounds._distribution import Distribution, Parts
from jaxacct.mechanisms._base import Mechanism

_ASKED = (
    "parts",
    "scale",
    "largest_loss",
    "width_constant",
    "divided",
    "is_light",
    "is_from_above",
    "is_symmetric",
    "is_envelope",
)


def of_stand_in(
    distribution_of: Callable[..., Distribution | None], make: Callable[[Any], Any], theorem: str
) -> Distribution:
    """The `Distribution` (a class) of a mechanism: that of its stand-in, the mechanism that `make` returns.

    It does not exist where `make` returns None, or where `distribution_of` knows none for the stand-in.
    """

    def distribution(run: Any) -> Distribution:
        found = distribution_of(run)
        assert found is not None
        return found

    def of(name: str) -> Callable[..., Any]:
        def ask(mechanism: Any, *rest: Any) -> Any:
            run = make(mechanism)
            return getattr(distribution(run), name)(run, *rest)

        return ask

    def below(mechanism: Any) -> Any:
        run = make(mechanism)
        return mechanism if distribution(run).below(run) is run else None

    def exists(mechanism: Any) -> bool:
        run = make(mechanism)
        return run is not None and distribution_of(run) is not None

    asked: dict[str, Any] = {name: of(name) for name in _ASKED}
    return Distribution(theorem=theorem, exists=exists, below=below, **asked)


def in_own_relation(parts: Callable[..., Parts]) -> Callable[..., Parts]:
    """A function for `Distribution.parts`: `parts`, tagged with the adjacency of the mechanism that is asked about."""

    def made(mechanism: Mechanism, step: float, bound: Bound, tail: float) -> Parts:
        of, relation = parts(mechanism, step, bound, tail), mechanism.relation
        return lambda d: [(dataclasses.replace(pld, neighboring_relation=relation), count) for pld, count in of(d)]

    return made
