"""The loss distribution of a composition, made of those of its parts, each taken as often as the part is run."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from jaxacct._types import Bound
from jaxacct.bounds._distribution import Distribution, Parts
from jaxacct.bounds._parts import flattened
from jaxacct.curves._regridding import refined
from jaxacct.mechanisms import Composed
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import up

_LITTLE = 0.01  # nats, of a part's loss: steers running time


def composed_distribution(pick: Callable[[Mechanism], Distribution | None]) -> Distribution:
    """The `Distribution` (a class) of compositions; that of each part is what `pick` returns for it."""

    def distributions(mechanism: Composed) -> list[tuple[Distribution, Any, Any]]:
        found = [(pick(part), part, count) for part, count in flattened(mechanism)]
        return [(distribution, part, count) for distribution, part, count in found if distribution is not None]

    def theorem(mechanism: Composed) -> str:
        """The theorems of the parts, each once."""
        return "; ".join(dict.fromkeys(distribution.source(part) for distribution, part, _ in distributions(mechanism)))

    def loss_parts(mechanism: Composed, step: float, bound: Bound, tail: float) -> Parts:
        """Parts with little loss, but wider than most, get a step larger by a power of two, which costs less."""
        whole, runs = scale(mechanism)
        made: list[tuple[Parts, int, int]] = []
        for of, part, count in distributions(mechanism):
            own, times = of.scale(part)
            wide = of.divided(part) == 0.0 and whole * times < own * runs and own < _LITTLE**2 * times
            factor = 1 << int(0.5 * math.log2(own * runs / (whole * times))) if wide else 1
            made.append((of.parts(part, factor * step, bound, tail), int(count), factor))
        return lambda direction: [
            (refined(pld, factor), times * count) for parts, count, factor in made for pld, times in parts(direction)
        ]

    def scale(mechanism: Composed) -> tuple[float, int]:
        """(sum of count times squared scale of the loss, sum of counts) over the parts."""
        scales = [(of.scale(part), int(count)) for of, part, count in distributions(mechanism)]
        return sum(c * s for (s, _), c in scales), sum(c * n for (_, n), c in scales)

    def largest_loss(mechanism: Composed) -> float:
        """Losses add under composition."""
        found = distributions(mechanism)
        return up(math.fsum(up(of.largest_loss(part) * count, 32) if count else 0.0 for of, part, count in found), 32)

    def below(mechanism: Composed) -> Composed | None:
        """`mechanism`, with parts analysed by a reduction replaced by ones that reveal less; None if unknown."""
        parts = [(of.below(part), part, count) for of, part, count in distributions(mechanism)]
        if any(less is None for less, _, _ in parts):
            return None
        if all(less is part for less, part, _ in parts):
            return mechanism
        return Composed(tuple(less for less, _, _ in parts), tuple(count for _, _, count in parts))

    def of_all(name: str, gather: Callable[[Iterable[Any]], Any]) -> Callable[[Any], Any]:
        return lambda mechanism: gather(getattr(of, name)(part) for of, part, _ in distributions(mechanism))

    return Distribution(
        theorem=theorem,
        parts=loss_parts,
        scale=scale,
        largest_loss=largest_loss,
        below=below,
        width_constant=of_all("width_constant", max),
        divided=of_all("divided", max),
        is_light=of_all("is_light", all),
        is_from_above=of_all("is_from_above", any),
        is_envelope=of_all("is_envelope", any),
        is_symmetric=of_all("is_symmetric", all),
        exists=lambda mechanism: all(pick(part) is not None for part, _ in flattened(mechanism)),
    )
