"""One epoch of random allocation, whole or unfinished: noise multipliers from 0.12, 1 to 10^12 steps."""

import contextlib
import warnings

from flint import arb

import jaxacct as ja
from oracle.judging import Profile, between, slices
from oracle.lognormal import MeanOfRatios, TooLongError, epoch_delta

_LARGEST = 45.0  # epsilon of what is asked: its exponential is lost in the digits that are computed


def _mechanism(rng):
    """A mechanism, the ratios of the steps that were done, and their share of all."""
    kind = rng.integers(5)
    noise = between(rng, *((0.12, 0.3) if kind == 0 else (0.3, 10)))
    most = 100 if noise < 0.5 else 1000 if noise < 0.8 else 1e5
    steps = int(between(rng, 1e6, 1e12)) if kind == 1 and noise > 0.8 else int(between(rng, 1, most))
    if kind == 4:
        done = int(rng.integers(1, min(steps, 2**40) + 1))
        mechanism = ja.PartialAllocation(ja.Gaussian(noise), steps, done)
        return mechanism, MeanOfRatios([(noise, done)]), (done, steps)
    return ja.RandomAllocation(ja.Gaussian(noise), steps), MeanOfRatios([(noise, steps)]), (1, 1)


def cases(rng):
    mechanism, mean, share = _mechanism(rng)
    target = between(rng, 1e-12, 0.1) * share[0] / share[1]
    at = ja.epsilon(mechanism, target)
    if not at < _LARGEST:
        return

    def about(wanted):
        def delta(epsilon, direction):
            return epoch_delta(mean, epsilon, direction is ja.Direction.REMOVE, share, max(1e-30, 1e-8 * wanted))

        return delta

    with contextlib.suppress(TooLongError):  # no enclosure
        for direction in ja.Direction:
            about(target)(arb(at), direction)
        yield Profile(mechanism, about(target), target_delta=target, least=1e-18)
    at *= rng.choice([0.3, 1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ja.OrderEdgeWarning)  # of a direction that loses less
        quick = min(ja.delta(mechanism, at, direction=d) for d in ja.Direction)
    with contextlib.suppress(TooLongError):
        for direction in ja.Direction:
            about(quick)(arb(float(at)), direction)
        yield Profile(mechanism, about(quick), target_epsilon=float(at), least=1e-18)


test_default, test_slow = slices(cases, seed=3, quick=6, deep=2000)
