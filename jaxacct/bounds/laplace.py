"""One release of the Laplace mechanism, or of permute-and-flip: profile and Renyi divergences in closed form.

Both directions are equal.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxacct._jax import Array, jax
from jaxacct._method import (
    BOTH,
    Bracketing,
    BracketMethod,
    Cost,
    Engine,
    Method,
    ProfileMethod,
    Query,
    RenyiMethod,
    Role,
    itself,
)
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._limits import with_limits
from jaxacct.bounds._one_release import of_one_release
from jaxacct.bounds._orders import MIXED
from jaxacct.bounds.bases import BASES, spread
from jaxacct.bounds.bases._laplace import of_choice
from jaxacct.divergence._two_sided import laplace_kl, laplace_rdp
from jaxacct.mechanisms import Laplace, PermuteAndFlip
from jaxacct.special import down, log1mexp, log1p, up
from jaxacct.special._namespace import xp


def _largest(mechanism: Laplace) -> float:
    """1/b: the largest loss, at which the release is purely epsilon-DP; inf where the scale is tiny."""
    scale = float(mechanism.noise_multiplier)
    return 1.0 / scale if scale > 1e-300 else math.inf


def laplace_delta(mechanism: Laplace, epsilon: float) -> Ends[float]:
    """Two floats, the certified lower and upper ends of delta at `epsilon` >= 0, for noise of scale b:

        delta(epsilon) = 1 - e^((epsilon - 1/b) / 2) for epsilon < 1/b, and 0 from there on.

    Balle, Barthe & Gaboardi 2018, Theorem 3. The same in both directions. Relative width 1e-14, but more within a few
    ulp of 1/b.
    """
    largest = _largest(mechanism)
    if math.isinf(largest):  # 1/b is at least 1e300
        return Ends(1.0 - 2.0**-50 if epsilon < 1e299 else 0.0, 1.0)
    gap = largest - epsilon
    error = 2.0**-51 * largest  # of 1/b, and of the difference
    lower, upper = (-math.expm1(-0.5 * max(gap + side * error, 0.0)) for side in (-1.0, 1.0))
    upper = 0.0 if gap < -error else upper
    upper = min(1.0, math.nextafter(up(upper, 8), 2.0)) if upper > 0.0 else 0.0  # subnormal numbers too
    return Ends(max(0.0, math.nextafter(down(lower, 8), -1.0)), upper)


def laplace_epsilon(mechanism: Laplace, delta: float) -> Ends[float]:
    """Two floats, the certified lower and upper ends of epsilon at `delta` in (0, 1), for noise of scale b:

        epsilon(delta) = 1/b + 2 log(1 - delta), and at least 0.

    The inverse of `laplace_delta`; the same in both directions.
    """
    largest, fall = _largest(mechanism), 2.0 * math.log1p(-delta)
    error = 2.0**-50 * (largest - fall)
    upper = min(up(largest, 8), largest + fall + error)
    lower = max(0.0, math.nextafter(largest + fall - error, -1.0)) if largest < math.inf else 0.0
    return Ends(lower, max(0.0, math.nextafter(upper, math.inf)))


def _bracket(mechanism: Laplace, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each requested direction: equal, since swapping the two distributions mirrors the loss."""
    answer = laplace_delta if query is Query.DELTA else laplace_epsilon
    return dict.fromkeys(at.known, answer(mechanism, target))


def _bracket_of_choice(
    release: PermuteAndFlip, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """The ends of permute-and-flip: those of Laplace noise of scale 1/E, which are attained with two candidates.

    Noise of scale 2 D / E is added to the scores, which a record moves by D at most. In units of that scale, candidate
    sets S and its complement have the largest noisy scores A and B, with hazard rates at most 1: the density of a
    maximum is the sum over i of f_i times the product of the other F_j, which is at most the probability that exactly
    one score exceeds the point, where f_i <= 1 - F_i. The same holds for Z = B - A and -Z, by averaging over the other
    score. So the density of Z is at most min(G, 1 - G), G its distribution function; for Laplace noise it is equal to
    that. Hence a shift by E moves G(0) = P[S] no further than it moves the distribution function of Laplace noise.
    """
    ends = _bracket(of_choice(release), query, target, at)
    top = float(release.choice_epsilon)
    most = top if query is Query.EPSILON else 0.0 if target >= top else 1.0
    return {d: Ends(down(min(end.lower, most), 64), min(end.upper, most)) for d, end in ends.items()}


_SLACK = 2.0**-44  # rounding of the logarithms at hand, some ten ulp each
_OfLanes = Callable[[Any], Array]


def top_of(release: Laplace) -> jax.Array:
    """The largest loss [L], 1/b, rounded up."""
    return up(1.0 / release.noise_multiplier, 4)


def _log_delta(top: _OfLanes, release: Any, epsilon: jax.Array) -> jax.Array:
    """log delta [L], rounded up: log(1 - e^((epsilon - x) / 2)) for epsilon < x, the largest loss."""
    x = top(release)
    gap = xp.where(epsilon < x, x - epsilon, 1.0)
    found = log1mexp(-0.5 * gap)
    found = found + _SLACK * (1.0 + xp.abs(found)) + 2.0**-50 * xp.minimum(x / gap, 1e300)
    return xp.where(epsilon < x, xp.minimum(found, 0.0), -xp.inf)


def _epsilon(top: _OfLanes, release: Any, log_delta: jax.Array) -> jax.Array:
    """epsilon [L], rounded up: x + 2 log(1 - delta), at least 0 and at most x."""
    x = top(release)
    fall = 2.0 * log1p(-xp.exp(xp.minimum(log_delta, -(2.0**-53))) * (1.0 - 2.0**-42))
    return xp.clip(x + fall + _SLACK * (x - fall), 0.0, x)


def _rdp(top: _OfLanes, release: Any, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up: Mironov 2017, Proposition 6. Any order a > 1."""
    return laplace_rdp(xp.asarray(orders, xp.float64)[:, None], top(release))


def on_lanes(top: _OfLanes, theorem: str) -> tuple[Method, ...]:
    """A tuple of methods (class `Method`) for traced programs: the closed forms, from the largest loss `top`."""
    options: dict[str, Any] = {
        "directions": BOTH,
        "cost": Cost.MICROSECONDS,
    }
    curve = with_limits(
        functools.partial(_rdp, top), one=lambda release: laplace_kl(top(release)), largest=lambda release: top(release)
    )
    return (
        ProfileMethod(
            name="closed form",
            theorem=theorem,
            log_delta=functools.partial(_log_delta, top),
            epsilon=functools.partial(_epsilon, top),
            role=Role.BEST_IN_PROGRAMS,  # as it is exact
            **options,
        ),
        RenyiMethod(
            name="rdp",
            theorem="Mironov 2017, Proposition 6",
            rdp=curve,
            grids=MIXED,
            role=Role.BY_NAME,
            **options,
        ),
    )


_CHOICE = "McKenna & Sheldon 2020; Ding et al. 2021, with exponential noise on the scores"
_BALLE = "Balle, Barthe & Gaboardi 2018, Theorem 3"
EXACT = BracketMethod(
    engine=Engine.FORMULA,
    name="exact",
    theorem=_BALLE,
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MICROSECONDS,
    bracket=_bracket,
    below=itself,
)
DISTRIBUTION = of_one_release(BASES[Laplace], "the pair's own loss distribution", spread)

CHOICE = of_one_release(BASES[PermuteAndFlip], _CHOICE, spread)

METHODS: dict[tuple[Any, ...], tuple[Method, ...]] = {
    (Laplace,): (EXACT, loss_distribution(DISTRIBUTION), *on_lanes(top_of, _BALLE)),
    (PermuteAndFlip,): (
        dataclasses.replace(EXACT, theorem=_CHOICE, bracket=_bracket_of_choice),
        loss_distribution(CHOICE),
        *on_lanes(lambda release: release.choice_epsilon, _CHOICE),
    ),
}
