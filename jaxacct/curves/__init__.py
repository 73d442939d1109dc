"""Privacy curves, each tagged with what it bounds."""

from jaxacct.curves._pld import Pld
from jaxacct.curves._rdp import RdpCurve
from jaxacct.curves._regridding import mixture, on_grid

__all__ = ["Pld", "RdpCurve", "mixture", "on_grid"]
