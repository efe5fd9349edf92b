"""The hash of a checkpoint: over its tensors as stored, its tokenizer, and every setting that changes an embedding.

The same checkpoint has the same hash on every machine, under every version of the libraries, and in whatever dtype it
was loaded; a changed tensor, prefix or token cap changes it. It is computed when asked for: files of several gigabytes
take seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from varsdoc.model.config import VarsConfig
from varsdoc.model.qwen25vl import architecture
from varsdoc.model.sources import stored_tensors

if TYPE_CHECKING:
    from varsdoc.model.varsdoc import VarsDoc


@dataclass(frozen=True)
class Origin:
    """The files that a model's weights came from, what was done to them on the way, and how the tensors stood then."""

    files: tuple[Path, ...]
    recipe: str  # an expansion, with its noise and seed; empty where the weights are as stored
    state: int


def state_of(model: VarsDoc) -> int:
    """A number that moves when a parameter is written to, replaced or added."""
    return hash(tuple((name, p._version, id(p)) for name, p in model.named_parameters()))


def model_hash(model: VarsDoc) -> str:
    """16 hex digits: of the files where the model is as it was loaded, of the tensors in memory where it is not."""
    origin = model.origin
    if origin is not None and origin.state == state_of(model):
        weights = [origin.recipe, _hash_tensors(item for path in origin.files for item in stored_tensors([path]))]
    else:
        state = {name.removeprefix("backbone."): tensor for name, tensor in model.state_dict().items()}
        weights = ["", _hash_tensors(state.items())]
    tokenizer = hashlib.sha256(model.processor.tokenizer.to_str().encode()).hexdigest()
    content = json.dumps([_settings(model.config), weights, tokenizer], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _settings(config: VarsConfig) -> dict[str, Any]:
    kept = {f.name for f in fields(VarsConfig)} - {"backbone", "trained"}
    own = {key: value for key, value in config.settings().items() if key in kept}
    return own | {"backbone": architecture(config.backbone)}


def _hash_tensors(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """In the order of their names, however they are spread over files."""
    digests = sorted((name, _digest(tensor)) for name, tensor in tensors)
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


def _digest(tensor: Tensor) -> str:
    digest = hashlib.sha256(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
