"""The package from outside: import time, the command line, and a bare GPU host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parent.parent / "src")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": SOURCE} | environment
    return subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=False)


@pytest.mark.alone
def test_import_is_instant_and_brings_no_torch() -> None:
    program = (
        "import sys, time; start = time.perf_counter(); import varsdoc; took = time.perf_counter() - start\n"
        "heavy = {'torch', 'transformers', 'numpy', 'PIL', 'rich', 'typer'} & set(sys.modules)\n"
        "print(took); assert not heavy, heavy; assert took < 0.3, took"
    )
    done = run("-c", program)
    assert done.returncode == 0, done.stderr


def test_help_is_quick() -> None:
    program = "import sys; from varsdoc.cli import app\nassert 'torch' not in sys.modules and 'rich' not in sys.modules"
    assert run("-c", program).returncode == 0
    done = run("-m", "varsdoc", "--help")
    assert done.returncode == 0
    assert "info" in done.stdout


def test_output_that_is_redirected_is_utf_8_whatever_the_machine_speaks() -> None:
    program = (
        "import sys, typer; from varsdoc import cli\n"
        "cli.app = lambda: typer.echo('\u043e\u0442\u0447\u0451\u0442')\ncli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": SOURCE, "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout.decode("utf-8").strip()) == (0, "отчёт"), done.stderr


def test_names_of_the_package_resolve() -> None:
    import varsdoc

    for name in varsdoc.__all__:
        assert getattr(varsdoc, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = varsdoc.Nothing


def test_info_prints_json_alone_on_stdout() -> None:
    done = run("-m", "varsdoc", "info", "--json", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["variants"] == 5
    assert facts["prefix"] == "Query: "
    assert facts["dtype"] == "float32"
    assert facts["device"] == "cpu"
    assert facts["max_visual_tokens"] == 1536
    assert len(facts["hash"]) == 16
    assert {"branch_layers", "parameters", "torch", "transformers", "varsdoc", "model"} <= facts.keys()
    assert facts["trained"] is True
    assert done.stderr == ""
    assert "Traceback" not in done.stderr


def test_info_as_a_table_names_the_same_facts() -> None:
    done = run("-m", "varsdoc", "info", "--dtype", "int8", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    for word in ("variants", "branch layers", "31,6", "int8", "Query: ", "transformers"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["info", "--model", "nowhere/at/all"], 1, "error: There is no folder nowhere/at/all"),
        (["info", "--variants", "3"], 1, "error: the packaged checkpoint (varsdoc-nano) has K=5 variants, and K=3"),
        (["info", "--variants", "0"], 1, "error: variants must be 1 or more, not 0"),
        (["info", "--dtype", "float7"], 1, "error: There is no dtype 'float7'"),
        (["info", "--device", "quantum"], 1, "error: There is no device 'quantum'"),
        (["info", "--nonsense"], 2, "No such option"),
    ],
)
def test_errors_are_one_line_with_the_right_code(arguments: list[str], code: int, message: str) -> None:
    done = run("-m", "varsdoc", *arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_model_and_scoring_run_on_a_bare_gpu_host() -> None:
    """From the source tree, with only what the design lists there: every other dependency of ours refused."""
    program = """
import sys
for name in ('rich', 'typer', 'pypdfium2', 'lancedb', 'tensorboard', 'fastapi', 'torchvision', 'hypothesis', 'pytest'):
    sys.modules[name] = None
import numpy as np
from varsdoc.model import VarsDoc
model = VarsDoc.from_pretrained(device='cpu')
page = model.encode_pages([np.zeros((84, 84), np.uint8)])
print(tuple(model.score(model.encode_queries(['hello']), page).variants.shape))
"""
    done = run("-c", program)
    assert done.stdout.strip() == "(1, 1, 5)", done.stderr
