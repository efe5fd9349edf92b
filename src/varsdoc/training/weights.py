"""Put a checkpoint's weights back into the model that wrote it, in place: optimiser and wrappers keep their tensors."""

from __future__ import annotations

from pathlib import Path

from varsdoc.model import VarsDoc, lora
from varsdoc.model.sources import OWN, outer_name, read_tensors, require_same_tensors, weight_files


def load_weights(model: VarsDoc, folder: Path) -> None:
    """An adapter with probes and heads, or everything; whatever this run trains must be there."""
    wanted = model.state_dict()
    if lora.has_lora(model.backbone):
        lora.fill_adapter(model.backbone, folder, read_tensors([folder / "adapter_model.safetensors"]))
        state = read_tensors([folder / "varsdoc.safetensors"])
        wanted = {name: tensor for name, tensor in wanted.items() if name.startswith(OWN)}
    else:
        state = {outer_name(name): tensor for name, tensor in read_tensors(weight_files(folder)).items()}
    require_same_tensors(state, wanted, str(folder))
    model.load_state_dict(state, strict=False)
