"""Errors that a user can act on: one sentence with the value that was wrong and what to do.

The command line prints them without a traceback; library users catch `VarsDocError`.
"""

from __future__ import annotations


class VarsDocError(Exception):
    """Base of every error that varsdoc raises on purpose."""


class ConfigError(VarsDocError, ValueError):
    """A setting that cannot be: K = 0, more branched blocks than blocks, an unknown dtype."""


class CheckpointError(VarsDocError, ValueError):
    """A folder or hub id that is no checkpoint, is damaged, or was made for another model."""


class InputError(VarsDocError, ValueError):
    """A page or a query that cannot be encoded."""


class CollectionError(VarsDocError):
    """A collection that is not there, is damaged, or cannot do what was asked."""


class MissingError(CollectionError):
    """A page or a document that is not in the collection."""


class BusyError(CollectionError):
    """Another writer has the collection."""


class FingerprintError(CollectionError, ValueError):
    """The collection was made with another encoder than the one at hand."""


class FilterError(CollectionError, ValueError):
    """A `where` that is not SQL, or names a column that is not there."""


class RenderingError(VarsDocError, RuntimeError):
    """Pages cannot be rendered at all on this machine, whatever the document."""
