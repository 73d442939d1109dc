"""The schemes of the command line: their options, and the mechanism that a choice of them describes."""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxacct.cli._numbers import number
from jaxacct.mechanisms import (
    CheckIn,
    Composed,
    DiscreteLaplace,
    EpsilonDelta,
    Exponential,
    Gaussian,
    GaussianReports,
    KaryRandomizedResponse,
    LocalRandomizer,
    PoissonSampled,
    RandomAllocation,
    RandomizedResponse,
    Shuffled,
)
from jaxacct.mechanisms._base import Mechanism, Randomizer
from jaxacct.mechanisms._fields import FieldSpec, number_fields


@dataclasses.dataclass(frozen=True)
class Option:
    """One number that describes a run: a field of a mechanism, as the command line shows it.

    Attributes:
      name: of the option, in the form of a Python name.
      spec: what is known of the field.
      default: None where the option must be given.
      is_optional: whether it may be left out although it has no default.
    """

    name: str
    spec: FieldSpec
    default: int | float | None = None
    is_optional: bool = False

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def help(self) -> str:
        """What the field's specification says of it, and the default."""
        return self.spec.help if self.default is None else f"{self.spec.help} (default {self.default:g})"

    @property
    def is_solvable(self) -> bool:
        """Whether it can be calibrated."""
        return self.spec.is_solvable


def _option(owner: type, field: str, name: str = "", *, is_optional: bool = False) -> Option:
    """The option for a field of a type of mechanism or randomizer, under the field's own name if not another one."""
    default = None if is_optional else owner.__dataclass_fields__[field].default  # type: ignore[attr-defined]
    default = None if default is dataclasses.MISSING else default
    return Option(name or field, number_fields(owner)[field], default, is_optional)


@dataclasses.dataclass(frozen=True)
class Scheme:
    """How data are used: what it means, its options, and how to build its mechanism from their values.

    `calibrated` is what is calibrated unless said otherwise; `renamed` the options that the mechanism calls otherwise;
    `one_of` options of which exactly one must be given.
    """

    help: str
    options: tuple[Option, ...]
    build: Callable[[Mapping[str, Any]], Mechanism]
    calibrated: str
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    one_of: tuple[str, ...] = ()

    def field(self, option: str) -> str:
        """The mechanism's own name for an option."""
        return self.renamed.get(option, option)


def add_options(parser: argparse.ArgumentParser, scheme: Scheme, *, parse: Any = number, required: bool = True) -> None:
    """Adds a scheme's options to `parser`; what is needed but missing is an error of the parser where `required`."""
    for option in scheme.options:
        needed = required and option.default is None and not option.is_optional
        parser.add_argument(
            option.flag,
            type=parse,
            required=needed,
            default=option.default,
            metavar=option.spec.symbol,
            help=option.help,
        )


def _allocation(values: Mapping[str, Any]) -> Mechanism:
    noise = Gaussian(values["noise_multiplier"])
    return RandomAllocation(noise, values["num_steps"], values["num_selected"], values["num_epochs"])


def _poisson(values: Mapping[str, Any]) -> Mechanism:
    return PoissonSampled(Gaussian(values["noise_multiplier"]), values["sampling_prob"], values["num_steps"])


def _gaussian(values: Mapping[str, Any]) -> Mechanism:
    return Composed(Gaussian(values["noise_multiplier"]), values["num_steps"])


def _guarantee(values: Mapping[str, Any]) -> Mechanism:
    return Composed(EpsilonDelta(values["guaranteed_epsilon"], values["guaranteed_delta"]), values["num_steps"])


def _response(values: Mapping[str, Any]) -> Mechanism:
    return Composed(RandomizedResponse(values["local_epsilon"], values["num_categories"]), values["num_steps"])


def _choices(values: Mapping[str, Any]) -> Mechanism:
    return Composed(Exponential(values["range_epsilon"]), values["num_steps"])


def _counts(values: Mapping[str, Any]) -> Mechanism:
    return Composed(DiscreteLaplace(values["noise_parameter"], values["sensitivity"]), values["num_steps"])


def _shuffle(values: Mapping[str, Any]) -> Mechanism:
    return Shuffled(_randomizer(values), values["num_reports"], values["num_epochs"])


def _check_in(values: Mapping[str, Any]) -> Mechanism:
    return CheckIn(
        _randomizer(values),
        values["num_users"],
        values["check_in_prob"],
        num_epochs=values["num_epochs"],
        dropout_prob=values["dropout_prob"],
    )


def _randomizer(values: Mapping[str, Any]) -> Randomizer:
    local_epsilon, noise_multiplier = values["local_epsilon"], values["noise_multiplier"]
    if (local_epsilon is None) == (noise_multiplier is None):
        raise ValueError("exactly one of --local-epsilon and --noise-multiplier must be given")
    if noise_multiplier is not None:
        for name, default in (("local_delta", 0), ("num_categories", None)):
            if values[name] != default:
                raise ValueError(f"{name}={values[name]} must be left out: reports have Gaussian noise")
        return GaussianReports(noise_multiplier)
    if values["num_categories"] is None:
        return LocalRandomizer(local_epsilon, values["local_delta"])
    if values["local_delta"]:
        raise ValueError(f"local_delta={values['local_delta']} must be 0 for k-ary randomized response")
    return KaryRandomizedResponse(local_epsilon, values["num_categories"])


_NOISE = _option(Gaussian, "noise_multiplier")
_RUNS = _option(Composed, "counts", "num_steps")
_RANDOMIZER = (
    _option(LocalRandomizer, "local_epsilon", is_optional=True),
    _option(LocalRandomizer, "local_delta"),
    _option(KaryRandomizedResponse, "num_categories", is_optional=True),
    _option(GaussianReports, "noise_multiplier", is_optional=True),
)
_ONE_RANDOMIZER = ("local_epsilon", "noise_multiplier")

SCHEMES = {
    "allocation": Scheme(
        "each record in K of T steps, uniformly",
        (_NOISE, *(_option(RandomAllocation, name) for name in ("num_steps", "num_selected", "num_epochs"))),
        _allocation,
        "noise_multiplier",
    ),
    "poisson": Scheme(
        "each record in each step with probability Q",
        (
            _NOISE,
            _option(PoissonSampled, "sampling_prob"),
            dataclasses.replace(_option(PoissonSampled, "num_steps"), default=None),
        ),
        _poisson,
        "noise_multiplier",
    ),
    "gaussian": Scheme(
        "every record in every step",
        (_NOISE, _RUNS),
        _gaussian,
        "noise_multiplier",
        {"num_steps": "counts"},
    ),
    "guarantee": Scheme(
        "releases of which an (epsilon, delta) guarantee is known",
        (_option(EpsilonDelta, "guaranteed_epsilon"), _option(EpsilonDelta, "guaranteed_delta"), _RUNS),
        _guarantee,
        "guaranteed_epsilon",
        {"num_steps": "counts"},
    ),
    "response": Scheme(
        "answers by randomized response, with their senders",
        (_option(RandomizedResponse, "local_epsilon"), _option(RandomizedResponse, "num_categories"), _RUNS),
        _response,
        "local_epsilon",
        {"num_steps": "counts"},
    ),
    "choice": Scheme(
        "choices by the exponential mechanism",
        (_option(Exponential, "range_epsilon"), _RUNS),
        _choices,
        "range_epsilon",
        {"num_steps": "counts"},
    ),
    "counts": Scheme(
        "counts with discrete Laplace noise",
        (_option(DiscreteLaplace, "noise_parameter"), _option(DiscreteLaplace, "sensitivity"), _RUNS),
        _counts,
        "noise_parameter",
        {"num_steps": "counts"},
    ),
    "shuffle": Scheme(
        "reports of N users, shuffled",
        (*_RANDOMIZER, _option(Shuffled, "num_reports"), _option(Shuffled, "num_epochs")),
        _shuffle,
        "local_epsilon",
        one_of=_ONE_RANDOMIZER,
    ),
    "check-in": Scheme(
        "reports of the users who join a round by own coins, shuffled",
        (
            *_RANDOMIZER,
            *(_option(CheckIn, name) for name in ("num_users", "check_in_prob", "dropout_prob", "num_epochs")),
        ),
        _check_in,
        "local_epsilon",
        one_of=_ONE_RANDOMIZER,
    ),
}
