"""The command line: ``jaxacct {epsilon,delta,compare} {allocation,poisson,gaussian,shuffle} ...``."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One clear line instead of the usage in front of it."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def number(text: str) -> int | float:
    """An int where the text is one, else a float."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _add_scheme_arguments(parser: argparse.ArgumentParser, scheme: str) -> None:
    add = parser.add_argument
    if scheme == "shuffle":
        add("--local-epsilon", type=number, metavar="E0", help="pure local privacy of one report, >= 0")
        add("--local-delta", type=number, default=0.0, metavar="D0", help="approximate part of it (default 0)")
        add("--num-categories", type=number, metavar="K", help="reports are K-ary randomized response")
        add(
            "--noise-multiplier",
            type=number,
            metavar="SIGMA",
            help="Gaussian reports instead: noise std over norm bound",
        )
        add("--num-reports", type=number, required=True, metavar="N", help="reports in one round")
        add("--num-epochs", type=number, default=1, metavar="E", help="rounds, shuffled afresh (default 1)")
        return
    add("--noise-multiplier", type=number, required=True, metavar="SIGMA", help="noise std over clipping norm, > 0")
    if scheme == "allocation":
        add("--num-steps", type=number, required=True, metavar="T", help="steps in one epoch")
        add("--num-selected", type=number, default=1, metavar="K", help="steps that a record joins (default 1)")
        add("--num-epochs", type=number, default=1, metavar="E", help="epochs, allocated afresh (default 1)")
    elif scheme == "poisson":
        add("--sampling-prob", type=number, required=True, metavar="Q", help="probability to join a step, in [0, 1]")
        add("--num-steps", type=number, required=True, metavar="T", help="steps in all")
    else:
        add("--num-steps", type=number, default=1, metavar="T", help="releases of the whole data (default 1)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="jaxacct", description="Certified differential-privacy accounting in JAX.")
    questions = parser.add_subparsers(dest="question", required=True, metavar="{epsilon,delta,compare}")
    schemes = {
        "allocation": "each record in K of T steps, uniformly",
        "poisson": "each record in each step with probability Q",
        "gaussian": "every record in every step",
        "shuffle": "reports of N users, shuffled",
    }
    for question, text in (
        ("epsilon", "epsilon at a given delta, with what it rests on"),
        ("delta", "delta at a given epsilon, with what it rests on"),
        ("compare", "every applicable bound side by side"),
    ):
        command = questions.add_parser(question, help=text, description=text)
        kinds = command.add_subparsers(dest="scheme", required=True, metavar="{allocation,poisson,gaussian,shuffle}")
        for scheme, what in schemes.items():
            leaf = kinds.add_parser(scheme, help=what, description=f"{text}: {what}")
            _add_scheme_arguments(leaf, scheme)
            target = leaf.add_mutually_exclusive_group(required=True)
            if question != "delta":
                target.add_argument("--delta", type=number, metavar="D", help="target delta, in (0, 1)")
            if question != "epsilon":
                target.add_argument("--epsilon", type=number, metavar="EPS", help="target epsilon, >= 0")
            text_of_precision = (
                "relative width of the certified interval (default 0.01; inf leaves it out, the quickest)"
            )
            leaf.add_argument("--precision", type=number, default=0.01, metavar="P", help=text_of_precision)
            leaf.add_argument("--json", action="store_true", help="machine-readable output")
    return parser


def _mechanism(args: argparse.Namespace) -> Any:
    from jaxacct.mechanisms import Composed, Gaussian, PoissonSampled, RandomAllocation, Shuffled

    if args.scheme == "shuffle":
        return Shuffled(_randomizer(args), args.num_reports, args.num_epochs)
    noise = Gaussian(args.noise_multiplier)
    if args.scheme == "allocation":
        return RandomAllocation(noise, args.num_steps, args.num_selected, args.num_epochs)
    if args.scheme == "poisson":
        return PoissonSampled(noise, args.sampling_prob, args.num_steps)
    return Composed(noise, args.num_steps)


def _randomizer(args: argparse.Namespace) -> Any:
    from jaxacct.mechanisms import GaussianReports, KaryRandomizedResponse, LocalRandomizer

    if (args.local_epsilon is None) == (args.noise_multiplier is None):
        raise ValueError("exactly one of --local-epsilon and --noise-multiplier must be given")
    if args.noise_multiplier is not None:
        return GaussianReports(args.noise_multiplier)
    if args.num_categories is None:
        return LocalRandomizer(args.local_epsilon, args.local_delta)
    if args.local_delta:
        raise ValueError(f"local_delta={args.local_delta} must be 0 for k-ary randomized response")
    return KaryRandomizedResponse(args.local_epsilon, args.num_categories)


def _compare_json(mechanism: Any, target: dict[str, Any]) -> list[dict[str, Any]]:
    from jaxacct.accounting import compare
    from jaxacct.reporting import entry_fields

    return [{**entry_fields(e), "seconds": e.seconds} for e in compare(mechanism, **target)]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status (2 for a wrong argument)."""
    parser = _parser()
    args = parser.parse_args(argv)
    target = {
        "target_delta": getattr(args, "delta", None),
        "target_epsilon": getattr(args, "epsilon", None),
        "precision": args.precision,
    }

    from jaxacct import reporting

    try:
        mechanism = _mechanism(args)
        if args.question == "compare":
            facts: Any = _compare_json(mechanism, target) if args.json else None
            text = "" if args.json else reporting.compare_text(mechanism, **target)
        else:
            facts = reporting.statement(mechanism, **target)
            text = reporting.statement_text(facts)
    except ValueError as error:
        parser.error(str(error))
    print(reporting.statement_json(facts) if args.json else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
