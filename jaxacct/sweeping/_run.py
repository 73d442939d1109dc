"""The loop over the chunks of a sweep, wherever they are computed."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import time
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._precision._ways import of_many_points
from jaxacct._types import Bound
from jaxacct.sweeping._file import SweepFile
from jaxacct.sweeping._grid import Grid
from jaxacct.sweeping._progress import Progress
from jaxacct.sweeping._question import SweptQuestion
from jaxacct.sweeping._result import SweepFailedError, SweepInterrupted, SweepResult
from jaxacct.workers import FailedChunk, Spread, Workers, num_cores, workers_of

_LOOK = 2.0  # seconds of work here after which more processes are considered
_START = 10.0  # seconds that processes take to start, import and compile: twice what two took on a busy machine
_GAIN = 0.8  # processes are used if they take at most this share of the time left
_MOST_PROCESSES = 16  # each takes 170 MB, and what its programs need


_Answers = Generator[tuple[int, NDArray[Any]] | None, None, None]


@dataclasses.dataclass(frozen=True)
class Chunk:
    """What is computed for one chunk: a pure function of its points, the same on every machine of one kind.

    Attributes:
      ask: the question.
      size: the size of a full chunk; shorter chunks are padded with their last point, since another size would need
        another program. 0 if each point is computed by itself.
      is_of_many: whether the sweep has so many points that compiling programs for speed pays off, even for small
        chunks.
    """

    ask: SweptQuestion
    size: int
    is_of_many: bool

    def __call__(self, points: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """The answers at the points of a chunk."""
        count = len(next(iter(points.values())))
        at = np.minimum(np.arange(max(self.size, count)), count - 1)
        with of_many_points() if self.is_of_many else contextlib.nullcontext():
            return self.ask({name: values[at] for name, values in points.items()})[:count]


@dataclasses.dataclass(frozen=True)
class SweepRun:
    """A sweep: what is computed, where, and how.

    Attributes:
      chunk: what is computed for one chunk.
      bound: the kind of bound that the answers are.
      settings: the question, as JSON.
      is_shared: whether several processes of `jax.distributed` may take part.
      pause: seconds after which finished rows are written to the file.
      workers: what computes the chunks; None for this process.
      may_use_cores: whether processes of this machine may join if that is faster.
    """

    chunk: Chunk
    grid: Grid
    bound: Bound
    settings: dict[str, Any]
    chunk_size: int
    is_shared: bool
    pause: float
    workers: Workers | None
    may_use_cores: bool

    def __call__(self, progress: Progress, file: SweepFile | None, *, resume: bool) -> SweepResult:
        """The answers at every point of the grid."""
        so_far = _SoFar(self)
        file = so_far.open(file, resume=resume)
        outcome = _Outcome()
        pause = self.pause if self.workers is None else max(self.pause, 1.0)
        try:
            progress(so_far.num_done)
            with contextlib.closing(self._answers(so_far.missing(), outcome)) as answers:
                saved = time.monotonic()
                for found in answers:
                    if found is not None:
                        so_far.take_in(*found)
                    is_whole = so_far.num_done == self.grid.size
                    if file is not None and (is_whole or time.monotonic() - saved >= pause):
                        so_far.save(file)
                        saved = time.monotonic()
                    if found is not None:
                        progress(so_far.num_done)
        except KeyboardInterrupt:
            if file is not None:
                so_far.save(file)
            path = None if file is None else file.path
            raise SweepInterrupted(self._result(so_far, outcome), path) from None
        if file is not None:
            so_far.save(file)
        if outcome.failed:
            raise SweepFailedError(self._result(so_far, outcome), outcome.failed, self.chunk_size)
        return self._result(so_far, outcome)

    def _points(self, number: int) -> dict[str, NDArray[Any]]:
        start = number * self.chunk_size
        return self.grid.points(start, min(start + self.chunk_size, self.grid.size))

    def _answers(self, numbers: NDArray[Any], outcome: _Outcome) -> _Answers:
        """(number, answers) of each chunk when it is done, and None now and then if that takes long."""
        if self.workers is not None:
            yield from self._spread(self.workers, numbers, outcome)
            return
        looked = time.monotonic(), time.process_time(), 0
        may_look = self.may_use_cores
        for done, number in enumerate(numbers.tolist()):
            yield number, self.chunk(self._points(number))
            if done == 0:  # it has compiled
                looked = time.monotonic(), time.process_time(), 1
            elif may_look and time.monotonic() - looked[0] >= _LOOK:
                may_look = False
                count = done + 1 - looked[2]
                wall, cpu = (now - at for now, at in zip((time.monotonic(), time.process_time()), looked, strict=False))
                rest = numbers[done + 1 :]
                here = wall / count * rest.size
                if (workers := _worth_it(here, cpu / wall)) is not None and _can_be_sent(self.chunk):
                    yield from self._spread(workers, rest, outcome)
                    for failed in outcome.failed:
                        yield failed.number, self.chunk(self._points(failed.number))  # to raise the error itself
                    outcome.failed = ()
                    return

    def _spread(self, workers: Workers, numbers: NDArray[Any], outcome: _Outcome) -> _Answers:
        spread = Spread(workers, self.chunk, self._points, map(int, numbers), numbers.size)
        try:
            yield from spread
        finally:
            outcome.failed = tuple(spread.failed[number] for number in sorted(spread.failed))
            outcome.num_again += spread.num_again

    def _result(self, so_far: _SoFar, outcome: _Outcome) -> SweepResult:
        ask = self.chunk.ask
        return SweepResult(
            ask.quantity,
            self.grid,
            so_far.values.reshape(self.grid.shape),
            self.bound,
            so_far.num_done,
            ask.target,
            None if so_far.num_done == self.grid.size else so_far.answered,
            self.settings,
            outcome.num_again,
        )


@dataclasses.dataclass
class _Outcome:
    """The chunks that failed permanently on an executor, and how many were sent again."""

    failed: tuple[FailedChunk, ...] = ()
    num_again: int = 0


class _SoFar:
    """The answers so far, and how many of them are in the file."""

    def __init__(self, run: SweepRun):
        self._run = run
        size = run.grid.size
        self.values = np.full(size, 0.0 if run.bound is Bound.LOWER else run.chunk.ask.worst)
        self.answered = np.zeros(size, bool)
        self.num_done = 0
        self._saved = 0  # rows in the file, from the first on
        self._new: list[int] = []  # chunks that are in neither file

    def open(self, file: SweepFile | None, *, resume: bool) -> SweepFile | None:
        """The file, which is made or read; None for processes that do not write."""
        if file is None:
            return None
        found, later = (file.read(), file.read_later()) if resume else (None, {})
        if found is not None:
            self.values[: found.size], self.answered[: found.size] = found, True
            self._saved = self.num_done = found.size
            later = {number: values for number, values in later.items() if not self.answered[self._slice(number)][0]}
            for number, values in later.items():
                self._put(number, values)
        writer = self._writer(file)
        if writer is not None:
            writer.begin(found, later if found is not None else {}, resume=resume)
        return writer

    def _writer(self, file: SweepFile) -> SweepFile | None:
        """The file, for the one process that writes, once all processes have read it."""
        if not self._run.is_shared or jax.process_count() == 1:
            return file
        from jax.experimental.multihost_utils import sync_global_devices

        sync_global_devices("jaxacct sweep: the file was read")
        return file if jax.process_index() == 0 else None

    def missing(self) -> NDArray[Any]:
        """The numbers of the chunks that are not done."""
        return np.flatnonzero(~self.answered[:: self._run.chunk_size])

    def take_in(self, number: int, values: NDArray[Any]) -> None:
        """Takes in the answers of a chunk."""
        self._put(number, values)
        self._new.append(number)

    def _put(self, number: int, values: NDArray[Any]) -> None:
        at = self._slice(number)
        self.values[at], self.answered[at] = values, True
        self.num_done += values.size

    def _slice(self, number: int) -> slice:
        size = self._run.chunk_size
        return slice(number * size, min((number + 1) * size, self._run.grid.size))

    def save(self, file: SweepFile) -> None:
        """Appends to the file the rows that continue it, and to the second file the chunks that do not."""
        front = self._saved
        while front < self._run.grid.size and self.answered[front]:
            front = min(front + self._run.chunk_size, self._run.grid.size)
        if front > self._saved:
            file.append(self._saved, self.values[self._saved : front])
            self._saved = front
        ahead = [number for number in self._new if number * self._run.chunk_size >= front]
        if ahead:
            file.keep({number: self.values[self._slice(number)] for number in ahead})
        self._new = []
        if front == self._run.grid.size:
            file.finish()


def _worth_it(here: float, cores_used: float) -> Workers | None:
    """Processes of this machine for the work that is left, or None if they would save little.

    The work takes `here` seconds in this process, which uses `cores_used` cores.
    """
    number = min(num_cores(), _MOST_PROCESSES)
    there = _START + here * max(1.0, cores_used) / number
    is_alone = multiprocessing.current_process().daemon or jax.process_count() > 1 or jax.default_backend() != "cpu"
    if number < 2 or is_alone or there > _GAIN * here:
        return None
    return workers_of(number)


def _can_be_sent(chunk: Chunk) -> bool:
    """Whether processes that do not run the user's script can unpickle a chunk's question."""
    import pickle

    try:
        return b"__main__" not in pickle.dumps(chunk)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
