"""The command ``jaxacct demo``."""

import argparse
import dataclasses
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from jaxacct.demo._loop import run
from jaxacct.demo._plan import Settings

_PACKAGES = ("flax", "tqdm", "sklearn", "matplotlib")
_RENAMED = {"target_delta": "delta", "num_steps": "steps_per_epoch", "num_epochs": "epochs"}  # options of other names
_INTERRUPTED = 130  # as a shell counts SIGINT


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Prints one clear line, without the usage in front of it."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    default = Settings()
    parser = _Parser(
        prog="jaxacct demo",
        description="Trains a small network on handwritten digits with DP-SGD and random allocation, until the budget "
        "is spent. Ctrl-C keeps the checkpoint.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--target-epsilon", type=float, default=default.target_epsilon, metavar="EPS", help="the budget")
    add("--delta", type=float, default=default.target_delta, metavar="D", help="delta of the budget")
    add("--noise-multiplier", type=float, default=default.noise_multiplier, metavar="SIGMA", help="std over clip norm")
    add("--steps-per-epoch", type=int, default=default.num_steps, metavar="T", help="steps in one epoch")
    add("--num-selected", type=int, default=default.num_selected, metavar="K", help="steps that a record joins of T")
    add("--epochs", type=int, metavar="E", help="stop earlier than the budget does", default=argparse.SUPPRESS)
    add("--seed", type=int, default=default.seed, metavar="N", help="of data order and noise; secret in a private run")
    add("--out", type=Path, default=Path("demo.png"), metavar="FILE", help="the picture")
    add("--audit", action="store_true", help="train once more, and measure how well records can be identified")
    add("--checkpoint", type=Path, metavar="DIR", help="save the run there", default=argparse.SUPPRESS)
    add("--resume", action="store_true", help="continue the run saved there", default=argparse.SUPPRESS)
    return parser


def _by_option(message: str) -> str:
    """An error's message with options in place of the library's own names."""
    names = "|".join((*(field.name for field in dataclasses.fields(Settings)), "checkpoint", "resume"))

    def flag(found: re.Match[str]) -> str:
        return "--" + _RENAMED.get(found[1], found[1]).replace("_", "-")

    return re.sub(rf"\b({names})(?==)", flag, message).replace("--resume=True", "--resume")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demonstration; returns the exit status: 2 for a wrong argument, 130 if it was interrupted."""
    parser = _parser()
    args = parser.parse_args(argv)
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        parser.error(f"needs {', '.join(missing)}: pip install 'jaxacct[demo]'")
    from jaxacct.plot._files import check_path

    try:
        settings = Settings(
            target_epsilon=args.target_epsilon,
            target_delta=args.delta,
            noise_multiplier=args.noise_multiplier,
            num_steps=args.steps_per_epoch,
            num_selected=args.num_selected,
            num_epochs=getattr(args, "epochs", None),
            seed=args.seed,
        )
        check_path("--out", str(args.out))  # before the training that it shows
        checkpoint, resume = getattr(args, "checkpoint", None), getattr(args, "resume", False)
        outcome = run(settings, out=args.out, checkpoint=checkpoint, resume=resume, audit=args.audit)
    except (ValueError, OSError) as error:
        parser.error(_by_option(str(error)))
    except KeyboardInterrupt:  # before or after the training, which keeps its state itself
        parser.exit(_INTERRUPTED, "jaxacct demo: interrupted\n")
    return 0 if outcome.is_finished else _INTERRUPTED
