"""Several records of one user."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count
from jaxacct.mechanisms._schedules import Schedule


@description
class Group(Mechanism):
    """`mechanism`, for users who contribute up to `size` records: all records of a user are present or absent together.

    Each record takes part as `mechanism` describes, independently of the others. Adjacency: add or remove `size`
    records.

    Args:
      mechanism: what each record takes part in.
      size: whole number >= 1.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100)
    >>> round(ja.epsilon(run, 1e-6), 3), round(ja.epsilon(ja.Group(run, size=3), 1e-6), 3)
    (0.954, 2.983)
    """

    scheme = "group"

    mechanism: WrappedMechanism = base(of_any_type=True)
    size: Any = count("records of one user", "M", help="records of one user", privacy=Privacy.FALLS)

    @property
    def relation(self) -> NeighboringRelation:  # type: ignore[override]
        """The adjacency of the mechanism, but for several records at once."""
        return NeighboringRelation(self.mechanism.relation)

    @property
    def released(self) -> str:  # type: ignore[override]
        """What the mechanism releases."""
        return str(self.mechanism.released)

    @property
    def reduction(self) -> str | None:  # type: ignore[override]
        """Where no dominating pair of a group is known, its records are taken one after the other."""
        return "records that come one after the other"

    @property
    def unit_of_privacy(self) -> str:
        """The unit of privacy in words: up to `size` records at once."""
        return f"one user: up to {self.size:.0f} records of one user at once, present or absent together"

    def describe(self) -> str:
        return f"groups of {self.size:.0f} records; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        together = "one user contributes at most the stated number of records, each sampled and clipped separately"
        return (together, *self.mechanism.assumptions())

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())
