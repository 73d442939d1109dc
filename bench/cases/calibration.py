"""The noise multiplier that just meets (epsilon, delta): a table of Poisson-sampled settings, a new one on each call.

Ours is one call for the whole table; dp-accounting's `calibrate_dp_mechanism` is called for each row, with its own
bracket and tolerance, by its Renyi accountant against our Renyi answer and by its accountant by loss distributions
(defaults, an upper bound) against our exact one. Both return the last row's noise.

Two tables: sampling probabilities of 0.003 to 0.05, and of 0.001 to 0.03 with fewer steps and smaller epsilons, where
moment inversion needs more nodes or gives way to loss distributions.
"""

import functools

from harness import Case


def table(i: int, num: int, *, rare: bool):
    """Rows (epsilon, delta, sampling probability, steps)."""
    import numpy as np

    rng = np.random.default_rng(0)
    epsilon = rng.uniform(0.5, 4.0 if rare else 8.0, num) * (1.0 + 1e-4 * i)
    delta = 10.0 ** -rng.uniform(5.0, 8.0, num)
    if rare:
        steps, prob = rng.integers(500, 20000, num), 10.0 ** -rng.uniform(1.5, 3.0, num)
    else:
        prob, steps = 10.0 ** rng.uniform(-2.5, -1.3, num), rng.integers(1000, 20000, num)
    return epsilon, delta, prob, steps


def ours(num: int, precision: float | None, *, rare: bool):
    import jaxacct as ja
    from jaxacct.calibration import calibrate

    def call(i: int) -> float:
        epsilon, delta, prob, steps = table(i, num, rare=rare)
        run = ja.PoissonSampled(ja.Gaussian(None), sampling_prob=prob, num_steps=steps)
        return float(calibrate(run, "noise_multiplier", epsilon, delta, precision=precision)[-1])

    return call


def dp_accounting(num: int, accountant: str, *, rare: bool):
    import dp_accounting as dp
    from dp_accounting import mechanism_calibration, pld, rdp

    fresh = {"rdp": rdp.RdpAccountant, "pld": pld.PLDAccountant}[accountant]

    def one(epsilon: float, delta: float, prob: float, steps: int) -> float:
        def event(noise: float):
            return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(prob, dp.GaussianDpEvent(noise)), steps)

        return float(mechanism_calibration.calibrate_dp_mechanism(fresh, event, epsilon, delta))

    def call(i: int) -> float:
        return [
            one(float(e), float(d), float(q), int(t)) for e, d, q, t in zip(*table(i, num, rare=rare), strict=True)
        ][-1]

    return call


def _case(kind: str, precision: float | None, accountant: str, *, rare: bool) -> Case:
    return Case(
        f"calibrate 100 poisson {kind}{', rare' if rare else ''}",
        functools.partial(ours, 100, precision, rare=rare),
        f"dp-accounting, {accountant.upper()}",
        functools.partial(dp_accounting, 100, accountant, rare=rare),
        10,
        calls=(1, 0),
        rounds=3,
        warm_up=1,
        cold_runs=1,
        slow=accountant == "pld",
        quantity="noise multiplier",
    )


CASES = [
    _case(kind, precision, accountant, rare=rare)
    for kind, precision, accountant in (("rdp", float("inf"), "rdp"), ("exact", None, "pld"))
    for rare in (False, True)
]
