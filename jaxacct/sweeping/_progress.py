"""The progress of a sweep."""

import sys
import time
from collections.abc import Callable
from typing import Any

_INTERVAL = 1.0  # seconds between lines


class Progress:
    """Reports how many points are done: by tqdm if it is installed, else on standard error, or by calling a function.

    Args:
      wanted: whether to report, or a function ``(done, total) -> None``.
      total: the number of points.
    """

    def __init__(self, wanted: bool | Callable[[int, int], Any], total: int):
        self._total = total
        self._call = wanted if callable(wanted) else (_bar(total) or _lines()) if wanted else None

    def __call__(self, done: int) -> None:
        if self._call is not None:
            self._call(done, self._total)


def _bar(total: int) -> Callable[[int, int], Any] | None:
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return None
    bar = tqdm(total=total, unit="point")

    def show(done: int, _: int) -> None:
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show


def _lines() -> Callable[[int, int], Any]:
    last = [-_INTERVAL]

    def show(done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - last[0] >= _INTERVAL:
            last[0] = now
            print(f"sweep: {done} of {total} points", file=sys.stderr, flush=True)

    return show
