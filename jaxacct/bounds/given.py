"""Releases given by their privacy loss: by distribution functions, a loss distribution or a mixture of Gaussians."""

import dataclasses

from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._one_release import of_one_release
from jaxacct.bounds._stand_in import in_own_relation
from jaxacct.bounds.bases import BASES, spread
from jaxacct.curves import Pld
from jaxacct.mechanisms import ContinuousPair, MixtureOfGaussians

CONTINUOUS = of_one_release(BASES[ContinuousPair], "the pair's own loss distribution", spread)
_GIVEN = of_one_release(BASES[Pld], lambda pld: pld.theorem or "the pair's own loss distribution", spread)
KNOWN = dataclasses.replace(_GIVEN, parts=in_own_relation(_GIVEN.parts), is_given=True)
MIXTURE = of_one_release(BASES[MixtureOfGaussians], "Choquette-Choo et al. 2024, Corollary 4.7", spread)

METHODS = {
    (MixtureOfGaussians,): (loss_distribution(MIXTURE),),
    (ContinuousPair,): (loss_distribution(CONTINUOUS),),
    (Pld,): (loss_distribution(KNOWN),),
}
