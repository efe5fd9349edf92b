"""Which encoder and codec a collection was made with. Vectors of two encoders cannot be compared.

Compared: the checkpoint's hash (weights, adapter, tokenizer, prefix, prompt, token cap, K, n), the codec and its
options, the size of the pictures that were encoded. Recorded only: where the checkpoint was found, dtype, versions.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsdoc.errors import FingerprintError

if TYPE_CHECKING:
    from varsdoc.model import VarsDoc

LIBRARIES = ("torch", "transformers", "lancedb", "pillow", "pypdfium2")


@dataclass(frozen=True)
class Fingerprint:
    """One encoder with one codec."""

    model: str | None  # None: the checkpoint in the package; a hub id; or an absolute folder
    hash: str
    variants: int
    branch_layers: int
    dim: int
    query_prefix: str
    max_visual_tokens: int
    codec: str
    codec_options: Mapping[str, Any] = field(default_factory=dict)
    long_side: int = 1600
    images: bool = True  # recorded: whether page pictures are stored
    dtype: str = "float32"  # recorded
    versions: Mapping[str, str] = field(default_factory=dict)  # recorded

    @property
    def key(self) -> str:
        """What must be equal, in 16 hex digits."""
        options = json.dumps(dict(self.codec_options), sort_keys=True)
        text = "\0".join([self.hash, self.codec, options, str(self.long_side)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def encoder(self) -> str:
        """In words, for a sentence."""
        return f"{self.model or 'the packaged checkpoint'} (hash {self.hash}, K={self.variants})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Fingerprint:
        return cls(**facts)


def of_model(model: VarsDoc, codec: str, codec_options: Mapping[str, Any], images: bool, long_side: int) -> Fingerprint:
    """The fingerprint of a loaded model with a codec."""
    config = model.config
    return Fingerprint(
        model=model_name(model),
        hash=model.checkpoint_hash,
        variants=config.variants,
        branch_layers=config.branch_layers,
        dim=config.dim,
        query_prefix=config.query_prefix,
        max_visual_tokens=config.max_visual_tokens,
        codec=codec,
        codec_options=dict(codec_options),
        long_side=long_side,
        images=images,
        dtype=model.compute_dtype,
        versions=_versions(),
    )


def model_name(model: VarsDoc) -> str | None:
    """What `VarsDoc.from_pretrained` needs to load it again."""
    if model.source.startswith("the packaged checkpoint"):
        return None
    folder = Path(model.source)
    return str(folder.resolve()) if folder.is_dir() else model.source


def load_model(found: Fingerprint, device: str | None = None, dtype: str | None = None) -> VarsDoc:
    """The encoder that a collection was made with; refused where it is not the same any more."""
    from varsdoc.errors import VarsDocError
    from varsdoc.model import VarsDoc

    try:
        model = VarsDoc.from_pretrained(
            found.model,
            variants=found.variants,
            branch_layers=found.branch_layers,
            max_visual_tokens=found.max_visual_tokens,
            query_prefix=found.query_prefix,
            device=device,
            dtype=dtype,
        )
    except VarsDocError as error:
        raise FingerprintError(
            f"The encoder of this collection, {found.encoder}, cannot be loaded ({str(error).rstrip('.')}); give it "
            "with --model (model=...), or run `varsdoc reindex` with another one."
        ) from error
    require_same_encoder(found, model)
    return model


def require_same_encoder(found: Fingerprint, model: VarsDoc) -> None:
    """A sentence that names both where they differ."""
    have = model.checkpoint_hash
    if have != found.hash:
        raise FingerprintError(
            f"This collection was made with {found.encoder}, and the encoder at hand is "
            f"{model_name(model) or 'the packaged checkpoint'} (hash {have}, K={model.config.variants}); open it with "
            "its own, or run `varsdoc reindex` to encode it anew."
        )


def _versions() -> dict[str, str]:
    from varsdoc import __version__

    found = {"varsdoc": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
