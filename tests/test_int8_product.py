"""Integer products are exact, on processors on which torch's own are not too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from varsdoc import int8_product as module
from varsdoc.int8_product import EXACT_IN_FLOAT32, int8_product


@pytest.fixture(params=[True, False], ids=["torch", "in floats"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not module.torch_is_exact():
        pytest.skip("torch's own are not exact on this processor")
    monkeypatch.setattr(module, "torch_is_exact", lambda: request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("rows", "width", "columns"), [(24, 128, 300), (64, EXACT_IN_FLOAT32, 8), (24, 4096, 8)])
def test_equals_python(rows: int, width: int, columns: int) -> None:
    torch.manual_seed(0)
    a = torch.randint(-127, 128, (rows, width), dtype=torch.int8)
    b = torch.randint(-127, 128, (columns, width), dtype=torch.int8)
    a[0], b[0], b[1] = 127, 127, -127
    expected = (a.long() @ b.long().T).int()
    assert expected[0, 0] == 127 * 127 * width
    assert torch.equal(int8_product(a, b.T), expected)
    out = torch.empty(rows, columns, dtype=torch.int32)
    int8_product(a, b.T, out=out)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("processor", ["AVX2", "AVX512_CORE"])
def test_scores_are_right_on_older_processors(processor: str) -> None:
    """oneDNN takes this variable for what the processor has at most; neither of these has VNNI."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": processor, "OMP_NUM_THREADS": "1"}
    scores = Path(__file__).parent / "scoring" / "test_packed.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(scores), "-k", "residual"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
