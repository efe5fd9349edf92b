// Above the answer: how it came about, and which heatmap lies over every page.
import { $, h, plural } from "./dom.js";
import { icon } from "./icons.js";
import { colour, explanation, name } from "./readings.js";
import * as state from "./state.js";

export function drawToolbar(answer) {
  const bar = $("toolbar");
  bar.hidden = !answer || !answer.hits.length;
  if (bar.hidden) return bar.replaceChildren();
  const count = Math.max(...answer.hits.map((hit) => hit.variant_scores.length));
  bar.replaceChildren(
    h("div", { class: "took" }, h("p", {}, took(answer)), layouts()),
    h("div", { class: "tools" }, heatSwitch(), count > 1 ? readings(answer, count) : null, words(answer)),
  );
  followState();
}

function took(answer) {
  const best = plural(answer.hits.length, "page");
  const ms = answer.took_ms?.total ?? 0;
  const time = ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
  return [h("strong", {}, best), ` of ${answer.pages.toLocaleString("en")} searched, ${time}`];
}

function heatSwitch() {
  return h(
    "label",
    { class: "switch", data: { tip: "Where on each page the question's words match (h)" } },
    h("input", {
      type: "checkbox",
      role: "switch",
      id: "heat",
      on: { change: (event) => state.set({ heat: event.target.checked }) },
    }),
    h("span", { class: "track", "aria-hidden": "true" }),
    h("span", {}, "Heatmap"),
  );
}

function readings(answer, count) {
  const wins = Array.from({ length: count }, (_, k) => answer.hits.filter((hit) => hit.variant === k).length);
  const choices = [choice("reading", null, "Winner", "Each page's winning reading")];
  for (let k = 0; k < count; k += 1) {
    const tip = `${name(k)} won ${wins[k]} of these ${answer.hits.length}. Show where it looks (${k + 1})`;
    const dot = h("span", { class: "dot", "aria-hidden": "true", style: { "--colour": colour(k) } });
    choices.push(choice("reading", k, String(k + 1), tip, dot, wins[k] ? h("sup", { "aria-hidden": "true" }, `×${wins[k]}`) : null));
  }
  const tip = explanation(count);
  return h(
    "div",
    { class: "chooser", role: "group", "aria-label": "Reading" },
    h("span", { class: "chooser-name", data: { tip } }, "Reading"),
    h("div", { class: "segments" }, choices),
  );
}

function words(answer) {
  if (answer.words.length < 2) return null;
  return h(
    "div",
    { class: "chooser", role: "group", "aria-label": "Word" },
    h("span", { class: "chooser-name" }, "Word"),
    h(
      "div",
      { class: "segments" },
      choice("word", null, "All", "All words of the question"),
      answer.words.map((word) => choice("word", word.word, word.text, `Where “${word.text}” matches`)),
    ),
  );
}

function choice(kind, value, label, tip, ...more) {
  const patch = kind === "reading" ? { variant: value } : { word: value };
  return h(
    "button",
    {
      type: "button",
      class: "segment",
      "aria-pressed": "false",
      "aria-label": kind === "reading" ? tip : null,
      data: { kind, value: value ?? "", tip },
      on: { click: () => state.set({ ...patch, heat: true }) },
    },
    more[0] ?? null,
    label,
    more[1] ?? null,
  );
}

function layouts() {
  return h("button", {
    type: "button",
    class: "icon-button layout",
    id: "layout",
    data: { tip: "List or grid (g)" },
    on: { click: toggleLayout },
  });
}

export const toggleLayout = () => state.set({ layout: state.get().layout === "grid" ? "list" : "grid" });

/** Shows what is chosen, without drawing anew. */
export function followState() {
  const s = state.get();
  const heat = $("heat");
  if (!heat) return;
  heat.checked = s.heat;
  for (const button of $("toolbar").querySelectorAll(".segment")) {
    const chosen = button.dataset.kind === "reading" ? s.variant : s.word;
    button.setAttribute("aria-pressed", String(s.heat && button.dataset.value === (chosen === null ? "" : String(chosen))));
  }
  const grid = s.layout === "grid";
  $("layout").replaceChildren(icon(grid ? "list" : "grid"));
  $("layout").setAttribute("aria-label", grid ? "Show as a list" : "Show as a grid");
}
