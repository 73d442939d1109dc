"""Laws of likelihood ratios with finitely many points, for programs of fixed size; the contour that composes them."""

from jaxacct.divergence.law._allocated import allocated
from jaxacct.divergence.law._clones import MOST_LOCAL, clones_grid, clones_law
from jaxacct.divergence.law._contour import (
    LawLine,
    RepeatedLaws,
    epsilon,
    log_delta,
)
from jaxacct.divergence.law._few import (
    MOST_LOSS,
    covers_discrete_gaussian,
    discrete_gaussian_base,
    discrete_laplace_base,
    guarantee_base,
    response_base,
)
from jaxacct.divergence.law._given import given_law
from jaxacct.divergence.law._law import (
    LEAST_NOISE,
    BasePoints,
    Law,
    gaussian_base,
    laplace_base,
    sampled,
    whole,
)
from jaxacct.divergence.law._rates import MOVED, rates
from jaxacct.divergence.law._replaced import replaced

__all__ = [
    "LEAST_NOISE",
    "MOST_LOCAL",
    "MOST_LOSS",
    "MOVED",
    "BasePoints",
    "Law",
    "LawLine",
    "RepeatedLaws",
    "allocated",
    "clones_grid",
    "clones_law",
    "covers_discrete_gaussian",
    "discrete_gaussian_base",
    "discrete_laplace_base",
    "epsilon",
    "gaussian_base",
    "given_law",
    "guarantee_base",
    "laplace_base",
    "log_delta",
    "rates",
    "replaced",
    "response_base",
    "sampled",
    "whole",
]
