"""The probabilities that other records alone fill a Poisson-sampled batch, and that a batch has copies of a record."""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.mechanisms import FixedBatches, TruncatedPoisson
from jaxacct.special import binomial_tail, down, log_binomial_weights, up

_LEAST_TAIL = 1e-120  # bound on the probability of more copies of a record than are listed, which is the worst case
_QUANTILES = (0.3, 0.6, 0.85, 0.97, 0.999)  # of the size of full batches, at which nodes are placed
_WINDOW = 2**16  # batch sizes on either side of the mean whose probabilities are summed; beyond them a bound is used


class Full(NamedTuple):
    """Bounds on the probability that the other records fill a batch, and the probabilities that a record then joins.

    `joins` holds pairs (probability, sampling probability). Every divergence is convex in the latter, so that spreading
    it to neighbouring nodes with the same mean gives an upper bound.
    """

    most: float
    least: float
    joins: tuple[tuple[float, float], ...]


def filled(run: TruncatedPoisson) -> Full:
    """The bounds (`Full`, a NamedTuple) of one step: sums over the number M of others, each within its error."""
    others, limit, prob = int(run.num_records) - 1, int(run.max_batch_size), float(run.sampling_prob)
    top = up(prob * (limit / (limit + 1.0)), 4)
    if limit > others:
        return Full(0.0, 0.0, ())
    if prob == 1.0:
        return Full(1.0, 1.0, ((1.0, up(limit / (others + 1.0), 4)),))
    first = max(limit, math.floor(others * prob) - _WINDOW)
    last = min(others - 1, max(limit, math.ceil(others * prob)) + _WINDOW)
    rest = binomial_tail(others, prob, max(last, limit - 1))
    if first > limit:
        rest = up(rest + binomial_tail(others, 1.0 - prob, others - first), 2)
    sizes = np.arange(first, last + 1, dtype=np.float64)
    if not sizes.size:
        return Full(rest, 0.0, ((rest, top),))
    log_weights, error = log_binomial_weights(others, prob, 1.0 - prob, sizes)
    weights, slack = np.exp(log_weights), 2.0**-40 + 2.0 * error
    total = float(weights.sum())
    if total <= 0.0:
        return Full(rest, 0.0, ((rest, top),))
    joins = prob * (limit / (sizes + 1.0))
    nodes = np.searchsorted(np.cumsum(weights), np.array([0.0, *_QUANTILES]) * total)
    nodes = np.unique(np.append(nodes.clip(0, sizes.size - 1), sizes.size - 1))
    held = (_spread(joins, weights, nodes) + 2.0**-40 * total) * (1.0 + slack)
    held[0] += rest if first == limit else 0.0
    found = tuple((min(1.0, float(w)), up(float(joins[i]), 4)) for w, i in zip(held, nodes, strict=True))
    most = min(1.0, up(total * (1.0 + slack) + rest, 4))
    return Full(most, max(0.0, total * (1.0 - slack)), ((rest, top), *found) if first > limit else found)


def _spread(x: NDArray[Any], weights: NDArray[Any], nodes: NDArray[Any]) -> Any:
    """Weights of `x[nodes]`: the weight of each of the decreasing `x` is split between the nodes around it.

    The mean is kept. The first and the last place are nodes.
    """
    at = np.searchsorted(nodes, np.arange(x.size), side="right").clip(1, max(nodes.size - 1, 1)) - 1
    following = nodes[np.minimum(at + 1, nodes.size - 1)]
    width = x[nodes[at]] - x[following]
    share = np.divide(x - x[following], width, out=np.ones_like(x), where=width > 0.0)
    moved: Any = np.bincount(at + 1, weights * (1.0 - share), nodes.size + 1)
    return (np.bincount(at, weights * share, nodes.size + 1) + moved)[: nodes.size]


def kept(run: TruncatedPoisson) -> float:
    """A float, the probability that the record is drawn in a step and kept, rounded down.

    q E[min(1, B / (M + 1))] over the number M of others drawn. Since q P(M = m) / (m + 1) = P(S = m + 1) / N, S the
    number drawn of all N records, it is q P(M < B) + (B / N) P(S > B), where P(S > B) = q P(M >= B) + (1 - q) P(M > B).
    """
    records, limit, prob = int(run.num_records), int(run.max_batch_size), float(run.sampling_prob)
    if limit >= records:
        return prob
    full, over = filled(run), filled(dataclasses.replace(run, max_batch_size=limit + 1))
    more = 1.0 - binomial_tail(records, 1.0 - prob, records - limit - 1)
    more = max(more, prob * full.least + (1.0 - prob) * over.least)
    return max(0.0, down(prob * (1.0 - full.most) + limit / records * more, 2**6))


def present(run: FixedBatches) -> float:
    """A float, the probability 1 - (1 - 1/N)^B that a batch drawn with replacement has the record, within 2^-48."""
    return -math.expm1(int(run.batch_size) * math.log1p(-1.0 / int(run.num_records)))


def copies(run: FixedBatches) -> tuple[list[float], float]:
    """A tuple: P(K = 0), P(K = 1), .. of K ~ Binomial(B, 1/N), each within 2^-44, and a bound on the rest."""
    batch, records = int(run.batch_size), int(run.num_records)
    found = [math.exp(batch * math.log1p(-1.0 / records))]
    while found[-1] > _LEAST_TAIL and len(found) <= batch:
        k = len(found)
        found.append(found[-1] * (batch - k + 1) / (k * (records - 1)))
    return found, 0.0 if len(found) > batch else _LEAST_TAIL
