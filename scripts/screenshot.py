"""Screenshots of the web page for README and docs: serves a collection, writes docs/images/*.webp of a bounded size.

    python scripts/screenshot.py                     # the demo's own collection, made first if need be (about a minute)
    python scripts/screenshot.py --index DIR --into docs/images

Needs playwright, a Chromium (scripts/install_chromium.sh) and a quiet machine: the pages show how long a search took.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parent.parent
LARGEST = 250_000  # bytes of one picture
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REVENUE = "q=How+much+revenue+came+from+the+Nordic+region%3F"
SOUP = "q=pumpkin+soup+recipe"
DESK, PHONE = (1280, 800), (390, 844)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--index", type=Path, help="a collection of the sample documents; default: the demo makes one")
    options.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    chosen = options.parse_args()
    where = chosen.index or demo_collection()
    chosen.into.mkdir(parents=True, exist_ok=True)
    server, address = serve(where)
    try:
        take_all(address, chosen.into)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def demo_collection() -> Path:
    import json

    command = [sys.executable, "-m", "varsdoc", "demo", "--json"]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    return Path(json.loads(done.stdout)["index"])


def serve(where: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "varsdoc", "serve", "--index", str(where), "--port", "0"]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Serving "):
            return process, line.split()[-1]
    raise SystemExit("varsdoc serve ended before it was ready.")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "src")}


def take_all(address: str, into: Path) -> None:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("VARSDOC_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--headless", "--disable-gpu"])
        shots = Shots(browser, address, into)
        for question in (REVENUE, SOUP):  # once before, so that no picture shows how long the model took to load
            shots.warm_up(f"/?{question}")
        shots.answer("answer", f"/?{REVENUE}", DESK)
        shots.answer("answer-dark", f"/?{SOUP}&heat=1&layout=grid", DESK, dark=True)
        shots.answer("phone", f"/?{SOUP}&heat=1", PHONE)
        shots.viewer("viewer", f"/?{REVENUE}&heat=1&word=8", DESK)
        shots.start("start", "/", DESK)
        browser.close()


class Shots:
    def __init__(self, browser: Any, address: str, into: Path) -> None:
        self.browser, self.address, self.into = browser, address, into

    def page(self, path: str, size: tuple[int, int], dark: bool = False) -> Any:
        view = {"width": size[0], "height": size[1]}
        context = self.browser.new_context(
            viewport=view, color_scheme="dark" if dark else "light", device_scale_factor=1.5
        )
        context.set_default_timeout(240_000)  # the model is loading at first
        page = context.new_page()
        page.goto(self.address + path)
        return page

    def warm_up(self, path: str) -> None:
        page = self.page(path, DESK)
        page.locator(".hit").first.wait_for()
        page.context.close()

    def answer(self, name: str, path: str, size: tuple[int, int], dark: bool = False) -> None:
        page = self.page(path, size, dark)
        page.locator(".hit").first.wait_for()
        self.keep(name, page)

    def viewer(self, name: str, path: str, size: tuple[int, int]) -> None:
        page = self.page(path, size)
        page.locator(".hit .desk").first.click()
        page.locator(".viewer .sheet-heat.shown").wait_for()
        page.mouse.move(5, size[1] - 5)
        self.keep(name, page)

    def start(self, name: str, path: str, size: tuple[int, int]) -> None:
        page = self.page(path, size)
        page.locator(".cover img.loaded").last.wait_for()
        self.keep(name, page)

    def keep(self, name: str, page: Any) -> None:
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(400)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        for quality in (90, 80, 70, 60):
            data = io.BytesIO()
            picture.save(data, "WEBP", quality=quality, method=6)
            if data.tell() <= LARGEST:
                break
        (self.into / f"{name}.webp").write_bytes(data.getvalue())
        print(f"{name}.webp: {data.tell() / 1000:.0f} kB", file=sys.stderr)
        page.context.close()


if __name__ == "__main__":
    main()
