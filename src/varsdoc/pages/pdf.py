"""A PDF -> its pages as JPEGs with their text layer. Only ever run in a worker: PDFium is C++ fed by strangers.

A page is drawn so that its long side is 1,600 pixels, but with no more than 300 dots an inch: A4 comes at 137 dpi, a
slide of 10 inches at 160, a business card at 300 (1,000 pixels) rather than blown up. Rotation, annotations and
filled-in forms are drawn as a reader shows them.
"""

from __future__ import annotations

import contextlib
import math

import pypdfium2
import pypdfium2.raw as raw

from varsdoc.errors import InputError
from varsdoc.image import MAX_ASPECT
from varsdoc.pages.pictures import encode
from varsdoc.pages.settings import Picture, Settings
from varsdoc.pages.text import normalise

MAX_DPI = 300
MAX_POINTS = 100_000  # 35 metres: beyond any poster
_POINTS_PER_INCH = 72

_REASONS = {
    raw.FPDF_ERR_PASSWORD: "It is encrypted and needs a password; save a copy without one.",
    raw.FPDF_ERR_SECURITY: "It is encrypted in a way that PDFium does not know; save a copy without encryption.",
    raw.FPDF_ERR_SUCCESS: "It is a PDF with no pages.",
}


class PdfFile:
    def __init__(self, data: bytes, settings: Settings):
        self.settings = settings
        try:
            self.pdf = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            damaged = "It is a damaged PDF that cannot be opened; try to repair it or export it again."
            raise InputError(_REASONS.get(getattr(error, "err_code", None), damaged)) from error
        with contextlib.suppress(pypdfium2.PdfiumError):  # else drawn without the form's values
            self.pdf.init_forms()
        self.count = len(self.pdf)

    def page(self, number: int) -> Picture:
        try:
            page = self.pdf.get_page(number)
        except pypdfium2.PdfiumError as error:
            raise InputError("The page is damaged and cannot be opened.") from error
        try:
            width, height = page.get_size()
            bitmap = page.render(scale=scale(width, height, self.settings.long_side), rev_byteorder=True)
            image = bitmap.to_pil()
            text = self._text(page) if self.settings.text else None
            return encode(image, self.settings.quality, text)
        except (pypdfium2.PdfiumError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"The page cannot be drawn ({error}).") from error
        finally:
            page.close()

    def _text(self, page: pypdfium2.PdfPage) -> str | None:
        """What can be copied from the visible page; a broken text layer costs the text and not the page."""
        most = self.settings.limits.max_text
        try:
            layer = page.get_textpage()
            long = layer.count_chars() > most
            text = layer.get_text_range(0, most) if long else layer.get_text_bounded()
            layer.close()
        except (pypdfium2.PdfiumError, AssertionError, ValueError):
            return None
        return normalise(text, most) or None

    def close(self) -> None:
        self.pdf.close()


def scale(width: float, height: float, long_side: int) -> float:
    """Pixels per point for a page of `width` x `height` points.

    >>> round(scale(595, 842, 1600) * 842), scale(72, 36, 1600) * 72
    (1600, 300.0)
    """
    if not (math.isfinite(width) and math.isfinite(height)) or min(width, height) <= 0:
        raise InputError(f"The page says it is {width:g} x {height:g} points large, which no page is.")
    if max(width, height) > MAX_POINTS:
        raise InputError(
            f"The page says it is {width:g} x {height:g} points large, more than {MAX_POINTS:,} (35 metres)."
        )
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise InputError(f"The page is {width:g} x {height:g} points: one side is over {MAX_ASPECT} times the other.")
    fit = long_side / max(width, height)
    while math.ceil(max(width, height) * fit) > long_side:  # pypdfium2 rounds up
        fit *= 1 - 1e-7
    return min(fit, MAX_DPI / _POINTS_PER_INCH)
