"""jaxacct: a numerical accountant for differential privacy, in JAX.

``dir(jaxacct)`` lists what most people need: descriptions of what was run, and questions about them. The rest is in
submodules: `accounting`, `audit`, `composition`, `correlated`, `curves`, `estimation`, `interop`, `measures`,
`membership`, `papers`, `plot`, `sweeping`, `training`, `utility`. Names and submodules are loaded when they are first
used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxacct._version import __version__ as __version__

if TYPE_CHECKING:
    from jaxacct._types import Bound, Direction, Interval, NeighboringRelation
    from jaxacct._types import EstimateWarning as EstimateWarning
    from jaxacct._types import LastBatch as LastBatch
    from jaxacct._types import OrderEdgeWarning as OrderEdgeWarning
    from jaxacct._types import PrecisionWarning as PrecisionWarning
    from jaxacct._types import SlowWarning as SlowWarning
    from jaxacct.accounting import Entry as Entry
    from jaxacct.accounting import allocation_rdp as allocation_rdp
    from jaxacct.accounting import compare, delta, delta_interval, epsilon, epsilon_interval, pld, rdp
    from jaxacct.accounting import deciding as deciding
    from jaxacct.calibration import calibrate
    from jaxacct.composition import compose as compose
    from jaxacct.curves import Pld as Pld
    from jaxacct.curves import RdpCurve as RdpCurve
    from jaxacct.curves import dominating_pld as dominating_pld
    from jaxacct.curves import mixture as mixture
    from jaxacct.estimation import Estimate as Estimate
    from jaxacct.estimation import Sampler as Sampler
    from jaxacct.estimation import estimate_delta as estimate_delta
    from jaxacct.mechanisms import (
        AboveThreshold,
        BallsInBins,
        CheckIn,
        Composed,
        ContinuousPair,
        DensityReports,
        DiscreteGaussian,
        DiscreteLaplace,
        DiscretePair,
        EpsilonDelta,
        Exponential,
        FiniteRandomizer,
        FixedBatches,
        Gaussian,
        GaussianAboveThreshold,
        GaussianReports,
        Group,
        KaryRandomizedResponse,
        Laplace,
        LaplaceReports,
        LocalRandomizer,
        MixtureOfGaussians,
        ParallelPoisson,
        PartialAllocation,
        PartialShuffledBatches,
        PermuteAndFlip,
        PoissonSampled,
        PrivateSelection,
        RandomAllocation,
        RandomizedResponse,
        ReplaceOne,
        ScheduledAllocation,
        Shuffled,
        ShuffledBatches,
        Skellam,
        TruncatedPoisson,
        ZCdp,
        ZeroOut,
    )
    from jaxacct.membership import gdp as gdp
    from jaxacct.membership import tradeoff
    from jaxacct.reporting import report
    from jaxacct.sweeping import Layout as Layout
    from jaxacct.sweeping import SweepInterrupted as SweepInterrupted
    from jaxacct.sweeping import SweepResult as SweepResult
    from jaxacct.sweeping import sweep
    from jaxacct.utility import mean_estimation_variance as mean_estimation_variance

__all__ = [
    "AboveThreshold",
    "BallsInBins",
    "Bound",
    "CheckIn",
    "Composed",
    "ContinuousPair",
    "DensityReports",
    "Direction",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscretePair",
    "EpsilonDelta",
    "Exponential",
    "FiniteRandomizer",
    "FixedBatches",
    "Gaussian",
    "GaussianAboveThreshold",
    "GaussianReports",
    "Group",
    "Interval",
    "KaryRandomizedResponse",
    "Laplace",
    "LaplaceReports",
    "LocalRandomizer",
    "MixtureOfGaussians",
    "NeighboringRelation",
    "ParallelPoisson",
    "PartialAllocation",
    "PartialShuffledBatches",
    "PermuteAndFlip",
    "PoissonSampled",
    "PrivateSelection",
    "RandomAllocation",
    "RandomizedResponse",
    "ReplaceOne",
    "ScheduledAllocation",
    "Shuffled",
    "ShuffledBatches",
    "Skellam",
    "TruncatedPoisson",
    "ZCdp",
    "ZeroOut",
    "calibrate",
    "compare",
    "delta",
    "delta_interval",
    "epsilon",
    "epsilon_interval",
    "pld",
    "rdp",
    "report",
    "sweep",
    "tradeoff",
]

_HOMES = {  # where each public name lives; what is not in `__all__` is for those who know it
    "_types": (
        *("Bound", "Direction", "Interval", "LastBatch", "NeighboringRelation", "OrderEdgeWarning"),
        *("EstimateWarning", "PrecisionWarning", "SlowWarning"),
    ),
    "accounting": (
        *("Entry", "allocation_rdp", "compare", "deciding", "delta", "delta_interval", "epsilon", "epsilon_interval"),
        *("pld", "rdp"),
    ),
    "calibration": ("calibrate",),
    "composition": ("compose",),
    "curves": ("Pld", "RdpCurve", "dominating_pld", "mixture"),
    "estimation": ("Estimate", "Sampler", "estimate_delta"),
    "membership": ("gdp", "tradeoff"),
    "reporting": ("report",),
    "sweeping": ("Layout", "SweepInterrupted", "SweepResult", "sweep"),
    "utility": ("mean_estimation_variance",),
}

# every other public name is a mechanism
_HOME = dict.fromkeys(__all__, "mechanisms") | {name: home for home, names in _HOMES.items() for name in names}

_SUBMODULES = (
    "accounting",
    "audit",
    "composition",
    "correlated",
    "curves",
    "estimation",
    "interop",
    "measures",
    "membership",
    "papers",
    "plot",
    "sweeping",
    "training",
    "utility",
)


def __dir__() -> list[str]:
    return sorted((*__all__, *_SUBMODULES, "__version__"))


def __getattr__(name: str) -> Any:
    """A public name or a submodule, at its first use."""
    if name in _SUBMODULES or name in _HOME.values():
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found
