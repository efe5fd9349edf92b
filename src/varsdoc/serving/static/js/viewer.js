// One page, large: zoom and pan, its neighbours in the document and among the hits, heatmap, evidence, and why.
import { $, h } from "./dom.js";
import { icon } from "./icons.js";
import * as api from "./api.js";
import * as state from "./state.js";
import { current, focusHit, hits, say } from "./results.js";
import { bars, colour, explanation, points, press, verdict } from "./readings.js";
import { Picture } from "./picture.js";
import { pressCell, whyTable } from "./why.js";
import { Zoom } from "./zoom.js";
import { notify } from "./notices.js";

let parts = null; // elements that stay from page to page
let zoom = null;
let picture = null;
let shown = null; // {id, hit, info}
let outlined = true;
let fetching = null;

export const isOpen = () => $("viewer").open;

export function setUpViewer() {
  const dialog = $("viewer");
  const button = (id, symbol, label, act, key) =>
    h("button", { type: "button", class: "icon-button", id, "aria-label": label, data: { tip: key ? `${label} (${key})` : label }, on: { click: act } }, icon(symbol));
  parts = {
    name: h("h2", { class: "viewer-name" }),
    place: h("span", { class: "viewer-place" }),
    percent: h("button", { type: "button", class: "percent", id: "zoom-fit", data: { tip: "Fit (0)" }, on: { click: () => zoom.fit() } }),
    previous: button("page-previous", "left", "Previous page", () => turn(-1), "←"),
    next: button("page-next", "right", "Next page", () => turn(1), "→"),
    up: button("hit-previous", "up", "Previous hit", () => hop(-1), "k"),
    down: button("hit-next", "down", "Next hit", () => hop(1), "j"),
    heat: button("viewer-heat", "flame", "Heatmap", () => state.set({ heat: !state.get().heat }), "h"),
    region: button("viewer-region", "region", "Evidence", toggleRegion, "r"),
    rank: h("span", { class: "viewer-rank" }),
    side: h("aside", { class: "viewer-side", "aria-label": "Why this page" }),
    canvas: h("div", { class: "canvas" }),
  };
  parts.stage = h("div", { class: "stage" }, parts.canvas);
  zoom = new Zoom(parts.stage, parts.canvas, (percent) => {
    parts.percent.textContent = `${percent} %`;
    parts.percent.setAttribute("aria-label", `Zoom ${percent} %, fit`);
  });
  dialog.append(
    h(
      "header",
      { class: "viewer-top" },
      h("div", { class: "viewer-title" }, parts.name, parts.place),
      h("div", { class: "viewer-group" }, parts.previous, parts.next),
      h("div", { class: "viewer-group hits-group" }, parts.up, parts.rank, parts.down),
      h("div", { class: "viewer-group" }, button("zoom-out", "minus", "Smaller", () => zoom.by(1 / 1.4), "-"), parts.percent, button("zoom-in", "plus", "Larger", () => zoom.by(1.4), "+")),
      h("div", { class: "viewer-group" }, parts.heat, parts.region),
      button("viewer-close", "close", "Close", () => dialog.close(), "Esc"),
    ),
    parts.stage,
    parts.side,
  );
  dialog.addEventListener("close", leave);
}

function leave() {
  const id = shown?.id;
  shown = null;
  picture = null;
  parts.canvas.replaceChildren();
  if (state.get().page) {
    if (state.openedHere()) backToAnswer();
    else state.set({ page: null });
  }
  if (id) focusHit(id);
}

/** One step back, with the heatmap as it was chosen last. */
function backToAnswer() {
  const { heat, variant, word } = state.get();
  addEventListener("popstate", () => state.set({ heat, variant, word }), { once: true });
  history.back();
}

/** As the state says: open at a page, turn to another, or close. */
export function followPage() {
  const { page } = state.get();
  if (!page) return $("viewer").open && $("viewer").close();
  if (!$("viewer").open) $("viewer").showModal();
  if (shown?.id !== page) show(page);
}

/** A new answer came while the viewer was open: the page may be a hit now. */
export function refresh() {
  const { page } = state.get();
  if (page && shown && shown.hit !== hitOf(page)) show(page);
}

const hitOf = (id) => hits().find((one) => one.id === id) ?? null;

async function show(id) {
  fetching?.abort();
  const mine = new AbortController();
  fetching = mine;
  const hit = hitOf(id);
  shown = { id, hit, info: null };
  if (hit) draw(hit);
  try {
    const info = await api.page(id, state.get().collection, mine.signal);
    if (shown?.id !== id || fetching !== mine) return;
    shown.info = info;
    if (!hit) draw(info);
    neighbours();
  } catch (error) {
    if (error.kind === "aborted" || shown?.id !== id) return;
    notify(error.status === 404 ? "This page is no longer in the collection." : error.message, "bad");
    if (!hit) $("viewer").close();
  }
}

function draw(page) {
  const { collection } = state.get();
  const placeholder = shown.hit?.thumbnail ? api.image(page.image, collection, 480) : null;
  picture = new Picture(page, { collection, lazy: false, placeholder });
  parts.canvas.replaceChildren(picture.element);
  zoom.show(page.width && page.height ? page.width / page.height : 0.7);
  parts.name.textContent = page.document;
  parts.name.title = page.document;
  parts.place.textContent = page.pages ? `page ${page.page} of ${page.pages}` : `page ${page.page}`;
  drawSide(page);
  neighbours();
  followHeat();
  say(`${page.document}, page ${page.page}`);
}

function neighbours() {
  parts.previous.disabled = !shown.info?.previous;
  parts.next.disabled = !shown.info?.next;
  const at = hits().indexOf(shown.hit);
  parts.rank.textContent = at < 0 ? "–" : `${at + 1} / ${hits().length}`;
  parts.up.disabled = !hits().length || at === 0;
  parts.down.disabled = !hits().length || at === hits().length - 1;
  parts.up.closest(".viewer-group").hidden = !hits().length;
}

/** Another page of the document. */
export function turn(by) {
  const id = by < 0 ? shown?.info?.previous : shown?.info?.next;
  if (id) state.set({ page: id });
}

/** Another hit; from a page that is none, the first. */
export function hop(by) {
  const at = hits().indexOf(shown?.hit);
  const next = at < 0 ? hits()[0] : hits()[at + by];
  if (next) state.set({ page: next.id });
}

export const zoomBy = (factor) => zoom.by(factor);
export const zoomFit = () => zoom.fit();

export function toggleRegion() {
  outlined = !outlined;
  followHeat();
}

/** Heatmap and outline as they are chosen. */
export function followHeat() {
  if (!picture) return;
  const s = state.get();
  const { hit } = shown;
  const asked = s.query.trim();
  const variant = s.variant ?? hit?.variant ?? null;
  picture.heat(s.heat && asked ? { query: asked, variant, word: s.word } : null);
  picture.outline(outlined && hit ? hit.region : null, hit?.variant ?? 0);
  parts.heat.setAttribute("aria-pressed", String(s.heat));
  parts.heat.disabled = !asked;
  parts.region.setAttribute("aria-pressed", String(outlined));
  parts.region.disabled = !hit?.region;
  press(parts.side, s.heat ? variant : null);
  pressCell(parts.side, s.heat ? variant : null, s.word);
}

function drawSide(page) {
  const { hit } = shown;
  const answer = current();
  const pieces = hit && answer ? whyPieces(hit, answer) : [plainWords()];
  parts.side.replaceChildren(...pieces.filter(Boolean), facts(page) ?? "");
}

function whyPieces(hit, answer) {
  const choose = (patch) => {
    const s = state.get();
    const same = s.heat && Object.entries(patch).every(([key, value]) => s[key] === value);
    state.set(same ? { heat: false } : { ...patch, heat: true });
  };
  const point = (explained) => picture?.point(explained?.cell, hit.explain?.grid, hit.variant);
  const many = hit.variant_scores.length > 1;
  const look = hit.region && h("button", { type: "button", class: "wide", id: "look", on: { click: () => zoom.towards(hit.region) } }, icon("search"), "Look at the evidence");
  return [
    h("p", { class: "side-score" }, h("strong", {}, points(hit.score)), h("span", {}, `${hit.score_normalised.toFixed(3)} per token`)),
    many && h("p", { class: "verdict", style: { "--colour": colour(hit.variant) } }, h("span", { class: "dot", "aria-hidden": "true" }), verdict(hit.variant_scores, hit.variant)),
    many && bars(hit, answer.scale, (variant) => choose({ variant })),
    many && h("p", { class: "fine" }, explanation(hit.variant_scores.length)),
    h("h3", {}, "Words and readings"),
    whyTable(hit, answer.words, choose, point),
    look,
  ];
}

function plainWords() {
  if (!state.get().query.trim()) return null;
  return h("p", { class: "fine" }, "This page is not among the hits on the screen. The heatmap shows where the question's words match it all the same.");
}

function facts(page) {
  const entries = Object.entries(page.metadata ?? {});
  if (!entries.length) return null;
  return h("dl", { class: "facts" }, entries.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, String(value)))));
}
