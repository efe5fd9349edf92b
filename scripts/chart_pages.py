"""Charts with titles, captions and tables (a checkout of vis-nlp/Chart-to-text) as a judged folder for training.

    python scripts/chart_pages.py CHECKOUT TARGET --each 2000 --clear JUDGED_FOLDER... [--words OCR.jsonl...]

Takes up to --each charts of each of its four parts (Statista and Pew, one column and several), in an order that does
not depend on the machine. What is asked about a chart: its title, the sentences of its caption, and questions put
together from its title and the rows and columns of its table; the picture often does not show the title, as people
who ask about a chart know what it is about. Then `scripts/ocr_words.py TARGET PACKS --psm 11 --turned 90 45 --titles
TARGET/titles.txt` reads the charts; titles.txt is what tables call their columns, as charts call their axes.

ChartQA's charts come from the same pages of the same publishers. --clear leaves out every chart that looks like one of
these folders' or prints its numbers, where --words gives what was read on those (ocr.jsonl of scripts/ocr_words.py).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from varsdoc.errors import InputError
from varsdoc.image import read_image
from varsdoc.training.generator import templates

PARTS = {
    "statista": "statista_dataset/dataset",
    "statista-multi": "statista_dataset/dataset/multiColumn",
    "pew": "pew_dataset/dataset",
    "pew-multi": "pew_dataset/dataset/multiColumn",
}
ALIKE = 0.93  # correlation of two charts in 32 x 32 pixels from which they count as one
SAME = 0.6  # share of a chart's numbers that another prints from which they count as one
LONG_SIDE = 640  # as ChartQA's charts come
QUESTIONS = 8
OPENING = re.compile(
    r"^(the|this) (statistic|graph|chart|survey|timeline|ranking|figure)s? "
    r"(shows?|depicts?|presents?|illustrates?|displays?|gives?|represents?|provides?|portrays?|describes?) ",
    re.IGNORECASE,
)
TIME = re.compile(r",? (from|between|in|as of|since|for|of) ([A-Z]\w+ )?(\d{1,2}, )?\d{4}\b.*$")
PLAIN = templates.CHART_ONE + templates.CHART_MOST + templates.CHART_LEAST + templates.CHART_PAIR
MANY = [form for form in templates.CHART_MANY + templates.CHART_SERIES if "{colour}" not in form]


@dataclass(frozen=True)
class Chart:
    name: str
    image: Path
    title: str
    caption: str
    table: list[list[str]]  # the header first; empty where there is none


def tidy(text: str) -> str:
    """Text that was cut into tokens, as people write it.

    >>> tidy("Visits to Bing.com ( in millions ) , U.S. 's share : 54 %")
    "Visits to Bing.com (in millions), U.S.'s share: 54%"
    """
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" ([,.;:%)?!]|'s\b)", r"\1", text)
    return re.sub(r"([($]) ", r"\1", text)


def subject_of(title: str) -> str:
    """What a chart is about, without its unit, its years and how it is divided.

    >>> subject_of("Number of cases in Europe as of January 3, 2021, by country")
    'Number of cases in Europe'
    >>> subject_of("Visits to Bing.com from May 2019 to September 2020 (in millions)")
    'Visits to Bing.com'
    >>> subject_of("Turkmenistan: Unemployment rate from 1999 to 2020")
    'Unemployment rate of Turkmenistan'
    """
    short = re.sub(r"\s*\([^)]*\)", "", title)
    short = TIME.sub("", short)
    short = re.sub(r",? by [\w ]{3,30}$", "", short).strip(" ,")
    place, colon, what = short.partition(": ")
    return (f"{what} of {place}" if colon and what and len(place.split()) < 4 else short) or title


def charts_of(checkout: Path, part: str, each: int) -> Iterator[Chart]:
    folder = checkout / PARTS[part]
    images = sorted((folder / "imgs").glob("*.png"))
    random.Random(f"varsdoc charts {part}").shuffle(images)
    for image in images[:each]:
        # Pew's titles were read by a machine, and the picture shows them.
        title, caption = (_text(folder / kind / f"{image.stem}.txt") for kind in ("titles", "captions"))
        rows = list(csv.reader(io.StringIO(_text(folder / "data" / f"{image.stem}.csv"))))
        table = [row for row in rows if len(row) > 1]
        yield Chart(f"{part}_{image.stem}", image, tidy(title) if table else "", tidy(caption), table)


def known_titles(checkout: Path) -> list[str]:
    """What Statista's tables call their columns, which is what its charts call their axes."""
    found: set[str] = set()
    for part in ("statista", "statista-multi"):
        for path in (checkout / PARTS[part] / "data").glob("*.csv"):
            header = next(csv.reader(io.StringIO(_text(path))), [])
            found.update(cell.strip() for cell in header if len(cell.strip()) > 5)
    return sorted(found)


def _text(path: Path) -> str:
    return path.read_text("utf8", "replace") if path.is_file() else ""


def questions(chart: Chart, rng: random.Random) -> list[str]:
    """The title, the caption's sentences, then what its table answers."""
    sentences = re.split(r"(?<=[a-z0-9%)][.!?]) (?=[A-Z])", chart.caption)
    told = [OPENING.sub("", sentence) for sentence in sentences if 5 <= len(sentence.split()) <= 30]
    asked = [*([chart.title] if chart.title else []), *told[:3]]
    if chart.title and len(chart.table) > 2:
        forms = rng.sample(PLAIN, 4) + (rng.sample(MANY, 2) if len(chart.table[0]) > 2 else [])
        asked += [_filled(form, chart, rng) for form in forms]
    return list(dict.fromkeys(asked))[:QUESTIONS]


def _filled(form: str, chart: Chart, rng: random.Random) -> str:
    header, *rows = chart.table
    category, other = (row[0] for row in rng.sample(rows, 2))
    series, rival = (rng.sample(header[1:], 2) * 2)[:2] if len(header) > 2 else (header[1], header[1])
    subject = subject_of(chart.title)
    return form.format(
        subject=rng.choice((subject, subject[:1].lower() + subject[1:])),
        category=category,
        other=other,
        kind=header[0].lower(),
        series=series,
        rival=rival,
    )


def picture(path: Path) -> Image.Image:
    """On white, at most LONG_SIDE."""
    image = read_image(path)
    shrink = min(1.0, LONG_SIDE / max(image.size))
    size = (max(1, round(image.width * shrink)), max(1, round(image.height * shrink)))
    return image.resize(size, Image.Resampling.LANCZOS)


def look(image: Image.Image) -> np.ndarray:
    """A chart in 1,024 numbers; the product of two is their correlation."""
    grey = np.asarray(image.convert("L").resize((32, 32), Image.Resampling.BOX), dtype=np.float32).ravel()
    grey = grey - grey.mean()
    return np.asarray(grey / max(float(np.linalg.norm(grey)), 1e-6))


def digits(text: str) -> str:
    return re.sub(r"\D", "", text)


@dataclass(frozen=True)
class Kept:
    """What training must stay away from."""

    looks: np.ndarray  # (charts, 1024)
    numbers: list[str]  # all digits that a chart prints, in the order they were read

    @classmethod
    def read(cls, folders: list[Path], words: list[Path]) -> Kept:
        images = [path for folder in folders for path in sorted((folder / "images").iterdir())]
        looks = [look(picture(path)) for path in tqdm(images, desc="charts kept for judging", unit="chart")]
        lines = [json.loads(line) for path in words for line in path.read_text().splitlines()]
        numbers = ["".join(digits(word[0]) for word in line["words"]) for line in lines]
        return cls(np.stack(looks) if looks else np.zeros((0, 1024), np.float32), numbers)

    def has(self, chart: Chart, image: Image.Image) -> bool:
        if len(self.looks) and float((self.looks @ look(image)).max()) > ALIKE:
            return True
        values = {value for row in chart.table[1:] for cell in row[1:] if len(value := digits(cell)) >= 3}
        if len(values) < 4:
            return False
        return any(sum(value in printed for value in values) >= SAME * len(values) for printed in self.numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--each", type=int, default=2000)
    parser.add_argument("--clear", nargs="+", type=Path, required=True, help="judged folders to stay away from")
    parser.add_argument("--words", nargs="*", type=Path, default=[], help="what was read on those")
    options = parser.parse_args()
    kept = Kept.read(options.clear, options.words)
    (options.target / "images").mkdir(parents=True, exist_ok=True)
    (options.target / "qrels").mkdir(exist_ok=True)
    pages: list[dict[str, str]] = []
    queries: list[dict[str, str]] = []
    judgements, left = ["query-id\tcorpus-id\tscore"], 0
    parts = [list(charts_of(options.checkout, part, options.each)) for part in PARTS]
    # In turn, so that what reads them can stop anywhere and has some of each.
    every = [part[i] for i in range(options.each) for part in parts if i < len(part)]
    for chart in tqdm(every, unit="chart"):
        try:
            image = picture(chart.image)
        except InputError:  # a picture that did not come whole
            left += 1
            continue
        if kept.has(chart, image):
            left += 1
            continue
        image.save(options.target / "images" / f"{chart.name}.jpg", quality=88)
        pages.append({"_id": chart.name, "image": f"images/{chart.name}.jpg"})
        for text in questions(chart, random.Random(f"varsdoc chart {chart.name}")):
            judgements.append(f"q{len(queries)}\t{chart.name}\t1")
            queries.append({"_id": f"q{len(queries)}", "text": text})
    for name, lines in (("corpus", pages), ("queries", queries)):
        (options.target / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (options.target / "qrels" / "test.tsv").write_text("\n".join(judgements) + "\n")
    titles = known_titles(options.checkout)
    (options.target / "titles.txt").write_text("".join(f"{title}\n" for title in titles))
    print(f"{len(pages)} charts, {len(queries)} questions, {len(titles)} titles of axes; {left} left out")


if __name__ == "__main__":
    main()
