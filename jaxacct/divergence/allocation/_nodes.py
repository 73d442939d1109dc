"""Moments as sums over nodes, at many heights above one order or at real orders, with every error bounded."""

import math
from typing import NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import Complex, Real
from jaxacct.special import ULP, complex_exp, cos_and_sin, log_up, rows_times, rows_times_rows

# They affect speed and tightness only: every error is bounded whatever their values.
_GROWTH = 32.0  # in log: how far terms may change relative to each other within a block of heights
SMALL = 100.0  # in log: terms this far below the largest are not distinguished


class NodeSum(NamedTuple):
    """Terms of a sum over nodes: sum_n e^{log_terms_n} z_n^{-s}."""

    log_z: Complex  # [N]
    log_terms: Complex  # [N]
    relative: Real  # [N], the relative errors of the terms

    def real(self, orders: Real) -> tuple[Real, Real, Real]:
        """The sums at real orders [A], which must be real, over e^log_scale; their errors; and log_scale, [A] each."""
        sizes = self.log_terms.real - orders[:, None] * self.log_z.real
        shift = sizes.max(1)
        keep = (sizes - shift[:, None]).max(0) > -SMALL
        keep = keep | ~keep.any()
        log_z, log_terms = self.log_z[keep], self.log_terms[keep]
        terms = np.exp(np.maximum(sizes[:, keep] - shift[:, None], -SMALL))
        total = (terms * cos_and_sin(log_terms.imag - orders[:, None] * log_z.imag)[0]).sum(1)
        own = self.relative[keep] + ULP * (64.0 + len(log_z) + 8.0 * np.abs(log_terms))
        # nodes on a ray err by another 2 ULP of log t, where t <= 2^40
        rest = 8.0 * ULP * (rows_times(terms, 8.0 + np.abs(log_z)) * np.abs(orders) + np.abs(shift) * terms.sum(1))
        return total, rows_times(terms, own) + rest + 2.0 * math.exp(-SMALL) * len(keep), shift

    def powers(self, order: float, step: float, count: int) -> tuple[Complex, Real, Real]:
        """The sum at s = a + ib, b = k `step`, k < `count`, over e^log_scale; its error; and log_scale, [count] each.

        The heights b of a block share a scale, and within a block z^{-ib} is updated by multiplication. Terms below
        e^-SMALL of the largest of their block count as that, or as nothing.
        """
        base = self.log_z
        # in a block of b the terms change by at most e^_GROWTH relative to each other
        inner = 1 if count == 1 else 1 << (((max(count, 2) - 1).bit_length() + 1) // 2)
        while inner > 1 and inner * step * float(np.abs(base.imag).max()) > _GROWTH:
            inner //= 2
        outer = -(-count // inner)
        first = self.log_terms - order * self.log_z - 1j * step * inner * np.arange(outer)[:, None] * base
        shift = first.real.max(1)
        keep = (first.real - shift[:, None]).max(0) > -SMALL
        keep = keep | ~keep.any()  # all of them where nothing is a number
        base, first = base[keep], first[:, keep]
        fine = complex_exp(-1j * step * np.arange(inner)[:, None] * base)
        first.real = np.maximum(first.real - shift[:, None], -SMALL)
        coarse = complex_exp(first)
        total = rows_times_rows(coarse, fine).reshape(-1)[:count]
        # of the exponents, of products and of sums in any order
        small, size = np.abs(fine), np.abs(coarse)
        log_terms = np.abs(self.log_terms[keep]) + abs(order) * np.abs(self.log_z[keep])
        own = self.relative[keep] + ULP * (64.0 + len(base) + 8.0 * (log_terms + np.abs(shift).max()))
        errors = np.stack([rows_times_rows(size * x, small) for x in (own, 8.0 * ULP * (2.0 + np.abs(base)))]).reshape(
            2, -1
        )
        b = step * np.arange(count)
        lost = 2.0 * math.exp(-SMALL) * float(small.max()) * len(keep)
        return total, errors[0, :count] + errors[1, :count] * b + lost, np.repeat(shift, inner)[:count]


def rounded_up(log_value: Real, relative: Real) -> Real:
    """Float array: an upper bound on the log of a number known to a relative error; inf where that error is large."""
    return np.where(relative < 0.5, log_up(log_value + np.log1p(relative), 16), np.inf)
