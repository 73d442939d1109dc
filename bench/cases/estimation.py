"""Monte Carlo estimates of delta: the same number of samples of the privacy loss, a new noise multiplier on each call.

With every coordinate drawn, the ratio of CPU times is that of coordinates drawn in a CPU second. The peer is
random-allocation's copy of Chua et al.'s estimator, whose importance sampling is our conditional one.
"""

import functools

from harness import Case

EPSILON = 0.1


def noise_multiplier(i: int) -> float:
    return 1.0 + 1e-4 * i


def ours(method: str, direction: str, num_samples: int, num_steps: int, num_selected: int = 1):
    import jaxacct as ja
    from jaxacct.estimation import Sampler, estimate_delta

    def call(i: int) -> float:
        run = ja.RandomAllocation(ja.Gaussian(noise_multiplier(i)), num_steps, num_selected)
        where = {"direction": ja.Direction(direction), "method": Sampler(method)}
        return estimate_delta(run, EPSILON, num_samples=num_samples, seed=i, **where).mean

    return call


def random_allocation(method: str, direction: str, num_samples: int, num_steps: int):
    from random_allocation.external_sources import Monte_Carlo_external as peer

    accountant = peer.BnBAccountant()
    adjacency = peer.AdjacencyType[direction.upper()]

    def call(i: int) -> float:
        if method == "order statistics":
            spans = (1, 100, 1, 100, 500, 10, 500, 1000, 50, 1000, num_steps, 100)
            ranks = peer.get_order_stats_seq_from_encoding(spans, num_steps)
            found = accountant.estimate_order_stats_deltas(
                noise_multiplier(i), [EPSILON], num_steps, num_samples, ranks, 1, adjacency
            )
        else:
            found = accountant.estimate_deltas(
                noise_multiplier(i), [EPSILON], num_steps, num_samples, 1, adjacency, method == "conditional"
            )
        return float(found[0].mean)

    return call


_ESTIMATE = {"quantity": "delta", "estimates": "both"}


def _case(name: str, *run, required=4, **options) -> Case:
    peer = functools.partial(random_allocation, *run)
    options = {"calls": (3, 1), "rounds": 5, "warm_up": 2, "cold_runs": 1, **_ESTIMATE, **options}
    return Case(name, functools.partial(ours, *run), "random-allocation", peer, required, **options)


CASES = [
    _case("mc naive remove 1e4 x 1e3", "naive", "remove", 10_240, 1000),
    _case("mc naive add 1e4 x 1e3", "naive", "add", 10_240, 1000),
    _case("mc naive remove 1e5 x 1e2", "naive", "remove", 102_400, 100),
    _case("mc conditional remove 1e4 x 1e3", "conditional", "remove", 10_240, 1000),
    _case("mc conditional add 1e4 x 1e3", "conditional", "add", 10_240, 1000),
    _case("mc order statistics remove 5e3 x 1e4", "order statistics", "remove", 5_000, 10_000, required=None),
    Case(
        "mc naive 1e3 x 1e6",
        functools.partial(ours, "naive", "remove", 1024, 10**6),
        calls=(1, 0),
        rounds=1,
        slow=True,
        max_mib=330,
        warm_up=0,
        cold_runs=1,
        **_ESTIMATE,
    ),
    Case(
        "mc 4 of 100, 3e4 samples",
        functools.partial(ours, "naive", "remove", 32_768, 100, 4),
        rounds=3,
        warm_up=2,
        **_ESTIMATE,
    ),
]
