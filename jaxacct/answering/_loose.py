"""Warnings of an answer that is no certified one, or wider than it might be or was asked to be."""

import math
import warnings
from typing import Any

import numpy as np

from jaxacct._method import FAILURE, RenyiMethod
from jaxacct._types import Bound, EstimateWarning, OrderEdgeWarning, PrecisionWarning
from jaxacct.bounds._distribution import DistributionMethod


def warn_of_looseness(found: Any) -> None:
    """Warns, on behalf of who called the public function, of what `found` (a `Found`) may still have to gain."""
    question = found.question
    for method, result, _ in found.asked:
        if isinstance(method, RenyiMethod) and np.any(
            result.at_edge & (result.value == found.high) & (found.high < question.query.worst)  # it decides
        ):
            message = (
                f"{question.query.value} by {method.name!r} is best at order {method.grids[-1][-1]:g}, the largest "
                "tried: a valid upper bound that may be loose"
            )
            warnings.warn(message, OrderEdgeWarning, stacklevel=4)
    for method in {asked.method for asked in found.asked if Bound.ESTIMATE in asked.method.ends}:
        message = (
            f"{question.query.value} by {method.name!r} is an estimate, no less than the true one with confidence "
            f"1 - {FAILURE:g} over its samples: it is not certified"
        )
        warnings.warn(EstimateWarning(message, FAILURE), stacklevel=4)
    # loss distributions that were asked to be narrow, and could have been
    refined = [asked.method for asked in found.asked if isinstance(asked.method, DistributionMethod)]
    could = any(not method.is_one_sided(question.mechanism) for method in refined)
    if question.warns and could and not np.all(found.settled()):
        low, high = float(np.max(found.analysis_low)), float(np.max(found.high))
        width = (high - low) / low if low > 0 else math.inf
        message = f"relative width {width:.3g} instead of {question.width:g}: the interval holds, but is wider"
        warnings.warn(message, PrecisionWarning, stacklevel=4)
