"""Epsilon of what has been released, and how many releases a budget affords."""

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxacct._precision import is_traced
from jaxacct._types import OrderEdgeWarning, PrecisionWarning
from jaxacct._validate import check_delta, check_epsilon, checked_number
from jaxacct.accounting import epsilon
from jaxacct.accounting._truncation import epsilon_within
from jaxacct.mechanisms import Composed
from jaxacct.mechanisms._base import Mechanism, Parts
from jaxacct.training._accumulation import MOST_BATCHES, ways_of
from jaxacct.training._batches import Batches
from jaxacct.training._counting import SATURATED, batches_in_release, counts_of_batches
from jaxacct.training._noise import Phase, check_drawn_once, check_released
from jaxacct.training._phases import check_scalar

_LEAP = math.log(64.0)  # log of the largest factor by which the count tried grows at once
_MAX_SAME_SIDE = 3  # evaluations on one side of the answer before the interval is bisected


def described(parts: Parts) -> Mechanism:
    (first, times), *others = parts
    return first if times == 1 and not others else Composed(*zip(*parts, strict=True))


def spent_in_phases(
    phases: Sequence[tuple[Phase, int]],
    target_delta: float,
    precision: float | None,
    before: Parts,
    known: dict[Any, float] | None = None,
    batches: int = 1,
) -> float:
    """Epsilon of `before` and the releases of each phase; of several descriptions of a phase the cheapest is used.

    Each release holds `batches` sampled batches.

    If batches may have been truncated, with probability tau, a share of delta is kept for (1 + e^epsilon) tau (see
    `Batches.excess_delta`).

    `known` caches results, for a search that evaluates the same epochs again and again.
    """
    known = {} if known is None else known

    def cost(parts: Parts, delta: float) -> float:
        if not parts:
            return 0.0
        key = repr(parts), delta, precision
        if key not in known:
            known[key] = float(epsilon(described(parts), delta, precision=precision))
        return known[key]

    if any(count >= SATURATED for _, count in phases):
        return math.inf

    def spent(delta: float) -> float:
        return cost(before + released_parts(phases, batches, lambda way: cost(way, delta)), delta)

    return epsilon_within(spent, target_delta, overflow_of(phases, batches))[0]


def released_parts(phases: Sequence[tuple[Phase, int]], batches: int, cost: Callable[[Parts], float]) -> Parts:
    """What was released in all phases, where each phase is described in the way that costs least by itself.

    Any choice is valid in the composition.
    """
    parts: Parts = ()
    for phase, count in phases:
        if count:
            ways = ways_of(phase, count, batches)
            parts += ways[0] if len(ways) == 1 else min(ways, key=cost)
    return parts


def overflow_of(phases: Sequence[tuple[Phase, int]], batches: int) -> float:
    """The probability that any released batch differs from what the mechanisms describe."""
    return math.fsum(phase.overflow(count * batches) for phase, count in phases if count and isinstance(phase, Batches))


def privacy_spent(
    opt_state: Any, mechanism: Phase | Sequence[Phase], target_delta: float, *, precision: float | None = None
) -> float:
    """Epsilon, a float, of the noise releases counted in `opt_state`: a certified upper bound at `target_delta`.

    It is computed on the host. `mechanism` says how batches are drawn and noise is added; the counts say how many
    times, and replace

    - the `num_steps` of `PoissonSampled`, with a warning where it was neither 1 nor what was counted;
    - the `num_epochs` of `RandomAllocation`, whose `num_steps` releases make one epoch. An unfinished epoch costs no
      more than the whole one, and no more than its steps without sampling;
    - the `num_epochs` of the mechanism in an `Epoch`, and the number of runs of one without;
    - the number of runs of any other mechanism, such as `Gaussian`: one release each.

    The accounting of epochs assumes that they follow each other, and that each is finished before the next begins. If
    an epoch is broken off and its records are drawn anew, as after a restart, or if noise or sampling changes, begin a
    new phase; a phase must not begin within an epoch that is continued.

    The epsilon is that of a run whose length was not chosen by looking at what it released. If training stops early
    because of the released models, the epsilon of the whole procedure is that of the largest count that was allowed: a
    budget (`budget_guard`) is such a count.

    Args:
      opt_state: an optimizer's state with one `ReleaseCountState` anywhere in it, or any tree that contains it.
      mechanism: what one phase runs, as listed above, or the `Batches` drawn for it, which include the cost of
        truncation; with several phases, a list or tuple of them, in the order of `phase`. The noise multiplier is the
        standard deviation of the noise on the released *sum*, divided by the clipping norm, whatever the sum is divided
        by afterwards. If the counter was told that a release holds several batches, `mechanism` is still the one by
        which a single batch is drawn.
      target_delta: float in (0, 1).
      precision: as for `jaxacct.epsilon`: inf for the quick bounds only.

    Returns:
      A float: 0 if nothing has been released, inf if a count was lost.

    Raises:
      ValueError: if the counts are not found, are not unique, are traced, do not fit the number of mechanisms, or
        exceed the number of batches; if they, or the noise alone, are inside `optax.MultiSteps` and it is not known how
        many sampled batches a release holds, or no analysis of such a release is known (see `accumulated`); if the
        state records that other noise was released, or noise by a schedule of `optax.inject_hyperparams`; if two phases
        have the same batches; if the mechanisms of the phases differ in adjacency; if a mechanism does not say how many
        releases it consists of.

    >>> import jax.numpy as jnp, optax
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> sampling = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01)
    >>> noise = training.count_releases(optax.add_noise(1.0, 0.0, key=0))
    >>> optimizer = optax.chain(noise, optax.adam(1e-3))
    >>> state = optimizer.init(jnp.zeros(3))
    >>> for _ in range(20):
    ...     updates, state = optimizer.update(jnp.ones(3), state)
    >>> spent = training.privacy_spent(state, sampling, target_delta=1e-6)
    >>> spent == ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=20), target_delta=1e-6)
    True
    """
    check_delta("target_delta", target_delta)
    target_delta = checked_number("target_delta", target_delta)
    phases, batches = released_phases(opt_state, mechanism, "privacy_spent")
    return spent_in_phases(phases, target_delta, precision, (), batches=batches)


def released_phases(
    opt_state: Any, mechanism: Phase | Sequence[Phase], asked: str
) -> tuple[list[tuple[Phase, int]], int]:
    """Each phase with its counted releases, and how many sampled batches a release holds.

    Raises:
      ValueError: as `privacy_spent`.
    """
    counts = counts_of_batches(opt_state)
    if is_traced(counts):
        raise ValueError(f"{asked} needs concrete counts: call it outside jit, on the state that the step returned")
    mechanisms = tuple(mechanism) if isinstance(mechanism, list | tuple) else (mechanism,)
    released = [int(count) for count in np.asarray(counts)]
    if len(mechanisms) != len(released):
        raise ValueError(f"{len(mechanisms)} mechanisms for {len(released)} phases: give one for each phase")
    if min(released) < 0:
        raise ValueError(f"release_counts={released} must be >= 0")
    batches = int(batches_in_release(opt_state))
    if not 1 <= batches <= MOST_BATCHES:
        raise ValueError(f"batches_per_release={batches} must be in [1, {MOST_BATCHES}]")
    for one, count in zip(mechanisms, released, strict=True):
        _check_phase(one)
        _check_length(one, count * batches)
    check_drawn_once(mechanisms)
    check_released(opt_state, mechanisms)
    return list(zip(mechanisms, released, strict=True)), batches


def steps_affordable(
    mechanism: Phase,
    target_epsilon: float,
    target_delta: float,
    *,
    after: Mechanism | None = None,
    precision: float | None = None,
) -> int:
    """The largest number of noise releases of `mechanism` that stays within (`target_epsilon`, `target_delta`).

    Each release holds one sampled batch, as `mechanism` says; for several, give the result of `accumulated`. The result
    is the largest n for which the certified epsilon of n releases, as `privacy_spent` would return it, is at most
    `target_epsilon`; for n + 1 releases epsilon is above it. Every smaller count is within the budget as well.

    Args:
      mechanism: the sampling and the noise of one step, as for `privacy_spent`; its own number of steps is not used.
      target_epsilon: float >= 0.
      target_delta: float in (0, 1).
      after: what was run on the same data before, such as earlier phases, as for `jaxacct.epsilon`.
      precision: as for `jaxacct.epsilon`.

    Returns:
      An int in [0, 2^31 - 2], the largest count that `budget_guard` can be given; for `Batches` at most their number.

    Raises:
      ValueError: if an argument is out of range, or `after` alone is over the budget.

    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> sampling = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01)
    >>> steps = training.steps_affordable(sampling, target_epsilon=2.0, target_delta=1e-6)
    >>> for n in (steps, steps + 1):
    ...     print(ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, num_steps=n), target_delta=1e-6) <= 2.0)
    True
    False
    """
    check_epsilon("target_epsilon", target_epsilon)
    check_delta("target_delta", target_delta)
    target_epsilon = checked_number("target_epsilon", target_epsilon)
    target_delta = checked_number("target_delta", target_delta)
    _check_phase(mechanism)
    before: Parts = ()
    if after is not None:
        check_scalar(after)
        before = after.parts()

    known: dict[Any, float] = {}

    @functools.cache
    def spent(num_epochs: int, more: int = 0, *, quick: bool = False) -> float:
        count = num_epochs * unit + more
        return spent_in_phases([(mechanism, count)], target_delta, math.inf if quick else precision, before, known)

    unit = mechanism.releases_per_epoch
    if spent(0) > target_epsilon:
        raise ValueError(f"after={after!r} alone has epsilon={spent(0)} > target_epsilon={target_epsilon}")
    longest = min(len(mechanism), SATURATED - 1) if isinstance(mechanism, Batches) else SATURATED - 1
    most = longest // unit
    with warnings.catch_warnings():  # the result is within the budget in any case; bounds on the way may be loose
        for category in (OrderEdgeWarning, PrecisionWarning):
            warnings.simplefilter("ignore", category)
        quick = largest(functools.partial(spent, quick=True), target_epsilon, 0, most)  # a place to begin
        epochs = largest(spent, target_epsilon, quick, most)
        left = min(mechanism.partial_epoch_releases(epochs), longest - epochs * unit)
        return epochs * unit + largest(functools.partial(spent, epochs), target_epsilon, 0, left)


def largest(value: Callable[[int], float], target: float, start: int, most: int) -> int:
    """The largest n in [0, most] with value(n) <= target, for a value that grows with n and is at most `target` at 0.

    The search uses false position on logarithms, beginning at `start`, and bisection where that stalls, since
    evaluations may be expensive. Unless the result is 0 or `most`, both it and its successor were evaluated: how the
    value grows affects only the number of evaluations.
    """
    low, low_gap, high, high_gap = 0, -math.inf, most + 1, math.inf  # gap: log(value / target)
    guess, same_side = max(1, start), 0
    while high - low > 1:
        guess = min(max(guess, low + 1), high - 1)
        found = value(guess)
        gap = math.log(found / target) if found > 0.0 and target > 0.0 else math.copysign(math.inf, found - target)
        if found <= target:
            low, low_gap, same_side = guess, gap, max(same_side, 0) + 1
        else:
            high, high_gap, same_side = guess, gap, min(same_side, 0) - 1
        if math.isfinite(low_gap) and math.isfinite(high_gap) and abs(same_side) < _MAX_SAME_SIDE:
            share = low_gap / (low_gap - high_gap)
            guess = math.floor(low * (high / low) ** share)
        elif high > most:  # epsilon grows at least like the root of n, nearly
            guess = math.ceil(min(low * math.exp(min(-2.0 * low_gap, _LEAP)) + 1.0, most))
        elif not low:
            guess = math.floor(high * math.exp(max(-2.0 * high_gap, -_LEAP)))
        else:
            guess = math.isqrt(low * high)
    return low


def _check_phase(phase: Phase) -> None:
    check_scalar(phase.mechanism if isinstance(phase, Batches) else phase)


def _check_length(phase: Phase, count: int) -> None:
    """Warns if a number of steps that was given is replaced; raises ValueError if batches were used again.

    Batches that are used a second time are the same batches, and not further steps.
    """
    if isinstance(phase, Batches) and count > len(phase):
        raise ValueError(
            f"{count} batches were released, and must be at most the {len(phase)} that were drawn: batches "
            "that are used again are not drawn afresh, as the accounting assumes. Describe a longer run; its batches "
            "begin with these"
        )
    given = phase.length_given if isinstance(phase, Mechanism) else None
    if given is not None and given not in (1, count):
        warnings.warn(
            f"num_steps={given} of {type(phase).__name__} is replaced by the {count} batches that were released: "
            "give 1, or the batches that were drawn for the run",
            UserWarning,
            stacklevel=4,
        )
