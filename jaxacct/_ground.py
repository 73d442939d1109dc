"""Checks the arithmetic of a backend before compiled kernels first use it.

Error bounds rely on IEEE 754 float64 arithmetic and on elementary functions that err by a few units in the last place.
Neither is certain: ``--xla_cpu_enable_fast_math=true`` reorders sums; contraction to fused products and accelerators'
own functions change the last digits. So one small program compares both with the host's C library, Python's `math` and
exact fractions at fixed points, once for each platform in a process (50 to 80 ms, jaxlib 0.10.2).
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp

_ULP = 2.0**-53  # the unit in which errors are booked, relative
_NEAR = tuple(0.0123 + 0.061 * i for i in range(16))  # 0.01 to 0.93
_FAR = tuple(2.0 ** (2.3 * i - 17.1) for i in range(16))  # 7e-6 to 2e5
_NEAR_1 = tuple(x for y in _FAR[:8] for x in (y, -0.25 * y / _FAR[8]))  # less 1
_HOST_ERRS = 1.0  # units that Python's own functions may err by, on top of what is booked for the backend's


class Primitive(NamedTuple):
    """An XLA function, or one made of several: how far it may err, and the points where it is checked."""

    name: str
    on_backend: Callable[[Any], Any]
    on_host: Callable[[float], float]
    booked: float  # units of 2^-53, relative
    points: tuple[float, ...]


PRIMITIVES = (
    Primitive("exp", lambda x: jnp.exp(x), math.exp, 4.0, tuple(41.3 * (i - 7.5) for i in range(16))),
    Primitive("log", lambda x: jnp.log(x), math.log, 4.0, _FAR),
    Primitive("log1p", lambda x: jnp.log1p(x), math.log1p, 4.0, _NEAR_1),
    # what `special` makes of the exponential
    Primitive("expm1", lambda x: jnp.exp(x) - 1.0, math.expm1, 5.0, tuple(0.5 + 2.0 * y for y in _NEAR)),
    Primitive("sinh", lambda x: 0.5 * jnp.exp(x) - 0.5 / jnp.exp(x), math.sinh, 6.0, tuple(1.0 + y for y in _NEAR)),
    Primitive("tanh", lambda x: jnp.tanh(x), math.tanh, 5.0, _NEAR),
    Primitive("sin", lambda x: jnp.sin(x), math.sin, 4.0, tuple(3.0 * y for y in _NEAR)),
    Primitive("cos", lambda x: jnp.cos(x), math.cos, 4.0, tuple(1.5 * y for y in _NEAR)),
    Primitive("arctan", lambda x: jnp.arctan2(x, 1.0), math.atan, 4.0, _FAR),
    Primitive("sqrt", lambda x: jnp.sqrt(x), math.sqrt, 1.0, _FAR),
)


class Finding(NamedTuple):
    """The result of one check: the largest error at the points and the error booked for it, in units of 2^-53."""

    name: str
    measured: float
    booked: float

    @property
    def is_sound(self) -> bool:
        """Whether the error is no larger than booked; False for an error that is not a number."""
        return self.measured <= self.booked

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if not self.booked:
            return self.name
        return f"{self.name} by {self.measured:.3g} units of 2^-53 ({self.booked:g} booked)"


class UnsoundBackendError(RuntimeError):
    """A backend is too inaccurate for the error bounds, and nothing else can take its place."""


def _product_and_sum_errors(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounding errors of a b, by Dekker, and of a + b, by Knuth: exact unless operations are reordered or fused."""
    a_high, b_high = 134217729.0 * a, 134217729.0 * b  # 2^27 + 1 splits 53 digits into halves
    a_high, b_high = a_high - (a_high - a), b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    product = ((a_high * b_high - a * b) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = a + b
    rest = total - a
    return product, (a - (total - rest)) + (b - rest)


def _program(points: Any) -> Any:
    """Rows: each primitive's values at its points, then the rounding errors of products and of sums."""
    values = [primitive.on_backend(x) for primitive, x in zip(PRIMITIVES, points, strict=False)]
    return jnp.stack([*values, *_product_and_sum_errors(points[-2], points[-1])])


def look(device: Any, options: dict[str, str | bool] | None = None) -> list[Finding]:
    """The findings on `device`, or on JAX's default device for None; to be called with float64 enabled."""
    points = np.array([*(primitive.points for primitive in PRIMITIVES), _FAR, _NEAR])
    with jax.default_device(device):
        program = jax.jit(lambda x: _program(x)).lower(jax.ShapeDtypeStruct(points.shape, points.dtype))  # type: ignore[no-untyped-call]
        found = np.asarray(program.compile(compiler_options=options)(points))
    findings = []
    for primitive, row in zip(PRIMITIVES, found, strict=False):
        true = np.array([primitive.on_host(x) for x in primitive.points])
        worst = float(np.max(np.abs(row - true) / np.abs(true))) / _ULP
        findings.append(Finding(primitive.name, max(worst - _HOST_ERRS, 0.0), primitive.booked))
    exact = [(Fraction(a), Fraction(b), a * b, a + b) for a, b in zip(_FAR, _NEAR, strict=True)]
    products = np.array([float(a * b - Fraction(rounded)) for a, b, rounded, _ in exact])
    sums = np.array([float(a + b - Fraction(rounded)) for a, b, _, rounded in exact])
    for name, row, true in (("error-free products", found[-2], products), ("error-free sums", found[-1], sums)):
        findings.append(Finding(name, 0.0 if np.array_equal(row, true) else math.inf, 0.0))
    return findings


@functools.cache
def _unsound(platform: str, options: tuple[tuple[str, Any], ...]) -> str:
    """What errs by more than is booked on the devices of a platform, in words; empty if nothing does."""
    try:
        device = jax.local_devices(backend=platform)[0]
    except RuntimeError as error:
        raise UnsoundBackendError(
            f"the platform {platform!r} is not available, so its float64 arithmetic cannot be checked, nor "
            "the answers of a program for it certified. Export on a machine that has it, or for other platforms only, "
            "as with jax.export.export(.., platforms=('cpu',))"
        ) from error
    try:
        findings = look(device, dict(options))
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):  # says nothing of what the backend computes, now or later
            raise
        # no float64, or not all of these functions
        return f"compiling ({error})"
    return ", ".join(f.sentence for f in findings if not f.is_sound)


@functools.cache
def _warn(platform: str, wrong: str, instead: str) -> None:
    message = f"{instead} takes the place of JAX's backend {platform!r}, whose errors are too large in {wrong}"
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def sound_device(device: Any, options: dict[str, str | bool], *, has_host: bool = False) -> Any:
    """A device to compute on: `device` (None: JAX's default) if it is sound, else the host's CPU.

    Args:
      device: a device, the name of a platform, or None.
      options: compiler options, for the host's CPU.
      has_host: whether the caller can fall back on NumPy; then False is returned where it must.

    Raises:
      UnsoundBackendError: if no device is sound and the caller has no fallback.
    """
    platform = platform_of(device)
    wrong = _wrong(platform, options)
    if not wrong:
        return device
    if platform != "cpu" and not _wrong("cpu", options):
        _warn(platform, wrong, "the host's CPU")
        return jax.local_devices(backend="cpu")[0]
    if has_host:
        _warn(platform, wrong, "NumPy")
        return False
    raise _refusal(platform, wrong)


def refuse_unsound(device: Any, options: dict[str, str | bool]) -> None:
    """Raises `UnsoundBackendError` if `device` (a device, a platform's name, or None: JAX's default) is not sound."""
    platform = platform_of(device)
    wrong = _wrong(platform, options)
    if wrong:
        raise _refusal(platform, wrong)


def platform_of(device: Any) -> str:
    """The platform of a device, itself given by name, or of JAX's default device for None."""
    return jax.default_backend() if device is None else str(getattr(device, "platform", device))


def _wrong(platform: str, options: dict[str, str | bool]) -> str:
    return _unsound(platform, tuple(options.items()) if platform == "cpu" else ())


def _refusal(platform: str, wrong: str) -> UnsoundBackendError:
    return UnsoundBackendError(
        f"JAX's backend {platform!r} has errors that are too large in {wrong}: no certified answer can be "
        "computed on it. `jaxacct doctor` says more; XLA_FLAGS and an accelerator's own flags are where to look first"
    )
