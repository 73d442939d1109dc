"""Renyi divergences of Poisson-sampled Gaussian steps.

Mironov, Talwar & Zhang 2019, "Renyi differential privacy of the sampled Gaussian mechanism".
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxacct._jax import jax
from jaxacct.composition import compose_rdp
from jaxacct.divergence.gaussian._sampled import sampled_gaussian_rdp
from jaxacct.divergence.gaussian._sampled_add import sampled_gaussian_add_rdp
from jaxacct.mechanisms import PoissonSampled
from jaxacct.special._namespace import xp


def poisson_rdp(mechanism: PoissonSampled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up, of T Poisson-sampled Gaussian steps:

        R_a = T D_a((1-q) N(0, s^2) + q N(1, s^2) || N(0, s^2)).

    Mironov, Talwar & Zhang 2019, Section 3.3: exact at integer orders up to the rounding slack, certified at real ones.
    Theorems 4 and 5: this direction (remove) is the larger of the two, and one dimension is the worst. Add/remove
    adjacency; any s > 0, 0 <= q <= 1.
    """
    rdp = sampled_gaussian_rdp(mechanism.mechanism.noise_multiplier, mechanism.sampling_prob, orders=orders)
    return compose_rdp([(rdp, mechanism.num_steps)])


def poisson_add_rdp(mechanism: PoissonSampled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], add direction, rounded up, of T Poisson-sampled Gaussian steps:

        R_a = T D_a(N(0, s^2) || (1-q) N(0, s^2) + q N(1, s^2)).

    Any real order, by quadrature with every error added; never above `poisson_rdp` (Mironov, Talwar & Zhang 2019,
    Theorem 5). Add/remove adjacency; any s > 0, 0 <= q <= 1.
    """
    sigma, q = mechanism.mechanism.noise_multiplier, mechanism.sampling_prob
    rdp = compose_rdp([(sampled_gaussian_add_rdp(sigma, q, orders=orders), mechanism.num_steps)])
    return xp.minimum(rdp, poisson_rdp(mechanism, orders=orders))
