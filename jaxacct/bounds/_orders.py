"""Grids of Renyi orders at which methods are tried."""

import numpy as np

WHOLE = {top: tuple(float(a) for a in range(2, top + 1)) for top in (64, 256, 1024, 2048)}
# the tenths to 10.9, as other accountants have them, and closer together towards 1
FRACTIONAL = (*(1.0 + np.geomspace(0.02, 0.9, 24)).tolist(), *(1.0 + i / 10 for i in range(1, 100)))
LOW = tuple(np.linspace(1.02, 1.98, 25).tolist())
BETWEEN = (*LOW, *(n + i / 8 for n in range(2, 9) for i in range(1, 8)))
SPARSE = {
    64: tuple((1.0 + np.geomspace(0.05, 64.0, 48)).tolist()),
    256: tuple((1.0 + np.geomspace(0.05, 256.0, 56)).tolist()),
    1024: tuple((1.0 + np.geomspace(0.05, 1024.0, 64)).tolist()),
}
# small epsilons of many reports are met at large orders
OF_REPORTS = tuple(tuple((1.0 + np.geomspace(0.05, top, size)).tolist()) for top, size in ((512.0, 72), (65536.0, 110)))


def mixed(top: int) -> tuple[float, ...]:
    """Every whole order up to `top`, and fractional ones to 10.9."""
    return tuple(sorted({*FRACTIONAL, *WHOLE[top]}))


MIXED = tuple(mixed(top) for top in (64, 256, 1024))
