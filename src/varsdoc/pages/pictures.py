"""A picture file -> its pages as JPEGs. Declared sizes are checked before a pixel is decoded."""

from __future__ import annotations

import io
import math
import warnings

from PIL import Image

from varsdoc.errors import InputError
from varsdoc.image import read_image
from varsdoc.pages.kinds import PICTURES
from varsdoc.pages.settings import Picture, Settings

_UPRIGHT = 1
_ORIENTATION = 0x0112


class PictureFile:
    """Of an animation only the first frame is a page; only TIFF has several."""

    def __init__(self, data: bytes, kind: str, settings: Settings):
        self.data, self.settings = data, settings
        limits = settings.limits
        Image.MAX_IMAGE_PIXELS = max(1, limits.max_pixels // 2)  # Pillow refuses beyond twice this, within open()
        warnings.simplefilter("ignore")
        try:
            self.image = Image.open(io.BytesIO(data), formats=[PICTURES[kind]])
            self.count = int(getattr(self.image, "n_frames", 1)) if kind == "tiff" else 1
        except Image.DecompressionBombError:
            raise InputError(f"It has more than {limits.max_pixels:,} pixels; scale it down first.") from None
        except MemoryError:
            raise
        except Exception as error:
            raise InputError(f"It is a damaged {kind.upper()} ({_first_line(error)}).") from error

    def page(self, number: int) -> Picture:
        limits, image = self.settings.limits, self.image
        if self.count > 1:
            try:
                image.seek(number)
            except Exception as error:
                raise InputError(f"The page is damaged ({_first_line(error)}).") from error
        width, height = image.size
        if width * height > limits.max_pixels:
            raise InputError(f"It is {width} x {height} pixels, more than {limits.max_pixels:,}; scale it down first.")
        if self._passes_through():
            read_image(image, "It")  # decodes all of it: a truncated file must not pass
            return Picture(self.data, width, height)
        if image.format in ("JPEG", "MPO"):
            self._draft()
        upright = read_image(image, "It")
        return encode(bounded(upright, self.settings.long_side), self.settings.quality)

    def _passes_through(self) -> bool:
        """An upright RGB or grey JPEG within the size is kept byte for byte: a second compression only loses."""
        image = self.image
        return (
            image.format == "JPEG"
            and image.mode in ("RGB", "L")
            and max(image.size) <= self.settings.long_side
            and len(self.data) <= 3 * image.width * image.height + (64 << 10)  # no pages of baggage behind the picture
            and image.getexif().get(_ORIENTATION, _UPRIGHT) == _UPRIGHT
        )

    def _draft(self) -> None:
        """Let the JPEG decoder itself shrink what is over twice the size: an eighth of the time and memory."""
        ratio = 2 * self.settings.long_side / max(self.image.size)
        if ratio < 1 and self.image.mode in ("RGB", "L"):
            self.image.draft(
                self.image.mode, (math.ceil(self.image.width * ratio), math.ceil(self.image.height * ratio))
            )

    def close(self) -> None:
        self.image.close()


def bounded(image: Image.Image, long_side: int) -> Image.Image:
    """Within `long_side`, never enlarged.

    >>> bounded(Image.new("RGB", (300, 100)), 150).size, bounded(Image.new("RGB", (30, 10)), 150).size
    ((150, 50), (30, 10))
    """
    ratio = long_side / max(image.size)
    if ratio >= 1:
        return image
    size = (max(1, round(image.width * ratio)), max(1, round(image.height * ratio)))
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def encode(image: Image.Image, quality: int, text: str | None = None) -> Picture:
    buffer = io.BytesIO()
    image.info = {}  # Pillow would copy the source's comment into the JPEG
    image.save(buffer, "JPEG", quality=quality)
    return Picture(buffer.getvalue(), image.width, image.height, text)


def _first_line(error: Exception) -> str:
    return (str(error).strip().rstrip(".").splitlines() or [type(error).__name__])[0][:200]
