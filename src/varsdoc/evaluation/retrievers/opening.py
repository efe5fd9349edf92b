"""From a folder or hub id to a retriever: the kind is read from config.json unless it is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from varsdoc.errors import CheckpointError, ConfigError
from varsdoc.evaluation.retrievers.protocol import Retriever

# kind -> (module, class); imported when used, so that naming them costs nothing.
_WHERE = {
    "varsdoc": ("ours", "VarsDocRetriever"),
    "colqwen2.5": ("ours", "VarsDocRetriever"),
    "colnomic": ("ours", "VarsDocRetriever"),
    "clip": ("dual", "DualEncoder"),
    "siglip": ("dual", "DualEncoder"),
    "colpali": ("late", "ColPali"),
    "colqwen2": ("late", "ColQwen2"),
    "colqwen3": ("qwen3", "ColQwen3"),
    "eager-embed": ("qwen3", "EagerEmbed"),
}
KINDS = tuple(_WHERE)
# What config.json calls its model, where that settles the kind.
_TYPES = {
    "clip": "clip",
    "siglip": "siglip",
    "siglip2": "siglip",
    "colpali": "colpali",
    "colqwen2": "colqwen2",
    "colqwen3": "colqwen3",
    "colqwen2_5": "colqwen2.5",
    "qwen2_5_vl": "colqwen2.5",
}


def open_retriever(
    source: str | None = None,
    kind: str | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    max_visual_tokens: int | None = None,
    **options: Any,
) -> Retriever:
    """Open a checkpoint for evaluation.

    source  None: the packaged model; a folder; a hub id
    kind    one of KINDS; default: by config.json
    """
    chosen = kind or kind_of(source)
    if chosen not in _WHERE:
        raise ConfigError(f"There is no retriever {chosen!r}; use {', '.join(KINDS)}.")
    from importlib import import_module

    module, name = _WHERE[chosen]
    make: Callable[..., Retriever] = getattr(import_module(f"varsdoc.evaluation.retrievers.{module}"), name)
    return make(source, chosen, device=device, dtype=dtype, max_visual_tokens=max_visual_tokens, **options)


def kind_of(source: str | None) -> str:
    """The kind that a checkpoint's own files name."""
    if source is None:
        return "varsdoc"
    from varsdoc.model.sources import locate, read_json

    folder = locate(source)
    if (folder / "varsdoc.json").is_file():
        return "varsdoc"
    if (folder / "adapter_config.json").is_file():
        return "colnomic" if "colnomic" in str(source).lower() else "colqwen2.5"
    found = read_json(folder / "config.json").get("model_type")
    if found == "qwen3_vl":
        raise ConfigError(
            f"{source} is a Qwen3-VL; say whether it is colqwen3 (many vectors) or eager-embed (one) with --retriever."
        )
    if found not in _TYPES:
        raise CheckpointError(f"{source} holds a model of type {found!r}; name its retriever: {', '.join(KINDS)}.")
    return _TYPES[found]


def shown_name(source: str | Path | None) -> str:
    """A hub id as it is; of a folder the last part, so that no figure names a machine's paths."""
    if source is None:
        return "varsdoc-nano (packaged)"
    path = Path(source).expanduser()
    return path.resolve().name if path.is_dir() else str(source)
