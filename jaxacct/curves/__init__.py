"""Privacy curves, each tagged with what it bounds."""

from jaxacct.curves._from_profile import dominating_pld
from jaxacct.curves._pld import Pld
from jaxacct.curves._rdp import RdpCurve
from jaxacct.curves._regridding import mixture

__all__ = ["Pld", "RdpCurve", "dominating_pld", "mixture"]
