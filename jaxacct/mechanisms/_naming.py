"""The names by which constructors take fields: their own, an alias, and a hint for any other."""

import dataclasses
import functools
import operator
from typing import Any

from jaxacct._alike import suggestion
from jaxacct.mechanisms._fields import number_fields


def name_fields(made: Any) -> None:
    """Lets the constructor take a field by its alias as a keyword, and makes the alias readable; others get a hint."""
    names = {field.name for field in dataclasses.fields(made) if field.init}
    aliases = {spec.also: name for name, spec in number_fields(made).items() if spec.also}
    plain = made.__init__

    @functools.wraps(plain)
    def construct(self: Any, *args: Any, **fields: Any) -> None:
        for alias, name in aliases.items():
            if alias in fields:
                if name in fields:
                    raise TypeError(f"{alias}={fields[alias]!r} and {name}={fields[name]!r} are one field: give one")
                fields[name] = fields.pop(alias)
        if not names.issuperset(fields):
            wrong = next(name for name in fields if name not in names)
            known = [field.name for field in dataclasses.fields(made) if field.init]
            hint = suggestion(wrong, known) or f"; its fields are {', '.join(known)}"
            raise TypeError(f"{made.__name__}() got an unexpected keyword argument {wrong!r}{hint}")
        plain(self, *args, **fields)

    made.__init__ = construct
    for alias, name in aliases.items():
        setattr(made, alias, property(operator.attrgetter(name), doc=f"Another name of `{name}`."))
