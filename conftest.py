"""Triton kernels run in Triton's interpreter where there is no GPU. It decides on first import, so it is told here."""

from __future__ import annotations

import importlib.util
import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
# Modules that import Triton cannot be searched for doctests where there is none (macOS, Windows).
collect_ignore_glob = [] if importlib.util.find_spec("triton") else ["src/varsdoc/scoring/fused*.py"]
