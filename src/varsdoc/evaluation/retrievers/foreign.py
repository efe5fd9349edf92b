"""What the other retrievers share: finding the files, hashing them, batching, precision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from varsdoc.errors import CheckpointError, ConfigError
from varsdoc.evaluation.retrievers.opening import shown_name
from varsdoc.evaluation.retrievers.protocol import Identity, Vectors
from varsdoc.model.device import DTYPES, choose_device, choose_dtype
from varsdoc.model.sources import first_line, locate, read_json

BATCH = 8
# Files beside the weights that change an embedding.
_SETTINGS = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)


class Foreign:
    """A transformers model in eval mode on a device. Subclasses say how a batch becomes vectors."""

    types: tuple[str, ...] = ()  # what config.json may call the model

    def __init__(
        self,
        source: str | None,
        kind: str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        max_visual_tokens: int | None = None,
    ) -> None:
        if source is None:
            raise ConfigError(f"The retriever {kind} needs --model: a folder or a hub id.")
        self.folder = locate(source)
        self.device = choose_device(device)
        name = choose_dtype(dtype, self.device)
        if name not in DTYPES:
            raise ConfigError(f"The retriever {kind} computes in {', '.join(DTYPES)}, not {name}.")
        self.dtype = DTYPES[name]
        self.cap = max_visual_tokens
        self._check_type(kind)
        try:
            self.load()
        except CheckpointError:
            raise
        except (OSError, ValueError, KeyError, RuntimeError, TypeError, ImportError) as error:
            raise CheckpointError(f"{source} cannot be loaded as {kind} ({first_line(error)}).") from error
        self.model: Any = self.model.to(self.device, self.dtype).eval()
        settings = {"kind": kind, "cap": self.cap}
        self.identity = Identity(
            shown_name(source), kind, files_hash(self.folder, settings), 1, self.token_cap(), name, self.device.type
        )

    def _check_type(self, kind: str) -> None:
        """transformers builds any class from any config, filling in a model of default size with random weights."""
        found = read_json(self.folder / "config.json").get("model_type")
        if self.types and found not in self.types:
            raise CheckpointError(f"{self.folder.name} holds a model of type {found!r}, which is no {kind}.")

    def pretrained(self, maker: Any) -> Any:
        """Load, and refuse what transformers would only warn about: weights that are missing and left random."""
        model, told = maker.from_pretrained(self.folder, local_files_only=True, output_loading_info=True)
        wrong = sorted(str(name) for name in (*told["missing_keys"], *told["mismatched_keys"]))
        if wrong:
            raise CheckpointError(f"{self.folder.name} lacks {len(wrong)} tensors of its model, like {wrong[0]}.")
        return model

    def load(self) -> None:
        """Set self.model and whatever prepares its inputs."""
        raise NotImplementedError

    def token_cap(self) -> int | None:
        return self.cap

    def pages(self, images: Sequence[Any]) -> list[Tensor]:
        """One (M, dim) tensor a page, padding dropped."""
        raise NotImplementedError

    def queries(self, texts: Sequence[str]) -> list[Tensor]:
        raise NotImplementedError

    def encode_pages(self, images: Sequence[Any]) -> list[Vectors]:
        return [page[None] for page in self._batched(self.pages, images)]

    def encode_queries(self, texts: Sequence[str]) -> list[Vectors]:
        return self._batched(self.queries, texts)

    @torch.no_grad()
    def _batched(self, encode: Callable[[Sequence[Any]], list[Tensor]], items: Sequence[Any]) -> list[Vectors]:
        made = [vectors for i in range(0, len(items), BATCH) for vectors in encode(items[i : i + BATCH])]
        return [np.asarray(vectors.float().cpu().numpy()) for vectors in made]

    def to_device(self, inputs: Any) -> dict[str, Any]:
        """Numbers that are pixels in the model's precision, ids as they are."""
        moved = {}
        for key, value in inputs.items():
            if isinstance(value, Tensor):
                value = value.to(self.device)
                moved[key] = value.to(self.dtype) if value.is_floating_point() else value
        return moved


def files_hash(folder: Path, settings: dict[str, Any]) -> str:
    """16 hex digits over weights and settings files."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise CheckpointError(f"{folder} has no safetensors; convert its weights, pickles are not read.")
    for path in (*weights, *(folder / name for name in _SETTINGS)):
        if path.is_file():
            digest.update(path.name.encode())
            with path.open("rb") as file:
                digest.update(
                    hashlib.file_digest(file, "sha256").digest() if hasattr(hashlib, "file_digest") else _slow(file)
                )
    return digest.hexdigest()[:16]


def _slow(file: Any) -> bytes:
    """hashlib.file_digest came with Python 3.11."""
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.digest()


def dropped(vectors: Tensor, mask: Tensor) -> list[Tensor]:
    """(B, M, dim) without its padding."""
    return [row[kept.bool()] for row, kept in zip(vectors, mask, strict=True)]


def unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
