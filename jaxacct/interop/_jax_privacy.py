"""jax_privacy's batch selection strategies, as the mechanisms whose analysis covers them.

Strategies are recognised by the name and the fields of their class, so that nothing is imported; a strategy or a field
that is not listed here is refused.
"""

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from jaxacct._types import NeighboringRelation
from jaxacct._validate import check_count, check_positive, check_probability
from jaxacct.correlated import BandedNoise
from jaxacct.mechanisms import (
    Composed,
    FixedBatches,
    Gaussian,
    PoissonSampled,
    RandomAllocation,
    ReplaceOne,
    TruncatedPoisson,
    ZeroOut,
)
from jaxacct.mechanisms._same_bins import SameBins
from jaxacct.special import up

_ADD_OR_REMOVE, _ZERO_OUT = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL


class _Asked(NamedTuple):
    strategy: Any
    noise_multiplier: float
    num_examples: int | None
    neighboring_relation: NeighboringRelation


def _refused(asked: _Asked, reason: str) -> ValueError:
    return ValueError(f"strategy={asked.strategy!r} has no analysis here: {reason}")


def _cycles(asked: _Asked, cycle_length: int) -> int:
    """The number of steps in which a record may take part that is eligible every cycle_length steps: whole cycles."""
    check_count("iterations", asked.strategy.iterations)
    check_count("cycle length", cycle_length)
    return -(-asked.strategy.iterations // cycle_length)


def _same_bin(asked: _Asked, cycle_length: int) -> RandomAllocation:
    """One of `cycle_length` bins for each record, drawn once, and the same in each of c cycles.

    This equals one epoch of 1-out-of-cycle_length allocation with the noise divided by sqrt(c). Let v_i be the record's
    direction in step i, a unit vector that may depend on all that was released before, and y_i the released vector over
    sigma. The likelihood ratio of bin j against no record is the product over its steps of exp(<v_i, y_i>/sigma - 1/(2
    sigma^2)). Without the record each <v_i, y_i> is standard normal whatever came before, so that the log ratios of
    the bins are independent N(-c/(2 sigma^2), c/sigma^2): those of allocation with noise sigma/sqrt(c). The ratio of
    the whole run is the mean of the bins' ratios, as in allocation, so the pairs have the same privacy loss in both
    directions. A shorter v_i is a unit vector one of whose coordinates is withheld, and the steps that a last cycle
    lacks are withheld too: post-processing, hence an upper bound.
    """
    return SameBins.of(Gaussian(asked.noise_multiplier), cycle_length, _cycles(asked, cycle_length))


def _poisson(asked: _Asked, cycle_length: int) -> Any:
    """A record's group is fixed. If the group is known, what is left is Poisson sampling in the steps of that group.

    A known group is the worse case, since hockey-stick divergences are convex. If the group is secret and uniform, as
    in independent groups, the record is allocated to one of the groups: the likelihood ratio of the run is the mean
    over the groups of the product over a group's steps of (1 - q + q Y), where Y is a step's ratio, as in `_same_bin`.
    """
    check_probability("sampling_prob", asked.strategy.sampling_prob)
    steps = _cycles(asked, cycle_length)
    if asked.strategy.sampling_prob == 1:
        return Composed(Gaussian(asked.noise_multiplier), steps)
    return PoissonSampled(Gaussian(asked.noise_multiplier), float(asked.strategy.sampling_prob), steps)


def _cut(asked: _Asked) -> Any:
    """Batches that are cut to a largest size and drawn from all records in every step."""
    strategy = asked.strategy
    if strategy.cycle_length > 1:
        raise _refused(asked, "truncation is analysed where every record may join each step; set cycle_length=1")
    if asked.num_examples is None:
        raise ValueError("num_examples=None must be given for truncated batches: what is cut depends on it")
    check_count("num_examples", asked.num_examples)
    size, steps = strategy.truncated_batch_size, _cycles(asked, 1)
    run = TruncatedPoisson(
        Gaussian(asked.noise_multiplier), float(strategy.sampling_prob), asked.num_examples, size, steps
    )
    return run if asked.neighboring_relation is _ADD_OR_REMOVE else ZeroOut(run)


def _cyclic_poisson(asked: _Asked) -> Any:
    strategy, length = asked.strategy, asked.strategy.cycle_length
    if strategy.truncated_batch_size is not None:
        return _cut(asked)
    is_independent = strategy.partition_type.name == "INDEPENDENT"
    if length > 1 and not is_independent and asked.neighboring_relation is _ADD_OR_REMOVE:
        return _equal_groups(asked, length)
    if length > 1 and is_independent and strategy.sampling_prob == 1:
        return _same_bin(asked, length)
    run = _poisson(asked, length)
    return RandomAllocation(run, num_steps=length) if length > 1 and is_independent else run


def _equal_groups(asked: _Asked, length: int) -> ReplaceOne:
    """A record added to or removed from groups of equal size, n // L, of n records; records left over join no step.

    The split is uniform, and known. If n // L does not change, the record takes the place of one that is then left
    over, or is left over itself: the pair is that of a replaced record, or there is no difference (hockey-stick
    divergences are jointly convex). If n // L changes (n, or n + 1, is a multiple of L), every group has one record
    more, so that in every step one record is added, by its coin: this costs no more than a replaced record, which may
    be empty.
    """
    number = asked.num_examples
    if number is None:
        raise ValueError(
            "num_examples=None must be given for equal groups, whose size moves with the number of records; with "
            "PartitionType.INDEPENDENT, or neighboring_relation=NeighboringRelation.REPLACE_SPECIAL, less is lost"
        )
    check_count("num_examples", number)
    return ReplaceOne(_poisson(asked, 1 if number % length in (0, length - 1) else length))


def _balls_in_bins(asked: _Asked) -> Any:
    return _same_bin(asked, asked.strategy.cycle_length)


def _min_separation(asked: _Asked) -> Any:
    strategy = asked.strategy
    if strategy.truncated_batch_size is not None:
        raise _refused(asked, "truncation lets a record push others out; leave truncated_batch_size out")
    if strategy.min_sep == 1:
        return _poisson(asked, 1)
    if strategy.sampling_prob == 1 and strategy.warm_start:
        return _same_bin(asked, strategy.min_sep)
    return _apart(asked)


def _apart(asked: _Asked) -> Any:
    """Steps at least b apart, each joined with probability p if the last one is that far back: the best of 3 bounds.

    Given all that was released before, a record joins a step with a probability of at most p (the probability that it
    may join, times p), and the divergences of a sampled step grow with this probability at every epsilon: hence
    `PoissonSampled` with p.

    Of b steps in a row a record joins at most one: the j-th of those that it may join with probability w_j = p
    (1-p)^(j-1), any of them with probability W = 1 - (1-p)^b or less. The likelihood ratio of b steps is
    1 + sum_j w_j (Y_j - 1), where the Y_j are independent and have mean 1 without the record, so that its divergences
    are convex and symmetric in w, and grow with each w_j. The worst case is that the record may join from the first of
    these steps on, and replacing w by weights that majorize it weakly is worse still. Either all weight is in one known
    step, which is sampled with probability W, in each block of b steps. Or m weights are r / m >= p, with r >= W: with
    probability r the record joins one of m steps, by random allocation.
    """
    strategy = asked.strategy
    noise, prob, apart = Gaussian(asked.noise_multiplier), float(strategy.sampling_prob), int(strategy.min_sep)
    check_probability("sampling_prob", prob)
    blocks, steps = _cycles(asked, apart), _cycles(asked, 1)
    if prob == 0.0:
        return _poisson(asked, 1)
    some = min(1.0, up(-math.expm1(apart * math.log1p(-prob)), 2**6)) if prob < 1.0 else 1.0
    spread = math.ceil(Fraction(some) / Fraction(prob))
    share = min(1.0, max(some, up(spread * prob, 4)))
    if spread * Fraction(prob) > 1:
        spread, share = spread - 1, 1.0  # so many are fewer than W / p
    ways = (  # with the sum of the squared probabilities of the steps: the least is best, about
        (steps * prob**2, PoissonSampled(noise, prob, steps)),
        (blocks * some**2, PoissonSampled(noise, some, blocks)),
        (
            blocks * share**2 / spread,
            RandomAllocation(PoissonSampled(noise, share, num_steps=1), spread, num_epochs=blocks),
        ),
    )
    return min(ways, key=lambda way: way[0])[1]


def _random_allocation(asked: _Asked) -> RandomAllocation:
    """A uniform set of k of all steps, or of the steps of a record's group, every cycle_length-th step.

    A known group is no more private than a secret one (hockey-stick divergences are convex), and k of n steps are no
    more private than k of more steps: leave out a uniform one of these, and reveal which. So the smallest group counts.
    If it has fewer than k steps, all steps of a group are taken: at most k, and others are withheld.
    """
    strategy, length = asked.strategy, getattr(asked.strategy, "cycle_length", 1)
    _cycles(asked, length)
    check_count("total_participations", strategy.total_participations)
    selected = int(strategy.total_participations)
    num_steps = max(selected, strategy.iterations // length)
    return RandomAllocation(Gaussian(asked.noise_multiplier), num_steps=num_steps, num_selected=selected)


def _fixed_batch(asked: _Asked) -> Any:
    """A uniform batch of B of N records in each step, dominated by Poisson sampling at B/N with twice the sensitivity.

    With the record, a batch either lacks it (probability 1 - B/N) and is then distributed as without the record, or has
    it in the place of a uniformly chosen other record: a shift by at most two clipping norms.
    """
    strategy = asked.strategy
    if asked.num_examples is None:
        raise ValueError("num_examples=None must be given for fixed batches: the sampling probability depends on it")
    check_count("num_examples", asked.num_examples)
    check_count("batch_size", strategy.batch_size)
    if strategy.replace or asked.neighboring_relation is not _ADD_OR_REMOVE:
        noise, replace = Gaussian(asked.noise_multiplier), bool(strategy.replace)
        run = FixedBatches(noise, asked.num_examples, strategy.batch_size, _cycles(asked, 1), replace)
        return run if asked.neighboring_relation is _ADD_OR_REMOVE else ZeroOut(run)
    if strategy.batch_size >= asked.num_examples:
        raise ValueError(f"batch_size={strategy.batch_size} must be < num_examples={asked.num_examples}")
    sampling_prob = math.nextafter(strategy.batch_size / asked.num_examples, 1.0)
    return PoissonSampled(Gaussian(0.5 * asked.noise_multiplier), sampling_prob, _cycles(asked, 1))


def _users(asked: _Asked) -> Any:
    """The base strategy, with users in place of records: whatever their examples, each user is sampled by itself."""
    base = asked._replace(strategy=asked.strategy.base_strategy)
    return _reader_of(base)(base)


def _owners(asked: _Asked) -> Any:
    """Batches made from the graph of who owns which example, which is public and the same for both neighbours.

    A batch holds at most one example of a user, and at most `user_maxpart` batches hold any: that many Gaussian
    releases, whose batches are known. A user who is added or removed changes the graph, and with it all batches.
    """
    if asked.neighboring_relation is _ADD_OR_REMOVE:
        raise _refused(
            asked,
            "its batches are made of the public graph of owners, which a user who is added or removed changes; with "
            "neighboring_relation=NeighboringRelation.REPLACE_SPECIAL a user's examples become empty, and it stays",
        )
    check_count("user_maxpart", asked.strategy.user_maxpart)
    return ZeroOut(Composed(Gaussian(asked.noise_multiplier), int(asked.strategy.user_maxpart)))


# name of the class -> its fields, the fields that not every release has, and the mechanism
_STRATEGIES: dict[str, tuple[frozenset[str], frozenset[str], Callable[[_Asked], Any]]] = {
    "CyclicPoissonSampling": (
        frozenset({"sampling_prob", "iterations", "truncated_batch_size", "cycle_length", "partition_type"}),
        frozenset(),
        _cyclic_poisson,
    ),
    "BallsInBinsSampling": (frozenset({"iterations", "cycle_length"}), frozenset(), _balls_in_bins),
    "RandomAllocationSampling": (
        frozenset({"total_participations", "iterations"}),
        frozenset({"cycle_length"}),
        _random_allocation,
    ),
    "BMinSepSampling": (
        frozenset({"sampling_prob", "iterations", "min_sep", "warm_start", "truncated_batch_size"}),
        frozenset(),
        _min_separation,
    ),
    "FixedBatchSampling": (frozenset({"batch_size", "iterations", "replace"}), frozenset(), _fixed_batch),
    "UserSelectionStrategy": (
        frozenset({"base_strategy", "examples_per_user_per_batch", "shuffle_per_user"}),
        frozenset(),
        _users,
    ),
}


def _reader_of(asked: _Asked) -> Any:
    """The function that reads a strategy of this class; raises ValueError if its class or fields are not known here."""
    name = type(asked.strategy).__name__
    if name == "MultiOwnerMinSepSampling" and hasattr(asked.strategy, "user_maxpart"):  # no dataclass
        return _owners
    if name not in _STRATEGIES or not dataclasses.is_dataclass(asked.strategy):
        raise _refused(asked, f"{name} is none of {', '.join(_STRATEGIES)}")
    fields, newer, mechanism = _STRATEGIES[name]
    found = {field.name for field in dataclasses.fields(asked.strategy)}
    if found - newer != fields:
        differing = ", ".join(sorted((found - newer) ^ fields))
        raise _refused(asked, f"its fields are not those of jax_privacy as it is known here ({differing})")
    return mechanism


def _banded(strategy: Any, noise: BandedNoise) -> Any:
    """The mechanism with correlated noise: balls in bins, or a scheme in which a record's columns share no row."""
    name = type(strategy).__name__
    if name == "MultiOwnerMinSepSampling":  # it does not tell how far apart a user's steps are
        raise ValueError(
            f"strategy={strategy!r} has no analysis here with correlated noise: ask its BandedNoise for "
            "min_separation(min_sep), with the min_sep that it was made with, and put that into ZeroOut"
        )
    if getattr(strategy, "iterations", noise.num_steps) != noise.num_steps:
        raise ValueError(f"strategy={strategy!r} must have the {noise.num_steps} iterations of the noise")
    if getattr(strategy, "truncated_batch_size", None) is not None:
        raise ValueError(f"strategy={strategy!r}: truncated batches have no analysis here with correlated noise")
    if name == "CyclicPoissonSampling":
        if strategy.cycle_length > 1 and strategy.partition_type.name == "INDEPENDENT" and strategy.sampling_prob == 1:
            return noise.balls_in_bins(strategy.cycle_length)
        return noise.cyclic_poisson(strategy.sampling_prob, cycle_length=strategy.cycle_length)
    if name == "RandomAllocationSampling":
        length = getattr(strategy, "cycle_length", 1)
        return noise.allocated(strategy.total_participations, cycle_length=length)
    if name == "BallsInBinsSampling":
        return noise.balls_in_bins(strategy.cycle_length)
    if name == "BMinSepSampling" and strategy.sampling_prob == 1 and strategy.warm_start:
        return noise.balls_in_bins(strategy.min_sep)
    if name == "BMinSepSampling":  # whichever steps it picks: without amplification
        return noise.min_separation(strategy.min_sep)
    raise ValueError(f"strategy={strategy!r} has no analysis here with correlated noise")


def from_jax_privacy(
    strategy: Any,
    noise_multiplier: float | BandedNoise,
    *,
    num_examples: int | None = None,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> Any:
    """The mechanism whose analysis covers training with a jax_privacy batch selection strategy.

    - `CyclicPoissonSampling`: `PoissonSampled` in the steps of one group; with independent groups, `RandomAllocation`
      of that, since a record is allocated to one of them. With sampling_prob=1, independent groups are balls in bins,
      and equal groups (a dataset shuffled once) are full participation, without amplification. A record that is added
      to equal groups, or removed, takes the place of one that is then left over, or changes the size of all groups:
      `ReplaceOne` of the former mechanism, in the steps of one group or in all steps.
    - `RandomAllocationSampling`: `RandomAllocation` of k of the steps; with a cycle_length, of k of the steps of one
      group.
    - `BallsInBinsSampling`: one epoch of `RandomAllocation` with noise_multiplier / sqrt(number of cycles), since a
      record's bin is the same in every cycle. With cycle_length=iterations, random allocation over the whole run.
    - `BMinSepSampling`: one of the two above if it is the same; otherwise the best of three upper bounds:
      `PoissonSampled` steps, blocks in which a known step is sampled, and blocks that are a sampled allocation.
    - `FixedBatchSampling`: without replacement, `PoissonSampled` at batch_size / num_examples with half the noise; with
      replacement, and for zero-out, `FixedBatches`. With a `truncated_batch_size` and one cycle, `TruncatedPoisson`.
    - `UserSelectionStrategy`: its base strategy; a record is a user, whose examples are clipped together.
    - `MultiOwnerMinSepSampling` (jax_privacy 2.2), for REPLACE_SPECIAL: full participation in `user_maxpart` steps, the
      batches being public. Records are users, with all examples that they own, alone or with others.

    `jaxacct.training` counts all iterations of `BallsInBinsSampling` as one run. For a mechanism that has only the
    steps of one group, or otherwise fewer steps than were run, it would charge each release as a step of its own: pass
    ``training.Epoch(mechanism, num_steps=strategy.iterations)``, the whole run, instead.

    These are upper bounds. Every step is assumed to release the sum of clipped gradients plus fresh Gaussian noise, not
    divided by a realised batch size; or plus the noise of a matrix factorisation (`BandedNoise`), which is covered for
    balls in bins with any strategy matrix (`BallsInBins`), and for the other strategies if bands are no wider than the
    distance between a record's steps.

    Args:
      strategy: an instance of one of these classes.
      noise_multiplier: standard deviation of a step's noise divided by the clipping norm, > 0; or a
        `jaxacct.correlated.BandedNoise`.
      num_examples: public number of records (of users under `UserSelectionStrategy`), for fixed and
        truncated batches and equal groups.
      neighboring_relation: the adjacency for which answers are needed: ADD_OR_REMOVE_ONE, or REPLACE_SPECIAL if the
        special record contributes nothing (zero-out); the mechanism's add-or-remove answers then hold for it.

    Returns:
      A mechanism of jaxacct under add or remove one record, or `ReplaceOne` or `ZeroOut` of such a mechanism.

    Raises:
      ValueError: with the reason, if the strategy has no analysis under that adjacency.

    >>> import dataclasses
    >>> from jaxacct.interop import from_jax_privacy
    >>> @dataclasses.dataclass
    ... class BallsInBinsSampling:  # as in jax_privacy.batch_selection
    ...     iterations: int
    ...     cycle_length: int
    >>> run = from_jax_privacy(BallsInBinsSampling(iterations=400, cycle_length=100), noise_multiplier=2.0)
    >>> round(run.mechanism.noise_multiplier, 6), run.num_steps, run.num_epochs
    (1.0, 100, 1)
    """
    if not isinstance(noise_multiplier, BandedNoise):
        check_positive("noise_multiplier", noise_multiplier)
    if neighboring_relation not in (_ADD_OR_REMOVE, _ZERO_OUT):
        raise ValueError(
            f"neighboring_relation={neighboring_relation!r} must be ADD_OR_REMOVE_ONE or REPLACE_SPECIAL: replacing a "
            "record by any other has no analysis here"
        )
    if isinstance(noise_multiplier, BandedNoise):
        _reader_of(_Asked(strategy, 1.0, num_examples, neighboring_relation))
        kind = getattr(getattr(strategy, "partition_type", None), "name", "INDEPENDENT")
        is_split = kind != "INDEPENDENT" and strategy.cycle_length > 1
        if is_split and neighboring_relation is _ADD_OR_REMOVE:
            raise ValueError(
                f"strategy={strategy!r}: a split into equal groups moves with the number of records; ask for "
                "neighboring_relation=NeighboringRelation.REPLACE_SPECIAL (zero-out)"
            )
        return _banded(strategy, noise_multiplier)
    asked = _Asked(strategy, float(noise_multiplier), num_examples, neighboring_relation)
    return _reader_of(asked)(asked)
