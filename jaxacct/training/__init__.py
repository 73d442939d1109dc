"""Privacy tracking for training loops built on optax: count noise releases, read epsilon, stop at a budget.

The optimizer's state carries one small array of int32 counters and no privacy arithmetic. Epsilon is computed on the
host, from the counters and the description of the mechanism, whenever it is asked for.

    import jax, optax
    import jaxacct as ja
    from jaxacct import training

    sampling = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01)
    budget = training.steps_affordable(sampling, target_epsilon=3.0, target_delta=1e-6)
    noise = optax.contrib.differentially_private_aggregate(l2_norm_clip=1.0, noise_multiplier=1.0, key=0)
    optimizer = training.budget_guard(optax.chain(training.count_releases(noise), optax.adam(1e-3)), budget)
    ...                                                       # train as always, in jit, scan or shard_map
    training.privacy_spent(opt_state, sampling, target_delta=1e-6)

What a count stands for: one call of the noise transform whose result was kept. What it does not see, and the user has
to see to: that the noise has the standard deviation stated, that gradients were clipped, that batches were drawn as
the mechanism says, one for each release and not several added up, and that releases made after the last saved
checkpoint are lost with it. Counts inside `optax.MultiSteps`, where batches may be added up, are refused.
"""

from jaxacct.training._accumulation import accumulated
from jaxacct.training._adaptive import AdaptiveClipping
from jaxacct.training._batches import Batch, Batches, batches
from jaxacct.training._counting import (
    HeldReleaseCountState,
    ReleaseCountState,
    count_releases,
    release_counts,
    track_privacy,
)
from jaxacct.training._filter import RenyiFilter
from jaxacct.training._guard import BudgetGuardState, budget_guard
from jaxacct.training._phases import Epoch
from jaxacct.training._private import private_aggregate, private_gradients
from jaxacct.training._release import PrivateAggregateState
from jaxacct.training._report import report
from jaxacct.training._spending import privacy_spent, steps_affordable
from jaxacct.training._states import apply_gradients, restored, storable, with_counts

__all__ = [
    "AdaptiveClipping",
    "Batch",
    "Batches",
    "BudgetGuardState",
    "Epoch",
    "HeldReleaseCountState",
    "PrivateAggregateState",
    "ReleaseCountState",
    "RenyiFilter",
    "accumulated",
    "apply_gradients",
    "batches",
    "budget_guard",
    "count_releases",
    "privacy_spent",
    "private_aggregate",
    "private_gradients",
    "release_counts",
    "report",
    "restored",
    "steps_affordable",
    "storable",
    "track_privacy",
    "with_counts",
]
