"""Bounds of shuffled reports: every user's report in a uniformly random order.

Bounds are symmetric in the two data sets: the direction REMOVE stands for both.
"""

import functools
from collections.abc import Sequence
from typing import Any

from jaxacct._method import (
    ANY_NUMBER,
    FEW_POINTS,
    NO_POINT,
    Cost,
    Method,
    ProfileMethod,
    RenyiMethod,
    Role,
    itself,
    only_analysed,
    only_where,
    orders_bytes,
)
from jaxacct._types import Bound, Direction
from jaxacct.bounds import _clones_pair as pair
from jaxacct.bounds._by_laws import laws_of_reports
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._limits import NEAR_ONE, with_limits
from jaxacct.bounds._orders import OF_REPORTS
from jaxacct.bounds._parts import has_one_round, has_several_rounds
from jaxacct.bounds.blanket import BLANKET_TOO, SCORES, has_noise
from jaxacct.bounds.shuffle import _by_randomizer as shuffled
from jaxacct.bounds.shuffle import _gaussian_reports as gaussian_reports
from jaxacct.bounds.shuffle import _k_ary as k_ary
from jaxacct.bounds.shuffle._composed import COMPOSED
from jaxacct.bounds.shuffle._law import DISTRIBUTION
from jaxacct.bounds.shuffle._pure_rounds import PURE_ROUNDS, beside_pure_rounds
from jaxacct.mechanisms import (
    CheckIn,
    FiniteRandomizer,
    KaryRandomizedResponse,
    LaplaceReports,
    LocalRandomizer,
    Shuffled,
)

_WINDOW_BYTES = 400  # bytes of working memory per count: some dozens of arrays hold a window of counts
_TABLE_BYTES = 64  # bytes per count and node, where a kernel holds a table of both


def _window_bytes(
    *,
    orders: Sequence[float] = (),
    window: int = 0,
    rounds: int = 0,
    num_clones: int = 0,
    blocks: int = 0,
    nodes: int = 0,
    pure: bool = False,
) -> int:
    """Bytes of working memory of one lane, an int, from the kernels' static arguments."""
    del pure
    widest = max(window, rounds, num_clones, blocks)
    return max(orders_bytes(orders=orders), _WINDOW_BYTES * widest, _TABLE_BYTES * nodes * widest)


def profile_method(name: str, theorem: str, epsilon: Any, log_delta: Any, **rest: Any) -> ProfileMethod:
    """A method made from a privacy profile (class ProfileMethod), in the one direction that there is.

    `numpy=NO_POINT` in `rest` has even single questions compiled, where NumPy would take longer than a program that is
    used twice.
    """
    return ProfileMethod(
        name=name,
        theorem=theorem,
        directions=(Direction.REMOVE,),
        log_delta=log_delta,
        epsilon=epsilon,
        lane_bytes=_window_bytes,
        **{"cost": Cost.MILLISECONDS, **rest},
    )


def renyi_method(name: str, theorem: str, rdp: Any, **rest: Any) -> RenyiMethod:
    """A method made from Renyi divergences (class RenyiMethod), in the one direction that there is.

    If `statics` is among `rest`, the method is one on lanes and `statics` gives their static sizes.
    """
    memory: dict[str, Any] = {"lane_bytes": _window_bytes} if "statics" in rest else {}
    return RenyiMethod(
        name=name,
        theorem=theorem,
        directions=(Direction.REMOVE,),
        rdp=with_limits(rdp, near_one=NEAR_ONE),
        **memory,
        **{"numpy": NO_POINT, "grids": OF_REPORTS, "cost": Cost.TENTHS, **rest},
    )


def in_one_round(mechanism: Shuffled | CheckIn) -> Role:
    """The role (class `Role`) of a method for one round; for reports with noise, brackets are tighter than it is."""
    if not has_one_round(mechanism):
        return Role.BY_NAME
    return Role.IN_PROGRAMS if has_noise(mechanism) else Role.QUICK


def _beyond_one_pure_round(mechanism: Shuffled) -> bool:
    """Whether the exact pair alone may not be the best answer: for several rounds, or approximate randomizers."""
    return has_several_rounds(mechanism) or not pair.is_pure(mechanism)


# How many points of a batch NumPy computes one by one before a program is compiled for them. A program takes some
# 4 seconds; NumPy takes 5 ms a point for one round, .1 s by composition, and where it has a better algorithm than a
# program can have, less than the program takes.
_POINTS_OF_ONE_ROUND = 1000
_POINTS_COMPOSED = 50

_FMT = "Feldman, McMillan & Talwar 2021"
_CLONES = profile_method(
    "clones",
    f"{_FMT}, Theorems 3.2 and 3.8",
    shuffled.clones_upper_epsilon,
    shuffled.clones_upper_log_delta,
    statics=pair.clones_statics,
    numpy=_POINTS_OF_ONE_ROUND,
    regime="one round; local delta small against delta / num_reports",
)
_COMPOSED_CLONES = profile_method(
    "clones, composed",
    f"{_FMT}, Theorem 3.2; Kairouz, Oh & Viswanath 2015, Theorem 3.3",
    shuffled.composed_upper_epsilon,
    shuffled.composed_upper_log_delta,
    statics=shuffled.composed_statics,
    numpy=_POINTS_COMPOSED,
    role=beside_pure_rounds,
    regime="several rounds",
)
_CLOSED_CLONES = profile_method(
    "closed form",
    f"{_FMT}, Theorem 3.1",
    shuffled.closed_upper_epsilon,
    shuffled.closed_upper_log_delta,
    role=Role.BY_NAME,
    regime="one round; log(4 s/delta) <= n e^-eps0 / 16, s = tanh(eps0/2)",
)
_FEW_ORDERS, _LOW_ORDER = 16, 1024.0  # up to so many orders, up to this one, NumPy's sums are quicker than compiling


def _sums_quickly(*, orders: Sequence[float] = ()) -> bool:
    return len(orders) <= _FEW_ORDERS and max(orders, default=1.0) <= _LOW_ORDER


_CLONES_RDP = renyi_method(
    "clones rdp",
    f"{_FMT}, Theorem 3.2; Chen et al. 2024, Theorem 1 (corrected); Mironov 2017, Proposition 1",
    shuffled.clones_upper_rdp,
    role=beside_pure_rounds,
    numpy=_sums_quickly,
)
_LOCAL = profile_method(
    "no amplification",
    "Kairouz, Oh & Viswanath 2015, Theorem 3.3",
    shuffled.local_upper_epsilon,
    shuffled.local_upper_log_delta,
    statics=shuffled.unamplified_statics,
    numpy=_POINTS_COMPOSED,
    role=only_where(_beyond_one_pure_round, Role.QUICK),
)
_RESPONSE = profile_method(
    "binary randomized response",
    f"{_FMT}, Appendix G",
    shuffled.response_lower_epsilon,
    shuffled.response_lower_log_delta,
    statics=shuffled.response_statics,
    numpy=ANY_NUMBER,
    ends=frozenset({Bound.LOWER}),
    below=itself,
)
# a lower bound on the pair only, which is a reduction: it shows how tight the analysis by clones is
_PAIR_FROM_BELOW = profile_method(
    "clones pair from below",
    f"{_FMT}, Theorem 3.2, the pair itself",
    shuffled.pair_lower_epsilon,
    shuffled.pair_lower_log_delta,
    statics=pair.clones_statics,
    numpy=_POINTS_OF_ONE_ROUND,
    ends=frozenset({Bound.LOWER}),
    below=only_analysed,
    applies=pair.has_pair,
)
_GIRGIS = "Girgis, Data, Diggavi, Suresh & Kairouz 2021"
_WHOLE_ORDERS = tuple(float(a) for a in range(2, 65))
_PAPER_RDP = renyi_method(
    "special pairs rdp",
    f"{_GIRGIS}, Theorems 1 and 2",
    shuffled.girgis_upper_rdp,
    role=Role.BY_NAME,
    grids=(_WHOLE_ORDERS, tuple(float(a) for a in range(2, 257))),
    numpy=FEW_POINTS,
)
_MIXTURE_RDP = renyi_method(
    "special pairs rdp, exact",
    f"{_GIRGIS}, Theorem 4, the pair's worst case",
    shuffled.mixture_upper_rdp,
    grids=(_WHOLE_ORDERS,),
    role=Role.BY_NAME,
    statics=functools.partial(shuffled.mixture_sizes, orders=_WHOLE_ORDERS),
    numpy=FEW_POINTS,
)
PURIFIED = f"{_FMT}, Lemma 3.7 (corrected) and Theorem 3.8"
LOCAL_NOISE = profile_method(
    "no amplification",
    "Balle & Wang 2018, Theorem 8",
    gaussian_reports.gaussian_local_upper_epsilon,
    gaussian_reports.gaussian_local_upper_log_delta,
    cost=Cost.MICROSECONDS,
    numpy=_POINTS_OF_ONE_ROUND,
)
PURIFIED_CLONES = profile_method(
    "purified clones",
    PURIFIED,
    gaussian_reports.gaussian_upper_epsilon,
    gaussian_reports.gaussian_upper_log_delta,
    statics=pair.clones_statics,
    numpy=ANY_NUMBER,
    role=in_one_round,
    regime="one round",
)
_SIGNS = profile_method(
    "signs of the reports",
    f"{_FMT}, Appendix G, of the signs of the reports",
    gaussian_reports.signs_lower_epsilon,
    gaussian_reports.signs_lower_log_delta,
    statics=shuffled.response_statics,
    ends=frozenset({Bound.LOWER}),
    below=itself,
    regime="one round",
)
# lower bounds on the mechanism itself, whose reports anybody can add up or reduce to their signs
REPORTS_FROM_BELOW = (
    profile_method(
        "sum of the reports",
        "Balle & Wang 2018, Theorem 8, of the sum of the reports",
        gaussian_reports.sum_lower_epsilon,
        gaussian_reports.sum_lower_log_delta,
        ends=frozenset({Bound.LOWER}),
        below=itself,
    ),
    _SIGNS,
)
_DISTRIBUTION = loss_distribution(DISTRIBUTION, only_where(has_several_rounds, Role.NARROW))

_LAWS = laws_of_reports(role=only_where(has_several_rounds, Role.BEST_IN_PROGRAMS))

_BLANKET, _BLANKET_ROUNDS = BLANKET_TOO
_FIRST, _ROUNDS = (COMPOSED, _BLANKET, _LAWS, _CLONES), (_CLONES_RDP, _LOCAL, _COMPOSED_CLONES)

# In the order in which they are asked, by their cost: several rounds are bounded closely by their loss distribution,
# after which the others are not needed. Gaussian reports are in `jaxacct.bounds.check_in`.
METHODS: dict[tuple[Any, ...], tuple[Method, ...]] = {
    (Shuffled, LocalRandomizer): (
        COMPOSED,
        _LAWS,
        _CLONES,
        _DISTRIBUTION,
        PURE_ROUNDS,
        _CLONES_RDP,
        _LOCAL,
        _CLOSED_CLONES,
        _COMPOSED_CLONES,
        _MIXTURE_RDP,
        _PAPER_RDP,
        _RESPONSE,
        _PAIR_FROM_BELOW,
    ),
    (Shuffled, FiniteRandomizer): (*_FIRST, _DISTRIBUTION, _BLANKET_ROUNDS, *_ROUNDS, _PAIR_FROM_BELOW),
    (Shuffled, LaplaceReports): (
        *_FIRST,
        SCORES,
        _DISTRIBUTION,
        _BLANKET_ROUNDS,
        *_ROUNDS,
        _SIGNS,
        _PAIR_FROM_BELOW,
    ),
    (Shuffled, KaryRandomizedResponse): (
        COMPOSED,
        _BLANKET,
        profile_method(
            "blanket",
            f"{_FMT}, Theorem 4.1, extended to all values",
            k_ary.blanket_upper_epsilon,
            k_ary.blanket_upper_log_delta,
            statics=k_ary.blanket_statics,
            numpy=ANY_NUMBER,
            regime="one round",
        ),
        _LAWS,
        _CLONES,
        _DISTRIBUTION,
        _BLANKET_ROUNDS,
        *_ROUNDS,
        profile_method(
            "nobody else",
            "Randomized response where no other record holds the two values",
            k_ary.elsewhere_lower_epsilon,
            k_ary.elsewhere_lower_log_delta,
            statics=k_ary.blanket_statics,
            numpy=ANY_NUMBER,
            ends=frozenset({Bound.LOWER}),
            below=itself,
            regime="one round; 3 categories or more",
        ),
        _PAIR_FROM_BELOW,
    ),
}
