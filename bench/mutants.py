"""Mutants: wrong signs and dropped terms that the tests must notice.

    python bench/mutants.py [--only TEXT] [--list]

Each mutant is one change to a copy of the package in a temporary folder; the quick tests named for it run there. A
mutant that they do not notice survives: a soundness-relevant line that no test holds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT = 600  # seconds


class Mutant(NamedTuple):
    """`old` in jaxacct/`file` becomes `new`; `tests` should fail."""

    file: str
    old: str
    new: str
    tests: str


PROPERTIES = "tests/test_properties.py"
INVERSION = "tests/test_inversion.py"
MEMBERSHIP = "tests/test_membership.py"
PROFILES = "tests/test_distributions.py tests/test_pld.py"
PLD = "tests/test_domination.py tests/test_pld.py"
MUTANTS = (
    # curves
    Mutant("curves/_pld.py", "total + slack) if self.bound", "total - slack) if self.bound", PLD),
    Mutant("curves/_pld.py", "+ self.infinite_mass\n        # the grid", "\n        # the grid", PLD),
    Mutant("curves/_pld.py", "first = max(0, int(place))", "first = max(0, int(place) + 2)", PLD),
    Mutant(
        "curves/_pld.py", "guess + nudge if upper else guess - nudge", "guess - nudge if upper else guess + nudge", PLD
    ),
    Mutant("curves/_regridding.py", "upper = pld.bound is Bound.UPPER", "upper = pld.bound is not Bound.UPPER", PLD),
    Mutant("curves/_regridding.py", "share * part.masses", "part.masses * share * share", PLD),
    # composition of loss distributions
    Mutant("_pld_composition.py", "np.maximum(result + error, 0.0)", "np.maximum(result - error, 0.0)", PLD),
    Mutant("_pld_composition.py", "np.maximum(result - error, 0.0)", "np.maximum(result + error, 0.0)", PLD),
    Mutant("_pld_composition.py", "(grow if upper else -grow)", "(-grow if upper else grow)", PLD),
    Mutant("_pld_composition.py", "infinite = -math.expm1(log_finite) * (1.0 + 2.0**-45)", "infinite = 0.0", PLD),
    Mutant("_pld_composition.py", "if end < full:", "if False:", PLD),
    Mutant("_pld_composition.py", "if start > 0:", "if False:", PLD),
    # laws of ratios
    Mutant("divergence/_ratio_lattice.py", "masses * (1.0 + rounding), 0.0", "masses * (1.0 - rounding), 0.0", PLD),
    Mutant("divergence/_ratio_lattice.py", "infinite += upper_p", "infinite += 0.0", PLD),
    Mutant("divergence/_ratio_lattice.py", "kept[0] += lower_p / values[left]", "kept[0] += 0.0", PLD),
    Mutant("divergence/_ratio_lattice.py", "zero_mass=a.zero_mass * b.zero_mass", "zero_mass=0.0", PLD),
    Mutant("divergence/_ratio_lattice.py", "if still > 0:  # 0 + x = x", "if False:", PLD),
    Mutant(
        "bounds/_privacy_loss.py", "zero_mass=outside, infinite_mass=outside", "zero_mass=0.0, infinite_mass=0.0", PLD
    ),
    Mutant("bounds/_privacy_loss.py", "0.0, sampling_prob * law.infinite_mass", "0.0, 0.0", PLD),
    Mutant(
        "bounds/_privacy_loss.py",
        "math.log1p(-sampling_prob)), np.append",
        "math.log1p(sampling_prob)), np.append",
        PLD,
    ),
    Mutant("bounds/_privacy_loss.py", "(selected - larger) * epochs", "(selected - larger)", PLD),
    # profiles to distributions and back
    Mutant(
        "bounds/_profiles.py", "+ slope_error[1:] + slope_error[:-1]", "- slope_error[1:] - slope_error[:-1]", PROFILES
    ),
    Mutant("bounds/_profiles.py", "np.minimum(value + slack, 1.0)", "np.minimum(value - slack, 1.0)", PROFILES),
    # Renyi
    Mutant("conversion.py", "rdp + base - tail + rounding)", "rdp + base - tail - rounding)", PROPERTIES),
    Mutant("conversion.py", "rdp + base - tail + rounding)", "rdp + 2.0 * base - tail + rounding)", PROPERTIES),
    Mutant("conversion.py", "+ base - log_scale + rounding", "+ base + log_scale + rounding", PROPERTIES),
    Mutant(
        "composition.py",
        "larger = num_steps - size * num_selected",
        "larger = num_steps * 0.0",
        "tests/test_allocation_bounds.py",
    ),
    Mutant("composition.py", "return total * _ROUND_UP", "return total / _ROUND_UP", PROPERTIES),
    # answers
    Mutant(
        "_answering.py",
        "worst = best if worst is None else _largest(worst, best)",
        "worst = best if worst is None else _least(worst, best)",
        PROPERTIES,
    ),
    Mutant(
        "_answering.py",
        "return jnp.where(ok, value, query.worst if upper else 0.0), order",
        "return value, order",
        PROPERTIES,
    ),
    Mutant(
        "intervals.py",
        "high, low = max(upper.values()), max(lower.values())\n        if high - low",
        "high, low = min(upper.values()), max(lower.values())\n        if high - low",
        "tests/test_intervals.py",
    ),
    Mutant(
        "_precision.py",
        "narrow.astype(y.dtype) < y if up",
        "narrow.astype(y.dtype) > y if up",
        "tests/test_precision.py",
    ),
    Mutant("membership.py", "mu - z + 1e-14", "mu - z - 1e-14", MEMBERSHIP),
    Mutant("membership.py", "heights.max(axis=0) * (1.0 - 2.0**-40) - _ROUNDING", "heights.max(axis=0)", MEMBERSHIP),
    # exact engines
    Mutant(
        "divergence/_inversion.py",
        "below = found.value - found.below - aliases",
        "below = found.value - found.below",
        INVERSION,
    ),
    Mutant("divergence/_inversion.py", "found.value, 0.0) + found.above", "found.value, 0.0) - found.above", INVERSION),
    Mutant(
        "divergence/_inversion.py",
        "error = error + jnp.exp(jnp.max(moments.log_decay",
        "error = error + 0.0 * jnp.exp(jnp.max(moments.log_decay",
        INVERSION,
    ),
    Mutant("divergence/_inversion.py", "jnp.logaddexp(left - jnp.log(-jnp.expm1(left)), right)", "right", INVERSION),
)


def outcome(mutant: Mutant, folder: Path) -> str:
    """killed, survived or stale (its text is no longer there)."""
    package = folder / "jaxacct"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "jaxacct", package, ignore=shutil.ignore_patterns("__pycache__"))
    path = package / mutant.file
    text = path.read_text()
    if text.count(mutant.old) < 1:
        return "stale"
    path.write_text(text.replace(mutant.old, mutant.new, 1))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-o", "addopts=", "-m", "not slow", *mutant.tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return "timed out"
    return {0: "survived", 1: "killed"}.get(ended.returncode, f"error {ended.returncode}")


def main() -> int:
    """Prints a line for each mutant; 1 if one survives or is stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants whose file or text contains this")
    parser.add_argument("--list", action="store_true", help="check that the texts are still there; run nothing")
    args = parser.parse_args()
    chosen = [m for m in MUTANTS if args.only in m.file or args.only in m.old]
    if args.list:
        stale = [m for m in chosen if m.old not in (ROOT / "jaxacct" / m.file).read_text()]
        print(f"{len(chosen)} mutants, {len(stale)} stale", *(f"{m.file}: {m.old!r}" for m in stale), sep="\n")
        return int(bool(stale))
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for mutant in chosen:
            start = time.perf_counter()
            found = outcome(mutant, folder)
            bad += found != "killed"
            print(f"{found:9} {time.perf_counter() - start:5.0f} s  {mutant.file}: {mutant.old[:70]!r}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
