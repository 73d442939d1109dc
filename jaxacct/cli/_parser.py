"""A parser whose errors are one line each."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from jaxacct._alike import suggestion


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage; negative numbers in any form are values, not options."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|^-inf$", re.IGNORECASE)

    def error(self, message: str) -> NoReturn:
        """Exits with status 2; for a word that is not among the choices, the error suggests the likely one."""
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)$", message)
        if wrong is not None:
            message += suggestion(wrong[1], re.findall(r"[^\s',]+", wrong[2]))
        self.exit(2, f"{self.prog}: error: {message}\n")

    def flags(self) -> list[str]:
        """The options that the parser takes."""
        return list(dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][a-z-]*", self.format_help())))

    def spelled(self, words: Sequence[str]) -> list[str]:
        """`words` with options as they are spelled here (`--num_steps`); an error if one resembles none of them."""
        flags, spelled = self.flags(), []
        for word in words:
            name, equals, value = word.partition("=")
            if re.match(r"--[a-zA-Z]", name):
                own = name.replace("_", "-").lower()
                others = [flag for flag in flags if not flag.startswith("--spent")]
                if not any(flag.startswith(own) for flag in flags) and (meant := suggestion(name, others)):
                    self.error(f"unrecognized arguments: {name}{meant}")
                name = own
            spelled.append(name + equals + value)
        return spelled
