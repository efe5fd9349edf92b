// On a narrow screen the documents and filters are a drawer.
import { $ } from "./dom.js";

const narrow = matchMedia("(max-width: 860px)");
const isOpen = () => document.body.classList.contains("side-open");

export function setUpSide() {
  $("open-documents").addEventListener("click", () => (isOpen() ? closeSide() : openSide()));
  $("close-documents").addEventListener("click", closeSide);
  $("side").addEventListener("keydown", (event) => event.key === "Escape" && isOpen() && closeSide());
  narrow.addEventListener("change", () => toggle(false));
}

export function openSide() {
  if (narrow.matches) toggle(true);
  $("document-search").focus();
}

export function closeSide() {
  toggle(false);
  $("open-documents").focus();
}

function toggle(open) {
  document.body.classList.toggle("side-open", open);
  $("main").inert = open;
  $("open-documents").setAttribute("aria-expanded", String(open));
}
