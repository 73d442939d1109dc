"""The commands: what each computes, and the options that only it has.

Modules that are slow to import, or not installed everywhere, are imported by the command that needs them.
"""

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jaxacct.cli._measures import HELP, MEASURE, measure, target_options
from jaxacct.cli._numbers import axis, number, rates
from jaxacct.cli._working import noted, shown_working, text_width

if TYPE_CHECKING:
    from jaxacct.cli._options import Scheme
    from jaxacct.mechanisms._base import Mechanism
    from jaxacct.sweeping import SweepResult

_PRECISION = (
    "relative width of the certified interval (default 0.001, of delta and in compare 0.01; inf: quick methods only)"
)
_RATES = "false positive rates R,... of membership tests to bound (default 0.001,0.01,0.1), or none"
_METHOD = "ask this method only, by its name in compare; 'monte carlo' gives an estimate, which is labelled as one"


@dataclasses.dataclass(frozen=True)
class Command:
    """What ``jaxacct NAME SCHEME ...`` does.

    Attributes:
      help: what the command computes, in one line.
      run: makes the text that the command prints, from the parsed arguments and the scheme.
      add_own_options: adds the options that only this command has.
      targets: which of delta and epsilon are given; if both are named, one or both.
      needs_both: whether all targets must be given, or a measure and its target.
      measures: whether one of the targets may be a measure.
      solves: whether the command solves for a number, or fills a grid of them.
      parse: reads the numbers.
    """

    help: str
    run: "Callable[[argparse.Namespace, Scheme], str]"
    add_own_options: "Callable[[argparse.ArgumentParser, Scheme], None]"
    targets: tuple[str, ...] = ("delta", "epsilon")
    needs_both: bool = False
    measures: bool = False
    solves: bool = False
    parse: Callable[[str], Any] = number

    def schemes(self, every: "Mapping[str, Scheme]") -> list[str]:
        """The names of its schemes: all, or those with numbers that can be solved for or swept."""
        return [name for name, scheme in every.items() if scheme.calibrated or not self.solves]

    def add_options(self, parser: argparse.ArgumentParser, scheme: "Scheme") -> None:
        """Adds every option but those that describe the scheme."""
        needed = len(self.targets) == 1
        group = parser if needed or self.needs_both else parser.add_mutually_exclusive_group(required=True)
        for name in self.targets:
            flag, metavar, text = _TARGETS[name]
            group.add_argument(flag, type=self.parse, metavar=metavar, help=text, required=needed)
        if self.measures:
            group.add_argument("--measure", type=measure, metavar=MEASURE, help=HELP)
        parser.add_argument("--precision", type=number, metavar="P", help=_PRECISION)
        self.add_own_options(parser, scheme)


_TARGETS = {
    "delta": ("--delta", "D", "target delta, in (0, 1)"),
    "epsilon": ("--epsilon", "EPS", "target epsilon, >= 0"),
}


def _question(args: argparse.Namespace) -> dict[str, Any]:
    """The target and the precision, as arguments of the library."""
    target = {"target_delta": getattr(args, "delta", None), "target_epsilon": getattr(args, "epsilon", None)}
    return {**target, "precision": args.precision}


def _spent(args: argparse.Namespace) -> tuple[float, float] | None:
    """(epsilon, delta) of what was spent before; None if nothing was."""
    from jaxacct._validate import check_epsilon, check_probability

    if args.spent_epsilon is None:
        if args.spent_delta is not None:
            raise ValueError("--spent-epsilon must be given with --spent-delta")
        return None
    spent = args.spent_epsilon, args.spent_delta or 0.0
    check_epsilon("--spent-epsilon", spent[0])
    check_probability("--spent-delta", spent[1])
    return spent


def _spent_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spent-epsilon", type=number, metavar="E", help="spent before on the same data, >= 0")
    parser.add_argument("--spent-delta", type=number, metavar="D", help="the delta of that epsilon (default 0)")


def _json_option(parser: argparse.ArgumentParser, scheme: "Scheme") -> None:
    del scheme
    parser.add_argument("--json", action="store_true", help="machine-readable output")


def _method_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--method", metavar="M", help=_METHOD)


def _rates_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rates", type=rates, metavar="R", help=_RATES)


def _measures_option(parser: argparse.ArgumentParser) -> None:
    text = f"also state (may be given several times): {HELP}"
    parser.add_argument("--measure", type=measure, action="append", default=[], metavar=MEASURE, help=text)


def _also_shown(args: argparse.Namespace) -> dict[str, Any]:
    """The chosen rates and measures, as arguments of the library; rates are left out if none were chosen."""
    rates = {} if args.rates is None else {"false_positive_rates": args.rates}
    return {**rates, "measures": args.measure}


def _statement_options(parser: argparse.ArgumentParser, scheme: "Scheme") -> None:
    _json_option(parser, scheme)
    _method_option(parser)
    _rates_option(parser)
    _measures_option(parser)
    _spent_options(parser)


def _statement(args: argparse.Namespace, scheme: "Scheme") -> str:
    from jaxacct.reporting import statement, statement_json, statement_text

    mechanism = scheme.mechanism(vars(args))
    with shown_working():
        asked = {**_question(args), "method": args.method}
        facts = statement(mechanism, **asked, **_also_shown(args), prefix=_spent(args))
    return statement_json(facts) if args.json else statement_text(facts, text_width())


def _compare_options(parser: argparse.ArgumentParser, scheme: "Scheme") -> None:
    _json_option(parser, scheme)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--plot", metavar="FILE.png", help="also draw the bounds")
    either.add_argument(
        "--plan", action="store_true", help="the methods that would answer, in order, instead: nothing is computed"
    )


def _compare(args: argparse.Namespace, scheme: "Scheme") -> str:
    from jaxacct.accounting import compare
    from jaxacct.accounting._entries import comparison_text
    from jaxacct.reporting import entry_fields, statement_json

    mechanism = scheme.mechanism(vars(args))
    if args.plan:
        return _plan(mechanism, args)
    if args.plot is not None:  # before the work: matplotlib may be missing, and so may the directory
        from jaxacct.plot._files import check_path

        check_path("--plot", args.plot)
    with shown_working():
        entries = compare(mechanism, **_question(args))
    if args.plot is not None:
        from jaxacct import plot

        try:
            with shown_working():
                axes = plot.comparison(mechanism, args.delta, target_epsilon=args.epsilon, entries=entries)
                axes.get_figure(root=True).savefig(args.plot)  # type: ignore[union-attr]
        except (OSError, ValueError) as error:
            print(f"jaxacct compare: no picture: {error}", file=sys.stderr)
    if args.json:
        return statement_json([{**entry_fields(e), "seconds": e.seconds} for e in entries])
    return comparison_text(entries, "epsilon" if args.epsilon is None else "delta")


def _plan(mechanism: "Mechanism", args: argparse.Namespace) -> str:
    from jaxacct.accounting import plan
    from jaxacct.reporting import plan_text, statement_json, step_fields

    steps = plan(mechanism, **_question(args))
    if args.json:
        return statement_json([step_fields(step, mechanism) for step in steps])
    return plan_text(steps, mechanism)


def _report_options(parser: argparse.ArgumentParser, scheme: "Scheme") -> None:
    del scheme
    parser.add_argument("--style", choices=("text", "markdown", "json"), default="text", help="default text")
    _method_option(parser)
    _rates_option(parser)
    _measures_option(parser)
    _spent_options(parser)


def _report(args: argparse.Namespace, scheme: "Scheme") -> str:
    from jaxacct.reporting import report

    mechanism = scheme.mechanism(vars(args))
    with shown_working():
        asked = {**_question(args), "method": args.method, "style": args.style}
        return report(mechanism, **asked, **_also_shown(args), prefix=_spent(args))


def _calibrate_options(parser: argparse.ArgumentParser, scheme: "Scheme") -> None:
    _json_option(parser, scheme)
    target_options(parser)
    names = [option.flag.removeprefix("--") for option in scheme.options if option.spec.is_solvable]
    default = scheme.calibrated.replace("_", "-")
    parser.add_argument("--field", choices=names, default=default, help=f"what to calibrate (default {default})")
    _method_option(parser)
    _spent_options(parser)


def _calibrate(args: argparse.Namespace, scheme: "Scheme") -> str:
    from jaxacct._types import EstimateWarning
    from jaxacct.accounting import epsilon
    from jaxacct.calibration import calibrate
    from jaxacct.measures._told import measure_fields, measure_text
    from jaxacct.mechanisms._after import after
    from jaxacct.mechanisms._fields import UNKNOWN
    from jaxacct.reporting import folded, statement_json
    from jaxacct.special import shown

    wanted = ("delta", "epsilon") if args.measure is None and args.target is None else ("measure", "target")
    missing = [f"--{name}" for name in wanted if getattr(args, name) is None]
    if missing:
        raise ValueError(f"the following arguments are required: {', '.join(missing)}")
    field = args.field.replace("-", "_")
    values = vars(args)
    values = scheme.complete(values, without=field)
    for rival in scheme.one_of if field in scheme.one_of else ():
        if rival != field and values[rival] is not None:
            flag = "--" + rival.replace("_", "-")
            raise ValueError(f"{flag} cannot be given where --{args.field} is calibrated: choose another --field")
    mechanism, prefix = scheme.described({**values, field: UNKNOWN}), _spent(args)
    with shown_working(), noted(EstimateWarning) as estimates:
        options = {"precision": args.precision, "prefix": prefix, "measure": args.measure, "target": args.target}
        options |= {"method": args.method}
        found = calibrate(mechanism, scheme.field(field), args.epsilon, args.delta, **options)
        met = after(prefix, scheme.described({**values, field: found}))
        if args.measure is not None:
            facts = measure_fields(args.measure, met)
            if args.json:
                asked = {"field": field, field: found, "target": args.target}
                return statement_json({**asked, **facts, "mechanism": met.parameters()})
            budget = f"{measure_text(facts | {'value': args.target})}; certified: {measure_text(facts)}"
            rows = [("scheme", met.describe()), ("budget", budget)]
            return "\n".join([f"{field} = {found!r}", "", *folded(rows, text_width())])
        spent = epsilon(met, args.delta, method=args.method, precision=args.precision)
    failure = [estimate.failure for estimate in estimates]
    kind = "estimated" if failure else "certified"
    if args.json:
        asked = {"field": field, field: found, "epsilon": args.epsilon, "delta": args.delta}
        asked |= {"failure": max(failure)} if failure else {}
        return statement_json({**asked, f"{kind}_epsilon": spent, "mechanism": met.parameters()})
    status = f"{kind} with confidence 1 - {max(failure):g}, not certified" if failure else kind
    budget = f"epsilon {args.epsilon} at delta {args.delta}; {status}: epsilon <= {shown(spent, 6)}"
    rows = [("scheme", met.describe()), ("budget", budget)]
    return "\n".join([f"{field} = {found!r}", "", *folded(rows, text_width())])


def _sweep_options(parser: argparse.ArgumentParser, scheme: "Scheme") -> None:
    del scheme
    add = parser.add_argument
    add("--side-by-side", action="store_true", help="pair up lists of one length, instead of every combination")
    add("--out", metavar="FILE", help="write FILE.csv as rows are done, or FILE.parquet (default: print at the end)")
    add("--resume", action="store_true", help="continue where FILE.csv stops")
    _method_option(parser)
    add("--workers", type=int, metavar="N", help="processes (default: this one, or all cores if that is faster)")


def _grid(args: argparse.Namespace, scheme: "Scheme") -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The mechanism, the lists of its grid by field, and the target, None if that is a list and part of the grid."""
    import numpy as np

    values = scheme.complete(vars(args))
    grid = {scheme.field(name): value for name, value in values.items() if isinstance(value, np.ndarray)}
    target: dict[str, Any] = {"target_delta": args.delta, "target_epsilon": args.epsilon, "measure": args.measure}
    for name, value in list(target.items()):
        if np.ndim(value):
            grid[name], target[name] = value, None
    if not grid:
        raise ValueError("at least one option must be a list: 0.5,1,2 or start:stop:count")
    mechanism = scheme.described(
        {name: value.flat[0].item() if isinstance(value, np.ndarray) else value for name, value in values.items()}
    )
    return mechanism, grid, target


def _sweep(args: argparse.Namespace, scheme: "Scheme") -> str:
    from jaxacct.sweeping import Layout, SweepFailedError, SweepInterrupted, check_folder, grid_of, needed, sweep

    is_table = args.out is not None and args.out.endswith(".parquet")
    if args.resume and (args.out is None or is_table):
        raise ValueError("--resume needs --out FILE.csv, the file to go on with")
    if args.out is not None:
        check_folder("--out", args.out)
    if is_table:
        needed("pyarrow")
    mechanism, grid, target = _grid(args, scheme)
    layout = Layout.ZIPPED if args.side_by_side else Layout.PRODUCT
    points: Any = grid_of(grid, layout, {field: option for option, field in scheme.renamed.items()})
    options: dict[str, Any] = {"method": args.method, "precision": args.precision}
    options |= {"progress": sys.stderr.isatty(), "executor": args.workers}
    rows = None if is_table else args.out
    try:
        with _said_of_estimates():
            found = sweep(mechanism, points, layout=layout, **target, **options, out=rows, resume=args.resume)
    except SweepFailedError as failed:
        if is_table:
            failed.partial.to_parquet(args.out)
        raise ValueError(str(failed)) from None
    except SweepInterrupted as stopped:
        if is_table:
            stopped.partial.to_parquet(args.out)
            raise KeyboardInterrupt(f"{stopped}: {args.out} holds them") from None
        if args.out is not None:
            raise KeyboardInterrupt(str(stopped).replace("resume=True", "--resume")) from None
        print(_table(stopped.partial), flush=True)
        raise
    if is_table:
        found.to_parquet(args.out)
    return f"{found.values.size} points in {args.out}" if args.out is not None else _table(found)


@contextlib.contextmanager
def _said_of_estimates() -> Iterator[None]:
    """Reports once, on standard error, that numbers are estimates, and how likely each of them is to hold."""
    from jaxacct._types import EstimateWarning

    with noted(EstimateWarning) as estimates:
        yield
    if estimates:
        failure = max(estimate.failure for estimate in estimates)
        text = f"each number is an estimate with confidence 1 - {failure:g} over its samples, not certified"
        print(f"jaxacct sweep: {text}", file=sys.stderr)


def _table(found: "SweepResult") -> str:
    columns = found.columns()
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(repr, row)) for row in rows)])


COMMANDS = {
    "epsilon": Command(
        "epsilon at a given delta, with its theorems and assumptions",
        _statement,
        _statement_options,
        ("delta",),
    ),
    "delta": Command(
        "delta at a given epsilon, with its theorems and assumptions",
        _statement,
        _statement_options,
        ("epsilon",),
    ),
    "compare": Command("every applicable bound side by side", _compare, _compare_options),
    "calibrate": Command(
        "the value of one option at which a budget of epsilon and delta, or of a measure, is just met",
        _calibrate,
        _calibrate_options,
        needs_both=True,
        solves=True,
    ),
    "sweep": Command(
        "epsilon (or delta, or a measure) at every point of a grid, as comma-separated values",
        _sweep,
        _sweep_options,
        measures=True,
        solves=True,
        parse=axis,
    ),
    "report": Command("a privacy statement to paste into a model card", _report, _report_options),
}
