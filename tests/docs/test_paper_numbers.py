"""Numbers that the pages of docs/papers state: what is printed, what released code does, and what is true.

A formula that is refuted is written out here, so that no code of the package has to hold it.
"""

import importlib
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, laplace, norm
from support.stated import ROOT, Claim, cases, check, ends

import jaxacct as ja
from jaxacct.divergence.blanket._antipodal import gaussian_law
from jaxacct.divergence.blanket._ball import ball_law
from jaxacct.papers import check_ins, clones, girgis

if not (ROOT / "docs").is_dir():
    pytest.skip("a source distribution of the package alone has no pages", allow_module_level=True)

CLONES, GIRGIS, CHEN, CHECK_INS, ALLOCATION = (
    f"docs/papers/{name}.md" for name in ("clones", "girgis", "chen", "check_ins", "random_allocation")
)
BATCHES = "docs/papers/shuffled_batches.md"
BLANKET = "docs/papers/blanket.md"
SHUFFLING = "notebooks/shuffling.ipynb"


# Hiding among the clones


def _released(step: int, halvings: int, n: int = 10**5, local: float = 4.0, delta: float = 1e-6) -> float:
    """Epsilon by the rule of the authors' code: blocks of counts on either side of the mean, until the rest is small.

    The rest of the mass is added as soon as it is below what the far ends of the blocks so far give.
    """
    E = math.exp(local)
    p, keep, middle = 1 / E, E / (1 + E), math.ceil((n - 1) / E)
    starts = np.stack([middle + step * np.arange(4000 // step), middle - step * np.arange(1, 4000 // step + 1)], 1)
    first = starts.ravel()[starts.ravel() > -step]
    last, first = first + step - 1, np.maximum(first, 0)
    mass = binom.cdf(last, n - 1, p) - binom.cdf(first - 1, n - 1, p)

    def of_count(c: Any, bound: float) -> Any:  # the divergence of both laws given the number of clones
        cut = (c + 1) / (1 + (bound * keep - (1 - keep)) / (keep - bound * (1 - keep)))
        below, less = binom.cdf(cut, c, 0.5), binom.cdf(cut - 1, c, 0.5)
        return keep * below + (1 - keep) * less - bound * ((1 - keep) * below + keep * less)

    def found(epsilon: float) -> float:
        near, far = (np.cumsum(mass * of_count(c, math.exp(epsilon))) for c in (first, last))
        rest = 1 - np.cumsum(mass)
        stop = np.argmax(rest < far)
        return float(np.maximum(near, far)[stop] + rest[stop])

    closed = 8 * math.sqrt(E * math.log(4 / delta) / n) + 8 * E / n
    low, high = 0.0, math.log1p((1 - 1 / E) / (1 + 1 / E / (1 + closed)) * closed)
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) < delta else (middle, high)
    return high


def _looser(step: int) -> float:
    """By how many per cent the authors' code is above the pair."""
    return 100 * (_released(step, 20) / ja.epsilon(ja.Shuffled(ja.LocalRandomizer(4.0), 10**5), 1e-6) - 1)


def _corollary42(n: float, k: float, E: float, delta: float) -> float:
    root = math.sqrt(2 * (k + 1) * math.log(4 / delta) / ((E + k - 1) * k * n))
    return math.log1p((E - 1) * (4 * root + 4 * (k + 1) / (k * n)))


def _times_too_large() -> tuple[float]:
    many = ja.Shuffled(ja.KaryRandomizedResponse(math.log(8.0), 10**7), 10**4)
    return (round(ja.delta_interval(many, _corollary42(1e4, 1e7, 8.0, 1e-30)).lower / 1e-30, -4),)


# Renyi divergences of the shuffle model


def _renyi_epsilon(rdp: Any, orders: Any, delta: float) -> float:
    return float(np.min(rdp + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)))


def _theorem1(n: int, local: float, rounds: int, delta: float, rate: float = 1.0) -> float:
    """Epsilon of Theorem 1 over rounds; of sampled clients as Figure 5 has it, by the expected number of them."""
    orders = np.arange(2, 129)
    curve = np.minimum(girgis.theorem1_rdp(int(rate * n), local, orders=orders), local)
    curve = girgis.published_sampled_rdp(curve, rate, orders=orders) if rate < 1 else curve
    return _renyi_epsilon(rounds * np.asarray(curve), orders, delta)


def _gains(n: int, local: float, rounds: int, delta: float, rate: float = 1.0) -> tuple[float, float]:
    """How many times Theorem 1 the clones have, composed optimally and in closed form, at the best split of delta."""
    theorem1, found = _theorem1(n, local, rounds, delta, rate), []
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        one = ja.epsilon(ja.Shuffled(ja.LocalRandomizer(local), int(rate * n)), share * delta / rounds / rate)
        step, slack = math.log1p(rate * math.expm1(one)), (1 - share) * delta

        def excess(epsilon: float, step: float = step, slack: float = slack) -> float:
            return math.log(clones.optimal_composition_delta(epsilon, step, 0.0, num_steps=rounds) / slack)

        optimal = brentq(excess, theorem1, 10 * theorem1, xtol=1e-6)
        found.append((optimal, float(clones.simple_composition_epsilon(step, rounds, slack))))
    return tuple(np.min(found, axis=0) / theorem1)


def _other_direction(n: int, local: float, order: int) -> tuple[float]:
    forth, back = (girgis.response_rdp(n, local, orders=[order], reverse=r).lower[0] for r in (False, True))
    return (float(back / forth),)


# Enhanced Renyi bounds


def _largest_of_blocks(blocks: int = 100, size: int = 600, step: float = 1e-3) -> tuple[float, float]:
    """Order 2 at local epsilon 1: of the largest report where all other blocks are the opposite, and as stated."""
    x = np.arange(-40.0, 60.0, step) + step / 2

    def density(shift: float) -> Any:  # of the largest of one report at `shift` and the others
        others = laplace.cdf(x, -size) ** (blocks - 2) * np.stack([laplace.cdf(x, -size), laplace.pdf(x, -size)])
        return laplace.pdf(x, shift) * others[0] + (blocks - 1) * laplace.cdf(x, shift) * others[1]

    return math.log(step * np.sum(density(0.0) ** 2 / density(1.0))), 2 * math.e * 2 / (blocks - 1)


# Shuffled check-ins


def _ones(bits: tuple[int, ...], local: float) -> Any:
    """The law of how many of the randomized bits are 1."""
    law = np.ones(1)
    for bit in bits:
        one = 1 / (1 + math.exp(-local if bit else local))
        law = np.convolve(law, [1 - one, one])
    return law


def _largest(law: Callable[[tuple[int, ...]], Any], n: int, epsilon: float) -> float:
    """The largest divergence of neighbouring data sets of n bits."""
    sets = itertools.product((0, 1), repeat=n)
    return max(np.maximum(law(b) - math.exp(epsilon) * law((1 - b[0], *b[1:])), 0).sum() for b in sets)


def _coupling(n: int = 3, q: float = 0.3, local: float = 1.0, inner: float = 0.2) -> tuple[float, float, float, float]:
    """epsilon; delta of Appendix D.1 as printed (no reports in its first term), exactly, and corrected."""

    def shown(bits: tuple[int, ...]) -> Any:  # the law of the number of reports and of ones among them
        total = np.zeros((n + 1, n + 1))
        for joins in itertools.product((0, 1), repeat=n):
            there = tuple(itertools.compress(bits, joins))
            total[len(there), : len(there) + 1] += q ** sum(joins) * (1 - q) ** (n - sum(joins)) * _ones(there, local)
        return total

    def profile(k: int, epsilon: float) -> float:
        return _largest(lambda bits: _ones(bits, local), k, epsilon)

    epsilon = math.log1p(q * math.expm1(inner))
    others, share = binom.pmf(np.arange(n), n - 1, q), math.exp(epsilon - inner)
    moved = [profile(k, inner + math.log(q / (1 - q) * (n / k - 1))) for k in range(1, n)] + [1.0]
    printed = q * (1 - share) * float(others @ moved)
    first = q * share * float(others @ [profile(k, inner) for k in range(1, n + 1)])
    return epsilon, printed, _largest(shown, n, epsilon), printed + first


def _response_rounds(n: int, prob: float, local: float) -> tuple[float]:
    """epsilon from below of a hundred rounds of check-ins of binary randomized response, all others 0."""
    k, ones = (x.ravel() for x in np.meshgrid(np.arange(60.0), np.arange(60.0), indexing="ij"))
    k, ones = k[ones <= k], ones[ones <= k]
    without = binom.pmf(k, n, prob) * binom.pmf(ones, k, 1 / (math.exp(local) + 1))
    with_it = without * (1 - k / n + (ones * math.exp(local) + (k - ones) * math.exp(-local)) / n)
    pair = ja.DiscretePair(*(np.append(law, max(1 - law.sum(), 0.0)) for law in (with_it, without)))
    rounds = ja.pld(ja.Composed(pair, 100), bound=ja.Bound.LOWER, resolution=1000.0)
    return (rounds.epsilon(1e-4),)


def _first_cut(n: int = 10**6, cap: int = 10**5) -> tuple[float, float]:
    """delta of Theorem 1 in units of 1e-7, as printed and derived; delta1 1e-6, beta 1e-9."""
    printed = check_ins.published_theorem1(n, cap, 4.0, delta1=1e-6, beta=1e-9, local_delta=1e-14).delta
    derived = 1e-9 + check_ins.sampled_guarantee(n, cap, 4.0, delta1=1e-6, local_delta=1e-14).delta
    return printed * 1e7, derived * 1e7


# Random allocation


def _gaussian_delta(epsilon: float, sigma: float) -> float:
    low, high = -0.5 / sigma - epsilon * sigma, 0.5 / sigma - epsilon * sigma
    return float(norm.cdf(high) - math.exp(epsilon) * norm.cdf(low))


def _overlap_to_add(sigma: float, t: int, k: int, a: int) -> tuple[float]:
    joint = t * math.log1p(a * math.expm1(k * (t - k) / (sigma * t) ** 2)) / (2 * (a - 1))
    return (a * k**2 / (2 * sigma**2 * t) + a * k * (t - k) / (2 * sigma**2 * t * (a - 1)) - joint,)


def _composed(noise: float, steps: int, selected: int, epochs: int = 1, delta: float = 1e-6) -> tuple[float, float]:
    """epsilon by Lemma 3.2's composition, and by all that is known."""
    run = ja.RandomAllocation(ja.Gaussian(noise), steps, selected, epochs)
    return ja.epsilon(run, delta, method="complex moments"), ja.epsilon(run, delta)


def _above_the_lower(noise: float, steps: int, selected: int) -> tuple[float]:
    lower, upper = ends(ja.RandomAllocation(ja.Gaussian(noise), steps, selected))
    return (100 * (upper / lower - 1),)


@pytest.fixture
def figure(monkeypatch):
    """docs/_several_steps.py"""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("_several_steps")


@pytest.mark.more
def test_samples_are_near_the_lower_end(figure):
    widths = []
    for steps in figure.SAMPLED:
        lower, _ = ends(ja.RandomAllocation(ja.Gaussian(figure.SIGMA), steps, figure.SELECTED), figure.DELTA)
        found, errors = figure.sampled(steps, lower)
        assert abs(found / lower - 1) < 0.005
        widths.append(100 * errors / lower)
    stated = "within 0.5 % of the lower bound at every t, with two standard errors of {:.1f} to {:.1f} %"
    check(Claim(ALLOCATION, stated, lambda: (min(widths), max(widths))))


@pytest.mark.more
def test_samples_are_near_where_the_page_says(figure, monkeypatch):
    found = []
    for sigma, steps, delta in ((0.776, 37, 1e-6), (0.55, 391, 1.25e-5)):
        monkeypatch.setattr(figure, "SIGMA", sigma)
        monkeypatch.setattr(figure, "DELTA", delta)
        found.append(figure.sampled(steps, ends(ja.RandomAllocation(ja.Gaussian(sigma), steps, 5), delta)[0])[0])
    check(Claim(ALLOCATION, "importance sampling puts the truth near {:.2f} and {:.2f}", lambda: tuple(found)))


# What the pages state

CLAIMS = (
    Claim(CLONES, "own released code answers {:.4f} here", lambda: (_released(100, 10),)),
    Claim(
        CLONES, "is {:.0f} % above the pair's at blocks of one count, and {:.0f} %", lambda: (_looser(1), _looser(100))
    ),
    Claim(CLONES, "gives epsilon {:.7f}", lambda: (_corollary42(1e4, 1e7, 8.0, 1e-30),)),
    Claim(CLONES, "the true delta is {:,.0f} times as large", _times_too_large),
    Claim(
        GIRGIS,
        "{:.0f} times as large at local epsilon 6, 20,000 reports and order 32",
        lambda: _other_direction(20_000, 6.0, 32),
    ),
    Claim(
        GIRGIS,
        "is {:.1f} with today's numerics and the optimal composition, {:.1f} with the closed form",
        lambda: _gains(10**6, 0.5, 10**5, 1e-6),
    ),
    Claim(GIRGIS, "the 11 of Figure 5 is {:.1f} and {:.1f}", lambda: _gains(10**6, 3.0, 10**4, 1e-8, 1e-3)),
    Claim(
        SHUFFLING,
        "against accurate clones its factor would be {:.1f} to {:.1f}",
        lambda: _gains(10**6, 3.0, 10**4, 1e-8, 1e-3),
    ),
    Claim(
        SHUFFLING,
        "that curve gives {:.3f}, {:.3f} and {:.2f} at 1000, 10,000 and 100,000 rounds",
        lambda: tuple(_theorem1(10**6, 3.0, 10**k, 1e-8, 1e-3) for k in (3, 4, 5)),
    ),
    Claim(CHEN, "local epsilon 1, order 2 is at least {:.3f}, and stated as {:.3f}", _largest_of_blocks),
    Claim(
        CHECK_INS,
        "epsilon {:.4f} it gives {:.4f}, the exact delta is {:.4f}, and the corrected bound {:.4f}",
        _coupling,
    ),
    Claim(CHECK_INS, "this mechanism is at least {:.4f}", lambda: _response_rounds(10_000, 0.001, 2.0)),
    Claim(CHECK_INS, "(too small: {:.5f}e-7 for {:.5f}e-7", _first_cut),
    Claim(
        ALLOCATION,
        '"bound" on the add direction is {:.4f}',
        lambda: (_gaussian_delta(0.5 + (1 - 1 / 2) / 2, math.sqrt(2)),),
    ),
    Claim(
        ALLOCATION, "epsilon 2 give {:.4f}", lambda: (_gaussian_delta(2.0 - (1 - 1 / 100) / 2, math.sqrt(100 / 50)),)
    ),
    Claim(
        ALLOCATION,
        "in released code.** It gives {:.5f} at noise multiplier 1",
        lambda: _overlap_to_add(1.0, 100, 1, 3),
    ),
    Claim("docs/pitfalls.md", "order 3 it gives {:.5f}", lambda: _overlap_to_add(1.0, 100, 1, 3)),
    Claim(ALLOCATION, "kept: {1:.3f} for {0:.3f} at (0.776, 37, 5)", lambda: _composed(0.776, 37, 5)),
    Claim(ALLOCATION, "and {1:.2f} for {0:.2f} at (0.5025, 4686, 28)", lambda: _composed(0.5025, 4686, 28)),
    Claim(
        ALLOCATION,
        "{1:.1f} for {0:.1f} at (0.5452, 406, 36) in 12",
        lambda: _composed(0.5452, 406, 36, 12, delta=2.3e-6),
    ),
    Claim(ALLOCATION, "{1:.2f} for {0:.2f} at (0.5721, 191, 4) in 2", lambda: _composed(0.5721, 191, 4, 2, delta=1e-8)),
    Claim(
        ALLOCATION,
        "and the composition gives {:.1f}",
        lambda: _composed(0.5452, 406, 36, 12, delta=2.3e-6)[:1],
    ),
    Claim(
        ALLOCATION,
        "the {:.1f} % of epsilon that the bounds leave open at (0.776, 1000, 5)",
        lambda: _above_the_lower(0.776, 1000, 5),
    ),
)


@pytest.mark.parametrize("claim", cases(CLAIMS))
def test_what_a_paper_s_page_states_is_so(claim):
    check(claim)


def test_what_gains_nothing_over_several_epochs():
    """The other setting that the page of random allocation names."""
    composed, found = _composed(0.6838, 38, 2, 8, delta=1e-6)
    assert found == composed


# Shuffled batches: the tables of numbers


def _rows(heading: str) -> list[list[str]]:
    """The cells of the table that follows a line of the page."""
    lines = (ROOT / BATCHES).read_text().split(heading, 1)[1].lstrip("\n").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in itertools.takewhile(bool, lines)]
    return table[2:]


_QUICK = {("2", "1,000", 1), ("4", "100", 1), ("10", "100", 1)}


def _settings() -> list[Any]:
    found = []
    for heading, epochs in (('"whole list" SB-6.', 1), ("Ten epochs:", 10)):
        for noise, steps, *cells in _rows(heading):
            marks = [] if (noise, steps, epochs) in _QUICK else [pytest.mark.more]
            found.append(pytest.param(noise, steps, epochs, cells, marks=marks, id=f"{noise}-{steps}-{epochs}"))
    return found


@pytest.mark.parametrize(("noise", "steps", "epochs", "cells"), _settings())
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_what_a_shuffled_list_costs(noise, steps, epochs, cells):
    release, count = ja.Gaussian(float(noise)), int(steps.replace(",", ""))
    low, high = ends(ja.ShuffledBatches(release, count, epochs))
    runs = (
        ja.ShuffledBatches(release, count, epochs, last_batch="dropped"),
        ja.RandomAllocation(release, count, 1, epochs),
        ja.PoissonSampled(release, 1.0 / count, count * epochs),
    )
    left_out, allocated, sampled = (ja.epsilon(run, 1e-6) for run in runs)
    found = (ja.epsilon(ja.Composed(release, epochs), 1e-6), low, left_out, high, allocated, sampled)
    assert cells == [f"{x:#.3g}" for x in found]


# Shuffled reports


def _table(page: str, heading: str) -> list[list[str]]:
    lines = (ROOT / page).read_text().split(heading, 1)[1].split("\n\n", 2)[1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "row", _table(BLANKET, "the least of what was known before"), ids=lambda row: "-".join(row[:2])
)
def test_what_shuffled_gaussian_reports_cost(row, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    noise, reports, *cells = row
    found = importlib.import_module("_blanket").row(float(noise), int(reports.replace(",", "")))
    assert cells == [f"{x:#.4g}" for x in found]


def _by(mechanism: Any, name: str) -> tuple[float, float]:
    return ja.epsilon(mechanism, 1e-6), ja.epsilon(mechanism, 1e-6, method=name)


REPORTS = (
    Claim(
        BLANKET,
        "noise 4 is certified to be in [{:.6f}, {:.6f}] (from",
        lambda: ends(ja.CheckIn(ja.GaussianReports(4.0), 10**6, 0.1)),
    ),
    Claim(BLANKET, "scale 2 in [{:.5f}, {:.4f}] (from", lambda: ends(ja.Shuffled(ja.LaplaceReports(2.0), 10**5))),
    Claim(
        BLANKET,
        "at noise 4, {:.6f} ({:.5f} before)",
        lambda: _by(ja.CheckIn(ja.GaussianReports(4.0), 10**6, 0.1), "purified check-in"),
    ),
    Claim(
        BLANKET,
        "reports at noise 4, {:.3f} ({:.0f} before)",
        lambda: _by(ja.Shuffled(ja.GaussianReports(4.0, 1), 10**4, 1000), "no amplification"),
    ),
    Claim(
        BLANKET,
        "of scale 2, {:.5f} ({:.5f} by clones)",
        lambda: _by(ja.Shuffled(ja.LaplaceReports(2.0), 10**5), "clones"),
    ),
    Claim(
        BLANKET,
        "at local epsilon 2, {:.3f} ({:.3f} by clones)",
        lambda: _by(ja.Shuffled(ja.KaryRandomizedResponse(2.0, 10), 10**4, 10), "clones moments"),
    ),
)


@pytest.mark.parametrize("claim", cases(REPORTS))
def test_what_other_reports_cost(claim):
    check(claim)


def test_how_the_blanket_shrinks():
    run = ja.Shuffled(ja.GaussianReports(4.0, 1000), 10**6)
    wanted = [gaussian_law(0.25, 1e-12).least_mass]
    wanted += [ball_law(0.25, dimension, 1e-12).law.least_mass for dimension in (2, 10, 100, 1000)]
    mass, epsilon = _table(BLANKET, "vectors of many coordinates")
    assert mass[1:] == [f"{x:#.3g}" for x in wanted]
    assert epsilon[1:5] == _table(BLANKET, "the least of what was known before")[0][3:7]
    assert epsilon[5] == f"{ja.epsilon(run, 1e-6, method='privacy blanket'):#.4g}"
