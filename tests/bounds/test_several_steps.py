"""Random settings of k-out-of-t allocation: no lower end lies above an upper end of any method.

Thirty settings by default, a thousand in `test_a_thousand_settings` (slow).
"""

import warnings
from typing import Any

import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Bracketing, Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds.allocation._threshold_test import THRESHOLD_TEST

# each gives an upper end in these directions
METHODS = {
    "direct": (Direction.REMOVE,),
    "overlap": (Direction.REMOVE,),
    "how many steps": (Direction.REMOVE,),
    "decomposition": tuple(Direction),
    "geometric mean": (Direction.ADD,),
    "loss distribution": tuple(Direction),
}
_FEW = ("overlap", "how many steps")
_MANY = 1000  # steps for each selected one, beyond which loss distributions take minutes


def _never(*arguments: Any, **options: Any) -> Any:
    raise AssertionError(arguments, options)


def _lower(run: Any, query: Query, target: float) -> dict[Direction, float]:
    at = Bracketing(width=0.01, known=dict.fromkeys(Direction, Ends(0.0, 1.0)), wants_lower=True, ask=_never)
    return {d: ends.lower for d, ends in THRESHOLD_TEST.bracket(run, query, target, at).items()}


def _setting(seed: int) -> tuple[ja.RandomAllocation, float]:
    rng = np.random.default_rng([20, seed])
    selected = round(float(np.exp(rng.uniform(np.log(2.0), np.log(50.0)))))
    apart = float(np.exp(rng.uniform(np.log(1.2), np.log(3e4))))
    sigma = float(np.exp(rng.uniform(np.log(0.4), np.log(4.0))))
    epochs = round(float(np.exp(rng.uniform(0.0, np.log(50.0)))))
    run = ja.RandomAllocation(ja.Gaussian(sigma), max(round(selected * apart), selected + 1), selected, epochs)
    return run, float(10.0 ** rng.uniform(-9.0, -3.0))


def _check(seed: int, methods: tuple[str, ...]) -> None:
    """Both lower ends and every upper end once: by default, and by each of `methods` where it is declared."""
    run, delta = _setting(seed)
    lower = _lower(run, Query.EPSILON, delta)
    asked = [(None, direction) for direction in Direction]
    large = run.num_steps > _MANY * run.num_selected
    declared = [method for method in methods if not (large and method == "loss distribution")]
    asked += [(method, direction) for method in declared for direction in METHODS[method]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method, direction in asked:
            upper = ja.epsilon(run, delta, method=method, direction=direction)
            assert lower[direction] <= upper, (run, delta, direction, method)
    epsilon = max(lower.values())
    if 0.0 < epsilon < 30.0:
        assert max(_lower(run, Query.DELTA, epsilon).values()) <= ja.delta(run, epsilon)


@pytest.mark.sample(2)
@pytest.mark.parametrize("first", range(0, 30, 5))
def test_no_lower_end_above_an_upper_one(first: int) -> None:
    for seed in range(first, first + 5):
        _check(seed, _FEW)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_a_thousand_settings(first: int) -> None:
    for seed in range(first, first + 50):
        _check(seed, tuple(METHODS) if seed % 25 == 0 else _FEW)  # loss distributions take some seconds


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(10))
def test_other_releases(seed: int) -> None:
    rng = np.random.default_rng([21, seed])
    selected = int(rng.integers(2, 8))
    steps = selected + int(np.exp(rng.uniform(0.0, np.log(100.0))))
    releases = (
        ja.Laplace(float(np.exp(rng.uniform(-0.7, 1.5)))),
        ja.DiscretePair((0.7, 0.2, 0.1), tuple(rng.dirichlet(np.ones(3)))),
        ja.DiscreteLaplace(float(rng.uniform(0.1, 1.0)), int(rng.integers(1, 4))),
        ja.DiscreteGaussian(float(rng.uniform(1.0, 2.0)), 1),
        ja.PoissonSampled(ja.Gaussian(float(rng.uniform(0.6, 2.0))), 0.3, 1),
    )
    run = ja.RandomAllocation(releases[seed % 5], steps, selected, int(rng.integers(1, 4)))
    delta = float(10.0 ** rng.uniform(-8.0, -3.0))
    lower = _lower(run, Query.EPSILON, delta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for direction in Direction:
            upper = ja.epsilon(run, delta, direction=direction, precision=0.1)
            assert 0.5 * upper < lower[direction] <= upper


@pytest.mark.parametrize(
    "release",
    [
        ja.DiscretePair((0.5, 0.5), (0.5, 0.5)),
        ja.DiscretePair((1.0, 0.0), (0.0, 1.0)),
        ja.DiscretePair((1.0, 0.0), (0.5, 0.5)),
        ja.EpsilonDelta(0.0, 0.0),
        ja.Laplace(0.02),
        ja.PoissonSampled(ja.Laplace(1.0), 0.0, 1),
        ja.PoissonSampled(ja.Gaussian(1.0), 0.5, 3),
    ],
)
def test_odd_releases_say_nothing_rather_than_something_wrong(release: Any) -> None:
    run = ja.RandomAllocation(release, 10, 3)
    for query, target in ((Query.EPSILON, 1e-6), (Query.DELTA, 1.0)):
        for lower in _lower(run, query, target).values():
            assert 0.0 <= lower <= query.worst
    assert max(_lower(run, Query.DELTA, 1.0).values()) <= ja.delta(run, 1.0)
