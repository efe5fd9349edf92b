"""Any picture -> upright 8-bit RGB, the one form in which a page enters the model.

EXIF rotation is applied, transparency is laid over white (paper, not black), 16-bit greys are scaled rather than
clipped. Whatever cannot be read becomes an `InputError` with one sentence, here and not deep inside Pillow.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from PIL import Image, ImageOps, UnidentifiedImageError

from varsdoc.errors import InputError

if TYPE_CHECKING:  # half of a rendering worker's start would be NumPy's, which few pictures need
    import numpy as np

# Pillow refuses twice its MAX_IMAGE_PIXELS as a decompression bomb: an A4 page at 1,200 dpi is 140 million pixels.
MAX_PIXELS = 178_956_970
MAX_ASPECT = 200

ImageLike: TypeAlias = "Image.Image | np.ndarray | str | Path | bytes"


def read_image(source: ImageLike, name: str = "the page") -> Image.Image:
    """Open what a person may call a page image and make it upright 8-bit RGB.

    >>> import numpy as np
    >>> read_image(np.zeros((2, 3), dtype=np.uint8)).size
    (3, 2)
    >>> read_image(b"")
    Traceback (most recent call last):
    varsdoc.errors.InputError: the page is empty (0 bytes); give an image file that has content.
    """
    if isinstance(source, str | Path):
        name = str(source)
        source = _read_bytes(Path(source))
    if isinstance(source, bytes):
        if not source:
            raise InputError(f"{name} is empty (0 bytes); give an image file that has content.")
        source = _open(source, name)
    if not isinstance(source, Image.Image):
        source = _from_array(source, name)
    return _upright_rgb(source, name)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def _open(data: bytes, name: str) -> Image.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            return Image.open(io.BytesIO(data))
        except Image.DecompressionBombError as error:
            raise InputError(f"{name} has more than {MAX_PIXELS:,} pixels; scale it down first.") from error
        except UnidentifiedImageError as error:
            raise InputError(f"{name} is not an image that Pillow can read; convert it to PNG or JPEG.") from error
        except Exception as error:  # damaged headers raise what they like: OSError, SyntaxError, struct.error
            raise InputError(f"{name} is a damaged image ({_reason(error)}).") from error


def _from_array(array: Any, name: str) -> Image.Image:
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise InputError(
            f"{name} is a {type(array).__name__}; give a Pillow image, a NumPy array, a path or the file's bytes."
        )
    shape_ok = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if not shape_ok or 0 in array.shape:
        raise InputError(f"{name} has shape {array.shape}; give (height, width) or (height, width, 3 or 4).")
    if array.dtype == np.uint16 and array.ndim == 2:
        return Image.fromarray(array)
    if array.dtype != np.uint8:
        raise InputError(f"{name} has dtype {array.dtype}; give 8-bit values (uint8) from 0 to 255.")
    return Image.fromarray(array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array)


def _upright_rgb(image: Image.Image, name: str) -> Image.Image:
    width, height = image.size
    if width * height == 0:
        raise InputError(f"{name} is {width} x {height} pixels; a page needs at least one.")
    if width * height > MAX_PIXELS:
        raise InputError(f"{name} is {width} x {height} pixels, more than {MAX_PIXELS:,}; scale it down first.")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise InputError(
            f"{name} is {width} x {height} pixels: one side is over {MAX_ASPECT} times the other; crop it or pad it."
        )
    try:
        return _to_rgb(ImageOps.exif_transpose(image))
    except MemoryError:  # the machine's fault or the limit's, not the picture's
        raise
    except Exception as error:  # truncated data surfaces only now, in a dozen types
        raise InputError(f"{name} is a damaged image ({_reason(error)}).") from error


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        return _eight_bit(image).convert("RGB")
    if image.mode in ("La", "RGBa"):
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    if image.has_transparency_data:
        page = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(page, image.convert("RGBA")).convert("RGB")
    if image.mode == "RGB":
        image.load()
        return image
    return image.convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """16-bit greys by 257, so that 65535 becomes 255; floats from 0..1, or from 0..255.

    Mode I is 32 bits wide and says nothing of its range: values up to 255 are taken as 8-bit, larger ones as 16-bit.
    """
    import numpy as np

    values = np.nan_to_num(np.asarray(image).astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    if image.mode == "F":
        scale = 255.0 if values.max() <= 1.0 else 1.0
    else:
        scale = 1.0 if image.mode == "I" and values.max() <= 255 else 1 / 257
    return Image.fromarray(np.clip(np.rint(values * scale), 0, 255).astype(np.uint8))


def _reason(error: Any) -> str:
    return (str(error).strip().rstrip(".").splitlines() or [type(error).__name__])[0]
