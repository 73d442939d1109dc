"""What a statement about training does not cover: things often done besides the steps that are described."""

from jaxacct.mechanisms._base import Description
from jaxacct.mechanisms._fixed_batches import FixedBatches
from jaxacct.mechanisms._parallel_poisson import ParallelPoisson
from jaxacct.mechanisms._partial_allocation import PartialAllocation
from jaxacct.mechanisms._poisson_sampled import PoissonSampled
from jaxacct.mechanisms._private_selection import PrivateSelection
from jaxacct.mechanisms._random_allocation import RandomAllocation
from jaxacct.mechanisms._same_bins import SameBins
from jaxacct.mechanisms._scheduled_allocation import ScheduledAllocation
from jaxacct.mechanisms._shuffled_batches import PartialShuffledBatches, ShuffledBatches
from jaxacct.mechanisms._truncated_poisson import TruncatedPoisson

_NORMALISER = (
    "sums divided by anything but a public constant (not by how many records were drawn, nor by a share of a secret "
    "number of records)"
)
_TUNING = "settings tuned on the same data by runs that are not described here (`PrivateSelection` describes tuning)"
_EVALUATION = "losses, accuracies and stopping times that are computed on the training data without noise"

_DRAWN = (PoissonSampled, ParallelPoisson, RandomAllocation, SameBins, PartialAllocation, ScheduledAllocation)
_SENTENCES = {
    **dict.fromkeys((*_DRAWN, TruncatedPoisson), (_NORMALISER, _TUNING, _EVALUATION)),
    **dict.fromkeys((FixedBatches, ShuffledBatches, PartialShuffledBatches), (_TUNING, _EVALUATION)),  # of one size
}


def not_covered(run: Description) -> tuple[str, ...]:
    """Sentences on what the numbers of `run` do not cover, each once; () if it is not training."""
    found = [*_SENTENCES.get(type(run), ()), *(line for part in run.wrapped() for line in not_covered(part))]
    chosen = _TUNING if type(run) is PrivateSelection else None
    return tuple(dict.fromkeys(line for line in found if line != chosen))
