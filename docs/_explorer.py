"""The table behind explorer.md: certified intervals for epsilon at the stops of its sliders, in `_explorer.json`.

Run `python docs/_explorer.py` from a checkout; less than two minutes. `inline` puts the table on the page.
"""

import decimal
import itertools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

import jaxacct as ja

_FILE = pathlib.Path(__file__).with_name("_explorer.json")
_DIGITS = 5  # significant digits of both ends
_DELTAS = (1e-8, 1e-7, 1e-6, 1e-5)
_NOISE = tuple(round(float(sigma), 3) for sigma in np.exp2(np.arange(-8, 20) / 8))  # 0.5, .., 1.0, .., 5.187

# Of each scheme its axes, the last one fastest: name, stops in increasing order, and whether epsilon grows along it.
_Axes = tuple[tuple[str, tuple[float, ...], bool], ...]
_COMMON: _Axes = (("target_delta", _DELTAS, False), ("noise_multiplier", _NOISE, False))
AXES: dict[str, _Axes] = {
    "poisson": (
        ("sampling_prob", (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1), True),
        ("num_steps", (100, 300, 1000, 3000, 10_000, 30_000, 100_000), True),
        *_COMMON,
    ),
    "allocation": (
        ("num_steps", (10, 30, 100, 300, 1000, 3000, 10_000), False),
        ("num_epochs", (1, 3, 10, 30, 100), True),
        *_COMMON,
    ),
}
_RUNS: dict[str, Callable[[ja.Gaussian, float, float], Any]] = {
    "poisson": lambda noise, prob, steps: ja.PoissonSampled(noise, prob, int(steps)),
    "allocation": lambda noise, steps, epochs: ja.RandomAllocation(noise, int(steps), num_epochs=int(epochs)),
}


def interval(scheme: str, setting: dict[str, float]) -> ja.Interval:
    """The certified interval for epsilon, at a setting by the names of the scheme's axes."""
    first, second, delta, sigma = (setting[name] for name, *_ in AXES[scheme])
    return ja.epsilon_interval(_RUNS[scheme](ja.Gaussian(sigma), first, second), target_delta=delta)


def rounded(number: float, rounding: str) -> float:
    """`number` to a few digits in the direction of `rounding`; the float that these digits become lies there too."""
    return float(decimal.Context(_DIGITS, rounding).create_decimal(decimal.Decimal(number)))


def _table(scheme: str) -> dict[str, Any]:
    """Axes, and both ends at every stop: flat, the last axis fastest."""
    axes = AXES[scheme]
    ends = []
    for values in itertools.product(*(stops for _, stops, _ in axes)):
        found = interval(scheme, dict(zip((name for name, *_ in axes), values, strict=True)))
        assert 0.0 < found.lower <= found.upper < np.inf, (scheme, values, found)
        ends.append((rounded(found.lower, decimal.ROUND_FLOOR), rounded(found.upper, decimal.ROUND_CEILING)))
    lower, upper = zip(*ends, strict=True)
    named = [{"name": name, "stops": stops, "grows": grows} for name, stops, grows in axes]
    return {"axes": named, "lower": lower, "upper": upper}


def inline() -> str:
    """The table as a script element of type JSON."""
    return f'<script type="application/json" id="explorer-table">{_FILE.read_text().strip()}</script>'


if __name__ == "__main__":
    text = json.dumps({scheme: _table(scheme) for scheme in AXES}, separators=(",", ":"))
    _FILE.write_text(text + "\n")
