"""A sweep of a measure: advantage, a true positive rate, mu or rho at each point."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import Query
from jaxacct._types import Bound
from jaxacct.measures import Measure
from jaxacct.mechanisms._base import Mechanism
from jaxacct.sweeping._grid import Grid
from jaxacct.sweeping._question import SweptQuestion, swept


@dataclasses.dataclass(frozen=True)
class Measured(SweptQuestion):
    """A measure of `jaxacct.measures`, computed at one point after the other."""

    measure: Measure

    @property
    def quantity(self) -> str:
        """The measure's name."""
        return self.measure.name

    @property
    def worst(self) -> float:
        """The value that always holds."""
        return self.measure.worst

    def at(self, points: dict[str, NDArray[Any]]) -> tuple[Any, Any]:
        """The mechanism of some points, which has no target."""
        return self._described(points), None

    def __call__(self, points: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """The answers at some points."""
        count = len(next(iter(points.values())))
        asked = ({name: values[i].item() for name, values in points.items()} for i in range(count))
        return np.array([self.measure(self._described(point)) for point in asked], np.float64)

    def bound(self, points: dict[str, NDArray[Any]]) -> Bound:
        """The kind of bound that the measure gives."""
        del points
        return self.measure.bound

    def is_on_lanes(self, points: dict[str, NDArray[Any]]) -> bool:
        """Never: each point is computed by itself."""
        del points
        return False

    def num_at_once(self, points: dict[str, NDArray[Any]]) -> int:
        """One."""
        del points
        return 1

    def settings(self) -> dict[str, Any]:
        """The settings of the question, with the measure."""
        return {**super().settings(), "measure": repr(self.measure)}


def measured(mechanism: Mechanism, grid: Grid, measure: Any, others: dict[str, Any]) -> Measured:
    """The question of a sweep of a measure; raises ValueError if it is not valid."""
    if not isinstance(measure, Measure):
        raise ValueError(f"measure={measure!r} must be one of jaxacct.measures, as measures.Advantage()")
    for name, value in others.items():
        if value is not None or name in grid.axes:
            raise ValueError(f"{name} must be left out where a measure is swept")
    paths = swept(mechanism, grid)
    return Measured(mechanism, paths, Query.DELTA, None, None, None, None, None, measure)
