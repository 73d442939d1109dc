"""The command line: ``jaxacct {epsilon,delta,compare,calibrate,sweep,report} SCHEME ...`` and ``jaxacct demo``."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from jaxacct.cli._schemes import SCHEMES, Scheme, add_options, number

_PRECISION = "relative width of the certified interval (default 0.01, of delta 0.1; inf: quick methods only)"
_MOST_POINTS = 10**7  # of an axis
_EXAMPLES = """examples:
  jaxacct epsilon allocation --noise-multiplier 1 --num-steps 1000 --num-epochs 10 --delta 1e-6
  jaxacct delta poisson --noise-multiplier 1 --sampling-prob 0.01 --num-steps 1000 --epsilon 2
  jaxacct compare shuffle --local-epsilon 1 --num-reports 1000000 --delta 1e-6 --plot bounds.png
  jaxacct calibrate allocation --num-steps 1000 --epsilon 1 --delta 1e-6
  jaxacct calibrate shuffle --num-reports 1000000 --epsilon 0.1 --delta 1e-6
  jaxacct sweep allocation --noise-multiplier 0.6:2:15 --num-steps 100,1000 --delta 1e-6 --out sweep.csv
  jaxacct report allocation --noise-multiplier 1 --num-steps 1000 --delta 1e-6 --style markdown
  jaxacct demo"""
_COMMANDS = {
    "epsilon": "epsilon at a given delta, with what it rests on",
    "delta": "delta at a given epsilon, with what it rests on",
    "compare": "every applicable bound side by side",
    "calibrate": "the value of one option at which a budget of epsilon and delta is just met",
    "sweep": "epsilon (or delta) at every point of a grid, as comma-separated values",
    "report": "a privacy statement to paste into a model card",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One clear line instead of the usage in front of it."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def axis(text: str) -> Any:
    """One number; or several: ``0.5,1,2``, 16 evenly spaced ones ``0.5:2:16``, or ``0.5:2:16:log`` of even ratios."""
    import numpy as np

    start, *rest = text.split(":")
    if not rest:
        values = [number(part) for part in text.split(",")]
        return values[0] if len(values) == 1 else np.asarray(values)
    if len(rest) not in (2, 3) or rest[2:] not in ([], ["log"]):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number, a,b,c or start:stop:count[:log]")
    space = np.geomspace if rest[2:] else np.linspace
    count = int(rest[1])
    if not 1 <= count <= _MOST_POINTS:
        raise argparse.ArgumentTypeError(f"{text!r}: its count must be in [1, {_MOST_POINTS}]")
    return space(number(start), number(rest[0]), count)


def _add_targets(parser: argparse.ArgumentParser, command: str) -> None:
    texts = {
        "delta": ("--delta", "D", "target delta, in (0, 1)"),
        "epsilon": ("--epsilon", "EPS", "target epsilon, >= 0"),
    }
    wanted = {"epsilon": ("delta",), "delta": ("epsilon",)}.get(command, ("delta", "epsilon"))
    group = parser if command == "calibrate" else parser.add_mutually_exclusive_group(required=True)
    for name in wanted:
        flag, metavar, text = texts[name]
        parse = axis if command == "sweep" else number
        group.add_argument(flag, type=parse, metavar=metavar, help=text, required=command == "calibrate")


def _add_own_options(parser: argparse.ArgumentParser, command: str, scheme: Scheme) -> None:
    add = parser.add_argument
    if command == "report":
        add("--style", choices=("text", "markdown", "json"), default="text", help="default text")
    elif command == "sweep":
        add("--side-by-side", action="store_true", help="lists of one length, instead of every combination")
        add("--out", metavar="FILE.csv", help="write there, chunk by chunk (default: standard output, at the end)")
        add("--resume", action="store_true", help="go on where FILE.csv stops")
    else:
        add("--json", action="store_true", help="machine-readable output")
    if command == "compare":
        add("--plot", metavar="FILE.png", help="also draw the bounds")
    if command == "calibrate":
        names = [option.flag.removeprefix("--") for option in scheme.options if option.is_solvable]
        default = scheme.calibrated.replace("_", "-")
        add("--field", choices=names, default=default, help=f"what to calibrate (default {default})")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="jaxacct",
        description="Certified differential-privacy accounting in JAX.",
        epilog=f"{_EXAMPLES}\n\nExit status: 0, or 2 for a wrong argument, 130 if interrupted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command, text in _COMMANDS.items():
        branch = commands.add_parser(command, help=text, description=text)
        schemes = branch.add_subparsers(dest="scheme", required=True, metavar="{" + ",".join(SCHEMES) + "}")
        for name, scheme in SCHEMES.items():
            leaf = schemes.add_parser(name, help=scheme.help, description=f"{text}: {scheme.help}")
            parse = axis if command == "sweep" else number
            add_options(leaf, scheme, parse=parse, required=command != "calibrate")
            _add_targets(leaf, command)
            leaf.add_argument("--precision", type=number, metavar="P", help=_PRECISION)
            _add_own_options(leaf, command, scheme)
    commands.add_parser("demo", help="train a small network with a privacy budget, live", add_help=False)
    return parser


def _statement(args: argparse.Namespace, mechanism: Any, target: dict[str, Any]) -> str:
    from jaxacct.reporting import statement, statement_json, statement_text

    facts = statement(mechanism, **target)
    return statement_json(facts) if args.json else statement_text(facts)


def _compare(args: argparse.Namespace, mechanism: Any, target: dict[str, Any]) -> str:
    from jaxacct.accounting import compare
    from jaxacct.reporting import comparison_text, entry_fields, statement_json

    entries = compare(mechanism, **target)
    if args.plot is not None:
        from jaxacct import plot

        axes = plot.comparison(mechanism, args.delta, target_epsilon=args.epsilon, entries=entries)
        axes.get_figure(root=True).savefig(args.plot)  # type: ignore[union-attr]
    if args.json:
        return statement_json([{**entry_fields(e), "seconds": e.seconds} for e in entries])
    return comparison_text(entries, "epsilon" if args.epsilon is None else "delta")


def _report(args: argparse.Namespace, mechanism: Any, target: dict[str, Any]) -> str:
    from jaxacct.reporting import report

    return report(mechanism, **target, style=args.style)


def _calibrate(args: argparse.Namespace, scheme: Scheme) -> str:
    from jaxacct.calibration import calibrate
    from jaxacct.reporting import shown, statement_json

    field = args.field.replace("-", "_")
    values = vars(args)
    missing = [
        option.flag
        for option in scheme.options
        if option.name != field and values[option.name] is None and not option.is_optional
    ]
    if missing:
        raise ValueError(f"{missing[0]} must be given: only --{args.field} is calibrated")
    rival = {"local_epsilon": "noise_multiplier", "noise_multiplier": "local_epsilon"}.get(field)
    if rival is not None and values.get(rival) is not None:  # of a randomizer, which has one of them
        flag = "--" + rival.replace("_", "-")
        raise ValueError(f"{flag} cannot be given where --{args.field} is calibrated: choose another --field")
    start = {"noise_multiplier": 1.0, "local_epsilon": 1.0, "sampling_prob": 0.5, "check_in_prob": 0.5}.get(field, 1)
    mechanism = scheme.build({**values, field: start})
    found = calibrate(mechanism, scheme.field(field), args.epsilon, args.delta, precision=args.precision)
    met = scheme.build({**values, field: found})
    if args.json:
        return statement_json({field: found, "epsilon": args.epsilon, "delta": args.delta})
    return f"{field} = {found!r}\n\n{_budget(met, args, shown)}"


def _budget(mechanism: Any, args: argparse.Namespace, shown: Any) -> str:
    from jaxacct.accounting import epsilon

    spent = epsilon(mechanism, args.delta, precision=args.precision)
    return (
        f"  scheme      {mechanism.describe()}\n"
        f"  budget      epsilon {args.epsilon} at delta {args.delta}; certified: epsilon <= {shown(spent, 6)}"
    )


def _sweep(args: argparse.Namespace, scheme: Scheme) -> str:
    import numpy as np

    from jaxacct.sweeping import Layout, grid_of, sweep

    if args.resume and args.out is None:
        raise ValueError("--resume needs --out FILE.csv, the file to go on with")
    values = {option.name: vars(args)[option.name] for option in scheme.options}
    grid = {scheme.field(name): value for name, value in values.items() if np.ndim(value)}
    target: dict[str, Any] = {"target_delta": args.delta, "target_epsilon": args.epsilon}
    for name, value in list(target.items()):
        if np.ndim(value):
            grid[name], target[name] = value, None
    if not grid:
        raise ValueError("at least one option must be a list: 0.5,1,2 or start:stop:count")
    mechanism = scheme.build(
        {name: value.flat[0].item() if np.ndim(value) else value for name, value in values.items()}
    )
    layout = Layout.ZIPPED if args.side_by_side else Layout.PRODUCT
    points: Any = grid_of(grid, layout, {field: option for option, field in scheme.renamed.items()})
    options: dict[str, Any] = {"precision": args.precision, "progress": sys.stderr.isatty()}
    found = sweep(mechanism, points, layout=layout, **target, **options, out=args.out, resume=args.resume)
    if args.out is not None:
        return f"{found.values.size} points in {args.out}"
    columns = found.columns()
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(repr, row)) for row in rows)])


def _by_option(scheme: Scheme, message: str) -> str:
    """An error's message with options in place of the mechanism's own names (file names stay)."""
    for option, field in scheme.renamed.items():
        for before, after in ((r"\b", "="), (r"\['", r"'\]"), (r"[{ ]'", r"':"), ("^no ", " meets ")):
            message = re.sub(rf"(?<={before}){field}(?={after})", option, message)
    return message


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status (2 for a wrong argument, 130 if interrupted)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["demo"]:
        from jaxacct.demo import main as demo

        return demo(arguments[1:])
    parser = _parser()
    args = parser.parse_args(arguments)
    scheme = SCHEMES[args.scheme]
    try:
        if args.command == "calibrate":
            text = _calibrate(args, scheme)
        elif args.command == "sweep":
            text = _sweep(args, scheme)
        else:
            mechanism = scheme.build(vars(args))
            target = {"target_delta": getattr(args, "delta", None), "target_epsilon": getattr(args, "epsilon", None)}
            answer = {"compare": _compare, "report": _report}.get(args.command, _statement)
            text = answer(args, mechanism, {**target, "precision": args.precision})
    except (ValueError, ImportError, OSError) as error:
        parser.error(_by_option(scheme, str(error)))
    except KeyboardInterrupt:
        return 130
    try:
        print(text, flush=True)
    except BrokenPipeError:  # whoever read it has enough; nor may the interpreter flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
