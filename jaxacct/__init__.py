"""jaxacct: a numerical accountant for differential privacy, in JAX."""

from jaxacct._types import Bound, Direction, Interval, NeighboringRelation, OrderEdgeWarning, PrecisionWarning
from jaxacct.accounting import (
    Entry,
    allocation_rdp,
    compare,
    deciding,
    delta,
    delta_interval,
    epsilon,
    epsilon_interval,
    pld,
    rdp,
)
from jaxacct.calibration import calibrate
from jaxacct.composition import compose
from jaxacct.curves import Pld, RdpCurve, mixture
from jaxacct.curves._from_profile import dominating_pld
from jaxacct.estimation import Estimate, Sampler, estimate_delta
from jaxacct.mechanisms import (
    CheckIn,
    Composed,
    ContinuousPair,
    DiscretePair,
    FiniteRandomizer,
    Gaussian,
    GaussianReports,
    KaryRandomizedResponse,
    Laplace,
    LocalRandomizer,
    PartialAllocation,
    PoissonSampled,
    RandomAllocation,
    ScheduledAllocation,
    Shuffled,
)
from jaxacct.membership import gdp, tradeoff
from jaxacct.reporting import report
from jaxacct.sweeping import Layout, SweepInterrupted, SweepResult, sweep
from jaxacct.utility import mean_estimation_variance

__version__ = "0.1.0"

__all__ = [
    "Bound",
    "CheckIn",
    "Composed",
    "ContinuousPair",
    "Direction",
    "DiscretePair",
    "Entry",
    "Estimate",
    "FiniteRandomizer",
    "Gaussian",
    "GaussianReports",
    "Interval",
    "KaryRandomizedResponse",
    "Laplace",
    "Layout",
    "LocalRandomizer",
    "NeighboringRelation",
    "OrderEdgeWarning",
    "PartialAllocation",
    "Pld",
    "PoissonSampled",
    "PrecisionWarning",
    "RandomAllocation",
    "RdpCurve",
    "Sampler",
    "ScheduledAllocation",
    "Shuffled",
    "SweepInterrupted",
    "SweepResult",
    "allocation_rdp",
    "calibrate",
    "compare",
    "compose",
    "deciding",
    "delta",
    "delta_interval",
    "dominating_pld",
    "epsilon",
    "epsilon_interval",
    "estimate_delta",
    "gdp",
    "mean_estimation_variance",
    "mixture",
    "pld",
    "rdp",
    "report",
    "sweep",
    "tradeoff",
]
