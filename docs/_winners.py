"""Which bound is tightest where: measures `jaxacct.compare` and writes the table that `winners.md` includes.

Run `python docs/_winners.py` from a checkout; some minutes. The table says with which version it was measured.
"""

import collections
import pathlib
import sys
import warnings

import jax
import numpy as np

import jaxacct as ja

DELTA = 1e-6
SETTINGS = (  # noise multiplier, steps, selected, epochs
    (0.5, 1000, 1, 1),
    (1.0, 100, 1, 1),
    (1.0, 1000, 1, 1),
    (1.0, 10_000, 1, 1),
    (1.0, 1000, 1, 10),
    (2.0, 100, 1, 10),
    (4.0, 1000, 1, 100),
    (0.5, 100, 10, 1),
    (1.0, 1000, 10, 1),
    (2.0, 1000, 10, 10),
)
# Families: a direction's value is the least of its methods'.
COLUMNS = {
    "Renyi": ("direct", "low orders", "geometric mean", "real orders", "no amplification"),
    "decomposition": ("decomposition",),
    "truncated Poisson": ("truncated Poisson",),
    "recursive": ("recursive",),
    "overlap (remove)": ("overlap",),
    "how many steps (remove)": ("how many steps",),
    "loss distribution": ("loss distribution",),
    "complex moments": ("complex moments",),
    "exact": ("exact",),
}


def line(sigma: float, t: int, k: int, epochs: int) -> list[str]:
    """One setting: the lower end, each family's epsilon (the worse direction of its best), and the answer."""
    run = ja.RandomAllocation(ja.Gaussian(sigma), t, k, epochs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entries = ja.compare(run, target_delta=DELTA)
        lower, answer = ja.epsilon_interval(run, target_delta=DELTA).lower, ja.epsilon(run, target_delta=DELTA)
    upper: dict[tuple[str, ja.Direction], float] = collections.defaultdict(lambda: np.inf)
    for entry in entries:
        if entry.bound is ja.Bound.UPPER:
            upper[entry.method, entry.direction] = min(upper[entry.method, entry.direction], float(entry.value))
    values = []
    for name, methods in COLUMNS.items():
        directions = (ja.Direction.REMOVE,) if "remove" in name else tuple(ja.Direction)
        values.append(max(min(upper[m, d] for m in methods) for d in directions))
    least = min(values)
    cells = [f"**{v:.4g}**" if v <= 1.01 * least else f"{v:.4g}" if np.isfinite(v) else "" for v in values]
    return [f"{sigma:g}", str(t), str(k), str(epochs), f"{lower:.4g}", *cells, f"{answer:.4g}"]


def main() -> None:
    """Measures and writes."""
    here = pathlib.Path(__file__).parent
    head = ("sigma", "t", "k", "epochs", "truth at least", *COLUMNS, "`ja.epsilon`")
    rows = []
    for setting in SETTINGS:
        rows.append(line(*setting))
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    python = ".".join(map(str, sys.version_info[:2]))
    versions = f"jaxacct {ja.__version__}, jax {jax.__version__}, numpy {np.__version__}, Python {python}"
    lines = [f"Measured with {versions}.", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    (here / "_winners_table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
