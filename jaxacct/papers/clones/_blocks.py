"""BOUND, from both sides, on the clones pair by blocks of counts, without a sum over every count.

Feldman, McMillan & Talwar 2021, Appendix F, Algorithms 4 to 6, without their early exits (CL-S4). The divergence given
C clones does not rise with C. Over the blocks [t S, t S + S) of C therefore

    sum_t Pr[C in block] h(last C of block)  <=  delta  <=  sum_t Pr[C in block] h(first C of block),

with h(c) the divergence of the pair with c clones for certain. S = 1 is the pair itself. A cross-check of
`clones_delta`.
"""

from __future__ import annotations

import math

from jaxacct._jax import jax, jnp
from jaxacct._types import Ends
from jaxacct.divergence.kernels import ProfileEnds, clones_delta
from jaxacct.special import log_binomial_pmf, log_down, log_sum_exp, log_sum_outward, log_up, pmf_rounding

_WINDOW = 128  # counts of `clones_delta`, of which only one is needed: the number of clones is certain here
_BATCH = 256  # blocks that are computed together: memory only


def block_delta(
    epsilon: jax.Array,
    num_reports: jax.Array,
    clone_prob: jax.Array,
    local_epsilon: jax.Array,
    *,
    width: int,
    num_blocks: int,
) -> ProfileEnds:
    """Lower and upper ends [L] of log D_{e^epsilon} of the clones pair; `log_tail` is that of the upper end.

    The two sums of the module, rounded outwards: each probability by what Loader's form errs by, each sum by what it
    errs by, upon ends of `clones_delta` that hold. (-inf, 0) where `num_blocks` blocks do not
    hold every count.

    Args:
      epsilon: >= 0, [L].
      num_reports, clone_prob, local_epsilon: as for `clones_delta`.
      width: static, S >= 1.
      num_blocks: static, at least num_reports / width.
    """
    last = num_reports - 1.0

    def block(start: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        counts = start + jnp.arange(width, dtype=jnp.int32).astype(jnp.float64)[:, None]
        inside = counts <= last
        logs = log_binomial_pmf(jnp.where(inside, counts, 0.0), last, clone_prob, 1.0 - clone_prob)
        error = pmf_rounding(jax.lax.stop_gradient(jnp.where(logs > -jnp.inf, logs, 0.0)))
        least, most = (
            log_sum_outward(jnp.where(inside, logs + sign * error, -jnp.inf), float(width), upward=sign > 0)
            for sign in (-1.0, 1.0)
        )
        # at the first count, then at the last: side by side, which compiles one program of them
        clones = jnp.concatenate([jnp.minimum(start, last), jnp.minimum(start + (width - 1.0), last)])
        budget, local = (jnp.concatenate([x, x]) for x in (epsilon, local_epsilon))
        ends = clones_delta(budget, clones + 1.0, jnp.ones_like(clones), local, window=_WINDOW)
        num, log_delta = epsilon.shape[0], ends.log_delta
        return least + log_delta.lower[num:], most + log_delta.upper[:num], most + ends.log_tail[:num]

    starts = width * jnp.arange(num_blocks, dtype=jnp.int32).astype(jnp.float64)
    lower, upper, tail = jax.lax.map(block, starts, batch_size=min(_BATCH, num_blocks))
    # a term of two parts <= 0 errs by an ULP of itself, whose mean is at most that of the sum and log n
    lower = log_down(log_sum_outward(lower, float(num_blocks), upward=False), math.log(num_blocks) + 1.0)
    upper = log_up(log_sum_outward(upper, float(num_blocks), upward=True), math.log(num_blocks) + 1.0)
    held = num_reports <= width * num_blocks
    log_delta = Ends(
        jnp.where(held, lower, -jnp.inf),
        jnp.where(held, jnp.minimum(upper, 0.0), 0.0),
    )
    return ProfileEnds(log_delta, log_sum_exp(tail))
