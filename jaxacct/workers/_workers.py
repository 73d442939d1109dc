"""Where chunks are computed: an executor, and how it is used."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from jaxacct.workers._local import processes


@dataclasses.dataclass(frozen=True)
class Workers:
    """An executor, and how work is sent to it.

    Chunks are sent in tasks: as many chunks in one task as take about `task_seconds`; this changes no answer. If the
    worker of a task dies, or the task raises an error or is not back after `timeout`, its chunks are sent again, one by
    one; the first answer counts. If the failure before the last attempt broke a pool of processes, the chunk is sent
    alone that time.

    Attributes:
      executor: a `concurrent.futures.Executor`, or any object with its `submit`; or a function without arguments that
        makes one: it is called again when a pool of processes breaks, and what it made is ended with the sweep. A pool
        that was given ready-made and breaks is replaced by processes of this machine, with a warning.
      num_workers: the number of workers; None asks the executor (of `concurrent.futures`, mpi4py, Dask, loky), or takes
        64 if it cannot say.
      task_seconds: seconds of work in one task: choose more if a task is expensive to start, like a job in a cluster's
        queue.
      timeout: seconds from sending a task, of which two are sent ahead to every worker, until it is sent again; None
        waits forever.
      attempts: how many times a chunk is sent before it has failed permanently.

    Raises:
      ValueError: if `executor` is not an executor, or a number is out of range.

    >>> from jaxacct.sweeping import Workers
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> Workers(lambda: ThreadPoolExecutor(2), timeout=600.0).attempts
    3
    """

    executor: Any
    num_workers: int | None = None
    task_seconds: float = 1.0
    timeout: float | None = None
    attempts: int = 3

    def __post_init__(self) -> None:
        if not (hasattr(self.executor, "submit") or callable(self.executor)):
            raise ValueError(
                f"executor={self.executor!r} must be a concurrent.futures.Executor, a function that makes one, "
                "a number of processes, or None"
            )
        for name in ("num_workers", "attempts"):
            value = getattr(self, name)
            is_open = name == "num_workers" and value is None
            if not is_open and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{name}={value!r} must be a whole number >= 1")
        for name in ("task_seconds", "timeout"):
            value = getattr(self, name)
            is_open = name == "timeout" and value is None
            if not is_open and (not isinstance(value, int | float) or not value > 0):
                raise ValueError(f"{name}={value!r} must be a number of seconds > 0")

    @property
    def make(self) -> Callable[[], Any] | None:
        """The function that makes the executor; None if it was given ready-made."""
        return None if hasattr(self.executor, "submit") else self.executor


def workers_of(executor: Any) -> Workers | None:
    """The workers that are meant by an argument `executor`; None for this process alone.

    Raises:
      ValueError: if it is not a valid executor.
    """
    if executor is None or isinstance(executor, Workers):
        return executor
    if isinstance(executor, int) and not isinstance(executor, bool):
        if executor < 1:
            raise ValueError(f"executor={executor} must be a number of processes >= 1, or an executor")
        return None if executor == 1 else Workers(functools.partial(processes, executor), num_workers=executor)
    return Workers(executor)
