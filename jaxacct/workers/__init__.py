"""Runs chunks of work on other processes: any `concurrent.futures.Executor`, or processes of this machine."""

from jaxacct.workers._local import num_cores, one_thread, processes
from jaxacct.workers._spread import FailedChunk, Spread, gathered
from jaxacct.workers._workers import Workers, workers_of

__all__ = ["FailedChunk", "Spread", "Workers", "gathered", "num_cores", "one_thread", "processes", "workers_of"]
