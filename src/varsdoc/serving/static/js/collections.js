// Which collections are served, and the choice between them.
import { $, h, plural } from "./dom.js";
import * as api from "./api.js";
import * as state from "./state.js";

let known = [];

export async function loadCollections() {
  known = (await api.collections()).collections;
  draw();
}

/** Of the chosen collection: {name, documents, pages, variants, read_only, ...}; null before it is known */
export function collectionFacts() {
  const wanted = state.get().collection;
  return (wanted ? known.find((one) => one.name === wanted) : known[0]) ?? null;
}

function draw() {
  const select = $("collection");
  select.hidden = known.length < 2;
  select.replaceChildren(
    ...known.map((one) => h("option", { value: one.name }, `${one.name} (${plural(one.pages, "page")})`)),
  );
  followCollection();
}

export function followCollection() {
  const facts = collectionFacts();
  if (!facts) return; // the page begins as read-only: no button is offered that may have to go again
  $("collection").value = facts.name;
  document.body.classList.toggle("read-only", facts.read_only);
}

export function setUpCollections() {
  $("collection").addEventListener("change", (event) => {
    const first = known[0]?.name === event.target.value;
    state.set({ collection: first ? null : event.target.value, documents: [], page: null }, { push: true });
  });
}
