"""Sweeps over noise multipliers, remove direction of random allocation, t = 1000."""

from harness import Case

NUM_STEPS = 1000


def noise_multipliers(i: int, num: int):
    import numpy as np

    return np.linspace(0.5, 2.0, num) + 1e-4 * i


def ours(num: int, top: int):
    import jaxacct as ja

    orders = list(range(2, top + 1))

    def call(i: int) -> float:
        run = ja.RandomAllocation(ja.Gaussian(noise_multipliers(i, num)), num_steps=NUM_STEPS)
        return float(ja.rdp(run, orders, direction=ja.Direction.REMOVE).values[num // 2, -1])

    return call


def looped(num: int, top: int, scipy: bool = False):
    from numpy_series import allocation_rdp, log_sum_exp

    reduce = log_sum_exp
    if scipy:
        from scipy.special import logsumexp as reduce

    def call(i: int) -> float:
        curves = [allocation_rdp(s, NUM_STEPS, top, reduce) for s in noise_multipliers(i, num)]
        return float(curves[num // 2][-1])

    return call


CASES = [
    Case(
        "sweep 200 x 2..60",
        lambda: ours(200, 60),
        "NumPy series, looped",
        lambda: looped(200, 60),
        500,
        quantity="Renyi divergence",
        calls=(20, 1),
        rounds=5,
    ),
    Case(
        "sweep 200 x 2..60 scipy",
        lambda: ours(200, 60),
        "NumPy series, scipy logsumexp, looped",
        lambda: looped(200, 60, scipy=True),
        quantity="Renyi divergence",
        calls=(20, 1),
        rounds=3,
        slow=True,
    ),
    Case(
        "sweep 1000 x 2..256",
        lambda: ours(1000, 256),
        quantity="Renyi divergence",
        calls=(1, 0),
        rounds=5,
        max_mib=1024,
    ),
]
