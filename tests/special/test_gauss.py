"""Gauss's rule against rules of 40 digits, for every length that is used."""

import mpmath as mp
import pytest

from jaxacct.divergence._laplace_step import _NUM_NODES
from jaxacct.special import gauss_legendre


@pytest.mark.parametrize("num", [2, *_NUM_NODES])
def test_nodes_and_weights(num: int) -> None:
    nodes, weights = gauss_legendre(num)
    assert nodes == pytest.approx(-nodes[::-1], abs=0.0)
    with mp.workdps(40):
        for x, w in list(zip(nodes, weights, strict=True))[: max(1, num // 2)]:
            root = mp.findroot(lambda t: mp.legendre(num, t), mp.mpf(float(x)))
            slope = num * (mp.legendre(num - 1, root) - root * mp.legendre(num, root)) / (1 - root**2)
            assert abs(root - float(x)) <= 2.0**-52
            assert abs(float(w) * (1 - root**2) * slope**2 / 2 - 1) <= 2.0**-46
