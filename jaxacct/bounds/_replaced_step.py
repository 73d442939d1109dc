"""One Poisson-sampled Gaussian step with a replaced record: its profile in closed form, and the inverse."""

from collections.abc import Mapping

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._mirrored import THEOREM
from jaxacct.bounds._parts import is_scalar
from jaxacct.divergence._one_sampled_step import inverted
from jaxacct.divergence.gaussian._replaced_step import replaced_step_delta
from jaxacct.mechanisms import Gaussian, PoissonSampled, ReplaceOne


def _is_one_step(mechanism: ReplaceOne) -> bool:
    run = mechanism.mechanism
    one = run.signature() == (PoissonSampled, Gaussian) and is_scalar(mechanism) and run.num_steps == 1
    return bool(one and 0.0 < run.sampling_prob < 1.0)


def _bracket(mechanism: ReplaceOne, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends, the same in each direction."""
    run = mechanism.mechanism
    noise, prob = float(run.mechanism.noise_multiplier), float(run.sampling_prob)

    def delta(epsilon: float) -> Ends[float]:
        return replaced_step_delta(noise, prob, epsilon)

    return dict.fromkeys(at.known, delta(target) if query is Query.DELTA else inverted(delta, target))


REPLACED_STEP = BracketMethod(
    engine=Engine.FORMULA,
    name="one step",
    theorem=THEOREM,
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=_is_one_step,
    bracket=_bracket,
    below=itself,
    regime="one Poisson-sampled Gaussian step",
)
