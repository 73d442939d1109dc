"""``python -m jaxacct``: the command line."""

import sys

from jaxacct.cli import run

if __name__ == "__main__":
    sys.exit(run())
