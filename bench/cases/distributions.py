"""Certified intervals of epsilon at delta = 1e-6 by privacy loss distributions, a new noise multiplier on each call.

`epsilon_interval` answers to the relative width named in the case. The peers run at their defaults:
PLD_accounting's interval stops at a relative width of 0.1, dp-accounting's value is an upper bound alone.
For several selected steps our interval is that of what was analysed, as PLD_accounting's is.
"""

import functools

from harness import Case

DELTA = 1e-6


def noise_multiplier(base: float, i: int) -> float:
    return base * (1.0 + 1e-5 * i)


def _interval(mechanism, precision: float) -> list[float]:
    import jaxacct as ja

    found = ja.epsilon_interval(mechanism, target_delta=DELTA, precision=precision)
    return [found.analysis_lower, found.upper]


def our_allocation(sigma: float, num_steps: int, num_selected: int, precision: float):
    import jaxacct as ja

    def call(i: int) -> list[float]:
        noise = ja.Gaussian(noise_multiplier(sigma, i))
        return _interval(ja.RandomAllocation(noise, num_steps, num_selected), precision)

    return call


def pld_accounting(sigma: float, num_steps: int, num_selected: int):
    """The package's interval; its numba code is compiled beforehand."""
    from PLD_accounting import gaussian_allocation_epsilon_range

    epsilon_range = functools.partial(gaussian_allocation_epsilon_range, delta=DELTA, num_selected=num_selected)
    epsilon_range(sigma=2.0, num_steps=10 * num_selected)

    def call(i: int) -> list[float]:
        upper, lower = epsilon_range(sigma=noise_multiplier(sigma, i), num_steps=num_steps)
        return [float(lower), float(upper)]

    return call


def our_poisson(sigma: float, sampling_prob: float, num_steps: int, precision: float):
    import jaxacct as ja

    def call(i: int) -> list[float]:
        noise = ja.Gaussian(noise_multiplier(sigma, i))
        return _interval(ja.PoissonSampled(noise, sampling_prob=sampling_prob, num_steps=num_steps), precision)

    return call


def dp_accounting(sigma: float, sampling_prob: float, num_steps: int):
    from dp_accounting.pld import privacy_loss_distribution

    def call(i: int) -> float:
        step = privacy_loss_distribution.from_gaussian_mechanism(
            noise_multiplier(sigma, i), sampling_prob=sampling_prob
        )
        return float(step.self_compose(num_steps).get_epsilon_for_delta(DELTA))

    return call


def _allocation(name: str, *run, precision: float = 0.01, required=None, **options) -> Case:
    ours = functools.partial(our_allocation, *run, precision)
    options = {"calls": (1, 0), "rounds": 5, "warm_up": 2, "cold_runs": 1, **options}
    return Case(name, ours, "PLD_accounting", functools.partial(pld_accounting, *run), required, **options)


def _poisson(name: str, *run, **options) -> Case:
    ours, peer = functools.partial(our_poisson, *run, 2e-4), functools.partial(dp_accounting, *run)
    options = {"calls": (1, 1), "rounds": 5, "warm_up": 2, "cold_runs": 1, **options}
    return Case(name, ours, "dp-accounting PLD", peer, 10, **options)


CASES = [
    _allocation("pld t=1e3 sigma=0.5", 0.5, 1000, 1, required=5),
    _allocation("pld t=1e3 sigma=1", 1.0, 1000, 1, required=40, slow=True),
    _allocation("pld t=1e3 sigma=1 fine", 1.0, 1000, 1, precision=0.001, slow=True),
    _allocation("pld t=1e4 k=10 sigma=1", 1.0, 10_000, 10, required=30, slow=True),
    _allocation("pld t=1e5 sigma=1", 1.0, 100_000, 1, required=30, slow=True),
    _poisson("pld poisson 1e4 sigma=1", 1.0, 0.01, 10_000),
    _poisson("pld poisson 1e5 sigma=0.7", 0.7, 0.001, 100_000, rounds=3, slow=True),
]
