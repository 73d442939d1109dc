"""Which methods answer a question, and in which order: pure, printable, the same for every caller."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from jaxacct._method import BracketMethod, Cost, LaneMethod, Method, RenyiMethod, one_sided
from jaxacct._types import Bound, Direction
from jaxacct.answering._question import Question
from jaxacct.bounds import methods_for


class Step(NamedTuple):
    """One method, and the directions that it is asked for."""

    method: Method
    directions: tuple[Direction, ...]


class Named(NamedTuple):
    """What a name asks for: methods, one but for the family of all Renyi bounds, and which end of theirs."""

    methods: tuple[Method, ...]
    bound: Bound


_RENYI = "rdp"  # the family of all Renyi bounds, where no method has this name itself
# what people type, and the name that it means
_ALIASES = {
    **dict.fromkeys(("pld", "prv", "privacy loss distribution", "loss distributions"), "loss distribution"),
    **dict.fromkeys(("renyi", "renyi dp", "moments accountant"), _RENYI),
}


def named(question: Question) -> Named:
    """What the question names: a method by the name of an end, in any case, or by what people call it.

    "rdp" is every Renyi bound where none has that name. Upper bounds and estimates only, unless the question wants the
    lower end.

    Raises:
      ValueError: if there is no such method.
    """
    every = _covering(methods_for(question.mechanism, is_batch=question.is_batch), question)
    bounds = (Bound.UPPER, Bound.ESTIMATE, *((Bound.LOWER,) if question.wants_lower else ()))
    found = {m.name_of(b): Named((m,), b) for b in reversed(bounds) for m in reversed(every) if b in m.ends}
    if isinstance(question.method, str) and question.method in found:
        return found[question.method]
    renyi = tuple(m for m in every if isinstance(m, RenyiMethod))
    if renyi:
        found.setdefault(_RENYI, Named(renyi, Bound.UPPER))
    by_plain_name = {_plain(name): name for name in reversed(found)}
    wanted = _plain(question.method)
    name = by_plain_name.get(wanted, by_plain_name.get(_ALIASES.get(wanted, "")))
    if name is None:
        below = {_plain(m.name_of(Bound.LOWER)) for m in every if Bound.LOWER in m.ends}
        lower = "is a lower bound, listed by compare and sweep: it " if wanted in below else ""
        upper = {name for name, choice in found.items() if choice.bound is not Bound.LOWER}
        raise ValueError(f"method={question.method!r} {lower}must be one of {sorted(upper)}")
    return found[name]


def is_dear(question: Question) -> bool:
    """Whether any of the methods that would be asked takes longer than some milliseconds, once it is compiled."""
    return any(step.method.cost > Cost.MILLISECONDS for step in plan(question))


def _plain(name: object) -> str:
    """A name as compared: in lower case, hyphens and underscores as spaces; empty for what is no string."""
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split()) if isinstance(name, str) else ""


def plan(question: Question) -> tuple[Step, ...]:
    """The methods to ask, in order. A later one is asked only if those before it leave something open.

    Traced questions get the methods on lanes, quick ones the methods on lanes, the
    brackets that are quick, and the last resorts. Otherwise every method that helps, after its cost in a fresh process
    and then as declared; last resorts come last. Methods on lanes are asked direction by direction, so that the second
    direction need not be sharper than the first.

    Raises:
      ValueError: if the method that the question names does not answer it, or not in every direction that is
        asked: an upper bound of one direction is none of the worse of both.
    """
    choice = None if question.method is None else named(question)
    if choice is not None:
        methods = list(choice.methods)
    else:
        every = methods_for(question.mechanism, is_batch=question.is_batch)
        methods = [m for m in every if _is_wanted(m, question)]
        if question.is_batch:
            methods = _covering(methods, question)
        if not (question.is_traced or question.is_quick):
            # where both ends are wanted, what gives both may spare the program of an exact upper one
            methods.sort(key=lambda m: (m.cold, question.wants_lower and m.is_exact))
        if question.is_traced:
            methods = _unspared(methods)
        methods = _up_to_exact(methods, question)
        methods.sort(key=is_last_resort)
    steps = tuple(_steps(methods, question.directions))
    if choice is not None:
        _check_directions(question, choice.bound, {d for step in steps for d in step.directions})
    return steps


def _check_directions(question: Question, bound: Bound, bounded: set[Direction]) -> None:
    """A lower bound of one direction is one of the worse of both; an upper bound is none."""
    missing = " and ".join(d.value for d in question.directions if d not in bounded)
    if missing and (bound is not Bound.LOWER or not bounded):
        own = "".join(f": ask for direction={d.value!r}, which it bounds" for d in question.directions if d in bounded)
        raise ValueError(f"method={question.method!r} does not bound direction={missing}{own}")


def _covering(methods: Iterable[Method], question: Question) -> list[Method]:
    """Those that cover some point of a batch; all of them where there is no batch, which they were chosen for."""
    if not question.is_batch or 0 in question.shape:
        return list(methods)
    return [m for m in methods if one_sided(m) or any(m.applies(x.mechanism) for _, x in question.points())]


def _is_wanted(method: Method, question: Question) -> bool:
    if Bound.ESTIMATE in method.ends:
        return False
    if Bound.UPPER not in method.ends and not question.wants_lower:
        return False
    if one_sided(method):
        if isinstance(method, LaneMethod) and not question.is_traced and method.only_traced(question.mechanism):
            return False
        return Bound.UPPER not in method.ends or method.helps(question.mechanism)
    if question.is_traced:
        return False
    if not method.helps(question.mechanism):
        return False
    if not question.is_quick or is_last_resort(method) or is_quick_bracket(method):
        return True
    return question.wants_lower and Bound.UPPER not in method.ends


def _unspared(methods: list[Method]) -> list[Method]:
    """Without those that another one spares a program."""
    spared = {name for m in methods if isinstance(m, LaneMethod) for name in m.spares}
    return [m for m in methods if m.name not in spared]


def is_quick_bracket(method: Method) -> bool:
    """Whether quick questions ask for its bracket."""
    return isinstance(method, BracketMethod) and method.is_quick


def is_last_resort(method: Method) -> bool:
    """Whether it is asked only where no other method has found a finite bound."""
    return isinstance(method, BracketMethod) and method.is_last_resort


def _up_to_exact(methods: list[Method], question: Question) -> list[Method]:
    """Without upper bounds after an exact one, which they cannot improve."""
    exact = next((i for i, m in enumerate(methods) if m.is_exact), len(methods))
    return [m for i, m in enumerate(methods) if i <= exact or (question.wants_lower and Bound.LOWER in m.ends)]


def _steps(methods: Iterable[Method], directions: tuple[Direction, ...]) -> Iterable[Step]:
    for is_one_sided, run in itertools.groupby(methods, one_sided):
        group = list(run)
        if is_one_sided:
            yield from (Step(m, (d,)) for d in directions for m in group if d in m.directions)
        else:
            yield from (Step(m, found) for m in group if (found := tuple(d for d in directions if d in m.directions)))
