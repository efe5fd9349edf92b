// What the page shows, kept in the address, so that reload, back and a copied link work.

export const FIRST = 10; // answers before "More"

// collection  name; null: the first
// documents   ids; none: all
// page        id of the page in the viewer
// variant     reading whose heatmap is shown, from 0; null: the one that won
// word        query word whose heatmap is shown, from 0; null: all
let current = read();
const listeners = [];

export const get = () => current;

export function onChange(listener) {
  listeners.push(listener);
}

/** Changes some of it. push: a new step for the back button; otherwise the present step is rewritten. */
export function set(patch, { push = false } = {}) {
  const before = current;
  current = { ...current, ...patch };
  const address = write(current);
  if (address !== location.pathname + location.search) {
    if (push) history.pushState({ opened: Boolean(patch.page) }, "", address);
    else history.replaceState(history.state, "", address);
  }
  tell(before);
}

/** Whether this step opened the viewer, so that closing it may go one back. */
export const openedHere = () => Boolean(history.state?.opened);

/** What decides the answer: when it changes, the search runs again. */
export const searchKey = (s) => JSON.stringify([s.collection, s.query, s.documents, s.where, s.hybrid, s.k]);

addEventListener("popstate", () => {
  const before = current;
  current = read();
  tell(before);
});

function tell(before) {
  for (const listener of listeners) listener(current, before);
}

function read() {
  const p = new URLSearchParams(location.search);
  return {
    collection: p.get("collection"),
    query: p.get("q") ?? "",
    documents: p.getAll("document"),
    where: p.get("where") ?? "",
    hybrid: p.has("hybrid"),
    k: Math.min(100, Math.max(FIRST, number(p.get("k")) ?? FIRST)),
    page: p.get("page"),
    heat: p.has("heat"),
    variant: number(p.get("reading"), 1),
    word: number(p.get("word"), 1),
    layout: p.get("layout") === "grid" ? "grid" : "list",
  };
}

/** Counted from 1 in the address, from 0 inside. */
function number(text, from = 0) {
  return text !== null && /^\d{1,4}$/.test(text) && Number(text) >= from ? Number(text) - from : null;
}

function write(s) {
  const p = new URLSearchParams();
  if (s.collection) p.set("collection", s.collection);
  if (s.query) p.set("q", s.query);
  for (const id of s.documents) p.append("document", id);
  if (s.where) p.set("where", s.where);
  if (s.hybrid) p.set("hybrid", "1");
  if (s.k !== FIRST) p.set("k", String(s.k));
  if (s.layout !== "list") p.set("layout", s.layout);
  if (s.heat) p.set("heat", "1");
  if (s.variant !== null) p.set("reading", String(s.variant + 1));
  if (s.word !== null) p.set("word", String(s.word + 1));
  if (s.page) p.set("page", s.page);
  const text = p.toString();
  return location.pathname + (text ? "?" + text : "");
}
