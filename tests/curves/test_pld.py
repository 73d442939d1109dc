"""Privacy loss distributions: certified on both sides, against closed forms, enumeration and direct convolution."""

import dataclasses
import itertools
import json
import math
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import mpmath as mp
import numpy as np
import pytest
from support.answers import DELTA, interval_of

import jaxacct as ja
from jaxacct._types import TooFineError
from jaxacct.bounds import bases
from jaxacct.bounds.bases._base import pld_of_law
from jaxacct.curves import _convolution as composition
from jaxacct.curves._convolution import compose_plds
from jaxacct.divergence.lattice import _ratio as lattice
from jaxacct.divergence.lattice import _sums as sums
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_atoms
from jaxacct.divergence.lattice._sums import averages
from jaxacct.special import outward, product_outward, sum_outward

ADD, REMOVE = ja.Direction.ADD, ja.Direction.REMOVE
UPPER, LOWER = ja.Bound.UPPER, ja.Bound.LOWER
# Of the oracle, not of the bounds: rounding of double-precision closed forms and of enumeration.
ORACLE = 1e-11
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "random-allocation.json").read_text())


# ---- oracles


def gaussian_delta(sigma: Any, epsilon: Any, kappa: Any = None) -> Any:
    """Balle & Wang 2018, Theorem 8, 50 digits; `kappa` = e^epsilon may be given instead."""
    with mp.workdps(50):
        mu = 1 / mp.mpf(sigma)
        kappa = mp.exp(mp.mpf(epsilon)) if kappa is None else kappa
        if kappa <= 0:
            return 1 - kappa
        epsilon = mp.log(kappa)
        return mp.ncdf(mu / 2 - epsilon / mu) - kappa * mp.ncdf(-mu / 2 - epsilon / mu)


def poisson_delta(sigma: float, prob: float, epsilon: float, direction: ja.Direction) -> Any:
    """One step of Poisson sampling, closed form (RA-S5)."""
    with mp.workdps(50):
        prob, kappa = mp.mpf(prob), mp.exp(mp.mpf(epsilon))
        if direction is REMOVE:
            return prob * gaussian_delta(sigma, None, 1 + (kappa - 1) / prob)
        rest = 1 - kappa * (1 - prob)
        return rest * gaussian_delta(sigma, None, prob * kappa / rest) if rest > 0 else mp.mpf(0)


def check_bracket(lower: float, truth: Any, upper: float, slack: float = 0.0) -> None:
    """Fails unless lower <= truth <= upper, up to the oracle's own relative error `slack`."""
    assert not math.isnan(lower)
    assert not math.isnan(upper)
    assert lower <= truth * (1 + slack), f"lower {lower} above {mp.nstr(mp.mpf(truth), 17)}"
    assert upper >= truth * (1 - slack), f"upper {upper} below {mp.nstr(mp.mpf(truth), 17)}"


def both(mechanism: Any, direction: ja.Direction, **options: Any) -> tuple[ja.Pld, ja.Pld]:
    """(lower, upper)."""
    return tuple(ja.pld(mechanism, direction=direction, bound=bound, **options) for bound in (LOWER, UPPER))


# ---- the Gaussian


def test_composed_gaussian_brackets_closed_form() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        count = int(10 ** rng.uniform(0, 3))
        total = 10 ** rng.uniform(-1.3, 0.7)  # 1/sigma of the whole
        sigma = math.sqrt(count) / total
        plds = [both(ja.Composed(ja.Gaussian(sigma), count), d, resolution=6) for d in ja.Direction]
        epsilons = rng.uniform(0, total * 6 + total**2, 10)
        exact = np.asarray(ja.delta(ja.Gaussian(sigma / math.sqrt(count)), target_epsilon=epsilons))
        for epsilon, truth in zip(epsilons, exact, strict=True):
            for direction, (lower, upper) in zip(ja.Direction, plds, strict=True):
                if direction is ADD and sigma < 0.35:
                    continue  # test_small_noise_add_direction
                # the closed form keeps 1e-11 at these losses; mpmath below is the sharper oracle
                check_bracket(lower.delta(epsilon), truth, upper.delta(epsilon), ORACLE)


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-10])
def test_gaussian_interval_has_the_promised_width(delta: float) -> None:
    for sigma, count in [(0.3, 1), (1.0, 1), (30.0, 1), (2.0, 7), (10.0, 100), (30.0, 1000), (300.0, 100000)]:
        interval = ja.epsilon_interval(ja.Composed(ja.Gaussian(sigma), count), delta, precision=0.01)
        truth = float(ja.epsilon(ja.Gaussian(sigma / math.sqrt(count)), target_delta=delta))
        check_bracket(interval.lower, truth, interval.upper, ORACLE)
        assert interval.upper - interval.lower <= 0.01 * interval.lower
        assert interval.analysis_lower == interval.lower


@pytest.mark.parametrize("direction", list(ja.Direction))
@pytest.mark.parametrize("sigma", [0.6, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("resolution", [1.0, 24.0, 700.0])
def test_gaussian_at_lattice_points(sigma: float, direction: ja.Direction, resolution: float) -> None:
    """At its own lattice points an upper bound has no slack but its booked rounding."""
    _check_lattice_points(sigma, direction, resolution)


def _check_lattice_points(sigma: float, direction: ja.Direction, resolution: float) -> None:
    for pld in both(ja.Gaussian(sigma), direction, resolution=resolution):
        for z in np.linspace(0.0, 9.0, 11):
            cell = round((z / sigma + 0.5 / sigma**2 - pld.offset) / pld.step)
            epsilon = pld.offset + cell * pld.step
            if 0 <= cell < pld.masses.shape[0] and epsilon > 0:
                truth, value = gaussian_delta(sigma, epsilon), pld.delta(epsilon)
                check_bracket(*((value, truth, 1.0) if pld.bound is LOWER else (0.0, truth, value)))


@pytest.mark.parametrize("sigma", [1e3, 1e5])
def test_large_noise_at_lattice_points(sigma: float) -> None:
    for direction in ja.Direction:
        _check_lattice_points(sigma, direction, 1.0)


@pytest.mark.parametrize(("sigma", "count"), [(0.2, 1), (0.2, 4)])
def test_small_noise_add_direction(sigma: float, count: int) -> None:
    lower, upper = both(ja.Composed(ja.Gaussian(sigma), count), ADD, resolution=100)
    total = math.sqrt(count) / sigma
    for z in (3.0, 4.0, 5.0, 6.0):
        epsilon = 0.5 * total**2 + z * total
        check_bracket(lower.delta(epsilon), gaussian_delta(1 / total, epsilon), upper.delta(epsilon))


@pytest.mark.parametrize("delta", [1e-20, 1e-25, 1e-40, 1e-100, 1e-300])
def test_deltas_beyond_the_window_fail_closed(delta: float) -> None:
    for mechanism in (ja.Gaussian(1.0), ja.Composed(ja.Gaussian(2.0), 4), ja.RandomAllocation(ja.Gaussian(1.0), 1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ja.PrecisionWarning)
            interval = ja.epsilon_interval(mechanism, delta)
        with mp.workdps(50):
            check_bracket(0.0, delta, float("inf") if interval.lower == 0 else gaussian_delta(1, interval.lower))
            if math.isfinite(interval.upper):
                assert gaussian_delta(1, interval.upper) <= delta


# ---- Poisson sampling

POISSON = [(1.0, 0.01), (0.5, 0.1), (2.0, 0.5), (0.3, 0.3), (1.0, 1e-5), (100.0, 0.01), (0.3, 0.999), (1.0, 1.0)]


@pytest.mark.sample(4)
@pytest.mark.parametrize("direction", list(ja.Direction))
@pytest.mark.parametrize(("sigma", "prob"), POISSON)
def test_poisson_step_brackets_closed_form(sigma: float, prob: float, direction: ja.Direction) -> None:
    mechanism = ja.PoissonSampled(ja.Gaussian(sigma), prob, num_steps=1)
    for resolution in (1.0, 12.0):
        lower, upper = both(mechanism, direction, resolution=resolution)
        above = np.cumsum(upper.masses[::-1])[::-1]
        for tail in (0.3, 1e-2, 1e-4, 1e-8, 1e-12, 1e-18):
            cell = int(np.searchsorted(-above, -tail))
            for epsilon in (upper.offset + (cell + place) * upper.step for place in (0.0, 0.4)):
                if epsilon >= 0:
                    truth = poisson_delta(sigma, prob, epsilon, direction)
                    check_bracket(lower.delta(epsilon), truth, upper.delta(epsilon))


def _mechanisms() -> list[Any]:
    noise = ja.Gaussian(1.0)
    return [
        ja.PoissonSampled(noise, 0.05, 40),
        ja.RandomAllocation(noise, 20, 1, 3),
        ja.RandomAllocation(noise, 7, 3),
        ja.Composed((ja.Gaussian(2.0), ja.PoissonSampled(noise, 0.1, 3), ja.RandomAllocation(noise, 5)), (2, 1, 2)),
    ]


@pytest.mark.parametrize("direction", list(ja.Direction))
@pytest.mark.parametrize("index", range(4))
def test_resolutions_agree(index: int, direction: ja.Direction) -> None:
    """Intervals of every resolution hold the same truth, so they overlap; each doubling narrows them."""
    epsilons, widths = (0.1, 0.5, 1.5), []
    ladders = [both(_mechanisms()[index], direction, resolution=r) for r in (2, 4, 8, 16)]
    for epsilon in epsilons:
        lowers, uppers = zip(*((lo.delta(epsilon), up.delta(epsilon)) for lo, up in ladders), strict=True)
        assert max(lowers) <= min(uppers)
        widths.append([up - lo for lo, up in zip(lowers, uppers, strict=True)])
    for width in widths:
        assert all(fine <= 0.6 * coarse for coarse, fine in itertools.pairwise(width))


# ---- random allocation


def _allocation(args: dict[str, Any]) -> ja.RandomAllocation:
    steps, selected, epochs = (int(args.get(k, 1)) for k in ("num_steps", "num_selected", "num_epochs"))
    return ja.RandomAllocation(ja.Gaussian(float(args["sigma"])), steps, selected, epochs)


def _entries(quantity: str) -> list[Any]:
    chosen = [e for e in REFERENCE if e["system"] in ("S3", "S4") and e["quantity"] == quantity]
    return [pytest.param(e, id="-".join(str(v) for v in e["args"].values())) for e in chosen if "sigma" in e["args"]]


# of the reference values, which have at least this many digits
DIGITS = {"delta": 1e-9, "epsilon": 1e-11}


@pytest.mark.sample(6)
@pytest.mark.parametrize("entry", _entries("delta") + _entries("epsilon"))
def test_allocation_brackets_exact_values(entry: dict[str, Any]) -> None:
    args, quantity = entry["args"], entry["quantity"]
    lower, upper = both(_allocation(args), ja.Direction(args["direction"]), resolution=8)
    given = float(args["epsilon" if quantity == "delta" else "delta"])
    low, high = (getattr(pld, quantity)(given) for pld in (lower, upper))
    check_bracket(low, mp.mpf(str(entry["value"])), high, DIGITS[quantity])


@pytest.mark.parametrize("direction", list(ja.Direction))
def test_allocation_of_two_steps(direction: ja.Direction) -> None:
    """Anchor of the specification, section 6: sigma = 1, t = 2, epsilon = 0.5, 15 digits; and in between."""
    lower, upper = both(ja.RandomAllocation(ja.Gaussian(1.0), 2), direction, resolution=48)
    truth = {REMOVE: 0.149177523135520, ADD: 0.142686965823743}[direction]
    check_bracket(lower.delta(0.5), truth, upper.delta(0.5), 1e-13)
    assert upper.delta(0.5) - lower.delta(0.5) < 1e-3 * truth


@pytest.mark.parametrize("direction", list(ja.Direction))
@pytest.mark.parametrize(("steps", "selected"), [(1, 1), (6, 6), (25, 25)])
def test_allocation_to_every_step_is_the_gaussian(steps: int, selected: int, direction: ja.Direction) -> None:
    lower, upper = both(ja.RandomAllocation(ja.Gaussian(2.0), steps, selected), direction, resolution=16)
    for epsilon in (0.0, 0.3, 1.0, 2.0, 4.0):
        truth = gaussian_delta(2.0 / mp.sqrt(steps), epsilon)
        check_bracket(lower.delta(epsilon), truth, upper.delta(epsilon))
        assert upper.delta(epsilon) <= 1.2 * truth


@pytest.mark.parametrize(("steps", "selected"), [(3, 2), (10, 2), (20, 5), (6, 6)])
def test_interval_of_several_selected_steps(steps: int, selected: int) -> None:
    run = ja.RandomAllocation(ja.Gaussian(1.0), steps, selected)
    found = ja.epsilon_interval(run, target_delta=1e-5, precision=0.05)
    assert 0 < found.lower <= found.analysis_lower <= found.upper
    single = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(1.0), steps), 1e-5, precision=0.05)
    assert found.lower >= single.lower * (1 - 1e-9)  # a record in more steps loses no less
    if selected == steps:
        truth = float(ja.epsilon(ja.Gaussian(1 / math.sqrt(steps)), target_delta=1e-5))
        check_bracket(found.lower, truth, found.upper, ORACLE)


@pytest.mark.parametrize("entry", _entries("delta_k_exact"))
def test_interval_holds_exact_value_of_several_selected_steps(entry: dict[str, Any]) -> None:
    """`lower` stays below the mechanism itself, not only below its reduction."""
    args = entry["args"]
    run, direction, epsilon = _allocation(args), ja.Direction(args["direction"]), float(args["epsilon"])
    found = interval_of(run, DELTA, epsilon, 0.05, (direction,))
    check_bracket(found.lower, float(entry["value"]), found.upper, DIGITS["delta"])


# ---- averages of independent ratios, against enumeration in rationals

# (p, q) over one alphabet: every kind of ratio, among them 0 (p = 0) and infinity (q = 0)
PAIRS = {
    "two": ("3/4 1/4", "1/4 3/4"),
    "three": ("1/2 3/10 1/5", "1/5 3/10 1/2"),
    "zero": ("0 2/5 3/5", "3/10 1/2 1/5"),
    "infinite": ("3/10 3/10 2/5", "7/10 3/10 0"),
    "both": ("0 3/10 1/2 1/5", "1/10 7/10 1/5 0"),
    "skewed": ("999/1000 1/1000", "1/1000 999/1000"),
}


def _pair(name: str) -> tuple[list[Fraction], list[Fraction]]:
    p, q = ([Fraction(x) for x in text.split()] for text in PAIRS[name])
    return p, q


def _exact_average(name: str, num_steps: int) -> dict[Fraction, Fraction]:
    """Law under Q of the average of `num_steps` ratios."""
    p, q = _pair(name)
    law: Counter[Fraction] = Counter({Fraction(0): Fraction(1)})
    for _ in range(num_steps):
        following: Counter[Fraction] = Counter()
        for (value, mass), (a, b) in itertools.product(law.items(), zip(p, q, strict=True)):
            if b > 0:
                following[value + a / b / num_steps] += mass * b
        law = following
    return law


def _profile(law: RatioLaw, direction: ja.Direction, kappa: float) -> float:
    values = np.exp(law.log_values)
    if direction is REMOVE:
        return float(law.masses @ np.maximum(values - kappa, 0.0)) + law.infinite_mass
    return float(law.masses @ np.maximum(1.0 - kappa * values, 0.0)) + law.zero_mass


def _exact_profile(law: dict[Fraction, Fraction], direction: ja.Direction, kappa: Fraction) -> Fraction:
    if direction is REMOVE:
        infinite = 1 - sum(v * m for v, m in law.items())
        return sum((m * max(v - kappa, Fraction(0)) for v, m in law.items()), infinite)
    return sum((m * max(1 - kappa * v, Fraction(0)) for v, m in law.items()), Fraction(0))


def _averages(name: str, num_steps: int, side: Side, step: float, tail: float) -> tuple[RatioLaw, RatioLaw]:
    p, q = _pair(name)
    pairs = [(a, b) for a, b in zip(p, q, strict=True) if a > 0 and b > 0]
    log_values = np.log([float(a / b) for a, b in pairs])
    masses = np.asarray([float(b) for _, b in pairs])
    zero = float(sum(b for a, b in zip(p, q, strict=True) if a == 0))
    infinite = float(sum(a for a, b in zip(p, q, strict=True) if b == 0))

    def base(coarse: float) -> RatioLaw:
        return from_atoms(log_values, masses, zero, infinite, coarse, side)

    return averages(base, num_steps, step, tail, coarsening=0.5, both=True)


KAPPAS = [Fraction(k, 16) for k in (0, 1, 2, 4, 7, 9, 12, 15, 16, 17, 20, 24, 27, 32, 36, 40, 48, 60, 80)]
# what _profile's own double-precision sum of O(1) terms may lose; lattice values carry ulps too
SUM_ERROR = 1e-12


def check_averages(name: str, num_steps: int, step: float = 0.05, tail: float = 1e-9) -> None:
    """Fails unless every Side of the averages of t and t + 1 stays on its side of the enumeration."""
    exact = [_exact_average(name, t) for t in (num_steps, num_steps + 1)]
    for side in Side:
        directions = {Side.UPPER: [ADD, REMOVE], Side.LOWER_REMOVE: [REMOVE], Side.LOWER_ADD: [ADD]}[side]
        for law, truth in zip(_averages(name, num_steps, side, step, tail), exact, strict=True):
            for direction, kappa in itertools.product(directions, KAPPAS):
                value, wanted = _profile(law, direction, float(kappa)), float(_exact_profile(truth, direction, kappa))
                if side is Side.UPPER:
                    assert value >= wanted - SUM_ERROR, (side, direction, kappa, value - wanted)
                else:
                    assert value <= wanted + SUM_ERROR, (side, direction, kappa, value - wanted)


@pytest.mark.parametrize("num_steps", range(1, 8))
@pytest.mark.parametrize("name", PAIRS)
def test_averages_bracket_enumeration(name: str, num_steps: int) -> None:
    check_averages(name, num_steps)


@pytest.mark.sample(2)
@pytest.mark.parametrize("step", [0.011, 0.3, 1.7])
@pytest.mark.parametrize("tail", [1e-30, 1e-3, 0.05])
def test_averages_bracket_at_any_step_and_tail(step: float, tail: float) -> None:
    for name, num_steps in itertools.product(PAIRS, (1, 3, 5)):
        check_averages(name, num_steps, step, tail)


@pytest.mark.parametrize("name", PAIRS)
def test_averages_keep_their_means(name: str) -> None:
    """UPPER spreads keep the mean of P + infinity at 1, lower ones move it to their own side only."""
    p, q = _pair(name)
    finite = float(sum(a for a, b in zip(p, q, strict=True) if b > 0))
    for side, num_steps in itertools.product(Side, (2, 5, 6, 7)):
        for law in _averages(name, num_steps, side, 0.05, 1e-14):
            mean = float(law.masses @ np.exp(law.log_values))
            if side is Side.UPPER:
                assert mean + law.infinite_mass == pytest.approx(1.0, abs=1e-10)
                assert mean + law.infinite_mass >= 1.0 - SUM_ERROR
                assert law.masses.sum() + law.zero_mass == pytest.approx(1.0, abs=1e-10)
            elif side is Side.LOWER_REMOVE:
                assert mean <= finite + SUM_ERROR
            else:
                assert mean >= finite - 1e-10  # the masses themselves are rounded down
            assert (law.masses >= 0).all()
            assert law.zero_mass >= 0
            assert law.infinite_mass >= 0


# ---- composition


def _small_pld(seed: int, bound: ja.Bound, size: int = 9, infinite: float = 0.0) -> ja.Pld:
    masses = np.random.default_rng(seed).uniform(0.1, 1.0, size) * np.exp(-1.3 * np.arange(size))
    masses *= (1.0 - infinite) / masses.sum()
    return ja.Pld(-0.03, 0.1, masses, infinite, bound, REMOVE)


def check_composition(parts: list[tuple[int, int, float]], bound: ja.Bound, **options: Any) -> None:
    """Fails unless the transform stays on its side of direct convolution, (seed, count, infinite mass) per part."""
    plds = [(_small_pld(seed, bound, infinite=infinite), count) for seed, count, infinite in parts]
    found = compose_plds(plds, **options)
    masses, offset = np.ones(1), 0.0
    for pld, count in plds:
        for _ in range(count):
            masses, offset = np.convolve(masses, pld.masses), offset + pld.offset
    infinite = -math.expm1(sum(count * math.log1p(-pld.infinite_mass) for pld, count in plds))
    exact = ja.Pld(offset, 0.1, masses, infinite, bound, REMOVE)
    reached = 1.0
    for epsilon in np.linspace(0.0, 0.1 * masses.shape[0] + offset, 600):
        gap = epsilon - exact.losses
        truth = float(masses[gap < 0] @ -np.expm1(gap[gap < 0])) + exact.infinite_mass
        if truth < 1e-25:
            break
        value, reached = found.delta(epsilon), truth
        check_bracket(*((value, truth, 1.0) if bound is LOWER else (0.0, truth, value)), 1e-12)
    assert reached < 1e-20 or exact.infinite_mass > 0  # the comparison went far enough


COMPOSITIONS = [
    [(0, 40, 0.0)],
    [(1, 200, 0.0)],
    [(2, 30, 0.0), (3, 17, 0.0), (4, 1, 0.0)],
    [(5, 25, 1e-3), (6, 9, 0.0)],
    [(7, 60, 1e-22)],
]


@pytest.mark.parametrize("bound", [UPPER, LOWER])
@pytest.mark.parametrize("parts", COMPOSITIONS)
def test_composition_brackets_direct_convolution(parts: list[tuple[int, int, float]], bound: ja.Bound) -> None:
    check_composition(parts, bound)
    check_composition(parts, bound, deltas=(1.0,))  # valid, if not sharp, without tilts


@pytest.mark.parametrize("bound", [UPPER, LOWER])
def test_rounding_of_exponents_is_booked(bound: ja.Bound) -> None:
    """Three coins, each mass against its binomial coefficient: what the transform may err by is less than that."""
    coin = ja.Pld(0.0, 0.1, np.full(2, 0.5), 0.0, bound, REMOVE)
    found = compose_plds([(coin, 3)], deltas=(1.0, 1e-2))
    ratio = found.masses[:4] / np.array([1.0, 3.0, 3.0, 1.0]) * 8.0 - 1.0
    assert np.all(ratio > 2e-14 if bound is UPPER else ratio < -2e-14)
    assert np.all(np.abs(ratio) < 1e-12)


def test_composition_is_sharp_down_to_tiny_deltas() -> None:
    lower, upper = (compose_plds([(_small_pld(0, bound), 40)]) for bound in (LOWER, UPPER))
    epsilons = np.linspace(0.0, 6.0, 30)
    values = np.asarray([(lower.delta(e), upper.delta(e)) for e in epsilons])
    resolved = values[:, 1] > 1e-19
    assert resolved.sum() >= 10
    assert (values[resolved, 1] <= values[resolved, 0] * 1.001).all()


def test_mixed_parts_do_not_compose() -> None:
    with pytest.raises(ValueError, match="share bound, direction and adjacency"):
        compose_plds([(_small_pld(0, UPPER), 1), (_small_pld(0, LOWER), 1)])


# ---- every rounding direction matters: turn each around and the same checks fail


def _floored(low: Any, high: Any, offset: float, step: float, side: Side, **unused: int) -> RatioLaw:
    return RatioLaw(offset, step, np.append(low + high, 0.0), 0.0, 0.0, side)


def _raised(low: Any, high: Any, offset: float, step: float, side: Side, **unused: int) -> RatioLaw:
    return RatioLaw(offset, step, np.append(0.0, low + high), 0.0, 0.0, side)


def _turned(side: Side, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = lattice.from_cells

    def turned(low: Any, high: Any, offset: float, step: float, s: Side, **rest: int) -> RatioLaw:
        return (wrong if s is side else right)(low, high, offset, step, s, **rest)

    for module in (lattice, sums):
        monkeypatch.setattr(module, "from_cells", turned)
    monkeypatch.setattr(f"{__name__}.from_atoms", lattice.from_atoms)


@pytest.mark.parametrize(
    ("side", "wrong"),
    [
        (Side.UPPER, _floored),  # fails in the remove direction
        (Side.UPPER, _raised),  # in the add direction
        (Side.LOWER_REMOVE, _raised),
        (Side.LOWER_ADD, _floored),
    ],
)
def test_turned_cells_are_caught(side: Side, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check_averages("three", 3)
    _turned(side, wrong, monkeypatch)
    with pytest.raises(AssertionError):
        check_averages("three", 3)


def test_wrong_safe_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds no partner in a contraction moves to the other lower bound's side."""
    right, other = lattice._contracted, {Side.LOWER_REMOVE: Side.LOWER_ADD, Side.LOWER_ADD: Side.LOWER_REMOVE}
    monkeypatch.setattr(
        lattice, "_contracted", lambda low, high, step, side, depth: right(low, high, step, other[side], depth=0)
    )
    with pytest.raises(AssertionError):
        check_averages("three", 3, step=0.3)


@pytest.mark.parametrize("side", list(Side))
def test_unbooked_tails_are_caught(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    right = lattice.trimmed

    def wrong(law: RatioLaw, scale: float, tail: float) -> RatioLaw:
        if law.side is not side:
            return right(law, scale, tail)
        # an upper bound drops its tails; a lower bound books them like an upper one
        cut = right(RatioLaw(law.offset, law.step, law.masses, 0.0, 0.0, Side.UPPER), scale, tail)
        if side is Side.UPPER:
            return RatioLaw(cut.offset, cut.step, cut.masses, law.zero_mass, law.infinite_mass, side)
        zero, infinite = law.zero_mass + cut.zero_mass, law.infinite_mass + cut.infinite_mass
        return RatioLaw(cut.offset, cut.step, cut.masses, zero, infinite, side)

    check_averages("three", 5, tail=0.05)
    monkeypatch.setattr(sums, "trimmed", wrong)
    with pytest.raises(AssertionError):
        check_averages("three", 5, tail=0.05)


@pytest.mark.parametrize("bound", [UPPER, LOWER])
def test_turned_transform_error_is_caught(bound: ja.Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [(0, 40, 0.0)]
    check_composition(parts, bound, deltas=(1.0, 1e-2))
    monkeypatch.setattr(composition, "ULP", -composition.ULP)
    with pytest.raises(AssertionError, match="below" if bound is UPPER else "above"):
        check_composition(parts, bound, deltas=(1.0, 1e-2))


def test_ignored_wrap_around_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that cuts the left tail wraps it onto the right, where a lower bound must not count it."""
    right, parts = composition._chernoff_end, [(0, 150, 0.0)]  # a window that fills its power of two
    check_composition(parts, LOWER, deltas=(1.0,))
    monkeypatch.setattr(
        composition, "_chernoff_end", lambda m, tilt, sign, tail: right(m, tilt, sign, -1.0 if sign < 0 else tail)
    )
    with pytest.raises(AssertionError, match="above"):
        check_composition(parts, LOWER, deltas=(1.0,))


def test_ignored_infinite_mass_is_caught() -> None:
    kept = [(_small_pld(5, UPPER, infinite=1e-3), 25)]
    dropped = [(ja.Pld(p.offset, p.step, p.masses, 0.0, UPPER, REMOVE), n) for p, n in kept]
    truth = -math.expm1(25 * math.log1p(-1e-3))
    check_bracket(0.0, truth, compose_plds(kept).delta(60.0), 1e-12)
    with pytest.raises(AssertionError):
        check_bracket(0.0, truth, compose_plds(dropped).delta(60.0), 1e-12)


# ---- reading a distribution


@pytest.mark.parametrize("bound", [UPPER, LOWER])
def test_epsilon_and_delta_are_inverse_on_the_safe_side(bound: ja.Bound) -> None:
    for mechanism, direction in itertools.product(_mechanisms(), ja.Direction):
        pld = ja.pld(mechanism, direction=direction, bound=bound, resolution=6)
        for delta in (0.5, 0.1, 1e-3, 1e-6, 1e-12, 1e-18):
            epsilon = pld.epsilon(delta)
            if bound is UPPER:
                assert math.isinf(epsilon) or pld.delta(epsilon) <= delta
            else:
                assert epsilon == 0.0 or pld.delta(epsilon) >= delta
            if 0 < epsilon < math.inf:
                assert pld.delta(epsilon) == pytest.approx(delta, rel=1e-6)


def test_delta_falls_with_epsilon() -> None:
    pld = ja.pld(ja.RandomAllocation(ja.Gaussian(1.0), 10), resolution=8)
    values = [pld.delta(e) for e in np.linspace(-2.0, 6.0, 200)]
    assert all(a >= b for a, b in itertools.pairwise(values))
    assert pld.delta(-50.0) == pytest.approx(1.0, abs=1e-9)


def test_delta_at_infinite_epsilon() -> None:
    assert ja.pld(ja.Gaussian(1.0)).delta(math.inf) <= 1e-22


@pytest.mark.parametrize("mechanism", [ja.Gaussian(1.0), ja.Composed(ja.Gaussian(3.0), 9)])
def test_base_distribution_in_the_add_direction(mechanism: Any) -> None:
    upper = ja.pld(ja.RandomAllocation(ja.pld(mechanism), 1), direction=ADD)
    for epsilon in (2.0, 6.0, 9.0, 9.5, 10.0):
        check_bracket(0.0, gaussian_delta(1, epsilon), upper.delta(epsilon))


# ---- extremes and bad input


@pytest.mark.parametrize(
    "mechanism",
    [
        ja.Gaussian(0.05),
        ja.Gaussian(0.03),
        ja.Gaussian(1000.0),
        ja.PoissonSampled(ja.Gaussian(1.0), 1e-9, 1),
        ja.PoissonSampled(ja.Gaussian(1.0), 1.0, 3),
        ja.RandomAllocation(ja.Gaussian(1.0), 3),
        ja.Composed(ja.Gaussian(300.0), 10**5),
    ],
)
@pytest.mark.parametrize("delta", [0.5, 1e-15])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, below noise_multiplier 0.06
def test_extremes_give_an_interval(mechanism: Any, delta: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ja.PrecisionWarning)
        found = ja.epsilon_interval(mechanism, delta, precision=0.2)
    assert 0 <= found.lower <= found.analysis_lower <= found.upper
    if isinstance(mechanism, ja.Gaussian):
        with mp.workdps(50):
            assert found.lower == 0 or gaussian_delta(mechanism.noise_multiplier, found.lower) >= delta
            assert math.isinf(found.upper) or gaussian_delta(mechanism.noise_multiplier, found.upper) <= delta


def test_compositions_too_long_for_a_transform_are_answered() -> None:
    """2^40 steps: nothing is known of a mass, whose scale underflows far out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ja.PrecisionWarning)
        found = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(0.1), 1.19e-16, 2**40), 1e-280)
    one = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(0.1), 1.19e-16, 1), 1e-280)
    assert 0.0 < one.lower <= found.upper < math.inf


def test_epsilon_zero() -> None:
    found = ja.delta_interval(ja.Gaussian(1.0), 0.0)
    check_bracket(found.lower, gaussian_delta(1, 0), found.upper)


@pytest.mark.slow
@pytest.mark.parametrize("num_steps", [10**4, 10**6])
def test_many_steps(num_steps: int) -> None:
    """t = 10^4: specification, section 6, sigma = 1, epsilon = 0.1, remove; beyond it only order and width."""
    run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps)
    lower, upper = both(run, REMOVE, resolution=24)
    if num_steps == 10**4:
        check_bracket(lower.delta(0.1), 1.08448496707899e-11, upper.delta(0.1), 1e-12)
    epsilon = 4.0 * math.sqrt(math.expm1(1.0) / num_steps)
    assert 0 < lower.delta(epsilon) <= upper.delta(epsilon) <= 1.3 * lower.delta(epsilon)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ja.epsilon_interval(ja.Gaussian(1.0), 0.0), "target_delta=0.0"),
        (lambda: ja.epsilon_interval(ja.Gaussian(1.0), 1.5), "target_delta=1.5"),
        (lambda: ja.epsilon_interval(ja.Gaussian(1.0), 1e-6, precision=0.0), "precision=0.0"),
        (lambda: ja.epsilon_interval(ja.Gaussian(1.0), 1e-6, precision=-1.0), "precision=-1.0"),
        (lambda: ja.epsilon_interval(ja.Gaussian(np.array([1.0, 2.0])), 1e-6), "mechanism=.*must be scalars"),
        (lambda: ja.epsilon_interval(ja.Gaussian(1.0), np.array([1e-6, 1e-5])), "must be scalars"),
        (lambda: ja.epsilon_interval("x", 1e-6), "mechanism='x'"),
        (lambda: ja.delta_interval(ja.Gaussian(1.0), math.nan), "target_epsilon=nan"),
        (lambda: ja.delta_interval(ja.Gaussian(1.0), 1.0, precision=0.0), "precision=0.0"),
        (lambda: ja.pld(ja.PoissonSampled(ja.PoissonSampled(ja.Gaussian(1.0), 0.5, 1), 0.1, 1)), "mechanism="),
        (lambda: ja.pld(ja.Gaussian(1.0), resolution=0.0), "resolution=0.0"),
        (lambda: ja.pld(ja.Gaussian(1.0), tail=-1.0), "tail=-1.0"),
        (lambda: ja.pld(ja.Gaussian(1.0), bound="above"), "bound='above'"),
        (lambda: ja.pld(ja.Gaussian(1.0), bound=ja.Bound.ESTIMATE), "bound=.*ESTIMATE"),
        (lambda: ja.pld(ja.Gaussian(1.0), direction="both"), "direction='both'"),
        (lambda: jax.jit(lambda s: ja.epsilon_interval(ja.Gaussian(s), 1e-6).upper)(1.0), "concrete numbers"),
        (lambda: jax.jit(lambda d: ja.epsilon_interval(ja.Gaussian(1.0), d).upper)(1e-6), "concrete numbers"),
        (lambda: jax.grad(lambda e: ja.delta_interval(ja.Gaussian(1.0), e).upper)(1.0), "concrete numbers"),
    ],
)
def test_bad_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_list_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"noise_multiplier=array.* must be scalars"):
        ja.epsilon_interval(ja.Gaussian([1.0, 2.0]), 1e-6)


def test_unmet_precision_warns_and_stays_certified() -> None:
    with pytest.warns(ja.PrecisionWarning, match="interval is valid"):
        found = ja.epsilon_interval(ja.RandomAllocation(ja.Laplace(1.0), 1), 1e-6, precision=1e-12)
    # delta(epsilon) = 1 - exp((epsilon - 1)/2) (Balle, Barthe & Gaboardi 2018)
    check_bracket(found.lower, 1.0 + 2.0 * math.log1p(-1e-6), found.upper, ORACLE)


def test_progress_sees_every_round() -> None:
    seen: list[tuple[int, float]] = []
    ja.epsilon_interval(
        ja.Composed(ja.Laplace(1.0), 5), 1e-3, precision=0.01, progress=lambda n, w: seen.append((n, w))
    )
    assert [n for n, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][1] <= 0.01


def test_grids_that_begin_far_from_the_loss_near_zero():
    """The rounding of a composed loss is that of its largest term, times a tilt of up to 1e12."""
    pair = ja.DiscretePair([0.5, 0.5], [1e-9, 1 - 1e-9])
    run = ja.Composed(pair, 3)
    outcomes = np.array([[1e-9, 0.5], [1 - 1e-9, 0.5]])  # of (Q, P)
    q, p = (np.einsum("i,j,k->ijk", *[outcomes[:, side]] * 3).ravel() for side in (0, 1))
    truth = np.maximum(q - math.exp(0.5) * p, 0).sum()
    assert truth <= ja.delta(run, 0.5, direction=ADD) <= truth * 1.2
    found = ja.delta_interval(ja.Composed(ja.DiscretePair([0.5, 0.5], [1e-12, 1 - 1e-12]), 20), 0.0)
    assert 0 <= found.lower <= found.upper <= 1


def test_rare_sampling_is_not_free():
    """The scale of its loss, q^2, underflows."""
    assert ja.delta(ja.PoissonSampled(ja.Gaussian(1.0), 1e-163, num_steps=1), 0.0) >= 3.8e-164
    assert ja.delta(ja.PoissonSampled(ja.Laplace(1.0), 1e-163, num_steps=1), 0.0) > 0
    assert ja.delta(ja.PoissonSampled(ja.Gaussian(1.0), 0.0, num_steps=1), 0.0) == 0.0


# ---- the masses at 0 and at infinity, rounded once a step


def on_safe_side(bound: ja.Bound, found: float, truth: Any) -> bool:
    """Without any tolerance: `truth` is a Fraction or has 50 digits."""
    exact = Fraction(found) if isinstance(truth, Fraction) else mp.mpf(found)
    return bool(exact >= truth if bound is UPPER else exact <= truth)


def never_sampled(q2: float, num_steps: int) -> Any:
    with mp.workdps(50):
        return +(mp.mpf(q2) ** num_steps)


@pytest.mark.parametrize(
    ("num_steps", "q2", "epsilon"),
    [
        *((t, q2, math.log(t * (1.0 - q2)) + 2.0) for t in (2, 3, 5) for q2 in (0.4, 0.7, 0.9)),
        (100, 0.9, math.log(10.0) + 2.0),
        (4095, 0.9996283460206571, 1.4199746966692504),
        (10**6, 0.999998845359711, 1.1437888574124953),
        (3 * 10**6, 1.0 - 1.7 / 3e6, math.log(3e6 * (1.7 / 3e6)) + 1.0),
        (10**7, 1.0 - 2.3e-7, math.log(2.3) + 1.0),
    ],
)
def test_mass_at_zero_is_booked(num_steps: int, q2: float, epsilon: float) -> None:
    """P = (1, 0): from epsilon = log(t q1) on the add direction's delta is q2^t, a mass squared at every doubling."""
    run, truth = (
        ja.RandomAllocation(ja.DiscretePair((1.0, 0.0), (1.0 - q2, q2)), num_steps),
        never_sampled(q2, num_steps),
    )
    with mp.workdps(50):
        for bound in (UPPER, LOWER):
            assert on_safe_side(bound, ja.pld(run, direction=ADD, bound=bound).delta(epsilon), truth)
        assert on_safe_side(UPPER, ja.delta(run, epsilon, direction=ADD, method="loss distribution"), truth)
        found = interval_of(run, DELTA, epsilon, 0.1, (ADD,))
        assert found.upper <= 1.1 * found.lower
        assert on_safe_side(LOWER, found.lower, truth)
        assert on_safe_side(UPPER, found.upper, truth)


def test_mass_at_infinity_is_booked() -> None:
    """Q = (0, 1): beyond every finite loss the remove direction's delta is what P holds alone, to the last digit."""
    rng = np.random.default_rng(5)
    for _ in range(25):
        p0, q, weight = (float(x) for x in rng.uniform(size=3))
        t, n = sorted(int(x) for x in rng.integers(2, 400, size=2))[::-1]
        pair = ja.DiscretePair((p0, 1.0 - p0), (0.0, 1.0))
        three = [float(x) for x in rng.uniform(0.0, 0.33, size=3)]
        alone = ja.DiscretePair([*three, 1.0 - sum(three)], (0.0, 0.0, 0.0, 1.0))
        mirrored = ja.DiscretePair((0.0, 0.0, 0.0, 1.0), [*three, 1.0 - sum(three)])
        exact = Fraction(p0)
        found = [
            (ja.PoissonSampled(pair, q, num_steps=1), Fraction(q) * exact, REMOVE),
            (ja.PoissonSampled(pair, q, 3), 1 - (1 - Fraction(q) * exact) ** 3, REMOVE),
            (ja.PartialAllocation(pair, t, n), Fraction(n, t) * exact, REMOVE),
            (ja.RandomAllocation(pair, t), exact, REMOVE),
            (alone, sum(map(Fraction, three)), REMOVE),
            (mirrored, sum(map(Fraction, three)), ADD),
        ]
        for mechanism, truth, direction in found:
            for bound in (UPPER, LOWER):
                assert on_safe_side(bound, ja.pld(mechanism, direction=direction, bound=bound).delta(300.0), truth)
        shares = [weight, 1.0 - weight]
        truth = Fraction(shares[0]) * found[0][1] + Fraction(shares[1]) * found[2][1]
        for bound in (UPPER, LOWER):
            parts = [ja.pld(mechanism, bound=bound) for mechanism, _, _ in (found[0], found[2])]
            assert on_safe_side(bound, ja.mixture(parts, shares).delta(300.0), truth)
    unfinished = ja.PartialAllocation(ja.DiscretePair((0.42242960968888554, 0.5775703903111145), (0.0, 1.0)), 176, 163)
    assert on_safe_side(
        UPPER, ja.delta(unfinished, 60.0, direction=REMOVE), Fraction(163, 176) * Fraction(0.42242960968888554)
    )


def test_mixture_of_masses_at_infinity_is_booked() -> None:
    """Given masses, so that it is the mixture's own rounding that shows."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        alone, weight = [float(x) for x in rng.uniform(size=3)], rng.dirichlet(np.ones(3))
        truth = sum(Fraction(float(w)) * Fraction(x) for w, x in zip(weight, alone, strict=True))
        for bound in (UPPER, LOWER):
            parts = [ja.Pld(0.0, 0.5, np.array([1.0 - x]), x, bound, REMOVE) for x in alone]
            assert on_safe_side(bound, ja.mixture(parts, weight).infinite_mass, truth)
        one, two = (ja.Pld(0.0, 0.5, np.array([1.0 - x]), x, LOWER, REMOVE) for x in (0.3, 0.0))
        exact = Fraction(weight[0]) * Fraction(0.3)
        assert on_safe_side(LOWER, ja.mixture([one, two], [weight[0], 1.0 - weight[0]]).infinite_mass, exact)


@pytest.mark.parametrize("side", [Side.UPPER, Side.LOWER_REMOVE, Side.LOWER_ADD])
def test_sums_and_mixtures_of_laws_are_booked(side: Side) -> None:
    """Masses that add up, are averaged and are moved: each against fractions, or 50 digits."""
    rng, bound = np.random.default_rng(11), UPPER if side is Side.UPPER else LOWER
    for _ in range(40):
        masses, other = rng.uniform(size=(2, 7)) * 10.0 ** rng.uniform(-12.0, 0.0, size=(2, 7))
        zeros, infinites = rng.uniform(size=(2, 2))
        a = RatioLaw(0.1, 0.05, masses, float(zeros[0]), float(infinites[0]), side)
        b = RatioLaw(float(rng.uniform(-3.0, 3.0)), 0.05, other, float(zeros[1]), float(infinites[1]), side)
        x, y = (Fraction(float(value)) for value in infinites)
        both = lattice.merged(a, b)
        assert on_safe_side(bound, both.zero_mass, Fraction(a.zero_mass) + Fraction(b.zero_mass))
        assert on_safe_side(bound, both.infinite_mass, x + y)
        assert on_safe_side(bound, sum(map(Fraction, both.masses)), sum(map(Fraction, [*masses, *other])))
        if side is not Side.LOWER_ADD:  # moved up there
            with mp.workdps(50):
                mean, given = mp.mpf(0), mp.mpf(0)
                for law in (both, a, b):
                    terms = (mp.mpf(m) * mp.exp(v) for m, v in zip(law.masses, law.log_values, strict=True))
                    mean, given = (mp.fsum(terms), given) if law is both else (mean, given + mp.fsum(terms))
                slack = mp.mpf(2) ** -50 * given  # the points' own rounding
                assert mean >= given - slack if side is Side.UPPER else mean <= given + slack
        weighed = sums.sum_of(a, b, weight_a=3, weight_b=7, tail=0.0)
        assert on_safe_side(bound, weighed.infinite_mass, (3 * x + 7 * y) / 10)
        assert on_safe_side(bound, weighed.zero_mass, Fraction(a.zero_mass) * Fraction(b.zero_mass))
        share = float(rng.uniform())
        mixed = lattice.mixed_with_one(a, share, 1.0 - share, 0.05)
        assert on_safe_side(bound, mixed.infinite_mass, Fraction(share) * x)


def test_cut_tails_are_booked() -> None:
    """Of an upper law nothing is lost, under Q or under P: what is cut off comes back at 0 and at infinity."""
    rng = np.random.default_rng(2)
    for _ in range(40):
        masses = rng.uniform(size=60) * np.exp(-0.5 * np.linspace(-6.0, 6.0, 60) ** 2)
        law = RatioLaw(-3.0, 0.1, masses, 0.0, 0.0, Side.UPPER)
        cut = lattice.trimmed(law, 1.0, 1e-2)
        assert cut.masses.shape[0] < 60
        assert cut.zero_mass > 0.0 < cut.infinite_mass
        with mp.workdps(50):
            assert mp.fsum([*cut.masses, cut.zero_mass]) >= mp.fsum(masses)
            before, after = (
                mp.fsum(mp.mpf(m) * mp.exp(v) for m, v in zip(x.masses, x.log_values, strict=True)) for x in (law, cut)
            )
            assert after + cut.infinite_mass >= before * (1 - mp.mpf(2) ** -48)  # the points' own rounding


@pytest.mark.parametrize("done", [10**7 - 1, 10**4 - 1])
def test_values_far_below_one_are_booked(done: int) -> None:
    """After all but one step X is 1/t where no ratio is positive: 1 - n/t would carry an ulp of 1."""
    law = RatioLaw(-40.0, 0.5, np.array([1.0]), 0.5, 0.0, Side.LOWER_REMOVE)
    share, rest = done / (done + 1), 1.0 / (done + 1)
    seen: list[np.ndarray] = []

    def spy(log_values: np.ndarray, *args: Any) -> RatioLaw:
        seen.append(log_values)
        return from_atoms(log_values, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice, "from_atoms", spy)
        lattice.mixed_with_one(law, share, rest, 0.5)
    with mp.workdps(50):
        truth = [mp.log(mp.mpf(rest) + mp.mpf(share) * mp.exp(-40)), mp.log(mp.mpf(rest))]
    assert seen[0] == pytest.approx([float(x) for x in truth], rel=1e-15)


def test_roundings_outward_are_booked() -> None:
    """Of products, sums and single numbers, in both directions, ends of the doubles included."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        x, y, z = (float(v) for v in rng.uniform(size=3))
        for up, bound in ((True, UPPER), (False, LOWER)):
            assert on_safe_side(bound, product_outward(x, y, z, up=up), Fraction(x) * Fraction(y) * Fraction(z))
            assert on_safe_side(
                bound, sum_outward([x, y, -z * 0.1], up=up), Fraction(x) + Fraction(y) - Fraction(z * 0.1)
            )
            assert on_safe_side(bound, outward(x / 3.0, up=up), Fraction(x) / 3)
    assert product_outward(0.0, 0.3, up=True) == 0.0 == sum_outward([], up=True) == outward(0.0, up=True)
    assert product_outward(1.0, 0.3, up=True) == 0.3 == sum_outward([0.3], up=False)
    assert product_outward(1e-200, 1e-200, up=True) > 0.0 == product_outward(1e-200, 1e-200, up=False)


def test_distributions_near_the_largest_loss_are_sharp():
    """20 Laplace releases at a delta that little but the largest loss, of mass 2^-20, decides; in both directions."""
    found = ja.epsilon_interval(ja.Composed(ja.Laplace(3.0), 20), 1e-6)
    assert found.upper - found.lower <= 1e-3 * found.lower
    assert found.lower <= 6.33758 <= found.upper


def test_a_composition_with_too_many_losses_is_refused():
    """The losses spread over all points that there are, 17 times 2^20."""
    masses = np.zeros(2**20)
    masses[[0, -1]] = 0.5
    with pytest.raises(TooFineError, match=r"spreads over 1\.8e\+07 steps"):
        compose_plds([(ja.Pld(0.0, 1e-6, masses, 0.0, UPPER, REMOVE), 17)], tilts=[0.0])


@pytest.mark.parametrize("bound", [UPPER, LOWER])
def test_epsilon_asks_for_few_deltas(bound, monkeypatch):
    """Rounding of either sort is in the equation that is solved, so that what solves it is on the safe side."""
    pld = ja.pld(ja.PoissonSampled(ja.DiscreteGaussian(1.05), 2e-4, 300), bound=bound, resolution=2.0)
    asked = []
    of = ja.Pld.delta
    monkeypatch.setattr(ja.Pld, "delta", lambda self, epsilon: asked.append(epsilon) or of(self, epsilon))
    for delta in (1e-12, 1e-9, 1e-6):
        asked.clear()
        found = pld.epsilon(delta)
        assert len(asked) <= 8
        assert (of(pld, found) <= delta) if bound is UPPER else (of(pld, found) >= delta)
        assert of(pld, found) == pytest.approx(delta, rel=1e-6)


def test_no_tilt_is_steeper_than_the_window_is_made_for():
    """Where rare losses take over between two tilts the steepest was not the last: a lower law had a mass of 1e84."""
    release = ja.MixtureOfGaussians.of_user(0.3, num_records=100, sampling_prob=1e-4)
    part = pld_of_law(bases.law(release, 1.0, 0.25, Side.LOWER_REMOVE, 1e-29), REMOVE)
    assert compose_plds([(part, 100)]).masses.sum() <= 1.0


@pytest.mark.parametrize("local_epsilon", [0.3, 1.5430547397596843, 4.0, 7.7])
@pytest.mark.parametrize("num_reports", [1, 2, 3, 10, 100, 3000])
def test_a_dominated_distribution_of_reports_is_nowhere_above_their_profile(local_epsilon, num_reports):
    """Near the local epsilon too, where the profile ends between two points of the grid."""
    run = ja.Shuffled(ja.LocalRandomizer(local_epsilon), num_reports)
    epsilons = np.concatenate(
        [np.linspace(0.0, local_epsilon, 60), local_epsilon * (1.0 + np.array([1e-9, 1e-3, 0.02]))]
    )
    above = ja.delta(run, epsilons)
    for resolution in (3.0, 10.0, 24.0, 24.7, 80.0):
        below = ja.pld(run, bound="lower", resolution=resolution)
        found = np.array([below.delta(x) for x in epsilons])
        assert np.all(found <= above * (1.0 + 1e-12) + 1e-300), resolution
    assert found[0] >= 0.97 * above[0]


def test_narrow_numbers_are_taken_as_the_doubles_that_they_are():
    """A float32 narrows the doubles that it meets: sums of such masses were below what they bound."""
    loss = ja.pld(ja.Gaussian(1.0))
    for kind in (np.float16, np.float32):
        for delta in (1e-3, 0.01, 0.1):
            assert loss.epsilon(kind(delta)) == loss.epsilon(float(kind(delta)))
    narrow = dataclasses.replace(loss, masses=loss.masses.astype(np.float32), infinite_mass=np.float32(1e-9))
    wide = dataclasses.replace(
        narrow, masses=np.asarray(narrow.masses, np.float64), infinite_mass=float(np.float32(1e-9))
    )
    assert narrow.masses.dtype == np.float64
    assert ja.compose(narrow, 100).delta(1.0) == ja.compose(wide, 100).delta(1.0)
    assert narrow.delta(4.0) == wide.delta(4.0)
    profile = ja.delta(ja.Gaussian(2.0), float(np.float32(0.01)) * np.arange(514))
    assert ja.dominating_pld(np.float32(0.01), profile, profile, "remove").delta(4.0) >= ja.delta(ja.Gaussian(2.0), 4.0)
    listed = ja.Pld(0.0, 0.1, [0.5, 0.5], 0.0, ja.Bound.UPPER, ja.Direction.REMOVE)
    assert listed.delta(0.0) == pytest.approx(0.5 * -math.expm1(-0.1), rel=1e-12)
