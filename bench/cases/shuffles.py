"""Renyi divergences of shuffled reports, order 60 of 2..60, and epsilon of check-ins; a new local epsilon each call."""

import functools

from harness import Case

NUM_REPORTS = 10_000
TOP = 60
DELTA = 1e-6


def local_epsilon(base: float, i: int) -> float:
    return base * (1.0 + 1e-4 * i)


def our_rdp(base: float):
    """The least of all bounds."""
    import jaxacct as ja

    orders = list(range(2, TOP + 1))

    def call(i: int) -> float:
        run = ja.Shuffled(ja.LocalRandomizer(local_epsilon(base, i)), NUM_REPORTS)
        return float(ja.rdp(run, orders).values[-1])

    return call


def our_girgis(base: float):
    """The printed theorem alone, behind the float64 boundary."""
    from jaxacct._precision import Kernel
    from jaxacct.bounds.shuffle._special_pairs import theorem1_rdp

    kernel = Kernel(theorem1_rdp)
    orders = tuple(range(2, TOP + 1))
    return lambda i: float(kernel(float(NUM_REPORTS), local_epsilon(base, i), orders=orders)[-1])


def numpy_rdp(name: str, base: float):
    import numpy_shuffles

    fn = getattr(numpy_shuffles, name)
    return lambda i: float(fn(NUM_REPORTS, local_epsilon(base, i), TOP)[-1])


def our_check_in():
    import jaxacct as ja

    def call(i: int) -> float:
        local = ja.LocalRandomizer(local_epsilon(1.0, i))
        return float(ja.epsilon(ja.CheckIn(local, num_users=NUM_REPORTS, check_in_prob=0.1), DELTA))

    return call


def numpy_check_in():
    from numpy_shuffles import check_in_epsilon

    return lambda i: check_in_epsilon(NUM_REPORTS, 0.1, local_epsilon(1.0, i), DELTA)


def _rdp(name: str, ours, peer_name: str, fn: str, base: float) -> Case:
    ours, peer = functools.partial(ours, base), functools.partial(numpy_rdp, fn, base)
    return Case(name, ours, peer_name, peer, calls=(20, 1), rounds=5, cold_runs=1, quantity="Renyi divergence")


CASES = [
    _rdp("shuffle-rdp", our_rdp, "NumPy, sum over counts", "clones_rdp", 1.0),
    # a smaller local epsilon: the printed theorem says nothing at order 60 and 1
    _rdp("shuffle-rdp Girgis", our_girgis, "NumPy, Theorem 1", "girgis_rdp", 0.25),
    Case(
        "check-in-eps",
        our_check_in,
        "SciPy, sum over counts, 30 halvings",
        numpy_check_in,
        calls=(10, 0),
        rounds=5,
        cold_runs=1,
    ),
]
