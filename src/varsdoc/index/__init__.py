"""Pages and their embeddings as a durable, searchable collection. Importing this brings in nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from varsdoc.lazy import lazy_names

if TYPE_CHECKING:
    from varsdoc.index.adding import Added, Failed
    from varsdoc.index.audit import Audit
    from varsdoc.index.collection import Index, Listed
    from varsdoc.index.fingerprint import Fingerprint
    from varsdoc.index.hit import Hit
    from varsdoc.index.reindexing import Reindexed

_FILES = {
    "Added": "adding",
    "Audit": "audit",
    "Failed": "adding",
    "Fingerprint": "fingerprint",
    "Hit": "hit",
    "Index": "collection",
    "Listed": "collection",
    "Reindexed": "reindexing",
}

__all__ = ["Added", "Audit", "Failed", "Fingerprint", "Hit", "Index", "Listed", "Reindexed"]

__getattr__ = lazy_names(__name__, _FILES)
