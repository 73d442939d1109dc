"""Laws of pairs glued from two: one is worst for ratios above 1, the other, with its sides swapped, for those below.

For batches of a fixed size the worst records depend on the ratio k (Zhu, Dong & Wang 2022; Lebeda et al. 2024). With
a bound on H_k(P || Q) for k >= 1 and one on H_k(Q || P) for k >= 1, each the profile of a pair, the bound for all k > 0
is that of the pair whose losses above 0 are those of the first and whose losses below 0 those of the second, mirrored;
the remaining mass lies at 0. The two bounds agree at k = 1, or are made to by raising the smaller one.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.bounds.bases._base import check_fits
from jaxacct.bounds.bases._normal import SURE_Z, reach_for
from jaxacct.divergence.lattice._continuous_cells import normal_cell_masses
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_masses, merged
from jaxacct.special import bisect_lanes, sum_outward, up

_NUM_HALVINGS = 64  # of a bracket of x
_LEAST = 1e-200  # bins with less on either side are merged: close to underflow they lose their digits
_NUM_BINS, _BINS_TO = 32, 6.0  # bins of a test, and how many standard deviations they reach: tightness only
_BIN_ERROR = 2.0**-40  # relative, of a bin's share; (mu/8)^2 times as much where mu is above 8
_ROUNDING = 2.0**-46  # relative, of sums over a lattice, and of exponentials of losses up to 600


def _above_one(law: RatioLaw) -> NDArray[Any]:
    """Masses [n + 1] at the losses 0, step, 2 step, .. of an upper law whose points are multiples of its step."""
    first = round(law.offset / law.step)
    kept = law.masses[max(-first, 0) :]
    masses = np.concatenate([np.zeros(max(first, 0)), kept]) if kept.size else np.zeros(1)
    masses[0] = 0.0
    return masses


def glued(right: RatioLaw, left: RatioLaw) -> RatioLaw:
    """The upper law (`RatioLaw`) whose profile is that of `right` for k >= 1, and of `left` for Q against P.

    Both are upper laws on the multiples of one step. Where their profiles differ at k = 1 the smaller is raised at the
    point next to 0: a pair has one divergence at k = 1.
    """
    step = right.step
    m, a = (np.append(x, 0.0) if x.size < 2 else x for x in (_above_one(right), _above_one(left)))
    grown_m, grown_a = (np.exp(step * np.arange(x.size)) * (1.0 + _ROUNDING) for x in (m, a))
    ahead = float((m * (grown_m - 1.0)).sum()) + right.infinite_mass
    behind = float((a * (grown_a - 1.0)).sum()) + left.infinite_mass
    lift = abs(ahead - behind) / math.expm1(step)
    (a if ahead > behind else m)[1] += lift
    below = (a * grown_a)[:0:-1]
    held = float(below.sum()) + float(m.sum()) + left.infinite_mass
    rest = max(0.0, 1.0 - held * (1.0 - _ROUNDING)) + _ROUNDING
    masses = np.concatenate([below, [rest], m[1:]])
    offset = -step * (a.size - 1)
    blur = max(right.blur, left.blur) + 2.0**-50 * step * max(m.size, a.size)
    return RatioLaw(offset, step, masses, left.infinite_mass, right.infinite_mass, Side.UPPER, blur)


def weighted(parts: list[tuple[float, RatioLaw]]) -> RatioLaw:
    """The upper law (`RatioLaw`) of a mixture of pairs that reveals which one was drawn, from (probability, law)."""
    scaled = [
        dataclasses.replace(
            law,
            masses=law.masses * (share * (1.0 + 2.0**-51)),
            zero_mass=up(share * law.zero_mass, 2),
            infinite_mass=up(share * law.infinite_mass, 2),
        )
        for share, law in parts
        if share > 0.0
    ]
    whole = scaled[0]
    for law in scaled[1:]:
        whole = merged(whole, law)
    return whole


def emptied(mu: float, prob: float, step: float, tail: float) -> RatioLaw:
    """The upper law (`RatioLaw`), for losses above 0, of (1-q) N(-mu) + q N(mu) against (1-q) N(-mu) + q N(0).

    A record that contributes 1 against the empty one, in batches without replacement where the others contribute -1.
    For k >= 1 the best test is a threshold: the ratio is 1 at z = mu / 2 and grows from there on.
    """
    z_range, outside = reach_for(tail)
    last_z = min(mu + z_range, SURE_Z)
    beyond = prob * 0.5 * math.erfc((last_z - mu) / math.sqrt(2.0)) * (1.0 + 2.0**-40)

    def log_ratio(z: NDArray[Any]) -> NDArray[Any]:
        rest = math.log1p(-prob) - mu * z - 0.5 * mu * mu
        joins = math.log(prob)
        return np.logaddexp(rest, joins + mu * z - 0.5 * mu * mu) - np.logaddexp(rest, joins)

    high = float(log_ratio(np.array([last_z]))[0])
    check_fits("mechanism=FixedBatches", 0.0, high, step)
    last = max(1, math.ceil(high / step))
    inner = step * np.arange(1, last)
    below = bisect_lanes(
        lambda z: log_ratio(z) < inner, np.full(inner.shape, 0.5 * mu), last_z, num_steps=_NUM_HALVINGS
    )
    off = float(np.abs(log_ratio(below) - inner).max(initial=0.0))
    largest = 1.0 + mu * (last_z + mu) - math.log(prob) - math.log1p(-prob)
    z = np.concatenate([[0.5 * mu], below, [last_z]])
    others = (1.0 - prob) * normal_cell_masses(z + mu)
    p, q = others + prob * normal_cell_masses(z - mu), others + prob * normal_cell_masses(z)
    law = from_masses(q, p, 0.0, step, Side.UPPER)
    infinite = sum_outward((outside, beyond), up=True)
    return dataclasses.replace(law, blur=law.blur + off + 2.0**-46 * largest, infinite_mass=infinite)


class Bins(NamedTuple):
    """The probabilities [N] of bins of an output under the two sides of a pair, and a bound on their relative error."""

    p: NDArray[Any]
    q: NDArray[Any]
    error: float


def emptied_in_bins(mu: float, prob: float) -> Bins:
    """`Bins`, a NamedTuple, of the pair of `emptied`: outputs below mu / 2 are one bin, those above lie in equal ones.

    The least likely bins are merged into one.
    """
    z = np.concatenate([[-SURE_Z], np.linspace(0.5 * mu, mu + _BINS_TO, _NUM_BINS), [mu + SURE_Z]])
    others = (1.0 - prob) * normal_cell_masses(z + mu)
    p, q = others + prob * normal_cell_masses(z - mu), others + prob * normal_cell_masses(z)
    kept = np.minimum(p, q) > _LEAST
    p, q = (np.append(x[kept], x[~kept].sum()) for x in (p, q))
    return Bins(p / p.sum(), q / q.sum(), _BIN_ERROR * max(1.0, (mu / 8.0) ** 2))
