"""The command line: ``jaxacct {epsilon,delta,compare,calibrate,sweep,report} SCHEME ...`` and ``jaxacct demo``."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from jaxacct.cli._commands import COMMANDS
from jaxacct.cli._schemes import SCHEMES, Scheme, add_options

__all__ = ["main"]

_EXAMPLES = """examples:
  jaxacct epsilon allocation --noise-multiplier 1 --num-steps 1000 --num-epochs 10 --delta 1e-6
  jaxacct delta poisson --noise-multiplier 1 --sampling-prob 0.01 --num-steps 1000 --epsilon 2
  jaxacct compare shuffle --local-epsilon 1 --num-reports 1000000 --delta 1e-6 --plot bounds.png
  jaxacct calibrate allocation --num-steps 1000 --epsilon 1 --delta 1e-6
  jaxacct calibrate shuffle --num-reports 1000000 --epsilon 0.1 --delta 1e-6
  jaxacct sweep allocation --noise-multiplier 0.6:2:15 --num-steps 100,1000 --delta 1e-6 --out sweep.csv
  jaxacct report allocation --noise-multiplier 1 --num-steps 1000 --delta 1e-6 --style markdown
  jaxacct demo"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One clear line instead of the usage in front of it."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="jaxacct",
        description="Certified differential-privacy accounting in JAX.",
        epilog=f"{_EXAMPLES}\n\nExit status: 0, or 2 for a wrong argument, 130 if interrupted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        branch = commands.add_parser(name, help=command.help, description=command.help)
        schemes = branch.add_subparsers(dest="scheme", required=True, metavar="{" + ",".join(SCHEMES) + "}")
        for scheme_name, scheme in SCHEMES.items():
            leaf = schemes.add_parser(scheme_name, help=scheme.help, description=f"{command.help}: {scheme.help}")
            add_options(leaf, scheme, parse=command.parse, required=command.needs_all)
            command.add_options(leaf, scheme)
    commands.add_parser("demo", help="train a small network with a privacy budget, live", add_help=False)
    return parser


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
        text = COMMANDS[args.command].run(args, scheme)
    except (ValueError, ImportError, OSError) as error:
        parser.error(_by_option(scheme, str(error)))
    except KeyboardInterrupt:
        return 130
    try:
        print(text, flush=True)
    except BrokenPipeError:  # whoever read it has enough; nor may the interpreter flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
