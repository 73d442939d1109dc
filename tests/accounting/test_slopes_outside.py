"""`jax.grad` outside traced code: the sharp answer's value and slopes, and no program for them."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _precision

_NUM_SETTINGS = 2
_STEP = 5e-3  # relative, of the differences that slopes are compared with
_WITHIN = 0.01  # of the slope

FAMILIES = {
    "Gaussian": lambda s, t, n: ja.Composed(ja.Gaussian(s), t),
    "one epoch": lambda s, t, n: ja.RandomAllocation(ja.Gaussian(s), t),
    "epochs": lambda s, t, n: ja.RandomAllocation(ja.Gaussian(s), t, 1, n),
    "k of t": lambda s, t, n: ja.RandomAllocation(ja.Gaussian(s), t * n, n),
    "Poisson": lambda s, t, n: ja.PoissonSampled(ja.Gaussian(s), 1.0 / n, t),
    "Laplace": lambda s, t, n: ja.PoissonSampled(ja.Laplace(s), 1.0 / n, t),
    "replaced": lambda s, t, n: ja.ReplaceOne(ja.PoissonSampled(ja.Gaussian(s), 1.0 / n, t)),
    "group": lambda s, t, n: ja.Group(ja.PoissonSampled(ja.Gaussian(s), 0.1 / n, t), 2),
    "mixed": lambda s, t, n: ja.Composed(
        [ja.PoissonSampled(ja.Gaussian(s), 1.0 / n, t), ja.RandomAllocation(ja.Gaussian(2.0), t)]
    ),
    "Gaussian reports": lambda s, t, n: ja.Shuffled(ja.GaussianReports(2.0 * s), 100 * t),
    "reports": lambda s, t, n: ja.Shuffled(ja.LocalRandomizer(s), 1000 * t),
    "shuffled batches": lambda s, t, n: ja.ShuffledBatches(ja.Gaussian(s), t),
}


class Setting(NamedTuple):
    noise: float
    steps: int
    other: int
    delta: float


def settings(name: str) -> list[Setting]:
    """A small map, uniform in logarithms."""
    rng = np.random.default_rng(sum(name.encode()))
    ranges = ((0.8, 3.0), (10, 500), (2, 20), (1e-8, 1e-5))
    drawn = (np.exp(rng.uniform(*np.log(ends), _NUM_SETTINGS)) for ends in ranges)
    return [Setting(float(s), int(t), int(n), float(d)) for s, t, n, d in zip(*drawn, strict=True)]


def slope_by_differences(ask: Any, x: float) -> float:
    """Of the logarithm, central, times the value."""
    up, down = (ask(x * (1.0 + side * _STEP)) for side in (1.0, -1.0))
    return ask(x) * (math.log(up) - math.log(down)) / (x * (math.log1p(_STEP) - math.log1p(-_STEP)))


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.more] * (name in ("group", "replaced"))) for name in FAMILIES]
)
def test_slopes_are_those_of_the_sharp_answer(name: str) -> None:
    make = FAMILIES[name]
    for at in settings(name):
        run = make(*at[:3])
        target = ja.epsilon(run, at.delta)
        asked = {
            "epsilon": (
                lambda s, at=at: ja.epsilon(make(s, *at[1:3]), at.delta),
                lambda s, at=at: ja.epsilon(make(s, *at[1:3]), at.delta, precision=1e-4),
            ),
            "delta": (
                lambda s, at=at, target=target: ja.delta(make(s, *at[1:3]), target),
                lambda s, at=at, target=target: ja.delta(make(s, *at[1:3]), target, precision=1e-4),
            ),
        }
        for query, (ask, sharp) in asked.items():
            value, slope = jax.value_and_grad(ask)(np.float32(at.noise))
            here = float(np.float32(at.noise))
            known = ask(here)
            # neighbours are asked for more digits than the answer alone, which then may be sharper too
            lower = ja.epsilon_interval(make(here, *at[1:3]), at.delta).analysis_lower if query == "epsilon" else 0.0
            assert lower <= float(value) <= known * (1.0 + 1e-6), (at, query)
            assert float(slope) == pytest.approx(slope_by_differences(sharp, here), rel=_WITHIN), (at, query)


def test_no_program_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a kernel was put into a program")

    monkeypatch.setattr(_precision.Kernel, "_traced_program", refuse)
    slopes = jax.grad(lambda s, q, d: ja.epsilon(ja.PoissonSampled(ja.Gaussian(s), q, 100), d), argnums=(0, 1, 2))(
        2.0, 0.01, 1e-6
    )
    assert slopes[0] < 0.0 < slopes[1]
    assert slopes[2] < 0.0
    assert jax.grad(lambda s: ja.epsilon(ja.Group(ja.Gaussian(s), 2), 1e-6))(2.0) < 0.0  # which no program answers
    assert jax.jacfwd(lambda s: ja.epsilon(ja.Gaussian(s), 1e-6))(jnp.array([1.0, 2.0])).shape == (2, 2)
    with pytest.raises(AssertionError, match="a kernel was put"):
        jax.jit(jax.grad(lambda s: ja.epsilon(ja.Gaussian(s), 1e-6)))(2.0)


def test_arrays_have_a_slope_at_each_point() -> None:
    noise = jnp.array([1.0, 2.0, 4.0])
    slopes = jax.grad(lambda s: ja.epsilon(ja.RandomAllocation(ja.Gaussian(s), 100), 1e-6).sum())(noise)
    single = [jax.grad(lambda s: ja.epsilon(ja.RandomAllocation(ja.Gaussian(s), 100), 1e-6))(s) for s in noise]
    np.testing.assert_allclose(slopes, single, rtol=1e-3)
    shared = jax.grad(lambda d: ja.epsilon(ja.Gaussian(np.array([1.0, 2.0])), d).sum())(1e-6)
    single = [jax.grad(lambda d, s=s: ja.epsilon(ja.Gaussian(s), d))(1e-6) for s in (1.0, 2.0)]
    assert float(shared) == pytest.approx(float(sum(single)), rel=1e-5)


def test_slopes_at_the_ends_of_ranges() -> None:
    def sampled(q: Any) -> Any:
        return ja.epsilon(ja.PoissonSampled(ja.Gaussian(2.0), q, 10), 1e-6)

    assert float(jax.grad(sampled)(1.0)) == pytest.approx((sampled(1.0) - sampled(0.96)) / 0.04, rel=0.03)

    def selected(k: Any) -> Any:
        return ja.epsilon(ja.RandomAllocation(ja.Gaussian(2.0), 10, k), 1e-6)

    assert float(jax.grad(selected)(10.0)) == pytest.approx(selected(10) - selected(9), rel=0.1)


@pytest.mark.parametrize("count", [1.0, 2.0, 50.0, 500.0])
def test_slopes_in_a_count(count: float) -> None:
    def ask(t: Any) -> Any:
        return ja.epsilon(ja.Composed(ja.Gaussian(2.0), t), 1e-6)

    assert float(jax.grad(ask)(count)) == pytest.approx(float(jax.jit(jax.grad(ask))(count)), rel=0.01)


def test_at_a_number_that_is_zero_slopes_are_those_of_the_program() -> None:
    def ask(e: Any) -> Any:
        return ja.delta(ja.Gaussian(2.0), e)

    assert float(jax.grad(ask)(0.0)) == pytest.approx((ask(1e-4) - ask(0.0)) / 1e-4, rel=1e-3)


def test_where_epsilon_is_infinite_its_slope_is_zero() -> None:
    value, slope = jax.value_and_grad(lambda d: ja.epsilon(ja.EpsilonDelta(1.0, 1e-3), d))(1e-6)
    assert (float(value), float(slope)) == (math.inf, 0.0)


def test_what_is_out_of_range_raises_as_outside() -> None:
    with pytest.raises(ValueError, match=r"noise_multiplier=-1.0 must be > 0"):
        jax.grad(lambda s: ja.epsilon(ja.Gaussian(s), 1e-6))(-1.0)


@pytest.mark.more
def test_second_derivatives_are_those_of_programs() -> None:
    def ask(s: Any) -> Any:
        return ja.epsilon(ja.Gaussian(s), 1e-6)

    assert float(jax.grad(jax.grad(ask))(2.0)) == pytest.approx(float(jax.jit(jax.grad(jax.grad(ask)))(2.0)), rel=1e-5)


def test_the_value_is_never_rounded_down() -> None:
    for noise in np.linspace(1.0, 1.1, 5, dtype=np.float32):
        value, _ = jax.value_and_grad(lambda s: ja.epsilon(ja.Gaussian(s), 1e-6))(noise)
        assert float(value) >= ja.epsilon(ja.Gaussian(float(noise)), 1e-6)
