"""Calibration by methods on lanes: each method alone, and only where it can still change the answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import LaneMethod
from jaxacct._types import Direction
from jaxacct.calibration._batch import PointBatch
from jaxacct.calibration._routes import is_hopeless, method_route, num_grids, up_to_order
from jaxacct.calibration._search import Affordable, SearchRange, search


def _less_private(values: NDArray[Any], where: SearchRange, tolerance: float) -> NDArray[Any]:
    """A step towards the worst end, the least that counts as a gain; possibly beyond it."""
    sign = np.where(where.best >= where.worst, 1.0, -1.0)
    return values - sign if where.is_whole else values * np.exp(-sign * tolerance)


def by_methods(
    batch: PointBatch,
    methods: Sequence[LaneMethod],
    directions: Sequence[Direction],
    target: NDArray[Any],
    where: SearchRange,
    start: NDArray[Any],
    tolerance: float,
) -> Affordable:
    """The value nearest to the worst end at which some method in each direction confirms `target`.

    For each direction, it is the least private value that some method certifies; overall, the most private of these,
    since epsilon is the larger over the directions of the least over the methods, all of them monotone. Each further
    method is first asked one step beyond the best value so far; a method that fails there cannot improve it and is
    dropped.
    """
    sign = np.where(where.best >= where.worst, 1.0, -1.0)
    shape = target.shape
    value, known, alive = where.worst.copy(), False, np.ones(shape, bool)
    epsilon, source, loose = np.full(shape, np.inf), np.full(shape, -1), np.zeros(shape, bool)
    for direction in (*directions, *directions[:-1]):  # the first again, to confirm it where the second has moved on
        usable = [(i, m) for i, m in enumerate(methods) if direction in m.directions]
        if not usable:
            continue
        # what has been solved by a method that answers for this direction too
        covered = np.isin(source, [i for i, _ in usable])
        here, reached = np.where(covered, value, where.best), covered.copy()
        order, used, edge = np.full(shape, np.nan), np.where(covered, source, -1), np.zeros(shape, bool)
        # first whether what has been found will do here too, by any method; then how far each gets
        tries = [(i, m, True) for i, m in usable if known] + [(i, m, False) for i, m in usable]
        for i, method, is_look in tries:
            if np.all(order > up_to_order(method)):
                continue
            todo = alive & ~is_hopeless(method, batch, np.where(reached, here, value if is_look else where.best))
            for grid in range(num_grids(method)):
                end = np.where(reached, _less_private(here, where, tolerance), value if is_look else where.best)
                todo = todo & (sign * (end - value) >= 0)  # else it has come as far as it needs to
                if not todo.any():
                    break
                begin = value if known else np.where(reached, end, start)
                around = SearchRange(value, end, where.is_whole)
                found = search(method_route(method, grid, batch), target, around, begin, todo, tolerance)
                gained = found.is_affordable
                here, used = np.where(gained, found.value, here), np.where(gained, i, used)
                order = np.where(gained, found.asked["order"], order)
                edge = np.where(gained, found.asked["edge"], edge)
                epsilon = np.where(todo & ~reached & ~gained, np.minimum(found.epsilon, epsilon), epsilon)
                reached = reached | gained
                todo = todo & found.asked["edge"]
        alive = alive & reached
        decides = sign * (here - value) > 0 if known else np.ones(shape, bool)
        value, source = np.where(decides, here, value), np.where(decides, used, source)
        loose, known = np.where(decides, edge, loose), True
    return Affordable(value, alive & known, epsilon, {"edge": loose})
