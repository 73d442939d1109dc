"""Three to five Poisson-sampled steps and three epochs of small allocation, between two lattices in ball arithmetic."""

import numpy as np
from flint import arb

import jaxacct as ja
from oracle.judging import Profile, between, slices
from oracle.lattices import Above, Below, Step, epochs_of_two

_EDGES = [*np.linspace(0.0, 4.5, 16), *np.linspace(4.5, 13.0, 5)[1:]]  # of d, for epochs


def sampled(rng):
    steps = [(between(rng, 0.4, 6), min(0.95, between(rng, 2e-3, 1.2))) for _ in range(int(rng.integers(3, 6)))]
    equal = rng.random() < 0.5
    if equal:
        steps = [steps[0]] * len(steps)
    known = {step: Step(1 / arb(step[0]), arb(step[1])) for step in steps}
    laws = [known[step] for step in steps]
    low, high = Below(laws), Above(laws)

    def delta(epsilon, direction):
        remove = direction is ja.Direction.REMOVE
        return low(epsilon, remove).union(high(epsilon, remove))

    if equal:
        run = ja.PoissonSampled(ja.Gaussian(steps[0][0]), steps[0][1], len(steps))
    else:
        run = ja.Composed(tuple(ja.PoissonSampled(ja.Gaussian(noise), q, num_steps=1) for noise, q in steps))
    epsilon = ja.epsilon(run, between(rng, 1e-9, 1e-2)) * rng.uniform(0.5, 1)
    yield Profile(run, delta, target_epsilon=float(epsilon), promised=False)


def epochs(rng):
    noises = [between(rng, 0.6, 4) for _ in range(3)]
    equal = rng.random() < 0.5
    noises = [noises[0]] * 3 if equal else noises
    lower, upper = ({noise: epochs_of_two(noise, side, _EDGES) for noise in noises} for side in (False, True))
    low, high = Below([lower[noise][0] for noise in noises]), Above([upper[noise][0] for noise in noises])

    def delta(epsilon, direction):
        remove = direction is ja.Direction.REMOVE
        rest = sum((upper[noise][1 if remove else 2] for noise in noises), arb(0))
        return low(epsilon, remove).union(high(epsilon, remove) + rest)

    if equal:
        run = ja.RandomAllocation(ja.Gaussian(noises[0]), 2, num_epochs=3)
    else:
        run = ja.Composed(tuple(ja.RandomAllocation(ja.Gaussian(noise), 2) for noise in noises))
    epsilon = ja.epsilon(run, between(rng, 1e-6, 1e-2)) * rng.uniform(0.5, 1)
    yield Profile(run, delta, target_epsilon=float(epsilon), promised=False)


test_default, test_slow = slices(sampled, seed=18, quick=2, deep=500)
test_epochs, test_epochs_slow = slices(epochs, seed=19, quick=1, deep=100)
