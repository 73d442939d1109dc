"""The command line: ``jaxacct {epsilon,delta,compare,calibrate,sweep,report} SCHEME ..``, ``jaxacct {demo,doctor}``."""

import argparse
import os
import re
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import jaxacct
from jaxacct.cli._cache import keep_compiled
from jaxacct.cli._commands import COMMANDS, Command
from jaxacct.cli._completion import SHELLS, PrintCompletion
from jaxacct.cli._parser import Parser
from jaxacct.cli._working import INTERRUPTED, end_at_once, show_warnings_plainly, shown_working, watch_interrupts

if TYPE_CHECKING:
    from jaxacct.cli._options import Scheme

__all__ = ["main", "run"]

_EXAMPLES = """examples:
  jaxacct epsilon allocation --noise-multiplier 1 --num-steps 1000 --num-epochs 10 --delta 1e-6
  jaxacct delta poisson --noise-multiplier 1 --sampling-prob 0.01 --num-steps 1000 --epsilon 2
  jaxacct compare shuffle --local-epsilon 1 --num-reports 1000000 --delta 1e-6 --plot bounds.png
  jaxacct calibrate allocation --num-steps 1000 --epsilon 1 --delta 1e-6
  jaxacct calibrate shuffle --num-reports 1000000 --epsilon 0.1 --delta 1e-6
  jaxacct calibrate allocation --num-steps 1000 --measure true-positive-rate:0.01 --target 0.05
  jaxacct sweep allocation --noise-multiplier 0.6:2:15 --num-steps 100,1000 --delta 1e-6 --out sweep.csv
  jaxacct report allocation --noise-multiplier 1 --num-steps 1000 --delta 1e-6 --style markdown
  jaxacct demo
  jaxacct doctor"""


def _parser(asked: Collection[str]) -> tuple[Parser, dict[str, Parser]]:
    """The parser of all commands; those in `asked` also get their schemes with options, for which JAX is imported.

    Also returns the parsers of those schemes, by name.
    """
    leaves: dict[str, Parser] = {}
    parser = Parser(
        prog="jaxacct",
        description="Certified differential-privacy accounting in JAX.",
        epilog=f"{_EXAMPLES}\n\nExit status: 0, 2 for a wrong argument, 130 if interrupted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"jaxacct {jaxacct.__version__}")
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        complete_parser=lambda: _parser(COMMANDS)[0],
        choices=SHELLS,
        metavar="SHELL",
        help=f"print the completion script of a shell: {', '.join(SHELLS)}",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        branch = commands.add_parser(name, help=command.help, description=command.help)
        if name in asked:
            leaves = _add_schemes(branch, command)
    commands.add_parser("demo", help="train a small network with a privacy budget, live", add_help=False)
    commands.add_parser("doctor", help="whether answers on this machine can be trusted", add_help=False)
    return parser, leaves


def _add_schemes(branch: Parser, command: Command) -> dict[str, Parser]:
    from jaxacct.cli._options import add_options
    from jaxacct.cli._schemes import SCHEMES

    leaves: dict[str, Parser] = {}
    schemes = branch.add_subparsers(dest="scheme", required=True, metavar="SCHEME", title="schemes")
    for name in command.schemes(SCHEMES):
        scheme = SCHEMES[name]
        also = scheme.also
        leaf = schemes.add_parser(name, aliases=also, help=scheme.help, description=f"{command.help}: {scheme.help}")
        add_options(leaf, scheme, parse=command.parse)
        command.add_options(leaf, scheme)
        leaves |= dict.fromkeys((name, *also), leaf)
    return leaves


_ARGUMENTS = {
    "target_delta": "delta",
    "target_epsilon": "epsilon",
    "precision": "precision",
    "resume": "resume",
    "out": "out",
    "executor": "workers",
}
_WHERE = (  # a name in an error: before it, after it, and whether it is then an option
    ("^", "=", True),
    ("(?:[<>]=?|and|meets|at|:) ", "=", True),
    ("^no ", " meets ", True),
    (r"\['", r"'\]", False),
    (r"[{ ]'", r"':", False),
)


def _by_option(scheme: "Scheme", message: str, arguments: Sequence[str]) -> str:
    """An error's message with options in place of the library's own names (what mechanisms print stays).

    An option with several names is given the one that was typed.
    """
    from jaxacct.cli._options import SIZES, flag_of

    typed = {word.partition("=")[0] for word in arguments}
    names = {text: text for text in scheme.texts}
    for one in scheme.options:
        said = next((also for also in one.also if flag_of(also) in typed), one.name)
        names |= {scheme.field(one.name): said, one.name: said}
    for field, option in (names | _ARGUMENTS | {size: size for size in SIZES}).items():
        for before, after, is_option in _WHERE:
            name = flag_of(option) if is_option else option
            message = re.sub(rf"({before}){field}(?={after})", rf"\g<1>{name}", message)
    return message.replace("--resume=True", "--resume")


def _answer(arguments: list[str]) -> int:
    if arguments[:1] == ["demo"]:
        from jaxacct.demo import main as demo

        return demo(arguments[1:])
    if arguments[:1] == ["doctor"]:
        from jaxacct.cli._doctor import main as doctor

        with shown_working():
            return doctor(arguments[1:])
    command, asked = [*(word for word in arguments if not word.startswith("-")), "", ""][:2]
    parser, leaves = _parser([command])
    if not arguments:
        parser.print_help()
        return 0
    if asked in leaves:
        arguments = leaves[asked].spelled(arguments)
    args = parser.parse_args(arguments)

    from jaxacct.cli._schemes import scheme_called

    scheme = scheme_called(args.scheme)
    try:
        text = COMMANDS[args.command].run(args, scheme)
    except (ValueError, ImportError, OSError) as error:
        parser.error(_by_option(scheme, str(error), arguments))
    try:
        print(text, flush=True)
    except BrokenPipeError:  # whoever read it has enough; nor may the interpreter flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status (2 for a wrong argument, 130 if interrupted)."""
    try:
        return _answer(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as stopped:
        print(f"jaxacct: {str(stopped) or 'interrupted'}", file=sys.stderr, flush=True)
        return INTERRUPTED


def run() -> int:
    """The command line as a process of its own: Ctrl-C ends it at once, whatever runs."""
    keep_compiled(os.environ)
    watch_interrupts()
    show_warnings_plainly()
    status = main()
    if status == INTERRUPTED:
        end_at_once(status)
    return status
