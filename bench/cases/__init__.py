"""The registry: every module here lists its comparisons in `CASES`."""

import importlib
import pkgutil


def all_cases() -> list:
    """Every case, module by module."""
    modules = sorted(info.name for info in pkgutil.iter_modules(__path__))
    return [case for name in modules for case in getattr(importlib.import_module(f"cases.{name}"), "CASES", ())]


def find(name: str):
    """The case called `name`."""
    return next(case for case in all_cases() if case.name == name)
