"""A privacy filter: a budget for releases that are chosen adaptively, in light of what was released before."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from jaxacct._types import NeighboringRelation
from jaxacct._validate import (
    check_delta,
    check_epsilon,
    check_orders,
    checked_array,
    checked_number,
    checked_whole,
    python_number,
)
from jaxacct.accounting import rdp
from jaxacct.mechanisms._base import Mechanism, not_a_mechanism
from jaxacct.special import down, log_one_minus_inverse, up
from jaxacct.training._phases import check_scalar

_SHARES = (0.25, 0.5, 1.0, 2.0)  # orders tried by default, less 1, in units of the Gaussian mechanism's best one
_LEAST_ORDER, _WHOLE_FROM = 1.25, 3.0  # of these; whole numbers from the second on, where curves are sharpest
# orders that are tried for a planned release
_PLANNED_ORDERS = (1.25, 1.5, 1.75, 2.0, 2.5, *map(float, [*range(3, 33), *range(36, 65, 4), *range(80, 257, 16)]))
_MARGIN = 2.0**-46  # relative: six elementary functions and quotients of 4 ULP = 2^-51 each, and their sums


class RenyiFilter:
    """Privacy filter: decides for each release in turn whether a budget (epsilon, delta) allows it.

    Noise, sampling and the number of steps may be chosen adaptively, from everything released before: as long as
    nothing is run that `spend` did not allow, the whole run is (epsilon, delta)-differentially private. With one Renyi
    order a, releases are allowed while their divergences of order a add up to at most

        B(a) = epsilon - log(1 - 1/a) + (log(delta) + log(a)) / (a - 1)

    (Feldman and Zrnic 2021, Theorem 4.3, and Lecuyer 2021, Theorem 1; the conversion is Canonne, Kamath and Steinke
    2020, Proposition 12). With several orders, each gets an equal share of delta, and a release is allowed if at least
    one order allows it: an allowed run is, up to its end, one that the filter of a single order allows, and the shares
    add up to delta (docs/numerics/training.md).

    Each run that is spent is one release of one sampled batch, as the mechanism says; the filter does not look at an
    optimizer's state, and cannot see batches that were added up before the noise.

    The budget is an upper bound, under the adjacency of the mechanisms that are spent, which has to be the same for
    all. The filter gives no smaller epsilon for a run that stops early because of what was released: the whole budget
    counts as spent, however little of it was used. If the releases are known beforehand, `jaxacct.epsilon` of their
    composition is smaller.

    Args:
      target_epsilon: float > 0, in nats.
      target_delta: float in (0, 1).
      planned: the release that will probably be run most often. The filter uses the single order at which the largest
        number of these releases fits, so that delta is not shared. Other releases may be spent as well.
      orders: float array [A], the Renyi orders a > 1. By default, if nothing is planned, four orders around the best
        one for the Gaussian mechanism, 1 + 2 log(1/delta) / epsilon.
      spent: float array [A], the value of `spent` when an earlier run with the same budget, and the same `planned` or
        `orders`, stopped. Its adjacency is not part of it: what is spent from then on must have the same.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> step = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01, num_steps=1)
    >>> budget = training.RenyiFilter(target_epsilon=2.0, target_delta=1e-6, planned=step)
    >>> budget.affords(step)
    511
    >>> budget.spend(step, count=400)
    True
    >>> budget.spend(ja.Gaussian(noise_multiplier=2.0))   # too much of what is left: nothing is spent
    False
    >>> budget.spend(ja.PoissonSampled(ja.Gaussian(noise_multiplier=2.0), sampling_prob=0.01, num_steps=1), count=200)
    True
    """

    def __init__(
        self,
        target_epsilon: float,
        target_delta: float,
        *,
        planned: Mechanism | None = None,
        orders: Any = None,
        spent: Any = None,
    ):
        check_epsilon("target_epsilon", target_epsilon)
        check_delta("target_delta", target_delta)
        self._epsilon = checked_number("target_epsilon", target_epsilon)
        self._delta = checked_number("target_delta", target_delta)
        if self._epsilon == 0.0:
            raise ValueError(f"target_epsilon={target_epsilon!r} must be > 0: no release fits a budget of 0")
        if planned is not None and orders is not None:
            raise ValueError("planned= chooses the order: it must not be given together with orders=")
        if planned is not None:
            check_mechanism("planned", planned)
            wanted = _planned_order(planned, self._epsilon, self._delta)
        else:
            wanted = _usual_orders(self._epsilon, self._delta) if orders is None else check_orders("orders", orders)
        self._orders = np.unique(wanted)
        self._budget = _renyi_budget(self._orders, self._epsilon, self._delta / len(self._orders))
        before = np.zeros(len(self._orders)) if spent is None else checked_array("spent", spent).astype(np.float64)
        if before.shape != self._orders.shape or not np.all(before >= 0.0):
            raise ValueError(f"spent={spent!r} must be {len(self._orders)} numbers >= 0, one for each order")
        self._spent = before
        self._relation: NeighboringRelation | None = None

    @property
    def orders(self) -> tuple[float, ...]:
        """The Renyi orders, increasing."""
        return tuple(self._orders.tolist())

    @property
    def spent(self) -> tuple[float, ...]:
        """The Renyi divergences spent so far, in nats, one for each order: save them with a checkpoint."""
        return tuple(self._spent.tolist())

    @property
    def left(self) -> tuple[float, ...]:
        """The Renyi divergences left, in nats, one for each order; 0 where the order allows nothing more."""
        return tuple(np.maximum(down(self._budget - self._spent, 4), 0.0).tolist())

    def spend(self, mechanism: Mechanism, *, count: int = 1) -> bool:
        """Whether `count` runs of `mechanism` are within the budget; if so, they count as spent and may be run.

        Raises:
          ValueError: if `mechanism` has no Renyi divergences, or not the adjacency of what was spent before; if `count`
            is not a whole number >= 1.
        """
        cost = self._cost(mechanism)
        whole = up(self._spent + up(checked_whole("count", count, 1, 2**53) * cost, 4), 4)
        if not np.any(whole <= self._budget):
            return False
        self._spent, self._relation = whole, mechanism.relation
        return True

    def affords(self, mechanism: Mechanism) -> int:
        """How many runs of `mechanism` the rest of the budget allows, if nothing else is run; at most 2^53.

        Raises:
          ValueError: as for `spend`.
        """
        return int(np.clip(np.floor(_runs(self._budget - self._spent, self._cost(mechanism)).max()), 0.0, 2.0**53))

    def _cost(self, mechanism: Mechanism) -> NDArray[Any]:
        """The divergence of one run at each order, in the worse direction."""
        check_mechanism("mechanism", mechanism)
        if self._relation not in (None, mechanism.relation):
            raise ValueError(
                f"mechanism={mechanism!r} has the adjacency {mechanism.relation.value!r}, but what was spent has "
                f"{self._relation.value!r}: all runs must have the same adjacency"
            )
        return _divergences(jax.tree.map(python_number, mechanism), self.orders)

    def __repr__(self) -> str:
        return (
            f"RenyiFilter(target_epsilon={self._epsilon}, target_delta={self._delta}, orders={self.orders}, "
            f"spent={self.spent})"
        )


def check_mechanism(name: str, thing: Any) -> None:
    """Raises ValueError unless `thing` is a mechanism whose fields are concrete scalars."""
    if not isinstance(thing, Mechanism):
        raise ValueError(f"{name}={thing!r} {not_a_mechanism(thing)}")
    check_scalar(thing)


def _runs(budget: NDArray[Any], cost: NDArray[Any]) -> NDArray[Any]:
    """How many times `cost` fits into `budget`: a lower bound, and not a whole number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(down(budget / cost, 32), nan=0.0)


def _planned_order(planned: Mechanism, epsilon: float, delta: float) -> NDArray[Any]:
    orders = np.asarray(_PLANNED_ORDERS)
    budget = _renyi_budget(orders, epsilon, delta)
    cost = _divergences(jax.tree.map(python_number, planned), _PLANNED_ORDERS)
    return orders[[_runs(budget, cost).argmax()]]


def _usual_orders(epsilon: float, delta: float) -> NDArray[Any]:
    best = 2.0 * -math.log(delta) / epsilon
    orders = np.maximum(1.0 + best * np.asarray(_SHARES), _LEAST_ORDER)
    return np.where(orders >= _WHOLE_FROM, np.round(orders), orders)


def _renyi_budget(orders: NDArray[Any], epsilon: float, delta: float) -> NDArray[Any]:
    """B(a) at each order, rounded down; below 0 where the order allows nothing."""
    base, tail = log_one_minus_inverse(orders), (math.log(delta) + np.log(orders)) / (orders - 1.0)
    sizes = epsilon + np.abs(base) + (abs(math.log(delta)) + np.log(orders)) / (orders - 1.0)
    return epsilon - base + tail - _MARGIN * sizes


@functools.lru_cache(maxsize=1024)
def _divergences(mechanism: Mechanism, orders: Sequence[float]) -> NDArray[Any]:
    values = np.array(rdp(mechanism, orders).values, np.float64)
    values.flags.writeable = False  # they are cached
    return values
