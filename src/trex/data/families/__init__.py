"""The problem families, one module each: a module put into this folder is a family once it defines `FAMILY`."""

import importlib
import pkgutil
from functools import cache

from trex.data.family import Family
from trex.data.problem import DataError


@cache
def names() -> tuple[str, ...]:
    """All families, in alphabetical order."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def get(name: str) -> Family:
    """The family called `name`. Raises DataError for an unknown name and for a module that defines none."""
    if name not in names():
        raise DataError(f"family {name!r}; accepted: {', '.join(names())}")
    found = getattr(importlib.import_module(f"{__name__}.{name}"), "FAMILY", None)
    if not isinstance(found, Family):
        raise DataError(f"module {name!r} of the families defines no FAMILY")
    return found
