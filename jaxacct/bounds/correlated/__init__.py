"""Bounds for balls in bins with correlated noise, from Gram matrices that dominate that of the bins."""

from collections.abc import Callable
from typing import Any

from jaxacct._method import Method, Role
from jaxacct.bounds._distribution import Distribution, loss_distribution
from jaxacct.bounds.correlated._groups import GROUPS, distribution
from jaxacct.bounds.correlated._markov import MARKOV
from jaxacct.bounds.correlated._overlaps import MOST_COVARIANCES as MOST_COVARIANCES
from jaxacct.bounds.correlated._overlaps import covariances as covariances
from jaxacct.bounds.correlated._sampled import SAMPLED
from jaxacct.mechanisms import BallsInBins


def tables(distribution_of: Callable[..., Distribution | None]) -> dict[tuple[Any, ...], tuple[Method, ...]]:
    """A dict, the table of methods; `distribution_of` gives the loss distribution of what stands in for a run."""
    return {(BallsInBins,): (GROUPS, MARKOV, loss_distribution(distribution(distribution_of), Role.BY_NAME), SAMPLED)}
