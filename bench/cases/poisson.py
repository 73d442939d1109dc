"""Poisson-sampled Gaussian steps: epsilon at sigma = 1, q = 0.01, 1000 steps, delta = 1e-6."""

from harness import Case

DELTA = 1e-6


def noise_multiplier(i: int) -> float:
    return 1.0 + 1e-4 * i


def ours():
    import jaxacct as ja

    def call(i: int) -> float:
        run = ja.PoissonSampled(ja.Gaussian(noise_multiplier(i)), sampling_prob=0.01, num_steps=1000)
        return ja.epsilon(run, target_delta=DELTA, precision=float("inf"))

    return call


def dp_accounting():
    """The accountant with its default orders, as its documentation uses it."""
    import dp_accounting
    from dp_accounting import rdp

    def call(i: int) -> float:
        step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(noise_multiplier(i)))
        return float(rdp.RdpAccountant().compose(step, 1000).get_epsilon(DELTA))

    return call


CASES = [
    Case("poisson-epsilon", ours, "dp-accounting", dp_accounting),
    Case("poisson-epsilon cold", ours, "dp-accounting", dp_accounting, 1.0, cold=True),
]
