"""Public names of a package that are imported when they are first used, so that importing it costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: name -> the module below it that has the name.

    >>> lazy_names("varsdoc", {"ConfigError": "errors"})("ConfigError").__name__
    'ConfigError'
    """

    def find(name: str) -> Any:
        if name in modules:
            return getattr(import_module(f"{package}.{modules[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
