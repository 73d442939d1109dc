"""Shuffling: epsilon of the clones pair at delta = 1e-6, both bounds; a new local epsilon on each call."""

import math

from harness import Case

DELTA = 1e-6
NUM_REPORTS = 10**6


def local_epsilon(i: int) -> float:
    return 1.0 + 1e-4 * i


def sweep(i: int) -> tuple[list[float], list[float]]:
    """100 numbers of reports from 1e3 to 1e7 with as many local epsilons."""
    reports = [float(round(10 ** (3 + 4 * (j // 10) / 9))) for j in range(100)]
    return reports, [0.25 + 3.75 * (j % 10) / 9 + 1e-4 * i for j in range(100)]


def _kernel():
    from jaxacct._precision import Kernel, Rounding
    from jaxacct.divergence.clones._profile import clones_epsilon, lane_bytes

    return Kernel(clones_epsilon, (Rounding.DOWN, Rounding.UP), lane_bytes=lane_bytes)


def ours(max_window: int):
    from jaxacct.divergence.clones._profile import window_for

    kernel = _kernel()
    window = window_for(NUM_REPORTS, math.exp(-local_epsilon(0)), max_window=max_window)

    def call(i: int) -> list[float]:
        local = local_epsilon(i)
        ends = kernel(math.log(DELTA), float(NUM_REPORTS), math.exp(-local), local, window=window)
        return [float(end) for end in ends]

    return call


def our_sweep():
    import numpy as np

    kernel = _kernel()

    def call(i: int) -> float:
        reports, local = (np.array(x) for x in sweep(i))
        return float(kernel(math.log(DELTA), reports, np.exp(-local), local, window=512).upper[-1])

    return call


def scipy_sum():
    from numpy_clones import scipy_epsilon

    return lambda i: scipy_epsilon(NUM_REPORTS, local_epsilon(i), DELTA)


def numpy_sum():
    from numpy_clones import numpy_epsilon

    return lambda i: numpy_epsilon(NUM_REPORTS, local_epsilon(i), DELTA)


def numpy_sweep():
    from numpy_clones import numpy_epsilon

    return lambda i: [numpy_epsilon(int(n), x, DELTA)[1] for n, x in zip(*sweep(i), strict=True)][-1]


_SCIPY, _NUMPY = "SciPy, exact sum, 50 halvings", "NumPy, recurrences, secant steps"
CASES = [
    Case("clones-eps scipy", lambda: ours(4096), _SCIPY, scipy_sum, 50, calls=(40, 0)),
    Case("clones-eps numpy", lambda: ours(4096), _NUMPY, numpy_sum, 3, calls=(40, 10)),
    # the same question with every count summed: a bracket of 4e-13 instead of 1e-9
    Case("clones-eps-every-count numpy", lambda: ours(2**14), _NUMPY, numpy_sum, None, calls=(40, 10)),
    Case("clones-sweep-100 numpy", our_sweep, _NUMPY, numpy_sweep, 5, calls=(3, 1), warm_up=2),
]
