"""Numbers that README and the pages state in their prose: computed here, or read from what bench/ measured.

A claim is the text with places for the numbers, as they are rounded there; filled in, it must stand on the page. (What
blocks of code print is tested beside them, `test_docs_site`.)
"""

import dataclasses
import functools
import math
import re
import statistics
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from support.mechanisms import logistic
from support.stated import ROOT, Claim, cases, check, ends

import jaxacct as ja
from jaxacct import training
from jaxacct.papers import girgis

if not (ROOT / "docs").is_dir():
    pytest.skip("a source distribution of the package alone has no pages", allow_module_level=True)

CHECK_INS = ja.CheckIn(ja.LocalRandomizer(2.0), 50_000, 0.01, 10)
ONE = ja.Gaussian(1.0)


def _inside_and_outside(mechanism: Callable[[Any], Any], x: float, delta: float = 1e-6) -> tuple[float, float]:
    """epsilon inside a program, and outside it."""
    return float(jax.jit(lambda value: ja.epsilon(mechanism(value), delta))(x)), ja.epsilon(mechanism(x), delta)


def _shuffled(batches: int, epochs: int = 1) -> ja.ShuffledBatches:
    return ja.ShuffledBatches(ONE, batches, num_epochs=epochs)


def _digits(*values: Any, digits: int = 3) -> tuple[str, ...]:
    """Some digits of each, as in 7.43e-6 and 0.962; zeros at the end are kept."""
    return tuple(
        np.format_float_positional(x, digits, unique=False, fractional=False)
        if x > 1e-2
        else np.format_float_scientific(x, digits - 1, unique=False, exp_digits=1)
        for x in values
    )


def _special_pairs(n: int, local_epsilon: float, order: int) -> tuple[str, ...]:
    """Theorem 1, its best split, the mixture and the lower bound."""
    exact = functools.partial(girgis.theorem4_rdp, special_pair=girgis.SpecialPair.EXACT)
    statements = (girgis.theorem1_rdp, girgis.best_split_rdp, exact, girgis.lower_rdp)
    return _digits(*(float(of(n, local_epsilon, orders=[order])[0]) for of in statements))


def _several(noise: float, steps: int, selected: int, delta: float, epochs: int = 1) -> tuple[float, float]:
    return ends(ja.RandomAllocation(ja.Gaussian(noise), steps, selected, epochs), delta)


def _with_width(ends: tuple[float, float]) -> tuple[float, float, float]:
    return *ends, ends[1] / ends[0] - 1


def _replaced(steps: int, noise: Any = 1.0) -> ja.ReplaceOne:
    return ja.ReplaceOne(ja.RandomAllocation(ja.Gaussian(noise), steps))


def _at_most(limit, value):
    """The limit where it holds: how wide a loss distribution ends up depends on the machine's exponentials."""
    return (limit if value <= limit else value,)


def _percent(ends: tuple[float, float]) -> tuple[float]:
    """How far apart they are."""
    return (100 * (ends[1] / ends[0] - 1),)


def _drawn_afresh(noise: float, batch_size: int, steps: int) -> ja.ReplaceOne:
    return ja.ReplaceOne(ja.FixedBatches(ja.Gaussian(noise), 1000, batch_size, steps))


def _allocated_and_sampled(noise: float) -> ja.Composed:
    release = ja.Gaussian(noise)
    return ja.Composed((ja.RandomAllocation(release, 100), ja.PoissonSampled(release, 0.01, 100)))


def _steps_chosen_on_the_way() -> tuple[int, int]:
    """Of the filter, and of what is known beforehand."""
    run = ja.PoissonSampled(ONE, 0.01, num_steps=1)
    return training.RenyiFilter(2.0, 1e-6, planned=run).affords(run), training.steps_affordable(run, 2.0, 1e-6)


def _calmer_steps_after_some() -> tuple[int, int]:
    """Of the filter at one order, and of that of planned steps, after 500 planned ones."""
    run, calmer = (ja.PoissonSampled(ja.Gaussian(noise), 0.01, num_steps=1) for noise in (1.0, 2.0))
    filters = training.RenyiFilter(2.0, 1e-6, planned=run), training.PlannedFilter(run, 2.0, 1e-6)
    assert all(budget.spend(run, count=500) for budget in filters)
    one, planned = (budget.affords(calmer) for budget in filters)
    return one, planned


README = "README.md"
LIMITS = "docs/limits.md"
NUMERICS, TRAINING, CLUSTERS, COMMANDS = (
    f"docs/{name}.md" for name in ("numerics/rounding", "training", "clusters", "command_line")
)
ALLOCATION = "docs/papers/random_allocation.md"
CHEN, GIRGIS = "docs/papers/chen.md", "docs/papers/girgis.md"

ANSWERS = (
    Claim(
        README,
        "prints the privacy statement of ten epochs in which each record joins one of 1000 steps: `epsilon = {:.4f}`",
        lambda: (ja.epsilon(ja.RandomAllocation(ONE, 1000, num_epochs=10), 1e-6),),
    ),
    Claim(
        README,
        "epsilon is {:.1f} over ten epochs of 100 steps, where the same run by random allocation has {:.1f}",
        lambda: (ja.epsilon(_shuffled(100, 10), 1e-6), ja.epsilon(ja.RandomAllocation(ONE, 100, num_epochs=10), 1e-6)),
    ),
    Claim(README, "version = {{{}}},", lambda: (ja.__version__,)),
    Claim(
        LIMITS,
        "{:.2f} instead of {:.2f} for one epoch of 100 steps at noise multiplier 1",
        lambda: _inside_and_outside(lambda s: _replaced(100, s), 1.0, 1e-5),
        compiles=True,
    ),
    Claim(
        LIMITS,
        "[{:.2f}, {:.2f}] at noise multiplier 1, 1000 batches, delta 1e-6",
        lambda: ends(_shuffled(1000)),
    ),
    Claim(LIMITS, "([{:.1f}, {:.1f}] over ten)", lambda: ends(_shuffled(1000, 10))),
    Claim(
        LIMITS,
        "up to twice epsilon ([{:.3f}, {:.3f}] at noise multiplier 1, 1000 steps, delta 1e-6)",
        lambda: ends(_replaced(1000)),
    ),
    Claim(
        LIMITS,
        "at most {:.1f} % wide at 0.15, three epochs of 1000 steps, delta 1e-6",
        lambda: _at_most(0.2, *_percent(ends(ja.RandomAllocation(ja.Gaussian(0.15), 1000, num_epochs=3)))),
    ),
    *(
        Claim(LIMITS, text, lambda noise=noise: _percent(ends(_allocated_and_sampled(noise), 1e-12)))
        for text, noise in (("the latter is {:.1f} % wide at 1e7,", 1e7), ("and {:.0f} % at 1e9.", 1e9))
    ),
    Claim(
        LIMITS,
        "{:.1f} % wide at 0.07 and 100 steps",
        lambda: _percent(ends(ja.RandomAllocation(ja.Gaussian(0.07), 100))),
    ),
    Claim(
        LIMITS,
        "[{}, {}] for eight steps at 6e-9, noise multiplier 1.38, delta 3.1e-9",
        lambda: _digits(*ends(ja.PoissonSampled(ja.Gaussian(1.38), 6e-9, 8), 3.1e-9), digits=2),
    ),
    Claim(
        LIMITS,
        "[{:.2f}, {:.2f}] at noise multiplier 2, 1000 batches of 10 of 1000 records, delta 1e-6",
        lambda: ends(_drawn_afresh(2.0, 10, 1000)),
    ),
    Claim(LIMITS, "[{:.1f}, {:.1f}] at 1, 20 batches of 300", lambda: ends(_drawn_afresh(1.0, 300, 20))),
    Claim(LIMITS, "it allows {} steps, where a composition known beforehand allows {}.", _steps_chosen_on_the_way),
    Claim(
        TRAINING,
        "After the same 500 steps `RenyiFilter` allows {} of the calmer ones, `PlannedFilter` {}.",
        _calmer_steps_after_some,
    ),
    Claim(
        LIMITS,
        "`PlannedFilter` allows all {}, but compares",
        lambda: (training.PlannedFilter(ja.PoissonSampled(ONE, 0.01, num_steps=1), 2.0, 1e-6).left,),
    ),
    Claim(TRAINING, "{} steps, where {} known beforehand have epsilon 2", _steps_chosen_on_the_way),
    Claim(
        LIMITS,
        "epsilon is {:.4f} instead of {:.4f} for ten rounds of 50,000 users",
        lambda: (
            jax.jit(
                lambda local: ja.epsilon(dataclasses.replace(CHECK_INS, mechanism=ja.LocalRandomizer(local)), 1e-6)
            )(2.0),
            ja.epsilon(CHECK_INS, 1e-6),
        ),
    ),
    Claim(
        LIMITS,
        "[{:.5f}, {:.5f}] for a million reports at noise multiplier 4 and delta 1e-6",
        lambda: ends(ja.Shuffled(ja.GaussianReports(4.0), 10**6)),
    ),
    Claim(
        LIMITS,
        "[{:.3f}, {:.3f}] for a hundred at 2",
        lambda: ends(ja.Shuffled(ja.GaussianReports(2.0), 100)),
    ),
    Claim(
        LIMITS,
        "[{:.1f}, {:.1f}] for 10,000 at 0.5",
        lambda: ends(ja.Shuffled(ja.GaussianReports(0.5), 10_000)),
    ),
    Claim(
        LIMITS,
        "([{:.6f}, {:.6f}] for a tenth of the million)",
        lambda: ends(ja.CheckIn(ja.GaussianReports(4.0), 10**6, 0.1)),
    ),
    Claim(
        LIMITS,
        "([{:.5f}, {:.5f}] for 100,000 reports with logistic",
        lambda: ends(ja.Shuffled(ja.DensityReports(logistic, 2.0), 10**5)),
    ),
    Claim(
        LIMITS,
        "[{}, {}] at epsilon 10 for ten epochs of 1000 steps at noise multiplier 1",
        lambda: _digits(*ja.delta_interval(ja.RandomAllocation(ONE, 1000, num_epochs=10), 10.0)[:2], digits=2),
    ),
    *(
        Claim(
            ALLOCATION,
            f"| {noise}, {steps}, {selected}, {delta} | {{:.5f}} | {{:.5f}} | {{:.1e}} |",
            lambda d=float(delta), n=noise, t=steps, k=selected: _with_width(_several(n, t, k, d)),
        )
        for noise, steps, selected, delta in (
            (1.701, 2147, 5, "1e-8"),
            (0.992, 80356, 5, "1e-5"),
            (1.446, 5345, 5, "1e-8"),
            (0.968, 4727, 2, "1e-6"),
            (1, 10000, 10, "1e-6"),
            (0.776, 37, 5, "1e-6"),
            (0.55, 391, 5, "1.25e-5"),
        )
    ),
    Claim(
        ALLOCATION,
        "noise multiplier 0.5452 and delta 2.3e-6, is in [{:.1f}, {:.1f}]",
        lambda: _several(0.5452, 406, 36, 2.3e-6, 12),
    ),
    *(
        Claim(
            GIRGIS,
            f"| {local_epsilon}, 10^{power}, {order} | {{}} | {{}} | {{}} | {{}} |",
            lambda e=local_epsilon, n=10**power, a=order: _special_pairs(n, float(e), a),
            compiles=True,
        )
        for local_epsilon, power, order in ((0.5, 6, 17), (2, 6, 5), (3, 4, 10))
    ),
    Claim(
        GIRGIS,
        "At local epsilon 0.1, 10,000 reports, order 1000 it gives {}, Theorem 2 gives {}",
        lambda: _digits(
            *(float(of(10_000, 0.1, orders=[1000])[0]) for of in (girgis.theorem1_rdp, girgis.theorem2_rdp))
        ),
    ),
    Claim(
        GIRGIS,
        "At (0.1, 10^4, 2) Theorem 2 gives {} and the earlier bound {}",
        lambda: _digits(*(float(of(10_000, 0.1, orders=[2])[0]) for of in (girgis.theorem2_rdp, girgis.earlier_rdp))),
    ),
    Claim(
        GIRGIS,
        "{:.2f} at order 1000 and {:.2f} at 10,000, for 10,000 reports of local epsilon 3",
        lambda: girgis.theorem1_rdp(10_000, 3.0, orders=[1000, 10_000]),
        compiles=True,
    ),
    Claim(CHEN, "The limit's mu there is {:.4f}", lambda: (2 * math.exp(1.5) / math.sqrt(999),)),
    Claim(CHEN, "At local epsilon 0.1 the printed divergence is {:.0f} times", lambda: (math.tanh(0.05) ** -2,)),
    *(
        Claim(
            CHEN,
            f"| {n:,}, {local_epsilon}, {order} | {{:.3f}} | {{:.3f}} |",
            lambda n=n, e=float(local_epsilon), a=order: (
                e - n * math.log1p(math.exp(-e)) / (a - 1),
                2 * math.exp(e) * a / (n - 1),
            ),
        )
        for n, local_epsilon, order in ((10_000, 3, 352), (10_000, 4, 64), (10_000, 5, 16))
    ),
    Claim(
        ALLOCATION,
        "the composition gives {:.3f} and {:.3f}",
        lambda: tuple(
            ja.epsilon(ja.RandomAllocation(ja.Gaussian(n), t, 5), d, method="complex moments")
            for n, t, d in ((0.776, 37, 1e-6), (0.55, 391, 1.25e-5))
        ),
    ),
)


@pytest.mark.parametrize("claim", cases(ANSWERS))
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning", "ignore::jaxacct.OrderEdgeWarning")
def test_what_is_stated_is_what_is_answered(claim):
    check(claim)


# What was measured


@functools.cache
def _rows(report: str) -> dict[str, tuple[str, ...]]:
    """The rows of every table of a report of bench/, by their first cells."""
    lines = (ROOT / "bench" / report).read_text().splitlines()
    rows = (tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("| "))
    return {first: rest for first, *rest in rows}


def _inside(column: int, digits: int) -> float:
    """Of the answers inside `jit`, by how much the largest ratio of a column is above 1, per cent, rounded up."""
    rows = [row for row in _rows("INSIDE_JIT.md").values() if row[0].isdigit()]
    largest = max(float(row[column]) for row in rows)
    return math.ceil((largest - 1.0) * 100.0 * 10**digits - 1e-6) / 10**digits


def _median(family: str) -> tuple[float]:
    """Of a map, CPU ms."""
    return (float(_rows("MAPS.md")[family][1].removesuffix(" ms")),)


_FOUR = ("poisson", "clones", "check-in", "allocation")


def _width(family: str) -> float:
    """Of a map's intervals, in the median."""
    return float(_rows("MAPS.md")[family][3])


def _warm(task: str) -> tuple[float, float]:
    """CPU seconds of REPORT.md's table of times: of ours, and of the peer."""
    cells = re.search(rf"^\| {re.escape(task)} \|.*", (ROOT / "bench" / "REPORT.md").read_text(), re.MULTILINE)
    assert cells is not None
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    times = (cell.split() for cell in (cells[0].split("|")[4], cells[0].split("|")[8]))
    ours, peers = (float(number) * units[unit] for number, unit in times)
    return ours, peers


def _first(*questions: str) -> tuple[float, ...]:
    """CPU seconds of first answers."""
    return tuple(float(_rows("FIRST_ANSWERS.md")[name][0]) for name in questions)


def _command(name: str) -> list[float]:
    """CPU seconds of the documentation's commands of a name, sorted; those that list a plan apart."""
    is_plan, found = "--plan" in name, f"`jaxacct {name.split()[0]} "
    rows = _rows("FIRST_ANSWERS.md").items()
    return sorted(float(cells[0]) for line, cells in rows if line.startswith(found) and ("--plan" in line) is is_plan)


def _workers(*patterns: str) -> tuple[str, ...]:
    """What the groups of each pattern matched last in what bench/workers.py printed."""
    said = (ROOT / "bench" / "WORKERS.md").read_text()
    return tuple(text for pattern in patterns for text in re.findall(pattern, said)[-1:])


def _usual(name: str) -> tuple[float]:
    return (statistics.median(_command(name)),)


MEASURED = (
    Claim(COMMANDS, "with what it rests on | {:.1f} s |", lambda: _usual("epsilon")),
    Claim(COMMANDS, "side by side | {:.1f} to {:.1f} s |", lambda: (_command("compare")[0], _command("compare")[-1])),
    Claim(COMMANDS, "which methods would be tried | {:.1f} s |", lambda: _usual("compare --plan")),
    Claim(COMMANDS, "that just meets a budget | {:.1f} s |", lambda: _usual("calibrate")),
    Claim(
        COMMANDS,
        "separated text or Parquet | {:.0f} s, and {:.0f} ms a point",
        lambda: (*_usual("sweep"), *map(float, _workers(r"1 processes: .* (\S+) ms of CPU"))),
    ),
    *(
        Claim(CLUSTERS, text, lambda patterns=patterns: _workers(*patterns))
        for text, *patterns in (
            (
                "{} ms of CPU on one process, {} ms on two",
                r"1 processes: .* (\S+) ms of CPU",
                r"2 processes: .* (\S+) ms of CPU",
            ),
            (
                "| {} s and {} s: {} times the points a second; the files identical",
                r"on two: (\S+) s \(",
                r"on two: \S+ s \(.*, (\S+) s \(.*; the files identical",
                r"two against one, wall time: (\S+)",
            ),
            ("pools started anew | {} s; the files identical", r"killed .*: (\S+) s; the files identical"),
            ("four first points each | {} s, {} s", r"start of 1, .*: (\S+) s", r"start of 2, .*: (\S+) s"),
            ("| a task of one chunk | {} ms of the head's CPU", r"head: (\S+) ms a task"),
            ("in chunks of 1000 | {}", r"in chunks of 1000: (.*)"),
            ("answers exact points | {} MiB", r"answered them: (\S+) MiB"),
            (
                "thousand workers answer {} points a second, and the head, at {} ms a task and {} us a row, "
                "is then {} % busy",
                r"1000 workers: (\S+) a second",
                r"head: (\S+) ms a task",
                r"a row: (\S+) us",
                r"1000 workers: .* the head (\S+) % busy",
            ),
            ("until the head's rows, {} points a second", r"the head's (\S+) points"),
        )
    ),
    Claim(
        COMMANDS,
        "within a budget, live | {:.0f} s |",
        lambda: (float(_rows("SLOW_SPOTS.md")["the demonstration"][0]) + _first("import jax")[0],),
    ),
    Claim(COMMANDS, "can be trusted | {:.0f} s |", lambda: _first("`jaxacct doctor`")),
    Claim(COMMANDS, "for a model card | {:.1f} s |", lambda: _usual("report")),
    Claim(README, "Warm answers are {:.0f} ms for Poisson sampling", lambda: _median("poisson")),
    Claim(README, "{:.0f} ms for shuffled reports", lambda: _median("clones")),
    Claim(README, "{:.0f} ms for check-ins", lambda: _median("check-in")),
    Claim(README, "{:.0f} ms for random allocation in the median", lambda: _median("allocation")),
    Claim(
        README,
        "PLD accountant takes {} times as long at the same Poisson settings",
        lambda: (_rows("MAPS.md")["poisson"][-1].removesuffix(" x").split()[-1],),
    ),
    *(
        Claim(LIMITS, text, lambda f=family: (_rows("MAPS.md")[f][3], _rows("MAPS.md")[f][5], _rows("MAPS.md")[f][4]))
        for family, text in (
            ("k-of-t-dense", "the median width is {}, {} are above 0.1 %, and the widest is {};"),
            ("k-of-t-sparse", "the median is {}, {} are above 0.1 %, and the widest is {}."),
        )
    ),
    *(
        Claim(LIMITS, text, lambda spots=spots: tuple(_rows("SLOW_SPOTS.md")[spot][at] for spot, at in spots))
        for text, *spots in (
            (
                "point by point: {} s each, where others take {} s.",
                ("batch of allocation, heavy tails, a point", 1),
                ("batch of allocation, light tails, a point", 1),
            ),
            (
                "{} s at delta 1e-30 and noise multiplier 5 in a hundred steps, {} s at 1e-100 and 3 in a thousand, "
                "{} s at 1e-260",
                ("delta 1e-30, noise multiplier 5.0", 0),
                ("delta 1e-100, noise multiplier 3.0", 0),
                ("delta 1e-260, noise multiplier 5.0", 0),
            ),
            (
                "{} s for 50 steps at 3000 and 50 at 6000, {} s for an epoch of 100 steps and 100 sampled ones at 3000",
                ("schedule of noise multipliers 3000 and 6000", 0),
                ("allocated and sampled steps of noise multiplier 3000", 0),
            ),
            ("For random allocation it takes {} s", ("compare, allocation", 0)),
            ("Most methods are tried: {} s at 50 in ten steps", ("noise multiplier 50 in ten steps", 0)),
            ("Every method is tried: {} s.", ("delta in the add direction at a loss that never happens", 1)),
            (
                "`tradeoff` takes {} s, several rounds {} s",
                ("tradeoff, check-ins of Gaussian reports", 1),
                ("rounds of check-ins of Gaussian reports", 1),
            ),
            ("at a delta of 1e-30 take {} s", ("rounds of a shuffle of Gaussian reports at delta 1e-30", 1)),
            ("For a hundred million reports an answer takes {} s", ("ten values in a hundred million reports", 1)),
            ("at a tiny delta: {} s for two", ("two rarely sampled steps", 0)),
            ("A trade-off takes {} s, and", ("tradeoff, tiny noise", 0)),
            ("whose records are replaced | {} s, by", ("fixed batches with replacement, replace-one", 1)),
        )
    ),
    Claim(NUMERICS, "in {} s of CPU time", lambda: (_rows("SLOW_SPOTS.md")["first look at a backend"][0],)),
    Claim(
        TRAINING,
        "takes {:.2f} s of CPU time by allocation ({:.2f} s where each record joins ten of them) "
        "and {:.2f} s by Poisson",
        lambda: tuple(
            float(_rows("SLOW_SPOTS.md")[f"batches of a million records, {name}"][0])
            for name in ("allocation", "ten of a thousand steps", "Poisson sampling")
        ),
    ),
    Claim(LIMITS, "about random allocation takes up to {}, mostly", lambda: (_rows("MAPS.md")["allocation"][2],)),
    Claim(LIMITS, "is at most {} % above the certified answer outside `jit`", lambda: (_inside(2, 2),)),
    Claim("docs/winners.md", "within {} % of the answer outside at 19 of 20 random settings", lambda: (_inside(2, 2),)),
    Claim(LIMITS, "the worst of them is {} % above", lambda: (_inside(4, 1),)),
    Claim(
        LIMITS,
        "Compiling epsilon takes {} for Poisson-sampled steps and {} for its gradient, {} and {} for one epoch of "
        "random allocation, {} and {} for sampled Laplace noise, {} and {} for Poisson-sampled, allocated and plain "
        "Gaussian steps together. After that, a point takes {}, {}, {} and {}.",
        lambda: [
            _rows("INSIDE_JIT.md")[kind][column]
            for columns in ((7, 8), (9,))
            for kind in ("poisson", "one-epoch", "laplace", "composed")
            for column in columns
        ],
    ),
    Claim(LIMITS, "one about check-ins takes up to {}.", lambda: (_rows("MAPS.md")["check-in"][2],)),
    Claim(
        README,
        "the two ends agree to {} digits in the median",
        lambda: (math.floor(-math.log10(max(map(_width, _FOUR)))),),
    ),
    Claim(
        README,
        "are {:.1f} % apart in the median, {:.0f} % at worst",
        lambda: tuple(100 * float(_rows("MAPS.md")["k-of-t-dense"][at]) for at in (3, 4)),
    ),
    Claim(
        README,
        "| 10,000 Poisson-sampled steps, warm | {:.0f} ms | {:.1f} s | {:.1f} s | {:.1f} s |",
        lambda: (
            1e3 * _warm("pld poisson 1e4 sigma=1")[0],
            _warm("pld poisson 1e4 sigma=1")[1],
            _warm("poisson 1e4, Opacus PRV")[1],
            _warm("poisson 1e4, prv-accountant")[1],
        ),
    ),
    Claim(README, "`import jax` alone takes {:.1f} s", lambda: _first("import jax")),
    Claim(README, "| epsilon of 10,000 Poisson-sampled steps | {:.1f} |", lambda: _first("epsilon, Poisson")),
    Claim(
        README,
        "| the same by dp_accounting's Rényi accountant, by its PLD accountant | {:.1f}, {:.1f} |",
        lambda: _first("dp_accounting's RDP accountant, Poisson", "dp_accounting's PLD accountant, Poisson"),
    ),
    Claim(
        README,
        "| epsilon of random allocation, one epoch, ten epochs | {:.1f} |",
        lambda: (max(_first("epsilon, allocation", "epsilon, allocation, 10 epochs")),),
    ),
    Claim(
        README,
        "| epsilon of a shuffle of a million reports, one round, ten rounds | {:.1f} |",
        lambda: (max(_first("epsilon, shuffle", "epsilon, ten rounds of a shuffle")),),
    ),
    Claim(
        README,
        "| the noise multiplier for a budget, 1000 Poisson-sampled steps | {:.1f} |",
        lambda: _first("calibrate, Poisson"),
    ),
    Claim(
        README,
        "| `jaxacct epsilon allocation ...`, a statement with its trade-off lines | {:.1f} |",
        lambda: _first("jaxacct epsilon allocation, 10 epochs"),
    ),
    Claim(
        README,
        "| `jaxacct compare allocation ...`, every bound of five papers | {:.1f} |",
        lambda: _first("jaxacct compare allocation"),
    ),
)


@pytest.mark.parametrize("claim", MEASURED, ids=lambda claim: claim.text[:50])
def test_what_is_stated_is_what_was_measured(claim):
    check(claim)
