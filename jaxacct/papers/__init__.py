"""The statements of five papers that `jaxacct.epsilon` and its relatives do not give, one function for each.

    random_allocation   Feldman & Shenfeld 2025                     labels RA-
    clones              Feldman, McMillan & Talwar 2021             labels CL-
    girgis              Girgis et al. 2021                          labels GI-
    chen                Chen et al. 2024                            labels CH-
    check_ins           Liew, Hasegawa & Takahashi 2022             labels CI-

They are for comparing, reproducing and checking: what they say about a mechanism's privacy is never better than the
answer of `jaxacct.epsilon`. A docstring begins with what the function returns, and its first sentence ends with the
label under which docs/papers lists the statement. Statements whose file begins with NOT A BOUND are estimates, or
false. The functions take concrete numbers and return float64, whatever the user's settings. The module is not imported
with jaxacct.
"""

import importlib
from typing import Any

__all__ = ["check_ins", "chen", "clones", "girgis", "random_allocation"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """The module of one paper, imported at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
