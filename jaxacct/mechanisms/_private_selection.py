"""The best of a random number of runs, as when hyperparameters are tuned."""

import math
from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct._validate import checked_number
from jaxacct.mechanisms._base import Mechanism, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, fixed, positive


@description
class PrivateSelection(Mechanism):
    """The best of K runs of `mechanism`, where K is random and only the output of the best run is released.

    This is for tuning hyperparameters: a run draws them at random from a fixed set, trains, and measures the result,
    all of which `mechanism` must describe. The best run may be chosen by any order of the outputs. K must be drawn from
    the stated law and stay secret. The law is given by its mean and shape (Papernot & Steinke 2022, "Hyperparameter
    tuning with Renyi differential privacy", Definition 1): it is truncated negative binomial, which with shape 1 is
    geometric and with shape 0 logarithmic; with shape inf it is Poisson, and if there is no run at all, something fixed
    is released. Adjacency: that of `mechanism`.

    Args:
      mechanism: one run.
      mean_runs: float >= 1, the mean of K.
      shape: float > -1, or inf; it is fixed and cannot be calibrated.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1000)
    >>> round(ja.epsilon(run, 1e-6), 2), round(ja.epsilon(ja.PrivateSelection(run, mean_runs=10), 1e-6), 2)
    (2.12, 3.08)
    """

    scheme = "private selection"
    released = "the best run's output; neither the others nor how many there were"

    mechanism: WrappedMechanism = base(of_any_type=True)
    mean_runs: Any = positive(
        "mean number of runs", "M", unit="runs", help="mean number of runs, >= 1", privacy=Privacy.FALLS, least=1.0
    )
    shape: Any = fixed(default=1.0)

    def __post_init__(self) -> None:
        shape = checked_number("shape", self.shape)
        if not shape > -1.0:
            raise ValueError(f"shape={shape} must be above -1")
        object.__setattr__(self, "shape", shape)
        super().__post_init__()

    @property
    def relation(self) -> NeighboringRelation:  # type: ignore[override]
        """The adjacency of the mechanism."""
        return NeighboringRelation(self.mechanism.relation)

    @property
    def reduction(self) -> str | None:  # type: ignore[override]
        """The worst order of the outputs."""
        return "the worst order of the outputs of runs with the same privacy profile"

    def describe(self) -> str:
        law = {1.0: "geometric", 0.0: "logarithmic", math.inf: "Poisson"}.get(self.shape)
        law = law or f"negative binomial of shape {self.shape:g}"
        runs = f"the best of a random number of runs ({law}, {self.mean_runs:g} on average)"
        return f"{runs}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        runs = "the number of runs is drawn as stated, whatever the data are; it stays secret, as do all runs but one"
        return (runs, *self.mechanism.assumptions())

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())
