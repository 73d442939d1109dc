"""One question at every point of a grid."""

import contextlib
import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxacct._precision import lanes_over, one_program
from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct._validate import check_count, checked_choice, checked_number
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.sweeping._file import SweepFile, check_folder
from jaxacct.sweeping._progress import Progress
from jaxacct.sweeping._question import Question, question
from jaxacct.sweeping._result import Grid, Layout, SweepInterrupted, SweepResult, check_parquet

# points in a chunk: where one program answers them all, on the CPU (seconds at most) and elsewhere, and where each is
# answered by itself
_LANES, _LANES_ELSEWHERE, _POINTS = 128, 1024, 1
_PAUSE = 1.0  # seconds after which a file is given the rows that are done

__all__ = ["Layout", "SweepInterrupted", "SweepResult", "check_folder", "check_parquet", "sweep"]


def sweep(
    mechanism: Mechanism,
    grid: Mapping[str, Any],
    *,
    target_delta: float | None = None,
    target_epsilon: float | None = None,
    method: str | None = None,
    direction: Direction | str | None = None,
    precision: float | None = None,
    orders: Any = None,
    neighboring_relation: NeighboringRelation | str | None = None,
    layout: Layout | str = Layout.PRODUCT,
    chunk_size: int | None = None,
    mesh: jax.sharding.Mesh | None = None,
    progress: bool | Callable[[int, int], Any] = False,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> SweepResult:
    """`jaxacct.epsilon` (or `jaxacct.delta`) at every point of a grid, in chunks, saved as it goes.

    Chunks have one size, so every program is compiled once; a chunk takes at most 64 MiB of working memory on each
    device, the rest of a sweep 8 bytes for each point and axis.

    Args:
      mechanism: a mechanism with scalar fields. What it holds for the fields in `grid` is ignored: None will do.
      grid: field name -> one-dimensional array. Names as in `jaxacct.calibrate`; "target_delta" or "target_epsilon"
        sweeps the target.
      target_delta: float in (0, 1), for epsilons; or
      target_epsilon: float >= 0, for deltas.
      method, direction, precision: as for `jaxacct.epsilon`.
      orders: Renyi orders, to answer by `jaxacct.rdp` at these instead: one program, no other method.
      neighboring_relation: as for `jaxacct.epsilon`.
      layout: "product": every combination is a point; "zipped": the arrays are of one length and go side by side.
      chunk_size: points in one chunk; None for 128 on the CPU and 1024 elsewhere, or 1 where each is answered by
        itself, on the host; these are saved every second, chunks of a given size each when it is done.
      mesh: devices over which the lanes of each chunk are spread, also of several processes (`jax.distributed`; every
        process makes the same call, process 0 writes).
      progress: True for a tqdm bar, or lines on standard error without tqdm; or a function of (done, total).
      out: path of a file of comma-separated values, written as chunks are done, below one line of settings.
      resume: whether to continue the sweep in `out`, if it is there. The outcome is the same to the last bit.

    Returns:
      A `SweepResult`.

    Raises:
      ValueError: if an argument is out of range, a name unknown or ambiguous, or `out` exists (without `resume`) or
        holds another sweep (with it).
      SweepInterrupted: a KeyboardInterrupt that holds the part that is done.

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
    together: Layout = checked_choice("layout", layout, *Layout)
    points = grid_of(grid, together)
    targets = {"target_delta": target_delta, "target_epsilon": target_epsilon}
    ask = question(in_relation(mechanism, neighboring_relation), points, targets, method, direction, precision, orders)
    first = points.points(0, min(points.size, _LANES_ELSEWHERE))
    on_lanes = ask.is_on_lanes(first)
    size = chunk_size if chunk_size is not None else _lanes(mesh) if on_lanes else _POINTS
    for start in range(0, points.size, _LANES_ELSEWHERE):  # before anything is computed
        ask.at(points.points(start, min(start + _LANES_ELSEWHERE, points.size)))
    file = None
    if out is not None:
        check_folder("out", out)
        axes = {
            n: [x.shape[0], hashlib.sha256(x.astype(np.float64).tobytes()).hexdigest()] for n, x in points.axes.items()
        }
        settings = {**ask.settings(), "grid": axes, "layout": together.value, "chunk_size": size}
        file = SweepFile(out, settings, points, ask.query.value, size)
    with _over(mesh), one_program() if out is not None else contextlib.nullcontext():
        pause = _PAUSE if chunk_size is None else 0.0
        run = _Run(ask, points, min(size, points.size), filled=on_lanes, shared=mesh is not None, pause=pause)
        return run(Progress(progress, points.size), file, resume=resume)


def grid_of(grid: Any, layout: Layout, labels: Mapping[str, str] | None = None) -> Grid:
    """The checked points of `grid`; those of a `Grid` as they are."""
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
        raise ValueError(f"grid has axes of lengths {lengths}: side by side they must be equal")
    return Grid(axes, layout, labels or {})


def _lanes(mesh: jax.sharding.Mesh | None) -> int:
    return _LANES if mesh is None and jax.default_backend() == "cpu" else _LANES_ELSEWHERE


def _over(mesh: jax.sharding.Mesh | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if mesh is None else lanes_over(mesh)


@dataclasses.dataclass(frozen=True)
class _Run:
    """The loop over chunks.

    Attributes:
      filled: whether the last chunk is filled up with its last point, as another size would be another program.
      shared: whether several processes may take part.
      pause: seconds after which a file is given the rows that are done.
    """

    ask: Question
    grid: Grid
    chunk_size: int
    filled: bool
    shared: bool
    pause: float

    def __call__(self, progress: Progress, file: SweepFile | None, *, resume: bool) -> SweepResult:
        bound = self.ask.bound(self.grid.points(0, 1))
        values = np.full(self.grid.size, self.ask.query.worst if bound is Bound.UPPER else 0.0)
        done = 0
        if file is not None:
            found = file.read() if resume else None
            done = 0 if found is None else found.size
            values[:done] = found if found is not None else 0.0
            file = self._writer(file)
            if file is not None:
                file.begin(found, resume=resume)
        saved, last = done, time.monotonic()
        try:
            while done < self.grid.size:
                progress(done)
                new = self._chunk(done)
                values[done : done + new.size] = new
                done += new.size
                if file is not None and (done == self.grid.size or time.monotonic() - last >= self.pause):
                    start, saved = saved, done
                    file.append(start, values[start:done])
                    last = time.monotonic()
        except KeyboardInterrupt:
            if file is not None and saved < done:
                file.append(saved, values[saved:done])
            raise SweepInterrupted(self._result(values, bound, done)) from None
        progress(done)
        return self._result(values, bound, done)

    def _chunk(self, start: int) -> np.ndarray:
        stop = min(start + self.chunk_size, self.grid.size)
        numbers = np.arange(start, start + self.chunk_size if self.filled else stop)
        return self.ask(self.grid.at(np.minimum(numbers, stop - 1)))[: stop - start]

    def _writer(self, file: SweepFile) -> SweepFile | None:
        """The file, for the one process that writes; none writes before all have read."""
        if not self.shared or jax.process_count() == 1:
            return file
        from jax.experimental.multihost_utils import sync_global_devices

        sync_global_devices("jaxacct sweep: the file was read")
        return file if jax.process_index() == 0 else None

    def _result(self, values: np.ndarray, bound: Bound, done: int) -> SweepResult:
        return SweepResult(
            self.ask.query.value, self.grid, values.reshape(self.grid.shape), bound, done, self.ask.target
        )
