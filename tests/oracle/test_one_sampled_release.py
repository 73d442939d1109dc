"""One Poisson-sampled release, Gaussian or Laplace: the profile of the release itself at another epsilon."""

import numpy as np
from flint import arb

import jaxacct as ja
from oracle.balls import gaussian_delta, laplace_delta, sampled
from oracle.judging import Profile, between, slices


def cases(rng):
    q = float(min(1.0, np.exp(rng.uniform(-24, 0.2))))
    if rng.random() < 0.5:
        noise = between(rng, 0.02, 300)
        base = ja.Gaussian(noise)

        def profile(epsilon, direction):
            del direction
            return gaussian_delta(1 / arb(noise), epsilon)

        loss = 0.5 / noise**2 + abs(rng.normal()) * 2 / noise
    else:
        noise = between(rng, 0.02, 3000)
        base = ja.Laplace(noise)

        def profile(epsilon, direction):
            del direction
            if epsilon >= 0:
                return laplace_delta(noise, epsilon)
            return 1 - epsilon.exp() * (1 - laplace_delta(noise, -epsilon))

        loss = rng.random() / noise
    with np.errstate(over="ignore"):
        epsilon = float(np.log1p(q * np.expm1(min(loss, 700.0))))

    def delta(epsilon, direction):
        return sampled(profile, q, epsilon, direction)

    mechanism = ja.PoissonSampled(base, q, 1)
    yield Profile(mechanism, delta, target_epsilon=epsilon * float(rng.choice([0.0, 1.0, 1.0])))
    yield Profile(mechanism, delta, target_delta=between(rng, 1e-14, 0.3) * (q if rng.random() < 0.8 else 1.0))


test_default, test_slow = slices(cases, seed=2, quick=100)
