"""Numbers that pages repeat or derive in their prose: from the package, from a table beside them, from a default."""

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from support.stated import ROOT, Claim, cases, check, ends

import jaxacct as ja
from jaxacct import _precision, workers
from jaxacct.bounds.allocation import _how_many
from jaxacct.sweeping import _run
from jaxacct.training import _batches

if not (ROOT / "docs").is_dir():
    pytest.skip("a source distribution of the package alone has no pages", allow_module_level=True)

README = "README.md"
LIMITS, WINNERS, WORDS, TRAINING, INTEROP, INDEX, FIRST, PITFALLS = (
    f"docs/{name}.md"
    for name in ("limits", "winners", "words", "training", "interop", "index", "first_statement", "pitfalls")
)
CALIBRATION, CLUSTERS = "docs/calibration.md", "docs/clusters.md"

ONE = ja.Gaussian(1.0)
EPOCH = ja.RandomAllocation(ONE, 1000)
_MANY_BATCHES = ja.ShuffledBatches(ONE, 1_140_000)


def _epsilon(mechanism: Any, delta: float = 1e-6) -> float:
    return float(ja.epsilon(mechanism, delta))


# The table of winners


def _winners() -> dict[tuple[float, ...], dict[str, float]]:
    """The rows by (sigma, t, k, epochs): each column that has a number."""
    lines = [line for line in (ROOT / "docs/_winners_table.md").read_text().splitlines() if line.startswith("| ")]
    head, *rows = ([cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines)
    return {
        tuple(map(float, row[:4])): {name: float(cell) for name, cell in zip(head[4:], row[4:], strict=True) if cell}
        for row in rows
    }


def _times(column: str, *rows: tuple[float, ...], than: str = "`ja.epsilon`") -> tuple[float, ...]:
    """How many times the answer, or another column, a column is in these rows."""
    return tuple(_winners()[row][column] / _winners()[row][than] for row in rows)


def _percent(times: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(100 * (x - 1) for x in times)


def _worst(column: str) -> tuple[float]:
    """Per cent above the answer over several epochs of one step, at most."""
    rows = [row for row in _winners() if row[2] == 1 and row[3] > 1]
    return (max(_percent(_times(column, *rows))),)


def _renyi_of_rounds() -> tuple[float]:
    rounds = ja.Shuffled(ja.LocalRandomizer(1.0), 10**6, 10**4)
    return (100 * (ja.epsilon(rounds, 1e-6, method="clones rdp") / _epsilon(rounds) - 1),)


# The others


def _separated() -> tuple[float, ...]:
    """Ten times one of seven steps with probability 0.7; a hundred sampled steps; ten known ones."""
    groups = ja.RandomAllocation(ja.PoissonSampled(ONE, 0.7, num_steps=1), num_steps=7, num_epochs=10)
    return tuple(_epsilon(run, 1e-5) for run in (groups, ja.PoissonSampled(ONE, 0.1, 100), ja.Composed(ONE, 10)))


def _two_steps(noise: float, order: int) -> float:
    """By how much of itself `rdp` of two allocated steps is too large in the add direction.

    In z1 + z2 the mean of X^(1 - order) is closed; in v = (z1 - z2) / sqrt 2 it is summed.
    """
    v, power = np.linspace(-60.0, 60.0, 60_001), order - 1
    slope = v / (math.sqrt(2) * noise)
    logs = -(v**2) / 2 - power * (np.logaddexp(slope, -slope) - math.log(2))
    total = logsumexp(logs) + math.log((v[1] - v[0]) / math.sqrt(2 * math.pi))
    truth = (power**2 / (4 * noise**2) + power / (2 * noise**2) + total) / power
    found = ja.rdp(ja.RandomAllocation(ja.Gaussian(noise), 2), [order], direction="add")
    return 1e4 * (float(found.values[0]) / truth - 1)


def _all_check_in() -> tuple[float, float]:
    """Inside a program, and outside."""

    def run(noise: Any) -> ja.CheckIn:
        return ja.CheckIn(ja.GaussianReports(noise), 10_000, 1.0)

    return float(jax.jit(lambda noise: ja.epsilon(run(noise), 1e-6))(4.0)), _epsilon(run(4.0))


def _default(function: Callable[..., object], name: str) -> tuple[Any]:
    return (inspect.signature(function).parameters[name].default,)


def _log10(function: Callable[..., object], name: str) -> tuple[float]:
    return (math.log10(_default(function, name)[0]),)


def _packages() -> tuple[str]:
    """How many packages bench/REPORT.md has tasks beside, however they are asked."""
    rows = [line.split("|") for line in (ROOT / "bench/REPORT.md").read_text().splitlines() if line.startswith("| ")]
    peers = {re.split(r"[ ,]", row[6].strip())[0].lower() for row in rows if len(row) == 12}
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
    return (words[len(peers - {"peer", "---", "none", "numpy", "scipy"})],)


CLAIMS = (
    Claim(WINNERS, "lose {:.0f} % at large epsilon", lambda: _percent(_times("Renyi", (0.5, 1000, 1, 1)))),
    Claim(WINNERS, "factor of {:.0f} or {:.0f} at small", lambda: _times("Renyi", (1, 1000, 1, 1), (1, 10000, 1, 1))),
    Claim(WINNERS, "The loss distribution is up to {:.1f} % above them", lambda: _worst("loss distribution")),
    Claim(WINNERS, "the decomposition up to {:.1f} %", lambda: _worst("decomposition")),
    Claim(
        WINNERS,
        "({:.1f} % and {:.1f} %) where many epochs",
        lambda: _percent(_times("Renyi", (2, 100, 1, 10), (4, 1000, 1, 100))),
    ),
    Claim(
        WINNERS,
        "which lies {:.1f} % to {:.1f} % above the truth",
        lambda: _percent(_times("complex moments", (2, 1000, 10, 10), (1, 1000, 10, 1), than="truth at least")),
    ),
    Claim(
        WINNERS,
        "the reduction costs more, {:.2f} where the truth is at least {:.1f}",
        lambda: tuple(_winners()[0.5, 100, 10, 1][column] for column in ("complex moments", "truth at least")),
    ),
    Claim(WINNERS, "curve, {:.0f} % looser at 10^4 rounds", _renyi_of_rounds),
    Claim(
        WINNERS,
        "`bench/peers.md` {} settings",
        lambda: re.findall(r"Answered: (\d+) by jaxacct", (ROOT / "bench/peers.md").read_text()),
    ),
    Claim(
        WORDS,
        "at 0.1 the factor is {:.1f}, at 1 it is {:.1f}, at 10 it is {:,.0f}",
        lambda: (math.exp(0.1), math.e, round(math.exp(10.0), -3)),
    ),
    Claim(
        FIRST,
        "true positive rate at most {:.2f} % at false positive rate 1 %",
        lambda: (100 * (1 - ja.tradeoff(ja.RandomAllocation(ONE, 100, num_epochs=10), 0.01)),),
    ),
    Claim(
        TRAINING,
        "by Rényi divergences two of these have an epsilon above {:.1f}",
        lambda: (math.floor(10 * ja.epsilon(ja.PoissonSampled(ONE, 0.01, 2), 1e-6, precision=math.inf)) / 10,),
    ),
    Claim(TRAINING, "that any batch of the run is truncated is {:.0e}", lambda: (_batches._OVERFLOW,)),
    Claim(
        INTEROP,
        "epsilon {:.2f} at delta 1e-5, where 100 sampled steps have {:.2f} and ten known ones {:.1f}",
        _separated,
    ),
    Claim(
        INDEX,
        "({:.2f} reported, {:,.0f} true), batches fixed in advance and only reordered ({:.2f} against {:.2f})",
        lambda: (
            _epsilon(EPOCH),
            _epsilon(ja.RandomAllocation(ja.Gaussian(0.01), 1000)),
            _epsilon(EPOCH),
            _epsilon(ONE),
        ),
    ),
    Claim(
        INDEX,
        "shuffled batches ({:.2f} against at least {:.2f})",
        lambda: (_epsilon(ja.PoissonSampled(ONE, 0.001, 1000)), ends(ja.ShuffledBatches(ONE, 1000))[0]),
    ),
    Claim(
        PITFALLS,
        "random allocation costs no more than Poisson sampling here ({:.3f} and {:.3f})",
        lambda: (_epsilon(EPOCH), _epsilon(ja.RandomAllocation(ja.Gaussian(0.5), 1000))),
    ),
    Claim(CALIBRATION, "A value slightly further (`tolerance`, 1e{:.0f})", lambda: _log10(ja.calibrate, "tolerance")),
    Claim(CLUSTERS, "starts a process for each core, {} at most", lambda: (_run._MOST_PROCESSES,)),
    Claim(CLUSTERS, "`Workers(.., attempts={})`", lambda: _default(workers.Workers, "attempts")),
    Claim(README, "fixed settings beside {} packages", _packages),
    Claim(
        LIMITS,
        "by a relative {:.1f}e-4 at noise multiplier 0.49 and order 50, {:.1f}e-4 at 0.4 and order 100",
        lambda: (_two_steps(0.49, 50), _two_steps(0.4, 100)),
    ),
    Claim(
        LIMITS,
        "is all there is: epsilon is {:.3f} instead of {:.3f} where 10,000 users all check in",
        _all_check_in,
        compiles=True,
    ),
    Claim(
        "docs/papers/sources.md",
        "at most {:.5f} there ({:.5f} for a replaced record)",
        lambda: (ja.delta(_MANY_BATCHES, 0.0), ja.delta(ja.ReplaceOne(_MANY_BATCHES), 0.0)),
    ),
    Claim("CHANGELOG.md", "and for up to {:,} steps", lambda: (_how_many._MOST_STEPS,)),
    Claim("CHANGELOG.md", "- Batches of up to {} points are answered like", lambda: (_precision.FEW_LANES,)),
    Claim(
        "docs/papers/chen.md",
        "where randomized response needs {:.3f}",
        lambda: ends(ja.Shuffled(ja.LocalRandomizer(4.0), 1000), 1e-8)[:1],
    ),
)


@pytest.mark.parametrize("claim", cases(CLAIMS))
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning", "ignore::jaxacct.OrderEdgeWarning")
def test_what_is_stated_is_so(claim):
    check(claim)


def test_the_probability_with_which_a_record_joins_one_of_ten_steps():
    """What docs/interop.md counts with as one of seven, each with probability 0.1."""
    assert 1 - 0.9**10 < 7 * 0.1


# The table of pitfalls: what the blocks below it print


def test_the_table_of_pitfalls_repeats_what_blocks_print():
    text = (ROOT / PITFALLS).read_text()
    rows = re.findall(r"^\| (\d+) \| .+? \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert len(rows) == 18
    for number, *cells in rows:
        section = re.split(rf"^### {number}\. ", text, flags=re.MULTILINE)[1].split("\n## ")[0].split("\n### ")[0]
        section = re.sub(r"(\de-)0", r"\1", section)
        for cell in cells:
            for stated in re.findall(r"\d(?:[\d.,]*\d)?(?:e-\d+)?", re.sub(r"at 1e-6|1/n", "", cell)):
                assert re.search(rf"(?<![\d.]){re.escape(stated)}", section), (number, stated)
