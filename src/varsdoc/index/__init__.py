"""Pages and their embeddings as a durable, searchable collection."""

from varsdoc.index.adding import Added, Failed
from varsdoc.index.collection import Index, Listed
from varsdoc.index.fingerprint import Fingerprint
from varsdoc.index.hit import Hit

__all__ = ["Added", "Failed", "Fingerprint", "Hit", "Index", "Listed"]
