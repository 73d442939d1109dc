"""Second names of fields: the constructor takes a field by either, and either can be read."""

import functools
import operator
from typing import Any

from jaxacct.mechanisms._fields import number_fields


def add_aliases(made: Any) -> None:
    """Lets the constructor take a field by its alias too, by keyword, and the alias be read."""
    aliases = {spec.also: name for name, spec in number_fields(made).items() if spec.also}
    if not aliases:
        return
    plain = made.__init__

    @functools.wraps(plain)
    def construct(self: Any, *args: Any, **fields: Any) -> None:
        for alias, name in aliases.items():
            if alias in fields:
                if name in fields:
                    raise TypeError(f"{alias}={fields[alias]!r} and {name}={fields[name]!r} are one field: give one")
                fields[name] = fields.pop(alias)
        plain(self, *args, **fields)

    made.__init__ = construct
    for alias, name in aliases.items():
        setattr(made, alias, property(operator.attrgetter(name), doc=f"Another name of `{name}`."))
