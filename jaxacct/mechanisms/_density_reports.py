"""Reports with noise of a given density."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import checked_number
from jaxacct.mechanisms._base import Randomizer, description
from jaxacct.mechanisms._fields import Privacy, fixed, positive
from jaxacct.special import is_concave, where_fallen

_DEEP, _PLACES = 40.0, 256  # nats by which the density has fallen at the last place checked, and the number of places


@description
class DensityReports(Randomizer):
    """A number in [-C, C] plus ``scale * C`` times noise with a symmetric, log-concave density given by its logarithm.

    For example logistic noise, or noise of density e^-|z|^p with p >= 1. Beyond the places that are checked, it is
    taken on trust that the density is symmetric, positive everywhere and log-concave.

    Args:
      log_density: maps a float64 NumPy array [N] of places z to the logarithms [N] of the density there, for noise of
        scale 1; any constant may be left out. It must return the same values for the same places at every call. Static:
        not differentiated through.
      scale: float > 0, the scale of the noise divided by C.
      accuracy: float in [0, 1e-6]: a logarithm l that `log_density` returns errs by at most ``accuracy * (1 + |l|)``.

    Raises:
      ValueError: if a field is out of range, or `log_density` is found not to be symmetric, falling and concave.

    >>> import numpy as np, jaxacct as ja
    >>> logistic = ja.DensityReports(lambda z: -2.0 * np.logaddexp(0.5 * z, -0.5 * z), scale=2.0)
    >>> round(ja.epsilon(ja.Shuffled(logistic, num_reports=10**5), target_delta=1e-6), 4)
    0.0066
    """

    is_pure = False

    log_density: Callable[[NDArray[Any]], NDArray[Any]] = fixed()
    scale: Any = positive(
        "scale of the noise",
        "B",
        unit="noise scale / norm",
        help="noise scale over the largest datum",
        privacy=Privacy.GROWS,
    )
    accuracy: float = fixed(default=1e-13)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "accuracy", checked_number("accuracy", self.accuracy))
        if not 0.0 <= self.accuracy <= 1e-6:
            raise ValueError(f"accuracy={self.accuracy} must be in [0, 1e-6]")
        if not callable(self.log_density):
            raise ValueError(f"log_density={self.log_density!r} must be a function of an array of places")
        last = where_fallen(self.logarithms, _DEEP)
        if not last < np.inf:
            raise ValueError(f"log_density={self.log_density!r} must fall: a density's integral is finite")
        place: Any = np.linspace(-last, last, 2 * _PLACES + 1)
        value = self.logarithms(place)
        error = self.accuracy * (1.0 + np.abs(value))
        if np.any(np.abs(value - value[::-1]) > 2.0 * error):
            raise ValueError(f"log_density={self.log_density!r} must be symmetric: the same at z and -z")
        if not is_concave(place, value, error):
            raise ValueError(f"log_density={self.log_density!r} must be concave, to within accuracy={self.accuracy:g}")

    def logarithms(self, places: NDArray[Any]) -> NDArray[Any]:
        """The logarithms [N] of the density of noise of scale 1 at `places` [N], up to a constant.

        Raises:
          ValueError: if they are not that many numbers below infinity.
        """
        value = np.asarray(self.log_density(places))
        if value.shape != places.shape or value.dtype.kind not in "fiu" or not np.all(value < np.inf):
            raise ValueError(
                f"log_density={self.log_density!r} must map an array of places to as many numbers below infinity"
            )
        return value.astype(np.float64)

    def describe(self) -> str:
        return f"noise of a given symmetric, log-concave density, scale {self.scale:g} over the norm"

    def loses_nothing(self) -> bool:
        return False
