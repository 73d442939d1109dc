"""A parser whose errors are one line each."""

import argparse
import re
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """One clear line instead of the usage in front of it; negative numbers in any form are values, not options."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|^-inf$", re.IGNORECASE)

    def error(self, message: str) -> NoReturn:
        """Ends with status 2."""
        self.exit(2, f"{self.prog}: error: {message}\n")
