"""Several runs on the same data."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxacct._jax import Array, jnp
from jaxacct._precision import is_traced
from jaxacct._types import NeighboringRelation
from jaxacct._validate import python_number
from jaxacct.mechanisms._base import Mechanism, Parts, description
from jaxacct.mechanisms._fields import UNKNOWN, Privacy, base, count
from jaxacct.mechanisms._gaussian import Gaussian
from jaxacct.mechanisms._schedules import Schedule

_ROUNDINGS = 8.0  # of quotients, squares and a root; and one more for each part


def _together(noises: Sequence[Any], counts: Sequence[Any]) -> Any:
    """(sum_i count_i / noise_i^2)^(-1/2), rounded down."""
    xp: Any = jnp if any(isinstance(number, Array) for number in (*noises, *counts)) else np
    kind = xp.result_type(float)
    held = [xp.asarray(noise, kind) for noise in noises]
    least = functools.reduce(xp.minimum, held)
    parts = [xp.asarray(count, kind) * (least / noise) ** 2 for noise, count in zip(held, counts, strict=True)]
    down = 1.0 - (_ROUNDINGS + len(held)) * float(xp.finfo(kind).eps)
    found = least / xp.sqrt(functools.reduce(operator.add, parts)) * xp.asarray(down, kind)
    return found if xp is jnp else python_number(found)


@description
class Composed(Mechanism):
    """Adaptive composition: each of `mechanisms` run the number of times in `counts`.

    Args:
      mechanisms: one mechanism, or a sequence of them.
      counts: how many times each mechanism is run, a whole number >= 1: a tuple or list of them, or one number for
        all. An array is for a single mechanism, and makes a batch: one answer for each of its entries.

    Raises:
      ValueError: if there is no mechanism, a count is out of range, or several mechanisms share an array of counts.

    >>> from jaxacct import Gaussian, Composed
    >>> Composed(Gaussian(2.0), 10)
    Composed(mechanisms=(Gaussian(noise_multiplier=2.0),), counts=(10,))
    """

    mechanisms: Any = base(several=True, of_any_type=True)
    counts: Any = count(
        "number of runs", "T", help="results, each from all the data", privacy=Privacy.FALLS, several=True, default=1
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
        """The adjacency of all parts; raises ValueError where they differ."""
        relations = {part.relation for part in self.mechanisms}
        if len(relations) > 1:
            raise ValueError(f"mechanism={self!r}: its parts must share one adjacency")
        return relations.pop()

    @property
    def scheme(self) -> str:  # type: ignore[override]
        """The scheme of its parts where they share one."""
        schemes = {part.scheme for part in self.mechanisms}
        return schemes.pop() if len(schemes) == 1 else "composition"

    @property
    def released(self) -> str:  # type: ignore[override]
        """What each part releases."""
        return "; ".join(dict.fromkeys(part.released for part in self.mechanisms))

    @property
    def reduction(self) -> str | None:  # type: ignore[override]
        """The reductions of its parts."""
        found = dict.fromkeys(part.reduction for part in self.mechanisms if part.reduction is not None)
        return " and ".join(found) or None

    def parts(self) -> Parts:
        return tuple(zip(self.mechanisms, self.counts, strict=True))

    def as_one_release(self) -> Mechanism:
        """One equally private `Gaussian` for Gaussian parts: 1/sigma^2 = sum_i count_i / sigma_i^2, sigma rounded down.

        Let b say whether the record takes part (1 or 0). In units of its noise, release i is b v_i plus N(0, I), where
        v_i has a norm of at most 1/sigma_i and may depend on earlier releases. It can be made from Z_i = b/sigma_i +
        N(0, 1), by adding independent noise to Z_i times a vector. So all releases can be made from the vector Z, which
        is b (1/sigma_1, ..) plus N(0, I), and one coordinate contains all that Z says about b: b/sigma + N(0, 1).
        Hence, whatever hides b (coins or an allocation) independently of the other records, all releases of all steps
        are post-processing of one Gaussian release per step; and where |v_i| = 1/sigma_i is attained nothing is lost.
        """
        if not all(isinstance(part, Gaussian) for part in self.mechanisms):
            return self
        noises = [part.noise_multiplier for part in self.mechanisms]
        if any(number is None or number is UNKNOWN for number in (*noises, *self.counts)):
            return self
        together = _together(noises, self.counts)
        if is_traced(self):  # traced counts out of range cannot raise, and would be lost here
            together = jnp.where(self.in_domain(), together, jnp.nan)
        return Gaussian(together)

    def describe(self) -> str:
        return " + ".join(f"{count:.0f} x ({part.describe()})" for part, count in self.parts())

    def assumptions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for part in self.mechanisms for line in part.assumptions()))

    def loses_nothing(self) -> bool:
        return all(part.loses_nothing() for part in self.mechanisms)

    def releases(self, number: int) -> tuple[Parts, ...]:
        """`number` runs of its only part, if that is one release."""
        if len(self.mechanisms) > 1 or not self.mechanisms[0].takes_all:
            return super().releases(number)
        return (((self.mechanisms[0], number),),)

    @property
    def length_given(self) -> float | None:
        return self.counts[0] if len(self.mechanisms) == 1 and self.mechanisms[0].takes_all else None

    def noise_schedule(self) -> Schedule:
        if len(self.mechanisms) > 1:
            return super().noise_schedule()
        found: Schedule = self.mechanisms[0].noise_schedule()
        return found
