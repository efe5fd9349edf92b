// A page as a picture, with the evidence outlined and heatmaps laid over it.
import { h } from "./dom.js";
import { heatmap, image } from "./api.js";
import { colour } from "./readings.js";

const percent = (fraction) => `${(100 * fraction).toFixed(3)}%`;

export class Picture {
  /** page: {id, document, page, width, height, image}; width in pixels asked of the server, null: all there are */
  constructor(page, { collection = null, width = null, lazy = true, placeholder = null } = {}) {
    this.page = page;
    this.collection = collection;
    this.lazy = lazy;
    this.shown = null; // what the heatmap shows, as a key
    const size = { width: page.width || 3, height: page.height || 4 };
    this.image = h("img", {
      class: "sheet-image",
      ...size,
      alt: `Page ${page.page} of ${page.document}`,
      loading: lazy ? "lazy" : "eager",
      decoding: "async",
      draggable: "false",
      on: { load: () => this.element.classList.add("loaded"), error: () => this.element.classList.add("broken") },
    });
    this.element = h("div", { class: "sheet", style: { "--ratio": (size.width / size.height).toFixed(4) } });
    if (placeholder) this.element.append(h("img", { class: "sheet-under", src: placeholder, alt: "", ...size }));
    this.element.append(this.image);
    this.image.src = image(page.image, collection, width);
  }

  /** region: fractions [x0, y0, x1, y1] or null; variant gives the colour */
  outline(region, variant) {
    this.element.querySelector(".sheet-region")?.remove();
    if (region) this.element.append(box("sheet-region", region, { "--colour": colour(variant) }));
  }

  /** Points at the cell that a word matched best. */
  point(cell, grid, variant) {
    this.element.querySelector(".sheet-cell")?.remove();
    if (!cell || !grid) return;
    const [row, col] = cell;
    const [rows, cols] = grid;
    const area = [col / cols, row / rows, (col + 1) / cols, (row + 1) / rows];
    this.element.append(box("sheet-cell", area, { "--colour": colour(variant) }));
  }

  /** wanted: {query, variant, word} or null for none. The old one stays until the new one is there. */
  heat(wanted) {
    const key = wanted && JSON.stringify(wanted);
    if (key === this.shown) return;
    this.shown = key;
    if (!wanted) {
      for (const old of this.heats()) old.remove();
      return;
    }
    const fresh = h("img", {
      class: "sheet-heat",
      alt: "",
      loading: this.lazy ? "lazy" : "eager",
      draggable: "false",
      data: { variant: wanted.variant ?? "", word: wanted.word ?? "" },
    });
    const arrived = (ok) => {
      if (this.shown !== key) return fresh.remove();
      for (const old of this.heats()) if (old !== fresh) old.remove();
      if (ok) fresh.classList.add("shown");
      else fresh.remove();
      this.element.classList.toggle("no-heat", !ok);
    };
    fresh.addEventListener("load", () => arrived(true));
    fresh.addEventListener("error", () => arrived(false));
    this.image.after(fresh);
    fresh.src = heatmap(this.page.id, { ...wanted, version: this.page.version, collection: this.collection });
  }

  heats() {
    return this.element.querySelectorAll(".sheet-heat");
  }
}

function box(name, [x0, y0, x1, y1], style) {
  return h("div", {
    class: name,
    "aria-hidden": "true",
    style: { ...style, left: percent(x0), top: percent(y0), width: percent(x1 - x0), height: percent(y1 - y0) },
  });
}

const STRIP = 5.2; // width over height of the strip, as in results.css

/** The evidence at a size that can be read: the picture, moved and enlarged behind a slit. Null without a region. */
export function strip(page, region, collection) {
  if (!region || !page.width || !page.height) return null;
  const [x0, y0, x1, y1] = region;
  const tall = page.height / page.width; // the page's height where its width is 1
  const room = 0.82;
  const zoom = Math.min(2, Math.max(1, Math.min(room / (x1 - x0), room / STRIP / ((y1 - y0) * tall))));
  const along = (middle, window, size) => Math.min(Math.max(0, middle * size - window / 2), Math.max(0, size - window));
  const left = along((x0 + x1) / 2, 1, zoom);
  const top = along((y0 + y1) / 2, 1 / STRIP, zoom * tall);
  const style = { width: percent(zoom), left: percent(-left), top: percent(-top * STRIP) };
  const size = { width: page.width, height: page.height };
  const moved = h("div", { class: "strip-page", style });
  moved.append(
    h("img", { src: image(page.image, collection), alt: "", loading: "lazy", decoding: "async", draggable: "false", ...size }),
    box("strip-region", region, {}),
  );
  return h("div", { class: "strip", "aria-hidden": "true" }, moved);
}
