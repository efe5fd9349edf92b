"""varsdoc: find the right page by looking at the page images.

`import varsdoc` is instant: torch and transformers are imported when a name that needs them is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varsdoc.errors import CheckpointError, ConfigError, InputError, VarsDocError
from varsdoc.lazy import lazy_names

if TYPE_CHECKING:
    from varsdoc.index import Hit, Index
    from varsdoc.model import PageEmbedding, VarsConfig, VarsDoc
    from varsdoc.scoring import Scores, score_pages

__version__ = "0.1.0.dev0"

_ROOMS = {
    "Index": "index",
    "Hit": "index",
    "VarsDoc": "model",
    "VarsConfig": "model",
    "PageEmbedding": "model",
    "Scores": "scoring",
    "score_pages": "scoring",
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


__getattr__ = lazy_names(__name__, _ROOMS)


def __dir__() -> list[str]:
    return sorted(__all__)
