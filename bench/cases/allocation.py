"""Renyi divergences of random allocation, remove direction, a new noise multiplier on each call, t = 1000."""

import functools

from harness import Case

NUM_STEPS = 1000


def noise_multiplier(i: int) -> float:
    return 1.0 + 1e-4 * i


def ours(top: int):
    import jaxacct as ja

    orders = list(range(2, top + 1))

    def call(i: int) -> float:
        run = ja.RandomAllocation(ja.Gaussian(noise_multiplier(i)), num_steps=NUM_STEPS)
        return float(ja.rdp(run, orders, direction=ja.Direction.REMOVE).values[-1])

    return call


def our_kernel(top: int):
    """The compiled program alone: float64 NumPy arrays of one element in, one array out."""
    import jax
    import numpy as np

    import jaxacct as ja
    from jaxacct.bounds.allocation._renyi import direct_remove_rdp

    orders = tuple(range(2, top + 1))

    def fn(sigma, t, one):
        return direct_remove_rdp(ja.RandomAllocation(ja.Gaussian(sigma), t, one, one), orders=orders, uneven=False)

    t, one = np.array([float(NUM_STEPS)]), np.ones(1)
    with jax.enable_x64(True):
        program = jax.jit(fn).lower(one, t, one).compile()

    def call(i: int) -> float:
        with jax.enable_x64(True):
            return float(np.asarray(program(np.array([noise_multiplier(i)]), t, one))[-1, 0])

    return call


def random_allocation(top: int):
    """The package's enumeration of integer partitions: they are cached, and its numba code compiled, beforehand."""
    from random_allocation.random_allocation_scheme import direct

    for alpha in range(2, top + 1):
        direct.generate_partitions(n=alpha, max_size=NUM_STEPS)
        direct.compute_exp_term(partition=(1,) * alpha, alpha=alpha, num_steps=NUM_STEPS, sigma=1.0)
    direct.compute_exp_term(partition=(1,), alpha=1, num_steps=NUM_STEPS, sigma=1.0)

    def call(i: int) -> float:
        sigma = noise_multiplier(i)
        return [direct.allocation_RDP_remove(a, sigma, NUM_STEPS) for a in range(2, top + 1)][-1]

    return call


def numpy_series(top: int):
    from numpy_series import allocation_rdp

    return lambda i: float(allocation_rdp(noise_multiplier(i), NUM_STEPS, top)[-1])


def scipy_series(top: int):
    from numpy_series import allocation_rdp
    from scipy.special import logsumexp

    return lambda i: float(allocation_rdp(noise_multiplier(i), NUM_STEPS, top, logsumexp)[-1])


_RENYI = {"quantity": "Renyi divergence"}


def _case(name: str, top: int, ours, peer_name: str, peer, required, **options) -> Case:
    return Case(
        name, functools.partial(ours, top), peer_name, functools.partial(peer, top), required, **_RENYI, **options
    )


_PACKAGE = "random-allocation"
CASES = [
    _case("rdp-2..40", 40, ours, _PACKAGE, random_allocation, 1_500),
    _case("rdp-2..40 kernel", 40, our_kernel, _PACKAGE, random_allocation, None),
    _case("rdp-2..60 numpy", 60, ours, "NumPy series", numpy_series, 200, calls=(40, 5)),
    _case("rdp-2..60 kernel numpy", 60, our_kernel, "NumPy series", numpy_series, None, calls=(40, 5)),
    _case("rdp-2..60 scipy", 60, ours, "NumPy series, scipy logsumexp", scipy_series, None, calls=(40, 2)),
    _case("rdp-2..60", 60, ours, _PACKAGE, random_allocation, 50_000, rounds=3, slow=True),
]
