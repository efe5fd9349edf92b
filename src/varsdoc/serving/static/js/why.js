// Why this page: a table of the question's words against the readings. Each cell is what a word adds; press one to see where.
import { h } from "./dom.js";
import { colour, name, points } from "./readings.js";
import { strength } from "./words.js";

/** show({variant, word}) draws a heatmap; point(explained word or null) marks the cell that a word matched best */
export function whyTable(hit, words, show, point) {
  const explained = hit.explain?.words ?? [];
  if (!explained.length || !words.length) return null;
  const found = new Map(explained.map((one) => [one.word, one]));
  const readings = hit.variant_scores.map((_, k) => k);
  const known = words.filter((word) => found.has(word.word));
  return h(
    "table",
    { class: "matrix" },
    h("caption", { class: "sr" }, "What each word of the question adds to the score of each reading"),
    h("thead", {}, h("tr", {}, h("td", {}), readings.map((k) => head(hit, k, show)))),
    h("tbody", {}, known.map((word) => row(hit, word, found.get(word.word), readings, show, point)), rest(hit, explained, readings)),
    h(
      "tfoot",
      {},
      h("tr", {}, h("th", { scope: "row" }, "Score"), readings.map((k) => h("td", { class: k === hit.variant ? "won" : "" }, points(hit.variant_scores[k])))),
    ),
  );
}

function head(hit, k, show) {
  const won = k === hit.variant;
  return h(
    "th",
    { scope: "col", class: won ? "won" : "", style: { "--colour": colour(k) } },
    h(
      "button",
      {
        type: "button", class: "matrix-head", "aria-pressed": "false",
        "aria-label": `${name(k)}${won ? ", won" : ""}. Heatmap of all words`,
        data: { variant: k, word: "", tip: `${name(k)}${won ? " won" : ""}: all words` },
        on: { click: () => show({ variant: k, word: null }) },
      },
      h("span", { class: "dot", "aria-hidden": "true" }),
      String(k + 1),
    ),
  );
}

function row(hit, word, explained, readings, show, point) {
  return h(
    "tr",
    { on: { pointerenter: () => point(explained), pointerleave: () => point(null), focusin: () => point(explained), focusout: () => point(null) } },
    h("th", { scope: "row", title: word.text }, word.text),
    readings.map((k) => {
      const score = explained.scores?.[k] ?? (k === hit.variant ? explained.score : 0);
      return h(
        "td",
        { class: k === hit.variant ? "won" : "" },
        h(
          "button",
          {
            type: "button", class: "cell", "aria-pressed": "false",
            "aria-label": `${word.text} in reading ${k + 1}: ${points(score)}. Heatmap`,
            data: { variant: k, word: word.word, tip: `“${word.text}” adds ${points(score)} in reading ${k + 1}` },
            style: { "--colour": colour(k), "--strength": strength(word, explained, k).toFixed(3) },
            on: { click: () => show({ variant: k, word: word.word }) },
          },
          points(score),
        ),
      );
    }),
  );
}

/** Tokens that stand for no word (prefix, padding of the question) count in the score, too. */
function rest(hit, explained, readings) {
  const left = readings.map((k) => hit.variant_scores[k] - explained.reduce((sum, one) => sum + (one.scores?.[k] ?? 0), 0));
  if (!explained.every((one) => one.scores) || left.every((one) => Math.abs(one) < 0.005)) return null;
  const tip = "Tokens of the question that stand for no word: its prefix and the ones that a model of this kind appends.";
  return h("tr", { class: "rest" }, h("th", { scope: "row", data: { tip }, tabindex: "0" }, "other tokens"), left.map((one, k) => h("td", { class: k === hit.variant ? "won" : "" }, points(one))));
}

/** Marks what the heatmap shows. */
export function pressCell(root, variant, word) {
  for (const button of root.querySelectorAll(".cell, .matrix-head")) {
    const same = Number(button.dataset.variant) === variant && button.dataset.word === (word === null ? "" : String(word));
    button.setAttribute("aria-pressed", String(variant !== null && same));
  }
}
