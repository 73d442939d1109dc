"""The worst-case pair for a record, sampled or not, that is replaced by another one.

Let N be the law of the output without either record, P' that with the one record and Q' that with the other. For every
set S of outputs with N(S) = n, P'(S) <= U(n) and Q'(S) >= L(n), where U(n) and L(n) are the largest and the least
probability that any record gives to a set with this N(S). So for every k >= 0 and sampling probability q

    H_k((1-q) N + q P' || (1-q) N + q Q') <= max_n (1-q) (1-k) n + q U(n) - k q L(n).

For location families with monotone likelihood ratios, such as Gaussian and Laplace noise, U and L are attained by the
same half-lines, with P = N shifted by 1 and Q = N shifted by -1. That pair is the worst case for every k at once, in
either order, and therefore composes (Zhu, Dong & Wang 2022, Theorem 10). Records that contribute 1 and -1 attain it.
The same holds for shifts of random size, term by term.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxacct.bounds.bases import _replaced
from jaxacct.divergence.lattice._ratio import RatioLaw, Side
from jaxacct.mechanisms import Gaussian, Laplace, MixtureOfGaussians, PoissonSampled
from jaxacct.special import up

THEOREM = "Neyman & Pearson 1933, half-lines that are worst for both records; Zhu, Dong & Wang 2022, Theorem 10"


class Mirrored(NamedTuple):
    """The pair of one step of a run, and the number of steps.

    `law` gives the law of the pair for (step, side, tail); `scale`, `largest_loss` and `divided` are as for
    `Distribution`, for one step.
    """

    law: Callable[[float, Side, float], RatioLaw]
    num_steps: int
    scale: float
    largest_loss: float = math.inf
    divided: float = 0.0

    def laws(self, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
        """The law of a step and its number of runs, as `parts_by_laws` takes them."""
        return [(self.law(step, side, tail), self.num_steps)]

    def whole_scale(self) -> tuple[float, int]:
        """The scale of all steps, and their number, as for `Distribution.scale`."""
        return self.scale * self.num_steps, self.num_steps


def _of_mixture(release: MixtureOfGaussians, prob: float, count: int) -> Mirrored:
    def law(step: float, side: Side, tail: float) -> RatioLaw:
        return _replaced.mirrored_mixture(release, prob, step, side, tail)

    return Mirrored(law, count, math.log1p(_replaced.spread(release, prob)))


def _of_sampled_gaussian(run: PoissonSampled) -> Mirrored | None:
    release = MixtureOfGaussians(float(run.mechanism.noise_multiplier), (1.0,), (1.0,))
    return _of_sampled_mixture(PoissonSampled(release, run.sampling_prob, run.num_steps))


def _of_sampled_mixture(run: PoissonSampled) -> Mirrored | None:
    prob = float(run.sampling_prob)
    return _of_mixture(run.mechanism, prob, int(run.num_steps)) if 0.0 < prob < 1.0 else None


def _of_sampled_laplace(run: PoissonSampled) -> Mirrored | None:
    scale, prob = float(run.mechanism.noise_multiplier), float(run.sampling_prob)
    if not 0.0 < prob < 1.0 or scale < _replaced.LEAST_SCALE:
        return None
    loss = _replaced.laplace_loss(scale, prob)

    def law(step: float, side: Side, tail: float) -> RatioLaw:
        del tail  # nothing is cut off
        return _replaced.mirrored_laplace(scale, prob, step, side)

    spread = min(loss * loss, 4.0 * prob * prob * math.expm1(1.0 / scale))
    return Mirrored(law, int(run.num_steps), spread, up(loss, 2**6), 2.0 * loss)


_PAIRS: dict[tuple[type, ...], Callable[[Any], Mirrored | None]] = {
    (MixtureOfGaussians,): lambda run: _of_mixture(run, 1.0, 1),
    (PoissonSampled, Gaussian): _of_sampled_gaussian,
    (PoissonSampled, MixtureOfGaussians): _of_sampled_mixture,
    (PoissonSampled, Laplace): _of_sampled_laplace,
}


def mirrored(run: Any) -> Mirrored | None:
    """The pair (`Mirrored`, a NamedTuple) of a run with concrete fields; None where none is known."""
    make = _PAIRS.get(run.signature())
    return None if make is None or run.loses_nothing() else make(run)
