// Recent questions under the box: arrow keys choose, Enter asks, Delete forgets one.
import { $, h } from "./dom.js";
import { icon } from "./icons.js";
import { load, save } from "./storage.js";

const KEPT = 30;
const SHOWN = 7;
let at = -1; // the chosen line; -1: what was typed
let typed = "";

export function recentQueries() {
  const kept = load("recent", []);
  return Array.isArray(kept) ? kept.filter((one) => typeof one === "string" && one.trim()) : [];
}

export function remember(query) {
  const line = query.trim();
  if (line) save("recent", [line, ...recentQueries().filter((one) => one !== line)].slice(0, KEPT));
}

function forget(query) {
  save("recent", recentQueries().filter((one) => one !== query));
}

export function setUpRecent(ask) {
  const input = $("query");
  const list = $("recent");
  const draw = (part) => {
    const fitting = recentQueries().filter((one) => one.toLowerCase().includes(part) && one.toLowerCase() !== part);
    list.replaceChildren(
      ...fitting.slice(0, SHOWN).map((query, i) =>
        h(
          "li",
          {
            role: "option", id: `recent-${i}`, "aria-selected": "false", data: { query },
            on: {
              pointerdown: (event) => event.preventDefault(), // the box keeps the focus
              click: () => { close(); ask(query); },
            },
          },
          icon("clock"),
          h("span", {}, query),
        ),
      ),
    );
    list.hidden = !list.children.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    at = -1;
    input.removeAttribute("aria-activedescendant");
  };
  const close = () => {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const openAll = () => { typed = input.value; draw(""); };
  const move = (by) => {
    if (list.hidden) openAll();
    if (list.hidden) return;
    const lines = [...list.children];
    at = at + by < -1 ? lines.length - 1 : at + by >= lines.length ? -1 : at + by;
    lines.forEach((line, i) => line.setAttribute("aria-selected", String(i === at)));
    input.value = at < 0 ? typed : lines[at].dataset.query;
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", lines[at].id);
  };
  input.addEventListener("input", () => { typed = input.value; draw(typed.trim().toLowerCase()); });
  input.addEventListener("click", openAll);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") {
      event.preventDefault(); // a search box would empty itself
      if (list.hidden) input.blur();
      close();
    } else if (event.key === "Delete" && at >= 0) {
      event.preventDefault();
      forget(list.children[at].dataset.query);
      draw("");
    }
  });
  return close;
}
