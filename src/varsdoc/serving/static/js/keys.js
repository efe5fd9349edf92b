// The keyboard, and the page that explains it.
import { $, h, isTyping } from "./dom.js";
import { icon } from "./icons.js";
import * as state from "./state.js";
import { current, step } from "./results.js";
import { toggleLayout } from "./toolbar.js";
import { nextTheme } from "./theme.js";
import { openSide } from "./side.js";
import * as viewer from "./viewer.js";

const HELP = [
  ["Everywhere", [["/", "ask"], ["h", "heatmap on or off"], ["1…9", "heatmap of one reading; again: of the one that won"], ["w", "heatmap of the next word"], ["t", "colours"], ["?", "this help"]]],
  ["Answers", [["↓ ↑  j k", "next, previous hit"], ["Enter", "open the page"], ["g", "list or grid"], ["d", "find a document to filter by"]]],
  ["Page viewer", [["← →", "previous, next page of the document"], ["↓ ↑  j k", "next, previous hit"], ["+ − 0", "larger, smaller, fit"], ["r", "evidence outline"], ["Esc", "close"]]],
];

export function setUpKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if ($("confirm").open || $("token").open || isTyping(event.target)) return;
    if (event.key === "?") return handled(event, toggleHelp());
    if ($("help").open) return;
    if (viewer.isOpen() ? inViewer(event.key) : inList(event)) event.preventDefault();
    else if (anywhere(event.key)) event.preventDefault();
  });
  $("open-help").addEventListener("click", toggleHelp);
}

function handled(event) {
  event.preventDefault();
}

function anywhere(key) {
  const s = state.get();
  if (key === "h") state.set({ heat: !s.heat });
  else if (key === "t") nextTheme();
  else if (key === "w") nextWord();
  else if (/^[1-9]$/.test(key)) return chooseReading(Number(key) - 1);
  else return false;
  return true;
}

function chooseReading(k) {
  const most = Math.max(0, ...(current()?.hits ?? []).map((hit) => hit.variant_scores.length));
  if (k >= most) return false;
  const s = state.get();
  state.set({ heat: true, variant: s.heat && s.variant === k ? null : k });
  return true;
}

function nextWord() {
  const words = current()?.words ?? [];
  if (!words.length) return;
  const s = state.get();
  const at = s.heat ? words.findIndex((one) => one.word === s.word) : -1;
  state.set({ heat: true, word: at + 1 < words.length ? words[at + 1].word : null });
}

function inViewer(key) {
  const acts = {
    ArrowLeft: () => viewer.turn(-1), ArrowRight: () => viewer.turn(1), ArrowUp: () => viewer.hop(-1), ArrowDown: () => viewer.hop(1),
    k: () => viewer.hop(-1), j: () => viewer.hop(1), "+": () => viewer.zoomBy(1.4), "=": () => viewer.zoomBy(1.4), "-": () => viewer.zoomBy(1 / 1.4),
    _: () => viewer.zoomBy(1 / 1.4), 0: () => viewer.zoomFit(), r: () => viewer.toggleRegion(),
  };
  if (!acts[key]) return false;
  acts[key]();
  return true;
}

function inList(event) {
  const { key } = event;
  const grid = state.get().layout === "grid";
  if (key === "/") {
    $("query").focus();
    $("query").select();
    return true;
  }
  if (key === "j" || key === "ArrowDown" || (grid && key === "ArrowRight")) return inMain(event) && step(1);
  if (key === "k" || key === "ArrowUp" || (grid && key === "ArrowLeft")) return inMain(event) && step(-1);
  if (key === "g") toggleLayout();
  else if (key === "d") openSide();
  else return false;
  return true;
}

/** Arrow keys in the side list stay there. */
const inMain = (event) => !event.target.closest?.(".side, .jobs");

function toggleHelp() {
  const dialog = $("help");
  if (dialog.open) return dialog.close();
  const line = ([keys, does]) => h("div", {}, h("dt", {}, keys.split(/\s+/).map((key) => h("kbd", {}, key))), h("dd", {}, does));
  dialog.replaceChildren(
    h("header", {}, h("h2", { id: "help-title" }, "Keyboard"), h("button", { type: "button", class: "icon-button", "aria-label": "Close", on: { click: () => dialog.close() } }, icon("close"))),
    h("div", { class: "help-parts" }, HELP.map(([part, lines]) => h("section", {}, h("h3", {}, part), h("dl", {}, lines.map(line))))),
    h("p", { class: "fine" }, "Programs use the HTTP API: ", h("a", { href: "/docs" }, "/docs"), "."),
  );
  dialog.showModal();
}
