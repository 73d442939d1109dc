"""Private training loops built on optax: batches, clipping and noise follow one description, which gives their cost.

A run is described once. Batches are drawn, records are clipped and noise is added as the description says; the
optimizer's state counts noise releases in one small int32 array, and does no privacy arithmetic. Epsilon is computed on
the host, from the counts and the description, whenever you ask for it.

    import optax
    import jaxacct as ja
    from jaxacct import training

    run = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01, num_steps=1000)
    data = training.batches(run, num_records=60_000, key=secret)
    private = training.private_gradients(loss, data, l2_norm_clip=1.0, key=another)
    optimizer = optax.chain(private, optax.adam(1e-3))
    ...                             # optimizer.update(records, state, params, mask=mask), in jit, scan or shard_map
    print(training.report(opt_state, data, target_delta=1e-6))

If another library clips and adds the noise, `count_releases` counts its releases. It cannot check the following, which
are up to the user: that the noise has the stated standard deviation, that gradients were clipped, and that batches were
drawn as the mechanism says, one for each release, or as many as the counter was told. In a crash, the count of the
releases made after the last saved checkpoint is lost.
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
from jaxacct.training._planned_filter import PlannedFilter
from jaxacct.training._private import private_aggregate, private_gradients
from jaxacct.training._release import PrivateAggregateState
from jaxacct.training._report import report
from jaxacct.training._spending import privacy_spent, steps_affordable
from jaxacct.training._states import apply_gradients, restored, storable, with_counts
from jaxacct.training._table import SpentTable, spent_by_count

__all__ = [
    "AdaptiveClipping",
    "Batch",
    "Batches",
    "BudgetGuardState",
    "Epoch",
    "HeldReleaseCountState",
    "PlannedFilter",
    "PrivateAggregateState",
    "ReleaseCountState",
    "RenyiFilter",
    "SpentTable",
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
    "spent_by_count",
    "steps_affordable",
    "storable",
    "track_privacy",
    "with_counts",
]
