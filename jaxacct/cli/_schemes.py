"""The schemes of the command line: their options, and the mechanism that a choice of them describes."""

import argparse
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jaxacct._alike import suggestion
from jaxacct._types import LastBatch
from jaxacct._validate import checked_choice
from jaxacct.cli._numbers import coefficients, matrix
from jaxacct.cli._options import Scheme, Sizes, add_options, flag_of, option_of
from jaxacct.cli._parser import Parser
from jaxacct.mechanisms import (
    AboveThreshold,
    BallsInBins,
    CheckIn,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    Exponential,
    FiniteRandomizer,
    FixedBatches,
    Gaussian,
    GaussianAboveThreshold,
    GaussianReports,
    Group,
    KaryRandomizedResponse,
    Laplace,
    LaplaceReports,
    LocalRandomizer,
    PermuteAndFlip,
    PoissonSampled,
    PrivateSelection,
    RandomAllocation,
    RandomizedResponse,
    Shuffled,
    ShuffledBatches,
    Skellam,
    TruncatedPoisson,
    ZCdp,
)
from jaxacct.mechanisms._base import Mechanism, Randomizer


def _sized_allocation(sizes: Sizes) -> dict[str, Any]:
    run = RandomAllocation.from_epochs(Gaussian(1.0), **sizes._asdict())
    return {"num_steps": run.num_steps, "num_epochs": run.num_epochs}


def _sized_poisson(sizes: Sizes) -> dict[str, Any]:
    run = PoissonSampled.from_epochs(Gaussian(1.0), **sizes._asdict())
    return {"sampling_prob": run.sampling_prob, "num_steps": run.num_steps}


def _allocation(values: Mapping[str, Any]) -> Mechanism:
    noise = Gaussian(values["noise_multiplier"])
    return RandomAllocation(noise, values["num_steps"], values["num_selected"], values["num_epochs"])


def _sized_shuffle(sizes: Sizes) -> dict[str, Any]:
    """The options for these sizes, with what `_shuffled_batches` needs to know about an incomplete last batch."""
    run = ShuffledBatches.from_epochs(Gaussian(1.0), **sizes._asdict())
    return {"num_steps": run.num_steps, "num_epochs": run.num_epochs, "has_rest": run.last_batch is LastBatch.SHORT}


def _shuffled_batches(values: Mapping[str, Any]) -> Mechanism:
    has_rest, steps = values.get("has_rest", False), values["num_steps"]
    last = values.get("last_batch") or (LastBatch.SHORT if has_rest else LastBatch.FULL)
    if "has_rest" in values and not has_rest:
        last = LastBatch.FULL  # these sizes leave nothing over
    if has_rest and last is LastBatch.DROPPED:
        steps = steps - 1
    return ShuffledBatches(Gaussian(values["noise_multiplier"]), steps, values["num_epochs"], last)


def _last_batch(text: str) -> LastBatch:
    try:
        return checked_choice("last_batch", text, *LastBatch)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} must be full, short or dropped") from error


def _poisson(values: Mapping[str, Any]) -> Mechanism:
    return PoissonSampled(Gaussian(values["noise_multiplier"]), values["sampling_prob"], values["num_steps"])


def _fixed_batches(values: Mapping[str, Any]) -> Mechanism:
    sizes = (values["num_records"], values["batch_size"], values["num_steps"])
    return FixedBatches(Gaussian(values["noise_multiplier"]), *sizes, with_replacement=bool(values["with_replacement"]))


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"{text!r} must be yes or no")
    return text == "yes"


def _truncated_poisson(values: Mapping[str, Any]) -> Mechanism:
    fields = ("sampling_prob", "num_records", "max_batch_size", "num_steps")
    return TruncatedPoisson(Gaussian(values["noise_multiplier"]), *(values[name] for name in fields))


def _balls_in_bins(values: Mapping[str, Any]) -> Mechanism:
    if values["strategy"] is None:
        raise ValueError("--strategy must be given")
    fields = ("noise_multiplier", "num_batches", "num_epochs")
    return BallsInBins(values["strategy"], *(values[name] for name in fields))


def _finite(values: Mapping[str, Any]) -> Mechanism:
    if values["probabilities"] is None:
        raise ValueError("--probabilities must be given")
    return Shuffled(FiniteRandomizer(values["probabilities"]), values["num_reports"], values["num_epochs"])


def _composed(values: Mapping[str, Any]) -> Mechanism:
    parts = (values["file"] or []) + (values["part"] or [])
    if not parts:
        raise ValueError("--part or --file must be given")
    mechanisms, counts = zip(*(run for part in parts for run in part.parts()), strict=True)
    return Composed(mechanisms, counts)


def _read_part(text: str) -> Mechanism:
    """A scheme with its options, as they are typed after a command."""
    try:
        name, *words = shlex.split(text) or [""]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {str(error).lower()}") from error
    return _part(name, words)


def _part(name: str, words: Sequence[str]) -> Mechanism:
    parts = [one for one in SCHEMES if one != "composed"]
    if name not in {*parts, *(also for one in parts for also in SCHEMES[one].also)}:
        meant = suggestion(name, parts)
        raise argparse.ArgumentTypeError(f"{name!r} must be one of {', '.join(parts)}{meant}")
    parser, scheme = _PartParser(prog=name, add_help=False), scheme_called(name)
    add_options(parser, scheme)
    try:
        return scheme.mechanism(vars(parser.parse_args(parser.spelled(words))))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from error


class _PartParser(Parser):
    def error(self, message: str) -> NoReturn:
        """Raises the error as one of the whole command."""
        raise argparse.ArgumentTypeError(f"{self.prog}: {message}")


def _read_file(path: str) -> list[Mechanism]:
    """The parts in a TOML file: tables ``[[part]]`` with a scheme and its options, by name."""
    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file).get("part", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from error
    if not isinstance(tables, list) or not tables:
        raise argparse.ArgumentTypeError(f"{path}: must have tables [[part]]")
    parts = []
    for table in tables:
        words = [word for name, value in table.items() if name != "scheme" for word in (flag_of(name), str(value))]
        parts.append(_part(str(table.get("scheme", "")), words))
    return parts


def _run_of(values: Mapping[str, Any]) -> Mechanism:
    if values["run"] is None:
        raise ValueError("--run must be given: a scheme with its options, as after a command")
    found: Mechanism = values["run"]
    return found


def _group(values: Mapping[str, Any]) -> Mechanism:
    return Group(_run_of(values), values["size"])


def _selection(values: Mapping[str, Any]) -> Mechanism:
    shape = 1.0 if values["shape"] is None else values["shape"]
    return PrivateSelection(_run_of(values), values["mean_runs"], shape)


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
    given = [name for name in _ONE_RANDOMIZER if values[name] is not None]
    if len(given) != 1:
        flags = [flag_of(name) for name in _ONE_RANDOMIZER]
        raise ValueError(f"exactly one of {', '.join(flags[:-1])} and {flags[-1]} must be given")
    (name,) = given
    if name != "local_epsilon":
        noise = "Gaussian" if name == "noise_multiplier" else "Laplace"
        _left_out(values, f"reports have {noise} noise", local_delta=0, num_categories=None)
        dimension = values["dimension"]
        if name == "noise_multiplier":
            return GaussianReports(values[name], dimension)
        return LaplaceReports(values[name], 1 if dimension is None else dimension)
    _left_out(values, "reports have a local epsilon", dimension=None)
    if values["num_categories"] is None:
        return LocalRandomizer(values[name], values["local_delta"])
    if values["local_delta"]:
        raise ValueError(f"local_delta={values['local_delta']} must be 0 for k-ary randomized response")
    return KaryRandomizedResponse(values[name], values["num_categories"])


def _left_out(values: Mapping[str, Any], why: str, **defaults: Any) -> None:
    """Raises ValueError unless options have their default values, as they do if they are not given."""
    for name, default in defaults.items():
        if values[name] != default:
            raise ValueError(f"{name}={values[name]} must be left out: {why}")


_NOISE = option_of(Gaussian, "noise_multiplier")
_RUNS = option_of(Composed, "counts", "num_steps")
_RANDOMIZER = (
    option_of(LocalRandomizer, "local_epsilon", is_optional=True),
    option_of(LocalRandomizer, "local_delta"),
    option_of(KaryRandomizedResponse, "num_categories", is_optional=True),
    option_of(GaussianReports, "noise_multiplier", is_optional=True),
    option_of(LaplaceReports, "scale", "laplace_scale", is_optional=True),
)
_DIMENSION = {"dimension": (int, "D", "coordinates of a report with noise (default: any number; of Laplace noise, 1)")}
_RUN = (_read_part, "'SCHEME --OPTION ..'", "the run, as it is typed after a command")
_MONOTONIC = "whether a record moves all queries the same way"
_ONE_RANDOMIZER = ("local_epsilon", "noise_multiplier", "laplace_scale")


def _releases(
    text: str,
    kind: type[Mechanism],
    fields: Sequence[str],
    names: Sequence[str] = (),
    also: tuple[str, ...] = (),
    **asked: str,
) -> Scheme:
    """A scheme of releases of one kind: options for its `fields`, called `names` if given; the first is calibrated.

    `also` are other names of the scheme; `asked` are fields that are True or False, with their questions.
    """
    named = dict(zip(names or fields, fields, strict=True))

    def build(values: Mapping[str, Any]) -> Mechanism:
        told = {name: bool(values[name]) for name in asked}
        return Composed(kind(**{field: values[name] for name, field in named.items()}, **told), values["num_steps"])

    options = (option_of(kind, field, "" if name == field else name) for name, field in named.items())
    texts = {name: (_yes_or_no, "yes|no", f"{words} (default: no)") for name, words in asked.items()}
    renamed = {**named, "num_steps": "counts"}
    return Scheme(text, (*options, _RUNS), build, next(iter(named)), renamed, texts=texts, also=also)


SCHEMES = {
    "allocation": Scheme(
        "each record in K of T steps, chosen uniformly at random",
        (_NOISE, *(option_of(RandomAllocation, name) for name in ("num_steps", "num_selected", "num_epochs"))),
        _allocation,
        "noise_multiplier",
        sized=_sized_allocation,
    ),
    "poisson": Scheme(
        "each record in each step with probability Q",
        (
            _NOISE,
            option_of(PoissonSampled, "sampling_prob"),
            option_of(PoissonSampled, "num_steps"),
        ),
        _poisson,
        "noise_multiplier",
        sized=_sized_poisson,
    ),
    "shuffled-batches": Scheme(
        "each record in one of T batches, cut from a shuffled list",
        (_NOISE, option_of(ShuffledBatches, "num_steps"), option_of(ShuffledBatches, "num_epochs")),
        _shuffled_batches,
        "noise_multiplier",
        sized=_sized_shuffle,
        texts={
            "last_batch": (
                _last_batch,
                "full|short|dropped",
                "what happens to records that fill no batch: the list is filled up with empty ones, the last batch is "
                "shorter, or they are left out (default: full, or short if the sizes leave a remainder)",
            )
        },
    ),
    "fixed-batches": Scheme(
        "in each step a random batch of B of N records",
        (_NOISE, *(option_of(FixedBatches, name) for name in ("num_records", "batch_size", "num_steps"))),
        _fixed_batches,
        "noise_multiplier",
        texts={"with_replacement": (_yes_or_no, "yes|no", "whether a batch may hold a record twice (default: no)")},
    ),
    "truncated-poisson": Scheme(
        "Poisson-sampled batches with a largest size of B records",
        (
            _NOISE,
            *(option_of(TruncatedPoisson, x) for x in ("sampling_prob", "num_records", "max_batch_size", "num_steps")),
        ),
        _truncated_poisson,
        "noise_multiplier",
    ),
    "balls-in-bins": Scheme(
        "each record in one of T batches, the same in each epoch, with correlated noise",
        (_NOISE, *(option_of(BallsInBins, name) for name in ("num_batches", "num_epochs"))),
        _balls_in_bins,
        "noise_multiplier",
        texts={"strategy": (coefficients, "C,C,..", "first column of the strategy matrix, a Toeplitz one: 1,0.5,0.25")},
    ),
    "gaussian": _releases("every record in every step", Gaussian, ("noise_multiplier",)),
    "epsilon-delta": _releases(
        "releases with a known (epsilon, delta) guarantee",
        EpsilonDelta,
        ("guaranteed_epsilon", "guaranteed_delta"),
        also=("guarantee",),
    ),
    "randomized-response": _releases(
        "answers by randomized response, not shuffled",
        RandomizedResponse,
        ("local_epsilon", "num_categories"),
        also=("response",),
    ),
    "exponential": _releases("choices by the exponential mechanism", Exponential, ("range_epsilon",), also=("choice",)),
    "discrete-laplace": _releases(
        "counts with discrete Laplace noise", DiscreteLaplace, ("noise_parameter", "sensitivity"), also=("counts",)
    ),
    "discrete-gaussian": _releases(
        "counts with discrete Gaussian noise", DiscreteGaussian, ("scale", "sensitivity"), also=("gaussian-counts",)
    ),
    "skellam": _releases("counts with Skellam noise", Skellam, ("variance", "sensitivity"), also=("skellam-counts",)),
    "permute-and-flip": _releases("choices by permute-and-flip", PermuteAndFlip, ("choice_epsilon",)),
    "above-threshold": _releases(
        "which queries are above a threshold, with Laplace noise",
        AboveThreshold,
        ("query_scale", "threshold_scale", "cutoff", "sensitivity"),
        monotonic=_MONOTONIC,
    ),
    "gaussian-above-threshold": _releases(
        "which queries are above a threshold, with Gaussian noise",
        GaussianAboveThreshold,
        ("query_std", "threshold_std", "num_queries", "cutoff", "sensitivity"),
        monotonic=_MONOTONIC,
    ),
    "zcdp": _releases("releases with a known zero-concentrated (zCDP) guarantee", ZCdp, ("rho", "xi")),
    "laplace": _releases("every record in every step, with Laplace noise", Laplace, ("noise_multiplier",), ("scale",)),
    "shuffle": Scheme(
        "reports of N users, shuffled",
        (*_RANDOMIZER, option_of(Shuffled, "num_reports"), option_of(Shuffled, "num_epochs")),
        _shuffle,
        "local_epsilon",
        renamed={"laplace_scale": "scale"},
        one_of=_ONE_RANDOMIZER,
        texts=_DIMENSION,
    ),
    "finite-randomizer": Scheme(
        "reports of N users with any finite randomizer, shuffled",
        (option_of(Shuffled, "num_reports"), option_of(Shuffled, "num_epochs")),
        _finite,
        "num_reports",
        texts={"probabilities": (matrix, "P,P,..;..", "of every report, a row for each datum: 0.5,0.5;0.25,0.75")},
        also=("finite",),
    ),
    "check-in": Scheme(
        "shuffled reports of the users who join a round at random",
        (
            *_RANDOMIZER,
            *(option_of(CheckIn, name) for name in ("num_users", "check_in_prob", "dropout_prob", "num_epochs")),
        ),
        _check_in,
        "local_epsilon",
        renamed={"laplace_scale": "scale"},
        one_of=_ONE_RANDOMIZER,
        texts=_DIMENSION,
    ),
    "group": Scheme(
        "another run, for users with up to M records each",
        (option_of(Group, "size"),),
        _group,
        "size",
        texts={"run": _RUN},
    ),
    "selection": Scheme(
        "the best of a random number of runs",
        (option_of(PrivateSelection, "mean_runs"),),
        _selection,
        "mean_runs",
        texts={
            "run": _RUN,
            "shape": (
                float,
                "ETA",
                "shape of the distribution of the number of runs: 1 geometric (default), 0 logarithmic, inf Poisson",
            ),
        },
    ),
    "composed": Scheme(
        "several of the others, one after the other",
        (),
        _composed,
        "",
        texts={
            "part": (_read_part, "'SCHEME --OPTION ..'", "one of the runs, as it is typed after a command; repeat it"),
            "file": (_read_file, "RUN.toml", "the runs: tables [[part]] of a scheme and its options"),
        },
    ),
}


def scheme_called(name: str) -> Scheme:
    """The scheme with this name, or with this as one of its other names."""
    return next(scheme for known, scheme in SCHEMES.items() if name == known or name in scheme.also)
