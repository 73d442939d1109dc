"""Mechanisms under an adjacency that a question names: one record replaced by any other, or by the empty one."""

import dataclasses
from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct._validate import checked_choice
from jaxacct.mechanisms._base import Mechanism, Parts, WrappedMechanism, description
from jaxacct.mechanisms._composed import Composed
from jaxacct.mechanisms._fields import base
from jaxacct.mechanisms._sampling import Sampling
from jaxacct.mechanisms._schedules import Schedule


class Adjacent(Mechanism):
    """A mechanism under another adjacency; everything else is as in the mechanism that it wraps."""

    mechanism: WrappedMechanism

    def check(self) -> None:
        super().check()
        if isinstance(self.mechanism, Adjacent) or self.mechanism.relation not in _FROM[self.relation]:
            own, named = self.mechanism.relation.value, self.relation.value
            raise ValueError(
                f"mechanism={self.mechanism!r} has no analysis for {named!r}: it is described for {own!r} and must be "
                f"for {' or '.join(repr(relation.value) for relation in _FROM[self.relation])}"
            )

    @property
    def scheme(self) -> str:  # type: ignore[override]
        """The scheme of the mechanism, and the adjacency."""
        return f"{self.mechanism.scheme}, {_SHORT[self.relation]}"

    @property
    def released(self) -> str:  # type: ignore[override]
        """What the mechanism releases."""
        return str(self.mechanism.released)

    def accumulated(self, batches: int) -> Mechanism:
        return self._around(self.mechanism.accumulated(batches))

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())

    def _around(self, mechanism: Mechanism) -> Mechanism:
        found: Mechanism = dataclasses.replace(self, mechanism=mechanism)  # type: ignore[type-var]
        return found

    def _whole(self, parts: Parts) -> Parts:
        """The composition of all parts, under this adjacency."""
        mechanisms, counts = zip(*parts, strict=True)
        return ((self._around(mechanisms[0] if counts == (1,) else Composed(mechanisms, counts)), 1),)

    def poisson_at_same_rate(self) -> Mechanism | None:
        found = self.mechanism.poisson_at_same_rate()
        return None if found is None else self._around(found)

    def sampling(self) -> Sampling:
        found: Sampling = self.mechanism.sampling()
        return found

    def releases(self, number: int) -> tuple[Parts, ...]:
        return tuple(self._whole(parts) for parts in self.mechanism.releases(number))

    @property
    def length_given(self) -> float | None:
        found: float | None = self.mechanism.length_given
        return found

    @property
    def releases_per_epoch(self) -> int:
        return int(self.mechanism.releases_per_epoch)

    def partial_epoch_releases(self, epochs: int) -> int:
        return int(self.mechanism.partial_epoch_releases(epochs))

    def epochs(self, number: int) -> Parts:
        return self._whole(self.mechanism.epochs(number))


@description
class ReplaceOne(Adjacent):
    """`mechanism`, for neighbouring data sets of equal size that differ in one record, replaced by any other one.

    This is what ``neighboring_relation="replace-one"`` selects. The analysis is tight for Gaussian, Laplace and
    discrete noise and for Poisson sampling of the first two, alone and composed: in the worst case the record adds 1
    and the one in its place subtracts 1. The worst case is the same for shuffled batches, whose order hides which batch
    has the record. For all other mechanisms the record is removed, and then the other one is added:

        delta(e1 + e2) <= delta_remove(e1) + e^e1 delta_add(e2),

    which is an upper bound; for the lower bound the other record contributes nothing. Adjacency: replace one record.

    Args:
      mechanism: what was run, described for records that are added or removed, or replaced by the empty record.

    Raises:
      ValueError: if `mechanism` is already described for replaced records.

    >>> import jaxacct as ja
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100)
    >>> round(ja.epsilon(run, 1e-6), 3), round(ja.epsilon(ja.ReplaceOne(run), 1e-6), 3)
    (0.954, 1.111)
    """

    relation = NeighboringRelation.REPLACE_ONE
    reduction = "a record that is removed before the other one is added"

    mechanism: WrappedMechanism = base(of_any_type=True)

    @property
    def unit_of_privacy(self) -> str:
        """The unit of privacy in words: whose data are protected, and against what change."""
        return "one record: replaced by any other; the number of records is public"

    def describe(self) -> str:
        return f"{self.mechanism.describe()}; one record replaced by any other"

    def assumptions(self) -> tuple[str, ...]:
        return tuple(self.mechanism.assumptions())


@description
class ZeroOut(Adjacent):
    """`mechanism`, for neighbouring data sets of equal size that differ in one record, replaced by the empty record.

    This is what ``neighboring_relation="zero-out"`` selects. The empty record contributes nothing. Where records take
    part independently of each other, replacing a record by the empty one leaves what removing it leaves, and the
    answers are exactly the mechanism's own. In batches of a fixed size the empty record takes a place like any other.
    Adjacency: replace one record by a special one.

    Args:
      mechanism: what was run, described for records that are added or removed.

    Raises:
      ValueError: if `mechanism` is described for another adjacency.

    >>> import jaxacct as ja
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100)
    >>> ja.epsilon(ja.ZeroOut(run), 1e-6) == ja.epsilon(run, 1e-6)
    True
    """

    relation = NeighboringRelation.REPLACE_SPECIAL

    mechanism: WrappedMechanism = base(of_any_type=True)

    @property
    def reduction(self) -> str | None:  # type: ignore[override]
        """The reduction of the mechanism."""
        found: str | None = self.mechanism.reduction
        return found

    def describe(self) -> str:
        return f"{self.mechanism.describe()}; one record replaced by the empty one"

    def assumptions(self) -> tuple[str, ...]:
        return (*self.mechanism.assumptions(), "an empty record contributes nothing")


_ADD, _ONE, _SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
_FROM = {_ONE: (_ADD, _SPECIAL), _SPECIAL: (_ADD,)}  # adjacencies from which another one is reached
_SHORT = {_ADD: "add-or-remove", _ONE: "replace-one", _SPECIAL: "zero-out"}
RELATIONS = tuple(_SHORT.values())
"""The short names of adjacencies."""


def checked_relation(name: Any) -> NeighboringRelation:
    """The adjacency that `name` is or names, by a short name or as a `NeighboringRelation`; else raises ValueError."""
    by_short = {short: relation for relation, short in _SHORT.items()}
    plain = name.strip().casefold().replace("_", "-").replace(" ", "-") if isinstance(name, str) else ""
    try:
        return by_short.get(plain) or checked_choice("neighboring_relation", name, *NeighboringRelation)
    except ValueError as error:
        raise ValueError(f"{error}, or one of {', '.join(map(repr, RELATIONS))}") from None


def in_relation(mechanism: Any, neighboring_relation: Any) -> Any:
    """`mechanism` under the adjacency that a question names; itself if none is named or it is the mechanism's own.

    Raises:
      ValueError: if there is no such adjacency, or `mechanism` has no analysis under it.
    """
    if neighboring_relation is None:
        return mechanism
    relation = checked_relation(neighboring_relation)
    if not isinstance(mechanism, Mechanism) or mechanism.relation is relation:
        return mechanism
    kind = {ReplaceOne.relation: ReplaceOne, ZeroOut.relation: ZeroOut}.get(relation)
    if kind is None or isinstance(mechanism, Adjacent):
        raise ValueError(
            f"neighboring_relation={_SHORT[relation]!r} has no analysis here: mechanism={mechanism!r} is described for "
            f"{_SHORT[mechanism.relation]!r}, which implies nothing for another adjacency"
        )
    return kind(mechanism)
