"""The way that privacy goes with each field: no certified lower end passes the upper end of what is less private.

An order of truths, so that an enclosure of neither is needed: settings where none is known are reached too.
"""

import warnings

import pytest
from support.mechanisms import fields_of

import jaxacct as ja
from jaxacct.mechanisms._fields import Privacy, with_fields
from oracle.judging import SHARE, between, draws

_QUICK, _DEEP = 6, 1000


def _count(rng, most):
    return int(between(rng, 1, most))


def _drawn(rng):
    """A mechanism whose fields are drawn, little noise and few steps among them."""
    gaussian = ja.Gaussian(between(rng, 0.3, 20))
    steps = _count(rng, 1e4)
    return [
        lambda: gaussian,
        lambda: ja.PoissonSampled(gaussian, rng.random() ** 3, steps),
        lambda: ja.RandomAllocation(gaussian, steps, 1 if rng.random() < 0.6 else int(rng.integers(1, steps + 1))),
        lambda: ja.RandomAllocation(gaussian, steps, 1, _count(rng, 10)),
        lambda: ja.PartialAllocation(gaussian, steps, int(rng.integers(1, steps + 1))),
        lambda: ja.Shuffled(ja.LocalRandomizer(between(rng, 0.05, 6)), _count(rng, 1e7)),
        lambda: ja.Shuffled(ja.LocalRandomizer(between(rng, 0.05, 4)), _count(rng, 1e5), 3),
        lambda: ja.CheckIn(ja.LocalRandomizer(between(rng, 0.05, 4)), _count(rng, 1e6), rng.random()),
        lambda: ja.Composed((gaussian, ja.PoissonSampled(ja.Gaussian(2.0), 0.1, 10)), (1, _count(rng, 20))),
    ][rng.integers(9)]()


def _complaints(seed):
    rng = draws(15, seed)
    mechanism = _drawn(rng)
    fields = [f for f in fields_of(mechanism) if f.spec.privacy is not None and f.value != 0.0]
    field = fields[rng.integers(len(fields))]
    grown = field.value * rng.choice([1.0 + 2.0**-40, 1.001, 1.5, 3.0])
    grown = int(max(field.value + 1, grown)) if field.spec.is_whole else min(grown, field.spec.highest)
    try:
        other = with_fields(mechanism, {field.keys: grown})
    except ValueError:  # more steps selected or done than there are
        return []
    private, exposed = (mechanism, other) if field.spec.privacy is Privacy.FALLS else (other, mechanism)
    epsilon, delta = between(rng, 1e-3, 10), between(rng, 1e-10, 0.1)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for low, high, at in (
            (ja.epsilon_interval(private, delta), ja.epsilon_interval(exposed, delta), f"delta {delta}"),
            (ja.delta_interval(private, epsilon), ja.delta_interval(exposed, epsilon), f"epsilon {epsilon}"),
        ):
            if not low.lower <= high.upper:
                found.append(f"{private!r} has {low}, {exposed!r} has {high} at {at}")
    return found


def test_ways():
    complaints = [c for seed in range(_QUICK) for c in _complaints(seed)]
    assert not complaints, "\n".join(complaints)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_ways_slow(chunk):
    complaints = [c for seed in range(_QUICK + chunk, _QUICK + int(SHARE * _DEEP), 20) for c in _complaints(seed)]
    assert not complaints, "\n".join(complaints)
