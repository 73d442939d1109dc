"""A mechanism as a list of independent releases that have laws (`jaxacct.bounds._by_laws`).

A new mechanism needs a row in `_LISTED`, or in `_REPLACED` where its record is replaced. A new kind of release also
needs a list in `Releases`, its range in `covered`, its largest loss in `jaxacct.bounds._unamplified`, and the function
that makes its law in `jaxacct.bounds._by_laws`. Any other mechanism with a loss distribution has laws where its own
numbers are concrete (`jaxacct.bounds._known_laws`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jnp
from jaxacct.bounds._clones_pair import has_pair, pair_of
from jaxacct.bounds._known_laws import Known
from jaxacct.bounds._known_laws import given as given_laws
from jaxacct.bounds._parts import flattened
from jaxacct.bounds._split import splits_unevenly
from jaxacct.composition import allocation_groups
from jaxacct.divergence.law import LEAST_NOISE, MOST_LOCAL, MOST_LOSS, covers_discrete_gaussian
from jaxacct.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    FiniteRandomizer,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    LaplaceReports,
    LocalRandomizer,
    PoissonSampled,
    RandomAllocation,
    RandomizedResponse,
    ReplaceOne,
    Shuffled,
)
from jaxacct.mechanisms._base import Mechanism

WHOLE_POINTS = 1007  # number of integers that the law of discrete noise covers
_MOST_STEPS = 2.0**40  # of an epoch
_USUAL = {
    "noise": 1.0,
    "prob": 0.5,
    "steps": 100.0,
    "count": 1.0,
    "local": 1.0,
    "clones": 0.3,
    "reports": 100.0,
    "loss": 1.0,
    "failure": 1e-9,
    "categories": 2.0,
    "scale": 1.0,
    "sensitivity": 1.0,
    "number": 0.0,
}
_ROOM = {"prob": 1, "clones": 1, "categories": 2, "sensitivity": 2, "number": 2}  # 1: probabilities; 2: not moved


class _Step(NamedTuple):
    """Steps that each record joins with some probability: the noise, the probability, the number of steps."""

    noise: Any
    prob: Any
    count: Any


class _Epoch(NamedTuple):
    """Epochs in which each record joins one step: the noise, the steps of an epoch, the number of epochs."""

    noise: Any
    steps: Any
    count: Any


class _Round(NamedTuple):
    """Rounds of shuffled reports of a pure randomizer: local epsilon, clone probability, reports, number of rounds."""

    local: Any
    clones: Any
    reports: Any
    count: Any


class _Given(NamedTuple):
    """(epsilon, delta)-DP releases: the guarantee, the probability that a record joins, the number of releases."""

    loss: Any
    failure: Any
    prob: Any
    count: Any


class _Response(NamedTuple):
    """Randomized responses: the largest loss, the number of categories, the number of responses."""

    loss: Any
    categories: Any
    count: Any


class _Whole(NamedTuple):
    """Steps with integer-valued noise: its parameter, the sensitivity, the probability, the number of steps."""

    scale: Any
    sensitivity: Any
    prob: Any
    count: Any


class _Known(NamedTuple):
    """Releases whose law is a constant of the program: its index among these, the number of releases."""

    number: Any
    count: Any


class Releases(NamedTuple):
    """The independent releases of a mechanism, by kind."""

    gaussian: list[_Step]
    laplace: list[_Step]
    replaced: list[_Step]
    epochs: list[_Epoch]
    laplace_epochs: list[_Epoch]
    rounds: list[_Round]
    given: list[_Given]
    responses: list[_Response]
    discrete_gaussian: list[_Whole]
    discrete_laplace: list[_Whole]
    known: list[_Known]


def releases_of(mechanism: Mechanism, uneven: tuple[bool, ...], known: tuple[Known | None, ...]) -> Releases:
    """A tuple (class `Releases`) of the independent releases of a mechanism.

    For each part, in order, `uneven` says whether its groups of steps differ in size; `known` holds what is known of it
    if its law is a constant, else None.
    """
    found = Releases(*([] for _ in Releases._fields))
    for (part, count), is_uneven, of in zip(flattened(mechanism), uneven, known, strict=True):
        if of is None:
            _LISTED[part.signature()](found, part, count, is_uneven)
        else:
            first = len(found.known)
            found.known.extend(_Known(float(i), n * count) for i, n in enumerate(given_laws(of).times, first))
    return found


def _one(of: Any, count: Any) -> _Step:
    return _Step(of.noise_multiplier, jnp.ones(()), count)


def _sampled(of: Any, count: Any) -> _Step:
    return _Step(of.mechanism.noise_multiplier, of.sampling_prob, of.num_steps * count)


def _epochs(of: Any, count: Any, is_uneven: bool) -> list[_Epoch]:
    groups = allocation_groups(of.num_steps, of.num_selected, of.num_epochs, uneven=is_uneven)
    return [_Epoch(of.mechanism.noise_multiplier, n, runs * count) for n, runs in groups]


def _rounds(of: Any, count: Any) -> _Round:
    prob, local = pair_of(of.mechanism)
    return _Round(local, prob, of.num_reports, of.num_epochs * count)


def _given(of: Any, prob: Any, count: Any) -> _Given:
    return _Given(of.guaranteed_epsilon, of.guaranteed_delta, prob, count)


def _gaussian_noise(of: Any, prob: Any, count: Any) -> _Whole:
    return _Whole(of.scale, of.sensitivity, prob, count)


def _laplace_noise(of: Any, prob: Any, count: Any) -> _Whole:
    return _Whole(of.noise_parameter, of.sensitivity, prob, count)


def _list_rounds(found: Releases, of: Any, count: Any, _: bool) -> None:
    found.rounds.append(_rounds(of, count))


# releases that have a law of their own where their record is replaced
_REPLACED: dict[Any, Callable[[Any, Any], _Step]] = {(Gaussian,): _one, (PoissonSampled, Gaussian): _sampled}


def _list_replaced(found: Releases, of: Any, count: Any, _: bool) -> None:
    for part, times in flattened(of.mechanism):
        found.replaced.append(_REPLACED[part.signature()](part, times * count))


# functions that append the releases of a part, run so many times, to their lists
_LISTED: dict[Any, Callable[[Releases, Any, Any, bool], None]] = {
    (Gaussian,): lambda found, of, count, _: found.gaussian.append(_one(of, count)),
    (Laplace,): lambda found, of, count, _: found.laplace.append(_one(of, count)),
    (PoissonSampled, Gaussian): lambda found, of, count, _: found.gaussian.append(_sampled(of, count)),
    (PoissonSampled, Laplace): lambda found, of, count, _: found.laplace.append(_sampled(of, count)),
    (RandomAllocation, Gaussian): lambda found, of, count, uneven: found.epochs.extend(_epochs(of, count, uneven)),
    (RandomAllocation, Laplace): lambda found, of, count, uneven: found.laplace_epochs.extend(
        _epochs(of, count, uneven)
    ),
    (ReplaceOne,): _list_replaced,
    (Shuffled, LocalRandomizer): _list_rounds,
    (Shuffled, KaryRandomizedResponse): _list_rounds,
    (Shuffled, LaplaceReports): _list_rounds,
    (Shuffled, FiniteRandomizer): _list_rounds,
    (RandomizedResponse,): lambda found, of, count, _: found.responses.append(
        _Response(of.local_epsilon, of.num_categories, count)
    ),
    (EpsilonDelta,): lambda found, of, count, _: found.given.append(_given(of, jnp.ones(()), count)),
    (PoissonSampled, EpsilonDelta): lambda found, of, count, _: found.given.append(
        _given(of.mechanism, of.sampling_prob, of.num_steps * count)
    ),
    (DiscreteGaussian,): lambda found, of, count, _: found.discrete_gaussian.append(
        _gaussian_noise(of, jnp.ones(()), count)
    ),
    (PoissonSampled, DiscreteGaussian): lambda found, of, count, _: found.discrete_gaussian.append(
        _gaussian_noise(of.mechanism, of.sampling_prob, of.num_steps * count)
    ),
    (DiscreteLaplace,): lambda found, of, count, _: found.discrete_laplace.append(
        _laplace_noise(of, jnp.ones(()), count)
    ),
    (PoissonSampled, DiscreteLaplace): lambda found, of, count, _: found.discrete_laplace.append(
        _laplace_noise(of.mechanism, of.sampling_prob, of.num_steps * count)
    ),
}


LISTED = frozenset(_LISTED) - {(ReplaceOne,)}
"""The signatures of mechanisms that have laws of traced numbers, whatever they wrap."""


def has_laws(mechanism: Mechanism) -> bool:
    """bool: whether every part has a law of its numbers, and some part is no plain Gaussian release."""
    parts = [part for part, _ in flattened(mechanism)]
    return all(map(has_law, parts)) and any(part.signature() != (Gaussian,) for part in parts)


def has_law(part: Any) -> bool:
    """bool: whether a part has a law whatever its numbers are, all of which may be traced."""
    signature = part.signature()
    if signature == (ReplaceOne,):
        return all(inner.signature() in _REPLACED for inner, _ in flattened(part.mechanism))
    return signature in _LISTED and (signature[0] is not Shuffled or has_pair(part))


def nothing_known(part: Mechanism) -> None:
    """None, for every part: only laws of traced numbers are used."""
    del part


def statics(mechanism: Mechanism, known_of: Callable[[Mechanism], Known | None] = nothing_known) -> dict[str, Any]:
    """A dict of the static arguments of `releases_of`.

    Args:
      known_of: gives what is known of a part that has no law of its numbers.
    """
    parts: list[Any] = [part for part, _ in flattened(mechanism)]
    return {
        "uneven": tuple(p.signature()[0] is RandomAllocation and splits_unevenly(p) for p in parts),
        "known": tuple(None if has_law(part) else known_of(part) for part in parts),
    }


def covered(of: Releases) -> Any:
    """bool: whether all that is released is in the range of the laws."""
    found = [jnp.ones((), bool)]
    sampled: list[Any] = [
        *of.gaussian,
        *of.laplace,
        *of.replaced,
        *of.given,
        *of.discrete_gaussian,
        *of.discrete_laplace,
    ]
    for step in sampled:
        found.append((step.prob > 0.0) & (step.prob <= 1.0))
    for step in (*of.gaussian, *of.laplace, *of.replaced):
        found.append(step.noise >= LEAST_NOISE)
    for epoch in (*of.epochs, *of.laplace_epochs):
        found.append((epoch.noise >= LEAST_NOISE) & (epoch.steps >= 1.0) & (epoch.steps <= _MOST_STEPS))
    for of_reports in of.rounds:
        is_usual = (of_reports.local > 0.0) & (of_reports.local <= MOST_LOCAL) & (of_reports.reports >= 1.0)
        found.append(is_usual & (of_reports.clones > 0.0) & (of_reports.clones <= 1.0))
    for given in of.given:
        found.append((given.loss >= 0.0) & (given.loss <= MOST_LOSS) & (given.failure >= 0.0) & (given.failure < 1.0))
    for response in of.responses:
        found.append((response.loss >= 0.0) & (response.loss <= MOST_LOSS) & (response.categories >= 2.0))
    for noise in of.discrete_gaussian:
        is_narrow = covers_discrete_gaussian(noise.scale, noise.sensitivity, WHOLE_POINTS)
        found.append(is_narrow & (noise.scale >= LEAST_NOISE * noise.sensitivity) & (noise.sensitivity >= 1.0))
    for noise in of.discrete_laplace:
        is_narrow = (noise.sensitivity >= 1.0) & (noise.sensitivity < WHOLE_POINTS)
        found.append(is_narrow & (noise.scale > 0.0) & (noise.scale * noise.sensitivity <= MOST_LOSS))
    return functools.reduce(jnp.logical_and, found)


def harmless(of: Releases, is_covered: Any) -> Releases:
    """A tuple: the same releases, with harmless numbers where the laws do not cover them; answers there are unused."""

    def kept(kind: Any) -> Any:
        return type(kind)(*(jnp.where(is_covered, x, _USUAL[name]) for name, x in kind._asdict().items()))

    return Releases(*(list(map(kept, kinds)) for kinds in of))


def numbers_of(of: Releases) -> Any:
    """[R, P + 1]: the numbers of all releases, in the order of their laws, padded with 1, and their counts last."""
    rows = [[jnp.asarray(x, jnp.float64) for x in kind] for kinds in of for kind in kinds]
    width = max(map(len, rows))
    return jnp.stack([jnp.stack([*row[:-1], *[jnp.ones(())] * (width - len(row)), row[-1]]) for row in rows])


def room_of(of: Releases, numbers: Any) -> Any:
    """[R, P]: how far `numbers` [R, P] may be moved for a derivative, relative to their own size, at most 1.

    A probability stays a probability. Small whole numbers are not moved.
    """
    names = [kind._fields[:-1] for kinds in of for kind in kinds]
    width = numbers.shape[1]
    kinds = np.array([[_ROOM.get(name, 0) for name in row] + [2] * (width - len(row)) for row in names])
    return jnp.where(kinds == 0, 1.0, jnp.where(kinds == 1, jnp.maximum(1.0 - numbers, 0.0), 0.0))
