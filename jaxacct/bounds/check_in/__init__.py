"""Bounds of shuffled check-ins: users join each round by their own coin flips, and their reports are shuffled.

Shuffled Gaussian reports are here too: several rounds of them are check-ins in which everybody takes part. Bounds are
symmetric in the two data sets: the direction REMOVE stands for both.
"""

from typing import Any

from jaxacct._method import (
    ANY_NUMBER,
    FEW_POINTS,
    NO_POINT,
    Cost,
    Method,
    Role,
    always,
    itself,
    only_analysed,
    only_where,
)
from jaxacct._types import Bound
from jaxacct.bounds._clones_pair import is_pure
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._parts import has_one_round, has_several_rounds
from jaxacct.bounds.blanket import BLANKET_TOO, DENSITY, GAUSSIAN, GAUSSIAN_ROUNDS, SCORES
from jaxacct.bounds.check_in import _by_randomizer as check_in
from jaxacct.bounds.check_in import _floor as floor
from jaxacct.bounds.check_in._other_schemes import ALL_ALIKE, EVERYBODY
from jaxacct.bounds.check_in._rounds import DISTRIBUTION, VISIBLE, by_renyi
from jaxacct.bounds.check_in._taking_part import taking_part_epsilon, taking_part_log_delta
from jaxacct.bounds.shuffle import (
    LOCAL_NOISE,
    PURIFIED,
    PURIFIED_CLONES,
    REPORTS_FROM_BELOW,
    in_one_round,
    profile_method,
    renyi_method,
)
from jaxacct.bounds.shuffle._pure_rounds import PURE_ROUNDS
from jaxacct.bounds.shuffle._purified_rounds import PURIFIED_ROUNDS
from jaxacct.mechanisms import (
    CheckIn,
    DensityReports,
    FiniteRandomizer,
    GaussianReports,
    KaryRandomizedResponse,
    LaplaceReports,
    LocalRandomizer,
    Shuffled,
)


def _is_approximate(mechanism: Any) -> bool:
    """Whether reports are made pure first, which costs more of delta at a larger epsilon."""
    return not is_pure(mechanism)


_FMT = "Feldman, McMillan & Talwar 2021"
_TAKING_PART = profile_method(
    "taking part",
    "total variation: with probability (1 - q)^T a user reports in no round; "
    "or composition, Dwork & Roth 2014, Theorem 3.16",
    taking_part_epsilon,
    taking_part_log_delta,
    cost=Cost.MICROSECONDS,
    numpy=ANY_NUMBER,
    misses_deltas=_is_approximate,
)
_PROFILE = profile_method(
    "check-in profile",
    VISIBLE,
    check_in.profile_upper_epsilon,
    check_in.profile_upper_log_delta,
    cost=Cost.TENTHS,
    numpy=ANY_NUMBER,
    role=only_where(has_one_round, Role.QUICK),
    misses_deltas=_is_approximate,
)
_ROUNDS = loss_distribution(DISTRIBUTION, only_where(has_several_rounds, Role.QUICK))
_BEYOND = (
    _ROUNDS,
    profile_method(
        "check-in profile, composed",
        f"{VISIBLE}; Mironov 2017, Proposition 1",
        check_in.composed_upper_epsilon,
        check_in.composed_upper_log_delta,
        numpy=ANY_NUMBER,
        role=by_renyi,
        misses_deltas=_is_approximate,
    ),
    renyi_method(
        "check-in rdp",
        f"{VISIBLE}, Renyi divergences of the profile",
        check_in.profile_upper_rdp,
        role=Role.BY_NAME,
        numpy=FEW_POINTS,
    ),
)
_FROM_BELOW = profile_method(
    "binary randomized response",
    "Liew, Hasegawa & Takahashi 2022, the setting; the pair itself, in one round",
    floor.response_lower_epsilon,
    floor.response_lower_log_delta,
    statics=floor.response_statics,
    numpy=ANY_NUMBER,
    ends=frozenset({Bound.LOWER}),
    below=itself,
)
# a lower bound on the pair only, which is a reduction: it shows how tight the analysis is
_PAIR_FROM_BELOW = profile_method(
    "check-in profile from below",
    f"{VISIBLE}, the pair itself",
    check_in.profile_lower_epsilon,
    check_in.profile_lower_log_delta,
    numpy=ANY_NUMBER,
    ends=frozenset({Bound.LOWER}),
    below=only_analysed,
    applies=is_pure,
)
_BLANKET, _BLANKET_ROUNDS = BLANKET_TOO
_FIRST = (_TAKING_PART, _BLANKET, _PROFILE)
_GAUSSIAN_CHECK_IN = (
    EVERYBODY,
    _TAKING_PART,
    LOCAL_NOISE,
    *GAUSSIAN,
    PURIFIED_ROUNDS,
    profile_method(
        "purified check-in",
        f"{PURIFIED}, Lemma 2.3 over the visible number",
        check_in.gaussian_upper_epsilon,
        check_in.gaussian_upper_log_delta,
        cost=Cost.TENTHS,
        numpy=ANY_NUMBER,
        role=in_one_round,
        misses_deltas=always,
    ),
    SCORES,
    GAUSSIAN_ROUNDS,
    profile_method(
        "purified check-in, composed",
        f"{PURIFIED}, Lemma 2.3 over the visible number; Mironov 2017, Proposition 1",
        check_in.gaussian_composed_upper_epsilon,
        check_in.gaussian_composed_upper_log_delta,
        role=only_where(has_several_rounds, Role.IN_PROGRAMS),
        numpy=NO_POINT,
    ),
    _FROM_BELOW,
)


def _everybody_checks_in(answer: Any) -> Any:
    """A function like `answer` for shuffles, which are check-ins in which everybody takes part."""

    def of_shuffle(mechanism: Shuffled, target: Any) -> Any:
        return answer(CheckIn(mechanism.mechanism, mechanism.num_reports, 1.0, mechanism.num_epochs), target)

    return of_shuffle


# in the order in which they are asked, by their cost
METHODS: dict[tuple[Any, ...], tuple[Method, ...]] = {
    (CheckIn, LocalRandomizer): (_TAKING_PART, _PROFILE, PURE_ROUNDS, *_BEYOND, _FROM_BELOW, _PAIR_FROM_BELOW),
    (CheckIn, FiniteRandomizer): (*_FIRST, _BLANKET_ROUNDS, *_BEYOND, _PAIR_FROM_BELOW),
    (CheckIn, KaryRandomizedResponse): (*_FIRST, _BLANKET_ROUNDS, *_BEYOND, _FROM_BELOW, _PAIR_FROM_BELOW),
    (CheckIn, DensityReports): DENSITY,
    (Shuffled, DensityReports): DENSITY,
    (CheckIn, LaplaceReports): (*_FIRST, SCORES, _BLANKET_ROUNDS, *_BEYOND, _FROM_BELOW, _PAIR_FROM_BELOW),
    (CheckIn, GaussianReports): _GAUSSIAN_CHECK_IN,
    (Shuffled, GaussianReports): (
        LOCAL_NOISE,
        *GAUSSIAN,
        PURIFIED_ROUNDS,
        PURIFIED_CLONES,
        ALL_ALIKE,
        GAUSSIAN_ROUNDS,
        profile_method(
            "purified clones, composed",
            f"{PURIFIED}; Mironov 2017, Proposition 1",
            _everybody_checks_in(check_in.gaussian_composed_upper_epsilon),
            _everybody_checks_in(check_in.gaussian_composed_upper_log_delta),
            role=only_where(has_several_rounds, Role.IN_PROGRAMS),
            numpy=NO_POINT,
        ),
        *REPORTS_FROM_BELOW,
    ),
}
