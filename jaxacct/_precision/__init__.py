"""The float64 boundary: the one package that turns float64 on.

A *kernel* is a plain function of float64 arrays whose last axis is a batch of independent *lanes*:
``fn(*lanes: float64[L], **static) -> float64[..., L]`` (or a pytree of such arrays). `Kernel` turns it into a function
of scalars, arrays or tracers that broadcast, which

* computes in float64 whatever the user's settings say, and never changes them;
* on Python or NumPy numbers runs the compiled program, in chunks of bounded memory, and returns NumPy float64, also
  while the user's own function is being traced;
* on tracers returns tracers of the user's float type, rounded towards the safe side, correct under ``jit``, ``vmap``,
  ``grad``, ``scan``. Derivatives are taken forward-mode *inside* the boundary, lane by lane, so that outside it only
  products in the user's own type remain to be transposed.

Lanes stand last because XLA's CPU backend vectorises the minor axis: reductions over the leading axes then run at full
width (17 times faster than the same kernel under ``vmap``, measured at 200 lanes of 60 orders).
"""

from jaxacct._precision._devices import platform
from jaxacct._precision._floats import Rounding
from jaxacct._precision._host import HostProgram
from jaxacct._precision._kernels import Kernel, KernelByStructure, float64_kernel, is_traced
from jaxacct._precision._ways import FEW_LANES

__all__ = [
    "FEW_LANES",
    "HostProgram",
    "Kernel",
    "KernelByStructure",
    "Rounding",
    "float64_kernel",
    "is_traced",
    "platform",
]
