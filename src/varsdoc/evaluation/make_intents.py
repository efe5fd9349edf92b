"""Draft the questions of intents.py: an MLLM behind an OpenAI-compatible endpoint sees one crop of a page, no more.

    python -m varsdoc.evaluation.make_intents DATASET --out intents.jsonl --url http://127.0.0.1:8000/v1 --model NAME

For each sampled page a region of about a sixth of it is cut where there is most ink, and the model is asked for two
intents with two formulations each. Every line is written with "verified": false: a person reads it beside its crop
(--crops DIR keeps them), mends it, and sets it to true. Without an endpoint (--by-hand) the lines are written with
empty texts, to be filled in.
"""

from __future__ import annotations

import base64
import io
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any, Optional

import numpy as np
import typer

from varsdoc.errors import InputError, VarsDocError
from varsdoc.evaluation.judged import JudgedSet, read_folder

TIMEOUT_S = 300
PROMPT = (
    "You see a part of a document page. Write two questions with clearly different intents, both answerable from this "
    "part alone, and for each question one paraphrase that keeps its meaning. The questions must name what they ask "
    "about, without words like 'this image'. Answer with JSON only: "
    '{"intent_1": ["question", "paraphrase"], "intent_2": ["question", "paraphrase"]}'
)


def choose_region(image: Any, seed: int = 0) -> tuple[float, float, float, float]:
    """[x0, y0, x1, y1] as fractions: of 24 random windows the one with most ink (strong edges)."""
    random = np.random.default_rng(seed)
    small = np.asarray(image.convert("L").resize((256, 256)), np.float32)
    ink = np.abs(np.diff(small, axis=1))[:255] + np.abs(np.diff(small, axis=0))[:, :255]
    best, chosen = -1.0, (0.0, 0.0, 1.0, 1.0)
    for _ in range(24):
        width, height = random.uniform(0.35, 0.6), random.uniform(0.25, 0.45)
        x, y = random.uniform(0, 1 - width), random.uniform(0, 1 - height)
        found = float(ink[int(y * 255) : int((y + height) * 255), int(x * 255) : int((x + width) * 255)].mean())
        if found > best:
            best, chosen = found, (round(x, 3), round(y, 3), round(x + width, 3), round(y + height, 3))
    return chosen


def ask(crop: Any, url: str, model: str, key: str | None) -> list[list[str]]:
    """Two intents with two formulations each, from the crop alone."""
    data = io.BytesIO()
    crop.save(data, "PNG")
    picture = "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
    content = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": PROMPT}]
    body = {"model": model, "temperature": 0.7, "messages": [{"role": "user", "content": content}]}
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(
        url.rstrip("/") + "/chat/completions", json.dumps(body).encode(), headers, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            said = json.load(answer)["choices"][0]["message"]["content"]
    except (urllib.error.URLError, OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(f"The endpoint {url} gave no answer that could be read ({error}).") from error
    return parse(said)


def parse(said: str) -> list[list[str]]:
    """The JSON in an answer, which models like to wrap in words or fences.

    >>> parse('Sure: {"intent_1": ["a?", "b?"], "intent_2": ["c?", "d?"]}')
    [['a?', 'b?'], ['c?', 'd?']]
    """
    start, end = said.find("{"), said.rfind("}")
    try:
        found = json.loads(said[start : end + 1])
        pairs = [found["intent_1"], found["intent_2"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("The model's answer holds no JSON with intent_1 and intent_2.") from error
    if not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(q, str) and q for q in pair) for pair in pairs
    ):
        raise InputError("The model's answer does not hold two formulations for each of two intents.")
    return pairs


def draft(
    judged: JudgedSet, out: Path, pages: int, seed: int, url: str | None, model: str, crops: Path | None
) -> tuple[int, int]:
    """Append the missing pages to `out`; returns pages drafted and failed. A second run goes on where one stopped."""
    done = set()
    if out.is_file():
        done = {json.loads(row)["page"] for row in out.read_text(encoding="utf-8").split("\n") if row.strip()}
    order = np.random.default_rng(seed).permutation(len(judged.pages))[:pages]
    drafted = failed = 0
    with out.open("a", encoding="utf-8") as file:
        for row in order.tolist():
            page = judged.pages[row]
            if page.id in done:
                continue
            image = page.image()
            region = choose_region(image, seed + row)
            box = [region[0] * image.width, region[1] * image.height, region[2] * image.width, region[3] * image.height]
            crop = image.crop([round(x) for x in box])
            if crops is not None:
                crops.mkdir(parents=True, exist_ok=True)
                crop.save(crops / f"{len(done) + drafted:04d}.png")
            try:
                pairs = ask(crop, url, model, os.environ.get("OPENAI_API_KEY")) if url else [["", ""], ["", ""]]
            except InputError as error:
                typer.echo(f"{page.id}: {error}", err=True)
                failed += 1
                continue
            for a, pair in enumerate(pairs, 1):
                for m, text in enumerate(pair, 1):
                    line = {
                        "page": page.id,
                        "region": region,
                        "intent": a,
                        "formulation": m,
                        "text": text,
                        "verified": False,
                    }
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            drafted += 1
    return drafted, failed


def main(
    dataset: Annotated[str, typer.Argument(help="A BEIR folder.")],
    out: Annotated[Path, typer.Option(help="Where the lines go; an existing file is continued.")],
    url: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="OpenAI-compatible endpoint, like http://127.0.0.1:8000/v1."),
    ] = None,
    model: Annotated[str, typer.Option(help="The model's name at the endpoint.")] = "Qwen3.5-9B",
    by_hand: Annotated[bool, typer.Option("--by-hand", help="No endpoint: empty texts to fill in.")] = False,
    pages: Annotated[int, typer.Option(help="How many pages to sample.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the sample and the regions.")] = 0,
    crops: Annotated[Optional[Path], typer.Option(help="Keep the crops here, to verify against.")] = None,  # noqa: UP045
) -> None:
    """Draft questions for P_same and P_cross; a person verifies them. The key is read from OPENAI_API_KEY."""
    try:
        if url is None and not by_hand:
            raise InputError("Give --url of an endpoint, or --by-hand for lines to fill in.")
        drafted, failed = draft(read_folder(dataset), out, pages, seed, url, model, crops)
    except VarsDocError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{out}: {drafted} pages drafted, {failed} failed; now verify each line.", err=True)


if __name__ == "__main__":
    typer.run(main)
