// Short messages that go by themselves; a bad one stays until it is read.
import { h } from "./dom.js";
import { icon } from "./icons.js";

// A popover: above an open viewer, too.
const shelf = h("div", { class: "notices", role: "status", "aria-live": "polite", popover: "manual" });
document.body.append(shelf);

export function notify(text, kind = "good") {
  const close = h("button", { type: "button", class: "icon-button", "aria-label": "Dismiss", on: { click: () => note.remove() } }, icon("close"));
  const note = h("div", { class: `notice ${kind}` }, icon(kind === "bad" ? "warning" : "check"), h("span", {}, text), close);
  if (shelf.matches(":popover-open")) shelf.hidePopover();
  shelf.showPopover();
  shelf.append(note);
  while (shelf.children.length > 3) shelf.firstChild.remove();
  if (kind !== "bad") setTimeout(() => note.remove(), 5000);
}
