"""Circular functions and complex exponentials that use vector instructions.

NumPy's tangent, exponential and logarithm of real numbers are vectorised; its sine, cosine and functions of complex
numbers are not, and take ten times as long. XLA's sine and cosine on a CPU are not either, and take four times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct._jax import jnp

# Coefficients of fdlibm's polynomials for sine and cosine on [-pi/4, pi/4], highest power first.
_SINE = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
         -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)  # fmt: skip
_COSINE = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
           2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)  # fmt: skip


def cos_and_sin(angle: Any) -> tuple[Any, Any]:
    """cos and sin of `angle` [..], within 16 ULP of 1.

    With T = tan(angle/2) they are (1 - T^2)/(1 + T^2) and 2 T/(1 + T^2), and neither changes by more than twice the
    relative change of T.
    """
    t = np.tan(0.5 * angle)
    share = 2.0 / (1.0 + t * t)
    return share - 1.0, t * share


def turn(angle: Any) -> Any:
    """e^{i `angle`} [..], within 16 ULP."""
    out = np.empty(np.shape(angle), np.complex128)
    out.real, out.imag = cos_and_sin(angle)
    return out


def complex_exp(z: Any) -> Any:
    """e^z [..], within 24 ULP of its modulus."""
    out = np.empty(z.shape, np.complex128)
    size, (cos, sin) = np.exp(z.real), cos_and_sin(z.imag)
    out.real, out.imag = size * cos, size * sin
    return out


def complex_log(z: Any) -> Any:
    """log z [..], Im within (-pi, pi], each part within 8 ULP of itself and of 1."""
    out = np.empty(z.shape, np.complex128)
    out.real, out.imag = 0.5 * np.log(z.real * z.real + z.imag * z.imag), np.arctan2(z.imag, z.real)
    return out


def vector_cos_and_sin(angle: Any) -> tuple[Any, Any]:
    """cos and sin of a JAX array `angle` [..], within 4 ULP of 1 and, beyond 10^6, 2 ULP of the angle (fdlibm)."""
    n = jnp.round(angle * 0.6366197723675814)
    r = ((angle - n * 1.57079632673412561417) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21
    r = jnp.clip(r, -1.0, 1.0)  # where the angle has no digits left
    r2 = r * r
    sine, cosine = jnp.full_like(r, _SINE[0]), jnp.full_like(r, _COSINE[0])
    for a, b in zip(_SINE[1:], _COSINE[1:], strict=True):
        sine, cosine = sine * r2 + a, cosine * r2 + b
    sine, cosine = r + r * r2 * sine, 1.0 - 0.5 * r2 + r2 * r2 * cosine
    quadrant = n - 4.0 * jnp.floor(0.25 * n)
    odd = (quadrant == 1.0) | (quadrant == 3.0)
    cos, sin = jnp.where(odd, sine, cosine), jnp.where(odd, cosine, sine)
    return jnp.where((quadrant == 1.0) | (quadrant == 2.0), -cos, cos), jnp.where(quadrant >= 2.0, -sin, sin)
