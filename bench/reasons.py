"""Why a peer wins, or why a task takes its memory: what the report says beside the numbers. Written by hand."""

_COMPILING = "The compiler needs most of it, the first JAX program a third of the allowance; not the answer."
_ORDERS = "Renyi divergences at other default orders: equal at the peer's. The exact engine is tighter than either."
_LIMIT = "Asymptotic, by the central limit: no bound, and here below the truth."

# kind -> [(start of the cases' names, reason)]; the first that fits is taken.
REASONS: dict[str, list[tuple[str, str]]] = {
    "both": [],
    "looser": [
        ("check-in-eps", "The numbers of check-ins go in blocks with a chord on each: certified, and much quicker."),
        ("calibrate 100 poisson rdp", _ORDERS),
        ("poisson", _ORDERS),
    ],
    "slower": [
        ("poisson 1e4, Opacus GDP", _LIMIT),
        ("clones-eps-every-count", "Every count is summed, to a gap 1e5 times smaller; the default takes a window."),
    ],
    "cold": [
        ("", "Importing JAX and compiling cost it: the price of one program for sweeps, derivatives and devices.")
    ],
    "below": [("poisson 1e4, Opacus GDP", _LIMIT)],
    "memory": [
        ("calibrate", "A hundred settings at once, in chunks of at most 64 MiB, and two kinds of programs."),
        ("exact 20", "A table of moments for 20 counts of epochs, and the phases of 200 epsilons."),
        ("", _COMPILING),
    ],
}


def reason(kind: str, case: str) -> str:
    """The reason of this kind for `case`, or that none is written."""
    return next((text for start, text in REASONS[kind] if case.startswith(start)), "(No reason written yet.)")
