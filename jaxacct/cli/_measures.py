"""Measures as people type them: ``advantage``, ``true-positive-rate:0.01``."""

import argparse
from typing import TYPE_CHECKING

from jaxacct.cli._numbers import number

if TYPE_CHECKING:
    from jaxacct.measures import Measure

MEASURE = "NAME[:X]"
HELP = (
    "advantage, true-positive-rate:X at false positive rate X, bayes-risk:X at prior X (default 0.5), gdp:X up to X in "
    "both error rates (default 0), or zcdp:X up to order X (default inf)"
)


def measure(text: str) -> "Measure":
    """A measure by its name, with its number after a colon."""
    from jaxacct.measures import KINDS

    name, colon, value = text.partition(":")
    if name not in KINDS:
        raise argparse.ArgumentTypeError(f"{text!r} must be one of {', '.join(KINDS)}, some with :X")
    try:
        return KINDS[name](*([float(value)] if colon else []))
    except TypeError:
        ends = "must end in a number, as :0.01" if not colon else "takes no number"
        raise argparse.ArgumentTypeError(f"{text!r} {ends}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def target_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for a calibration target other than epsilon and delta."""
    parser.add_argument("--measure", type=measure, metavar=MEASURE, help=f"in place of --epsilon and --delta: {HELP}")
    parser.add_argument("--target", type=number, metavar="T", help="the value that the measure may reach")
