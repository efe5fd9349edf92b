"""A collection as an HTTP API and a web page. Importing this brings in nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from varsdoc.lazy import lazy_names

if TYPE_CHECKING:
    from varsdoc.serving.app import create_app
    from varsdoc.serving.settings import Limits, Settings

_FILES = {"create_app": "app", "Limits": "settings", "Settings": "settings"}

__all__ = ["Limits", "Settings", "create_app"]

__getattr__ = lazy_names(__name__, _FILES)
