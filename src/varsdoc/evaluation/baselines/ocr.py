"""The text of a page: Tesseract, RapidOCR, or the PDF's own text layer; cached by page content and engine."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from varsdoc.errors import ConfigError, InputError
from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.judged import Page

ENGINES = ("tesseract", "rapidocr", "text-layer")
TIMEOUT_S = 300


@dataclass(frozen=True)
class Ocr:
    """An engine and how it is used.

    engine    tesseract (the program), rapidocr (the package) or text-layer (PDF pages only)
    scale     the page is enlarged this many times first: small print on a 100 dpi scan is read better at 2
    language  of Tesseract's model
    """

    engine: str = "tesseract"
    scale: float = 1.0
    language: str = "eng"

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ConfigError(f"There is no OCR engine {self.engine!r}; use {', '.join(ENGINES)}.")
        if not 0 < self.scale <= 8:
            raise ConfigError(f"The page can be enlarged up to 8 times, not {self.scale}.")
        if not re.fullmatch(r"[A-Za-z_]+(\+[A-Za-z_]+)*", self.language):
            raise ConfigError(f"{self.language!r} is not a Tesseract language like eng or eng+fra.")

    @property
    def space(self) -> str:
        """Names the engine, its version and settings in the cache."""
        return f"ocr-{self.engine}-{_version(self.engine)}-{self.language}-x{self.scale:g}"

    def read(self, page: Page) -> str:
        if self.engine == "text-layer":
            text = page.text_layer()
            if text is None:
                raise InputError(f"Page {page.id} is an image and has no text layer; use tesseract or rapidocr.")
            return text
        image = page.image()
        if self.scale != 1:
            image = image.resize((round(image.width * self.scale), round(image.height * self.scale)), resample=3)
        return _tesseract(image, self.language, page.id) if self.engine == "tesseract" else _rapidocr(image)


def read_texts(
    pages: Sequence[Page], keys: Sequence[str], ocr: Ocr, cache: Cache, done: Callable[[int], None]
) -> list[str]:
    """The text of every page, from the cache where it was read before."""
    texts = []
    for page, key in zip(pages, keys, strict=True):
        text = cache.read_text(ocr.space, key)
        if text is None:
            text = ocr.read(page)
            cache.write_text(ocr.space, key, text)
        texts.append(text)
        done(1)
    return texts


def _tesseract(image: Any, language: str, name: str) -> str:
    data = io.BytesIO()
    image.save(data, "PNG", compress_level=1)
    # Tesseract's own threads slow it down on pages of this size.
    env = os.environ | {"OMP_THREAD_LIMIT": "1"}
    command = [_program(), "stdin", "stdout", "-l", language]
    try:
        run = subprocess.run(
            command, input=data.getvalue(), capture_output=True, env=env, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"Tesseract took more than {TIMEOUT_S} s for page {name}; use a smaller scale.") from error
    if run.returncode:
        reason = (run.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"])[0]
        raise InputError(f"Tesseract failed on page {name} ({reason}).")
    return run.stdout.decode("utf-8", errors="replace")


def _rapidocr(image: Any) -> str:
    import numpy as np

    result = _rapid_engine()(np.asarray(image)[:, :, ::-1])  # it expects BGR, as OpenCV does
    return "\n".join(result.txts or ())


@lru_cache(maxsize=1)
def _rapid_engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError as error:
        raise InputError("RapidOCR is not installed; pip install 'varsdoc[baselines]', or use tesseract.") from error
    return RapidOCR(params={"Global.log_level": "error"})


def _program() -> str:
    found = shutil.which("tesseract")
    if found is None:
        raise InputError("The program tesseract is not here; install it (apt install tesseract-ocr) or use rapidocr.")
    return found


@lru_cache(maxsize=4)
def _version(engine: str) -> str:
    if engine == "tesseract":
        run = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=False)
        return (run.stdout or run.stderr).split("\n")[0].replace("tesseract", "").strip() or "unknown"
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rapidocr" if engine == "rapidocr" else "pypdfium2")
    except PackageNotFoundError as error:
        raise InputError("RapidOCR is not installed; pip install 'varsdoc[baselines]', or use tesseract.") from error
