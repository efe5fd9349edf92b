"""Where and in which precision a model computes."""

from __future__ import annotations

import torch

from varsdoc.errors import ConfigError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str | torch.device | None) -> torch.device:
    """The named device, or the GPU where there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f"There is no device {device!r}; use cpu, cuda, cuda:1 or mps.") from error
    if chosen.type not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"There is no device {device!r} that varsdoc computes on; use cpu, cuda, cuda:1 or mps.")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"Device {device} was asked for, but this machine has {torch.cuda.device_count()} CUDA devices."
        )
    if chosen.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("Device mps was asked for, but this machine has none; use cpu.")
    return chosen


def choose_dtype(dtype: str | torch.dtype | None, device: torch.device) -> str:
    """float32 on CPU, bfloat16 on a GPU, unless named. int8 is the CPU option."""
    if dtype is None:
        return "bfloat16" if device.type == "cuda" else "float32"
    name = str(dtype).removeprefix("torch.")
    if name not in (*DTYPES, "int8"):
        raise ConfigError(f"There is no dtype {name!r}; use float32, bfloat16, float16 or int8.")
    if name == "int8" and device.type not in ("cpu", "meta"):
        instead = "float32" if device.type == "mps" else "bfloat16"
        raise ConfigError(f"dtype int8 is for the CPU, not {device.type}; use {instead} there.")
    if device.type == "mps" and name != "float32":
        raise ConfigError(f"dtype {name} is not for mps, where torch's causal attention is wrong in it; use float32.")
    return name
