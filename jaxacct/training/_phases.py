"""One phase of training: a mechanism counted in steps, or one that is known only in whole epochs."""

import dataclasses

import jax
import numpy as np

from jaxacct._precision import is_traced
from jaxacct._validate import check_count, checked_number
from jaxacct.mechanisms._base import Mechanism, Parts, not_a_mechanism
from jaxacct.mechanisms._sampling import Sampling
from jaxacct.mechanisms._schedules import Schedule


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One run of `mechanism` made of `num_steps` noise releases; an unfinished run costs as much as a whole one.

    This is for mechanisms that are known only as a whole: shuffled reports that are collected in `num_steps` batches,
    or a `Composed`.

    Args:
      mechanism: the mechanism of one epoch; its own `num_epochs`, if any, is replaced by the number of epochs begun.
      num_steps: whole number >= 1, noise releases (as counted by `count_releases`) in one epoch.

    Raises:
      ValueError: if `num_steps` is not a whole number >= 1.

    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> reports = ja.Shuffled(ja.LocalRandomizer(local_epsilon=1.0), num_reports=10**5)
    >>> training.Epoch(reports, num_steps=100).num_steps         # 100 updates, each from 1000 of the reports
    100
    """

    mechanism: Mechanism
    num_steps: int

    def __post_init__(self) -> None:
        check_count("num_steps", checked_number("num_steps", self.num_steps))

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Every epoch begun, at its full cost: what an unfinished epoch released is post-processing of a whole one."""
        return (self.mechanism.epochs(-(-number // self.releases_per_epoch)),)

    @property
    def releases_per_epoch(self) -> int:
        """The noise releases of one epoch."""
        return int(self.num_steps)

    def partial_epoch_releases(self, epochs: int) -> int:
        """All releases of an epoch but the last: `releases` says what they cost."""
        del epochs
        return self.releases_per_epoch - 1

    def noise_schedule(self) -> Schedule:
        """The noise of each release: the mechanism's schedule."""
        return self.mechanism.noise_schedule()

    def sampling(self) -> Sampling:
        """How the records of each step of its epochs are drawn."""
        return self.mechanism.sampling_in(int(self.num_steps))


def check_scalar(mechanism: Mechanism | Epoch) -> None:
    """Raises ValueError unless `mechanism` is a mechanism, or an epoch of one, with concrete numbers."""
    described = mechanism.mechanism if isinstance(mechanism, Epoch) else mechanism
    if not isinstance(described, Mechanism):
        raise ValueError(f"mechanism={described!r} {not_a_mechanism(described)}")
    leaves = jax.tree.leaves(described)
    if is_traced(*leaves) or any(np.ndim(leaf) for leaf in leaves):
        raise ValueError(f"mechanism={mechanism!r} must have concrete scalar fields")
