"""Audits of trained models: a measured lower bound on epsilon, with a confidence, beside the certified interval.

An audit shows that the epsilon of a run is at least that large. It never gives an upper bound on the epsilon of a
mechanism. `docs/audit.md` says what is measured, and how.
"""

from jaxacct.audit._many_runs import many_runs
from jaxacct.audit._one_run import one_run, p_value
from jaxacct.audit._result import Audit

__all__ = ["Audit", "many_runs", "one_run", "p_value"]
