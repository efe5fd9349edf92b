"""Packs of made-up real pages, and scripts as modules, for the tests of the reading stage."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType

from PIL import Image, ImageDraw

from varsdoc.training.reading.packs import PackedPage, PackWriter, Printed

ROOT = Path(__file__).parents[1]


def script(name: str, folder: str = "scripts") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))  # where a script finds its neighbours
    spec.loader.exec_module(module)
    return module


TEXT = "annual report of the steel company net income rose in europe asia africa while costs fell by half"
NAMES = TEXT.split()


def picture(grey: bool = True) -> tuple[Image.Image, list[Printed]]:
    """A white page with a black block for each word: ink is where a box says."""
    image = Image.new("L" if grey else "RGB", (620, 800), "white")
    draw, words = ImageDraw.Draw(image), []
    for i, name in enumerate(NAMES):
        x, y = 40 + (i % 4) * 140, 60 + (i // 4) * 120
        draw.rectangle((x, y, x + 90, y + 20), fill="black")
        words.append(Printed(name, (x / 620, y / 800, (x + 90) / 620, (y + 20) / 800), sure=name != "asia"))
    return image, words


def packed(name: str, grey: bool = True, questions: tuple[str, ...] = ()) -> PackedPage:
    image, words = picture(grey)
    data = io.BytesIO()
    image.save(data, "WEBP", lossless=True)
    return PackedPage(name, data.getvalue(), words, questions)


def pack_folder(root: Path, count: int = 5, limit: int = 1 << 20) -> list[Path]:
    writer = PackWriter(root, "set", limit, {"source": "a test", "licence": "none"})
    for i in range(count):
        writer.add(packed(f"page {i}", i % 2 == 0, ("What net income had the company in Europe?", "What is it?")))
    writer.flush()
    return writer.written
