"""Options of the command line, schemes that consist of options, and the errors if an option is missing."""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxacct.cli._numbers import axis, number, whole_axis
from jaxacct.mechanisms._adjacent import RELATIONS, in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import FieldSpec, number_fields


@dataclasses.dataclass(frozen=True)
class Option:
    """One number that describes a run: a field of a mechanism, as the command line shows it.

    Attributes:
      name: the name of the option, as a Python name.
      spec: the specification of the field.
      default: the default value; None if the option must be given.
      is_optional: whether the option may be left out although it has no default.
      also: other names for the option.
    """

    name: str
    spec: FieldSpec
    default: int | float | None = None
    is_optional: bool = False
    also: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return flag_of(self.name)

    @property
    def help(self) -> str:
        """The help text: the field's specification, and the default."""
        return self.spec.help if self.default is None else f"{self.spec.help} (default {self.default:g})"


def option_of(owner: type, field: str, name: str = "", *, is_optional: bool = False) -> Option:
    """The option for a field of a mechanism or randomizer type, under the field's own name unless another is given."""
    default = None if is_optional else owner.__dataclass_fields__[field].default  # type: ignore[attr-defined]
    default = None if default is dataclasses.MISSING else default
    spec = number_fields(owner)[field]
    also = tuple(n for n in (*_ALSO.get(field, ()), spec.also, *((field,) if name else ())) if n and n != name)
    return Option(name or field, spec, default, is_optional, also)


_ALSO = {"noise_multiplier": ("sigma",), "sampling_prob": ("sampling_rate",)}  # common names of fields


def flag_of(name: str) -> str:
    """The option for the name of a field, as a string."""
    return "--" + name.replace("_", "-")


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A way to use the data: its meaning, its options, and how to build its mechanism from their values.

    `calibrated` is the field that is calibrated by default, empty if there is none; `renamed` are the options that have
    another name in the mechanism; `one_of` are options of which exactly one must be given; `sized` makes options from
    the sizes of a training run; `texts` are options that are not numbers: the function that reads them, their
    placeholder, and their help; `also` are the scheme's other names.
    """

    help: str
    options: tuple[Option, ...]
    build: Callable[[Mapping[str, Any]], Mechanism]
    calibrated: str
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    one_of: tuple[str, ...] = ()
    sized: "Callable[[Sizes], Mapping[str, Any]] | None" = None
    texts: Mapping[str, tuple[Callable[[str], Any], str, str]] = dataclasses.field(default_factory=dict)
    also: tuple[str, ...] = ()

    def field(self, option: str) -> str:
        """The mechanism's own name for an option."""
        return self.renamed.get(option, option)

    def mechanism(self, values: Mapping[str, Any]) -> Mechanism:
        """The mechanism that options describe; raises ValueError if one is missing, or given twice."""
        return self.described(self.complete(values))

    def described(self, values: Mapping[str, Any]) -> Mechanism:
        """The mechanism that complete options describe, under the adjacency that they name."""
        run = self.build(values)
        if (size := values.get("dataset_size")) is not None and hasattr(run, "dataset_size"):
            run = dataclasses.replace(run, dataset_size=size)  # type: ignore[type-var]
        found: Mechanism = in_relation(run, values.get("neighboring_relation"))
        return found

    def complete(self, values: Mapping[str, Any], *, without: str = "") -> dict[str, Any]:
        """The options, with those that follow from the sizes of a run; raises ValueError if any is missing."""
        whole = {name: values[name] for name in (*(option.name for option in self.options), *self.texts)}
        if self.sized is not None and any(values.get(name) is not None for name in SIZES):
            missing = [flag_of(name) for name in SIZES if values.get(name) is None]
            if missing:
                raise ValueError(f"{missing[0]} must be given: --dataset-size, --batch-size and --epochs go together")
            found = self.sized(Sizes(*(values[name] for name in SIZES)))
            said = [flag_of(o.name) for o in self.options if o.name in found and str(whole[o.name]) != str(o.default)]
            if said:
                raise ValueError(f"{said[0]} must be left out: it follows from the sizes given")
            whole |= {**found, "dataset_size": values["dataset_size"]}
        whole["neighboring_relation"] = values.get("neighboring_relation")
        needed = [o for o in self.options if o.default is None and not o.is_optional and o.name != without]
        missing = [option.flag for option in needed if whole[option.name] is None]
        if missing:
            only = f": only {flag_of(without)} is calibrated" if without else ""
            sizes = " (or --dataset-size, --batch-size, --epochs)" if self.sized is not None and not without else ""
            raise ValueError(f"{', '.join(missing)} must be given{sizes}{only}")
        return whole


class Sizes(NamedTuple):
    """The sizes of a training run: records, records in a batch, and how many times each record is used."""

    dataset_size: Any
    batch_size: Any
    epochs: Any


SIZES = {
    "dataset_size": ("N", "records in the data set; the answer makes this number public"),
    "batch_size": ("B", "records in a batch, on average"),
    "epochs": ("E", "how many times each record is used, on average"),
}


def add_options(parser: argparse.ArgumentParser, scheme: Scheme, *, parse: Any = number) -> None:
    """Adds a scheme's options to `parser`; `Scheme.complete` finds what is missing."""
    for option in scheme.options:
        parser.add_argument(
            option.flag,
            *map(flag_of, option.also),
            dest=option.name,
            type=whole_axis if parse is axis and option.spec.is_whole else parse,
            default=option.default,
            metavar=option.spec.symbol,
            help=option.help,
        )
    named = "adjacency of the answer, if not the scheme's own: " + ", ".join(RELATIONS)
    parser.add_argument("--neighboring-relation", choices=RELATIONS, metavar="RELATION", help=named)
    for name, (read, metavar, text) in scheme.texts.items():
        several = "append" if name == "part" else "store"
        parser.add_argument(flag_of(name), type=read, action=several, metavar=metavar, help=text)
    if scheme.sized is not None:
        sizes = parser.add_argument_group("in place of rates and steps")
        for name, (metavar, text) in SIZES.items():
            sizes.add_argument(flag_of(name), type=number, metavar=metavar, help=text)
