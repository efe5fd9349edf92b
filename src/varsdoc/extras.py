"""Packages that only some users want: where one is missing, a sentence names the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from varsdoc.errors import VarsDocError


class MissingExtraError(VarsDocError, ImportError):
    """An optional package is not installed."""


@contextmanager
def needs(extra: str, package: str) -> Iterator[None]:
    """Around imports of an optional package.

    >>> with needs("mcp", "no_such_package"):
    ...     import no_such_package
    Traceback (most recent call last):
    varsdoc.extras.MissingExtraError: This needs the package no_such_package; run: pip install 'varsdoc[mcp]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(f"This needs the package {package}; run: pip install 'varsdoc[{extra}]'") from error
