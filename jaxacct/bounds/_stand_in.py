"""Loss distributions of a mechanism that are those of another one, which stands for it."""

from collections.abc import Callable
from typing import Any

from jaxacct.bounds._distribution import Distribution

_ASKED = (
    "parts",
    "scale",
    "largest_loss",
    "reduction",
    "width_constant",
    "gap",
    "is_light",
    "is_from_above",
    "is_symmetric",
    "is_envelope",
)


def of_stand_in(
    distribution_of: Callable[..., Distribution | None], make: Callable[[Any], Any], theorem: str
) -> Distribution:
    """The class `Distribution` of a mechanism by the one that `distribution_of` gives for what `make` makes of it.

    It does not exist where `make` returns None, or what it makes has no distribution.
    """

    def of(name: str) -> Callable[..., Any]:
        def ask(mechanism: Any, *rest: Any) -> Any:
            run = make(mechanism)
            distribution = distribution_of(run)
            assert distribution is not None
            return getattr(distribution, name)(run, *rest)

        return ask

    def exists(mechanism: Any) -> bool:
        run = make(mechanism)
        return run is not None and distribution_of(run) is not None

    asked: dict[str, Any] = {name: of(name) for name in _ASKED}
    return Distribution(theorem=theorem, exists=exists, **asked)
