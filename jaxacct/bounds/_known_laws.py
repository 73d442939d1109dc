"""Laws of parts whose numbers are known while a program is traced, made from the parts' loss distributions.

The program need not compute the law of such a part: the distribution is made on the host, once, and is a constant of
the program. The number of times that the part is run may still be traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct import _trees
from jaxacct._sharing import shared
from jaxacct._types import Bound, Direction, TooFineError
from jaxacct.bounds._distribution import PLAIN_TAIL, Distribution, step_for
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds._sizes import num_points
from jaxacct.divergence.law import Law, given_law
from jaxacct.mechanisms._base import Mechanism

_POINTS = 1008  # of a law
# What follows steers tightness and running time.
_RESOLUTION = 96.0  # points of a distribution per standard deviation of a part's loss
_MOST_POINTS = 2.0**18  # of one distribution


class Known(NamedTuple):
    """A part whose numbers are Python numbers, and the declaration of its loss distributions."""

    part: Mechanism
    distribution: Distribution


class Given(NamedTuple):
    """The laws of a known part, as NumPy arrays, and how many times each is released in one run of the part."""

    law: Law  # of [W, K, 3, G] and [W, K, 2]: W directions, remove and then add
    times: tuple[int, ...]  # [K]


def known(mechanism: Mechanism, distribution_of: Callable[[Mechanism], Distribution | None]) -> Known | None:
    """What is known (class `Known`) of a part; None where a number is traced or an array, or it has no distribution."""
    if not is_scalar(mechanism):
        return None
    distribution = distribution_of(mechanism)
    if distribution is None:
        return None
    return Known(_trees.map_leaves(lambda x: np.asarray(x).item(), mechanism), distribution)


@functools.lru_cache(maxsize=64)
def given(of: Known) -> Given:
    """The laws (class `Given`) of a part, dominating it in each of its directions; made once.

    Where the losses are too fine or too widely spread for a distribution, the law is trivial: its loss is infinite.
    """
    part, distribution = of
    if part.loses_nothing():
        return _of_one_loss(part, 1.0, 0.0)
    try:
        with shared():
            found = _distributions(part, distribution)
    except TooFineError:
        return _of_one_loss(part, 0.0, 1.0)
    laws = [
        [given_law(p.losses, p.masses, p.infinite_mass, _POINTS, is_add=d is Direction.ADD) for p, _ in plds]
        for d, plds in found.items()
    ]
    (times,) = {tuple(count for _, count in plds) for plds in found.values()}  # the same in both directions
    return Given(_stacked(list(map(_stacked, laws))), times)


def _of_one_loss(part: Mechanism, mass: float, infinite_mass: float) -> Given:
    """The law with `mass` at the loss 0, and `infinite_mass` at infinity."""
    law = given_law(np.zeros(1), np.full(1, mass), infinite_mass, _POINTS, is_add=False)
    return Given(_stacked([_stacked([law])] * len(part.directions)), (1,))


def _distributions(part: Mechanism, distribution: Distribution) -> dict[Direction, list[Any]]:
    """The distributions of a part in each direction, each with the number of times it is released."""
    scale = distribution.scale(part)
    resolution = min(_RESOLUTION, _MOST_POINTS / num_points(*scale))
    of = distribution.parts(part, step_for(distribution, part, resolution), Bound.UPPER, PLAIN_TAIL)
    if distribution.is_symmetric(part):
        return dict.fromkeys(part.directions, of(Direction.REMOVE))
    return {d: of(d) for d in part.directions}


def _stacked(laws: list[Law]) -> Law:
    return Law(*(np.stack(x) for x in zip(*laws, strict=True)))


@functools.lru_cache(maxsize=64)
def all_given(every: tuple[Known, ...]) -> Law | None:
    """The laws (class `Law`) of all known parts of a program, as in `Given`; None where there are none."""
    laws = [given(of).law for of in every]
    return Law(*(np.concatenate(x, axis=1) for x in zip(*laws, strict=True))) if laws else None
