"""Bridges to other packages: dp_accounting both ways, jax_privacy's batch selection strategies, Flower's accounting.

The module is not imported with jaxacct. Functions and classes that need dp_accounting import it at first use: install
it with ``pip install 'jaxacct[interop]'``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxacct.interop._flower import FlowerAccountant
from jaxacct.interop._jax_privacy import from_jax_privacy

if TYPE_CHECKING:
    from jaxacct.interop._accountants import CertifiedAccountant, PLDAccountant, RdpAccountant
    from jaxacct.interop._events import MechanismDpEvent, RdpCurveDpEvent, from_dp_event, to_dp_event
    from jaxacct.interop._loss_distributions import from_privacy_loss_distribution, to_privacy_loss_distribution

__all__ = [
    "CertifiedAccountant",
    "FlowerAccountant",
    "MechanismDpEvent",
    "PLDAccountant",
    "RdpAccountant",
    "RdpCurveDpEvent",
    "from_dp_event",
    "from_jax_privacy",
    "from_privacy_loss_distribution",
    "to_dp_event",
    "to_privacy_loss_distribution",
]

_MODULES = {
    "CertifiedAccountant": "_accountants",
    "MechanismDpEvent": "_events",
    "PLDAccountant": "_accountants",
    "RdpAccountant": "_accountants",
    "RdpCurveDpEvent": "_events",
    "from_dp_event": "_events",
    "from_privacy_loss_distribution": "_loss_distributions",
    "to_dp_event": "_events",
    "to_privacy_loss_distribution": "_loss_distributions",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Imports, at first use, what subclasses or calls dp_accounting."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("dp_accounting", "attr"):  # attrs comes with it
            raise
        raise ImportError(f"{__name__}.{name} needs dp_accounting: pip install 'jaxacct[interop]'") from error
    return getattr(module, name)
