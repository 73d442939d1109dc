"""``jaxacct doctor``: whether answers on this machine can be trusted, and what that depends on."""

import math
import platform
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from jaxacct._ground import Finding, look
from jaxacct._version import __version__
from jaxacct.cli._parser import Parser

_PACKAGES = ("jax", "jaxlib", "numpy")
_SIZE = 2**12  # points of the transform that is looked at
_TRANSFORM_BOOKED = 40.0  # units of 2^-53 of the root mean square: several times log2 of its size


class _Known(NamedTuple):
    """A question whose answer is known, with the interval of answers that count as right."""

    name: str
    ask: Callable[[], float]
    low: float
    high: float


def _known() -> list[_Known]:
    import jaxacct as ja

    allocation = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000)
    shuffle = ja.Shuffled(ja.LocalRandomizer(1.0), num_reports=10_000)
    return [
        _Known("Gaussian noise, compiled", lambda: ja.epsilon(ja.Gaussian(1.0), 1e-6), 4.8865541174, 4.8865542),
        _Known("random allocation", lambda: ja.epsilon(allocation, 1e-6), 0.1717286844, 0.1719005),
        _Known("shuffled reports", lambda: ja.epsilon(shuffle, 1e-6), 0.0530053164, 0.0530584),
    ]


def _answers() -> tuple[list[str], bool]:
    lines, sound = [], True
    for name, ask, low, high in _known():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = float(ask())
                said, good = f"epsilon = {found:.9g}, known: {low:.9g} to {high:.9g}", low <= found <= high
            except RuntimeError as error:
                said, good = str(error), False
        sound &= good
        lines.append(f"  {_mark(good)} {name:<26}{said}")
        lines += [f"       {warned.message}" for warned in caught]
    return lines, sound


def _mark(good: bool) -> str:
    return "ok " if good else "OFF"


def _transform_error() -> float:
    """The largest error of NumPy's real transform and its inverse, in units of 2^-53 of the root mean square."""
    import numpy as np

    values = np.sin(0.7 * np.arange(_SIZE) ** 1.3)
    back = np.fft.irfft(np.fft.rfft(values), _SIZE)
    return float(np.max(np.abs(back - values)) / math.sqrt(float(np.mean(values**2)))) * 2.0**53


def _found(finding: Any) -> str:
    if not finding.booked:
        return f"  {_mark(finding.is_sound)} {finding.name:<26}" + ("exact" if finding.is_sound else "not exact")
    return f"  {_mark(finding.is_sound)} {finding.name:<26}{finding.measured:>8.3g}{finding.booked:>8g}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _look_at_backends() -> dict[str, list[Finding]]:
    """The findings on the host's CPU and on JAX's default platform, by platform and way of compiling."""
    import jax

    from jaxacct._precision._devices import quick_options
    from jaxacct._precision._floats import own_settings

    quick, default, found = quick_options(), jax.default_backend(), {}
    ways: list[tuple[str, str, Any]] = [("cpu", "cpu", None)]
    ways += [("cpu, compiled quickly", "cpu", quick)] if quick else []
    ways += [(default, default, None)] if default != "cpu" else []
    for where, backend, options in ways:
        with own_settings():
            try:
                found[where] = look(jax.local_devices(backend=backend)[0], options)
            except RuntimeError as error:
                found[where] = [Finding(f"compiling ({error})", math.inf, 0.0)]
    return found


def examination() -> tuple[str, bool]:
    """What `jaxacct doctor` prints, and whether everything is in order."""
    import jax

    lines = ["versions", f"  python {platform.python_version()}, {platform.system()} {platform.machine()}"]
    lines += [f"  jaxacct {__version__}", *(f"  {package} {_version(package)}" for package in _PACKAGES)]
    lines += ["devices", *(f"  {device.platform}: {device.device_kind}" for device in jax.devices())]
    sound = True
    for where, findings in _look_at_backends().items():
        lines += [f"{where}: errors found and booked, relative, in units of 2^-53", *map(_found, findings)]
        sound &= all(finding.is_sound for finding in findings)
    transform = Finding("Fourier transform", _transform_error(), _TRANSFORM_BOOKED)
    lines += ["NumPy: errors found and booked, in units of 2^-53", _found(transform)]
    answers, right = _answers()
    sound &= transform.is_sound and right
    lines += ["answers", *answers, "", "nothing is off" if sound else "something is off: see the lines marked OFF"]
    return "\n".join(lines), sound


def main(arguments: Sequence[str]) -> int:
    """Prints the examination; the exit status is 1 if anything is wrong."""
    Parser(
        prog="jaxacct doctor",
        description="Versions, devices, the errors of the functions that bounds rest on, and three known answers.",
        epilog="Exit status: 0, or 1 if anything is off.",
    ).parse_args(arguments)
    text, sound = examination()
    print(text, flush=True)
    return 0 if sound else 1
