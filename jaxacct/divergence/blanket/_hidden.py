"""The law of Gaussian reports of any dimension where some users send none, so that their places stay hidden.

docs/papers/blanket.md, BL-5: the users who join a round, in random order, are the first of all users in random order;
the places of the others stay hidden, so that one report's law is that of SB-5.
"""

from typing import NamedTuple

from jaxacct.divergence.batches._blanket import FARTHEST, MOST_LOSS, quantile
from jaxacct.divergence.batches._one_step import StepLaw, replaced_step_law


class HiddenLaw(NamedTuple):
    """The law of L = (N(p) - c N(q)) / N(r) for the worst records: 1 / noise multiplier, and how much may be cut."""

    shift: float
    cut: float

    def at(self, epsilon: float) -> StepLaw:
        """The law of L at `epsilon` >= 0, its values rounded up."""
        return replaced_step_law(self.shift, epsilon, self.cut)


def hidden_law(a: float, cut: float) -> HiddenLaw | None:
    """NamedTuple: the law of one report, `cut` of E (L)_+ left out; None where the noise or `cut` is too small."""
    return HiddenLaw(a, cut) if a <= MOST_LOSS and quantile(cut) + 2.0 * a <= FARTHEST else None
