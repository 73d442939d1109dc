"""What a point of a batch costs a program that answers by laws, and how many an accelerator should answer. Derived.

    python bench/on_accelerator.py [FAMILY ...]

FLOPs and bytes are those of XLA's cost analysis of programs compiled for the CPU, which counts the body of a loop once:
here bodies are counted as often as they run, but for loops whose length depends on numbers (how many counts make a bin
of clones), counted once. Nothing is run, and nothing is measured: the last columns are what a point costs over the data
sheet's arithmetic and memory, at their peaks; a device that works on enough points at once takes longer than either.
Bytes are those that operations read and write: what stays in a cache is counted too.
"""

import argparse
from typing import Any, NamedTuple

import jax
import jax.extend
import numpy as np
from inside_jit import FAMILIES, Draw

import jaxacct as ja

DEVICE = "NVIDIA H200 (data sheet: 34 TFLOP/s in float64, 4.8 TB/s)"
FLOPS, BYTES = 34e12, 4.8e12


class Cost(NamedTuple):
    """FLOPs and bytes."""

    flops: float
    moved: float


_KNOWN: dict[int, tuple[Any, Cost]] = {}  # by identity, kept alive


def once(jaxpr: Any) -> Cost:
    """XLA's cost of a program, the bodies of loops counted once; remembered."""
    if id(jaxpr) not in _KNOWN:
        _KNOWN[id(jaxpr)] = jaxpr, _compiled(jaxpr)
    return _KNOWN[id(jaxpr)][1]


def _compiled(jaxpr: Any) -> Cost:
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in jaxpr.in_avals]
    found: Any = jax.jit(jax.extend.core.jaxpr_as_fun(jaxpr)).lower(*shapes).compile().cost_analysis() or {}
    return Cost(found.get("flops", 0.0), found.get("bytes accessed", 0.0))


def loops(jaxpr: Any) -> list[tuple[int, Any]]:
    """(length, body) of the loops of known length in a program, those in the bodies of such loops left out."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            found.append((equation.params["length"], equation.params["jaxpr"]))
        else:
            for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
                if hasattr(inner, "eqns"):
                    found += loops(inner)
    return found


def cost(jaxpr: Any) -> Cost:
    """The cost of a program, the bodies of its loops counted as often as they run."""
    total = np.array(once(jaxpr))
    for length, body in loops(jaxpr):
        inside = loops(body)
        whole = np.array(once(body))
        total += length * np.array(cost(body) if inside else whole) - whole
    return Cost(*total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", choices=[[], *FAMILIES], default=list(FAMILIES))
    jax.config.update("jax_enable_x64", True)
    print(f"{DEVICE}; derived, not measured")
    print(
        "| family | MFLOP a point | MB a point | a million points, by arithmetic | by memory |\n|---|---|---|---|---|"
    )
    for name in parser.parse_args().families:
        family = FAMILIES[name]

        def epsilon(*setting: Any, family: Any = family) -> Any:
            return ja.epsilon(family.mechanism(*setting[:-1]), setting[-1], method="laws")

        found = cost(jax.make_jaxpr(epsilon)(*family.draw(Draw(1)), 1e-6))
        seconds = 1e6 * found.flops / FLOPS, 1e6 * found.moved / BYTES
        cells = f"{found.flops / 1e6:.1f}", f"{found.moved / 1e6:.0f}", f"{seconds[0]:.1f} s", f"{seconds[1]:.0f} s"
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
