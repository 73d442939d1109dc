"""The law of the reports that are not clones, r ~ Bin(N, q'), in groups of counts, exact up to rounding.

Neighbouring masses have rational quotients, whose products are formed from the first count of a window on. The work
grows with the standard deviation; `_blocks` is used for the widest laws.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import ULP
from jaxacct.special._binomial import log_binomial_pmf, pmf_rounding

_TOGETHER = 2**14  # counts of all laws that are computed together: memory only


class CountGroups(NamedTuple):
    """Groups [G, L] of counts of laws [L]: first count, log mass, and mean of 1/(offset + r), to `log_error` [L].

    `log_outside` [L]: log of an upper bound on the mass in no group.
    """

    first: NDArray[Any]
    log_mass: NDArray[Any]
    inverse: NDArray[Any]
    log_error: NDArray[Any]
    log_outside: NDArray[Any]


def groups(left: NDArray[Any], prob: float, offset: NDArray[Any], size: int, reach: float) -> CountGroups:
    """The laws Bin(`left` [L], `prob`), 0 < prob < 1, to `reach` standard deviations and some counts from their means.

    A quotient of neighbours, (N - r)/(r + 1) times the odds, and its product with the one before err by less than
    2^-50; sums of positive terms err by the same amount for each term.
    """
    centre, scale = left * prob, np.sqrt(left * prob * (1.0 - prob)) + 1.0
    start = np.maximum(np.floor(centre - reach * scale - 4.0), 0.0)
    ends = np.minimum(np.ceil(centre + reach * scale + 24.0), left)
    num = int((ends - start).max(initial=0.0)) // size + 1
    columns = max(1, _TOGETHER // (num * size))
    parts = [
        _part(left[i : i + columns], prob, offset[i : i + columns], start[i : i + columns], size, num)
        for i in range(0, len(left), columns)
    ]
    return CountGroups(*(np.concatenate(x, axis=-1) for x in zip(*parts, strict=True)))


def _part(left: Any, prob: float, offset: Any, start: Any, size: int, num: int) -> CountGroups:
    odds = prob / (1.0 - prob)
    left, offset, start = left[:, None], offset[:, None], start[:, None]
    r = start + np.arange(num * size)
    shares = np.ones_like(r)
    more = np.maximum(left - r, 0.0) / (r + 1.0) * odds  # from r to r + 1
    np.cumprod(more[:, :-1], axis=1, out=shares[:, 1:])
    log_first = log_binomial_pmf(start, left, prob + 0.0 * left, 1.0 - prob + 0.0 * left)
    total = _in_groups(shares, size)
    inverse = _in_groups(shares / (offset + r), size) / np.maximum(total, 1e-300)
    # beyond either end the quotients of neighbours decrease: geometric sums are upper bounds
    below = start / ((left - start + 1.0) * odds)
    outside = np.where(below < 1.0, below / np.maximum(1.0 - below, 1e-300), np.where(start > 0, np.inf, 0.0))
    above = more[:, -1:]
    outside = outside + shares[:, -1:] * np.where(above < 1.0, above / np.maximum(1.0 - above, 1e-300), np.inf)
    error = pmf_rounding(log_first) + 2.0**-49 * (8.0 + num * size + np.abs(log_first))
    log_mass = np.where(total > 0, np.log(np.maximum(total, 1e-300)) + log_first, -np.inf)
    log_outside = np.where(outside > 0, np.log(np.maximum(outside, 1e-300)) + log_first, -np.inf) + error + 16.0 * ULP
    found: Any = (r[:, ::size].T, log_mass.T, inverse.T, error[:, 0], log_outside[:, 0])
    return CountGroups(*found)


def _in_groups(x: NDArray[Any], size: int) -> NDArray[Any]:
    """Sums [L, G] of `size` neighbours of [L, G size]."""
    if size > 8:
        return x.reshape(len(x), -1, size).sum(axis=-1)
    total = x[:, ::size]
    for i in range(1, size):
        total = total + x[:, i::size]
    return total
