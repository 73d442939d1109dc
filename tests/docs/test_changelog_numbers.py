"""Numbers that CHANGELOG.md states of this version, by the package and by what tests elsewhere count."""

import math
import re
from typing import Any

import jax
import pytest
from support.stated import ROOT, Claim, cases, check, ends

import jaxacct as ja
from jaxacct.estimation import estimate_delta

CHANGES = "CHANGELOG.md"
if not ((ROOT / CHANGES).is_file() and (ROOT / "docs").is_dir()):
    pytest.skip("a source distribution of the package alone has no pages", allow_module_level=True)

ONE = ja.Gaussian(1.0)
EPOCH = ja.RandomAllocation(ONE, 1000)
SEVERAL = ja.RandomAllocation(ja.Gaussian(1.701), 2147, 5)


def _epsilons(*mechanisms: Any, delta: float = 1e-6, **question: Any) -> tuple[float, ...]:
    return tuple(float(ja.epsilon(mechanism, delta, **question)) for mechanism in mechanisms)


def _two_methods(mechanism: Any, name: str, delta: float = 1e-6, **question: Any) -> tuple[float, ...]:
    """By a method, and by all."""
    return *_epsilons(mechanism, delta=delta, method=name, **question), *_epsilons(mechanism, delta=delta)


def _compared() -> tuple[float, ...]:
    """The lines of complex moments and of the loss distribution, from above."""
    lines = ja.compare(ja.RandomAllocation(ONE, 1000, num_epochs=10), 1e-6)
    upper = {line.method: line.value for line in reversed(lines) if line.bound is ja.Bound.UPPER}
    return upper["complex moments"], upper["loss distribution"]


def _discrete() -> tuple[float, float]:
    return ends(ja.PoissonSampled(ja.DiscreteGaussian(4.0), 0.01, 1000))


def _fixed() -> tuple[float, ...]:
    """Added or removed; replaced; zeroed out."""
    run = ja.FixedBatches(ja.Gaussian(2.0), 1000, 10, 100)
    return *_epsilons(run), *ends(ja.ReplaceOne(run)), *ends(ja.ZeroOut(run))


def _gaussian_reports() -> tuple[float, ...]:
    reports = ja.GaussianReports(4.0)
    several = ja.Shuffled(reports, 10**6, 8), ja.CheckIn(reports, 10**6, 0.1, num_epochs=8)
    return _purified_round(), *_epsilons(*several, method="purified rounds")


def _purified_round() -> float:
    return float(ja.epsilon(ja.Shuffled(ja.GaussianReports(4.0), 10**6), 1e-6, method="purified clones"))


def _reports_inside_jit() -> tuple[float]:
    return (float(jax.jit(lambda noise: ja.epsilon(ja.Shuffled(ja.GaussianReports(noise), 10**6), 1e-6))(4.0)),)


def _samples() -> tuple[float, ...]:
    """The mean (1e-9), its standard error (%), the bound (1e-8) rounded up, and plain samples' at best (1e-4)."""
    found = estimate_delta(
        SEVERAL, 0.3374, num_samples=20_000, seed=1, direction="remove", method="importance", confidence=0.99
    )
    upper = math.ceil(1e10 * found.upper_confidence) / 100
    return 1e9 * found.mean, 100 * found.standard_error / found.mean, upper, 1e4 * math.log(100) / 20_000


_RARE = ja.PoissonSampled(ja.Laplace(0.5), 2.9e-12, 2)
_ONCE = ja.PoissonSampled(ONE, 0.02, num_steps=1)


def _one_sampled_step() -> tuple[float, float]:
    """Inside a program, and by Renyi divergences."""
    inside = jax.jit(lambda noise: ja.epsilon(ja.PoissonSampled(ja.Gaussian(noise), 0.02, num_steps=1), 1e-6))(1.0)
    return float(inside), *_epsilons(_ONCE, method="rdp")


def _one_epoch_inside() -> float:
    return float(jax.jit(lambda noise: ja.epsilon(ja.RandomAllocation(ja.Gaussian(noise), 1000), 1e-6))(1.0))


def _agreeing() -> tuple[str, ...]:
    """Of dp_accounting's tests, from the rows that `tests/interop` compares with what happens."""
    page = (ROOT / "docs/interop.md").read_text()
    rows = re.findall(r"^\| `(?:pld|rdp)_privacy_accountant_test` \| (\d+) \| (\d+) \|", page, re.MULTILINE)
    return tuple(number for total, agree in rows for number in (agree, total))


CLAIMS = (
    Claim(
        CHANGES,
        "the addition of a record alone, {:.3f}, where the worse of both directions is {:.3f}",
        lambda: _two_methods(EPOCH, "real orders", direction="add"),
    ),
    Claim(
        CHANGES,
        '"exact": {:.3f} where Renyi divergences gave {:.3f} for 1000 steps',
        lambda: (_one_epoch_inside(), ja.epsilon(EPOCH, 1e-6, method="rdp")),
        compiles=True,
    ),
    Claim(CHANGES, "({:.4f} where the loss distribution's {:.4f} stood)", _compared),
    Claim(CHANGES, "{:.2f} % in place of 3.9 %", lambda: (100.0 * (_discrete()[1] / _discrete()[0] - 1.0),)),
    Claim(CHANGES, "{:.3f} added or removed, [{:.3f}, {:.3f}] replaced, [{:.2f}, {:.2f}] zeroed out", _fixed),
    Claim(
        CHANGES,
        "[{:.2f}, {:.2f}], where Poisson sampling would be {:.2f}",
        lambda: (ends(ja.ShuffledBatches(ONE, 1000))[0], *_epsilons(ONE, ja.PoissonSampled(ONE, 0.001, 1000))),
    ),
    Claim(
        CHANGES,
        "cost {:.2f} at delta 1e-5; twenty 0.5-DP releases {:.2f}",
        lambda: _epsilons(ja.Composed(ja.Exponential(0.5), 20), ja.Composed(ja.EpsilonDelta(0.5), 20), delta=1e-5),
    ),
    Claim(
        CHANGES,
        "epsilon {:.3f} where it was {:.3f})",  # by a group that is known
        lambda: _epsilons(
            ja.RandomAllocation(ja.PoissonSampled(ja.Gaussian(2.0), 0.2, 11), 10),
            ja.PoissonSampled(ja.Gaussian(2.0), 0.2, 11),
            delta=1e-5,
        ),
    ),
    Claim(
        CHANGES,
        "have {:.1f}e-12 at epsilon 0 where moment inversion has {:.1f}e-10",
        lambda: (1e12 * ja.delta(_RARE, 0.0), 1e10 * ja.delta(_RARE, 0.0, method="moment inversion")),
    ),
    Claim(CHANGES, "{:.2f} where Renyi divergences had {:.2f}", _one_sampled_step),
    Claim(CHANGES, "are {:.4f}, eight rounds {:.3f}, eight rounds of a tenth checking in {:.3f}", _gaussian_reports),
    Claim(CHANGES, "there is the grid: {:.4f} for one round", _reports_inside_jit, compiles=True),
    Claim(
        CHANGES,
        "has a lower end, by random allocation where all others hold the same: [{:.5f}, {:.4f}]",
        lambda: (ends(ja.Shuffled(ja.GaussianReports(4.0), 10**6))[0], _purified_round()),
    ),
    Claim(
        CHANGES,
        '"decomposition" is {:.4f}, where the truth is {:.4f}',
        lambda: _two_methods(EPOCH, "decomposition"),
    ),
    Claim(CHANGES, "the interval is [{:.5f}, {:.5f}]", lambda: ends(SEVERAL, 1e-8)),
    Claim(
        CHANGES,
        "5 of 1000 steps, delta 1e-5 is [{:.5f}, {:.5f}]",
        lambda: ends(ja.RandomAllocation(ja.Laplace(2.0), 1000, 5), 1e-5),
    ),
    Claim(
        CHANGES,
        "{:.3f} where it was 8.504 at noise multiplier 0.776",
        lambda: _epsilons(ja.RandomAllocation(ja.Gaussian(0.776), 37, 5), delta=1e-6),
    ),
    Claim(
        CHANGES,
        "of scale 1.5, delta 1e-6, is {:.3f} where it was 4.595",
        lambda: _epsilons(ja.RandomAllocation(ja.DiscreteGaussian(1.5), 40, 8), delta=1e-6),
    ),
    Claim(
        CHANGES,
        "{:.1f} where it was 292.4 at 36 of 406 steps",
        lambda: _epsilons(ja.RandomAllocation(ja.Gaussian(0.5452), 406, 36, 12), delta=2.3e-6),
    ),
    Claim(
        CHANGES,
        "give {:.2f}e-9 (removal) with a standard error of {:.1f} % and bound delta by {:.2f}e-8 with a probability of "
        "99 % (as many plain samples at best by {:.1f}e-4)",
        _samples,
        compiles=True,
    ),
    Claim(CHANGES, "{} of {} and {} of {} agree, the others have a reason each", _agreeing),
)


@pytest.mark.parametrize("claim", cases(CLAIMS))
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning", "ignore::jaxacct.OrderEdgeWarning")
def test_what_is_said_of_this_version_is_so(claim):
    check(claim)
