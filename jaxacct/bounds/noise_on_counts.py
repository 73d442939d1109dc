"""Integer-valued noise, and releases described by a zCDP guarantee.

Ghosh, Roughgarden & Sundararajan 2012 (discrete Laplace); Canonne, Kamath & Steinke 2020 (discrete Gaussian); Agarwal,
Kairouz & Liu 2021 (Skellam); Bun & Steinke 2016 (zCDP). Shapes: L is the number of lanes, A that of Renyi orders. Both
directions are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxacct._jax import jax
from jaxacct._method import Method, Role
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._limits import in_closed_form, with_limits
from jaxacct.bounds._one_release import of_one_release
from jaxacct.bounds.bases import BASES, spread
from jaxacct.bounds.discrete import EXACT as TYPES
from jaxacct.divergence import _two_sided
from jaxacct.mechanisms import DiscreteGaussian, DiscreteLaplace, Skellam, ZCdp
from jaxacct.special import up
from jaxacct.special._namespace import xp


def zcdp_rdp(release: ZCdp, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up: xi + rho a (Bun & Steinke 2016, Definition 1.1)."""
    return up(release.xi + release.rho * xp.asarray(orders, xp.float64)[:, None], 8)


def discrete_gaussian_rdp(release: DiscreteGaussian, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up: the upper bound that is exact for continuous noise,

        R_a <= a sensitivity^2 / (2 scale^2).

    Canonne, Kamath & Steinke 2020, Theorem 4 (its proof is for every order). Any order a > 1.
    """
    return up(0.5 * xp.asarray(orders, xp.float64)[:, None] * (release.sensitivity / release.scale) ** 2, 16)


def _discrete_laplace_largest(release: DiscreteLaplace) -> jax.Array:
    """The divergence of order inf [L], rounded up: decay times sensitivity."""
    return up(release.noise_parameter * release.sensitivity, 4)


def discrete_laplace_rdp(release: DiscreteLaplace, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up: by definition, a geometric sum over the outputs.

    Any order a > 1; see `jaxacct.divergence._two_sided`.
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    return _two_sided.discrete_laplace_rdp(a, release.noise_parameter, _discrete_laplace_largest(release))


def _discrete_laplace_kl(release: DiscreteLaplace) -> jax.Array:
    """The divergence of order 1 [L], rounded up."""
    return _two_sided.discrete_laplace_kl(release.noise_parameter, _discrete_laplace_largest(release))


_DEFINITION = "the definition, over the outputs"
DISCRETE_LAPLACE = of_one_release(BASES[DiscreteLaplace], _DEFINITION, spread)
SKELLAM = of_one_release(BASES[Skellam], _DEFINITION, spread)
DISCRETE_GAUSSIAN = of_one_release(BASES[DiscreteGaussian], _DEFINITION, spread)

METHODS: dict[tuple[Any, ...], tuple[Method, ...]] = {
    (DiscreteLaplace,): (
        TYPES,
        loss_distribution(DISCRETE_LAPLACE),
        in_closed_form(
            _DEFINITION,
            with_limits(discrete_laplace_rdp, one=_discrete_laplace_kl, largest=_discrete_laplace_largest),
            role=Role.IN_PROGRAMS,
        ),
    ),
    (DiscreteGaussian,): (
        TYPES,
        in_closed_form("Canonne, Kamath & Steinke 2020, Theorem 4", with_limits(discrete_gaussian_rdp)),
        loss_distribution(DISCRETE_GAUSSIAN),
    ),
    (Skellam,): (TYPES, loss_distribution(SKELLAM)),
    (ZCdp,): (
        in_closed_form(
            "Bun & Steinke 2016, Definition 1.1",
            with_limits(zcdp_rdp, largest=lambda release: xp.where(release.rho > 0, xp.inf, release.xi)),
        ),
    ),
}
