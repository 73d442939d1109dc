"""Runs that a record takes part in with probability q, as for users who are sampled first and then allocated to steps.

Let P be the law of the run's output with the record, Q without it, and H_k the hockey-stick divergence at k. Sampling
the record turns P into (1-q) Q + q P:

    remove:  H_k((1-q) Q + q P || Q) = q H_k'(P || Q),           k' = 1 + (k - 1) / q,
    add:     H_k(Q || (1-q) Q + q P) = (1 - k (1-q)) H_k'(Q || P),   k' = k q / (1 - k (1-q)), 0 from k (1-q) = 1 on.

The first is Balle, Barthe & Gaboardi 2018, Theorem 2, with equality. Both grow with H, and k' is at least 1 where k is,
so that every certified end of the run's own profile gives one of the sampled run; x = log k' corresponds to the epsilon

    remove:  log(1 - q + q e^x),    add:  -log(1 - q + q e^-x).
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Method, Query, itself
from jaxacct._sharing import shared
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds import allocation
from jaxacct.bounds._distribution import Distribution, loss_distribution, parts_by_laws
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds.bases import BASES
from jaxacct.bounds.poisson._participation import PARTICIPATION_ON_HOST
from jaxacct.curves import Pld
from jaxacct.curves._convolution import compose_plds
from jaxacct.divergence._one_sampled_step import one_step_delta
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, log_mixed_with_one
from jaxacct.mechanisms import Gaussian, PoissonSampled
from jaxacct.special import down, up

_SLACK = 2**8  # ulp, when an epsilon is converted into an epsilon: an exponential, a product, a logarithm
_SHARE_DOWN, _SHARE_UP = 1.0 - 2.0**-49, 1.0 + 2.0**-49  # of a delta: exponential, products, sums, quotient
_NUM_TURNS = 24  # most rounds in which the two ends of an epsilon improve each other: any number of them is valid
_COARSE = 0.1  # relative width of the first answer about a direction, which may turn out not to be the worse one
_FAR = 600.0  # nats, bound on x so that e^x is a double
_COARSEST = 16.0  # nats between losses of a run
_MOST_EXPONENT = 700.0  # nats, of a variance


# One run, by its own answers


def _sampled(x: float, prob: float, direction: Direction) -> Ends[float]:
    """Ends of the epsilon of a sampled run that corresponds to x >= 0 (or inf) of the run itself."""
    if math.isinf(x):
        most = math.inf if direction is Direction.REMOVE else float(-np.log1p(-prob)) if prob < 1.0 else math.inf
        return Ends(down(most, _SLACK), up(most, _SLACK))
    sign = 1.0 if direction is Direction.REMOVE else -1.0
    found = max(0.0, sign * float(log_mixed_with_one(np.array([sign * x]), prob, 1.0 - prob)[0]))
    return Ends(down(found, _SLACK), up(found, _SLACK))


def _one_epsilon(
    ask: Callable[[float], Ends[float]], prob: float, direction: Direction, delta: float, width: float
) -> Ends[float]:
    """The ends of epsilon at `delta`, from ``ask``, which gives the ends of the run's own epsilon at a delta.

    In the remove direction the latter is delta / q; in the add direction it is delta (q + (1-q) e^x) / q, where x is
    the answer itself: a larger x in it gives a smaller answer, so that lower and upper ends of x improve each other in
    turn.
    """

    def own(x: float, share: float) -> Ends[float]:
        grown = 1.0 if direction is Direction.REMOVE else prob + (1.0 - prob) * math.exp(x)
        asked = delta / prob * grown * share
        return ask(asked) if asked < 1.0 else Ends(0.0, 0.0)

    upper = own(0.0, _SHARE_DOWN).upper
    if direction is Direction.REMOVE:
        lower = own(0.0, _SHARE_UP).lower
        return Ends(_sampled(lower, prob, direction).lower, _sampled(upper, prob, direction).upper)
    lower = 0.0
    for _ in range(_NUM_TURNS):
        if not upper < _FAR:
            break
        lower = max(lower, own(upper, _SHARE_UP).lower)
        before, upper = upper, min(upper, max(own(lower, _SHARE_DOWN).upper, lower))
        if upper - lower <= width * lower or upper == before:
            break
    return Ends(_sampled(lower, prob, direction).lower, _sampled(upper, prob, direction).upper)


@shared()  # several questions about one run
def _one_run(mechanism: PoissonSampled, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each requested direction, of a run that is sampled once."""
    run, prob = mechanism.mechanism, float(mechanism.sampling_prob)
    if mechanism.loses_nothing():
        return dict.fromkeys(at.known, Ends(0.0, 0.0))

    def within(width: float, direction: Direction) -> Ends[float]:
        ask = functools.partial(at.ask, run, query, width=width, wants_lower=True, direction=direction)
        if query is Query.EPSILON:
            return _one_epsilon(ask, prob, direction, target, width)

        def profile(log_threshold: float, *, is_upper: bool) -> float:
            found = ask(log_threshold * (_SHARE_DOWN if is_upper else _SHARE_UP))
            return found.upper if is_upper else found.lower

        return one_step_delta(profile, prob, direction, target)

    found: dict[Direction, Ends[float]] = {}
    for direction in at.known:  # a direction no larger than one before it needs no better answer
        found[direction] = within(max(at.width, _COARSE), direction)
        if found[direction].upper > max(ends.lower for ends in found.values()) and at.width < _COARSE:
            found[direction] = within(at.width, direction)
    return found


ONE_RUN = BracketMethod(
    name="one run",
    theorem="Balle, Barthe & Gaboardi 2018, Theorem 2, with equality",
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.TENTHS,
    applies=lambda mechanism: is_scalar(mechanism) and bool(mechanism.num_steps == 1),
    bracket=_one_run,
    below=itself,
    regime="sampled once",
)


# Several runs, each sampled anew: by loss distributions


def _of_run(distribution_of: Callable[..., Distribution | None], mechanism: PoissonSampled) -> Distribution:
    found = distribution_of(mechanism.mechanism)
    assert found is not None
    return found


def _variance(of: Distribution, run: Any) -> float:
    """Approximately Var(dP/dQ) of a run, with the exponent capped so that it is a double."""
    return math.expm1(min(of.scale(run)[0], _MOST_EXPONENT))


def _scale(of: Distribution, mechanism: PoissonSampled) -> tuple[float, int]:
    steps, prob = int(mechanism.num_steps), float(mechanism.sampling_prob)
    return steps * math.log1p(prob * prob * _variance(of, mechanism.mechanism)), steps


def _largest_loss(of: Distribution, mechanism: PoissonSampled) -> float:
    """T log(1 - q + q e^L), L the largest loss of the run itself."""
    one = _sampled(of.largest_loss(mechanism.mechanism), float(mechanism.sampling_prob), Direction.REMOVE)
    return up(one.upper * float(mechanism.num_steps), 4)


def _law(of: Distribution, mechanism: PoissonSampled, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of 1 - q + q Y, Y the ratio of the whole run; no lower bound for the add direction is known.

    The run's own losses may lie further apart, by the factor by which they are larger.
    """
    run, (whole, steps) = mechanism.mechanism, _scale(of, mechanism)
    scale, count = of.scale(run)
    own = min(step * math.sqrt(scale / count / (whole / steps)), _COARSEST) if whole > 0.0 else step
    bound = Bound.UPPER if side is Side.UPPER else Bound.LOWER
    loss = compose_plds(of.parts(run, own, bound, tail)(Direction.REMOVE))
    return BASES[Pld].law(loss, float(mechanism.sampling_prob), step, side, tail)


def _below(of: Distribution, mechanism: PoissonSampled) -> PoissonSampled | None:
    """A run that reveals no more, sampled in the same way; None if none is known."""
    run = of.below(mechanism.mechanism)
    if run is mechanism.mechanism or run is None:
        return None if run is None else mechanism
    return dataclasses.replace(mechanism, mechanism=run)


def _distribution(distribution_of: Callable[..., Distribution | None]) -> Distribution:
    of = functools.partial(_of_run, distribution_of)

    def laws(mechanism: PoissonSampled, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
        if side is Side.LOWER_ADD:  # no loss at all
            return [(RatioLaw(0.0, step, np.ones(1), 0.0, 0.0, side), 1)]
        return [(_law(of(mechanism), mechanism, step, side, tail), int(mechanism.num_steps))]

    return Distribution(
        theorem=lambda mechanism: f"{of(mechanism).source(mechanism.mechanism)}; Zhu, Dong & Wang 2022, Theorem 11",
        parts=parts_by_laws(laws),
        scale=lambda mechanism: _scale(of(mechanism), mechanism),
        largest_loss=lambda mechanism: _largest_loss(of(mechanism), mechanism),
        below=lambda mechanism: _below(of(mechanism), mechanism),
        width_constant=lambda mechanism: of(mechanism).width_constant(mechanism.mechanism),
        is_from_above=lambda mechanism: of(mechanism).is_from_above(mechanism.mechanism),
        is_envelope=lambda mechanism: of(mechanism).is_envelope(mechanism.mechanism),
        exists=is_scalar,
    )


def tables(distribution_of: Callable[..., Distribution | None]) -> dict[tuple[Any, ...], tuple[Method, ...]]:
    """A dict, the table of methods, from the function that gives the loss distributions of the run that is sampled."""
    by_losses = loss_distribution(_distribution(distribution_of))
    later = dataclasses.replace(ONE_RUN, cost=Cost.SECONDS)  # of runs with no quicker methods
    return {
        (PoissonSampled, *run): (
            (PARTICIPATION_ON_HOST, ONE_RUN, by_losses)
            if run[1:] == (Gaussian,)
            else (PARTICIPATION_ON_HOST, by_losses, later)
        )
        for run in allocation.METHODS
    }
