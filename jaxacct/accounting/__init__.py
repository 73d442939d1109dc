"""The functional interface: questions about mechanisms, answered by the methods that apply."""

from jaxacct.accounting._compare import compare, deciding
from jaxacct.accounting._curves import allocation_rdp, pld, rdp
from jaxacct.accounting._entries import Entry
from jaxacct.accounting._plan import Plan, plan
from jaxacct.accounting._questions import delta, delta_interval, epsilon, epsilon_interval

__all__ = [
    "Entry",
    "Plan",
    "allocation_rdp",
    "compare",
    "deciding",
    "delta",
    "delta_interval",
    "epsilon",
    "epsilon_interval",
    "plan",
    "pld",
    "rdp",
]
