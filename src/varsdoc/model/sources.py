"""Where a checkpoint lies: a folder, or a hub id that is looked up in the local cache before the network is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from varsdoc.errors import CheckpointError

FILES = ["*.json", "*.safetensors"]
SCALE = ".int8_scale"
OWN = ("probes", "heads.", "query_head.")  # tensors that are ours; the rest is the backbone's
PACKAGED = "varsdoc-nano"  # how an adapter names the packaged checkpoint as its base
_HUB_ID = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


def locate(source: str | Path) -> Path:
    """The folder behind a path or a hub id. A folder on disk is never looked up on the network."""
    try:
        path = Path(source).expanduser()
        if path.is_dir():
            return path
        if path.exists():
            raise CheckpointError(f"{source} is a file; give the folder that holds config.json and the safetensors.")
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{str(source)[:200]!r} is no path that can be opened ({first_line(error)}).") from error
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
        raise CheckpointError(
            f"{name} is neither a folder nor in the hub cache, and could not be fetched ({first_line(error)}); "
            "download it where there is a network and give its folder."
        ) from error


def _complete(folder: Path) -> bool:
    """Whether a cached snapshot holds settings and every weight file that its index names."""
    settings = any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))
    if (folder / "model.safetensors.index.json").is_file():
        return settings and all(path.is_file() for path in _shards(folder))
    return settings and any(folder.glob("*.safetensors"))


def first_line(error: BaseException) -> str:
    """What an error says, on one line and without its full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[:2]) if lines and lines[0].endswith(":") else (lines[0] if lines else type(error).__name__)
    return said.rstrip(".")


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path.parent} has no {path.name}; it is not a checkpoint that varsdoc can read."
        ) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({first_line(error)}).") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a {type(content).__name__} instead of settings.")
    return content


def weight_files(folder: Path) -> list[Path]:
    """The safetensors of a model: one file, or the shards that its index names."""
    if (folder / "model.safetensors.index.json").is_file():
        paths = _shards(folder)
        missing = [path.name for path in paths if not path.is_file()]
        if missing:
            raise CheckpointError(f"{folder} lacks {missing[0]}, which its index names; fetch it again.")
        return paths
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        raise CheckpointError(f"{folder} holds pickled weights only; convert them to safetensors, which run no code.")
    raise CheckpointError(f"{folder} has no model.safetensors; it is not a checkpoint that varsdoc can read.")


def _shards(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    places = read_json(index).get("weight_map")
    names = set(places.values()) if isinstance(places, dict) else set()
    if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise CheckpointError(f"{index} names no files of its own folder; fetch it again.")
    return [folder / name for name in sorted(names)]


def stored_tensors(files: list[Path]) -> Iterator[tuple[str, Tensor]]:
    """Every tensor as it is stored, file by file."""
    for path in files:
        try:
            with safe_open(path, framework="pt") as content:
                for name in content.keys():  # noqa: SIM118 - a safe_open is not a mapping
                    yield name, content.get_tensor(name)
        except FileNotFoundError as error:
            raise CheckpointError(f"{path.parent} lacks {path.name}; fetch or save it again.") from error
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged ({first_line(error)}); fetch or save it again.") from error


def read_tensors(files: list[Path]) -> dict[str, Tensor]:
    """All tensors, int8 ones multiplied by their scale."""
    state = dict(stored_tensors(files))
    scales = {name.removesuffix(SCALE): state.pop(name) for name in list(state) if name.endswith(SCALE)}
    bare = {name for name, tensor in state.items() if not tensor.is_floating_point()}
    if bare != scales.keys():
        name = min(bare ^ scales.keys())
        raise CheckpointError(f"{files[0].parent} has {name} without its scale or the scale alone; save it again.")
    for name, scale in scales.items():
        state[name] = state[name].float() * scale.float()
    return state


def outer_name(name: str) -> str:
    """What a stored tensor is called in a `VarsDoc`."""
    return name if name.startswith(OWN) else "backbone." + name


def require_same_tensors(given: dict[str, Tensor], expected: dict[str, Tensor], source: str) -> None:
    """A tensor too few or too many would silently be left random or unused; one of another shape does not fit."""
    for keys, fault in (
        (expected.keys() - given.keys(), "lacks"),
        (given.keys() - expected.keys(), "has the unexpected"),
    ):
        if keys:
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            raise CheckpointError(
                f"{source} {fault} tensor {min(keys)}{more}; it is damaged or belongs to another architecture."
            )
    for name, tensor in given.items():
        if tensor.shape != expected[name].shape:
            raise CheckpointError(
                f"{source} has {name} with shape {tuple(tensor.shape)}, "
                f"where {tuple(expected[name].shape)} is expected."
            )
