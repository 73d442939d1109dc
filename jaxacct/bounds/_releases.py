"""What a mechanism consists of, as a list of independent releases that have laws (`jaxacct.bounds._by_laws`).

Another mechanism gets a row in `_LISTED`; another kind of release also a list in `Releases`, its range in `covered`,
and what makes its law in `jaxacct.bounds._by_laws`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxacct.bounds._clones_pair import has_pair, pair_of
from jaxacct.bounds._parts import flattened
from jaxacct.bounds._split import splits_unevenly
from jaxacct.composition import allocation_groups
from jaxacct.divergence.law import LEAST_NOISE, MOST_LOCAL, MOST_PROB
from jaxacct.mechanisms import (
    FiniteRandomizer,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    LaplaceReports,
    LocalRandomizer,
    PoissonSampled,
    RandomAllocation,
    Shuffled,
)
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import up

_MOST_STEPS = 2.0**40  # of an epoch


class _Step(NamedTuple):
    """Steps that each record joins with a probability: the noise, the probability, how many."""

    noise: Any
    prob: Any
    count: Any


class _Epoch(NamedTuple):
    """Epochs in which each record joins one step: the noise, the steps of an epoch, how many epochs."""

    noise: Any
    steps: Any
    count: Any


class _Round(NamedTuple):
    """Rounds of shuffled reports of a pure randomizer: local epsilon, clone probability, reports, how many rounds."""

    local: Any
    clones: Any
    reports: Any
    count: Any


class Releases(NamedTuple):
    """What a mechanism consists of, by kind; rounds of reports are never beside others."""

    gaussian: list[_Step]
    laplace: list[_Step]
    epochs: list[_Epoch]
    rounds: list[_Round]


def releases_of(mechanism: Mechanism, uneven: tuple[bool, ...]) -> Releases:
    """A tuple (class `Releases`) of what a mechanism of numbers consists of.

    `uneven` says of each part, in order, whether groups of steps differ.
    """
    found = Releases([], [], [], [])
    for (part, count), is_uneven in zip(flattened(mechanism), uneven, strict=True):
        _LISTED[part.signature()](found, part, count, is_uneven)
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


def _list_rounds(found: Releases, of: Any, count: Any, _: bool) -> None:
    found.rounds.append(_rounds(of, count))


# what takes the releases of a part, run so many times, into a list
_LISTED: dict[Any, Callable[[Releases, Any, Any, bool], None]] = {
    (Gaussian,): lambda found, of, count, _: found.gaussian.append(_one(of, count)),
    (Laplace,): lambda found, of, count, _: found.laplace.append(_one(of, count)),
    (PoissonSampled, Gaussian): lambda found, of, count, _: found.gaussian.append(_sampled(of, count)),
    (PoissonSampled, Laplace): lambda found, of, count, _: found.laplace.append(_sampled(of, count)),
    (RandomAllocation, Gaussian): lambda found, of, count, uneven: found.epochs.extend(_epochs(of, count, uneven)),
    (Shuffled, LocalRandomizer): _list_rounds,
    (Shuffled, KaryRandomizedResponse): _list_rounds,
    (Shuffled, LaplaceReports): _list_rounds,
    (Shuffled, FiniteRandomizer): _list_rounds,
}


def has_laws(mechanism: Mechanism) -> bool:
    """bool: whether every part has a law here, and some part is no plain Gaussian release."""
    parts = [part for part, _ in flattened(mechanism)]
    signatures = [part.signature() for part in parts]
    return all(map(_has_law, parts)) and any(signature != (Gaussian,) for signature in signatures)


def _has_law(part: Mechanism) -> bool:
    signature = part.signature()
    return signature in _LISTED and (signature[0] is not Shuffled or has_pair(part))


def statics(mechanism: Mechanism) -> dict[str, Any]:
    """A dict of the static arguments of `releases_of`."""
    parts: list[Any] = [part for part, _ in flattened(mechanism)]
    return {"uneven": tuple(p.signature()[0] is RandomAllocation and splits_unevenly(p) for p in parts)}


def covered(of: Releases) -> Any:
    """bool: whether all that is released is in the range of the laws."""
    found = [jnp.ones((), bool)]
    for step in (*of.gaussian, *of.laplace):
        found.append((step.noise >= LEAST_NOISE) & (step.prob > 0.0) & ((step.prob <= MOST_PROB) | (step.prob == 1.0)))
    for epoch in of.epochs:
        found.append((epoch.noise >= LEAST_NOISE) & (epoch.steps >= 1.0) & (epoch.steps <= _MOST_STEPS))
    for of_reports in of.rounds:
        is_usual = (of_reports.local > 0.0) & (of_reports.local <= MOST_LOCAL) & (of_reports.reports >= 1.0)
        found.append(is_usual & (of_reports.clones > 0.0) & (of_reports.clones <= 1.0))
    return functools.reduce(jnp.logical_and, found)


def most(of: Releases) -> Any:
    """A number at least epsilon, of rounds of reports: what they are without amplification; else inf."""
    if not of.rounds:
        return jnp.inf
    local, reports, count = (jnp.stack([jnp.asarray(x[i]) for x in of.rounds]) for i in (0, 2, 3))
    total = up(jnp.sum(jnp.where(count > 0.0, local * count, 0.0)), len(of.rounds) + 4)
    return jnp.where(jnp.all((local >= 0.0) & (reports >= 1.0) & (count >= 0.0)), total, jnp.inf)


def harmless(of: Releases, is_covered: Any) -> Releases:
    """A tuple: the same releases with numbers in the range of the laws where they are not, whose answers are not used."""
    usual = {"noise": 1.0, "prob": 0.5, "steps": 100.0, "count": 1.0, "local": 1.0, "clones": 0.3, "reports": 100.0}

    def kept(kind: Any) -> Any:
        return type(kind)(*(jnp.where(is_covered, x, usual[name]) for name, x in kind._asdict().items()))

    return Releases(*(list(map(kept, kinds)) for kinds in of))


def numbers_of(of: Releases) -> Any:
    """[R, P + 1]: the numbers of all releases, in the order of their laws, how often they are run last."""
    return jnp.stack([jnp.stack([jnp.asarray(x, jnp.float64) for x in kind]) for kinds in of for kind in kinds])
