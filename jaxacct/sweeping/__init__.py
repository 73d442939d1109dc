"""Sweeps: epsilon, delta or a measure at every point of a grid."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxacct._jax import jax
from jaxacct._precision._devices import lanes_over
from jaxacct._types import Direction, NeighboringRelation
from jaxacct._validate import check_count, checked_choice, checked_number
from jaxacct.measures import Measure
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.sweeping._file import SweepFile, check_folder
from jaxacct.sweeping._grid import Grid, Layout, column_of, grid_settings
from jaxacct.sweeping._measured import measured
from jaxacct.sweeping._progress import Progress
from jaxacct.sweeping._question import question
from jaxacct.sweeping._result import SweepFailedError, SweepInterrupted, SweepResult
from jaxacct.sweeping._run import Chunk, SweepRun
from jaxacct.sweeping._tables import needed
from jaxacct.workers import FailedChunk, Workers, one_thread, workers_of

# points in a chunk where one program computes them all, on the CPU (seconds at most) and elsewhere
_LANES, _LANES_ELSEWHERE = 128, 1024
_PAUSE = 1.0  # seconds after which the rows that are done are written to the file
_MANY = 256  # points from which programs are compiled for speed

__all__ = [
    "FailedChunk",
    "Layout",
    "SweepFailedError",
    "SweepInterrupted",
    "SweepResult",
    "Workers",
    "check_folder",
    "needed",
    "one_thread",
    "sweep",
]


def sweep(
    mechanism: Mechanism,
    grid: Mapping[str, Any],
    *,
    target_delta: float | None = None,
    target_epsilon: float | None = None,
    measure: Measure | None = None,
    method: str | None = None,
    direction: Direction | str | None = None,
    precision: float | None = None,
    orders: Any = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    layout: Layout | str = Layout.PRODUCT,
    chunk_size: int | None = None,
    mesh: jax.sharding.Mesh | None = None,
    executor: Any = None,
    progress: bool | Callable[[int, int], Any] = False,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> SweepResult:
    """`jaxacct.epsilon` (or `jaxacct.delta`, or a measure) at every point of a grid, in chunks, saved as it goes.

    All chunks have the same size, so every program is compiled once. A chunk takes at most 64 MiB of working memory (1
    GiB on an accelerator), or what one point takes; the rest of a sweep takes 8 bytes for each point and axis.

    Args:
      mechanism: a mechanism with scalar fields. Its values of the fields in `grid` are ignored and may be None.
      grid: field name -> one-dimensional array. Names are as in `jaxacct.calibrate`; "target_delta" or "target_epsilon"
        sweeps the target.
      target_delta: float in (0, 1), to compute epsilons; or
      target_epsilon: float >= 0, to compute deltas; or
      measure: a measure of `jaxacct.measures`, to compute its values, without a target, method, direction, precision or
        orders.
      method, direction, precision: as for `jaxacct.epsilon`.
      orders: Renyi orders, to use `jaxacct.rdp` at these orders alone: one program, and no other method.
      neighboring_relation: as for `jaxacct.epsilon`.
      layout: "product": every combination is a point; "zipped": the arrays have one length and are paired up.
      chunk_size: points in one chunk. None for 128 on the CPU and 1024 elsewhere; for methods that NumPy computes on
        the host, 128, 16 or 1, depending on how much time is saved by computing points together. Chunks of these sizes
        are saved every second; if a size is given, each chunk is saved when it is done.
      mesh: devices over which the points of each chunk are spread: one accelerator or more, also of several processes
        (`jax.distributed`; every process makes the same call, and process 0 writes). There compiled programs are used,
        as inside `jit`: without `precision` and `method`, the method "laws" if the mechanism has it, whose upper bounds
        are within 0.3 % of the certified upper bound on the host at nearly all settings.
      executor: what computes the chunks: any `concurrent.futures.Executor` (a `ProcessPoolExecutor` of spawned
        processes, Dask's ``client.get_executor()``, mpi4py's, loky's), a function that makes one, a `Workers` that also
        says how it is used, or a number of processes on this machine. None for this process and, on the CPU, a process
        for each core if the remaining points would take long. On processors of one kind, the values and the file are
        the same to the last bit whichever is used.
      progress: True for a tqdm bar, or for lines on standard error without tqdm; or a function of (done, total).
      out: path of a file of comma-separated values, which is written as chunks are done; its settings are in
        "PATH.json" beside it. Chunks that finish out of order wait in a second file beside it, "PATH.later".
      resume: whether to continue the sweep in `out`, if that file exists. The result is the same to the last bit.

    Returns:
      A `SweepResult`.

    Raises:
      ValueError: if an argument is out of range, if a name is unknown or ambiguous, or if `out` exists (without
        `resume`) or holds another sweep (with `resume`).
      SweepInterrupted: a KeyboardInterrupt that holds the part that is done.
      SweepFailedError: if chunks failed permanently on an executor; it lists them, and holds the others.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(None), num_steps=None)
    >>> found = ja.sweep(run, {"noise_multiplier": [0.8, 1.0], "num_steps": [10, 100, 1000]}, target_delta=1e-6)
    >>> found.values.shape, found.to_numpy().noise_multiplier[-1].item(), round(found.values[1, 2].item(), 4)
    ((2, 3), 1.0, 0.1717)
    """
    if chunk_size is not None:
        checked_number("chunk_size", chunk_size)
        check_count("chunk_size", chunk_size)
        chunk_size = int(chunk_size)
    workers = workers_of(executor)
    if workers is not None and mesh is not None:
        raise ValueError(f"executor={executor!r} and mesh={mesh!r}: only one of them can be given")
    together: Layout = checked_choice("layout", layout, *Layout)
    points = grid_of(grid, together)
    targets = {"target_delta": target_delta, "target_epsilon": target_epsilon}
    here = in_relation(mechanism, neighboring_relation)
    if measure is None:
        ask = question(here, points, targets, method, direction, precision, orders)
    else:
        choices = {"method": method, "direction": direction, "precision": precision, "orders": orders}
        ask = measured(here, points, measure, {**targets, **choices})
    first = points.points(0, min(points.size, _LANES_ELSEWHERE))
    with _over(mesh):
        on_lanes = ask.is_on_lanes(first)
        size = chunk_size if chunk_size is not None else _lanes(mesh) if on_lanes else ask.num_at_once(first)
    for start in range(0, points.size, _LANES_ELSEWHERE):  # before anything is computed
        ask.at(points.points(start, min(start + _LANES_ELSEWHERE, points.size)))
    bound, file = ask.bound(points.points(0, 1)), None
    settings = {**ask.settings(), **ask.axes_in_words()}
    if out is not None:
        check_folder("out", out)
        axes = {
            n: [x.shape[0], hashlib.sha256(x.astype(np.float64).tobytes()).hexdigest()] for n, x in points.axes.items()
        }
        header = {**settings, **grid_settings(points, bound), "grid": axes, "chunk_size": size}
        file = SweepFile(out, header, points, column_of(ask.quantity, bound), size)
    size = min(size, points.size)
    run = SweepRun(
        Chunk(ask, size if on_lanes else 0, on_lanes and points.size >= _MANY),
        points,
        bound,
        settings,
        size,
        is_shared=mesh is not None,
        pause=_PAUSE if chunk_size is None else 0.0,
        workers=workers,
        may_use_cores=executor is None and mesh is None,
    )
    with _over(mesh):
        return run(Progress(progress, points.size), file, resume=resume)


def grid_of(grid: Any, layout: Layout, labels: Mapping[str, str] | None = None) -> Grid:
    """The points of `grid`, checked; a `Grid` is returned as it is."""
    if isinstance(grid, Grid):
        return grid
    if not isinstance(grid, Mapping):
        raise ValueError(f"grid={grid!r} must be a mapping of field names to arrays")
    if not grid:
        raise ValueError("grid={} must name at least one field")
    axes = {}
    for name, values in grid.items():
        axes[name] = np.asarray(values)
        if axes[name].ndim != 1 or axes[name].dtype.kind not in "iuf" or axes[name].size == 0:
            raise ValueError(f"grid[{name!r}] must be a one-dimensional array of numbers, not empty")
    lengths = {name: axis.shape[0] for name, axis in axes.items()}
    if layout is Layout.ZIPPED and len(set(lengths.values())) > 1:
        raise ValueError(f"grid has axes of lengths {lengths}: their lengths must be equal")
    return Grid(axes, layout, labels or {})


def _lanes(mesh: jax.sharding.Mesh | None) -> int:
    return _LANES if mesh is None and jax.default_backend() == "cpu" else _LANES_ELSEWHERE


def _over(mesh: jax.sharding.Mesh | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if mesh is None else lanes_over(mesh)
