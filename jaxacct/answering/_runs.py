"""How a step of a plan is run: what does the work, on which device, how many points at a time, and why; in words.

A pure function of the question, the number of its points, the device, and whether it is traced. What decides is where
the question is answered too: the kind of a method (`_loop`), and the number of lanes (`jaxacct._precision.way_of`).
"""

from typing import NamedTuple

from jaxacct._method import BracketMethod, LaneMethod, Method, RenyiMethod, one_sided
from jaxacct._precision import Way, platform, way_of
from jaxacct._types import Bound, Direction
from jaxacct.answering._loop import SEVERAL
from jaxacct.answering._plan import Step, is_last_resort, plan
from jaxacct.answering._question import Question

_NUMPY = "the CPU, by NumPy"
_ONE = "one point"


class Run(NamedTuple):
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
    run: Run

    @property
    def ends(self) -> str:
        """Which ends the method gives, in words."""
        return " and ".join(b.value.removesuffix(" bound") for b in Bound if b in self.method.ends)

    def __str__(self) -> str:
        sides = " and ".join(d.value for d in self.directions)
        cost, cold = self.method.cost.name.lower(), self.method.cold.name.lower()
        return f"{self.method.name}: {self.ends}, {sides}; {cost} ({cold} cold); {self.run}"


def planned(question: Question) -> tuple[Planned, ...]:
    """The plan of a question, with how each step is run."""
    steps = plan(question)
    return tuple(Planned(*step, run_of(step, question, is_first=i == 0)) for i, step in enumerate(steps))


def run_of(step: Step, question: Question, *, is_first: bool) -> Run:
    """How a step of the plan of `question` is run; nothing is computed.

    Args:
      is_first: whether no step comes before it.
    """
    method, engine = step.method, step.method.engine.value
    asked = _why_asked(step, question, is_first=is_first)
    if question.is_traced:
        return Run(engine, "the device of the program around it", "all points together", f"{asked}; a number is traced")
    num_points = question.num_points
    if isinstance(method, LaneMethod) and one_sided(method):
        device, chunks, reason = _on_lanes(method, question, num_points)
    else:
        device, chunks, reason = _on_host(method, question, num_points)
    return Run(engine, device, chunks, f"{asked}; {reason}")


def _on_lanes(method: LaneMethod, question: Question, num_points: int) -> tuple[str, str, str]:
    """Device, chunks and the reason for both, of a kernel."""
    lanes, static = method.lanes, method.lanes.statics(question.mechanism)
    if isinstance(method, RenyiMethod):
        static = {**static, "orders": method.grids[0]}
    way = way_of(num_points, static, lanes.on_host, lanes.one_by_one, lanes.bytes)
    if way.is_compiled:
        at_once = _ONE if num_points == 1 else _chunks(way, num_points)
        reason = "many points are worth a program" if way.has_numpy else "only a program answers it"
        return _device_of_programs(), at_once, reason
    if num_points == 1:
        return _NUMPY, _ONE, "NumPy answers one point before a program is compiled"
    return _NUMPY, _chunks(way, num_points), "NumPy answers so few points before a program is compiled"


def _on_host(method: object, question: Question, num_points: int) -> tuple[str, str, str]:
    """Device, chunks and the reason for both, of a bracket of concrete points."""
    has_many = isinstance(method, BracketMethod) and method.many is not None and question.method is None
    if num_points == 1:
        return _NUMPY, _ONE, "its work is driven step by step"
    if has_many and num_points >= SEVERAL:
        return _NUMPY, "all open points together, those that stay wide one by one", "it brackets many points at once"
    return _NUMPY, "one by one", "each point's work is driven step by step"


def _chunks(way: Way, num_points: int) -> str:
    if way.at_once == 1:
        return "one by one"
    return "together" if way.at_once >= num_points else f"{way.at_once} at a time"


def _device_of_programs() -> str:
    return f"the {platform().upper()}, by a compiled program"


def _why_asked(step: Step, question: Question, *, is_first: bool) -> str:
    """Why a step stands in the plan where it does."""
    method = step.method
    if question.method is not None:
        return "asked by name"
    if is_last_resort(method):
        return "asked where no other method has found a finite bound"
    if method.is_exact:
        return "exact, so that no upper bound comes after it"
    if Bound.UPPER not in method.ends:
        return "asked for the lower end"
    if question.is_traced:
        return "one of those that can be part of a program"
    if is_first:
        return "asked first, since its first answer takes least time"
    if question.is_quick:
        return "asked where it may be tighter: one of the quick methods"
    if method.sharpens_reduction:
        return "asked always, since it may be sharper than what dominates the mechanism"
    return f"asked where upper and lower end are still more than {100.0 * question.width:.2g} % apart"
