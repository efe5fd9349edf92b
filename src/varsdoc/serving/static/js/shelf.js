// Without a question: the documents as covers; without documents: an invitation.
import { h, plural } from "./dom.js";
import { icon } from "./icons.js";
import * as api from "./api.js";
import * as state from "./state.js";
import { recentQueries } from "./recent.js";
import { say, showElement, showState } from "./results.js";
import { chooseFiles } from "./upload.js";
import { collectionFacts } from "./collections.js";
import { untilThere } from "./waiting.js";

const COVERS = 60;

export async function showShelf() {
  const { collection } = state.get();
  let listed;
  try {
    listed = await api.documents({ collection, limit: COVERS });
  } catch (error) {
    return broken(error);
  }
  if (state.get().query.trim()) return; // a question came first
  if (!listed.total) return invite();
  const key = JSON.stringify(listed.documents);
  const there = document.querySelector(".shelf");
  if (there?.dataset.key === key) return;
  const facts = collectionFacts();
  const count = plural(listed.total, "document") + (facts?.pages ? `, ${plural(facts.pages, "page")}` : "");
  showElement(
    h(
      "div",
      { class: "shelf", data: { key } },
      h(
        "header",
        { class: "shelf-head" },
        h("h2", {}, "Ask your documents"),
        h("p", {}, `${count}. Pages are found by how they look: tables, charts, scans and forms included.`),
        recent(),
      ),
      h("ul", { class: "covers" }, listed.documents.map((one) => cover(one, collection))),
      listed.total > listed.documents.length
        ? h("p", { class: "end" }, `and ${plural(listed.total - listed.documents.length, "more document")} in the list`)
        : null,
    ),
  );
  say(count);
}

function recent() {
  const asked = recentQueries().slice(0, 5);
  if (!asked.length) return null;
  return h(
    "p",
    { class: "recent-row" },
    asked.map((query) =>
      h("button", { type: "button", class: "pill", on: { click: () => state.set({ query }, { push: true }) } }, icon("clock"), query),
    ),
  );
}

function cover(one, collection) {
  const open = () => state.set({ page: one.cover }, { push: true });
  const image = one.cover
    ? h("img", {
        src: api.cover(one.cover, collection, 320), alt: "", loading: "lazy", decoding: "async",
        on: { load: (event) => event.target.classList.add("loaded") },
      })
    : icon("file");
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: "cover", "aria-label": `Open ${one.document}, ${plural(one.pages, "page")}`, on: { click: open } },
      h("span", { class: one.pages > 1 ? "cover-desk stack" : "cover-desk" }, image),
      h("span", { class: "cover-name", title: one.document }, one.document),
      h("span", { class: "cover-pages" }, plural(one.pages, "page")),
    ),
  );
}

export function invite() {
  const closed = collectionFacts()?.read_only;
  showState({
    name: "empty", image: "upload", title: closed ? "This collection is empty" : "Drop documents here",
    text: closed
      ? "The server was started read-only: add documents with varsdoc index."
      : "PDFs, office files, scans and pictures. They are read page by page, here on this machine, and can be searched as soon as they are in.",
    actions: closed ? [] : [["Choose files", chooseFiles, true]],
  });
}

function broken(error) {
  if (error.kind === "aborted") return;
  const gone = error.kind === "gone";
  showState({
    name: gone ? "gone" : "error", image: gone ? "plug" : "warning",
    title: gone ? "The server does not answer" : error.title || "The documents could not be listed",
    text: gone ? "Is varsdoc serve still running? This page looks again every few seconds." : error.message,
    actions: [["Retry now", showShelf, true]],
  });
  const mine = document.querySelector(".state");
  if (gone) untilThere(() => mine.isConnected).then((there) => there && showShelf());
}
