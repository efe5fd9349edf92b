// The side list: search only in some documents, delete one. Long lists are fetched as they are scrolled.
import { $, debounced, h, plural } from "./dom.js";
import { icon } from "./icons.js";
import * as api from "./api.js";
import * as state from "./state.js";
import { confirm } from "./confirm.js";
import { notify } from "./notices.js";
import { load, save } from "./storage.js";

const PART = 100;
let listed = [];
let total = 0;
let loading = null;
let after = () => {};
const names = new Map(Object.entries(load("names", {}))); // id -> name, for chosen documents that are not in the list yet

export function setUpDocuments(changed) {
  after = changed;
  $("document-search").addEventListener("input", debounced(() => loadDocuments(), 120));
  const list = $("documents");
  list.addEventListener("scroll", () => {
    const near = list.scrollTop + list.clientHeight > list.scrollHeight - 300;
    if (near && listed.length < total && !loading) loadDocuments({ onward: true });
  });
}

/** onward: the next part of a long list, instead of its beginning */
export async function loadDocuments({ onward = false } = {}) {
  loading?.abort();
  const mine = new AbortController();
  loading = mine;
  const { collection } = state.get();
  const wanted = { collection, q: $("document-search").value.trim(), limit: PART, offset: onward ? listed.length : 0 };
  try {
    const part = await api.documents(wanted, mine.signal);
    if (loading !== mine) return;
    listed = onward ? [...listed, ...part.documents] : part.documents;
    total = part.total;
    for (const one of part.documents) names.set(one.id, one.document);
    drawDocuments();
  } catch (error) {
    // The main part says what is wrong with the server; a list that is out of date is no news beside it.
    if (error.kind === "problem" && error.status !== 401) notify(error.message, "bad");
  } finally {
    if (loading === mine) loading = null;
  }
}

/** Ticks as the state says; lines stay, and with them the keyboard's place. */
export function followDocuments() {
  const chosen = new Set(state.get().documents);
  for (const line of $("documents").querySelectorAll(".document")) line.querySelector("input").checked = chosen.has(line.dataset.id);
  drawChosen(chosen);
}

/** A copied link names documents by id, and a long list may not have reached them yet: the hits know their names. */
export function learnNames(hits) {
  const unknown = state.get().documents.filter((id) => !names.has(id));
  for (const hit of hits) names.set(hit.document_id, hit.document);
  if (unknown.some((id) => names.has(id))) drawChosen(new Set(state.get().documents));
}

function drawDocuments() {
  const chosen = new Set(state.get().documents);
  $("document-count").textContent = total ? total.toLocaleString("en") : "";
  const searching = $("document-search").value.trim();
  const empty = searching ? `No document's name has “${searching}” in it.` : "Nothing here yet.";
  $("documents").replaceChildren(
    ...(listed.length ? listed.map((one) => line(one, chosen.has(one.id))) : [h("li", { class: "none" }, empty)]),
  );
  drawChosen(chosen);
}

function line(one, checked) {
  const box = h("input", { type: "checkbox", on: { change: () => choose(one.id, box.checked) } });
  box.checked = checked;
  const told = Object.entries(one.metadata ?? {}).map(([key, value]) => `${key}: ${value}`).join(", ");
  return h(
    "li",
    { class: "document", data: { id: one.id } },
    h(
      "label",
      { title: told ? `${one.document} (${told})` : one.document },
      box,
      h("span", { class: "document-name" }, one.document),
      h("span", { class: "document-pages" }, String(one.pages), h("span", { class: "sr" }, one.pages === 1 ? " page" : " pages")),
    ),
    h(
      "button",
      { type: "button", class: "icon-button delete", "aria-label": `Delete ${one.document}`, on: { click: () => remove(one) } },
      icon("trash"),
    ),
  );
}

function choose(id, on) {
  const others = state.get().documents.filter((one) => one !== id);
  const documents = on ? [...others, id] : others;
  save("names", Object.fromEntries(documents.map((one) => [one, names.get(one) ?? one])));
  state.set({ documents, k: state.FIRST }, { push: true });
}

/** The pressed button goes: the focus needs another place. */
function drop(ids) {
  state.set({ documents: state.get().documents.filter((id) => !ids.includes(id)), k: state.FIRST }, { push: true });
  $("document-search").focus();
}

function drawChosen(chosen) {
  const row = $("chosen");
  row.hidden = !chosen.size;
  row.replaceChildren(
    ...[...chosen].map((id) =>
      h(
        "button",
        { type: "button", class: "pill", "aria-label": `Search not only in ${names.get(id) ?? id}`, on: { click: () => drop([id]) } },
        h("span", {}, names.get(id) ?? id),
        icon("close"),
      ),
    ),
    h("button", { type: "button", class: "link", on: { click: () => drop(state.get().documents) } }, "Clear"),
  );
}

async function remove(one) {
  const sure = await confirm({
    title: "Delete this document?",
    text: `${one.document} and its ${plural(one.pages, "page")} leave the collection. This cannot be undone.`,
    act: "Delete",
  });
  if (!sure) return;
  try {
    const gone = await api.removeDocument(one.id, state.get().collection);
    notify(`${gone.document ?? one.document} was deleted, ${plural(gone.pages ?? one.pages, "page")}.`);
    state.set({ documents: state.get().documents.filter((id) => id !== one.id) });
    await loadDocuments();
    after();
  } catch (error) {
    notify(error.message, "bad");
  }
}
