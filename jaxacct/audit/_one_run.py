"""An audit by one run, in which each of many canaries took part or not, by a fair coin each."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import check_epsilon, checked_whole
from jaxacct.audit._many_runs import at_least, check_level, check_question, checked_scores
from jaxacct.audit._result import Audit

_COUNTS = 8  # how many numbers of guesses are tried where none is given, in even ratios
_FEWEST = 8  # the smallest of them
_STEP, _LARGEST = 0.05, 50.0  # nats: step between the epsilons that are tried, and the largest
_SLACK = 1e-9  # relative: allowance for the errors of binomial tails


def p_value(num_canaries: int, num_guesses: int, num_right: int, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of at least `num_right` right guesses if the run is (epsilon, delta)-DP.

        P[right >= v] <= f(v) + 2 m delta max_{1 <= i <= v} (f(v - i) - f(v)) / i,    f(v) = P[Binomial(r, s) >= v],

    where s = e^epsilon / (1 + e^epsilon), for m canaries and r guesses (Steinke, Nasr and Jagielski 2023, Theorem 5.2).
    For i beyond v the quotient only falls, since f(v - i) is 1 there.

    Args:
      num_canaries: m, the number of canaries, each of which took part with probability 1/2, independently.
      num_guesses: r, the number of guesses, fixed beforehand.
      num_right: v, the number of right guesses.
      epsilon: float >= 0.
      delta: float in [0, 1).

    Returns:
      A float in [0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.audit import p_value
    >>> round(p_value(100, 20, 18, epsilon=1.0, delta=0.0), 4), round(p_value(100, 20, 18, epsilon=1.0, delta=1e-4), 4)
    (0.0648, 0.0681)
    """
    guesses = checked_whole("num_guesses", num_guesses, 0, checked_whole("num_canaries", num_canaries, 1, 2**53))
    checked_whole("num_right", num_right, 0, guesses)
    check_epsilon("epsilon", epsilon)
    check_level("delta", delta)
    if num_right == 0:
        return 1.0
    right = 1.0 / (1.0 + math.exp(-epsilon))
    chance = float(at_least(num_right, num_guesses, right))
    more = 0.0
    if delta > 0.0:
        fewer = np.arange(1.0, num_right + 1.0)
        lower = at_least(num_right - fewer, num_guesses, right)
        more = 2.0 * num_canaries * delta * float(np.max((lower - chance) / fewer))
    return min(1.0, (chance + more) * (1.0 + _SLACK))


def _refuted(num_canaries: int, num_guesses: int, num_right: int, delta: float, significance: float) -> float:
    """The largest epsilon found such that all smaller ones tried are refuted: a p-value may fall as epsilon grows."""

    def is_refuted(epsilon: float) -> bool:
        return p_value(num_canaries, num_guesses, num_right, epsilon, delta) <= significance

    if not is_refuted(0.0):
        return 0.0
    low = 0.0
    while low < _LARGEST and is_refuted(low + _STEP):
        low += _STEP
    high = low + _STEP
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def _num_right(order: NDArray[Any], is_in: NDArray[Any], most: int, least: int) -> int:
    """The number of canaries with the `most` highest scores that took part, plus the `least` lowest that did not."""
    return int(np.count_nonzero(is_in[order[order.size - most :]]) + np.count_nonzero(~is_in[order[:least]]))


def one_run(
    scores: Any,
    is_in: Any,
    *,
    delta: float,
    confidence: float = 0.95,
    num_guesses: tuple[int, int] | None = None,
) -> Audit:
    """An `Audit`: a lower bound on epsilon from one run, in which each canary took part or not by its own fair coin.

    The canaries with the highest scores are guessed to have taken part, and those with the lowest scores not to; there
    is no guess about the others. Too many right guesses refute (epsilon, delta)-DP, add or remove one record: see
    `p_value` for the theorem (Steinke, Nasr and Jagielski 2023, Theorem 5.2).

    Args:
      scores: float array [m], the score of each canary, which is larger if the canary seems to have taken part.
      is_in: bool array [m], whether each canary took part: drawn independently with probability 1/2 before the run.
      delta: float in [0, 1).
      confidence: float in (0, 1).
      num_guesses: (how many are guessed to have taken part, how many not to), chosen without looking at the scores;
        None to try up to eight numbers, the same for both, each at an equal share of the significance.

    Returns:
      An `Audit`.

    Raises:
      ValueError: if an argument is out of range.

    >>> import numpy as np
    >>> from jaxacct import audit
    >>> rng = np.random.default_rng(0)
    >>> is_in = rng.random(10000) < 0.5
    >>> scores = is_in + rng.normal(size=10000)  # each canary in a coordinate of its own, noise multiplier 1
    >>> round(audit.one_run(scores, is_in, delta=1e-5).epsilon, 1)
    1.9
    """
    values, taken = checked_scores("scores", scores), np.asarray(is_in)
    if taken.dtype != bool or taken.shape != values.shape:
        raise ValueError(f"is_in of shape {taken.shape} and type {taken.dtype} must be bool, one for each score")
    check_question(delta, confidence)
    size = values.size
    if num_guesses is None:
        fewest, half = min(_FEWEST, max(size // 2, 1)), max(size // 2, 1)
        numbers = np.unique(np.geomspace(fewest, half, _COUNTS).astype(int)).tolist()
        tried = [(number, number) for number in numbers] if size > 1 else [(1, 0)]
    else:
        if not (isinstance(num_guesses, tuple | list) and len(num_guesses) == 2):
            raise ValueError(f"num_guesses={num_guesses!r} must be a pair: guessed to have taken part, and not to")
        most, least = (checked_whole("num_guesses", number, 0, size) for number in num_guesses)
        if not 1 <= most + least <= size:
            raise ValueError(f"num_guesses={num_guesses!r} must add to a number in [1, {size}], that of the canaries")
        tried = [(most, least)]
    order = np.argsort(values, kind="stable")
    significance = (1.0 - confidence) / len(tried)
    found = []
    for most, least in tried:
        right = _num_right(order, taken, most, least)
        found.append((_refuted(size, most + least, right, delta, significance), most + least, right))
    best, guesses, right = max(found, key=lambda each: each[0])
    return Audit(
        best,
        float(delta),
        float(confidence),
        f"{size} canaries, {guesses} guesses of which {right} are right",
        "Steinke, Nasr & Jagielski 2023, Theorem 5.2",
    )
