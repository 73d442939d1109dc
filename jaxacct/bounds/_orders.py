"""Grids of Renyi orders at which methods are tried.

Every order gives a valid bound, so these numbers steer tightness and running time only. An order is a number above 1
without a unit. Where a name stands for several grids, the next larger grid is tried if the best order is the last of
the smaller one.
"""

import numpy as np

# every whole order up to the key
WHOLE = {top: tuple(float(a) for a in range(2, top + 1)) for top in (64, 256, 1024, 2048)}
# tenths up to 10.9, as in other accountants, and orders closer together towards 1
FRACTIONAL = (*(1.0 + np.geomspace(0.02, 0.9, 24)).tolist(), *(1.0 + i / 10 for i in range(1, 100)))
# 25 orders between 1 and 2
LOW = tuple(np.linspace(1.02, 1.98, 25).tolist())
# the same, and the eighths between the whole orders from 2 to 9
BETWEEN = (*LOW, *(n + i / 8 for n in range(2, 9) for i in range(1, 8)))
# real orders up to the key, evenly spaced in log(order - 1), for kernels whose cost grows with the number of orders
SPARSE = {
    64: tuple((1.0 + np.geomspace(0.05, 64.0, 48)).tolist()),
    256: tuple((1.0 + np.geomspace(0.05, 256.0, 56)).tolist()),
    1024: tuple((1.0 + np.geomspace(0.05, 1024.0, 64)).tolist()),
}
# for shuffled reports: with many reports, small epsilons have large best orders
OF_REPORTS = tuple(tuple((1.0 + np.geomspace(0.05, top, size)).tolist()) for top, size in ((512.0, 72), (65536.0, 110)))


def mixed(top: int) -> tuple[float, ...]:
    """A tuple of floats, ascending: every whole order up to `top`, and fractional ones up to 10.9."""
    return tuple(sorted({*FRACTIONAL, *WHOLE[top]}))


# the grids of most Renyi methods
MIXED = tuple(mixed(top) for top in (64, 256, 1024))
