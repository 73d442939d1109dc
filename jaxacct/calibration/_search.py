"""Where a monotone answer meets its target: many searches side by side, with each answer computed for all at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._patience import with_slow_warning

# These affect only how many questions are asked: the value found is always one that was tried and met its target.
_USUAL = 10  # questions that a search usually needs
MOST_ASKED = 200  # questions for one value: a search that needs more ends where it is
# Steps towards a bracket, in the logarithm of the value: how much longer than the secant's, at least how much longer,
# and the longest first step, which is doubled at every question.
_OVERSHOOT, _LEAST_STEP, _FIRST_CAP = 1.1, 0.02, 1.5
_OF_WIDTH = 0.1  # share of the relative width of an answer that counts as the tolerance, where that is larger
_STEEP = 4.0  # log(epsilon / target) is clipped to this: larger ones only give the sign

Ask = Callable[[NDArray[Any], NDArray[Any]], Any]


class SearchRange(NamedTuple):
    """Where to look: from the end that loses most privacy to the one that loses least, [L] each."""

    worst: NDArray[Any]
    best: NDArray[Any]
    is_whole: bool


class Affordable(NamedTuple):
    """The affordable value nearest to the worst end, [L]; where there is none, the best end and `is_affordable` False.

    `asked` is what the answer carried besides epsilon, at that value.
    """

    value: NDArray[Any]
    is_affordable: NDArray[Any]
    epsilon: NDArray[Any]
    asked: dict[str, NDArray[Any]]


def _log_ratio(epsilon: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    ratio = np.log(np.maximum(epsilon, 1e-300)) - np.log(np.maximum(target, 1e-300))
    return np.clip(ratio, -_STEEP, _STEEP)


def _between(x1: NDArray[Any], x2: NDArray[Any], x3: NDArray[Any], f1: Any, f2: Any, f3: Any) -> NDArray[Any]:
    """The next point, as a fraction of the way from x1 to x2, f of opposite signs there.

    Inverse quadratic interpolation through a third point where that is safe, else half (Chandrupatla 1997); the secant
    on a new bracket, beyond which the third point lies.
    """
    with np.errstate(all="ignore"):
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        quadratic = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        is_safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
        t = np.where(is_safe, quadratic, np.where(np.isnan(xi) | (xi < 0), f1 / (f1 - f2), 0.5))
    return np.where(np.isfinite(t) & (t >= 0.0) & (t <= 1.0), t, 0.5)


def search(
    ask: Ask,
    target: NDArray[Any],
    where: SearchRange,
    start: NDArray[Any],
    todo: NDArray[Any],
    tolerance: float,
    close: float = 0.0,
) -> Affordable:
    """Steps of growing length from `start` to a bracket, then Chandrupatla's method: log epsilon against log value.

    Args:
      ask: ``(values [L], wanted bool [L]) -> answer``, its `epsilon` [L] right where wanted.
      target: epsilon [L] to stay within.
      todo: bool [L], which searches to make; the others come back not affordable.
      tolerance: relative, between the value found and one that was seen to be too much (whole numbers: the next one);
        at least a tenth of the width of the answers.
      close: relative, below the target: an answer so near to it ends its search too.
    """
    worst, best, is_whole = where
    sign = np.where(best >= worst, 1.0, -1.0)  # p = sign log(value) grows with privacy
    x = np.clip(start, np.minimum(worst, best), np.maximum(worst, best))
    x = np.round(x) if is_whole else x
    good, bad = best.copy(), worst.copy()
    good_known, bad_known = np.zeros(x.shape, bool), np.zeros(x.shape, bool)
    value, epsilon, asked = best.copy(), np.full(x.shape, np.inf), dict[str, NDArray[Any]]()
    active = todo & (sign * (best - worst) >= 0)
    # latest, opposite and third point of each search
    p1 = p2 = p3 = np.full(x.shape, np.nan)
    f1 = f2 = f3 = np.full(x.shape, np.nan)
    cap = np.full(x.shape, _FIRST_CAP)
    for turn in with_slow_warning(range(MOST_ASKED), "questions of a search", _USUAL):
        answer = ask(x, active)
        fits = active & (answer.epsilon <= target)
        fails = active & ~fits
        p, f = sign * np.log(x), _log_ratio(answer.epsilon, target)
        f = np.where(fits, np.minimum(f, -1e-300), np.maximum(f, 1e-300))
        changes = active & (turn > 0) & (np.sign(f) != np.sign(f1))
        p3, f3 = np.where(changes, p2, np.where(active, p1, p3)), np.where(changes, f2, np.where(active, f1, f3))
        p2, f2 = np.where(changes, p1, p2), np.where(changes, f1, f2)
        p1, f1 = np.where(active, p, p1), np.where(active, f, f1)
        good, good_known = np.where(fits, x, good), good_known | fits
        bad, bad_known = np.where(fails, x, bad), bad_known | fails
        value, epsilon = np.where(fits, x, value), np.where(fits | (fails & ~good_known), answer.epsilon, epsilon)
        for name, extra in answer.extra.items():
            asked[name] = np.where(fits | (fails & ~good_known), extra, asked.get(name, extra))
        both = good_known & bad_known
        within = np.maximum(tolerance, _OF_WIDTH * answer.width)
        near = np.abs(good - bad) <= 1.0 if is_whole else np.abs(np.log(good / bad)) <= within
        is_met = fits & (answer.epsilon >= target * (1.0 - close)) if close else np.zeros(x.shape, bool)
        done = (both & near) | (fits & (x == worst)) | (fails & (x == best)) | is_met
        active = active & ~done
        if not active.any():
            break
        # inside a bracket
        with np.errstate(all="ignore"):
            t = _between(p1, p2, p3, f1, f2, f3)
            least = 0.0 if is_whole else 0.5 * within / np.abs(p2 - p1)
            inside = p1 + np.clip(t, least, np.maximum(1.0 - least, least)) * (p2 - p1)
            # towards one: along the secant through the last two points, or slope -1
            slope = np.where(np.isfinite(f3) & np.isfinite(f1), (f1 - f3) / (p1 - p3), -1.0)
            slope = np.where(np.isfinite(slope) & (slope < -0.01), slope, -1.0)
            step = np.clip(_OVERSHOOT * np.abs(f1 / slope) + _LEAST_STEP, 0.0, cap)
            ahead = np.exp(sign * np.where(both, inside, p1 + np.where(fails, step, -step)))
        cap = np.where(both, cap, 2.0 * cap)
        low, high = np.minimum(good, bad), np.maximum(good, bad)
        if is_whole:
            ahead = np.round(ahead)
            ahead = np.clip(ahead, low + both, high - both)
            stuck = ~both & (ahead == x)  # a step too small to reach another whole number
            ahead = np.where(stuck, x + np.where(fails, sign, -sign), ahead)
        x = np.where(active, np.clip(ahead, low, high), x)
    return Affordable(value, good_known, epsilon, asked)
