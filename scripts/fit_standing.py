"""Fit how a line of print says whether its letters stand (model/printed_lines.py: INK_ABOVE, STROKES_ABOVE).

    PYTHONPATH=src python scripts/fit_standing.py JUDGED_FOLDER... [--pages 900]

Pages of the folders are taken to be upright. A logistic regression without a constant over the lines' `leanings`, so
that a line upside down has the same number with the other sign. Prints the weights, the share of lines and the share
of pages with five lines or more that are told rightly.
"""

from __future__ import annotations

import argparse
import random

import numpy as np
import torch
from tqdm import tqdm

from varsdoc.evaluation.judged import read_folder
from varsdoc.image import read_image
from varsdoc.model import nano_config
from varsdoc.model.orientation import FEWEST, MOST_SURE
from varsdoc.model.patches import in_cells
from varsdoc.model.printed_lines import FAINTEST, Print, leanings

SCALE = 10.0  # leanings are small numbers
DECAY = 1e-3


def lines_of(folder: str, most: int) -> list[np.ndarray]:
    """(lines, 16) of each page."""
    config = nano_config()
    pages = list(read_folder(folder).pages)
    random.Random(1).shuffle(pages)
    found = []
    for page in tqdm(pages[:most], desc=folder, unit="page"):
        seen = Print(in_cells(read_image(page.image(), page.id), config))
        grey = np.asarray(seen.page.convert("L"), dtype=np.int16)
        ink = np.abs(grey - int(np.median(grey))) > FAINTEST
        rows = []
        for line in seen.lines(0):
            top = round(line.begin[1] - line.height / 2)
            box = ink[top : top + round(line.height), round(line.begin[0]) : round(line.end[0])]
            rows.append(leanings(box))
        found.append(np.array(rows).reshape(-1, 16))
    return found


def fitted(lines: np.ndarray) -> np.ndarray:
    x = torch.tensor(lines * SCALE, dtype=torch.float32)
    weights = torch.zeros(16, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.softplus(-(x @ weights)).mean() + DECAY * weights.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return weights.detach().numpy() * SCALE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judged", nargs="+")
    parser.add_argument("--pages", type=int, default=900)
    asked = parser.parse_args()
    pages = [page for folder in asked.judged for page in lines_of(folder, asked.pages)]
    weights = fitted(np.concatenate(pages))
    said = [page @ weights for page in pages]
    many = [np.clip(page, -MOST_SURE, MOST_SURE).sum() for page in said if len(page) >= FEWEST]
    print("INK_ABOVE =", tuple(round(float(w), 1) for w in weights[:8]))
    print("STROKES_ABOVE =", tuple(round(float(w), 1) for w in weights[8:]))
    print(f"lines told rightly: {(np.concatenate(said) > 0).mean():.3f}, pages: {(np.array(many) > 0).mean():.3f}")


if __name__ == "__main__":
    main()
