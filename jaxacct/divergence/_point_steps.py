"""The terms of a threshold test for steps whose likelihood ratio has finitely many values: sums in place of integrals.

The ratio W of a step has the values e^l with masses m under Q (`Points`). They may come from a law that was rounded for
a lower bound, with total mass below 1: with Q' the measure of these masses and L' the likelihood ratio of the run made
of these values, delta(eps) >= E_Q'[(L' - e^eps) 1_S] (remove) for every event S. Q' need not be a probability measure.

A term is log Y, Y = 1 - c + c W, as in `jaxacct.divergence.gaussian._allocated_steps`; its moments are

    M(s) = sum m Y^s,    M_P(s) = sum m W Y^s.

The computed logarithms define the statistic: any function of the outcome may be used as one. So their rounding needs no
bound, and only the rounding of the sums is accounted for.
"""

import dataclasses
import functools
import math
import operator
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction
from jaxacct.divergence._tail import Moments, Nodes, moments_of, of_epoch
from jaxacct.divergence.lattice._ratio import log_mixed_with_one
from jaxacct.special import rows_times, rows_times_rows

Real = np.ndarray[Any, np.dtype[np.float64]]

_LARGEST_POWER = 400.0  # orders x are tried up to this over the largest |log Y|; any value is valid
_UNIT = 2.0**-51  # relative error of an exponential, a cosine or a product with its factors rounded


@dataclasses.dataclass(frozen=True, eq=False)
class Points:
    """A step's likelihood ratio, for a lower bound in one direction.

    Attributes:
      log_ratios, masses: l and m > 0, float64 [J]; l = -inf where W = 0.
      infinite: lower bound on the mass of P where Q has none.
    """

    log_ratios: Real
    masses: Real
    infinite: float


class PointSteps(NamedTuple):
    """One epoch: the record is in `num_selected` of `num_steps` steps; `rate` is c, in (0, 1].

    With c = 1 a term is the loss of the step itself, for steps that every record joins. The directions are those of
    `AllocatedSteps`: in the add direction T is minus the sum of the logarithms.
    """

    points: Points
    num_steps: float
    num_selected: float
    rate: float
    direction: Direction

    @property
    def _kept(self) -> Any:
        """Where the term is finite: everywhere, except where W = 0 if c = 1."""
        return np.isfinite(self.points.log_ratios) if self.rate == 1.0 else slice(None)

    @property
    def _terms(self) -> Real:
        """T of one step, at each value of W."""
        return _log_steps(self.points, self.rate) * (1.0 if self.direction is Direction.REMOVE else -1.0)

    @property
    def has_atoms(self) -> bool:
        return True

    @property
    def log_uncertain(self) -> float:
        """Upper bound on the log of A's mass where T is finite; where it is infinite B has no mass.

        T is infinite if some step has an outcome that only P can give (remove), or, where its term is the loss, one
        that only Q can give (add).
        """
        if self.direction is Direction.REMOVE:
            told, times = self.points.infinite, self.num_selected
        else:
            zero = self.points.masses[~np.isfinite(self.points.log_ratios)]
            told, times = (math.fsum(zero) * (1.0 - 2.0**-50), self.num_steps) if self.rate == 1.0 else (0.0, 0.0)
        return times * math.log1p(-told) * (1.0 - 2.0**-50) if told < 1.0 else -math.inf

    @property
    def variance(self) -> float:
        masses = self.points.masses[self._kept] / self.points.masses[self._kept].sum()
        return self.num_steps * float(masses @ (self._terms - masses @ self._terms) ** 2)

    @property
    def largest_order(self) -> float:
        return _LARGEST_POWER / max(float(np.abs(self._terms).max()), 1e-300)

    def _weights(self, order: float) -> list[Real]:
        """Logs of the terms of M at x and at x + 1, and of M_P, on the real axis."""
        log_masses, ratios = np.log(self.points.masses[self._kept]), self.points.log_ratios[self._kept]
        near, far = (log_masses + x * self._terms for x in (order, order + 1.0))
        return [near, far, (near if self.direction is Direction.REMOVE else far) + ratios]

    def rough(self, orders: Real) -> tuple[Real, Real]:
        found = [[_log_sum(weights) for weights in self._weights(float(x))] for x in orders]
        near, far, with_record = np.array(found).T
        epoch = self.num_steps, self.num_selected, self.direction
        return of_epoch(near, far, with_record, *epoch, times=operator.mul, plus=operator.add)

    def on_line(self, nodes: Nodes, log_tolerance: float) -> tuple[Moments, Moments]:
        del log_tolerance  # nothing is left out
        near, far, with_record = self._moments(nodes)
        epoch = self.num_steps, self.num_selected, self.direction
        return of_epoch(near, far, with_record, *epoch, times=Moments.times, plus=Moments.plus)

    def _moments(self, nodes: Nodes) -> list[Moments]:
        """M at x and x + 1 and M_P on the nodes [N], with every rounding error bounded.

        A term e^{log m + l + x T} errs by 2^-51 (2 + |log m| + |l| + |x T|) of itself, for its exponent's sum and the
        exponential. A height is a multiple of B steps plus fewer than B: its phase factor is a product of two, which
        errs by 2^-51 (4 + b |T|); sums of J terms err by 2^-51 (J + 8).
        """
        terms, num = self._terms, nodes.num
        rows = max(1, math.isqrt(num))
        coarse = np.exp(1j * (nodes.step * rows * np.arange(-(-num // rows))[:, None]) * terms)
        fine = np.exp(1j * (nodes.step * np.arange(rows)[:, None]) * terms)
        sizes = np.abs(np.log(self.points.masses[self._kept])) + (nodes.order + 1.0) * np.abs(terms)
        ratios = self.points.log_ratios[self._kept]
        sizes = sizes + np.where(np.isfinite(ratios), np.abs(ratios), 0.0)
        found = []
        for weights in self._weights(nodes.order):
            top = float(weights.max())
            weight = np.exp(weights - top)
            total = rows_times_rows(coarse * weight, fine).ravel()[:num]
            flat, steep = (float(rows_times(weight, x)) for x in (16.0 + len(terms) + sizes, np.abs(terms)))
            wrong = _UNIT * (flat + nodes.heights * steep)
            size, phase = np.maximum(np.abs(total), 1e-300), np.angle(total)
            log_size = np.log(size)
            relative = wrong / size + 2.0**-50 * (1.0 + abs(top) + np.abs(log_size) + np.abs(phase))
            found.append(moments_of(top + log_size, phase, relative))
        return found

    def beyond(self, order: float, heights: Real, log_tolerance: float) -> tuple[Real, Real]:
        """Bounds [K], equal to those on the real axis: T has atoms, so its moments need not decay with the height."""
        on_axis = self.on_line(Nodes(order, 0.0, 1, 0.0), log_tolerance)
        a, b = (float(x.log_modulus[0] + x.error[0] + 2.0**-48 * x.size[0]) for x in on_axis)
        return np.full(len(heights), a), np.full(len(heights), b)


def _log_sum(logs: Real) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum())) if math.isfinite(top) else -math.inf


@functools.lru_cache(maxsize=64)
def _log_steps(points: Points, rate: float) -> Real:
    """log(1 - c + c W) [J], or [< J] without the entries W = 0 if c = 1."""
    ratios = points.log_ratios if rate < 1.0 else points.log_ratios[np.isfinite(points.log_ratios)]
    return log_mixed_with_one(ratios, rate, 1.0 - rate)
