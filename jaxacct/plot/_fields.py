"""The field that is swept: how a value of it makes a mechanism, and what an axis calls it."""

from collections.abc import Callable
from typing import Any

from jaxacct.calibration._fields import find_field, with_fields

_WORDS = {
    "check_in_prob": "probability that a user joins a round",
    "counts": "number of runs",
    "dropout_prob": "probability that a report is lost",
    "local_delta": "local delta",
    "local_epsilon": "local epsilon of one report",
    "noise_multiplier": "noise multiplier (noise std / clipping norm)",
    "num_categories": "number of categories",
    "num_epochs": "number of epochs",
    "num_reports": "number of reports in a round",
    "num_selected": "steps that a record joins in an epoch",
    "num_steps": "number of steps",
    "num_users": "number of users",
    "sampling_prob": "sampling probability",
    "steps_done": "steps done of the epoch",
}


def words_for(field: str) -> str:
    """What an axis calls `field`.

    >>> words_for("num_steps"), words_for("my_field")
    ('number of steps', 'my field')
    """
    return _WORDS.get(field.rpartition(".")[2], field.replace("_", " "))


def maker(mechanism: Any, field: str) -> Callable[[Any], Any]:
    """How a value of `field` makes a mechanism: `mechanism` itself if it is a function, else a copy with it set.

    Raises:
      ValueError: if `mechanism` has no such field, or several.

    >>> from jaxacct.mechanisms import Gaussian, RandomAllocation
    >>> maker(RandomAllocation(Gaussian(1.0), num_steps=100), "noise_multiplier")(2.0).mechanism
    Gaussian(noise_multiplier=2.0)
    """
    if callable(mechanism):
        return mechanism
    keys = find_field(mechanism, field)
    return lambda value: with_fields(mechanism, {keys: value})
