"""varsdoc: find the right page by looking at the page images.

`import varsdoc` is instant: torch and transformers are imported when a name that needs them is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from varsdoc.errors import CheckpointError, ConfigError, InputError, VarsDocError

if TYPE_CHECKING:
    from varsdoc.index import Hit, Index
    from varsdoc.model import PageEmbedding, VarsConfig, VarsDoc
    from varsdoc.scoring import Scores, score_pages

__version__ = "0.1.0.dev0"

_ROOMS = {
    "Index": "varsdoc.index",
    "Hit": "varsdoc.index",
    "VarsDoc": "varsdoc.model",
    "VarsConfig": "varsdoc.model",
    "PageEmbedding": "varsdoc.model",
    "Scores": "varsdoc.scoring",
    "score_pages": "varsdoc.scoring",
}

__all__ = [
    "CheckpointError",
    "ConfigError",
    "Hit",
    "Index",
    "InputError",
    "PageEmbedding",
    "Scores",
    "VarsConfig",
    "VarsDoc",
    "VarsDocError",
    "__version__",
    "score_pages",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(import_module(_ROOMS[name]), name)
    raise AttributeError(f"module 'varsdoc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
