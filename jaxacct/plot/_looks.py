"""One name and one colour for each scheme, so that it looks the same in every picture."""

from typing import Any, NamedTuple

from jaxacct.curves import RdpCurve


class Look(NamedTuple):
    """What a scheme is called in a legend, and its colour."""

    name: str
    color: str


# Names tell an adjacency other than adding or removing a record. Colours: Okabe and Ito's palette, told apart with any
# of the usual kinds of colour vision.
_ALLOCATION = Look("random allocation", "#0072B2")
_UNAMPLIFIED = "#404040"
_COMPOSED = Look("composition", "#E69F00")
_OTHER = "#56B4E9"
_BY_TYPE = {
    "RandomAllocation": _ALLOCATION,
    "PartialAllocation": _ALLOCATION,
    "ScheduledAllocation": _ALLOCATION,
    "PoissonSampled": Look("Poisson sampling", "#D55E00"),
    "Shuffled": Look("shuffling, replace one", "#009E73"),
    "CheckIn": Look("shuffled check-ins, replace one", "#CC79A7"),
    "Gaussian": Look("Gaussian, no sampling", _UNAMPLIFIED),
    "Laplace": Look("Laplace, no sampling", _UNAMPLIFIED),
    "DiscretePair": Look("pair of distributions", _UNAMPLIFIED),
    "ContinuousPair": Look("pair of distributions", _UNAMPLIFIED),
    "Pld": Look("privacy loss distribution", _OTHER),
}


def look_of(mechanism: Any) -> Look:
    """The look of `mechanism`; a composition of one scheme's runs has that scheme's."""
    if isinstance(mechanism, RdpCurve):
        return Look("Renyi curve", _OTHER)
    parts = getattr(mechanism, "mechanisms", None)
    if parts is not None:
        looks = {look_of(part) for part in parts}
        return looks.pop() if len(looks) == 1 else _COMPOSED
    name = type(mechanism).__name__
    return _BY_TYPE.get(name, Look(name, _OTHER))


def scheme_color(mechanism: Any) -> str:
    """The colour in which `mechanism` is drawn, by its scheme: ``#rrggbb``.

    Random allocation is blue, Poisson sampling vermilion, shuffling green, shuffled check-ins purple, whole-data noise
    grey, a composition of different schemes orange.

    >>> import jaxacct as ja
    >>> from jaxacct import plot
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> plot.scheme_color(run), plot.scheme_color(ja.Composed(run, 10)), plot.scheme_color(ja.Gaussian(1.0))
    ('#0072B2', '#0072B2', '#404040')
    """
    return look_of(mechanism).color
