"""jaxacct: a numerical accountant for differential privacy, in JAX."""

from jaxacct._types import Bound, Direction, NeighboringRelation, OrderEdgeWarning
from jaxacct.accounting import Entry, allocation_rdp, compare, deciding, delta, epsilon, rdp
from jaxacct.composition import compose
from jaxacct.curves import RdpCurve
from jaxacct.mechanisms import Composed, Gaussian, PoissonSampled, RandomAllocation

__version__ = "0.1.0"

__all__ = [
    "Bound",
    "Composed",
    "Direction",
    "Entry",
    "Gaussian",
    "NeighboringRelation",
    "OrderEdgeWarning",
    "PoissonSampled",
    "RandomAllocation",
    "RdpCurve",
    "allocation_rdp",
    "compare",
    "compose",
    "deciding",
    "delta",
    "epsilon",
    "rdp",
]
