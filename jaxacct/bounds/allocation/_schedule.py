"""Random allocation with a noise schedule, and its unfinished epochs: Renyi divergences and closed forms.

Feldman & Shenfeld 2025, Theorem 3.1, holds for steps that differ and for every prefix of the outputs: the likelihood
ratio is the mean of t independent ratios Y_i, 1 for the steps not yet done. Add/remove adjacency, Gaussian noise, one
step a record. `PartialAllocation` and `ScheduledAllocation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct.bounds.allocation._renyi import closed_form_add_epsilon, closed_form_add_log_delta
from jaxacct.composition import compose_gaussian_mu, compose_rdp
from jaxacct.divergence.allocation._powers import rdp_from_log_excess
from jaxacct.divergence.allocation._schedule import Phases, scheduled_laplace_rdp, scheduled_log_excess
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_log_delta
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.mechanisms._partial_allocation import PartialAllocation
from jaxacct.mechanisms._scheduled_allocation import ScheduledAllocation
from jaxacct.special import LEAST_NORMAL, ULP, at_real_orders, down, log_sum_exp, up
from jaxacct.special._namespace import with_rows, xp

Scheduled = PartialAllocation | ScheduledAllocation


class _Run(NamedTuple):
    phases: Phases
    num_epochs: jax.Array


def _unfinished(mechanism: PartialAllocation) -> _Run:
    t = mechanism.num_steps
    return _Run(Phases((mechanism.mechanism.noise_multiplier,), (mechanism.steps_done,), t), xp.ones_like(t))


def _scheduled(mechanism: ScheduledAllocation) -> _Run:
    total = sum(mechanism.num_steps[1:], start=mechanism.num_steps[0])
    return _Run(Phases(mechanism.noise_multipliers, mechanism.num_steps, total), mechanism.num_epochs)


_RUNS: dict[type, Callable[[Any], _Run]] = {PartialAllocation: _unfinished, ScheduledAllocation: _scheduled}


def _run(mechanism: Scheduled) -> _Run:
    """The phases (noise, number of steps) of an epoch of a mechanism of lanes (float64 [L] fields), and the epochs."""
    return _RUNS[type(mechanism)](mechanism)


def _revealed_rdp(phases: Phases, orders: NDArray[Any]) -> jax.Array:
    """Renyi divergences [A, L] where the record's step is public: log of the mean of e^{a (a - 1)/(2 sigma_i^2)}."""
    a = xp.asarray(orders, xp.float64)[:, None]
    done = sum(phases.counts[1:], start=phases.counts[0])
    parts = [
        0.5 * a * (a - 1.0) / (sigma * sigma) + xp.log(count / phases.num_steps)
        for sigma, count in zip(phases.noise_multipliers, phases.counts, strict=True)
    ]
    idle = xp.maximum(phases.num_steps - done, 0.0) / phases.num_steps
    some = idle > 0
    parts.append(xp.where(some, xp.log(xp.where(some, idle, 1.0)), -xp.inf) + 0.0 * a)
    terms = xp.stack(parts)
    largest = xp.max(terms, axis=0)
    return up(xp.maximum(log_sum_exp(terms) + 8.0 * ULP * (16.0 + largest), 0.0) / (a - 1.0), 8)  # the quotient


def scheduled_remove_rdp(mechanism: Scheduled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], remove direction, rounded up, of the average X of the steps' likelihood ratios.

    Feldman & Shenfeld 2025, Theorem 3.1 (RA-X1). At integer orders exact up to rounding, 1e-10 to order 256, by
    the positive recursion in the cumulants of X = (1/t) sum Y_i, which add over the steps; elsewhere the chord between
    them, an upper bound. Never above the mean over the steps of e^{a (a - 1)/(2 sigma_i^2)}, the record's step public.
    Any schedule.
    """
    run, wanted = _run(mechanism), np.asarray(orders, np.float64)
    top = max(2, int(np.ceil(wanted.max())))
    whole = rdp_from_log_excess(scheduled_log_excess(run.phases, max_order=top))
    best = xp.minimum(at_real_orders(whole, range(2, top + 1), orders), _revealed_rdp(run.phases, wanted))
    return compose_rdp([(best, run.num_epochs)])


def scheduled_low_order_remove_rdp(mechanism: Scheduled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], remove direction, rounded up, at orders in (1, 2); inf at other orders.

    Feldman & Shenfeld 2025, Theorem 3.1, by the Laplace transform of the average likelihood ratio (RA-X2). Any
    schedule.
    """
    inside = [i for i, a in enumerate(orders) if 1.0 < a < 2.0]
    run = _run(mechanism)
    curve = xp.full((len(orders), run.num_epochs.shape[0]), xp.inf)
    if not inside:
        return curve
    exact = scheduled_laplace_rdp(run.phases, exponents=[-float(orders[i]) for i in inside], num_nodes=512)
    return with_rows(curve, np.asarray(inside), compose_rdp([(exact, run.num_epochs)]))


def scheduled_add_rdp(mechanism: Scheduled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], add direction, rounded up, at any real order:

        R_a = (1/(a-1)) log E_Q[((1/t) sum Y_i)^-(a-1)].

    Feldman & Shenfeld 2025, Theorem 3.1 (RA-X2): exact up to certified errors, and never above that of the geometric
    mean, (b/2) (1 + (a-1)/t) with b the mean of 1/sigma_i^2 (0 for steps not done).
    """
    run, exponents = _run(mechanism), [float(a) - 1.0 for a in orders]
    num_nodes = 512 if max(exponents) <= 64 else 1024
    exact = scheduled_laplace_rdp(run.phases, exponents=exponents, num_nodes=num_nodes)
    p = xp.asarray(exponents, xp.float64)[:, None]
    # besides the mean: a quotient, a sum, a product
    closed = up(0.5 * run.phases.mean_precision * (1.0 + p / run.phases.num_steps), 8)
    return compose_rdp([(xp.minimum(exact, closed), run.num_epochs)])


def _geometric(mechanism: Scheduled) -> RandomAllocation:
    """Plain allocation whose ratios have the same geometric mean."""
    run = _run(mechanism)
    # no noise is below the least normal double, and so none that stands for them
    noise = xp.maximum(down(1.0 / xp.sqrt(run.phases.mean_precision), 8), LEAST_NORMAL)
    return RandomAllocation(Gaussian(noise), run.phases.num_steps, xp.ones_like(noise), run.num_epochs)


def scheduled_closed_form_add_log_delta(mechanism: Scheduled, epsilon: jax.Array) -> jax.Array:
    """log delta [L] at `epsilon` [L], add direction, upper bound, by the geometric mean.

    Feldman & Shenfeld 2025, Theorem 4.9 (corrected): X is at least the geometric mean of the Y_i, as lognormal as with
    equal noise of the mean precision 1/sigma^2.
    """
    return closed_form_add_log_delta(_geometric(mechanism), epsilon, uneven=False)


def scheduled_closed_form_add_epsilon(mechanism: Scheduled, log_delta: jax.Array) -> jax.Array:
    """epsilon [L] at `log_delta` [L], add direction, upper bound: `scheduled_closed_form_add_log_delta` inverted."""
    return closed_form_add_epsilon(_geometric(mechanism), log_delta, uneven=False)


def _revealed(mechanism: Scheduled) -> tuple[jax.Array, jax.Array]:
    """log of the probability [L] that a record was used at all, and mu [L] of the least noise, composed over epochs.

    The probability is counted for one epoch only; for several the logarithm is 0.
    """
    run = _run(mechanism)
    noises, counts = run.phases.noise_multipliers, run.phases.counts
    done = sum(counts[1:], start=counts[0])
    worst = xp.min(xp.stack(noises), axis=0)
    log_share = xp.where(run.num_epochs == 1, xp.log(done / run.phases.num_steps) + 8.0 * ULP, 0.0)
    return xp.minimum(log_share, 0.0), compose_gaussian_mu([(up(1.0 / worst, 4), run.num_epochs)])


def scheduled_unamplified_log_delta(mechanism: Scheduled, epsilon: jax.Array) -> jax.Array:
    """log delta [L] at `epsilon` [L], both directions, upper bound: the record's step is public, its noise the least.

    Balle & Wang 2018, Theorem 8; after n of t steps of one epoch (n/t) delta_N(epsilon), by convexity.
    """
    log_share, mu = _revealed(mechanism)
    return log_share + gaussian_log_delta(epsilon, mu)


def scheduled_unamplified_epsilon(mechanism: Scheduled, log_delta: jax.Array) -> jax.Array:
    """epsilon [L] at `log_delta` [L], both directions, upper bound: `scheduled_unamplified_log_delta` inverted."""
    log_share, mu = _revealed(mechanism)
    target = log_delta - log_share
    return xp.where(target < 0, gaussian_epsilon(xp.minimum(target, -1e-12), mu), 0.0)
