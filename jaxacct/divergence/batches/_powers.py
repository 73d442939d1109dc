"""Psi(s) = phi^n + r phi^(n - 1) + .. + r^(K - 1) phi^(n - K + 1), phi(s) one step's moment, and bounds on its error.

phi is complex and close to 1 where it matters, and n may be 10^12. So everything is computed from phi - 1, which the
callers know to full precision, and from logarithms that preserve it.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import ULP

_NOTHING = 60.0  # a power that is this many natural logarithms below its value on the axis is not computed


class Atoms(NamedTuple):
    """A measure on the line: values [N] and masses [N], rounded up."""

    value: NDArray[np.float64]
    mass: NDArray[np.float64]


class AtomSteps(NamedTuple):
    """Independent steps of one law, and their number.

    Attributes:
      law: one step's values and masses; the remaining probability is at 0.
      least_mass: a lower bound on the sum of the true masses.
      most_steps: n.
      terms: K, the count of numbers of steps, from n down; at most n + 1.
      blank: 1 - r, rounded down; in (0, 1].
    """

    law: Atoms
    least_mass: float
    most_steps: float
    terms: float
    blank: float


def log_psi(excess: Any, steps: AtomSteps) -> Any:
    """An array [..]: log Psi where phi = 1 + `excess`, both real and phi > 0."""
    count, gamma = steps.terms, steps.blank
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log = np.log1p(excess)
        if count == 1.0 or gamma >= 1.0:
            return steps.most_steps * log
        low = math.log1p(-gamma)
        close = np.log1p(np.maximum((excess + gamma) / (1.0 - gamma), -0.75))
        apart = -np.abs(np.where(np.abs(close) < 0.25, close, log - low))
        ratio = np.where(apart == 0.0, count, np.expm1(count * apart) / np.expm1(apart))
    return (steps.most_steps - count + 1.0) * log + (count - 1.0) * np.maximum(log, low) + np.log(ratio)


class Powers(NamedTuple):
    """Psi [N] over e^scale, complex; an upper bound on its error, and one on |Psi|."""

    value: NDArray[np.complex128]
    error: NDArray[np.float64]
    most: NDArray[np.float64]


def _expm1(real: Any, imaginary: Any) -> Any:
    """e^z - 1 for complex z, each part to some ULP of |e^z - 1|."""
    half = np.sin(0.5 * imaginary)
    grown = np.exp(real)
    return np.expm1(real) - 2.0 * grown * half * half + 1j * grown * np.sin(imaginary)


def psi(excess: Any, error: Any, steps: AtomSteps, scale: float) -> Powers:
    """NamedTuple: Psi where phi = 1 + `excess`, complex, known to within `error`; 0 where Psi is negligible."""
    modulus = np.hypot(1.0 + excess.real, excess.imag)
    # 1 + excess is rounded once; where it is small its logarithm is that of the rounded number
    off = error + 32.0 * ULP * np.abs(excess) + np.where(modulus < 0.5, ULP, 0.0)
    log_most = log_psi(modulus + off - 1.0, steps) - scale
    with np.errstate(under="ignore", over="ignore"):
        most = np.exp(log_most) * (1.0 + 2.0**-40 + 8.0 * ULP * (steps.most_steps + abs(scale)))
    counts = log_most > -_NOTHING
    value, error = np.zeros(len(excess), complex), most.copy()
    value[counts], error[counts] = _of_some(excess[counts], off[counts], most[counts], steps, scale)
    return Powers(value, error, most)


def _of_some(excess: Any, off: Any, most: Any, steps: AtomSteps, scale: float) -> tuple[Any, Any]:
    """Psi over e^`scale` and its error, where phi = 1 + `excess` is off by `off` and |Psi| at most `most`.

    With m = n - K + 1, b the larger of phi and r in modulus, a the other, and y = log(a / b), Re y <= 0, Psi is phi^m
    b^(K - 1) (e^(K y) - 1) / (e^y - 1). |dPsi / dphi| is at most n Psi(|phi|) / |phi|.
    """
    n, count, gamma = steps.most_steps, steps.terms, steps.blank
    modulus = np.hypot(1.0 + excess.real, excess.imag)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        near = 0.5 * np.log1p(np.maximum(2.0 * excess.real + np.square(np.abs(excess)), -0.75))
        log = np.where(modulus < 0.5, np.log(modulus), near)
        turn = np.arctan2(excess.imag, 1.0 + excess.real)
        ratio: Any = 1.0 + 0.0j
        rounding: Any = 0.0
        leads: Any = log * n
        times: Any = n
        if count > 1.0 and gamma < 1.0:
            low = math.log1p(-gamma)
            # phi / r - 1 where they are close, so that the difference of logarithms keeps its digits
            close = (excess + gamma) / (1.0 - gamma)
            apart = 0.5 * np.log1p(np.maximum(2.0 * close.real + np.square(np.abs(close)), -0.75))
            is_close = np.abs(close) < 0.25
            apart = np.where(is_close, apart, log - low)
            angle = np.where(is_close, np.arctan2(close.imag, 1.0 + close.real), turn)
            is_larger = apart >= 0.0  # phi is the larger
            real, imaginary = -np.abs(apart), np.where(is_larger, -angle, angle)
            below = _expm1(real, imaginary)
            ratio = np.where(below == 0.0, count, _expm1(count * real, count * imaginary) / below)
            rest = n - count + 1.0
            leads = rest * log + (count - 1.0) * np.where(is_larger, log, low)
            times = np.where(is_larger, n, rest)
            # the exponents K y are rounded; e^y - 1 is at least 1 / K of its least where it counts
            rounding = 16.0 * ULP * (1.0 + 4.0 * count * np.exp(count * real)) / np.maximum(np.abs(below), 1.0 / count)
        lead = np.exp(leads - scale)
        value = lead * ratio * (np.cos(times * turn) + 1j * np.sin(times * turn))
        error = most * np.minimum(n * off / np.maximum(modulus - off, 1e-300), 1.0) + rounding * lead
        error = error + np.abs(value) * ULP * (64.0 + 8.0 * n * (np.abs(log) + np.abs(turn)) + 4.0 * abs(scale))
        is_known = np.isfinite(value) & (error < most) & (modulus > 2.0 * off)
    return np.where(is_known, value, 0.0), np.where(is_known, error, most)
