"""Worker processes on this machine: spawned, not forked after JAX, one thread each; they end with the head process."""

import concurrent.futures
import multiprocessing
import multiprocessing.context
import multiprocessing.process
import os
import signal
import sys
import threading
import types
from typing import Any

_ONE = {  # environment variables that NumPy's libraries and XLA read at first use
    **dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
_PATIENCE = 2.0  # seconds in which a pool should notice that its processes were killed
_XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"


def num_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_thread() -> None:
    """Limits XLA on the CPU and NumPy to one thread in this process: use it as the initializer of a pool's workers.

    Call it before the process first computes with JAX; afterwards it has no effect. Results do not depend on the number
    of threads, only the running time does: if there are as many workers as cores, and each has a thread for each core,
    they compete.

    >>> from concurrent.futures import ProcessPoolExecutor
    >>> from multiprocessing import get_context
    >>> from jaxacct.sweeping import one_thread
    >>> with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=one_thread) as executor:
    ...     pass  # ja.sweep(.., executor=executor)
    """
    os.environ.update(_ONE)
    flags = os.environ.get("XLA_FLAGS", "")
    if _XLA_FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_XLA_FLAG}".strip()


def processes(number: int) -> concurrent.futures.ProcessPoolExecutor:
    """A pool of `number` processes on this machine, with one thread each.

    Unlike other spawned processes they do not run the user's script again, so that it needs no `__main__` guard. Ctrl-C
    is handled by the head process, and they end when it does.
    """
    return concurrent.futures.ProcessPoolExecutor(number, mp_context=_Context(), initializer=_begin)


def end_now(executor: Any) -> None:
    """Ends an executor without waiting for what it runs; processes of this machine are killed."""
    every = list((getattr(executor, "_processes", None) or {}).values())
    manager = getattr(executor, "_executor_manager_thread", None)
    for process in every:
        process.kill()
    executor.shutdown(wait=False, cancel_futures=True)
    if manager is not None:  # it releases the pool's system resources
        manager.join(_PATIENCE)


def _begin() -> None:
    one_thread()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes
    threading.Thread(target=_end_with_the_head, daemon=True).start()


def _end_with_the_head() -> None:
    """Ends this process when its head process ends: otherwise it would wait for its next task forever."""
    head = multiprocessing.process.parent_process()
    if head is not None:
        head.join()
        os._exit(1)


class _Process(multiprocessing.context.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802  (the name that multiprocessing asks for)
        # a spawned process runs the file of `__main__` again, to find what it defines: chunks need nothing of it
        main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
        try:
            return multiprocessing.context.SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class _Context(multiprocessing.context.SpawnContext):
    Process = _Process
