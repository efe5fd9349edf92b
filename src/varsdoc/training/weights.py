"""Put a checkpoint's weights back into the model that wrote it, in place: optimiser and wrappers keep their tensors."""

from __future__ import annotations

from pathlib import Path

from peft.utils import set_peft_model_state_dict

from varsdoc.errors import CheckpointError
from varsdoc.model import VarsDoc, lora
from varsdoc.model.sources import OWN, read_tensors, require_same_keys, weight_files


def load_weights(model: VarsDoc, folder: Path) -> None:
    """An adapter with probes and heads, or everything; whatever this run trains must be there."""
    if lora.has_lora(model.backbone):
        adapter = read_tensors([folder / "adapter_model.safetensors"])
        plain = {name.removeprefix(lora.PREFIX): tensor for name, tensor in adapter.items()}
        expected = {name.removeprefix(lora.PREFIX) for name in lora.adapter_state(model.backbone)}
        require_same_keys(set(plain), expected, str(folder))
        set_peft_model_state_dict(model.backbone, plain, adapter_name=lora.ADAPTER)
        state = read_tensors([folder / "varsdoc.safetensors"])
        wanted = {name for name in model.state_dict() if name.startswith(OWN)}
    else:
        stored = read_tensors(weight_files(folder))
        state = {name if name.startswith(OWN) else "backbone." + name: tensor for name, tensor in stored.items()}
        wanted = set(model.state_dict())
    require_same_keys(set(state), wanted, str(folder))
    try:
        model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise CheckpointError(f"{folder} does not fit this config ({str(error).splitlines()[-1].strip()}).") from error
