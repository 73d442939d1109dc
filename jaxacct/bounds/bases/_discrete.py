"""The likelihood ratio of a release with finitely many outputs, sampled or not, on a lattice."""

import numpy as np

from jaxacct.bounds.bases._base import Base, check_fits, sampled
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_atoms
from jaxacct.mechanisms import DiscretePair
from jaxacct.special import sum_outward, up


def _law(pair: DiscretePair, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of one release: an atom for each output that both distributions have."""
    del tail  # nothing is cut off
    p, q = np.asarray(pair.p), np.asarray(pair.q)
    both = (p > 0) & (q > 0)
    log_values = np.log(p[both]) - np.log(q[both])
    check_fits("mechanism=DiscretePair", log_values.min(initial=0.0), log_values.max(initial=0.0), step)
    zero, infinite = (sum_outward(masses, up=side is Side.UPPER) for masses in (q[p == 0], p[q == 0]))
    return sampled(from_atoms(log_values, q[both], zero, infinite, step, side), sampling_prob)


def _largest_loss(pair: DiscretePair) -> float:
    """max |log p - log q| over the outputs, rounded up; inf where an output has one of the two only."""
    p, q = np.asarray(pair.p), np.asarray(pair.q)
    some = (p > 0) | (q > 0)
    with np.errstate(divide="ignore"):
        logs = np.log(np.stack([p[some], q[some]]))
    # each logarithm's rounding is of its own size, which the difference may be far below
    return up(float((np.abs(logs[0] - logs[1]) + 2.0**-51 * np.abs(logs).sum(axis=0)).max(initial=0.0)), 32)


BASE = Base(law=_law, largest_loss=_largest_loss)
