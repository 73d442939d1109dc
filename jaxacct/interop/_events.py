"""dp_accounting events from mechanisms, and mechanisms from events."""

from __future__ import annotations

from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event  # type: ignore[import-untyped]

from jaxacct import mechanisms
from jaxacct._jax import jax
from jaxacct._precision import is_traced
from jaxacct._types import Bound, NeighboringRelation
from jaxacct._validate import python_number
from jaxacct.answering._question import check_mechanism
from jaxacct.curves import RdpCurve
from jaxacct.interop._reading import composed_of
from jaxacct.mechanisms import Composed, Gaussian, Laplace, PoissonSampled
from jaxacct.mechanisms._base import Mechanism

_MECHANISM_TYPES = tuple(getattr(mechanisms, name) for name in mechanisms.__all__)


def _checked(mechanism: object) -> Any:
    """The mechanism with Python numbers, which can be compared and hashed."""
    if not isinstance(mechanism, _MECHANISM_TYPES):
        raise ValueError(f"mechanism={mechanism!r} must be a mechanism of jaxacct")
    leaves = jax.tree.leaves(mechanism, is_leaf=lambda x: isinstance(x, list))
    if is_traced(leaves) or any(np.ndim(leaf) for leaf in leaves):
        raise ValueError(f"mechanism={mechanism!r} must have concrete scalar fields: one event for each point")
    check_mechanism(mechanism)
    _ = mechanism.relation  # raises where parts differ
    return jax.tree.map(python_number, mechanism)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class MechanismDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """One run of a jaxacct mechanism, for the accountants of `jaxacct.interop`.

    Args:
      mechanism: any mechanism, with concrete scalar fields.

    Raises:
      ValueError: if a field is traced or an array.

    >>> import dp_accounting, jaxacct as ja
    >>> from jaxacct.interop import MechanismDpEvent, PLDAccountant
    >>> epoch = MechanismDpEvent(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100))
    >>> accountant = PLDAccountant().compose(epoch, 10).compose(dp_accounting.GaussianDpEvent(8.0))
    >>> round(accountant.get_epsilon(1e-6), 2)
    2.04
    """

    mechanism: Mechanism = attr.ib(converter=_checked)


@attr.s(frozen=True, slots=True, auto_attribs=True, eq=False)
class RdpCurveDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """An event for anything whose Renyi divergences lie below a curve, for `jaxacct.interop.RdpAccountant`.

    Args:
      curve: an upper bound for one mechanism, with values of shape [A].

    Raises:
      ValueError: if the curve is not an upper bound, holds in one direction only, or is a batch of curves.

    >>> import jaxacct as ja
    >>> from jaxacct.interop import RdpAccountant, RdpCurveDpEvent
    >>> curve = ja.rdp(ja.Gaussian(2.0), orders=range(2, 64))
    >>> round(float(RdpAccountant().compose(RdpCurveDpEvent(curve), 4).get_epsilon(1e-6)), 2)
    5.22
    """

    curve: RdpCurve

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.curve, RdpCurve):
            raise ValueError(f"curve={self.curve!r} must be an RdpCurve, as jaxacct.rdp returns it")
        if self.curve.bound is not Bound.UPPER:
            raise ValueError(f"curve.bound={self.curve.bound.value!r} must be an upper bound")
        if self.curve.direction is not None:
            raise ValueError(
                f"curve.direction={self.curve.direction.value!r} must be None: "
                "the divergences of an event of dp_accounting hold in both directions"
            )
        if np.shape(self.curve.values) != np.shape(self.curve.orders):
            raise ValueError(f"curve.values of shape {np.shape(self.curve.values)} must be one curve, not a batch")


def from_dp_event(event: Any) -> Any:
    """The mechanism that a dp_accounting event describes, under the mechanism's own adjacency.

    These events are covered: Gaussian, Laplace, discrete Laplace and discrete Gaussian noise, randomized response,
    exponential mechanism and permute-and-flip, (epsilon, delta) and zCDP guarantees, the best of repeated runs;
    Poisson-sampled, randomly allocated and (self-)composed events, and `MechanismDpEvent`. Events are recognised by the
    name of their class, so that those missing from the installed release are read too. Discrete Gaussian noise of
    unknown dimension counts as its zCDP guarantee. A vector with coordinate-wise (discrete) Laplace noise is no worse
    than a number of the same L1 sensitivity: the coordinates' shifts add up as in group privacy, and for such noise the
    trade-off function of a group is that of the sum of its shifts.

    Args:
      event: a `dp_accounting.DpEvent`.

    Returns:
      A mechanism of jaxacct.

    Raises:
      ValueError: if no mechanism here matches an event; the message names the event.

    >>> import dp_accounting as dpa
    >>> from jaxacct.interop import from_dp_event
    >>> from_dp_event(dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.1)), 1000))
    PoissonSampled(mechanism=Gaussian(noise_multiplier=1.1), sampling_prob=0.01, num_steps=1000)
    """
    return composed_of(event)


# mechanism -> the class of its event, which not every release has, and the fields from which the event is made
_MADE = {
    "EpsilonDelta": ("EpsilonDeltaDpEvent", ("guaranteed_epsilon", "guaranteed_delta")),
    "ZCdp": ("ZCDpEvent", ("rho", "xi")),
    "DiscreteLaplace": ("DiscreteLaplaceDpEvent", ("noise_parameter", "sensitivity")),
    "Exponential": ("ExponentialMechanismDpEvent", ("range_epsilon",)),
    "PermuteAndFlip": ("PermuteAndFlipDpEvent", ("choice_epsilon",)),
}


def _repeated(event: Any, count: Any) -> Any:
    return event if count == 1 else dp_event.SelfComposedDpEvent(event, int(count))


def to_dp_event(mechanism: Mechanism) -> Any:
    """The dp_accounting event for a mechanism that dp_accounting itself can express.

    These are `Gaussian`, `Laplace`, `PoissonSampled` and `Composed` of them, `DiscreteLaplace`, `ZCdp`, and the
    mechanisms that the installed release has events for, with concrete scalar fields. Wrap any other mechanism in a
    `MechanismDpEvent`, which the accountants here understand.

    Args:
      mechanism: the mechanism.

    Returns:
      A `dp_accounting.DpEvent`.

    Raises:
      ValueError: if dp_accounting has no such event.

    >>> import jaxacct as ja
    >>> from jaxacct.interop import to_dp_event
    >>> to_dp_event(ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=1))
    PoissonSampledDpEvent(sampling_probability=0.01, event=GaussianDpEvent(noise_multiplier=1.0))
    """
    mechanism = _checked(mechanism)
    if isinstance(mechanism, Gaussian):
        return dp_event.GaussianDpEvent(mechanism.noise_multiplier)
    if isinstance(mechanism, Laplace):
        return dp_event.LaplaceDpEvent(mechanism.noise_multiplier)
    if isinstance(mechanism, PoissonSampled) and isinstance(mechanism.mechanism, Gaussian | Laplace):
        step = dp_event.PoissonSampledDpEvent(mechanism.sampling_prob, to_dp_event(mechanism.mechanism))
        return _repeated(step, mechanism.num_steps)
    if isinstance(mechanism, Composed):
        parts = zip(mechanism.mechanisms, mechanism.counts, strict=True)
        events = [_repeated(to_dp_event(part), count) for part, count in parts]
        return events[0] if len(events) == 1 else dp_event.ComposedDpEvent(events)
    name = type(mechanism).__name__
    made = _MADE.get(name) if mechanism.relation is NeighboringRelation.ADD_OR_REMOVE_ONE else None
    if made is not None and hasattr(dp_event, made[0]):
        return getattr(dp_event, made[0])(*(getattr(mechanism, field) for field in made[1]))
    raise ValueError(f"mechanism={mechanism!r}: dp_accounting has no event for {name}; wrap it in MechanismDpEvent")
