"""``python -m jaxacct``: the command line."""

import sys

from jaxacct.cli import main

if __name__ == "__main__":
    sys.exit(main())
