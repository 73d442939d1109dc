"""Events of dp_accounting read as mechanisms, by the name of their class and their fields.

An event is known by the name of its class, so that one that the installed release of dp_accounting does not have yet
is read too; one whose fields are not those listed here is refused.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import attr
from dp_accounting import dp_event  # type: ignore[import-untyped]

from jaxacct.mechanisms import ContinuousPair, DiscretePair, Gaussian, Laplace, PoissonSampled, RandomAllocation

_BASES = (Gaussian, Laplace, DiscretePair, ContinuousPair)  # what Poisson sampling and allocation take
_SHARE_DOWN = 1.0 - 2.0**-50  # of a noise multiplier, for each part that it is put together from


def leaves_of(event: Any, count: int = 1) -> Iterator[tuple[Any, int]]:
    """The events of a composition with their counts, without those that do nothing."""
    if isinstance(event, dp_event.SelfComposedDpEvent):
        yield from leaves_of(event.event, count * event.count)
    elif isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            yield from leaves_of(part, count)
    elif not isinstance(event, dp_event.NoOpDpEvent):
        yield event, count


def _one_release(event: Any) -> Any:
    """What one sample goes through. Gaussians on one sample add their 1/sigma^2 (adaptively too)."""
    parts = [(mechanism_of(leaf), count) for leaf, count in leaves_of(event.event) if count > 0]
    if len(parts) == 1 and parts[0][1] == 1 and isinstance(parts[0][0], _BASES):
        return parts[0][0]
    if not parts or not all(isinstance(part, Gaussian) for part, _ in parts):
        name = type(event).__name__
        raise ValueError(f"event={event.event!r} inside {name} must be one release, or Gaussians composed")
    precision = sum(count * part.noise_multiplier**-2.0 for part, count in parts)
    return Gaussian(precision**-0.5 * (1.0 - 2.0**-50 * len(parts)))


def _allocated(event: Any) -> Any:
    return RandomAllocation(_one_release(event), event.num_steps, event.num_selected)


_Read = Callable[[Any], Any]
_EVENTS: dict[str, tuple[tuple[str, ...], _Read]] = {
    "MechanismDpEvent": (("mechanism",), lambda event: event.mechanism),
    "GaussianDpEvent": (("noise_multiplier",), lambda event: Gaussian(event.noise_multiplier)),
    "LaplaceDpEvent": (("noise_multiplier",), lambda event: Laplace(event.noise_multiplier)),
    "PoissonSampledDpEvent": (
        ("sampling_probability", "event"),
        lambda event: PoissonSampled(_one_release(event), event.sampling_probability),
    ),
    "RandomAllocationDpEvent": (("event", "num_selected", "num_steps"), _allocated),
}


def mechanism_of(event: Any) -> Any:
    """The mechanism of an event that is no composition; raises ValueError if there is none."""
    name = type(event).__name__
    if name not in _EVENTS or not attr.has(type(event)):
        raise ValueError(f"event={event!r}: {name} has no jaxacct mechanism")
    fields, read = _EVENTS[name]
    found = tuple(field.name for field in attr.fields(type(event)))
    if set(found) != set(fields):
        differing = ", ".join(sorted({*found} ^ {*fields}))
        raise ValueError(f"event={event!r}: its fields are not those of {name} as it is known here ({differing})")
    return read(event)


def takes_no_part(event: Any) -> bool:
    """Whether no record ever takes part in what an event runs, so that nothing is lost whatever it releases."""
    return getattr(event, "sampling_probability", None) == 0 or getattr(event, "num_selected", None) == 0


def releases_everything(event: Any) -> bool:
    """Whether an event that is no composition gives no privacy at all: no noise, or no mechanism worth the name."""
    if takes_no_part(event):
        return False
    if isinstance(getattr(event, "event", None), dp_event.DpEvent):  # what is sampled or allocated
        return any(releases_everything(leaf) for leaf, count in leaves_of(event.event) if count > 0)
    noiseless = math.inf if not hasattr(event, "noise_multiplier") else event.noise_multiplier
    return isinstance(event, dp_event.NonPrivateDpEvent) or noiseless == 0
