"""What a page looks like: PDFs as a reader shows them, pictures upright on white, text as a searcher wants it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from pages import made
from varsdoc.errors import InputError
from varsdoc.pages import DocumentEnd, Limits, Page, page_id, render_one
from varsdoc.pages.text import normalise


def pages(*paths: Path, **options: object) -> list[Page]:
    items = made.read_all(*paths, **options)  # type: ignore[arg-type]
    assert all(item.ok for item in items if isinstance(item, DocumentEnd)), items
    return [item for item in items if isinstance(item, Page)]


def one(path: Path, data: bytes, **options: object) -> Page:
    path.write_bytes(data)
    (page,) = pages(path, **options)
    return page


def darkness(page: Page) -> np.ndarray:
    return 255 - np.asarray(page.image().convert("L")).astype(int)


def test_a_pdf_page_is_1600_pixels_long_and_carries_its_text(tmp_path: Path) -> None:
    page = one(tmp_path / "a.pdf", made.pdf(["Operating income"]))
    assert (page.width, page.height) == page.image().size == (1131, 1600)
    assert (page.number, page.count, page.text) == (0, 1, "Operating income")
    assert page.id == page_id(str(tmp_path / "a.pdf"), 0)
    assert darkness(page).max() > 200


def test_a_small_pdf_page_is_drawn_at_300_dpi_and_not_blown_up(tmp_path: Path) -> None:
    assert (lambda page: (page.width, page.height))(one(tmp_path / "a.pdf", made.pdf(size=(144, 72)))) == (600, 300)


@pytest.mark.parametrize(
    "size", [(595.27, 841.89), (841.89, 595.27), (612.01, 791.999), (33.3, 1000.7), (14400, 14400)]
)
def test_fractional_and_large_pdf_pages_stay_within_the_long_side(tmp_path: Path, size: tuple[float, float]) -> None:
    page = one(tmp_path / "a.pdf", made.pdf(size=size), long_side=800)
    assert max(page.width, page.height) == 800


def test_a_rotated_pdf_page_is_shown_turned(tmp_path: Path) -> None:
    straight = one(tmp_path / "a.pdf", made.pdf())
    turned = one(tmp_path / "b.pdf", made.pdf(entries=b"/Rotate 90"))
    assert (turned.width, turned.height) == (straight.height, straight.width)
    expected = np.rot90(darkness(straight), -1)
    assert np.abs(darkness(turned) - expected).mean() < 2


def test_annotations_and_form_values_are_drawn(tmp_path: Path) -> None:
    square = b"<< /Type /Annot /Subtype /Square /Rect [100 100 400 400] /C [0 0 0] /IC [0 0 0] /AP << /N 5 0 R >> >>"
    look = made.stream(b"0 0 0 rg 0 0 300 300 re f", b"/Type /XObject /Subtype /Form /BBox [0 0 300 300]")
    page = one(tmp_path / "a.pdf", made.pdf(["%"], more=[square, look], entries=b"/Annots [4 0 R]"))
    assert darkness(page)[1200, 400] > 200

    field = b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V (x) /F 4 /Rect [100 100 400 400] /AP << /N 5 0 R >> >>"
    form = made.pdf(["%"], more=[field, look], entries=b"/Annots [4 0 R]")
    form = form.replace(b"/Pages 2 0 R", b"/Pages 2 0 R /AcroForm << /Fields [4 0 R] >>")
    assert darkness(one(tmp_path / "b.pdf", form))[1200, 400] > 200


def test_text_is_bounded_and_left_out_where_not_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    assert one(path, made.pdf(["word " * 50]), limits=Limits(max_text=30)).text == ("word " * 6).strip()
    assert one(path, made.pdf(["word"]), text=False).text is None
    assert one(path, made.pdf(["%"])).text is None


def test_a_word_hyphenated_at_the_end_of_a_line_is_one_word(tmp_path: Path) -> None:
    drawn = "%\nBT /F1 12 Tf 60 700 Td (the efficient fron-) Tj 0 -14 Td (tier of 2019-) Tj 0 -14 Td (2020) Tj ET"
    path = tmp_path / "a.pdf"
    assert one(path, made.pdf([drawn])).text == "the efficient frontier of 2019-\n2020"
    assert one(path, made.pdf([drawn]), limits=Limits(max_text=30)).text == "the efficient frontier of 201"


def test_text_is_whole_words_of_plain_letters() -> None:
    assert (
        normalise("of\ufb01ce  \t hours\r\n\r\n\r\nco\u00adoperate fron\ufffe\r\ntier", 100)
        == "office hours\ncooperate frontier"
    )
    assert normalise("a\x00b\u200b\ud800c e\u0301 10\u00b2", 100) == "a b c \u00e9 10\u00b2"


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16", "I", "F", "CMYK", "YCbCr"])
def test_every_colour_mode_becomes_the_same_picture(tmp_path: Path, mode: str) -> None:
    grey = Image.new("L", (200, 100), 250)
    grey.paste(20, (0, 0, 100, 100))
    image = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257) if mode == "I;16" else grey.convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, "TIFF" if mode in ("CMYK", "YCbCr", "F", "I") else "PNG")
    page = one(tmp_path / "picture", buffer.getvalue())
    pixels = np.asarray(page.image()).astype(int)
    assert (page.width, page.height) == (200, 100)
    assert pixels[50, 20].max() < 45
    assert pixels[50, 180].min() > 225


def test_transparent_is_white_and_exif_is_applied(tmp_path: Path) -> None:
    clear = io.BytesIO()
    Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(clear, "PNG")
    assert darkness(one(tmp_path / "a.png", clear.getvalue())).max() < 3
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    turned = one(tmp_path / "b.jpg", made.picture(format="JPEG", exif=exif.tobytes()))
    assert (turned.width, turned.height) == (100, 200)
    assert darkness(turned)[20].mean() > 200 > 50 > darkness(turned)[180].mean()


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_an_upright_jpeg_within_the_size_is_kept_byte_for_byte(tmp_path: Path, mode: str) -> None:
    data = made.picture(mode, format="JPEG", quality=77)
    page = one(tmp_path / "a.jpg", data)
    assert page.jpeg == data
    assert page.image().mode == "RGB"
    again = one(tmp_path / "a.jpg", data, long_side=100)
    assert again.jpeg != data
    assert (again.width, again.height) == (100, 50)


def test_a_large_jpeg_shrunk_by_its_decoder_looks_like_one_shrunk_from_all_pixels(tmp_path: Path) -> None:
    scan = Image.new("RGB", (4000, 2000), "white")
    pen = ImageDraw.Draw(scan)
    for line in range(24):
        pen.text(
            (100, 40 + 80 * line), f"Line {line}: income of {line * 37} million", "black", ImageFont.load_default(60)
        )
    buffer = io.BytesIO()
    scan.save(buffer, "JPEG", quality=95)
    page = one(tmp_path / "a.jpg", buffer.getvalue(), long_side=800)
    plain = np.asarray(scan.resize((800, 400), Image.Resampling.LANCZOS).convert("L")).astype(int)
    difference = np.abs(255 - darkness(page) - plain)
    assert difference.mean() < 2 < plain.std()


def test_only_the_first_frame_of_an_animation_is_a_page_and_every_frame_of_a_tiff(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (60, 40), colour) for colour in ("black", "white", "red")]
    for kind in ("GIF", "WEBP", "PNG", "TIFF"):
        frames[0].save(tmp_path / kind.lower(), kind, save_all=True, append_images=frames[1:])
    got = {kind: pages(tmp_path / kind) for kind in ("gif", "webp", "png", "tiff")}
    assert [len(found) for found in got.values()] == [1, 1, 1, 3]
    assert all(darkness(found[0]).min() > 230 for found in got.values())
    assert [int(np.asarray(page.image())[20, 20, 0] > 128) for page in got["tiff"]] == [0, 1, 1]


def test_a_comment_or_location_in_the_source_does_not_travel_with_a_new_jpeg(tmp_path: Path) -> None:
    data = made.picture(format="JPEG", size=(400, 200), comment=b"private", exif=b"Exif\0\0private")
    assert b"private" not in one(tmp_path / "a.jpg", data, long_side=100).jpeg


def test_one_page_renders_alone_and_equal_to_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(made.pdf([f"Page {n}" for n in range(7)]))
    streamed = pages(path)
    alone = render_one(str(path), 5, text=True)
    assert (alone.jpeg, alone.text, alone.count) == (streamed[5].jpeg, "Page 5", 7)
    with pytest.raises(InputError, match="It has 7 pages; there is no page 8"):
        render_one(str(path), 7)
    with pytest.raises(InputError, match="changed while"):
        render_one(str(path), 0, content_hash="0" * 64)
    with pytest.raises(InputError, match="No such file"):
        render_one(str(tmp_path / "gone.pdf"), 0)
