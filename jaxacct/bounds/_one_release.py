"""The loss distributions of a single release that every record takes part in."""

import math
from collections.abc import Callable
from typing import Any

from jaxacct._method import always, itself
from jaxacct.bounds._distribution import Distribution, parts_by_laws
from jaxacct.bounds.bases import law
from jaxacct.bounds.bases._base import Base
from jaxacct.divergence.lattice._ratio import RatioLaw, Side


def of_one_release(base: Base, theorem: str | Callable[[Any], str], spread: Callable[[Any], float]) -> Distribution:
    """The declaration (`Distribution`, a class) for a single release that every record takes part in."""

    def laws(release: Any, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
        return [(law(release, 1.0, step, side, tail), 1)]

    return Distribution(
        theorem=theorem,
        parts=parts_by_laws(laws),
        scale=lambda release: (math.log1p(spread(release)), 1),
        largest_loss=base.largest_loss,
        below=itself,
        width_constant=lambda release: 0.5,
        divided=lambda release: base.atoms(release, 1.0).divided,
        is_light=lambda release: base.is_light,
        is_from_above=base.is_from_above,
        exists=always,
        is_symmetric=lambda release: base.is_symmetric,
        is_envelope=base.is_envelope,
    )
