"""One name and one colour for each scheme, so that a scheme looks the same in every figure."""

from typing import NamedTuple

from jaxacct.curves import RdpCurve
from jaxacct.mechanisms._base import Mechanism, not_a_mechanism


class Look(NamedTuple):
    """The name of a scheme in a legend, and its colour."""

    name: str
    color: str


# Names state an adjacency other than adding or removing a record. Colours: Okabe and Ito's palette, which can be told
# apart with any of the usual kinds of colour vision.
_UNAMPLIFIED = "#404040"
_OTHER = "#56B4E9"
_COLORS = {
    "random allocation": "#0072B2",
    "Poisson sampling": "#D55E00",
    "shuffling, replace one": "#009E73",
    "shuffled check-ins, replace one": "#CC79A7",
    "Gaussian, no sampling": _UNAMPLIFIED,
    "Laplace, no sampling": _UNAMPLIFIED,
    "pair of distributions": _UNAMPLIFIED,
    "composition": "#E69F00",
}


def look_of(mechanism: Mechanism | RdpCurve) -> Look:
    """The look of `mechanism`, by the name of its scheme."""
    if isinstance(mechanism, RdpCurve):
        return Look("Renyi curve", _OTHER)
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism={mechanism!r} {not_a_mechanism(mechanism)}")
    return Look(mechanism.scheme, _COLORS.get(mechanism.scheme, _OTHER))


def scheme_color(mechanism: Mechanism | RdpCurve) -> str:
    """The colour in which `mechanism` is drawn, by its scheme: ``#rrggbb``.

    Random allocation is blue, Poisson sampling vermilion, shuffling green, shuffled check-ins purple, noise without
    sampling grey, and a composition of different schemes orange.

    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> plot.scheme_color(run), plot.scheme_color(ja.Composed(run, 10)), plot.scheme_color(ja.Gaussian(1.0))
    ('#0072B2', '#0072B2', '#404040')
    """
    return look_of(mechanism).color
