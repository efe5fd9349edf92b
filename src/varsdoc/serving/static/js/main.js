// Puts the parts together: state changes -> search, viewer, heatmaps; uploads and deletions -> list and answer anew.
import { $, debounced } from "./dom.js";
import { placeIcons } from "./icons.js";
import * as api from "./api.js";
import * as state from "./state.js";
import { askToken } from "./confirm.js";
import { followCollection, loadCollections, setUpCollections } from "./collections.js";
import { followDocuments, learnNames, loadDocuments, setUpDocuments } from "./documents.js";
import { resumeJobs, setUpJobs } from "./jobs.js";
import { setUpKeys } from "./keys.js";
import { setUpRecent } from "./recent.js";
import { follow, hits } from "./results.js";
import { onAnswer, run } from "./search.js";
import { setUpSide } from "./side.js";
import { setUpTheme } from "./theme.js";
import { setUpTips } from "./tip.js";
import { setUpUpload } from "./upload.js";
import { followHeat, followPage, refresh, setUpViewer } from "./viewer.js";

placeIcons();
api.onTokenNeeded(askToken);
setUpTheme();
setUpTips();
setUpViewer();
setUpSide();
setUpKeys();
setUpUpload();
setUpCollections();
setUpDocuments(contentChanged);
setUpJobs(debounced(contentChanged, 150));
setUpForms();
onAnswer(refresh);
onAnswer(() => learnNames(hits()));

state.onChange((now, before) => {
  fillForms(before);
  if (now.collection !== before.collection) {
    followCollection();
    loadDocuments();
  } else if (now.documents !== before.documents) followDocuments();
  if (state.searchKey(now) !== state.searchKey(before)) run();
  if ([now.heat, now.variant, now.word, now.layout].join() !== [before.heat, before.variant, before.word, before.layout].join()) {
    follow();
    followHeat();
  }
  if (now.page !== before.page) followPage();
});

start();

async function start() {
  fillForms();
  const known = loadCollections().catch(() => {});
  loadDocuments();
  if (state.get().query.trim()) await run();
  else known.then(() => state.get().query.trim() || run()); // a question that came meanwhile runs already
  followPage();
  resumeJobs().catch(() => {});
}

/** Pages came or went. */
async function contentChanged() {
  await Promise.allSettled([loadCollections(), loadDocuments()]);
  run({ quiet: true });
}

function ask(query) {
  const asked = query.trim();
  $("query").value = asked;
  if (asked === state.get().query) return run();
  state.set({ query: asked, page: null, word: null, k: state.FIRST }, { push: true });
}

function setUpForms() {
  const closeRecent = setUpRecent(ask);
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    closeRecent();
    ask($("query").value);
  });
  $("query").addEventListener("search", () => $("query").value || ask("")); // the cross in the box
  $("hybrid").addEventListener("change", (event) => state.set({ hybrid: event.target.checked }, { push: true }));
  $("where-form").addEventListener("submit", (event) => {
    event.preventDefault();
    state.set({ where: $("where").value.trim() }, { push: true });
  });
}

/** What is half typed stays: the box changes when the question does. */
function fillForms(before = null) {
  const s = state.get();
  if (before?.query !== s.query) $("query").value = s.query;
  $("hybrid").checked = s.hybrid;
  if (document.activeElement !== $("where")) $("where").value = s.where;
  if (s.where || s.hybrid) $("more").open = true;
}
