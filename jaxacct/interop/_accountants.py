"""dp_accounting accountants that also understand jaxacct's events."""

import math
import statistics
import warnings
from typing import Any

import dp_accounting  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from jaxacct._method import RenyiMethod
from jaxacct._types import NeighboringRelation, PrecisionWarning
from jaxacct.accounting import delta, epsilon, pld, rdp
from jaxacct.bounds import methods_for
from jaxacct.bounds.composed import distribution_of
from jaxacct.composition import compose
from jaxacct.curves import RdpCurve
from jaxacct.interop._events import MechanismDpEvent, RdpCurveDpEvent
from jaxacct.interop._loss_distributions import to_privacy_loss_distribution
from jaxacct.interop._reading import (
    check_numbers,
    elsewhere,
    in_one_relation,
    leaves_of,
    mechanism_of,
    releases_everything,
    takes_no_part,
    takes_places,
)
from jaxacct.mechanisms import Composed
from jaxacct.membership import tradeoff

_Error = dp_accounting.PrivacyAccountant.CompositionErrorDetails
_Theirs = dp_accounting.NeighboringRelation
_ADD_OR_REMOVE = _Theirs.ADD_OR_REMOVE_ONE

# In every mechanism here, a record takes part independently of all others: replacing it by one that contributes nothing
# (zero-out, their REPLACE_SPECIAL) has the same effect as removing it.
_RELATIONS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: (_Theirs.ADD_OR_REMOVE_ONE, _Theirs.REPLACE_SPECIAL),
    NeighboringRelation.REPLACE_ONE: (_Theirs.REPLACE_ONE,),
    NeighboringRelation.REPLACE_SPECIAL: (_Theirs.REPLACE_SPECIAL,),
}
_OURS = {theirs: ours for ours in NeighboringRelation for theirs in _Theirs if theirs.name == ours.name}
_OURS_ALONE = ("MechanismDpEvent", "RandomAllocationDpEvent")  # events whose tight answers may take seconds
_THEIR_WIDTH = 1e-6  # relative, for other events: the width that dp_accounting's default interval of losses leaves
_RATES = np.geomspace(1e-12, 0.5, 500)  # false positive rates that are looked at, as in dp_accounting
_MAX_EPSILON = 600.0  # nats: delta at a larger epsilon is answered by that at this one, which is no smaller


def _quantile(probability: float) -> float:
    """The standard normal quantile, of an estimate."""
    if not 0.0 < probability < 1.0:
        return math.copysign(math.inf, probability - 0.5)
    return statistics.NormalDist().inv_cdf(probability)


def _relation_error(event: Any, own: NeighboringRelation, theirs: Any, *, also: tuple[Any, ...] = ()) -> Any:
    """None, or the error that names the adjacencies under which the event has a bound: its own, and `also`."""
    allowed = (*_RELATIONS[own], *also)
    mechanism = getattr(event, "mechanism", None)
    if mechanism is not None and own is NeighboringRelation.ADD_OR_REMOVE_ONE and takes_places(mechanism):
        allowed = (_ADD_OR_REMOVE,)
    if theirs in allowed:
        return None
    names = " or ".join(f"`{relation.name}`" for relation in sorted(set(allowed), key=lambda relation: relation.name))
    return _Error(event, f"neighboring_relation must be {names}, not {theirs.name}: the bound is for: {own.value}")


class PLDAccountant(dp_accounting.pld.PLDAccountant):  # type: ignore[misc]
    """dp_accounting's PLD accountant, which also composes `MechanismDpEvent`.

    The composition inside a mechanism is computed by jaxacct, certified, and handed over as one pessimistic
    distribution; everything else is computed by dp_accounting, whose FFT rounding (about 1e-16 absolute in delta) is
    not counted.

    Args:
      neighboring_relation: dp_accounting's. Mechanisms for adding or removing a record are accepted under
        REPLACE_SPECIAL too.
      value_discretization_interval: spacing of the grid of losses, in nats.

    >>> import dp_accounting, jaxacct as ja
    >>> from jaxacct.interop import MechanismDpEvent, PLDAccountant
    >>> make_event = lambda s: MechanismDpEvent(ja.RandomAllocation(ja.Gaussian(s), num_steps=100))
    >>> accountant = PLDAccountant().compose(make_event(1.0)).compose(dp_accounting.LaplaceDpEvent(10.0))
    >>> round(accountant.get_epsilon(1e-6), 2)
    0.9
    """

    _pld: Any

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if not isinstance(event, MechanismDpEvent):
            return super()._maybe_compose(event, count, do_compose)
        error = _relation_error(event, event.mechanism.relation, self.neighboring_relation)
        if error is None and distribution_of(event.mechanism) is None:
            error = _Error(event, f"{event.mechanism!r} has no privacy loss distribution")
        run = Composed(event.mechanism, count) if count > 0 else None
        if error is None and do_compose and run is not None and not run.loses_nothing():
            theirs = to_privacy_loss_distribution(
                *(pld(run, direction=d) for d in run.directions),
                value_discretization_interval=self._value_discretization_interval,
            )
            self._pld = self._pld.compose(theirs)
        return error


def _read_at(curve: RdpCurve, orders: NDArray[Any]) -> NDArray[Any]:
    """A curve at other orders, from above, since Renyi divergences do not fall with the order; inf beyond its last."""
    order = np.argsort(curve.orders)
    at = np.searchsorted(curve.orders[order], orders)
    values = np.append(np.asarray(curve.values, np.float64)[order], np.inf)
    return np.minimum.accumulate(values[::-1])[::-1][at]


class RdpAccountant(dp_accounting.rdp.RdpAccountant):  # type: ignore[misc]
    """dp_accounting's Renyi accountant, which also composes `MechanismDpEvent` and `RdpCurveDpEvent`.

    Args:
      orders: Renyi orders, by default those of dp_accounting; a curve that lacks one of them is read at its next larger
        order.
      neighboring_relation: dp_accounting's. Mechanisms for adding or removing a record are accepted under
        REPLACE_SPECIAL too.

    >>> import dp_accounting, jaxacct as ja
    >>> from jaxacct.interop import MechanismDpEvent, RdpAccountant
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000)
    >>> accountant = RdpAccountant(orders=range(2, 64)).compose(MechanismDpEvent(run), 10)
    >>> round(float(accountant.compose(dp_accounting.GaussianDpEvent(8.0)).get_epsilon(1e-6)), 2)
    1.08
    """

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if isinstance(event, RdpCurveDpEvent):
            error = _relation_error(event, event.curve.neighboring_relation, self.neighboring_relation)
        elif isinstance(event, MechanismDpEvent):
            error = self._mechanism_error(event)
        else:
            return super()._maybe_compose(event, count, do_compose)
        if error is None and do_compose and count > 0:
            curve = event.curve if isinstance(event, RdpCurveDpEvent) else rdp(event.mechanism, self._orders)
            self._rdp += _read_at(compose(curve, count), self._orders)
        return error

    def _mechanism_error(self, event: MechanismDpEvent) -> Any:
        mechanism = event.mechanism
        parts = mechanism.mechanisms if isinstance(mechanism, Composed) else (mechanism,)
        if not all(any(isinstance(m, RenyiMethod) for m in methods_for(part)) for part in parts):
            return _Error(event, f"{mechanism!r} has no Renyi divergences here")
        return _relation_error(event, mechanism.relation, self.neighboring_relation)


class CertifiedAccountant(dp_accounting.PrivacyAccountant):  # type: ignore[misc]
    """jaxacct behind dp_accounting's interface: certified answers by `jaxacct.epsilon` and `jaxacct.delta`.

    It takes the events that `from_dp_event` takes, and works in code that knows only dp_accounting, such as its
    calibration or jax_privacy's training accountants.

    Args:
      neighboring_relation: dp_accounting's. Mechanisms for adding or removing a record are accepted under
        REPLACE_SPECIAL too.
      precision: relative width of the answers, as for `jaxacct.epsilon` and `jaxacct.delta`. By default that of these
        functions, but 1e-6 if dp_accounting's own accountants support all events too, so that the answers are as tight
        as theirs.

    >>> import dp_accounting as dpa
    >>> from jaxacct.interop import CertifiedAccountant
    >>> step = dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0))
    >>> round(CertifiedAccountant().compose(step, 1000).get_epsilon(1e-6), 2)
    2.12
    """

    def __init__(self, neighboring_relation: Any = _ADD_OR_REMOVE, *, precision: float | None = None) -> None:
        super().__init__(neighboring_relation)
        self._precision = precision
        self._counts: dict[Any, int] = {}
        self._is_unbounded = False
        self._is_theirs = True

    @property
    def mechanism(self) -> Composed | None:
        """What was composed so far, or None; for REPLACE_ONE it is labelled as if for adding or removing a record."""
        parts = in_one_relation(tuple(self._counts))
        return Composed(parts, tuple(self._counts.values())) if parts else None

    def compose(self, event: Any, count: int = 1) -> Any:
        """Composes `count` runs of `event`; raises ValueError if one of its numbers is out of range."""
        if isinstance(event, dp_accounting.DpEvent):
            check_numbers(event)
        return super().compose(event, count)

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        releases: list[tuple[Any, int, Any]] = []
        is_unbounded = False
        for leaf, times in leaves_of(event, count):
            if takes_no_part(leaf):
                continue
            if releases_everything(leaf):
                is_unbounded |= times > 0
                continue
            mechanism, error = self._read(leaf)
            if error is not None:
                return error
            releases.append((mechanism, times, leaf))
        if in_one_relation((*self._counts, *(mechanism for mechanism, _, _ in releases))) is None:
            message = "reports and records that another may replace do not compose here: account for them apart"
            return _Error(event, message)
        if do_compose:  # all parts or none: an error that is found now would not reach the caller
            self._is_unbounded |= is_unbounded
            for mechanism, times, leaf in releases:
                self._is_theirs &= type(leaf).__name__ not in _OURS_ALONE
                if times > 0 and not mechanism.loses_nothing():
                    self._counts[mechanism] = self._counts.get(mechanism, 0) + times
        return None

    @property
    def _asked(self) -> Any:
        """The mechanism to be accounted for: one run of one mechanism stands for itself."""
        alone = len(self._counts) == 1 and set(self._counts.values()) == {1}
        return next(iter(self._counts)) if alone else self.mechanism

    def _read(self, event: Any) -> tuple[Any, Any]:
        """(the mechanism that stands for an event under the accountant's adjacency, error): one of them is None."""
        try:
            found = elsewhere(event, _OURS[self.neighboring_relation])
            own = mechanism_of(event) if found is None else found
            also = tuple(theirs for theirs, ours in _OURS.items() if elsewhere(event, ours) is not None)
            error = _relation_error(event, own.relation, self.neighboring_relation, also=also)
        except ValueError as reason:
            return None, _Error(event, str(reason))
        if found is None and error is not None:
            return None, error
        return own if found is None else found, None

    def get_epsilon(self, target_delta: float) -> float:
        """The certified epsilon of everything composed; at a delta of 0, the largest privacy loss, inf if unknown."""
        if self._is_unbounded:
            return math.inf
        if self.mechanism is None or target_delta >= 1.0:
            return 0.0
        if target_delta <= 0.0:
            distribution = distribution_of(self._asked)
            return math.inf if distribution is None else float(distribution.largest_loss(self._asked))
        return self._answer(epsilon, target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        """The certified delta of everything composed; beyond an epsilon of 600, the delta at 600."""
        if self._is_unbounded:
            return 1.0
        if self.mechanism is None:
            return 0.0
        return self._answer(delta, min(target_epsilon, _MAX_EPSILON))

    def _answer(self, ask: Any, target: float) -> float:
        if self._precision is not None or not self._is_theirs:
            return float(ask(self._asked, target, precision=self._precision))
        with warnings.catch_warnings():  # nobody asked for it
            warnings.simplefilter("ignore", PrecisionWarning)
            return float(ask(self._asked, target, precision=_THEIR_WIDTH))

    def get_true_positive_rates(self, false_positive_rates: Any, deltas: Any = None) -> Any:
        """Certified bounds on the true positive rate of any test for one record at these false positive rates.

        They are ``1 - jaxacct.tradeoff``, upper bounds; `deltas` is ignored: jaxacct chooses the deltas itself.
        """
        del deltas
        rates = np.asarray(false_positive_rates, np.float64)
        if self._is_unbounded:
            found = np.ones_like(rates)
        elif self.mechanism is None:
            found = rates
        else:
            found = 1.0 - np.asarray(tradeoff(self._asked, rates))
        return found if rates.ndim else float(found)

    def get_gdp_parameter_estimate(self, false_positive_rates: Any = None, deltas: Any = None) -> float:
        """The smallest mu whose Gaussian trade-off covers the true positive rates at these false positive rates.

        It is an estimate: nothing is checked between the rates or beyond them. As in dp_accounting, it is inf if the
        privacy loss is infinite with a probability above the smallest of the rates, 1e-12 if none are given.
        """
        del deltas
        if self._is_unbounded:
            return math.inf
        rates = _RATES if false_positive_rates is None else np.asarray(false_positive_rates, np.float64)
        if self.mechanism is None:
            return 0.0
        if self.get_delta(_MAX_EPSILON) > rates.min():
            return math.inf
        found = np.asarray(self.get_true_positive_rates(rates))
        pairs = zip(found.ravel().tolist(), rates.ravel().tolist(), strict=True)
        return max(0.0, *(_quantile(power) - _quantile(rate) for power, rate in pairs))
