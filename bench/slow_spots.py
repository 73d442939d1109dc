"""What docs/limits.md calls slow, and what other pages time: in a fresh process, CPU seconds of two answers.

    python bench/slow_spots.py [--only TEXT] [--rounds N] [--report DIRECTORY]

Medians over rounds. `--report` writes SLOW_SPOTS.md to a folder; what the pages say is tested against it.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
from typing import NamedTuple


class Spot(NamedTuple):
    """A slow question: what it needs (`given`), the question as a function of `x`, and how many answers it holds."""

    name: str
    given: str
    ask: str
    answers: int = 1


_DEMO = """
import contextlib, io
from jaxacct import demo
def train(seed):
    with contextlib.redirect_stdout(io.StringIO()):
        return demo.run(demo.Settings(seed=seed)).accuracies
"""
_SAMPLED = "run = lambda s: ja.PoissonSampled(ja.Gaussian(s), .01, 1000)"
_EPOCH = "run = lambda s: ja.RandomAllocation(ja.Gaussian(s), 1000)"
_ALLOCATION = "run = lambda noise: ja.RandomAllocation(ja.Gaussian(noise), 1000, num_epochs=10)"

SPOTS = (
    Spot("batch of allocation, light tails", _ALLOCATION, "ja.epsilon(run(np.linspace(1, 3, 128) * x), 1e-6)", 128),
    Spot("batch of allocation, heavy tails", _ALLOCATION, "ja.epsilon(run(np.linspace(.5, .9, 128) * x), 1e-6)", 128),
    Spot(
        "quick batch of allocation", _ALLOCATION, "ja.epsilon(run(np.linspace(1, 3, 512) * x), 1e-6, precision=np.inf)"
    ),
    Spot(
        "composition with check-ins",
        "other = ja.CheckIn(ja.LocalRandomizer(1.), 1000, .1)",
        "ja.epsilon(ja.Composed((ja.Shuffled(ja.LocalRandomizer(1. * x), 1000), other)), 1e-6)",
    ),
    Spot("rdp of the clones pair", "", "ja.rdp(ja.Shuffled(ja.LocalRandomizer(2. * x), 1000), [2., 2.5, 8.])"),
    Spot("compare, allocation", _ALLOCATION, "ja.compare(run(x), 1e-6)"),
    Spot(
        "rdp of allocation, one question", _ALLOCATION, "ja.epsilon(run(x), 1e-6, method='direct', direction='remove')"
    ),
    Spot("delta below 1e-40", _ALLOCATION, "ja.delta(run(x), 10.)"),
    *(
        Spot(
            f"delta {delta:.0e}, noise multiplier {noise}",
            f"run = lambda noise: ja.RandomAllocation(ja.Gaussian(noise), {steps})",
            f"ja.epsilon_interval(run({noise} * x), {delta})",
        )
        for noise, steps, delta in ((5.0, 100, 1e-30), (3.0, 1000, 1e-100), (5.0, 100, 1e-260))
    ),
    Spot(
        "schedule of noise multipliers 3000 and 6000",
        "run = lambda s: ja.ScheduledAllocation((s, 2. * s), (50, 50))",
        "ja.epsilon(run(3000. * x), 1e-6)",
    ),
    Spot(
        "allocated and sampled steps of noise multiplier 3000",
        "run = lambda s: ja.Composed((ja.RandomAllocation(s, 100), ja.PoissonSampled(s, .01, 100)))",
        "ja.epsilon(run(ja.Gaussian(3000. * x)), 1e-6)",
    ),
    Spot(
        "delta in the add direction at a loss that never happens",
        "",
        """ja.delta(ja.Composed((
        ja.PoissonSampled(ja.Gaussian(x), .1, 1), ja.PoissonSampled(ja.Gaussian(4.), .01, 1))), 1., direction='add')""",
    ),
    Spot("two rarely sampled steps", "", "ja.delta(ja.PoissonSampled(ja.Gaussian(x), 1.24e-4, 2), 2.68)"),
    Spot("tradeoff, tiny noise", "", "ja.tradeoff(ja.PoissonSampled(ja.Gaussian(1e-3 * x), .01, 1000), .01)"),
    Spot("epsilon of one epoch of allocation inside jit", _EPOCH, "jax.jit(lambda s: ja.epsilon(run(s), 1e-6))(x)"),
    Spot("the gradient of one epoch", _EPOCH, "jax.jit(jax.grad(lambda s: ja.epsilon(run(s), 1e-6)))(x)"),
    Spot("epsilon of Poisson sampling inside jit", _SAMPLED, "jax.jit(lambda s: ja.epsilon(run(s), 1e-6))(x)"),
    Spot("the gradient of Poisson sampling", _SAMPLED, "jax.jit(jax.grad(lambda s: ja.epsilon(run(s), 1e-6)))(x)"),
    Spot("noise multiplier 50 in ten steps", "", "ja.epsilon(ja.RandomAllocation(ja.Gaussian(50. * x), 10), 1e-6)"),
    Spot(
        "tradeoff, rounds of check-ins",
        "run = lambda s: ja.CheckIn(ja.LocalRandomizer(s), 50_000, .1, 10)",
        "ja.tradeoff(run(2. * x), [.001, .01, .1])",
    ),
    Spot(
        "tradeoff, check-ins of Gaussian reports",
        "run = lambda s: ja.CheckIn(ja.GaussianReports(s), 10**5, .1)",
        "ja.tradeoff(run(4. * x), .01)",
    ),
    Spot(
        "tradeoff, rounds of a shuffle of Gaussian reports",
        "run = lambda s: ja.Shuffled(ja.GaussianReports(s), 10**5, 8)",
        "ja.tradeoff(run(4. * x), .01)",
    ),
    Spot(
        "rounds of check-ins of Gaussian reports",
        "run = lambda s: ja.CheckIn(ja.GaussianReports(s), 10**5, .1, 8)",
        "ja.epsilon(run(4. * x), 1e-6)",
    ),
    Spot(
        "the same with few clones",
        "run = lambda s: ja.CheckIn(ja.GaussianReports(s), 10**4, .05, 8)",
        "ja.epsilon(run(1.5 * x), 1e-6)",
    ),
    Spot(
        "rounds of a shuffle of Gaussian reports at delta 1e-30",
        "run = lambda s: ja.Shuffled(ja.GaussianReports(s), 10**5, 8)",
        "ja.epsilon(run(4. * x), 1e-30)",
    ),
    Spot(
        "ten values in a hundred million reports",
        "run = lambda e: ja.Shuffled(ja.KaryRandomizedResponse(e, 10), 10**8)",
        "ja.epsilon(run(2.0 * x), 1e-6)",
    ),
    Spot("epsilon of allocation inside jit", _ALLOCATION, "jax.jit(lambda s: ja.epsilon(run(s), 1e-6))(x)"),
    Spot("its gradient", _ALLOCATION, "jax.jit(jax.grad(lambda s: ja.epsilon(run(s), 1e-6)))(x)"),
    Spot(
        "fixed batches with replacement, replace-one",
        "run = lambda s: ja.FixedBatches(ja.Gaussian(s), 1000, 10, 100, with_replacement=True)",
        "ja.epsilon(run(2.0 * x), 1e-5, neighboring_relation='replace-one')",
    ),
    Spot("the demonstration", _DEMO, "train(int(100 * x))"),
    Spot("first look at a backend", "from jaxacct._ground import look", "look(jax.devices()[0])"),
    *(
        Spot(
            f"batches of a million records, {name}",
            "from jaxacct import training",
            f"[*map(training.batches({run}, num_records=10**6, key=int(100 * x)).__getitem__, range(1000))]",
        )
        for name, run in (
            ("allocation", "ja.RandomAllocation(ja.Gaussian(1.), 1000)"),
            ("ten of a thousand steps", "ja.RandomAllocation(ja.Gaussian(1.), 1000, 10)"),
            ("Poisson sampling", "ja.PoissonSampled(ja.Gaussian(1.), .001, 1000)"),
        )
    ),
)

_PROGRAM = """
import time, warnings
import jax, numpy as np
import jaxacct as ja
warnings.simplefilter("ignore")
{given}
ask = lambda x: jax.block_until_ready({ask})
for x in (1.0, 1.01):
    start = time.process_time()
    ask(x)
    print(time.process_time() - start)
"""


def measured(spot: Spot) -> tuple[float, float]:
    """CPU seconds of the first answer of a process and of the second one, each of one answer."""
    program = _PROGRAM.format(given=spot.given, ask=spot.ask)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{spot.name}: {done.stderr}")
    first, again = map(float, done.stdout.split())
    return first / spot.answers, again / spot.answers


def _plain(seconds: float) -> str:
    """Two digits, and no exponent."""
    return f"{seconds:.0f}" if seconds >= 100.0 else f"{seconds:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--report", type=pathlib.Path)
    args = parser.parse_args()
    spots = [spot for spot in SPOTS if args.only in spot.name]
    rows = ["| question | first, s | again, s |", "| --- | --- | --- |"]
    for spot in spots:
        times = [measured(spot) for _ in range(args.rounds)]
        first, again = (statistics.median(column) for column in zip(*times, strict=True))
        rows.append(f"| {spot.name}{', a point' if spot.answers > 1 else ''} | {_plain(first)} | {_plain(again)} |")
        print(rows[-1], flush=True)
    if args.report:
        head = [
            "# Slow spots, and other times that pages state\n",
            f"Written by `python bench/slow_spots.py --rounds {args.rounds} --report bench`: CPU seconds of the first",
            "answer of a process and of a second one with another parameter. The questions are in the script.\n",
        ]
        (args.report / "SLOW_SPOTS.md").write_text("\n".join([*head, *rows, ""]))


if __name__ == "__main__":
    main()
