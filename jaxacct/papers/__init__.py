"""Every statement of the five papers that answers no question by itself, one function a statement.

    random_allocation   Feldman & Shenfeld 2025                     labels RA-
    clones              Feldman, McMillan & Talwar 2021             labels CL-
    girgis              Girgis et al. 2021                          labels GI-
    chen                Chen et al. 2024                            labels CH-
    check_ins           Liew, Hasegawa & Takahashi 2022             labels CI-

For comparing, reproducing and checking: what they say of a mechanism's privacy is never better than what
`jaxacct.epsilon` answers. A docstring begins with what comes out and ends its first sentence with the label under which
docs/papers lists the statement. Those whose file begins with NOT A BOUND are estimates, or false. Concrete numbers in,
float64 out, whatever the user's settings; not imported with jaxacct.
"""

import importlib
from typing import Any

__all__ = ["check_ins", "chen", "clones", "girgis", "random_allocation"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """A paper, at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
