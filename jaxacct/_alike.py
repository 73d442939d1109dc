"""Suggests the name that was probably meant by a similar one."""

import difflib
from collections.abc import Iterable

# Words that people use for things, and the words used here.
_MEANT = {
    "clients": "reports",
    "users": "reports",
    "people": "reports",
    "iterations": "steps",
    "rounds": "epochs",
    "rate": "prob",
    "probability": "prob",
    "q": "prob",
    "sample": "sampling",
    "subsampling": "sampling",
    "subsampled": "poisson",
    "dpsgd": "poisson",
    "sgd": "poisson",
    "shuffled": "shuffle",
    "noise": "noise-multiplier",
    "sigma": "noise-multiplier",
    "std": "noise-multiplier",
    "stddev": "noise-multiplier",
    "eps": "epsilon",
    "n": "num",
    "number": "num",
}
_CLOSE = 0.7  # the least share of letters that two names must have in common, in order


def _words(name: str) -> str:
    words = name.strip("-").lower().replace("_", "-").split("-")
    return "-".join(_MEANT.get(word, word) for word in words)


def alike(name: str, choices: Iterable[str]) -> str | None:
    """The one of `choices` that is most likely meant by `name`, or None if none is similar.

    >>> alike("gausian", ["poisson", "gaussian"])
    'gaussian'
    >>> alike("sigma", ["noise_multiplier", "scale"])
    'noise_multiplier'
    """
    meant = _words(name)

    def likeness(choice: str) -> float:
        other = _words(choice)
        if set(meant.split("-")) & (set(other.split("-")) - {"num"}):
            return 1.0 + difflib.SequenceMatcher(None, meant, other).ratio()
        return difflib.SequenceMatcher(None, meant, other).ratio()

    best = max(choices, key=likeness, default=None)
    return None if best is None or likeness(best) < _CLOSE else best


def suggestion(name: str, choices: Iterable[str]) -> str:
    """The end of an error message about `name`: ``; did you mean ..?``, or an empty string."""
    meant = alike(name, choices)
    return "" if meant is None else f"; did you mean {meant}?"
