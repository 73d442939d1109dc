"""The likelihood ratio of a release with finitely many outputs, sampled or not, on a lattice."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.bounds.bases._base import Atoms, Base
from jaxacct.bounds.bases._few_outputs import Types, law_of_atoms, rounding
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, log_mixed_with_one
from jaxacct.mechanisms import DiscretePair
from jaxacct.special import product_outward, sum_outward, up


def log_ratios(p: NDArray[Any], q: NDArray[Any]) -> NDArray[Any]:
    """log(p/q) [N] of positive numbers [N], with an error of a few ulp of itself."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        ratio = p / q
        near = np.log1p(np.where(np.abs(p - q) < 0.5 * q, (p - q) / q, 0.0))  # the difference is exact
        tame = (ratio > 1e-300) & (ratio < 1e300)
        far = np.where(tame, np.log(np.where(tame, ratio, 1.0)), np.log(p) - np.log(q))
    return np.where(np.abs(p - q) < 0.5 * q, near, far)


def _points(pair: DiscretePair, sampling_prob: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """log of 1 - q + q Y at the outputs that Q has, and their masses under Q; -inf where P has none and q = 1."""
    p, q = (np.asarray(x)[np.asarray(pair.q) > 0] for x in (pair.p, pair.q))
    log_values = np.full(p.shape, -np.inf)
    log_values[p > 0] = log_ratios(p[p > 0], q[p > 0])
    return log_mixed_with_one(log_values, sampling_prob, 1.0 - sampling_prob), q


def _atoms(pair: DiscretePair, sampling_prob: float) -> Atoms:
    log_values, _ = _points(pair, sampling_prob)
    finite = log_values[log_values > -np.inf]
    return Atoms(range=float(finite.max() - finite.min()) if finite.size else 0.0)


def _law(pair: DiscretePair, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of one release: an atom for each output that both distributions have."""
    del tail  # nothing is cut off
    up = side is Side.UPPER
    log_values, masses = _points(pair, sampling_prob)
    there = log_values > -np.inf
    zero = sum_outward(masses[~there], up=up)
    alone = sum_outward(np.asarray(pair.p)[np.asarray(pair.q) == 0], up=up)
    infinite = product_outward(sampling_prob, alone, up=up)
    return law_of_atoms("mechanism=DiscretePair", log_values[there], masses[there], zero, infinite, step, side)


def listed(pair: DiscretePair) -> Types:
    """`Types` (arrays [N]) of the pair itself: logarithms to an ulp, ratios to some ulp of themselves."""
    some = (np.asarray(pair.p) > 0) | (np.asarray(pair.q) > 0)
    with np.errstate(divide="ignore"):
        log_p, log_q = (np.log(np.asarray(x, np.float64)[some]) for x in (pair.p, pair.q))
    error = rounding(log_p, log_q)
    return Types(log_p, log_q, error, 2.0 * error)


def _largest_loss(pair: DiscretePair) -> float:
    """max |log p - log q| over the outputs, rounded up; inf where an output has mass under only one of the two."""
    p, q = np.asarray(pair.p), np.asarray(pair.q)
    some = (p > 0) | (q > 0)
    with np.errstate(divide="ignore"):
        logs = np.log(np.stack([p[some], q[some]]))
    # each logarithm's rounding is of its own size, which the difference may be far below
    return up(float((np.abs(logs[0] - logs[1]) + 2.0**-51 * np.abs(logs).sum(axis=0)).max(initial=0.0)), 32)


BASE = Base(law=_law, largest_loss=_largest_loss, atoms=_atoms, is_light=True)
