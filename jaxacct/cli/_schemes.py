"""The schemes of the command line: their options, and the mechanism that a choice of them describes."""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Option:
    """One number that describes a run; `default` None where it must be given.

    `is_solvable` says whether it can be calibrated.
    """

    name: str
    metavar: str
    help: str
    default: int | float | None = None
    is_optional: bool = False
    is_solvable: bool = True

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


@dataclasses.dataclass(frozen=True)
class Scheme:
    """How data are used: what it means, its options, and how to build its mechanism from their values.

    `calibrated` is what is calibrated unless said otherwise; `renamed` the options that the mechanism calls otherwise.
    """

    help: str
    options: tuple[Option, ...]
    build: Callable[[Mapping[str, Any]], Any]
    calibrated: str
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def field(self, option: str) -> str:
        """The mechanism's own name for an option."""
        return self.renamed.get(option, option)


def number(text: str) -> int | float:
    """An int where the text is one, else a float."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def add_options(parser: argparse.ArgumentParser, scheme: Scheme, *, parse: Any = number, required: bool = True) -> None:
    """Adds a scheme's options to `parser`; what is needed but missing is an error of the parser where `required`."""
    for option in scheme.options:
        needed = required and option.default is None and not option.is_optional
        parser.add_argument(
            option.flag, type=parse, required=needed, default=option.default, metavar=option.metavar, help=option.help
        )


_NOISE = Option("noise_multiplier", "SIGMA", "noise standard deviation over clipping norm, > 0")


def _allocation(values: Mapping[str, Any]) -> Any:
    from jaxacct.mechanisms import Gaussian, RandomAllocation

    noise = Gaussian(values["noise_multiplier"])
    return RandomAllocation(noise, values["num_steps"], values["num_selected"], values["num_epochs"])


def _poisson(values: Mapping[str, Any]) -> Any:
    from jaxacct.mechanisms import Gaussian, PoissonSampled

    return PoissonSampled(Gaussian(values["noise_multiplier"]), values["sampling_prob"], values["num_steps"])


def _gaussian(values: Mapping[str, Any]) -> Any:
    from jaxacct.mechanisms import Composed, Gaussian

    return Composed(Gaussian(values["noise_multiplier"]), values["num_steps"])


def _shuffle(values: Mapping[str, Any]) -> Any:
    from jaxacct.mechanisms import Shuffled

    return Shuffled(_randomizer(values), values["num_reports"], values["num_epochs"])


def _check_in(values: Mapping[str, Any]) -> Any:
    from jaxacct.mechanisms import CheckIn

    return CheckIn(
        _randomizer(values),
        values["num_users"],
        values["check_in_prob"],
        num_epochs=values["num_epochs"],
        dropout_prob=values["dropout_prob"],
    )


def _randomizer(values: Mapping[str, Any]) -> Any:
    from jaxacct.mechanisms import GaussianReports, KaryRandomizedResponse, LocalRandomizer

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


_RANDOMIZER = (
    Option("local_epsilon", "E0", "pure local privacy of one report, >= 0", is_optional=True),
    Option("local_delta", "D0", "approximate part of it (default 0)", 0.0),
    Option("num_categories", "K", "reports are K-ary randomized response", is_optional=True, is_solvable=False),
    Option(
        "noise_multiplier", "SIGMA", "Gaussian reports instead: noise standard deviation over norm", is_optional=True
    ),
)

SCHEMES = {
    "allocation": Scheme(
        "each record in K of T steps, uniformly",
        (
            _NOISE,
            Option("num_steps", "T", "steps in one epoch"),
            Option("num_selected", "K", "steps that a record joins (default 1)", 1),
            Option("num_epochs", "E", "epochs, allocated afresh (default 1)", 1),
        ),
        _allocation,
        "noise_multiplier",
    ),
    "poisson": Scheme(
        "each record in each step with probability Q",
        (
            _NOISE,
            Option("sampling_prob", "Q", "probability to join a step, in [0, 1]"),
            Option("num_steps", "T", "steps in all"),
        ),
        _poisson,
        "noise_multiplier",
    ),
    "gaussian": Scheme(
        "every record in every step",
        (_NOISE, Option("num_steps", "T", "releases of the whole data (default 1)", 1)),
        _gaussian,
        "noise_multiplier",
        {"num_steps": "counts"},
    ),
    "shuffle": Scheme(
        "reports of N users, shuffled",
        (
            *_RANDOMIZER,
            Option("num_reports", "N", "reports in one round"),
            Option("num_epochs", "E", "rounds, shuffled afresh (default 1)", 1),
        ),
        _shuffle,
        "local_epsilon",
    ),
    "check-in": Scheme(
        "reports of the users who join a round by own coins, shuffled",
        (
            *_RANDOMIZER,
            Option("num_users", "N", "users that may join"),
            Option("check_in_prob", "Q", "probability to join a round, in [0, 1]"),
            Option(
                "dropout_prob", "R", "probability that who joined sends nothing (default 0)", 0.0, is_solvable=False
            ),
            Option("num_epochs", "E", "rounds (default 1)", 1),
        ),
        _check_in,
        "local_epsilon",
    ),
}
