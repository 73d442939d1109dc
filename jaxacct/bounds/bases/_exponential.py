"""The likelihood ratio of the pair that dominates every release of bounded range E, sampled or not, on a lattice.

Releases whose losses lie between t and t + E have, at the worst t for each epsilon, the profile

    delta(eps) = (1 - e^((eps - E) / 2))^2 / (1 - e^-E),   |eps| <= E

(Dong, Durfee & Rogers 2020). It is the profile of one pair, the loss of which has no atoms:

    Q[L > l] = (e^(-l/2) - e^(-E/2)) / (2 sinh(E/2)),   P[L <= l] = (e^(l/2) - e^(-E/2)) / (2 sinh(E/2)).
"""

import math

import numpy as np

from jaxacct._method import always
from jaxacct.bounds.bases._base import Base, check_fits
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_masses, log_mixed_with_one
from jaxacct.mechanisms import Exponential
from jaxacct.special import up


def _law(release: Exponential, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """Cells of 1 - q + q e^l itself, whose masses under P and Q are differences of exponentials."""
    del tail  # nothing is cut off
    top = float(release.range_epsilon)
    low, high = log_mixed_with_one(np.array([-top, top]), sampling_prob, 1.0 - sampling_prob)
    check_fits(f"range_epsilon={top}", low, high, step)
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    inner = step * np.arange(first, last + 1)
    with np.errstate(divide="ignore"):  # -inf, which becomes the least loss
        losses = inner if sampling_prob == 1.0 else np.log1p(np.maximum(np.expm1(inner) / sampling_prob, -1.0))
    edges = np.clip(losses, -top, top)
    whole = -math.expm1(-top)  # 2 sinh(E/2) e^(-E/2)
    widths = -np.expm1(-0.5 * np.diff(edges)) / whole
    q = np.exp(-0.5 * (edges[:-1] + top)) * widths
    p = np.exp(0.5 * (edges[1:] - top)) * widths
    return from_masses(q, (1.0 - sampling_prob) * q + sampling_prob * p, first * step, step, side)


def _largest_loss(release: Exponential) -> float:
    return up(float(release.range_epsilon), 4)


BASE = Base(law=_law, largest_loss=_largest_loss, is_envelope=always, is_light=True, is_symmetric=True)
