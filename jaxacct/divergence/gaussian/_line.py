"""Complex moments of the Gaussian pair on a line: closed form."""

import jax
import jax.numpy as jnp

from jaxacct.divergence._inversion import Line, LineMoments
from jaxacct.special import down, up


def gaussian_log_moment(orders: jax.Array, noise_multiplier: jax.Array) -> jax.Array:
    """Logarithms [J, L] of M(a) = e^{a (a - 1) / (2 sigma^2)}, the same in both directions, rounded to nearest.

    `orders` [J, L] are real; `noise_multiplier` [L] is sigma, in units of the sensitivity.
    """
    return 0.5 * orders * (orders - 1.0) / (noise_multiplier * noise_multiplier)


def gaussian_line(line: Line, noise_multiplier: jax.Array) -> LineMoments:
    """`LineMoments` of one Gaussian step on `line`, noise multiplier sigma [L], in closed form:

        log M(a + ib) = (a (a - 1) - b^2 + i b (2a - 1)) / (2 sigma^2),   |M(a + ib)| = M(a) e^{-b^2 / (2 sigma^2)}.

    Rounding is booked as 2^-50 of the sizes of what is added.
    """
    precision = 0.5 / (noise_multiplier * noise_multiplier)
    a, b = line.order, line.heights
    modulus, phase = (a * (a - 1.0) - b * b) * precision, b * (2.0 * a - 1.0) * precision
    error = 2.0**-50 * (jnp.abs(modulus) + jnp.abs(phase) + b * b * precision)
    alias = up(gaussian_log_moment(line.alias_orders, noise_multiplier), 8)
    return LineMoments(modulus, phase, error, alias, -down(line.edges * line.edges * precision, 8))
