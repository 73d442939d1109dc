"""BOUND, from above: distributed check-ins, where only the sum of the reports and their Gaussian noise is seen.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Theorem 4 with its missing term
(CI-S17, CI-S24). The sum of k reports has noise of variance k sigma^2, and two data are `gap` standard deviations of
one report's noise apart: the base is a Gaussian with s_k = gap^2 / k. Upper bounds, replace-one adjacency, whole orders
2..A. They are not monotone in the probability of a report: fewer reports mean less noise.
"""

from __future__ import annotations

import enum

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.divergence.kernels import BlockLayout, Blocks, binomial_blocks
from jaxacct.papers.check_ins._from_below import gaussian_log_moments
from jaxacct.papers.check_ins._renyi import BaseMoments, gaussian_base, mixture_rdp
from jaxacct.special import (
    LOG_2PI,
    ULP,
    log1mexp,
    log1p,
    log_binomial_pmf,
    log_sum_of_many,
    log_sum_outward,
    log_up,
    pmf_rounding,
    sinh,
    tanh,
    up,
)

# The trapezoid rule's step in standard deviations, its nodes on either side of the peak; Newton steps to find the peak
_STEP, _HALF, _NEWTON = 0.25, 56, 4


class TernaryMoment(enum.Enum):
    """How the ternary moment of Gaussians is bounded (CI-S17).

    >>> from jaxacct.papers import check_ins
    >>> check_ins.TernaryMoment.GENERIC.value
    'by the Renyi curve, as Theorem 4'
    """

    GENERIC = "by the Renyi curve, as Theorem 4"
    LOGNORMAL = "2^j times the central moment of a lognormal (Minkowski)"
    SHARP = "the larger of three data at equal distances and of two"


def log_sinh_moments(s: jax.Array, *, max_order: int) -> jax.Array:
    """Log T_j(s) [A + 1, ..], j = 0..A, of e^(s (j(j-1)/2 - j^2/8)) E |2 sinh(sqrt(s) g/2)|^j, g normal, rounded up.

    This is the ternary moment E_R |(P - Q)/R|^j of three Gaussians at distance sqrt(s) from each other; odd rows and
    row 0 are -inf. The trapezoid rule around the integrand's peak has positive terms, whereas the alternating sum would
    lose every digit; what it leaves out is below 2^-60 (docs/numerics/clones.md, "Moments of a hyperbolic sine").
    """
    usable = (s > 0) & (s < jnp.inf)
    safe = jnp.where(usable, s, 1.0)
    root = jnp.sqrt(safe)
    offsets = jnp.arange(-_HALF, _HALF + 1, dtype=jnp.int32).astype(jnp.float64)
    offsets = offsets.reshape((-1,) + (1,) * s.ndim)

    def row(j: jax.Array) -> jax.Array:
        peak, slope = _peak(j, jax.lax.stop_gradient(root))
        # nodes at whole multiples of the step, on the positive half: the integrand is even and 0 at 0
        x = _STEP * (jnp.floor(peak / _STEP) + offsets)
        inside = x > 0
        x = jnp.where(inside, x, 1.0)
        rise, rest = 0.5 * root * x, log1mexp(-root * x)
        log_sinh = rise + rest
        error = j * (8.0 + 4.0 * rise - 6.0 * rest) + 3.0 * (j * jnp.abs(log_sinh) + 0.5 * x * x)
        terms = j * log_sinh - 0.5 * x * x + ULP * jax.lax.stop_gradient(error)
        total = log_sum_outward(jnp.where(inside, terms, -jnp.inf), 2.0 * _HALF + 1.0, upward=True)
        tilt = safe * (0.5 * j * (j - 1.0) - 0.125 * j * j)
        value = total + np.log(2.0 * _STEP) - 0.5 * LOG_2PI + tilt
        value = value + ULP * (16.0 + 4.0 * jax.lax.stop_gradient(jnp.abs(total) + tilt))
        value = jnp.where(jnp.abs(slope) <= 1.0, value, jnp.inf)
        return jnp.where(usable, value, jnp.where(s == 0, -jnp.inf, jnp.inf))

    j = jnp.arange(2, max_order + 1, 2, dtype=jnp.int32).astype(jnp.float64)
    even = jax.lax.map(row, j)
    rows = jnp.full((max_order + 1, *s.shape), -jnp.inf)
    return rows.at[2::2].set(even)


def _peak(j: jax.Array, root: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A point near the peak of j log(2 sinh(root x/2)) - x^2/2, and the slope there: the peak is no further away.

    The slope is convex and falls by at least 1 per unit; Newton's iteration starts left of its root and stays there.
    """

    def slope(x: jax.Array) -> jax.Array:
        return 0.5 * j * root / tanh(0.5 * root * x) - x

    x = jnp.maximum(jnp.sqrt(j), 0.5 * j * root)
    for _ in range(_NEWTON):
        bend = 0.25 * j * (root / sinh(jnp.minimum(0.5 * root * x, 300.0))) ** 2
        x = x + slope(x) / (1.0 + bend)
    return x, slope(x)


def _with_odd(even: jax.Array) -> jax.Array:
    """The rows, where rows 3, 5, .. become geometric means of their neighbours (Cauchy-Schwarz); the last is even."""
    return even.at[3::2].set(log_up(0.5 * (even[2:-2:2] + even[4::2]), 2.0))


def distributed_base(gap: jax.Array, num_reports: jax.Array, kind: TernaryMoment, *, max_order: int) -> BaseMoments:
    """Moments [A + 1, ..] of the sum of `num_reports` [..] reports, j = 0..A."""
    spread = up(gap / jnp.sqrt(num_reports), 4)
    generic = gaussian_base(spread, max_order=max_order)
    if kind is TernaryMoment.GENERIC:
        return generic
    top = max(4, max_order + max_order % 2)  # odd rows need the even one above
    flat = spread.reshape(-1)
    central = gaussian_log_moments(flat, max_order=top, upward=True).reshape(-1, *spread.shape)
    j = jnp.arange(top + 1, dtype=jnp.int32).astype(jnp.float64).reshape((-1,) + (1,) * spread.ndim)
    if kind is TernaryMoment.SHARP:
        bound = jnp.maximum(log_sinh_moments(up(spread * spread, 4), max_order=top), central)
    else:
        doubled = central + j * np.log(2.0)
        error = ULP * 3.0 * jax.lax.stop_gradient(j + jnp.abs(doubled))
        bound = jnp.where(j >= 2, doubled + error, -jnp.inf)
    ternary = _with_odd(bound)[: max_order + 1]
    return BaseMoments(jnp.minimum(ternary, generic.log_ternary), generic.log_excess)


def distributed_rdp(
    num_users: jax.Array,
    prob: jax.Array,
    gap: jax.Array,
    *,
    max_order: int,
    layout: BlockLayout,
    kind: TernaryMoment,
    capped: bool = True,
    fewest: int = 0,
) -> jax.Array:
    """Renyi divergences [A - 1, L] of orders 2..A of one round, rounded up; exact sums over blocks of single counts.

    Upper bound: Liew, Hasegawa & Takahashi 2022, Theorem 4, corrected (CI-S17). With `fewest` = k_lo, the divergences
    hold given that at least k_lo users report. The probability of fewer, `low_participation_log_prob`, must then be
    added to delta for each round (CI-S24), or the server must discard such rounds.

    Args:
      num_users, prob, gap: float64 [L].
      max_order: static, A.
      layout: static, blocks of the number of reports.
      kind: static, how the ternary moment is bounded.
      capped: static, whether joint convexity is used too.
      fewest: static, k_lo; 0 for no such condition.
    """
    blocks = binomial_blocks(num_users, prob, layout)
    scale = jnp.zeros_like(num_users)
    if fewest > 0:
        blocks = _from(blocks, float(fewest))
        scale = _log_inverse_participation(num_users, prob, fewest=fewest)

    def base(num_reports: jax.Array) -> BaseMoments:
        return distributed_base(gap, num_reports, kind, max_order=max_order)

    values = mixture_rdp(num_users, blocks, base, capped=capped, log_scale=scale)
    return jnp.where(prob > 0, values, 0.0)


def _from(blocks: Blocks, fewest: float) -> Blocks:
    """The blocks of counts of at least `fewest`; one that straddles it is cut there and keeps its whole weight."""
    keep = blocks.last >= fewest
    first = jnp.where(keep, jnp.maximum(blocks.first, fewest), blocks.first)
    # the law on a shortened block has a larger mean: all of it is put at the far end
    cut = keep & (first > blocks.first)
    mass = log_sum_outward(jnp.stack([blocks.log_low, blocks.log_high]), 2.0, upward=True)
    low = jnp.where(keep, jnp.where(cut, -jnp.inf, blocks.log_low), -jnp.inf)
    high = jnp.where(keep, jnp.where(cut, mass, blocks.log_high), -jnp.inf)
    return Blocks(first, blocks.last, low, high)


def low_participation_log_prob(num_users: jax.Array, prob: jax.Array, *, fewest: int) -> jax.Array:
    """Upper bounds [L] on log P[Bin(n, q) < k_lo], rounded up: a sum of positive terms."""
    k = jnp.arange(max(fewest, 1), dtype=jnp.int32).astype(jnp.float64)[:, None]
    total = jnp.minimum(log_sum_of_many(log_pmf_up(k, num_users, prob)), 0.0)
    return jnp.where(prob > 0, total, 0.0) if fewest > 0 else jnp.full_like(prob, -jnp.inf)


def log_pmf_up(k: jax.Array, num_users: jax.Array, prob: jax.Array) -> jax.Array:
    """Upper bounds on log P[Bin(n, q) = k], by the rounding error of its formula; -inf for k > n."""
    q = jnp.clip(prob, 1e-300, 1.0)
    terms = log_binomial_pmf(jnp.minimum(k, num_users), num_users, q, jnp.maximum(1.0 - q, 1e-300))
    return jnp.where(k <= num_users, log_up(terms + pmf_rounding(terms), 1.0), -jnp.inf)


def _log_inverse_participation(num_users: jax.Array, prob: jax.Array, *, fewest: int) -> jax.Array:
    """Upper bounds [L] on -log P[Bin(n, q) >= k_lo]: from the probability of fewer, or from the count k_lo alone."""
    failure = low_participation_log_prob(num_users, prob, fewest=fewest)
    known = failure < 0
    by_failure = log_up(-log1mexp(jnp.where(known, failure, -1.0)), 6.0)
    q, rest = jnp.maximum(prob, 1e-300), jnp.maximum(1.0 - prob, 1e-300)
    alone = log_binomial_pmf(jnp.full_like(num_users, float(fewest)), num_users, q, rest)
    by_count = jnp.where(alone > -jnp.inf, log_up(pmf_rounding(alone) - alone, 1.0), jnp.inf)
    return jnp.minimum(jnp.where(known, by_failure, jnp.inf), by_count)


def binomial_upper_tail_log(num_users: jax.Array, prob: jax.Array, least: jax.Array, *, num_terms: int) -> jax.Array:
    """Upper bounds [L] on log P[Bin(n, q) >= l], rounded up, sharp for l > n q; 0 where the terms do not fall.

    The sum of `num_terms` (static) terms from l on, and a geometric bound on the rest.
    """
    k = least + jnp.arange(num_terms, dtype=jnp.int32).astype(jnp.float64)[:, None]
    terms = log_pmf_up(k, num_users, prob)
    last, end = terms[-1], k[-1]
    ratio = up(jnp.maximum(num_users - end, 0.0) / (end + 1.0) * prob / (1.0 - prob), 6)
    falls = ratio < 1.0
    some = falls & (last > -jnp.inf)
    fall, beyond = jnp.log(jnp.maximum(ratio, 1e-300)), log1p(-jnp.where(falls, ratio, 0.5))
    sizes = jnp.where(some, jnp.abs(last), 0.0) + 2.0 * (jnp.abs(fall) + jnp.abs(beyond))
    rest = jnp.where(some, last + fall - beyond + ULP * (4.0 + 4.0 * sizes), -jnp.inf)
    total = log_sum_of_many(jnp.concatenate([terms, rest[None]]))
    return jnp.where(falls, jnp.minimum(total, 0.0), 0.0)
