"""The result of an audit, and its statement beside the certified interval."""

import dataclasses
import textwrap

from jaxacct._types import Interval, NeighboringRelation
from jaxacct.accounting import epsilon_interval
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import shown, shown_down


@dataclasses.dataclass(frozen=True)
class Audit:
    """A lower bound on epsilon from what was measured, with its confidence.

    A run that is (e, delta)-DP for an e below `epsilon` gives such a result with probability at most 1 - `confidence`.
    The result is about one attack on the runs at hand: other attacks may find more, so it never bounds epsilon from
    above.

    Attributes:
      epsilon: the lower bound, >= 0; 0 if nothing was shown.
      delta: the delta at which the bound holds.
      confidence: the confidence of the bound, over the randomness of the runs and of the attack.
      measured: what was counted, in words.
      theorem: the theorem from which the confidence follows.

    >>> from jaxacct import audit
    >>> found = audit.one_run([3.0] * 40 + [0.0] * 40, [True] * 40 + [False] * 40, delta=1e-5, num_guesses=(20, 20))
    >>> round(found.epsilon, 2), found.measured
    (2.55, '80 canaries, 40 guesses of which 40 are right')
    """

    epsilon: float
    delta: float
    confidence: float
    measured: str
    theorem: str

    def interval(
        self, mechanism: Mechanism, *, neighboring_relation: NeighboringRelation | str | None = None
    ) -> Interval:
        """The certified interval of epsilon of `mechanism` at the same delta.

        Args:
          mechanism: what was run, with concrete scalar fields.
          neighboring_relation: as for `jaxacct.epsilon`.

        Returns:
          An `Interval`, as from `jaxacct.epsilon_interval`.

        Raises:
          ValueError: if the mechanism has no analysis, or `delta` is 0, at which no interval is certified.
        """
        if self.delta == 0.0:
            raise ValueError(
                "delta=0.0 must be > 0 for a certified interval: audit at the delta at which the run is stated"
            )
        return epsilon_interval(mechanism, self.delta, neighboring_relation=neighboring_relation)

    def beside(self, mechanism: Mechanism, *, neighboring_relation: NeighboringRelation | str | None = None) -> str:
        """A statement of what was measured and of what is proved about `mechanism`: several lines of text.

        Args:
          mechanism: what was run, under add or remove one record, or under the relation in which the canaries differ.
          neighboring_relation: as for `jaxacct.epsilon`.

        Returns:
          A string, the statement. It points out a measured bound above the certified one, which is a sign that the run
          is not the one described.

        Raises:
          ValueError: as `interval`.
        """
        mechanism = in_relation(mechanism, neighboring_relation)
        certified = self.interval(mechanism)
        percent = f"{100.0 * self.confidence:.12g} %"
        rows = [
            ("run", mechanism.describe()),
            ("adjacency", mechanism.relation.value),
            ("measured", f"epsilon at least {shown_down(self.epsilon)}, with confidence {percent}: {self.measured}"),
            ("", f"by {self.theorem}"),
            ("certified", f"epsilon between {shown_down(certified.lower)} and {shown(certified.upper)}"),
            ("", _verdict(self.epsilon, certified, percent)),
        ]
        head = f"epsilon at delta = {self.delta}: measured and certified"
        lines = [head, ""]
        for title, text in rows:
            start = f"  {title:<11} "
            lines += textwrap.wrap(text, 80, initial_indent=start, subsequent_indent=" " * len(start))
        return "\n".join(lines)


def _verdict(measured: float, certified: Interval, percent: str) -> str:
    if measured > certified.upper:
        return (
            "The measured end is above the certified one: the run is not what is described here, or the canaries do "
            f"not differ as its neighbours do, unless the confidence of {percent} failed."
        )
    return (
        "The measured end is what one attack found on these runs; others may find more. It is not an upper "
        "bound; the certified upper end is."
    )
