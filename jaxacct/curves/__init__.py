"""Privacy curves, each tagged with what it bounds."""

from jaxacct.curves._pld import Pld
from jaxacct.curves._rdp import RdpCurve

__all__ = ["Pld", "RdpCurve"]
