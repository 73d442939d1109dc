"""Answers inside a program, with x64 and without, are above enclosures; settings for debugging change no digit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, ctx

import jaxacct as ja
from oracle.balls import gaussian_delta, sampled
from oracle.counts import clones_delta
from oracle.judging import BITS, between
from oracle.lognormal import MeanOfRatios, epoch_delta

_POINTS = 12


def _one_sampled(noise, q):
    def profile(epsilon, direction):
        del direction
        return gaussian_delta(1 / arb(noise), epsilon)

    return lambda epsilon: sampled(profile, q, epsilon, ja.Direction.REMOVE)


def _epoch(noise, steps):
    mean = MeanOfRatios([(noise, steps)])
    return lambda epsilon: epoch_delta(mean, epsilon, True, wanted=1e-14)


def _clones(local, n):
    p, scale = (-arb(local)).exp(), (arb(local) / 2).tanh()
    return lambda epsilon: clones_delta(n, p, scale, epsilon)


_FAMILIES = {  # of two fields: how they are drawn, the mechanism, and an enclosure of delta
    "gaussian": (
        lambda rng: (between(rng, 0.2, 20), 1 + int(99 * rng.random())),
        lambda noise, count: ja.Composed(ja.Gaussian(noise), count),
        lambda noise, count: lambda epsilon: gaussian_delta(arb(count).sqrt() / arb(noise), epsilon),
    ),
    "sampled": (
        lambda rng: (between(rng, 0.3, 5), between(rng, 1e-4, 1)),
        lambda noise, q: ja.PoissonSampled(ja.Gaussian(noise), q, 1),
        _one_sampled,
    ),
    "allocation": (
        lambda rng: (between(rng, 0.7, 5), 1 + int(between(rng, 1, 1e5))),
        lambda noise, steps: ja.RandomAllocation(ja.Gaussian(noise), steps),
        _epoch,
    ),
    "shuffle": (
        lambda rng: (between(rng, 0.1, 5), 2 + int(between(rng, 1, 60))),
        lambda local, n: ja.Shuffled(ja.LocalRandomizer(local), n),
        _clones,
    ),
}


def _points(name):
    rng = np.random.default_rng([11, len(name)])
    draw = _FAMILIES[name][0]
    fields = [tuple(float(np.float32(x)) for x in draw(rng)) for _ in range(_POINTS)]
    targets = [float(np.float32(between(rng, 1e-9, 1e-2))) for _ in range(_POINTS)]
    return fields, targets


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("allocation", "shuffle"))) for name in _FAMILIES]
)
@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")
def test_traced_answers_are_above_enclosures(name, x64):
    _, build, enclosure = _FAMILIES[name]
    fields, targets = _points(name)
    with jax.enable_x64(x64):
        columns = [jnp.asarray(column) for column in (*zip(*fields, strict=True), targets)]
        program = jax.jit(jax.vmap(lambda a, b, target: ja.epsilon(build(a, b), target)))
        found = np.asarray(program(*columns), np.float64)
    with ctx.workprec(BITS):
        for (a, b), target, epsilon in zip(fields, targets, found, strict=True):
            assert np.isfinite(epsilon)
            exact = enclosure(a, int(b) if name != "sampled" else b)(arb(float(epsilon)))
            assert not exact > arb(target), (a, b, target, epsilon, exact)


@pytest.mark.parametrize("setting", [jax.debug_nans, jax.debug_infs, None], ids=["nans", "infs", "no jit"])
def test_settings_for_debugging_change_no_digit(setting):
    rng = np.random.default_rng(12)
    for _ in range(_POINTS):
        name = ("gaussian", "sampled", "shuffle")[rng.integers(3)]
        draw, build, _ = _FAMILIES[name]
        mechanism, target = build(*draw(rng)), between(rng, 1e-9, 1e-2)
        plain = ja.epsilon(mechanism, target), ja.delta(mechanism, 1.0)
        with jax.disable_jit() if setting is None else setting(True):
            assert (ja.epsilon(mechanism, target), ja.delta(mechanism, 1.0)) == plain, mechanism
