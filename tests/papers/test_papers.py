"""`jaxacct.papers`: what is common to its statements. Their values are compared in test_reference and by paper."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import papers
from jaxacct.papers import check_ins, chen, clones, girgis, random_allocation

RUN = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=100)
REMOVE = ja.Direction.REMOVE


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: girgis.theorem1_rdp(0, 1.0, orders=[2]), r"num_reports=0\.0 must be a whole number"),
        (lambda: girgis.theorem1_rdp(10, -1.0, orders=[2]), r"local_epsilon=-1\.0 must be >= 0 and finite"),
        (lambda: girgis.theorem1_rdp(10, 1.0, orders=[2.5]), r"orders=2\.5 must be a whole number >= 2"),
        (lambda: girgis.theorem1_rdp(10, 1.0, orders=[2], split=1.0), r"split=1\.0 must be in \(0, 1\)"),
        (lambda: girgis.theorem2_rdp(10, 1.0, orders=[1.0]), r"orders=1\.0 in an array must be > 1"),
        (lambda: girgis.theorem4_rdp(10, 1.0, orders=[2], special_pair="exact"), "must be a SpecialPair"),
        (lambda: girgis.at_real_orders([0.1], orders=[2.5]), r"orders=2\.5 must be <= 2"),
        (lambda: girgis.moment_bound(10, 1.0, index=2), "index=2 must be a whole number >= 3"),
        (lambda: girgis.histogram_rdp([[0.5, 0.6]], [[0.5, 0.5]], orders=[2]), "must be laws"),
        (lambda: chen.published_rdp(1, 1.0, orders=[2]), "num_reports=1 must be >= 2"),
        (lambda: chen.limit_gdp(10, 0.0, 1.0), r"clone_prob=0\.0 must be > 0"),
        (lambda: chen.order_level_rdp(10, 1.0, name="nobody", orders=[2]), "name='nobody' must be one of"),
        (lambda: clones.clone_only_epsilon(10, 0.1, 0.0), r"delta=0\.0 must be in \(0, 1\)"),
        (lambda: clones.three_component_epsilon(10, 0.5, 0.1, 1e-6), "component_prob=0.5 must be <= 1/3"),
        (lambda: clones.blocks_delta(0.1, [10, 20], 1.0, width=1), "num_reports=.* must be one whole number"),
        (
            lambda: clones.purified([0.5, 0.4], [0.5, 0.5], 1.0),
            "must be one-dimensional probabilities",
        ),
        (lambda: clones.largest_local_epsilon(10, 1.0, 1e-6, highest=0.5), "must be > epsilon"),
        (lambda: check_ins.least_rdp(1.0, 0.5, 0.1), r"order=1\.0 must be > 1"),
        (lambda: check_ins.sampled_guarantee(10, 20, 1.0, delta1=0.1), "num_reports=20 must be <= num_users=10"),
        (lambda: check_ins.distributed_rdp(10, 0.5, 1.0, max_order=4, kind="sharp"), "must be a TernaryMoment"),
        (lambda: check_ins.floor_rdp(ja.Gaussian(1.0), orders=[2]), "must be a jaxacct.CheckIn"),
        (lambda: check_ins.direct_delta(lambda e, k: 2.0, 0.1, num_users=2, check_in_prob=0.5), "profile must return"),
        (lambda: random_allocation.combined_delta(ja.Gaussian(1.0), 0.1, REMOVE), "must be a jaxacct.RandomAllocation"),
        (
            lambda: random_allocation.combined_delta(RUN, 0.1, "sideways"),
            "direction='sideways' must be Direction.REMOVE",
        ),
        (lambda: random_allocation.truncated_poisson_delta(RUN, 0.1, REMOVE, width="sinh"), "must be a Width"),
        (lambda: random_allocation.truncation_rate(0, 0.1, 0.1, random_allocation.Width.SINH), "num_steps=0 must be"),
        (lambda: random_allocation.discrete_remove_rdp([1.0], [0.5, 0.5], num_steps=2, max_order=3), "the same length"),
        (lambda: random_allocation.doob_log_tail(ja.Gaussian(1.0), 10, 0.0), r"rate=0\.0 must be > 0"),
    ],
)
def test_errors_name_argument_value_and_range(ask: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask()


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: girgis.corollary2_rdp(10, x, orders=[2]),
        lambda x: chen.published_gdp(10, x),
        lambda x: clones.rederived_epsilon(10**5, x, 1e-6),
        lambda x: check_ins.gaussian_pair_sandwich(10, x, orders=[2]),
    ],
)
def test_tracers_are_refused(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="must be concrete numbers"):
        jax.jit(ask)(1.0)


@pytest.mark.parametrize("x64", [False, True])
def test_float64_whatever_the_user_has_set(x64: bool) -> None:
    with jax.enable_x64(x64):
        one = clones.floor_delta(0.5, 100, 1.0)
        rows = girgis.corollary2_rdp([10, 100], 1.0, orders=[2, 3, 4])
    assert isinstance(one, float)
    assert one == pytest.approx((math.e - math.exp(0.5)) / (math.e + 1.0) * (1.0 - 0.5 / math.e) ** 99, rel=1e-12)
    assert rows.dtype == np.float64
    assert rows.shape == (2, 3)
    assert rows[1, 0] == pytest.approx(math.log1p(4.0 * math.sinh(0.5) ** 2 / 100), rel=1e-12)


def test_arguments_broadcast() -> None:
    at = clones.clone_only_epsilon(10**5, [[0.1], [0.2]], [1e-6, 1e-7, 1e-8])
    assert at.shape == (2, 3)
    assert at[1, 2] == clones.clone_only_epsilon(10**5, 0.2, 1e-8)


@pytest.mark.more
def test_statements_from_below_are_below_those_from_above() -> None:
    for n, local in ((50, 3.0), (10**4, 1.0)):
        lower = girgis.lower_rdp(n, local, orders=[2, 8])
        for special_pair in girgis.SpecialPair:
            assert np.all(lower <= girgis.theorem4_rdp(n, local, orders=[2, 8], special_pair=special_pair))
        assert np.all(girgis.best_split_rdp(n, local, orders=[2, 8]) <= girgis.theorem1_rdp(n, local, orders=[2, 8]))
        for sandwich in (chen.moment_sandwich_rdp, chen.cosh_sandwich_rdp):
            ends = sandwich(n, math.exp(-local), local, orders=[2, 8])
            assert np.all(ends.lower <= ends.upper)
            assert np.all(ends.upper >= ja.rdp(ja.Shuffled(ja.LocalRandomizer(local), n), [2, 8]).values)
    blocks = clones.blocks_delta(0.3, 500, 1.5, width=7)
    pair = ja.delta_interval(ja.Shuffled(ja.LocalRandomizer(1.5), 500), 0.3)
    assert blocks.lower <= pair.upper
    assert pair.analysis_lower is not None
    assert pair.analysis_lower <= blocks.upper
    floor = check_ins.floor_rdp(ja.CheckIn(ja.LocalRandomizer(1.0), 1000, 0.1), orders=[2, 4])
    base = check_ins.response_rdp(1.0, orders=[2, 3, 4])
    assert np.all(floor <= check_ins.theorem2_rdp(1000, 0.1, base, highest=1.0)[[0, 2]])


def test_recursive_rate_of_a_huge_epsilon_is_one() -> None:
    assert random_allocation.recursive_rate(10, 1e6) == 1.0


def test_combined_is_the_least_of_its_parts() -> None:
    parts = [
        f(RUN, 0.1, REMOVE) for f in (random_allocation.truncated_poisson_delta, random_allocation.recursive_delta)
    ]
    assert random_allocation.combined_delta(RUN, 0.1, REMOVE) <= min(parts)


def test_papers_are_there_without_an_import_of_each():
    code = "from jaxacct import papers; print(papers.clones.__name__, papers.__all__ == dir(papers))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "jaxacct.papers.clones True\n"
    with pytest.raises(AttributeError, match="no attribute 'clone'"):
        _ = papers.clone
