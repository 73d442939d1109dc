"""Exact certified epsilon of random allocation, one epoch and many, a new noise multiplier on each call.

PLD_accounting's interval runs at its defaults (relative width 0.1); ours is certified to 1e-8 or better, as the larger
of both directions.
"""

import functools

from harness import Case

DELTA = 1e-6


def noise_multiplier(base: float, i: int) -> float:
    return base * (1.0 + 1e-5 * i)


def ours(sigma: float, num_steps: int, delta: float = DELTA):
    from jaxacct import Direction
    from jaxacct.divergence.allocation._profile import AllocationProfile

    def call(i: int) -> list[float]:
        noise = noise_multiplier(sigma, i)
        found = [AllocationProfile(noise, num_steps, direction).epsilon(delta) for direction in Direction]
        return [max(float(x.lower) for x in found), max(float(x.upper) for x in found)]

    return call


def pld_accounting(sigma: float, num_steps: int):
    """The package's interval; its numba code is compiled beforehand."""
    from PLD_accounting import gaussian_allocation_epsilon_range

    epsilon_range = functools.partial(gaussian_allocation_epsilon_range, delta=DELTA, num_selected=1)
    epsilon_range(sigma=2.0, num_steps=10)

    def call(i: int) -> list[float]:
        upper, lower = epsilon_range(sigma=noise_multiplier(sigma, i), num_steps=num_steps)
        return [float(lower), float(upper)]

    return call


def _case(name: str, *run, required=None, **options) -> Case:
    peer = functools.partial(pld_accounting, *run)
    options = {"calls": (5, 0), "rounds": 5, "warm_up": 3, **options}
    return Case(name, functools.partial(ours, *run), "PLD_accounting", peer, required, **options)


CASES = [
    _case("exact t=1e3 sigma=1", 1.0, 1000, required=1000, slow=True),
    _case("exact t=1e3 sigma=0.5", 0.5, 1000, required=20),
    _case("exact t=1e5 sigma=0.5", 0.5, 100_000, required=1000, slow=True),
    Case("exact t=1e3 sigma=1 cold", functools.partial(ours, 1.0, 1000), cold=True),
]
