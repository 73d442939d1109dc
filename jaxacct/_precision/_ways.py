"""How a call with concrete lanes is computed: by NumPy or by which program, and how many lanes at a time.

It depends on the call itself (the number of lanes, the static arguments, the device), never on earlier calls: the same
question has the same digits however often it is asked.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypedDict

from jaxacct._precision._devices import mesh, num_devices, platform, quick_options

# working memory that one call of a kernel may take, on a CPU and elsewhere: larger batches are cut into chunks
_CHUNK_BYTES, _CHUNK_BYTES_ELSEWHERE = 64 * 2**20, 2**30
# A kernel that takes NumPy arrays too is run by NumPy for calls of one lane: it starts at once, and for one lane
# compilation would save only the overhead of NumPy's calls. Several lanes are cut into chunks of this size, for the
# cache.
_HOST_BYTES = 4 * 2**20
# A small batch of such a kernel is not compiled either: NumPy answers its lanes one after another, as single questions,
# in less time than it takes to compile a program.
FEW_LANES = 32
_QUICK_LANES = 8  # programs for at most this many lanes per call are compiled quickly

_large: contextvars.ContextVar[bool] = contextvars.ContextVar("large", default=False)


@contextlib.contextmanager
def of_many_points() -> Iterator[None]:
    """Within it, calls are parts of a question of so many points that programs compiled for speed pay off."""
    token = _large.set(True)
    try:
        yield
    finally:
        _large.reset(token)


class Running(TypedDict, total=False):
    """How a kernel is run on concrete lanes; each part has a default.

    Attributes:
      lane_bytes: working memory of one lane, in bytes (or a function of the static arguments); a batch is cut into
        chunks of at most 64 MiB on a CPU, 1 GiB on an accelerator, or of one lane.
      on_host: whether it takes NumPy arrays too: then a single concrete question is computed by NumPy, which compiles
        nothing. If it is a number, up to that many lanes are computed together by NumPy. If it is a function of the
        static arguments, it says whether, and how many.
      one_by_one: up to how many lanes of one call NumPy computes one after another, as single questions, in less time
        than it takes to compile a program; `math.inf` where each lane takes a program longer than NumPy.
    """

    lane_bytes: int | Callable[..., int]
    on_host: bool | int | Callable[..., int]
    one_by_one: float


class Way(NamedTuple):
    """How a call with concrete lanes is computed.

    Attributes:
      is_compiled: whether by a compiled program; else by NumPy.
      at_once: the number of lanes per call of that program or of NumPy; further lanes are computed in turn.
      has_numpy: whether NumPy could compute it too.
    """

    is_compiled: bool
    at_once: int
    has_numpy: bool


def way_of(
    num_lanes: int,
    static: dict[str, Any],
    *,
    lane_bytes: int | Callable[..., int] = 2**16,
    on_host: bool | int | Callable[..., int] = False,
    one_by_one: float = FEW_LANES,
) -> Way:
    """How a kernel with these properties (`Running`) is run on `num_lanes` lanes; computes nothing."""
    most = int(on_host(**static) if callable(on_host) else on_host)
    has_numpy, size = most > 0 and mesh() is None, lane_bytes(**static) if callable(lane_bytes) else lane_bytes
    if has_numpy and 1 <= num_lanes <= most and not _large.get():
        return Way(False, max(1, _HOST_BYTES // size), True)
    if has_numpy and 1 <= num_lanes <= one_by_one and (one_by_one == math.inf or not _large.get()):
        return Way(False, 1, True)
    chunk = _CHUNK_BYTES if platform() == "cpu" else _CHUNK_BYTES_ELSEWHERE
    at_once, devices = 1 << max(0, int(chunk // size).bit_length() - 1), num_devices()
    wanted = min(1 << max(0, num_lanes - 1).bit_length(), devices * at_once)
    return Way(True, -(-wanted // devices) * devices, has_numpy)  # each device has as many lanes


def is_quick(size: int) -> bool:
    """Whether a program for so many lanes takes longer to optimise than it is likely to run."""
    return size <= _QUICK_LANES and not _large.get() and mesh() is None and bool(quick_options())
