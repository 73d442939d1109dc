"""The sparse vector technique: which of many queries are above a threshold, with Laplace or Gaussian noise."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct._validate import check_positive, checked_number, checked_whole
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, count, fixed, positive

_SAFE = 1.0 - 2.0**-46  # factor on an epsilon before it is divided up: it covers a dozen roundings

_UNIT = "unit of the queries"
_ANSWERS = "for each query whether it was above the threshold, up to the last that is answered so; no value"


class _SparseVector(Release):
    """What both kinds share: the fields `sensitivity`, `cutoff` and `monotonic`, and their meaning."""

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    released = _ANSWERS

    cutoff: Any
    sensitivity: Any
    monotonic: bool

    def __post_init__(self) -> None:
        if not isinstance(self.monotonic, bool):
            raise ValueError(f"monotonic={self.monotonic!r} must be True or False")
        super().__post_init__()

    def assumptions(self) -> tuple[str, ...]:
        moved = "one record moves each query by at most the sensitivity"
        if self.monotonic:
            moved += ", and all of them the same way"
        drawn = "the threshold's noise is drawn once, each query's afresh; both stay secret, as the noisy queries do"
        return (f"{moved}; {drawn}; a query may depend on all earlier answers",)

    def loses_nothing(self) -> bool:
        return False

    def _queries(self) -> str:
        stop = f"stops after {self.cutoff:.0f} above"
        kind = "monotonic queries" if self.monotonic else "queries"
        return f"{kind} of sensitivity {self.sensitivity:g}, {stop}"


@description
class AboveThreshold(_SparseVector):
    """The sparse vector technique with Laplace noise: which queries are above a threshold, until `cutoff` of them are.

    A query q is answered "above" if q + Lap(query_scale) >= T + Lap(threshold_scale), where the threshold T is public.
    The noise on the threshold is drawn once, that on each query afresh. The values of the queries are not released (to
    release them, compose this with `Laplace`). There may be any number of queries, chosen adaptively. With D the
    sensitivity, the mechanism is purely epsilon-DP with

        epsilon = D / threshold_scale + 2 cutoff D / query_scale,

    without the 2 for monotonic queries (Lyu, Su & Li 2017, "Understanding the sparse vector technique for differential
    privacy", Theorems 4 and 5). This is the least epsilon that holds as the number of queries grows. The Renyi
    divergences are smaller than it implies; see docs/papers/above_threshold.md. Adjacency: add or remove one record.

    Args:
      threshold_scale: float > 0, the scale of the threshold's Laplace noise, in the unit of the queries.
      query_scale: float > 0, the scale of the Laplace noise on each query.
      cutoff: whole number >= 1, the number of answers "above" after which the mechanism stops.
      sensitivity: float > 0, D: by how much one record moves a query.
      monotonic: whether a record moves all queries in the same direction, as it does with counts. Static.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> one = ja.AboveThreshold(threshold_scale=2.0, query_scale=8.0)
    >>> one.pure_epsilon, round(ja.epsilon(one, 1e-6), 4)
    (0.75, 0.75)
    >>> round(ja.epsilon(ja.Composed(one, 100), 1e-6), 2)  # as a pure guarantee alone: 56.82
    40.86
    """

    scheme = "sparse vector, Laplace noise"
    reduction = "the least private release of the same pure epsilon"

    threshold_scale: Any = positive(
        "scale of the threshold's noise",
        "B",
        unit=_UNIT,
        help="Laplace scale at the threshold, > 0",
        privacy=Privacy.GROWS,
    )
    query_scale: Any = positive(
        "scale of a query's noise", "B", unit=_UNIT, help="Laplace scale at a query, > 0", privacy=Privacy.GROWS
    )
    cutoff: Any = count(
        "answers above", "C", help="answers 'above' after which it stops", privacy=Privacy.FALLS, default=1
    )
    sensitivity: Any = positive(
        "sensitivity", "D", unit=_UNIT, help="by how much a record moves a query", privacy=Privacy.FALLS, default=1.0
    )
    monotonic: bool = fixed(default=False)

    @classmethod
    def from_epsilon(
        cls, epsilon: float, *, cutoff: int = 1, sensitivity: float = 1.0, monotonic: bool = False
    ) -> "AboveThreshold":
        """The `AboveThreshold` that is purely `epsilon`-DP and has the least variance of query minus threshold.

        The shares of epsilon that the threshold and the queries get are in the ratio 1 : (2 cutoff)^(2/3), without the
        2 for monotonic queries (Lyu, Su & Li 2017, section 4.3).

        Args:
          epsilon: float > 0.
          cutoff, sensitivity, monotonic: the fields of these names.

        Returns:
          An `AboveThreshold` whose `pure_epsilon` is at most `epsilon`.

        Raises:
          ValueError: if an argument is out of range.

        >>> from jaxacct import AboveThreshold
        >>> run = AboveThreshold.from_epsilon(1.0, cutoff=4, monotonic=True)
        >>> round(run.threshold_scale, 2), round(run.query_scale, 2), round(run.pure_epsilon, 6)
        (3.52, 5.59, 1.0)
        """
        check_positive("epsilon", epsilon)
        check_positive("sensitivity", sensitivity)
        answers = checked_whole("cutoff", cutoff, 1, 2**53)
        whole, moved = checked_number("epsilon", epsilon) * _SAFE, checked_number("sensitivity", sensitivity)
        weight = float(answers if monotonic else 2 * answers)
        first = whole / (1.0 + weight ** (2.0 / 3.0))
        return cls(moved / first, weight * moved / (whole - first), answers, moved, monotonic)

    @property
    def loss_of_threshold(self) -> Any:
        """The threshold's share of the pure epsilon, D / threshold_scale; an array or a tracer if a field is one."""
        return self.sensitivity / self.threshold_scale

    @property
    def loss_of_answer(self) -> Any:
        """The share of one answer "above", 2 D / query_scale; without the 2 for monotonic queries."""
        return (1.0 if self.monotonic else 2.0) * self.sensitivity / self.query_scale

    @property
    def pure_epsilon(self) -> Any:
        """The pure epsilon, up to three rounding errors."""
        return self.loss_of_threshold + self.cutoff * self.loss_of_answer

    def describe(self) -> str:
        noise = f"Laplace noise, scale {self.threshold_scale:g} of the threshold and {self.query_scale:g} of queries"
        return f"sparse vector, {noise}; {self._queries()}"


@description
class GaussianAboveThreshold(_SparseVector):
    """The sparse vector technique with Gaussian noise: which of `num_queries` queries are above a threshold.

    This is `AboveThreshold` with Gaussian noise on the threshold and on the queries. Its Renyi divergences of order a
    are at most

        R_a <= a D^2 / (2 threshold_std^2) + cutoff log(1 + n (e^((a-1) a s^2 D^2 / (2 query_std^2)) - 1)) / (a - 1),

    with n = num_queries and s = 2, or s = 1 for monotonic queries (Zhu & Wang 2020, "Improving sparse vector technique
    with Renyi differential privacy", for at most n queries; proved in docs/papers/above_threshold.md). The mechanism is
    not purely epsilon-DP. Adjacency: add or remove one record.

    Args:
      threshold_std: float > 0, the standard deviation of the noise on the threshold, in the unit of the queries.
      query_std: float > 0, the standard deviation of the noise on each query.
      num_queries: whole number >= 1, the number of queries after which the mechanism stops, whatever the answers are.
      cutoff: whole number >= 1, the number of answers "above" after which the mechanism stops.
      sensitivity: float > 0, D: by how much one record moves a query.
      monotonic: whether a record moves all queries in the same direction. Static.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> one = ja.GaussianAboveThreshold(threshold_std=8.0, query_std=16.0, num_queries=1000)
    >>> round(ja.epsilon(ja.Composed(one, 20), 1e-6), 2)
    13.89
    """

    scheme = "sparse vector, Gaussian noise"
    reduction = "the threshold's noise revealed at the end"

    threshold_std: Any = positive(
        "noise of the threshold",
        "SIGMA",
        unit=_UNIT,
        help="noise std at the threshold, > 0",
        privacy=Privacy.GROWS,
    )
    query_std: Any = positive(
        "noise of a query",
        "SIGMA",
        unit=_UNIT,
        help="noise std at a query, > 0",
        privacy=Privacy.GROWS,
    )
    num_queries: Any = count("queries", "N", help="queries asked at most", privacy=Privacy.FALLS)
    cutoff: Any = count(
        "answers above", "C", help="answers 'above' after which it stops", privacy=Privacy.FALLS, default=1
    )
    sensitivity: Any = positive(
        "sensitivity", "D", unit=_UNIT, help="by how much a record moves a query", privacy=Privacy.FALLS, default=1.0
    )
    monotonic: bool = fixed(default=False)

    @property
    def reach(self) -> float:
        """The largest shift of a query relative to the threshold, in units of the sensitivity."""
        return 1.0 if self.monotonic else 2.0

    def describe(self) -> str:
        noise = f"Gaussian noise, {self.threshold_std:g} of the threshold and {self.query_std:g} of queries"
        return f"sparse vector, {noise}, at most {self.num_queries:.0f}; {self._queries()}"
