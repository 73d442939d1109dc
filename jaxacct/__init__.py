"""jaxacct: a numerical accountant for differential privacy, in JAX."""

from jaxacct._types import Bound, Direction, NeighboringRelation, OrderEdgeWarning
from jaxacct.accounting import Entry, allocation_rdp, compare, deciding, delta, epsilon, rdp
from jaxacct.composition import compose
from jaxacct.curves import Pld, RdpCurve, mixture
from jaxacct.intervals import Interval, PrecisionWarning, delta_interval, epsilon_interval, pld
from jaxacct.mechanisms import (
    Composed,
    ContinuousPair,
    DiscretePair,
    FiniteRandomizer,
    Gaussian,
    GaussianReports,
    KaryRandomizedResponse,
    Laplace,
    LocalRandomizer,
    PoissonSampled,
    RandomAllocation,
    Shuffled,
)

__version__ = "0.1.0"

__all__ = [
    "Bound",
    "Composed",
    "ContinuousPair",
    "Direction",
    "DiscretePair",
    "Entry",
    "FiniteRandomizer",
    "Gaussian",
    "GaussianReports",
    "Interval",
    "KaryRandomizedResponse",
    "Laplace",
    "LocalRandomizer",
    "NeighboringRelation",
    "OrderEdgeWarning",
    "Pld",
    "PoissonSampled",
    "PrecisionWarning",
    "RandomAllocation",
    "RdpCurve",
    "Shuffled",
    "allocation_rdp",
    "compare",
    "compose",
    "deciding",
    "delta",
    "delta_interval",
    "epsilon",
    "epsilon_interval",
    "mixture",
    "pld",
    "rdp",
]
