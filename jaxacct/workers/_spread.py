"""The loop that sends chunks to an executor, and makes sure that the answer to each comes back."""

import collections
import contextlib
import dataclasses
import functools
import importlib.metadata
import itertools
import pickle
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any, NamedTuple

from jaxacct._version import __version__
from jaxacct.workers._local import end_now, num_cores, processes
from jaxacct.workers._workers import Workers

_UNKNOWN_WORKERS = 64  # where an executor does not say how many it has
_AHEAD = 2  # tasks sent for each worker: one that runs, one that waits
_MOST_CHUNKS = 4096  # in a task
_TICK = 0.5  # seconds after which the loop checks on tasks although nothing came back
_COUNT_AGAIN = 5.0  # seconds after which workers are counted again: a cluster grows
_GIVE_UP = 100  # permanently failed chunks: with so many, and more than came back, the sweep stops
_PACKAGES = ("jax", "jaxlib", "numpy")  # whose versions workers must share, besides our own


class FailedChunk(NamedTuple):
    """A chunk that failed permanently: its `number`, how many times it was sent (`attempts`), and the last `error`.

    >>> from jaxacct.sweeping import FailedChunk
    >>> FailedChunk(number=3, attempts=3, error="MemoryError: ").number
    3
    """

    number: int
    attempts: int
    error: str


class Back(NamedTuple):
    """What a task returns: the answer of each chunk or None, an error of each or "", warnings, and seconds."""

    answers: list[Any]
    errors: list[str]
    warnings: list[Warning]
    seconds: float


@functools.cache
def versions() -> tuple[str, ...]:
    """name==version of each package that, besides the processor, decides the last bits of an answer."""
    found = [f"jaxacct=={__version__}"]
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name}=={importlib.metadata.version(name)}")
    return tuple(found)


@functools.lru_cache(maxsize=4)
def _loaded(call: bytes) -> Callable[[Any], Any]:
    return pickle.loads(call)


def run_task(call: bytes, chunks: list[Any], wanted: tuple[str, ...]) -> Back:
    """The answers of some chunks, on a worker: each is computed by itself, even if others fail."""
    if versions() != wanted:
        raise RuntimeError(f"this worker has {', '.join(versions())}; the sweep was begun with {', '.join(wanted)}")
    ask, answers, errors, begun = _loaded(call), [], [], time.perf_counter()
    is_main = threading.current_thread() is threading.main_thread()  # only the main thread may catch warnings
    with warnings.catch_warnings(record=True) if is_main else contextlib.nullcontext([]) as caught:
        for chunk in chunks:
            answer, error = None, ""
            try:
                answer = ask(chunk)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
            answers.append(answer)
            errors.append(error)
    said = {(type(said), str(said)): said for said in (x.message for x in caught or ()) if isinstance(said, Warning)}
    return Back(answers, errors, list(said.values()), time.perf_counter() - begun)


@dataclasses.dataclass
class _Task:
    numbers: list[int]
    future: Any
    sent: float
    is_alone: bool = False


class Spread:
    """Chunks answered by workers, in the order in which they come back.

    Iterating gives (number, answer) once for each chunk that came back, and None if none did for a while. Afterwards
    `failed` lists the chunks that failed permanently, and `num_again` counts those that were sent again.

    Args:
      workers: the `Workers` that compute them.
      call: ``(chunk) -> answer``, a pure function that can be pickled.
      chunk_at: the chunk with a given number.
      numbers: the numbers of the chunks.
      size: the number of chunks.
    """

    def __init__(
        self,
        workers: Workers,
        call: Callable[[Any], Any],
        chunk_at: Callable[[int], Any],
        numbers: Iterable[int],
        size: int,
    ):
        self._workers, self._chunk_at, self._fresh, self._left = workers, chunk_at, iter(numbers), size
        try:
            self._call = pickle.dumps(call)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(f"executor={workers.executor!r} cannot be sent what is asked: {error}") from error
        self.failed: dict[int, FailedChunk] = {}
        self.num_again = 0
        self._num_done = 0
        self._open: set[int] = set()  # sent, and not back
        self._again: collections.deque[int] = collections.deque()
        self._alone: collections.deque[int] = collections.deque()  # no other task runs beside such a chunk
        self._tries: collections.Counter[int] = collections.Counter()
        self._tasks: dict[int, _Task] = {}  # being waited for
        self._late: dict[int, _Task] = {}  # whose chunks were sent again: they may still come back
        self._names = itertools.count()
        self._back: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._seconds = 0.0  # recent time of a chunk; 0 if none has come back
        self._said: set[type[Warning]] = set()
        self._width, self._counted = 0, 0.0
        self._executor: Any = None
        self._is_owned = False
        self._num_idle_breaks = 0

    def __iter__(self) -> Iterator[tuple[int, Any] | None]:
        make = self._workers.make
        self._executor, self._is_owned = (self._workers.executor, False) if make is None else (make(), True)
        try:
            yield from self._loop()
        finally:
            for task in (*self._tasks.values(), *self._late.values()):
                task.future.cancel()
            if self._is_owned:
                end_now(self._executor)
            self._executor = None  # this frees its system resources

    def _loop(self) -> Iterator[tuple[int, Any] | None]:
        looked = time.monotonic()
        while True:
            self._send()
            if not self._tasks:
                return
            try:
                name = self._back.get(timeout=_TICK)
            except queue.Empty:
                yield None
            else:
                task = self._tasks.pop(name, None) or self._late.pop(name, None)
                if task is not None:
                    yield from self._taken_in(task)
            if time.monotonic() - looked >= _TICK:
                looked = time.monotonic()
                self._look_after()

    # Sending

    def _send(self) -> None:
        while not self._is_hopeless():
            if any(task.is_alone for task in self._tasks.values()):
                return
            if self._alone and not self._again:
                if not self._tasks:
                    self._submit([self._alone.popleft()], is_alone=True)
                return
            if len(self._tasks) >= _AHEAD * self._num_workers():
                return
            while self._again and self._again[0] not in self._open:  # a late task has answered it
                self._again.popleft()
            numbers = (
                [self._again.popleft()] if self._again else list(itertools.islice(self._fresh, self._num_chunks()))
            )
            if not numbers:
                return
            self._left -= 0 if numbers[0] in self._open else len(numbers)
            self._submit(numbers)

    def _num_chunks(self) -> int:
        """How many chunks go into the next task."""
        if self._seconds <= 0.0:
            return 1
        fair = max(1, self._left // (_AHEAD * self._num_workers()))
        return max(1, min(int(self._workers.task_seconds / self._seconds), fair, _MOST_CHUNKS))

    def _submit(self, numbers: list[int], *, is_alone: bool = False) -> None:
        self._open.update(numbers)
        chunks = [self._chunk_at(number) for number in numbers]
        try:
            future = self._executor.submit(run_task, self._call, chunks, versions())
        except (BrokenExecutor, RuntimeError) as error:  # broken meanwhile, or closed
            self._num_idle_breaks += 1
            if self._num_idle_breaks > self._workers.attempts:
                raise
            self._again.extend(numbers)
            self._replace(error)
            return
        name = next(self._names)
        self._tasks[name] = _Task(numbers, future, time.monotonic(), is_alone)
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(lambda _: self._back.put(name))

    def _num_workers(self) -> int:
        if self._workers.num_workers is not None:
            return self._workers.num_workers
        if not self._width or time.monotonic() - self._counted > _COUNT_AGAIN:
            self._width, self._counted = max(1, num_workers_of(self._executor) or _UNKNOWN_WORKERS), time.monotonic()
        return self._width

    # Receiving

    def _taken_in(self, task: _Task) -> Iterator[tuple[int, Any]]:
        try:
            error = task.future.exception()
        except Exception as raised:  # it was cancelled; each engine has its own error for that
            error = raised
        if error is not None:
            is_broken = isinstance(error, BrokenExecutor)
            self._fail(task, error, broke=is_broken)
            if is_broken:
                self._replace(error)
            return
        back = task.future.result()
        self._num_idle_breaks = 0
        for warning in back.warnings:
            if type(warning) not in self._said:
                self._said.add(type(warning))
                warning.args = (f"{warning} (at some points)",)
                warnings.warn(warning, stacklevel=5)
        new = back.seconds / max(1, len(task.numbers))
        self._seconds = new if not self._seconds else 0.5 * (self._seconds + new)
        for number, answer, error in zip(task.numbers, back.answers, back.errors, strict=True):
            if number not in self._open:
                continue  # it came back twice
            if error:
                self._fail(dataclasses.replace(task, numbers=[number]), error)
                continue
            self._open.remove(number)
            self.failed.pop(number, None)
            self._tries.pop(number, None)
            self._num_done += 1
            yield number, answer

    def _fail(self, task: _Task, error: object, *, broke: bool = False) -> None:
        """Queues the chunks of a failed task to be sent again, or lists them as failed."""
        shown = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        for number in task.numbers:
            if number not in self._open:
                continue
            self._tries[number] += 1
            tries = self._tries[number]
            if tries >= self._workers.attempts:
                self.failed[number] = FailedChunk(number, tries, shown)
                continue
            self.num_again += 1
            is_last = broke and tries == self._workers.attempts - 1
            (self._alone if is_last else self._again).append(number)

    def _replace(self, error: BaseException) -> None:
        """Replaces an executor that broke; the tasks that it held are lost."""
        for task in self._tasks.values():
            self._fail(task, error, broke=True)
        self._tasks.clear()
        self._late.clear()
        if self._is_owned:
            end_now(self._executor)
        make = self._workers.make
        if make is not None:
            self._executor = make()
            return
        number = min(self._num_workers(), num_cores())
        if not self._is_owned:
            warnings.warn(
                f"executor={self._workers.executor!r} is broken ({error}): {number} processes of this machine "
                "take its place. A function that makes an executor would be called again instead",
                RuntimeWarning,
                stacklevel=6,
            )
        self._executor, self._is_owned = processes(number), True

    def _look_after(self) -> None:
        """Finds tasks that are late, and those that are done without having reported it."""
        now, timeout = time.monotonic(), self._workers.timeout
        for name, task in list(self._tasks.items()):
            if not hasattr(task.future, "add_done_callback") and task.future.done():
                self._back.put(name)
            elif timeout is not None and now - task.sent > timeout:
                del self._tasks[name]
                if not task.future.cancel():
                    self._late[name] = task
                self._fail(task, f"not back after {timeout:g} s")
        for name, task in self._late.items():
            if not hasattr(task.future, "add_done_callback") and task.future.done():
                self._back.put(name)

    def _is_hopeless(self) -> bool:
        return len(self.failed) >= _GIVE_UP and len(self.failed) > self._num_done


def gathered(workers: Workers, call: Callable[[Any], Any], chunks: Sequence[Any]) -> list[Any]:
    """The answers of some chunks, in their order: a list.

    Raises:
      RuntimeError: if some failed permanently; it says how many, and why the first did.
    """
    spread = Spread(workers, call, chunks.__getitem__, range(len(chunks)), len(chunks))
    found = dict(back for back in spread if back is not None)
    if spread.failed:
        first = spread.failed[min(spread.failed)]
        raise RuntimeError(
            f"{len(spread.failed)} of {len(chunks)} chunks failed for good; the first, number {first.number}, after "
            f"{first.attempts} attempts: {first.error}"
        )
    return [found[number] for number in range(len(chunks))]


def num_workers_of(executor: Any) -> int | None:
    """How many workers an executor has; None if it does not say."""
    client = getattr(executor, "_client", None)  # Dask's
    if client is not None and hasattr(client, "nthreads"):
        return sum(client.nthreads().values())
    for name in ("num_workers", "_max_workers"):  # mpi4py's; those of `concurrent.futures`, and loky's
        number = getattr(executor, name, None)
        if isinstance(number, int):
            return number
    return None
