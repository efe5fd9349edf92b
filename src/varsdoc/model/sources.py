"""Where a checkpoint lies: a folder, or a hub id that is looked up in the local cache before the network is asked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from varsdoc.errors import CheckpointError

FILES = ["*.json", "*.safetensors"]
SCALE = ".int8_scale"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def locate(source: str | Path) -> Path:
    """The folder behind a path or a hub id. A folder on disk is never looked up on the network."""
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise CheckpointError(f"{source} is a file; give the folder that holds config.json and the safetensors.")
    if isinstance(source, Path) or not _HUB_ID.fullmatch(str(source)):
        raise CheckpointError(f"There is no folder {source}; give an existing one or a hub id like owner/name.")
    return _from_hub(str(source))


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        cached = Path(snapshot_download(name, allow_patterns=FILES, local_files_only=True))
        if _complete(cached):
            return cached
    except Exception:  # not cached: any reason leads to the network
        pass
    try:
        return Path(snapshot_download(name, allow_patterns=FILES))
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise CheckpointError(
            f"{name} is neither a folder nor in the hub cache, and could not be fetched "
            f"({reason[0].rstrip('.') if reason else type(error).__name__}); download it where there is a network "
            "and give its folder."
        ) from error


def _complete(folder: Path) -> bool:
    """Whether a cached snapshot holds settings and every weight file that its index names."""
    settings = any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return settings and all((folder / name).is_file() for name in set(read_json(index)["weight_map"].values()))
    return settings and any(folder.glob("*.safetensors"))


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path.parent} has no {path.name}; it is not a checkpoint that varsdoc can read."
        ) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({str(error).splitlines()[0]}).") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a {type(content).__name__} instead of settings.")
    return content


def weight_files(folder: Path) -> list[Path]:
    """The safetensors of a model: one file, or the shards that its index names."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
        missing = [name for name in names if not (folder / name).is_file()]
        if missing or not names:
            raise CheckpointError(
                f"{index} names {missing[0] if missing else 'no file'}, which is not there; fetch it again."
            )
        return [folder / name for name in names]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        raise CheckpointError(f"{folder} holds pickled weights only; convert them to safetensors, which run no code.")
    raise CheckpointError(f"{folder} has no model.safetensors; it is not a checkpoint that varsdoc can read.")


def stored_tensors(files: list[Path]) -> Iterator[tuple[str, Tensor]]:
    """Every tensor as it is stored, file by file."""
    for path in files:
        try:
            with safe_open(path, framework="pt") as content:
                for name in content.keys():  # noqa: SIM118 - a safe_open is not a mapping
                    yield name, content.get_tensor(name)
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} is damaged ({str(error).splitlines()[0]}); fetch or save it again."
            ) from error


def read_tensors(files: list[Path]) -> dict[str, Tensor]:
    """All tensors, int8 ones multiplied by their scale."""
    state = dict(stored_tensors(files))
    scales = {name: state.pop(name) for name in list(state) if name.endswith(SCALE)}
    for name, scale in scales.items():
        target = name.removesuffix(SCALE)
        if target not in state:
            raise CheckpointError(f"{files[0].parent} has a scale for {target} but not the tensor; it is damaged.")
        state[target] = state[target].float() * scale.float()
    return state


def hash_tensors(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """SHA-256 over tensors in the order of their names, however they are spread over files."""
    digests = sorted((name, _digest(tensor)) for name, tensor in tensors)
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


def _digest(tensor: Tensor) -> str:
    digest = hashlib.sha256(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
