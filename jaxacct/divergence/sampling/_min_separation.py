"""Samples of the loss where a record joins steps at least b apart, under correlated noise of at most b bands.

CN-8 in docs/papers/correlated.md: a record that may join step i does so with probability p, and may then join none of
the b - 1 steps after it. Its columns share no row, so that with X_i = <c_i, y> / sigma^2 and v_i = |c_i|^2 / sigma^2
the likelihood ratio of the run from step i on, for a record that may join it, is

    R_i = (1 - p) R_{i+1} + p e^(X_i - v_i / 2) R_{i+b},    R_i = 1 for i >= n,

and that of the whole run R_0; or, for a process that is stationary at the first step,
(R_0 + p (R_1 + .. + R_{b-1})) / (1 + (b - 1) p). Samples are plain, with values in [0, 1].
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.divergence.sampling._bins import Progress, Values

_BLOCK = 2**22  # coordinates drawn at once
_ROUNDING = 1.0 + 2.0**-30  # of a value: the exponentials, and the sums of n steps, 2^-33 for a million


class Renewals(NamedTuple):
    """The participation of a record, and the columns of the strategy over the noise.

    Attributes:
      columns: [w, n], the w <= b entries of each column from the diagonal down, without signs; 0 below the last row.
      prob: p, with which a record joins a step that it may join.
      apart: b.
      is_warm: whether the first step finds the process in the state it has after many steps.
    """

    columns: NDArray[np.float64]
    prob: float
    apart: int
    is_warm: bool


def _weights(of: Renewals) -> NDArray[np.float64]:
    """The probabilities [b] that step j is the first one that a record may join."""
    if not of.is_warm:
        return np.append(1.0, np.zeros(of.apart - 1))
    return np.append(1.0, np.full(of.apart - 1, of.prob)) / (1.0 + (of.apart - 1) * of.prob)


def log_ratio(of: Renewals, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """log of the likelihood ratio [S] at `outputs` [n + w - 1, S], y over sigma; rows from n on do not matter."""
    width, steps = of.columns.shape
    with np.errstate(divide="ignore"):
        skip, join, first = (np.log(x) for x in (1.0 - of.prob, of.prob, _weights(of)))
    half = 0.5 * np.square(of.columns).sum(0)
    ahead = [np.zeros(outputs.shape[1])] * of.apart  # log R_{i+1} to log R_{i+b}
    for i in reversed(range(steps)):
        gain = of.columns[:, i] @ outputs[i : i + width] - half[i]
        ahead = [np.logaddexp(skip + ahead[0], join + gain + ahead[-1]), *ahead[:-1]]
    found: NDArray[np.float64] = np.logaddexp.reduce([w + r for w, r in zip(first, ahead, strict=True)])
    return found


def _drawn(of: Renewals, rng: np.random.Generator, number: int, direction: Direction) -> NDArray[np.float64]:
    """Outputs [n + w - 1, S]: noise, plus the contributions of the record's steps where it is present."""
    width, steps = of.columns.shape
    outputs = rng.standard_normal((steps + width - 1, number))
    if direction is Direction.ADD:
        return outputs
    wait = rng.choice(of.apart, number, p=_weights(of))
    for i in range(steps):
        joins = (wait == 0) & (rng.random(number) < of.prob)
        outputs[i : i + width] += of.columns[:, i, None] * joins
        wait = np.where(joins, of.apart - 1, np.maximum(wait - 1, 0))
    return outputs


def samples(
    of: Renewals,
    epsilons: NDArray[np.float64],
    direction: Direction,
    num_samples: int,
    seed: int,
    *,
    progress: Progress | None = None,
) -> Values:
    """`Values`, a NamedTuple: means of samples, their errors and scales at each of `epsilons` [G]."""
    rng = np.random.default_rng([seed, list(Direction).index(direction)])
    block = max(_BLOCK // sum(of.columns.shape), 1)
    total, squares = np.zeros(len(epsilons)), np.zeros(len(epsilons))
    for done in range(0, num_samples, block):
        count = min(block, num_samples - done)
        loss = log_ratio(of, _drawn(of, rng, count, direction))
        loss = loss if direction is Direction.REMOVE else -loss
        for g, epsilon in enumerate(epsilons):
            found = -np.expm1(epsilon - loss[loss > epsilon])
            total[g] += found.sum()
            squares[g] += np.square(found).sum()
        if progress is not None:
            progress(done + count, num_samples)
    mean = total / num_samples
    error = np.sqrt(np.maximum(squares / num_samples - mean**2, 0.0) / num_samples)
    return Values(mean / _ROUNDING, error / _ROUNDING, np.full(len(epsilons), _ROUNDING))
