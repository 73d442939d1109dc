"""Upper bounds for shuffled reports, in one round and in several: what reports have in common, and what order hides.

The theorems are in docs/papers/blanket.md: the privacy blanket of a known randomizer (Balle, Bell, Gascon & Nissim
2019); for Gaussian reports of any dimension also the theorems for shuffled batches, with one record in each batch.
Replace-one adjacency, both directions at once.
"""

import dataclasses

from jaxacct._method import Role, only_where
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._parts import has_several_rounds
from jaxacct.bounds.blanket._from_below import SCORES, SIGNS
from jaxacct.bounds.blanket._one_round import BLANKET, ORDER, blanket_helps
from jaxacct.bounds.blanket._order import has_noise
from jaxacct.bounds.blanket._several_rounds import DISTRIBUTION

__all__ = ["BLANKET_TOO", "DENSITY", "GAUSSIAN", "GAUSSIAN_ROUNDS", "SCORES", "has_noise"]

_COMPOSED = loss_distribution(DISTRIBUTION, only_where(has_several_rounds, Role.QUICK))

# where other methods know the clones pair, a reduction, closely, the blanket may still be below it; for many points the
# pair takes less time
_BELOW_CLONES = dataclasses.replace(BLANKET, role=only_where(blanket_helps, Role.SHARPER))
_COMPOSED_BELOW_CLONES = dataclasses.replace(
    _COMPOSED, name="blanket distribution", role=only_where(has_several_rounds, Role.SHARPER)
)

GAUSSIAN, GAUSSIAN_ROUNDS = (ORDER, BLANKET), _COMPOSED
"""Methods of Gaussian reports: those for one round, and those for several."""

DENSITY = (BLANKET, SIGNS, _COMPOSED)
"""All methods of reports with noise of a given density."""

BLANKET_TOO = (_BELOW_CLONES, _COMPOSED_BELOW_CLONES)
"""Methods of reports that have a clones pair too."""
