"""The reader of real PDFs: boxes lie on ink, broken files are skipped with a reason, titles and queries come out."""

import numpy as np
import pytest

pytest.importorskip("pypdfium2")

from varsdoc.training.generator.pdf_words import PdfReader

LINES = [
    (24, 720, "Annual Report on Sugar"),
    (11, 680, "The operating income of the factory rose to 42 million dollars in 1987."),
    (11, 662, "Robert Hutchings, Director of Research, presented the results in Geneva."),
    (11, 644, "No defective bearing was observed during the inspection of the boiler house."),
]


def write_pdf(path, lines, box=(0, 0, 612, 792)):
    """A one-page PDF by hand: a page, a standard font, a content stream, and the cross-reference table."""
    stream = "".join(f"BT /F1 {size} Tf 72 {y} Td ({text}) Tj ET\n" for size, y, text in lines).encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [{' '.join(map(str, box))}] /Contents 4 0 R ".encode()
        + b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%sendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, data in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, data)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    body += b"xref\n0 6\n0000000000 65535 f \n%strailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(body),
    )
    path.write_bytes(body)
    return path


@pytest.mark.parametrize("origin", [0, 100])
def test_words_and_boxes_match_the_page(tmp_path, origin):
    shifted = [(size, y + origin, text) for size, y, text in LINES]
    path = write_pdf(tmp_path / "a.pdf", shifted, (0, origin, 612, 792 + origin))
    (sample,) = list(PdfReader([path]))
    assert [word.text for word in sample.words] == " ".join(text for _, _, text in LINES).split()
    assert max(sample.image.shape[:2]) == 1000
    ink = sample.image.min(axis=2) < 128
    covered = np.zeros_like(ink)
    for word in sample.words:
        x0, y0, x1, y1 = (round(v) for v in word.box)
        assert ink[y0 : y1 + 1, x0 : x1 + 1].mean() > 0.1, word
        covered[max(0, y0 - 2) : y1 + 3, max(0, x0 - 2) : x1 + 3] = True
    assert not (ink & ~covered).any()


def test_large_lines_are_titles_and_queries_have_evidence(tmp_path):
    (sample,) = list(PdfReader([write_pdf(tmp_path / "a.pdf", LINES)], grey=True))
    assert [title.text for title in sample.content.titles] == ["Annual Report on Sugar"]
    assert sample.image.ndim == 2
    assert {"title", "phrase", "keywords"} <= {query.kind for query in sample.queries}
    assert all(0 <= i < len(sample.words) for query in sample.queries for i in query.evidence)


def test_a_column_that_jumps_back_up_is_a_new_block(tmp_path):
    (sample,) = list(PdfReader([write_pdf(tmp_path / "a.pdf", [*LINES[1:], (11, 690, "x"), *LINES[:1]])]))
    assert len({word.block for word in sample.words}) > 1


def test_broken_and_empty_files_are_skipped_with_their_reason(tmp_path):
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing else")
    empty = write_pdf(tmp_path / "empty.pdf", [(11, 700, "two words")])
    good = write_pdf(tmp_path / "good.pdf", LINES)
    reader = PdfReader([tmp_path / "broken.pdf", empty, tmp_path / "missing.pdf", good])
    assert len(list(reader)) == 1
    reasons = dict(reader.skipped)
    assert "cannot be opened" in reasons[str(tmp_path / "broken.pdf")]
    assert "only 2 words" in reasons[f"{empty} page 1"]
    assert len(reader.skipped) == 3


def test_reading_twice_gives_the_same_queries(tmp_path):
    path = write_pdf(tmp_path / "a.pdf", LINES)
    first, second = list(PdfReader([path], seed=4)), list(PdfReader([path], seed=4))
    assert first[0].queries == second[0].queries
    assert np.array_equal(first[0].image, second[0].image)
