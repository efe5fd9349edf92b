"""The facts of a checkpoint that someone needs before trusting a figure made with it."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from varsdoc import __version__
from varsdoc.model.checkpoint import load

_LIBRARIES = ("torch", "transformers", "peft", "tokenizers", "safetensors", "pillow")


def describe(source: str | None = None, **options: Any) -> dict[str, Any]:
    """Load a checkpoint and say what it is."""
    model = load(source, **options)
    config = model.config
    return {
        "model": model.source,
        "trained": config.trained,
        "hash": model.checkpoint_hash,
        "variants": config.variants,
        "branch_layers": config.branch_layers,
        "blocks": config.blocks,
        "probes": config.probes,
        "heads": config.heads,
        "dim": config.dim,
        "parameters": sum(p.numel() for p in (*model.parameters(), *_quantised(model))),
        "prefix": config.query_prefix,
        "augmentation": f"{config.query_augmentation} x {config.augmentation_token}",
        "max_visual_tokens": config.max_visual_tokens,
        "cell_pixels": config.cell_size,
        "level_print": list(config.level_print),
        "turn_pages": config.turn_pages,
        "light_paper": config.light_paper,
        "dtype": model.compute_dtype,
        "device": str(model.device),
        "varsdoc": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }


def _quantised(model: Any) -> list[Any]:
    from varsdoc.model.int8 import Int8Linear

    modules = [module for module in model.modules() if isinstance(module, Int8Linear)]
    return [tensor for module in modules for tensor in (module.weight, module.bias) if tensor is not None]
