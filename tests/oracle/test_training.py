"""What a budget affords is within it by an enclosure, one percent more is not; a guard stops there; bridges keep it."""

import jax
import jax.numpy as jnp
import optax
from flint import arb

import jaxacct as ja
from jaxacct import interop, training
from oracle.balls import gaussian_delta
from oracle.judging import Value, between, slices


def _steps(noise, steps, epsilon):
    return gaussian_delta(arb(steps).sqrt() / arb(noise), arb(epsilon)) if steps else arb(0)


def _released(noise, budget):
    """How often an optimizer under a guard releases when it is asked ten times more than its budget allows."""
    inner = optax.chain(training.count_releases(optax.add_noise(noise, 0.0, key=0)), optax.sgd(0.1))
    optimizer = training.budget_guard(inner, budget)
    params = jnp.zeros(2)

    def step(state, _):
        return optimizer.update(jnp.ones(2), state, params)[1], None

    with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic
        state, _ = jax.lax.scan(step, optimizer.init(params), None, length=10 * budget)
    return int(training.release_counts(state)[0])


def cases(rng):
    noise, epsilon, target = between(rng, 0.5, 200), between(rng, 0.05, 20), between(rng, 1e-10, 1e-2)
    mechanism = ja.Gaussian(noise) if rng.random() < 0.5 else ja.PoissonSampled(ja.Gaussian(noise), 1.0, num_steps=1)
    words = f"steps of {mechanism!r} within ({epsilon}, {target})"
    steps = training.steps_affordable(mechanism, epsilon, target)
    yield Value(f"delta of affordable {words}", lambda: target, _steps(noise, steps, epsilon))
    more = int(steps * 1.01) + 1
    yield Value(f"delta beyond affordable {words}", lambda: target, _steps(noise, more, epsilon), upper=False)
    if 0 < steps < 200:
        yield Value(f"guarded {words}", lambda: float(_released(noise, steps)), arb(steps), promise=0.0)


def bridged(rng):
    """Through the events of dp_accounting and back, and its accountant that asks here."""
    noise, count, target = between(rng, 0.3, 20), int(between(rng, 1, 1e4)), between(rng, 1e-10, 1e-2)
    mechanism = ja.Composed(ja.Gaussian(noise), count)
    event = interop.to_dp_event(mechanism)
    for name, ask in {
        "back": lambda: ja.epsilon(interop.from_dp_event(event), target),
        "accountant": lambda: interop.CertifiedAccountant().compose(event).get_epsilon(target),
    }.items():
        epsilon = ask()
        words = f"delta of {mechanism!r} at {epsilon!r}, {name}"
        yield Value(words, lambda: target, _steps(noise, count, epsilon))
        if epsilon > 0:
            yield Value(words, lambda: target, _steps(noise, count, epsilon / 1.001), upper=False)


test_default, test_slow = slices(cases, seed=13, quick=8, deep=2000)
test_bridges, test_bridges_slow = slices(bridged, seed=14, quick=10, deep=2000)
