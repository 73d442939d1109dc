"""The table of methods for shuffled reports and check-ins. Bounds are symmetric: REMOVE stands for both directions."""

import dataclasses
import functools
from typing import Any

import numpy as np

from jaxacct._method import Method, ignoring_split
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction
from jaxacct.bounds.check_in import _by_randomizer as check_in
from jaxacct.bounds.shuffle import _by_randomizer as shuffled
from jaxacct.mechanisms import (
    CheckIn,
    FiniteRandomizer,
    GaussianReports,
    KaryRandomizedResponse,
    LocalRandomizer,
    Shuffled,
)

# small epsilons of many reports are met at large orders
_ORDERS = tuple(tuple((1.0 + np.geomspace(0.05, top, size)).tolist()) for top, size in ((512.0, 72), (65536.0, 110)))


def _method(name: str, theorem: str, epsilon: Any, log_delta: Any, **rest: Any) -> Method:
    return Method(
        name=name,
        theorem=theorem,
        directions=(Direction.REMOVE,),
        log_delta=ignoring_split(log_delta),
        epsilon=ignoring_split(epsilon),
        **rest,
    )


def _renyi(name: str, theorem: str, rdp: Any, **rest: Any) -> Method:
    return Method(name, theorem, (Direction.REMOVE,), rdp=ignoring_split(rdp), grids=_ORDERS, **rest)


def _has_several_rounds(mechanism: Any) -> bool:
    return is_traced(mechanism.num_epochs) or bool(np.any(np.asarray(mechanism.num_epochs) > 1))


def _has_one_round(mechanism: Any) -> bool:
    return is_traced(mechanism.num_epochs) or bool(np.any(np.asarray(mechanism.num_epochs) == 1))


def _beyond_one_pure_round(mechanism: Any) -> bool:
    """Whether the exact pair alone may not be the best."""
    return _has_several_rounds(mechanism) or not shuffled.is_pure(mechanism)


def _never(mechanism: Any) -> bool:
    """The exact pair is never worse than its closed form."""
    del mechanism
    return False


_FMT = "Feldman, McMillan & Talwar 2021"
_CLONES = _method(
    "clones",
    f"{_FMT}, Theorems 3.2 and 3.8",
    shuffled.clones_upper_epsilon,
    shuffled.clones_upper_log_delta,
    statics=shuffled.clones_statics,
)
_COMPOSED_CLONES = _method(
    "clones, composed",
    f"{_FMT}, Theorem 3.2; Kairouz, Oh & Viswanath 2015, Theorem 3.3",
    shuffled.composed_upper_epsilon,
    shuffled.composed_upper_log_delta,
    statics=shuffled.composed_statics,
    helps=_has_several_rounds,
)
_CLOSED_CLONES = _method(
    "closed form",
    f"{_FMT}, Theorem 3.1",
    shuffled.closed_upper_epsilon,
    shuffled.closed_upper_log_delta,
    helps=_never,
)
_CLONES_RDP = _renyi(
    "clones rdp",
    f"{_FMT}, Theorem 3.2; Chen et al. 2024, Theorem 1 (corrected); Mironov 2017, Proposition 1",
    shuffled.clones_upper_rdp,
    helps=_has_several_rounds,
)
_LOCAL = _method(
    "no amplification",
    "Kairouz, Oh & Viswanath 2015, Theorem 3.3",
    shuffled.local_upper_epsilon,
    shuffled.local_upper_log_delta,
    statics=shuffled.unamplified_statics,
    helps=_beyond_one_pure_round,
)
_RESPONSE = _method(
    "binary randomized response",
    f"{_FMT}, Appendix G",
    shuffled.response_lower_epsilon,
    shuffled.response_lower_log_delta,
    statics=shuffled.response_statics,
    bound=Bound.LOWER,
)
PAIR_FROM_BELOW = _method(
    "clones pair from below",
    f"{_FMT}, Theorem 3.2, the pair itself",
    shuffled.pair_lower_epsilon,
    shuffled.pair_lower_log_delta,
    statics=shuffled.clones_statics,
    bound=Bound.LOWER,
)
_GIRGIS = "Girgis, Data, Diggavi, Suresh & Kairouz 2021"
_WHOLE_ORDERS = tuple(float(a) for a in range(2, 65))
_PAPER_RDP = dataclasses.replace(
    _renyi("special pairs rdp", f"{_GIRGIS}, Theorems 1 and 2", shuffled.girgis_upper_rdp, helps=_never),
    grids=(_WHOLE_ORDERS, tuple(float(a) for a in range(2, 257))),
)
_MIXTURE_RDP = dataclasses.replace(
    _renyi("special pairs rdp, exact", f"{_GIRGIS}, Theorem 4, the pair's worst case", shuffled.mixture_upper_rdp),
    grids=(_WHOLE_ORDERS,),
    helps=_never,
    statics=functools.partial(shuffled.mixture_sizes, orders=_WHOLE_ORDERS),
)
_VISIBLE = f"{_FMT}, Theorems 3.2 and 3.8, Lemma 2.3 over the visible number"
_CHECK_IN = (
    _method(
        "check-in profile",
        _VISIBLE,
        check_in.profile_upper_epsilon,
        check_in.profile_upper_log_delta,
        helps=_has_one_round,
    ),
    _method(
        "check-in profile, composed",
        f"{_VISIBLE}; Mironov 2017, Proposition 1",
        check_in.composed_upper_epsilon,
        check_in.composed_upper_log_delta,
        helps=_has_several_rounds,
    ),
    _renyi("check-in rdp", f"{_VISIBLE}, Renyi divergences of the profile", check_in.profile_upper_rdp, helps=_never),
    _method(
        "binary randomized response",
        "Liew, Hasegawa & Takahashi 2022, the setting; the pair itself, in one round",
        check_in.response_lower_epsilon,
        check_in.response_lower_log_delta,
        statics=check_in.response_statics,
        bound=Bound.LOWER,
    ),
)
_PURIFIED = f"{_FMT}, Lemma 3.7 (corrected) and Theorem 3.8"
_LOCAL_NOISE = _method(
    "no amplification",
    "Balle & Wang 2018, Theorem 8",
    shuffled.gaussian_local_upper_epsilon,
    shuffled.gaussian_local_upper_log_delta,
)


def _everybody_checks_in(answer: Any) -> Any:
    """`answer`, of check-ins, for shuffles, in which everybody does."""

    def of_shuffle(mechanism: Shuffled, target: Any) -> Any:
        return answer(CheckIn(mechanism.mechanism, mechanism.num_reports, 1.0, mechanism.num_epochs), target)

    return of_shuffle


_GAUSSIAN_CHECK_IN = (
    _method(
        "purified check-in",
        f"{_PURIFIED}, Lemma 2.3 over the visible number",
        check_in.gaussian_upper_epsilon,
        check_in.gaussian_upper_log_delta,
        helps=_has_one_round,
    ),
    _method(
        "purified check-in, composed",
        f"{_PURIFIED}, Lemma 2.3 over the visible number; Mironov 2017, Proposition 1",
        check_in.gaussian_composed_upper_epsilon,
        check_in.gaussian_composed_upper_log_delta,
        helps=_has_several_rounds,
    ),
    _LOCAL_NOISE,
    _CHECK_IN[-1],
)

SHUFFLE_METHODS: dict[tuple[type, ...], tuple[Method, ...]] = {
    (Shuffled, LocalRandomizer): (
        _CLONES,
        _CLONES_RDP,
        _LOCAL,
        _CLOSED_CLONES,
        _COMPOSED_CLONES,
        _MIXTURE_RDP,
        _PAPER_RDP,
        _RESPONSE,
    ),
    (Shuffled, FiniteRandomizer): (_CLONES, _CLONES_RDP, _LOCAL, _COMPOSED_CLONES),
    (Shuffled, KaryRandomizedResponse): (
        _method(
            "blanket",
            f"{_FMT}, Theorem 4.1, extended to all values",
            shuffled.blanket_upper_epsilon,
            shuffled.blanket_upper_log_delta,
            statics=shuffled.blanket_statics,
        ),
        _CLONES,
        _CLONES_RDP,
        _LOCAL,
        _COMPOSED_CLONES,
        _method(
            "nobody else",
            "Randomized response where no other record holds the two values",
            shuffled.elsewhere_lower_epsilon,
            shuffled.elsewhere_lower_log_delta,
            statics=shuffled.blanket_statics,
            bound=Bound.LOWER,
        ),
    ),
    (Shuffled, GaussianReports): (
        _method(
            "purified clones",
            _PURIFIED,
            shuffled.gaussian_upper_epsilon,
            shuffled.gaussian_upper_log_delta,
            statics=shuffled.clones_statics,
        ),
        _method(
            "purified clones, composed",
            f"{_PURIFIED}; Mironov 2017, Proposition 1",
            _everybody_checks_in(check_in.gaussian_composed_upper_epsilon),
            _everybody_checks_in(check_in.gaussian_composed_upper_log_delta),
            helps=_has_several_rounds,
        ),
        _LOCAL_NOISE,
    ),
    (CheckIn, LocalRandomizer): _CHECK_IN,
    (CheckIn, FiniteRandomizer): _CHECK_IN[:-1],
    (CheckIn, KaryRandomizedResponse): _CHECK_IN,
    (CheckIn, GaussianReports): _GAUSSIAN_CHECK_IN,
}
