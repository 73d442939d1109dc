"""How a question is answered: by which methods, in which order, on which device, in which chunks, and why.

The single place of dispatch: a pure function of the question, the number of its points, the device, and whether it is
traced. The loop only executes it (`_loop`), kernels decide by the number of lanes how they run
(`jaxacct._precision._ways`, consulted here too), and `jaxacct.accounting.plan` prints it.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from jaxacct._method import BracketMethod, Cost, LaneMethod, Method, RenyiMethod, Role
from jaxacct._precision import platform
from jaxacct._precision._ways import Way, way_of
from jaxacct._types import Bound, Direction
from jaxacct.answering._question import Question
from jaxacct.bounds import methods_for
from jaxacct.mechanisms._base import Mechanism

SEVERAL = 4  # least number of points that are bracketed together first
_NUMPY = "the CPU, by NumPy"
_ONE = "one point"


class PlanStep(NamedTuple):
    """One method, and the directions that it is asked for."""

    method: Method
    directions: tuple[Direction, ...]


class Named(NamedTuple):
    """What a name stands for: one method, or the family of all Renyi bounds, and which of its ends."""

    methods: tuple[Method, ...]
    bound: Bound


_RENYI = "rdp"  # the family of all Renyi bounds, unless a method itself has this name
# what people type, and the name that it means
_ALIASES = {
    **dict.fromkeys(("pld", "prv", "privacy loss distribution", "loss distributions"), "loss distribution"),
    **dict.fromkeys(("renyi", "renyi dp", "moments accountant"), _RENYI),
}


def named(question: Question) -> Named:
    """The methods that the question names (`Named`), in upper or lower case, or by a common name for them.

    "rdp" is every Renyi bound unless a method has that name. Names stand for upper bounds and estimates only, unless
    the question wants the lower end: that of a method with both ends is named "METHOD, from below".

    Raises:
      ValueError: if there is no such method.
    """
    found, every = _choices(question)
    name = _meant(question.method, found)
    if name is None:
        below = {_plain(_name_of(m, Bound.LOWER)) for m in every if Bound.LOWER in m.ends}
        lower = "is a lower bound, listed by compare and sweep: it " if _plain(question.method) in below else ""
        upper = {name for name, choice in found.items() if choice.bound is not Bound.LOWER}
        raise ValueError(f"method={question.method!r} {lower}must be one of {sorted(upper)}")
    return found[name]


def is_covered(question: Question) -> bool:
    """Whether the method that the question names, if any, covers its mechanism."""
    return question.method is None or _meant(question.method, _choices(question)[0]) is not None


def _choices(question: Question) -> tuple[dict[str, Named], list[Method]]:
    """What can be named, and the methods that each name stands for."""
    every = list(methods_for(question.mechanism, is_batch=question.is_batch))
    if question.is_batch:
        every = [*filter(_covering(question), every)]
    bounds = (Bound.UPPER, Bound.ESTIMATE, *((Bound.LOWER,) if question.wants_lower else ()))
    found = {_name_of(m, b): Named((m,), b) for b in reversed(bounds) for m in reversed(every) if b in m.ends}
    renyi = tuple(m for m in every if isinstance(m, RenyiMethod))
    if renyi:
        found.setdefault(_RENYI, Named(renyi, Bound.UPPER))
    return found, every


def _name_of(method: Method, bound: Bound) -> str:
    """The name of one end of a method."""
    return f"{method.name}, from below" if bound is Bound.LOWER and len(method.ends) > 1 else method.name


def _meant(method: str | None, found: dict[str, Named]) -> str | None:
    """The name in `found` that somebody who types `method` means; None if there is none."""
    if isinstance(method, str) and method in found:
        return method
    by_plain_name = {_plain(name): name for name in reversed(found)}
    wanted = _plain(method)
    return by_plain_name.get(wanted, by_plain_name.get(_ALIASES.get(wanted, "")))


def is_expensive(question: Question) -> bool:
    """Whether any of the methods that would be asked takes longer than some milliseconds, once it is compiled."""
    return any(step.method.cost > Cost.MILLISECONDS for step in plan(question))


def _plain(name: object) -> str:
    """A name as it is compared: in lower case, hyphens and underscores as spaces; empty for what is no string."""
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split()) if isinstance(name, str) else ""


def plan(question: Question) -> tuple[PlanStep, ...]:
    """The methods to ask, in order. A later one is asked only if those before it leave something open.

    Their roles (`Role`) decide which of them are asked, and the table in which order; last resorts come last. Methods
    on lanes are asked direction by direction, so that the second direction need not be sharper than the first.

    Raises:
      ValueError: if the method that the question names does not answer it, or not in every direction that is
        asked: an upper bound of one direction does not bound the worse of both.
    """
    choice = None if question.method is None else named(question)
    if choice is not None:
        methods = list(choice.methods)
    else:
        every = methods_for(question.mechanism, is_batch=question.is_batch)
        methods = _up_to_best([m for m in every if is_wanted(m, question)], question)
        methods.sort(key=lambda m: m.role_for(question.mechanism) is Role.LAST)
    steps = tuple(_steps(methods, question.directions))
    if choice is not None:
        _check_directions(question, choice.bound, {d for step in steps for d in step.directions})
    return steps


def _check_directions(question: Question, bound: Bound, bounded: set[Direction]) -> None:
    """Raises ValueError if a direction is missing; but a lower bound on one direction bounds the worse of both too."""
    missing = " and ".join(d.value for d in question.directions if d not in bounded)
    if missing and (bound is not Bound.LOWER or not bounded):
        own = "".join(f": ask for direction={d.value!r}, which it bounds" for d in question.directions if d in bounded)
        raise ValueError(f"method={question.method!r} does not bound direction={missing}{own}")


def _covering(question: Question) -> Callable[[Method], bool]:
    """The test whether a method covers some point of a batch; methods for a single point were chosen for it.

    Points are made once, and no more of them than it takes to find one that is covered.
    """
    seen: list[Mechanism] = []
    others = (point.mechanism for _, point in question.points())

    def points() -> Iterator[Mechanism]:
        yield from seen
        for point in others:
            seen.append(point)
            yield point

    return lambda method: isinstance(method, LaneMethod) or 0 in question.shape or any(map(method.applies, points()))


def is_wanted(method: Method, question: Question) -> bool:
    """Whether the question asks the method, by its role, if what comes before leaves something open."""
    is_for_programs = question.is_traced or (question.is_quick and question.is_for_mesh)
    if is_for_programs and not isinstance(method, LaneMethod):
        return False  # before its role, which may depend on numbers that a program does not know
    role, is_upper = method.role_for(question.mechanism), Bound.UPPER in method.ends
    if role is Role.BY_NAME or not (is_upper or question.wants_lower):
        return False
    if is_for_programs:
        return True
    if role in (Role.IN_PROGRAMS, Role.BEST_IN_PROGRAMS):
        return False
    return not (question.is_quick and is_upper and role in (Role.NARROW, Role.SHARPER))


def _up_to_best(methods: list[Method], question: Question) -> list[Method]:
    """`methods` without upper bounds after an exact one, and in programs without slow ones after the best one.

    For a batch, also without those that cover none of its points, and were chosen for others of its kind.
    """
    found: list[Method] = []
    before: set[Role] = set()
    covers = _covering(question) if question.is_batch else None
    for method in methods:
        role = method.role_for(question.mechanism)
        is_outdone = Role.EXACT in before or (Role.BEST_IN_PROGRAMS in before and method.cost > Cost.MICROSECONDS)
        is_asked = not is_outdone or (question.wants_lower and Bound.LOWER in method.ends)
        if is_asked and (covers is None or covers(method)):
            found.append(method)
            before.add(role)
    return found


def _steps(methods: Iterable[Method], directions: tuple[Direction, ...]) -> Iterable[PlanStep]:
    for is_on_lanes, run in itertools.groupby(methods, lambda m: isinstance(m, LaneMethod)):
        group = list(run)
        if is_on_lanes:
            yield from (PlanStep(m, (d,)) for d in directions for m in group if d in m.directions)
        else:
            yield from (
                PlanStep(m, found) for m in group if (found := tuple(d for d in directions if d in m.directions))
            )


# How a step is run, in words


class Execution(NamedTuple):
    """How a step is run, in words.

    Attributes:
      engine: what does the work.
      device: where: the CPU by NumPy, a compiled program and its device, or the program that the question is part of.
      chunks: how many points are answered at a time.
      why: why it is asked at this place, and why it runs there.
    """

    engine: str
    device: str
    chunks: str
    why: str

    def __str__(self) -> str:
        return f"by {self.engine}; on {self.device}, {self.chunks}; {self.why}"


class Planned(NamedTuple):
    """One method of a plan, the directions that it is asked for, and how that is run."""

    method: Method
    directions: tuple[Direction, ...]
    run: Execution

    @property
    def ends(self) -> str:
        """Which ends the method gives, in words."""
        return " and ".join(b.value.removesuffix(" bound") for b in Bound if b in self.method.ends)

    def __str__(self) -> str:
        sides = " and ".join(d.value for d in self.directions)
        return f"{self.method.name}: {self.ends}, {sides}; {self.method.cost.name.lower()}; {self.run}"


def planned(question: Question) -> tuple[Planned, ...]:
    """The plan of a question, with how each step is run."""
    steps = plan(question)
    return tuple(Planned(*step, run_of(step, question, is_first=i == 0)) for i, step in enumerate(steps))


def run_of(step: PlanStep, question: Question, *, is_first: bool) -> Execution:
    """How a step of the plan of `question` is run; nothing is computed.

    Args:
      is_first: whether no step comes before it.
    """
    method, engine = step.method, step.method.engine.value
    asked = _why_asked(step, question, is_first=is_first)
    if question.is_traced:
        return Execution(
            engine, "the device of the program around it", "all points together", f"{asked}; a number is traced"
        )
    num_points = question.num_points
    if isinstance(method, LaneMethod):
        device, chunks, reason = _on_lanes(method, question, num_points)
    else:
        device, chunks, reason = _on_host(method, question, num_points)
    return Execution(engine, device, chunks, f"{asked}; {reason}")


def way_on_lanes(method: LaneMethod, mechanism: Mechanism, num_points: int) -> Way:
    """How the kernel of a method answers `num_points` concrete points; computes nothing."""
    static = method.statics(mechanism)
    if isinstance(method, RenyiMethod):
        static = {**static, "orders": method.grids[0]}
    return way_of(num_points, static, **method.kernel_options)


def _on_lanes(method: LaneMethod, question: Question, num_points: int) -> tuple[str, str, str]:
    """Device and chunks for a kernel, and the reason for both."""
    way = way_on_lanes(method, question.mechanism, num_points)
    if way.is_compiled:
        at_once = _ONE if num_points == 1 else _chunks(way, num_points)
        reason = "many points are worth a program" if way.has_numpy else "only a program answers it"
        return f"the {platform().upper()}, by a compiled program", at_once, reason
    if num_points == 1:
        return _NUMPY, _ONE, "NumPy answers one point before a program is compiled"
    return _NUMPY, _chunks(way, num_points), "NumPy answers these points sooner than a program is compiled"


def _on_host(method: Method, question: Question, num_points: int) -> tuple[str, str, str]:
    """Device and chunks for brackets of concrete points, and the reason for both."""
    if num_points == 1:
        return _NUMPY, _ONE, "its work is driven step by step"
    if num_points >= SEVERAL and brackets_together(method, question):
        return _NUMPY, "all open points together, those that stay wide one by one", "it brackets many points at once"
    return _NUMPY, "one by one", "each point's work is driven step by step"


def brackets_together(method: Method, question: Question) -> bool:
    """Whether a method takes open points together: `SEVERAL` or more first, fewer after they were asked one by one.

    Never if it is asked by name.
    """
    return isinstance(method, BracketMethod) and method.many is not None and question.method is None


def _chunks(way: Way, num_points: int) -> str:
    if way.at_once == 1:
        return "one by one"
    return "together" if way.at_once >= num_points else f"{way.at_once} at a time"


def _why_asked(step: PlanStep, question: Question, *, is_first: bool) -> str:
    """Why a step stands in the plan where it does."""
    method, role = step.method, step.method.role_for(question.mechanism)
    if question.method is not None:
        return "asked by name"
    if role is Role.LAST:
        return "asked where no other method has found a finite bound"
    if role is Role.EXACT:
        return "exact, so that no upper bound comes after it"
    if Bound.UPPER not in method.ends:
        return "asked for the lower end"
    if role is Role.BEST_IN_PROGRAMS:
        return "the best of those that can be part of a program, so that none that takes long comes after it"
    if question.is_traced or question.is_for_mesh:
        return "one of those that can be part of a program"
    if is_first:
        return "asked first, since it takes least time"
    if question.is_quick:
        return "asked where it may be tighter: one of the quick methods"
    if role is Role.SHARPER:
        return "asked always, since it may be sharper than what dominates the mechanism"
    return f"asked where upper and lower end are still more than {100.0 * question.width:.2g} % apart"
