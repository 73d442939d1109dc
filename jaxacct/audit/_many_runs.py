"""An audit by many runs, some with a canary (a record inserted for the audit) and some without."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import check_delta, checked_array, checked_number
from jaxacct.audit._result import Audit
from jaxacct.special import bisect

_SHARE = 4  # one score in this many chooses the threshold, where none is given
_LEAST, _RATIO = 1e-12, 1.02  # grid of probabilities at which both tails are combined: a coarser one shows less
_LARGEST = 50.0  # nats: the largest epsilon that can be shown
_SLACK = 1e-9  # relative: allowance for the errors of binomial tails and their inverses


def checked_scores(name: str, scores: Any) -> NDArray[Any]:
    """`scores` as float64 [N]; raises ValueError unless they are one number or more, and none is nan."""
    array = checked_array(name, scores).astype(np.float64)
    if array.ndim != 1 or array.size == 0 or np.isnan(array).any():
        raise ValueError(f"{name} of shape {array.shape} must be a list of numbers, not empty, without nan")
    return array


def check_level(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is one number in [0, 1)."""
    if not 0.0 <= checked_number(name, value) < 1.0:
        raise ValueError(f"{name}={value!r} must be in [0, 1)")


def check_question(delta: Any, confidence: Any) -> None:
    """Raises ValueError unless delta is in [0, 1) and confidence in (0, 1), one number each."""
    check_level("delta", delta)
    checked_number("confidence", confidence)
    check_delta("confidence", confidence)


def joint_level(significance: float) -> float:
    """The product t of two independent p-values at which t (1 - log t) is `significance`, rounded down."""
    low, high = 0.0, significance
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if middle * (1.0 - math.log(middle)) <= significance else (low, middle)
    return low


def at_least(counts: Any, runs: int, probabilities: Any) -> NDArray[Any]:
    """P[Binomial(runs, probability) >= count] [..] for counts from 0 to `runs`: SciPy's bdtrc is far off at 10^7."""
    from scipy import special  # type: ignore[import-untyped]

    counts = np.asarray(counts, np.float64)
    return np.where(counts > 0.0, special.betainc(np.maximum(counts, 1.0), runs + 1.0 - counts, probabilities), 1.0)


def at_most(count: int, runs: int, probabilities: Any) -> NDArray[Any]:
    """P[Binomial(runs, probability) <= count] [..] for a count from 0 to `runs`."""
    from scipy import special

    found: NDArray[Any] = np.ones_like(probabilities)
    return special.betaincc(count + 1.0, float(runs - count), probabilities) * found if count < runs else found


def refuted_epsilon(hits: int, runs_in: int, alarms: int, runs_out: int, delta: float, significance: float) -> float:
    """The largest epsilon found for which these counts refute (epsilon, delta)-DP at this significance.

    `hits` of `runs_in` runs with the canary and `alarms` of `runs_out` runs without it are independent binomial counts
    with probabilities p and q, which obey p <= e^eps q + delta and 1 - q <= e^eps (1 - p) + delta. P[>= hits; p] and
    P[<= alarms; q] are p-values; their product is at most t with probability at most t (1 - log t) (Fisher). Epsilon is
    refuted if the product is below the t of this significance for every q, with the largest p that q allows. Since p
    grows with q, the product on a cell of the grid of q is at most that of the first tail at the cell's far end and the
    second tail at its near end.
    """
    from scipy import special

    level = joint_level(significance) * (1.0 - _SLACK)
    tails = np.append(np.exp(np.arange(math.log(_LEAST), 0.0, math.log(_RATIO))), 1.0)[::-1]
    if alarms < runs_out:
        q = special.betaincinv(alarms + 1.0, runs_out - alarms, 1.0 - tails)  # where P[<= alarms; q] is a tail
        q[0] = 0.0
    else:
        q = np.zeros(tails.size)
    q = np.append(np.minimum(q * (1.0 + _SLACK), 1.0), 1.0)
    few = np.minimum(at_most(alarms, runs_out, q[:-1]) * (1.0 + _SLACK), 1.0)

    def is_refuted(epsilon: float) -> bool:
        p = np.minimum(math.exp(epsilon) * q + delta, 1.0 - math.exp(-epsilon) * (1.0 - q - delta))
        p = np.clip(p * (1.0 + _SLACK), 0.0, 1.0)
        many = at_least(hits, runs_in, p)
        return bool(np.all(many[1:] * (1.0 + _SLACK) * few <= level))

    if not is_refuted(0.0):
        return 0.0
    return bisect(is_refuted, 0.0, _LARGEST, num_steps=36)


def _best_threshold(scores_in: NDArray[Any], scores_out: NDArray[Any], delta: float, significance: float) -> float:
    """The threshold that would show the largest epsilon on these scores; the audit is valid for any choice."""
    both = np.unique(np.concatenate([scores_in, scores_out]))
    both = both[np.unique(np.linspace(0, both.size - 1, min(both.size, 257)).astype(int))]
    hits = scores_in.size - np.searchsorted(np.sort(scores_in), both)
    alarms = scores_out.size - np.searchsorted(np.sort(scores_out), both)
    # by normal approximations, about three standard errors away, with a correction for few runs
    z = math.sqrt(-2.0 * math.log(significance))
    p, q = hits / scores_in.size, alarms / scores_out.size
    p = np.maximum(p - z * np.sqrt(p * (1 - p) / scores_in.size) - z * z / (2 * scores_in.size), 0.0)
    q = q + z * np.sqrt(q * (1 - q) / scores_out.size) + z * z / scores_out.size
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(p - delta, 1e-300)) - np.log(q)
        other = np.log(np.maximum(1.0 - np.minimum(q, 1.0) - delta, 1e-300)) - np.log(1.0 - p)
    return float(both[np.argmax(np.maximum(one, other))])


def many_runs(
    scores_in: Any, scores_out: Any, *, delta: float, confidence: float = 0.95, threshold: float | None = None
) -> Audit:
    """An `Audit`: a lower bound on epsilon from the scores of many independent runs, with and without a canary.

    A score is at least the threshold with probability p in a run with the canary, and with probability q in a run
    without it. If a run is (epsilon, delta)-DP, then p <= e^epsilon q + delta and 1 - q <= e^epsilon (1 - p) + delta.
    Exact binomial tails, as in Clopper and Pearson's interval (1934), decide which p and q the counts allow. Fisher's
    product combines the two p-values, which shows more than an interval for each at half of the significance.

    Args:
      scores_in: float array, one score for each run with the canary; the runs are independent, and a score is larger if
        the canary seems to be present.
      scores_out: the same for runs without the canary.
      delta: float in [0, 1).
      confidence: float in (0, 1).
      threshold: float, chosen without looking at these scores; None to choose it by every fourth score, which is then
        not used for the bound.

    Returns:
      An `Audit`.

    Raises:
      ValueError: if an argument is out of range, or there are too few scores.

    >>> import numpy as np
    >>> from jaxacct import audit
    >>> noise = np.random.default_rng(0).normal(size=20000)  # a Gaussian mechanism of noise multiplier 1, run so often
    >>> round(audit.many_runs(1.0 + noise[:10000], noise[10000:], delta=1e-5).epsilon, 1)
    1.8
    """
    present, absent = checked_scores("scores_in", scores_in), checked_scores("scores_out", scores_out)
    check_question(delta, confidence)
    significance = 1.0 - confidence
    if threshold is None:
        least = 2 * _SHARE
        sizes = f"{present.size} and {absent.size}"
        if min(present.size, absent.size) < least:
            raise ValueError(f"scores of {sizes} runs must be {least} each, or give a threshold")
        threshold = _best_threshold(present[::_SHARE], absent[::_SHARE], delta, significance)
        present, absent = (np.delete(x, np.s_[::_SHARE]) for x in (present, absent))
    threshold = checked_number("threshold", threshold)
    hits, alarms = int(np.count_nonzero(present >= threshold)), int(np.count_nonzero(absent >= threshold))
    found = refuted_epsilon(hits, present.size, alarms, absent.size, delta, significance)
    return Audit(
        found,
        float(delta),
        float(confidence),
        f"{hits} of {present.size} runs with the canary and {alarms} of {absent.size} without it score at least "
        f"{threshold:.4g}",
        "exact binomial tails, combined as Fisher's product",
    )
