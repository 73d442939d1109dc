"""One round of check-ins, one setting on the host, where its profile is known nearly exactly: epsilon from both sides.

The profile comes from tables over every count where few clones are expected, and from one contour integral (the "line")
where many are; each of its points has both ends. Nothing is found where tables would be too large and the integral is
not sharp.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct.bounds.check_in._profile import rough_epsilon
from jaxacct.divergence.check_in._both_ends import COARSE, highest_above, log_profile, lower_cells
from jaxacct.divergence.check_in._few_clones import clone_table, is_in_range, table_point, table_size
from jaxacct.divergence.check_in._line import LinePoint, LineSetting, line_point

# Entries of tables that cost less than the line, and of the largest tables; remembered points are two floats each.
_SMALL, _MOST = 4e5, 2e6
_FEW_CLONES = 300.0  # with fewer expected clones the line is hardly sharp
_SPARE = 26.0  # in log delta: what the windows leave out is this far below it
_REACHES = (10.0, 17.0, 27.0)  # standard deviations of the windows, in turn, where delta is not known
# Relative widths of epsilon up to which a profile is taken; the same for many clones or reports, where blocks are
# wider; and widths of log delta.
_SHARP, _SHARP_OF_MANY, _SHARP_DELTA = 1e-5, 5e-5, 1e-4
_MANY_CLONES, _MANY_REPORTS = 2500.0, 10_000.0
_BLURRED = 0.1  # width of log delta up to which a search by blocks begins where the line says
_ROUGHLY, _AIM = 1e-3, 5e-10  # how closely roots are sought, in log delta: to see whether all is sharp; for both ends
_STEPS = 8  # of the search for the upper end from the root between both


class Sharp:
    """The profile of one setting near the log delta `target`."""

    def __init__(self, setting: LineSetting, target: float):
        self.setting = setting
        self._target = target
        self._reach = math.sqrt(2.0 * (_SPARE - target))
        self._points: dict[float, LinePoint] = {}
        # the largest epsilon with delta known to be above the target, and the least where it is known not to be proved
        self._above, self._not_above = -1.0, setting.local_epsilon
        in_range = is_in_range(setting, self._reach)
        size = table_size(setting, self._reach) if in_range else math.inf
        clones = setting.num_users * setting.prob * setting.clone_prob
        self._has_table, self._is_large = size <= _MOST, size > _SMALL
        self._by_table = self._has_table and (clones < _FEW_CLONES or not self._is_large)

    def at(self, epsilon: float) -> LinePoint:
        """The profile at `epsilon` >= 0."""
        if epsilon >= self.setting.local_epsilon:
            return LinePoint(-math.inf, -math.inf, -1.0)
        if epsilon not in self._points:
            if self._by_table:
                point = table_point(epsilon, clone_table(self.setting, self._reach))
            else:
                point = line_point(epsilon, self.setting)
            self._points[epsilon] = point
            if point.log_lower > self._target:
                self._above = max(self._above, epsilon)
            elif point.log_lower > -math.inf:
                self._not_above = min(self._not_above, epsilon)
        return self._points[epsilon]

    def is_above(self, epsilon: float) -> bool:
        """Whether delta at `epsilon` is proved to be above the target."""
        if self._above < epsilon < self._not_above:
            if self._by_table and self._is_large:  # wide blocks take less time than large tables
                n, prob, clone_prob, local = self.setting
                cells = lower_cells(n, prob, clone_prob, COARSE, self._target)
                if log_profile(epsilon, n, local, cells, -1.0)[0] > self._target:
                    self._above = epsilon
            else:
                self.at(epsilon)
        return epsilon <= self._above

    def upper(self, epsilon: float) -> tuple[float, float]:
        """(log delta from above, its slope)."""
        point = self.at(epsilon)
        return point.log_upper, point.slope

    def _lower(self, epsilon: float) -> tuple[float, float]:
        point = self.at(epsilon)
        return point.log_lower, point.slope

    def _middle(self, epsilon: float) -> tuple[float, float]:
        point = self.at(epsilon)
        return 0.5 * (point.log_lower + point.log_upper), point.slope

    def _until_blurred(self, epsilon: float) -> tuple[float, float]:
        """`_middle`, but as if at the root where delta is blurred though above the target: there it is more blurred."""
        point = self.at(epsilon)
        if point.log_lower > self._target and point.log_upper - point.log_lower > _BLURRED:
            return self._target + _ROUGHLY, point.slope
        return self._middle(epsilon)

    @functools.cached_property
    def start(self) -> tuple[float | None, bool]:
        """(an epsilon near the target's, None if it is hardly known; whether it is known closely enough)."""
        found = self._root()
        if not found[1] and self._has_table and not self._by_table:
            self._by_table, self._points = True, {}
            found = self._root()
        return found

    def _root(self) -> tuple[float | None, bool]:
        point = self.at(0.0)
        if point.log_lower == -math.inf:
            return None, False
        if point.log_upper <= self._target:
            return 0.0, True
        setting = self.setting
        numbers: Any = (np.atleast_1d(x) for x in (self._target, *setting))
        rough = float(rough_epsilon(*numbers)[0])
        rough = rough if math.isfinite(rough) else 0.0
        found = highest_above(self._until_blurred, self._target, setting.local_epsilon, rough, _ROUGHLY)
        point = self.at(found)
        width = point.log_upper - point.log_lower
        reports = setting.num_users * setting.prob
        many = reports > _MANY_REPORTS or reports * setting.clone_prob > _MANY_CLONES
        enough = _SHARP_OF_MANY if many else _SHARP
        return (found, width <= enough * found * -point.slope) if width <= _BLURRED else (None, False)

    @functools.cached_property
    def ends(self) -> tuple[float, float] | None:
        """Epsilon at the target from below and from above; None where the profile is not known closely."""
        begin, is_sharp = self.start
        if not is_sharp or begin is None:
            return None
        local, target = self.setting.local_epsilon, self._target
        if self.at(0.0).log_upper <= target:
            return 0.0, 0.0
        root = highest_above(self._middle, target, local, begin, _AIM)
        lower = highest_above(self._lower, target, local, root, _AIM) if self.at(0.0).log_lower > target else 0.0
        upper = root
        for _ in range(_STEPS):
            value, slope = self.upper(upper)
            if value <= target:
                return lower, upper
            upper = min(upper + (value - target + _AIM) / max(-slope, 1e-300) * (1.0 + 1e-6), local)
        return None


@functools.lru_cache(maxsize=32)
def sharp_of(setting: LineSetting, target: float) -> Sharp:
    """The profile (class `Sharp`) of `setting` near the log delta `target`: both ends and all probabilities use it."""
    return Sharp(setting, target)


@functools.lru_cache(maxsize=32)
def sharp_point(epsilon: float, setting: LineSetting) -> LinePoint | None:
    """The profile, two floats and a slope, at `epsilon` >= 0 if it is known closely, else None."""

    def is_small(reach: float, most: float) -> bool:
        return is_in_range(setting, reach) and table_size(setting, reach) <= most

    def by_table(reach: float) -> LinePoint:
        return table_point(epsilon, clone_table(setting, reach))

    if epsilon >= setting.local_epsilon:
        return None
    small = [reach for reach in _REACHES if is_small(reach, _SMALL)]
    large = [reach for reach in _REACHES if reach not in small and is_small(reach, _MOST)]
    ways: list[Callable[[], LinePoint]] = [
        *(functools.partial(by_table, reach) for reach in small),
        lambda: line_point(epsilon, setting),
        *(functools.partial(by_table, reach) for reach in large),
    ]
    for way in ways:
        point = way()
        if point.log_upper - point.log_lower <= _SHARP_DELTA:
            return point
    return None
