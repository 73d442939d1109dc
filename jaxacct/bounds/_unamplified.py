"""Closed-form upper bounds for releases, sampled or not, as if it were public which steps used a record.

All Gaussian steps and epochs are one Gaussian pair of distance mu, the root of the sum of 1/sigma^2, or 4/sigma^2 where
a record is replaced (forgetting the steps is post-processing); the rest loses at most b, the sum of its largest losses.
Then delta at epsilon is at most the pair's at epsilon - b: a factor Y <= e^b of mean at most 1 raises E(X Y - e^eps)_+
to E(X - e^(eps - b))_+ at most.

For the pair, P[Z > x] with x = eps/mu - mu/2 is at least delta (Balle & Wang 2018, Theorem 8, without its second term),
and the Mills ratio at x is below 4 / (3 x + (x^2 + 8)^(1/2)) for x >= 0 (Sampford 1953). This costs little where there
is little noise, the case that the laws leave to it.

Discrete Gaussian noise has the Renyi divergences of Gaussian noise at most (Canonne, Kamath & Steinke 2020, Theorem 4),
but not its profile: where a part has it, all these parts are rho-zCDP, with rho = mu^2 / 2, and delta at epsilon is at
most exp(-(epsilon - b - rho)^2 / (4 rho)) (Bun & Steinke 2016, Proposition 1.3 and its proof).
"""

from __future__ import annotations

import math
from typing import Any

from jaxacct._jax import jnp
from jaxacct.bounds._releases import Releases
from jaxacct.special import up

_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)
_SLACK = 2.0**-44  # 512 ULP, of sums and logarithms that err by some ten of their parts


def _distance_and_loss(of: Releases) -> tuple[Any, Any]:
    """mu of all Gaussian and discrete Gaussian releases, or None, and the largest loss of all else, both rounded up."""
    if of.given or of.known:
        return None, jnp.inf
    noisy = [(x.count, 1.0 / x.noise, (x.noise > 0.0) & _is_prob(x.prob)) for x in of.gaussian]
    noisy += [(x.count, 2.0 / x.noise, (x.noise > 0.0) & _is_prob(x.prob)) for x in of.replaced]
    noisy += [(x.count, 1.0 / x.noise, (x.noise > 0.0) & (x.steps >= 1.0)) for x in of.epochs]
    noisy += [
        (x.count, x.sensitivity / x.scale, (x.scale > 0.0) & (x.sensitivity >= 0.0) & _is_prob(x.prob))
        for x in of.discrete_gaussian
    ]
    losses = [(x.count, 1.0 / x.noise, (x.noise > 0.0) & _is_prob(x.prob)) for x in of.laplace]
    losses += [(x.count, 1.0 / x.noise, (x.noise > 0.0) & (x.steps >= 1.0)) for x in of.laplace_epochs]
    losses += [(x.count, x.local, (x.local >= 0.0) & (x.reports >= 1.0)) for x in of.rounds]
    losses += [(x.count, x.loss, (x.loss >= 0.0) & (x.categories >= 2.0)) for x in of.responses]
    losses += [
        (x.count, x.scale * x.sensitivity, (x.scale >= 0.0) & (x.sensitivity >= 0.0) & _is_prob(x.prob))
        for x in of.discrete_laplace
    ]
    mu = jnp.sqrt(_total([(count, each * each, usual) for count, each, usual in noisy])) if noisy else None
    return mu, _total(losses) if losses else jnp.zeros(())


def _is_prob(x: Any) -> Any:
    return (x >= 0.0) & (x <= 1.0)


def _total(rows: list[tuple[Any, Any, Any]]) -> Any:
    """An upper bound on the sum of counts times numbers; inf where a number is out of its range."""
    count, each, is_usual = (jnp.stack([jnp.asarray(x) for x in column]) for column in zip(*rows, strict=True))
    total = up(jnp.sum(jnp.where(count > 0.0, each * count, 0.0)), len(rows) + 16)
    return jnp.where(jnp.all(is_usual & (count >= 0.0)) & (total >= 0.0), total, jnp.inf)


def _log_mills(x: Any) -> Any:
    """An upper bound on the logarithm of the Mills ratio, x >= 0."""
    return -jnp.log(0.75 * x + 0.25 * jnp.sqrt(x * x + 8.0))


def unamplified_epsilon(of: Releases, log_delta: Any) -> Any:
    """A number, an upper bound on epsilon at `log_delta`; inf where some release has no largest loss."""
    mu, loss = _distance_and_loss(of)
    if mu is None:
        return loss
    if of.discrete_gaussian:
        rho = 0.5 * mu * mu
        return loss + up(rho + 2.0 * jnp.sqrt(rho * jnp.maximum(-log_delta, 1e-30)), 2**10)
    length = -log_delta - _LOG_ROOT
    length = length + _SLACK * (1.0 + jnp.abs(length))

    def after(x: Any) -> Any:
        return jnp.sqrt(2.0 * jnp.maximum(length + _log_mills(x), 1e-30))

    # the solution of x^2 / 2 = length + log m(x) lies between any iterate and the next: below the first and the third
    found = loss + up(mu * (after(after(after(0.0))) + 0.5 * mu), 2**10)
    return jnp.where(mu > 0.0, found, loss)


def unamplified_log_delta(of: Releases, epsilon: Any) -> Any:
    """A number, an upper bound on log delta at `epsilon`; 0 where nothing is known."""
    mu, loss = _distance_and_loss(of)
    if mu is None:
        return jnp.where(epsilon >= loss, -jnp.inf, 0.0)
    if of.discrete_gaussian:
        x = (epsilon - loss) / mu - 0.5 * mu
        x = jnp.maximum(x - _SLACK * (jnp.abs(x) + mu), 0.0)
        return jnp.where(x > 0.0, -0.5 * x * x * (1.0 - _SLACK), 0.0)
    x = (epsilon - loss) / mu - 0.5 * mu
    x = jnp.maximum(x - _SLACK * (jnp.abs(x) + mu), 0.0)
    found = _log_mills(x) - 0.5 * x * x - _LOG_ROOT
    return jnp.where(x > 0.0, found + _SLACK * (1.0 + jnp.abs(found)), 0.0)
