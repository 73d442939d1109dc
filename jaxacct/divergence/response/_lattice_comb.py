"""Sums over all integers, computed from every h-th of them: the admissible h, and a bound on the error.

For counts k ~ Bin(n, p) and a function G that is a positive mixture of products ``k (k-1) .. (k-j+1) z^k``, z in
[z0, 1], j <= J, the error of the sum over every h-th count consists of aliases, E[G e^(iwk)] at w = 2 pi l/h,
0 < l < h:

    |h sum_m P(mh + c) G(mh + c) - E G| <= sum_l (1 - 4 v' sin(pi l/h)^2)^((n-J)/2) E G <= 3 e^(-2 v sin(pi/h)^2) E G,

since the mixture's parts have moments n..(n-j+1) (pz)^j e^(iwj) (1 - p + p z e^(iw))^(n-j). Here v = (n - J) v', and v'
is the least P(1 - P) for the tilted probabilities P = pz/(1 - p + pz). The bound holds for all counts, including those
far in the tails: nothing is assumed about G beyond the integers.

Where the mixtures are truncated, and where the windows of counts end, the parts left out are below e^-100.
"""

from typing import Any

import numpy as np

from jaxacct._jax import Array
from jaxacct.special._namespace import xp

EXPONENT = 100.0  # natural logarithm: the masses that truncations leave out are below e^-100, and are added as bounds
_SHORTEST = 6.0  # steps h below this are not used: sin(pi/h) is then too far from pi/h for the rule of `stride`


def stride(variance: Any) -> Any:
    """Steps h, floats of the shape of `variance`: about the largest whose aliases are below 3 e^-90 for v = `variance`.

    The step is 1, that is, every integer is summed, where that would be below 6.
    """
    wide = xp.floor(xp.sqrt(0.19 * variance))
    return xp.where(wide >= _SHORTEST, wide, 1.0)


def log_aliases(variance: Array, step: Array) -> Array:
    """Upper bounds [L] on the log of the aliases relative to E G: log(3 e^(-2 v sin(pi/h)^2)), -inf where h = 1."""
    angle = xp.sin(np.pi / xp.maximum(step, 2.0))
    return xp.where(step > 1.0, np.log(3.0) - 2.0 * variance * angle * angle, -np.inf)


def gamma_reach(shape: Any) -> Any:
    """Floats z, of the shape of `shape`, with P[Gamma(shape) > z] <= e^-100, by Chernoff's inequality.

    z = a + y, a the shape, where y^2/(2(a + y)) = 100 bounds Chernoff's exponent.
    """
    return shape + EXPONENT + xp.sqrt(EXPONENT * EXPONENT + 2.0 * EXPONENT * shape)


def right_reach(mean: Any, exponent: Any) -> Any:
    """Floats d, of the arguments' shape, with P[Bin >= mean + d] <= e^-exponent, by Bernstein's inequality.

    d^2 = 2 exponent (mean + d/3).
    """
    third = exponent / 3.0
    return third + xp.sqrt(third * third + 2.0 * exponent * mean)


def left_reach(mean: Any, exponent: Any) -> Any:
    """Floats d, of the arguments' shape, with P[Bin <= mean - d] <= e^-exponent, by Chernoff's inequality.

    d^2 = 2 mean exponent.
    """
    return xp.sqrt(2.0 * mean * exponent)
