"""Mechanisms: frozen descriptions of what was run, made of public parameters only.

Each is a pytree whose leaves are its numeric fields, so it can be vmapped over and differentiated through. Fields may
be arrays: every query broadcasts over them.
"""

from jaxacct.mechanisms._above_threshold import AboveThreshold, GaussianAboveThreshold
from jaxacct.mechanisms._adjacent import ReplaceOne, ZeroOut
from jaxacct.mechanisms._balls_in_bins import BallsInBins
from jaxacct.mechanisms._check_in import CheckIn
from jaxacct.mechanisms._choices import Exponential, PermuteAndFlip
from jaxacct.mechanisms._composed import Composed
from jaxacct.mechanisms._continuous_pair import ContinuousPair
from jaxacct.mechanisms._density_reports import DensityReports
from jaxacct.mechanisms._discrete_pair import DiscretePair
from jaxacct.mechanisms._epsilon_delta import EpsilonDelta
from jaxacct.mechanisms._fixed_batches import FixedBatches
from jaxacct.mechanisms._gaussian import Gaussian
from jaxacct.mechanisms._group import Group
from jaxacct.mechanisms._laplace import Laplace
from jaxacct.mechanisms._local_randomizers import (
    FiniteRandomizer,
    GaussianReports,
    KaryRandomizedResponse,
    LaplaceReports,
    LocalRandomizer,
)
from jaxacct.mechanisms._mixture_of_gaussians import MixtureOfGaussians
from jaxacct.mechanisms._noise_on_counts import DiscreteGaussian, DiscreteLaplace, Skellam
from jaxacct.mechanisms._parallel_poisson import ParallelPoisson
from jaxacct.mechanisms._partial_allocation import PartialAllocation
from jaxacct.mechanisms._poisson_sampled import PoissonSampled
from jaxacct.mechanisms._private_selection import PrivateSelection
from jaxacct.mechanisms._random_allocation import RandomAllocation
from jaxacct.mechanisms._randomized_response import RandomizedResponse
from jaxacct.mechanisms._scheduled_allocation import ScheduledAllocation
from jaxacct.mechanisms._shuffled import Shuffled
from jaxacct.mechanisms._shuffled_batches import PartialShuffledBatches, ShuffledBatches
from jaxacct.mechanisms._truncated_poisson import TruncatedPoisson
from jaxacct.mechanisms._z_cdp import ZCdp

__all__ = [
    "AboveThreshold",
    "BallsInBins",
    "CheckIn",
    "Composed",
    "ContinuousPair",
    "DensityReports",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscretePair",
    "EpsilonDelta",
    "Exponential",
    "FiniteRandomizer",
    "FixedBatches",
    "Gaussian",
    "GaussianAboveThreshold",
    "GaussianReports",
    "Group",
    "KaryRandomizedResponse",
    "Laplace",
    "LaplaceReports",
    "LocalRandomizer",
    "MixtureOfGaussians",
    "ParallelPoisson",
    "PartialAllocation",
    "PartialShuffledBatches",
    "PermuteAndFlip",
    "PoissonSampled",
    "PrivateSelection",
    "RandomAllocation",
    "RandomizedResponse",
    "ReplaceOne",
    "ScheduledAllocation",
    "Shuffled",
    "ShuffledBatches",
    "Skellam",
    "TruncatedPoisson",
    "ZCdp",
    "ZeroOut",
]
