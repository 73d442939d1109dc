"""A mechanism given by the distribution functions of its privacy loss."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import NeighboringRelation
from jaxacct._validate import checked_number
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import fixed
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP

_Function = Callable[[NDArray[Any]], NDArray[Any]]

LAST_DIGITS = 2.0**-50  # relative error of values that is allowed in any case, beside their stated accuracy


def _rises(values: NDArray[np.float64], error: float) -> bool:
    """Whether `values` [N] may be those of an increasing function, up to a relative `error`."""
    return bool(np.all(values * (1.0 + error) >= np.maximum.accumulate(values) * (1.0 - error)))


@description
class ContinuousPair(Release):
    """One release whose worst-case pair (P, Q) is given by the distribution of its privacy loss L = log dP/dQ.

    This is for any mechanism whose loss has a closed form. Adjacency: add or remove one record; P is the distribution
    of the output with the record, Q without it.

    Args:
      cdf_p, cdf_q: P[L <= l] and Q[L <= l] for a NumPy array of l.
      sf_p, sf_q: P[L > l] and Q[L > l]; not computed as 1 - cdf in floating point, since the tails matter.
      lowest, highest: finite losses between which all but a negligible part of both lies. What lies outside is counted
        on the safe side, so the choice affects tightness only.
      accuracy: an upper bound on the relative error of the four functions: it is counted, and they need to be monotone
        only up to it.

    Raises:
      ValueError: if the functions are not monotone between 0 and 1 on a probe of the range, or the range is empty.

    >>> import math, numpy as np, jaxacct as ja  # Laplace noise of scale 2: atoms at -1/2 and 1/2
    >>> cdf_q = lambda l: np.where(l < -0.5, 0.0, np.where(l < 0.5, 1.0 - 0.5 * np.exp(-(l + 0.5) / 2.0), 1.0))
    >>> sf_q = lambda l: np.where(l < -0.5, 1.0, np.where(l < 0.5, 0.5 * np.exp(-(l + 0.5) / 2.0), 0.0))
    >>> cdf_p = lambda l: np.where(l < -0.5, 0.0, np.where(l < 0.5, 0.5 * np.exp((l - 0.5) / 2.0), 1.0))
    >>> sf_p = lambda l: np.where(l < -0.5, 1.0, np.where(l < 0.5, 1.0 - 0.5 * np.exp((l - 0.5) / 2.0), 0.0))
    >>> pair = ja.ContinuousPair(cdf_p, sf_p, cdf_q, sf_q, lowest=-0.6, highest=0.6)
    >>> round(ja.delta(pair, target_epsilon=0.25), 3), round(ja.delta(ja.Laplace(2.0), target_epsilon=0.25), 3)
    (0.118, 0.118)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "pair of distributions"
    released = EVERY_STEP
    reduction = None

    cdf_p: _Function = fixed()
    sf_p: _Function = fixed()
    cdf_q: _Function = fixed()
    sf_q: _Function = fixed()
    lowest: float = fixed()
    highest: float = fixed()
    accuracy: float = fixed(default=1e-13)

    def __post_init__(self) -> None:
        lowest, highest, accuracy = (checked_number(x, getattr(self, x)) for x in ("lowest", "highest", "accuracy"))
        if not (math.isfinite(lowest) and math.isfinite(highest) and lowest < highest):
            raise ValueError(f"lowest={lowest} must be finite and below highest={highest}")
        if not 0 <= accuracy <= 1e-3:
            raise ValueError(f"accuracy={accuracy} must be in [0, 1e-3]")
        probe = np.linspace(lowest, highest, 257)
        error = accuracy + LAST_DIGITS
        for name, sign in (("cdf_p", 1), ("sf_p", -1), ("cdf_q", 1), ("sf_q", -1)):
            if not callable(getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)!r} must be a function of an array of losses")
            values = np.asarray(getattr(self, name)(probe), np.float64)
            if not (
                values.shape == probe.shape and np.all((values >= 0) & (values <= 1)) and _rises(values[::sign], error)
            ):
                raise ValueError(f"{name} must map losses to monotone values in [0, 1]")

    def describe(self) -> str:
        losses = f"losses from {self.lowest:g} to {self.highest:g}"
        return f"a pair given by the distribution functions of its privacy loss, {losses}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            "each step's outputs with the record are no easier to tell from those without it than P from Q, "
            f"the pair whose privacy loss has the given distribution functions; {ADAPTIVE}",
        )

    def loses_nothing(self) -> bool:
        return False
