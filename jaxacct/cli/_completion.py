"""Completion of commands, schemes and options by the shell, with shtab: ``pip install 'jaxacct[completion]'``."""

import argparse
from collections.abc import Callable
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")
_FILES = frozenset({"out", "plot", "file"})  # options whose value is the path of a file


class PrintCompletion(argparse.Action):
    """``--print-completion SHELL``: prints the shell's script for the parser made by `complete_parser`, and exits."""

    def __init__(self, *, complete_parser: Callable[[], argparse.ArgumentParser], **options: Any) -> None:
        super().__init__(**options)
        self.complete_parser = complete_parser

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        try:
            import shtab
        except ImportError:
            parser.error("--print-completion needs shtab: pip install 'jaxacct[completion]'")
        complete = self.complete_parser()
        _complete_files(complete, shtab.FILE)
        print(shtab.complete(complete, shell=values))
        parser.exit()


def _complete_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Marks, in a parser and in those below it, the options that take the path of a file."""
    for action in parser._actions:
        if action.dest in _FILES:
            action.complete = files  # type: ignore[attr-defined]
        for below in set(action.choices.values()) if isinstance(action, argparse._SubParsersAction) else ():
            _complete_files(below, files)
