"""Triton kernels run in its interpreter where there is no GPU. It decides when it is first imported, so it is told here."""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
