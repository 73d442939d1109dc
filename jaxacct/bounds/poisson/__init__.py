"""Bounds for Poisson-sampled steps: each record joins each step independently, with a given probability."""

from typing import Any

import numpy as np

from jaxacct._method import BOTH, Cost, Method, RenyiMethod, Together
from jaxacct._precision import is_traced
from jaxacct._types import Direction
from jaxacct.bounds._by_laws import laws
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._host_line import EXACT, LAPLACE
from jaxacct.bounds._limits import with_limits
from jaxacct.bounds._moments import MOMENTS
from jaxacct.bounds._orders import MIXED
from jaxacct.bounds._renyi_of_outputs import LISTED
from jaxacct.bounds.bases import BASES
from jaxacct.bounds.discrete import EXACT as TYPES
from jaxacct.bounds.gaussian import unamplified
from jaxacct.bounds.poisson._law import DISTRIBUTION
from jaxacct.bounds.poisson._one_step import ONE_GAUSSIAN_STEP, ONE_STEP
from jaxacct.bounds.poisson._participation import PARTICIPATION, PARTICIPATION_ON_HOST
from jaxacct.bounds.poisson._renyi import SAMPLED_LAPLACE, poisson_add_rdp, poisson_rdp
from jaxacct.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscretePair,
    EpsilonDelta,
    Gaussian,
    Laplace,
    PoissonSampled,
)

_NEAR_ONE = 1.0 + 2.0**-16  # the order that is used in the place of 1
_RENYI = RenyiMethod(
    name="rdp",
    theorem="Mironov, Talwar & Zhang 2019, Theorems 4 and 5",
    directions=BOTH,
    cost=Cost.MILLISECONDS,
    rdp={
        Direction.REMOVE: with_limits(poisson_rdp, near_one=_NEAR_ONE),
        Direction.ADD: with_limits(poisson_add_rdp, near_one=_NEAR_ONE),
    },
    grids=MIXED,
    numpy=Together(256),
)
_DISTRIBUTION = loss_distribution(DISTRIBUTION)
_WITH_LAWS, _LAWS = (DiscreteGaussian, DiscreteLaplace, EpsilonDelta), laws()


def _may_be_several(mechanism: PoissonSampled) -> bool:
    """Whether there may be more than one step: one has its closed form."""
    return is_traced(mechanism.num_steps) or bool(np.any(np.asarray(mechanism.num_steps) != 1))


# in the order in which they are asked, by their cost: methods on the host, then those on lanes
METHODS: dict[tuple[Any, ...], tuple[Method, ...]] = {
    **{
        (PoissonSampled, base): (
            PARTICIPATION_ON_HOST,
            _DISTRIBUTION,
            *([_LAWS] if base in _WITH_LAWS else []),
        )
        for base in BASES
        if base not in (Gaussian, DiscretePair, Laplace)
    },
    (PoissonSampled, DiscretePair): (PARTICIPATION_ON_HOST, TYPES, _DISTRIBUTION, *LISTED),
    (PoissonSampled, Laplace): (
        PARTICIPATION_ON_HOST,
        ONE_STEP,
        LAPLACE,
        _DISTRIBUTION,
        laws(),
        *SAMPLED_LAPLACE,
    ),
    (PoissonSampled, Gaussian): (
        EXACT,
        MOMENTS,
        _DISTRIBUTION,
        *ONE_GAUSSIAN_STEP,
        laws(applies=_may_be_several),
        _RENYI,
        unamplified(lambda mechanism: mechanism.num_steps),
        PARTICIPATION,
    ),
}
