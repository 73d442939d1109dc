"""Questions about compositions of allocation rounds, Gaussian and Laplace steps, sampled or not, in one direction each.

A *family* consists of rounds of a question with the same noise multiplier and about the same length: they share one
transform of a step's likelihood ratio, and one line behind their moments.

Shapes: [L] lanes, one question each; [F] families; [R] rounds of allocation.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction
from jaxacct.divergence.allocation._grid import Real

_ALIKE = 1.25  # the longest round of a family over the shortest, at most: steers running time


class Rounds(NamedTuple):
    """Runs of 1-out-of-`steps` allocation, `steps` > 1, by families."""

    num: int  # L
    lane: Any  # [F], the question of each family
    noise_multiplier: Real  # [F]
    family: Any  # [R]
    steps: Real  # [R]
    times: Real  # [R], number of runs of each

    @property
    def uses(self) -> Real:
        """The number of rounds run of each family [F]."""
        return np.bincount(self.family, self.times, len(self.lane))

    @property
    def mean(self) -> Real:
        """The mean length [F]."""
        return np.bincount(self.family, self.times * self.steps, len(self.lane)) / self.uses

    def at(self, lanes: Any) -> "Rounds":
        """The rounds of some lanes, which are renumbered 0, 1, .."""
        place = np.full(self.num, -1)
        place[lanes] = np.arange(len(lanes))
        return self.where(place[self.lane] >= 0)._replace(num=len(lanes), lane=place[self.lane[place[self.lane] >= 0]])

    def where(self, kept: Any) -> "Rounds":
        """The rounds of the families `kept`, bool [F]."""
        place, mine = np.cumsum(kept) - 1, kept[self.family]
        return Rounds(
            self.num,
            self.lane[kept],
            self.noise_multiplier[kept],
            place[self.family[mine]],
            self.steps[mine],
            self.times[mine],
        )

    def total(self, of: Any) -> Any:
        """The sum [L, ..] of `of` [F, ..] over the families of each lane."""
        out = np.zeros((self.num, *np.shape(of)[1:]))
        np.add.at(out, self.lane, of)
        return out


class Sampled(NamedTuple):
    """Steps of one release each that a record joins with some probability, which may be 1 for `Laplace` steps."""

    lane: Any  # [R], their question
    noise_multiplier: Real  # [R]
    prob: Real  # [R]
    times: Real  # [R], number of runs of each

    def at(self, lanes: Any, num: int) -> "Sampled":
        """The steps of some of `num` lanes, which are renumbered 0, 1, .."""
        place = np.full(num, -1)
        place[lanes] = np.arange(len(lanes))
        own = place[self.lane]
        kept = own >= 0
        return Sampled(own[kept], *(x[kept] for x in self[1:]))

    @classmethod
    def none(cls) -> "Sampled":
        """No steps at all."""
        return sampled(())


def no_rounds(num: int) -> Rounds:
    """`Rounds` (a class) of `num` questions that have none."""
    empty, none = np.zeros(0), np.zeros(0, int)
    return Rounds(num, none, empty, none, empty, empty)


def sampled(every: Sequence[tuple[float, float, float]]) -> Sampled:
    """`Sampled` (a class) of one question, from tuples of noise multiplier, probability and number of steps."""
    columns = np.array(every, np.float64).reshape(-1, 3).T
    return Sampled(np.zeros(len(every), int), *columns)


class Questions(NamedTuple):
    """Questions: the target, the direction and the composition of each."""

    target: Real  # [L], delta or epsilon
    adds: Any  # bool [L]: whether the direction is ADD; with allocation rounds, the same for all
    rounds: Rounds
    variance: Real  # [L], of the loss of all Gaussian steps together: the sum of 1/sigma^2
    sampled: Sampled  # Gaussian steps, probabilities below 1
    laplace: Sampled  # Laplace steps

    def at(self, lanes: Any) -> "Questions":
        """The questions of some lanes."""
        num = len(self.target)
        if num == len(lanes) == 1:
            return self
        return Questions(
            self.target[lanes],
            self.adds[lanes],
            self.rounds.at(lanes),
            self.variance[lanes],
            self.sampled.at(lanes, num),
            self.laplace.at(lanes, num),
        )

    @property
    def direction(self) -> Direction:
        """The direction of the first question, for questions that share it."""
        return Direction.ADD if self.adds[0] else Direction.REMOVE

    @property
    def is_plain(self) -> Any:
        """Which questions are about allocation rounds and Gaussian steps alone, bool [L]."""
        out = np.ones(len(self.target), bool)
        for every in (self.sampled, self.laplace):
            out[every.lane] = False
        return out

    def plain(self) -> tuple[Any, Real, Real, Real]:
        """All that is not sampled, as rounds: lanes, noise multipliers, lengths (1: Gaussian) and numbers of runs."""
        rounds, gaussian = self.rounds, np.flatnonzero(self.variance > 0.0)
        ones = np.ones(len(gaussian))
        noise = rounds.noise_multiplier[rounds.family]
        return (
            np.concatenate([rounds.lane[rounds.family], gaussian]),
            np.concatenate([noise, self.variance[gaussian] ** -0.5 * (1.0 - 2.0**-50)]),
            np.concatenate([rounds.steps, ones]),
            np.concatenate([rounds.times, ones]),
        )


def question(
    plain: Sequence[tuple[float, float, float]],
    gaussian: Sequence[tuple[float, float, float]],
    direction: Direction,
    target: float,
    laplace: Sequence[tuple[float, float, float]] = (),
) -> Questions:
    """One question (class `Questions`).

    Args:
      plain: noise multiplier, number of steps (1: a Gaussian step) and number of rounds.
      gaussian, laplace: noise multiplier, sampling probability and number of steps.
      direction: the direction of the pair that is analysed.
      target: delta or epsilon.
    """
    variance = math.fsum(times * noise**-2.0 for noise, steps, times in plain if steps == 1)
    noises: list[float] = []
    family: list[int] = []
    least, runs = 0.0, sorted(of for of in plain if of[1] > 1)
    for noise, length, _ in runs:
        if not noises or noise != noises[-1] or length > _ALIKE * least:
            noises.append(noise)
            least = length
        family.append(len(noises) - 1)
    rounds = Rounds(
        1,
        np.zeros(len(noises), int),
        np.array(noises, np.float64),
        np.array(family, int),
        np.array([length for _, length, _ in runs]),
        np.array([count for *_, count in runs]),
    )
    steps = sampled(gaussian), sampled(laplace)
    return Questions(
        np.array([float(target)]), np.array([direction is Direction.ADD]), rounds, np.array([variance]), *steps
    )


def epochs(noise_multiplier: Real, steps: Real, first_times: Real, second_times: Real) -> Rounds:
    """`Rounds` (a class) of questions [L]: `first_times` runs of `steps` steps, `second_times` of one step more."""
    num = len(steps)
    second = np.flatnonzero(second_times > 0)
    return Rounds(
        num,
        np.arange(num),
        noise_multiplier,
        np.concatenate([np.arange(num), second]),
        np.concatenate([steps, steps[second] + 1.0]),
        np.concatenate([first_times, second_times[second]]),
    )
