"""Slopes inside `jit` are those of the bound that answers there: how far from the sharp answer's, family by family.

`FAMILIES` holds the bar that is met today on a small map of random settings; a sharper engine tightens it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jaxacct as ja

_NUM_SETTINGS = 6
_STEP = 1e-2  # relative, of central differences: they err by some 1e-4 of the slope
_PRECISION = 1e-6  # relative, of the sharp answer, so that a difference errs by less than by its step


class Family(NamedTuple):
    """What is asked, from which ranges, and how far off it may be.

    Attributes:
      make: ``(noise_multiplier, steps, other) ->`` the mechanism.
      steps, other: the ranges of two counts.
      off: the most by which epsilon inside `jit` may exceed the sharp one, relative.
      slope_off: the same of the slope in the noise multiplier, either way.
    """

    make: Callable[[Any, Any, Any], Any]
    steps: tuple[int, int]
    other: tuple[int, int]
    off: float
    slope_off: float


# Sharp inside `jit`: the closed form of one step, and laws.
FAMILIES = {
    "Gaussian": Family(lambda s, t, _: ja.Composed(ja.Gaussian(s), t), (1, 3000), (1, 1), 1e-6, 1e-3),
    "one epoch": Family(lambda s, t, _: ja.RandomAllocation(ja.Gaussian(s), t), (30, 3000), (1, 1), 0.003, 0.03),
    "Poisson": Family(
        lambda s, t, n: ja.PoissonSampled(ja.Gaussian(s), 1.0 / n, t), (10, 3000), (10, 1000), 0.004, 0.005
    ),
    # where t/k is small the sharp answer joins how many steps are used, which no program does
    "k of t": Family(lambda s, t, k: ja.RandomAllocation(ja.Gaussian(s), t, k), (30, 1000), (2, 10), 0.035, 0.09),
    "epochs": Family(lambda s, t, e: ja.RandomAllocation(ja.Gaussian(s), t, 1, e), (30, 1000), (2, 20), 0.004, 0.01),
    "sampled Laplace": Family(
        lambda s, t, n: ja.PoissonSampled(ja.Laplace(s), 1.0 / n, t), (10, 3000), (10, 1000), 0.002, 0.01
    ),
}
COMPILED_LONG = [pytest.param(name, marks=pytest.mark.more) for name in FAMILIES if name != "Gaussian"]


def settings(family: Family, name: str) -> dict[str, np.ndarray]:
    """Noise multipliers, both counts and deltas [N], uniform in their logarithms."""
    rng = np.random.default_rng(sum(name.encode()))
    ranges = {"noise": (0.6, 4.0), "steps": family.steps, "other": family.other, "delta": (1e-9, 1e-4)}
    drawn = {key: np.exp(rng.uniform(*np.log(ends), _NUM_SETTINGS)) for key, ends in ranges.items()}
    whole = {key: np.round(drawn[key]) for key in ("steps", "other")}
    return {key: values.astype(np.float32) for key, values in (drawn | whole).items()}  # as a program takes them


def measured(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(epsilon over the sharp one - 1, its slope over that of the sharp one - 1), [N] each."""
    family = FAMILIES[name]
    points = settings(family, name)

    def inside(noise: Any, steps: Any, other: Any, delta: Any) -> Any:
        return ja.epsilon(family.make(noise, steps, other), delta)

    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(inside)))(*points.values())

    def sharp(noise: float, steps: float, other: float, delta: float) -> float:
        return ja.epsilon(family.make(noise, int(steps), int(other)), delta, precision=_PRECISION)

    rows = np.array(list(points.values()), np.float64).T
    true = np.array([sharp(*row) for row in rows])
    moved = [[sharp(row[0] * (1.0 + side * _STEP), *row[1:]) for side in (1.0, -1.0)] for row in rows]
    differences = np.array([(up - down) / (2.0 * _STEP * row[0]) for (up, down), row in zip(moved, rows, strict=True)])
    return np.asarray(values, np.float64) / true - 1.0, np.asarray(slopes, np.float64) / differences - 1.0


@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
@pytest.mark.parametrize("name", ["Gaussian", *COMPILED_LONG])
def test_slopes_inside_a_program_are_as_near_the_sharp_ones_as_is_said(name: str) -> None:
    off, slope_off = measured(name)
    assert np.all(off >= -_PRECISION)
    assert off.max() <= FAMILIES[name].off, off
    assert np.abs(slope_off).max() <= FAMILIES[name].slope_off, slope_off
