"""The published bounds on random allocation: reference values, slips in print, and what must hold between them."""

import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from support.reference import Entry, disagreement, read_folder
from support.reference_allocation import (
    ADD,
    GRID,
    PAIR,
    QUANTITIES,
    REMOVE,
    P,
    Q,
    binomial,
    capped,
    exact_add_profile,
    exact_beta,
    hockey_stick,
    only,
)

import jaxacct as ja
from jaxacct._types import Ends
from jaxacct.bounds.allocation._decomposition import (
    decomposition_delta,
    decomposition_epsilon,
    decomposition_pld,
)
from jaxacct.bounds.allocation._largest_output import largest_output_delta, largest_output_epsilon
from jaxacct.bounds.allocation._overlap import overlap_remove_rdp
from jaxacct.bounds.allocation._posterior_rate import (
    _log_total,
    doob_tail,
    truncated_delta,
    truncated_epsilon,
    untied_tail,
)
from jaxacct.bounds.discrete import types_delta
from jaxacct.bounds.poisson._profile import runs_of
from jaxacct.curves._convolution import compose_plds
from jaxacct.curves._from_profile import dominating_pld, profile_of
from jaxacct.curves._from_profile_below import dominated_pld
from jaxacct.papers.random_allocation._combined import combined_delta, combined_epsilon
from jaxacct.papers.random_allocation._envelope import convex_envelope
from jaxacct.papers.random_allocation._posterior_rate import posterior_rate
from jaxacct.papers.random_allocation._recursive import tied_tail
from jaxacct.papers.random_allocation._truncated_poisson import (
    Width,
    azuma_tail,
    capped_poisson_delta,
    doob_log_tail,
    large_noise_delta,
    truncation_rate,
)
from jaxacct.utility import mean_estimation_variance

cosh_tail = functools.partial(azuma_tail, width=Width.COSH)
TAILS: dict[str, Any] = {
    "cosh": cosh_tail,
    "sinh": azuma_tail,
    "doob": doob_tail,
    "tied": tied_tail,
    "untied": untied_tail,
}


BOUNDS: dict[str, tuple[Callable[..., float], Callable[..., float]]] = {
    **{
        name: (
            functools.partial(truncated_delta, tail_bound=tail),
            functools.partial(truncated_epsilon, tail_bound=tail),
        )
        for name, tail in TAILS.items()
    },
    "decomposition": (decomposition_delta, decomposition_epsilon),
    "combined": (combined_delta, combined_epsilon),
}


ENTRIES = [
    e
    for e in read_folder(Path(__file__).parents[1] / "reference")
    if e.paper == "random-allocation" and (e.system, e.quantity) in QUANTITIES
]


def test_every_quantity_has_an_entry() -> None:
    assert {(e.system, e.quantity) for e in ENTRIES} == set(QUANTITIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.label)
def test_reference(entry: Entry) -> None:
    quantity = QUANTITIES[entry.system, entry.quantity]
    assert disagreement(entry, quantity, quantity.evaluate(entry.args)) is None


# What is wrong in print, beside what is right


def exact_gaussian(sigma: float, num_steps: int, epsilon: float, direction: ja.Direction) -> float:
    """delta of our specification's anchor table (exact, 12 digits)."""
    return {
        (1.0, 100, 0.5, REMOVE): 4.40890803386304e-5,
        (1.0, 100, 0.5, ADD): 5.92528369170911e-7,
        (1.0, 1000, 0.2, REMOVE): 2.03724929707738e-7,
        (1.0, 1000, 0.2, ADD): 2.01024326311673e-9,
        (2.0, 10, 0.5, REMOVE): 1.13084995654202e-4,
        (2.0, 10, 0.5, ADD): 7.17262403162757e-5,
        (1.0, 2, 0.5, REMOVE): 0.149177523135520,
        (1.0, 2, 0.5, ADD): 0.142686965823743,
    }[sigma, num_steps, epsilon, direction]


def gaussian_delta(epsilon: float, sigma: float) -> float:
    upper, lower = (float(mp.ncdf(x / (2 * sigma) - epsilon * sigma)) for x in (1, -1))
    return upper - math.exp(epsilon) * lower


def test_t1_renyi_divergence_needs_the_logarithm() -> None:
    """Theorem 4.8 prints the sum itself where its logarithm is meant: at order 2, t = 1 above the exact 1/sigma^2."""
    inner = math.exp(1.0)  # E_Q W^2
    printed, right = inner, math.log(inner)
    found = float(ja.rdp(ja.RandomAllocation(ja.Gaussian(1.0), 1), [2], direction=REMOVE).values[0])
    assert found == pytest.approx(right, rel=1e-11)
    assert found < printed


@pytest.mark.parametrize("local_epsilon", [0.01, 0.1, 1.0])
def test_t2_the_width_is_twice_the_hyperbolic_sine(local_epsilon: float) -> None:
    width = math.exp(local_epsilon) - math.exp(-local_epsilon)
    rates = {w: truncation_rate(10**6, local_epsilon, 1e-10, w) for w in Width}
    gamma = 0.5 * width * math.sqrt(2e-6 * math.log(1e10))
    assert rates[Width.SINH] == pytest.approx(1e-6 / (1.0 - gamma), rel=1e-12)
    assert 1e-6 < rates[Width.SINH] < rates[Width.COSH]
    # Corollary 4.5 uses c(eps0) <= 3 eps0 / 2: true of sinh up to 1, never of cosh
    assert math.sinh(local_epsilon) <= 1.5 * local_epsilon
    assert math.cosh(local_epsilon) > 1.5 * local_epsilon or local_epsilon > 0.9


def test_t3_sign_of_log_z() -> None:
    """Theorem 4.9 prints eps - t log Z: with the true Z of the Gaussian, below the exact divergence."""
    sigma, t, epsilon = 1.0, 2, 0.5
    t_log_z = -(1.0 - 1.0 / t) / (2.0 * sigma**2)
    printed = gaussian_delta(epsilon - t_log_z, sigma * math.sqrt(t))
    right = ja.delta(ja.RandomAllocation(ja.Gaussian(sigma), t), epsilon, method="geometric mean", direction=ADD)
    assert printed == pytest.approx(0.0732, abs=1e-4)
    assert right == pytest.approx(gaussian_delta(epsilon + t_log_z, sigma * math.sqrt(t)), rel=1e-9)
    assert printed < exact_gaussian(sigma, t, epsilon, ADD) < right


@pytest.mark.parametrize("eta", [Fraction(3, 10), Fraction(3, 8), Fraction(1, 2)])
def test_t4_no_factor_of_two(eta: Fraction) -> None:
    """Theorem 4.2 as stated holds for the exact tail, in both directions."""
    t = 6
    for direction in ja.Direction:
        tail = tied_tail(PAIR, direction, add_profile=exact_add_profile)
        assert math.exp(tail(t, float(eta), 0.0)) >= exact_beta(t, eta, direction)
        untied = untied_tail(PAIR, direction, add_profile=exact_add_profile)
        assert exact_beta(t, eta, direction) <= math.exp(untied(t, float(eta), 0.0))
        assert untied(t, float(eta), 0.0) <= tail(t, float(eta), 0.0) + 1e-12


@pytest.mark.parametrize("name", [*TAILS, "decomposition", "combined"])
def test_bounds_on_a_finite_alphabet(name: str) -> None:
    delta, invert = BOUNDS[name]
    run = ja.RandomAllocation(PAIR, 6)
    for direction in ja.Direction:
        for kappa in (Fraction(11, 10), Fraction(2)):
            exact = hockey_stick(6, only(6, 1), kappa, direction)
            assert exact <= delta(run, math.log(kappa), direction) <= 1.0
        found = invert(run, 0.2, direction)
        if math.isfinite(found):
            assert hockey_stick(6, only(6, 1), Fraction(math.exp(found)), direction) <= Fraction(2, 10)


def test_p1_either_direction_may_be_the_larger() -> None:
    """Remove dominates for the Gaussian, add for this pair."""
    deltas = {d: hockey_stick(6, only(6, 1), Fraction(2), d) for d in ja.Direction}
    assert float(deltas[REMOVE]) == pytest.approx(3.2e-4, rel=0.02)
    assert float(deltas[ADD]) == pytest.approx(3.1e-3, rel=0.02)
    run = ja.RandomAllocation(PAIR, 6)
    for direction, exact in deltas.items():
        assert exact <= decomposition_delta(run, math.log(2.0), direction) <= 1.5 * exact


def test_p5_the_shift_grows_with_the_copies() -> None:
    sigma, n, m, epsilon = 1.0, 100, 50, 2.0
    one_shift = gaussian_delta(epsilon - (1.0 - 1.0 / n) / (2.0 * sigma**2), sigma * math.sqrt(n / m))
    run = ja.RandomAllocation(ja.Gaussian(sigma), n, num_epochs=m)
    assert one_shift == pytest.approx(0.00853, abs=1e-5)
    assert one_shift < 1.11219699606e-2  # exact, from our specification
    assert ja.delta(run, epsilon, method="geometric mean", direction=ADD) > 1.11219699606e-2


def test_p6_the_circulating_add_divergence_is_below_the_exact_one() -> None:
    sigma, t, k, a = 1.0, 100, 1, 3.0
    x = k * (t - k) / (sigma * t) ** 2
    circulating = (
        a * k**2 / (2 * sigma**2 * t)
        + a * k * (t - k) / (2 * sigma**2 * t * (a - 1))
        - t / (2 * (a - 1)) * math.log1p(a * math.expm1(x))
    )
    run = ja.RandomAllocation(ja.Gaussian(sigma), t)
    exact = 0.0247933531222794
    assert circulating == pytest.approx(0.02223, abs=1e-5)
    assert circulating < exact <= float(ja.rdp(run, [a], direction=ADD).values[0])


# Posterior sampling and its tails


@pytest.mark.parametrize("num_selected", [1, 2, 3])
def test_posterior_rate_by_enumeration(num_selected: int) -> None:
    t, seen = 5, (2, 0, 1)
    sets = list(itertools.combinations(range(t), num_selected))
    weight = {s: math.prod((P[seen[i]] / Q[seen[i]] for i in s if i < len(seen)), start=Fraction(1)) for s in sets}
    exact = sum(w for s, w in weight.items() if len(seen) in s) / sum(weight.values())
    ratios = [math.log(P[y] / Q[y]) for y in seen]
    assert posterior_rate(t, ratios, num_selected=num_selected) == pytest.approx(float(exact), rel=1e-13)


def test_posterior_rate_limits() -> None:
    assert posterior_rate(7, [], num_selected=3) == pytest.approx(3 / 7)
    assert posterior_rate(5, [-math.inf] * 4) == 1.0
    assert posterior_rate(5, [800.0]) == 0.0
    rates = [posterior_rate(20, [0.3] * i) for i in range(19)]
    assert all(1.0 / (20 - i + i * math.exp(0.3)) - 1e-15 <= r <= 1.0 / (20 - i) for i, r in enumerate(rates))
    with pytest.raises(ValueError, match="log_ratios has"):
        posterior_rate(3, [0.0, 0.0, 0.0])


@pytest.mark.parametrize("eta", [Fraction(1, 5), Fraction(1, 4), Fraction(3, 8), Fraction(3, 5)])
def test_tails_cover_the_exact_probability(eta: Fraction) -> None:
    t = 6
    add, remove = (exact_beta(t, eta, d) for d in (ADD, REMOVE))
    assert remove <= add / (t * eta) <= add
    assert math.log(add) <= doob_log_tail(PAIR, t, float(eta)) if add else True
    for direction, beta in ((ADD, add), (REMOVE, remove)):
        for name in ("doob", "sinh", "cosh"):
            assert beta <= math.exp(TAILS[name](PAIR, direction)(t, float(eta), 0.0))
        for kappa in (Fraction(1), Fraction(3, 2), Fraction(5, 2)):  # Lemma 4.3, exactly
            exact = hockey_stick(t, only(t, 1), kappa, direction)
            assert exact <= hockey_stick(t, binomial(t, eta), kappa, direction) + beta


@pytest.mark.parametrize("sigma", [0.6, 2.0])
def test_doob_moment_against_quadrature(sigma: float) -> None:
    """The infimum over theta at 30 digits."""
    t, rate = 1000, 1.5e-3

    def moment(theta: mp.mpf) -> mp.mpf:
        return mp.quad(
            lambda z: mp.npdf(z) * mp.exp(theta * (1 - mp.exp(z / sigma - 0.5 / sigma**2))), mp.linspace(-12, 12, 9)
        )

    def exponent(x: float) -> float:
        theta = mp.exp(x)
        return float(-theta * (t - 1 / mp.mpf(rate)) + (t - 1) * mp.log(moment(theta)))

    best = minimize_scalar(exponent, bounds=(math.log(1e-4), math.log(50.0)), method="bounded").fun
    found = doob_log_tail(ja.Gaussian(sigma), t, rate)
    assert best * (1.0 + 1e-6) <= found <= best + 1e-6 * abs(best)


def test_doob_is_nothing_at_the_least_rate() -> None:
    assert doob_log_tail(ja.Gaussian(1.0), 100, 0.01) == 0.0
    assert doob_log_tail(ja.Gaussian(1.0), 100, 0.005) == 0.0


def test_truncation_rate_regime() -> None:
    assert truncation_rate(100, 5.0, 1e-10, Width.SINH) == 1.0
    for eps0, tail in itertools.product((0.01, 0.3, 1.0), (1e-3, 1e-12)):
        rates = [truncation_rate(10**4, eps0, tail, w) for w in (Width.SINH, Width.COSH)]
        assert 1e-4 <= rates[0] <= rates[1] <= 1.0


# Against certified lower ends


@functools.cache
def exact_below(sigma: float, steps: int, selected: int, epochs: int, direction: ja.Direction) -> ja.Pld:
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps, selected, epochs)
    single = run if selected in (1, steps) else ja.RandomAllocation(ja.Gaussian(sigma), steps, 1, epochs)
    return ja.pld(single, direction=direction, bound=ja.Bound.LOWER, resolution=12.0)


@pytest.mark.sample(1)
@pytest.mark.parametrize("direction", list(ja.Direction), ids=lambda d: d.value)
@pytest.mark.parametrize(
    ("sigma", "steps", "selected", "epochs", "epsilon"), [(2.0, 60, 1, 1, 0.4), (3.0, 50, 3, 2, 0.8)]
)
def test_bounds_are_above_the_truth(
    sigma: float, steps: int, selected: int, epochs: int, epsilon: float, direction: ja.Direction
) -> None:
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps, selected, epochs)
    below = exact_below(sigma, steps, selected, epochs, direction)
    for name, (delta, invert) in BOUNDS.items():
        value, back = delta(run, epsilon, direction), invert(run, 1e-5, direction)
        assert below.delta(epsilon) <= value <= 1.0, name
        assert back >= below.epsilon(1e-5), name
        if math.isfinite(back) and back > 0:
            # each way splits delta as it likes
            assert delta(run, back, direction) <= 2e-5, name
    assert largest_output_delta(run, epsilon, direction) <= BOUNDS["doob"][0](run, epsilon, direction)


@pytest.mark.parametrize(("sigma", "steps", "epsilon"), [(1.0, 100, 0.5), (2.0, 10, 0.5), (1.0, 2, 0.5)])
@pytest.mark.parametrize("direction", list(ja.Direction), ids=lambda d: d.value)
def test_decomposition_tends_to_the_exact_value(
    sigma: float, steps: int, epsilon: float, direction: ja.Direction
) -> None:
    """RA-X5: increasing in the rate, near the exact value as it falls."""
    run, exact = ja.RandomAllocation(ja.Gaussian(sigma), steps), exact_gaussian(sigma, steps, epsilon, direction)
    values = [decomposition_delta(run, epsilon, direction, sampling_prob=x / steps) for x in (0.02, 1.0)]
    assert exact <= values[0] <= 1.25 * exact
    assert values[0] < values[1]


@pytest.mark.parametrize("direction", list(ja.Direction))
def test_decomposition_of_one_step_that_every_record_joins(direction: ja.Direction) -> None:
    """At rate 1 it is the release itself, also where 1 - e^-epsilon is 1."""
    run = ja.RandomAllocation(ja.Laplace(0.02), num_steps=1)
    for epsilon in (1.0, 30.0, 34.0, 36.0, 40.0, 49.0):
        truth = -math.expm1(0.5 * (epsilon - 50.0))
        assert truth <= decomposition_delta(run, epsilon, direction, sampling_prob=1.0) * (1.0 + 1e-12) <= truth * 1.05


def test_decomposition_in_rational_arithmetic() -> None:
    """Theorem 4.6 itself, exactly: above the truth, and falling with the rate."""
    t = 5
    for kappa, direction in itertools.product((Fraction(11, 10), Fraction(3, 2), Fraction(2)), ja.Direction):
        bounds = []
        for rate in (Fraction(1, 500), Fraction(1, 50), Fraction(1, 5), Fraction(1, 2)):
            gamma = 1 / (1 - (1 - rate) ** t)
            if direction is REMOVE:
                inner, factor = 1 + (kappa - 1) / gamma, gamma
            else:
                inner, factor = 1 / (1 - (1 - 1 / kappa) / gamma), 1 + kappa * (gamma - 1)
            bounds.append(factor * hockey_stick(t, binomial(t, rate), inner, direction))
        exact = hockey_stick(t, only(t, 1), kappa, direction)
        assert exact <= bounds[0] <= bounds[1] <= bounds[2] <= bounds[3]
        assert bounds[0] <= Fraction(11, 10) * exact


@pytest.mark.parametrize("direction", list(ja.Direction), ids=lambda d: d.value)
def test_capped_poisson_is_below_poisson(direction: ja.Direction) -> None:
    t, rate, kappa = 5, Fraction(3, 10), Fraction(3, 2)
    values = [hockey_stick(t, capped(t, rate, cap), kappa, direction) for cap in range(1, t + 1)]
    assert values == sorted(values)
    assert values[-1] == hockey_stick(t, binomial(t, rate), kappa, direction)
    run = ja.PoissonSampled(PAIR, float(rate), t)
    for cap, value in enumerate(values, start=1):
        bound = capped_poisson_delta(run, math.log(1.5), direction, max_participations=cap)
        assert value <= bound <= float(values[-1]) * (1 + GRID)


def test_large_noise_corollary() -> None:
    run = ja.RandomAllocation(ja.Gaussian(60.0), 1000, num_selected=2)
    for direction in ja.Direction:
        bound = large_noise_delta(run, 1e-3, direction)
        # Corollary 4.5 is RA-X6 at eta = 2k/t with a coarser tail
        assert truncated_delta(run, 1e-3, direction, tail_bound=doob_tail) <= bound < 1e-3
        assert large_noise_delta(ja.RandomAllocation(ja.Gaussian(5.0), 1000), 0.02, direction) == 1.0
        assert large_noise_delta(ja.RandomAllocation(ja.Gaussian(60.0), 1001, 2), 0.02, direction) == 1.0


def test_large_noise_corollary_pays_for_its_tail() -> None:
    """Where Poisson sampling loses nothing: 2 k t e^(-sigma^2/64) for every epoch."""
    run = ja.RandomAllocation(ja.Gaussian(40.0), 1000, num_selected=2, num_epochs=3)
    least = 2.0 * 3 * 2 * 500 * math.exp(-(40.0**2) / 64.0)
    for direction in ja.Direction:
        assert least <= large_noise_delta(run, 30.0, direction) <= 3.0 * least


def test_tails_of_several_runs_add_up() -> None:
    run = ja.RandomAllocation(ja.Gaussian(1.0), 100, num_epochs=7)
    runs = runs_of(run)
    for direction in ja.Direction:
        tail = doob_tail(run.mechanism, direction)
        (one,) = (tail(r.num_steps, 2.0 / r.num_steps, 1.0) for r in runs)
        assert _log_total(tail, runs, 2.0, 1.0) == pytest.approx(one + math.log(7.0), rel=1e-14)


def test_sharper_tails_are_sharper() -> None:
    run = ja.RandomAllocation(ja.Gaussian(15.0), 2000)
    for direction in ja.Direction:
        cosh, sinh, doob = (
            truncated_epsilon(run, 1e-6, direction, tail_bound=TAILS[name]) for name in ("cosh", "sinh", "doob")
        )
        assert doob <= sinh <= cosh < math.inf


@pytest.mark.parametrize("name", ["doob", "untied", "decomposition"])
def test_monotone(name: str) -> None:
    """delta falls with epsilon, noise and steps, and grows with uses and epochs."""
    delta = BOUNDS[name][0]

    def at(sigma: float = 2.0, t: int = 50, k: int = 1, epochs: int = 1, epsilon: float = 0.5) -> float:
        return delta(ja.RandomAllocation(ja.Gaussian(sigma), t, k, epochs), epsilon, REMOVE)

    base = at()
    assert at(epsilon=0.7) < base < at(epsilon=0.3)
    assert at(sigma=2.5) < base < at(sigma=1.6)
    assert at(t=75) < base < at(t=25)
    assert base < at(k=2)
    assert base < at(epochs=2)
    # groups of floor and ceil are never worse than groups of floor alone
    assert at(t=53, k=3) <= at(t=51, k=3) * 1.001


# Profiles, and loss distributions made of them


def random_pld(seed: int, size: int, step: float) -> ja.Pld:
    masses = np.random.default_rng(seed).exponential(size=size) ** 6
    masses *= 0.99 / masses.sum()
    return ja.Pld(-0.3 * size * step, step, masses, 0.01, ja.Bound.UPPER, REMOVE)


@pytest.mark.parametrize(("size", "step"), [(50, 0.05), (400, 1.5), (2000, 1e-5), (1, 0.1)])
def test_profile_of_a_distribution(size: int, step: float) -> None:
    pld = random_pld(0, size, step)
    ends = pld.offset - 2 * step, pld.offset + step * (size + 2)
    epsilons = np.random.default_rng(1).uniform(*ends, size=60)
    found = profile_of(pld)(epsilons)
    with mp.workdps(60):
        for epsilon, value in zip(epsilons, found, strict=True):
            terms = [
                mp.mpf(float(m)) * (1 - mp.exp(mp.mpf(float(epsilon)) - mp.mpf(float(x))))
                for m, x in zip(pld.masses, pld.losses, strict=True)
                if x > epsilon
            ]
            exact = min(mp.mpf(1), mp.fsum(terms) + mp.mpf(pld.infinite_mass))
            assert exact <= value <= exact * (1 + mp.mpf(1e-8)) + 1e-12


def pair_delta(kappa: Fraction, direction: ja.Direction, times: int = 1) -> Fraction:
    """Of `times` uses of the three-point pair: t-out-of-t."""
    return hockey_stick(times, only(times, times), kappa, direction)


@pytest.mark.parametrize("direction", list(ja.Direction), ids=lambda d: d.value)
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_dominating_distribution(direction: ja.Direction, noise: float) -> None:
    """From upper bounds, however crude, a distribution above the true profile at every epsilon, and so composed."""
    step, rng = 0.1, np.random.default_rng(3)
    curves = {}
    for d in ja.Direction:
        kappas = [Fraction(math.exp(step * j)) for j in range(13)]
        exact = np.asarray([float(pair_delta(k, d)) for k in kappas])
        curves[d] = np.minimum(1.0, exact * (1.0 + 1e-14) + noise * rng.uniform(size=exact.shape) * exact + 1e-9)
    pld = dominating_pld(step, curves[REMOVE], curves[ADD], direction)
    for epsilon in np.linspace(-1.5, 1.5, 41):
        exact_here = pair_delta(Fraction(math.exp(epsilon)), direction)
        assert pld.delta(float(epsilon)) >= exact_here
        if noise == 0.0 and epsilon >= 0:
            assert pld.delta(float(epsilon)) <= float(exact_here) + 0.003
    composed = compose_plds([(pld, 3)])
    for epsilon in np.linspace(0.0, 2.5, 11):
        assert composed.delta(float(epsilon)) >= pair_delta(Fraction(math.exp(epsilon)), direction, 3)


def exact_profile(pld: ja.Pld, epsilon: float) -> Any:
    """Of the masses and losses as they are."""
    point = mp.mpf(float(epsilon))
    terms = (
        mp.mpf(float(m)) * -mp.expm1(point - mp.mpf(float(x)))
        for m, x in zip(pld.masses, pld.losses, strict=True)
        if x > epsilon
    )
    return mp.fsum(terms) + mp.mpf(pld.infinite_mass)


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_every_rounding_of_a_distribution_made_of_a_profile(sigma: float) -> None:
    """At the grid points of a convex curve, to the last digit: not below it, or not above."""
    step, size = 0.125, 60
    curve = np.asarray([gaussian_delta(step * j, sigma) for j in range(size)])
    ends = Ends(curve, curve)
    above, below = dominating_pld(step, curve, curve, REMOVE), dominated_pld(step, ends, ends, REMOVE)
    with mp.workdps(50):
        for j in range(size):
            assert exact_profile(above, step * j) >= curve[j], j
            assert exact_profile(below, step * j) <= curve[j], j
        mirrored = [1 - mp.exp(-step * j) + mp.exp(-step * j) * mp.mpf(curve[j]) for j in range(1, size)]
        for j, value in enumerate(mirrored, 1):
            assert exact_profile(above, -step * j) >= value, -j
            assert exact_profile(below, -step * j) <= value, -j


def test_dominating_distribution_of_the_gaussian() -> None:
    """RA-X9 near the closed form, alone and composed."""
    sigma, step, copies = 2.0, 0.02, 16
    curve = np.asarray([gaussian_delta(step * j, sigma) for j in range(250)])
    curve = np.maximum(curve * (1 + 1e-12) + 1e-16, 1e-18)
    pld = dominating_pld(step, curve, curve, REMOVE)
    many = compose_plds([(pld, copies)])
    for epsilon in (0.0, 0.5, 1.0):
        assert gaussian_delta(epsilon, sigma) <= pld.delta(epsilon) <= 1.01 * gaussian_delta(epsilon, sigma) + 1e-12
    for epsilon in (0.5, 2.0, 6.0):
        exact = gaussian_delta(epsilon, sigma / math.sqrt(copies))
        assert exact <= many.delta(epsilon) <= 1.01 * exact


@pytest.mark.parametrize(
    ("direction", "exact"), [(REMOVE, 2.00149278172732e-3), (ADD, 1.35470449085824e-3)], ids=["remove", "add"]
)
def test_decomposition_composed(direction: ja.Direction, exact: float) -> None:
    run = ja.RandomAllocation(ja.Gaussian(1.0), 100, num_epochs=10)
    assert exact <= decomposition_pld(run, direction).delta(1.0) <= 1.12 * exact


def test_convex_envelope() -> None:
    epsilons = np.linspace(0.0, 4.0, 81)
    exact = np.asarray([gaussian_delta(float(e), 1.0) for e in epsilons])
    bounds = exact * (1.0 + np.random.default_rng(5).uniform(size=exact.shape))
    hull = convex_envelope(epsilons, bounds)
    assert np.all(hull <= bounds)
    assert np.all(hull >= exact)
    assert hull[0] == bounds[0]
    slopes = np.diff(hull) / np.diff(np.exp(epsilons))
    assert np.all(np.diff(slopes) >= -1e-12)
    assert np.array_equal(convex_envelope(epsilons, exact), exact)
    assert np.allclose(convex_envelope([1.0], [0.5]), [0.5])
    with pytest.raises(ValueError, match="increase"):
        convex_envelope([1.0, 0.5], [0.1, 0.2])


# Lower bound, Renyi bound, utility


@pytest.mark.parametrize(
    ("sigma", "steps", "epsilon", "share"), [(0.5, 10**4, 3.0, 0.999), (0.75, 10**4, 0.5, 0.98), (1.0, 100, 0.5, 0.4)]
)
def test_lower_bound_is_near_where_one_output_tells(sigma: float, steps: int, epsilon: float, share: float) -> None:
    exact = {0.5: 5.11573e-8, 0.75: 2.95102907675897e-10, 1.0: 4.40890803386304e-5}[sigma]
    found = largest_output_delta(ja.RandomAllocation(ja.Gaussian(sigma), steps), epsilon, REMOVE)
    assert share * exact <= found <= exact * (1 + 1e-6)


@pytest.mark.parametrize("direction", list(ja.Direction), ids=lambda d: d.value)
def test_lower_bound_against_mpmath(direction: ja.Direction) -> None:
    """Never above the best threshold, for several steps and epochs."""
    sigma, t, k, epochs, epsilon = 0.8, 30, 2, 3, 1.0
    run = ja.RandomAllocation(ja.Gaussian(sigma), t, k, epochs)

    def gain(c: float) -> mp.mpf:
        q = mp.ncdf(c / sigma) ** (t * epochs)
        p = mp.ncdf((c - 1) / sigma) ** (k * epochs) * mp.ncdf(c / sigma) ** ((t - k) * epochs)
        kappa = mp.exp(epsilon)
        return (1 - p) - kappa * (1 - q) if direction is REMOVE else q - kappa * p

    with mp.workdps(40):
        rough = max(np.linspace(0.0, 5.0, 101), key=gain)
        best = max(gain(c) for c in np.linspace(rough - 0.05, rough + 0.05, 401))
    found = largest_output_delta(run, epsilon, direction)
    assert best * (1 - 1e-4) <= found <= best * (1 + 1e-4)
    upper = ja.pld(run, direction=direction, resolution=8.0)
    assert found <= upper.delta(epsilon)
    # an inverse that stays below
    low = largest_output_epsilon(run, 0.01, direction)
    assert low <= upper.epsilon(0.01)
    assert largest_output_delta(run, max(0.0, low), direction) >= 0.01 * (1 - 1e-9) or low == 0.0


def test_lower_bound_of_other_releases_is_nothing() -> None:
    assert largest_output_delta(ja.RandomAllocation(PAIR, 5), 0.1, REMOVE) == 0.0
    assert largest_output_epsilon(ja.RandomAllocation(PAIR, 5), 0.1, REMOVE) == 0.0


def test_largest_output_where_the_probability_with_the_record_is_no_double() -> None:
    """No output of 1072 is large: e^-693 without the record, e^-745 with it, which e^epsilon makes e^-684."""
    run, epsilon = ja.RandomAllocation(ja.Gaussian(0.1), 1072), 61.67981060527631
    assert largest_output_delta(run, epsilon, ADD) == 0.0
    assert ja.delta(run, epsilon, method="geometric mean", direction=ADD) < 1e-307


@pytest.mark.parametrize(("steps", "selected"), [(1, 1), (100, 7), (60, 45), (64, 64), (1000, 300)])
def test_overlap_divergence_against_mpmath(steps: int, selected: int) -> None:
    sigma, orders = 0.9, [2.0, 2.5, 7.0, 300.0]
    found = overlap_remove_rdp(ja.RandomAllocation(ja.Gaussian(sigma), steps, selected, 3), orders=orders)
    with mp.workdps(40):
        for order, value in zip(orders, found, strict=True):
            x = mp.mpf(order) / (2 * mp.mpf(sigma) ** 2)
            moment = mp.fsum(
                mp.binomial(selected, j) * mp.binomial(steps - selected, selected - j) * mp.exp(j * x)
                for j in range(selected + 1)
            ) / mp.binomial(steps, selected)
            exact = 3 * mp.log(moment)
            assert exact * (1 - mp.mpf(1e-15)) <= value <= exact * (1 + mp.mpf(1e-10))


def _overlap_moment(steps, selected, x):
    """E e^{x J}, to 40 digits."""
    term = mp.binomial(steps - selected, selected) / mp.binomial(steps, selected)  # j = 0
    total = mp.mpf(0)
    for j in range(selected + 1):
        total += term
        term *= mp.exp(x) * mp.mpf(selected - j) ** 2 / ((j + 1) * (steps - 2 * selected + j + 1))
    return total


@pytest.mark.parametrize(
    ("steps", "selected", "sigma", "orders"),
    [
        (10**5, 500, 0.1, [2.0, 60.0]),  # the largest terms have weights of e^-3000
        (10403, 493, 2.031, [8.0, 60.0]),
        (10**6, 4000, 20.0, [2.0, 2.5, 100.0]),  # one peak among many terms
        (10**12, 3000, 3.0, [2.0, 9.0]),  # mostly no overlap
    ],
)
def test_overlap_divergence_where_weights_or_terms_are_no_doubles(steps, selected, sigma, orders) -> None:
    found = overlap_remove_rdp(ja.RandomAllocation(ja.Gaussian(sigma), steps, selected), orders=orders)
    with mp.workdps(40):
        for order, value in zip(orders, found, strict=True):
            exact = mp.log(_overlap_moment(steps, selected, mp.mpf(order) / (2 * mp.mpf(sigma) ** 2)))
            assert exact * (1 - mp.mpf(1e-15)) <= value <= exact * (1 + mp.mpf(1e-9))


def test_overlap_divergences_beyond_the_doubles_are_infinite() -> None:
    run = ja.RandomAllocation(ja.Gaussian(1.1e-150), 2**24, 10**6)
    assert math.isinf(overlap_remove_rdp(run, orders=[900.0])[0])


def test_rare_overlaps_count_in_epsilon() -> None:
    """0.2 gave 7,500 in this direction: overlaps of probabilities below 1e-308 were left out."""
    run = ja.RandomAllocation(ja.Gaussian(0.205), 262208, 2169)
    found = ja.epsilon(run, 1e-33, method="overlap", direction=REMOVE)
    assert ja.delta(run, 7500.0, direction=REMOVE) == 1.0
    assert found > 16000.0


def test_overlap_divergence_is_above_the_exact_one() -> None:
    run = ja.RandomAllocation(ja.Gaussian(1.0), 100)
    orders = [2, 3, 8, 32]
    exact = ja.rdp(run, orders, direction=REMOVE).values
    found = overlap_remove_rdp(run, orders=orders)
    assert np.all(found >= exact * (1.0 - 1e-11))
    assert found[0] == pytest.approx(exact[0], rel=1e-10)
    assert math.isinf(overlap_remove_rdp(run, orders=[1.9])[0])
    assert math.isinf(overlap_remove_rdp(ja.RandomAllocation(PAIR, 5), orders=[2.0])[0])
    tiny = overlap_remove_rdp(ja.RandomAllocation(ja.Gaussian(100.0), 10**9), orders=[2.0])[0]
    assert tiny == pytest.approx(math.log1p(math.expm1(1e-4) / 1e9), rel=1e-12)


def test_allocation_is_never_worse_at_equal_noise() -> None:
    noise, n, t, p = ja.Gaussian(2.0), 1000, 50, 0.7
    allocation, poisson = (
        mean_estimation_variance(run, num_records=n, success_prob=p)
        for run in (ja.RandomAllocation(noise, t), ja.PoissonSampled(noise, 1 / t, t))
    )
    assert poisson - allocation == pytest.approx(p * (1 - 1 / t) / n, rel=1e-12)
    same = [
        mean_estimation_variance(run, num_records=n, success_prob=p)
        for run in (ja.RandomAllocation(noise, 1), ja.PoissonSampled(noise, 1.0, 1))
    ]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    "run",
    [
        ja.RandomAllocation(ja.Gaussian(1.5), 12, 3, 2),
        ja.PoissonSampled(ja.Gaussian(1.5), 0.2, 12),
    ],
    ids=["allocation", "poisson"],
)
def test_variance_by_simulation(run: Any) -> None:
    rng, n, p, draws = np.random.default_rng(0), 20, 0.6, 8000
    bits = rng.uniform(size=(draws, n)) < p
    if isinstance(run, ja.RandomAllocation):
        uses = np.full((draws, n), run.num_selected * run.num_epochs)
        expected, steps = run.num_selected * run.num_epochs, run.num_steps * run.num_epochs
    else:
        uses = rng.binomial(run.num_steps, run.sampling_prob, size=(draws, n))
        expected, steps = run.sampling_prob * run.num_steps, run.num_steps
    noise = run.mechanism.noise_multiplier * math.sqrt(steps) * rng.standard_normal(draws)
    errors = ((bits * uses).sum(axis=1) + noise) / (n * expected) - p
    assert np.mean(errors**2) == pytest.approx(
        mean_estimation_variance(run, num_records=n, success_prob=p), rel=3 * math.sqrt(2 / draws)
    )


def test_variance_broadcasts() -> None:
    run = ja.RandomAllocation(ja.Gaussian(np.asarray([1.0, 2.0])), 10)
    assert mean_estimation_variance(run, num_records=100, success_prob=0.5).shape == (2,)
    with pytest.raises(ValueError, match="Gaussian"):
        mean_estimation_variance(ja.RandomAllocation(PAIR, 5), num_records=10, success_prob=0.5)
    with pytest.raises(ValueError, match="success_prob"):
        mean_estimation_variance(run, num_records=100, success_prob=1.5)


@pytest.mark.parametrize(
    "run",
    [
        ja.TruncatedPoisson(ja.Gaussian(1.0), 0.5, num_records=1000, max_batch_size=2, num_steps=10),
        ja.FixedBatches(ja.Gaussian(1.0), num_records=100, batch_size=5, num_steps=10),
        ja.ShuffledBatches(ja.Gaussian(1.0), 10),
        ja.ParallelPoisson(ja.Gaussian(1.0), 0.1, num_workers=2, num_steps=10),
    ],
    ids=lambda run: type(run).__name__,
)
def test_variance_is_that_of_two_kinds_of_runs(run: Any) -> None:
    with pytest.raises(ValueError, match="must be RandomAllocation or PoissonSampled of Gaussian noise"):
        mean_estimation_variance(run, num_records=1000, success_prob=0.5)


# Fail closed


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [*TAILS, "decomposition"])
def test_nothing_to_say_is_said(name: str) -> None:
    """Noise too small for any amplification by these theorems: still an upper bound, never NaN."""
    delta, invert = BOUNDS[name]
    run = ja.RandomAllocation(ja.Gaussian(0.1), 20)
    for direction in ja.Direction:
        value, back = delta(run, 1.0, direction), invert(run, 1e-8, direction)
        assert exact_below(0.1, 20, 1, 1, direction).delta(1.0) <= value <= 1.0
        assert back >= exact_below(0.1, 20, 1, 1, direction).epsilon(1e-8)


@pytest.mark.parametrize(("noise", "steps", "delta"), [(0.5, 14, 1e-4), (0.8, 300, 1e-6), (1.5, 2000, 1e-9)])
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_epsilon_and_delta_of_the_decomposition_invert_each_other(noise, steps, delta, direction) -> None:
    """The factor of the add direction rises with epsilon: taken at a smaller one it would be too small."""
    run = ja.RandomAllocation(ja.Gaussian(noise), steps)
    found = decomposition_epsilon(run, delta, direction)
    assert 0.98 * delta <= decomposition_delta(run, found, direction) <= delta * (1.0 + 1e-3)


@pytest.mark.sample(1)
@pytest.mark.parametrize("method", ["decomposition", "truncated Poisson", "recursive"])
@pytest.mark.parametrize("delta", [1e-300, 1e-318, 5e-324])
def test_deltas_at_the_end_of_the_doubles_are_answered(method, delta) -> None:
    run = ja.RandomAllocation(ja.Gaussian(1.0), 100)
    for direction in ja.Direction:
        exact = ja.epsilon(run, max(delta, 1e-300), direction=direction)
        assert ja.epsilon(run, delta, method=method, direction=direction) >= exact  # 32.9 and more


def test_more_steps_than_a_grid_resolves() -> None:
    run = ja.RandomAllocation(ja.Laplace(1.0), 10**9)
    assert truncated_delta(run, 0.1, REMOVE, tail_bound=doob_tail) == 1.0
    # rounds of Poisson sampling tend to a Gaussian one, with sqrt(t) q times the deviation of the ratio
    limit = ja.epsilon(ja.Gaussian(1e9**0.5 / math.sqrt((2.0 * math.e + math.exp(-2.0)) / 3.0 - 1.0)), 1e-6)
    assert 0.998 * limit <= decomposition_epsilon(run, 1e-6, ADD) < 1.03 * limit  # no grid of losses either
    of_gaussians = ja.RandomAllocation(ja.Gaussian(1.0), 10**9)
    known = ja.epsilon(of_gaussians, 1e-6, direction=ADD)  # within 0.1 %
    assert 0.999 * known <= decomposition_epsilon(of_gaussians, 1e-6, ADD) < 3.0 * known


@pytest.mark.parametrize("name", ["doob", "decomposition", "combined"])
def test_arguments_are_checked(name: str) -> None:
    delta, invert = BOUNDS[name]
    run = ja.RandomAllocation(ja.Gaussian(1.0), 10)
    with pytest.raises(ValueError, match="epsilon"):
        delta(run, -1.0, REMOVE)
    with pytest.raises(ValueError, match="delta"):
        invert(run, 0.0, REMOVE)
    with pytest.raises(ValueError, match="scalar"):
        delta(ja.RandomAllocation(ja.Gaussian(np.ones(2)), 10), 1.0, REMOVE)
    with pytest.raises(ValueError, match="concrete"):
        jax.jit(lambda s: delta(ja.RandomAllocation(ja.Gaussian(s), 10), 1.0, REMOVE))(1.0)


def test_one_step_groups() -> None:
    """k = t, and k > t/2 where some groups have one step: no sampling there, no tail."""
    for k in (4, 3):
        run = ja.RandomAllocation(ja.Gaussian(2.0), 4, k)
        for direction in ja.Direction:
            exact = gaussian_delta(0.5, 2.0 / math.sqrt(4)) if k == 4 else 0.0
            assert exact <= truncated_delta(run, 0.5, direction, tail_bound=doob_tail) <= 1.0


@pytest.mark.parametrize(("steps", "selected"), [(5, 2), (6, 3), (12, 5), (40, 7)])
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_types_against_enumeration_and_the_reduction(steps: int, selected: int, direction: ja.Direction) -> None:
    """Few outputs: k-of-t exactly, below its reduction and above one step a record."""
    pair = ja.DiscretePair((0.7, 0.2, 0.1), (0.3, 0.5, 0.2))
    run = ja.RandomAllocation(pair, steps, selected)
    for epsilon in (0.0, 0.3, 1.0):
        upper = types_delta(run, epsilon, direction, upper=True)
        lower = types_delta(run, epsilon, direction, upper=False)
        assert 0 <= lower <= upper <= lower * (1 + 1e-10) + 1e-300
        size, larger = divmod(steps, selected)
        groups = ja.Composed(
            (ja.RandomAllocation(pair, size), ja.RandomAllocation(pair, size + 1)), (selected - larger, max(larger, 1))
        )
        reduced = ja.pld(
            groups if larger else ja.Composed(ja.RandomAllocation(pair, size), selected), direction=direction
        )
        assert upper <= reduced.delta(epsilon) * (1 + 1e-9)
        assert lower >= ja.pld(ja.RandomAllocation(pair, steps), direction=direction, bound=ja.Bound.LOWER).delta(
            epsilon
        )
        if steps <= 6:
            chosen = list(itertools.combinations(range(steps), selected))
            views = itertools.product(range(3), repeat=steps)
            p, q = np.array(pair.p), np.array(pair.q)
            truth = 0.0
            for view in views:
                base = q[list(view)]
                ratio = p[list(view)] / base
                without = base.prod()
                with_record = without * np.mean([ratio[list(c)].prod() for c in chosen])
                a, b = (with_record, without) if direction is ja.Direction.REMOVE else (without, with_record)
                truth += max(a - math.exp(epsilon) * b, 0.0)
            assert lower <= truth * (1 + 1e-12)
            assert truth <= upper * (1 + 1e-12)


def test_lower_bound_where_tails_underflow() -> None:
    """At epsilon 200 delta is about e^-20000: a tail under Q that underflows must not look like 0."""
    run = ja.RandomAllocation(ja.Gaussian(1.0), 10, 2, 3)
    for epsilon in (60.0, 150.0, 200.0, 600.0):
        assert largest_output_delta(run, epsilon, REMOVE) <= math.exp(max(-0.45 * (epsilon - 3) ** 2 / 6, -745.0)) * 6
    assert largest_output_delta(run, 200.0, REMOVE) == 0.0
