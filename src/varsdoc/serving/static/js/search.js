// Runs the search that the state describes. A newer one calls the older off; what comes late is dropped.
import { $, h } from "./dom.js";
import * as api from "./api.js";
import * as state from "./state.js";
import { remember } from "./recent.js";
import { current, isShown, showAnswer, showState } from "./results.js";
import { invite, showShelf } from "./shelf.js";
import { untilReady, untilThere } from "./waiting.js";

let running = null; // AbortController of the search under way
const after = []; // called when an answer is on the screen

export const onAnswer = (work) => after.push(work);

/** quiet: the answer on the screen stays as it is until the new one is there, whatever happens */
export async function run({ quiet = false } = {}) {
  running?.abort();
  const mine = new AbortController();
  running = mine;
  const asked = state.get();
  document.title = asked.query ? `${asked.query} · varsdoc` : "varsdoc";
  if (!asked.query.trim()) {
    busy(false);
    return showShelf();
  }
  busy(true);
  const asking = setTimeout(() => sayIfLoading(mine), 500);
  try {
    const response = await api.search(asked, mine.signal);
    if (running !== mine) return;
    if (quiet && isShown(response)) return;
    if (response.hits.length) showAnswer(response);
    else showNothing(asked, response);
    remember(asked.query);
    for (const work of after) work();
  } catch (error) {
    if (running === mine && error.kind !== "aborted") await explain(error, asked, quiet);
  } finally {
    clearTimeout(asking);
    if (running === mine) busy(false);
  }
}

/** The server keeps a question until its model is there: whoever waits for it should know. */
async function sayIfLoading(mine) {
  const health = await api.health().catch(() => null);
  if (running === mine && !$("progress").hidden && health?.model === "loading") loadingState();
}

/** The line under the box appears late (css), so a fast answer never flashes it. */
function busy(on) {
  $("progress").hidden = !on;
  $("answers").classList.toggle("stale", on && current() !== null);
  $("main").setAttribute("aria-busy", String(on));
}

async function explain(error, asked, quiet) {
  if (quiet && current()) return;
  if (error.kind === "gone") return goneState();
  if (error.status === 503) {
    const health = await api.health().catch(() => null);
    if (health?.model === "loading") return loadingThenRun();
    if (health?.model === "failed") return failedState(health.detail);
  }
  if (error.status === 401) {
    return showState({
      name: "token", image: "lock", title: "This server wants a token",
      text: "Ask whoever runs it, or look at the terminal in which it was started.",
      actions: [["Enter the token", () => run(), true]],
    });
  }
  const actions = [["Try again", () => run(), true]];
  if (asked.where) actions.push(["Drop the where filter", () => state.set({ where: "" })]);
  showState({ name: "error", image: "warning", title: error.title || "That did not work", text: error.message, actions });
}

function goneState() {
  showState({
    name: "gone", image: "plug", title: "The server does not answer",
    text: "Is varsdoc serve still running? This page looks again every few seconds, and goes on by itself.",
    actions: [["Retry now", () => run(), true]],
  });
  const was = state.searchKey(state.get());
  untilThere(() => was === state.searchKey(state.get()) && onScreen("gone")).then((there) => there && run());
}

function loadingState() {
  showState({
    name: "loading", image: "clock", busy: true, title: "The model is still loading",
    text: "Your question is kept: its answer appears by itself as soon as the model is ready.",
  });
}

/** Where the server refuses instead. */
function loadingThenRun() {
  loadingState();
  const was = state.searchKey(state.get());
  untilReady(() => was === state.searchKey(state.get()) && onScreen("loading")).then((ready) => ready && run());
}

function failedState(detail) {
  showState({
    name: "failed", image: "warning", title: "The model could not be loaded",
    text: detail || "The terminal of varsdoc serve says why.", actions: [["Try again", () => run(), true]],
  });
}

const onScreen = (name) => document.querySelector(".state")?.dataset.state === name;

function showNothing(asked, response) {
  if (response.pages === 0 && !asked.documents.length && !asked.where) return invite();
  const actions = [];
  if (asked.documents.length) actions.push(["Search all documents", () => state.set({ documents: [] }), true]);
  if (asked.where) actions.push(["Drop the where filter", () => state.set({ where: "" }), !actions.length]);
  const filtered = actions.length > 0;
  showState({
    name: "nothing", image: "search", title: "No page was found", actions,
    text: filtered ? "The filters leave no page to search." : "There is no page in this collection yet.",
    extra: asked.where ? h("p", {}, h("code", {}, asked.where)) : null,
  });
}
