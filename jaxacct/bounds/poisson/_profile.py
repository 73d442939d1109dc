"""Privacy profiles of Poisson-sampled steps, for the theorems that compare a scheme with them.

They are read off certified loss distributions, as `jaxacct.pld` makes them, on grids that scale with the composed loss.
"""

from __future__ import annotations

import functools
import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from jaxacct import _trees
from jaxacct._jax import Array
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction
from jaxacct.bounds.poisson._law import DISTRIBUTION
from jaxacct.composition import Group, allocation_groups
from jaxacct.curves import Pld
from jaxacct.curves._convolution import ALL_DELTAS, compose_plds
from jaxacct.mechanisms import Gaussian, PoissonSampled, RandomAllocation

# Grid points for one standard deviation of a step's loss. An upper mass is rounded up by 2^-46 / step, once for each
# step composed: where that would exceed the second number, a coarser grid is the tighter one.
_RESOLUTION, _MIN_RESOLUTION = 12.0, 4.0
_ROUNDING, _MAX_ROUNDING = 1e-2, 1.0
# Rare large losses beside small typical ones make a wide grid. In the remove direction, where the first distribution
# has them, a finer grid costs more in rounding of its transform than it gains (measured); it is also slower.
_MAX_CELLS = {Direction.REMOVE: 2.0**15, Direction.ADD: 2.0**17}
# In the add direction the loss is at most -T log(1 - q), and with few steps large epsilons are read just below it.
_TOP_POINTS = 512.0  # grid points wanted up to about that largest loss
_TAIL = 1e-32  # mass that discretising a step may move to 0 and to infinity
_NUM_TILTS = 60  # exponents tried in a guess of log delta, which decides only where a distribution is sharp

_NUMBERS = (numbers.Real, np.ndarray, Array)


class PoissonSteps(NamedTuple):
    """`num_steps` steps that each record joins with probability `sampling_prob`."""

    sampling_prob: float
    num_steps: int


def concrete_base(mechanism: PoissonSampled | RandomAllocation) -> Any:
    """The release of one step of `mechanism`, a mechanism whose numbers are Python floats."""
    return _trees.map_leaves(lambda x: float(x) if isinstance(x, _NUMBERS) else x, mechanism.mechanism)


def runs_of(mechanism: RandomAllocation) -> tuple[Group[int], ...]:
    """A tuple of the 1-out-of-n runs (n, how many) whose composition dominates `mechanism`, in plain ints; none empty.

    Feldman & Shenfeld 2025, Lemma 3.2 (`jaxacct.composition.allocation_groups`).

    Raises:
      ValueError: if a field is traced or an array.
    """
    fields = (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs)
    noise = getattr(mechanism.mechanism, "noise_multiplier", 1.0)
    if is_traced((fields, noise)) or any(np.ndim(x) for x in (*fields, noise)):
        raise ValueError(f"mechanism={mechanism!r} must have concrete scalar fields")
    steps, selected, epochs = (int(x) for x in fields)
    return tuple(group for group in allocation_groups(steps, selected, epochs, uneven=True) if group.num_runs > 0)


@functools.lru_cache(maxsize=8)
def _parts(base: Any, steps: tuple[PoissonSteps, ...], direction: Direction) -> list[tuple[Pld, int]] | None:
    """The steps' loss distributions; None where rounding would leave nothing of a bound."""
    runs = [PoissonSampled(base, *s) for s in steps]
    scale, count = (sum(x) for x in zip(*(DISTRIBUTION.scale(run) for run in runs), strict=True))
    deviation = math.sqrt(scale / count)
    resolution = min(_RESOLUTION, max(_MIN_RESOLUTION, _ROUNDING * deviation * 2.0**46 / count))
    step = deviation / resolution
    if direction is Direction.ADD:
        step = min(step, sum(s.sampling_prob * s.num_steps for s in steps) / _TOP_POINTS)
    if base.signature() == (Gaussian,):
        mu, rate = 1.0 / base.noise_multiplier, max(s.sampling_prob for s in steps)
        top = 10.0 * mu + 0.5 * mu * mu
        step = max(step, (top + math.log(rate + (1.0 - rate) * math.exp(-top))) / _MAX_CELLS[direction])
    if 2.0**-46 * count / step > _MAX_ROUNDING:
        return None
    return [part for run in runs for part in DISTRIBUTION.parts(run, step, Bound.UPPER, _TAIL)(direction)]


def _log_delta_guess(parts: list[tuple[Pld, int]], epsilon: float) -> float:
    """log delta at `epsilon`, approximately: Chernoff's inf_a K(a) - a epsilon for P(loss > epsilon), over 1 + a."""
    logs = [(pld.losses[m], np.log(pld.masses[m]), count) for pld, count in parts for m in [pld.masses > 0]]
    widest = max(float(np.abs(losses).max()) for losses, _, _ in logs)
    last, best, guess = 0.0, 0.0, 0.0
    for k in np.linspace(-6.0, math.log2(2000.0 / widest), _NUM_TILTS):
        a = 2.0 ** float(k)
        value = -a * epsilon
        for losses, log_p, count in logs:
            x = log_p + a * losses
            top = float(x.max())
            value += count * (top + math.log(float(np.exp(x - top).sum())))
        if value > last + 10.0:
            break
        last = value
        if value < best:
            best, guess = value, value - math.log1p(a)
    return guess


_NOTHING = Pld(0.0, 1.0, np.zeros(1), 1.0, Bound.UPPER, Direction.REMOVE)


def poisson_pld(
    base: Any,
    steps: tuple[PoissonSteps, ...],
    direction: Direction,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
) -> Pld:
    """A `Pld` that dominates the Poisson-sampled `steps` of `base`, composed, in one direction: an upper bound.

    Zhu, Dong & Wang 2022, Theorem 11. Sharp where delta is about `delta`, or at `epsilon`; given neither, everywhere
    (slower). Where rounding leaves no bound (sum of steps over the standard deviation of a step's loss above 7e13) all
    mass is at infinity.
    """
    parts = _parts(base, steps, direction)
    if parts is None:
        return _NOTHING
    if epsilon is not None:
        delta = math.exp(max(_log_delta_guess(parts, epsilon), -600.0))
    return compose_plds(parts, (1.0, *ALL_DELTAS) if delta is None else (1.0, min(delta, 0.5)))
