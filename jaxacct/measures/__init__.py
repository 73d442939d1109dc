"""Privacy in numbers other than epsilon and delta: attack success, Gaussian and concentrated privacy.

Each measure is a description, called with a mechanism; `jaxacct.calibrate`, `jaxacct.sweep` and `jaxacct.report` take
it as ``measure=``. `docs/calibration.md` says what each certifies, and why.
"""

from jaxacct.measures._concentrated import ZeroConcentratedDp
from jaxacct.measures._gaussian_dp import GaussianDp
from jaxacct.measures._measure import Advantage, BayesRisk, Measure, TruePositiveRate

# by the name of the number
KINDS: dict[str, type[Measure]] = {
    kind.name: kind for kind in (Advantage, TruePositiveRate, BayesRisk, GaussianDp, ZeroConcentratedDp)
}

__all__ = ["KINDS", "Advantage", "BayesRisk", "GaussianDp", "Measure", "TruePositiveRate", "ZeroConcentratedDp"]
