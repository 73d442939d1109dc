"""Several runs on the same data."""

from typing import Any

import numpy as np

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, Parts, description
from jaxacct.mechanisms._fields import Privacy, base, count
from jaxacct.mechanisms._schedules import Schedule


@description
class Composed(Mechanism):
    """Adaptive composition: each of `mechanisms` run as often as `counts` says.

    Args:
      mechanisms: one mechanism, or a sequence of them.
      counts: whole number >= 1 for each mechanism, as a tuple or list (one number is shared by all). An array is a
        batch of the count of one mechanism.

    Raises:
      ValueError: if there is no mechanism, a count is out of range, or several mechanisms share an array of counts.

    >>> from jaxacct import Gaussian, Composed
    >>> Composed(Gaussian(2.0), 10)
    Composed(mechanisms=(Gaussian(noise_multiplier=2.0),), counts=(10,))
    """

    mechanisms: Any = base(several=True, of_any_type=True)
    counts: Any = count(
        "number of runs", "T", help="releases of the whole data", privacy=Privacy.FALLS, several=True, default=1
    )

    def __post_init__(self) -> None:
        several = isinstance(self.mechanisms, tuple | list)
        mechanisms = tuple(self.mechanisms) if several else (self.mechanisms,)
        if not mechanisms:
            raise ValueError("mechanisms=() must name at least one mechanism")
        counts = tuple(self.counts) if isinstance(self.counts, tuple | list) else (self.counts,) * len(mechanisms)
        if len(counts) != len(mechanisms):
            raise ValueError(f"counts has {len(counts)} entries; must be one for each of {len(mechanisms)} mechanisms")
        if len(mechanisms) > 1 and not isinstance(self.counts, tuple | list) and np.ndim(self.counts):
            wanted = f"a tuple, one entry for each of the {len(mechanisms)} mechanisms, or one number"
            raise ValueError(f"counts={self.counts!r} must be {wanted}: an array is a batch")
        object.__setattr__(self, "mechanisms", mechanisms)
        object.__setattr__(self, "counts", counts)
        super().__post_init__()

    @property
    def relation(self) -> NeighboringRelation:  # type: ignore[override]
        """That of all parts; raises ValueError where they differ."""
        relations = {part.relation for part in self.mechanisms}
        if len(relations) > 1:
            raise ValueError(f"mechanism={self!r}: its parts must share one adjacency")
        return relations.pop()

    @property
    def scheme(self) -> str:  # type: ignore[override]
        """That of its parts where they share one."""
        schemes = {part.scheme for part in self.mechanisms}
        return schemes.pop() if len(schemes) == 1 else "composition"

    @property
    def released(self) -> str:  # type: ignore[override]
        """What each part releases."""
        return "; ".join(dict.fromkeys(part.released for part in self.mechanisms))

    @property
    def reduction(self) -> str | None:  # type: ignore[override]
        """Those of its parts."""
        found = dict.fromkeys(part.reduction for part in self.mechanisms if part.reduction is not None)
        return " and ".join(found) or None

    def parts(self) -> Parts:
        return tuple(zip(self.mechanisms, self.counts, strict=True))

    def describe(self) -> str:
        return " + ".join(f"{count:.0f} x ({part.describe()})" for part, count in self.parts())

    def assumptions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for part in self.mechanisms for line in part.assumptions()))

    def loses_nothing(self) -> bool:
        return all(part.loses_nothing() for part in self.mechanisms)

    def noise_schedule(self) -> Schedule:
        if len(self.mechanisms) > 1:
            return super().noise_schedule()
        found: Schedule = self.mechanisms[0].noise_schedule()
        return found
