"""The likelihood ratio of a release given by the distribution functions of its loss, sampled or not, on a lattice."""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.bounds.bases._base import Base, check_fits, sampled, unbounded
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_cells
from jaxacct.mechanisms import ContinuousPair
from jaxacct.mechanisms._continuous_pair import LAST_DIGITS
from jaxacct.special import outward, product_outward, sum_outward, up


def _share(pair: ContinuousPair) -> float:
    """The most by which the true value may exceed the one given, as a share of the latter: 1/(1 - a) - 1."""
    error = float(pair.accuracy) + LAST_DIGITS
    return up(error / (1.0 - error), 4)


def _interval_masses(cdf: NDArray[Any], sf: NDArray[Any], share: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mass between neighbouring points, from the smaller tail, and a bound on its error."""
    left = cdf[1:] <= 0.5
    masses = np.where(left, np.diff(cdf), -np.diff(sf))
    error = (share + 2.0**-52) * np.where(left, cdf[1:] + cdf[:-1], sf[1:] + sf[:-1])
    return np.maximum(masses, 0.0), error


def _law(pair: ContinuousPair, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of one release: cells of the lattice, their masses from the distribution functions."""
    del tail  # the mass outside the pair's own range is accounted for
    return sampled(_unsampled(pair, step, side), sampling_prob)


def _unsampled(pair: ContinuousPair, step: float, side: Side) -> RatioLaw:
    """The law of the likelihood ratio where the record takes part for certain."""
    check_fits(f"lowest={pair.lowest}", pair.lowest, pair.highest, step)
    first, last = math.floor(pair.lowest / step), math.ceil(pair.highest / step)
    edges = step * np.arange(first, last + 1)
    (p, p_error), (q, q_error) = (
        _interval_masses(np.asarray(cdf(edges), np.float64), np.asarray(sf(edges), np.float64), _share(pair))
        for cdf, sf in ((pair.cdf_p, pair.sf_p), (pair.cdf_q, pair.sf_q))
    )
    left = np.exp(edges[:-1])
    high = np.clip((p / left - q) / math.expm1(step), 0.0, q)
    error = (p_error / left + q_error) / math.expm1(step)
    low_error = error + q_error  # of the rest of q
    if side is not Side.UPPER:  # what lies outside is dropped, and so is what the functions may err by
        low_mass, high_mass = np.maximum(q - high - low_error, 0.0), np.maximum(high - error, 0.0)
        return from_cells(low_mass, high_mass, first * step, step, side)
    law = from_cells(q - high + low_error, high + error, first * step, step, side)
    grow = outward(1.0 + _share(pair), up=True)
    (below_p, above_p), (below_q, above_q) = (
        [product_outward(float(tail), grow, up=True) for tail in (cdf(edges[:1])[0], sf(edges[-1:])[0])]
        for cdf, sf in ((pair.cdf_p, pair.sf_p), (pair.cdf_q, pair.sf_q))
    )
    masses = law.masses.copy()
    masses[0] += below_p / float(left[0])  # the left tail, split between 0 and the first point
    zero = sum_outward((below_q, above_q), up=True)
    return dataclasses.replace(law, masses=masses, zero_mass=zero, infinite_mass=above_p)


BASE = Base(law=_law, largest_loss=unbounded)
