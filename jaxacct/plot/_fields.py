"""The field that is swept: how mechanisms are made from its values, and its axis label."""

from collections.abc import Callable
from typing import Any

from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import find_field, spec_at, with_fields


def words_for(mechanism: Mechanism, field: str) -> str:
    """The axis label for `field` of `mechanism`; if there is no such field, the name in words.

    >>> from jaxacct.mechanisms import Gaussian, RandomAllocation
    >>> run = RandomAllocation(Gaussian(1.0), num_steps=100)
    >>> words_for(run, "num_steps"), words_for(run, "my_field")
    ('number of steps', 'my field')
    """
    try:
        return spec_at(mechanism, find_field(mechanism, field)).label
    except ValueError:  # a function's argument may have any name
        return field.replace("_", " ")


def maker(mechanism: Mechanism | Callable[[Any], Mechanism], field: str) -> Callable[[Any], Mechanism]:
    """The function from a value of `field` to a mechanism: `mechanism` itself, or one that sets the field in a copy.

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
