// The main part: hits, or a state that says what to do.
import { $, h, plural } from "./dom.js";
import { icon } from "./icons.js";
import { scaleOf } from "./readings.js";
import { Card } from "./card.js";
import { drawToolbar, followState } from "./toolbar.js";
import * as state from "./state.js";

let cards = [];
let answer = null; // the answer on the screen

export const hits = () => answer?.hits ?? [];
export const current = () => answer;

export function showAnswer(response) {
  const s = state.get();
  const words = (response.words ?? []).filter((one) => one.tokens.length); // a lone question mark stands for nothing
  answer = { ...response, words, collection: s.collection, scale: scaleOf(response.hits) };
  if (s.word !== null && !answer.words.some((one) => one.word === s.word)) state.set({ word: null });
  drawToolbar(answer);
  const open = (hit) => state.set({ page: hit.id }, { push: true });
  cards = answer.hits.map((hit, i) => new Card(hit, i + 1, answer, open));
  $("answers").replaceChildren(h("div", { class: "hits", id: "hits", data: { query: response.query } }, cards.map((card) => card.element)), more());
  follow();
  const best = answer.hits[0];
  say(`${plural(answer.hits.length, "page")} found. Best: ${best.document}, page ${best.page}.`);
}

/** Whether this very answer is on the screen: then nothing needs to move. */
export const isShown = (response) =>
  answer !== null && answer.query === response.query && JSON.stringify(answer.hits) === JSON.stringify(response.hits);

function more() {
  const all = hits().length < state.get().k || hits().length >= answer.pages || state.get().k >= 100;
  if (all) return h("p", { class: "end" }, hits().length >= answer.pages ? "That is every page searched." : "");
  const ask = () => state.set({ k: Math.min(100, state.get().k + 10) });
  return h("p", { class: "end" }, h("button", { type: "button", id: "show-more", on: { click: ask } }, "More pages"));
}

/** Heatmap and layout as the state says. */
export function follow() {
  const s = state.get();
  for (const card of cards) card.follow({ on: s.heat, variant: known(card, s.variant), word: s.word });
  $("hits")?.classList.toggle("as-grid", s.layout === "grid");
  followState();
}

const known = (card, variant) => (variant !== null && variant < card.hit.variant_scores.length ? variant : null);

/** Moves the focus from hit to hit. */
export function step(by) {
  if (!cards.length) return false;
  const at = cards.findIndex((card) => card.element.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : cards.length - 1) : Math.min(cards.length - 1, Math.max(0, at + by));
  const desk = cards[next].element.querySelector(".desk");
  desk.focus({ preventScroll: true });
  cards[next].element.scrollIntoView({ block: "nearest", behavior: "auto" });
  return true;
}

export function focusHit(id) {
  cards.find((card) => card.hit.id === id)?.element.querySelector(".desk").focus();
}

/** One centred message. actions: [label, handler, primary?] */
export function showState({ name, image, title, text = "", actions = [], extra = null, busy = false }) {
  answer = null;
  cards = [];
  drawToolbar(null);
  $("answers").replaceChildren(
    h(
      "div",
      { class: busy ? "state busy" : "state", data: { state: name } },
      h("div", { class: "state-icon" }, icon(image)),
      h("h2", {}, title),
      text ? h("p", {}, text) : null,
      actions.length
        ? h("p", { class: "state-actions" }, actions.map(([label, act, first]) => h("button", { type: "button", class: first ? "primary" : "", on: { click: act } }, label)))
        : null,
      extra,
    ),
  );
  say(title);
}

export function showElement(element) {
  answer = null;
  cards = [];
  drawToolbar(null);
  $("answers").replaceChildren(element);
}

/** For screen readers. */
export function say(text) {
  $("status").textContent = text;
}
