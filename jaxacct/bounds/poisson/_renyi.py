"""Mironov, Talwar and Zhang 2019, "Renyi differential privacy of the sampled Gaussian mechanism"."""

from collections.abc import Sequence

import jax

from jaxacct.composition import compose_rdp
from jaxacct.divergence.gaussian._sampled import sampled_gaussian_rdp
from jaxacct.mechanisms import PoissonSampled


def poisson_rdp(mechanism: PoissonSampled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of Poisson-sampled Gaussian steps, upper bound, both directions.

    Section 3.3: D_a((1-q) N(0, s^2) + q N(1, s^2) || N(0, s^2)) in each step, exact at integer orders up to
    its rounding slack, certified at real ones. Theorems 4 and 5: this direction (remove) is the larger
    of the two, and one dimension is the worst. Add/remove adjacency; any sigma > 0, 0 <= q <= 1.
    """
    rdp = sampled_gaussian_rdp(mechanism.mechanism.noise_multiplier, mechanism.sampling_prob, orders=orders)
    return compose_rdp([(rdp, mechanism.num_steps)])
