"""A run on data on which privacy was already spent: the composition of what was spent and the run."""

from typing import Any

from jaxacct.mechanisms._adjacent import checked_relation, in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._composed import Composed
from jaxacct.mechanisms._epsilon_delta import EpsilonDelta


def after(prefix: Any, mechanism: Any, neighboring_relation: Any = None) -> Any:
    """`mechanism` after `prefix`, under the adjacency that a question names; `mechanism` itself if `prefix` is None.

    A `prefix` that is a pair (epsilon, delta) is a guarantee under that adjacency, or under the mechanism's own if none
    is named. A `prefix` that is a mechanism is taken under its own adjacency, from which the one of the question must
    follow.

    Raises:
      ValueError: if `prefix` is neither, there is no such adjacency, or there is no analysis under it.
    """
    if prefix is None or not isinstance(mechanism, Mechanism):
        return in_relation(mechanism, neighboring_relation)
    relation = mechanism.relation if neighboring_relation is None else checked_relation(neighboring_relation)
    if isinstance(prefix, Mechanism) and prefix.relation is mechanism.relation:
        return in_relation(Composed((prefix, mechanism)), relation)
    return Composed((_in(relation, prefix), in_relation(mechanism, relation)))


def _in(relation: Any, prefix: Any) -> Mechanism:
    """What was spent, under an adjacency."""
    if isinstance(prefix, Mechanism):
        try:
            found: Mechanism = in_relation(prefix, relation)
        except ValueError:
            raise ValueError(
                f"prefix={prefix!r} is described for {prefix.relation.value!r}, which implies nothing for "
                f"{relation.value!r}, the adjacency that is asked about"
            ) from None
        return found
    if not (isinstance(prefix, tuple | list) and len(prefix) == 2):
        raise ValueError(f"prefix={prefix!r} must be a mechanism (a Pld is one) or a pair (epsilon, delta)")
    try:
        return EpsilonDelta(prefix[0], prefix[1], relation)
    except ValueError as error:
        raise ValueError(f"prefix={prefix!r} must be a pair (epsilon, delta): {error}") from None


def keys_after(prefix: Any, whole: Any) -> tuple[Any, ...]:
    """The keys that lead from the result of `after` to the mechanism that it was given, or to where that is wrapped."""
    if prefix is None:
        return ()
    return ("mechanisms", 1) if isinstance(whole, Composed) else ("mechanism", "mechanisms", 1)
